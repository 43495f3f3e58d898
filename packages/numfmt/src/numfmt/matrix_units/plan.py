"""The order of one output's additions, as a small expression that engines evaluate and people can read.

A schedule turns K into such a plan. Leaves are the accumulator c and chains of a unit's steps; inner nodes are ordinary
additions. Two schedules give the same bits for every input if their plans simplify to the same expression
(`simplified`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from numfmt.matrix_units.units import MatrixUnit


@dataclass(frozen=True)
class Accumulator:
    """The matrix c, or zero if there is none."""

    def __str__(self) -> str:
        return "c"


@dataclass(frozen=True)
class Chain:
    """A unit's steps over k in [start, stop), in ascending k.

    Attributes:
        start: First k.
        stop: One past the last k.
        init: What the first step accumulates onto; None is zero.
        a: Part of the left operand that is multiplied, a key of `operands.PARTS`.
        b: Part of the right operand.
    """

    start: int
    stop: int
    init: Node | None = None
    a: str = "whole"
    b: str = "whole"

    def __str__(self) -> str:
        onto = "" if self.init is None else f" onto {self.init}"
        parts = "" if self.a == self.b == "whole" else f" {self.a}*{self.b}"
        return f"chain[{self.start}:{self.stop}]{parts}{onto}"


@dataclass(frozen=True)
class Sum:
    """Terms added from left to right in the format of the accumulator, to nearest even."""

    terms: tuple[Node, ...]

    def __str__(self) -> str:
        return "(" + " + ".join(str(term) for term in self.terms) + ")"


@dataclass(frozen=True)
class WithoutNan:
    """The term with every NaN replaced by zero."""

    term: Node

    def __str__(self) -> str:
        return f"nan_to_zero({self.term})"


Node: TypeAlias = Accumulator | Chain | Sum | WithoutNan


@dataclass(frozen=True)
class Region:
    """A rectangle of outputs that share one plan."""

    rows: slice
    columns: slice
    node: Node


@dataclass(frozen=True)
class Program:
    """A matrix product, ready to be evaluated.

    Attributes:
        unit: The unit whose steps the chains are.
        operands: Format keys in which the two operands are given.
        regions: Rectangles that cover the output, each with its plan.
        order: The k in the order in which steps take them, as indices into groups of len(order); None: ascending.
        depth: K, padded to what the schedule needs; k beyond the operands are zeros.
        notes: Why this unit and order were chosen, for people.
        omitted: What the unit does not multiply of fp32 operands, in units of |a·b|; 0 for operands of its own formats.
    """

    unit: MatrixUnit
    operands: tuple[str, str]
    regions: tuple[Region, ...]
    order: tuple[int, ...] | None
    depth: int
    notes: tuple[str, ...] = ()
    omitted: float = 0.0


def children(node: Node) -> tuple[Node, ...]:
    """The nodes a node's value is made from."""
    if isinstance(node, Chain):
        return () if node.init is None else (node.init,)
    if isinstance(node, Sum):
        return node.terms
    if isinstance(node, WithoutNan):
        return (node.term,)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """Every node of a plan, without recursion (plans can be thousands of levels deep)."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(children(top))


def split_additions(node: Node, unit: MatrixUnit) -> Node:
    """Write out what a unit that adds c by an ordinary addition does: one chain from zero per instruction, added up."""
    if not unit.adds_accumulator:
        return node
    if isinstance(node, Chain):
        base: tuple[Node, ...] = () if node.init is None else (split_additions(node.init, unit),)
        parts = tuple(
            replace(node, start=k, stop=k + unit.depth, init=None) for k in range(node.start, node.stop, unit.depth)
        )
        return Sum(base + parts)
    if isinstance(node, Sum):
        return Sum(tuple(split_additions(term, unit) for term in node.terms))
    if isinstance(node, WithoutNan):
        return WithoutNan(split_additions(node.term, unit))
    return node


def simplified(node: Node) -> Node:
    """The shortest plan with the same bits: chains that continue each other joined, sums of one term or nested left
    undone.
    """
    if isinstance(node, Chain):
        init = None if node.init is None else simplified(node.init)
        if isinstance(init, Chain) and (init.a, init.b, init.stop) == (node.a, node.b, node.start):
            return replace(node, start=init.start, init=init.init)
        return replace(node, init=init)
    if isinstance(node, WithoutNan):
        return WithoutNan(simplified(node.term))
    if isinstance(node, Sum):
        terms: list[Node] = []
        for term in map(simplified, node.terms):
            if not terms and isinstance(term, Sum):
                terms.extend(term.terms)
            else:
                terms.append(term)
        return terms[0] if len(terms) == 1 else Sum(tuple(terms))
    return node
