"""Any input number, taken apart exactly: sign, 64-bit significand, exponent, and whether anything is left below.

Every input type meets the rounding engine in this one form, so there is exactly one rounding between what the user gave
and the result. A detour through float64 (for int64, Python integers, fractions) or float32 (for float64) would be a
second one.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Rational
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Parts:
    """Numbers as ``(-1)**negative * (significand + fraction) * 2**exponent``, ``0 <= fraction < 1``, elementwise.

    Attributes:
        negative: Sign bit, also of zeros.
        significand: uint64; its top bit is set except for zero.
        exponent: int64.
        inexact: The fraction is not zero; None when that holds nowhere.
        nan: NaN.
        infinite: Infinity.
    """

    negative: NDArray[np.bool_]
    significand: NDArray[np.uint64]
    exponent: NDArray[np.int64]
    inexact: NDArray[np.bool_] | None
    nan: NDArray[np.bool_]
    infinite: NDArray[np.bool_]


def _none(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    return np.zeros(shape, np.bool_)


def _from_float(x: NDArray[Any], bits: int, dtype: type[np.floating[Any]]) -> Parts:
    nan, infinite = np.isnan(x), np.isinf(x)  # before any arithmetic: signalling NaNs would warn
    fraction, exponent = np.frexp(np.where(nan | infinite, dtype(0), np.abs(x)))
    significand = np.ldexp(fraction, bits).astype(np.uint64) << np.uint64(64 - bits)
    return Parts(np.signbit(x), significand, exponent.astype(np.int64) - 64, None, nan, infinite)


def from_float64(x: NDArray[np.float64]) -> Parts:
    """Parts of float64 numbers: 53 significant bits, exact."""
    return _from_float(x, 53, np.float64)


def from_longdouble(x: NDArray[np.longdouble]) -> Parts:
    """Parts of ``numpy.longdouble`` numbers, exact where the type has at most 64 significant bits (x86, macOS)."""
    bits = np.finfo(np.longdouble).nmant + 1
    if bits > 64:
        raise TypeError(f"longdouble has {bits} significant bits here, numfmt takes up to 64; convert to float64 first")
    return _from_float(x, bits, np.longdouble)


def from_integer(x: NDArray[Any]) -> Parts:
    """Parts of signed or unsigned integers of up to 64 bits, exact."""
    negative = x < 0
    # Two's complement negation modulo 2**64 gives |x| also for the most negative int64.
    magnitude = x.astype(np.int64 if x.dtype.kind == "i" else np.uint64).view(np.uint64)
    magnitude = np.where(negative, ~magnitude + np.uint64(1), magnitude)
    exponent = np.zeros(x.shape, np.int64)
    for width in (32, 16, 8, 4, 2, 1):  # normalise by halving: shift left while the upper part is empty
        low = magnitude < np.uint64(1 << (64 - width))
        magnitude = np.where(low, magnitude << np.uint64(width), magnitude)
        exponent -= np.where(low, width, 0)
    return Parts(negative, magnitude, exponent, None, _none(x.shape), _none(x.shape))


def _split_rational(value: Rational) -> tuple[bool, int, int, bool]:
    numerator, denominator = abs(int(value.numerator)), int(value.denominator)
    if numerator == 0:
        return False, 0, 0, False
    exponent = numerator.bit_length() - denominator.bit_length() - 64
    while True:  # the quotient of the first guess has 64 or 65 bits
        significand, rest = divmod(numerator << max(-exponent, 0), denominator << max(exponent, 0))
        if significand < 1 << 64:
            return value < 0, significand, exponent, rest != 0
        exponent += 1


def from_objects(x: NDArray[Any]) -> Parts:
    """Parts of an object array of Python integers, fractions and floats: the first 64 bits and an inexactness flag."""
    shape = x.shape
    negative, inexact, nan, infinite = (_none(shape) for _ in range(4))
    significand, exponent = np.zeros(shape, np.uint64), np.zeros(shape, np.int64)
    for index in np.ndindex(shape):
        value = x[index]
        if isinstance(value, float | np.floating):
            part = from_float64(np.asarray(value, np.float64))
            negative[index], nan[index], infinite[index] = part.negative, part.nan, part.infinite
            significand[index], exponent[index] = part.significand, part.exponent
            continue
        if not isinstance(value, Rational):
            raise TypeError(
                f"x holds a {type(value).__name__} {value!r}; an object array may hold int, float and Fraction only"
            )
        negative[index], significand[index], exponent[index], inexact[index] = _split_rational(value)
    return Parts(negative, significand, exponent, inexact, nan, infinite)
