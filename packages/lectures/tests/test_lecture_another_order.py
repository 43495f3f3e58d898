"""Lecture "another-order": the kernels' figures against references of its own, and observations that can fail."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from lectures_reports import quick_report

import numfmt_lectures

pytest.importorskip("triton")
pytest.importorskip("tritongemm")

from numfmt_lectures import another_order as lecture

pytestmark = pytest.mark.triton


@pytest.fixture(scope="module")
def report() -> numfmt_lectures.Report:
    return quick_report("another-order")


def test_every_observation_holds_by_default(report: numfmt_lectures.Report) -> None:
    observations = [o for d in report.demonstrations for o in d.observations]
    assert len(observations) == 9
    assert [o.key for o in observations if not o.holds] == []


def test_the_full_run_shows_the_measured_figures() -> None:
    # A GPU gave rms 0.034 and 0.400 for these kernels, this K and these inputs.
    found = lecture.products(lecture.Settings(rows=64, columns=64))
    assert found["strided_lanes"].rms == pytest.approx(0.034, rel=0.05)
    assert found["blocked"].rms == pytest.approx(0.400, rel=0.1)


def test_blocked_is_a_serial_chain_and_the_lanes_are_lanes() -> None:
    """Three outputs recomputed in exact rationals, each step rounded once to FP32 by hand."""
    found = lecture.products(lecture.Settings(rows=2, columns=2, depth=300))
    rng = np.random.default_rng(0)
    a, b = lecture.uniform(rng, (2, 300)), lecture.uniform(rng, (300, 2))

    def fma(x: np.float32, y: np.float32, z: float) -> float:
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(z)
        near = np.float32(float(exact))
        candidates = [near, np.nextafter(near, np.float32(9)), np.nextafter(near, np.float32(-9))]
        return float(min(candidates, key=lambda c: (abs(Fraction(float(c)) - exact), c.view(np.uint32) & 1)))

    for m, n in ((0, 0), (1, 0), (1, 1)):
        chain = 0.0
        lanes = [0.0] * 256
        for k in range(300):
            chain = fma(a[m, k], b[k, n], chain)
            lanes[k % 256] = fma(a[m, k], b[k, n], lanes[k % 256])
        tree = np.array(lanes, np.float32)
        while tree.size > 1:
            tree = tree[0::2] + tree[1::2]
        assert found["blocked"].bits[m, n] == np.float32(chain)
        assert found["strided_lanes"].bits[m, n] == tree[0]


def test_differences_are_counted_in_bits() -> None:
    rng = np.random.default_rng(0)
    a, b = lecture.uniform(rng, (3, 50)), lecture.uniform(rng, (50, 4))
    payloads = lecture.run("blocked", a, b, "payload")
    assert (payloads == lecture.run("strided_lanes", a, b, "payload")).all()
    assert (payloads != lecture.run("blocked", a, b, "ieee")).any()


def test_verdicts_are_those_of_the_definition() -> None:
    found = lecture.products(lecture.Settings(rows=16, columns=16, depth=512))
    lanes, serial = found["strided_lanes"], found["blocked"]
    t = 2e-6

    def outside(actual: np.ndarray, expected: np.ndarray) -> int:
        pairs = zip(actual.flat, expected.flat, strict=True)
        return sum(abs(float(c) - float(r)) > t + t * abs(float(r)) for c, r in pairs)

    verdicts = lecture.verdicts(lanes, serial, t)
    assert verdicts.blamed == outside(lanes.bits, serial.bits) > 0
    assert verdicts.serial == outside(serial.bits, serial.exact) > 0
    assert verdicts.lanes == outside(lanes.bits, lanes.exact)


def test_planted_results_make_observations_fail() -> None:
    rows = [lecture.Compared("a", 10, 0, 9)]
    assert [o.holds for o in lecture.observe_algebra(rows)] == [True, True]
    assert [o.holds for o in lecture.observe_algebra([lecture.Compared("a", 10, 1, 9)])] == [False, False]
    assert [o.holds for o in lecture.observe_algebra([lecture.Compared("a", 10, 0, 0)])] == [True, False]


def planted(name: str, error: float, bound: float = 10.0) -> lecture.Product:
    exact, magnitude = np.ones((2, 2)), np.full((2, 2), 2.0)
    bits = (exact + error * lecture.U * magnitude).astype(np.float32)
    return lecture.Product(name, bits, bits.copy(), 10, bound, exact, magnitude)


def test_planted_errors_fail_their_observation_only() -> None:
    found = {"strided_lanes": planted("strided_lanes", 1), "blocked": planted("blocked", 3)}
    assert [o.holds for o in lecture.observe_errors(found)] == [True] * 3
    worse = {**found, "strided_lanes": planted("strided_lanes", 5)}
    assert [o.key for o in lecture.observe_errors(worse) if not o.holds] == ["accurate"]
    broken = {**found, "blocked": planted("blocked", 3, bound=2.0)}
    assert [o.key for o in lecture.observe_errors(broken) if not o.holds] == ["bounds"]
    other = dataclasses.replace(found["blocked"], predicted=found["blocked"].bits + np.float32(1))
    assert [o.key for o in lecture.observe_errors({**found, "blocked": other}) if not o.holds] == ["order"]


def test_judges_that_are_fair_are_noticed() -> None:
    kappa = np.array([1.0, 2.0, 3.0, 1000.0])
    failing = kappa > 100
    unjust = [lecture.Verdicts(1e-5, 0, 7, 8)]
    assert [o.holds for o in lecture.observe_judges(unjust, kappa, failing)] == [True, True]
    fair = [lecture.Verdicts(1e-5, 8, 0, 8)]
    assert [o.holds for o in lecture.observe_judges(fair, kappa, kappa < 2)] == [False, False]
    nothing = [lecture.Verdicts(1e-5, 0, 0, 0)]
    assert [o.holds for o in lecture.observe_judges(nothing, kappa, kappa > 1e9)] == [False, False]


def test_errors_that_do_not_grow_are_noticed() -> None:
    sound = lecture.Growth([0.4, 0.4], [0.1, 0.05], [4, 8], [0.7, 0.7])
    assert [o.holds for o in lecture.observe_growth(sound, (256, 1024))] == [True, True]
    flat = dataclasses.replace(sound, serial_positive=[4, 4])
    assert [o.holds for o in lecture.observe_growth(flat, (256, 1024))] == [False, True]
    overtaken = dataclasses.replace(sound, lanes=[0.1, 0.5])
    assert [o.holds for o in lecture.observe_growth(overtaken, (256, 1024))] == [True, False]


# Solutions of the exercises.


def test_solution_a_shorter_sum_has_a_smaller_ratio() -> None:
    ratios = {}
    for depth in (512, 4096):
        found = lecture.products(lecture.Settings(rows=24, columns=24, depth=depth))
        ratios[depth] = found["blocked"].rms / found["strided_lanes"].rms
    assert 1 < ratios[512] < ratios[4096]


def test_solution_lanes_are_a_tree_when_there_are_no_more_products_than_lanes() -> None:
    from tritongemm.kernels import strided_lanes

    assert strided_lanes.order().height(64) == 1 + 8
    found = lecture.measure_growth(lecture.Settings(lengths=(64, 256), sample=16))
    assert all(better < worse for better, worse in zip(found.lanes, found.serial, strict=True))


def test_solution_sorting_by_magnitude_does_not_make_a_serial_sum_a_good_one() -> None:
    from tritongemm.kernels.blocked import blocked
    from tritongemm.reference import reference

    rng = np.random.default_rng(0)
    a, b = lecture.uniform(rng, (1, 2048)), lecture.uniform(rng, (2048, 64))
    order = np.argsort(np.abs(a[0]))

    def rms(a: lecture.Matrix, b: lecture.Matrix) -> float:
        exact, magnitude = reference(a, b)
        return float(np.sqrt(np.mean(((blocked(a, b) - exact) / (lecture.U * magnitude)) ** 2)))

    plain = rms(a, b)
    assert 0.5 * plain < rms(np.ascontiguousarray(a[:, order]), np.ascontiguousarray(b[order])) < 2 * plain
