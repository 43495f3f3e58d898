"""What wrong floats look like: an indexing mistake, another precision, or neither.

Payloads prove what a kernel computes; this is for results of which there is nothing but the floats. A guess ("the
products from k = 768 on are missing") has to explain every wrong output that is looked at, each within what its
rounding may be, so that chance has no part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import numfmt
from numfmt import FloatFormat

Array = np.ndarray[Any, np.dtype[Any]]

INDEXING, PRECISION, SPECIAL = "an indexing mistake", "another precision", "a special value"
EPILOGUE = "a function of the product"
# Lengths of blocks that may be missing or counted twice.
_BLOCKS = (8, 16, 32, 64, 128, 256, 512)
_FACTORS = (-1.0, 2.0, 0.5, 4.0, 0.25, 3.0, 8.0, 0.125)
_MOST_SHIFT = 2
# Fewer outputs than this may fit a guess about many products by chance.
_FEW = 3
# Outputs whose errors' size tells something.
_MANY = 16
# An error that shrinks to this share when the operands are rounded like that came from there.
_EXPLAINED = 0.2
# Errors within this factor of a simulation's (rms) are of its kind.
_LIKE = 2.5
_FORMATS = {"tf32": numfmt.TF32, "bf16": numfmt.BF16, "fp16": numfmt.FP16, "fp8e4m3fn": numfmt.FP8_E4M3}


@dataclass(frozen=True)
class Symptom:
    """What a set of wrong outputs looks like.

    Attributes:
        kind: `INDEXING`, `PRECISION`, `SPECIAL` or `EPILOGUE`.
        text: What exactly, a clause.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class Wrong:
    """Some wrong outputs of C = A B, and what they were made of; all float64.

    Attributes:
        places: Rows and columns.
        value: What is there.
        golden: What belongs there.
        allowed: What rounding may amount to.
        x: (n, K) their rows of A.
        y: (n, K) their columns of B.
        elsewhere: (M, N) golden results, to look for values at wrong places; None if there are too many.
        out: The results' type.
    """

    places: tuple[Array, Array]
    value: Array
    golden: Array
    allowed: Array
    x: Array
    y: Array
    elsewhere: Array | None
    out: FloatFormat

    @property
    def terms(self) -> Array:
        """The (n, K) products."""
        return np.asarray(self.x * self.y)


def symptom(wrong: Wrong) -> Symptom | None:
    """What the wrong outputs look like.

    Args:
        wrong: At least one output, of which none is what belongs there.

    Returns:
        The first explanation that holds for all of them; None if none does.
    """
    if wrong.value.size == 0:
        return None
    with np.errstate(all="ignore"):
        return next((found for guess in _GUESSES if (found := guess(wrong)) is not None), None)


def _special(w: Wrong) -> Symptom | None:
    bad = ~np.isfinite(w.value)
    if not bad.all():
        return None
    if np.isnan(w.value).all():
        return Symptom(SPECIAL, "they are NaN: never written, or read from outside of the operands")
    return Symptom(SPECIAL, "they are infinite: the type of the sum or of the result is too narrow")


def _epilogue(w: Wrong) -> Symptom | None:
    """A product that something was done to: a relu, a clamp, an absolute value."""
    if w.value.size < _MANY:
        return None
    negative = w.golden < 0
    for text, found in (
        ("they are zero where the product is negative, as after a relu", negative & (w.value == 0)),
        ("the product is negative, and they are its absolute value", negative & _near(w, -w.golden)),
        ("the product is positive, and they are minus its absolute value", ~negative & _near(w, -w.golden)),
    ):
        if found.all():
            return Symptom(EPILOGUE, text)
    low, high = float(w.value.min()), float(w.value.max())
    cut = np.where(negative, low, high)
    if (w.value == cut).all() and (np.abs(w.golden) > np.abs(cut)).all() and cut.all():
        values = f"{low:g} or {high:g}" if low != high else f"{low:g}"
        return Symptom(EPILOGUE, f"the product is further from zero, and all of them are {values}, as after a clamp")
    return None


def _near(w: Wrong, values: Array) -> Array:
    return np.asarray(np.abs(w.value - values) <= w.allowed)


def _zero(w: Wrong) -> Symptom | None:
    return Symptom(INDEXING, "they are zero: never computed or never written") if (w.value == 0).all() else None


def _factor(w: Wrong) -> Symptom | None:
    for f in _FACTORS:
        if (np.abs(w.value - f * w.golden) <= abs(f) * w.allowed).all():
            text = "they have the opposite sign" if f == -1 else f"they are {f:g} times what they should be"
            return Symptom(INDEXING, text)
    return None


def _part_of_k(w: Wrong) -> Symptom | None:
    """A head, a tail, or one block of the products is missing or counted twice."""
    K = w.x.shape[1]
    missing = w.golden - w.value
    if len(missing) < _FEW:
        return _one_product(w, missing)
    sums = np.concatenate([np.zeros((len(missing), 1)), np.cumsum(w.terms, axis=1)], axis=1)
    fits = np.abs(w.value[:, None] - sums) <= w.allowed[:, None]
    kept = np.flatnonzero(fits.all(axis=0))
    if kept.size and 0 < kept[0] < K:
        return Symptom(INDEXING, f"the products from k = {kept[0]} of {K} on are missing, as when a K tail is dropped")
    fits = np.abs(missing[:, None] - sums) <= w.allowed[:, None]
    first = np.flatnonzero(fits.all(axis=0))
    if first.size and 0 < first[-1] < K:
        return Symptom(INDEXING, f"the first {first[-1]} of {K} products are missing")
    for length in _BLOCKS:
        if length >= K:
            break
        starts = np.arange(0, K - length + 1, length)
        block = sums[:, starts + length] - sums[:, starts]
        for words, wanted in (("missing", missing), ("counted twice", -missing)):
            at = np.flatnonzero((np.abs(wanted[:, None] - block) <= w.allowed[:, None]).all(axis=0))
            if at.size:
                start = int(starts[at[0]])
                return Symptom(INDEXING, f"the products k = {start} to {start + length - 1} are {words}")
    return None


def _one_product(w: Wrong, missing: Array) -> Symptom | None:
    """On few outputs a sum of many products may fit by chance; a single product is named if no other fits."""
    for words, wanted in (("missing", missing), ("counted twice", -missing)):
        at = np.flatnonzero((np.abs(wanted[:, None] - w.terms) <= w.allowed[:, None]).all(axis=0))
        if at.size == 1:
            return Symptom(INDEXING, f"the product k = {at[0]} is {words}")
    return None


def _misplaced(w: Wrong) -> Symptom | None:
    if w.elsewhere is None:
        return None
    rows, columns = w.places
    M, N = w.elsewhere.shape
    if M == N and (np.abs(w.value - w.elsewhere[columns, rows]) <= w.allowed).all():
        return Symptom(INDEXING, "they are what belongs to the transposed place")
    for down, right in _shifts():
        at = (rows + down) % M, (columns + right) % N
        if (np.abs(w.value - w.elsewhere[at]) <= w.allowed).all():
            steps = " and ".join(x for x in (_steps(down, "row"), _steps(right, "column")) if x)
            return Symptom(INDEXING, f"they are what belongs {steps} away")
    return None


def _shifts() -> Iterator[tuple[int, int]]:
    reach = range(-_MOST_SHIFT, _MOST_SHIFT + 1)
    return ((i, j) for i in reach for j in reach if i or j)


def _steps(n: int, word: str) -> str:
    return f"{n:+d} {word}{'s' if abs(n) > 1 else ''}" if n else ""


def _operands_rounded(w: Wrong) -> Symptom | None:
    if w.value.size < _FEW:
        return None
    before = _rms(w.value - w.golden)
    made = []
    for name, fmt in _FORMATS.items():
        for how, words in (("nearest_even", "rounded"), ("toward_zero", "truncated")):
            x, y = (np.asarray(fmt.round(v, rounding=how), np.float64) for v in (w.x, w.y))
            exact = np.einsum("nk,nk->n", x, y)
            made.append((_rms(w.value - exact), f"as if both operands were {words} to {name}"))
        narrow = np.asarray(fmt.round(np.einsum("nk,nk->n", *(np.asarray(fmt.round(v)) for v in (w.x, w.y)))))
        made.append((_rms(w.value - narrow), f"as if operands and results were rounded to {name}"))
    after, text = min(made)
    if not after <= _EXPLAINED * before:
        return None
    # tf32 and fp16 round alike where neither overflows or underflows.
    twin = text.replace("fp16", "tf32")
    if twin != text and any(found == twin and its <= after for its, found in made):
        text = text.replace("fp16", "tf32 or fp16")
    return Symptom(PRECISION, text)


def _result_rounded(w: Wrong) -> Symptom | None:
    error = np.abs(w.value - w.golden)
    for name in ("fp8e4m3fn", "bf16", "fp16", "tf32"):
        fmt = _FORMATS[name]
        once = fmt.unit_roundoff * np.abs(w.golden) + fmt.min_subnormal + w.allowed
        if fmt.mantissa_bits >= w.out.mantissa_bits or w.value.size < _FEW:
            continue
        if (error <= once).all() and _are_numbers_of(fmt, w.value):
            return Symptom(PRECISION, f"all of them are {name} numbers: the results were rounded to {name} on the way")
    return None


def _are_numbers_of(fmt: FloatFormat, values: Array) -> bool:
    return bool((np.asarray(fmt.round(values), np.float64) == values).all())


def _rounded_often(w: Wrong) -> Symptom | None:
    for name in ("bf16", "fp16"):
        fmt = _FORMATS[name]
        if fmt.mantissa_bits < w.out.mantissa_bits and w.value.size >= _FEW and _are_numbers_of(fmt, w.value):
            return Symptom(PRECISION, f"all of them are {name} numbers: the sum was rounded to {name} more than once")
    return None


def _narrow_sum(w: Wrong) -> Symptom | None:
    """Sums kept in fp16 or bf16, which no bits prove but the size of the errors shows."""
    if w.value.size < _MANY:
        return None
    size = _rms(w.value - w.golden)
    for name in ("fp16", "bf16"):
        fmt = _FORMATS[name]
        total = np.zeros(len(w.value))
        for k in range(w.x.shape[1]):
            total = np.asarray(fmt.round(total + w.x[:, k] * w.y[:, k]), np.float64)
        like = _rms(total - w.golden)
        if like and 1 / _LIKE <= size / like <= _LIKE:
            return Symptom(PRECISION, f"the errors are of the size that sums kept in {name} make")
    return None


def _rms(x: Array) -> float:
    return float(np.sqrt(np.mean(x * x)))


_GUESSES: tuple[Callable[[Wrong], Symptom | None], ...] = (
    _special,
    _epilogue,
    _zero,
    _factor,
    _part_of_k,
    _misplaced,
    _operands_rounded,
    _result_rounded,
    _narrow_sum,
    _rounded_often,
)
