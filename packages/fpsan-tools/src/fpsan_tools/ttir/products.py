"""Matrix products."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from fpsan_tools.domains.base import ScaledOperand
from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir.parser import Operation
from fpsan_tools.ttir.values import Array, Frame, Value

if TYPE_CHECKING:
    from fpsan_tools.ttir.machine import Machine


def dot(machine: Machine, operation: Operation, operands: list[Value]) -> Value:
    """tt.dot: a @ b + c, over integers exactly."""
    first, second, accumulator = operands[:3]
    arrays = [value.array() for value in (first, second, accumulator)]
    programs = max(array.shape[0] for array in arrays)
    a, b, c = (value.full(programs) for value in (first, second, accumulator))
    elements = tuple(value.type.element for value in (first, second, accumulator))
    if not elements[2].is_float:
        return Value(integer_dot(a, b, c), accumulator.type)
    precision = operation.attributes.get("inputPrecision", "ieee")
    return Value(machine.domain.dot(machine, a, b, c, elements, precision), accumulator.type)


def integer_dot(a: Array, b: Array, c: Array) -> Array:
    """Sum of 8-bit products in the accumulator's width, wrapping; float64 holds the sums exactly."""
    product = np.matmul(a.astype(np.float64), b.astype(np.float64))
    return np.asarray(product.astype(np.int64).astype(c.dtype) + c)


_SCALED = re.compile(
    r"(?P<a>%\S+?)(?: scale (?P<sa>%\S+?))?,\s*(?P<b>%\S+?)(?: scale (?P<sb>%\S+?))?,\s*(?P<c>%\S+)\s+"
    r"lhs = (?P<fa>\w+) rhs = (?P<fb>\w+)"
)


def dot_scaled(machine: Machine, operation: Operation, frame: Frame) -> Value:
    """tt.dot_scaled: block-scaled products."""
    match = _SCALED.match(operation.head)
    if match is None:
        raise FpsanError(f"scaled product is not understood: {operation.head!r}")
    sides = []
    accumulator = frame.get(match.group("c"))
    used = [match.group(name) for name in ("a", "sa", "b", "sb", "c")]
    programs = max(frame.get(name).array().shape[0] for name in used if name)
    for side, key in (("a", "lhs_k_pack"), ("b", "rhs_k_pack")):
        value = frame.get(match.group(side))
        scale = match.group(f"s{side}")
        sides.append(
            ScaledOperand(
                value.full(programs),
                value.type.element,
                match.group(f"f{side}"),
                frame.get(scale).full(programs) if scale else None,
                operation.attributes.get(key, "true") != "false",
            )
        )
    result = machine.domain.dot_scaled(
        machine, sides[0], sides[1], accumulator.full(programs), accumulator.type.element
    )
    return Value(result, accumulator.type)
