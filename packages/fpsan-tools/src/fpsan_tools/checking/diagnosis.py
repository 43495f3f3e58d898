"""Why two outputs differ: experiments, the place where evaluations part, and the known non-identities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fpsan_tools.algebra import Algebra, float_type
from fpsan_tools.checking import tracing
from fpsan_tools.checking.comparing import Comparison
from fpsan_tools.checking.experiments import Budget, input_experiments, shrink, size_rules
from fpsan_tools.checking.identities import explained, is_widened
from fpsan_tools.checking.inputs import is_float
from fpsan_tools.checking.narrowing import NARROWINGS
from fpsan_tools.checking.relations import named, relations
from fpsan_tools.checking.verdict import EXTRA_ROUNDING, Divergence, Finding

if TYPE_CHECKING:
    from fpsan_tools.checking.checker import Pair, Trial

_EXPONENTIALS = frozenset({"math.exp", "math.exp2"})
_DIVISIONS = frozenset({"arith.divf", "tt.precise_divf"})


def explain(pair: Pair, trial: Trial, budget: float) -> tuple[list[Finding], Divergence | None, list[str]]:
    """Explain a difference.

    Args:
        pair: the sides and their inputs.
        trial: one that differs.
        budget: about how many seconds experiments may take.

    Returns:
        Findings, most telling first; where the evaluations part (on the CPU); remarks.
    """
    clock = Budget(budget)
    notes: list[str] = []
    findings: list[Finding] = []
    small = shrink(pair, trial, clock) if trial.sizes else dict(trial.sizes)
    divergence = None
    traces = None
    if pair.engine.name == "cpu":
        try:
            traces = tracing.record(pair, _seeds(pair, trial), small)
        except tracing.TooLarge:
            notes.append("too many intermediates to compare; smaller sizes as parameters of make_inputs would help")
    if traces is not None and trial.a.launches and trial.b.launches:  # torch expressions are not recorded
        divergence, candidates = tracing.compare_traces(*traces)
        for side, candidate in candidates.items():
            other = traces[1] if side == "a" else traces[0]
            found = explained(candidate, side, tracing.Known.of(other), pair.algebra)
            if found is not None:
                findings.append(found)
                break
        findings += _extra_roundings(candidates, traces)
        findings += _constants(pair, traces, small) if not findings else []
    rules, kinds = size_rules(pair, trial, small, clock) if trial.sizes else ([], {})
    findings += _known_masking(trial, traces, kinds) + rules
    for comparison in trial.comparisons:
        unwritten = _unwritten(trial, comparison)
        findings += unwritten or relations(comparison, pair.algebra, pair.inputs(trial.seed), trial.sizes)
    # At tiny lengths a side may not use an input at all, so the asked sizes are better, if a trial is quick.
    findings += input_experiments(pair, trial, trial.sizes if trial.seconds < budget / 10 else small, clock)
    findings += _possible(pair, trial, traces) if not findings else []
    if small != trial.sizes:
        told = ", ".join(f"{name}={size}" for name, size in small.items())
        notes.append(f"the smallest sizes found at which the sides differ: {told}")
    if clock.exhausted:
        notes.append(f"experiments stopped after {budget:g} seconds (budget=...)")
    return findings, divergence, notes


def _unwritten(trial: Trial, comparison: Comparison) -> list[Finding]:
    """Whether a side left the differing elements as they were."""
    if comparison.problem or comparison.equal:
        return []
    for side, outcome in (("a", trial.a), ("b", trial.b)):
        before = outcome.before.get(comparison.name)
        after = getattr(comparison, side)
        if before is None or before.shape != after.shape:
            continue
        if np.array_equal(after[comparison.different], before[comparison.different]):
            text = f"Side {side} does not write the differing elements of {comparison.name!r}."
            return [Finding("not written", text, False, "they have the bits that they had before the launch")]
    return []


def _extra_roundings(
    candidates: Mapping[str, tracing.Candidate], traces: tuple[tracing.Trace, tracing.Trace]
) -> list[Finding]:
    """A narrowing cast where the sides part, of a kind that the other side does not have."""
    for side, candidate in candidates.items():
        visit = candidate.visit
        other = traces[1] if side == "a" else traces[0]
        if visit.operation.name not in NARROWINGS or any(
            v.operation.name in NARROWINGS and v.element.bits == visit.element.bits for v in other.visits
        ):
            continue
        place = visit.operation.location.user
        text = (
            f"Side {side} narrows an intermediate to {visit.element.bits} bits ({visit.element.name}), which the other "
            "side does not do. Payloads see every narrowing; whether this one is intended is for you to say."
        )
        return [Finding(EXTRA_ROUNDING, text, None, f"{visit.operation.name} at {place}")]
    return []


def _seeds(pair: Pair, trial: Trial) -> range:
    """Seeds that make fingerprints of 64 bits: two for fp32, four for 16 bits, eight for 8 bits."""
    if pair.source.is_fixed:
        return range(trial.seed, trial.seed + 1)
    widths = [float_type(c.dtype).bits for c in trial.comparisons if is_float(c.dtype) and " " not in c.dtype]
    narrowest = min(widths, default=32)
    return range(trial.seed, trial.seed + max(2, 64 // narrowest))


def _constants(pair: Pair, traces: tuple[tracing.Trace, tracing.Trace], sizes: Mapping[str, int]) -> list[Finding]:
    """Float constants that only one of the kernels names, if each names few that the other does not."""
    own = [trace.constants for trace in traces]
    only = [sorted((t, p) for t, p in one - two if p) for one, two in (own, own[::-1])]
    if not any(only) or max(map(len, only)) > 2:
        return []
    told = []
    for side, constants in zip("ab", only, strict=True):
        for dtype, payload in constants:
            array = np.array([payload], float_type(dtype).unsigned)
            told.append(f"{named(array, dtype, pair.algebra, sizes)} in side {side} only")
    return [Finding("constants", f"The kernels name different constants: {', '.join(told)}.", None)]


def _operations(trial: Trial) -> list[set[str]]:
    return [{name for launch in side.launches for name in launch.operations} for side in (trial.a, trial.b)]


def _known_masking(
    trial: Trial, traces: tuple[tracing.Trace, tracing.Trace] | None, kinds: Mapping[str, str]
) -> list[Finding]:
    """Softmax of an even number of keys, and masking by -inf, where the lengths' rule shows that it is that."""
    used = _operations(trial)
    softmax = any(ops & _EXPONENTIALS for ops in used) and any(ops & _DIVISIONS for ops in used)
    if not softmax:
        return []
    findings = []
    for name, kind in kinds.items():
        if kind == "parity":
            text = (
                f"A softmax over an even number of elements ({name}): every payload of exp is odd, so an even number "
                "of them has an even sum, whose inverse does not multiply. Softmax with and without the maximum "
                "subtracted then differ without a bug. Test with odd lengths."
            )
            findings.append(Finding("even softmax length", text, True, f"equal for odd {name}, different for even"))
        if kind == "tail" and traces is not None and _names_infinity(traces):
            text = (
                f"Masking by -inf: exp(-inf) is an ordinary payload, not 0, so masked-off elements of {name} count. "
                "Mask by multiplication too (tl.where(mask, exp(x), 0)), or use tl.expect_zero."
            )
            evidence = f"a kernel names -inf, uses exp, and the sides agree where {name} leaves no masked-off lanes"
            findings.append(Finding("masking by -inf", text, True, evidence))
    return findings


def _names_infinity(traces: tuple[tracing.Trace, tracing.Trace]) -> bool:
    return any(trace.minus_infinity for trace in traces)


def _possible(pair: Pair, trial: Trial, traces: tuple[tracing.Trace, tracing.Trace] | None) -> list[Finding]:
    """Non-identities that these kernels may meet, where no experiment could decide."""
    used = _operations(trial)
    told = []
    if any(ops & _EXPONENTIALS and ops & _DIVISIONS for ops in used) and not trial.sizes:
        told.append("softmax over an even number of elements (try odd lengths)")
    divided = traces is not None and any(_divides_sixteen_bits(trace, pair.algebra) for trace in traces)
    if divided and any(is_float(c.dtype) and "16" in c.dtype for c in trial.comparisons):
        told.append("a division of 16-bit floats, which Triton widens to fp32 and narrows again")
    if not told:
        return []
    return [Finding("possible non-identity", f"No experiment explains the difference. Possible: {'; '.join(told)}.")]


def _divides_sixteen_bits(trace: tracing.Trace, algebra: Algebra) -> bool:
    """Whether a kernel divides floats that were widened from 16 bits; divisions of fp32 values are identities."""
    return any(
        visit.operation.name in _DIVISIONS
        and visit.element.bits == 32
        and all(is_widened(x, algebra) for seed in visit.operands for x in seed)
        for visit in trace.visits
    )
