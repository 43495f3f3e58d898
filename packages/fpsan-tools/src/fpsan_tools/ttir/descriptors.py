"""Tensor descriptors: blocks of a tensor that are read and written by coordinates, with an outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir.access import as_address, from_memory, to_memory
from fpsan_tools.ttir.arithmetic import encode
from fpsan_tools.ttir.atomics import update
from fpsan_tools.ttir.parser import Operation
from fpsan_tools.ttir.types import Element, Type
from fpsan_tools.ttir.values import Address, Array, Descriptor, Frame, Value

if TYPE_CHECKING:
    from fpsan_tools.ttir.machine import Machine

Operands = list[Value]

PAD_WITH_NAN = 2
"""Value of the padding attribute for NaN."""


def make_descriptor(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.make_tensor_descriptor: base, sizes, strides."""
    type = operation.types[0][-1]
    rank = len(type.element.block)
    base, numbers = operands[0], [value.array().astype(np.int64) for value in operands[1:]]
    if len(numbers) != 2 * rank:
        raise FpsanError(f"{len(numbers)} sizes and strides for a descriptor of rank {rank}")
    padding = operation.integer("padding", 1) == PAD_WITH_NAN
    descriptor = Descriptor(as_address(base).total(), tuple(numbers[:rank]), tuple(numbers[rank:]), padding)
    return Value(descriptor, type)


def load(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.descriptor_load."""
    return load_block(machine, operands[0], operands[1:], operation.result_type)


def load_block(machine: Machine, source: Value, starts: Operands, type: Type) -> Value:
    """Read a block: elements outside are zero, or NaN where the descriptor says so."""
    descriptor, element, block = _parts(source)
    address, inside = _block(descriptor, element, block, [value.array() for value in starts])
    return _load(machine, descriptor, element, block, address, inside, type)


def store(machine: Machine, operation: Operation, operands: Operands) -> None:
    """tt.descriptor_store."""
    store_block(machine, operands[0], operands[1:-1], operands[-1])


def store_block(machine: Machine, target: Value, starts: Operands, value: Value) -> None:
    """Write a block: elements outside are dropped."""
    descriptor, element, block = _parts(target)
    address, inside = _block(descriptor, element, block, [start.array() for start in starts])
    _store(machine, element, address, inside, value, (1, *block))


def reduce(machine: Machine, operation: Operation, frame: Frame) -> None:
    """tt.descriptor_reduce."""
    target, *starts, value = (frame.get(name) for name in operation.operands)
    reduce_block(machine, target, starts, value, operation.words[0], frame.count)


def reduce_block(machine: Machine, target: Value, starts: Operands, value: Value, kind: str, programs: int) -> None:
    """Update a block atomically."""
    descriptor, element, block = _parts(target)
    address, inside = _block(descriptor, element, block, [start.array() for start in starts])
    array = value.array()
    shaped = Value(array.reshape(array.shape[0], *_aligned_shape(value, block)), Type(block, element))
    update(machine, address, shaped, element, inside, kind, programs)


def gather(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.descriptor_gather."""
    source, rows, column = operands
    return gather_rows(machine, source, rows, column, operation.result_type)


def gather_rows(machine: Machine, source: Value, rows: Value, column: Value, type: Type) -> Value:
    """Read rows by index, from a column on."""
    descriptor, element, block = _parts(source)
    address, inside, shape = _rows(descriptor, element, block, rows, column)
    return _load(machine, descriptor, element, shape, address, inside, type)


def scatter(machine: Machine, operation: Operation, operands: Operands) -> None:
    """tt.descriptor_scatter."""
    target, rows, column, value = operands
    scatter_rows(machine, target, rows, column, value)


def scatter_rows(machine: Machine, target: Value, rows: Value, column: Value, value: Value) -> None:
    """Write rows by index, from a column on."""
    descriptor, element, block = _parts(target)
    address, inside, shape = _rows(descriptor, element, block, rows, column)
    _store(machine, element, address, inside, value, (1, *shape))


def _parts(value: Value) -> tuple[Descriptor, Element, tuple[int, ...]]:
    element = value.type.element
    if not isinstance(value.data, Descriptor) or element.pointee is None:
        raise FpsanError(f"a tensor descriptor is expected, not {value.type}")
    return value.data, element.pointee, element.block


def _axis(values: Array, axis: int, rank: int) -> Array:
    """Put (programs,) or (programs, n) numbers along one axis of a block."""
    shape = [values.shape[0], *([1] * rank)]
    if values.ndim == 2:
        shape[axis + 1] = values.shape[1]
    return values.reshape(shape)


def _locate(descriptor: Descriptor, element: Element, coordinates: list[Array]) -> tuple[Address, Array]:
    """Addresses and the inside of a block with the given coordinates along each axis."""
    rank, width = len(coordinates), element.memory.itemsize
    terms = [_axis(descriptor.base, 0, rank)]
    inside: Array = np.ones((1,) * (rank + 1), bool)
    for axis, places in enumerate(coordinates):
        stride, size = (_axis(v, axis, rank) for v in (descriptor.strides[axis], descriptor.sizes[axis]))
        terms.append(places * stride * width)
        inside = inside & (places >= 0) & (places < size)
    return Address(terms), inside


def _block(
    descriptor: Descriptor, element: Element, block: tuple[int, ...], starts: list[Array]
) -> tuple[Address, Array]:
    rank = len(block)
    coordinates = [
        _axis(start.astype(np.int64), axis, rank) + _axis(np.arange(size)[np.newaxis], axis, rank)
        for axis, (start, size) in enumerate(zip(starts, block, strict=True))
    ]
    return _locate(descriptor, element, coordinates)


def _rows(
    descriptor: Descriptor, element: Element, block: tuple[int, ...], rows: Value, column: Value
) -> tuple[Address, Array, tuple[int, ...]]:
    places = rows.full().astype(np.int64)
    columns = column.array().astype(np.int64)[:, np.newaxis] + np.arange(block[1])
    address, inside = _locate(descriptor, element, [_axis(places, 0, 2), _axis(columns, 1, 2)])
    return address, inside, (places.shape[1], block[1])


def _load(
    machine: Machine,
    descriptor: Descriptor,
    element: Element,
    block: tuple[int, ...],
    address: Address,
    inside: Array,
    type: Type,
) -> Value:
    if descriptor.to_tf32:
        raise FpsanError("descriptors that round to TF32 are not supported; round in the kernel")
    bits, inverse = machine.memory.load(address, inside, element, padded=True)
    if inverse is not None:
        bits = bits.take(inverse, axis=0)
    values = from_memory(machine, bits, element)
    if descriptor.pad_with_nan and not inside.all():
        values = np.where(inside, values, machine.domain.constant(encode(float("nan"), element), element))
    if type.shape != block:  # unit axes of the block may be dropped
        full = np.broadcast_to(values, (values.shape[0], *block))
        values = full.reshape(values.shape[0], *type.shape)
    return Value(values, type)


def _store(
    machine: Machine, element: Element, address: Address, inside: Array, value: Value, shape: tuple[int, ...]
) -> None:
    bits = to_memory(machine, value, element)
    bits = bits.reshape(bits.shape[0], *_aligned_shape(value, shape[1:]))
    terms = address.terms
    full = np.broadcast_to(terms[0], np.broadcast_shapes(terms[0].shape, shape))
    machine.memory.store(Address([full, *terms[1:]]), bits, None if inside.all() else inside, element, padded=True)


def _aligned_shape(value: Value, block: tuple[int, ...]) -> tuple[int, ...]:
    """The block's shape for a tensor that lacks its unit axes (compact axes stay of length 1)."""
    array = value.array()
    if value.type.shape == block:
        return array.shape[1:]
    if array.size == array.shape[0]:
        return (1,) * len(block)
    if array.shape[1:] != value.type.shape:
        raise FpsanError("a block that does not vary along an axis is stored through a descriptor of another rank")
    return block
