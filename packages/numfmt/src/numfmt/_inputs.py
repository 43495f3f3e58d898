"""What sums and arithmetic accept: anything that float64 holds exactly, checked at the door."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float64Array = NDArray[np.float64]


def as_array(x: ArrayLike) -> NDArray[Any]:
    """A user's array as NumPy sees it; torch tensors of narrow types, which NumPy lacks, widened exactly."""
    if type(x).__module__.partition(".")[0] == "torch" and hasattr(x, "detach"):
        tensor: Any = x.detach().cpu()
        narrow = tensor.is_floating_point() and tensor.element_size() < 4
        return np.asarray((tensor.double() if narrow else tensor).numpy())
    return np.asarray(x)


def as_carrier(x: ArrayLike, name: str) -> Float64Array:
    """A user's array as float64, without a copy where it is native float64 already.

    Args:
        x: Array of floats, integers or booleans of any width and byte order, ml_dtypes types included, a torch
            tensor, or nested lists.
        name: The argument's name, for messages.

    Returns:
        float64 array with the same values; the user's own memory where no conversion was needed, so it must not be
        written to.

    Raises:
        TypeError: For complex, string, object and other arrays that hold no real numbers.
        ValueError: For integers or extended floats that float64 does not hold exactly.
    """
    array = as_array(x)
    if array.dtype == np.float64 and array.dtype.isnative:
        return array
    kind = array.dtype.kind
    if kind not in "fiub" and array.dtype.type.__module__ != "ml_dtypes":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}; convert it to float64 first")
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        carrier: Float64Array = array.astype(np.float64)
    wide = (kind in "iu" and array.dtype.itemsize == 8) or (kind == "f" and array.dtype.itemsize > 8)
    if wide:
        # An integer that rounds up to 2^63 or beyond does not convert back.
        with np.errstate(invalid="ignore", over="ignore"):
            safe = np.abs(carrier) < 2.0**63 if kind in "iu" else np.ones(array.shape, np.bool_)
            exact = safe & (carrier.astype(array.dtype) == array) | (array != array)
        if not exact.all():
            first = array[~exact].flat[0]
            raise ValueError(
                f"{name} holds {first!s} ({array.dtype}), which float64 cannot hold exactly; round it first, "
                f"for example with FP64.round"
            )
    return carrier


def normal_axis(axis: int, ndim: int, name: str) -> int:
    """The axis counted from the front.

    Args:
        axis: As the user gave it; negative counts from the back.
        ndim: Number of dimensions.
        name: The array's name, for messages.

    Returns:
        Number in range(ndim).

    Raises:
        TypeError: If axis is no integer.
        ValueError: If the array has no such axis.
    """
    number = as_integer(axis, "axis")
    if not -ndim <= number < ndim:
        hint = "wrap a single number in a list" if ndim == 0 else f"allowed are {-ndim} to {ndim - 1}"
        raise ValueError(f"axis={number} does not exist in {name} with {ndim} dimensions; {hint}")
    return number % ndim


def as_integer(value: object, name: str, minimum: int | None = None) -> int:
    """An integer argument.

    Args:
        value: What the user gave; anything with `__index__`, no booleans.
        name: The argument's name, for messages.
        minimum: The smallest value allowed.

    Returns:
        The Python int.

    Raises:
        TypeError: If it is no integer.
        ValueError: If it is below `minimum`.
    """
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if minimum is not None and number < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {number}")
    return number
