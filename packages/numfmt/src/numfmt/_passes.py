"""Rounded additions of whole rows in a few passes over buffers, where the range and the grid allow it.

A simulated addition costs NumPy as many passes as it has array operations, and for short rows a pass costs the call.
`RowArithmetic` does r(a + b) of rows in two to six passes, and in eleven more where float64 may not hold the sum. Its
caller has shown two things, with the help of `Extent` and of the bounds below:

*range*: no magnitude, rounded or not, reaches a limit. So there are no ends of the range to look at.

*grid*: all operands are multiples of a unit that is no smaller than the format's smallest value. So their sums are
too, subnormal results are exact, and the codes of the format are the leading bits of float64's at every exponent that
occurs. Then rounding in any mode is one integer addition to the bits and one mask.

Sums below 2^53 units are exact in float64; others are carried to odd (see `numfmt.errorfree`). Zeros have the right
sign in every mode but to nearest even, which makes all of them +0: right for running sums that are not -0 themselves,
since +0 with a zero of either sign is +0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from numfmt._bits import CARRIER_PRECISION

if TYPE_CHECKING:
    from numfmt._rounded import RoundedArithmetic

Float64Array = NDArray[np.float64]

_MANTISSA = 52
_ONE = np.array(1, np.int64)
FLOAT32_PRECISION = 24
_ZERO = np.array(0.0)
#: Multiples of a unit below this many are exact in float64, and so are their sums.
EXACT_UNITS = 2.0**53
# Exponents up to here leave room for the constant that rounds to nearest even, 1.5 * 2^(e + 52 - m).
GRID_LIMIT = 2.0**960
# Rows from this width on are so long that a pass costs the memory it moves, and float32 moves half as much.
_LONG = 1 << 12


class Row(NamedTuple):
    """A buffer of numbers and the same memory as integers."""

    numbers: NDArray[Any]
    bits: NDArray[Any]


def row(width: int, dtype: type[np.floating[Any]] = np.float64) -> Row:
    """A new buffer of float64 or float32 numbers."""
    numbers: NDArray[Any] = np.zeros(width, dtype)
    return Row(numbers, numbers.view(np.dtype(f"i{numbers.itemsize}")))


def has_minus_zero(x: Float64Array) -> bool:
    """Whether there is a -0 in a contiguous array: its bits are the smallest integer."""
    return bool(x.view(np.int64).min(initial=0) == np.iinfo(np.int64).min)


@dataclass(frozen=True)
class Extent:
    """Between which magnitudes the numbers of a block lie.

    Attributes:
        largest: Largest magnitude; NaN if there is a NaN.
        unit: A power of two of which every number is a multiple; infinite if all are zero; 0 if none is known that is
            at least the quantum asked for.
    """

    largest: float
    unit: float

    @classmethod
    def of(cls, x: NDArray[Any], bits: int, quantum: float) -> Extent:
        """The extent of a block.

        Args:
            x: Numbers, float64 or float32.
            bits: Upper bound on their significant bits.
            quantum: A power of two; smaller units are of no use.
        """
        size = np.abs(x)
        largest, smallest = float(size.max()), float(size.min())
        if smallest == 0.0 < largest:
            # As unsigned integers less one, zeros are the largest numbers.
            less = size.view(np.dtype(f"u{size.itemsize}"))
            np.subtract(less, less.dtype.type(1), out=less)
            smallest = float((less.min(keepdims=True) + less.dtype.type(1)).view(size.dtype).item())
        if not largest < np.inf:
            return cls(largest, 0.0)
        if largest == 0.0:
            return cls(largest, math.inf)
        unit = math.ldexp(1.0, math.frexp(smallest)[1] - bits)
        if unit < quantum:
            with np.errstate(over="ignore"):
                units = np.divide(x, quantum, dtype=np.float64)
            unit = quantum if smallest >= quantum and np.array_equal(units, np.rint(units)) else 0.0
        return cls(largest, unit)


class Adder(Protocol):
    """What `RowArithmetic.adder` gives."""

    def __call__(self, a: NDArray[Any], b: NDArray[Any], out: Row, words: Any = None) -> None:
        """out = r(a + b)."""
        ...


class RowArithmetic:
    """r(a + b) of rows, under the conditions named above.

    Args:
        ops: The arithmetic; `suits` must hold.
        width: Length of the rows.
        dtype: float64, or float32 for numbers that `narrow` gave.
    """

    def __init__(self, ops: RoundedArithmetic, width: int, dtype: type[np.floating[Any]] = np.float64) -> None:
        self.dtype = np.dtype(dtype)
        self._width = width
        #: What the roundings below work on and with: the sum before it is rounded, and a scratch row.
        self.carried, self.scratch = row(width, dtype), row(width, dtype)
        info, integer = np.finfo(dtype), self.carried.bits.dtype.type
        drop = info.nmant - ops.fmt.mantissa_bits
        mask = (1 << drop) - 1
        self.drop, self.random_bits, self._variant = drop, ops.random_bits or 0, ops.mode.stochastic
        # As arrays: NumPy converts scalars anew in every call.
        self.mask, self.keep, self.half = (np.array(v, integer) for v in (mask, ~mask, 1 << (drop - 1)))
        self.sign_shift = np.array(info.bits - 1, integer)
        self.exponent_field = np.array(np.inf, dtype).view(integer)
        self.factor = np.array(1.5 * 2.0**drop, dtype)
        #: Magnitudes below it leave room for that factor.
        self.limit = min(ops.grid_max, 2.0 ** (info.maxexp - 1 - drop))
        #: The sums are kept with the opposite sign: rounding down is rounding up in a mirror, where float64's own
        #: addition gives zeros their sign (IEEE 754-2019, section 6.3).
        self.mirrored = ops.mode.name == "down"
        name = "up" if self.mirrored else f"stochastic_{self._variant}" if self._variant else ops.mode.name
        self._round = _ROUNDINGS[name](self)

    @staticmethod
    def narrow(ops: RoundedArithmetic, x: Float64Array, bits: int) -> NDArray[np.float32] | None:
        """Terms in float32, if that holds them and their sums are carried well enough by it; else None.

        Args:
            ops: The arithmetic.
            x: Terms.
            bits: Upper bound on their significant bits.
        """
        p = ops.fmt.precision
        if ops.mode.name != "nearest_even" or max(bits, p) > p or 2 * p + 2 > FLOAT32_PRECISION or x.shape[1] < _LONG:
            return None
        if ops.quantum < 2.0**-149 or ops.fmt.emin < -126:
            return None
        # So few bits are lost only by overflow or underflow, which float32 reports.
        try:
            with np.errstate(over="raise", under="raise", invalid="ignore"):  # signalling NaNs are invalid
                return x.astype(np.float32)
        except FloatingPointError:
            return None

    @staticmethod
    def suits(ops: RoundedArithmetic) -> bool:
        """Whether there is a way for a format and mode: a signed format with subnormals well inside float64's range."""
        fmt = ops.fmt
        plain = fmt.signed and fmt.zero and fmt.subnormals and 2 <= fmt.precision <= CARRIER_PRECISION - 2
        return plain and fmt.emin - fmt.mantissa_bits >= -1022

    def adder(self, carefully: bool, *, minus: bool = False) -> Adder:
        """A function add(a, b, out, words=None) that makes the row `out` r(a + b).

        `out` may be the memory of a or b; words are a row of what `prepare` gives, for stochastic modes.

        Args:
            carefully: float64 may not hold the sum well enough to round it.
            minus: Take b with the opposite sign.
        """
        (c, c_bits), (s, s_bits), rounds = self.carried, self.scratch, self._round
        forwards, backwards = (np.subtract, np.add) if minus else (np.add, np.subtract)
        if not carefully:

            def add(a: NDArray[Any], b: NDArray[Any], out: Row, words: Any = None) -> None:
                forwards(a, b, c)
                rounds(out, words)

            return add
        p, p_bits = row(self._width, self.dtype.type)
        subtract, sign_shift = np.subtract, self.sign_shift

        def add_carefully(a: NDArray[Any], b: NDArray[Any], out: Row, words: Any = None) -> None:
            # TwoSum; then toward zero, and the last bit set where something was cut off: rounded to odd.
            forwards(a, b, c)
            subtract(c, a, p)
            subtract(c, p, s)
            subtract(a, s, s)
            backwards(b, p, p)
            forwards(s, p, s)
            np.bitwise_xor(c_bits, s_bits, p_bits)
            np.right_shift(p_bits, sign_shift, p_bits)
            np.not_equal(s, _ZERO, s_bits)
            np.bitwise_and(p_bits, s_bits, p_bits)
            subtract(c_bits, p_bits, c_bits)
            np.bitwise_or(c_bits, s_bits, c_bits)
            rounds(out, words)

        return add_carefully

    def prepare(self, random: NDArray[np.uint32] | None) -> NDArray[np.int64] | None:
        """Random integers of stochastic modes as `add` takes them: at the place of the bits that are cut off."""
        if random is None:
            return None
        shift = self.drop - self.random_bits
        words = random.astype(np.int64)
        if self._variant == "b":
            words <<= 1
            words |= 1
            shift -= 1
        words <<= shift
        if self._variant == "c":  # with half a unit of the last bit that takes part, less one, for rounding to it
            words += (1 << (shift - 1)) - 1
        return words


# Roundings of the carried sum: functions of the result's row and, in stochastic modes, of random words. Bits are sign
# and magnitude: an addition to them moves a number away from zero. The local names save look-ups in every pass.

_add, _subtract, _multiply = np.add, np.subtract, np.multiply
_and, _or, _shift = np.bitwise_and, np.bitwise_or, np.right_shift
Rounding = Callable[[Row, Any], None]


def _nearest_even(arithmetic: RowArithmetic) -> Rounding:
    (c, c_bits), (s, s_bits) = arithmetic.carried, arithmetic.scratch
    field, factor = arithmetic.exponent_field, arithmetic.factor

    def rounds(out: Row, words: Any) -> None:
        # float64's own rounding of c + g cuts c at the last bit, g having the exponent e + 52 - m; 1.5 keeps the sum in
        # g's binade for both signs. All zeros become +0.
        _and(c_bits, field, s_bits)
        _multiply(s, factor, s)
        _add(c, s, c)
        _subtract(c, s, out.numbers)

    return rounds


def _nearest_away(arithmetic: RowArithmetic) -> Rounding:
    c_bits, half, keep = arithmetic.carried.bits, arithmetic.half, arithmetic.keep

    def rounds(out: Row, words: Any) -> None:
        _add(c_bits, half, c_bits)
        _and(c_bits, keep, out.bits)

    return rounds


def _toward_zero(arithmetic: RowArithmetic) -> Rounding:
    c_bits, keep = arithmetic.carried.bits, arithmetic.keep

    def rounds(out: Row, words: Any) -> None:
        _and(c_bits, keep, out.bits)

    return rounds


def _up(arithmetic: RowArithmetic) -> Rounding:
    c_bits, s_bits = arithmetic.carried.bits, arithmetic.scratch.bits
    mask, keep, sign_shift = arithmetic.mask, arithmetic.keep, arithmetic.sign_shift

    def rounds(out: Row, words: Any) -> None:
        # Positive numbers go up by the mask; negative ones by the mask less the mask.
        _shift(c_bits, sign_shift, s_bits)
        _and(s_bits, mask, s_bits)
        _subtract(c_bits, s_bits, c_bits)
        _add(c_bits, mask, c_bits)
        _and(c_bits, keep, out.bits)

    return rounds


def _to_odd(arithmetic: RowArithmetic) -> Rounding:
    c_bits, s_bits = arithmetic.carried.bits, arithmetic.scratch.bits
    mask, keep = arithmetic.mask, arithmetic.keep

    def rounds(out: Row, words: Any) -> None:
        # The bits that are cut off carry into the last bit unless they are all zero.
        _and(c_bits, mask, s_bits)
        _add(s_bits, mask, s_bits)
        _or(c_bits, s_bits, c_bits)
        _and(c_bits, keep, out.bits)

    return rounds


def _stochastic(arithmetic: RowArithmetic) -> Rounding:
    c_bits, keep = arithmetic.carried.bits, arithmetic.keep

    def rounds(out: Row, words: Any) -> None:
        _add(c_bits, words, c_bits)
        _and(c_bits, keep, out.bits)

    return rounds


def _stochastic_c(arithmetic: RowArithmetic) -> Rounding:
    c_bits, s_bits, keep = arithmetic.carried.bits, arithmetic.scratch.bits, arithmetic.keep
    unused = np.array(arithmetic.drop - arithmetic.random_bits, np.int64)

    def rounds(out: Row, words: Any) -> None:
        # To nearest even at the last bit that takes part, then as the others.
        _shift(c_bits, unused, s_bits)
        _and(s_bits, _ONE, s_bits)
        _add(c_bits, s_bits, c_bits)
        _add(c_bits, words, c_bits)
        _and(c_bits, keep, out.bits)

    return rounds


_ROUNDINGS: dict[str, Callable[[RowArithmetic], Rounding]] = {
    "nearest_even": _nearest_even,
    "nearest_away": _nearest_away,
    "toward_zero": _toward_zero,
    "up": _up,
    "to_odd": _to_odd,
    "stochastic_a": _stochastic,
    "stochastic_b": _stochastic,
    "stochastic_c": _stochastic_c,
}


def reach_of_sum(largest_sum: float, largest: float, rows: int, error: float, nearest: bool) -> float:
    """A magnitude that no running sum reaches within some rows.

    To nearest, a step moves a sum by no more than twice the term, since the sum itself is a candidate; in other modes
    a rounding may go to the next value.

    Args:
        largest_sum: Largest magnitude of the sums so far.
        largest: Largest magnitude of a term.
        rows: Number of additions.
        error: Largest relative error of a rounding.
        nearest: The mode is to nearest.
    """
    if nearest:
        return largest_sum + 2.0 * rows * largest
    # (1 + error)^rows <= exp(rows * error)
    return (largest_sum + rows * largest) * math.exp(min(rows * error, 700.0))


def reach_of_kahan(s: float, c: float, x: float, error: float) -> tuple[float, float, float]:
    """Bounds on Kahan's sum and compensation after one more term, and on every number on the way.

    Args:
        s: Bound on the sum.
        c: Bound on the compensation.
        x: Bound on the term.
        error: Largest relative error of a rounding.
    """
    up = 1.0 + error
    y = up * (x + c)
    t = up * (s + y)
    lost = error * (s + y)  # of t; t - s is y and this
    d = up * (y + lost)
    left = up * (lost + error * (y + lost))  # d - y is what t and d have lost
    return t, left, up * max(t, d, y)


def reach_of_neumaier(s: float, c: float, x: float, error: float) -> tuple[float, float, float]:
    """The same for Neumaier's."""
    up = 1.0 + error
    t = up * (s + x)
    lost = error * (s + x)
    d = up * (min(s, x) + lost)  # big - t is the smaller operand and what t has lost
    e = up * (lost + error * d)
    return t, up * (c + e), up * max(t, d, c + e)
