"""Which results depend on which inputs: in a kernel that computes another formula, and in its reference.

A mask that is off by one, a bias along the wrong axis or a window that is too short read other inputs than they should.
One slice of one input is changed at a time; where results change tells what they are made of.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tritongemm.auditing.regions import roughly
from tritongemm.auditing.trials import Inputs, Values, float_element, like, paired, widened
from tritongemm.errors import KernelFailed

Array = np.ndarray[Any, np.dtype[Any]]
Run = Callable[[Inputs], Mapping[str, Values] | None]

# A slice of fewer has no neighbours on both sides.
_LEAST = 3
# Changes of results, relative to their size: none; one that is no accident; one that narrow results show too.
_NONE, _SOME, _SURE = 1e-9, 1e-6, 2e-2


def read_otherwise(kernel: Run, reference: Run, inputs: Inputs, names: frozenset[str], deadline: float) -> str:
    """A slice of an input that other results depend on than in the reference, in a sentence; "" if there is none.

    Of several, the one that fewest results depend on: it shows best what is read where.

    Args:
        kernel: Gives a kernel's results without rounding.
        reference: Gives the float64 results.
        inputs: By name.
        names: The inputs to change.
        deadline: Time (`time.monotonic`) after which no more is tried.
    """
    before = kernel(inputs), reference(inputs)
    if before[0] is None or before[1] is None:
        return ""
    found: dict[int, str] = {}
    for name, axis, at, changed in _changed(inputs, names):
        if time.monotonic() > deadline:
            break
        after = kernel(changed), reference(changed)
        if after[0] is None or after[1] is None:
            continue
        try:
            pairs = paired(dict(after[0]), dict(after[1]))
        except KernelFailed:
            break
        for output, (its, mine, right) in pairs.items():
            if mine.values.shape != right.values.shape:
                continue
            here, there = _change(mine, before[0][output]), _change(right, before[1][its])
            if ((here > _SOME) & (there <= _NONE)).any() or ((there > _SURE) & (here <= _NONE)).any():
                found.setdefault(
                    int(((here > _NONE) | (there > _NONE)).sum()),
                    f"What depends on {name!r} at index {at} of its axis {axis}: of {output!r} {_region(here)}, in the "
                    f"reference {_region(there)}. It reads other inputs than it should (a mask, a bound, an index).",
                )
    return found[min(found)] if found else ""


def _changed(inputs: Inputs, names: frozenset[str]) -> Iterator[tuple[str, int, int, Inputs]]:
    """The inputs with one slice in the middle of one axis of one of them changed."""
    rng = np.random.default_rng(0)
    for name, x in inputs.items():
        element = float_element(x)
        if name not in names or element is None:
            continue
        values = widened(x)
        size = float(np.sqrt(np.mean(values**2))) if values.size else 0.0
        for axis, length in enumerate(values.shape):
            if length < _LEAST or not math.isfinite(size) or not size:
                continue
            at, moved = length // 2, values.copy()
            # At random: a softmax and a norm do not see what is added to a whole row.
            moved[(slice(None),) * axis + (at,)] += size * rng.uniform(0.5, 2, values.take(at, axis).shape)
            yield name, axis, at, {**inputs, name: like(x, moved, element.name)}


def _change(after: Values, before: Values) -> Array:
    """How much results changed, relative to their usual size."""
    with np.errstate(all="ignore"):
        size = float(np.sqrt(np.nanmean(np.where(np.isfinite(before.values), before.values, 0.0) ** 2)))
        change = np.abs(after.values - before.values)
    same = (after.values == before.values) | (np.isnan(after.values) & np.isnan(before.values))
    change = np.where(same, 0.0, np.where(np.isfinite(change), change, np.inf))
    return change / size if size else change


def _region(change: Array) -> str:
    """Where results changed, of more than two dimensions in the first matrix that did."""
    changed = np.atleast_2d(change > _NONE)
    matrices = changed.reshape(-1, *changed.shape[-2:])
    return next((roughly(matrix) for matrix in matrices if matrix.any()), "nothing")
