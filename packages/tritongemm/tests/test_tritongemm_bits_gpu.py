"""On an H200: every kernel and mode has the predicted bits, every run the same ones, and a row's do not depend on M.

python3 -m pytest packages/tritongemm/tests/test_tritongemm_bits_gpu.py -m gpu
"""

import numpy as np
import pytest

pytest.importorskip("triton")
torch = pytest.importorskip("torch")

from tritongemm_cases import KINDS, SHAPES, bits, operands, tensor, typed  # noqa: E402
from tritongemm_ways import KERNELS, TILES, result_of  # noqa: E402

from tritongemm import dispatch, launches, modes  # noqa: E402
from tritongemm.configurations import Config  # noqa: E402
from tritongemm.kernels.blocked import blocked_config  # noqa: E402
from tritongemm.kernels.epilogue import Epilogue  # noqa: E402
from tritongemm.kernels.problems import Operands  # noqa: E402

pytestmark = pytest.mark.gpu

MODES = [
    pytest.param(mode.name, dtype, id=f"{mode.name}-{dtype}")
    for mode in modes.MODES.values()
    for dtype in mode.operands
    if mode.arithmetic[dtype].dot is not None
]


@pytest.fixture(autouse=True, scope="module")
def h200():
    assert torch.cuda.is_available(), "no CUDA GPU"
    assert torch.cuda.get_device_capability()[0] == 9, "the predictions are for Hopper"


def config_for(x, y, mode):
    return blocked_config(Operands.of(x, y, modes.get(mode), epilogue=Epilogue()))


@pytest.mark.parametrize(("mode", "dtype"), MODES)
def test_blocked_has_the_predicted_bits_in_every_mode(mode, dtype):
    for shape in SHAPES:
        for kind in KINDS:
            a, b = operands(kind, shape, dtype, seed=11)
            x, y = tensor(a, dtype), tensor(b, dtype)
            got = dispatch.product(x, y, mode=mode, out_dtype=result_of(dtype), config=config_for(x, y, mode))
            want = bits(modes.get(mode).predict(typed(a, dtype), typed(b, dtype)))
            np.testing.assert_array_equal(bits(got), want, err_msg=f"{kind} {shape}")


@pytest.mark.parametrize("way", [*TILES, *KERNELS], ids=lambda way: way.name)
def test_every_kernel_and_tile_has_the_predicted_bits(way):
    for kind in KINDS:
        np.testing.assert_array_equal(way.run(tensor, kind), way.predict(kind), err_msg=kind)


@pytest.mark.parametrize(
    "way", [w for w in KERNELS if w.name.startswith(("split", "stream", "block"))], ids=lambda w: w.name
)
def test_cut_sums_are_the_same_in_every_run(way):
    want = way.run(tensor, "wide")
    for _ in range(20):
        np.testing.assert_array_equal(way.run(tensor, "wide"), want)


@pytest.mark.parametrize(
    ("mode", "dtype"), [("ieee", "fp32"), ("ieee", "bf16"), ("ieee", "fp8e4m3fn"), ("bf16x6", "fp32")]
)
def test_a_row_does_not_depend_on_how_many_come_along_and_reruns_agree(mode, dtype):
    a, b = operands("wide", (500, 513, 200), dtype)
    x, y = tensor(a, dtype), tensor(b, dtype)
    want = dispatch.product(x, y, mode=mode, out_dtype="fp32")
    for _ in range(20):
        assert torch.equal(dispatch.product(x, y, mode=mode, out_dtype="fp32"), want)
    for rows in (1, 2, 3, 17, 64, 65, 127):
        assert torch.equal(dispatch.product(x[:rows], y, mode=mode, out_dtype="fp32"), want[:rows]), rows


@pytest.mark.parametrize("activation", [None, "relu", "gelu", "silu"])
def test_the_epilogue_has_the_bits_of_its_evaluation(activation):
    rng = np.random.default_rng(3)
    a, b = operands("normal", (33, 70, 40), "fp32")
    c, bias = (rng.standard_normal(s).astype(np.float32) for s in ((33, 40), (40,)))
    scales = [rng.uniform(0.5, 2, s).astype(np.float32) for s in ((33, 1), (1, 40))]
    settings = [
        {},
        {"alpha": 0.3},
        {"beta": 0.7, "c": c},
        {"alpha": -1.7, "bias": bias, "beta": 0.1, "c": c},
        {"scale_a": scales[0], "scale_b": scales[1], "bias": bias, "alpha": 3.0},
    ]
    for setting in settings:
        on_gpu = {k: torch.from_numpy(v).cuda() if isinstance(v, np.ndarray) else v for k, v in setting.items()}
        cpu = dispatch.product(
            a.view(np.float32), b.view(np.float32), epilogue=Epilogue(activation=activation, **setting)
        )
        gpu = dispatch.product(tensor(a, "fp32"), tensor(b, "fp32"), epilogue=Epilogue(activation=activation, **on_gpu))
        if activation in ("gelu", "silu"):
            # Within a few ulps of erf and exp, of which gelu takes 1 + erf(x): absolute in units of x.
            before = dispatch.product(a.view(np.float32), b.view(np.float32), epilogue=Epilogue(**setting))
            assert (np.abs(gpu.cpu().numpy().astype(np.float64) - cpu) <= 2.0**-21 * np.abs(before)).all()
            continue
        np.testing.assert_array_equal(bits(gpu), bits(cpu), err_msg=str(sorted(setting)))


def test_results_in_narrow_types_are_rounded_once():
    a, b = operands("wide", (40, 100, 30), "bf16")
    for out in ("fp32", "bf16", "fp16"):
        gpu = dispatch.product(tensor(a, "bf16"), tensor(b, "bf16"), out_dtype=out)
        cpu = dispatch.product(typed(a, "bf16"), typed(b, "bf16"), out_dtype=out)
        np.testing.assert_array_equal(bits(gpu), bits(cpu))


def test_fp64_factors_are_not_rounded_to_fp32():
    a, b = operands("normal", (9, 20, 11), "fp64")
    e = Epilogue(alpha=0.1, beta=1 / 3, c=np.ones((9, 11)))
    cpu = dispatch.product(a.view(np.float64), b.view(np.float64), epilogue=e)
    on_gpu = Epilogue(alpha=0.1, beta=1 / 3, c=torch.ones((9, 11), device="cuda", dtype=torch.float64))
    gpu = dispatch.product(tensor(a, "fp64"), tensor(b, "fp64"), epilogue=on_gpu)
    np.testing.assert_array_equal(bits(gpu), bits(cpu))


def test_grouped_products_have_the_bits_of_single_ones():
    shapes = [(5, 7, 9), (70, 33, 20), (130, 100, 64), (0, 4, 3), (3, 0, 2)]
    pairs = [operands("normal", s, "bf16", seed=i) for i, s in enumerate(shapes)]
    tensors = [(tensor(a, "bf16"), tensor(b, "bf16")) for a, b in pairs]
    made = dispatch.grouped_product([x for x, _ in tensors], [y for _, y in tensors], out_dtype="fp32")
    for got, (x, y) in zip(made, tensors, strict=True):
        assert torch.equal(got, dispatch.product(x, y, out_dtype="fp32"))


def test_batches_have_the_bits_of_single_products_and_may_be_many():
    """70,000 products: more than a grid's second or third axis takes."""
    x, y = torch.randn(70000, 3, 20, device="cuda"), torch.randn(70000, 20, 4, device="cuda")
    got = dispatch.product(x, y)
    for i in (0, 1, 65535, 65536, 69999):
        assert torch.equal(got[i], dispatch.product(x[i], y[i]))


def test_ieee_has_the_bits_of_cublas_where_that_adds_serially():
    """A property of this shape; on small ones cuBLAS splits k."""
    torch.backends.cuda.matmul.allow_tf32 = False
    generator = torch.Generator("cuda").manual_seed(0)
    x, y = (torch.rand(shape, generator=generator, device="cuda") * 2 - 1 for shape in ((4096, 4096), (4096, 4096)))
    want = torch.matmul(x, y)
    for kernel in ("blocked", "persistent"):
        got = dispatch.product(x, y, config=Config(kernel=kernel, block_m=64, block_n=64, block_k=32))
        assert torch.equal(got, want), kernel


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp8e4m3fn-fast", "fp8e4m3fn-ieee"])
def test_tensor_core_modes_have_the_bits_of_cublas_where_that_does_not_split_k(dtype):
    """One chain on the tensor core for fp16, bf16 and fast fp8, and promotion every 128 for exact fp8: at 4096^3 the
    library adds up in the same order."""
    dtype, _, mode = dtype.partition("-")
    generator = torch.Generator("cuda").manual_seed(0)
    a, b = (torch.rand((4096, 4096), generator=generator, device="cuda") * 2 - 1 for _ in range(2))
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(dtype, torch.float8_e4m3fn)
    x, y = a.to(kind), b.to(kind).t()
    if not mode:
        assert torch.equal(dispatch.product(x, y), torch.matmul(x, y))
        return
    one = torch.ones((), device="cuda")
    fast = mode == "fast"
    want = torch._scaled_mm(x, y, scale_a=one, scale_b=one, out_dtype=torch.float32, use_fast_accum=fast)
    assert torch.equal(dispatch.product(x, y, mode=mode, out_dtype="fp32"), want)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
def test_tf32_even_has_the_bits_of_cublas_where_that_does_not_split_k(layout):
    """The library rounds ties to even; the other modes of tf32 differ from it in every tenth output and more."""
    generator = torch.Generator("cuda").manual_seed(0)
    x, y = (torch.randn(shape, generator=generator, device="cuda") for shape in ((2048, 4096), (4096, 2048)))
    x = x.t().contiguous().t() if layout[0] == "t" else x
    y = y.t().contiguous().t() if layout[1] == "t" else y
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        want = torch.matmul(x, y)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert torch.equal(dispatch.product(x, y, mode="tf32_even"), want)
    for mode in ("tf32", "tf32_rounded"):
        assert (dispatch.product(x, y, mode=mode) != want).float().mean() > 0.1


def test_tf32_even_rounds_every_kind_of_number_as_cublas_does():
    """Ties and their neighbours, the largest numbers, subnormals, infinities, and NaN that only low bits tell."""
    kinds = [
        np.arange(0x3F800FFE, 0x3F840000, 0x0FFF), np.arange(0x7F7FE000, 0x7F800002, 63), np.arange(0, 0x10000, 1023),
        [0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFF800001, 0x80000001, 0x3000, 0x807FFFFF, 0x7FFFFFFF],
    ]  # fmt: skip
    patterns = np.concatenate([np.asarray(kind, np.uint32) for kind in kinds])
    x = torch.zeros((-(-patterns.size // 64) * 64, 64), device="cuda")
    x[: patterns.size, 0] = torch.from_numpy(patterns.view(np.float32)).cuda()
    y = torch.zeros((64, 64), device="cuda")
    y[0] = 1
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        want = torch.matmul(x, y)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
    np.testing.assert_array_equal(bits(dispatch.product(x, y, mode="tf32_even")), bits(want))


@pytest.mark.parametrize("mode", [name for name, mode in modes.MODES.items() if "fp32" in mode.operands])
def test_nan_of_every_kind_have_the_predicted_bits_by_every_kernel(mode):
    """Among them those that nothing but their last bits tells from infinities, which a cut makes infinities."""
    patterns = [0x7F800001, 0xFF800001, 0x7F801FFF, 0x7F802000, 0x7FC00000, 0x7FFFFFFF, 0xFFC00000, 0x7F800000]
    a, b = np.zeros((64, 64), np.uint32), np.zeros((64, 64), np.uint32)
    a[: len(patterns), 0], b[:, 0] = patterns, np.float32(1).view(np.uint32)
    want = bits(modes.get(mode).predict(typed(a, "fp32"), typed(b.T.copy(), "fp32")))
    x, y = tensor(a, "fp32"), tensor(b, "fp32").t()
    product = Operands.of(x, y, modes.get(mode), epilogue=Epilogue())
    able = [candidate.configure(product) for candidate in dispatch.CANDIDATES if candidate.supports(product, None)]

    def computed(config):
        return dispatch.product(x, y, mode=mode, config=config, invariant=False)

    with launches.compiling_ahead():
        for config in able:
            computed(config)
    for config in able:
        np.testing.assert_array_equal(bits(computed(config)), want, err_msg=str(config))
