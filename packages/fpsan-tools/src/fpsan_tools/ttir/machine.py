"""The evaluator: walks the operations of a kernel for a slice of its programs, all of them at once.

Operations are looked up in one table (`operations.OPERATIONS`); arithmetic on floats is the domain's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from fpsan_tools.domains.base import Domain
from fpsan_tools.exceptions import FpsanError, OutOfBounds, UnsupportedOperation
from fpsan_tools.ttir.memory import Memory
from fpsan_tools.ttir.parser import Block, Module, Operation, Region
from fpsan_tools.ttir.types import I32, Type
from fpsan_tools.ttir.values import Address, Array, Descriptor, Frame, Value, merge

Observer = Callable[["Machine", Operation, Frame], None]
"""Called after each operation; the frame holds its operands and results, which must not be changed."""

AXES = {"x": 0, "y": 1, "z": 2}
TERMINATORS = frozenset(
    {
        *("tt.return", "scf.yield", "scf.condition", "tt.reduce.return", "tt.scan.return", "cf.br", "cf.cond_br"),
        *("tt.map_elementwise.return", "ub.unreachable"),
    }
)


class Machine:
    """One launch under evaluation.

    Args:
        kernel: the kernel's name, for messages.
        module: the linked module (see `operations.link`).
        domain: the meaning of floats.
        memory: the passed arrays.
        grid: number of programs per axis.
        observer: told of every operation after it was evaluated, None for nobody.
    """

    def __init__(
        self,
        kernel: str,
        module: Module,
        domain: Domain,
        memory: Memory,
        grid: tuple[int, int, int],
        observer: Observer | None = None,
    ) -> None:
        self.kernel = kernel
        self.module = module
        self.domain = domain
        self.memory = memory
        self.grid = grid
        self.observer = observer
        self.counts: Counter[str] = Counter()
        self.notes: dict[str, None] = {}
        self.printed: list[str] = []
        self.operation: Operation | None = None

    def note(self, text: str) -> None:
        """Put a remark into the launch record, once."""
        self.notes.setdefault(text)

    def run(self, arguments: list[Value], programs: Array) -> None:
        """Evaluate the kernel for the programs with the given linear numbers (x fastest)."""
        frame = Frame(None, None, len(programs))
        width, height, _ = self.grid
        numbers = (programs % width, programs // width % height, programs // (width * height))
        for axis, axis_numbers in zip("xyz", numbers, strict=True):
            frame.values[f"@program.{axis}"] = Value(axis_numbers.astype(np.int32), Type((), I32))
        for (name, _), value in zip(self.module.kernel.arguments, arguments, strict=True):
            frame.values[name] = value
        with np.errstate(all="ignore"):
            self.region(self.module.kernel.body, frame)

    def region(self, region: Region, frame: Frame) -> list[Value]:
        """Evaluate a region in `frame`; return what its terminator hands over."""
        if len(region.blocks) == 1:
            return self.block(region.blocks[0], frame)
        return self.graph(region, frame)

    def block(self, block: Block, frame: Frame) -> list[Value]:
        """Evaluate a block up to its terminator; return the terminator's operands."""
        counts, values, count = self.counts, frame.values, frame.count
        for operation in block.operations:
            self.operation = operation
            counts[operation.name] += count
            if operation.name in TERMINATORS:
                return [frame.get(name) for name in operation.operands]
            handler: Any = operation.handler
            try:
                if operation.control:
                    result = handler(self, operation, frame)
                else:
                    result = handler(self, operation, [frame.get(name) for name in operation.operands])
            except FpsanError as error:
                raise self.located(error, operation) from None
            if result is not None:
                if isinstance(result, Value):
                    values[operation.results[0]] = result
                else:
                    values.update(zip(operation.results, result, strict=True))
            if self.observer is not None:
                self.observer(self, operation, frame)
            for name in operation.dead:
                values.pop(name, None)
        return []

    def graph(self, region: Region, frame: Frame) -> list[Value]:
        """Evaluate blocks that branch to each other (early returns); programs part and meet again.

        Branches only go forward in the text: loops are structured operations.
        """
        waiting: dict[str, list[tuple[Array | None, list[Value]]]] = {}
        returned: list[tuple[Array | None, list[Value]]] = []
        for position, block in enumerate(region.blocks):
            if position == 0:
                inner = frame
                rows: Array | None = None
            else:
                arrivals = waiting.pop(block.label, [])
                if not arrivals:
                    continue
                rows, incoming = _arrive(frame.count, arrivals)
                inner = frame.inner(rows)
                inner.values.update(zip((name for name, _ in block.arguments), incoming, strict=True))
            outputs = self.block(block, inner)
            last = block.operations[-1]
            if last.name == "cf.br":
                label, names = last.successors[0]
                waiting.setdefault(label, []).append((rows, [inner.get(n) for n in names]))
            elif last.name == "cf.cond_br":
                condition = np.broadcast_to(outputs[0].array(), (inner.count,))
                for (label, names), chosen in zip(last.successors, (condition, ~condition), strict=True):
                    picked = np.flatnonzero(chosen)
                    if len(picked):
                        outer = picked if rows is None else rows[picked]
                        waiting.setdefault(label, []).append((outer, [inner.get(n).rows(picked) for n in names]))
            else:
                returned.append((rows, outputs))
            if position + 1 < len(region.blocks):
                _publish(frame, inner, rows)
        if not returned or not returned[0][1]:
            return []
        rows, outputs = _arrive(frame.count, returned)
        return outputs

    def located(self, error: FpsanError, operation: Operation) -> FpsanError:
        """The same error with kernel, file, line and operation, unless it has them."""
        if getattr(error, "located", False):
            return error
        place = operation.location.user
        if isinstance(error, UnsupportedOperation):
            if not error.kernel:
                error = UnsupportedOperation(self.kernel, place.file, place.line, error.op, error.reason)
        elif isinstance(error, OutOfBounds):
            error = OutOfBounds(f"kernel {self.kernel!r} at {place}: {error}")
        else:
            error = type(error)(f"kernel {self.kernel!r} at {place}: {operation.name}: {error}")
        error.located = True  # type: ignore[attr-defined]
        return error


def _arrive(count: int, arrivals: list[tuple[Array | None, list[Value]]]) -> tuple[Array | None, list[Value]]:
    """Bring together groups of programs that reach one block, in program order."""
    if len(arrivals) == 1:
        return arrivals[0]
    rows = np.concatenate([np.arange(count) if chosen is None else chosen for chosen, _ in arrivals])
    order = np.argsort(rows)
    places = np.empty(len(rows), np.int64)
    places[order] = np.arange(len(rows))
    parts: list[tuple[Array | None, list[Value]]] = []
    start = 0
    for chosen, values in arrivals:
        length = count if chosen is None else len(chosen)
        parts.append((places[start : start + length], values))
        start += length
    return rows[order], merge(len(rows), parts)


def _publish(frame: Frame, inner: Frame, rows: Array | None) -> None:
    """Make a block's values visible to the blocks that it dominates, which ask the common frame for them."""
    if inner is frame:
        return
    if rows is None:
        frame.values.update(inner.values)
        return
    for name, value in inner.values.items():
        if name not in frame.values and not _is_outer(frame, name):
            frame.values[name] = _spread(value, rows, frame.count)


def _is_outer(frame: Frame, name: str) -> bool:
    try:
        frame.get(name)
    except KeyError:
        return False
    return True


def _spread(value: Value, rows: Array, count: int) -> Value:
    """Put the rows of a part where they belong among all programs; other rows are never asked for."""

    def spread(array: Array) -> Array:
        if array.shape[0] == 1:
            return array
        result = np.zeros((count, *array.shape[1:]), array.dtype)
        result[rows] = array
        return result

    data = value.data
    if isinstance(data, Descriptor):
        data = Descriptor(
            spread(data.base),
            tuple(spread(size) for size in data.sizes),
            tuple(spread(stride) for stride in data.strides),
            data.pad_with_nan,
            data.to_tf32,
        )
        return Value(data, value.type)
    if isinstance(data, Address):
        return Value(Address([spread(term) for term in data.terms]), value.type)
    return Value(spread(data), value.type)
