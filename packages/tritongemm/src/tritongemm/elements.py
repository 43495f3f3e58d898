"""The element types that kernels of this package multiply and write, and the matrices that hold them.

A matrix is a NumPy array (ml_dtypes' types included), a torch tensor, or bit patterns that `fpsan_tools.typed` named.
Neither torch nor ml_dtypes is imported here.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import numfmt
from numfmt import FloatFormat
from tritongemm.errors import Unavailable, UsageError, nearest
from tritongemm.matrices import is_torch

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Element:
    """One floating-point type.

    Attributes:
        name: Its name in this package.
        format: What its bits mean.
        library: Its name in NumPy, ml_dtypes and torch.
        triton: Its name in Triton.
    """

    name: str
    format: FloatFormat
    library: str
    triton: str

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return (1 + self.format.exponent_bits + self.format.mantissa_bits) // 8

    @property
    def accumulator(self) -> str:
        """Name of the type that products of this one are added up in."""
        return "fp64" if self.name == "fp64" else "fp32"

    @property
    def result(self) -> Element:
        """The type of products of this one where none is asked for: its own, or bf16 for fp8, as torch has it."""
        return self if self.name in RESULTS else ELEMENTS["bf16"]


ELEMENTS: dict[str, Element] = {
    element.name: element
    for element in (
        Element("fp64", numfmt.FP64, "float64", "fp64"),
        Element("fp32", numfmt.FP32, "float32", "fp32"),
        Element("fp16", numfmt.FP16, "float16", "fp16"),
        Element("bf16", numfmt.BF16, "bfloat16", "bf16"),
        Element("fp8e4m3fn", numfmt.FP8_E4M3, "float8_e4m3fn", "fp8e4nv"),
        Element("fp8e5m2", numfmt.FP8_E5M2, "float8_e5m2", "fp8e5"),
    )
}
"""Every type, by name."""

FP8 = ("fp8e4m3fn", "fp8e5m2")
RESULTS = ("fp64", "fp32", "fp16", "bf16")
"""Types of results."""

_SPELLINGS = {spelling: e for e in ELEMENTS.values() for spelling in (e.name, e.library, e.triton)} | {
    "half": ELEMENTS["fp16"],
    "float": ELEMENTS["fp32"],
    "double": ELEMENTS["fp64"],
}


@functools.cache
def element_named(name: str, argument: str = "dtype") -> Element:
    """The type of a name: this package's, Triton's, NumPy's, ml_dtypes' or torch's.

    Args:
        name: "fp32", "float32", "torch.bfloat16", "fp8e4nv", ...
        argument: What to call the name in the error.

    Returns:
        The type.

    Raises:
        UsageError: No such type here.
    """
    found = _SPELLINGS.get(name.removeprefix("torch."))
    if found is None:
        raise UsageError(
            f"{argument}: {name!r} is no floating-point type of the kernels here. "
            f"{nearest(name.removeprefix('torch.'), ELEMENTS)}"
        )
    return found


def element_of(x: Any, argument: str) -> Element:
    """The element type of a matrix.

    Raises:
        UsageError: x is no array or tensor, or its type is none of `ELEMENTS`.
    """
    dtype = getattr(x, "dtype", None)
    if dtype is None or not hasattr(x, "shape"):
        raise UsageError(
            f"{argument}: a {type(x).__name__} is no matrix; pass a NumPy array, a torch tensor, or numpy.asarray(...)."
        )
    return element_named(str(dtype), f"{argument}.dtype")


def is_typed(x: Any) -> bool:
    """Whether x is an array of bit patterns with a named type, as `fpsan_tools.typed` makes them."""
    return isinstance(getattr(x, "array", None), np.ndarray) and isinstance(getattr(x, "dtype", None), str)


def strides_of(x: Any, argument: str) -> tuple[int, ...]:
    """Strides of a matrix of any rank, in elements.

    Raises:
        UsageError: A stride is not a whole number of elements (a field of a structured array).
    """
    if not isinstance(x, np.ndarray):
        return tuple(int(s) for s in x.stride())
    size = x.dtype.itemsize
    if any(s % size for s in x.strides):
        raise UsageError(
            f"{argument}: its strides {x.strides} (bytes) are no multiples of its {size}-byte elements; pass a copy."
        )
    return tuple(s // size for s in x.strides)


def address_of(x: Any) -> int:
    """Address of a matrix's first element."""
    return int(x.ctypes.data) if isinstance(x, np.ndarray) else int(x.data_ptr())


def extent(x: Any) -> tuple[int, int]:
    """How far a matrix reaches from its first element, in bytes: downwards (at most 0) and upwards, end excluded.

    Its type and strides have been checked.
    """
    if 0 in tuple(x.shape):
        return 0, 0
    itemsize = element_of(x, "x").itemsize
    steps = [s * itemsize * (int(n) - 1) for n, s in zip(x.shape, strides_of(x, "x"), strict=True)]
    return sum(s for s in steps if s < 0), sum(s for s in steps if s > 0) + itemsize


def overlap(x: Any, y: Any) -> bool:
    """Whether the memory between the first and last bytes of two matrices overlaps: they may share an element."""
    (below_x, above_x), (below_y, above_y) = extent(x), extent(y)
    start_x, start_y = address_of(x), address_of(y)
    return start_x + below_x < start_y + above_y and start_y + below_y < start_x + above_x


def values_of(x: Any, element: Element) -> Array:
    """A matrix's numbers without any rounding: a float64 array for fp64, a float32 array for every other type.

    Args:
        x: The matrix; one on a GPU is copied to the CPU.
        element: Its type.
    """
    wide = np.float64 if element.name == "fp64" else np.float32
    if is_torch(x):
        x = x.detach().cpu().resolve_neg()
        return np.asarray((x.double() if element.name == "fp64" else x.float()).numpy())
    if is_typed(x):
        if element.name in ("fp64", "fp32", "fp16"):
            return np.asarray(x.array.view(element.library).astype(wide))
        return np.asarray(element.format.decode(x.array)).astype(wide)
    return np.asarray(x).astype(wide, copy=False)


def empty_like(x: Any, shape: tuple[int, ...], element: Element) -> Any:
    """An uninitialised matrix of the library and place of another.

    Args:
        x: The other matrix.
        shape: The shape.
        element: The type.

    Raises:
        Unavailable: A NumPy array of the type needs ml_dtypes, which is not installed.
    """
    if is_torch(x):
        return x.new_empty(shape, dtype=getattr(sys.modules["torch"], element.library))
    if is_typed(x):
        import fpsan_tools

        return fpsan_tools.typed(np.empty(shape, f"u{element.itemsize}"), element.name)
    return np.empty(shape, numpy_dtype(element))


def numpy_dtype(element: Element) -> np.dtype[Any]:
    """The NumPy (or ml_dtypes) type of an element type.

    Raises:
        Unavailable: It is one of ml_dtypes', which is not installed.
    """
    try:
        return np.dtype(element.format.dtype)
    except ImportError:
        raise Unavailable(
            f"dtype: NumPy arrays of {element.name} need ml_dtypes: pip install ml_dtypes, or pass "
            f"fpsan_tools.typed(bits, {element.name!r}) or a torch tensor."
        ) from None


def write_values(target: Any, values: Array, element: Element) -> None:
    """Round numbers to a matrix's type, to nearest even, and write them to it.

    Args:
        target: The matrix, on the CPU.
        values: Numbers of its shape, float32 or float64; a NaN becomes all bits of the pattern but the sign.
        element: Its type.
    """
    codes = codes_of(values, element)
    if is_torch(target):
        torch = sys.modules["torch"]
        signed = codes.view(f"i{element.itemsize}")
        target.copy_(torch.from_numpy(signed).view(getattr(torch, element.library)))
    elif is_typed(target):
        target.array[...] = codes
    else:
        target[...] = codes.view(numpy_dtype(element))


_CANONICAL_NAN = {"fp32": 0x7FFFFFFF, "fp16": 0x7FFF, "bf16": 0x7FFF, "fp8e4m3fn": 0x7F, "fp8e5m2": 0x7F}


def codes_of(values: Array, element: Element) -> Array:
    """Bit patterns of numbers after rounding them to a type, to nearest even, NaN as a GPU's conversions write it."""
    unsigned = np.dtype(f"u{element.itemsize}")
    missing = np.isnan(values)
    if element.name in ("fp64", "fp32", "fp16"):
        with np.errstate(over="ignore", under="ignore"):
            codes = np.ascontiguousarray(values.astype(element.library)).view(unsigned)
    else:
        codes = np.asarray(element.format.encode(np.where(missing, 0, values))).astype(unsigned)
    pattern = _CANONICAL_NAN.get(element.name)
    if pattern is not None and missing.any():
        codes = np.where(missing, unsigned.type(pattern), codes)
    return codes
