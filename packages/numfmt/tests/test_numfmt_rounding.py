"""Rounding against the exact oracle: every mode and policy, from every input type."""

import functools
from fractions import Fraction

import numfmt_oracle as oracles
import numpy as np
import pytest
from numfmt_oracle import CONSTANTS, MODES, POLICIES, STOCHASTIC, Oracle
from numfmt_tally import tally

from numfmt import BF16, FORMATS, FloatFormat

CUSTOM = oracles.random_facts(40)
ALL = {**CONSTANTS, **CUSTOM}
SPECIALS = [0.0, -0.0, np.inf, -np.inf]


@functools.cache
def oracle_of(name: str) -> Oracle:
    """The oracle of a format; its table of values is made once."""
    return Oracle(ALL[name])


def make(name: str) -> FloatFormat:
    """The numfmt format of an oracle's facts."""
    if name in FORMATS:
        return FORMATS[name]
    f = ALL[name]
    return FloatFormat(
        name,
        f.exponent_bits,
        f.mantissa_bits,
        f.bias,
        signed=f.signed,
        zero=f.zero,
        subnormals=f.subnormals,
        infinities=f.infinity,
        nan=f.nan,
        overflow=f.overflow,
    )


def same(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Bitwise equality, all NaNs being one."""
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    return (got.view(np.uint64) == expected.view(np.uint64)) | (np.isnan(got) & np.isnan(expected))


def assert_same(got, expected, inputs, what: str) -> None:
    tally("roundings, from the definition in exact rationals", what.split()[0], len(inputs))
    bad = np.flatnonzero(~same(got, expected))
    assert bad.size == 0, f"{what}: {bad.size} of {len(inputs)} differ, first: " + "; ".join(
        f"{inputs[i]!r} ({float(inputs[i])!r}) -> {np.asarray(got)[i]!r}, exactly {expected[i]!r}" for i in bad[:3]
    )


def policies(facts: oracles.Facts) -> list[str]:
    return [p for p in POLICIES if p != "nan" or facts.nan != "none"]


def widen(x: np.ndarray) -> np.ndarray:
    """float64 without the warning that signalling NaNs cause."""
    with np.errstate(invalid="ignore"):
        return x.astype(np.float64)


def as_input(values: list, carrier: type) -> np.ndarray:
    return np.array([float(v) for v in values]).astype(carrier)


def check_points(name: str, limit: int | None, carriers: tuple[type, ...] = (np.float64, np.float32)) -> int:
    """Every mode and policy on the points of a format, from float64 and float32; returns how many were compared."""
    fmt, oracle = make(name), oracle_of(name)
    count = 0
    for carrier in carriers:
        values: list = [*oracles.points(oracle, carrier, limit), *SPECIALS]
        x = as_input(values, carrier)
        ends = [v for v in values if abs(v) >= oracle.max or v == 0 or (v < 0 and not oracle.facts.signed)]
        for mode in MODES:
            expected = np.array([oracle.round(v, mode) for v in values])
            assert_same(fmt.round(x, mode), expected, values, f"{name} {mode} {carrier}")
            for policy in policies(ALL[name]):  # matters at the ends of the range only
                expected = np.array([oracle.round(v, mode, policy) for v in ends])
                got = fmt.round(as_input(ends, carrier), mode, overflow=policy)
                assert_same(got, expected, ends, f"{name} {mode} {policy} {carrier}")
            count += len(values) + len(ends) * len(policies(ALL[name]))
        rng = np.random.default_rng(7)
        for mode in STOCHASTIC:
            for n in (1, 13, 32):
                r = rng.integers(0, 2**n, len(values), dtype=np.uint64)
                expected = np.array([oracle.round(v, mode, r=int(ri), n=n) for v, ri in zip(values, r, strict=True)])
                got = fmt.round(x, mode, random=r, random_bits=n)
                assert_same(got, expected, values, f"{name} {mode} {n} bits {carrier}")
                count += len(values)
    return count


@pytest.mark.parametrize("name", ALL)
def test_points_of_a_format_in_every_mode_and_policy(name):
    # Random formats take turns with the carriers here, and have both in the exhaustive set.
    both = (np.float64, np.float32)
    carriers = both if name in CONSTANTS else (both[list(CUSTOM).index(name) % 2],)
    assert check_points(name, limit=3, carriers=carriers) > 1000


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for name in ALL if oracle_of(name).bits <= 16])
def test_every_code_of_a_format_in_every_mode_and_policy(name):
    small = oracle_of(name).bits <= 10
    assert check_points(name, limit=None if small else 3000) > 1000


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for name in ALL if oracle_of(name).bits <= 16])
def test_every_code_midpoint_and_their_neighbours_in_every_mode_and_policy(name):
    fmt, oracle = make(name), oracle_of(name)
    _, values, middles = oracle._arrays
    exact = np.concatenate([values, middles])
    for carrier in (np.float64, np.float32):
        with np.errstate(over="ignore", under="ignore"):
            near = exact.astype(carrier)
        near = near[np.isfinite(near)]
        x = np.concatenate([near, np.nextafter(near, carrier(np.inf)), np.nextafter(near, carrier(0))])
        x = np.concatenate([x, -x, carrier([np.inf, -np.inf])])
        for mode in MODES:
            for policy in policies(ALL[name]):
                expected = oracle.round_array(widen(x), mode, policy)
                got = fmt.round(x, mode, overflow=policy)
                assert_same(got, expected, x, f"{name} {mode} {policy} {carrier.__name__}")


@pytest.mark.parametrize("name", [name for name in ALL if oracle_of(name).bits <= 9])
def test_every_code_and_midpoint_to_nearest(name):
    fmt, oracle = make(name), oracle_of(name)
    values = oracles.points(oracle, np.float64, None)
    expected = np.array([oracle.round(v, "nearest_even") for v in values])
    assert_same(fmt.round(as_input(values, np.float64)), expected, values, name)


def sixteen_bit_inputs(kind: str) -> np.ndarray:
    codes = np.arange(2**16, dtype=np.uint32)
    if kind == "float16":
        return codes.astype(np.uint16).view(np.float16)
    return (codes << np.uint32(16)).view(np.float32)  # bfloat16 is the upper half of float32


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", [name for name in CONSTANTS if oracle_of(name).bits <= 16])
def test_all_inputs_of_sixteen_bits_to_every_narrow_format(name, kind):
    x = sixteen_bit_inputs(kind)
    fmt, oracle = make(name), oracle_of(name)
    nan = None if oracle.has_nan else "zero"
    for mode in MODES:
        expected = oracle.round_array(widen(x), mode)
        if nan:
            expected = np.where(np.isnan(x), 0.0, expected)
        assert_same(fmt.round(x, mode, nan=nan), expected, x, f"{name} {mode} {kind}")


@pytest.mark.parametrize("name", ["FP32", "TF32", "FP64"])
def test_all_inputs_of_sixteen_bits_to_wide_formats(name):
    for kind in ("float16", "bfloat16"):
        x = sixteen_bit_inputs(kind)
        for mode in MODES:  # they are exact in all three
            assert_same(make(name).round(x, mode), widen(x), x, f"{name} {mode} {kind}")


@pytest.mark.parametrize("name", CONSTANTS)
def test_bfloat16_arrays_of_ml_dtypes_are_the_numbers_that_float32_holds(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = sixteen_bit_inputs("bfloat16")
    narrow = np.arange(2**16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    fmt = make(name)
    nan = None if fmt.has_nan else "zero"
    for mode in MODES:
        assert same(fmt.round(narrow, mode, nan=nan), fmt.round(widen(x), mode, nan=nan)).all()


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for name in ALL if oracle_of(name).bits <= 16])
def test_all_inputs_of_sixteen_bits_in_every_policy(name):
    fmt, oracle = make(name), oracle_of(name)
    zero = 0.0 if oracle.facts.zero else float(oracle.lowest)
    for kind in ("float16", "bfloat16"):
        x = sixteen_bit_inputs(kind)
        for mode in MODES:
            for policy in policies(ALL[name]):
                expected = oracle.round_array(widen(x), mode, policy)
                expected = expected if oracle.has_nan else np.where(np.isnan(x), zero, expected)
                got = fmt.round(x, mode, overflow=policy, nan=None if oracle.has_nan else "zero")
                assert_same(got, expected, x, f"{name} {mode} {policy} {kind}")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CUSTOM)
def test_all_inputs_of_sixteen_bits_to_custom_formats(name):
    fmt, oracle = make(name), oracle_of(name)
    nan = None if oracle.has_nan else "zero"
    for kind in ("float16", "bfloat16"):
        x = sixteen_bit_inputs(kind)
        for mode in MODES:
            expected = oracle.round_array(widen(x), mode)
            if nan:
                zero = 0.0 if oracle.facts.zero else float(oracle.lowest)
                expected = np.where(np.isnan(x), zero, expected)
            assert_same(fmt.round(x, mode, nan=nan), expected, x, f"{name} {mode} {kind}")


@pytest.mark.parametrize("name", ["FP8_E4M3", "FP4_E2M1", "E8M0", "FP16"])
def test_the_two_forms_of_the_oracle_agree(name):
    oracle = oracle_of(name)
    values = [*oracles.points(oracle, np.float64, 20), *SPECIALS]
    for mode in MODES:
        assert_same(
            oracle.round_array(as_input(values, np.float64), mode),
            np.array([oracle.round(v, mode) for v in values]),
            values,
            f"{name} {mode}",
        )


@pytest.mark.parametrize("name", [n for n in ALL if oracle_of(n).bits <= 9][:12])
def test_the_oracles_table_and_arithmetic_agree(name):
    oracle = oracle_of(name)
    for value in oracles.points(oracle, np.float64, 40):
        if 0 <= value < oracle.max:
            assert oracle.around(value) == oracle._around(value), value


INTEGERS = sorted(
    {s * (2**k + d) for k in (*range(12), *range(12, 63, 5), 53, 54, 62) for d in (-1, 0, 1) for s in (1, -1)}
    | {2**63 - 1, -(2**63), 2**62 + 2**38, 2**54 + 2**30 + 1, 12345678901234567}
    | {int(v) for v in np.random.default_rng(3).integers(-(2**63), 2**63 - 1, 60)}
    | {int(v) for v in np.random.default_rng(4).integers(-500, 500, 60)}
)


@pytest.mark.parametrize("name", ALL)
def test_int64_and_python_integers_and_fractions_are_rounded_once(name):
    fmt, oracle = make(name), oracle_of(name)
    for mode in MODES:
        expected = np.array([oracle.round(Fraction(v) if v else 0.0, mode) for v in INTEGERS])
        x = np.array(INTEGERS)
        assert x.dtype == np.int64
        assert_same(fmt.round(x, mode), expected, INTEGERS, f"{name} {mode} int64")
        assert_same(fmt.round(np.array(INTEGERS, object), mode), expected, INTEGERS, f"{name} {mode} int")


@pytest.mark.parametrize("integer", [2**53 + 1, -(2**53) - 1, 2**54 - 1, 2**53 - 1, 2**53])
def test_integers_that_float64_does_not_hold_are_not_passed_through_it(integer):
    for name in ("FP32", "FP64", "BF16"):
        for mode in MODES:
            got = FORMATS[name].round(np.array([integer]), mode)
            expected = np.array([oracle_of(name).round(Fraction(integer), mode)])
            assert_same(got, expected, [integer], f"{name} {mode}")


FRACTIONS = [
    Fraction(s * a, b)
    for a, b in ((1, 3), (2, 3), (10**40, 3), (1, 3 * 10**30), (2**54 + 1, 2**54), (2**200 + 1, 2**199), (10**400, 7))
    for s in (1, -1)
]


@pytest.mark.parametrize("name", CONSTANTS)
def test_fractions_and_huge_integers_are_rounded_once(name):
    fmt, oracle = make(name), oracle_of(name)
    near = [
        v + Fraction(d, 10**60)
        for v in (oracle.max, (oracle.max + oracle.beyond) / 2, oracle.finite(3))
        for d in (-1, 0, 1)
    ]
    values = [*FRACTIONS, *near, Fraction(2**80 + 1), Fraction(-(2**70) - 1)]
    x = np.array([v.numerator if v.denominator == 1 else v for v in values], object)
    for mode in (*MODES, *STOCHASTIC):
        expected = np.array([oracle.round(v, mode, r=3, n=3) for v in values])
        if mode in MODES:
            got = fmt.round(x, mode)
        else:
            got = fmt.round(x, mode, random=np.full(len(x), 3), random_bits=3)
        assert_same(got, expected, values, f"{name} {mode}")


@pytest.mark.parametrize("mode", STOCHASTIC)
@pytest.mark.parametrize("rest", [Fraction(0), Fraction(1, 10**40), Fraction(-1, 10**40)])
def test_stochastic_modes_see_what_lies_below_the_random_bits(mode, rest):
    """With three bits the fraction 5/16 is a tie of two random numbers, and the smallest rest decides it."""
    oracle = oracle_of("BF16")
    for sixteenths in range(1, 16):
        value = 1 + Fraction(sixteenths, 16) / 128 + rest
        for r in range(8):
            got = BF16.round(np.array([value], object), mode, random=[r], random_bits=3)
            assert got[0] == oracle.round(value, mode, r=r, n=3), (sixteenths, r)


@pytest.mark.parametrize("name", ALL)
def test_nan_with_any_payload_is_nan_or_refused(name):
    fmt, oracle = make(name), oracle_of(name)
    payloads = np.array([1, 2, 2**22, 2**51, 2**51 - 1, 2**52 - 1, 0xDEADBEEF], np.uint64)
    bits = np.concatenate([payloads | np.uint64(0x7FF0 << 48), payloads | np.uint64(0xFFF0 << 48)])
    single = np.array([0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFC00000, 0xFFFFFFFF], np.uint32)
    for x in (bits.view(np.float64), single.view(np.float32)):
        if oracle.has_nan:
            for policy in POLICIES:
                assert np.isnan(fmt.round(x, overflow=policy)).all()
            code = fmt.encode(x)
            assert (code == fmt.nan_code).all()
            assert np.isnan(oracle.value(int(code[0])))
        else:
            with pytest.raises(ValueError, match="has no NaN; pass nan="):
                fmt.round(x)
            for nan in ("zero", "largest"):
                assert (fmt.round(x, nan=nan) == oracle.round(np.nan, "nearest_even", nan=nan)).all()


@pytest.mark.parametrize("name", [name for name in ALL if oracle_of(name).bits <= 16])
def test_decode_gives_the_value_of_every_code_and_encode_the_code_of_every_value(name):
    fmt, oracle = make(name), oracle_of(name)
    assert fmt.bits == oracle.bits
    codes = np.arange(2**oracle.bits)
    expected = np.array([oracle.value(int(c)) for c in codes])
    assert_same(fmt.decode(codes), expected, codes, name)
    assert_same(fmt.values(), expected, codes, name)
    back = fmt.encode(expected[~np.isnan(expected)], overflow="propagate")
    again = np.array([oracle.value(int(c)) for c in back])
    assert_same(again, expected[~np.isnan(expected)], back, name)
    if ALL[name].subnormals:  # without subnormals several codes mean zero
        assert (back == codes[~np.isnan(expected)]).all()
    finite = expected[np.isfinite(expected)]
    assert (fmt.finite_values() == np.unique(finite)).all()
    assert fmt.max == finite.max()
    assert fmt.min == finite.min()
    assert fmt.min_positive == finite[finite > 0].min()


@pytest.mark.parametrize("name", ["FP32", "FP64", "TF32"])
def test_codes_of_wide_formats(name):
    fmt, oracle = make(name), oracle_of(name)
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 2**oracle.bits, 2000, dtype=np.uint64)
    expected = np.array([oracle.value(int(c)) for c in codes])
    assert_same(fmt.decode(codes), expected, codes, name)
    numbers = ~np.isnan(expected)
    assert (fmt.encode(expected[numbers]) == codes[numbers]).all()


@pytest.mark.parametrize("name", ALL)
def test_ulp_and_neighbours(name):
    fmt, oracle = make(name), oracle_of(name)
    values = oracles.points(oracle, np.float64, 8)
    x = as_input(values, np.float64)
    up, down, ulp = fmt.next_up(x), fmt.next_down(x), fmt.ulp(x)
    for i, v in enumerate(values):
        size = min(abs(v), oracle.max)
        _, low, high = oracle._around(size)
        if oracle.facts.zero or size >= oracle.lowest:
            assert ulp[i] == high - low, (v, ulp[i])
        # Larger than v is what rounding up a hair above v gives.
        hair = Fraction(1, 10**400)
        assert same(up[i], oracle.round(v + hair, "up")), (v, up[i])
        assert same(down[i], oracle.round(v - hair, "down")), (v, down[i])
    assert np.isnan(fmt.ulp(np.nan))
    assert fmt.ulp(-np.inf) == np.inf
    assert np.isnan(fmt.next_up(np.nan))
