"""Launching a kernel again without asking again how: plans that are recorded once and replayed.

Triton's launcher inspects every argument of every launch to find the compiled kernel that fits. For a call of the same
shapes, strides and types the answer is the same, so the first call is recorded: which compiled kernels it launched, in
which order, with which arguments, and which of these are addresses of the caller's tensors. A replay puts the addresses
of the new tensors in and calls the driver.

A call can be replayed if every tensor that its kernels got is one that the caller passed or got. A call that makes
workspaces or descriptors of its own cannot; it is launched in full each time.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tritongemm.matrices import is_torch

# Triton versions whose compiled kernels are called as `Plan.replay` does.
_REPLAYABLE_VERSIONS = ("3.8.", "3.9.")

_recording = threading.local()


@dataclass(frozen=True)
class _Step:
    """One launch: what starts it, and its arguments with the places where addresses go.

    Attributes:
        start: Launches the compiled kernel on a stream with arguments.
        arguments: The arguments; None where an address goes.
        addresses: (position among the arguments, position among the tensors) of each address.
        leading: Whether the first arguments are the addresses of all tensors in their order, as they mostly are.
        rest: The arguments after these.
    """

    start: Callable[[int, tuple[Any, ...]], None]
    arguments: tuple[Any, ...]
    addresses: tuple[tuple[int, int], ...]
    leading: bool
    rest: tuple[Any, ...]


@dataclass
class Plan:
    """The launches of one call, ready to be done again on other tensors of the same kind.

    Attributes:
        device: Index of the GPU.
        knobs: Triton's settings, which can make a recorded launch the wrong one.
    """

    device: int
    knobs: Any
    steps: tuple[_Step, ...]

    def replayable(self) -> bool:
        """Whether Triton is in the state in which the plan was recorded: no sanitiser, no hooks of a profiler."""
        runtime, compilation = self.knobs.runtime, self.knobs.compilation
        return not (
            compilation.instrumentation_mode or runtime.launch_enter_hook.calls or runtime.launch_exit_hook.calls
        )

    def replay(self, stream: int, addresses: Sequence[int]) -> None:
        """Launches the kernels on the tensors at these addresses, in the order of `record`'s tensors."""
        for step in self.steps:
            if step.leading:
                arguments = (*addresses, *step.rest)
            else:
                filled = list(step.arguments)
                for at, tensor in step.addresses:
                    filled[at] = addresses[tensor]
                arguments = tuple(filled)
            step.start(stream, arguments)


@dataclass
class Record:
    """What a recorded call launched, filled in while it runs.

    Attributes:
        launches: (compiled kernel, grid, arguments in the order of the kernel's signature) of each launch.
        complete: False once something was launched that cannot be replayed.
        seen: Launches that Triton told of: more than in `launches` if one did not go through `launch`.
    """

    launches: list[tuple[Any, tuple[int, ...], tuple[Any, ...]]] = field(default_factory=list)
    complete: bool = True
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
        places = {x.data_ptr(): i for i, x in enumerate(tensors)}
        if len(places) != len(tensors) or 0 in places:
            return None
        steps = [_step(launch, places) for launch in self.launches]
        plan = Plan(tensors[0].get_device(), triton.knobs, tuple(step for step in steps if step is not None))
        return plan if len(plan.steps) == len(steps) and plan.replayable() else None


def _step(launch: tuple[Any, tuple[int, ...], tuple[Any, ...]], places: dict[int, int]) -> _Step | None:
    compiled, grid, arguments = launch
    start = _starter(compiled, grid)
    if start is None:
        return None
    addresses = []
    for at, argument in enumerate(arguments):
        if is_torch(argument):
            if argument.data_ptr() not in places:
                return None
            addresses.append((at, places[argument.data_ptr()]))
        elif not isinstance(argument, int | float | str | None) and not hasattr(argument, "primitive_bitwidth"):
            return None
    constants = tuple(None if is_torch(argument) else argument for argument in arguments)
    leading = addresses == [(i, i) for i in range(len(places))]
    return _Step(start, constants, tuple(addresses), leading, constants[len(places) :])


def _starter(compiled: Any, grid: tuple[int, ...]) -> Callable[[int, tuple[Any, ...]], None] | None:
    """What launches a compiled kernel; None if a launch needs more than its arguments."""
    run = getattr(compiled, "run", None)
    # Scratch memory is allocated per launch: Triton's own launcher does that.
    sizes = (getattr(run, name, None) for name in ("global_scratch_size", "profile_scratch_size"))
    if run is None or any(size != 0 for size in sizes) or getattr(run, "gsan_enabled", False):
        return None
    x, y, z = (*grid, 1, 1)[:3]
    function, metadata = compiled.function, compiled.packed_metadata
    if all(hasattr(run, name) for name in _LAUNCHER):
        # The launcher in C, without the Python around it that allocates scratch memory.
        launch, cooperative, dependent, annotations, signature = (getattr(run, name) for name in _LAUNCHER)

        def start(stream: int, arguments: tuple[Any, ...], kept: Any = compiled) -> None:
            launch(
                x, y, z, stream, function, cooperative, dependent, metadata, None, None, None, None, None,
                annotations, signature, arguments,
            )  # fmt: skip

    else:

        def start(stream: int, arguments: tuple[Any, ...], kept: Any = compiled) -> None:
            run(x, y, z, stream, function, metadata, None, None, None, *arguments)

    return start


# What Triton 3.9's launcher is made of.
_LAUNCHER = ("launch", "launch_cooperative_grid", "launch_pdl", "arg_annotations", "kernel_signature")


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


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
    """Launches a Triton kernel on a GPU; every launch of this package goes through here.

    Args:
        kernel: A kernel made by `triton.jit`.
        grid: Its launch grid, one to three extents.
        *arguments: Its first arguments, in the order of its signature.
        **constants: The others by name, and the compiler's options.
    """
    compiled = kernel[grid](*arguments, **constants)
    current = getattr(_recording, "current", None)
    if current is None:
        return
    parameters = getattr(getattr(kernel, "signature", None), "parameters", None)
    if parameters is None:  # an autotuner around the kernel, or another wrapper
        current.complete = False
        return
    given = dict(zip(parameters, arguments, strict=False)) | {n: v for n, v in constants.items() if n in parameters}
    current.launches.append(
        (compiled, tuple(grid), tuple(given.get(name, parameter.default) for name, parameter in parameters.items()))
    )
