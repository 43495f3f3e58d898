"""Edges of the kernels, evaluated on the CPU: tails, surroundings, strides, empty products, factors that must not read,
results that overlap operands, and what TMA cannot read. `test_tritongemm_edges_gpu.py` does the same on a GPU."""

import numpy as np
import pytest

pytest.importorskip("triton")

from tritongemm_cases import bits, operands, typed
from tritongemm_compiling import recorded

from tritongemm import dispatch, modes
from tritongemm.configurations import Config
from tritongemm.elements import ELEMENTS, element_named
from tritongemm.errors import UsageError
from tritongemm.kernels.descriptors import contiguous_axis, descriptor
from tritongemm.kernels.epilogue import Epilogue
from tritongemm.kernels.problems import Operands
from tritongemm.kernels.tiles import TileOrder

pytestmark = pytest.mark.triton

SMALL = {
    "blocked": Config(kernel="blocked", block_m=16, block_n=16, block_k=16),
    "split_k": Config(kernel="split_k", block_m=16, block_n=16, block_k=16, splits=3),
    "stream_k": Config(kernel="stream_k", block_m=16, block_n=16, block_k=16, splits=5),
    "persistent": Config(kernel="persistent", block_m=16, block_n=16, block_k=16),
}
POINTERS = ["blocked", "split_k", "stream_k"]


def fp32(M, K, N, seed=0):
    return tuple(x.view(np.float32) for x in operands("normal", (M, K, N), "fp32", seed))


def multiplied(a, b, kernel, **more):
    return dispatch.product(a, b, config=SMALL[kernel], invariant=False, **more)


def surrounded(x, fill):
    """x inside a larger buffer of other values."""
    whole = np.full((x.shape[0] + 3, 2 * x.shape[1] + 5), fill, x.dtype)
    inside = whole[2:-1, 3:-2:2]
    inside[...] = x
    return whole, inside


# ------------------------------------------------------------------------------------------------------ tails
@pytest.mark.parametrize("axis", ["M", "K", "N"])
def test_every_residue_of_a_tile_is_computed(axis):
    """blocks are 16 x 16 x 16; extents of 1 to 33 have every residue, with one tile, with two and with three."""
    for size in (*range(1, 18), 31, 32, 33):
        M, K, N = (size if axis == name else other for name, other in (("M", 5), ("K", 7), ("N", 6)))
        a, b = fp32(M, K, N)
        np.testing.assert_array_equal(bits(multiplied(a, b, "blocked")), bits(modes.get("ieee").predict(a, b)))


@pytest.mark.parametrize("kernel", ["split_k", "stream_k", "persistent"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (17, 16, 1), (1, 36, 33), (33, 100, 17), (16, 4, 48)], ids=str)
def test_other_kernels_compute_tails_too(kernel, shape):
    a, b = fp32(*shape)
    if kernel == "persistent":  # rows as TMA can read them
        a = np.ascontiguousarray(np.pad(a, ((0, 0), (0, -a.shape[1] % 4))))[:, : a.shape[1]]
        b = np.ascontiguousarray(np.pad(b, ((0, 0), (0, -b.shape[1] % 4))))[:, : b.shape[1]]
    got = multiplied(a, b, kernel)
    golden, magnitude = a.astype(np.float64) @ b.astype(np.float64), np.abs(a) @ np.abs(b)
    assert (np.abs(got - golden) <= 1e-6 * magnitude).all()


def plain(a, b, mode="ieee", **more):
    return Operands.of(a, b, modes.get(mode), epilogue=Epilogue(**more))


# ------------------------------------------------------------------------------------------------------ surroundings
@pytest.mark.parametrize("kernel", POINTERS)
def test_nothing_is_read_or_written_beside_the_matrices(kernel):
    a, b = fp32(19, 37, 21)
    c, bias = fp32(19, 5, 21)[0][:, :1] * np.ones((19, 21), np.float32), np.arange(21, dtype=np.float32)
    want = multiplied(a, b, kernel, epilogue=Epilogue(alpha=2, beta=3, c=c, bias=bias))
    (_, x), (_, y), (_, z) = surrounded(a, np.nan), surrounded(b, np.nan), surrounded(c, np.nan)
    whole, out = surrounded(np.zeros((19, 21), np.float32), 7)
    around = np.full(64, np.nan, np.float32)
    around[3:45:2] = bias
    made = multiplied(x, y, kernel, out=out, epilogue=Epilogue(alpha=2, beta=3, c=z, bias=around[3:45:2]))
    assert made is out
    np.testing.assert_array_equal(bits(out), bits(want))
    out[...] = 7
    assert (whole == 7).all()


def test_tma_reads_nothing_beside_the_matrices():
    a, b = fp32(19, 36, 20)
    wide, tall = np.full((24, 48), np.nan, np.float32), np.full((40, 24), np.nan, np.float32)
    wide[2:21, 4:40], tall[3:39, 0:20] = a, b
    got = multiplied(wide[2:21, 4:40], tall[3:39, 0:20], "persistent")
    np.testing.assert_array_equal(bits(got), bits(modes.get("ieee").predict(a, b)))


# ------------------------------------------------------------------------------------------------------------ strides
@pytest.mark.parametrize("kernel", ["blocked", pytest.param("stream_k", marks=pytest.mark.exhaustive)])
def test_strides_of_every_kind_give_the_same_bits(kernel):
    a, b = fp32(18, 40, 20)
    want = bits(multiplied(a, b, kernel))
    views = [
        (np.asfortranarray(a), np.asfortranarray(b)),
        (np.repeat(a, 2, 0)[::2], np.repeat(b, 3, 1)[:, ::3]),
        (np.repeat(a, 2, 1)[:, ::2], b[::-1].copy()[::-1]),
        (a[::-1].copy()[::-1], b[:, ::-1].copy()[:, ::-1]),
    ]
    for x, y in views:
        np.testing.assert_array_equal(bits(multiplied(x, y, kernel)), want)
    out = np.empty((20, 18), np.float32).T
    np.testing.assert_array_equal(bits(multiplied(a, b, kernel, out=out)), want)
    row = np.broadcast_to(a[:1], a.shape)  # stride 0
    if kernel == "stream_k":  # where a row's sums are cut depends on its tile
        want = bits(multiplied(np.repeat(a[:1], 18, 0), b, kernel))
        np.testing.assert_array_equal(bits(multiplied(row, b, kernel)), want)
        return
    np.testing.assert_array_equal(bits(multiplied(row, b, kernel)), np.broadcast_to(want[:1], want.shape))
    c = np.broadcast_to(np.float32(2), (18, 20))
    got = multiplied(a, b, kernel, epilogue=Epilogue(beta=0.5, c=c))
    np.testing.assert_array_equal(bits(got), bits(multiplied(a, b, kernel) + np.float32(1)))


def test_tile_orders_change_no_bit():
    a, b = fp32(70, 40, 90)
    want = bits(modes.get("ieee").predict(a, b))
    for order in (TileOrder.rows(), TileOrder.columns(), TileOrder.grouped(1), TileOrder.grouped(3)):
        config = SMALL["blocked"].changed(group_m=order.group_m)
        np.testing.assert_array_equal(bits(dispatch.product(a, b, config=config)), want, err_msg=order.name)
    with pytest.raises(UsageError, match="group_m"):
        TileOrder.grouped(0)


# ------------------------------------------------------------------------------------------------------- empty products
@pytest.mark.parametrize("kernel", POINTERS)
@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 3, 0), (0, 0, 0)], ids=str)
def test_empty_results_launch_nothing(kernel, shape):
    M, K, N = shape
    with recorded() as launches:
        c = multiplied(np.ones((M, K), np.float32), np.ones((K, N), np.float32), kernel)
    assert c.shape == (M, N)
    assert not launches


@pytest.mark.parametrize("config", [None, SMALL["blocked"], SMALL["split_k"]], ids=["predicted", "blocked", "split_k"])
def test_without_products_the_result_is_beta_c_and_bias(config):
    c, bias = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([10, 20, 30], np.float32)
    a, b = np.ones((2, 0), np.float32), np.ones((0, 3), np.float32)
    got = dispatch.product(a, b, config=config, epilogue=Epilogue(alpha=5, beta=2, c=c, bias=bias))
    np.testing.assert_array_equal(got, 2 * c + bias)
    np.testing.assert_array_equal(bits(dispatch.product(a, b, config=config)), np.zeros((2, 3)))


def test_kernels_that_need_k_leave_products_without_it_to_others():
    a, b = np.ones((2, 0), np.float32), np.ones((0, 3), np.float32)
    for kernel in ("stream_k", "persistent"):
        assert not dispatch.candidate_named(kernel).supports(plain(a, b), SMALL[kernel])
        assert dispatch.choose(plain(a, b), SMALL[kernel])[0].kernel == "blocked"


# ------------------------------------------------------------------------------------------------------------- epilogue
def reference_epilogue(total, alpha=1.0, beta=0.0, c=None, bias=None, scale_a=None, scale_b=None):
    """The documented order in exact arithmetic: every step is one rounding of an exact value to fp32."""
    from fractions import Fraction

    import numfmt

    def rounded(value):
        return float(numfmt.FP32.round(value)) if value else 0.0

    out = np.empty_like(total)
    for i, j in np.ndindex(total.shape):
        factor = float(np.float32(alpha))
        if scale_a is not None:
            scales = rounded(Fraction(float(scale_a[i, 0])) * Fraction(float(scale_b[0, j])))
            factor = scales if alpha == 1 else rounded(Fraction(scales) * Fraction(factor))
        t = Fraction(float(total[i, j])) * Fraction(factor)
        t = rounded(t + (Fraction(float(bias[j])) if bias is not None else 0))
        if c is not None and beta:
            t = rounded(Fraction(float(np.float32(beta))) * Fraction(float(c[i, j])) + Fraction(t))
        out[i, j] = t
    return out


@pytest.mark.parametrize("kernel", [None, "blocked"])
def test_the_epilogue_rounds_in_the_documented_order(kernel):
    a, b = fp32(6, 10, 7)
    c, bias = fp32(6, 3, 7, seed=4)[1][:1] * np.ones((6, 7), np.float32), fp32(1, 7, 1, seed=5)[0][0]
    scales = {"scale_a": np.abs(fp32(6, 1, 1)[0]), "scale_b": np.abs(fp32(1, 1, 7)[1])}
    one = {"scale_a": np.float32([[0.3]]), "scale_b": scales["scale_b"]}
    for more in (
        {"alpha": 0.1},
        {"bias": bias},
        {"alpha": 0.7, "bias": bias},
        {"beta": 0.3, "c": c},
        {"alpha": -1.1, "beta": 0.3, "c": c, "bias": bias},
        scales,
        {**scales, "alpha": 3.3, "bias": bias},
        {"alpha": 0.0, "beta": 1.0, "c": c},
    ):
        config = None if kernel is None else SMALL[kernel].changed(splits=1)
        got = dispatch.product(a, b, config=config, epilogue=Epilogue(**more))
        total = np.zeros((6, 7), np.float32) if more.get("alpha") == 0 else modes.get("ieee").predict(a, b)
        np.testing.assert_array_equal(bits(got), bits(reference_epilogue(total, **more)), err_msg=str(sorted(more)))
    got = dispatch.product(a, b, epilogue=Epilogue(**one))
    want = reference_epilogue(
        modes.get("ieee").predict(a, b), scale_a=np.full((6, 1), 0.3, np.float32), scale_b=one["scale_b"]
    )
    np.testing.assert_array_equal(bits(got), bits(want))


def test_activations_are_what_their_names_say():
    from math import erf, exp

    a, b = fp32(8, 9, 8)
    plain_sum = modes.get("ieee").predict(a, b).astype(np.float64)
    definitions = {
        "relu": lambda x: max(x, 0.0),
        "gelu": lambda x: 0.5 * x * (1 + erf(x / 2**0.5)),
        "silu": lambda x: x / (1 + exp(-x)),
    }
    for name, f in definitions.items():
        got = dispatch.product(a, b, epilogue=Epilogue(activation=name))
        np.testing.assert_allclose(got, np.vectorize(f)(plain_sum), rtol=3e-6, atol=1e-6, err_msg=name)
    nan = dispatch.product(
        np.full((1, 1), np.nan, np.float32), np.ones((1, 1), np.float32), epilogue=Epilogue(activation="relu")
    )
    assert np.isnan(nan).all()


@pytest.mark.parametrize("config", [None, SMALL["blocked"]], ids=["predicted", "evaluated"])
def test_beta_of_zero_does_not_read_c_and_alpha_of_zero_reads_no_operand(config):
    a, b = fp32(5, 9, 4)
    nan = np.full((5, 4), np.nan, np.float32)
    got = dispatch.product(a, b, config=config, epilogue=Epilogue(beta=0.0, c=nan))
    np.testing.assert_array_equal(bits(got), bits(modes.get("ieee").predict(a, b)))
    c = np.ones((5, 4), np.float32)
    a[...] = np.nan
    got = dispatch.product(a, b, config=config, epilogue=Epilogue(alpha=0.0, beta=2.0, c=c))
    np.testing.assert_array_equal(got, 2 * c)


def test_fp64_factors_are_not_rounded_to_fp32():
    a, b = np.full((1, 1), 3.0), np.full((1, 1), 1.0)
    for config in (None, SMALL["blocked"]):
        got = dispatch.product(a, b, config=config, epilogue=Epilogue(alpha=0.1, beta=1 / 3, c=np.full((1, 1), 7.0)))
        assert got[0, 0] == pytest.approx(0.1 * 3 + 7 / 3, rel=1e-15)


def test_results_are_rounded_once_to_their_type():
    a, b = (typed(x, "bf16") for x in operands("wide", (12, 40, 9), "bf16"))
    total = modes.get("ieee").predict(a, b)
    for name in ("fp32", "fp16", "bf16"):
        want = ELEMENTS[name].format.round(total.astype(np.float64), overflow="infinity") if name != "fp32" else total
        for config in (None, SMALL["blocked"], SMALL["split_k"].changed(splits=1)):
            got = dispatch.product(a, b, out_dtype=name, config=config)
            from tritongemm.elements import values_of

            np.testing.assert_array_equal(values_of(got, ELEMENTS[name]), want.astype(np.float32))


def test_split_sums_of_bf16_operands_are_joined_in_fp32():
    """2^9 parts of 1 + 2^-8 each: joined in bf16 they would stop growing at 256."""
    K = 512
    a = typed(np.full((1, K), 0x3F80, np.uint16), "bf16")
    b = typed(np.full((K, 1), 0x3F80, np.uint16), "bf16")
    config = Config(kernel="split_k", block_m=16, block_n=16, block_k=16, splits=32)
    got = dispatch.product(a, b, config=config, out_dtype="bf16", invariant=False)
    assert got.array[0, 0] == 0x4400  # 512


# ------------------------------------------------------------------------------------------------------------- aliasing
def test_a_result_over_an_operand_is_refused():
    x = np.ones((8, 8), np.float32)
    y = np.ones((8, 8), np.float32)
    for kernel in POINTERS:
        with pytest.raises(UsageError, match="out: it overlaps the memory of a"):
            multiplied(x, y, kernel, out=x)
        with pytest.raises(UsageError, match="out: it overlaps the memory of b"):
            multiplied(x, y[::-1], kernel, out=y)
        shifted = np.ones((9, 8), np.float32)
        with pytest.raises(UsageError, match="overlaps the memory of c"):
            multiplied(x, y, kernel, out=shifted[1:], epilogue=Epilogue(beta=1.0, c=shifted[:-1]))


def test_a_result_whose_elements_share_memory_is_refused():
    x = np.ones((8, 8), np.float32)
    shared = np.lib.stride_tricks.as_strided(np.ones(8, np.float32), (8, 8), (0, 4))
    with pytest.raises(UsageError, match="out: several of its elements share memory"):
        multiplied(x, x, "blocked", out=shared)


def test_types_that_numpy_lacks_are_named(monkeypatch):
    import sys

    from tritongemm.errors import Unavailable

    x = np.ones((2, 2), np.float32)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(Unavailable, match=r"need ml_dtypes.*fpsan_tools\.typed\(bits, 'bf16'\)"):
        dispatch.product(x, x, out_dtype="bf16")


@pytest.mark.parametrize("kernel", POINTERS)
def test_the_result_may_be_c_itself(kernel):
    a, b = fp32(20, 30, 18)
    c = np.ones((20, 18), np.float32)
    want = multiplied(a, b, kernel, epilogue=Epilogue(beta=2.0, c=c))
    made = multiplied(a, b, kernel, out=c, epilogue=Epilogue(beta=2.0, c=c))
    assert made is c
    np.testing.assert_array_equal(bits(c), bits(want))


def test_both_operands_may_be_the_same_matrix():
    x = fp32(16, 16, 16)[0]
    np.testing.assert_array_equal(bits(multiplied(x, x, "blocked")), bits(modes.get("ieee").predict(x, x)))
    np.testing.assert_array_equal(bits(multiplied(x, x.T, "blocked")), bits(modes.get("ieee").predict(x, x.T)))


# -------------------------------------------------------------------------------------------------------------- batches
def test_batches_have_the_bits_of_single_products():
    a, b = np.stack([fp32(17, 20, 9, s)[0] for s in range(3)]), np.stack([fp32(17, 20, 9, s)[1] for s in range(3)])
    single = np.stack([modes.get("ieee").predict(x, y) for x, y in zip(a, b, strict=True)])
    for kernel in ("blocked", "stream_k"):
        config = SMALL[kernel].changed(splits=1)
        np.testing.assert_array_equal(bits(dispatch.product(a, b, config=config)), bits(single))
    np.testing.assert_array_equal(bits(dispatch.product(a, b)), bits(single))
    turned = dispatch.product(
        a.transpose(0, 2, 1).copy().transpose(0, 2, 1), np.asfortranarray(b), config=SMALL["blocked"]
    )
    np.testing.assert_array_equal(bits(turned), bits(single))
    shared = np.broadcast_to(b[:1], b.shape)
    got = dispatch.product(
        a, shared, config=SMALL["blocked"], epilogue=Epilogue(beta=1.0, c=np.ones((3, 17, 9), np.float32))
    )
    want = [modes.get("ieee").predict(x, b[0]) + np.float32(1) for x in a]
    np.testing.assert_array_equal(bits(got), bits(np.stack(want)))


def test_grouped_products_of_all_sizes_have_the_bits_of_single_ones():
    shapes = [(5, 7, 9), (33, 20, 40), (0, 4, 3), (3, 0, 2), (1, 50, 1)]
    pairs = [fp32(*s, seed=i) for i, s in enumerate(shapes)]
    pairs[1] = (np.asfortranarray(pairs[1][0]), pairs[1][1])
    config = SMALL["blocked"].changed(kernel="grouped")
    made = dispatch.grouped_product(
        *zip(*pairs, strict=True), config=config, epilogue=Epilogue(alpha=2.0, activation="relu")
    )
    for got, (a, b) in zip(made, pairs, strict=True):
        want = dispatch.product(a, b, epilogue=Epilogue(alpha=2.0, activation="relu"))
        np.testing.assert_array_equal(bits(got), bits(want))
    assert dispatch.grouped_product([], []) == []
    with pytest.raises(UsageError, match="multiplied in pairs"):
        dispatch.grouped_product([np.ones((1, 1), np.float32)], [])


# ---------------------------------------------------------------------------------------------------- what TMA can read
def half(shape):
    return np.zeros(shape, np.float16)


@pytest.mark.parametrize(("matrix", "axis", "why"), [
    (half((6, 16)), 1, "rows of a multiple of 16 bytes"),
    (half((16, 8)).T, 0, "columns of a multiple of 16 bytes"),
    (half((6, 20)), None, "rows of 40 bytes"),
    (half((6, 17))[:, 1:], None, "an odd storage offset"),
    (half((6, 32))[:, 8:24], 1, "a gapped view with aligned rows"),
    (half((6, 32))[:, 4:20], None, "a view that begins 8 bytes in"),
    (half((6, 32))[::2, :16], 1, "every second row"),
    (half((6, 32))[:, ::2], None, "every second column"),
    (np.broadcast_to(half((1, 16)), (6, 16)), None, "rows with a stride of 0"),
    (half((6, 16))[::-1], None, "a negative stride"),
    (half((1, 17)), 1, "one row, whatever its stride"),
    (half((17, 1)), 0, "one column, whatever its stride"),
    (half((7, 16)).T, 0, "x.t() of aligned rows"),
    (half((16, 7)).T, None, "x.t() with an odd number of rows"),
    (half((0, 16)), None, "nothing at all"),
    (half((2, 4, 16)), None, "a batch"),
])  # fmt: skip
def test_what_tma_can_read(matrix, axis, why):
    base = matrix
    while isinstance(base.base, np.ndarray):
        base = base.base
    moved = base.__array_interface__["data"][0] % 16
    assert not moved, "NumPy gave memory that is not aligned to 16 bytes; the test needs some that is"
    assert contiguous_axis(matrix, "a") == axis, why


def test_operands_that_tma_cannot_read_go_to_pointers_with_the_same_bits():
    a, b = (x.view(np.float16) for x in operands("normal", (20, 48, 32), "fp16"))
    want = bits(modes.get("ieee").predict(a, b))
    whole = np.full((20, 50), np.nan, np.float16)
    whole[:, 1:49] = a
    for x, kernel in ((a, "persistent"), (whole[:, 1:49], "blocked"), (np.asfortranarray(a), "blocked")):
        product = plain(x, b)
        assert dispatch.candidate_named("persistent").supports(product, SMALL["persistent"]) is (kernel == "persistent")
        np.testing.assert_array_equal(bits(dispatch.product(x, b, out_dtype="fp32", config=SMALL["blocked"])), want)
    with pytest.raises(UsageError, match="does not take this product"):
        dispatch.product(whole[:, 1:49], b, config=SMALL["persistent"])


def test_one_row_and_odd_lengths_are_read_by_tma():
    a, b = (x.view(np.float16) for x in operands("normal", (1, 37, 16), "fp16"))
    assert contiguous_axis(a, "a") == 1
    d = descriptor(a, 1, (16, 16), "a")
    assert list(d.strides) == [40, 1]
    got = dispatch.product(a, b, config=SMALL["persistent"], out_dtype="fp32")
    np.testing.assert_array_equal(bits(got), bits(modes.get("ieee").predict(a, b)))


# ------------------------------------------------------------------------------------------------------------- messages
def test_what_does_not_fit_is_named():
    x = np.ones((4, 4), np.float32)
    for arguments, message in (
        ({"a": x, "b": np.ones((3, 4), np.float32)}, r"b: \(3, 4\) does not fit a \(4, 4\)"),
        ({"a": x, "b": x[0]}, "two matrices, or two batches"),
        ({"a": x, "b": x.astype(np.float16)}, "b: its dtype fp16 is not a's fp32"),
        ({"a": x.astype(np.int32), "b": x}, r"a\.dtype: 'int32' is no floating-point type"),
        ({"a": [[1.0]], "b": x}, "a: a list is no matrix"),
        (
            {"a": x, "b": x.copy(), "out": np.ones((4, 5), np.float32)},
            r"out: shape \(4, 5\), but the product is \(4, 4\)",
        ),
        ({"a": x, "b": x.copy(), "out": np.ones((4, 4), np.float32), "out_dtype": "fp16"}, "contradicts out's fp32"),
        ({"a": x, "b": x.copy(), "out_dtype": "fp8e5m2"}, "results are fp64, fp32, fp16, bf16"),
        ({"a": x, "b": x.copy(), "mode": "tf32x4"}, "is no mode"),
    ):
        with pytest.raises(UsageError, match=message):
            dispatch.product(**arguments)
    with pytest.raises(UsageError, match=r"c: shape \(2, 4\)"):
        plain(x, x, beta=1.0, c=x[:2])
    with pytest.raises(UsageError, match=r"bias: shape \(3,\)"):
        plain(x, x, bias=x[0, :3])
    with pytest.raises(UsageError, match=r"scale_b: shape \(4, 1\)"):
        plain(x, x, scale_a=x[:, :1], scale_b=x[:, :1])
    with pytest.raises(UsageError, match="scale_b: scales come in pairs"):
        Epilogue(scale_a=x)
    with pytest.raises(UsageError, match=r"beta = 2\.0 needs a matrix C"):
        Epilogue(beta=2.0)
    with pytest.raises(UsageError, match=r"activation: 'rellu' is none of this package\. Did you mean 'relu'"):
        Epilogue(activation="rellu")
    with pytest.raises(UsageError, match="alpha: a real number, given '1'"):
        Epilogue(alpha="1")
    assert element_named("torch.bfloat16").name == "bf16"
