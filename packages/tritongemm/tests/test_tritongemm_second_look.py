"""Errors above the reference's that are no mistake: it was lucky, or its library adds in several sums."""

import numpy as np
import pytest

import tritongemm
from tritongemm.auditing.second_look import chain_product, samples, serial_products
from tritongemm.auditing.trials import call
from tritongemm.orders import SummationOrder

blocked = pytest.importorskip("tritongemm.kernels.blocked").blocked

pytestmark = pytest.mark.triton


def matrices(rng, rows=16, columns=16, depth=4096):
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, depth), (depth, columns)))
    return {"a": a, "b": b}


def audit(kernel, reference, inputs, **how):
    return tritongemm.audit_kernel(kernel, reference, inputs, device="cpu", distributions=[], max_time=300, **how)


def in_torch(inputs):
    torch = pytest.importorskip("torch")

    def made(rng, rows=16, columns=16, depth=4096):
        return {name: torch.from_numpy(x) for name, x in inputs(rng, rows, columns, depth).items()}

    return made


def test_a_chain_of_fused_multiply_adds_passes_beside_a_library_that_adds_in_parts():
    result = audit(lambda a, b: blocked(a, b), lambda a, b: np.maximum(a @ b, 0), matrices)
    assert result.status == "FAIL"  # It forgets the relu.
    result = audit(lambda a, b: blocked(a, b), lambda a, b: a @ b, matrices)
    assert result.status == "PASS WITH LIMITATIONS"
    first = result.sides[0].measured[0]
    chain = SummationOrder.chain().simulate(*matrices(np.random.default_rng(0)).values())
    assert first.values[0].tolist() == chain.tolist()
    if first.own.rms <= 2 * first.library.rms:
        pytest.skip("NumPy's product is such a chain here; on most machines the rule alone would refuse the kernel")


@pytest.mark.torch
@pytest.mark.parametrize("how", ["matmul", "linear", "batch"])
def test_products_of_a_pytorch_reference_are_added_as_a_chain_too(how):
    torch = pytest.importorskip("torch")
    reference = {
        "matmul": lambda a, b: a @ b,
        "linear": lambda a, b: torch.nn.functional.linear(a, b.T, torch.zeros(b.shape[1], dtype=b.dtype)),
        "batch": lambda a, b: torch.einsum("bik,bkj->bij", a[None], b[None])[0],
    }[how]
    inputs = in_torch(matrices)
    assert audit(lambda a, b: blocked(a, b), reference, inputs).exit_code == 0
    a, b = inputs(np.random.default_rng(0)).values()
    with serial_products():
        made = reference(a, b)
    assert torch.equal(made, torch.from_numpy(SummationOrder.chain().simulate(a.numpy(), b.numpy())))
    with serial_products():
        assert torch.equal(a.double() @ b.double(), (a.double() @ b.double()))
    assert not torch.equal(made, a @ b)


@pytest.mark.torch
def test_attention_is_made_of_such_products_as_well():
    torch = pytest.importorskip("torch")
    q, k, v = torch.randn(3, 1, 2, 40, 32, generator=torch.Generator().manual_seed(0))
    attention = torch.nn.functional.scaled_dot_product_attention
    usual = attention(q, k, v, is_causal=True)
    with serial_products():
        made = attention(q, k, v, is_causal=True)
    assert not torch.equal(made, usual)
    torch.testing.assert_close(made, usual)


def test_coarser_products_are_refused_as_before():
    tf32 = audit(lambda a, b: tritongemm.mm(a, b, precision="tf32"), lambda a, b: a @ b, matrices)
    assert tf32.status == "FAIL"
    assert "at inputs next to these and with serial sums by up to" in " ".join(tf32.verdict.failures)


def attended(x, order):
    """The first weight of a softmax of two scores of size 1e4, summed in an order."""
    scores = np.zeros((len(x), 2), x.dtype)
    for k in order(range(x.shape[2])):
        scores += x[:, :, k]
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True))[:, :1]


def nearly_equal_scores(rng, rows=1, depth=64):
    x = 2000 * rng.standard_normal((rows, 2, depth))
    x[:, 1, -1] += x[:, 0].sum(axis=1) - x[:, 1].sum(axis=1)
    return {"x": x.astype(np.float32)}


def test_a_reference_that_is_right_by_luck_refuses_nobody():
    lucky = 0
    for seed in range(12):
        result = audit(lambda x: attended(x, reversed), lambda x: attended(x, iter), nearly_equal_scores, seed=seed)
        refused = [m for m in result.sides[0].measured if not m.accepted]
        lucky += any(m.own.largest > 4 * max(m.library.largest, m.moved_largest) for m in result.sides[0].measured)
        assert not refused, seed
    assert lucky  # The rule alone would have refused these.


def doubles(rng, rows=5, columns=300):
    return {"x": rng.standard_normal((rows, columns))}


@pytest.mark.parametrize(("dtype", "status"), [(np.float64, 0), (np.float32, 1)])
def test_arithmetic_in_fp32_is_no_rounding_of_fp64(dtype, status):
    def serial(x):
        total = np.zeros(len(x), dtype)
        for k in range(x.shape[1]):
            total += x[:, k].astype(dtype)
        return total.astype(np.float64)

    result = audit(serial, lambda x: x.sum(axis=1), doubles)
    assert result.exit_code == status
    worst = result.sides[0].measured[0].worst
    (row,) = worst["at"]
    x = doubles(np.random.default_rng(0))["x"][row]
    # Moved by random signs.
    assert 1 / 50 < worst["kappa"] / (np.sqrt((x * x).sum()) / abs(x.sum())) < 5


def test_what_it_compares_with_is_the_reference_near_the_inputs():
    inputs = matrices(np.random.default_rng(1), 3, 4, 200)
    found = list(samples(lambda given: call(lambda a, b: a @ b, given), inputs, 0))
    exact = inputs["a"].astype(np.float64) @ inputs["b"]
    error = np.abs(SummationOrder.chain().simulate(**inputs) - exact)
    assert found[0]["result"] == (np.sqrt(np.mean(error**2)), error.max())
    assert len({s["result"] for s in found}) == len(found) == 17
    assert max(s["result"][1] for s in found) < 1e-4


def test_chains_of_batches_are_those_of_their_matrices():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3, 1, 4, 9), np.float32), rng.standard_normal((5, 9, 2), np.float32)
    made = chain_product(a, b)
    assert made.shape == (2, 3, 5, 4, 2)
    np.testing.assert_array_equal(made[1, 2, 3], SummationOrder.chain().simulate(a[1, 2, 0], b[3]))
