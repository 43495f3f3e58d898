"""Part 2 of an audit: how far are both kernels, and a reference kernel, from float64?"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

import fpsan_tools
from tritongemm.accuracy import BoundedOrder, ErrorAccumulator, ErrorReport, Tolerance
from tritongemm.assertions import closeness
from tritongemm.auditing.clock import OutOfTime
from tritongemm.auditing.contestants import Contestant
from tritongemm.auditing.devices import Array, Cpu, Device, Gpu, Launched, codes_of, note_overwritten, values_of
from tritongemm.auditing.explanation import Contrast, Identified, identify, layout_order
from tritongemm.auditing.growth import Growth, measure_growth
from tritongemm.auditing.implied_orders import AnyOrder, ModeOrder, Order
from tritongemm.auditing.sampling import AT_RISK, RANDOM, Rectangle, Survey, most_at_risk, rectangles, survey
from tritongemm.auditing.specials import lost_specials
from tritongemm.auditing.sweep import Swept, sweep
from tritongemm.auditing.symptoms import PRECISION
from tritongemm.matrices import DTYPES
from tritongemm.orders import SummationOrder
from tritongemm.reference import Block, largest_of, reference, reference_blocks

ALL = "all"
# The reference kernel and the library's product, beside "A" and "B".
CHAIN, LIBRARY = "chain", "library"

_RANDOM_OUTPUTS, _AT_RISK_OUTPUTS = 32768, 2048
# Outputs closest to zero among which those at risk are found.
_POOL = 1 << 18
_LEAST_SIDE, _MOST_SIDE = 32, 128
# Outputs a side that orders are identified on.
_IDENTIFIED_SIDE = 64
_SURVEY_SHARE, _SAMPLE_SHARE = 0.35, 0.9
_IDENTIFY_SHARE, _GROWTH_SHARE = 0.5, 0.6


@dataclass
class RoundingEvidence:
    """What was measured.

    Attributes:
        strata: By stratum, a report per kernel: "A", "B", and the references.
        gate: Which report is the reference that kernels are judged by.
        names: What the references are, in words.
        identified: By kernel letter, its summation order.
        launched: By kernel letter, what its first launch told.
        survey: What the full float64 product showed, on the CPU.
        evaluated: Outputs evaluated per kernel.
        planned: Outputs planned.
        equal: Outputs with the same bits in A and B.
        largest_difference: Largest |A - B|.
        chain_equal: By kernel letter, outputs with the bits of the serial chain, where that was simulated.
        chain_outputs: Outputs that the serial chain was simulated for.
        growth: How the errors of both grow with K.
        swept: Errors under other distributions of the operands.
        specials: By kernel letter, what it does with NaN and infinity otherwise than a product; None if not tried.
        unswept: Names of the distributions that were not tried, for want of time.
        brief: Whether only a look was taken, at a kernel that computes something else.
        judged_by: By kernel letter, the report of the precision mode that it was declared to have.
        precision: By kernel letter, which precision its floats look like, if they are further off than they may be.
        overwritten: By kernel letter, the operands that it writes to, and where it was seen.
        seconds: Time taken.
    """

    gate: str
    names: Mapping[str, str]
    strata: dict[str, dict[str, ErrorReport]] = field(default_factory=dict)
    identified: dict[str, Identified] = field(default_factory=dict)
    launched: dict[str, Launched] = field(default_factory=dict)
    survey: Survey | None = None
    evaluated: int = 0
    planned: int = 0
    equal: int = 0
    largest_difference: float = 0.0
    chain_equal: dict[str, int] = field(default_factory=dict)
    chain_outputs: int = 0
    growth: list[Growth] = field(default_factory=list)
    swept: list[Swept] = field(default_factory=list)
    unswept: list[str] = field(default_factory=list)
    brief: bool = False
    specials: Mapping[str, tuple[str, ...]] | None = None
    judged_by: dict[str, str] = field(default_factory=dict)
    precision: dict[str, str] = field(default_factory=dict)
    overwritten: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def sample(self) -> bool:
        """Whether the outputs are a sample, evaluated as products of their own."""
        return ALL not in self.strata

    @property
    def outputs_text(self) -> str:
        """How many outputs were evaluated, in words: samples of a small product have outputs in common."""
        repeated = self.sample and self.survey is not None and self.evaluated > self.survey.total
        return f"{self.evaluated:,} outputs" + (", some of them taken more than once" if repeated else "")

    @property
    def main(self) -> dict[str, ErrorReport]:
        """The reports of the unbiased stratum."""
        return self.strata[ALL if ALL in self.strata else RANDOM]


@dataclass(frozen=True)
class Setting:
    """The product that is audited.

    Attributes:
        a: (M, K) float32 values of the operands' type.
        b: (K, N) likewise.
        dtypes: Type of the operands and of the result.
        tolerance: The test to count failures of.
        seed: Seed of the sample.
        precisions: By kernel letter, the precision mode that it is declared to have.
    """

    a: Array
    b: Array
    dtypes: tuple[str, str]
    tolerance: Tolerance
    seed: int
    precisions: Mapping[str, str] = field(default_factory=dict)

    @property
    def modes(self) -> dict[str, str]:
        """By kernel letter, the precision mode whose own errors a kernel may have: the declared one, and for 16-bit
        operands that of a tensor core, which cuts where fp32 additions round."""
        usual = {"A": "ieee", "B": "ieee"} if self.dtypes[0] in ("fp16", "bf16") else {}
        return {**usual, **self.precisions}

    def bound_of(self, letter: str) -> BoundedOrder:
        """The order whose bound a kernel is held to when its own is not known: its declared mode's, or any."""
        if letter in self.precisions:
            return ModeOrder(self.precisions[letter], self.dtypes[0])
        return AnyOrder(self.dtypes[0])


class _Collector:
    """Accumulators for all kernels, per stratum."""

    def __init__(self, evidence: RoundingEvidence, setting: Setting, names: Mapping[str, str]) -> None:
        self.evidence, self.setting, self.names = evidence, setting, names
        self.errors: dict[str, dict[str, ErrorAccumulator]] = {}

    def stratum(self, name: str) -> dict[str, ErrorAccumulator]:
        if name not in self.errors:
            orders: dict[str, BoundedOrder] = {LIBRARY: AnyOrder(self.setting.dtypes[0]), CHAIN: SummationOrder.chain()}
            for letter, found in self.evidence.identified.items():
                orders[letter] = found.order or self.setting.bound_of(letter)
            for letter, key in self.evidence.judged_by.items():
                orders[key] = ModeOrder(self.setting.modes[letter], self.setting.dtypes[0])
            self.errors[name] = {
                key: ErrorAccumulator(
                    text,
                    self.setting.a.shape[1],
                    DTYPES[self.setting.dtypes[1]],
                    orders[key],
                    self.setting.tolerance,
                )
                for key, text in self.names.items()
            }
        return self.errors[name]

    def finish(self) -> None:
        self.evidence.strata = {
            name: {key: e.report() for key, e in errors.items()} for name, errors in self.errors.items()
        }


def _compare_bits(evidence: RoundingEvidence, first: Array, second: Array, dtype: str) -> None:
    evidence.evaluated += first.size
    evidence.equal += int((first == second).sum())
    with np.errstate(invalid="ignore"):
        difference = np.abs(values_of(first, dtype).astype(np.float64) - values_of(second, dtype))
    finite = difference[np.isfinite(difference)]
    evidence.largest_difference = max(evidence.largest_difference, float(finite.max(initial=0)))


def sampled(
    contestants: tuple[Contestant, Contestant],
    device: Cpu,
    setting: Setting,
    started: float,
    max_time: float,
    show: Callable[[str, float], None],
    brief: bool = False,
) -> RoundingEvidence:
    """Evaluates both kernels on samples of the product's outputs.

    The reference is the serial chain of fused multiply-adds, simulated: the order of cuBLAS's SGEMM, whatever machine
    this is.

    Args:
        contestants: Both kernels.
        device: Where to run them.
        setting: The product.
        started: Time (`time.monotonic`) the audit began.
        max_time: Seconds the audit may take.
        show: Called with what is being done and the share that is done.
        brief: One random sample is enough: the kernels are known to be different.

    Returns:
        The evidence.
    """
    begun = time.monotonic()
    a, b, dtypes = setting.a, setting.b, setting.dtypes
    M, N = a.shape[0], b.shape[1]
    names = {c.letter: c.name for c in contestants} | {CHAIN: "serial fma chain", LIBRARY: f"NumPy {np.__version__}"}
    evidence = RoundingEvidence(CHAIN, names, brief=brief)
    _declare(evidence, setting, names)
    whole = M * N <= _RANDOM_OUTPUTS
    tiles = [max(c.tile(d) for c in contestants) for d in ("rows", "columns")]
    high, wide = (
        (M, N) if whole else (min(n, _MOST_SIDE, max(_LEAST_SIDE, t)) for n, t in zip((M, N), tiles, strict=True))
    )
    random = 1 if whole or brief else max(2, _RANDOM_OUTPUTS // (high * wide))
    at_risk = 0 if whole or brief else max(1, _AT_RISK_OUTPUTS // min(high, wide))
    targets = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    plan = rectangles(M, N, (high, wide), random, 0, targets, setting.seed)
    show("identifying summation orders", 0)
    try:
        first = _evaluate(contestants, device, setting, plan[0], evidence)
    except OutOfTime:  # A rectangle of this size takes too long; a small one is better than none.
        if min(high, wide) <= _LEAST_SIDE // 2:
            raise
        high, wide = (min(n, _LEAST_SIDE // 2) for n in (high, wide))
        whole, device.deadline = False, math.inf
        plan = rectangles(M, N, (high, wide), random, 0, targets, setting.seed)
        first = _evaluate(contestants, device, setting, plan[0], evidence)
    # Of kernels that compute something else no order has to be found.
    deadline = begun if brief else started + _IDENTIFY_SHARE * max_time
    _identify(contestants, setting, plan[0], first, evidence, deadline)
    x, y = a[plan[0].rows], np.ascontiguousarray(b[:, plan[0].columns])
    _look_at_precision(contestants, setting, first, x, y, evidence)
    if not brief:
        until = started + _GROWTH_SHARE * max_time
        _sweep(contestants, device, setting, evidence, until, show)  # It finds mistakes: before what describes.
        evidence.growth = measure_growth(contestants, device, a, b, dtypes, setting.seed, until, show)
    per_rectangle = time.monotonic() - begun
    if at_risk:
        deadline = started + _SURVEY_SHARE * max_time
        evidence.survey = survey(a, b, setting.tolerance, _POOL, deadline, lambda x: show("float64 product", x))
        targets = most_at_risk(a, b, evidence.survey.nearest, setting.tolerance, 2 * _AT_RISK_OUTPUTS)
        plan = rectangles(M, N, (high, wide), random, at_risk, targets, setting.seed)
    evidence.planned = sum(r.rows.size * r.columns.size for r in plan)
    collector, contrast = _Collector(evidence, setting, names), Contrast()
    for number, rectangle in enumerate(plan):
        if number and time.monotonic() + per_rectangle > started + _SAMPLE_SHARE * max_time:
            break
        show(f"evaluating kernels, sample {number + 1} of {len(plan)}", number / len(plan))
        lap = time.monotonic()
        try:
            results = _evaluate(contestants, device, setting, rectangle, evidence)
        except OutOfTime:
            if not number:
                raise
            break
        x, y = a[rectangle.rows], b[:, rectangle.columns]
        chain = codes_of(SummationOrder.chain().simulate(x, y), dtypes[1])
        library = codes_of(x @ y, dtypes[1])
        golden, magnitude = reference(x, y)
        largest = [np.broadcast_to(size, golden.shape)[rectangle.wanted][None] for size in largest_of(x, y)]
        _compare_bits(evidence, results["A"].codes, results["B"].codes, dtypes[1])
        contrast.add(x, y, results["A"].codes, results["B"].codes)
        evidence.chain_outputs += chain.size
        for c in contestants:
            same = int((results[c.letter].codes == chain).sum())
            evidence.chain_equal[c.letter] = evidence.chain_equal.get(c.letter, 0) + same
        made = {c.letter: results[c.letter].codes for c in contestants} | {CHAIN: chain, LIBRARY: library}
        made |= _by_modes(evidence, setting, x, y)
        errors = collector.stratum(ALL if whole else rectangle.stratum)
        pick = rectangle.wanted
        for key, codes in made.items():
            values, expected = (values_of(m, dtypes[1])[pick][None] for m in (codes, chain))
            sizes = (largest[0], largest[1])
            errors[key].add(values, golden[pick][None], magnitude[pick][None], expected, largest=sizes)
        per_rectangle = time.monotonic() - lap
    evidence.identified = {k: contrast.judge(k, found, dtypes[1]) for k, found in evidence.identified.items()}
    collector.finish()
    for reports in evidence.strata.values():
        for report in reports.values():
            report.worst = None  # A place in a sample is no place in the product.
    evidence.seconds = time.monotonic() - begun
    return evidence


def _declare(evidence: RoundingEvidence, setting: Setting, names: dict[str, str]) -> None:
    """Adds what declared precision modes themselves would give to the references."""
    for letter, mode in setting.modes.items():
        key = f"precision {mode}"
        tensor_core = mode == "ieee" and setting.dtypes[0] != "fp32"
        names[key] = "tensor core of an H200" if tensor_core else f"{key} on an H200"
        evidence.judged_by[letter] = key


def _by_modes(evidence: RoundingEvidence, setting: Setting, x: Array, y: Array) -> dict[str, Array]:
    """The results of the declared precision modes, as an H200 gives them."""
    found: dict[str, Array] = {}
    for letter, key in evidence.judged_by.items():
        if key not in found:
            order = ModeOrder(setting.modes[letter], setting.dtypes[0])
            found[key] = codes_of(order.simulate(x, y), setting.dtypes[1])
    return found


def _evaluate(
    contestants: tuple[Contestant, Contestant],
    device: Device,
    setting: Setting,
    rectangle: Rectangle,
    evidence: RoundingEvidence,
) -> dict[str, Launched]:
    x, y = setting.a[rectangle.rows], np.ascontiguousarray(setting.b[:, rectangle.columns])
    results = {c.letter: device.run(c, x, y, setting.dtypes) for c in contestants}
    for letter, launched in results.items():
        evidence.launched.setdefault(letter, launched)
        note_overwritten(evidence.overwritten, letter, launched, f"{x.shape[0]}x{y.shape[1]}x{x.shape[1]}")
    return results


def _look_at_precision(
    contestants: tuple[Contestant, Contestant],
    setting: Setting,
    results: Mapping[str, Launched],
    x: Array,
    y: Array,
    evidence: RoundingEvidence,
) -> None:
    """Says of floats that are further off than they may be which precision they look like."""
    operands = [fpsan_tools.typed(codes_of(m, setting.dtypes[0]), setting.dtypes[0]) for m in (x, y)]
    for c in contestants:
        mode = setting.precisions.get(c.letter, "ieee")
        codes = fpsan_tools.typed(results[c.letter].codes, setting.dtypes[1])
        looks = closeness(codes, operands[0], operands[1], precision=mode).looks_like
        if looks is not None and looks.kind == PRECISION:
            evidence.precision[c.letter] = looks.text


def _sweep(
    contestants: tuple[Contestant, Contestant],
    device: Device,
    setting: Setting,
    evidence: RoundingEvidence,
    deadline: float,
    show: Callable[[str, float], None],
) -> None:
    size = (setting.a.shape[0], setting.b.shape[1], setting.a.shape[1])
    orders = {k: v.order for k, v in evidence.identified.items()}
    if time.monotonic() < deadline:
        evidence.specials = lost_specials(contestants, device, size, setting.dtypes, setting.seed)
    evidence.swept, evidence.unswept = sweep(
        contestants, device, orders, setting.bound_of, size, setting.dtypes, setting.modes, setting.seed,
        deadline, show,
    )  # fmt: skip


def _identify(
    contestants: tuple[Contestant, Contestant],
    setting: Setting,
    rectangle: Rectangle,
    results: Mapping[str, Launched],
    evidence: RoundingEvidence,
    deadline: float = math.inf,
) -> None:
    rows, columns = rectangle.rows[:_IDENTIFIED_SIDE], rectangle.columns[:_IDENTIFIED_SIDE]
    x, y = setting.a[rows], np.ascontiguousarray(setting.b[:, columns])
    for c in contestants:
        launched = results[c.letter]
        hint = layout_order(launched.order, c)
        codes = launched.codes[: rows.size, : columns.size]
        hints: list[Order] = [hint] if hint else []
        if c.letter in setting.precisions:
            hints.append(ModeOrder(setting.precisions[c.letter], setting.dtypes[0]))
        evidence.identified[c.letter] = identify(c, x, y, codes, setting.dtypes, hints, deadline)


def full(
    contestants: tuple[Contestant, Contestant],
    device: Gpu,
    setting: Setting,
    show: Callable[[str, float], None],
) -> RoundingEvidence:
    """Runs both kernels on the whole product, on a GPU, and measures every output.

    The reference is the library's product (`torch.matmul`) in the operands' type, without TF32. Beside it the serial
    chain of fused multiply-adds is simulated for a sample of the outputs: a library may add in a better order than
    kernels are held to.

    Args:
        contestants: Both kernels.
        device: The GPU.
        setting: The product.
        show: Called with what is being done and the share that is done.

    Returns:
        The evidence.
    """
    begun = time.monotonic()
    a, b, dtypes = setting.a, setting.b, setting.dtypes
    M, N = a.shape[0], b.shape[1]
    names = {c.letter: c.name for c in contestants}
    names |= {LIBRARY: f"torch {device.torch.__version__}", CHAIN: "serial fma chain"}
    evidence = RoundingEvidence(LIBRARY, names)
    _declare(evidence, setting, names)
    show("running the kernels", 0)
    results = {c.letter: device.run(c, a, b, dtypes) for c in contestants}
    evidence.launched = dict(results)
    for letter, launched in results.items():
        note_overwritten(evidence.overwritten, letter, launched, f"{M}x{N}x{a.shape[1]}")
    library = device.library(a, b, dtypes)
    rng = np.random.default_rng([setting.seed, 2])
    rows, columns = (np.sort(rng.choice(n, min(n, _IDENTIFIED_SIDE), replace=False)) for n in (M, N))
    side = Rectangle(ALL, rows, columns, np.ones((rows.size, columns.size), bool))
    show("identifying summation orders", 0.1)
    picked = {k: Launched(v.codes[np.ix_(side.rows, side.columns)], order=v.order) for k, v in results.items()}
    _identify(contestants, setting, side, picked, evidence)
    x, y = a[side.rows], np.ascontiguousarray(b[:, side.columns])
    _look_at_precision(contestants, setting, picked, x, y, evidence)
    chain = codes_of(SummationOrder.chain().simulate(x, y), dtypes[1])
    evidence.chain_outputs = chain.size
    evidence.chain_equal = {k: int((v.codes == chain).sum()) for k, v in picked.items()}
    evidence.chain_equal[LIBRARY] = int((library[np.ix_(side.rows, side.columns)] == chain).sum())
    collector, contrast = _Collector(evidence, setting, names), Contrast()
    errors = collector.stratum(ALL)
    sampled_golden, sampled_magnitude = reference(x, y)
    for key, codes in {CHAIN: chain, **_by_modes(evidence, setting, x, y)}.items():
        errors[key].add(values_of(codes, dtypes[1]), sampled_golden, sampled_magnitude, largest=largest_of(x, y))
    made = {k: v.codes for k, v in results.items()} | {LIBRARY: library}
    wide_a, wide_b = (device.upload(m) for m in (a, b))
    for block in reference_blocks(wide_a, wide_b):
        show("measuring against float64", block.rows.start / M)
        expected = values_of(library[block.at], dtypes[1])

        def add(key: str, block: Block = block, expected: Array = expected) -> None:
            values = values_of(np.ascontiguousarray(made[key][block.at]), dtypes[1])
            at = (block.rows.start, block.columns.start)
            errors[key].add(values, block.golden, block.magnitude, expected, at, block.largest)

        with ThreadPoolExecutor() as pool:  # NumPy works without the interpreter's lock.
            list(pool.map(add, made))
        first, second = (np.ascontiguousarray(results[k].codes[block.at]) for k in ("A", "B"))
        _compare_bits(evidence, first, second, dtypes[1])
        contrast.add(a[block.rows], b[:, block.columns], first, second)
    evidence.planned = evidence.evaluated
    evidence.growth = measure_growth(contestants, device, a, b, dtypes, setting.seed, math.inf, show)
    _sweep(contestants, device, setting, evidence, math.inf, show)
    evidence.identified = {k: contrast.judge(k, found, dtypes[1]) for k, found in evidence.identified.items()}
    collector.finish()
    evidence.seconds = time.monotonic() - begun
    return evidence


__all__ = ["ALL", "AT_RISK", "CHAIN", "LIBRARY", "RANDOM", "RoundingEvidence", "Setting", "full", "sampled"]
