"""What a schedule costs in bits, in words, and which schedules give the same bits and why."""

from __future__ import annotations

import math
from dataclasses import dataclass

from numfmt.matrix_units.operands import PART_SIZES
from numfmt.matrix_units.plan import Accumulator, Chain, Node, Program, Sum, simplified, walk
from numfmt.matrix_units.schedules import Request, Schedule
from numfmt.matrix_units.units import MatrixUnit, format_key

_U = 2.0**-24


@dataclass(frozen=True)
class Cost:
    """An a-priori bound of a plan's error, in units of sum|p|.

    Attributes:
        steps: Fused steps (or fused multiply-adds) of the longest chain that starts from zero or from c.
        additions: Ordinary additions on the longest path after the chains.
        bound: |error| <= bound * sum|p|, to first order.
        size: |value| <= size * sum|p|, to first order: less than 1 for sums of corrections.
    """

    steps: int
    additions: int
    bound: float
    size: float = 1.0


def sure_bits(bound: float) -> float:
    """Of the 24 bits of an FP32 number of the size of sum|p|, how many a bound in units of sum|p| leaves."""
    return 24.0 if bound <= _U else max(0.0, -math.log2(bound))


def step_error(unit: MatrixUnit) -> float:
    """What one step can lose, in units of the largest magnitude that takes part: cut terms and the final rounding."""
    rounding = 2.0**-unit.mantissa_bits * (0.5 if unit.rounding == "nearest_even" else 1.0)
    if unit.arithmetic == "aligned":
        return (unit.terms + 1) * 2.0**-unit.fraction_bits + rounding
    if unit.arithmetic == "pairwise":
        return (math.ceil(math.log2(unit.products)) + 1) * rounding
    return rounding


def cost(plan: Node, unit: MatrixUnit) -> Cost:
    """The cost of a plan on a unit."""
    if isinstance(plan, Accumulator):
        return Cost(0, 0, 0.0)
    if isinstance(plan, Chain):
        before = Cost(0, 0, 0.0, 0.0) if plan.init is None else cost(plan.init, unit)
        steps = (plan.stop - plan.start) // unit.products
        size = max(before.size, PART_SIZES.get(plan.a, 1.0) * PART_SIZES.get(plan.b, 1.0))
        bound = before.bound + steps * step_error(unit) * size
        return Cost(before.steps + steps, before.additions, bound, size)
    if isinstance(plan, Sum):
        parts = [cost(term, unit) for term in plan.terms]
        u = _U if unit.accumulator == "fp32" else 2.0**-11
        additions = len(parts) - 1
        return Cost(
            max(part.steps for part in parts),
            max(part.additions for part in parts) + additions,
            max(part.bound for part in parts) + additions * u,
        )
    return cost(plan.term, unit)


def request_for(
    k: int, inputs: str | tuple[str, str], unit: str | MatrixUnit, accumulator: str, has_c: bool, shape: tuple[int, int]
) -> Request:
    """A request for schedules to plan, without data."""
    pair = (inputs, inputs) if isinstance(inputs, str) else inputs
    keys = (format_key(pair[0]), format_key(pair[1]))
    return Request(unit, keys, format_key(accumulator, "accumulator"), (*shape, k), has_c)


def canonical(program: Program) -> tuple[object, ...]:
    """What decides the bits: two programs with equal canonical forms give equal bits for every input."""
    nodes = [simplified(region.node) for region in program.regions]
    regions: tuple[object, ...] = (nodes[0],)
    if len(set(nodes)) > 1:
        regions = tuple((str(r.rows), str(r.columns), node) for r, node in zip(program.regions, nodes, strict=True))
    unit = program.unit
    # wgmma and mma.sync rows with the same facts are the same arithmetic.
    facts = (
        unit.products,
        unit.fraction_bits,
        unit.mantissa_bits,
        unit.rounding,
        unit.least_exponent,
        unit.zero_exponent,
        unit.multiplied or program.operands,
        unit.group,
        unit.scales,
        unit.arithmetic,
        unit.accumulator,
    )
    return facts, program.order, regions


def same_bits(
    one: Schedule,
    other: Schedule,
    *,
    k: int,
    inputs: str | tuple[str, str],
    unit: str | MatrixUnit = "hopper",
    accumulator: str = "fp32",
    has_c: bool = False,
    shape: tuple[int, int] = (128, 128),
) -> bool:
    """Whether two schedules give the same bits for every input because they are the same sum in other words.

    False means that the plans differ; on particular data the bits may agree all the same.

    Args:
        one: A schedule.
        other: Another.
        k: K.
        inputs: Format of the operands or a pair.
        unit: Unit or architecture.
        accumulator: "fp32" or "fp16".
        has_c: An accumulator c is given.
        shape: (M, N), which matters for `stream_k` only.

    Returns:
        True if both have the same plan.

    Raises:
        ValueError: For arguments that do not fit, as `matmul`.
    """
    request = request_for(k, inputs, unit, accumulator, has_c, shape)
    return canonical(one.program(request)) == canonical(other.program(request))


def explain(
    *schedules: Schedule,
    k: int,
    inputs: str | tuple[str, str],
    unit: str | MatrixUnit = "hopper",
    accumulator: str = "fp32",
    has_c: bool = False,
    shape: tuple[int, int] = (128, 128),
) -> str:
    """What each schedule does and costs, in words, and which of them give the same bits and why.

    The bound is a-priori and to first order: |error| <= bound * sum|a·b| for any data; typical errors are smaller, and
    biased toward zero where the unit truncates.

    Args:
        schedules: One or more.
        k: K.
        inputs: Format of the operands or a pair.
        unit: Unit or architecture.
        accumulator: "fp32" or "fp16".
        has_c: An accumulator c is given.
        shape: (M, N), which matters for `stream_k` only.

    Returns:
        Text of several lines.

    Raises:
        ValueError: As `matmul` raises for the same arguments.
    """
    if not schedules:
        raise ValueError(
            "explain() needs at least one schedule, for example explain(promote(128), k=4096, inputs='e4m3')"
        )
    request = request_for(k, inputs, unit, accumulator, has_c, shape)
    programs = [schedule.program(request) for schedule in schedules]
    texts = [_explained(schedule, program) for schedule, program in zip(schedules, programs, strict=True)]
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, program in enumerate(programs):
        groups.setdefault(canonical(program), []).append(index)
    for members in groups.values():
        if len(members) > 1:
            names = " and ".join(schedules[i].call() for i in members)
            plan = simplified(programs[members[0]].regions[0].node)
            texts.append(
                f"Same bits for every input: {names}. All are {_shape_of(plan)}, on steps with the same facts."
            )
    return "\n\n".join(texts)


def _explained(schedule: Schedule, program: Program) -> str:
    unit = program.unit
    worst = max((cost(region.node, unit) for region in program.regions), key=lambda c: c.bound)
    plans = {simplified(region.node) for region in program.regions}
    shapes = "; ".join(sorted({_shape_of(plan) for plan in plans})[:3])
    more = f" (and {len(plans) - 3} other cuts of K)" if len(plans) > 3 else ""
    bound = worst.bound + program.omitted
    operand = (
        [f"  Operands that are fp32 lose up to {program.omitted:.3g} of |a*b| before the sum."]
        if program.omitted
        else []
    )
    lines = [
        f"{schedule.call()}:",
        f"  {unit.describe()}.",
        *(f"  {note}" for note in program.notes),
        f"  K = {program.depth}: {shapes}{more}.",
        f"  Longest chain {worst.steps} steps, then {worst.additions} additions to nearest even.",
        *operand,
        f"  Bound: {bound:.3g} * sum|p|, that is {bound / _U:.3g} u * sum|p|; {sure_bits(bound):.1f} of 24 "
        f"bits are sure.",
    ]
    return "\n".join(lines)


def _shape_of(plan: Node) -> str:
    """A plan in words."""
    chains = [part for part in walk(plan) if isinstance(part, Chain)]
    if isinstance(plan, Chain) and len(chains) == 1:
        onto = "c" if isinstance(plan.init, Accumulator) else "zero"
        return f"one chain over k = {plan.start}..{plan.stop - 1} from {onto}"
    lengths = sorted({chain.stop - chain.start for chain in chains})
    span = f"{lengths[0]}" if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]}"
    sums = sum(len(part.terms) - 1 for part in walk(plan) if isinstance(part, Sum))
    return f"{len(chains)} chains of {span} products, {sums} ordinary additions"
