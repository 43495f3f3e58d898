"""The products on NumPy arrays: values, bits, types, and what is refused with which words."""

import importlib.util
import math
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import fpsan_tools
import tritongemm
from tritongemm import elements, emulation, modes, operands
from tritongemm.errors import UsageError
from tritongemm.operands import OperandError

pytest.importorskip("triton")
pytestmark = pytest.mark.triton


def random(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).uniform(-1, 1, shape).astype(np.float32)


def same_bits(x, y):
    assert x.dtype == y.dtype
    assert x.shape == y.shape
    return x.tobytes() == y.tobytes()


def exact(a, b):
    """The product in exact arithmetic, rounded once to float64: math.fsum of exact fp32 products."""
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    return np.array([[math.fsum(wide_a[i] * wide_b[:, j]) for j in range(b.shape[1])] for i in range(a.shape[0])])


# ---------------------------------------------------------------------------------------------------------- the product
@pytest.mark.parametrize("precision", [name for name, mode in modes.MODES.items() if "fp32" in mode.operands])
def test_every_mode_keeps_its_promise_and_is_what_predict_says(precision):
    a, b = random(5, 40), random(40, 6)
    result = tritongemm.mm(a, b, precision=precision)
    promise = modes.get(precision).promise(40, "fp32")
    magnitude = np.abs(a).astype(np.float64) @ np.abs(b)
    assert (np.abs(result - exact(a, b)) <= promise.relative_bound * magnitude + promise.absolute).all()
    assert same_bits(result, tritongemm.predict(a, b, precision=precision))


def test_modes_differ():
    a, b = random(5, 40), random(40, 6)
    results = {
        name: tritongemm.mm(a, b, precision=name).tobytes()
        for name in ("ieee", "tf32", "tf32_rounded", "bf16x3")  # ties, where tf32_even differs, are rare
    }
    assert len(set(results.values())) == len(results)


def test_ieee_is_one_serial_chain_of_fused_multiply_adds():
    from tritongemm.orders import SummationOrder

    a, b = random(4, 50), random(50, 3)
    assert same_bits(tritongemm.mm(a, b), SummationOrder.chain().simulate(a, b))


@pytest.mark.parametrize("activation", [None, "relu", "gelu", "silu"])
def test_alpha_beta_bias_and_activation(activation):
    a, b, c, bias = random(5, 20), random(20, 6), random(5, 6, seed=1), random(6)
    got = tritongemm.mm(a, b, alpha=0.5, beta=-2, c=c, bias=bias, activation=activation)
    x = 0.5 * exact(a, b) - 2.0 * c + bias
    want = {
        None: lambda: x,
        "relu": lambda: np.maximum(x, 0),
        "gelu": lambda: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
        "silu": lambda: x / (1 + np.exp(-x)),
    }[activation]()
    # Twenty products, two fused operations and an activation of a few ulps, relative to what is summed.
    scale = 0.5 * (np.abs(a) @ np.abs(b)) + 2 * np.abs(c) + np.abs(bias)
    assert (np.abs(got - want) <= 30 * 2.0**-24 * scale).all()
    assert same_bits(got, tritongemm.predict(a, b, alpha=0.5, beta=-2, c=c, bias=bias, activation=activation))


def test_addmm_and_baddbmm_broadcast_what_they_add():
    a, b, row = random(5, 20), random(20, 6), random(6)
    whole = np.broadcast_to(row, (5, 6)).copy()
    want = tritongemm.mm(a, b, c=whole, beta=0.5, alpha=2)
    assert same_bits(tritongemm.addmm(row, a, b, beta=0.5, alpha=2), want)
    assert same_bits(tritongemm.addmm(row[None], a, b, beta=0.5, alpha=2), want)
    column = random(5, 1)
    assert same_bits(tritongemm.addmm(column, a, b), tritongemm.mm(a, b, c=np.repeat(column, 6, 1), beta=1))
    stacked = tritongemm.baddbmm(row, np.stack([a, a + 1]), np.stack([b, b]), beta=0.5, alpha=2)
    assert same_bits(stacked[0], want)


def test_bmm_is_mm_for_each():
    a, b = random(3, 5, 20), random(3, 20, 6)
    got = tritongemm.bmm(a, b, precision="tf32")
    assert same_bits(got, np.stack([tritongemm.mm(x, y, precision="tf32") for x, y in zip(a, b, strict=True)]))


@pytest.mark.parametrize(
    ("first", "second"),
    [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (3, 4, 5)), ((4,), (4, 5)),
     ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5)), ((0, 3, 4), (4, 5)), ((0, 3, 4), (1, 4, 5)),
     ((2, 3, 0), (0, 5))],
    ids=str,
)  # fmt: skip
def test_matmul_has_numpys_shapes(first, second):
    a, b = random(*first), random(*second)
    got, want = tritongemm.matmul(a, b), np.matmul(a, b)
    assert np.shape(got) == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-6)
    if want.ndim:
        out = np.empty(want.shape, np.float32)
        assert tritongemm.matmul(a, b, out=out) is out
        np.testing.assert_array_equal(out, got)


def test_linear_multiplies_with_the_transposed_weight():
    x, weight, bias = random(2, 3, 20), random(6, 20), random(6)
    got = tritongemm.linear(x, weight, bias, activation="relu")
    want = tritongemm.mm(x.reshape(6, 20), weight.T.copy(), bias=bias, activation="relu")
    assert same_bits(got, want.reshape(2, 3, 6))
    assert tritongemm.linear(x[0, 0], weight).shape == (6,)
    assert tritongemm.linear(np.empty((2, 0, 20), np.float32), weight).shape == (2, 0, 6)


def test_grouped_products_have_the_bits_of_single_ones():
    shapes = [(5, 20, 6), (1, 64, 3), (0, 4, 5), (17, 3, 2)]
    list_a, list_b = [random(M, K) for M, K, _ in shapes], [random(K, N) for _, K, N in shapes]
    want = [tritongemm.mm(a, b, alpha=2, activation="relu") for a, b in zip(list_a, list_b, strict=True)]
    for config in (None, tritongemm.Config(kernel="grouped", block_m=16, block_n=16, block_k=16)):
        got = tritongemm.grouped_mm(list_a, list_b, alpha=2, activation="relu", config=config)
        assert all(same_bits(x, y) for x, y in zip(got, want, strict=True))
    outs = [np.empty(x.shape, np.float32) for x in want]
    tritongemm.grouped_mm(list_a, list_b, alpha=2, activation="relu", outs=outs)
    assert all(same_bits(x, y) for x, y in zip(outs, want, strict=True))
    assert tritongemm.grouped_mm([], []) == []
    with pytest.raises(UsageError, match="list_a has 4, list_b has 3"):
        tritongemm.grouped_mm(list_a, list_b[1:])
    with pytest.raises(OperandError, match="cannot be multiplied"):
        tritongemm.grouped_mm(list_a, list_a)


def test_transposes_and_broadcasts_reach_the_kernels_as_they_are(monkeypatch):
    from tritongemm import dispatch

    reached = []

    def product(a, b, **options):
        reached.append((a, b, options["epilogue"].c))
        return np.zeros((*a.shape[:-1], b.shape[-1]), np.float32)

    monkeypatch.setattr(dispatch, "product", product)
    a, weight, row = random(5, 20), random(6, 20), random(6)
    tritongemm.linear(a, weight)
    tritongemm.mm(a.T, a)
    tritongemm.addmm(row, a, weight.T)
    tritongemm.matmul(np.stack([a, a]), weight.T)
    pairs = [
        (reached[0][1], weight),
        (reached[1][0], a),
        (reached[2][1], weight),
        (reached[2][2], row),
        (reached[3][1], weight),
    ]
    assert all(np.shares_memory(x, y) for x, y in pairs)


# ---------------------------------------------------------------------------------------------------- auto and prepared
DATA = {
    "uniform": lambda rng, shape: rng.uniform(-1, 1, shape),
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "outlier": lambda rng, shape: rng.standard_normal(shape) * np.where(np.arange(shape[1]) == 3, 1000, 1),
    "wide": lambda rng, shape: rng.standard_normal(shape) * np.exp2(rng.integers(-8, 9, shape)),
}
# Of 64 numbers that span 2**16, few count: a plain sum then has few roundings, and is the better one.
WELL_SPREAD = [(data, K) for data in DATA for K in (64, 256) if (data, K) != ("wide", 64)]


@pytest.mark.parametrize(("data", "K"), WELL_SPREAD)
def test_auto_errs_no_more_than_the_plain_sum(data, K):
    rng = np.random.default_rng(K)
    a, b = DATA[data](rng, (24, K)).astype(np.float32), DATA[data](rng, (K, 24)).astype(np.float32)
    golden = exact(a, b)
    rms = {}
    for precision in ("ieee", "auto"):
        rms[precision] = np.sqrt(np.mean((tritongemm.mm(a, b, precision=precision) - golden) ** 2))
    assert rms["auto"] <= rms["ieee"]


def test_auto_takes_the_mode_that_the_numbers_allow():
    rng = np.random.default_rng(1)
    a, b = random(5, 1024), random(1024, 6)
    chosen = {
        "int8x6": (a, b),
        "fp16x3": (a * np.where(rng.random(a.shape) < 0.01, 100, 1).astype("f"), b),
        "bf16x6": (a * np.exp2(rng.integers(-30, 31, a.shape)).astype("f"), b),
        "ieee": (a[:, :8], b[:8]),
    }
    for mode, (x, y) in chosen.items():
        got = tritongemm.mm(x, y, precision="auto")
        assert same_bits(got, tritongemm.mm(x, y, precision=mode)), mode
        assert same_bits(got, tritongemm.predict(x, y, precision="auto"))


def test_auto_of_other_types_is_ieee():
    a, b = random(3, 64).astype(np.float16), random(64, 5).astype(np.float16)
    assert same_bits(tritongemm.mm(a, b, precision="auto"), tritongemm.mm(a, b))
    assert same_bits(tritongemm.predict(a, b, precision="auto"), tritongemm.mm(a, b))
    batch = tritongemm.bmm(a[None].astype(np.float64), b[None].astype(np.float64), precision="auto")
    assert same_bits(batch, tritongemm.bmm(a[None].astype(np.float64), b[None].astype(np.float64)))


def test_an_operand_that_was_prepared_has_the_bits_of_its_mode():
    a, b, bias = random(5, 64), random(64, 6), random(6)
    prepared = emulation.prepare(b, "bf16x6")
    want = tritongemm.mm(a, b, precision="bf16x6", bias=bias, activation="relu")
    assert same_bits(tritongemm.mm(a, prepared, bias=bias, activation="relu"), want)
    out = np.empty((5, 6), np.float32)
    assert tritongemm.mm(a, prepared, precision="bf16x6", bias=bias, activation="relu", out=out) is out
    assert same_bits(out, want)
    with pytest.raises(UsageError, match="prepared for 'bf16x6'"):
        tritongemm.mm(a, prepared, precision="int8x6")
    with pytest.raises(OperandError, match="cannot be multiplied"):
        tritongemm.mm(a[:, 1:], prepared)


# ---------------------------------------------------------------------------------------------------------------- types
def test_16_bit_floats_of_numpy_and_of_bit_patterns_have_the_same_bits():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a, b = (random(*shape).astype(ml_dtypes.bfloat16) for shape in ((5, 20), (20, 6)))
    want = tritongemm.mm(a, b)
    assert want.dtype == ml_dtypes.bfloat16
    typed = tritongemm.mm(*(fpsan_tools.typed(x.view(np.uint16), "bf16") for x in (a, b)))
    assert typed.dtype == "bf16"
    np.testing.assert_array_equal(typed.array, want.view(np.uint16))
    wide = tritongemm.mm(a, b, out_dtype="fp32")
    assert wide.dtype == np.float32
    np.testing.assert_array_equal(wide.astype(ml_dtypes.bfloat16), want)


@pytest.mark.parametrize("name", ["fp16", "float16", np.float16, np.dtype("float16")], ids=str)
def test_result_types_are_named_in_any_spelling(name):
    a, b = random(5, 20), random(20, 6)
    got = tritongemm.mm(a, b, out_dtype=name)
    assert same_bits(got, tritongemm.mm(a, b).astype(np.float16))


def test_out_of_another_type_says_so_twice():
    """fp32 sums in an fp64 result look more accurate than they are."""
    a, b = random(5, 20), random(20, 6)
    out = np.empty((5, 6), np.float64)
    with pytest.raises(OperandError, match=r"dtype float, but got double.*out is float64, the product float32"):
        tritongemm.mm(a, b, out=out)
    assert tritongemm.mm(a, b, out=out, out_dtype=np.float64) is out
    np.testing.assert_array_equal(out, tritongemm.mm(a, b))


def test_fp64_is_exact_up_to_its_own_rounding():
    a, b = random(5, 20).astype(np.float64) / 3, random(20, 6).astype(np.float64) / 7
    magnitude = np.abs(a) @ np.abs(b)
    golden = np.array([[math.fsum(a[i] * b[:, j]) for j in range(6)] for i in range(5)])
    got = tritongemm.mm(a, b)
    assert got.dtype == np.float64
    assert (np.abs(got - golden) <= 21 * 2.0**-53 * magnitude).all()


FP8 = pytest.mark.parametrize("name", elements.FP8)


def codes(name, *shape):
    form = elements.ELEMENTS[name].format
    return fpsan_tools.typed(form.encode(random(*shape) * 4).astype(np.uint8), name)


@FP8
def test_8_bit_floats_give_bf16_and_their_scales_divide_out(name):
    a, b = codes(name, 5, 160), codes(name, 160, 6)
    plain = tritongemm.mm(a, b, out_dtype="fp32").array.view(np.float32)
    assert tritongemm.mm(a, b).dtype == "bf16"
    two, half = (
        fpsan_tools.typed(np.float32([2]).view("u4"), "fp32"),
        fpsan_tools.typed(np.float32([0.25]).view("u4"), "fp32"),
    )
    scaled = tritongemm.scaled_mm(a, b, two, half, out_dtype="fp32").array.view(np.float32)
    np.testing.assert_array_equal(scaled, plain / 2)  # powers of two: exact
    fast = tritongemm.scaled_mm(a, b, two, half, out_dtype="fp32", precision="fast").array.view(np.float32)
    assert not np.array_equal(fast, scaled)


def test_scales_of_rows_and_columns():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a, b = (random(*shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((5, 40), (40, 6)))
    rows, columns = np.exp2(np.arange(5, dtype=np.float32))[:, None], np.exp2(-np.arange(6, dtype=np.float32))[None]
    got = tritongemm.scaled_mm(a, b, rows, columns, out_dtype="fp32")
    np.testing.assert_array_equal(got, tritongemm.mm(a, b, out_dtype="fp32") * rows * columns)


@pytest.mark.parametrize("kind", ["numbers", "rows", "blocks"])
def test_scaled_products_have_the_whole_epilogue(kind):
    """Powers of two as scales and integers elsewhere: every step is exact, so the result is that of float64."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((5, 200), (200, 6)))
    shapes = {"numbers": ((), ()), "rows": ((5, 1), (1, 6)), "blocks": ((5, 2), (2, 1))}[kind]
    scales = [np.exp2(rng.integers(-2, 3, shape)).astype(np.float32) for shape in shapes]
    c, bias = rng.integers(-9, 9, (5, 6)).astype(np.float32), rng.integers(-9, 9, 6).astype(np.float32)
    spread = [np.repeat(scale, 128, axis)[:, :200] if axis else np.repeat(scale, 128, 0)[:200] for axis, scale in
              ((1, scales[0]), (0, scales[1]))] if kind == "blocks" else scales  # fmt: skip
    wide = [x.astype(np.float64) for x in (a, b)]
    sums = (wide[0] * spread[0]) @ (wide[1] * spread[1])
    want = np.maximum(0.5 * sums + 2.0 * c + bias, 0)
    given = {"alpha": 0.5, "beta": 2.0, "c": c, "bias": bias, "activation": "relu"}
    np.testing.assert_array_equal(tritongemm.scaled_mm(a, b, *scales, out_dtype="fp32", **given), want)
    own = c.copy()
    got = tritongemm.scaled_mm(a, b, *scales, out_dtype="fp32", **{**given, "c": own}, out=own)
    assert got is own
    np.testing.assert_array_equal(own, want)
    nan = np.full((5, 6), np.nan, np.float32)
    np.testing.assert_array_equal(tritongemm.scaled_mm(a, b, *scales, out_dtype="fp32", c=nan, beta=0), sums)
    np.testing.assert_array_equal(tritongemm.scaled_mm(a, b, *scales, out_dtype="fp32", precision="auto"), sums)
    assert "only products of fp32 numbers are emulated" in tritongemm.last_outcome().reason
    a[:] = np.nan  # is not read where alpha is 0
    np.testing.assert_array_equal(
        tritongemm.scaled_mm(a, b, *scales, out_dtype="fp32", **given | {"alpha": 0}), np.maximum(2 * c + bias, 0)
    )


# ------------------------------------------------------------------------------------------------------------- refusals
A, B = random(3, 4), random(4, 5)
REFUSALS = {
    "unknown mode": (lambda: tritongemm.mm(A, B, precision="tf31"), "Did you mean 'tf32'"),
    "mode of other types": (lambda: tritongemm.mm(A, B, precision="fast"), "modes for fp32: .*ieee"),
    "unknown activation": (lambda: tritongemm.mm(A, B, activation="relo"), "Did you mean 'relu'"),
    "unknown kernel": (
        lambda: tritongemm.mm(A, B, config=tritongemm.Config(kernel="blokced")),
        "Did you mean 'blocked'",
    ),
    "no configuration": (lambda: tritongemm.mm(A, B, config={"block_m": 64}), r"config: a tritongemm\.Config"),
    "beta without c": (lambda: tritongemm.mm(A, B, beta=1), "no c"),
    "a tensor as alpha": (lambda: tritongemm.mm(A, B, alpha=A[0]), r"alpha: a real number.*\.item\(\)"),
    "result type": (lambda: tritongemm.mm(A, B, out_dtype="fp8e4m3fn"), "results are"),
    "unknown type": (lambda: tritongemm.mm(A, B, out_dtype="fp33"), "out_dtype"),
    "integers": (lambda: tritongemm.mm(A.astype(int), B.astype(int)), "int64"),
    "foreign byte order": (lambda: tritongemm.mm(A.astype(">f4"), B.astype(">f4")), r"a: .*newbyteorder\('='\)"),
    "a list": (lambda: tritongemm.mm([[1.0]], B), r"a: .*given a list; pass numpy.asarray"),
    "out's shape": (lambda: tritongemm.mm(A, B, out=np.empty((3, 6), "f")), r"out: shape \(3, 6\)"),
    "out's type": (lambda: tritongemm.mm(A, B, out=np.empty((3, 5), "f"), out_dtype="fp16"), "out is float32"),
    "read-only out": (lambda: tritongemm.mm(A, B, out=np.broadcast_to(np.float32(0), (3, 5))), "out: .*written"),
    "bias's shape": (lambda: tritongemm.mm(A, B, bias=A[0]), "bias must have shape"),
    "bias's type": (lambda: tritongemm.mm(A, B, bias=np.ones(5)), "bias is float64"),
    "c's shape": (lambda: tritongemm.addmm(A, A, B), "broadcast"),
    "shapes": (lambda: tritongemm.mm(A, A), "transposed"),
    "types": (lambda: tritongemm.mm(A, B.astype("d")), "b is float64"),
    "scaled_mm of wide numbers": (lambda: tritongemm.scaled_mm(A, B, A, A), "mm takes the others"),
    "order of another class": (
        lambda: tritongemm.mm(
            random(3, 64), random(64, 5), config=tritongemm.Config(kernel="split_k", splits=2, block_k=16)
        ),
        "invariant=False",
    ),
    "c twice": (lambda: tritongemm.addmm(A, A, B, c=A), "unexpected keyword argument 'c'"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_what_cannot_be_done_is_said_with_the_way_out(refusal):
    call, words = REFUSALS[refusal]
    with pytest.raises((UsageError, TypeError), match=words):
        call()


def test_operands_that_do_not_fit_raise_what_torch_raises():
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        tritongemm.mm(A, A)
    with pytest.raises(OperandError):
        tritongemm.mm(A, A)


@pytest.mark.parametrize("activation", ["gelu_tanh", "GELU"])
def test_another_gelu_is_refused_with_the_form_that_there_is(activation):
    with pytest.raises(UsageError, match=r"Did you mean 'gelu'\?.* gelu is the exact form, by erf; for the tanh form"):
        tritongemm.mm(A, B, activation=activation)


def test_the_activations_of_kernels_are_those_that_are_documented():
    x = np.float32([[-2.0, 0.5]])
    one = np.eye(2, dtype=np.float32)
    expected = {
        "relu": np.maximum(x, 0),
        "gelu": [[0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in map(float, x[0])]],
        "silu": x / (1 + np.exp(-x)),
    }
    assert set(operands.ACTIVATIONS) == set(expected)
    for activation, y in expected.items():
        np.testing.assert_allclose(tritongemm.mm(x, one, activation=activation), y, rtol=1e-5, atol=1e-7)


def test_exported_names_exist_and_are_documented():
    for name in tritongemm.__all__:
        if name == "nn" and importlib.util.find_spec("torch") is None:
            with pytest.raises(ImportError, match="pip install"):
                tritongemm.nn  # noqa: B018
            continue
        value = getattr(tritongemm, name)
        assert name == "__version__" or value.__doc__, name


def test_modules_that_are_exported_list_their_names_for_the_reference():
    for name in ("accuracy", "challenge", "emulation", "errors", "modes", "orders"):
        module = getattr(tritongemm, name)
        for offered in module.__all__:
            assert hasattr(module, offered), (name, offered)


def test_errors_that_public_docstrings_name_are_public():
    named = set()
    for name in set(tritongemm.__all__) - {"nn"}:
        text = getattr(tritongemm, name).__doc__ or ""
        raises = re.search(r"Raises:\n((?:\s{8}.*\n?|\n)*)", text)
        named |= set(re.findall(r"^ {8}(\w+):", raises[1], re.MULTILINE)) if raises else set()
    assert {"OperandError", "UsageError", "Unavailable"} <= named
    public = {*tritongemm.__all__, *tritongemm.errors.__all__}
    assert named - public <= {"AssertionError"}


def test_without_triton_sums_are_predicted_and_the_rest_says_why_not():
    code = """
import sys
sys.modules["triton"] = None
import numpy as np, tritongemm
from tritongemm.errors import Unavailable
a, b = np.ones((2, 3, 4), "f"), np.ones((2, 4, 5), "f")
assert (tritongemm.mm(a[0], b[0]) == 4).all() and (tritongemm.bmm(a, b, precision="tf32") == 4).all()
out = np.empty((3, 5))
assert tritongemm.mm(a[0], b[0], out=out, out_dtype=float) is out and (out == 4).all()
assert (tritongemm.linear(a, b[0].T, out_dtype="fp16") == 4).all()
for call in (
    lambda: tritongemm.mm(a[0], b[0], alpha=2),
    lambda: tritongemm.mm(a[0], b[0], config=tritongemm.Config(kernel="blocked")),
    lambda: tritongemm.grouped_mm(a, b),
    lambda: tritongemm.tune(a[0], b[0]),
):
    try:
        call()
    except Unavailable as error:
        assert "pip install" in str(error), error
    else:
        raise AssertionError
print("done")
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (found.stdout.strip(), found.stderr) == ("done", "")


# ------------------------------------------------------------------------------------------------------------- the page
def test_the_code_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = pathlib.Path(__file__).parents[1] / "README.md"
    if not page.exists():
        pytest.skip("the tests were installed without the README")
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    assert blocks
    names = {}
    for block in blocks:
        if "torch" in block:
            continue
        exec(compile(block, str(page), "exec"), names)


def test_the_scales_of_a_single_block_are_those_of_rows_and_of_all():
    """Either way of reading them gives the same bits; a kernel for blocks is not looked for among the others."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    from tritongemm.kernels import block_scaled

    rng = np.random.default_rng(3)
    a, b = (rng.uniform(-8, 8, shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((5, 90), (90, 7)))
    rows, one = rng.uniform(0.5, 2, (5, 1)).astype(np.float32), np.full((1, 1), 0.3, np.float32)
    got = tritongemm.scaled_mm(a, b, rows, one, out_dtype="fp32")
    np.testing.assert_array_equal(got, block_scaled.predict_block_scaled(a, b, rows, one))
    config = tritongemm.Config(kernel="block_scaled", block_m=64, block_n=64, block_k=128)
    with pytest.raises(UsageError, match=r"config: kernel 'block_scaled'.*\(5, 1\) and \(1, 1\)"):
        tritongemm.scaled_mm(a, b, rows, one, config=config)


def test_block_scales_are_promised_as_long_as_their_products_are_fp32_numbers():
    """Products below 2**-126 lose bits, which the promise has; from 2**128 on they are infinite, which it excludes."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    from tritongemm.kernels import block_scaled

    a, b = np.full((1, 256), 2.0**15, ml_dtypes.float8_e5m2), np.full((256, 1), 2.0**15, ml_dtypes.float8_e5m2)
    scale_a, scale_b = np.full((1, 2), 1.4 * 2.0**-75, np.float32), np.full((2, 1), 1.4 * 2.0**-74, np.float32)
    got = float(tritongemm.scaled_mm(a, b, scale_a, scale_b, out_dtype="fp32")[0, 0])
    want = 256 * 2.0**30 * float(scale_a[0, 0]) * float(scale_b[0, 0])
    promise = block_scaled.promise(256)
    assert promise.relative_bound * want < abs(got - want) <= promise.relative_bound * want + promise.absolute
    scale_a[:], scale_b[:] = 2.0**70, 2.0**60
    tiny = [np.full(x.shape, 2.0**-16, x.dtype) for x in (a, b)]
    assert np.isinf(tritongemm.scaled_mm(*tiny, scale_a, scale_b, out_dtype="fp32")).all()
