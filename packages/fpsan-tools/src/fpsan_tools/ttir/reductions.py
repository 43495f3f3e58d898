"""Reductions and scans: fold an axis with the operations of a region, in the order that the domain gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fpsan_tools.errors import FpsanError
from fpsan_tools.ttir.arithmetic import FLOAT_BINARY, integer_combine
from fpsan_tools.ttir.parser import Operation
from fpsan_tools.ttir.types import Type
from fpsan_tools.ttir.values import Array, Frame, Value

if TYPE_CHECKING:
    from fpsan_tools.ttir.machine import Machine

Combine = Callable[[list[Array], list[Array]], list[Array]]


def reduce(machine: Machine, operation: Operation, frame: Frame) -> list[Value]:
    """tt.reduce."""
    operands = [frame.get(name) for name in operation.operands]
    axis = operation.integer("axis") + 1
    arrays = [_full_axis(value, axis) for value in operands]
    shape = operands[0].type.shape
    types = [value.type.with_shape(shape[: axis - 1] + shape[axis:]) for value in operands]
    op = simple_operation(operation)
    if op is not None:
        element = operands[0].type.element
        if op in FLOAT_BINARY and element.is_float:
            whole = machine.domain.reduce(FLOAT_BINARY[op], arrays[0], axis, element)
            if whole is not None:
                return [Value(whole, types[0])]
        elif op == "arith.addi" and element.bits > 1:
            return [Value(np.add.reduce(arrays[0], axis=axis, dtype=arrays[0].dtype), types[0])]
    combine = _combine(machine, operation, frame, operands, shape[: axis - 1] + shape[axis:])
    masks = machine.domain.reduction_masks(machine, arrays[0].shape[axis])
    return [Value(d, t) for d, t in zip(fold(arrays, axis, masks, combine), types, strict=True)]


def scan(machine: Machine, operation: Operation, frame: Frame) -> list[Value]:
    """tt.scan, from the front or (reverse) from the back."""
    operands = [frame.get(name) for name in operation.operands]
    axis = operation.integer("axis") + 1
    arrays = [_full_axis(value, axis) for value in operands]
    reverse = operation.flag("reverse")
    if reverse:
        arrays = [np.flip(array, axis) for array in arrays]
    shape = operands[0].type.shape
    op = simple_operation(operation)
    results: list[Array] | None = None
    element = operands[0].type.element
    if op is not None and op in FLOAT_BINARY and element.is_float:
        whole = machine.domain.scan(FLOAT_BINARY[op], arrays[0], axis, element)
        results = None if whole is None else [whole]
    if results is None:
        combine = _combine(machine, operation, frame, operands, shape[: axis - 1] + shape[axis:])
        results = _running(arrays, axis, combine)
    if reverse:
        results = [np.flip(array, axis) for array in results]
    return [Value(d, value.type) for d, value in zip(results, operands, strict=True)]


def simple_operation(operation: Operation) -> str | None:
    """Name of the only operation of a combine region that applies it to the two arguments in either order."""
    block = operation.regions[0].block
    if len(block.operations) != 2 or len(block.arguments) != 2:
        return None
    inner, final = block.operations
    names = [name for name, _ in block.arguments]
    if sorted(inner.operands) != sorted(names) or final.operands != inner.results:
        return None
    return inner.name


def fold(arrays: list[Array], axis: int, masks: list[int], combine: Combine) -> list[Array]:
    """Reduce an axis whose length is a power of two.

    Args:
        arrays: operands, each with the axis at its full length.
        axis: the axis.
        masks: for each step, which index bit is folded: elements i and i ^ mask are combined, the one with the clear
            bit first. Together they are all bits of the index.
        combine: combines two lists of arrays.

    Returns:
        The results, without the axis.

    Raises:
        FpsanError: if the masks do not fold the axis to one element.
    """
    length = arrays[0].shape[axis]
    bits = length.bit_length() - 1
    if length != 1 << bits or sorted(masks) != [1 << i for i in range(bits)]:
        raise FpsanError(f"a reduction of {length} elements cannot be folded with masks {masks}")
    left = list(range(bits))  # index bits that are not folded yet, low to high
    for mask in masks:
        place = left.index(mask.bit_length() - 1)
        low = 1 << place
        split = [a.reshape(*a.shape[:axis], -1, 2, low, *a.shape[axis + 1 :]) for a in arrays]
        first = [a.take(0, axis=axis + 1) for a in split]
        second = [a.take(1, axis=axis + 1) for a in split]
        folded = [a.reshape(*a.shape[:axis], -1, *a.shape[axis + 2 :]) for a in first]
        other = [a.reshape(*a.shape[:axis], -1, *a.shape[axis + 2 :]) for a in second]
        arrays = combine(folded, other)
        left.pop(place)
    return [a.reshape(*a.shape[:axis], *a.shape[axis + 1 :]) for a in arrays]


def _running(arrays: list[Array], axis: int, combine: Combine) -> list[Array]:
    state = [a.take(0, axis=axis) for a in arrays]
    steps = [state]
    for position in range(1, arrays[0].shape[axis]):
        state = combine(state, [a.take(position, axis=axis) for a in arrays])
        steps.append(state)
    results = []
    for number in range(len(arrays)):
        column = np.broadcast_arrays(*(step[number] for step in steps))
        results.append(np.stack(column, axis=axis))
    return results


def _combine(
    machine: Machine, operation: Operation, frame: Frame, operands: list[Value], rest: tuple[int, ...]
) -> Combine:
    """A function on arrays that evaluates the combine region elementwise."""
    op = simple_operation(operation)
    element = operands[0].type.element
    domain = machine.domain
    if op in FLOAT_BINARY and element.is_float:
        float_op = FLOAT_BINARY[op]
        return lambda x, y: [domain.binary(float_op, x[0], y[0], element)]
    function = integer_combine(op) if op is not None and element.kind == "int" and element.bits > 1 else None
    if function is not None:
        return lambda x, y: [function(x[0], y[0])]
    block = operation.regions[0].block
    names = [name for name, _ in block.arguments]
    inner = frame.inner()

    def evaluate(x: list[Array], y: list[Array]) -> list[Array]:
        # Regions are written for scalars; arrays of any shape are scalars to elementwise operations.
        for name, array, value in zip(names, [*x, *y], [*operands, *operands], strict=True):
            inner.values[name] = Value(array, Type((), value.type.element))
        results = [value.array() for value in machine.block(block, inner)]
        return [
            np.broadcast_to(r, np.broadcast_shapes(r.shape, a.shape)) if r.ndim == a.ndim else _aligned(r, a)
            for r, a in zip(results, x, strict=True)
        ]

    return evaluate


def _aligned(result: Array, like: Array) -> Array:
    """A result that does not depend on the operands (a constant) takes their shape."""
    return np.broadcast_to(result.reshape((-1,) + (1,) * (like.ndim - 1)), like.shape)


def _full_axis(value: Value, axis: int) -> Array:
    array = value.array()
    shape = (*array.shape[:axis], value.type.shape[axis - 1], *array.shape[axis + 1 :])
    return np.broadcast_to(array, shape)
