"""Floats to payloads and back, and the conversions between payload widths."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fpsan_tools.algebra.blocks import blockwise
from fpsan_tools.algebra.floats import UNSIGNED, FloatType, Payload, as_payload, constant, float_type, resize, width
from fpsan_tools.exceptions import FpsanError


@dataclass(frozen=True)
class EmbeddingConstants:
    """The integers of the embedding of one float type, all mod 2^n with n = w - 1.

    With `one` the pattern of 1.0, s its trailing zeros and A the version's multiplier:
    t = one*A; t ^= t >> s; B+ = t^-1; B- = -B+. So E(1.0) = t * B+ = 1 and E(-1.0) = -1.
    """

    multiplier: int
    multiplier_inverse: int
    positive: int
    negative: int
    positive_inverse: int
    negative_inverse: int


@cache
def embedding_constants(dtype: FloatType, multiplier: int) -> EmbeddingConstants:
    """Derive the embedding's constants of a float type from a version's multiplier A."""
    modulus = 1 << (dtype.bits - 1)
    a = multiplier % modulus
    t = dtype.one * a % modulus
    t ^= t >> dtype.shift
    positive = pow(t, -1, modulus)
    return EmbeddingConstants(a, pow(a, -1, modulus), positive, -positive % modulus, t, -t % modulus)


def bits_of(values: npt.ArrayLike, dtype: FloatType) -> Payload:
    """Read an array as bit patterns of a float type.

    Args:
        values: unsigned or signed integers, or floats, of the type's width (floats are reinterpreted, not converted).
        dtype: the float type.

    Returns:
        The patterns as unsigned integers; a view where possible.

    Raises:
        FpsanError: if the width differs.
    """
    array = np.asarray(values)
    if array.dtype.itemsize * 8 != dtype.bits or array.dtype.kind == "b":
        raise FpsanError(
            f"{dtype.name} patterns are {dtype.bits} bits wide, but an array of dtype {array.dtype} was given; pass "
            f"unsigned integers ({dtype.unsigned}) or floats of that type"
        )
    return array if array.dtype == dtype.unsigned else array.view(dtype.unsigned)


def embed(values: npt.ArrayLike, dtype: str | FloatType, multiplier: int) -> Payload:
    """E(u) = (z * (u negative ? B- : B+) mod 2^n) | sign, with y = u*A mod 2^n and z = y ^ (y >> s).

    A bijection on bit patterns with E(+0) = 0, E(1) = 1, E(-1) = -1 and E(-x) = -E(x) for x != 0; infinities, NaNs and
    subnormals are patterns like others, and E(-0) = 2^n.

    Args:
        values: float bit patterns, or floats of that type.
        dtype: the float type.
        multiplier: A of the algebra's version.

    Returns:
        Payloads, unsigned, of the same shape.
    """
    kind = float_type(dtype)
    return _embed(bits_of(values, kind), kind.bits - 1, kind.shift, embedding_constants(kind, multiplier))


@blockwise(1)
def _embed(u: Payload, n: int, s: int, c: EmbeddingConstants) -> Payload:
    sign_bit, below = constant(u, 1 << n), constant(u, (1 << n) - 1)
    y = (u * constant(u, c.multiplier)) & below
    z = y ^ (y >> constant(u, s))
    product = _negated_where(u >> constant(u, n), z * constant(u, c.positive))  # B- = -B+ mod 2^n
    return np.asarray((product & below) | (u & sign_bit))


def unembed(payloads: npt.ArrayLike, dtype: str | FloatType, multiplier: int) -> Payload:
    """U = E^-1: z = p * (p negative ? -t : t); y from z by undoing the xor shift (doubling s); U = (y * A^-1) | sign.

    Args:
        payloads: unsigned payloads of the type's width.
        dtype: the float type.
        multiplier: A of the algebra's version.

    Returns:
        Float bit patterns, unsigned, of the same shape. `.view` them as floats; do no arithmetic on those.
    """
    kind = float_type(dtype)
    p = bits_of(as_payload(payloads), kind)
    return _unembed(p, kind.bits - 1, kind.shift, embedding_constants(kind, multiplier))


@blockwise(1)
def _unembed(p: Payload, n: int, s: int, c: EmbeddingConstants) -> Payload:
    sign_bit, below = constant(p, 1 << n), constant(p, (1 << n) - 1)
    y = _negated_where(p >> constant(p, n), p * constant(p, c.positive_inverse)) & below
    while s <= n:
        y = y ^ (y >> constant(p, s))
        s *= 2
    return np.asarray(((y * constant(p, c.multiplier_inverse)) & below) | (p & sign_bit))


def _negated_where(flag: Any, x: Any) -> Any:
    """-x where the flag is 1, x where it is 0: (x ^ -flag) + flag."""
    return (x ^ (flag * constant(x, -1))) + flag


def widen(x: Payload, bits: int) -> Payload:
    """Widening float cast: the payload is sign-extended, so the ring's small integers keep their value.

    Args:
        x: payloads.
        bits: the wider type's width.

    Returns:
        Payloads of that width.
    """
    return resize(x, bits)


def truncate(x: Payload, bits: int) -> Payload:
    """Narrowing cast of 3.8 and of homomorphic casts: p mod 2^bits, a ring homomorphism."""
    return x.astype(UNSIGNED[bits])


_MIXER = 3511


@blockwise(1)
def mix(x: Payload, bits: int) -> Payload:
    """Narrowing cast of 3.9: the dropped bits are hashed into the kept ones; inverse to widening on widened payloads.

    low = p mod 2^d; D = p ^ sign-extended(low); K = 3511 mod 2^d, replicated w/d times; h = (D*K mod 2^w) >> (w-d);
    h ^= h >> d/2; result = low ^ h. D = 0 for a widened payload, so up then down is the identity.
    """
    w = width(x)
    low = x.astype(UNSIGNED[bits])
    different = x ^ resize(low, w)
    multiplier = (_MIXER % (1 << bits)) * (((1 << w) - 1) // ((1 << bits) - 1))
    h = ((different * constant(x, multiplier)) >> constant(x, w - bits)).astype(UNSIGNED[bits])
    return np.asarray(low ^ h ^ (h >> constant(h, bits // 2)))


def unpack_fp4(packed: npt.ArrayLike, axis: int = -1, bits: int = 16) -> Payload:
    """Packed e2m1 values: the zero-extended nibble is the payload, the low nibble is the even index.

    Args:
        packed: uint8 array, two values a byte along `axis`.
        axis: the packed axis, which doubles.
        bits: width of the result.

    Returns:
        Payloads of that width.

    Raises:
        FpsanError: if `packed` is not an array of bytes.
    """
    array = np.asarray(packed)
    if array.dtype.itemsize != 1 or array.dtype.kind not in "iu":
        raise FpsanError(f"packed fp4 values are bytes (uint8), but dtype {array.dtype} was given")
    array = np.moveaxis(array.view(np.uint8), axis, -1)
    pairs: npt.NDArray[Any] = np.stack([array & np.uint8(15), array >> np.uint8(4)], axis=-1)
    nibbles = pairs.reshape(*array.shape[:-1], 2 * array.shape[-1]).astype(UNSIGNED[bits])
    return np.moveaxis(nibbles, -1, axis)
