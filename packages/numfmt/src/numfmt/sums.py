"""Sums whose every partial sum is rounded to a format: `accumulate`, and `Accumulator` for terms in pieces."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from numfmt._bits import CARRIER_PRECISION, significant_bits
from numfmt._errors import unknown_name
from numfmt._inputs import as_carrier, as_integer, normal_axis
from numfmt._random import Seed
from numfmt._rounded import RandomWords, RoundedArithmetic
from numfmt._summation import METHODS, UNKNOWN, Columns, Method, Promoted, PromotedSequential, Sequential, Summation
from numfmt.formats import FP32, FloatFormat
from numfmt.rounding import OverflowPolicy, RoundingMode

Float64Array = NDArray[np.float64]

# Elements of a block of terms, and columns that are summed together: their buffers stay in the second-level cache. What
# is found out about a block must pay for it in as many rows.
_BLOCK = 1 << 15
_ROWS = 32
# Elements of a block that compiled code reads where it lies.
_VIEWED_BLOCK = 1 << 19
_COLUMNS = 1 << 14
_TURNED_COLUMNS = 1 << 10
# Columns that NumPy turns at a time: their cache lines stay in the first-level cache until all is read.
_COPIED_COLUMNS = 512


@dataclass(frozen=True)
class SumPlan:
    """Everything that defines a simulated sum but the terms; the arguments of `accumulate` after checking.

    Attributes:
        ops: Arithmetic of the format.
        method: The summation order.
        parameters: Its parameters' values.
        chunk: Terms after which the partial sum is promoted, or None.
        outer: Arithmetic of the outer accumulator.
    """

    ops: RoundedArithmetic
    method: Method
    parameters: dict[str, int]
    chunk: int | None
    outer: RoundedArithmetic

    @classmethod
    def of(
        cls,
        fmt: FloatFormat,
        rounding: str | RoundingMode = "nearest_even",
        method: str = "sequential",
        chunk: int | None = None,
        *,
        promote_to: FloatFormat = FP32,
        overflow: str | OverflowPolicy | None = None,
        nan: str | None = None,
        random_bits: int | None = None,
        **parameters: int | None,
    ) -> SumPlan:
        """A plan from the arguments of `accumulate`, checked."""
        ops = RoundedArithmetic(fmt, rounding, overflow, nan, random_bits)
        if not fmt.zero:
            raise ValueError(f"fmt={fmt.name} has no zero, and sums start from +0; use a format with a zero")
        if method not in METHODS:
            raise ValueError(unknown_name("method", method, METHODS))
        chosen = METHODS[method]
        values = dict(chosen.parameters)
        for name, value in parameters.items():
            if value is None:
                continue
            if name not in chosen.parameters:
                owners = [m.name for m in METHODS.values() if name in m.parameters]
                raise ValueError(f"{name}={value!r} is a parameter of method {' and '.join(owners)}, not of {method!r}")
            values[name] = as_integer(value, name, 2 if name == "fan_in" and method == "tree" else 1)
        if chunk is not None:
            chunk = as_integer(chunk, "chunk", 1)
        return cls(ops, chosen, values, chunk, RoundedArithmetic(promote_to, nan=nan))

    def machine(self, columns: Columns) -> Summation:
        """A machine for some columns."""
        if self.chunk is None:
            return self.method.make(self.ops, columns, **self.parameters)
        plain_outer = self.outer.compiled is not None and self.outer.adds_plainly(self.ops.fmt.precision)
        if self.ops.compiled is not None and plain_outer and self.method.make is Sequential and columns.words is None:
            return PromotedSequential(self.chunk, self.ops, self.outer, columns)
        outer = Sequential(self.outer, replace(columns, words=None))
        # Chunks draw from streams far apart, so that a chunk's own streams cannot reach the next one's.
        return Promoted(
            self.chunk,
            lambda n: self.method.make(self.ops, replace(columns, stream=n << 32), **self.parameters),
            outer,
            self.ops.fmt.precision,
        )

    def compile(self, terms: int) -> None:
        """Let a call that adds that many terms use compiled steps, if the backend finds it worth it."""
        roundings = terms * (4 if self.method.compensated else 1)
        self.ops.compile(roundings)
        self.outer.compile(roundings)

    def bits_for(self, machine: Summation, block: Float64Array) -> int:
        """Bits of a block's terms, as the machine needs to know them: `UNKNOWN` where it finds out itself."""
        if self.ops.compiled is not None:
            if not self.ops.adds_plainly(1):
                return CARRIER_PRECISION  # compiled steps of the mode take the careful way with all terms
            if isinstance(machine, Sequential | PromotedSequential):
                return UNKNOWN
        return significant_bits(block)

    def words(self, seed: Seed) -> RandomWords | None:
        """The source of random integers, None in deterministic modes."""
        return RandomWords(seed, self.ops.random_bits) if self.ops.random_bits else None


class Accumulator:
    """Independent sums whose terms arrive in pieces, for data that do not fit memory.

    Feeding the same terms in any pieces gives the bits of one `accumulate` call on all of them with the same seed.

    Args:
        count: Number of independent sums T.
        fmt: Format of every partial sum.
        seed: For stochastic rounding: integer, `numpy.random.Generator`, or None for fresh entropy.
        **options: `rounding`, `method`, `chunk` and the keyword arguments of `accumulate` that describe the sum.

    Raises:
        ValueError: For unknown names and impossible values.
        TypeError: For values of the wrong kind.
    """

    def __init__(self, count: int, fmt: FloatFormat, *, seed: Seed = None, **options: Any) -> None:
        self._count = as_integer(count, "count", 0)
        self._plan = plan = SumPlan.of(fmt, **options)
        self._terms = 0
        words = plan.words(seed)
        self._machines = [
            (slice(first, first + width), plan.machine(Columns(width, first, self._count, words)))
            for first, width in column_blocks(self._count)
        ]

    def add(self, values: ArrayLike) -> None:
        """Take the next terms of every sum.

        Args:
            values: (T, k) array of k terms for each of the T sums, in order.

        Raises:
            ValueError: If the number of rows is not T.
            TypeError: For complex, string or object arrays.
        """
        array = as_carrier(values, "values")
        if array.ndim != 2 or array.shape[0] != self._count:
            raise ValueError(f"values must have shape ({self._count}, k), got {array.shape}")
        self._terms += array.size
        plan = self._plan
        plan.compile(self._terms)
        for columns, machine in self._machines:
            for block in _term_blocks(array[columns].T, plan.ops.compiled is not None):
                machine.add_block(block, plan.bits_for(machine, block))

    def total(self) -> Float64Array:
        """The sums of all terms so far; may be called at any time.

        Returns:
            float64 array (T,), values of the format.
        """
        return np.concatenate([machine.total() for _, machine in self._machines]) if self._machines else np.zeros(0)


def column_blocks(count: int, size: int = _COLUMNS) -> Iterator[tuple[int, int]]:
    """(first, width) of the groups of columns that are summed together."""
    for first in range(0, count, size):
        yield first, min(size, count - first)


def term_slices(terms: int, width: int, size: int = _BLOCK) -> Iterator[slice]:
    """The terms that are added in one block of about `size` elements, for a machine of some width, in order."""
    step = max(_ROWS, size // max(width, 1))
    for start in range(0, terms, step):
        yield slice(start, min(start + step, terms))


def _term_blocks(terms: Float64Array, compiled: bool) -> Iterator[Float64Array]:
    """Contiguous blocks (k, width) of a (terms, width) array, in order."""
    copy: Callable[[Float64Array], Float64Array] = _contiguous
    size = _BLOCK
    if compiled and terms.flags.c_contiguous:
        size = _VIEWED_BLOCK
    elif compiled and terms.strides[0] == terms.itemsize and 1 not in terms.shape:
        from numfmt._fast.steps import transposed

        copy = transposed
    for rows in term_slices(terms.shape[0], terms.shape[1], size):
        yield copy(terms[rows])


def _contiguous(x: Float64Array) -> Float64Array:
    """x, or a contiguous copy of it."""
    if x.flags.c_contiguous:
        return x
    out = np.empty(x.shape)
    for first, width in column_blocks(x.shape[1], _COPIED_COLUMNS):
        out[:, first : first + width] = x[:, first : first + width]
    return out


def accumulate(
    values: ArrayLike,
    fmt: FloatFormat,
    rounding: str | RoundingMode = "nearest_even",
    method: str = "sequential",
    chunk: int | None = None,
    seed: Seed = None,
    *,
    axis: int = -1,
    promote_to: FloatFormat = FP32,
    fan_in: int | None = None,
    block: int | None = None,
    lanes: int | None = None,
    overflow: str | OverflowPolicy | None = None,
    nan: str | None = None,
    random_bits: int | None = None,
) -> Float64Array:
    """Sum with every partial sum rounded to a format.

    Each simulated addition is the exact sum of its operands, rounded once in the given mode. Terms are not rounded
    before they are added; sums start from +0.

    Methods (r is the rounding):

    - ``sequential``: s = r(s + x), term after term.
    - ``pairwise``: neighbours (0,1), (2,3), ... are added, an odd last one to zero, and again, until one is left.
    - ``tree``: the same with groups of `fan_in` neighbours, each added in order.
    - ``blocked``: blocks of `block` consecutive terms are summed sequentially, then their sums.
    - ``lanes``: term k goes to running sum k mod `lanes`; these are added pairwise at the end.
    - ``fused``: s = r(s + x1 + ... + xn) with n = `fan_in`: exact inside, one rounding.
    - ``kahan``: y = r(x - c); t = r(s + y); c = r(r(t - s) - y); s = t.
    - ``neumaier``: t = r(s + x); c = r(c + r(r(big - t) + small)) with big, small = s, x by magnitude; s = t; at the
      end r(s + c).

    Args:
        values: Terms, usually (T, K): T independent sums of K terms. Any shape, any real dtype that float64 holds
            exactly; not modified.
        fmt: Format of every partial sum.
        rounding: Rounding mode, as for `FloatFormat.round`.
        method: One of the names above.
        chunk: Every `chunk` terms the partial sum is added to an outer accumulator (format `promote_to`, nearest
            even) and restarts at +0; a last short chunk is added too.
        seed: For stochastic rounding: integer, `numpy.random.Generator`, or None for fresh entropy. A random number
            belongs to an operation and a column, whatever computes it.
        axis: The axis that is summed.
        promote_to: Format of the outer accumulator.
        fan_in: For ``tree`` and ``fused``; 4 by default.
        block: For ``blocked``; 128 by default.
        lanes: For ``lanes``; 32 by default.
        overflow: Overflow policy of every rounding, as for `FloatFormat.round`; None is the format's own.
        nan: What NaN becomes in a format without NaN; None makes it an error.
        random_bits: Random bits of stochastic modes; None takes as many as fit, at most 32.

    Returns:
        float64 array of values' shape without `axis`: (T,).

    Raises:
        ValueError: For unknown names, shapes without the axis, chunk < 1, parameters of another method.
        TypeError: For complex, string or object arrays, and seeds that are no integers.
    """
    plan = SumPlan.of(
        fmt,
        rounding,
        method,
        chunk,
        promote_to=promote_to,
        overflow=overflow,
        nan=nan,
        random_bits=random_bits,
        fan_in=fan_in,
        block=block,
        lanes=lanes,
    )
    array = as_carrier(values, "values")
    axis = normal_axis(axis, array.ndim, "values")
    moved = np.moveaxis(array, axis, 0)
    shape = moved.shape[1:]
    terms = moved.reshape(moved.shape[0], math.prod(shape))
    return _sum_columns(plan, terms, plan.words(seed)).reshape(shape)


def _sum_columns(plan: SumPlan, terms: Float64Array, words: RandomWords | None) -> Float64Array:
    """The sums of the columns of a (terms, columns) array."""
    plan.compile(terms.size)
    result = np.empty(terms.shape[1])
    # Transposed blocks need several terms of a row at a time, to use whole cache lines.
    turned = plan.ops.compiled is not None and not terms.flags.c_contiguous
    for first, width in column_blocks(terms.shape[1], _TURNED_COLUMNS if turned else _COLUMNS):
        machine = plan.machine(Columns(width, first, terms.shape[1], words))
        for rows in _term_blocks(terms[:, first : first + width], plan.ops.compiled is not None):
            machine.add_block(rows, plan.bits_for(machine, rows))
        result[first : first + width] = machine.total()
    return result
