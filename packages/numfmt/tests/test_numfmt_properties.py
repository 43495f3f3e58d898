"""Algebraic properties that hold for every format, found out by random formats and numbers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, settings
from hypothesis import given as any_given
from hypothesis import strategies as st

import numfmt
from numfmt import FORMATS, FloatFormat, explain
from numfmt._apply import fold_to_odd, round_sum
from numfmt.rounding import ROUNDINGS


def given(*strategies):
    """Hypothesis's, without a time limit: a busy machine is no counterexample."""
    return lambda test: settings(deadline=None)(any_given(*strategies)(test))


DETERMINISTIC = [m for m in ROUNDINGS.values() if not m.stochastic]


@st.composite
def formats(draw, signed: bool | None = None) -> FloatFormat:
    """A constant format or one of random facts that do not contradict each other."""
    if draw(st.booleans()):
        fmt = draw(st.sampled_from(list(FORMATS.values())))
        assume(signed is None or fmt.signed == signed)
        return fmt
    e, m = draw(st.integers(0, 8)), draw(st.integers(0, 12))
    try:
        return FloatFormat(
            "random",
            e,
            m,
            draw(st.integers(-30, 150)),
            draw(st.sampled_from(["ieee", "fn", "fnuz", "finite"])),
            signed=draw(st.booleans()) if signed is None else signed,
            subnormals=draw(st.booleans()),
        )
    except ValueError:
        assume(False)
        raise


numbers = st.one_of(
    st.floats(allow_nan=False),
    st.floats(-1000, 1000),
    st.floats(-1, 1, width=16).map(float),
    st.integers(-(2**60), 2**60).map(lambda n: n * 2.0**-40),
)
modes = st.sampled_from([m.name for m in DETERMINISTIC])
policies = st.sampled_from(list(numfmt.OVERFLOWS))


def rounded(fmt: FloatFormat, x, mode: str, policy: str = "saturate") -> float:
    return float(fmt.round(x, mode, overflow=policy, nan="largest"))


@given(formats(), numbers, modes, policies)
def test_rounding_twice_is_rounding_once(fmt, x, mode, policy):
    assume(policy != "nan" or fmt.has_nan)
    once = fmt.round(x, mode, overflow=policy)
    assert np.array_equal(fmt.round(once, mode, overflow=policy), once, equal_nan=True)


@given(formats(), numbers, numbers, modes)
def test_rounding_is_monotone(fmt, x, y, mode):
    low, high = sorted((x, y))
    assert rounded(fmt, low, mode) <= rounded(fmt, high, mode)


@given(formats(signed=True), numbers, modes)
def test_symmetric_modes_are_odd_functions_and_up_mirrors_down(fmt, x, mode):
    mirror = {"up": "down", "down": "up"}.get(mode, mode)
    assert rounded(fmt, -x, mirror) == -rounded(fmt, x, mode)


@given(formats(), numbers)
def test_directed_modes_enclose_and_nearest_is_one_of_them(fmt, x):
    assume(fmt.min <= x <= fmt.max)
    down, up = rounded(fmt, x, "down"), rounded(fmt, x, "up")
    assert down <= x <= up
    assert down == up or fmt.next_up(down) == up
    for mode in DETERMINISTIC:
        assert rounded(fmt, x, mode.name) in (down, up)
    nearest = rounded(fmt, x, "nearest_even")
    assert abs(Fraction(nearest) - Fraction(x)) == min(abs(Fraction(v) - Fraction(x)) for v in (down, up))
    away = rounded(fmt, x, "nearest_away")
    assert abs(Fraction(away) - Fraction(x)) == abs(Fraction(nearest) - Fraction(x))
    assert abs(rounded(fmt, x, "toward_zero")) == min(abs(down), abs(up))


@given(formats(), numbers)
def test_the_error_is_at_most_half_an_ulp(fmt, x):
    assume(fmt.min <= x <= fmt.max)
    error = abs(Fraction(rounded(fmt, x, "nearest_even")) - Fraction(x))
    if fmt.zero or abs(x) >= fmt.min_positive:
        assert error <= Fraction(float(fmt.ulp(x))) / 2
    if fmt.has_normals and abs(x) >= fmt.min_normal:
        assert error <= Fraction(fmt.unit_roundoff) * abs(Fraction(x))


@given(formats(), numbers, st.sampled_from(["nearest_even", "nearest_away", "toward_zero", "up", "down"]))
def test_rounding_to_odd_first_changes_nothing(fmt, x, mode):
    """With two bits more, round to odd is innocuous (Boldo and Melquiond)."""
    assume(fmt.mantissa_bits <= 9 and fmt.exponent_bits <= 8 and abs(fmt.bias) < 150)
    wider = FloatFormat("wider", 11, fmt.mantissa_bits + 2 + 12, 1023)
    assert rounded(fmt, wider.round(x, "to_odd"), mode) == rounded(fmt, x, mode)


@given(formats(), numbers, st.integers(0, 2**8 - 1), st.sampled_from(["stochastic", "stochastic_b", "stochastic_c"]))
def test_stochastic_results_are_neighbours_and_rise_with_the_random_number(fmt, x, r, mode):
    assume(fmt.min <= x <= fmt.max)
    options = {"random_bits": 8, "overflow": "saturate"}
    results = [float(fmt.round(np.array([x]), mode, random=np.array([v]), **options)[0]) for v in (0, r, 255)]
    down, up = rounded(fmt, x, "down"), rounded(fmt, x, "up")
    assert set(results) <= {down, up}
    assert [abs(v) for v in results] == sorted(abs(v) for v in results)


@given(formats(), st.floats(-100, 100), st.integers(1, 8))
def test_the_expectation_of_stochastic_rounding_is_the_number(fmt, x, n):
    """Over all random numbers: exactly for b and c up to one resolution step, and for a with the known bias."""
    assume(fmt.min <= x <= fmt.max)
    down, up = (Fraction(rounded(fmt, x, m)) for m in ("down", "up"))
    assume(down < up and (fmt.zero or abs(x) >= fmt.min_positive))
    random = np.arange(2**n)
    step = (up - down) / 2**n
    for mode, lowest, highest in (("stochastic", -1, 0), ("stochastic_b", -0.5, 0.5), ("stochastic_c", -0.5, 0.5)):
        got = fmt.round(np.full(2**n, x), mode, random=random, random_bits=n, overflow="saturate")
        mean = sum(Fraction(float(v)) for v in got) / 2**n
        error = (mean - Fraction(x)) * (1 if x >= 0 else -1)  # towards larger magnitudes
        assert lowest * step <= error <= highest * step, mode


def test_a_seed_gives_an_unbiased_mean():
    x = 1 + 2.0**-8 * 0.3
    count = 10**5
    for mode in ("stochastic", "stochastic_b", "stochastic_c"):
        up = (numfmt.BF16.round(np.full(count, x), mode, rng=7) > 1).mean()
        # p = 0.15; five standard deviations
        assert abs(up - 0.15) < 5 * np.sqrt(0.15 * 0.85 / count)
    assert (
        numfmt.BF16.round(np.full(100, x), "stochastic", rng=7) == numfmt.BF16.round(np.full(100, x), "sr", 7)
    ).all()
    generator = np.random.default_rng(7)
    first = numfmt.BF16.round(np.full(100, x), "stochastic", rng=generator)
    second = numfmt.BF16.round(np.full(100, x), "stochastic", rng=generator)
    assert (first != second).any()  # a generator goes on


@given(formats(), st.data())
def test_codes_and_values_are_inverse(fmt, data):
    code = data.draw(st.integers(0, 2**fmt.bits - 1))
    value = fmt.decode(code)
    assume(np.isfinite(value))
    back = fmt.encode(value)
    assert fmt.decode(back) == value
    if fmt.subnormals and not (value == 0 and not fmt.negative_zero):
        assert back == code


@given(formats(), numbers)
def test_neighbours_are_inverse(fmt, x):
    assume(np.isfinite(x))
    value = rounded(fmt, x, "nearest_even")
    above = fmt.next_up(value)
    assume(np.isfinite(above) and above > value)
    assert fmt.next_down(above) == value
    with np.errstate(over="ignore"):
        hair_below = np.nextafter(value, -np.inf)
    assert fmt.next_up(hair_below) == value or value == fmt.min or value == 0


@given(formats(), numbers, numbers, st.sampled_from([m.name for m in DETERMINISTIC]))
def test_sums_are_rounded_once(fmt, x, y, mode):
    """TwoSum and round_sum, or folding to odd and rounding, give the rounding of the exact sum."""
    assume(abs(x) < 1e300 and abs(y) < 1e300)
    high = x + y
    b = high - x
    low = (x - (high - b)) + (y - b)
    exact = Fraction(x) + Fraction(y)
    assume(exact != 0 and Fraction(high) + Fraction(low) == exact)
    expected = fmt.round(np.array([exact], object), mode, nan="largest")
    pair = np.array([high]), np.array([low])
    assert np.array_equal(round_sum(fmt, *pair, mode), expected, equal_nan=True)
    if fmt.precision <= 51:
        assert np.array_equal(fmt.round(fold_to_odd(*pair), mode), expected, equal_nan=True)


@given(st.fractions(), formats(), modes)
def test_explanations_do_not_contradict_themselves(x, fmt, mode):
    explanation = explain(x, fmt, mode)
    if explanation.position is not None:
        below, above = Fraction(explanation.below), Fraction(explanation.above)
        assert below < x < above
        assert 0 < explanation.position < 1
        assert Fraction(explanation.result) in (below, above)
    assert str(explanation)


@pytest.mark.parametrize("mode", [m.name for m in DETERMINISTIC])
def test_a_sum_that_would_be_rounded_twice_is_not(mode):
    # 256 + (1 + 2^-52) in BF16: float64 drops the last bit and makes a tie of it.
    high, low = np.array([257.0]), np.array([2.0**-52])
    expected = {"nearest_even": 258, "nearest_away": 258, "toward_zero": 256, "up": 258, "down": 256, "to_odd": 258}
    assert round_sum(numfmt.BF16, high, low, mode) == expected[mode]
    # A power of two and a rest in the other direction, far below or in the bits next to it.
    for rest in (2.0**-53, 2.0**-54, 1.5 * 2.0**-55, 2.0**-63, 2.0**-64, 2.0**-65, 2.0**-250):
        for fmt in (numfmt.FP64, numfmt.FP32, FloatFormat("p51", 11, 50, 1023), FloatFormat("p52", 11, 51, 1023)):
            for sign in (1, -1):
                exact = np.array([sign * (1 - Fraction(rest))], object)
                pair = np.array([float(sign)]), np.array([-sign * rest])
                assert round_sum(fmt, *pair, mode) == fmt.round(exact, mode), (fmt, rest, sign)
    # A rest that underflows when it is brought to the units of the sum.
    for high, low in ((2.0**1000, 2.0**-1060), (-(2.0**1000), 2.0**-1060), (2.0**1000, -(2.0**-1060))):
        exact = np.array([Fraction(high) + Fraction(low)], object)
        wide = FloatFormat("wide", 11, 20, 1023)
        assert round_sum(wide, np.array([high]), np.array([low]), mode) == wide.round(exact, mode)
    # 1 - 2^-60 toward zero is below 1.
    below = {"toward_zero": 0.99609375, "down": 0.99609375, "to_odd": 0.99609375}.get(mode, 1.0)
    assert round_sum(numfmt.BF16, np.array([1.0]), np.array([-(2.0**-60)]), mode) == below
