"""Layers of torch models whose products name their precision. Importing this module imports torch."""

from __future__ import annotations

import copy
from typing import Any, Self

try:
    import torch
except ImportError:
    raise ImportError(
        "tritongemm.nn has layers of torch, which is not installed: pip install 'tritongemm[torch]'."
    ) from None

from tritongemm import modes
from tritongemm.api import linear
from tritongemm.errors import UsageError
from tritongemm.operands import check_activation, check_flag


class Linear(torch.nn.Linear):  # type: ignore[misc]
    """A `torch.nn.Linear` whose product is `tritongemm.linear`: same parameters, same state dict.

    Args:
        in_features: K.
        out_features: N.
        bias: Whether there is a bias.
        precision: Name of the mode.
        activation: "relu", "gelu" or "silu", fused into the product; None for none.
        invariant: Whether a row's bits must not depend on how many others come along.
        device: See torch.nn.Linear.
        dtype: See torch.nn.Linear.

    Raises:
        UsageError: No such mode or activation, or `invariant` is neither True nor False.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        precision: str = "ieee",
        activation: str | None = None,
        invariant: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        modes.get(precision)  # what is wrong is said here, not at the first call
        check_activation(activation)
        check_flag("invariant", invariant)
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.precision, self.activation, self.invariant = precision, activation, invariant

    @classmethod
    def of(cls, layer: torch.nn.Linear, **options: Any) -> Self:
        """The layer with the parameters, buffers and hooks of another (shared, not copied), which stays as it is.

        Args:
            layer: A torch.nn.Linear. What hooks make of its weight, as weight norm and pruning do, is made here too.
            **options: `precision`, `activation`, `invariant`.

        Raises:
            UsageError: It is no torch.nn.Linear, or its `forward` was replaced by something else.
        """
        if not isinstance(layer, torch.nn.Linear):
            raise UsageError(f"layer: a torch.nn.Linear, given {type(layer).__name__}.")
        if _does_otherwise(layer):
            raise UsageError("layer: its forward was replaced, which a layer made of it would not do; undo that first.")
        made = cls(layer.in_features, layer.out_features, layer.bias is not None, device="meta", **options)
        own = {name: vars(made)[name] for name in ("precision", "activation", "invariant")}
        has = {name: copy.copy(x) if name in _TABLES else x for name, x in vars(layer).items() if name != _COMPILED}
        made.__dict__.update(has | own)
        return made

    def forward(self, x: Any) -> Any:
        """activation(x weightᵀ + bias)."""
        return linear(
            x,
            self.weight,
            self.bias,
            activation=self.activation,
            precision=self.precision,
            invariant=self.invariant,
        )

    def extra_repr(self) -> str:
        """What torch prints about the layer."""
        activation = "" if self.activation is None else f", activation={self.activation}"
        invariant = "" if self.invariant else ", invariant=False"
        return f"{super().extra_repr()}, precision={self.precision}{activation}{invariant}"


# A module's tables of what it has; those of its hooks are shared, so that handles remove them.
_TABLES = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
# The program that `module.compile()` made of the module's own forward.
_COMPILED = "_compiled_call_impl"


def _does_otherwise(layer: torch.nn.Linear) -> bool:
    """Whether a layer has a forward of its own, as libraries give it that move weights between devices."""
    return "forward" in vars(layer)


def replace_linears(model: torch.nn.Module, **options: Any) -> torch.nn.Module:
    """Puts `Linear` in the place of every torch.nn.Linear of a model, with the same parameters, buffers and hooks.

    A layer that is in several places stays one layer. Subclasses of torch.nn.Linear, and layers whose `forward` was
    replaced, may do other things and are left as they are.

    Args:
        model: The model, changed in place.
        **options: `precision`, `invariant`.

    Returns:
        The model; its replacement if it is a torch.nn.Linear itself.
    """
    return _replaced(model, options, {})


def _replaced(
    module: torch.nn.Module, options: dict[str, Any], done: dict[int, tuple[torch.nn.Module, torch.nn.Module]]
) -> torch.nn.Module:
    """What stands for a module; `done` has the modules seen so far and what stands for them, by the modules' ids."""
    if id(module) in done:
        return done[id(module)][1]
    if type(module) is torch.nn.Linear and not _does_otherwise(module):
        made = Linear.of(module, **options)
        done[id(module)] = module, made
        return made
    done[id(module)] = module, module
    for name, child in list(module._modules.items()):
        if child is not None and (made := _replaced(child, options, done)) is not child:
            setattr(module, name, made)
    return module
