"""Control flow: loops, branches and calls, with programs that take different ways."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir.parser import Operation
from fpsan_tools.ttir.types import Type
from fpsan_tools.ttir.values import Array, Frame, Value, merge

if TYPE_CHECKING:
    from fpsan_tools.ttir.machine import Machine

_FOR = re.compile(
    r"(unsigned\s+)?(?P<iv>%[\w.$\-]+) = (?P<low>\S+) to (?P<high>\S+) step (?P<step>\S+)"
    r"(?:\s+iter_args\((?P<carried>.*?)\) ->)?",
    re.DOTALL,
)
_PAIR = re.compile(r"(%[\w.$\-]+(?:#\d+)?) = (%[\w.$\-]+(?:#\d+)?)")


def for_loop(machine: Machine, operation: Operation, frame: Frame) -> list[Value] | None:
    """scf.for: bounds may differ between programs; those that are done leave the loop."""
    match = _FOR.match(operation.head)
    if match is None:
        raise FpsanError(f"loop header is not understood: {operation.head!r}")
    pairs = _PAIR.findall(match.group("carried") or "")
    low, high, step = (frame.get(match.group(name)) for name in ("low", "high", "step"))
    bounds = [value.array() for value in (low, high, step)]
    if match.group(1):
        bounds = [b.view(f"u{b.dtype.itemsize}").astype(object) for b in bounds]  # Python integers do not wrap
    else:
        bounds = [b.astype(np.int64) for b in bounds]
    starts, ends, steps = bounds
    if (steps == 0).any():
        raise FpsanError("a loop with step 0")
    trips = np.maximum(0, -((starts - ends) // steps)).astype(np.int64)
    carried = [frame.get(source) for _, source in pairs]
    names = [name for name, _ in pairs]
    body = operation.regions[0].block
    variable, variable_type = match.group("iv"), low.type
    dtype = low.array().dtype

    def iterate(inner: Frame, values: list[Value], first: int, last: int, begin: Array, stride: Array) -> list[Value]:
        for trip in range(first, last):
            inner.values[variable] = Value((begin + trip * stride).astype(dtype), variable_type)
            inner.values.update(zip(names, values, strict=True))
            values = machine.block(body, inner)
        return values

    if trips.size == 1:
        carried = iterate(frame.inner(), carried, 0, int(trips[0]), starts, steps)
        return carried if pairs else None
    count = frame.count
    starts, steps = np.broadcast_to(starts, (count,)), np.broadcast_to(steps, (count,))
    active = np.arange(count)
    finished: list[tuple[Array | None, list[Value]]] = []
    done = 0
    for bound in np.unique(trips):
        inner = frame.inner(active)
        carried = iterate(inner, carried, done, int(bound), starts[active], steps[active])
        done = int(bound)
        leaving = trips[active] == bound
        carried_on = np.flatnonzero(~leaving)
        finished.append((active[leaving], [value.rows(np.flatnonzero(leaving)) for value in carried]))
        carried = [value.rows(carried_on) for value in carried]
        active = active[carried_on]
    return merge(count, finished) if pairs else None


WAIT_LIMIT = 100_000
"""Rounds of a loop with atomics after which a program counts as waiting for ever."""


def while_loop(machine: Machine, operation: Operation, frame: Frame) -> list[Value]:
    """scf.while: programs leave when their condition becomes false."""
    pairs = _PAIR.findall(operation.head.split(" : ")[0])
    names = [name for name, _ in pairs]
    before, after = operation.regions[0].block, operation.regions[1].block
    carried = [frame.get(source) for _, source in pairs]
    active = np.arange(frame.count)
    finished: list[tuple[Array | None, list[Value]]] = []
    inner = frame.inner()
    rounds = 0
    while True:
        rounds += 1
        if machine.module.sequential and rounds > WAIT_LIMIT:
            raise FpsanError(
                f"after {WAIT_LIMIT} rounds this loop still waits, perhaps for a later program; programs that wait for "
                "each other cannot be evaluated one after the other"
            )
        inner.values.update(zip(names, carried, strict=True))
        condition, *forwarded = machine.block(before, inner)
        going = np.broadcast_to(condition.array(), (inner.count,))
        if not going.all():
            leaving = np.flatnonzero(~going)
            finished.append((active[leaving], [value.rows(leaving) for value in forwarded]))
            staying = np.flatnonzero(going)
            active = active[staying]
            if not len(active):
                return merge(frame.count, finished)
            forwarded = [value.rows(staying) for value in forwarded]
            inner = frame.inner(active)
        inner.values.update(zip((name for name, _ in after.arguments), forwarded, strict=True))
        carried = machine.block(after, inner)


def branch(machine: Machine, operation: Operation, frame: Frame) -> list[Value] | None:
    """scf.if: each program takes one of the regions."""
    condition = frame.get(operation.operands[0]).array()
    if condition.all():
        groups: list[tuple[Array | None, int]] = [(None, 0)]
    elif not condition.any():
        groups = [(None, 1)]
    else:
        groups = [(np.flatnonzero(condition), 0), (np.flatnonzero(~condition), 1)]
    parts: list[tuple[Array | None, list[Value]]] = []
    for rows, number in groups:
        if number < len(operation.regions):
            parts.append((rows, machine.block(operation.regions[number].block, frame.inner(rows))))
    return merge(frame.count, parts) if operation.results else None


def call(machine: Machine, operation: Operation, frame: Frame) -> list[Value] | None:
    """tt.call of a function that was not inlined."""
    match = re.match(r"@([^\s(]+)", operation.head)
    function = machine.module.functions.get(match.group(1)) if match else None
    if function is None:
        raise FpsanError(f"call of an unknown function: {operation.head!r}")
    inner = frame.inner()
    inner.values.update(zip((name for name, _ in function.arguments), map(frame.get, operation.operands), strict=True))
    returned = machine.region(function.body, inner)
    return returned if operation.results else None


def program_id(machine: Machine, operation: Operation, frame: Frame) -> Value:
    """tt.get_program_id."""
    return frame.get(f"@program.{operation.words[0]}")


def program_count(machine: Machine, operation: Operation, frame: Frame) -> Value:
    """tt.get_num_programs."""
    count = machine.grid["xyz".index(operation.words[0])]
    return Value(np.array([count], np.int32), Type((), operation.result_type.element))
