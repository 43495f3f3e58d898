"""What follows a product, in float64: activation(alpha·product + beta·c + bias), and what mistakes in it would give.

The mistakes are those that a test meets: a part that is missing, is there twice or has the wrong sign, a vector along
the wrong axis, another activation, or one that comes too early.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def _relu(x: Array) -> Array:
    return np.where(x <= 0, 0.0, x)


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.asarray(np.frompyfunc(math.erf, 1, 1)(x * math.sqrt(0.5)), np.float64)))


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def _gelu_sigmoid(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-1.702 * x)))


def _silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


@dataclass(frozen=True)
class Activation:
    """A function that is applied to finished sums.

    Attributes:
        of: The function, of float64 arrays.
        slope: The largest magnitude of its derivative: how much it can enlarge an error of its argument.
        roundings: What computing it may cost, in units of u·|argument|.
    """

    of: Callable[[Array], Array]
    slope: float
    roundings: float


# The slopes of gelu and silu are largest at sqrt(2) and at 2.3994. 1 + erf(x) cancels where x is negative, so what erf
# and exp cost, a few ulps each, counts relative to the argument, not to the result.
ACTIVATIONS = {
    "relu": Activation(_relu, 1.0, 0.0),
    "gelu": Activation(_gelu, 1.13, 8.0),
    "silu": Activation(_silu, 1.1, 8.0),
}
_OTHERS = {
    **{name: found.of for name, found in ACTIVATIONS.items()},
    "the tanh form of gelu": _gelu_tanh,
    "the sigmoid form of gelu": _gelu_sigmoid,
}


@dataclass(frozen=True)
class Added:
    """What is added to a product at some places: beta·c and the bias, apart or None."""

    c: Array | None
    bias: Array | None

    def total(self, beta: float = 1.0, bias: float = 1.0) -> Any:
        """Their sum, each with a factor."""
        parts = [f * x for f, x in ((beta, self.c), (bias, self.bias)) if x is not None and f]
        return sum(parts[1:], parts[0]) if parts else 0.0


@dataclass(frozen=True)
class After:
    """What follows some outputs' sums.

    Attributes:
        alpha: Factor of the product.
        beta: Factor of c, which `added` contains already.
        added: beta·c and the bias at these outputs.
        along_rows: The bias as it would be if it were added to columns; None if it has too few numbers for that.
        activation: Its name, or None.
    """

    alpha: float
    beta: float
    added: Added
    along_rows: Array | None
    activation: str | None

    @property
    def plain(self) -> bool:
        """Whether there is nothing but a product and its factor."""
        return self.added.c is None and self.added.bias is None and self.activation is None

    def __call__(self, product: Array) -> Array:
        """The results of products, (n,) or (n, any)."""
        added = self.added.total()
        if product.ndim == 2 and isinstance(added, np.ndarray):
            added = added[:, None]
        return self._activated(self.alpha * product + added)

    def _activated(self, x: Array) -> Array:
        return x if self.activation is None else ACTIVATIONS[self.activation].of(x)

    def mistakes(self, product: Array) -> Iterator[tuple[str, Array]]:
        """What common mistakes would give instead.

        Args:
            product: (n,) products, without alpha.

        Yields:
            A mistake as a clause, and the (n,) results it gives.
        """
        yield from ((text, self._activated(x)) for text, x in self._other_sums(product))
        right = self.alpha * product + self.added.total()
        if self.activation is not None:
            yield f"the activation ({self.activation}) is missing", right
            if not isinstance(self.added.total(), float):
                early = self._activated(self.alpha * product) + self.added.total()
                yield f"{self.activation} was applied before what is added", early
        for name, function in _OTHERS.items():
            if name != self.activation:
                instead = f" instead of {self.activation}" if self.activation else ""
                yield f"{name} was applied{instead}", function(right)
        if not self.plain:
            yield "nothing was done to the product", product

    def _other_sums(self, product: Array) -> Iterator[tuple[str, Array]]:
        added, scaled = self.added, self.alpha * product
        if added.bias is not None:
            yield "the bias is missing", scaled + added.total(bias=0)
            if self.along_rows is not None:
                yield "the bias is added along the other axis", scaled + added.total(bias=0) + self.along_rows
            yield "the bias is added twice", scaled + added.total(bias=2)
            yield "the bias is subtracted", scaled + added.total(bias=-1)
        if added.c is not None:
            yield "c is missing", scaled + added.total(beta=0)
            if self.beta != 1:
                yield "beta is missing", scaled + added.total(beta=1 / self.beta)
            yield "c is subtracted", scaled + added.total(beta=-1)
        if self.alpha != 1:
            yield "alpha is missing", product + added.total()
            if not self.plain:
                yield "alpha multiplies what is added too", self.alpha * (product + added.total())
