"""Text in terminal columns: East Asian characters take two, and lines may break between any two of them."""

from __future__ import annotations

import re
from unicodedata import combining, east_asian_width

__all__ = ["pad", "width", "wrap"]

_CLOSING = set("，。；：、！？）》」』”’,.;:!?)")
_OPENING = set("（《「『“‘")
_PIECE = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]|[^\s\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]+|\s+")


def width(text: str) -> int:
    """Terminal columns that `text` takes."""
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def pad(text: str, columns: int, right: bool = False) -> str:
    """`text` filled with blanks to `columns`, on its left if `right`."""
    blanks = " " * (columns - width(text))
    return blanks + text if right else text + blanks


def wrap(text: str, columns: int, first: str = "", rest: str = "") -> str:
    """`text` broken into lines of at most `columns`, the first one after `first`, the others after `rest`.

    White space, line ends included, separates words. A closing mark never starts a line and an opening one never ends
    one: they go where their neighbour goes. Only a word that is longer than a line sticks out.
    """
    lines = [first]
    used = width(first)
    for blank, unit in _unbreakable(text):
        added = " " * blank + unit
        if lines[-1] not in (first, rest) and used + width(added) > columns:
            lines.append(rest)
            used = width(rest)
            added = unit
        lines[-1] += added
        used += width(added)
    return "\n".join(lines)


def _unbreakable(text: str) -> list[tuple[int, str]]:
    """The pieces that a line may not break, each with the blanks before it: a word or an East Asian character, with the
    opening marks before and the closing marks after it.
    """
    pieces: list[tuple[int, str]] = []
    blank = 0
    for piece in _PIECE.findall(" ".join(text.split())):
        if piece.isspace():
            blank = 1
            continue
        if pieces and not blank and (set(piece) <= _CLOSING or pieces[-1][1][-1] in _OPENING):
            before, unit = pieces.pop()
            pieces.append((before, unit + piece))
        else:
            pieces.append((blank, piece))
        blank = 0
    return pieces
