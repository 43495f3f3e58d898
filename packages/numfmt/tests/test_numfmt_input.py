"""Arrays as users have them: layouts, byte orders, scalars, wrong types; and what must never happen to them."""

from fractions import Fraction

import numpy as np
import pytest

import numfmt
from numfmt import BF16, FP4_E2M1, FP8_E4M3, FP16, FP32, FP64, dtypes


def test_results_have_the_type_and_shape_that_is_promised():
    assert FP8_E4M3.round(np.zeros((2, 3), np.float32)).dtype == np.float32
    assert FP8_E4M3.round(np.zeros((2, 3), np.float32)).shape == (2, 3)
    assert FP64.round(np.zeros(3, np.float32)).dtype == np.float64  # float32 does not hold every FP64 value
    for dtype in (np.float64, np.float16, np.int8, np.int64, np.uint64, np.longdouble):
        assert FP8_E4M3.round(np.zeros(3, dtype)).dtype == np.float64
    assert type(FP8_E4M3.round(1.06)) is np.float64
    assert type(FP8_E4M3.round(np.float32(1.06))) is np.float32
    assert FP8_E4M3.round(np.array(1.06)).shape == ()
    assert isinstance(FP8_E4M3.round(np.array(1.06)), np.ndarray)
    assert FP8_E4M3.encode(np.zeros(2)).dtype == np.uint8
    assert FP16.encode(np.zeros(2)).dtype == np.uint16
    assert numfmt.TF32.encode(np.zeros(2)).dtype == np.uint32
    assert FP64.encode(np.zeros(2)).dtype == np.uint64


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_layouts_do_not_matter(dtype):
    x = (np.random.default_rng(1).standard_normal((6, 8)) * 100).astype(dtype)
    expected = FP8_E4M3.round(x)
    assert (FP8_E4M3.round(x.T) == expected.T).all()
    assert (FP8_E4M3.round(x[::2, ::-3]) == expected[::2, ::-3]).all()
    assert (FP8_E4M3.round(np.asfortranarray(x)) == expected).all()
    assert (FP8_E4M3.round(x.astype(x.dtype.newbyteorder(">"))) == expected).all()
    assert FP8_E4M3.round(x[:0]).shape == (0, 8)
    assert (FP8_E4M3.round(x.tolist()) == expected).all()
    broadcast = np.broadcast_to(x[:1], x.shape)
    assert (FP8_E4M3.round(broadcast) == expected[:1]).all()


def test_inputs_are_never_modified_and_may_be_read_only():
    x = np.linspace(-500, 500, 1001)
    x.flags.writeable = False
    before = x.copy()
    for mode in numfmt.ROUNDINGS:
        FP8_E4M3.round(x, mode, rng=0)
        FP8_E4M3.encode(x, mode, rng=0)
    FP8_E4M3.ulp(x), FP8_E4M3.next_up(x), FP8_E4M3.next_down(x)
    assert (x == before).all()


def test_results_go_into_out_also_in_place():
    x = np.linspace(-500, 500, 10**5).astype(np.float32)
    expected = FP8_E4M3.round(x)
    out = np.empty_like(x)
    assert FP8_E4M3.round(x, out=out) is out
    assert np.array_equal(out, expected, equal_nan=True)
    strided = np.zeros((x.size, 2), np.float32)
    FP8_E4M3.round(x, out=strided[:, 1])
    assert np.array_equal(strided[:, 1], expected, equal_nan=True)
    assert not strided[:, 0].any()
    FP8_E4M3.round(x, out=x)
    assert np.array_equal(x, expected, equal_nan=True)
    for wrong in (np.empty(3, np.float32), np.empty(x.size), [0.0] * x.size):
        with pytest.raises(ValueError, match="out must be a writeable float32 array of shape"):
            FP8_E4M3.round(x, out=wrong)


def test_overlapping_out_is_as_good_as_a_copy():
    x = np.random.default_rng(0).standard_normal(10**5)
    expected = FP8_E4M3.round(x[:-1].copy())
    FP8_E4M3.round(x[:-1], out=x[1:])
    assert (x[1:] == expected).all()


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (1j, "complex"),
        (np.zeros(3, complex), r"round \.real and \.imag separately"),
        ("1.0", "<U3"),
        (np.array([b"a"]), "S1"),
        (np.array(["2020-01-01"], "datetime64[D]"), "datetime64"),
        (np.array([None]), "NoneType None"),
        (np.array([Fraction(1, 2), "x"], object), "str 'x'"),
        (np.zeros(2, [("a", float)]), "must hold real numbers"),
    ],
)
def test_what_is_no_real_number_is_a_type_error(x, message):
    for method in (FP8_E4M3.round, FP8_E4M3.encode, FP8_E4M3.ulp, FP8_E4M3.next_up):
        with pytest.raises(TypeError, match=message):
            method(x)


@pytest.mark.parametrize("seed", [np.nan, 1.5, "1", True, [1], np.random.RandomState(0)])
def test_a_seed_must_be_an_integer_or_a_generator(seed):
    with pytest.raises(TypeError, match=r"rng must be None, a non-negative integer seed or a numpy\.random\.Generator"):
        BF16.round(1.1, "stochastic", rng=seed)
    with pytest.raises(ValueError, match="rng must be a non-negative integer seed, not -1"):
        BF16.round(1.1, "stochastic", rng=-1)


def test_random_bits_and_integers_are_checked():
    x = np.ones(3)
    for bits in (0, 33, -1):
        with pytest.raises(ValueError, match="random_bits must be between 1 and 32"):
            BF16.round(x, "stochastic", random_bits=bits)
    with pytest.raises(TypeError, match="random_bits must be an integer"):
        BF16.round(x, "stochastic", random_bits=8.0)
    with pytest.raises(ValueError, match=r"random must lie in \[0, 2\*\*random_bits\) = \[0, 256\)"):
        BF16.round(x, "stochastic", random=[0, 1, 256], random_bits=8)
    with pytest.raises(ValueError, match=r"random must have the shape of x, \(3,\), not \(2,\)"):
        BF16.round(x, "stochastic", random=[0, 1])
    with pytest.raises(TypeError, match="random must hold integers"):
        BF16.round(x, "stochastic", random=[0.5, 1, 2])


def test_names_must_be_strings_and_known():
    with pytest.raises(TypeError, match="rounding must be a name"):
        BF16.round(1.0, 3)
    with pytest.raises(TypeError, match="overflow must be a name"):
        BF16.round(1.0, overflow=3)
    with pytest.raises(ValueError, match="unknown nan 'zeros'; did you mean 'zero'"):
        FP4_E2M1.round(1.0, nan="zeros")
    with pytest.raises(ValueError, match="overflow='nan' asks for NaN, but FP4_E2M1 has none"):
        FP4_E2M1.round(100.0, overflow="nan")


@pytest.mark.parametrize("codes", [256, -1, [0, 300], 2**70])
def test_codes_out_of_range_are_refused(codes):
    with pytest.raises(ValueError, match=r"codes must lie in \[0, 2\*\*8\)"):
        FP8_E4M3.decode(codes)


@pytest.mark.parametrize("codes", [1.0, "a", [True]])
def test_codes_must_be_integers(codes):
    with pytest.raises(TypeError, match="codes must be integers"):
        FP8_E4M3.decode(codes)


def test_ml_dtypes_arrays_are_taken_exactly():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name, fmt in dtypes.TYPES.items():
        if hasattr(ml_dtypes, name) and fmt.bits <= 8:
            x = np.arange(2**fmt.bits, dtype=np.uint8).view(getattr(ml_dtypes, name))
            assert np.array_equal(FP32.round(x), fmt.values(), equal_nan=True), name
    assert (FP32.round(np.array([1, -2], ml_dtypes.int4)) == [1, -2]).all()


@pytest.mark.parametrize(
    "x", [0, 0.0, -1, 2**63, -(2**63), np.int64(-(2**63)), np.uint64(2**64 - 1), Fraction(1, 3), 2**1100]
)
def test_scalars_give_what_arrays_give_without_a_warning(x):
    wide = numfmt.FloatFormat("wide", 0, 20, 10, "finite")  # has no fast way
    for fmt in (*numfmt.FORMATS.values(), wide):
        array = np.array([x, x], object if isinstance(x, Fraction) or x == 2**1100 else None)
        for mode in ("nearest_even", "to_odd", "stochastic"):
            assert np.array_equal(fmt.round(x, mode, rng=1), fmt.round(array, mode, rng=1)[0], equal_nan=True)
        assert fmt.encode(x) == fmt.encode(array)[0]
        assert fmt.ulp(x) == fmt.ulp(array)[0]
        assert np.array_equal(fmt.next_up(x), fmt.next_up(array)[0], equal_nan=True)
        code = fmt.encode(1.0)
        assert fmt.decode(code) == fmt.decode([code])[0]


def test_longdouble_is_rounded_once():
    if np.finfo(np.longdouble).nmant != 63:
        pytest.skip("longdouble is not the 80-bit type here")
    # Through float64 this would be a tie, and go to 1.
    x = np.longdouble(1) + np.longdouble(2) ** -8 + np.longdouble(2) ** -60
    assert float(x) == 1 + 2.0**-8
    assert BF16.round(x) == 1.0078125


def test_importing_numfmt_is_cheap():
    import subprocess
    import sys

    code = (
        "import sys, numfmt; heavy = {'numba', 'torch', 'triton', 'matplotlib', 'ml_dtypes', 'dask', 'sqlite3'}; "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


#: Functions of a matrix.
OF_ARRAYS = {
    "round": lambda x: FP8_E4M3.round(x),
    "encode": lambda x: BF16.encode(x),
    "ulp": lambda x: FP16.ulp(x),
    "next_up": lambda x: FP16.next_up(x),
    "add": lambda x: numfmt.add(x, x, BF16),
    "div": lambda x: numfmt.div(x, 3.0, FP16, "up"),
    "sqrt": lambda x: numfmt.sqrt(x, BF16),
    "fma": lambda x: numfmt.fma(x, x, 1.0, FP32),
    "accumulate": lambda x: numfmt.accumulate(x, BF16, axis=0),
    "kahan": lambda x: numfmt.accumulate(x, BF16, "down", "kahan"),
    "dot": lambda x: numfmt.dot(x, x, BF16),
    "matmul": lambda x: numfmt.matmul(x, x.T, FP16),
    "exact_sum": lambda x: numfmt.exact_sum(x),
    "exact_dot": lambda x: numfmt.exact_dot(x, x),
    "condition_number": lambda x: numfmt.condition_number(x),
    "sum_report": lambda x: numfmt.sum_report(x, BF16).units,
    "MXFP4": lambda x: numfmt.MXFP4.round(x, axis=0),
    "NVFP4": lambda x: numfmt.NVFP4.quantise(x).elements,
}


@pytest.mark.parametrize("name", OF_ARRAYS)
def test_every_function_takes_every_layout_and_leaves_it_alone(name):
    function = OF_ARRAYS[name]
    x = np.abs(np.random.default_rng(2).standard_normal((4, 6))) + 0.125
    expected = function(x.copy())
    wide = np.zeros((8, 18))
    wide[::2, ::-3] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    layouts = {
        "read-only": frozen,
        "strided": wide[::2, ::-3],
        "Fortran": np.asfortranarray(x),
        "big-endian": x.astype(">f8"),
        "transposed twice": np.ascontiguousarray(x.T).T,
        "list": x.tolist(),
    }
    for layout, array in layouts.items():
        before = np.array(array)
        np.testing.assert_array_equal(function(array if layout != "list" else np.array(array)), expected, layout)
        np.testing.assert_array_equal(np.array(array), before, layout)


@pytest.mark.parametrize("name", OF_ARRAYS)
def test_every_function_takes_empty_arrays(name):
    for shape in ((0, 6), (4, 0), (0, 0)):
        result = np.asarray(OF_ARRAYS[name](np.zeros(shape)))
        # A sum of nothing is 0, exactly, and its condition number 1.
        assert result.size == 0 or (result == (name == "condition_number")).all() or np.isnan(result).all(), shape


@pytest.mark.parametrize("name", ["round", "encode", "ulp", "next_up", "add", "div", "sqrt", "fma"])
def test_elementwise_functions_take_numbers_and_arrays_without_axes(name):
    expected = np.asarray(OF_ARRAYS[name](np.array([1.2]))).reshape(())
    for scalar in (1.2, np.float64(1.2), np.array(1.2), np.array(1.2, ">f8")):
        result = OF_ARRAYS[name](scalar)
        assert np.shape(result) == ()
        assert result == expected


@pytest.mark.parametrize("name", ["accumulate", "exact_sum", "condition_number", "MXFP4", "NVFP4"])
def test_functions_along_an_axis_say_what_to_do_with_a_number(name):
    with pytest.raises(ValueError, match=r"does not exist in .* with 0 dimensions; wrap a single number in a list"):
        OF_ARRAYS[name](np.array(1.2))


@pytest.mark.parametrize("name", OF_ARRAYS)
@pytest.mark.parametrize("wrong", [np.ones((2, 2), complex), np.full((2, 2), "1"), np.array([["a", None]] * 2, object)])
def test_no_function_takes_what_is_no_real_number(name, wrong):
    with pytest.raises(TypeError, match=r"must hold real numbers|x holds a str 'a'; an object array may hold"):
        OF_ARRAYS[name](wrong)
