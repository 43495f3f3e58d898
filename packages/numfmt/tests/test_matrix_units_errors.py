"""Bad input: each error names the argument, what was given and the way out."""

import tracemalloc

import numpy as np
import pytest

from numfmt.matrix_units import UNITS, chain, find_unit, matmul, promote, split_k, stream_k, tl_dot, unit_names

A16, B16 = np.ones((4, 32), np.float16), np.ones((32, 4), np.float16)


def product(**change):
    arguments = {"a": A16, "b": B16, "inputs": "fp16"} | change
    return matmul(**arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": np.ones(32)}, r"a must be a matrix of two dimensions, got shape \(32,\)"),
        ({"a": np.ones((4, 31))}, r"a has shape \(4, 31\) and b \(32, 4\)"),
        ({"b": np.ones((4, 32))}, r"b.T fits"),
        ({"c": np.ones((4, 5))}, r"c has shape \(4, 5\), the product has shape \(4, 4\)"),
        ({"c": np.full((4, 4), 1 + 2.0**-40)}, r"c\[0, 0\] = .*fp32 cannot hold it"),
        ({"unit": "hoper"}, "unknown unit 'hoper'; did you mean 'hopper'"),
        ({"unit": "hopper.wgma"}, "did you mean 'hopper.wgmma'"),
        ({"inputs": "fp8"}, "unknown inputs 'fp8'"),
        ({"inputs": "e2m1"}, "hopper does not multiply e2m1, it takes .*; e2m1 is taken by blackwell"),
        ({"inputs": ("fp16", "bf16")}, "does not multiply fp16 x bf16"),
        ({"inputs": ("fp16", "fp16", "fp16")}, "a pair of names"),
        ({"unit": "ampere", "inputs": "e4m3"}, "ampere does not multiply e4m3, it takes fp16, bf16, tf32"),
        ({"accumulator": "bf16"}, "has no bf16 accumulator, it has fp32, fp16"),
        ({"inputs": "bf16", "accumulator": "fp16"}, "has no fp16 accumulator, it has fp32"),
        (
            {"a": np.full((4, 32), 1 / 3), "inputs": "fp16"},
            r"a\[0, 0\] = .*0.333.*: fp16 cannot hold it; .*FP16.round\(a\)",
        ),
        ({"b": np.full((32, 4), 1e6)}, r"b\[0, 0\] = .*1000000.0.*: fp16 cannot hold it"),
        ({"a": np.full((4, 32), np.inf), "inputs": "e4m3"}, r"a\[0, 0\] = .*inf.*: e4m3 cannot hold it"),
        (
            {"a": np.full((4, 32), np.nan), "b": np.ones((32, 4)), "inputs": "e2m1", "unit": "blackwell.tcgen05"},
            "e2m1 cannot hold it",
        ),
        ({"a": np.full((4, 32), 1 / 3), "inputs": "tf32"}, "tf32 operands are fp32 numbers"),
        ({"a": A16[:, :24], "b": B16[:24]}, "K = 24 is no multiple of 16.*pad a and b with zeros along K to 32"),
        ({"schedule": promote(24)}, "interval = 24: .*multiple of 16.*for example 32"),
        ({"schedule": split_k(2, granularity=10)}, "granularity = 10"),
        ({"schedule": promote(32, stream_k(8, 8, 16, 2))}, "put it outside"),
        ({"schedule": tl_dot(64), "unit": "ampere"}, "use unit='hopper'"),
        ({"schedule": tl_dot(48, block_m=16, k_width=4)}, "block_k = 48 is no multiple of 32"),
        ({"schedule": tl_dot(32, block_m=16, k_width=3)}, "k_width = 3 must be a multiple of 2"),
        ({"schedule": tl_dot(32, max_num_imprecise_acc=64), "inputs": "e4m3"}, "which Triton refuses to compile"),
        ({"schedule": tl_dot(32), "inputs": ("fp16", "e4m3")}, "only after a conversion"),
        ({"schedule": tl_dot(32), "inputs": "e2m3"}, "tl.dot on Hopper takes"),
        ({"engine": "cuda"}, "unknown engine 'cuda'"),
        ({"threads": 0}, "threads must be a positive integer"),
        ({"scale_a": np.ones((4, 1))}, "has no block scales"),
    ],
)
def test_bad_arguments_of_matmul(change, message):
    with pytest.raises(ValueError, match=message):
        product(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": A16.astype(complex)}, "a must hold real numbers, got dtype complex128"),
        ({"a": np.ones((4, 32)), "b": np.ones((32, 4)), "inputs": None}, "a has dtype float64.*name it with inputs="),
        ({"a": A16.astype(int), "b": B16.astype(int), "inputs": None}, "name the format with inputs="),
        ({"schedule": "chain"}, r"schedule must be a schedule such as chain\(\)"),
    ],
)
def test_types_that_say_nothing(change, message):
    with pytest.raises(TypeError, match=message):
        product(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, r"needs scale_a \(M, K/32\) and scale_b \(K/32, N\)"),
        ({"scale_a": np.ones((4, 2)), "scale_b": np.ones((1, 4))}, r"scale_b has shape \(1, 4\); .* makes \(2, 4\)"),
        (
            {"scale_a": np.full((4, 2), 3.0), "scale_b": np.ones((2, 4))},
            "scale_a holds .*3.0.*, which is no E8M0 value",
        ),
        ({"scale_a": np.full((4, 2), -1.0), "scale_b": np.ones((2, 4))}, "scale_a holds a negative scale"),
    ],
)
def test_bad_scales(change, message):
    a, b = np.ones((4, 64)), np.ones((64, 4))
    with pytest.raises(ValueError, match=message):
        matmul(a, b, unit="blackwell.mxf8f6f4", inputs="e4m3", **change)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: promote(0), "interval must be a positive integer"),
        (lambda: split_k(1.5), "parts must be a positive integer"),
        (lambda: split_k(2, reduction="tree"), "unknown reduction 'tree'"),
        (lambda: stream_k(8, 8, 0, 1), "block_k must be a positive integer"),
        (lambda: tl_dot(64, form="acc+="), "unknown form 'acc[+]='"),
        (lambda: tl_dot(64, input_precision="tf32x4"), "did you mean 'tf32x3'"),
        (lambda: tl_dot(64, max_num_imprecise_acc=-1), "None or an integer >= 0"),
        (lambda: tl_dot(64, num_warps=True), "num_warps must be a positive integer"),
    ],
)
def test_bad_schedules(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_engine_numba_says_how_to_get_numba(monkeypatch):
    import builtins

    from numfmt.matrix_units import compiled

    real = builtins.__import__

    def without_numba(name, *rest):
        if name.split(".")[0] == "numba":
            raise ImportError(name)
        return real(name, *rest)

    compiled._compiled.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without_numba)
    with pytest.raises(ImportError, match=r"pip install numfmt-sim\[fast\]"):
        product(engine="numba")


def test_inputs_are_inferred_from_dtypes_and_never_modified():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(0)
    for dtype, key in (
        (np.float16, "fp16"),
        (np.float32, "tf32"),
        (ml_dtypes.bfloat16, "bf16"),
        (ml_dtypes.float8_e4m3fn, "e4m3"),
        (ml_dtypes.float8_e5m2, "e5m2"),
    ):
        a, b = rng.uniform(-1, 1, (5, 32)).astype(dtype), rng.uniform(-1, 1, (32, 5)).astype(dtype)
        before = a.tobytes(), b.tobytes()
        got = matmul(a, b)
        named = matmul(a.astype(np.float64), b.astype(np.float64), inputs=key)
        np.testing.assert_array_equal(got, named)
        assert (a.tobytes(), b.tobytes()) == before
    mixed = matmul(a.astype(ml_dtypes.float8_e4m3fn), b)
    assert mixed.dtype == np.float32
    plain = matmul(np.ones((2, 4), np.float32), np.ones((4, 2), np.float32), unit="simt.fma")
    assert (plain == 4).all()


def test_padding_k_is_the_same_as_zeros():
    rng = np.random.default_rng(1)
    a, b = rng.uniform(-1, 1, (3, 19)).astype(np.float16), rng.uniform(-1, 1, (19, 3)).astype(np.float16)
    wide_a, wide_b = np.zeros((3, 32), np.float16), np.zeros((32, 3), np.float16)
    wide_a[:, :19], wide_b[:19] = a, b
    np.testing.assert_array_equal(matmul(a, b, pad_k=True), matmul(wide_a, wide_b))


def test_empty_products():
    assert matmul(np.ones((0, 16), np.float16), np.ones((16, 3), np.float16)).shape == (0, 3)
    none = matmul(np.ones((2, 0), np.float16), np.ones((0, 3), np.float16))
    assert none.shape == (2, 3)
    assert not none.any()
    c = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(matmul(np.ones((2, 0), np.float16), np.ones((0, 3), np.float16), c), c)


def test_units_have_unique_names_and_describe_themselves():
    keys = [(u.name, u.inputs, u.accumulator) for u in UNITS]
    assert len(set(keys)) == len(keys)
    assert set(unit_names()) == {u.name for u in UNITS}
    for unit in UNITS:
        assert unit.name in unit.describe()
        assert find_unit(unit.name, unit.inputs[0], unit.accumulator) == unit or unit.instruction == "mfma_bf16"
        assert unit.evidence in ("measured", "vectors", "model")
    assert all(u.evidence == "model" for u in UNITS if u.architecture == "cdna2" or u.scales)


def test_accumulator_names_and_aliases():
    assert find_unit("Hopper.WGMMA", "float8_e4m3fn", "f16").accumulator == "fp16"
    assert find_unit("hopper", "fp8e5").name == "hopper.wgmma"
    assert matmul(A16, B16, accumulator="fp16").dtype == np.float16
    assert matmul(A16, B16, schedule=chain())[0, 0] == 32


@pytest.mark.parametrize(("inputs", "dtype"), [("fp16", np.float16), ("e4m3", np.float64), ("tf32", np.float32)])
def test_memory_does_not_grow_with_k(inputs, dtype):
    """Beyond operands and result, memory is that of a tile and a slice of k, checking of the inputs included."""

    def peak(k):
        a, b = np.ones((32, k), dtype), np.ones((k, 32), dtype)
        tracemalloc.start()
        try:
            matmul(a, b, inputs=inputs, engine="numpy", threads=1)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(64)  # what is made once
    assert peak(16384) < 1.1 * peak(4096)
