"""Part 1 of an audit of any kernel: the same algebra as its rival or its reference, and the same formula?

Payloads decide it where both sides have them: Triton kernels, and references in PyTorch. Beside that the kernel is run
without rounding, in float64, and compared with the reference in float64: that tells another formula from rounding for
every reference, though not to the last bit.
"""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import fpsan_tools
from tritongemm.auditing.cases import Case
from tritongemm.auditing.trials import Refused, Spec, by_name, drawn, make_inputs
from tritongemm.errors import TritongemmError, one_line
from tritongemm.matrices import is_torch

_OF_NUMPY = "{} is computed by NumPy; with PyTorch tensors from inputs() payloads are compared"
SAME, DIFFERENT, UNKNOWN, NOT_APPLICABLE, GPU_ONLY = "same", "different", "unknown", "not applicable", "GPU only"


@dataclass
class KernelAlgebra:
    """What payloads showed.

    Attributes:
        status: "same", "different", "unknown", "not applicable" or "GPU only".
        against: What the kernel was compared with.
        text: The comparison in a sentence.
        reason: Why there is no comparison.
        findings: What a difference is due to.
        excused: Whether a known non-identity of the algebra, or a rounding to a narrower type, explains a difference.
        unsanitised: Operations that payloads do not cover.
        version: Of the algebra.
        seconds: Time taken.
    """

    status: str
    against: str = ""
    text: str = ""
    reason: str = ""
    findings: list[str] = field(default_factory=list)
    excused: bool = False
    unsanitised: list[str] = field(default_factory=list)
    version: str = ""
    seconds: float = 0.0


def compare_payloads(case: Case, engine: str, dtype: str | None, seed: int, budget: float) -> KernelAlgebra:
    """Compares the kernel's payloads with those of its rival, or of its reference.

    Args:
        case: The kernel.
        engine: "cpu" or "gpu".
        dtype: Type of the inputs.
        seed: Of the inputs.
        budget: Seconds that explaining a difference may take.
    """
    started = time.monotonic()
    other = case.rival or case.reference
    against = str(getattr(other, "__name__", "<lambda>")).replace("<lambda>", "the reference")
    # Payload softmax and the like keep their identities at odd lengths only.
    sizes = case.legal({name: n | 1 for name, n in case.sizes.items()})

    def make(rng: Any, **given: int) -> dict[str, Any]:
        return make_inputs(case, Spec("payloads", given, seed=int(rng.integers(1 << 31))), dtype)

    rng = inspect.Parameter("rng", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=d) for n, d in case.sizes.items()]
    make.__signature__ = inspect.Signature([rng, *named])  # type: ignore[attr-defined]
    try:
        with np.errstate(all="ignore"):
            verdict = fpsan_tools.check(
                by_name(case.kernel), by_name(other), make, engine=engine, seeds=(seed, seed + 1), sizes=sizes,
                budget=budget, diagnose=budget > 0,
            )  # fmt: skip
    except (fpsan_tools.FpsanError, TritongemmError, Refused) as error:
        status, reason = _why_not(error, against)
        return KernelAlgebra(status, against, reason=reason, seconds=time.monotonic() - started)
    except Exception as error:
        status, reason = UNKNOWN, f"{type(error).__name__} in payload arithmetic: {one_line(error)}"
        if case.rival is None and not any(is_torch(x) for x in drawn(case, Spec("", sizes, seed=seed)).values()):
            status, reason = NOT_APPLICABLE, _OF_NUMPY.format(against)
        return KernelAlgebra(status, against, reason=reason, seconds=time.monotonic() - started)
    status = {"equal": SAME, "different": DIFFERENT}.get(verdict.outcome, UNKNOWN)
    kinds = {finding.kind for finding in verdict.findings}
    excused = any(f.benign for f in verdict.findings) or bool(kinds & {"narrowing", "extra rounding"})
    places = [f"{g.op} ({Path(g.file).name}:{g.line})" if g.file else g.op for g in verdict.gaps]
    return KernelAlgebra(
        status,
        against,
        text=verdict.headline,
        reason=verdict.reason if status == UNKNOWN else "",
        findings=[f.text for f in verdict.findings] + ([verdict.divergence.text] if verdict.divergence else []),
        excused=excused,
        unsanitised=list(dict.fromkeys(places)),
        version=verdict.version,
        seconds=time.monotonic() - started,
    )


def _why_not(error: Exception, against: str) -> tuple[str, str]:
    """Status and reason when there was no comparison."""
    said = one_line(error)
    if "Gluon" in said:
        return GPU_ONLY, "it is written in Gluon, which is checked on a GPU (--device gpu) for now"
    if "launched no Triton kernel" in said:
        if "side a" in said:
            return NOT_APPLICABLE, "it launches no Triton kernel"
        return NOT_APPLICABLE, _OF_NUMPY.format(against)
    return UNKNOWN, said
