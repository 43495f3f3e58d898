"""Lecture "fp32-from-parts": parts and products against arithmetic written out here, measured figures, what fails."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from lectures_reports import quick_report

import numfmt_lectures
from numfmt.matrix_units import matmul
from numfmt_lectures import fp32_from_parts as lecture
from numfmt_lectures.parts import BF16X6, FP16X3, LONGEST, digits, integer_product, product, split
from numfmt_lectures.recorded import speed

NAME = "fp32-from-parts"


@pytest.fixture(scope="module")
def report() -> numfmt_lectures.Report:
    return quick_report(NAME)


def uniform(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def test_every_observation_holds_by_default(report: numfmt_lectures.Report) -> None:
    observations = [o for d in report.demonstrations for o in d.observations]
    assert len(observations) == 19
    assert [o.key for o in observations if not o.holds] == []


# Parts and products.


def test_half_parts_leave_at_most_two_units() -> None:
    x = np.append(uniform(0, 5000), np.float32(1))[None, :]
    parts, shift = split(x, FP16X3, 1)
    assert 2**14 <= abs(parts[0]).max() <= 2**15
    for i in range(0, 5000, 50):
        rest = sum((Fraction(float(p[0, i])) for p in parts), Fraction(0)) / 2 ** int(shift[0, 0]) - Fraction(
            float(x[0, i])
        )
        assert abs(rest) <= 2 * Fraction(2) ** -24 * abs(Fraction(float(x[0, i]))) or abs(x[0, i]) < 2**-13
        assert all(float(np.float16(p[0, i])) == p[0, i] for p in parts)


def test_bf16_parts_are_exact_and_bf16() -> None:
    x = uniform(1, 3, 500) * np.float32(1e-20)
    parts, shift = split(x, BF16X6, 1)
    assert (shift == 0).all()
    assert (sum(parts) == x).all()
    assert all((p.astype(np.float32).view(np.uint32) & 0xFFFF == 0).all() for p in parts)


@pytest.mark.parametrize("largest", [0.999999, 1.0, 1.9999999, 3.0e-30])
def test_digits_are_the_scaled_integer(largest: float) -> None:
    x = np.append(uniform(2, 200) * largest, largest).astype(np.float32)[None, :]
    found, shift = digits(x, 1)
    assert all(q.min() >= -128 and q.max() <= 127 for q in found)
    for i in range(x.size):
        whole = int(found[0][0, i]) * 65536 + int(found[1][0, i]) * 256 + int(found[2][0, i])
        scaled = Fraction(float(x[0, i])) * Fraction(2) ** int(shift[0, 0])
        assert abs(whole - scaled) <= Fraction(1, 2)
    assert abs(found[0]).max() >= 63  # no bit of the largest digit is wasted but the one a power of two may cost


@pytest.mark.parametrize("scheme", [FP16X3, BF16X6], ids=lambda scheme: scheme.name)
@pytest.mark.parametrize("promoted", [True, False])
def test_a_product_is_the_sequence_of_instructions_it_stands_for(scheme: lecture.Scheme, promoted: bool) -> None:
    """The same with one product of parts at a time, its accumulator handed on."""
    a, b = uniform(3, 6, 256), uniform(4, 256, 5)
    (left, down), (right, across) = split(a, scheme, 1), split(b, scheme, 0)
    outer, inner = np.zeros((6, 5), np.float32), np.zeros((6, 5), np.float32)
    for start in range(0, 256, scheme.chunk):
        span = slice(start, start + scheme.chunk)
        for i, j in scheme.products:
            inner = matmul(left[i][:, span], right[j][span], inner, "hopper.wgmma", inputs=scheme.inputs)
        if promoted:
            outer = outer + inner
            inner = np.zeros_like(inner)
    expected = np.ldexp((outer if promoted else inner).astype(np.float64), -down - across).astype(np.float32)
    assert (product(a, b, scheme, promoted=promoted) == expected).all()


def test_lengths_that_fill_no_step_are_padded() -> None:
    a, b = uniform(5, 4, 37), uniform(6, 37, 4)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(product(a, b, FP16X3) - exact).max() < 1e-5
    assert product(np.ones((1, 1), np.float32), np.ones((1, 1), np.float32), BF16X6)[0, 0] == 1


def test_an_integer_product_is_that_of_python_integers_in_any_order() -> None:
    a, b = uniform(7, 3, 50), uniform(8, 50, 4)
    (a0, a1, a2), down = digits(a, 1)
    (b0, b1, b2), across = digits(b, 0)
    expected = integer_product(a, b)
    for m in range(3):
        for n in range(4):
            sums = [0, 0, 0]
            for k in range(50):
                x, y = [int(q[m, k]) for q in (a0, a1, a2)], [int(q[k, n]) for q in (b0, b1, b2)]
                sums[0] += x[0] * y[0]
                sums[1] += x[0] * y[1] + x[1] * y[0]
                sums[2] += x[0] * y[2] + x[1] * y[1] + x[2] * y[0]
            f = np.float32
            joined = f(sums[0]) * f(65536) + (f(sums[1]) * f(256) + f(sums[2]))
            assert expected[m, n] == np.ldexp(joined, 16 - int(down[m, 0]) - int(across[0, n]))
    rng = np.random.default_rng(9)
    for splits in (1, 2, 7):
        assert (integer_product(a, b, rng.permutation(50), splits) == expected).all()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("int8x6", "uniform"),
        *((name, kind) for name in ("fp16x3", "bf16x6") for kind in ("uniform", "normal", "binades")),
    ],
)
def test_the_kernels_of_tritongemm_promise_the_same_bits(name: str, kind: str) -> None:
    """The kernels' own prediction, which is compared with a GPU there, on data that no guard refuses."""
    pytest.importorskip("tritongemm")
    modes = pytest.importorskip("tritongemm.modes")
    rng = np.random.default_rng(12)
    a, b = lecture.kinds(rng, 6, 2048)[kind]
    assert (modes.get(name).predict(a, b) == lecture.WAYS[name](a, b)).all()


def test_no_integer_sum_can_leave_int32() -> None:
    assert 3 * 2**14 * LONGEST < 2**31
    with pytest.raises(ValueError, match="beyond 32768"):
        integer_product(np.ones((1, LONGEST + 1), np.float32), np.ones((LONGEST + 1, 1), np.float32))


def test_the_error_of_a_chained_product_is_that_of_a_gpu() -> None:
    """Measured on an H200 at this K on U(-1,1): rms 11.7 u·sum|p|."""
    a, b = uniform(10, 24, 6144), uniform(11, 6144, 24)
    c = product(a, b, BF16X6, promoted=False)
    assert lecture.measure(c, lecture.exact(a, b)).rms == pytest.approx(11.7, rel=0.1)


def test_the_guard_estimates_well_where_errors_are_independent() -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((24, 2048), (2048, 24)))
        for x, y in ((a, b), (uniform(seed, 24, 2048), uniform(seed + 9, 2048, 24))):
            rms = lecture.measure(integer_product(x, y), lecture.exact(x, y)).rms
            assert lecture.estimate(x, y) == pytest.approx(rms, rel=0.25)


def test_recorded_speeds_say_where_they_come_from() -> None:
    recorded = speed()
    assert set(recorded["ways"]) == set(lecture.cost_table(recorded))
    assert recorded["machine"] == "nvidia-h200"
    assert all(recorded[key] for key in ("source", "method", "peaks", "versions"))


def test_recorded_speeds_are_those_of_the_repositorys_results() -> None:
    """About: the results may be recorded again, and `python bench/record_lecture_speeds.py` then brings them here."""
    source = Path(__file__).resolve().parents[3] / speed()["source"]
    if not source.exists():
        pytest.skip("the results belong to the repository, not to the package")
    shape = [speed()["shape"][letter] for letter in "MKN"]
    figures = [f for f in json.loads(source.read_text())["figures"] if f["shape"] == shape and f["regime"] == "cool"]
    for name, way in speed()["ways"].items():
        family, contestant = ("ieee fp32", "vendor") if name == "sgemm" else (name, "ours")
        (found,) = [f for f in figures if (f["family"], f["contestant"]) == (family, contestant)]
        assert way["whole"] == pytest.approx(found["tflops"], rel=0.3)


@pytest.mark.parametrize("name", list(lecture.WAYS))
def test_recorded_errors_are_the_simulated_ones(name: str) -> None:
    a, b = uniform(13, 24, 6144), uniform(14, 6144, 24)
    rms = lecture.measure(lecture.WAYS[name](a, b), lecture.exact(a, b)).rms
    assert speed()["ways"][name]["rms"] == pytest.approx(rms, rel=0.1)


# Observations can fail.


def test_planted_splits_fail() -> None:
    sound = {
        lecture.UNSCALED.name: [23.0, 20, 16, 12, 8, 4, 0, 0],
        "fp16x3": [23.0, 23, 23, 23, 22, 18, 14, 10],
        "bf16x6": [24.0] * 8,
        "int8x6": [22.0, 18, 14, 10, 6, 2.3, 0, 0],
    }
    assert [o.holds for o in lecture.observe_splitting(sound)] == [True] * 3
    broken = {
        **sound,
        lecture.UNSCALED.name: [23.0] * 8,
        "bf16x6": [24.0] * 7 + [23],
        "int8x6": [22.0, 22, 22, 22, 22, 22, 22, 22],
    }
    assert [o.holds for o in lecture.observe_splitting(broken)] == [False] * 3


def test_planted_costs_fail() -> None:
    sound = lecture.cost_table(speed())
    assert [o.holds for o in lecture.observe_costs(sound)] == [True] * 3

    def failing(**change: float) -> list[str]:
        planted = {**sound, "fp16x3": dataclasses.replace(sound["fp16x3"], **change)}
        return [o.key for o in lecture.observe_costs(planted) if not o.holds]

    assert failing(whole=10.0) == ["faster"]
    assert failing(rms=0.5) == ["better"]
    assert failing(products=6) == ["ceilings"]


def sums(**last: float) -> dict[str, list[lecture.Errors]]:
    ends = {"sgemm": 0.4, "fp16_chained": 6, "fp16_promoted": 0.06, "bf16_chained": 11, "bf16_promoted": 0.07} | last
    starts = {"sgemm": 0.4, "fp16_chained": 1, "fp16_promoted": 0.2, "bf16_chained": 2, "bf16_promoted": 0.2}
    leans = {"fp16_chained": -0.9, "bf16_chained": -0.9}
    return {
        name: [lecture.Errors(starts[name], 9, leans.get(name, 0)), lecture.Errors(end, 9, leans.get(name, 0))]
        for name, end in ends.items()
    }


def test_planted_sums_fail() -> None:
    def holds(found: dict[str, list[lecture.Errors]]) -> list[bool]:
        return [o.holds for o in lecture.observe_sums(found, (256, 4096), 0.2)]

    assert holds(sums()) == [True] * 4
    assert holds(sums(fp16_chained=0.3)) == [False, True, True, False]
    assert holds(sums(bf16_promoted=0.5)) == [True, True, False, False]
    leaning = sums()
    leaning["sgemm"][1] = dataclasses.replace(leaning["sgemm"][1], lean=-0.5)
    assert holds(leaning) == [True, False, True, True]


def test_planted_kinds_fail() -> None:
    def holds(*found: lecture.Judged) -> list[bool]:
        return [o.holds for o in lecture.observe_kinds(found, 0.45, 4096)]

    good = lecture.Judged("uniform", 0.4, 0.06, 0.07, 0.1, 0.1)
    bad = lecture.Judged("column", 4.0, 0.6, 0.7, 40.0, 50.0)
    assert holds(good, bad) == [True] * 3
    assert holds(good, dataclasses.replace(bad, estimate=0.2)) == [True, True, False]
    assert holds(dataclasses.replace(good, fp16x3=0.5), bad) == [False, True, True]
    assert holds(good) == [True, False, False]


def test_planted_lengths_fail() -> None:
    def holds(**lines: list[float]) -> list[bool]:
        found = {"sgemm": [0.4] * 3, "fp16x3": [1.5, 0.3, 0.1], "int8x6": [2, 0.9, 0.3]} | lines
        return [o.holds for o in lecture.observe_lengths(found, (1, 64, 4096))]

    assert holds() == [True] * 3
    assert holds(fp16x3=[0.1, 0.1, 0.1]) == [False, False, True]
    assert holds(fp16x3=[1.5, 0.3, 0.5]) == [True, False, False]
    assert holds(int8x6=[2, 2, 2]) == [True, True, False]


def test_planted_edges_fail() -> None:
    sound = lecture.try_edges()
    assert [o.holds for o in lecture.observe_edges(sound)] == [True] * 3

    def failing(edge: str, **values: float) -> list[str]:
        planted = {**sound, edge: {**sound[edge], **values}}
        return [o.key for o in lecture.observe_edges(planted) if not o.holds]

    assert failing("infinite", fp16x3=np.inf) == ["infinite"]
    assert failing("largest", bf16x6=1.0) == ["largest"]
    assert failing("tiny", bf16x6=sound["tiny"]["sgemm"]) == ["small"]
    assert failing("beside", fp16x3=sound["beside"]["sgemm"]) == ["small"]


def test_settings_that_cannot_be_are_refused_by_name() -> None:
    with pytest.raises(numfmt_lectures.LectureError, match="'promotion' takes a multiple of 16, one tensor core step"):
        numfmt_lectures.compute(NAME, quick=True, promotion=20)
    with pytest.raises(numfmt_lectures.LectureError, match="take at most 32768"):
        numfmt_lectures.compute(NAME, quick=True, depth=40_000)


# Solutions of the exercises.


def rms(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    return lecture.measure(c, lecture.exact(a, b)).rms


def test_solution_promotion_stops_to_help_between_64_and_the_whole_sum() -> None:
    a, b = uniform(0, 16, 4096), uniform(1, 4096, 16)
    found = {n: rms(product(a, b, FP16X3, chunk=n), a, b) for n in (16, 64, 512, 4096)}
    assert found[64] < found[512] < found[4096]
    assert found[4096] < rms(product(a, b, FP16X3, promoted=False), a, b) * 2
    # An output of a chunk of n needs 3 n products and one addition.
    assert 1 / (3 * 64) < 0.01


def test_solution_the_smallest_products_belong_first() -> None:
    a, b = uniform(2, 32, 2048), uniform(3, 2048, 32)
    largest_first = dataclasses.replace(FP16X3, products=tuple(reversed(FP16X3.products)))
    assert rms(product(a, b, largest_first), a, b) > 1.3 * rms(product(a, b, FP16X3), a, b)


def test_solution_four_bf16_products_are_not_fp32() -> None:
    a, b = uniform(4, 16, 2048), uniform(5, 2048, 16)
    four = dataclasses.replace(BF16X6, products=BF16X6.products[2:])
    assert rms(product(a, b, BF16X6), a, b) < rms(lecture.sgemm(a, b), a, b) < rms(product(a, b, four), a, b)


def test_solution_short_sums_leave_digits_less_room() -> None:
    a, b = (np.random.default_rng(6).standard_normal(shape).astype(np.float32) for shape in ((16, 512), (512, 16)))
    assert lecture.estimate(a, b) > 0.45
    assert rms(integer_product(a, b), a, b) > rms(lecture.sgemm(a, b), a, b)
    x, y = uniform(7, 16, 512), uniform(8, 512, 16)
    assert lecture.estimate(x, y) < 0.45


@pytest.mark.parametrize("scheme", [FP16X3, BF16X6], ids=lambda scheme: scheme.name)
def test_solution_an_infinity_spoils_its_own_row_only(scheme: lecture.Scheme) -> None:
    a, b = np.abs(uniform(9, 3, 32)) + 1, np.abs(uniform(10, 32, 4)) + 1
    a[1, 5] = np.inf
    (first, second, *_), _ = split(a, scheme, 1)
    assert (first[1, 5], str(second[1, 5])) == (np.inf, "nan")
    assert (lecture.sgemm(a, b)[1] == np.inf).all()
    c = product(a, b, scheme)
    assert np.isnan(c[1]).all()
    assert np.isfinite(c[[0, 2]]).all()
