"""`explain` and `same_bits`: what they say is checked against what `matmul` returns."""

import numpy as np
import pytest
from matrix_units_data import FORMATS, bits, operands

from numfmt.matrix_units import chain, explain, find_unit, matmul, promote, same_bits, split_k, stream_k, tl_dot
from numfmt.matrix_units.explain import cost, request_for

SCHEDULES = {
    "e4m3": [
        chain(),
        promote(64),
        promote(128),
        promote(256),
        tl_dot(128),
        tl_dot(128, "+="),
        tl_dot(64, "+="),
        tl_dot(128, max_num_imprecise_acc=48),
        tl_dot(128, "+=", max_num_imprecise_acc=48),
        tl_dot(64, block_m=32),
        tl_dot(64, max_num_imprecise_acc=16),
        split_k(2),
        split_k(2, promote(64)),
        split_k(4, promote(64)),
        stream_k(8, 8, 64, 3),
    ],
    "fp32": [tl_dot(32, input_precision=p) for p in ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")]
    + [tl_dot(64, "+=")],
}


@pytest.mark.parametrize("inputs", SCHEDULES)
def test_same_bits_holds_for_data_and_different_plans_differ(inputs):
    rng = np.random.default_rng(3)
    data = [operands(rng, (inputs, inputs), (24, 24, 256), kind) for kind in ("uniform", "wide")]
    # Partial sums of very different sizes, whose fp32 additions round in any order.
    a, b = data[0]
    size = 2.0 ** np.repeat([5, -3, 3, -2], 64)
    data.append(tuple(FORMATS[inputs].round(x) for x in (a * size, b * size[:, None])))
    schedules = SCHEDULES[inputs]
    results = [
        np.concatenate([bits(matmul(a, b, inputs=inputs, schedule=schedule)) for a, b in data])
        for schedule in schedules
    ]
    equal_pairs = 0
    for i, one in enumerate(schedules):
        for j, other in enumerate(schedules):
            said = same_bits(one, other, k=256, inputs=inputs, shape=(24, 24))
            assert said == np.array_equal(results[i], results[j]), (one, other)
            equal_pairs += said
    assert equal_pairs > len(schedules) or inputs == "fp32"


@pytest.mark.parametrize("inputs", SCHEDULES)
@pytest.mark.parametrize("kind", ["uniform", "cancelling", "wide"])
def test_the_bound_of_explain_bounds_the_error(inputs, kind):
    rng = np.random.default_rng(4)
    a, b = operands(rng, (inputs, inputs), (16, 16, 256), kind)
    if inputs == "fp32" and kind == "wide":
        a, b = (np.where(np.abs(np.log2(np.abs(x), where=x != 0, out=np.zeros_like(x))) < 40, x, 1.0) for x in (a, b))
    exact, magnitude = a.astype(np.longdouble) @ b.astype(np.longdouble), np.abs(a) @ np.abs(b)
    for schedule in SCHEDULES[inputs]:
        program = schedule.program(request_for(256, inputs, "hopper", "fp32", False, (16, 16)))
        bound = max(cost(region.node, program.unit).bound for region in program.regions) + program.omitted
        error = np.abs(matmul(a, b, inputs=inputs, schedule=schedule) - exact)
        assert (error <= bound * magnitude * 1.01).all(), schedule
        # A bound far too large would be no bound to speak of; this is where errors are large.
        if kind == "uniform" and schedule == chain():
            assert error.max() > 1e-3 * bound * magnitude.min()


def test_the_text_names_instruction_cost_and_equal_schedules():
    text = explain(promote(128), tl_dot(128, "+="), tl_dot(64, block_m=32), k=1024, inputs="e4m3")
    assert "Same bits for every input: promote(interval=128) and tl_dot(block_k=128, form='+=')" in text
    assert "mma.sync, because BLOCK_M = 32 is no multiple of 64" in text
    assert "8 chains of 128 products, 7 ordinary additions" in text
    assert find_unit("hopper.wgmma", "e4m3").describe() in text


def test_explain_needs_a_schedule():
    with pytest.raises(ValueError, match="at least one schedule"):
        explain(k=64, inputs="fp16")
