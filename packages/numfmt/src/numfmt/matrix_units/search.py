"""`find_schedule`: which schedule a library used, from one of its results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from numfmt.matrix_units.operands import as_matrix
from numfmt.matrix_units.product import matmul, operand_keys
from numfmt.matrix_units.schedules import ChainAll, Promote, Schedule, SplitK
from numfmt.matrix_units.units import MatrixUnit, find_unit


@dataclass(frozen=True)
class Match:
    """A schedule and the share of the sampled outputs whose bits it gives.

    Attributes:
        share: Between 0 and 1.
        schedule: The schedule.
        compared: Number of outputs compared.
    """

    share: float
    schedule: Schedule
    compared: int

    def __str__(self) -> str:
        return f"{self.share:.2%} of {self.compared} outputs: {self.schedule.call()}"


def library_schedules(k: int, unit: MatrixUnit) -> Iterator[Schedule]:
    """Schedules that libraries use: a chain, promotion, and both within split-K of many widths, ends and reductions.

    Args:
        k: K.
        unit: The unit, whose depth every cut must respect.
    """
    inner: list[Schedule] = [ChainAll()]
    inner += [Promote(n, ChainAll()) for n in (32, 64, 128, 256, 512) if n < k and n % unit.depth == 0]
    yield from inner
    # Within split-K only FP8's two modes are known: fast accumulation, and promotion every 128.
    split_inner: list[Schedule] = [one for one in inner if one in (ChainAll(), Promote(128, ChainAll()))]
    if unit.mantissa_bits != 13:
        split_inner = inner[:1]
    seen: set[tuple[Schedule, str, tuple[int, ...]]] = set()
    for parts in (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 48, 64):
        for grain in (unit.depth, 32, 64, 128, 256):
            if grain % unit.depth or grain * parts > k:
                continue
            size = -(-(-(-k // grain)) // parts) * grain  # noqa: B002
            cuts = tuple(range(0, k, size))
            for reduction in ("sequential", "pairwise"):
                for one in split_inner:
                    if (one, reduction, cuts) not in seen and len(cuts) > 1:
                        seen.add((one, reduction, cuts))
                        yield SplitK(parts, one, grain, reduction)


def find_schedule(
    result: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    *,
    unit: str | MatrixUnit = "hopper",
    inputs: str | tuple[str, str] | None = None,
    accumulator: str = "fp32",
    candidates: Sequence[Schedule] | None = None,
    output: Any = None,
    sample: int = 1024,
    seed: int = 0,
) -> list[Match]:
    """Try schedules on a sample of a library's outputs, best first.

    Args:
        result: (M, N) result of the library, float32, or rounded further to `output`.
        a: (M, K) operand.
        b: (K, N) operand.
        unit: The unit the library is thought to have used.
        inputs: Format of the operands; None: from the dtypes.
        accumulator: "fp32" or "fp16".
        candidates: Schedules to try; None: those of `library_schedules`.
        output: A `numfmt.FloatFormat` the library rounded its result to (nearest even); None: not rounded.
        sample: Outputs to compare: random rows and columns.
        seed: Seed of the sample.

    Returns:
        Every candidate with its share, best first; the first of equals is the one tried first.

    Raises:
        ValueError: For shapes or formats that do not fit.
    """
    left, right, seen = as_matrix(a, "a"), as_matrix(b, "b"), as_matrix(result, "result")
    if seen.shape != (left.shape[0], right.shape[1]) or left.shape[1] != right.shape[0]:
        raise ValueError(
            f"result has shape {seen.shape}, a {left.shape} and b {right.shape}: they do not belong together"
        )
    keys = operand_keys(left, right, inputs, unit)
    facts = find_unit(unit, keys, accumulator)
    rng = np.random.default_rng(seed)
    side = max(1, int(sample**0.5))
    rows = np.sort(rng.permutation(seen.shape[0])[:side])
    columns = np.sort(rng.permutation(seen.shape[1])[:side])
    part_a, part_b = left[rows], np.ascontiguousarray(right[:, columns])
    expected = seen[np.ix_(rows, columns)].astype(np.float64)
    tried = library_schedules(left.shape[1], facts) if candidates is None else candidates
    matches = []
    for schedule in tried:
        got = matmul(part_a, part_b, unit=facts, inputs=keys, accumulator=accumulator, schedule=schedule).astype(
            np.float64
        )
        matches.append(Match(float(_same(_rounded(got, output), expected).mean()), schedule, expected.size))
    return sorted(matches, key=lambda match: -match.share)


def _rounded(values: NDArray[np.float64], output: Any) -> NDArray[np.float64]:
    if output is None:
        return values
    rounded: NDArray[np.float64] = output.round(values)
    return rounded


def _same(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Equal numbers with equal signs, or both NaN."""
    same: NDArray[np.bool_] = ((one == other) & (np.signbit(one) == np.signbit(other))) | (
        np.isnan(one) & np.isnan(other)
    )
    return same
