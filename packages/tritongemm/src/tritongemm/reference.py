"""The float64 product that errors are measured against, block by block, so that any size fits into memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tritongemm.errors import UsageError
from tritongemm.matrices import is_cuda, is_torch, widened

Array = np.ndarray[Any, np.dtype[Any]]

# One block of the result and the float64 copies of the operands that it needs stay below this many bytes each.
_BLOCK_BYTES = 1 << 26


@dataclass(frozen=True)
class Block:
    """A rectangle of the reference product.

    Attributes:
        rows: Its rows.
        columns: Its columns.
        golden: float64 products of the operands, which enter without loss.
        magnitude: Sums of the products' absolute values, sum|p|, float64.
        largest: (m, 1) and (1, n): the largest magnitude of each row of A and of each column of B.
    """

    rows: slice
    columns: slice
    golden: Array
    magnitude: Array
    largest: tuple[Array, Array]

    @property
    def at(self) -> tuple[slice, slice]:
        """The rectangle as an index into the whole matrix."""
        return self.rows, self.columns


def reference_blocks(a: Any, b: Any, *, block_bytes: int = _BLOCK_BYTES) -> Iterator[Block]:
    """The float64 product A B and sum|p|, in blocks.

    Products of fp32, fp16 and bf16 numbers are exact in float64; their sum errs by at most gamma_K(2**-53)·sum|p|.

    Args:
        a: (M, K) matrix: NumPy or torch; on a GPU the products are computed there.
        b: (K, N) matrix.
        block_bytes: Upper limit of a block's result and of its float64 operands, each.

    Yields:
        Blocks that together cover the (M, N) product once.

    Raises:
        UsageError: The shapes do not fit.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise UsageError(f"a, b: shapes {tuple(a.shape)} and {tuple(b.shape)} are no (M, K) and (K, N).")
    (M, K), N = a.shape, b.shape[1]
    columns = max(1, min(N, block_bytes // (8 * max(1, K))))
    rows = max(1, min(M, block_bytes // (8 * max(1, K, columns))))
    for left in range(0, N, columns):
        wide = _float64(b[:, left : left + columns])
        wide_magnitude = abs(wide)
        widest = _largest(wide_magnitude, 0)
        for top in range(0, M, rows):
            tall = _float64(a[top : top + rows])
            tall_magnitude = abs(tall)
            yield Block(
                slice(top, top + tall.shape[0]),
                slice(left, left + wide.shape[1]),
                _product(tall, wide),
                _product(tall_magnitude, wide_magnitude),
                (_largest(tall_magnitude, 1), widest),
            )


def reference(a: Any, b: Any) -> tuple[Array, Array]:
    """The whole float64 product and sum|p|, for products that fit into memory.

    Args:
        a: (M, K) matrix.
        b: (K, N) matrix.

    Returns:
        Two (M, N) float64 arrays: A B and |A| |B|.
    """
    golden = np.empty((a.shape[0], b.shape[1]))
    magnitude = np.empty_like(golden)
    for block in reference_blocks(a, b):
        golden[block.at], magnitude[block.at] = block.golden, block.magnitude
    return golden, magnitude


def largest_of(a: Any, b: Any) -> tuple[Array, Array]:
    """The largest magnitude of each row of A and of each column of B.

    Args:
        a: (M, K) matrix.
        b: (K, N) matrix.

    Returns:
        (M, 1) and (1, N) float64 arrays.
    """
    return _largest(abs(_float64(a)), 1), _largest(abs(_float64(b)), 0)


def _largest(magnitudes: Any, axis: int) -> Array:
    if is_torch(magnitudes):
        magnitudes = magnitudes.amax(axis, keepdim=True).cpu().numpy() if magnitudes.shape[axis] else np.zeros((1, 1))
        return np.asarray(magnitudes)
    return np.asarray(np.max(magnitudes, axis=axis, keepdims=True, initial=0.0))


def _float64(x: Any) -> Any:
    if is_cuda(x):
        return x.double()
    if is_torch(x):
        return np.asarray(x.detach().double().numpy())
    return widened(x).astype(np.float64)


def _product(x: Any, y: Any) -> Array:
    if is_torch(x):
        return np.asarray(sys.modules["torch"].matmul(x, y).cpu().numpy())
    with np.errstate(all="ignore"):
        return np.asarray(x @ y)
