"""Integer arithmetic as the compiler defines it, and the bridge from float operations to the domain."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir.parser import Operation
from fpsan_tools.ttir.types import I1, UNSIGNED, Element, parse_type, split_top
from fpsan_tools.ttir.values import Address, Array, Value

if TYPE_CHECKING:
    from fpsan_tools.ttir.machine import Machine

Operands = list[Value]
Handler = Callable[["Machine", Operation, Operands], Any]


def unsigned(array: Array) -> Array:
    """The same bits, read as unsigned."""
    return array.view(UNSIGNED[array.dtype.itemsize * 8]) if array.dtype.kind == "i" else array


def _as_unsigned(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def wrapped(x: Array, y: Array) -> Array:
        return np.asarray(function(unsigned(x), unsigned(y))).view(x.dtype)

    return wrapped


def _nonzero(y: Array) -> Array:
    """Division by zero is undefined in the compiler; here it counts as division by 1, in every domain."""
    return np.where(y == 0, y.dtype.type(1), y)


def _divide(x: Array, y: Array) -> Array:
    """Toward zero; the most negative value by -1 wraps."""
    y = _nonzero(y)
    quotient = np.where(y == -1, np.negative(x), (x - np.fmod(x, np.where(y == -1, y.dtype.type(1), y))) // y)
    return np.asarray(quotient)


def _remainder(x: Array, y: Array) -> Array:
    y = _nonzero(y)
    return np.asarray(np.where(y == -1, x.dtype.type(0), np.fmod(x, np.where(y == -1, y.dtype.type(1), y))))


def _shift(function: Callable[..., Array], arithmetic: bool = False) -> Callable[[Array, Array], Array]:
    """Shifting by the width or more is undefined in the compiler; here it gives what shifting bit by bit would."""

    def wrapped(x: Array, y: Array) -> Array:
        width = x.dtype.itemsize * 8
        amount = unsigned(y)
        too_far = amount >= width
        result = function(x, np.where(too_far, amount.dtype.type(width - 1), amount).astype(x.dtype))
        if not too_far.any():
            return result
        beyond = np.where(x < 0, x.dtype.type(-1), x.dtype.type(0)) if arithmetic else x.dtype.type(0)
        return np.asarray(np.where(too_far, beyond, result))

    return wrapped


def _logical_right(x: Array, y: Array) -> Array:
    return np.right_shift(unsigned(x), unsigned(y)).view(x.dtype)


_INTEGER: dict[str, Callable[[Array, Array], Array]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.minui": _as_unsigned(np.minimum),
    "arith.maxui": _as_unsigned(np.maximum),
    "arith.divsi": _divide,
    "arith.remsi": _remainder,
    "arith.divui": _as_unsigned(lambda x, y: x // _nonzero(y)),
    "arith.remui": _as_unsigned(lambda x, y: x % _nonzero(y)),
    "arith.shli": _shift(np.left_shift),
    "arith.shrsi": _shift(np.right_shift, arithmetic=True),
    "arith.shrui": _shift(_logical_right),
}

# On one bit, the integers are 0 and -1 (signed) or 1 (unsigned).
_BOOLEAN: dict[str, Callable[[Array, Array], Array]] = {
    "arith.addi": np.logical_xor,
    "arith.subi": np.logical_xor,
    "arith.muli": np.logical_and,
    "arith.andi": np.logical_and,
    "arith.ori": np.logical_or,
    "arith.xori": np.logical_xor,
    "arith.minsi": np.logical_or,
    "arith.maxsi": np.logical_and,
    "arith.minui": np.logical_and,
    "arith.maxui": np.logical_or,
}


def integer(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """A two-operand integer operation."""
    first, second = operands
    element = first.type.element
    if element.kind != "int" or second.type.element.kind != "int":
        raise FpsanError(f"integer operation on {element.name} and {second.type.element.name}")
    if element.bits == 1:
        function = _BOOLEAN.get(operation.name)
        if function is None:
            raise FpsanError("not defined on single bits")
        return Value(function(first.data, second.data), first.type)
    return Value(_INTEGER[operation.name](first.data, second.data), first.type)


def integer_combine(name: str) -> Callable[[Array, Array], Array] | None:
    """The array function of an associative integer operation, for reductions."""
    return _INTEGER.get(name)


_COMPARE: dict[str, Callable[..., Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def compare_integers(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """arith.cmpi."""
    predicate = operation.words[0]
    x, y = operands[0].array(), operands[1].array()
    if x.dtype == np.bool_ and predicate[0] == "s":  # a set bit is -1
        x, y = -x.astype(np.int8), -y.astype(np.int8)
    if predicate[0] == "u":
        x, y = unsigned(x), unsigned(y)
    function = _COMPARE[predicate if predicate in ("eq", "ne") else predicate[1:]]
    return Value(function(x, y), operands[0].type.with_element(I1))


def high_product(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.mulhiui: the upper half of the unsigned product."""
    x, y = (unsigned(value.data) for value in operands)
    return Value(_high_half(x, y).view(operands[0].data.dtype), operands[0].type)


def _high_half(x: Array, y: Array) -> Array:
    if x.dtype.itemsize < 8:
        wide = x.astype(np.uint64) * y.astype(np.uint64)
        return (wide >> np.uint64(x.dtype.itemsize * 8)).astype(x.dtype)
    low_mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x_low, x_high, y_low, y_high = x & low_mask, x >> half, y & low_mask, y >> half
    middle = x_high * y_low + ((x_low * y_low) >> half)
    other = x_low * y_high + (middle & low_mask)
    return np.asarray(x_high * y_high + (middle >> half) + (other >> half))


def extended_product(machine: Machine, operation: Operation, operands: Operands) -> list[Value]:
    """arith.mului_extended and arith.mulsi_extended: lower and upper half of a product."""
    first, second = operands
    x, y = unsigned(first.data), unsigned(second.data)
    high = _high_half(x, y)
    if operation.name == "arith.mulsi_extended":
        high = high - np.where(first.data < 0, y, 0).astype(x.dtype) - np.where(second.data < 0, x, 0).astype(x.dtype)
    dtype = first.data.dtype
    return [Value((x * y).view(dtype), first.type), Value(high.view(dtype), first.type)]


def absolute_integer(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """math.absi; the most negative value stays."""
    return Value(np.abs(operands[0].data), operands[0].type)


def count_bits(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """math.ctpop, math.ctlz and math.cttz."""
    data = operands[0].data
    x = unsigned(data)
    width = x.dtype.itemsize * 8
    if operation.name == "math.ctpop":
        count = np.bitwise_count(x)
    elif operation.name == "math.cttz":
        count = np.where(x == 0, width, np.bitwise_count((x & (~x + x.dtype.type(1))) - x.dtype.type(1)))
    else:
        filled = x.copy()
        step = 1
        while step < width:
            filled |= filled >> x.dtype.type(step)
            step *= 2
        count = width - np.bitwise_count(filled).astype(np.int64)
    return Value(count.astype(data.dtype), operands[0].type)


# ---- constants


def constant(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """arith.constant: a scalar, a splat or a list of elements."""
    cached = operation.attributes.get("@value")
    if isinstance(cached, tuple) and cached[0] is machine.domain:
        value: Value = cached[1]
        return value
    text, type = operation.head.strip(), operation.types[0][0] if operation.types[0] else None
    if type is None:  # `arith.constant true` prints no type
        type = parse_type("i1")
    if text.startswith("dense<"):
        text = text[len("dense<") : -1]
    if text.startswith("["):
        items = split_top(text.replace("[", "").replace("]", ""))
        data = np.concatenate([literal(machine, item, type.element) for item in items])
        data = data.reshape((1, *type.shape))
    else:
        data = literal(machine, text, type.element).reshape((1,) * (len(type.shape) + 1))
    result = Value(data, type)
    operation.attributes["@value"] = (machine.domain, result)  # type: ignore[assignment]
    return result


def literal(machine: Machine, text: str, element: Element) -> Array:
    """One element written in the text, as an array of shape (1,)."""
    if element.is_float:
        return machine.domain.constant(float_bits(text, element), element)
    number = {"true": 1, "false": 0}.get(text)
    value = int(text, 0) if number is None else number
    if element.bits == 1:
        return np.array([bool(value)])
    return (
        np.array([value & ((1 << element.bits) - 1)], np.uint64).astype(UNSIGNED[element.bits]).view(element.integers)
    )


def float_bits(text: str, element: Element) -> int:
    """Bit pattern of a float literal: hexadecimal ones are patterns, decimal ones were printed exactly enough."""
    if re.match(r"-?0x", text):
        return int(text, 16)
    return encode(float(text), element)


def encode(value: float, element: Element) -> int:
    """Bit pattern of the nearest value of a float type."""
    from fpsan_tools.domains.formats import format_of

    return int(np.asarray(format_of(element).encode(np.array([value], np.float64))).reshape(-1)[0])


# ---- casts


def cast_integers(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """arith.extsi, extui, trunci, index_cast, index_castui."""
    value, target = operands[0], operation.result_type
    data, name = value.data, operation.name
    if target.element.bits == 1:
        return Value((data & 1).astype(bool) if data.dtype != np.bool_ else data, target)
    dtype = target.element.integers
    if data.dtype == np.bool_:
        return Value(-data.astype(dtype) if name in ("arith.extsi", "arith.index_cast") else data.astype(dtype), target)
    if name in ("arith.extui", "arith.index_castui"):
        return Value(unsigned(data).astype(UNSIGNED[target.element.bits]).view(dtype), target)
    return Value(data.astype(dtype), target)


def cast_floats(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """arith.extf, arith.truncf, tt.fp_to_fp."""
    value, target = operands[0], operation.result_type
    rounding = operation.attributes.get("rounding", "rtne")
    if rounding not in ("rtne", "rtz"):
        raise FpsanError(f"rounding {rounding!r} is not supported (known: rtne, rtz)")
    return Value(machine.domain.cast(value.data, value.type.element, target.element, rounding), target)


def integers_to_floats(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """arith.sitofp, arith.uitofp."""
    value, target = operands[0], operation.result_type
    return Value(machine.domain.from_integers(value.data, target.element, operation.name == "arith.sitofp"), target)


def floats_to_integers(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """arith.fptosi, arith.fptoui."""
    value, target = operands[0], operation.result_type
    signed = operation.name == "arith.fptosi"
    return Value(machine.domain.to_integers(value.data, value.type.element, target.element.bits, signed), target)


def bitcast(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.bitcast, arith.bitcast: the same bits under another type."""
    value, target = operands[0], operation.result_type
    source, element = value.type.element, target.element
    if source == element or source.kind == element.kind == "pointer":
        return Value(value.data, target)
    data = value.array()
    bits = machine.domain.bits(data, source) if source.is_float else data
    if source.bits == 1:
        bits = bits.astype(np.uint8)
    if element.is_float:
        return Value(machine.domain.read(np.ascontiguousarray(bits).view(UNSIGNED[element.bits]), element), target)
    if element.bits == 1:
        return Value((bits & 1).astype(bool), target)
    return Value(np.ascontiguousarray(bits).view(element.integers), target)


def integer_to_pointer(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.int_to_ptr."""
    return Value(Address([machine.memory.pointers(operands[0].data)]), operation.result_type)


def pointer_to_integer(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.ptr_to_int."""
    return Value(operands[0].array(), operation.result_type)


# ---- floats

FLOAT_UNARY = {
    "arith.negf": "neg",
    "math.absf": "abs",
    "math.exp": "exp",
    "math.exp2": "exp2",
    "math.log": "log",
    "math.log2": "log2",
    "math.sqrt": "sqrt",
    "tt.precise_sqrt": "sqrt_rn",
    "math.rsqrt": "rsqrt",
    "math.sin": "sin",
    "math.cos": "cos",
    "math.erf": "erf",
    "math.floor": "floor",
    "math.ceil": "ceil",
}

FLOAT_BINARY = {
    "arith.addf": "add",
    "arith.subf": "sub",
    "arith.mulf": "mul",
    "arith.divf": "div",
    "tt.precise_divf": "div_rn",
    "tt.approx_divf": "div",
    "arith.remf": "rem",
    "arith.maximumf": "maximum",
    "arith.maxnumf": "maxnum",
    "arith.minimumf": "minimum",
    "arith.minnumf": "minnum",
}


def float_unary(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """A float operation of one operand."""
    value = operands[0]
    return Value(machine.domain.unary(FLOAT_UNARY[operation.name], value.data, value.type.element), value.type)


def float_binary(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """A float operation of two operands."""
    first, second = operands
    op = FLOAT_BINARY[operation.name]
    return Value(machine.domain.binary(op, first.data, second.data, first.type.element), first.type)


def fused_multiply_add(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """math.fma."""
    x, y, z = operands
    return Value(machine.domain.fma(x.data, y.data, z.data, x.type.element), x.type)


def contracted(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """An addition or subtraction that takes up a product: one fma with the signs that the operation asks for."""
    x, y, z = operands
    element, domain = x.type.element, machine.domain
    left, addend = x.data, z.data
    if operation.attributes.get("negate_product"):
        left = domain.unary("neg", left, element)
    if operation.attributes.get("negate_addend"):
        addend = domain.unary("neg", addend, element)
    return Value(domain.fma(left, y.data, addend, element), x.type)


def clamp(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """tt.clampf."""
    x, low, high = operands
    propagate = operation.attributes.get("propagateNan", "none") != "none"
    data = machine.domain.clamp(x.data, low.data, high.data, x.type.element, propagate)
    return Value(data, x.type)


def compare_floats(machine: Machine, operation: Operation, operands: Operands) -> Value:
    """arith.cmpf."""
    first, second = operands
    data = machine.domain.compare(operation.words[0], first.data, second.data, first.type.element)
    return Value(data, first.type.with_element(I1))
