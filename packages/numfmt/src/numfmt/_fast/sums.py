"""Simulated additions compiled by numba: running sums, compensated sums and matrix products.

A step is the same as in `numfmt._rounded`: the sum in float64, or with TwoSum and rounding to odd where that is not
enough, then one rounding to the format. Columns are the inner, contiguous loop, so that a step is vectorised over them.
Kernels do not look at the ends of the range; they return the largest magnitude they met (as bits, so that NaN counts
as large), and the caller does a block again with care if that is beyond the format's largest value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from numfmt._fast.jit import _whole as rounding_to_integer
from numfmt._fast.jit import bits32, bits64, number32, number64
from numfmt._fast.plan import FLOAT32, FLOAT64, Carrier

_jit = numba.njit(nogil=True, error_model="numpy", boundscheck=False)

_SIGN = np.uint64(1 << 63)
_SIZE = np.uint64((1 << 63) - 1)
_FIELD = np.uint64(0x7FF << 52)
_DOUBLE = np.uint64(2 * 1023 << 52)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_NO_WORD = np.uint32(0)
# Sums that stay in the first-level cache while rows are added to them.
_COLUMNS = 1024


def constants(emin: int, mantissa_bits: int, negative_zero: bool, carrier: Carrier = FLOAT64) -> NDArray[Any]:
    """What kernels know about a format, as integers of the carrier's width.

    Returns:
        Bits of 2^emin; m in the exponent field; the sign bit of zeros; what added to the bits of a power of two
        multiplies it by 1.5 * 2^(carrier's mantissa bits - m).
    """
    field = carrier.mantissa
    spare = (field - mantissa_bits) << field | 1 << (field - 1)
    sign = carrier.sign if negative_zero else 0
    return np.array((carrier.power(emin), mantissa_bits << field, sign, spare), carrier.integer)


@lru_cache(maxsize=64)
def _rounding(mode: str, variant: str, carrier: Carrier = FLOAT64) -> Callable[..., Any]:
    """r(v) of a number of the carrier that is exact or rounded to odd, without the ends of the range."""
    whole: Any = rounding_to_integer(carrier, mode, variant, True)
    integer = carrier.integer.type
    bits, number = (bits32, number32) if carrier is FLOAT32 else (bits64, number64)
    sign, size_mask, field = integer(carrier.sign), integer(carrier.sign - 1), integer(carrier.infinity)
    double, zero = integer(2 * carrier.power(0)), integer(0)

    if mode == "nearest_even":

        @_jit
        def rounded(v: Any, emin: Any, m: Any, zero_sign: Any, spare: Any, word: Any, n: Any) -> Any:
            # g: a power of two in whose binade the carrier's last bit is the format's; 1.5 keeps v + g in that binade.
            u = bits(v)
            g = number(integer(integer(max(integer(u & field), emin)) + spare))
            # Only a zero has lost its sign.
            return number(integer(bits((v + g) - g) | integer(u & zero_sign)))

    else:

        @_jit
        def rounded(v: Any, emin: Any, m: Any, zero_sign: Any, spare: Any, word: Any, n: Any) -> Any:
            u = bits(v)
            q = integer(max(integer(u & field), emin) - m)
            r = whole(v * number(integer(double - q)), q, zero, word, n) * number(q)
            size = integer(bits(r) & size_mask)
            return number(integer(size | integer(u & (zero_sign if size == zero else sign))))

    return rounded  # type: ignore[no-any-return]


@lru_cache(maxsize=64)
def _carried(wide: bool, down: bool) -> Callable[..., Any]:
    """a + b in float64: plain where that is enough, else rounded to odd."""
    if not wide:

        @_jit
        def carried(a: Any, b: Any) -> Any:
            return a + b

        return carried  # type: ignore[no-any-return]

    @_jit
    def carried_to_odd(a: Any, b: Any) -> Any:
        s = a + b
        part = s - a
        e = (a - (s - part)) + (b - part)
        u, lost = bits64(s), bits64(e)
        # One step, away from zero where the error has the sum's sign, from an even number only.
        outward = np.uint64(np.uint64(u ^ lost) >> np.uint64(63)) == _ZERO
        move = (e != 0.0) & (np.uint64(u & _ONE) == _ZERO)
        stepped = np.uint64(u + _ONE) if outward else np.uint64(u - _ONE)
        u = stepped if move else u
        if down and np.uint64(u & _SIZE) == _ZERO:
            u = np.uint64(np.uint64(bits64(a) | bits64(b)) & _SIGN)
        return number64(u)

    return carried_to_odd  # type: ignore[no-any-return]


@lru_cache(maxsize=64)
def addition(mode: str, variant: str, wide: bool) -> Callable[..., Any]:
    """The step r(a + b)."""
    carried, rounded = _carried(wide, mode == "down"), _rounding(mode, variant)

    @_jit
    def step(a: Any, b: Any, emin: Any, m: Any, zero_sign: Any, spare: Any, word: Any, n: Any) -> Any:
        return rounded(carried(a, b), emin, m, zero_sign, spare, word, n)

    return step  # type: ignore[no-any-return]


@lru_cache(maxsize=64)
def sequential(mode: str, variant: str, wide: bool) -> Callable[..., Any]:
    """kernel(x (k, T), s (T,), words (k, T), constants, n) -> (bits of the largest |s| met, union of the bits of x).

    s is updated. The union tells afterwards whether the terms were as short as the caller hoped.
    """
    step, stochastic = addition(mode, variant, wide), bool(variant)

    @_jit
    def row(x: Any, s: Any, words: Any, emin: Any, m: Any, zero_sign: Any, spare: Any, n: Any) -> Any:
        largest, union = _ZERO, _ZERO
        for t in range(s.size):
            word = words[t] if stochastic else _NO_WORD
            v = x[t]
            r = step(s[t], v, emin, m, zero_sign, spare, word, n)
            s[t] = r
            largest = max(largest, np.uint64(bits64(r) & _SIZE))
            union = np.uint64(union | bits64(v))
        return largest, union

    @_jit
    def kernel(x: Any, s: Any, words: Any, c: Any, n: Any) -> Any:
        largest, union = _ZERO, _ZERO
        for first in range(0, s.size, _COLUMNS):
            last = min(first + _COLUMNS, s.size)
            sums = s[first:last]
            for k in range(x.shape[0]):
                drawn = words[k][first:last] if stochastic else words[0]
                met, seen = row(x[k][first:last], sums, drawn, c[0], c[1], c[2], c[3], n)
                largest, union = max(largest, met), np.uint64(union | seen)
        return largest, union

    return kernel  # type: ignore[no-any-return]


@lru_cache(maxsize=64)
def pairs(mode: str, variant: str, wide: bool) -> Callable[..., Any]:
    """kernel(a (k, T), b (k, T), out (k, T), words (k, T), constants, n) -> bits of the largest |r(a + b)|."""
    step, stochastic = addition(mode, variant, wide), bool(variant)

    @_jit
    def row(a: Any, b: Any, out: Any, words: Any, emin: Any, m: Any, zero_sign: Any, spare: Any, n: Any) -> Any:
        largest = _ZERO
        for t in range(out.size):
            word = words[t] if stochastic else _NO_WORD
            r = step(a[t], b[t], emin, m, zero_sign, spare, word, n)
            out[t] = r
            largest = max(largest, np.uint64(bits64(r) & _SIZE))
        return largest

    @_jit
    def kernel(a: Any, b: Any, out: Any, words: Any, c: Any, n: Any) -> Any:
        largest = _ZERO
        for k in range(out.shape[0]):
            largest = max(largest, row(a[k], b[k], out[k], words[k if stochastic else 0], c[0], c[1], c[2], c[3], n))
        return largest

    return kernel  # type: ignore[no-any-return]


@lru_cache(maxsize=64)
def promoted(mode: str, wide: bool) -> Callable[..., Any]:
    """Running sums of `chunk` terms that are added to outer sums to nearest even.

    kernel(x (k, T), s (T,), outer (T,), filled, chunk, constants, outer constants) -> (bits of the largest |s|, bits of
    the largest |outer|, union of the bits of x, terms in the unfinished chunk).
    """
    inner, no_words = sequential(mode, "", wide), np.zeros((1, 1), np.uint32)
    step = addition("nearest_even", "", False)

    @_jit
    def promote(s: Any, outer: Any, emin: Any, m: Any, zero_sign: Any, spare: Any) -> Any:
        largest = _ZERO
        for t in range(s.size):
            r = step(outer[t], s[t], emin, m, zero_sign, spare, _NO_WORD, _NO_WORD)
            outer[t] = r
            s[t] = 0.0
            largest = max(largest, np.uint64(bits64(r) & _SIZE))
        return largest

    @_jit
    def kernel(x: Any, s: Any, outer: Any, filled: Any, chunk: Any, c: Any, d: Any) -> Any:
        largest, largest_outer, union, start = _ZERO, _ZERO, _ZERO, 0
        while start < x.shape[0]:
            stop = min(x.shape[0], start + chunk - filled)
            met, seen = inner(x[start:stop], s, no_words, c, _NO_WORD)
            largest, union = max(largest, met), np.uint64(union | seen)
            filled += stop - start
            start = stop
            if filled == chunk:
                largest_outer = max(largest_outer, promote(s, outer, d[0], d[1], d[2], d[3]))
                filled = 0
        return largest, largest_outer, union, filled

    return kernel  # type: ignore[no-any-return]


@lru_cache(maxsize=64)
def kahan(mode: str, variant: str, wide: bool, wide_later: bool) -> Callable[..., Any]:
    """kernel(x (k, T), s (T,), c (T,), words (4, k, T), constants, n) -> bits of the largest magnitude met."""
    first, step, stochastic = addition(mode, variant, wide), addition(mode, variant, wide_later), bool(variant)

    @_jit
    def row(x: Any, s: Any, c: Any, w: Any, k: Any, emin: Any, m: Any, z: Any, spare: Any, n: Any) -> Any:
        largest = _ZERO
        for i in range(s.size):
            w0 = w[0, k, i] if stochastic else _NO_WORD
            w1 = w[1, k, i] if stochastic else _NO_WORD
            w2 = w[2, k, i] if stochastic else _NO_WORD
            w3 = w[3, k, i] if stochastic else _NO_WORD
            y = first(x[i], -c[i], emin, m, z, spare, w0, n)
            t = step(s[i], y, emin, m, z, spare, w1, n)
            d = step(t, -s[i], emin, m, z, spare, w2, n)
            e = step(d, -y, emin, m, z, spare, w3, n)
            c[i], s[i] = e, t
            met = max(np.uint64(bits64(t) & _SIZE), np.uint64(bits64(y) & _SIZE))
            met = max(met, max(np.uint64(bits64(d) & _SIZE), np.uint64(bits64(e) & _SIZE)))
            largest = max(largest, met)
        return largest

    return _over_rows(row)


@lru_cache(maxsize=64)
def neumaier(mode: str, variant: str, wide: bool, wide_later: bool) -> Callable[..., Any]:
    """kernel(x (k, T), s (T,), c (T,), words (4, k, T), constants, n) -> bits of the largest magnitude met."""
    first, step, stochastic = addition(mode, variant, wide), addition(mode, variant, wide_later), bool(variant)

    @_jit
    def row(x: Any, s: Any, c: Any, w: Any, k: Any, emin: Any, m: Any, z: Any, spare: Any, n: Any) -> Any:
        largest = _ZERO
        for i in range(s.size):
            w0 = w[0, k, i] if stochastic else _NO_WORD
            w1 = w[1, k, i] if stochastic else _NO_WORD
            w2 = w[2, k, i] if stochastic else _NO_WORD
            w3 = w[3, k, i] if stochastic else _NO_WORD
            a, b = s[i], x[i]
            t = first(a, b, emin, m, z, spare, w0, n)
            swap = abs(b) > abs(a)
            big, small = (b if swap else a), (a if swap else b)
            d = first(big, -t, emin, m, z, spare, w1, n)
            e = first(d, small, emin, m, z, spare, w2, n)
            f = step(c[i], e, emin, m, z, spare, w3, n)
            c[i], s[i] = f, t
            met = max(np.uint64(bits64(t) & _SIZE), np.uint64(bits64(d) & _SIZE))
            met = max(met, max(np.uint64(bits64(e) & _SIZE), np.uint64(bits64(f) & _SIZE)))
            largest = max(largest, met)
        return largest

    return _over_rows(row)


def _over_rows(row: Any) -> Callable[..., Any]:
    @_jit
    def kernel(x: Any, s: Any, c: Any, words: Any, constant: Any, n: Any) -> Any:
        largest = _ZERO
        for k in range(x.shape[0]):
            met = row(x[k], s, c, words, k, constant[0], constant[1], constant[2], constant[3], n)
            largest = max(largest, met)
        return largest

    return kernel  # type: ignore[no-any-return]


#: Terms that a matrix product adds before it goes to the next row of a: their part of b stays in the cache.
_DEPTH = 64


@lru_cache(maxsize=64)
def matrix_product(
    mode: str, round_products: bool, wide: bool, carrier: Carrier = FLOAT64, watched: bool = True
) -> Callable[..., Any]:
    """kernel(a (M, K), b (K, N), s (M, N), constants) -> bits of the largest magnitude met; adds a·b to s.

    Arrays are of the carrier's type, in which products must be exact; float32 takes narrow sums (not `wide`) only. The
    largest magnitude is 0 where it is not watched, for callers who know that nothing leaves the range.
    """
    rounded: Any = _rounding(mode, "", carrier)
    carried: Any = _carried(wide, mode == "down")
    bits = bits32 if carrier is FLOAT32 else bits64
    integer = carrier.integer.type
    zero, size_mask = integer(0), integer(carrier.sign - 1)
    assert carrier is FLOAT64 or not wide

    @_jit
    def row(a: Any, b: Any, s: Any, emin: Any, m: Any, z: Any, spare: Any) -> Any:
        largest = zero
        for j in range(s.size):
            p = a * b[j]
            if round_products:
                p = rounded(p, emin, m, z, spare, _NO_WORD, _NO_WORD)
                if watched:
                    largest = max(largest, integer(bits(p) & size_mask))
            r = rounded(carried(s[j], p), emin, m, z, spare, _NO_WORD, _NO_WORD)
            s[j] = r
            if watched:
                largest = max(largest, integer(bits(r) & size_mask))
        return largest

    @_jit
    def kernel(a: Any, b: Any, s: Any, c: Any) -> Any:
        largest = zero
        for first in range(0, a.shape[1], _DEPTH):
            for i in range(a.shape[0]):
                for k in range(first, min(first + _DEPTH, a.shape[1])):
                    largest = max(largest, row(a[i, k], b[k], s[i], c[0], c[1], c[2], c[3]))
        return largest

    return kernel  # type: ignore[no-any-return]


@intrinsic
def _fused(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """LLVM's fused multiply-add of three float32 numbers: one instruction where the CPU has it, the C library else."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float32(types.float32, types.float32, types.float32), codegen


@_jit
def _fma_row(a: Any, b: Any, s: Any) -> None:
    for j in range(s.size):
        s[j] = _fused(a, b[j], s[j])


@_jit
def float32_fma_product(a: Any, b: Any, s: Any) -> None:
    """s (M, N) += a (M, K) · b (K, N) as chains of float32 fused multiply-adds in ascending k."""
    for first in range(0, a.shape[1], _DEPTH):
        for i in range(a.shape[0]):
            for k in range(first, min(first + _DEPTH, a.shape[1])):
                _fma_row(a[i, k], b[k], s[i])


@_jit
def transpose(x: Any, out: Any) -> None:
    """out (k, T) = x (T, k) transposed, a cache line of eight columns at a time (the loop over them is unrolled)."""
    whole = x.shape[0] // 8 * 8
    for t in range(0, whole, 8):
        for k in range(x.shape[1]):
            out[k, t], out[k, t + 1], out[k, t + 2], out[k, t + 3] = x[t, k], x[t + 1, k], x[t + 2, k], x[t + 3, k]
            out[k, t + 4], out[k, t + 5] = x[t + 4, k], x[t + 5, k]
            out[k, t + 6], out[k, t + 7] = x[t + 6, k], x[t + 7, k]
    for t in range(whole, x.shape[0]):
        for k in range(x.shape[1]):
            out[k, t] = x[t, k]
