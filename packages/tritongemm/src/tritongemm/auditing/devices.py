"""Where an audit runs its kernels: evaluated on the CPU, or launched on a CUDA GPU.

Both take float32 values that the operands' type can hold and give back results as float32 values or as bit patterns;
how they are stored in between, and in which layout, is theirs.
"""

from __future__ import annotations

import ctypes
import io
import math
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import fpsan_tools
from tritongemm.auditing.callables import bits_of_result, call
from tritongemm.auditing.clock import Watch, operations_of
from tritongemm.auditing.contestants import Contestant
from tritongemm.errors import KernelFailed, Unavailable, UsageError, nearest, one_line
from tritongemm.matrices import DTYPES

Array = np.ndarray[Any, np.dtype[Any]]

GLUON = "it is written in Gluon, which no CPU evaluates; it is checked on a GPU (--device gpu)"
NO_KERNEL = "it launches no Triton kernel"

_CODES: dict[str, type[np.unsignedinteger[Any]]] = {"fp32": np.uint32, "fp16": np.uint16, "bf16": np.uint16}
# Results start as a NaN that no kernel makes, so that an output nobody wrote can be told.
UNTOUCHED = {"fp32": 0x7FC0DEAD, "fp16": 0x7EAD, "bf16": 0x7FDA}


@dataclass(frozen=True)
class Launched:
    """What a launch left behind.

    Attributes:
        codes: The (M, N) result as bit patterns.
        unsanitised: Operations that FpSan does not cover, each once, with their places.
        notes: What was assumed to evaluate the kernel.
        order: Layout facts of the compiled kernel that fix its order of summation, if it was compiled for a GPU.
        operations: Names of the operations that were evaluated, with the first place of each; of a CPU.
        overwritten: Which operands, "A" or "B", are others than before it.
    """

    codes: Array
    unsanitised: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    order: str = ""
    operations: Mapping[str, str] = field(default_factory=dict)
    overwritten: tuple[str, ...] = ()


def note_overwritten(found: dict[str, str], letter: str, launched: Launched, where: str) -> None:
    """Notes by kernel letter which operands a kernel writes to, and where that was seen first."""
    if launched.overwritten:
        found.setdefault(letter, f"{' and '.join(launched.overwritten)} at {where}")


FLOATS, PAYLOADS, EXACT = "floats", "payloads", "exact"
# What the evaluator calls them; floats are evaluated as the device says.
_DOMAINS = {PAYLOADS: "payload", EXACT: "real"}


class NoPayloads(Exception):
    """A contestant that has no payloads, or none here: the message says why."""


class Device(Protocol):
    """A place where kernels run."""

    kind: str

    def describe(self) -> str:
        """The device and the versions that matter, for the report."""

    def run(
        self,
        contestant: Contestant,
        a: Array,
        b: Array,
        dtypes: tuple[str, str],
        *,
        domain: str = FLOATS,
        layout: str = "rows",
        version: str | None = None,
    ) -> Launched:
        """Computes C = A B with a contestant.

        Args:
            contestant: The kernel.
            a: (M, K) float32 values.
            b: (K, N) float32 values.
            dtypes: Type of the operands and of the result.
            domain: `FLOATS`, `PAYLOADS`, or `EXACT` (float64, only results are rounded; on a CPU).
            layout: A name of `LAYOUTS`, of all matrices; "columns of B": of one, the others have packed rows.
            version: Of the payload algebra; the installed Triton's if not given.
        """


def codes_of(values: Array, dtype: str) -> Array:
    """Float32 values, rounded to a type, as its bit patterns."""
    if dtype == "bf16":
        return np.asarray(DTYPES[dtype].encode(values)).astype(np.uint16)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values, np.dtype({"fp32": "f4", "fp16": "f2"}[dtype])).view(_CODES[dtype])


def values_of(codes: Array, dtype: str) -> Array:
    """Bit patterns of a type as float32 values."""
    if dtype == "fp32":
        return codes.view(np.float32)
    if dtype == "fp16":
        return codes.view(np.float16).astype(np.float32)
    return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _rows(codes: Array, around: int) -> Array:
    return codes


def _columns(codes: Array, around: int) -> Array:
    return np.asfortranarray(codes)


def _gapped(codes: Array, around: int) -> Array:
    """Every second element of a larger matrix whose other elements are NaN."""
    whole = np.full((codes.shape[0] + 2, 2 * codes.shape[1] + 3), around, codes.dtype)
    inside = whole[1:-1, 1:-2:2]
    inside[...] = codes
    return inside


LAYOUTS: dict[str, Callable[[Array, int], Array]] = {"rows": _rows, "columns": _columns, "gapped": _gapped}


def _laid_out(codes: Array, dtype: str, layout: str, letter: str) -> Array:
    name, _, only = layout.partition(" of ")
    # A copy: a kernel that writes to an operand must not take it from the other one.
    return LAYOUTS[name if only in ("", letter) else "rows"](codes.copy(), UNTOUCHED[dtype])


def _others(before: Iterable[Array], after: Iterable[Array]) -> tuple[str, ...]:
    """Names of the operands whose bits are not what they were."""
    return tuple(name for name, x, y in zip("AB", before, after, strict=True) if (x != y).any())


def _strides(*matrices: Array) -> tuple[int, ...]:
    return tuple(s // m.itemsize for m in matrices for s in m.strides)


class Cpu:
    """Kernels evaluated by fpsan_tools on NumPy arrays; needs Triton's compiler, no torch and no GPU.

    Args:
        floats: What floats are: "ieee" (every operation correctly rounded), or "hardware" (the bits of an H200).
        deadline: Time (`time.monotonic`) after which evaluations stop.
    """

    kind = "cpu"

    def __init__(self, floats: str = "ieee", deadline: float = math.inf) -> None:
        self.floats = floats
        self.deadline = deadline

    def describe(self) -> str:
        """Cores and NumPy's version."""
        what = "CPU prediction of an H200's bits" if self.floats == "hardware" else "CPU evaluation"
        return f"{what} ({os.cpu_count()} cores, {platform.machine()}, NumPy {np.__version__})"

    def run(
        self,
        contestant: Contestant,
        a: Array,
        b: Array,
        dtypes: tuple[str, str],
        *,
        domain: str = FLOATS,
        layout: str = "rows",
        version: str | None = None,
    ) -> Launched:
        """See `Device.run`."""
        M, K, N = a.shape[0], a.shape[1], b.shape[1]
        operands = [_laid_out(codes_of(x, dtypes[0]), dtypes[0], layout, name) for name, x in (("A", a), ("B", b))]
        before = [x.copy() for x in operands]
        if contestant.function is not None:
            launched = self._call(contestant, operands, dtypes, (M, N), domain, version)
            return replace(launched, overwritten=_others(before, operands))
        if contestant.gluon:
            raise NoPayloads(GLUON) if domain == PAYLOADS else KernelFailed(GLUON)
        start = np.full((M, N), 0 if contestant.zeroed else UNTOUCHED[dtypes[1]], _CODES[dtypes[1]])
        result = _laid_out(start, dtypes[1], layout, "C")
        matrices = [fpsan_tools.typed(x, d) for x, d in zip([*operands, result], [dtypes[0], *dtypes], strict=True)]
        x, y, z = matrices
        with _failures_of(contestant):
            positional, keywords = contestant.arguments(x, y, z, _strides(*operands, result))
            grid = contestant.grid(M, N, K)
            with redirect_stdout(io.StringIO()):  # Of tl.device_print: payloads of trials are no news to anybody.
                with self._session(domain, version) as session:
                    contestant.kernel[grid](*positional, **keywords)
                launch = session.launches[-1]
        notes = (*launch.notes, *session.observer.note())
        return Launched(
            np.ascontiguousarray(result),
            _unsanitised(launch),
            notes,
            operations=operations_of(session.launches, session.observer),
            overwritten=_others(before, operands),
        )

    def _session(self, domain: str, version: str | None) -> Any:
        return fpsan_tools.on_cpu(_DOMAINS.get(domain, self.floats), version=version, observer=Watch(self.deadline))

    def _call(
        self,
        contestant: Contestant,
        operands: list[Array],
        dtypes: tuple[str, str],
        shape: tuple[int, int],
        domain: str,
        version: str | None,
    ) -> Launched:
        """A contestant that is a function: its kernels are evaluated, everything else runs as it is."""
        assert contestant.function is not None
        given = (operands[0], operands[1])
        with _failures_of(contestant), redirect_stdout(io.StringIO()):
            try:
                with self._session(domain, version) as session:
                    c = call(contestant.function, contestant.arrays, given, dtypes[0])
            except UsageError as error:  # Of this package's own functions, whose bits can be predicted all the same.
                if domain != FLOATS:
                    raise NoPayloads(f"none of its kernels is evaluated on a CPU ({one_line(error)})") from error
                return Launched(
                    bits_of_result(call(contestant.function, contestant.arrays, given, dtypes[0]), dtypes[1], shape)
                )
            except fpsan_tools.FpsanError as error:
                if "Gluon" in str(error):
                    raise NoPayloads(GLUON) if domain != FLOATS else KernelFailed(GLUON) from error
                raise
        launches = session.launches
        if domain != FLOATS and not launches:
            raise NoPayloads(NO_KERNEL)
        codes = bits_of_result(c, dtypes[1], shape)
        unsanitised = tuple(dict.fromkeys(text for launch in launches for text in _unsanitised(launch)))
        notes = [n for launch in launches for n in launch.notes] + list(session.observer.note())
        return Launched(
            codes,
            unsanitised,
            tuple(dict.fromkeys(notes)),
            operations=operations_of(session.launches, session.observer),
        )


@contextmanager
def _failures_of(contestant: Contestant) -> Iterator[None]:
    """Turns whatever goes wrong in a user's kernel, grid or heuristic into an error that names the kernel."""
    try:
        yield
    except (fpsan_tools.FpsanError, UsageError, NoPayloads, KernelFailed):
        raise
    except Exception as error:
        said = f"its launch failed: {type(error).__name__}: {one_line(error)}"
        if contestant.gluon and "num_warps" not in contestant.chosen:
            said += (
                f" (launched with {contestant.options['num_warps']} warps; the layouts of a Gluon kernel fix their "
                f"number: --const-{contestant.letter.lower()} num_warps=N)"
            )
        raise KernelFailed(said) from error


def _unsanitised(launch: Any) -> tuple[str, ...]:
    places = ((str(r.op), f"{Path(r.file).name}:{r.line}" if r.file else "") for r in launch.unsanitised)
    return tuple(dict.fromkeys(f"{name} ({place})" if place else name for name, place in places))


class Gpu:
    """Kernels launched on a CUDA GPU, payloads by Triton's own FpSan."""

    kind = "gpu"

    def __init__(self) -> None:
        try:
            import torch
        except ImportError:
            raise Unavailable(
                "--device gpu: launching kernels on a GPU needs torch, which is not installed: "
                "pip install 'tritongemm[torch]', or audit on the CPU with --device cpu."
            ) from None
        if not torch.cuda.is_available():
            raise Unavailable(
                "--device gpu: torch finds no CUDA GPU on this machine; audit on the CPU with --device cpu."
            )
        self.torch = torch

    def describe(self) -> str:
        """Name of the GPU and torch's version."""
        p = self.torch.cuda.get_device_properties(0)
        return f"{p.name} (sm_{p.major}{p.minor}, torch {self.torch.__version__}, CUDA {self.torch.version.cuda})"

    def _tensor(self, codes: Array, dtype: str) -> Any:
        """Bit patterns as a CUDA tensor of a floating-point type, with the same strides."""
        integers = {"fp32": np.int32, "fp16": np.int16, "bf16": np.int16}[dtype]
        whole = codes if codes.base is None or not isinstance(codes.base, np.ndarray) else codes.base
        flat = np.lib.stride_tricks.as_strided(whole, (whole.size,), (whole.itemsize,)).view(integers)
        start = (codes.__array_interface__["data"][0] - whole.__array_interface__["data"][0]) // codes.itemsize
        on_gpu = self.torch.from_numpy(flat).cuda().view(self._types()[dtype])
        return on_gpu.as_strided(codes.shape, _strides(codes), start)

    def upload(self, values: Array) -> Any:
        """Float32 values as a CUDA tensor.

        Raises:
            KernelFailed: The GPU has no room, or a kernel broke it.
        """
        try:
            return self.torch.from_numpy(np.ascontiguousarray(values, np.float32)).cuda()
        except RuntimeError as error:
            raise KernelFailed(f"the GPU does not take the operands: {one_line(error)}") from error

    def library(self, a: Array, b: Array, dtypes: tuple[str, str]) -> Array:
        """The product by `torch.matmul` in the operands' type, as bit patterns of the result's; fp32 without TF32.

        Of 16-bit operands and an fp32 result it is the fp32 product: a result that was rounded to 16 bits on the way
        would be no reference.
        """
        x, y = (self._tensor(codes_of(m, dtypes[0]), dtypes[0]) for m in (a, b))
        matmul = self.torch.backends.cuda.matmul
        before = matmul.allow_tf32
        matmul.allow_tf32 = False
        try:
            if dtypes[1] == "fp32" and dtypes[0] != "fp32":
                x, y = x.float(), y.float()
            product = self.torch.matmul(x, y)
        finally:
            matmul.allow_tf32 = before
        return self._codes(product.to(self._types()[dtypes[1]]), dtypes[1])

    def _types(self) -> dict[str, Any]:
        return {"fp32": self.torch.float32, "fp16": self.torch.float16, "bf16": self.torch.bfloat16}

    def _codes(self, tensor: Any, dtype: str) -> Array:
        integers = self.torch.int32 if dtype == "fp32" else self.torch.int16
        return np.asarray(tensor.contiguous().view(integers).cpu().numpy()).view(_CODES[dtype])

    def run(
        self,
        contestant: Contestant,
        a: Array,
        b: Array,
        dtypes: tuple[str, str],
        *,
        domain: str = FLOATS,
        layout: str = "rows",
        version: str | None = None,
    ) -> Launched:
        """See `Device.run`."""
        M, K, N = a.shape[0], a.shape[1], b.shape[1]
        if domain == EXACT:
            raise NoPayloads("a GPU computes with the types it is given")
        operands = [_laid_out(codes_of(x, dtypes[0]), dtypes[0], layout, name) for name, x in (("A", a), ("B", b))]
        if contestant.function is not None:
            return self._call(contestant, operands, dtypes, (M, N), domain, version)
        start = np.full((M, N), 0 if contestant.zeroed else UNTOUCHED[dtypes[1]], _CODES[dtypes[1]])
        result = _laid_out(start, dtypes[1], layout, "C")
        with _failures_of(contestant):
            x, y, z = (self._tensor(m, d) for m, d in zip([*operands, result], [dtypes[0], *dtypes], strict=True))
            positional, keywords = contestant.arguments(x, y, z, _strides(*operands, result))
            kernel = contestant.kernel[contestant.grid(M, N, K)]
            if domain == FLOATS:
                compiled = kernel(*positional, **keywords)
                order = compiled.asm.get("ttgir", "")
                return Launched(
                    self._codes(z, dtypes[1]), order=order, overwritten=self._overwritten(operands, (x, y), dtypes[0])
                )
            with fpsan_tools.on_gpu(version=version) as session:
                kernel(*positional, **keywords)
            launch = session.launches[-1]
            return Launched(
                self._codes(z, dtypes[1]),
                _unsanitised(launch),
                tuple(launch.notes),
                overwritten=self._overwritten(operands, (x, y), dtypes[0]),
            )

    def _overwritten(self, operands: list[Array], tensors: tuple[Any, Any], dtype: str) -> tuple[str, ...]:
        return _others(operands, (self._codes(x, dtype) for x in tensors))

    def _call(
        self,
        contestant: Contestant,
        operands: list[Array],
        dtypes: tuple[str, str],
        shape: tuple[int, int],
        domain: str,
        version: str | None,
    ) -> Launched:
        """A contestant that is a function, called with CUDA tensors."""
        assert contestant.function is not None
        with _failures_of(contestant), self.torch.no_grad():
            x, y = (self._tensor(m, dtypes[0]) for m in operands)
            if domain == FLOATS:
                made = bits_of_result(contestant.function(x, y), dtypes[1], shape)
                return Launched(made, overwritten=self._overwritten(operands, (x, y), dtypes[0]))
            with fpsan_tools.on_gpu(version=version) as session:
                c = contestant.function(x, y)
            if not session.launches:
                raise NoPayloads(NO_KERNEL)
            unsanitised = tuple(dict.fromkeys(text for launch in session.launches for text in _unsanitised(launch)))
            notes = tuple(dict.fromkeys(n for launch in session.launches for n in launch.notes))
            overwritten = self._overwritten(operands, (x, y), dtypes[0])
            return Launched(bits_of_result(c, dtypes[1], shape), unsanitised, notes, overwritten=overwritten)


def driver_sees_gpu() -> bool:
    """Whether this machine's CUDA driver, if it has one, sees a GPU."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        count = ctypes.c_int(0)
        return cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
    except (OSError, AttributeError):
        return False


DEVICES: dict[str, Callable[[], Device]] = {"cpu": Cpu, "gpu": Gpu}


def device_named(name: str) -> Device:
    """The device to audit on.

    Args:
        name: "cpu", "gpu" (the first CUDA GPU), or "auto": a GPU where torch finds one, otherwise the CPU.

    Raises:
        UsageError: Another name.
        Unavailable: There is no such device on this machine.
    """
    if name == "auto":
        if not driver_sees_gpu():  # torch takes seconds to import, and a CPU audit has no use for it.
            return Cpu()
        try:
            return Gpu()
        except Unavailable:
            return Cpu()
    if name not in DEVICES:
        raise UsageError(f"--device: {name!r} is no device. {nearest(name, [*DEVICES, 'auto'])}")
    return DEVICES[name]()
