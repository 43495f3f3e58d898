"""How far computed sums are from the exact ones: in ulps, in u·sum|p|, against condition numbers and bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from numfmt._errors import not_a_format
from numfmt._inputs import as_carrier, normal_axis
from numfmt._random import Seed
from numfmt.bounds import dot_bound, error_bound
from numfmt.exact import exact_dot, exact_sum, ratio_of_sums
from numfmt.formats import FloatFormat
from numfmt.linalg import dot
from numfmt.rounding import RoundingMode
from numfmt.sums import accumulate

Float64Array = NDArray[np.float64]

# Keyword arguments of a simulation that its bound takes as well.
_OF_BOUNDS = ("promote_to", "fan_in", "block", "lanes")
QUANTILES = (0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class ErrorReport:
    """Errors of computed sums; every array has the shape of the sums.

    Attributes:
        fmt: The format whose unit roundoff and ulp are the units.
        computed: The computed sums.
        exact: The exact sums, correctly rounded to float64.
        error: computed - exact, correctly rounded from exact values.
        magnitude: sum|p|, correctly rounded.
        kappa: Condition numbers sum|p| / |sum p|.
        bound: Deterministic a-priori bound on |error|, or None.
        probable_bound: Probabilistic a-priori bound, or None.
    """

    fmt: FloatFormat
    computed: Float64Array
    exact: Float64Array
    error: Float64Array
    magnitude: Float64Array
    kappa: Float64Array
    bound: Float64Array | None = None
    probable_bound: Float64Array | None = None

    @property
    def units(self) -> Float64Array:
        """Errors in units of u·sum|p|: what a backward stable sum keeps small whatever the cancellation."""
        with np.errstate(invalid="ignore", divide="ignore"):
            scaled = self.error / (self.fmt.unit_roundoff * self.magnitude)
        return np.where(self.error == 0, 0.0, scaled)

    @property
    def ulps(self) -> Float64Array:
        """Errors in units in the last place of the format at the exact sum."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.error / self.fmt.ulp(self.exact))

    def summary(self) -> dict[str, Any]:
        """Figures of all sums together, ready for JSON.

        Returns:
            count; for `units` and `ulps`: rms, max, mean (the bias) and quantiles of the absolute value; quantiles of
            kappa; for each bound: the largest share of it that an error uses, and how many errors exceed it.
        """
        figures: dict[str, Any] = {"format": self.fmt.name, "count": int(self.error.size)}
        if not self.error.size:
            return figures
        for name, values in (("units", self.units), ("ulps", self.ulps)):
            finite = values[np.isfinite(values)]
            if not finite.size:
                continue
            size = np.abs(finite)
            figures[name] = {
                "rms": float(np.sqrt(np.mean(size**2))),
                "max": float(size.max()),
                "mean": float(finite.mean()),
                "not_finite": int(values.size - finite.size),
                "quantiles": {str(q): float(np.quantile(size, q)) for q in QUANTILES},
            }
        figures["kappa"] = {str(q): float(np.quantile(self.kappa, q, method="higher")) for q in QUANTILES}
        for name, bound in (("bound", self.bound), ("probable_bound", self.probable_bound)):
            if bound is None:
                continue
            scale = self.fmt.unit_roundoff * self.magnitude
            counted = scale > 0
            with np.errstate(invalid="ignore", divide="ignore"):
                used = np.where(self.error == 0, 0.0, np.abs(self.error) / bound)
            figures[name] = {
                "max_used": float(np.nanmax(used)) if not np.isnan(used).all() else None,
                "exceeded": int((np.abs(self.error) > bound).sum()),
                "median_units": float(np.median(bound[counted] / scale[counted])) if counted.any() else 0.0,
            }
        return figures

    def __str__(self) -> str:
        figures = self.summary()
        lines = [f"{figures['count']} sums against exact ones, u = {self.fmt.unit_roundoff:.3g} ({self.fmt.name})"]
        for name, title in (("units", "error / (u·sum|p|)"), ("ulps", "error / ulp")):
            if name in figures:
                f = figures[name]
                lines.append(f"{title:<20} rms {f['rms']:<10.4g} max {f['max']:<10.4g} mean {f['mean']:<+10.3g}")
        if "kappa" in figures:
            lines.append(f"{'kappa':<20} median {figures['kappa']['0.5']:<7.4g} max {figures['kappa']['1.0']:<10.4g}")
        for name, title in (("bound", "a-priori bound"), ("probable_bound", "probabilistic bound")):
            if name in figures:
                f = figures[name]
                used = "unknown" if f["max_used"] is None else f"{f['max_used']:.3g}"
                lines.append(
                    f"{title:<20} {f['median_units']:.4g} u·sum|p|; largest share used {used}; exceeded {f['exceeded']}"
                )
        return "\n".join(lines)


def error_report(
    computed: ArrayLike,
    values: ArrayLike,
    fmt: FloatFormat,
    *,
    axis: int = -1,
    bound: ArrayLike | None = None,
    probable_bound: ArrayLike | None = None,
) -> ErrorReport:
    """The errors of sums that something computed, a simulation or a kernel.

    Args:
        computed: The sums.
        values: Their terms; for dot products the exact products.
        fmt: Format that sets the units.
        axis: The axis of values that was summed.
        bound: Bounds on the absolute errors, if known.
        probable_bound: Probabilistic ones.

    Returns:
        The report; its errors are exact up to one final rounding to float64.

    Raises:
        ValueError: If computed does not have values' shape without the axis.
        TypeError: For arrays that hold no real numbers, and for something that is no format.
    """
    if not isinstance(fmt, FloatFormat):
        raise TypeError(not_a_format("fmt", fmt))
    sums, terms = as_carrier(computed, "computed"), as_carrier(values, "values")
    axis = normal_axis(axis, terms.ndim, "values")
    shape = terms.shape[:axis] + terms.shape[axis + 1 :]
    if sums.shape != shape:
        raise ValueError(f"computed must have values' shape without axis {axis}, {shape}, got {sums.shape}")
    finite = np.isfinite(sums)
    opposite = np.expand_dims(np.where(finite, -sums, 0.0), axis)
    error = -exact_sum(np.concatenate([terms, opposite], axis=axis), axis) + 0.0
    exact = exact_sum(terms, axis)
    with np.errstate(invalid="ignore"):
        error = np.where(finite, error, sums - exact)
    magnitude = exact_sum(np.abs(terms), axis)
    return ErrorReport(
        fmt=fmt,
        computed=sums,
        exact=exact,
        error=error,
        magnitude=magnitude,
        kappa=ratio_of_sums(magnitude, exact),
        bound=None if bound is None else as_carrier(bound, "bound"),
        probable_bound=None if probable_bound is None else as_carrier(probable_bound, "probable_bound"),
    )


def sum_report(
    values: ArrayLike,
    fmt: FloatFormat,
    rounding: str | RoundingMode = "nearest_even",
    method: str = "sequential",
    chunk: int | None = None,
    seed: Seed = None,
    *,
    axis: int = -1,
    confidence: float = 0.99,
    **options: Any,
) -> ErrorReport:
    """Simulate sums and report their errors next to both a-priori bounds.

    Args:
        values: Terms, and the other arguments as for `accumulate`.
        fmt: Format of every partial sum.
        rounding: Rounding mode.
        method: Summation order.
        chunk: Promotion interval.
        seed: For stochastic rounding.
        axis: The axis that is summed.
        confidence: Of the probabilistic bound.
        **options: Further keyword arguments of `accumulate`.

    Returns:
        The report.
    """
    computed = accumulate(values, fmt, rounding, method, chunk, seed, axis=axis, **options)
    shared = {k: v for k, v in options.items() if k in _OF_BOUNDS}
    bounds = [
        error_bound(values, fmt, rounding, method, chunk, confidence=level, axis=axis, **shared)
        for level in (None, confidence)
    ]
    return error_report(computed, values, fmt, axis=axis, bound=bounds[0], probable_bound=bounds[1])


def dot_report(
    a: ArrayLike,
    b: ArrayLike,
    fmt: FloatFormat,
    rounding: str | RoundingMode = "nearest_even",
    method: str = "sequential",
    chunk: int | None = None,
    seed: Seed = None,
    *,
    product: str = "rounded",
    axis: int = -1,
    confidence: float = 0.99,
    **options: Any,
) -> ErrorReport:
    """Simulate dot products and report their errors next to both a-priori bounds.

    Args:
        a: Factors, and the other arguments as for `numfmt.dot`. For a matrix product give `a[:, None, :]` and
            `b.T[None]`.
        b: The other factors.
        fmt: Format of every product and partial sum.
        rounding: Rounding mode.
        method: Summation order.
        chunk: Promotion interval.
        seed: For stochastic rounding.
        product: What happens to products.
        axis: The axis that is summed.
        confidence: Of the probabilistic bound.
        **options: Further keyword arguments of `numfmt.dot`.

    Returns:
        The report, against the exact sums of the exact products.
    """
    x, y = as_carrier(a, "a"), as_carrier(b, "b")
    computed = dot(x, y, fmt, rounding, method, chunk, seed, product=product, axis=axis, **options)
    shared = {k: v for k, v in options.items() if k in _OF_BOUNDS}
    bound, probable = (
        dot_bound(x, y, fmt, rounding, method, chunk, product=product, confidence=level, axis=axis, **shared)
        for level in (None, confidence)
    )
    exact = exact_dot(x, y, axis)
    # One more product, -computed·1, makes the error itself an exact dot product.
    shape = np.broadcast_shapes(x.shape, y.shape)
    place = normal_axis(axis, len(shape), "a and b")
    finite = np.isfinite(computed)
    opposite = np.expand_dims(np.where(finite, -computed, 0.0), place)
    x, y = (np.broadcast_to(v, shape) for v in (x, y))
    more_x, more_y = np.concatenate([x, opposite], place), np.concatenate([y, np.ones_like(opposite)], place)
    with np.errstate(invalid="ignore"):
        error = np.where(finite, -exact_dot(more_x, more_y, place) + 0.0, computed - exact)
        magnitude = exact_dot(np.abs(x), np.abs(y), place)
    return ErrorReport(fmt, computed, exact, error, magnitude, ratio_of_sums(magnitude, exact), bound, probable)
