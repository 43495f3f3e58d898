"""Lecture "numbers": figures against facts known otherwise, and observations that notice when their premise fails."""

from __future__ import annotations

import dataclasses
import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from lectures_reports import quick_report

import numfmt_lectures
from numfmt import BF16, FP4_E2M1, FP8_E3M4, FP8_E4M3, FP8_E5M2, FP16, FP32, FP64, FloatFormat
from numfmt_lectures import numbers


@pytest.fixture(scope="module")
def report() -> numfmt_lectures.Report:
    return quick_report("numbers")


def test_every_observation_holds_by_default(report: numfmt_lectures.Report) -> None:
    observations = [o for d in report.demonstrations for o in d.observations]
    assert len(observations) == 12
    assert [o.key for o in observations if not o.holds] == []


def test_the_bits_of_a_tenth_are_those_of_struct(report: numfmt_lectures.Report) -> None:
    table = report.demonstration("anatomy").tables[0]
    bits = dict(zip(table.column("format"), table.column("bits"), strict=True))
    for name, pattern, width in (("FP64", ">d", 64), ("FP32", ">f", 32), ("FP16", ">e", 16)):
        expected = format(int.from_bytes(struct.pack(pattern, 0.1)), f"0{width}b")
        assert str(bits[name]).replace(" ", "") == expected


def test_a_tenth_is_measured_exactly() -> None:
    taken = numbers.take_apart(FP64, Fraction(1, 10))
    assert taken.error == float((Fraction(0.1) - Fraction(1, 10)) * 10 * 2**53)
    assert taken.error != 0


@pytest.mark.parametrize("fmt", numbers.FORMATS, ids=str)
def test_counting_ends_where_an_integer_is_missing(fmt: FloatFormat) -> None:
    last = numbers.last_integer(fmt)
    counted = [n for n in range(300) if n <= last]
    assert fmt.round(np.array(counted, float)).tolist() == counted
    beyond = np.array([int(last), int(last) + 1], dtype=object)
    assert (fmt.round(beyond) == beyond).tolist() == [True, False]


@pytest.mark.parametrize(
    ("fmt", "expected"), [(FP16, 40), (FP8_E4M3, 18), (FP8_E5M2, 32), (FP4_E2M1, 4), (FP8_E3M4, 10)]
)
def test_binades_are_the_exponents_that_occur(fmt: FloatFormat, expected: int) -> None:
    positive = fmt.finite_values()
    exponents = {math.frexp(value)[1] for value in positive[positive > 0]}
    assert numbers.binades(fmt) == len(exponents) == expected


def test_limits_are_numpys(report: numfmt_lectures.Report) -> None:
    table = report.demonstration("limits").tables[0]
    for name, dtype in (("FP64", np.float64), ("FP32", np.float32), ("FP16", np.float16)):
        row = dict(zip([c.key for c in table.columns], table.rows[table.column("format").index(name)], strict=True))
        info = np.finfo(dtype)
        assert row["largest"] == float(info.max)
        assert row["min_normal"] == float(info.smallest_normal)
        assert row["min_subnormal"] == float(info.smallest_subnormal)
        assert row["u"] == float(info.eps) / 2


def test_the_figure_shows_gaps_between_u_and_2u_for_normal_values(report: numfmt_lectures.Report) -> None:
    for series, fmt in zip(report.demonstration("spacing").figures[0].series, numbers.SMALL, strict=True):
        gaps = np.array(series.y)[np.array(series.x) >= fmt.min_normal]
        assert (gaps > fmt.unit_roundoff).all()
        assert (gaps <= 2 * fmt.unit_roundoff).all()


def test_an_exact_number_is_noticed() -> None:
    report = numfmt_lectures.compute("numbers", quick=True, numerator=3, denominator=4)
    (inexact,) = [o for o in report.demonstration("anatomy").observations if o.key == "inexact"]
    assert not inexact.holds
    text = numfmt_lectures.run("numbers", quick=True, numerator=3, denominator=4)
    assert "Not in this run: 3/4 was expected to be exact in no format" in text


def test_planted_results_make_observations_fail() -> None:
    taken = [numbers.take_apart(fmt, Fraction(1, 10)) for fmt in (FP32, BF16)]
    wrong = [taken[0], dataclasses.replace(taken[1], error=1.5)]
    holds = {o.key: o.holds for o in numbers.observe_anatomy(wrong, Fraction(1, 10))}
    assert holds == {"fields": True, "error": False, "inexact": True}
    wrong = [taken[0], dataclasses.replace(taken[1], exponent=-3)]
    assert not numbers.observe_anatomy(wrong, Fraction(1, 10))[0].holds

    swapped = {f.name: f for f in numbers.FORMATS} | {"FP16": BF16, "BF16": FP16, "FP8_E5M2": FP8_E4M3}
    assert [o.holds for o in numbers.observe_limits(swapped)] == [False, False]

    below = {"FP16": 0.5, "BF16": 0.5, "FP8_E5M2": 0.1}
    integers = {"FP16": 2048.0, "BF16": 4096.0, "FP32": 2.0**24}
    assert [o.holds for o in numbers.observe_spacing(integers, below)] == [False, False]

    found = {fmt.name: numbers.inspect(fmt) for fmt in numbers.SPECIAL}
    found["FP8_E4M3"] = dataclasses.replace(found["FP8_E4M3"], largest=240.0, overflow=240.0)
    found["FP8_E4M3FNUZ"] = dataclasses.replace(found["FP8_E4M3FNUZ"], nans=2)
    assert [o.holds for o in numbers.observe_specials(found)] == [False, False, False]

    rows = [numbers.Twice("BF16", "FP32", 1000, 9), numbers.Twice("FP8_E4M3", "BF16", 1000, 9)]
    assert [o.holds for o in numbers.observe_twice(rows, 1.0, 1.0)] == [False, False]


# Solutions of the exercises.


def test_solution_thirds() -> None:
    # 1/3 = 1.0101...b * 2^-2: an even number of mantissa bits ends in 01|0101.., so it is rounded down; an odd number
    # in 010|101.., so it is rounded up.
    for fmt in (FP64, FP32, FP16, BF16, FP8_E4M3, FP8_E5M2):
        rounded_up = numbers.take_apart(fmt, Fraction(1, 3)).error > 0
        assert rounded_up == (fmt.mantissa_bits % 2 == 1)


def test_solution_own_format() -> None:
    values = FloatFormat("E4M4", 4, 4, 7, "fn").finite_values()
    assert ((values >= 1) & (values < 2)).sum() == ((values >= 2) & (values < 4)).sum() == 16


def test_solution_smallest_missing_integer() -> None:
    assert next(n for n in range(1, 100) if FP8_E4M3.round(float(n)) != n) == 17
