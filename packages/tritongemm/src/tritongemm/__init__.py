"""Triton GEMM kernels whose error is measured, bounded and explained."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Public name -> the module that holds it; None: the name is a module itself. Resolved on first use: importing
# tritongemm imports neither Triton nor torch.
_EXPORTS: dict[str, str | None] = {
    "accuracy": None,
    "challenge": None,
    "emulation": None,
    "errors": None,
    "kernels": None,
    "modes": None,
    "nn": None,
    "orders": None,
    "AuditResult": "auditing.run",
    "KernelAudit": "auditing.kernel_audit",
    "Choices": "auditing.contestants",
    "Config": "configurations",
    "ErrorReport": "accuracy",
    "OperandError": "operands",
    "Outcome": "emulation",
    "SummationOrder": "orders",
    "Tolerance": "accuracy",
    "TritongemmError": "errors",
    "addmm": "api",
    "assert_close": "assertions",
    "audit": "auditing.run",
    "audit_kernel": "auditing.kernel_audit",
    "baddbmm": "api",
    "bmm": "api",
    "closeness": "assertions",
    "grouped_mm": "api",
    "linear": "api",
    "last_outcome": "emulation",
    "matmul": "api",
    "mm": "api",
    "predict": "api",
    "prepare": "emulation",
    "scaled_mm": "api",
    "tune": "tuning",
    "unguarded": "emulation",
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
