"""Pictures of formats: where the values lie, how far apart they are, what rounding does to a sweep, where sums stop.

Every function draws into an axes and returns it, so that pictures can be combined. Needs matplotlib
(``pip install 'numfmt-sim[plot]'``), which is imported on the first call.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from numfmt._errors import not_a_format
from numfmt.elements import FixedFormat, TableFormat
from numfmt.families import lookup
from numfmt.formats import FloatFormat

__all__ = ["PLOTS", "error", "save", "spacing", "stagnation", "values"]

# Ticks of an axis at most, and the widest formats whose values are drawn one by one.
_TICKS = 12
_VALUES_BITS = 16


def _axes(axes: Any) -> Any:
    """The axes given, or those of a new figure that no window shows."""
    if axes is not None:
        return axes
    try:
        figure = importlib.import_module("matplotlib.figure")
    except ImportError:
        raise ImportError("plots need matplotlib; install it with: pip install 'numfmt-sim[plot]'") from None
    return figure.Figure(figsize=(8, 4.5), layout="constrained").add_subplot()


def _formats(formats: Any, floating: bool = True) -> list[Any]:
    """The formats that a user gave, some of them perhaps by name."""
    if isinstance(formats, str) or not isinstance(formats, Iterable):
        raise TypeError(f"formats must be a list, got {formats!r}; write [{formats!r}]")
    found = [lookup(fmt) if isinstance(fmt, str) else fmt for fmt in formats]
    kinds = (FloatFormat,) if floating else (FloatFormat, FixedFormat, TableFormat)
    for fmt in found:
        if not isinstance(fmt, kinds):
            raise TypeError(not_a_format("formats", fmt))
    if not found:
        raise ValueError("formats is empty; give at least one")
    return found


def _logarithmic(ax: Any, low: float, high: float) -> None:
    """A logarithmic x axis with round powers of two as ticks, at most a dozen of them."""
    first, last = int(np.floor(np.log2(low))), int(np.ceil(np.log2(high)))
    step = 1
    while (last - first) / step > _TICKS:
        step *= 2
    exponents = range(-(-first // step) * step, last + 1, step)
    ax.set_xscale("log", base=2)
    ax.set_xticks([2.0**e for e in exponents], [f"$2^{{{e}}}$" for e in exponents])
    ax.minorticks_off()
    ax.grid(axis="x", alpha=0.3)


def values(formats: Sequence[Any], axes: Any = None) -> Any:
    """The positive values of formats as ticks on a logarithmic line, one row a format, the first on top.

    Args:
        formats: Formats of at most 16 bits: floating-point, integers or tables; or their names.
        axes: Matplotlib axes; None makes a figure.

    Returns:
        The axes.

    Raises:
        ValueError: For wider formats.
        ImportError: Without matplotlib.
    """
    formats = _formats(formats, floating=False)
    wide = [fmt.name for fmt in formats if fmt.bits > _VALUES_BITS]
    if wide:
        raise ValueError(f"{wide[0]} has too many values to draw; values takes formats of up to {_VALUES_BITS} bits")
    ax = _axes(axes)
    ends = []
    for row, fmt in enumerate(formats):
        numbers = fmt.finite_values()
        numbers = numbers[numbers > 0]
        ends += [float(numbers.min()), float(numbers.max())]
        ax.plot(numbers, np.full(numbers.size, row), "|", markersize=14, markeredgewidth=0.8)
    _logarithmic(ax, min(ends), max(ends))
    ax.set_yticks(range(len(formats)), [fmt.name for fmt in formats])
    ax.set_ylim(len(formats) - 0.3, -0.7)
    ax.set_xlabel("value")
    ax.set_title("Positive values")
    return ax


def spacing(formats: Sequence[FloatFormat | str], axes: Any = None) -> Any:
    """Relative distance between neighbouring values, ulp(x) / x, over the whole range of each format.

    Within a binade it falls by half: the line is its largest value, at the powers of two, and the band below goes down
    to the smallest.

    Args:
        formats: Formats of any width, or their names.
        axes: Matplotlib axes; None makes a figure.

    Returns:
        The axes.
    """
    formats = _formats(formats)
    ax = _axes(axes)
    low, high = [], []
    for fmt in formats:
        exponents = np.arange(fmt.emin - fmt.mantissa_bits if fmt.subnormals else fmt.emin, fmt.emax + 1)
        binades = np.ldexp(1.0, exponents)
        largest = np.asarray(fmt.ulp(binades)) / binades
        ends = np.append(binades, 2 * binades[-1])
        low.append(ends[0])
        high.append(ends[-1])
        (line,) = ax.step(ends, np.append(largest, largest[-1]), where="post", label=fmt.name, linewidth=1.4)
        # Where every binade has one value, there is nothing below the line.
        smallest = np.where(largest < 1, largest / 2, largest)
        band = {"step": "post", "alpha": 0.25, "linewidth": 0, "color": line.get_color()}
        ax.fill_between(ends, np.append(smallest, smallest[-1]), np.append(largest, largest[-1]), **band)
    _logarithmic(ax, min(low), max(high))
    ax.set_yscale("log", base=2)
    ax.set_xlabel("x")
    ax.set_ylabel("ulp(x) / x")
    ax.set_title("Relative distance between neighbouring values")
    ax.legend()
    return ax


def error(
    formats: Sequence[FloatFormat | str],
    rounding: str = "nearest_even",
    axes: Any = None,
    low: float = 0.5,
    high: float = 4.0,
) -> Any:
    """Relative error of rounding a sweep of numbers.

    Args:
        formats: Formats, or their names.
        rounding: Rounding mode; stochastic modes use the seed 0.
        axes: Matplotlib axes; None makes a figure.
        low: Smallest number.
        high: Largest number.

    Returns:
        The axes.
    """
    formats = _formats(formats)
    ax = _axes(axes)
    x = np.geomspace(low, high, 4001)
    for fmt in formats:
        ax.plot(x, (np.asarray(fmt.round(x, rounding, rng=0)) - x) / x, linewidth=0.8, label=fmt.name)
    _logarithmic(ax, low, high)
    ax.axhline(0, color="0.5", linewidth=0.6)
    ax.set_xlabel("x")
    ax.set_ylabel("(round(x) - x) / x")
    ax.set_title(f"Relative error of rounding, {rounding}")
    ax.legend()
    return ax


def stagnation(
    formats: Sequence[FloatFormat | str],
    rounding: str = "nearest_even",
    axes: Any = None,
    term: float = 0.01,
    count: int = 10**4,
) -> Any:
    """Running sums of one small term: where adding it no longer changes the sum.

    Args:
        formats: Formats of the running sum, or their names.
        rounding: Rounding mode of every addition; stochastic modes use the seed 0.
        axes: Matplotlib axes; None makes a figure.
        term: The term.
        count: How often it is added.

    Returns:
        The axes.
    """
    from numfmt.sums import Accumulator

    formats = _formats(formats)
    ax = _axes(axes)
    steps = np.unique(np.linspace(0, count, 400).astype(int))
    for fmt in formats:
        adder = Accumulator(1, fmt, rounding=rounding, seed=0)
        totals = [0.0]
        for start, stop in itertools.pairwise(steps):
            adder.add(np.full((1, stop - start), term))
            totals.append(float(adder.total()[0]))
        ax.plot(steps, totals, label=f"{fmt.name}: {totals[-1]:.5g}")
    ax.plot(steps, steps * term, ":", color="0.5", label=f"exact: {count * term:.5g}")
    ax.set_xlabel("terms")
    ax.set_ylabel("running sum")
    ax.set_title(f"Adding {term:g} again and again, {rounding}")
    ax.legend()
    return ax


#: The pictures by name.
PLOTS: dict[str, Callable[..., Any]] = {
    "values": values,
    "spacing": spacing,
    "error": error,
    "stagnation": stagnation,
}


def save(axes: Any, path: str | Path) -> Path:
    """Save the figure of an axes; the file appears complete or not at all.

    Args:
        axes: Axes of one of the functions above.
        path: File name; its ending chooses the type (png, svg, pdf).

    Returns:
        The path.

    Raises:
        ValueError: For an ending that matplotlib does not know.
    """
    target = Path(path)
    kind = target.suffix.removeprefix(".") or "png"
    temporary = target.with_name(f".{target.name}.partial")
    try:
        axes.figure.savefig(temporary, format=kind, dpi=150)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return target
