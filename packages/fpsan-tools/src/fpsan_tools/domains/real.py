"""The real domain: float64 whatever the declared type, the result that this algorithm would have without rounding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fpsan_tools.domains.base import Domain, Host, ScaledOperand
from fpsan_tools.domains.formats import narrow, widen
from fpsan_tools.domains.ieee import ARITHMETIC, FUNCTIONS, compare_values, pick, round_toward_zero
from fpsan_tools.domains.libdevice import call
from fpsan_tools.ttir.types import UNSIGNED, Element
from fpsan_tools.ttir.values import Array

_F64 = Element("float", "f64", 64)


class Real(Domain):
    """Float64 for every float type: narrowing casts keep what they get, only stores round to the array's type.

    Constants and inputs have been rounded to their types before. Operations of fp64 kernels round as they do.
    """

    name = "real"

    def carrier(self, element: Element) -> np.dtype[Any]:
        return np.dtype(np.float64)

    def read(self, bits: Array, element: Element) -> Array:
        if bits.dtype.itemsize == 8:  # fp64, or the wide memory of `rounding_errors`
            return bits.view(np.float64)
        if element.name in ("f32", "f16"):
            bits = bits.view(f"f{bits.dtype.itemsize}")
        return widen(bits, element).astype(np.float64)

    def write(self, values: Array, element: Element) -> Array:
        return narrow(values, element).view(UNSIGNED[element.bits])

    def unary(self, op: str, x: Array, element: Element) -> Array:
        if op in ("neg", "abs"):
            return np.asarray(np.negative(x) if op == "neg" else np.abs(x))
        return np.asarray(FUNCTIONS[op](x))

    def binary(self, op: str, x: Array, y: Array, element: Element) -> Array:
        if op in ARITHMETIC:
            return np.asarray(ARITHMETIC[op](x, y))
        return pick(x, y, op.startswith("max"), op.endswith("imum"))

    def fma(self, x: Array, y: Array, z: Array, element: Element) -> Array:
        return np.asarray(x * y + z)

    def clamp(self, x: Array, low: Array, high: Array, element: Element, propagate_nan: bool) -> Array:
        return pick(pick(x, low, True, propagate_nan), high, False, propagate_nan)

    def compare(self, predicate: str, x: Array, y: Array, element: Element) -> Array:
        return compare_values(predicate, x, y)

    def cast(self, x: Array, source: Element, target: Element, rounding: str) -> Array:
        return x

    def from_integers(self, x: Array, target: Element, signed: bool) -> Array:
        if x.dtype.kind == "b":
            return -x.astype(np.float64) if signed else x.astype(np.float64)
        return (x if signed else x.view(UNSIGNED[x.dtype.itemsize * 8])).astype(np.float64)

    def to_integers(self, x: Array, source: Element, bits: int, signed: bool) -> Array:
        return round_toward_zero(x, bits, signed)

    def dot(self, host: Host, a: Array, b: Array, c: Array, elements: tuple[Element, ...], precision: str) -> Array:
        return np.asarray(np.matmul(a, b) + c)

    def dot_scaled(self, host: Host, a: ScaledOperand, b: ScaledOperand, c: Array, target: Element) -> Array:
        left = self._scaled(a)
        right = np.swapaxes(self._scaled(replace(b, data=np.swapaxes(b.data, -1, -2))), -1, -2)
        return np.asarray(np.matmul(left, right) + c)

    def _scaled(self, side: ScaledOperand) -> Array:
        """One side with k as its last axis: element times scale, exactly."""
        values = side.elements()
        if side.scale is None or side.form in ("bf16", "fp16"):
            return values
        return np.asarray(values * side.scales(values.shape[-1]))

    def extern(self, host: Host, symbol: str, x: list[Array], elements: list[Element], target: Element) -> Array:
        return call(symbol, x, elements, _F64 if target.is_float else target)

    def reduce(self, op: str, x: Array, axis: int, element: Element) -> Array | None:
        return np.asarray(np.sum(x, axis=axis)) if op == "add" else None

    def scan(self, op: str, x: Array, axis: int, element: Element) -> Array | None:
        return np.cumsum(x, axis=axis) if op == "add" else None

    def atomic_note(self) -> str:
        return "real applies atomic float additions in program order"
