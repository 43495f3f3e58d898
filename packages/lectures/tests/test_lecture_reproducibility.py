"""Lecture "reproducibility": orders against arithmetic written out here, recorded figures, what can fail."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from lectures_reports import quick_report

import numfmt_lectures
from numfmt.matrix_units import matmul, split_k
from numfmt_lectures import reproducibility as lecture
from numfmt_lectures.recorded import results

NAME = "reproducibility"
QUICK = lecture.Settings.quick()


@pytest.fixture(scope="module")
def report() -> numfmt_lectures.Report:
    return quick_report(NAME)


def test_every_observation_holds_by_default(report: numfmt_lectures.Report) -> None:
    observations = [o for d in report.demonstrations for o in d.observations]
    assert len(observations) == 15
    assert [o.key for o in observations if not o.holds] == []


# What is compared is what it is called.


def nearest(exact: Fraction) -> np.float32:
    near = np.float32(float(exact))
    around = [near, np.nextafter(near, np.float32(99)), np.nextafter(near, np.float32(-99))]
    return min(around, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1))


def test_the_serial_lanes_and_unfused_sums_by_hand() -> None:
    a, b = lecture.operands(np.random.default_rng(0), 2, 512)
    chain, unfused = np.float32(0), np.float32(0)
    lanes = [np.float32(0)] * 256
    for k in range(512):
        x, y = Fraction(float(a[0, k])), Fraction(float(b[k, 1]))
        chain = nearest(x * y + Fraction(float(chain)))
        lanes[k % 256] = nearest(x * y + Fraction(float(lanes[k % 256])))
        unfused = unfused + a[0, k] * b[k, 1]
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [lanes[i] + lanes[i + half] for i in range(half)]
    assert lecture.serial(a, b)[0, 1] == chain
    assert lecture._lanes(a, b)[0, 1] == lanes[0]
    assert lecture._unfused(a, b)[0, 1] == unfused


def test_ranges_cover_k_once() -> None:
    for depth in (256, 1024, 4096):
        for splits in (1, 2, 3, 7, 16, 64):
            ranges = lecture._ranges(depth, splits)
            assert [k for r in ranges for k in range(r.start, r.stop)] == list(range(depth))
            assert len(ranges) <= splits
            assert all(r.start % lecture.BLOCK_K == 0 for r in ranges)


def test_what_meets_in_order_is_a_split_k() -> None:
    a, b = lecture.operands(np.random.default_rng(1), 4, 1024)
    total = np.zeros((4, 4), np.float32)
    for part in lecture._ranges(1024, 3):
        total = total + lecture.serial(a[:, part], b[part])
    expected = matmul(a, b, unit="simt.fma", inputs="fp32", schedule=split_k(3, granularity=lecture.BLOCK_K))
    assert (lecture.bits(total) == lecture.bits(expected)).all()


def test_random_arrivals_give_what_the_six_orders_of_three_parts_give() -> None:
    several = 0
    for seed in range(6):
        settings = dataclasses.replace(QUICK, seed=seed, rows=1, runs=200, splits=(3,))
        (found,) = lecture.meet(settings, results())
        a, b = lecture.operands(np.random.default_rng(seed + 1), 1, settings.depth)
        parts = [lecture.serial(a[:, s], b[s])[0, 0] for s in lecture._ranges(settings.depth, 3)]
        possible = {(np.float32(0) + x + y + z).tobytes() for x, y, z in permutations(parts)}
        assert found.results == len(possible)
        several += len(possible) > 1
    assert several


def test_the_policy_keeps_processors_busy_and_no_more() -> None:
    for rows in (1, 128, 129, 512, 4096):
        for processors in (108, 132):
            tiles, splits = lecture.policy(rows, 4096, processors)
            assert tiles == -(-rows // 128) * 32
            assert splits == 1 or tiles * splits <= processors


def test_a_harmless_change_is_one_that_theory_says_is(report: numfmt_lectures.Report) -> None:
    found = {c.key: c for c in lecture.try_changes(QUICK)}
    assert len(found) == len(lecture.SCHEDULES) + 5
    assert {key for key, c in found.items() if c.harmless} == {
        "tiles",
        "block_k",
        "form",
        "padding",
        "transposed",
        "fp8_tiles",
    }


def test_exact_sums_are_exact() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.uniform(-1, 1, (1, 64)), rng.uniform(-1, 1, (64, 1))
    exact = sum((Fraction(x) * Fraction(y) for x, y in zip(a[0], b[:, 0], strict=True)), Fraction(0))
    order = rng.permutation(64)
    assert lecture._exactly(a, b, order, (1, 1))[0, 0] == float(exact)


# The recording.


def test_recorded_atomics_are_of_all_splits_and_vary() -> None:
    rows = {row["splits"]: row for row in results()["atomics"]["rows"]}
    assert set(rows) >= set(lecture.Settings().splits)
    assert all((row["results"] == 1) == (row["varying"] == 0) for row in rows.values())
    assert all(row["results"] <= row["runs"] for row in rows.values())


def test_recorded_batches_have_a_checksum_for_every_size() -> None:
    recorded = results()["batch"]
    assert len(recorded["rows"]) >= 10
    assert all(len(sums) == len(recorded["rows"]) for sums in recorded["first_row"].values())
    assert any(not name.startswith("torch") for name in recorded["first_row"])


# Observations can fail.


def test_planted_changes_fail() -> None:
    safe = lecture.Change("tiles", "fp32", True, 0, 100)
    risky = [lecture.Change(key, "e4m3", False, 50, 100) for key in ("fp8_block_k", "fp8_small_tile")]
    assert [o.holds for o in lecture.observe_changes([safe, *risky])] == [True] * 3
    broken = dataclasses.replace(safe, differing=1)
    assert [o.holds for o in lecture.observe_changes([broken, *risky])] == [False, True, True]
    lucky = [dataclasses.replace(risky[0], differing=0), risky[1]]
    assert [o.holds for o in lecture.observe_changes([safe, *lucky])] == [True, False, False]


def test_planted_meetings_fail() -> None:
    def recorded(two: int, many: int) -> dict[str, object]:
        return {
            "rows": [
                {"splits": s, "runs": 50, "results": r, "varying": r - 1, "outputs": 10}
                for s, r in ((2, two), (8, many))
            ]
        }

    def holds(two: int, many: int, recording: dict[str, object]) -> list[bool]:
        found = [lecture.Meeting(2, two, 0.0, 0.0, None), lecture.Meeting(8, many, 0.9, 0.2, None)]
        return [o.holds for o in lecture.observe_atomics(found, 50, recording)]

    assert holds(1, 50, recorded(1, 50)) == [True] * 3
    assert holds(2, 1, recorded(1, 1)) == [False] * 3
    assert holds(1, 50, recorded(3, 50)) == [True, True, False]


def test_planted_batches_fail() -> None:
    def holds(moved: int, library: str, ours: str) -> list[bool]:
        found = [lecture.Row(1, 32, 4, 0), lecture.Row(512, 128, 1 if moved else 4, moved)]
        rows = {"torch.mm fp32": list(library), "blocked fp32": list(ours)}
        return [o.holds for o in lecture.observe_batches(found, {"rows": [1, 2, 4], "first_row": rows})]

    assert holds(99, "abc", "ccc") == [True] * 3
    assert holds(0, "aaa", "ccc") == [False] * 3
    assert holds(99, "abc", "ccd") == [True, False, False]
    assert holds(99, "cbc", "ccc") == [True, True, False]
    assert holds(99, "ccc", "ccc") == [True, False, False]


def test_planted_orders_fail() -> None:
    def holds(fp32: int, digits: int, fp64: tuple[int, int]) -> list[bool]:
        found = {
            "fp32": lecture.Order("fp32", 30, fp32, fp32, 0.4, False),
            "fp64": lecture.Order("fp64", 30, fp64[1], fp64[0], 0.01, False),
            "digits": lecture.Order("digits", 30, digits, digits, 0.1, True),
        }
        return [o.holds for o in lecture.observe_orders(found)]

    assert holds(30, 1, (30, 1)) == [True] * 3
    assert holds(1, 2, (30, 2)) == [False] * 3
    assert holds(30, 1, (1, 1)) == [True, True, False]


def test_planted_drifts_fail() -> None:
    grown = [1e-8, 1e-4, 0.5]
    sound = lecture.Drift(grown, [0.0] * 3, grown)
    assert [o.holds for o in lecture.observe_drift(sound, 3)] == [True] * 3
    assert [o.holds for o in lecture.observe_drift(lecture.Drift([0.0] * 3, grown, grown), 3)] == [False] * 3
    assert [o.holds for o in lecture.observe_drift(lecture.Drift(grown, [0.0] * 3, [1e-8] * 3), 3)] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("depth", [300, 65_536])
def test_depths_that_cannot_be_are_refused_by_name(depth: int) -> None:
    with pytest.raises(numfmt_lectures.LectureError, match="'depth' takes a multiple of 256 up to 32768"):
        numfmt_lectures.compute(NAME, quick=True, depth=depth)


# Solutions of the exercises.


def test_solution_two_parts_commute_and_three_do_not_associate() -> None:
    found = {m.splits: m.results for m in lecture.meet(dataclasses.replace(QUICK, splits=(2, 3)), results())}
    assert found[2] == 1 < found[3]
    x, y, z = (np.float32(v) for v in (1.0, 2.0**-24, 2.0**-24))
    assert (x + y) + z != x + (y + z)
    assert x + y == y + x


def test_solution_a_smaller_gpu_moves_other_batches() -> None:
    def parts(processors: int) -> list[int]:
        return [row.splits for row in lecture.try_batches(dataclasses.replace(QUICK, processors=processors))]

    assert parts(108) != parts(132)


def test_solution_a_recurrence_that_shrinks_forgets_the_order() -> None:
    drift = lecture.iterate(dataclasses.replace(QUICK, gain=50))
    assert max(drift.other) < 1e-6
    assert drift.other[-1] < 1e-30
    assert [o.holds for o in lecture.observe_drift(drift, QUICK.steps)] == [True, False, False]


def test_solution_three_numbers_whose_fp64_sum_depends_on_order() -> None:
    x, y, z = 2.0**60, 1.0, -(2.0**60)
    assert (np.float32((x + y) + z), np.float32((x + z) + y)) == (0, 1)


def test_solution_a_split_in_a_fixed_order_is_reproducible_and_still_another_sum() -> None:
    a, b = lecture.operands(np.random.default_rng(3), 8, 1024)
    runs = [matmul(a, b, unit="simt.fma", inputs="fp32", schedule=split_k(8)) for _ in range(2)]
    assert (lecture.bits(runs[0]) == lecture.bits(runs[1])).all()
    # One row alone gives the same bits as long as the number of parts does not depend on the rows.
    alone = matmul(a[:1], b, unit="simt.fma", inputs="fp32", schedule=split_k(8))
    assert (lecture.bits(alone[0]) == lecture.bits(runs[0][0])).all()
    assert (lecture.bits(runs[0]) != lecture.bits(lecture.serial(a, b))).any()
