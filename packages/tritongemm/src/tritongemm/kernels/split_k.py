"""K cut into parts that are summed side by side: for products with few outputs and long sums.

**Summation order.** K is cut at multiples of BLOCK_K into parts of equal length, the last one shorter. Each part is
summed from zero in the mode's own order and kept in the accumulator's type (fp32, fp64 for fp64 operands: never in
bf16); the parts are then added in ascending order, 0 + 1 + 2 + ..., by `finishing_kernel`. There are no atomics: every
run gives the same bits. numfmt calls this order `split_k(parts, inner, granularity=BLOCK_K)`.

**Bound.** That of a sum of one part's length, and one more rounding for every part but the first (`promise_split_k`):
shorter chains make the error smaller than the unsplit sum's as long as the parts are longer than there are parts.

**What the numbers mean.** The bits depend on the number of parts, which a caller would choose by the number of tiles:
that is why this kernel is not invariant, and is only taken with `invariant=False` or by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from tritongemm import launches
from tritongemm.configurations import Config
from tritongemm.elements import ELEMENTS, element_named, element_of, empty_like, values_of
from tritongemm.kernels.blocked import blocked_config, takes_blocked
from tritongemm.kernels.finishing import finish
from tritongemm.kernels.mainloop import sum_of_products
from tritongemm.kernels.problems import LARGEST_INT32, Operands, launch
from tritongemm.kernels.tiles import extent, tile_of, tiles_in
from tritongemm.modes import Mode, canonical
from tritongemm.promises import Promise, of_parts

Array = np.ndarray[Any, np.dtype[Any]]


@triton.jit
def split_k_kernel(
    a_ptr,
    b_ptr,
    M,
    N,
    K,
    stride_ab,
    stride_am,
    stride_ak,
    stride_bb,
    stride_bk,
    stride_bn,
    sums_ptr,
    batches,
    length,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
    IMPRECISE: tl.constexpr,
    PREPARE: tl.constexpr,
    PARTS: tl.constexpr,
    WIDE: tl.constexpr,
):
    """sums[part, batch, m, n] = the sum over k in [part·length, (part + 1)·length)."""
    tiles = tiles_in(M, N, BLOCK_M, BLOCK_N)
    row = tl.program_id(0) // tiles
    part = row // batches
    batch = (row % batches).to(tl.int64)
    tile_m, tile_n = tile_of(tl.program_id(0) % tiles, M, N, BLOCK_M, BLOCK_N, GROUP_M)
    m, live_m = extent(tile_m, M, BLOCK_M, WIDE)
    n, live_n = extent(tile_n, N, BLOCK_N, WIDE)
    first = part * length
    total = sum_of_products(
        a_ptr + batch * stride_ab, b_ptr + batch * stride_bb, m, n, live_m, live_n, first, min(first + length, K),
        stride_am, stride_ak, stride_bk, stride_bn,
        ACCUMULATOR, BLOCK_K, INPUT_PRECISION, IMPRECISE, PREPARE, PARTS, WIDE,
    )  # fmt: skip
    at = sums_ptr + row.to(tl.int64) * M * N + m[:, None] * N + n[None, :]
    tl.store(at, total, mask=live_m[:, None] & live_n[None, :])


def parts_of(K: int, splits: int, block_k: int) -> tuple[int, int]:
    """How many parts there are, none of them empty, and the length of all but the last.

    Args:
        K: Number of products.
        splits: Parts that are asked for.
        block_k: K is cut at multiples of this.
    """
    blocks = max(1, -(-K // block_k))
    each = -(-blocks // min(splits, blocks))
    return -(-blocks // each), each * block_k


def split_k(operands: Operands, config: Config) -> None:
    """A product by `split_k_kernel` and `finishing_kernel`; writes to its result.

    Args:
        operands: The product.
        config: Block sizes, warps, stages and `splits`.
    """
    if operands.empty:
        return
    parts, length = parts_of(operands.K, config.splits, config.block_k)
    M, N, batch = operands.M, operands.N, operands.batch
    sums = launches.workspace(empty_like(operands.out, (parts, batch, M, N), operands.accumulator))
    grid = (parts * batch * triton.cdiv(M, config.block_m) * triton.cdiv(N, config.block_n),)
    constants = {**operands.constants(config), **config.blocks}
    for name in ("SCALED", "ACTIVATION"):
        del constants[name]
    constants["WIDE"] = constants["WIDE"] or M * N > LARGEST_INT32
    launch(split_k_kernel, grid, operands, *operands.arguments(), sums, batch, length, **constants)
    finish(operands, sums)


def takes_split_k(operands: Operands, config: Config | None) -> bool:
    """Whether `split_k` computes a product."""
    return takes_blocked(operands, config)


def split_k_config(operands: Operands) -> Config:
    """A configuration with enough parts to keep a large GPU busy."""
    config = blocked_config(operands)
    tiles = operands.batch * triton.cdiv(operands.M, config.block_m) * triton.cdiv(operands.N, config.block_n)
    blocks = max(1, -(-operands.K // config.block_k))
    return config.changed(kernel="split_k", splits=max(1, min(blocks // 4, _BUSY // tiles)))


def split_k_bits(operands: Operands, config: Config) -> str:
    """The class of equal bits: the mode's own if there is one part only."""
    parts, length = parts_of(operands.K, config.splits, config.block_k)
    return "" if parts == 1 else f"split_k, {parts} parts of {length}"


# Programs that keep a large GPU busy: two for each of an H200's 132 multiprocessors.
_BUSY = 264


def predict_in_parts(mode: Mode, a: Any, b: Any, cuts: Sequence[int]) -> Array:
    """The accumulator's bits where K is cut and the parts are added in ascending order.

    Args:
        mode: The precision mode.
        a: (M, K) matrix.
        b: (K, N) matrix.
        cuts: Where parts begin, 0 included, ascending; the last part ends at K.
    """
    first, second = element_of(a, "a"), element_of(b, "b")
    return added_parts(mode, values_of(a, first), values_of(b, second), (first.name, second.name), cuts)


def added_parts(mode: Mode, x: Array, y: Array, types: tuple[str, str], cuts: Sequence[int]) -> Array:
    """`predict_in_parts` for values of the operands' types in wider arrays."""
    total: Array | None = None
    for low, high in zip(cuts, [*cuts[1:], x.shape[1]], strict=True):
        part = mode.predict(x[:, low:high], y[low:high], types=types)
        with np.errstate(over="ignore", invalid="ignore"):
            total = part if total is None else np.asarray(total + part)
    assert total is not None
    return canonical(np.asarray(total + total.dtype.type(0)))


def promise_split_k(mode: Mode, K: int, a_dtype: str, config: Config) -> Promise:
    """Bounds of the accumulator's error of `split_k` in a configuration.

    Args:
        mode: The precision mode.
        K: Number of products.
        a_dtype: Type of the operands.
        config: The configuration.
    """
    parts, length = parts_of(K, config.splits, config.block_k)
    return promise_in_parts(mode, min(K, length), parts, a_dtype)


def promise_in_parts(mode: Mode, longest: int, parts: int, a_dtype: str) -> Promise:
    """Bounds for sums that are cut into parts of at most `longest` products each."""
    accumulator = ELEMENTS[element_named(a_dtype, "a_dtype").accumulator]
    return of_parts(mode.promise(longest, a_dtype), parts, accumulator.format.unit_roundoff)


def predict_split_k(mode: Mode, a: Any, b: Any, config: Config) -> Array:
    """The accumulator's bits of `split_k` in a configuration; arguments as `predict_in_parts`'."""
    K = int(a.shape[1])
    parts, length = parts_of(K, config.splits, config.block_k)
    return predict_in_parts(mode, a, b, [part * length for part in range(parts)])
