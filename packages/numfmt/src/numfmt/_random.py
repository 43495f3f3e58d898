"""Random bits that depend on a seed and an element's position only.

Stochastic rounding must give the same bits whatever computes it: NumPy in chunks, numba in threads, a GPU. So the
random word of an element is not a draw of a sequential generator but a word of a Philox block whose counter follows
from the element's index (J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
2011). A call draws only its 64-bit key from the caller's generator.

A block has four words. They go to elements that lie `PLANE` apart, not to neighbours: then every implementation
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


def philox(
    counter: NDArray[np.uint64], key: int, rounds: int = ROUNDS, workspace: list[NDArray[np.uint64]] | None = None
) -> list[NDArray[np.uint64]]:
    """The four output words of Philox4x32 for 64-bit counters (upper half of the 128-bit counter zero).

    Args:
        counter: Counters, one-dimensional.
        key: 64-bit key.
        rounds: Number of rounds.
        workspace: Three arrays of shape (2, n), n the number of counters, to be overwritten; the result lies in them.

    Returns:
        Four arrays of the counter's shape, uint64, each below 2**32.
    """
    # Rows: (c0, c2) and (c1, c3). A round multiplies the first pair and swaps: both halves in one pass each.
    even, odd, product = workspace or [np.empty((2, counter.size), np.uint64) for _ in range(3)]
    np.bitwise_and(counter, _LOW[0], out=even[0])
    np.right_shift(counter, _SHIFT[0], out=odd[0])
    even[1] = odd[1] = 0
    k0, k1 = key & _MASK32, key >> 32
    for _ in range(rounds):
        np.multiply(even[::-1], _MULTIPLIERS, out=product)
        np.right_shift(product, _SHIFT, out=even)
        np.bitwise_xor(even, odd, out=even)
        np.bitwise_xor(even, np.array([[k0], [k1]], np.uint64), out=even)
        np.bitwise_and(product, _LOW, out=odd)
        k0, k1 = (k0 + WEYL[0]) & _MASK32, (k1 + WEYL[1]) & _MASK32
    return [even[0], odd[0], even[1], odd[1]]


# As arrays: NumPy converts scalars anew in every call.
_LOW, _SHIFT = np.full((1, 1), _MASK32, np.uint64), np.full((1, 1), 32, np.uint64)
_MULTIPLIERS = np.array([[MULTIPLIERS[1]], [MULTIPLIERS[0]]], np.uint64)


class Words:
    """A source of random words with buffers that are used again: for many calls of at most ``count`` words.

    Args:
        key: 64-bit key.
        count: Largest number of words of one call.
    """

    def __init__(self, key: int, count: int) -> None:
        self._key = key
        groups = count // GROUP + 2
        self._counter = np.arange(groups * PLANE, dtype=np.uint64)
        self._words = np.empty((groups, 4, PLANE), np.uint32)
        self._workspace = [np.empty((2, groups * PLANE), np.uint64) for _ in range(3)]

    def take(self, start: int, count: int) -> NDArray[np.uint32]:
        """The words of the elements ``start .. start + count - 1``; they are overwritten by the next call."""
        first = start // GROUP
        groups = -(-(start + count) // GROUP) - first
        n = groups * PLANE
        counter = self._counter[:n]
        np.add(counter, np.uint64(first * PLANE) - counter[:1], out=counter)
        blocks = philox(counter, self._key, workspace=[w[:, :n] for w in self._workspace])
        for word, values in enumerate(blocks):
            self._words[:groups, word] = values.reshape(groups, PLANE)
        offset = start - first * GROUP
        return self._words.reshape(-1)[offset : offset + count]


def philox_words(key: int, start: int, count: int) -> NDArray[np.uint32]:
    """The random 32-bit words of the elements ``start .. start + count - 1``.

    Args:
        key: 64-bit key.
        start: Index of the first element.
        count: Number of words.

    Returns:
        Words, shape (count,), uint32.
    """
    piece = 128 * GROUP
    if count <= piece:
        return Words(key, count).take(start, count)
    source, words = Words(key, piece), np.empty(count, np.uint32)
    for done in range(0, count, piece):
        size = min(piece, count - done)
        words[done : done + size] = source.take(start + done, size)
    return words
