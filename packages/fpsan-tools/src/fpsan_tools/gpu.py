"""Run unmodified Triton kernels on a GPU with the compiler's own FpSan."""

from __future__ import annotations

import contextlib
import importlib.util
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fpsan_tools import algebra, dispatch
from fpsan_tools.algebra import Algebra
from fpsan_tools.cpu import Launch
from fpsan_tools.exceptions import FpsanError, TritonUnavailable
from fpsan_tools.ttir.coverage import Unsanitised, gaps
from fpsan_tools.ttir.parser import parse

# AMD architectures on which Triton's passes instrument; elsewhere they accept the mode and ignore it.
AMD_ARCHITECTURES = ("gfx942", "gfx950", "gfx1250")
_CPU_INSTEAD = "fpsan_tools.on_cpu() needs no GPU"


@dataclass(eq=False)
class GpuSession:
    """An active `on_gpu` block.

    Attributes:
        algebra: the payload algebra that the installed Triton computes in this session.
        launches: records of the launches so far, in order.
    """

    algebra: Algebra
    launches: list[Launch] = field(default_factory=list)


@contextmanager
def on_gpu(*, version: str | None = None) -> Iterator[GpuSession]:
    """Inside this block, `kernel[grid](...)` is compiled and run with Triton's FpSan, on CUDA (or ROCm) tensors.

    Kernels are compiled anew for the mode; compilations of the ordinary mode stay cached and are used again after the
    block. Only launches of the current thread (or task) are affected, others wait while one is being started.
    Autotuned kernels run the configuration tuned before, else their first one: nothing is measured in the mode.

    Args:
        version: None or a version of the installed release ("3.9", "3.9-homomorphic" with Triton 3.9): whether
            narrowing casts are homomorphic. None follows TRITON_FPSAN_HOMOMORPHIC_CASTS.

    Yields:
        The session.

    Raises:
        TritonUnavailable: if Triton is missing, of an unknown release, without a GPU, or on an AMD architecture that
            FpSan does not support.
        UnknownName: for an unknown version.
        FpsanError: for a version of another release, or if a launch gets an array that is not on the GPU.
    """
    triton = _import_triton()
    chosen = _algebra(version)
    target = gpu_target()
    session = GpuSession(chosen)
    with dispatch.engaged(_Engine(session, triton, target)):
        yield session


def gpu_target() -> Any:
    """Triton's target of the current GPU, if FpSan works on it.

    Returns:
        Triton's `GPUTarget`.

    Raises:
        TritonUnavailable: if there is no GPU, or FpSan ignores its architecture.
    """
    _import_triton()
    from triton.runtime import driver

    try:
        target = driver.active.get_current_target()
    except Exception as error:
        # Triton's drivers find devices through torch; which exception says that there are none differs by release.
        raise TritonUnavailable(f"Triton finds no GPU here ({_no_gpu(error)}); {_CPU_INSTEAD}") from error
    if target.backend == "hip":
        architecture = str(target.arch).split(":")[0]
        supported = _amd_support()
        if not supported(architecture):
            raise TritonUnavailable(
                f"FpSan instruments nothing on {architecture} (it supports {', '.join(AMD_ARCHITECTURES)}); "
                f"{_CPU_INSTEAD}"
            )
    elif target.backend != "cuda":
        raise TritonUnavailable(f"FpSan has no {target.backend!r} back end; {_CPU_INSTEAD}")
    return target


def _no_gpu(error: Exception) -> str:
    """Why Triton finds no GPU, in words."""
    if importlib.util.find_spec("torch") is None:
        return "it looks by way of torch, which is not installed: pip install 'fpsan-tools[torch]'"
    if "active drivers" in str(error):  # Triton's own words for no driver end in "([])"
        return "no GPU driver found"
    return str(error)


def _import_triton() -> Any:
    from fpsan_tools.ttir.compile import import_triton

    return import_triton()


def _amd_support() -> Callable[[str], bool]:
    """Triton's own list of architectures where it has one, else the list that is known."""
    try:
        from triton.backends.amd import compiler
    except ImportError:
        return AMD_ARCHITECTURES.__contains__
    return getattr(compiler, "is_fpsan_supported", AMD_ARCHITECTURES.__contains__)


def _algebra(version: str | None) -> Algebra:
    chosen = algebra.get(version)
    installed = algebra.installed_triton() or ""
    if chosen.version.removesuffix("-homomorphic") != ".".join(installed.split(".")[:2]):
        raise FpsanError(
            f"version {chosen.version!r} was asked for, but a GPU computes the algebra of the installed Triton "
            f"{installed}; leave version out, install that release, or use fpsan_tools.on_cpu(version=...)"
        )
    return chosen


@dataclass(frozen=True)
class _Engine:
    """Starts the launches of a session in the mode; see `dispatch.Engine`."""

    session: GpuSession
    triton: Any
    target: Any
    coverage: dict[str, tuple[list[Unsanitised], list[str]]] = field(default_factory=dict)

    def launch(
        self,
        kernel: Any,
        grid: Any,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        warmup: bool,
        original: Callable[..., Any],
    ) -> Any:
        self._check_devices(kernel, arguments, keywords)
        sizes = []

        def observed(bound: Any) -> Any:
            sizes.append(grid(bound) if callable(grid) else grid)
            return sizes[-1]

        with dispatch.KNOBS, self._mode():
            compiled = original(kernel, *arguments, grid=observed, warmup=warmup, **keywords)
        if sizes:
            self.session.launches.append(self._record(kernel, sizes[-1], compiled))
        return compiled

    @contextmanager
    def _mode(self) -> Iterator[None]:
        """Triton's settings for FpSan; everything is as before afterwards, the environment included."""
        compilation = self.triton.knobs.compilation
        with compilation.scope():
            compilation.instrumentation_mode = "fpsan"
            if "fpsan_homomorphic_casts" in compilation.knob_descriptors:  # starts in 3.9
                compilation.fpsan_homomorphic_casts = not self.session.algebra.mixing_casts
            yield

    def _check_devices(self, kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        named = [*zip(kernel.arg_names, arguments, strict=False), *keywords.items()]
        for name, value in named:
            on_device = getattr(getattr(value, "device", None), "type", None)
            if on_device == "cpu" or type(value).__module__.split(".")[0] in ("numpy", "fpsan_tools"):
                if getattr(value, "shape", None) == () and on_device is None:
                    continue  # a NumPy scalar is a number
                raise FpsanError(
                    f"kernel {kernel.__name__!r}: argument {name!r} is not on the GPU ({type(value).__name__}); move "
                    f"it there (tensor.cuda()), or use fpsan_tools.on_cpu()"
                )

    def _record(self, kernel: Any, grid: Any, compiled: Any) -> Launch:
        width, height, depth = (*(int(n) for n in grid), 1, 1)[:3]
        metadata = getattr(compiled, "metadata", None)
        unsanitised, notes = self._coverage(compiled)
        return Launch(
            kernel=kernel.__name__,
            grid=(width, height, depth),
            programs=math.prod((width, height, depth)),
            domain="payload",
            unsanitised=unsanitised,
            notes=[f"compiled by Triton for {self.target.backend}:{self.target.arch}", *notes],
            fusion=bool(getattr(metadata, "enable_fp_fusion", True)),
            triton_version=self.triton.__version__,
        )

    def _coverage(self, compiled: Any) -> tuple[list[Unsanitised], list[str]]:
        """Operations that are not instrumented, read from the compiled kernel's first representation."""
        stages = getattr(compiled, "asm", {})
        text = stages.get("ttir") or stages.get("glir", "")  # the latter of Gluon kernels
        if text not in self.coverage:
            try:
                if not text:
                    raise FpsanError("the compiled kernel carries no representation to read them from")
                self.coverage[text] = gaps(parse(text), self.session.algebra), []
            except FpsanError as error:
                note = f"operations that payloads do not cover are not listed: {error}"
                self.coverage[text] = [], [note]
        return self.coverage[text]


def describe() -> str:
    """The GPU that `on_gpu` would use, in words.

    Returns:
        As in "NVIDIA H200 (cuda:90)".

    Raises:
        TritonUnavailable: if there is none; see `gpu_target`.
    """
    target = gpu_target()
    name = ""
    with contextlib.suppress(Exception):  # a name is a courtesy; Triton itself needs torch only for the device
        import torch

        name = torch.cuda.get_device_name()
    return f"{name} ({target.backend}:{target.arch})".strip()
