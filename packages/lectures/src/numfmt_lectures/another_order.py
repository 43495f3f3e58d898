"""Lecture: the same algebra, another order. Two GEMM kernels, and the tolerance that blames the wrong one.

Four demonstrations: both kernels in payloads and in floats; their errors and bounds; who fails a tolerance test, and
against whom; and how the errors grow with K.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import fpsan_tools
from numfmt import FP32
from numfmt_lectures.lecture import Lecture
from numfmt_lectures.report import Column, Demonstration, Figure, Label, Observation, Series, Table
from tritongemm.accuracy import Tolerance
from tritongemm.kernels import blocked, strided_lanes
from tritongemm.orders import SummationOrder
from tritongemm.reference import reference

__all__ = ["LECTURE", "Settings"]

Matrix = NDArray[np.float32]
Array = NDArray[np.float64]

U = FP32.unit_roundoff


@dataclass(frozen=True)
class Settings:
    """Sizes and seeds.

    Attributes:
        seed: of the random matrices.
        rows: of the product whose errors are measured.
        columns: of that product.
        depth: products per output.
        lengths: products per output in the last demonstration.
        sample: rows and columns of the products there.
    """

    seed: int = 0
    rows: int = 96
    columns: int = 96
    depth: int = 6144
    lengths: tuple[int, ...] = (256, 1024, 4096, 16384)
    sample: int = 24

    @classmethod
    def quick(cls) -> Self:
        """Fewer outputs and shorter sums."""
        return cls(rows=48, columns=48, depth=2048, lengths=(256, 1024, 4096), sample=16)


def uniform(rng: np.random.Generator, shape: tuple[int, int], low: float = -1.0) -> Matrix:
    """A random FP32 matrix with elements between `low` and 1."""
    return rng.uniform(low, 1, shape).astype(np.float32)


# 1. The same algebra.

SHAPES = ((16, 16, 512), (17, 15, 257), (5, 33, 100), (1, 1, 1))


@dataclass(frozen=True)
class Compared:
    """Outputs of one product that differ between the two kernels."""

    shape: str
    outputs: int
    payloads: int
    floats: int


def same_algebra(settings: Settings) -> Demonstration:
    """Run both kernels in payloads and in floats, at sizes with and without tails."""
    rng = np.random.default_rng(settings.seed)
    rows = []
    for m, n, k in SHAPES:
        a, b = uniform(rng, (m, k)), uniform(rng, (k, n))
        differing = {
            domain: int((run("strided_lanes", a, b, domain) != run("blocked", a, b, domain)).sum())
            for domain in ("payload", "ieee")
        }
        rows.append(Compared(f"{m} x {n} x {k}", m * n, differing["payload"], differing["ieee"]))
    columns = [Column("shape"), Column("outputs", "d"), Column("payloads", "d"), Column("floats", "d")]
    table = Table("compared", columns, [(r.shape, r.outputs, r.payloads, r.floats) for r in rows])
    return Demonstration("algebra", [table], observe_algebra(rows))


def run(kernel: str, a: Matrix, b: Matrix, domain: str) -> NDArray[np.uint32]:
    """The bits that a kernel writes in an arithmetic.

    Args:
        kernel: `strided_lanes` or `blocked`.
        a: (M, K) matrix.
        b: (K, N) matrix.
        domain: `payload` or `ieee`.

    Returns:
        (M, N) bit patterns.
    """
    (m, k), n = a.shape, b.shape[1]
    c = np.zeros((m, n), np.float32)
    strides = [step // 4 for matrix in (a, b, c) for step in matrix.strides]
    function: Any = strided_lanes.strided_lanes_kernel if kernel == "strided_lanes" else blocked.blocked_kernel
    tiles = -(-m // 16) * -(-n // 16)
    blocks = {} if kernel == "strided_lanes" else {"BLOCK_M": 16, "BLOCK_N": 16}
    grid = (m * n,) if kernel == "strided_lanes" else (tiles,)
    with fpsan_tools.on_cpu(domain):
        function[grid](a, b, c, m, n, k, *strides, **blocks)
    return c.view(np.uint32)


def observe_algebra(rows: Sequence[Compared]) -> list[Observation]:
    """Whether all payloads agree while floats do not."""
    payloads, floats = (sum(getattr(r, kind) for r in rows) for kind in ("payloads", "floats"))
    outputs = sum(r.outputs for r in rows)
    return [
        Observation("same", payloads == 0, {"payloads": payloads, "outputs": outputs}),
        Observation("rounding", payloads == 0 < floats, {"floats": floats, "outputs": outputs}),
    ]


# 2. The errors.


@dataclass(frozen=True)
class Product:
    """A computed product with what it should be.

    Attributes:
        name: which kernel.
        bits: its result.
        predicted: the result of simulating the summation order it is said to have.
        height: the most roundings that a product passes through in that order.
        bound: gamma of that height, in units of u.
        exact: the float64 product.
        magnitude: sums of the products' absolute values.
    """

    name: str
    bits: Matrix
    predicted: Matrix
    height: int
    bound: float
    exact: Array
    magnitude: Array

    @property
    def errors(self) -> Array:
        """Signed errors in units of u·sum|p|."""
        error: Array = (self.bits - self.exact) / (U * self.magnitude)
        return error

    @property
    def rms(self) -> float:
        """Root mean square of `errors`."""
        return float(np.sqrt(np.mean(self.errors**2)))


@lru_cache(maxsize=1)  # two demonstrations look at the same products
def products(settings: Settings) -> Mapping[str, Product]:
    """Both kernels' results on the same random matrices."""
    rng = np.random.default_rng(settings.seed)
    a, b = uniform(rng, (settings.rows, settings.depth)), uniform(rng, (settings.depth, settings.columns))
    exact, magnitude = reference(a, b)
    found = {}
    for module, launch in ((strided_lanes, strided_lanes.strided_lanes), (blocked, blocked.blocked)):
        order: SummationOrder = module.order()
        name = launch.__name__
        found[name] = Product(
            name,
            launch(a, b),
            order.simulate(a, b),
            order.height(settings.depth),
            order.relative_bound(settings.depth) / U,
            exact,
            magnitude,
        )
    return found


def errors(settings: Settings) -> Demonstration:
    """Measure both kernels against float64, in the unit that does not depend on cancellation."""
    found = products(settings)
    columns = [
        Column("kernel"),
        Column("height", "d"),
        Column("bound", ".0f"),
        Column("rms", ".3f"),
        Column("largest", ".3f"),
        Column("reproduced", ".1%"),
    ]
    rows = [
        (p.name, p.height, p.bound, p.rms, float(np.abs(p.errors).max()), float((p.bits == p.predicted).mean()))
        for p in found.values()
    ]
    return Demonstration("errors", [Table("errors", columns, rows)], observe_errors(found))


def observe_errors(found: Mapping[str, Product]) -> list[Observation]:
    """Who is more accurate, whether bounds hold, and whether the orders explain the bits."""
    lanes, serial = found["strided_lanes"], found["blocked"]
    inside = all(np.abs(p.errors).max() <= p.bound for p in found.values())
    predicted = [p.name for p in found.values() if (p.bits == p.predicted).all()]
    return [
        Observation(
            "accurate",
            lanes.rms < serial.rms,
            {"lanes": lanes.rms, "serial": serial.rms, "ratio": serial.rms / lanes.rms},
        ),
        Observation(
            "bounds",
            inside,
            {
                "used": max(float(np.abs(p.errors).max()) / p.bound for p in found.values()),
                "lanes": lanes.height,
                "serial": serial.height,
            },
        ),
        Observation("order", len(predicted) == len(found), {"predicted": predicted, "kernels": len(found)}),
    ]


# 3. Who is blamed.

TOLERANCES = (1e-3, 1e-4, 3e-5, 1e-5)


@dataclass(frozen=True)
class Verdicts:
    """Outputs outside a tolerance: each kernel against float64, and the lanes against the serial result."""

    tolerance: float
    lanes: int
    serial: int
    blamed: int


def judges(settings: Settings) -> Demonstration:
    """Count the failures of a tolerance test with the right judge and with the customary one."""
    found = products(settings)
    lanes, serial = found["strided_lanes"], found["blocked"]
    rows = [verdicts(lanes, serial, tolerance) for tolerance in TOLERANCES]
    columns = [Column("tolerance", ".0e"), Column("lanes", "d"), Column("serial", "d"), Column("blamed", "d")]
    table = Table("verdicts", columns, [(r.tolerance, r.lanes, r.serial, r.blamed) for r in rows])
    kappa = lanes.magnitude / np.abs(lanes.exact)
    cuts = np.quantile(kappa, [0, 0.25, 0.5, 0.75, 0.9, 0.99, 1])
    by_kappa = []
    for low, high in pairwise(cuts):
        inside = (kappa >= low) & (kappa <= high)
        if not inside.any():  # few outputs
            continue
        relative = [float(np.sqrt(np.mean(((p.bits - p.exact) / p.exact)[inside] ** 2))) for p in (lanes, serial)]
        by_kappa.append((float(low), float(high), *relative))
    kappa_columns = [Column("low", ".3g"), Column("high", ".3g"), Column("lanes", ".1e"), Column("serial", ".1e")]
    tables = [table, Table("kappa", kappa_columns, by_kappa)]
    failing = outside(serial.bits, serial.exact, TOLERANCES[-1])
    observations = observe_judges(rows, kappa, failing)
    return Demonstration("judges", tables, observations, [_cloud(lanes, serial, kappa)])


def outside(actual: NDArray[Any], expected: NDArray[Any], tolerance: float) -> NDArray[np.bool_]:
    """Where |actual - expected| > tolerance·(1 + |expected|)."""
    failed: NDArray[np.bool_] = Tolerance(tolerance, tolerance).outside(
        actual.astype(np.float64), expected.astype(np.float64)
    )
    return failed


def verdicts(lanes: Product, serial: Product, tolerance: float) -> Verdicts:
    """Count the failures of one tolerance."""
    return Verdicts(
        tolerance,
        int(outside(lanes.bits, lanes.exact, tolerance).sum()),
        int(outside(serial.bits, serial.exact, tolerance).sum()),
        int(outside(lanes.bits, serial.bits, tolerance).sum()),
    )


def _cloud(lanes: Product, serial: Product, kappa: Array) -> Figure:
    """Relative errors of a sample of outputs over their condition numbers."""
    picked = np.argsort(kappa, axis=None)[:: max(1, kappa.size // 200)]
    x = kappa.ravel()[picked]
    series = []
    for product in (serial, lanes):
        relative = np.abs((product.bits - product.exact) / product.exact).ravel()[picked]
        shown = relative > 0
        series.append(Series(product.name, x[shown].tolist(), relative[shown].tolist()))
    return Figure("cloud", "scatter", series, ("log", "log"))


def observe_judges(rows: Sequence[Verdicts], kappa: Array, failing: NDArray[np.bool_]) -> list[Observation]:
    """Whether the customary judge blames the better kernel, and whether cancellation decides who fails."""
    unjust = [r for r in rows if r.blamed > r.lanes and r.serial > r.lanes]
    example = unjust[-1] if unjust else rows[-1]
    typical = float(np.median(kappa))
    failed = float(np.median(kappa[failing])) if failing.any() else 0.0
    return [
        Observation(
            "blamed",
            bool(unjust),
            {
                "tolerance": example.tolerance,
                "blamed": example.blamed,
                "lanes": example.lanes,
                "serial": example.serial,
            },
        ),
        Observation(
            "cancellation",
            failed > 1.5 * typical,
            {"failed": failed, "typical": typical, "tolerance": rows[-1].tolerance, "failures": int(failing.sum())},
        ),
    ]


# 4. How errors grow.


@dataclass(frozen=True)
class Growth:
    """Rms errors in units of u·sum|p| at each length: serial and lanes, for inputs of both signs and of one."""

    serial: list[float]
    lanes: list[float]
    serial_positive: list[float]
    lanes_positive: list[float]


def growth(settings: Settings) -> Demonstration:
    """Errors over K, for inputs of both signs and for positive ones."""
    found = measure_growth(settings)
    names = ("serial", "lanes", "serial_positive", "lanes_positive")
    columns = [Column("length", "d"), *(Column(name, ".3f") for name in names)]
    lines = [getattr(found, name) for name in names]
    rows = [(length, *(line[i] for line in lines)) for i, length in enumerate(settings.lengths)]
    series = [
        Series(Label(name), list(settings.lengths), line, dashed=name.endswith("positive"), colour=number % 2)
        for number, (name, line) in enumerate(zip(names, lines, strict=True))
    ]
    figure = Figure("growth", "points", series, ("log2", "log2"))
    observations = observe_growth(found, settings.lengths)
    return Demonstration("growth", [Table("growth", columns, rows)], observations, [figure])


def measure_growth(settings: Settings) -> Growth:
    """Simulate both orders, which give the kernels' own bits, at every length."""
    rng = np.random.default_rng(settings.seed + 1)
    rms: dict[tuple[str, float], list[float]] = {}
    for length in settings.lengths:
        for low in (-1.0, 0.0):
            a, b = uniform(rng, (settings.sample, length), low), uniform(rng, (length, settings.sample), low)
            exact, magnitude = reference(a, b)
            for module in (blocked, strided_lanes):
                error = (module.order().simulate(a, b) - exact) / (U * magnitude)
                rms.setdefault((module.__name__, low), []).append(float(np.sqrt(np.mean(error**2))))
    both = [rms[module.__name__, low] for low in (-1.0, 0.0) for module in (blocked, strided_lanes)]
    return Growth(*both)


def observe_growth(found: Growth, lengths: Sequence[int]) -> list[Observation]:
    """Whether the serial sum of positive products gets worse with K, and the lanes stay ahead."""
    span = lengths[-1] / lengths[0]
    factor = found.serial_positive[-1] / found.serial_positive[0]
    return [
        Observation(
            "serial",
            len(lengths) > 1 and factor > 1.5,
            {"factor": factor, "span": span, "root": span**0.5},
        ),
        Observation(
            "lanes",
            all(
                better < worse
                for better, worse in zip(
                    [*found.lanes, *found.lanes_positive], [*found.serial, *found.serial_positive], strict=True
                )
            ),
            {"lanes": found.lanes_positive[-1], "serial": found.serial_positive[-1], "length": lengths[-1]},
        ),
    ]


DEMONSTRATIONS: tuple[Callable[[Settings], Demonstration], ...] = (same_algebra, errors, judges, growth)

LECTURE = Lecture("another-order", Settings, DEMONSTRATIONS)
