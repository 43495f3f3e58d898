"""Summation orders of fp32 dot products: what they guarantee, and what bits they give.

An order is five facts: how many lanes sum side by side, whether a product is rounded before it is added, after how many
products a running sum is promoted to an outer one, in which order the lanes are joined, and to what multiple K is
padded with zeros. A serial chain has one lane. Bound and simulation follow from these facts, for every kernel that has
such an order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import numfmt
from numfmt.arithmetic import fma_float32
from tritongemm.errors import UsageError
from tritongemm.matrices import DTYPES

__all__ = ["SummationOrder"]

Array = np.ndarray[Any, np.dtype[Any]]
_FP32 = DTYPES["fp32"]
# Lanes of all outputs that are simulated at once: few enough for the temporaries to stay in the cache.
_SIMULATED_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class SummationOrder:
    """The order in which one output's products are added up in fp32.

    Attributes:
        lanes: Running sums side by side, a power of two; lane l takes the products l, l + lanes, l + 2·lanes, ...
        tree: How the lanes are joined: for each mask, x[i] = x[i] + x[i ^ mask] for all lanes at once; the result is
            x[0].
        fused: Whether a product enters the sum unrounded (fused multiply-add).
        promote: After so many products per lane the running sum is added to an outer one and restarts at 0; None:
            never.
        pad: K is padded with zero products to a multiple of this (zeros cannot change a sum, but turn -0 into +0).
        per_step: Whether the lanes are joined after each step, and their sum added to a single running sum, instead of
            once at the end; products are then rounded.

    Raises:
        UsageError: The lanes are no power of two, the tree does not join them, or `per_step` goes with `fused` or
            `promote`.
    """

    lanes: int = 1
    tree: tuple[int, ...] = ()
    fused: bool = True
    promote: int | None = None
    pad: int = 1
    per_step: bool = False

    def __post_init__(self) -> None:
        if self.per_step and (self.fused or self.promote is not None):
            raise UsageError("per_step: lanes joined at each step hold rounded products and are not promoted.")
        if self.lanes < 1 or self.lanes & (self.lanes - 1):
            raise UsageError(f"lanes: {self.lanes} is not a power of two.")
        if sorted(self.tree) != [1 << i for i in range(self.lanes.bit_length() - 1)]:
            raise UsageError(
                f"tree: {self.tree} does not join {self.lanes} lanes; each power of two below it must come once."
            )

    @classmethod
    def chain(cls, *, fused: bool = True, promote: int | None = None, pad: int = 1) -> SummationOrder:
        """One running sum over k = 0, 1, 2, ..."""
        return cls(fused=fused, promote=promote, pad=pad)

    @classmethod
    def lanes_then_tree(cls, lanes: int, *, far_first: bool = False, fused: bool = True) -> SummationOrder:
        """Strided lanes joined by a balanced tree, neighbours first or (`far_first`) halves first."""
        masks = [1 << i for i in range(lanes.bit_length() - 1)]
        return cls(lanes=lanes, tree=tuple(reversed(masks) if far_first else masks), fused=fused, pad=lanes)

    @classmethod
    def tree_per_step(cls, lanes: int, *, far_first: bool = False, fused: bool = False) -> SummationOrder:
        """`lanes` products at a time, joined by a balanced tree and added to one running sum."""
        masks = [1 << i for i in range(lanes.bit_length() - 1)]
        return cls(lanes, tuple(reversed(masks) if far_first else masks), fused, pad=lanes, per_step=True)

    @classmethod
    def lanes_in_layout(cls, lanes: int, warps: int, contiguous: int, *, fused: bool = True) -> SummationOrder:
        """Strided lanes joined as Triton 3.9 joins a one-dimensional blocked layout on a GPU.

        Elements are dealt to registers, then to the 32 lanes of a warp, then to warps, then to registers again.
        `tl.sum` joins registers (neighbours first), then lanes and then warps (far ones first).

        Args:
            lanes: Elements of the vector.
            warps: Warps of the program.
            contiguous: Elements that a thread loads at once: 4 for fp32 operands when the stride between rows is known
                to be divisible by 16 and the one between elements to be 1, otherwise 1.
            fused: Whether products are fused into the running sums.
        """
        own = min(contiguous, lanes, max(1, lanes // (32 * warps)))
        registers: list[int] = []
        threads: list[int] = []
        between: list[int] = []
        at = 1
        for masks, size in ((registers, own), (threads, 32), (between, warps)):
            for _ in range(size.bit_length() - 1):
                if at < lanes:  # Beyond that, threads hold copies, which take no part.
                    masks.append(at)
                at *= 2
        while at < lanes:
            registers.append(at)
            at *= 2
        return cls(lanes=lanes, tree=(*registers, *threads[::-1], *between[::-1]), fused=fused, pad=lanes)

    def height(self, K: int) -> int:
        """The most roundings that any product of a sum of K passes through.

        Args:
            K: Number of products.

        Returns:
            n, for the bound gamma_n·sum|p| (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).
        """
        steps = -(-K // self.lanes)
        if self.per_step:
            steps = max(0, steps - 1)  # The first addition is to 0.
        if self.promote is not None and steps > self.promote:
            # A first addition to a sum that is still 0 rounds nothing.
            steps = self.promote + -(-steps // self.promote) - 1
        return steps + len(self.tree) + (0 if self.fused else 1)

    def relative_bound(self, K: int) -> float:
        """gamma_n of the order's height n: the largest error in units of sum|p|, underflow aside."""
        return float(numfmt.gamma(self.height(K), _FP32.unit_roundoff)) if K else 0.0

    def describe(self) -> str:
        """The order in a few words."""
        step = "fused multiply-add" if self.fused else "products rounded, then added"
        if self.per_step:
            text = (
                f"{self.lanes} products at a time, joined by a tree ({self._tree_text()}) and added to one running sum"
            )
        elif self.lanes == 1:
            text = f"one serial chain over k ({step})"
        else:
            text = f"{self.lanes} strided lanes ({step}), joined by a tree ({self._tree_text()})"
        if self.promote is not None:
            text += f", restarted every {self.promote} products and added to an outer sum"
        return text

    def _tree_text(self) -> str:
        ascending = tuple(sorted(self.tree))
        if self.tree == ascending:
            return "neighbours first"
        if self.tree == ascending[::-1]:
            return "halves first"
        return "distances " + " ".join(map(str, self.tree))

    def as_dict(self) -> dict[str, Any]:
        """The facts, for JSON."""
        return {
            "lanes": self.lanes,
            "tree": list(self.tree),
            "fused": self.fused,
            "promote": self.promote,
            "pad": self.pad,
            "per_step": self.per_step,
            "text": self.describe(),
        }

    def simulate(self, a: Array, b: Array) -> Array:
        """The product of two matrices with every dot product summed in this order, each operation rounded to fp32.

        Args:
            a: (M, K) float32 matrix.
            b: (K, N) float32 matrix.

        Returns:
            The (M, N) float32 product.
        """
        M, N = a.shape[0], b.shape[1]
        c = np.empty((M, N), np.float32)
        rows = max(1, _SIMULATED_AT_ONCE // max(1, N * self.lanes))
        bt = np.ascontiguousarray(b.T)
        with np.errstate(all="ignore"):
            for first in range(0, M, rows):
                c[first : first + rows] = self._simulate(np.asarray(a[first : first + rows]), bt)
        return c

    def _simulate(self, a: Array, bt: Array) -> Array:
        M, N, K, L = a.shape[0], bt.shape[0], a.shape[1], self.lanes
        length = -(-K // max(self.pad, L)) * max(self.pad, L)
        x = np.zeros((M, 1, length), np.float32)
        y = np.zeros((1, N, length), np.float32)
        x[:, 0, :K] = a
        y[0, :, :K] = bt
        # Steps of the lanes first in memory: every step then reads one contiguous slice.
        x = np.ascontiguousarray(x.reshape(M, 1, length // L, L).transpose(2, 0, 1, 3))
        y = np.ascontiguousarray(y.reshape(1, N, length // L, L).transpose(2, 0, 1, 3))
        inner = np.zeros((M, N, L), np.float32)
        outer = np.zeros((M, N, L), np.float32)
        for step in range(length // L):
            if self.per_step:
                inner[..., 0] += self._joined(x[step] * y[step])
            elif self.fused:
                inner = fma_float32(x[step], y[step], inner)
            else:
                inner += x[step] * y[step]
            if self.promote is not None and (step + 1) % self.promote == 0:
                outer += inner
                inner = np.zeros_like(inner)
        if self.promote is not None:
            outer += inner
            inner = outer
        return inner[..., 0] if self.per_step else self._joined(inner)

    def _joined(self, lanes: Array) -> Array:
        """The lanes, on the last axis, joined by the tree."""
        index = np.arange(self.lanes)
        for mask in self.tree:
            lanes = lanes + lanes[..., index ^ mask]
        return lanes[..., 0]

    def unfused(self) -> SummationOrder:
        """The same order with every product rounded first."""
        return replace(self, fused=False)
