"""exact_sum, exact_dot and condition_number against math.fsum and exact rationals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numfmt.exact import ExactAccumulator, condition_number, exact_dot, exact_matmul, exact_sum, sum_rows

finite = st.floats(allow_nan=False, allow_infinity=False)


def to_float(exact: Fraction) -> float:
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def cancelling(rng: np.random.Generator, rows: int, terms: int, spread: int) -> np.ndarray:
    """Rows whose terms cancel in pairs up to one small term."""
    half = rng.standard_normal((rows, terms // 2)) * np.ldexp(
        1.0, rng.integers(-spread, spread + 1, (rows, terms // 2))
    )
    rest = rng.standard_normal((rows, 1)) * 2.0**-spread
    return rng.permuted(np.concatenate([half, -half, rest], axis=1), axis=1)


@pytest.mark.parametrize("spread", [0, 20, 200])
def test_rows_that_cancel_are_summed_exactly(spread):
    x = cancelling(np.random.default_rng(spread), 60, 300, spread)
    np.testing.assert_array_equal(exact_sum(x), [math.fsum(row) for row in x])


@given(st.lists(finite, max_size=12))
def test_any_floats_are_summed_exactly(values):
    exact = sum((Fraction(v) for v in values), Fraction(0))
    assert exact_sum(np.array(values, np.float64)) == to_float(exact)


@given(st.lists(st.tuples(finite, finite), max_size=8))
@settings(max_examples=200)
def test_any_floats_are_multiplied_and_summed_exactly(pairs):
    a, b = (np.array([p[i] for p in pairs], np.float64) for i in range(2))
    exact = sum((Fraction(x) * Fraction(y) for x, y in pairs), Fraction(0))
    assert exact_dot(a, b) == to_float(exact)


def test_ties_are_broken_by_what_lies_far_below():
    tie = [1.0, 2.0**-53]
    assert exact_sum([*tie]) == 1.0
    assert exact_sum([*tie, 2.0**-200]) == 1.0 + 2.0**-52
    assert exact_sum([*tie, -(2.0**-200)]) == 1.0
    assert exact_sum([1.0 + 2.0**-52, 2.0**-53, -(2.0**-1074)]) == 1.0 + 2.0**-52
    assert exact_sum([1.0 + 2.0**-52, 2.0**-53, 2.0**-1074]) == 1.0 + 2.0**-51


def test_residual_has_the_sign_of_what_was_lost():
    x = cancelling(np.random.default_rng(3), 40, 64, 90)
    value, residual = sum_rows(x)
    for row, v, r in zip(x, value, residual, strict=True):
        exact = sum((Fraction(t) for t in row), Fraction(0))
        assert np.sign(r) == (exact > Fraction(v)) - (exact < Fraction(v))


def test_long_rows_cross_segments_exactly():
    rng = np.random.default_rng(5)
    x = rng.standard_normal(100_000) * np.ldexp(1.0, rng.integers(-80, 80, 100_000))
    assert exact_sum(x) == math.fsum(x)


def test_intermediate_overflow_does_not_matter():
    big = np.finfo(np.float64).max
    assert exact_sum([big, big, -big]) == big
    assert exact_sum([big, big]) == math.inf
    assert exact_dot([big, -big, 1.0], [2.0, 2.0, 3.0]) == 3.0


def test_pieces_give_the_exact_sum_of_the_whole():
    x = cancelling(np.random.default_rng(6), 30, 3000, 150)
    x[3, 5], x[4, 6] = np.inf, 1e300
    x[4, 7] = -1e300
    accumulator = ExactAccumulator(30)
    for start in range(0, x.shape[1], 17):
        accumulator.add(x[:, start : start + 17])
        if start % 5 == 0:
            accumulator.total()  # asking changes nothing
    np.testing.assert_array_equal(accumulator.total(), exact_sum(x))
    assert ExactAccumulator(3).total().tolist() == [0.0] * 3
    with pytest.raises(ValueError, match=r"\(30, k\)"):
        accumulator.add(x[:5])


def test_infinities_and_nan_follow_addition():
    inf = math.inf
    result = exact_sum([[inf, 1.0], [inf, -inf], [math.nan, 1.0], [1.0, -inf], [1.0, 2.0]])
    np.testing.assert_array_equal(result, [inf, math.nan, math.nan, -inf, 3.0])
    np.testing.assert_array_equal(exact_dot([[inf, 1.0], [inf, 2.0]], [[0.0, 1.0], [1.0, 1.0]]), [math.nan, inf])


def test_axis_order_and_dtypes_do_not_change_the_sum():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 5, 7))
    expected = np.array([[math.fsum(x[i, :, k]) for k in range(7)] for i in range(3)])
    np.testing.assert_array_equal(exact_sum(x, axis=1), expected)
    np.testing.assert_array_equal(exact_sum(x.astype(">f8"), axis=-2), expected)
    np.testing.assert_array_equal(exact_sum(np.asfortranarray(x), axis=1), expected)
    small = x.astype(np.float32)
    np.testing.assert_array_equal(exact_sum(small, axis=0), exact_sum(small.astype(np.float64), axis=0))
    assert exact_sum(np.array([2**53 - 1, 1, 1])) == 2.0**53
    assert exact_sum(np.zeros((4, 0))).tolist() == [0.0] * 4
    assert exact_sum(np.zeros((0, 4))).shape == (0,)


def test_inputs_are_left_alone():
    x = np.linspace(-1, 1, 1000).reshape(10, 100)
    x.setflags(write=False)
    before = x.copy()
    exact_sum(x)
    exact_dot(x, x)
    condition_number(x)
    np.testing.assert_array_equal(x, before)


def test_dot_and_matmul_broadcast():
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((4, 9)), rng.standard_normal((9, 3))
    expected = [
        [to_float(sum((Fraction(x) * Fraction(y) for x, y in zip(r, c, strict=True)), Fraction(0))) for c in b.T]
        for r in a
    ]
    np.testing.assert_array_equal(exact_matmul(a, b), expected)
    np.testing.assert_array_equal(exact_dot(a[:, :, None], b[None], axis=1), expected)
    np.testing.assert_array_equal(exact_dot(a, b[:, 0]), np.array(expected)[:, 0])


def test_condition_number_is_the_ratio_of_exact_sums():
    np.testing.assert_array_equal(
        condition_number([[1.0, 2.0], [1.0, -1.0], [0.0, 0.0], [3.0, -1.0]]), [1, np.inf, 1, 2]
    )
    # In float64 the sum of these would be 0, and the condition number infinite.
    assert condition_number([1e16, 1.0, -1e16]) == 2e16 + 1
    assert np.isnan(condition_number([1.0, np.nan]))


@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        ([1j], TypeError, "real numbers"),
        (["a"], TypeError, "real numbers"),
        ([None], TypeError, "real numbers"),
        (np.array([2**53 + 1]), ValueError, "9007199254740993"),
        (np.array(["2020-01-01"], "M8[D]"), TypeError, "datetime64"),
        (1.0, ValueError, "axis=-1"),
    ],
)
def test_bad_input_is_named(x, error, words):
    with pytest.raises(error, match=words):
        exact_sum(x)


def test_bad_shapes_and_axes_are_named():
    with pytest.raises(ValueError, match=r"\(3,\) and \(4,\)"):
        exact_dot(np.ones(3), np.ones(4))
    with pytest.raises(ValueError, match="axis=2"):
        exact_sum(np.ones((2, 2)), axis=2)
    with pytest.raises(TypeError, match="axis must be an integer"):
        exact_sum(np.ones((2, 2)), axis=1.5)
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(2, 3\)"):
        exact_matmul(np.ones((2, 3)), np.ones((2, 3)))
