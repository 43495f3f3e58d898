"""Catalogues: every language has every text, its placeholders, and a sentence for either case of an observation."""

from __future__ import annotations

import string
import tomllib
from importlib.resources import files
from typing import Any

import pytest

import numfmt_lectures
from numfmt_lectures import catalogue
from numfmt_lectures.names import LectureError
from numfmt_lectures.report import Label

NAMES = ["shared", *numfmt_lectures.names()]
OTHERS = [language for language in numfmt_lectures.LANGUAGES if language != "en"]


def texts(language: str, name: str) -> dict[str, str]:
    """Every text of a catalogue under its dotted path."""
    source = files("numfmt_lectures").joinpath("catalogues", language, f"{name}.toml")
    found: dict[str, str] = {}

    def walk(node: Any, path: str) -> None:
        if isinstance(node, dict):
            for key, value in node.items():
                walk(value, f"{path}.{key}")
        elif isinstance(node, list):
            for number, value in enumerate(node):
                walk(value, f"{path}.{number}")
        else:
            found[path] = node

    walk(tomllib.loads(source.read_text(encoding="utf-8")), name)
    return found


def placeholders(text: str) -> set[str]:
    return {field for _, field, _, _ in string.Formatter().parse(text) if field}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("language", OTHERS)
def test_languages_do_not_drift(language: str, name: str) -> None:
    english, other = texts("en", name), texts(language, name)
    assert set(english) == set(other)
    for path, text in english.items():
        exercise = ".exercises." in path
        assert exercise or placeholders(text) >= placeholders(other[path]), path
        assert other[path].strip(), path


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_is_not_a_copy(language: str, name: str) -> None:
    english, other = texts("en", name), texts(language, name)
    copies = [path for path, text in english.items() if len(text) > 40 and text == other[path]]
    assert copies == []


@pytest.mark.parametrize("name", numfmt_lectures.names())
def test_every_observation_has_a_sentence_for_either_case(name: str) -> None:
    paths = texts("en", name)
    stems = {path.rsplit(".", 1)[0] for path in paths if ".observations." in path}
    assert stems
    for stem in stems:
        assert {f"{stem}.holds", f"{stem}.fails"} <= set(paths)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("language", numfmt_lectures.LANGUAGES)
def test_text_is_plain(language: str, name: str) -> None:
    for path, text in texts(language, name).items():
        assert "\t" not in text, path
        assert "—" not in text, path


def test_a_missing_text_names_itself() -> None:
    words = catalogue.load("numbers")
    with pytest.raises(KeyError, match=r"no text 'anatomy\.nothing' for lecture 'numbers' in language 'en'"):
        words.text("anatomy", "nothing")


def test_an_unknown_language_names_the_known_ones() -> None:
    with pytest.raises(LectureError, match=r"unknown language 'eng'; did you mean 'en'\?"):
        catalogue.load("numbers", "eng")


def test_labels_inside_values_are_spoken() -> None:
    words = catalogue.Catalogue("x", "en", {"said": "it is {what}", "labels": {"thing": "number {n}"}}, {})
    assert words.text("said", what=Label("thing", {"n": 3})) == "it is number 3"
