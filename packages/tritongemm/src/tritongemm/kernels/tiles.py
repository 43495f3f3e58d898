"""Which program computes which tile: one formula, whose group size makes it any of the usual orders.

Tiles of a product are numbered in groups of GROUP_M rows of tiles; inside a group, columns are taken one after the
other, so that the programs that run at the same time share rows of A and columns of B in the cache. One row per group
is the row-major order, all rows in one group the column-major one. A persistent kernel takes the tiles `pid`,
`pid + programs`, `pid + 2·programs`, ... of the same numbering. The order of tiles never changes a bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl

from tritongemm.errors import UsageError

# More rows of tiles than any launch has: one group takes them all.
_ALL = 1 << 30


@dataclass(frozen=True)
class TileOrder:
    """An order of tiles, as the constant that kernels take.

    Attributes:
        name: "grouped", "rows" or "columns".
        group_m: Rows of tiles in a group.
    """

    name: str
    group_m: int

    @classmethod
    def grouped(cls, group_m: int = 8) -> TileOrder:
        """Groups of so many rows of tiles."""
        if group_m < 1:
            raise UsageError(f"group_m: a whole number from 1 on, given {group_m!r}.")
        return cls("grouped", group_m)

    @classmethod
    def rows(cls) -> TileOrder:
        """Row by row of tiles."""
        return cls("rows", 1)

    @classmethod
    def columns(cls) -> TileOrder:
        """Column by column of tiles."""
        return cls("columns", _ALL)


@triton.jit
def tile_of(pid, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """Row and column of tile `pid` in grouped order: GROUP_M rows of tiles share their columns of B in the cache."""
    rows = tl.cdiv(M, BLOCK_M)
    columns = tl.cdiv(N, BLOCK_N)
    # No group has more rows than there are: the product below stays in 32 bits for every group size.
    high = min(rows, GROUP_M)
    group = pid // (high * columns)
    first = group * high
    height = min(rows - first, high)
    inside = pid % (high * columns)
    return first + inside % height, inside // height


@triton.jit
def tiles_in(M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Number of tiles of an M x N matrix."""
    return tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)


@triton.jit
def extent(tile, size, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """Indices of a tile along one axis, in 64 bits where offsets need them, and which of them exist."""
    index = tile * BLOCK + tl.arange(0, BLOCK)
    live = index < size
    if WIDE:
        index = index.to(tl.int64)
    return index, live
