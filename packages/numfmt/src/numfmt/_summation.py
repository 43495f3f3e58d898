"""Summation orders as small machines that are fed blocks of terms.

A machine sums `width` columns at once. `add_block` takes terms as a (terms, width) array, in order; blocks may be of
any size, the result does not depend on where they are cut. `total` may be called at any time and changes nothing.
`METHODS` lists the machines with their parameters and their depth: the largest number of roundings between a term
and the result, from which the a-priori bounds follow.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from numfmt._bits import significant_bits
from numfmt._passes import (
    EXACT_UNITS,
    Extent,
    RowArithmetic,
    has_minus_zero,
    reach_of_kahan,
    reach_of_neumaier,
    reach_of_sum,
)
from numfmt._passes import row as new_row
from numfmt._rounded import RandomWords, RoundedArithmetic
from numfmt._scalar import FEW_COLUMNS, BeyondRangeError
from numfmt.exact import sum_rows

Float64Array = NDArray[np.float64]

# Bits of terms that nobody has looked at.
UNKNOWN = 0

# Rows that are added with a check each, once the bound that saves the checks has failed.
_CAREFUL_ROWS = 16


class Summation(Protocol):
    """What every machine can do."""

    def add_block(self, x: Float64Array, bits: int) -> None:
        """Take the next terms.

        Args:
            x: (terms, width) C-contiguous float64 array; not modified.
            bits: Upper bound on the significant bits of its numbers; machines that are `compiled` running sums also
                take `UNKNOWN` and find out on the way.
        """
        ...

    def total(self) -> Float64Array:
        """The (width,) sums of all terms so far."""
        ...


@dataclass(frozen=True)
class Columns:
    """Which columns of the whole problem a machine sums, and its source of random words.

    Attributes:
        width: Columns of this machine.
        first: Index of the first of them in the whole problem.
        of: Columns of the whole problem; a random word belongs to (operation, column).
        words: For stochastic modes.
        stream: Number of the first random stream this machine may use.
    """

    width: int
    first: int
    of: int
    words: RandomWords | None = None
    stream: int = 0

    def random(self, stream: int, operation: int, count: int = 1) -> NDArray[np.uint32] | None:
        """Random words of operations `operation`, ... of a stream: (count, width), or None in deterministic modes."""
        if self.words is None:
            return None
        first = operation * self.of + self.first
        if self.width == self.of:
            return self.words.take(self.stream + stream, first, (count, self.width))
        rows = [self.words.take(self.stream + stream, first + i * self.of, (self.width,)) for i in range(count)]
        return np.stack(rows)

    def random_row(self, stream: int, operation: int) -> NDArray[np.uint32] | None:
        """Random words of one operation: (width,), or None in deterministic modes."""
        words = self.random(stream, operation)
        return None if words is None else words[0]


class Sequential:
    """s <- r(s + x), term after term, from +0."""

    def __init__(self, ops: RoundedArithmetic, columns: Columns) -> None:
        self._ops, self._columns = ops, columns
        self._sum = np.zeros(columns.width)
        self._done = 0
        self._hoped_bits = 1
        self._unit = math.inf  # a power of two of which every sum is a multiple
        self._passes: RowArithmetic | None = None

    def add_block(self, x: Float64Array, bits: int) -> None:
        if not x.size:
            return
        if self._ops.compiled is not None:
            s, random = self._sum.copy(), self._columns.random(0, self._done, len(x))
            hoped = bits or self._hoped_bits
            in_range, bits = self._ops.compiled.sequential(x, s, hoped, random)
            if in_range and bits > hoped and not self._ops.adds_plainly(bits):
                self._hoped_bits = bits  # the next block will be as long
                s = self._sum.copy()
                in_range, _ = self._ops.compiled.sequential(x, s, bits, random)
            if in_range:
                self._sum, self._unit = s, self._ops.quantum
                self._done += len(x)
                return
        bits = bits or significant_bits(x)
        if self._columns.width <= FEW_COLUMNS and self._ops.scalar is not None and self._add_few(x, bits):
            return
        narrow = RowArithmetic.narrow(self._ops, x, bits)
        terms: NDArray[Any] = x if narrow is None else narrow
        extent = Extent.of(terms, bits, self._ops.quantum)
        start = 0
        while start < len(x):
            done = self._add_rows(terms[start:], bits, extent)
            if not done:
                self._unit = self._ops.quantum
                if self._ops.adds_on_grid(bits):
                    self._add_on_grid(x[start:], bits, extent.largest)
                    return
                done = min(_CAREFUL_ROWS, len(x) - start)
                self._add_one_by_one(x[start : start + done], bits)
            start += done

    def _add_few(self, x: Float64Array, bits: int) -> bool:
        """Add a block of few columns number by number, if no magnitude leaves the range."""
        scalar, plain = self._ops.scalar, self._ops.adds_plainly(bits)
        assert scalar is not None
        try:
            sums = [
                scalar.sequential(column, s, plain) for column, s in zip(x.T.tolist(), self._sum.tolist(), strict=True)
            ]
        except BeyondRangeError:
            return False
        self._sum, self._unit = np.array(sums), self._ops.quantum
        self._done += len(x)
        return True

    def _add_rows(self, x: NDArray[Any], bits: int, extent: Extent) -> int:
        """Add as many rows at a time as provably stay in range, in few passes each; returns how many."""
        ops, s = self._ops, self._sum
        if not RowArithmetic.suits(ops) or not extent.unit or (ops.mode.name == "nearest_even" and has_minus_zero(s)):
            return 0
        unit = min(self._unit, extent.unit)
        largest_sum = float(np.abs(s).max())
        if self._passes is None or self._passes.dtype != x.dtype:
            self._passes = RowArithmetic(ops, self._columns.width, x.dtype.type)
        passes = self._passes

        def rows_below(limit: float) -> int:
            rows = len(x)
            while rows and not reach_of_sum(largest_sum, extent.largest, rows, ops.error, ops.nearest) < limit:
                rows //= 2
            return rows

        rows, carefully = rows_below(0.99 * passes.limit), False
        if not ops.adds_plainly(bits):
            exact = rows_below(min(0.99 * passes.limit, EXACT_UNITS * unit))
            carefully = exact < min(rows, _CAREFUL_ROWS)
            rows = rows if carefully else exact
        if not rows:
            return 0
        self._unit = unit
        out, sign = new_row(self._columns.width, x.dtype.type), -1.0 if passes.mirrored else 1.0
        np.multiply(s, sign, out.numbers, casting="same_kind")
        words = passes.prepare(self._columns.random(0, self._done, rows))
        add, sums = passes.adder(carefully), out.numbers
        for i, terms in enumerate(x[:rows] if sign > 0 else -x[:rows]):
            add(sums, terms, out, None if words is None else words[i])
        self._sum = ops.without_minus_zero(sign * out.numbers.astype(np.float64))
        self._done += rows
        return rows

    def _add_one_by_one(self, x: Float64Array, bits: int) -> None:
        random = self._columns.random(0, self._done, len(x))
        for i, row in enumerate(x):
            self._sum = self._ops.add(self._sum, row, bits, None if random is None else random[i])
        self._done += len(x)

    def _add_on_grid(self, x: Float64Array, bits: int, largest: float) -> None:
        """To nearest even with subnormal results: as many rows at a time as provably stay below the largest value."""
        ops = self._ops
        carried, scratch = np.empty_like(self._sum), np.empty_like(self._sum)
        self._sum = self._sum.copy()  # the old array may belong to a copy of this machine
        start, stop = 0, len(x)
        while start < stop:
            # Rounding to nearest errs by at most |x|, since s itself is a candidate: |s| grows by at most 2|x|.
            room = ops.grid_max * 0.99 - float(np.abs(self._sum).max())
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                rows = np.divide(room, 2.0 * largest)
            if not rows >= 1.0:
                end = min(start + _CAREFUL_ROWS, stop)
                self._add_one_by_one(x[start:end], bits)
                start = end
                continue
            end = stop if rows >= stop - start else start + int(rows)
            s, add = self._sum, np.add
            rounds = ops.grid_rounder(carried, scratch, s)
            for row in x[start:end]:
                add(s, row, carried)
                rounds()
            self._done += end - start
            start = end

    def total(self) -> Float64Array:
        return self._sum.copy()


class _Compensated:
    """State of the compensated sums, and the ways to add a block: compiled, by numbers, in few passes, as arrays."""

    _name: str  # of the compiled steps and of those on single numbers
    _reach: Callable[[float, float, float, float], tuple[float, float, float]]

    def __init__(self, ops: RoundedArithmetic, columns: Columns) -> None:
        self._ops, self._columns = ops, columns
        self._sum, self._lost = np.zeros(columns.width), np.zeros(columns.width)
        self._done = 0
        self._unit = math.inf  # a power of two of which every sum and compensation is a multiple

    def add_block(self, x: Float64Array, bits: int) -> None:
        if not x.size:
            return
        if self._add_compiled(x, bits):
            self._unit = self._ops.quantum
            return
        extent = Extent.of(x, bits, self._ops.quantum)
        start = 0
        while start < len(x):
            done = self._add_rows(x[start:], bits, extent)
            if not done:
                self._unit = self._ops.quantum
                done = min(_CAREFUL_ROWS, len(x) - start)
                self._add_arrays(x[start : start + done], bits)
                self._done += done
            start += done

    def _add_compiled(self, x: Float64Array, bits: int) -> bool:
        """Add a block with a compiled kernel or number by number, if that suits and no magnitude leaves the range."""
        if self._ops.compiled is None and self._ops.scalar is not None and self._columns.width <= FEW_COLUMNS:
            return self._add_few(x, bits)
        if self._ops.compiled is None:
            return False
        random = None
        if self._columns.words is not None:
            random = [w for w in (self._columns.random(j, self._done, len(x)) for j in range(4)) if w is not None]
        s, lost = self._sum.copy(), self._lost.copy()
        if not self._ops.compiled.compensated(self._name, x, s, lost, bits, random):
            return False
        self._sum, self._lost = s, lost
        self._done += len(x)
        return True

    def _add_few(self, x: Float64Array, bits: int) -> bool:
        p = self._ops.fmt.precision
        plain, later = self._ops.adds_plainly(max(bits, p)), self._ops.adds_plainly(p)
        steps = getattr(self._ops.scalar, self._name)
        try:
            columns = zip(x.T.tolist(), self._sum.tolist(), self._lost.tolist(), strict=True)
            results = [steps(column, s, c, plain, later) for column, s, c in columns]
        except BeyondRangeError:
            return False
        self._sum, self._lost = np.array([r[0] for r in results]), np.array([r[1] for r in results])
        self._done += len(x)
        return True

    def _add_rows(self, x: Float64Array, bits: int, extent: Extent) -> int:
        """Add as many rows as provably stay in range, in few passes each; returns how many."""
        ops = self._ops
        suits = RowArithmetic.suits(ops) and extent.unit
        if not suits or (ops.mode.name == "nearest_even" and has_minus_zero(self._sum)):
            return 0
        passes = RowArithmetic(ops, self._columns.width)
        limit, reached, rows = 0.99 * passes.limit, 0.0, 0
        s, c = float(np.abs(self._sum).max()), float(np.abs(self._lost).max())
        while rows < len(x):
            s, c, met = self._reach(s, c, extent.largest, ops.error)
            if not met < limit:
                break
            reached, rows = max(reached, met), rows + 1
        if not rows:
            return 0
        self._unit = min(self._unit, extent.unit)
        exact, p = reached < EXACT_UNITS * self._unit, ops.fmt.precision
        carefully = not (exact or ops.adds_plainly(max(bits, p))), not (exact or ops.adds_plainly(p))
        sign = -1.0 if passes.mirrored else 1.0
        words = [passes.prepare(self._columns.random(j, self._done, rows)) for j in range(4)]
        self._sum, self._lost = (
            ops.without_minus_zero(sign * v)
            for v in self._in_passes(passes, sign * x[:rows], sign * self._sum, sign * self._lost, words, *carefully)
        )
        self._done += rows
        return rows

    def _add_arrays(self, x: Float64Array, bits: int) -> None:
        """Add a block whatever it holds."""
        raise NotImplementedError

    @staticmethod
    def _in_passes(
        passes: RowArithmetic,
        x: Float64Array,
        s: Float64Array,
        c: Float64Array,
        words: list[NDArray[np.int64] | None],
        first_carefully: bool,
        then_carefully: bool,
    ) -> tuple[Float64Array, Float64Array]:
        """The sums and compensations after the rows of x."""
        raise NotImplementedError


def _drawn(words: list[NDArray[np.int64] | None], k: int) -> list[NDArray[np.int64] | None]:
    """The random words of one step's operations."""
    return [None if w is None else w[k] for w in words]


class Kahan(_Compensated):
    """Kahan's compensated sum: y = r(x - c); t = r(s + y); c = r(r(t - s) - y); s = t."""

    _name = "kahan"
    _reach = staticmethod(reach_of_kahan)

    def _add_arrays(self, x: Float64Array, bits: int) -> None:
        add, p, random = self._ops.add, self._ops.fmt.precision, self._columns.random_row
        s, c = self._sum, self._lost
        for k, row in enumerate(x, self._done):
            y = add(row, -c, max(bits, p), random(0, k))
            t = add(s, y, p, random(1, k))
            c = add(add(t, -s, p, random(2, k)), -y, p, random(3, k))
            s = t
        self._sum, self._lost = s, c

    @staticmethod
    def _in_passes(
        passes: RowArithmetic,
        x: Float64Array,
        s: Float64Array,
        c: Float64Array,
        words: list[NDArray[np.int64] | None],
        first_carefully: bool,
        then_carefully: bool,
    ) -> tuple[Float64Array, Float64Array]:
        first = passes.adder(first_carefully, minus=True)
        add, subtract = passes.adder(then_carefully), passes.adder(then_carefully, minus=True)
        total, lost, y, t = (new_row(len(s)) for _ in range(4))
        total.numbers[:], lost.numbers[:] = s, c
        for k, terms in enumerate(x):
            w0, w1, w2, w3 = _drawn(words, k)
            first(terms, lost.numbers, y, w0)
            add(total.numbers, y.numbers, t, w1)
            subtract(t.numbers, total.numbers, lost, w2)
            subtract(lost.numbers, y.numbers, lost, w3)
            total, t = t, total
        return total.numbers, lost.numbers

    def total(self) -> Float64Array:
        return self._sum.copy()


class Neumaier(_Compensated):
    """Neumaier's variant: the error of s + x is found from the larger operand, added to c, and c to s at the end."""

    _name = "neumaier"
    _reach = staticmethod(reach_of_neumaier)

    def _add_arrays(self, x: Float64Array, bits: int) -> None:
        add, p, random = self._ops.add, self._ops.fmt.precision, self._columns.random_row
        wide = max(bits, p)
        s, c = self._sum, self._lost
        for k, row in enumerate(x, self._done):
            t = add(s, row, wide, random(0, k))
            swap = np.abs(row) > np.abs(s)
            large, small = np.where(swap, row, s), np.where(swap, s, row)
            error = add(add(large, -t, wide, random(1, k)), small, wide, random(2, k))
            c = add(c, error, p, random(3, k))
            s = t
        self._sum, self._lost = s, c

    @staticmethod
    def _in_passes(
        passes: RowArithmetic,
        x: Float64Array,
        s: Float64Array,
        c: Float64Array,
        words: list[NDArray[np.int64] | None],
        first_carefully: bool,
        then_carefully: bool,
    ) -> tuple[Float64Array, Float64Array]:
        first, first_minus = passes.adder(first_carefully), passes.adder(first_carefully, minus=True)
        add = passes.adder(then_carefully)
        total, lost, t, error = (new_row(len(s)) for _ in range(4))
        total.numbers[:], lost.numbers[:] = s, c
        large, small, size, swap = np.empty_like(s), np.empty_like(s), np.empty_like(s), np.empty(len(s), np.bool_)
        for k, (terms, sizes) in enumerate(zip(x, np.abs(x), strict=True)):
            w0, w1, w2, w3 = _drawn(words, k)
            first(total.numbers, terms, t, w0)
            np.abs(total.numbers, size)
            np.greater(sizes, size, swap)
            np.copyto(large, total.numbers)
            np.copyto(large, terms, where=swap)
            np.copyto(small, terms)
            np.copyto(small, total.numbers, where=swap)
            first_minus(large, t.numbers, error, w1)
            first(error.numbers, small, error, w2)
            add(lost.numbers, error.numbers, lost, w3)
            total, t = t, total
        return total.numbers, lost.numbers

    def total(self) -> Float64Array:
        return self._ops.add(self._sum, self._lost, self._ops.fmt.precision, self._columns.random_row(4, 0))


class Tree:
    """A balanced tree: groups of `fan_in` neighbours are added in order, their sums grouped again, a last short group
    padded with zeros."""

    def __init__(self, ops: RoundedArithmetic, columns: Columns, fan_in: int = 2) -> None:
        self._ops, self._columns, self._fan_in = ops, columns, fan_in
        # Per level: the sums that wait for the rest of their group, and how many groups are done.
        self._waiting: list[Float64Array] = [np.empty((0, columns.width))]
        self._waiting_bits = 1
        self._groups = [0]

    def add_block(self, x: Float64Array, bits: int) -> None:
        self._waiting_bits = max(self._waiting_bits, bits) if len(self._waiting[0]) else bits
        self._carry_up(self._waiting, self._groups, 0, x)

    def _carry_up(self, waiting: list[Float64Array], groups: list[int], level: int, x: Float64Array) -> None:
        """Put x on a level and carry complete groups upwards; replaces list entries, never arrays' contents."""
        width = self._columns.width
        while True:
            here = np.concatenate([waiting[level], x]) if len(waiting[level]) else x
            complete = len(here) // self._fan_in
            waiting[level] = here[complete * self._fan_in :].copy()
            if not complete:
                return
            members = here[: complete * self._fan_in].reshape(complete, self._fan_in, width)
            x = self._reduce(level, groups[level], members)
            groups[level] += complete
            level += 1
            if level == len(waiting):
                waiting.append(np.empty((0, width)))
                groups.append(0)

    def _reduce(self, level: int, group: int, members: Float64Array) -> Float64Array:
        """Sums of whole groups: members is (groups, fan_in, width)."""
        p = self._ops.fmt.precision
        raw = self._waiting_bits if level == 0 else p
        node = members[:, 0]
        for j in range(1, self._fan_in):
            random = self._columns.random(level * (self._fan_in - 1) + j - 1, group, len(members))
            node = self._ops.add(node, members[:, j], raw if j == 1 else max(raw, p), random)
        return node

    def total(self) -> Float64Array:
        waiting, groups = [*self._waiting], [*self._groups]
        level = 0
        while level < len(waiting):
            rest = waiting[level]
            on_top = all(not len(w) for w in waiting[level + 1 :])
            if on_top and (len(rest) == 0 or (len(rest) == 1 and level > 0)):
                return rest[0].copy() if len(rest) else np.zeros(self._columns.width)
            if len(rest):
                padding = np.zeros((self._fan_in - len(rest), self._columns.width))
                self._carry_up(waiting, groups, level, padding)
            level += 1
        raise AssertionError("a tree always ends in one sum")


class Lanes:
    """Term k goes to running sum k mod `lanes`; at the end the running sums are added pairwise."""

    def __init__(self, ops: RoundedArithmetic, columns: Columns, lanes: int) -> None:
        self._ops, self._columns, self._lanes = ops, columns, lanes
        self._sums = np.zeros((lanes, columns.width))
        self._done = 0

    def add_block(self, x: Float64Array, bits: int) -> None:
        start = 0
        while start < len(x):
            lane = self._done % self._lanes
            rows = x[start : start + self._lanes - lane]
            random = self._columns.random(0, self._done, len(rows))
            self._sums[lane : lane + len(rows)] = self._ops.add(
                self._sums[lane : lane + len(rows)], rows, max(bits, 1), random
            )
            self._done += len(rows)
            start += len(rows)

    def total(self) -> Float64Array:
        used = min(self._lanes, self._done)
        if used <= 1:
            only: Float64Array = self._sums[0].copy()
            return only
        columns = replace(self._columns, stream=self._columns.stream + 1)
        tree = Tree(self._ops, columns)
        tree.add_block(self._sums[:used], self._ops.fmt.precision)
        return tree.total()


class Fused:
    """s <- r(s + x1 + ... + xn): the exact sum of n terms and the running sum, rounded once."""

    def __init__(self, ops: RoundedArithmetic, columns: Columns, fan_in: int) -> None:
        self._ops, self._columns, self._fan_in = ops, columns, fan_in
        self._sum = np.zeros(columns.width)
        self._waiting = np.empty((0, columns.width))
        self._steps = 0

    def add_block(self, x: Float64Array, bits: int) -> None:
        here = np.concatenate([self._waiting, x]) if len(self._waiting) else x
        complete = len(here) // self._fan_in * self._fan_in
        for start in range(0, complete, self._fan_in):
            self._sum = self._step(here[start : start + self._fan_in])
            self._steps += 1
        self._waiting = here[complete:].copy()

    def _step(self, terms: Float64Array) -> Float64Array:
        exact = sum_rows(np.concatenate([self._sum[None], terms]).T)
        return self._ops.finish(exact, self._columns.random_row(0, self._steps))

    def total(self) -> Float64Array:
        return self._step(self._waiting) if len(self._waiting) else self._sum.copy()


class Promoted:
    """Every `chunk` terms the sum of an inner machine is added to an outer one, and the inner one starts anew."""

    def __init__(self, chunk: int, inner: Callable[[int], Summation], outer: Summation, outer_bits: int) -> None:
        # inner(n) makes the machine of the n-th chunk.
        self._chunk, self._make, self._outer, self._outer_bits = chunk, inner, outer, outer_bits
        self._inner = inner(0)
        self._chunks = 0
        self._filled = 0

    def add_block(self, x: Float64Array, bits: int) -> None:
        start = 0
        while start < len(x):
            rows = x[start : start + self._chunk - self._filled]
            self._inner.add_block(rows, bits)
            self._filled += len(rows)
            start += len(rows)
            if self._filled == self._chunk:
                self._outer.add_block(self._inner.total()[None], self._outer_bits)
                self._chunks += 1
                self._filled = 0
                self._inner = self._make(self._chunks)

    def total(self) -> Float64Array:
        if not self._filled:
            return self._outer.total()
        outer = copy.copy(self._outer)
        outer.add_block(self._inner.total()[None], self._outer_bits)
        return outer.total()


class PromotedSequential:
    """`Promoted` with running sums inside and outside, for compiled steps; the outer sum is rounded to nearest even."""

    def __init__(self, chunk: int, ops: RoundedArithmetic, outer: RoundedArithmetic, columns: Columns) -> None:
        self._chunk, self._ops, self._outer = chunk, ops, outer
        self._sum, self._total = np.zeros(columns.width), np.zeros(columns.width)
        self._filled = 0
        self._hoped_bits = 1

    def add_block(self, x: Float64Array, bits: int) -> None:
        if self._ops.compiled is not None and self._outer.compiled is not None and x.size:
            hoped = bits or self._hoped_bits
            for _ in range(2):
                s, total = self._sum.copy(), self._total.copy()
                in_range, bits, filled = self._ops.compiled.promoted(
                    x, s, total, self._filled, self._chunk, hoped, self._outer.compiled
                )
                if bits <= hoped or self._ops.adds_plainly(bits):
                    break
                self._hoped_bits = hoped = bits  # the next block will be as long
            if in_range:
                self._sum, self._total, self._filled = s, total, filled
                return
        bits = bits or significant_bits(x)
        for row in x:
            self._sum = self._ops.add(self._sum, row, bits)
            self._filled += 1
            if self._filled == self._chunk:
                self._total = self.total()
                self._sum, self._filled = np.zeros_like(self._sum), 0

    def total(self) -> Float64Array:
        if not self._filled:
            return self._total.copy()
        return self._outer.add(self._total, self._sum, self._ops.fmt.precision)


@dataclass(frozen=True)
class Method:
    """One summation order.

    Attributes:
        name: What users call it.
        meaning: One line for people.
        make: Machine from arithmetic, columns and the parameters' values.
        depth: Largest number of roundings between a term and the result, from the number of terms and the parameters.
        parameters: Names of the integer parameters with their defaults.
        compensated: The error does not grow with the depth to first order; bounds of its own apply.
    """

    name: str
    meaning: str
    make: Callable[..., Summation]
    depth: Callable[..., int]
    parameters: dict[str, int] = field(default_factory=dict)
    compensated: bool = False


def _levels(n: int, fan_in: int) -> int:
    """ceil(log(n) / log(fan_in)), in integers; at least 1."""
    levels, reach = 1, fan_in
    while reach < n:
        reach *= fan_in
        levels += 1
    return levels


def _ceil_div(n: int, d: int) -> int:
    return -(-n // d)


def _blocked(ops: RoundedArithmetic, columns: Columns, block: int) -> Summation:
    # Streams: 0 for the sum of the blocks, then one per block.
    return Promoted(
        block,
        lambda n: Sequential(ops, replace(columns, stream=columns.stream + 1 + n)),
        Sequential(ops, columns),
        ops.fmt.precision,
    )


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("sequential", "one running sum, term after term", Sequential, lambda n: n),
        Method("pairwise", "neighbours are added, their sums likewise: a binary tree", Tree, lambda n: _levels(n, 2)),
        Method(
            "tree",
            "groups of fan_in neighbours are added in order, their sums likewise",
            Tree,
            lambda n, fan_in: (fan_in - 1) * _levels(n, fan_in),
            {"fan_in": 4},
        ),
        Method(
            "blocked",
            "blocks of consecutive terms are added sequentially, then their sums, all in the format",
            _blocked,
            lambda n, block: min(n, block) + _ceil_div(n, block) - 1,
            {"block": 128},
        ),
        Method(
            "lanes",
            "term k goes to running sum k mod lanes; the running sums are added pairwise",
            Lanes,
            lambda n, lanes: _ceil_div(n, lanes) + (_levels(min(n, lanes), 2) if min(n, lanes) > 1 else 0),
            {"lanes": 32},
        ),
        Method(
            "fused",
            "fan_in terms and the running sum are added exactly and rounded once",
            Fused,
            lambda n, fan_in: _ceil_div(n, fan_in),
            {"fan_in": 4},
        ),
        Method("kahan", "Kahan's compensated sum", Kahan, lambda n: n, compensated=True),
        Method(
            "neumaier",
            "Neumaier's compensated sum, safe when a term exceeds the sum",
            Neumaier,
            lambda n: n,
            compensated=True,
        ),
    )
}
