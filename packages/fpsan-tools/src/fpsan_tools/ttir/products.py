"""Matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fpsan_tools.ttir.parser import Operation
from fpsan_tools.ttir.values import Array, Value

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
