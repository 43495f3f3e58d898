"""PyTorch expressions in payloads: against the rules, against Triton kernels, under autograd, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import _get_current_dispatch_mode

import fpsan_tools
from fpsan_tools import FpSanTorch, algebra
from fpsan_tools.exceptions import FpsanError, UnsupportedOperation

pytestmark = pytest.mark.torch

VERSION = "3.9"  # named, so that these tests need no Triton
A = algebra.get(VERSION)
DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
INTEGERS = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.int8}


def bits(tensor):
    array = tensor.detach().contiguous().view(INTEGERS[tensor.element_size()]).numpy()
    return array.view(f"u{array.itemsize}")


def payload(tensor):
    return A.embed(bits(tensor), str(tensor.dtype))


def random(*shape, dtype="fp32", seed=0):
    """Tensors of arbitrary bit patterns, signalling NaNs among them."""
    width = algebra.float_type(dtype).bits
    patterns = np.random.default_rng(seed).integers(0, (1 << width) - 1, shape, f"u{width // 8}", endpoint=True)
    return torch.from_numpy(patterns.view(f"i{width // 8}")).view(DTYPES[dtype])


def compute(function, *tensors, version=VERSION):
    with FpSanTorch(version) as mode:
        result = function(*tensors)
    return result, mode


def check(function, rule, *tensors, dtype=None):
    """The expression's bits are those of the rule on payloads."""
    result, _ = compute(function, *tensors)
    kind = str(dtype or tensors[0].dtype)
    np.testing.assert_array_equal(bits(result), A.unembed(rule(*map(payload, tensors)), kind))


# ---------------------------------------------------------------------------------------------------------------------
# Elementwise


@pytest.mark.parametrize("dtype", DTYPES)
def test_ring_operations_keep_their_width(dtype):
    x, y, z = (random(50, dtype=dtype, seed=s) for s in range(3))
    check(lambda x, y: x + y, A.add, x, y)
    check(lambda x, y: x - y, A.sub, x, y)
    check(lambda x, y: x * y, A.mul, x, y)
    check(lambda x: -x, A.neg, x)
    check(lambda x: x**2, lambda p: A.mul(p, p), x)
    check(torch.addcmul, lambda p, q, r: A.fma(q, r, p), x, y, z)
    check(torch.maximum, A.maximum, x, y)
    check(torch.minimum, A.minimum, x, y)
    check(torch.fmod, A.rem, x, y)
    check(torch.relu, lambda p: A.maximum(p, np.zeros_like(p)), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_division_and_functions_work_in_fp32_on_narrower_floats(dtype):
    x, y = random(50, dtype=dtype), random(50, dtype=dtype, seed=1)
    wide = "fp32" if dtype in ("fp16", "bf16") else dtype

    def widened(function):
        return lambda *p: A.cast(function(*(A.cast(v, wide) for v in p)), dtype)

    check(lambda x, y: x / y, widened(A.div), x, y)
    check(torch.reciprocal, widened(A.inv), x)
    for op in ("exp", "exp2", "sin", "cos", "log", "log2", "sqrt", "rsqrt", "erf", "floor", "ceil"):
        check(getattr(torch, op), widened(lambda p, op=op: A.unary(op, p)), x)
    check(torch.sigmoid, widened(lambda p: A.inv(A.add(A.exp(A.neg(p)), np.ones_like(p)))), x)
    symbol = "__nv_tanh" + ("f" if wide == "fp32" else "")
    check(torch.tanh, widened(lambda p: A.extern(symbol, [p], wide)), x)


def test_numbers_are_rounded_to_the_tensors_type_once():
    x = random(20, dtype="bf16")
    third = np.array(0x3EAB, np.uint16)  # 1/3 in bf16
    check(lambda x: x * (1 / 3), lambda p: A.mul(p, A.embed(third, "bf16")), x)
    y = random(20)
    check(lambda y: 2.0 - y, lambda p: A.sub(A.embed(np.float32(2), "fp32"), p), y)
    check(lambda y: torch.add(y, y, alpha=3), lambda p: A.add(p, A.mul(p, A.embed(np.float32(3), "fp32"))), y)
    check(lambda y: torch.clamp(y, -1.0, 1.0), lambda p: A.clamp(p, -np.ones_like(p), np.ones_like(p), "fp32"), y)


def test_types_promote_by_payload_casts():
    x, y = random(20, dtype="fp16"), random(20, seed=1)
    check(lambda x, y: x + y, lambda p, q: A.add(A.cast(p, "fp32"), q), x, y, dtype=torch.float32)
    check(lambda x: x.to(torch.float32), lambda p: A.cast(p, "fp32"), x, dtype=torch.float32)
    check(lambda y: y.to(torch.float16), lambda p: A.cast(p, "fp16"), y, dtype=torch.float16)
    check(lambda x, y: torch.cat([x, y])[:20], lambda p, q: A.cast(p, "fp32"), x, y, dtype=torch.float32)

    def into_a_narrower_tensor(y):
        return torch.empty(20, dtype=torch.float16).copy_(y)

    check(into_a_narrower_tensor, lambda p: A.cast(p, "fp16"), y, dtype=torch.float16)


def test_versions_differ_in_casts_and_constants():
    x = random(30)
    for version in algebra.VERSIONS:
        a = algebra.get(version)
        result, _ = compute(lambda x: x.half(), x, version=version)
        wanted = a.unembed(a.cast(a.embed(bits(x), "fp32"), "fp16"), "fp16")
        np.testing.assert_array_equal(bits(result), wanted)


def test_in_place_and_out_forms_give_the_functional_result():
    x, y = random(4, 5), random(4, 5, seed=1)
    wanted, _ = compute(lambda: (x + y) * 3.0)
    before = bits(x).copy()

    def in_place():
        z = x.clone()
        z.add_(y).mul_(3.0)
        return z

    np.testing.assert_array_equal(bits(compute(in_place)[0]), bits(wanted))
    into = torch.empty(4, 5)
    compute(lambda: torch.mul(torch.add(x, y, out=torch.empty(0)), 3.0, out=into))
    np.testing.assert_array_equal(bits(into), bits(wanted))
    np.testing.assert_array_equal(bits(x), before)


def test_moving_data_keeps_every_pattern():
    x = random(64, 64)

    def moved(x):
        y = torch.cat([x.T.contiguous(), x]).flip(0).roll(3, 1)[:, :48].reshape(-1, 32).clone()
        return torch.where(torch.ones_like(y, dtype=torch.bool), y, 0.0).masked_fill(y != y, 1.0).tril()

    with FpSanTorch(VERSION) as mode:
        inside = moved(x)
    np.testing.assert_array_equal(bits(inside), bits(moved(x)))
    assert not mode.operations


def test_integers_stay_integers_and_become_floats_by_value():
    n = torch.arange(1, 9)
    with FpSanTorch(VERSION):
        assert (n * 3).tolist() == [3 * i for i in range(1, 9)]
        assert (n.sum() // 2).item() == 18
        quotient = n / 3
    three = A.embed(np.float32(3), "fp32")
    wanted = A.div(A.embed(np.arange(1, 9, dtype=np.float32), "fp32"), three)
    np.testing.assert_array_equal(payload(quotient), wanted)


# ---------------------------------------------------------------------------------------------------------------------
# Products and reductions


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrix_products_accumulate_wide_and_narrow_once(dtype):
    accumulator = "fp32" if dtype in ("fp16", "bf16") else dtype
    a, b = random(5, 33, dtype=dtype), random(33, 4, dtype=dtype, seed=1)

    def product(p, q):
        return A.cast(A.matmul(p, q, dtype=accumulator), dtype)

    check(lambda a, b: a @ b, product, a, b)
    check(lambda a, b: torch.einsum("mk,kn->mn", a, b), product, a, b)
    check(lambda a, b: F.linear(a, b.T), product, a, b)
    check(lambda a, b: (a[None] @ b[None].expand(2, -1, -1))[1], product, a, b)
    check(lambda a, b: a @ b[:, 0], lambda p, q: product(p, q)[:, 0], a, b)
    check(lambda a, b: torch.dot(a[0], b[:, 0]), lambda p, q: product(p, q)[0, 0], a, b)
    c = random(5, 4, dtype=dtype, seed=2)

    def with_sum(r, p, q):
        return A.cast(A.add(A.matmul(p, q, dtype=accumulator), A.cast(r, accumulator)), dtype)

    check(torch.addmm, with_sum, c, a, b)


def test_factors_of_addmm_multiply_payloads():
    c, a, b = random(5, 4), random(5, 7, seed=1), random(7, 4, seed=2)
    half, two = A.embed(np.float32(0.5), "fp32"), A.embed(np.float32(2), "fp32")

    def rule(r, p, q):
        return A.add(A.mul(r, half), A.mul(A.matmul(p, q, dtype="fp32"), two))

    check(lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), rule, c, a, b)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_reductions_stay_in_their_type_unless_told(dtype):
    x = random(6, 11, dtype=dtype)
    check(lambda x: x.sum(1), lambda p: A.sum(p, axis=1), x)
    check(torch.sum, A.sum, x)
    check(lambda x: x.sum((0, 1), keepdim=True), lambda p: A.sum(p, keepdims=True), x)
    check(lambda x: x.sum(1, dtype=torch.float32), lambda p: A.sum(A.cast(p, "fp32"), axis=1), x, dtype=torch.float32)
    check(lambda x: x.amax(0), lambda p: A.max(p, axis=0), x)
    check(lambda x: x.min(), A.min, x)
    check(lambda x: x.max(1).values, lambda p: A.max(p, axis=1), x)
    check(lambda x: x.gather(1, x.min(1, keepdim=True).indices)[:, 0], lambda p: A.min(p, axis=1), x)
    check(lambda x: x.cumsum(1), lambda p: A.cumsum(p, axis=1), x)
    check(lambda x: x.prod(1), lambda p: np.multiply.reduce(p, axis=1, dtype=p.dtype), x)


def count(n):
    return A.embed(np.float32(n), "fp32")


def mean(p):
    return A.div(A.sum(p, axis=-1, keepdims=True), count(p.shape[-1]))


def test_moments():
    x = random(6, 11)
    check(lambda x: x.mean(-1, keepdim=True), mean, x)

    def variance(p, correction):
        deviation = A.sub(p, mean(p))
        return A.div(A.sum(A.mul(deviation, deviation), axis=-1), count(p.shape[-1] - correction))

    check(lambda x: x.var(-1), lambda p: variance(p, 1), x)
    check(lambda x: x.var(-1, correction=0), lambda p: variance(p, 0), x)
    check(lambda x: x.std(-1), lambda p: A.unary("sqrt", variance(p, 1)), x)


def test_accumulating_index_operations_add_in_the_ring():
    x, source = random(4), random(6, seed=1)
    index = torch.tensor([0, 2, 2, 1, 2, 0])

    def rule(p, q):
        total = p.copy()
        np.add.at(total, index.numpy(), q)
        return total

    check(lambda x, s: x.index_add(0, index, s), rule, x, source)
    check(lambda x, s: x.scatter_add(0, index, s), rule, x, source)
    check(lambda x, s: x.index_put((index,), s, accumulate=True), rule, x, source)


# ---------------------------------------------------------------------------------------------------------------------
# Compositions


def exponentials(p):
    return A.exp(A.sub(p, A.max(p, axis=-1, keepdims=True)))


def softmax(p):
    e = exponentials(p)
    return A.div(e, A.sum(e, axis=-1, keepdims=True))


def logsumexp(p):
    return A.add(A.unary("log", A.sum(exponentials(p), axis=-1)), A.max(p, axis=-1))


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_softmax_family(dtype):
    x = random(6, 11, dtype=dtype)

    def widened(function):
        return lambda p: A.cast(function(A.cast(p, "fp32")), dtype)

    check(lambda x: F.softmax(x, -1), widened(softmax), x)
    check(lambda x: torch.logsumexp(x, -1), widened(logsumexp), x)

    def log_softmax(p):
        shifted = A.sub(p, A.max(p, axis=-1, keepdims=True))
        return A.sub(shifted, A.unary("log", A.sum(A.exp(shifted), axis=-1, keepdims=True)))

    check(lambda x: F.log_softmax(x, -1), widened(log_softmax), x)


def test_norms_follow_their_formulas():
    x, w, b = random(6, 11), random(11, seed=1), random(11, seed=2)
    eps = A.embed(np.float32(1e-5), "fp32")

    def layer_norm(p, q, r):
        deviation = A.sub(p, mean(p))
        variance = mean(A.mul(deviation, deviation))
        return A.add(A.mul(A.mul(deviation, A.unary("rsqrt", A.add(variance, eps))), q), r)

    check(lambda x, w, b: F.layer_norm(x, (11,), w, b, 1e-5), layer_norm, x, w, b)

    def rms_norm(p, q):
        return A.mul(A.mul(p, A.unary("rsqrt", A.add(mean(A.mul(p, p)), eps))), q)

    check(lambda x, w: F.rms_norm(x, (11,), w, 1e-5), rms_norm, x, w)


def test_activations_follow_their_formulas():
    x = random(50)
    one, half = count(1), count(0.5)
    check(F.silu, lambda p: A.div(p, A.add(one, A.exp(A.neg(p)))), x)

    def gelu(p):
        inner = A.unary("erf", A.mul(p, count(0.7071067811865476)))
        return A.mul(A.mul(p, half), A.add(one, inner))

    check(F.gelu, gelu, x)

    def gelu_tanh(p):
        cube = A.mul(A.mul(p, p), p)
        inner = A.mul(count(np.sqrt(2 / np.pi)), A.add(p, A.mul(count(0.044715), cube)))
        return A.mul(A.mul(p, half), A.add(one, A.extern("__nv_tanhf", [inner], "fp32")))

    check(lambda x: F.gelu(x, approximate="tanh"), gelu_tanh, x)


def test_cross_entropy_is_the_mean_of_logsumexp_minus_the_target():
    x, target = random(6, 11), torch.tensor([3, 1, 0, 10, 5, 5])

    def rule(p):
        chosen = p[np.arange(6), target.numpy()]
        return A.div(A.sum(A.sub(logsumexp(p), chosen)), count(6))

    check(lambda x: F.cross_entropy(x, target), rule, x)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_masks_multiply(causal):
    q, k, v = (random(2, 9, 8, seed=s) for s in range(3))
    keep = np.tril(np.ones((9, 9), bool)) if causal else np.ones((9, 9), bool)

    def rule(q, k, v):
        scores = A.mul(A.matmul(q, np.swapaxes(k, 1, 2), dtype="fp32"), count(8**-0.5))
        low = A.embed(np.float32(-np.inf), "fp32")
        highest = A.max(np.where(keep, scores, low), axis=-1, keepdims=True)
        e = np.where(keep, A.exp(A.sub(scores, highest)), np.uint32(0))
        return A.div(A.matmul(e, v, dtype="fp32"), A.sum(e, axis=-1, keepdims=True))

    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), rule, q, k, v)
    mask = torch.from_numpy(keep)
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask), rule, q, k, v)
    added = torch.zeros(9, 9).masked_fill(~mask, -float("inf"))
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, added), rule, q, k, v)


def test_attention_with_grouped_keys_repeats_them():
    q, k, v = random(1, 4, 5, 8), random(1, 2, 5, 8, seed=1), random(1, 2, 5, 8, seed=2)

    def grouped(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    def repeated(q, k, v):
        return F.scaled_dot_product_attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))

    np.testing.assert_array_equal(bits(compute(grouped, q, k, v)[0]), bits(compute(repeated, q, k, v)[0]))


def test_a_transformer_layer_runs():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    result, mode = compute(layer, torch.randn(1, 5, 8))
    assert result.shape == (1, 5, 8)
    assert mode.operations["native_layer_norm"] == 2


# ---------------------------------------------------------------------------------------------------------------------
# Autograd


def test_gradients_of_a_product_are_products():
    x, w = random(5, 7).requires_grad_(), random(7, 3, seed=1).requires_grad_()
    with FpSanTorch(VERSION):
        y = x @ w
        (y * y).sum().backward()
    p, q = payload(x), payload(w)
    gradient = A.mul(A.matmul(p, q, dtype="fp32"), np.uint32(2))  # y + y, the two sides of the product
    np.testing.assert_array_equal(payload(x.grad), A.matmul(gradient, q.T, dtype="fp32"))
    np.testing.assert_array_equal(payload(w.grad), A.matmul(p.T, gradient, dtype="fp32"))


def test_gradient_of_softmax_follows_its_formula():
    x, g = random(4, 7).requires_grad_(), random(4, 7, seed=1)
    with FpSanTorch(VERSION):
        (F.softmax(x, -1) * g).sum().backward()
    s, u = softmax(payload(x)), payload(g)
    wanted = A.sub(A.mul(s, u), A.mul(s, A.sum(A.mul(s, u), axis=-1, keepdims=True)))
    np.testing.assert_array_equal(payload(x.grad), wanted)


BACKWARD = {
    "layer_norm": lambda x: F.layer_norm(x, (7,)),
    "rms_norm": lambda x: F.rms_norm(x, (7,)),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2, 3, 4])),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "relu": F.relu,
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "max": lambda x: x.max(-1).values,
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
    "index": lambda x: x[torch.tensor([1, 1])],
    "embedding": lambda x: F.embedding(torch.tensor([1, 1]), x),
    "cumsum": lambda x: x.cumsum(-1),
    "division": lambda x: x / (x + 1),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_simple_autograd_has_rules(name):
    x = torch.randn(5, 7, requires_grad=True)
    with FpSanTorch(VERSION):
        BACKWARD[name](x).sum().backward()
    assert x.grad.shape == x.shape


# ---------------------------------------------------------------------------------------------------------------------
# Against kernels


@pytest.mark.triton
def test_the_mode_agrees_with_triton_kernels():
    pytest.importorskip("triton")
    import fpsan_gpu_kernels as kernels

    default = algebra.get().version
    a, b, c = random(40, 70), random(70, 30, seed=1), torch.empty(40, 30)
    x, w, bias, y = random(6, 77), random(77, seed=1), random(77, seed=2), torch.empty(6, 77)
    z = torch.empty(6, 77)
    q, k, v, o = (*(random(1, 45, 16, seed=s) for s in range(3)), torch.empty(1, 45, 16))
    with fpsan_tools.on_cpu():
        kernels.matmul[(2, 1)](a, b, c, 40, 30, 70, "ieee", 32, 32, 32)
        kernels.softmax[(6,)](x, y, 77, BLOCK=128)
        kernels.layer_norm[(6,)](x, w, bias, z, 77, 1e-5, BLOCK=128)
        kernels.attention[(3, 1)](q, k, v, o, 45, 0.25, True, 16, 16, 16)
    for kernel, reference in (
        (c, lambda: a @ b),
        (y, lambda: F.softmax(x, -1)),
        (z, lambda: F.layer_norm(x, (77,), w, bias, 1e-5)),
        (o, lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.25)),
    ):
        np.testing.assert_array_equal(bits(kernel), bits(compute(reference, version=default)[0]))


# ---------------------------------------------------------------------------------------------------------------------
# What it leaves out


def test_operations_on_carriers_are_counted():
    x = random(20)
    _, mode = compute(lambda: torch.where(x > 0, x.abs(), x).int())
    assert mode.unsanitised == {"gt.Scalar": 1, "abs": 1, "_to_copy": 1}


def test_unknown_operations_are_refused_with_the_callers_line():
    x = random(1, 2, 9)
    with (
        pytest.raises(UnsupportedOperation, match=r"aten\.convolution is not supported") as caught,
        FpSanTorch(VERSION),
    ):
        F.conv1d(x, random(3, 2, 3))
    assert caught.value.file == __file__
    assert "F.conv1d" in Path(__file__).read_text(encoding="utf-8").splitlines()[caught.value.line - 1]
    with pytest.raises(UnsupportedOperation, match="complex numbers have no payloads"), FpSanTorch(VERSION):
        torch.complex(x, x).abs()
    with pytest.raises(FpsanError, match=r"dropout_p=0\.1 is random"), FpSanTorch(VERSION):
        F.scaled_dot_product_attention(x, x, x, dropout_p=0.1)


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_the_mode_ends_with_its_block(failure):
    x = random(8)
    ordinary = bits(torch.ones(1) + torch.ones(1))

    def fails():
        with FpSanTorch(VERSION):
            torch.exp(x)
            raise failure

    with pytest.raises(failure):
        fails()
    assert _get_current_dispatch_mode() is None
    assert F.scaled_dot_product_attention(x[None], x[None], x[None]).shape == (1, 8)
    np.testing.assert_array_equal(bits(torch.ones(1) + torch.ones(1)), ordinary)


def test_blocks_nest():
    x, y = random(8), random(8, seed=1)
    with FpSanTorch(VERSION) as outer:
        with FpSanTorch("3.8") as inner:
            first = x * y
        second = x * y
    old = algebra.get("3.8")
    wanted = old.unembed(old.mul(*(old.embed(bits(v), "fp32") for v in (x, y))), "fp32")
    np.testing.assert_array_equal(bits(first), wanted)
    np.testing.assert_array_equal(payload(second), A.mul(payload(x), payload(y)))
    assert inner.operations == outer.operations == {"mul.Tensor": 1}
