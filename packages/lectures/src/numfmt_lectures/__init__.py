"""Lectures on low-precision arithmetic as scripts that run in seconds.

    >>> import numfmt_lectures
    >>> text = numfmt_lectures.run("rounding-and-accumulation", quick=True)

Every figure is computed when a lecture runs, and every observation is a test of this run's results: change a setting,
and the sentences change with the figures. The only others are recordings of a GPU (`numfmt_lectures.recorded`).
"""

from __future__ import annotations

from pathlib import Path

from numfmt_lectures.catalogue import LANGUAGES, load
from numfmt_lectures.lecture import LECTURES, find, perform
from numfmt_lectures.names import LectureError, unknown
from numfmt_lectures.render import to_markdown, to_text
from numfmt_lectures.report import Report

__version__ = "0.1.0"

__all__ = ["LANGUAGES", "LectureError", "Report", "compute", "names", "run"]


def names() -> list[str]:
    """The lectures' names, in teaching order."""
    return list(LECTURES)


def compute(name: str, quick: bool = False, **settings: object) -> Report:
    """Run a lecture and return what it computed, as data.

    Args:
        name: one of `names()`.
        quick: small sizes that take a second.
        settings: any of the lecture's own sizes and seeds, by name.

    Returns:
        Tables, observations and figures.

    Raises:
        LectureError: an unknown name or setting, a value it cannot take, or a missing package.
    """
    return perform(find(name), quick, settings)


def run(
    name: str,
    quick: bool = False,
    *,
    lang: str = "en",
    form: str = "text",
    plots: str | Path | None = None,
    **settings: object,
) -> str:
    """Run a lecture and return it as text.

    Args:
        name: one of `names()`.
        quick: small sizes that take a second.
        lang: one of `LANGUAGES`.
        form: `text` for a terminal, `markdown` for a page, or `page`: Markdown with its figures inside, for a web page.
        plots: a folder for the figures as PNG files; none are drawn without it.
        settings: any of the lecture's own sizes and seeds, by name.

    Returns:
        The lecture: its text, tables and observations.

    Raises:
        LectureError: an unknown name, language, form or setting, a value it cannot take, or a missing package.
    """
    forms = ("text", "markdown", "page")
    if form not in forms:
        raise unknown("form", form, forms)
    lecture = find(name)
    words = load(name, lang)
    report = perform(lecture, quick, settings)
    if plots is not None:
        from numfmt_lectures.plots import write

        write(report, words, Path(plots))
    if form == "text":
        return to_text(report, words)
    if form == "markdown":
        return to_markdown(report, words)
    from numfmt_lectures.plots import inline_svg

    return to_markdown(report, words, picture=lambda key, figure: inline_svg(key, figure, words))
