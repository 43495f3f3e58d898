"""Loads, stores, atomics and pointer arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir.parser import Operation
from fpsan_tools.ttir.types import Element
from fpsan_tools.ttir.values import Address, Array, Value

if TYPE_CHECKING:
    from fpsan_tools.ttir.machine import Machine

Operands = list[Value]


def as_address(value: Value) -> Address:
    """The addresses of a pointer value."""
    return value.data if isinstance(value.data, Address) else Address([value.data])


def pointee(value: Value) -> Element:
    """What a pointer value points to."""
    element = value.type.element.pointee
    if element is None:
        raise FpsanError(f"a pointer is expected, not {value.type}")
    return element


def from_memory(machine: Machine, bits: Array, element: Element) -> Array:
    """Values of the bit patterns that memory holds."""
    if element.is_float:
        return machine.domain.read(bits, element)
    if element.kind == "pointer":
        return machine.memory.pointers(bits.view(np.int64))
    return bits.astype(bool) if element.bits == 1 else bits.view(element.integers)


def to_memory(machine: Machine, value: Value, element: Element) -> Array:
    """Bit patterns to put into memory."""
    data = value.array()
    if element.is_float:
        return machine.domain.write(data, element)
    return data.astype(np.uint8) if element.bits == 1 else data.view(element.memory)


def add_pointer(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.addptr: offsets count elements."""
    pointer, offset = operands
    width = pointee(pointer).memory.itemsize
    return Value(as_address(pointer).plus(offset.data.astype(np.int64) * width), pointer.type)


def load(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.load: pointers, then a mask and what masked-off lanes give (0 if nothing is said)."""
    pointer = operands[0]
    element = pointee(pointer)
    mask = operands[1].data if len(operands) > 1 else None
    bits, inverse = machine.memory.load(as_address(pointer), mask, element)
    data = from_memory(machine, bits, element)
    if inverse is not None:
        data = data.take(inverse, axis=0)
    if mask is not None and len(operands) > 2 and not mask.all():
        data = np.where(mask, data, operands[2].array())
    return Value(data, pointer.type.with_element(element))


def store(machine: Machine, operation: Operation, operands: Operands) -> None:
    """tt.store."""
    pointer, value = operands[:2]
    element = pointee(pointer)
    mask = operands[2].data if len(operands) > 2 else None
    address = as_address(pointer)
    if pointer.type.shape:  # every element is written, also where the value is the same along an axis
        terms = address.terms
        full = (1, *pointer.type.shape)
        address = Address([np.broadcast_to(terms[0], np.broadcast_shapes(terms[0].shape, full)), *terms[1:]])
    machine.memory.store(address, to_memory(machine, value, element), mask, element)
