"""Ring, division and order rules on payloads: integers mod 2^w, whatever the float type.

Operands are unsigned arrays of one width; results have that dtype. Both broadcast as NumPy does.
"""

from __future__ import annotations

import numpy as np

from fpsan_tools.algebra.blocks import blockwise
from fpsan_tools.algebra.floats import Payload, constant, signed, width

# Zero-dimensional operands become NumPy scalars, whose overflow would warn: wrapping is what is meant here.
_wrapping = np.errstate(over="ignore")


@_wrapping
def add(x: Payload, y: Payload) -> Payload:
    """x + y mod 2^w; associative and commutative, unlike float addition. 8- and 16-bit types are not promoted."""
    return np.asarray(np.add(x, y))


@_wrapping
def sub(x: Payload, y: Payload) -> Payload:
    """x - y mod 2^w."""
    return np.asarray(np.subtract(x, y))


@_wrapping
def mul(x: Payload, y: Payload) -> Payload:
    """x * y mod 2^w; distributes over addition. E(2.0) is not 2: x + x differs from 2.0 * x."""
    return np.asarray(np.multiply(x, y))


@_wrapping
def neg(x: Payload) -> Payload:
    """-x = 0 - x mod 2^w, the payload of the negated float for all x but zero."""
    return np.asarray(np.subtract(constant(x, 0), x))


@_wrapping
def fma(x: Payload, y: Payload, z: Payload) -> Payload:
    """x*y + z mod 2^w: a fused multiply-add is exactly the product and the sum."""
    return np.asarray(np.add(np.multiply(x, y), z))


@blockwise(1)
def inv(x: Payload) -> Payload:
    """1/x: the ring's inverse for odd x; for even x, (x+1)^-1 - 1. An involution on all payloads, with inv(0) = 0.

    With a = x | 1, Newton's iteration y <- y*(2 - a*y) from y = 2 - a doubles the number of right bits each step.
    """
    a = x | constant(x, 1)
    two = constant(x, 2)
    y = two - a
    correct = 2  # a*(2-a) = 1 - (a-1)^2, and a-1 is even
    while correct < width(x):
        y = y * (two - a * y)
        correct *= 2
    return np.asarray((y & constant(x, ~1)) | (x & constant(x, 1)))


@blockwise(2)
def div(x: Payload, y: Payload) -> Payload:
    """x / y = x * inv(y), also for div_rn and fdiv. (x+y)/z = x/z + y/z; x*y/y = x for odd y only.

    Triton's front end divides 8- and 16-bit floats in fp32: widen, divide, narrow.
    """
    return np.asarray(np.multiply(x, inv(y)))


@blockwise(2)
def rem(x: Payload, y: Payload) -> Payload:
    """x % y: C's remainder (sign of the dividend) of the signed payloads by (y | 1), in the operands' own width."""
    dividend, divisor = np.broadcast_arrays(signed(x), signed(y | constant(y, 1)))
    # The most negative integer by -1 overflows in C; every remainder by -1 is 0.
    minus_one = divisor == -1
    result = np.fmod(dividend, np.where(minus_one, divisor.dtype.type(1), divisor))
    return np.asarray(result).view(x.dtype)


def maximum(x: Payload, y: Payload) -> Payload:
    """The larger payload in signed order (not the order of the floats)."""
    return np.asarray(np.maximum(signed(x), signed(y))).view(x.dtype)


def minimum(x: Payload, y: Payload) -> Payload:
    """The smaller payload in signed order (not the order of the floats)."""
    return np.asarray(np.minimum(signed(x), signed(y))).view(x.dtype)


def total(x: Payload, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Payload:
    """tl.sum: the ring's sum, so any order gives the same payload; 16-bit types are not promoted.

    Args:
        x: payloads.
        axis: the axis or axes that vanish; None for all.
        keepdims: they stay, with length 1.

    Returns:
        Payloads.
    """
    return np.asarray(np.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype))


def cumulative(x: Payload, axis: int = 0, reverse: bool = False) -> Payload:
    """tl.cumsum: running ring sums.

    Args:
        x: payloads.
        axis: the axis along which they run.
        reverse: from its end.

    Returns:
        Payloads of the shape of x.
    """
    if reverse:
        return np.flip(cumulative(np.flip(x, axis), axis), axis)
    return np.cumsum(x, axis=axis, dtype=x.dtype)


def largest(x: Payload, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Payload:
    """tl.max without indices: the largest payload in signed order.

    Args:
        x: payloads.
        axis: the axis or axes that vanish; None for all.
        keepdims: they stay, with length 1.

    Returns:
        Payloads.
    """
    return np.asarray(np.max(signed(x), axis=axis, keepdims=keepdims)).view(x.dtype)


def smallest(x: Payload, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Payload:
    """tl.min without indices: the smallest payload in signed order.

    Args:
        x: payloads.
        axis: the axis or axes that vanish; None for all.
        keepdims: they stay, with length 1.

    Returns:
        Payloads.
    """
    return np.asarray(np.min(signed(x), axis=axis, keepdims=keepdims)).view(x.dtype)
