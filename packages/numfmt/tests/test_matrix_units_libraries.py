"""torch's products on an H200, recorded, against one schedule each: eight shapes of every operand type, three to four
kinds of data.
"""

import numpy as np
import pytest
from matrix_units_data import bits
from matrix_units_recordings import (
    LIBRARY_INDEX,
    LIBRARY_KINDS,
    TF32_PROBES,
    TF32_READINGS,
    TIES,
    as_multiplied,
    read_index,
    read_outputs,
    sampled_inputs,
    sampled_lines,
    tf32,
)

from numfmt import TF32, matrix_units

INDEX = read_index(LIBRARY_INDEX)
# The format of the operands and the unit of every operation.
OPERATIONS = {
    "bf16": ("bf16", "hopper"),
    "fp16": ("fp16", "hopper"),
    "tf32": ("tf32", "hopper"),
    "fp32": ("fp32", "simt.fma"),
    "fp8 fast": ("e4m3", "hopper"),
    "fp8 promoted": ("e4m3", "hopper"),
}


def split_name(name):
    """The operation and the shape (M, N, K) of a product's name."""
    operation, _, shape = name.rpartition(" ")
    return operation, tuple(map(int, shape.split("x")))


@pytest.fixture(scope="module")
def outputs():
    return read_outputs(INDEX)


def predicted(name, kind, call, read=as_multiplied):
    """The sampled outputs under a schedule."""
    operation, shape = split_name(name)
    key, unit = OPERATIONS[operation]
    a, b = read(operation, *sampled_inputs(operation, key, shape, kind))
    schedule = eval(call, vars(matrix_units).copy())
    return bits(matrix_units.matmul(a, b, unit=unit, inputs=key, schedule=schedule, threads=1))


# cuBLAS's kernel for this product gives a tile of 128 x 64 outputs to one thread block each, but cuts the K of eight
# tiles into segments of 8 and 9 blocks of 32, which other blocks compute.
SEGMENTED = "tf32 1024x1024x4096"
SEGMENTS = "split_k(15, granularity=32, reduction='halves', even=True)"


# Wide data and ties tell schedules and readings apart best; the other kinds are for the exhaustive runs.
PRODUCTS = [
    pytest.param(name, kind, marks=() if kind in ("wide", "ties") else pytest.mark.exhaustive)
    for name in INDEX["products"]
    for kind in (*LIBRARY_KINDS, *TIES.get(split_name(name)[0], ()))
    if name != SEGMENTED
]


@pytest.mark.parametrize(("name", "kind"), PRODUCTS)
def test_one_schedule_gives_a_products_bits_on_all_data(name, kind, outputs):
    np.testing.assert_array_equal(predicted(name, kind, INDEX["products"][name]), outputs[f"{name}/{kind}"])


@pytest.mark.parametrize("kind", [*LIBRARY_KINDS, *TIES["tf32"]])
def test_the_product_in_segments(kind, outputs):
    """Whole tiles are one chain, the others a tree over segments of K: together every bit of the product."""
    _, shape = split_name(SEGMENTED)
    rows, columns = sampled_lines(shape)
    in_segments = (rows[:, None] < 256) & (columns >= 768)
    whole, cut = (predicted(SEGMENTED, kind, call) for call in ("chain()", SEGMENTS))
    np.testing.assert_array_equal(np.where(in_segments, cut, whole), outputs[f"{SEGMENTED}/{kind}"])


@pytest.mark.parametrize(
    "call",
    [
        "chain()",
        SEGMENTS.replace("15", "14"),
        SEGMENTS.replace("15", "16"),
        SEGMENTS.replace("halves", "pairwise"),
        SEGMENTS.replace("halves", "sequential"),
        SEGMENTS.replace(", even=True", ""),
    ],
)
def test_other_segments_or_trees_give_other_bits(call, outputs):
    rows, columns = sampled_lines(split_name(SEGMENTED)[1])
    in_segments = (rows[:, None] < 256) & (columns >= 768)
    got, recorded = predicted(SEGMENTED, "wide", call), outputs[f"{SEGMENTED}/wide"]
    assert (got == recorded)[in_segments].mean() < 0.75


@pytest.mark.parametrize("rounding", [name for name in TF32_READINGS if name != "nearest_even"])
def test_operands_read_in_another_way_give_other_bits(rounding, outputs):
    name = "tf32 64x64x4096"

    def read(_, a, b):
        return tf32(a, rounding), tf32(b, rounding)

    got = predicted(name, "ties", INDEX["products"][name], read)
    assert (got == outputs[f"{name}/ties"]).mean() < 0.1


@pytest.mark.parametrize("side", ["a", "b"])
def test_torchs_tf32_products_read_operands_as_tf32_rounds(side, outputs):
    """Ties to even, also of subnormals; what is too large becomes infinite, and no NaN is cut to an infinity."""
    probes = TF32_PROBES.view(np.float32)
    recorded = [outputs[key].view(np.float32) for key in outputs if key.endswith(f"/probes of {side}")]
    assert len(recorded) == 8
    for seen in recorded:
        np.testing.assert_array_equal(seen, TF32.round(probes))
