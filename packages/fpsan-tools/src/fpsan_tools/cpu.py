"""Run unmodified Triton kernels on a CPU, with floats meaning what a domain says."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fpsan_tools import dispatch, domains
from fpsan_tools.arrays import Passed, is_array, passed
from fpsan_tools.domains.base import Domain
from fpsan_tools.domains.payload import Payload
from fpsan_tools.exceptions import FpsanError, UnknownName
from fpsan_tools.ttir import compile as compiler
from fpsan_tools.ttir.arithmetic import encode
from fpsan_tools.ttir.compile import Compiled
from fpsan_tools.ttir.coverage import Unsanitised, gaps
from fpsan_tools.ttir.machine import Machine, Observer
from fpsan_tools.ttir.types import Element, Type
from fpsan_tools.ttir.values import Address, Array, Descriptor, Value

SLICE = 1 << 18
"""Elements of the largest tensor that are evaluated at once, over all programs of a slice."""

BOUNDS = ("live", "all")

Progress = Callable[[int, int], None]


@dataclass
class Launch:
    """What is known of one evaluated launch.

    Attributes:
        kernel: the kernel's name.
        grid: number of programs per axis.
        programs: how many programs were evaluated.
        domain: name of the domain.
        operations: how often each operation was evaluated, counted per program.
        unsanitised: operations that payloads do not cover.
        notes: remarks on how the result was computed.
        fusion: whether the launch allows products to be contracted into additions.
        triton_version: release of the Triton that compiled the kernel.
        printed: what tl.device_print wrote.
    """

    kernel: str
    grid: tuple[int, int, int]
    programs: int
    domain: str
    operations: Counter[str] = field(default_factory=Counter, repr=False)
    unsanitised: list[Unsanitised] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fusion: bool = True
    triton_version: str = ""
    printed: list[str] = field(default_factory=list, repr=False)


@dataclass(eq=False)
class Session:
    """An active `on_cpu` block.

    Attributes:
        domain: the meaning of floats.
        bounds: "live" or "all".
        programs: linear program numbers to run, None for all.
        progress: called with (programs done, programs in all) after each slice.
        observer: called after each operation, see `ttir.machine.Observer`.
        reachable: arrays that kernels reach through addresses stored in memory.
        launches: records of the launches so far.
    """

    domain: Domain
    bounds: str = "live"
    programs: Iterable[int] | None = None
    progress: Progress | None = None
    observer: Observer | None = None
    reachable: tuple[Any, ...] = ()
    launches: list[Launch] = field(default_factory=list)


def _session(
    domain: str | Domain,
    version: str | None,
    bounds: str,
    programs: Iterable[int] | None,
    progress: Progress | None,
    observer: Observer | None,
    reachable: Iterable[Any],
) -> Session:
    if bounds not in BOUNDS:
        raise UnknownName.of("bounds check", bounds, BOUNDS)
    chosen = None if programs is None else [int(number) for number in programs]
    return Session(domains.get(domain, version), bounds, chosen, progress, observer, tuple(reachable))


@contextmanager
def on_cpu(
    domain: str | Domain = "payload",
    *,
    version: str | None = None,
    bounds: str = "live",
    programs: Iterable[int] | None = None,
    progress: Progress | None = None,
    observer: Observer | None = None,
    reachable: Iterable[Any] = (),
) -> Iterator[Session]:
    """Inside this block, `kernel[grid](...)` runs on the CPU, on NumPy arrays or torch CPU tensors, in place.

    Only launches of the current thread (or task) are affected. All programs of a launch advance together, so races
    between programs, and orders of programs that wait for each other, are not modelled.

    Args:
        domain: "payload" (FpSan's algebra), "ieee" (every operation correctly rounded), "real" (float64 whatever the
            declared type), "hardware" (the bits of an H200, see `fpsan_tools.hardware`), or a domain object.
        version: version of the algebra ("3.8", "3.9", "3.9-homomorphic"), None for the installed Triton's.
        bounds: "live": lanes that are not masked off must point into the passed arrays; "all": masked-off ones too.
        programs: linear numbers (x fastest) of the programs to run, None for all.
        progress: called with (programs done, programs in all) after each slice.
        observer: called after each operation with the machine, the operation and the frame that holds its operands
            and results (see `ttir.machine`); for tools that look at intermediate values, which it must not change.
        reachable: arrays that kernels reach through addresses stored in memory (tables of pointers), besides those
            that are passed to them.

    Yields:
        The session; its `launches` has a record per launch.

    Raises:
        UnknownName: for an unknown domain, version or bounds check.
        TritonUnavailable: if Triton is missing or not a known release.
        UnsupportedOperation: if a launched kernel uses an operation that is not known.
        OutOfBounds: if a launched kernel reads or writes outside of the passed arrays.
        CompilationFailed: if Triton refuses a kernel.
    """
    compiler.import_triton()
    session = _session(domain, version, bounds, programs, progress, observer, reachable)
    with dispatch.engaged(_Engine(session)):
        yield session


def run(
    kernel: Any,
    grid: Any,
    *arguments: Any,
    domain: str | Domain = "payload",
    version: str | None = None,
    bounds: str = "live",
    programs: Iterable[int] | None = None,
    progress: Progress | None = None,
    reachable: Iterable[Any] = (),
    **keywords: Any,
) -> Launch:
    """Run one launch of a kernel on the CPU; the functional form of `on_cpu`.

    Args:
        kernel: a `@triton.jit` function, possibly autotuned or with heuristics.
        grid: number of programs per axis: a tuple, or a function of the bound arguments.
        *arguments: the kernel's arguments.
        domain: see `on_cpu`.
        version: see `on_cpu`.
        bounds: see `on_cpu`.
        programs: see `on_cpu`.
        progress: see `on_cpu`.
        reachable: see `on_cpu`.
        **keywords: further arguments and launch options of the kernel.

    Returns:
        The launch's record.

    Raises:
        FpsanError: see `on_cpu`.
    """
    options: dict[str, Any] = {"version": version, "bounds": bounds, "programs": programs, "progress": progress}
    with on_cpu(domain, **options, reachable=reachable) as session:
        kernel[grid](*arguments, **keywords)
    return session.launches[-1]


@dataclass(frozen=True)
class _Engine:
    """Runs the launches of a session; see `dispatch.Engine`."""

    session: Session

    def launch(
        self,
        kernel: Any,
        grid: Any,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        warmup: bool,
        original: Callable[..., Any],
    ) -> Launch | None:
        if warmup:
            return None
        for hook in kernel.pre_run_hooks:
            hook(*arguments, **keywords)
        record = launch(self.session, kernel, grid, arguments, keywords)
        self.session.launches.append(record)
        return record


def launch(session: Session, kernel: Any, grid: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Launch:
    """Compile and evaluate one launch."""
    triton = compiler.import_triton()
    name = compiler.kernel_name(kernel)
    _, backend = compiler.backend_for()
    if kernel.is_gluon():
        raise FpsanError(f"kernel {name!r} is written in Gluon, which is not supported")
    keywords = {**keywords, "debug": keywords.get("debug", kernel.debug) or triton.knobs.runtime.debug}
    named = kernel.arg_names
    given = [_argument(named[i] if i < len(named) else f"number {i}", value) for i, value in enumerate(arguments)]
    more = {key: _argument(key, value) if key in named else value for key, value in keywords.items()}
    bound, specialization, options = compiler.bind(kernel, tuple(given), more, backend)
    compiled = compiler.compile_kernel(kernel, bound, specialization, options, session.domain)
    _check_globals(kernel, name)
    size = _grid(grid, bound)
    total = math.prod(size)
    runtime = _runtime_arguments(bound, specialization)
    spans = [v.base.span if isinstance(v, HostDescriptor) else v.span for v in runtime if isinstance(v, _IN_MEMORY)]
    spans += [passed(f"reachable[{i}]", array).span for i, array in enumerate(session.reachable)]
    memory = session.domain.memory(spans, session.bounds == "all")
    machine = Machine(name, compiled.module, session.domain, memory, size, session.observer)
    values = [
        _value(machine, type, value) for (_, type), value in zip(compiled.module.kernel.arguments, runtime, strict=True)
    ]
    session.domain.begin(machine)
    programs = np.arange(total) if session.programs is None else _chosen(session.programs, total)
    step = _slice_length(compiled)
    for start in range(0, len(programs), step):
        machine.run(values, programs[start : start + step])
        if session.progress is not None:
            session.progress(min(start + step, len(programs)), len(programs))
    return Launch(
        kernel=name,
        grid=size,
        programs=len(programs),
        domain=session.domain.name,
        operations=machine.counts,
        unsanitised=gaps(compiled.module, domain.algebra) if isinstance(domain := session.domain, Payload) else [],
        notes=list(machine.notes),
        fusion=compiled.fusion,
        triton_version=triton.__version__,
        printed=machine.printed,
    )


def _check_globals(kernel: Any, name: str) -> None:
    """Refuse a kernel whose global constants have changed since it was compiled, as Triton does."""
    missing = object()
    for (variable, _), (value, namespace) in kernel.used_global_vals.items():
        now = namespace.get(variable, missing)
        if now != value:
            raise FpsanError(
                f"kernel {name!r}: global variable {variable} has changed since the kernel was compiled, from {value} "
                f"to {'nothing' if now is missing else now}; kernels see globals as constants"
            )


@dataclass(frozen=True, eq=False)
class HostDescriptor:
    """A tensor descriptor that the host made, with its base as a launch sees it."""

    base: Passed
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    pad_with_nan: bool
    to_tf32: bool


_IN_MEMORY = (Passed, HostDescriptor)


def _argument(name: str, value: Any) -> Any:
    """An argument in the form that the compiler's binder takes."""
    if isinstance(value, tuple):
        items = [_argument(f"{name}[{i}]", item) for i, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if is_array(value):
        return passed(name, value)
    if isinstance(value, np.generic):
        return value.item()
    return value


def _runtime_arguments(bound: dict[str, Any], specialization: list[Any]) -> list[Any]:
    """The arguments that the compiled kernel still has, in order: constants are gone, tuples are taken apart."""

    def flatten(name: str, value: Any, kind: Any) -> Iterator[Any]:
        if isinstance(kind, tuple | list):
            for item, inner in zip(value, kind, strict=True):
                yield from flatten(name, item, inner)
        elif str(kind).startswith("tensordesc"):
            sizes, strides = tuple(map(int, value.shape)), tuple(map(int, value.strides))
            to_tf32 = bool(getattr(value, "round_f32_to_tf32", False))
            yield HostDescriptor(passed(name, value.base), sizes, strides, value.padding == "nan", to_tf32)
            yield from sizes
            yield from strides
        elif kind != "constexpr":
            yield value

    kinds = [kind for kind, *_ in specialization]
    return [
        leaf for (name, value), kind in zip(bound.items(), kinds, strict=True) for leaf in flatten(name, value, kind)
    ]


def _value(machine: Machine, type: Type, value: Any) -> Value:
    element: Element = type.element
    if element.kind == "pointer":
        address = _address(machine, value) if isinstance(value, Passed) else int(value)
        return Value(Address([np.array([address], np.int64)]), type)
    if isinstance(value, HostDescriptor):
        sizes, strides = (tuple(np.array([n], np.int64) for n in v) for v in (value.sizes, value.strides))
        base = np.array([_address(machine, value.base)], np.int64)
        return Value(Descriptor(base, sizes, strides, value.pad_with_nan, value.to_tf32), type)
    if element.is_float:
        return Value(machine.domain.constant(encode(float(value), element), element), type)
    if element.bits == 1:
        return Value(np.array([bool(value)]), type)
    wrapped = int(value) & ((1 << element.bits) - 1)
    return Value(np.array([wrapped], np.uint64).astype(element.memory).view(element.integers), type)


def _address(machine: Machine, array: Passed) -> int:
    return machine.memory.address(array.first) if array.span.high > array.span.low else 0


def _as_given(bound: dict[str, Any]) -> dict[str, Any]:
    """The bound arguments with the caller's own arrays: a grid may depend on their shapes."""
    return {name: value.span.owner if isinstance(value, Passed) else value for name, value in bound.items()}


def _grid(grid: Any, bound: dict[str, Any]) -> tuple[int, int, int]:
    size = grid(_as_given(bound)) if callable(grid) else grid
    try:
        axes = tuple(operator.index(n) for n in (size if isinstance(size, tuple | list) else (size,)))
    except TypeError:  # half a program would be left out
        axes = ()
    if not 1 <= len(axes) <= 3 or min(axes) < 0:
        raise FpsanError(f"grid {size!r}: one to three whole numbers of programs, none negative, are expected")
    width, height, depth = [*axes, 1, 1][:3]
    return width, height, depth


def _chosen(programs: Iterable[int], total: int) -> Array:
    numbers = np.unique(np.fromiter(programs, np.int64))
    if len(numbers) and not 0 <= numbers[0] <= numbers[-1] < total:
        raise FpsanError(f"programs: numbers from 0 to {total - 1} are expected, not {numbers[0]} to {numbers[-1]}")
    return numbers


def _slice_length(compiled: Compiled) -> int:
    if compiled.module.sequential:
        return 1
    largest = 1
    for operation in compiled.module.operations():
        for type in (*operation.types[0], *operation.types[1]):
            largest = max(largest, math.prod(type.shape))
    return max(1, SLICE // largest)
