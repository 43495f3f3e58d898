"""Lecture: rounding and accumulation. What one rounding does, what ten thousand do, and what helps.

Five demonstrations: the bias of each rounding mode; sums that stop growing and stochastic rounding's rescue; FP8 dot
products in accumulators of several widths; summation algorithms against their error bounds; and how errors grow with
the number of terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from numfmt import BF16, FP8_E4M3, FP16, FP32, FloatFormat, accumulate, condition_number, error_bound, exact_sum
from numfmt_lectures.lecture import Lecture
from numfmt_lectures.report import Column, Demonstration, Figure, Label, Observation, Series, Table, Value, ratio

__all__ = ["ACC14", "LECTURE", "Settings"]

ACC14 = FloatFormat("ACC14", 8, 13, 127, "ieee")
"""Sign, 8 exponent bits and 13 mantissa bits: what an FP8 product keeps of its running sum on a Hopper tensor core."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """Sizes and seeds.

    Attributes:
        seed: of every random generator.
        samples: values rounded in each mode.
        additions: terms of the sums that stop growing.
        ones: terms of the sums of ones in several rounding modes.
        runs: independent stochastic sums.
        dots: dot products for each length.
        lengths: of the dot products.
        terms: of the sums that the algorithms are compared on.
        promotion: terms between two promotions to FP32.
        sums: sums of each size in the last demonstration.
        sizes: terms of these sums.
    """

    seed: int = 0
    samples: int = 50_000
    additions: int = 10_000
    ones: int = 3_000
    runs: int = 64
    dots: int = 256
    lengths: tuple[int, ...] = (512, 4096, 16384)
    terms: int = 10_000
    promotion: int = 128
    sums: int = 64
    sizes: tuple[int, ...] = (64, 256, 1024, 4096, 16384)

    @classmethod
    def quick(cls) -> Self:
        """Smaller samples and shorter dot products; the figures that both runs print are the same."""
        return cls(
            samples=10_000, additions=5_000, ones=800, runs=32, lengths=(512, 1024), terms=2_000, sizes=(64, 512, 4096)
        )


# 1. One rounding: the bias of the modes.

MODES = ("nearest_even", "nearest_away", "toward_zero", "up", "down", "to_odd", "stochastic")


@dataclass(frozen=True)
class Bias:
    """Rounding errors of one mode, in ulps: means over three kinds of input, and the largest."""

    mode: str
    positive: float
    negative: float
    ties: float
    largest: float


def rounding_bias(settings: Settings) -> Demonstration:
    """Round many values to BF16 in every mode and average the signed errors."""
    rng = np.random.default_rng(settings.seed)
    inputs = 2.0 ** rng.uniform(-8, 8, settings.samples)
    below = np.unique(BF16.round(inputs, "toward_zero"))
    ties = below + BF16.ulp(below) / 2
    rows = [_bias(mode, inputs, ties, settings.seed) for mode in MODES]
    columns = [
        Column("mode"),
        Column("positive", "+.3f"),
        Column("negative", "+.3f"),
        Column("ties", "+.3f"),
        Column("largest", ".3f"),
    ]
    table = Table("modes", columns, [(r.mode, r.positive, r.negative, r.ties, r.largest) for r in rows])
    # A mean of N errors that lie between -1 and 1 ulp is within this of its expectation in all but 1 case of 3000.
    noise = 4 / math.sqrt(settings.samples)
    observations = observe_bias({row.mode: row for row in rows}, noise, 4 / math.sqrt(ties.size))
    figure = Figure(
        "bias",
        "bars",
        [
            Series(Label("positive_inputs"), MODES, [row.positive for row in rows]),
            Series(Label("negative_inputs"), MODES, [row.negative for row in rows]),
        ],
    )
    return Demonstration("bias", [table], observations, [figure])


def _bias(mode: str, inputs: Array, ties: Array, seed: int) -> Bias:
    def errors(values: Array) -> Array:
        rng = np.random.default_rng(seed + 1)
        moved: Array = (BF16.round(values, mode, rng=rng) - values) / BF16.ulp(values)
        return moved

    positive, negative = errors(inputs), errors(-inputs)
    largest = max(float(np.abs(positive).max()), float(np.abs(negative).max()))
    return Bias(mode, float(positive.mean()), float(negative.mean()), float(errors(ties).mean()), largest)


def observe_bias(rows: Mapping[str, Bias], noise: float, tie_noise: float) -> list[Observation]:
    """What the biases say.

    Args:
        rows: a mode's errors under its name.
        noise: ulps by which a mean over the inputs may miss its expectation.
        tie_noise: the same for the mean over the ties.
    """
    even, away, zero, up, down = (rows[m] for m in ("nearest_even", "nearest_away", "toward_zero", "up", "down"))
    chance = rows["stochastic"]
    return [
        Observation(
            "nearest",
            max(abs(even.positive), abs(even.negative)) <= noise and even.largest <= 0.5,
            {"bias": max(even.positive, even.negative, key=abs), "noise": noise, "largest": even.largest},
        ),
        Observation(
            "ties",
            abs(even.ties) <= tie_noise < away.ties,
            {"even": even.ties, "away": away.ties},
        ),
        Observation(
            "truncation",
            zero.positive < -noise and zero.negative > noise,
            {"positive": zero.positive, "negative": zero.negative},
        ),
        Observation(
            "directed",
            min(up.positive, up.negative) > noise and max(down.positive, down.negative) < -noise,
            {"up": up.positive, "down": down.positive},
        ),
        Observation(
            "stochastic",
            max(abs(chance.positive), abs(chance.negative), abs(chance.ties)) <= max(noise, tie_noise)
            and chance.largest > 0.5,
            {"bias": max(chance.positive, chance.negative, key=abs), "largest": chance.largest},
        ),
    ]


# 2. Many roundings: sums that stop growing.


@dataclass(frozen=True)
class Stop:
    """A sum of equal terms, and where it stopped growing."""

    format: str
    increment: float
    exact: float
    stopped: float
    ulp: float


@dataclass(frozen=True)
class Spread:
    """The results of one rounding mode over several sums of the same terms."""

    mode: str
    runs: int
    mean: float
    deviation: float
    lowest: float
    highest: float


def stagnation(settings: Settings) -> Demonstration:
    """Add one number over and over, to nearest, then towards zero and at random."""
    stops = [_stop(fmt, step, settings.additions) for fmt in (BF16, FP16) for step in (1.0, 0.01)]
    columns = [
        Column("format"),
        Column("increment", "g"),
        Column("exact", "g"),
        Column("stopped", "g"),
        Column("ulp", "g"),
        Column("ratio", ".3f"),
    ]
    rows = [(s.format, s.increment, s.exact, s.stopped, s.ulp, s.increment / s.ulp) for s in stops]
    exact = float(settings.ones)
    counts = np.unique(np.linspace(1, settings.ones, 60).astype(int))
    spreads, paths = [], []
    for mode in ("nearest_even", "toward_zero", "stochastic"):
        spread, path = _sums_of_ones(mode, counts, settings)
        spreads.append(spread)
        paths.append(Series(f"BF16 {mode}", counts.tolist(), path))
    rescue_columns = [
        Column("mode"),
        Column("runs", "d"),
        Column("mean", ".1f"),
        Column("deviation", ".1f"),
        Column("lowest", "g"),
        Column("highest", "g"),
        Column("error", "+.2%"),
    ]
    rescue = [(s.mode, s.runs, s.mean, s.deviation, s.lowest, s.highest, s.mean / exact - 1) for s in spreads]
    observations = observe_stops(stops) + observe_rescue({s.mode: s for s in spreads}, exact)
    tables = [Table("stops", columns, rows), Table("rescue", rescue_columns, rescue)]
    steps = counts.tolist()
    figure = Figure("growth", "line", [Series(Label("exact"), steps, steps, dashed=True), *paths[::2]])
    return Demonstration("stagnation", tables, observations, [figure])


def _stop(fmt: FloatFormat, increment: float, additions: int) -> Stop:
    total = float(accumulate(np.full((1, additions), increment), fmt)[0])
    return Stop(fmt.name, increment, increment * additions, total, float(fmt.ulp(total)))


def _sums_of_ones(mode: str, counts: NDArray[np.int_], settings: Settings) -> tuple[Spread, list[float]]:
    """The sums of `settings.ones` ones in BF16, over several runs, and one sum's value after each of `counts` terms."""
    # Without chance one run says all.
    runs = settings.runs if mode == "stochastic" else 1
    # A row for each number of ones, the rest zeros, which change no sum: its result is a partial sum.
    partial = np.arange(settings.ones) < counts[:, None]
    terms = np.concatenate([np.ones((runs, settings.ones)), partial])
    sums = accumulate(terms, BF16, mode, seed=settings.seed)
    totals = sums[:runs]
    deviation = float(totals.std(ddof=1)) if runs > 1 else 0.0
    spread = Spread(mode, runs, float(totals.mean()), deviation, float(totals.min()), float(totals.max()))
    return spread, sums[runs:].tolist()


def observe_stops(stops: list[Stop]) -> list[Observation]:
    """Whether each sum fell short, and whether it stopped where a term is at most half an ulp."""
    short = [s for s in stops if s.stopped < s.exact]
    at_half = [s for s in short if s.increment <= s.ulp / 2]
    return [
        Observation(
            "half_ulp",
            len(at_half) == len(stops),
            {"explained": len(at_half), "short": len(short), "all": len(stops)},
        )
    ]


def observe_rescue(spreads: Mapping[str, Spread], exact: float) -> list[Observation]:
    """Whether the mean of the stochastic sums is the exact sum, as far as so few of them can tell."""
    chance, nearest = spreads["stochastic"], spreads["nearest_even"]
    noise = 4 * chance.deviation / math.sqrt(chance.runs)
    return [
        Observation(
            "rescue",
            abs(chance.mean - exact) <= noise < abs(nearest.mean - exact),
            {
                "mean": chance.mean,
                "exact": exact,
                "noise": noise,
                "runs": chance.runs,
                "nearest": nearest.mean,
            },
        ),
        Observation(
            "price",
            chance.deviation > 0,
            {"deviation": chance.deviation, "relative": chance.deviation / exact},
        ),
    ]


# 3. FP8 dot products: how wide must the accumulator be?


@dataclass(frozen=True)
class Unit:
    """How one accumulator adds products: its format, its rounding, and whether partial sums are promoted to FP32."""

    key: str
    format: FloatFormat
    rounding: str = "nearest_even"
    promoted: bool = False


UNITS = (
    Unit("fp32", FP32),
    Unit("acc14", ACC14),
    Unit("acc14_truncating", ACC14, "toward_zero"),
    Unit("acc14_promoted", ACC14, promoted=True),
    Unit("acc14_truncating_promoted", ACC14, "toward_zero", promoted=True),
    Unit("fp16", FP16),
    Unit("fp16_promoted", FP16, promoted=True),
    Unit("bf16", BF16),
    Unit("bf16_promoted", BF16, promoted=True),
)


def fp8_dots(settings: Settings) -> Demonstration:
    """Dot products of E4M3 vectors, their exact products added in accumulators of several widths."""
    rng = np.random.default_rng(settings.seed)
    errors: dict[str, list[float]] = {unit.key: [] for unit in UNITS}
    for length in settings.lengths:
        a = FP8_E4M3.round(rng.standard_normal((settings.dots, length)))
        b = FP8_E4M3.round(rng.standard_normal((settings.dots, length)))
        products = a * b
        # Products of E4M3 numbers are multiples of 2^-18 below 2^18: float64 holds their sums exactly.
        reference = products.sum(axis=1)
        for unit in UNITS:
            chunk = settings.promotion if unit.promoted else None
            sums = accumulate(products, unit.format, unit.rounding, chunk=chunk)
            errors[unit.key].append(float(np.linalg.norm(sums - reference) / np.linalg.norm(reference)))
    columns = [Column("accumulator"), *(Column(f"k{n}", ".3g", f"K = {n}") for n in settings.lengths)]
    labels = {unit.key: Label(f"unit_{unit.key}", {"promotion": settings.promotion}) for unit in UNITS}
    percent: list[tuple[Value, ...]] = [(labels[key], *(100 * error for error in row)) for key, row in errors.items()]
    table = Table("accumulators", columns, percent)
    figure = Figure(
        "fp8",
        "points",
        _error_lines(errors, labels, settings.lengths),
        ("log2", "log"),
    )
    return Demonstration("fp8", [table], observe_units(errors, settings.lengths, settings.promotion), [figure])


def _error_lines(
    errors: Mapping[str, list[float]], labels: Mapping[str, Label], lengths: tuple[int, ...]
) -> list[Series]:
    """A line for each narrow accumulator, and a dashed one of the same colour for it with promotion."""
    keys = [unit.key for unit in UNITS if not unit.promoted and unit.format is not FP32]
    return [
        Series(labels[key + suffix], list(lengths), errors[key + suffix], dashed=bool(suffix), colour=number)
        for number, key in enumerate(keys)
        for suffix in ("", "_promoted")
    ]


def observe_units(errors: Mapping[str, list[float]], lengths: tuple[int, ...], promotion: int) -> list[Observation]:
    """What the errors of the accumulators, one per length, say of rounding and of promotion."""
    longest = {key: row[-1] for key, row in errors.items()}
    truncating = errors["acc14_truncating"]
    return [
        Observation(
            "truncation",
            longest["acc14_truncating"] > 2 * longest["acc14"],
            {
                "truncating": longest["acc14_truncating"],
                "nearest": longest["acc14"],
                "ratio": ratio(longest["acc14_truncating"], longest["acc14"]),
                "length": lengths[-1],
            },
        ),
        Observation(
            "growth",
            len(lengths) > 1 and truncating[-1] > truncating[0],
            {"first": truncating[0], "last": truncating[-1], "shortest": lengths[0], "longest": lengths[-1]},
        ),
        Observation(
            "promotion",
            all(longest[f"{key}_promoted"] < longest[key] for key in ("acc14", "acc14_truncating", "fp16", "bf16")),
            {
                "promotion": promotion,
                "before": longest["acc14_truncating"],
                "after": longest["acc14_truncating_promoted"],
                "ratio": ratio(longest["acc14_truncating"], longest["acc14_truncating_promoted"]),
            },
        ),
        Observation(
            "fp16_beats_bf16",
            longest["fp16"] < longest["bf16"],
            {"fp16": longest["fp16"], "bf16": longest["bf16"], "ratio": ratio(longest["bf16"], longest["fp16"])},
        ),
    ]


# 4. Summation algorithms and their bounds.


@dataclass(frozen=True)
class Measured:
    """One algorithm in one format: its result, and its error and the bound on it in units of u times the sum of |x|."""

    format: str
    method: str
    result: float
    error: float
    bound: float | None


METHODS = ("sequential", "pairwise", "kahan")


def summation(settings: Settings) -> Demonstration:
    """Uniform values summed three ways in three formats, then an ill-conditioned sum."""
    rng = np.random.default_rng(settings.seed)
    rows = []
    for fmt in (BF16, FP16, FP32):
        values = fmt.round(rng.random(settings.terms))
        rows += [_measure(values, fmt, method) for method in METHODS]
    columns = [
        Column("format"),
        Column("method"),
        Column("result", ".6g"),
        Column("error", ".3g"),
        Column("bound", ".3g"),
    ]
    table = Table("methods", columns, [(r.format, r.method, r.result, r.error, r.bound) for r in rows])
    conditioned = conditioning(settings)
    condition_columns = [
        Column("kappa", ".3g"),
        Column("relative", ".2e"),
        Column("bound", ".2e"),
        Column("digits", ".1f"),
    ]
    digits = [max(0.0, -math.log10(error)) if error else -math.log10(FP32.unit_roundoff) for _, error, _ in conditioned]
    condition = Table("condition", condition_columns, [(*c, d) for c, d in zip(conditioned, digits, strict=True)])
    kappas = [kappa for kappa, _, _ in conditioned]
    figure = Figure(
        "condition",
        "points",
        [
            Series(Label("measured"), kappas, [error for _, error, _ in conditioned]),
            Series(Label("bound"), kappas, [bound for _, _, bound in conditioned], dashed=True),
        ],
        ("log", "log"),
    )
    observations = observe_methods(rows) + observe_condition(conditioned)
    return Demonstration("summation", [table, condition], observations, [figure])


def bound(method: str, terms: int, u: float) -> float | None:
    """The a-priori bound of an algorithm's error, in units of u times the sum of |x|.

    Higham, Accuracy and Stability of Numerical Algorithms (2nd ed.), chapter 4: gamma_{n-1} for the serial sum,
    gamma_{ceil(log2 n)} for the pairwise one, (4.8) for Kahan's: 2u + O(n u^2), taken here as 2u + 2 n u^2.

    Args:
        method: one of `METHODS`.
        terms: how many terms are added.
        u: unit roundoff of the format.

    Returns:
        The bound, or None where n u >= 1 (for Kahan's n u^2) leaves none.
    """
    if method == "kahan":
        return 2 + 2 * terms * u if terms * u < 1 else None
    n = terms - 1 if method == "sequential" else math.ceil(math.log2(terms))
    return n / (1 - n * u) if n * u < 1 else None


def _measure(values: Array, fmt: FloatFormat, method: str) -> Measured:
    result = float(accumulate(values[None, :], fmt, method=method)[0])
    unit = fmt.unit_roundoff * float(exact_sum(np.abs(values)))
    error = abs(result - float(exact_sum(values))) / unit
    return Measured(fmt.name, method, result, error, bound(method, values.size, fmt.unit_roundoff))


def conditioning(settings: Settings) -> list[tuple[float, float, float]]:
    """Condition number, relative error of the serial FP32 sum and its bound, for sums that cancel more and more."""
    rng = np.random.default_rng(settings.seed + 1)
    terms = 2048
    positive = rng.uniform(1, 2, terms // 2)
    order = rng.permutation(terms)
    rows = []
    for digits in range(7):
        values = FP32.round(np.concatenate([positive, -positive * (1 - 2 * 10.0**-digits)]))[order]
        exact = float(exact_sum(values))
        kappa = float(condition_number(values))
        error = abs(float(accumulate(values[None, :], FP32)[0]) - exact) / abs(exact)
        limit = bound("sequential", terms, FP32.unit_roundoff)
        assert limit is not None
        rows.append((kappa, error, kappa * limit * FP32.unit_roundoff))
    return rows


def observe_methods(rows: list[Measured]) -> list[Observation]:
    """Whether every measured error respects its bound, and what the bounds are worth."""
    bounded = [row for row in rows if row.bound is not None]
    within = [row for row in bounded if row.bound is not None and row.error <= row.bound]
    looseness = [row.bound / row.error for row in bounded if row.bound is not None and row.error > 0]
    by_name = {(row.format, row.method): row for row in rows}
    stuck = by_name["FP16", "sequential"]
    cured = by_name["FP16", "pairwise"]
    return [
        Observation(
            "within",
            len(within) == len(bounded),
            {
                "within": len(within),
                "bounded": len(bounded),
                "unbounded": len(rows) - len(bounded),
                "loose": max(looseness, default=1.0),
            },
        ),
        Observation(
            "pairwise",
            cured.error < stuck.error,
            {"serial": stuck.result, "pairwise": cured.result, "before": stuck.error, "after": cured.error},
        ),
        Observation(
            "kahan",
            all(by_name[fmt, "kahan"].error <= 2 for fmt in ("BF16", "FP16", "FP32")),
            {"largest": max(by_name[fmt, "kahan"].error for fmt in ("BF16", "FP16", "FP32"))},
        ),
    ]


def observe_condition(rows: list[tuple[float, float, float]]) -> list[Observation]:
    """Whether the relative error grows with the condition number and stays below its bound."""
    well, ill = rows[0], rows[-1]
    return [
        Observation(
            "condition",
            ill[1] > 10 * well[1] and all(error <= limit for _, error, limit in rows),
            {"well": well[0], "ill": ill[0], "small": well[1], "large": ill[1]},
        )
    ]


# 5. How errors grow.


@dataclass(frozen=True)
class Way:
    """One way to add FP32 numbers: the arguments of `numfmt.accumulate`."""

    rounding: str = "nearest_even"
    method: str = "sequential"


WAYS = {
    "toward_zero": Way("toward_zero"),
    "stochastic": Way("stochastic"),
    "nearest": Way(),
    "pairwise": Way(method="pairwise"),
    "kahan": Way(method="kahan"),
}
CONFIDENCE = 0.999


@dataclass(frozen=True)
class Growth:
    """Errors of one way to add, in units of u times the sum of |x|.

    Attributes:
        rms: at each size.
        exponent: p of the power n^p that fits `rms` best.
        largest: error of any sum of the largest size.
        bound: sure bound there.
        probable: bound that holds with the probability `CONFIDENCE` for each sum if errors are independent; None where
            there is none.
        beyond: sums of the largest size whose error exceeds `probable`.
        broken: sums of the largest size whose error exceeds `bound`.
    """

    rms: Sequence[float]
    exponent: float
    largest: float
    bound: float
    probable: float | None
    beyond: int
    broken: int


def lengths(settings: Settings) -> Demonstration:
    """Errors of sums of positive numbers over the number of terms, and the power of it that they follow."""
    found = measure_growth(settings)
    columns = [Column("terms", "d"), *(Column(name, ".3g") for name in found)]
    rows = [(n, *(g.rms[i] for g in found.values())) for i, n in enumerate(settings.sizes)]
    bound_columns = [
        Column("way"),
        Column("exponent", "+.2f"),
        Column("largest", ".3g"),
        Column("probable", ".3g"),
        Column("bound", ".5g"),
    ]
    bounds: list[tuple[Value, ...]] = [
        (Label(f"way_{name}"), g.exponent, g.largest, g.probable, g.bound) for name, g in found.items()
    ]
    series = [Series(Label(f"way_{name}"), list(settings.sizes), g.rms) for name, g in found.items()]
    figure = Figure("lengths", "points", series, ("log2", "log"))
    tables = [Table("lengths", columns, rows), Table("powers", bound_columns, bounds)]
    return Demonstration("lengths", tables, observe_growth(found, settings.sizes, settings.sums), [figure])


def measure_growth(settings: Settings) -> dict[str, Growth]:
    """Sums of uniform FP32 numbers between 0 and 1 in every way, at every size."""
    rng = np.random.default_rng(settings.seed + 2)
    rms: dict[str, list[float]] = {name: [] for name in WAYS}
    found = {}
    for number, size in enumerate(settings.sizes, 1):
        values = FP32.round(rng.random((settings.sums, size)))
        exact = np.asarray(exact_sum(values))
        unit = FP32.unit_roundoff * exact
        for name, way in WAYS.items():
            total = accumulate(values, FP32, way.rounding, way.method, seed=settings.seed)
            error = np.abs(total - exact) / unit
            rms[name].append(float(np.sqrt((error**2).mean())))
            if number < len(settings.sizes):
                continue
            sure = error_bound(values, FP32, way.rounding, way.method) / unit
            probable = error_bound(values, FP32, way.rounding, way.method, confidence=CONFIDENCE) / unit
            better = bool((probable < sure).all())
            found[name] = Growth(
                rms[name],
                power(settings.sizes, rms[name]),
                float(error.max()),
                float(sure.max()),
                float(probable.max()) if better else None,
                int((error > probable).sum()),
                int((error > sure).sum()),
            )
    return found


def power(sizes: Sequence[int], values: Sequence[float]) -> float:
    """p of the power n^p that fits best, by least squares of the logarithms; 0 if fewer than two are positive."""
    points = [(math.log(n), math.log(value)) for n, value in zip(sizes, values, strict=True) if value > 0]
    if len({x for x, _ in points}) < 2:
        return 0.0
    x, y = np.array(points).T
    return float(np.polyfit(x, y, 1)[0])


def observe_growth(found: Mapping[str, Growth], sizes: Sequence[int], sums: int) -> list[Observation]:
    """Whether biased errors grow like n, unbiased ones like its root, short trees and compensation hardly at all."""
    zero, nearest, chance = (found[name] for name in ("toward_zero", "nearest", "stochastic"))
    flat = [found[name] for name in ("pairwise", "kahan")]
    loose = ratio(nearest.bound, nearest.largest)
    beyond = sum(g.beyond for g in found.values() if g.probable is not None)
    tried = sums * sum(g.probable is not None for g in found.values())
    return [
        Observation(
            "bias",
            zero.exponent > 0.9,
            {"exponent": zero.exponent, "error": zero.rms[-1], "size": sizes[-1]},
        ),
        Observation(
            "root",
            all(0.3 < g.exponent < 0.7 for g in (nearest, chance)),
            {
                "nearest": nearest.exponent,
                "stochastic": chance.exponent,
                "ratio": ratio(chance.rms[-1], nearest.rms[-1]),
            },
        ),
        Observation(
            "flat",
            all(g.exponent < 0.2 for g in flat),
            {"pairwise": flat[0].exponent, "kahan": flat[1].exponent, "error": max(g.rms[-1] for g in flat)},
        ),
        Observation(
            "bounds",
            not any(g.broken for g in found.values()) and nearest.probable is not None,
            {
                "loose": loose,
                "tighter": nearest.bound / (nearest.probable or nearest.bound),
                "beyond": beyond,
                "tried": tried,
                "confidence": CONFIDENCE,
            },
        ),
    ]


DEMONSTRATIONS: tuple[Callable[[Settings], Demonstration], ...] = (
    rounding_bias,
    stagnation,
    fp8_dots,
    summation,
    lengths,
)

LECTURE = Lecture("rounding-and-accumulation", Settings, DEMONSTRATIONS)
