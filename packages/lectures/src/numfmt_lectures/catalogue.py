"""The words of the lectures: one TOML file per lecture and language, and one per language that all lectures share."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from numfmt_lectures.names import unknown
from numfmt_lectures.report import Label

__all__ = ["LANGUAGES", "Catalogue", "load"]

LANGUAGES = {"en": "English", "zh": "中文"}
"""Languages in which every lecture is complete."""

_SHARED = "shared"


class Catalogue:
    """Looks texts up by path, and fills their placeholders.

    Placeholders are those of `str.format`, so a text decides how many digits of a value it quotes.
    """

    def __init__(self, lecture: str, language: str, texts: Mapping[str, Any], shared: Mapping[str, Any]) -> None:
        self.lecture = lecture
        self.language = language
        self._texts = texts
        self._shared = shared

    def text(self, *path: str, **values: object) -> str:
        """The text under `path`, in the lecture's own file or else in the shared one.

        Raises:
            KeyError: neither file has such a text.
        """
        found = self._find(path)
        if not isinstance(found, str):
            raise KeyError(f"no text {'.'.join(path)!r} for lecture {self.lecture!r} in language {self.language!r}")
        return found.strip().format(**{name: self._spoken(value) for name, value in values.items()})

    def optional(self, *path: str) -> str:
        """The text under `path` without placeholders, or an empty string."""
        found = self._find(path)
        return found.strip() if isinstance(found, str) else ""

    def texts(self, *path: str) -> list[str]:
        """The list of texts under `path`; empty where there is none."""
        found = self._find(path)
        return [str(item).strip() for item in found] if isinstance(found, list) else []

    def label(self, label: Label | str) -> str:
        """A label's phrase; a plain string is the same in every language."""
        return label if isinstance(label, str) else self.text("labels", label.key, **label.values)

    def _spoken(self, value: object) -> object:
        """A label's phrase, several of them as a list in prose, and anything else as it is."""
        if isinstance(value, Label):
            return self.label(value)
        if not isinstance(value, list):
            return value
        phrases = [self.label(item) for item in value]
        said = phrases.pop() if phrases else self.text("none")
        while phrases:
            said = self.text("list", first=phrases.pop(), rest=said)
        return said

    def _find(self, path: tuple[str, ...]) -> Any:
        for source in (self._texts, self._shared):
            node: Any = source
            for step in path:
                node = node.get(step) if isinstance(node, Mapping) else None
            if node is not None:
                return node
        return None


def load(lecture: str, language: str = "en") -> Catalogue:
    """The catalogue of a lecture in a language.

    Raises:
        LectureError: the language is not one of `LANGUAGES`.
    """
    if language not in LANGUAGES:
        raise unknown("language", language, LANGUAGES)
    return Catalogue(lecture, language, _read(language, lecture), _read(language, _SHARED))


@cache
def _read(language: str, name: str) -> Mapping[str, Any]:
    source = files("numfmt_lectures").joinpath("catalogues", language, f"{name}.toml")
    return tomllib.loads(source.read_text(encoding="utf-8"))
