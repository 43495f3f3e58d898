"""Products of payload matrices mod 2^w, exact, by floating-point BLAS on limbs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fpsan_tools.algebra.floats import SIGNED, UNSIGNED, Payload, resize, signed, width
from fpsan_tools.exceptions import FpsanError

_EXACT = 53  # float64 holds every integer up to 2^53 exactly
_BLOCK = 1 << 17  # elements of the operands and the result of a block
_ROWS = 512  # rows of a block, at least: BLAS is slow on thin matrices


def _limb_size(bits: int) -> int:
    """Bits a limb: two of 16 for w = 32, three of 22 for w = 64, one for narrower types."""
    return 22 if bits == 64 else 16


def _limbs(x: Payload, bits: int) -> list[npt.NDArray[np.float64]]:
    """Write payloads, sign-extended to `bits`, as sum_i limb_i * 2^(size*i) mod 2^bits, |limb_i| <= 2^(size-1)."""
    size = _limb_size(bits)
    if width(x) <= size:
        return [signed(x).astype(np.float64)]
    rest: npt.NDArray[Any] = resize(x, bits).view(SIGNED[bits])
    unused = rest.dtype.type(bits - size)
    limbs = []
    for _ in range(-(-bits // size) - 1):
        limb = (rest << unused) >> unused
        limbs.append(limb.astype(np.float64))
        rest = (rest - limb) >> rest.dtype.type(size)
    return [*limbs, rest.astype(np.float64)]


def ring_matmul(a: Payload, b: Payload, bits: int) -> Payload:
    """sum_k a[..., m, k] * b[..., k, n] mod 2^bits, exactly.

    Each operand is split into signed limbs whose float64 products, summed over k, stay below 2^53: BLAS then computes
    exact integers in any order. Limb products that vanish mod 2^bits are left out, so w = 32 takes three BLAS products
    and w = 64 six. The work goes block by block (programs of a batch, else rows), in buffers that stay in the cache.

    Args:
        a: payloads of shape (..., M, K), at most `bits` wide; narrower ones are sign-extended.
        b: payloads of shape (..., K, N), at most `bits` wide. Leading axes broadcast.
        bits: width of the result: 8, 16, 32 or 64.

    Returns:
        Payloads of shape (..., M, N).

    Raises:
        FpsanError: if the shapes do not match.
    """
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-2]:
        raise FpsanError(
            f"matrix shapes {a.shape} and {b.shape} do not match; expected (..., M, K) and (..., K, N) with equal K"
        )
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows, length, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    total = np.zeros((*batch, rows, columns), UNSIGNED[bits])
    if not total.size or not length:
        return total
    if batch:
        a, b = (x.reshape((1,) * (len(batch) + 2 - x.ndim) + x.shape) for x in (a, b))
        largest = rows * length + length * columns + rows * columns
        step = max(1, _BLOCK // (largest * int(np.prod(batch[1:]))))
    else:
        step = max(_ROWS, _BLOCK // (length + columns))
    # Without a batch a is blocked along its rows and b is common to all blocks.
    common = not batch or b.shape[0] == 1
    longest = 1 << (_EXACT - 2 * (_limb_size(bits) - 1))
    for start in range(0, length, longest):
        left, right = a[..., start : start + longest], b[..., start : start + longest, :]
        right_limbs = _limbs(right, bits) if common else []
        buffer = None
        for first in range(0, total.shape[0], step):
            block = slice(first, first + step)
            out = total[block]
            if not common:
                right_limbs = _limbs(right[block], bits)
            left_limbs = _limbs(left if batch and left.shape[0] == 1 else left[block], bits)
            if buffer is None or buffer.shape != out.shape:
                buffer = np.empty(out.shape)
            _accumulate(out, left_limbs, right_limbs, buffer)
    return total


@np.errstate(over="ignore")
def _accumulate(
    out: Payload,
    left: list[npt.NDArray[np.float64]],
    right: list[npt.NDArray[np.float64]],
    buffer: npt.NDArray[np.float64],
) -> None:
    """Add the limb products, each at its place, to `out`; `buffer` has its shape."""
    bits = out.dtype.itemsize * 8
    integers = buffer.view(np.int64)
    for i, x in enumerate(left):
        for j, y in enumerate(right):
            place = _limb_size(bits) * (i + j)
            if place < bits:
                np.matmul(x, y, out=buffer)
                np.copyto(integers, buffer, casting="unsafe")  # elementwise and in place: each is read before written
                product = integers.view(np.uint64).astype(out.dtype)
                product <<= out.dtype.type(place)
                out += product
