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
from tritongemm.auditing.epilogues import After

Array = np.ndarray[Any, np.dtype[Any]]

INDEXING, PRECISION, SPECIAL = "an indexing mistake", "another precision", "a special value"
EPILOGUE, OTHER_EPILOGUE = "a function of the product", "another epilogue"
# Lengths of blocks that may be missing or counted twice.
_BLOCKS = (8, 16, 32, 64, 128, 256, 512)
_FACTORS = (-1.0, 2.0, 0.5, 4.0, 0.25, 3.0, 8.0, 0.125)
_MOST_SHIFT = 2
# Fewer outputs than this may fit a guess about many products by chance.
_FEW = 3
# Outputs of which chance has no part in all their signs.
_SIGNS = 8
# Outputs whose errors' size tells something.
_MANY = 16
_BE = {"they are": "they", "the product in them is": "it"}
# Formats of fewer bits do not show more than three digits of a factor.
_NARROW = 20
# An error that shrinks to this share when the operands are rounded like that came from there.
_EXPLAINED = 0.2
# Errors within this factor of a simulation's (rms) may be of its kind, if no other's is nearer.
_LIKE = 2.5
# Products that are added up exactly before a narrow sum is rounded: one, or what a kernel multiplies at once.
_STEPS = (1, 16, 32, 64, 128)
# Parts of K that are added up, and the blocks that programs take in turn; None: parts that are contiguous.
_SPLITS, _SPLIT_BLOCKS = range(2, 17), (None, 16, 32, 64, 128)
# The least that a constant factor has to differ from 1 to be named, apart from the rounding of results.
_LEAST_FACTOR = 1e-4
_FORMATS = {"tf32": numfmt.TF32, "bf16": numfmt.BF16, "fp16": numfmt.FP16, "fp8e4m3fn": numfmt.FP8_E4M3}


@dataclass(frozen=True)
class Symptom:
    """What a set of wrong outputs looks like.

    Attributes:
        kind: `INDEXING`, `PRECISION`, `SPECIAL`, `EPILOGUE` or `OTHER_EPILOGUE`.
        text: What exactly, a clause.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class Wrong:
    """Some wrong outputs of a product and its epilogue, and what they were made of; all float64.

    Attributes:
        places: Rows and columns.
        value: What is there.
        golden: What belongs there.
        allowed: What rounding may amount to.
        x: (n, K) their rows of A.
        y: (n, K) their columns of B.
        elsewhere: (M, N) golden results, to look for values at wrong places; None if there are too many.
        out: The results' type.
        after: What makes results of these outputs' sums.
    """

    places: tuple[Array, Array]
    value: Array
    golden: Array
    allowed: Array
    x: Array
    y: Array
    elsewhere: Array | None
    out: FloatFormat
    after: After

    @property
    def terms(self) -> Array:
        """The (n, K) products."""
        return np.asarray(self.x * self.y)

    def made_of(self, sums: Array) -> Array:
        """The results of sums, rounded to their type."""
        return np.asarray(self.out.round(self.after(sums)), np.float64)


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
    """A product that something was done to: a relu, leaky or not, a clamp, an absolute value."""
    if w.value.size < _SIGNS:
        return None
    negative = w.golden < 0
    for text, found in (
        ("they are zero where the product is negative, as after a relu", negative & (w.value == 0)),
        ("the product is negative, and they are its absolute value", negative & _near(w, -w.golden)),
        ("the product is positive, and they are minus its absolute value", ~negative & _near(w, -w.golden)),
    ):
        if found.all():
            return Symptom(EPILOGUE, text)
    with np.errstate(all="ignore"):
        slope = float(w.golden @ w.value / (w.golden @ w.golden)) if negative.all() else 0.0
    if 0 < slope < 1 and _near(w, slope * w.golden).all():
        return Symptom(EPILOGUE, f"they are {slope:.3g} times the product where it is negative, as after a leaky relu")
    low, high = float(w.value.min()), float(w.value.max())
    cut = np.where(negative, low, high)
    if (w.value == cut).all() and (np.abs(w.golden) > np.abs(cut)).all() and cut.all():
        values = f"{low:g} or {high:g}" if low != high else f"{low:g}"
        return Symptom(EPILOGUE, f"the product is further from zero, and all of them are {values}, as after a clamp")
    return None


def _near(w: Wrong, values: Array) -> Array:
    """Where the outputs are these values, (n,) or (n, any), as nearly as rounding allows it."""
    value, golden, allowed = (x if values.ndim == 1 else x[:, None] for x in (w.value, w.golden, w.allowed))
    # Values that are larger than what belongs there lose more when they are rounded.
    larger = w.out.unit_roundoff * np.maximum(np.abs(values) - np.abs(golden), 0)
    return np.asarray(np.abs(value - values) <= allowed + larger)


def _other_epilogue(w: Wrong) -> Symptom | None:
    """A bias that is missing or along the wrong axis, another activation, ..."""
    if w.value.size < _FEW:
        return None
    product = w.terms.sum(axis=1)
    found = next((text for text, values in w.after.mistakes(product) if _near(w, values).all()), None)
    return None if found is None else Symptom(OTHER_EPILOGUE, found)


def _zero(w: Wrong) -> Symptom | None:
    return Symptom(INDEXING, "they are zero: never computed or never written") if (w.value == 0).all() else None


def _factor(w: Wrong) -> Symptom | None:
    for f in _FACTORS:
        if (np.abs(w.value - f * w.golden) <= abs(f) * w.allowed).all():
            text = "they have the opposite sign" if f == -1 else f"they are {f:g} times what they should be"
            # What is added up several times is an indexing mistake; other factors are not made by indices.
            return Symptom(INDEXING if f > 1 else OTHER_EPILOGUE, text)
    return None


def _any_factor(w: Wrong) -> Symptom | None:
    """One factor for all, of the results or of the product before the rest is added."""
    if w.value.size < _MANY:
        return None
    least = max(_LEAST_FACTOR, 2 * w.out.unit_roundoff)
    digits = 3 if w.out.mantissa_bits < _NARROW else 5
    product = w.after.alpha * w.terms.sum(axis=1)
    rest = w.golden - product if w.after.activation is None else None
    for words, base, added in (("they are", w.golden, 0.0), ("the product in them is", product, rest)):
        if added is None:
            continue
        f = float((base * (w.value - added)).sum() / (base * base).sum())
        if abs(f - 1) > least and f and _near(w, f * base + added).all():
            return Symptom(OTHER_EPILOGUE, f"{words} {f:.{digits}g} times what {_BE[words]} should be")
    return None


def _part_of_k(w: Wrong) -> Symptom | None:
    """A head, a tail, or one block of the products is missing or counted twice."""
    K = w.x.shape[1]
    if len(w.value) < _FEW:
        return _one_product(w)
    sums = np.concatenate([np.zeros((len(w.value), 1)), np.cumsum(w.terms, axis=1)], axis=1)
    whole = sums[:, -1:]
    kept = np.flatnonzero(_near(w, w.after(sums)).all(axis=0))
    if kept.size and 0 < kept[0] < K:
        return Symptom(INDEXING, f"the products from k = {kept[0]} of {K} on are missing, as when a K tail is dropped")
    first = np.flatnonzero(_near(w, w.after(whole - sums)).all(axis=0))
    if first.size and 0 < first[-1] < K:
        return Symptom(INDEXING, f"the first {first[-1]} of {K} products are missing")
    for length in _BLOCKS:
        if length >= K:
            break
        starts = np.arange(0, K - length + 1, length)
        block = sums[:, starts + length] - sums[:, starts]
        for words, total in (("missing", whole - block), ("counted twice", whole + block)):
            at = np.flatnonzero(_near(w, w.after(total)).all(axis=0))
            if at.size:
                start = int(starts[at[0]])
                return Symptom(INDEXING, f"the products k = {start} to {start + length - 1} are {words}")
    return None


def _one_product(w: Wrong) -> Symptom | None:
    """On few outputs a sum of many products may fit by chance; a single product is named if no other fits."""
    whole = w.terms.sum(axis=1, keepdims=True)
    for words, total in (("missing", whole - w.terms), ("counted twice", whole + w.terms)):
        at = np.flatnonzero(_near(w, w.after(total)).all(axis=0))
        if at.size == 1:
            return Symptom(INDEXING, f"the product k = {at[0]} is {words}")
    return None


def _misplaced(w: Wrong) -> Symptom | None:
    if w.elsewhere is None:
        return None
    rows, columns = w.places
    M, N = w.elsewhere.shape
    if M == N and _near(w, w.elsewhere[columns, rows]).all():
        return Symptom(INDEXING, "they are what belongs to the transposed place")
    for down, right in _shifts():
        at = (rows + down) % M, (columns + right) % N
        if _near(w, w.elsewhere[at]).all():
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
            made.append((_rms(w.value - w.made_of(exact)), f"as if both operands were {words} to {name}"))
        narrow = w.after(np.einsum("nk,nk->n", *(np.asarray(fmt.round(v), np.float64) for v in (w.x, w.y))))
        made.append(
            (
                _rms(w.value - np.asarray(fmt.round(narrow), np.float64)),
                f"as if operands and results were rounded to {name}",
            )
        )
    after, text = min(made)
    if not after <= _EXPLAINED * before:
        return None
    # tf32 and fp16 round alike where neither overflows or underflows.
    twin = text.replace("fp16", "tf32")
    if twin != text and any(found == twin and its <= after for its, found in made):
        text = text.replace("fp16", "tf32 or fp16")
    return Symptom(PRECISION, text)


def _result_cut(w: Wrong) -> Symptom | None:
    if w.value.size < _FEW or w.out.mantissa_bits >= _NARROW:
        return None
    cut = np.asarray(w.out.round(w.golden, rounding="toward_zero"), np.float64)
    if not _rms(w.value - cut) <= _EXPLAINED * _rms(w.value - w.golden):
        return None
    return Symptom(PRECISION, "the results were truncated to their type, not rounded to the nearest")


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
    """Sums kept in fp16 or bf16: their values, or else errors of the size that such sums make."""
    if w.value.size < _MANY:
        return None
    size = _rms(w.value - w.golden)
    if (parts := _parts_rounded(w, size)) is not None:
        return parts
    sizes = []
    for name in ("fp16", "bf16"):
        for step in _STEPS:
            made = w.made_of(_kept_in(_FORMATS[name], w.terms, step))
            if _rms(w.value - made) <= _EXPLAINED * size:
                every = "every product" if step == 1 else f"every {step} products"
                return Symptom(PRECISION, f"they are what sums kept in {name} make, rounded after {every}")
            if step == 1 and (like := _rms(made - w.golden)):
                sizes.append((max(size / like, like / size), name))
    ratio, name = min(sizes, default=(np.inf, ""))
    if not ratio <= _LIKE:
        return None
    return Symptom(PRECISION, f"the errors are of the size that sums kept in {name} make")


def _parts_rounded(w: Wrong, size: float) -> Symptom | None:
    """Sums of parts of K, as of split K, that are added up in the type of the results, or handed over in it."""
    K = w.x.shape[1]
    if w.out.mantissa_bits >= _NARROW or not w.after.plain:
        return None
    for block in _SPLIT_BLOCKS:
        for parts in _SPLITS:
            if parts > (K if block is None else -(-K // block)):
                break
            owner = np.arange(K) * parts // K if block is None else np.arange(K) // block % parts
            sums = w.terms @ np.eye(parts)[owner]
            narrow = np.asarray(w.out.round(sums), np.float64)
            for made, words in (
                (_kept_in(w.out, narrow, 1), "added up in the type of the results"),
                (_kept_in(w.out, sums, 1), "added to a sum of the type of the results"),
                (narrow.sum(axis=1), "each rounded to the type of the results"),
            ):
                if _rms(w.value - w.made_of(made)) <= _EXPLAINED * size:
                    return Symptom(PRECISION, f"they are what {parts} parts of K make, as of split K, {words}")
    return None


def _kept_in(fmt: FloatFormat, terms: Array, step: int) -> Array:
    """(n,) sums of (n, K) terms that are rounded to a format after every `step` of them."""
    total = np.zeros(len(terms))
    for k in range(0, terms.shape[1], step):
        total = np.asarray(fmt.round(total + terms[:, k : k + step].sum(axis=1)), np.float64)
    return total


def _rms(x: Array) -> float:
    return float(np.sqrt(np.mean(x * x)))


_GUESSES: tuple[Callable[[Wrong], Symptom | None], ...] = (
    _special,
    _epilogue,
    _zero,
    _other_epilogue,
    _factor,
    _part_of_k,
    _misplaced,
    _any_factor,
    _result_cut,
    _operands_rounded,
    _result_rounded,
    _narrow_sum,
    _rounded_often,
)
