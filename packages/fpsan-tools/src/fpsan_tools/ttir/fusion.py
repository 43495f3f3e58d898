"""Contraction of products into additions, as the GPU assembler does it when a launch allows it.

Observed on an H200: `a*b + c` and `c + a*b` become fma(a, b, c); `a*b - c` fma(a, b, -c); `c - a*b` fma(-a, b, c); a
product that is also used elsewhere is rounded there and contracted here; of two products the one with fewer uses is
contracted, on a tie the left one. A choice, a cast or a store between the product and the sum prevents it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from fpsan_tools.ttir.parser import Block, Module, Operation, Region

CONTRACTED = "contracted.fma"
"""Name of an addition or subtraction that has taken up a product; its operands are the fma's."""


CONTRACTED_SUM = "contracted.reduce"
"""Name of a sum (tt.reduce) that has taken up a product; its operands are the product's."""


_VIEWS = frozenset({"tt.reshape", "tt.trans", "tt.expand_dims"})
"""Operations that leave values in their registers, so that the assembler sees the product and the sum side by side."""


def contract(module: Module, sums: bool = False) -> None:
    """Rewrite float additions and subtractions of products, within each block, in place.

    Args:
        module: the module.
        sums: whether sums by tt.reduce take up products too.
    """
    for function in module.functions.values():
        uses: Counter[str] = Counter()
        _count(function.body, uses)
        _visit(function.body, uses, sums)


def _count(region: Region, uses: Counter[str]) -> None:
    for block in region.blocks:
        for operation in block.operations:
            uses.update(operation.operands)
            for _, values in operation.successors:
                uses.update(values)
            for inner in operation.regions:
                _count(inner, uses)


def _visit(region: Region, uses: Counter[str], sums: bool) -> None:
    for block in region.blocks:
        for operation in block.operations:
            if operation.name not in ("tt.reduce", "tt.scan"):
                for inner in operation.regions:
                    _visit(inner, uses, sums)
        _block(block, uses, sums)


def _block(block: Block, uses: Counter[str], sums: bool) -> None:
    definitions: dict[str, Operation] = {}
    removed: set[str] = set()
    operations: list[Operation] = []
    for operation in block.operations:
        if operation.name in ("arith.addf", "arith.subf"):
            _contract(operation, definitions, uses, removed)
        elif sums and operation.name == "tt.reduce":
            operations += _contract_sum(operation, definitions, uses, removed)
        operations.append(operation)
        for result in operation.results:
            definitions[result] = operation
    block.operations = [
        operation
        for operation in operations
        if not (operation.results and all(name in removed for name in operation.results))
    ]


def _product(name: str, definitions: dict[str, Operation]) -> tuple[Operation, bool] | None:
    """The multiplication that defines a value, and whether its negation is what is added."""
    operation = definitions.get(name)
    if operation is not None and operation.name == "arith.mulf":
        return operation, False
    if operation is not None and operation.name == "arith.negf":
        inner = definitions.get(operation.operands[0])
        if inner is not None and inner.name == "arith.mulf":
            return inner, True
    return None


def _contract(operation: Operation, definitions: dict[str, Operation], uses: Counter[str], removed: set[str]) -> None:
    candidates = [_product(name, definitions) for name in operation.operands]
    left, right = candidates
    if left is None and right is None:
        return
    place = 0 if left is not None else 1
    if left is not None and right is not None and uses[operation.operands[1]] < uses[operation.operands[0]]:
        place = 1
    chosen = candidates[place]
    assert chosen is not None
    product, negated = chosen
    taken, addend = operation.operands[place], operation.operands[1 - place]
    if taken == addend:  # p + p: one use is contracted, the other stays a rounded product
        uses[taken] += 1
    subtracts = operation.name == "arith.subf"
    if negated != (subtracts and place == 1):
        operation.attributes["negate_product"] = "true"
    if subtracts and place == 0:
        operation.attributes["negate_addend"] = "true"
    operation.name = CONTRACTED
    operation.operands = [*product.operands, addend]
    uses.update(product.operands)
    _release(taken, definitions, uses, removed)


def _contract_sum(
    operation: Operation, definitions: dict[str, Operation], uses: Counter[str], removed: set[str]
) -> list[Operation]:
    """Let a sum take up a product; returns the operations that its factors need before it."""
    body = operation.regions[0].block.operations
    if len(operation.operands) != 1 or len(body) != 2 or body[0].name != "arith.addf":
        return []
    taken = operation.operands[0]
    product, views = definitions.get(taken), []
    while product is not None and product.name in _VIEWS:
        views.append(product)
        product = definitions.get(product.operands[0])
    if product is None or product.name != "arith.mulf":
        return []
    factors: list[str] = []
    added: list[Operation] = []
    for place, factor in enumerate(product.operands):
        uses[factor] += 1
        for depth, view in reversed(list(enumerate(views))):
            name = f"{taken}.{operation.results[0]}.{place}.{depth}"
            added.append(replace(view, results=[name], operands=[factor], dead=[]))
            uses[name] += 1
            factor = name
        factors.append(factor)
    operation.name = CONTRACTED_SUM
    operation.operands = factors
    _release(taken, definitions, uses, removed)
    return added


def _release(name: str, definitions: dict[str, Operation], uses: Counter[str], removed: set[str]) -> None:
    """A value has one use less; without any its operation goes away."""
    uses[name] -= 1
    if uses[name] == 0:
        removed.add(name)
        for operand in definitions[name].operands:
            if operand in definitions:
                _drop(operand, definitions, uses, removed)
            else:
                uses[operand] -= 1


def _drop(name: str, definitions: dict[str, Operation], uses: Counter[str], removed: set[str]) -> None:
    if definitions[name].name in ("arith.mulf", "arith.negf", *_VIEWS):
        _release(name, definitions, uses, removed)
    else:
        uses[name] -= 1
