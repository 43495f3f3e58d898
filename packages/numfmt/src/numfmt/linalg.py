"""Dot products and matrix products with every operation rounded to a format."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from numfmt import errorfree
from numfmt._bits import significant_bits
from numfmt._errors import unknown_name
from numfmt._inputs import as_carrier, normal_axis
from numfmt._random import Seed
from numfmt._rounded import RandomWords, RoundedArithmetic
from numfmt._summation import Columns, Method, Sequential
from numfmt.arithmetic import (
    FLOAT32_MIDWAY,
    FLOAT32_MIN_NORMAL,
    FLOAT32_TAIL,
    products_are_exact,
    rounded_fma,
    rounded_product,
)
from numfmt.formats import FP32, FloatFormat
from numfmt.rounding import OverflowPolicy, RoundingMode
from numfmt.sums import SumPlan, column_blocks, term_slices

Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
# (terms, first column, number of columns) -> the two factors of every product, each (terms, columns).
Factors = Callable[[slice, int, int], tuple[Float64Array, Float64Array]]

#: What happens to a product before it is added.
PRODUCTS: dict[str, str] = {
    "rounded": "rounded to the format, then added: one multiplication and one addition",
    "exact": "added as it is, as matrix units do; float64 must hold every product",
    "fma": "fused multiply-add: the exact product enters the addition, which is rounded once",
}

# Results of a float32 chain that are worked on at once: their float64 arrays stay in a core's second-level cache.
_CHAINS = 1 << 14

# The random stream of the products, away from those of the sums.
_PRODUCT_STREAM = 1 << 62


class _FmaChain:
    """s <- r(a·b + s), from +0; a block is (terms, 2, width): the factors of each product."""

    def __init__(self, ops: RoundedArithmetic, columns: Columns) -> None:
        self._ops, self._columns = ops, columns
        self._sum = np.zeros(columns.width)
        self._done = 0

    def add_block(self, x: Float64Array, bits: int) -> None:
        for a, b in x:
            self._sum = rounded_fma(self._ops, self._columns.random_row(0, self._done), a, b, self._sum)
            self._done += 1

    def total(self) -> Float64Array:
        return self._sum


_FMA_CHAIN = Method("sequential", "fused multiply-adds, one after the other", _FmaChain, lambda n: n)


def _plan_products(plan: SumPlan, product: str, exact: bool) -> tuple[SumPlan, str]:
    """The plan and the treatment of products that a call needs, given whether float64 holds every product."""
    if product not in PRODUCTS:
        raise ValueError(unknown_name("product", product, PRODUCTS))
    if product == "rounded":
        return plan, "rounded"
    if exact:
        return plan, "exact"
    if product == "fma" and plan.method.name == "sequential":
        return replace(plan, method=_FMA_CHAIN), "factors"
    raise ValueError(
        f"product={product!r} with method={plan.method.name!r} needs products that float64 holds exactly (factors of "
        "at most 26 bits, say); use product='fma' with method='sequential', or product='rounded'"
    )


def _sum_products(
    plan: SumPlan, treatment: str, words: RandomWords | None, terms: int, count: int, factors: Factors
) -> Float64Array:
    """`count` sums of `terms` products."""
    plan.compile(terms * count)
    result = np.empty(count)
    for first, width in column_blocks(count):
        columns = Columns(width, first, count, words)
        machine = plan.machine(columns)
        for rows in term_slices(terms, width):
            a, b = factors(rows, first, width)
            if treatment == "factors":
                machine.add_block(np.stack([a, b], axis=1), 0)
                continue
            if treatment == "rounded":
                random = columns.random(_PRODUCT_STREAM, rows.start, len(a))
                block = rounded_product(plan.ops, random, a, b)
            else:
                with np.errstate(invalid="ignore"):
                    block = a * b
            block = np.ascontiguousarray(block)
            machine.add_block(block, significant_bits(block))
        result[first : first + width] = machine.total()
    return result


def float32_fma_chain(a: Float32Array, b: Float32Array, c: Float32Array) -> Float32Array:
    """Batched matrix product of float32 numbers as chains of fused multiply-adds in ascending k.

    Every step is taken in float64, which holds the product and may round the sum; where that rounding could spoil the
    second one, to float32, the sum is rounded to odd instead (Boldo and Melquiond, Emulation of FMA and correctly
    rounded sums, 2008).

    Args:
        a: (G, M, K).
        b: (G, K, N).
        c: (G, M, N), what the chains start from. None of the three is modified.

    Returns:
        (G, M, N): c + sum over k of a[:, m, k]·b[:, k, n], rounded to float32 after every addition.
    """
    groups, rows, columns = c.shape
    depth = a.shape[2]
    if not depth or not c.size:
        return c.copy()
    smallest = 1.0
    for operand in (a, b):
        magnitudes = np.abs(operand)
        smallest *= float(np.min(magnitudes, where=magnitudes > 0, initial=1.0))
    # Products that are no multiples of 2^-178 could make an inexact sum below the normal range.
    check_small = smallest < 2.0**-131
    result = np.empty(c.shape, np.float32)
    step = max(1, _CHAINS // (rows * columns))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for start in range(0, groups, step):
            part = slice(start, start + step)
            left = np.ascontiguousarray(np.moveaxis(a[part], 2, 0), np.float64)[:, :, :, np.newaxis]
            right = np.ascontiguousarray(np.moveaxis(b[part], 1, 0), np.float64)[:, :, np.newaxis, :]
            accumulator = c[part].astype(np.float64)
            rounded = np.empty(accumulator.shape, np.float32)
            product, total = np.empty_like(accumulator), np.empty_like(accumulator)
            tail, doubtful = np.empty(accumulator.shape, np.int64), np.empty(accumulator.shape, bool)
            for k in range(depth):
                np.multiply(left[k], right[k], out=product)
                np.add(product, accumulator, out=total)
                np.bitwise_and(total.view(np.int64), FLOAT32_TAIL, out=tail)
                np.equal(tail, FLOAT32_MIDWAY, out=doubtful)
                if check_small:  # subnormal results lie midway elsewhere
                    np.logical_or(doubtful, (np.abs(total) < FLOAT32_MIN_NORMAL) & (total != 0), out=doubtful)
                if doubtful.any():
                    total[doubtful] = errorfree.to_odd(*errorfree.two_sum(product[doubtful], accumulator[doubtful]))
                np.copyto(rounded, total, casting="same_kind")
                np.copyto(accumulator, rounded)
            result[part] = rounded
    return result


def _float32_operands(plan: SumPlan, treatment: str, *operands: Float64Array) -> list[Float32Array] | None:
    """The operands as float32, where a product is a chain of IEEE's float32 fused multiply-adds, else None."""
    ops = plan.ops
    plain = ops.fmt == FP32 and ops.mode.name == "nearest_even" and ops.policy.name == "infinity"
    if treatment != "exact" or not plain or plan.chunk is not None or plan.method.make is not Sequential:
        return None
    with np.errstate(over="ignore"):
        narrow = [x.astype(np.float32) for x in operands]
    return narrow if all(np.array_equal(n, x) for n, x in zip(narrow, operands, strict=True)) else None


def _compiled_product(plan: SumPlan, treatment: str, a: Float64Array, b: Float64Array) -> Float64Array | None:
    """A matrix product of running sums by a compiled kernel, or None where there is none."""
    if plan.chunk is not None or not a.size or not b.size:
        return None
    ops = plan.ops
    ops.compile(a.shape[0] * b.size)
    if ops.compiled is None:
        return None
    if plan.method.make is not Sequential or not (treatment == "exact" or products_are_exact(a, b)):
        return None
    narrow = _float32_operands(plan, treatment, a, b)
    if narrow is not None:
        product: Float64Array = ops.compiled.float32_fma_product(*narrow).astype(np.float64)
        return product
    rounded = treatment == "rounded"
    bits = ops.fmt.precision if rounded else significant_bits(a) + significant_bits(b)
    return ops.compiled.matrix_product(a, b, rounded, bits)


def dot(
    a: ArrayLike,
    b: ArrayLike,
    fmt: FloatFormat,
    rounding: str | RoundingMode = "nearest_even",
    method: str = "sequential",
    chunk: int | None = None,
    seed: Seed = None,
    *,
    product: str = "rounded",
    axis: int = -1,
    promote_to: FloatFormat = FP32,
    fan_in: int | None = None,
    block: int | None = None,
    lanes: int | None = None,
    overflow: str | OverflowPolicy | None = None,
    nan: str | None = None,
    random_bits: int | None = None,
) -> Float64Array:
    """Dot products with every operation rounded to a format.

    Args:
        a: Factors, usually (T, K): T dot products of K terms; any real dtype that float64 holds exactly. Not modified.
        b: The other factors; a and b broadcast.
        fmt: Format of every product and partial sum.
        rounding: Rounding mode, as for `FloatFormat.round`.
        method: Order of the sum, as for `accumulate`.
        chunk: Promotion interval, as for `accumulate`.
        seed: For stochastic rounding, as for `accumulate`.
        product: ``"rounded"``: r(a·b) is added. ``"exact"``: the exact product is added, as in matrix units; float64
            must hold it. ``"fma"``: s = r(a·b + s); for products that float64 does not hold, with method sequential
            only.
        axis: The axis of the broadcast factors that is summed.
        promote_to: Format of the outer accumulator.
        fan_in: For methods ``tree`` and ``fused``.
        block: For method ``blocked``.
        lanes: For method ``lanes``.
        overflow: Overflow policy of every rounding; None is the format's own.
        nan: What NaN becomes in a format without NaN; None makes it an error.
        random_bits: Random bits of stochastic modes; None takes as many as fit, at most 32.

    Returns:
        float64 array of the common shape without `axis`.

    Raises:
        ValueError: For shapes that do not broadcast, unknown names, and as `accumulate`.
        TypeError: As `accumulate`.
    """
    plan = SumPlan.of(
        fmt,
        rounding,
        method,
        chunk,
        promote_to=promote_to,
        overflow=overflow,
        nan=nan,
        random_bits=random_bits,
        fan_in=fan_in,
        block=block,
        lanes=lanes,
    )
    x, y = as_carrier(a, "a"), as_carrier(b, "b")
    plan, treatment = _plan_products(plan, product, product != "rounded" and products_are_exact(x, y))
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        raise ValueError(f"a and b must broadcast, got shapes {x.shape} and {y.shape}") from None
    axis = normal_axis(axis, len(shape), "a and b")
    x, y = (np.moveaxis(np.broadcast_to(v, shape), axis, 0) for v in (x, y))
    outer = x.shape[1:]
    columns = math.prod(outer)
    x, y = (v.reshape(v.shape[0], columns) for v in (x, y))

    def factors(rows: slice, first: int, width: int) -> tuple[Float64Array, Float64Array]:
        return x[rows, first : first + width], y[rows, first : first + width]

    return _sum_products(plan, treatment, plan.words(seed), x.shape[0], columns, factors).reshape(outer)


def matmul(
    a: ArrayLike,
    b: ArrayLike,
    fmt: FloatFormat,
    rounding: str | RoundingMode = "nearest_even",
    method: str = "sequential",
    chunk: int | None = None,
    seed: Seed = None,
    *,
    product: str = "rounded",
    promote_to: FloatFormat = FP32,
    fan_in: int | None = None,
    block: int | None = None,
    lanes: int | None = None,
    overflow: str | OverflowPolicy | None = None,
    nan: str | None = None,
    random_bits: int | None = None,
) -> Float64Array:
    """Matrix product with every operation rounded to a format.

    For the matrix units of GPUs, which round differently, see `numfmt.matrix_units.matmul`.

    Args:
        a: (M, K) factors; any real dtype that float64 holds exactly. Not modified.
        b: (K, N) factors.
        fmt: Format of every product and partial sum.
        rounding: Rounding mode; this and the other arguments as for `dot`.
        method: Order of the sum.
        chunk: Promotion interval.
        seed: For stochastic rounding.
        product: ``"rounded"``, ``"exact"`` or ``"fma"``.
        promote_to: Format of the outer accumulator.
        fan_in: For methods ``tree`` and ``fused``.
        block: For method ``blocked``.
        lanes: For method ``lanes``.
        overflow: Overflow policy of every rounding.
        nan: What NaN becomes in a format without NaN.
        random_bits: Random bits of stochastic modes.

    Returns:
        (M, N) float64 array.

    Raises:
        ValueError: For shapes that do not match, unknown names, and as `accumulate`.
        TypeError: As `accumulate`.
    """
    plan = SumPlan.of(
        fmt,
        rounding,
        method,
        chunk,
        promote_to=promote_to,
        overflow=overflow,
        nan=nan,
        random_bits=random_bits,
        fan_in=fan_in,
        block=block,
        lanes=lanes,
    )
    x, y = as_carrier(a, "a"), as_carrier(b, "b")
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[0]:
        raise ValueError(f"a and b must be (M, K) and (K, N) matrices, got shapes {x.shape} and {y.shape}")
    plan, treatment = _plan_products(plan, product, product != "rounded" and products_are_exact(x, y))
    compiled = _compiled_product(plan, treatment, x, y)
    if compiled is not None:
        return compiled
    narrow = _float32_operands(plan, treatment, x, y)
    if narrow is not None:
        start = np.zeros((1, x.shape[0], y.shape[1]), np.float32)
        return np.asarray(float32_fma_chain(narrow[0][np.newaxis], narrow[1][np.newaxis], start)[0], np.float64)
    left = np.ascontiguousarray(x.T)
    rows_of_result, columns_of_result = x.shape[0], y.shape[1]

    def factors(rows: slice, first: int, width: int) -> tuple[Float64Array, Float64Array]:
        m, n = np.divmod(np.arange(first, first + width), columns_of_result)
        return left[rows].take(m, axis=1), y[rows].take(n, axis=1)

    count = rows_of_result * columns_of_result
    result = _sum_products(plan, treatment, plan.words(seed), x.shape[1], count, factors)
    return result.reshape(rows_of_result, columns_of_result)
