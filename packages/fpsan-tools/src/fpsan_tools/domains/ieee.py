"""The ieee domain: every float operation correctly rounded in its own type."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

import numfmt
from fpsan_tools.domains.base import Domain, Host, ScaledOperand
from fpsan_tools.domains.formats import NATIVE, format_of, narrow, widen
from fpsan_tools.domains.libdevice import call
from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir.types import SIGNED, UNSIGNED, Element
from fpsan_tools.ttir.values import Array
from numfmt.linalg import float32_fma_chain

_COMPARE: dict[str, Any] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def compare_values(predicate: str, x: Array, y: Array) -> Array:
    """A float comparison by its name: o.. is false, u.. is true if an operand is NaN."""
    if predicate in ("false", "true"):
        return np.full(np.broadcast_shapes(x.shape, y.shape), predicate == "true")
    unordered = np.isnan(x) | np.isnan(y)
    if predicate == "uno":
        return unordered
    if predicate == "ord":
        return ~unordered
    function = _COMPARE.get(predicate[1:])
    if function is None or predicate[0] not in "ou":
        raise FpsanError(f"comparison {predicate!r} is not known")
    result = function(x, y)
    return np.asarray(result & ~unordered if predicate[0] == "o" else result | unordered)


def round_toward_zero(x: Array, bits: int, signed: bool) -> Array:
    """Float to integer toward zero, saturating, NaN to 0.

    Args:
        x: float32 or float64 array.
        bits: width of the integer: 1, 8, 16, 32 or 64.
        signed: whether the integer is signed.

    Returns:
        Signed array of that width holding the bits (bool for 1).
    """
    if bits == 1:
        return np.asarray(x != 0)
    dtype = SIGNED[bits] if signed else UNSIGNED[bits]
    limits = np.iinfo(dtype)
    whole = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    inside = np.where((whole > float(limits.min)) & (whole < float(limits.max)), whole, 0.0).astype(dtype)
    result = np.where(whole >= float(limits.max), dtype.type(limits.max), inside)
    result = np.where(whole <= float(limits.min), dtype.type(limits.min), result)
    return result.view(SIGNED[bits])


def pick(x: Array, y: Array, larger: bool, propagate: bool) -> Array:
    """Maximum or minimum with -0 below +0; NaN operands give NaN (propagate) or the other operand."""
    function = (np.maximum if larger else np.minimum) if propagate else (np.fmax if larger else np.fmin)
    result = function(x, y)
    zeros = (x == 0) & (y == 0)
    if zeros.any():
        negative = (np.signbit(x) & np.signbit(y)) if larger else (np.signbit(x) | np.signbit(y))
        result = np.where(zeros, np.where(negative, result.dtype.type(-0.0), result.dtype.type(0.0)), result)
    return np.asarray(result)


_ERF = np.frompyfunc(math.erf, 1, 1)

FUNCTIONS: dict[str, Any] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "sqrt_rn": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "erf": lambda x: np.asarray(_ERF(x), np.float64),
    "floor": np.floor,
    "ceil": np.ceil,
}

_EXACTLY_ROUNDED = frozenset({"sqrt", "sqrt_rn", "floor", "ceil"})


# What reductions may consist of without their order mattering (and the end of the region).
_ORDERLESS = frozenset(
    {
        *("arith.maxnumf", "arith.minnumf", "arith.maximumf", "arith.minimumf", "tt.reduce.return", "arith.select"),
        *("arith.cmpf", "arith.cmpi", "arith.andi", "arith.ori", "arith.xori", "arith.addi", "arith.constant"),
    }
)

F16 = Element("float", "f16", 16)
BF16 = Element("float", "bf16", 16)


# Parts of the operands (0 the leading one) that split products multiply, in the order in which the compiler adds them.
_SPLITS: dict[str, tuple[numfmt.FloatFormat, list[tuple[int, int]]]] = {
    "tf32x3": (numfmt.TF32, [(1, 0), (0, 1), (0, 0)]),
    "bf16x3": (numfmt.BF16, [(1, 0), (0, 1), (0, 0)]),
    "bf16x6": (numfmt.BF16, [(1, 1), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0)]),
}


class Ieee(Domain):
    """IEEE 754 arithmetic: one rounding to nearest even per operation, in the operation's own type.

    fp64, fp32 and fp16 are NumPy arrays; bf16 and the 8-bit types are held as bit patterns, so moving them changes
    nothing. exp, log, sin, ... of fp32 are computed in float64 and rounded; those of fp64 are the C library's.
    """

    name = "ieee"
    fuses = True

    def carrier(self, element: Element) -> np.dtype[Any]:
        return NATIVE.get(element.name, UNSIGNED[element.bits])

    def read(self, bits: Array, element: Element) -> Array:
        return bits.view(self.carrier(element))

    def write(self, values: Array, element: Element) -> Array:
        return values.view(UNSIGNED[element.bits])

    def unary(self, op: str, x: Array, element: Element) -> Array:
        if op in ("neg", "abs"):
            sign = UNSIGNED[element.bits].type(1 << (element.bits - 1))
            bits = self.write(x, element)
            return self.read(bits ^ sign if op == "neg" else bits & ~sign, element)
        function = FUNCTIONS[op]
        if element.name == "f64" or (op in _EXACTLY_ROUNDED and element.name == "f32"):
            result: Array = function(x)
            return result
        return narrow(function(widen(x, element).astype(np.float64)), element)

    def binary(self, op: str, x: Array, y: Array, element: Element) -> Array:
        if op in ("maximum", "maxnum", "minimum", "minnum"):
            picked = pick(widen(x, element), widen(y, element), op.startswith("max"), op.endswith("imum"))
            return narrow(picked, element)
        function = ARITHMETIC[op]
        if element.name in ("f32", "f64"):
            result: Array = function(x, y)
            return result
        # float64 has more than twice the bits of the narrow types (and range to spare), so its rounding does no harm.
        return narrow(function(widen(x, element).astype(np.float64), widen(y, element).astype(np.float64)), element)

    def fma(self, x: Array, y: Array, z: Array, element: Element) -> Array:
        if element.name in ("f32", "f64"):
            return np.asarray(numfmt.fma(x, y, z, format_of(element)))
        a, b, c = (widen(v, element).astype(np.float64) for v in (x, y, z))
        return narrow(np.asarray(numfmt.fma(a, b, c, format_of(element))), element)

    def clamp(self, x: Array, low: Array, high: Array, element: Element, propagate_nan: bool) -> Array:
        suffix = "imum" if propagate_nan else "num"
        return self.binary(f"min{suffix}", self.binary(f"max{suffix}", x, low, element), high, element)

    def compare(self, predicate: str, x: Array, y: Array, element: Element) -> Array:
        return compare_values(predicate, widen(x, element), widen(y, element))

    def cast(self, x: Array, source: Element, target: Element, rounding: str) -> Array:
        if source == target:
            return x
        name = "nearest_even" if rounding == "rtne" else "toward_zero"
        # NVIDIA's conversions to 8-bit floats saturate.
        overflow = "saturate" if target.bits == 8 else None
        return narrow(widen(x, source), target, name, overflow)

    def from_integers(self, x: Array, target: Element, signed: bool) -> Array:
        if x.dtype.kind == "b":
            x = -x.astype(np.int8) if signed else x.astype(np.int8)
        elif not signed:
            x = x.view(UNSIGNED[x.dtype.itemsize * 8])
        return narrow(x, target)

    def to_integers(self, x: Array, source: Element, bits: int, signed: bool) -> Array:
        return round_toward_zero(widen(x, source), bits, signed)

    def dot(self, host: Host, a: Array, b: Array, c: Array, elements: tuple[Element, ...], precision: str) -> Array:
        left, right, accumulator = elements
        a, b = widen(a, left), widen(b, right)
        if left.name == "f32" and precision == "tf32":
            host.note("ieee rounds the fp32 operands of a tf32 product to TF32 (nearest even)")
            a, b = (np.asarray(numfmt.TF32.round(v), np.float32) for v in (a, b))
        elif left.name == "f32" and precision != "ieee":
            return self._split_dot(host, a, b, c, elements, precision)
        if left.name != "f64" and (left.name != "f32" or precision != "ieee"):
            host.note(
                "ieee computes every tl.dot as a chain of fused multiply-adds in ascending k; a matrix unit sums "
                "in another order and with other roundings (domain 'hardware')"
            )
        shape = c.shape
        flat_a, flat_b = a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:])
        flat_c = c.reshape(-1, *c.shape[-2:])
        if accumulator.name == "f32":
            return float32_fma_chain(flat_a, flat_b, flat_c).reshape(shape)
        for k in range(flat_a.shape[2]):
            step = (narrow(flat_a[:, :, k, np.newaxis], accumulator), narrow(flat_b[:, np.newaxis, k, :], accumulator))
            flat_c = self.fma(*step, flat_c, accumulator)
        return flat_c.reshape(shape)

    def _split_dot(
        self, host: Host, a: Array, b: Array, c: Array, elements: tuple[Element, ...], precision: str
    ) -> Array:
        """A product of operands in several parts: corrections first, then the leading product, then the accumulator."""
        fmt, products = _SPLITS[precision]
        host.note(f"ieee splits the fp32 operands of a {precision} product with rounding to nearest even")
        parts = []
        for operand in (a, b):
            pieces, rest = [], operand
            for _ in range(2 if len(products) == 3 else 3):
                pieces.append(np.asarray(fmt.round(rest), np.float32))
                rest = rest - pieces[-1]
            parts.append(pieces)
        total = np.zeros_like(c)
        for i, j in products[:-1]:
            total = self.dot(host, parts[0][i], parts[1][j], total, elements, "ieee")
        total = np.where(np.isnan(total), np.float32(0), total)
        i, j = products[-1]
        return np.asarray(self.dot(host, parts[0][i], parts[1][j], total, elements, "ieee") + c)

    def dot_scaled(self, host: Host, a: ScaledOperand, b: ScaledOperand, c: Array, target: Element) -> Array:
        compute = F16 if "fp16" in (a.form, b.form) else BF16
        left = self._scaled(a, compute)
        right = np.swapaxes(self._scaled(replace(b, data=np.swapaxes(b.data, -1, -2)), compute), -1, -2)
        return self.dot(host, left, right, c, (compute, compute, target), "ieee")

    def _scaled(self, side: ScaledOperand, compute: Element) -> Array:
        """One side with k as its last axis: element times scale, rounded to the 16-bit type that is computed in."""
        values = side.elements()
        if side.scale is None or side.form in ("bf16", "fp16"):
            return narrow(values, compute)
        scale = narrow(side.scales(values.shape[-1]), compute)
        return self.binary("mul", narrow(values, compute), scale, compute)

    def extern(self, host: Host, symbol: str, x: list[Array], elements: list[Element], target: Element) -> Array:
        values = [widen(v, e) if e.is_float else v for v, e in zip(x, elements, strict=True)]
        return call(symbol, values, elements, target)

    def reduction_masks(self, host: Host, length: int) -> list[int]:
        body = host.operation.regions[0].block.operations if host.operation is not None else []
        if not {operation.name for operation in body} <= _ORDERLESS:
            host.note("ieee sums tt.reduce as a balanced tree of neighbours")
        return super().reduction_masks(host, length)


ARITHMETIC: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "div_rn": np.divide,
    "rem": np.fmod,
}
