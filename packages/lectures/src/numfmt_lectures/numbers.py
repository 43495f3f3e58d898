"""Lecture: numbers. What a format's bits mean, how far it reaches, how densely its values lie, and what is special.

Five demonstrations: one number in several formats, bit by bit; the limits of formats; the spacing of their values;
special values and overflow; and why a value must be rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np

from numfmt import (
    BF16,
    FP4_E2M1,
    FP8_E3M4,
    FP8_E4M3,
    FP8_E4M3_IEEE,
    FP8_E4M3FNUZ,
    FP8_E5M2,
    FP8_E5M2FNUZ,
    FP16,
    FP32,
    FP64,
    TF32,
    FloatFormat,
)
from numfmt_lectures.lecture import Lecture
from numfmt_lectures.report import Column, Demonstration, Figure, Observation, Series, Table

__all__ = ["LECTURE", "Settings"]

FORMATS = (FP64, FP32, TF32, FP16, BF16, FP8_E5M2, FP8_E4M3, FP8_E3M4, FP4_E2M1)
SMALL = (FP8_E5M2, FP8_E4M3, FP8_E3M4, FP4_E2M1)
SPECIAL = (FP32, FP16, FP8_E5M2, FP8_E5M2FNUZ, FP8_E4M3_IEEE, FP8_E4M3, FP8_E4M3FNUZ, FP4_E2M1)


@dataclass(frozen=True)
class Settings:
    """What can be changed.

    Attributes:
        seed: of the random values.
        numerator: of the number that is taken apart.
        denominator: of the number that is taken apart.
        samples: values that are rounded twice.
    """

    seed: int = 0
    numerator: int = 1
    denominator: int = 10
    samples: int = 200_000

    @classmethod
    def quick(cls) -> Self:
        """Fewer values to round twice."""
        return cls(samples=50_000)


# 1. One number, bit by bit.


@dataclass(frozen=True)
class Taken:
    """A number rounded to one format: its fields, its value and its relative error in units of u."""

    format: str
    bits: str
    exponent: int
    significand: float
    value: float
    error: float


def anatomy(settings: Settings) -> Demonstration:
    """Take one number apart in several formats."""
    number = Fraction(settings.numerator, settings.denominator)
    taken = [take_apart(fmt, number) for fmt in FORMATS if fmt.min_normal <= number <= fmt.max]
    bits = Table("bits", [Column("format"), Column("bits")], [(t.format, t.bits) for t in taken])
    columns = [
        Column("format"),
        Column("exponent", "d"),
        Column("significand", ".10g"),
        Column("value", ".10g"),
        Column("error", "+.3f"),
    ]
    rows = [(t.format, t.exponent, t.significand, t.value, t.error) for t in taken]
    return Demonstration("anatomy", [bits, Table("fields", columns, rows)], observe_anatomy(taken, number))


def take_apart(fmt: FloatFormat, number: Fraction) -> Taken:
    """Round a positive normal number to a format and split its code into sign, exponent field and mantissa field."""
    given = np.array([number], dtype=object)
    value = float(fmt.round(given)[0])
    code = format(int(fmt.encode(given)[0]), f"0{fmt.bits}b")
    ends = (1, 1 + fmt.exponent_bits)
    exponent = int(code[ends[0] : ends[1]], 2) - fmt.bias
    error = float((Fraction(value) - number) / number / Fraction(fmt.unit_roundoff))
    bits = f"{code[:1]} {code[ends[0] : ends[1]]} {code[ends[1] :]}"
    return Taken(fmt.name, bits, exponent, value / 2.0**exponent, value, error)


def observe_anatomy(taken: Sequence[Taken], number: Fraction) -> list[Observation]:
    """Whether the fields give the values back, and whether each error is at most u."""
    rebuilt = [t for t in taken if t.significand * 2.0**t.exponent == t.value and 1 <= t.significand < 2]
    exact = [t.format for t in taken if t.error == 0]
    worst = max(taken, key=lambda t: abs(t.error))
    return [
        Observation(
            "fields",
            len(rebuilt) == len(taken) > 0,
            {"rebuilt": len(rebuilt), "all": len(taken), "number": str(number)},
        ),
        Observation(
            "error",
            abs(worst.error) <= 1,
            {"format": worst.format, "error": abs(worst.error)},
        ),
        Observation("inexact", not exact, {"number": str(number), "exact": exact}),
    ]


# 2. How far: limits.


def limits(_: Settings) -> Demonstration:
    """The limits of formats: range is bought with exponent bits, precision with mantissa bits."""
    columns = [
        Column("format"),
        Column("bits", "d"),
        Column("exponent_bits", "d"),
        Column("mantissa_bits", "d"),
        Column("largest", ".4g"),
        Column("min_normal", ".4g"),
        Column("min_subnormal", ".4g"),
        Column("u", ".3g"),
        Column("binades", "d"),
    ]
    rows = [
        (
            fmt.name,
            fmt.bits,
            fmt.exponent_bits,
            fmt.mantissa_bits,
            fmt.max,
            fmt.min_normal,
            fmt.min_subnormal,
            fmt.unit_roundoff,
            binades(fmt),
        )
        for fmt in FORMATS
    ]
    return Demonstration("limits", [Table("limits", columns, rows)], observe_limits({f.name: f for f in FORMATS}))


def binades(fmt: FloatFormat) -> int:
    """Factors of two between the smallest and the largest positive value."""
    return fmt.emax - (math.frexp(fmt.min_subnormal)[1] - 1) + 1


def observe_limits(formats: Mapping[str, FloatFormat]) -> list[Observation]:
    """What the 16-bit and the 8-bit formats trade."""
    bf16, fp16, fp32 = formats["BF16"], formats["FP16"], formats["FP32"]
    e5m2, e4m3 = formats["FP8_E5M2"], formats["FP8_E4M3"]
    return [
        Observation(
            "sixteen",
            bf16.emax == fp32.emax and fp16.unit_roundoff < bf16.unit_roundoff and fp16.max < bf16.max,
            {"digits": bf16.unit_roundoff / fp16.unit_roundoff, "fp16": fp16.max, "bf16": bf16.max},
        ),
        Observation(
            "eight",
            e5m2.max > e4m3.max and e4m3.unit_roundoff < e5m2.unit_roundoff,
            {"e5m2": e5m2.max, "e4m3": e4m3.max, "range5": binades(e5m2), "range4": binades(e4m3)},
        ),
    ]


# 3. How densely: spacing.


def spacing(_: Settings) -> Demonstration:
    """How far apart neighbouring values are, and where the values lie."""
    columns = [
        Column("format"),
        Column("at_one", ".3g"),
        Column("at_hundred", ".3g"),
        Column("integers", "g"),
        Column("below_one", ".1%"),
    ]
    rows: list[tuple[str, float, float | None, float, float | None]] = []
    for fmt in FORMATS:
        hundred = float(fmt.ulp(100.0)) if fmt.max >= 100 else None
        rows.append((fmt.name, float(fmt.ulp(1.0)), hundred, last_integer(fmt), share_below_one(fmt)))
    figure = Figure("spacing", "line", [_relative_gaps(fmt) for fmt in SMALL], ("log2", "log2"))
    observations = observe_spacing({r[0]: r[3] for r in rows}, {r[0]: r[4] for r in rows if r[4] is not None})
    return Demonstration("spacing", [Table("spacing", columns, rows)], observations, [figure])


def last_integer(fmt: FloatFormat) -> float:
    """The largest n such that every integer from 0 to n is a value of the format."""
    # Up to 2^p all integers are there, and 2^p + 1 is not, unless the range ends before.
    return min(2.0**fmt.precision, math.floor(fmt.max))


def share_below_one(fmt: FloatFormat) -> float | None:
    """The share of a format's positive values that are below 1; None for formats too wide to list."""
    if fmt.bits > 16:
        return None
    positive = fmt.finite_values()
    positive = positive[positive > 0]
    return float((positive < 1).mean())


def _relative_gaps(fmt: FloatFormat) -> Series:
    """Distance to the next value, relative to the value: a saw-tooth for normal values, a slope for subnormal ones."""
    positive = fmt.finite_values()
    positive = positive[positive > 0]
    gaps = np.diff(positive) / positive[:-1]
    return Series(fmt.name, positive[:-1].tolist(), gaps.tolist())


def observe_spacing(integers: Mapping[str, float], below: Mapping[str, float]) -> list[Observation]:
    """Up to where counting works, and how lopsided the values lie."""
    return [
        Observation(
            "integers",
            all(integers[name] < 2**24 for name in ("FP16", "BF16")) and integers["BF16"] < integers["FP16"],
            {"bf16": integers["BF16"], "fp16": integers["FP16"], "fp32": integers["FP32"]},
        ),
        Observation(
            "below_one",
            all(0.4 <= below[name] <= 0.6 for name in ("FP16", "BF16", "FP8_E5M2")),
            {"fp16": below["FP16"], "bf16": below["BF16"], "e5m2": below["FP8_E5M2"]},
        ),
    ]


# 4. Special values.


@dataclass(frozen=True)
class Special:
    """Which special values a format has, counted over all its codes, and what an overflow becomes."""

    format: str
    infinities: int | None
    nans: int | None
    negative_zero: bool
    largest: float
    overflow: float


def specials(_: Settings) -> Demonstration:
    """Infinities, NaNs and zeros, counted; and what happens above the largest value."""
    found = [inspect(fmt) for fmt in SPECIAL]
    columns = [
        Column("format"),
        Column("infinities", "d"),
        Column("nans", "d"),
        Column("negative_zero"),
        Column("largest", "g"),
        Column("overflow", "g"),
    ]
    rows = [(s.format, s.infinities, s.nans, s.negative_zero, s.largest, s.overflow) for s in found]
    return Demonstration("specials", [Table("specials", columns, rows)], observe_specials({s.format: s for s in found}))


def inspect(fmt: FloatFormat) -> Special:
    """Count the special codes of a format of at most 16 bits, and overflow it."""
    infinities = nans = None
    if fmt.bits <= 16:
        values = fmt.values()
        infinities, nans = int(np.isinf(values).sum()), int(np.isnan(values).sum())
    return Special(fmt.name, infinities, nans, fmt.negative_zero, fmt.max, float(fmt.round(fmt.max * 2)))


def observe_specials(found: Mapping[str, Special]) -> list[Observation]:
    """What giving up IEEE's special values buys, and that overflow means three different things."""
    ieee, fn = found["FP8_E4M3_IEEE"], found["FP8_E4M3"]
    fnuz, fp4, e5m2 = found["FP8_E4M3FNUZ"], found["FP4_E2M1"], found["FP8_E5M2"]
    spent = (ieee.infinities or 0) + (ieee.nans or 0)
    return [
        Observation(
            "bought",
            fn.largest > ieee.largest,
            {"spent": spent, "kept": (fn.infinities or 0) + (fn.nans or 0), "ieee": ieee.largest, "fn": fn.largest},
        ),
        Observation(
            "overflow",
            math.isinf(e5m2.overflow) and math.isnan(fn.overflow) and fp4.overflow == fp4.largest,
            {"e5m2": e5m2.overflow, "e4m3": fn.overflow, "fp4": fp4.overflow},
        ),
        Observation("fnuz", not fnuz.negative_zero and fnuz.nans == 1, {"nans": fnuz.nans}),
    ]


# 5. Once, not twice.


@dataclass(frozen=True)
class Twice:
    """How often rounding through a middle format differs from rounding once."""

    target: str
    middle: str
    samples: int
    differ: int


def double_rounding(settings: Settings) -> Demonstration:
    """Round to a narrow format directly, and through a format in between."""
    rng = np.random.default_rng(settings.seed)
    values = rng.uniform(1, 2, settings.samples)
    pairs = ((BF16, FP32), (BF16, FP16), (FP8_E4M3, FP16), (FP8_E4M3, BF16))
    rows = [
        Twice(
            target.name,
            middle.name,
            values.size,
            int((target.round(values) != target.round(middle.round(values))).sum()),
        )
        for target, middle in pairs
    ]
    columns = [
        Column("target"),
        Column("middle"),
        Column("samples", "d"),
        Column("differ", "d"),
        Column("share", ".3%"),
    ]
    table = Table("twice", columns, [(r.target, r.middle, r.samples, r.differ, r.differ / r.samples) for r in rows])
    example = 1 + 2.0**-8 + 2.0**-40
    once, twice = float(BF16.round(example)), float(BF16.round(FP32.round(example)))
    return Demonstration("double_rounding", [table], observe_twice(rows, once, twice))


def observe_twice(rows: Sequence[Twice], once: float, twice: float) -> list[Observation]:
    """Whether the detour changed values, and whether the textbook example did."""
    wide, narrow = rows[0], rows[-1]
    return [
        Observation("example", once != twice, {"once": once, "twice": twice}),
        Observation(
            "often",
            narrow.differ > 0 and narrow.differ * wide.samples > wide.differ * narrow.samples,
            {
                "target": narrow.target,
                "middle": narrow.middle,
                "share": narrow.differ / narrow.samples,
                "wide": wide.middle,
                "rare": wide.differ,
                "samples": wide.samples,
            },
        ),
    ]


DEMONSTRATIONS: tuple[Callable[[Settings], Demonstration], ...] = (anatomy, limits, spacing, specials, double_rounding)

LECTURE = Lecture("numbers", Settings, DEMONSTRATIONS)
