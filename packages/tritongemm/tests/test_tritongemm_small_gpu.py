"""The kernel for products of few rows, on a GPU: bits as predicted, whatever surrounds the operands."""

import numpy as np
import pytest
from tritongemm_gpu import bits, numbers, predicted

pytestmark = pytest.mark.gpu


MODES = [
    ("ieee", "bfloat16"),
    ("ieee", "float16"),
    ("tf32", "float32"),
    ("fast", "float8_e4m3fn"),
    ("ieee", "float8_e4m3fn"),
]


def config_for(dtype, **changes):
    from tritongemm.configurations import Config

    width = {"float32": 32, "float8_e4m3fn": 128}.get(dtype, 64)
    deep = changes.pop("deep", 2)
    given = {"block_m": 64, "block_n": 64, "block_k": deep * width, "stages": 3} | changes
    return Config(kernel="small_split" if given.get("splits", 1) > 1 else "small", **given)


@pytest.mark.parametrize(("mode", "dtype"), MODES, ids=str)
@pytest.mark.parametrize(
    "shape", [(1, 513, 300), (16, 256, 64), (17, 64, 520), (64, 1030, 67), (130, 200, 264)], ids=str
)
def test_sums_of_few_rows_have_the_predicted_bits(torch, mode, dtype, shape):
    from tritongemm import dispatch

    M, K, N = shape
    a, b = numbers(torch, M, K, dtype), numbers(torch, N, K, dtype, 1).t()
    out = torch.full((M, N), float("nan"), device="cuda")
    dispatch.product(a, b, mode=mode, out=out, config=config_for(dtype))
    np.testing.assert_array_equal(bits(out), predicted(torch, mode, a, b).view(np.uint32))


@pytest.mark.parametrize(
    "changes",
    [
        {"block_n": 32}, {"block_n": 128, "stages": 2}, {"block_n": 256, "stages": 2}, {"block_m": 128}, {"deep": 1},
        {"deep": 4, "stages": 2}, {"stages": 6},
    ],
    ids=str,
)  # fmt: skip
def test_neither_tiles_nor_rows_nor_strides_change_a_bit(torch, changes):
    from tritongemm import dispatch
    from tritongemm.configurations import Config

    a, b = numbers(torch, 500, 333, "bfloat16"), numbers(torch, 333, 612, "bfloat16", 1)
    other = Config(kernel="warp_specialised", block_m=128, block_n=128, block_k=64)
    want = bits(dispatch.product(a, b, config=other, out_dtype="float32"))
    config = config_for("bfloat16", **changes)
    columns = b.t().contiguous().t()
    ragged = torch.zeros((333, 613), device="cuda", dtype=a.dtype)[:, 1:].copy_(b)
    for M in (1, 2, 3, 16, 17, 64, 65, 127, 500):
        first, last = slice(0, M), slice(500 - M, 500)
        for rows, x, y in (
            (first, a[first], b),
            (last, a[last], columns),
            (first, a[first].t().contiguous().t(), ragged),
        ):
            got = bits(dispatch.product(x, y, config=config, out_dtype="float32"))
            np.testing.assert_array_equal(got, want[rows])


def test_as_many_columns_as_leave_no_multiprocessor_two_tiles(torch):
    from tritongemm import dispatch
    from tritongemm.kernels.hopper import small
    from tritongemm.kernels.hopper.matrices import multiprocessors

    N = multiprocessors(0) * 140
    config = config_for("bfloat16", block_n=128)
    assert small.cut_of(config, 16, N, 2, multiprocessors(0)).extra == 16
    a, b = numbers(torch, 5, 200, "bfloat16"), numbers(torch, N, 200, "bfloat16", 1).t()
    for splits in (1, 2):
        one = config.changed(
            splits=splits, kernel="small_split" if splits > 1 else "small", block_n=128 * splits, stages=2
        )
        other = one.changed(block_n=32, stages=4)
        assert small.cut_of(one, 5, N, 2, multiprocessors(0)).extra == 16 * splits
        got, want = (dispatch.product(a, b, config=x, invariant=False, out_dtype="float32") for x in (one, other))
        np.testing.assert_array_equal(bits(got), bits(want))


@pytest.mark.parametrize(("splits", "deep"), [(2, 1), (2, 2), (4, 1)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("rows", [64, 128])
def test_parts_of_k_are_added_in_ascending_order_in_a_cluster(torch, dtype, splits, deep, rows):
    from tritongemm import dispatch, modes
    from tritongemm.kernels.split_k import predict_in_parts

    mode = "tf32" if dtype == "float32" else "ieee"
    a, b = numbers(torch, 33, 1030, dtype), numbers(torch, 300, 1030, dtype, 1).t()
    config = config_for(dtype, splits=splits, deep=deep, block_m=rows)
    got = dispatch.product(a, b, mode=mode, out_dtype="float32", config=config, invariant=False)
    steps = -(-1030 // config.block_k)
    share = -(-steps // splits) * config.block_k
    x, y = (z.cpu() for z in (a, b))
    want = predict_in_parts(modes.get(mode), x, y, list(range(0, 1030, share)))
    np.testing.assert_array_equal(bits(got), want.view(np.uint32))
    again = dispatch.product(a, b, mode=mode, out_dtype="float32", config=config, invariant=False)
    assert torch.equal(got, again)


@pytest.mark.parametrize("splits", [1, 2, 4])
@pytest.mark.parametrize("N", [1, 7, 63, 65, 100])
def test_nothing_is_read_or_written_beside_the_matrices(torch, splits, N):
    from tritongemm import dispatch

    config = config_for("bfloat16", splits=splits, deep=1)
    M, K = 5, 296
    a, b = numbers(torch, M, K, "bfloat16"), numbers(torch, N, K, "bfloat16", 1).t()
    want = dispatch.product(a, b, config=config, invariant=False, out_dtype="float32")
    assert bool(torch.isfinite(want).all())
    around_a = torch.full((M + 4, K + 16), float("nan"), device="cuda", dtype=a.dtype)
    around_b = torch.full((N + 4, K + 16), float("nan"), device="cuda", dtype=a.dtype)
    around_a[2 : 2 + M, 8 : 8 + K] = a
    around_b[2 : 2 + N, 8 : 8 + K] = b.t()
    whole = torch.full((M + 4, N + 13), 7.0, device="cuda")
    out = whole[2 : 2 + M, 4 : 4 + N]
    x, y = around_a[2 : 2 + M, 8 : 8 + K], around_b[2 : 2 + N, 8 : 8 + K].t()
    dispatch.product(x, y, out=out, config=config, invariant=False)
    np.testing.assert_array_equal(bits(out), bits(want))
    out.fill_(7.0)
    assert bool((whole == 7).all())


@pytest.mark.parametrize("splits", [1, 2])
def test_epilogues_have_the_bits_of_the_kernel_that_joins_sums(torch, splits):
    from tritongemm import dispatch, modes
    from tritongemm.kernels.epilogue import Epilogue
    from tritongemm.kernels.finishing import finish
    from tritongemm.kernels.problems import Operands

    M, K, N = 20, 1030, 72
    a, b = numbers(torch, M, K, "bfloat16"), numbers(torch, N, K, "bfloat16", 1).t()
    c, bias = numbers(torch, M, N, "float32", 2), numbers(torch, 1, N, "float32", 3)[0]
    scales = {"scale_a": numbers(torch, M, 1, "float32", 4), "scale_b": numbers(torch, 1, N, "float32", 5)}
    config = config_for("bfloat16", splits=splits)
    sums = dispatch.product(a, b, out_dtype="float32", config=config, invariant=False)
    for given in (
        {"c": c, "beta": 0.5, "alpha": 1.25, "bias": bias, "activation": "silu"}, {"bias": bias}, {"alpha": -3.0},
        {"c": c, "beta": 1.0, "activation": "relu"}, scales, {**scales, "alpha": 0.7, "bias": bias},
    ):  # fmt: skip
        epilogue = Epilogue(**given)
        got = dispatch.product(a, b, out_dtype="float32", epilogue=epilogue, config=config, invariant=False)
        want = torch.empty_like(got)
        finish(Operands.of(a, b, modes.get("ieee"), out=want, epilogue=epilogue), sums[None, None].contiguous())
        np.testing.assert_array_equal(bits(got), bits(want))


@pytest.mark.parametrize("invariant", [True, False])
def test_products_of_few_rows_take_it_and_are_launched_from_memory(torch, invariant):
    import tritongemm
    from tritongemm import dispatch, eager, modes
    from tritongemm.kernels.epilogue import Epilogue
    from tritongemm.kernels.problems import Operands

    b = [numbers(torch, 4096, 4096, "bfloat16", i).t() for i in range(2)]
    for M in (1, 16, 64):
        a = [numbers(torch, M, 4096, "bfloat16", i) for i in range(2)]
        chosen, config = dispatch.choose(
            Operands.of(a[0], b[0], modes.get("ieee"), epilogue=Epilogue()), None, invariant
        )
        assert chosen.kernel == ("small" if config.splits == 1 else "small_split")
        eager.clear()
        want = [tritongemm.mm(x, y, invariant=invariant) for x, y in zip(a, b, strict=True)]
        assert len(eager._plans) == 1
        got = [tritongemm.mm(x, y, invariant=invariant) for x, y in zip(a, b, strict=True)]
        assert all(torch.equal(x, y) for x, y in zip(got, want, strict=True))
        if invariant:
            tall = tritongemm.mm(torch.cat([a[0]] * 8), b[0])
            assert torch.equal(tall[: len(a[0])], want[0])
