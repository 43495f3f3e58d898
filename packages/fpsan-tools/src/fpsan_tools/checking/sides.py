"""The two sides of a check: what is called, in which engine it runs, and what it wrote or returned."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fpsan_tools.arrays import TypedArray, is_array
from fpsan_tools.checking.inputs import Arguments, bits_of, dtype_of, is_torch
from fpsan_tools.cpu import Launch, on_cpu
from fpsan_tools.domains.base import Domain
from fpsan_tools.exceptions import FpsanError, TritonUnavailable, UnknownName
from fpsan_tools.ttir.machine import Observer

ENGINES = ("auto", "cpu", "gpu")


class MissingParameter(FpsanError):
    """A parameter of a kernel that neither the inputs nor the constants have.

    Args:
        kernel: the kernel's name.
        parameter: the parameter's name.
        given: names of the inputs.
        constants: names of the constants.
        remedy: what to do about it, "" for what `launch` takes.
    """

    def __init__(
        self, kernel: str, parameter: str, given: Iterable[str], constants: Iterable[str], remedy: str = ""
    ) -> None:
        self.kernel, self.parameter, self.given, self.constants = kernel, parameter, tuple(given), tuple(constants)
        super().__init__(
            f"kernel {kernel!r}: no value for parameter {parameter!r} (make_inputs gives "
            f"{', '.join(self.given) or 'nothing'}; the constants are {', '.join(self.constants) or 'none'}); "
            + (remedy or f"give it as launch(kernel, grid, {parameter}=...)")
        )


class KernelLaunch:
    """A kernel with its grid and constants, called like a function of the inputs; made by `launch`."""

    def __init__(self, kernel: Any, grid: Any, constants: Mapping[str, Any]) -> None:
        if not is_kernel(kernel):
            raise FpsanError(f"launch(kernel, grid): a @triton.jit kernel is expected, not {kernel!r}")
        self.kernel = kernel
        self.grid = grid
        self.constants = dict(constants)
        self.__name__ = str(getattr(unwrapped(kernel), "__name__", kernel))

    def __call__(self, *positional: Any, **named: Any) -> None:
        """Launch the kernel on those of the inputs that it has parameters for."""
        parameters = unwrapped(self.kernel).params
        names = [parameter.name for parameter in parameters]
        given = {**dict(zip(names, positional, strict=False)), **named}
        constants = {
            name: value(given) if callable(value) and not is_kernel(value) and name in names else value
            for name, value in self.constants.items()
        }
        chosen = {name: value for name, value in given.items() if name in names and name not in constants}
        configured = unwrapped(self.kernel) is not self.kernel  # an autotuner or heuristics supply constants
        missing = [
            parameter.name
            for parameter in parameters
            if parameter.name not in chosen
            and parameter.name not in constants
            and not parameter.has_default
            and not (configured and parameter.is_constexpr)
        ]
        if missing:
            raise MissingParameter(self.__name__, missing[0], given, constants)
        self.kernel[self.grid](**chosen, **constants)

    def __repr__(self) -> str:
        constants = "".join(f", {name}={value!r}" for name, value in self.constants.items())
        return f"launch({self.__name__}, {self.grid!r}{constants})"


def launch(kernel: Any, grid: Any, **constants: Any) -> KernelLaunch:
    """Make one side of a check of a bare kernel.

    Args:
        kernel: a `@triton.jit` kernel, possibly autotuned or with heuristics.
        grid: number of programs per axis: a tuple, or Triton's function of the bound arguments.
        **constants: constants and launch options (`BLOCK=64`, `num_warps=8`); a function of the dictionary of inputs
            stands for a constant that depends on them.

    Returns:
        A callable that launches the kernel on the inputs whose names are its parameters.

    Raises:
        FpsanError: if `kernel` is none.
    """
    return KernelLaunch(kernel, grid, constants)


def is_kernel(value: Any) -> bool:
    """Whether something is a Triton kernel, autotuned or not; Triton need not be installed."""
    return hasattr(unwrapped(value), "params") and hasattr(value, "__getitem__") and hasattr(value, "arg_names")


def unwrapped(kernel: Any) -> Any:
    """The `@triton.jit` function inside of autotuners and heuristics."""
    while not hasattr(kernel, "params") and hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel


def as_side(value: Any, which: str) -> Callable[..., Any]:
    """A side's callable.

    Raises:
        FpsanError: for a bare kernel, whose grid is not known, and for what cannot be called.
    """
    if is_kernel(value):
        name = getattr(unwrapped(value), "__name__", "kernel")
        raise FpsanError(
            f"side {which}: kernel {name!r} needs a grid; pass launch({name}, grid=(...), CONSTANT=...), or a function "
            "that launches it"
        )
    if not callable(value):
        raise FpsanError(f"side {which}: a function or launch(kernel, grid, ...) is expected, not {value!r}")
    function: Callable[..., Any] = value
    return function


def name_of(side: Callable[..., Any]) -> str:
    """What a side is called in reports."""
    name = str(getattr(side, "__name__", type(side).__name__))
    return "a lambda" if name == "<lambda>" else name


@dataclass(frozen=True)
class Output:
    """A result as it lies in memory.

    Attributes:
        name: the argument's name, or "result".
        bits: bit patterns.
        dtype: Triton's name of the type.
    """

    name: str
    bits: npt.NDArray[Any] = field(repr=False)
    dtype: str


@dataclass
class Outcome:
    """What running one side gave.

    Attributes:
        returned: what the callable returned, as outputs; None if it returned nothing.
        before: bit patterns of the array arguments beforehand.
        arrays: the array arguments afterwards.
        written: names of those that changed.
        launches: records of the kernels that ran.
        torch_operations: how many torch operations were computed in payloads.
        torch_unsanitised: names of those that saw the floats' bits instead.
        error: why it stopped, if it did.
    """

    returned: list[Output] | None = None
    before: dict[str, npt.NDArray[Any]] = field(default_factory=dict, repr=False)
    arrays: dict[str, Output] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    torch_operations: int = 0
    torch_unsanitised: list[str] = field(default_factory=list)
    error: FpsanError | None = None


@dataclass(frozen=True)
class Engine:
    """How sides are run.

    Attributes:
        name: "cpu" or "gpu".
        version: the algebra's version, None for the installed Triton's.
        bounds: "live" or "all".
        domain: "payload" or another domain, for experiments.
    """

    name: str
    version: str | None = None
    bounds: str = "live"
    domain: str | Domain = "payload"

    def run(self, side: Callable[..., Any], inputs: Arguments, observer: Observer | None = None) -> Outcome:
        """Run a side on inputs that it may write to.

        Args:
            side: the callable.
            inputs: its arguments; arrays are changed in place.
            observer: for the CPU: told of every operation.

        Returns:
            What it gave. Refusals of the engine (an unsupported operation, an access out of bounds) are in `error`.

        Raises:
            FpsanError: for wrong use: a missing argument, a kernel that Triton refuses, no Triton.
        """
        if self.name == "gpu":
            inputs = on_device(inputs)
        before = {name: bits_of(value) for name, value in inputs.arrays()}
        outcome = Outcome(before=before)
        positional, named = _matching(side, inputs)
        try:
            with self._session(inputs, observer) as (launches, mode):
                outcome.launches = launches
                returned = side(*positional, **named)
                if mode is not None:
                    outcome.torch_operations = sum(mode.operations.values())
                    outcome.torch_unsanitised = sorted(mode.unsanitised)
        except FpsanError as error:
            if not (getattr(error, "located", False) or getattr(error, "op", "")):
                raise
            outcome.error = error
            return outcome
        outcome.arrays = {name: Output(name, bits_of(v), dtype_of(v)) for name, v in inputs.arrays()}
        outcome.written = [n for n, out in outcome.arrays.items() if not np.array_equal(out.bits, before[n])]
        outcome.returned = _returned(returned)
        return outcome

    @contextmanager
    def _session(self, inputs: Arguments, observer: Observer | None) -> Iterator[tuple[list[Launch], Any]]:
        """Engage the engine, and payloads for torch operations if torch tensors are passed."""
        wanted = self.domain == "payload" and any(is_torch(value) for _, value in inputs.arrays())
        if self.name == "gpu":
            from fpsan_tools.gpu import on_gpu

            session: Any = on_gpu(version=self.version)
        else:
            session = on_cpu(self.domain, version=self.version, bounds=self.bounds, observer=observer)
        with session as active, _torch_mode(self.version) if wanted else contextlib.nullcontext() as mode:
            yield active.launches, mode


def _torch_mode(version: str | None) -> Any:
    from fpsan_tools.torch_mode import FpSanTorch

    return FpSanTorch(version=version)


def choose_engine(engine: str, inputs: Arguments) -> str:
    """Resolve "auto": the GPU for inputs that lie there, else the CPU.

    Raises:
        UnknownName: for another name.
    """
    if engine not in ENGINES:
        raise UnknownName.of("engine", engine, ENGINES)
    if engine != "auto":
        return engine
    devices = {getattr(getattr(value, "device", None), "type", "cpu") for _, value in inputs.arrays()}
    return "gpu" if devices - {"cpu"} else "cpu"


def on_device(inputs: Arguments) -> Arguments:
    """The same arguments with every array as a tensor on the GPU.

    Raises:
        TritonUnavailable: without torch.
        FpsanError: for a type that torch lacks.
    """
    try:
        import torch
    except ImportError as error:
        raise TritonUnavailable(f"a GPU run needs torch: pip install 'fpsan-tools[torch]' ({error})") from error

    moved: dict[str, Any] = {}
    for name, value in inputs.arrays():
        if is_torch(value):
            moved[name] = value if value.device.type != "cpu" else value.cuda()
            continue
        bits = bits_of(value)
        kind = _TORCH_NAMES.get(dtype_of(value), dtype_of(value))
        if not hasattr(torch, kind):
            raise FpsanError(f"argument {name!r}: torch has no dtype for {dtype_of(value)}, so it cannot go to a GPU")
        tensor = torch.from_numpy(bits if bits.dtype == np.uint8 else bits.view(f"i{bits.dtype.itemsize}"))
        moved[name] = tensor.view(getattr(torch, kind)).cuda()
    return inputs.replaced(moved)


_TORCH_NAMES = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
    "i1": "bool",
    **{f"{sign}{bits}": f"{long}int{bits}" for sign, long in (("i", ""), ("u", "u")) for bits in (8, 16, 32, 64)},
}


def _matching(side: Callable[..., Any], inputs: Arguments) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and named arguments for a side: all, or those that it has parameters for."""
    if not inputs.by_name:
        return inputs.values, {}
    everything = dict(inputs.items())
    try:
        parameters = inspect.signature(side).parameters.values()
    except (TypeError, ValueError):
        return (), everything
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return (), everything
    missing = [p.name for p in parameters if p.default is p.empty and p.name not in everything]
    if missing:
        raise FpsanError(
            f"{name_of(side)} needs an argument {missing[0]!r}, but make_inputs gives {', '.join(everything)}"
        )
    return (), {parameter.name: everything[parameter.name] for parameter in parameters if parameter.name in everything}


def _returned(value: Any) -> list[Output] | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        pairs: Sequence[tuple[str, Any]] = [(str(name), item) for name, item in value.items()]
    elif isinstance(value, tuple | list) and not isinstance(value, TypedArray):
        pairs = [(f"result[{i}]", item) for i, item in enumerate(value)]
    else:
        pairs = [("result", value)]
    outputs = [Output(name, bits_of(item), dtype_of(item)) for name, item in pairs if is_array(item)]
    return outputs or None
