"""Random bits that depend on a seed and an element's position only.

Stochastic rounding must give the same bits whatever computes it: NumPy in chunks, numba in threads, a GPU. So the
random word of element i is not the i-th draw of a sequential generator but word i mod 4 of the Philox block with
counter i // 4 (J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011), and a
call draws only its 64-bit key from the caller's generator.
"""

from __future__ import annotations

from numbers import Integral
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Seed: TypeAlias = "int | np.integer | np.random.Generator | None"

#: Rounds of Philox. Seven are the fewest that pass every test of the paper's battery; ten are its recommended margin.
ROUNDS = 7
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
_MASK32 = 0xFFFFFFFF


def as_generator(rng: Seed, argument: str = "rng") -> np.random.Generator:
    """A NumPy generator from a seed, a generator or None (fresh entropy).

    Raises:
        TypeError: For anything else, NaN included: a seed that is not an integer would silently seed something else.
        ValueError: For a negative seed.
    """
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None:
        return np.random.default_rng()
    if isinstance(rng, Integral) and not isinstance(rng, bool):
        if rng < 0:
            raise ValueError(f"{argument} must be a non-negative integer seed, not {rng!r}")
        return np.random.default_rng(int(rng))
    raise TypeError(
        f"{argument} must be None, a non-negative integer seed or a numpy.random.Generator, "
        f"not {type(rng).__name__} {rng!r}"
    )


def draw_key(rng: Seed) -> int:
    """The 64-bit Philox key of one call, drawn from ``rng``."""
    return int(as_generator(rng).integers(0, 2**64, dtype=np.uint64))


def philox_words(key: int, start: int, count: int, rounds: int = ROUNDS) -> NDArray[np.uint32]:
    """The random 32-bit words of the elements ``start .. start + count - 1``.

    Args:
        key: 64-bit key.
        start: Index of the first element.
        count: Number of words.
        rounds: Rounds of Philox4x32.

    Returns:
        Words, shape (count,), uint32.
    """
    first_block = start // 4
    blocks = (start + count + 3) // 4 - first_block
    counter = np.arange(first_block, first_block + blocks, dtype=np.uint64)
    c0, c1 = counter & np.uint64(_MASK32), counter >> np.uint64(32)
    c2, c3 = np.zeros_like(c0), np.zeros_like(c0)
    k0, k1 = key & _MASK32, key >> 32
    low, shift = np.uint64(_MASK32), np.uint64(32)
    for _ in range(rounds):
        p0, p1 = c0 * np.uint64(MULTIPLIERS[0]), c2 * np.uint64(MULTIPLIERS[1])
        c0, c1, c2, c3 = (p1 >> shift) ^ c1 ^ np.uint64(k0), p1 & low, (p0 >> shift) ^ c3 ^ np.uint64(k1), p0 & low
        k0, k1 = (k0 + WEYL[0]) & _MASK32, (k1 + WEYL[1]) & _MASK32
    words = np.empty((blocks, 4), np.uint32)
    for column, word in enumerate((c0, c1, c2, c3)):
        words[:, column] = word
    offset = start - 4 * first_block
    return words.reshape(-1)[offset : offset + count]
