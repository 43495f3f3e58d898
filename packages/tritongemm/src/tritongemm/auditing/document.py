"""A report's content, independent of how it is shown: sections of sentences, tables and plots."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tritongemm.tables import WIDTH, Table


@dataclass(frozen=True)
class Series:
    """One curve of a plot.

    Attributes:
        name: For the legend.
        x: Abscissae.
        y: Ordinates, same length.
        style: "steps" (a histogram's outline), "line", "dots", or "dashed".
        colour: Index of its colour; series that belong together share one.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    style: str
    colour: int


@dataclass(frozen=True)
class Plot:
    """A plot with logarithmic abscissa and linear or logarithmic ordinate.

    Attributes:
        title: What it shows.
        x_name: Name of the abscissa, whose values are powers of `x_base`.
        y_name: Name of the ordinate.
        series: The curves; x and, if `y_log`, y hold exponents.
        x_base: Base of the abscissa's exponents.
        y_base: Base of the ordinate's exponents; None for a linear ordinate.
        caption: One sentence on how to read it.
    """

    title: str
    x_name: str
    y_name: str
    series: Sequence[Series]
    x_base: int
    y_base: int | None
    caption: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the report.

    Attributes:
        title: Its heading.
        items: Sentences, tables and plots in order.
    """

    title: str
    items: Sequence[str | Table | Plot]


@dataclass(frozen=True)
class Document:
    """A whole report.

    Attributes:
        title: Its heading.
        verdict: One of the four verdicts.
        summary: What it rests on; the page shows it first, the terminal last, as the last section.
        lead: Sentences under the heading: what was audited, how and where.
        sections: Its parts.
    """

    title: str
    verdict: str
    summary: Sequence[str]
    lead: Sequence[str]
    sections: Sequence[Section] = field(default_factory=tuple)

    def beside(self, sentences: Sequence[str]) -> Document:
        """The same with a comparison with an earlier audit.

        Args:
            sentences: The comparison, the first one for the summary.
        """
        sections = [*self.sections, Section("5. Since the baseline", list(sentences))]
        return replace(self, summary=[*self.summary, *sentences], sections=sections)

    def text(self) -> str:
        """The report for a terminal; plots are left to the page."""
        lines = [self.title, *(_wrapped(s, "  ") for s in self.lead)]
        for section in self.sections:
            lines += ["", section.title]
            for item in section.items:
                if isinstance(item, str):
                    lines.append(_wrapped(item, "  "))
                elif isinstance(item, Table):
                    title = [_wrapped(item.title, "  ")] if item.title else []
                    lines += [*title, replace(item, title="").text("    " if title else "  ")]
        return "\n".join(lines)


def _wrapped(sentence: str, indent: str) -> str:
    return textwrap.fill(sentence, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
