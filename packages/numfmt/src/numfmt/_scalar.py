"""Simulated additions one number at a time, for sums of so few columns that array calls would cost more than the work.

The same steps as in `_rounded`, on Python floats: a running sum of one column takes about half a microsecond a term
here, and fifty in arrays of length one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numfmt._rounded import RoundedArithmetic

#: Sums of up to this many columns are added here.
FEW_COLUMNS = 8


class BeyondRangeError(ArithmeticError):
    """A magnitude left the format's range, or was no number: the array code knows what becomes of it."""


def _nearest_away(k: float) -> int:
    whole = math.trunc(k)
    return whole + (1 if k > 0 else -1) if abs(k - whole) >= 0.5 else whole


def _to_odd(k: float) -> int:
    whole = math.trunc(k)
    return whole + (1 if k > 0 else -1) if whole != k and whole % 2 == 0 else whole


# Rounding to an integer of numbers below 2^53.
_WHOLE: dict[str, Callable[[float], int]] = {
    "nearest_even": round,
    "nearest_away": _nearest_away,
    "toward_zero": math.trunc,
    "up": math.ceil,
    "down": math.floor,
    "to_odd": _to_odd,
}


class ScalarArithmetic:
    """r(a + b) on Python floats.

    Args:
        ops: An arithmetic for which `suits` is true.
    """

    def __init__(self, ops: RoundedArithmetic) -> None:
        self._emin, self._m, self._max = ops.fmt.emin, ops.fmt.mantissa_bits, ops.fmt.max
        self._negative_zero = ops.fmt.negative_zero
        self._down = ops.mode.name == "down"
        self._nearest_even = ops.mode.name == "nearest_even"
        self._whole = _WHOLE[ops.mode.name]

    @staticmethod
    def suits(ops: RoundedArithmetic) -> bool:
        """Whether a format and mode can be done here: a signed format with subnormals, a deterministic mode."""
        fmt = ops.fmt
        plain = fmt.signed and fmt.zero and fmt.subnormals and 2 <= fmt.precision <= 51 and fmt.max < 2.0**960
        return plain and ops.mode.name in _WHOLE

    def round(self, v: float) -> float:
        """r(v) of a number that is exact or rounded to odd."""
        e = math.frexp(v)[1] - 1
        if e < self._emin:
            e = self._emin
        if self._nearest_even:
            g = math.ldexp(1.5, e + 52 - self._m)
            r = (v + g) - g
        else:
            r = math.ldexp(float(self._whole(math.ldexp(v, self._m - e))), e - self._m)
        if r == 0.0:
            return math.copysign(0.0, v) if self._negative_zero else 0.0
        if not -self._max <= r <= self._max:
            raise BeyondRangeError
        return r

    def add(self, a: float, b: float, plain: bool) -> float:
        """r(a + b); plain: float64's sum may be rounded as it is."""
        s = a + b
        if not -self._max <= s <= self._max:
            raise BeyondRangeError
        if not plain:
            part = s - a
            e = (a - (s - part)) + (b - part)
            if e and not int(math.ldexp(math.frexp(s)[0], 53)) & 1:
                s = math.nextafter(s, math.inf if e > 0 else -math.inf)
            elif s == 0.0 and self._down and not (math.copysign(1.0, a) == math.copysign(1.0, b) == 1.0):
                s = -0.0
        return self.round(s)

    def sequential(self, terms: list[float], s: float, plain: bool) -> float:
        """The running sum s with terms added in order."""
        for x in terms:
            s = self.add(s, x, plain)
        return s

    def kahan(self, terms: list[float], s: float, c: float, plain: bool, later: bool) -> tuple[float, float]:
        """Kahan's sum; plain and later as `add` takes them, for the first addition and for the others."""
        add = self.add
        for x in terms:
            y = add(x, -c, plain)
            t = add(s, y, later)
            c = add(add(t, -s, later), -y, later)
            s = t
        return s, c

    def neumaier(self, terms: list[float], s: float, c: float, plain: bool, later: bool) -> tuple[float, float]:
        """Neumaier's sum before its last addition."""
        add = self.add
        for x in terms:
            t = add(s, x, plain)
            big, small = (x, s) if abs(x) > abs(s) else (s, x)
            c = add(c, add(add(big, -t, plain), small, plain), later)
            s = t
        return s, c
