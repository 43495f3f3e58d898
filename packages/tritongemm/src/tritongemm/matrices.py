"""Matrices as this package takes them: NumPy arrays, torch tensors on the CPU, torch tensors on a CUDA GPU.

torch is never imported here. A torch tensor is recognised by its type, so a machine without torch loses nothing.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import numfmt
from numfmt import FloatFormat
from tritongemm.errors import UsageError, nearest

DTYPES = {"fp32": numfmt.FP32, "fp16": numfmt.FP16, "bf16": numfmt.BF16}
"""The floating-point types that the kernels read and write, by the names of the command line and the reports."""

# What NumPy, ml_dtypes and torch call them.
_NAMES = {"float32": "fp32", "float16": "fp16", "half": "fp16", "bfloat16": "bf16"}


def name_of(dtype: FloatFormat) -> str:
    """The short name of a type of `DTYPES`."""
    return next(name for name, known in DTYPES.items() if known is dtype)


def dtype_named(name: str, argument: str = "dtype") -> FloatFormat:
    """The floating-point type of a name: this package's, NumPy's or torch's.

    Args:
        name: "fp32", "fp16", "bf16", or "float32", "torch.bfloat16", ...
        argument: What to call the name in the error.

    Returns:
        The type.

    Raises:
        UsageError: No such type here.
    """
    short = name.removeprefix("torch.")
    short = _NAMES.get(short, short)
    if short not in DTYPES:
        raise UsageError(
            f"{argument}: {name!r} is not a floating-point type of the kernels here. {nearest(short, DTYPES)}"
        )
    return DTYPES[short]


def is_torch(x: Any) -> bool:
    """Whether x is a torch tensor, found out without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_cuda(x: Any) -> bool:
    """Whether x is a torch tensor on a CUDA GPU."""
    return is_torch(x) and bool(x.is_cuda)


def dtype_of(x: Any, argument: str) -> FloatFormat:
    """The floating-point type of a matrix.

    Raises:
        UsageError: x is no matrix type known here, or its dtype is none of the kernels'.
    """
    typed = getattr(x, "dtype", None)
    if typed is None or not hasattr(x, "shape"):
        kind = type(x).__name__
        raise UsageError(
            f"{argument}: a {kind} is no matrix; pass a NumPy array, a torch tensor, or numpy.asarray(...)."
        )
    return dtype_named(str(typed), f"{argument}.dtype")


def strides_of(x: Any, argument: str) -> tuple[int, int]:
    """Both strides of a matrix, in elements.

    Raises:
        UsageError: A stride is not a whole number of elements (a field of a structured array).
    """
    if is_torch(x):
        return int(x.stride(0)), int(x.stride(1))
    size = x.dtype.itemsize
    if any(s % size for s in x.strides):
        raise UsageError(
            f"{argument}: its strides {x.strides} (bytes) are no multiples of its {size}-byte elements; pass a copy."
        )
    return x.strides[0] // size, x.strides[1] // size


def largest_offset(x: Any, argument: str) -> int:
    """The largest distance, in elements, between the first element of a matrix and any other."""
    strides = strides_of(x, argument)
    return sum(abs(s) * max(0, n - 1) for s, n in zip(strides, x.shape, strict=True))


def widened(x: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """A matrix as a NumPy array whose numbers NumPy can calculate with, without any rounding.

    fp32 stays as it is; fp16 and bf16 become float32; a GPU's matrix is copied to the CPU.
    """
    if is_torch(x):
        return np.asarray(x.detach().float().cpu().numpy())
    if x.dtype == np.float64:
        return np.asarray(x)
    return np.asarray(x).astype(np.float32, copy=False)
