"""Kernels whose payloads are not those of the product: do their numbers say that it is a mistake?

Payloads keep sums and products, and little else: a comparison, a maximum or a bit trick sees them instead of numbers,
and a conversion to a narrower type mixes them. A kernel in which such a thing does no harm has other payloads and the
right numbers. So every product whose payloads differ is computed once more without any rounding, in float64: numbers
that are the product's to the last bit but few make the difference one of payloads, or of rounding, and none of algebra.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

import fpsan_tools
import numfmt
from tritongemm.assertions import Closeness, closeness
from tritongemm.auditing.algebra import NOT_APPLICABLE, AlgebraEvidence, Trial
from tritongemm.auditing.clock import OutOfTime
from tritongemm.auditing.contestants import Contestant
from tritongemm.auditing.devices import EXACT, FLOATS, Array, Cpu, Device, Launched, NoPayloads, values_of
from tritongemm.auditing.diagnosis import rounded_operands
from tritongemm.errors import KernelFailed
from tritongemm.matrices import DTYPES
from tritongemm.reference import reference
from tritongemm.tables import figure

# What a float64 evaluation may differ by, in units of u·sum|p|: sums that are stored between programs are rounded.
# A product that is missing is more than that of any sum of fewer than a million products of like size.
_ROUNDINGS = 8.0

# Of one, and of several.
_SEES = ("which sees payloads instead of numbers", "which see payloads instead of numbers")
_MAKES = ("which makes a number where a payload would be", "which make numbers where payloads would be")
_FEW = ("of whose identities payloads keep few",) * 2
# Operations whose payloads are not what they do to numbers: what they are called here, and why.
_OWN: dict[str, tuple[str, tuple[str, str]]] = {
    "arith.cmpf": ("a comparison of floats", _SEES),
    "arith.maximumf": ("a maximum", _SEES),
    "arith.maxnumf": ("a maximum", _SEES),
    "arith.minimumf": ("a minimum", _SEES),
    "arith.minnumf": ("a minimum", _SEES),
    "tt.clampf": ("a clamp", _SEES),
    "math.absf": ("an absolute value", _SEES),
    "math.copysign": ("a copied sign", _SEES),
    "arith.fptosi": ("a conversion to integers", _SEES),
    "arith.fptoui": ("a conversion to integers", _SEES),
    "arith.sitofp": ("a conversion from integers", _MAKES),
    "arith.uitofp": ("a conversion from integers", _MAKES),
    "arith.bitcast": ("a reinterpretation of bits", _SEES),
    "tt.bitcast": ("a reinterpretation of bits", _SEES),
    "tt.elementwise_inline_asm": ("inline assembly", _SEES),
    "tt.extern_elementwise": ("a library function", _FEW),
    "arith.divf": ("a division", _FEW),
    "arith.remf": ("a remainder", _FEW),
    "tt.precise_divf": ("a division", _FEW),
    "tt.approx_divf": ("a division", _FEW),
    "tt.precise_sqrt": ("a square root", _FEW),
    **{f"math.{name}": (f"math.{name}", _FEW) for name in (
        "ceil", "cos", "erf", "exp", "exp2", "floor", "log", "log2", "rsqrt", "sin", "sqrt", "tanh")},
}  # fmt: skip
# Whether these touch floats only their types tell: they count where the comparison of payloads names them.
_OF_ANY_TYPE = ("arith.bitcast", "tt.bitcast", "tt.elementwise_inline_asm")
_NARROWING = ("arith.truncf", "tt.fp_to_fp")


@dataclass(frozen=True)
class _Findings:
    """What the numbers of a kernel say.

    Attributes:
        reason: Why its payloads are its own.
        imprecise: Where and how its floats are further off than they may be, if they are.
        exact: Products in which it is right without any rounding.
        floats: Products in which its floats are within their limits.
    """

    reason: str
    imprecise: str
    exact: int
    floats: int


def settle_by_numbers(
    evidence: AlgebraEvidence, contestants: tuple[Contestant, Contestant], device: Device, dtypes: tuple[str, str]
) -> None:
    """Takes kernels whose numbers are right out of a comparison of payloads that speaks against them.

    Args:
        evidence: The comparisons; changed in place.
        contestants: Both kernels.
        device: Where they run. Evaluations without rounding are made on the CPU.
        dtypes: Type of the operands and of the result.
    """
    if evidence.status == "unknown" or evidence.diagnosis:
        return
    for c in contestants:
        away = [t for t in evidence.trials if t.away(c.letter)]
        if not away or c.letter in evidence.outside:
            continue
        try:
            found = _findings(c, device, away, dtypes, evidence.unsanitised.get(c.letter, ()))
        except OutOfTime:
            evidence.status = "unknown"
            evidence.reason = (
                f"{c.letter} ({c.name}): its payloads are not those of the product, and there was no time to see "
                "whether its numbers are."
            )
            evidence.absent[c.letter] = "there was no time to see its numbers"
            evidence.trials = [_as_the_product(t, c.letter) for t in evidence.trials]
            return
        if found is None:
            continue
        evidence.absent[c.letter] = found.reason
        evidence.exact[c.letter] = found.exact
        evidence.checked[c.letter] = found.floats
        if found.imprecise:
            evidence.imprecise[c.letter] = found.imprecise
        evidence.trials = [_as_the_product(t, c.letter) for t in evidence.trials]
    if not evidence.different and not evidence.outside:
        everybody = len(evidence.absent) == len(contestants)
        evidence.status = NOT_APPLICABLE if everybody else "same"


def _as_the_product(trial: Trial, letter: str) -> Trial:
    return replace(trial, first=trial.golden) if letter == "A" else replace(trial, second=trial.golden)


def _findings(
    c: Contestant, device: Device, trials: list[Trial], dtypes: tuple[str, str], uncovered: tuple[str, ...]
) -> _Findings | None:
    """Evaluates all products whose payloads differ; None if a number speaks for a mistake, or nothing against one."""
    without_rounding = device if isinstance(device, Cpu) else Cpu()
    operations: dict[str, str] = {}
    exact_in = floats_in = 0
    imprecise = looks = ""
    for t in trials:
        # Into an fp32 matrix, if it can: the rounding of a narrow result would hide what is missing.
        out, exact = "fp32", _run(c, without_rounding, t, (dtypes[0], "fp32"), EXACT)
        if exact is None and dtypes[1] != "fp32":
            out, exact = dtypes[1], _run(c, without_rounding, t, dtypes, EXACT)
        floats = _run(c, device, t, dtypes, FLOATS)
        if exact is None and floats is None:
            return None
        if exact is not None:
            if not _is_product(exact.codes, t, out):
                return None
            exact_in += 1
            operations |= exact.operations
        if floats is None:
            continue
        operations |= floats.operations
        found = closeness(fpsan_tools.typed(floats.codes, dtypes[1]), t.a, t.b, name=f"{c.letter} ({c.name})")
        if found.passed:
            floats_in += 1
            continue
        if exact is None:
            return None
        if not imprecise:
            looks = found.looks_like.text if found.looks_like is not None else ""
            imprecise = _imprecise(t, found)
    own = _own(operations, uncovered)
    if not own and exact_in < len(trials):
        return None  # Right floats alone do not outweigh payloads.
    # The conversion to a narrow result is part of the product; another one shows where floats are off, or is proved.
    narrowing = _narrowing(c, trials[0], dtypes, operations, looks, sure=bool(imprecise) or dtypes[1] == "fp32")
    return _Findings(_reason(own, narrowing), imprecise, exact_in, floats_in)


def _run(c: Contestant, device: Device, t: Trial, dtypes: tuple[str, str], domain: str) -> Launched | None:
    try:
        return device.run(c, t.a, t.b, dtypes, domain=domain, layout=t.layout)
    except OutOfTime:
        raise
    except (NoPayloads, KernelFailed, fpsan_tools.FpsanError):
        return None


def _is_product(codes: Array, t: Trial, out: str) -> bool:
    """Whether results of an evaluation without rounding are the product, but for what stored sums are rounded by."""
    golden, magnitude = reference(t.a, t.b)
    kind = DTYPES[out]
    with np.errstate(all="ignore"):
        error = np.abs(values_of(codes, out).astype(np.float64) - golden)
        stored = kind.unit_roundoff * np.abs(golden) + kind.min_subnormal
        return bool((error <= stored + _ROUNDINGS * numfmt.FP32.unit_roundoff * magnitude).all())


def _imprecise(t: Trial, found: Closeness) -> str:
    """How far off floats are, in a sentence."""
    share = found.worst["error"] / found.worst["allowed"] if found.worst["allowed"] else math.inf
    far = f"up to {figure(share)} times further off" if math.isfinite(share) else "no numbers, or further off"
    return (
        f"At M = {t.M}, N = {t.N}, K = {t.K} ({t.why}) {found.wrong:,} of {found.outputs:,} floats are {far} than "
        "sums in fp32 and a result rounded once may be."
    )


def payloads_of_its_own(operations: Mapping[str, str], uncovered: Iterable[str]) -> str:
    """Which operations of a kernel give it payloads of its own, and why.

    Args:
        operations: Names of the operations that it evaluates, with a place of each.
        uncovered: Those that payloads do not cover, as in "arith.cmpf (file.py:12)".

    Returns:
        A clause.
    """
    narrowing = next((operations[name] for name in _NARROWING if name in operations), None)
    said = f"a conversion to a narrower type{f' ({narrowing})' if narrowing else ''}" if narrowing is not None else ""
    return _reason(_own(operations, uncovered), said)


def _own(operations: Mapping[str, str], uncovered: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Operations whose payloads are not what they do to numbers, in words with a place, and why."""
    found: dict[str, tuple[str, str]] = {}
    uncovered = list(uncovered)
    for text in uncovered:  # As in "arith.cmpf (file.py:12)".
        name, _, place = text.partition(" (")
        words, why = _OWN.get(name.split()[0], (name, _SEES))
        found.setdefault(f"{words} ({place}" if place else words, why)
    named = " ".join(uncovered)
    for name, place in operations.items():
        if name in _OWN and name not in _OF_ANY_TYPE and name not in named:
            words, why = _OWN[name]
            found.setdefault(f"{words} ({place})" if place else words, why)
    return found


def _narrowing(
    c: Contestant, t: Trial, dtypes: tuple[str, str], operations: Mapping[str, str], looks: str, *, sure: bool
) -> str:
    """What a kernel converts to a narrower type, if it does."""
    place = next((operations[name] for name in _NARROWING if name in operations), None)
    if place is None:
        return ""
    codes = t.first if c.letter == "A" else t.second
    how = rounded_operands(t, codes, dtypes, fpsan_tools.algebra.get()) or looks
    if not (sure or how):
        return ""
    return f"a conversion to a narrower type{f' ({place})' if place else ''}{': ' + how if how else ''}"


def _reason(own: Mapping[str, tuple[str, str]], narrowing: str) -> str:
    """Why payloads are its own, a clause."""
    causes: list[str] = []
    for why in (_SEES, _MAKES, _FEW):
        names = [name for name, its in own.items() if its == why]
        if names:
            causes.append(f"{_listed(names)}, {why[len(names) > 1]}")
    causes += [narrowing] if narrowing else []
    return (
        f"it has {'; and '.join(causes)}" if causes else "it relies on an identity of real numbers that payloads lack"
    )


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
