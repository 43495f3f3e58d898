"""Finding a faster configuration for a kind of product without changing a bit of it.

A search starts from the configuration that a kernel proposes and walks to neighbours as long as they are faster. It may
only walk within one *class of equal bits*: a configuration that sums in another order is refused before it runs, by
what its kernel declares, and once more after it ran, by comparing its result with that of the configuration the search
started from. Results go to memory of the search's own, so neither `out` nor c is touched.

What was found is kept (see `tritongemm.store`) per device, mode, types, classes of shapes and strides, and versions of
Triton and this package.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from tritongemm import store
from tritongemm.configurations import Config, Problem, neighbours, strides_class
from tritongemm.elements import address_of, element_of, empty_like, strides_of
from tritongemm.errors import UsageError, one_line
from tritongemm.matrices import is_cuda, is_torch
from tritongemm.progress import Progress

__all__ = ["Trial", "Tuned", "tune"]

Timer = Callable[[Callable[[], None]], float]


@dataclass(frozen=True)
class Trial:
    """One configuration that a search considered.

    Attributes:
        config: The configuration.
        seconds: Its time; None if it was refused.
        refused: Why it was, or "".
    """

    config: Config
    seconds: float | None
    refused: str = ""


@dataclass(frozen=True)
class Tuned:
    """What a search found.

    Attributes:
        config: The fastest configuration, to be passed as `config`; kept for products of the same kind.
        seconds: Its time.
        default: The configuration that would have been taken.
        default_seconds: Its time.
        trials: Everything that was considered, in order.
    """

    config: Config
    seconds: float
    default: Config
    default_seconds: float
    trials: list[Trial] = field(default_factory=list)

    def __str__(self) -> str:
        refused = sum(1 for trial in self.trials if trial.refused)
        return (
            f"{self.config}: {self.seconds * 1e6:.1f} us, {self.default_seconds / self.seconds:.2f} times as fast as "
            f"the default; {len(self.trials)} configurations tried, {refused} of them refused."
        )


def problem_of(operands: Any, invariant: bool) -> Problem:
    """What a product's configuration depends on.

    Args:
        operands: The checked operands.
        invariant: Whether a row's bits must not depend on M.
    """
    kinds = []
    for name, axes in (("a", "mk"), ("b", "kn"), ("out", "mn")):
        x = getattr(operands, name)
        shape = tuple(int(n) for n in x.shape[-2:])
        strides = tuple(strides_of(x, name)[-2:])
        kinds.append(strides_class(shape, strides, element_of(x, name).itemsize, address_of(x), axes))
    types = [element_of(getattr(operands, name), name).name for name in ("a", "b", "out")]
    return Problem(
        M=operands.M,
        N=operands.N,
        K=int(operands.a.shape[-1]),
        batch=operands.batch,
        mode=operands.mode.name,
        dtypes=" ".join(types),
        strides=" ".join(kinds),
        device=_device_name(operands.a),
        invariant=invariant,
    )


def key_of(problem: Problem) -> str:
    """The key a configuration is kept under: the problem's, and the versions it was measured with."""
    return f"{problem.key} | {_versions()}"


@functools.cache
def _versions() -> str:
    import triton

    from tritongemm import __version__

    return f"triton {triton.__version__}, tritongemm {__version__}"


def _device_name(x: Any) -> str:
    return _name_of_gpu(x.get_device()) if is_cuda(x) else "cpu"


@functools.cache
def _name_of_gpu(index: int) -> str:
    return str(sys.modules["torch"].cuda.get_device_name(index))


def capturing() -> bool:
    """Whether a CUDA graph is being captured, in which nothing may be timed or synchronised."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available() and bool(torch.cuda.is_current_stream_capturing())


def remembered(operands: Any, invariant: bool) -> Config | None:
    """The configuration kept for a product like this one, if it still takes it and gives the promised bits.

    Args:
        operands: The checked operands.
        invariant: Whether a row's bits must not depend on M.
    """
    from tritongemm.dispatch import choose

    key = key_of(problem_of(operands, invariant))
    config = store.current().get(key)
    if config is None:
        return None
    try:
        choose(operands, config, invariant)
    except UsageError:
        # Extents of one class differ, and what fits one product need not fit another.
        return None
    return config


def search(
    operands: Any,
    *,
    invariant: bool = True,
    timer: Timer | None = None,
    starts: Iterable[Config] | None = None,
    steps: int = 6,
    max_seconds: float = 120.0,
) -> Tuned:
    """The fastest configuration that can be found for a product, among those with the bits that are promised.

    Args:
        operands: The checked operands; their result is not written to.
        invariant: Whether a row's bits must not depend on M. If they may, every configuration searched still has the
            bits of the one that would have been taken.
        timer: Measures a launch in seconds; on a GPU by its own clock.
        starts: Configurations to start from; each kernel's own if not given.
        steps: How often the search may walk to a faster neighbour.
        max_seconds: When to stop, the time that compiling takes included.

    Returns:
        What was found; it is not kept.

    Raises:
        UsageError: A graph is being captured, there is nothing to time, or what would have been taken does not run.
    """
    from tritongemm.dispatch import CANDIDATES, candidate_named, choose

    if capturing():
        raise UsageError("tune: a CUDA graph is being captured, which times nothing; tune before it.")
    if timer is None:
        if not is_cuda(operands.a):
            raise UsageError("a: on the CPU there is no launch to tune; give tensors on a GPU.")
        timer = on_the_gpu
    scratch = _apart(operands)
    candidate, default = choose(scratch, None, invariant)
    promised = candidate.bits(scratch, default)
    reference = None
    trials: dict[Config, Trial] = {}

    end = time.monotonic() + max_seconds
    share = 0.0

    def tried(config: Config) -> Trial:
        nonlocal reference
        if config not in trials:
            progress.show(f"{config.kernel}: {len(trials)} configurations tried", share)
            trial = _tried(scratch, candidate_named(config.kernel), config, promised, reference, timer)
            if reference is None and trial.seconds is not None:
                reference = _copied(scratch.out)
            trials[config] = trial
        return trials[config]

    with Progress() as progress:
        first = tried(default)
        if first.seconds is None:
            raise UsageError(f"config: the default {default} does not run: {first.refused}")
        best = first
        if starts is None:
            starts = [one.configure(scratch) for one in CANDIDATES if one.supports(scratch, None)]
        starts = list(starts)
        _compile_ahead(scratch, promised, starts)
        for i, start in enumerate(starts):
            if time.monotonic() > end:
                break
            here = tried(start)
            if here.seconds is None:
                continue
            for step in range(steps):
                share = (i + step / steps) / len(starts)
                around = []
                if time.monotonic() < end:
                    _compile_ahead(scratch, promised, (c for c in neighbours(here.config) if c not in trials))
                for config in neighbours(here.config):
                    if time.monotonic() > end:
                        break
                    if (trial := tried(config)).seconds is not None:
                        around.append(trial)
                fastest = min(around, key=_seconds, default=here)
                if _seconds(fastest) >= _seconds(here):
                    break
                here = fastest
            best = min(best, here, key=_seconds)
    return Tuned(best.config, _seconds(best), default, _seconds(first), list(trials.values()))


def _seconds(trial: Trial) -> float:
    assert trial.seconds is not None
    return trial.seconds


def _tried(operands: Any, candidate: Any, config: Config, promised: str, reference: Any, timer: Timer) -> Trial:
    """One configuration: refused for its class, for what it writes, or because it does not run; else timed."""
    if not candidate.supports(operands, config):
        return Trial(config, None, "does not take this product")
    bits = candidate.bits(operands, config)
    if bits != promised:
        return Trial(config, None, f"adds up in another order: {bits or 'that of the mode'}")
    _spoil(operands.out)
    try:
        candidate.run(operands, config)
        if reference is not None and not _equal(operands.out, reference):
            warnings.warn(
                f"{config} gave other bits than its kernel declares; it is not used. Please report this.", stacklevel=4
            )
            return Trial(config, None, "gave other bits than it declares")
        return Trial(config, timer(lambda: candidate.run(operands, config)))
    except Exception as error:  # too much shared memory, too many registers, a compiler that gives up
        return Trial(config, None, f"does not run: {one_line(error)}")


def _compile_ahead(operands: Any, promised: str, configs: Iterable[Config]) -> None:
    """Compiles the kernels of configurations on all cores, those that would be tried."""
    from tritongemm import launches
    from tritongemm.dispatch import candidate_named

    if not is_cuda(operands.a):
        return
    with launches.compiling_ahead():
        for config in configs:
            candidate = candidate_named(config.kernel)
            # What does not run is told when it is tried.
            with contextlib.suppress(Exception):
                if candidate.supports(operands, config) and candidate.bits(operands, config) == promised:
                    candidate.run(operands, config)


def _apart(operands: Any) -> Any:
    """The same product with a result of its own."""
    out = operands.out
    return replace(operands, out=empty_like(out, tuple(int(n) for n in out.shape), element_of(out, "out")))


def _spoil(out: Any) -> None:
    """What a configuration leaves unwritten must not be what the one before it wrote."""
    if is_torch(out):
        out.fill_(float("nan"))
    else:
        out[...] = float("nan")


def _copied(x: Any) -> Any:
    return x.clone() if is_torch(x) else x.copy()


def _equal(x: Any, y: Any) -> bool:
    """Whether two results have the same bits."""
    if is_torch(x):
        torch = sys.modules["torch"]
        whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
        return bool(torch.equal(x.view(whole), y.view(whole)))
    return bool(x.tobytes() == y.tobytes())


# Clocks for which the GPU is kept busy before a launch is timed: longer than Python takes to launch anything here, so
# that what is timed is the launch's work and not the GPU waiting for it.
_HEAD_START = 2_000_000


def on_the_gpu(run: Callable[[], None], *, warm: int = 3, rounds: int = 15) -> float:
    """Median time of a launch, in seconds, by the GPU's clock, with a cache that other data have passed through.

    Args:
        run: Does the launch.
        warm: Launches before the first one that is timed.
        rounds: Launches that are timed.
    """
    torch = sys.modules["torch"]
    flush = torch.empty(64 << 20, dtype=torch.int8, device="cuda")
    for _ in range(warm):
        run()
    times = []
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(_HEAD_START)
        flush.zero_()
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(float(begin.elapsed_time(end)) / 1000)
    return statistics.median(times)


def tune(
    a: Any,
    b: Any,
    *,
    precision: str = "ieee",
    alpha: float = 1,
    beta: float = 0,
    c: Any = None,
    bias: Any = None,
    activation: str | None = None,
    out_dtype: Any = None,
    invariant: bool = True,
    steps: int = 6,
    max_seconds: float = 120.0,
    timer: Timer | None = None,
) -> Tuned:
    """Searches a faster configuration for products like this one, and keeps it for all later calls.

    No bit of a result changes: see the module. Call it before a CUDA graph is captured, never inside.

    Args:
        a: (M, K) matrix, or a batch of them, on a GPU.
        b: (K, N) matrix, or a batch of them.
        precision: See `tritongemm.mm`, as for the other arguments.
        alpha: Factor of the product.
        beta: Factor of c.
        c: (M, N) matrix, or None.
        bias: (N,) array, or None.
        activation: "relu", "gelu", "silu" or None.
        out_dtype: Type of the result.
        invariant: Whether a row's bits must not depend on M.
        steps: How often the search may walk to a faster neighbour from each kernel's own configuration.
        max_seconds: When to stop; most of the time goes into compiling.
        timer: Measures a launch in seconds; on a GPU by its own clock.

    Returns:
        The configuration, its time, and what else was tried.

    Raises:
        UsageError: Arguments do not fit, a graph is being captured, or there is nothing to time.
        Unavailable: Triton is missing.
    """
    from tritongemm import automatic, execution, modes
    from tritongemm.operands import (
        Call,
        addend,
        check_batches,
        check_bias,
        check_factors,
        check_flag,
        check_kinds,
        check_matrices,
        check_number,
        check_settings,
        result_element,
    )

    try:
        from tritongemm.kernels.epilogue import Epilogue
        from tritongemm.kernels.problems import Operands
    except ImportError as error:
        raise execution.without_triton(error) from None
    call = Call("tune")
    check_kinds(call, {"a": a, "b": b, "c": c, "bias": bias})
    (check_matrices if len(a.shape) == 2 else check_batches)(call, a, b)
    check_settings(activation, precision, element_of(a, "a"))
    alpha, beta = check_factors(call, alpha, beta, element_of(a, "a"))
    invariant = check_flag("invariant", invariant)
    element, shape = result_element(a, out_dtype), (*a.shape[:-1], b.shape[-1])
    c = addend(call, c, beta, a, element, shape)
    if bias is not None:
        check_bias(call, bias, a, element.library, shape)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
        raise UsageError(f"steps: a whole number from 0 on, given {steps!r}.")
    if check_number("max_seconds", max_seconds) <= 0:
        raise UsageError(f"max_seconds: a time, given {max_seconds!r}.")
    precision = automatic.resolved(precision, a)
    epilogue = Epilogue(alpha=alpha, beta=beta, c=c, bias=bias, activation=activation)
    operands = Operands.of(a, b, modes.get(precision), out_dtype=element, epilogue=epilogue)
    found = search(operands, invariant=invariant, steps=steps, max_seconds=max_seconds, timer=timer)
    keep(operands, invariant, found)
    return found


def keep(operands: Any, invariant: bool, found: Tuned) -> None:
    """Keeps what a search found for products of the same kind.

    Args:
        operands: The checked operands.
        invariant: Whether a row's bits must not depend on M.
        found: What was found.
    """
    from tritongemm import eager

    store.current().put(
        key_of(problem_of(operands, invariant)),
        found.config,
        seconds=found.seconds,
        default_seconds=found.default_seconds,
        tried=len(found.trials),
    )
    eager.clear()  # plans of such products launch what was the default until now


def chosen(operands: Any, invariant: bool, *, search_if_new: bool) -> Config | None:
    """The configuration of a call that names none: the one kept, or one searched for if the call says "tune".

    Args:
        operands: The checked operands.
        invariant: Whether a row's bits must not depend on M.
        search_if_new: Whether to search where none is kept. Nothing is searched for on the CPU, and nothing while a
            CUDA graph is captured: such a call takes the table's configuration.

    Returns:
        The configuration; None for the table's.
    """
    config = remembered(operands, invariant)
    if config is not None or not search_if_new or not is_cuda(operands.a) or operands.empty or capturing():
        return config
    found = search(operands, invariant=invariant)
    keep(operands, invariant, found)
    return found.config
