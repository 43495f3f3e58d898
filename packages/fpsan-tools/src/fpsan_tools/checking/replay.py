"""The one-line command that repeats a check."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fpsan_tools.checking.checker import Pair, Trial


def command(pair: Pair, trial: Trial) -> str:
    """A command that repeats a trial, or "" where a side or the inputs have no name in a file.

    Args:
        pair: the sides and their inputs.
        trial: what to repeat: its seed and sizes.

    Returns:
        As in `fpsan check a.py:k1 b.py:k2 --inputs spec.py --seeds 0 --size K=33`.
    """
    a, b, made = (getattr(x, "replayed_as", None) or _place(x) for x in (pair.a, pair.b, pair.source.function))
    if not (a and b and made):
        return ""
    words = ["fpsan", "check", a, b, "--inputs", made, "--seeds", str(trial.seed)]
    defaults = pair.source.defaults
    words += [word for k, v in trial.sizes.items() if v != defaults.get(k) for word in ("--size", f"{k}={v}")]
    if pair.outputs is not None:
        words += [word for name in pair.outputs for word in ("--output", name)]
    if pair.engine.name != "cpu":
        words += ["--engine", pair.engine.name]
    if pair.engine.version is not None:
        words += ["--algebra", pair.engine.version]
    if pair.engine.bounds != "live":
        words += ["--bounds", pair.engine.bounds]
    return shlex.join(words)


def _place(value: Any) -> str:
    """`file.py:name` of a module-level function."""
    name, module = getattr(value, "__qualname__", ""), sys.modules.get(getattr(value, "__module__", "") or "")
    file = getattr(module, "__file__", None)
    if not name or "<" in name or "." in name or file is None or getattr(module, name, None) is not value:
        return ""
    path = Path(file)
    relative = os.path.relpath(path)
    return f"{path if relative.startswith('..') else relative}:{name}"
