"""Lecture: FP32 from FP16, BF16 and INT8 parts. How units that know no FP32 multiply FP32 matrices, and how well.

Six demonstrations: taking numbers apart; what the products of parts cost; chained against promoted sums; data on which
INT8 digits lose, and a guard that knows; how long a sum must be before parts are better than FP32; and numbers that
cannot be taken apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from numfmt import FP32
from numfmt.matrix_units import matmul
from numfmt_lectures.lecture import Lecture
from numfmt_lectures.names import LectureError
from numfmt_lectures.parts import (
    BF16X6,
    DIGITS,
    FP16X3,
    LONGEST,
    Scheme,
    digits,
    integer_product,
    product,
    rejoin,
    split,
)
from numfmt_lectures.recorded import speed
from numfmt_lectures.report import Column, Demonstration, Figure, Label, Observation, Series, Table, Value, ratio

__all__ = ["LECTURE", "Settings"]

Array = NDArray[np.float64]
Matrix = NDArray[np.float32]

U = FP32.unit_roundoff


@dataclass(frozen=True)
class Settings:
    """Sizes and seeds.

    Attributes:
        seed: of the random matrices.
        samples: numbers that are taken apart at each magnitude.
        rows: of the products, and their columns.
        depth: products per output where kinds of data are compared.
        lengths: products per output in the last demonstration.
        sums: products per output where chained and promoted sums are compared.
        promotion: products after which a promoted FP16 sum starts again, a multiple of 16.
        limit: the largest error that the guard lets digits have, in hundredths of u·sum|p|.
    """

    seed: int = 0
    samples: int = 20_000
    rows: int = 24
    depth: int = 6144
    lengths: tuple[int, ...] = (1, 4, 16, 64, 256, 1024, 4096)
    sums: tuple[int, ...] = (256, 1024, 4096)
    promotion: int = 64
    limit: int = 45

    def __post_init__(self) -> None:
        if self.promotion % 16:
            raise LectureError(
                f"setting 'promotion' takes a multiple of 16, one tensor core step, not {self.promotion}"
            )
        longest = max(self.depth, *self.lengths)
        if longest > LONGEST:
            raise LectureError(
                f"settings 'depth' and 'lengths' take at most {LONGEST}, so that no INT32 sum overflows, not {longest}"
            )

    @classmethod
    def quick(cls) -> Self:
        """Fewer outputs and shorter sums."""
        return cls(samples=2_000, rows=10, lengths=(1, 16, 64, 256, 1024, 4096), sums=(256, 2048))


def exact(a: Matrix, b: Matrix) -> tuple[Array, Array]:
    """The float64 product and the sums of the products' magnitudes.

    A product of FP32 numbers is exact in float64; the sum's own error is a few thousandths of u times sum|p|.
    """
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    return wide_a @ wide_b, np.abs(wide_a) @ np.abs(wide_b)


def sgemm(a: Matrix, b: Matrix) -> Matrix:
    """The product as serial chains of FP32 fused multiply-adds: what `tl.dot` in FP32 and the vendor's library give."""
    c: Matrix = matmul(a, b, unit="simt.fma", inputs="fp32")
    return c


WAYS: Mapping[str, Callable[[Matrix, Matrix], Matrix]] = {
    "sgemm": sgemm,
    "fp16x3": lambda a, b: product(a, b, FP16X3),
    "bf16x6": lambda a, b: product(a, b, BF16X6),
    "int8x6": integer_product,
}
"""The ways to multiply that are compared, each as it is meant to be used."""


@dataclass(frozen=True)
class Errors:
    """Errors of a product in units of u·sum|p|, and their lean: mean e·sign(exact) over mean |e|."""

    rms: float
    largest: float
    lean: float


def measure(c: Matrix, reference: tuple[Array, Array]) -> Errors:
    """The errors of a product against the float64 one."""
    value, magnitude = reference
    error = (c - value) / (U * magnitude)
    size = np.abs(error)
    lean = float((error * np.sign(value)).mean() / size.mean()) if size.any() else 0.0
    return Errors(float(np.sqrt((error**2).mean())), float(size.max()), lean)


# 1. Taking numbers apart.

MAGNITUDES = (0, 4, 8, 12, 16, 20, 24, 28)
UNSCALED = Scheme("unscaled", FP16X3.format, "fp16", 2, FP16X3.products, False, FP16X3.chunk)


def splitting(settings: Settings) -> Demonstration:
    """Split a third, then numbers of many magnitudes beside a 1, and see what the parts leave over."""
    found = measure_splits(settings)
    columns = [Column("scheme"), Column("parts"), Column("left", ".3g")]
    columns_kept = [Column("magnitude"), *(Column(name, ".1f") for name in found)]
    rows: list[tuple[Value, ...]] = [
        (f"2^-{m}" if m else "1", *(found[name][i] for name in found)) for i, m in enumerate(MAGNITUDES)
    ]
    series = [Series(Label(name), [float(m) for m in MAGNITUDES], kept) for name, kept in found.items()]
    figure = Figure("kept", "points", series)
    tables = [Table("third", columns, thirds()), Table("kept", columns_kept, rows)]
    return Demonstration("splitting", tables, observe_splitting(found), [figure])


def thirds() -> list[tuple[Value, ...]]:
    """A third beside a 1 in parts, and what they leave over in units of u times the number."""
    row = np.array([[1 / 3, 1.0]], np.float32)
    rows: list[tuple[Value, ...]] = []
    for scheme in (FP16X3, BF16X6):
        parts, shift = split(row, scheme, 1)
        text = " + ".join(f"{np.ldexp(part[0, 0], -shift[0, 0]):.9g}" for part in parts).replace("+ -", "- ")
        rows.append((scheme.name, text, relative_rest(row, rejoin(parts, shift))[0, 0]))
    whole, shift = digits(row, 1)
    weights = [256**i for i in reversed(range(DIGITS))]
    text = "(" + " + ".join(f"{int(q[0, 0])}·256^{DIGITS - 1 - i}" for i, q in enumerate(whole)) + f")·2^-{shift[0, 0]}"
    joined = rejoin([q * w for q, w in zip(whole, weights, strict=True)], shift)
    rows.append(("int8x6", text, relative_rest(row, joined)[0, 0]))
    return rows


def relative_rest(x: NDArray[Any], joined: Array) -> Array:
    """What parts leave over, relative to the number, in units of u."""
    rest: Array = np.abs(joined - x) / (U * np.abs(x))
    return rest


def measure_splits(settings: Settings) -> dict[str, list[float]]:
    """The bits that parts keep of the worst of many numbers, at each magnitude beside a 1; 24 is all of them."""
    rng = np.random.default_rng(settings.seed)
    kept: dict[str, list[float]] = {}
    for magnitude in MAGNITUDES:
        small = np.ldexp(rng.uniform(0.5, 1, settings.samples), -magnitude).astype(np.float32)
        row = np.concatenate([[np.float32(1)], small])[None, :]
        joined = {s.name: rejoin(*split(row, s, 1)) for s in (UNSCALED, FP16X3, BF16X6)}
        whole, shift = digits(row, 1)
        joined["int8x6"] = rejoin([q * 256.0 ** (DIGITS - 1 - i) for i, q in enumerate(whole)], shift)
        for name, value in joined.items():
            worst = float(relative_rest(row, value)[0, 1:].max()) * U
            kept.setdefault(name, []).append(24.0 if worst <= U else max(0.0, -float(np.log2(worst))))
    return kept


def observe_splitting(kept: Mapping[str, list[float]]) -> list[Observation]:
    """What scales do for FP16, whether BF16 parts keep everything, and what a digit's fixed place costs."""
    halves, unscaled, integers = kept["fp16x3"], kept[UNSCALED.name], kept["int8x6"]
    # The worst of the samples is a little better than the worst there is.
    level = [m for m, bits in zip(MAGNITUDES, halves, strict=True) if bits >= halves[0] - 0.1]
    return [
        Observation("bf16", min(kept["bf16x6"]) == 24, {"least": min(kept["bf16x6"])}),
        Observation(
            "scale",
            all(a >= b for a, b in zip(halves, unscaled, strict=True)) and len(level) > 1 and unscaled[2] < halves[2],
            {"bits": halves[0], "level": max(level), "magnitude": MAGNITUDES[2], "unscaled": unscaled[2]},
        ),
        Observation(
            "fixed",
            integers[0] < 24 and all(abs(integers[0] - m - bits) <= 1 for m, bits in _above_zero(integers)),
            {"first": integers[0], "magnitude": MAGNITUDES[4], "later": integers[4]},
        ),
    ]


def _above_zero(bits: Sequence[float]) -> list[tuple[int, float]]:
    return [(m, b) for m, b in zip(MAGNITUDES, bits, strict=True) if b > 1]


# 2. What the products cost.


@dataclass(frozen=True)
class Cost:
    """One way to multiply FP32 matrices, as TFLOP/s of the FP32 product.

    Attributes:
        name: the scheme, or `sgemm`.
        unit: the format of the unit that does the products.
        products: of parts, for each product.
        peak: rate of the unit, by the data sheet.
        whole: measured, splitting of both operands included.
        prepared: measured with B split before; None where there is no such figure.
        rms: of the measured products' errors, in units of u·sum|p|.
    """

    name: str
    unit: str
    products: int
    peak: float
    whole: float
    prepared: float | None
    rms: float

    @property
    def ceiling(self) -> float:
        """The most that the unit's peak allows."""
        return self.peak / self.products


def costs(_: Settings) -> Demonstration:
    """Count products, divide the units' peaks by them, and set measured speeds and errors beside."""
    found = cost_table(speed())
    base = found["sgemm"]
    columns = [
        Column("scheme"),
        Column("unit"),
        Column("products", "d"),
        Column("peak", ".0f"),
        Column("ceiling", ".0f"),
        Column("prepared", ".0f"),
        Column("whole", ".0f"),
        Column("ratio", ".2f"),
        Column("rms", ".3f"),
    ]
    rows: list[tuple[Value, ...]] = [
        (c.name, c.unit, c.products, c.peak, c.ceiling, c.prepared, c.whole, c.whole / base.whole, c.rms)
        for c in found.values()
    ]
    bars = list(found)
    figure = Figure(
        "speed",
        "bars",
        [
            Series(Label("ceiling"), bars, [c.ceiling for c in found.values()]),
            Series(Label("measured"), bars, [c.whole for c in found.values()]),
        ],
    )
    return Demonstration("costs", [Table("costs", columns, rows)], observe_costs(found), [figure])


def cost_table(recorded: Mapping[str, Any]) -> dict[str, Cost]:
    """The recorded speeds with the products counted from the schemes."""
    products = {"sgemm": 1, "fp16x3": len(FP16X3.products), "bf16x6": len(BF16X6.products), "int8x6": 6}
    found = {}
    for name, count in products.items():
        way = recorded["ways"][name]
        found[name] = Cost(name, way["unit"], count, way["peak"], way["whole"], way.get("prepared"), way["rms"])
    return found


def observe_costs(found: Mapping[str, Cost]) -> list[Observation]:
    """Whether parts are faster and more accurate than FP32 units, and all stay below their ceilings."""
    base = found["sgemm"]
    parts = {name: cost for name, cost in found.items() if name != "sgemm"}
    shares = [cost.whole / cost.ceiling for cost in found.values()]
    halves = found["fp16x3"]
    return [
        Observation(
            "faster",
            all(cost.whole > base.whole for cost in parts.values()),
            {key: found[f"{key}x{n}"].whole / base.whole for key, n in (("fp16", 3), ("int8", 6), ("bf16", 6))},
        ),
        Observation(
            "better",
            all(cost.rms < base.rms for cost in parts.values()),
            {"fp16": ratio(base.rms, halves.rms), "least": min(ratio(base.rms, cost.rms) for cost in parts.values())},
        ),
        Observation(
            "ceilings",
            max(shares) <= 1,
            {"least": min(shares), "most": max(shares), "sgemm": base.whole / base.ceiling},
        ),
    ]


# 3. Chained and promoted.


def accumulation(settings: Settings) -> Demonstration:
    """The same products of parts, chained in the tensor core over all of K or promoted every so often."""
    found = measure_sums(settings)
    columns = [Column("way"), Column("rms", ".3f"), Column("largest", ".2f"), Column("lean", "+.2f")]
    labels = {name: Label(name, {"chunk": settings.promotion, "bf16": BF16X6.chunk}) for name in found}
    rows: list[tuple[Value, ...]] = [
        (labels[name], line[-1].rms, line[-1].largest, line[-1].lean) for name, line in found.items()
    ]
    series = [
        Series(
            labels[name],
            list(settings.sums),
            [e.rms for e in line],
            dashed=name.endswith("promoted"),
            colour={"s": 0, "f": 1, "b": 2}[name[0]],
        )
        for name, line in found.items()
    ]
    figure = Figure("sums", "points", series, ("log2", "log"))
    table = Table("sums", columns, rows)
    return Demonstration("accumulation", [table], observe_sums(found, settings.sums, _noise(settings.rows)), [figure])


def measure_sums(settings: Settings) -> dict[str, list[Errors]]:
    """Errors of FP32, chained and promoted products at every length that is worth promoting, on uniform data."""
    rng = np.random.default_rng(settings.seed + 1)
    found: dict[str, list[Errors]] = {}
    for length in settings.sums:
        a, b = _uniform(rng, (settings.rows, length)), _uniform(rng, (length, settings.rows))
        reference = exact(a, b)
        chunk = settings.promotion
        results = {
            "sgemm": sgemm(a, b),
            "fp16_chained": product(a, b, FP16X3, promoted=False, chunk=chunk),
            "fp16_promoted": product(a, b, FP16X3, chunk=chunk),
            "bf16_chained": product(a, b, BF16X6, promoted=False),
            "bf16_promoted": product(a, b, BF16X6),
        }
        for name, c in results.items():
            found.setdefault(name, []).append(measure(c, reference))
    return found


def _noise(rows: int) -> float:
    """What the lean of as many unbiased errors as a square product has may differ from 0 by chance, in 4 deviations."""
    return 4 * math.sqrt(math.pi / 2) / rows


def observe_sums(found: Mapping[str, list[Errors]], lengths: Sequence[int], noise: float) -> list[Observation]:
    """Whether chaining loses against FP32, leans toward zero and gets worse with K, and promotion mends that.

    Args:
        found: errors at each length under each way's name.
        lengths: products per output.
        noise: lean that chance can give to errors without any.
    """
    base = found["sgemm"][-1]
    chained = {key: found[f"{key}_chained"] for key in ("fp16", "bf16")}
    promoted = {key: found[f"{key}_promoted"] for key in ("fp16", "bf16")}
    return [
        Observation(
            "chained",
            base.rms < chained["fp16"][-1].rms < chained["bf16"][-1].rms,
            {
                "sgemm": base.rms,
                "fp16": chained["fp16"][-1].rms,
                "bf16": chained["bf16"][-1].rms,
                "length": lengths[-1],
            },
        ),
        Observation(
            "lean",
            all(line[-1].lean < -noise for line in chained.values()) and abs(base.lean) <= noise,
            {"fp16": chained["fp16"][-1].lean, "bf16": chained["bf16"][-1].lean, "sgemm": base.lean, "noise": noise},
        ),
        Observation(
            "promoted",
            all(line[-1].rms < base.rms for line in promoted.values()),
            {
                "fp16": promoted["fp16"][-1].rms,
                "bf16": promoted["bf16"][-1].rms,
                "sgemm": base.rms,
                "better": ratio(base.rms, promoted["fp16"][-1].rms),
                "mended": ratio(chained["fp16"][-1].rms, promoted["fp16"][-1].rms),
            },
        ),
        Observation(
            "growth",
            len(lengths) > 1
            and all(line[-1].rms > 2 * line[0].rms for line in chained.values())
            and all(line[-1].rms < 2 * line[0].rms for line in promoted.values()),
            {
                "span": lengths[-1] / lengths[0],
                "chained": ratio(chained["fp16"][-1].rms, chained["fp16"][0].rms),
                "promoted": ratio(promoted["fp16"][-1].rms, promoted["fp16"][0].rms),
            },
        ),
    ]


def _uniform(rng: np.random.Generator, shape: tuple[int, int]) -> Matrix:
    return rng.uniform(-1, 1, shape).astype(np.float32)


# 4. Data on which digits lose.


@dataclass(frozen=True)
class Judged:
    """Rms errors on one kind of data, and what the guard estimates for digits without multiplying anything."""

    kind: str
    sgemm: float
    fp16x3: float
    bf16x6: float
    int8x6: float
    estimate: float


def kinds(rng: np.random.Generator, rows: int, depth: int) -> dict[str, tuple[Matrix, Matrix]]:
    """Operands of several distributions."""

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape)

    wide = [normal(*shape) * 2.0 ** rng.integers(-8, 9, shape) for shape in ((rows, depth), (depth, rows))]
    column = normal(rows, depth)
    column[:, depth // 2] *= 1000
    pairs = {
        "uniform": (rng.uniform(-1, 1, (rows, depth)), rng.uniform(-1, 1, (depth, rows))),
        "normal": (normal(rows, depth), normal(depth, rows)),
        "lognormal": (rng.lognormal(size=(rows, depth)), normal(depth, rows)),
        "binades": (wide[0], wide[1]),
        "column": (column, normal(depth, rows)),
    }
    return {name: (a.astype(np.float32), b.astype(np.float32)) for name, (a, b) in pairs.items()}


def estimate(a: Matrix, b: Matrix) -> float:
    """The rms error that digits are expected to have, in units of u·sum|p|, from scales and mean magnitudes alone.

    With scales 2^s an operand is off by up to half a unit of 2^-s, and the products of a second and a third digit are
    left out: two of them for each k, of weight 2^8, their digits spread evenly over 256 values. All errors are taken
    for independent, which makes them grow with the square root of K.
    """
    k = a.shape[1]
    unit, mean = [], []
    for x, axis in ((a, 1), (b, 0)):
        _, shift = digits(x, axis)
        unit.append(np.ldexp(1.0, -shift).ravel())
        mean.append(np.abs(x.astype(np.float64)).mean(axis=axis))
    spread = 256 / np.sqrt(12)
    omitted = 2 * (256 * spread**2) ** 2
    rounded = [np.mean(x.astype(np.float64) ** 2, axis=axis) / 12 for x, axis in ((a, 1), (b, 0))]
    variance = (
        omitted * np.outer(unit[0] ** 2, unit[1] ** 2)
        + np.outer(rounded[0], unit[1] ** 2)
        + np.outer(unit[0] ** 2, rounded[1])
    )
    relative = np.sqrt(k * variance) / (U * k * np.outer(*mean))
    return float(np.sqrt((relative**2).mean()))


def distributions(settings: Settings) -> Demonstration:
    """Four ways on five kinds of data, and what a guard would have decided."""
    found = judge(settings)
    limit = settings.limit / 100
    columns = [
        Column("kind"),
        *(Column(name, ".3f", name) for name in WAYS),
        Column("estimate", ".3f"),
        Column("guard"),
    ]
    rows: list[tuple[Value, ...]] = [
        (Label(j.kind), *(getattr(j, name) for name in WAYS), j.estimate, j.estimate <= limit) for j in found
    ]
    bars = [Series(name, [Label(j.kind) for j in found], [getattr(j, name) for j in found]) for name in WAYS]
    figure = Figure("kinds", "bars", bars, ("linear", "log"))
    observations = observe_kinds(found, limit, settings.depth)
    return Demonstration("distributions", [Table("kinds", columns, rows)], observations, [figure])


def judge(settings: Settings) -> list[Judged]:
    """Errors of every way on every kind of data."""
    rng = np.random.default_rng(settings.seed + 2)
    found = []
    for kind, (a, b) in kinds(rng, settings.rows, settings.depth).items():
        reference = exact(a, b)
        rms = [measure(way(a, b), reference).rms for way in WAYS.values()]
        found.append(Judged(kind, rms[0], rms[1], rms[2], rms[3], estimate(a, b)))
    return found


def observe_kinds(found: Sequence[Judged], limit: float, depth: int) -> list[Observation]:
    """Whether FP16 and BF16 parts win everywhere, digits lose somewhere, and the guard tells where."""
    better = [j for j in found if max(j.fp16x3, j.bf16x6) <= j.sgemm]
    losing = [j for j in found if j.int8x6 > j.sgemm]
    refused = [j for j in found if j.estimate > limit]
    worst = max(found, key=lambda j: ratio(j.int8x6, j.sgemm))
    gains = [ratio(j.sgemm, j.fp16x3) for j in found]
    off = [max(ratio(j.estimate, j.int8x6), ratio(j.int8x6, j.estimate)) for j in found]
    return [
        Observation(
            "floats",
            len(better) == len(found),
            {"better": len(better), "kinds": len(found), "least": min(gains), "most": max(gains), "depth": depth},
        ),
        Observation(
            "digits",
            0 < len(losing) < len(found),
            {
                "losing": [Label(j.kind) for j in losing],
                "worst": Label(worst.kind),
                "by": ratio(worst.int8x6, worst.sgemm),
            },
        ),
        Observation(
            "guard",
            losing == refused and bool(losing),
            {
                "limit": limit,
                "refused": [Label(j.kind) for j in refused],
                "losing": [Label(j.kind) for j in losing],
                "off": max(off),
            },
        ),
    ]


# 5. How long a sum must be.


def lengths(settings: Settings) -> Demonstration:
    """Errors over K: parts have a little less than FP32's bits, and make up for it in the sum."""
    found = measure_lengths(settings)
    names = list(found)
    columns = [Column("length", "d"), *(Column(name, ".3f", name) for name in names)]
    rows = [(length, *(found[name][i] for name in names)) for i, length in enumerate(settings.lengths)]
    series = [Series(name, list(settings.lengths), line) for name, line in found.items()]
    figure = Figure("lengths", "points", series, ("log2", "log"))
    observations = observe_lengths(found, settings.lengths)
    return Demonstration("lengths", [Table("lengths", columns, rows)], observations, [figure])


def measure_lengths(settings: Settings) -> dict[str, list[float]]:
    """Rms errors on normally distributed data at every length, over about as many outputs."""
    rng = np.random.default_rng(settings.seed + 3)
    found: dict[str, list[float]] = {}
    for length in settings.lengths:
        rows = max(settings.rows, min(256, settings.rows * 32 // length))
        a = rng.standard_normal((rows, length)).astype(np.float32)
        b = rng.standard_normal((length, rows)).astype(np.float32)
        reference = exact(a, b)
        for name, way in WAYS.items():
            found.setdefault(name, []).append(measure(way(a, b), reference).rms)
    return found


def observe_lengths(found: Mapping[str, list[float]], lengths: Sequence[int]) -> list[Observation]:
    """Where FP16 parts and digits overtake FP32, if they do."""

    def overtakes(name: str) -> int | None:
        """The first length from which on a way is at least as accurate as FP32."""
        ahead = [ours <= theirs for ours, theirs in zip(found[name], found["sgemm"], strict=True)]
        first = len(ahead) - next((i for i, good in enumerate(reversed(ahead)) if not good), len(ahead))
        return lengths[first] if first < len(ahead) else None

    halves, integers = overtakes("fp16x3"), overtakes("int8x6")
    return [
        Observation(
            "short",
            found["fp16x3"][0] > found["sgemm"][0],
            {"length": lengths[0], "fp16": found["fp16x3"][0], "sgemm": found["sgemm"][0]},
        ),
        Observation("overtakes", halves is not None and halves > lengths[0], {"length": halves or 0}),
        Observation(
            "digits",
            integers is not None and halves is not None and integers > halves,
            {"length": integers or 0, "fp16": halves or 0, "longest": lengths[-1]},
        ),
    ]


# 6. Numbers that cannot be taken apart.


@dataclass(frozen=True)
class Edge:
    """A product whose operands lie at an edge of a format: one row of a, one column of b.

    Attributes:
        key: its name in the catalogues.
        row: of a.
        column: of b.
    """

    key: str
    row: Sequence[float]
    column: Sequence[float]


EDGES = (
    Edge("largest", [FP32.max], [1.0]),
    Edge("infinite", [math.inf, 1.0], [1.0, 1.0]),
    Edge("tiny", [float(np.float32(4 / 3 * 2.0**-120))], [1.0]),
    Edge("beside", [1.0, float(np.float32(4 / 3 * 2.0**-30))], [0.0, 1.0]),
)


def edges(_: Settings) -> Demonstration:
    """Multiply what overflows, underflows or is infinite in parts, with nobody guarding."""
    found = try_edges()
    columns = [Column("edge"), *(Column(name, ".9g", name) for name in ("sgemm", "fp16x3", "bf16x6"))]
    rows: list[tuple[Value, ...]] = [
        (Label(f"edge_{key}"), *(values[name] for name in ("sgemm", "fp16x3", "bf16x6")))
        for key, values in found.items()
    ]
    return Demonstration("edges", [Table("edges", columns, rows)], observe_edges(found))


def try_edges() -> dict[str, dict[str, float]]:
    """The result of every edge by FP32 and by floating-point parts."""
    found = {}
    for edge in EDGES:
        a, b = np.array([edge.row], np.float32), np.array([edge.column], np.float32).T
        with np.errstate(over="ignore", invalid="ignore"):  # that is what happens here
            found[edge.key] = {name: float(WAYS[name](a, b)[0, 0]) for name in ("sgemm", "fp16x3", "bf16x6")}
    return found


def observe_edges(found: Mapping[str, Mapping[str, float]]) -> list[Observation]:
    """Which edge breaks which parts."""

    def bits(key: str, name: str) -> float:
        """Significant bits of the result that are FP32's."""
        exact = found[key]["sgemm"]
        off = abs(found[key][name] - exact) / abs(exact)
        return 24.0 if off <= U else -math.log2(off)

    largest, infinite = found["largest"], found["infinite"]
    return [
        Observation(
            "infinite",
            math.isinf(infinite["sgemm"]) and all(math.isnan(infinite[name]) for name in ("fp16x3", "bf16x6")),
            {"sgemm": infinite["sgemm"], "fp16": infinite["fp16x3"], "bf16": infinite["bf16x6"]},
        ),
        Observation(
            "largest",
            not math.isfinite(largest["bf16x6"]) and largest["fp16x3"] == largest["sgemm"],
            {"bf16": largest["bf16x6"], "fp16": largest["fp16x3"]},
        ),
        Observation(
            "small",
            bits("tiny", "bf16x6") < bits("tiny", "fp16x3") and bits("beside", "fp16x3") < bits("beside", "bf16x6"),
            {
                "tiny_bf16": bits("tiny", "bf16x6"),
                "tiny_fp16": bits("tiny", "fp16x3"),
                "beside_fp16": bits("beside", "fp16x3"),
                "beside_bf16": bits("beside", "bf16x6"),
            },
        ),
    ]


DEMONSTRATIONS: tuple[Callable[[Settings], Demonstration], ...] = (
    splitting,
    costs,
    accumulation,
    distributions,
    lengths,
    edges,
)

LECTURE = Lecture("fp32-from-parts", Settings, DEMONSTRATIONS)
