"""Why a number is rounded to what it is rounded to: the exact value, its neighbours, the distance, the mode's
decision."""

from __future__ import annotations

import math
import re
import textwrap
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from numfmt._errors import not_a_format
from numfmt._random import Seed
from numfmt.elements import FixedFormat, TableFormat
from numfmt.families import lookup
from numfmt.formats import FloatFormat
from numfmt.rounding import ROUNDINGS, OverflowPolicy, RoundingMode, overflow_policy, rounding_mode
from numfmt.tables import align, code_bits, value_text

__all__ = ["Explanation", "explain", "parse_number"]

Format = FloatFormat | FixedFormat | TableFormat

_TEXT_WIDTH = 100
_SPECIAL = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}
# Numbers with larger exponents are refused: no format has them, and their digits would fill the memory.
_LARGEST_EXPONENT = 5000
_EXPONENT = re.compile(r"[ep]([+-]?\d+)$")
_HEX = re.compile(r"[+-]?0x", re.IGNORECASE)


def parse_number(text: str) -> Fraction | float:
    """A number as people write it, exactly: ``0.1`` is one tenth here, not the nearest float64.

    Args:
        text: A decimal (``0.1``, ``1e-3``), a fraction (``1/3``), a hexadecimal float (``0x1.8p-3``), ``inf``, ``nan``.

    Returns:
        A Fraction; a float for infinities, NaN and -0.

    Raises:
        ValueError: For anything else.
    """
    folded = text.strip().casefold().replace("_", "")
    sign = -1.0 if folded.startswith("-") else 1.0
    if folded.lstrip("+-") in _SPECIAL:
        return sign * _SPECIAL[folded.lstrip("+-")]
    exponent = _EXPONENT.search(folded)
    if exponent and abs(int(exponent[1])) > _LARGEST_EXPONENT:
        raise ValueError(f"{text!r} has an exponent beyond {_LARGEST_EXPONENT}; no format reaches as far")
    try:
        value = Fraction(float.fromhex(folded)) if _HEX.match(folded) else Fraction(folded)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ValueError(f"{text!r} is no number; write it like 0.1, 1/3, 2**-9 as 0x1p-9, inf or nan") from None
    return -0.0 if value == 0 and sign < 0 else value


@dataclass(frozen=True)
class Explanation:
    """One rounding, explained.

    Attributes:
        x: The number, exact.
        fmt: The format.
        mode: The rounding mode.
        policy: The overflow policy.
        result: The rounded value.
        below: The largest value that is not larger than x, or None.
        above: The smallest value that is not smaller than x, or None.
        position: Where x lies from ``below`` (0) to ``above`` (1), exactly; None for a value or outside the range.
        reason: One sentence.
    """

    x: Fraction | float
    fmt: Format
    mode: RoundingMode
    policy: OverflowPolicy
    result: float
    below: float | None
    above: float | None
    position: Fraction | None
    reason: str

    def __str__(self) -> str:
        fmt = self.fmt
        lines = [f"{number_text(self.x)} to {fmt.name}{_widths(fmt)}, {self.mode.name}", ""]
        rows = [("", "value", "code", "bits", "hexadecimal")]
        for label, value in (("above", self.above), ("x", None), ("below", self.below)):
            if label == "x":
                rows.append(("x", number_text(self.x), "", "", _hexadecimal(self.x)))
            elif value is not None:
                rows.append((label, *_row(fmt, value)))
        rows.append(("result", *_row(fmt, self.result)))
        lines += [align(rows, "<><<<"), ""]
        if self.position is not None:
            assert self.below is not None
            assert self.above is not None
            percent = _percent(self.position)
            lines.append(
                f"x lies {percent} of the way from {value_text(self.below)} up to {value_text(self.above)}, "
                f"which are {value_text(self.above - self.below)} apart."
            )
        lines.append(textwrap.fill(self.reason, _TEXT_WIDTH, break_on_hyphens=False))
        if isinstance(self.x, Fraction) and math.isfinite(self.result) and self.x != 0:
            error = Fraction(self.result) - self.x
            relative = abs(error / self.x)
            unit = f" = {float(relative) / fmt.unit_roundoff:.3g} u" if isinstance(fmt, FloatFormat) else ""
            size = f"{float(error):.6g}" if float(error) or not error else number_text(error)
            lines.append(f"Error {size}, relative {float(relative):.3g}{unit}.")
        return "\n".join(lines)

    def result_row(self) -> tuple[str, str, str]:
        """The result as texts.

        Returns:
            Value, code in hexadecimal, and bits.
        """
        return _row(self.fmt, self.result)[:3]

    def other_modes(self) -> str:
        """What every deterministic mode gives.

        Returns:
            One line a mode, under headings: mode, value and code.
        """
        rows = [("mode", "value", "code")]
        for mode in ROUNDINGS.values():
            if not mode.stochastic:
                value = _round(self.fmt, self.x, mode, self.policy)
                rows.append((mode.name, *_row(self.fmt, value)[:2]))
        return align(rows, "<><")


def explain(
    x: Fraction | float | str,
    fmt: Format | str,
    rounding: str | RoundingMode = "nearest_even",
    overflow: str | OverflowPolicy | None = None,
    rng: Seed = None,
) -> Explanation:
    """Explain how one number is rounded.

    Args:
        x: The number; a string is taken exactly (`parse_number`).
        fmt: The format, or its name (`numfmt.lookup`).
        rounding: Rounding mode.
        overflow: Overflow policy; None takes the format's own.
        rng: Seed or generator for stochastic modes.

    Returns:
        The explanation; ``str()`` of it is for people.

    Raises:
        ValueError: For text that is no number, for NaN in a format without NaN, and for unknown names.
        TypeError: For something that is no format of numbers.
    """
    fmt = lookup(fmt) if isinstance(fmt, str) else fmt
    if not isinstance(fmt, Format):
        raise TypeError(not_a_format("fmt", fmt))
    number = parse_number(x) if isinstance(x, str) else x
    if not isinstance(number, float) or (math.isfinite(number) and number != 0):
        number = Fraction(number)
    elif number == 0 and (math.copysign(1, number) > 0 or not getattr(fmt, "negative_zero", False)):
        number = Fraction(0)
    mode = rounding_mode(rounding)
    default = fmt.overflow if isinstance(fmt, FloatFormat) else "saturate"
    policy = overflow_policy(default if overflow is None else overflow)
    result = _round(fmt, number, mode, policy, rng)
    inside = isinstance(number, Fraction) and Fraction(fmt.min) <= number <= Fraction(fmt.max)
    below: float | None = None
    above: float | None = None
    position: Fraction | None = None
    if isinstance(number, Fraction) and inside:
        below, above = (_round(fmt, number, rounding_mode(m), overflow_policy("saturate")) for m in ("down", "up"))
        if below != above:
            position = (number - Fraction(below)) / (Fraction(above) - Fraction(below))
    elif isinstance(number, Fraction):
        below, above = (fmt.max, None) if number > 0 else (None, fmt.min)
    elif number == 0:  # -0
        below = above = result
    reason = _reason(number, fmt, mode, policy, result, below, above, position)
    return Explanation(number, fmt, mode, policy, result, below, above, position, reason)


def _round(fmt: Format, x: Fraction | float, mode: RoundingMode, policy: OverflowPolicy, rng: Seed = None) -> float:
    array = np.array([x], object)
    if not isinstance(fmt, FloatFormat):
        if isinstance(x, Fraction) and Fraction(float(x)) != x and isinstance(fmt, TableFormat):
            array = np.array([float(x)])
        return float(np.asarray(fmt.round(array, mode, rng))[0])
    return float(fmt.round(array, mode, rng, policy)[0])


def _reason(
    x: Fraction | float,
    fmt: Format,
    mode: RoundingMode,
    policy: OverflowPolicy,
    result: float,
    below: float | None,
    above: float | None,
    position: Fraction | None,
) -> str:
    if isinstance(x, float) and x != 0:
        what = "NaN" if math.isnan(x) else "Infinity"
        return f"{what} becomes {value_text(result)} (overflow policy {policy.name}: {policy.meaning})."
    if below is None or above is None:
        end = above if below is None else below
        assert end is not None
        if result == end:
            return (
                f"x lies beyond {value_text(end)}, the last value; {mode.name} with policy {policy.name} stays there."
            )
        return (
            f"x lies beyond {value_text(end)}, the last value, and {mode.name} takes it farther: "
            f"overflow policy {policy.name}, {policy.meaning}."
        )
    if position is None:
        return f"{value_text(result)} is a value of the format, which every mode keeps."
    if mode.stochastic:
        went = "up" if result == above else "down"
        return f"{mode.name} goes up with probability {_percent(position)}; this time it went {went}."
    if mode.name in ("nearest_even", "nearest_away"):
        if position != Fraction(1, 2):
            return f"{mode.name} takes the nearer one, {value_text(result)}."
        why = "the one with the even code" if mode.name == "nearest_even" else "the one farther from zero"
        return f"A tie: both are equally near. {mode.name} takes {why}, {value_text(result)}."
    return f"{mode.name} goes {mode.meaning}: {value_text(result)}."


def number_text(x: Fraction | float) -> str:
    """A number for people.

    Args:
        x: The number.

    Returns:
        Its decimal digits if they end soon, else the fraction if it is short, else a rounded decimal or a power of two.
    """
    if isinstance(x, float):
        return value_text(x)
    size = abs(x)
    if size and not Fraction(2) ** -1074 <= size < Fraction(2) ** 1023:
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        return f"about {'-' if x < 0 else ''}2^{exponent}"
    denominator = x.denominator
    while denominator % 2 == 0:
        denominator //= 2
    while denominator % 5 == 0:
        denominator //= 5
    short = f"{float(x):.17g}"
    if denominator == 1 and Fraction(value_text(float(x))) == x:
        return value_text(float(x))
    if len(str(x)) <= 24:
        return str(x)
    return short


def _percent(position: Fraction) -> str:
    """A fraction as a percentage that does not hide a tie: 50 % is only ever printed for one half."""
    text = f"{float(position * 100):.4g} %"
    if text == "50 %" and position != Fraction(1, 2):
        return "a hair more than 50 %" if position > Fraction(1, 2) else "a hair less than 50 %"
    if text in ("0 %", "100 %"):
        return "a hair more than 0 %" if text == "0 %" else "a hair less than 100 %"
    return text


def _row(fmt: Format, value: float) -> tuple[str, str, str, str]:
    if math.isnan(value) and not fmt.has_nan:
        return value_text(value), "", "", ""
    code = int(fmt.encode(value, overflow="propagate")) if isinstance(fmt, FloatFormat) else int(fmt.encode(value))
    digits = (fmt.bits + 3) // 4
    return value_text(value), f"0x{code:0{digits}X}", code_bits(fmt, code), _hexadecimal(value)


def _hexadecimal(x: Fraction | float) -> str:
    if isinstance(x, Fraction):
        if not 0 < abs(x) < Fraction(2) ** 1023:
            return ""
        text, exact = float(x).hex(), Fraction(float(x)) == x
        if float(x) == 0:
            return ""
    elif math.isfinite(x):
        text, exact = x.hex(), True
    else:
        return ""
    mantissa, exponent = text.split("p")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}{'' if exact else '...'}p{exponent}"


def _widths(fmt: Format) -> str:
    if isinstance(fmt, FloatFormat):
        return f" ({int(fmt.signed)} + {fmt.exponent_bits} + {fmt.mantissa_bits} bits, bias {fmt.bias})"
    return f" ({fmt.bits} bits)"
