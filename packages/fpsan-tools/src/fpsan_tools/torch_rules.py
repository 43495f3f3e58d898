"""What PyTorch's operations compute in payloads: one rule per operation, tables for those without arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from fpsan_tools.algebra import Algebra, FloatType, Payload, float_type
from fpsan_tools.algebra.floats import width

if TYPE_CHECKING:
    from fpsan_tools.torch_mode import FpSanTorch

Tensor: TypeAlias = torch.Tensor
Rule = Callable[..., Any]

FLOATS: dict[Any, FloatType] = {
    getattr(torch, name): float_type(name)
    for name in ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
}
"""The facts of each torch float type that has payloads."""

_INTEGERS = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}


def bits_of(x: Tensor) -> Payload:
    """A tensor's bit patterns as an unsigned NumPy array."""
    x = x.detach().cpu().contiguous()
    array = x.view(_INTEGERS[x.element_size() * 8]).numpy()
    unsigned: Payload = array.view(f"u{array.itemsize}")
    return unsigned


def wide_type(dtype: Any) -> Any:
    """The type in which PyTorch and Triton compute special functions: fp32 for narrower types."""
    return dtype if FLOATS[dtype].bits >= 32 else torch.float32


def _result_type(*operands: Any) -> Any:
    """The float type of an elementwise result; integers alone give the default float type."""
    dtype = operands[0].dtype if len(operands) == 1 else torch.result_type(*operands[:2])
    for operand in operands[2:]:
        dtype = torch.promote_types(dtype, torch.result_type(operands[0], operand))
    return dtype if dtype in FLOATS else torch.get_default_dtype()


def _like(*operands: Any) -> Tensor:
    return next(x for x in operands if isinstance(x, torch.Tensor))


# ---------------------------------------------------------------------------------------------------------------------
# Rules. A rule takes the mode and the operation's arguments.

RULES: dict[str, Rule] = {}
"""Rule by operation name, without the namespace `aten`."""

INTO_FLOATS: set[str] = set()
"""Operations that give floats for integers, too."""


def _rule(*names: str, into_float: bool = False) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for name in names:
            RULES[name] = rule
            if into_float:
                INTO_FLOATS.add(name)
        return rule

    return register


def _elementwise(names: Iterable[str], function: Callable[..., Payload], widens: bool) -> None:
    """Register an elementwise operation; `widens` if it works in fp32 on narrower floats."""

    def rule(mode: FpSanTorch, *operands: Any) -> Tensor:
        dtype = _result_type(*operands)
        compute = wide_type(dtype) if widens else dtype
        payload = function(mode.algebra, *(mode.payload(x, compute) for x in operands))
        return mode.tensor(payload, dtype, _like(*operands))

    for name in (*names, *(f"prims::{name.partition('.')[0]}" for name in names)):  # some decompositions end in prims
        RULES[name] = rule
        if widens:
            INTO_FLOATS.add(name)


def _unary(op: str) -> Callable[[Algebra, Payload], Payload]:
    return lambda a, x: a.unary(op, x)


def _libdevice(symbol: str) -> Callable[..., Payload]:
    """The tag of a libdevice function; its fp32 form has an f at the end."""

    def function(a: Algebra, *operands: Payload) -> Payload:
        single = width(operands[0]) == 32
        shape = np.broadcast_shapes(*(x.shape for x in operands))
        spread = [np.broadcast_to(x, shape) for x in operands]
        return a.extern(f"__nv_{symbol}{'f' if single else ''}", spread, "fp32" if single else "fp64")

    return function


for _op in ("exp", "exp2", "sin", "cos", "log", "log2", "sqrt", "rsqrt", "erf", "floor", "ceil"):
    _elementwise([_op], _unary(_op), widens=True)
for _op, _symbol in {
    **{
        f: f
        for f in ("tan", "tanh", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "erfc", "erfinv")
    },
    **{f: f for f in ("expm1", "log1p", "log10", "lgamma", "trunc", "atan2", "hypot", "nextafter", "copysign.Tensor")},
    "round": "rint",
    "i0": "cyl_bessel_i0",
    "pow.Tensor_Tensor": "pow",
}.items():
    _elementwise([_op], _libdevice(_symbol.removesuffix(".Tensor")), widens=True)


def _sigmoid(a: Algebra, x: Payload) -> Payload:
    return a.inv(a.add(a.exp(a.neg(x)), np.full((), 1, x.dtype)))


_elementwise(["neg"], lambda a, x: a.neg(x), widens=False)
_elementwise(["square"], lambda a, x: a.mul(x, x), widens=False)
_elementwise(["relu"], lambda a, x: a.maximum(x, np.zeros((), x.dtype)), widens=False)
_elementwise(["reciprocal"], lambda a, x: a.inv(x), widens=True)
_elementwise(["sigmoid"], _sigmoid, widens=True)
_elementwise(["silu"], lambda a, x: a.mul(x, _sigmoid(a, x)), widens=True)
_elementwise(["mul.Tensor", "mul.Scalar"], lambda a, x, y: a.mul(x, y), widens=False)
_elementwise(["div.Tensor", "div.Scalar"], lambda a, x, y: a.div(x, y), widens=True)
_elementwise(["fmod.Tensor", "fmod.Scalar"], lambda a, x, y: a.rem(x, y), widens=False)
_elementwise(["maximum", "fmax", "clamp_min", "clamp_min.Tensor"], lambda a, x, y: a.maximum(x, y), widens=False)
_elementwise(["minimum", "fmin", "clamp_max", "clamp_max.Tensor"], lambda a, x, y: a.minimum(x, y), widens=False)


def _scaled(mode: FpSanTorch, x: Any, factor: Any, dtype: Any) -> Payload:
    """x times a number that is usually 1; a payload times E(1) = 1 is itself, so skipping it changes nothing."""
    payload = mode.payload(x, dtype)
    return payload if factor == 1 else mode.algebra.mul(payload, mode.payload(factor, dtype))


@_rule("add.Tensor", "add.Scalar")
def _add(mode: FpSanTorch, x: Any, y: Any, alpha: Any = 1) -> Tensor:
    dtype = _result_type(x, y)
    return mode.tensor(mode.algebra.add(mode.payload(x, dtype), _scaled(mode, y, alpha, dtype)), dtype, _like(x, y))


@_rule("sub.Tensor", "sub.Scalar")
def _sub(mode: FpSanTorch, x: Any, y: Any, alpha: Any = 1) -> Tensor:
    dtype = _result_type(x, y)
    return mode.tensor(mode.algebra.sub(mode.payload(x, dtype), _scaled(mode, y, alpha, dtype)), dtype, _like(x, y))


@_rule("rsub.Tensor", "rsub.Scalar")
def _rsub(mode: FpSanTorch, x: Any, y: Any, alpha: Any = 1) -> Tensor:
    dtype = _result_type(x, y)
    return mode.tensor(mode.algebra.sub(mode.payload(y, dtype), _scaled(mode, x, alpha, dtype)), dtype, _like(x, y))


@_rule("addcmul")
def _addcmul(mode: FpSanTorch, x: Tensor, y: Tensor, z: Tensor, *, value: Any = 1) -> Tensor:
    dtype = _result_type(x, y, z)
    product = mode.algebra.mul(_scaled(mode, y, value, dtype), mode.payload(z, dtype))
    return mode.tensor(mode.algebra.add(mode.payload(x, dtype), product), dtype, x)


@_rule("addcdiv")
def _addcdiv(mode: FpSanTorch, x: Tensor, y: Tensor, z: Tensor, *, value: Any = 1) -> Tensor:
    dtype = _result_type(x, y, z)
    wide = wide_type(dtype)
    quotient = mode.algebra.div(_scaled(mode, y, value, wide), mode.payload(z, wide))
    return mode.tensor(mode.algebra.add(mode.payload(x, wide), quotient), dtype, x)


@_rule("clamp", "clamp.Tensor")
def _clamp(mode: FpSanTorch, x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    dtype = x.dtype
    payload = mode.payload(x, dtype)
    if low is not None and high is not None:
        lower, upper = (np.broadcast_to(mode.payload(bound, dtype), payload.shape) for bound in (low, high))
        return mode.tensor(mode.algebra.clamp(payload, lower, upper, FLOATS[dtype]), dtype, x)
    if low is not None:
        payload = mode.algebra.maximum(payload, mode.payload(low, dtype))
    if high is not None:
        payload = mode.algebra.minimum(payload, mode.payload(high, dtype))
    return mode.tensor(payload, dtype, x)


@_rule("pow.Tensor_Scalar")
def _power(mode: FpSanTorch, x: Tensor, exponent: float) -> Tensor:
    """Small powers as products and roots, the way kernels write them; others are the tag of libdevice's pow."""
    dtype = x.dtype
    wide = dtype if exponent in (1, 2, 3) else wide_type(dtype)
    a, p = mode.algebra, mode.payload(x, wide)
    small: dict[float, Callable[[], Payload]] = {
        1: lambda: p,
        2: lambda: a.mul(p, p),
        3: lambda: a.mul(a.mul(p, p), p),
        0.5: lambda: a.unary("sqrt", p),
        -0.5: lambda: a.unary("rsqrt", p),
        -1: lambda: a.inv(p),
        -2: lambda: a.inv(a.mul(p, p)),
    }
    if exponent in small:
        return mode.tensor(small[exponent](), dtype, x)
    return mode.tensor(_libdevice("pow")(a, p, mode.payload(exponent, wide)), dtype, x)


@_rule("_to_copy")
def _convert(mode: FpSanTorch, x: Tensor, *, dtype: Any = None, device: Any = None, **layout: Any) -> Tensor:
    target = dtype if dtype is not None else x.dtype
    if x.dtype in FLOATS and target in FLOATS:
        result = mode.tensor(mode.payload(x, target), target, x)
        return result if device is None else result.to(device)
    mode.unsanitised["_to_copy"] += 1
    return torch.ops.aten._to_copy.default(x, dtype=dtype, device=device)


@_rule("prims::convert_element_type")
def _prims_convert(mode: FpSanTorch, x: Tensor, dtype: Any) -> Tensor:
    return _convert(mode, x, dtype=dtype)


@_rule("copy_")
def _copy(mode: FpSanTorch, target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    if target.dtype in FLOATS and source.dtype in FLOATS and target.dtype != source.dtype:
        source = mode.tensor(mode.payload(source, target.dtype), target.dtype, source)
    return torch.ops.aten.copy_.default(target, source, non_blocking)


# ---------------------------------------------------------------------------------------------------------------------
# Matrix products


def _product(mode: FpSanTorch, x: Tensor, y: Tensor) -> tuple[Payload, Any]:
    """Accumulator payloads of a product of matrices, and the accumulator's type: fp32 for narrower operands."""
    dtype = wide_type(x.dtype)
    product = mode.algebra.matmul(mode.payload(x, x.dtype), mode.payload(y, y.dtype), dtype=FLOATS[dtype])
    return product, dtype


@_rule("mm", "bmm")
def _mm(mode: FpSanTorch, x: Tensor, y: Tensor) -> Tensor:
    return mode.tensor(_product(mode, x, y)[0], x.dtype, x)


@_rule("addmm", "baddbmm")
def _addmm(mode: FpSanTorch, c: Tensor, x: Tensor, y: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    product, dtype = _product(mode, x, y)
    if alpha != 1:
        product = mode.algebra.mul(product, mode.payload(alpha, dtype))
    return mode.tensor(mode.algebra.add(_scaled(mode, c, beta, dtype), product), x.dtype, x)


@_rule("mv")
def _mv(mode: FpSanTorch, x: Tensor, y: Tensor) -> Tensor:
    return mode.tensor(_product(mode, x, y[:, None])[0][:, 0], x.dtype, x)


@_rule("dot", "vdot")
def _dot(mode: FpSanTorch, x: Tensor, y: Tensor) -> Tensor:
    return mode.tensor(_product(mode, x[None, :], y[:, None])[0][0, 0], x.dtype, x)


# ---------------------------------------------------------------------------------------------------------------------
# Reductions and scans


def _axes(dim: Any, rank: int) -> tuple[int, ...]:
    """Axes of a reduction: all of them for None or an empty list."""
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        return tuple(range(rank))
    return tuple(d % rank if rank else 0 for d in (dim if isinstance(dim, list | tuple) else (dim,)))[: max(rank, 0)]


def _sum_of(mode: FpSanTorch, payload: Payload, dim: Any, keep: bool) -> Payload:
    return mode.algebra.sum(payload, axis=_axes(dim, payload.ndim), keepdims=keep)


@_rule("sum", "sum.dim_IntList")
def _sum(mode: FpSanTorch, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    target = dtype or x.dtype
    return mode.tensor(_sum_of(mode, mode.payload(x, target), dim, keepdim), target, x)


@_rule("prims::sum")
def _prims_sum(mode: FpSanTorch, x: Tensor, dims: Any, **options: Any) -> Tensor:
    return _sum(mode, x, dims)


@_rule("mean", "mean.dim")
def _mean(mode: FpSanTorch, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    target = dtype or x.dtype
    payload = mode.payload(x, target)
    wide = wide_type(target)
    total = mode.algebra.cast(_sum_of(mode, payload, dim, keepdim), FLOATS[wide])
    return mode.tensor(mode.algebra.div(total, _count(mode, payload, dim, wide)), target, x)


def _count(mode: FpSanTorch, payload: Payload, dim: Any, dtype: Any, correction: float = 0) -> Payload:
    size = int(np.prod([payload.shape[axis] for axis in _axes(dim, payload.ndim)]))
    return mode.payload(size - correction, dtype)


def _moments(mode: FpSanTorch, x: Tensor, dim: Any, correction: Any) -> tuple[Payload, Payload, Any]:
    """Mean and variance with kept axes, in the wide type: the mean of squared deviations."""
    wide = wide_type(x.dtype)
    a, payload = mode.algebra, mode.payload(x, wide)
    mean = a.div(_sum_of(mode, payload, dim, True), _count(mode, payload, dim, wide))
    deviation = a.sub(payload, mean)
    count = _count(mode, payload, dim, wide, 1 if correction is None else correction)
    return mean, a.div(_sum_of(mode, a.mul(deviation, deviation), dim, True), count), wide


def _dropped(payload: Payload, dim: Any, keep: bool) -> Payload:
    return payload if keep else payload.squeeze(_axes(dim, payload.ndim))


@_rule("var.correction")
def _var(mode: FpSanTorch, x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Tensor:
    _, variance, _ = _moments(mode, x, dim, correction)
    return mode.tensor(_dropped(variance, dim, keepdim), x.dtype, x)


@_rule("prims::var")
def _prims_var(mode: FpSanTorch, x: Tensor, dims: Any, correction: float = 1, **options: Any) -> Tensor:
    return _var(mode, x, dims, correction=correction)


@_rule("std.correction")
def _std(mode: FpSanTorch, x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Tensor:
    _, variance, _ = _moments(mode, x, dim, correction)
    return mode.tensor(_dropped(mode.algebra.unary("sqrt", variance), dim, keepdim), x.dtype, x)


@_rule("var_mean.correction")
def _var_mean(mode: FpSanTorch, x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    mean, variance, _ = _moments(mode, x, dim, correction)
    return tuple(mode.tensor(_dropped(p, dim, keepdim), x.dtype, x) for p in (variance, mean))


@_rule("prod", "prod.dim_int")
def _prod(mode: FpSanTorch, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    payload = mode.payload(x, dtype or x.dtype)
    product = np.asarray(np.prod(payload, axis=_axes(dim, payload.ndim), keepdims=keepdim, dtype=payload.dtype))
    return mode.tensor(product, dtype or x.dtype, x)


@_rule("amax", "max")
def _amax(mode: FpSanTorch, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    payload = mode.payload(x, x.dtype)
    return mode.tensor(mode.algebra.max(payload, axis=_axes(dim, payload.ndim), keepdims=keepdim), x.dtype, x)


@_rule("amin", "min")
def _amin(mode: FpSanTorch, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    payload = mode.payload(x, x.dtype)
    return mode.tensor(mode.algebra.min(payload, axis=_axes(dim, payload.ndim), keepdims=keepdim), x.dtype, x)


def _extreme(mode: FpSanTorch, x: Tensor, dim: int, keepdim: bool, pick: Any) -> Any:
    signed = mode.payload(x, x.dtype).view(FLOATS[x.dtype].signed)
    index = np.expand_dims(pick(signed, axis=dim), dim)
    value = np.take_along_axis(signed, index, axis=dim)
    if not keepdim:
        index, value = index.squeeze(dim), value.squeeze(dim)
    values = mode.tensor(value.view(FLOATS[x.dtype].unsigned), x.dtype, x)
    return torch.return_types.max((values, torch.from_numpy(np.array(index)).to(x.device)))


@_rule("max.dim")
def _max_dim(mode: FpSanTorch, x: Tensor, dim: int, keepdim: bool = False) -> Any:
    """Largest payload and where it is (Triton's max with indices orders the carriers instead)."""
    return _extreme(mode, x, dim, keepdim, np.argmax)


@_rule("min.dim")
def _min_dim(mode: FpSanTorch, x: Tensor, dim: int, keepdim: bool = False) -> Any:
    """Smallest payload and where it is (Triton's min with indices orders the carriers instead)."""
    return _extreme(mode, x, dim, keepdim, np.argmin)


@_rule("cumsum")
def _cumsum(mode: FpSanTorch, x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    return mode.tensor(mode.algebra.cumsum(mode.payload(x, dtype or x.dtype), axis=dim), dtype or x.dtype, x)


@_rule("cumprod")
def _cumprod(mode: FpSanTorch, x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    payload = mode.payload(x, dtype or x.dtype)
    return mode.tensor(np.cumprod(payload, axis=dim, dtype=payload.dtype), dtype or x.dtype, x)


def _add_at(mode: FpSanTorch, x: Tensor, index: Any, source: Tensor, factor: Any = 1) -> Tensor:
    payload = mode.payload(x, x.dtype).copy()
    np.add.at(payload, index, _scaled(mode, source, factor, x.dtype))
    return mode.tensor(payload, x.dtype, x)


@_rule("index_put", "_unsafe_index_put")
def _index_put(mode: FpSanTorch, x: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    if not accumulate:
        return torch.ops.aten.index_put.default(x, indices, values)
    if any(index is None or index.dtype == torch.bool for index in indices):
        raise mode.refusal("index_put", "accumulation is known for integer indices on leading axes only")
    return _add_at(mode, x, tuple(index.cpu().numpy() for index in indices), values)


@_rule("index_add")
def _index_add(mode: FpSanTorch, x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    where = (slice(None),) * (dim % max(x.dim(), 1)) + (index.cpu().numpy(),)
    return _add_at(mode, x, where, source, alpha)


@_rule("scatter_add")
def _scatter_add(mode: FpSanTorch, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    places = list(np.indices(index.shape))
    places[dim] = index.cpu().numpy()
    return _add_at(mode, x, tuple(places), source[tuple(slice(n) for n in index.shape)])


# ---------------------------------------------------------------------------------------------------------------------
# Softmax, norms: in the wide type, narrowed once


def _shifted(mode: FpSanTorch, x: Tensor, dim: Any) -> tuple[Payload, Payload, Payload]:
    """Payloads of the maximum, of x minus it, and of the sum of their exponentials, with kept axes."""
    wide = wide_type(x.dtype)
    a, payload = mode.algebra, mode.payload(x, wide)
    highest = a.max(payload, axis=_axes(dim, payload.ndim), keepdims=True)
    shifted = a.sub(payload, highest)
    return highest, shifted, _sum_of(mode, a.exp(shifted), dim, True)


@_rule("_softmax", "_safe_softmax", "softmax.int")
def _softmax(mode: FpSanTorch, x: Tensor, dim: int, *options: Any, dtype: Any = None) -> Tensor:
    _, shifted, total = _shifted(mode, x, dim)
    target = torch.float32 if options and options[0] is True else dtype or x.dtype
    return mode.tensor(mode.algebra.div(mode.algebra.exp(shifted), total), target, x)


@_rule("_log_softmax")
def _log_softmax(mode: FpSanTorch, x: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    _, shifted, total = _shifted(mode, x, dim)
    target = torch.float32 if half_to_float else x.dtype
    return mode.tensor(mode.algebra.sub(shifted, mode.algebra.unary("log", total)), target, x)


@_rule("logsumexp")
def _logsumexp(mode: FpSanTorch, x: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    highest, _, total = _shifted(mode, x, dim)
    result = mode.algebra.add(mode.algebra.unary("log", total), highest)
    return mode.tensor(_dropped(result, dim, keepdim), x.dtype, x)


@_rule("native_layer_norm")
def _layer_norm(mode: FpSanTorch, x: Tensor, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    """(x - mean) * rsqrt(variance + eps) * weight + bias."""
    dim = list(range(x.dim() - len(shape), x.dim()))
    mean, variance, wide = _moments(mode, x, dim, 0)
    a = mode.algebra
    scale = a.unary("rsqrt", a.add(variance, mode.payload(eps, wide)))
    result = a.mul(a.sub(mode.payload(x, wide), mean), scale)
    if weight is not None:
        result = a.mul(result, mode.payload(weight, wide))
    if bias is not None:
        result = a.add(result, mode.payload(bias, wide))
    return mode.tensor(result, x.dtype, x), mode.tensor(mean, wide, x), mode.tensor(scale, wide, x)


@_rule("_fused_rms_norm")
def _rms_norm(mode: FpSanTorch, x: Tensor, shape: Any, weight: Any, eps: float | None) -> Any:
    """x * rsqrt(mean(x^2) + eps) * weight."""
    wide = wide_type(x.dtype)
    dim = list(range(x.dim() - len(shape), x.dim()))
    a, payload = mode.algebra, mode.payload(x, wide)
    square = a.div(_sum_of(mode, a.mul(payload, payload), dim, True), _count(mode, payload, dim, wide))
    added = torch.finfo(wide).eps if eps is None else eps
    scale = a.unary("rsqrt", a.add(square, mode.payload(added, wide)))
    result = a.mul(payload, scale)
    if weight is not None:
        result = a.mul(result, mode.payload(weight, wide))
    return mode.tensor(result, x.dtype, x), mode.tensor(scale, wide, x)


# ---------------------------------------------------------------------------------------------------------------------
# Operations without arithmetic, and operations that Triton leaves on the carriers

MOVES = frozenset(
    """
    _unsafe_view alias as_strided cat clone constant_pad_nd contiguous detach diag_embed diagonal_copy embedding
    empty_like expand_copy fill.Scalar fill.Tensor fill_.Scalar fill_.Tensor flip full_like gather index.Tensor
    _unsafe_index.Tensor index_copy index_fill.int_Scalar index_select lift_fresh lift_fresh_copy masked_fill.Scalar
    masked_fill.Tensor masked_fill_.Scalar masked_fill_.Tensor masked_scatter masked_select new_empty
    new_empty_strided new_full new_ones new_zeros ones_like permute_copy repeat repeat_interleave.self_int reshape
    roll scatter.src scatter.value scatter_.src scatter_.value select_scatter slice_scatter slice_backward
    select_backward split_copy.Tensor stack take tril triu unbind_copy.int unfold_backward unfold_copy where.self zero
    zero_ zeros_like resize_ set_.source_Tensor rand_like randn_like _local_scalar_dense is_same_size _reshape_alias
    _reshape_copy view_copy squeeze_copy unsqueeze_copy bernoulli bernoulli.p bernoulli_.float uniform_ normal_
    argwhere nonzero prims::where prims::broadcast_in_dim
    """.split()  # noqa: SIM905
)

CARRIERS = frozenset(
    """
    abs sign signbit eq.Tensor eq.Scalar ne.Tensor ne.Scalar lt.Tensor lt.Scalar le.Tensor le.Scalar gt.Tensor
    gt.Scalar ge.Tensor ge.Scalar isnan isinf isfinite isposinf isneginf logical_and logical_or logical_not
    logical_xor any any.dim all all.dim argmax argmin sort sort.stable topk argsort kthvalue searchsorted.Tensor
    bucketize.Tensor equal nan_to_num view.dtype count_nonzero
    """.split()  # noqa: SIM905
)
