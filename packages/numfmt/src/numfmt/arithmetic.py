"""Correctly rounded addition, subtraction, multiplication, division, square root and fused multiply-add in any format.

Operands are any numbers that float64 holds; they need not be values of the format. The exact result is rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from numfmt import errorfree
from numfmt._apply import fits_float32
from numfmt._bits import significant_bits
from numfmt._inputs import as_array, as_carrier
from numfmt._random import Seed
from numfmt._rounded import RandomWords, RoundedArithmetic
from numfmt.errorfree import CARRIER_PRECISION, Carried
from numfmt.formats import FP32, FloatFormat
from numfmt.rounding import OverflowPolicy, RoundingMode

Float64Array = NDArray[np.float64]
Float32Array = NDArray[np.float32]

# Elements that are worked on at once, so that intermediates stay in the cache.
_BLOCK = 1 << 14

# Results between these have residuals whose size, not only whose sign, is that of what was lost.
_WELL_ABOVE, _WELL_BELOW = 2.0**-959, 2.0**999

# float64 numbers midway between two normal float32 numbers end in these 29 bits.
FLOAT32_TAIL = np.int64((1 << 29) - 1)
FLOAT32_MIDWAY = np.int64(1 << 28)
FLOAT32_MIN_NORMAL = 2.0**-126


def _broadcast(operands: dict[str, Any]) -> tuple[int, ...]:
    """The common shape of operands."""
    try:
        return np.broadcast_shapes(*(np.shape(v) for v in operands.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {np.shape(v)}" for name, v in operands.items())
        raise ValueError(f"{' and '.join(operands)} must broadcast, got shapes {shapes}") from None


def _compute(
    operands: dict[str, ArrayLike],
    operation: Callable[..., Float64Array],
    fmt: FloatFormat,
    rounding: str | RoundingMode,
    seed: Seed,
    overflow: str | OverflowPolicy | None,
    nan: str | None,
    random_bits: int | None,
) -> Any:
    """Check operands, run an operation block by block, and give the result the type that goes with the operands.

    Args:
        operands: Operands by name.
        operation: (ops, random, *blocks) -> rounded block; blocks are one-dimensional and of one length.

    The other arguments are those of `add`.
    """
    ops = RoundedArithmetic(fmt, rounding, overflow, nan, random_bits)
    arrays = {name: as_array(value) for name, value in operands.items()}
    single = all(a.dtype == np.float32 for a in arrays.values()) and fits_float32(fmt)
    carriers = {name: as_carrier(a, name) for name, a in arrays.items()}
    shape = _broadcast(carriers)
    flat = [np.broadcast_to(c, shape).reshape(-1) for c in carriers.values()]
    words = RandomWords(seed, ops.random_bits) if ops.random_bits else None
    result = np.empty(flat[0].size, np.float32 if single else np.float64)
    for start in range(0, result.size, _BLOCK):
        blocks = [f[start : start + _BLOCK] for f in flat]
        random = words.take(0, start, blocks[0].shape) if words else None
        result[start : start + _BLOCK] = operation(ops, random, *blocks)
    return result.reshape(shape)[()]


def _add(ops: RoundedArithmetic, random: NDArray[np.uint32] | None, a: Float64Array, b: Float64Array) -> Float64Array:
    return ops.add(a, b, max(significant_bits(a), significant_bits(b)), random)


def _subtract(
    ops: RoundedArithmetic, random: NDArray[np.uint32] | None, a: Float64Array, b: Float64Array
) -> Float64Array:
    return _add(ops, random, a, -b)


def rounded_product(
    ops: RoundedArithmetic, random: NDArray[np.uint32] | None, a: Float64Array, b: Float64Array
) -> Float64Array:
    """r(a·b) for blocks of one shape; random as `RoundedArithmetic.finish` takes it."""
    product = exact_product(a, b)
    if product is not None:
        return ops.round(product, random)
    return _finish(ops, random, errorfree.multiply(a, b), lambda x, y: x * y, a, b)


def _divide(
    ops: RoundedArithmetic, random: NDArray[np.uint32] | None, a: Float64Array, b: Float64Array
) -> Float64Array:
    return _finish(ops, random, errorfree.divide(a, b), lambda x, y: x / y, a, b)


def _sqrt(ops: RoundedArithmetic, random: NDArray[np.uint32] | None, a: Float64Array) -> Float64Array:
    return ops.finish(errorfree.square_root(a), random)


def rounded_fma(
    ops: RoundedArithmetic, random: NDArray[np.uint32] | None, a: Float64Array, b: Float64Array, c: Float64Array
) -> Float64Array:
    """r(a·b + c) for blocks of one shape."""
    product = exact_product(a, b)
    if product is not None:
        return ops.add(product, c, max(significant_bits(product), significant_bits(c)), random)
    value, residual = errorfree.fused_multiply_add(a, b, c)
    if ops.mode.name == "down":
        # An exact zero is -0 unless product and c are zeros of one sign (IEEE 754-2019, section 6.3).
        product_negative = np.signbit(a) ^ np.signbit(b)
        both_zero = ((a == 0) | (b == 0)) & (c == 0)
        zero = (value == 0) & (residual == 0) & ~(both_zero & (product_negative == np.signbit(c)))
        value = np.where(zero, -0.0, value)
    return _finish(ops, random, Carried(value, residual), lambda x, y, z: x * y + z, a, b, c)


def _finish(
    ops: RoundedArithmetic,
    random: NDArray[np.uint32] | None,
    result: Carried,
    exactly: Callable[..., Fraction],
    *operands: Float64Array,
) -> Float64Array:
    """Round carried results; for formats as wide as float64 once more in rationals where the residual is but a sign.

    Where float64's range ends, `errorfree` knows no more than the sign of what was lost. Formats with two bits less
    than float64 need no more; others have to tell ties and subnormal results.
    """
    if ops.has_odd_bit:
        return ops.finish(result, random)
    size = np.abs(result.value)
    doubtful = (result.residual != 0) & ~((size >= _WELL_ABOVE) & (size <= _WELL_BELOW))
    rounded = ops.finish(Carried(result.value, np.where(doubtful, 0.0, result.residual)), random)
    if doubtful.any():
        numbers = zip(*(np.broadcast_to(x, size.shape)[doubtful].tolist() for x in operands), strict=True)
        exact = np.array([exactly(*map(Fraction, n)) for n in numbers], object)
        rounded[doubtful] = ops.fmt.round(exact, ops.mode, overflow=ops.policy, nan=ops.nan)
    return rounded


def exact_product(a: Float64Array, b: Float64Array) -> Float64Array | None:
    """a·b where float64 holds every product exactly, else None."""
    if not products_are_exact(a, b):
        return None
    with np.errstate(invalid="ignore"):
        product: Float64Array = a * b
    return product


def products_are_exact(a: Float64Array, b: Float64Array) -> bool:
    """Whether float64 holds the product of any number of a with any number of b; infinities and NaN do not count."""
    if significant_bits(a) + significant_bits(b) > CARRIER_PRECISION:
        return False
    (a_least, a_largest), (b_least, b_largest) = _magnitudes(a), _magnitudes(b)
    # Exponents far from float64's ends; the comparison in logarithms cannot overflow itself.
    return a_largest + b_largest <= 1000 and a_least + b_least >= -960


def _magnitudes(x: Float64Array) -> tuple[int, int]:
    """Binary exponents of the least nonzero and the largest finite magnitude of an array; zeros for none."""
    size = np.abs(x)
    counted = np.isfinite(size) & (size > 0)
    largest = float(np.max(size, where=counted, initial=0.0))
    least = float(np.min(size, where=counted, initial=np.inf))
    return (int(np.frexp(least)[1]), int(np.frexp(largest)[1])) if largest else (0, 0)


def add(
    a: ArrayLike,
    b: ArrayLike,
    fmt: FloatFormat,
    rounding: str | RoundingMode = "nearest_even",
    seed: Seed = None,
    *,
    overflow: str | OverflowPolicy | None = None,
    nan: str | None = None,
    random_bits: int | None = None,
) -> Any:
    """a + b, rounded once to a format.

    Args:
        a: Real numbers that float64 holds exactly; need not be values of the format. Not modified.
        b: Likewise; the operands broadcast.
        fmt: Format of the result.
        rounding: Rounding mode, as for `FloatFormat.round`.
        seed: For stochastic rounding: integer, `numpy.random.Generator`, or None for fresh entropy.
        overflow: Overflow policy; None is the format's own.
        nan: What NaN becomes in a format without NaN; None makes it an error.
        random_bits: Random bits of stochastic modes; None takes as many as fit, at most 32.

    Returns:
        Values of the format, in the operands' common shape (a scalar for scalars): float32 if all operands are
        float32 and float32 holds the format, else float64. Zeros have IEEE 754's signs.

    Raises:
        ValueError: For shapes that do not broadcast, unknown names, numbers that float64 does not hold.
        TypeError: For complex, string or object arrays.
    """
    return _compute({"a": a, "b": b}, _add, fmt, rounding, seed, overflow, nan, random_bits)


def sub(
    a: ArrayLike,
    b: ArrayLike,
    fmt: FloatFormat,
    rounding: str | RoundingMode = "nearest_even",
    seed: Seed = None,
    *,
    overflow: str | OverflowPolicy | None = None,
    nan: str | None = None,
    random_bits: int | None = None,
) -> Any:
    """a - b, rounded once to a format.

    Args:
        a: Real numbers, as for `add`.
        b: What is subtracted; the operands broadcast.
        fmt: Format of the result.
        rounding: Rounding mode, as for `add`, and likewise the other arguments.
        seed: For stochastic rounding.
        overflow: Overflow policy.
        nan: What NaN becomes in a format without NaN.
        random_bits: Random bits of stochastic modes.

    Returns:
        Values of the format, shape and dtype as for `add`.

    Raises:
        ValueError: As for `add`.
        TypeError: As for `add`.
    """
    return _compute({"a": a, "b": b}, _subtract, fmt, rounding, seed, overflow, nan, random_bits)


def mul(
    a: ArrayLike,
    b: ArrayLike,
    fmt: FloatFormat,
    rounding: str | RoundingMode = "nearest_even",
    seed: Seed = None,
    *,
    overflow: str | OverflowPolicy | None = None,
    nan: str | None = None,
    random_bits: int | None = None,
) -> Any:
    """a·b, rounded once to a format.

    Args:
        a: Real numbers, as for `add`.
        b: The other factors; the operands broadcast.
        fmt: Format of the result.
        rounding: Rounding mode, as for `add`, and likewise the other arguments.
        seed: For stochastic rounding.
        overflow: Overflow policy.
        nan: What NaN becomes in a format without NaN.
        random_bits: Random bits of stochastic modes.

    Returns:
        Values of the format, shape and dtype as for `add`.

    Raises:
        ValueError: As for `add`.
        TypeError: As for `add`.
    """
    return _compute({"a": a, "b": b}, rounded_product, fmt, rounding, seed, overflow, nan, random_bits)


def div(
    a: ArrayLike,
    b: ArrayLike,
    fmt: FloatFormat,
    rounding: str | RoundingMode = "nearest_even",
    seed: Seed = None,
    *,
    overflow: str | OverflowPolicy | None = None,
    nan: str | None = None,
    random_bits: int | None = None,
) -> Any:
    """a/b, rounded once to a format.

    x/0 is an infinity or NaN as in IEEE 754; the overflow policy then treats that infinity like any other.

    Args:
        a: Numerators, as for `add`.
        b: Denominators; the operands broadcast.
        fmt: Format of the result.
        rounding: Rounding mode, as for `add`, and likewise the other arguments.
        seed: For stochastic rounding.
        overflow: Overflow policy.
        nan: What NaN becomes in a format without NaN.
        random_bits: Random bits of stochastic modes.

    Returns:
        Values of the format, shape and dtype as for `add`.

    Raises:
        ValueError: As for `add`.
        TypeError: As for `add`.
    """
    return _compute({"a": a, "b": b}, _divide, fmt, rounding, seed, overflow, nan, random_bits)


def sqrt(
    a: ArrayLike,
    fmt: FloatFormat,
    rounding: str | RoundingMode = "nearest_even",
    seed: Seed = None,
    *,
    overflow: str | OverflowPolicy | None = None,
    nan: str | None = None,
    random_bits: int | None = None,
) -> Any:
    """The square root of a, rounded once to a format; NaN below zero.

    Args:
        a: Real numbers, as for `add`.
        fmt: Format of the result.
        rounding: Rounding mode, as for `add`, and likewise the other arguments.
        seed: For stochastic rounding.
        overflow: Overflow policy.
        nan: What NaN becomes in a format without NaN.
        random_bits: Random bits of stochastic modes.

    Returns:
        Values of the format, shape and dtype as for `add`.

    Raises:
        ValueError: As for `add`.
        TypeError: As for `add`.
    """
    return _compute({"a": a}, _sqrt, fmt, rounding, seed, overflow, nan, random_bits)


def fma(
    a: ArrayLike,
    b: ArrayLike,
    c: ArrayLike,
    fmt: FloatFormat,
    rounding: str | RoundingMode = "nearest_even",
    seed: Seed = None,
    *,
    overflow: str | OverflowPolicy | None = None,
    nan: str | None = None,
    random_bits: int | None = None,
) -> Any:
    """a·b + c, rounded once to a format (fused multiply-add).

    float32 operands with `fmt=FP32` and nearest even take a fast path of a few nanoseconds per element; it gives the
    bits of a hardware FMA with subnormals (the sign and payload of NaN aside).

    Args:
        a: Factors, as for `add`.
        b: The other factors.
        c: What is added to the exact product; the three broadcast.
        fmt: Format of the result.
        rounding: Rounding mode, as for `add`, and likewise the other arguments.
        seed: For stochastic rounding.
        overflow: Overflow policy.
        nan: What NaN becomes in a format without NaN.
        random_bits: Random bits of stochastic modes.

    Returns:
        Values of the format, shape and dtype as for `add`.

    Raises:
        ValueError: As for `add`.
        TypeError: As for `add`.
    """
    if fmt == FP32 and rounding == "nearest_even" and overflow is None:
        x, y, z = as_array(a), as_array(b), as_array(c)
        if x.dtype == y.dtype == z.dtype == np.float32:
            return _fma_float32_in_blocks(x, y, z)[()]
    return _compute({"a": a, "b": b, "c": c}, rounded_fma, fmt, rounding, seed, overflow, nan, random_bits)


def _fma_float32_in_blocks(a: Float32Array, b: Float32Array, c: Float32Array) -> Float32Array:
    """`fma_float32` along the first axis in pieces whose intermediates stay in the cache."""
    shape = _broadcast({"a": a, "b": b, "c": c})
    size = int(np.prod(shape, dtype=np.int64))
    if size <= 2 * _BLOCK:
        return fma_float32(a, b, c)
    step = max(1, _BLOCK * shape[0] // size)
    x, y, z = (np.broadcast_to(v, shape) for v in (a, b, c))
    result = np.empty(shape, np.float32)
    for start in range(0, shape[0], step):
        rows = slice(start, start + step)
        result[rows] = fma_float32(x[rows], y[rows], z[rows])
    return result


def fma_float32(a: Float32Array, b: Float32Array, c: Float32Array) -> Float32Array:
    """Correctly rounded float32 a·b + c, nearest even, in a few passes.

    The product of two float32 numbers is exact in float64, so only the sum is rounded twice. That goes wrong
    only where the float64 sum lies midway between two float32 numbers, or is so small that float32 has fewer bits;
    these few are rounded to odd first.

    Args:
        a: float32 array.
        b: float32 array.
        c: float32 array; the three broadcast.

    Returns:
        float32 array of their common shape.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        product = np.multiply(a.astype(np.float64), b.astype(np.float64))
        wide_c = c.astype(np.float64)
        total = np.asarray(product + wide_c)
        result: Float32Array = total.astype(np.float32)
        doubtful = (total.view(np.int64) & FLOAT32_TAIL) == FLOAT32_MIDWAY
        size = np.abs(result)
        if not size.size or not size.min() >= FLOAT32_MIN_NORMAL:
            # A zero is exact unless it is one of float32 only.
            doubtful |= (size < FLOAT32_MIN_NORMAL) & (total != 0.0)
        if doubtful.any():
            exact = errorfree.two_sum(
                np.broadcast_to(product, total.shape)[doubtful], np.broadcast_to(wide_c, total.shape)[doubtful]
            )
            result[doubtful] = errorfree.to_odd(*exact).astype(np.float32)
    return result
