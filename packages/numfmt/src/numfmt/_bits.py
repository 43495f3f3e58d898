"""How many significant bits numbers have."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CARRIER_PRECISION = 53
_MANTISSA_BITS = 52


def bits_of_union(union: int) -> int:
    """An upper bound on the significant bits of numbers from the union (bitwise or) of their float64 bits."""
    union &= (1 << _MANTISSA_BITS) - 1
    return CARRIER_PRECISION - ((union & -union).bit_length() - 1 if union else _MANTISSA_BITS)


def significant_bits(x: NDArray[np.float64]) -> int:
    """An upper bound on the significant bits of every number of an array: 53 less the zero bits they all end in."""
    if not x.size:
        return 1
    bits = x.view(np.uint64) if x.flags.c_contiguous else np.ascontiguousarray(x).view(np.uint64)
    return bits_of_union(int(np.bitwise_or.reduce(bits, axis=None)))
