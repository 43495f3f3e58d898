"""Reductions and scans: fold an axis with the operations of a region, in the order that the domain gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fpsan_tools.domains.base import Combine
from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir.arithmetic import FLOAT_BINARY, integer_combine
from fpsan_tools.ttir.parser import Operation
from fpsan_tools.ttir.types import Type
from fpsan_tools.ttir.values import Array, Frame, Value

if TYPE_CHECKING:
    from fpsan_tools.ttir.machine import Machine


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
    combine = _combine(machine, operation, frame, operands)
    length = arrays[0].shape[axis]
    if any(value.type.element.is_float for value in operands):
        masks = machine.domain.reduction_masks(machine, length)
    else:  # integers do not round
        masks = [1 << bit for bit in range(length.bit_length() - 1)]
    steps = [(mask, combine) for mask in masks]
    return [Value(d, t) for d, t in zip(fold(arrays, axis, steps), types, strict=True)]


def contracted_sum(machine: Machine, operation: Operation, frame: Frame) -> list[Value]:
    """A sum of products whose first step takes up the products: fma(x, y, product of the partner)."""
    first, second = (frame.get(name) for name in operation.operands)
    axis = operation.integer("axis") + 1
    element, shape = first.type.element, first.type.shape
    programs = max(first.array().shape[0], second.array().shape[0])
    pair = [value.full(programs) for value in (first, second)]
    domain = machine.domain
    combine = _combine(machine, operation, frame, [first])
    steps = [(mask, combine) for mask in domain.reduction_masks(machine, shape[axis - 1])]
    if steps and domain.contracts_first_step(machine):

        def contract(x: list[Array], y: list[Array]) -> list[Array]:
            return [domain.fma(x[0], x[1], domain.binary("mul", y[0], y[1], element), element)]

        steps[0] = (steps[0][0], contract)
        arrays = pair
    else:
        arrays = [domain.binary("mul", pair[0], pair[1], element)]
    type = first.type.with_shape(shape[: axis - 1] + shape[axis:])
    return [Value(fold(arrays, axis, steps)[0], type)]


def scan(machine: Machine, operation: Operation, frame: Frame) -> list[Value]:
    """tt.scan, from the front or (reverse) from the back."""
    operands = [frame.get(name) for name in operation.operands]
    axis = operation.integer("axis") + 1
    arrays = [_full_axis(value, axis) for value in operands]
    reverse = operation.flag("reverse")
    if reverse:
        arrays = [np.flip(array, axis) for array in arrays]
    op = simple_operation(operation)
    results: list[Array] | None = None
    element = operands[0].type.element
    if op is not None and op in FLOAT_BINARY and element.is_float:
        whole = machine.domain.scan(FLOAT_BINARY[op], arrays[0], axis, element)
        results = None if whole is None else [whole]
    if results is None:
        combine = _combine(machine, operation, frame, operands)
        results = machine.domain.scan_steps(machine, arrays, axis, combine)
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


def fold(arrays: list[Array], axis: int, steps: list[tuple[int, Combine]]) -> list[Array]:
    """Reduce an axis whose length is a power of two.

    Args:
        arrays: operands, each with the axis at its full length.
        axis: the axis.
        steps: which index bit is folded and what combines the halves: elements i and i ^ mask, the one with the clear
            bit first. The masks together are all bits of the index.

    Returns:
        The results, without the axis.

    Raises:
        FpsanError: if the masks do not fold the axis to one element.
    """
    length = arrays[0].shape[axis]
    bits = length.bit_length() - 1
    masks = [mask for mask, _ in steps]
    if length != 1 << bits or sorted(masks) != [1 << i for i in range(bits)]:
        raise FpsanError(f"a reduction of {length} elements cannot be folded with masks {masks}")
    left = list(range(bits))  # index bits that are not folded yet, low to high
    before: tuple[Any, ...] = (slice(None),) * (axis + 1)
    for mask, combine in steps:
        place = left.index(mask.bit_length() - 1)
        halves: tuple[list[Array], list[Array]] = ([], [])
        for array in arrays:
            split = array.reshape(*array.shape[:axis], -1, 2, 1 << place, *array.shape[axis + 1 :])
            for half, number in zip(halves, (0, 1), strict=True):
                half.append(split[(*before, number)].reshape(*array.shape[:axis], -1, *array.shape[axis + 1 :]))
        arrays = combine(*halves)
        left.pop(place)
    return [a.reshape(*a.shape[:axis], *a.shape[axis + 1 :]) for a in arrays]


def _combine(machine: Machine, operation: Operation, frame: Frame, operands: list[Value]) -> Combine:
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
