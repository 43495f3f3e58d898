"""Distributions of inputs that bring out what ordinary random numbers hide.

Each changes inputs that were drawn, and keeps their shapes, types and signs of structure: integers, masks and 8-bit
floats (whose scales go with them) stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tritongemm.errors import UsageError, nearest

Array = np.ndarray[Any, np.dtype[Any]]
Change = Callable[[np.random.Generator, Array], Array]
"""Takes a generator and float64 values, gives other values of the same shape."""

GIVEN = "as drawn"


def _wide(rng: np.random.Generator, x: Array) -> Array:
    return np.ldexp(x, rng.integers(-12, 13, x.shape))


def _cancelling(rng: np.random.Generator, x: Array) -> Array:
    """Neighbours along the last axis that take each other back, but for a thousandth part."""
    made = x.copy()
    if made.ndim and made.shape[-1] > 1:
        pairs = made.shape[-1] // 2
        back = 1 + np.ldexp(rng.uniform(-1, 1, (*made.shape[:-1], pairs)), -10)
        made[..., 1 : 2 * pairs : 2] = -made[..., : 2 * pairs : 2] * back
    return made


def _extreme(rng: np.random.Generator, x: Array) -> Array:
    """Values up to some hundreds, beyond where an exponential overflows fp32, and one that stands out."""
    made = 100.0 * x
    flat = made.reshape(-1)
    if flat.size:
        flat[rng.integers(flat.size)] = 500.0
    return made


def _flat(rng: np.random.Generator, x: Array) -> Array:
    """Nearly equal values of size 1: their variance is 1e-6."""
    return 1.0 + 1e-3 * x


CHANGES: dict[str, Change] = {
    "tiny": lambda rng, x: np.ldexp(x, -10),
    "large": lambda rng, x: np.ldexp(x, 6),
    "wide": _wide,
    "cancelling": _cancelling,
    "extreme": _extreme,
    "flat": _flat,
    "positive": lambda rng, x: np.abs(x),
}
TEXT = {
    "tiny": "2^-10 times as drawn",
    "large": "64 times as drawn",
    "wide": "times 2^-12 to 2^12",
    "cancelling": "neighbours cancel to 2^-10",
    "extreme": "100 times as drawn, one value 500",
    "flat": "1 + 0.001 times as drawn: near-zero variance",
    "positive": "absolute values",
}


def changes_named(chosen: Iterable[str] | Mapping[str, Change]) -> dict[str, Change]:
    """Distributions by name, or a user's own.

    Args:
        chosen: Names of `CHANGES`, or functions of a generator and float64 values by name.

    Raises:
        UsageError: There is no such distribution.
    """
    if isinstance(chosen, Mapping):
        return dict(chosen)
    made = {}
    for name in chosen:
        if name not in CHANGES:
            raise UsageError(f"distributions: {name!r} is none. {nearest(name, CHANGES)}")
        made[name] = CHANGES[name]
    return made
