"""What a domain is: the meaning of floating-point values and operations, and nothing else.

The evaluator moves data, follows control flow and does integer arithmetic; whenever an operation computes on floats it
asks the domain. A domain says how floats are held in arrays (its carriers), how they enter and leave memory, and what
every float operation gives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import numfmt
from fpsan_tools.domains.formats import narrow, widen
from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir.memory import Memory, Span
from fpsan_tools.ttir.parser import Operation
from fpsan_tools.ttir.types import UNSIGNED, Element
from fpsan_tools.ttir.values import Array

Combine = Callable[[list[Array], list[Array]], list[Array]]
"""Combines the values before with the next ones, array by array."""

UNARY = frozenset(
    {
        *("neg", "abs", "exp", "exp2", "log", "log2", "sqrt", "sqrt_rn", "rsqrt", "sin", "cos", "erf", "floor", "ceil"),
    }
)
"""Operations of one operand that a domain is asked for."""

BINARY = frozenset({"add", "sub", "mul", "div", "div_rn", "rem", "maximum", "maxnum", "minimum", "minnum"})
"""Operations of two operands. maximum/minimum propagate NaN, maxnum/minnum ignore one NaN."""


@dataclass(frozen=True)
class ScaledOperand:
    """One side of tl.dot_scaled.

    Attributes:
        data: values, or bytes of two e2m1 numbers.
        element: type of the data.
        form: "e4m3", "e5m2", "e2m1", "bf16" or "fp16".
        scale: e8m0 bytes, one per 32 numbers along k, of shape (programs, ..., M or N, K/32); None for none.
        k_packed: whether bytes of e2m1 hold neighbours along k.
    """

    data: Array
    element: Element
    form: str
    scale: Array | None
    k_packed: bool

    def elements(self) -> Array:
        """The numbers as float64, k as the last axis (the second side is given transposed), for ieee carriers."""
        if self.form == "e2m1":
            codes = self.data.view(np.uint8)
            pair = (codes & np.uint8(15), codes >> np.uint8(4))
            if self.k_packed:
                codes = np.stack(pair, axis=-1).reshape(*codes.shape[:-1], -1)
            else:
                codes = np.stack(pair, axis=-2).reshape(*codes.shape[:-2], -1, codes.shape[-1])
            return np.asarray(numfmt.FP4_E2M1.decode(codes), np.float64)
        if self.data.dtype == np.float64:  # carriers of the real domain
            return self.data
        if self.element.is_float:
            return widen(self.data, self.element).astype(np.float64)
        return widen(self.data.view(np.uint8), _FORMS[self.form]).astype(np.float64)

    def scales(self, length: int) -> Array:
        """The scales 2^(byte - 127) as float64, one per number along k; byte 255 is NaN."""
        assert self.scale is not None
        exponents = np.repeat(self.scale.view(np.uint8).astype(np.int64), length // self.scale.shape[-1], axis=-1)
        return np.where(exponents == 255, np.nan, np.ldexp(1.0, exponents - 127))


_FORMS = {"e4m3": Element("float", "f8E4M3FN", 8), "e5m2": Element("float", "f8E5M2", 8)}


class Host(Protocol):
    """What a domain may ask of the evaluation that it serves."""

    operation: Operation | None

    def note(self, text: str) -> None:
        """Put a remark into the launch record, once."""


class Domain(ABC):
    """Base class of the domains. Arrays broadcast as in NumPy; results have the carriers' dtype.

    Attributes:
        name: what users call it.
        fuses: whether products are contracted into additions where the launch allows it.
        exact_sums: whether reordering sums cannot change a result.
        instrumentation: Triton's name of the mode that kernels are compiled in ("fpsan": tl.expect_zero acts).
        stage: which intermediate representation is evaluated: "ttir", or "ttgir" with its layouts.
        contracts_sums: whether sums of products take up the products in their first step.
        host: the evaluation of the current launch.
    """

    name: str = ""
    fuses: bool = False
    exact_sums: bool = False
    instrumentation: str = ""
    stage: str = "ttir"
    contracts_sums: bool = False
    host: Host | None = None

    @abstractmethod
    def carrier(self, element: Element) -> np.dtype[Any]:
        """Dtype of the arrays that hold values of a float type."""

    @abstractmethod
    def read(self, bits: Array, element: Element) -> Array:
        """Values of the bit patterns that memory holds."""

    @abstractmethod
    def write(self, values: Array, element: Element) -> Array:
        """Bit patterns to put into memory."""

    def bits(self, values: Array, element: Element) -> Array:
        """Bit patterns of values in their own type: what a bitcast sees."""
        return self.write(values, element)

    @abstractmethod
    def unary(self, op: str, x: Array, element: Element) -> Array:
        """An operation of `UNARY`."""

    @abstractmethod
    def binary(self, op: str, x: Array, y: Array, element: Element) -> Array:
        """An operation of `BINARY`."""

    @abstractmethod
    def fma(self, x: Array, y: Array, z: Array, element: Element) -> Array:
        """x*y + z with one rounding."""

    @abstractmethod
    def clamp(self, x: Array, low: Array, high: Array, element: Element, propagate_nan: bool) -> Array:
        """tl.clamp."""

    @abstractmethod
    def compare(self, predicate: str, x: Array, y: Array, element: Element) -> Array:
        """A comparison by its name in the text (oeq, ogt, ..., une, ord, uno)."""

    @abstractmethod
    def cast(self, x: Array, source: Element, target: Element, rounding: str) -> Array:
        """Float to float; rounding is "rtne" or "rtz"."""

    @abstractmethod
    def from_integers(self, x: Array, target: Element, signed: bool) -> Array:
        """Integer to float; `x` is a signed or boolean array, to be read as unsigned unless `signed`."""

    @abstractmethod
    def to_integers(self, x: Array, source: Element, bits: int, signed: bool) -> Array:
        """Float to integer, toward zero, saturating; NaN gives 0."""

    @abstractmethod
    def dot(self, host: Host, a: Array, b: Array, c: Array, elements: tuple[Element, ...], precision: str) -> Array:
        """a @ b + c for arrays of shape (programs, ..., M, K), (programs, ..., K, N), (programs, ..., M, N).

        Args:
            host: the evaluation, for remarks.
            a: values of the first operand.
            b: values of the second one.
            c: values that the sums start from.
            elements: float types of a, b and c.
            precision: "ieee", "tf32", "tf32x3", "bf16x3" or "bf16x6".

        Returns:
            Values of the type of c.
        """

    @abstractmethod
    def dot_scaled(self, host: Host, a: ScaledOperand, b: ScaledOperand, c: Array, target: Element) -> Array:
        """tl.dot_scaled: both sides times their scales in a 16-bit type, then a product in the accumulator's type.

        Args:
            host: the evaluation, for remarks.
            a: first side, data of shape (programs, ..., M, K), or packed along one of the last two axes.
            b: second side, data of shape (programs, ..., K, N), likewise.
            c: values that the sums start from.
            target: the accumulator's float type.
        """

    @abstractmethod
    def extern(self, host: Host, symbol: str, x: list[Array], elements: list[Element], target: Element) -> Array:
        """A pure function of the device library, by its symbol; operands may be integers."""

    def inline_assembly(
        self, host: Host, text: str, x: list[Array], elements: list[Element], targets: list[Element]
    ) -> list[Array]:
        """Pure inline assembly; refused unless the domain gives it a meaning."""
        raise FpsanError(f"inline assembly has no meaning in the domain {self.name!r}")

    def atomic_note(self) -> str:
        """What to remark on float additions that are atomic."""
        return f"{self.name} applies atomic float additions in program order; a GPU takes any order"

    def reduce(self, op: str, x: Array, axis: int, element: Element) -> Array | None:
        """A whole reduction by one operation of `BINARY`, where its order is no matter; None to have it folded."""
        return None

    def scan(self, op: str, x: Array, axis: int, element: Element) -> Array | None:
        """A whole scan by one operation of `BINARY`; None to have it done step by step."""
        return None

    def reduction_masks(self, host: Host, length: int) -> list[int]:
        """The order of a fold of `length` values: step by step, index i is combined with i ^ mask."""
        return [1 << i for i in range(length.bit_length() - 1)]

    def contracts_first_step(self, host: Host) -> bool:
        """Whether the first step of a sum of products takes up the products, where `contracts_sums` says so."""
        return False

    def reshape_order(self, host: Host) -> Array | None:
        """Where a reshape that may reorder takes its elements from.

        Args:
            host: the evaluation, at the reshape.

        Returns:
            Per element of the result its row-major number in the operand, int64; None for row-major order.
        """
        host.note("a reshape that allows reordering keeps row-major order")
        return None

    def scan_steps(self, host: Host, arrays: list[Array], axis: int, combine: Combine) -> list[Array]:
        """A scan from the front along an axis, one element after the other."""
        state = [a.take(0, axis=axis) for a in arrays]
        steps = [state]
        for position in range(1, arrays[0].shape[axis]):
            state = combine(state, [a.take(position, axis=axis) for a in arrays])
            steps.append(state)
        columns = (np.broadcast_arrays(*(step[number] for step in steps)) for number in range(len(arrays)))
        return [np.stack(column, axis=axis) for column in columns]

    def from_exact(self, values: Array, element: Element) -> Array:
        """Values of a float type from float64 numbers that it holds exactly."""
        return self.read(narrow(values, element).view(UNSIGNED[element.bits]), element)

    def memory(self, spans: list[Span], check_masked: bool) -> Memory:
        """The memory of a launch."""
        return Memory(spans, check_masked)

    def begin(self, host: Host) -> None:
        """A launch begins; `host` is its evaluation."""
        self.host = host

    def constant(self, bits: int, element: Element) -> Array:
        """The value of one bit pattern, shape (1,)."""
        return self.read(np.array([bits], UNSIGNED[element.bits]), element)
