"""What is wrong with a kernel whose payloads are not those of the product.

Payloads are exact, so a guess about a wrong output can be proved: the sum without its last 9 products has one payload
and no other. Each wrong output is compared with what common mistakes would give, and small products tell which
dimension the mistake depends on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import fpsan_tools
from fpsan_tools import algebra
from tritongemm.assertions import closeness
from tritongemm.auditing.algebra import AlgebraEvidence, Trial, golden_payloads, trial_operands
from tritongemm.auditing.contestants import Contestant
from tritongemm.auditing.devices import (
    FLOATS,
    PAYLOADS,
    UNTOUCHED,
    Array,
    Device,
    NoPayloads,
    codes_of,
)
from tritongemm.auditing.regions import region
from tritongemm.auditing.symptoms import EPILOGUE, OTHER_EPILOGUE
from tritongemm.errors import KernelFailed

_NARROWER = {"fp16": "a 16-bit type", "fp8e4m3fn": "an 8-bit type"}
_UNEXPLAINED = "No common mistake gives these values."
# The largest square product that is made for a diagnosis.
_SQUARE = 256
# Wrong outputs that are explained one by one; the rest is covered by their pattern.
_EXPLAINED = 64


def diagnose(
    evidence: AlgebraEvidence,
    contestants: tuple[Contestant, Contestant],
    device: Device,
    dtypes: tuple[str, str],
    seed: int,
) -> list[str]:
    """Says in sentences what differs, which kernel is wrong, where, how, and when.

    Args:
        evidence: Trials with differences.
        contestants: Both kernels.
        device: Where they run.
        dtypes: Type of the operands and of the result.
        seed: Seed of further operands.

    Returns:
        Sentences.
    """
    trial = next((t for t in evidence.trials if t.different), None)
    if trial is None:
        return []
    total = trial.first.size
    said = [
        f"At M = {trial.M}, N = {trial.N}, K = {trial.K} ({trial.why}) {trial.different} of {total} outputs differ: "
        f"{region(trial.first != trial.second, contestants)}."
    ]
    for c, codes in zip(contestants, (trial.first, trial.second), strict=True):
        wrong_in = [t for t in evidence.trials if t.away(c.letter)]
        if not wrong_in:
            said.append(f"{c.letter} ({c.name}) is the matrix product in all {len(evidence.trials)} trials.")
            continue
        shown = trial if trial in wrong_in else wrong_in[0]
        codes = shown.first if c.letter == "A" else shown.second
        wrong = codes != shown.golden
        where = "" if shown is trial else f" at M = {shown.M}, N = {shown.N}, K = {shown.K}"
        reasons = explanations(shown, codes, c, dtypes)
        looks, surely = _epilogue(c, shown, device, dtypes)
        tried, explained = experiments(c, shown, device, dtypes, seed)
        if reasons == _UNEXPLAINED and (looks or explained):
            reasons, surely = "", True
        what = f"{c.letter} ({c.name}) is not the matrix product{where}: {region(wrong, contestants)}. {reasons}"
        said += [what.strip(), *([looks] if looks and surely else []), tried]
    return said


@dataclass(frozen=True)
class _Output:
    """A wrong output and everything a hypothesis may look at, in payloads.

    Attributes:
        value: What the kernel left.
        terms: The K products.
        golden: Their sum.
        place: Row and column.
        elsewhere: Where each payload belongs in the true product.
        untouched: Payload of a result nobody wrote.
        steps: Numbers that the kernel's loop may go by.
        factors: Payloads of numbers that a product may have been multiplied with, by their names.
    """

    value: int
    terms: Array
    golden: int
    place: tuple[int, int]
    elsewhere: dict[int, tuple[int, int]]
    untouched: int
    steps: tuple[int, ...]
    factors: dict[str, int]

    @property
    def mask(self) -> int:
        """2^w - 1 of the payloads."""
        return int(np.iinfo(self.terms.dtype).max)


def _not_written(o: _Output) -> str | None:
    return "never written" if o.value == o.untouched else None


def _zero(o: _Output) -> str | None:
    return "zero" if o.value == 0 else None


def _negated(o: _Output) -> str | None:
    return "the product with the opposite sign" if o.value == -o.golden & o.mask else None


def _multiple(o: _Output) -> str | None:
    return next(
        (f"{name} times the product" for name, f in o.factors.items() if o.value == f * o.golden & o.mask), None
    )


def _accumulated(o: _Output) -> str | None:
    """The product, or what another mistake makes of it, was added to C."""
    words = "added to what C held before (if its launcher sets C to zero first, say so with --zeroed-a or -b)"
    added = (o.value - o.untouched) & o.mask
    if added == o.golden:
        return f"the product {words}"
    if added == 0:
        return None  # Nothing was written.
    alone = replace(o, value=added)
    mistake = next((text for h in _HYPOTHESES if h is not _accumulated and (text := h(alone))), None)
    return None if mistake is None else f"{mistake}, and that is {words}"


def _prefix(o: _Output) -> str | None:
    sums = np.cumsum(o.terms, dtype=o.terms.dtype)
    at = np.flatnonzero(sums == o.value)
    K = len(o.terms)
    if at.size == 0 or at[0] + 1 == K:
        return None
    kept = int(at[0]) + 1
    tail = next((s for s in o.steps if kept == K // s * s), None)
    words = f"only the products k < {kept} of {K} are summed"
    return f"{words}: a K tail is dropped (K = {K} is no multiple of {tail})" if tail else words


def _suffix(o: _Output) -> str | None:
    sums = np.cumsum(o.terms[::-1], dtype=o.terms.dtype)[::-1]
    at = np.flatnonzero(sums == o.value)
    if at.size == 0 or at[0] == 0:
        return None
    return f"the first {at[0]} products are left out"


def _range_missing(o: _Output) -> str | None:
    """One run of products is left out or counted twice."""
    zero = np.zeros(1, o.terms.dtype)
    sums = np.concatenate([zero, np.cumsum(o.terms, dtype=o.terms.dtype)])
    for words, wanted in (("left out", o.golden - o.value), ("counted twice", o.value - o.golden)):
        target = (sums.astype(np.uint64) + np.uint64(wanted & o.mask)) & np.uint64(o.mask)
        ends = {int(s): i for i, s in reversed(list(enumerate(sums)))}
        for start, end_sum in enumerate(target):
            end = ends.get(int(end_sum))
            if end is not None and end > start:
                return f"the products k = {start} to {end - 1} are {words}"
    return None


def _misplaced(o: _Output) -> str | None:
    at = o.elsewhere.get(o.value)
    if at is None:
        return None
    if at == o.place[::-1]:
        return "the product is transposed"
    row, column = (
        f"{x}{d:+d}" if d else x for x, d in zip("ij", (at[0] - o.place[0], at[1] - o.place[1]), strict=True)
    )
    return f"C[i,j] holds what belongs to C[{row},{column}]"


_HYPOTHESES: tuple[Callable[[_Output], str | None], ...] = (
    _not_written,
    _zero,
    _negated,
    _multiple,
    _prefix,
    _suffix,
    _misplaced,
    _range_missing,
    _accumulated,
)


def explanations(trial: Trial, codes: Array, c: Contestant, dtypes: tuple[str, str]) -> str:
    """How the wrong outputs of a trial came about, in words.

    Args:
        trial: The trial.
        codes: The kernel's results in it.
        c: The kernel.
        dtypes: Type of the operands and of the result.
    """
    version = algebra.get()
    rounded = rounded_operands(trial, codes, dtypes, version)
    if rounded:
        return f"Every output fits: {rounded}."
    x, y = (version.embed(codes_of(m, dtypes[0]), dtypes[0]) for m in (trial.a, trial.b))
    if dtypes[1] != "fp32":
        return "The result is narrower than the sum, so its payloads do not show how."
    x, y = (version.cast(m, "fp32") for m in (x, y))
    got, golden = version.embed(codes, "fp32"), version.embed(trial.golden, "fp32")
    untouched = int(version.embed(np.array([UNTOUCHED["fp32"]], np.uint32), "fp32")[0])
    # Adding a number to itself and multiplying it with 2.0 are different things in payloads.
    factors = {f"{n}": n for n in (2, 3, 4, 8)}
    factors |= {
        f"{x:g}": int(version.embed(np.array([x], np.float32), "fp32")[0]) for x in (2.0, 0.5, 3.0, 4.0, 0.25, 8.0)
    }
    elsewhere = {int(v): (int(i), int(j)) for (i, j), v in np.ndenumerate(golden)}
    wrong = np.argwhere(codes != trial.golden)
    # A tail that is dropped is so everywhere in some rows or columns; in single tiles its length is an accident.
    steps = tuple(c.steps()) if _whole_lines(codes, trial) else ()
    spread = wrong[:: max(1, len(wrong) // _EXPLAINED)][:_EXPLAINED]
    found: Counter[str] = Counter()
    for i, j in spread:
        terms = np.asarray(x[i] * y[:, j])
        output = _Output(
            int(got[i, j]), terms, int(golden[i, j]), (int(i), int(j)), elsewhere, untouched, steps, factors
        )
        found[next((text for h in _HYPOTHESES if (text := h(output))), "")] += 1
    unexplained = found.pop("", 0)
    if not found:
        return _UNEXPLAINED
    said = "; ".join(
        f"{text}" + (f" ({n} of {len(spread)})" if n < len(spread) else "") for text, n in found.most_common(3)
    )
    rest = f"; {unexplained} of {len(spread)} unexplained" if unexplained else ""
    return f"There {said}{rest}."


def _whole_lines(codes: Array, trial: Trial) -> bool:
    """Whether whole rows or whole columns are wrong."""
    wrong = codes != trial.golden
    return bool(wrong.all(axis=0).any() or wrong.all(axis=1).any())


def rounded_operands(trial: Trial, codes: Array, dtypes: tuple[str, str], version: Any) -> str:
    """Whether all results are those of a product whose operands or results passed through a narrower type.

    Payloads know a type by its width only, so fp16 and bf16 cannot be told apart.

    Args:
        trial: The trial.
        codes: The kernel's results in it.
        dtypes: Type of the operands and of the result.
        version: The algebra.

    Returns:
        A clause, or nothing.
    """
    x, y = (version.embed(codes_of(m, dtypes[0]), dtypes[0]) for m in (trial.a, trial.b))

    def through(payload: Array, dtype: str) -> Array:
        return np.asarray(version.cast(version.cast(payload, dtype), "fp32"))

    def result(p: Array, q: Array, by: str | None = None) -> Array:
        total = version.matmul(p, q, dtype="fp32")
        if by:
            total = through(total, by)
        return np.asarray(version.unembed(version.cast(total, dtypes[1]), dtypes[1]))

    for dtype, name in _NARROWER.items():
        made = {
            f"both operands are converted to {name} first": result(through(x, dtype), through(y, dtype)),
            f"A is converted to {name} first": result(through(x, dtype), y),
            f"B is converted to {name} first": result(x, through(y, dtype)),
            f"the result is converted to {name} before it is stored": result(x, y, dtype),
        }
        for words, codes_made in made.items():
            if (codes_made == codes).all():
                return words
    return ""


def _epilogue(c: Contestant, trial: Trial, device: Device, dtypes: tuple[str, str]) -> tuple[str, bool]:
    """What was done to the product, where its floats tell, and whether only that is what they tell."""
    try:
        codes = device.run(c, trial.a, trial.b, dtypes, domain=FLOATS, layout=trial.layout).codes
    except (fpsan_tools.FpsanError, KernelFailed, NoPayloads):
        return "", False
    found = closeness(fpsan_tools.typed(codes, dtypes[1]), trial.a, trial.b).looks_like
    if found is None or found.kind not in (EPILOGUE, OTHER_EPILOGUE):
        return "", False
    return f"This looks like {found.kind}: {found.text}.", found.kind == EPILOGUE


def experiments(c: Contestant, trial: Trial, device: Device, dtypes: tuple[str, str], seed: int) -> tuple[str, bool]:
    """Runs a wrong kernel again: with packed rows, on whole tiles, on a square, to see what the mistake depends on.

    Args:
        c: The kernel.
        trial: A trial in which it is wrong.
        device: Where it runs.
        dtypes: Type of the operands and of the result.
        seed: Seed of the operands.

    Returns:
        A sentence, and whether it explains all that is wrong.
    """
    tiles = {"M": max(c.tile("rows"), 4), "N": max(c.tile("columns"), 4), "K": max([4, *c.steps()])}
    sizes = {"M": trial.M, "N": trial.N, "K": trial.K}
    whole = {d: max(1, sizes[d] // tiles[d]) * tiles[d] for d in sizes}
    version = algebra.get()

    def right(tried: dict[str, int], layout: str = trial.layout) -> bool:
        a, b = trial_operands(tried["M"], tried["N"], tried["K"], dtypes[0], seed + 1)
        try:
            codes = device.run(c, a, b, dtypes, domain=PAYLOADS, layout=layout).codes
        except (fpsan_tools.FpsanError, KernelFailed):
            return False
        return bool((codes == golden_payloads(a, b, dtypes, version)).all())

    if trial.layout != "rows" and right(sizes, "rows"):
        letters = "AB" if c.function is not None else "ABC"  # A function makes its own C.
        wrong_alone = [x for x in letters if not right(sizes, f"{trial.layout} of {x}")]
        of = f" of {' and '.join(wrong_alone)}" if wrong_alone else ""
        return (
            f"It is right where rows are packed (strides of K, 1 and N, 1): a stride{of} is ignored or swapped.",
            True,
        )
    if not right(whole):
        # Of one tile: a square of the largest whole size may be too large to evaluate.
        said = _transposed(c, min(_SQUARE, max(tiles.values())), device, dtypes, seed)
        sizes_text = f"M = {whole['M']}, N = {whole['N']}, K = {whole['K']}"
        return said or f"It is wrong for whole tiles too ({sizes_text}).", bool(said)
    several = {d: 2 * tiles[d] for d in sizes}
    if not right(several):
        return (
            f"It is right for one whole tile, and wrong for several (M = {several['M']}, N = {several['N']}, "
            f"K = {several['K']}): programs are missing from the grid, or take the wrong tiles."
        ), False
    cures = [d for d in sizes if sizes[d] != whole[d] and right({**sizes, d: whole[d]})]
    if not cures:
        return "It is right for whole tiles; more than one dimension's tail is handled wrongly.", False
    multiples = " or ".join(f"{d} is a multiple of {tiles[d]}" for d in cures)
    return f"It is right as soon as {multiples}, whatever the other dimensions.", False


def _transposed(c: Contestant, n: int, device: Device, dtypes: tuple[str, str], seed: int) -> str:
    """Whether a kernel takes an operand for its transpose, as a square product shows."""
    version = algebra.get()
    a, b = trial_operands(n, n, n, dtypes[0], seed + 1)
    try:
        codes = device.run(c, a, b, dtypes, domain=PAYLOADS).codes
    except (fpsan_tools.FpsanError, KernelFailed, NoPayloads):
        return ""
    for text, x, y in (("A·Bᵀ", a, b.T), ("Aᵀ·B", a.T, b), ("Aᵀ·Bᵀ", a.T, b.T)):
        x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
        if (codes == golden_payloads(x, y, dtypes, version)).all():
            whose = " and ".join(letter for letter in "AB" if f"{letter}ᵀ" in text)
            return f"Of square matrices it gives {text}: the strides of {whose} are swapped."
    return ""
