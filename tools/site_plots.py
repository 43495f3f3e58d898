"""Plots for the site's pages, without scripts and without a plotting library: bars in a table, curves as SVG.

Text takes the page's colour and series take classes of the style sheet, so that both colour schemes suit; a plot is as
narrow as a phone, and bars are a table that a screen reader reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 10, 44


@dataclass(frozen=True)
class Curve:
    """A series of a plot.

    Attributes:
        name: its entry in the legend.
        points: x and y; NaN and infinities are left out.
        colour: which colour of the style sheet, from 0.
        style: "line", "dashed", "dots" or "steps" (the outline of a histogram whose x are left edges).
    """

    name: str
    points: Sequence[tuple[float, float]]
    colour: int = 0
    style: str = "line"


def figure(value: float | None, digits: int = 3) -> str:
    """A number for a table: whole ones with thousands separated, others with so many significant digits."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or value == 0:
        return f"{int(value):,}"
    if not math.isfinite(value):
        return str(value)
    exponent = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if -4 <= exponent < 6:
        return f"{value:,.{max(0, digits - 1 - exponent)}f}"
    mantissa = value / 10.0**exponent
    return f"{mantissa:.{digits - 1}f}·10{superscript(exponent)}"


def superscript(number: int) -> str:
    """A whole number in raised digits."""
    return str(number).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def bars(caption: str, rows: Iterable[tuple[str, float, str]], marked: Iterable[str] = ()) -> str:
    """A bar chart as an HTML table.

    Args:
        caption: what the bars show, and in which unit.
        rows: name, length from 0 on, and the text beside the bar.
        marked: names whose bars are set apart (the peer that others are measured by).

    Returns:
        One line of HTML.
    """
    rows, marked = list(rows), set(marked)
    longest = max((length for _, length, _ in rows if math.isfinite(length)), default=0.0) or 1.0
    lines = []
    for name, length, text in rows:
        kind = ' class="marked"' if name in marked else ""
        share = 100 * length / longest if math.isfinite(length) else 0.0
        bar = f'<span class="bar" style="width:{share:.1f}%"></span>'
        lines.append(
            f'<tr{kind}><th scope="row">{escape(name)}</th><td class="track">{bar}</td><td>{escape(text)}</td></tr>'
        )
    return f'<table class="bars"><caption>{escape(caption)}</caption><tbody>{"".join(lines)}</tbody></table>'


def ticks(low: float, high: float, log: int = 0, most: int = 6) -> list[float]:
    """Places for an axis' labels between its ends: whole powers on a logarithmic axis (given as exponents)."""
    span = high - low
    if log:
        step = max(1, math.ceil(span / most))
    else:
        step = 10.0 ** math.floor(math.log10(span / most))
        step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= most)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [step * i for i in range(first, last + 1)]


def plot(title: str, x_label: str, y_label: str, curves: Sequence[Curve], *, x_log: int = 0, y_log: int = 0) -> str:
    """Curves on two axes, as an HTML figure with inline SVG.

    Args:
        title: the figure's caption.
        x_label: what lies along x.
        y_label: what lies along y.
        curves: the series, whose x and y are logarithms to the axis' base where that is given.
        x_log: base of a logarithmic x axis, 0 for a linear one.
        y_log: the same of the y axis.

    Returns:
        One line of HTML.

    Raises:
        ValueError: no curve has a finite point.
    """
    known = [(curve, [(x, y) for x, y in curve.points if math.isfinite(x) and math.isfinite(y)]) for curve in curves]
    every = [point for _, points in known for point in points]
    if not every:
        raise ValueError(f"the plot {title!r} has no finite point")
    (x0, x1), (y0, y1) = (_ends([point[axis] for point in every]) for axis in (0, 1))
    if not y_log:
        y0 = min(0.0, y0)

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + (WIDTH - LEFT - RIGHT) * (x - x0) / (x1 - x0),
            HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (y - y0) / (y1 - y0),
        )

    label = escape(f"{title}: {y_label} against {x_label}")
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">']
    for at in ticks(x0, x1, x_log):
        x, bottom = place(at, y0)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom:.1f}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 15:.1f}" text-anchor="middle">{_label(at, x_log)}</text>')
    for at in ticks(y0, y1, y_log):
        left, y = place(x0, at)
        parts.append(f'<line class="grid" x1="{left:.1f}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{left - 5:.1f}" y="{y + 4:.1f}" text-anchor="end">{_label(at, y_log)}</text>')
    for curve, points in known:
        parts.append(_curve(curve, [place(x, y) for x, y in points]))
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>'
    )
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="rotate(-90 13 {middle})"'
    parts.append(f'<text x="13" y="{middle}" text-anchor="middle" {turned}>{escape(y_label)}</text></svg>')
    legend = "".join(
        f'<span class="key {curve.style} series-{curve.colour}">{escape(curve.name)}</span>'
        for curve, points in known
        if points
    )
    return (
        f'<figure class="plot curves">{"".join(parts)}<div class="legend">{legend}</div>'
        f"<figcaption>{escape(title)}</figcaption></figure>"
    )


def _ends(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _label(at: float, log: int) -> str:
    if log:
        return f"{log}{superscript(round(at))}"
    text = figure(at)
    return text.rstrip("0").rstrip(".") if "." in text and "·" not in text else text


def _curve(curve: Curve, places: list[tuple[float, float]]) -> str:
    kind = f"series-{curve.colour}"
    if curve.style == "dots":
        return "".join(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="2.2"/>' for x, y in places)
    if curve.style == "steps":
        bottom = HEIGHT - BOTTOM
        corners = [(places[0][0], bottom)] if places else []
        for i, (x, y) in enumerate(places):
            right = places[i + 1][0] if i + 1 < len(places) else x
            corners += [(x, y), (right, y)]
        places = [*corners, (corners[-1][0], bottom)] if corners else []
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline class="{kind} {curve.style}" points="{path}"/>' if places else ""
