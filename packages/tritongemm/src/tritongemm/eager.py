"""The short way of a call that has been made before: no checks, no dispatcher, one look into a table.

A product of torch tensors on a GPU passes the checks and the choice of a kernel once. What was launched is kept under
everything that these depend on (shapes, strides, types, device and the call's settings), and the next call with the
same key launches it again. The table is left aside whenever torch wants to see the operation: when gradients are
recorded, under torch.compile, vmap, dispatch modes and forward-mode differentiation, and for tensor subclasses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tritongemm.elements import extent
from tritongemm.launches import Plan

# A program with more kinds of products than this forgets them all and starts again, rather than grow for ever.
_MOST_PLANS = 4096


@dataclass
class _Torch:
    """What a quick call asks torch, looked up once."""

    Tensor: Any
    Parameter: Any
    empty_like: Any
    is_grad_enabled: Any
    modes: Any
    functorch: Any
    forward_ad: Any
    increment_version: Any
    current_device: Any
    current_stream: Any


@dataclass(frozen=True)
class _Kept:
    """A plan and what its call needs beside it."""

    plan: Plan
    template: Any  # a view of one element with the result's shape and type: new results are made like it
    extents: tuple[int, ...]  # bytes that the operands and the result reach upwards


_torch: _Torch | None = None
_plans: dict[tuple[Any, ...], _Kept] = {}


def clear() -> None:
    """Forgets every plan: to be called after a setting of Triton's environment was changed by hand."""
    _plans.clear()


def _looked_up() -> _Torch:
    global _torch
    if _torch is None:
        import torch
        import torch.autograd.forward_ad as forward_ad

        C: Any = torch._C
        _torch = _Torch(
            torch.Tensor,
            torch.nn.Parameter,
            torch.empty_like,
            torch.is_grad_enabled,
            C._len_torch_dispatch_stack,
            C._functorch.peek_interpreter_stack,
            forward_ad,
            torch.autograd.graph.increment_version,
            getattr(C, "_cuda_getDevice", None),
            getattr(C, "_cuda_getCurrentRawStream", None),
        )
    return _torch


def compiling() -> bool:
    """Whether torch.compile is tracing this code."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())


def plain(tensors: Sequence[Any]) -> bool:
    """Whether tensors are what they seem and nobody looks on: no modes, no transforms, no subclasses, no negations.

    Args:
        tensors: torch tensors; None is left out.
    """
    known = _looked_up()
    if known.modes() or known.functorch() is not None:
        return False
    for x in tensors:
        if x is None:
            continue
        kind = type(x)
        # A negated tensor is a note to the reader: its memory holds the other numbers. Complex ones come nowhere here.
        if (kind is not known.Tensor and kind is not known.Parameter) or x.is_neg():
            return False
    return True


def observed(tensors: Sequence[Any]) -> bool:
    """Whether torch wants to see an operation on these tensors: what is not `plain`, and what records gradients.

    Args:
        tensors: torch tensors; None is left out.

    Returns:
        False if the operation may go round torch's dispatcher unnoticed.
    """
    known = _looked_up()
    if known.forward_ad._current_level >= 0 or not plain(tensors):
        return True
    for x in tensors:  # noqa: SIM110  (a generator would take as long as everything else here)
        if x is not None and x.requires_grad and known.is_grad_enabled():
            return True
    return False


def written(x: Any) -> None:
    """Tells torch that a tensor has other numbers now. A kernel writes behind its back, and gradients that were to be
    computed from the numbers before would be wrong without a word.

    Args:
        x: The torch tensor that was written to.
    """
    if not x.is_inference():
        _looked_up().increment_version(x)


def _signature(x: Any) -> Any:
    return None if x is None else (x.shape, x.stride(), x.dtype, x.get_device())


def _key(a: Any, b: Any, c: Any, bias: Any, out: Any, settings: tuple[Any, ...]) -> tuple[Any, ...]:
    key = (a.shape, a.stride(), a.dtype, a.get_device(), b.shape, b.stride(), b.dtype, b.get_device(), settings)
    if c is None and bias is None and out is None:
        return key
    return (*key, _signature(c), _signature(bias), _signature(out), c is out)


def operands_beside(out: Any, a: Any, b: Any, c: Any, bias: Any) -> list[Any]:
    """The tensors of a call that are read, in the order of its plan; c is left out where it is what is written to."""
    return [x for x in (a, b, None if c is out else c, bias) if x is not None]


def quick(
    a: Any, b: Any, c: Any, bias: Any, out: Any, settings: tuple[Any, ...], watch: Callable[..., bool] = observed
) -> Any:
    """Does a call again that was done before.

    Args:
        a: First factor.
        b: Second factor.
        c: What is added, or None.
        bias: What is added to every row, or None.
        out: The tensor to write to, or None.
        settings: Everything else that the call depends on, hashable.
        watch: Whether these tensors must take the long way: `observed`; inside an operator nobody else is to see it.

    Returns:
        The result; None if this call must take the long way.
    """
    if not _plans or _torch is None:
        return None
    try:
        kept = _plans.get(_key(a, b, c, bias, out, settings))
    except (TypeError, AttributeError, RuntimeError):
        # No tensors or no strided ones, or a setting that cannot be hashed: the long way says what.
        return None
    if kept is None or watch((a, b, c, bias, out)):
        return None
    plan = kept.plan
    device = plan.device
    if not plan.replayable() or _torch.current_device() != device:
        return None
    if c is None and bias is None:
        addresses = [a.data_ptr(), b.data_ptr()]
    else:
        addresses = [x.data_ptr() for x in operands_beside(out, a, b, c, bias)]
    given = out is not None
    if not given:
        out = _torch.empty_like(kept.template)
        start = out.data_ptr()
    else:
        start = out.data_ptr()
        end = start + kept.extents[-1]
        for address, extent in zip(addresses, kept.extents, strict=False):
            if address < end and start < address + extent:  # the result lies on an operand
                return None
    together = start
    for address in addresses:
        together |= address
    # Kernels were compiled for addresses that are multiples of 16.
    if together & 15:
        return None
    addresses.append(start)
    plan.replay(_torch.current_stream(device), addresses)
    if given:
        written(out)
    return out


def keep(
    tensors: tuple[Any, Any, Any, Any], out: Any, given_out: Any, settings: tuple[Any, ...], plan: Plan | None
) -> None:
    """Keeps the plan of a call.

    Args:
        tensors: a, b, c and bias; the last two may be None.
        out: The result.
        given_out: The tensor to write to that the caller gave, or None.
        settings: Everything else that the call depends on.
        plan: The plan; None if the call cannot be replayed.
    """
    present = operands_beside(given_out, *tensors)
    if plan is None or any(x.data_ptr() % 16 for x in (*present, out)):
        return
    if given_out is None and not out.is_contiguous():
        return
    if len(_plans) >= _MOST_PLANS:
        _plans.clear()
    _looked_up()
    template = out.new_empty(1).expand(out.shape)
    extents = tuple(extent(x)[1] for x in (*present, out))
    _plans[_key(*tensors, given_out, settings)] = _Kept(plan, template, extents)
