"""Sums in few passes have the bits of sums with every addition done with care, and know where they must not be used."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import sums_oracle
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numfmt_oracle import CONSTANTS, MODES, Oracle

import numfmt
from numfmt import _passes, _summation, accumulate
from numfmt._fast.backend import backend
from numfmt._passes import Extent, RowArithmetic, reach_of_kahan, reach_of_neumaier, reach_of_sum, row
from numfmt._rounded import RoundedArithmetic

FORMATS = [
    numfmt.BF16,
    numfmt.FP16,
    numfmt.FP8_E4M3,
    numfmt.FP8_E5M2,
    numfmt.FP8_E4M3FNUZ,
    numfmt.FP4_E2M1,
    numfmt.FP32,
    numfmt.FloatFormat("E9M40", 9, 40, 255),
    numfmt.FloatFormat("E3M9", 3, 9, -20),
]
STOCHASTIC = ["stochastic", "stochastic_b", "stochastic_c"]
KINDS = ["raw", "values", "float32", "subnormal", "below", "zeros", "large", "ones"]


def data(fmt: numfmt.FloatFormat, kind: str, shape: tuple[int, int]) -> np.ndarray:
    """Terms on both sides of every condition: on the grid and off it, far from the ends of the range and near them."""
    rng = np.random.default_rng(KINDS.index(kind))
    x = np.ldexp(rng.standard_normal(shape), rng.integers(-6, 4, shape))
    return {
        "raw": lambda: x,
        "values": lambda: fmt.round(x, overflow="saturate"),
        "float32": lambda: x.astype(np.float32).astype(np.float64),
        "subnormal": lambda: rng.integers(-9, 10, shape) * fmt.min_positive,
        "below": lambda: rng.integers(-9, 10, shape) * (fmt.min_positive / 4),
        "zeros": lambda: rng.choice([0.0, -0.0, 1.0, -1.0], shape),
        "large": lambda: fmt.round(rng.standard_normal(shape) * (min(fmt.max, 2.0**900) / 300), overflow="saturate"),
        "ones": lambda: np.ones(shape) * rng.choice([1.0, 0.5, -1.0], (shape[0], 1)),
    }[kind]()


def assert_same_bits(a: np.ndarray, b: np.ndarray) -> None:
    numbers = ~np.isnan(b)
    np.testing.assert_array_equal(np.isnan(a), ~numbers)
    np.testing.assert_array_equal(a[numbers].view(np.uint64), b[numbers].view(np.uint64))


@pytest.fixture
def counted(monkeypatch):
    """How many rows were added in passes; and a switch."""
    seen = {"rows": 0, "on": True, "dtypes": set()}
    suits, adder = RowArithmetic.suits, RowArithmetic.adder

    def counting_adder(self, carefully, **options):
        add = adder(self, carefully, **options)

        def counting(a, b, out, words=None):
            seen["rows"] += 1
            seen["dtypes"].add(out.numbers.dtype.name)
            add(a, b, out, words)

        return counting

    monkeypatch.setattr(RowArithmetic, "suits", staticmethod(lambda ops: seen["on"] and suits(ops)))
    monkeypatch.setattr(RowArithmetic, "adder", counting_adder)
    with backend("numpy"):
        yield seen


@pytest.mark.parametrize("mode", [*MODES, *STOCHASTIC])
@pytest.mark.parametrize("method", ["sequential", "kahan", "neumaier"])
def test_passes_have_the_bits_of_careful_additions(counted, method, mode):
    # Careful stochastic sums are slow: formats take turns with the kinds of data.
    for i, fmt in enumerate(FORMATS):
        for kind in KINDS[i % 4 :: 4] if mode in STOCHASTIC else KINDS:
            x = data(fmt, kind, (10, 20))
            counted["on"] = True
            fast = accumulate(x, fmt, mode, method, seed=3)
            counted["on"] = False
            assert_same_bits(fast, accumulate(x, fmt, mode, method, seed=3))
    assert counted["rows"] > 150


@pytest.mark.parametrize("mode", STOCHASTIC)
@pytest.mark.parametrize("bits", [1, 3])
def test_passes_see_fractions_that_few_random_bits_split(counted, mode, bits):
    # Sixteenths of a last place: half of what three bits can tell, and what one bit cannot.
    rng = np.random.default_rng(5)
    x = 1.0 + rng.integers(0, 64, (300, 3)) * (numfmt.BF16.eps / 16)
    fast = accumulate(x, numfmt.BF16, mode, seed=1, random_bits=bits)
    counted["on"] = False
    assert_same_bits(fast, accumulate(x, numfmt.BF16, mode, seed=1, random_bits=bits))
    assert counted["rows"] == 3


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", ["sequential", "kahan", "neumaier"])
def test_passes_match_exact_rationals(counted, method, mode):
    for fmt in FORMATS[:6]:
        arithmetic = sums_oracle.Arithmetic(Oracle(CONSTANTS[fmt.name]), mode)
        for kind in ("raw", "values", "subnormal", "zeros", "large"):
            x = data(fmt, kind, (9, 8))
            expected = [sums_oracle.METHODS[method](arithmetic, terms) for terms in x.tolist()]
            assert_same_bits(accumulate(x, fmt, mode, method), np.array(expected))
    assert counted["rows"] > 100


def test_long_rows_are_carried_by_float32_where_it_is_wide_enough(counted, monkeypatch):
    monkeypatch.setattr(_passes, "_LONG", 1)
    for fmt in FORMATS:
        for kind in KINDS:
            for scale in (1.0, 2.0**-130, 2.0**100):
                x = data(fmt, kind, (12, 40)) * scale
                counted["on"] = True
                fast = accumulate(x, fmt)
                counted["on"] = False
                assert_same_bits(fast, accumulate(x, fmt))
    assert counted["dtypes"] == {"float32", "float64"}


def test_signalling_nans_in_long_rows_are_no_warning(counted, monkeypatch):
    monkeypatch.setattr(_passes, "_LONG", 1)
    x = np.ones((12, 5))
    x.view(np.uint64)[3, 2] = 0x7FF4000000000000
    assert np.isnan(accumulate(x, numfmt.BF16)).tolist() == [i == 3 for i in range(12)]


def test_float32_carries_nothing_that_it_would_lose(monkeypatch):
    monkeypatch.setattr(_passes, "_LONG", 1)
    ops = RoundedArithmetic(numfmt.BF16)
    assert RowArithmetic.narrow(ops, np.array([[1.5, 2.0**-149, -(2.0**127)]]), 8).dtype == np.float32
    for lost in (2.0**-150, -(2.0**-151) * 3, 2.0**128, 1e300, 5e-324):
        assert RowArithmetic.narrow(ops, np.array([[1.0, lost]]), 8) is None
    assert RowArithmetic.narrow(ops, np.array([[1.0, 2.0]]), 9) is None  # terms longer than the format's values
    for other in (RoundedArithmetic(numfmt.TF32), RoundedArithmetic(numfmt.BF16, "up")):
        terms = RowArithmetic.narrow(other, np.array([[1.0, 2.0]]), 8)
        assert terms is None or 2 * other.fmt.precision + 2 <= 24


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6),
    st.integers(1, 53),
    st.integers(-1074, 20),
)
def test_the_unit_of_an_extent_divides_every_number(values, keep, exponent):
    # Of every number only some leading bits, so that there is something to find.
    cut = numfmt.FloatFormat("cut", 11, keep - 1, 1023) if keep > 1 else None
    x = np.array([values]) if cut is None else np.asarray(cut.round(np.array([values]), overflow="saturate"))
    bits = _passes.CARRIER_PRECISION if cut is None else keep
    extent = Extent.of(x, bits, 2.0**exponent)
    assert extent.largest == np.abs(x).max()
    if 0 < extent.unit < math.inf:
        assert extent.unit >= 2.0**exponent
        assert all(Fraction(v) % Fraction(extent.unit) == 0 for v in x.ravel().tolist())
    if extent.unit == math.inf:
        assert not x.any()


def test_extents_of_special_blocks():
    assert Extent.of(np.zeros((2, 2)), 1, 1.0) == Extent(0.0, math.inf)
    assert Extent.of(np.array([[1.0, np.inf]]), 1, 1.0) == Extent(math.inf, 0.0)
    assert Extent.of(np.array([[1.0, np.nan]]), 1, 1.0).unit == 0.0
    assert Extent.of(np.array([[0.0, -0.0, 0.75, 12.0]]), 2, 0.25) == Extent(12.0, 0.25)
    assert Extent.of(np.array([[0.75, 12.0]]), 53, 0.25) == Extent(12.0, 0.25)  # found by looking at the numbers
    assert Extent.of(np.array([[0.75, 12.0]]), 53, 0.5) == Extent(12.0, 0.0)
    assert Extent.of(np.array([[5e-324, 12.0]]), 53, 4.0) == Extent(12.0, 0.0)  # 5e-324 / 4 is 0 in float64


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(FORMATS[:6]),
    st.sampled_from(MODES),
    st.lists(st.integers(-(2**10), 2**10), min_size=1, max_size=12),
)
def test_bounds_are_never_reached(fmt, mode, multiples):
    """The bounds on running and compensated sums, against sums with every number on the way recorded."""
    arithmetic = sums_oracle.Arithmetic(Oracle(CONSTANTS[fmt.name]), mode)
    met: list[float] = []
    add = arithmetic.add

    def recording(a: float, b: float) -> float:
        result = add(a, b)
        met.extend((abs(a + b), abs(result)))
        return result

    arithmetic.add = recording  # type: ignore[method-assign]
    ops = RoundedArithmetic(fmt, mode)
    terms = [n * fmt.min_positive for n in multiples]
    largest = max(map(abs, terms))
    for method, reach in (("kahan", reach_of_kahan), ("neumaier", reach_of_neumaier)):
        met.clear()
        s, c, bound = 0.0, 0.0, 0.0
        for _ in terms:
            s, c, reached = reach(s, c, largest, ops.error)
            bound = max(bound, reached)
        assume(bound < fmt.max)
        if method == "kahan":
            sums_oracle.kahan(arithmetic, terms)
        else:
            sums_oracle.neumaier(arithmetic, terms)
            del met[-2:]  # the last addition is not the machine's
        assert max(met) <= bound
    met.clear()
    bound = reach_of_sum(0.0, largest, len(terms), ops.error, ops.nearest)
    assume(bound < fmt.max)
    sums_oracle.sequential(arithmetic, terms)
    assert max(met) <= bound


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", ["sequential", "kahan", "neumaier"])
def test_sums_around_the_last_that_float64_holds_exactly(counted, method, mode):
    # A power of two plus and minus one unit of a grid that float64 has, or has not, under sums of this size.
    arithmetic = sums_oracle.Arithmetic(Oracle(CONSTANTS["BF16"]), mode)
    for exponent in range(49, 58):
        x = np.array([[s * 2.0**exponent, s * t, u * t] for s in (1, -1) for t in (1.0, -1.0, 3.0) for u in (1, -1)])
        expected = [sums_oracle.METHODS[method](arithmetic, terms) for terms in x.tolist()]
        assert_same_bits(accumulate(x, numfmt.BF16, mode, method), np.array(expected))
    assert counted["rows"] > 0


@pytest.mark.parametrize("mode", ["nearest_even", "toward_zero", "down"])
def test_a_block_may_follow_one_that_needed_care(counted, mode):
    # Off the grid, on it, beyond the range, on it again; minus zeros in between.
    rng = np.random.default_rng(4)
    blocks = [
        np.full((20, 3), -(2.0**-140)),
        np.full((20, 3), -0.0),
        numfmt.BF16.round(rng.standard_normal((20, 40))),
        np.full((20, 2), 3e38),
        np.full((20, 2), -3e38),
        numfmt.BF16.round(rng.standard_normal((20, 40))),
        rng.standard_normal((20, 40)),
    ]
    for fmt in (numfmt.BF16, numfmt.FP8_E4M3):
        for method in ("sequential", "kahan", "neumaier"):
            results = []
            for on in (True, False):
                counted["on"] = on
                sums = numfmt.Accumulator(20, fmt, rounding=mode, method=method, overflow="saturate")
                for block in blocks:
                    sums.add(block)
                    results.append(sums.total())
            for fast, careful in zip(results[: len(blocks)], results[len(blocks) :], strict=True):
                assert_same_bits(fast, careful)


def test_minus_zeros_are_found():
    assert _passes.has_minus_zero(np.array([1.0, -0.0]))
    assert not _passes.has_minus_zero(np.array([0.0, -1.0, -np.inf, np.nan, -5e-324]))
    assert not _passes.has_minus_zero(np.zeros(0))


def test_rows_may_be_one_memory():
    ops = RoundedArithmetic(numfmt.BF16, "up")
    passes, out = RowArithmetic(ops, 3), row(3)
    out.numbers[:] = 1.0, 2.0, -3.0
    passes.adder(True)(out.numbers, out.numbers, out)
    assert out.numbers.tolist() == [2.0, 4.0, -6.0]
    passes.adder(True, minus=True)(out.numbers, np.array([2.0**-60] * 3), out)
    assert out.numbers.tolist() == [2.0, 4.0, -6.0]
    assert _summation.METHODS["sequential"].depth(3) == 3
