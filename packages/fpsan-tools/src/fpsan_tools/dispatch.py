"""Who runs `kernel[grid](...)`: one patch of Triton's entry points, shared by all engines, sessions and threads.

The patch is there while any session is, and asks for each launch which engine the current thread or task has engaged.
Sessions of several threads may thus begin and end in any order, and launches elsewhere stay what they are.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from fpsan_tools.exceptions import FpsanError


class Engine(Protocol):
    """What runs the launches of a session."""

    def launch(
        self,
        kernel: Any,
        grid: Any,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        warmup: bool,
        original: Callable[..., Any],
    ) -> Any:
        """Run one launch.

        Args:
            kernel: the `@triton.jit` function.
            grid: as given to the launch.
            arguments: positional arguments.
            keywords: keyword arguments and launch options.
            warmup: whether the launch only compiles.
            original: Triton's own entry point, called as `original(kernel, *arguments, grid=..., warmup=...,
                **keywords)`.

        Returns:
            What the launch expression gives.
        """
        ...  # pragma: no cover


KNOBS = threading.RLock()
"""Held while a launch reads Triton's process-wide settings, and by whoever changes them for a launch."""

_ENGAGED: ContextVar[Engine | None] = ContextVar("fpsan_tools_engine", default=None)
_PATCH = threading.Lock()
_sessions = 0
_originals: dict[str, tuple[type, Callable[..., Any]]] = {}


@contextmanager
def engaged(engine: Engine) -> Iterator[None]:
    """Inside this block, launches of the current thread or task go to `engine`."""
    _enter()
    token = _ENGAGED.set(engine)
    try:
        yield
    finally:
        _ENGAGED.reset(token)
        _leave()


def current() -> Engine | None:
    """The engine that launches of the current thread or task go to, or None: they go to Triton."""
    return _ENGAGED.get()


def _entry_points() -> dict[type, Callable[..., Any]]:
    """Triton's classes whose `run` starts kernels, and what it is replaced by."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    found: dict[type, Callable[..., Any]] = {JITFunction: _run_jit, Autotuner: _run_autotuned}
    interpreter = sys.modules.get("triton.runtime.interpreter")
    if interpreter is not None:  # imported where TRITON_INTERPRET is in use only
        found[interpreter.InterpretedFunction] = _run_interpreted
    return found


def _enter() -> None:
    global _sessions
    with _PATCH:
        if _sessions == 0:
            for owner, replacement in _entry_points().items():
                _originals[owner.__name__] = owner, owner.run  # type: ignore[attr-defined]
                owner.run = replacement  # type: ignore[attr-defined]
        _sessions += 1


def _leave() -> None:
    global _sessions
    with _PATCH:
        _sessions -= 1
        if _sessions == 0:
            # The originals stay known: a launch that another thread has begun may still need them.
            for owner, original in _originals.values():
                owner.run = original  # type: ignore[attr-defined]


def _original(name: str) -> Callable[..., Any]:
    return _originals[name][1]


def _run_jit(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **keywords: Any) -> Any:
    engine = _ENGAGED.get()
    if engine is None:
        with KNOBS:
            return _original("JITFunction")(kernel, *arguments, grid=grid, warmup=warmup, **keywords)
    return engine.launch(kernel, grid, arguments, keywords, warmup, _original("JITFunction"))


def _run_interpreted(kernel: Any, *arguments: Any, **keywords: Any) -> Any:
    if _ENGAGED.get() is None:
        return _original("InterpretedFunction")(kernel, *arguments, **keywords)
    raise FpsanError(
        f"kernel {kernel.__name__!r} was made while TRITON_INTERPRET was set: Triton's interpreter would run it, with "
        "ordinary floats; unset the variable and start again"
    )


def _run_autotuned(tuner: Any, *arguments: Any, **keywords: Any) -> Any:
    """Run the configuration that was tuned before, else the first one that pruning leaves; nothing is measured."""
    if _ENGAGED.get() is None:
        return _original("Autotuner")(tuner, *arguments, **keywords)
    named = dict(zip(tuner.arg_names, arguments, strict=False))
    tuner.nargs = named
    try:
        everything = {**named, **keywords}
        known = {name: value for name, value in everything.items() if name in tuner.arg_names}
        key = [known[name] for name in tuner.keys if name in known]
        key += [str(value.dtype) for value in known.values() if hasattr(value, "dtype")]
        config = tuner.cache.get(tuple(key)) if len(tuner.configs) > 1 else tuner.configs[0]
        if config is None:
            config = tuner.prune_configs(keywords)[0]
        if config.pre_hook is not None:
            config.pre_hook({**everything, **config.all_kwargs()})
        return tuner.fn.run(*arguments, **keywords, **config.all_kwargs())
    finally:
        tuner.nargs = None
