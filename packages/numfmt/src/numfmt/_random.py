"""Random bits that depend on a seed and an element's position only.

Stochastic rounding must give the same bits whatever computes it: NumPy in chunks, numba in threads, a GPU. So the
random word of an element is not a draw of a sequential generator but a word of a Philox block whose counter follows
from the element's index (J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
2011). A call draws only its 64-bit key from the caller's generator.

A block has four words. They go to elements that lie :data:`PLANE` apart, not to neighbours: then every implementation
reads and writes whole vectors. Element i has counter ``(i // 256) * 64 + i % 64`` and takes word ``i // 64 % 4``.
"""

from __future__ import annotations

from numbers import Integral
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Seed: TypeAlias = "int | np.integer | np.random.Generator | None"

#: Rounds of Philox4x32. Seven are the fewest that pass every test of the paper's battery (its table 2).
ROUNDS = 7
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
#: Distance between elements that share a Philox block, and the number of elements that share PLANE blocks.
PLANE = 64
GROUP = 4 * PLANE
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


def philox(counter: NDArray[np.uint64], key: int, rounds: int = ROUNDS) -> list[NDArray[np.uint64]]:
    """The four output words of Philox4x32 for 64-bit counters (upper half of the 128-bit counter zero).

    Args:
        counter: Counters, any shape.
        key: 64-bit key.
        rounds: Number of rounds.

    Returns:
        Four arrays of the counter's shape, uint64, each below 2**32.
    """
    low, shift = np.uint64(_MASK32), np.uint64(32)
    c0, c1 = counter & low, counter >> shift
    c2, c3 = np.zeros_like(c0), np.zeros_like(c0)
    p0, p1 = np.empty_like(c0), np.empty_like(c0)
    k0, k1 = key & _MASK32, key >> 32
    for _ in range(rounds):
        np.multiply(c0, np.uint64(MULTIPLIERS[0]), out=p0)
        np.multiply(c2, np.uint64(MULTIPLIERS[1]), out=p1)
        for product, word, carried, round_key in ((p1, c0, c1, k0), (p0, c2, c3, k1)):
            np.right_shift(product, shift, out=word)
            np.bitwise_xor(word, carried, out=word)
            np.bitwise_xor(word, np.uint64(round_key), out=word)
            np.bitwise_and(product, low, out=carried)
        k0, k1 = (k0 + WEYL[0]) & _MASK32, (k1 + WEYL[1]) & _MASK32
    return [c0, c1, c2, c3]


def philox_words(key: int, start: int, count: int) -> NDArray[np.uint32]:
    """The random 32-bit words of the elements ``start .. start + count - 1``.

    Args:
        key: 64-bit key.
        start: Index of the first element.
        count: Number of words.

    Returns:
        Words, shape (count,), uint32.
    """
    first, groups = start // GROUP, -(-(start + count) // GROUP) - start // GROUP
    words = np.empty((groups, 4, PLANE), np.uint32)
    counter = np.arange(first * PLANE, (first + groups) * PLANE, dtype=np.uint64).reshape(groups, PLANE)
    for word, values in enumerate(philox(counter, key)):
        words[:, word] = values
    offset = start - first * GROUP
    return words.reshape(-1)[offset : offset + count]
