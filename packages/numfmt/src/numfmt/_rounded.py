"""Operations of simulated arithmetic: exact in float64 plus a residual, then rounded once to a format.

`RoundedArithmetic` is decided once per call from format, mode and policy. Its `add` takes the shortest route that is
correct for the operands at hand:

1. *Add, then round.* In the nearest modes, two operands of at most p bits may be added in float64 first, if float64
   has at least 2p + 2 bits: the first rounding then never lands on a midpoint of the second (Figueroa, "When is
   double rounding innocuous?", SIGNUM Newsl. 30(3), 1995). For nearest even the second rounding is two float64
   operations (`grid_rounder`).
2. *TwoSum, round to odd, round.* For everything else: directed and stochastic modes, and terms with more bits than the
   accumulator, which can be midpoints themselves.

Formats of more than 51 bits (FP64) leave no room for the odd bit; they are rounded from the pair.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from numfmt import errorfree
from numfmt._apply import check_nan, round_sum
from numfmt._errors import not_a_format
from numfmt._fast.backend import use_numba
from numfmt._passes import GRID_LIMIT
from numfmt._random import Seed, draw_key, philox_words
from numfmt._scalar import ScalarArithmetic
from numfmt.errorfree import CARRIER_PRECISION, Carried
from numfmt.formats import FP64, FloatFormat
from numfmt.rounding import OverflowPolicy, RoundingMode, overflow_policy, rounding_mode

if TYPE_CHECKING:
    from numfmt._fast.steps import CompiledSteps

Float64Array = NDArray[np.float64]

# Rounded additions from which a call pays for importing numba and compiling a kernel.
_WORTH_COMPILING = 10**7
_EXPONENT_FIELD = np.array(0x7FF0000000000000, np.int64)
_CARRIER_MANTISSA = 52
# 2^52 times twice float64's bias: this less the bits of a power of two are those of its inverse.
_TWICE_ONE = np.int64(2 * 1023 << _CARRIER_MANTISSA)
# Directed modes as functions of x / q.
_WHOLE: dict[str, Callable[..., Float64Array]] = {"toward_zero": np.trunc, "up": np.ceil, "down": np.floor}
# A quarter of the last place of float64's largest number.
_BEYOND = 2.0**969
_WORD_BITS = 32
# Words from which compiled code, if it is loaded, draws them.
_MANY_WORDS = 4096
# Keys of the random streams of one call differ by multiples of this odd number (2^64 over the golden ratio).
_STREAM_STEP = 0x9E3779B97F4A7C15


class RandomWords:
    """Random integers for stochastic rounding that depend on seed, stream and position only.

    Args:
        seed: None, integer or generator.
        bits: Number of random bits per rounding.
    """

    def __init__(self, seed: Seed, bits: int) -> None:
        self.bits = bits
        self._key = draw_key(seed)

    def take(self, stream: int, start: int, shape: tuple[int, ...]) -> NDArray[np.uint32]:
        """Words start, start + 1, ... of a stream, each shifted down to `bits` bits."""
        key = (self._key + stream * _STREAM_STEP) & (2**64 - 1)
        count = int(np.prod(shape, dtype=np.int64))
        compiled = sys.modules.get("numfmt._fast.steps") if count >= _MANY_WORDS else None
        draw = philox_words if compiled is None else compiled.philox_words
        words = draw(key, start, count) >> np.uint32(_WORD_BITS - self.bits)
        return np.asarray(words).reshape(shape)


class RoundedArithmetic:
    """Correctly rounded operations in one format, mode and policy.

    Args:
        fmt: The format of every result.
        rounding: Name or alias of the rounding mode.
        overflow: Name of the overflow policy, None for the format's own.
        nan: What NaN becomes in a format without NaN ("zero", "largest"); None makes it an error.
        random_bits: Random bits of stochastic modes; None takes as many as the carrier leaves, at most 32.

    Raises:
        ValueError: For unknown names and impossible numbers of random bits.
        TypeError: For a format that is none.
    """

    def __init__(
        self,
        fmt: FloatFormat,
        rounding: str | RoundingMode = "nearest_even",
        overflow: str | OverflowPolicy | None = None,
        nan: str | None = None,
        random_bits: int | None = None,
    ) -> None:
        if not isinstance(fmt, FloatFormat):
            raise TypeError(not_a_format("fmt", fmt))
        self.fmt = fmt
        self.mode = rounding_mode(rounding)
        self.policy = overflow_policy(fmt.overflow if overflow is None else overflow)
        self.nan = check_nan(nan)
        self.random_bits = _checked_random_bits(fmt, self.mode, random_bits)
        p = fmt.precision
        #: The mode rounds to one of the nearest values.
        self.nearest = nearest = self.mode.name in ("nearest_even", "nearest_away")
        #: Largest relative error of a rounding that is clear of underflow and overflow.
        self.error = fmt.unit_roundoff * (1.0 if nearest else 2.0)
        self._is_float64 = fmt == FP64
        #: float64 has two bits more than the format, so that rounding to odd is enough.
        self.has_odd_bit = p <= CARRIER_PRECISION - 2
        self._double_rounding_is_safe = nearest and 2 * p + 2 <= CARRIER_PRECISION
        plain = self.has_odd_bit and p >= 2 and fmt.signed and fmt.zero and fmt.subnormals
        self._on_grid = plain and self.mode.name == "nearest_even"
        directed = _WHOLE.get(self.mode.name) if plain and fmt.emin - fmt.mantissa_bits >= -1022 else None
        self._to_whole: Callable[..., Float64Array] | None = directed
        #: Steps on Python floats, where they suit.
        self.scalar = ScalarArithmetic(self) if ScalarArithmetic.suits(self) else None
        #: Compiled steps, while a caller has them switched on by `compile`.
        self.compiled: CompiledSteps | None = None
        # Below this limit the two-operation rounding needs no look at overflow, infinities and NaN.
        self.grid_max = min(fmt.max, GRID_LIMIT)
        # Everything that is a multiple of the smallest subnormal, and whose sums are, stays clear of underflow.
        self.quantum = fmt.min_positive
        self._smallest_grid = np.array(2.0**fmt.emin).view(np.int64) if fmt.emin >= -1022 else np.array(0, np.int64)
        self._grid_factor = np.array(1.5 * 2.0 ** (_CARRIER_MANTISSA - fmt.mantissa_bits))

    def compile(self, roundings: int) -> None:
        """Switch compiled steps on or off, whichever suits a call of that many roundings; results are the same.

        Args:
            roundings: Roundings of the call; the backend decides from it (see `numfmt._fast.backend`).
        """
        fmt = self.fmt
        plain = fmt.signed and fmt.zero and fmt.subnormals and fmt.precision >= 2 and self.has_odd_bit
        in_range = fmt.max < GRID_LIMIT and fmt.emin - fmt.mantissa_bits >= -1022
        self.compiled = None
        if plain and in_range and use_numba(roundings, _WORTH_COMPILING):
            from numfmt._fast.steps import CompiledSteps

            self.compiled = CompiledSteps(self)

    # One rounding -----------------------------------------------------------------------------------------------------

    def adds_plainly(self, bits: int) -> bool:
        """Whether operands of that many bits may be added in float64 before they are rounded."""
        return self._double_rounding_is_safe and bits <= self.fmt.precision

    def adds_on_grid(self, bits: int) -> bool:
        """Whether `grid_rounder` may do that rounding."""
        return self._on_grid and self.adds_plainly(bits)

    def grid_rounder(self, x: Float64Array, scratch: Float64Array, out: Float64Array) -> Callable[[], None]:
        """A function that rounds x, below `grid_max` in magnitude, into out: to nearest even, in a few passes.

        g has the exponent of x's binade (at least emin) plus 52 - m, so that float64's own rounding of x + g cuts x
        at the format's last bit; 1.5 keeps the sum in g's binade for both signs.

        Args:
            x: Buffer of the numbers; not `out`.
            scratch: Buffer of the same shape.
            out: Buffer of the results.
        """
        x_bits, g_bits, factor = x.view(np.int64), scratch.view(np.int64), self._grid_factor
        least, signed_zeros = self._smallest_grid, self.fmt.negative_zero

        def rounds() -> None:
            np.bitwise_and(x_bits, _EXPONENT_FIELD, g_bits)
            np.maximum(g_bits, least, out=g_bits)
            np.multiply(scratch, factor, scratch)
            np.add(x, scratch, out)
            np.subtract(out, scratch, out)
            if signed_zeros:
                np.copysign(out, x, out)

        return rounds

    def without_minus_zero(self, x: Float64Array) -> Float64Array:
        """x, with +0 for -0 in formats that have no -0."""
        return x if self.fmt.negative_zero else x + 0.0

    def round(self, x: Float64Array, random: NDArray[np.uint32] | None = None) -> Float64Array:
        """Correctly rounded float64 numbers; x is not modified."""
        if self._on_grid:
            size = np.abs(x)
            if not x.size or size.max() < self.grid_max * (1.0 - 2.0**-30):
                out = np.empty_like(size)
                self.grid_rounder(x if x.flags.c_contiguous else np.ascontiguousarray(x), size, out)()
                return out
        if self._to_whole is not None:
            directed = self._directed_round(x, self._to_whole)
            if directed is not None:
                return directed
        if self._is_float64 and self.mode.name == "nearest_even" and self.policy.name == "infinity":
            return x.copy()
        return self._fmt_round(x, random)

    def _directed_round(self, x: Float64Array, to_whole: Callable[..., Float64Array]) -> Float64Array | None:
        """Directed rounding as a multiple of the quantum q of x's binade, or None where x nears the range's end."""
        x = np.ascontiguousarray(x)
        size = np.abs(x)
        if x.size and not size.max() < self.grid_max * (1.0 - 2.0**-30):
            return None
        q_bits: NDArray[np.int64] = x.view(np.int64) & _EXPONENT_FIELD
        np.maximum(q_bits, self._smallest_grid, out=q_bits)
        q_bits -= self.fmt.mantissa_bits << _CARRIER_MANTISSA
        inverse: Float64Array = np.subtract(_TWICE_ONE, q_bits).view(np.float64)
        np.multiply(x, inverse, inverse)
        to_whole(inverse, inverse)
        np.multiply(inverse, q_bits.view(np.float64), inverse)
        if self.fmt.negative_zero:
            np.copysign(inverse, x, inverse)
            return inverse
        inverse += 0.0
        return inverse

    def _fmt_round(self, x: Float64Array, random: NDArray[np.uint32] | None) -> Float64Array:
        extra: dict[str, Any] = {}
        if self.mode.stochastic:
            extra = {"random": random, "random_bits": self.random_bits}
        rounded: Float64Array = self.fmt.round(x, self.mode, overflow=self.policy, nan=self.nan, **extra)
        return rounded

    def finish(self, result: Carried, random: NDArray[np.uint32] | None = None) -> Float64Array:
        """Round a float64 result with a residual to the format, once.

        Args:
            result: value and residual as the functions of `errorfree` give them.
            random: For stochastic modes, random integers of the value's shape.

        Returns:
            float64 array of values of the format.
        """
        if self.has_odd_bit:
            return self.round(errorfree.to_odd(*result), random)
        if self._is_float64:
            return self._finish_float64(_to_float64(result, self.mode.name), result.residual)
        # A finite result beyond float64 is anything beyond its largest number.
        beyond = np.isinf(result.value) & (result.residual != 0)
        high = np.where(beyond, np.copysign(errorfree.CARRIER_MAX, result.value), result.value)
        low = np.where(beyond, np.copysign(_BEYOND, result.value), result.residual)
        return round_sum(
            self.fmt,
            high,
            np.where(np.isfinite(high), low, 0.0),
            self.mode,
            self.policy,
            nan=self.nan,
            random=random,
            random_bits=self.random_bits or _WORD_BITS,
        )

    def _finish_float64(self, value: Float64Array, residual: Float64Array) -> Float64Array:
        """Overflow policies of FP64, where float64 itself has overflowed: an infinity with a residual was finite."""
        rounded = self._fmt_round(value, None)
        overflowed = np.isinf(value) & (residual != 0)
        if overflowed.any() and self.policy.finite != "infinity":
            end = np.copysign(self.fmt.max, value) if self.policy.finite == "largest" else np.full_like(value, np.nan)
            rounded = np.where(overflowed, end, rounded)
        return rounded

    # Operations -------------------------------------------------------------------------------------------------------

    def add(
        self, a: Float64Array, b: Float64Array, bits: int, random: NDArray[np.uint32] | None = None
    ) -> Float64Array:
        """The rounded sum of two arrays.

        Args:
            a: Numbers.
            b: Numbers; the two broadcast.
            bits: Upper bound on the significant bits of both.
            random: For stochastic modes, random integers of the sum's shape.

        Returns:
            New array.
        """
        if self.compiled is not None:
            fast = self.compiled.add(a, b, bits, random)
            if fast is not None:
                return fast
        if self.adds_plainly(bits):
            with np.errstate(over="ignore", invalid="ignore"):
                return self.round(a + b)
        return self.finish(self._signed_zeros(errorfree.add(a, b), a, b), random)

    def _signed_zeros(self, result: Carried, a: Float64Array, b: Float64Array) -> Carried:
        """Exact zero sums of operands of different signs are -0 in the mode down (IEEE 754-2019, section 6.3)."""
        if self.mode.name != "down":
            return result
        zero = (result.value == 0) & (result.residual == 0) & ~((a == 0) & (b == 0) & (np.signbit(a) == np.signbit(b)))
        return Carried(np.where(zero, -0.0, result.value), result.residual)


def _to_float64(result: Carried, mode: str) -> Float64Array:
    """Rounding to float64 itself: one step where another mode than nearest even ends elsewhere."""
    value, residual = result
    if mode == "nearest_even":
        return value
    if mode == "to_odd":
        return errorfree.to_odd(value, residual)
    toward = np.where(residual > 0, np.inf, -np.inf)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        other = np.nextafter(value, toward)
        tie = other - value == 2.0 * residual
    outward = np.signbit(residual) == np.signbit(value)
    wrong = (residual != 0) & {
        "toward_zero": ~outward,
        "up": residual > 0,
        "down": residual < 0,
        # Only a residual that is the error itself shows a tie; callers look after the others (`arithmetic`).
        "nearest_away": tie & outward,
    }[mode]
    stepped: Float64Array = np.where(wrong, other, value)
    return stepped


def _checked_random_bits(fmt: FloatFormat, mode: RoundingMode, random_bits: int | None) -> int | None:
    """Number of random bits of a stochastic mode, as many as the carrier's odd bit leaves by default."""
    if not mode.stochastic:
        return None
    # A variant looks one bit beyond its random bits, and the carrier's last bit only says that there was more.
    room = min(_WORD_BITS, CARRIER_PRECISION - fmt.precision - 2)
    if room < 1:
        raise ValueError(
            f"rounding={mode.name!r} has no room for random bits in {fmt.name}, whose {fmt.precision} bits fill "
            "float64, in which operations are carried; use a format of at most 50 bits, or round exact results: "
            f"{fmt.name}.round takes arrays of fractions.Fraction in every mode"
        )
    if random_bits is None:
        return room
    if isinstance(random_bits, bool) or not isinstance(random_bits, int | np.integer):
        raise TypeError(f"random_bits must be an integer, got {random_bits!r}")
    if not 1 <= random_bits <= room:
        raise ValueError(f"random_bits must be between 1 and {room} for sums in {fmt.name}, got {random_bits}")
    return int(random_bits)
