"""Types of Triton's intermediate representation: what the text names and what NumPy arrays carry them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from fpsan_tools.exceptions import FpsanError

UNSIGNED: dict[int, np.dtype[Any]] = {bits: np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)}
SIGNED: dict[int, np.dtype[Any]] = {bits: np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)}

FLOAT_BITS = {
    "f64": 64,
    "f32": 32,
    "f16": 16,
    "bf16": 16,
    "f8E5M2": 8,
    "f8E4M3FN": 8,
    "f8E5M2FNUZ": 8,
    "f8E4M3FNUZ": 8,
}
"""Width of every float type, by its name in the text."""


@dataclass(frozen=True)
class Element:
    """The type of one element.

    Attributes:
        kind: "float", "int", "pointer", "descriptor" or "token".
        name: the name in the text, as in "f32", "i64", "index".
        bits: width in bits (64 for pointers and index).
        pointee: what a pointer points to, or the element of a descriptor.
        block: the block shape of a descriptor.
    """

    kind: str
    name: str
    bits: int
    pointee: Element | None = None
    block: tuple[int, ...] = ()

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def memory(self) -> np.dtype[Any]:
        """Unsigned dtype of the element's bit pattern in memory (booleans take a byte, pointers eight)."""
        return UNSIGNED[max(self.bits, 8)]

    @property
    def integers(self) -> np.dtype[Any]:
        """Dtype of the arrays that hold values of this type, if it is an integer: bool for i1, else signed."""
        return np.dtype(np.bool_) if self.bits == 1 else SIGNED[self.bits]


@dataclass(frozen=True)
class Type:
    """A tensor type, or a scalar if `shape` is empty.

    Attributes:
        shape: the tensor's shape.
        element: its element type.
        layout: text of the layout attribute, if the type has one (TTGIR).
    """

    shape: tuple[int, ...]
    element: Element
    layout: str = ""

    def with_shape(self, shape: tuple[int, ...]) -> Type:
        return Type(shape, self.element)

    def with_element(self, element: Element) -> Type:
        return Type(self.shape, element)

    def __str__(self) -> str:
        if not self.shape:
            return self.element.name
        return f"tensor<{'x'.join(map(str, self.shape))}x{self.element.name}>"


I1 = Element("int", "i1", 1)
I32 = Element("int", "i32", 32)
I64 = Element("int", "i64", 64)
F32 = Element("float", "f32", 32)

_SHAPED = re.compile(r"((?:\d+x)*)(.*)", re.DOTALL)


@cache
def parse_element(text: str) -> Element:
    """Parse an element type such as `f32`, `i1`, `!tt.ptr<bf16>` or `!tt.tensordesc<16x16xf32>`.

    Raises:
        FpsanError: for a type that the evaluator does not know.
    """
    text = text.strip()
    if text in FLOAT_BITS:
        return Element("float", text, FLOAT_BITS[text])
    if text == "index":
        return Element("int", text, 64)
    if text in ("i1", "i8", "i16", "i32", "i64"):
        return Element("int", text, int(text[1:]))
    if text.startswith("!tt.ptr<") and text.endswith(">"):
        inner = split_top(text[len("!tt.ptr<") : -1])[0]
        pointee = parse_type(inner)
        if pointee.shape:
            raise FpsanError(f"pointers to tensors are not supported: {text}")
        return Element("pointer", text, 64, pointee.element)
    if text.startswith("!tt.tensordesc<") and text.endswith(">"):
        inner = split_top(text[len("!tt.tensordesc<") : -1])[0]
        block = parse_type(inner if inner.startswith("tensor<") else f"tensor<{inner}>")
        return Element("descriptor", text, 64, block.element, block.shape)
    if text.startswith("!ttg.async.token"):
        return Element("token", text, 64)
    raise FpsanError(f"type {text!r} is not supported")


@cache
def parse_type(text: str) -> Type:
    """Parse a type such as `i32` or `tensor<16x64xf32>`; a TTGIR layout after the element is kept as text.

    Tensors in shared memory (`!ttg.memdesc`) are tensors here.

    Raises:
        FpsanError: for a type that the evaluator does not know.
    """
    text = text.strip()
    opening = next((name for name in ("tensor<", "!ttg.memdesc<") if text.startswith(name)), None)
    if opening is None or not text.endswith(">"):
        return Type((), parse_element(text))
    parts = split_top(text[len(opening) : -1])
    match = _SHAPED.fullmatch(parts[0])
    assert match is not None
    shape = tuple(int(size) for size in match.group(1).split("x")[:-1])
    return Type(shape, parse_element(match.group(2)), parts[1] if len(parts) > 1 else "")


def split_top(text: str, separator: str = ",") -> list[str]:
    """Split at separators that are outside of brackets; `->` does not count as a bracket."""
    parts: list[str] = []
    depth, start, previous = 0, 0, ""
    for position, character in enumerate(text):
        if character in "<([{":
            depth += 1
        elif character in ">)]}" and not (character == ">" and previous == "-"):
            depth -= 1
        elif character == separator and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
        previous = character
    tail = text[start:].strip()
    return [*parts, tail] if tail else parts
