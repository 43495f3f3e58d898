"""Operands whose rows begin anywhere, on a GPU: copied before the product or while it is computed, with equal bits."""

import numpy as np
import pytest

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def torch():
    torch = pytest.importorskip("torch", reason="these tests are for a machine with torch and a GPU")
    assert torch.cuda.is_available(), "no CUDA GPU"
    return torch


def inside(torch, rows, columns, dtype, seed):
    """A matrix in the middle of NaN, each row of which begins at another remainder of 16 bytes."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    pitch = (columns + 8) | 1
    memory = torch.full(((rows + 2) * pitch + 1,), float("nan"), device="cuda", dtype=dtype)
    matrix = memory[pitch + 1 :].as_strided((rows, columns), (pitch, 1))
    matrix.copy_(torch.randn(rows, columns, device="cuda", generator=generator))
    return matrix


# 32 x 16 tiles of 128 x 256: four rounds of 128 multiprocessors, four of 132 have nothing to do.
M, N = 4095, 4093


@pytest.mark.parametrize(("mode", "dtype"), [("ieee", "bfloat16"), ("ieee", "float16"), ("tf32", "float32")], ids=str)
@pytest.mark.parametrize("K", [520, 521, 2311])
@pytest.mark.parametrize("along_k", [True, False])
def test_rows_that_are_moved_during_a_product_give_its_bits(torch, monkeypatch, mode, dtype, K, along_k):
    from tritongemm import dispatch
    from tritongemm.configurations import Config
    from tritongemm.kernels.hopper import ragged
    from tritongemm.kernels.hopper.launching import Shape

    kind = getattr(torch, dtype)
    block_k = 64 if kind.itemsize == 2 else 32
    config = Config(kernel="warp_specialised", block_m=128, block_n=256, block_k=block_k, stages=3, group_m=8)
    a = inside(torch, M, K, kind, 0)
    b = inside(torch, N, K, kind, 1).t() if along_k else inside(torch, K, N, kind, 1)
    monkeypatch.setattr(ragged, "_MOVING", True)
    assert ragged.begin(a, N, 2048, Shape("chained", 128, 256, block_k, group_m=8)) is not None
    straight = [torch.zeros(*x.shape[:-1], -(-x.shape[-1] // 16) * 16, device="cuda", dtype=kind) for x in (a, b.t())]
    for whole, x in zip(straight, (a, b.t()), strict=True):
        whole[:, : x.shape[-1]] = x
    x, y = straight[0][:, :K], straight[1][:, : b.t().shape[-1]].t()
    want = dispatch.product(x, y, mode=mode, config=config, out_dtype="float32")
    assert bool(torch.isfinite(want).all())
    for _ in range(5):
        assert torch.equal(dispatch.product(a, b, mode=mode, config=config, out_dtype="float32"), want)


def test_ragged_products_are_launched_from_memory(torch):
    import tritongemm
    from tritongemm import eager

    operands = [(inside(torch, M, 777, torch.bfloat16, i), inside(torch, 777, N, torch.bfloat16, i)) for i in range(3)]
    want = [tritongemm.mm(a.contiguous(), b.contiguous()) for a, b in operands]
    eager.clear()
    for _ in range(3):
        got = [tritongemm.mm(a, b) for a, b in operands]
        assert all(torch.equal(x, y) for x, y in zip(got, want, strict=True))
    assert len(eager._plans) == 1


def test_ragged_products_in_a_graph_read_their_operands_anew(torch):
    from tritongemm import dispatch

    a, b = inside(torch, M, 521, torch.bfloat16, 0), inside(torch, 521, N, torch.bfloat16, 1)
    out = torch.empty((M, N), device="cuda", dtype=torch.bfloat16)
    dispatch.product(a, b, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dispatch.product(a, b, out=out)
    for seed in range(3):
        a.copy_(inside(torch, M, 521, torch.bfloat16, 10 + seed))
        want = dispatch.product(a.clone(), b)
        out.fill_(np.nan)
        graph.replay()
        assert torch.equal(out, want)
