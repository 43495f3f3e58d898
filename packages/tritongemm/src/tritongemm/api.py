"""Matrix products in torch's shapes and words, each with a precision mode that promises bits and bounds.

The functions take torch tensors on a GPU (kernels are launched), torch tensors on the CPU and NumPy arrays (kernels are
evaluated, or their mode's bits predicted, which is slow and exact). Types that NumPy lacks come from ml_dtypes or from
`fpsan_tools.typed`. They are deterministic, and a row's bits do not depend on how many others come along; with
`invariant=False` they may, where that is faster.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tritongemm import automatic, eager
from tritongemm.configurations import Config
from tritongemm.elements import (
    ELEMENTS,
    FP8,
    Element,
    address_of,
    element_of,
    empty_like,
    extent,
    strides_of,
    write_values,
)
from tritongemm.errors import UsageError
from tritongemm.matrices import is_torch
from tritongemm.operands import (
    Call,
    OperandError,
    addend,
    check_activation,
    check_batches,
    check_bias,
    check_factor,
    check_factors,
    check_flag,
    check_kinds,
    check_matrices,
    check_number,
    check_out,
    check_out_type,
    check_scale,
    check_scale_shapes,
    check_settings,
    check_shapes,
    check_types,
    expanded,
    fail,
    is_prepared,
    rank,
    result_element,
    type_name,
)

_MM, _BMM, _MATMUL, _SCALED, _PREDICT = (Call(name) for name in ("mm", "bmm", "matmul", "scaled_mm", "predict"))
_ADDMM, _BADDBMM = (Call(name, {"c": "input"}, optional=("bias", "out")) for name in ("addmm", "baddbmm"))
_LINEAR = Call("linear", {"a": "x", "b": "weight"}, transposed=True)


def mm(
    a: Any,
    b: Any,
    *,
    out: Any = None,
    precision: str = "ieee",
    alpha: float = 1,
    beta: float = 0,
    c: Any = None,
    bias: Any = None,
    activation: str | None = None,
    out_dtype: Any = None,
    deterministic: bool = True,
    invariant: bool = True,
    config: Config | str | None = None,
) -> Any:
    """The product of two matrices: activation(alpha·A B + beta·C + bias).

    Args:
        a: (M, K) matrix of fp32, fp16, bf16, fp64 or fp8 numbers, any strides; transposes are not copied.
        b: (K, N) matrix of a's type and library, or one that `tritongemm.prepare` has cut into parts.
        out: (M, N) matrix to write to. A torch tensor of another shape is resized as torch does; it may share memory
            with any operand.
        precision: Name of the mode, which says what is multiplied and in which order it is added up;
            `tritongemm.modes.MODES` lists them. "auto": a fast one that is as accurate as a plain fp32 sum; see
            `tritongemm.automatic`.
        alpha: Factor of the product; an fp32 number but for fp64 operands.
        beta: Factor of c, likewise; with 0, c is not read.
        c: (M, N) matrix, or one that broadcasts to it.
        bias: (N,) array, added to every row.
        activation: "relu", "gelu" (the exact form, by erf, not that by tanh) or "silu", applied before the result is
            rounded to its type.
        out_dtype: Type of the result, as NumPy's or torch's dtype or a name; a's by default, bf16 for fp8.
        deterministic: Whether equal calls give equal bits. Every kernel here does; False allows ones that do not.
        invariant: Whether a row's bits must not depend on M. False allows to split K by the number of rows. The guards
            of "auto", "fp16x3" and "int8x6" look at all rows either way: see `tritongemm.unguarded`.
        config: How to launch the kernel, instead of what an earlier `tune` or the table says. "tune": search for a
            faster one if none is kept for such products; see `tritongemm.tuning`.

    Returns:
        `out`, or a new (M, N) matrix of the operands' library and place.

    Raises:
        OperandError: Shapes, types or devices do not fit; also a RuntimeError, in torch's words.
        UsageError: Another argument cannot be used as given.
        Unavailable: Triton is missing: then sums alone are predicted, on the CPU, and nothing else is computed.
    """
    settings = (2, precision, alpha, beta, activation, out_dtype, invariant, config)
    return _called(_MM, a, b, c, bias, out, settings, deterministic)


def bmm(
    a: Any,
    b: Any,
    *,
    out: Any = None,
    precision: str = "ieee",
    alpha: float = 1,
    beta: float = 0,
    c: Any = None,
    bias: Any = None,
    activation: str | None = None,
    out_dtype: Any = None,
    deterministic: bool = True,
    invariant: bool = True,
    config: Config | str | None = None,
) -> Any:
    """The products of two batches of matrices: activation(alpha·A B + beta·C + bias) for each.

    As in torch, the batches must be of one size; `matmul` broadcasts. A batch made by `expand` is not copied.

    Args:
        a: (B, M, K) matrices.
        b: (B, K, N) matrices.
        out: (B, M, N) matrices to write to.
        precision: See `mm`.
        alpha: See `mm`.
        beta: See `mm`.
        c: (B, M, N) matrices, or what broadcasts to them.
        bias: (N,) array.
        activation: See `mm`.
        out_dtype: See `mm`.
        deterministic: See `mm`.
        invariant: See `mm`.
        config: See `mm`.

    Returns:
        `out`, or new (B, M, N) matrices.

    Raises:
        OperandError: Shapes, types or devices do not fit; also a RuntimeError, in torch's words.
        UsageError: Another argument cannot be used as given.
    """
    settings = (3, precision, alpha, beta, activation, out_dtype, invariant, config)
    return _called(_BMM, a, b, c, bias, out, settings, deterministic)


def addmm(
    input: Any,
    a: Any,
    b: Any,
    *,
    beta: float = 1,
    alpha: float = 1,
    out: Any = None,
    precision: str = "ieee",
    bias: Any = None,
    activation: str | None = None,
    out_dtype: Any = None,
    deterministic: bool = True,
    invariant: bool = True,
    config: Config | str | None = None,
) -> Any:
    """beta·input + alpha·A B, as torch.addmm.

    Args:
        input: What is added; broadcasts to (M, N).
        a: (M, K) matrix.
        b: (K, N) matrix.
        beta: Factor of input; with 0, input is not read.
        alpha: Factor of the product.
        out: See `mm`.
        precision: See `mm`.
        bias: See `mm`.
        activation: See `mm`.
        out_dtype: See `mm`.
        deterministic: See `mm`.
        invariant: See `mm`.
        config: See `mm`.

    Returns:
        The (M, N) sum.

    Raises:
        OperandError: Shapes, types or devices do not fit; also a RuntimeError, in torch's words.
        UsageError: Another argument cannot be used as given.
    """
    settings = (2, precision, alpha, beta, activation, out_dtype, invariant, config)
    return _called(_ADDMM, a, b, input, bias, out, settings, deterministic)


def baddbmm(
    input: Any,
    a: Any,
    b: Any,
    *,
    beta: float = 1,
    alpha: float = 1,
    out: Any = None,
    precision: str = "ieee",
    bias: Any = None,
    activation: str | None = None,
    out_dtype: Any = None,
    deterministic: bool = True,
    invariant: bool = True,
    config: Config | str | None = None,
) -> Any:
    """beta·input + alpha·A B for batches, as torch.baddbmm.

    Args:
        input: What is added; broadcasts to (B, M, N).
        a: (B, M, K) matrices.
        b: (B, K, N) matrices.
        beta: Factor of input; with 0, input is not read.
        alpha: Factor of the products.
        out: See `bmm`.
        precision: See `mm`.
        bias: See `bmm`.
        activation: See `mm`.
        out_dtype: See `mm`.
        deterministic: See `mm`.
        invariant: See `mm`.
        config: See `mm`.

    Returns:
        The (B, M, N) sums.

    Raises:
        OperandError: Shapes, types or devices do not fit; also a RuntimeError, in torch's words.
        UsageError: Another argument cannot be used as given.
    """
    settings = (3, precision, alpha, beta, activation, out_dtype, invariant, config)
    return _called(_BADDBMM, a, b, input, bias, out, settings, deterministic)


def matmul(
    a: Any,
    b: Any,
    *,
    out: Any = None,
    precision: str = "ieee",
    alpha: float = 1,
    activation: str | None = None,
    out_dtype: Any = None,
    deterministic: bool = True,
    invariant: bool = True,
    config: Config | str | None = None,
) -> Any:
    """The product as torch.matmul and NumPy's @ have it: vectors, matrices, and batches that broadcast.

    Args:
        a: (..., M, K) matrices, or a (K,) vector.
        b: (..., K, N) matrices, or a (K,) vector; or a (K, N) matrix that `tritongemm.prepare` has cut into parts.
        out: Result to write to.
        precision: See `mm`.
        alpha: See `mm`.
        activation: See `mm`.
        out_dtype: See `mm`.
        deterministic: See `mm`.
        invariant: See `mm`.
        config: See `mm`.

    Returns:
        The product; an axis of a vector is left out.

    Raises:
        OperandError: Shapes, types or devices do not fit; also a RuntimeError, in torch's words.
        UsageError: Another argument cannot be used as given.
    """
    factors = precision, alpha, 0, activation, out_dtype, invariant, config
    if _two_strided(a, b):
        return _called(_MATMUL, a, b, None, None, out, (2, *factors), deterministic)
    compiling = eager.compiling()
    prepared = is_prepared(b)
    torch_kind = compiling or check_kinds(_MATMUL, {"a": a, "b": b.b if prepared else b, "out": out})
    if rank(a) == 0 or rank(b) == 0:
        fail(
            f"both arguments to matmul need to be at least 1D, but they are {rank(a)}D and {rank(b)}D", _MATMUL,
            f"{'a' if rank(a) == 0 else 'b'} is a number; multiply numbers with *",
        )  # fmt: skip
    if rank(a) == 2 == rank(b):
        return _called(_MATMUL, a, b, None, None, out, (2, *factors), deterministic)
    left = a[None, :] if rank(a) == 1 else a
    right = b[:, None] if rank(b) == 1 else b
    if left.shape[-1] != right.shape[-2]:
        fail(
            f"mat1 and mat2 shapes cannot be multiplied ({left.shape[-2]}x{left.shape[-1]} and "
            f"{right.shape[-2]}x{right.shape[-1]})", _MATMUL,
            f"a is {tuple(a.shape)}, b is {tuple(b.shape)}",
        )  # fmt: skip
    if not compiling:
        check_types(_MATMUL, a, b.b if prepared else b)
    batch = _broadcast(tuple(left.shape[:-2]), tuple(right.shape[:-2]))
    shape = (*batch, left.shape[-2], right.shape[-1])
    if rank(right) == 2 or not batch:
        # One matrix for all: the rows of all batches are rows of one product.
        rows = _rows(left) if batch else left
        result = _called(_MATMUL, rows, right, None, None, None, (2, *factors), deterministic)
    else:
        many = (3, *factors)
        result = _called(_MATMUL, _stacked(left, batch), _stacked(right, batch), None, None, None, many, deterministic)
    result = result.reshape(shape)
    if rank(a) == 1:
        result = result[..., 0, :]
    if rank(b) == 1:
        result = result[..., 0]
    return _into(_MATMUL, result, out, {"a": a, "b": b}, torch_kind)


def linear(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    activation: str | None = None,
    out: Any = None,
    precision: str = "ieee",
    alpha: float = 1,
    beta: float = 0,
    c: Any = None,
    out_dtype: Any = None,
    deterministic: bool = True,
    invariant: bool = True,
    config: Config | str | None = None,
) -> Any:
    """activation(alpha·x weightᵀ + beta·c + bias), as torch.nn.functional.linear; the weight is not copied.

    Args:
        x: (..., K) inputs.
        weight: (N, K) weights.
        bias: (N,) array, or None.
        activation: "relu", "gelu" or "silu", fused; see `mm`.
        out: (..., N) matrix to write to.
        precision: See `mm`.
        alpha: See `mm`.
        beta: See `mm`.
        c: What broadcasts to the result, such as a residual connection.
        out_dtype: See `mm`.
        deterministic: See `mm`.
        invariant: See `mm`.
        config: See `mm`.

    Returns:
        (..., N) results.

    Raises:
        OperandError: Shapes, types or devices do not fit; also a RuntimeError, in torch's words.
        UsageError: Another argument cannot be used as given.
    """
    settings = (2, precision, alpha, beta, activation, out_dtype, invariant, config)
    if _two_strided(x, weight):
        return _called(_LINEAR, x, weight.t(), c, bias, out, settings, deterministic)
    given = {"a": x, "b": weight, "c": c, "bias": bias}
    compiling = eager.compiling()
    torch_kind = compiling or check_kinds(_LINEAR, {**given, "out": out})
    if rank(weight) != 2:
        fail("weight must be a matrix", _LINEAR, f"weight has {rank(weight)} dimensions")
    if rank(x) == 0:
        fail("input must have at least one dimension", _LINEAR, "x is a number")
    transposed = weight.T
    if rank(x) == 2:
        return _called(_LINEAR, x, transposed, c, bias, out, settings, deterministic)
    rows = _rows(x)
    shape = (*x.shape[:-1], weight.shape[0])
    if c is not None:
        c = expanded(_LINEAR, "c", c, shape).reshape(rows.shape[0], weight.shape[0])
    result = _called(_LINEAR, rows, transposed, c, bias, None, settings, deterministic).reshape(shape)
    return _into(_LINEAR, result, out, given, torch_kind)


def scaled_mm(
    a: Any,
    b: Any,
    scale_a: Any,
    scale_b: Any,
    *,
    bias: Any = None,
    out: Any = None,
    out_dtype: Any = None,
    precision: str = "ieee",
    alpha: float = 1,
    beta: float = 0,
    c: Any = None,
    activation: str | None = None,
    deterministic: bool = True,
    invariant: bool = True,
    config: Config | str | None = None,
) -> Any:
    """The product of matrices of 8-bit floats and their scales: activation(alpha·scale_a·scale_b·A B + beta·C + bias).

    Args:
        a: (M, K) fp8 matrix.
        b: (K, N) fp8 matrix.
        scale_a: fp32: one number, (M, 1) per row, or (M, ceil(K/128)) per row and 128 columns. Scales are multiplied
            with each other first, in fp32: results are infinite where scale_a·scale_b is 2**128 or more, and lose bits
            where it is below 2**-126, whatever the operands are.
        scale_b: fp32: one number, (1, N) per column, or (ceil(K/128), ceil(N/128)) per block; scales of blocks go with
            scales of blocks.
        bias: (N,) array.
        out: (M, N) matrix to write to.
        out_dtype: Type of the result; bf16 by default.
        precision: "ieee" or "promote128" (sums of 128 products, added in fp32), "promote64", "promote32", or "fast"
            (added up on the tensor core, as `use_fast_accum=True` of torch._scaled_mm).
        alpha: See `mm`.
        beta: See `mm`.
        c: (M, N) matrix of the result's type, or one that broadcasts to it.
        activation: "relu", "gelu", "silu" or None; see `mm`.
        deterministic: See `mm`.
        invariant: See `mm`.
        config: See `mm`; for scaled products nothing is searched for or kept.

    Returns:
        `out`, or a new (M, N) matrix.

    Raises:
        OperandError: Shapes or devices do not fit; also a RuntimeError, in torch's words.
        UsageError: Another argument cannot be used as given.
    """
    if eager.compiling():
        from tritongemm import library

        scale_a, scale_b = (
            a.new_full((), x, dtype=sys.modules["torch"].float32) if isinstance(x, int | float) else x
            for x in (scale_a, scale_b)
        )
        result = library.scaled_product(
            a, b, scale_a, scale_b, c if c is None else c.expand(a.shape[0], b.shape[1]), bias, float(alpha),
            float(beta), activation, precision, _traced_dtype(out_dtype, out), invariant, config,
        )  # fmt: skip
        return result if out is None else _copied(result, out)
    check_kinds(_SCALED, {"a": a, "b": b})
    check_shapes(_SCALED, a, b)
    for name, x in (("a", a), ("b", b)):
        if element_of(x, name).name not in FP8:
            raise UsageError(f"{name}: scaled_mm takes {' and '.join(FP8)}, given {type_name(x)}; mm takes the others.")
    scale_a, scale_b = check_scale(_SCALED, "scale_a", scale_a, a), check_scale(_SCALED, "scale_b", scale_b, b)
    given = {"a": a, "b": b, "scale_a": scale_a, "scale_b": scale_b, "c": c, "bias": bias}
    torch_kind = check_kinds(_SCALED, {**given, "out": out})
    check_scale_shapes(_SCALED, scale_a, scale_b, int(a.shape[0]), int(b.shape[1]), int(a.shape[1]))
    check_settings(activation, precision, element_of(a, "a"))
    check_flag("deterministic", deterministic)
    alpha, beta = check_factors(_SCALED, alpha, beta)
    invariant = check_flag("invariant", invariant)
    _check_config(config)
    element = result_element(a, out_dtype)
    shape = (a.shape[0], b.shape[1])
    c = addend(_SCALED, c, beta, a, element, shape)
    if bias is not None:
        check_bias(_SCALED, bias, a, element.library, shape)
    out = _ready(_SCALED, out, shape, element, given, torch_kind)
    more = alpha, beta, activation, precision, _library_dtype(element, torch_kind), invariant, config
    if torch_kind and (a.is_meta or eager.observed((a, b, scale_a, scale_b, c, bias, out))):
        from tritongemm import library

        result = library.scaled_product(a, b, scale_a, scale_b, c, bias, *more)
        return result if out is None else out.copy_(result)
    from tritongemm import execution

    return execution.scaled_product(a, b, scale_a, scale_b, c, bias, out, *more)


def grouped_mm(
    list_a: Sequence[Any],
    list_b: Sequence[Any],
    *,
    outs: Sequence[Any] | None = None,
    precision: str = "ieee",
    alpha: float = 1,
    activation: str | None = None,
    out_dtype: Any = None,
    config: Config | None = None,
) -> list[Any]:
    """Many products of different sizes, on a GPU in one launch: activation(alpha·A_i B_i) for each i.

    Each has the bits that `mm` gives it. It records no gradients.

    Args:
        list_a: (M_i, K_i) matrices of one type.
        list_b: (K_i, N_i) matrices of that type.
        outs: (M_i, N_i) matrices to write to, apart from all operands; new ones if not given.
        precision: A mode that `tl.dot` computes: not "auto", "fp16x3" or "int8x6".
        alpha: See `mm`.
        activation: See `mm`.
        out_dtype: See `mm`.
        config: A configuration of kernel "grouped", or None.

    Returns:
        `outs`, or new matrices, in order.

    Raises:
        OperandError: Shapes, types or devices do not fit; also a RuntimeError, in torch's words.
        UsageError: Another argument cannot be used as given.
    """
    if eager.compiling():
        made: list[Any] = _outside(
            grouped_mm, list_a, list_b, outs=outs, precision=precision, alpha=alpha, activation=activation,
            out_dtype=out_dtype, config=config,
        )  # fmt: skip
        return made
    lists = {"list_a": list_a, "list_b": list_b} | ({} if outs is None else {"outs": outs})
    for name, x in lists.items():
        if isinstance(x, str | bytes) or not (hasattr(x, "__len__") and hasattr(x, "__getitem__")):
            raise UsageError(f"{name}: a list of matrices, given {type(x).__name__}.")
    if len({len(x) for x in lists.values()}) > 1:
        counts = ", ".join(f"{name} has {len(x)}" for name, x in lists.items())
        raise UsageError(f"{', '.join(lists)}: one of each per product, but {counts}.")
    alpha = check_number("alpha", alpha)  # of which type sums are is seen below
    check_activation(activation)
    if config is not None and not (isinstance(config, Config) and config.kernel == "grouped"):
        raise UsageError(f'config: a tritongemm.Config of kernel "grouped", or None, given {config!r}.')
    if len(list_a) == 0:
        return []
    element: Element | None = None
    for i, (a, b) in enumerate(zip(list_a, list_b, strict=True)):
        call = Call("grouped_mm", {name: f"{its}[{i}]" for name, its in _OF_GROUPS.items()})
        out = None if outs is None else outs[i]
        torch_kind = check_kinds(replace(call, optional=()), {"a": a, "b": b} | ({} if outs is None else {"out": out}))
        check_matrices(call, a, b)
        if element is None:
            first, element = a, result_element(a, out_dtype, call["a"])
            check_settings(None, precision, element_of(a, call["a"]), call["a"])
            alpha = check_factor(call, "alpha", alpha, element_of(a, call["a"]).accumulator)
            _check_groupable(precision, element_of(a, call["a"]))
        if type_name(a) != type_name(first) or is_torch(a) != is_torch(first):
            raise UsageError(
                f"{call['a']}: {type_name(a)}, but list_a[0] is {type_name(first)}; group one type at a time."
            )
        if torch_kind and a.device != first.device:
            raise UsageError(f"{call['a']}: on {a.device}, but list_a[0] is on {first.device}; group them apart.")
        if torch_kind and eager.observed((a, b, out)):
            raise UsageError(
                f"{call['a']}, {call['b']}: grouped_mm is no operator of torch and records no gradients; use mm, or "
                "torch.no_grad()."
            )
        if out is not None:
            _check_target(call, out, (a.shape[0], b.shape[1]), element, torch_kind)
    if outs is not None:
        _check_apart(lists)
    assert element is not None
    try:
        from tritongemm.dispatch import grouped_product
        from tritongemm.kernels.epilogue import Epilogue
    except ImportError as error:
        from tritongemm import execution

        raise execution.without_triton(error) from None
    results = grouped_product(
        list_a,
        list_b,
        mode=precision,
        outs=outs,
        out_dtype=None if outs is not None else element.name,
        epilogue=Epilogue(alpha=alpha, activation=activation),
        config=config,
    )
    for out in () if outs is None else outs:
        if is_torch(out):
            eager.written(out)
    return results


_OF_GROUPS = {"a": "list_a", "b": "list_b", "out": "outs"}


def _check_groupable(precision: str, element: Element) -> None:
    """Checks that a mode is one of the kernel that computes many products at once."""
    from tritongemm import modes

    able = [mode.name for mode in modes.MODES.values() if _in_groups(mode, element.name)]
    if modes.get(precision).name not in able:
        raise UsageError(f"precision: grouped_mm computes {', '.join(able)} for {element.name}, given {precision!r}.")


def _in_groups(mode: Any, element: str) -> bool:
    return element in mode.arithmetic and mode.arithmetic[element].dot is not None


def _check_apart(lists: dict[str, Any]) -> None:
    """Checks that no result lies on an operand or on another result: all are computed at once."""
    spans = []
    for name, matrices in lists.items():
        for i, x in enumerate(matrices):
            below, above = extent(x)
            if above > below:
                spans.append((address_of(x) + below, address_of(x) + above, f"{name}[{i}]", name == "outs"))
    reached: dict[bool, tuple[int, str]] = {True: (-1, ""), False: (-1, "")}
    for start, end, name, written in sorted(spans):
        for is_written, (last, other) in reached.items():
            if last > start and (written or is_written):
                result, operand = (name, other) if written else (other, name)
                raise UsageError(f"{result}: it overlaps the memory of {operand}; give it memory of its own.")
        reached[written] = max(reached[written], (end, name))


def predict(
    a: Any,
    b: Any,
    *,
    precision: str = "ieee",
    alpha: float = 1,
    beta: float = 0,
    c: Any = None,
    bias: Any = None,
    activation: str | None = None,
    out_dtype: Any = None,
) -> Any:
    """The bits that `mm` gives on an H200, calculated on the CPU without running a kernel.

    Args:
        a: (M, K) matrix.
        b: (K, N) matrix.
        precision: Name of the mode.
        alpha: See `mm`.
        beta: See `mm`.
        c: See `mm`.
        bias: See `mm`.
        activation: See `mm`.
        out_dtype: See `mm`.

    Returns:
        A new (M, N) matrix on the CPU, in the operands' library.

    Raises:
        OperandError: Shapes or types do not fit; also a RuntimeError, in torch's words.
        UsageError: Another argument cannot be used as given.
    """
    if eager.compiling():
        return _outside(
            predict, a, b, precision=precision, alpha=alpha, beta=beta, c=c, bias=bias, activation=activation,
            out_dtype=out_dtype,
        )  # fmt: skip
    if is_prepared(b):
        precision, b = _of_prepared(precision, b), b.b
    torch_kind = check_kinds(_PREDICT, {"a": a, "b": b, "c": c, "bias": bias})
    check_matrices(_PREDICT, a, b)
    own = element_of(a, "a")
    alpha, beta = check_factors(_PREDICT, alpha, beta, own)
    check_settings(activation, precision, own)
    if torch_kind and any(x is not None and x.is_meta for x in (a, b, c, bias)):
        raise UsageError("predict: on device meta there are no numbers to predict from; give matrices that have some.")
    if torch_kind:
        a, b, c, bias = (x if x is None else x.detach().cpu() for x in (a, b, c, bias))
    element = result_element(a, out_dtype)
    shape = int(a.shape[0]), int(b.shape[1])
    c = addend(_PREDICT, c, beta, a, element, shape)
    if alpha == 1 and beta == 0 and bias is None and activation is None:
        from tritongemm.modes import get

        precision = automatic.resolved(precision, a)
        result = empty_like(a, shape, element)
        write_values(result, get(precision).predict(a, b), element)
        return result
    from tritongemm import emulation

    settings = (2, precision, alpha, beta, activation, out_dtype, True, None)
    with emulation.unremembered():
        return _called(_PREDICT, a, b, c, bias, None, settings, True)


# ---------------------------------------------------------------------------------------------------------------------
def _called(
    call: Call, a: Any, b: Any, c: Any, bias: Any, out: Any, settings: tuple[Any, ...], deterministic: bool
) -> Any:
    """A product of matrices or batches, for the function that was called: the ways it can take."""
    if eager.compiling():
        if _uncompilable(b, settings[1]):
            from tritongemm import library

            return library.uncompiled(call, a, b, c, bias, out, settings, deterministic)
        return _traced(a, b, c, bias, out, settings)
    result = eager.quick(a, b, c, bias, out, settings)
    if result is not None:
        if settings[1] == automatic.NAME:
            automatic.remembered(automatic.NAME, a)
        return result
    check_flag("deterministic", deterministic)
    if settings[0] == 2 and is_prepared(b):
        return _prepared(call, a, b, c, bias, out, settings)
    check_kinds(call, {"a": a, "b": b, "c": c, "bias": bias, "out": out})
    (check_matrices if settings[0] == 2 else check_batches)(call, a, b)
    return _product(call, a, b, c, bias, out, settings)


def _outside(function: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
    """A call in the middle of what torch.compile traces, made when the compiled program comes by."""
    from tritongemm import library

    return library.outside(function, *arguments, **more)


def _uncompilable(b: Any, precision: Any) -> bool:
    """Whether no operator can stand for a product: b is prepared, or a guard stands aside in what is compiled only."""
    # torch.compile would take note of what `is_prepared` looks up, which importing this module changes.
    from tritongemm import emulation

    aside = precision in ("fp16x3", "int8x6", "portable") and emulation.traced_unguarded()
    return aside or isinstance(b, emulation.Prepared)


def _product(call: Call, a: Any, b: Any, c: Any, bias: Any, out: Any, settings: tuple[Any, ...]) -> Any:
    """The long way of a product, after the checks of its factors' shapes."""
    _, precision, alpha, beta, activation, out_dtype, invariant, config = settings
    torch_kind = is_torch(a)
    shape = (*a.shape[:-1], b.shape[-1])
    check_settings(activation, precision, element_of(a, call["a"]), call["a"])
    alpha, beta = check_factors(call, alpha, beta, element_of(a, call["a"]))
    invariant = check_flag("invariant", invariant)
    _check_config(config)
    element = result_element(a, out_dtype, call["a"])
    given_c, given_out = c, out
    c = addend(call, c, beta, a, element, shape)
    if bias is not None:
        check_bias(call, bias, a, element.library, shape)
    tensors = (a, b, c, bias)
    out = _ready(call, out, shape, element, {"a": a, "b": b, "c": c, "bias": bias}, torch_kind)
    dtype = _library_dtype(element, torch_kind)
    if torch_kind and (a.is_meta or eager.observed((*tensors, out))):
        from tritongemm import library

        result = library.product(a, b, c, bias, alpha, beta, activation, precision, dtype, invariant, config)
        return result if out is None else out.copy_(result)
    from tritongemm import execution

    return execution.recorded(
        (a, b, given_c, bias), given_out, settings,
        a, b, c, bias, out, alpha, beta, activation, precision, dtype, invariant, config,
    )  # fmt: skip


def _check_config(config: Any) -> None:
    if config is not None and not isinstance(config, Config) and not (isinstance(config, str) and config == "tune"):
        raise UsageError(f'config: a tritongemm.Config, "tune" or None, given {config!r}.')


def _of_prepared(precision: str, b: Any) -> str:
    """The mode of a product with a prepared operand: the one it was prepared for."""
    from tritongemm import modes

    if precision not in ("ieee", automatic.NAME) and modes.get(precision).name != b.precision:
        raise UsageError(f"precision: {precision!r}, but b was prepared for {b.precision!r}; prepare it for that one.")
    return str(b.precision)


def _prepared(call: Call, a: Any, b: Any, c: Any, bias: Any, out: Any, settings: tuple[Any, ...]) -> Any:
    """The way of a product with an operand that was cut into parts before: in the mode it was cut for."""
    _, precision, alpha, beta, activation, out_dtype, invariant, config = settings
    _of_prepared(precision, b)
    given = {"a": a, "b": b.b, "c": c, "bias": bias}
    torch_kind = check_kinds(call, {**given, "out": out})
    check_matrices(call, a, b.b)
    check_activation(activation)
    check_flag("invariant", invariant)
    _check_config(config)
    if torch_kind and out is None and eager.observed((a, c, bias)):
        raise UsageError("b: prepared operands record no gradients; call mm under torch.no_grad(), or give b itself.")
    element = result_element(a, out_dtype, call["a"])
    shape = (a.shape[0], b.shape[1])
    alpha, beta = check_factors(call, alpha, beta, element_of(a, call["a"]))
    c = addend(call, c, beta, a, element, shape)
    if bias is not None:
        check_bias(call, bias, a, element.library, shape)
    out = _ready(call, out, shape, element, given, torch_kind)
    from tritongemm import execution

    return execution.prepared_product(
        a, b, out=out, out_dtype=element.name, alpha=alpha, beta=beta, c=c, bias=bias, activation=activation
    )


def _traced(a: Any, b: Any, c: Any, bias: Any, out: Any, settings: tuple[Any, ...]) -> Any:
    """The way of `mm` and `bmm` under torch.compile: the operator's fake implementation checks the operands."""
    from tritongemm import library

    _, precision, alpha, beta, activation, out_dtype, invariant, config = settings
    if c is not None:
        c = c.expand(*a.shape[:-1], b.shape[-1])
    dtype = _traced_dtype(out_dtype, out)
    result = library.product(a, b, c, bias, float(alpha), float(beta), activation, precision, dtype, invariant, config)
    return result if out is None else _copied(result, out)


def _copied(result: Any, out: Any) -> Any:
    """result, written to out, which has its shape and type already: a compiled program resizes nothing."""
    if out.shape != result.shape:
        raise OperandError(f"out: shape {tuple(out.shape)}, but the product is {tuple(result.shape)}.")
    return out.copy_(result)


def _traced_dtype(out_dtype: Any, out: Any) -> Any:
    """A result type as torch's dtype, found without anything that torch.compile cannot follow."""
    if out_dtype is None:
        return None if out is None else out.dtype
    if not isinstance(out_dtype, str):
        return out_dtype
    import torch

    name = out_dtype.removeprefix("torch.")
    return getattr(torch, _LIBRARY_NAMES.get(name, name))


_LIBRARY_NAMES = {element.name: element.library for element in ELEMENTS.values()}


def _library_dtype(element: Element, torch_kind: bool) -> Any:
    if not torch_kind:
        return element.name
    import torch

    return getattr(torch, element.library)


def _ready(
    call: Call, out: Any, shape: tuple[int, ...], element: Element, given: dict[str, Any], torch_kind: bool
) -> Any:
    """out, checked, and resized as torch resizes it."""
    if out is None:
        return None
    if torch_kind:
        check_out(call, out, _library_dtype(element, True), given)
        if tuple(out.shape) != tuple(shape):
            _resize(call, out, shape, given)
    _check_target(call, out, shape, element, torch_kind)
    return out


def _resize(call: Call, out: Any, shape: tuple[int, ...], given: dict[str, Any]) -> None:
    """torch's way with an out of another shape."""
    changed = f"{call['out']}: of shape {tuple(out.shape)} it would be resized to {tuple(int(n) for n in shape)}, but"
    if any(x is not None and x is out for x in given.values()):
        raise UsageError(f"{changed} it is an operand.")
    if out.numel():
        warnings.warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(out.shape)}, which does not match the required output shape {list(shape)}. "
            "This behavior is deprecated, as it is in torch: give an out of that shape, or out.resize_(0).",
            UserWarning,
            stacklevel=6,
        )
    storage = out.untyped_storage()
    needed = (out.storage_offset() + math.prod(int(n) for n in shape)) * out.element_size()
    # torch finds this out after it has given the tensor its new shape.
    if needed > storage.nbytes() and not storage.resizable():
        raise OperandError(
            f"Trying to resize storage that is not resizable ({changed} its memory cannot grow; give one of that shape)"
        )
    out.resize_(shape)


def _check_target(call: Call, out: Any, shape: tuple[int, ...], element: Element, torch_kind: bool) -> None:
    """Checks that a result of a shape and type can be written to a matrix."""
    name, shape = call["out"], tuple(int(n) for n in shape)
    check_out_type(call, out, element.library)
    if tuple(out.shape) != shape:
        raise UsageError(f"{name}: shape {tuple(out.shape)}, but the product is {shape}.")
    if not torch_kind:
        if not getattr(out, "array", out).flags.writeable:
            raise UsageError(f"{name}: it is read-only and cannot be written to; pass {name}.copy().")
        strides = strides_of(out, name)
    else:
        strides = out.stride()
    if 0 not in shape and any(stride == 0 and size > 1 for size, stride in zip(shape, strides, strict=True)):
        fail(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation.", call, f"{name} was made by expand()",
        )  # fmt: skip


def _two_strided(x: Any, y: Any) -> bool:
    """Whether these are two matrices of torch in memory that strides describe: what most calls are made with."""
    if not (is_torch(x) and is_torch(y)):
        return False
    strided = sys.modules["torch"].strided
    return x.layout is strided and y.layout is strided and not y.is_nested and x.dim() == 2 == y.dim()


def _into(call: Call, result: Any, out: Any, given: dict[str, Any], torch_kind: bool) -> Any:
    """result, written to out if there is one: for products whose shape is not the caller's."""
    if out is None:
        return result
    ready = _ready(call, out, tuple(result.shape), element_of(result, "out"), given, torch_kind)
    if torch_kind:
        return ready.copy_(result)
    ready[...] = result
    return ready


def _rows(x: Any) -> Any:
    """The rows of all matrices of a batch below each other, without a copy where strides allow it."""
    if x.shape[-1]:
        return x.reshape(-1, x.shape[-1])
    return x.reshape(math.prod(x.shape[:-1]), 0)  # of nothing, NumPy cannot tell how many


def _broadcast(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of two batches."""
    length = max(len(x), len(y))
    x, y = (1,) * (length - len(x)) + x, (1,) * (length - len(y)) + y
    for axis, (m, n) in enumerate(zip(x, y, strict=True)):
        if m != n and 1 not in (m, n):
            fail(
                f"The size of tensor a ({m}) must match the size of tensor b ({n}) at non-singleton dimension {axis}",
                _MATMUL, f"batches {x} of a and {y} of b do not broadcast",
            )  # fmt: skip
    return tuple(n if m == 1 else m for m, n in zip(x, y, strict=True))


def _stacked(x: Any, batch: tuple[int, ...]) -> Any:
    """Matrices with one batch axis; one that is repeated has stride 0 where torch and NumPy can say so."""
    shape = (*batch, *x.shape[-2:])
    whole = x.expand(shape) if is_torch(x) else np.broadcast_to(x, shape)
    return whole.reshape(math.prod(batch), *x.shape[-2:])


_all: tuple[Callable[..., Any], ...] = (mm, bmm, addmm, baddbmm, matmul, linear, scaled_mm, grouped_mm, predict)
__all__ = ["OperandError", *(f.__name__ for f in _all)]
