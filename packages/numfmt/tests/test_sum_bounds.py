"""A-priori bounds hold on data made to break them, and reports measure errors exactly."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numfmt_oracle import MODES

import numfmt
from numfmt import BF16, FP8_E4M3, FP8_E5M2, FP16, FP32, accumulate, dot_bound, error_bound, error_report, gamma
from numfmt._summation import METHODS

DATA = ("positive", "mixed", "cancelling", "growing", "shrinking", "ties", "tiny")


def terms(rng: np.random.Generator, kind: str, rows: int, count: int, fmt: numfmt.FloatFormat) -> np.ndarray:
    """Terms whose rounding errors pile up, cancel, or are all ties of one sign."""
    x = rng.random((rows, count)) + 0.01
    if kind == "mixed":
        return rng.standard_normal((rows, count))
    if kind == "cancelling":
        x[:, count // 2 :] = -x[:, : count - count // 2] * (1 + fmt.eps * rng.random((rows, count - count // 2)))
    elif kind == "growing":
        x = x * np.exp2(np.linspace(-6, 6, count))
    elif kind == "shrinking":
        x = x * np.exp2(np.linspace(6, -6, count))
    elif kind == "ties":
        x = np.full((rows, count), 1.0 + fmt.eps / 2)
        x[:, 0] = rng.integers(1, 50, rows)
    elif kind == "tiny":
        x = rng.integers(-9, 10, (rows, count)) * fmt.min_positive * 0.3
    return x


def safe_size(fmt: numfmt.FloatFormat) -> float:
    """A factor that keeps sums of test data away from overflow, which bounds do not cover."""
    return 1.0 if fmt.max > 1e4 else 2.0**-6


@pytest.mark.parametrize("method", sorted(METHODS))
@pytest.mark.parametrize("fmt", [BF16, FP16, FP8_E5M2, FP8_E4M3, FP32], ids=str)
def test_deterministic_bounds_hold_in_every_mode(fmt, method):
    rng = np.random.default_rng(3)
    for i, mode in enumerate((*MODES, "stochastic")):
        for j, kind in enumerate(DATA):
            x = terms(rng, kind, 8, int(rng.integers(1, 60)), fmt) * safe_size(fmt)
            x = x if (i + j) % 2 else fmt.round(x)
            options = {"rounding": mode, "method": method, "chunk": [None, 7][int(rng.integers(2))]}
            computed, bound = accumulate(x, fmt, seed=0, **options), error_bound(x, fmt, **options)
            report = error_report(computed, x, fmt, bound=bound)
            covered = np.isfinite(computed)  # directed sums in narrow formats may overflow
            assert covered.all() or fmt is FP8_E5M2
            assert (np.abs(report.error) <= bound)[covered].all(), (mode, kind, options)


@pytest.mark.parametrize("product", ["rounded", "fma"])
@pytest.mark.parametrize("fmt", [BF16, FP16, FP32], ids=str)
def test_dot_bounds_hold(fmt, product):
    rng = np.random.default_rng(4)
    for mode in MODES:
        for kind in DATA:
            a, b = terms(rng, kind, 6, 40, fmt), terms(rng, "mixed", 6, 40, fmt)
            report = numfmt.dot_report(a, b, fmt, mode, product=product)
            assert (np.abs(report.error) <= report.bound).all(), (mode, kind)


def test_bounds_can_fail_if_they_are_too_small():
    # The same comparison with a hundredth of the bound: so the tests above can tell.
    x = np.full((1, 200), 1.0 + BF16.eps / 2)
    report = error_report(accumulate(x, BF16, "up"), x, BF16, bound=error_bound(x, BF16, "up") / 100)
    assert (np.abs(report.error) > report.bound).any()


@pytest.mark.parametrize(
    ("method", "options", "n", "factor"),
    [
        ("sequential", {}, 100, 100 * BF16.unit_roundoff),
        ("sequential", {}, 10_000, 10_000 * BF16.unit_roundoff),  # beyond n·u = 1, where gamma does not exist
        ("sequential", {"rounding": "up"}, 100, (1 + BF16.eps) ** 100 - 1),
        ("pairwise", {}, 1024, (1 + BF16.unit_roundoff) ** 10 - 1),
        ("pairwise", {}, 1025, (1 + BF16.unit_roundoff) ** 11 - 1),
        ("tree", {"fan_in": 4}, 256, (1 + BF16.unit_roundoff) ** 12 - 1),
        ("blocked", {"block": 16}, 256, (1 + BF16.unit_roundoff) ** 31 - 1),
        ("lanes", {"lanes": 16}, 256, (1 + BF16.unit_roundoff) ** 20 - 1),
        ("fused", {"fan_in": 4}, 256, 64 * BF16.unit_roundoff),
    ],
)
def test_factors_are_the_textbook_ones(method, options, n, factor):
    bound = error_bound(np.full(n, 2.0), BF16, method=method, **options)
    assert bound == pytest.approx(factor * 2.0 * n, rel=1e-12)


def test_compensated_bounds_have_their_known_leading_terms():
    x = np.full(1000, 1.0)
    u = FP32.unit_roundoff
    assert error_bound(x, FP32, method="kahan") / (1000 * u) < 5.01  # 2u + O(n u^2), and 3u for the constants kept
    # u|s| + O((n u)^2) sum|x|: here |s| = sum|x|.
    assert error_bound(x, FP32, method="neumaier") / (1000 * u) < 1.1
    assert math.isinf(error_bound(np.ones(100_000), FP8_E4M3, method="kahan"))


def test_promotion_shortens_the_bound():
    x = np.ones(4096)
    plain, promoted = error_bound(x, BF16), error_bound(x, BF16, chunk=128)
    assert promoted == pytest.approx(128 * BF16.unit_roundoff * 4096, rel=1e-3)
    assert plain == pytest.approx(4096 * BF16.unit_roundoff * 4096)


def test_probabilistic_bounds_grow_with_the_square_root_and_hold():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((500, 2000))
    sure, probable = error_bound(x, FP32), error_bound(x, FP32, confidence=0.99)
    assert (probable < sure / 8).all()
    quarter = error_bound(x[:, :500], FP32, confidence=0.99) / np.abs(x[:, :500]).sum(1)
    assert 1.9 < np.median(probable / np.abs(x).sum(1)) / np.median(quarter) < 2.2
    errors = error_report(accumulate(x, FP32), x, FP32).error
    assert (np.abs(errors) > probable).mean() <= 0.01
    # Stochastic rounding rescues a sum that nearest even lets stagnate: its bound holds where errors have a trend.
    ones = np.ones((200, 2000))
    stochastic = accumulate(ones, BF16, "stochastic", seed=1)
    assert (np.abs(stochastic - 2000) <= error_bound(ones, BF16, "stochastic", confidence=0.99)).mean() >= 0.99
    assert (error_bound(ones, BF16, "up", confidence=0.99) == error_bound(ones, BF16, "up")).all()


def test_gamma_is_higham_s():
    assert gamma(10, 2.0**-8) == 10 * 2.0**-8 / (1 - 10 * 2.0**-8)
    np.testing.assert_array_equal(gamma([0, 1, 256, 300], 2.0**-8), [0, 2.0**-8 / (1 - 2.0**-8), np.inf, np.inf])
    for n, u in ((-1, 0.1), (1, 0.0), (1, 2.0)):
        with pytest.raises(ValueError, match=r"n must not be negative|u must be"):
            gamma(n, u)


# Reports ---------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=8),
    st.floats(-1e10, 1e10),
)
def test_errors_are_exact(values, computed):
    report = error_report(computed, values, BF16)
    exact = Fraction(computed) - sum((Fraction(v) for v in values), Fraction(0))
    assert report.error == exact.numerator / exact.denominator


def test_units_and_ulps_of_a_known_error():
    # 256 + 1 in BF16 is 256: the error is -1, half an ulp (2 above 256), and 1 / (2^-8 · 257) units.
    report = numfmt.sum_report([[256.0, 1.0]], BF16)
    assert report.error == -1.0
    assert report.ulps == -0.5
    assert report.units == pytest.approx(-256 / 257)
    assert report.kappa == 1.0
    summary = report.summary()
    assert summary["units"]["mean"] == pytest.approx(-256 / 257)
    assert summary["bound"]["exceeded"] == 0
    json.dumps(summary)
    assert "a-priori bound" in str(report)
    assert "exceeded 0" in str(report)


def test_reports_of_dots_use_exact_products():
    a, b = np.array([[1 + 2.0**-30, 1.0]]), np.array([[1 + 2.0**-30, -1.0]])
    report = numfmt.dot_report(a, b, FP32)
    exact = Fraction(1 + 2.0**-30) ** 2 - 1
    assert report.exact == exact.numerator / exact.denominator
    assert report.error == float(-exact)  # FP32 sees 1 - 1


def test_reports_survive_infinities_and_emptiness():
    report = error_report([np.inf, 1.0], [[1.0, 2.0], [1.0, np.nan]], BF16)
    assert report.error[0] == np.inf
    assert np.isnan(report.error[1])
    json.dumps(report.summary())
    assert error_report(np.zeros(0), np.zeros((0, 3)), BF16).summary()["count"] == 0


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"\(2,\), got \(3,\)"):
        error_report(np.ones(3), np.ones((2, 4)), BF16)
    with pytest.raises(ValueError, match="confidence"):
        error_bound(np.ones(3), BF16, confidence=1.5)
    with pytest.raises(ValueError, match="sequential"):
        error_bound(np.ones(3), BF16, method="sequentiel")
    with pytest.raises(ValueError, match="broadcast"):
        dot_bound(np.ones(3), np.ones(2), BF16)


@pytest.mark.parametrize("confidence", [None, 0.99])
@pytest.mark.parametrize("method", ["sequential", "pairwise", "kahan"])
def test_sums_that_hold_nan_have_no_bound(method, confidence):
    values = np.array([[1.0, np.nan], [1.0, 0.5], [0.0, 0.0]])
    bound = numfmt.error_bound(values, numfmt.BF16, method=method, confidence=confidence)
    assert np.isnan(bound).tolist() == [True, False, False]
