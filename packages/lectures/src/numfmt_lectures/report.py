"""What a lecture computes, before any language or layout: demonstrations of tables, observations and figures.

Everything here is data. Words come from a `Catalogue`, layout from `render`, pictures from `plots`, so that a figure
in a table has one place where it is computed and none where it is copied.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Column", "Demonstration", "Figure", "Label", "Observation", "Report", "Series", "Table", "Value", "ratio"]


@dataclass(frozen=True)
class Label:
    """A phrase that the catalogue holds under `labels`, with the values its placeholders take."""

    key: str
    values: Mapping[str, object] = field(default_factory=dict)


Value = float | int | str | bool | Label | None


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        key: names the column in the catalogue and in JSON.
        spec: Python format specification of its numbers.
        title: its heading where that is the same in every language, as in "K = 512"; else the catalogue has one.
    """

    key: str
    spec: str = ""
    title: str | None = None


@dataclass(frozen=True)
class Table:
    """Rows of values; a `None` is printed as a dash: there is no such figure."""

    key: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table {self.key!r}: a row of {len(row)} values for {len(self.columns)} columns: {row}"
                )

    def column(self, key: str) -> list[Value]:
        """The values under the column named `key`, top to bottom."""
        index = [column.key for column in self.columns].index(key)
        return [row[index] for row in self.rows]


@dataclass(frozen=True)
class Observation:
    """A statement about results, with the test of its premise already made.

    Attributes:
        key: names the statement in the catalogue, which holds a sentence for either case.
        holds: whether the premise was met by the results of this run.
        values: what the sentences quote.
    """

    key: str
    holds: bool
    values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Series:
    """One line, or one set of bars or points, of a figure.

    Attributes:
        label: its name in the legend.
        x: where; names or labels for bars.
        y: how much.
        dashed: drawn as a variant or a limit of another series.
        colour: number of its colour; that of its place among the series where it is None.
    """

    label: Label | str
    x: Sequence[float] | Sequence[str] | Sequence[Label]
    y: Sequence[float]
    dashed: bool = False
    colour: int | None = None


@dataclass(frozen=True)
class Figure:
    """A picture as data: `kind` is line, points, scatter or bars; `scales` of x and y are linear, log or log2."""

    key: str
    kind: str
    series: Sequence[Series]
    scales: tuple[str, str] = ("linear", "linear")


@dataclass(frozen=True)
class Demonstration:
    """One experiment of a lecture: its title, text and exercises are in the catalogue under `key`."""

    key: str
    tables: Sequence[Table]
    observations: Sequence[Observation]
    figures: Sequence[Figure] = ()


@dataclass(frozen=True)
class Report:
    """All that one run of a lecture computed."""

    lecture: str
    settings: Mapping[str, object]
    demonstrations: Sequence[Demonstration]

    def demonstration(self, key: str) -> Demonstration:
        """The demonstration named `key`.

        Raises:
            KeyError: no demonstration of this lecture has that name.
        """
        for demonstration in self.demonstrations:
            if demonstration.key == key:
                return demonstration
        raise KeyError(f"{key!r}; lecture {self.lecture!r} has {[d.key for d in self.demonstrations]}")


def ratio(one: float, other: float) -> float:
    """How many times as large a figure is as another; infinite beside 0, and 1 if both are 0."""
    if other:
        return one / other
    return math.inf if one else 1.0
