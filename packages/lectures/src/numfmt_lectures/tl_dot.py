"""Lecture: what `tl.dot` really does. Input precision, tensor cores, and FP8 with and without promotion.

Five demonstrations: one step of a matrix unit; the model against the bits of a GPU; what `input_precision` does to FP32
operands; what kind of FP32 a tensor core's accumulator is; and FP8's 14 bits, with the spellings that mend them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from numfmt import FP8_E4M3, FP16, FP32, TF32
from numfmt.matrix_units import Schedule, find_unit, matmul, promote, same_bits, tl_dot
from numfmt_lectures.lecture import Lecture
from numfmt_lectures.names import LectureError
from numfmt_lectures.recorded import DEPTH, DOTS, KEPT, PROBES, SIGNS, operands, probe_operands, results, words
from numfmt_lectures.report import Column, Demonstration, Figure, Label, Observation, Series, Table, Value, ratio

__all__ = ["LECTURE", "Settings"]

Array = NDArray[np.float64]
Matrix = NDArray[np.float32]

U = FP32.unit_roundoff


@dataclass(frozen=True)
class Settings:
    """Sizes and seeds.

    Attributes:
        seed: of the random matrices; the recorded products have inputs of their own.
        rows: of the products, and their columns.
        depth: products per output where precisions and spellings are compared, a multiple of 128.
        lengths: products per output where K varies, multiples of 32.
        promotion: products between two promotions of an FP8 sum, a multiple of 32.
    """

    seed: int = 0
    rows: int = 24
    depth: int = 4096
    lengths: tuple[int, ...] = (64, 256, 1024, 4096, 16384)
    promotion: int = 128

    def __post_init__(self) -> None:
        for name, step, values in (
            ("depth", 128, (self.depth,)),
            ("lengths", 32, self.lengths),
            ("promotion", 32, (self.promotion,)),
        ):
            for value in values:
                if value % step:
                    raise LectureError(f"setting {name!r} takes multiples of {step}, not {value}")

    @classmethod
    def quick(cls) -> Self:
        """Fewer outputs and shorter sums."""
        return cls(rows=16, depth=1024, lengths=(64, 512, 4096))


def uniform(rng: np.random.Generator, rows: int, depth: int, low: float) -> tuple[Array, Array]:
    """Random (rows, depth) and (depth, rows) matrices with elements between `low` and 1, in FP32."""
    a, b = rng.uniform(low, 1, (rows, depth)), rng.uniform(low, 1, (depth, rows))
    return FP32.round(a), FP32.round(b)


@dataclass(frozen=True)
class Errors:
    """Errors of a product in units of u·sum|p|, and their lean: mean e·sign(exact) over mean |e|."""

    rms: float
    largest: float
    lean: float


def measure(c: NDArray[Any], a: Array, b: Array) -> Errors:
    """The errors of a product against the float64 one."""
    exact, magnitude = a @ b, np.abs(a) @ np.abs(b)
    error = (c - exact) / (U * magnitude)
    size = np.abs(error)
    lean = float((error * np.sign(exact)).mean() / size.mean()) if size.any() else 0.0
    return Errors(float(np.sqrt((error**2).mean())), float(size.max()), lean)


# 1. One step.

GENERATIONS = ("volta", "ampere", "hopper")


@dataclass(frozen=True)
class Step:
    """What is left of the small terms of one step: 1 if all, 0 if nothing.

    Attributes:
        key: the probe.
        small: the exact sum of the small terms.
        chain: of a chain of FP32 fused multiply-adds.
        units: of each generation of tensor cores.
        gpu: of the recorded GPU.
    """

    key: str
    small: float
    chain: float
    units: Mapping[str, float]
    gpu: float


def one_step(_: Settings) -> Demonstration:
    """Add a few large and a few small numbers in one step, on every generation of tensor cores."""
    found = try_probes()
    columns = [
        Column("probe"),
        Column("chain", ".3g"),
        *(Column(name, ".3g", name.capitalize()) for name in GENERATIONS),
        Column("gpu", ".3g", "H200"),
    ]
    rows: list[tuple[Value, ...]] = [
        (Label(f"probe_{s.key}"), s.chain, *(s.units[name] for name in GENERATIONS), s.gpu) for s in found.values()
    ]
    facts: list[tuple[Value, ...]] = []
    for name in GENERATIONS:
        unit = find_unit(name, "fp16", "fp32")
        facts.append((name.capitalize(), unit.products, unit.fraction_bits))
    tables = [
        Table("facts", [Column("unit"), Column("products", "d"), Column("bits", "d")], facts),
        Table("steps", columns, rows),
    ]
    return Demonstration("step", tables, observe_steps(found))


def try_probes() -> dict[str, Step]:
    """Every probe on every unit, and what a GPU gave."""
    a, b, c = probe_operands()
    computed = {name: matmul(a, b, c, name, inputs="fp16") for name in GENERATIONS}
    chain = matmul(a, b, c, "simt.fma", inputs="fp32")
    recorded = results()["probes"]
    found = {}
    for i, probe in enumerate(PROBES):

        def left(value: float, large: float = probe.large, small: float = probe.small) -> float:
            return (value - large) / small + 0.0  # no -0 in the table

        units = {name: left(float(result[i, i])) for name, result in computed.items()}
        gpu = left(float(words(recorded[probe.key])[0]))
        found[probe.key] = Step(probe.key, probe.small, left(float(chain[i, i])), units, gpu)
    return found


def observe_steps(found: Mapping[str, Step]) -> list[Observation]:
    """What a fused step keeps that a chain loses, what it cuts, and whether the GPU did the same."""
    hopper = {key: step.units["hopper"] for key, step in found.items()}
    kept = [key for key, step in found.items() if hopper[key] == 1 > step.chain]
    differing = [key for key, step in found.items() if len(set(step.units.values())) > 1]
    return [
        Observation("recorded", all(s.gpu == hopper[key] for key, s in found.items()), {"probes": len(found)}),
        Observation("fused", bool(kept), {"kept": [Label(f"probe_{key}") for key in kept]}),
        Observation(
            "toward_zero",
            all(hopper[key] == 0 != found[key].chain for key in ("toward_zero", "symmetric")),
            {"chain": found["toward_zero"].chain},
        ),
        Observation("cut", hopper["cut"] == hopper["far"] == 0, {"cut": hopper["cut"], "far": hopper["far"]}),
        Observation("generations", bool(differing), {"differing": [Label(f"probe_{key}") for key in differing]}),
    ]


# 2. The model against a GPU.


@dataclass(frozen=True)
class Compared:
    """Recorded outputs of one way to write a product.

    Attributes:
        name: the way.
        outputs: how many were kept.
        reproduced: of these, equal to the model's bit for bit.
        rounded: equal to the exact result, rounded once to FP32.
        rms: of the GPU's errors, in units of u·sum|p|, for inputs of both signs and for positive ones.
    """

    name: str
    outputs: int
    reproduced: int
    rounded: int
    rms: tuple[float, float]


def recordings(_: Settings) -> Demonstration:
    """Recompute what an H200 gave for eleven ways to write `tl.dot`, and compare every bit."""
    found = compare()
    columns = [
        Column("way"),
        Column("outputs", "d"),
        Column("reproduced", "d"),
        Column("rounded", "d"),
        Column("both", ".3g"),
        Column("positive", ".3g"),
    ]
    rows: list[tuple[Value, ...]] = [(c.name, c.outputs, c.reproduced, c.rounded, *c.rms) for c in found]
    return Demonstration("recordings", [Table("recordings", columns, rows)], observe_recordings(found))


def compare() -> list[Compared]:
    """Every recorded way, with both kinds of inputs."""
    recorded = results()["dots"]
    found = []
    for dot in DOTS:
        equal, rounded, rms = 0, 0, []
        for signs in SIGNS:
            wide_a, wide_b = operands(dot, signs)
            a, b = wide_a[:KEPT], wide_b[:, :KEPT]
            gpu = words(recorded[f"{dot.name}/{signs}"]).reshape(KEPT, KEPT)
            model = matmul(a, b, unit="hopper", inputs=dot.inputs, schedule=dot.schedule)
            equal += int((gpu.view(np.uint32) == model.view(np.uint32)).sum())
            rounded += int((gpu == (a @ b).astype(np.float32)).sum())
            rms.append(measure(gpu, a, b).rms)
        found.append(Compared(dot.name, len(SIGNS) * KEPT**2, equal, rounded, (rms[0], rms[1])))
    return found


def observe_recordings(found: Sequence[Compared]) -> list[Observation]:
    """Whether the model gives every recorded bit, and how few results are correctly rounded."""
    outputs = sum(c.outputs for c in found)
    reproduced = sum(c.reproduced for c in found)
    rounded = max(found, key=lambda c: c.rounded / c.outputs)
    return [
        Observation(
            "reproduced", reproduced == outputs, {"reproduced": reproduced, "outputs": outputs, "depth": DEPTH}
        ),
        Observation(
            "rounded",
            rounded.rounded < rounded.outputs,
            {"name": rounded.name, "share": rounded.rounded / rounded.outputs},
        ),
    ]


# 3. Input precision.

PRECISIONS = ("ieee", "tf32", "tf32_rounded", "tf32x3", "bf16x3", "bf16x6")


def precisions(settings: Settings) -> Demonstration:
    """FP32 operands under every input precision, with the same operands."""
    found = try_precisions(settings)
    columns = [Column("precision"), Column("rms", ".3f"), Column("largest", ".2f"), Column("lean", "+.2f")]
    rows: list[tuple[Value, ...]] = [
        (Label(f"precision_{name}"), e.rms, e.largest, e.lean) for name, e in found.items()
    ]
    figure = Figure(
        "precisions",
        "bars",
        [Series("rms", [Label(f"precision_{name}") for name in found], [e.rms for e in found.values()])],
        _LOG_BARS,
    )
    noise = 4 * math.sqrt(math.pi / 2) / settings.rows
    observations = observe_precisions(found, noise)
    return Demonstration("precisions", [Table("precisions", columns, rows)], observations, [figure])


_LOG_BARS = ("linear", "log")


def try_precisions(settings: Settings) -> dict[str, Errors]:
    """Errors of every precision on uniform data."""
    a, b = uniform(np.random.default_rng(settings.seed), settings.rows, settings.depth, -1.0)

    def compute(x: Array, y: Array, precision: str) -> Matrix:
        c: Matrix = matmul(x, y, unit="hopper", inputs="fp32", schedule=tl_dot(32, input_precision=precision))
        return c

    found = {}
    for name in PRECISIONS:
        if name == "tf32_rounded":
            # As `cvt.rna.tf32` does; the vendor's library rounds too, ties to even.
            c = compute(TF32.round(a, "nearest_away"), TF32.round(b, "nearest_away"), "tf32")
        else:
            c = compute(a, b, name)
        found[name] = measure(c, a, b)
    return found


def observe_precisions(found: Mapping[str, Errors], noise: float) -> list[Observation]:
    """What the default costs, whether it leans, and which splits beat FP32.

    Args:
        found: errors under each precision's name.
        noise: lean that chance can give to errors without any.
    """
    ieee, tf32, rounded = found["ieee"], found["tf32"], found["tf32_rounded"]
    return [
        Observation("default", tf32.rms > 10 * ieee.rms, {"tf32": tf32.rms, "ratio": ratio(tf32.rms, ieee.rms)}),
        Observation(
            "truncation",
            tf32.lean < -0.5 and abs(rounded.lean) <= noise and rounded.rms < tf32.rms,
            {"tf32": tf32.lean, "rounded": rounded.lean, "ratio": ratio(tf32.rms, rounded.rms), "noise": noise},
        ),
        Observation(
            "splits",
            max(found["tf32x3"].rms, found["bf16x6"].rms) < ieee.rms < found["bf16x3"].rms,
            {
                "tf32x3": found["tf32x3"].rms,
                "bf16x6": found["bf16x6"].rms,
                "ieee": ieee.rms,
                "bf16x3": found["bf16x3"].rms,
            },
        ),
    ]


# 4. What kind of FP32 the accumulator is.

LINES = ("unit", "chain", "unit_positive", "chain_positive")


def accumulator(settings: Settings) -> Demonstration:
    """FP16 products summed by a tensor core and by FP32 fused multiply-adds, over K."""
    found = try_accumulators(settings)
    columns = [Column("length", "d"), *(Column(name, ".4g") for name in LINES)]
    rows = [(length, *(found[name][i].rms for name in LINES)) for i, length in enumerate(settings.lengths)]
    series = [
        Series(Label(name), list(settings.lengths), [e.rms for e in found[name]], name.startswith("chain"), number // 2)
        for number, name in enumerate(LINES)
    ]
    figure = Figure("accumulator", "points", series, ("log2", "log2"))
    observations = observe_accumulators(found, settings.lengths)
    return Demonstration("accumulator", [Table("accumulator", columns, rows)], observations, [figure])


def try_accumulators(settings: Settings) -> dict[str, list[Errors]]:
    """Errors of both ways to add at every length, for inputs of both signs and positive ones."""
    rng = np.random.default_rng(settings.seed + 1)
    found: dict[str, list[Errors]] = {}
    for length in settings.lengths:
        for suffix, low in (("", -1.0), ("_positive", 0.0)):
            a, b = (FP16.round(x) for x in uniform(rng, settings.rows, length, low))
            found.setdefault(f"unit{suffix}", []).append(measure(matmul(a, b, unit="hopper", inputs="fp16"), a, b))
            chain = matmul(a, b, unit="simt.fma", inputs="fp32")
            found.setdefault(f"chain{suffix}", []).append(measure(chain, a, b))
    return found


def observe_accumulators(found: Mapping[str, Sequence[Errors]], lengths: Sequence[int]) -> list[Observation]:
    """Whether the unit wins short sums that cancel and loses long ones of positive numbers, and why."""
    unit, chain = found["unit_positive"], found["chain_positive"]
    mixed = found["unit"][0].rms, found["chain"][0].rms
    span = lengths[-1] / lengths[0]
    root = math.sqrt(span)
    growth, chain_growth = ratio(unit[-1].rms, unit[0].rms), ratio(chain[-1].rms, chain[0].rms)
    return [
        Observation("short", mixed[0] < mixed[1], {"length": lengths[0], "unit": mixed[0], "chain": mixed[1]}),
        Observation(
            "long",
            unit[-1].rms > chain[-1].rms and unit[-1].lean < -0.9,
            {"length": lengths[-1], "unit": unit[-1].rms, "chain": chain[-1].rms, "lean": unit[-1].lean},
        ),
        Observation(
            "growth",
            len(lengths) > 1 and growth > 2 * root and root / 2 < chain_growth < 2 * root,
            {"growth": growth, "span": span, "chain": chain_growth, "root": root},
        ),
    ]


# 5. FP8.


@dataclass(frozen=True)
class Spelling:
    """One way to write an FP8 product.

    Attributes:
        key: its name in the catalogues.
        error: norm-relative error on positive data.
        both: the same on data of both signs.
        twin: the key of an earlier spelling that has the same bits for every input, or None.
    """

    key: str
    error: float
    both: float
    twin: str | None


SPELLINGS: Mapping[str, Schedule] = {
    "fast": tl_dot(128),
    "fast_64": tl_dot(64),
    "plus_128": tl_dot(128, "+="),
    "plus_64": tl_dot(64, "+="),
    "imprecise_128": tl_dot(128, max_num_imprecise_acc=128),
    "imprecise_32": tl_dot(128, max_num_imprecise_acc=32),
    "small_tile": tl_dot(128, block_m=32),
}


def fp8(settings: Settings) -> Demonstration:
    """FP8 products by every spelling at one length, and over K with and without promotion."""
    found = try_spellings(settings)
    lines = try_promotions(settings)
    columns = [Column("spelling"), Column("positive", ".1e"), Column("both", ".1e"), Column("twin")]
    rows: list[tuple[Value, ...]] = [
        (Label(s.key), s.error, s.both, None if s.twin is None else Label(s.twin)) for s in found.values()
    ]
    labels = {"fast": Label("never"), "promoted": Label("every", {"interval": settings.promotion})}
    series = [Series(labels[name], list(settings.lengths), line) for name, line in lines.items()]
    figure = Figure("fp8", "points", series, ("log2", "log"))
    observations = observe_spellings(found) + observe_promotions(lines, settings.lengths, settings.promotion)
    return Demonstration("fp8", [Table("spellings", columns, rows)], observations, [figure])


def relative(c: NDArray[Any], exact: Array) -> float:
    """Norm-relative error."""
    return float(np.linalg.norm(c - exact) / np.linalg.norm(exact))


def narrow(rng: np.random.Generator, rows: int, depth: int, low: float) -> tuple[Array, Array]:
    """Random E4M3 operands."""
    a, b = uniform(rng, rows, depth, low)
    return FP8_E4M3.round(a), FP8_E4M3.round(b)


def try_spellings(settings: Settings) -> dict[str, Spelling]:
    """Errors of every spelling, and which of them are the same sum in other words."""
    rng = np.random.default_rng(settings.seed + 2)
    data = [narrow(rng, settings.rows, settings.depth, low) for low in (0.0, -1.0)]
    found: dict[str, Spelling] = {}
    for key, schedule in SPELLINGS.items():
        errors = [relative(matmul(a, b, unit="hopper", inputs="e4m3", schedule=schedule), a @ b) for a, b in data]
        same = (other for other in found if same_bits(SPELLINGS[other], schedule, k=settings.depth, inputs="e4m3"))
        found[key] = Spelling(key, errors[0], errors[1], next(same, None))
    return found


def try_promotions(settings: Settings) -> dict[str, list[float]]:
    """Norm-relative errors over K on positive data, without promotion and with it."""
    rng = np.random.default_rng(settings.seed + 3)
    found: dict[str, list[float]] = {"fast": [], "promoted": []}
    for length in settings.lengths:
        a, b = narrow(rng, settings.rows, length, 0.0)
        for name, schedule in (("fast", None), ("promoted", promote(settings.promotion))):
            c = matmul(a, b, unit="hopper.wgmma", inputs="e4m3", schedule=schedule)
            found[name].append(relative(c, a @ b))
    return found


def observe_spellings(found: Mapping[str, Spelling]) -> list[Observation]:
    """Which spellings are the same, what += costs and saves, and what a small tile does."""
    fast, plus, small = found["fast"], found["plus_128"], found["small_tile"]
    return [
        Observation(
            "forms",
            plus.error < fast.error and found["imprecise_128"].twin == "plus_128",
            {"fast": fast.error, "plus": plus.error, "ratio": ratio(fast.error, plus.error)},
        ),
        Observation(
            "block_k",
            found["fast_64"].twin == "fast" and found["plus_64"].twin is None,
            {"wide": plus.error, "narrow": found["plus_64"].error},
        ),
        Observation(
            "small_tile",
            small.twin is None and small.error < fast.error,
            {"small": small.error, "fast": fast.error, "ratio": ratio(fast.error, small.error)},
        ),
        Observation("signs", fast.both < fast.error, {"both": fast.both, "positive": fast.error}),
    ]


def observe_promotions(
    lines: Mapping[str, Sequence[float]], lengths: Sequence[int], interval: int
) -> list[Observation]:
    """Whether the error without promotion grows with K, and with it does not."""
    fast, promoted = lines["fast"], lines["promoted"]
    return [
        Observation(
            "growth",
            len(lengths) > 1 and fast[-1] > 4 * fast[0] and promoted[-1] < fast[-1] / 4,
            {
                "first": fast[0],
                "last": fast[-1],
                "promoted": promoted[-1],
                "shortest": lengths[0],
                "longest": lengths[-1],
                "interval": interval,
            },
        )
    ]


DEMONSTRATIONS: tuple[Callable[[Settings], Demonstration], ...] = (one_step, recordings, precisions, accumulator, fp8)

LECTURE = Lecture("tl-dot", Settings, DEMONSTRATIONS)
