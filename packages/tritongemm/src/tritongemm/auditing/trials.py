"""Running a case: the kernel, its reference in its own type, and the reference in float64, on the same inputs.

Three results of one computation are compared, output by output: what the kernel gives, what the library gives in the
same types, and what the library gives in float64 from the same inputs, widened without loss. The last one is what is
right. A fourth says how much rounding the inputs matters: float64 again, with every input moved by one rounding.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fpsan_tools
from fpsan_tools.arrays import TypedArray, is_array
from tritongemm.auditing.cases import Case
from tritongemm.auditing.distributions import GIVEN, Change
from tritongemm.elements import ELEMENTS, Element, element_named, is_typed
from tritongemm.errors import KernelFailed, UsageError, one_line
from tritongemm.matrices import is_torch

Array = np.ndarray[Any, np.dtype[Any]]
Inputs = dict[str, Any]

# Types that are quantised by whoever makes the inputs: neither cast nor redrawn.
_NARROWEST = 8
# What a trial of a user's own inputs is about.
OWN_INPUTS = "the user's own inputs"


@dataclass(frozen=True)
class Spec:
    """One trial: sizes, and how the inputs are drawn.

    Attributes:
        why: What it is about.
        sizes: Sizes that differ from the defaults.
        change: Name of the distribution.
        seed: Of the inputs.
    """

    why: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    change: str = GIVEN
    seed: int = 0


@dataclass(frozen=True)
class Values:
    """One output's numbers.

    Attributes:
        values: float64.
        dtype: Name of its type.
    """

    values: Array
    dtype: str


class Refused(Exception):
    """A kernel or reference that does not take these inputs."""


def make_inputs(case: Case, spec: Spec, dtype: str | None) -> Inputs:
    """The inputs of a trial.

    Args:
        case: The case.
        spec: The trial.
        dtype: Type that floats of 16 bits and more are converted to; None: as they are drawn.

    Raises:
        UsageError: `inputs` gives no dictionary with an array.
    """
    return changed(case, drawn(case, spec), case.changes.get(spec.change), spec.seed, dtype)


def drawn(case: Case, spec: Spec) -> Inputs:
    """The inputs of a trial as the case draws them."""
    rng = np.random.default_rng(spec.seed)
    given = (rng,) if _takes_generator(case.inputs) else ()
    try:
        made = case.inputs(*given, **{**case.sizes, **spec.sizes})
    except Exception as error:
        raise UsageError(f"inputs: {type(error).__name__} at {dict(spec.sizes) or 'the default sizes'}: "
                         f"{one_line(error)}") from error  # fmt: skip
    if not isinstance(made, Mapping) or not any(is_array(x) for x in made.values()):
        raise UsageError("inputs: a dictionary with at least one array (NumPy, torch or fpsan_tools.typed) is needed.")
    return dict(made)


def _takes_generator(function: Callable[..., Any]) -> bool:
    parameters = list(inspect.signature(function).parameters.values())
    return bool(parameters) and parameters[0].default is inspect.Parameter.empty


def changed(case: Case, inputs: Inputs, change: Change | None, seed: int, dtype: str | None) -> Inputs:
    """Inputs after a distribution's change, in another type."""
    made: Inputs = {}
    for number, (name, x) in enumerate(inputs.items()):
        element = float_element(x)
        if element is None or element.format.bits <= _NARROWEST:
            made[name] = x
            continue
        kind = element_named(dtype).name if dtype is not None and element.name != "fp64" else element.name
        may_vary = name in case.varied if case.varied is not None else True
        values = widened(x)
        if change is not None and may_vary:
            values = np.asarray(change(np.random.default_rng([seed, number, 7]), values), np.float64)
        elif kind == element.name:
            made[name] = x
            continue
        made[name] = like(x, values, kind)
    return made


def float_element(x: Any) -> Element | None:
    """The element type of an array of floats; None for anything else."""
    if not is_array(x):
        return None
    try:
        return element_named(str(x.dtype))
    except UsageError:
        return None


def widened(x: Any) -> Array:
    """An array's numbers as float64, without any rounding."""
    if is_torch(x):
        return np.asarray(x.detach().double().cpu().numpy())
    if is_typed(x):
        return np.asarray(element_named(str(x.dtype)).format.decode(x.array), np.float64)
    return np.asarray(x).astype(np.float64)


def like(x: Any, values: Array, kind: str) -> Any:
    """Float64 values as an array of x's library, rounded to a type."""
    element = ELEMENTS[kind]
    if is_torch(x):
        torch = sys.modules["torch"]
        return torch.from_numpy(np.ascontiguousarray(values)).to(getattr(torch, element.library)).to(x.device)
    with np.errstate(over="ignore"):
        if kind in ("fp64", "fp32", "fp16"):
            return values.astype(element.library)
        if not is_typed(x) and element.library == str(x.dtype):
            return values.astype(x.dtype)  # One of ml_dtypes.
    codes = np.asarray(element.format.encode(values)).astype(f"u{element.itemsize}")
    return fpsan_tools.typed(codes, kind)


def as_drawn(case: Case, own: Inputs, seed: int) -> Inputs:
    """A user's own inputs as arrays of the library that the case draws its inputs with.

    Args:
        case: The case.
        own: By name: NumPy arrays, `fpsan_tools.typed` ones, and plain numbers.
        seed: Of the inputs that are drawn to see their library.

    Raises:
        UsageError: An input that the kernel needs is not among them.
    """
    sample = drawn(case, Spec(GIVEN, seed=seed))
    arrays = [x for x in sample.values() if is_array(x)]
    made = {}
    for name, x in own.items():
        pattern = sample.get(name)
        torch_wanted = is_torch(pattern) if is_array(pattern) else all(is_torch(y) for y in arrays)
        made[name] = _as_torch(x) if torch_wanted and is_array(x) else x
    for side in (case.kernel, case.reference, *([case.rival] if case.rival is not None else [])):
        needed = [p.name for p in _parameters(side) or [] if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
        missing = [name for name in needed if name not in made]
        if missing and not len(missing) == len(needed) == len(made):
            raise UsageError(
                f"--data: it holds {', '.join(made)}, and {getattr(side, '__name__', 'a side')} needs "
                f"{missing[0]!r} too; add it to the file (arrays that a kernel writes to are inputs, of any values)."
            )
    return made


def _as_torch(x: Any) -> Any:
    torch = sys.modules["torch"]
    if is_torch(x):
        return x
    if is_typed(x):
        bits = torch.from_numpy(np.ascontiguousarray(x.array).view(f"i{x.array.itemsize}"))
        return bits.view(getattr(torch, element_named(str(x.dtype)).library))
    return torch.from_numpy(np.ascontiguousarray(x))


def in_float64(inputs: Inputs, nudge: np.random.Generator | None = None, unit: float = 0.0) -> Inputs:
    """The same inputs with every float widened to float64, and moved by one rounding of relative size `unit`."""
    made = {}
    for name, x in inputs.items():
        if float_element(x) is None:
            made[name] = x
            continue
        values = widened(x)
        if nudge is not None:
            values = values * (1 + unit * nudge.choice([-1.0, 1.0], values.shape))
        made[name] = like(x if is_torch(x) else values, values, "fp64")
    return made


def takes_fp64(inputs: Inputs) -> bool:
    """Whether one of the inputs is of fp64, so that fp32 is another precision."""
    return any((kind := float_element(x)) is not None and kind.name == "fp64" for x in inputs.values())


def in_float32(inputs: Inputs, wide: bool = False) -> Inputs:
    """The same inputs with 8- and 16-bit floats widened to float32, for references that lack these types; with `wide`,
    float64 is rounded to it too."""
    kinds = {name: float_element(x) for name, x in inputs.items()}
    return {
        name: x
        if (kind := kinds[name]) is None or kind.format.bits == 32 or (kind.format.bits == 64 and not wide)
        else like(x if is_torch(x) else np.zeros(0, np.float32), widened(x), "fp32")
        for name, x in inputs.items()
    }


def call(
    side: Callable[..., Any],
    inputs: Inputs,
    gradients: tuple[str, ...] = (),
    seed: int = 0,
    *,
    written: Collection[str] = (),
    buffers: Collection[str] = (),
) -> dict[str, Values]:
    """Calls a side with those of the inputs it has parameters for, on copies of them.

    Args:
        side: The function.
        inputs: By name.
        gradients: Inputs to differentiate its results by, with PyTorch.
        seed: Of the cotangents.
        written: Arrays that it is known to write to: results, also where it writes what they hold already.
        buffers: Arrays that nobody else reads: its results if it returns nothing and changes nothing.

    Returns:
        Its outputs by name: what it returns, or the arrays that it writes to.

    Raises:
        Refused: It raised an error of its own.
        fpsan_tools.FpsanError: The evaluator did.
    """
    given = {name: _copy(x) for name, x in _matching(side, inputs).items()}
    if gradients:
        return _differentiated(side, given, gradients, seed)
    before = {name: _bits(x) for name, x in given.items() if is_array(x)}
    returned = _called(side, given)
    outputs = _named(returned)
    if not outputs:
        results = [name for name, bits in before.items() if name in written or not _same(_bits(given[name]), bits)]
        outputs = {name: given[name] for name in results or [name for name in before if name in buffers]}
    floats = {name: x for name, x in outputs.items() if float_element(x) is not None}
    return {name: _value(x) for name, x in (floats or outputs).items()}


def names_taken(side: Callable[..., Any], inputs: Inputs) -> frozenset[str]:
    """The inputs that a call of a side would take; all where it does not tell."""
    parameters = _parameters(side)
    if parameters is None or any(p.kind is p.VAR_KEYWORD for p in parameters):
        return frozenset(inputs)
    return frozenset(p.name for p in parameters) & frozenset(inputs) or frozenset(inputs)


def _called(side: Callable[..., Any], given: Inputs) -> Any:
    try:
        with redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
            if _parameters(side) is None:  # A function without a signature, as extensions are: by position.
                return side(*given.values())
            return side(**given)
    except (fpsan_tools.FpsanError, MemoryError):
        raise
    except Exception as error:
        raise Refused(f"{type(error).__name__}: {one_line(error)}") from error


def _differentiated(
    side: Callable[..., Any], given: Inputs, gradients: tuple[str, ...], seed: int
) -> dict[str, Values]:
    torch = sys.modules.get("torch")
    missing = [name for name in gradients if name in given and not is_torch(given[name])]
    if torch is None or missing:
        raise UsageError("gradients: they are made by PyTorch; inputs() has to give torch tensors.")
    leaves = {name: given[name].requires_grad_(True) for name in gradients if name in given}
    outputs = _named(_called(side, {**given, **leaves}))
    wanted = {name: x for name, x in outputs.items() if x.is_floating_point()}
    if not any(x.requires_grad for x in wanted.values()):
        raise UsageError(
            f"gradients: the results of {getattr(side, '__name__', 'it')} do not depend on {', '.join(gradients)} for "
            "PyTorch; wrap the kernel in a torch.autograd.Function, or return its gradients as results."
        )
    rng = np.random.default_rng([seed, 11])
    # Multiples of 1/8 are numbers of every type.
    cotangents = [like(x, rng.integers(-8, 9, tuple(x.shape)) / 8, _kind(x)) for x in wanted.values()]
    found = torch.autograd.grad(list(wanted.values()), list(leaves.values()), cotangents, allow_unused=True)
    made = {name: _value(x) for name, x in wanted.items()}
    return made | {f"d{name}": _value(g) for name, g in zip(leaves, found, strict=True) if g is not None}


def _kind(x: Any) -> str:
    return element_named(str(x.dtype)).name


def _matching(side: Callable[..., Any], inputs: Inputs) -> Inputs:
    parameters = _parameters(side)
    if parameters is None:
        return inputs
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return inputs
    needed = [p.name for p in parameters if p.default is p.empty]
    missing = [name for name in needed if name not in inputs]
    if missing and len(missing) == len(needed) == len(inputs):
        return dict(zip(needed, inputs.values(), strict=True))  # It calls them by other names.
    if missing:
        name = getattr(side, "__name__", "a side")
        raise UsageError(f"{name}: it needs an argument {missing[0]!r}, but inputs() gives {', '.join(inputs)}.")
    return {p.name: inputs[p.name] for p in parameters if p.name in inputs}


def _parameters(side: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """The parameters of a function; None if it does not tell, or takes them by position only."""
    try:
        found = list(inspect.signature(side).parameters.values())
    except (TypeError, ValueError):
        return None
    return None if any(p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL) for p in found) else found


def by_name(side: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes its inputs by name, for one that takes them by position only."""
    if _parameters(side) is not None:
        return side

    def positional(**inputs: Any) -> Any:
        return side(*inputs.values())

    positional.__name__ = str(getattr(side, "__name__", type(side).__name__))
    return positional


def _copy(x: Any) -> Any:
    if is_torch(x):
        return x.detach().clone()
    if is_typed(x):
        return TypedArray(x.array.copy(), x.dtype)
    return x.copy() if isinstance(x, np.ndarray) else x


def _bits(x: Any) -> Any:
    return x.detach().clone() if is_torch(x) else (x.array if is_typed(x) else np.asarray(x)).copy()


def _same(x: Any, y: Any) -> bool:
    if is_torch(x):
        flat = (z.contiguous().reshape(-1).view(sys.modules["torch"].uint8) for z in (x, y))
        return bool(sys.modules["torch"].equal(*flat)) if x.numel() else True
    return bool(x.tobytes() == y.tobytes())


def _named(returned: Any) -> dict[str, Any]:
    if returned is None:
        return {}
    if isinstance(returned, Mapping):
        return {str(k): v for k, v in returned.items() if is_array(v)}
    if isinstance(returned, (tuple, list)) and not isinstance(returned, TypedArray):
        arrays = [x for x in returned if is_array(x)]
        return {"result" if len(arrays) == 1 else f"result {i}": x for i, x in enumerate(arrays)}
    return {"result": returned} if is_array(returned) else {"result": np.asarray(returned)}


def _value(x: Any) -> Values:
    element = float_element(x)
    return Values(widened(x), element.name if element else str(x.dtype).removeprefix("torch."))


def paired(outputs: Mapping[str, Values], wanted: Mapping[str, Values]) -> dict[str, tuple[str, Values, Values]]:
    """A side's outputs with the reference's: by name where the names agree, else in order.

    Args:
        outputs: The side's.
        wanted: The reference's.

    Raises:
        KernelFailed: They are not equally many.
    """
    if set(outputs) == set(wanted):
        return {name: (name, outputs[name], wanted[name]) for name in outputs}
    if len(outputs) != len(wanted):
        raise KernelFailed(
            f"it gives {len(outputs)} results ({', '.join(outputs) or 'none'}) and the reference {len(wanted)} "
            f"({', '.join(wanted) or 'none'})"
        )
    pairs = zip(outputs.items(), wanted.items(), strict=True)
    return {mine: (its, x, y) for (mine, x), (its, y) in pairs}


class CpuPlace:
    """Triton kernels are evaluated; everything else runs on the CPU as it is."""

    kind = "cpu"

    def inputs(self, inputs: Inputs) -> Inputs:
        """The inputs where a kernel finds them: here."""
        return {name: x.cpu() if is_torch(x) else x for name, x in inputs.items()}


class GpuPlace:
    """Kernels are launched on the first CUDA GPU."""

    kind = "gpu"

    def inputs(self, inputs: Inputs) -> Inputs:
        """The inputs as CUDA tensors."""
        torch = sys.modules["torch"]
        made = {}
        for name, x in inputs.items():
            if is_torch(x):
                made[name] = x.cuda()
            elif float_element(x) is not None:
                element = float_element(x)
                assert element is not None
                values = torch.from_numpy(np.ascontiguousarray(widened(x)))
                made[name] = values.cuda().to(getattr(torch, element.library))
            else:
                made[name] = torch.from_numpy(np.ascontiguousarray(x)).cuda() if isinstance(x, np.ndarray) else x
        return made

    def launches(self, side: Callable[..., Any], inputs: Inputs) -> int:
        """How many Triton kernels a side launches. Autotuners are not asked: they run their first configuration."""
        counter = _Counter()
        with counter, contextlib.suppress(Refused):
            call(side, inputs)
        return counter.launched


class _Counter(contextlib.ContextDecorator):
    """Counts the launches of Triton kernels while they go where they always go."""

    def __init__(self) -> None:
        self.launched = 0
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> _Counter:
        from fpsan_tools import dispatch

        with contextlib.suppress(ImportError):
            self._stack.enter_context(dispatch.engaged(self))
        return self

    def __exit__(self, *details: Any) -> None:
        self._stack.close()

    def launch(
        self,
        kernel: Any,
        grid: Any,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        warmup: bool,
        original: Callable[..., Any],
    ) -> Any:
        """Counts, and launches; see `fpsan_tools.dispatch.Engine`."""
        self.launched += not warmup
        return original(kernel, *arguments, grid=grid, warmup=warmup, **keywords)


Place = CpuPlace | GpuPlace
