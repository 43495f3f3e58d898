"""Which NumPy, ml_dtypes and torch types are which formats: one table, by the names all three libraries share."""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from numfmt import formats
from numfmt._errors import unknown_name

if TYPE_CHECKING:
    from numfmt.formats import FloatFormat

#: Type name -> format. numpy has the first three, ml_dtypes the others; torch has those it has under the same names.
TYPES: dict[str, FloatFormat] = {
    "float64": formats.FP64,
    "float32": formats.FP32,
    "float16": formats.FP16,
    "bfloat16": formats.BF16,
    "float8_e4m3fn": formats.FP8_E4M3,
    "float8_e5m2": formats.FP8_E5M2,
    "float8_e4m3fnuz": formats.FP8_E4M3FNUZ,
    "float8_e5m2fnuz": formats.FP8_E5M2FNUZ,
    "float8_e4m3b11fnuz": formats.FP8_E4M3B11FNUZ,
    "float8_e4m3": formats.FP8_E4M3_IEEE,
    "float8_e3m4": formats.FP8_E3M4,
    "float6_e2m3fn": formats.FP6_E2M3,
    "float6_e3m2fn": formats.FP6_E3M2,
    "float4_e2m1fn": formats.FP4_E2M1,
    "float8_e8m0fnu": formats.E8M0,
}
_NUMPY = ("float64", "float32", "float16")


def _name(fmt: FloatFormat) -> str | None:
    return next((name for name, known in TYPES.items() if known == fmt), None)


def numpy_dtype(fmt: FloatFormat) -> np.dtype[Any] | None:
    """The NumPy or ml_dtypes type of a format, or None.

    Raises:
        ImportError: If it is an ml_dtypes type and ml_dtypes is not installed.
    """
    name = _name(fmt)
    if name is None:
        return None
    if name in _NUMPY:
        return np.dtype(name)
    try:
        ml_dtypes = importlib.import_module("ml_dtypes")
    except ImportError:
        raise ImportError(
            f"the dtype of {fmt.name} is ml_dtypes.{name}; install it with: pip install ml_dtypes"
        ) from None
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


def torch_dtype(fmt: FloatFormat) -> Any:
    """The torch type of a format, or None."""
    name = _name(fmt)
    return None if name is None else getattr(importlib.import_module("torch"), name, None)


def from_dtype(dtype: Any) -> FloatFormat:
    """The format of a NumPy, ml_dtypes or torch type, or of its name.

    Raises:
        ValueError: For anything that is no known floating-point type.
    """
    name = dtype if isinstance(dtype, str) else str(dtype)
    if name.startswith("torch."):
        name = name.removeprefix("torch.")
    elif name not in TYPES:
        with contextlib.suppress(TypeError):
            name = np.dtype(dtype).name
    try:
        return TYPES[name]
    except KeyError:
        raise ValueError(unknown_name("dtype", name, TYPES)) from None
