"""Error texts that name the argument, what was given and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# A sentence names every known name up to this many, else the nearest ones.
_ALL, _NEAREST = 20, 6


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
    if len(names) <= _ALL:
        return f"unknown {argument} {given!r}; {hint}known: {', '.join(names)}"
    close = difflib.get_close_matches(str(given).casefold(), list(folded), n=_NEAREST, cutoff=0.3)
    shown = [folded[name] for name in close] or names[:_NEAREST]
    return f"unknown {argument} {given!r}; {hint}known: {', '.join(shown)} and {len(names) - len(shown)} others"


def not_a_format(argument: str, given: object, example: str = "BF16", optional: bool = False) -> str:
    """A sentence for something that is no `numfmt.FloatFormat`; a name, which people try first, gets its remedy.

    Args:
        argument: Name of the argument the user gave.
        given: What was given.
        example: A format to name.
        optional: None is allowed too.

    Returns:
        One sentence, ready for a ``TypeError``.
    """
    remedy = f"; numfmt.lookup({given!r}) gives the format of a name" if isinstance(given, str) else ""
    element = getattr(given, "element", None)
    if element is not None:
        remedy = f"; round the data to {given} first, or give its elements' format, {element.name}"
    shown = getattr(given, "name", None) or repr(given)
    shown = shown if element is None else f"the block format {shown}"
    return f"{argument} must be a FloatFormat such as numfmt.{example}{', or None' * optional}, got {shown}{remedy}"
