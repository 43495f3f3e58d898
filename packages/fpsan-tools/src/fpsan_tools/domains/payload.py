"""The payload domain: floats are FpSan payloads, arithmetic is the algebra of a Triton version."""

from __future__ import annotations

from typing import Any

import numpy as np

from fpsan_tools import algebra
from fpsan_tools.domains.base import Domain, Host, ScaledOperand
from fpsan_tools.domains.formats import format_of, widen
from fpsan_tools.domains.ieee import compare_values, round_toward_zero
from fpsan_tools.domains.libdevice import call
from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir.types import UNSIGNED, Element
from fpsan_tools.ttir.values import Array

_BINARY = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "div",
    "div_rn": "div",
    "rem": "rem",
    "maximum": "maximum",
    "maxnum": "maximum",
    "minimum": "minimum",
    "minnum": "minimum",
}


class Payload(Domain):
    """Payloads: equal formulas give equal bits, whatever their order of evaluation.

    Args:
        version: the algebra's version, None for the installed Triton's.
    """

    name = "payload"
    exact_sums = True
    instrumentation = "fpsan"

    def __init__(self, version: str | None = None) -> None:
        self.algebra = algebra.get(version)

    def carrier(self, element: Element) -> np.dtype[Any]:
        return UNSIGNED[element.bits]

    def read(self, bits: Array, element: Element) -> Array:
        return self.algebra.embed(bits, element.name)

    def write(self, values: Array, element: Element) -> Array:
        return self.algebra.unembed(values, element.name)

    def unary(self, op: str, x: Array, element: Element) -> Array:
        if op == "abs":
            return self.algebra.absolute(x, element.name)
        return self.algebra.unary(op, x)

    def binary(self, op: str, x: Array, y: Array, element: Element) -> Array:
        result: Array = getattr(self.algebra, _BINARY[op])(x, y)
        return result

    def fma(self, x: Array, y: Array, z: Array, element: Element) -> Array:
        return self.algebra.fma(x, y, z)

    def clamp(self, x: Array, low: Array, high: Array, element: Element, propagate_nan: bool) -> Array:
        return self.algebra.clamp(x, low, high, element.name, propagate_nan)

    def _floats(self, x: Array, element: Element) -> Array:
        """The floats whose bits the payloads unembed to: what uninstrumented operations see."""
        bits = self.write(x, element)
        if element.name in ("f64", "f32", "f16"):
            bits = bits.view(f"f{element.bits // 8}")
        return widen(bits, element)

    def compare(self, predicate: str, x: Array, y: Array, element: Element) -> Array:
        return compare_values(predicate, self._floats(x, element), self._floats(y, element))

    def cast(self, x: Array, source: Element, target: Element, rounding: str) -> Array:
        return self.algebra.cast(x, target.name)

    def from_integers(self, x: Array, target: Element, signed: bool) -> Array:
        if not signed and x.dtype.kind == "i":
            x = x.view(UNSIGNED[x.dtype.itemsize * 8])
        if x.dtype.kind == "b":
            x = x.astype(np.int8) if not signed else -x.astype(np.int8)
        return self.read(np.asarray(format_of(target).encode(x)).astype(UNSIGNED[target.bits], copy=False), target)

    def to_integers(self, x: Array, source: Element, bits: int, signed: bool) -> Array:
        if source.bits < 32:  # the compiler widens first, which is a rule of payloads
            wide = Element("float", "f32", 32)
            return self.to_integers(self.cast(x, source, wide, "rtne"), wide, bits, signed)
        return round_toward_zero(self._floats(x, source), bits, signed)

    def dot(self, host: Host, a: Array, b: Array, c: Array, elements: tuple[Element, ...], precision: str) -> Array:
        if precision not in ("ieee", "tf32"):
            raise FpsanError(
                f"input_precision={precision!r} splits the operands before FpSan sees them, so its payloads differ by "
                "construction from an unsplit product's; compare such kernels with each other on a GPU"
            )
        return self.algebra.matmul(a, b, c, dtype=elements[2].name)

    def dot_scaled(self, host: Host, a: ScaledOperand, b: ScaledOperand, c: Array, target: Element) -> Array:
        return self.algebra.dot_scaled(
            _bytes(a.data),
            None if a.scale is None else _bytes(a.scale),
            a.form,
            _bytes(b.data),
            None if b.scale is None else _bytes(b.scale),
            b.form,
            c,
            dtype=target.name,
            a_k_packed=a.k_packed,
            b_k_packed=b.k_packed,
        )

    def extern(self, host: Host, symbol: str, x: list[Array], elements: list[Element], target: Element) -> Array:
        if not target.is_float:  # not instrumented: the function sees the floats behind the payloads
            values = [self._floats(v, e) if e.is_float else v for v, e in zip(x, elements, strict=True)]
            return call(symbol, values, elements, target)
        return self.algebra.extern(symbol, list(np.broadcast_arrays(*x)), target.name)

    def inline_assembly(
        self, host: Host, text: str, x: list[Array], elements: list[Element], targets: list[Element]
    ) -> list[Array]:
        if not x or not all(target.is_float for target in targets):
            raise FpsanError("inline assembly without operands or with a result that is no float has no payload rule")
        operands = list(np.broadcast_arrays(*x))
        return [self.algebra.inline_asm(text, operands, t.name, index) for index, t in enumerate(targets)]

    def atomic_note(self) -> str:
        return (
            "atomic float additions are summed as payloads here; FpSan on a GPU leaves them as additions of the "
            "floats behind the payloads, so results differ there"
        )

    def reduce(self, op: str, x: Array, axis: int, element: Element) -> Array | None:
        if op == "add":
            return self.algebra.sum(x, axis=axis)
        if op in ("maximum", "maxnum"):
            return self.algebra.max(x, axis=axis)
        if op in ("minimum", "minnum"):
            return self.algebra.min(x, axis=axis)
        return None

    def scan(self, op: str, x: Array, axis: int, element: Element) -> Array | None:
        return self.algebra.cumsum(x, axis=axis) if op == "add" else None


def _bytes(array: Array) -> Array:
    """Integers of one byte read as unsigned; payloads are already."""
    return array.view(UNSIGNED[array.dtype.itemsize * 8]) if array.dtype.kind == "i" else array
