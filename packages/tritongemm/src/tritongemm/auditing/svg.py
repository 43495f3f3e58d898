"""Plots as inline SVG: no library, no script, nothing loaded; colours follow the page's light or dark theme."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape

from tritongemm.auditing.document import Plot, Series

_WIDTH, _HEIGHT = 760, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 16, 14, 52
_MOST_TICKS = 9


def svg(plot: Plot) -> str:
    """A plot as a legend and an `<svg>` element.

    Args:
        plot: What to draw.

    Returns:
        The elements; every text in it is escaped.
    """
    points = [
        (x, y) for s in plot.series for x, y in zip(s.x, s.y, strict=True) if math.isfinite(x) and math.isfinite(y)
    ]
    if not points:
        return f"<p>{escape(plot.title)}: nothing to show.</p>"
    x_low, x_high = _padded([p[0] for p in points], whole=True)
    y_low, y_high = _padded([p[1] for p in points], whole=plot.y_base is not None)
    if plot.y_base is None:
        y_low = min(0.0, min(p[1] for p in points))

    def across(x: float) -> float:
        return _LEFT + (x - x_low) / (x_high - x_low) * (_WIDTH - _LEFT - _RIGHT)

    def up(y: float) -> float:
        return _HEIGHT - _BOTTOM - (y - y_low) / (y_high - y_low) * (_HEIGHT - _TOP - _BOTTOM)

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(plot.title, quote=True)}">']
    for tick in _ticks(x_low, x_high, whole=True):
        x = across(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{_HEIGHT - _BOTTOM}"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{_label(tick, plot.x_base)}</text>'
        )
    for tick in _ticks(y_low, y_high, whole=plot.y_base is not None):
        y = up(tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_label(tick, plot.y_base)}</text>')
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    parts.append(
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(plot.x_name)}</text>'
    )
    turned = f'text-anchor="middle" transform="rotate(-90 16 {middle})"'
    parts.append(f'<text x="16" y="{middle}" {turned}>{escape(plot.y_name)}</text>')
    parts += [_curve(s, across, up) for s in reversed(plot.series)]  # The first series lies on top.
    parts.append("</svg>")
    legend = "".join(
        f'<span class="key c{s.colour}"><i class="{escape(s.style)}"></i>{escape(s.name)}</span>' for s in plot.series
    )
    return f'<div class="legend">{legend}</div><div class="plot" tabindex="0">{"".join(parts)}</div>'


def _padded(values: list[float], *, whole: bool) -> tuple[float, float]:
    """The range of an axis; one of exponents holds two whole ones at least, for its ticks."""
    low, high = min(values), max(values)
    room = 0.04 * (high - low) or 0.5
    low, high = low - room, high + room
    if whole and math.floor(high) - math.ceil(low) < 1:
        low, high = math.floor(low), math.ceil(high)
    return low, high


def _ticks(low: float, high: float, *, whole: bool) -> list[float]:
    """Round numbers in a range, whole ones for exponents."""
    rough = (high - low) / _MOST_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s for s in (power, 2 * power, 5 * power, 10 * power) if s >= rough)
    if whole:
        step = max(1, math.ceil(step))
    first = math.ceil(low / step)
    return [i * step for i in range(first, math.floor(high / step) + 1)]


def _label(tick: float, base: int | None) -> str:
    if base is None:
        return f"{tick:g}"
    if tick in (0, 1):
        return str(base ** int(tick))
    return f'{base}<tspan dy="-5" font-size="9">{"−" if tick < 0 else ""}{abs(tick):g}</tspan>'


def _curve(s: Series, across: Callable[[float], float], up: Callable[[float], float]) -> str:
    at = [(across(x), up(y)) for x, y in zip(s.x, s.y, strict=True) if math.isfinite(x) and math.isfinite(y)]
    if s.style == "dots":
        return "".join(f'<circle class="c{s.colour}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in at)
    path = "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in at)
    return f'<path class="{s.style} c{s.colour}" d="{path}"/>'
