"""Copies of matrices as the copy engine takes them, at the memory's speed: transposed, or with rows moved apart."""

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


# Several rows per program were up to 30 % slower, one row in longer pieces as fast.
_ROWS, _WORDS = 1, 512


@triton.jit
def pad_kernel(
    x_ptr, out_ptr, R, C, stride_r, stride_out, HALVES: tl.constexpr, ROWS: tl.constexpr, WORDS: tl.constexpr
):
    """out[r, c] = x[r, c], in words of 4 bytes; rows of out begin at multiples of them.

    HALVES: elements have 2 bytes, so that rows of x may begin in the middle of a word: each word of the result is then
    two halves of neighbours. The cache is left to out, which is read next.
    """
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    w = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
    r64 = r.to(tl.int64)
    if HALVES:
        live = (r < R)[:, None] & (2 * w < C)[None, :]
        both = live & (2 * w + 1 < C)[None, :]
        block = tl.program_id(0)
        if (block == 0) | (block == tl.num_programs(0) - 1):
            # The words of the first and of the last row reach beyond the matrix.
            halves = x_ptr.to(tl.pointer_type(tl.uint16), bitcast=True) + r64[:, None] * stride_r + 2 * w[None, :]
            first = tl.load(halves, mask=live).to(tl.uint32)
            x = first | tl.load(halves + 1, mask=both, other=0).to(tl.uint32) << 16
        else:
            address = x_ptr.to(tl.int64)
            begin = (address >> 1 & 1) + r64 * stride_r
            odd = ((begin & 1) != 0)[:, None]
            at = (address & -4).to(tl.pointer_type(tl.uint32)) + (begin >> 1)[:, None] + w[None, :]
            first = tl.load(at, mask=live, eviction_policy="evict_first")
            second = tl.load(at + 1, mask=both & odd, other=0, eviction_policy="evict_first")
            x = tl.where(odd, first >> 16 | second << 16, first)
        to = out_ptr.to(tl.pointer_type(tl.uint32), bitcast=True) + r64[:, None] * (stride_out // 2) + w[None, :]
    else:
        live = (r < R)[:, None] & (w < C)[None, :]
        x = tl.load(x_ptr + r64[:, None] * stride_r + w[None, :], mask=live, eviction_policy="evict_first")
        to = out_ptr + r64[:, None] * stride_out + w[None, :]
    tl.store(to, x, mask=live)


def pad(x: Any, out: Any) -> None:
    """Writes x into rows that lie further apart.

    Args:
        x: (R, C) CUDA tensor with contiguous rows of elements of 2 or 4 bytes.
        out: (R, >= C) tensor of its type, whose rows begin at multiples of 4 bytes and have room for an even number of
            elements, all of which may be written to.
    """
    R, C = x.shape
    halves = x.element_size() == 2
    grid = (triton.cdiv(R, _ROWS), triton.cdiv(C, _WORDS * (2 if halves else 1)))
    launch(
        pad_kernel, grid, x, out, R, C, x.stride(0), out.stride(0), HALVES=halves, ROWS=_ROWS, WORDS=_WORDS, num_warps=4
    )
