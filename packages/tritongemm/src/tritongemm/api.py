"""Matrix products in torch's shapes and words, each with a precision mode that promises bits and bounds.

The functions take torch tensors on a GPU (kernels are launched), torch tensors on the CPU and NumPy arrays (kernels are
evaluated, or their mode's bits predicted, which is slow and exact). Types that NumPy lacks come from ml_dtypes or from
`fpsan_tools.typed`. They are deterministic, and a row's bits do not depend on how many others come along; with
`invariant=False` they may, where that is faster.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritongemm import automatic, eager
from tritongemm.configurations import Config
from tritongemm.elements import ELEMENTS, FP8, Element, element_of, empty_like, write_values
from tritongemm.errors import UsageError
from tritongemm.matrices import is_torch
from tritongemm.operands import (
    OperandError,
    check_addend,
    check_batches,
    check_bias,
    check_kinds,
    check_matrices,
    check_out,
    check_settings,
    check_types,
    expanded,
    fail,
    rank,
    result_element,
    type_name,
)


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
        alpha: Factor of the product.
        beta: Factor of c; with 0, c is not read.
        c: (M, N) matrix, or one that broadcasts to it.
        bias: (N,) array, added to every row.
        activation: "relu", "gelu" or "silu", applied before the result is rounded to its type.
        out_dtype: Type of the result, as NumPy's or torch's dtype or a name; a's by default, bf16 for fp8.
        deterministic: Whether equal calls give equal bits. Every kernel here does; False allows ones that do not.
        invariant: Whether a row's bits must not depend on M. False allows to split K by the number of rows.
        config: How to launch the kernel, instead of what an earlier `tune` or the table says. "tune": search for a
            faster one if none is kept for such products; see `tritongemm.tuning`.

    Returns:
        `out`, or a new (M, N) matrix of the operands' library and place.

    Raises:
        OperandError: Shapes, types or devices do not fit; also a RuntimeError, in torch's words.
        UsageError: Another argument cannot be used as given.
    """
    settings = (2, precision, alpha, beta, activation, out_dtype, invariant, config)
    if eager.compiling():
        return _traced(a, b, c, bias, out, settings)
    result = eager.quick(a, b, c, bias, out, settings)
    if result is not None:
        return result
    if type(b).__name__ == "Prepared":
        return _prepared(a, b, c, bias, out, settings)
    check_kinds("mm", {"a": a, "b": b, "c": c, "bias": bias, "out": out})
    check_matrices("mm", a, b)
    return _product("mm", a, b, c, bias, out, settings)


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
    if eager.compiling():
        return _traced(a, b, c, bias, out, settings)
    result = eager.quick(a, b, c, bias, out, settings)
    if result is not None:
        return result
    check_kinds("bmm", {"a": a, "b": b, "c": c, "bias": bias, "out": out})
    check_batches("bmm", a, b)
    return _product("bmm", a, b, c, bias, out, settings)


def addmm(input: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1, **options: Any) -> Any:
    """beta·input + alpha·A B, as torch.addmm.

    Args:
        input: What is added; broadcasts to (M, N).
        a: (M, K) matrix.
        b: (K, N) matrix.
        beta: Factor of input; with 0, input is not read.
        alpha: Factor of the product.
        **options: The other arguments of `mm`.

    Returns:
        The (M, N) sum.

    Raises:
        OperandError: Shapes, types or devices do not fit; also a RuntimeError, in torch's words.
        UsageError: Another argument cannot be used as given.
    """
    _refuse("addmm", options, "c")
    return mm(a, b, c=input, beta=beta, alpha=alpha, **options)


def baddbmm(input: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1, **options: Any) -> Any:
    """beta·input + alpha·A B for batches, as torch.baddbmm.

    Args:
        input: What is added; broadcasts to (B, M, N).
        a: (B, M, K) matrices.
        b: (B, K, N) matrices.
        beta: Factor of input; with 0, input is not read.
        alpha: Factor of the products.
        **options: The other arguments of `bmm`.

    Returns:
        The (B, M, N) sums.

    Raises:
        OperandError: Shapes, types or devices do not fit; also a RuntimeError, in torch's words.
        UsageError: Another argument cannot be used as given.
    """
    _refuse("baddbmm", options, "c")
    return bmm(a, b, c=input, beta=beta, alpha=alpha, **options)


def matmul(a: Any, b: Any, *, out: Any = None, **options: Any) -> Any:
    """The product as torch.matmul and NumPy's @ have it: vectors, matrices, and batches that broadcast.

    Args:
        a: (..., M, K) matrices, or a (K,) vector.
        b: (..., K, N) matrices, or a (K,) vector.
        out: Result to write to.
        **options: `precision`, `alpha`, `activation`, `out_dtype`, `deterministic`, `invariant`, `config` of `mm`.

    Returns:
        The product; an axis of a vector is left out.

    Raises:
        OperandError: Shapes, types or devices do not fit; also a RuntimeError, in torch's words.
        UsageError: Another argument cannot be used as given.
    """
    _refuse("matmul", options, "c", "beta", "bias")
    torch_kind = eager.compiling() or check_kinds("matmul", {"a": a, "b": b, "out": out})
    if rank(a) == 0 or rank(b) == 0:
        fail(
            f"both arguments to matmul need to be at least 1D, but they are {rank(a)}D and {rank(b)}D", "matmul",
            "multiply numbers with *",
        )  # fmt: skip
    if rank(a) == 2 == rank(b):
        return mm(a, b, out=out, **options)
    left = a[None, :] if rank(a) == 1 else a
    right = b[:, None] if rank(b) == 1 else b
    if left.shape[-1] != right.shape[-2]:
        fail(
            f"mat1 and mat2 shapes cannot be multiplied ({left.shape[-2]}x{left.shape[-1]} and "
            f"{right.shape[-2]}x{right.shape[-1]})", "matmul",
            f"a is {tuple(a.shape)}, b is {tuple(b.shape)}",
        )  # fmt: skip
    if not eager.compiling():
        check_types("matmul", a, b)
    batch = _broadcast(tuple(left.shape[:-2]), tuple(right.shape[:-2]))
    shape = (*batch, left.shape[-2], right.shape[-1])
    if rank(right) == 2:
        # One matrix for all: the rows of all batches are rows of one product.
        result = mm(_rows(left), right, **options)
    else:
        stacked = [_stacked(x, batch) for x in (left, right)]
        result = mm(left, right, **options) if not batch else bmm(*stacked, **options)
    result = result.reshape(shape)
    if rank(a) == 1:
        result = result[..., 0, :]
    if rank(b) == 1:
        result = result[..., 0]
    return _into(result, out, {"a": a, "b": b}, torch_kind)


def linear(x: Any, weight: Any, bias: Any = None, *, activation: str | None = None, **options: Any) -> Any:
    """activation(x weightᵀ + bias), as torch.nn.functional.linear; the weight is not copied.

    Args:
        x: (..., K) inputs.
        weight: (N, K) weights.
        bias: (N,) array, or None.
        activation: "relu", "gelu" or "silu", fused.
        **options: The other arguments of `mm`: `precision`, `out_dtype`, `out`, ...

    Returns:
        (..., N) results.

    Raises:
        OperandError: Shapes, types or devices do not fit; also a RuntimeError, in torch's words.
        UsageError: Another argument cannot be used as given.
    """
    out = options.pop("out", None)
    torch_kind = eager.compiling() or check_kinds("linear", {"x": x, "weight": weight, "bias": bias, "out": out})
    if rank(weight) != 2:
        fail("weight must be a matrix", "linear", f"weight has {rank(weight)} dimensions")
    if rank(x) == 0:
        fail("input must have at least one dimension", "linear", "x is a number")
    transposed = weight.T
    if rank(x) == 2:
        return mm(x, transposed, bias=bias, activation=activation, out=out, **options)
    rows = _rows(x)
    shape = (*x.shape[:-1], weight.shape[0])
    result = mm(rows, transposed, bias=bias, activation=activation, **options).reshape(shape)
    return _into(result, out, {"x": x, "weight": weight, "bias": bias}, torch_kind)


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
    activation: str | None = None,
    invariant: bool = True,
    config: Config | str | None = None,
) -> Any:
    """The product of matrices of 8-bit floats and their scales.

    Args:
        a: (M, K) fp8 matrix.
        b: (K, N) fp8 matrix.
        scale_a: fp32: one number, (M, 1) per row, or (M, K/128) per row and 128 columns.
        scale_b: fp32: one number, (1, N) per column, or (K/128, N/128) per block.
        bias: (N,) array.
        out: (M, N) matrix to write to.
        out_dtype: Type of the result; bf16 by default.
        precision: "ieee" or "promote128" (sums of 128 products, added in fp32), "promote64", "promote32", or "fast"
            (added up on the tensor core, as `use_fast_accum=True` of torch._scaled_mm).
        activation: "relu", "gelu", "silu" or None.
        invariant: See `mm`.
        config: See `mm`.

    Returns:
        `out`, or a new (M, N) matrix.

    Raises:
        OperandError: Shapes or devices do not fit; also a RuntimeError, in torch's words.
        UsageError: Another argument cannot be used as given.
    """
    if eager.compiling():
        from tritongemm import library

        result = library.scaled_product(
            a, b, scale_a, scale_b, bias, activation, precision, _traced_dtype(out_dtype, out), invariant, config
        )
        return result if out is None else _copied(result, out)
    given = {"a": a, "b": b, "scale_a": scale_a, "scale_b": scale_b, "bias": bias}
    torch_kind = check_kinds("scaled_mm", {**given, "out": out})
    if rank(a) != 2 or rank(b) != 2 or a.shape[1] != b.shape[0]:
        check_matrices("scaled_mm", a, b)
    for name, x in (("a", a), ("b", b)):
        if element_of(x, name).name not in FP8:
            raise UsageError(f"{name}: scaled_mm takes {' and '.join(FP8)}, given {type_name(x)}; mm takes the others.")
    check_settings(activation, precision, element_of(a, "a"))
    element = result_element(a, out, out_dtype)
    out = _ready(out, (a.shape[0], b.shape[1]), element, "scaled_mm", given, torch_kind)
    dtype = _library_dtype(element, torch_kind)
    if torch_kind and (a.is_meta or eager.observed((a, b, scale_a, scale_b, bias, out))):
        from tritongemm import library

        result = library.scaled_product(a, b, scale_a, scale_b, bias, activation, precision, dtype, invariant, config)
        return result if out is None else out.copy_(result)
    from tritongemm import execution

    return execution.scaled_product(a, b, scale_a, scale_b, bias, out, activation, precision, dtype, invariant, config)


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
        precision: See `mm`; not "auto".
        alpha: See `mm`.
        activation: See `mm`.
        out_dtype: See `mm`.
        config: See `mm`.

    Returns:
        `outs`, or new matrices, in order.

    Raises:
        OperandError: Shapes, types or devices do not fit; also a RuntimeError, in torch's words.
        UsageError: Another argument cannot be used as given.
    """
    if len(list_a) != len(list_b) or (outs is not None and len(outs) != len(list_a)):
        given = f"{len(list_a)}, {len(list_b)}" + ("" if outs is None else f" and {len(outs)}")
        raise UsageError(f"list_a, list_b, outs: one of each per product, given {given}.")
    for i, (a, b) in enumerate(zip(list_a, list_b, strict=True)):
        torch_kind = check_kinds("grouped_mm", {f"list_a[{i}]": a, f"list_b[{i}]": b})
        check_matrices("grouped_mm", a, b)
        check_settings(activation, precision, element_of(a, "a"))
        if torch_kind and eager.observed((a, b)):
            raise UsageError(f"list_a[{i}], list_b[{i}]: grouped_mm records no gradients; use mm, or torch.no_grad().")
    if len(list_a) == 0:
        return []
    try:
        from tritongemm.dispatch import grouped_product
        from tritongemm.kernels.epilogue import Epilogue
    except ImportError as error:
        from tritongemm import execution

        raise execution.without_triton(error) from None
    return grouped_product(
        list_a,
        list_b,
        mode=precision,
        outs=outs,
        out_dtype=None if outs is not None else result_element(list_a[0], None, out_dtype).name,
        epilogue=Epilogue(alpha=_number("alpha", alpha), activation=activation),
        config=config,
    )


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
    torch_kind = check_kinds("predict", {"a": a, "b": b, "c": c, "bias": bias})
    check_matrices("predict", a, b)
    if torch_kind:
        a, b, c, bias = (x if x is None else x.detach().cpu() for x in (a, b, c, bias))
    element = result_element(a, None, out_dtype)
    if alpha == 1 and beta == 0 and bias is None and activation is None:
        from tritongemm.modes import get

        check_settings(activation, precision, element_of(a, "a"))
        precision = automatic.resolved(precision, a)
        result = empty_like(a, (int(a.shape[0]), int(b.shape[1])), element)
        write_values(result, get(precision).predict(a, b), element)
        return result
    return mm(
        a, b,
        precision=precision, alpha=alpha, beta=beta, c=c, bias=bias, activation=activation, out_dtype=out_dtype,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
def _product(name: str, a: Any, b: Any, c: Any, bias: Any, out: Any, settings: tuple[Any, ...]) -> Any:
    """The long way of `mm` and `bmm`, after their own checks."""
    _, precision, alpha, beta, activation, out_dtype, invariant, config = settings
    torch_kind = is_torch(a)
    shape = (*a.shape[:-1], b.shape[-1])
    check_settings(activation, precision, element_of(a, "a"))
    element = result_element(a, out, out_dtype)
    given_c, given_out = c, out
    if c is not None:
        check_addend(name, "c", c, a, element.library)
        c = expanded(name, "c", c, shape)
    elif beta != 0:
        raise UsageError(f"beta: {beta!r}, but there is no c to multiply; give c, or leave beta away.")
    if bias is not None:
        check_bias(name, bias, a, element.library, shape)
    if config is not None and not isinstance(config, Config) and config != "tune":
        raise UsageError(f'config: a tritongemm.Config, "tune" or None, given {config!r}.')
    alpha, beta = _number("alpha", alpha), _number("beta", beta)
    tensors = (a, b, c, bias)
    out = _ready(out, shape, element, name, {"a": a, "b": b, "c": c, "bias": bias}, torch_kind)
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


def _prepared(a: Any, b: Any, c: Any, bias: Any, out: Any, settings: tuple[Any, ...]) -> Any:
    """The way of `mm` with an operand that was cut into parts before: in the mode it was cut for."""
    from tritongemm import emulation, modes
    from tritongemm.kernels.epilogue import Epilogue

    _, precision, alpha, beta, activation, out_dtype, _, _ = settings
    if precision not in ("ieee", automatic.NAME) and modes.get(precision).name != b.precision:
        raise UsageError(f"precision: {precision!r}, but b was prepared for {b.precision!r}; prepare it for that one.")
    given = {"a": a, "b": b.b, "c": c, "bias": bias}
    torch_kind = check_kinds("mm", {**given, "out": out})
    check_matrices("mm", a, b.b)
    if torch_kind and out is None and eager.observed((a, c, bias)):
        raise UsageError("b: prepared operands record no gradients; call mm under torch.no_grad(), or give b itself.")
    element = result_element(a, out, out_dtype)
    shape = (a.shape[0], b.shape[1])
    out = _ready(out, shape, element, "mm", given, torch_kind)
    epilogue = Epilogue(
        alpha=_number("alpha", alpha),
        beta=_number("beta", beta),
        c=None if c is None else expanded("mm", "c", c, shape),
        bias=bias,
        activation=activation,
    )
    return emulation.product(a, b, out=out, out_dtype=None if out is not None else element.name, epilogue=epilogue)


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

    return getattr(torch, _LIBRARY_NAMES.get(out_dtype, out_dtype))


_LIBRARY_NAMES = {element.name: element.library for element in ELEMENTS.values()}


def _library_dtype(element: Element, torch_kind: bool) -> Any:
    if not torch_kind:
        return element.name
    import torch

    return getattr(torch, element.library)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise UsageError(f"{name}: a number of Python, given {type(value).__name__}; a tensor's is x.item().")
    return float(value)


def _ready(
    out: Any, shape: tuple[int, ...], element: Element, name: str, given: dict[str, Any], torch_kind: bool
) -> Any:
    """out, checked, and resized as torch resizes it."""
    if out is None:
        return None
    if not torch_kind:
        if tuple(out.shape) != shape:
            raise UsageError(f"out: shape {tuple(out.shape)}, but the product is {shape}.")
        if not getattr(out, "array", out).flags.writeable:
            raise UsageError("out: it is read-only and cannot be written to; pass out.copy().")
        return out
    check_out(name, out, _library_dtype(element, True), given)
    if tuple(out.shape) != tuple(shape):
        if any(x is not None and x is out for x in given.values()):
            raise UsageError(f"out: of shape {tuple(out.shape)} it would be resized to {shape}, but it is an operand.")
        if out.numel():
            warnings.warn(
                "An output with one or more elements was resized since it had shape "
                f"{list(out.shape)}, which does not match the required output shape {list(shape)}. "
                "This behavior is deprecated, as it is in torch: give an out of that shape, or out.resize_(0).",
                UserWarning,
                stacklevel=4,
            )
        out.resize_(shape)
    if any(stride == 0 and size > 1 for size, stride in zip(out.shape, out.stride(), strict=True)):
        fail(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation.", name, "out was made by expand()",
        )  # fmt: skip
    return out


def _into(result: Any, out: Any, given: dict[str, Any], torch_kind: bool) -> Any:
    """result, written to out if there is one: for products whose shape is not the caller's."""
    if out is None:
        return result
    ready = _ready(out, tuple(result.shape), element_of(result, "out"), "matmul", given, torch_kind)
    if torch_kind:
        return ready.copy_(result)
    ready[...] = result
    return ready


def _rows(x: Any) -> Any:
    """The rows of all matrices of a batch below each other, without a copy where strides allow it."""
    if x.shape[-1]:
        return x.reshape(-1, x.shape[-1])
    return x.reshape(int(np.prod(x.shape[:-1], dtype=int)), 0)  # of nothing, NumPy cannot tell how many


def _broadcast(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of two batches."""
    length = max(len(x), len(y))
    x, y = (1,) * (length - len(x)) + x, (1,) * (length - len(y)) + y
    for axis, (m, n) in enumerate(zip(x, y, strict=True)):
        if m != n and 1 not in (m, n):
            fail(
                f"The size of tensor a ({m}) must match the size of tensor b ({n}) at non-singleton dimension {axis}",
                "matmul", f"batches {x} and {y} do not broadcast",
            )  # fmt: skip
    return tuple(n if m == 1 else m for m, n in zip(x, y, strict=True))


def _stacked(x: Any, batch: tuple[int, ...]) -> Any:
    """Matrices with one batch axis; one that is repeated has stride 0 where torch and NumPy can say so."""
    shape = (*batch, *x.shape[-2:])
    whole = x.expand(shape) if is_torch(x) else np.broadcast_to(x, shape)
    return whole.reshape(int(np.prod(batch, dtype=int)), *x.shape[-2:])


def _refuse(name: str, options: dict[str, Any], *unknown: str) -> None:
    """Options that another argument of the function stands for."""
    for option in unknown:
        if option in options:
            raise TypeError(f"{name}() got an unexpected keyword argument {option!r}; mm and bmm take it")


_all: tuple[Callable[..., Any], ...] = (mm, bmm, addmm, baddbmm, matmul, linear, scaled_mm, grouped_mm, predict)
__all__ = ["OperandError", *(f.__name__ for f in _all)]
