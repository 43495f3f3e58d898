"""Exact arithmetic for tests: operations on floats as fractions, rounded once by integers."""

from fractions import Fraction
from typing import Any

import numpy as np

FLOAT32 = (24, -126)  # significand bits, exponent of the smallest normal number


def nearest(exact: Fraction, bits: int = 24, emin: int = -126) -> Fraction:
    """The nearest number with `bits` significand bits, ties to even, subnormals included (no overflow)."""
    if exact == 0:
        return Fraction(0)
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length() - 1
    while Fraction(2) ** (exponent + 1) <= abs(exact):
        exponent += 1
    exponent = max(exponent, emin)
    unit = Fraction(2) ** (exponent - bits + 1)
    return round(exact / unit) * unit  # Fraction rounds ties to even


def fma_chain(a: Any, b: Any) -> np.float32:
    """sum_k a[k]*b[k] as float32 fused multiply-adds in ascending k, from exact fractions."""
    total = Fraction(0)
    for x, y in zip(a, b, strict=True):
        total = nearest(total + Fraction(float(x)) * Fraction(float(y)))
    return np.float32(float(total))


def lanes_sum(a: Any, b: Any, block: int, fused: bool = True) -> np.float32:
    """The strided-lanes kernel from exact fractions: running sums per lane, then a tree of neighbours."""
    lanes = [Fraction(0)] * block
    for k, (x, y) in enumerate(zip(a, b, strict=True)):
        product = Fraction(float(x)) * Fraction(float(y))
        lanes[k % block] = nearest(lanes[k % block] + (product if fused else nearest(product)))
    while len(lanes) > 1:
        lanes = [nearest(lanes[i] + lanes[i + 1]) for i in range(0, len(lanes), 2)]
    return np.float32(float(lanes[0]))
