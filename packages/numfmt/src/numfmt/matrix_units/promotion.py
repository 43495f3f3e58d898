"""`choose_promotion`: the longest promotion interval whose error the user's own data can bear."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from numfmt._errors import unknown_name
from numfmt.matrix_units.explain import step_error
from numfmt.matrix_units.operands import PARTS, as_matrix
from numfmt.matrix_units.product import matmul, operand_keys
from numfmt.matrix_units.schedules import ChainAll, Promote, Schedule
from numfmt.matrix_units.units import MatrixUnit, find_unit

MEASURES = ("relative", "scaled")
BASES = ("measured", "guaranteed")

_U = 2.0**-24


@dataclass(frozen=True)
class PromotionRow:
    """The errors of one interval on the data.

    Attributes:
        interval: Products per partial sum; K for no promotion.
        relative: Largest |error| / |exact| of an output (infinite where an exact zero is missed).
        scaled: Largest |error| / (u·sum|p|), u = 2**-24.
        relative_bound: A rigorous bound of `relative` for these operands.
        scaled_bound: A rigorous bound of `scaled` for these operands.
    """

    interval: int
    relative: float
    scaled: float
    relative_bound: float
    scaled_bound: float

    def value(self, measure: str, basis: str) -> float:
        """The figure that is compared with a target."""
        name = measure if basis == "measured" else f"{measure}_bound"
        return float(getattr(self, name))


@dataclass(frozen=True)
class PromotionChoice:
    """What `choose_promotion` recommends.

    Attributes:
        interval: The longest interval that meets the target on the data, or None if none does.
        guaranteed: The longest interval whose rigorous bound meets the target, or None.
        target: The target.
        measure: "relative" or "scaled".
        k: K.
        outputs: Number of outputs that were computed.
        unit: The unit.
        rows: One row for each interval tried, ascending.
    """

    interval: int | None
    guaranteed: int | None
    target: float
    measure: str
    k: int
    outputs: int
    unit: MatrixUnit
    rows: tuple[PromotionRow, ...]

    @property
    def schedule(self) -> Schedule | None:
        """The schedule of `interval`: a chain where no promotion is needed, None where no interval suffices."""
        return None if self.interval is None else _schedule(self.interval, self.k)

    @property
    def mode(self) -> str:
        """The recommendation in words: "fast accumulation", "promote every n" or "no interval suffices"."""
        return _mode(self.interval, self.k)

    def table(self) -> str:
        """The rows as text.

        Returns:
            A line an interval, under headings; the chosen intervals are marked.
        """
        lines = [
            f"{self.unit.name}, K = {self.k}, {self.outputs} outputs; target {self.measure} error {self.target:.3g}",
            f"{'interval':>10} {'relative':>11} {'bound':>11} {'/(u sum|p|)':>12} {'bound':>11}",
        ]
        for row in self.rows:
            marks = "".join(
                mark
                for mark, chosen in ((" <- measured", self.interval), (" <- guaranteed", self.guaranteed))
                if row.interval == chosen
            )
            name = "none" if row.interval == self.k else str(row.interval)
            lines.append(
                f"{name:>10} {row.relative:>11.3g} {row.relative_bound:>11.3g} {row.scaled:>12.4g} "
                f"{row.scaled_bound:>11.4g}{marks}"
            )
        lines.append(f"On these data: {self.mode}. By the bound: {_mode(self.guaranteed, self.k)}.")
        return "\n".join(lines)

    __str__ = table

    def plot(self, axes: Any = None) -> Any:
        """Error and bound against the interval, on logarithmic axes, with the target.

        Args:
            axes: matplotlib axes to draw on; None: new ones.

        Returns:
            The axes.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        if axes is None:
            try:
                pyplot = importlib.import_module("matplotlib.pyplot")
            except ImportError:
                raise ImportError("plot() needs matplotlib; install it with: pip install numfmt-sim[plot]") from None
            axes = pyplot.subplots(layout="constrained")[1]
        intervals = [row.interval for row in self.rows]
        for basis, style in (("measured", "o-"), ("guaranteed", "s--")):
            axes.plot(intervals, [row.value(self.measure, basis) for row in self.rows], style, label=basis)
        axes.axhline(self.target, color="0.4", linewidth=1, label="target")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("products between promotions")
        axes.set_ylabel("relative error" if self.measure == "relative" else "error / (u sum|p|)")
        axes.set_title(f"{self.unit.name}, K = {self.k}")
        axes.legend()
        return axes


def _schedule(interval: int, k: int) -> Schedule:
    return ChainAll() if interval >= k else Promote(interval, ChainAll())


def _mode(interval: int | None, k: int) -> str:
    if interval is None:
        return "no interval suffices; use a wider unit"
    return "fast accumulation (one chain, no promotion)" if interval >= k else f"promote every {interval}"


def choose_promotion(
    a: ArrayLike,
    b: ArrayLike,
    target: float,
    *,
    measure: str = "relative",
    unit: str | MatrixUnit = "hopper.wgmma",
    inputs: str | tuple[str, str] | None = None,
    intervals: Sequence[int] | None = None,
    outputs: int = 1 << 16,
    seed: int = 0,
) -> PromotionChoice:
    """The longest promotion interval, or none at all, that meets an error target on the given matrices.

    Long intervals are fast and lose bits: an FP8 unit keeps 14 bits of its running sum. Every interval is tried on (a
    sample of) the product, bit for bit, and also bounded rigorously: in a step with L products p and running sum s,
    at most L+1 terms are cut, each by less than 2**-F times the largest of |p| and |s|, and the result by 2**-m of
    itself; additions of partial sums lose u each.

    Args:
        a: (M, K) matrix of values of the input format.
        b: (K, N) matrix.
        target: Largest error allowed, in the unit of `measure`.
        measure: "relative" for max |error| / |exact|, "scaled" for max |error| / (u·sum|p|) with u = 2**-24.
        unit: A unit with an fp32 accumulator.
        inputs: Format of the operands; None: from the dtypes.
        intervals: Intervals to try; None: the unit's depth times 1, 2, 4, ..., and K.
        outputs: Compute at most this many outputs, of rows and columns drawn at random.
        seed: Seed of the draw.

    Returns:
        The choice, with a table (`print(choice)`) and `plot()`.

    Raises:
        ValueError: For shapes, formats or intervals that do not fit, or operands that are not finite.

    Example:
        >>> import numpy as np
        >>> from numfmt import FP8_E4M3
        >>> from numfmt.matrix_units import choose_promotion
        >>> rng = np.random.default_rng(0)
        >>> a, b = (FP8_E4M3.round(rng.uniform(0, 1, shape)) for shape in ((32, 2048), (2048, 32)))
        >>> choose_promotion(a, b, 1e-3, inputs="e4m3").mode
        'promote every 128'
    """
    if measure not in MEASURES:
        raise ValueError(unknown_name("measure", measure, MEASURES))
    if not target > 0:
        raise ValueError(f"target must be positive, got {target!r}")
    left, right = as_matrix(a, "a"), as_matrix(b, "b")
    if left.shape[1] != right.shape[0] or 0 in (*left.shape, *right.shape):
        raise ValueError(
            f"a has shape {left.shape} and b {right.shape}: a's columns must be as many as b's rows, not zero"
        )
    keys = operand_keys(left, right, inputs, unit)
    facts = find_unit(unit, keys, "fp32")
    left, right = _sampled(left, right, outputs, seed)
    k = left.shape[1]
    padded = -(-k // facts.depth) * facts.depth
    tried = _intervals(intervals, facts, padded)
    exact = _Exact.of(left, right)
    rows = []
    for interval in tried:
        got = matmul(left, right, unit=facts, inputs=keys, schedule=_schedule(interval, padded), pad_k=True)
        error = np.abs(got.astype(np.float64) - exact.product)
        bound = _bound(left, right, facts, keys, interval, padded)
        rows.append(
            PromotionRow(
                interval,
                exact.relative(error),
                exact.scaled(error),
                exact.relative(bound),
                exact.scaled(bound),
            )
        )

    def longest(basis: str) -> int | None:
        return max((row.interval for row in rows if row.value(measure, basis) <= target), default=None)

    return PromotionChoice(
        longest("measured"), longest("guaranteed"), target, measure, padded, exact.product.size, facts, tuple(rows)
    )


def _sampled(
    a: NDArray[Any], b: NDArray[Any], outputs: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows of a and columns of b, at random where there are more than needed, as float64."""
    rng = np.random.default_rng(seed)
    side = max(1, int(outputs**0.5))
    rows = min(a.shape[0], max(side, outputs // max(b.shape[1], 1)))
    columns = min(b.shape[1], max(1, outputs // rows))
    chosen_rows = np.sort(rng.permutation(a.shape[0])[:rows])
    chosen_columns = np.sort(rng.permutation(b.shape[1])[:columns])
    left, right = a[chosen_rows].astype(np.float64), b[:, chosen_columns].astype(np.float64)
    if not (np.isfinite(left).all() and np.isfinite(right).all()):
        raise ValueError("a and b must be finite: an error has no size beside infinity or NaN")
    return left, right


def _intervals(intervals: Sequence[int] | None, unit: MatrixUnit, k: int) -> list[int]:
    if intervals is None:
        doubled = [unit.depth << i for i in range(max(1, k.bit_length()))]
        return [*(n for n in doubled if n < k), k]
    for n in intervals:
        if n <= 0 or n % unit.depth:
            raise ValueError(f"intervals: {n} is no positive multiple of {unit.depth}, the depth of one instruction")
    return sorted({min(n, k) for n in intervals})


@dataclass(frozen=True)
class _Exact:
    """The product and sum|p| in float64, with an error below K·2**-53·sum|p|."""

    product: NDArray[np.float64]
    magnitude: NDArray[np.float64]

    @classmethod
    def of(cls, a: NDArray[np.float64], b: NDArray[np.float64]) -> _Exact:
        return cls(a @ b, np.abs(a) @ np.abs(b))

    def relative(self, error: NDArray[np.float64]) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = error / np.abs(self.product)
        return float(np.where(error == 0, 0.0, ratio).max())

    def scaled(self, error: NDArray[np.float64]) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = error / (_U * self.magnitude)
        return float(np.where(error == 0, 0.0, ratio).max())


def _bound(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    unit: MatrixUnit,
    keys: tuple[str, str],
    interval: int,
    k: int,
) -> NDArray[np.float64]:
    """A rigorous bound of |error| for each output.

    With P the sum of a step's |p| and S the sum of |p| of the partial sum so far, a step loses at most
    (L + 1)·2**-F·max(P, S) + 2**-m·(S + P): cutting toward zero never makes a sum larger in magnitude than S + P, and
    the largest exponent belongs to a number of at most max(P, S) if operands below the normal range are taken at
    2**emin, their exponent in the alignment. An addition of a partial sum loses u times the sums so far.
    """
    sizes = []
    for x, key in ((a, keys[0]), (b, keys[1])):
        seen = PARTS["tf32"](x.astype(np.float32)) if key == "tf32" else x
        size = np.abs(seen.astype(np.float64))
        sizes.append((size, np.where(size > 0, np.maximum(size, 2.0 ** unit.multiplied_format(key).emin), 0.0)))
    left, right = sizes[0][1], sizes[1][1]
    shape = (a.shape[0], b.shape[1])
    # What tf32 ignores of fp32 operands, and the error of the float64 product that results are compared with.
    magnitude = np.abs(a) @ np.abs(b)
    error: NDArray[np.float64] = magnitude - sizes[0][0] @ sizes[1][0] + 2.0 * k * 2.0**-53 * magnitude
    total, before = np.zeros(shape), np.zeros(shape)
    cut = (unit.terms + 1) * 2.0**-unit.fraction_bits if unit.arithmetic == "aligned" else 0.0
    rounding = step_error(unit) - cut
    # Subnormal results, and terms cut at the floor of the alignment.
    least = 2.0**-148
    promoting = interval < k
    for start in range(0, k, unit.products):
        if start % interval == 0:
            before, total = before + total, np.zeros(shape)
            error += _U * before if promoting else 0.0
        part = slice(start, start + unit.products)
        step = left[:, part] @ right[part]
        error += cut * np.maximum(step, total) + rounding * (total + step) + least
        total += step
    error += _U * (before + total) if promoting else 0.0
    # Roundings to nearest can make the sums above larger, each by a factor 1 + u, and float64 rounds here: far less
    # than this factor for any K below 2**16 additions.
    error *= 1 + 2.0**-8
    return error
