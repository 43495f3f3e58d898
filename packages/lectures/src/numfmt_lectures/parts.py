"""FP32 matrices as narrower parts, and their product as tensor cores would compute it from the parts.

A scheme says in which format the parts are, how many there are, which products of parts are added in which order, and
whether rows and columns are scaled first. `product` follows it bit for bit on a Hopper unit; `integer_product` does the
same for INT8 digits, whose sums are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from numfmt import BF16, FP16, FloatFormat
from numfmt.matrix_units import chain, matmul, promote

__all__ = ["BF16X6", "DIGITS", "FP16X3", "LONGEST", "Scheme", "digits", "integer_product", "product", "rejoin", "split"]

Array = NDArray[np.float64]
Matrix = NDArray[np.float32]

_DEPTH = 16
"""Products of one fused step of a 16-bit tensor core instruction on Hopper: K is padded with zeros to a multiple."""

_LARGEST_DIGITS = 127 * 65536 + 127 * 256 + 127
"""The largest integer that three digits between -128 and 127 make."""

DIGITS = 3
LONGEST = 32768
"""The most products of one INT32 sum: three products of two digits for each k, each at most 2^14."""


@dataclass(frozen=True)
class Scheme:
    """How an FP32 product is made from products of parts.

    Attributes:
        name: what it is called.
        format: of the parts.
        inputs: the same as numfmt.matrix_units calls it.
        parts: of each operand, the first the largest.
        products: pairs (part of a, part of b), the smallest first.
        scaled: whether each row of a and each column of b is multiplied by a power of two that brings its largest
            magnitude between 2^14 and 2^15. FP16 ends at 65504, and its small parts would fall below its range.
        chunk: products after which the sum is promoted to an FP32 register.
    """

    name: str
    format: FloatFormat
    inputs: str
    parts: int
    products: Sequence[tuple[int, int]]
    scaled: bool
    chunk: int


FP16X3 = Scheme("fp16x3", FP16, "fp16", 2, ((1, 0), (0, 1), (0, 0)), True, 64)
BF16X6 = Scheme("bf16x6", BF16, "bf16", 3, ((1, 1), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0)), False, 32)


def _exponent(x: NDArray[Any], axis: int) -> NDArray[np.int_]:
    """floor(log2) of the largest magnitude along an axis; 0 where all are zero."""
    largest = np.abs(x).max(axis=axis, keepdims=True)
    found: NDArray[np.int_] = np.where(largest > 0, np.frexp(largest)[1] - 1, 0)
    return found


def split(x: NDArray[Any], scheme: Scheme, axis: int) -> tuple[list[Array], NDArray[np.int_]]:
    """The parts of a matrix, each the rounded rest of those before it, and the exponents of its scales.

    Args:
        x: FP32 matrix.
        scheme: how.
        axis: the axis along which a scale is shared: that of K.

    Returns:
        Parts whose sum is x·2^s but for what the last one rounds away, and s, of x's shape but 1 along `axis`.
    """
    shift = 14 - _exponent(x, axis) if scheme.scaled else np.zeros_like(_exponent(x, axis))
    rest = np.ldexp(x.astype(np.float64), shift)
    parts = []
    with np.errstate(invalid="ignore"):  # the rest of an infinity is not a number, as on the GPU
        for _ in range(scheme.parts):
            parts.append(scheme.format.round(rest))
            rest = rest - parts[-1]
    return parts, shift


def rejoin(parts: Sequence[NDArray[Any]], shift: NDArray[np.int_]) -> Array:
    """The sum of the parts, unscaled: what is left of the matrix."""
    joined: Array = np.ldexp(np.sum(parts, axis=0), -shift)
    return joined


def product(a: Matrix, b: Matrix, scheme: Scheme, *, promoted: bool = True, chunk: int | None = None) -> Matrix:
    """a·b from parts, bit for bit as a kernel on a Hopper tensor core computes it.

    For each chunk of k the products of parts follow each other in the scheme's order, smallest first. Promoted sums
    start from zero in every chunk and are added to an FP32 register; chained ones go on in the unit over all of K.

    Args:
        a: (M, K) FP32 matrix.
        b: (K, N) FP32 matrix.
        scheme: how.
        promoted: whether sums are promoted.
        chunk: products of a chunk, a multiple of 16; the scheme's own by default.

    Returns:
        (M, N) FP32 matrix.
    """
    k = a.shape[1]
    padded = -(-k // _DEPTH) * _DEPTH
    chunk = min(scheme.chunk if chunk is None else chunk, padded)
    (left, down), (right, across) = split(a, scheme, 1), split(b, scheme, 0)
    left = [np.pad(part, ((0, 0), (0, padded - k))) for part in left]
    right = [np.pad(part, ((0, padded - k), (0, 0))) for part in right]
    # Chunk by chunk, the parts side by side along K: one long product is then the whole sequence of instructions.
    spans = [slice(start, min(start + chunk, padded)) for start in range(0, padded, chunk)]
    wide = np.concatenate([left[i][:, span] for span in spans for i, _ in scheme.products], axis=1)
    tall = np.concatenate([right[j][span] for span in spans for _, j in scheme.products], axis=0)
    schedule = promote(chunk * len(scheme.products)) if promoted else chain()
    c: Matrix = matmul(wide, tall, unit="hopper.wgmma", inputs=scheme.inputs, schedule=schedule)
    return _unscaled(c, down + across) if scheme.scaled else c


def _unscaled(c: Matrix, shift: NDArray[np.int_]) -> Matrix:
    """c·2^-shift, rounded once."""
    result: Matrix = np.ldexp(c.astype(np.float64), -shift).astype(np.float32)
    return result


def digits(x: NDArray[Any], axis: int) -> tuple[list[NDArray[np.int64]], NDArray[np.int_]]:
    """The three INT8 digits, base 256, of a matrix scaled to integers of 23 bits, largest first.

    Args:
        x: FP32 matrix.
        axis: the axis along which a power-of-two scale is shared: that of K.

    Returns:
        Digits q0, q1, q2 with x·2^s = q0·2^16 + q1·2^8 + q2 rounded to nearest, and s.
    """
    shift = 22 - _exponent(x, axis)
    whole = np.ldexp(np.abs(x).max(axis=axis, keepdims=True).astype(np.float64), shift)
    # The digits end a little below 2^23: the largest magnitudes need one bit more.
    shift = shift - (np.rint(whole) > _LARGEST_DIGITS)
    rest = np.rint(np.ldexp(x.astype(np.float64), shift)).astype(np.int64)
    found = []
    for _ in range(DIGITS - 1):
        low = ((rest + 128) & 255) - 128
        found.append(low)
        rest = (rest - low) >> 8
    return [rest, *reversed(found)], shift


def integer_product(a: Matrix, b: Matrix, order: NDArray[np.int_] | None = None, splits: int = 1) -> Matrix:
    """a·b from INT8 digits: six products in three exact INT32 sums, joined in FP32.

    Args:
        a: (M, K) FP32 matrix, K at most `LONGEST`.
        b: (K, N) FP32 matrix.
        order: a permutation of K in which the products are added.
        splits: ranges of K that are summed apart.

    Returns:
        (M, N) FP32 matrix, which depends on neither `order` nor `splits`.
    """
    k = a.shape[1]
    if k > LONGEST:
        raise ValueError(f"a has {k} columns; three products of digits each could overflow INT32 beyond {LONGEST}")
    left, down = digits(a, 1)
    right, across = digits(b, 0)
    order = np.arange(k) if order is None else order
    sums = [np.zeros((a.shape[0], b.shape[1]), np.int64) for _ in range(DIGITS)]
    for span in np.array_split(order, splits):
        for weight in range(DIGITS):
            for i in range(weight + 1):
                # Products of digits are below 2^14 and sums below 2^31: float64 multiplies such integers exactly.
                exact = left[i][:, span].astype(np.float64) @ right[weight - i][span].astype(np.float64)
                sums[weight] += exact.astype(np.int64)
    high, middle, low = (one.astype(np.float32) for one in sums)
    joined = high * np.float32(65536) + (middle * np.float32(256) + low)
    return _unscaled(joined, down + across - 16)
