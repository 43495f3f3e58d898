"""The compiled kernels of one arithmetic, with the checks that let a caller trust a result.

Every method returns whether (or only if) no magnitude it met lies beyond the format's largest value; else the caller
does the block again in NumPy, where overflow policies, infinities and NaN are handled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from numfmt._bits import bits_of_union, significant_bits
from numfmt._fast import sums
from numfmt._fast.jit import _words as draw_groups
from numfmt._fast.plan import FLOAT32, FLOAT64
from numfmt._random import GROUP, PLANE

if TYPE_CHECKING:
    from numfmt._rounded import RoundedArithmetic

Float64Array = NDArray[np.float64]

_NO_WORDS = np.zeros((1, 1), np.uint32)
# A pair of arrays smaller than this is added faster by NumPy than the kernel is called.
_LEAST_PAIR = 64
# Products between these magnitudes, and sums of few enough of them, stay clear of the ends of float32.
_FLOAT32_SMALL, _FLOAT32_LARGE = 2.0**-100, 2.0**100


class CompiledSteps:
    """Kernels for one format, mode and policy.

    Args:
        ops: The arithmetic, whose format has a sign, a zero and subnormals.
    """

    def __init__(self, ops: RoundedArithmetic) -> None:
        self._ops = ops
        fmt = ops.fmt
        self._mode, self._variant = ops.mode.name, ops.mode.stochastic
        self._constants = sums.constants(fmt.emin, fmt.mantissa_bits, fmt.negative_zero)
        self._limit = int(np.array(fmt.max).view(np.uint64))
        self._bits = np.uint32(ops.random_bits or 0)

    def _words(self, random: NDArray[np.uint32] | None, empty: NDArray[np.uint32] = _NO_WORDS) -> NDArray[np.uint32]:
        """Random integers as the top bits of words, as kernels take them."""
        return empty if random is None else np.ascontiguousarray(random << np.uint32(32 - int(self._bits)))

    def _wide(self, bits: int) -> bool:
        return not self._ops.adds_plainly(bits)

    def sequential(
        self, x: Float64Array, s: Float64Array, bits: int, random: NDArray[np.uint32] | None
    ) -> tuple[bool, int]:
        """Add the rows of x to s in order; s is overwritten.

        Args:
            x: (k, T) terms.
            s: (T,) sums.
            bits: Bits of the terms that the kernel is to be right for.
            random: Random integers of stochastic modes.

        Returns:
            Whether no magnitude left the range, and the bits that the terms had.
        """
        kernel = sums.sequential(self._mode, self._variant, self._wide(bits))
        met, union = kernel(x, s, self._words(random), self._constants, self._bits)
        return int(met) <= self._limit, bits_of_union(int(union))

    def promoted(
        self,
        x: Float64Array,
        s: Float64Array,
        outer: Float64Array,
        filled: int,
        chunk: int,
        bits: int,
        to: CompiledSteps,
    ) -> tuple[bool, int, int]:
        """Add the rows of x to s, and s to outer and start it anew whenever `chunk` rows are in.

        Returns:
            As `sequential`, and the rows in the unfinished chunk.
        """
        kernel = sums.promoted(self._mode, self._wide(bits))
        met, met_outer, union, filled = kernel(x, s, outer, filled, chunk, self._constants, to._constants)
        return int(met) <= self._limit and int(met_outer) <= to._limit, bits_of_union(int(union)), int(filled)

    def compensated(
        self,
        method: str,
        x: Float64Array,
        s: Float64Array,
        lost: Float64Array,
        bits: int,
        random: list[NDArray[np.uint32]] | None,
    ) -> bool:
        """Add the rows of x to the compensated sums (s, lost), which are overwritten.

        Args:
            method: "kahan" or "neumaier".
            x: (k, T) terms.
            s: (T,) sums.
            lost: (T,) compensations.
            bits: Bits of the terms.
            random: Random integers of the four additions of every step, (k, T) each.
        """
        p = self._ops.fmt.precision
        kernel = getattr(sums, method)(self._mode, self._variant, self._wide(max(bits, p)), self._wide(p))
        words = self._words(None if random is None else np.stack(random), _NO_WORDS[None])
        return int(kernel(x, s, lost, words, self._constants, self._bits)) <= self._limit

    def add(
        self, a: Float64Array, b: Float64Array, bits: int, random: NDArray[np.uint32] | None
    ) -> Float64Array | None:
        """r(a + b), or None where the result cannot be trusted or a call is not worth it."""
        if a.shape != b.shape or a.size < _LEAST_PAIR:
            return None
        shape = (-1, a.shape[-1])
        x, y = a.reshape(shape), b.reshape(shape)
        out = np.empty(x.shape)
        kernel = sums.pairs(self._mode, self._variant, self._wide(bits))
        words = self._words(None if random is None else random.reshape(shape))
        met = int(kernel(x, y, out, words, self._constants, self._bits))
        return out.reshape(a.shape) if met <= self._limit else None

    def matrix_product(self, a: Float64Array, b: Float64Array, round_products: bool, bits: int) -> Float64Array | None:
        """Running sums of the products of a matrix product, or None where the result cannot be trusted.

        Args:
            a: (M, K) factors.
            b: (K, N) factors, whose products with a's are exact in float64.
            round_products: Products are rounded before they are added.
            bits: Bits of the products that are added.
        """
        if self._variant:
            return None
        wide = self._wide(bits)
        fmt = self._ops.fmt
        nearest = self._mode == "nearest_even"
        carrier = FLOAT32 if nearest and not wide and self._fits_float32(a, b) else FLOAT64
        # Rounding to nearest at most doubles a product, and moves a sum by no more than the term: s itself is a
        # candidate. So a sum of K products stays below 4 K max|a b|.
        product = float(np.max(np.abs(a), initial=0.0)) * float(np.max(np.abs(b), initial=0.0))
        watched = not (nearest and 4.0 * a.shape[1] * product < fmt.max)
        kernel = sums.matrix_product(self._mode, round_products, wide, carrier, watched)
        s = np.zeros((a.shape[0], b.shape[1]), carrier.dtype)
        constants = sums.constants(fmt.emin, fmt.mantissa_bits, fmt.negative_zero, carrier)
        limit = carrier.bits(min(fmt.max, float(np.finfo(carrier.dtype).max)))
        x, y = (np.ascontiguousarray(v, carrier.dtype) for v in (a, b))
        return s.astype(np.float64) if int(kernel(x, y, s, constants)) <= limit else None

    @staticmethod
    def float32_fma_product(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
        """(M, K) · (K, N) as chains of float32 fused multiply-adds in ascending k, from +0."""
        s = np.zeros((a.shape[0], b.shape[1]), np.float32)
        sums.float32_fma_product(np.ascontiguousarray(a), np.ascontiguousarray(b), s)
        return s

    def _fits_float32(self, a: Float64Array, b: Float64Array) -> bool:
        """Whether float32 carries everything: products of at most 24 bits, sums of at most 11, middling exponents."""
        p = self._ops.fmt.precision
        if 2 * p + 2 > 24 or significant_bits(a) + significant_bits(b) > 24 or self._ops.fmt.emin < -126:
            return False
        least, largest = 1.0, float(max(a.shape[1], 1))
        for x in (a, b):
            size = np.abs(x)
            if not np.isfinite(size).all():
                return False
            least *= float(np.min(size, where=size > 0, initial=1.0))
            largest *= float(np.max(size, initial=0.0))
        return least >= _FLOAT32_SMALL and largest <= _FLOAT32_LARGE


def transposed(x: Float64Array) -> Float64Array:
    """A contiguous copy of a (k, T) array whose transpose is contiguous."""
    out = np.empty(x.shape)
    sums.transpose(x.T, out)
    return out


def philox_words(key: int, start: int, count: int) -> NDArray[np.uint32]:
    """The same words as `numfmt._random.philox_words`, drawn by compiled code."""
    first = start // GROUP
    words = np.empty((-(-(start + count) // GROUP) - first) * GROUP, np.uint32)
    draw_groups(words, np.uint64(first * PLANE), np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32))
    return words[start - first * GROUP :][:count]
