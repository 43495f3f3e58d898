"""Lecture "rounding-and-accumulation": published figures, references computed otherwise, observations that can fail."""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from lectures_reports import quick_report

import numfmt_lectures
from numfmt import BF16, FP16, FP32, accumulate
from numfmt_lectures import rounding_and_accumulation as lecture
from numfmt_lectures.report import Demonstration, Label, Table

NAME = "rounding-and-accumulation"


@pytest.fixture(scope="module")
def report() -> numfmt_lectures.Report:
    """The full sizes but for the longest dot products, whose figures the shorter ones do not depend on."""
    return numfmt_lectures.compute(NAME, lengths=(512, 4096), ones=1000)


def rows(table: Table) -> dict[tuple[object, ...], dict[str, object]]:
    """A table's rows by their leading texts."""
    keys = [column.key for column in table.columns]
    found = {}
    for row in table.rows:
        leading = tuple(v.key if isinstance(v, Label) else v for v in row if isinstance(v, (str, Label)))
        found[leading] = dict(zip(keys, row, strict=True))
    return found


def test_every_observation_holds_by_default(report: numfmt_lectures.Report) -> None:
    observations = [o for d in report.demonstrations for o in d.observations]
    assert len(observations) == 20
    assert [o.key for o in observations if not o.holds] == []


def test_quick_is_smaller_and_holds_too() -> None:
    report = quick_report(NAME)
    assert all(o.holds for d in report.demonstrations for o in d.observations)
    assert report.settings["lengths"] == (512, 1024)


def test_a_lecture_is_deterministic() -> None:
    again = numfmt_lectures.compute(NAME, quick=True)
    assert again == quick_report(NAME)


# Published figures.


def test_sums_stop_where_published(report: numfmt_lectures.Report) -> None:
    table = report.demonstration("stagnation").tables[0]
    stopped = {(row[0], row[1]): row[3] for row in table.rows}
    assert stopped == {("BF16", 1.0): 256, ("BF16", 0.01): 4, ("FP16", 1.0): 2048, ("FP16", 0.01): 32}


def test_summation_algorithms_give_the_published_sums(report: numfmt_lectures.Report) -> None:
    results = {key: row["result"] for key, row in rows(report.demonstration("summation").tables[0]).items()}
    assert results["BF16", "pairwise"] == results["BF16", "kahan"] == 4992
    assert results["FP16", "pairwise"] == 5056
    assert results["FP16", "kahan"] == 5060
    assert results["FP16", "sequential"] == 2048


@pytest.mark.parametrize(
    ("unit", "percent", "digits"),
    [
        ("unit_acc14", 0.0877, 4),
        ("unit_acc14_truncating", 4.01, 2),
        ("unit_acc14_truncating_promoted", 0.0464, 4),
        ("unit_acc14_promoted", 0.0109, 4),
        ("unit_bf16", 6.94, 2),
        ("unit_fp16", 0.903, 3),
    ],
)
def test_fp8_dot_products_have_the_published_errors(
    report: numfmt_lectures.Report, unit: str, percent: float, digits: int
) -> None:
    row = rows(report.demonstration("fp8").tables[0])[unit,]
    error = row["k4096"]
    assert isinstance(error, float)
    assert round(error, digits) == percent


# References computed otherwise.


def test_bias_of_every_mode_against_exact_expectations(report: numfmt_lectures.Report) -> None:
    expected = {
        "nearest_even": (0, 0, 0),
        "nearest_away": (0, 0, 0.5),
        "toward_zero": (-0.5, 0.5, -0.5),
        "up": (0.5, 0.5, 0.5),
        "down": (-0.5, -0.5, -0.5),
        "to_odd": (0, 0, 0),
        "stochastic": (0, 0, 0),
    }
    table = report.demonstration("bias").tables[0]
    assert table.column("mode") == list(expected)
    for row, (positive, negative, ties) in zip(table.rows, expected.values(), strict=True):
        assert row[1] == pytest.approx(positive, abs=0.02)
        assert row[2] == pytest.approx(negative, abs=0.02)
        assert row[3] == pytest.approx(ties, abs=0.08)


def test_mirrored_modes_mirror_exactly(report: numfmt_lectures.Report) -> None:
    found = rows(report.demonstration("bias").tables[0])
    for mode in ("nearest_even", "nearest_away", "toward_zero", "to_odd"):
        assert found[mode,]["positive"] == -float(found[mode,]["negative"])  # type: ignore[arg-type]
    assert found["up",]["positive"] == -float(found["down",]["negative"])  # type: ignore[arg-type]


def test_errors_of_sums_are_exact(report: numfmt_lectures.Report) -> None:
    rng = np.random.default_rng(0)
    for fmt in (BF16, FP16, FP32):
        values = [Fraction(float(v)) for v in fmt.round(rng.random(10_000))]
        exact, magnitude = sum(values), sum(map(abs, values))
        for method in lecture.METHODS:
            row = rows(report.demonstration("summation").tables[0])[fmt.name, method]
            error = abs(Fraction(float(row["result"])) - exact) / (Fraction(fmt.unit_roundoff) * magnitude)  # type: ignore[arg-type]
            assert row["error"] == pytest.approx(float(error), rel=1e-12)


def test_the_serial_fp32_sum_is_numpys(report: numfmt_lectures.Report) -> None:
    rng = np.random.default_rng(0)
    rng.random(20_000)
    values = rng.random(10_000).astype(np.float32)
    serial = np.add.accumulate(values)[-1]
    assert rows(report.demonstration("summation").tables[0])["FP32", "sequential"]["result"] == float(serial)


def test_condition_numbers_and_errors_are_exact() -> None:
    for kappa, error, limit in lecture.conditioning(lecture.Settings()):
        assert error <= limit
        assert limit == pytest.approx(kappa * 2047 * 2.0**-24 / (1 - 2047 * 2.0**-24))
    kappas = [kappa for kappa, _, _ in lecture.conditioning(lecture.Settings())]
    assert kappas[0] == pytest.approx(1)
    assert all(later / earlier == pytest.approx(10, rel=0.3) for earlier, later in itertools.pairwise(kappas[1:]))


@pytest.mark.parametrize(("terms", "u"), [(10_000, 2.0**-24), (100, 2.0**-11), (129, 2.0**-8)])
def test_bounds_are_the_textbooks(terms: int, u: float) -> None:
    def gamma(n: int) -> Fraction:
        return n * Fraction(u) / (1 - n * Fraction(u))

    for method, n in (("sequential", terms - 1), ("pairwise", (terms - 1).bit_length())):
        assert lecture.bound(method, terms, u) == pytest.approx(float(gamma(n) / Fraction(u)))


def test_there_is_no_bound_where_n_u_reaches_one() -> None:
    assert lecture.bound("sequential", 257, 2.0**-8) is None
    assert lecture.bound("sequential", 256, 2.0**-8) is not None
    assert lecture.bound("kahan", 256, 2.0**-8) is None
    assert lecture.bound("pairwise", 10_000, 2.0**-8) == pytest.approx(14 / (1 - 14 / 256))


def test_no_worst_case_beats_the_bound() -> None:
    # 1, then terms of just over half an ulp: every rounding errs by almost u, in the same direction.
    u = FP16.unit_roundoff
    values = np.array([1.0] + [u * (1 + 2.0**-10)] * 400)
    exact = math.fsum(values)
    error = abs(float(accumulate(values[None], FP16)[0]) - exact) / (u * exact)
    limit = lecture.bound("sequential", values.size, u)
    assert limit is not None
    assert 0.5 * limit < error <= limit


# Observations notice when their premise fails.


def biases() -> dict[str, lecture.Bias]:
    return {
        "nearest_even": lecture.Bias("nearest_even", 0.0, 0.0, 0.0, 0.5),
        "nearest_away": lecture.Bias("nearest_away", 0.0, 0.0, 0.5, 0.5),
        "toward_zero": lecture.Bias("toward_zero", -0.5, 0.5, -0.5, 1.0),
        "up": lecture.Bias("up", 0.5, 0.5, 0.5, 1.0),
        "down": lecture.Bias("down", -0.5, -0.5, -0.5, 1.0),
        "stochastic": lecture.Bias("stochastic", 0.0, 0.0, 0.0, 1.0),
    }


def test_sound_biases_hold() -> None:
    assert [o.holds for o in lecture.observe_bias(biases(), 0.01, 0.01)] == [True] * 5


@pytest.mark.parametrize(
    ("mode", "change", "key"),
    [
        ("nearest_even", {"positive": 0.2}, "nearest"),
        ("nearest_even", {"largest": 0.6}, "nearest"),
        ("nearest_even", {"ties": 0.5}, "ties"),
        ("nearest_away", {"ties": 0.0}, "ties"),
        ("toward_zero", {"negative": -0.5}, "truncation"),
        ("up", {"negative": -0.5}, "directed"),
        ("stochastic", {"negative": 0.1}, "stochastic"),
        ("stochastic", {"largest": 0.5}, "stochastic"),
    ],
)
def test_a_planted_bias_fails_its_observation_only(mode: str, change: dict[str, float], key: str) -> None:
    planted = biases()
    planted[mode] = dataclasses.replace(planted[mode], **change)
    failed = [o.key for o in lecture.observe_bias(planted, 0.01, 0.01) if not o.holds]
    assert failed == [key]


def test_a_sum_that_does_not_stop_is_noticed() -> None:
    text = numfmt_lectures.run(NAME, quick=True, additions=100)
    assert "Not in this run: 1 of 4 sums fell short" in " ".join(text.split())
    sound = lecture.Stop("BF16", 1.0, 1000.0, 256.0, 2.0)
    assert lecture.observe_stops([sound])[0].holds
    assert not lecture.observe_stops([sound, dataclasses.replace(sound, stopped=1000.0)])[0].holds
    assert not lecture.observe_stops([dataclasses.replace(sound, ulp=1.0)])[0].holds


@pytest.mark.parametrize(
    ("mode", "change", "expected"),
    [
        ("stochastic", {}, [True, True]),
        ("stochastic", {"mean": 900.0}, [False, True]),
        ("stochastic", {"deviation": 0.0}, [False, False]),
        ("nearest_even", {"mean": 1000.0}, [False, True]),
    ],
)
def test_a_rescue_that_is_none_is_noticed(mode: str, change: dict[str, float], expected: list[bool]) -> None:
    spreads = {
        "stochastic": lecture.Spread("stochastic", 64, 1001.0, 40.0, 900, 1100),
        "nearest_even": lecture.Spread("nearest_even", 1, 256.0, 0.0, 256, 256),
    }
    spreads[mode] = dataclasses.replace(spreads[mode], **change)
    assert [o.holds for o in lecture.observe_rescue(spreads, 1000.0)] == expected


def unit_errors() -> dict[str, list[float]]:
    return {unit.key: [0.01, 0.02] for unit in lecture.UNITS} | {
        "acc14_truncating": [0.1, 0.4],
        "acc14_promoted": [0.001, 0.001],
        "acc14_truncating_promoted": [0.001, 0.001],
        "fp16_promoted": [0.001, 0.001],
        "bf16_promoted": [0.001, 0.001],
        "bf16": [0.5, 0.6],
    }


@pytest.mark.parametrize(
    ("unit", "errors", "failed"),
    [
        ("fp32", [0.0, 0.0], []),
        ("acc14", [0.5, 0.5], ["truncation"]),
        ("acc14_truncating", [0.4, 0.4], ["growth"]),
        ("bf16_promoted", [0.7, 0.7], ["promotion"]),
        ("fp16", [0.7, 0.7], ["fp16_beats_bf16"]),
    ],
)
def test_planted_units_fail_their_observation_only(unit: str, errors: list[float], failed: list[str]) -> None:
    observations = lecture.observe_units(unit_errors() | {unit: errors}, (512, 4096), 128)
    assert [o.key for o in observations if not o.holds] == failed


def test_one_length_cannot_show_growth() -> None:
    (growth,) = [
        o for o in lecture.observe_units({k: v[:1] for k, v in unit_errors().items()}, (512,), 128) if o.key == "growth"
    ]
    assert not growth.holds


@pytest.mark.parametrize(
    ("place", "change", "failed"),
    [
        (("FP32", "sequential"), {"error": 2e4}, ["within"]),
        (("FP16", "pairwise"), {"error": 13.9, "bound": 14.1}, ["pairwise"]),
        (("BF16", "kahan"), {"error": 2.5}, ["kahan"]),
    ],
)
def test_planted_sums_fail_their_observation_only(
    place: tuple[str, str], change: dict[str, float], failed: list[str]
) -> None:
    measured = {
        (fmt, method): lecture.Measured(fmt, method, 1.0, 12.0 if method == "sequential" else 1.0, 1e4)
        for fmt in ("BF16", "FP16", "FP32")
        for method in lecture.METHODS
    }
    assert all(o.holds for o in lecture.observe_methods(list(measured.values())))
    measured[place] = dataclasses.replace(measured[place], **change)
    assert [o.key for o in lecture.observe_methods(list(measured.values())) if not o.holds] == failed


@pytest.mark.parametrize(
    ("conditioned", "holds"),
    [
        ([(1, 1e-7, 1e-4), (1e6, 1e-2, 1e2)], True),
        ([(1, 1e-7, 1e-4), (1e6, 5e-7, 1e2)], False),
        ([(1, 1e-3, 1e-4), (1e6, 1e-1, 1e2)], False),
    ],
)
def test_condition_that_does_not_matter_is_noticed(conditioned: list[tuple[float, float, float]], holds: bool) -> None:
    assert lecture.observe_condition(conditioned)[0].holds is holds


def test_figures_have_a_point_for_every_row(report: numfmt_lectures.Report) -> None:
    def figure(demonstration: Demonstration) -> list[int]:
        return [len(series.y) for series in demonstration.figures[0].series]

    assert figure(report.demonstration("bias")) == [7, 7]
    assert figure(report.demonstration("fp8")) == [2] * 8
    assert figure(report.demonstration("summation")) == [7, 7]
    assert figure(report.demonstration("lengths")) == [5] * 5
    assert len(set(figure(report.demonstration("stagnation")))) == 1


# How errors grow.


def test_a_power_is_found() -> None:
    assert lecture.power((1, 2, 4, 8), [3.0, 6.0, 12.0, 24.0]) == pytest.approx(1)
    assert lecture.power((1, 4, 16), [5.0, 10.0, 20.0]) == pytest.approx(0.5)
    assert lecture.power((1, 4, 16), [0.0, 10.0, 20.0]) == pytest.approx(0.5)
    assert lecture.power((64,), [5.0]) == lecture.power((1, 2), [0.0, 1.0]) == 0


def test_errors_over_n_are_those_of_exact_rationals() -> None:
    settings = lecture.Settings(sums=2, sizes=(100,))
    found = lecture.measure_growth(settings)
    values = FP32.round(np.random.default_rng(settings.seed + 2).random((2, 100)))
    for name, step in (("nearest", np.float32), ("toward_zero", _toward_zero)):
        squares = Fraction(0)
        for row in values:
            total, exact = np.float32(0), sum(map(Fraction, row.tolist()), Fraction(0))
            for value in row:
                total = step(float(total) + float(value))  # a float64 sum of two FP32 numbers of like size is exact
            squares += ((Fraction(float(total)) - exact) / (exact / 2**24)) ** 2
        assert found[name].rms[0] == pytest.approx(math.sqrt(squares / 2), rel=1e-9)
    assert 99 <= found["nearest"].bound < 100.01


def _toward_zero(x: float) -> np.float32:
    near = np.float32(x)
    return np.nextafter(near, np.float32(0)) if abs(float(near)) > abs(x) else near


def test_planted_growth_fails_its_observation() -> None:
    sound = {
        "toward_zero": lecture.Growth([20, 5000], 1.0, 5500, 32000, None, 0, 0),
        "stochastic": lecture.Growth([3, 40], 0.5, 100, 32000, 1500, 0, 0),
        "nearest": lecture.Growth([2, 25], 0.5, 65, 16000, 750, 1, 0),
        "pairwise": lecture.Growth([0.7, 0.8], 0.0, 2, 14, None, 0, 0),
        "kahan": lecture.Growth([0.5, 0.4], 0.0, 1, 5, None, 0, 0),
    }

    def failing(**changes: object) -> list[str]:
        (name, change), *_ = changes.items()
        planted = {**sound, name: dataclasses.replace(sound[name], **change)}  # type: ignore[arg-type]
        return [o.key for o in lecture.observe_growth(planted, (64, 16384), 64) if not o.holds]

    assert failing(toward_zero={"exponent": 0.95}) == []
    assert failing(toward_zero={"exponent": 0.5}) == ["bias"]
    assert failing(stochastic={"exponent": 1.0}) == ["root"]
    assert failing(kahan={"exponent": 0.5}) == ["flat"]
    assert failing(pairwise={"broken": 1}) == ["bounds"]
    assert failing(nearest={"probable": None}) == ["bounds"]


# Solutions of the exercises.


def test_solution_promotion_helps_until_the_partial_sums_are_short() -> None:
    errors = {}
    for promotion in (32, 128, 512):
        report = numfmt_lectures.compute(NAME, quick=True, lengths=(1024,), promotion=promotion)
        errors[promotion] = rows(report.demonstration("fp8").tables[0])["unit_acc14_truncating_promoted",]["k1024"]
    assert errors[32] < errors[128] < errors[512]  # type: ignore[operator]


def test_solution_truncation_grows_faster_than_rounding() -> None:
    report = numfmt_lectures.compute(NAME, quick=True, lengths=(256, 2048))
    found = rows(report.demonstration("fp8").tables[0])
    growth = {
        key: found[f"unit_{key}",]["k2048"] / found[f"unit_{key}",]["k256"] for key in ("acc14", "acc14_truncating")
    }  # type: ignore[operator]
    assert growth["acc14_truncating"] > 2 * growth["acc14"]


def test_solution_more_additions_stop_at_the_same_place() -> None:
    for additions in (10_000, 20_000):
        stops = lecture._stop(BF16, 1.0, additions)
        assert stops.stopped == 256


def test_solution_300_terms_have_a_bound_in_fp16() -> None:
    limit = lecture.bound("sequential", 300, FP16.unit_roundoff)
    assert limit is not None
    assert limit == pytest.approx(299 / (1 - 299 / 2048))


def test_solution_round_to_odd_errs_by_up_to_an_ulp() -> None:
    bias = lecture._bias("to_odd", np.random.default_rng(0).uniform(1, 2, 10_000), np.array([1 + 2.0**-8]), 0)
    assert 0.9 < bias.largest <= 1


def test_solution_the_probable_bound_is_seldom_exceeded() -> None:
    found = lecture.measure_growth(lecture.Settings(sizes=(16, 64, 256), sums=1000))
    assert 0.3 < found["nearest"].exponent < 0.7
    # Each of 1000 sums may exceed it with a probability of 0.001.
    assert found["nearest"].beyond + found["stochastic"].beyond <= 10
    assert found["nearest"].probable is not None
    assert found["nearest"].largest < found["nearest"].probable
