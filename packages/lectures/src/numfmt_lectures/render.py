"""A report in a language, as plain text for a terminal, Markdown for a page, or plain data for JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numfmt_lectures.catalogue import Catalogue
from numfmt_lectures.columns import pad, width, wrap
from numfmt_lectures.report import Demonstration, Figure, Label, Observation, Report, Table, Value

__all__ = ["cell", "sentence", "to_dict", "to_markdown", "to_text"]

_LINE = 100


def cell(value: Value, spec: str, words: Catalogue) -> str:
    """One value of a table as text; `None`, no such figure, is a dash."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return words.text("yes" if value else "no")
    if isinstance(value, Label):
        return words.label(value)
    return value if isinstance(value, str) else format(value, spec)


def sentence(demonstration: str, observation: Observation, words: Catalogue) -> str:
    """What an observation says of this run; one whose premise failed says so first."""
    case = "holds" if observation.holds else "fails"
    said = words.text(demonstration, "observations", observation.key, case, **observation.values)
    return said if observation.holds else words.text("premise_failed", said=said)


def to_text(report: Report, words: Catalogue) -> str:
    """The report for a terminal, at most 100 columns wide."""
    title = words.text("title")
    blocks = [f"{title}\n{'=' * width(title)}", *_wrapped(words.text("introduction"))]
    for number, demonstration in enumerate(report.demonstrations, 1):
        heading = f"{number}. {words.text(demonstration.key, 'title')}"
        blocks += [f"{heading}\n{'-' * width(heading)}", *_wrapped(words.text(demonstration.key, "text"))]
        blocks += [_text_table(demonstration.key, table, words) for table in demonstration.tables]
        said = [wrap(sentence(demonstration.key, o, words), _LINE, "* ", "  ") for o in demonstration.observations]
        blocks += [f"{words.text('observations')}\n" + "\n".join(said)] if said else []
    tasks = words.texts("exercises")
    if tasks:
        heading = words.text("exercises_title")
        listed = [wrap(task, _LINE, f"{number}. ", "   ") for number, task in enumerate(tasks, 1)]
        blocks += [f"{heading}\n{'-' * width(heading)}", "\n".join(listed)]
    return "\n\n".join(blocks) + "\n"


def to_markdown(
    report: Report, words: Catalogue, heading: int = 2, picture: Callable[[str, Figure], str] | None = None
) -> str:
    """The report for a page, without the lecture's title, which is the page's.

    Args:
        report: what the lecture computed.
        words: its catalogue.
        heading: level of the demonstrations' headings.
        picture: makes the HTML of a figure from the demonstration's key and the figure. With it the text is for a web
            page, and its headings have anchors that are the same in every language.
    """

    def anchor(name: str) -> str:
        return f" {{ #{name} }}" if picture else ""

    blocks = [words.text("introduction")]
    for number, demonstration in enumerate(report.demonstrations, 1):
        title = words.text(demonstration.key, "title")
        blocks += [f"{'#' * heading} {number}. {title}{anchor(demonstration.key)}"]
        blocks += [words.text(demonstration.key, "text")]
        blocks += [_markdown_table(demonstration.key, table, words) for table in demonstration.tables]
        blocks += [picture(demonstration.key, figure) for figure in demonstration.figures] if picture else []
        said = [f"- {' '.join(sentence(demonstration.key, o, words).split())}" for o in demonstration.observations]
        blocks += [f"**{words.text('observations')}**", "\n".join(said)] if said else []
    tasks = words.texts("exercises")
    if tasks:
        blocks += [f"{'#' * heading} {words.text('exercises_title')}{anchor('exercises')}"]
        blocks += ["\n".join(f"{number}. {' '.join(task.split())}" for number, task in enumerate(tasks, 1))]
    return "\n\n".join(blocks) + "\n"


def to_dict(report: Report, words: Catalogue) -> dict[str, Any]:
    """The report as values that JSON can hold: numbers unrounded, sentences in the catalogue's language.

    Infinities and NaN, which JSON lacks, are the texts inf, -inf and nan.
    """
    return {
        "lecture": report.lecture,
        "title": words.text("title"),
        "language": words.language,
        "settings": dict(report.settings),
        "demonstrations": [_demonstration(d, words) for d in report.demonstrations],
    }


def _demonstration(demonstration: Demonstration, words: Catalogue) -> dict[str, Any]:
    def said(value: object) -> object:
        if isinstance(value, list):
            return [said(item) for item in value]
        if isinstance(value, float) and not math.isfinite(value):
            return str(float(value))
        return words.label(value) if isinstance(value, Label) else value

    return {
        "key": demonstration.key,
        "title": words.text(demonstration.key, "title"),
        "tables": [
            {
                "key": table.key,
                "columns": [column.key for column in table.columns],
                "rows": [[said(value) for value in row] for row in table.rows],
            }
            for table in demonstration.tables
        ],
        "observations": [
            {
                "key": o.key,
                "holds": o.holds,
                "text": sentence(demonstration.key, o, words),
                "values": {name: said(value) for name, value in o.values.items()},
            }
            for o in demonstration.observations
        ],
    }


def _wrapped(text: str) -> list[str]:
    return [wrap(paragraph, _LINE) for paragraph in text.split("\n\n")]


def _cells(demonstration: str, table: Table, words: Catalogue) -> tuple[str, list[list[str]], list[bool]]:
    """Caption, header and rows as text, and which columns hold numbers."""
    path = (demonstration, "tables", table.key)
    header = [column.title or words.text(*path, "columns", column.key) for column in table.columns]
    rows = [[cell(v, c.spec, words) for v, c in zip(row, table.columns, strict=True)] for row in table.rows]
    numeric = [
        all(isinstance(row[i], (int, float)) or row[i] is None for row in table.rows) for i in range(len(table.columns))
    ]
    return words.text(*path, "caption"), [header, *rows], numeric


def _text_table(demonstration: str, table: Table, words: Catalogue) -> str:
    caption, rows, numeric = _cells(demonstration, table, words)
    widths = [max(width(row[i]) for row in rows) for i in range(len(numeric))]
    lines = ["  ".join(pad(*item) for item in zip(row, widths, numeric, strict=True)).rstrip() for row in rows]
    rule = "  ".join("-" * w for w in widths)
    return "\n".join([wrap(caption, _LINE), "", lines[0], rule, *lines[1:]])


def _markdown_table(demonstration: str, table: Table, words: Catalogue) -> str:
    caption, rows, numeric = _cells(demonstration, table, words)
    lines = ["| " + " | ".join(text.replace("|", r"\|") for text in row) + " |" for row in rows]
    rule = "|" + "|".join(" ---: " if right else " --- " for right in numeric) + "|"
    return "\n".join([f"*{' '.join(caption.split())}*", "", lines[0], rule, *lines[1:]])
