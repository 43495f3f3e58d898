"""Lecture: quantisation and block scales. What a scale is for, how many numbers may share it, and what a rule loses.

Five demonstrations: how much data one scale can serve; the MX rules for a block's scale; the block formats side by
side; what quantised inputs do to dot products; and dividing by a scale or multiplying by its reciprocal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from numfmt import BF16, FP4_E2M1, FP8_E4M3, FP32, FloatFormat
from numfmt.blocks import BLOCK_FORMATS, MXFP4, NVFP4, BlockFormat
from numfmt.elements import MXINT8_ELEMENT, FixedFormat
from numfmt_lectures.lecture import Lecture
from numfmt_lectures.names import LectureError
from numfmt_lectures.report import Column, Demonstration, Figure, Label, Observation, Series, Table, Value

__all__ = ["LECTURE", "Settings"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """Sizes and seeds.

    Attributes:
        seed: of the random data.
        rows: of the quantised matrices.
        columns: of the quantised matrices.
        outliers: columns whose values are large, as some channels of activations are.
        magnitude: how many times larger they are.
    """

    seed: int = 0
    rows: int = 128
    columns: int = 2048
    outliers: int = 8
    magnitude: int = 100

    def __post_init__(self) -> None:
        if self.columns % 32:
            raise LectureError(f"setting 'columns' takes a multiple of 32, the longest block, not {self.columns}")
        if self.outliers >= self.columns:
            raise LectureError(f"setting 'outliers' takes less than 'columns' = {self.columns}, not {self.outliers}")

    @classmethod
    def quick(cls) -> Self:
        """A smaller matrix."""
        return cls(rows=32, columns=1024, outliers=4)


def quality(x: Array, stored: Array) -> float:
    """Signal-to-quantisation-noise ratio in decibels: 10 log10(sum x^2 / sum (x - stored)^2)."""
    noise = float(np.sum((x - stored) ** 2))
    return math.inf if noise == 0 else 10 * math.log10(float(np.sum(x**2)) / noise)


def data(settings: Settings) -> dict[str, Array]:
    """Two kinds of matrices: normal values, and values whose magnitudes spread over many binades."""
    rng = np.random.default_rng(settings.seed)
    shape = (settings.rows, settings.columns)
    return {
        "normal": rng.standard_normal(shape),
        "wide": rng.standard_normal(shape) * 2.0 ** rng.uniform(-12, 0, shape),
    }


def activations(settings: Settings) -> tuple[Array, NDArray[np.bool_]]:
    """Normal values, but for a few columns that are much larger, and which columns are ordinary."""
    rng = np.random.default_rng(settings.seed)
    x = rng.standard_normal((settings.rows, settings.columns))
    ordinary = np.ones(settings.columns, bool)
    ordinary[rng.permutation(settings.columns)[: settings.outliers]] = False
    x[:, ~ordinary] *= settings.magnitude
    return x, ordinary


# 1. How much data can one scale serve?

ELEMENTS: dict[str, FloatFormat | FixedFormat] = {"FP8_E4M3": FP8_E4M3, "INT8": MXINT8_ELEMENT, "FP4_E2M1": FP4_E2M1}


def sharing(settings: Settings) -> Demonstration:
    """Quantise data with outliers with one scale for all, for a row, and for blocks."""
    x, ordinary = activations(settings)
    found = measure_sharing(x, ordinary)
    columns = [Column("shared"), *(Column(name, ".1f", name) for name in ELEMENTS)]
    labels: dict[int, Label] = {x.size: Label("whole"), settings.columns: Label("row")}
    rows: list[tuple[Value, ...]] = [
        (labels.get(size, Label("block", {"size": size})), *qualities.values()) for size, qualities in found.items()
    ]
    figure = Figure(
        "sharing",
        "points",
        [Series(name, list(found), [qualities[name] for qualities in found.values()]) for name in ELEMENTS],
        ("log2", "linear"),
    )
    return Demonstration("sharing", [Table("sharing", columns, rows)], observe_sharing(found), [figure])


def measure_sharing(x: Array, ordinary: NDArray[np.bool_]) -> dict[int, dict[str, float]]:
    """Decibels of the ordinary columns in each element format, by the number of values that share a scale."""
    columns = x.shape[1]
    sizes = [x.size, columns, *(size for size in (128, 32, 16) if size < columns)]
    found = {}
    for size in sizes:
        flat = x.reshape(-1, size)
        formats = {name: BlockFormat(name, element, size, FP32, "nearest") for name, element in ELEMENTS.items()}
        stored = {name: fmt.round(flat).reshape(x.shape) for name, fmt in formats.items()}
        found[size] = {name: quality(x[:, ordinary], values[:, ordinary]) for name, values in stored.items()}
    return found


def observe_sharing(found: Mapping[int, Mapping[str, float]]) -> list[Observation]:
    """Who needs small blocks, and who has exponents of its own."""
    whole, smallest = found[max(found)], found[min(found)]
    gain = {name: smallest[name] - whole[name] for name in whole}
    return [
        Observation(
            "integers",
            gain["INT8"] > gain["FP8_E4M3"] + 3 and gain["FP4_E2M1"] > gain["FP8_E4M3"] + 3,
            {"int8": gain["INT8"], "fp4": gain["FP4_E2M1"], "fp8": gain["FP8_E4M3"], "size": min(found)},
        ),
        Observation(
            "floating",
            whole["FP8_E4M3"] > whole["INT8"],
            {"fp8": whole["FP8_E4M3"], "int8": whole["INT8"]},
        ),
    ]


# 2. What a rule loses.

RULES = ("floor", "ceil", "rceil", "even")


@dataclass(frozen=True)
class RuleLoss:
    """What one rule does to MXFP4 blocks.

    Attributes:
        rule: its name.
        decibels: quality of all elements.
        saturated: share of the blocks whose largest value was cut down to the largest element.
        worst: largest relative error of a block's largest value.
        bias: mean relative error of it, with its sign.
    """

    rule: str
    decibels: float
    saturated: float
    worst: float
    bias: float


def rules(settings: Settings) -> Demonstration:
    """The four MX rules on the same normal data in MXFP4."""
    x = data(settings)["normal"]
    found = [measure_rule(x, rule) for rule in RULES]
    columns = [
        Column("rule"),
        Column("decibels", ".2f"),
        Column("saturated", ".1%"),
        Column("worst", ".1%"),
        Column("bias", "+.2%"),
    ]
    table = Table("rules", columns, [(r.rule, r.decibels, r.saturated, r.worst, r.bias) for r in found])
    return Demonstration("rules", [table], observe_rules({r.rule: r for r in found}))


def measure_rule(x: Array, rule: str, fmt: BlockFormat = MXFP4) -> RuleLoss:
    """Quantise by a rule and look at each block's largest value."""
    stored = fmt.round(x, rule=rule)
    blocks, kept = x.reshape(-1, fmt.block), stored.reshape(-1, fmt.block)
    place = np.abs(blocks).argmax(axis=1)[:, None]
    largest = np.take_along_axis(blocks, place, 1)[:, 0]
    became = np.take_along_axis(kept, place, 1)[:, 0]
    scales = fmt.quantise(x, rule=rule).scales.reshape(-1)
    saturated = np.abs(largest) > fmt.element.max * scales
    relative = np.abs(became) / np.abs(largest) - 1
    return RuleLoss(
        rule, quality(x, stored), float(saturated.mean()), float(np.abs(relative).max()), float(relative.mean())
    )


def observe_rules(found: Mapping[str, RuleLoss]) -> list[Observation]:
    """What the specification's own rule costs, and what never saturates."""
    floor, rceil = found["floor"], found["rceil"]
    best = max(found.values(), key=lambda r: r.decibels)
    return [
        Observation(
            "floor",
            floor.saturated > 0 and floor.bias < 0,
            {"saturated": floor.saturated, "worst": floor.worst, "bias": floor.bias},
        ),
        Observation("rceil", rceil.saturated == 0, {"saturated": rceil.saturated, "decibels": rceil.decibels}),
        Observation(
            "best",
            best.rule != "floor",
            {"best": best.rule, "decibels": best.decibels, "floor": floor.decibels},
        ),
    ]


# 3. The formats side by side.


@dataclass(frozen=True)
class Stored:
    """How well a block format stores two kinds of data.

    Attributes:
        name: of the format.
        bits: per value.
        normal: decibels on normal values.
        wide: decibels on values spread over many binades.
        flushed: share of the latter that become zero.
    """

    name: str
    bits: float
    normal: float
    wide: float
    flushed: float


def formats(settings: Settings) -> Demonstration:
    """Every block format on two kinds of data."""
    found = measure_formats(data(settings))
    columns = [
        Column("format"),
        Column("bits", ".2f"),
        Column("normal", ".1f"),
        Column("wide", ".1f"),
        Column("flushed", ".2%"),
    ]
    rows = [(s.name, s.bits, s.normal, s.wide, s.flushed) for s in found.values()]
    figure = Figure(
        "formats",
        "bars",
        [Series(Label(kind), list(found), [getattr(s, kind) for s in found.values()]) for kind in ("normal", "wide")],
    )
    return Demonstration("formats", [Table("formats", columns, rows)], observe_formats(found), [figure])


def measure_formats(matrices: Mapping[str, Array]) -> dict[str, Stored]:
    """Store the data in every block format."""
    found = {}
    for name, fmt in BLOCK_FORMATS.items():
        stored = {kind: fmt.round(x) for kind, x in matrices.items()}
        decibels = {kind: quality(x, stored[kind]) for kind, x in matrices.items()}
        flushed = float(((stored["wide"] == 0) & (matrices["wide"] != 0)).mean())
        found[name] = Stored(name, fmt.bits_per_value, decibels["normal"], decibels["wide"], flushed)
    return found


def observe_formats(found: Mapping[str, Stored]) -> list[Observation]:
    """What smaller blocks with finer scales buy, and what decibels do not show."""
    mx, nv = found["MXFP4"], found["NVFP4"]
    integers, floats = found["MXINT8"], found["MXFP8_E4M3"]
    return [
        Observation(
            "nvfp4",
            nv.normal > mx.normal,
            {"nv": nv.normal, "mx": mx.normal, "gain": nv.normal - mx.normal, "bits": nv.bits - mx.bits},
        ),
        Observation("integers", integers.normal > floats.normal, {"int8": integers.normal, "fp8": floats.normal}),
        Observation(
            "flushed",
            integers.flushed > floats.flushed,
            {
                "int8": integers.flushed,
                "fp8": floats.flushed,
                "int8_decibels": integers.wide,
                "fp8_decibels": floats.wide,
            },
        ),
    ]


# 4. What quantised inputs do to dot products.


def dots(settings: Settings) -> Demonstration:
    """Dot products of quantised vectors, summed exactly: the error that no accumulator can repair."""
    rng = np.random.default_rng(settings.seed + 1)
    a, b = (rng.standard_normal((settings.rows, settings.columns)) for _ in range(2))
    found = measure_dots(a, b)
    columns = [Column("format"), Column("element", ".3%"), Column("product", ".3%")]
    rows = [(name, *errors) for name, errors in found.items()]
    return Demonstration("dots", [Table("dots", columns, rows)], observe_dots(found))


def measure_dots(a: Array, b: Array) -> dict[str, tuple[float, float]]:
    """Norm-relative errors of the elements of a, and of the dot products of a's rows with b's."""
    exact = a @ b.T
    found = {}
    for name, fmt in BLOCK_FORMATS.items():
        p, q = fmt.round(a), fmt.round(b)
        element = float(np.linalg.norm(p - a) / np.linalg.norm(a))
        found[name] = (element, float(np.linalg.norm(p @ q.T - exact) / np.linalg.norm(exact)))
    return found


def observe_dots(found: Mapping[str, tuple[float, float]]) -> list[Observation]:
    """Whether the errors of both sides simply add up as independent ones do."""
    ratios = [product / (math.sqrt(2) * element) for element, product in found.values()]
    worst = max(found, key=lambda name: found[name][1])
    return [
        Observation(
            "independent",
            all(0.8 < ratio < 1.25 for ratio in ratios),
            {"low": min(ratios), "high": max(ratios)},
        ),
        Observation(
            "budget",
            found["MXFP8_E4M3"][1] > 0.01,
            {"fp8": found["MXFP8_E4M3"][1], "worst": worst, "error": found[worst][1]},
        ),
    ]


# 5. Dividing, or multiplying by the reciprocal.

QUOTIENTS = ("exact", "float32", "reciprocal_float32")


def division(settings: Settings) -> Demonstration:
    """NVFP4 elements by three ways of dividing: how many differ from the definition's."""
    rng = np.random.default_rng(settings.seed + 2)
    # BF16 data, as kernels quantise: short significands make quotients that are exact ties.
    x = BF16.round(rng.standard_normal((settings.rows, settings.columns)))
    elements = {way: NVFP4.quantise(x, quotient=way, tensor_scale=1.0).elements for way in QUOTIENTS}
    counts = {way: int((found != elements["exact"]).sum()) for way, found in elements.items()}
    columns = [Column("quotient"), Column("values", "d"), Column("differ", "d")]
    table = Table("division", columns, [(way, x.size, count) for way, count in counts.items()])
    return Demonstration("division", [table], observe_division(counts, x.size, *textbook_division()))


def textbook_division() -> tuple[float, float]:
    """The element of one number, divided by its scale and multiplied by its reciprocal, in float32."""
    value, scale = np.float32(0.02392577938735485), np.float32(7 * 2.0**-9)
    divided, multiplied = value / scale, value * (np.float32(1) / scale)
    return float(FP4_E2M1.round(float(divided))), float(FP4_E2M1.round(float(multiplied)))


def observe_division(counts: Mapping[str, int], size: int, divided: float, multiplied: float) -> list[Observation]:
    """Whether the reciprocal changes elements, and the example."""
    return [
        Observation("example", divided != multiplied, {"divided": divided, "multiplied": multiplied}),
        Observation(
            "seldom",
            counts["exact"] == 0 < counts["reciprocal_float32"] < size / 10,
            {"reciprocal": counts["reciprocal_float32"], "float32": counts["float32"], "size": size},
        ),
    ]


DEMONSTRATIONS: tuple[Callable[[Settings], Demonstration], ...] = (sharing, rules, formats, dots, division)

LECTURE = Lecture("block-scales", Settings, DEMONSTRATIONS)
