"""Which matrices the tensor memory accelerator (TMA) of Hopper can fetch, and their descriptors.

A descriptor has rules that the hardware does not report when they are broken: the first element must lie at a multiple
of 16 bytes, one axis must be contiguous, and the stride of the other must be a positive multiple of 16 bytes. Odd
storage offsets, rows of an odd length, broadcast and doubly strided views break them; such operands are read through
pointers by another kernel. The stride of an axis of length 1 means nothing, and is replaced by one that keeps the
rules. Results are never written by TMA, which on Hopper writes whole 16-byte chunks past the end of a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tritongemm.elements import address_of, element_of, is_typed, strides_of
from tritongemm.matrices import is_torch

ALIGNMENT = 16
"""Bytes that addresses and strides must be multiples of."""

_LARGEST_STRIDE = 2**40
_LARGEST_SIZE = 2**31 - 1


def contiguous_axis(x: Any, argument: str) -> int | None:
    """The axis along which TMA can read a matrix: 1 (rows are contiguous), 0 (columns are), or None: it cannot.

    Args:
        x: The matrix; of rank 2 and not empty, else None.
        argument: Its name, for errors.
    """
    shape = tuple(int(n) for n in x.shape)
    if len(shape) != 2 or min(shape) == 0 or max(shape) > _LARGEST_SIZE:
        return None
    element, strides = element_of(x, argument), strides_of(x, argument)
    if address_of(x) % ALIGNMENT:
        return None
    for axis in (1, 0):
        along, across = strides[axis], strides[1 - axis] * element.itemsize
        fits = 0 < across < _LARGEST_STRIDE and across % ALIGNMENT == 0
        if (along == 1 or shape[axis] == 1) and (fits or shape[1 - axis] == 1):
            return axis
    return None


def descriptor(x: Any, axis: int, block: tuple[int, int], argument: str) -> Any:
    """A host descriptor of a matrix, with its contiguous axis last.

    Args:
        x: A matrix that `contiguous_axis` gave `axis` for.
        axis: That axis.
        block: Rows and columns of a tile of x; the descriptor has them in the order (other axis, contiguous axis).
        argument: x's name, for errors.

    Returns:
        A `triton.tools.tensor_descriptor.TensorDescriptor`.
    """
    from triton.tools.tensor_descriptor import TensorDescriptor

    shape, strides = tuple(int(n) for n in x.shape), strides_of(x, argument)
    size = element_of(x, argument).itemsize
    across = strides[1 - axis]
    if shape[1 - axis] == 1:
        across = -(-shape[axis] * size // ALIGNMENT) * ALIGNMENT // size
    order = (1 - axis, axis)
    return TensorDescriptor(_base(x), [shape[i] for i in order], [across, 1], [block[i] for i in order])


def _base(x: Any) -> Any:
    """The matrix as a descriptor takes it: with torch's methods."""
    if is_torch(x) or is_typed(x):
        return x
    import fpsan_tools

    return fpsan_tools.typed(np.asarray(x))
