"""Where in an output the differing elements lie, in words: whole rows, the last columns, one tile, a triangle, all.

Per axis the set of indices that occur is described; if the differing elements are exactly the product of these sets,
the description is exact, else it says what part of the box they fill, or names a triangle or diagonal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]

_LISTED = 6  # indices that are listed one by one


@dataclass(frozen=True)
class AxisPattern:
    """The indices along one axis.

    Attributes:
        kind: "all", "one", "last", "first", "range", "period", "several".
        text: in words, with the axis' name filled in.
        start: first index.
        stop: one past the last index.
    """

    kind: str
    text: str
    start: int
    stop: int


@dataclass(frozen=True)
class Pattern:
    """Where differences lie.

    Attributes:
        kind: "none", "every element", "one element", "rows", "columns", "tile", "box", "upper triangle",
            "lower triangle", "diagonal", "scattered".
        text: a sentence part that completes "the differing elements are ...".
        axes: the description of every axis.
        exact: whether exactly the described elements differ.
    """

    kind: str
    text: str
    axes: tuple[AxisPattern, ...]
    exact: bool


def find_pattern(different: Mask) -> Pattern:
    """Describe which elements of an array differ.

    Args:
        different: boolean array, true where two outputs differ; any number of axes.

    Returns:
        The pattern.
    """
    total, count = different.size, int(np.count_nonzero(different))
    if count == 0:
        return Pattern("none", "none", (), True)
    if count == total:
        return Pattern("every element", "every element", (), True)
    names = _axis_names(different.ndim)
    used = [np.flatnonzero(different.any(axis=_others(different.ndim, axis))) for axis in range(different.ndim)]
    axes = tuple(_axis(indices, size, name) for indices, size, name in zip(used, different.shape, names, strict=True))
    if count == 1:
        where = ", ".join(str(int(indices[0])) for indices in used)
        return Pattern("one element", f"one element, [{where}]", axes, True)
    filled = math.prod(len(indices) for indices in used)
    if filled == count:
        return Pattern(_box_kind(axes), _box_text(axes), axes, True)
    triangle = _triangle(different)
    if triangle is not None:
        return Pattern(triangle, f"the {triangle} of the last two axes", axes, True)
    narrowed = [a for a in axes if a.kind != "all"]
    inside = f" ({count} of the {filled} there)"
    if narrowed and 2 * count >= filled:
        return Pattern(_box_kind(axes), _box_text(axes) + inside, axes, False)
    text = f"scattered over {_box_text(axes)}{inside}" if narrowed else f"scattered ({count} of {total})"
    return Pattern("scattered", text, axes, False)


def _axis_names(ndim: int) -> list[tuple[str, str]]:
    """Singular and plural of the axes' names."""
    if ndim == 1:
        return [("element", "elements")]
    last = [("row", "rows"), ("column", "columns")]
    return [(f"axis-{axis} index", f"axis-{axis} indices") for axis in range(ndim - 2)] + last


def _others(ndim: int, axis: int) -> tuple[int, ...]:
    return tuple(other for other in range(ndim) if other != axis)


def _axis(indices: npt.NDArray[Any], size: int, names: tuple[str, str]) -> AxisPattern:
    singular, plural = names
    start, stop, count = int(indices[0]), int(indices[-1]) + 1, len(indices)
    if count == size:
        return AxisPattern("all", f"all {plural}", start, stop)
    if count == 1:
        place = f"the last {singular}" if stop == size else f"{singular} {start}"
        return AxisPattern(
            "last" if stop == size else "one", place + (f" ({start})" if stop == size else ""), start, stop
        )
    if count == stop - start:
        if stop == size:
            return AxisPattern("last", f"the last {count} {plural} (from {start})", start, stop)
        if start == 0:
            return AxisPattern("first", f"the first {count} {plural}", start, stop)
        return AxisPattern("range", f"{plural} {start} to {stop - 1}", start, stop)
    steps = np.unique(np.diff(indices))
    if len(steps) == 1 and count >= 3:
        return AxisPattern("period", f"every {_ordinal(int(steps[0]))} {singular} from {start}", start, stop)
    listed = ", ".join(str(int(i)) for i in indices[:_LISTED]) + (", ..." if count > _LISTED else "")
    return AxisPattern("several", f"{count} {plural} ({listed})", start, stop)


def _ordinal(number: int) -> str:
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return "other" if number == 2 else f"{number}{suffix}"


def _box_kind(axes: tuple[AxisPattern, ...]) -> str:
    """Which axes are whole decides what a product of index sets is called."""
    whole = [axis.kind == "all" for axis in axes]
    if len(axes) >= 2 and all(whole[:-2]):
        if whole[-1] and not whole[-2]:
            return "rows"
        if whole[-2] and not whole[-1]:
            return "columns"
    contiguous = all(axis.kind in ("all", "first", "last", "range", "one") for axis in axes)
    return "tile" if contiguous and len(axes) >= 2 else "box"


def _box_text(axes: tuple[AxisPattern, ...]) -> str:
    narrowed = [axis.text for axis in axes if axis.kind != "all"]
    if not narrowed:
        return "all of the array"
    kind = _box_kind(axes)
    whole = "whole " if kind in ("rows", "columns") else ""
    if whole and narrowed[-1].startswith("the "):
        return f"the whole of {narrowed[-1]}"
    return whole + " of ".join(reversed(narrowed)) if len(narrowed) > 1 else whole + narrowed[0]


def _triangle(different: Mask) -> str | None:
    """A triangle or the diagonal of the last two axes, the same for all leading indices."""
    if different.ndim < 2:
        return None
    flat = different.reshape(-1, *different.shape[-2:])
    first = flat[0]
    if not (flat == first).all():
        return None
    row, column = np.indices(first.shape)
    candidates = {
        "diagonal": row == column,
        "upper triangle": column > row,
        "lower triangle": column < row,
        "upper triangle with the diagonal": column >= row,
        "lower triangle with the diagonal": column <= row,
    }
    return next((name for name, shape in candidates.items() if np.array_equal(first, shape)), None)


def density(different: Mask, rows: int = 48, columns: int = 96) -> npt.NDArray[np.float64]:
    """Share of differing elements per cell of a coarse grid, for a picture.

    Args:
        different: boolean array; leading axes are stacked onto the rows.
        rows: most rows of the grid.
        columns: most columns of the grid.

    Returns:
        Array of at most that shape, values from 0 to 1.
    """
    columns_of = different.shape[-1] if different.ndim else 1
    grid: npt.NDArray[np.float64] = different.reshape(-1, max(columns_of, 1)).astype(np.float64)
    for axis, most in ((0, rows), (1, columns)):
        size = grid.shape[axis]
        if size > most:
            edges = np.unique(np.linspace(0, size, most + 1).astype(np.int64))
            counts = np.diff(edges)
            shape = (-1, 1) if axis == 0 else (1, -1)
            grid = np.add.reduceat(grid, edges[:-1], axis=axis) / counts.reshape(shape)
    return grid
