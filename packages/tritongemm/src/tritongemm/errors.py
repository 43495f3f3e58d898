"""The errors this package raises. Each message names what was given and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TritongemmError(Exception):
    """Base of the package's errors."""


class UsageError(TritongemmError, ValueError):
    """An argument cannot be used as given."""


class Unavailable(TritongemmError, RuntimeError):
    """Something this machine lacks is needed: Triton, torch, a GPU."""


def nearest(given: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: the closest known one and the whole list.

    Args:
        given: The name nobody knows.
        known: The names that exist.

    Returns:
        A sentence to end an error message with.
    """
    names = sorted(known)
    close = difflib.get_close_matches(given, names, n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    return f"{hint}Known: {', '.join(names) or 'none'}."
