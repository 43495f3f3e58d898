"""The two kernels on the CPU: values, bits, tails, strides, surroundings, and what their launchers refuse."""

import numpy as np
import pytest

import fpsan_tools
from tritongemm.accuracy import measure
from tritongemm.errors import UsageError

# These modules import Triton.
blocked_module = pytest.importorskip("tritongemm.kernels.blocked")
strided_lanes_module = pytest.importorskip("tritongemm.kernels.strided_lanes")
blocked, strided_lanes = blocked_module.blocked, strided_lanes_module.strided_lanes

pytestmark = pytest.mark.triton

BOTH = [(blocked, blocked_module.order()), (strided_lanes, strided_lanes_module.order())]
both = pytest.mark.parametrize(("multiply", "order"), BOTH, ids=["blocked", "strided_lanes"])


def operands(M, K, N, seed=0, dtype=np.float32):
    rng = np.random.default_rng([seed, M, K, N])
    return rng.uniform(-1, 1, (M, K)).astype(dtype), rng.uniform(-1, 1, (K, N)).astype(dtype)


def bits(x):
    return np.ascontiguousarray(x).view(np.uint32)


@both
@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 1),
        (1, 5, 3),
        (16, 32, 16),
        (17, 33, 15),
        (63, 31, 65),
        (5, 255, 2),
        (3, 256, 4),
        (2, 257, 3),
        (70, 300, 67),
    ],
    ids=str,
)
def test_a_product_has_the_bits_of_its_order_of_summation(multiply, order, shape):
    a, b = operands(*shape)
    c = multiply(a, b)
    assert c.dtype == np.float32
    np.testing.assert_array_equal(bits(c), bits(order.simulate(a, b)))
    report = measure(c, a, b, order=order)
    assert report.bound_exceeded == 0


@both
@pytest.mark.parametrize(("M", "K", "N"), [(0, 3, 2), (2, 3, 0), (0, 0, 0), (3, 0, 2)])
def test_empty_products_are_empty_or_zero(multiply, order, M, K, N):
    c = multiply(np.ones((M, K), np.float32), np.ones((K, N), np.float32))
    assert c.shape == (M, N)
    assert (c == 0).all()


def surrounded(x, fill=np.nan):
    """x inside a larger buffer; every element that is not x's is `fill`."""
    whole = np.full((x.shape[0] + 3, 2 * x.shape[1] + 5), fill, x.dtype)
    inside = whole[2:-1, 3:-2:2]
    inside[...] = x
    return whole, inside


@both
def test_nothing_is_read_or_written_beside_the_matrices(multiply, order):
    a, b = operands(19, 37, 21)
    (whole_a, x), (whole_b, y) = surrounded(a), surrounded(b)
    whole_c, c = surrounded(np.zeros((19, 21), np.float32), fill=7)
    kept = whole_a.copy(), whole_b.copy()
    assert multiply(x, y, out=c) is c
    np.testing.assert_array_equal(bits(c), bits(multiply(a, b)))
    c[...] = 7
    assert (whole_c == 7).all()
    for now, before in zip((whole_a, whole_b), kept, strict=True):
        np.testing.assert_array_equal(bits(now), bits(before))


@both
def test_strides_of_every_kind_give_the_same_bits(multiply, order):
    a, b = operands(18, 40, 20)
    want = multiply(a, b)
    views = [
        (np.asfortranarray(a), np.asfortranarray(b)),
        (np.repeat(a, 2, 0)[::2], np.repeat(b, 3, 1)[:, ::3]),
        (a[::-1][::-1], b[:, ::-1][:, ::-1]),
    ]
    for x, y in views:
        np.testing.assert_array_equal(bits(multiply(x, y)), bits(want))
    flipped = multiply(a[::-1], b[:, ::-1])
    np.testing.assert_array_equal(bits(flipped[::-1, ::-1]), bits(want))
    row = np.broadcast_to(a[:1], a.shape)  # stride 0
    np.testing.assert_array_equal(bits(multiply(row, b)), bits(np.broadcast_to(want[:1], want.shape)))


@both
def test_nan_and_infinity_come_out_where_they_belong(multiply, order):
    a, b = operands(5, 50, 4)
    a[1, 7], a[2, 3], a[4, 0] = np.nan, np.inf, np.inf
    a[4, 9], b[9, 0] = np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        want = a.astype(np.float64) @ b.astype(np.float64)
    got = multiply(a, b)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])


@both
def test_a_row_does_not_depend_on_how_many_come_along(multiply, order):
    a, b = operands(70, 100, 40)
    want = multiply(a, b)
    for rows in (1, 2, 3, 17, 64, 65):
        np.testing.assert_array_equal(bits(multiply(a[:rows], b)), bits(want[:rows]))


@both
def test_fp16_operands_are_summed_in_fp32(multiply, order):
    a, b = operands(9, 70, 11, dtype=np.float16)
    wide = [x.astype(np.float32) for x in (a, b)]
    np.testing.assert_array_equal(bits(multiply(a, b, out_dtype=np.float32)), bits(order.simulate(*wide)))
    half = multiply(a, b)
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half, order.simulate(*wide).astype(np.float16))


def test_tile_sizes_do_not_change_the_bits_of_blocked():
    a, b = operands(50, 90, 40)
    want = blocked(a, b)
    for high, wide, deep, group in ((16, 16, 16, 1), (32, 64, 64, 3), (64, 32, 128, 8)):
        c = np.full((50, 40), np.nan, np.float32)
        grid = (-(-50 // high) * -(-40 // wide),)
        blocks = {"BLOCK_M": high, "BLOCK_N": wide, "BLOCK_K": deep, "GROUP_M": group, "enable_fp_fusion": True}
        fpsan_tools.run(
            blocked_module.blocked_kernel, grid, a, b, c, 50, 40, 90, 90, 1, 40, 1, 40, 1, domain="ieee", **blocks
        )
        np.testing.assert_array_equal(bits(c), bits(want))


def test_wide_offsets_are_chosen_from_the_largest_offset(monkeypatch):
    seen = []
    monkeypatch.setattr(
        fpsan_tools, "run", lambda *arguments, WIDE, **rest: seen.append((WIDE, rest["enable_fp_fusion"]))
    )
    small = np.zeros((4, 4), np.float32)
    blocked(small, small)
    far = np.lib.stride_tricks.as_strided(small, (4, 4), (2**32, 4))  # not read: the launch is replaced
    blocked(far, small)
    assert seen == [(False, True), (True, True)]


def test_torch_tensors_on_the_cpu_are_evaluated_too():
    torch = pytest.importorskip("torch")
    a, b = operands(6, 20, 5)
    for multiply, _ in BOTH:
        c = multiply(torch.from_numpy(a), torch.from_numpy(b))
        assert isinstance(c, torch.Tensor)
        np.testing.assert_array_equal(bits(c.numpy()), bits(multiply(a, b)))
        assert multiply(torch.from_numpy(a).bfloat16(), torch.from_numpy(b).bfloat16()).dtype == torch.bfloat16


square, tall = np.zeros((3, 3), np.float32), np.zeros((4, 3), np.float32)


@both
@pytest.mark.parametrize(
    ("arguments", "keywords", "message"),
    [
        ((square, tall), {}, r"b: \(4, 3\) does not fit a \(3, 3\)"),
        ((square, square.astype(np.float16)), {}, "b: its dtype fp16 is not a's fp32"),
        ((square.astype(np.float64), square), {}, r"a\.dtype: 'float64'.*Known: bf16, fp16, fp32"),
        ((square.astype(np.int32), square), {}, r"a\.dtype: 'int32'"),
        ((square[0], square), {}, r"a: a matrix has 2 dimensions, given shape \(3,\)"),
        (([[1.0]], square), {}, "a: a list is no matrix"),
        ((square, square), {"out": tall}, r"out: shape \(4, 3\), but the product is \(3, 3\)"),
        ((square, square), {"out": square, "out_dtype": np.float16}, "out_dtype: .* contradicts"),
        ((square, square), {"out_dtype": np.int8}, r"out_dtype\.dtype: 'int8'"),
    ],
)
def test_operands_that_do_not_fit_are_named(multiply, order, arguments, keywords, message):
    with pytest.raises(UsageError, match=message):
        multiply(*arguments, **keywords)
