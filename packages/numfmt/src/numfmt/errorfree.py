"""Error-free transformations of float64 arithmetic, and results rounded to odd.

Every simulated operation of numfmt is correctly rounded: the exact sum, product, quotient, root or fused
multiply-add is rounded *once*, to the format and in the mode that is asked for. The route is the same for all of
them: compute the operation in float64 together with the sign of what float64 lost, turn the two into the float64
number *rounded to odd*, and round that to the format. Rounding to odd keeps, in the last bit, the fact that
something was cut off; a second rounding to at most 51 bits, in any mode, then gives what one rounding of the exact
value would have given (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", IEEE Trans. Comput.
57(4), 2008, theorem 1).

A `Carried` pair (value, residual) holds a float64 `value`, the exact result rounded to nearest even, and a `residual`
whose *sign* is that of exact - value (0: value is exact). `two_sum` and `two_prod` promise more, namely that the
residual is the error itself; elsewhere a residual of +-2^-1074 says that no more than the sign is known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]

# Bits of the float64 significand, and the largest finite float64 (its last bit is odd: it is also the value that
# rounding to odd gives for anything beyond it).
CARRIER_PRECISION = 53
CARRIER_MAX = float(np.finfo(np.float64).max)

# Veltkamp's constant for float64: splits 53 bits into 26 + 27.
_SPLITTER = 2.0**27 + 1.0

# Operands and products inside these limits can be split and multiplied without overflow, and the error of their
# product is a multiple of 2^-1074, so that it is exact.
_SPLIT_LIMIT = 2.0**990
_SMALLEST = 2.0**-1074
_PRODUCT_MIN = 2.0**-960
_PRODUCT_MAX = 2.0**1000

# An operand this many binary orders below another can only tip a rounding: its size does not matter, its sign does.
_NEGLIGIBLE = 400


class Carried(NamedTuple):
    """A float64 result and the sign of what it lost.

    Attributes:
        value: The exact result rounded to nearest even in float64.
        residual: Nonzero where `value` is inexact, with the sign of exact - value.
    """

    value: Float64Array
    residual: Float64Array


def two_sum(a: Float64Array, b: Float64Array) -> Carried:
    """The float64 sum of a and b and its exact error.

    Knuth's six-operation form, which needs no ordering of the operands (Muller et al., Handbook of Floating-Point
    Arithmetic, 2nd ed., algorithm 4.4).

    Args:
        a: float64 array.
        b: float64 array that broadcasts with `a`.

    Returns:
        (s, e) with s = fl(a + b) and s + e = a + b exactly, unless the sum overflows; e is NaN where s is not finite.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        s = a + b
        b_part = s - a
        e = (a - (s - b_part)) + (b - b_part)
    return Carried(s, e)


def split(a: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Veltkamp's splitting of float64 numbers into a high part of 26 bits and a low part, a = high + low exactly.

    Args:
        a: float64 array with magnitudes below 2^990.

    Returns:
        (high, low), each of at most 26 significant bits (Handbook of Floating-Point Arithmetic, algorithm 4.9).
    """
    c = _SPLITTER * a
    high = c - (c - a)
    return high, a - high


def two_prod(a: Float64Array, b: Float64Array) -> Carried:
    """The float64 product of a and b and its error.

    Dekker's algorithm (Handbook of Floating-Point Arithmetic, algorithm 4.10).

    Args:
        a: float64 array.
        b: float64 array that broadcasts with `a`.

    Returns:
        (p, e) with p = fl(a·b) and p + e = a·b exactly where |a|, |b| < 2^990 and the product is zero or lies in
        [2^-960, 2^1000]. `multiply` covers the rest.
    """
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        p = a * b
        a_high, a_low = split(a)
        b_high, b_low = split(b)
        e = a_low * b_low - (((p - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return Carried(p, e)


def products_are_easy(a: Float64Array, b: Float64Array, product: Float64Array) -> NDArray[np.bool_]:
    """Where `two_prod` is exact: operands can be split, the product neither overflows nor nears the subnormals."""
    size = np.abs(product)
    in_range = ((size >= _PRODUCT_MIN) & (size <= _PRODUCT_MAX)) | (a == 0.0) | (b == 0.0)
    result: NDArray[np.bool_] = in_range & (np.abs(a) < _SPLIT_LIMIT) & (np.abs(b) < _SPLIT_LIMIT)
    return result


def scaled(value: Float64Array, residual: Float64Array, exponent: NDArray[np.int_]) -> Carried:
    """(value, residual) times 2^exponent as a `Carried` pair, whatever the exponent.

    Args:
        value: float64 array of normal numbers or zeros.
        residual: sign of what `value` lost.
        exponent: integer array.

    Returns:
        The pair of the scaled number: rounded to nearest even where it is subnormal, with the residual's sign
        corrected for that second rounding; infinite, with the residual pointing back, where it overflows.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        # Two steps, since an exponent beyond the range of one power of two is legal; the first is exact.
        result = np.ldexp(value, exponent)
        back = np.ldexp(result, -exponent)
        lost = value - back
    lost = np.where(np.isinf(result), -value, lost)
    # A subnormal tie was broken to even without knowledge of the residual: put it right.
    tie_low = (lost != 0) & (residual != 0)
    if tie_low.any():
        with np.errstate(over="ignore", under="ignore"):
            other = np.nextafter(result, np.where(lost > 0, np.inf, -np.inf))
            midpoint = np.ldexp(other, -exponent) - value == lost
        flip = tie_low & midpoint & (np.sign(lost) == np.sign(residual)) & np.isfinite(result)
        result = np.where(flip, other, result)
        lost = np.where(flip, -lost, lost)
    return Carried(result, _only_sign(np.where(lost != 0, lost, residual)))


def _only_sign(residual: Float64Array) -> Float64Array:
    """A residual of which only the sign is known, as the smallest number of that sign: it is no half of anything."""
    return np.sign(residual) * _SMALLEST


def add(a: Float64Array, b: Float64Array) -> Carried:
    """a + b as a `Carried` pair, for all inputs."""
    s, e = two_sum(a, b)
    if not np.isfinite(e).all():
        overflow = np.isinf(s) & np.isfinite(a) & np.isfinite(b)
        e = np.where(np.isfinite(s), e, np.where(overflow, -s, 0.0))
        unfinished = ~np.isfinite(e)
        if unfinished.any():
            # An intermediate overflowed although the sum does not: halves are exact at this size.
            half = two_sum(np.broadcast_to(a, e.shape)[unfinished] * 0.5, np.broadcast_to(b, e.shape)[unfinished] * 0.5)
            e[unfinished] = np.where(overflow[unfinished], -s[unfinished], half.residual)
    return Carried(s, e)


def multiply(a: Float64Array, b: Float64Array) -> Carried:
    """a·b as a `Carried` pair, for all inputs, also where the product overflows or is subnormal."""
    p, e = two_prod(a, b)
    easy = products_are_easy(a, b, p)
    if not easy.all():
        hard = ~easy
        p, e = np.atleast_1d(p).copy(), np.atleast_1d(e).copy()
        hard = np.atleast_1d(hard)
        x, y = (np.broadcast_to(v, hard.shape)[hard] for v in (a, b))
        finite = np.isfinite(x) & np.isfinite(y)
        x_mantissa, x_exponent = np.frexp(np.where(finite, x, 0.0))
        y_mantissa, y_exponent = np.frexp(np.where(finite, y, 0.0))
        product = scaled(*two_prod(x_mantissa, y_mantissa), x_exponent + y_exponent)
        p[hard] = np.where(finite, product.value, p[hard])
        e[hard] = np.where(finite, product.residual, 0.0)
        p, e = p.reshape(np.shape(easy)), e.reshape(np.shape(easy))
    return Carried(p, e)


def divide(a: Float64Array, b: Float64Array) -> Carried:
    """a/b as a `Carried` pair, for all inputs (IEEE 754's infinities and NaN where b or both are zero)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        special = a / b
    proper = np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0)
    a_mantissa, a_exponent = np.frexp(np.where(proper, a, 1.0))
    b_mantissa, b_exponent = np.frexp(np.where(proper, b, 1.0))
    q = a_mantissa / b_mantissa
    p, e = two_prod(q, b_mantissa)
    # a - q·b is representable (Handbook, section 4.8), so that these two subtractions are exact.
    remainder = _only_sign(((a_mantissa - p) - e) * np.sign(b_mantissa))
    quotient = scaled(q, remainder, a_exponent - b_exponent)
    return Carried(np.where(proper, quotient.value, special), np.where(proper, quotient.residual, 0.0))


def square_root(a: Float64Array) -> Carried:
    """The square root of a as a `Carried` pair; NaN below zero, -0 for -0."""
    with np.errstate(invalid="ignore"):
        special = np.sqrt(a)
    proper = np.isfinite(a) & (a > 0)
    mantissa, exponent = np.frexp(np.where(proper, a, 1.0))
    odd = (exponent & 1).astype(bool)
    mantissa = np.where(odd, 2.0 * mantissa, mantissa)
    root = np.sqrt(mantissa)
    p, e = two_prod(root, root)
    remainder = _only_sign((mantissa - p) - e)
    result = np.ldexp(root, (exponent - odd) // 2)
    return Carried(np.where(proper, result, special), np.where(proper, remainder, 0.0))


def _fma_in_range(a: Float64Array, b: Float64Array, c: Float64Array) -> Carried:
    """Fused multiply-add where no intermediate overflows or nears the subnormals (Boldo and Melquiond, figure 5)."""
    u_high, u_low = two_prod(a, b)
    t_high, t_low = two_sum(c, u_low)
    v_high, v_low = two_sum(u_high, t_high)
    return two_sum(v_high, to_odd(*two_sum(t_low, v_low)))


def fused_multiply_add(a: Float64Array, b: Float64Array, c: Float64Array) -> Carried:
    """a·b + c as a `Carried` pair, for all inputs."""
    a, b, c = np.broadcast_arrays(a, b, c)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        p = a * b
        # A product of finite numbers is finite, also where p is not: an infinite c is the result.
        special = np.where(np.isinf(c) & np.isfinite(a) & np.isfinite(b), c, p + c)
    c_size = np.abs(c)
    easy = products_are_easy(a, b, p) & (((c_size >= _PRODUCT_MIN) & (c_size <= _PRODUCT_MAX)) | (c == 0))
    value, residual = _fma_in_range(a, b, c)
    # The parts of an exact zero meet in another order here; the two roundings' own zero has the right sign.
    value = np.where((value == 0) & (residual == 0), special, value)
    if easy.all():
        return Carried(value, residual)
    shape = np.shape(easy)
    value, residual, hard = np.array(value, ndmin=1), np.array(residual, ndmin=1), np.atleast_1d(~easy)
    x, y, z = (np.atleast_1d(v)[hard] for v in (a, b, c))
    value[hard], residual[hard] = _fma_scaled(x, y, z, np.atleast_1d(special)[hard])
    return Carried(value.reshape(shape), residual.reshape(shape))


def _fma_scaled(a: Float64Array, b: Float64Array, c: Float64Array, special: Float64Array) -> Carried:
    """Fused multiply-add of numbers with any exponents, by scaling the product's operands to [1/2, 1)."""
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    product_is_zero = (a == 0) | (b == 0)
    a_mantissa, a_exponent = np.frexp(np.where(finite, a, 0.0))
    b_mantissa, b_exponent = np.frexp(np.where(finite, b, 0.0))
    c_mantissa, c_exponent = np.frexp(np.where(finite, c, 0.0))
    exponent = a_exponent + b_exponent
    gap = np.where(c == 0, 0, c_exponent - exponent)
    # c far below the product: only its sign counts. c far above: only the product's sign counts.
    near = _fma_in_range(a_mantissa, b_mantissa, np.ldexp(c_mantissa, np.clip(gap, -_NEGLIGIBLE, _NEGLIGIBLE)))
    result = scaled(*near, exponent)
    far = (gap >= _NEGLIGIBLE) | product_is_zero
    value = np.where(far, c, result.value)
    residual = np.where(far, _only_sign(a_mantissa * b_mantissa), result.residual)
    exact_zero = (value == 0) & (residual == 0)
    value = np.where(finite & ~exact_zero, value, special)
    return Carried(value, np.where(finite, residual, 0.0))


def to_odd(value: Float64Array, residual: Float64Array) -> Float64Array:
    """Round to odd: of the two float64 numbers around an inexact result, the one whose last bit is 1.

    Args:
        value: float64 array, the exact results rounded to nearest.
        residual: float64 array, nonzero where `value` is inexact, with the sign of exact - value.

    Returns:
        float64 array; exact results, infinities of exact operations and NaN unchanged, finite results beyond the
        range at the largest float64.
    """
    bits = np.ascontiguousarray(value).view(np.int64)
    lost = np.ascontiguousarray(residual).view(np.int64)
    # Away from zero (+1) where residual and value have the same sign, toward zero (-1) otherwise, and only from an
    # even number. In sign-magnitude bits +1 is away from zero for both signs.
    step = (1 - 2 * ((bits ^ lost) < 0).astype(np.int64)) * ((residual != 0) & ((bits & 1) == 0))
    # Zero with a residual: the smallest subnormal of the residual's sign.
    odd = np.where((value == 0) & (residual != 0), (lost & np.int64(-(2**63))) | 1, bits + step)
    result: Float64Array = odd.view(np.float64).reshape(np.shape(value))
    return result
