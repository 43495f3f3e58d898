"""The numfmt format of every float type, and how the narrow ones are held in arrays."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import numfmt
from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir.types import UNSIGNED, Element
from fpsan_tools.ttir.values import Array

FORMATS = {
    "f64": numfmt.FP64,
    "f32": numfmt.FP32,
    "f16": numfmt.FP16,
    "bf16": numfmt.BF16,
    "f8E5M2": numfmt.FP8_E5M2,
    "f8E4M3FN": numfmt.FP8_E4M3,
    "f8E5M2FNUZ": numfmt.FP8_E5M2FNUZ,
    "f8E4M3FNUZ": numfmt.FP8_E4M3FNUZ,
}
"""Formats by the type's name in the text."""

NATIVE: dict[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
}
"""Types that NumPy has; the others are held as their bit patterns."""


def format_of(element: Element) -> numfmt.FloatFormat:
    """The format of a float type.

    Raises:
        FpsanError: for a type that is not a float.
    """
    found = FORMATS.get(element.name)
    if found is None:
        raise FpsanError(f"{element.name} is not a float type that can be computed with")
    return found


@cache
def _table(name: str) -> Array:
    fmt = FORMATS[name]
    return np.asarray(fmt.decode(np.arange(1 << fmt.bits, dtype=UNSIGNED[fmt.bits])), np.float32)


def widen(values: Array, element: Element) -> Array:
    """Exact values as float32, or as they are for fp32 and fp64.

    Args:
        values: float16, float32 or float64 arrays, or bit patterns of the other types.
        element: their type.
    """
    if element.name in ("f32", "f64"):
        return values
    if element.name == "f16":
        return values.astype(np.float32)
    if element.name == "bf16":
        return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return _table(element.name).take(values)


def narrow(exact: Array, element: Element, rounding: str = "nearest_even", overflow: str | None = None) -> Array:
    """Round float32, float64 or integer arrays once to a type, held as `widen` expects.

    Args:
        exact: values to be rounded.
        element: the type.
        rounding: numfmt's name of the rounding.
        overflow: numfmt's name of the overflow policy, None for the format's own.
    """
    native = NATIVE.get(element.name)
    if native is not None and rounding == "nearest_even":
        result: Array = exact.astype(native)
        return result
    fmt = format_of(element)
    options: dict[str, Any] = {"rounding": rounding}
    if overflow is not None:
        options["overflow"] = overflow
    codes = np.asarray(fmt.encode(exact, **options)).astype(UNSIGNED[fmt.bits], copy=False)
    return codes.view(native) if native is not None else codes
