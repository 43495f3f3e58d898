"""Launching a kernel again without asking again how: plans that are recorded once and replayed.

Triton's launcher inspects every argument of every launch to find the compiled kernel that fits. For a call of the same
shapes, strides and types the answer is the same, so the first call is recorded: which compiled kernels it launched, in
which order, with which arguments, and which of these are addresses of the caller's tensors. A replay puts the addresses
of the new tensors in and calls the driver. Descriptors for the copy engine (TMA) are encoded once per address.

A call can be replayed if every tensor that its kernels got is one that the caller passed or got, or was announced as a
`workspace`, which is then made anew. Other calls are launched in full each time.
"""

from __future__ import annotations

import contextlib
import copy
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tritongemm.matrices import is_torch

# Triton versions whose compiled kernels are called as `Plan.replay` does.
_REPLAYABLE_VERSIONS = ("3.8.", "3.9.")
# Encoded descriptors are kept per argument for this many addresses.
_MOST_ADDRESSES = 64

_recording = threading.local()


@dataclass(frozen=True)
class _Step:
    """One launch: what starts it, and its arguments with the places where addresses go.

    Attributes:
        start: Launches the compiled kernel on a stream with arguments.
        arguments: The arguments; None where an address goes.
        addresses: (position among the arguments, position among the tensors) of each address.
        descriptors: (position among the arguments, position among the tensors, encoder) of each descriptor.
        leading: Whether the first arguments are the addresses of all tensors in their order, as they mostly are.
        rest: The arguments after these.
    """

    start: Callable[[int, tuple[Any, ...]], None]
    arguments: tuple[Any, ...]
    addresses: tuple[tuple[int, int], ...]
    descriptors: tuple[tuple[int, int, Callable[[int], Any]], ...]
    leading: bool
    rest: tuple[Any, ...]


@dataclass
class Plan:
    """The launches of one call, ready to be done again on other tensors of the same kind.

    Attributes:
        device: Index of the GPU.
        knobs: Triton's settings, which can make a recorded launch the wrong one.
        steps: The launches, in order.
        workspaces: What to make workspaces like: views of one element of their shapes and types.
        empty_like: What makes them, torch's.
    """

    device: int
    knobs: Any
    steps: tuple[_Step, ...]
    workspaces: tuple[Any, ...] = ()
    empty_like: Any = None

    def replayable(self) -> bool:
        """Whether Triton is in the state in which the plan was recorded: no sanitiser, no hooks of a profiler."""
        runtime, compilation = self.knobs.runtime, self.knobs.compilation
        return not (
            compilation.instrumentation_mode or runtime.launch_enter_hook.calls or runtime.launch_exit_hook.calls
        )

    def replay(self, stream: int, addresses: Sequence[int]) -> None:
        """Launches the kernels on the tensors at these addresses, in the order of `record`'s tensors."""
        if self.workspaces:
            # Kept until all is launched; later work of the stream may then have the memory.
            made = [self.empty_like(template) for template in self.workspaces]
            addresses = [*addresses, *(x.data_ptr() for x in made)]
        for step in self.steps:
            if step.leading:
                arguments = (*addresses, *step.rest)
            else:
                filled = list(step.arguments)
                for at, tensor in step.addresses:
                    filled[at] = addresses[tensor]
                for at, tensor, encoded in step.descriptors:
                    filled[at] = encoded(addresses[tensor])
                arguments = tuple(filled)
            step.start(stream, arguments)


_Launch = tuple[Any, tuple[int, ...], tuple[Any, ...], tuple[bool, ...]]


@dataclass
class Record:
    """What a recorded call launched, filled in while it runs.

    Attributes:
        launches: (compiled kernel, grid, arguments in the order of the kernel's signature, which of them are constants
            of the compiled kernel) of each launch.
        complete: False once something was launched that cannot be replayed.
        workspaces: Tensors that the call made for itself.
        seen: Launches that Triton told of: more than in `launches` if one did not go through `launch`.
    """

    launches: list[_Launch] = field(default_factory=list)
    complete: bool = True
    workspaces: list[Any] = field(default_factory=list)
    seen: int = 0

    def plan(self, tensors: Sequence[Any]) -> Plan | None:
        """The plan to replay the call with other tensors in the places of these.

        Args:
            tensors: The caller's tensors, the result among them, all on one GPU.

        Returns:
            The plan; None if the call cannot be replayed.
        """
        import triton

        if not self.complete or not self.launches or self.seen != len(self.launches):
            return None
        if not triton.__version__.startswith(_REPLAYABLE_VERSIONS):
            return None
        # By address, so that a view of a tensor is that tensor. Two tensors that begin at one address now may begin at
        # two next time: which address goes where would be a guess.
        known = [*tensors, *self.workspaces]
        places = {x.data_ptr(): i for i, x in enumerate(known)}
        if len(places) != len(known) or 0 in places or any(x.data_ptr() % 16 for x in self.workspaces):
            return None
        steps = [_step(launch, places) for launch in self.launches]
        templates = tuple(x.new_empty(1).expand(x.shape) for x in self.workspaces)
        plan = Plan(
            tensors[0].get_device(),
            triton.knobs,
            tuple(step for step in steps if step is not None),
            templates,
            sys.modules["torch"].empty_like,
        )
        return plan if len(plan.steps) == len(steps) and plan.replayable() else None


def _step(launch: _Launch, places: dict[int, int]) -> _Step | None:
    compiled, grid, given, constant = launch
    encoders = _encoders(compiled)
    arguments: list[Any] = []
    addresses: list[tuple[int, int]] = []
    descriptors: list[tuple[int, int, Callable[[int], Any]]] = []
    for argument, is_constant in zip(given, constant, strict=True):
        if is_constant or argument is None or isinstance(argument, int | float):
            arguments.append(argument)
            continue
        described = _is_descriptor(argument)
        base = argument.base if described else argument
        if not is_torch(base) or base.data_ptr() not in places:
            return None
        place = places[base.data_ptr()]
        if not described:
            addresses.append((len(arguments), place))
            arguments.append(None)
            continue
        encode = None if encoders is None else encoders(argument, len(descriptors))
        if encode is None:
            return None
        descriptors.append((len(arguments), place, encode))
        arguments += [None, *argument.shape, *argument.strides]
    start = _starter(compiled, grid, bool(descriptors))
    if start is None:
        return None
    leading = not descriptors and addresses == [(i, i) for i in range(len(places))]
    rest = tuple(arguments[len(places) :])
    return _Step(start, tuple(arguments), tuple(addresses), tuple(descriptors), leading, rest)


def _starter(compiled: Any, grid: tuple[int, ...], described: bool) -> Callable[[int, tuple[Any, ...]], None] | None:
    """What launches a compiled kernel; None if a launch needs more than its arguments.

    Args:
        compiled: The compiled kernel.
        grid: Its grid.
        described: Whether arguments were descriptors, and are taken apart already.
    """
    run = getattr(compiled, "run", None)
    # Scratch memory is allocated per launch: Triton's own launcher does that.
    sizes = (getattr(run, name, None) for name in ("global_scratch_size", "profile_scratch_size"))
    if run is None or any(size != 0 for size in sizes) or getattr(run, "gsan_enabled", False):
        return None
    x, y, z = (*grid, 1, 1)[:3]
    function, metadata = compiled.function, compiled.packed_metadata
    if all(hasattr(run, name) for name in _LAUNCHER):
        # The launcher in C, without the Python around it that allocates scratch memory and takes descriptors apart.
        launch, cooperative, dependent, annotations, signature = (getattr(run, name) for name in _LAUNCHER)
        if described:
            launch = _launcher_in_c()

        def start(stream: int, arguments: tuple[Any, ...], kept: Any = compiled) -> None:
            launch(
                x, y, z, stream, function, cooperative, dependent, metadata, None, None, None, None, None,
                annotations, signature, arguments,
            )  # fmt: skip

    elif described:
        return None
    else:

        def start(stream: int, arguments: tuple[Any, ...], kept: Any = compiled) -> None:
            run(x, y, z, stream, function, metadata, None, None, None, *arguments)

    return start


# What Triton 3.9's launcher is made of.
_LAUNCHER = ("launch", "launch_cooperative_grid", "launch_pdl", "arg_annotations", "kernel_signature")


def _launcher_in_c() -> Callable[..., None]:
    import triton

    launcher: Callable[..., None] = triton.runtime.driver.active.utils.launch
    return launcher


def _is_descriptor(argument: Any) -> bool:
    return all(hasattr(argument, name) for name in ("base", "shape", "strides", "block_shape"))


@dataclass(frozen=True)
class _Address:
    """As much of a tensor as the encoding of a descriptor asks for."""

    value: int

    def data_ptr(self) -> int:
        return self.value


def _encoders(compiled: Any) -> Callable[[Any, int], Callable[[int], Any] | None] | None:
    """What makes, for a descriptor and its position among the descriptors, the encoder of its addresses."""
    described = getattr(getattr(compiled, "metadata", None), "tensordesc_meta", None)
    if not described:
        return None
    from triton.backends.nvidia import driver

    make = getattr(driver, "make_tensordesc_arg", None)
    if make is None:
        return None

    def encoder(descriptor: Any, position: int) -> Callable[[int], Any] | None:
        if described[position] is None:
            return None
        kept: dict[int, Any] = {}

        def encoded(address: int) -> Any:
            found = kept.get(address)
            if found is None:
                if len(kept) >= _MOST_ADDRESSES:
                    kept.clear()
                moved = copy.copy(descriptor)
                moved.base = _Address(address)
                found = kept[address] = make(moved, described[position], None)[0]
            return found

        # The recorded tensors are not kept alive by their plan.
        descriptor = copy.copy(descriptor)
        descriptor.base = None
        return encoded

    return encoder


@contextlib.contextmanager
def record() -> Iterator[Record]:
    """Records the launches of this thread inside the block; recordings nest, the innermost one gets them."""
    import triton

    outer = getattr(_recording, "current", None)
    _recording.current = current = Record()

    def count(metadata: Any) -> None:
        current.seen += 1

    hooks = triton.knobs.runtime.launch_enter_hook
    hooks.add(count)
    try:
        yield current
    finally:
        hooks.remove(count)
        _recording.current = outer


def forgo() -> None:
    """Says that what is going on cannot be replayed: memory is made, data are looked at, a descriptor is built."""
    current = getattr(_recording, "current", None)
    if current is not None:
        current.complete = False


def workspace(x: Any) -> Any:
    """Announces a tensor that a call makes for its own kernels, so that the call can be replayed with another.

    Args:
        x: A new contiguous tensor; nothing is expected to be in it, and nothing outlives the call.

    Returns:
        x.
    """
    current = getattr(_recording, "current", None)
    if current is not None:
        current.workspaces.append(x)
    return x


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
    """Launches a Triton kernel on a GPU; every launch of a precision mode's goes through here.

    Args:
        kernel: A kernel made by `triton.jit`.
        grid: Its launch grid, one to three extents.
        *arguments: Its first arguments, in the order of its signature.
        **constants: The others by name, and the compiler's options.
    """
    if getattr(_recording, "ahead", False):
        kernel.warmup(*arguments, grid=grid, **constants)
        return
    compiled = kernel[grid](*arguments, **constants)
    current = getattr(_recording, "current", None)
    if current is None:
        return
    parameters = getattr(getattr(kernel, "signature", None), "parameters", None)
    if parameters is None:  # an autotuner around the kernel, or another wrapper
        current.complete = False
        return
    given = dict(zip(parameters, arguments, strict=False)) | {n: v for n, v in constants.items() if n in parameters}
    values = tuple(given.get(name, parameter.default) for name, parameter in parameters.items())
    constant = tuple(bool(parameter.is_constexpr) for parameter in kernel.params)
    current.launches.append((compiled, tuple(grid), values, constant))


@contextlib.contextmanager
def compiling_ahead() -> Iterator[None]:
    """Launches of this thread inside the block are not made; their kernels are compiled on all cores.

    The next launch of each finds it compiled. What cannot be compiled says so then. Triton's compiler gives way to
    other threads while LLVM and ptxas work, which is most of the time.
    """
    try:
        from triton.runtime._async_compile import AsyncCompileMode
    except ImportError:  # another Triton: everything is compiled when it is launched
        AsyncCompileMode = None
    before = getattr(_recording, "ahead", False)
    _recording.ahead = True
    try:
        if AsyncCompileMode is None:
            yield
        else:
            with ThreadPoolExecutor(os.cpu_count()) as pool, AsyncCompileMode(pool, ignore_errors=True):
                yield
    finally:
        _recording.ahead = before
