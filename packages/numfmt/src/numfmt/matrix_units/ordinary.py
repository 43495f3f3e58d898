"""Units made of ordinary FP32 operations: the fused multiply-add chain, and CDNA2's pairwise tree."""

from __future__ import annotations

import numpy as np

from numfmt.arithmetic import fma_float32
from numfmt.matrix_units.operands import Float32Array, Operand
from numfmt.matrix_units.units import MatrixUnit

_FP32_MIN_NORMAL = 2.0**-126


def _restored(operand: Operand) -> Float32Array:
    """The operand as numbers again: specials in their places."""
    values: Float32Array = operand.values
    if operand.special is None:
        return values
    return np.where(np.isfinite(operand.special), values, operand.special)


def fma_chain(unit: MatrixUnit, a: Operand, b: Operand, c: Float32Array) -> Float32Array:
    """One fused multiply-add per k, ascending; arguments as `numfmt.matrix_units.aligned.chain`."""
    result = c
    for x, y in zip(_restored(a), _restored(b), strict=True):
        result = fma_float32(x[:, None], y[None, :], result)
    return result


def _flush(x: Float32Array, least: float = _FP32_MIN_NORMAL, keep_sign: bool = True) -> Float32Array:
    """Subnormals become zeros, of their sign or positive."""
    zero = np.copysign(np.float32(0), x) if keep_sign else np.float32(0)
    return np.where(np.abs(x) < np.float32(least), zero, x)


def pairwise_chain(unit: MatrixUnit, a: Operand, b: Operand, c: Float32Array) -> Float32Array:
    """CDNA2's steps: products, a pairwise tree over them, then c, all in FP32 to nearest even with subnormals flushed.

    Arguments as `numfmt.matrix_units.aligned.chain`. The formats' own subnormals are flushed where they are
    prepared (`flush_operand`).
    """
    x, y = _restored(a), _restored(b)
    result = _flush(c, keep_sign=False)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for k in range(0, x.shape[0], unit.products):
            terms = [_flush(x[i, :, None] * y[i, None, :]) for i in range(k, k + unit.products)]
            while len(terms) > 1:
                terms = [_flush(terms[i] + terms[i + 1]) for i in range(0, len(terms), 2)]
            result = _flush(result + terms[0])
    return result


def flush_operand(values: Float32Array, min_normal: float) -> Float32Array:
    """Operands as CDNA2 reads them: subnormals of their format are +0."""
    return _flush(values, min_normal, keep_sign=False)
