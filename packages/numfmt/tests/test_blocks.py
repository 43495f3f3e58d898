"""Block formats against the definitions in exact rationals, and every kind of block that needs a decision."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numfmt_oracle import CONSTANTS, Oracle, floor_log2

import numfmt
from numfmt import BLOCK_FORMATS, FP4_E2M1, FP6_E2M3, FP8_E4M3, FP16, MXFP4, MXINT8, NVFP4, BlockFormat
from numfmt.blocks import MXFP6_E2M3, MXFP6_E3M2, MXFP8_E4M3, MXFP8_E5M2, block_floating_point

ORACLES = {
    name: Oracle(CONSTANTS[name]) for name in ("FP8_E4M3", "FP8_E5M2", "FP6_E2M3", "FP6_E3M2", "FP4_E2M1", "FP32")
}
MX = [MXFP8_E4M3, MXFP8_E5M2, MXFP6_E2M3, MXFP6_E3M2, MXFP4, MXINT8]
# emax, largest value and mantissa bits of the elements, from OCP MX 1.0, table 1.
FACTS = {
    "MXFP8_E4M3": (8, 448, 3),
    "MXFP8_E5M2": (15, 57344, 2),
    "MXFP6_E2M3": (2, Fraction(15, 2), 3),
    "MXFP6_E3M2": (4, 28, 2),
    "MXFP4": (2, 6, 1),
    "MXINT8": (0, Fraction(127, 64), 6),
}


def expected_exponent(fmt: BlockFormat, amax: Fraction, rule: str) -> int:
    """A scale's exponent by the definition of its rule."""
    emax, largest, mantissa = FACTS[fmt.name]
    if amax == 0:
        return -127
    low = floor_log2(amax)
    if rule == "floor":
        e = low - emax
    elif rule == "ceil":
        e = (low if amax == Fraction(2) ** low else low + 1) - emax
    elif rule == "rceil":
        e = next(e for e in range(low - emax - 2, low - emax + 3) if largest * Fraction(2) ** e >= amax)
    else:
        step = Fraction(2) ** (low - mantissa)
        rounded = (amax / step + Fraction(1, 2)) // 1 * step
        e = floor_log2(rounded) - emax
    return min(max(e, -127), 127)


def expected_element(fmt: BlockFormat, exact: Fraction, sign_of_zero: float) -> float:
    """One rounding to the element format, saturating."""
    if fmt.element is numfmt.MXINT8_ELEMENT:
        return float(min(max(round(exact * 64), -128), 127)) / 64
    return ORACLES[fmt.element.name].round(
        exact if exact else math.copysign(0.0, sign_of_zero), "nearest_even", "saturate"
    )


def numbers(rng: np.random.Generator, rows: int, terms: int) -> np.ndarray:
    """Blocks of all sizes, some with exact powers of two or their neighbours as the largest number."""
    x = rng.standard_normal((rows, terms)) * np.exp2(rng.integers(-140, 120, (rows, 1)))
    powers = np.exp2(rng.integers(-130, 125, rows).astype(float))
    x[::3] *= 1e-3
    x[::3, 0] = powers[::3] * rng.choice([1.0, 1 - 2.0**-53, 1.75, 1.5, 1.9375], len(x[::3]))
    x[1] = 0.0
    x[2, :] = -0.0
    return x


@pytest.mark.parametrize("rule", ["floor", "ceil", "rceil", "even"])
@pytest.mark.parametrize("fmt", MX, ids=str)
def test_mx_formats_follow_their_definition(fmt, rule):
    x = numbers(np.random.default_rng(1), 40, 32)
    stored = fmt.quantise(x, rule=rule)
    assert stored.scales.shape == (40, 1)
    for row, elements, scale in zip(x.tolist(), stored.elements.tolist(), stored.scales[:, 0].tolist(), strict=True):
        exponent = expected_exponent(fmt, max(abs(Fraction(v)) for v in row), rule)
        assert scale == 2.0**exponent
        exact = [Fraction(v) / Fraction(2) ** exponent for v in row]
        truth = [expected_element(fmt, e, v) for e, v in zip(exact, row, strict=True)]
        assert elements == truth
    np.testing.assert_array_equal(stored.dequantise(), stored.elements * stored.scales)


@pytest.mark.parametrize("rule", ["nearest", "rceil"])
def test_nvfp4_follows_its_definition(rule):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((30, 32)) * np.exp2(rng.integers(-12, 8, (30, 1)))
    x[4] = 0.0
    stored = NVFP4.quantise(x, rule=rule)
    amax = max(abs(Fraction(v)) for v in x.ravel())
    tensor = ORACLES["FP32"].round(amax / (6 * 448), "nearest_even")
    assert stored.tensor_scale == tensor
    mode = "nearest_even" if rule == "nearest" else "up"
    for row, elements, scales in zip(x.tolist(), stored.elements.tolist(), stored.scales.tolist(), strict=True):
        for b in (0, 1):
            block = row[16 * b : 16 * b + 16]
            largest = max(abs(Fraction(v)) for v in block)
            scale = ORACLES["FP8_E4M3"].round(largest / 6 / Fraction(tensor) if largest else 0.0, mode, "saturate")
            scale = max(scale, 2.0**-9) if largest else scale
            assert scales[b] == scale
            for v, element in zip(block, elements[16 * b : 16 * b + 16], strict=True):
                if scale == 0:
                    assert element == 0
                    continue
                assert element == expected_element(NVFP4, Fraction(v) / (Fraction(scale) * Fraction(tensor)), v)


def test_exponents_come_from_bits_not_from_logarithms():
    below_eight = np.nextafter(8.0, 0.0)
    assert MXFP4.round([below_eight, 0.5]).tolist() == [6.0, 0.5]
    assert MXFP4.round([8.0, 0.5]).tolist() == [8.0, 0.0]


def test_dividing_and_multiplying_by_the_reciprocal_differ():
    scale, v = 7 * 2.0**-9, 0.02392577938735485
    block = np.array([6 * scale, v])
    for quotient, element in (("exact", 1.5), ("float32", 1.5), ("reciprocal_float32", 2.0)):
        stored = NVFP4.quantise(block, tensor_scale=1.0, quotient=quotient)
        assert stored.scales.tolist() == [scale]
        assert stored.elements[1] == element


def test_float32_quotients_are_what_float32_arithmetic_gives():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((50, 16)).astype(np.float32)
    stored = NVFP4.quantise(x, tensor_scale=1.0, quotient="float32")
    by_hand = x / stored.scales.astype(np.float32)
    np.testing.assert_array_equal(stored.elements, FP4_E2M1.round(by_hand, overflow="saturate"))
    stored = NVFP4.quantise(x, tensor_scale=1.0, quotient="reciprocal_float32")
    by_hand = x * (np.float32(1) / stored.scales.astype(np.float32))
    np.testing.assert_array_equal(stored.elements, FP4_E2M1.round(by_hand, overflow="saturate"))


@pytest.mark.parametrize("fmt", list(BLOCK_FORMATS.values()), ids=str)
def test_rceil_never_saturates_and_values_are_fixed_points(fmt):
    x = np.random.default_rng(4).standard_normal((20, 64))
    values = fmt.round(x, rule="rceil")
    assert np.abs(values).max() <= np.abs(x).max() * 1.15
    if fmt is not NVFP4:  # its tensor scale moves
        np.testing.assert_array_equal(fmt.round(values, rule="rceil"), values)


@pytest.mark.parametrize("fmt", list(BLOCK_FORMATS.values()), ids=str)
def test_codes_go_there_and_back(fmt):
    x = np.random.default_rng(5).standard_normal((6, 100))
    stored = fmt.quantise(x)
    again = fmt.decode(stored.element_codes(), stored.scale_codes(), tensor_scale=stored.tensor_scale)
    np.testing.assert_array_equal(again.dequantise(), stored.dequantise())
    assert stored.element_codes().max() < 2**fmt.element.bits
    assert stored.scale_codes().shape == (6, -(-100 // fmt.block))
    for axis in (0, -1):
        codes = fmt.encode(x, axis, special="error")
        assert codes.elements.dtype == codes.scales.dtype == np.uint8
        decoded, quantised = fmt.decode(*codes), fmt.quantise(x, axis)
        np.testing.assert_array_equal(decoded.elements, quantised.elements)
        np.testing.assert_array_equal(decoded.scales, quantised.scales)
        assert (decoded.axis, decoded.tensor_scale) == (quantised.axis, quantised.tensor_scale)


def test_axes_short_blocks_and_layouts():
    x = np.random.default_rng(6).standard_normal((3, 70, 5))
    expected = np.stack([[MXFP6_E2M3.round(x[i, :, k]) for k in range(5)] for i in range(3)]).transpose(0, 2, 1)
    np.testing.assert_array_equal(MXFP6_E2M3.round(x, axis=1), expected)
    np.testing.assert_array_equal(MXFP6_E2M3.round(np.asfortranarray(x), axis=-2), expected)
    np.testing.assert_array_equal(MXFP6_E2M3.round(x.astype(">f8"), axis=1), expected)
    stored = MXFP6_E2M3.quantise(x, axis=1)
    assert stored.scales.shape == (3, 3, 5)
    # The last block has six numbers of its own.
    np.testing.assert_array_equal(expected[:, 64:], MXFP6_E2M3.round(x[:, 64:], axis=1))
    frozen = x.copy()
    frozen.setflags(write=False)
    MXFP6_E2M3.round(frozen, axis=0)
    assert MXFP4.round(np.zeros((0, 5))).shape == (0, 5)
    assert MXFP4.round(np.zeros((5, 0))).shape == (5, 0)


def test_blocks_of_zeros_keep_signs_and_take_the_smallest_scale():
    stored = MXFP4.quantise([0.0, -0.0])
    assert stored.scales.tolist() == [2.0**-127]
    assert np.signbit(stored.elements).tolist() == [False, True]
    nothing = NVFP4.quantise(np.zeros(16))
    assert (nothing.scales.tolist(), nothing.tensor_scale) == ([0.0], 1.0)
    assert nothing.dequantise().tolist() == [0.0] * 16


def test_subnormal_blocks_are_like_any_others():
    tiny = np.float32(2.0**-149)
    assert MXFP8_E4M3.round(np.array([tiny, 3 * tiny])).tolist() == [0.0, 0.0]  # below 2^-127 · 2^-9
    assert MXFP8_E4M3.round([2.0**-133, 2.0**-136]).tolist() == [2.0**-133, 2.0**-136]
    assert MXFP8_E4M3.quantise([2.0**-130]).scales.tolist() == [2.0**-127]
    assert MXFP8_E4M3.round([2.0**-1074]).tolist() == [0.0]
    assert MXFP8_E5M2.quantise([2.0**1000]).scales.tolist() == [2.0**127]


def test_a_block_far_below_the_tensor_keeps_the_smallest_scale():
    x = np.zeros((2, 16))
    x[0, 0], x[1, 0] = 1.0, 2.0**-20
    stored = NVFP4.quantise(x)
    assert stored.scales[1, 0] == 2.0**-9
    assert stored.dequantise()[1, 0] > 0


def test_nan_and_infinity_spoil_their_block_only():
    x = np.ones((4, 32))
    x[1, 3], x[2, 5] = np.nan, -np.inf
    for fmt in (MXFP4, MXFP8_E4M3, MXINT8, NVFP4):
        values = fmt.round(x)
        bad = fmt.block
        assert np.isnan(values[1, :bad]).all()
        assert np.isnan(values[2, :bad]).all()
        np.testing.assert_array_equal(values[[0, 3]], fmt.round(np.ones((2, 32))))
    assert MXFP4.quantise(x).scale_codes()[1, 0] == 0xFF


def test_specials_can_be_elements_where_the_format_has_them():
    x = [1.0, np.nan, np.inf, -np.inf, 3.0]
    np.testing.assert_array_equal(MXFP8_E5M2.round(x, special="element"), x)
    np.testing.assert_array_equal(MXFP8_E4M3.round(x, special="element"), [1.0, np.nan, np.nan, np.nan, 3.0])
    with pytest.raises(ValueError, match="special='block'"):
        MXFP4.round(x, special="element")
    with pytest.raises(ValueError, match="NaN or infinity"):
        MXFP4.round(x, special="error")


def test_stochastic_elements_are_reproducible_and_unbiased():
    x = np.full((4000, 32), 0.3)
    x[:, 0] = 1.0
    a = MXFP4.round(x, rounding="stochastic", seed=7)
    np.testing.assert_array_equal(a, MXFP4.round(x, rounding="stochastic", seed=7))
    assert abs(a[:, 1:].mean() - 0.3) < 5 * a[:, 1:].std() / math.sqrt(4000 * 31)


def test_generic_formats_and_tables():
    bfp = block_floating_point(8, 64)
    assert (bfp.name, bfp.bits_per_value) == ("BFP8x64", 8.125)
    x = np.random.default_rng(8).standard_normal(64)
    scale = 2.0 ** math.floor(math.log2(np.abs(x).max()))
    np.testing.assert_array_equal(bfp.round(x), np.clip(np.rint(x / scale * 64), -128, 127) / 64 * scale)
    nf4 = BlockFormat("NF4x64", numfmt.NF4, 64, FP16, "nearest")
    assert np.abs(nf4.round(x) - x).max() < 0.2 * np.abs(x).max()
    narrow = BlockFormat("FP6 with E4M3 scales", FP6_E2M3, 8, FP8_E4M3, "rceil")
    assert np.abs(narrow.round(x)).max() <= 1.15 * np.abs(x).max()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-1e20, 1e20), min_size=1, max_size=40), st.sampled_from(MX), st.integers(-40, 40))
def test_powers_of_two_scale_through(values, fmt, shift):
    x = np.array(values)
    if x.any() and np.abs(x[x != 0]).min() > 1e-15:
        np.testing.assert_array_equal(fmt.round(x * 2.0**shift), fmt.round(x) * 2.0**shift)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: MXFP4.round([1.0], rule="flor"), ValueError, "floor"),
        (lambda: MXFP4.round([1.0], quotient="reciprocal"), ValueError, "reciprocal_float32"),
        (lambda: MXFP4.round([1.0], special="bloc"), ValueError, "block"),
        (lambda: MXFP4.round([1.0], axis=1), ValueError, "axis=1"),
        (lambda: MXFP4.round(1.0), ValueError, "wrap a single number"),
        (lambda: MXFP4.round([1j]), TypeError, "real numbers"),
        (lambda: MXFP4.round([1.0], tensor_scale=2.0), ValueError, "no tensor scale"),
        (lambda: NVFP4.round([1.0], tensor_scale=0.0), ValueError, "positive and finite"),
        (lambda: NVFP4.round([1.0], rule="floor"), ValueError, "rule='nearest'"),
        (lambda: BlockFormat("x", FP4_E2M1, 0), ValueError, "block must be at least 1"),
        (lambda: BlockFormat("x", "e2m1", 32), TypeError, "element"),
        (lambda: BlockFormat("x", FP4_E2M1, 32, "e8m0"), TypeError, "scale"),
        (lambda: BlockFormat("x", numfmt.NF4, 32, rule="even"), ValueError, "table"),
        (lambda: MXFP4.decode(np.zeros((2, 33), np.uint8), np.zeros((2, 1), np.uint8)), ValueError, r"\(2, 2\)"),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()
