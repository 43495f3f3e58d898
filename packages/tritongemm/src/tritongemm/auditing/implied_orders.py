"""Orders of summation beyond a single chain or lanes: parts of K that are added up, matrix units, precision modes.

All of them answer what `SummationOrder` answers: a description, the most roundings a product passes through, the bound,
and the bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import numfmt
from tritongemm.accuracy import BoundedOrder
from tritongemm.orders import SummationOrder
from tritongemm.promises import underflow, unit_underflow

Array = np.ndarray[Any, np.dtype[Any]]
_NO_BOUND = 1e30
# The most parts that cuBLAS was seen to cut K into.
_LIBRARY_PARTS = 64
_U = numfmt.FP32.unit_roundoff


class Order(BoundedOrder, Protocol):
    """An order of summation whose bits are known too."""

    def simulate(self, a: Array, b: Array) -> Array:
        """The (M, N) product of (M, K) and (K, N) float32 values, float32."""

    def as_dict(self) -> dict[str, Any]:
        """The facts, for JSON."""


@dataclass(frozen=True)
class SplitOrder:
    """K cut into parts, each summed by itself, and the parts' sums added up: split-K.

    Attributes:
        parts: Number of parts.
        inner: The order within a part.
        grain: Parts begin at multiples of this (a kernel's BLOCK_K).
        interleaved: Part p takes the grains p, p + parts, p + 2·parts, ... instead of one contiguous range.
        tree: Sums of parts are joined in a balanced tree, neighbours first, instead of one after the other.
    """

    parts: int
    inner: SummationOrder
    grain: int = 1
    interleaved: bool = False
    tree: bool = False

    def cuts(self, K: int) -> list[Array]:
        """The k of every part."""
        k = np.arange(K)
        grains = -(-K // self.grain)
        if self.interleaved:
            return [k[(k // self.grain) % self.parts == p] for p in range(self.parts)]
        per = -(-grains // self.parts) * self.grain
        return [k[p * per : (p + 1) * per] for p in range(self.parts) if p * per < max(K, 1)]

    def height(self, K: int) -> int:
        """See `Order`."""
        cuts = self.cuts(K)
        joins = math.ceil(math.log2(len(cuts))) if self.tree else len(cuts) - 1
        return max(self.inner.height(len(c)) for c in cuts) + joins

    def relative_bound(self, K: int) -> float:
        """See `Order`."""
        return float(numfmt.gamma(self.height(K), _U)) if K else 0.0

    def describe(self) -> str:
        """See `Order`."""
        how = "a tree" if self.tree else "left to right"
        what = f"interleaved parts (by {self.grain})" if self.interleaved else "contiguous parts"
        return f"{self.parts} {what} of K, each {self.inner.describe()}, added up {how}"

    def simulate(self, a: Array, b: Array) -> Array:
        """See `Order`."""
        parts = ((np.ascontiguousarray(a[:, k]), np.ascontiguousarray(b[k])) for k in self.cuts(a.shape[1]))
        sums = [self.inner.simulate(x, y) for x, y in parts]
        with np.errstate(all="ignore"):
            while self.tree and len(sums) > 1:
                pairs = [sums[i] + sums[i + 1] for i in range(0, len(sums) - 1, 2)]
                sums = pairs + sums[len(pairs) * 2 :]
            total = sums[0]
            for more in sums[1:]:
                total = total + more
        return np.asarray(total, np.float32)

    def as_dict(self) -> dict[str, Any]:
        """See `Order`."""
        return {
            "parts": self.parts, "interleaved": self.interleaved, "grain": self.grain,
            "joined": "tree" if self.tree else "sequence", "inner": self.inner.as_dict(), "text": self.describe(),
        }  # fmt: skip


@dataclass(frozen=True)
class UnitOrder:
    """What a matrix unit of Hopper does with a schedule of numfmt: a tensor core's bits.

    Attributes:
        schedule: A `numfmt.matrix_units` schedule.
        inputs: Format of the operands, "fp16", "bf16", ...
    """

    schedule: Any
    inputs: str

    def _program(self, K: int) -> Any:
        from numfmt.matrix_units.explain import request_for

        depth = 16 if self.inputs in ("fp16", "bf16") else 32
        padded = -(-max(K, 1) // depth) * depth
        return self.schedule.program(request_for(padded, self.inputs, "hopper", "fp32", False, (16, 16)))

    def _cost(self, K: int) -> tuple[Any, Any]:
        from numfmt.matrix_units.explain import cost

        program = self._program(K)
        return program, max((cost(r.node, program.unit) for r in program.regions), key=lambda c: c.bound)

    def height(self, K: int) -> int:
        """Steps of the unit and additions: see `Order`."""
        _, found = self._cost(K)
        return int(found.steps + found.additions)

    def relative_bound(self, K: int) -> float:
        """The unit's steps cut products and sums toward zero: see `numfmt.matrix_units.explain`."""
        program, found = self._cost(K)
        first = float(found.bound + program.omitted)
        return first * (1 + first) if K else 0.0

    def error_bound(self, K: int, magnitude: Array, row: Array, column: Array) -> Array:
        """The largest errors, of subnormal operands and sums too: see `tritongemm.promises`.

        Args:
            K: Number of products.
            magnitude: sum|p|, float64.
            row: Largest magnitudes of A's rows, to be broadcast.
            column: ... of B's columns.
        """
        relative, unit = self.relative_bound(K), self._program(K).unit
        steps = -(-K // unit.depth) * (unit.depth // unit.products)
        absolute, subnormal = unit_underflow(unit, steps, unit.multiplied_format(self.inputs))
        lost = (absolute + subnormal * (row + column)) * (1 + relative)
        return np.asarray(relative * magnitude + lost + underflow(1 + relative, K, numfmt.FP32))

    def probable(self, K: int) -> float:
        """Cutting has a direction, so nothing cancels: the bound itself."""
        return self.relative_bound(K)

    def describe(self) -> str:
        """See `Order`."""
        return f"the {self.inputs} tensor core of Hopper, schedule {self.schedule.call()}"

    def simulate(self, a: Array, b: Array) -> Array:
        """See `Order`."""
        from numfmt import matrix_units

        with np.errstate(all="ignore"):
            made = matrix_units.matmul(a, b, unit="hopper", inputs=self.inputs, schedule=self.schedule, pad_k=True)
        return np.asarray(made, np.float32) + np.float32(0)

    def as_dict(self) -> dict[str, Any]:
        """See `Order`."""
        return {"unit": "hopper", "inputs": self.inputs, "schedule": self.schedule.call(), "text": self.describe()}


@dataclass(frozen=True)
class ModeOrder:
    """A precision mode of this package: what it promises, and the bits an H200 gives.

    Attributes:
        mode: Its name.
        operands: Type of the operands.
    """

    mode: str
    operands: str

    def _mode(self) -> Any:
        from tritongemm import modes

        return modes.get(self.mode)

    def height(self, K: int) -> int:
        """The bound in roundings of fp32: see `Order`."""
        return math.ceil(min(self.relative_bound(K) / _U, 2.0**53))

    def relative_bound(self, K: int) -> float:
        """See `Order`; none for modes whose error depends on rows and columns rather than on sum|p|."""
        promise = self._mode().promise(K, self.operands)
        return _NO_BOUND if promise.scaled else float(promise.relative_bound)

    def error_bound(self, K: int, magnitude: Array, row: Array, column: Array) -> Array:
        """The mode's promise: see `UnitOrder.error_bound`."""
        promise = self._mode().promise(K, self.operands)
        return np.asarray(promise.bound(magnitude) + promise.of_sizes(row, column))

    def probable(self, K: int) -> float:
        """What errors stay below if roundings are independent, in units of sum|p|."""
        return float(self._mode().promise(K, self.operands).probabilistic)

    def describe(self) -> str:
        """See `Order`."""
        return f"precision {self.mode}"

    def simulate(self, a: Array, b: Array) -> Array:
        """See `Order`."""
        with np.errstate(all="ignore"):
            made = self._mode().predict(a, b, types=(self.operands, self.operands))
        return np.asarray(made, np.float32)

    def as_dict(self) -> dict[str, Any]:
        """See `Order`."""
        return {"mode": self.mode, "operands": self.operands, "text": self.describe()}


@dataclass(frozen=True)
class AnyOrder:
    """Whatever the order, on CUDA cores or on a matrix unit: the bound only.

    Attributes:
        operands: Type of the operands.
    """

    operands: str = "fp32"

    def height(self, K: int) -> int:
        """K roundings: see `Order`."""
        return SummationOrder.chain(fused=False).height(K)

    def relative_bound(self, K: int) -> float:
        """The larger of gamma_n of the height, and of a matrix unit's chain for 16-bit operands."""
        own = SummationOrder.chain(fused=False).relative_bound(K)
        if self.operands not in ("fp16", "bf16") or not K:
            return own
        return max(own, _chain_on_unit(self.operands).relative_bound(K))

    def error_bound(self, K: int, magnitude: Array, row: Array, column: Array) -> Array:
        """The larger of the two: see `UnitOrder.error_bound`."""
        own = self.relative_bound(K)
        bound = np.asarray(own * magnitude + underflow(1 + own, K, numfmt.FP32))
        if self.operands not in ("fp16", "bf16") or not K:
            return bound
        return np.maximum(bound, _chain_on_unit(self.operands).error_bound(K, magnitude, row, column))

    def describe(self) -> str:
        """See `Order`."""
        return "any order of summation"

    def simulate(self, a: Array, b: Array) -> Array:
        """See `Order`; there is no order to simulate."""
        raise NotImplementedError

    def as_dict(self) -> dict[str, Any]:
        """See `Order`."""
        return {"text": self.describe()}


def _chain_on_unit(operands: str) -> UnitOrder:
    from numfmt.matrix_units import chain

    return UnitOrder(chain(), operands)


def split_orders(parts: list[int], grains: list[int]) -> list[SplitOrder]:
    """Split-K orders of kernels: chains in contiguous or interleaved parts, added in sequence or in a tree.

    Args:
        parts: Numbers of parts to try.
        grains: Depths of the kernel's blocks.
    """
    made = []
    for count in parts:
        for grain in grains:
            for fused in (True, False):
                inner = SummationOrder.chain(fused=fused, pad=grain)
                trees = (False, True) if count > 2 else (False,)  # Two sums have one order.
                for interleaved in (False, True):
                    made += [SplitOrder(count, inner, grain, interleaved, tree) for tree in trees]
    return made


def library_split_orders() -> list[SplitOrder]:
    """Split-K orders of cuBLAS's SGEMM: up to 64 parts, contiguous or interleaved.

    Measured on an H200 with cuBLAS 13.0: parts are multiples of 8, of 4 where K is odd (512x768x2000 in 11 parts of
    184, 100x100x777 in 12 of 68), or part p takes every p-th step of 8 (300x200x500 in 7).
    """
    return [
        SplitOrder(parts, SummationOrder.chain(pad=grain), grain, interleaved)
        for parts in range(2, _LIBRARY_PARTS + 1)
        for grain, interleaved in ((8, False), (4, False), (8, True))
    ]


def unit_orders(operands: str, steps: list[int]) -> list[UnitOrder]:
    """What tensor cores do with 16-bit operands: one chain, chains promoted at the kernel's steps, split-K.

    Args:
        operands: "fp16" or "bf16".
        steps: Depths of the kernel's blocks.
    """
    from numfmt.matrix_units import chain, promote, split_k, tl_dot

    schedules: list[Any] = [chain()]
    whole = [s for s in steps if s % 16 == 0]
    for step in whole or [32, 64, 128]:
        schedules += [tl_dot(step, "acc="), tl_dot(step, "+="), promote(step)]
    for parts in (2, 3, 4, 8):
        schedules += [split_k(parts, chain(), granularity=g) for g in dict.fromkeys([*whole, 16])]
    return [UnitOrder(s, operands) for s in schedules]


def mode_orders(operands: str) -> list[ModeOrder]:
    """The precision modes that take these operands.

    Args:
        operands: Their type.
    """
    from tritongemm import modes

    return [ModeOrder(name, operands) for name, mode in modes.MODES.items() if operands in mode.arithmetic]
