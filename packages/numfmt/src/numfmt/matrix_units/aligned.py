"""The aligned steps of a matrix unit on a tile of outputs, in NumPy.

The carrier is float64, in which everything below is exact: a product has at most 22 bits, and the sum of a step's
terms, each a multiple of 2**(emax - F) and below 2**(emax + 12), at most 53. Terms are scaled by 2**(F - emax), so
that the cut toward zero is `trunc`. Where the facts and the data allow it (FP8 units: at most 24 bits and no extreme
exponent) the same steps run in float32, which is twice as fast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from numfmt.formats import FloatFormat
from numfmt.matrix_units.operands import NO_EXPONENT, Float32Array, Operand, exponent_field
from numfmt.matrix_units.units import MatrixUnit

# Any exponent below this belongs to a term with a zero operand.
_ZERO_TERM = NO_EXPONENT // 2
_FLOAT64_BIAS = 1023

RANGE_FLOOR = -300
"""Below any exponent of a nonzero term; keeps 2**(F - emax) in float64's range where every term is zero."""


@dataclass(frozen=True)
class Rounding:
    """How a step's exact sum becomes the result: mantissa bits, least exponent, mode, and where infinity begins."""

    mantissa_bits: int
    emin: int
    toward_zero: bool
    overflow: float

    @classmethod
    def of(cls, unit: MatrixUnit) -> Rounding:
        """The rounding of a unit's results."""
        fmt: FloatFormat = unit.accumulator_format
        top = 2.0 ** (fmt.emax + 1)
        half_ulp = 2.0 ** (fmt.emax - unit.mantissa_bits - 1)
        toward_zero = unit.rounding == "toward_zero"
        return cls(unit.mantissa_bits, fmt.emin, toward_zero, top if toward_zero else top - half_ulp)

    def apply(self, total: NDArray[np.float64]) -> Float32Array:
        """Round exact sums; `total` is overwritten. Every zero result is +0, overflow is infinite in either mode."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.toward_zero:
                size = np.abs(total)
                low = (size < 2.0**self.emin) & (size > 0)
                if low.any():
                    quantum = 2.0 ** (self.emin - self.mantissa_bits)
                    total[low] = np.trunc(total[low] / quantum) * quantum
                total.view(np.int64)[...] &= -1 << (52 - self.mantissa_bits)
            else:
                # Adding and subtracting 1.5 * 2**52 quanta leaves the nearest multiple of the quantum, ties to even.
                exponent = np.maximum((total.view(np.int64) >> 52) & 0x7FF, self.emin + _FLOAT64_BIAS)
                magic = ((exponent + (52 - self.mantissa_bits)) << 52 | 1 << 51).view(np.float64)
                finite = np.isfinite(total)
                nearest = (total + magic) - magic
                np.copyto(total, nearest, where=finite)
            over = np.abs(total) >= self.overflow
            if over.any():
                total[over] = np.copysign(np.inf, total[over])
            total += 0.0
            result: Float32Array = total.astype(np.float32)
            return result


def float32_suffices(unit: MatrixUnit, a: Operand, b: Operand, c: Float32Array) -> bool:
    """Whether a chain can run in float32: sums of at most 24 bits, and no product or accumulator of extreme exponent.

    The accumulators a chain produces from c are multiples of 2**-60 then: results are cut at 2**(emax - F), where
    emax is at least the exponent of a product or of c.
    """
    if unit.group > 1 or a.values.dtype != np.float32 or b.values.dtype != np.float32:
        return False
    bits_needed = unit.fraction_bits + 2 + math.ceil(math.log2(unit.products + 1))
    if bits_needed > 24:
        return False
    if a.span is not None and b.span is not None and (a.span[0] + b.span[0] < -40 or a.span[1] + b.span[1] > 40):
        return False
    size = np.abs(c)
    return not ((size > 0) & (size < 2.0**-60)).any() and not (size > 2.0**100).any()


def chain(unit: MatrixUnit, a: Operand, b: Operand, c: Float32Array) -> Float32Array:
    """Steps in ascending k on a tile: each result is the next step's accumulator.

    Args:
        unit: The facts; `arithmetic` is "aligned".
        a: (k, rows); k is a multiple of the unit's depth.
        b: (k, columns).
        c: (rows, columns) float32 holding values of the accumulator format; not modified.

    Returns:
        (rows, columns) float32.
    """
    rounding = Rounding.of(unit)
    narrow = float32_suffices(unit, a, b, c)
    carrier: Any = np.float32 if narrow else np.float64
    tile = _Tile(unit, carrier, c.shape, zeros_count(unit, a, b))
    a_values = a.values.astype(carrier, copy=False)
    b_values = b.values.astype(carrier, copy=False)
    result = np.array(c, dtype=np.float32)
    for k in range(0, a_values.shape[0], unit.products):
        step = slice(k, k + unit.products)
        terms = slice(k // unit.group, (k + unit.products) // unit.group)
        exact = tile.sum(a_values[step], b_values[step], a.exponents[terms], b.exponents[terms], result)
        before = result
        result = rounding.apply(exact)
        if a.special is not None or b.special is not None:
            specials(_part(a, step), _part(b, step), before, result)
    return result


def zeros_count(unit: MatrixUnit, a: Operand, b: Operand) -> bool:
    """Whether a zero term can be the one with the largest exponent: never when every nonzero product lies above it."""
    if unit.zero_exponent is None:
        return False
    if unit.group > 1:
        return True
    if a.span is None or b.span is None:
        return True
    return a.span[0] + b.span[0] < unit.zero_exponent or unit.accumulator_format.emin < unit.zero_exponent


def _part(operand: Operand, step: slice) -> Float32Array:
    """The specials of a step's slice; signs only where there are none."""
    if operand.special is not None:
        return operand.special[step]
    signs: Float32Array = np.sign(operand.values[step]).astype(np.float32)
    return signs


def specials(a: Float32Array, b: Float32Array, before: Float32Array, result: Float32Array) -> None:
    """Overwrite the results of a step that meets NaN, an infinity, Inf*0 or infinities of both signs.

    Args:
        a: (k, rows): NaN, infinities, and the signs of finite values.
        b: (k, columns): likewise.
        before: (rows, columns): the accumulators before the step.
        result: (rows, columns): the finite results, overwritten in place.
    """
    with np.errstate(invalid="ignore"):
        total = np.where(np.isfinite(before), np.float32(0), before)
        for x, y in zip(a, b, strict=True):
            total += x[:, None] * y[None, :]
    np.copyto(result, total, where=~np.isfinite(total))


class _Tile:
    """The buffers of one tile, and the exact sum of one step in them."""

    def __init__(self, unit: MatrixUnit, carrier: Any, shape: tuple[int, ...], zeros_count: bool) -> None:
        self.unit = unit
        self.carrier = carrier
        self.zeros_count = zeros_count
        self.product = np.empty(shape, carrier)
        self.total = np.empty(shape, carrier)
        self.largest = np.empty(shape, np.int16)
        self.exponent = np.empty(shape, np.int16)
        self.c_emin = unit.accumulator_format.emin

    def sum(
        self,
        a: NDArray[Any],
        b: NDArray[Any],
        a_exponents: NDArray[np.int16],
        b_exponents: NDArray[np.int16],
        c: Float32Array,
    ) -> NDArray[np.float64]:
        """The exact sum of the cut terms of one step, as float64 that `Rounding.apply` may overwrite."""
        unit = self.unit
        emax = self._largest_exponent(a, b, a_exponents, b_exponents, c).astype(np.int64)
        scale = ((unit.fraction_bits + _FLOAT64_BIAS - emax) << 52).view(np.float64)
        unscale = ((emax + (_FLOAT64_BIAS - unit.fraction_bits)) << 52).view(np.float64)
        if self.carrier is not np.float64:
            scale = scale.astype(self.carrier)
        total, product = self.total, self.product
        with np.errstate(invalid="ignore"):
            np.multiply(c, scale, out=total)
            np.trunc(total, out=total)
            for term in range(unit.terms):
                self._term(a, b, term)
                np.multiply(product, scale, out=product)
                np.trunc(product, out=product)
                np.add(total, product, out=total)
            exact: NDArray[np.float64] = np.multiply(total, unscale)
        return exact

    def _term(self, a: NDArray[Any], b: NDArray[Any], term: int) -> None:
        """One product, or the exact sum of one group of products, into `self.product`."""
        group = self.unit.group
        if group == 1:
            np.multiply(a[term, :, None], b[term, None, :], out=self.product)
        else:
            part = slice(term * group, (term + 1) * group)
            np.matmul(a[part].T, b[part], out=self.product)

    def _largest_exponent(
        self,
        a: NDArray[Any],
        b: NDArray[Any],
        a_exponents: NDArray[np.int16],
        b_exponents: NDArray[np.int16],
        c: Float32Array,
    ) -> NDArray[np.int16]:
        """emax per output: of the products, of c, and of the floor."""
        unit, largest, exponent = self.unit, self.largest, self.exponent
        floor = NO_EXPONENT if unit.least_exponent is None else unit.least_exponent
        np.maximum(exponent_field(c), self.c_emin, out=largest, casting="unsafe")
        zero = c == 0
        largest[zero] = floor
        np.maximum(largest, np.int16(floor), out=largest)
        has_zero = zero if self.zeros_count else None
        for term in range(unit.terms):
            np.add(a_exponents[term, :, None], b_exponents[term, None, :], out=exponent)
            if has_zero is not None:
                if unit.group > 1:
                    self._term(a, b, term)
                    exponent[self.product == 0] = NO_EXPONENT
                has_zero |= exponent < _ZERO_TERM
            np.maximum(largest, exponent, out=largest)
        if has_zero is not None and unit.zero_exponent is not None:
            np.maximum(largest, np.int16(unit.zero_exponent), out=largest, where=has_zero)
        # Only where every term is zero (or cut to nothing at any exponent) does this bound decide; it keeps 2**(F -
        # emax) in range.
        np.maximum(largest, np.int16(self._range_floor()), out=largest)
        return largest

    def _range_floor(self) -> int:
        """The least exponent at which the carrier holds the scale factor; below it every term is zero."""
        return -60 - self.unit.fraction_bits if self.carrier is np.float32 else RANGE_FLOOR
