"""`check`: run both sides on the same inputs, compare payloads, and explain a difference."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fpsan_tools import algebra
from fpsan_tools.checking.comparing import Comparison, compare, pair_outputs
from fpsan_tools.checking.inputs import Arguments, MakeInputs, Source, bits_of, is_float
from fpsan_tools.checking.sides import Engine, Outcome, as_side, choose_engine, name_of
from fpsan_tools.checking.verdict import DIFFERENT, EQUAL, INCONCLUSIVE, Finding, Gap, Verdict
from fpsan_tools.exceptions import FpsanError, OutOfBounds
from fpsan_tools.ttir.machine import Observer

Change = Callable[[Arguments], Arguments]
"""Changes freshly made inputs before a side gets them."""


@dataclass
class Trial:
    """Both sides on one set of inputs.

    Attributes:
        seed: of the inputs.
        sizes: sizes of the inputs.
        a: what side a gave.
        b: what side b gave.
        comparisons: their outputs, side by side; empty if one of them stopped.
        seconds: how long it took.
    """

    seed: int
    sizes: dict[str, int]
    a: Outcome
    b: Outcome
    comparisons: list[Comparison] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def stopped(self) -> bool:
        """Whether a side did not come to its end."""
        return self.a.error is not None or self.b.error is not None

    @property
    def equal(self) -> bool:
        """Whether both ended and all outputs agree."""
        return not self.stopped and all(c.equal for c in self.comparisons)


class Pair:
    """The two sides and their inputs: what experiments run.

    Args:
        a: first side.
        b: second side.
        source: of the inputs.
        engine: how sides are run.
        outputs: names of the array arguments to compare, None for those that change.
    """

    def __init__(
        self,
        a: Callable[..., Any],
        b: Callable[..., Any],
        source: Source,
        engine: Engine,
        outputs: Sequence[str] | None = None,
    ) -> None:
        self.a, self.b, self.source, self.engine, self.outputs = a, b, source, engine, outputs
        self.algebra = algebra.get(engine.version)

    def inputs(self, seed: int, sizes: Mapping[str, int] | None = None, change: Change | None = None) -> Arguments:
        """Fresh inputs, changed where an experiment asks for it."""
        made = self.source.make(seed, sizes)
        return made if change is None else change(made)

    def run(
        self,
        seed: int,
        sizes: Mapping[str, int] | None = None,
        change_a: Change | None = None,
        change_b: Change | None = None,
        observer_a: Observer | None = None,
        observer_b: Observer | None = None,
    ) -> Trial:
        """Run both sides on inputs of one seed.

        Args:
            seed: of the generator.
            sizes: sizes that differ from the source's.
            change_a: changes the inputs of side a.
            change_b: changes the inputs of side b.
            observer_a: told of the operations of side a.
            observer_b: told of the operations of side b.

        Returns:
            The trial.

        Raises:
            FpsanError: for wrong use.
        """
        begin = time.perf_counter()
        outcomes: list[Outcome] = []
        for side, change, observer, which in (
            (self.a, change_a, observer_a, "a"),
            (self.b, change_b, observer_b, "b"),
        ):
            outcome = self.engine.run(side, self.inputs(seed, sizes, change), observer)
            if outcome.error is None and not outcome.launches and not outcome.torch_operations:
                raise FpsanError(
                    f"side {which} ({name_of(side)}) launched no Triton kernel and ran no torch operation that has "
                    "payloads, so there is nothing to check; NumPy expressions are not seen"
                )
            outcomes.append(outcome)
        trial = Trial(seed, {**self.source.sizes, **(sizes or {})}, outcomes[0], outcomes[1])
        if not trial.stopped:
            pairs = pair_outputs(trial.a, trial.b, self.outputs)
            trial.comparisons = [compare(name, x, y, self.algebra) for name, x, y in pairs]
        trial.seconds = time.perf_counter() - begin
        return trial


def check(
    a: Any,
    b: Any,
    make_inputs: MakeInputs,
    *,
    outputs: Sequence[str] | None = None,
    engine: str = "auto",
    version: str | None = None,
    bounds: str = "live",
    special_values: bool = False,
    seeds: Iterable[int] = (0, 1),
    sizes: Mapping[str, int] | None = None,
    diagnose: bool = True,
    budget: float = 20.0,
) -> Verdict:
    """Tell whether two kernels, or launchers of kernels, are the same algebra.

    Both sides run on equal inputs in FpSan payloads, in which rounding does not exist: sums and products are exact
    modulo a power of two, so a reordered evaluation of the same formula gives equal bits, and another formula does not.

    Args:
        a: a function that launches kernels (or, on torch tensors, computes a reference) and returns its results or
            writes them to its arguments; or `launch(kernel, grid, BLOCK=64)` for a bare kernel.
        b: likewise.
        make_inputs: `make_inputs(rng, M=64, K=100)`, a function of a NumPy generator and of sizes, that gives the
            arguments of both sides: a dictionary (each side gets those that it has parameters for) or a tuple; or such
            a dictionary or tuple itself. Parameters with whole numbers as defaults are sizes: the diagnosis varies
            them. It is called anew for every run, so sides may write to what they get.
        outputs: names of the array arguments to compare. By default what the sides return, or the arrays that a side
            changed.
        engine: "cpu" (no GPU needed), "gpu" (Triton's own FpSan; NumPy arrays are moved there), or "auto": the GPU if
            the inputs lie there.
        version: of the algebra ("3.8", "3.9", "3.9-homomorphic"), None for the installed Triton's.
        bounds: on the CPU: "live" refuses accesses outside of the arrays; "all" also where lanes are masked off.
        special_values: whether sides with equal payloads are also run with IEEE arithmetic, on the CPU, to see whether
            NaN and infinity appear at the same places: payloads know neither, so that 0 times infinity is 0.
        seeds: numbers for the generator; every one is tried.
        sizes: sizes instead of the defaults of `make_inputs`.
        diagnose: whether to explain a difference by experiments.
        budget: about how many seconds experiments may take.

    Returns:
        The verdict.

    Raises:
        FpsanError: for wrong use: arguments that are missing, a kernel that Triton refuses, inputs that differ between
            two calls with one seed.
        UnknownName: for an unknown engine, version, bounds check, size or output.
        TritonUnavailable: if Triton is missing, or the GPU for engine "gpu".
    """
    left, right = as_side(a, "a"), as_side(b, "b")
    source = Source(make_inputs, sizes)
    tried = tuple(dict.fromkeys(int(seed) for seed in seeds))
    if not tried:
        raise FpsanError("seeds: at least one number is needed")
    if source.is_fixed:
        tried = tried[:1]
    sample = source.make(tried[0])
    _require_repeatable(source, sample, tried[0])
    chosen = Engine(choose_engine(engine, sample), version, bounds)
    pair = Pair(left, right, source, chosen, outputs)
    trials = [pair.run(seed) for seed in tried]
    verdict = _verdict(pair, trials, diagnose, budget)
    if special_values and verdict.equal:
        verdict = _with_special_values(pair, trials[0], verdict)
    return verdict


def _with_special_values(pair: Pair, trial: Trial, verdict: Verdict) -> Verdict:
    """Compare where NaN and infinity are when both sides compute with IEEE arithmetic."""
    engine = dataclasses.replace(pair.engine, name="cpu", domain="ieee")
    ordinary = Pair(pair.a, pair.b, pair.source, engine, pair.outputs).run(trial.seed, trial.sizes)
    if ordinary.stopped:
        _, reason = _why_stopped(pair, ordinary)
        return dataclasses.replace(verdict, notes=(*verdict.notes, f"not run with IEEE arithmetic: {reason}"))
    for comparison in ordinary.comparisons:
        if not is_float(comparison.dtype) or comparison.problem:
            continue
        a, b = (_kinds(bits, comparison.dtype) for bits in (comparison.a, comparison.b))
        different = a != b
        if different.any():
            first = tuple(int(i) for i in np.argwhere(different)[0])
            told = [_KINDS[int(kinds[first])] for kinds in (a, b)]
            reason = (
                f"payloads agree, but with IEEE arithmetic {int(different.sum())} of {different.size} elements of "
                f"{comparison.name!r} are NaN or infinite on one side only: at {list(first)} side a is {told[0]} and "
                f"side b {told[1]}."
            )
            return dataclasses.replace(verdict, outcome=DIFFERENT, reason=reason)
    note = "with IEEE arithmetic NaN and infinity appear at the same places on both sides"
    return dataclasses.replace(verdict, notes=(*verdict.notes, note))


_KINDS = ("finite", "infinite", "NaN")


def _kinds(bits: Any, dtype: str) -> Any:
    """0 for finite, 1 for infinite, 2 for NaN, per element."""
    from fpsan_tools.domains.formats import FORMATS

    values = np.asarray(FORMATS[algebra.float_type(dtype).mlir].decode(bits))
    return np.isinf(values) + 2 * np.isnan(values)


def _require_repeatable(source: Source, sample: Arguments, seed: int) -> None:
    """Both sides must get equal inputs, which are made once for each."""
    again = source.make(seed)
    if sample.names != again.names:
        raise FpsanError(f"make_inputs gives other arguments when called again with seed {seed}")
    for (name, one), (_, two) in zip(sample.arrays(), again.arrays(), strict=True):
        if not np.array_equal(bits_of(one), bits_of(two)):
            raise FpsanError(
                f"make_inputs is not repeatable: {name!r} differs between two calls with seed {seed}; draw all random "
                "numbers from the generator that it gets (and fill arrays that are made empty)"
            )


def _verdict(pair: Pair, trials: list[Trial], diagnose: bool, budget: float) -> Verdict:
    differing = [trial for trial in trials if not trial.stopped and not trial.equal]
    stopped = [trial for trial in trials if trial.stopped]
    gaps = _gaps(trials)
    outcome, reason, shown = EQUAL, "", trials[0]
    if stopped:
        shown = stopped[0]
        outcome, reason = _why_stopped(pair, shown)
    elif differing:
        shown = differing[0]
        outcome = DIFFERENT
        decisive = [gap for gap in gaps if gap.decisive]
        if decisive:
            outcome = INCONCLUSIVE
            reason = (
                f"outputs differ, but {decisive[0].op} at {decisive[0].file}:{decisive[0].line} {decisive[0].reason}; "
                "payloads cannot decide such a kernel."
            )
    findings: list[Finding] = []
    divergence = None
    notes = list(
        dict.fromkeys(note for t in trials for o in (t.a, t.b) for launch in o.launches for note in launch.notes)
    )
    notes += _untouched(shown)
    if outcome == DIFFERENT and differing and not stopped:
        from fpsan_tools.checking.narrowing import only_narrowed

        # Asked for even without a diagnosis: it decides what the verdict means.
        narrowed = only_narrowed(pair, trials)
        findings += [narrowed] if narrowed is not None else []
    if diagnose and differing and not stopped:
        from fpsan_tools.checking.diagnosis import explain

        more_findings, divergence, more = explain(pair, shown, budget)
        findings += more_findings
        notes += more
    from fpsan_tools.checking.replay import command

    return Verdict(
        outcome=outcome,
        reason=reason,
        a=name_of(pair.a),
        b=name_of(pair.b),
        version=pair.algebra.version,
        engine=pair.engine.name,
        comparisons=tuple(shown.comparisons),
        seed=shown.seed,
        sizes=shown.sizes,
        seeds=tuple(trial.seed for trial in trials),
        differing_seeds=tuple(trial.seed for trial in differing),
        triton=algebra.installed_triton() or "",
        kernels={"a": _kernels(shown.a), "b": _kernels(shown.b)},
        gaps=tuple(gaps),
        findings=tuple(findings),
        divergence=divergence,
        notes=tuple(notes),
        replay=command(pair, shown),
    )


def _why_stopped(pair: Pair, trial: Trial) -> tuple[str, str]:
    """Outcome and reason if a side did not come to its end."""
    errors = {"a": trial.a.error, "b": trial.b.error}
    told = [f"side {which} ({name_of(getattr(pair, which))}): {error}" for which, error in errors.items() if error]
    alone = [error for error in errors.values() if error is not None]
    outcome = DIFFERENT if len(alone) == 1 and isinstance(alone[0], OutOfBounds) else INCONCLUSIVE
    return outcome, "; ".join(told) + "."


def _gaps(trials: list[Trial]) -> list[Gap]:
    found: dict[Gap, None] = {}
    for trial in trials:
        for side, outcome in (("a", trial.a), ("b", trial.b)):
            for op in outcome.torch_unsanitised:
                reason = "sees the floats' bits, not payloads"
                found.setdefault(Gap(side, "torch", op, "", 0, reason))
            for launch in outcome.launches:
                for gap in launch.unsanitised:
                    found.setdefault(Gap(side, launch.kernel, gap.op, gap.file, gap.line, gap.reason, gap.decisive))
    return list(found)


def _kernels(outcome: Outcome) -> tuple[str, ...]:
    counted = Counter(f"{launch.kernel}[{', '.join(map(str, launch.grid))}]" for launch in outcome.launches)
    told = [name + (f" x{times}" if times > 1 else "") for name, times in counted.items()]
    if outcome.torch_operations:
        told.append(f"{outcome.torch_operations} torch operations")
    return tuple(told)


def _untouched(trial: Trial) -> list[str]:
    """Elements of outputs that neither side wrote: nothing was compared there."""
    notes = []
    for comparison in trial.comparisons:
        before = trial.a.before.get(comparison.name)
        if before is None or before.shape != comparison.a.shape or comparison.problem:
            continue
        same = (comparison.a == before) & (comparison.b == before)
        count = int(np.count_nonzero(same))
        if count:
            notes.append(f"{count} of {same.size} elements of {comparison.name!r} were left as they were by both sides")
    return notes
