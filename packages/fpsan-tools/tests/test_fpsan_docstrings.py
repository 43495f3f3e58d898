"""Docstrings of everything public: every argument named, what is returned, which errors are raised."""

from __future__ import annotations

import inspect

import pytest

pytest.importorskip("docstring_rule", reason="the rule belongs to the repository, not to the package")

from docstring_rule import gaps, public, undescribed

from fpsan_tools import FpsanError

MODULES = (
    "fpsan_tools",
    "fpsan_tools.algebra",
    "fpsan_tools.checking",
)

# Some names raise FpsanError where torch is missing.
PUBLIC = dict(public(MODULES, (ImportError, FpsanError)))


# What the class docstring of Algebra says of all its rules: x, y and z are payloads, and so is the result.
RULE = {"argument x", "argument y", "argument z", "Returns"}


@pytest.mark.parametrize("name", [name for name, thing in PUBLIC.items() if inspect.isfunction(thing)])
def test_functions_say_what_they_take_give_and_raise(name):
    found = gaps(PUBLIC[name])
    if ".Algebra." in name:
        found = [gap for gap in found if gap not in RULE]
    assert found == []


def test_the_class_of_all_rules_says_what_they_share():
    doc = inspect.getdoc(PUBLIC["fpsan_tools.algebra.Algebra"])
    assert "`x`, `y` and `z` are arrays of payloads" in doc
    assert "the result is one" in doc


@pytest.mark.parametrize("name", [name for name, thing in PUBLIC.items() if isinstance(thing, property)])
def test_properties_have_a_text(name):
    assert inspect.getdoc(PUBLIC[name])


@pytest.mark.parametrize("name", [name for name, thing in PUBLIC.items() if inspect.isclass(thing)])
def test_classes_say_what_their_fields_are(name):
    thing = PUBLIC[name]
    assert (inspect.getdoc(thing) or "").strip()
    assert undescribed(thing) == set()


def test_there_is_something_to_look_at():
    assert len(PUBLIC) > 50
    assert {"fpsan_tools.on_cpu", "fpsan_tools.check", "fpsan_tools.algebra.get"} <= PUBLIC.keys()
