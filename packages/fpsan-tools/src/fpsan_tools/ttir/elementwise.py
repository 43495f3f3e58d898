"""Foreign functions, inline assembly, and functions of the kernel's author applied to every element."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir.parser import Operation
from fpsan_tools.ttir.types import Type
from fpsan_tools.ttir.values import Array, Frame, Value
from numfmt import FP4_E2M1

if TYPE_CHECKING:
    from fpsan_tools.ttir.machine import Machine

Operands = list[Value]


def extern(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.extern_elementwise: a function of a device library."""
    symbol = operation.attributes["symbol"]
    if not operation.flag("pure"):
        raise FpsanError(f"function {symbol} has side effects, which are not known")
    type = operation.result_type
    elements = [value.type.element for value in operands]
    arrays = [value.array() for value in operands]
    return Value(machine.domain.extern(machine, symbol, arrays, elements, type.element), type)


def inline_assembly(machine: Machine, operation: Operation, operands: Operands) -> list[Value]:
    """tt.elementwise_inline_asm."""
    text = operation.strings[0]
    types = operation.types[1]
    pure = operation.flag("pure")
    if not pure:
        raise FpsanError("inline assembly with side effects")
    elements = [value.type.element for value in operands]
    arrays = [value.array() for value in operands]
    results = machine.domain.inline_assembly(machine, text, arrays, elements, [type.element for type in types])
    return [Value(data, type) for data, type in zip(results, types, strict=True)]


def map_elementwise(machine: Machine, operation: Operation, frame: Frame) -> list[Value]:
    """tt.map_elementwise: the region sees `pack` neighbouring elements of each operand at a time.

    Every group of elements is evaluated like a program of its own, so regions may branch.
    """
    operands = [frame.get(name) for name in operation.operands]
    pack = operation.integer("pack", 1)
    shape = operands[0].type.shape
    programs = frame.count
    groups = programs * int(np.prod(shape)) // pack
    inner = Frame(frame, np.repeat(np.arange(programs), groups // programs), groups)
    region = operation.regions[0]
    names = iter(region.blocks[0].arguments)
    for value in operands:
        flat = value.full(programs).reshape(groups, pack)
        for position in range(pack):
            name, type = next(names)
            inner.values[name] = Value(flat[:, position], type)
    returned = machine.region(region, inner)
    results: list[Value] = []
    types = operation.types[1]
    for number, type in enumerate(types):
        columns = [np.broadcast_to(v.array(), (groups,)) for v in returned[number * pack : (number + 1) * pack]]
        results.append(Value(np.stack(columns, axis=1).reshape(programs, *type.shape), type))
    return results


def histogram(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.histogram: counts of the values 0, 1, ... of each program."""
    type = operation.result_type
    bins = type.shape[0]
    programs = max(value.array().shape[0] for value in operands)
    values = operands[0].full(programs).reshape(programs, -1)
    live = operands[1].full(programs).reshape(programs, -1) if len(operands) > 1 else np.ones(values.shape, bool)
    seen = values[live]
    if seen.size and (int(seen.min()) < 0 or int(seen.max()) >= bins):
        raise FpsanError(f"a histogram of {bins} bins gets the values {int(seen.min())} to {int(seen.max())}")
    rows = np.broadcast_to(np.arange(programs)[:, np.newaxis], values.shape)[live]
    counts = np.bincount(rows * bins + seen.astype(np.int64), minlength=programs * bins)
    return Value(counts.reshape(programs, bins).astype(type.element.integers), type)


def widen_fp4(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """ttg.fp4_to_fp: bytes of two e2m1 numbers along an axis, the low one first."""
    value, type = operands[0], operation.result_type
    axis = operation.integer("axis") + 1
    codes = value.full().view(np.uint8)
    pair = np.stack([codes & np.uint8(15), codes >> np.uint8(4)], axis=axis + 1)
    exact = FP4_E2M1.decode(pair.reshape(*codes.shape[:axis], -1, *codes.shape[axis + 1 :]))
    return Value(machine.domain.from_exact(np.asarray(exact, np.float64), type.element), type)


def poison(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """ub.poison: a value that is never used; zero stands for it."""
    type = operation.result_type
    element = type.element
    if element.is_float:
        data: Array = machine.domain.constant(0, element)
    else:
        data = np.zeros(1, element.integers if element.kind == "int" else np.int64)
    return Value(data.reshape((1,) * (len(type.shape) + 1)), Type(type.shape, element))
