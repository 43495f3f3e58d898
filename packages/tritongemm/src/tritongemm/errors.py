"""The errors this package raises. Each message names what was given and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["KernelFailed", "TritongemmError", "Unavailable", "UsageError"]


class TritongemmError(Exception):
    """Base of the package's errors."""


class UsageError(TritongemmError, ValueError):
    """An argument cannot be used as given."""


class Unavailable(TritongemmError, RuntimeError):
    """Something this machine lacks is needed: Triton, torch, a GPU."""


class KernelFailed(TritongemmError, RuntimeError):
    """A kernel under audit cannot be launched or evaluated."""


def nearest(given: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: the closest known one, in whatever case it was written, and the whole list.

    Args:
        given: The name nobody knows.
        known: The names that exist.

    Returns:
        A sentence to end an error message with.
    """
    names = sorted(known)
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(given.casefold(), folded, n=1)
    hint = f"Did you mean {folded[close[0]]!r}? " if close else ""
    return f"{hint}Known: {', '.join(names) or 'none'}."


def one_line(error: BaseException) -> str:
    """An error's message on one line: compilers print the source around a mistake, of which the first and last line
    tell.

    Args:
        error: The error.

    Returns:
        Its message.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines if len(lines) < 3 else [lines[0], "...", lines[-1]])
