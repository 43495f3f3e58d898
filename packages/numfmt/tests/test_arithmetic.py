"""Operations in every format and mode against exact rationals, and the fast float32 FMA against the general one."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import sums_oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from numfmt_oracle import CONSTANTS, MODES, Facts, Oracle
from numfmt_tally import tally

import numfmt
from numfmt import BF16, FP8_E4M3, FP16, FP32, FP64, FloatFormat
from numfmt.arithmetic import fma_float32

E11M51 = FloatFormat("E11M51", 11, 51, 1023)
ORACLES = {name: Oracle(facts) for name, facts in CONSTANTS.items() if name != "E8M0"}
ORACLES["E11M51"] = Oracle(Facts(11, 51, 1023))
COUNT = 120
KINDS = ("raw", "values", "small", "extreme")


def exact_root(x: Fraction) -> Fraction:
    """The square root, or a rational so close to it that no rounding of at most 60 bits can tell them apart."""
    shift = 1400
    scaled = (x.numerator << 2 * shift) // x.denominator
    root = math.isqrt(scaled)
    exact = root * root == scaled and (x.numerator << 2 * shift) % x.denominator == 0
    return Fraction(2 * root + (0 if exact else 1), 2 << shift)


def operands(rng: np.random.Generator, fmt: FloatFormat, kind: str) -> list[np.ndarray]:
    """Three arrays that stress raw float64 numbers, values of the format, small integers, or the ends of the range."""
    x = np.ldexp(rng.standard_normal((3, COUNT)), rng.integers(-9, 10, (3, COUNT)))
    if kind == "values":
        x = fmt.round(x, overflow="saturate")
    elif kind == "small":
        x = rng.integers(-5, 6, (3, COUNT)) * 1.0
        x[:, ::7] *= -0.0
    elif kind == "extreme":
        tiny = fmt.min_positive
        limits = [fmt.max, tiny, tiny * 1.5, tiny * 2.0**-30, 1.0, fmt.max * (1 - fmt.eps / 4)]
        x = rng.choice(limits, (3, COUNT)) * rng.choice([-1.0, 1.0], (3, COUNT))
    return list(x)


def expected(name: str, r: sums_oracle.Arithmetic, a: float, b: float, c: float) -> float:
    """One operation by its definition."""
    if name == "add":
        return r.add(a, b)
    if name == "sub":
        return r.add(a, -b)
    if name == "fma":
        return r.fma(a, b, c)
    if name == "mul":
        negative = math.copysign(1, a) != math.copysign(1, b)
        exact = Fraction(a) * Fraction(b)
        return r.round(exact if exact else (-0.0 if negative else 0.0))
    if name == "div":
        with np.errstate(divide="ignore", invalid="ignore"):
            if b == 0 or a == 0:
                return r.round(float(np.float64(a) / np.float64(b)))
        return r.round(Fraction(a) / Fraction(b))
    if a < 0:
        return r.round(math.nan)
    return r.round(exact_root(Fraction(a)) if a else a)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "sqrt", "fma"])
@pytest.mark.parametrize("fmt", [FP16, BF16, FP8_E4M3, numfmt.FP8_E5M2FNUZ, FP32, FP64, E11M51], ids=str)
def test_operations_match_exact_rationals(fmt, name, mode):
    r = sums_oracle.Arithmetic(ORACLES[fmt.name], mode)
    rng = np.random.default_rng(len(name) + len(mode))
    for kind in KINDS:
        a, b, c = operands(rng, fmt, kind)
        arguments = {"sqrt": (a,), "fma": (a, b, c)}.get(name, (a, b))
        result = getattr(numfmt, name)(*arguments, fmt, mode)
        with np.errstate(over="ignore"):
            truth = [expected(name, r, *t) for t in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)]
        tally("operations, from the definition in exact rationals", fmt, len(truth))
        np.testing.assert_array_equal(result, truth)
        numbers = ~np.isnan(result)
        np.testing.assert_array_equal(np.signbit(result)[numbers], np.signbit(truth)[numbers])


def test_the_way_out_for_stochastic_float64_works():
    exact = np.array([Fraction(1) + Fraction(1, 2**54)] * 4000, object)
    rounded = FP64.round(exact, "stochastic", rng=1)
    assert set(rounded.tolist()) == {1.0, 1 + 2.0**-52}
    assert abs((rounded > 1).mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / len(exact))


def test_ties_at_the_ends_of_float64_are_seen():
    # One and a half units of the smallest number; a product, a quotient and a fused operation that tie there, and
    # products that tie just above the subnormal numbers and just below the largest.
    tiny = 2.0**-1074
    assert numfmt.mul(3 * tiny, 0.5, FP64, "nearest_away") == 2 * tiny
    assert numfmt.mul(-5 * tiny, 0.5, FP64, "nearest_away") == -3 * tiny
    assert numfmt.mul(5 * tiny, 0.5, FP64) == 2 * tiny
    assert numfmt.div(5 * tiny, 2.0, FP64, "nearest_away") == 3 * tiny
    assert numfmt.fma(3 * tiny, 0.5, tiny, FP64, "nearest_away") == 3 * tiny
    odd = 1 + 2.0**-52  # times 1.5 has 54 bits and ends in a 1
    for scale in (2.0**-1010, 2.0**-962, 1.0, 2.0**1002, 2.0**1022):
        assert numfmt.mul(1.5 * scale, odd, FP64, "nearest_away") == (1.5 + 2.0**-51) * scale
        assert numfmt.mul(1.5 * scale, odd, FP64) == (1.5 + 2.0**-51) * scale
        assert numfmt.mul(1.5 * scale, 1 + 2.0**-51 + 2.0**-52, FP64) == (1.5 + 2.0**-50) * scale
        assert (
            numfmt.mul(1.5 * scale, 1 + 2.0**-51 + 2.0**-52, FP64, "nearest_away")
            == (1.5 + 2.0**-50 + 2.0**-52) * scale
        )


floats = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None)
@given(floats, floats, floats, st.sampled_from(MODES), st.sampled_from(["FP16", "BF16", "FP8_E4M3", "FP32", "FP64"]))
def test_any_operands_match_exact_rationals(a, b, c, mode, name):
    r = sums_oracle.Arithmetic(ORACLES[name], mode)
    fmt = getattr(numfmt, name)
    for operation in ("add", "sub", "mul", "fma"):
        arguments = (a, b, c) if operation == "fma" else (a, b)
        result = getattr(numfmt, operation)(*arguments, fmt, mode)
        np.testing.assert_array_equal(result, expected(operation, r, a, b, c))


# The float32 FMA ----------------------------------------------------------------------------------------------------


def float32_cases(rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Random float32 bit patterns, half of them with c chosen to cancel, to tie, or to fall among the subnormals."""
    a, b, c = (rng.integers(0, 2**32, count, dtype=np.uint32).view(np.float32) for _ in range(3))
    kind = rng.integers(0, 5, count)
    with np.errstate(all="ignore"):
        product = a.astype(np.float64) * b.astype(np.float64)
        c = np.where(kind == 1, (-product).astype(np.float32), c)
        c = np.where(kind == 2, np.nextafter((-product).astype(np.float32), np.float32(0)), c)
        # A product far below half a unit of c, which is odd or even: ties with a sticky bit.
        tiny = np.ldexp(np.float32(1), rng.integers(-149, -60, count)).astype(np.float32)
        b = np.where(kind == 3, tiny, b).astype(np.float32)
        a = np.where(kind == 4, np.float32(2.0**-25) * (1 + rng.integers(0, 3, count) * np.float32(2.0**-23)), a)
        b = np.where(kind == 4, np.float32(1), b).astype(np.float32)
        c = np.where(kind == 4, 1 + rng.integers(-2, 4, count) * np.float32(2.0**-24), c).astype(np.float32)
    return [a.astype(np.float32), b, c]


def test_float32_fma_equals_the_exact_one_bit_for_bit():
    a, b, c = float32_cases(np.random.default_rng(0), 200_000)
    fast = numfmt.fma(a, b, c, FP32)
    assert fast.dtype == np.float32
    general = numfmt.fma(a, b, c, FP32, "rne")  # an alias takes the general way
    nan = np.isnan(general)
    np.testing.assert_array_equal(np.isnan(fast), nan)
    np.testing.assert_array_equal(fast.view(np.uint32)[~nan], general.view(np.uint32)[~nan])


def test_float32_fma_matches_exact_rationals_where_float64_lands_midway():
    r = sums_oracle.Arithmetic(ORACLES["FP32"], "nearest_even")
    a, b, c = float32_cases(np.random.default_rng(1), 6000)
    result = fma_float32(a, b, c)
    for x, y, z, got in zip(a.tolist(), b.tolist(), c.tolist(), result.tolist(), strict=True):
        truth = r.fma(x, y, z)
        assert got == truth or (math.isnan(got) and math.isnan(truth))


def test_rounding_twice_would_be_caught():
    # Plain float64 arithmetic gets this one wrong, so the tests above can fail.
    big, nudge = np.array([1 + 2.0**-12], np.float32), np.array([2.0**-90], np.float32)
    square = np.float64(big[0]) ** 2  # 1 + 2^-11 + 2^-24: midway between two float32 numbers
    assert np.float32(square + np.float64(nudge[0])) == np.float32(1 + 2.0**-11)
    assert fma_float32(big, big, nudge) == np.float32(1 + 2.0**-11 + 2.0**-23)
    assert fma_float32(big, big, -nudge) == np.float32(1 + 2.0**-11)


def test_subnormal_float32_results_are_rounded_once():
    # Just below the midpoint of two subnormals: float64 lands on the midpoint, whose tie goes up to the even one.
    a, b = np.array([2.0**-75 * (1 + 2.0**-23)], np.float32), np.array([2.0**-75 * (1 - 2.0**-23)], np.float32)
    c = np.array([2.0**-127 + 2.0**-149], np.float32)
    assert np.float32(np.float64(a[0]) * np.float64(b[0]) + np.float64(c[0])) == np.float32(2.0**-127 + 2.0**-148)
    assert fma_float32(a, b, c) == c
    assert fma_float32(-a, b, -c) == -c


def test_shapes_broadcast_and_large_arrays_are_cut_without_a_trace():
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((300, 1), (1, 400), (300, 400)))
    whole = numfmt.fma(a, b, c, FP32)
    np.testing.assert_array_equal(whole[7], fma_float32(a[7], b[0], c[7]))
    assert numfmt.fma(np.zeros((0, 3), np.float32), np.float32(1), np.float32(1), FP32).shape == (0, 3)
    assert isinstance(numfmt.add(1.0, 2.0, BF16), float)
    assert numfmt.add(np.float32(1), np.float32(2), BF16).dtype == np.float32
    np.testing.assert_array_equal(
        numfmt.mul(np.arange(3)[:, None], np.arange(3), FP8_E4M3), np.outer(range(3), range(3))
    )


def test_float64_nearest_away_is_exact_where_the_residual_is():
    tie = numfmt.add(1.0, 2.0**-53, FP64, "nearest_away")
    assert tie == 1.0 + 2.0**-52
    assert numfmt.add(1.0, 2.0**-53, FP64) == 1.0
    assert numfmt.add(1.0, -(2.0**-54), FP64, "nearest_away") == 1.0


def test_stochastic_operations_hit_both_neighbours_with_the_right_probability():
    # 1/3 lies a third of the way between two BF16 numbers, or two thirds.
    quotients = numfmt.div(np.ones(20_000), 3.0, BF16, "stochastic", seed=1)
    low, high = numfmt.div(1.0, 3.0, BF16, "down"), numfmt.div(1.0, 3.0, BF16, "up")
    assert set(quotients.tolist()) == {low, high}
    share = (1 / 3 - low) / (high - low)
    assert abs((quotients == high).mean() - share) < 0.02
    np.testing.assert_array_equal(quotients, numfmt.div(np.ones(20_000), 3.0, BF16, "stochastic", seed=1))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: numfmt.add(np.ones(2), np.ones(3), BF16), ValueError, r"a \(2,\), b \(3,\)"),
        (lambda: numfmt.fma(np.ones(2, "f4"), np.ones(3, "f4"), np.ones(2, "f4"), FP32), ValueError, r"b \(3,\)"),
        (lambda: numfmt.mul(1j, 1.0, BF16), TypeError, "a must hold real numbers"),
        (lambda: numfmt.div(1.0, "x", BF16), TypeError, "b must hold real numbers"),
        (lambda: numfmt.sqrt(2.0, "bf16"), TypeError, "FloatFormat"),
        (
            lambda: numfmt.add(1.0, 1.0, FP64, "stochastic"),
            ValueError,
            r"no room for random bits in FP64.*use a format of at most 50 bits, or .*FP64\.round takes arrays",
        ),
        (lambda: numfmt.add(1.0, 1.0, BF16, "nearest_evn"), ValueError, "nearest_even"),
        (lambda: numfmt.div(1.0, 0.0, numfmt.FP4_E2M1, overflow="nan"), ValueError, "NaN"),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()
