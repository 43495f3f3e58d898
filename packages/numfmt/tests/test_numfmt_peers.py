"""Agreement with ml_dtypes, torch and gfloat wherever they are right; where they are not, each case is named here."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import numfmt
from numfmt import E8M0, FP8_E4M3, FP32, dtypes

NARROW = [name for name in dtypes.TYPES if name not in ("float64", "float32", "float16")]


def everything(fmt: numfmt.FloatFormat) -> np.ndarray:
    """Every value of a format, midpoint and neighbour of a midpoint, and numbers beyond; float64."""
    values = fmt.finite_values()
    if values.size > 4096:
        values = np.sort(np.random.default_rng(0).choice(values, 4096, replace=False))
    middles = (values[1:] + values[:-1]) / 2
    beyond = fmt.max * np.array([1.01, 1.03, 1.04, 1.06, 1.07, 1.1, 1.2, 1.3, 3])
    below = fmt.min_positive * np.array([0.25, 0.5, 0.75])
    near = [np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf)]
    small = [middles * (1 + 2.0**-22), middles * (1 - 2.0**-22)]  # still different in float32
    special = [0.0, -0.0, np.inf, -np.inf]
    return np.concatenate([values, middles, *near, *small, beyond, -beyond, below, -below, special])


def halves_and_bfloats() -> np.ndarray:
    """All float16 and all bfloat16 numbers as float32, NaN left out."""
    codes = np.arange(2**16, dtype=np.uint32)
    halves = codes.astype(np.uint16).view(np.float16)
    bfloats = (codes << np.uint32(16)).view(np.float32)
    return np.concatenate([halves[~np.isnan(halves)].astype(np.float32), bfloats[~np.isnan(bfloats)]])


def differ(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ~((a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b)))


def cast(x: np.ndarray, name: str) -> np.ndarray:
    """Through ml_dtypes to a type and back to float64."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with np.errstate(all="ignore"):
        return x.astype(getattr(ml_dtypes, name)).astype(np.float64)


def torch_cast(x: np.ndarray, name: str) -> np.ndarray:
    torch = pytest.importorskip("torch")
    return torch.from_numpy(x).to(getattr(torch, name)).to(torch.float64).numpy()


# ml_dtypes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in NARROW if n != "float8_e8m0fnu"])
def test_ml_dtypes_agrees_from_float32(name):
    fmt = dtypes.TYPES[name]
    with np.errstate(all="ignore"):
        x = np.concatenate([everything(fmt).astype(np.float32), halves_and_bfloats()])
    bad = differ(np.asarray(fmt.round(x), np.float64), cast(x, name))
    assert not bad.any(), x[bad][:5]


@pytest.mark.parametrize("name", [n for n in NARROW if n != "float8_e8m0fnu"])
def test_ml_dtypes_rounds_float64_twice(name):
    """It goes through float32. numfmt rounds once; rounding twice on purpose gives what ml_dtypes gives."""
    fmt = dtypes.TYPES[name]
    x = everything(fmt)
    theirs = cast(x, name)
    assert not differ(np.asarray(fmt.round(FP32.round(x)), np.float64), theirs).any()
    wrong = differ(fmt.round(x), theirs)
    assert wrong.any()
    # Ours is at least as near, always; and strictly nearer wherever the two differ.
    finite = wrong & np.isfinite(theirs) & np.isfinite(fmt.round(x))
    assert (np.abs(fmt.round(x)[finite] - x[finite]) < np.abs(theirs[finite] - x[finite])).all()


def test_ml_dtypes_scales_round_ties_up_and_have_no_zero():
    """P3109 decides ties without mantissa by the code; ml_dtypes goes up, and makes zero NaN."""
    scales = E8M0.finite_values()
    positive = np.concatenate([scales, scales[:-1] * 1.5, scales[1:-1] * 1.25, scales[:-1] * 1.75])
    assert (cast(positive, "float8_e8m0fnu") == E8M0.round(positive, "nearest_away")).all()
    different = cast(positive, "float8_e8m0fnu") != E8M0.round(positive)
    assert 0 < different.sum() < different.size
    exponents = np.log2(positive[different] / 1.5)
    assert (exponents == np.rint(exponents)).all()  # ties only
    assert np.isnan(cast(np.array([0.0, -1.0]), "float8_e8m0fnu")).all()
    assert E8M0.round(0.0) == 2.0**-127


@pytest.mark.parametrize("name", ["float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"])
def test_ml_dtypes_stores_a_zero_for_nan_where_there_is_none(name):
    assert cast(np.array([np.nan]), name)[0] == 0
    with pytest.raises(ValueError, match="has no NaN"):
        dtypes.TYPES[name].round(np.nan)


# torch ----------------------------------------------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.parametrize("name", [n for n in ["float16", *NARROW] if n not in ("float8_e8m0fnu", "float8_e4m3fn")])
def test_torch_agrees_from_float32(name):
    torch = pytest.importorskip("torch")
    if not hasattr(torch, name):
        pytest.skip(f"this torch has no {name}")
    fmt = dtypes.TYPES[name]
    with np.errstate(all="ignore"):
        x = np.concatenate([everything(fmt).astype(np.float32), halves_and_bfloats()])
    bad = differ(np.asarray(fmt.round(x), np.float64), torch_cast(x, name))
    assert not bad.any(), x[bad][:5]


@pytest.mark.torch
def test_torch_agrees_about_e4m3_up_to_its_overflow_policy():
    """Newer versions of torch saturate where OCP's default, and older versions, give NaN."""
    with np.errstate(all="ignore"):
        x = np.concatenate([everything(FP8_E4M3).astype(np.float32), halves_and_bfloats()])
    theirs = torch_cast(x, "float8_e4m3fn")
    agreements = [
        not differ(np.asarray(FP8_E4M3.round(x, overflow=p), np.float64), theirs).any() for p in ("nan", "saturate")
    ]
    assert sum(agreements) == 1


@pytest.mark.torch
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e5m2"])
def test_torch_rounds_float64_twice(name):
    fmt = dtypes.TYPES[name]
    x = everything(fmt)
    theirs = torch_cast(x, name)
    assert not differ(np.asarray(fmt.round(FP32.round(x)), np.float64), theirs).any()
    assert differ(fmt.round(x), theirs).any()


# gfloat ---------------------------------------------------------------------------------------------------------------


def gfloat_pairs() -> list[tuple[object, object]]:
    """Our formats and gfloat's."""
    if importlib.util.find_spec("gfloat") is None:
        return []
    from gfloat import formats as g
    from gfloat.types import Domain, Signedness

    pairs: list[tuple[object, object]] = [
        (numfmt.FP16, g.format_info_binary16),
        (numfmt.BF16, g.format_info_bfloat16),
        (numfmt.FP8_E4M3, g.format_info_ocp_e4m3),
        (numfmt.FP8_E5M2, g.format_info_ocp_e5m2),
        (numfmt.FP6_E2M3, g.format_info_ocp_e2m3),
        (numfmt.FP6_E3M2, g.format_info_ocp_e3m2),
        (numfmt.FP4_E2M1, g.format_info_ocp_e2m1),
        (numfmt.MXINT8_ELEMENT, g.format_info_ocp_int8),
    ]
    for width, precision in ((3, 2), (4, 2), (6, 3), (8, 1), (8, 3), (8, 4), (8, 5), (8, 7), (8, 8)):
        for signed in (True, False):
            for extended in (True, False):
                if signed and precision == width:
                    continue
                ours = numfmt.p3109(width, precision, signed=signed, extended=extended)
                theirs = g.format_info_p3109(
                    width,
                    precision,
                    Signedness.Signed if signed else Signedness.Unsigned,
                    Domain.Extended if extended else Domain.Finite,
                )
                pairs.append((ours, theirs))
    return pairs


PAIRS = gfloat_pairs()
needs_gfloat = pytest.mark.skipif(not PAIRS, reason="gfloat is not installed")
RAW_MODES = {
    "toward_zero": "TowardZero",
    "up": "TowardPositive",
    "down": "TowardNegative",
    "nearest_even": "TiesToEven",
}


@needs_gfloat
@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda f: getattr(f, "name", ""))
def test_gfloat_agrees_about_every_code(ours, theirs):
    from gfloat import decode_ndarray

    codes = np.arange(2**ours.bits)
    with np.errstate(all="ignore"):
        decoded = np.asarray(decode_ndarray(theirs, codes), np.float64)
    assert not differ(ours.decode(codes), decoded).any()


@needs_gfloat
@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda f: getattr(f, "name", ""))
def test_gfloat_agrees_about_rounding_with_saturation(ours, theirs):
    from gfloat import RoundMode, round_ndarray

    values = ours.finite_values()
    values = values if values.size <= 300 else np.sort(np.random.default_rng(0).choice(values, 300, replace=False))
    middles = (values[1:] + values[:-1]) / 2
    x = np.concatenate([values, middles, np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf), [ours.max * 3]])
    if ours.min == 0:
        x = x[x >= 0]  # see test_gfloat_gives_negative_numbers_to_unsigned_formats
    for mode, name in {**RAW_MODES, "nearest_away": "TiesToAway"}.items():
        with np.errstate(all="ignore"):
            expected = round_ndarray(theirs, x, getattr(RoundMode, name), sat=True)
        bad = differ(np.asarray(ours.round(x, mode, overflow="saturate")), expected)
        assert not bad.any(), (mode, x[bad][:5])


@needs_gfloat
@pytest.mark.parametrize("n", [1, 3, 8, 13])
def test_gfloat_agrees_about_stochastic_variants(n):
    from gfloat import RoundMode, round_ndarray
    from gfloat import formats as g

    rng = np.random.default_rng(n)
    x = np.concatenate([rng.standard_normal(3000), rng.standard_normal(1000) * 2.0**-9, [0.0, 1.0, 300.0]])
    r = rng.integers(0, 2**n, x.size)
    for mode, name in {
        "stochastic": "StochasticFastest",
        "stochastic_b": "StochasticFast",
        "stochastic_c": "Stochastic",
    }.items():
        expected = round_ndarray(g.format_info_ocp_e4m3, x, getattr(RoundMode, name), True, r, n)
        got = FP8_E4M3.round(x, mode, overflow="saturate", random=r, random_bits=n)
        assert not differ(got, expected).any(), mode


# The page -------------------------------------------------------------------------------------------------------------


PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "why-not-numfmt.md"


def page_rows() -> list[list[str]]:
    """Rows of the page's table of disagreements: library, expression, what it gives, what is right, why."""
    if not PAGE.exists():
        return []
    text = PAGE.read_text(encoding="utf-8")
    table = text[text.index("<!-- disagreements -->") : text.index("<!-- /disagreements -->")]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
    ]
    return rows[2:]


ROWS = page_rows()


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not part of this distribution")
def test_the_page_has_a_table():
    assert len(ROWS) >= 8


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0] + " " + row[1])
def test_every_row_of_the_page_is_true(row):
    library, expression, gives, ours, exact, _ = (cell.strip("`") for cell in row)
    names = {"np": np, "numfmt": numfmt, "nan": np.nan, "inf": np.inf}
    for module in {library, "ml_dtypes"} if library not in ("gfloat", "pychop") else {library}:
        names[module] = pytest.importorskip(module)
    if library == "gfloat":
        import gfloat.formats  # noqa: F401 (the expressions use it)
    with np.errstate(all="ignore"):
        theirs = float(eval(expression, names))
        mine = float(eval(ours, names))
    assert not differ(np.array(theirs), np.array(eval(gives, names))).item()
    assert not differ(np.array(mine), np.array(eval(exact, names))).item()
    assert differ(np.array(theirs), np.array(mine)).item()
