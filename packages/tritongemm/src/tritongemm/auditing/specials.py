"""NaN and infinity among the operands: does a kernel let them through to where they belong?

Kernels that clamp, or that replace what is not a number, give right results until a number overflows; what is lost then
is the sign that something went wrong. One small product has a NaN and infinities in it, and where its results are NaN
or infinite is the same in every order of additions.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tritongemm.auditing.contestants import Contestant
from tritongemm.auditing.devices import Array, Device, codes_of, values_of
from tritongemm.errors import KernelFailed, one_line

_SIDE, _MOST_INNER = 8, 96


def lost_specials(
    contestants: tuple[Contestant, Contestant],
    device: Device,
    size: tuple[int, int, int],
    dtypes: tuple[str, str],
    seed: int,
) -> Mapping[str, tuple[str, ...]]:
    """Compares where results are NaN or infinite with where those of the product are.

    Args:
        contestants: Both kernels.
        device: Where they run.
        size: M, N and K of the audited product.
        dtypes: Type of the operands and of the result.
        seed: Of the operands.

    Returns:
        By kernel letter, what is otherwise, in clauses.
    """
    M, N, K = (min(n, most) for n, most in zip(size, (_SIDE, _SIDE, _MOST_INNER), strict=True))
    a, b = operands_with_specials(M, N, K, dtypes[0], seed)
    wanted = _product(a, b)
    from_nan = np.asarray(np.isnan(a).any(axis=1, keepdims=True) | np.isnan(b).any(axis=0))
    found: dict[str, tuple[str, ...]] = {}
    for c in contestants:
        try:
            got = values_of(device.run(c, a, b, dtypes).codes, dtypes[1]).astype(np.float64)
        except KernelFailed as error:
            found[c.letter] = (f"it does not take them: {one_line(error)}",)
            continue
        said = _differences(got, wanted, from_nan)
        if said:
            found[c.letter] = said
    return found


def operands_with_specials(M: int, N: int, K: int, dtype: str, seed: int) -> tuple[Array, Array]:
    """Operands with a NaN in A's first row, an infinity in its third row and one in B's last column."""
    rng = np.random.default_rng([seed, 5])
    a, b = ((rng.uniform(0.25, 1, shape) * rng.choice([-1, 1], shape)).astype(np.float32) for shape in ((M, K), (K, N)))
    a, b = (values_of(codes_of(x, dtype), dtype).reshape(x.shape) for x in (a, b))
    a[0, K // 2] = np.nan
    if M > 2:
        a[2, K // 3] = np.inf
    if N > 1:
        b[K - 1, N - 1] = -np.inf
    return a, b


def _product(a: Array, b: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(np.einsum("ik,kj->ij", a.astype(np.float64), b.astype(np.float64)))


def _differences(got: Array, wanted: Array, from_nan: Array) -> tuple[str, ...]:
    said = []
    lost = from_nan & ~np.isnan(got)
    special = ~from_nan & ~np.isfinite(wanted)
    other = special & (got != wanted) & ~(np.isnan(got) & np.isnan(wanted))
    spread = np.isfinite(wanted) & ~np.isfinite(got)
    if lost.any():
        said.append(f"it loses NaN: {int(lost.sum())} of {int(from_nan.sum())} results that a NaN goes into are none")
    if other.any():
        at = tuple(np.argwhere(other)[0])
        said.append(
            f"{int(other.sum())} of {int(special.sum())} results that an infinity goes into are others "
            f"({got[at]:g} instead of {wanted[at]:g})"
        )
    if spread.any():
        said.append(
            f"NaN or infinity in other rows and columns reaches {int(spread.sum())} of "
            f"{int(np.isfinite(wanted).sum())} results that are finite"
        )
    return tuple(said)
