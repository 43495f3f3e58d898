"""Part 4 of an audit: what follows from the evidence.

The policy. A kernel is sound when its error is at most twice that of the reference product (or of the serial chain of
fused multiply-adds where that is larger, for a library may add in a better order) plus one rounding of the output's
type, when no error exceeds the a-priori bound of its summation order, and when NaN and infinities are where they
belong. Two sound kernels of the same algebra PASS; WITH LIMITATIONS, when part of the question was left out. Anything
unsound, or a different algebra, is a FAIL. The audit is INCONCLUSIVE when the algebra could not be run, or not even for
tails and strides, or when the reference itself is off by more than a tenth of the results' size, or when more than a
tenth of the results are too large for the output's type.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tritongemm.accuracy import ErrorReport
from tritongemm.auditing.algebra import ESSENTIAL, NO_FPSAN, NOT_APPLICABLE, AlgebraEvidence
from tritongemm.auditing.contestants import Contestant
from tritongemm.auditing.rounding import ALL, AT_RISK, CHAIN, LIBRARY, RoundingEvidence
from tritongemm.auditing.sweep import Swept
from tritongemm.matrices import DTYPES
from tritongemm.tables import counted, figure

PASS, LIMITED, FAIL, INCONCLUSIVE = "PASS", "PASS WITH LIMITATIONS", "FAIL", "INCONCLUSIVE"
EXIT_CODES = {PASS: 0, LIMITED: 0, FAIL: 1, INCONCLUSIVE: 3}

_ALLOWED_RATIO = 2.0
_MEANINGLESS_REFERENCE = 0.1
_MOST_NOT_FINITE = 0.1
# Below this ratio of rms errors two kernels are called equally accurate.
_NOTICEABLE = 1.25


@dataclass
class Verdict:
    """The outcome of an audit.

    Attributes:
        status: PASS, PASS WITH LIMITATIONS, FAIL or INCONCLUSIVE.
        sentences: What it rests on, in plain words.
        failures: Why it is a FAIL.
        doubts: Why it is INCONCLUSIVE.
        limitations: What it does not cover.
        notes: What was chosen or assumed.
    """

    status: str
    sentences: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    limitations: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """What the command exits with."""
        return EXIT_CODES[self.status]

    def summary(self) -> list[str]:
        """What it rests on and what it leaves out, in sentences."""
        left_out = [f"Not covered: {text}" for text in self.limitations]
        return [*self.failures, *self.doubts, *self.sentences, *left_out]


def judge(
    contestants: tuple[Contestant, Contestant],
    algebra: AlgebraEvidence,
    rounding: RoundingEvidence | None,
    problem: str,
    untested: str | None,
) -> Verdict:
    """Applies the policy.

    Args:
        contestants: Both kernels.
        algebra: Part 1.
        rounding: Part 2, or None if a kernel could not be run.
        problem: Why not, then.
        untested: A remark on an untested version of Triton.

    Returns:
        The verdict.
    """
    v = Verdict(PASS)
    overwritten = {**(rounding.overwritten if rounding else {}), **algebra.overwritten}
    for c in contestants:
        if c.letter in overwritten:
            v.failures.append(f"{c.letter} ({c.name}) writes to its operand {overwritten[c.letter]}.")
    _judge_algebra(v, contestants, algebra)
    if rounding is None:
        v.doubts.append(f"The kernels' floats could not be computed: {problem}")
    else:
        # What payloads prove of a conversion is not guessed at from the size of errors.
        proved = {k for k in algebra.imprecise if "is converted to" in algebra.absent[k]}
        looks = {k: text for k, text in rounding.precision.items() if k not in proved}
        rounding = replace(rounding, precision=looks)
        wrong = {c.letter for c in contestants if any(t.away(c.letter) for t in algebra.trials)}
        _judge_rounding(v, contestants, rounding, wrong)
        if algebra.status != "different":
            _compare(v, contestants, rounding)
            if rounding.swept and not v.failures:
                names = ", ".join(s.name for s in rounding.swept)
                v.sentences.append(f"Other distributions of the operands bring out nothing: {names}.")
            _growth(v, contestants, rounding)
            _tolerances(v, rounding)
    evaluated = algebra.trials and (rounding is None or rounding.sample)
    if algebra.largest_grid is not None and algebra.status != "different" and evaluated:
        rows, columns = algebra.largest_grid
        v.limitations.append(
            "The grid of the whole product was not evaluated, only grids of samples, the largest in both directions of "
            f"{rows:,} rows and {columns:,} columns: a mistake of single programs further on is not seen. A GPU "
            "(--device gpu), smaller --m, --n and --k or more time (--max-time) evaluate all."
        )
    for c in contestants:
        if c.limitations:
            v.limitations.append(f"{c.letter} ({c.name}): {'; '.join(c.limitations)}.")
        guessed = [r for r in c.remarks if r.startswith("chosen by the audit")]
        v.notes += [f"{c.letter} ({c.name}): constants {r}." for r in guessed]
    if untested:
        v.limitations.append(f"{untested}.")
    if v.failures:
        v.status = FAIL
    elif v.doubts:
        v.status = INCONCLUSIVE
    elif v.limitations:
        v.status = LIMITED
    return v


def _judge_algebra(v: Verdict, contestants: tuple[Contestant, Contestant], e: AlgebraEvidence) -> None:
    for c in contestants:
        if e.unsanitised.get(c.letter) and c.letter not in e.exact:
            v.limitations.append(
                f"{c.letter} ({c.name}): the payloads do not cover {', '.join(e.unsanitised[c.letter])}."
            )
    if e.status == "unknown":
        v.doubts.append(f"Algebra: unknown, for payloads could not be computed. {e.reason}")
        return
    if e.status == "different":
        v.failures.append("Different algebra: this is no rounding.")
        v.failures += [*e.outside.values(), *e.diagnosis]
        return
    if len(e.trials) < e.planned:
        few = f"Only {len(e.trials)} of {e.planned} comparisons of small products fitted into the time (--max-time)"
        if len(e.trials) < ESSENTIAL:
            v.doubts.append(f"{few}: tails and strides were not tried.")
        else:
            v.limitations.append(f"{few}.")
    for c in contestants:
        if c.letter in e.exact:
            _judge_numbers(v, c, e)
        elif c.letter in e.absent:
            tried = (
                f" Its numbers agree with float64 in {e.checked[c.letter]} products." if c.letter in e.checked else ""
            )
            v.limitations.append(f"{c.letter} ({c.name}): algebra: {_absence(e.absent[c.letter])}.{tried}")
    if e.status == NOT_APPLICABLE:
        return
    both = all(t.away("A") == 0 and t.away("B") == 0 for t in e.trials)
    if e.absent:
        c = next(c for c in contestants if c.letter not in e.absent)
        if both:
            v.sentences.append(
                f"Algebra: {c.letter} ({c.name}) has the payloads of the matrix product in "
                f"{counted(len(e.trials), 'product')}."
            )
        else:
            v.failures.append(f"{c.letter} ({c.name}) does not compute the matrix product.")
            v.failures += e.diagnosis
        return
    what = " They are those of the matrix product." if both else ""
    v.sentences.append(
        f"Same algebra: {e.outputs:,} outputs of {len(e.trials)} products have identical payloads, so the kernels add "
        "the same products "
        f"and differ in rounding only.{what}"
    )
    if e.conversions:
        v.sentences.append(e.conversions)
    if not both:
        v.failures.append(
            "Both kernels compute the same, but not the matrix product: their payloads differ from its payloads alike."
        )
        v.failures += e.diagnosis


def _judge_numbers(v: Verdict, c: Contestant, e: AlgebraEvidence) -> None:
    """Says of a kernel whose payloads differ from the product's that its numbers do not, or are imprecise only."""
    name, exact = f"{c.letter} ({c.name})", e.exact[c.letter]
    right = f"Computed without any rounding it is the matrix product in all {exact} products where they differ"
    if c.letter in e.imprecise:
        v.failures.append(f"Another precision: this is rounding, no other algebra. {name}: {e.absent[c.letter]}.")
        v.failures.append(f"{right}; its floats are not. {e.imprecise[c.letter]}")
        return
    proof = f"{right}, and so are its floats." if exact else ""
    if not exact:
        proof = f"Its floats are within the bounds of the matrix product in all {e.checked[c.letter]} products tried."
    v.limitations.append(
        f"{name}: its payloads are not those of the product, which says nothing here: {e.absent[c.letter]}. {proof}"
    )


def _absence(reason: str) -> str:
    """Why there are no payloads, as the report says it."""
    if reason.startswith(NO_FPSAN):
        return f"not available for this kernel: {reason}"
    if "Gluon" in reason:
        return f"GPU only, for {reason}"
    return f"not applicable, for {reason}"


def _judge_rounding(
    v: Verdict, contestants: tuple[Contestant, Contestant], e: RoundingEvidence, wrong: set[str]
) -> None:
    reference = e.main[e.gate]
    name = e.names[e.gate]
    if reference.golden_rms > 0 and reference.rms_abs > _MEANINGLESS_REFERENCE * reference.golden_rms:
        v.doubts.append(
            f"The reference ({name}) is itself off by {100 * reference.rms_abs / reference.golden_rms:.0f} % of the "
            "results' size (rms), so "
            f"comparing with it says nothing: the median condition number is {figure(reference.kappa['0.5'])}."
            + _two_orders(e)
        )
    beyond = reference.not_finite + reference.may_overflow
    if beyond > _MOST_NOT_FINITE * reference.outputs:
        v.doubts.append(
            f"Of {reference.outputs:,} results {beyond:,} are infinite or NaN or too large for the output's type, so "
            "comparing them says little: choose other --inputs or a wider --out-dtype."
        )
    for c in contestants:
        if c.letter in wrong:  # Its errors are no rounding; they are in the tables.
            report = e.main[c.letter]
            _, rms, _ = _reference_errors(e.main, e.gate)
            if report.rms_abs > _ALLOWED_RATIO * rms:
                off, size = figure(report.rms_abs), figure(report.golden_rms)
                v.failures.append(f"{c.letter} ({c.name}) is accordingly off by {off} rms where results are {size}.")
            elif not report.wrong_special:
                v.failures.append(
                    f"{c.letter} ({c.name}) is right in the {report.outputs:,} outputs whose errors were measured "
                    f"({figure(report.rms_abs)} rms, the reference {figure(rms)}); the products above are where it "
                    "is not."
                )
            if report.wrong_special:
                places = f"{report.wrong_special:,} of {report.outputs:,}"
                v.failures.append(f"{c.letter} ({c.name}) leaves NaN or infinity in {places} outputs that are finite.")
            continue
        before = len(v.failures)
        for stratum, reports in e.strata.items():
            _judge_kernel(v, c, reports, e, stratum)
        imprecise = len(v.failures) > before
        if imprecise and c.letter in e.precision:
            v.failures.insert(before, _precision(c, e.precision[c.letter], e))
        elsewhere: list[str] = []
        for swept in e.swept:
            if imprecise and swept.name == "subnormal":
                continue  # What it loses there need not be subnormal numbers.
            wrong_there = _judge_swept(v, c, swept, e)
            elsewhere += [swept.name] if wrong_there and imprecise else []
            v.failures += wrong_there if not imprecise else []
        if elsewhere:
            v.failures.append(f"{c.letter} ({c.name}) is off with other operands too: {', '.join(elsewhere)}.")
        found = e.identified[c.letter]
        if found.order is None:
            share = f"{found.agreed} of {found.outputs}"
            mode = e.judged_by.get(c.letter, "precision ieee")
            bound = "any order of additions" if mode == "precision ieee" else mode
            v.limitations.append(
                f"{c.letter} ({c.name}): none of {found.tried} summation orders gives its bits (the closest {share}), "
                f"so the bound it is held to is that of {bound}."
            )
        elif found.refuted:
            v.limitations.append(
                f"{c.letter} ({c.name}): its order of summation is not known: {found.order.describe()}, simulated, "
                f"gives its bits in all {found.outputs:,} outputs of a sample, but not in {found.refuted} of "
                f"{found.contrasted} where A and B differ. The bound it is held to is that order's."
            )
    if e.specials is not None:
        _judge_specials(v, contestants, e.specials)
    elif not e.brief:
        v.limitations.append("NaN and infinity among the operands were not tried, for want of time (--max-time).")
    if e.unswept:
        v.limitations.append(
            f"Operands of other distributions ({', '.join(e.unswept)}) were not tried, for want of time (--max-time)."
        )
    if e.evaluated < e.planned:
        v.limitations.append(
            f"Only {e.evaluated:,} of {e.planned:,} sampled outputs fitted into the time (--max-time)."
        )


def _judge_specials(
    v: Verdict, contestants: tuple[Contestant, Contestant], specials: Mapping[str, tuple[str, ...]]
) -> None:
    """Says what kernels do with NaN and infinity among the operands otherwise than a product does."""
    for c in contestants:
        for text in specials.get(c.letter, ()):
            # No failure: some kernels do so on purpose, and modes that split their operands make NaN of infinity.
            v.limitations.append(f"{c.letter} ({c.name}): with NaN and infinity among the operands {text}.")


def _two_orders(e: RoundingEvidence) -> str:
    """How far two legitimate orders of summation are from float64, where both were computed."""
    if CHAIN not in e.main or LIBRARY not in e.main:
        return ""
    chain, library = e.main[CHAIN], e.main[LIBRARY]
    return (
        f" Two legitimate orders, {e.names[CHAIN]} and {e.names[LIBRARY]}, err by {figure(chain.rms_abs)} and "
        f"{figure(library.rms_abs)} rms where results are {figure(chain.golden_rms)}."
    )


def _precision(c: Contestant, looks: str, e: RoundingEvidence) -> str:
    """What the floats of a kernel look like that are off, and what to do about it."""
    found = getattr(e.identified[c.letter].order, "mode", None)
    bits = f"; it has the bits of precision {found} on an H200" if found else ""
    said = f"{c.letter} ({c.name}): this looks like another precision: {looks}{bits}."
    if "tf32" not in looks:
        return said
    mode = found or "tf32"  # An evaluation rounds where an H200 cuts; the latter's bound holds for both.
    return (
        f"{said} tl.dot multiplies fp32 operands in tf32 unless it is told input_precision='ieee'. If that is what it "
        f"is meant to do, say so with --precision-{c.letter.lower()} {mode}."
    )


def _judge_swept(v: Verdict, c: Contestant, swept: Swept, e: RoundingEvidence) -> list[str]:
    """Judges a kernel under another distribution of the operands.

    Returns:
        What is wrong.
    """
    r = swept.reports[c.letter]
    if swept.name == "subnormal":
        if r.bound_exceeded:
            v.limitations.append(
                f"{c.letter} ({c.name}) loses numbers below the smallest normal one, as units do that flush subnormals "
                f"to zero: its results are off by {figure(r.rms_abs)} rms where they are {figure(r.golden_rms)}."
            )
        return []
    failures = []
    where = f"with operands {swept.name} ({swept.text})"
    if r.wrong_special:
        failures.append(f"{c.letter} ({c.name}) has NaN or infinity in the wrong places {where}.")
    if r.bound_exceeded:
        failures.append(
            f"{c.letter} ({c.name}) exceeds the a-priori bound ({r.order}) {where} in {r.bound_exceeded:,} of "
            f"{r.outputs:,} outputs, up to {figure(r.bound_used)} times."
        )
    mode = e.judged_by.get(c.letter, "").removeprefix("precision ")
    allowed = max(swept.reports[key].rms_abs for key in (CHAIN, mode) if key in swept.reports)
    kind = DTYPES[r.dtype]
    floor = kind.unit_roundoff * r.golden_rms + kind.min_subnormal
    if r.rms_abs > _ALLOWED_RATIO * allowed + floor:
        failures.append(
            f"{c.letter} ({c.name}): {where} its rms error {figure(r.rms_abs)} is more than twice that of the "
            f"reference ({figure(allowed)}), plus one rounding of the output ({figure(floor)})."
        )
    return failures


def _judge_kernel(
    v: Verdict, c: Contestant, reports: Mapping[str, ErrorReport], e: RoundingEvidence, stratum: str
) -> None:
    report = reports[c.letter]
    where = {ALL: "all outputs", AT_RISK: "the outputs most at risk"}.get(stratum, "a random sample of the outputs")
    if report.wrong_special:
        v.failures.append(
            f"{c.letter} ({c.name}) has NaN or infinity in {report.wrong_special:,} places of {where} where the "
            "product has not, or the "
            "other way round."
        )
    if report.bound_exceeded:
        v.failures.append(
            f"{c.letter} ({c.name}) exceeds the a-priori bound ({report.order}) in {report.bound_exceeded:,} of "
            f"{report.outputs:,} outputs, "
            f"up to {figure(report.bound_used)} times: no fp32 summation of these products gives that."
        )
    mode = getattr(e.identified[c.letter].order, "mode", None)
    u = DTYPES[report.dtype].unit_roundoff
    key, rms, largest = _reference_errors(reports, e.gate, e.judged_by.get(c.letter))
    for words, mine, its, floor in (
        ("rms", report.rms_abs, rms, u * report.golden_rms),
        ("largest", report.max_abs, largest, u * report.golden_max),
    ):
        if mine > _ALLOWED_RATIO * its + floor:
            v.failures.append(
                f"{c.letter} ({c.name}): on {where} its {words} error {figure(mine)} is more than twice that of the "
                f"reference, {e.names[key]} ({figure(its)}), plus one rounding of the output ({figure(floor)}); the "
                f"worst output's kappa is {figure(report.worst_kappa)}."
            )
            if mode is not None and mode != "ieee" and c.letter not in e.precision:
                hint = (
                    f"{c.letter} ({c.name}) has the bits of precision {mode} on an H200: if that is what it is meant "
                    f"to be, say so with --precision-{c.letter.lower()} {mode}."
                )
                v.failures += [hint] if hint not in v.failures else []


def _reference_errors(
    reports: Mapping[str, ErrorReport], gate: str, mode: str | None = None
) -> tuple[str, float, float]:
    """Which of the library, the serial chain and a declared precision mode errs most, and its rms and largest error.

    The latter two may have been simulated for fewer outputs; their largest error is then reckoned from their rms.
    """
    library = reports[gate]
    best = (gate, library.rms_abs, library.max_abs)
    for key in (CHAIN, mode):
        other = reports.get(key) if key else None
        if other is None or not other.rms_abs > best[1] or library.rms_abs == 0:
            continue
        likely = other.rms_abs * library.max_abs / library.rms_abs if other.outputs < library.outputs else 0.0
        best = (str(key), other.rms_abs, max(best[2], other.max_abs, likely))
    return best


def _compare(v: Verdict, contestants: tuple[Contestant, Contestant], e: RoundingEvidence) -> None:
    first, second = contestants
    a, b = e.main["A"], e.main["B"]
    if e.equal == e.evaluated:
        v.sentences.append(f"Rounding: all {e.evaluated:,} floats are equal bit for bit.")
        order = e.identified["A"].order or e.identified["B"].order
        if order is not None:
            v.sentences.append(f"Both add as {order.describe()}{_hidden(a.dtype)}.")
        return
    narrow = a.dtype != "fp32"
    unequal = f"Their floats differ in {e.evaluated - e.equal:,} of {e.outputs_text}"
    by = {"A": a.rms_out if narrow else a.rms_scaled, "B": b.rms_out if narrow else b.rms_scaled}
    if any(map(math.isnan, by.values())):
        v.sentences.append(f"Rounding: {unequal[0].lower()}{unequal[1:]}, and not both have finite ones to compare.")
        return
    better, worse = (first, second) if by["A"] <= by["B"] else (second, first)
    low, high = by[better.letter], by[worse.letter]
    figures = f"rms {figure(low)} against {figure(high)} " + (f"roundings of {a.dtype}" if narrow else "u·sum|p|")
    if high <= _NOTICEABLE * low:
        accuracy = f"are about equally accurate ({figures})"
        v.sentences.append(f"Rounding: A ({first.name}) and B ({second.name}) {accuracy}.")
    else:
        ratio = f"{high / low:.0f}x" if high / low >= 9.5 else f"{high / low:.1f}x"
        v.sentences.append(
            f"Rounding: {better.letter} ({better.name}) is {ratio} more accurate than {worse.letter} ({worse.name}): "
            f"{figures}."
        )
    v.sentences.append(f"{unequal}, by {figure(e.largest_difference)} at most.")
    for c in contestants:
        found = e.identified[c.letter]
        if found.order is not None and not found.refuted:
            differing = f", {found.contrasted} where A and B differ among them" if found.contrasted else ""
            v.sentences.append(
                f"{c.letter} adds as {found.order.describe()}: that order, simulated, gives its bits in all "
                f"{found.outputs + found.contrasted:,} outputs tried{differing}{_hidden(a.dtype)}."
            )


def _hidden(dtype: str) -> str:
    """What results of a narrow type do not tell of the order they were summed in."""
    return "" if dtype == "fp32" else f"; other orders may as well, for the rounding to {dtype} hides most of it"


def _growth(v: Verdict, contestants: tuple[Contestant, Contestant], e: RoundingEvidence) -> None:
    found = {g.letter: g for g in e.growth}
    said = [f"{c.letter}'s {found[c.letter].reading()}" for c in contestants if c.letter in found]
    if said:
        lengths = next(iter(found.values())).lengths
        v.sentences.append(
            f"Growth of the error with K, {lengths[0]:,} to {lengths[-1]:,}, of sums of positive products: "
            f"{'; '.join(said)}."
        )


def _tolerances(v: Verdict, e: RoundingEvidence) -> None:
    stratum = AT_RISK if AT_RISK in e.strata else next(iter(e.strata))
    reports = e.strata[stratum]
    what = {
        AT_RISK: "of the {:,} outputs most at risk (small results, large partial sums)",
        ALL: "of all {:,} outputs",
    }.get(stratum, "of {:,} outputs")
    what = what.format(reports["A"].outputs)
    counts = ", ".join(f"{k} misses it {reports[k].outside:,} times" for k in ("A", "B"))
    reference = e.names[e.gate]
    v.sentences.append(
        f"Tolerance {reports['A'].tolerance} against float64, {what}: {counts}, the reference ({reference}) "
        f"{reports[e.gate].outside:,} times."
    )
    for k in ("A", "B"):
        r = reports[k]
        if r.outside_library and r.blamed:
            v.sentences.append(
                f"Judged by the reference instead, {k} would miss it {r.outside_library:,} times; in {r.blamed:,} of "
                "these float64 agrees with "
                f"{k}: there it is the reference that is off."
            )
