"""Layers of torch models whose products name their precision. Importing this module imports torch."""

from __future__ import annotations

from typing import Any, Self

try:
    import torch
except ImportError:
    raise ImportError(
        "tritongemm.nn has layers of torch, which is not installed: pip install 'tritongemm[torch]'."
    ) from None

from tritongemm import modes
from tritongemm.api import linear
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
        """The layer with the parameters of another (shared, not copied), which stays as it is.

        Args:
            layer: A torch.nn.Linear.
            **options: `precision`, `activation`, `invariant`.
        """
        made = cls(layer.in_features, layer.out_features, layer.bias is not None, device="meta", **options)
        made.weight, made.bias = layer.weight, layer.bias
        made.train(layer.training)
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
        return f"{super().extra_repr()}, precision={self.precision}{activation}"


def replace_linears(model: torch.nn.Module, **options: Any) -> torch.nn.Module:
    """Puts `Linear` in the place of every torch.nn.Linear of a model, with the same parameters.

    Subclasses of torch.nn.Linear may do other things and are left as they are.

    Args:
        model: The model, changed in place.
        **options: `precision`, `invariant`.

    Returns:
        The model; its replacement if it is a torch.nn.Linear itself.
    """
    if type(model) is torch.nn.Linear:
        return Linear.of(model, **options)
    for name, child in list(model.named_children()):
        replaced = replace_linears(child, **options)
        if replaced is not child:
            setattr(model, name, replaced)
    return model
