"""Contestants that are functions of two matrices: launchers, library functions, extensions, NumPy functions.

What such a function launches is none of the audit's business: on the CPU its Triton kernels, if any, are evaluated, on
a GPU they are launched. A function that launches none has no payloads.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import fpsan_tools
from tritongemm.elements import ELEMENTS, element_of, is_typed
from tritongemm.errors import KernelFailed, UsageError, one_line
from tritongemm.matrices import is_torch

Array = np.ndarray[Any, np.dtype[Any]]

# What a function is called with on the CPU.
_LIBRARIES = ("numpy", "torch")


def takes_two_matrices(function: Callable[..., Any]) -> bool:
    """Whether a function can be called with two positional arguments; True where it does not tell."""
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def library_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Whose arrays a function is called with on the CPU, in the order of trial: its `audit_arrays`, or by its module.

    Raises:
        UsageError: `audit_arrays` is neither "numpy" nor "torch".
    """
    own = getattr(function, "audit_arrays", None)
    if own is not None:
        if own not in _LIBRARIES:
            raise UsageError(f"audit_arrays: {own!r} is no library of arrays; known: {', '.join(_LIBRARIES)}.")
        return (own,)
    root = str(getattr(function, "__module__", None) or type(function).__module__).split(".")[0]
    return ("torch",) if root == "torch" else ("numpy",) if root == "numpy" else _LIBRARIES


def as_library(codes: Array, dtype: str, library: str) -> Any:
    """Bit patterns of any strides as an array of a library on the CPU.

    Args:
        codes: Unsigned bit patterns.
        dtype: Their type.
        library: "numpy" or "torch".
    """
    if library == "numpy":
        return codes.view(ELEMENTS[dtype].library) if dtype in ("fp32", "fp16") else fpsan_tools.typed(codes, dtype)
    torch = _torch()
    signed = {4: np.int32, 2: np.int16}[codes.itemsize]
    whole = torch.from_numpy(np.asarray(codes).view(signed))
    return whole.view(getattr(torch, ELEMENTS[dtype].library))


def _has_torch() -> bool:
    try:
        return importlib.util.find_spec("torch") is not None
    except ImportError:
        return False


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise KernelFailed("it takes torch tensors, and torch is not installed") from error


def bits_of_result(c: Any, dtype: str, shape: tuple[int, int]) -> Array:
    """The result of a function as bit patterns of the audited type.

    Raises:
        KernelFailed: It is no matrix of that shape and type.
    """
    try:
        found = element_of(c, "result")
    except UsageError as error:
        raise KernelFailed(f"its result is no matrix: {one_line(error)}") from error
    if tuple(c.shape) != shape:
        raise KernelFailed(f"its result has shape {tuple(c.shape)}, and the product has {shape}")
    if found.name != dtype:
        raise KernelFailed(f"its result is {found.name}, and {dtype} was asked for; say --out-dtype {found.name}")
    if is_torch(c):
        torch = sys.modules["torch"]
        plain = c.detach().contiguous().view(torch.int32 if found.itemsize == 4 else torch.int16).cpu().numpy()
        return np.ascontiguousarray(plain).view(f"u{found.itemsize}")
    return np.ascontiguousarray(c.array if is_typed(c) else c).view(f"u{found.itemsize}")


def call(function: Callable[..., Any], choices: tuple[str, ...], codes: tuple[Array, Array], dtype: str) -> Any:
    """Calls a function on CPU arrays, of the first library whose arrays it takes.

    Args:
        function: The function.
        choices: Libraries, from `library_of`.
        codes: Bit patterns of A and B; what it writes to them is seen there.
        dtype: Their type.
    """
    failure: Exception | None = None
    before = [x.copy() for x in codes]
    for library in choices:
        if library == "torch" and failure is not None and not _has_torch():
            break
        arrays = [as_library(x, dtype, library) for x in codes]
        try:
            with np.errstate(all="ignore"), contextlib.ExitStack() as stack:
                if library == "torch":
                    stack.enter_context(_torch().no_grad())
                return function(*arrays)
        except (fpsan_tools.FpsanError, KernelFailed):
            raise
        except Exception as error:
            failure = failure or error
            for x, was in zip(codes, before, strict=True):
                x[...] = was
    assert failure is not None
    raise failure
