"""The rounding engine: exact, in integers, for every format, mode and policy.

This is the definition that the fast paths are tested against. It works in four steps: take the number apart
(``_parts.py``), truncate its significand to a multiple of the format's quantum, let the mode decide whether the
magnitude goes up, and let the policy decide about the ends of the range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from numfmt._parts import Parts
from numfmt.rounding import Discarded, OverflowPolicy, RoundingMode

if TYPE_CHECKING:
    from numfmt.formats import FloatFormat

_ONE = np.uint64(1)


def round_parts(
    fmt: FloatFormat,
    parts: Parts,
    mode: RoundingMode,
    policy: OverflowPolicy,
    nan: str | None,
    random: NDArray[np.uint32] | None = None,
    random_bits: int = 32,
) -> NDArray[np.float64]:
    """Round numbers in parts to a format.

    Args:
        fmt: The format.
        parts: The numbers.
        mode: Rounding mode.
        policy: Overflow policy.
        nan: What NaN becomes in a format without NaN: "zero", "largest", or None for an error.
        random: One integer in ``[0, 2**random_bits)`` per number, for stochastic modes.
        random_bits: Number of random bits, 1 to 32.

    Returns:
        The rounded values as float64, in the shape of ``parts``.

    Raises:
        ValueError: For NaN in a format without NaN, unless ``nan`` says what it becomes.
    """
    magnitude = _round_magnitude(fmt, parts, mode, random, random_bits)
    return _finish(fmt, parts, magnitude, mode, policy, nan)


def _round_magnitude(
    fmt: FloatFormat, parts: Parts, mode: RoundingMode, random: NDArray[np.uint32] | None, random_bits: int
) -> NDArray[np.float64]:
    """Magnitudes on the format's grid, continued beyond its largest value without a bound on the exponent."""
    m = fmt.mantissa_bits
    significand = parts.significand
    top = parts.exponent + 63  # floor(log2(x))
    lowest = fmt.emin - m if fmt.subnormals else fmt.emin
    quantum = np.where(top >= fmt.emin, top - m, lowest)

    # s is at least 64 - 53, since a significand has its top bit set and a format at most 53 bits.
    s = np.where(significand == 0, 64, quantum - parts.exponent)
    s63 = np.minimum(s, 63).astype(np.uint64)
    truncated = np.where(s > 63, np.uint64(0), significand >> s63)
    rest = np.where(s > 63, significand, significand - (truncated << s63))
    half_quantum = _ONE << np.minimum(s - 1, 63).astype(np.uint64)
    sticky = parts.inexact if parts.inexact is not None else np.zeros(s.shape, np.bool_)
    half = (rest >= half_quantum) & (s <= 64)
    above = half & ((rest > half_quantum) | sticky)
    # With a mantissa, the code's last bit is the significand's; without one, it is the exponent field's.
    odd = (
        (truncated & _ONE) != 0 if m > 0 else (truncated != 0) & (((quantum + fmt.bias) & 1) != 0)
    )  # IEEE P3109, RoundToPrecision: for P = 1 evenness is that of the exponent
    carry = None
    if mode.stochastic:
        assert random is not None
        carry = _carry(rest, s, sticky, mode.stochastic, random, random_bits)
    away = mode.away(Discarded(parts.negative, odd, (rest != 0) | sticky, half, above, carry))
    with np.errstate(over="ignore"):  # beyond float64 is beyond every format
        magnitude: NDArray[np.float64] = np.ldexp((truncated + away).astype(np.float64), quantum)
    return magnitude


def _carry(
    rest: NDArray[np.uint64],
    s: NDArray[np.int64],
    sticky: NDArray[np.bool_],
    variant: str,
    random: NDArray[np.uint32],
    n: int,
) -> NDArray[np.bool_]:
    """Does the discarded fraction ``rest / 2**s``, brought to n bits as the variant says, plus R / 2**n reach one?"""
    # f = floor(fraction * 2**(n+1)): one bit more than the random number has, for the variants that round.
    shift = s - (n + 1)
    right = np.clip(shift, 0, 63).astype(np.uint64)
    left = np.clip(-shift, 0, 63).astype(np.uint64)
    f = np.where(shift > 63, np.uint64(0), (rest >> right) << left)
    r = random.astype(np.uint64)
    full = _ONE << np.uint64(n)
    if variant == "a":
        return np.asarray((f >> _ONE) + r >= full)
    if variant == "b":
        return np.asarray(f + r + r + _ONE >= full + full)
    beyond = sticky | np.where(shift > 63, rest != 0, rest != (rest >> right) << right)
    whole, half = f >> _ONE, (f & _ONE) != 0
    whole = whole + (half & (beyond | ((whole & _ONE) != 0)))
    return np.asarray(whole + r >= full)


def _finish(
    fmt: FloatFormat,
    parts: Parts,
    magnitude: NDArray[np.float64],
    mode: RoundingMode,
    policy: OverflowPolicy,
    nan: str | None,
) -> NDArray[np.float64]:
    """Ends of the range, specials and signs."""
    finite = ~(parts.nan | parts.infinite)
    if not fmt.zero:
        magnitude = np.where(finite & (magnitude < fmt.min_positive), fmt.min_positive, magnitude)
    negative = parts.negative
    result = np.where(negative, -magnitude, magnitude) if fmt.signed else magnitude
    for sign in (1, -1):
        side = negative if sign < 0 else ~negative
        if sign > 0 or fmt.signed:
            beyond, limit = magnitude > fmt.max, sign * fmt.max
            has_infinity = fmt.infinities
            inward = sign in mode.inward or (mode.name == "to_odd" and fmt.max_code & 1 == 1)
        else:  # no negative values: the range ends at the smallest one
            beyond, limit = ((magnitude > 0) if fmt.zero else (parts.significand != 0)), fmt.min_nonnegative
            has_infinity, inward = False, sign in mode.inward
        ends = {
            "largest": limit,
            "infinity": sign * np.inf if has_infinity else limit,
            "nan": np.nan,
            "infinity_or_nan": sign * np.inf if has_infinity else np.nan,
        }
        over = side & finite & beyond
        if over.any():
            result = np.where(over, limit if inward else _end(fmt, ends, policy, policy.finite), result)
        infinite = side & parts.infinite
        if infinite.any():
            result = np.where(infinite, _end(fmt, ends, policy, policy.infinite), result)
    if not fmt.negative_zero:
        result = np.where(result == 0, 0.0, result)
    if parts.nan.any():
        result = np.where(parts.nan, nan_value(fmt, nan), result)
    return np.asarray(result, np.float64)


def _end(fmt: FloatFormat, ends: dict[str, Any], policy: OverflowPolicy, key: str) -> float:
    value = float(ends[key])
    if np.isnan(value) and not fmt.has_nan:
        raise ValueError(
            f"overflow={policy.name!r} asks for NaN, but {fmt.name} has none; use overflow='saturate' (or 'propagate')"
        )
    return value


def nan_value(fmt: FloatFormat, nan: str | None) -> float:
    """The value NaN becomes in a format.

    Raises:
        ValueError: If the format has no NaN and ``nan`` names no replacement.
    """
    if fmt.has_nan:
        return float("nan")
    if nan == "zero":
        return 0.0 if fmt.zero else fmt.min_positive
    if nan == "largest":
        return fmt.max
    raise ValueError(f"x holds NaN, but {fmt.name} has no NaN; pass nan='zero' or nan='largest' to replace it")
