"""Structural equivalence of Triton kernels by FpSan payload algebra, on a GPU and on a CPU."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Public name -> module that holds it (None: the name is a submodule). Resolved on first use, so that importing
# fpsan_tools imports NumPy at most: no torch, no triton.
_EXPORTS: dict[str, str | None] = {
    "algebra": None,
    "AssertionViolated": "exceptions",
    "CompilationFailed": "exceptions",
    "FpsanError": "exceptions",
    "OutOfBounds": "exceptions",
    "TritonUnavailable": "exceptions",
    "UnknownName": "exceptions",
    "UnsupportedOperation": "exceptions",
    "FpSanTorch": "torch_mode",
    "Verdict": "checking",
    "assert_same_algebra": "checking",
    "check": "checking",
    "checking": None,
    "errors": "rounding_errors",
    "exceptions": None,
    "launch": "checking",
    "GpuSession": "gpu",
    "Launch": "cpu",
    "RoundingErrors": "rounding_errors",
    "Session": "cpu",
    "hardware": "domains.hardware",
    "on_cpu": "cpu",
    "on_gpu": "gpu",
    "run": "cpu",
    "typed": "arrays",
}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _EXPORTS[name]
    if module is None:
        return importlib.import_module(f"{__name__}.{name}")
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
