"""On an H200: the warp-specialised and emulated kernels give the predicted bits, for any shape and strides, and write
nothing beside their result.

    python3 -m pytest packages/tritongemm/tests/test_tritongemm_hopper_gpu.py -m gpu

No GPU is a failure here, never a skip.
"""

import numpy as np
import pytest
from tritongemm_gpu import bits, numbers, predicted

pytestmark = pytest.mark.gpu


SHAPES = [(64, 64, 64), (128, 256, 256), (130, 200, 67), (1, 513, 300), (300, 96, 520), (257, 1030, 264)]
TENSOR_CORE = [
    ("ieee", "bfloat16"), ("ieee", "float16"), ("tf32", "float32"), ("tf32_even", "float32"),
    ("fast", "float8_e4m3fn"), ("ieee", "float8_e4m3fn"), ("promote64", "float8_e4m3fn"),
]  # fmt: skip


def config_for(mode, dtype, **changes):
    from tritongemm.configurations import Config
    from tritongemm.kernels.hopper.warp_specialised import KINDS

    names = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8_e4m3fn": "fp8e4m3fn"}
    kind = KINDS[mode, names[dtype]]
    given = {"block_m": 128, "block_n": min(kind.block_n, 128), "block_k": kind.block_k, "stages": 3} | changes
    return Config(kernel="warp_specialised", **given)


@pytest.mark.parametrize(("mode", "dtype"), TENSOR_CORE, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tensor_core_sums_have_the_predicted_bits(torch, mode, dtype, shape):
    from tritongemm import dispatch

    M, K, N = shape
    kind = getattr(torch, dtype)
    a, b = numbers(torch, M, K, kind), numbers(torch, N, K, kind, 1).t()
    out = torch.full((M, N), float("nan"), device="cuda")
    dispatch.product(a, b, mode=mode, out=out, config=config_for(mode, dtype))
    np.testing.assert_array_equal(bits(out), predicted(torch, mode, a, b).view(np.uint32))


@pytest.mark.parametrize(
    "changes",
    [
        {"block_n": 256}, {"block_n": 64}, {"block_n": 32}, {"block_m": 64}, {"block_m": 256},
        {"block_m": 64, "block_n": 32, "stages": 6},

        {"block_k": 128, "stages": 2}, {"block_m": 256, "ctas": 2}, {"block_n": 256, "block_m": 256, "ctas": 2},
    ],
    ids=str,
)  # fmt: skip
def test_tiles_do_not_change_a_bit(torch, changes):
    from tritongemm import dispatch

    a, b = numbers(torch, 700, 333, torch.bfloat16), numbers(torch, 333, 612, torch.bfloat16, 1)
    want = dispatch.product(a, b, config=config_for("ieee", "bfloat16"))
    for _ in range(3):
        got = dispatch.product(a, b, config=config_for("ieee", "bfloat16", **changes))
        np.testing.assert_array_equal(bits(got), bits(want))


@pytest.mark.parametrize(
    ("mode", "changes"),
    [
        ("tf32", {"block_n": 256, "stages": 4}), ("tf32_even", {"block_n": 256, "stages": 4}),
        ("tf32", {"block_n": 64, "stages": 2}), ("tf32", {"block_m": 64, "block_n": 32, "block_k": 64}),
    ],
    ids=["wide", "rounded", "narrow", "deep"],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(257, 1030, 264), (36, 52, 303)], ids=str)
def test_tf32_operands_of_either_axis_have_the_predicted_bits(torch, shape, mode, changes):
    from tritongemm import dispatch
    from tritongemm.kernels.epilogue import Epilogue

    M, K, N = shape
    a, b = numbers(torch, M, K, torch.float32), numbers(torch, K, N, torch.float32, 1)
    want = predicted(torch, mode, a, b)
    config = config_for(mode, "float32", **changes)
    hard_a, hard_b = a.clone(), b.clone()
    hard_a[5, 7], hard_a[9, 3], hard_b[4, 20] = float("inf"), float("nan"), float("-inf")
    hard_a[12, :] *= 2.0**-140
    c, bias = numbers(torch, M, N, torch.float32, 2), numbers(torch, 1, N, torch.float32, 3)[0]
    epilogue = Epilogue(beta=0.5, c=c, bias=bias)
    seen = []
    for left in (lambda x: x, lambda x: x.t().contiguous().t()):
        for right in (lambda x: x, lambda x: x.t().contiguous().t()):
            whole = torch.full((M + 2, N + 8), 7.0, device="cuda")
            out = whole[1:-1, 4 : 4 + N]
            dispatch.product(left(a), right(b), mode=mode, out=out, config=config)
            np.testing.assert_array_equal(bits(out), want.view(np.uint32))
            out.fill_(7.0)
            assert bool((whole == 7).all())
            got = dispatch.product(left(a), right(b), mode=mode, config=config, epilogue=epilogue)
            np.testing.assert_array_equal(bits(got), bits(0.5 * c + (torch.from_numpy(want).cuda() + bias)))
            seen.append(dispatch.product(left(hard_a), right(hard_b), mode=mode, config=config).cpu().numpy())
    assert np.isnan(seen[0][9]).all()
    assert np.isinf(seen[0][5]).sum() >= N - 2
    for other in seen[1:]:
        np.testing.assert_array_equal(other, seen[0])


BLOCK_SCALED = [
    ((150, 1030, 260), {}), ((64, 256, 128), {"block_m": 64, "block_n": 64}), ((1, 130, 40), {"block_m": 64}),
    ((70, 384, 264), {"block_n": 32, "stages": 6}), ((300, 260, 150), {"block_m": 256, "ctas": 2}),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize(("shape", "changes"), BLOCK_SCALED, ids=str)
def test_scales_of_blocks_have_the_predicted_bits(torch, dtype, shape, changes):
    from tritongemm import dispatch
    from tritongemm.kernels.block_scaled import predict_block_scaled
    from tritongemm.kernels.epilogue import Epilogue

    M, K, N = shape
    kind = getattr(torch, dtype)
    a, b = numbers(torch, M, K, kind), numbers(torch, N, K, kind, 1).t()
    rng = np.random.default_rng(list(shape))
    blocks = -(-K // 128)
    scale_a = np.ldexp(rng.uniform(0.5, 1, (M, blocks)), rng.integers(-60, 60, (M, 1))).astype(np.float32)
    scale_b = np.ldexp(rng.uniform(0.5, 1, (blocks, -(-N // 128))), rng.integers(-9, 9, (blocks, 1))).astype(np.float32)
    scale_a[M // 2] = 2.0**-126  # sums that underflow, and would be -0
    config = config_for("ieee", "float8_e4m3fn", **changes)
    rows, columns = torch.from_numpy(scale_a).cuda(), torch.from_numpy(scale_b).cuda()
    want = predict_block_scaled(a.cpu(), b.cpu(), scale_a, scale_b)
    for x, y in ((rows, columns), (rows.t().contiguous().t(), columns.t().contiguous().t())):
        whole = torch.full((M + 2, N + 3), 7.0, device="cuda")
        out = whole[1:-1, 2 : 2 + N]
        dispatch.scaled_product(a, b, x, y, out=out, config=config)
        np.testing.assert_array_equal(bits(out), want.view(np.uint32))
        out.fill_(7.0)
        assert bool((whole == 7).all())
    c, bias = numbers(torch, M, N, torch.float32, 2), numbers(torch, 1, N, torch.float32, 3)[0]
    epilogue = Epilogue(alpha=1.5, beta=-0.5, c=c, bias=bias, activation="silu")
    other = config.changed(kernel="block_scaled", block_m=64, block_n=64, ctas=1, stages=3)
    got, wanted = (
        dispatch.scaled_product(a, b, rows, columns, epilogue=epilogue, config=x, out_dtype="float32")
        for x in (config, other)
    )
    np.testing.assert_array_equal(bits(got), bits(wanted))


@pytest.mark.parametrize(("splits", "block_k"), [(2, 64), (3, 64), (5, 128)])
def test_parts_of_k_are_added_in_ascending_order(torch, splits, block_k):
    from numfmt import matrix_units
    from tritongemm import dispatch
    from tritongemm.configurations import Config

    a, b = numbers(torch, 33, 1030, torch.bfloat16), numbers(torch, 1030, 300, torch.bfloat16, 1)
    config = Config(kernel="warp_specialised_split", block_m=64, block_n=64, block_k=block_k, stages=4, splits=splits)
    got = dispatch.product(a, b, out_dtype="float32", config=config, invariant=False)
    steps = -(-1030 // block_k)
    share = -(-steps // splits) * block_k
    x, y = a.float().cpu().numpy(), b.float().cpu().numpy()
    parts = [
        matrix_units.matmul(x[:, k : k + share], y[k : k + share], unit="hopper.wgmma", inputs="bf16", pad_k=True)
        for k in range(0, 1030, share)
    ]
    want = parts[0]
    for part in parts[1:]:
        want = want + part
    np.testing.assert_array_equal(bits(got), want.view(np.uint32))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float8_e4m3fn"])
def test_strides_do_not_change_a_bit(torch, dtype):
    from tritongemm import dispatch

    mode = {"bfloat16": "ieee", "float32": "tf32", "float8_e4m3fn": "fast"}[dtype]
    kind = getattr(torch, dtype)
    M, K, N = 200, 264, 136
    a, b = numbers(torch, M, K, kind), numbers(torch, K, N, kind, 1)
    config = config_for(mode, dtype)
    want = bits(dispatch.product(a, b, mode=mode, config=config, out_dtype="float32"))
    gapped_a = torch.zeros((M, 2 * K), device="cuda").to(kind)[:, ::2]
    gapped_a.copy_(a)
    odd = torch.zeros(K * N + 3, device="cuda").to(kind)[3:].view(K, N)
    odd.copy_(b)
    columns = b.t().contiguous().t()
    rows = a.t().contiguous().t()
    for x, y in ((a, columns), (rows, b), (rows, columns), (gapped_a, b), (a, odd), (gapped_a, odd)):
        got = bits(dispatch.product(x, y, mode=mode, config=config, out_dtype="float32"))
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("mode", "dtype"), [("ieee", "bfloat16"), ("tf32", "float32"), ("ieee", "float8_e4m3fn")], ids=str
)
@pytest.mark.parametrize("shape", [(130, 208, 72), (130, 201, 67)], ids=str)
def test_a_batch_is_one_launch_with_the_bits_of_its_products(torch, mode, dtype, shape):
    from tritongemm import dispatch, launches
    from tritongemm.kernels.epilogue import Epilogue

    M, K, N = shape
    kind = getattr(torch, dtype)
    batch = 20
    xs, ys = numbers(torch, batch * M, K, kind), numbers(torch, batch * K, N, kind, 1)
    a, b = xs.view(batch, M, K), ys.view(batch, K, N)
    c = numbers(torch, batch * M, N, torch.float32, 2).view(batch, M, N)
    config = config_for(mode, dtype)
    want = torch.stack(
        [dispatch.product(a[i], b[i], mode=mode, config=config, out_dtype="float32") for i in range(batch)]
    )
    np.testing.assert_array_equal(bits(want[3]), predicted(torch, mode, a[3], b[3]).view(np.uint32))
    along_k = [x.mT.contiguous().mT for x in (a, b)]
    for x, y in ((a, b), (a, along_k[1]), (along_k[0], b), (along_k[0], along_k[1])):
        whole = torch.full((batch, M + 2, N + 5), 7.0, device="cuda")
        out = whole[:, 1:-1, 4 : 4 + N]
        with launches.record() as record:
            dispatch.product(x, y, mode=mode, config=config, out=out)
        if K % 16 == 0 and (y is not b or "float8" not in dtype) and (x is a or "float8" not in dtype):
            assert [launch[0].metadata.name for launch in record.launches].count("product_kernel") == 1
        np.testing.assert_array_equal(bits(out), bits(want))
        out.fill_(7.0)
        assert bool((whole == 7).all())
        got = dispatch.product(x, y, mode=mode, config=config, out_dtype="float32", epilogue=Epilogue(beta=0.5, c=c))
        np.testing.assert_array_equal(bits(got), bits(want + 0.5 * c))
    repeated = a[:1].expand(batch, M, K)
    got = dispatch.product(repeated, b, mode=mode, config=config, out_dtype="float32")
    np.testing.assert_array_equal(bits(got[0]), bits(want[0]))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_batches_are_launched_from_memory_on_other_tensors(torch, dtype):
    import tritongemm
    from tritongemm import dispatch

    kind = getattr(torch, dtype)
    mode = {"bfloat16": "ieee", "float32": "tf32_even"}[dtype]
    for seed in range(4):
        a, b = (numbers(torch, 6 * 256, 256, kind, s).view(6, 256, 256) for s in (seed, seed + 10))
        got = tritongemm.bmm(a, b, precision=mode)
        config = config_for(mode, dtype)
        want = torch.stack([dispatch.product(a[i], b[i], mode=mode, config=config) for i in range(6)])
        np.testing.assert_array_equal(bits(got), bits(want))


@pytest.mark.parametrize("N", [1, 7, 8, 9, 63, 65, 100])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nothing_is_written_beside_the_result(torch, N, dtype):
    from tritongemm import dispatch

    kind = getattr(torch, dtype)
    a, b = numbers(torch, 67, 96, torch.bfloat16), numbers(torch, 96, N, torch.bfloat16, 1)
    for columns in (N + 13, -(-N // 8) * 8 + 16):
        whole = torch.full((71, columns), 7.0, device="cuda", dtype=kind)
        out = whole[2:69, 4 : 4 + N] if columns == N + 13 else whole[2:69, 8 : 8 + N]
        dispatch.product(a, b, out=out, config=config_for("ieee", "bfloat16"))
        want = dispatch.product(a, b, out_dtype=dtype, config=config_for("ieee", "bfloat16"))
        np.testing.assert_array_equal(bits(out), bits(want))
        out.fill_(7.0)
        assert bool((whole == 7).all())


@pytest.mark.parametrize(
    ("mode", "activation"), [("ieee", "silu"), ("fp16x3", None), ("fp16x3", "gelu"), ("int8x6", "relu")]
)
def test_epilogues_have_the_bits_of_the_other_kernels(torch, mode, activation):
    from tritongemm import dispatch, launches, modes
    from tritongemm.kernels.epilogue import Epilogue
    from tritongemm.kernels.finishing import finish
    from tritongemm.kernels.problems import Operands

    kind = torch.bfloat16 if mode == "ieee" else torch.float32
    M, K, N = 100, 300, 72
    a, b = numbers(torch, M, K, kind), numbers(torch, K, N, kind, 1)
    c, bias = numbers(torch, M, N, torch.float32, 2), numbers(torch, 1, N, torch.float32, 3)[0]
    config = config_for("ieee", "bfloat16") if mode == "ieee" else None
    epilogues = [
        Epilogue(activation=activation, **given)
        for given in (
            {"c": c, "beta": 0.5, "alpha": 1.25, "bias": bias},
            {"bias": bias},
            {"alpha": -3.0},
            {"c": c, "beta": 1.0},
        )
    ]

    def product(epilogue=None):
        return dispatch.product(a, b, mode=mode, out_dtype="float32", epilogue=epilogue, config=config)

    def alone(epilogue, sums):
        """The epilogue by the kernel that joins partial sums."""
        want = torch.empty_like(sums)
        finish(Operands.of(a, b, modes.get(mode), out=want, epilogue=epilogue), sums[None, None].contiguous())
        return want

    with launches.compiling_ahead():
        for epilogue in epilogues:
            alone(epilogue, product(epilogue))
    sums = product()
    for epilogue in epilogues:
        np.testing.assert_array_equal(bits(product(epilogue)), bits(alone(epilogue, sums)))


@pytest.mark.parametrize("shape", [(64, 64, 64), (300, 1030, 515), (129, 37, 257), (1, 5, 3)], ids=str)
def test_fp32_chains_have_the_predicted_bits(torch, shape):
    from tritongemm import dispatch
    from tritongemm.configurations import Config
    from tritongemm.kernels.epilogue import Epilogue

    M, K, N = shape
    config = Config(kernel="simt", block_m=128, block_n=256, block_k=32, warps=8)
    a, b = numbers(torch, M, K, torch.float32), numbers(torch, K, N, torch.float32, 1)
    want = predicted(torch, "ieee", a, b).view(np.uint32)
    for x, y in ((a, b), (a.t().contiguous().t(), b), (a, b.t().contiguous().t())):
        whole = torch.full((M + 2, N + 3), 7.0, device="cuda")
        out = whole[1:-1, 2 : 2 + N]
        dispatch.product(x, y, out=out, config=config)
        np.testing.assert_array_equal(bits(out), want)
        out.fill_(7.0)
        assert bool((whole == 7).all())
    c, bias = numbers(torch, M, N, torch.float32, 2), numbers(torch, 1, N, torch.float32, 3)[0]
    epilogue = Epilogue(alpha=1.5, beta=-0.5, c=c, bias=bias, activation="silu")
    other = Config(kernel="blocked", block_m=64, block_n=64, block_k=32)
    got, wanted = (dispatch.product(a, b, epilogue=epilogue, config=x) for x in (config, other))
    np.testing.assert_array_equal(bits(got), bits(wanted))


@pytest.mark.parametrize(("depth", "stages"), [(32, 4), (16, 8), (64, 2)])
def test_fp32_chains_are_the_same_in_every_run(torch, depth, stages):
    """Stages are overwritten while other warps still read, multiply and store: four tiles per program, many runs."""
    from tritongemm import dispatch
    from tritongemm.configurations import Config

    a, b = numbers(torch, 4096, 512, torch.float32), numbers(torch, 512, 4096, torch.float32, 1)
    config = Config(kernel="simt", block_m=128, block_n=256, block_k=depth, warps=8, stages=stages)
    want = dispatch.product(a, b, config=Config(kernel="blocked", block_m=64, block_n=64, block_k=32))
    out = torch.empty_like(want)
    for _ in range(100):
        dispatch.product(a, b, out=out.fill_(float("nan")), config=config)
        assert torch.equal(out, want)


# ------------------------------------------------------------------------------------------------------------ emulation
def hard(torch, M, K, N):
    """Rows and columns of every scale, zeros among them."""
    rng = np.random.default_rng([M, K, N])
    a, b = rng.normal(size=(M, K)), rng.normal(size=(K, N))
    powers_m = rng.choice([0, 0, 0, 1, -20, 60, -60, 126, -126, -140], M)
    powers_n = rng.choice([0, 0, 0, 1, -20, 60, -60, 120, -126, -140], N)
    with np.errstate(all="ignore"):
        a, b = np.ldexp(a, powers_m[:, None]).astype(np.float32), np.ldexp(b, powers_n[None, :]).astype(np.float32)
    a[M // 2] = 0
    b[:, N // 3] = 0
    return torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()


EMULATED_SHAPES = [(64, 64, 64), (130, 200, 67), (3, 5, 4), (1, 530, 300), (257, 96, 129)]


@pytest.mark.parametrize("mode", ["fp16x3", "int8x6"])
@pytest.mark.parametrize("guard", [True, False])
@pytest.mark.parametrize("shape", EMULATED_SHAPES, ids=str)
def test_emulated_products_have_the_predicted_bits(torch, mode, guard, shape):
    from tritongemm import emulation
    from tritongemm.kernels.hopper import emulated

    M, K, N = shape
    a, b = hard(torch, M, K, N)
    arithmetic = emulation.FP16X3 if mode == "fp16x3" else emulation.INT8X6
    want = arithmetic.predict(a.cpu().numpy(), b.cpu().numpy(), guard=guard)
    views = [(a, b), (a, b.t().contiguous().t()), (a.t().contiguous().t(), b)]
    for x, y in views if shape == (130, 200, 67) else views[:1]:
        out = torch.full((M, N), float("nan"), device="cuda")
        facts = emulated.multiply(x, y, out, mode, guard=guard)
        np.testing.assert_array_equal(bits(out), want.view(np.uint32))
        assert guard or int(facts[0]) == emulation.KEEP


@pytest.mark.parametrize("shape", [(64, 64, 64), (130, 200, 67), (257, 777, 264)], ids=str)
def test_bf16x6_has_the_bits_of_the_dot_that_splits_on_the_fly(torch, shape):
    from tritongemm.kernels.hopper import emulated

    M, K, N = shape
    a, b = numbers(torch, M, K, torch.float32), numbers(torch, K, N, torch.float32, 1)
    out = torch.full((M, N), float("nan"), device="cuda")
    emulated.multiply(a, b, out, "bf16x6")
    np.testing.assert_array_equal(bits(out), predicted(torch, "bf16x6", a, b).view(np.uint32))


@pytest.mark.parametrize("mode", ["fp16x3", "int8x6", "bf16x6"])
def test_inf_and_nan_come_out_as_fp32_arithmetic_has_them(torch, mode):
    from tritongemm.kernels.hopper import emulated

    a, b = numbers(torch, 150, 96, torch.float32), numbers(torch, 96, 140, torch.float32, 1)
    a[3, 5] = float("inf")
    a[70, 2] = float("nan")
    a[71, 0], a[71, 1] = float("inf"), float("-inf")
    b[7, 100] = float("-inf")
    b[9, 139] = float("nan")
    b[5, 9] = 0.0
    out = torch.empty((150, 140), device="cuda")
    facts = emulated.multiply(a, b, out, mode)
    want = a.double() @ b.double()
    assert torch.equal(torch.isnan(out), torch.isnan(want))
    infinite = torch.isinf(want)
    assert torch.equal(out[infinite].double(), want[infinite])
    finite = torch.isfinite(want)
    assert bool(((out.double() - want).abs() <= 1e-5 * (a.abs().double() @ b.abs().double()))[finite].all())
    assert int(facts[1]) == 1


def test_guard_falls_back_and_says_so(torch):
    from tritongemm import dispatch, emulation

    a, b = numbers(torch, 140, 256, torch.float32), numbers(torch, 256, 136, torch.float32, 1)
    dispatch.product(a, b, mode="fp16x3")
    assert emulation.last_outcome().modes == ("fp16x3",)
    wide = a.clone()
    wide[:, 0] *= 2.0**30
    got = dispatch.product(wide, b, mode="fp16x3")
    assert emulation.last_outcome().modes == ("bf16x6",)
    np.testing.assert_array_equal(bits(got), predicted(torch, "fp16x3", wide, b).view(np.uint32))
    got = dispatch.product(wide, b, mode="int8x6")
    assert emulation.last_outcome().modes == ("ieee",)
    np.testing.assert_array_equal(bits(got), predicted(torch, "int8x6", wide, b).view(np.uint32))
    tiny = wide * 2.0**-140
    got = dispatch.product(tiny, b, mode="fp16x3")
    assert emulation.last_outcome().modes == ("ieee",)
    np.testing.assert_array_equal(bits(got), predicted(torch, "fp16x3", tiny, b).view(np.uint32))


def test_auto_takes_the_fastest_mode_that_is_accurate_enough(torch):
    from tritongemm import dispatch, emulation

    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (70, 1024)).astype(np.float32), rng.uniform(-1, 1, (1024, 90)).astype(np.float32)
    a, b = torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda()
    wide = torch.from_numpy(np.ldexp(x, rng.integers(-8, 9, x.shape)).astype(np.float32)).cuda()
    huge = a.clone()
    huge[:, 0] *= 2.0**40
    for operand, want in ((a, "int8x6"), (wide, "fp16x3"), (huge, "bf16x6")):
        for _ in range(2):
            got = dispatch.product(operand, b, mode="auto")
        assert emulation.last_outcome().modes == (want,)
        np.testing.assert_array_equal(bits(got), emulation.AUTO.predict(operand.cpu().numpy(), y).view(np.uint32))


def test_prepared_weights_give_the_same_bits(torch):
    from tritongemm import dispatch, emulation

    a, b = numbers(torch, 140, 256, torch.float32), numbers(torch, 256, 136, torch.float32, 1)
    for mode in ("fp16x3", "int8x6", "bf16x6"):
        want = dispatch.product(a, b, mode=mode)
        np.testing.assert_array_equal(bits(emulation.product(a, emulation.prepare(b, mode))), bits(want))


def test_int8x6_chunks_long_sums(torch):
    from tritongemm import emulation
    from tritongemm.kernels.hopper import emulated

    a, b = numbers(torch, 9, 70000, torch.float32), numbers(torch, 70000, 12, torch.float32, 1)
    a[:4] = 1.0  # digits of one sign: int32 would overflow
    b[:, :5] = 0.999999
    out = torch.empty((9, 12), device="cuda")
    emulated.multiply(a, b, out, "int8x6", guard=False)
    want = emulation.INT8X6.predict(a.cpu().numpy(), b.cpu().numpy(), guard=False)
    np.testing.assert_array_equal(bits(out), want.view(np.uint32))


def test_products_in_a_cuda_graph_decide_again_on_new_data(torch):
    from tritongemm.kernels.hopper import emulated

    a, b = numbers(torch, 140, 256, torch.float32), numbers(torch, 256, 136, torch.float32, 1)
    out = torch.empty((140, 136), device="cuda")
    emulated.multiply(a, b, out, "fp16x3")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        facts = emulated.multiply(a, b, out, "fp16x3")
    graph.replay()
    assert int(facts[0]) == 0
    a[:, 0] *= 2.0**30
    graph.replay()
    assert int(facts[0]) == 1
    np.testing.assert_array_equal(bits(out), predicted(torch, "fp16x3", a, b).view(np.uint32))


@pytest.mark.parametrize(("M", "K", "N"), [(2500, 528, 2700), (5100, 2064, 1300)])
def test_rows_that_are_cut_during_the_product_have_the_same_parts(torch, monkeypatch, M, K, N):
    from dataclasses import replace

    from tritongemm.kernels.hopper import emulated

    monkeypatch.setattr(emulated, "_LEAST_ROUNDS", 4)  # of fewer tiles, for time's sake
    plan = emulated.EMULATIONS["int8x6"]
    a, b = hard(torch, M, K, N)
    a[M - 3, 5], a[M - 200, 7], b[9, 11] = float("inf"), float("nan"), float("-inf")
    a = torch.nn.functional.pad(a, (0, 16))[:, :K]  # rows that are not beside each other
    for guard in (False, True):
        found = []
        for rate in (0.0, 0.5, 1000.0):
            monkeypatch.setitem(emulated.EMULATIONS, "int8x6", replace(plan, cut_rate=rate))
            share = emulated.share_of(M, K, N, rate, plan.shape, 132)
            assert (share is None) == (rate == 0.0)
            out = torch.full((M, N), float("nan"), device="cuda")
            facts = emulated.multiply(a, b, out, "int8x6", guard=guard)
            found.append((bits(out), facts.tolist()))
        for got, facts in found[1:]:
            assert facts == found[0][1]
            np.testing.assert_array_equal(got, found[0][0])
