"""Text in terminal columns: East Asian characters take two, and lines may break between any two of them."""

from __future__ import annotations

import re
from unicodedata import combining, east_asian_width

__all__ = ["pad", "width", "wrap"]

_CLOSING = "，。；：、！？）》」』”’,.;:!?)"
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

    White space, line ends included, separates words; a closing mark never starts a line.
    """
    lines = [first]
    used = width(first)
    pending = ""
    for piece in _PIECE.findall(" ".join(text.split())):
        if piece.isspace():
            pending = " "
            continue
        need = len(pending) + width(piece)
        started = lines[-1] not in (first, rest)
        if started and used + need > columns and piece not in _CLOSING:
            lines.append(rest)
            used = width(rest)
            pending = ""
            need = width(piece)
        lines[-1] += pending + piece
        used += need
        pending = ""
    return "\n".join(lines)
