"""Which source lines of a kernel lose accuracy: every line's own share of the output's rounding error.

The kernel is evaluated in float64, and again with the operations of one source line rounded to their types, for each
line. What changes in the outputs is what the rounding of that line does to them, whatever happens to it afterwards.
"""

from __future__ import annotations

import html
import linecache
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fpsan_tools.cpu import on_cpu
from fpsan_tools.domains.base import Host
from fpsan_tools.domains.formats import format_of, narrow, widen
from fpsan_tools.domains.real import Real
from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir.machine import Machine
from fpsan_tools.ttir.memory import Buffer, Memory, Span
from fpsan_tools.ttir.parser import Location, Operation
from fpsan_tools.ttir.types import Element
from fpsan_tools.ttir.values import Array, Frame

Line = tuple[str, int]
"""A source line: file and number."""

_WIDE = np.dtype(np.uint64)


class WideMemory(Memory):
    """Memory whose float elements are held in float64, on copies of the passed arrays.

    A buffer is decoded for the float type that it is used as; where it is used as integers too, it is rounded to that
    type first.
    """

    def __init__(self, spans: list[Span], check_masked: bool = False) -> None:
        super().__init__(spans, check_masked)
        for buffer in self.buffers:
            buffer.bytes = buffer.bytes.copy()
        self.elements: dict[int, Element] = {}
        self.floats: dict[int, Element] = {}
        self.wide: dict[int, Array] = {}
        self.written: dict[int, Array] = {}

    def patterns(self, element: Element) -> np.dtype[Any]:
        return _WIDE if element.is_float else element.memory

    def view(self, buffer: Buffer, element: Element) -> Array:
        known = self.elements.get(buffer.number)
        if known is not None and known != element:
            codes = narrow(self.wide.pop(buffer.number), known).view(known.memory)
            buffer.view(known.memory)[:] = codes
            del self.elements[buffer.number]
            known = None
        if not element.is_float:
            return buffer.view(element.memory)
        if known is None:
            self.elements[buffer.number] = self.floats[buffer.number] = element
            codes = buffer.view(element.memory)
            if element.name in ("f64", "f32", "f16"):
                codes = codes.view(f"f{codes.dtype.itemsize}")
            self.wide[buffer.number] = widen(codes, element).astype(np.float64)
        return self.wide[buffer.number].view(_WIDE)

    def poke(self, total: Array, bits: Array, element: Element) -> None:
        super().poke(total, bits, element)
        if element.is_float:
            for buffer in self._parts(total):
                marks = self.written.setdefault(buffer.number, np.zeros(len(self.view(buffer, element)), bool))
                inside = (total - buffer.address) // element.memory.itemsize
                marks[inside[(inside >= 0) & (inside < len(marks))]] = True

    def outputs(self) -> dict[int, tuple[Element, Array, list[str]]]:
        """Float elements that were written, by buffer: their type, values, and names of the arrays."""
        found = {}
        for buffer in self.buffers:
            element, marks = self.floats.get(buffer.number), self.written.get(buffer.number)
            if element is None or marks is None:
                continue
            values = self.view(buffer, element).view(np.float64)
            if len(marks) == len(values):
                found[buffer.number] = (element, values[marks], buffer.names)
        return found


class LineRounding(Real):
    """The real domain, except that the operations of some source lines round to their types.

    Args:
        lines: the lines, None for all.
    """

    fuses = True

    def __init__(self, lines: frozenset[Line] | None = frozenset()) -> None:
        self.lines = lines
        self.seen: dict[Line, Counter[str]] = {}
        self.memories: list[WideMemory] = []

    def memory(self, spans: list[Span], check_masked: bool) -> Memory:
        self.memories.append(WideMemory(spans, check_masked))
        return self.memories[-1]

    def write(self, values: Array, element: Element) -> Array:
        return values.astype(np.float64, copy=False).view(_WIDE)

    def bits(self, values: Array, element: Element) -> Array:
        return super().write(values, element)

    def _rounds(self) -> bool:
        operation = self.host.operation if self.host is not None else None
        if operation is None:
            return False
        place = line_of(operation.location)
        self.seen.setdefault(place, Counter())[operation.name] += 1
        return self.lines is None or place in self.lines

    def _rounded(self, exact: Array, element: Element) -> Array:
        return widen(narrow(exact, element), element).astype(np.float64)

    def _maybe(self, exact: Array, element: Element) -> Array:
        return self._rounded(exact, element) if self._rounds() else exact

    def unary(self, op: str, x: Array, element: Element) -> Array:
        exact = super().unary(op, x, element)
        return exact if op in ("neg", "abs", "floor", "ceil") else self._maybe(exact, element)

    def binary(self, op: str, x: Array, y: Array, element: Element) -> Array:
        exact = super().binary(op, x, y, element)
        return exact if op.startswith(("max", "min")) else self._maybe(exact, element)

    def fma(self, x: Array, y: Array, z: Array, element: Element) -> Array:
        return self._maybe(super().fma(x, y, z, element), element)

    def cast(self, x: Array, source: Element, target: Element, rounding: str) -> Array:
        if target.bits > source.bits or source == target or not self._rounds():
            return x
        codes = narrow(x, target, "nearest_even" if rounding == "rtne" else "toward_zero")
        return widen(codes, target).astype(np.float64)

    def from_integers(self, x: Array, target: Element, signed: bool) -> Array:
        return self._maybe(super().from_integers(x, target, signed), target)

    def dot(self, host: Host, a: Array, b: Array, c: Array, elements: tuple[Element, ...], precision: str) -> Array:
        if not self._rounds():
            return super().dot(host, a, b, c, elements, precision)
        total = c
        for k in range(a.shape[-1]):
            total = self._rounded(total + a[..., :, k, np.newaxis] * b[..., np.newaxis, k, :], elements[2])
        return total

    def extern(self, host: Host, symbol: str, x: list[Array], elements: list[Element], target: Element) -> Array:
        exact = super().extern(host, symbol, x, elements, target)
        return self._maybe(exact, target) if target.is_float else exact

    def reduce(self, op: str, x: Array, axis: int, element: Element) -> Array | None:
        return None if self._rounds() else super().reduce(op, x, axis, element)

    def scan(self, op: str, x: Array, axis: int, element: Element) -> Array | None:
        return None if self._rounds() else super().scan(op, x, axis, element)


def line_of(location: Location) -> Line:
    """File and number of the line that the kernel's author wrote."""
    place = location.user
    return place.file, place.line


@dataclass(frozen=True)
class LineError:
    """What one source line does to the accuracy of the outputs.

    Attributes:
        file: source file.
        line: line in it.
        text: the line's text.
        operations: how often operations that round were evaluated, by name.
        error: error of the outputs when only this line rounds, relative to their norm (Euclidean, all outputs).
        share: this line's part of the sum of squared errors.
        ulps: largest error of an output in units in the last place of its type.
        lost_bits: bits that the line's additions, subtractions and sums cancel: 99th percentile over all evaluations of
            log2(largest operand / result), 0 if it has none.
        catastrophic: whether more than half of the significand is cancelled there.
    """

    file: str
    line: int
    text: str
    operations: dict[str, int] = field(repr=False)
    error: float
    share: float
    ulps: float
    lost_bits: float
    catastrophic: bool


@dataclass(frozen=True)
class RoundingErrors:
    """Source lines by the rounding error that they add, largest first.

    Attributes:
        kernel: the kernel's name.
        lines: one entry per line with float operations that round.
        error: error of the outputs when all lines round, relative to their norm.
        ulps: largest error of an output in units in the last place of its type.
        notes: remarks.
    """

    kernel: str
    lines: list[LineError]
    error: float
    ulps: float
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values.

        Returns:
            Names and values, ready for JSON.
        """
        return {
            "kernel": self.kernel,
            "error": self.error,
            "ulps": self.ulps,
            "notes": list(self.notes),
            "lines": [dict(vars(line)) for line in self.lines],
        }

    def __str__(self) -> str:
        head = (
            f"kernel {self.kernel}: relative error {self.error:.3g} of the outputs' norm, at most {self.ulps:.3g} ulp\n"
            f"{'share':>7} {'error':>9} {'ulp':>9} {'bits lost':>9}   line"
        )
        rows = [head]
        for entry in self.lines:
            mark = "!" if entry.catastrophic else " "
            place = f"{Path(entry.file).name}:{entry.line}"
            rows.append(
                f"{entry.share:7.1%} {entry.error:9.2e} {entry.ulps:9.3g} {entry.lost_bits:8.1f}{mark}   "
                f"{place}  {entry.text}"
            )
        rows += [f"({note})" for note in self.notes]
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        cells = "".join(
            "<tr>"
            + "".join(
                f"<td>{html.escape(text)}</td>"
                for text in (
                    f"{e.share:.1%}",
                    f"{e.error:.2e}",
                    f"{e.ulps:.3g}",
                    f"{e.lost_bits:.1f}{' (catastrophic)' if e.catastrophic else ''}",
                    f"{Path(e.file).name}:{e.line}",
                )
            )
            + f"<td><code>{html.escape(e.text)}</code></td></tr>"
            for e in self.lines
        )
        titles = "".join(f"<th>{t}</th>" for t in ("share", "error", "ulp", "bits lost", "line", "text"))
        caption = html.escape(f"{self.kernel}: relative error {self.error:.3g}, at most {self.ulps:.3g} ulp")
        return f"<table><caption>{caption}</caption><tr>{titles}</tr>{cells}</table>"


def errors(
    kernel: Any,
    grid: Any,
    *arguments: Any,
    programs: Iterable[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **keywords: Any,
) -> RoundingErrors:
    """Rank the source lines of a kernel by the rounding error that they add to its outputs.

    One evaluation in float64, one with every operation rounded, and one per source line with only that line rounded.
    The arrays are not modified. Sums follow the order of the ieee domain. Errors of fp64 operations are not seen.

    Args:
        kernel: a `@triton.jit` function.
        grid: number of programs per axis, or a function of the bound arguments.
        *arguments: the kernel's arguments.
        programs: linear numbers of the programs to run, None for all.
        progress: called with (evaluations done, evaluations in all).
        **keywords: further arguments and launch options.

    Returns:
        The lines, largest error first; printing it gives a table.

    Raises:
        FpsanError: if the kernel writes no floats, or as `on_cpu`.
    """
    chosen = None if programs is None else list(programs)
    lost = _Cancellation()

    def evaluate(domain: LineRounding, observer: Any = None) -> tuple[str, dict[int, Any]]:
        with on_cpu(domain, programs=chosen, observer=observer) as session:
            kernel[grid](*arguments, **keywords)
        return session.launches[-1].kernel, domain.memories[-1].outputs()

    exact = LineRounding()
    name, reference = evaluate(exact, lost)
    if not reference:
        raise FpsanError(f"kernel {name!r} writes no floats, so there are no rounding errors to look for")
    total = len(exact.seen) + 2
    step = _Steps(progress, total)
    step()
    everything = _compare(reference, evaluate(LineRounding(None))[1])
    step()
    measured = {}
    for line in exact.seen:
        measured[line] = _compare(reference, evaluate(LineRounding(frozenset({line})))[1])
        step()
    squares = sum(error * error for error, _ in measured.values())
    lines = []
    for (file, number), (error, ulps) in measured.items():
        bits, precision = lost.bits((file, number))
        lines.append(
            LineError(
                file,
                number,
                linecache.getline(file, number).strip(),
                dict(exact.seen[file, number]),
                error,
                error * error / squares if squares else 0.0,
                ulps,
                bits,
                bits > precision / 2,
            )
        )
    lines.sort(key=lambda entry: -entry.error)
    notes = ["sums of tl.reduce are balanced trees of neighbours, tl.dot is a chain of fused multiply-adds"]
    return RoundingErrors(name, lines, *everything, notes)


class _Steps:
    """Counts evaluations for a progress callback."""

    def __init__(self, progress: Callable[[int, int], None] | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def __call__(self) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, self.total)


def _compare(reference: dict[int, Any], other: dict[int, Any]) -> tuple[float, float]:
    """Relative error (norm of all outputs, each array counting alike) and largest error in ulps."""
    squares, worst = 0.0, 0.0
    for number, (element, exact, _) in reference.items():
        values = other[number][1]
        both = np.isfinite(exact) & np.isfinite(values)
        difference, size = (values - exact)[both], exact[both]
        norm = float(np.linalg.norm(size))
        squares += (float(np.linalg.norm(difference)) / norm) ** 2 if norm else 0.0
        if difference.size:
            worst = max(worst, float(np.max(np.abs(difference) / format_of(element).ulp(size))))
        if not both.all():
            same = (exact == values) | (np.isnan(exact) & np.isnan(values))
            if not same[~both].all():
                worst = math.inf
    return math.sqrt(squares / len(reference)), worst


class _Cancellation:
    """Observes additions and sums: how many leading bits cancel, by source line."""

    def __init__(self) -> None:
        self.samples: dict[Line, list[Array]] = {}
        self.precision: dict[Line, int] = {}

    def __call__(self, machine: Machine, operation: Operation, frame: Frame) -> None:
        if operation.name in ("arith.addf", "arith.subf", "contracted.fma"):
            x = [frame.get(name).array() for name in operation.operands]
            largest = np.maximum(abs(x[0]), abs(x[1])) if len(x) == 2 else np.maximum(abs(x[0] * x[1]), abs(x[2]))
        elif operation.name == "tt.reduce" and len(operation.operands) == 1:
            if all(inner.name != "arith.addf" for inner in operation.regions[0].block.operations):
                return
            value = frame.get(operation.operands[0])
            largest = np.abs(value.full()).sum(axis=operation.integer("axis") + 1)
        elif operation.name == "tt.dot" and operation.result_type.element.is_float:
            a, b, c = (frame.get(name).full() for name in operation.operands[:3])
            largest = np.abs(a) @ np.abs(b) + np.abs(c)
        else:
            return
        result = frame.get(operation.results[0])
        size = np.abs(result.array())
        with np.errstate(all="ignore"):
            bits = np.log2(largest / size)
        good = np.isfinite(bits)
        line = line_of(operation.location)
        self.precision[line] = format_of(result.type.element).precision
        if good.any():
            self.samples.setdefault(line, []).append(bits[good])

    def bits(self, line: Line) -> tuple[float, int]:
        """99th percentile of the cancelled bits, and the significand's bits."""
        samples = self.samples.get(line)
        if samples is None:
            return 0.0, 1 << 30
        return max(0.0, float(np.quantile(np.concatenate(samples), 0.99))), self.precision[line]


__all__ = ["LineError", "LineRounding", "RoundingErrors", "WideMemory", "errors"]
