"""The audit: both kernels through all four parts, and the report files."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import fpsan_tools
import tritongemm
from tritongemm.accuracy import Tolerance
from tritongemm.auditing import explanation
from tritongemm.auditing.algebra import AlgebraEvidence, compare
from tritongemm.auditing.baseline import Figures
from tritongemm.auditing.contestants import Choices, Contestant, contestant, find, origin, usable_triton
from tritongemm.auditing.data import operands_of
from tritongemm.auditing.devices import Cpu, Gpu, codes_of, device_named, values_of
from tritongemm.auditing.diagnosis import diagnose
from tritongemm.auditing.document import Document
from tritongemm.auditing.measured import torch_tolerance
from tritongemm.auditing.numbers import settle_by_numbers
from tritongemm.auditing.report import document
from tritongemm.auditing.rounding import RoundingEvidence, Setting, full, sampled
from tritongemm.auditing.sampling import DISTRIBUTION_TEXT, DISTRIBUTIONS, draw
from tritongemm.auditing.saving import save_report
from tritongemm.auditing.verdict import Verdict, judge
from tritongemm.errors import KernelFailed, UsageError, nearest, one_line
from tritongemm.matrices import dtype_named, name_of

DEFAULT_SHAPE = (8192, 4096, 6144)  # M, N, K
DEFAULT_KERNELS = ("strided_lanes", "blocked")
DEFAULT_MAX_TIME = 120.0
_ALGEBRA_SHARE = 0.25
# Seconds that evaluations get in any case: one comparison and one sample are made however short the time.
_LEAST_TIME = 20.0
# A GPU evaluates every output of products up to this many; larger ones would not fit beside their float64 reference.
_LARGEST_DIMENSION = 1 << 20
_MEMORY_SHARE = 0.6

Show = Callable[[str, float], None]


@dataclass(frozen=True)
class AuditResult:
    """Everything an audit found.

    Attributes:
        verdict: The outcome; `verdict.status` is one of PASS, PASS WITH LIMITATIONS, FAIL, INCONCLUSIVE.
        document: The report's content.
        algebra: Evidence of part 1.
        rounding: Evidence of parts 2 and 3, None if the kernels' floats could not be computed.
        contestants: The two kernels as they were run.
        facts: Product, versions, seed, replay command, for JSON.
    """

    verdict: Verdict
    document: Document
    algebra: AlgebraEvidence
    rounding: RoundingEvidence | None
    contestants: tuple[Contestant, Contestant]
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
        e, r = self.algebra, self.rounding
        trials = [
            {
                "M": t.M,
                "N": t.N,
                "K": t.K,
                "layout": t.layout,
                "why": t.why,
                "different": t.different,
                "A_away_from_product": t.away("A"),
                "B_away_from_product": t.away("B"),
            }
            for t in e.trials
        ]
        rounding = None
        if r is not None:
            rounding = {
                "reference": r.gate,
                "names": dict(r.names),
                "strata": {
                    s: {k: report.as_dict() for k, report in reports.items()} for s, reports in r.strata.items()
                },
                "evaluated": r.evaluated,
                "planned": r.planned,
                "equal_bits": r.equal,
                "largest_difference": r.largest_difference,
                "survey": None
                if r.survey is None
                else {
                    "outputs": r.survey.outputs,
                    "total": r.survey.total,
                    "library_outside": r.survey.library_outside,
                    "rms": r.survey.rms,
                },
                "distributions": {
                    s.name: {key: report.as_dict() for key, report in s.reports.items()} for s in r.swept
                },
                "seconds": round(r.seconds, 3),
            }
        figures: Figures = {}
        for stratum, reports in {} if r is None else r.strata.items():
            for key in ("A", "B"):
                report = reports[key]
                figures |= {
                    f"{key}, {stratum}: rms error": report.rms_abs,
                    f"{key}, {stratum}: largest error": report.max_abs,
                    f"{key}, {stratum}: outside of float64": float(report.outside),
                    f"{key}, {stratum}: beyond the bound": float(report.bound_exceeded),
                    f"{key}, {stratum}: NaN or infinity": float(report.wrong_special),
                }
        return {
            "verdict": {
                "status": self.status,
                "exit_code": self.exit_code,
                "sentences": self.verdict.sentences,
                "failures": self.verdict.failures,
                "doubts": self.verdict.doubts,
                "limitations": self.verdict.limitations,
                "notes": self.verdict.notes,
            },
            **self.facts,
            "algebra": {
                "status": e.status,
                "version": e.version,
                "reason": e.reason,
                "conversions": e.conversions,
                "absent": dict(e.absent),
                "checked": dict(e.checked),
                "exact": dict(e.exact),
                "imprecise": dict(e.imprecise),
                "trials": trials,
                "unsanitised": {k: list(v) for k, v in e.unsanitised.items()},
                "notes": {k: list(v) for k, v in e.notes.items()},
                "diagnosis": e.diagnosis,
                "seconds": round(e.seconds, 3),
            },
            "rounding": rounding,
            "explanation": None
            if r is None
            else {
                "orders": {k: explanation.as_dict(v) for k, v in r.identified.items()},
                "equal_to_serial_chain": r.chain_equal,
                "of_outputs": r.chain_outputs,
                "precision": dict(r.precision),
                "growth": [{**asdict(g), "slope": g.slope, "reading": g.reading()} for g in r.growth],
            },
            "figures": figures,
        }

    def beside(self, sentences: list[str]) -> AuditResult:
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


def audit(
    kernel_a: Any = DEFAULT_KERNELS[0],
    kernel_b: Any = DEFAULT_KERNELS[1],
    *,
    M: int = DEFAULT_SHAPE[0],
    N: int = DEFAULT_SHAPE[1],
    K: int = DEFAULT_SHAPE[2],
    dtype: str = "fp32",
    out_dtype: str | None = None,
    distribution: str = "uniform",
    seed: int = 0,
    atol: float | None = None,
    rtol: float | None = None,
    device: str = "auto",
    max_time: float = DEFAULT_MAX_TIME,
    choices_a: Choices | None = None,
    choices_b: Choices | None = None,
    data: tuple[Any, Any] | None = None,
    data_files: Sequence[str] = (),
    hardware: bool = False,
    show: Show | None = None,
) -> AuditResult:
    """Compares two matrix-product kernels: algebra, rounding, order of summation; and judges them.

    Kernels given by name are imported, which executes their files.

    Args:
        kernel_a: A `@triton.jit` kernel, or its name: "blocked", "package.module:kernel", "file.py:kernel".
        kernel_b: The other one.
        M: Rows of the product.
        N: Columns of the product.
        K: Products per output.
        dtype: Type of the operands: "fp32", "fp16" or "bf16".
        out_dtype: Type of the result; the operands' if not given.
        distribution: How operands are drawn: "uniform" (-1 to 1), "positive" (0 to 1), "normal" or "wide".
        seed: Seed of operands and sample.
        atol: Absolute tolerance of the test whose failures are counted; if neither is given, both are 1e-4 for fp32
            results and torch.testing's for narrower ones.
        rtol: Relative tolerance.
        device: "cpu" (evaluated samples), "gpu" (every output, launched) or "auto".
        max_time: Seconds that a CPU audit may take; its sample shrinks to fit.
        choices_a: Constants, grid and configuration of kernel A.
        choices_b: ... of kernel B.
        data: The operands A and B themselves, matrices of `dtype` numbers (NumPy, torch, or `fpsan_tools.typed`);
            M, N, K, dtype, distribution and seed of the operands are then theirs.
        data_files: The files that they are from, for the report and the command that repeats the audit.
        hardware: Whether a CPU audit predicts the bits of an H200 instead of rounding every operation correctly.
        show: Called with what is being done and the share of it that is done.

    Returns:
        The result; `print(result)` shows the report, `result.save()` writes it.

    Raises:
        UsageError: An argument cannot be used as given.
        Unavailable: Triton, torch or a GPU is needed and missing.
    """
    started = time.monotonic()
    show = show or (lambda what, done: None)
    operands = None
    if data is not None:
        *operands, dtype = operands_of(*data)
        (M, K), N = operands[0].shape, operands[1].shape[1]
    for name, value in (("M", M), ("N", N), ("K", K)):
        if not 1 <= value <= _LARGEST_DIMENSION:
            raise UsageError(f"{name}: {value}, but an audit needs 1 to {_LARGEST_DIMENSION}.")
    if not max_time > 0:
        raise UsageError(f"max_time: {max_time} seconds; give a positive number.")
    kinds = (name_of(dtype_named(dtype)), name_of(dtype_named(out_dtype or dtype, "out_dtype")))
    tolerance = _tolerance(atol, rtol, kinds[1])
    if seed < 0:
        raise UsageError(f"seed: {seed}; give a whole number that is not negative.")
    _check_memory(M, N, K)
    if distribution not in DISTRIBUTIONS:
        raise UsageError(
            f"distribution: {distribution!r} is no distribution of operands. {nearest(distribution, DISTRIBUTIONS)}"
        )
    version, untested = usable_triton()
    place = device_named(device)
    if isinstance(place, Cpu):
        place.floats, place.deadline = "hardware" if hardware else "ieee", started + max(max_time, _LEAST_TIME)
    precisions = _precisions({"A": choices_a, "B": choices_b}, kinds[0])
    pair = []
    for letter, given, choices in (("A", kernel_a, choices_a), ("B", kernel_b, choices_b)):
        found, name, spec = (*find(given, letter), given) if isinstance(given, str) else (given, *origin(given))
        pair.append(contestant(found, letter, spec, name, choices))
    contestants = (pair[0], pair[1])
    show("drawing the operands", 0)
    a, b = draw(M, N, K, seed, distribution) if operands is None else operands
    if kinds[0] != "fp32" and operands is None:
        a, b = (values_of(codes_of(x, kinds[0]), kinds[0]).reshape(x.shape) for x in (a, b))
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            raise UsageError(
                f"distribution: {DISTRIBUTION_TEXT[distribution]} reaches beyond {kinds[0]}'s largest number "
                f"{dtype_named(kinds[0]).max:g}; choose other --inputs, or --dtype bf16 or fp32."
            )
    show("comparing payloads", 0)
    evidence = compare(
        contestants,
        place,
        (M, N, K),
        kinds,
        seed,
        started + _ALGEBRA_SHARE * max_time,
        lambda x: show("comparing payloads", x),
    )
    settle_by_numbers(evidence, contestants, place, kinds)
    wrong = evidence.status == "different" or any(t.away("A") for t in evidence.trials)
    if wrong and not evidence.diagnosis:
        show("finding out what differs", 0)
        evidence.diagnosis = diagnose(evidence, contestants, place, kinds, seed)
    setting = Setting(a, b, kinds, tolerance, seed, precisions)
    rounding, problem = None, ""
    try:
        if isinstance(place, Gpu):
            rounding = full(contestants, place, setting, show)
        else:
            assert isinstance(place, Cpu)
            rounding = sampled(contestants, place, setting, started, max_time, show, brief=wrong)
    except (fpsan_tools.FpsanError, KernelFailed) as error:
        problem = one_line(error)
    except RuntimeError as error:  # PyTorch's, of a GPU that a kernel broke or that has no room.
        if not isinstance(place, Gpu):
            raise
        problem = one_line(error)
    verdict = judge(contestants, evidence, rounding, problem, untested)
    given = (atol, rtol) if (atol, rtol) != (None, None) else None
    options = _options(M, N, K, kinds, distribution, seed, given, place.kind, max_time, choices_a, choices_b)
    options += ["--hardware"] if hardware else []
    options += ["--data", *data_files] if data_files else []
    replay = shlex.join(["tritongemm", "audit", contestants[0].spec, contestants[1].spec, *options])
    from_files = " and ".join(data_files)
    product = (
        f"C[{M},{N}] = A[{M},{K}] B[{K},{N}], {kinds[0]}"
        + (f" to {kinds[1]}" if kinds[1] != kinds[0] else "")
        + (
            f", operands {'from ' + from_files if data_files else 'of the caller'}, sample seed {seed}"
            if data is not None
            else f", operands from {DISTRIBUTION_TEXT[distribution]}, seed {seed}"
        )
    )
    where = f"{place.describe()}; Triton {version}, tritongemm {tritongemm.__version__}"
    report = document(contestants, product, where, replay, evidence, rounding, verdict)
    facts = {
        "product": {
            "M": M,
            "N": N,
            "K": K,
            "dtype": kinds[0],
            "out_dtype": kinds[1],
            "distribution": distribution if data is None else f"data {from_files}".strip(),
            "seed": seed,
            "atol": tolerance.atol,
            "rtol": tolerance.rtol,
        },
        "device": place.describe(),
        "versions": {"tritongemm": tritongemm.__version__, "triton": version, "numpy": np.__version__},
        "replay": replay,
        "kernels": {
            c.letter: {
                "name": c.name,
                "spec": c.spec,
                "signature": c.signature.name,
                "constants": {
                    k: v if isinstance(v, (int, float, str, type(None))) else repr(v) for k, v in c.constants.items()
                },
                "options": dict(c.options),
                "grid": c.grid_text,
                "remarks": list(c.remarks),
                "limitations": list(c.limitations),
            }
            for c in contestants
        },
        "seconds": round(time.monotonic() - started, 3),
    }
    return AuditResult(verdict, report, evidence, rounding, contestants, facts)


def _tolerance(atol: float | None, rtol: float | None, out: str) -> Tolerance:
    """The tolerance that was given, or the usual one of the results' type."""
    usual = Tolerance() if out == "fp32" else torch_tolerance(out)
    return Tolerance(usual.atol if atol is None else atol, usual.rtol if rtol is None else rtol)


def _precisions(choices: Mapping[str, Choices | None], operands: str) -> dict[str, str]:
    """The declared precision modes, checked.

    Raises:
        UsageError: There is no such mode, or it does not take these operands.
    """
    found = {}
    for letter, one in choices.items():
        if one is not None and one.precision is not None:
            from tritongemm import modes

            argument = f"choices_{letter.lower()}.precision"
            try:
                mode = modes.get(one.precision)
                mode.of((operands, operands), argument)
            except UsageError as error:
                raise UsageError(re.sub("^precision:", f"{argument}:", str(error))) from None
            found[letter] = mode.name
    return found


def _check_memory(M: int, N: int, K: int) -> None:
    """Refuses products whose operands (fp32, and B in float64) do not fit."""
    needed = K * (4 * M + 12 * N)
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf.
        return
    if needed > _MEMORY_SHARE * there:
        raise UsageError(
            f"M, N, K: {M}, {N} and {K} make operands of {needed / 2**30:,.1f} GiB, and this machine has "
            f"{there / 2**30:,.1f} GiB; give smaller sizes with --m, --n and --k."
        )


def _options(
    M: int,
    N: int,
    K: int,
    kinds: tuple[str, str],
    distribution: str,
    seed: int,
    tolerance: tuple[float | None, float | None] | None,
    kind: str,
    max_time: float,
    choices_a: Choices | None,
    choices_b: Choices | None,
) -> list[str]:
    """The command-line options that repeat a run."""
    options = ["--m", M, "--n", N, "--k", K, "--seed", seed, "--device", kind]
    if kinds[0] != "fp32":
        options += ["--dtype", kinds[0]]
    if kinds[1] != kinds[0]:
        options += ["--out-dtype", kinds[1]]
    if distribution != "uniform":
        options += ["--inputs", distribution]
    for name, value in zip(("--atol", "--rtol"), tolerance or (), strict=False):
        options += [name, value] if value is not None else []
    if max_time != DEFAULT_MAX_TIME:
        options += ["--max-time", f"{max_time:g}"]
    for letter, choices in (("a", choices_a), ("b", choices_b)):
        if choices is None:
            continue
        for name, value in choices.constants.items():
            options += [f"--const-{letter}", f"{name}={value}"]
        if choices.grid is not None:
            options += [f"--grid-{letter}", choices.grid]
        if choices.config:
            options += [f"--config-{letter}", choices.config]
        if not choices.fusion:
            options += [f"--no-fusion-{letter}"]
        if choices.zeroed:
            options += [f"--zeroed-{letter}"]
        if choices.precision:
            options += [f"--precision-{letter}", choices.precision]
    return [str(o) for o in options]


__all__ = ["AuditResult", "audit"]
