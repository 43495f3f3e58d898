"""What FpSan does not instrument works on the carriers: the float bit patterns that payloads unembed to."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fpsan_tools.algebra.floats import FloatType, Payload, constant, signed, width

Bits = npt.NDArray[Any]


def absolute(u: Payload) -> Payload:
    """|x| of float patterns: the sign bit cleared."""
    return u & constant(u, (1 << (width(u) - 1)) - 1)


def clamp(u: Payload, low: Payload, high: Payload, dtype: FloatType, propagate_nan: bool) -> Payload:
    """min(max(x, low), high) of float patterns in IEEE order, -0 below +0.

    Args:
        u: patterns.
        low: lower bounds, patterns.
        high: upper bounds, patterns.
        dtype: their float type.
        propagate_nan: True for IEEE 754-2019 maximum/minimum (a NaN operand gives NaN), False for
            maximumNumber/minimumNumber (a NaN operand gives the other one).

    Returns:
        Patterns; a NaN result is the largest positive pattern, as NVIDIA's instructions give.
    """
    return _pick(_pick(u, low, dtype, propagate_nan, larger=True), high, dtype, propagate_nan, larger=False)


def _pick(a: Bits, b: Bits, dtype: FloatType, propagate_nan: bool, larger: bool) -> Bits:
    canonical_nan = constant(a, (1 << (dtype.bits - 1)) - 1)
    nan_a, nan_b = absolute(a) > constant(a, dtype.largest), absolute(b) > constant(b, dtype.largest)
    best = np.where((_order(a) >= _order(b)) == larger, a, b)
    if propagate_nan:
        return np.where(nan_a | nan_b, canonical_nan, best)
    return np.where(nan_a & nan_b, canonical_nan, np.where(nan_a, b, np.where(nan_b, a, best)))


def _order(u: Bits) -> Bits:
    """Integers in the order of the floats: negative patterns are sign and magnitude."""
    return np.where(signed(u) < 0, ~signed(absolute(u)), signed(u))
