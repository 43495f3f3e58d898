"""Figures drawn with matplotlib, as files for a reader's folder or as SVG inside a page."""

from __future__ import annotations

import io
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

from numfmt_lectures.catalogue import Catalogue, load
from numfmt_lectures.names import LectureError
from numfmt_lectures.report import Figure, Label, Report

__all__ = ["inline_svg", "legible", "write"]

# Okabe and Ito's colours: told apart by readers of every colour vision, and legible on white and on dark grey.
_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C"]
_MARKERS = "osD^vPX"
# A colour no series uses stands for the page's own text colour until the SVG is written.
_INK = "#010203"
# Fonts with the scripts that matplotlib's own font lacks.
_FONTS = {"zh": ["Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Zen Hei", "SimHei"]}


def write(report: Report, words: Catalogue, folder: Path) -> list[Path]:
    """Draw every figure of a report as a PNG.

    Args:
        report: what a lecture computed.
        words: its catalogue; labels follow its language if it is `legible`, and are English otherwise.
        folder: where the files go; made if it is not there. A file is complete or absent, never half written.

    Returns:
        The files written, in the order of the figures.

    Raises:
        LectureError: matplotlib is not installed, or `folder` cannot be written.
    """
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for demonstration in report.demonstrations:
            for figure in demonstration.figures:
                target = folder / f"{report.lecture}-{figure.key}.png"
                _move_into(target, _draw(demonstration.key, figure, words, "png", "black"))
                written.append(target)
    except OSError as error:
        raise LectureError(f"plots folder {str(folder)!r} cannot be written: {error.strerror}") from error
    return written


def _move_into(target: Path, content: bytes) -> None:
    """Write a file beside its place and move it there, so that an interruption leaves what was there before."""
    with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".part", delete=False) as part:
        part.write(content)
    try:
        Path(part.name).replace(target)
    except OSError:
        Path(part.name).unlink()
        raise


def inline_svg(demonstration: str, figure: Figure, words: Catalogue) -> str:
    """A figure as one line of HTML whose text takes the page's own colour, in light and in dark."""
    svg = _draw(demonstration, figure, words, "svg", _INK).decode()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    title = words.text(demonstration, "figures", figure.key, "title")
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{_escape(title)}"', 1)
    svg = re.sub(r"\s*\n\s*", " ", svg).strip()
    return f'<figure class="plot">{svg}<figcaption>{_escape(title)}</figcaption></figure>'


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def _draw(demonstration: str, figure: Figure, words: Catalogue, form: str, ink: str) -> bytes:
    try:
        import matplotlib
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise LectureError("plots need matplotlib: pip install 'numfmt-lectures[plot]'") from error
    # An SVG's text is text: the reader's browser has the fonts that this machine may lack.
    if form != "svg" and not legible(words):
        words = load(words.lecture, "en")
    look: dict[str, Any] = {
        "font.family": [*_installed(words.language), "DejaVu Sans"],
        "svg.fonttype": "none" if form == "svg" else "path",
        "svg.hashsalt": figure.key,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "grid.color": ink,
        "legend.framealpha": 0.0,
        **{f"{name}.color": ink for name in ("text", "xtick", "ytick")},
        **{f"axes.{name}color": ink for name in ("edge", "label")},
    }
    with matplotlib.rc_context(look):
        rows = (len(figure.series) + 1) // 2 if len(figure.series) > 3 else 1
        canvas = Canvas(figsize=(7.2, 4.0 + 0.2 * rows), layout="constrained")
        canvas.patch.set_alpha(0.0 if form == "svg" else 1.0)
        axes = canvas.subplots()
        axes.patch.set_alpha(0.0)
        _plot(axes, figure, words)
        path = (demonstration, "figures", figure.key)
        axes.set_xlabel(words.text(*path, "x"))
        axes.set_ylabel(words.text(*path, "y"))
        if form == "png":
            axes.set_title(words.text(*path, "title"))
        if len(figure.series) > 1:
            # Below the axes, where no data can lie.
            canvas.legend(loc="outside lower center", ncols=2 if len(figure.series) > 3 else 3, fontsize="small")
        drawn = io.BytesIO()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font", UserWarning)
            canvas.savefig(drawn, format=form, dpi=150, metadata={"Date": None} if form == "svg" else None)
    return drawn.getvalue()


def _plot(axes: Any, figure: Figure, words: Catalogue) -> None:
    for number, series in enumerate(figure.series):
        label = words.label(series.label)
        turn = number if series.colour is None else series.colour
        colour = _COLOURS[turn % len(_COLOURS)]
        if figure.kind == "bars":
            share = 0.8 / len(figure.series)
            places = [i + (number - (len(figure.series) - 1) / 2) * share for i in range(len(series.x))]
            axes.bar(places, series.y, share, label=label, color=colour)
            if not number:
                axes.set_xticks(
                    range(len(series.x)),
                    [words.label(x) if isinstance(x, (Label, str)) else str(x) for x in series.x],
                    rotation=20,
                )
        else:
            joined = "--" if series.dashed else "-"
            style = {"color": colour, "linestyle": "" if figure.kind == "scatter" else joined}
            marker = None if figure.kind == "line" else _MARKERS[turn % len(_MARKERS)]
            axes.plot(series.x, series.y, label=label, marker=marker, markersize=4, **style)
    for axis, scale in zip((axes.set_xscale, axes.set_yscale), figure.scales, strict=True):
        if scale != "linear":
            axis("log", base=2 if scale == "log2" else 10)


def _installed(language: str) -> list[str]:
    """The fonts for a language's script that this machine has; matplotlib's own serves every other script."""
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return [name for name in _FONTS.get(language, []) if name in installed]


def legible(words: Catalogue) -> bool:
    """Whether this machine has a font for the script of a catalogue's language."""
    return words.language not in _FONTS or bool(_installed(words.language))
