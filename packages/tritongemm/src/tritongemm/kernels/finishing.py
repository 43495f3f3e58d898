"""From finished sums in memory to results: joins the partial sums of split products in a fixed order, and applies the
epilogue.

**Summation order.** Partial sums are added in ascending order of k, part 0 + part 1 + part 2 + ..., in the type of the
accumulator, by one program per tile: no atomics, so every run gives the same bits, and never in a narrower type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from tritongemm.elements import element_of, values_of, write_values
from tritongemm.kernels.epilogue import deliver
from tritongemm.kernels.problems import LARGEST_INT32, Operands, launch
from tritongemm.kernels.tiles import extent


@triton.jit
def finishing_kernel(
    sums_ptr,
    M,
    N,
    parts,
    stride_part,
    stride_batch,
    out_ptr,
    c_ptr,
    bias_ptr,
    scale_a_ptr,
    scale_b_ptr,
    stride_ob,
    stride_om,
    stride_on,
    stride_cb,
    stride_cm,
    stride_cn,
    stride_bias,
    stride_sa,
    stride_sb,
    alpha,
    beta,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SCALED: tl.constexpr,
    ACTIVATION: tl.constexpr,
    WIDE: tl.constexpr,
):
    """out = epilogue(sum over parts of sums[part, batch, m, n]); sums are contiguous along n and m."""
    columns = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * columns
    batch = (tl.program_id(0) // tiles).to(tl.int64)
    tile = tl.program_id(0) % tiles
    m, live_m = extent(tile // columns, M, BLOCK_M, WIDE)
    n, live_n = extent(tile % columns, N, BLOCK_N, WIDE)
    live = live_m[:, None] & live_n[None, :]
    at = sums_ptr + batch * stride_batch + m[:, None] * N + n[None, :]
    total = tl.load(at, mask=live, other=0.0)
    for _ in range(1, parts):
        at += stride_part
        total += tl.load(at, mask=live, other=0.0)
    deliver(
        total, batch, m, n, live_m, live_n, out_ptr, c_ptr, bias_ptr, scale_a_ptr, scale_b_ptr,
        stride_ob, stride_om, stride_on, stride_cb, stride_cm, stride_cn, stride_bias, stride_sa, stride_sb,
        alpha, beta, SCALED, ACTIVATION,
    )  # fmt: skip


_BLOCK_M, _BLOCK_N = 16, 128


def finish(operands: Operands, sums: Any) -> None:
    """Join partial sums and apply the product's epilogue.

    Args:
        operands: The product.
        sums: (parts, batch, M, N) contiguous partial sums in the accumulator's type.
    """
    M, N = operands.M, operands.N
    grid = (operands.batch * triton.cdiv(M, _BLOCK_M) * triton.cdiv(N, _BLOCK_N),)
    constants = {**operands.finishing(), "BLOCK_M": _BLOCK_M, "BLOCK_N": _BLOCK_N, "num_warps": 4}
    constants["WIDE"] = constants["WIDE"] or M * N > LARGEST_INT32
    sizes = (M, N, int(sums.shape[0]), operands.batch * M * N, M * N)
    launch(finishing_kernel, grid, operands, sums, *sizes, *operands.finishing_arguments(), **constants)


def finish_on_cpu(operands: Operands) -> None:
    """Compute a product on the CPU: sums by the mode's prediction, the epilogue by evaluating `finishing_kernel`."""
    elements = element_of(operands.a, "a"), element_of(operands.b, "b")
    a, b = (values_of(x, e) for x, e in zip((operands.a, operands.b), elements, strict=True))
    a, b = (x.reshape(operands.batch, *x.shape[-2:]) for x in (a, b))
    a, b = a[..., : operands.K], b[:, : operands.K]
    sums = np.stack([operands.mode.predict(x, y, types=operands.types) for x, y in zip(a, b, strict=True)])
    finish_sums(operands, sums)


def finish_sums(operands: Operands, sums: np.ndarray[Any, np.dtype[Any]]) -> None:
    """Apply a product's epilogue to finished sums on the CPU.

    Args:
        operands: The product.
        sums: (M, N) or (batch, M, N) sums in the accumulator's type.
    """
    if operands.epilogue.trivial:
        write_values(operands.out, sums.reshape(tuple(operands.out.shape)), element_of(operands.out, "out"))
        return
    whole = np.ascontiguousarray(sums).reshape(1, operands.batch, operands.M, operands.N)
    finish(operands, _like(operands.out, whole))


def _like(place: Any, values: np.ndarray[Any, np.dtype[Any]]) -> Any:
    from tritongemm.matrices import is_torch

    if is_torch(place):
        import torch

        return torch.from_numpy(values)
    return values
