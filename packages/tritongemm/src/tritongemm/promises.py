"""What a precision mode promises: bounds of its error that no input exceeds, worked out from what the hardware does.

A matrix unit's step cuts every product and the running sum toward zero, 2**-F below the largest of them, adds exactly,
and cuts the result to r bits; an fp32 operation rounds to nearest. From these follow, for K products p of one output:

- a chain of S steps of L products: every step makes the running error, plus what it adds, larger by at most the factors
  1 + t and 1 + r, with t = (L + 1)·2**-F and r = 2**-(result bits), so |error| <= ((1 + t)**S·(1 + r)**S - 1)·sum|p|;
- n additions or fused multiply-adds in fp32 or fp64: gamma_n·sum|p| (Higham, Accuracy and Stability of Numerical
  Algorithms, section 4.2);
- parts added up: the factors of one part and of the additions multiply;
- operands that lose bits before they are multiplied: the loss, as a factor of |a·b|.

Subnormal operands keep the least exponent of their type in the alignment, so a product of one counts as if its operand
were 2**emin: where operands may be subnormal, the cut can be as large as t·2**emin·max|other operand|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import numfmt

Array = np.ndarray[Any, np.dtype[Any]]

LAMBDA = 6.0
"""lambda of the probabilistic bounds (Higham and Mary, SIAM J. Sci. Comput. 41, 2019): 1 - 2·K·exp(-18) per output."""


@dataclass(frozen=True)
class Promise:
    """Bounds of a mode's error, of the accumulator before the epilogue.

    Attributes:
        relative_bound: |error| <= relative_bound·sum|p| + absolute + ..., for any operands; see `bound`.
        absolute: What underflow can add, whatever the operands.
        probabilistic: In units of sum|p|: what errors stay below with the probability of `LAMBDA` if roundings to
            nearest are independent and products have independent random signs; what is cut always toward zero counts
            in full.
        order: The summation order in words.
        subnormal: In units of max|row of A| + max|column of B|: what subnormal operands can add.
        scaled: In units of max|row of A|·max|column of B|: for modes that scale by rows and columns.
        largest: Operands up to this magnitude are covered (larger ones may overflow in a part).
    """

    relative_bound: float
    absolute: float
    probabilistic: float
    order: str
    subnormal: float = 0.0
    scaled: float = 0.0
    largest: float = math.inf

    def bound(self, magnitude: Array, row: Array | None = None, column: Array | None = None) -> Array:
        """The largest error of each output.

        Args:
            magnitude: (M, N) float64, sum|p|.
            row: (M,) largest magnitude of each row of A; None: no operand is subnormal, nothing is scaled.
            column: (N,) largest magnitude of each column of B.

        Returns:
            (M, N) float64.
        """
        bound = self.relative_bound * np.asarray(magnitude, np.float64) + self.absolute
        if row is not None and column is not None:
            high, wide = np.asarray(row, np.float64)[:, None], np.asarray(column, np.float64)[None, :]
            bound = bound + self.subnormal * (high + wide) + self.scaled * high * wide
        return np.asarray(bound)


@dataclass(frozen=True)
class Error:
    """The error of a sum under construction, in units of sum|p|: certain bound, part that is biased, random variance.

    Attributes:
        factor: 1 + the bound.
        biased: Cuts toward zero, which add up.
        variance: Sum of squares of the others.
    """

    factor: float = 1.0
    biased: float = 0.0
    variance: float = 0.0

    def then(self, factor: float, biased: float = 0.0, variance: float = 0.0) -> Error:
        """After one more source of error."""
        return Error(self.factor * factor, self.biased + biased, self.variance + variance)

    @property
    def bound(self) -> float:
        """The certain bound."""
        return self.factor - 1.0

    @property
    def probable(self) -> float:
        """The probabilistic bound."""
        return min(self.bound, math.expm1(self.biased + LAMBDA * math.sqrt(self.variance)))


def rounded(error: Error, steps: int, unit_roundoff: float) -> Error:
    """After `steps` roundings to nearest of the running sum."""
    if steps <= 0:
        return error
    return error.then(1.0 + float(numfmt.gamma(steps, unit_roundoff)), 0.0, steps * unit_roundoff**2)


def on_unit(error: Error, steps: int, products: int, fraction_bits: int, mantissa_bits: int) -> Error:
    """After `steps` steps of a matrix unit with `products` products each."""
    cut, last = (products + 1) * 2.0**-fraction_bits, 2.0**-mantissa_bits
    exact = math.exp(steps * (math.log1p(cut) + math.log1p(last)))
    return error.then(
        exact * (1 + 2.0**-50), steps * (last + 2.0**-fraction_bits), steps * products * 4.0**-fraction_bits
    )


def lost(error: Error, share: float) -> Error:
    """After operands lost `share` of |a·b| before their multiplication."""
    return error.then(1.0 + share, share)
