"""accumulate: the published figures, the definitions in exact rationals, and what users can get wrong."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import sums_oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from numfmt_oracle import CONSTANTS, MODES, Facts, Oracle, random_facts
from numfmt_tally import tally

import numfmt
from numfmt import BF16, E8M0, FP4_E2M1, FP8_E4M3, FP8_E5M2, FP16, FP32, FP64, Accumulator, FloatFormat, accumulate
from numfmt._scalar import FEW_COLUMNS

ACC14 = FloatFormat("ACC14", 8, 13, 127, "ieee")
ORACLES = {name: Oracle(facts) for name, facts in CONSTANTS.items() if name != "E8M0"}
FORMATS = [FP16, BF16, FP8_E4M3, FP8_E5M2, numfmt.FP8_E4M3FNUZ, numfmt.FP6_E3M2, FP4_E2M1, FP32, FP64]
PARAMETERS = {"tree": {"fan_in": 3}, "blocked": {"block": 4}, "lanes": {"lanes": 3}, "fused": {"fan_in": 3}}
METHODS = sorted(sums_oracle.METHODS)


# Figures of the published teaching script -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fmt", "term", "stop"), [(BF16, 1.0, 256), (BF16, 0.01, 4), (FP16, 1.0, 2048), (FP16, 0.01, 32)]
)
def test_running_sums_stagnate(fmt, term, stop):
    assert accumulate(np.full((1, 10_000), term), fmt) == stop


@pytest.fixture(scope="module")
def uniform():
    rng = np.random.default_rng(0)
    return {fmt.name: fmt.round(rng.random((1, 10_000))) for fmt in (BF16, FP16)}


@pytest.mark.parametrize(
    ("fmt", "method", "expected"),
    [
        (BF16, "pairwise", 4992),
        (BF16, "kahan", 4992),
        (FP16, "pairwise", 5056),
        (FP16, "kahan", 5060),
        (FP16, "sequential", 2048),
    ],
)
def test_ten_thousand_uniform_values(uniform, fmt, method, expected):
    assert accumulate(uniform[fmt.name], fmt, method=method) == expected


@pytest.fixture(scope="module")
def products():
    rng = np.random.default_rng(0)
    for terms in (512, 4096):
        a = FP8_E4M3.round(rng.standard_normal((256, terms)))
        b = FP8_E4M3.round(rng.standard_normal((256, terms)))
    return a * b


@pytest.mark.parametrize(
    ("fmt", "options", "percent"),
    [
        (ACC14, {}, "0.0877"),
        (ACC14, {"rounding": "toward_zero"}, "4.01"),
        (ACC14, {"rounding": "toward_zero", "chunk": 128}, "0.0464"),
        (ACC14, {"chunk": 128}, "0.0109"),
        (BF16, {}, "6.94"),
        (FP16, {}, "0.903"),
    ],
)
def test_fp8_dot_products_of_4096_terms(products, fmt, options, percent):
    reference = products.sum(axis=1)
    error = accumulate(products, fmt, **options) - reference
    relative = 100 * np.linalg.norm(error) / np.linalg.norm(reference)
    assert f"{relative:.3g}" == percent


# One rounding ---------------------------------------------------------------------------------------------------------


def test_additions_are_rounded_once():
    assert accumulate([1.0, -(2.0**-60)], BF16, "toward_zero") == 0.99609375
    assert accumulate([256.0, 1 + 2.0**-52], BF16) == 258
    assert accumulate([2.0**-60, 1 + 2.0**-8], BF16) == 1.0078125


def terms_for(rng: np.random.Generator, fmt: FloatFormat, rows: int, count: int, kind: str) -> np.ndarray:
    """Terms that stress one thing: values of the format, raw float64, ties, the ends of the range."""
    e = rng.integers(-6, 7, (rows, count))
    x = np.ldexp(rng.standard_normal((rows, count)), e)
    if kind == "raw":
        return x
    if kind == "values":
        return fmt.round(x, "nearest_even", overflow="saturate")
    if kind == "ties":
        return np.ldexp(1.0 + rng.integers(0, 4, (rows, count)) * fmt.eps / 2, e) * rng.choice(
            [-1.0, 1.0], (rows, count)
        )
    if kind == "tiny":
        return rng.integers(-9, 10, (rows, count)) * (fmt.min_positive / 4) + 0.0
    if kind == "fine":  # no term below the smallest value, but bits below it
        return rng.choice([1.0, -1.0], (rows, count)) * fmt.min_positive * (1 + rng.integers(1, 8, (rows, count)) / 8)
    if kind == "zeros":
        return rng.choice([0.0, -0.0, 1.0, -1.0], (rows, count))
    return rng.choice([fmt.max, -fmt.max, fmt.max / 2, -fmt.max * 0.75, 1.0], (rows, count))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_every_method_and_mode_matches_exact_rationals(fmt, method, mode):
    arithmetic = sums_oracle.Arithmetic(ORACLES[fmt.name], mode)
    rng = np.random.default_rng(hash_of(fmt.name, method, mode))
    for kind in ("raw", "values", "ties", "tiny", "fine", "zeros", "huge"):
        if kind == "huge" and fmt == FP64:
            continue  # sums beyond float64 have a test of their own
        # Few columns are added number by number, more as arrays.
        rows, count = (2, rng.integers(1, 14)) if rng.random() < 0.5 else (FEW_COLUMNS + 1, rng.integers(1, 9))
        values = terms_for(rng, fmt, rows, int(count), kind)
        if fmt.has_nan or fmt.overflow == "saturate":
            result = accumulate(values, fmt, mode, method, **PARAMETERS.get(method, {}))
            expected = [
                sums_oracle.METHODS[method](arithmetic, row, **PARAMETERS.get(method, {})) for row in values.tolist()
            ]
            assert_same(result, expected, fmt)


CUSTOM = {name: facts for name, facts in random_facts(45).items() if facts.zero}


def as_format(name: str, facts: Facts) -> FloatFormat:
    """The format of an oracle's facts."""
    return FloatFormat(
        name,
        facts.exponent_bits,
        facts.mantissa_bits,
        facts.bias,
        signed=facts.signed,
        subnormals=facts.subnormals,
        infinities=facts.infinity,
        nan=facts.nan,
        overflow=facts.overflow,
    )


@pytest.mark.parametrize("name", CUSTOM)
def test_random_custom_formats_match_exact_rationals(name):
    fmt, oracle = as_format(name, CUSTOM[name]), Oracle(CUSTOM[name])
    rng = np.random.default_rng(hash_of(name))
    size = min(fmt.max, 2.0**60) / 8
    for mode in MODES:
        arithmetic = sums_oracle.Arithmetic(oracle, mode, nan="zero")
        for rows in (2, FEW_COLUMNS + 1):
            values = np.ldexp(rng.standard_normal((rows, 5)), rng.integers(-4, 2, (rows, 5))) * size
            values = np.where(rng.random(values.shape) < 0.5, fmt.round(values, overflow="saturate"), values)
            for method in ("sequential", "kahan"):
                result = accumulate(values, fmt, mode, method, nan="zero")
                assert_same(result, [sums_oracle.METHODS[method](arithmetic, row) for row in values.tolist()], fmt)


def hash_of(*words: str) -> int:
    """A seed from words that is the same in every process."""
    return int.from_bytes(" ".join(words).encode(), "little") % 2**63


def assert_same(result: np.ndarray, expected: list[float], fmt: object) -> None:
    """Equal values, NaN in the same places, zeros of the same sign."""
    tally("sums, from the definition in exact rationals", fmt, len(expected))
    np.testing.assert_array_equal(result, expected)
    numbers = ~np.isnan(result)
    np.testing.assert_array_equal(np.signbit(result)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mode", ["nearest_even", "toward_zero"])
def test_chunks_are_promoted(method, mode):
    inner = sums_oracle.Arithmetic(ORACLES["BF16"], mode)
    outer = sums_oracle.Arithmetic(ORACLES["FP32"], "nearest_even")
    parameters = PARAMETERS.get(method, {})
    rng = np.random.default_rng(5)
    for terms in (1, 5, 6, 17):
        values = rng.standard_normal((2, terms)) * 1000
        expected = [
            sums_oracle.promoted(inner, outer, row, 5, sums_oracle.METHODS[method], **parameters)
            for row in values.tolist()
        ]
        assert_same(accumulate(values, BF16, mode, method, chunk=5, **parameters), expected, BF16)


@settings(deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False), max_size=9), st.sampled_from(MODES), st.sampled_from(METHODS))
def test_any_terms_match_exact_rationals(terms, mode, method):
    arithmetic = sums_oracle.Arithmetic(ORACLES["FP16"], mode)
    parameters = PARAMETERS.get(method, {})
    expected = sums_oracle.METHODS[method](arithmetic, terms, **parameters)
    assert_same(accumulate([terms], FP16, mode, method, **parameters), [expected], FP16)


@pytest.mark.parametrize("policy", ["infinity", "nan", "saturate", "propagate"])
@pytest.mark.parametrize("mode", MODES)
def test_overflow_policies_act_on_every_partial_sum(mode, policy):
    values = terms_for(np.random.default_rng(1), FP8_E5M2, 40, 7, "huge")
    values[0, 3] = np.inf
    arithmetic = sums_oracle.Arithmetic(ORACLES["FP8_E5M2"], mode, policy)
    expected = [sums_oracle.sequential(arithmetic, row) for row in values.tolist()]
    assert_same(accumulate(values, FP8_E5M2, mode, overflow=policy), expected, FP8_E5M2)


def test_float64_sums_may_pass_float64s_range():
    big = FP64.max
    assert accumulate([big, big, -big], FP64) == math.inf
    assert accumulate([big, big, -big], FP64, "toward_zero") == 0.0
    assert accumulate([big, 2.0**970], FP64, "down") == big
    assert accumulate([big, 2.0**900], FP64, "up") == math.inf


@pytest.mark.parametrize("columns", [2, 20])
@pytest.mark.parametrize("policy", ["infinity", "saturate", "nan"])
def test_a_sum_that_leaves_the_range_within_a_block_is_noticed(columns, policy):
    # 512 up to 71680 and back down: only a look at every partial sum sees that 65504 was passed.
    values = np.full((columns, 280), 512.0)
    values[:, 140:] = -512.0
    expected = sums_oracle.sequential(
        sums_oracle.Arithmetic(ORACLES["FP16"], "nearest_even", policy), values[0].tolist()
    )
    assert expected != 0
    assert_same(accumulate(values, FP16, overflow=policy), [expected] * columns, FP16)


def test_long_fast_sums_equal_careful_ones():
    # Many terms, so that blocks, the overflow bound and its failure all take part; E4M3 fails it at once.
    rng = np.random.default_rng(8)
    for fmt in (BF16, FP16, FP8_E4M3):
        values = fmt.round(rng.standard_normal((70, 1500)) * 4, overflow="saturate")
        values[3] = np.abs(values[3])
        whole = accumulate(values, fmt)
        for row in (0, 3, 69):
            s = 0.0
            for x in values[row].tolist():
                s = float(fmt.round(s + x))
            np.testing.assert_array_equal(whole[row], s)


# Shapes and types -----------------------------------------------------------------------------------------------------


def test_rows_do_not_influence_each_other():
    values = np.random.default_rng(2).standard_normal((50, 33)) * 9
    for method in METHODS:
        whole = accumulate(values, FP16, method=method)
        alone = [accumulate(row, FP16, method=method) for row in values]
        np.testing.assert_array_equal(whole, alone)


def test_axis_and_layout_do_not_change_the_bits():
    values = np.random.default_rng(2).standard_normal((4, 20, 5))
    expected = np.array([[accumulate(values[i, :, k], BF16) for k in range(5)] for i in range(4)])
    np.testing.assert_array_equal(accumulate(values, BF16, axis=1), expected)
    np.testing.assert_array_equal(accumulate(np.asfortranarray(values), BF16, axis=-2), expected)
    np.testing.assert_array_equal(accumulate(values.astype(">f8"), BF16, axis=1), expected)
    frozen = values.copy()
    frozen.setflags(write=False)
    np.testing.assert_array_equal(accumulate(frozen, BF16, axis=1), expected)
    assert accumulate(values[0, :, 0], BF16).shape == ()
    assert accumulate(np.zeros((3, 0)), BF16).tolist() == [0.0, 0.0, 0.0]
    assert accumulate(np.zeros((0, 3)), BF16).shape == (0,)
    assert accumulate(np.arange(5), BF16) == 10


@pytest.mark.torch
def test_torch_tensors_are_numbers_too():
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(3).standard_normal((4, 30))
    for dtype, fmt in ((torch.float64, None), (torch.float32, FP32), (torch.bfloat16, BF16), (torch.float16, FP16)):
        tensor = torch.from_numpy(values).to(dtype)
        rounded = values if fmt is None else fmt.round(values)
        np.testing.assert_array_equal(accumulate(tensor, FP16), accumulate(rounded, FP16))
    half = torch.ones(3, dtype=torch.float32)
    assert numfmt.fma(half, half, half, FP32).dtype == np.float32


def test_ml_dtypes_arrays_are_numbers_too():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.random.default_rng(3).standard_normal((4, 30))
    np.testing.assert_array_equal(
        accumulate(values.astype(ml_dtypes.bfloat16), FP16), accumulate(BF16.round(values), FP16)
    )


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(METHODS),
    st.sampled_from(["nearest_even", "up", "stochastic"]),
    st.sampled_from([None, 4]),
    st.lists(st.integers(0, 7), max_size=6),
)
def test_pieces_give_the_bits_of_the_whole(method, mode, chunk, pieces):
    values = np.random.default_rng(len(pieces)).standard_normal((3, sum(pieces))) * 3
    options = {"rounding": mode, "method": method, "chunk": chunk, **PARAMETERS.get(method, {})}
    accumulator = Accumulator(3, BF16, seed=11, **options)
    for i, start in enumerate(np.cumsum([0, *pieces])[:-1]):
        accumulator.add(values[:, start : start + pieces[i]])
        accumulator.total()  # asking changes nothing
    np.testing.assert_array_equal(accumulator.total(), accumulate(values, BF16, seed=11, **options))


def test_a_sum_that_underflowed_to_minus_zero_stays_so():
    # The first term leaves -0; the second block holds -0 beside terms that let the fast path skip signs.
    accumulator = Accumulator(20, BF16)
    accumulator.add(np.full((20, 1), -(2.0**-140)))
    block = np.full((20, 2), -0.0)
    block[3:] = 1.0
    accumulator.add(block)
    total = accumulator.total()
    assert np.signbit(total[:3]).all()
    assert (total[3:] == 2).all()


def test_wide_problems_are_cut_into_columns_without_a_trace():
    values = np.random.default_rng(0).standard_normal((40_000, 3))
    whole = accumulate(values, BF16, "stochastic", seed=1)
    parts = [0, 16_383, 16_384, 39_999]
    # The words of a column depend on its place in the whole problem, so compare deterministic results by part ...
    np.testing.assert_array_equal(accumulate(values[parts], BF16), accumulate(values, BF16)[parts])
    # ... and the stochastic ones with a neighbour each result must be.
    exact = accumulate(values, BF16)
    assert np.max(np.abs(whole - exact)) < 0.2


# Stochastic rounding --------------------------------------------------------------------------------------------------


def test_stochastic_sums_are_reproducible_and_unbiased():
    values = np.full((4000, 64), 1 / 64)
    a = accumulate(values, FP8_E4M3, "stochastic", seed=3)
    np.testing.assert_array_equal(a, accumulate(values, FP8_E4M3, "stochastic", seed=3))
    assert (a != accumulate(values, FP8_E4M3, "stochastic", seed=4)).any()
    np.testing.assert_array_equal(a, accumulate(values, FP8_E4M3, "stochastic", seed=np.random.default_rng(3)))
    # Nearest even stops at 0.25; the mean of stochastic sums is the exact sum 1 within five standard errors.
    assert accumulate(values[0], FP8_E4M3) == 0.25
    assert abs(a.mean() - 1.0) < 5 * a.std() / math.sqrt(len(a))


def test_stochastic_terms_finer_than_the_carrier_can_add_still_count():
    # 1 + 2^-60 is inexact in float64; the truncated fraction must not round up to a sure step.
    sums = accumulate(np.tile([1.0, -(2.0**-60)], (2000, 1)), BF16, "stochastic", seed=0)
    assert set(sums.tolist()) <= {1.0, 0.99609375}
    assert (sums == 1.0).mean() > 0.99


@pytest.mark.parametrize("bits", [1, 4])
def test_few_random_bits_have_their_own_resolution(bits):
    # A discarded fraction of 1/4 is below the resolution of one random bit, and seen by four.
    sums = accumulate(np.tile([1.0, BF16.eps / 4], (4000, 1)), BF16, "stochastic", seed=0, random_bits=bits)
    share = (sums != 1.0).mean()
    assert share == 0 if bits == 1 else abs(share - 0.25) < 0.04


# Bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"method": "pairwize"}, ValueError, "pairwise"),
        ({"rounding": "nearest_evn"}, ValueError, "nearest_even"),
        ({"chunk": -1}, ValueError, "chunk must be at least 1, got -1"),
        ({"chunk": 0}, ValueError, "chunk"),
        ({"chunk": 2.5}, TypeError, "chunk must be an integer"),
        ({"rounding": "stochastic", "seed": math.nan}, TypeError, "nan"),
        ({"rounding": "stochastic", "random_bits": 40}, ValueError, "random_bits"),
        ({"fan_in": 4}, ValueError, "tree and fused"),
        ({"method": "tree", "fan_in": 1}, ValueError, "fan_in must be at least 2"),
        ({"axis": 5}, ValueError, "axis=5"),
        ({"fmt": "bf16"}, TypeError, "FloatFormat"),
        ({"fmt": E8M0}, ValueError, "no zero"),
        ({"values": [1j]}, TypeError, "real numbers"),
        ({"values": ["1"]}, TypeError, "real numbers"),
        ({"values": 3.0}, ValueError, "wrap a single number"),
        ({"promote_to": "fp32"}, TypeError, "FloatFormat"),
    ],
)
def test_bad_arguments_are_named(arguments, error, words):
    call = {"values": np.ones((2, 3)), "fmt": BF16, **arguments}
    with pytest.raises(error, match=words):
        accumulate(**call)


def test_nan_needs_a_format_that_has_one():
    with pytest.raises(ValueError, match="NaN"):
        accumulate([1.0, math.nan], FP4_E2M1)
    assert accumulate([1.0, math.nan], FP4_E2M1, nan="zero") == 0.0
    assert math.isnan(accumulate([math.inf, -math.inf], BF16))


def test_accumulator_names_wrong_shapes():
    with pytest.raises(ValueError, match=r"\(3, k\)"):
        Accumulator(3, BF16).add(np.ones((2, 2)))
    with pytest.raises(ValueError, match="count"):
        Accumulator(-1, BF16)


def test_oracle_itself_rounds_the_textbook_case():
    r = sums_oracle.Arithmetic(ORACLES["BF16"], "nearest_even")
    assert r.round(Fraction(257, 1)) == 256
    assert sums_oracle.sequential(r, [256.0, 1 + 2.0**-52]) == 258
