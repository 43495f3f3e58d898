"""`fpsan doctor`: what works on this machine, and why not."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import fpsan_tools
import numfmt
from fpsan_tools import algebra

_LENGTH = 64


@dataclass(frozen=True)
class Finding:
    """One thing that was tried.

    Attributes:
        name: what it is.
        works: whether it does; None for plain facts.
        detail: the fact, or why it does not work and what to do.
    """

    name: str
    works: bool | None
    detail: str


def register(subparsers: Any) -> None:
    """Add the parser of this module."""
    command = subparsers.add_parser(
        "doctor", help="what works on this machine, and why not", description="Try everything that fpsan-tools needs."
    )
    command.add_argument("--json", action="store_true", help="print the findings as JSON")
    command.set_defaults(run=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    findings = list(examine())
    if arguments.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        marks = {True: "ok", False: "no", None: "  "}
        width = max(len(finding.name) for finding in findings)
        for finding in findings:
            print(f"{marks[finding.works]}  {finding.name:<{width}}  {finding.detail}")
    # The algebra alone must work anywhere; engines may be missing for good reasons.
    return 0 if all(finding.works is not False for finding in findings if finding.name == "algebra") else 1


def examine() -> Iterator[Finding]:
    """Try everything, cheapest first.

    Yields:
        The findings, in the order of the report.
    """
    yield Finding("python", None, f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield Finding("fpsan-tools", None, fpsan_tools.__version__)
    for package in ("numpy", "numfmt-sim", "triton", "torch", "ml_dtypes"):
        yield Finding(package, None, _version(package))
    for variable in ("TRITON_INTERPRET", "TRITON_INSTRUMENTATION_MODE", "TRITON_FPSAN_HOMOMORPHIC_CASTS"):
        if os.environ.get(variable):
            yield Finding(variable, None, f"is set to {os.environ[variable]!r}: {_MEANING[variable]}")
    yield _try("algebra", _algebra)
    yield _try("CPU engine", _cpu)
    yield _try("GPU engine", _gpu)
    yield _try("torch mode", _torch)


_MEANING = {
    "TRITON_INTERPRET": "kernels become interpreted functions, which no engine here can run; unset it",
    "TRITON_INSTRUMENTATION_MODE": "ordinary launches are instrumented, too",
    "TRITON_FPSAN_HOMOMORPHIC_CASTS": "narrowing casts truncate (algebra 3.9-homomorphic)",
}


def _version(package: str) -> str:
    if package == "numfmt-sim":
        return str(numfmt.__version__)
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _try(name: str, attempt: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, attempt())
    except Exception as error:  # whatever is wrong with an installation is what is to be reported
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        return Finding(name, False, first)


def _algebra() -> str:
    rules = algebra.get()
    bits = np.arange(1 << 16, dtype=np.uint16)
    if not np.array_equal(rules.unembed(rules.embed(bits, "bf16"), "bf16"), bits):
        raise fpsan_tools.FpsanError("embed and unembed are not inverse to each other; the installation is damaged")
    return f"version {rules.version}; all bf16 patterns survive embed and unembed"


def _inputs() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Two inputs and the patterns that the probe must store."""
    rules = algebra.get()
    x, y = np.random.default_rng(0).standard_normal((2, _LENGTH)).astype(np.float32)
    p, q = rules.embed(x, "fp32"), rules.embed(y, "fp32")
    return x, y, rules.unembed(rules.mul(rules.add(p, q), p), "fp32")


def _probe() -> Any:
    from fpsan_tools.ttir.compile import import_triton

    import_triton()
    return importlib.import_module("fpsan_tools.commands.probe").probe


def _cpu() -> str:
    kernel = _probe()
    x, y, wanted = _inputs()
    out = np.zeros_like(x)
    with fpsan_tools.on_cpu():
        kernel[(1,)](x, y, out, _LENGTH)
    return _same(out.view(np.uint32), wanted)


def _gpu() -> str:
    from fpsan_tools import gpu

    kernel = _probe()
    where = gpu.describe()
    torch = importlib.import_module("torch")
    x, y, wanted = _inputs()
    tensors = [torch.from_numpy(v).cuda() for v in (x, y, np.zeros_like(x))]
    with gpu.on_gpu():
        kernel[(1,)](*tensors, _LENGTH)
    return f"{where}: {_same(tensors[-1].view(torch.int32).cpu().numpy().view(np.uint32), wanted)}"


def _torch() -> str:
    mode = fpsan_tools.FpSanTorch()
    torch = importlib.import_module("torch")
    x, y, wanted = _inputs()
    a, b = torch.from_numpy(x), torch.from_numpy(y)
    with mode:
        out = (a + b) * a
    return _same(out.view(torch.int32).numpy().view(np.uint32), wanted)


def _same(stored: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> str:
    differing = int((stored != wanted).sum())
    if differing:
        raise fpsan_tools.FpsanError(f"{differing} of {len(wanted)} payloads of (x + y) * x are not the algebra's")
    return "(x + y) * x gives the algebra's payloads"
