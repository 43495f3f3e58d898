"""Lecture "fpsan": constants known otherwise, kernels judged by hand-made references, observations that can fail."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from lectures_reports import quick_report

import numfmt_lectures

pytest.importorskip("fpsan_tools")
pytest.importorskip("triton")

from numfmt_lectures import fpsan, planted

pytestmark = pytest.mark.triton


@pytest.fixture(scope="module")
def report() -> numfmt_lectures.Report:
    return quick_report("fpsan")


def test_every_observation_holds_by_default(report: numfmt_lectures.Report) -> None:
    observations = [o for d in report.demonstrations for o in d.observations]
    assert len(observations) == 14
    assert [o.key for o in observations if not o.holds] == []


def test_payloads_are_the_published_ones(report: numfmt_lectures.Report) -> None:
    table = report.demonstration("embedding").tables[0]
    payloads = dict(zip(table.column("number"), table.column("payload"), strict=True))
    assert payloads[2.0] == "35606380"
    assert payloads[0.5] == "5FDED582"
    assert payloads[3.0] == "4A1B34DC"
    assert payloads[math.inf] == "4A9F9C81"
    assert payloads[-1.0] == "FFFFFFFF"


def test_sums_in_floats_are_the_serial_ones() -> None:
    found = fpsan.reorder(fpsan.Settings(terms=50, orders=20))
    rng = np.random.default_rng(0)
    values = (rng.standard_normal(50) * 10.0 ** rng.uniform(-6, 0, 50)).astype(np.float32)
    results = set()
    for _ in range(20):
        total = np.float32(0)
        for value in values[rng.permutation(50)]:
            total = np.float32(total + value)
        results.add(float(total))
    assert found.floats == len(results)
    assert found.spread == max(results) - min(results)


def test_one_order_has_one_result_and_is_noticed() -> None:
    text = numfmt_lectures.run("fpsan", quick=True, orders=1, trials=100)
    assert "Not in this run: FP32 was expected to give several results and payloads one" in " ".join(text.split())


@pytest.mark.parametrize("bug", planted.BUGS)
def test_floats_of_each_kernel_are_those_of_its_formula(bug: str) -> None:
    settings = fpsan.Settings(rows=5, columns=6, depth=40)
    if bug.startswith("unmasked"):
        assert not fpsan.judge(bug, settings).inside
        return
    a, b = (x.astype(np.float64) for x in fpsan.operands(settings))
    exact = a @ b
    if bug == "dropped_tail":
        a = a[:, :32]
    if bug == "lost_product":
        a = np.delete(a, 20, axis=1)
        b = np.delete(b, 20, axis=0)
    if bug == "repeated_row":
        a[-1] = a[-2]
    if bug == "hidden_cast":
        a = a.astype(np.float16).astype(np.float64)
    expected = np.abs(a @ b[: a.shape[1]] - exact).max()
    judged = fpsan.judge(bug, settings)
    assert judged.error == pytest.approx(expected, abs=1e-6)
    assert judged.same is (bug == "none")
    assert judged.inside


def test_planted_results_make_observations_fail() -> None:
    payloads = {0.0: 0, 1.0: 1, -1.0: 2**32 - 1, 2.0: 5, -2.0: 2**32 - 5}
    assert [o.holds for o in fpsan.observe_embedding(payloads, True)] == [True] * 4
    planted_payloads = {**payloads, 1.0: 3, -1.0: 4, 2.0: 2, -2.0: 2**32 - 2}
    assert [o.holds for o in fpsan.observe_embedding(planted_payloads, False)] == [False] * 4

    orders = fpsan.Orders(100, 20, 1, 1e-5, 1000, 300, 0)
    assert [o.holds for o in fpsan.observe_orders(orders)] == [True, True]
    assert [o.holds for o in fpsan.observe_orders(dataclasses.replace(orders, payloads=2, missed=1))] == [False, False]
    assert [o.holds for o in fpsan.observe_orders(dataclasses.replace(orders, floats=1, hidden=0))] == [False, False]


@pytest.mark.parametrize(
    ("group", "share", "failed"),
    [
        ("ring", 0.99, ["ring"]),
        ("division", 0.99, ["functions"]),
        ("functions", 0.99, ["functions"]),
        ("softmax", 0.5, ["softmax"]),
        ("lost", 0.9, ["lost"]),
    ],
)
def test_a_planted_identity_fails_its_observation_only(group: str, share: float, failed: list[str]) -> None:
    sound = [
        fpsan.Kept("a", "ring", 1.0, 0.7),
        fpsan.Kept("b", "division", 1.0, 0.7),
        fpsan.Kept("c", "functions", 1.0, 0.7),
        fpsan.Kept("d", "softmax", 1.0, None),
        fpsan.Kept("e", "softmax", 0.0, None),
        fpsan.Kept("f", "lost", 0.0, 1.0),
    ]
    assert all(o.holds for o in fpsan.observe_identities(sound))
    wrong = [dataclasses.replace(k, payloads=share) if k.group == group else k for k in sound]
    assert [o.key for o in fpsan.observe_identities(wrong) if not o.holds] == failed


SOUND = fpsan.Judged("none", 1e-7, True, True, True)
TAIL = fpsan.Judged("dropped_tail", 1e-5, True, False, True)
MASK = fpsan.Judged("unmasked_store", None, None, None, False)


@pytest.mark.parametrize(
    ("sound", "bugs", "failed"),
    [
        (SOUND, [TAIL, MASK], []),
        (dataclasses.replace(SOUND, same=False), [TAIL, MASK], ["sound"]),
        (SOUND, [dataclasses.replace(TAIL, close=False), MASK], ["payloads"]),
        (SOUND, [dataclasses.replace(TAIL, same=True), MASK], ["payloads", "all_found"]),
        (SOUND, [TAIL], ["bounds"]),
    ],
)
def test_planted_judgements_fail_their_observation_only(
    sound: fpsan.Judged, bugs: list[fpsan.Judged], failed: list[str]
) -> None:
    assert [o.key for o in fpsan.observe_judges(sound, SOUND, bugs) if not o.holds] == failed


def test_the_picture_shows_opposite_payloads_at_opposite_numbers(report: numfmt_lectures.Report) -> None:
    (figure,) = report.demonstration("embedding").figures
    (series,) = figure.series
    payload = dict(zip(series.x, series.y, strict=True))
    assert payload[0.0] == 0
    assert payload[1.0] == 2.0**-31
    assert all(payload[-x] == -y for x, y in payload.items() if x and y != -1)
    # Scattered: neighbours are as far apart as two random numbers between 0 and 1 are, a third on average.
    assert 0.28 < np.abs(np.diff(series.y)).mean() < 0.39


# Solutions of the exercises.


def test_solution_without_a_tail_a_dropped_tail_is_no_bug() -> None:
    settings = fpsan.Settings(depth=64)
    judged = {bug: fpsan.judge(bug, settings) for bug in ("dropped_tail", "unmasked_operand")}
    assert all(j.same and j.close and j.inside for j in judged.values())


def test_solution_a_lost_product_slips_through_where_it_is_small() -> None:
    assert fpsan.judge("lost_product", fpsan.Settings(depth=67)).close is False
    longer = fpsan.judge("lost_product", fpsan.Settings(depth=130))
    assert longer.close is True
    assert longer.same is False


def test_solution_sizes_that_fill_their_tiles_hide_a_missing_store_mask() -> None:
    judged = fpsan.judge("unmasked_store", fpsan.Settings(rows=16, columns=16))
    assert judged.inside
    assert judged.same is True


def test_solution_a_sum_of_payloads_is_not_the_sum() -> None:
    from fpsan_tools import algebra

    rules = algebra.get("3.9")
    x, y, z = (rules.embed(np.float32([value]), "fp32") for value in (0.1, 0.2, 0.3))
    one, other = rules.add(rules.add(x, y), z), rules.add(x, rules.add(y, z))
    assert one == other
    assert rules.unembed(one, "fp32").view(np.float32)[0] != np.float32(0.6)
