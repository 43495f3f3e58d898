"""Part 3 of an audit: in which order does a kernel add, as far as its bits tell?

Summation orders that kernels are written in are simulated with every operation rounded to fp32; the one whose bits are
the kernel's, for every output that was tried, is its order. Long sums leave a wrong guess no chance: two orders of
thousands of products agree in a few per cent of the outputs only.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tritongemm.auditing.contestants import Contestant
from tritongemm.auditing.devices import Array, codes_of
from tritongemm.auditing.implied_orders import Order, library_split_orders, mode_orders, split_orders, unit_orders
from tritongemm.errors import Unavailable, UsageError
from tritongemm.orders import SummationOrder

# Outputs that candidates are tried on first: enough to tell them apart, few enough to try them all.
_FIRST_LOOK = 8
# Outputs where the kernels differ that an order is tried on: a product of this many rows and columns has them.
_CONTRASTED = 32
# 16-byte loads of fp32.
_VECTOR = 4
# Constants that say into how many parts K is cut.
_PARTS = re.compile(r"SPLIT.*|NUM_?SPLITS?|K_?SPLITS?|PARTS", re.IGNORECASE)


@dataclass(frozen=True)
class Identified:
    """The summation order of a kernel.

    Attributes:
        order: The order whose bits are the kernel's; None if no candidate's are.
        outputs: Outputs tried.
        closest: The candidate that agreed most.
        agreed: Outputs on which it agreed.
        tried: Number of candidates.
        contrasted: Further outputs tried, where the two kernels differ.
        refuted: Those that the order does not give.
    """

    order: Order | None
    outputs: int
    closest: Order
    agreed: int
    tried: int
    contrasted: int = 0
    refuted: int = 0


class Contrast:
    """Outputs where two kernels differ: they tell apart orders that a sample does not, above all after a rounding to a
    narrow type, where a few outputs in a hundred depend on the order at all."""

    def __init__(self) -> None:
        self._rows: list[Array] = []
        self._columns: list[Array] = []
        self._codes: dict[str, list[Any]] = {"A": [], "B": []}

    def add(self, a: Array, b: Array, first: Array, second: Array) -> None:
        """Keeps some of the outputs that differ.

        Args:
            a: (M, K) float32 operand.
            b: (K, N) float32 operand.
            first: Kernel A's (M, N) results as bit patterns.
            second: Kernel B's.
        """
        left = _CONTRASTED - len(self._rows)
        if left <= 0:
            return
        for place in np.flatnonzero(first != second)[:left]:
            i, j = divmod(int(place), first.shape[1])
            self._rows.append(a[i])
            self._columns.append(b[:, j])
            for letter, codes in (("A", first), ("B", second)):
                self._codes[letter].append(codes[i, j])

    def judge(self, letter: str, found: Identified, out: str) -> Identified:
        """What was found of a kernel, tried on these outputs too.

        Args:
            letter: The kernel's.
            found: What was found on others.
            out: Type of the results.
        """
        if found.order is None or not self._rows:
            return found
        made = codes_of(found.order.simulate(np.stack(self._rows), np.stack(self._columns, axis=1)), out)
        wrong = int((np.diagonal(made) != np.asarray(self._codes[letter], made.dtype)).sum())
        return replace(found, contrasted=len(self._rows), refuted=wrong)


def candidates(c: Contestant, operands: str = "fp32") -> list[Order]:
    """The summation orders that a kernel with these constants may have, likely ones first.

    Args:
        c: The kernel.
        operands: Type of the operands: tensor cores multiply 16-bit ones.
    """
    steps = c.steps()
    pads = [max(steps, default=1)]
    orders: list[Order] = []
    for fused in (True, False):
        orders.append(SummationOrder.chain(fused=fused, pad=pads[0]))
        orders += [SummationOrder.chain(fused=fused, promote=s, pad=s) for s in steps]
        for lanes in dict.fromkeys([*steps, 32, 64, 128, 256, 512, 1024]):
            for far_first in (False, True):
                orders.append(SummationOrder.lanes_then_tree(lanes, far_first=far_first, fused=fused))
            for contiguous in (_VECTOR, 1):
                warps = int(c.options.get("num_warps", 4))
                orders.append(SummationOrder.lanes_in_layout(lanes, warps, contiguous, fused=fused))
            orders.append(SummationOrder.tree_per_step(lanes, fused=False))
            orders.append(SummationOrder.tree_per_step(lanes, far_first=True, fused=False))
    if operands in ("fp16", "bf16"):
        orders += unit_orders(operands, steps)
    else:
        orders += mode_orders(operands)
    named = [v for k, v in c.constants.items() if _PARTS.fullmatch(k) and isinstance(v, int) and v > 1]
    grains = steps[-1:] or [16, 32, 64, 128]  # Of a function nothing is known.
    orders += split_orders(list(dict.fromkeys([*named, 2, 3, 4, 8])), list(dict.fromkeys([*grains, 1])))
    if c.function is not None and operands == "fp32":
        orders += library_split_orders()
    return list(dict.fromkeys(orders))


def identify(
    c: Contestant,
    a: Array,
    b: Array,
    codes: Array,
    types: tuple[str, str],
    hints: Iterable[Order] = (),
    deadline: float = math.inf,
) -> Identified:
    """Finds the summation order of a kernel from its bits.

    Args:
        c: The kernel.
        a: (M, K) float32 operand.
        b: (K, N) float32 operand.
        codes: The kernel's (M, N) results as bit patterns.
        types: Type of the operands and of the results.
        hints: Orders to try first.
        deadline: Time (`time.monotonic`) after which no further order is tried.

    Returns:
        What was found.
    """
    operands, out = types
    few_a, few_b, few = a[:_FIRST_LOOK], b[:, :_FIRST_LOOK], codes[:_FIRST_LOOK, :_FIRST_LOOK]
    best: tuple[int, int, Order] | None = None  # Outputs it agreed on, of how many, the order.
    tried = 0
    for order in dict.fromkeys([*hints, *candidates(c, operands)]):
        if tried and time.monotonic() > deadline:
            break
        try:
            made = codes_of(order.simulate(few_a, few_b), out)
        except (UsageError, Unavailable):  # A mode that does not take this.
            continue
        tried += 1
        same, of = int((made == few).sum()), few.size
        if same == of:  # The others have to fit on all outputs as well.
            same, of = int((codes_of(order.simulate(a, b), out) == codes).sum()), codes.size
            if same == of:
                return Identified(order, of, order, same, tried)
        if best is None or same * best[1] > best[0] * of:
            best = (same, of, order)
    assert best is not None
    return Identified(None, best[1], best[2], best[0], tried)


def layout_order(ttgir: str, c: Contestant) -> SummationOrder | None:
    """The order in which `tl.sum` joins strided lanes, from the layout in the code that was compiled for a GPU.

    Args:
        ttgir: Triton's GPU intermediate representation of the kernel.
        c: The kernel.

    Returns:
        The order, or None when the code has no single one-dimensional reduction in a blocked layout.
    """
    layouts = {
        name: [int(x) for x in numbers]
        for name, *numbers in re.findall(
            r"(#\w+) = #ttg\.blocked<\{sizePerThread = \[(\d+)\], threadsPerWarp = \[(\d+)\], warpsPerCTA = \[(\d+)\]",
            ttgir,
        )
    }
    reduced = re.findall(r'"tt\.reduce".*?\}\) : \(tensor<(\d+)xf32, (#\w+)>\)', ttgir, re.DOTALL)
    if len(reduced) != 1 or reduced[0][1] not in layouts:
        return None
    own, _, warps = layouts[reduced[0][1]]
    return SummationOrder.lanes_in_layout(
        int(reduced[0][0]), warps, own, fused=bool(c.options.get("enable_fp_fusion", True))
    )


def as_dict(found: Identified) -> dict[str, Any]:
    """What was found, for JSON."""
    return {
        "order": found.order.as_dict() if found.order else None,
        "outputs": found.outputs,
        "closest": found.closest.as_dict(),
        "agreed": found.agreed,
        "candidates": found.tried,
        "contrasted": found.contrasted,
        "refuted": found.refuted,
    }
