"""Error texts that name the argument, what was given and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown_name(argument: str, given: object, known: Iterable[str]) -> str:
    """A sentence for a name that is not in ``known``, with the nearest one that is.

    Args:
        argument: Name of the argument the user gave.
        given: What was given.
        known: The names that would have been accepted.

    Returns:
        One sentence, ready for a ``ValueError``.
    """
    names = list(known)
    folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(str(given).casefold(), list(folded), n=1, cutoff=0.5)
    hint = f"did you mean {folded[near[0]]!r}? " if near else ""
    return f"unknown {argument} {given!r}; {hint}known: {', '.join(names)}"
