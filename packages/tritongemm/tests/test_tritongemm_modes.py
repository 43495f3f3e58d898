"""The table of precision modes: what they refuse, their predictions against independent arithmetic, and their promises
against inputs made to break them. None of this needs Triton or torch."""

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tritongemm_cases import KINDS, SHAPES, bits, digest, operands, typed

import numfmt
from numfmt import matrix_units
from tritongemm import modes
from tritongemm.elements import ELEMENTS, codes_of, values_of
from tritongemm.errors import UsageError
from tritongemm.promises import SPLITS

PAIRS = [
    pytest.param(mode.name, dtype, id=f"{mode.name}-{dtype}")
    for mode in modes.MODES.values()
    for dtype in mode.operands
    if mode.arithmetic[dtype].dot is not None
]
pairs = pytest.mark.parametrize(("mode", "dtype"), PAIRS)


def exact(a, b):
    """The float64 product and sum|p|; products of fp32 and narrower numbers are exact in float64, their sums nearly."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    return x @ y, np.abs(x) @ np.abs(y)


def fractions(a, b):
    """The exact product of two small matrices."""
    rows = [[Fraction(float(v)) for v in row] for row in a]
    columns = [[Fraction(float(v)) for v in column] for column in b.T]
    return [[sum(map(lambda p, q: p * q, r, c), Fraction(0)) for c in columns] for r in rows]


# ------------------------------------------------------------------------------------------------------------ the table
def test_every_name_of_the_table_is_its_modes():
    assert all(modes.get(name).name == name for name in modes.MODES)
    assert modes.get("portable") is modes.MODES["int8x6"]


def test_modes_name_the_operands_they_take():
    assert modes.get("ieee").operands == ("fp32", "fp16", "bf16", "fp64", "fp8e4m3fn", "fp8e5m2")
    for name in (
        "tf32",
        "tf32_rounded",
        "tf32_even",
        "tf32x3",
        "bf16x3",
        "bf16x6",
        "bf16x6_chained",
        "fp16x3",
        "int8x6",
    ):
        assert modes.get(name).operands == ("fp32",)
    for name in ("fast", "promote32", "promote64", "promote128"):
        assert modes.get(name).operands == ("fp8e4m3fn", "fp8e5m2")


@pytest.mark.parametrize(("name", "hint"), [("tf32x2", "tf32x3"), ("iee", "ieee"), ("promote_32", "promote32")])
def test_an_unknown_mode_names_the_nearest_one(name, hint):
    with pytest.raises(UsageError, match=f"precision: '{name}' is no mode. Did you mean '{hint}'"):
        modes.get(name)


def test_operands_a_mode_does_not_take_are_refused_with_modes_that_do():
    with pytest.raises(UsageError, match="takes fp32 operands, given fp16; modes for fp16: ieee"):
        modes.get("tf32").promise(8, "fp16")
    with pytest.raises(UsageError, match="its dtype fp16 is not a's fp32"):
        modes.get("ieee").promise(8, "fp32", "fp16")
    assert modes.get("ieee").promise(8, "fp8e4m3fn", "fp8e5m2").relative_bound > 0


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(UsageError, match=r"shapes \(2, 3\) and \(2, 3\)"):
        modes.get("ieee").predict(np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32))


@pairs
def test_without_products_every_sum_is_a_positive_zero(mode, dtype):
    c = modes.get(mode).predict(np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32), types=(dtype, dtype))
    np.testing.assert_array_equal(bits(c), np.zeros((2, 3)))
    assert modes.get(mode).promise(0, dtype).relative_bound < 2.0**-7


# --------------------------------------------------------------------------------------------------------- predictions
@pairs
def test_a_prediction_is_close_to_the_exact_product(mode, dtype):
    """Within the bound, and with an error that the mode's precision accounts for: not a bound that allows anything."""
    a, b = (values_of(typed(x, dtype), ELEMENTS[dtype]) for x in operands("normal", (20, 96, 24), dtype))
    golden, magnitude = exact(a, b)
    c = modes.get(mode).predict(a, b, types=(dtype, dtype))
    assert c.dtype == (np.float64 if dtype == "fp64" else np.float32)
    promise = modes.get(mode).promise(96, dtype)
    error = np.abs(c - golden)
    assert (error <= promise.bound(magnitude, np.abs(a).max(1), np.abs(b).max(0))).all()
    assert (error <= promise.probabilistic * magnitude + 1e-30).all()
    expected = {"tf32": 2e-4, "tf32_rounded": 5e-5, "tf32_even": 5e-5, "bf16x3": 3e-6}.get(
        mode, 2e-4 if "fp8" in dtype else 1e-6
    )
    assert np.sqrt(np.mean((error / magnitude) ** 2)) < expected


DATA = Path(__file__).parent / "data"


@pairs
def test_predictions_have_the_bits_that_an_h200_computed(mode, dtype):
    """Recorded by tritongemm_record_h200.py: random, spread, cancelling and special operands."""
    inputs = json.loads((DATA / "modes_h200.json").read_text())["inputs"]
    with np.load(DATA / "modes_h200.npz") as recorded:
        for kind in KINDS:
            # fp64 operations on special numbers are done in rationals: a few are enough.
            for shape in SHAPES[:1] if (dtype, kind) == ("fp64", "special") else SHAPES:
                name = f"{mode}/{dtype}/{kind}/{'x'.join(map(str, shape))}"
                a, b = operands(kind, shape, dtype)
                assert digest(a, b) == inputs[name], "the operands are not those that were recorded"
                got = modes.get(mode).predict(typed(a, dtype), typed(b, dtype))
                np.testing.assert_array_equal(bits(got), recorded[name], err_msg=name)


def test_ieee_fp32_is_the_serial_chain():
    a, b = (x.view(np.float32) for x in operands("wide", (5, 40, 6), "fp32"))
    want = np.zeros((5, 6), np.float32)
    for i in range(5):
        for j in range(6):
            total = Fraction(0)
            for k in range(40):
                total = Fraction(float(numfmt.FP32.round(total + Fraction(float(a[i, k])) * Fraction(float(b[k, j])))))
            want[i, j] = float(total)
    np.testing.assert_array_equal(bits(modes.get("ieee").predict(a, b)), bits(want))


def test_ieee_fp64_is_the_serial_chain():
    a, b = (x.view(np.float64) for x in operands("wide", (4, 30, 3), "fp64"))
    for i in range(4):
        for j in range(3):
            total = 0.0
            for k in range(30):
                total = float(Fraction(total) + Fraction(a[i, k]) * Fraction(b[k, j]))  # rounds to nearest even
            assert modes.get("ieee").predict(a, b)[i, j] == total


@pytest.mark.parametrize("kind", KINDS[:3])
def test_fp8_modes_are_numfmts_promoted_chains(kind):
    a, b = operands(kind, (8, 300, 9), "fp8e4m3fn")
    x, y = (values_of(typed(v, "fp8e4m3fn"), ELEMENTS["fp8e4m3fn"]) for v in (a, b))
    for name, interval in (("ieee", 128), ("promote32", 32), ("promote64", 64), ("promote128", 128), ("fast", None)):
        schedule = matrix_units.chain() if interval is None else matrix_units.promote(interval)
        want = matrix_units.matmul(x, y, unit="hopper.wgmma", inputs="e4m3", schedule=schedule, pad_k=True)
        np.testing.assert_array_equal(
            bits(modes.get(name).predict(typed(a, "fp8e4m3fn"), typed(b, "fp8e4m3fn"))), bits(want)
        )


def test_operands_of_mixed_fp8_types_are_multiplied():
    a, b = operands("normal", (6, 70, 5), "fp8e4m3fn")[0], operands("normal", (6, 70, 5), "fp8e5m2")[1]
    c = modes.get("ieee").predict(typed(a, "fp8e4m3fn"), typed(b, "fp8e5m2"))
    x, y = values_of(typed(a, "fp8e4m3fn"), ELEMENTS["fp8e4m3fn"]), values_of(typed(b, "fp8e5m2"), ELEMENTS["fp8e5m2"])
    golden, magnitude = exact(x, y)
    assert (np.abs(c - golden) <= 2.0**-10 * magnitude).all()


def test_tf32_cuts_and_the_others_round():
    """1 + 3·2^-12 lies nearer to 1 + 2^-10 than to 1: cut it is 1, rounded it is not. 1 + 2^-11 lies between them."""
    one = np.ones((1, 1), np.float32)
    for x, cut, away, even in ((1 + 3 * 2.0**-12, 1, 1 + 2.0**-10, 1 + 2.0**-10), (1 + 2.0**-11, 1, 1 + 2.0**-10, 1)):
        operand = np.array([[x]], np.float32)
        for mode, want in (("tf32", cut), ("tf32_rounded", away), ("tf32_even", even)):
            assert modes.get(mode).predict(operand, one)[0, 0] == want, mode


@given(st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), min_size=1, max_size=30))
def test_to_tf32_even_is_the_rounding_of_the_format(values):
    """Against numfmt's rounding, an algorithm of its own."""
    x = np.array(values, np.float32)
    finite = np.isfinite(x)
    np.testing.assert_array_equal(bits(modes.to_tf32_even(x)[finite]), bits(numfmt.TF32.round(x[finite]).astype("f")))
    np.testing.assert_array_equal(bits(modes.to_tf32_even(x)[~finite]), bits(x[~finite]))


# What an H200 made of A's NaN whose last 13 bits alone tell them from infinities, times one.
NAN_OF_LOW_BITS = {
    "ieee": "nan", "tf32": "inf", "tf32_rounded": "nan", "tf32_even": "nan", "tf32x3": "inf", "bf16x3": "nan",
    "bf16x6": "nan", "bf16x6_chained": "nan", "fp16x3": "nan", "int8x6": "nan", "auto": "nan",
}  # fmt: skip


@pytest.mark.parametrize("mode", [name for name, mode in modes.MODES.items() if "fp32" in mode.operands])
def test_nan_that_only_low_bits_tell(mode):
    """The tensor core cuts them off; modes that round or split see a NaN first. Quiet NaN are NaN everywhere."""
    low = np.array([[0x7F800001], [0xFF800001], [0x7F801FFF]], np.uint32).view(np.float32)
    quiet = np.array([[0x7F802000], [0x7FC00000], [0x7FFFFFFF], [0xFFC00000]], np.uint32).view(np.float32)
    one = np.ones((1, 1), np.float32)
    got = modes.get(mode).predict(low, one)[:, 0]
    if NAN_OF_LOW_BITS[mode] == "inf":
        np.testing.assert_array_equal(got, [np.inf, -np.inf, np.inf])
    else:
        assert np.isnan(got).all()
    assert np.isnan(modes.get(mode).predict(quiet, one)).all()


def test_to_tf32_even_at_every_tie():
    """All ties of one binade, both neighbours of each, and the largest numbers."""
    ties = np.arange(0x3F801000, 0x40000000, 0x2000, dtype=np.uint32)
    for near in (ties - 1, ties, ties + 1, np.arange(0x7F7FE000, 0x7F800000, dtype=np.uint32)):
        x = near.view(np.float32)
        with np.errstate(over="ignore"):
            want = numfmt.TF32.round(x).astype(np.float32)
        np.testing.assert_array_equal(bits(modes.to_tf32_even(x)), bits(want))


@given(st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), min_size=1, max_size=30))
def test_to_tf32_rounds_to_nearest_ties_away(values):
    x = np.array(values, np.float32)
    got = modes.to_tf32(x)
    for value, rounded in zip(x, got, strict=True):
        if not np.isfinite(value):
            assert bits(np.array([value])) == bits(np.array([rounded]))
            continue
        assert bits(np.array([rounded]))[0] & 0x1FFF == 0
        quantum = Fraction(2) ** (max(math.frexp(float(value))[1] - 1, -126) - 10) if value else Fraction(1)
        if np.isfinite(rounded):
            distance = abs(Fraction(float(value)) - Fraction(float(rounded)))
            assert distance <= quantum / 2
            assert distance < quantum / 2 or abs(rounded) > abs(value)
        else:
            assert abs(value) >= np.float32(SPLITS["tf32_rounded"].largest)


@given(st.lists(st.floats(min_value=2.0**-100, max_value=2.0**120, width=32), min_size=1, max_size=30), st.booleans())
def test_three_bf16_parts_hold_every_bit(values, negative):
    x = np.array(values, np.float32) * np.float32(-1 if negative else 1)
    parts = modes.bf16_parts(x)
    for part in parts:
        assert (bits(part) & 0xFFFF == 0).all()
    np.testing.assert_array_equal(sum(p.astype(np.float64) for p in parts), x.astype(np.float64))
    assert (np.abs(parts[1]) <= 2.0**-8 * np.abs(x)).all()
    assert (np.abs(parts[2]) <= 2.0**-16 * np.abs(x)).all()


def test_every_nan_is_the_canonical_one_and_zeros_are_positive():
    x = np.array([[np.nan, 1], [-0.0, 0]], np.float32)
    x.view(np.uint32)[0, 0] = 0xFFC12345
    for mode in ("ieee", "tf32", "bf16x6"):
        c = modes.get(mode).predict(x, np.ones((2, 1), np.float32))
        assert bits(c).tolist() == [[0x7FFFFFFF], [0]], mode


@pytest.mark.parametrize("mode", ["ieee", "tf32", "tf32_rounded", "tf32_even", "tf32x3", "bf16x3", "bf16x6"])
def test_infinities_come_out_as_in_fp32(mode):
    a = np.array([[np.inf, 2.5], [3, np.inf], [-np.inf, np.inf], [np.inf, 0]], np.float32)
    b = np.array([[1.37, 0, 0.1], [2.91, 7, -5]], np.float32)
    with np.errstate(invalid="ignore"):
        want = a @ b
    np.testing.assert_array_equal(modes.get(mode).predict(a, b)[np.isinf(want)], want[np.isinf(want)])
    np.testing.assert_array_equal(np.isnan(modes.get(mode).predict(a, b)), np.isnan(want))


# ------------------------------------------------------------------------------------------------------------ promises
def adversarial(rng, K, dtype, what):
    """Operands (4, K) and (K, 4) chosen to make errors as large as they get."""
    element = ELEMENTS[dtype]
    fmt = element.format
    a, b = rng.uniform(1, 2, (4, K)), rng.uniform(1, 2, (K, 4))
    if what.startswith("kappa"):  # the second half takes back the first, all but a share of 10^-j
        half = K // 2
        a[:, half : 2 * half] = -a[:, :half]
        b[half : 2 * half] = b[:half] * (1 + 10.0 ** -int(what[5:]))
    elif what == "growing":  # every step moves the alignment up, so that it cuts all that was there
        a *= np.ldexp(1.0, np.minimum(np.arange(K) * 24 // max(K, 1), 12 if fmt.emax < 20 else 24))
    elif what == "one large":
        a[:, 0] = min(fmt.max / 4, 2.0**20)
    elif what == "all ones below":  # operands whose low bits are all ones: whatever is cut is as large as it can be
        a, b = np.full((4, K), 2 - 2.0**-fmt.mantissa_bits), np.full((K, 4), 2 - 2.0**-fmt.mantissa_bits)
    elif what == "subnormal":
        a = rng.choice([fmt.min_subnormal, 3 * fmt.min_subnormal, fmt.min_normal], (4, K))
        b = rng.uniform(1, 2, (K, 4)) * rng.choice([1, min(fmt.max / 8, 2.0**20)], (K, 4))
    elif what == "tiny" and fmt.emin < -100:  # sums below the floor of the alignment, from normal operands
        a, b = np.ldexp(a, fmt.emin * 53 // 100), np.ldexp(b, fmt.emin * 57 // 100)
    elif what == "exponents":
        reach = min(fmt.emax, 60) // 2
        a = np.ldexp(a, rng.integers(-reach, reach, a.shape)) * rng.choice([-1, 1], a.shape)
        b = np.ldexp(b, rng.integers(-reach, reach, b.shape)) * rng.choice([-1, 1], b.shape)
    made = (codes_of(np.clip(x, -fmt.max / 2, fmt.max / 2), element) for x in (a, b))
    return tuple(values_of(typed(x, dtype), element) for x in made)


WHATS = [
    "kappa1",
    "kappa3",
    "kappa5",
    "kappa7",
    "growing",
    "one large",
    "all ones below",
    "subnormal",
    "exponents",
    "tiny",
]


@pairs
@pytest.mark.parametrize("what", WHATS)
def test_no_input_exceeds_the_bound(mode, dtype, what):
    rng = np.random.default_rng([WHATS.index(what), len(mode)])
    for K in (1, 2, 17, 64, 200):
        a, b = adversarial(rng, K, dtype, what)
        c = modes.get(mode).predict(a, b, types=(dtype, dtype))
        promise = modes.get(mode).promise(K, dtype)
        golden = np.array([[float(v) for v in row] for row in fractions(a, b)])
        _, magnitude = exact(a, b)
        limit = promise.bound(magnitude, np.abs(a).max(1), np.abs(b).max(0)) * (1 + 2.0**-40)
        finite = np.isfinite(c)
        assert finite.any(), (K, "nothing was tested")
        assert (np.abs(c - golden)[finite] <= limit[finite] + 2.0**-52 * np.abs(golden)[finite]).all(), K


@settings(max_examples=60)
@given(st.data())
def test_no_random_input_exceeds_the_bound(data):
    mode, dtype = data.draw(st.sampled_from([p.values for p in PAIRS]))
    fmt = ELEMENTS[dtype].format
    K = data.draw(st.integers(1, 40))
    seed = data.draw(st.integers(0, 2**32 - 1))
    reach = data.draw(st.integers(0, min(fmt.emax, 126) // 2 - 3))
    rng, element = np.random.default_rng(seed), ELEMENTS[dtype]

    def matrix(shape):
        x = np.ldexp(rng.standard_normal(shape), rng.integers(-reach, reach + 1, shape))
        return values_of(typed(codes_of(x.clip(-fmt.max / 2, fmt.max / 2), element), dtype), element)

    a, b = matrix((3, K)), matrix((K, 3))
    golden, magnitude = exact(a, b)
    c = modes.get(mode).predict(a, b, types=(dtype, dtype))
    limit = modes.get(mode).promise(K, dtype).bound(magnitude, np.abs(a).max(1), np.abs(b).max(0))
    slack = 2.0**-52 * K * magnitude  # of the float64 reference
    finite = np.isfinite(c)
    assert (np.abs(c - golden)[finite] <= (limit + slack)[finite]).all()


@pairs
def test_bounds_are_not_idle(mode, dtype):
    """Some input uses a thousandth of the bound at least, in most modes much more: it is no number out of a hat."""
    rng = np.random.default_rng(1)
    used = 0.0
    for what in ("all ones below", "growing", "one large", "exponents"):
        a, b = adversarial(rng, 64, dtype, what)
        _, magnitude = exact(a, b)
        golden = np.array([[float(v) for v in row] for row in fractions(a, b)])
        c = modes.get(mode).predict(a, b, types=(dtype, dtype))
        limit = modes.get(mode).promise(64, dtype).bound(magnitude, np.abs(a).max(1), np.abs(b).max(0))
        used = max(used, float((np.abs(c - golden) / limit).max()))
    assert used > 0.001


def test_a_chained_split_promises_less_than_a_promoted_one():
    """What is small is cut at the exponent of what is large: chaining the parts makes the bound and the error worse."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0, 1, (16, 2048)).astype(np.float32), rng.uniform(0, 1, (2048, 16)).astype(np.float32)
    golden, _ = exact(a, b)
    error = {m: np.abs(modes.get(m).predict(a, b) - golden).max() for m in ("bf16x6", "bf16x6_chained", "ieee")}
    assert error["bf16x6"] < error["ieee"] < error["bf16x6_chained"]
    bounds = {m: modes.get(m).promise(2048, "fp32").relative_bound for m in ("bf16x6", "bf16x6_chained")}
    assert bounds["bf16x6"] < bounds["bf16x6_chained"]


def test_cut_operands_err_to_one_side_and_rounded_ones_to_both():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (64, 256)).astype(np.float32), rng.uniform(-1, 1, (256, 64)).astype(np.float32)
    golden, _ = exact(a, b)

    def bias(mode):
        error = (modes.get(mode).predict(a, b) - golden) * np.sign(golden)
        return error.mean() / np.abs(error).mean()

    assert bias("tf32") < -0.5
    assert abs(bias("tf32_rounded")) < 0.1
    assert abs(bias("tf32_even")) < 0.1


def test_modes_describe_themselves():
    text = modes.get("promote64").describe(4096, "fp8e4m3fn")
    assert "promote64, fp8e4m3fn operands, K = 4096: chains of steps of 32 products on the tensor core" in text
    assert "every 64 products" in text
    assert "schedule promote(interval=64) on hopper.wgmma" in text
    bound = modes.get("ieee").promise(6144, "fp32").relative_bound * 2**24
    assert f"= {bound:.4g} u·sum|p| for any operands" in modes.get("ieee").describe(6144, "fp32")


def test_promises_grow_with_k_and_say_their_order():
    for mode, dtype in (p.values for p in PAIRS):
        bounds = [modes.get(mode).promise(K, dtype).relative_bound for K in (1, 64, 1000, 10000)]
        assert bounds == sorted(bounds)
        assert bounds[0] < bounds[-1]
        promise = modes.get(mode).promise(4096, dtype)
        assert promise.probabilistic <= promise.relative_bound
        assert "chain" in promise.order
    assert modes.get("ieee").promise(6144, "fp32").relative_bound == pytest.approx(3.66e-4, rel=0.01)


@pytest.mark.parametrize("K", [1, 3, 5])
def test_subnormal_results_of_fp64_lose_whole_numbers(K):
    # Half of FP64's smallest number is no float64: a bound made of it would vanish, or be rounded below the loss.
    smallest = 5e-324
    a, b = np.full((1, K), 2.0**-537), np.full((K, 1), 2.0**-537 * 1.5)
    got = Fraction(float(modes.get("ieee").predict(a, b)[0, 0]))
    true = K * Fraction(2) ** -1074 * Fraction(3, 2)
    promise = modes.get("ieee").promise(K, "fp64")
    assert abs(got - true) <= Fraction(promise.relative_bound) * true + Fraction(promise.absolute)
    assert promise.absolute >= (K + 1) // 2 * smallest


@pytest.mark.parametrize("K", ["2", -1, 2.5, None, True], ids=repr)
def test_only_a_number_of_products_has_a_promise(K):
    for ask in (modes.MODES["tf32"].promise, modes.MODES["tf32"].describe):
        with pytest.raises(UsageError, match=r"K: a number of products, a whole number from 0 on, given"):
            ask(K, "fp32")


def test_promises_of_sums_that_are_too_long_for_a_bound_are_infinite():
    assert modes.MODES["fast"].promise(6_000_000, "fp8e4m3fn").relative_bound == math.inf
    for mode in modes.MODES.values():
        assert mode.promise(np.int64(10**10), mode.operands[0]).relative_bound > 0


def test_promises_take_the_types_of_the_libraries():
    named = modes.MODES["tf32"].promise(3, "fp32")
    assert modes.MODES["tf32"].promise(3, np.float32) == modes.MODES["tf32"].promise(3, np.dtype("f4")) == named
    for wrong in (None, 3, [1], object):
        with pytest.raises(UsageError, match="a_dtype: "):
            modes.MODES["tf32"].promise(3, wrong)


@pytest.mark.torch
def test_promises_and_predictions_take_what_torch_has():
    torch = pytest.importorskip("torch")
    assert modes.MODES["tf32"].promise(3, torch.float32) == modes.MODES["tf32"].promise(3, "fp32")
    from tritongemm import predict

    a, w = torch.randn(4, 8), torch.randn(8, 5)
    assert torch.equal(predict(torch._neg_view(a), w), -predict(a, w))


@pytest.mark.parametrize(
    ("mode", "zero", "least"),
    [
        ("ieee", 0.0, 2.0**-149),
        ("tf32", 1.9 * 2.0**-137, 2.0**-136), ("tf32x3", 1.9 * 2.0**-138, 2.0**-137),
        ("tf32_rounded", 1.9 * 2.0**-138, 2.0**-137), ("tf32_even", 2.0**-137, 1.1 * 2.0**-137),
        ("bf16x3", 2.0**-134, 1.1 * 2.0**-134), ("bf16x6", 2.0**-134, 1.1 * 2.0**-134),
        ("fp16x3", 0.0, 2.0**-149), ("int8x6", 0.0, 2.0**-149), ("auto", 0.0, 2.0**-149),
    ],
)  # fmt: skip
def test_an_infinity_times_what_becomes_zero_is_nan(mode, zero, least):
    infinity = np.float32([[np.inf]])
    assert np.isnan(modes.MODES[mode].predict(infinity, np.float32([[zero]])))
    assert modes.MODES[mode].predict(infinity, np.float32([[least]])) == np.inf


def test_bf16x6_chained_makes_nan_of_infinities():
    assert np.isnan(modes.MODES["bf16x6_chained"].predict(np.float32([[np.inf]]), np.float32([[1]])))
