"""Where two evaluations part: the first operation of each side whose results the other side never computes.

A payload is a fingerprint of the expression that it came from, so intermediates of two kernels that share no structure
can be compared as sets of values: a value of one side that occurs nowhere on the other is an expression that the other
side does not compute. Payloads of several seeds together make fingerprints of at least 64 bits.
"""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fpsan_tools.checking.verdict import Divergence, Place
from fpsan_tools.ttir.parser import Operation
from fpsan_tools.ttir.types import Element
from fpsan_tools.ttir.values import Frame

if TYPE_CHECKING:
    from fpsan_tools.checking.checker import Pair
    from fpsan_tools.ttir.machine import Machine

Array = npt.NDArray[Any]

LIMIT = 1 << 23
"""Most elements that are recorded of one side and seed."""

# Operations that move values or hand them over: they compute nothing.
_MOVES = frozenset(
    {
        *("tt.splat", "tt.unsplat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "tt.join", "tt.split"),
        *("tt.cat", "tt.gather", "ttg.convert_layout", "arith.select", "ub.poison", "scf.if", "scf.for", "scf.while"),
        *("tt.call", "tt.map_elementwise"),
    }
)
# Operations that group terms: their intermediates depend on how a kernel groups its sums and products.
_GROUPING = frozenset(
    {
        *("arith.addf", "arith.subf", "arith.mulf", "math.fma", "tt.dot", "tt.dot_scaled", "tt.reduce", "tt.scan"),
        *("arith.maximumf", "arith.maxnumf", "arith.minimumf", "arith.minnumf"),
    }
)
_CASTS = frozenset({"arith.extf", "arith.truncf", "tt.fp_to_fp"})
_STORES = {"tt.store": 1, "tt.descriptor_store": 1, "tt.atomic_rmw": 1}
"""Position of the stored value among the operands."""


LOADS = frozenset({"tt.load", "tt.descriptor_load", "tt.descriptor_gather"})


_MINUS_INFINITY = {"f64": "FFF0000000000000", "f32": "FF800000", "f16": "FC00", "bf16": "FF80", "f8E5M2": "FC"}


class TooLarge(Exception):
    """More intermediates than are worth keeping."""


@dataclass
class Visit:
    """One evaluation of an operation.

    Attributes:
        kernel: name of the kernel.
        operation: the operation.
        number: how often it had been evaluated before.
        programs: identities of the programs, shape (programs,).
        element: float type of the values.
        values: payloads per seed, each of shape (programs or 1, ...).
        operands: float operands per seed, in order; None for operands of other types.
        live: for stores: lanes that are written, None for all.
    """

    kernel: str
    operation: Operation
    number: int
    programs: Array
    element: Element
    values: list[Array]
    operands: list[list[Array | None]]
    operand_elements: list[Element | None]
    live: Array | None = None

    def fingerprints(self, values: list[Array] | None = None, element: Element | None = None) -> Array:
        """One 64-bit number per value, over all seeds."""
        chosen = values if values is not None else self.values
        return fingerprints(chosen, element or self.element)

    @property
    def is_store(self) -> bool:
        """Whether values are written to memory."""
        return self.operation.name in _STORES

    @property
    def is_widening(self) -> bool:
        """Whether it is a cast to a wider type, which says nothing new."""
        source = self.operand_elements[0] if len(self.operand_elements) == 1 else None
        return self.operation.name in _CASTS and source is not None and source.bits < self.element.bits


def fingerprints(values: list[Array], element: Element) -> Array:
    """Mix the payloads of several seeds and the type's width into 64-bit numbers; zeros everywhere give 0."""
    arrays = np.broadcast_arrays(*values)
    result = np.full(arrays[0].shape, element.bits, np.uint64)
    zero = np.ones(arrays[0].shape, np.bool_)
    for array in arrays:
        result = (result ^ array.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        result ^= result >> np.uint64(29)
        zero &= array == 0
    return np.where(zero, np.uint64(0), result)


@dataclass
class Trace:
    """Records the float results of an evaluation; an observer.

    Attributes:
        visits: in the order of evaluation.
        constants: floats that the kernel names, as pairs of type name and payload.
        minus_infinity: whether -inf is among them.
    """

    visits: list[Visit] = field(default_factory=list)
    constants: set[tuple[str, int]] = field(default_factory=set)
    minus_infinity: bool = False
    _seen: Counter[int] = field(default_factory=Counter)
    _size: int = 0

    def __call__(self, machine: Machine, operation: Operation, frame: Frame) -> None:
        """Record an operation, if it computes floats."""
        name = operation.name
        if name in _MOVES:
            return
        position = _STORES.get(name)
        if position is not None:
            value = frame.get(operation.operands[position])
            mask = operation.operands[position + 1 :]
            live = frame.get(mask[0]).array() if mask and name != "tt.descriptor_store" else None
        elif operation.results:
            value, live = frame.get(operation.results[0]), None
        else:
            return
        element = value.type.element
        if not element.is_float or value.data.ndim != len(value.type.shape) + 1:
            return  # the bodies of reductions see arrays as scalars
        if name == "arith.constant":
            self.constants.update((element.name, int(p)) for p in np.unique(value.data))
            self.minus_infinity |= "-inf" in operation.head or _is_minus_infinity(operation.head, element)
            return
        self._size += value.data.size
        if self._size > LIMIT:
            raise TooLarge
        operands: list[Array | None] = []
        elements: list[Element | None] = []
        for operand in operation.operands if position is None else ():
            given = frame.get(operand)
            floats = given.type.element.is_float
            operands.append(given.data if floats else None)
            elements.append(given.type.element if floats else None)
        number = self._seen[id(operation)]
        self._seen[id(operation)] += 1
        self.visits.append(
            Visit(
                machine.kernel, operation, number, _programs(frame), element, [value.data], [operands], elements, live
            )
        )


def _is_minus_infinity(head: str, element: Element) -> bool:
    """Whether a constant is written as the pattern of -inf, as the printer does."""
    return f"0x{_MINUS_INFINITY.get(element.name, 'none')}" in head.upper().replace("0X", "0x")


def _programs(frame: Frame) -> Array:
    """An identity per program of a frame."""
    x, y, z = (frame.get(f"@program.{axis}").array().astype(np.int64) for axis in "xyz")
    return np.broadcast_to(x + (y << 21) + (z << 42), (frame.count,))


def record(pair: Pair, seeds: Iterable[int], sizes: dict[str, int]) -> tuple[Trace, Trace]:
    """Evaluate both sides with several seeds and join the records.

    Args:
        pair: the sides.
        seeds: of the inputs.
        sizes: sizes of the inputs, small ones.

    Returns:
        One trace per side, values of all seeds together; of the first seed only where evaluations differ in course.

    Raises:
        TooLarge: if there are too many intermediates.
    """
    joined: list[list[Trace]] = [[], []]
    for seed in seeds:
        traces = Trace(), Trace()
        pair.run(seed, sizes, observer_a=traces[0], observer_b=traces[1])
        for known, trace in zip(joined, traces, strict=True):
            known.append(trace)
    agree = all(_same_course(known[0], other) for known in joined for other in known[1:])
    for known in joined if agree else ():
        for other in known[1:]:
            for visit, more in zip(known[0].visits, other.visits, strict=True):
                visit.values += more.values
                visit.operands += more.operands
                if visit.live is not None and more.live is not None:
                    visit.live = visit.live & more.live
    return joined[0][0], joined[1][0]


def _same_course(one: Trace, two: Trace) -> bool:
    return len(one.visits) == len(two.visits) and all(
        x.operation is y.operation and x.programs.shape == y.programs.shape
        for x, y in zip(one.visits, two.visits, strict=True)
    )


@dataclass
class Known:
    """The values of one side, to be looked up."""

    sorted: Array

    @classmethod
    def of(cls, trace: Trace, stored: bool = False) -> Known:
        """All values of a trace, or those that it stores."""
        parts = [v.fingerprints().reshape(-1) for v in trace.visits if not stored or v.is_store]
        return cls(np.unique(np.concatenate([np.zeros(1, np.uint64), *parts])))

    def lacks(self, values: Array) -> Array:
        """Which values do not occur."""
        places = np.minimum(np.searchsorted(self.sorted, values), len(self.sorted) - 1)
        return np.asarray(self.sorted[places] != values)


@dataclass
class Candidate:
    """The first visit of a side with values that the other side lacks."""

    visit: Visit
    position: int
    lacking: Array
    contrast: bool


def first_unknown(trace: Trace, other: Trace) -> Candidate | None:
    """Find the first operation whose results do not occur on the other side; loads of inputs come first.

    If some programs store only values that the other side stores too, operations that are unknown in those programs as
    well are passed over: they group sums differently, to the same end.

    Args:
        trace: the side to look at.
        other: the other side.

    Returns:
        The visit, or None if every value occurs.
    """
    known, stored = Known.of(other), Known.of(other, stored=True)
    own = Known.of(trace, stored=True)
    good, bad = _judged(trace, stored)
    first: Candidate | None = None
    numbered = list(enumerate(trace.visits))
    loads = [(position, visit) for position, visit in numbered if visit.operation.name in LOADS]
    for position, visit in [*loads, *numbered]:
        if visit.is_store or visit.is_widening:
            continue
        prints = visit.fingerprints()
        lacking = known.lacks(prints)
        if visit.operation.name in LOADS:
            lacking &= own.lacks(prints)  # what this side stored itself is no input
        if not lacking.any():
            continue
        if first is None:
            first = Candidate(visit, position, lacking, False)
        if not len(good) or not len(bad):
            return first
        rows = np.broadcast_to(lacking.reshape(lacking.shape[0], -1).any(axis=1), visit.programs.shape)
        if rows[np.isin(visit.programs, bad)].any() and not rows[np.isin(visit.programs, good)].any():
            return Candidate(visit, position, lacking, True)
    return first


def _judged(trace: Trace, stored: Known) -> tuple[Array, Array]:
    """Programs that store only values that the other side stores too, and programs that store others."""
    good: set[int] = set()
    bad: set[int] = set()
    for visit in trace.visits:
        if not visit.is_store:
            continue
        lacking = stored.lacks(visit.fingerprints())
        if visit.live is not None:
            lacking = lacking & visit.live
        rows = np.broadcast_to(lacking.reshape(lacking.shape[0], -1).any(axis=1), visit.programs.shape)
        bad.update(visit.programs[rows].tolist())
        good.update(visit.programs[~rows].tolist())
    return np.array(sorted(good - bad), np.int64), np.array(sorted(bad), np.int64)


def compare_traces(a: Trace, b: Trace) -> tuple[Divergence, dict[str, Candidate]]:
    """Say where two evaluations part.

    Args:
        a: of side a.
        b: of side b.

    Returns:
        The divergence, and per side its first unknown operation.
    """
    found = {"a": first_unknown(a, b), "b": first_unknown(b, a)}
    candidates = {side: candidate for side, candidate in found.items() if candidate is not None}
    if not candidates:
        text = (
            "Every intermediate value of each side also occurs on the other: the same values are computed, and stored "
            "at other places or from other steps."
        )
        return Divergence((), True, text), {}
    loading = {side: c for side, c in candidates.items() if c.visit.operation.name in LOADS}
    places = tuple(_place(side, candidate) for side, candidate in (loading or candidates).items())
    left, right = found["a"], found["b"]
    aligned = (
        left is not None
        and right is not None
        and left.position == right.position
        and [v.operation.name for v in a.visits[: left.position + 1]]
        == [v.operation.name for v in b.visits[: right.position + 1]]
    )
    computed = [c.visit.operation.name for c in candidates.values()]
    sure = (
        aligned
        or bool(loading)
        or all(c.contrast for c in candidates.values())
        or any(name not in _GROUPING for name in computed)
    )
    if loading:
        text = "The sides load different values."
    elif len(candidates) == 1:
        (side,) = candidates
        other = "b" if side == "a" else "a"
        text = f"Every value that side {other} computes also occurs on side {side}, but not the reverse."
    elif sure:
        text = "Up to these lines, both sides compute the same values."
    else:
        text = (
            "These are the first values that the other side never computes. The sides group their sums or products "
            "differently, which alone is no error, so take the lines as hints."
        )
    return Divergence(places, sure, text), candidates


def _place(side: str, candidate: Candidate) -> Place:
    visit = candidate.visit
    location = visit.operation.location.user
    count, total = int(np.count_nonzero(candidate.lacking)), candidate.lacking.size
    other = "b" if side == "a" else "a"
    verb = "loads" if visit.operation.name in LOADS else f"computes ({visit.operation.name})"
    again = f", in its evaluation {visit.number + 1}," if visit.number else ""
    contrast = "; programs whose results agree have none here" if candidate.contrast else ""
    text = f"This line{again} {verb} {count} of {total} values that never occur on side {other}{contrast}."
    return Place(
        side,
        visit.kernel,
        location.file,
        location.line,
        source_line(location.file, location.line),
        visit.operation.name,
        visit.number,
        text,
    )


def source_line(file: str, line: int) -> str:
    """A line of a source file without its indentation, "" if it cannot be read."""
    if not file or line <= 0 or not Path(file).is_file():
        return ""
    linecache.checkcache(file)
    return linecache.getline(file, line).strip()
