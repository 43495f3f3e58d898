"""fp32 products on matrix units, on the GPU: split, multiply, decide, rescue.

**Summation order.** fp16x3: per 64 k one chain of small·big, big·small, big·big from zero on the tensor core,
16 products per step; chains are added in ascending k in fp32, to nearest even. bf16x6: per 32 k one chain of
middle·middle, low·high, high·low, middle·high, high·middle, high·high, added likewise: the bits of `tl.dot` with
`input_precision="bf16x6"`. int8x6: exact integer sums, joined once per 32768 k. None of them depends on tiles, stages
or the number of programs. The bounds are those of `tritongemm.emulation`.

**What the numbers mean.** Three fp16 products cost three times the tensor core's time and nothing else: the fp32
additions of one warpgroup hide behind the products of the other. Splitting reads an operand once (from the cache a
second time where its rows lie side by side, after their largest numbers are found) and writes four bytes per number, at
the memory's speed.

int8x6 of many tiles splits a part of A during the product, by programs that the last round of tiles leaves idle
(`share_of`): 2.6 % at 8192 x 6144 x 4096. The verdict of the guard is then there only after the product has begun, and
a product that it refuses is computed in vain. Where the guard decides between modes ("auto"), splitting comes first.
fp16x3 and bf16x6 were slower for it (bench/notes.md).

**Ahead of each other.** Where rows are split during the product, each kernel is launched while the one before still
runs (programmatic dependent launch), and looks after itself:

| kernel | may start when | waits for |
|---|---|---|
| columns of B | all before has ended | |
| first rows of A | the last programs of B's columns have started | nothing; its last program ends after B's columns |
| product | the last programs of A's rows have started | the end of A's rows |
| verdict | the rows that are left are cut | the counters of these rows; ends after the product |
| rescue | the verdict has started | the end of the verdict |
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import Any

import triton

from tritongemm import emulation, launches
from tritongemm.elements import strides_of
from tritongemm.emulation import Limits
from tritongemm.kernels.epilogue import Epilogue
from tritongemm.kernels.hopper.cutting import PIECE
from tritongemm.kernels.hopper.guarding import LEAVE, rescue_kernel, verdict_kernel
from tritongemm.kernels.hopper.launching import Cut, Gate, Scales, Shape, launch
from tritongemm.kernels.hopper.matrices import multiprocessors
from tritongemm.kernels.hopper.parts import Parts, split
from tritongemm.kernels.hopper.warp_specialised import products
from tritongemm.kernels.problems import Operands
from tritongemm.launches import launch as launch_kernel


@dataclass(frozen=True)
class Emulation:
    """One emulated mode.

    Attributes:
        mode: Its name.
        kind: What operands are cut into.
        shape: How large products are cut.
        limits: What its guard lets pass, by K; None: every product stands.
        chunk: k per launch; None for all.
        cut_rate: Numbers that a multiprocessor cuts into parts per clock while others multiply, measured on an H200,
            less a tenth; None: rows are not cut during the product.
    """

    mode: str
    kind: str
    shape: Shape
    limits: Any = None
    chunk: int | None = None
    cut_rate: float | None = None


EMULATIONS = {
    "fp16x3": Emulation(
        "fp16x3",
        "fp16",
        Shape("promoted_parts", 128, 128, 64, stages=3, parts=2),
        emulation.fp16x3_limits,
    ),
    "bf16x6": Emulation("bf16x6", "bf16", Shape("promoted_parts", 128, 128, 32, stages=4, parts=3)),
    "int8x6": Emulation(
        "int8x6",
        "int8",
        Shape("integers", 256, 128, 64, stages=4, group_m=4, parts=3, ctas=2),
        emulation.int8x6_limits,
        emulation.INTEGER_CHUNK,
        cut_rate=2.0,
    ),
}


def multiply(
    a: Any,
    b: Any,
    out: Any,
    mode: str,
    *,
    epilogue: Epilogue | None = None,
    left: Parts | None = None,
    right: Parts | None = None,
    guard: bool = True,
    shape: Shape | None = None,
) -> Any:
    """out = epilogue(A B) in an emulated mode.

    Args:
        a: (M, K) fp32 CUDA tensor of any strides.
        b: (K, N) fp32 CUDA tensor of any strides.
        out: (M, N) tensor with contiguous rows.
        mode: A name of `EMULATIONS`, or "auto": int8x6 if its guard lets it pass, else fp16x3 with its guard.
        epilogue: What happens to the sums.
        left: a's parts, if they exist already.
        right: Parts of b's transpose, if they exist already.
        guard: Whether the guard may choose another mode.
        shape: How to cut the product; the mode's own if not given (not for "auto").

    Returns:
        int32 tensor of `emulation.FACTS` on the GPU: what was decided, and what from. For "auto" twice as many: those
        of int8x6, then those of fp16x3.
    """
    launches.forgo()  # what was decided is remembered for `emulation.last_outcome`, which a replay would not do
    torch = sys.modules["torch"]
    epilogue = Epilogue() if epilogue is None else epilogue
    if epilogue.reads_c and epilogue.c.data_ptr() == out.data_ptr():
        # Outputs may be computed twice: the second time C must still be there.
        epilogue = replace(epilogue, c=epilogue.c.clone())
    if mode != "auto":
        plan = EMULATIONS[mode]
        facts = torch.empty(emulation.FACTS, dtype=torch.int32, device=out.device)
        limits = plan.limits(int(a.shape[1])) if guard and plan.limits is not None else None
        _guarded(a, b, out, plan, epilogue, facts, limits, left, right, None, shape or plan.shape)
        return facts
    facts = torch.empty(2 * emulation.FACTS, dtype=torch.int32, device=out.device)
    first, second = EMULATIONS["int8x6"], EMULATIONS["fp16x3"]
    K = int(a.shape[1])
    quick = replace(first.limits(K), otherwise=LEAVE)
    _guarded(a, b, out, first, epilogue, facts[: emulation.FACTS], quick, None, None, None, first.shape)
    # Sums too short for fp16x3 are so few operations that fp32 arithmetic is the fastest.
    slow = second.limits(K) if K >= emulation.LEAST_FP16_K else replace(second.limits(K), otherwise=emulation.IEEE)
    _guarded(a, b, out, second, epilogue, facts[emulation.FACTS :], slow, None, None, facts, second.shape)
    return facts


@dataclass(frozen=True)
class Share:
    """How much of A is cut before the product, and how much by programs that the product leaves idle.

    Attributes:
        first: Rows that are cut before.
        programs: Programs, or clusters, that cut the others.
    """

    first: int
    programs: int


# Products of fp32 numbers by way of digits, per multiprocessor and clock, measured on an H200.
_PRODUCT_RATE = 0.84 * 4096 / 6
# Rows that are longer do not fit the registers of a warpgroup.
_MOST_PIECES = 8
# 4096 x 4096 x 4096 takes 8 rounds and is not faster with cutting programs.
_LEAST_ROUNDS = 12


def share_of(M: int, K: int, N: int, cut_rate: float, shape: Shape, processors: int) -> Share | None:
    """How to share the cutting of A's rows; None if it is not worth it.

    The last round of tiles is rarely full: as many programs as there is no work for can do something else without
    making the product longer. They cut rows in the order in which tiles need them, a group of rows of tiles at a time.
    If they were as fast as the product goes through the rows, the first group would have to be there before; as they
    are slower, so must what they will not manage.
    """
    rows, columns = triton.cdiv(M, shape.block_m), triton.cdiv(N, shape.block_n)
    programs = processors // shape.ctas
    rounds = triton.cdiv(rows * columns, programs)
    busy = triton.cdiv(rows * columns, rounds)
    spare = programs - busy
    if rounds < _LEAST_ROUNDS or spare == 0 or triton.cdiv(K, PIECE) > _MOST_PIECES:
        return None
    # Rows of A that are cut in the time in which the product needs one more.
    speed = spare * cut_rate * N / (busy * _PRODUCT_RATE)
    ahead = triton.cdiv(busy, shape.group_m * columns) * shape.group_m
    first = max(ahead, math.ceil(rows - speed * (rows - ahead)))
    return None if first >= rows else Share(first * shape.block_m, spare)


def _share(a: Any, N: int, plan: Emulation, shape: Shape) -> Share | None:
    M, K = (int(n) for n in a.shape)
    if plan.cut_rate is None or (plan.chunk is not None and plan.chunk < K):
        return None
    if a.stride(1) != 1 or a.stride(0) % 16 or K % 16 or a.data_ptr() % 16:
        return None
    return share_of(M, K, N, plan.cut_rate, shape, multiprocessors(a.device.index))


_NO_LIMITS = Limits(2**31 - 1, None, None, emulation.KEEP)


def _guarded(
    a: Any, b: Any, out: Any, plan: Emulation, epilogue: Epilogue, facts: Any, limits: Limits | None,
    left: Parts | None, right: Parts | None, unless: Any, shape: Shape,
) -> None:  # fmt: skip
    """Splits, decides, multiplies, rescues; all but the launches themselves only if `unless` does not hold KEEP."""
    M, N, K = int(a.shape[0]), int(b.shape[1]), int(a.shape[1])
    share = _share(a, N, plan, shape) if left is None and unless is None else None
    both = right is None
    right = split(b.t(), plan.kind, unless, ahead=share is not None) if right is None else right
    early: dict[str, Any] = {"EARLY": False}
    if share is not None:
        torch = sys.modules["torch"]
        ready = torch.empty(triton.cdiv(M, shape.block_m), dtype=torch.int32, device=a.device)
        left = split(a, plan.kind, until=share.first, ready=ready, ahead=True, behind_ahead=both)
        cut = Cut(a, left, ready, share.first, share.programs, triton.cdiv(int(left.data.shape[1]), PIECE), True)
        _multiply_parts(left, right, out, shape, K, epilogue, plan, None, cut)
        early = {
            "EARLY": True, "launch_pdl": True, "ready_ptr": ready, "first_tile": share.first // shape.block_m,
            "rows_per_tile": shape.block_m,
        }  # fmt: skip
    left = split(a, plan.kind, unless) if left is None else left
    allowed = _NO_LIMITS if limits is None else limits
    launch_kernel(
        verdict_kernel, (1,), left.exponents, left.energy, left.small, right.exponents, right.energy, right.small,
        facts, M, N, K, allowed.most_small, allowed.worst_inverse or 0, allowed.mean_inverse or 0,
        emulation.least_exponent("fp16"), emulation.most_exponent("fp16"), facts if unless is None else unless,
        OTHERWISE=allowed.otherwise, ENERGY=allowed.worst_inverse is not None, GATED=unless is not None,
        BLOCK=min(8192, triton.next_power_of_2(max(M, N))), num_warps=32, **early,
    )  # fmt: skip
    if share is None:
        gate = None if limits is None else Gate(facts, emulation.KEEP)
        _multiply_parts(left, right, out, shape, K, epilogue, plan, gate)
    _rescue(a, b, out, epilogue, facts, left, right, limits is not None, share is not None)


def _multiply_parts(
    left: Parts, right: Parts, out: Any, shape: Shape, K: int, epilogue: Epilogue, plan: Emulation, gate: Gate | None,
    cut: Cut | None = None,
) -> None:  # fmt: skip
    scales = None if plan.kind == "bf16" else Scales(left.exponents, right.exponents)
    step = K if plan.chunk is None else plan.chunk
    given: dict[str, Any] = {"part_rows": (left.rows, right.rows), "gate": gate}
    if step >= K:
        launch(left.data, right.data.t(), out, shape, K=K, scales=scales, epilogue=epilogue, cut=cut, **given)
        return
    torch = sys.modules["torch"]
    sums = torch.empty(out.shape, dtype=torch.float32, device=out.device)
    pitch = left.data.shape[1]
    for first in range(0, K, step):
        ahead = slice(first, min(first + step, pitch))
        before = Epilogue() if first == 0 else Epilogue(beta=1.0, c=sums)
        launch(
            left.data[:, ahead], right.data[:, ahead].t(), sums, shape, K=min(step, K - first), epilogue=before, **given
        )
    from tritongemm.kernels.hopper.scaling import scale

    scale(sums, left.exponents, right.exponents, out, epilogue, gate)


_RESCUE = {"BLOCK_M": 64, "BLOCK_N": 128, "GROUP_M": 8}


def _rescue(
    a: Any, b: Any, out: Any, epilogue: Epilogue, facts: Any, left: Parts, right: Parts, guarded: bool, early: bool
) -> None:
    M, N, K = int(a.shape[0]), int(b.shape[1]), int(a.shape[1])
    c, bias = epilogue.addend, epilogue.bias
    strides = [*a.stride(), *b.stride(), *out.stride(), *((0, 0) if c is None else strides_of(c, "c"))]
    far = max(sum(s * (n - 1) for s, n in zip(x.stride(), x.shape, strict=True)) for x in (a, b, out))
    tiles = triton.cdiv(M, _RESCUE["BLOCK_M"]) * triton.cdiv(N, _RESCUE["BLOCK_N"])
    launch_kernel(
        rescue_kernel, (min(tiles, multiprocessors(out.device.index)),), a, b, out, c, bias, facts, left.small,
        right.small, M, N, K, *strides, 0 if bias is None else strides_of(bias, "bias")[0], float(epilogue.alpha),
        float(epilogue.beta), **_RESCUE, GUARDED=guarded, SCALED=epilogue.alpha != 1, ACTIVATION=epilogue.activation,
        WIDE=far > 2**31 - 1 or c is not None, EARLY=early, launch_pdl=early, num_warps=8, num_stages=3,
        enable_fp_fusion=True,
    )  # fmt: skip


def run(operands: Operands, right: Parts | None = None, guard: bool | None = None) -> None:
    """Computes a product or a batch of them in the emulated mode that it asks for.

    Args:
        operands: The product.
        right: Parts of B's transpose, if they exist already.
        guard: Whether the guard may choose another mode; None: as `emulation.unguarded` has it.
    """
    guard = emulation.guarded() if guard is None else guard
    mode = operands.mode.name
    decided = []
    for a, b, out, epilogue in products(operands):
        target = out if out.stride(-1) == 1 else out.new_empty(out.shape)
        if operands.K == 0:
            # Nothing to split: an empty sum through the epilogue.
            a, b = a.new_zeros((operands.M, 1)), b.new_zeros((1, operands.N))
        decided.append(
            multiply(a, b, target, mode, epilogue=epilogue, right=right if operands.K else None, guard=guard)
        )
        if target is not out:
            out.copy_(target)
    emulation.remember(mode, decided, K=operands.K, guarded=guard or mode == "auto")
