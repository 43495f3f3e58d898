"""The audit of any kernel as a document, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tritongemm.auditing.baseline import Figures
from tritongemm.auditing.cases import Case
from tritongemm.auditing.distributions import GIVEN
from tritongemm.auditing.document import Document, Plot, Section, Series
from tritongemm.auditing.kernel_algebra import DIFFERENT, KernelAlgebra
from tritongemm.auditing.kernel_judgement import _how
from tritongemm.auditing.measured import Errors, Measured, histogram_edges
from tritongemm.auditing.verdict import Verdict
from tritongemm.tables import Table, counted, figure, share


def kernel_document(
    case: Case,
    algebra: KernelAlgebra,
    sides: Sequence[Any],
    growth: Sequence[Any],
    verdict: Verdict,
    facts: Mapping[str, Any],
) -> Document:
    """Builds the report.

    Args:
        case: The case.
        algebra: Part 1.
        sides: The kernel and its rival, measured.
        growth: How errors grow.
        verdict: Part 4.
        facts: Device, versions, replay.
    """
    versions = ", ".join(f"{k} {v}" for k, v in facts["versions"].items())
    lead = [f"{facts['device']}; {versions}"]
    for side in sides:
        kernels = f", launches {', '.join(side.kernels)}" if side.kernels else ""
        lead.append(f"{side.letter}: {side.name}{kernels}")
    dtype = facts["case"]["dtype"] or "as drawn"
    lead.append(
        f"Inputs {dtype}, sizes {_sizes(case.sizes)} unless a trial says otherwise, seed {facts['case']['seed']}."
    )
    lead.append(f"This run executed the code of {case.spec}. To repeat it: {facts['replay']}")
    sections = [
        _algebra(algebra, sides),
        Section("2. Rounding", _rounding(case, sides)),
        Section("3. Explanation", _explanation(sides, growth)),
        _verdict(verdict),
    ]
    summary = verdict.summary()
    names = " and ".join(f"{s.letter}: {s.name}" for s in sides) if len(sides) > 1 else case.name
    return Document(f"Audit of {names}", verdict.status, summary, lead, sections)


def _sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{k} = {v:,}" for k, v in sizes.items()) or "fixed"


def _algebra(a: KernelAlgebra, sides: Sequence[Any]) -> Section:
    known = [m for m in sides[0].measured if m.formula is not None]
    agree = bool(known) and all((m.formula or 0) <= 1 for m in known)
    numbers = []
    if known:
        worst = max(known, key=lambda m: m.formula_error if not agree else m.formula or 0.0)
        size = (
            f"the largest difference is {100 * (worst.formula or 0):.0f} % of what roundings of stored values explain"
            if agree
            else f"the largest difference is {figure(worst.formula_error)} of the results"
        )
        many = "" if len(known) == 1 else "all " if agree else "some of "
        numbers = [
            f"Without rounding (every operation in float64) {sides[0].name} "
            f"{'agrees with' if agree else 'differs from'} the reference in {many}"
            f"{counted(len(known), 'comparison')}; {size}, {_how(worst)}."
        ]
    payloads = [text for text in (a.text, a.reason[:1].upper() + a.reason[1:], *a.findings) if text]
    own = a.status == DIFFERENT and agree
    if own:
        payloads = ["What payloads show is no mistake, for numbers decide:", *payloads]
    items: list[str | Table | Plot] = [*numbers, *payloads] if own else [*payloads, *numbers]
    items.append(f"Operations that payloads do not cover: {', '.join(a.unsanitised) or 'none'}.")
    for side in sides:
        items += [f"How {side.letter} was evaluated: {note}." for note in side.notes]
    return Section(f"1. Algebra: {'the same by numbers, not by payloads' if own else a.status}", items)


def _rounding(case: Case, sides: Sequence[Any]) -> list[str | Table | Plot]:
    items: list[str | Table | Plot] = []
    for side in sides:
        for output in dict.fromkeys(m.output for m in side.measured):
            mine = [m for m in side.measured if m.output == output]
            items.append(_trials(case, side, output, mine))
    items.append(
        "Errors are against float64 from the same inputs. Allowed is twice the error of the reference in the types of "
        "the inputs, or in fp32 where it lacks these (or what moving every input by one fp32 rounding does, where that "
        "is more), plus one rounding of the output's type. Where that refuses the right formula, errors of the "
        "reference at inputs one rounding away, and with products added as one chain, count as well. Outside: of "
        "torch.testing's tolerance for the type, or the one that was given."
    )
    items += [_histogram(sides)] if any(s.measured for s in sides) else []
    return items


def _trials(case: Case, side: Any, output: str, mine: list[Measured]) -> Table:
    columns = ("trial", "sizes", "max |e|", "rms e", "reference rms", "allowed rms", "used", "outside", "")
    rows = []
    for m in mine:
        if m.problem:
            rows.append((_how(m), _short(case, m), "-", "-", "-", "-", "-", "-", "wrong: " + m.problem))
            continue
        library = "-" if m.library is None else figure(m.library.rms)
        special = f", {m.own.special:,} NaN/inf" if m.own.special else ""
        word = "ok" if m.accepted else "unclear" if m.meaningless else "WRONG"
        rows.append(
            (
                _how(m), _short(case, m), figure(m.own.largest), figure(m.own.rms), library, figure(m.allowed[0]),
                f"{100 * m.share:.0f} %" if m.share < 100 else f"{figure(m.share)}x",
                f"{m.own.outside:,}", word + special,
            )
        )  # fmt: skip
    first = mine[0]
    size = figure(first.rms)
    ulps = share(round(first.own.ulps * first.own.finite), first.own.finite)
    roundings = first.own.largest / (first.floor * first.largest) if first.largest else 0.0
    note = (
        f"{output} is {first.dtype}, {size} rms as drawn; {ulps} of it within one neighbour of the correctly rounded "
        f"result; bias {first.own.bias:+.2f}; largest error "
        f"{figure(roundings)} roundings of the largest result."
    )
    return Table(columns, rows, f"{side.letter}: {output}", [note])


def _short(case: Case, m: Measured) -> str:
    changed = {k: v for k, v in m.spec.sizes.items() if case.sizes.get(k) != v}
    return ", ".join(f"{k} {v:,}" for k, v in changed.items()) or "usual"


def _histogram(sides: Sequence[Any]) -> Plot:
    series = []
    for number, side in enumerate(sides):
        first = next((m for m in side.measured if m.spec.why == GIVEN and not m.problem), None)
        if first is None:
            continue
        series += _steps(f"{side.letter}: {side.name}, {first.output}", first.own, "line", number)
        if number == 0 and first.library is not None:
            series += _steps(first.reference_text, first.library, "dashed", 2)
    return Plot(
        "How large the errors are, inputs as drawn",
        "|error| in roundings of the result: |e| / (u·|result|)",
        "per cent of the outputs",
        series,
        2,
        None,
        "Left is better: each step is half an octave of error. Exact results are not drawn.",
    )


def _steps(name: str, errors: Errors, style: str, colour: int) -> list[Series]:
    low, per = histogram_edges()
    filled = [i for i, n in enumerate(errors.histogram) if n]
    if not filled:
        return []
    x: list[float] = []
    y: list[float] = []
    for i in range(filled[0], filled[-1] + 1):
        x += [low + i / per, low + (i + 1) / per]
        y += [100 * errors.histogram[i] / max(1, errors.finite)] * 2
    return [Series(name, [x[0], *x, x[-1]], [0.0, *y, 0.0], style, colour)]


def _explanation(sides: Sequence[Any], growth: Sequence[Any]) -> list[str | Table | Plot]:
    items: list[str | Table | Plot] = []
    for side in sides:
        if side.lines:
            rows = [(place, text, f"{100 * part:.1f} %", f"{error:.2e}") for place, text, part, error in side.lines]
            items.append(
                Table(
                    ("line", "source", "share", "error"), rows, f"{side.letter}: where rounding errors come from",
                    ["Share of the sum of squared errors, each line rounding alone; error relative to the results."],
                )
            )  # fmt: skip
        refused = [m for m in side.measured if not m.accepted and m.worst]
        for m in refused[:3]:
            items.append(
                f"{side.letter}, {_how(m)}: the worst of {m.output!r} is {m.worst['at']}: {m.worst['value']:.9g} "
                f"instead of {m.worst['golden']:.9g}, with kappa {figure(m.worst['kappa'])}."
            )
        if side.reruns is not None:
            items.append(f"{side.letter}: {side.reruns:,} outputs changed their bits between runs.")
    for g in growth:
        lengths = [
            (f"{g.size} = {n:,}", f"{own:.2e}", f"{its:.2e}")
            for n, own, its in zip(g.lengths, g.own, g.library, strict=True)
        ]
        items.append(
            Table(("", f"{sides[0].name}", "the reference"), lengths, f"Growth: rms error of {g.output} over its rms")
        )
        if len(g.lengths) > 2:
            items.append(_growth_plot(g, sides[0].name))
    if not items:
        items.append("Nothing had to be explained.")
    return items


def _growth_plot(g: Any, name: str) -> Plot:
    x = [math.log2(n) for n in g.lengths]
    series = [
        Series(label, x, [math.log10(v) for v in values], style, colour)
        for label, values, style, colour in ((name, g.own, "line", 0), ("the reference", g.library, "dashed", 2))
        if min(values) > 0
    ]
    return Plot(
        f"Growth of the errors of {g.output}", g.size, "rms error / rms result", series, 2, 10,
        "Noise grows like the square root of the length at most; a straight rise with the length is a bias.",
    )  # fmt: skip


def _verdict(v: Verdict) -> Section:
    items: list[str | Table | Plot] = [*v.summary()]
    items += [f"Note: {text}" for text in v.notes]
    return Section(f"4. Verdict: {v.status}", items)


def as_dict(audit: Any) -> dict[str, Any]:
    """An audit of a kernel as JSON's types."""
    figures: Figures = {}
    sides = {}
    for side in audit.sides:
        trials = []
        for m in side.measured:
            key = f"{side.letter}: {m.output}, {_how(m)}" + "".join(f", {k} {v}" for k, v in m.spec.sizes.items())
            figures[f"{key}: rms error"] = m.own.rms
            figures[f"{key}: outside"] = float(m.own.outside)
            figures[f"{key}: NaN or infinity"] = float(m.own.special)
            trials.append(
                {
                    "why": m.spec.why, "sizes": dict(m.spec.sizes), "distribution": m.spec.change, "seed": m.spec.seed,
                    "output": m.output, "dtype": m.dtype, "shape": list(m.shape), "accepted": m.accepted,
                    "meaningless": m.meaningless, "share_of_allowed": m.share, "allowed_rms": m.allowed[0],
                    "allowed_largest": m.allowed[1], "errors": asdict(m.own),
                    "reference": None if m.library is None else asdict(m.library), "rms": m.rms, "largest": m.largest,
                    "moved_rms": m.moved_rms, "next_to_it": list(m.next_to_it), "worst": m.worst,
                    "formula_error": m.formula_error, "formula_share": m.formula, "problem": m.problem,
                }
            )  # fmt: skip
        sides[side.letter] = {
            "name": side.name, "kernels": list(side.kernels), "failed": side.failed,
            "out_of_bounds": side.out_of_bounds, "reruns": side.reruns, "trials": trials,
            "refused": [{"why": s.why, "sizes": dict(s.sizes), "reason": r} for s, r in side.refused],
            "lines": [{"place": p, "text": t, "share": x, "error": e} for p, t, x, e in side.lines],
        }  # fmt: skip
    v = audit.verdict
    return {
        "verdict": {
            "status": v.status, "exit_code": v.exit_code, "sentences": v.sentences, "failures": v.failures,
            "doubts": v.doubts, "limitations": v.limitations, "notes": v.notes,
        },
        **audit.facts,
        "algebra": asdict(audit.algebra),
        "sides": sides,
        "growth": [asdict(g) for g in audit.growth],
        "figures": figures,
    }  # fmt: skip
