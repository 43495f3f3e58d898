"""The hardware domain against an H200: the same kernels, the same inputs, equal bits."""

import numpy as np
import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

import fpsan_hardware_kernels as kernels
import torch
from fpsan_kernels import blocked, strided_lanes

import fpsan_tools

pytestmark = [pytest.mark.gpu, pytest.mark.torch, pytest.mark.triton]


@pytest.fixture(scope="module", autouse=True)
def device():
    """An sm_90 GPU; there must be one."""
    assert torch.cuda.is_available(), "no CUDA GPU"
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the model is of sm_90")


def wide(shape, seed, dtype=torch.float32):
    """Normal numbers times powers of two from 2^-8 to 2^8: sums depend on their order."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape) * 2.0 ** rng.integers(-8, 9, shape)
    return torch.from_numpy(values.astype(np.float32)).to(dtype)


def bits(tensor):
    return tensor.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def compare(kernel, grid, inputs, output, *scalars, **options):
    """Run on the GPU and in the hardware domain; return how many bits patterns differ."""
    on_gpu = output.cuda()
    kernel[grid](*(x.cuda() for x in inputs), on_gpu, *scalars, **options)
    predicted = output.clone()
    fpsan_tools.run(kernel, grid, *inputs, predicted, *scalars, domain="hardware", **options)
    return int((bits(on_gpu.cpu()) != bits(predicted)).sum())


FUSION = [False, True]


@pytest.mark.parametrize("fusion", FUSION)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_sums_along_one_axis(dtype, fusion):
    for block in (32, 128, 1024, 4096):
        for warps in (1, 2, 4, 8):
            a = wide((16, block), block + warps, dtype)
            options = {"B": block, "num_warps": warps, "enable_fp_fusion": fusion}
            assert compare(kernels.sum_1d, (16,), [a], torch.zeros(16, dtype=dtype), **options) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_tiles(axis, dtype):
    for m, n in ((16, 64), (64, 16), (128, 32), (8, 8), (4, 256), (64, 64)):
        for warps in (1, 4, 8):
            a = wide((m, n), m * n + warps, dtype)
            output = torch.zeros(n if axis == 0 else m, dtype=dtype)
            options = {"M": m, "N": n, "AXIS": axis, "num_warps": warps, "enable_fp_fusion": False}
            assert compare(kernels.sum_2d, (1,), [a], output, **options) == 0


def test_whole_sums():
    for m, n in ((4, 4), (16, 64), (64, 16), (64, 64), (128, 128)):
        for warps in (1, 2, 4, 8):
            a = wide((m, n), m + n + warps)
            options = {"M": m, "N": n, "num_warps": warps}
            assert compare(kernels.sum_all, (1,), [a], torch.zeros(1), **options) == 0


@pytest.mark.parametrize("fusion", FUSION)
def test_whole_sums_of_products(fusion):
    for m, n in ((4, 4), (16, 64), (64, 16), (64, 64), (128, 128)):
        for warps in (1, 2, 4, 8):
            a, b = wide((m, n), m + n + warps), wide((m, n), m + n + warps + 100)
            options = {"M": m, "N": n, "num_warps": warps, "enable_fp_fusion": fusion}
            assert compare(kernels.sum_of_all_products, (1,), [a, b], torch.zeros(1), **options) == 0


@pytest.mark.parametrize("fusion", FUSION)
def test_sums_of_products(fusion):
    for block in (32, 128, 256, 1024, 2048):
        for warps in (1, 2, 4, 8):
            a, b = wide(block, block), wide(block, block + 1)
            options = {"B": block, "num_warps": warps, "enable_fp_fusion": fusion}
            assert compare(kernels.sum_of_products, (1,), [a, b], torch.zeros(1), **options) == 0


@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums(reverse):
    for block in (32, 256, 2048, 4096):
        for warps in (1, 2, 4, 8):
            a = wide(block, block + warps)
            options = {"B": block, "REVERSE": reverse, "num_warps": warps}
            assert compare(kernels.cumulative, (1,), [a], torch.zeros(block), **options) == 0


@pytest.mark.parametrize("axis", [0, 1])
def test_running_sums_of_tiles(axis):
    for m, n in ((16, 64), (64, 16), (32, 128)):
        for warps in (1, 4, 8):
            a = wide((m, n), m * n + warps)
            options = {"M": m, "N": n, "AXIS": axis, "num_warps": warps}
            assert compare(kernels.cumulative_2d, (1,), [a], torch.zeros(m, n), **options) == 0


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sigmoid", "third"])
def test_functions(name):
    rng = np.random.default_rng(1)
    for _ in range(16):
        a = torch.from_numpy((rng.standard_normal(1 << 16) * 2.0 ** rng.integers(-20, 7, 1 << 16)).astype(np.float32))
        a[:8] = torch.tensor([0.0, -0.0, float("inf"), float("-inf"), 1e-40, -1e-40, 3e38, -3e38])
        if name in ("log", "log2", "sqrt", "rsqrt"):
            a[8:].abs_()
        assert compare(kernels.function, (1,), [a], torch.zeros(1 << 16), B=1 << 16, NAME=name) == 0


def test_quotients():
    rng = np.random.default_rng(2)
    pair = [(rng.standard_normal(1 << 16) * 2.0 ** rng.integers(-60, 60, 1 << 16)).astype(np.float32) for _ in range(2)]
    assert compare(kernels.quotient, (1,), [torch.from_numpy(x) for x in pair], torch.zeros(1 << 16), B=1 << 16) == 0


@pytest.mark.parametrize("fusion", FUSION)
def test_loops_of_row_sums(fusion):
    a = wide((5, 16, 64), 3)
    options = {"M": 16, "N": 64, "enable_fp_fusion": fusion}
    assert compare(kernels.loop_of_row_sums, (1,), [a], torch.zeros(16), 5, **options) == 0


@pytest.mark.parametrize("fusion", FUSION)
def test_strided_lanes(fusion):
    for k in (777, 1536):
        for warps in (1, 2, 4, 8):
            a, b = wide((8, k), k), wide((k, 8), k + 1)
            shape = (8, 8, k, k, 1, 8, 1, 8, 1)
            options = {"BLOCK": 256, "num_warps": warps, "enable_fp_fusion": fusion}
            assert compare(strided_lanes, (8, 8), [a, b], torch.zeros(8, 8), *shape, **options) == 0


def test_blocked():
    m, n, k = 130, 67, 777
    a, b = wide((m, k), 4), wide((k, n), 5)
    tiles = {"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32, "FOLD": True}
    shape = (m, n, k, k, 1, n, 1, n, 1)
    assert compare(blocked, (3, 3), [a, b], torch.zeros(m, n), *shape, **tiles) == 0


DOTS = [
    (torch.float16, "ieee", None),
    (torch.bfloat16, "ieee", None),
    (torch.float32, "tf32", None),
    (torch.float32, "tf32x3", None),
    (torch.float32, "bf16x3", None),
    (torch.float32, "bf16x6", None),
    (torch.float32, "ieee", None),
    (torch.float8_e4m3fn, "ieee", None),
    (torch.float8_e4m3fn, "ieee", 32),
    (torch.float8_e5m2, "ieee", None),
]


@pytest.mark.parametrize(("dtype", "precision", "imprecise"), DOTS)
@pytest.mark.parametrize("rows", [32, 64, 128])
@pytest.mark.parametrize("fold", [True, False])
def test_products(dtype, precision, imprecise, rows, fold):
    if imprecise is not None and not fold:
        pytest.skip("promotion is tested in the folded form")
    depth, columns = 64, 32
    rng = np.random.default_rng(6)
    k = 4 * depth
    a = torch.from_numpy((rng.standard_normal((rows, k)) * 2.0 ** rng.integers(-3, 4, (rows, k))).astype(np.float32))
    b = torch.from_numpy(rng.standard_normal((k, columns)).astype(np.float32))
    options = {"BM": rows, "BN": columns, "BK": depth, "PRECISION": precision, "IMPRECISE": imprecise, "FOLD": fold}
    output = torch.zeros(rows, columns)
    assert compare(kernels.tiled, (1,), [a.to(dtype), b.to(dtype)], output, k, **options) == 0


def test_sums_over_a_matrix_unit_s_layout():
    a, b = (torch.randn(64, 64, generator=torch.Generator().manual_seed(s)).to(torch.float16) for s in (1, 2))
    for warps in (4, 8):
        options = {"M": 64, "N": 64, "K": 64, "num_warps": warps}
        assert compare(kernels.row_sums_of_product, (1,), [a, b], torch.zeros(64), **options) == 0
