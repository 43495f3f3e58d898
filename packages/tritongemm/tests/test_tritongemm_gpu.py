"""On a CUDA GPU: both kernels' bits equal the CPU's, edges are safe, and a full-size audit says what the CPU's says.

    python3 -m pytest packages/tritongemm/tests/test_tritongemm_gpu.py -m gpu

No GPU is a failure here, never a skip.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.gpu

SOURCES = [str(p) for p in sorted(Path(__file__).parents[2].glob("*/src"))]


@pytest.fixture(scope="module")
def multiply(torch):
    from tritongemm.kernels.blocked import blocked
    from tritongemm.kernels.strided_lanes import strided_lanes

    return {"blocked": blocked, "strided_lanes": strided_lanes}


def operands(M, K, N, seed=0):
    rng = np.random.default_rng([seed, M, K, N])
    # Exponents spread, so that the order of summation shows in the bits.
    spread = [np.ldexp(rng.uniform(-1, 1, s), rng.integers(-6, 7, s)).astype(np.float32) for s in ((M, K), (K, N))]
    return spread[0], spread[1]


def on_gpu(torch, *arrays):
    return tuple(torch.from_numpy(np.ascontiguousarray(x)).cuda() for x in arrays)


def bits(x):
    return np.ascontiguousarray(x.cpu().numpy() if hasattr(x, "cpu") else x).view(np.uint32)


SHAPES = [
    (1, 1, 1), (1, 5, 3), (16, 32, 16), (17, 33, 15), (63, 31, 65), (64, 64, 64), (65, 129, 63), (5, 255, 2), (3, 256,
    4), (2, 257, 3), (70, 300, 67), (130, 777, 67), (33, 6144, 40), (128, 1536, 96),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_blocked_has_the_bits_of_the_cpu_evaluation_and_of_the_serial_chain(torch, multiply, shape):
    from tritongemm.orders import SummationOrder

    a, b = operands(*shape)
    got = bits(multiply["blocked"](*on_gpu(torch, a, b)))
    np.testing.assert_array_equal(got, bits(multiply["blocked"](a, b)))
    np.testing.assert_array_equal(got, bits(SummationOrder.chain(pad=32).simulate(a, b)))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_strided_lanes_has_the_bits_of_the_layout_order(torch, multiply, shape):
    """The tree follows the layout: 16-byte loads where a row's stride is divisible by 16 (or B's along k), else single
    ones."""
    from tritongemm.orders import SummationOrder

    a, b = operands(*shape)
    got = bits(multiply["strided_lanes"](*on_gpu(torch, a, b)))
    contiguous = 4 if shape[1] % 16 == 0 else 1
    order = SummationOrder.lanes_in_layout(256, 4, contiguous)
    np.testing.assert_array_equal(got, bits(order.simulate(a, b)))


@pytest.mark.parametrize("lanes", [64, 128, 512, 1024])
def test_other_numbers_of_lanes_follow_their_layouts(torch, multiply, lanes):
    from tritongemm.orders import SummationOrder

    a, b = operands(20, 3001, 24)
    got = bits(multiply["strided_lanes"](*on_gpu(torch, a, b), lanes=lanes))
    np.testing.assert_array_equal(got, bits(SummationOrder.lanes_in_layout(lanes, 4, 1).simulate(a, b)))


@pytest.mark.parametrize("name", ["blocked", "strided_lanes"])
@pytest.mark.parametrize("shape", [(19, 37, 21), (64, 32, 64), (65, 257, 1)], ids=str)
def test_nothing_is_read_or_written_beside_the_matrices(torch, multiply, name, shape):
    M, K, N = shape
    a, b = operands(M, K, N)

    def surrounded(x, fill):
        whole = torch.full((x.shape[0] + 4, 2 * x.shape[1] + 6), fill, device="cuda")
        inside = whole[2:-2, 3 : 3 + 2 * x.shape[1] : 2]
        inside.copy_(torch.from_numpy(x))
        return whole, inside

    (_, x), (_, y) = surrounded(a, float("nan")), surrounded(b, float("nan"))
    whole, c = surrounded(np.zeros((M, N), np.float32), 7.0)
    multiply[name](x, y, out=c)
    if name == "blocked":
        np.testing.assert_array_equal(bits(c.contiguous()), bits(multiply[name](a, b)))
    assert torch.isfinite(c).all()
    c.fill_(7)
    assert (whole == 7).all()


@pytest.mark.parametrize("name", ["blocked", "strided_lanes"])
def test_strides_of_every_kind_give_the_same_values(torch, multiply, name):
    a, b = operands(50, 80, 40)
    x, y = on_gpu(torch, a, b)
    want = multiply[name](x, y)
    views = [(x.t().contiguous().t(), y), (x, y.t().contiguous().t()), (x.repeat_interleave(2, 0)[::2], y)]
    for p, q in views:
        got = multiply[name](p, q)
        if name == "blocked":
            assert torch.equal(got, want)
        else:
            # Another layout joins the lanes in another order: the last bits may differ, the bound may not be broken.
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-3)
    transposed = torch.empty((40, 50), device="cuda").t()
    assert torch.equal(multiply[name](x, y, out=transposed), want)
    assert torch.equal(multiply[name](x[:1].expand(50, 80), y), want[:1].expand(50, 40))


@pytest.mark.parametrize("name", ["blocked", "strided_lanes"])
def test_reruns_and_numbers_of_rows_do_not_change_bits(torch, multiply, name):
    x, y = on_gpu(torch, *operands(500, 513, 200))
    want = multiply[name](x, y)
    for _ in range(20):
        assert torch.equal(multiply[name](x, y), want)
    for rows in (1, 2, 3, 17, 64, 65, 127):
        assert torch.equal(multiply[name](x[:rows], y), want[:rows])


@pytest.mark.parametrize("name", ["blocked", "strided_lanes"])
def test_empty_products(torch, multiply, name):
    for M, K, N in ((0, 3, 2), (2, 3, 0), (3, 0, 2)):
        c = multiply[name](torch.ones((M, K), device="cuda"), torch.ones((K, N), device="cuda"))
        assert tuple(c.shape) == (M, N)
        assert (c == 0).all()


@pytest.mark.parametrize("name", ["blocked", "strided_lanes"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision_operands_stay_within_the_bound(torch, multiply, name, dtype):
    """Tensor cores sum in an order and with roundings of their own: an error of 2^-11 of the sum of magnitudes is
    allowed."""
    x, y = (t.to(getattr(torch, dtype)) for t in on_gpu(torch, *operands(70, 300, 90)))
    got = multiply[name](x, y, out_dtype=torch.float32).double()
    golden, magnitude = x.double() @ y.double(), x.double().abs() @ y.double().abs()
    assert ((got - golden).abs() <= 2.0**-11 * magnitude).all()


def test_offsets_beyond_32_bits(torch, multiply):
    """A row stride of 2^29 elements: the fifth row starts 2^31 elements away."""
    memory = torch.cuda.get_device_properties(0).total_memory
    if memory < 24 << 30:
        pytest.skip("needs 24 GiB of GPU memory")
    stride = 1 << 29
    a, b = operands(6, 64, 16)
    whole = torch.empty(5 * stride + 64, device="cuda", dtype=torch.float32)
    x = whole.as_strided((6, 64), (stride, 1))
    x.copy_(torch.from_numpy(a))
    y = torch.from_numpy(b).cuda()
    for name in ("blocked", "strided_lanes"):
        near = multiply[name](torch.from_numpy(a).cuda(), y)
        assert torch.equal(multiply[name](x, y), near)


def test_blocked_has_the_bits_of_cublas_on_the_demonstration(torch, multiply):
    """A property of this shape, where cuBLAS adds serially too; on small ones it splits k (1024x2048x1024 differs)."""
    assert not torch.backends.cuda.matmul.allow_tf32
    generator = torch.Generator("cuda").manual_seed(0)
    x, y = (torch.rand(shape, generator=generator, device="cuda") * 2 - 1 for shape in ((8192, 6144), (6144, 4096)))
    assert torch.equal(multiply["blocked"](x, y), torch.matmul(x, y))


@pytest.mark.fpsan
def test_a_small_audit_on_the_gpu_agrees_with_the_cpu(torch):
    import tritongemm

    size = {"M": 130, "N": 67, "K": 777}
    gpu, cpu = (tritongemm.audit(**size, device=d, max_time=600) for d in ("gpu", "cpu"))
    assert gpu.status == cpu.status == "PASS", f"{gpu}\n{cpu}"
    # The CPU evaluates the audited product as a whole besides; here all its floats are compared.
    *trials, whole = cpu.algebra.trials
    assert "as a whole" in whole.why
    for mine, its in zip(gpu.algebra.trials, trials, strict=True):
        np.testing.assert_array_equal(mine.first, its.first)
        np.testing.assert_array_equal(mine.second, its.second)
    assert gpu.rounding.main["B"].rms_scaled == pytest.approx(cpu.rounding.main["B"].rms_scaled, rel=1e-9)
    assert gpu.rounding.identified["A"].order is not None
    assert gpu.rounding.identified["B"].order == cpu.rounding.identified["B"].order


@pytest.mark.fpsan
def test_the_full_audit(torch, tmp_path):
    """8192 x 6144 x 4096, every output; the report is kept under $OUT if that is set."""
    out = Path(os.environ.get("OUT", tmp_path)) / "audit"
    started = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-m", "tritongemm", "audit", "--device", "gpu", "--max-time", "600", "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=480,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*SOURCES, os.environ.get("PYTHONPATH", "")])},
    )
    print(run.stdout, run.stderr, f"{time.monotonic() - started:.1f} s")
    assert run.returncode == 0, run.stdout + run.stderr
    read = json.loads((out / "audit.json").read_text())
    assert read["verdict"]["status"] == "PASS"
    assert read["algebra"]["status"] == "same"
    reports = read["rounding"]["strata"]["all"]
    lanes, tiles, library = (reports[k] for k in ("A", "B", "library"))
    assert lanes["outputs"] == 8192 * 4096
    assert lanes["outside"] == 0
    assert tiles["outside"] == library["outside"] > 0
    assert tiles["bits_of_library"] == tiles["outputs"]
    assert lanes["outside_library"] == lanes["blamed"] > 0
    assert tiles["rms_scaled"] / lanes["rms_scaled"] == pytest.approx(12, abs=1)
    assert lanes["bound_exceeded"] == tiles["bound_exceeded"] == 0
    orders = read["explanation"]["orders"]
    assert orders["A"]["order"]["lanes"] == 256
    assert orders["B"]["order"]["lanes"] == 1
    assert read["explanation"]["equal_to_serial_chain"]["B"] == read["explanation"]["of_outputs"]
