"""Part 3 of an audit: in which order does a kernel add, as far as its bits tell?

Summation orders that kernels are written in are simulated with every operation rounded to fp32; the one whose bits are
the kernel's, for every output that was tried, is its order. Long sums leave a wrong guess no chance: two orders of
thousands of products agree in a few per cent of the outputs only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tritongemm.auditing.contestants import Contestant
from tritongemm.auditing.devices import Array, codes_of
from tritongemm.orders import SummationOrder

# Outputs that candidates are tried on first: enough to tell them apart, few enough to try them all.
_FIRST_LOOK = 8
# 16-byte loads of fp32.
_VECTOR = 4


@dataclass(frozen=True)
class Identified:
    """The summation order of a kernel.

    Attributes:
        order: The order whose bits are the kernel's; None if no candidate's are.
        outputs: Outputs tried.
        closest: The candidate that agreed most.
        agreed: Outputs on which it agreed.
        tried: Number of candidates.
    """

    order: SummationOrder | None
    outputs: int
    closest: SummationOrder
    agreed: int
    tried: int


def candidates(c: Contestant) -> list[SummationOrder]:
    """The summation orders that a kernel with these constants may have.

    Args:
        c: The kernel.
    """
    steps = c.steps()
    pads = [max(steps, default=1)]
    orders: list[SummationOrder] = []
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
    return list(dict.fromkeys(orders))


def identify(
    c: Contestant, a: Array, b: Array, codes: Array, out: str, hints: Iterable[SummationOrder] = ()
) -> Identified:
    """Finds the summation order of a kernel from its bits.

    Args:
        c: The kernel.
        a: (M, K) float32 operand.
        b: (K, N) float32 operand.
        codes: The kernel's (M, N) results as bit patterns.
        out: Their type.
        hints: Orders to try first.

    Returns:
        What was found.
    """
    orders = list(dict.fromkeys([*hints, *candidates(c)]))
    few_a, few_b, few = a[:_FIRST_LOOK], b[:, :_FIRST_LOOK], codes[:_FIRST_LOOK, :_FIRST_LOOK]
    agreed = [int((codes_of(o.simulate(few_a, few_b), out) == few).sum()) for o in orders]
    best = int(np.argmax(agreed))
    closest = orders[best]
    if agreed[best] < few.size:
        return Identified(None, few.size, closest, agreed[best], len(orders))
    same = int((codes_of(closest.simulate(a, b), out) == codes).sum())
    return Identified(closest if same == codes.size else None, codes.size, closest, same, len(orders))


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
    }
