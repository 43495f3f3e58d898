"""What a step works on: operand slices as values, exponents and specials, k first.

Conversion happens slice by slice, so that a product of large matrices needs memory for an output tile and a slice of
k, not for copies of the matrices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from numfmt.formats import FloatFormat
from numfmt.matrix_units.units import INPUT_FORMATS, Scales, format_key

Float32Array = NDArray[np.float32]

NO_EXPONENT = -(1 << 14)
"""The exponent of a zero operand: two of them still fit int16, and nothing real comes near."""

_TF32_MASK = np.uint32(0xFFFFE000)


@dataclass(frozen=True)
class Operand:
    """A slice of one operand, k along the first axis.

    Attributes:
        values: (k, x) float32, or float64 where block scales are multiplied in; NaN and infinities replaced by zero.
        exponents: (k, x) int16: floor(log2|value|), not below the format's emin, scales included; for an instruction
            that sums groups of products exactly: (k / group, x), the exponents of the scales. NO_EXPONENT for a zero.
        special: None, or (k, x) float32: NaN and infinities as they are, every other value as its sign.
        span: Least and largest exponent of a nonzero value, or None if all are zero.
    """

    values: NDArray[Any]
    exponents: NDArray[np.int16]
    special: Float32Array | None
    span: tuple[int, int] | None


def exponent_field(values: Float32Array) -> NDArray[np.int32]:
    """The exponents of float32 numbers, from their bits; -126 for zeros and subnormals, 128 for infinities and NaN."""
    field: NDArray[np.int32] = (values.view(np.int32) >> 23) & 0xFF
    np.maximum(field, 1, out=field)
    field -= 127
    return field


def prepare(values: Float32Array, fmt: FloatFormat) -> Operand:
    """Split a (k, x) slice without scales into what a step needs.

    Args:
        values: C-contiguous float32, values of `fmt`.
        fmt: The format the unit multiplies; its emin is the least exponent.
    """
    special = None
    finite = np.isfinite(values)
    if not finite.all():
        special = np.where(finite, np.sign(values), values)
        values = np.where(finite, values, np.float32(0))
    exponents = exponent_field(values).astype(np.int16)
    np.maximum(exponents, np.int16(fmt.emin), out=exponents)
    zero = values == 0
    exponents[zero] = NO_EXPONENT
    return Operand(values, exponents, special, _span(exponents))


def prepare_scaled(values: Float32Array, scales: Float32Array, fmt: FloatFormat, facts: Scales, group: int) -> Operand:
    """The same for a slice with block scales.

    Args:
        values: (k, x) float32, values of `fmt`.
        scales: (k / block, x) float32.
        fmt: Format of the values.
        facts: Format and block length of the scales.
        group: Products that are summed exactly before alignment, 1 for none.
    """
    # E8M0 reaches 2**-127, which float32 holds as a subnormal: exponents come from the float64 of the scale.
    wide = scales.astype(np.float64)
    scale_exponents = np.where(wide == 0, facts.format.emin, np.frexp(wide)[1] - 1)
    np.maximum(scale_exponents, facts.format.emin, out=scale_exponents)
    special = None
    spread = np.repeat(wide, facts.block, axis=0)
    finite = np.isfinite(values) & np.isfinite(spread)
    if not finite.all():
        special = np.where(finite, np.sign(values), np.where(np.isfinite(spread), values, np.float32(np.nan)))
    product = np.where(finite, values, np.float32(0)) * np.where(np.isfinite(spread), spread, 0.0)
    if group > 1:
        exponents = np.repeat(scale_exponents, facts.block // group, axis=0).astype(np.int16)
        return Operand(product, exponents, special, _span(exponents))
    own = np.maximum(exponent_field(np.ascontiguousarray(values)), fmt.emin)
    exponents = (own + np.repeat(scale_exponents, facts.block, axis=0)).astype(np.int16)
    exponents[product == 0] = NO_EXPONENT
    return Operand(product, exponents, special, _span(exponents))


def _span(exponents: NDArray[np.int16]) -> tuple[int, int] | None:
    largest = int(exponents.max(initial=NO_EXPONENT))
    if largest == NO_EXPONENT:
        return None
    least = int(exponents.min())
    if least == NO_EXPONENT:
        least = int(exponents[exponents != NO_EXPONENT].min())
    return least, largest


# ---------------------------------------------------------------------------------------------- the parts of an operand
def _tf32_big(x: Float32Array) -> Float32Array:
    """To nearest tf32, ties away from zero, as `cvt.rna.tf32`; infinities and NaN are kept."""
    bits = (x.view(np.uint32) + np.uint32(0x1000)) & _TF32_MASK
    return np.where(np.isfinite(x), bits.view(np.float32), x)


def _bf16_nearest(x: Float32Array) -> Float32Array:
    """To nearest bf16, ties to even; a NaN stays a NaN."""
    bits = x.view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> 16) & 1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), x, rounded.view(np.float32))


def _rest(x: Float32Array, *parts: Float32Array) -> Float32Array:
    with np.errstate(invalid="ignore", over="ignore"):
        return functools.reduce(np.subtract, parts, x)


def _truncated(x: Float32Array) -> Float32Array:
    """A tf32 unit does not see the low 13 bits of its fp32 operands."""
    cut: Float32Array = (x.view(np.uint32) & _TF32_MASK).view(np.float32)
    return np.where(np.isnan(x), x, cut)


def _small(x: Float32Array) -> Float32Array:
    return _truncated(_rest(x, _tf32_big(x)))


def _middle(x: Float32Array) -> Float32Array:
    return _bf16_nearest(_rest(x, _bf16_nearest(x)))


def _low(x: Float32Array) -> Float32Array:
    high = _bf16_nearest(x)
    return _bf16_nearest(_rest(x, high, _bf16_nearest(_rest(x, high))))


PARTS: dict[str, Callable[[Float32Array], Float32Array]] = {
    "whole": lambda x: x,
    "tf32": _truncated,
    "tf32_big": _tf32_big,
    "tf32_small": _small,
    "bf16_high": _bf16_nearest,
    "bf16_middle": _middle,
    "bf16_low": _low,
}
"""The parts an fp32 operand is split into before multiplication, by name."""

PART_SIZES = {"tf32_small": 2.0**-11, "bf16_middle": 2.0**-8, "bf16_low": 2.0**-16}
"""Bounds of |part| / |operand| for the parts that are smaller than the operand."""


# ------------------------------------------------------------------------------------------------------ checking inputs
def infer_format(array: NDArray[Any], argument: str) -> str:
    """The format key of an array's dtype; float32 and float64 need `inputs=` unless the unit decides."""
    try:
        fmt = FloatFormat.from_dtype(array.dtype)
    except ValueError as error:
        raise TypeError(f"{argument}: {error}; name the format with inputs=") from None
    for key, known in INPUT_FORMATS.items():
        if fmt == known:
            return key
    raise TypeError(
        f"{argument} has dtype {array.dtype}, which does not say which format the unit multiplies; "
        f"name it with inputs=, one of {', '.join(INPUT_FORMATS)}"
    )


def as_matrix(x: ArrayLike, argument: str) -> NDArray[Any]:
    """A user's matrix as an array of two dimensions.

    Raises:
        ValueError: For another number of dimensions.
        TypeError: For values that are not real numbers.
    """
    array: NDArray[Any] = np.asarray(x)
    if array.ndim != 2:
        raise ValueError(f"{argument} must be a matrix of two dimensions, got shape {array.shape}")
    if array.dtype.kind not in "fiub" and array.dtype.type.__module__ != "ml_dtypes":
        raise TypeError(f"{argument} must hold real numbers, got dtype {array.dtype}")
    return array


# Values whose intermediates stay in the cache.
_CHECKED_AT_ONCE = 1 << 16


def check_values(array: NDArray[Any], key: str, argument: str) -> None:
    """Refuse values that the format cannot hold; tf32 takes every fp32, because the unit ignores the low bits.

    Raises:
        ValueError: Naming the first offending value and the way to round the matrix first.
    """
    fmt = INPUT_FORMATS["fp32" if key == "tf32" else key]
    try:
        if FloatFormat.from_dtype(array.dtype) == fmt:
            return
    except ValueError:
        pass
    rows = max(1, _CHECKED_AT_ONCE // max(array.shape[1], 1))
    for start in range(0, array.shape[0], rows):
        part = array[start : start + rows].astype(np.float64)
        nan = np.isnan(part)
        wrong = nan if not fmt.has_nan else np.zeros_like(nan)
        held = fmt.round(np.where(nan, 0.0, part))
        wrong = wrong | ((held != part) & ~nan)
        if wrong.any():
            row, column = (int(i[0]) for i in np.nonzero(wrong))
            value = part[row, column]
            name = "tf32 operands are fp32 numbers, and fp32" if key == "tf32" else key
            raise ValueError(
                f"{argument}[{start + row}, {column}] = {value!r}: {name} cannot hold it; "
                f"round first, for example with {_constant(fmt)}.round({argument})"
            )


def _constant(fmt: FloatFormat) -> str:
    """The name under which numfmt exports a format."""
    import numfmt

    return next((name for name in dir(numfmt) if getattr(numfmt, name, None) is fmt), repr(fmt))


def resolve_inputs(a: NDArray[Any], b: NDArray[Any], inputs: str | tuple[str, str] | None) -> tuple[str, str]:
    """The format keys of both operands, from `inputs` or from the dtypes."""
    if inputs is None:
        return infer_format(a, "a"), infer_format(b, "b")
    pair = (inputs, inputs) if isinstance(inputs, str) else tuple(inputs)
    if len(pair) != 2:
        raise ValueError(f"inputs must be a format name or a pair of names for a and b, got {inputs!r}")
    return format_key(pair[0]), format_key(pair[1])
