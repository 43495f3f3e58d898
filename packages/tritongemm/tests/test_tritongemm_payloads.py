"""Products under `fpsan_tools.FpSanTorch`: the payloads of a sanitised kernel, bit for bit, in every mode."""

import numpy as np
import pytest

pytest.importorskip("triton")
torch = pytest.importorskip("torch")

import fpsan_tools  # noqa: E402
import tritongemm  # noqa: E402
from fpsan_tools.exceptions import UnsupportedOperation  # noqa: E402
from tritongemm import modes  # noqa: E402

pytestmark = [pytest.mark.triton, pytest.mark.torch, pytest.mark.fpsan]

M, K, N = 5, 200, 7
SMALL = tritongemm.Config(kernel="blocked", block_m=16, block_n=16, block_k=16, stages=1)


def payloads(*shape, dtype=torch.float32, seed=0):
    """Numbers whose payloads are any bit patterns: no NaN, which are canonicalised on the way."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def same_bits(x, y):
    return x.dtype == y.dtype and x.shape == y.shape and torch.equal(x.view(torch.uint8), y.view(torch.uint8))


def of_the_kernel(a, b, **options):
    with fpsan_tools.on_cpu(domain="payload") as session:
        result = tritongemm.mm(a, b, config=SMALL, **options)
    assert session.launches, "a kernel was evaluated"
    return result


OPTIONS = [
    {},
    {"alpha": 0.0, "bias": True},
    {"alpha": 0.3},
    {"alpha": -1.5, "bias": True},
    {"alpha": 0.5, "beta": 2.0, "c": True, "bias": True},
    {"beta": 1.0, "c": True, "activation": "relu"},
    {"bias": True, "activation": "gelu"},
    {"activation": "silu", "alpha": 2.0},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options)) or "plain")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_payloads_are_those_of_the_sanitised_kernel(dtype, options):
    a, b = payloads(M, K, dtype=dtype), payloads(K, N, dtype=dtype)
    made = {"c": payloads(M, N, dtype=dtype), "bias": payloads(N, dtype=dtype)}
    given = {name: made[name] if value is True else value for name, value in options.items()}
    want = of_the_kernel(a, b, **given)
    with fpsan_tools.FpSanTorch() as mode:
        got = tritongemm.mm(a, b, **given)
    assert same_bits(got, want)
    assert mode.operations["tritongemm::product"] == 1
    if options.get("alpha") != 0:  # a bias alone is no arithmetic
        assert not same_bits(got, tritongemm.mm(a, b, **given)), "payloads, not numbers"


@pytest.mark.parametrize("precision", [mode.name for mode in modes.MODES.values() if "fp32" in mode.operands])
def test_all_modes_are_one_algebra(precision):
    a, b = payloads(M, K), payloads(K, N)
    with fpsan_tools.FpSanTorch():
        assert same_bits(tritongemm.mm(a, b, precision=precision), torch.mm(a, b))


def test_every_function_has_payloads():
    x, y, weight, bias = payloads(2, M, K), payloads(2, K, N), payloads(N, K), payloads(N)
    with fpsan_tools.FpSanTorch():
        pairs = [
            (tritongemm.bmm(x, y), torch.bmm(x, y)),
            (tritongemm.matmul(x, y[0]), torch.matmul(x, y[0])),
            (tritongemm.linear(x, weight, bias), torch.matmul(x, weight.T) + bias),
            (tritongemm.addmm(bias, x[0], y[0], beta=0.5), torch.mm(x[0], y[0]) + bias * 0.5),
            (tritongemm.mm(x[0], y[0], out=torch.empty(M, N)), torch.mm(x[0], y[0])),
        ]
    for got, want in pairs:
        assert same_bits(got, want)


@pytest.mark.parametrize("kind", ["numbers", "rows", "blocks"])
def test_scaled_products_have_payloads(kind):
    a, b = (payloads(*shape).to(torch.float8_e4m3fn) for shape in ((M, K), (K, N)))
    shapes = {"numbers": ((), ()), "rows": ((M, 1), (1, N)), "blocks": ((M, 2), (2, 1))}[kind]
    scales = [torch.rand(shape) + 0.5 for shape in shapes]
    more = {"alpha": 0.5, "beta": 2.0, "c": payloads(M, N), "bias": payloads(N), "activation": "silu"}
    with fpsan_tools.on_cpu(domain="payload") as session:
        want = tritongemm.scaled_mm(a, b, *scales, out_dtype=torch.float32, **more)
    assert session.launches
    with fpsan_tools.FpSanTorch():
        got = tritongemm.scaled_mm(a, b, *scales, out_dtype=torch.float32, **more)
    assert same_bits(got, want)


def test_gradients_are_payloads_too():
    a, b = payloads(M, K).requires_grad_(), payloads(K, N).requires_grad_()
    c, d = (x.detach().clone().requires_grad_() for x in (a, b))
    gradient = payloads(M, N, seed=9)
    with fpsan_tools.FpSanTorch():
        tritongemm.mm(a, b, alpha=0.5).backward(gradient)
        (torch.mm(c, d) * 0.5).backward(gradient)
    assert same_bits(a.grad, c.grad)
    assert same_bits(b.grad, d.grad)


def test_an_operator_that_was_never_taught_is_refused_by_name(monkeypatch):
    """The check that the rules are what makes it work."""
    from fpsan_tools import torch_rules
    from tritongemm import library

    monkeypatch.setattr(library, "_teach", lambda: None)
    for name in (library.PRODUCT, library.SCALED):
        monkeypatch.delitem(torch_rules.RULES, name, raising=False)
    with fpsan_tools.FpSanTorch(), pytest.raises(UnsupportedOperation, match="tritongemm::product"):
        tritongemm.mm(payloads(M, K), payloads(K, N))


def test_a_planted_mistake_is_seen(monkeypatch):
    """A kernel that forgets the last product has other payloads than the expression."""
    a, b = payloads(M, K), payloads(K, N)
    with fpsan_tools.FpSanTorch():
        whole, short = tritongemm.mm(a, b), tritongemm.mm(a[:, :-1], b[:-1])
    assert not same_bits(whole, short)
    assert same_bits(whole, of_the_kernel(a, b))
    np.testing.assert_array_equal(np.isnan(whole.numpy()), np.isnan(of_the_kernel(a, b).numpy()))
