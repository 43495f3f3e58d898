"""Which outputs a CPU audit evaluates: rectangles of rows and columns of the full product.

Evaluating a kernel costs thousands of times a float64 product, so the audit evaluates samples. Random rectangles give
unbiased figures. Failures of a tolerance test are rare, and no accident: they need a result close to zero, where the
test allows least, and large partial sums on the way to it, where roundings are coarse. A survey of the full float64
product finds the results closest to zero, and of these the audit evaluates those with the largest partial sums, and
reports them separately. The choice depends on the operands alone.

The product of chosen rows of A and columns of B is a product of its own, which every kernel can be asked for, whatever
its grid.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tritongemm.accuracy import Tolerance

Array = np.ndarray[Any, np.dtype[Any]]

_SURVEY_BYTES = 1 << 26
RANDOM, AT_RISK = "random", "most at risk"
# Partial sums are looked at every so many products.
_PARTIAL = 32
_AT_ONCE = 1024


@dataclass(frozen=True)
class Rectangle:
    """Rows and columns whose product is evaluated.

    Attributes:
        stratum: `RANDOM` or `AT_RISK`.
        rows: Rows of A.
        columns: Columns of B.
        wanted: Which outputs count for the stratum; the others come along.
    """

    stratum: str
    rows: Array
    columns: Array
    wanted: Array


@dataclass(frozen=True)
class Survey:
    """What the full float64 product showed.

    Attributes:
        outputs: Outputs looked at; all of them unless time ran out.
        total: Outputs there are.
        library_outside: How many of NumPy's fp32 products are outside the tolerance of float64.
        rms: Root mean square of the float64 results.
        nearest: Row, column and |value| of the outputs closest to zero, closest first.
    """

    outputs: int
    total: int
    library_outside: int
    rms: float
    nearest: tuple[Array, Array, Array]


def draw(M: int, N: int, K: int, seed: int, distribution: str = "uniform") -> tuple[Array, Array]:
    """The operands of an audit: fp32 numbers from U(-1, 1), row by row, A first.

    Args:
        M: Rows of A.
        N: Columns of B.
        K: Columns of A and rows of B.
        seed: Seed of NumPy's default generator.
        distribution: A name of `DISTRIBUTIONS`.
    """
    rng = np.random.default_rng(seed)
    make = DISTRIBUTIONS[distribution]
    return make(rng, (M, K)), make(rng, (K, N))


def _uniform(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    x = rng.random(shape, dtype=np.float32)
    x *= 2
    x -= 1
    return x


DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Array]] = {
    "uniform": _uniform,
    "positive": lambda rng, shape: rng.random(shape, dtype=np.float32),
    "normal": lambda rng, shape: rng.standard_normal(shape, dtype=np.float32),
    "wide": lambda rng, shape: np.ldexp(_uniform(rng, shape), rng.integers(-20, 21, shape)).astype(np.float32),
}
DISTRIBUTION_TEXT = {
    "uniform": "U(-1, 1)",
    "positive": "U(0, 1)",
    "normal": "N(0, 1)",
    "wide": "U(-1, 1) times 2^-20 to 2^20",
}


def survey(
    a: Array, b: Array, tolerance: Tolerance, keep: int, deadline: float, show: Callable[[float], None]
) -> Survey:
    """Computes the float64 product in row blocks and remembers the outputs closest to zero.

    Args:
        a: (M, K) float32.
        b: (K, N) float32.
        tolerance: The test that NumPy's fp32 product is put to.
        keep: How many outputs to remember.
        deadline: Time (`time.monotonic`) to stop at, with what has been seen by then.
        show: Called with the share that is done.
    """
    M, N = a.shape[0], b.shape[1]
    wide = b.astype(np.float64)
    height = max(1, min(M, _SURVEY_BYTES // (8 * max(1, N))))
    seen = outside = 0
    squares = 0.0
    best = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    for top in range(0, M, height):
        rows = a[top : top + height]
        golden = rows.astype(np.float64) @ wide
        library = (rows @ b).astype(np.float64)
        outside += int(tolerance.outside(library, golden).sum())
        seen += golden.size
        squares += float(np.vdot(golden, golden))
        size = np.abs(golden).ravel()
        few = np.argpartition(size, keep - 1)[:keep] if size.size > keep else np.arange(size.size)
        found = (
            np.concatenate([best[0], top + few // N]),
            np.concatenate([best[1], few % N]),
            np.concatenate([best[2], size[few]]),
        )
        order = np.argsort(found[2], kind="stable")[:keep]
        best = (found[0][order], found[1][order], found[2][order])
        show(seen / (M * N))
        if time.monotonic() > deadline:
            break
    return Survey(seen, M * N, outside, float(np.sqrt(squares / max(1, seen))), best)


def most_at_risk(
    a: Array, b: Array, nearest: tuple[Array, Array, Array], tolerance: Tolerance, keep: int
) -> tuple[Array, Array]:
    """Of outputs close to zero, those where adding k = 0, 1, 2, ... in fp32 is most likely to miss a tolerance.

    Each addition rounds its partial sum s_k by at most u·|s_k|; independent roundings add up to about u·sqrt(sum s_k²),
    which is compared with what the tolerance allows.

    Args:
        a: (M, K) float32.
        b: (K, N) float32.
        nearest: Rows, columns and sizes of the outputs, from `survey`.
        tolerance: The test.
        keep: How many to return.

    Returns:
        Rows and columns, the most endangered first.
    """
    rows, columns, size = nearest
    K = a.shape[1]
    bt = np.ascontiguousarray(b.T)
    starts = np.arange(0, K, _PARTIAL)
    risk = np.empty(rows.size)
    for first in range(0, rows.size, _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        x, y = a[rows[part]], bt[columns[part]]
        partial = np.cumsum(np.add.reduceat(x * y, starts, axis=1, dtype=np.float64), axis=1)
        risk[part] = np.einsum("ik,ik->i", partial, partial) / (tolerance.atol + tolerance.rtol * size[part]) ** 2
    order = np.argsort(-risk, kind="stable")[:keep]
    return rows[order], columns[order]


def rectangles(
    M: int, N: int, shape: tuple[int, int], random: int, at_risk: int, targets: tuple[Array, Array], seed: int
) -> list[Rectangle]:
    """The sample, in the order in which it is evaluated: the strata take turns, so that stopping early hurts neither.

    Args:
        M: Rows of the product.
        N: Columns.
        shape: Rows and columns of a rectangle, at most.
        random: Number of random rectangles.
        at_risk: Number of rectangles through outputs at risk.
        targets: Rows and columns of these outputs, from `most_at_risk`.
        seed: Seed of the random choice.
    """
    rng = np.random.default_rng([seed, 1])
    high, wide = min(M, shape[0]), min(N, shape[1])
    chosen = []
    for _ in range(random):
        rows, columns = (np.sort(rng.choice(n, k, replace=False)) for n, k in ((M, high), (N, wide)))
        chosen.append(Rectangle(RANDOM, rows, columns, np.ones((high, wide), bool)))
    through = _through(targets, min(high, wide), at_risk)
    # The strata take turns, the rarer one at even distances.
    few, many = sorted((chosen, through), key=len)
    step = -(-len(many) // max(1, len(few)))
    mixed: list[Rectangle] = []
    for i, rectangle in enumerate(many):
        mixed += few[i // step : i // step + 1] if i % step == 0 else []
        mixed.append(rectangle)
    return mixed


def _through(targets: tuple[Array, Array], side: int, count: int) -> list[Rectangle]:
    """Rectangles with the wanted outputs on their diagonals: no row and no column twice in one."""
    waiting = list(zip(targets[0].tolist(), targets[1].tolist(), strict=True))
    made: list[Rectangle] = []
    while waiting and len(made) < count:
        rows: dict[int, None] = {}
        columns: dict[int, None] = {}
        later = []
        for at, (i, j) in enumerate(waiting):
            if len(rows) == side:
                later += waiting[at:]
                break
            if i in rows or j in columns:
                later.append((i, j))
            else:
                rows[i] = columns[j] = None
        waiting = later
        made.append(Rectangle(AT_RISK, np.array(list(rows)), np.array(list(columns)), np.eye(len(rows), dtype=bool)))
    return made
