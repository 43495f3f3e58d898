"""`find_schedule` recovers a schedule from a result, also a rounded one."""

import dataclasses

import numpy as np
import pytest

from numfmt import BF16, FP8_E4M3
from numfmt.matrix_units import chain, find_schedule, matmul, promote, split_k


def operands(k, fmt, seed=0):
    rng = np.random.default_rng(seed)
    return fmt.round(rng.standard_normal((40, k))), fmt.round(rng.standard_normal((k, 48)))


@pytest.mark.parametrize(
    "schedule", [chain(), promote(128), split_k(3, granularity=128), split_k(4, promote(128), reduction="pairwise")]
)
def test_the_schedule_of_a_result(schedule):
    a, b = operands(640, FP8_E4M3)
    got = matmul(a, b, inputs="e4m3", schedule=schedule)
    matches = find_schedule(got, a, b, inputs="e4m3", sample=225)
    assert matches[0].share == 1.0
    assert matches[0].compared == 225
    winners = [match.schedule for match in matches if match.share == 1.0]
    assert all((matmul(a, b, inputs="e4m3", schedule=winner) == got).all() for winner in winners), winners
    assert matches[-1].share < 1.0


def test_a_result_rounded_to_bf16():
    a, b = operands(512, BF16)
    got = matmul(a, b, inputs="bf16", schedule=split_k(4))
    rounded = BF16.round(got)
    matches = find_schedule(rounded, a, b, inputs="bf16", output=BF16, sample=225)
    # Eight bits hide much of what distinguishes schedules: others may fit too, which the list shows.
    assert split_k(4) in [replace_grain(match.schedule) for match in matches if match.share == 1.0]
    assert find_schedule(rounded, a, b, inputs="bf16", sample=100, candidates=[split_k(4)])[0].share < 0.1


def replace_grain(schedule):
    """Split-K without its granularity, which changes nothing when K divides evenly."""
    return dataclasses.replace(schedule, granularity=None) if hasattr(schedule, "granularity") else schedule


def test_a_result_of_another_unit_is_not_found():
    a, b = operands(256, BF16)
    got = matmul(a, b, unit="ampere.mma", inputs="bf16")
    assert find_schedule(got, a, b, inputs="bf16", sample=900)[0].share < 1.0
    assert "outputs: chain()" in str(find_schedule(got, a, b, unit="ampere.mma", inputs="bf16")[0])


def test_shapes_that_do_not_belong_together():
    a, b = operands(64, BF16)
    with pytest.raises(ValueError, match="do not belong together"):
        find_schedule(np.zeros((3, 3)), a, b, inputs="bf16")
