"""fp32 products on matrix units: fp32 operands cut into parts, products of parts, and a guard that knows when not to.

- `fp16x3`: two fp16 parts, rows of A and columns of B scaled by powers of two; three products per k, summed in chains
  of 64 k that are added in fp32. 22 bits of every number above 2**-17 of its row's largest.
- `int8x6`: three int8 digits, scaled likewise; six products per k in exact int32 sums. 2**-23 of the row's largest
  number, and the same bits on every device.
- `bf16x6`: three bf16 parts, not scaled; six products per k, summed in chains of 32 k that are added in fp32. 24 bits
  of every number above 2**-100.

**What is computed.** `Split` has the parts as NumPy arrays, bit for bit those of the GPU's splitting kernels. fp16x3
sums, per 64 k, small·big, big·small and big·big in one chain of Hopper's fp16 unit from zero, adds these chains in
ascending k in fp32, and multiplies by the rows' and columns' powers of two, as one exponent, rounded once. int8x6 sums
top·top (g0), top·middle + middle·top (g1) and top·low + middle·middle + low·top (g2) exactly, per 32768 k, and forms
g0·2**16 + (g1·2**8 + g2) in fp32.

**Inf and NaN.** Rows and columns that hold them are computed with fp32 arithmetic: one serial chain of fused
multiply-adds, `ieee`.

**The guard.** Splitting counts and adds up integers: how many of a row's numbers are too small for their parts, and the
sum of squares of its scaled integers (int8x6). From these follows whether the expected error is at most that of a
serial fp32 sum of random signs, 0.3·u·K·rms(a)·rms(b) (measured on an H200: 0.400 u·sum|p| for uniform numbers, 0.472
for normal ones). If it is not, the product is computed again: fp16x3 as bf16x6, or as ieee where rows are so small that
bf16 parts lose bits, or so large that bf16 rounds them to infinity; int8x6 as ieee, which is as portable. The decision
is made on the GPU; `last_outcome()` tells it, on any device.

The guard looks at rows and columns by themselves. It cannot see that the large numbers of a row meet nothing but zeros;
the promise's `scaled` term says what such data can cost.
"""

from __future__ import annotations

import contextlib
import math
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import numfmt
from numfmt import matrix_units
from tritongemm import eager
from tritongemm.elements import element_named, element_of, is_typed
from tritongemm.errors import Unavailable, UsageError
from tritongemm.matrices import is_cuda, is_torch
from tritongemm.promises import Error, Promise, lost, on_unit, rounded

__all__ = ["Attempt", "Outcome", "Prepared", "guarded", "last_outcome", "prepare", "unguarded"]

Array = np.ndarray[Any, np.dtype[Any]]

KEEP, BF16X6, IEEE = 0, 1, 2
"""Verdicts of the guard: the emulated product stands, or is computed again in this mode."""

VERDICTS = {KEEP: "kept", BF16X6: "bf16x6", IEEE: "ieee"}

CHUNK = 64
"""k per chain of fp16x3."""

INTEGER_CHUNK = 32768
"""k that three sums of int8 digits can add up without overflow: 3·2**14·K < 2**31."""

_LEAST_ROW = -100
# From 2**127 on numbers may round to bf16's infinity.
_LARGEST_ROW = 126
_ROW_OF_ZEROS = 1 << 62
_INVERSE = 1 << 40
_MOST_INT32 = 2**31 - 1
_MOST_DIGITS = 8355711
_LARGEST_BF16 = float(numfmt.BF16.max)
_FARTHEST = 252


def _floor_log2(x: Array) -> Array:
    """floor(log2 x), 0 for 0."""
    return np.where(x > 0, np.frexp(x)[1] - 1, 0).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Split:
    """The rows of an operand in parts.

    Attributes:
        parts: The parts, most significant first: float16 or int8 arrays of the operand's shape.
        exponents: int32 per row: the power of two that sums are multiplied by.
        energy: int64 per row of int8 parts: sum of squares of the scaled integers' upper nine bits; 2**62 for rows of
            zeros. None for fp16.
        small: Numbers per row that are too small for full accuracy (fp16); zeros where the energy tells as much.
        special: Rows that hold Inf or NaN.
    """

    parts: tuple[Array, ...]
    exponents: Array
    energy: Array | None
    small: Array
    special: Array


def split_fp16(x: Array) -> Split:
    """Rows in two fp16 parts: x·2**s = big + small, s such that the row's largest number lies in [2**14, 2**15).

    Args:
        x: (R, K) float32 matrix.
    """
    finite, special = _finite(x, np.inf)
    shift, v = _scaled(finite, 14 - _floor_log2(np.abs(finite).max(1, initial=0)))
    big = v.astype(np.float16)
    small = (v - big.astype(np.float32)).astype(np.float16)
    tiny = ((np.abs(v) < 0.125) & (finite != 0)).sum(1, dtype=np.int32)
    return Split((big, small), -shift, None, tiny, special)


def split_int8(x: Array) -> Split:
    """Rows in three int8 digits: the nearest integer of x·2**s is top·2**16 + middle·2**8 + low.

    s is the largest with which the row's largest number fits into 127·2**16 + 127·2**8 + 127.

    Args:
        x: (R, K) float32 matrix.
    """
    finite, special = _finite(x, np.inf)
    largest = np.abs(finite).max(1, initial=0)
    shift = 22 - _floor_log2(largest)
    over = np.rint(np.ldexp(largest.astype(np.float64), shift)) > _MOST_DIGITS
    shift, v = _scaled(finite, shift - over.astype(np.int32))
    q = np.rint(v).astype(np.int32)
    low = ((q + 128) & 255) - 128
    rest = (q - low) >> 8
    middle = ((rest + 128) & 255) - 128
    digits = tuple(d.astype(np.int8) for d in ((rest - middle) >> 8, middle, low))
    return Split(digits, 8 - shift, _energy((rest + 64) >> 7, finite), np.zeros(x.shape[0], np.int32), special)


def _finite(x: Array, limit: float) -> tuple[Array, Array]:
    x = np.asarray(x, np.float32)
    with np.errstate(invalid="ignore"):
        fits = np.abs(x) < limit
    return np.where(fits, x, np.float32(0)), ~fits.all(1)


def _scaled(x: Array, shift: Array) -> tuple[Array, Array]:
    """x·2**shift per row in fp32; exact but for numbers far below every part."""
    with np.errstate(under="ignore"):
        return shift, np.ldexp(x.astype(np.float64), shift[:, None]).astype(np.float32)


def _energy(integers: Array, x: Array) -> Array:
    wide = integers.astype(np.int64)
    return np.where((x != 0).any(1), (wide * wide).sum(1), _ROW_OF_ZEROS)


# --------------------------------------------------------------------------------------------------------------- guard
@dataclass(frozen=True)
class Limits:
    """What a guard lets pass, as integers that the GPU compares.

    Attributes:
        most_small: Numbers of a row that may be too small for their parts.
        worst_inverse: Largest inverse energy of a row, K / energy in units of 2**-40; None: energies do not count.
        mean_inverse: Largest mean of these, or None.
        otherwise: The verdict if something is beyond its limit.
    """

    most_small: int
    worst_inverse: int | None
    mean_inverse: int | None
    otherwise: int


# Error of a serial fp32 sum, in units of u·K·rms(a)·rms(b): partial sums of random signs grow with sqrt(k), each is
# rounded with 0.42 u rms: sqrt(0.42**2/2).
_SERIAL = 0.3
_U = 2.0**-24
# Mean square of what the digits' dropped products add up to: middle·low twice, weighted 2**8, each digit uniform.
_DROPPED = 2.0 * (256.0**2 / 12) ** 2 * 2.0**16
# fp16x3 loses 1.16 u per product, rms: as much as a serial sum of 16 uniform numbers or of 24 normal ones.
LEAST_FP16_K = 32


def fp16x3_limits(K: int) -> Limits:
    """One number in eight may be smaller than 2**-17 of its row's largest; K >= 32."""
    return Limits(K // 8 if K >= LEAST_FP16_K else -1, None, None, BF16X6)


def int8x6_limits(K: int) -> Limits:
    """Mean squares of the rows' integers so large that rounding them costs no more than a serial fp32 sum.

    Quantities in units of integers q: rounding costs 1/12 per number, so the error's mean square is
    K·(rms(qa)² + rms(qb)²)/12 + K·dropped, plus the conversion to fp32, and the serial sum's is
    (0.3·u·K·rms(qa)·rms(qb))². With both rms alike the largest 1/rms² solves a quadratic equation. A single row may be
    twice as bad.
    """

    def largest_inverse(allowed: float) -> int:
        budget = allowed * K * (_SERIAL * _U) ** 2 - 0.27 * _U * _U
        if budget <= 0 or K > 1 << 20:
            return -1
        x = (-1 / 6 + math.sqrt(1 / 36 + 4 * _DROPPED * budget)) / (2 * _DROPPED)
        # rms² of q is 2**30·energy/K.
        return min(int(x * 2.0**30 * _INVERSE), 2**62)

    return Limits(_MOST_INT32, largest_inverse(4.0), largest_inverse(1.0), IEEE)


FACTS = 8
"""int32 numbers that a guard writes down: the verdict, whether a row or column holds Inf or NaN, the most small numbers
of a row of A and of a column of B, the least exponent of any, the bits of two fp32 numbers, the largest inverse energy
and the larger mean of A's and of B's, and 0."""

_VERDICT, _SPECIAL_FACT, _SMALL_A, _SMALL_B, _LEAST, _WORST, _MEAN = range(7)
# The verdict of an attempt that was not needed, or that left the product to the next one.
LEAVE = 3


def verdict(a: Split, b: Split, K: int, limits: Limits) -> int:
    """What the guard decides; integer by integer what `verdict_kernel` does.

    Args:
        a: A's rows.
        b: B's columns.
        K: Their length.
        limits: What passes.
    """
    return int(facts_of(a, b, K, limits)[_VERDICT])


def facts_of(a: Split, b: Split, K: int, limits: Limits | None) -> Array:
    """What the guard writes down about a product, see `FACTS`; integer by integer what `verdict_kernel` does.

    Args:
        a: A's rows.
        b: B's columns.
        K: Their length.
        limits: What passes; None for everything.
    """
    kept, least, most = True, 1000, -1000
    worst = mean = 0
    energies = limits is not None and limits.worst_inverse is not None
    for side in (a, b):
        kept &= limits is None or int(side.small.max(initial=0)) <= limits.most_small
        least = min(least, int(side.exponents.min(initial=least)))
        most = max(most, int(side.exponents.max(initial=most)))
        if energies and side.energy is not None:
            assert limits is not None
            assert limits.worst_inverse is not None
            assert limits.mean_inverse is not None
            inverse = (np.float32(K) / side.energy.astype(np.float32) * np.float32(_INVERSE)).astype(np.int64)
            worst = max(worst, int(inverse.max(initial=0)))
            mean = max(mean, int(inverse.sum()) // max(1, inverse.size))
            kept &= worst <= limits.worst_inverse and mean <= limits.mean_inverse
    code = KEEP
    if not kept:
        assert limits is not None
        out_of_range = least < least_exponent("fp16") or most > most_exponent("fp16")
        code = IEEE if limits.otherwise == BF16X6 and out_of_range else limits.otherwise
    special = int(a.special.any() or b.special.any())
    bits = np.array([worst, mean], np.float32).view(np.int32)
    small = [int(side.small.max(initial=0)) for side in (a, b)]
    return np.array([code, special, *small, least, *bits, 0], np.int32)


# Sums of parts of a row with the exponent e have that of e - 14: see `split_fp16` and `split_int8`.
_SHIFTED = {"fp16": 14, "int8": 14}


def least_exponent(kind: str) -> int:
    """The exponent of the smallest row that three bf16 parts hold without loss, for parts of a kind."""
    return _LEAST_ROW - _SHIFTED[kind]


def most_exponent(kind: str) -> int:
    """The exponent of the largest row all of whose numbers bf16 can hold, for parts of a kind."""
    return _LARGEST_ROW - _SHIFTED[kind]


_guard = threading.local()


def guarded() -> bool:
    """Whether this thread's emulated products are guarded, as they are unless `unguarded` says otherwise."""
    return bool(getattr(_guard, "on", True))


@contextlib.contextmanager
def unguarded() -> Iterator[None]:
    """Emulated products of this thread stay in the mode that was asked for, whatever the data cost.

    Inf and NaN are still treated as fp32 arithmetic treats them, and `auto` still chooses. Inside of a function that
    torch.compile compiles it breaks the graph; around the call of one it does not.
    """
    before = guarded(), traced_unguarded()
    _guard.on, _guard.traced = False, eager.compiling()
    try:
        yield
    finally:
        _guard.on, _guard.traced = before


def traced_unguarded() -> bool:
    """Whether this thread is inside of an `unguarded` that torch.compile is tracing."""
    return bool(getattr(_guard, "traced", False))


# ---------------------------------------------------------------------------------------------------------- arithmetic
def scaled(total: Array, rows: Array, columns: Array) -> Array:
    """total·2**(rows + columns), rounded once to fp32."""
    exponents = np.clip(rows[:, None].astype(np.int64) + columns[None, :], -_FARTHEST, _FARTHEST)
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(total.astype(np.float64), exponents).astype(np.float32)


def _serial(a: Array, b: Array) -> Array:
    if a.shape[1] == 0:
        return np.zeros((a.shape[0], b.shape[1]), np.float32)
    return np.asarray(matrix_units.matmul(a, b, unit="simt.fma", inputs="fp32"), np.float32)


def _rescued(total: Array, a: Array, b: Array, left: Split, right: Split) -> Array:
    """Rows and columns with Inf or NaN computed in fp32."""
    if left.special.any():
        total[left.special] = _serial(a[left.special], b)
    if right.special.any():
        total[:, right.special] = _serial(a, b[:, right.special])
    return total


class Fp16x3:
    """The arithmetic of mode `fp16x3`."""

    def predict(
        self, a: Array, b: Array, types: tuple[str, str] = ("fp32", "fp32"), *, guard: bool | None = None
    ) -> Array:
        """The accumulator's bits on an H200.

        Args:
            a: (M, K) float32 matrix.
            b: (K, N) float32 matrix.
            types: Ignored; both are fp32.
            guard: Whether the guard may choose another mode; None: as `unguarded` has it.

        Returns:
            (M, N) float32 array.
        """
        guard = guarded() if guard is None else guard
        left, right = split_fp16(a), split_fp16(b.T)
        K = a.shape[1]
        facts = facts_of(left, right, K, fp16x3_limits(K) if guard and K else None)
        _note(facts)
        if (code := int(facts[_VERDICT])) != KEEP:
            return _otherwise(code, a, b, left, right)
        total = np.zeros((a.shape[0], b.shape[1]), np.float32)
        (a0, a1), (b0, b1) = left.parts, right.parts
        for k in range(0, K, CHUNK):
            at = slice(k, k + CHUNK)
            chain: Array | None = None
            for x, y in ((a1, b0), (a0, b1), (a0, b0)):
                chain = matrix_units.matmul(x[:, at], y[:, at].T, chain, "hopper.wgmma", inputs="fp16", pad_k=True)
            total = total + chain
        return _rescued(scaled(total, left.exponents, right.exponents) + np.float32(0), a, b, left, right)

    def kept(self, K: int) -> Promise:
        """The bounds where the guard keeps the emulated product."""
        chunks, steps = -(-K // CHUNK), 3 * CHUNK // 16
        # 2**-22 of each operand is lost, small·small is left out, and parts add up to 1 + 2**-10 of their number.
        error = on_unit(lost(Error(), 3.1 * 2.0**-22), steps, 16, 25, 23)
        error = rounded(error, chunks, _U)
        return Promise(
            error.bound,
            float(numfmt.FP32.min_subnormal),
            error.probable,
            f"per {CHUNK} of k three products of fp16 parts in one chain on the tensor core, chains added in fp32",
            scaled=K * 1.01 * 2.0**-38,
        )

    def promise(self, K: int, types: tuple[str, str] = ("fp32", "fp32")) -> Promise:
        """The bounds whatever the guard decides."""
        return _widest(self.kept(K), _mode("bf16x6").promise(K, "fp32"), _mode("ieee").promise(K, "fp32"))


class Int8x6:
    """The arithmetic of mode `int8x6`."""

    def predict(
        self, a: Array, b: Array, types: tuple[str, str] = ("fp32", "fp32"), *, guard: bool | None = None
    ) -> Array:
        """The accumulator's bits on any device; arguments as `Fp16x3.predict`'s."""
        guard = guarded() if guard is None else guard
        left, right = split_int8(a), split_int8(b.T)
        K = a.shape[1]
        facts = facts_of(left, right, K, int8x6_limits(K) if guard and K else None)
        _note(facts)
        if (code := int(facts[_VERDICT])) != KEEP:
            return _otherwise(code, a, b, left, right)
        total = np.zeros((a.shape[0], b.shape[1]), np.float32)
        for k in range(0, K, INTEGER_CHUNK):
            at = slice(k, k + INTEGER_CHUNK)
            # Sums of integers below 2**31 are exact in float64, which multiplies matrices fast.
            x, y = ([p[:, at].astype(np.float64) for p in side.parts] for side in (left, right))
            g0 = x[0] @ y[0].T
            g1 = x[0] @ y[1].T + x[1] @ y[0].T
            g2 = x[0] @ y[2].T + x[1] @ y[1].T + x[2] @ y[0].T
            f0, f1, f2 = (g.astype(np.float32) for g in (g0, g1, g2))
            total = total + (f0 * np.float32(65536) + (f1 * np.float32(256) + f2))
        return _rescued(scaled(total, left.exponents, right.exponents) + np.float32(0), a, b, left, right)

    def kept(self, K: int) -> Promise:
        """The bounds where the guard keeps the emulated product."""
        error = rounded(Error(), 6 + -(-K // INTEGER_CHUNK), _U)
        return Promise(
            error.bound,
            float(numfmt.FP32.min_subnormal),
            error.probable,
            "six products of int8 digits in exact integers, joined in fp32",
            # Half an integer of each operand, and the products left out, of integers as small as 4177856.
            scaled=K * 1.1 * (2.0**-22 + 2.0**-21),
        )

    def promise(self, K: int, types: tuple[str, str] = ("fp32", "fp32")) -> Promise:
        """The bounds whatever the guard decides."""
        return _widest(self.kept(K), _mode("ieee").promise(K, "fp32"))


class Auto:
    """The arithmetic of mode `auto`: the fastest of int8x6, fp16x3, bf16x6 and ieee whose expected error is no worse
    than that of a serial fp32 sum."""

    def predict(self, a: Array, b: Array, types: tuple[str, str] = ("fp32", "fp32")) -> Array:
        """The accumulator's bits on an H200; arguments as `Fp16x3.predict`'s."""
        K = a.shape[1]
        limits = replace(int8x6_limits(K), otherwise=LEAVE)
        first = facts_of(split_int8(a), split_int8(b.T), K, limits)
        if first[_VERDICT] == KEEP:
            _note(np.concatenate([first, np.array([LEAVE] + [0] * (FACTS - 1), np.int32)]))
            with _silence():
                return INT8X6.predict(a, b, guard=False)
        limits = fp16x3_limits(K)
        if K < LEAST_FP16_K:
            limits = replace(limits, otherwise=IEEE)
        _note(np.concatenate([first, facts_of(split_fp16(a), split_fp16(b.T), K, limits)]))
        if K < LEAST_FP16_K:
            return _serial(a, b) + np.float32(0)
        with _silence():
            return FP16X3.predict(a, b, guard=True)

    def promise(self, K: int, types: tuple[str, str] = ("fp32", "fp32")) -> Promise:
        """The bounds whatever is chosen."""
        if K < LEAST_FP16_K:
            promise: Promise = _mode("ieee").promise(K, "fp32")
            return promise
        return _widest(INT8X6.kept(K), FP16X3.promise(K))


FP16X3, INT8X6, AUTO = Fp16x3(), Int8x6(), Auto()


# ------------------------------------------------------------------------------------------------- what the guard did
@dataclass(frozen=True)
class Attempt:
    """What the guard measured before a product was computed in an emulated mode, and what it made of it.

    Attributes:
        mode: The mode.
        verdict: "kept"; or the mode that the product was computed in instead; "left" to the next attempt; "skipped"
            since the attempt before was kept.
        small: The most numbers of a row of A, or of a column of B, that are too small for full accuracy.
        most_small: How many may be; None if no guard asked.
        spread: The least root mean square of a row's or column's digits, in units of the largest integer that digits
            can hold, which its largest number is scaled to be at least half of; None where that does not count.
        least_spread: What it must be at least for a single row.
        mean_spread: The same for all rows of an operand together.
        least_mean_spread: What that must be at least.
        special: Whether rows or columns hold Inf or NaN, which are computed in fp32 arithmetic.
    """

    mode: str
    verdict: str
    small: int
    most_small: int | None
    spread: float | None
    least_spread: float | None
    mean_spread: float | None
    least_mean_spread: float | None
    special: bool

    def __str__(self) -> str:
        if self.verdict == "skipped":
            return f"{self.mode} was not needed"
        said = {"kept": "kept", "left": "refused"}.get(self.verdict, f"refused, computed as {self.verdict}")
        return f"{self.mode} {said}: {'; '.join(self._measured())}"

    def _measured(self) -> list[str]:
        if self.most_small is None:
            return ["no guard asked"]
        if self.most_small < 0:
            return ["sums so short are faster and as accurate in fp32 arithmetic"]
        if self.spread is None:
            return [
                f"up to {self.small} numbers of a row or column are too small for its parts, {self.most_small} may be"
            ]
        assert self.least_spread is not None
        assert self.mean_spread is not None
        assert self.least_mean_spread is not None
        return [
            f"the root mean square of a row or column is at least {self.spread:.2g} of its digits' range, "
            f"{self.least_spread:.2g} is needed",
            f"{self.mean_spread:.2g} over all rows or columns, {self.least_mean_spread:.2g} is needed",
        ]


@dataclass(frozen=True, eq=False)
class Outcome:
    """How a product was computed in a mode that looks at its numbers; reading it waits for the GPU.

    Attributes:
        requested: The mode that was asked for.
        facts: Per product of the batch, `FACTS` int32 numbers on the device that computed it; for `auto` those of
            int8x6, then those of fp16x3. None for products that no guard looked at.
        K: Length of the sums.
        guarded: Whether the guard was asked.
        reason: Why no guard looked, if none did.
    """

    requested: str
    facts: tuple[Any, ...]
    K: int = 0
    guarded: bool = True
    reason: str = ""

    @property
    def attempts(self) -> tuple[tuple[Attempt, ...], ...]:
        """Per product, what the guard measured and decided, in the order in which modes were tried."""
        return tuple(self._attempts_of(np.array([int(n) for n in f], np.int32)) for f in self.facts)

    def _attempts_of(self, facts: Array) -> tuple[Attempt, ...]:
        modes = ("int8x6", "fp16x3") if self.requested == "auto" else (self.requested,)
        return tuple(self._attempt(mode, facts[i * FACTS : (i + 1) * FACTS], i) for i, mode in enumerate(modes))

    def _attempt(self, mode: str, facts: Array, place: int) -> Attempt:
        code = int(facts[_VERDICT])
        said = VERDICTS.get(code, "left" if place == 0 else "skipped")
        made = {"int8x6": int8x6_limits, "fp16x3": fp16x3_limits}.get(mode)
        limits = made(self.K) if made is not None and self.guarded and self.K and said != "skipped" else None
        inverses = facts[[_WORST, _MEAN]].view(np.float32)
        energies = limits is not None and limits.worst_inverse is not None

        def spread(inverse: float | None) -> float | None:
            return None if not energies or inverse is None or inverse <= 0 else _SPREAD / math.sqrt(inverse)

        short = limits is not None and limits.worst_inverse is not None and limits.worst_inverse < 0
        return Attempt(
            mode,
            said,
            int(max(facts[_SMALL_A], facts[_SMALL_B])),
            None if limits is None else -1 if short else limits.most_small,
            spread(float(inverses[0])),
            spread(limits.worst_inverse if limits is not None else None),
            spread(float(inverses[1])),
            spread(limits.mean_inverse if limits is not None else None),
            said != "skipped" and bool(facts[_SPECIAL_FACT]),
        )

    @property
    def modes(self) -> tuple[str, ...]:
        """The mode each product was computed in; none for products without outputs."""
        if self.reason:
            return ("ieee",)
        return tuple(self._mode_of(attempts) for attempts in self.attempts)

    def _mode_of(self, attempts: tuple[Attempt, ...]) -> str:
        for attempt in attempts:
            if attempt.verdict == "kept":
                return attempt.mode
        return attempts[-1].verdict

    @property
    def specials(self) -> tuple[bool, ...]:
        """Whether rows or columns with Inf or NaN were computed in fp32 arithmetic."""
        return tuple(any(attempt.special for attempt in attempts) for attempts in self.attempts)

    def __str__(self) -> str:
        if not self.facts and not self.reason:
            return f"{self.requested}: nothing to compute, the product has no outputs"
        if self.reason:
            return f"{self.requested}: computed as ieee; {self.reason}"
        done = ", ".join(dict.fromkeys(self.modes))
        text = f"{self.requested}: kept" if done == self.requested else f"{self.requested}: computed as {done}"
        whys = dict.fromkeys(str(attempt) for attempts in self.attempts for attempt in attempts)
        text += "".join(f"\n  {why}" for why in whys)
        return text + ("\n  rows or columns with Inf or NaN in fp32 arithmetic" if any(self.specials) else "")


# The root mean square of a row's integers, in units of 2**23, is this over the root of its inverse energy.
_SPREAD = 2.0**12


@dataclass(frozen=True, eq=False)
class Prepared:
    """A right-hand operand cut into parts once, for many products: `tritongemm.prepare(b)`.

    Attributes:
        b: The (K, N) fp32 matrix, because the guard may have to compute in another mode: on the CPU a copy; on a GPU
            what was given, so that it has to be prepared again after a change.
        precision: The mode its parts are for.
        parts: The parts of its columns, on a GPU; they do not follow later changes of b.
    """

    b: Any
    precision: str
    parts: Any

    @property
    def shape(self) -> tuple[int, int]:
        """(K, N)."""
        return int(self.b.shape[0]), int(self.b.shape[1])

    @property
    def dtype(self) -> Any:
        """b's."""
        return self.b.dtype

    # NumPy's arrays would take it for one number and ask each of their elements to multiply it.
    __array_ufunc__ = None

    def __rmatmul__(self, a: Any) -> Any:
        from tritongemm.api import matmul

        return matmul(a, self)


def prepare(b: Any, precision: str = "fp16x3") -> Prepared:
    """Cuts weights into parts once.

    Args:
        b: (K, N) fp32 matrix of any strides: CUDA or CPU tensor, or NumPy array. Not changed; products do not follow
            later changes of it.
        precision: "fp16x3", "bf16x6", "int8x6" or "portable".

    Returns:
        The prepared operand, to be given to `tritongemm.mm` or `matmul` as b, as often as wanted.

    Raises:
        UsageError: b is no fp32 matrix or records gradients, or the mode has no parts.
        Unavailable: b is on a GPU that has no kernels for emulated products.
    """
    from tritongemm import modes
    from tritongemm.operands import Call, check_has_numbers, check_kinds

    mode = modes.get(precision).name
    if mode not in ("fp16x3", "bf16x6", "int8x6"):
        raise UsageError(f"precision: {precision!r} cuts nothing into parts; fp16x3, bf16x6 and int8x6 (portable) do.")
    check_kinds(Call("prepare"), {"b": b})
    if element_of(b, "b").name != "fp32" or len(b.shape) != 2:
        raise UsageError(f"b: emulated products take (K, N) fp32 matrices, given {b.dtype} {tuple(b.shape)}.")
    check_has_numbers("b", b, "cut into parts")
    if is_torch(b):
        if b.requires_grad and sys.modules["torch"].is_grad_enabled():
            raise UsageError(
                "b: prepared operands record no gradients, and b requires one; prepare b.detach(), or under "
                "torch.no_grad(), or give b itself to mm."
            )
        b = b.detach()
    if not is_cuda(b):
        return Prepared(_copy(b), mode, None)
    _require_hopper(b)
    from tritongemm.kernels.hopper.parts import split

    return Prepared(b, mode, split(b.t(), {"fp16x3": "fp16", "int8x6": "int8", "bf16x6": "bf16"}[mode]))


def _copy(x: Any) -> Any:
    if is_torch(x):
        return x.clone()
    if is_typed(x):
        import fpsan_tools

        return fpsan_tools.typed(x.array.copy(), x.dtype)
    return x.copy(order="K")


def product(
    a: Any, b: Prepared, *, out: Any = None, out_dtype: Any = None, epilogue: Any = None, guard: bool | None = None
) -> Any:
    """activation(alpha·A B + beta·C + bias) with a prepared B.

    Args:
        a: (M, K) fp32 matrix, where b is.
        b: The prepared operand.
        out: The result to write to; a new one if not given.
        out_dtype: Type of a new result; fp32 if not given.
        epilogue: `tritongemm.kernels.epilogue.Epilogue`, or None.
        guard: Whether the guard may compute in another mode; None: as `unguarded` has it. See `last_outcome`.

    Returns:
        The (M, N) result, `out` if that was given.

    Raises:
        UsageError: Shapes, types or places do not fit.
    """
    from tritongemm import dispatch, modes
    from tritongemm.kernels.epilogue import Epilogue
    from tritongemm.kernels.problems import Operands

    epilogue = Epilogue() if epilogue is None else epilogue
    if b.parts is None:
        with contextlib.nullcontext() if guard or (guard is None and guarded()) else unguarded():
            return dispatch.product(a, b.b, mode=b.precision, out=out, out_dtype=out_dtype, epilogue=epilogue)
    wanted = None if out_dtype is None else element_named(str(out_dtype), "out_dtype")
    operands = Operands.of(a, b.b, modes.get(b.precision), out=out, out_dtype=wanted, epilogue=epilogue)
    if not operands.empty:
        from tritongemm.kernels.hopper import emulated
        from tritongemm.kernels.hopper.candidates import on_device_of

        with on_device_of(operands):
            emulated.run(operands, right=b.parts, guard=guard)
    return operands.out


def _require_hopper(x: Any) -> None:
    from tritongemm.kernels.hopper.candidates import is_hopper

    if not is_hopper(x):
        raise Unavailable("b: prepared operands need a GPU of compute capability 9.0 and Triton 3.9 or newer.")


_outcomes = threading.local()
_OF_NOTHING = "sums of no products are zero in every mode"


def remember(requested: str, facts: Sequence[Any], *, K: int = 0, guarded: bool = True, reason: str = "") -> Outcome:
    """Keeps what was decided for `last_outcome`.

    Args:
        requested: The mode that was asked for.
        facts: See `Outcome`.
        K: Length of the sums.
        guarded: Whether the guard was asked.
        reason: Why no guard looked.
    """
    if facts and K == 0:
        facts, reason = (), _OF_NOTHING
    outcome = _outcomes.last = Outcome(requested, tuple(facts), K, guarded, reason)
    return outcome


def remember_empty(requested: str, K: int) -> None:
    """Keeps for `last_outcome` that a product had no outputs, if its mode looks at numbers.

    Args:
        requested: The mode that was asked for.
        K: Length of the sums.
    """
    if requested in ("auto", "fp16x3", "int8x6"):
        remember(requested, (), K=K, guarded=requested == "auto" or guarded())


def last_outcome() -> Outcome | None:
    """How this thread's last product in a mode that looks at its numbers was computed, and why.

    These are `auto`, `fp16x3`, `int8x6` ("portable") and, on a GPU, `bf16x6`; on GPUs, on the CPU and with NumPy.

    Returns:
        What the guard measured and decided; None before the first such product.
    """
    return getattr(_outcomes, "last", None)


@contextlib.contextmanager
def unremembered() -> Iterator[None]:
    """What is computed inside is no product of the caller's: `last_outcome` stays as it is."""
    before = last_outcome()
    try:
        yield
    finally:
        _outcomes.last = before


@contextlib.contextmanager
def noting(requested: str, K: int) -> Iterator[None]:
    """Remembers what is decided while products are computed on the CPU.

    Args:
        requested: The mode that was asked for.
        K: Length of the sums.
    """
    before, notes = getattr(_outcomes, "notes", None), list[Array]()
    _outcomes.notes = notes
    try:
        yield
    finally:
        _outcomes.notes = before
    if notes:
        remember(requested, notes, K=K, guarded=requested == "auto" or guarded())


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """What is decided inside has been noted already."""
    before, _outcomes.notes = getattr(_outcomes, "notes", None), None
    try:
        yield
    finally:
        _outcomes.notes = before


def _note(facts: Array) -> None:
    notes = getattr(_outcomes, "notes", None)
    if notes is not None:
        notes.append(facts)


def _mode(name: str) -> Any:
    from tritongemm import modes

    return modes.get(name)


def _widest(kept: Promise, *others: Promise) -> Promise:
    every = (kept, *others)
    return Promise(
        max(p.relative_bound for p in every),
        max(p.absolute for p in every),
        max(p.probabilistic for p in every),
        f"{kept.order}; where the guard says so, {' or '.join(p.order for p in others)}",
        subnormal=max(p.subnormal for p in every),
        scaled=max(p.scaled for p in every),
        largest=min(p.largest for p in every),
    )


def _otherwise(code: int, a: Array, b: Array, left: Split, right: Split) -> Array:
    if code == IEEE:
        return _serial(a, b) + np.float32(0)
    total = np.asarray(_mode("bf16x6").predict(a, b), np.float32).copy()
    return _rescued(total, a, b, left, right)
