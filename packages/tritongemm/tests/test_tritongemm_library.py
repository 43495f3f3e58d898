"""The products as operators of torch: gradients, compilation, vmap, autocast, and the errors torch users know."""

import gc
import itertools
import pathlib
import re
import subprocess
import sys
import warnings
import weakref

import pytest

import tritongemm
from tritongemm.errors import UsageError
from tritongemm.operands import OperandError

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
library = pytest.importorskip("tritongemm.library")

pytestmark = [pytest.mark.torch, pytest.mark.triton]

OPERATOR = torch.ops.tritongemm.product.default
BLOCKED = tritongemm.Config(kernel="blocked", block_m=16, block_n=16, block_k=16, stages=1)
ACTIVATIONS = {
    None: lambda x: x,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
}


def random(*shape, dtype=torch.float32, seed=0, grad=False):
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed + 31 * len(shape)), dtype=torch.float64)
    return made.to(dtype).requires_grad_(grad)


def same_bits(x, y):
    assert x.dtype == y.dtype
    assert x.shape == y.shape
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return torch.equal(x.detach().contiguous().view(whole), y.detach().contiguous().view(whole))


# ------------------------------------------------------------------------------------------------------------ gradients
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_and_their_gradients_are_those_of_the_product(activation):
    operands = [random(*shape, dtype=torch.float64, grad=True) for shape in ((2, 3), (3, 2), (2, 2), (2,))]

    def product(a, b, c, bias):
        return tritongemm.mm(a, b, c=c, bias=bias, alpha=0.5, beta=-1.5, activation=activation)

    assert torch.autograd.gradcheck(product, operands)
    assert torch.autograd.gradgradcheck(product, operands)


TRANSFORMS = {
    "hessian": torch.func.hessian,
    "reverse, reverse": lambda f: torch.func.jacrev(torch.func.jacrev(f)),
    "reverse, forward": lambda f: torch.func.jacrev(torch.func.jacfwd(f)),
    "forward, forward": lambda f: torch.func.jacfwd(torch.func.jacfwd(f)),
    "of two operands": lambda f: torch.func.jacfwd(torch.func.jacrev(f), argnums=1),
    "two tangents": lambda f: (
        lambda *x: torch.func.jvp(lambda *y: torch.func.jvp(f, y, y)[1], x, tuple(v.sin() for v in x))[1]
    ),
    "autograd's, reverse": lambda f: lambda *x: torch.autograd.functional.hessian(f, x, vectorize=True)[0][1],
    "autograd's, forward": (
        lambda f: (
            lambda *x: torch.autograd.functional.hessian(f, x, vectorize=True, outer_jacobian_strategy="forward-mode")[
                0
            ][2]
        )
    ),
}


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_second_derivatives_by_any_transforms_are_those_of_torchs_product(transform, activation):
    operands = [random(*shape, dtype=torch.float64, seed=3) for shape in ((2, 3), (3, 2), (2,))]

    def ours(a, b, bias):
        return tritongemm.mm(a, b, bias=bias, activation=activation).sin().sum()

    def torchs(a, b, bias):
        return ACTIVATIONS[activation](torch.addmm(bias, a, b)).sin().sum()

    second = TRANSFORMS[transform]
    want = second(torchs)(*operands)
    assert want.abs().max() > 0.01
    torch.testing.assert_close(second(ours)(*operands), want)


def test_gradients_of_batches_and_of_broadcast_addends():
    a, b = random(2, 2, 3, dtype=torch.float64, grad=True), random(2, 3, 2, dtype=torch.float64, grad=True)
    row, bias = random(1, 2, dtype=torch.float64, grad=True), random(2, dtype=torch.float64, grad=True)
    assert torch.autograd.gradcheck(lambda *x: tritongemm.bmm(x[0], x[1], c=x[2], beta=2, bias=x[3]), (a, b, row, bias))
    assert torch.autograd.gradcheck(lambda *x: tritongemm.matmul(x[0], x[1]), (a, b[:1]))
    assert torch.autograd.gradcheck(lambda *x: tritongemm.addmm(x[0], x[1], x[2]), (row, a[0], b[0]))


@pytest.mark.parametrize("precision", ["ieee", "tf32", "bf16x6"])
def test_gradients_are_products_in_the_same_mode(precision):
    a, b, g = random(5, 40, grad=True), random(40, 6, grad=True), random(5, 6, seed=7)
    tritongemm.mm(a, b, precision=precision, alpha=0.5).backward(g)
    with torch.no_grad():
        assert same_bits(a.grad, tritongemm.mm(g, b.T, precision=precision, alpha=0.5))
        assert same_bits(b.grad, tritongemm.mm(a.T, g, precision=precision, alpha=0.5))
    assert same_bits(a.grad, tritongemm.predict(g, b.T, precision=precision, alpha=0.5))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_gradients_are_as_close_as_torchs_own(activation, dtype):
    def gradients(operands, product):
        leaves = [x.detach().clone().requires_grad_() for x in operands]
        result = ACTIVATIONS[activation](product(*leaves)) if product is torch_product else product(*leaves)
        result.backward(torch.ones_like(result))
        return [x.grad.double() for x in leaves]

    def torch_product(x, w, bias):
        return torch.nn.functional.linear(x, w, bias)

    def ours(x, w, bias):
        return tritongemm.linear(x, w, bias, activation=activation)

    operands = [random(4, 24, dtype=dtype), random(6, 24, dtype=dtype, seed=1), random(6, dtype=dtype, seed=2)]
    golden = gradients([x.double() for x in operands], torch_product)
    theirs, mine = gradients(operands, torch_product), gradients(operands, ours)
    for want, reference, got in zip(golden, theirs, mine, strict=True):
        scale = want.abs().max()
        floor = torch.finfo(dtype).eps * scale
        assert (got - want).abs().max() <= 2 * (reference - want).abs().max() + floor


def test_results_are_the_same_bits_with_and_without_gradients():
    a, b, bias = random(3, 20), random(20, 4), random(4)
    for activation in ACTIVATIONS:
        plain = tritongemm.mm(a, b, bias=bias, activation=activation)
        watched = tritongemm.mm(a.clone().requires_grad_(), b, bias=bias, activation=activation)
        assert watched.requires_grad
        assert not plain.requires_grad
        assert same_bits(plain, watched)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_operator_and_the_short_way_of_plain_tensors_agree(activation):
    def both(function):
        leaves = [random(3, 20, grad=True), random(20, 4, grad=True), random(4, grad=True)]
        result = function(*leaves)
        result.square().sum().backward()
        return result, *(x.grad for x in leaves)

    short = both(lambda a, b, bias: tritongemm.mm(a, b, bias=bias, alpha=2, activation=activation))
    operator = both(lambda a, b, bias: OPERATOR(a, b, None, bias, 2.0, 0.0, activation, "ieee", None, True, None))
    assert all(same_bits(x, y) for x, y in zip(short, operator, strict=True))
    assert "Product" in type(short[0].grad_fn).__name__


def test_only_wanted_gradients_are_computed_and_operands_are_let_go():
    a, b = random(3, 4, grad=True), random(4, 5)
    result = tritongemm.mm(a, b)
    kept = weakref.ref(result.grad_fn)
    result.sum().backward()
    assert b.grad is None
    del result
    gc.collect()
    assert kept() is None


def test_products_of_8_bit_floats_have_no_derivative_and_say_so():
    a = random(16, 32).to(torch.float8_e4m3fn).requires_grad_()
    result = tritongemm.mm(a, a.detach().T)
    with pytest.raises(RuntimeError, match=r"8-bit operands.*torch\.no_grad"):
        result.sum().backward()


# --------------------------------------------------------------------------------------------------------- registration
def arguments(a, b, c=None, bias=None, alpha=1.0, beta=0.0, activation=None, mode="ieee", dtype=None, invariant=True):
    return (a, b, c, bias, alpha, beta, activation, mode, dtype, invariant, None)


HALF = torch.bfloat16
CHECKED = {
    "plain": arguments(random(3, 4), random(4, 5)),
    "everything": arguments(
        random(3, 4, grad=True), random(4, 5, grad=True), random(3, 5), random(5), 2.0, 0.5, "gelu"
    ),
    "batch": arguments(random(2, 3, 4, grad=True), random(2, 4, 5), activation="relu", mode="tf32"),
    "transposed": arguments(random(4, 3).T, random(5, 4).T, mode="bf16x3", dtype=HALF, invariant=False),
    "wider": arguments(random(3, 4, dtype=HALF), random(4, 5, dtype=HALF), dtype=torch.float32),
    "empty": arguments(random(0, 4), random(4, 5)),
}


# torch hides this warning of its own from users; warnings that are errors come before that.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize("kind", CHECKED)
def test_opcheck_passes(kind):
    checked = torch.library.opcheck(OPERATOR, CHECKED[kind])
    assert set(checked.values()) == {"SUCCESS"}, checked


FP8 = torch.float8_e4m3fn


def scaled_operands(M=16, K=32, N=16):
    a, b = (random(*shape, seed=i).to(FP8) for i, shape in enumerate(((M, K), (N, K))))
    return a, b.T


def test_scaled_products_are_torchs_up_to_the_rounding_of_the_result():
    a, b = scaled_operands()
    scale_a, scale_b = torch.tensor(0.5), torch.tensor(3.0)
    got = tritongemm.scaled_mm(a, b, scale_a, scale_b)
    want = torch._scaled_mm(a, b, scale_a, scale_b, out_dtype=torch.bfloat16)
    assert got.dtype == want.dtype
    golden = (a.double() @ b.double()) * 1.5
    rounding = 2.0**-8 * golden.abs() + 2.0**-12 * 1.5 * (a.double().abs() @ b.double().abs())
    assert bool(((got.double() - golden).abs() <= rounding).all())
    assert bool(((want.double() - golden).abs() <= rounding).all())
    out = torch.empty(16, 16, dtype=torch.bfloat16)
    assert tritongemm.scaled_mm(a, b, scale_a, scale_b, out=out) is out
    assert same_bits(out, got)


def test_scaled_products_are_an_operator_without_a_derivative(compiled):
    a, b = scaled_operands()
    scales = torch.rand(16, 1), torch.rand(1, 16)
    operator = torch.ops.tritongemm.scaled_product.default
    given = (*scales, random(16, 16), random(16), 0.5, 2.0, "relu", "fast", torch.float32, True, None)
    # torch's check that operands are not changed cannot compare 8-bit floats; it is done on wider ones.
    able = ("test_autograd_registration", "test_faketensor")
    wide = (*scales, random(16, 16), None, 1.0, 0.5, None, "ieee", torch.float32, True, None)
    for checked in (
        torch.library.opcheck(operator, (a, b, *given), test_utils=able),
        torch.library.opcheck(operator, (a.float(), b.float(), *wide)),
    ):
        assert set(checked.values()) == {"SUCCESS"}, checked

    def function(a, b, x, y):
        return tritongemm.scaled_mm(a, b, x, y, out_dtype="fp32", precision="fast")

    def whole(a, b, x, y, c):
        more = {"alpha": 0.5, "beta": 2.0, "c": c, "bias": c, "activation": "gelu"}
        return tritongemm.scaled_mm(a, b, x, y, out_dtype=torch.float32, **more)

    assert same_bits(compiled(function)(a, b, *scales), function(a, b, *scales))
    assert same_bits(compiled(whole)(a, b, *scales, random(16)), whole(a, b, *scales, random(16)))
    watched = [x.clone().requires_grad_() for x in scales]
    with pytest.raises(RuntimeError, match=r"scaled_mm has no derivative.*no_grad"):
        function(a, b, *watched).sum().backward()


def test_operators_can_be_exported():
    class Model(torch.nn.Module):
        def forward(self, x, w):
            return tritongemm.linear(x, w, activation="relu")

    x, w = random(4, 8), random(6, 8)
    exported = torch.export.export(Model(), (x, w), dynamic_shapes={"x": {0: torch.export.Dim("M", min=2)}, "w": None})
    assert any(node.target is OPERATOR for node in exported.graph.nodes)
    longer = random(9, 8)
    assert same_bits(exported.module()(longer, w), tritongemm.linear(longer, w, activation="relu"))


def test_importing_the_package_imports_neither_torch_nor_triton():
    code = "import sys, tritongemm, tritongemm.api; print([m for m in ('torch', 'triton') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_fake_tensors_get_the_shape_and_type_of_the_result():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        a, b = torch.empty(3, 4, dtype=torch.bfloat16), torch.empty(4, 5, dtype=torch.bfloat16)
        assert tritongemm.mm(a, b).shape == (3, 5)
        assert tritongemm.mm(a, b, out_dtype=torch.float32).dtype == torch.float32
        assert tritongemm.linear(torch.empty(2, 3, 4), torch.empty(6, 4)).shape == (2, 3, 6)
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            tritongemm.mm(a, b.T)
    meta = tritongemm.bmm(torch.empty(2, 3, 4, device="meta"), torch.empty(2, 4, 5, device="meta"))
    assert meta.is_meta
    assert meta.shape == (2, 3, 5)


# ------------------------------------------------------------------------------------------------------------ compiling
@pytest.fixture
def compiled():
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()

    def compile(function):
        return torch.compile(function, fullgraph=True, dynamic=True, backend="aot_eager")

    yield compile
    torch._dynamo.reset()


CALLS = {
    "mm": lambda a, b, bias: tritongemm.mm(a, b, bias=bias, alpha=2.0, activation="gelu"),
    "addmm": lambda a, b, bias: tritongemm.addmm(bias, a, b, beta=0.5),
    "linear": lambda a, b, bias: tritongemm.linear(a, b.T, bias, activation="silu"),
    "linear_3d": lambda a, b, bias: tritongemm.linear(a[None], b.T, bias, out_dtype="bf16"),
    "bmm": lambda a, b, bias: tritongemm.bmm(a[None], b[None], precision="tf32"),
    "baddbmm": lambda a, b, bias: tritongemm.baddbmm(bias, a[None], b[None]),
    "matmul": lambda a, b, bias: tritongemm.matmul(a[None].expand(2, -1, -1), b),
    "matmul_batches": lambda a, b, bias: tritongemm.matmul(a[None, None], b[None].expand(2, -1, -1)),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_compiled_call_is_one_graph_for_all_shapes_and_has_the_same_bits(call, compiled):
    eager = CALLS[call]
    function = compiled(eager)
    for M, K, N in ((3, 4, 5), (6, 7, 8), (9, 5, 3)):
        a, b, bias = random(M, K), random(K, N), random(N)
        assert same_bits(function(a, b, bias), eager(a, b, bias))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_what_payloads_are_known_compiles_nothing_again(compiled, monkeypatch):
    rules = pytest.importorskip("fpsan_tools.torch_rules").RULES
    for name in (library.PRODUCT, library.SCALED):
        monkeypatch.delitem(rules, name, raising=False)
    function = compiled(CALLS["mm"])
    for M in (3, 6):
        operands = random(M, 4), random(4, 5), random(5)
        assert same_bits(function(*operands), CALLS["mm"](*operands))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_compiled_gradients_have_the_same_bits(compiled):
    def loss(a, b, bias):
        return tritongemm.linear(a, b, bias, activation="gelu").square().sum()

    def gradients(function):
        leaves = [random(5, 7, grad=True), random(6, 7, seed=1, grad=True), random(6, seed=2, grad=True)]
        function(*leaves).backward()
        return [x.grad for x in leaves]

    for got, want in zip(gradients(compiled(loss)), gradients(loss), strict=True):
        assert same_bits(got, want)


def test_inductor_compiles_the_operator():
    def function(a, b):
        return tritongemm.mm(a + 1, b, activation="relu") * 2

    torch._dynamo.reset()
    a, b = random(3, 4), random(4, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's own modules, met on the way
        try:
            result = torch.compile(function, fullgraph=True, dynamic=True)(a, b)
        except torch._inductor.exc.InductorError as error:
            if "compiler" in str(error):
                pytest.skip("no C++ compiler")
            raise
    assert same_bits(result, function(a, b))


def test_a_compiled_call_writes_to_out(compiled):
    def function(a, b, out):
        return tritongemm.mm(a, b, out=out) + 1

    a, b, out = random(3, 4), random(4, 5), torch.empty(3, 5)
    result = compiled(function)(a, b, out)
    assert same_bits(out, tritongemm.mm(a, b))
    assert same_bits(result, out + 1)


def test_a_compiled_call_says_what_is_wrong(compiled):
    with pytest.raises(Exception, match="shapes cannot be multiplied"):
        compiled(lambda a, b: tritongemm.mm(a, b))(random(3, 4), random(5, 6))
    with pytest.raises(Exception, match="to have the same dtype"):
        compiled(lambda a, b: tritongemm.mm(a, b))(random(3, 4), random(4, 6, dtype=torch.float64))
    with pytest.raises(Exception, match="must match the existing size"):
        compiled(lambda a, b: tritongemm.mm(a, b, bias=b[:, 0]))(random(3, 4), random(4, 6))
    with pytest.raises(Exception, match="Did you mean 'relu'"):
        compiled(lambda a, b: tritongemm.mm(a, b, activation="relo"))(random(3, 4), random(4, 6))


# ---------------------------------------------------------------------------------------------------- vmap and autocast
@pytest.mark.parametrize(("at_a", "at_b", "at_c"), [(0, 0, 0), (1, 2, None), (None, 0, 1), (0, None, None)])
def test_vmap_has_the_bits_of_a_loop(at_a, at_b, at_c):
    a = random(3, 4) if at_a is None else random(2, 3, 4).movedim(0, at_a)
    b = random(4, 5) if at_b is None else random(2, 4, 5, seed=1).movedim(0, at_b)
    c = random(3, 5) if at_c is None else random(2, 3, 5, seed=2).movedim(0, at_c)

    def function(a, b, c):
        return tritongemm.mm(a, b, c=c, beta=0.5)

    result = torch.vmap(function, in_dims=(at_a, at_b, at_c))(a, b, c)
    slices = [[x if at is None else x.select(at, i) for x, at in ((a, at_a), (b, at_b), (c, at_c))] for i in range(2)]
    assert same_bits(result, torch.stack([function(*one) for one in slices]))


def test_vmap_of_batches_and_of_biases_has_the_bits_of_a_loop():
    a, b, bias = random(2, 2, 3, 4), random(2, 4, 5), random(2, 5)
    result = torch.vmap(lambda a, bias: tritongemm.bmm(a, b, bias=bias))(a, bias)
    assert same_bits(result, torch.stack([tritongemm.bmm(a[i], b, bias=bias[i]) for i in range(2)]))


def test_per_sample_gradients_by_vmap_of_grad():
    w, x = random(4, 5), random(3, 5, seed=1)

    def loss(w, x):
        return tritongemm.linear(x[None], w).square().sum()

    got = torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(w, x)

    def theirs(w, x):
        return torch.nn.functional.linear(x[None], w).square().sum()

    want = torch.stack([torch.func.grad(theirs)(w, one) for one in x])
    torch.testing.assert_close(got, want)


def test_autocast_changes_nothing():
    a, b = random(3, 4, grad=True), random(4, 5)
    want = tritongemm.mm(a, b)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert same_bits(tritongemm.mm(a, b), want)
        assert torch.mm(a, b).dtype == torch.bfloat16  # which torch's own would do


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, on the way
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:FutureWarning")  # its newer name in torch 2.14
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_forward_mode_derivatives_are_those_of_the_product(activation):
    operands = [random(*shape, dtype=torch.float64, grad=True) for shape in ((2, 3), (3, 2), (2, 2), (2,))]

    def product(a, b, c, bias):
        return tritongemm.mm(a, b, c=c, bias=bias, alpha=0.5, beta=-1.5, activation=activation)

    assert torch.autograd.gradcheck(product, operands, check_forward_ad=True, check_backward_ad=False)


def test_subclasses_see_the_operator():
    seen = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return super().__torch_function__(function, types, args, kwargs or {})

    result = tritongemm.mm(random(3, 4).as_subclass(Watched), random(4, 5))
    assert isinstance(result, Watched)
    assert any("tritongemm.product" in name for name in seen)


def test_operators_refuse_what_is_no_configuration(compiled):
    a, b = random(3, 4), random(4, 5)
    for config in ("tun", "{}", '{"kernel": "blocked", "tiles": 3}', "[1]"):
        with pytest.raises(UsageError, match=r"^config: "):
            OPERATOR(*arguments(a, b)[:-1], config)
    config = tritongemm.Config(kernel="blocked", block_m=16, block_n=16, block_k=16)
    want = tritongemm.mm(a, b)
    assert same_bits(compiled(lambda x, y: tritongemm.mm(x, y, config=config))(a, b), want)
    assert same_bits(compiled(lambda x, y: tritongemm.mm(x, y, config="tune"))(a, b), want)


def test_configurations_survive_the_way_through_an_operator():
    from dataclasses import fields

    from tritongemm import library

    numbers = {field.name: 16 * 2**i for i, field in enumerate(fields(tritongemm.Config)) if field.name != "kernel"}
    config = tritongemm.Config(kernel="blocked", **numbers)
    assert library.read(library.written(config)) == config
    assert library.read(library.written("tune")) == "tune"
    assert library.read(library.written(None)) is None
    with pytest.raises(UsageError, match=r"config: .* given 3"):
        library.written(3)


# -------------------------------------------------------------------------------------------------------- torch's words
def words_of(call):
    with pytest.raises(RuntimeError) as caught:
        call()
    return str(caught.value).splitlines()[0]


A, B = random(3, 4), random(4, 5)
X, Y = A[None], B[None]
MISTAKES = {
    "shapes": (lambda f: f.mm(A, A), "K; is one of them transposed"),
    "rank of a": (lambda f: f.mm(A[0], B), "a has 1 dimension)"),
    "rank of b": (lambda f: f.mm(A, B[None]), "b has 3 dimensions"),
    "out's type": (lambda f: f.mm(A, B, out=torch.empty(3, 5, dtype=torch.float64)), "out_dtype"),
    "out expanded": (lambda f: f.mm(A, B, out=torch.empty(1, 5).expand(3, 5)), "expand"),
    "gradient through out": (lambda f: f.mm(A.clone().requires_grad_(), B, out=torch.empty(3, 5)), "no_grad"),
    "gradient of out": (lambda f: f.mm(A, B, out=torch.empty(3, 5, requires_grad=True)), "no_grad"),
    "batch": (lambda f: f.bmm(X, B.expand(2, 4, 5)), "matmul broadcasts"),
    "batch's K": (lambda f: f.bmm(X, X), "matmul broadcasts"),
    "rank of a batch": (lambda f: f.bmm(A, Y), "a has 2 dimensions"),
    "rank of b's batch": (lambda f: f.bmm(X, B), "b has 2 dimensions"),
    "gradient through a batch's out": (
        lambda f: f.bmm(X.clone().requires_grad_(), Y, out=torch.empty(1, 3, 5)), "no_grad",
    ),
    "addend": (lambda f: f.addmm(torch.empty(7), A, B), "broadcast"),
    "addends": (lambda f: f.baddbmm(torch.empty(7), X, Y), "broadcast"),
    "matmul": (lambda f: f.matmul(A, B.double()), "convert"),
    "matmul's shapes": (lambda f: f.matmul(A, A), "transposed"),
    "matmul's batches": (lambda f: f.matmul(A.expand(2, 3, 4), B.expand(3, 4, 5)), "broadcast"),
    "matmul of a number": (lambda f: f.matmul(torch.tensor(1.0), B), "numbers"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_told_in_torchs_words_and_then_in_ours(mistake):
    call, hint = MISTAKES[mistake]
    theirs, ours = words_of(lambda: call(torch)), words_of(lambda: call(tritongemm))
    assert ours.startswith(theirs)
    assert hint in ours.removeprefix(theirs)


def test_mistakes_of_linear_are_told_in_torchs_words():
    for arguments in (
        (A, B),
        (A, B.T.double()),
        (A, B.T, torch.empty(4)),
        (A, B.T, torch.empty(5, dtype=torch.float64)),
    ):
        theirs = words_of(lambda x=arguments: torch.nn.functional.linear(*x))
        assert words_of(lambda x=arguments: tritongemm.linear(*x)).startswith(theirs)


TYPES = [
    torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128,
]  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_types_that_differ_are_told_in_torchs_words(dtype):
    calls = [
        lambda f: f.mm(A, B.to(dtype)),
        lambda f: f.bmm(X, Y.to(dtype)),
        lambda f: f.mm(A, B, out=torch.empty(3, 5, dtype=dtype)),
        lambda f: f.addmm(torch.empty(5, dtype=dtype), A, B),
    ]
    for call in calls:
        assert words_of(lambda call=call: call(tritongemm)).startswith(words_of(lambda call=call: call(torch)))


def test_an_operand_error_is_both_a_value_error_and_a_runtime_error():
    assert issubclass(OperandError, UsageError)
    assert issubclass(OperandError, ValueError)
    assert issubclass(OperandError, RuntimeError)


def test_integers_are_refused_with_the_types_there_are():
    with pytest.raises(UsageError, match="int32"):
        tritongemm.mm(A.int(), B.int())


# ------------------------------------------------------------------------------------------------------------------ out
def test_out_is_resized_as_torch_resizes_it():
    want = tritongemm.mm(A, B)
    out = torch.empty(0)
    assert tritongemm.mm(A, B, out=out) is out
    assert same_bits(out, want)
    wrong = torch.zeros(3, 6)
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        tritongemm.mm(A, B, out=wrong)
    assert same_bits(wrong, want)


def test_out_may_be_strided_and_only_its_own_elements_are_written():
    whole = torch.full((7, 11), 7.0)
    out = whole[1:7:2, 2:11:2]
    tritongemm.mm(A, B, out=out)
    assert same_bits(out.contiguous(), tritongemm.mm(A, B))
    out.fill_(7.0)
    assert bool((whole == 7.0).all())


@pytest.mark.parametrize("operand", ["a", "b", "bias", "c", "part of c"])
def test_out_may_lie_on_an_operand(operand):
    square = {name: random(4, 4, seed=i) for i, name in enumerate("abc")}
    bias = random(4, seed=9)

    def product(out=None, **changed):
        given = {**square, "bias": bias, **changed}
        return tritongemm.mm(given["a"], given["b"], c=given["c"], beta=0.5, bias=given["bias"], out=out)

    want = product()
    if operand == "bias":
        whole = torch.zeros(4, 4)
        whole[1] = bias
        got = product(out=whole, bias=whole[1])
    elif operand == "part of c":
        whole = torch.zeros(5, 4)
        whole[1:] = square["c"]
        got = product(out=whole[:4], c=whole[1:])
    else:
        own = square[operand].clone()
        got = product(out=own, **{operand: own})
        assert got is own
    assert same_bits(got, want)


@pytest.mark.parametrize("operand", ["a", "b", "c", "bias", "out"])
def test_tensors_that_torch_negates_when_they_are_read(operand):
    given = {"a": A, "b": B, "c": random(3, 5, seed=1), "bias": random(5), "out": torch.empty(3, 5)}
    negated = torch.complex(given[operand], -given[operand]).conj().imag
    assert negated.is_neg()

    def product(a, b, c, bias, out):
        return tritongemm.mm(a, b, c=c, beta=0.5, bias=bias, out=out)

    want = product(**given).clone()
    got = product(**{**given, operand: negated})
    assert same_bits(got.resolve_neg(), want)


def test_arguments_of_torch_and_numpy_are_not_mixed():
    with pytest.raises(UsageError, match="two libraries"):
        tritongemm.mm(A, B.numpy())


def test_devices_are_not_mixed():
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        tritongemm.mm(A, B.to("meta"))


BATCHES = list(itertools.product([(), (2,), (2, 1), (1, 3)], [(), (1,), (3,), (2, 3)]))


@pytest.mark.parametrize(("first", "second"), BATCHES, ids=str)
def test_matmul_broadcasts_as_torchs(first, second):
    a, b = random(*first, 3, 4), random(*second, 4, 5)
    try:
        want = torch.matmul(a, b)
    except RuntimeError:
        with pytest.raises(RuntimeError, match="must match the size"):
            tritongemm.matmul(a, b)
        return
    torch.testing.assert_close(tritongemm.matmul(a, b), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("first", "second"), [((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5))]
)
def test_matmul_takes_vectors_as_torchs(first, second):
    a, b = random(*first), random(*second)
    want = torch.matmul(a, b)
    got = tritongemm.matmul(a, b)
    assert got.shape == want.shape
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


def test_linear_takes_inputs_of_every_rank_and_zero_sizes():
    w, bias = random(5, 4), random(5)
    for shape in ((4,), (3, 4), (2, 3, 4), (2, 1, 3, 4), (0, 4), (2, 0, 4)):
        x = random(*shape)
        want = torch.nn.functional.linear(x, w, bias)
        got = tritongemm.linear(x, w, bias)
        assert got.shape == want.shape
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
    empty = tritongemm.linear(torch.empty(2, 3, 0), torch.empty(5, 0), bias)
    assert same_bits(empty, bias.expand(2, 3, 5).contiguous())


@pytest.mark.parametrize("options", [{}, {"alpha": 2.0}, {"config": BLOCKED}], ids=["plain", "alpha", "kernel"])
def test_gradients_do_not_silently_use_what_a_product_wrote_over(options):
    x, y, shared = random(4, 4, grad=True), random(4, 4), random(4, 4, seed=1)
    result = tritongemm.mm(x, shared)
    with torch.no_grad():
        tritongemm.mm(y, y, out=shared, **options)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_every_product_with_a_result_to_write_to_says_that_it_wrote():
    y, eights = random(4, 4), random(4, 4).to(torch.float8_e4m3fn)
    out, narrow = torch.empty(4, 4), torch.empty(4, 4, dtype=torch.bfloat16)
    several = torch.empty(2, 4, 4)
    for call, target in (
        (lambda: tritongemm.bmm(y[None], y[None], alpha=2, out=several[:1]), several),
        (lambda: tritongemm.linear(y, y, y[0], out=out), out),
        (lambda: tritongemm.mm(y, tritongemm.prepare(y), alpha=2, out=out), out),
        (lambda: tritongemm.scaled_mm(eights, eights, 2.0, 1.0, out=narrow), narrow),
        (lambda: tritongemm.grouped_mm([y, y], [y, y], alpha=2, outs=several), several),
        (lambda: tritongemm.mm(y, y, c=out, beta=2, out=out), out),
    ):
        before = target._version
        call()
        assert target._version > before
    with torch.inference_mode():
        tritongemm.mm(y, y, alpha=2, out=torch.empty(4, 4))


# ----------------------------------------------------------------------------------------------------- models, page
def test_a_layer_has_the_parameters_of_torchs_and_names_its_precision():
    from tritongemm.nn import Linear, replace_linears

    inner = torch.nn.ModuleList([torch.nn.Linear(6, 3, bias=False)])
    model = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU(), inner)
    first, second = model[0], model[2][0]
    kept = {name: x.clone() for name, x in model.state_dict().items()}
    x = random(4, 8)
    want = tritongemm.linear(x, first.weight, first.bias, precision="tf32x3")
    assert replace_linears(model, precision="tf32x3") is model
    assert type(model[0]) is Linear
    assert model[0].weight is first.weight
    assert model[2][0].weight is second.weight
    assert same_bits(model[0](x), want)
    assert model.state_dict().keys() == kept.keys()
    model.load_state_dict(kept)
    assert "precision=tf32x3" in repr(model)
    model[2][0](torch.relu(model[0](x))).sum().backward()
    assert first.weight.grad is not None
    fused = Linear.of(first, activation="relu").eval()
    assert not fused.training
    assert same_bits(fused(x), tritongemm.linear(x, first.weight, first.bias, activation="relu"))
    assert type(replace_linears(torch.nn.Linear(2, 2))) is Linear


def test_a_model_of_such_layers_compiles_and_trains(compiled):
    from tritongemm.nn import Linear

    model = torch.nn.Sequential(Linear(8, 6, activation="gelu", precision="tf32x3"), Linear(6, 3))
    x = random(4, 8)
    want = model(x)
    want.sum().backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    got = compiled(model)(x)
    got.sum().backward()
    assert same_bits(got, want)
    assert all(same_bits(p.grad, g) for p, g in zip(model.parameters(), gradients, strict=True))
    with torch.inference_mode():
        assert same_bits(model(x), want)
    model.zero_grad()
    torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False).sum().backward()
    assert all(same_bits(p.grad, g) for p, g in zip(model.parameters(), gradients, strict=True))


def test_a_layer_that_may_do_other_things_is_left_as_it_is():
    from tritongemm.nn import Linear, replace_linears

    class Own(torch.nn.Linear):
        pass

    moved = torch.nn.Linear(2, 2)
    moved.forward = lambda x: x  # as libraries do that fetch weights first
    model = replace_linears(torch.nn.Sequential(Own(2, 2), moved))
    assert type(model[0]) is Own
    assert model[1] is moved
    with pytest.raises(UsageError, match="layer: its forward was replaced"):
        Linear.of(moved)
    with pytest.raises(UsageError, match=r"layer: a torch\.nn\.Linear, given ReLU"):
        Linear.of(torch.nn.ReLU())


def test_a_layer_in_several_places_is_replaced_in_all_of_them_and_stays_one():
    from tritongemm.nn import Linear, replace_linears

    one = torch.nn.Linear(3, 3)
    model = replace_linears(torch.nn.Sequential(one, torch.nn.ModuleList([one]), one))
    assert type(model[2]) is Linear
    assert model[0] is model[2]
    assert model[1][0] is model[2]


def test_layers_keep_hooks_and_what_these_make_of_their_weights():
    from torch.nn.utils import prune, weight_norm

    from tritongemm.nn import Linear, replace_linears

    x, seen = random(4, 3), []
    plain, pruned, normed = (torch.nn.Linear(3, 3) for _ in range(3))
    handle = plain.register_forward_hook(lambda *_: seen.append(1))
    prune.l1_unstructured(pruned, "weight", amount=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        weight_norm(normed)
    model = replace_linears(torch.nn.Sequential(plain, pruned, normed))
    assert [type(layer) for layer in model] == [Linear] * 3
    model(x)
    handle.remove()
    model(x)
    assert seen == [1]
    with torch.no_grad():
        model[1].weight_orig.mul_(2)
        model[2].weight_g.mul_(2)
    assert same_bits(model[1](x), tritongemm.linear(x, pruned.weight_orig * pruned.weight_mask, pruned.bias))
    w = normed.weight_v * (normed.weight_g / normed.weight_v.norm(dim=1, keepdim=True))
    torch.testing.assert_close(model[2](x), torch.nn.functional.linear(x, w, normed.bias))
    assert int((model[1].weight == 0).sum()) == 4


def test_a_layer_says_all_its_settings_and_does_not_run_what_was_compiled_of_another():
    from tritongemm.nn import Linear

    layer = torch.nn.Linear(2, 2)
    layer.compile(backend="eager")
    made = Linear.of(layer, activation="relu", invariant=False)
    assert "precision=ieee, activation=relu, invariant=False" in repr(made)
    assert bool((made(random(40, 2)) >= 0).all())
    assert layer._compiled_call_impl is not None


def test_compiled_calls_take_what_others_take(compiled):
    a, b = scaled_operands()
    eights = compiled(lambda a, b: tritongemm.scaled_mm(a, b, 0.5, 3, out_dtype="torch.float32"))
    assert same_bits(eights(a, b), tritongemm.scaled_mm(a, b, 0.5, 3, out_dtype="torch.float32"))
    row, several = random(4), random(5, 4, 2)
    assert same_bits(compiled(tritongemm.matmul)(row, several), tritongemm.matmul(row, several))
    assert same_bits(compiled(tritongemm.matmul)(several, row[:2]), tritongemm.matmul(several, row[:2]))
    with pytest.raises(Exception, match=r"alpha is 1e\+39"):
        compiled(lambda x: tritongemm.mm(x, x, alpha=1e39))(random(3, 3))


def test_what_calculates_with_numpy_breaks_the_graph_of_a_compiled_program():
    x = random(4, 4)

    def function(x):
        grouped = tritongemm.grouped_mm([x, x], [x, x[:, :2]], alpha=2)
        return sum(tritongemm.predict(x + 1, x, bias=x[0], precision="tf32").unbind()), *grouped

    got = torch.compile(function, backend="eager")(x)
    assert all(same_bits(*pair) for pair in zip(got, function(x), strict=True))
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="calculates with NumPy, which is not compiled"):
        torch.compile(function, backend="eager", fullgraph=True)(x)


def test_the_code_of_the_readme_that_needs_torch_runs():
    page = pathlib.Path(__file__).parents[1] / "README.md"
    if not page.exists():
        pytest.skip("the tests were installed without the README")
    blocks = [b for b in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S) if "torch" in b]
    assert blocks
    for block in blocks:
        exec(compile(block, str(page), "exec"), {"tritongemm": tritongemm})


def test_a_prepared_operand_breaks_the_graph_of_a_compiled_program():
    a, prepared = torch.randn(4, 8), tritongemm.prepare(torch.randn(8, 5))
    want = a @ prepared
    assert torch.equal(torch.compile(lambda a: tritongemm.mm(a, prepared), backend="eager")(a), want)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="prepared operands are not compiled; give b itself"):
        torch.compile(lambda a: tritongemm.mm(a, prepared), backend="eager", fullgraph=True)(a)


def test_a_guard_stands_aside_in_compiled_programs_too():
    a, b = random(4, 64), random(64, 8, seed=1)
    a[:, 1:20] *= 2.0**-40  # too small for parts: the guard computes in another mode

    def product(x):
        return tritongemm.mm(x, b, precision="fp16x3")

    def inside(x):
        before = product(x)
        with tritongemm.unguarded():
            aside = product(x)
        return before, aside, product(x)

    want = inside(a)
    assert not torch.equal(want[0], want[1])
    for got, wanted in zip(torch.compile(inside, backend="aot_eager")(a), want, strict=True):
        assert same_bits(got, wanted)
    torch._dynamo.reset()  # forgets the graphs around the breaks
    with pytest.raises(torch._dynamo.exc.Unsupported, match="around the call of the compiled function"):
        torch.compile(inside, backend="aot_eager", fullgraph=True)(a)
    torch._dynamo.reset()
    around = torch.compile(product, backend="aot_eager", fullgraph=True)
    for _ in range(2):
        assert same_bits(around(a), want[0])
        with tritongemm.unguarded():
            assert same_bits(around(a), want[1])
    assert tritongemm.emulation.guarded()
