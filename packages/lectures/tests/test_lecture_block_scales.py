"""Lecture "block-scales": figures against definitions written out here, and observations that can fail."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from lectures_reports import quick_report

import numfmt_lectures
from numfmt import FP4_E2M1, FP8_E4M3
from numfmt.blocks import MXFP4, MXFP8_E4M3
from numfmt_lectures import block_scales as lecture

NAME = "block-scales"


@pytest.fixture(scope="module")
def report() -> numfmt_lectures.Report:
    return quick_report(NAME)


def test_every_observation_holds_by_default(report: numfmt_lectures.Report) -> None:
    observations = [o for d in report.demonstrations for o in d.observations]
    assert len(observations) == 12
    assert [o.key for o in observations if not o.holds] == []


def test_quality_is_the_ratio_of_powers() -> None:
    x = np.array([3.0, 4.0])
    assert lecture.quality(x, x) == math.inf
    assert lecture.quality(x, x * 0.9) == pytest.approx(20)
    assert lecture.quality(x, x * 0.99) == pytest.approx(40)


def test_a_rule_by_hand() -> None:
    """One block: amax 7 by floor has the scale 2^(2-2) = 1, so 7 is cut down to 6; by rceil the scale is 2."""
    x = np.zeros((1, 32))
    x[0, :3] = [7.0, 1.4, -0.4]
    floor = lecture.measure_rule(x, "floor")
    assert (floor.saturated, floor.worst) == (1.0, 1 - 6 / 7)
    assert floor.bias == pytest.approx(6 / 7 - 1)
    # 7/2 = 3.5 is a tie between 3 and 4, the even one is 4: 8.
    rceil = lecture.measure_rule(x, "rceil")
    assert rceil.saturated == 0
    assert rceil.bias == pytest.approx(8 / 7 - 1)
    assert floor.decibels == pytest.approx(10 * math.log10((49 + 1.96 + 0.16) / (1 + 0.01 + 0.01)))


def test_saturation_by_floor_is_a_largest_value_above_six_scales(report: numfmt_lectures.Report) -> None:
    x = lecture.data(lecture.Settings.quick())["normal"]
    amax = np.abs(x.reshape(-1, 32)).max(axis=1)
    fraction = amax / 2.0 ** np.floor(np.log2(amax))
    table = report.demonstration("rules").tables[0]
    assert table.column("saturated")[table.column("rule").index("floor")] == float((fraction > 1.5).mean())


def test_one_scale_for_all_is_division_by_the_largest() -> None:
    x, ordinary = lecture.activations(lecture.Settings(rows=4, columns=64, outliers=2))
    found = lecture.measure_sharing(x, ordinary)
    assert list(found) == [256, 64, 32, 16]
    scale = np.float64(np.float32(np.abs(x).max() / 448))
    stored = FP8_E4M3.round(x / scale, overflow="saturate") * scale
    assert found[256]["FP8_E4M3"] == pytest.approx(lecture.quality(x[:, ordinary], stored[:, ordinary]), abs=0.01)


def test_outliers_are_columns() -> None:
    x, ordinary = lecture.activations(lecture.Settings(rows=50, columns=64, outliers=3, magnitude=1000))
    assert (~ordinary).sum() == 3
    assert np.abs(x[:, ~ordinary]).max(axis=0).min() > 100 > np.abs(x[:, ordinary]).max()


def test_dot_products_of_exact_inputs_are_exact() -> None:
    a = np.ones((2, 32))
    errors = lecture.measure_dots(a, a)
    assert errors["MXFP4"] == (0.0, 0.0)


def test_planted_results_make_observations_fail() -> None:
    sharing = {
        256: {"FP8_E4M3": 31.0, "INT8": 5.0, "FP4_E2M1": 1.0},
        16: {"FP8_E4M3": 32.0, "INT8": 25.0, "FP4_E2M1": 14.0},
    }
    assert [o.holds for o in lecture.observe_sharing(sharing)] == [True, True]
    level = {256: {"FP8_E4M3": 20.0, "INT8": 24.0, "FP4_E2M1": 14.0}, 16: sharing[16]}
    assert [o.holds for o in lecture.observe_sharing(level)] == [False, False]

    floor = lecture.RuleLoss("floor", 18.0, 0.3, 0.25, -0.06)
    rules = {"floor": floor, "rceil": lecture.RuleLoss("rceil", 19.0, 0.0, 0.2, -0.02)}
    assert [o.holds for o in lecture.observe_rules(rules)] == [True] * 3
    wrong = {
        "floor": dataclasses.replace(floor, bias=0.01, decibels=20.0),
        "rceil": dataclasses.replace(floor, rule="rceil"),
    }
    assert [o.holds for o in lecture.observe_rules(wrong)] == [False] * 3

    stored = {
        "MXFP4": lecture.Stored("MXFP4", 4.25, 18, 17, 0.6),
        "NVFP4": lecture.Stored("NVFP4", 4.5, 20, 22, 0.6),
        "MXINT8": lecture.Stored("MXINT8", 8.25, 41, 38, 0.4),
        "MXFP8_E4M3": lecture.Stored("MXFP8_E4M3", 8.25, 30, 29, 0.001),
    }
    assert [o.holds for o in lecture.observe_formats(stored)] == [True] * 3
    swapped = {
        **stored,
        "NVFP4": dataclasses.replace(stored["NVFP4"], normal=17),
        "MXINT8": dataclasses.replace(stored["MXINT8"], normal=20, flushed=0.0),
    }
    assert [o.holds for o in lecture.observe_formats(swapped)] == [False] * 3

    dots = {"MXFP8_E4M3": (0.03, 0.03 * 2**0.5), "MXFP4": (0.1, 0.14)}
    assert [o.holds for o in lecture.observe_dots(dots)] == [True, True]
    assert [o.holds for o in lecture.observe_dots({**dots, "MXFP8_E4M3": (0.002, 0.009)})] == [False, False]

    counts = {"exact": 0, "float32": 0, "reciprocal_float32": 5}
    assert [o.holds for o in lecture.observe_division(counts, 1000, 1.5, 2.0)] == [True, True]
    assert [o.holds for o in lecture.observe_division({**counts, "reciprocal_float32": 0}, 1000, 2.0, 2.0)] == [
        False,
        False,
    ]


# Solutions of the exercises.


def test_solution_outliers_ruin_rows_of_integers_and_not_of_floats() -> None:
    columns = 1024
    found = {}
    for magnitude in (10, 1000):
        settings = lecture.Settings(rows=16, columns=columns, outliers=4, magnitude=magnitude)
        found[magnitude] = lecture.measure_sharing(*lecture.activations(settings))[columns]
    assert found[10]["INT8"] > 20 > 1 > found[1000]["INT8"]
    assert abs(found[10]["FP8_E4M3"] - found[1000]["FP8_E4M3"]) < 10


def test_solution_an_outlier_spoils_its_own_block_only() -> None:
    clean = np.random.default_rng(0).standard_normal((8, 1024))
    spoilt = clean.copy()
    spoilt[:, 5] = 1000
    before, after = MXFP4.round(clean), MXFP4.round(spoilt)
    assert (before[:, 32:] == after[:, 32:]).all()
    assert (after[:, :5] == 0).all()


def test_solution_quantising_again_is_exact_by_floor_unless_the_scale_moves() -> None:
    x = FP8_E4M3.round(np.random.default_rng(0).standard_normal((64, 1024)))
    floor = (MXFP8_E4M3.round(x, rule="floor") != x).mean()
    rceil = (MXFP8_E4M3.round(x, rule="rceil") != x).mean()
    # floor gives every block its largest value's own binade: the largest exceed 448 scales only above 1.75 * 2^k.
    assert 0 < floor < 0.01
    assert rceil < 0.01


def test_solution_the_rule_without_saturation_has_the_smaller_bias() -> None:
    x = lecture.data(lecture.Settings.quick())["normal"]
    bias = {rule: abs(lecture.measure_rule(x, rule).bias) for rule in lecture.RULES}
    assert bias["floor"] == max(bias.values())
    assert FP4_E2M1.max == 6
