"""Error-free transformations against exact rationals, in every range of exponents."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numfmt import errorfree

COUNT = 1500
SPREADS = (3, 60, 500, 1000)
finite = st.floats(allow_nan=False, allow_infinity=False)


def nearest_and_sign(exact: Fraction) -> tuple[float, int]:
    """The nearest float64 (integer division in Python is correctly rounded) and the sign of exact - float64."""
    try:
        value = exact.numerator / exact.denominator
    except OverflowError:
        return (float("inf"), -1) if exact > 0 else (float("-inf"), 1)
    return value, (exact > Fraction(value)) - (exact < Fraction(value))


def numbers(rng: np.random.Generator, spread: int) -> np.ndarray:
    """Random numbers, half of them next to a power of two, with exponents within +-spread."""
    near_one = 1 + rng.integers(-3, 4, COUNT) * 2.0**-52
    mantissa = np.where(rng.random(COUNT) < 0.5, rng.standard_normal(COUNT), near_one)
    return mantissa * np.ldexp(1.0, rng.integers(-spread, spread + 1, COUNT))


def assert_carried(carried: errorfree.Carried, exact: list[Fraction]) -> None:
    for value, residual, e in zip(carried.value.tolist(), carried.residual.tolist(), exact, strict=True):
        expected = nearest_and_sign(e)
        assert (value, (residual > 0) - (residual < 0)) == expected


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize(
    ("function", "definition"),
    [
        (errorfree.add, lambda a, b: a + b),
        (errorfree.multiply, lambda a, b: a * b),
        (errorfree.divide, lambda a, b: a / b),
    ],
    ids=["add", "multiply", "divide"],
)
def test_value_and_residual_match_rationals(function, definition, spread):
    rng = np.random.default_rng(spread)
    a, b = numbers(rng, spread), numbers(rng, spread)
    exact = [definition(Fraction(x), Fraction(y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert_carried(function(a, b), exact)


@pytest.mark.parametrize("spread", SPREADS)
def test_fused_multiply_add_matches_rationals_also_when_it_cancels(spread):
    rng = np.random.default_rng(spread)
    a, b, c = (numbers(rng, spread) for _ in range(3))
    with np.errstate(over="ignore"):
        opposite = -(a * b) * (1 + rng.integers(-2, 3, COUNT) * 2.0**-52)
    c = np.where((rng.random(COUNT) < 0.4) & np.isfinite(opposite), opposite, c)
    exact = [
        Fraction(x) * Fraction(y) + Fraction(z) for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    assert_carried(errorfree.fused_multiply_add(a, b, c), exact)


def test_subnormal_products_are_rounded_once():
    # Products that end midway between two subnormals, with more bits below: rounding twice would go wrong.
    rng = np.random.default_rng(7)
    a = rng.integers(1, 1 << 27, COUNT) * 2.0**-530
    b = rng.integers(1, 1 << 27, COUNT) * 2.0**-580
    c = rng.integers(-9, 10, COUNT) * 2.0**-1074
    assert_carried(errorfree.multiply(a, b), [Fraction(x) * Fraction(y) for x, y in zip(a, b, strict=True)])
    exact = [Fraction(x) * Fraction(y) + Fraction(z) for x, y, z in zip(a, b, c, strict=True)]
    assert_carried(errorfree.fused_multiply_add(a, b, c), exact)


def test_subnormal_midpoints_are_decided_by_what_float64_lost():
    # 3 - tiny and 5 + tiny halves of the smallest subnormal: float64 rounds the products to 3 and 5 halves, whose
    # ties to even (2 and 2) are wrong.
    a = np.array([3 * (1 + 2.0**-30), 5 * (2.0**18 + 1)]) * 2.0**-500
    b = np.array([1 - 2.0**-30, (2.0**36 - 2.0**18 + 1) * 2.0**-54]) * 2.0**-575
    assert_carried(errorfree.multiply(a, b), [Fraction(x) * Fraction(y) for x, y in zip(a, b, strict=True)])
    assert errorfree.multiply(a, b).value.tolist() == [2.0**-1074, 3 * 2.0**-1074]


@given(finite, finite, finite)
def test_any_three_floats_fuse_exactly(a, b, c):
    carried = errorfree.fused_multiply_add(*(np.array([v]) for v in (a, b, c)))
    assert_carried(carried, [Fraction(a) * Fraction(b) + Fraction(c)])


@given(finite, finite)
def test_any_two_floats_add_multiply_and_divide_exactly(a, b):
    x, y = np.array([a]), np.array([b])
    assert_carried(errorfree.add(x, y), [Fraction(a) + Fraction(b)])
    assert_carried(errorfree.multiply(x, y), [Fraction(a) * Fraction(b)])
    if b != 0:
        assert_carried(errorfree.divide(x, y), [Fraction(a) / Fraction(b)])


@given(st.floats(min_value=0, allow_infinity=False))
def test_square_root_residual_has_the_sign_of_the_remainder(a):
    root, residual = (v[0] for v in errorfree.square_root(np.array([a])))
    square = Fraction(float(root)) ** 2
    assert np.sign(residual) == (Fraction(a) > square) - (Fraction(a) < square)
    assert root == np.sqrt(a)


def test_two_sum_and_two_prod_recover_the_error_itself():
    rng = np.random.default_rng(1)
    a, b = numbers(rng, 60), numbers(rng, 60)
    for (s, e), definition in (
        (errorfree.two_sum(a, b), Fraction.__add__),
        (errorfree.two_prod(a, b), Fraction.__mul__),
    ):
        for x, y, high, low in zip(a.tolist(), b.tolist(), s.tolist(), e.tolist(), strict=True):
            assert Fraction(high) + Fraction(low) == definition(Fraction(x), Fraction(y))


@given(st.floats(allow_nan=False), st.sampled_from([-1.0, 0.0, 1.0]))
def test_to_odd_keeps_exact_values_and_otherwise_ends_in_an_odd_bit(value, residual):
    odd = float(errorfree.to_odd(np.array([value]), np.array([residual]))[0])
    if residual == 0 or (math.isinf(value) and math.copysign(1.0, value) == residual):
        assert residual != 0 or odd == value
        return
    last_bit = int(np.array(odd).view(np.uint64)) & 1
    assert last_bit == 1
    # The odd one of value and its neighbour in the residual's direction.
    assert odd in (value, math.nextafter(value, math.copysign(math.inf, residual)))


def test_special_values_follow_ieee_754():
    inf, nan = np.inf, np.nan
    a = np.array([inf, inf, nan, 0.0, -0.0, 1.0, 0.0, inf])
    b = np.array([1.0, -inf, 1.0, -0.0, -0.0, 0.0, 0.0, 0.0])
    with np.errstate(invalid="ignore", divide="ignore"):
        pairs = ((errorfree.add, a + b), (errorfree.multiply, a * b), (errorfree.divide, a / b))
    for function, expected in pairs:
        value, residual = function(a, b)
        np.testing.assert_array_equal(value, expected)
        np.testing.assert_array_equal(np.signbit(value) & ~np.isnan(value), np.signbit(expected) & ~np.isnan(expected))
        assert not residual.any()
