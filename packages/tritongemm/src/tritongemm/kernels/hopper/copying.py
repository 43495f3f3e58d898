"""Copies a matrix so that its other axis is contiguous, at the memory's speed, through tiles that fit the registers."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from tritongemm.launches import launch

_TILE = 64


@triton.jit
def transpose_kernel(x_ptr, out_ptr, R, C, stride_r, stride_out, BLOCK: tl.constexpr):
    """out[c, r] = x[r, c]; rows of x and of out are contiguous."""
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = (r < R)[:, None] & (c < C)[None, :]
    x = tl.load(x_ptr + r.to(tl.int64)[:, None] * stride_r + c[None, :], mask=live)
    at = out_ptr + c.to(tl.int64)[:, None] * stride_out + r[None, :]
    tl.store(at, tl.trans(x), mask=(c < C)[:, None] & (r < R)[None, :])


def transpose(x: Any, out: Any) -> None:
    """Writes x's transpose.

    Args:
        x: (R, C) CUDA tensor with contiguous rows.
        out: (C, R) tensor of its type with contiguous rows.
    """
    R, C = x.shape
    grid = (triton.cdiv(R, _TILE), triton.cdiv(C, _TILE))
    # As integers: bits are moved, not numbers.
    kinds = {1: "int8", 2: "int16", 4: "int32"}
    import torch

    kind = getattr(torch, kinds[x.element_size()])
    launch(
        transpose_kernel, grid, x.view(kind), out.view(kind), R, C, x.stride(0), out.stride(0), BLOCK=_TILE, num_warps=4
    )
