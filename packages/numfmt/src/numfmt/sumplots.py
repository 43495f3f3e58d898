"""Pictures of simulated sums: error against the number of terms, next to the bounds.

Drawn from the rows of a study (`numfmt.study`), or from sums simulated on the spot. Needs matplotlib
(``pip install 'numfmt-sim[plot]'``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from numfmt._errors import unknown_name
from numfmt._progress import track
from numfmt.formats import FloatFormat
from numfmt.plots import _axes
from numfmt.study import Data, Study, run_cell

__all__ = ["FIGURES", "error_against_terms", "error_growth"]

#: Figures of a study's rows that can be drawn against the number of terms, with their axis labels.
FIGURES: dict[str, str] = {
    "units_rms": "rms error / (u·sum|p|)",
    "units_max": "largest error / (u·sum|p|)",
    "ulps_rms": "rms error / ulp",
    "ulps_max": "largest error / ulp",
    "norm_error": "norm of errors / norm of sums",
}

# A legend of more lines than these would hide some of them: it goes beside the picture.
_INSIDE = 4


def error_against_terms(
    rows: Sequence[dict[str, Any]], figure: str = "units_rms", axes: Any = None, bounds: bool = True
) -> Any:
    """Error of simulated sums against their number of terms, one line per format, method, mode and promotion interval.

    Args:
        rows: Rows of `Study.results`; rows of several seeds are averaged (root mean square).
        figure: A name of `FIGURES`.
        axes: Matplotlib axes; None makes a figure.
        bounds: Draw the probabilistic bounds dotted, where the figure is in units of u·sum|p|.

    Returns:
        The axes.

    Raises:
        ValueError: For an unknown figure and for rows without results.
        ImportError: Without matplotlib.
    """
    if figure not in FIGURES:
        raise ValueError(unknown_name("figure", figure, FIGURES))
    lines: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for row in rows:
        value = row.get(figure)
        if value is None:
            continue
        parts = [row["format"], row["method"], *(f"{k} {v}" for k, v in row["parameters"].items())]
        parts += [row["rounding"]] if row["rounding"] != "nearest_even" else []
        parts += [f"promoted every {row['chunk']}"] if row["chunk"] else []
        bound = row.get("probable_bound_median")
        pair = (value, np.nan if bound is None else bound)
        lines.setdefault(", ".join(parts), {}).setdefault(row["terms"], []).append(pair)
    if not lines:
        raise ValueError(f"rows hold no {figure}; give the rows of a study that has run")
    ax = _axes(axes)
    for label, points in lines.items():
        terms = sorted(points)
        pairs = [np.array(points[k]) for k in terms]
        (drawn,) = ax.plot(terms, [np.sqrt(np.mean(p[:, 0] ** 2)) for p in pairs], "o-", markersize=3, label=label)
        if bounds and figure.startswith("units"):
            ax.plot(terms, [np.median(p[:, 1]) for p in pairs], ":", color=drawn.get_color(), linewidth=0.9)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xlabel("terms K")
    ax.set_ylabel(FIGURES[figure])
    ax.set_title(
        "Error of simulated sums" + (" (dotted: probabilistic bounds)" if bounds and "units" in figure else "")
    )
    if len(lines) > _INSIDE:
        ax.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    else:
        ax.legend(fontsize="small")
    return ax


def error_growth(
    formats: Sequence[FloatFormat | str],
    methods: Sequence[str] = ("sequential", "pairwise", "kahan"),
    terms: Sequence[int] = (16, 64, 256, 1024, 4096),
    data: Data | None = None,
    rows: int = 64,
    axes: Any = None,
) -> Any:
    """The same picture from sums simulated on the spot.

    Args:
        formats: Accumulator formats, or their names.
        methods: Methods of `numfmt.accumulate`.
        terms: Numbers of terms.
        data: What is summed; None is standard normal numbers.
        rows: Sums per point.
        axes: Matplotlib axes; None makes a figure.

    Returns:
        The axes.
    """
    study = Study(formats, methods, terms, rows=rows, data=data or Data())
    found = []
    for cell in track(study.cells(), label="sums"):
        figures = run_cell(cell)
        found.append({**cell, "format": cell["format"]["name"], **figures})
    return error_against_terms(found, axes=axes)
