"""Schedules against exact rationals, and against each other where theory says they agree."""

import itertools
import math

import matrix_units_oracle as oracle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrix_units_data import KINDS, accumulators, bits, expected_bits, operands

from numfmt.matrix_units import chain, cublas_like, matmul, promote, split_k, stream_k, tl_dot

HOPPER = {key: step for keys, step in oracle.UNITS["hopper.wgmma", "fp32"] for key in keys}
FP8_STEP = HOPPER["e4m3"]


def per_output(a, b, c, function):
    return expected_bits(
        [
            [function([*map(float, a[i])], [*map(float, b[:, j])], float(c[i, j])) for j in range(b.shape[1])]
            for i in range(a.shape[0])
        ],
        np.float32,
    )


def data(seed, keys, shape, kind):
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    a, b = operands(rng, keys, shape, kind)
    return a, b, accumulators(rng, "fp32", shape[:2], kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("interval", [32, 64, 96])
def test_promotion_adds_partial_sums_in_fp32(interval, kind):
    a, b, c = data(1, ("e4m3", "e5m2"), (3, 3, 160), kind)
    got = matmul(a, b, c, "hopper.wgmma", inputs=("e4m3", "e5m2"), schedule=promote(interval))
    expected = per_output(a, b, c, lambda x, y, z: oracle.promoted(x, y, z, interval, FP8_STEP, -6, -14))
    np.testing.assert_array_equal(bits(got), expected)


@pytest.mark.parametrize("kind", ["uniform", "wide", "special"])
@pytest.mark.parametrize("imprecise", [None, 32, 48, 64, 96, 128])
@pytest.mark.parametrize("form", ["acc=", "+="])
def test_tl_dot_of_fp8(form, imprecise, kind):
    a, b, c = data(2, ("e4m3", "e4m3"), (3, 3, 256), kind)
    schedule = tl_dot(128, form, max_num_imprecise_acc=imprecise)
    got = matmul(a, b, c, "hopper", inputs="e4m3", schedule=schedule)
    expected = per_output(
        a, b, c, lambda x, y, z: oracle.dot_fp8(x, y, z, 128, form, imprecise or 0, FP8_STEP, (-6, -6))
    )
    np.testing.assert_array_equal(bits(got), expected)


@pytest.mark.parametrize("kind", ["uniform", "wide", "subnormal", "special"])
@pytest.mark.parametrize(
    ("schedule", "separate"),
    [
        (tl_dot(64, block_m=32), False),
        (tl_dot(64, block_m=16, num_warps=1, max_num_imprecise_acc=64), False),
        (tl_dot(64, num_warps=2, form="+="), True),
        (tl_dot(64, max_num_imprecise_acc=16), False),
        (tl_dot(64, max_num_imprecise_acc=16, form="+="), True),
        (tl_dot(64, max_num_imprecise_acc=0, form="+="), False),
    ],
)
def test_tl_dot_of_fp8_on_mma_sync_is_reordered_fp16(schedule, separate, kind):
    a, b, c = data(3, ("e5m2", "e5m2"), (3, 3, 128), kind)
    got = matmul(a, b, c, "hopper", inputs="e5m2", schedule=schedule)
    order = oracle.width_order(64, 16, 4, 2)

    def one(x, y, z):
        for k in (0, 64):
            part = [x[k + i] for i in order], [y[k + i] for i in order]
            if separate:
                z = oracle.add(z, oracle.chain(*part, 0.0, HOPPER["fp16"], -14, -14))
            else:
                z = oracle.chain(*part, z, HOPPER["fp16"], -14, -14)
        return z

    np.testing.assert_array_equal(bits(got), per_output(a, b, c, one))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["tf32x3", "bf16x3", "bf16x6"])
def test_tl_dot_of_split_fp32(scheme, kind):
    a, b, c = data(4, ("fp32", "fp32"), (3, 3, 64), kind)
    got = matmul(a, b, c, "hopper", inputs="fp32", schedule=tl_dot(32, input_precision=scheme))
    expected = per_output(a, b, c, lambda x, y, z: oracle.dot_split(x, y, z, 32, scheme, HOPPER))
    np.testing.assert_array_equal(bits(got), expected)


@pytest.mark.parametrize("kind", ["uniform", "wide", "special"])
@pytest.mark.parametrize(("precision", "imprecise"), [("tf32", None), ("ieee", None), ("tf32", 8), ("ieee", 8)])
@pytest.mark.parametrize("form", ["acc=", "+="])
def test_tl_dot_of_fp32_folds_the_accumulator_unless_told_otherwise(form, precision, imprecise, kind):
    a, b, c = data(5, ("fp32", "fp32"), (3, 3, 32), kind)
    got = matmul(a, b, c, "hopper", inputs="fp32", schedule=tl_dot(16, form, precision, imprecise))

    def dot(x, y, z):
        if precision == "ieee":
            return oracle.dot_ieee(x, y, z)
        return oracle.chain(
            [*map(oracle.truncate_tf32, x)], [*map(oracle.truncate_tf32, y)], z, HOPPER["tf32"], -126, -126
        )

    def one(x, y, z):
        for k in (0, 16):
            x_block, y_block = x[k : k + 16], y[k : k + 16]
            z = oracle.add(z, dot(x_block, y_block, 0.0)) if form == "+=" and imprecise else dot(x_block, y_block, z)
        return z

    np.testing.assert_array_equal(bits(got), per_output(a, b, c, one))


@pytest.mark.parametrize("granularity", [None, 48])
@pytest.mark.parametrize("reduction", ["sequential", "pairwise"])
@pytest.mark.parametrize("parts", [1, 2, 3, 5, 40])
def test_split_k_adds_the_ranges_in_order_and_c_last(parts, reduction, granularity):
    a, b, c = data(6, ("bf16", "bf16"), (3, 3, 176), "uniform")
    got = matmul(
        a, b, c, "hopper", inputs="bf16", schedule=split_k(parts, reduction=reduction, granularity=granularity)
    )
    grain = granularity or 16
    size = math.ceil(math.ceil(176 / grain) / parts) * grain

    def one(x, y, z):
        values = [
            oracle.chain(x[k : k + size], y[k : k + size], 0.0, HOPPER["bf16"], -126, -126) for k in range(0, 176, size)
        ]
        while len(values) > 1:
            if reduction == "sequential":
                values = [oracle.add(values[0], values[1]), *values[2:]]
            else:
                values = [
                    oracle.add(*values[i : i + 2]) if i + 1 < len(values) else values[i]
                    for i in range(0, len(values), 2)
                ]
        return oracle.add(values[0], z)

    np.testing.assert_array_equal(bits(got), per_output(a, b, c, one))


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 7, 11, 40])
def test_split_k_in_even_parts_adds_sums_of_halves(parts):
    """The longer ranges come last, and the tree over the ranges is a fold of halves."""
    a, b, c = data(6, ("bf16", "bf16"), (3, 3, 176), "uniform")
    schedule = split_k(parts, reduction="halves", even=True)
    got = matmul(a, b, c, "hopper", inputs="bf16", schedule=schedule)
    # NumPy gives the longer parts to the front.
    sizes = [16 * len(part) for part in reversed(np.array_split(np.arange(11), parts)) if len(part)]
    ends = np.cumsum(sizes)
    assert len(ends) == min(parts, 11)

    def one(x, y, z):
        def total(low, high):
            if high - low == 1:
                k = slice(ends[low] - sizes[low], ends[low])
                return oracle.chain(x[k], y[k], 0.0, HOPPER["bf16"], -126, -126)
            middle = (low + high) // 2
            return oracle.add(total(low, middle), total(middle, high))

        return oracle.add(total(0, len(ends)), z)

    np.testing.assert_array_equal(bits(got), per_output(a, b, c, one))


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("reduction", ["sequential", "pairwise", "halves"])
def test_split_k_of_nothing_is_c(reduction, even):
    c = np.array([[1.5, -2.0]])
    schedule = split_k(3, reduction=reduction, even=even)
    got = matmul(np.zeros((1, 0)), np.zeros((0, 2)), c, "hopper", inputs="bf16", schedule=schedule)
    np.testing.assert_array_equal(got, c)


def test_stream_k_cuts_each_tile_where_a_share_ends():
    # 2 x 2 tiles of 5 k blocks: 20 units of work for 3 workers, 7 + 7 + 6: cuts after 7 and 14.
    a, b, c = data(7, ("fp16", "fp16"), (10, 12, 160), "uniform")
    got = matmul(a, b, c, "hopper", inputs="fp16", schedule=stream_k(8, 8, 32, 3))
    cuts = {(0, 0): [0, 160], (0, 1): [0, 64, 160], (1, 0): [0, 128, 160], (1, 1): [0, 160]}
    for i, j in itertools.product(range(10), range(12)):
        edges = cuts[i // 8, j // 8]
        x, y = [*map(float, a[i])], [*map(float, b[:, j])]
        value = None
        for low, high in itertools.pairwise(edges):
            part = oracle.chain(x[low:high], y[low:high], 0.0, HOPPER["fp16"], -14, -14)
            value = part if value is None else oracle.add(value, part)
        expected = expected_bits([oracle.add(value, float(c[i, j]))], np.float32)
        assert bits(got)[i, j] == expected[0], (i, j)


def test_schedules_compose():
    a, b, _ = data(8, ("e4m3", "e4m3"), (4, 4, 512), "uniform")
    both = matmul(a, b, inputs="e4m3", schedule=split_k(2, promote(64)))
    halves = [matmul(a[:, k : k + 256], b[k : k + 256], inputs="e4m3", schedule=promote(64)) for k in (0, 256)]
    np.testing.assert_array_equal(bits(both), bits(halves[0] + halves[1]))
    np.testing.assert_array_equal(
        bits(both), bits(matmul(a, b, inputs="e4m3", schedule=cublas_like(splits=2, promotion=64)))
    )
    inside = matmul(a, b, inputs="e4m3", schedule=split_k(2, tl_dot(64, "+=")))
    np.testing.assert_array_equal(bits(inside), bits(both))


@pytest.mark.parametrize(
    ("one", "other", "inputs"),
    [
        (tl_dot(64), chain(), "fp16"),
        (tl_dot(64, "+="), chain(), "bf16"),
        (tl_dot(32, block_m=16, num_warps=1), chain(), "fp16"),
        (tl_dot(128), chain(), "e4m3"),
        (tl_dot(64, "+="), promote(64), "e4m3"),
        (tl_dot(64, max_num_imprecise_acc=64), promote(64), "e4m3"),
        (tl_dot(128, max_num_imprecise_acc=48), promote(64), "e4m3"),
        (split_k(4), promote(64), "e4m3"),
        (promote(256), chain(), "e4m3"),
    ],
)
def test_schedules_that_say_the_same_in_other_words(one, other, inputs):
    a, b, _ = data(9, (inputs, inputs), (8, 8, 256), "uniform")
    np.testing.assert_array_equal(
        bits(matmul(a, b, inputs=inputs, schedule=one)), bits(matmul(a, b, inputs=inputs, schedule=other))
    )


@given(st.integers(1, 6), st.integers(1, 9), st.integers(1, 130), st.sampled_from([None, 32, 64]))
def test_awkward_sizes_are_padded_like_masked_loads(m, n, k, imprecise):
    rng = np.random.default_rng([m, n, k])
    a, b = operands(rng, ("e4m3", "e4m3"), (m, n, k), "uniform")
    padded = -(-k // 64) * 64
    wide_a, wide_b = np.zeros((m, padded)), np.zeros((padded, n))
    wide_a[:, :k], wide_b[:k] = a, b
    schedule = tl_dot(64, max_num_imprecise_acc=imprecise)
    np.testing.assert_array_equal(
        bits(matmul(a, b, inputs="e4m3", schedule=schedule)),
        bits(matmul(wide_a, wide_b, inputs="e4m3", schedule=schedule)),
    )
