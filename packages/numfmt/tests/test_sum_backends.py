"""Compiled sums give the bits of NumPy's, whatever the method, mode, format and data."""

from __future__ import annotations

import numpy as np
import pytest

import numfmt
from numfmt import BF16, FP4_E2M1, FP8_E4M3, FP8_E5M2, FP16, FP32, FP64, TF32, FloatFormat, accumulate
from numfmt._fast.backend import backend
from numfmt._summation import METHODS

pytest.importorskip("numba")

ACC14 = FloatFormat("ACC14", 8, 13, 127)
WIDE = FloatFormat("E9M40", 9, 40, 255)
FORMATS = [BF16, FP16, FP8_E5M2, FP8_E4M3, numfmt.FP8_E4M3FNUZ, FP4_E2M1, TF32, ACC14, FP32, WIDE, FP64]
FEW = [BF16, FP8_E5M2, numfmt.FP8_E4M3FNUZ, FP32]
ROWS, TERMS = 66, 20
MODES = ["nearest_even", "nearest_away", "toward_zero", "up", "down", "to_odd", "stochastic", "stochastic_c"]


def data(fmt: FloatFormat, kind: str) -> np.ndarray:
    rng = np.random.default_rng(1)
    x = np.ldexp(rng.standard_normal((ROWS, TERMS)), rng.integers(-8, 3, (ROWS, TERMS)))
    if kind == "values":
        return fmt.round(x, overflow="saturate")
    if kind == "ends":
        x = rng.choice(
            [0.0, -0.0, fmt.max / 3, -fmt.max / 2, fmt.min_positive, -fmt.min_positive * 0.4, 1.0], (ROWS, TERMS)
        )
        if fmt.has_nan and fmt.infinities:
            x[3, 15], x[4, 10], x[5, 5:7] = np.inf, np.nan, (np.inf, -np.inf)
    return x


def assert_same_bits(a: np.ndarray, b: np.ndarray) -> None:
    nan = np.isnan(a)
    np.testing.assert_array_equal(nan, np.isnan(b))
    np.testing.assert_array_equal(a[~nan].view(np.uint64), b[~nan].view(np.uint64))


def both(function, *arguments, **options):
    results = []
    for name in ("numpy", "numba"):
        with backend(name):
            results.append(function(*arguments, **options))
    return results


def compare(method: str, mode: str, formats: list[FloatFormat]) -> None:
    for fmt in formats:
        for i, kind in enumerate(("raw", "values", "ends")):
            options = {"rounding": mode, "method": method, "chunk": (None, 8, None)[i], "seed": 5}
            assert_same_bits(*both(accumulate, data(fmt, kind), fmt, **options))


@pytest.mark.parametrize(
    ("method", "mode"),
    # Each takes seconds to compile; all pairs are in the exhaustive set.
    [("sequential", mode) for mode in ("nearest_even", "down", "stochastic")]
    + [("pairwise", "nearest_even"), ("kahan", "down"), ("neumaier", "nearest_even"), ("blocked", "nearest_even")],
)
def test_accumulate(method, mode):
    compare(method, mode, FEW)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", sorted(METHODS))
def test_accumulate_in_every_format(method, mode):
    compare(method, mode, [fmt for fmt in FORMATS if fmt != FP64 or not mode.startswith("stochastic")])


def test_sequential_sums_in_every_format():
    compare("sequential", "nearest_even", FORMATS)


RARER = [pytest.param(mode, marks=pytest.mark.exhaustive) for mode in ("nearest_away", "toward_zero", "up", "to_odd")]


@pytest.mark.parametrize("mode", ["nearest_even", "down", *RARER])
@pytest.mark.parametrize("product", ["rounded", "fma"])
def test_matmul(product, mode):
    for fmt in (BF16, FP16, FP8_E4M3, ACC14, FP32):
        for kind in ("values", "ends"):
            a, b = data(FP8_E4M3 if kind == "values" else fmt, kind)[:40], data(fmt, kind)
            b = np.resize(b, (TERMS, 70))
            assert_same_bits(*both(numfmt.matmul, a, b, fmt, mode, product=product))


@pytest.mark.parametrize("fmt", [FP16, FP8_E5M2, BF16], ids=str)
@pytest.mark.parametrize("share", [0.5, 0.2, 0.01])
def test_matmul_of_finite_numbers_whose_sums_pass_the_largest_value(fmt, share):
    # Whether the range is watched follows from the largest product: shares on both sides of every such bound.
    rng = np.random.default_rng(6)
    a = fmt.round(rng.uniform(0.5, 1, (5, TERMS)))
    b = fmt.round(rng.uniform(0.5, 1, (TERMS, 40)) * np.sqrt(fmt.max) * share)
    results = both(numfmt.matmul, a * np.sqrt(2.0 ** round(np.log2(fmt.max))), b, fmt)
    assert_same_bits(*results)
    assert np.isinf(results[0]).any() == (share > 0.1)


def test_float32_carries_narrow_products_and_says_where_it_cannot():
    rng = np.random.default_rng(2)
    for scale in (1.0, 2.0**-60, 2.0**-110, 2.0**60):
        a, b = (BF16.round(rng.standard_normal(s) * scale) for s in ((20, 64), (64, 30)))
        for product in ("rounded", "exact"):
            assert_same_bits(*both(numfmt.matmul, a, b, BF16, product=product))


def test_hardware_fma_is_the_float32_chain():
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((30, 200)).astype(np.float32), rng.standard_normal((200, 20)).astype(np.float32)
    a[3, 5], b[7, 2] = 1e30, 1e30
    a[4] *= np.float32(1e-30)
    b[:, 3] *= np.float32(1e-12)
    assert_same_bits(*both(numfmt.matmul, a, b, FP32, product="fma"))


def test_compiled_random_words_are_the_same():
    from numfmt._fast.steps import philox_words
    from numfmt._random import philox_words as reference

    for start, count in ((0, 256), (5, 1), (255, 700), (10**6 + 3, 1000), (2**40, 300)):
        np.testing.assert_array_equal(philox_words(2**63 + 11, start, count), reference(2**63 + 11, start, count))


def test_layouts():
    x = BF16.round(np.random.default_rng(4).standard_normal((130, 300)))
    with backend("numpy"):
        expected = accumulate(x, BF16)
    with backend("numba"):
        assert_same_bits(accumulate(x, BF16), expected)
        assert_same_bits(accumulate(np.asfortranarray(x), BF16), expected)
        assert_same_bits(accumulate(np.ascontiguousarray(x.T), BF16, axis=0), expected)
        assert_same_bits(accumulate(x[::2, ::3], BF16), accumulate(x[::2, ::3].copy(), BF16))
        assert_same_bits(accumulate(x[:1], BF16), expected[:1])


def test_pieces_of_an_accumulator_may_change_backend():
    x = np.random.default_rng(5).standard_normal((80, 200)) * 100
    for chunk in (None, 16):
        accumulator = numfmt.Accumulator(80, FP8_E5M2, chunk=chunk)
        for i in range(0, 200, 10):
            with backend(("numpy", "numba")[i // 10 % 2]):
                accumulator.add(x[:, i : i + 10])
        with backend("numpy"):
            assert_same_bits(accumulator.total(), accumulate(x, FP8_E5M2, chunk=chunk))
