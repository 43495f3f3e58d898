"""The same steps compiled by numba, for finite operands; bit for bit what the NumPy chains return.

numba is optional (`pip install numfmt-sim[fast]`), takes 0.2 s to import and seconds to compile these functions once
per machine, so it is imported only on request, when it is in use already, or when a product is large. The functions
below are ordinary Python, which `numba.njit` compiles: loops over columns are innermost, which makes them vector
instructions, selections are written so that they need no branches, and threads come from outside (the compiled code
drops the GIL).
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from numfmt.matrix_units import aligned
from numfmt.matrix_units.operands import Float32Array, Operand
from numfmt.matrix_units.units import MatrixUnit

ChainFunction = Callable[[MatrixUnit, Operand, Operand, Float32Array], Float32Array]

# Columns whose buffers stay in the first-level cache.
_COLUMNS = 256
# Products that one pass of an inner loop takes.
_UNROLLED = 4


def available() -> bool:
    """Whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


def worth_using(products: int, threshold: int) -> bool:
    """Whether "auto" should compile: numba is in use already, or the product is large enough to pay for it."""
    return "numba" in sys.modules or (products >= threshold and available())


def chain_function(unit: MatrixUnit, plain: ChainFunction) -> ChainFunction:
    """A compiled chain for a unit, which hands slices with NaN or infinities to the plain one.

    Raises:
        ImportError: If numba is not installed.
    """
    if unit.arithmetic == "aligned" and unit.group == 1 and unit.products % _UNROLLED == 0:
        steps = _compiled(_aligned_steps)
        call: Callable[..., Float32Array] = functools.partial(_aligned_chain, steps)
    elif unit.arithmetic == "fma":
        call = functools.partial(_fma_chain, _compiled(_fma_steps))
    else:
        return plain

    def chain(unit: MatrixUnit, a: Operand, b: Operand, c: Float32Array) -> Float32Array:
        if a.special is not None or b.special is not None or aligned.zeros_count(unit, a, b):
            return plain(unit, a, b, c)
        return call(unit, a, b, c)

    return chain


@functools.cache
def _compiled(function: Callable[..., None]) -> Callable[..., None]:
    try:
        import numba
    except ImportError:
        raise ImportError(
            "engine='numba' needs numba; install it with: pip install numfmt-sim[fast], or use engine='numpy'"
        ) from None
    result: Callable[..., None] = numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    return result


def _aligned_chain(
    steps: Callable[..., None], unit: MatrixUnit, a: Operand, b: Operand, c: Float32Array
) -> Float32Array:
    rounding = aligned.Rounding.of(unit)
    result = np.array(c, np.float32, order="C")
    a_values = a.values.astype(np.float64)
    for start in range(0, result.shape[1], _COLUMNS):
        columns = slice(start, start + _COLUMNS)
        part = np.ascontiguousarray(result[:, columns])
        steps(
            a_values,
            a.exponents,
            b.values[:, columns].astype(np.float64),
            np.ascontiguousarray(b.exponents[:, columns]),
            part,
            unit.products,
            unit.fraction_bits,
            aligned.RANGE_FLOOR if unit.least_exponent is None else unit.least_exponent,
            rounding.mantissa_bits,
            rounding.emin,
            rounding.toward_zero,
            rounding.overflow,
        )
        result[:, columns] = part
    return result


def _fma_chain(steps: Callable[..., None], unit: MatrixUnit, a: Operand, b: Operand, c: Float32Array) -> Float32Array:
    result = np.array(c, np.float32, order="C")
    steps(a.values.astype(np.float64), b.values.astype(np.float64), result)
    return result


def _aligned_steps(
    a: NDArray[np.float64],
    a_exponents: NDArray[np.int16],
    b: NDArray[np.float64],
    b_exponents: NDArray[np.int16],
    c: Float32Array,
    products: int,
    fraction_bits: int,
    floor: int,
    mantissa_bits: int,
    emin: int,
    toward_zero: bool,
    overflow: float,
) -> None:
    """Steps in ascending k on a tile, c in place; the meaning is that of `aligned.chain`, stage by stage."""
    columns = b.shape[1]
    c_bits = c.view(np.int32)
    largest = np.empty(columns, np.int16)
    scale, unscale, total = np.empty(columns), np.empty(columns), np.empty(columns)
    scale_bits, unscale_bits, total_bits = scale.view(np.int64), unscale.view(np.int64), total.view(np.int64)
    mask = np.int64(-1) << np.int64(52 - mantissa_bits)
    quantum, low = 2.0 ** (emin - mantissa_bits), 2.0**emin
    for k in range(0, a.shape[0], products):
        for row in range(a.shape[1]):
            for n in range(columns):
                field = np.int32((c_bits[row, n] >> np.int32(23)) & np.int32(255))
                exponent = max(np.int32(field - np.int32(127)), np.int32(emin))
                used = np.int32(floor) if c[row, n] == np.float32(0) else max(exponent, np.int32(floor))
                largest[n] = np.int16(used)
            for i in range(k, k + products, 4):
                e0, e1 = a_exponents[i, row], a_exponents[i + 1, row]
                e2, e3 = a_exponents[i + 2, row], a_exponents[i + 3, row]
                for n in range(columns):
                    most = largest[n]
                    most = max(most, np.int16(e0 + b_exponents[i, n]))
                    most = max(most, np.int16(e1 + b_exponents[i + 1, n]))
                    most = max(most, np.int16(e2 + b_exponents[i + 2, n]))
                    most = max(most, np.int16(e3 + b_exponents[i + 3, n]))
                    largest[n] = most
            for n in range(columns):
                emax = np.int64(largest[n])
                scale_bits[n] = (np.int64(fraction_bits + 1023) - emax) << np.int64(52)
                unscale_bits[n] = (np.int64(1023 - fraction_bits) + emax) << np.int64(52)
                total[n] = np.trunc(np.float64(c[row, n]) * scale[n])
            for i in range(k, k + products, 4):
                a0, a1, a2, a3 = a[i, row], a[i + 1, row], a[i + 2, row], a[i + 3, row]
                for n in range(columns):
                    factor = scale[n]
                    total[n] += (np.trunc(a0 * b[i, n] * factor) + np.trunc(a1 * b[i + 1, n] * factor)) + (
                        np.trunc(a2 * b[i + 2, n] * factor) + np.trunc(a3 * b[i + 3, n] * factor)
                    )
            for n in range(columns):
                total[n] *= unscale[n]
            if toward_zero:
                for n in range(columns):
                    subnormal = np.trunc(total[n] / quantum) * quantum
                    total[n] = subnormal if abs(total[n]) < low else total[n]
                for n in range(columns):
                    total_bits[n] &= mask
            else:
                for n in range(columns):
                    exponent64 = max((total_bits[n] >> np.int64(52)) & np.int64(0x7FF), np.int64(emin + 1023))
                    unscale_bits[n] = ((exponent64 + np.int64(52 - mantissa_bits)) << np.int64(52)) | np.int64(1 << 51)
                for n in range(columns):
                    nearest = (total[n] + unscale[n]) - unscale[n]
                    total[n] = nearest if abs(total[n]) < np.inf else total[n]
            for n in range(columns):
                infinite = np.copysign(np.inf, total[n])
                value = infinite if abs(total[n]) >= overflow else total[n]
                c[row, n] = np.float32(value + 0.0)


def _fma_steps(a: NDArray[np.float64], b: NDArray[np.float64], c: Float32Array) -> None:
    """One fused multiply-add per k on a tile, c in place: the exact sum rounded to odd in float64, then to float32."""
    columns = b.shape[1]
    total, lost = np.empty(columns), np.empty(columns)
    total_bits, lost_bits = total.view(np.int64), lost.view(np.int64)
    for row in range(a.shape[1]):
        for k in range(a.shape[0]):
            x = a[k, row]
            for n in range(columns):
                product = x * b[k, n]
                before = np.float64(c[row, n])
                value = product + before
                other = value - product
                rest = (product - (value - other)) + (before - other)
                total[n] = value
                # An infinite or NaN sum has lost nothing that matters.
                lost[n] = rest if abs(value) < np.inf else 0.0
            for n in range(columns):
                away = np.int64(1) - np.int64(2) * np.int64((total_bits[n] ^ lost_bits[n]) < np.int64(0))
                inexact = np.int64(lost[n] != 0.0) & (np.int64(1) - (total_bits[n] & np.int64(1)))
                total_bits[n] += away * inexact
            for n in range(columns):
                c[row, n] = np.float32(total[n])
