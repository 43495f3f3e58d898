"""The verdict on any kernel: what its trials, its payloads and its growth of errors amount to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tritongemm.auditing.cases import Case
from tritongemm.auditing.distributions import GIVEN
from tritongemm.auditing.kernel_algebra import DIFFERENT, GPU_ONLY, NOT_APPLICABLE, SAME, KernelAlgebra
from tritongemm.auditing.measured import ALLOWED_RATIO, Measured
from tritongemm.auditing.numbers import payloads_of_its_own
from tritongemm.auditing.regions import roughly
from tritongemm.auditing.trials import OWN_INPUTS
from tritongemm.auditing.verdict import FAIL, INCONCLUSIVE, LIMITED, PASS, Verdict
from tritongemm.elements import ELEMENTS
from tritongemm.tables import counted, figure, short

# A slope of errors along a size above which they have a direction.
_BIASED_SLOPE = 0.75
_FACTORS = (-1.0, 2.0, 0.5, 4.0, 0.25, 3.0, 1 / 3, 8.0, 0.125)
_NOTICEABLE = 1.25
# Places that are listed of what is said of several.
_PLACES = 4
# A ratio of results that is as close to 1 is no factor but an error.
_A_FACTOR = 1e-3


def judge_kernel(
    case: Case, algebra: KernelAlgebra, sides: Sequence[Any], growth: Sequence[Any], planned: int, done: int
) -> Verdict:
    """Applies the policy to an audit of a kernel.

    Args:
        case: The case.
        algebra: What payloads showed.
        sides: The kernel and its rival, measured.
        growth: How errors grow.
        planned: Trials planned.
        done: Trials made.
    """
    v = Verdict(PASS)
    for side in sides:
        _judge_side(v, case, side)
    formula_differs = any(m.formula is not None and m.formula > 1 for s in sides for m in s.measured)
    formula_known = any(m.formula is not None for m in sides[0].measured)
    _judge_algebra(v, algebra, sides, formula_differs, formula_known)
    if not v.failures:
        _judge_growth(v, growth)
    if len(sides) > 1 and not v.failures:
        _compare(v, sides)
    if done < planned:
        v.limitations.append(f"Only {done} of {planned} trials fitted into the time (--max-time).")
    v.status = FAIL if v.failures else INCONCLUSIVE if v.doubts else LIMITED if v.limitations else PASS
    return v


def _named(side: Any) -> str:
    return f"{side.letter} ({side.name})"


def _judge_side(v: Verdict, case: Case, side: Any) -> None:
    name = _named(side)
    if side.failed:
        v.doubts.append(f"{name} could not be run: {side.failed}.")
        if not side.measured:
            return
    if side.out_of_bounds:
        v.failures.append(f"{name} reaches outside its arrays at {side.out_of_bounds}")
    for output in dict.fromkeys(m.output for m in side.measured if m.problem):
        first, *others = [m for m in side.measured if m.problem and m.output == output]
        likewise = f", and likewise in {counted(len(others), 'other trial')}" if others else ""
        v.failures.append(f"{name}: of {output!r} {first.problem}, at {_place(case, first.spec)}{likewise}.")
    for reason, places in _grouped([(r, f"{_place(case, s)} ({_told(s)})") for s, r in side.refused]).items():
        v.limitations.append(f"{name} was not measured at {places}: {reason}.")
    measured = [m for m in side.measured if not m.problem]
    if not measured:
        if not side.measured and not side.out_of_bounds:
            v.doubts.append(f"{name} was measured in no trial, so nothing is known of it.")
        return
    first = [m for m in measured if m.spec.why == GIVEN]
    if first and all(m.meaningless for m in first):
        m = max(first, key=lambda m: m.library.rms / m.rms if m.library else 0.0)
        assert m.library is not None
        v.doubts.append(
            f"The reference is itself off by {100 * m.library.rms / m.rms:.0f} % of the results' size in {m.output!r}, "
            f"so comparing with it says nothing: kappa of the worst output is {figure(m.worst.get('kappa', math.nan))}."
        )
    unclear: dict[str, list[str]] = {}
    for m in measured:
        if m.meaningless and m.spec.why != GIVEN:
            unclear.setdefault(_how(m), []).append(repr(m.output))
    if unclear:
        where = "; ".join(f"{how}: {', '.join(dict.fromkeys(names))}" for how, names in unclear.items())
        v.limitations.append(
            f"In some trials of {name} results are no larger than the reference's own rounding may be, so that little "
            f"can be said ({where})."
        )
    _judge_outputs(v, case, side, measured)
    if side.reruns:
        v.limitations.append(f"{name} is not deterministic: {side.reruns:,} outputs changed between runs.")


def _judge_outputs(v: Verdict, case: Case, side: Any, measured: list[Measured]) -> None:
    for output in dict.fromkeys(m.output for m in measured):
        mine = [m for m in measured if m.output == output and not m.meaningless]
        wrong = [m for m in mine if not m.accepted]
        formula = [m for m in mine if m.formula is not None and m.formula > 1]
        if wrong:
            v.failures += _explained(case, side, output, mine, wrong)
        elif formula:
            m = max(formula, key=lambda m: m.formula or 0.0)
            v.failures.append(
                f"{_named(side)}: {output!r} is computed by another formula, though its rounding hides that: without "
                f"any rounding it is off by {figure(m.formula_error)} of the results at {_place(case, m.spec)} "
                f"({_how(m)})."
            )
    good = [m for m in measured if m.accepted and not m.meaningless]
    if len(good) == len([m for m in measured if not m.meaningless]) and good:
        worst = max(good, key=lambda m: m.share)
        trials = len({(m.spec.why, tuple(m.spec.sizes.items()), m.spec.change, m.spec.seed) for m in good})
        where = f"in {'all ' * (trials > 1)}{counted(trials, 'trial')}"
        v.sentences.append(
            f"Rounding: {_named(side)} is within what is allowed (twice the error of {worst.reference_text} plus one "
            f"rounding of {worst.dtype}) {where}; it uses at most {100 * worst.share:.0f} % of it ({worst.output!r}, "
            f"{_how(worst)})."
        )


def _explained(case: Case, side: Any, output: str, mine: list[Measured], wrong: list[Measured]) -> list[str]:
    """Why an output is wrong, in sentences."""
    special = [m for m in wrong if m.own.special]
    shown = next((m for m in wrong if m.spec.why == GIVEN), max(wrong, key=lambda m: m.share))
    name = _named(side)
    if special:
        shown = max(special, key=lambda m: m.own.special)
        said = [
            f"{name}: {output!r} has NaN or infinity in {shown.own.special:,} of {math.prod(shown.shape):,} places "
            f"where the reference has not, or the other way round, at {_place(case, shown.spec)} ({_how(shown)})."
        ]
        if all(m.spec.change in ("extreme", "large", "wide") for m in special):
            said.append(
                "That happens with large inputs only: an intermediate overflows, as the exponentials of a softmax do "
                "whose maximum is not subtracted first."
            )
    else:
        rms, largest = shown.allowed
        which = "rms" if rms and shown.own.rms / rms >= (shown.own.largest / largest if largest else 0) else "largest"
        error, allowed = (shown.own.rms, rms) if which == "rms" else (shown.own.largest, largest)
        library = ""
        if shown.library is not None:
            its = shown.library.rms if which == "rms" else shown.library.largest
            nearby = shown.next_to_it[which == "largest"]
            more = f", at inputs next to these and with serial sums by up to {figure(nearby)}" if nearby > its else ""
            library = f"; {shown.reference_text} errs by {figure(its)}{more}"
        times = figure(error / allowed) if allowed else "infinitely many"
        said = [
            f"{name}: the {which} error of {output!r} is {figure(error)} where results are "
            f"{figure(shown.rms)} rms, {times} times what is allowed ({figure(allowed)}{library}), at "
            f"{_place(case, shown.spec)} ({_how(shown)})."
        ]
    said += [text for text in (_where(case, mine, wrong), _formula(wrong), _pattern(shown)) if text]
    if side.reads and any((m.formula or 0) > 1 for m in wrong):
        said.append(side.reads)
    if any("TF32" in note for note in side.notes) and not any((m.formula or 0) > 1 for m in wrong):
        said.append("It multiplies fp32 operands in tf32, as tl.dot does unless it is told input_precision='ieee'.")
    if side.lines and not any(m.formula is not None and m.formula > 1 for m in wrong):
        place, text, share, _ = max(side.lines, key=lambda line: line[2])
        said.append(f"Of its rounding errors {100 * share:.0f} % come from {place}: {text}")
    return said


def _formula(wrong: list[Measured]) -> str:
    known = [m for m in wrong if m.formula is not None]
    if not known:
        return ""
    other = [m for m in known if (m.formula or 0) > 1]
    if other:
        m = max(other, key=lambda m: m.formula_error)
        return (
            f"That is no rounding: computed without any rounding it is still off by {figure(m.formula_error)} of the "
            f"results ({_how(m)})."
        )
    if any(m.own.special for m in known):
        return "The formula is right: computed without rounding and without overflow it agrees with the reference."
    return "The formula is right: computed without rounding it agrees with the reference. It is rounding."


def _where(case: Case, mine: list[Measured], wrong: list[Measured]) -> str:
    """Which trials go wrong and which do not."""
    if len(wrong) == len(mine):
        return f"It is wrong in all {len(mine)} trials." if len(mine) > 1 else ""
    drawn = [m for m in mine if m.spec.change == GIVEN]
    bad = [m for m in drawn if not m.accepted]
    if not bad:
        changes = sorted({m.spec.change for m in wrong})
        return f"It is right as drawn, and wrong with inputs {', '.join(changes)}."
    for name, tile in case.tiles.items():
        whole: list[Measured] = []
        cut: list[Measured] = []
        for m in drawn:
            n = _sizes(case, m.spec)[name]
            (whole if n % tile == 0 else cut).append(m)
        if whole and cut and all(m.accepted for m in whole) and not any(m.accepted for m in cut):
            whole_sizes = sorted({_sizes(case, m.spec)[name] for m in whole})
            tried = ", ".join(f"{n:,}" for n in whole_sizes)
            else_too = ", or more than one tile," if max(whole_sizes) <= tile else ""
            return (
                f"Of the sizes tried, it is right where {name} is a multiple of {tile} ({tried}) and wrong everywhere "
                f"else: a tail{else_too} is handled wrongly."
            )
    for name in case.sizes:
        good_sizes, bad_sizes = (
            {_sizes(case, m.spec)[name] for m in ms} for ms in ([m for m in drawn if m.accepted], bad)
        )
        if (said := _sizes_that_fit(name, good_sizes, bad_sizes, case.tiles.get(name))) is not None:
            return said
    broken = list(dict.fromkeys(_place(case, m.spec) for m in bad))
    good = list(dict.fromkeys(_place(case, m.spec) for m in drawn if m.accepted))
    fine = [place for place in good if place not in broken]
    right = f", and right at {'; '.join(fine[:3])}" if fine else ""
    seeds = " At some of these sizes the inputs of another seed give right results." if len(fine) < len(good) else ""
    return f"It is wrong at {'; '.join(broken[:4])}{right}.{seeds}"


def _sizes_that_fit(name: str, good: set[int], bad: set[int], tile: int | None) -> str | None:
    """What tells a size's right values from its wrong ones, if something common does."""
    if not good or not bad:
        return None
    listed = ", ".join(f"{n:,}" for n in sorted(good))
    if max(good) > 1 and len(bad) > 1 and all(n & (n - 1) == 0 for n in good) and all(n & (n - 1) for n in bad):
        return (
            f"Of the sizes tried, it is right where {name} is a power of two ({listed}) and wrong everywhere else: "
            "what fills it up to one is counted, as where a mask is missing."
        )
    if tile is not None and 1 < max(good) <= tile < min(bad):
        return (
            f"Of the sizes tried, it is right where {name} is at most {tile} ({listed}), one tile, and wrong beyond: "
            "tiles after the first are handled wrongly."
        )
    return None


def _pattern(m: Measured) -> str:
    """Where the wrong values of a trial lie, and whether they are a multiple of the right ones."""
    got, golden = m.values
    said = ""
    if got.size and got.shape == golden.shape:
        use = np.isfinite(got) & np.isfinite(golden) & (np.abs(golden) > 0.01 * m.rms)
        u = 32 * ELEMENTS[m.dtype].format.unit_roundoff
        if use.sum() >= 3:
            ratio = float(np.median(got[use] / golden[use]))
            same = np.abs(got[use] - ratio * golden[use]) <= (u + 1e-5) * np.abs(ratio * golden[use])
            if same.all() and abs(ratio - 1) > max(4 * u, _A_FACTOR):
                known = next((f for f in _FACTORS if abs(ratio / f - 1) <= u + 1e-5), None)
                factor = f"{known:.4g}" if known is not None else f"{ratio:.5g}"
                said = f"All its results are {factor} times the right ones: a scale is wrong or applied twice. "
    if m.wrong.any() and not m.wrong.all():
        said += f"Wrong are {_region(m.wrong, m.output)}."
    return said.strip()


def _region(wrong: Any, output: str) -> str:
    """Where wrong values lie; of outputs of more than two dimensions, in the first of its matrices that has some."""
    if wrong.ndim <= 2:
        return roughly(np.atleast_2d(wrong))
    some = np.argwhere(wrong.any(axis=(-2, -1)))
    first = tuple(int(i) for i in some[0])
    at = ", ".join(str(i) for i in first)
    matrices = math.prod(wrong.shape[:-2])
    return f"{roughly(wrong[first])} at {output}[{at}], and some in {len(some):,} of {matrices:,} such matrices"


def _sizes(case: Case, spec: Any) -> dict[str, int]:
    return {**case.sizes, **spec.sizes}


def _place(case: Case, spec: Any) -> str:
    if spec.why == OWN_INPUTS:
        return "the sizes of the file"
    sizes = _sizes(case, spec)
    return ", ".join(f"{k} = {n}" for k, n in sizes.items()) or "its size"


def _grouped(found: Sequence[tuple[Any, str]]) -> dict[Any, str]:
    """The places of everything that is said of several, in words."""
    places: dict[Any, list[str]] = {}
    for what, place in found:
        places.setdefault(what, []).append(place)
    different = {what: list(dict.fromkeys(p)) for what, p in places.items()}
    return {
        what: "; ".join(p[:_PLACES]) + (f" and {counted(len(p) - _PLACES, 'other place')}" if len(p) > _PLACES else "")
        for what, p in different.items()
    }


def _told(spec: Any) -> str:
    return str(spec.why) if spec.change == GIVEN else f"inputs {spec.change}"


def _how(m: Measured) -> str:
    return _told(m.spec)


def _judge_algebra(
    v: Verdict, a: KernelAlgebra, sides: Sequence[Any], formula_differs: bool, formula_known: bool
) -> None:
    name = _named(sides[0])
    right = formula_known and not formula_differs
    exact = f" Without rounding, in float64, both agree{_resolution(sides)}." if right else ""
    if a.status == SAME:
        v.sentences.insert(0, f"Same algebra: {name} and {a.against} have identical payloads.{exact}")
    elif a.status == DIFFERENT and a.excused:
        v.limitations.append(f"Payloads differ, and a known reason explains it: {' '.join(a.findings[:1])}{exact}")
    elif a.status == DIFFERENT and right:
        own = payloads_of_its_own(sides[0].operations, a.unsanitised)
        v.limitations.append(
            f"Payloads of {name} and {a.against} differ, though both agree in float64 without rounding"
            f"{_resolution(sides)}, so that they say nothing here: {own}."
        )
    elif a.status == DIFFERENT and not formula_known and _accepted(sides[0]):
        said = (
            f"Payloads of {name} and {a.against} differ, though its floats are within what is allowed everywhere; "
            "without rounding it could not be computed."
        )
        if a.unsanitised:
            v.limitations.append(f"{said} What they do not cover explains it: {', '.join(a.unsanitised)}.")
        else:
            v.doubts.append(f"{said} {a.text}")
    elif a.status == DIFFERENT:
        v.failures.insert(0, f"Different algebra: this is no rounding. {a.text}")
        v.failures += a.findings[:3]
    elif a.status == NOT_APPLICABLE:
        v.limitations.append(f"Algebra: not applicable, for {a.reason}.{exact}")
    elif a.status == GPU_ONLY:
        v.limitations.append(f"Algebra: GPU only, for {a.reason}.")
    elif not right:
        v.limitations.append(f"Algebra: unknown. {a.reason}")
    else:
        v.limitations.append(f"Payloads: unknown ({a.reason}).{exact}")
    if a.unsanitised and not (a.status == DIFFERENT and (right or not formula_known)):
        v.limitations.append(f"The payloads do not cover {', '.join(a.unsanitised)}.")


def _resolution(sides: Sequence[Any]) -> str:
    """How far two formulas may differ unseen, where results are narrow even without rounding; after "agree"."""
    known = [m for m in sides[0].measured if m.formula is not None]
    if not known:
        return ""
    m = max(known, key=lambda m: m.resolution)
    if m.resolution < _A_FACTOR:
        return ""
    return (
        f" to {figure(100 * m.resolution, 2)} % (results are stored in {m.stored}, so that smaller differences are not "
        "seen; --dtype fp32 shows them)"
    )


def _accepted(side: Any) -> bool:
    """Whether all its floats are within what is allowed, and some are measured."""
    return bool(side.measured) and all(m.accepted or m.meaningless for m in side.measured)


def _judge_growth(v: Verdict, growth: Sequence[Any]) -> None:
    for g in growth:
        slope, its = g.slope(g.lengths, g.own), g.slope(g.lengths, g.library)
        if not math.isfinite(slope) or len(g.lengths) < 3:
            continue
        span = f"{g.size} = {g.lengths[0]:,} to {g.lengths[-1]:,}"
        text = f"Errors of {g.output!r} grow like {g.size}^{short(round(slope, 2))} ({span})"
        more = f"; at {g.size} = {g.lengths[-1]:,} it errs {figure(g.ratio, 2)} times as much as the reference"
        more = more if g.ratio > ALLOWED_RATIO else ""
        if slope > _BIASED_SLOPE and not its > slope - 0.25:
            v.limitations.append(
                f"{text}, the reference's like {g.size}^{short(round(its, 2))}: they have a direction{more}."
            )
        elif more:
            v.limitations.append(f"{text}, the reference's like {g.size}^{short(round(its, 2))}{more}.")
        else:
            beside = f", the reference's like {g.size}^{short(round(its, 2))}" if math.isfinite(its) else ""
            v.sentences.append(f"{text}{beside}: no more than noise.")


def _compare(v: Verdict, sides: Sequence[Any]) -> None:
    first, second = sides
    for output in dict.fromkeys(m.output for m in first.measured):
        pair = [next((m for m in s.measured if m.output == output and m.spec.why == GIVEN), None) for s in sides]
        if pair[0] is None or pair[1] is None:
            continue
        a, b = (m.own.rms for m in pair if m is not None)
        low, high = min(a, b), max(a, b)
        if high <= _NOTICEABLE * low or not low:
            said = "are equally accurate" if low or not high else "differ in accuracy"
            v.sentences.append(
                f"{output!r}: {_named(first)} and {_named(second)} {said} ({figure(a)}, {figure(b)} rms)."
            )
        else:
            better, worse = (first, second) if a < b else (second, first)
            v.sentences.append(
                f"{output!r}: {_named(better)} is {figure(high / low, 2)}x more accurate than {_named(worse)} "
                f"({figure(low)} against {figure(high)} rms)."
            )
