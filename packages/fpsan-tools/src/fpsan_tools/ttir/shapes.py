"""Operations that move data without computing: splat, broadcast, reshape, transpose, join, split, gather, cat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir.parser import Operation
from fpsan_tools.ttir.values import Address, Array, Value

if TYPE_CHECKING:
    from fpsan_tools.ttir.machine import Machine

Operands = list[Value]


def splat(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.splat: the same scalar everywhere, so every axis stays of length 1."""
    type = operation.result_type
    return operands[0].map(lambda array: array.reshape((-1,) + (1,) * len(type.shape)), type)


def unsplat(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.unsplat: the only element of a tensor."""
    return operands[0].map(lambda array: array.reshape(-1), operation.result_type)


def broadcast(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.broadcast: only the type changes."""
    return Value(operands[0].data, operation.result_type)


def expand_dims(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.expand_dims."""
    axis = operation.integer("axis") + 1
    return operands[0].map(lambda array: np.expand_dims(array, axis), operation.result_type)


def reshape(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.reshape in row-major order, or in the domain's where the compiler may reorder."""
    type = operation.result_type
    order: Array | None = None
    if operation.attributes.get("allow_reorder") or "allow_reorder" in operation.words:
        order = machine.domain.reshape_order(machine)

    def reshaped(array: Array) -> Array:
        if array.size == array.shape[0]:
            return array.reshape((-1,) + (1,) * len(type.shape))
        full = np.broadcast_to(array, (array.shape[0], *operands[0].type.shape))
        if order is not None:
            full = full.reshape(array.shape[0], -1)[:, order]
        return full.reshape((array.shape[0], *type.shape))

    return operands[0].map(reshaped, type)


def transpose(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.trans."""
    order = operation.integers("order")
    return operands[0].map(lambda array: array.transpose(0, *(axis + 1 for axis in order)), operation.result_type)


def join(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.join: two tensors along a new last axis."""
    arrays = np.broadcast_arrays(*(value.array() for value in operands))
    return Value(np.stack(arrays, axis=-1), operation.result_type)


def split(machine: Machine, operation: Operation, operands: Operands) -> list[Value]:
    """tt.split: undo a join."""
    value = operands[0]
    array = np.broadcast_to(value.array(), (*value.array().shape[:-1], 2))
    type = value.type.with_shape(value.type.shape[:-1])
    return [Value(array[..., i], type) for i in range(2)]


def cat(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.cat: its order of elements is not defined, so tensors are put one after the other."""
    machine.note("tl.cat may reorder elements on a GPU; here they keep their order")
    programs = max(value.array().shape[0] for value in operands)
    return Value(np.concatenate([value.full(programs) for value in operands], axis=1), operation.result_type)


def gather(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.gather: take elements along an axis by index."""
    axis = operation.integer("axis") + 1
    source, index = operands
    programs = max(source.array().shape[0], index.array().shape[0])
    places = index.full(programs).astype(np.int64)
    length = source.type.shape[axis - 1]
    if places.size and (int(places.min()) < 0 or int(places.max()) >= length):
        raise FpsanError(f"gather index out of range: axis {axis - 1} has {length} elements")
    return Value(np.take_along_axis(source.full(programs), places, axis=axis), operation.result_type)


def unchanged(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """An operation that only changes where data lives (ttg.convert_layout)."""
    return Value(operands[0].data, operation.result_type)


def make_range(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.make_range."""
    start, end = operation.integer("start"), operation.integer("end")
    return Value(np.arange(start, end, dtype=np.int32)[np.newaxis], operation.result_type)


def select(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """arith.select: a scalar condition may choose between tensors."""
    condition, first, second = operands
    chooser = condition.array()
    if not condition.type.shape and first.type.shape:
        chooser = chooser.reshape((-1,) + (1,) * len(first.type.shape))
    type = operation.result_type
    if isinstance(first.data, np.ndarray):
        return Value(np.where(chooser, first.data, second.data), type)
    if chooser.all():
        return Value(first.data, type)
    if not chooser.any():
        return Value(second.data, type)
    if type.element.kind != "pointer":
        raise FpsanError("a choice between tensor descriptors that differs between programs")
    return Value(Address([np.where(chooser, first.array(), second.array())]), type)
