"""Where wrong outputs lie, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

# A rectangle is named when at least this share of it is wrong: some wrong outputs are right by chance.
_MOSTLY = 0.5


class Tiled(Protocol):
    """What has tile sizes."""

    def tile(self, dimension: str) -> int:
        """The tile size along "rows" or "columns"."""


def region(wrong: Array, contestants: Iterable[Tiled] = ()) -> str:
    """Where the wrong outputs lie, in words.

    Args:
        wrong: (M, N) booleans, not all False.
        contestants: Kernels whose tile sizes are looked for in the pattern.
    """
    M, N = wrong.shape
    rows, columns = np.flatnonzero(wrong.any(1)), np.flatnonzero(wrong.any(0))
    if wrong.all():
        return "all outputs"
    block = wrong[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    if block.all():
        parts = [p for p in (_span(rows, M, "row"), _span(columns, N, "column")) if p]
        return " and ".join(parts)
    some_rows, some_columns = np.asarray(wrong.any(1)), np.asarray(wrong.any(0))
    if (wrong == some_rows[:, None]).all():
        return f"the rows {_listed(rows)}"
    if (wrong == some_columns[None, :]).all():
        return f"the columns {_listed(columns)}"
    last_rows, last_columns = np.asarray(wrong.all(1)), np.asarray(wrong.all(0))
    if (wrong == (last_rows[:, None] | last_columns[None, :])).all():
        return f"rows {_listed(np.flatnonzero(last_rows))} and columns {_listed(np.flatnonzero(last_columns))}"
    for c in contestants:
        high, wide = c.tile("rows"), c.tile("columns")
        if high > 1 and wide > 1:
            tiles = {(int(i) // high, int(j) // wide) for i, j in zip(*np.nonzero(wrong), strict=True)}
            whole = np.zeros_like(wrong)
            for i, j in tiles:
                whole[i * high : (i + 1) * high, j * wide : (j + 1) * wide] = True
            if (whole == wrong).all():
                i, j = min(tiles)
                return f"{len(tiles)} whole {high}x{wide} tiles, the first at row {i * high}, column {j * wide}"
    return (
        f"{int(wrong.sum())} outputs between rows {rows[0]} and {rows[-1]} and columns {columns[0]} and {columns[-1]}"
    )


def _span(found: Array, size: int, word: str) -> str:
    if found.size == size:
        return ""
    if found[-1] == size - 1:
        return f"from {word} {found[0]} on"
    if found.size == 1:
        return f"{word} {found[0]}"
    if found[0] == 0:
        return f"up to {word} {found[-1]}"
    return f"{word}s {found[0]} to {found[-1]}"


def _listed(found: Array) -> str:
    shown = ", ".join(str(x) for x in found[:6])
    return shown + (f", ... ({found.size} in all)" if found.size > 6 else "")


def roughly(wrong: Array) -> str:
    """Where wrong floats lie, in words; of a wrong region some may be right by chance.

    Args:
        wrong: (M, N) booleans, not all False.
    """
    rows, columns = np.flatnonzero(wrong.any(1)), np.flatnonzero(wrong.any(0))
    box = np.zeros_like(wrong)
    box[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = True
    count, size = int(wrong.sum()), int(box.sum())
    if count == size or count < _MOSTLY * size:
        return region(wrong)
    return f"{region(box)} ({count:,} of {size:,} outputs there)"
