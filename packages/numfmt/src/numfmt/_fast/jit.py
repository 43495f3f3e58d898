"""Rounding with numba: one loop without branches, compiled per carrier, way and mode; the rest are arguments.

Four rules keep LLVM's vectoriser going and the loop at the speed of memory: bits and numbers are exchanged by a bitcast
in a register; every intermediate integer is cast back to the carrier's width (numba widens to 64 bits otherwise, which
costs a factor of ten); rounding instructions are LLVM's own (``np.rint`` is a call); and cases are selected, not
branched to, among bit patterns rather than numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from numfmt._fast.chunks import NanRefused
from numfmt._fast.plan import FLOAT32, Carrier, Plan
from numfmt._random import GROUP, MULTIPLIERS, PLANE, ROUNDS, WEYL

#: Elements per piece of work: few enough that its random words stay in the cache; a multiple of the random group.
PIECE = 1 << 14
assert PIECE % GROUP == 0
#: From this many elements on, the work is shared by threads.
THREADED = 1 << 21

_jit = numba.njit(nogil=True, error_model="numpy", boundscheck=False)


def _bitcast(result: Any, argument: Any, llvm: Any) -> Any:
    """A function that reinterprets the bits of a scalar."""

    def cast(typingctx: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], llvm)

        return result(argument), codegen

    return intrinsic(cast)


def _instruction(name: str) -> Any:
    """A function that is one LLVM instruction from a floating-point number to one of the same type."""

    def call(typingctx: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.call(builder.module.declare_intrinsic(f"llvm.{name}", [args[0].type]), args)

        return value(value), codegen

    return intrinsic(call)


bits32 = _bitcast(types.uint32, types.float32, ir.IntType(32))
number32 = _bitcast(types.float32, types.uint32, ir.FloatType())
bits64 = _bitcast(types.uint64, types.float64, ir.IntType(64))
number64 = _bitcast(types.float64, types.uint64, ir.DoubleType())
_rint, _trunc, _ceil, _floor, _abs = (_instruction(name) for name in ("rint", "trunc", "ceil", "floor", "fabs"))

# Rounding x / q to an integer: functions of s = x / q, the quantum's bits, the parity constant of formats without
# mantissa (0 where there is one), the random word and the number of random bits. The sign is put back afterwards.


def _carry(carrier: Carrier, variant: str) -> Callable[..., Any]:
    """Does the discarded fraction, brought to n bits as the variant says, plus the random number reach one?"""
    u32, f64, width = np.uint32, np.float64, carrier.dtype.type(2.0**32)
    if variant == "a":

        @_jit
        def carry(fraction: Any, word: Any, n: Any) -> Any:
            # floor(f * 2**n) + R >= 2**n, without a sum that needs 33 bits
            cut = u32(u32(32) - n)
            return u32(u32(fraction * width) >> cut) > u32(u32(~word) >> cut)

    elif variant == "b":

        @_jit
        def carry(fraction: Any, word: Any, n: Any) -> Any:
            scaled = f64(fraction) * f64(1 << n)
            whole = _floor(scaled)
            whole += 1.0 if scaled - whole >= 0.5 else 0.0
            return whole + f64(u32(word >> u32(u32(32) - n))) >= f64(1 << n)

    else:

        @_jit
        def carry(fraction: Any, word: Any, n: Any) -> Any:
            return _rint(f64(fraction) * f64(1 << n)) + f64(u32(word >> u32(u32(32) - n))) >= f64(1 << n)

    return carry  # type: ignore[no-any-return]


def _whole(carrier: Carrier, mode: str, variant: str, mantissa: bool) -> Callable[..., Any]:
    """The rounding to an integer of a mode; ``mantissa`` is False for formats whose code parity is the exponent's."""
    integer, real = carrier.integer.type, carrier.dtype.type
    bits = bits32 if carrier is FLOAT32 else bits64
    one, field = integer(1), integer(carrier.mantissa)
    magic = real(2.0**carrier.mantissa)  # added to an integer below it, puts its parity into the last bit
    if variant:
        carry = _carry(carrier, variant)

        @_jit
        def whole(s: Any, q: Any, parity: Any, word: Any, n: Any) -> Any:
            size = _abs(s)
            low = _floor(size)
            return low + real(1) if carry(size - low, word, n) else low

    elif mode == "nearest_away":

        @_jit
        def whole(s: Any, q: Any, parity: Any, word: Any, n: Any) -> Any:
            low = _trunc(s)
            rest = s - low
            return low + _trunc(rest + rest)

    elif mode == "to_odd":

        @_jit
        def whole(s: Any, q: Any, parity: Any, word: Any, n: Any) -> Any:
            size = _abs(s)
            low = _floor(size)
            if mantissa:
                even = integer(bits(low + magic) & one) == integer(0)
            else:
                even = low == real(0) or integer(integer(integer(q >> field) + parity) & one) == integer(0)
            return low + real(1) if (size != low) & even else low

    elif mode == "nearest_even" and not mantissa:

        @_jit
        def whole(s: Any, q: Any, parity: Any, word: Any, n: Any) -> Any:
            even = integer(integer(integer(q >> field) + parity) & one) == integer(0)
            return real(1) if (_abs(s) == real(1.5)) & even else _rint(s)

    else:
        step = {"nearest_even": _rint, "toward_zero": _trunc, "up": _ceil, "down": _floor}[mode]

        @_jit
        def whole(s: Any, q: Any, parity: Any, word: Any, n: Any) -> Any:
            return step(s)

    return whole  # type: ignore[no-any-return]


def _aligned(carrier: Carrier, mode: str, variant: str) -> Callable[..., Any]:
    """Rounding of bits to multiples of 2**sh; the sign bit must not be disturbed except for NaN."""
    integer, real = carrier.integer.type, carrier.dtype.type
    zero, one, top = integer(0), integer(1), integer(carrier.width - 1)
    if variant:
        carry = _carry(carrier, variant)

        @_jit
        def aligned(u: Any, sh: Any, mask: Any, unit: Any, word: Any, n: Any) -> Any:
            up = carry(real(integer(u & mask)) * unit, word, n)
            return integer(integer(u & integer(~mask)) + (integer(mask + one) if up else zero))

    elif mode == "nearest_even":

        @_jit
        def aligned(u: Any, sh: Any, mask: Any, unit: Any, word: Any, n: Any) -> Any:
            odd = integer(integer(u >> sh) & one)
            # mask >> 1 is half a unit less one, and 0 where there is nothing to round
            return integer(integer(u + integer(mask >> one) + integer(odd & mask)) & integer(~mask))

    elif mode == "nearest_away":

        @_jit
        def aligned(u: Any, sh: Any, mask: Any, unit: Any, word: Any, n: Any) -> Any:
            return integer(integer(u + integer(integer(mask + one) >> one)) & integer(~mask)) if mask else u

    elif mode == "toward_zero":

        @_jit
        def aligned(u: Any, sh: Any, mask: Any, unit: Any, word: Any, n: Any) -> Any:
            return integer(u & integer(~mask))

    elif mode == "to_odd":

        @_jit
        def aligned(u: Any, sh: Any, mask: Any, unit: Any, word: Any, n: Any) -> Any:
            low = integer(u & integer(~mask))
            return integer(low | integer(mask + one)) if low != u else u

    else:
        moves = integer(1 if mode == "down" else 0)

        @_jit
        def aligned(u: Any, sh: Any, mask: Any, unit: Any, word: Any, n: Any) -> Any:
            return integer(integer(u + (mask if integer(u >> top) == moves else zero)) & integer(~mask))

    return aligned  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _Facts:
    """What a kernel is compiled for, so that common formats pay for nothing they do not need.

    Attributes:
        carrier: The carrier.
        way: "scaled" or "aligned".
        mode: Name of the rounding mode.
        variant: Variant of a stochastic mode, else "".
        mantissa: The format has mantissa bits.
        subnormals: It has subnormals.
        signed: It has a sign.
        zero: It has a zero.
        negative_zero: It has a -0.
        stretched: The bits of small numbers are stretched first.
        ordinary_infinity: Infinities become what finite numbers beyond the range become.
        watched: The largest magnitude is wanted, to see whether there was a NaN.
    """

    carrier: Carrier
    way: str
    mode: str
    variant: str
    mantissa: bool
    subnormals: bool
    signed: bool
    zero: bool
    negative_zero: bool
    stretched: bool
    ordinary_infinity: bool
    watched: bool


@lru_cache(maxsize=128)
def _kernel(facts: _Facts) -> Callable[..., Any]:
    """The loop over one piece: ``kernel(x, y, constants, unit, words, n)``, which returns the largest |x| as bits."""
    carrier = facts.carrier
    mantissa, subnormals, signed = facts.mantissa, facts.subnormals, facts.signed
    zero, negative_zero = facts.zero, facts.negative_zero
    ordinary_infinity, watched = facts.ordinary_infinity, facts.watched
    integer, real = carrier.integer.type, carrier.dtype.type
    bits, number = (bits32, number32) if carrier is FLOAT32 else (bits64, number64)
    sign, infinity = integer(carrier.sign), integer(carrier.infinity)
    absolute, double = integer(carrier.sign - 1), integer(2 * carrier.power(0))
    highest = integer(carrier.power(carrier.bias - 1))
    nothing, no_word, top = integer(0), np.uint32(0), integer(carrier.width - 1)
    scaled, stochastic, stretched = facts.way == "scaled", bool(facts.variant), facts.stretched
    normal = integer(1 << carrier.mantissa)  # the smallest normal number
    whole: Any = _whole(carrier, facts.mode, facts.variant, mantissa) if scaled else None
    aligned: Any = None if scaled else _aligned(carrier, facts.mode, facts.variant)

    @_jit
    def kernel(x: Any, y: Any, c: Any, unit: Any, words: Any, n: Any) -> Any:
        a0, a1, a2, limit, over_up, over_change = c[0], c[1], c[2], c[3], c[4], c[5]
        infinite_up, infinite_down, nan, lowest = c[6], c[7], c[8], c[9]
        largest = nothing
        for i in range(x.size):
            v = real(x[i])
            u = bits(v)
            word = words[i] if stochastic else no_word
            if scaled:  # a0: bits of 2**emin, a1: m in the exponent field, a2: parity constant
                e = integer(u & infinity)
                q = integer(max(e, a0) - a1)
                if not subnormals:
                    q = a0 if e < a0 else q
                if not mantissa:  # 2**bias has no inverse in the carrier; no format reaches it
                    q = min(q, highest)
                r = bits(whole(v * number(integer(double - q)), q, a2, word, n) * number(q))
            else:  # a0: shift, a1: mask
                b = u
                if stretched:
                    small = integer(u & absolute)
                    twice = integer(max(integer(small + small), normal) - normal)
                    b = integer(integer(u & sign) | twice) if small < normal else u
                r = aligned(b, a0, a1, unit, word, n)
            size = integer(u & absolute)
            negative = integer(u & sign)
            r = integer(r & absolute)
            if not zero:
                r = max(r, lowest)
            if signed:
                over = r > limit
                r = integer(r | negative)
                if not negative_zero:
                    r = nothing if r == sign else r
            else:  # below, the range ends at 0, or at the smallest value if that is not 0
                over = (r if zero else min(r, size)) > (limit if negative == nothing else nothing)
            below = integer(nothing - integer(u >> top))  # all ones for negative numbers
            r = integer(over_up ^ integer(below & over_change)) if over else r
            if not ordinary_infinity:
                r = (infinite_down if negative else infinite_up) if size == infinity else r
            r = nan if size > infinity else r
            if watched:
                largest = max(largest, size)
            y[i] = number(r)
        return largest

    return kernel  # type: ignore[no-any-return]


@_jit
def _words(out: Any, first: Any, k0: Any, k1: Any) -> None:
    """Philox words of whole groups, the first block having the counter ``first``; keys are 32-bit numbers in uint64."""
    u64 = np.uint64
    low, shift = u64(0xFFFFFFFF), u64(32)
    m0, m1, w0, w1 = u64(MULTIPLIERS[0]), u64(MULTIPLIERS[1]), u64(WEYL[0]), u64(WEYL[1])
    for group in range(out.size // GROUP):
        plane = out[group * GROUP : (group + 1) * GROUP]
        base = u64(first + u64(group * PLANE))
        for b in range(PLANE):
            counter = u64(base + u64(b))
            c0, c1, c2, c3 = u64(counter & low), u64(counter >> shift), u64(0), u64(0)
            key0, key1 = u64(k0), u64(k1)
            for _ in range(ROUNDS):
                p0, p1 = u64(c0 * m0), u64(c2 * m1)
                c0, c1 = u64(u64(u64(p1 >> shift) ^ c1) ^ key0), u64(p1 & low)
                c2, c3 = u64(u64(u64(p0 >> shift) ^ c3) ^ key1), u64(p0 & low)
                key0, key1 = u64(u64(key0 + w0) & low), u64(u64(key1 + w1) & low)
            plane[b] = np.uint32(c0)
            plane[PLANE + b] = np.uint32(c1)
            plane[2 * PLANE + b] = np.uint32(c2)
            plane[3 * PLANE + b] = np.uint32(c3)


@_jit
def _pieces(kernel: Any, x: Any, y: Any, c: Any, unit: Any, words: Any, n: Any, first: Any, k0: Any, k1: Any) -> Any:
    """Words and results piece by piece, so that the words never leave the cache."""
    largest = c[0] & c[0] ^ c[0]  # zero of the carrier's integer type
    for start in range(0, x.size, PIECE):
        stop = min(start + PIECE, x.size)
        _words(words, np.uint64(first + np.uint64(start // 4)), k0, k1)
        largest = max(largest, kernel(x[start:stop], y[start:stop], c, unit, words, n))
    return largest


@lru_cache(maxsize=256)
def _prepared(plan: Plan) -> tuple[Callable[..., Any], NDArray[Any], Any]:
    """The kernel of a plan and the arguments that it unpacks."""
    c, mode = plan.carrier, plan.mode
    up, down = (c.bits(v) for v in plan.over)
    facts = _Facts(
        carrier=c,
        way=plan.way,
        mode=mode.name,
        variant=mode.stochastic,
        mantissa=plan.mantissa > 0,
        subnormals=plan.subnormals,
        signed=plan.signed,
        zero=plan.lowest == 0,
        negative_zero=plan.negative_zero,
        stretched=plan.stretched,
        ordinary_infinity=[c.bits(v) for v in plan.infinite] == [up, down],
        watched=plan.nan is None,
    )
    kernel = _kernel(facts)
    if plan.way == "scaled":
        a = (plan.emin_bits, plan.mantissa << c.mantissa, (plan.bias_parity + c.bias) & 1)
    else:
        a = (plan.shift, (1 << plan.shift) - 1, 0)
    nan = float("nan") if plan.nan is None else plan.nan
    # What lies beyond the range differs between the signs by a pattern of bits, usually the sign bit.
    ends = [c.bits(plan.limit), up, up ^ down, *(c.bits(v) for v in (*plan.infinite, nan, plan.lowest))]
    return kernel, np.array([*a, *ends], c.integer), c.dtype.type(2.0**-plan.shift)


@lru_cache(maxsize=1)
def _pool() -> tuple[ThreadPoolExecutor, int]:
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ThreadPoolExecutor(workers, thread_name_prefix="numfmt"), workers


def round_jit(
    x: NDArray[Any],
    out: NDArray[Any],
    plan: Plan,
    key: int = 0,
    random: NDArray[np.uint32] | None = None,
    random_bits: int = 32,
) -> None:
    """The same as `numfmt._fast.chunks.round_chunks`, compiled; long arrays are shared by threads.

    Raises:
        NanRefused: If x holds NaN and the plan has no value for it.
    """
    c, mode = plan.carrier, plan.mode
    kernel, constants, unit = _prepared(plan)
    n = np.uint32(random_bits)
    k0, k1 = np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32)

    def work(start: int, stop: int) -> int:
        piece, target = x[start:stop], out[start:stop]
        if not mode.stochastic:
            return int(kernel(piece, target, constants, unit, np.empty(0, np.uint32), n))
        if random is not None:
            return int(kernel(piece, target, constants, unit, random[start:stop] << np.uint32(32 - random_bits), n))
        words = np.empty(PIECE, np.uint32)
        return int(_pieces(kernel, piece, target, constants, unit, words, n, np.uint64(start // 4), k0, k1))

    pool, workers = (None, 1) if x.size < THREADED else _pool()
    if pool is None or workers == 1:
        largest = work(0, x.size)
    else:
        share = -(-x.size // (workers * PIECE)) * PIECE
        largest = max(pool.map(lambda start: work(start, min(start + share, x.size)), range(0, x.size, share)))
    if plan.nan is None and largest > c.infinity:
        raise NanRefused
