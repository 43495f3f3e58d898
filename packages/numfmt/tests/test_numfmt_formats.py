"""Formats as facts: limits, families, other libraries' types, elements of block formats, and bad input."""

import copy
import dataclasses
import pickle
from fractions import Fraction

import numpy as np
import pytest

import numfmt
from numfmt import (
    BF16,
    E8M0,
    FORMATS,
    FP4_E2M1,
    FP8_E4M3,
    FP8_E5M2,
    FP16,
    FP32,
    FP64,
    NF4,
    FixedFormat,
    FloatFormat,
    TableFormat,
    lookup,
    p3109,
)

# Facts ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_survives_repr_pickle_and_replacement(name):
    fmt = FORMATS[name]
    assert eval(repr(fmt)) == fmt
    assert pickle.loads(pickle.dumps(fmt)) == fmt
    assert copy.deepcopy(fmt) == fmt
    assert dataclasses.replace(fmt, name="other") == fmt


def test_equality_is_about_values_not_names():
    assert FloatFormat("mine", 4, 3, 7, "fn") == FP8_E4M3
    assert hash(FloatFormat("mine", 4, 3, 7, "fn")) == hash(FP8_E4M3)
    assert FloatFormat("mine", 4, 3, 7) != FP8_E4M3
    assert dataclasses.replace(FP8_E4M3, subnormals=False) != FP8_E4M3


def test_facts_of_ieee_follow_the_mantissa_when_replaced():
    wider = dataclasses.replace(FP16, mantissa_bits=11)
    assert wider.nan_code == 0b0_11111_10000000000
    assert wider.max == (2 - 2.0**-11) * 2.0**15


def test_derived_constants_agree_with_numpy():
    for fmt, dtype in ((FP16, np.float16), (FP32, np.float32), (FP64, np.float64)):
        info = np.finfo(dtype)
        assert (fmt.bits, fmt.eps, fmt.max) == (info.bits, float(info.eps), float(info.max))
        assert fmt.min_normal == float(info.smallest_normal)
        assert fmt.min_subnormal == float(info.smallest_subnormal)
        assert (fmt.emin, fmt.emax) == (info.minexp, info.maxexp - 1)
        assert fmt.unit_roundoff == fmt.eps / 2


def test_without_subnormals_small_numbers_go_to_zero_or_the_smallest_normal_value():
    flushed = FloatFormat("flushed", 4, 3, 7, "fn", subnormals=False)
    smallest = flushed.min_normal
    assert list(flushed.round([smallest / 2, np.nextafter(smallest / 2, 1), -smallest / 4])) == [0.0, smallest, 0.0]
    assert np.signbit(flushed.round(-smallest / 4))
    assert flushed.decode(0b0_0000_111) == 0
    assert flushed.min_positive == smallest


@pytest.mark.parametrize(
    ("arguments", "facts", "message"),
    [
        (("X", 0, 3, 0), {}, "exponent_bits=0 leaves only subnormal values"),
        (("X", 0, 3, 0, "finite"), {"infinities": True, "overflow": "saturate"}, "no binade for an infinity"),
        (("X", 4, 0, 7), {}, "no code for NaN beside infinity"),
        (("X", 4, 3, 7, "fnuz"), {"signed": False}, "needs a signed format with zero"),
        (("X", 4, 3, 7, "finite"), {"overflow": "nan"}, "overflow='nan' needs a NaN"),
        (("X", 4, 3, 7), {"infinities": False}, "needs infinities=True"),
        (("X", 4, 3, 7), {"zero": False, "subnormals": True}, "subnormals=True needs zero=True"),
        (("X", 1, 0, 0, "fn"), {"infinities": True, "signed": False}, "no positive finite value left"),
        (("X", 1, 1, 0), {"signed": False, "subnormals": False}, "no positive finite value left"),
        (("X", 11, 52, 1100), {}, "outside float64"),
        (("X", 11, 52, 900), {}, "outside float64"),
        (("X", 4, 53, 7), {}, "mantissa_bits must be between 0 and 52, not 53"),
        (("X", 12, 3, 7), {}, "exponent_bits must be between 0 and 11, not 12"),
        (("X", -1, 3, 7), {}, "exponent_bits must be between 0 and 11, not -1"),
        (("X", 4, 3, 7, "fnu"), {}, "unknown specials 'fnu'; did you mean 'fnuz'"),
        (("X", 4, 3, 7), {"nan": "negative-zero"}, "did you mean 'negative_zero'"),
        (("X", 4, 3, 7), {"overflow": "saturat"}, "did you mean 'saturate'"),
    ],
)
def test_impossible_formats_are_refused_with_the_way_out(arguments, facts, message):
    with pytest.raises(ValueError, match=message):
        FloatFormat(*arguments, **facts)


@pytest.mark.parametrize("arguments", [("X", 4.0, 3, 7), ("X", 4, True, 7), ("X", 4, 3, "7"), (1, 4, 3, 7)])
def test_widths_must_be_integers_and_names_strings(arguments):
    with pytest.raises(TypeError, match="must be a"):
        FloatFormat(*arguments)


# Families and names ---------------------------------------------------------------------------------------------------


#: Rows of the working group's value tables: code, value.
P3109_ROWS = {
    "Binary8p4se": {0x01: 2.0**-10, 0x08: 2.0**-7, 0x40: 1.0, 0x7E: 224.0, 0x7F: np.inf, 0x80: np.nan, 0xFF: -np.inf},
    "Binary8p3se": {0x01: 2.0**-17, 0x40: 1.0, 0x7E: 49152.0, 0x7F: np.inf, 0x80: np.nan},
    "Binary8p1se": {0x00: 0.0, 0x01: 2.0**-63, 0x40: 1.0, 0x7E: 2.0**62, 0x7F: np.inf},
    "Binary8p4sf": {0x40: 1.0, 0x7E: 224.0, 0x7F: 240.0, 0x80: np.nan, 0xFF: -240.0},
    "Binary10p4ue": {
        0x001: 2.0**-66,
        0x007: 1.75 * 2.0**-64,
        0x008: 2.0**-63,
        0x04A: 1.25 * 2.0**-55,
        0x200: 1.0,
        0x32F: 1.875 * 2.0**37,
        0x3FE: np.inf,
        0x3FF: np.nan,
    },
    "Binary4p2sf": {0x1: 0.25, 0x2: 0.5, 0x4: 1.0, 0x7: 3.0, 0x8: np.nan},
}


@pytest.mark.parametrize("name", P3109_ROWS)
def test_p3109_codes_have_the_values_of_the_working_groups_tables(name):
    fmt = lookup(name)
    assert fmt.name == name
    for code, value in P3109_ROWS[name].items():
        assert fmt.decode(code) == value or (np.isnan(value) and np.isnan(fmt.decode(code))), hex(code)


def test_p3109_has_one_as_the_middle_code_and_one_nan():
    for width in range(3, 13):
        for signed in (True, False):
            for precision in range(1, width if signed else width + 1):
                for extended in (True, False):
                    try:
                        fmt = p3109(width, precision, signed=signed, extended=extended)
                    except ValueError as error:
                        assert "exponent bits" in str(error) or "no positive finite" in str(error)  # noqa: PT017
                        continue
                    values = fmt.values()
                    assert values.size == 2**width
                    assert np.isnan(values).sum() == 1
                    assert np.isinf(values).sum() == extended * (1 + signed)
                    assert fmt.decode(2 ** (width - (2 if signed else 1))) == 1.0
                    assert not np.signbit(values[values == 0]).any()


@pytest.mark.parametrize(("width", "precision", "signed"), [(8, 0, True), (8, 8, True), (8, 9, False)])
def test_p3109_refuses_precisions_out_of_range(width, precision, signed):
    with pytest.raises(ValueError, match=r"precision must be between 1 and"):
        p3109(width, precision, signed=signed)


def test_p3109_refuses_exponents_that_float64_lacks():
    with pytest.raises(ValueError, match="choose a precision >= 5"):
        p3109(16, 2)


def test_p3109_projects_as_its_saturation_modes_say():
    se, sf, ue = lookup("Binary8p4se"), lookup("Binary8p4sf"), lookup("Binary8p4ue")
    # (format, mode, saturation, input, result): Interim Report, the cases of the function Saturate.
    for fmt, mode, saturation, x, expected in [
        (se, "NearestTiesToEven", "OvfInf", 1e6, np.inf),
        (se, "TowardZero", "OvfInf", 1e6, 224.0),
        (se, "TowardNegative", "OvfInf", 1e6, 224.0),
        (se, "TowardPositive", "OvfInf", -1e6, -224.0),
        (se, "TowardNegative", "OvfInf", -1e6, -np.inf),
        (se, "NearestTiesToEven", "SatFinite", np.inf, 224.0),
        (se, "NearestTiesToEven", "SatPropagate", np.inf, np.inf),
        (se, "NearestTiesToEven", "SatPropagate", 1e6, 224.0),
        (se, "NearestTiesToEven", "SatPropagate", -np.inf, -np.inf),
        (sf, "NearestTiesToEven", "SatPropagate", np.inf, 240.0),
        (sf, "NearestTiesToEven", "OvfInf", np.inf, 240.0),
        (sf, "NearestTiesToEven", "OvfInf", -1e9, -240.0),
        (ue, "NearestTiesToEven", "SatFinite", -5.0, 0.0),
        (ue, "NearestTiesToEven", "SatPropagate", -np.inf, 0.0),
        (ue, "TowardNegative", "OvfInf", -5.0, 0.0),
    ]:
        assert fmt.round(x, mode, overflow=saturation) == expected, (fmt.name, mode, saturation, x)


@pytest.mark.parametrize(
    ("name", "fmt"),
    [
        ("e4m3", FP8_E4M3),
        ("BF16", BF16),
        (" bfloat16 ", BF16),
        ("float8-e5m2", FP8_E5M2),
        ("binary16", FP16),
        ("e8m0", E8M0),
        ("nf4", NF4),
        ("e8m7", BF16),
        ("e4m3b7fn", FP8_E4M3),
        ("p3109_k8p4se", p3109(8, 4)),
        ("int8", FixedFormat("i", 8)),
    ],
)
def test_formats_are_found_by_name(name, fmt):
    assert lookup(name) == fmt


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'FP8_E4M3'"):
        lookup("FP8_E4M33")
    with pytest.raises(ValueError, match=r"unknown rounding 'neerest_even'; did you mean 'nearest_even'"):
        BF16.round(1.0, "neerest_even")
    with pytest.raises(ValueError, match=r"unknown overflow 'saturat'; did you mean 'saturate'"):
        BF16.round(1.0, overflow="saturat")
    with pytest.raises(AttributeError, match="no attribute 'FP9'"):
        _ = numfmt.FP9


def test_aliases_name_the_same_modes():
    for name, aliases in {
        "nearest_even": ("NearestTiesToEven", "rne", "RoundTiesToEven", "nearest-even"),
        "toward_zero": ("TowardZero", "RZ"),
        "stochastic_b": ("StochasticB",),
    }.items():
        for alias in aliases:
            assert numfmt.rounding.rounding_mode(alias) is numfmt.ROUNDINGS[name]


# Types of other libraries ---------------------------------------------------------------------------------------------


def test_types_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name, fmt in numfmt.dtypes.TYPES.items():
        if name in ("float64", "float32", "float16"):
            continue
        dtype = np.dtype(getattr(ml_dtypes, name))
        assert fmt.dtype == dtype
        assert FloatFormat.from_dtype(dtype) == fmt
        assert FloatFormat.from_dtype(getattr(ml_dtypes, name)) == fmt
        if fmt.bits in (8, 16):
            codes = np.arange(2**fmt.bits, dtype=f"uint{fmt.bits}")
            with np.errstate(invalid="ignore"):  # signalling NaNs
                theirs = codes.view(dtype).astype(np.float64)
            assert np.array_equal(theirs, fmt.decode(codes), equal_nan=True)


def test_types_of_torch():
    torch = pytest.importorskip("torch")
    for name, fmt in numfmt.dtypes.TYPES.items():
        if hasattr(torch, name):
            assert FloatFormat.from_dtype(getattr(torch, name)) == fmt
            assert fmt.torch_dtype is getattr(torch, name)
    assert NF4.name == "NF4"
    assert FP4_E2M1.torch_dtype is None


def test_types_of_numpy_and_none():
    assert FP32.dtype == np.float32
    assert FloatFormat.from_dtype("float16") == FP16
    assert FloatFormat.from_dtype(np.float64) == FP64
    assert FloatFormat("acc", 8, 13, 127).dtype is None
    for wrong in (np.int32, "float7", complex):
        with pytest.raises(ValueError, match="unknown dtype"):
            FloatFormat.from_dtype(wrong)


# Elements -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fmt",
    [
        FixedFormat("i4", 4),
        FixedFormat("mx", 8, 6),
        FixedFormat("u5", 5, 2, signed=False),
        FixedFormat("s", 6, 1, symmetric=True),
        NF4,
    ],
)
def test_elements_are_rounded_as_their_value_list_says(fmt):
    values = fmt.finite_values()
    middles = (values[1:] + values[:-1]) / 2
    x = np.concatenate(
        [values, middles, np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf), [-1e9, 1e9, np.inf]]
    )
    order = (
        {float(v): i for i, v in enumerate(fmt.values())}
        if fmt is NF4
        else {float(v): round(float(v / fmt.min_positive)) for v in values}
    )
    for mode in ("nearest_even", "nearest_away", "toward_zero", "up", "down", "to_odd"):
        for number, got in zip(x, fmt.round(x, mode), strict=True):
            clipped = float(np.clip(number, values[0], values[-1]))
            low = float(values[np.searchsorted(values, clipped, "right") - 1])
            high = float(values[np.searchsorted(values, clipped, "left")])
            exact = Fraction(clipped)
            below, above = exact - Fraction(low), Fraction(high) - exact
            even = order[low] % 2 == 0
            expected = {
                "nearest_even": low if below < above or (below == above and even) else high,
                "nearest_away": low if below < above or (below == above and abs(low) > abs(high)) else high,
                "toward_zero": low if abs(low) < abs(high) else high,
                "up": high,
                "down": low,
                "to_odd": low if not even else high,
            }[mode]
            assert got == (float(exact) if below == above == 0 else expected), (fmt.name, mode, number)
    codes = fmt.encode(values)
    assert (fmt.decode(codes) == values).all()
    assert (fmt.next_up(values)[:-1] == values[1:]).all()
    assert (fmt.next_down(values)[1:] == values[:-1]).all()
    assert (fmt.max, fmt.min) == (values[-1], values[0])


def test_int8_codes_are_twos_complement():
    x = np.arange(-128, 128)
    assert (numfmt.INT8.encode(x) == x.astype(np.int8).view(np.uint8)).all()
    assert numfmt.MXINT8_ELEMENT.max == 1.984375
    assert numfmt.MXINT8_ELEMENT.min == -2
    assert numfmt.MXINT8_ELEMENT.emax == 0


@pytest.mark.parametrize("fmt", [numfmt.INT8, NF4])
def test_elements_refuse_what_they_cannot_hold(fmt):
    with pytest.raises(ValueError, match="has no NaN; pass nan="):
        fmt.round(np.nan)
    assert fmt.round(np.nan, nan="largest") == fmt.max
    assert fmt.round([np.nan, 1.0], nan="zero")[0] == 0
    with pytest.raises(ValueError, match="use overflow='saturate'"):
        fmt.round(1.0, overflow="infinity")
    with pytest.raises(ValueError, match="codes must lie in"):
        fmt.decode(2**fmt.bits)


def test_the_middle_of_two_entries_is_found_exactly():
    # 0.1 + 1e17 is 1e17 in float64; the middle lies above 5e16 all the same.
    table = TableFormat("t", (0.1, 1e17))
    assert table.round(5e16) == 0.1
    assert table.round(np.nextafter(5e16, 1e17)) == 1e17
    mirrored = TableFormat("t", (-1e17, -0.1))
    assert mirrored.round(-5e16) == -0.1
    assert mirrored.round(np.nextafter(-5e16, -1e17)) == -1e17


def test_elements_round_stochastically_without_bias():
    x = np.full(40000, 0.1)
    for fmt in (NF4, FixedFormat("f", 8, 3)):
        mean = fmt.round(x, "stochastic", rng=1).mean()
        gap = fmt.next_up(0.1) - fmt.next_down(0.1)
        assert abs(mean - 0.1) < 5 * gap / 2 / np.sqrt(x.size)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedFormat("x", 33), "width must be between 1 and 32"),
        (lambda: FixedFormat("x", 1), "at least 2 for a signed"),
        (lambda: TableFormat("x", (1.0, 2.0, 3.0)), "power of two many"),
        (lambda: TableFormat("x", (1.0, 1.0)), "strictly ascending"),
        (lambda: TableFormat("x", (1.0, np.nan)), "finite"),
    ],
)
def test_impossible_elements_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# Tables ---------------------------------------------------------------------------------------------------------------


def test_a_table_lists_every_code():
    text = FP8_E4M3.table()
    assert len(text.splitlines()) == 257
    assert "0x7E  0 1111 110" in text
    assert text.splitlines()[0].split() == ["code", "bits", "value", "hexadecimal", "kind"]
    for line in text.splitlines()[1:]:
        code, *_ = line.split()
        value = line.split()[4]
        assert np.array_equal(float(value), FP8_E4M3.decode(int(code, 16)), equal_nan=True)
    with pytest.raises(ValueError, match="up to 12 bits"):
        BF16.table()


def test_the_markdown_table_has_every_constant():
    text = numfmt.formats_table()
    assert all(f"| `{name}` |" in text for name in FORMATS)
    assert {line.count("|") for line in text.splitlines()} == {13}


def test_values_of_wide_formats_are_refused_not_attempted():
    with pytest.raises(ValueError, match="too many for one array"):
        FP32.values()
    assert FloatFormat("w", 8, 11, 127).values().size == 2**20
