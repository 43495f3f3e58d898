"""Rows of A that the copy engine cannot read: copied in part before a product, and in part while it is computed."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import triton

from tritongemm import launches
from tritongemm.kernels.hopper.copying import pad
from tritongemm.kernels.hopper.launching import Cut, Shape
from tritongemm.kernels.hopper.matrices import contiguous_axis, multiprocessors, padded
from tritongemm.kernels.hopper.moving import PIECE
from tritongemm.kernels.hopper.parts import Parts

# Whether rows are moved during products at all.
_MOVING = False
# Bytes per clock that an idle multiprocessor moves.
_RATE = 24
# Rows that are longer do not fit the registers of a warpgroup.
_MOST_PIECES = 8
_MOST_TILES = 1024


@dataclass(frozen=True)
class Moved:
    """A matrix on its way.

    Attributes:
        a: The copy, which the copy engine can read as soon as its rows are there.
        cut: Which programs of the product move which rows.
    """

    a: Any
    cut: Cut


def share_of(M: int, K: int, N: int, size: int, products: int, shape: Shape, processors: int) -> tuple[int, int] | None:
    """How many rows are moved before the product, and how many of its programs move the others; None: not worth it.

    As `emulated.share_of`, which says why.

    Args:
        M: Rows of A.
        K: Their length.
        N: Columns of the product.
        size: Bytes of an element.
        products: Multiply-adds per clock of a multiprocessor.
        shape: How the product is cut.
        processors: Multiprocessors of the GPU.
    """
    rows, columns = triton.cdiv(M, shape.block_m), triton.cdiv(N, shape.block_n)
    rounds = triton.cdiv(rows * columns, processors)
    busy = triton.cdiv(rows * columns, rounds)
    spare = processors - busy
    if rounds < 4 or spare == 0 or rows > _MOST_TILES or shape.ctas > 1 or shape.groups != 2:
        return None
    if triton.cdiv(K * size, 128) * 32 > _MOST_PIECES * PIECE:
        return None
    # Rows of A that are moved in the time in which the product needs one more.
    speed = spare * (_RATE / size) * N / (busy * products)
    ahead = triton.cdiv(busy, shape.group_m * columns) * shape.group_m
    first = max(ahead, math.ceil(rows - speed * (rows - ahead)))
    return None if first >= rows else (first * shape.block_m, spare)


def begin(a: Any, N: int, products: int, shape: Shape) -> Moved | None:
    """Moves the rows of A that a product's first tiles need, if the product's idle programs can move the others.

    Args:
        a: (M, K) CUDA tensor.
        N: Columns of the product.
        products: Multiply-adds per clock of a multiprocessor.
        shape: How the product is cut.

    Returns:
        None if the copy engine can read a, or all of it is better copied before.
    """
    size = a.element_size()
    if not _MOVING or a.ndim != 2 or a.stride(1) != 1 or a.stride(0) < a.shape[1] or size not in (2, 4):
        return None
    if contiguous_axis(a) is not None:
        return None
    M, K = (int(n) for n in a.shape)
    share = share_of(M, K, N, size, products, shape, multiprocessors(a.device.index))
    if share is None:
        return None
    first, programs = share
    out = padded(M, K, a)
    whole = launches.workspace(out._base)
    ready = launches.workspace(a.new_empty(triton.cdiv(M, shape.block_m), dtype=sys.modules["torch"].int32))
    pad(a[:first], out, ready)
    left = Parts("halves" if size == 2 else "words", whole, M, M, K, ready, ready, ready)
    pieces = triton.cdiv(int(whole.shape[1]) * size, 4 * PIECE)
    return Moved(out, Cut(a, left, ready, first, programs, pieces, False))
