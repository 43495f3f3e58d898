"""The audit's evidence as a document: the same sentences, tables and plots for the terminal and the page."""

from __future__ import annotations

from tritongemm.accuracy import ErrorReport
from tritongemm.auditing.algebra import NOT_APPLICABLE, AlgebraEvidence
from tritongemm.auditing.contestants import Contestant
from tritongemm.auditing.document import Document, Plot, Section
from tritongemm.auditing.implied_orders import SplitOrder
from tritongemm.auditing.plots import error_histogram, errors_by_kappa
from tritongemm.auditing.rounding import ALL, AT_RISK, CHAIN, LIBRARY, RANDOM, RoundingEvidence
from tritongemm.auditing.sampling import Survey
from tritongemm.auditing.verdict import Verdict
from tritongemm.matrices import DTYPES
from tritongemm.orders import SummationOrder
from tritongemm.tables import Table, figure, percent, share, short

_U = DTYPES["fp32"].unit_roundoff
# Colours of the plots: A, B, everything else.
_COLOURS = {"A": 0, "B": 1}


def document(
    contestants: tuple[Contestant, Contestant],
    product: str,
    where: str,
    replay: str,
    algebra: AlgebraEvidence,
    rounding: RoundingEvidence | None,
    verdict: Verdict,
) -> Document:
    """Builds the report.

    Args:
        contestants: Both kernels.
        product: The audited product, in words.
        where: Device and versions.
        replay: The command that repeats the run.
        algebra: Part 1.
        rounding: Part 2.
        verdict: Part 4.

    Returns:
        The document.
    """
    first, second = contestants
    lead = [product, where]
    for c in contestants:
        lead.append(f"{c.letter}: {c.describe()}")
        lead += [f"{c.letter}: {r}" for r in c.remarks]
    lead.append(f"This run executed the code of {first.spec} and {second.spec}. To repeat it: {replay}")
    sections = [_algebra(contestants, algebra)]
    if rounding is not None:
        sections += [_rounding(contestants, rounding), _explanation(contestants, rounding)]
    sections.append(_verdict(verdict))
    title = f"Audit of A: {first.name} and B: {second.name}"
    return Document(title, verdict.status, verdict.summary(), lead, sections)


def _algebra(contestants: tuple[Contestant, Contestant], e: AlgebraEvidence) -> Section:
    titles = {"same": "the same", "different": "different", "unknown": "unknown", NOT_APPLICABLE: NOT_APPLICABLE}
    items: list[str | Table | Plot] = []
    if e.reason:
        items.append(e.reason)
    if e.trials:
        rows = [
            (
                t.why,
                f"{t.M} x {t.N} x {t.K}",
                f"{t.first.size:,}",
                f"{t.different:,}" if not e.absent else "-",
                f"{t.away('A'):,}" if "A" not in e.absent else "-",
                f"{t.away('B'):,}" if "B" not in e.absent else "-",
            )
            for t in e.trials
        ]
        columns = ("products tried", "M x N x K", "outputs", "A ≠ B", "A ≠ product", "B ≠ product")
        items.append(Table(columns, rows, f"Payloads (FpSan {e.version}: arithmetic without rounding)"))
    items += [
        f"{k} has {'payloads of its own' if k in e.exact else 'no payloads'}: {reason}."
        for k, reason in e.absent.items()
    ]
    items += [*e.outside.values(), *e.diagnosis]
    if e.conversions:
        items.append(e.conversions)
    for c in contestants:
        found = e.unsanitised.get(c.letter, ())
        if e.trials:
            items.append(f"Operations of {c.letter} that payloads do not cover: {', '.join(found) or 'none'}.")
        items += [f"How {c.letter} was evaluated: {note}." for note in e.notes.get(c.letter, ())]
    title = "by numbers, where payloads say nothing" if e.status == "same" and e.absent else titles[e.status]
    return Section(f"1. Algebra: {title}", items)


def _rounding(contestants: tuple[Contestant, Contestant], e: RoundingEvidence) -> Section:
    items: list[str | Table | Plot] = []
    if e.survey is not None:
        items.append(_survey(e.survey, e))
    titles = {
        ALL: "Errors against float64, all outputs",
        RANDOM: "Errors against float64, random rows and columns",
        AT_RISK: "Errors against float64 where a tolerance fails first: results close to zero with large partial sums",
    }
    for stratum, reports in e.strata.items():
        items.append(_errors(titles[stratum], reports, e))
    main = e.main
    gate = main[e.gate]
    items.append(
        f"u = 2^-24; sum|p| is the sum of the products' absolute values; the results are {figure(gate.golden_rms)} "
        "rms. The serial fma chain adds k = 0, 1, 2, ... with one fused multiply-add each, as cuBLAS's SGEMM does, "
        "and is simulated. Bounds are those of the order of summation found in part 3, of any order where none was."
    )
    items.append(_bounds(main))
    items.append(_kappa(gate))
    if e.swept:
        items.append(_swept(contestants, e))
    stratum = AT_RISK if AT_RISK in e.strata else next(iter(e.strata))
    items.append(f"Tolerance advice: {e.strata[stratum][e.gate].advice()}")
    labels = {key: f"{key}: {r.name}" if key in _COLOURS else r.name for key, r in main.items()}
    others = [key for key in main if key not in _COLOURS]
    colours = {key: 2 if key == CHAIN or len(others) < 2 else 3 for key in others} | _COLOURS
    items.append(error_histogram(main, labels, colours, others))
    items.append(errors_by_kappa({key: main[key] for key in _COLOURS}, {key: key for key in _COLOURS}, _COLOURS))
    return Section("2. Rounding", items)


def _survey(s: Survey, e: RoundingEvidence) -> str:
    part = "all" if s.outputs == s.total else f"the first {s.outputs:,} of {s.total:,}"
    reports = next(iter(e.strata.values()))
    return (
        f"The float64 product was computed for {part if part != 'all' else f'all {s.total:,}'} outputs, rms "
        f"{figure(s.rms)}; "
        f"{e.names[LIBRARY]}'s own fp32 product misses {reports['A'].tolerance} in {s.library_outside:,} of them. The "
        "kernels were evaluated "
        f"at {e.outputs_text}, of which the figures count those named."
    )


def _errors(title: str, reports: dict[str, ErrorReport], e: RoundingEvidence) -> Table:
    tolerance = reports["A"].tolerance
    narrow = reports["A"].dtype != "fp32"
    columns = (
        "",
        "outputs",
        "max |e|",
        "max |e|/unit",
        "rms e/unit",
        "bias",
        "<= 1 ulp",
        "outside of float64",
        "outside of the reference",
    )
    rows = []
    for key, r in reports.items():
        label = f"{key}: {r.name}" if key in _COLOURS else r.name
        against = "-" if key == e.gate or r.outside_library is None else f"{r.outside_library:,}"
        rows.append(
            (
                label,
                f"{r.outputs:,}",
                f"{r.max_abs:.2e}",
                figure(r.max_out if narrow else r.max_scaled),
                figure(r.rms_out if narrow else r.rms_scaled),
                f"{r.bias:+.2f}",
                f"{100 * r.ulps['1']:.1f} %",
                f"{r.outside:,}",
                against,
            )
        )
    dtype = reports["A"].dtype
    unit = (
        f"Unit: u_out·|result| + u·sum|p|, one rounding to {dtype} and one of the largest fp32 sum there could be."
        if narrow
        else "Unit: u·sum|p|, one rounding of the largest sum there could be."
    )
    notes = [
        unit,
        f"Outside: |difference| > {short(tolerance.atol)} + {short(tolerance.rtol)}·|expected|. Reference: "
        f"{e.names[e.gate]}.",
    ]
    for key in _COLOURS:
        r = reports[key]
        if r.outside_library:
            notes.append(
                f"Of the {r.outside_library:,} places where {key} is outside of the reference, float64 agrees with "
                f"{key} in {r.blamed or 0:,}."
            )
    return Table(columns, rows, title, notes)


def _bounds(reports: dict[str, ErrorReport]) -> Table:
    rows = []
    for key, r in reports.items():
        label = f"{key}: {r.name}" if key in _COLOURS else r.name
        rows.append(
            (
                label,
                f"{r.height:,}",
                figure(r.relative_bound / _U),
                figure(r.bound_used),
                f"{r.bound_exceeded:,}",
                figure(r.probable_bound),
            )
        )
    columns = ("", "height n", "bound gamma_n/u", "share used", "exceeded", "probable bound")
    probability = next(iter(reports.values())).probability
    said = (
        f"Probable: of independent unbiased rounding errors, with probability {percent(probability)} per output "
        "(lambda = 6)."
    )
    return Table(columns, rows, "A-priori bounds, in units of u·sum|p|", [said])


def _swept(contestants: tuple[Contestant, Contestant], e: RoundingEvidence) -> Table:
    """Errors under other distributions."""
    M, N, K = e.swept[0].shape
    rows = []
    for s in e.swept:
        cells = [s.name, s.text]
        for c in contestants:
            r = s.reports[c.letter]
            cells += [figure(r.rms_out if r.dtype != "fp32" else r.rms_scaled), figure(r.bound_used)]
        chain = s.reports[CHAIN]
        cells += [figure(chain.rms_out if chain.dtype != "fp32" else chain.rms_scaled), figure(chain.kappa["0.5"])]
        rows.append(cells)
    columns = ("operands", "drawn from", "A: rms e", "of bound", "B: rms e", "of bound", "chain: rms e", "kappa")
    note = "rms e in the units of the table above; of bound: the largest share of the a-priori bound that was used."
    return Table(columns, rows, f"Other distributions of the operands, {M} x {N} outputs of K = {K:,}", [note])


def _kappa(r: ErrorReport) -> Table:
    names = {
        "0.01": "1 %",
        "0.25": "25 %",
        "0.5": "50 %",
        "0.75": "75 %",
        "0.9": "90 %",
        "0.99": "99 %",
        "0.999": "99.9 %",
        "1.0": "max",
    }
    return Table(
        ("quantile", *names.values()),
        [("kappa", *(figure(r.kappa[q]) for q in names))],
        "Condition numbers of the outputs, sum|p| / |sum p|",
    )


def _explanation(contestants: tuple[Contestant, Contestant], e: RoundingEvidence) -> Section:
    items: list[str | Table | Plot] = []
    rows = []
    for c in contestants:
        found = e.identified[c.letter]
        order = found.order
        text = order.describe() if order else f"not found; closest: {found.closest.describe()}"
        rows.append((f"{c.letter}: {c.name}", text, f"{found.agreed:,} of {found.outputs:,}", str(found.tried)))
    items.append(
        Table(("", "order of summation", "bits reproduced", "orders tried"), rows, "What reproduces the kernels' bits")
    )
    for c in contestants:
        same = e.chain_equal.get(c.letter, 0)
        items.append(
            f"{c.letter} equals the serial chain of fused multiply-adds, k = 0, 1, 2, ..., bit for bit in "
            f"{share(same, e.chain_outputs)} of "
            f"{e.chain_outputs:,} outputs."
        )
    if LIBRARY in e.chain_equal:
        items.append(
            f"{e.names[LIBRARY]} equals that chain in {share(e.chain_equal[LIBRARY], e.chain_outputs)} of "
            f"{e.chain_outputs:,} outputs."
        )
    for c in contestants:
        found = e.identified[c.letter]
        if isinstance(found.order, (SummationOrder, SplitOrder)):
            height = found.order.height(e.main[c.letter].K)
            items.append(f"{c.letter}: a product passes through {height:,} roundings at most in this order.")
        items += [f"How {c.letter} was evaluated: {note}." for note in e.launched[c.letter].notes]
    if e.growth:
        names = {c.letter: f"{c.letter}: {c.name}" for c in contestants} | {CHAIN: e.names[CHAIN]}
        lengths = e.growth[0].lengths
        grown = [(names[g.letter], *(figure(x) for x in g.rms), f"{g.bias:+.2f}", g.reading()) for g in e.growth]
        columns = ("", *(f"K = {n:,}" for n in lengths), "bias", "grows")
        items.append(
            Table(columns, grown, "Growth with K: rms relative error of sums of positive products, in u = 2^-24")
        )
    return Section("3. Explanation", items)


def _verdict(v: Verdict) -> Section:
    items: list[str | Table | Plot] = [*v.summary()]
    items += [f"Note: {text}" for text in v.notes]
    return Section(f"4. Verdict: {v.status}", items)
