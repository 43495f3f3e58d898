"""Errors, their units and their bounds, against exact rationals."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numfmt
from tritongemm import accuracy
from tritongemm.accuracy import ErrorAccumulator, Tolerance, a_priori_bound, measure, probabilistic_bound
from tritongemm.auditing.implied_orders import ModeOrder
from tritongemm.errors import UsageError
from tritongemm.matrices import DTYPES
from tritongemm.orders import SummationOrder
from tritongemm.reference import reference, reference_blocks

U = 2.0**-24


def exact_product(a, b):
    """A B in rationals, a nested list."""
    rows = [[Fraction(float(x)) for x in row] for row in a]
    columns = [[Fraction(float(x)) for x in column] for column in b.T]
    return [[sum((x * y for x, y in zip(r, c, strict=True)), Fraction(0)) for c in columns] for r in rows]


def uniform(rng, *shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


def test_the_blocks_of_the_reference_cover_the_product_once():
    rng = np.random.default_rng(1)
    a, b = uniform(rng, 23, 40), uniform(rng, 40, 17)
    seen = np.zeros((23, 17), int)
    for block in reference_blocks(a, b, block_bytes=8 * 40 * 5):
        assert block.golden.nbytes <= 8 * 40 * 5
        seen[block.at] += 1
        np.testing.assert_allclose(block.golden, (a.astype(float) @ b.astype(float))[block.at], rtol=0, atol=1e-13)
        np.testing.assert_allclose(block.magnitude, (abs(a).astype(float) @ abs(b).astype(float))[block.at], rtol=1e-13)
    assert (seen == 1).all()


def test_the_reference_is_within_its_own_bound_of_the_exact_product():
    rng = np.random.default_rng(2)
    a, b = uniform(rng, 3, 300), uniform(rng, 300, 2)
    golden, magnitude = reference(a, b)
    exact = exact_product(a, b)
    for i in range(3):
        for j in range(2):
            assert abs(Fraction(float(golden[i, j])) - exact[i][j]) <= numfmt.gamma(300, 2.0**-53) * magnitude[i, j]


@pytest.mark.parametrize(("M", "K", "N"), [(0, 3, 2), (2, 3, 0), (2, 0, 3)])
def test_an_empty_product_has_a_report(M, K, N):
    a, b = np.zeros((M, K), np.float32), np.zeros((K, N), np.float32)
    report = measure(np.zeros((M, N), np.float32), a, b)
    assert report.outputs == M * N
    assert report.outside == 0
    assert str(report)
    json.dumps(report.as_dict(), allow_nan=False)


def test_every_figure_of_a_report_follows_its_definition():
    rng = np.random.default_rng(5)
    a, b = uniform(rng, 12, 200), uniform(rng, 200, 9)
    order = SummationOrder.chain()
    c = order.simulate(a, b)
    library = (a.astype(float) @ b.astype(float)).astype(np.float32)
    tolerance = Tolerance(2e-6, 1e-7)
    report = measure(c, a, b, order=order, tolerance=tolerance, library=library)
    exact = np.array([[float(x) for x in row] for row in exact_product(a, b)])
    magnitude = abs(a).astype(float) @ abs(b).astype(float)
    error = c.astype(float) - exact
    scaled = abs(error) / (U * magnitude)
    assert report.outputs == 108
    assert report.max_abs == pytest.approx(abs(error).max(), rel=1e-6)
    assert report.max_scaled == pytest.approx(scaled.max(), rel=1e-6)
    assert report.rms_scaled == pytest.approx(math.sqrt((scaled**2).mean()), rel=1e-6)
    assert report.bias == pytest.approx((error * np.sign(exact)).mean() / abs(error).mean(), rel=1e-6)
    assert report.outside == (abs(error) > 2e-6 + 1e-7 * abs(exact)).sum() > 0
    assert report.outside_library == (abs(c.astype(float) - library) > 2e-6 + 1e-7 * abs(library.astype(float))).sum()
    assert report.bits_of_library == (c == library).sum() < 108
    assert report.ulps["0"] == pytest.approx((c == library).mean())
    kappa = magnitude / abs(exact)
    assert report.kappa["1.0"] == pytest.approx(kappa.max(), rel=1e-5)
    assert report.kappa["0.5"] == pytest.approx(np.quantile(kappa, 0.5, method="lower"), rel=1e-5)
    assert np.unravel_index(scaled.argmax(), scaled.shape) == report.worst
    assert report.worst_kappa == pytest.approx(kappa[report.worst], rel=1e-6)
    assert sum(report.histogram["counts"]) + report.histogram["zero"] == 108
    assert sum(report.by_kappa["outputs"]) == 108
    assert max(report.by_kappa["max"]) == pytest.approx((abs(error) / abs(exact)).max() / U, rel=1e-6)
    assert report.bound_exceeded == 0
    assert report.bound_used == pytest.approx(scaled.max() * U / numfmt.gamma(200, U), rel=1e-4)
    assert report.atol_needed == pytest.approx((abs(error) - 1e-7 * abs(exact)).max(), rel=1e-6)


def test_any_function_is_measured_and_a_mode_is_its_bound():
    rng = np.random.default_rng(8)
    a, b = uniform(rng, 9, 60), uniform(rng, 60, 7)

    def multiply(x, y):
        return x @ y

    report = measure(multiply, a, b)
    assert report.name == "multiply"
    assert report.as_dict() == {**measure(a @ b, a, b).as_dict(), "name": "multiply"}
    from tritongemm import modes

    for name in ("ieee", "tf32", "bf16x3"):
        got = modes.get(name).predict(a, b)
        found = measure(got, a, b, precision=name)
        assert found.bound_exceeded == 0
        assert found.relative_bound == modes.get(name).promise(60, "fp32").relative_bound
        assert found.order == f"precision {name}"
    assert measure(modes.get("tf32").predict(a, b), a, b, precision="ieee").bound_exceeded > 0
    with pytest.raises(UsageError, match="give one of them"):
        measure(multiply, a, b, order=SummationOrder.chain(), precision="ieee")
    with pytest.raises(UsageError, match="tf31"):
        measure(multiply, a, b, precision="tf31")


def test_reports_make_a_page(tmp_path):
    rng = np.random.default_rng(9)
    a, b = uniform(rng, 9, 60), uniform(rng, 60, 7)
    reports = {"<one>": measure(np.matmul, a, b), "other": measure(SummationOrder.lanes_then_tree(32).simulate, a, b)}
    accuracy.save_page(tmp_path / "page.html", reports, "A & B")
    html = (tmp_path / "page.html").read_text()
    assert html.count("<svg") == 2
    assert "&lt;one&gt;" in html
    assert "A &amp; B" in html
    assert "<script" not in html
    with pytest.raises(UsageError, match="one to four"):
        accuracy.save_page(tmp_path / "page.html", {})


@pytest.mark.parametrize("power", [0, 2, 4, 6, 8])
@pytest.mark.parametrize("precision", ["ieee", "tf32", "tf32x3", "bf16x3"])
def test_no_condition_number_exceeds_a_modes_bound(power, precision):
    """Cancellation dialled to kappa of about 10^j, in every mode's own arithmetic."""
    from tritongemm import modes

    rng = np.random.default_rng([power, 3])
    a, b = uniform(rng, 6, 130), uniform(rng, 130, 6)
    a[:, 65:], b[65:] = a[:, :65], -b[:65]
    a[:, 0] += np.float32(100 * 10.0**-power)
    report = measure(modes.get(precision).predict(a, b), a, b, precision=precision)
    assert report.kappa["0.5"] > 10.0 ** (power - 2)
    assert report.bound_exceeded == 0
    assert report.bound_used > 0


def test_a_report_does_not_depend_on_the_blocks():
    rng = np.random.default_rng(6)
    a, b = uniform(rng, 30, 50), uniform(rng, 50, 20)
    c = SummationOrder.chain().simulate(a, b)
    whole = measure(c, a, b)
    parts = ErrorAccumulator("product", 50)
    for block in reference_blocks(a, b, block_bytes=8 * 50 * 7):
        parts.add(c[block.at], block.golden, block.magnitude, None, (block.rows.start, block.columns.start))
    got, want = parts.report(), whole
    assert got.worst == want.worst
    assert got.histogram == want.histogram
    assert got.rms_scaled == pytest.approx(want.rms_scaled, rel=1e-9)
    assert got.kappa == pytest.approx(want.kappa)


def cancelling(rng, K, kappa):
    """A row and a column whose products nearly cancel: kappa is about the one asked for."""
    x = uniform(rng, 1, K)
    y = uniform(rng, K, 1)
    half = K // 2
    x[0, half : 2 * half] = x[0, :half]
    y[half : 2 * half, 0] = -y[:half, 0]
    x[0, rng.integers(K)] += np.float32(K / kappa)
    return x, y


ORDERS = [
    SummationOrder.chain(),
    SummationOrder.chain(fused=False),
    SummationOrder.chain(promote=32),
    SummationOrder.lanes_then_tree(16),
    SummationOrder.lanes_then_tree(256, fused=False),
    SummationOrder.tree_per_step(16),
]


@pytest.mark.parametrize("order", ORDERS, ids=lambda o: o.describe())
@pytest.mark.parametrize("exponent", range(0, 9, 2))
def test_no_cancellation_breaks_the_bound(order, exponent):
    rng = np.random.default_rng(exponent)
    a, b = cancelling(rng, 400, 10.0**exponent)
    check_bound(order, a, b)


def check_bound(order, a, b, kind="fp32"):
    """The bound, exactly: rationals for the error and for the sum of absolute values."""
    c = order.simulate(a, b)
    dtype = DTYPES[kind]
    c = c.astype({"fp32": np.float32, "fp16": np.float16}[kind])
    exact, magnitude = exact_product(a, b), exact_product(abs(a), abs(b))
    K = a.shape[1]
    for i, row in enumerate(exact):
        for j, s in enumerate(row):
            golden, size = np.array(float(s)), np.array(float(magnitude[i][j]))
            bound = float(a_priori_bound(order, K, golden, size, dtype))
            assert abs(Fraction(float(c[i, j])) - s) <= Fraction(bound) * (1 + Fraction(1, 2**50))


@given(
    seed=st.integers(0, 2**32 - 1),
    K=st.integers(1, 70),
    spread=st.sampled_from([0, 10, 40, 60]),
    low=st.sampled_from([0, -60, -75]),
    order=st.sampled_from(ORDERS),
)
@settings(max_examples=150, deadline=None)
def test_no_exponent_range_and_no_underflow_breaks_the_bound(seed, K, spread, low, order):
    rng = np.random.default_rng(seed)
    shift_a, shift_b = (rng.integers(-spread // 2, spread // 2 + 1, s) + low for s in ((1, K), (K, 1)))
    a = np.ldexp(uniform(rng, 1, K), shift_a).astype(np.float32)
    b = np.ldexp(uniform(rng, K, 1), shift_b).astype(np.float32)
    check_bound(order, a, b)


def test_the_bound_of_a_chain_is_nearly_reached_by_stagnation():
    # One 1, then terms just above half an ulp that all round up: the error is K/2 ulps, a share of 1/2 of gamma_K.
    K = 2000
    a = np.ones((1, K), np.float32)
    b = np.full((K, 1), np.float32(U * (1 + 2.0**-20)))
    b[0, 0] = 1
    report = measure(SummationOrder.chain().simulate(a, b), a, b, order=SummationOrder.chain())
    assert 0.9 < report.bound_used <= 1
    assert report.bias == 1


@pytest.mark.parametrize("order", ORDERS[:2], ids=lambda o: o.describe())
def test_rounding_the_output_is_part_of_the_bound(order):
    rng = np.random.default_rng(9)
    check_bound(order, uniform(rng, 4, 60), uniform(rng, 60, 4), "fp16")


def test_a_wrong_product_exceeds_the_bound():
    rng = np.random.default_rng(10)
    a, b = uniform(rng, 8, 100), uniform(rng, 100, 8)
    c = SummationOrder.chain().simulate(a[:, :99], b[:99])  # the last term is missing
    report = measure(c, a, b, order=SummationOrder.chain())
    assert report.bound_exceeded > 50
    assert report.bound_used > 1
    # ... and a serial chain does not keep what lanes promise.
    ones = np.ones((1, 4096), np.float32)
    rising = np.full((4096, 1), np.float32(0.1))
    chain = SummationOrder.chain().simulate(ones, rising)
    assert measure(chain, ones, rising, order=SummationOrder.lanes_then_tree(256)).bound_exceeded == 1
    assert measure(chain, ones, rising, order=SummationOrder.chain()).bound_exceeded == 0


def test_the_probabilistic_bound_lies_between_the_errors_and_the_certain_bound():
    order = SummationOrder.chain()
    bound, probability = probabilistic_bound(order, 6144)
    # exp(6·sqrt(6144)·u + 6144·u²/(1-u)) - 1 and 1 - 2·6144·exp(-18).
    assert bound == pytest.approx(6 * math.sqrt(6144) * U, rel=1e-3)
    assert probability == pytest.approx(1 - 2 * 6144 * math.exp(-18), rel=1e-6)
    assert bound < order.relative_bound(6144)
    assert probabilistic_bound(order, 10**9)[1] == 0


def test_a_probabilistic_bound_of_a_mode_has_the_probability_of_its_own_lambda():
    order = ModeOrder("tf32", "fp32")
    assert probabilistic_bound(order, 1000, lam=1.0) == probabilistic_bound(order, 1000)
    assert probabilistic_bound(order, 1000)[1] > 0.9999


def test_nan_and_infinity_are_compared_by_place():
    a = np.array([[1.0, np.inf], [1.0, 2.0], [np.nan, 0.0], [1.0, 1.0]], np.float32)
    b = np.array([[1.0], [1.0]], np.float32)
    good = np.array([[np.inf], [3.0], [np.nan], [2.0]], np.float32)
    report = measure(good, a, b)
    assert (report.not_finite, report.wrong_special, report.outputs) == (2, 0, 4)
    assert report.max_abs == 0
    bad = np.array([[-np.inf], [np.nan], [1.0], [2.0]], np.float32)
    assert measure(bad, a, b).wrong_special == 3


def test_outputs_that_may_overflow_are_left_out_and_said():
    a = np.array([[3e38, 3e38]], np.float32)
    b = np.array([[1.0], [-1.0]], np.float32)
    report = measure(np.array([[np.inf]], np.float32), a, b)
    assert (report.may_overflow, report.wrong_special) == (1, 0)
    assert "overflow" in str(report)


@pytest.mark.parametrize("kind", ["fp32", "fp16"])
def test_ulps_count_the_numbers_between(kind):
    dtype = {"fp32": np.float32, "fp16": np.float16}[kind]
    c = np.array([1.0, 1.0, -1.0, 0.0, -0.0, 1.0], dtype)
    up = float(np.nextafter(dtype(1), dtype(2)))
    tiny = float(np.nextafter(dtype(0), dtype(1)))
    golden = np.array([1.0, up, -up, -tiny, 0.0, -1.0])
    one = int(dtype(1).view(f"u{dtype(1).itemsize}"))
    np.testing.assert_array_equal(accuracy.ulps_between(c, golden), [0, 1, 1, 1, 0, 2 * one])


def test_a_report_is_json_and_replaces_the_old_file(tmp_path):
    rng = np.random.default_rng(11)
    a, b = uniform(rng, 4, 30), uniform(rng, 30, 4)
    report = measure(SummationOrder.chain().simulate(a, b), a, b, name="chain")
    path = tmp_path / "deep" / "report.json"
    report.save(path)
    report.save(path)
    read = json.loads(path.read_text())
    assert read["name"] == "chain"
    assert read["rms_scaled"] == report.rms_scaled
    assert [p.name for p in path.parent.iterdir()] == ["report.json"]


def test_the_advice_names_a_tolerance_that_holds():
    rng = np.random.default_rng(12)
    a, b = uniform(rng, 60, 2000), uniform(rng, 2000, 60)
    c = SummationOrder.chain().simulate(a, b)
    report = measure(c, a, b, order=SummationOrder.chain(), tolerance=Tolerance(1e-5, 1e-5))
    assert report.outside > 0
    assert f"fails {report.outside}" in report.advice()
    safe = measure(c, a, b, tolerance=Tolerance(report.atol_needed * 1.0001, 1e-5))
    assert safe.outside == 0
    assert report.atol_guaranteed > report.atol_needed


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: measure(np.zeros((2, 2), np.float32), np.zeros((2, 3), np.float32), np.zeros((3, 3), np.float32)),
            "c:",
        ),
        (
            lambda: measure(np.zeros((2, 2)), np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32)),
            "float64.*assert_close",
        ),
        (lambda: reference(np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32)), "shapes"),
        (lambda: measure([[1.0]], np.zeros((1, 1), np.float32), np.zeros((1, 1), np.float32)), "list"),
    ],
)
def test_wrong_use_is_named(call, message):
    with pytest.raises(UsageError, match=message):
        call()


MEASURED = {
    "list": ({"c": [[1.0]]}, r"c: measure takes NumPy arrays.*numpy\.asarray"),
    "three dimensions": ({"a": np.zeros((1, 2, 3), "f")}, r"a: a matrix has 2 dimensions, given shape \(1, 2, 3\)"),
    "mask": ({"b": np.ma.masked_array(np.zeros((3, 4), "f"))}, "b: .*masked array"),
    "order": ({"order": "chain"}, "order: a tritongemm.orders.SummationOrder"),
    "tolerance": ({"tolerance": 1e-4}, r"tolerance: a tritongemm\.accuracy\.Tolerance\(atol, rtol\), given 0\.0001"),
    "library": ({"library": np.zeros((2, 3), "f")}, r"library: shape \(2, 3\), but c is \(2, 4\)"),
}


@pytest.mark.parametrize("given", MEASURED)
def test_measure_names_what_it_cannot_use(given):
    wrong, words = MEASURED[given]
    right = {"c": np.zeros((2, 4), "f"), "a": np.zeros((2, 3), "f"), "b": np.zeros((3, 4), "f")}
    with pytest.raises(UsageError, match=words):
        accuracy.measure(**right | wrong)
