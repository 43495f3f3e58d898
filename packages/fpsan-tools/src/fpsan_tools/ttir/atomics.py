"""Atomic operations: programs, and the lanes of a program, take turns in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir.access import as_address, from_memory, pointee, to_memory
from fpsan_tools.ttir.arithmetic import integer_combine
from fpsan_tools.ttir.parser import Operation
from fpsan_tools.ttir.types import SIGNED, Element
from fpsan_tools.ttir.values import Address, Array, Frame, Value

if TYPE_CHECKING:
    from fpsan_tools.ttir.machine import Machine

Operands = list[Value]

_KINDS = {
    "add": "arith.addi",
    "and": "arith.andi",
    "or": "arith.ori",
    "xor": "arith.xori",
    "max": "arith.maxsi",
    "min": "arith.minsi",
    "umax": "arith.maxui",
    "umin": "arith.minui",
}

Update = Callable[[Array, Array], Array]
"""New bit patterns from the old ones and the operands at some positions."""


def read_modify_write(machine: Machine, operation: Operation, frame: Frame) -> Value:
    """tt.atomic_rmw; its result is what was there before. Every program takes part, also where all do the same."""
    operands = [frame.get(name) for name in operation.operands]
    pointer, value = operands[:2]
    mask = operands[2].data if len(operands) > 2 else None
    element = pointee(pointer)
    old = update(machine, as_address(pointer), value, element, mask, operation.words[0], frame.count)
    return Value(from_memory(machine, old, element), pointer.type.with_element(element))


def update(
    machine: Machine, address: Address, value: Value, element: Element, mask: Array | None, kind: str, programs: int
) -> Array:
    """Apply one kind of atomic update.

    Args:
        machine: the evaluation.
        address: byte addresses.
        value: the operand.
        element: the type of what is in memory.
        mask: live lanes, None for all.
        kind: "add", "fadd", "max", "exch", ... as the text has it.
        programs: number of programs, each of which applies the update.

    Returns:
        The patterns that were there before, of the operand's full shape; 0 in masked-off lanes.
    """
    bits = to_memory(machine, value, element)
    shape = _shape(address, bits, mask, (programs, *value.type.shape))
    if kind == "exch":
        return _apply(machine, address, bits, mask, shape, element, lambda old, new: new)
    if kind == "fadd" or (kind in ("add", "max", "min") and element.is_float):
        op = {"fadd": "add", "add": "add", "max": "maxnum", "min": "minnum"}[kind]
        if op == "add":
            machine.note(machine.domain.atomic_note())

        def combine(old: Array, new: Array) -> Array:
            x, y = machine.domain.read(old, element), machine.domain.read(new, element)
            return machine.domain.write(machine.domain.binary(op, x, y, element), element)

        return _apply(machine, address, bits, mask, shape, element, combine)
    name = _KINDS.get(kind)
    function = integer_combine(name) if name is not None else None
    if function is None:
        raise FpsanError(f"atomic operation {kind!r} is not supported (known: {', '.join([*_KINDS, 'exch', 'fadd'])})")
    if kind == "add":
        return _apply_add(machine, address, bits, mask, shape, element)
    signed = SIGNED[bits.dtype.itemsize * 8]

    def integers(old: Array, new: Array) -> Array:
        return function(old.view(signed), new.view(signed)).view(old.dtype)

    return _apply(machine, address, bits, mask, shape, element, integers)


def compare_and_swap(machine: Machine, operation: Operation, frame: Frame) -> Value:
    """tt.atomic_cas: the value is written where memory holds the expected bits."""
    pointer, expected, value = (frame.get(name) for name in operation.operands)
    element = pointee(pointer)
    wanted = to_memory(machine, expected, element)
    bits = to_memory(machine, value, element)
    shape = _shape(as_address(pointer), bits, wanted, (frame.count, *value.type.shape))
    pair = np.empty(shape, [("wanted", bits.dtype), ("bits", bits.dtype)])
    pair["wanted"], pair["bits"] = wanted, bits

    def swap(old: Array, new: Array) -> Array:
        return np.where(old == new["wanted"], new["bits"], old)

    old = _apply(machine, as_address(pointer), pair, None, shape, element, swap)
    return Value(from_memory(machine, old, element), pointer.type.with_element(element))


def poll(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.atomic_poll: wait for a value; here it must be there already."""
    pointer, expected = operands[:2]
    element = pointee(pointer)
    bits, _ = machine.memory.load(as_address(pointer), None, element)
    equal = bits == to_memory(machine, expected, element)
    if not equal.all():
        raise FpsanError("waits for a value that no earlier program has written; programs run one after the other")
    return Value(equal, operation.types[0][-1].with_element(Element("int", "i1", 1)))


def _shape(address: Address, bits: Array, other: Array | None, full: tuple[int, ...]) -> tuple[int, ...]:
    shapes = [address.shape, bits.shape, full] + ([] if other is None else [other.shape])
    return np.broadcast_shapes(*shapes)


def _positions(
    machine: Machine, address: Address, mask: Array | None, shape: tuple[int, ...], element: Element
) -> tuple[Array, Array]:
    """Addresses of the live lanes in order, and their places in the flattened shape."""
    total = np.broadcast_to(address.total(), shape).reshape(-1)
    places = np.arange(total.size)
    if mask is not None:
        live = np.broadcast_to(mask, shape).reshape(-1)
        places, total = places[live], total[live]
    machine.memory.require_writable(total, element)
    return total, places


def _apply(
    machine: Machine,
    address: Address,
    operands: Array,
    mask: Array | None,
    shape: tuple[int, ...],
    element: Element,
    function: Update,
) -> Array:
    """Update one place after the other; lanes that share an address take turns."""
    total, places = _positions(machine, address, mask, shape, element)
    new = np.broadcast_to(operands, shape).reshape(-1)[places]
    old = np.zeros(int(np.prod(shape)), machine.memory.patterns(element))
    order = np.argsort(total, kind="stable")
    ranked = total[order]
    first = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]])) if len(ranked) else np.arange(0)
    lengths = np.diff(np.concatenate([first, [len(ranked)]]))
    rank = np.arange(len(ranked)) - np.repeat(first, lengths)
    for turn in range(int(lengths.max()) if len(lengths) else 0):
        now = order[rank == turn]
        before = machine.memory.peek(total[now], element)
        old[places[now]] = before
        machine.memory.poke(total[now], function(before, new[now]), element)
    return old.reshape(shape)


def _apply_add(
    machine: Machine,
    address: Address,
    operands: Array,
    mask: Array | None,
    shape: tuple[int, ...],
    element: Element,
) -> Array:
    """Integer additions commute, so running sums within each address replace turns."""
    total, places = _positions(machine, address, mask, shape, element)
    new = np.broadcast_to(operands, shape).reshape(-1)[places]
    old = np.zeros(int(np.prod(shape)), operands.dtype)
    if len(total):
        order = np.argsort(total, kind="stable")
        ranked, added = total[order], new[order]
        first = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
        lengths = np.diff(np.concatenate([first, [len(ranked)]]))
        running = np.cumsum(added, dtype=operands.dtype)
        exclusive = running - added
        before = machine.memory.peek(ranked[first], element)
        old[places[order]] = np.repeat(before - exclusive[first], lengths) + exclusive
        last = first + lengths - 1
        machine.memory.poke(ranked[first], before + running[last] - exclusive[first], element)
    return old.reshape(shape)
