"""NVIDIA's special-function unit (sm_90), bit for bit: exponentials, reciprocals and roots by table.

The unit is a function of few bits. The tables were measured on an H200, for every mantissa (and exponent parity, for
roots), and are stored as first differences. Results that are too small become zero where the instruction has `.ftz`.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

import numpy as np

from fpsan_tools.ttir.values import Array

_SMALLEST_NORMAL = np.float32(2.0**-126)
_LOG2_E = np.uint32(0x3FB8AA3B).view(np.float32)
_CANONICAL_NAN = np.uint32(0x7FFFFFFF).view(np.float32)


@cache
def _table(name: str) -> Array:
    """Values as float64: "ex2p", "ex2n" by fraction, "rcp" by mantissa, "rsq" and "sqrt" by parity and mantissa."""
    with (resources.files("fpsan_tools") / "data" / "mufu_sm90.npz").open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        bits = int(archive[f"{name}_first"]) + np.cumsum(archive[name].astype(np.int64))
    return bits.astype(np.uint32).view(np.float32)


def _flushed(x: Array) -> Array:
    """Subnormal numbers become zero of the same sign."""
    return np.where(np.abs(x) < _SMALLEST_NORMAL, np.copysign(np.float32(0), x), x)


def _scaled(table: Array, exponents: Array, flush: bool) -> Array:
    """table * 2^exponents in float32; results below the normal range become zero if `flush`."""
    with np.errstate(all="ignore"):
        result = np.ldexp(table.astype(np.float64), np.clip(exponents, -400, 400).astype(np.int32)).astype(np.float32)
    return _flushed(result) if flush else result


def ex2(x: Array) -> Array:
    """ex2.approx.ftz of float32: the argument is cut to 23 fraction bits."""
    magnitude = np.abs(_flushed(x)).astype(np.float64)
    magnitude = np.where(np.isfinite(magnitude), np.minimum(magnitude, 300.0), 300.0)
    whole = np.floor(magnitude)
    fraction = ((magnitude - whole) * 2.0**23).astype(np.int64)
    up = _scaled(_table("ex2p").take(fraction), whole.astype(np.int64), True)
    down = _scaled(_table("ex2n").take(fraction), -whole.astype(np.int64), True)
    return np.where(np.isnan(x), _CANONICAL_NAN, np.where(np.signbit(x), down, up))


def ex2_full(x: Array) -> Array:
    """ex2.approx of float32, which keeps subnormal results: below -126 it squares the result of half the argument."""
    small = x < np.float32(-126.0)
    root = ex2(np.where(small, x * np.float32(0.5), x))
    return np.where(small, root * root, root)


def exp(x: Array) -> Array:
    """tl.exp of float32: ex2(x * log2 e)."""
    return ex2_full(x * _LOG2_E)


def reciprocal(x: Array) -> Array:
    """rcp.approx.ftz of float32."""
    finite, bits, exponents = _parts(x)
    result = _scaled(_table("rcp").take(bits & 0x7FFFFF), -exponents, True)
    result = np.where(finite, result, np.where(np.abs(_flushed(x)) == 0, np.float32(np.inf), np.float32(0)))
    return np.where(np.isnan(x), _CANONICAL_NAN, np.copysign(result, x))


def divide(x: Array, y: Array) -> Array:
    """div.full of float32: x * rcp(y), both scaled where y is very large or very small."""
    scale = _divisor_scale(y)
    return (x * scale) * reciprocal(y * scale)


def divide_by_constant(x: Array, c: Array) -> Array:
    """Division by a constant: a product with its correctly rounded reciprocal, scaled likewise."""
    scale = _divisor_scale(c)
    return (x * scale) * (np.float32(1) / (c * scale))


def _divisor_scale(y: Array) -> Array:
    size = np.abs(y)
    small = np.where(size < _SMALLEST_NORMAL, np.float32(2.0**24), np.float32(1))
    return np.where(size > np.float32(2.0**126), np.float32(0.25), small)


def square_root(x: Array) -> Array:
    """sqrt.approx.ftz of float32."""
    finite, bits, exponents = _parts(x)
    result = _scaled(_table("sqrt").take(_with_parity(bits, exponents)), exponents >> 1, True)
    zero = np.abs(_flushed(x)) == 0
    result = np.where(finite, result, np.where(zero, np.copysign(np.float32(0), x), np.float32(np.inf)))
    return np.where(np.isnan(x) | (np.signbit(x) & ~zero), _CANONICAL_NAN, result)


def reciprocal_root(x: Array) -> Array:
    """rsqrt.approx.ftz of float32."""
    finite, bits, exponents = _parts(x)
    result = _scaled(_table("rsq").take(_with_parity(bits, exponents)), -(exponents >> 1), True)
    zero = np.abs(_flushed(x)) == 0
    infinite = np.where(zero, np.copysign(np.float32(np.inf), x), np.float32(0))
    result = np.where(finite, result, infinite)
    return np.where(np.isnan(x) | (np.signbit(x) & ~zero), _CANONICAL_NAN, result)


def _parts(x: Array) -> tuple[Array, Array, Array]:
    """Whether the number is finite and not (flushed to) zero, its pattern, and its exponent."""
    bits = _flushed(x).view(np.uint32).astype(np.int64)
    exponents = ((bits >> 23) & 0xFF) - 127
    return (exponents > -127) & (exponents < 128), bits, exponents


def _with_parity(bits: Array, exponents: Array) -> Array:
    return ((exponents & 1) << 23) | (bits & 0x7FFFFF)


_LOG_COEFFICIENTS = {
    "log": (0x3F2AAAAB, "BE055027 3E1039F6 BDF8CDCC 3E0F2955 BE2AD8B9 3E4CED0B BE7FFF22 3EAAAA78 BF000000"),
    "log2": (0x3F3504F3, "3DC6B27F BE2C7F30 3E2FCF2A BE374E43 3E520BF4 BE763C8B 3E93BF99 BEB8AA49 3EF6384A BF38AA3B"),
}


def logarithm(x: Array, name: str) -> Array:
    """tl.log and tl.log2 of float32: a polynomial of products and fused multiply-adds.

    Args:
        x: float32 array.
        name: "log" or "log2".
    """
    from numfmt import FP32, fma

    pivot, text = _LOG_COEFFICIENTS[name]
    first, *coefficients = (np.array([int(word, 16)], np.uint32).view(np.float32) for word in text.split())
    small = x < _SMALLEST_NORMAL
    scaled = np.where(small, x * np.float32(2.0**23), x)
    start = np.where(small, np.float32(-23), np.float32(0))
    bits = scaled.view(np.int32)
    high = ((bits.astype(np.int64) - pivot) & 0xFF800000).astype(np.uint32).view(np.int32)
    mantissa = (bits.astype(np.int64) - high).astype(np.uint64).astype(np.uint32).view(np.float32)
    exponent = fma(high.astype(np.float32), np.float32(2.0**-23).reshape(1), start, FP32)
    t = mantissa - np.float32(1)
    r = np.broadcast_to(first, t.shape).astype(np.float32)
    for coefficient in coefficients:
        r = fma(r, t, coefficient, FP32)
    if name == "log":
        r = fma(t * r, t, t, FP32)
        result = fma(exponent, np.array([0x3F317218], np.uint32).view(np.float32), r, FP32)
    else:
        r = t * (t * r)
        result = exponent + fma(t, np.array([0x3FB8AA3B], np.uint32).view(np.float32), r, FP32)
    beyond = scaled.view(np.uint32) >= np.uint32(0x7F800000)
    special = np.where(scaled == np.float32(np.inf), np.float32(np.inf), _CANONICAL_NAN)
    result = np.where(beyond, special, result)
    return np.asarray(np.where(scaled == 0, np.float32(-np.inf), result))
