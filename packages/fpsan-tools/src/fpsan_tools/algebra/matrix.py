"""Products of payload matrices mod 2^w, exact, by floating-point BLAS on limbs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fpsan_tools.algebra.floats import SIGNED, UNSIGNED, Payload, resize, signed, width
from fpsan_tools.errors import FpsanError

_EXACT = 53  # float64 holds every integer up to 2^53 exactly


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


@np.errstate(over="ignore")
def ring_matmul(a: Payload, b: Payload, bits: int) -> Payload:
    """sum_k a[..., m, k] * b[..., k, n] mod 2^bits, exactly.

    Each operand is split into signed limbs whose float64 products, summed over k, stay below 2^53: BLAS then computes
    exact integers in any order. Limb products that vanish mod 2^bits are left out, so w = 32 takes three BLAS products
    and w = 64 six.

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
    size, dtype = _limb_size(bits), UNSIGNED[bits]
    length = a.shape[-1]
    longest = 1 << (_EXACT - 2 * (size - 1))
    total: Payload | None = None
    for start in range(0, max(length, 1), longest):
        a_limbs = _limbs(a[..., start : start + longest], bits)
        b_limbs = _limbs(b[..., start : start + longest, :], bits)
        for i, x in enumerate(a_limbs):
            for j, y in enumerate(b_limbs):
                place = size * (i + j)
                if place >= bits:
                    continue
                product = np.matmul(x, y).astype(np.int64).view(np.uint64).astype(dtype)
                product <<= dtype.type(place)
                total = product if total is None else np.add(total, product, out=total)
    assert total is not None
    return total
