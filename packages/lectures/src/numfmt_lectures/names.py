"""Errors that name what was given, what is allowed and the nearest of it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["LectureError", "unknown"]


class LectureError(ValueError):
    """Wrong use of a lecture: an unknown name, a setting that cannot be, a package that is missing."""


def unknown(what: str, given: str, known: Iterable[str]) -> LectureError:
    """The error for a name that is not known.

    Args:
        what: what kind of name it is, as in "lecture".
        given: what the user wrote.
        known: every name that would have been right.

    Returns:
        An error to raise, with the nearest known name if one is near.
    """
    names = sorted(known)
    # A part of a name is nearer to it than any similar name.
    near = [name for name in names if len(given) > 2 and given.lower() in name]
    near = near or get_close_matches(given.lower(), names, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return LectureError(f"unknown {what} {given!r}{hint} Known: {', '.join(names)}.")
