"""Plots of error reports: how large errors are, and how they depend on the condition of the output."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from tritongemm.auditing.document import Plot, Series
from tritongemm.matrices import DTYPES

if TYPE_CHECKING:  # accuracy draws with this module
    from tritongemm.accuracy import ErrorReport

_U = DTYPES["fp32"].unit_roundoff


def error_histogram(
    reports: Mapping[str, ErrorReport],
    labels: Mapping[str, str],
    colours: Mapping[str, int],
    dashed: Collection[str] = (),
) -> Plot:
    """Per cent of the outputs by size of error.

    Args:
        reports: Reports of results of one type, by key.
        labels: What the legend calls them.
        colours: Their colours.
        dashed: Those that are drawn dashed.
    """
    series = []
    for key, r in reports.items():
        counts = r.histogram["counts"]
        filled = [i for i, n in enumerate(counts) if n]
        if not filled:
            continue
        low, per = r.histogram["lowest"], r.histogram["per_octave"]
        x: list[float] = []
        y: list[float] = []
        for i in range(filled[0], filled[-1] + 1):
            x += [low + i / per, low + (i + 1) / per]
            y += [100 * counts[i] / max(1, r.outputs)] * 2
        x, y = [x[0], *x, x[-1]], [0.0, *y, 0.0]
        series.append(Series(labels[key], x, y, "dashed" if key in dashed else "line", colours[key]))
    narrow = any(r.dtype != "fp32" for r in reports.values())
    return Plot(
        "How large the errors are",
        f"|error| in units of {'u_out·|result| + u·sum|p|' if narrow else 'u·sum|p|'}",
        "per cent of the outputs",
        series,
        2,
        None,
        "Left is better: each step is half an octave of error; curves of the same order of summation coincide.",
    )


def errors_by_kappa(reports: Mapping[str, ErrorReport], labels: Mapping[str, str], colours: Mapping[str, int]) -> Plot:
    """Relative errors and their a-priori bounds by condition number.

    Args:
        reports: Reports by key.
        labels: What the legend calls them.
        colours: Their colours.
    """
    series = []
    narrow = ""
    for key, r in reports.items():
        edges = r.by_kappa["log10_kappa"]
        centres = [x + r.by_kappa["width"][0] / 2 for x in edges]
        for name, values, style in (("rms", r.by_kappa["rms"], "line"), ("largest", r.by_kappa["max"], "dots")):
            known = [(x, math.log10(v * _U)) for x, v in zip(centres, values, strict=True) if v > 0]
            x, y = [x for x, _ in known], [y for _, y in known]
            series.append(Series(f"{labels[key]}: {name}", x, y, style, colours[key]))
        if centres and r.relative_bound > 0:
            # Rounding to a narrow type adds its own, whatever kappa.
            out = 0.0 if r.dtype == "fp32" else DTYPES[r.dtype].unit_roundoff
            kappas = [edges[0], *centres, edges[-1] + r.by_kappa["width"][0]]
            bound = [math.log10(10**x * r.relative_bound * (1 + out) + out) for x in kappas]
            series.append(Series(f"{labels[key]}: a-priori bound", kappas, bound, "dashed", colours[key]))
        narrow = narrow if r.dtype == "fp32" else r.dtype
    return Plot(
        "Errors against the condition of the output",
        "kappa = sum|p| / |sum p|",
        "|error| / |result|",
        series,
        10,
        10,
        "Whoever adds, the relative error grows with kappa; how far below its bound a kernel stays is its own doing."
        + (f" Where kappa is small, the rounding to {narrow} is what is seen." if narrow else ""),
    )
