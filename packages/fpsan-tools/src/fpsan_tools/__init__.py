"""Structural equivalence of Triton kernels by FpSan payload algebra, on a GPU and on a CPU."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

# Loaded before the function `errors` is defined, which then keeps its name.
import fpsan_tools.errors  # noqa: F401

if TYPE_CHECKING:
    from fpsan_tools.rounding_errors import RoundingErrors

__version__ = "0.1.0"

# Public name -> module that holds it (None: the name is a submodule). Resolved on first use, so that importing
# fpsan_tools imports NumPy at most: no torch, no triton.
_EXPORTS: dict[str, str | None] = {
    "algebra": None,
    "AssertionViolated": "errors",
    "CompilationFailed": "errors",
    "FpsanError": "errors",
    "OutOfBounds": "errors",
    "TritonUnavailable": "errors",
    "UnknownName": "errors",
    "UnsupportedOperation": "errors",
    "FpSanTorch": "torch_mode",
    "Verdict": "checking",
    "assert_same_algebra": "checking",
    "check": "checking",
    "checking": None,
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

__all__ = ["__version__", "errors", *_EXPORTS]


def errors(
    kernel: Any,
    grid: Any,
    *arguments: Any,
    programs: Iterable[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **keywords: Any,
) -> RoundingErrors:
    """Rank the source lines of a kernel by the rounding error that they add to its outputs.

    The same as `fpsan_tools.rounding_errors.errors`, which says what is measured. (The exceptions stay importable
    from `fpsan_tools.errors`.)

    Args:
        kernel: a `@triton.jit` function.
        grid: number of programs per axis, or a function of the bound arguments.
        *arguments: the kernel's arguments; no array is modified.
        programs: linear numbers of the programs to run, None for all.
        progress: called with (evaluations done, evaluations in all).
        **keywords: further arguments and launch options.

    Returns:
        The lines, largest error first; printing it gives a table.

    Raises:
        FpsanError: if the kernel writes no floats, or as `on_cpu`.
    """
    from fpsan_tools.rounding_errors import errors as rank

    return rank(kernel, grid, *arguments, programs=programs, progress=progress, **keywords)


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
