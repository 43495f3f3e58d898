"""Operands and results as the copy engine takes them, and copies of those it does not take.

The copy engine (TMA) reads a matrix whose one axis is contiguous and whose other stride and first address are multiples
of 16 bytes. Others are copied, padded, before the product: 15 to 30 % of a large product's time, none of its bits. A
result whose rows are not multiples of 16 bytes is stored through registers, since the engine would write whole 16-byte
pieces past its edge.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from tritongemm import launches
from tritongemm.kernels.hopper.copying import pad, transpose

_BYTES = 16
_WORTH_TILES = 1 << 18
_GLUON = {
    "float32": gl.float32,
    "float16": gl.float16,
    "bfloat16": gl.bfloat16,
    "float8_e4m3fn": gl.float8e4nv,
    "float8_e5m2": gl.float8e5,
    "int8": gl.int8,
}


def gluon_type(x: Any) -> Any:
    """Gluon's name of a tensor's type."""
    return _GLUON[str(x.dtype).removeprefix("torch.")]


def contiguous_axis(x: Any) -> int | None:
    """The axis of a matrix along which the copy engine can read it, 1 preferred; None if there is none.

    Of a batch of matrices: the axis of each, if the engine sees them as one array.
    """
    size = x.element_size()
    if x.data_ptr() % _BYTES or (x.ndim == 3 and not stackable(x)):
        return None
    for axis, along, across in ((1, -1, -2), (0, -2, -1)):
        pitch = x.stride(across) * size
        wide = x.shape[along] * size <= pitch and pitch % _BYTES == 0
        if (x.stride(along) == 1 or x.shape[along] == 1) and (wide or x.shape[across] == 1):
            return axis
    return None


def padded(rows: int, columns: int, like: Any, dtype: Any = None, batch: tuple[int, ...] = ()) -> Any:
    """An uninitialised matrix, or a batch of them, whose rows start at multiples of 128 bytes."""
    dtype = like.dtype if dtype is None else dtype
    step = 128 // dtype.itemsize
    return like.new_empty((*batch, rows, -(-columns // step) * step), dtype=dtype)[..., :columns]


def readable(x: Any, axis: int | None = None) -> tuple[Any, int]:
    """A matrix as the copy engine reads it: itself, or a padded copy.

    Args:
        x: The matrix, or a batch of them.
        axis: The axis that must be contiguous; None for either.

    Returns:
        The matrix and its contiguous axis.
    """
    found = contiguous_axis(x)
    if found is not None and axis in (None, found):
        return x, found
    *batch, rows, columns = x.shape
    if axis == 0 or (axis is None and x.stride(-2) == 1 and columns > 1):
        copy = padded(columns, rows, x, batch=tuple(batch))
        _copy(x.mT, copy)
        return copy.mT, 0
    copy = padded(rows, columns, x, batch=tuple(batch))
    _copy(x, copy)
    return copy, 1


def _copy(x: Any, out: Any) -> None:
    """out = x; out is `padded`."""
    apart = x.stride(-1) == 1 and x.element_size() in (2, 4)
    if x.ndim > 2 or x.numel() < _WORTH_TILES or not (apart or x.stride(0) == 1):
        out.copy_(x)
        return
    if apart:
        pad(x, out)
    else:
        transpose(x.t(), out)
    # Kernels of ours make it again when the call is launched from memory.
    launches.workspace(out._base)


def storable(out: Any) -> bool:
    """Whether the copy engine can store a result: contiguous rows that are multiples of 16 bytes, aligned."""
    size = out.element_size()
    return bool(
        out.data_ptr() % _BYTES == 0
        and out.stride(-1) == 1
        and out.stride(-2) >= out.shape[-1]
        and out.stride(-2) * size % _BYTES == 0
        and out.shape[-1] * size % _BYTES == 0
        and (out.ndim == 2 or stackable(out))
    )


def stackable(x: Any) -> bool:
    """Whether the copy engine sees a batch of matrices that it can read as one array: they follow each other."""
    pitch = x.stride(0) * x.element_size()
    return bool(pitch > 0 and pitch % _BYTES == 0)


@functools.cache
def tile_layout(rows: int, columns: int, dtype: Any, split: bool | None, batched: bool = False) -> Any:
    """The swizzled shared-memory layout of a tile; split: over two programs of a cluster, False: shared by both."""
    cluster = [] if split is None else [[1, 0]] if split else [[0, 0]]
    return gl.NVMMASharedLayout.get_default_for([1] * batched + [rows, columns], dtype, cga_layout=cluster)


def descriptor(x: Any, tile: list[int], layout: Any, rounded: bool = False) -> Any:
    """The copy engine's description of a matrix with contiguous rows, or of a batch of them.

    Rounded: the engine rounds fp32 numbers to tf32 on the way. It breaks ties to even, where `tf32_rounded` and cvt.rna
    break them away from zero.
    """
    *_, rows, columns = x.shape
    size = x.element_size()
    pitch = x.stride(-2) if rows > 1 else -(-columns * size // _BYTES) * _BYTES // size
    return TensorDescriptor(x, list(x.shape), [*x.stride()[:-2], pitch, 1], tile, layout, round_f32_to_tf32=rounded)


@functools.cache
def multiprocessors(device: int) -> int:
    """Multiprocessors of a GPU."""
    torch = sys.modules["torch"]
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
