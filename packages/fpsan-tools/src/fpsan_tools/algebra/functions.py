"""Special functions on payloads: the exponential, the complex rotation, and tags for everything without an identity."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fpsan_tools.algebra.blocks import blockwise
from fpsan_tools.algebra.floats import UNSIGNED, Payload, constant, resize, width

_WORD = (1 << 64) - 1


@blockwise(1)
def exp2(x: Payload) -> Payload:
    """2^x as (1 + 2^k)^p mod 2^w, k = ceil(w/4), so exp2(x+y) = exp2(x)*exp2(y), exp2(0) = 1, and the result is odd.

    Binomial series: 1 + (p << k) + (C(p,2) << 2k) + (C(p',3) << 3k), the later terms vanish mod 2^w; p' = p mod
    2^(w-3k+1) keeps the third product exact. Period 2^(w-k): an fp32 argument counts mod 2^24 only.
    """
    w = width(x)
    k = (w + 3) // 4
    one, two = constant(x, 1), constant(x, 2)
    pairs = (x * (x - one)) >> one
    low = x & constant(x, (1 << (w - 3 * k + 1)) - 1)
    triples = (low * (low - one) * (low - two)) // constant(x, 6)
    series = one + (x << constant(x, k)) + (pairs << constant(x, 2 * k)) + (triples << constant(x, 3 * k))
    return np.asarray(series)


@blockwise(1)
def exp(x: Payload, factor: int) -> Payload:
    """e^x = exp2(C*x) with the version's integer C, so exp(x+y) = exp(x)*exp(y) and exp(-x) = 1/exp(x)."""
    return exp2(np.asarray(x * constant(x, factor)))


@cache
def _rotation_powers(bits: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Tables of (a+bi)^(v * 256^j), j < bits/8, v < 256: real and imaginary parts of shape (bits/8, 256)."""
    modulus = 1 << bits
    fifth = pow(5, -1, modulus)
    base = (-3 * fifth % modulus, 4 * fifth % modulus)
    real = np.empty((bits // 8, 256), UNSIGNED[bits])
    imaginary = np.empty_like(real)
    for j in range(bits // 8):
        power = (1, 0)
        for v in range(256):
            real[j, v], imaginary[j, v] = power
            power = (
                (power[0] * base[0] - power[1] * base[1]) % modulus,
                (power[0] * base[1] + power[1] * base[0]) % modulus,
            )
        base = power  # the 256th power of the last base
    real.setflags(write=False)
    imaginary.setflags(write=False)
    return real, imaginary


@blockwise(1)
def cos_sin(x: Payload) -> tuple[Payload, Payload]:
    """cos x + i sin x = (a + bi)^p in (Z/2^w)[i] with a = -3/5, b = 4/5, a point of the unit circle.

    So cos^2 + sin^2 = 1, cos(x+y) = cos x cos y - sin x sin y, cos(-x) = cos x, sin(-x) = -sin x. Period 2^(w-2) of the
    pair; the cosine alone repeats after 2^(w-4).
    """
    real, imaginary = _rotation_powers(width(x))
    byte = x & constant(x, 255)
    cosine, sine = real[0][byte], imaginary[0][byte]
    for j in range(1, width(x) // 8):
        byte = (x >> constant(x, 8 * j)) & constant(x, 255)
        c, s = real[j][byte], imaginary[j][byte]
        cosine, sine = cosine * c - sine * s, cosine * s + sine * c
    return cosine, sine


def cos(x: Payload) -> Payload:
    """The real part of `cos_sin`."""
    return cos_sin(x)[0]


def sin(x: Payload) -> Payload:
    """The imaginary part of `cos_sin`."""
    return cos_sin(x)[1]


# The identifiers of the operations in the compiler's tag; exp, exp2, cos and sin (0, 2, 4, 5) have rules of their own.
TAG_IDS = {"log": 1, "log2": 3, "sqrt": 6, "rsqrt": 7, "erf": 8, "floor": 9, "ceil": 10, "sqrt_rn": 11}

_TAG_MULTIPLIER = 314159


def murmur3_finaliser(h: int) -> int:
    """MurmurHash3's 64-bit finaliser (fmix64)."""
    h ^= h >> 33
    h = h * 0xFF51AFD7ED558CCD & _WORD
    h ^= h >> 33
    h = h * 0xC4CEB9FE1A85EC53 & _WORD
    return h ^ (h >> 33)


def fnv1a(text: str) -> int:
    """FNV-1a, 64 bits, of the text's UTF-8 bytes."""
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = (h ^ byte) * 0x100000001B3 & _WORD
    return h


@blockwise(1)
def tag(x: Payload, identifier: int) -> Payload:
    """((p*m) ^ h)*m with m = 314159 and h = fmix64(identifier): a bijection without identities, one per operation.

    Equal arguments give equal results, and nothing more is promised: log(x*y) differs from log(x) + log(y).
    """
    m = constant(x, _TAG_MULTIPLIER)
    return np.asarray(((x * m) ^ constant(x, murmur3_finaliser(identifier))) * m)


@np.errstate(over="ignore")
def variadic_tag(operands: Sequence[npt.NDArray[Any]], bits: int, key: int) -> Payload:
    """(sum_i rotl(p_i, i) mod 2^w) ^ (key mod 2^w): the tag of a call with any number of operands.

    Args:
        operands: payloads or plain integers; each is sign-extended or truncated to the result's width.
        bits: width of the result.
        key: a hash of the called symbol or text.

    Returns:
        Payloads of that width.
    """
    total: Any = np.zeros((), UNSIGNED[bits])
    for i, operand in enumerate(operands):
        value, turn = resize(np.asarray(operand), bits), i % bits
        if turn:
            value = np.asarray((value << constant(value, turn)) | (value >> constant(value, bits - turn)))
        total = total + value
    return np.asarray(total ^ constant(total, key))
