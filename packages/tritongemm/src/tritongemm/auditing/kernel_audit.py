"""`audit_kernel`: any kernel against a reference, over shapes and distributions of its inputs."""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import fpsan_tools
import numfmt
import tritongemm
from tritongemm.accuracy import Tolerance
from tritongemm.auditing.cases import Case
from tritongemm.auditing.clock import OutOfTime, Watch, operations_of
from tritongemm.auditing.dependence import read_otherwise
from tritongemm.auditing.distributions import GIVEN, Change, changes_named
from tritongemm.auditing.document import Document
from tritongemm.auditing.kernel_algebra import GPU_ONLY, NOT_APPLICABLE, UNKNOWN, KernelAlgebra, compare_payloads
from tritongemm.auditing.measured import Measured, measure
from tritongemm.auditing.saving import save_report
from tritongemm.auditing.second_look import Sample, samples
from tritongemm.auditing.trials import (
    OWN_INPUTS,
    CpuPlace,
    GpuPlace,
    Inputs,
    Place,
    Refused,
    Spec,
    Values,
    as_drawn,
    call,
    float_element,
    in_float32,
    in_float64,
    make_inputs,
    names_taken,
    paired,
    takes_fp64,
)
from tritongemm.auditing.verdict import Verdict
from tritongemm.elements import element_named
from tritongemm.errors import KernelFailed, Unavailable, UsageError, nearest, one_line

Show = Callable[[str, float], None]

DEFAULT_MAX_TIME = 120.0
_ALGEBRA_SHARE = 0.3
_SMALL = 1 << 16
# How far fp64 inputs are moved: the reference is in fp64 itself, and its roundings add up.
_ROUNDED_FP64 = 256 * numfmt.FP64.unit_roundoff
# Outputs of which a refused one gets a second look.
_LOOKED_AT = 1 << 20
# Runs on a GPU whose bits have to agree.
_RERUNS = 3
# Sizes along which growth is measured, as multiples of the default.
_GROWTH = (1, 2, 4, 8)


@dataclass
class Side:
    """A kernel under audit and what was found of it.

    Attributes:
        letter: "A" for the kernel, "B" for its rival.
        name: Its name.
        function: What is called.
        measured: Its outputs in all trials.
        refused: Trials it does not take, with the reasons.
        failed: Why it could not be run, or not any more.
        out_of_bounds: An access outside of its arrays.
        launched: Triton kernels that one call launches.
        kernels: Their names.
        notes: What was assumed to evaluate it.
        operations: Names of the operations that were evaluated, with the first place of each.
        lines: Source lines that lose accuracy: place, text, share of the squared error, relative error.
        reruns: Outputs whose bits differ between runs on a GPU, None if it was not run there.
        reads: Which inputs results depend on otherwise than in the reference, in a sentence.
    """

    letter: str
    name: str
    function: Callable[..., Any]
    measured: list[Measured] = field(default_factory=list)
    refused: list[tuple[Spec, str]] = field(default_factory=list)
    failed: str = ""
    out_of_bounds: str = ""
    launched: int = 0
    kernels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    operations: dict[str, str] = field(default_factory=dict)
    lines: list[tuple[str, str, float, float]] = field(default_factory=list)
    reruns: int | None = None
    reads: str = ""


@dataclass(frozen=True)
class Growth:
    """How errors grow along a size.

    Attributes:
        size: Its name.
        output: The output.
        lengths: Values of the size.
        own: rms error over rms result, of the kernel.
        library: ... of the reference.
        ratio: The kernel's error at the largest length over the larger of the reference's and of what moving the inputs
            by one rounding does.
    """

    size: str
    output: str
    lengths: tuple[int, ...]
    own: tuple[float, ...]
    library: tuple[float, ...]
    ratio: float = 0.0

    @staticmethod
    def slope(lengths: Sequence[int], errors: Sequence[float]) -> float:
        """The exponent of errors growing like a power of the length; NaN where there are no errors."""
        if min(errors, default=0.0) <= 0 or len(errors) < 2:
            return math.nan
        return float(np.polyfit(np.log(lengths), np.log(errors), 1)[0])


@dataclass(frozen=True)
class KernelAudit:
    """Everything an audit of a kernel found.

    Attributes:
        verdict: The outcome; `verdict.status` is one of PASS, PASS WITH LIMITATIONS, FAIL, INCONCLUSIVE.
        document: The report's content.
        algebra: What payloads showed.
        sides: The kernel, and its rival.
        growth: How errors grow along the reduced size.
        facts: Device, versions, seed, replay command, for JSON.
    """

    verdict: Verdict
    document: Document
    algebra: KernelAlgebra
    sides: tuple[Side, ...]
    growth: tuple[Growth, ...]
    facts: Mapping[str, Any] = field(repr=False)

    @property
    def status(self) -> str:
        """The verdict in a word or three."""
        return self.verdict.status

    @property
    def exit_code(self) -> int:
        """What the command exits with: 0, 1 or 3."""
        return self.verdict.exit_code

    def __str__(self) -> str:
        return self.document.text()

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON's types."""
        from tritongemm.auditing.kernel_report import as_dict

        return as_dict(self)

    def beside(self, sentences: list[str]) -> KernelAudit:
        """The same with a comparison with an earlier audit in its report.

        Args:
            sentences: The comparison.
        """
        return replace(self, document=self.document.beside(sentences), facts={**self.facts, "baseline": sentences})

    def save(self, folder: str | Path = "reports") -> tuple[Path, Path]:
        """Writes `audit.html` and `audit.json`; an interrupted run leaves the old ones.

        Args:
            folder: Where to; made if need be.

        Returns:
            Both paths.
        """
        return save_report(folder, self.document, self.as_dict())


def audit_kernel(
    kernel: Callable[..., Any],
    reference: Callable[..., Any],
    inputs: Callable[..., Mapping[str, Any]],
    *,
    rival: Callable[..., Any] | None = None,
    name: str | None = None,
    tiles: Mapping[str, int] | None = None,
    shapes: Sequence[Mapping[str, int]] = (),
    production: Mapping[str, int] | None = None,
    distributions: Sequence[str] | Mapping[str, Change] | None = None,
    varied: Sequence[str] | None = None,
    gradients: Sequence[str] = (),
    reduced: str | None = None,
    smallest: Mapping[str, int] | None = None,
    multiples: Mapping[str, int] | None = None,
    dtype: str | None = None,
    tolerance: Tolerance | None = None,
    seed: int = 0,
    device: str = "auto",
    max_time: float = DEFAULT_MAX_TIME,
    show: Show | None = None,
) -> KernelAudit:
    """Audits any kernel against a reference: algebra, rounding, special values, over shapes and distributions.

    Args:
        kernel: Calls the kernel with inputs by name: a launcher, `fpsan_tools.launch(kernel, grid, BLOCK=64)`, or
            anything else that can be called (a PyTorch function, a CUDA extension: payloads are then not applicable).
        reference: The same computation by PyTorch or NumPy, for any float type of its inputs. In float64 it is right.
        inputs: `inputs(rng, rows=48, columns=100)`, a function of a NumPy generator and of sizes, gives a dictionary of
            arrays (NumPy, torch, or `fpsan_tools.typed`).
        rival: Another implementation, to be measured and compared as well.
        name: What to call the kernel.
        tiles: Tile sizes by the size that they cut.
        shapes: More sizes to try.
        production: Sizes for a GPU.
        distributions: Names of `tritongemm.auditing.distributions.CHANGES`, or functions of a generator and float64
            values; all if not given.
        varied: Inputs that distributions change; all floats if not given.
        gradients: Inputs whose gradients are audited too, with PyTorch's autograd.
        reduced: The size that sums run over: growth of the errors along it is measured.
        smallest: The smallest legal sizes, where that is not 1.
        multiples: Sizes that have to be multiples, and of what.
        dtype: Type that floating-point inputs are converted to ("bf16", ...); as they are drawn if not given.
        tolerance: The test whose failures are counted; torch.testing's of the output's type if not given.
        seed: Seed of the inputs.
        device: "cpu" (evaluated), "gpu" (launched) or "auto".
        max_time: Seconds that it may take.
        show: Called with what is being done and the share of it that is done.

    Returns:
        The result; `print(result)` shows the report, `result.save()` writes it.

    Raises:
        UsageError: An argument cannot be used as given.
        Unavailable: Triton, torch or a GPU is needed and missing.
    """
    own_name = str(name or getattr(kernel, "__name__", type(kernel).__name__))
    more = {} if distributions is None else {"changes": changes_named(distributions)}
    case = Case(
        kernel,
        reference,
        inputs,
        own_name,
        f"{getattr(kernel, '__module__', '?')}:{own_name}",
        rival=rival,
        tiles=tiles or {},
        shapes=tuple(shapes),
        smallest=smallest or {},
        multiples=multiples or {},
        production=production,
        gradients=tuple(gradients),
        varied=varied,
        reduced=reduced,
        **more,
    )
    return audit_case(case, dtype=dtype, tolerance=tolerance, seed=seed, device=device, max_time=max_time, show=show)


def audit_case(
    case: Case,
    *,
    dtype: str | None = None,
    tolerance: Tolerance | None = None,
    seed: int = 0,
    device: str = "auto",
    max_time: float = DEFAULT_MAX_TIME,
    show: Show | None = None,
    hardware: bool = False,
    replay: str = "",
    data: Inputs | None = None,
) -> KernelAudit:
    """Audits a case; see `audit_kernel`.

    Args:
        case: The kernel, its reference and its inputs.
        dtype: See `audit_kernel`.
        tolerance: See `audit_kernel`.
        seed: See `audit_kernel`.
        device: See `audit_kernel`.
        max_time: See `audit_kernel`.
        show: See `audit_kernel`.
        hardware: Whether a CPU audit predicts the bits of an H200 instead of rounding every operation correctly.
        replay: The command that repeats the run.
        data: The user's own inputs, which are measured in place of the drawn ones, as arrays of the same library.

    Returns:
        The result.

    Raises:
        UsageError: An argument cannot be used as given.
        Unavailable: Triton, torch or a GPU is needed and missing.
    """
    from tritongemm.auditing.kernel_judgement import judge_kernel
    from tritongemm.auditing.kernel_report import kernel_document

    if seed < 0:
        raise UsageError(f"seed: {seed}; give a whole number that is not negative.")
    if not max_time > 0:
        raise UsageError(f"max_time: {max_time} seconds; give a positive number.")
    if dtype is not None:
        dtype = element_named(dtype).name
    started = time.monotonic()
    show = show or (lambda what, done: None)
    place = place_named(device, case)
    sides = [Side("A", case.name, case.kernel)]
    if case.rival is not None:
        sides.append(Side("B", str(getattr(case.rival, "__name__", "rival")), case.rival))
    floats = "hardware" if hardware else "ieee"
    run = _Run(case, place, dtype, tolerance, seed, started, started + max_time, show, floats)
    if data is not None:
        data = as_drawn(case, data, seed)
    if data is None:
        show("comparing payloads", 0)
        algebra = compare_payloads(case, place.kind, dtype, seed, _ALGEBRA_SHARE * max_time)
    else:
        algebra = KernelAlgebra(UNKNOWN, reason="the user's own inputs are measured; payloads are left out")
    specs = plan(case, place.kind, seed) if data is None else [Spec(OWN_INPUTS)]
    done = run.trials(specs, sides, data)
    if data is None and place.kind == "gpu":
        run.reruns(sides)
    for side in sides:
        if data is None and _another_formula(side):
            show("finding out what depends on what", 0)
            side.reads = run.reads(side)
    growth = run.growth(sides[0]) if data is None and case.reduced else ()
    for side in sides:
        if not _another_formula(side) and any(not m.accepted for m in side.measured):
            show("finding the lines that lose accuracy", 0)
            run.lines(side)
    if algebra.status == UNKNOWN and sides[0].measured and not sides[0].launched:
        algebra.status, algebra.reason = NOT_APPLICABLE, "it launches no Triton kernel"
    verdict = judge_kernel(case, algebra, sides, growth, len(specs), done)
    facts = {
        "kind": "kernel",
        "case": {"name": case.name, "spec": case.spec, "sizes": case.sizes, "dtype": dtype, "seed": seed},
        "device": place_text(place),
        "versions": _versions(),
        "replay": replay or f"tritongemm.audit_kernel, seed {seed}",
        "seconds": round(time.monotonic() - started, 3),
    }
    document = kernel_document(case, algebra, sides, growth, verdict, facts)
    return KernelAudit(verdict, document, algebra, tuple(sides), tuple(growth), facts)


def _versions() -> dict[str, str]:
    import importlib.metadata

    found = {"tritongemm": tritongemm.__version__, "numpy": np.__version__}
    for name in ("triton", "torch"):
        if name in sys.modules:
            found[name] = importlib.metadata.version(name)
    return found


def place_named(device: str, case: Case) -> Place:
    """Where to audit: "cpu", "gpu", or "auto": the GPU where torch is loaded and finds one.

    Raises:
        UsageError: Another name.
        Unavailable: There is no GPU.
    """
    from tritongemm.auditing.devices import Gpu, driver_sees_gpu

    if device not in ("cpu", "gpu", "auto"):
        raise UsageError(f"device: {device!r} is no device. {nearest(device, ['auto', 'cpu', 'gpu'])}")
    if device == "cpu" or (device == "auto" and not driver_sees_gpu()):
        return CpuPlace()
    try:
        Gpu()  # Says what is missing.
    except Unavailable:
        if device == "gpu":
            raise
        return CpuPlace()
    return GpuPlace()


def place_text(place: Place) -> str:
    """The device and what runs there, for the report."""
    from tritongemm.auditing.devices import Cpu, Gpu

    return (Gpu() if place.kind == "gpu" else Cpu()).describe()


def plan(case: Case, device: str, seed: int) -> list[Spec]:
    """The trials: as drawn, around every tile size, the smallest, distributions, more shapes, another seed.

    Args:
        case: The case.
        device: "cpu" or "gpu".
        seed: Of the inputs.
    """
    sizes = case.sizes
    specs = [Spec(GIVEN, seed=seed)]
    for name, tile in case.tiles.items():
        for n, words in ((tile - 1, "one less than a tile"), (tile + 1, "one more than a tile"), (tile, "whole tiles")):
            if n >= 1:
                specs.append(Spec(words, case.legal({name: n}), seed=seed))
    if not case.tiles:
        specs += [Spec("one more than usual", case.legal({name: n + 1}), seed=seed) for name, n in sizes.items()]
    if sizes:
        specs.append(Spec("the smallest", case.legal(dict.fromkeys(sizes, 1)), seed=seed))
    specs += [Spec("as drawn, otherwise distributed", {}, change, seed) for change in case.changes]
    specs += [Spec("a shape of the adapter", dict(shape), seed=seed) for shape in case.shapes]
    if device == "gpu" and case.production:
        specs.append(Spec("production", dict(case.production), seed=seed))
    specs.append(Spec("another seed", seed=seed + 1))
    unique: dict[tuple[Any, ...], Spec] = {}
    for spec in specs:
        key = (tuple(sorted({**sizes, **spec.sizes}.items())), spec.change, spec.seed)
        unique.setdefault(key, spec)
    return list(unique.values())


@dataclass
class _Run:
    """Runs the trials of an audit."""

    case: Case
    place: Place
    dtype: str | None
    tolerance: Tolerance | None
    seed: int
    started: float
    deadline: float
    show: Show
    floats: str = "ieee"
    #: By a function's id, the arrays that it has written to.
    written: dict[int, frozenset[str]] = field(default_factory=dict)

    @property
    def gradients(self) -> tuple[str, ...]:
        return tuple(self.case.gradients)

    def trials(self, specs: Sequence[Spec], sides: list[Side], data: Inputs | None) -> int:
        """Runs trials until time is over; returns how many."""
        longest = 0.0
        for number, spec in enumerate(specs):
            lap = time.monotonic()
            if number and lap + longest > self.deadline:
                return number
            self.show(f"{spec.why}, trial {number + 1} of {len(specs)}", number / len(specs))
            inputs = make_inputs(self.case, spec, self.dtype) if data is None else data
            try:
                self._trial(spec, sides, inputs)
            except OutOfTime as error:
                if number == 0:
                    sides[0].failed = one_line(error)
                return number
            longest = max(longest, time.monotonic() - lap)
            if all(side.failed for side in sides):
                break  # Time is not what is lacking.
        return len(specs)

    def _trial(self, spec: Spec, sides: list[Side], inputs: Inputs) -> None:
        here = self.place.inputs(inputs)
        try:
            golden, moved, library = self._references(here, spec)
        except Refused as error:
            for side in sides:
                side.refused.append((spec, f"the reference: {error}"))
            if spec.why == GIVEN and spec.seed == self.seed:
                raise UsageError(f"reference: it fails in float64 on its inputs: {error}") from error
            if spec.why == OWN_INPUTS:
                raise UsageError(f"--data: the reference fails in float64 on these inputs: {error}") from error
            return
        near = self._samples(here, spec)
        for side in sides:
            if side.failed:
                continue
            outputs = self._run_side(side, spec, here)
            if outputs is None:
                continue
            try:
                pairs = paired(outputs, golden)
            except KernelFailed as error:
                side.failed = f"at {_sizes_text(self.case, spec)} {one_line(error)}"
                continue
            exact = self._exact(side, inputs, spec, outputs)
            small = sum(v.values.size for v in outputs.values()) <= _SMALL
            usual = {m.output: m.rms for m in side.measured if m.spec.why == GIVEN}
            for mine, (its, own, right) in pairs.items():
                found = measure(
                    spec,
                    mine,
                    own,
                    library.get(its),
                    right.values,
                    moved[its].values if its in moved else None,
                    self.tolerance,
                    exact[mine] if exact is not None and mine in exact else None,
                    keep=small,
                    usual=usual.get(mine, 0.0),
                    # What a forward pass keeps for the backward one is rounded too.
                    several=side.launched > 1 or bool(self.gradients),
                    golden_dtype=right.dtype,
                    unit=_unit(inputs),
                )
                near, again = itertools.tee(near)
                side.measured.append(self._second_look(found, again, its))

    def _samples(self, inputs: Inputs, spec: Spec) -> Iterator[Sample]:
        """More results of the reference, each computed when somebody asks for it; none of fp64 inputs."""
        if not takes_fp64(inputs):
            yield from samples(lambda given: self._called(self.case.reference, given, spec), inputs, spec.seed)

    def _second_look(self, m: Measured, near: Iterator[Sample], its: str) -> Measured:
        """The same measured beside more results of the reference, if it is refused for its rounding errors."""
        if not m.may_be_luck or math.prod(m.shape) > _LOOKED_AT:
            return m
        for sample in near:
            rms, largest = sample.get(its, (0.0, 0.0))
            m = replace(m, next_to_it=(max(rms, m.next_to_it[0]), max(largest, m.next_to_it[1])))
            if m.accepted or time.monotonic() > self.deadline:
                break
        return m

    def _references(self, inputs: Inputs, spec: Spec) -> tuple[dict[str, Values], dict[str, Values], dict[str, Values]]:
        """Float64, float64 with moved inputs, and the library in the inputs' own types."""
        reference = self.case.reference
        rng = np.random.default_rng([spec.seed, 5])
        golden = self._called(reference, in_float64(inputs), spec)
        moved = self._called(reference, in_float64(inputs, rng, _unit(inputs)), spec)
        library: dict[str, Values] = {}
        narrow = any((kind := float_element(x)) is not None and kind.format.bits <= 16 for x in inputs.values())
        try:
            library = self._called(reference, inputs, spec)
            usable = all(v.dtype != "fp64" for v in library.values()) or not narrow
        except (Refused, UsageError):
            usable = False
        if not usable and narrow:
            try:
                library = self._called(reference, in_float32(inputs), spec)
            except (Refused, UsageError):
                library = {}
        return golden, moved, library

    def _called(self, function: Callable[..., Any], inputs: Inputs, spec: Spec) -> dict[str, Values]:
        """Calls a side or the reference.

        Arrays that it has written to once are results ever after: a result may be what they hold already.
        """
        written = self.written.get(id(function), frozenset())
        buffers = inputs.keys() - names_taken(self.case.reference, inputs)
        outputs = call(function, inputs, self.gradients, spec.seed, written=written, buffers=buffers)
        self.written[id(function)] = written | outputs.keys()
        return outputs

    def _run_side(self, side: Side, spec: Spec, inputs: Inputs) -> dict[str, Values] | None:
        first = not side.measured and not side.refused
        try:
            if isinstance(self.place, CpuPlace):
                watch = Watch(self.deadline)
                with fpsan_tools.on_cpu(self.floats, observer=watch) as session:
                    outputs = self._called(side.function, inputs, spec)
                launches = session.launches
                side.launched = max(side.launched, len(launches))
                side.kernels = tuple(dict.fromkeys((*side.kernels, *(x.kernel for x in launches))))
                side.notes = tuple(dict.fromkeys((*side.notes, *(n for x in launches for n in x.notes), *watch.note())))
                return outputs
            outputs = self._called(side.function, inputs, spec)
            if first:
                side.launched = self.place.launches(side.function, inputs)
            return outputs
        except OutOfTime:
            raise
        except fpsan_tools.OutOfBounds as error:
            side.out_of_bounds = side.out_of_bounds or f"{_sizes_text(self.case, spec)}: {one_line(error)}"
        except fpsan_tools.FpsanError as error:
            said = "it is written in Gluon, which no CPU evaluates (--device gpu)" if "Gluon" in str(error) else ""
            self._refusal(side, spec, said or one_line(error), first)
        except Refused as error:
            self._refusal(side, spec, str(error), first)
        return None

    def _refusal(self, side: Side, spec: Spec, said: str, first: bool) -> None:
        if first:
            side.failed = said
        else:
            side.refused.append((spec, said))

    def _exact(self, side: Side, inputs: Inputs, spec: Spec, outputs: Mapping[str, Values]) -> dict[str, Values] | None:
        """The kernel's results without rounding, if its kernels can be evaluated.

        Arrays that it writes to are of fp32 for that, where it takes them so: the rounding of a narrow result would
        hide a wrong formula.
        """
        if not side.launched or (self.place.kind == "gpu" and spec.why == "production"):
            return None
        here = CpuPlace().inputs(inputs)
        read = names_taken(self.case.reference, here)
        buffers = {name: x for name, x in here.items() if name in outputs or name not in read}
        if widened_buffers := {name: y for name, x in buffers.items() if (y := in_float32({name: x})[name]) is not x}:
            made = self._without_rounding(side, {**here, **widened_buffers}, spec)
            if made is not None and set(made) == set(outputs):
                return made
        return self._without_rounding(side, here, spec)

    def _without_rounding(self, side: Side, inputs: Inputs, spec: Spec) -> dict[str, Values] | None:
        try:
            with fpsan_tools.on_cpu("real", observer=(watch := Watch(self.deadline))) as session:
                made = self._called(side.function, inputs, spec)
            side.operations = operations_of(session.launches, watch) | side.operations
        except (fpsan_tools.FpsanError, Refused, UsageError):
            return None
        return made if session.launches else None

    def reruns(self, sides: list[Side]) -> None:
        """Whether a GPU gives the same bits every time."""
        spec = Spec(GIVEN, seed=self.seed)
        inputs = self.place.inputs(make_inputs(self.case, spec, self.dtype))
        for side in sides:
            if side.failed:
                continue
            runs = [self._called(side.function, inputs, spec) for _ in range(_RERUNS)]
            side.reruns = sum(
                int((~((x.values == y[name].values) | (np.isnan(x.values) & np.isnan(y[name].values)))).sum())
                for y in runs[1:]
                for name, x in runs[0].items()
            )

    def growth(self, side: Side) -> tuple[Growth, ...]:
        """Errors along the reduced size, relative to the results."""
        assert self.case.reduced is not None
        if side.failed:
            return ()
        base = max(2, self.case.sizes[self.case.reduced])
        found: dict[str, list[_Row]] = {}
        refused: list[Measured] = []
        for number, factor in enumerate(_GROWTH):
            self.show("growth of the errors", number / len(_GROWTH))
            if time.monotonic() > self.deadline:
                break
            length = base * factor
            for seed in (self.seed, self.seed + 1):
                spec = Spec("growth", {self.case.reduced: length}, seed=seed)
                probe = Side(side.letter, side.name, side.function, launched=0)
                try:
                    self._trial_without_formula(spec, probe)
                except (OutOfTime, UsageError, KernelFailed, Refused):
                    break
                for m in probe.measured:
                    if m.rms and m.library:
                        own, library, least = m.own.rms, m.library.rms, m.reference_errors[0]
                        found.setdefault(m.output, []).append((length, own / m.rms, library / m.rms, least / m.rms))
                refused += [m for m in probe.measured if not (m.accepted or m.meaningless or m.problem)]
        side.measured += refused  # The others would repeat what the slope says.
        return tuple(_grown(self.case.reduced, name, rows) for name, rows in found.items())

    def _trial_without_formula(self, spec: Spec, probe: Side) -> None:
        here = self.place.inputs(make_inputs(self.case, spec, self.dtype))
        golden, moved, library = self._references(here, spec)
        outputs = self._run_side(probe, spec, here)
        if outputs is None:
            return
        near = self._samples(here, spec)
        for mine, (its, own, right) in paired(outputs, golden).items():
            found = measure(spec, mine, own, library.get(its), right.values, moved[its].values)
            near, again = itertools.tee(near)
            probe.measured.append(self._second_look(found, again, its))

    def reads(self, side: Side) -> str:
        """Which inputs results depend on otherwise than in the reference, at the first sizes of another formula."""
        wrong = _another_formula(side)
        shown = next((m for m in wrong if m.spec.change == GIVEN), wrong[0])
        if math.prod(shown.shape) > _SMALL or self.gradients:
            return ""
        spec = shown.spec
        inputs = CpuPlace().inputs(make_inputs(self.case, spec, self.dtype))
        names = names_taken(self.case.reference, inputs)
        if self.case.varied is not None:
            names &= frozenset(self.case.varied)
        try:
            return read_otherwise(
                lambda given: self._without_rounding(side, given, spec),
                lambda given: self._called(self.case.reference, in_float64(given), spec),
                inputs, names, self.deadline,
            )  # fmt: skip
        except (OutOfTime, Refused, UsageError):
            return ""

    def lines(self, side: Side) -> None:
        """Source lines that lose accuracy, of the first trial that is refused."""
        refused = next((m for m in side.measured if not m.accepted), None)
        if refused is None or math.prod(refused.shape) > _SMALL or not side.launched:
            return
        inputs = make_inputs(self.case, refused.spec, self.dtype)
        recorder = _Recorder()
        try:
            with _engaged(recorder):
                call(side.function, CpuPlace().inputs(inputs))
        except (fpsan_tools.FpsanError, Refused, UsageError):
            return
        for found in recorder.found:
            for line in found.lines[:3]:
                if line.share >= 0.05:
                    side.lines.append((f"{Path(line.file).name}:{line.line}", line.text, line.share, line.error))


def _another_formula(side: Side) -> list[Measured]:
    """The outputs that are not the reference's even without rounding."""
    return [m for m in side.measured if m.formula is not None and m.formula > 1]


def _unit(inputs: Inputs) -> float:
    """How far the inputs of the reference are moved, relatively."""
    return _ROUNDED_FP64 if takes_fp64(inputs) else numfmt.FP32.unit_roundoff


# Length, and the errors of the kernel, of the reference, and what they are compared with; relative to the results.
_Row = tuple[int, float, float, float]


def _grown(size: str, output: str, rows: list[_Row]) -> Growth:
    lengths = sorted({row[0] for row in rows})

    def mean(column: int, n: int) -> float:
        return float(np.sqrt(np.mean([row[column] ** 2 for row in rows if row[0] == n])))

    own, library = (tuple(mean(column, n) for n in lengths) for column in (1, 2))
    least = mean(3, lengths[-1])
    return Growth(size, output, tuple(lengths), own, library, own[-1] / least if least else 0.0)


def _sizes_text(case: Case, spec: Spec) -> str:
    sizes = {**case.sizes, **spec.sizes}
    return ", ".join(f"{k} = {v}" for k, v in sizes.items()) or "its only size"


class _Recorder:
    """Ranks the source lines of every launch by their rounding errors, then evaluates the launch."""

    def __init__(self) -> None:
        self.found: list[Any] = []

    def launch(
        self,
        kernel: Any,
        grid: Any,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        warmup: bool,
        original: Callable[..., Any],
    ) -> Any:
        """See `fpsan_tools.dispatch.Engine`."""
        self.found.append(fpsan_tools.errors(kernel, grid, *arguments, **keywords))
        return fpsan_tools.run(kernel, grid, *arguments, domain="ieee", **keywords)


def _engaged(engine: Any) -> Any:
    from fpsan_tools import dispatch

    return dispatch.engaged(engine)


__all__ = ["GPU_ONLY", "Growth", "KernelAudit", "Side", "audit_case", "audit_kernel", "plan"]
