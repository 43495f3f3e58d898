"""Units in the last place and neighbouring values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numfmt import _apply

if TYPE_CHECKING:
    from numfmt.formats import FloatFormat


def ulp(fmt: FloatFormat, x: Any) -> Any:
    """Distance between values in the binade of x; see `FloatFormat.ulp`."""
    numbers = _apply.as_numbers(x)
    parts = _apply.take_apart(numbers.reshape(-1))
    lowest = fmt.emin - fmt.mantissa_bits if fmt.subnormals else fmt.emin
    top = np.where(parts.significand == 0, fmt.emin - 1, np.minimum(parts.exponent + 63, fmt.emax))
    result = np.ldexp(1.0, np.where(top >= fmt.emin, top - fmt.mantissa_bits, lowest))
    result = np.where(parts.nan, np.nan, np.where(parts.infinite, np.inf, result))
    return result.reshape(numbers.shape)[()]


def next_up(fmt: FloatFormat, x: Any) -> Any:
    """Smallest larger value; see `FloatFormat.next_up`."""
    return _next(fmt, x, "down", "up", np.inf)


def next_down(fmt: FloatFormat, x: Any) -> Any:
    """Largest smaller value; see `FloatFormat.next_down`."""
    return _next(fmt, x, "up", "down", -np.inf)


def _next(fmt: FloatFormat, x: Any, against: str, toward: str, infinity: float) -> Any:
    """The next value of the format is the next float64 rounded on, since every value of a format is a float64."""
    from numfmt.formats import FP64

    carrier = np.asarray(FP64.round(x, against), np.float64)
    nan = np.isnan(carrier)
    with np.errstate(over="ignore", under="ignore"):
        after = np.nextafter(np.where(nan, 0.0, carrier), infinity)
    result = np.where(nan, np.nan, fmt.round(after, toward))
    beyond = np.isfinite(carrier) & (after == infinity)
    if beyond.any():  # a finite number larger than every float64, not an infinity
        result = np.where(beyond, fmt.round(2**1024 if infinity > 0 else -(2**1024), toward), result)
    return result[()]
