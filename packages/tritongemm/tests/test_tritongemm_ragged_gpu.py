"""Operands whose rows begin anywhere, on a GPU: copied before the product, with equal bits."""

import numpy as np
import pytest

pytestmark = pytest.mark.gpu


def inside(torch, rows, columns, dtype, seed):
    """A matrix in the middle of NaN, each row of which begins at another remainder of 16 bytes."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    pitch = (columns + 8) | 1
    memory = torch.full(((rows + 2) * pitch + 1,), float("nan"), device="cuda", dtype=dtype)
    matrix = memory[pitch + 1 :].as_strided((rows, columns), (pitch, 1))
    matrix.copy_(torch.randn(rows, columns, device="cuda", generator=generator))
    return matrix


M, N = 1021, 1027


@pytest.mark.parametrize(("mode", "dtype"), [("ieee", "bfloat16"), ("tf32", "float32")], ids=str)
@pytest.mark.parametrize("along_k", [True, False])
def test_rows_that_begin_anywhere_give_the_bits_of_rows_that_the_copy_engine_reads(torch, mode, dtype, along_k):
    from tritongemm import dispatch

    K, kind = 1023, getattr(torch, dtype)
    a = inside(torch, M, K, kind, 0)
    b = inside(torch, N, K, kind, 1).t() if along_k else inside(torch, K, N, kind, 1)
    straight = [torch.zeros(len(x), 1040, device="cuda", dtype=kind) for x in (a, b.t())]
    for whole, x in zip(straight, (a, b.t()), strict=True):
        whole[:, :K] = x
    x, y = straight[0][:, :K], straight[1][:, :K].t()
    want = dispatch.product(x, y, mode=mode, out_dtype="float32")
    assert bool(torch.isfinite(want).all())
    assert torch.equal(dispatch.product(a, b, mode=mode, out_dtype="float32"), want)


def test_ragged_products_are_launched_from_memory(torch):
    import tritongemm
    from tritongemm import eager

    # Rows begin anywhere, matrices at multiples of 16 bytes: others are launched the long way.
    shapes = ((M, 777), (777, N))
    operands = [tuple(inside(torch, *shape, torch.bfloat16, i).contiguous() for shape in shapes) for i in range(3)]
    eager.clear()
    want = []
    for a, b in operands:
        want.append(tritongemm.mm(a, b))
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
