"""Run a plain PyTorch expression in FpSan payloads, as the reference that a Triton kernel is compared with."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from fpsan_tools import algebra
from fpsan_tools.algebra import Algebra, Payload
from fpsan_tools.domains.formats import FORMATS
from fpsan_tools.exceptions import FpsanError, UnsupportedOperation

try:
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_flatten, tree_map

    from fpsan_tools.torch_rules import CARRIERS, FLOATS, INTO_FLOATS, MOVES, RULES, bits_of, wide_type
except ImportError as error:
    raise FpsanError("FpSanTorch needs torch: pip install 'fpsan-tools[torch]'") from error

Tensor: TypeAlias = torch.Tensor


class FpSanTorch(TorchDispatchMode):
    """Inside this block, float operations of PyTorch compute FpSan payloads.

    Tensors stay ordinary tensors: their bits are the unembedded payloads, exactly what a sanitised kernel loads and
    stores, so results are compared with a kernel's output bit for bit. Look at them outside of the block.

    Every operation follows Triton's operation of the same name: 16-bit sums, products and reductions stay 16 bits wide
    (`x.sum(dtype=torch.float32)` widens first, as `tl.sum(x.to(tl.float32))` does); division and the special functions
    work in fp32 on 16-bit operands; matrix products accumulate in fp32; softmax, the norms, the losses and
    scaled_dot_product_attention compute in fp32 and narrow their result. Functions that Triton has in libdevice only
    (tanh, log1p, pow, ...) are tags of the libdevice symbol. Comparisons, abs, sorting and conversions to and from
    integers see the carriers, as in Triton. Masks of scaled_dot_product_attention multiply, since exp(-inf) is an
    ordinary payload.

    Whatever has no rule is decomposed into operations that have one, or refused.

    Args:
        version: version of the algebra ("3.8", "3.9", "3.9-homomorphic"), None for the installed Triton's.

    Attributes:
        algebra: the payload algebra.
        operations: how often each operation was computed in payloads.
        unsanitised: how often each operation saw carriers instead.

    Raises:
        UnsupportedOperation: within the block, for a float operation without a rule.
    """

    def __init__(self, version: str | Algebra | None = None) -> None:
        super().__init__()
        self.algebra = algebra.get(version)
        self.operations: Counter[str] = Counter()
        self.unsanitised: Counter[str] = Counter()
        self._functions = _Functions()

    def __enter__(self) -> FpSanTorch:
        self._functions.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        try:
            super().__exit__(*details)
        finally:
            self._functions.__exit__(*details)

    def __torch_dispatch__(
        self, func: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func.name().removeprefix("aten::")
        tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)]
        if any(x.is_complex() for x in tensors):
            raise self.refusal(name, "complex numbers have no payloads")
        floats = any(x.dtype in FLOATS for x in tensors)
        rule = RULES.get(name)
        if rule is not None and (floats or name in INTO_FLOATS):
            self.operations[name] += 1
            return rule(self, *args, **kwargs)
        if not floats:
            return func(*args, **kwargs)
        if func.is_view or name in MOVES:
            return func(*self._of_one_type(args), **kwargs)
        if name in CARRIERS:
            self.unsanitised[name] += 1
            return func(*args, **kwargs)
        return self._through_others(func, name, args, kwargs)

    def _through_others(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """In-place and out= forms by the functional form, everything else by PyTorch's decomposition."""
        base, _, overload = name.partition(".")
        out = kwargs.get("out")
        if base.endswith("_") and not base.endswith("__"):
            functional = _overload(base[:-1], overload or "default")
            if functional is not None:
                with self.dispatching():
                    return args[0].copy_(functional(*args, **kwargs))
        elif isinstance(out, torch.Tensor):
            functional = _overload(base, overload.removesuffix("out").removesuffix("_"), "Tensor", "default")
            if functional is not None:
                with self.dispatching():
                    result = functional(*args, **{k: v for k, v in kwargs.items() if k != "out"})
                    return out.resize_(result.shape).copy_(result)
        decomposition = torch._decomp.decomposition_table.get(func)
        with self.dispatching():
            if decomposition is not None:
                return decomposition(*args, **kwargs)
            result = func.decompose(*args, **kwargs)
        if result is NotImplemented:
            raise self.refusal(name, "it has no payload rule and no decomposition into operations that have one")
        return result

    @contextmanager
    def dispatching(self) -> Iterator[None]:
        """Within a dispatched operation the mode is off; here it is on again."""
        TorchDispatchMode.__enter__(self)
        try:
            yield
        finally:
            TorchDispatchMode.__exit__(self, None, None, None)

    def refusal(self, name: str, reason: str) -> UnsupportedOperation:
        """The error for an operation without a rule, with the line of the caller's code that it comes from.

        Args:
            name: the operation's name in ATen.
            reason: why it is refused, and what to do instead.

        Returns:
            The exception, to be raised by the caller.
        """
        frame = sys._getframe()
        while frame.f_back is not None and (
            frame.f_code.co_filename == __file__ or "torch" in frame.f_globals.get("__name__", "").split(".")
        ):
            frame = frame.f_back
        return UnsupportedOperation(
            "torch expression", frame.f_code.co_filename, frame.f_lineno, f"aten.{name}", reason
        )

    # -----------------------------------------------------------------------------------------------------------------
    # Tensors and payloads

    def payload(self, x: Any, dtype: Any) -> Payload:
        """Payloads of a tensor or number in a float type.

        Args:
            x: a tensor or a number; floats of other types are cast, integers converted.
            dtype: the torch type.

        Returns:
            Payloads of the type's width, in the shape of x.
        """
        kind = FLOATS[dtype]
        if isinstance(x, torch.Tensor) and x.dtype in FLOATS:
            return self.algebra.cast(self.algebra.embed(bits_of(x), FLOATS[x.dtype]), kind)
        if isinstance(x, torch.Tensor):
            return self.algebra.embed(bits_of(x.to(dtype)), kind)
        pattern = FORMATS[kind.mlir].encode(np.array(x, np.float64))
        return self.algebra.embed(np.asarray(pattern).astype(kind.unsigned), kind)

    def tensor(self, payload: Payload, dtype: Any, like: Tensor) -> Tensor:
        """The tensor whose carriers are the payloads.

        Args:
            payload: payloads of any float type.
            dtype: the torch type that they are cast to.
            like: a tensor on the device where the new one shall be.

        Returns:
            A new tensor in the shape of the payloads.
        """
        kind = FLOATS[dtype]
        bits = self.algebra.unembed(self.algebra.cast(payload, kind), kind)
        carrier = torch.from_numpy(np.array(bits, order="C").view(kind.signed))
        return carrier.view(dtype).to(like.device)

    def _of_one_type(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Cast float tensors of several types to the type they promote to, so that moving them converts nothing."""
        leaves, _ = tree_flatten(args)
        found = [x for x in leaves if isinstance(x, torch.Tensor) and x.dtype in FLOATS]
        kinds = {x.dtype for x in found if x.dim() > 0} or {x.dtype for x in found}
        if len({x.dtype for x in found}) < 2:
            return args
        result = next(iter(kinds))
        for kind in kinds:
            result = torch.promote_types(result, kind)

        def cast(x: Any) -> Any:
            if isinstance(x, torch.Tensor) and x.dtype in FLOATS and x.dtype != result:
                return self.tensor(self.payload(x, result), result, x)
            return x

        converted: tuple[Any, ...] = tree_map(cast, args)
        return converted


def _overload(base: str, *overloads: str) -> Any:
    """The operation `aten.<base>` in the first of the overloads that this torch has, or None."""
    packet = getattr(torch.ops.aten, base, None)
    known = [] if packet is None else [overload for overload in overloads if overload in packet.overloads()]
    return getattr(packet, known[0]) if known else None


# ---------------------------------------------------------------------------------------------------------------------
# Functions that PyTorch would lower to fused kernels


class _Functions(TorchFunctionMode):
    """Replaces functions by expressions of operations that have rules, above autograd."""

    def __torch_function__(
        self, func: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        replacement = _REPLACED.get(func)
        return (replacement or func)(*args, **(kwargs or {}))


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attention in the wide type with masks that multiply: softmax(q k^T * scale) v."""
    if dropout_p:
        raise FpsanError(f"scaled_dot_product_attention: dropout_p={dropout_p} is random; compare with dropout_p=0")
    dtype = query.dtype
    wide = wide_type(dtype)
    q, k, v = (x.to(wide) for x in (query, key, value))
    if enable_gqa:
        k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    keep = None
    if is_causal:
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    elif attn_mask is not None and attn_mask.dtype == torch.bool:
        keep = attn_mask
    elif attn_mask is not None:
        keep = attn_mask != -float("inf")
        scores = scores + torch.where(keep, attn_mask, 0.0).to(wide)
    masked = scores if keep is None else torch.where(keep, scores, -float("inf"))
    weights = torch.exp(scores - masked.amax(-1, keepdim=True).detach())
    if keep is not None:
        weights = torch.where(keep, weights, 0.0)
    return ((weights @ v) / weights.sum(-1, keepdim=True)).to(dtype)


_REPLACED: dict[Any, Callable[..., Any]] = {torch.nn.functional.scaled_dot_product_attention: _attention}
