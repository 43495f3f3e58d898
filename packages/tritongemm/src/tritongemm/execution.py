"""From a checked call to the kernels: where the result goes, on which device it is made, what it may lie on."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from tritongemm import automatic, eager, launches, store, tuning
from tritongemm.configurations import Config
from tritongemm.elements import (
    address_of,
    element_named,
    element_of,
    empty_like,
    is_typed,
    overlap,
    strides_of,
    values_of,
    write_values,
)
from tritongemm.errors import Unavailable
from tritongemm.matrices import is_cuda, is_torch


def product(
    a: Any,
    b: Any,
    c: Any,
    bias: Any,
    out: Any,
    alpha: float,
    beta: float,
    activation: str | None,
    precision: str,
    out_dtype: Any,
    invariant: bool,
    config: Config | str | None,
) -> Any:
    """activation(alpha·A B + beta·C + bias), on the CPU or on the GPU that holds the operands.

    Args:
        a: (M, K) or (B, M, K) matrix.
        b: (K, N) or (B, K, N) matrix.
        c: Matrix of the product's shape, or None.
        bias: (N,) array, or None.
        out: Matrix of the product's shape and result type, or None. It may lie on an operand.
        alpha: Factor of the product.
        beta: Factor of c.
        activation: "relu", "gelu", "silu" or None.
        precision: Name of the mode.
        out_dtype: dtype of a new result in the operands' library; None for a's.
        invariant: Whether a row's bits must not depend on M.
        config: A configuration; None to have one chosen, "tune" to have one searched for if none is kept.

    Returns:
        `out`, or a new matrix.
    """
    precision = automatic.remembered(precision, a)
    try:
        from tritongemm.dispatch import product as dispatched
        from tritongemm.kernels.epilogue import Epilogue
    except ImportError as error:
        if is_cuda(a) or config is not None or not (alpha == 1 and beta == 0 and bias is None and activation is None):
            raise without_triton(error) from None
        return _predicted(a, b, out, precision, out_dtype)
    epilogue = Epilogue(alpha=alpha, beta=beta, c=c, bias=bias, activation=activation)
    target = _apart(out, a, b, bias, c)
    with _on_device_of(a):
        config = _configured(a, b, target, epilogue, precision, out_dtype, invariant, config)
        result = dispatched(
            a, b,
            mode=precision, out=target, out_dtype=out_dtype, epilogue=epilogue, config=config, invariant=invariant,
        )  # fmt: skip
    return _delivered(result, out)


def prepared_product(a: Any, b: Any, *, out: Any, out_dtype: str, **epilogue: Any) -> Any:
    """The product with a `tritongemm.prepare`d b.

    Args:
        a: (M, K) matrix.
        b: The prepared operand.
        out: See `product`.
        out_dtype: See `product`.
        **epilogue: alpha, beta, c, bias and activation of `product`.
    """
    if b.parts is None:
        more = {"precision": b.precision, "invariant": True, "config": None}
        return product(a, b.b, out=out, out_dtype=out_dtype, **more, **epilogue)
    from tritongemm import emulation
    from tritongemm.kernels.epilogue import Epilogue

    target = _apart(out, a, b.b, epilogue["bias"], epilogue["c"])
    made = emulation.product(a, b, out=target, out_dtype=out_dtype, epilogue=Epilogue(**epilogue))
    return _delivered(made, out)


def without_triton(error: ImportError) -> Unavailable:
    """What to raise where kernels cannot be compiled.

    Args:
        error: Why Triton cannot be imported.
    """
    return Unavailable(
        f"Triton cannot be imported ({error}). Without it products on the CPU are predicted as long as they have no "
        "alpha, c, bias, activation or config, and nothing runs on a GPU. On Linux: pip install triton."
    )


def _predicted(a: Any, b: Any, out: Any, precision: str, out_dtype: Any) -> Any:
    """A product on the CPU that is just the sums, rounded: its mode's prediction, for which nothing is compiled."""
    from tritongemm import emulation
    from tritongemm.modes import get

    shape = (*(int(n) for n in a.shape[:-1]), int(b.shape[-1]))
    types = (element_of(a, "a").name, element_of(b, "b").name)
    element = element_of(a, "a") if out_dtype is None else element_named(str(out_dtype))
    result = empty_like(a, shape, element) if out is None else out
    wide = [values_of(x, element_of(x, name)) for name, x in (("a", a), ("b", b))]
    batches = [x[None] if len(shape) == 2 else x for x in wide]
    mode = get(precision)
    with emulation.noting(mode.name, int(a.shape[-1])):
        sums = [mode.predict(x, y, types=types) for x, y in zip(*batches, strict=True)]
    if sums:
        write_values(result, np.stack(sums).reshape(shape), element_of(result, "out"))
    return result


def recorded(tensors: tuple[Any, Any, Any, Any], given_out: Any, settings: tuple[Any, ...], *arguments: Any) -> Any:
    """A product whose launches are kept for the next call of its kind, if it can be launched from memory.

    Args:
        tensors: a, b, c and bias as the caller gave them.
        given_out: The tensor to write to as the caller gave it, or None.
        settings: What else `eager.quick` finds the call by.
        *arguments: The arguments of `product`.

    Returns:
        The product.
    """
    if not is_cuda(tensors[0]):
        return product(*arguments)
    with launches.record() as record:
        result = product(*arguments)
    # Memory that stood in for out is not there next time. Memory made while a graph is captured belongs to the graph:
    # such a call is recorded another time.
    if (given_out is None or given_out is result) and not tuning.capturing():
        plan = record.plan([*eager.operands_beside(given_out, *tensors), result])
        eager.keep(tensors, result, given_out, settings, plan)
    return result


def scaled_product(
    a: Any,
    b: Any,
    scale_a: Any,
    scale_b: Any,
    c: Any,
    bias: Any,
    out: Any,
    alpha: float,
    beta: float,
    activation: str | None,
    precision: str,
    out_dtype: Any,
    invariant: bool,
    config: Config | str | None,
) -> Any:
    """The product of scaled matrices; arguments as `product`'s and `tritongemm.scaled_mm`'s."""
    try:
        from tritongemm.dispatch import scaled_product as dispatched
        from tritongemm.kernels.epilogue import Epilogue
    except ImportError as error:
        raise without_triton(error) from None
    precision = automatic.remembered(precision, a)
    epilogue = Epilogue(alpha=alpha, beta=beta, c=c, bias=bias, activation=activation)
    target = _apart(out, a, b, bias, c, scale_a, scale_b)
    if isinstance(config, str):  # what is kept is kept for plain products
        config = None
    with _on_device_of(a):
        result = dispatched(
            a, b, scale_a, scale_b,
            mode=precision, out=target, out_dtype=out_dtype, epilogue=epilogue, config=config, invariant=invariant,
        )  # fmt: skip
    return _delivered(result, out)


def _configured(
    a: Any,
    b: Any,
    out: Any,
    epilogue: Any,
    precision: str,
    out_dtype: Any,
    invariant: bool,
    config: Config | str | None,
) -> Config | None:
    """The configuration to launch with; None for the table's."""
    if isinstance(config, Config):
        return config
    if not is_cuda(a) or (config is None and store.current().empty()):
        return None
    from tritongemm import modes
    from tritongemm.kernels.problems import Operands

    element = None if out_dtype is None else element_named(str(out_dtype))
    operands = Operands.of(a, b, modes.get(precision), out=out, out_dtype=element, epilogue=epilogue)
    return tuning.chosen(operands, invariant, search_if_new=config is not None)


def _on_device_of(x: Any) -> Any:
    """Triton launches on the current GPU, whatever the operands' is."""
    if not is_cuda(x):
        return contextlib.nullcontext()
    import torch

    return contextlib.nullcontext() if torch.cuda.current_device() == x.get_device() else torch.cuda.device(x.device)


def _apart(out: Any, a: Any, b: Any, bias: Any, c: Any, *scales: Any) -> Any:
    """`out`, or memory of its own where writing to `out` would change an operand that is still read.

    c may be `out` itself: each of its elements is read by whoever then writes it.
    """
    if out is None:
        return None
    others = [x for x in (a, b, bias, *scales) if x is not None]
    if c is not None and not _same(out, c):
        others.append(c)
    if not any(overlap(out, x) for x in others):
        return out
    return empty_like(out, tuple(out.shape), element_of(out, "out"))


def _delivered(result: Any, out: Any) -> Any:
    if out is None:
        return result
    if result is out:
        if is_torch(out):
            eager.written(out)
        return out
    if is_torch(out):
        import torch

        with torch.no_grad():
            return out.copy_(result)
    if is_typed(out):
        out.array[...] = result.array
    else:
        out[...] = result
    return out


def _same(x: Any, y: Any) -> bool:
    return (
        address_of(x) == address_of(y)
        and x.dtype == y.dtype
        and tuple(x.shape) == tuple(y.shape)
        and strides_of(x, "c") == strides_of(y, "c")
    )
