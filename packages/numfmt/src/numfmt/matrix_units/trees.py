"""Summation trees: which terms meet where, as an unordered tree whose inner nodes are additions of two or more
children.

A node of two children is an ordinary addition, a node of more a fused one: its children are aligned and added at
once, so that their order does not matter. Leaves are the numbers of products, and "c" for the accumulator.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from numfmt.matrix_units.plan import Accumulator, Chain, Node, Program, Sum
from numfmt.matrix_units.units import MatrixUnit

Leaf: TypeAlias = "int | str"


@dataclass(frozen=True)
class Tree:
    """A summation tree.

    Attributes:
        children: Subtrees and leaves, in the order in which they were found; equality ignores the order.
    """

    children: tuple[Tree | Leaf, ...]

    @cached_property
    def leaves(self) -> frozenset[Leaf]:
        """Every leaf below this node."""
        found: set[Leaf] = set()
        stack: list[Tree | Leaf] = [self]
        while stack:
            top = stack.pop()
            if isinstance(top, Tree):
                stack.extend(top.children)
            else:
                found.add(top)
        return frozenset(found)

    @cached_property
    def _key(self) -> frozenset[tuple[int, frozenset[Leaf]]]:
        """Every node's size, own leaves and one leaf of each subtree, which together determine an unordered tree."""
        nodes, stack = [], [self]
        while stack:
            top = stack.pop()
            nodes.append(top)
            stack.extend(child for child in top.children if isinstance(child, Tree))
        sizes: dict[int, int] = {}
        least: dict[int, tuple[str, Leaf]] = {}
        keys = set()
        for top in reversed(nodes):
            size, firsts = 0, []
            for child in top.children:
                size += sizes[id(child)] if isinstance(child, Tree) else 1
                firsts.append(least[id(child)] if isinstance(child, Tree) else _sortable(child))
            sizes[id(top)], least[id(top)] = size, min(firsts)
            keys.add((size, frozenset(leaf for _, leaf in firsts)))
        return frozenset(keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def fan_in(self) -> int:
        """Largest number of children of a node."""
        largest, stack = 0, [self]
        while stack:
            top = stack.pop()
            largest = max(largest, len(top.children))
            stack.extend(child for child in top.children if isinstance(child, Tree))
        return largest

    @cached_property
    def depth(self) -> int:
        """Additions on the longest path from a leaf to the root."""
        deepest, stack = 0, [(self, 1)]
        while stack:
            top, level = stack.pop()
            deepest = max(deepest, level)
            stack.extend((child, level + 1) for child in top.children if isinstance(child, Tree))
        return deepest

    def restricted(self, leaves: Iterable[Leaf]) -> Tree:
        """The tree over some of the leaves: what is seen if the other terms are zero.

        Args:
            leaves: Those that are kept.

        Returns:
            A tree; nodes with one branch are left out.
        """
        kept = frozenset(leaves)
        root = _restricted(self, kept)
        return root if isinstance(root, Tree) else Tree(() if root is None else (root,))

    def __str__(self) -> str:
        return self.draw().splitlines()[0]

    def draw(self, width: int = 100) -> str:
        """The tree as indented text, runs of leaves and repeated shapes contracted.

        Args:
            width: Columns.

        Returns:
            Lines.
        """
        lines: list[str] = []
        stack: list[tuple[Tree | Leaf | str, int]] = [(self, 0)]
        while stack:
            top, level = stack.pop()
            indent = "| " * level
            if not isinstance(top, Tree):
                lines.append(f"{indent}{top}")
                continue
            chain = _chain_of(top)
            if chain is not None:
                lines.append(_cut(f"{indent}{chain}", width))
                continue
            kind = "+" if len(top.children) == 2 else f"fused sum of {len(top.children)}"
            lines.append(f"{indent}{kind}")
            loose = [child for child in top.children if not isinstance(child, Tree)]
            parts: list[Tree | Leaf | str] = [child for child in top.children if isinstance(child, Tree)]
            if loose:
                parts.append(_runs(loose))
            stack.extend((part, level + 1) for part in reversed(parts))
        return "\n".join(lines)


def _sortable(leaf: Leaf) -> tuple[str, Leaf]:
    return (f"{leaf:09d}" if isinstance(leaf, int) else leaf, leaf)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _runs(leaves: Sequence[Leaf]) -> str:
    """Leaves as text: 0..15 for runs, 0,8,..,120 for arithmetic progressions."""
    names = [leaf for leaf in leaves if not isinstance(leaf, int)]
    numbers = sorted(leaf for leaf in leaves if isinstance(leaf, int))
    texts, start = [], 0
    while start < len(numbers):
        stop = start + 1
        if stop < len(numbers):
            step = numbers[stop] - numbers[start]
            while stop < len(numbers) and numbers[stop] - numbers[stop - 1] == step:
                stop += 1
            if stop - start >= 3:
                first, last = numbers[start], numbers[stop - 1]
                texts.append(f"{first}..{last}" if step == 1 else f"{first},{first + step},..,{last}")
                start = stop
                continue
        texts.append(str(numbers[start]))
        start += 1
    return ",".join([*names, *texts])


def _chain_of(tree: Tree) -> str | None:
    """A one-line description of a serial chain: nodes with one subtree each, or none below the last."""
    groups: list[list[Leaf]] = []
    top: Tree | None = tree
    while top is not None:
        subtrees = [child for child in top.children if isinstance(child, Tree)]
        if len(subtrees) > 1:
            return None
        groups.append([child for child in top.children if not isinstance(child, Tree)])
        top = subtrees[0] if subtrees else None
    groups.reverse()
    if len(groups) == 1:
        return f"fused sum of {_runs(groups[0])}" if len(groups[0]) > 2 else f"{_runs(groups[0])} added"
    sizes = {len(group) for group in groups[1:]}
    if sizes == {1}:
        order = [*groups[0], *(group[0] for group in groups[1:])]
        return f"serial: {_in_order(order)}"
    texts = [_runs(group) for group in groups]
    shown = texts if len(texts) <= 4 else [*texts[:2], "...", texts[-1]]
    return f"chain of {len(groups)} fused sums: {' | '.join(shown)}"


def _in_order(leaves: Sequence[Leaf]) -> str:
    """Leaves in the order given, contracted where they are an arithmetic progression."""
    numbers = [leaf for leaf in leaves if isinstance(leaf, int)]
    names = [leaf for leaf in leaves if not isinstance(leaf, int)]
    if len(numbers) >= 3:
        numbers = sorted(numbers[:2]) + numbers[2:]
        step = numbers[1] - numbers[0]
        if all(b - a == step for a, b in itertools.pairwise(numbers)):
            return ",".join([*map(str, names), _runs(numbers)])
    shown = [str(leaf) for leaf in leaves]
    return ",".join(shown if len(shown) <= 24 else [*shown[:20], "...", shown[-1]])


def _restricted(tree: Tree | Leaf, kept: frozenset[Leaf]) -> Tree | Leaf | None:
    """Bottom up, without recursion: chains are thousands of nodes deep."""
    if not isinstance(tree, Tree):
        return tree if tree in kept else None
    order, stack = [], [tree]
    while stack:
        top = stack.pop()
        order.append(top)
        stack.extend(child for child in top.children if isinstance(child, Tree))
    done: dict[int, Tree | Leaf | None] = {}
    for top in reversed(order):
        parts: list[Tree | Leaf] = []
        for child in top.children:
            part = done[id(child)] if isinstance(child, Tree) else child if child in kept else None
            if part is not None:
                parts.append(part)
        done[id(top)] = node(parts) if parts else None
    return done[id(tree)]


def node(children: Sequence[Tree | Leaf]) -> Tree | Leaf:
    """A node, or the child itself if it is the only one."""
    return children[0] if len(children) == 1 else Tree(tuple(children))


# --------------------------------------------------------------------------------------------- the tree a model implies
def model_tree(program: Program) -> Tree:
    """The tree of a program's first region: what a black box that runs it must show.

    Split fp32 operands show their main product only, since a power of two has no smaller parts.
    """
    root = _tree_of(program.regions[0].node, program.unit, _position(program))
    if not isinstance(root, Tree):
        return Tree((root,) if root is not None else ())
    return root


def _position(program: Program) -> Callable[[int], int]:
    order = program.order
    if order is None:
        return lambda k: k
    return lambda k: k // len(order) * len(order) + order[k % len(order)]


def _tree_of(plan: Node, unit: MatrixUnit, position: Callable[[int], int]) -> Tree | Leaf | None:
    if isinstance(plan, Accumulator):
        return "c"
    if isinstance(plan, Sum):
        total: Tree | Leaf | None = None
        for term in plan.terms:
            total = _joined(total, _tree_of(term, unit, position))
        return total
    if isinstance(plan, Chain):
        current = None if plan.init is None else _tree_of(plan.init, unit, position)
        if plan.a.endswith(("small", "middle", "low")) or plan.b.endswith(("small", "middle", "low")):
            return current
        for k in range(plan.start, plan.stop, unit.products):
            leaves: list[Tree | Leaf] = [position(i) for i in range(k, k + unit.products)]
            if unit.arithmetic == "pairwise":
                while len(leaves) > 1:
                    leaves = [node(leaves[i : i + 2]) for i in range(0, len(leaves), 2)]
            current = node(leaves if current is None else [current, *leaves])
        return current
    return _tree_of(plan.term, unit, position)


def _joined(left: Tree | Leaf | None, right: Tree | Leaf | None) -> Tree | Leaf | None:
    if left is None or right is None:
        return left if right is None else right
    return Tree((left, right))


# ----------------------------------------------------------------------------------------------- the tree a box reveals
class Unrevealed(ValueError):
    """The black box does not add the way masking assumes; the message says what was seen."""


def reveal(size: Callable[[list[tuple[Leaf, Leaf]]], list[int]], leaves: Sequence[Leaf]) -> Tree:
    """The summation tree from the sizes of smallest common subtrees.

    With a huge number at leaf i, its negative at leaf j and equal small numbers elsewhere, all small numbers that
    meet the huge one before it is cancelled are absorbed: the result counts the leaves outside the smallest subtree
    that holds both (P. Xie, Y. Gao, Y. Ding, J. Xue, "FPRev: Revealing the accumulation order in floating-point
    summation", 2025). Here nodes may have any number of children, as the fused sums of matrix units do.

    Args:
        size: For pairs of leaves, the number of leaves of their smallest common subtree.
        leaves: The leaves.

    Returns:
        The tree.
    """
    root, _ = _reveal(size, list(leaves))
    return root if isinstance(root, Tree) else Tree((root,))


def _reveal(size: Callable[[list[tuple[Leaf, Leaf]]], list[int]], leaves: list[Leaf]) -> tuple[Tree | Leaf, int]:
    """The tree over `leaves` and the size of its root (1 for a leaf)."""
    if len(leaves) == 1:
        return leaves[0], 1
    first, rest = leaves[0], leaves[1:]
    sizes = size([(first, other) for other in rest])
    groups: dict[int, list[Leaf]] = {}
    for other, n in zip(rest, sizes, strict=True):
        groups.setdefault(n, []).append(other)
    current: Tree | Leaf = first
    for n in sorted(groups):
        joining, its_size = _reveal(size, groups[n])
        if isinstance(joining, Tree) and its_size == n:
            # The group's own root is this very node: its children are siblings of what was built so far.
            current = Tree((current, *joining.children))
        else:
            current = Tree((current, joining))
    return current, max(groups)
