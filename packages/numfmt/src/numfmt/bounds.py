"""A-priori error bounds of sums: gamma_n, and the bound of every summation method."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from numfmt._inputs import as_carrier

Float64Array = NDArray[np.float64]


def gamma(n: ArrayLike, u: float) -> Float64Array:
    """gamma_n = n·u / (1 - n·u), the bound on the relative effect of n roundings.

    Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., lemma 3.1.

    Args:
        n: Number of roundings; array or scalar, not negative.
        u: Unit roundoff, for example `BF16.unit_roundoff`; for directed and stochastic rounding twice that.

    Returns:
        float64 array of n's shape, a scalar for a scalar; infinite where n·u >= 1, where the bound does not exist.

    Raises:
        ValueError: For negative n, and for u outside (0, 1].
        TypeError: For n that holds no real numbers.
    """
    count = as_carrier(n, "n")
    if not np.all(count >= 0):
        raise ValueError(f"n must not be negative, got {n!r}")
    if not 0.0 < u <= 1.0:
        raise ValueError(f"u must be a unit roundoff in (0, 1], got {u!r}; take fmt.unit_roundoff")
    with np.errstate(divide="ignore", invalid="ignore"):
        product = count * u
        result: Float64Array = np.where(product < 1.0, product / (1.0 - product), np.inf)
    return result[()]
