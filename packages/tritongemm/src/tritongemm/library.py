"""The products as operators of torch: gradients, torch.compile, fake tensors and vmap.

`torch.ops.tritongemm.product` and `torch.ops.tritongemm.scaled_product` are registered when this module is imported,
which the functions of `tritongemm.api` do when torch wants to see them; importing tritongemm imports no torch.

Gradients are products in the same precision mode. The derivative of an activation needs the numbers before it; they
are computed again, unrounded, by one more product (relu reads its mask from the result). Since gradients consist of
these operators and of torch's, they can be differentiated again.

The operators take no part in autocast: the precision of a product is what its caller wrote.

Under `fpsan_tools.FpSanTorch` they compute the payloads of the product of matrices, whatever the mode: all modes are
one algebra, and differ in what they round.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad

from tritongemm import eager, execution
from tritongemm.configurations import Config
from tritongemm.elements import element_of
from tritongemm.errors import UsageError
from tritongemm.operands import (
    SCALE_BLOCK,
    Call,
    check_addend,
    check_batches,
    check_bias,
    check_factors,
    check_matrices,
    check_settings,
    check_shapes,
    is_plain,
    result_element,
)

_SCHEMA = (
    "(Tensor a, Tensor b, Tensor? c, Tensor? bias, float alpha, float beta, str? activation, str precision, "
    "ScalarType? out_dtype, bool invariant, str? config) -> Tensor"
)
_SCALED_SCHEMA = (
    "(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor? c, Tensor? bias, float alpha, float beta, "
    "str? activation, str precision, ScalarType? out_dtype, bool invariant, str? config) -> Tensor"
)

PRODUCT = "tritongemm::product"
SCALED = "tritongemm::scaled_product"


def written(config: Config | str | None) -> str | None:
    """A configuration as the operators take it: JSON, or "tune".

    Raises:
        UsageError: It is no configuration.
    """
    if isinstance(config, Config):
        return config.text
    if config is None or isinstance(config, str):
        return config
    raise UsageError(f'config: a tritongemm.Config, "tune" or None, given {config!r}.')


def read(config: str | None) -> Config | str | None:
    """The configuration that `written` wrote.

    Raises:
        UsageError: It did not write this.
    """
    if config is None or config == "tune":
        return config
    try:
        settings = json.loads(config)
    except ValueError:
        raise UsageError(f'config: a configuration as JSON, or "tune", given {config!r}.') from None
    return Config.from_dict(settings)


def product(
    a: Any,
    b: Any,
    c: Any,
    bias: Any,
    alpha: float,
    beta: float,
    activation: str | None,
    precision: str,
    out_dtype: Any,
    invariant: bool,
    config: Config | str | None,
) -> Any:
    """activation(alpha·A B + beta·C + bias) as an operator of torch.

    Args:
        a: (M, K) or (B, M, K) tensor.
        b: (K, N) or (B, K, N) tensor.
        c: Tensor of the product's shape, or None.
        bias: (N,) tensor, or None.
        alpha: Factor of the product.
        beta: Factor of c.
        activation: "relu", "gelu", "silu" or None.
        precision: Name of the mode.
        out_dtype: torch dtype of the result; None for a's.
        invariant: Whether a row's bits must not depend on M.
        config: A configuration; None to have one chosen.

    Returns:
        A new tensor of shape (M, N) or (B, M, N).
    """
    _teach()
    arguments = (a, b, c, bias, alpha, beta, activation, precision, out_dtype, invariant, written(config))
    # The operator is what compilers, modes and subclasses see. Where nobody looks on, an autograd.Function does the
    # same in a fifth of the time, and torch.func's transforms want one.
    if not torch.compiler.is_compiling() and (_transformed() or eager.plain((a, b, c, bias))):
        return _Product.apply(*arguments)
    return torch.ops.tritongemm.product(*arguments)


def _transformed() -> bool:
    """Whether a transform of torch.func or forward-mode differentiation is on."""
    return torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0


def scaled_product(
    a: Any,
    b: Any,
    scale_a: Any,
    scale_b: Any,
    c: Any,
    bias: Any,
    alpha: float,
    beta: float,
    activation: str | None,
    precision: str,
    out_dtype: Any,
    invariant: bool,
    config: Config | str | None,
) -> Any:
    """The product of scaled matrices as an operator of torch; arguments as `tritongemm.scaled_mm`'s."""
    _teach()
    more = alpha, beta, activation, precision, out_dtype, invariant, written(config)
    return torch.ops.tritongemm.scaled_product(a, b, scale_a, scale_b, c, bias, *more)


_UNCOMPILED = (
    "tritongemm: prepared operands are not compiled; give b itself. Nor are products inside of unguarded(); put that "
    "around the call of the compiled function."
)


@torch.compiler.disable(reason="tritongemm: this function calculates with NumPy, which is not compiled.")  # type: ignore[untyped-decorator]
def outside(function: Any, *arguments: Any, **more: Any) -> Any:
    """A call that torch.compile breaks its graph for: it would take NumPy's operations for torch's."""
    return function(*arguments, **more)


@torch.compiler.disable(reason=_UNCOMPILED)  # type: ignore[untyped-decorator]
def uncompiled(*arguments: Any) -> Any:
    """A product that no operator can stand for, as b is no tensor or a guard is told to stand aside: torch.compile
    breaks its graph for it."""
    from tritongemm import api

    return api._called(*arguments)


_RECIPE = (
    "What gradients of 8-bit operands are rounded to is a choice of the training recipe: write a "
    "torch.autograd.Function with its products, or call this under torch.no_grad()."
)


def _shape(a: Any, b: Any) -> tuple[Any, ...]:
    return (*a.shape[:-1], b.shape[-1])


def _product(a, b, c, bias, alpha, beta, activation, precision, out_dtype, invariant, config):  # type: ignore[no-untyped-def]
    settings = ("operator", alpha, beta, activation, precision, out_dtype, invariant, config)
    result = eager.quick(a, b, c, bias, None, settings, _nobody_looks_on)
    if result is not None:
        return result
    return execution.recorded(
        (a, b, c, bias), None, settings,
        a, b, c, bias, None, alpha, beta, activation, precision, out_dtype, invariant, read(config),
    )  # fmt: skip


def _check_settings(
    call: Call, a: Any, c: Any, alpha: float, beta: float, activation: str | None, precision: str
) -> None:
    """Checks what a product that is traced is told beside its operands."""
    check_settings(activation, precision, element_of(a, "a"))
    check_factors(call, alpha, beta, element_of(a, "a"))
    if c is None and beta != 0:
        raise UsageError(f"beta: {beta!r}, but there is no c to multiply; give c, or leave beta away.")


def _nobody_looks_on(tensors: Any) -> bool:
    """Inside an operator gradients are recorded already, and tensors are what they seem."""
    return False


def _product_fake(a, b, c, bias, alpha, beta, activation, precision, out_dtype, invariant, config):  # type: ignore[no-untyped-def]
    call = Call("mm" if a.ndim == 2 else "bmm")
    check_matrices(call, a, b) if a.ndim == 2 else check_batches(call, a, b)
    element = result_element(a, out_dtype)
    if c is not None:
        check_addend(call, "c", c, a, element.library)
    if bias is not None:
        check_bias(call, bias, a, element.library, _shape(a, b))
    _check_settings(call, a, c, alpha, beta, activation, precision)
    return a.new_empty(_shape(a, b), dtype=getattr(torch, element.library))


def _scaled(a, b, scale_a, scale_b, c, bias, alpha, beta, activation, precision, out_dtype, invariant, config):  # type: ignore[no-untyped-def]
    return execution.scaled_product(
        a, b, scale_a, scale_b, c, bias, None, alpha, beta, activation, precision, out_dtype, invariant, read(config)
    )


def _scaled_fake(a, b, scale_a, scale_b, c, bias, alpha, beta, activation, precision, out_dtype, invariant, config):  # type: ignore[no-untyped-def]
    call, element = Call("scaled_mm"), result_element(a, out_dtype)
    check_shapes(call, a, b)
    if c is not None:
        check_addend(call, "c", c, a, element.library)
    if bias is not None:
        check_bias(call, bias, a, element.library, _shape(a, b))
    _check_settings(call, a, c, alpha, beta, activation, precision)
    return a.new_empty(_shape(a, b), dtype=getattr(torch, element.library))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    a, b, c, bias, alpha, beta, activation, precision, _, invariant, _ = inputs
    ctx.save_for_backward(a, b, c, bias, output if activation == "relu" else None)
    ctx.settings = alpha, beta, activation, precision, invariant
    ctx.result_type = output.dtype
    # A configuration is one for the shapes of the forward product; the gradients have others and choose their own.


def _gelu_backward(gradient: Any, z: Any) -> Any:
    return torch.ops.aten.gelu_backward(gradient, z, approximate="none")


def _silu_backward(gradient: Any, z: Any) -> Any:
    # torch's own silu_backward has no derivative.
    s = torch.sigmoid(z)
    return gradient * (s * (1 + z * (1 - s)))


# The derivative of an activation: gradient of the result, numbers before it -> gradient before it.
_DERIVATIVES = {"gelu": _gelu_backward, "silu": _silu_backward}


def _before(gradient: Any, a: Any, b: Any, c: Any, bias: Any, output: Any, settings: tuple[Any, ...]) -> Any:
    """The gradient of alpha·A B + beta·C + bias, in the result's type."""
    alpha, beta, activation, precision, invariant = settings
    if activation is None:
        return gradient
    if activation == "relu":
        return torch.ops.aten.threshold_backward(gradient, output, 0)
    wide = torch.float64 if a.dtype == torch.float64 else torch.float32
    z = product(a, b, c, bias, alpha, beta, None, precision, wide, invariant, None)
    return _DERIVATIVES[activation](gradient.to(wide), z)


def _backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
    a, b, c, bias, output = ctx.saved_tensors
    if a.element_size() == 1:
        raise RuntimeError(f"tritongemm: products of {a.dtype} have no derivative here. {_RECIPE}")
    alpha, beta, _, precision, invariant = ctx.settings
    wants_a, wants_b, wants_c, wants_bias = ctx.needs_input_grad[:4]
    gradient = _before(gradient, a, b, c, bias, output, ctx.settings)
    grad_a = grad_b = grad_c = grad_bias = None

    def multiplied(x: Any, y: Any) -> Any:
        return product(x, y, None, None, alpha, 0.0, None, precision, a.dtype, invariant, None)

    # Both factors of a product have one type: the operands'.
    factor = gradient.to(a.dtype)
    if wants_a:
        grad_a = multiplied(factor, b.mT)
    if wants_b:
        grad_b = multiplied(a.mT, factor)
    if wants_c:
        grad_c = (gradient * beta).to(c.dtype)
    if wants_bias:
        grad_bias = gradient.sum(dim=tuple(range(gradient.ndim - 1))).to(bias.dtype)
    return grad_a, grad_b, grad_c, grad_bias, *(None,) * 7


def _scaled_backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
    raise RuntimeError(f"tritongemm.scaled_mm has no derivative. {_RECIPE}")


def _vmapped(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, int]:
    """vmap of 2-D products is a batch of products where only a, b and c are batched; the rest goes one by one."""
    a, b, c, bias, *settings = arguments
    at_a, at_b, at_c, at_bias = in_dims[:4]
    size = info.batch_size

    def front(x: Any, at: int | None) -> Any:
        return x.unsqueeze(0).expand(size, *x.shape) if at is None else x.movedim(at, 0)

    if at_bias is None and a.ndim - (at_a is not None) == 2:
        c = None if c is None else front(c, at_c)
        return product(front(a, at_a), front(b, at_b), c, bias, *settings), 0
    results = [
        product(
            *(x if x is None or at is None else x.select(at, i) for x, at in zip(arguments[:4], in_dims, strict=False)),
            *settings,
        )
        for i in range(size)
    ]
    return torch.stack(results), 0


class _Product(torch.autograd.Function):  # type: ignore[misc]
    """The operator for torch.func's transforms and for forward-mode differentiation, which do not look into what
    `register_autograd` registers, and for plain tensors, for which it is faster."""

    @staticmethod
    def forward(*arguments: Any) -> Any:
        tensors = [x for x in arguments[:4] if x is not None]
        # Batches that autograd makes of gradients (`is_grads_batched`) look like tensors, but have no memory.
        if not all(map(torch._C._has_storage, tensors)) or tensors[0].is_meta or not eager.plain(tensors):
            return torch.ops.tritongemm.product(*arguments)
        return _product(*arguments)  # type: ignore[no-untyped-call]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, inputs, output)
        ctx.save_for_forward(*ctx.to_save)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        # torch differentiates nothing that is done here, which would drop the tangents that transforms around this one
        # gave to the operands. Those of this one are taken off instead.
        with forward_ad._set_fwd_grad_enabled(True):
            values = (x if x is None else forward_ad.unpack_dual(x).primal for x in ctx.saved_tensors)
            return _Product._tangent(ctx, *values, *tangents[:4])

    @staticmethod
    def _tangent(
        ctx: Any, a: Any, b: Any, c: Any, bias: Any, output: Any,
        tangent_a: Any, tangent_b: Any, tangent_c: Any, tangent_bias: Any,
    ) -> Any:  # fmt: skip
        alpha, beta, _, precision, invariant = ctx.settings

        def multiplied(x: Any, y: Any) -> Any:
            return product(x, y, None, None, alpha, 0.0, None, precision, ctx.result_type, invariant, None)

        terms = [] if tangent_a is None else [multiplied(tangent_a, b)]
        terms += [] if tangent_b is None else [multiplied(a, tangent_b)]
        terms += [] if tangent_c is None else [tangent_c * beta]
        terms += [] if tangent_bias is None else [tangent_bias.expand(_shape(a, b))]
        total = sum(terms[1:], terms[0])
        return _before(total, a, b, c, bias, output, ctx.settings).to(ctx.result_type)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return _backward(ctx, gradient)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, int]:
        return _vmapped(info, in_dims, *arguments)


# ------------------------------------------------------------------------------------------------------------- payloads
def _teach() -> None:
    """Gives fpsan-tools' torch mode the payloads of the operators, once it is there.

    Not while torch.compile traces, which would compile again when the table has grown: where such a mode is on, torch
    compiles nothing and calls this.
    """
    if torch.compiler.is_compiling():
        return
    rules = sys.modules.get("fpsan_tools.torch_rules")
    if rules is not None and PRODUCT not in rules.RULES:
        rules.RULES[PRODUCT], rules.RULES[SCALED] = _product_payloads, _scaled_payloads


def _summed(mode: Any, a: Any, b: Any) -> Any:
    """The accumulator of a product, as tl.dot's payloads have it: they differ from those of widened operands."""
    from fpsan_tools.torch_rules import FLOATS

    wide = torch.float64 if a.dtype == torch.float64 else torch.float32
    payload = mode.algebra.matmul(mode.payload(a, a.dtype), mode.payload(b, b.dtype), dtype=FLOATS[wide])
    return mode.tensor(payload, wide, a)


def _converted(x: Any, dtype: Any) -> Any:
    """x in another type; `x.to` is not seen by a mode from where an operator of torch is replaced."""
    return x if x.dtype == dtype else torch.ops.aten._to_copy.default(x, dtype=dtype)


def _finished(z: Any, c: Any, bias: Any, alpha: float, beta: float, activation: str | None, out_dtype: Any) -> Any:
    """The kernels' epilogue as operations of torch that have payloads."""
    if alpha != 1:
        z = z * alpha
    if bias is not None:
        z = z + _converted(bias, z.dtype)
    if c is not None and beta != 0:
        z = z + _converted(c, z.dtype) * beta
    if activation == "relu":
        z = torch.where(z <= 0, torch.zeros_like(z), z)
    elif activation == "gelu":
        z = 0.5 * z * (1.0 + torch.erf(z * 0.7071067811865476))
    elif activation == "silu":
        z = z / (1.0 + torch.exp(-z))
    return _converted(z, out_dtype)


def _product_payloads(
    mode: Any, a: Any, b: Any, c: Any, bias: Any, alpha: float, beta: float, activation: str | None, precision: str,
    out_dtype: Any, invariant: bool, config: str | None,
) -> Any:  # fmt: skip
    sums = _summed(mode, a[..., :0], b[..., :0, :]) if alpha == 0 else _summed(mode, a, b)
    dtype = getattr(torch, result_element(a, out_dtype).library)
    with mode.dispatching():
        return _finished(sums, c, bias, 1.0 if alpha == 0 else alpha, beta, activation, dtype)


def _scaled_payloads(
    mode: Any, a: Any, b: Any, scale_a: Any, scale_b: Any, c: Any, bias: Any, alpha: float, beta: float,
    activation: str | None, precision: str, out_dtype: Any, invariant: bool, config: str | None,
) -> Any:  # fmt: skip
    rows, columns = a.shape[0], b.shape[1]
    whole = is_plain(scale_a, (rows, 1)) and is_plain(scale_b, (1, columns))
    steps = [slice(None)] if whole else [slice(k, k + SCALE_BLOCK) for k in range(0, a.shape[1], SCALE_BLOCK)]
    sums = [_summed(mode, a[:, k], b[k]) for k in steps]
    dtype = getattr(torch, result_element(a, out_dtype).library)
    with mode.dispatching():
        if whole:
            total = sums[0] * (scale_a * scale_b)
        else:
            across = scale_b.repeat_interleave(SCALE_BLOCK, 1)[:, :columns]
            total = sums[0] * scale_a[:, :1] * across[:1]
            for k in range(1, len(sums)):
                total = total + sums[k] * scale_a[:, k : k + 1] * across[k : k + 1]
        return _finished(total, c, bias, alpha, beta, activation, dtype)


def _register() -> None:
    # Importing twice (importlib.reload) must not define twice.
    if hasattr(torch.ops.tritongemm, "product"):
        return
    tags = (torch.Tag.pt2_compliant_tag,)
    torch.library.define(PRODUCT, _SCHEMA, tags=tags)
    torch.library.define(SCALED, _SCALED_SCHEMA, tags=tags)
    torch.library.impl(PRODUCT, ("cpu", "cuda"), _product)
    torch.library.impl(SCALED, ("cpu", "cuda"), _scaled)
    torch.library.register_fake(PRODUCT, _product_fake)
    torch.library.register_fake(SCALED, _scaled_fake)
    torch.library.register_autograd(PRODUCT, _backward, setup_context=_keep)
    torch.library.register_autograd(SCALED, _scaled_backward)
    torch.library.register_vmap(PRODUCT, _vmapped)


_register()
