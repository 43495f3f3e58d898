"""Plain tables: built once, shown as text in a terminal and as HTML in a page."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

_LONGEST_FIGURE = 24
WIDTH = 100
"""Columns of a terminal that reports fit into."""
# Columns of texts are made no narrower than this.
_NARROWEST = 12


@dataclass(frozen=True)
class Table:
    """Rows of cells under column names; every cell is text already.

    Attributes:
        columns: Names of the columns; the first column holds the rows' names.
        rows: One sequence of cells per row.
        title: What the table shows.
        notes: Sentences below it.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def texts(self) -> frozenset[int]:
        """The columns that hold names and texts rather than figures."""
        long = (i for i in range(len(self.columns)) if any(len(row[i]) > _LONGEST_FIGURE for row in self.rows))
        return frozenset({0, *long})

    def text(self, indent: str = "  ", width: int = WIDTH) -> str:
        """The table with aligned columns: names and texts to the left, figures to the right.

        Args:
            indent: Before every line.
            width: Columns of the terminal: names of columns and texts are broken where the table is wider.
        """
        left = self.texts
        widths = self._widths(width - len(indent))
        out = textwrap.wrap(self.title, width) if self.title else []
        for number, line in enumerate([self.columns, *self.rows]):
            cells = [_broken(cell, w) for cell, w in zip(line, widths, strict=True)]
            height = max(len(cell) for cell in cells)
            for row in range(height):
                # Names of columns stand on the line below them, texts hang from the line above.
                at = row - height if number == 0 else row
                parts = [
                    (cell[at] if -len(cell) <= at < len(cell) else "").ljust(w)
                    if i in left
                    else (cell[at] if -len(cell) <= at < len(cell) else "").rjust(w)
                    for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
                ]
                out.append((indent + "  ".join(parts)).rstrip())
            if number == 0:
                out.append(indent + "  ".join("-" * w for w in widths))
        for note in self.notes:
            out += textwrap.wrap(note, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
        return "\n".join(out)

    def _widths(self, width: int) -> list[int]:
        """Widths of the columns: as wide as their cells; where that is too much, names of columns and then texts are
        broken."""
        lines = [self.columns, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        room = width - 2 * (len(widths) - 1)
        if sum(widths) > room:
            cells = [max((len(row[i]) for row in self.rows), default=0) for i in range(len(widths))]
            words = [max((len(word) for word in name.split()), default=0) for name in self.columns]
            widths = [min(w, max(c, n)) for w, c, n in zip(widths, cells, words, strict=True)]
        while sum(widths) > room:
            widest = max(self.texts, key=lambda i: widths[i])
            if widths[widest] <= _NARROWEST:
                break
            widths[widest] = max(_NARROWEST, widths[widest] - (sum(widths) - room))
        return widths


def _broken(cell: str, width: int) -> list[str]:
    """A cell's lines; words longer than the column are cut."""
    return textwrap.wrap(cell, width, break_on_hyphens=False) or [""]


def figure(x: float, digits: int = 3) -> str:
    """A number with a few significant digits, the way a table wants it: 0.0340, 6.12, 5.6e-04, 33,554,432."""
    if isinstance(x, int):
        return f"{x:,}"
    if not math.isfinite(x):
        return str(x)
    if x == 0:
        return "0"
    exponent = math.floor(math.log10(abs(x)))
    if -3 <= exponent < 5:
        return f"{x:,.{max(0, digits - 1 - exponent)}f}"
    return f"{x:.{digits - 1}e}"


def share(part: int, whole: int) -> str:
    """A share in per cent; 100 % and 0 % are said only when they are exact."""
    if whole == 0:
        return "-"
    if part in (0, whole):
        return "0 %" if part == 0 else "100 %"
    return f"{min(99.99, max(0.01, 100 * part / whole)):.2f} %"


def counted(n: int, word: str) -> str:
    """A number of things: "1 trial", "12 trials"."""
    return f"{n:,} {word}{'s' if n != 1 else ''}"


def short(x: float) -> str:
    """A tolerance the way people write it: 1e-4, 0.01, 2.5e-6."""
    mantissa, _, exponent = f"{x:.3e}".partition("e")
    if x == 0 or -3 <= int(exponent) <= 2:
        return f"{x:g}"
    return f"{float(mantissa):g}e{int(exponent)}"


def percent(probability: float) -> str:
    """A probability below 1 in per cent, never rounded up to certainty."""
    return "> 99.99 %" if probability > 0.9999 else f"{100 * probability:.2f} %"
