"""Arrays that kernels get: NumPy arrays of any strides, typed bit patterns, torch CPU tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fpsan_tools.exceptions import FpsanError, UnknownName
from fpsan_tools.ttir.memory import Span
from fpsan_tools.ttir.values import Array

# Triton's name of the element type, by the name of the NumPy, ml_dtypes or torch dtype.
TRITON_NAMES = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "float8_e4m3fnuz": "fp8e4b8",
    "float8_e5m2fnuz": "fp8e5b16",
    "bool": "i1",
    **{f"{sign}int{bits}": f"{sign[:1] or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}

# Spellings that `typed` accepts besides those above.
_SPELLINGS = {
    **TRITON_NAMES,
    **{name: name for name in TRITON_NAMES.values()},
    "fp8e4m3fn": "fp8e4nv",
    "fp8e5m2": "fp8e5",
    "fp8e4m3fnuz": "fp8e4b8",
    "fp8e5m2fnuz": "fp8e5b16",
}

_WIDTHS = {"fp64": 64, "fp32": 32, "fp16": 16, "bf16": 16, "fp8e4nv": 8, "fp8e5": 8, "fp8e4b8": 8, "fp8e5b16": 8}


class ElementType(str):
    """The dtype of a typed array: its Triton name, with what launchers ask of a dtype."""

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        name = str(self)
        return 1 if name == "i1" else _WIDTHS.get(name, 0) // 8 or int(name[1:]) // 8

    @property
    def is_floating_point(self) -> bool:
        """Whether it is a float type."""
        return str(self) in _WIDTHS


@dataclass(frozen=True, eq=False)
class TypedArray:
    """Bit patterns and the float type that they stand for; made by `typed`.

    Attributes:
        array: the unsigned array; kernels write to it.
        dtype: name of the type.
    """

    array: Array
    dtype: ElementType

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape."""
        return self.array.shape

    def stride(self, axis: int | None = None) -> Any:
        """Strides in elements, as torch gives them."""
        strides = tuple(step // self.array.itemsize for step in self.array.strides)
        return strides if axis is None else strides[axis]

    def data_ptr(self) -> int:
        """Address of the first element."""
        return int(self.array.__array_interface__["data"][0])


def typed(array: Array, dtype: str | None = None) -> TypedArray:
    """Say which float type the bit patterns of an unsigned array stand for.

    The result also has what launchers ask of tensors (`stride()`, `data_ptr()`, `dtype.itemsize`), so it can be the
    base of a host TensorDescriptor.

    Args:
        array: unsigned array of the type's width, or an array that has the type already; of any strides.
        dtype: "bf16", "fp8e4m3fn", "fp8e5m2" or another type, also in Triton's and NumPy's spellings; None for the
            array's own.

    Returns:
        An object that can be passed to a kernel instead of an array; results are written to `array`.

    Raises:
        UnknownName: for another dtype.
        FpsanError: if the array is not unsigned or of another width.
    """
    if not isinstance(array, np.ndarray):
        raise FpsanError(f"typed(array) needs a NumPy array, not {type(array).__name__}; torch tensors have a type")
    own = TRITON_NAMES.get(array.dtype.name)
    name = own if dtype is None else _SPELLINGS.get(str(dtype).removeprefix("torch."))
    if name is not None and name == own:
        return TypedArray(array, ElementType(name))
    if name not in _WIDTHS:
        raise UnknownName.of("float type", dtype, (k for k, v in _SPELLINGS.items() if v in _WIDTHS))
    if array.dtype.kind != "u" or array.dtype.itemsize * 8 != _WIDTHS[name]:
        raise FpsanError(f"typed(array, {dtype!r}) needs an array of uint{_WIDTHS[name]}, not {array.dtype}")
    return TypedArray(array, ElementType(name))


@dataclass(eq=False)
class Passed:
    """An array as a launch sees it: Triton's type name, the memory it spans, and where its first element is."""

    dtype: str
    span: Span
    first: int
    storage: int

    def data_ptr(self) -> int:
        """Offset of the first element in its storage: the compiler asks for the alignment.

        Storages count as well aligned, as they are on a GPU.
        """
        return self.first - self.storage


def is_array(value: object) -> bool:
    """Whether a kernel argument is an array of some kind."""
    return isinstance(value, np.ndarray | TypedArray | Passed) or hasattr(value, "data_ptr")


def passed(name: str, value: Any) -> Passed:
    """Describe an array argument.

    Raises:
        FpsanError: for a dtype that kernels cannot have, or a tensor that is not in this machine's memory.
    """
    if isinstance(value, Passed):
        return value
    if isinstance(value, TypedArray):
        described = _numpy(name, value.array, str(value.dtype))
    elif isinstance(value, np.ndarray):
        described = _numpy(name, value, _name(name, value.dtype.name))
    else:
        described = _torch(name, value)
    return described


def _name(argument: str, dtype: str) -> str:
    found = TRITON_NAMES.get(dtype.removeprefix("torch."))
    if found is None:
        raise FpsanError(
            f"argument {argument!r}: arrays of dtype {dtype} cannot be passed (known: {', '.join(TRITON_NAMES)})"
        )
    return found


def _numpy(name: str, array: Array, dtype: str) -> Passed:
    if not array.dtype.isnative:
        raise FpsanError(f"argument {name!r}: the array's byte order is not this machine's")
    low, high = np.lib.array_utils.byte_bounds(array) if array.size else (0, 0)
    owner: Any = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    storage = np.lib.array_utils.byte_bounds(owner)[0] if owner.size else 0
    first = int(array.__array_interface__["data"][0])
    span = Span(low, high, bool(array.flags.writeable), array, name)
    return Passed(dtype, span, first if array.size else 0, storage if array.size else 0)


def _torch(name: str, tensor: Any) -> Passed:
    base = getattr(tensor, "base", None)
    if type(tensor).__name__ == "TensorWrapper" and base is not None:  # triton.reinterpret
        inner = _torch(name, base)
        return Passed(str(tensor.dtype), inner.span, inner.first, inner.storage)
    device = getattr(getattr(tensor, "device", None), "type", "cpu")
    if device != "cpu":
        raise FpsanError(
            f"argument {name!r} is on device {device!r}; on_cpu takes CPU tensors and NumPy arrays (use .cpu(), or "
            "on_gpu() for CUDA tensors)"
        )
    size = int(tensor.element_size())
    first = int(tensor.data_ptr())
    reach = [(n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)]
    low, high = (first, first + (sum(reach) + 1) * size) if tensor.numel() else (0, 0)
    storage = int(tensor.untyped_storage().data_ptr())
    return Passed(_name(name, str(tensor.dtype)), Span(low, high, True, tensor, name), first, storage)
