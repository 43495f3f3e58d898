"""Dot and matrix products with every operation rounded, against exact rationals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sums_oracle
from numfmt_oracle import CONSTANTS, MODES, Oracle

import numfmt
from numfmt import BF16, FP8_E4M3, FP16, FP32, FP64, dot, matmul

ORACLES = {name: Oracle(CONSTANTS[name]) for name in ("FP8_E4M3", "FP16", "BF16", "FP32", "FP64")}
PARAMETERS = {"tree": {"fan_in": 3}, "blocked": {"block": 4}, "lanes": {"lanes": 3}, "fused": {"fan_in": 3}}


def expected_dot(r: sums_oracle.Arithmetic, a: list[float], b: list[float], product: str, method: str) -> float:
    if product == "fma":
        s = 0.0
        for x, y in zip(a, b, strict=True):
            s = r.fma(x, y, s)
        return s
    exact = [Fraction(x) * Fraction(y) for x, y in zip(a, b, strict=True)]
    terms = [r.round(p) if p else 0.0 for p in exact] if product == "rounded" else [float(p) for p in exact]
    return sums_oracle.METHODS[method](r, terms, **PARAMETERS.get(method, {}))


@pytest.mark.parametrize("method", sorted(sums_oracle.METHODS))
@pytest.mark.parametrize("product", ["rounded", "exact"])
def test_dot_matches_exact_rationals(product, method):
    rng = np.random.default_rng(1)
    for fmt in (FP16, BF16, FP8_E4M3):
        for mode in ("nearest_even", "down", "to_odd"):
            a, b = (fmt.round(rng.standard_normal((3, 11)) * 2) for _ in range(2))
            r = sums_oracle.Arithmetic(ORACLES[fmt.name], mode)
            result = dot(a, b, fmt, mode, method, product=product, **PARAMETERS.get(method, {}))
            truth = [expected_dot(r, x, y, product, method) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
            np.testing.assert_array_equal(result, truth)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fmt", [FP16, FP32, FP64], ids=str)
def test_fma_chains_match_exact_rationals_also_for_wide_products(fmt, mode):
    rng = np.random.default_rng(2)
    for raw in (True, False):
        a, b = rng.standard_normal((2, 4, 9))
        a, b = (a, b) if raw else (FP16.round(a), FP16.round(b))
        r = sums_oracle.Arithmetic(ORACLES[fmt.name], mode)
        truth = [expected_dot(r, x, y, "fma", "") for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        np.testing.assert_array_equal(dot(a, b, fmt, mode, product="fma"), truth)


@pytest.mark.parametrize("options", [{}, {"method": "pairwise"}, {"chunk": 3}, {"product": "fma"}, {"rounding": "up"}])
def test_matmul_is_a_table_of_dots(options):
    rng = np.random.default_rng(3)
    a, b = FP16.round(rng.standard_normal((5, 13))), FP16.round(rng.standard_normal((13, 7)))
    result = matmul(a, b, BF16, **options)
    np.testing.assert_array_equal(result, [[dot(x, y, BF16, **options) for y in b.T] for x in a])


def test_float32_fma_matmul_is_the_serial_chain():
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((6, 50)).astype(np.float32), rng.standard_normal((50, 4)).astype(np.float32)
    chain = np.zeros((6, 4), np.float32)
    for k in range(50):
        chain = numfmt.fma(a[:, k : k + 1], b[k : k + 1], chain, FP32)
    np.testing.assert_array_equal(matmul(a, b, FP32, product="fma"), chain)


@pytest.mark.parametrize("exponent", [-80, -74, -64, 0, 58])
def test_float32_fma_matmul_rounds_once_at_the_ends_of_the_range_too(exponent):
    rng = np.random.default_rng(8)
    a, b = (
        np.ldexp(rng.integers(-15, 16, shape) * (1 + 2.0**-12), rng.integers(exponent, exponent + 12, shape))
        for shape in ((20, 6), (6, 20))
    )
    result = matmul(a, b, FP32, product="fma")
    np.testing.assert_array_equal(result, [[dot(x, y, FP32, product="fma") for y in b.T] for x in a])


def test_chunks_of_wide_fma_chains_are_promoted():
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 2, 10))
    inner, outer = (sums_oracle.Arithmetic(ORACLES[n], "nearest_even") for n in ("FP16", "FP32"))
    truth = [
        sums_oracle.sequential(outer, [expected_dot(inner, x[i : i + 4], y[i : i + 4], "fma", "") for i in (0, 4, 8)])
        for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(dot(a, b, FP16, chunk=4, product="fma"), truth)


def test_large_products_are_cut_without_a_trace():
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((130, 5)), rng.standard_normal((5, 150))  # 19,500 columns in two groups
    whole = matmul(a, b, FP16)
    np.testing.assert_array_equal(whole[-1], matmul(a[-1:], b, FP16)[0])
    np.testing.assert_array_equal(whole[109:111], matmul(a[109:111], b, FP16))


def test_stochastic_products_are_reproducible_and_unbiased():
    a, b = np.full((5000, 8), 1 + 2.0**-5), np.full((5000, 8), 1 + 2.0**-6)
    x = dot(a, b, FP8_E4M3, "stochastic", seed=1)
    np.testing.assert_array_equal(x, dot(a, b, FP8_E4M3, "stochastic", seed=1))
    exact = 8 * (1 + 2.0**-5) * (1 + 2.0**-6)
    assert abs(x.mean() - exact) < 5 * x.std() / np.sqrt(len(x))


def test_broadcasting_axis_and_empty_shapes():
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((4, 6, 1)), rng.standard_normal((6, 3))
    np.testing.assert_array_equal(dot(a, b, BF16, axis=1), [[dot(x[:, 0], y, BF16) for y in b.T] for x in a])
    assert matmul(np.ones((2, 0)), np.ones((0, 3)), BF16).tolist() == [[0.0] * 3] * 2
    assert matmul(np.ones((0, 2)), np.ones((2, 3)), BF16).shape == (0, 3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: dot(np.ones(3), np.ones(4), BF16), ValueError, "broadcast"),
        (lambda: matmul(np.ones((2, 3)), np.ones((2, 3)), BF16), ValueError, r"\(M, K\) and \(K, N\)"),
        (lambda: matmul(np.ones(3), np.ones((3, 3)), BF16), ValueError, r"\(3,\)"),
        (lambda: dot(np.ones(3), np.ones(3), BF16, product="fmaa"), ValueError, "fma"),
        (lambda: dot([0.1], [0.1], BF16, method="pairwise", product="fma"), ValueError, "method='sequential'"),
        (lambda: dot([0.1], [0.1], BF16, product="exact"), ValueError, "product='fma'"),
        (lambda: dot(["a"], [0.1], BF16), TypeError, "a must hold real numbers"),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()
