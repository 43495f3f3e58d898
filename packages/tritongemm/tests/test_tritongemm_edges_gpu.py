"""Edges of the kernels on a GPU: surroundings, strides, offsets past 2^31, TMA's rules, factors that must not read, and
NVIDIA's memory checker over a representative set.

    python3 -m pytest packages/tritongemm/tests/test_tritongemm_edges_gpu.py -m gpu
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("triton")
torch = pytest.importorskip("torch")

from tritongemm_cases import bits, operands, tensor, typed  # noqa: E402

from tritongemm import dispatch, modes  # noqa: E402
from tritongemm.configurations import Config  # noqa: E402
from tritongemm.kernels.descriptors import contiguous_axis  # noqa: E402
from tritongemm.kernels.epilogue import Epilogue  # noqa: E402
from tritongemm.kernels.problems import Operands  # noqa: E402

pytestmark = pytest.mark.gpu

CONFIGS = {
    "blocked": Config(kernel="blocked", block_m=64, block_n=64, block_k=64),
    "persistent": Config(kernel="persistent", block_m=64, block_n=64, block_k=64),
    "split_k": Config(kernel="split_k", block_m=64, block_n=64, block_k=64, splits=3),
    "stream_k": Config(kernel="stream_k", block_m=64, block_n=64, block_k=64, splits=7),
}
KERNELS = list(CONFIGS)


@pytest.fixture(autouse=True, scope="module")
def gpu():
    assert torch.cuda.is_available(), "no CUDA GPU"


def bf16(M, K, N, seed=0):
    return tuple(tensor(x, "bf16") for x in operands("normal", (M, K, N), "bf16", seed))


def multiplied(x, y, kernel, **more):
    return dispatch.product(x, y, config=CONFIGS[kernel], invariant=False, **{"out_dtype": "fp32", **more})


def surrounded(x, fill, step=1):
    """x inside a larger buffer, at an offset and with a row length that TMA can read if `step` is 1."""
    width = (step * x.shape[1] + 80) // 16 * 16
    whole = torch.full((x.shape[0] + 4, width), fill, device="cuda", dtype=x.dtype)
    inside = whole[2:-2, 16 : 16 + step * x.shape[1] : step]
    inside.copy_(x)
    return whole, inside


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", [(70, 100, 67), (64, 64, 64), (1, 200, 9), (130, 5, 129)], ids=str)
def test_nothing_is_read_or_written_beside_the_matrices(kernel, shape):
    M, K, N = shape
    x, y = bf16(M, K, N)
    c, bias = torch.randn((M, N), device="cuda"), torch.randn(N, device="cuda")
    e = {"alpha": 2.0, "beta": 0.5}
    want = multiplied(*dense(x, y), kernel, epilogue=Epilogue(**e, c=c, bias=bias))
    nan = float("nan")
    (_, p), (_, q), (_, r) = surrounded(x, nan), surrounded(y, nan), surrounded(c, nan, 2)
    whole, out = surrounded(torch.zeros((M, N), device="cuda"), 7.0)
    around = torch.full((2 * N + 8,), nan, device="cuda")
    around[4 : 4 + 2 * N : 2] = bias
    epilogue = Epilogue(**e, c=r, bias=around[4 : 4 + 2 * N : 2])
    multiplied(p, q, kernel, out=out, out_dtype=None, epilogue=epilogue)
    assert torch.equal(out, want)
    out.fill_(7)
    assert (whole == 7).all()


def dense(x, y):
    """Copies with rows that TMA can read."""
    return tuple(surrounded(v, 0.0)[1] for v in (x, y))


@pytest.mark.parametrize("kernel", ["blocked", "split_k", "stream_k"])
def test_strides_of_every_kind_give_the_same_bits(kernel):
    x, y = bf16(70, 100, 66)
    want = multiplied(x, y, kernel)
    for p, q in [
        (x.t().contiguous().t(), y),
        (x, y.t().contiguous().t()),
        (x.repeat_interleave(2, 0)[::2], y.repeat_interleave(3, 1)[:, ::3]),
        (x.repeat_interleave(2, 1)[:, ::2], y),
    ]:
        assert torch.equal(multiplied(p, q, kernel), want)
    out = torch.empty((66, 70), device="cuda").t()
    assert torch.equal(multiplied(x, y, kernel, out=out, out_dtype=None), want)
    row = multiplied(x[:1].expand(70, 100), y, kernel)
    assert torch.equal(row, multiplied(x[:1].repeat(70, 1), y, kernel))


@pytest.mark.parametrize("k_contiguous", [(1, 1), (1, 0), (0, 1), (0, 0)], ids=str)
@pytest.mark.parametrize("dtype", ["bf16", "fp8e4m3fn", "fp32"])
def test_tma_reads_either_axis(dtype, k_contiguous):
    a, b = operands("normal", (80, 112, 96), dtype)
    x, y = tensor(a, dtype), tensor(b, dtype)
    p = x if k_contiguous[0] else x.t().contiguous().t()
    q = y.t().contiguous().t() if k_contiguous[1] else y
    mode = "tf32" if dtype == "fp32" else "ieee"
    config = Config(kernel="persistent", block_m=64, block_n=64, block_k=32 if dtype == "fp32" else 128)
    got = dispatch.product(p, q, mode=mode, config=config, out_dtype="fp32")
    np.testing.assert_array_equal(bits(got), bits(modes.get(mode).predict(typed(a, dtype), typed(b, dtype))))


def test_what_tma_cannot_read_goes_to_pointers_with_the_same_bits():
    """Odd storage offsets, rows of an odd length, stride 0, x.t() with an odd M: in a kernel these would go wrong
    without a word."""
    x, y = bf16(64, 96, 80)
    want = dispatch.product(x, y, out_dtype="fp32")
    odd = torch.empty((64, 97), device="cuda", dtype=torch.bfloat16)
    odd[:, 1:] = x
    shifted = torch.empty(64 * 96 + 8, device="cuda", dtype=torch.bfloat16)[1 : 1 + 64 * 96].view(64, 96)
    shifted.copy_(x)
    skewed = torch.empty((96, 65), device="cuda", dtype=torch.bfloat16)[:, :64]
    skewed.copy_(x.t())
    for view in (odd[:, 1:], shifted, skewed.t(), x.repeat_interleave(2, 1)[:, ::2]):
        assert contiguous_axis(view, "a") is None
        product = Operands.of(view, y, modes.get("ieee"), epilogue=Epilogue())
        assert not dispatch.candidate_named("persistent").supports(product, CONFIGS["persistent"])
        assert torch.equal(dispatch.product(view, y, out_dtype="fp32"), want)
    row = x[:1].expand(64, 96)
    assert torch.equal(dispatch.product(row, y, out_dtype="fp32"), want[:1].expand(64, 80))


@pytest.mark.parametrize("kernel", KERNELS)
def test_offsets_beyond_32_bits(kernel):
    """Row strides of 2^29 elements: the fifth row of A, of the result and the fifth product of a batch start 2^31
    elements away."""
    memory = torch.cuda.get_device_properties(0).total_memory
    if memory < 40 << 30:
        pytest.skip("needs 40 GiB of GPU memory")
    stride = 1 << 29
    x, y = bf16(6, 64, 16)
    want = multiplied(x, y, kernel)
    far = torch.empty(5 * stride + 64, device="cuda", dtype=torch.bfloat16)
    p = far.as_strided((6, 64), (stride, 1))
    p.copy_(x)
    assert torch.equal(multiplied(p, y, kernel), want)
    del far, p
    out = torch.empty(5 * stride + 64, device="cuda").as_strided((6, 16), (stride, 1))
    assert torch.equal(multiplied(x, y, kernel, out=out, out_dtype=None), want)
    if kernel in ("blocked", "stream_k"):
        batch = torch.empty(5 * stride + 64 * 16, device="cuda", dtype=torch.bfloat16)
        batch = batch.as_strided((6, 64, 16), (stride, 16, 1))
        batch.copy_(y.expand(6, 64, 16))
        got = multiplied(x.expand(6, 6, 64), batch, "blocked")
        assert torch.equal(got[5], multiplied(x, y, "blocked"))


@pytest.mark.parametrize("kernel", KERNELS)
def test_beta_of_zero_does_not_read_c(kernel):
    x, y = bf16(64, 64, 64)
    nan = torch.full((64, 64), float("nan"), device="cuda")
    assert torch.equal(multiplied(x, y, kernel, epilogue=Epilogue(beta=0.0, c=nan)), multiplied(x, y, kernel))
    out = torch.full((64, 64), float("nan"), device="cuda")
    assert torch.equal(multiplied(x, y, kernel, out=out, out_dtype=None), multiplied(x, y, kernel))


def test_empty_and_summand_free_products():
    for M, K, N in ((0, 3, 2), (2, 3, 0), (0, 0, 0)):
        a, b = torch.ones((M, K), device="cuda"), torch.ones((K, N), device="cuda")
        assert tuple(dispatch.product(a, b).shape) == (M, N)
    c, bias = torch.ones((4, 3), device="cuda"), torch.arange(3.0, device="cuda")
    a, b = torch.ones((4, 0), device="cuda"), torch.ones((0, 3), device="cuda")
    for kernel in KERNELS:
        got = dispatch.product(
            a, b, config=CONFIGS[kernel], epilogue=Epilogue(beta=2.0, c=c, bias=bias), invariant=False
        )
        assert torch.equal(got, 2 * c + bias)


def test_the_result_may_be_c_itself():
    x, y = bf16(70, 100, 64)
    for kernel in KERNELS:
        if kernel == "persistent":
            x, y = dense(x, y)
        c = torch.randn((70, 64), device="cuda")
        want = multiplied(x, y, kernel, epilogue=Epilogue(beta=2.0, c=c))
        assert torch.equal(multiplied(x, y, kernel, out=c, out_dtype=None, epilogue=Epilogue(beta=2.0, c=c)), want)


def test_the_environments_default_precision_changes_no_bit():
    import triton

    x, y = torch.randn((64, 64), device="cuda"), torch.randn((64, 64), device="cuda")
    want = dispatch.product(x, y)
    before = triton.knobs.language.fp32_default
    try:
        triton.knobs.language.fp32_default = "tf32"
        for stages in (1, 2, 4, 5):  # compiled anew
            config = Config(kernel="blocked", block_m=64, block_n=64, block_k=16, stages=stages)
            assert torch.equal(dispatch.product(x, y, config=config), want)
    finally:
        triton.knobs.language.fp32_default = before


def test_products_run_on_the_current_stream():
    x, y = bf16(64, 64, 64)
    want = dispatch.product(x, y)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        got = dispatch.product(x, y)
    stream.synchronize()
    assert torch.equal(got, want)


@pytest.mark.alone
def test_memcheck_finds_nothing():
    """NVIDIA's compute-sanitizer over `tritongemm_memcheck.py`: every kernel and mode, odd sizes."""
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if tool is None:
        pytest.skip("this host has no compute-sanitizer")
    script = str(Path(__file__).with_name("tritongemm_memcheck.py"))
    # Compiled beforehand on all cores: under the checker compilers take most of the time.
    compiled = subprocess.run([sys.executable, script, "--compile"], capture_output=True, text=True, timeout=300)
    print(compiled.stdout[-500:])
    assert compiled.returncode == 0, compiled.stderr[-3000:]
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}  # a block per tensor: its end is a border
    # Triton asks for shared memory as a limit it then does without; calls that fail are no accesses that do.
    quiet = ["--target-processes", "application-only", "--report-api-errors", "no"]
    command = [tool, "--tool", "memcheck", *quiet, "--error-exitcode", "9", sys.executable, script]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    text = run.stdout + run.stderr
    if "ERROR SUMMARY" not in text:
        pytest.skip(f"compute-sanitizer cannot run here: {text[-300:]}")
    print(text[-2000:])
    assert run.returncode == 0, text[-3000:]
    assert "ERROR SUMMARY: 0 errors" in text
    assert "products were computed" in text
