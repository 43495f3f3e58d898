"""Shared memory and matrix instructions of TTGIR without pipelines: every step is complete before the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir import descriptors, shapes
from fpsan_tools.ttir.access import as_address
from fpsan_tools.ttir.parser import Operation
from fpsan_tools.ttir.products import integer_dot
from fpsan_tools.ttir.values import Array, Descriptor, Frame, Value

if TYPE_CHECKING:
    from fpsan_tools.ttir.machine import Machine

Operands = list[Value]


class Cell:
    """A buffer in shared memory that is written after it was allocated."""

    __slots__ = ("content",)

    def __init__(self) -> None:
        self.content: Array | None = None

    def read(self) -> Array:
        """What was written.

        Raises:
            FpsanError: if nothing was.
        """
        if self.content is None:
            raise FpsanError("shared memory is read before it was written")
        return self.content


class View:
    """Another shape of a buffer; what is written to the buffer later is seen through it."""

    __slots__ = ("_reshaped", "_source")

    def __init__(self, source: Value, reshaped: Callable[[Value], Value]) -> None:
        self._source = source
        self._reshaped = reshaped

    def read(self) -> Array:
        """What the buffer holds, in this shape."""
        return self._reshaped(Value(contents(self._source), self._source.type)).array()


def allocate(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """ttg.local_alloc: with a tensor its content, else an empty buffer."""
    if operands:
        return Value(operands[0].data, operation.result_type)
    return Value(Cell(), operation.result_type)


def read(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """ttg.local_load."""
    return Value(contents(operands[0]), operation.result_type)


def write(machine: Machine, operation: Operation, operands: Operands) -> None:
    """ttg.local_store."""
    _put(operands[1], operands[0].array())


def contents(value: Value) -> Array:
    """The array of a tensor in shared memory."""
    return value.data.read() if isinstance(value.data, Cell | View) else value.array()


def _put(target: Value, content: Array) -> None:
    if not isinstance(target.data, Cell):
        raise FpsanError("a store to shared memory that was allocated with content")
    target.data.content = content


def transpose(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """ttg.memdesc_trans."""
    return _viewed(operands[0], operation, lambda value: shapes.transpose(machine, operation, [value]))


def reshape(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """ttg.memdesc_reshape."""
    return _viewed(operands[0], operation, lambda value: shapes.reshape(machine, operation, [value]))


def _viewed(source: Value, operation: Operation, reshaped: Callable[[Value], Value]) -> Value:
    if isinstance(source.data, Cell | View):
        return Value(View(source, reshaped), operation.result_type)
    return reshaped(Value(contents(source), source.type))


def warp_group_dot(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """ttng.warp_group_dot: a product on the matrix unit of a warp group."""
    first, second = (Value(contents(value), value.type) for value in operands[:2])
    accumulator = operands[2]
    start = accumulator.array()
    if len(operands) > 3:  # whether the accumulator is used at all
        use = operands[3].array().reshape((-1,) + (1,) * len(accumulator.type.shape))
        start = np.where(use, start, np.zeros(1, start.dtype))
    programs = max(first.array().shape[0], second.array().shape[0], start.shape[0])
    a, b, c = (v.full(programs) for v in (first, second, Value(start, accumulator.type)))
    elements = (first.type.element, second.type.element, accumulator.type.element)
    if not elements[2].is_float:
        return Value(integer_dot(a, b, c), accumulator.type)
    precision = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")[operation.integer("inputPrecision", 0)]
    return Value(machine.domain.dot(machine, a, b, c, elements, precision), accumulator.type)


def wait(machine: Machine, operation: Operation, operands: Operands) -> list[Value]:
    """ttng.warp_group_dot_wait: hands its operands on."""
    return list(operands)


# ---- copies by descriptor (TMA)


def copy_in(machine: Machine, operation: Operation, frame: Frame) -> None:
    """ttng.async_tma_copy_global_to_local: a block of a descriptor into a buffer."""
    descriptor, *rest = (frame.get(name) for name in operation.operands)
    rank = len(descriptor.type.element.block)
    loaded = descriptors.load_block(machine, descriptor, rest[:rank], rest[rank].type)
    _put(rest[rank], loaded.full(frame.count))


def copy_out(machine: Machine, operation: Operation, frame: Frame) -> None:
    """ttng.async_tma_copy_local_to_global and ttng.async_tma_reduce."""
    descriptor, *rest = (frame.get(name) for name in operation.operands)
    value = Value(contents(rest[-1]), rest[-1].type)
    if operation.name == "ttng.async_tma_reduce":
        descriptors.reduce_block(machine, descriptor, rest[:-1], value, operation.words[0], frame.count)
    else:
        descriptors.store_block(machine, descriptor, rest[:-1], value)


def gather(machine: Machine, operation: Operation, frame: Frame) -> None:
    """ttng.async_tma_gather."""
    descriptor, rows, column, _, target, *_ = (frame.get(name) for name in operation.operands)
    loaded = descriptors.gather_rows(machine, descriptor, rows, column, target.type)
    _put(target, loaded.full(frame.count))


def scatter(machine: Machine, operation: Operation, frame: Frame) -> None:
    """ttng.async_tma_scatter."""
    descriptor, rows, column, source = (frame.get(name) for name in operation.operands)
    descriptors.scatter_rows(machine, descriptor, rows, column, Value(contents(source), source.type))


def scratch(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """ttg.global_scratch_alloc: only descriptors are put there, see `make_descriptor`."""
    return Value(np.zeros(1, np.int64), operation.result_type)


def make_descriptor(machine: Machine, operation: Operation, frame: Frame) -> None:
    """ttng.tensormap_create: remember a descriptor under the name of the scratch memory that holds it.

    Sizes and strides are given minor axis first, strides in bytes and without the minor one.
    """
    groups = operation.head.split("[")
    counts = [group.split("]")[0].count("%") for group in groups[1:]]
    values = [frame.get(name) for name in operation.operands]
    _, base, *numbers = values
    arrays = [number.array().astype(np.int64) for number in numbers]
    boxes, sizes, strides = counts[0], counts[1], counts[2]
    size_arrays = arrays[boxes : boxes + sizes]
    stride_arrays = arrays[boxes + sizes : boxes + sizes + strides]
    width = base.type.element.pointee.memory.itemsize if base.type.element.pointee is not None else 1
    scaled = [np.ones(1, np.int64), *(stride // width for stride in stride_arrays)]
    descriptor = Descriptor(
        as_address(base).total(),
        tuple(reversed(size_arrays)),
        tuple(reversed(scaled)),
        operation.integer("fill_mode", 0) == 1,
    )
    frame.values[f"@descriptor:{operation.operands[0]}"] = Value(descriptor, base.type)


def descriptor_of(machine: Machine, operation: Operation, frame: Frame) -> Value:
    """ttng.reinterpret_tensor_descriptor: the descriptor that was put there."""
    return Value(frame.get(f"@descriptor:{operation.operands[0]}").data, operation.result_type)
