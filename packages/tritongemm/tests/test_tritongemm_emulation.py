"""Emulated fp32 products on the CPU: the parts, the sums, the guard, and what is promised of them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tritongemm import emulation
from tritongemm.emulation import FP16X3, INT8X6, KEEP
from tritongemm.errors import UsageError

U = 2.0**-24


def draw(kind, shape, seed):
    """Test data by the names of the issue: rows of A or columns of B along k."""
    rng = np.random.default_rng([seed, *shape])
    x = rng.uniform(-1, 1, shape) if kind in ("uniform", "wide") else rng.normal(size=shape)
    if kind == "lognormal":
        x = np.exp(x) * rng.choice([-1, 1], shape)
    if kind == "wide":
        x = np.ldexp(x, rng.integers(-8, 9, shape))
    if kind == "outlier":
        x[:, 3] *= 1000
    return x.astype(np.float32)


def errors(c, a, b):
    """Root mean square and largest error in units of u·sum|p|."""
    golden, magnitude = a.astype(np.float64) @ b.astype(np.float64), np.abs(a).astype(np.float64) @ np.abs(b)
    scaled = (c - golden) / (U * magnitude)
    return math.sqrt((scaled**2).mean()), np.abs(scaled).max()


def serial(a, b):
    from tritongemm import modes

    return modes.get("ieee").predict(a, b)


KINDS = ("uniform", "normal", "lognormal", "wide", "outlier")


# --------------------------------------------------------------------------------------------------------------- parts
ROWS = [
    [2.0**-149, -(2.0**-148), 0.0, 3 * 2.0**-149],
    [2.0**-126, -(2.0**-140), 2.0**-127, 0.0],
    [2.0**127, -(2.0**127) * (2 - 2.0**-23), 1.0, 2.0**-149],
    [0.0, 0.0, -0.0, 0.0],
    [1.0, 2.0**-12, 2.0**-24, 2.0**-40],
    [8388607.0, -8388607.0, 0.5, 1.5],
    [8355711.0, 8355711.5, -8355711.25, 127.0],
    [8355712.0, 1.0, 2.0, 3.0],
]


@pytest.mark.parametrize("split", [emulation.split_fp16, emulation.split_int8])
def test_parts_add_up_to_the_numbers_within_their_precision(split):
    x = np.array(ROWS, np.float32)
    parts = split(x)
    exact = x.astype(np.float64)
    largest = np.abs(exact).max(1, keepdims=True)
    weights = (1.0, 1.0) if len(parts.parts) == 2 else (2.0**8, 1.0, 2.0**-8)
    total = sum(w * p.astype(np.float64) for w, p in zip(weights, parts.parts, strict=True))
    got = np.ldexp(total, parts.exponents[:, None].astype(np.int64))
    floor = largest * 2.0**-39 if len(weights) == 2 else largest / 4177855 / 2
    limit = np.maximum(np.abs(exact) * 2.0**-22, floor) if len(weights) == 2 else floor
    assert (np.abs(got - exact) <= limit).all()
    assert all(np.isfinite(p.astype(np.float32)).all() for p in parts.parts)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=9))
@settings(max_examples=200, deadline=None)
def test_digits_are_those_of_the_nearest_integer(numbers):
    x = np.array([numbers], np.float32)
    split = emulation.split_int8(x)
    top, middle, low = (p.astype(np.int64) for p in split.parts)
    integers = top * 65536 + middle * 256 + low
    assert np.abs(integers).max() <= 127 * 65536 + 127 * 256 + 127
    # Exact rationals: |x - q·2**-s| <= half of 2**-s, ties to even.
    from fractions import Fraction

    unit = Fraction(2) ** (int(split.exponents[0]) - 8)
    for value, q in zip(x[0], integers[0], strict=True):
        difference = abs(Fraction(float(value)) - int(q) * unit)
        assert difference <= unit / 2
        if difference == unit / 2:
            assert q % 2 == 0


def hard_rows(R, K, seed=0):
    rng = np.random.default_rng([seed, R, K])
    x = np.ldexp(rng.normal(size=(R, K)), rng.integers(-12, 13, (R, K))).astype(np.float32)
    x[: len(ROWS), : len(ROWS[0])] = ROWS
    x[: len(ROWS), len(ROWS[0]) :] = 0
    x[9, 3], x[10, 0], x[11, K - 1] = np.inf, np.nan, -np.inf
    return x


@pytest.mark.triton
@pytest.mark.parametrize("kind", ["fp16", "int8", "bf16"])
@pytest.mark.parametrize("layout", ["rows", "long rows", "columns"])
def test_splitting_kernels_give_the_same_parts_and_facts(kind, layout):
    if tuple(map(int, pytest.importorskip("triton").__version__.split(".")[:2])) < (3, 9):
        pytest.skip("the kernels need Triton 3.9")
    import fpsan_tools
    from tritongemm import modes
    from tritongemm.kernels.hopper import splitting

    x = hard_rows(70, 90)
    R, K = x.shape
    pitch, rows = 128, 256
    types = {"fp16": np.float16, "int8": np.int8, "bf16": np.uint16}
    data = np.full((splitting.KINDS[kind] * rows, pitch), 77, types[kind])
    word = 4 if kind == "int8" else 1
    given = fpsan_tools.typed(data, "bf16") if kind == "bf16" else data.view(np.int32) if word == 4 else data
    exponents, energy, small, largest = (np.zeros(R, t) for t in (np.int32, np.int64, np.int32, np.int32))
    gate, counters = np.ones(1, np.int32), np.full(4, 7, np.int32)
    facts = (exponents, energy, small)
    common = {"KIND": kind, "GATED": True, "AHEAD": True, "num_warps": 4, "domain": "hardware"}
    if layout == "columns":
        y = np.ascontiguousarray(x.T)
        behind, done = 2, np.zeros(5, np.int32)
        programs = 3 * 8 if kind == "bf16" else 2 * (3 + behind) * 8
        fpsan_tools.run(
            splitting.split_columns_kernel, (programs,), y, largest, done, given, *facts, R, K, pitch // word,
            rows * pitch // word, 1, R, behind, gate, BLOCK_R=8, BLOCK_K=32, BLOCKS=2, BESIDE=2, **common,
        )  # fmt: skip
        assert (done == (0 if kind == "bf16" else 4)).all()
    else:
        block = 128 if layout == "rows" else 32
        fpsan_tools.run(
            splitting.split_rows_kernel, (R,), x, given, *facts, K, pitch // word, rows * pitch // word, K, 1,
            gate, counters, 3, BLOCK=block, RESIDENT=layout == "rows", **common,
        )  # fmt: skip
        assert list(counters) == [0, 0, 0, 7]
    got = data.reshape(-1, rows, pitch)[:, :R]
    assert (got[:, :, K:] == 0).all(), "zeros behind column K"
    special = ~np.isfinite(x)
    if kind == "bf16":
        special |= np.abs(x) > 3.3895313892515355e38
        want = [p.view(np.uint32) >> 16 for p in modes.bf16_parts(np.where(special, 0, x))]
        for p in range(3):
            np.testing.assert_array_equal(got[p, :, :K], want[p])
    else:
        split = (emulation.split_fp16 if kind == "fp16" else emulation.split_int8)(x)
        for p, part in enumerate(split.parts):
            unsigned = f"u{part.dtype.itemsize}"
            np.testing.assert_array_equal(np.ascontiguousarray(got[p, :, :K]).view(unsigned), part.view(unsigned))
        np.testing.assert_array_equal(exponents, split.exponents)
        np.testing.assert_array_equal(small & ((1 << 30) - 1), split.small)
        if kind == "int8":
            zero = split.energy >= 1 << 62
            np.testing.assert_array_equal(energy[~zero], split.energy[~zero])
            assert (energy[zero] >= 1 << 62).all()
    np.testing.assert_array_equal(small >= 1 << 30, special.any(1))


@pytest.mark.triton
def test_a_gate_that_is_shut_leaves_everything_alone():
    pytest.importorskip("triton")
    import fpsan_tools
    from tritongemm.kernels.hopper import splitting

    x = hard_rows(16, 40)
    data = np.full((512, 64), 7, np.float16)
    facts = [np.full(16, 7, t) for t in (np.int32, np.int64, np.int32)]
    fpsan_tools.run(
        splitting.split_rows_kernel, (16,), x, data, *facts, 40, 64, 256 * 64, 40, 1, np.zeros(1, np.int32),
        np.zeros(1, np.int32), 0, KIND="fp16", BLOCK=64, RESIDENT=True, GATED=True, AHEAD=False, num_warps=4,
        domain="hardware",
    )  # fmt: skip
    assert all((y == 7).all() for y in (data, *facts))


# ------------------------------------------------------------------------------------------------------------ accuracy
LONG = [pytest.param(6144, kind, marks=() if kind == "uniform" else pytest.mark.exhaustive) for kind in KINDS]


@pytest.mark.parametrize(("K", "kind"), [(K, kind) for K in (16, 64, 256, 1024) for kind in KINDS] + LONG)
def test_guarded_products_are_no_worse_than_a_serial_sum(kind, K):
    """On each distribution, at each length: rms at most a tenth above, the largest error at most half above."""
    a, b = draw(kind, (24, K), 1), draw("normal" if kind in ("outlier", "lognormal") else kind, (K, 32), 2)
    plain = errors(serial(a, b), a, b)
    for arithmetic in (FP16X3, INT8X6, emulation.AUTO):
        rms, largest = errors(arithmetic.predict(a, b), a, b)
        assert rms <= 1.1 * plain[0], (type(arithmetic).__name__, rms, plain)
        assert largest <= 1.5 * plain[1] + 0.5, (type(arithmetic).__name__, largest, plain)


def test_headline_accuracy():
    """At K = 6144 fp16x3 errs six times less than a serial sum, int8x6 over three times."""
    a, b = draw("uniform", (24, 6144), 1), draw("uniform", (6144, 40), 2)
    plain = errors(serial(a, b), a, b)[0]
    assert 0.35 < plain < 0.45
    assert errors(FP16X3.predict(a, b, guard=False), a, b)[0] < plain / 6
    assert errors(INT8X6.predict(a, b, guard=False), a, b)[0] < plain / 3


@pytest.mark.parametrize(
    ("mode", "kind", "K", "want"),
    [
        ("fp16x3", "uniform", 64, "kept"), ("fp16x3", "lognormal", 6144, "kept"), ("fp16x3", "wide", 1024, "kept"),
        ("fp16x3", "outlier", 1024, "kept"), ("fp16x3", "normal", 16, "bf16x6"),
        ("int8x6", "uniform", 1024, "kept"), ("int8x6", "uniform", 64, "ieee"), ("int8x6", "lognormal", 6144, "ieee"),
        ("int8x6", "wide", 6144, "ieee"), ("int8x6", "outlier", 6144, "ieee"),
    ],
)  # fmt: skip
def test_what_the_guard_decides(mode, kind, K, want):
    a, b = draw(kind, (24, K), 1), draw(kind if kind != "outlier" else "normal", (K, 32), 2)
    split, limits = (
        (emulation.split_fp16, emulation.fp16x3_limits)
        if mode == "fp16x3"
        else (emulation.split_int8, emulation.int8x6_limits)
    )
    assert emulation.VERDICTS[emulation.verdict(split(a), split(b.T), K, limits(K))] == want


def test_guard_refuses_rows_whose_bulk_is_out_of_the_parts_reach():
    """One huge number per row that meets zeros: without the guard nothing of the products would be left."""
    a, b = draw("uniform", (8, 512), 1), draw("uniform", (512, 8), 2)
    a[:, 0], b[0] = 2.0**60, 0.0
    plain = errors(serial(a, b), a, b)
    assert errors(FP16X3.predict(a, b, guard=False), a, b)[1] > 1e5
    assert errors(FP16X3.predict(a, b), a, b)[1] <= plain[1]
    assert errors(INT8X6.predict(a, b), a, b)[1] <= plain[1]


@pytest.mark.parametrize("of_a", [0.0, 1e-3])
def test_guard_leaves_numbers_beyond_bf16_to_fp32_arithmetic(of_a):
    """bf16 rounds the largest fp32 numbers to infinity, of which products would make NaN or infinity."""
    a, b = np.ones((1, 40), np.float32), np.full((40, 1), 1e-3, np.float32)
    a[0, 0], b[0] = of_a, np.finfo(np.float32).max
    for arithmetic in (FP16X3, emulation.AUTO):
        got = arithmetic.predict(a, b)
        assert np.isfinite(got).all()
        assert errors(got, a, b)[1] <= errors(serial(a, b), a, b)[1]
    left, right = emulation.split_fp16(a), emulation.split_fp16(b.T)
    assert emulation.VERDICTS[emulation.verdict(left, right, 40, emulation.fp16x3_limits(40))] == "ieee"


@pytest.mark.triton
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["fp16x3", "int8x6"])
def test_verdict_kernel_decides_as_the_model_does(mode, kind):
    if tuple(map(int, pytest.importorskip("triton").__version__.split(".")[:2])) < (3, 9):
        pytest.skip("the kernels need Triton 3.9")
    import fpsan_tools
    from tritongemm.kernels.hopper.guarding import LEAVE, verdict_kernel

    split, limits_of = (
        (emulation.split_fp16, emulation.fp16x3_limits)
        if mode == "fp16x3"
        else (emulation.split_int8, emulation.int8x6_limits)
    )
    seen: set[int] = set()
    for K, factor, first in ((64, 1.0, None), (6144, 1.0, None), (64, 2.0**-120, 1.0), (64, 1.0, 3.2e38)):
        a, b = draw(kind, (24, K), 1) * np.float32(factor), draw(kind, (K, 32), 2)
        if first is not None:
            a[0, 0] = first  # all but one number of this row are small
        left, right, limits = split(a), split(b.T), limits_of(K)
        facts = np.full(emulation.FACTS, -77, np.int32)  # as in memory that was something else
        sides = [
            (s.exponents, np.zeros(s.exponents.size, np.int64) if s.energy is None else s.energy, s.small)
            for s in (left, right)
        ]
        for gate, GATED in ((5, True), (0, True), (0, False)):
            fpsan_tools.run(
                verdict_kernel, (1,), *sides[0], *sides[1], facts, 24, 32, K, limits.most_small,
                limits.worst_inverse or 0, limits.mean_inverse or 0, emulation.least_exponent("fp16"),
                emulation.most_exponent("fp16"), np.full(1, gate, np.int32), OTHERWISE=limits.otherwise,
                ENERGY=limits.worst_inverse is not None, GATED=GATED, BLOCK=32,
                ready_ptr=np.array([0, 8, 8, 8], np.int32), first_tile=1, rows_per_tile=8,
                EARLY=GATED, num_warps=4, domain="hardware",
            )  # fmt: skip
            want = LEAVE if GATED and gate == KEEP else emulation.verdict(left, right, K, limits)
            assert facts[0] == want
        assert facts[1] == 0
        assert (facts[2], facts[3]) == (left.small.max(), right.small.max())
        np.testing.assert_array_equal(facts, emulation.facts_of(left, right, K, limits))
        seen.add(int(facts[0]))
    assert len(seen) > 1 or (mode == "int8x6" and kind not in ("uniform", "normal")), "both ways of deciding occur"


# -------------------------------------------------------------------------------------------------------------- promise
@pytest.mark.parametrize("arithmetic", [FP16X3, INT8X6], ids=["fp16x3", "int8x6"])
@pytest.mark.parametrize("K", [1, 7, 64, 700])
def test_bound_of_kept_products_is_never_exceeded(arithmetic, K):
    rng = np.random.default_rng(K)
    for case in range(6):
        a, b = draw("normal", (12, K), case), draw("normal", (K, 10), case + 50)
        if case == 1:  # cancellation
            a[:, K // 2 :] = -a[:, : K - K // 2]
        if case == 2:  # every exponent
            a, b = (np.ldexp(x, rng.integers(-30, 31, x.shape)).astype(np.float32) for x in (a, b))
        if case == 3:  # one sign: sums as large as can be
            a, b = np.abs(a), np.abs(b)
        if case == 4:  # opposite extremes of scale
            a, b = np.ldexp(a, 120).astype(np.float32), np.ldexp(b, -140).astype(np.float32)
        if case == 5:  # subnormal results
            a, b = np.ldexp(a, -80).astype(np.float32), np.ldexp(b, -60).astype(np.float32)
        golden, magnitude = a.astype(np.float64) @ b.astype(np.float64), np.abs(a).astype(np.float64) @ np.abs(b)
        bound = arithmetic.kept(K).bound(magnitude, np.abs(a).max(1), np.abs(b).max(0))
        error = np.abs(arithmetic.predict(a, b, guard=False).astype(np.float64) - golden)
        assert (error <= bound).all(), (case, (error / bound).max())
        wider = arithmetic.promise(K).bound(magnitude, np.abs(a).max(1), np.abs(b).max(0))
        assert (np.abs(arithmetic.predict(a, b).astype(np.float64) - golden) <= wider).all()


def test_integer_sums_do_not_depend_on_the_order_of_k():
    a, b = draw("normal", (6, 5000), 3), draw("normal", (5000, 7), 4)
    want = INT8X6.predict(a, b, guard=False)
    order = np.random.default_rng(0).permutation(5000)
    np.testing.assert_array_equal(
        INT8X6.predict(a[:, order], b[order], guard=False).view(np.uint32), want.view(np.uint32)
    )
    assert (FP16X3.predict(a[:, order], b[order], guard=False) != FP16X3.predict(a, b, guard=False)).any()


def test_integer_matrices_come_out_exactly():
    rng = np.random.default_rng(0)
    a, b = rng.integers(-2047, 2048, (9, 500)).astype(np.float32), rng.integers(-15, 16, (500, 8)).astype(np.float32)
    want = a.astype(np.float64) @ b
    np.testing.assert_array_equal(FP16X3.predict(a, b, guard=False), want)
    np.testing.assert_array_equal(INT8X6.predict(a, b, guard=False), want)


def test_int8x6_is_the_sum_of_python_integers():
    """Against exact integers of any length, one output at a time."""
    a, b = draw("normal", (3, 777), 5), draw("normal", (777, 4), 6)
    left, right = emulation.split_int8(a), emulation.split_int8(b.T)
    got = INT8X6.predict(a, b, guard=False)
    for m in range(3):
        for n in range(4):
            x, y = ([[int(v) for v in p[i]] for p in s.parts] for s, i in ((left, m), (right, n)))
            g = [sum(i * j for p in range(w + 1) for i, j in zip(x[p], y[w - p], strict=True)) for w in range(3)]
            f0, f1, f2 = (np.float32(v) for v in g)
            total = f0 * np.float32(65536) + (f1 * np.float32(256) + f2)
            want = np.ldexp(np.float64(total), int(left.exponents[m]) + int(right.exponents[n])).astype(np.float32)
            assert got[m, n] == want


@pytest.mark.parametrize("arithmetic", [FP16X3, INT8X6], ids=["fp16x3", "int8x6"])
@pytest.mark.parametrize("guard", [True, False])
def test_inf_and_nan_come_out_as_fp32_arithmetic_has_them(arithmetic, guard):
    a, b = draw("normal", (6, 64), 1), draw("normal", (64, 7), 2)
    a[1, 3], a[2, 5], a[3, 0], a[3, 1] = np.inf, np.nan, np.inf, -np.inf
    b[9, 4], b[3, 0] = -np.inf, 0.0
    got = arithmetic.predict(a, b, guard=guard)
    with np.errstate(all="ignore"):
        want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])
    assert np.isfinite(got[0, :4]).all()


@pytest.mark.parametrize("arithmetic", [FP16X3, INT8X6], ids=["fp16x3", "int8x6"])
def test_zero_rows_and_results_beyond_the_range(arithmetic):
    a, b = draw("uniform", (4, 300), 1), draw("uniform", (300, 5), 2)
    a[1] = 0
    assert (arithmetic.predict(a, b)[1].view(np.uint32) == 0).all()
    up = [np.ldexp(np.abs(x), 100).astype(np.float32) for x in (a, b)]
    large = arithmetic.predict(*up)
    assert np.isinf(large[0]).all()
    assert (large[1] == 0).all()
    small = arithmetic.predict(np.ldexp(a, -100).astype(np.float32), np.ldexp(b, -100).astype(np.float32))
    assert (small.view(np.uint32) == 0).all(), "+0, never -0"


# ------------------------------------------------------------------------------------------------------------- prepared
def test_prepared_operands_on_the_cpu():
    a, b = draw("uniform", (5, 400), 1), draw("uniform", (400, 6), 2)
    ready = emulation.prepare(b)
    assert ready.shape == (400, 6)
    np.testing.assert_array_equal(emulation.product(a, ready), FP16X3.predict(a, b))
    np.testing.assert_array_equal(emulation.product(a, emulation.prepare(b, "portable")), INT8X6.predict(a, b))
    with pytest.raises(UsageError, match="cuts nothing"):
        emulation.prepare(b, "tf32")
    with pytest.raises(UsageError, match="fp32"):
        emulation.prepare(b.astype(np.float16))


def test_products_with_a_prepared_operand_do_not_follow_later_changes_of_it():
    a, b = draw("uniform", (5, 100), 1), draw("uniform", (100, 6), 2)
    for precision in ("fp16x3", "int8x6", "bf16x6"):
        mine = b.copy()
        ready = emulation.prepare(mine, precision)
        before = emulation.product(a, ready)
        mine[:] = 0
        np.testing.assert_array_equal(emulation.product(a, ready), before)


@pytest.mark.torch
def test_an_operand_that_records_gradients_is_not_prepared():
    torch = pytest.importorskip("torch")
    a, w = torch.randn(5, 64), torch.randn(64, 6, requires_grad=True)
    with pytest.raises(UsageError, match=r"b: prepared operands record no gradients.*prepare b.detach\(\)"):
        emulation.prepare(w)
    with torch.no_grad():
        inside = a @ emulation.prepare(w)
    outside = a @ emulation.prepare(w.detach())
    assert torch.equal(inside, outside)
    assert not outside.requires_grad
    ready, before = emulation.prepare(w.detach()), outside.clone()
    w.detach().zero_()
    assert torch.equal(a @ ready, before)


def test_the_guard_can_be_told_to_stand_aside():
    import tritongemm

    a, b = draw("uniform", (5, 300), 1), draw("uniform", (300, 6), 2)
    a[:, 0] = 2.0**60
    guarded, plain = FP16X3.predict(a, b, guard=True), FP16X3.predict(a, b, guard=False)
    assert (guarded != plain).any()
    for multiply in (
        lambda: tritongemm.mm(a, b, precision="fp16x3"),
        lambda: emulation.product(a, emulation.prepare(b)),
        lambda: FP16X3.predict(a, b),
    ):
        np.testing.assert_array_equal(multiply(), guarded)
        with emulation.unguarded():
            np.testing.assert_array_equal(multiply(), plain)
            with emulation.unguarded():
                pass
            assert not emulation.guarded()
        np.testing.assert_array_equal(multiply(), guarded)
    with pytest.raises(ZeroDivisionError), emulation.unguarded():
        raise ZeroDivisionError
    assert emulation.guarded(), "restored after an exception"
    np.testing.assert_array_equal(emulation.product(a, emulation.prepare(b), guard=False), plain)
