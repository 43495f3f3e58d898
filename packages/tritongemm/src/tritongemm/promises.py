"""What a precision mode promises: bounds of its error that no input exceeds, worked out from what the hardware does.

A matrix unit's step cuts every product and the running sum toward zero, 2**-F below the largest of them, adds exactly,
and cuts the result to r bits; an fp32 operation rounds to nearest. From these follow, for K products p of one output:

- a chain of S steps of L products: every step makes the running error, plus what it adds, larger by at most the factors
  1 + t and 1 + r, with t = (L + 1)·2**-F and r = 2**-(result bits), so |error| <= ((1 + t)**S·(1 + r)**S - 1)·sum|p|;
- n additions or fused multiply-adds in fp32 or fp64: gamma_n·sum|p| (Higham, Accuracy and Stability of Numerical
  Algorithms, section 4.2);
- parts added up: the factors of one part and of the additions multiply;
- operands that are rounded or split: what is not multiplied, as a share of |a·b|, and by how much the products of the
  parts are larger together than |a·b|.

Three things are no share of sum|p|. Products of subnormal operands: these keep the least exponent of their type in the
alignment, so the cut of a step can be as large as t·2**emin·max|other operand|; and a part of an operand that
underflows is lost. Running sums that are subnormal: they keep the exponent -126 in the alignment and in the result.

Overflow is not an error that a bound could hold: bounds are for outputs whose partial sums stay finite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import numfmt
from numfmt.matrix_units import MatrixUnit

__all__ = ["LAMBDA", "Promise"]

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
        subnormal: In units of max|row of A| + max|column of B|: what subnormal operands and parts can add.
        scaled: In units of max|row of A|·max|column of B|: for modes that scale by rows and columns.
        largest: Operands up to this magnitude are covered (a part of a larger one may overflow).
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
            bound = bound + self.of_sizes(np.asarray(row, np.float64)[:, None], np.asarray(column, np.float64)[None, :])
        return np.asarray(bound)

    def of_sizes(self, row: Array, column: Array) -> Array:
        """The part of the bound that follows from the operands' sizes.

        Args:
            row: (M, 1) largest magnitude of each row of A, or what broadcasts like it; float64.
            column: (1, N) largest magnitude of each column of B, likewise.
        """
        return np.asarray(self.subnormal * (row + column) + self.scaled * row * column)


@dataclass(frozen=True)
class Error:
    """The error of a sum under construction, in units of sum|p|.

    Attributes:
        factor: 1 + the certain bound.
        biased: Cuts toward zero, which add up.
        variance: Sum of the squares of the other roundings.
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
        return min(self.bound, _expm1(self.biased + LAMBDA * math.sqrt(self.variance)))


def _expm1(x: float) -> float:
    """exp(x) - 1; a bound beyond the range of float64 is no bound."""
    return math.expm1(x) if x < _EXP_MOST else math.inf


_EXP_MOST = 700.0


def rounded(error: Error, steps: int, unit_roundoff: float) -> Error:
    """After `steps` roundings to nearest of the running sum."""
    if steps <= 0:
        return error
    return error.then(1.0 + float(numfmt.gamma(steps, unit_roundoff)), 0.0, steps * unit_roundoff**2)


def on_unit(
    error: Error, steps: int, products: int, fraction_bits: int, mantissa_bits: int, spread: float = 1.0
) -> Error:
    """After a chain of steps of a matrix unit.

    Args:
        error: The error before.
        steps: Number of steps.
        products: Products per step.
        fraction_bits: Bits kept below the largest term.
        mantissa_bits: Mantissa bits of a step's result.
        spread: How much larger than sum|p| the products together are.
    """
    cut, last = (products + 1) * 2.0**-fraction_bits, 2.0**-mantissa_bits
    growth = _expm1(steps * (math.log1p(cut) + math.log1p(last))) * (1 + 2.0**-40)
    return error.then(1 + spread * growth, steps * (last + 2.0**-fraction_bits), steps * products * 4.0**-fraction_bits)


def lost(error: Error, share: float) -> Error:
    """After operands lost `share` of |a·b| before their multiplication."""
    return error.then(1.0 + share, share)


@dataclass(frozen=True)
class Split:
    """What becomes of fp32 operands before a matrix unit multiplies them.

    Attributes:
        products: Products of parts for each product of operands.
        lost: What is not multiplied, as a share of |a·b|.
        spread: How much larger than |a·b| the products of parts are together, at most.
        least: A part below this is lost or cut to it: an absolute error of an operand.
        largest: Parts of operands up to this magnitude are finite.
    """

    products: int = 1
    lost: float = 0.0
    spread: float = 1.0
    least: float = 0.0
    largest: float = math.inf


WHOLE = Split()
"""Operands that are multiplied as they are."""

# fp32 numbers have 24 bits, tf32 numbers 11 and bf16 numbers 8; 2**-p is the unit roundoff of p bits, and a cut loses
# less than twice that. The least tf32 number is 2**-136, the least bf16 number 2**-133; halves of them may be lost.
# tf32x3: the small part is at most 2**12 ulps of x, and cutting it to 11 bits loses less than one ulp, 2**-23·|x|;
# small·small is not multiplied. bf16x3: what high and middle leave of each operand (2**-16), middle·middle (2**-16).
# bf16x6: the three parts hold every bit; middle·low (twice, 2**-24 each) and low·low are not multiplied.
SPLITS: dict[str, Split] = {
    "tf32": Split(lost=(1 + 2.0**-10) ** 2 - 1, least=2.0**-136),
    "tf32_rounded": Split(lost=(1 + 2.0**-11) ** 2 - 1, spread=1.0, least=2.0**-136, largest=(2 - 2.0**-11) * 2.0**127),
    "tf32x3": Split(3, 2.0**-21 * (1 + 2.0**-9), (1 + 2.0**-10) ** 2, 2.0**-136, (2 - 2.0**-11) * 2.0**127),
    "bf16x3": Split(3, 3 * 2.0**-16 * (1 + 2.0**-6), (1 + 2.0**-7) ** 2, 2.0**-134, (2 - 2.0**-8) * 2.0**127),
    "bf16x6": Split(6, 2.0**-23 * (1 + 2.0**-6), (1 + 2.0**-7) ** 2, 2.0**-134, (2 - 2.0**-8) * 2.0**127),
}
"""What the modes do to fp32 operands. A magnitude of `largest` itself already rounds to infinity in a part."""


def unit_underflow(facts: MatrixUnit, steps: int, operand_format: numfmt.FloatFormat) -> tuple[float, float]:
    """What steps of a matrix unit lose by subnormal numbers, before later steps make it larger.

    Args:
        facts: The unit.
        steps: Number of steps.
        operand_format: The format that the unit multiplies.

    Returns:
        What running sums lose that are subnormal, and what products of subnormal operands lose, the latter in units of
        max|row of A| + max|column of B|.
    """
    last, cut = 2.0**-facts.mantissa_bits, (facts.products + 1) * 2.0**-facts.fraction_bits
    return steps * (cut + last) * _FP32_MIN_NORMAL, steps * cut * operand_format.min_normal


def on_matrix_unit(
    facts: MatrixUnit, K: int, operand_format: numfmt.FloatFormat, *, interval: int | None = None, split: Split = WHOLE
) -> Promise:
    """The bounds of sums on a matrix unit with an fp32 accumulator.

    Args:
        facts: The unit.
        K: Number of products of operands.
        operand_format: The format that the unit multiplies.
        interval: Products after which the partial sum goes to an fp32 sum, or None: one chain.
        split: What becomes of operands first.
    """

    def steps(k: int) -> int:
        return split.products * -(-k // facts.depth) * (facts.depth // facts.products)

    longest = steps(K if interval is None else min(K, interval))
    error = lost(Error(), split.lost)
    error = on_unit(error, longest, facts.products, facts.fraction_bits, facts.mantissa_bits, split.spread)
    parts = 1 if interval is None else -(-K // interval)
    error = rounded(error, parts - 1, _U32)
    absolute, subnormal = unit_underflow(facts, steps(K), operand_format)
    absolute, subnormal = absolute * error.factor, (subnormal + 4 * K * split.least) * error.factor
    chain = f"steps of {facts.products} products on the tensor core"
    order = (
        f"one chain of {chain}"
        if interval is None
        else f"chains of {chain}, begun anew and added to an fp32 sum every {interval} products"
    )
    if split.products > 1:
        order += f"; {split.products} products of parts for each product"
    return Promise(error.bound, absolute, error.probable, order, subnormal=subnormal, largest=split.largest)


def of_parts(longest: Promise, parts: int, unit_roundoff: float) -> Promise:
    """The bounds of a sum that is cut into parts, which are then added one after the other.

    Args:
        longest: The promise of the longest part.
        parts: Number of parts.
        unit_roundoff: Of the type in which parts are added.
    """
    joined = rounded(Error(1 + longest.relative_bound, longest.probabilistic), parts - 1, unit_roundoff)
    share = parts * joined.factor
    return replace(
        longest,
        relative_bound=joined.bound,
        absolute=longest.absolute * share,
        probabilistic=joined.probable,
        order=f"{parts} parts, each {longest.order}, added one after the other",
        subnormal=longest.subnormal * share,
        scaled=longest.scaled * share,
    )


def underflow(factor: float, K: int, fmt: numfmt.FloatFormat) -> float:
    """What K operations lose by results that are subnormal: half of the smallest number each, times `factor`.

    float64 has no half of FP64's smallest number, so that the losses are rounded up to whole ones there.
    """
    lost = factor * K / 2
    return (math.ceil(lost) if fmt.min_subnormal / 2 == 0 else lost) * fmt.min_subnormal


def probable_chain(n: int, unit_roundoff: float, lam: float = LAMBDA) -> float:
    """What n independent unbiased roundings of a sum stay below, in units of sum|p|, apart from rare cases.

    gamma~_n(lambda) = exp(lambda·sqrt(n)·u + n·u²/(1-u)) - 1 (Higham and Mary, theorem 3.1).
    """
    u = unit_roundoff
    return _expm1(lam * math.sqrt(n) * u + n * u * u / (1 - u))


def in_type(bound: Any, golden: Array, out: numfmt.FloatFormat) -> Array:
    """A bound of |c - s| after c was rounded to its type once more.

    Args:
        bound: Bounds of the sums' errors.
        golden: The true sums s, float64.
        out: The type.

    Returns:
        The bounds, float64, of golden's shape.
    """
    return np.asarray(bound + out.unit_roundoff * (np.abs(golden) + bound) + out.min_subnormal / 2)


def of_chain(K: int, fmt: numfmt.FloatFormat) -> Promise:
    """The bounds of one serial chain of fused multiply-adds in a format."""
    error = rounded(Error(), K, fmt.unit_roundoff)
    absolute = underflow(error.factor, K, fmt)
    return Promise(error.bound, absolute, error.probable, "one serial chain of fused multiply-adds over k")


_U32, _FP32_MIN_NORMAL = 2.0**-24, 2.0**-126
