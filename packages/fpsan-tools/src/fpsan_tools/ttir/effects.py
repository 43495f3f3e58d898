"""What a kernel tells its author: assertions, assumptions and prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fpsan_tools.domains.formats import NATIVE, widen
from fpsan_tools.exceptions import AssertionViolated
from fpsan_tools.ttir.parser import Operation
from fpsan_tools.ttir.types import UNSIGNED
from fpsan_tools.ttir.values import Array, Frame, Value

if TYPE_CHECKING:
    from fpsan_tools.ttir.machine import Machine


def assertion(machine: Machine, operation: Operation, frame: Frame) -> None:
    """tt.assert: tl.device_assert, and the overflow checks of debug mode."""
    message = operation.strings[0] if operation.strings else ""
    _require(frame, operation, f"assertion failed{': ' if message else ''}{message}")


def assumption(machine: Machine, operation: Operation, frame: Frame) -> None:
    """llvm.intr.assume: tl.assume; the compiler may do anything where it is wrong."""
    _require(frame, operation, "tl.assume does not hold")


def _require(frame: Frame, operation: Operation, text: str) -> None:
    condition = frame.get(operation.operands[0]).array()
    if condition.all():
        return
    good = np.broadcast_to(condition, (frame.count, *condition.shape[1:]))
    program = int(np.argmin(good.reshape(frame.count, -1).all(axis=1)))
    raise AssertionViolated(f"{text} (first in program {_coordinates(frame, program)})")


def _coordinates(frame: Frame, row: int) -> tuple[int, ...]:
    numbers = (frame.get(f"@program.{axis}").array() for axis in "xyz")
    return tuple(int(n[row % len(n)]) for n in numbers)


def show(machine: Machine, operation: Operation, frame: Frame) -> None:
    """tt.print: a line per element, as on a GPU; recorded and written to standard output."""
    label = operation.strings[0].strip().rstrip(":") if operation.strings else ""
    hexadecimal = operation.flag("hex")
    signs = operation.integers("isSigned") if "isSigned" in operation.attributes else []
    operands = [frame.get(name) for name in operation.operands]
    lines: list[str] = []
    for row in range(frame.count):
        place = ", ".join(map(str, _coordinates(frame, row)))
        if not operands:
            lines.append(f"pid ({place}) {label}")
        for number, value in enumerate(operands):
            shown = _printable(machine, value, hexadecimal, bool(signs[number]) if number < len(signs) else True)
            full = np.broadcast_to(shown, (frame.count, *value.type.shape))[row]
            suffix = f" (operand {number})" if len(operands) > 1 else ""
            for index in np.ndindex(full.shape):
                where = f" idx ({', '.join(map(str, index))})" if index else ""
                lines.append(f"pid ({place}){where} {label}:{suffix} {full[index]}")
    machine.printed += lines
    print("\n".join(lines))


def _printable(machine: Machine, value: Value, hexadecimal: bool, signed: bool) -> Array:
    array, element = value.array(), value.type.element
    if element.is_float:
        bits = machine.domain.bits(array, element)
        if hexadecimal:
            return _hexadecimal(bits)
        native = NATIVE.get(element.name)
        return widen(bits.view(native) if native is not None else bits, element)
    if hexadecimal or element.kind == "pointer":
        return _hexadecimal(array)
    if array.dtype.kind == "i" and not signed:
        return array.view(UNSIGNED[array.dtype.itemsize * 8])
    return array


def _hexadecimal(array: Array) -> Array:
    digits = array.dtype.itemsize * 2
    mask = (1 << (4 * digits)) - 1
    return np.array([f"0x{int(item) & mask:0{digits}x}" for item in array.reshape(-1)], object).reshape(array.shape)
