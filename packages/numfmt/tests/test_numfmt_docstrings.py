"""Docstrings of everything public: every argument named, what is returned, which errors are raised.

The rule, and planted gaps that it finds.
"""

from __future__ import annotations

import inspect

import pytest

pytest.importorskip("docstring_rule", reason="the rule belongs to the repository, not to the package")

from docstring_rule import gaps, public, undescribed

MODULES = (
    "numfmt",
    "numfmt.blocks",
    "numfmt.explanation",
    "numfmt.families",
    "numfmt.matrix_units",
    "numfmt.plots",
    "numfmt.rounding",
    "numfmt.study",
    "numfmt.sumplots",
    "numfmt.tables",
)

PUBLIC = dict(public(MODULES))


@pytest.mark.parametrize("name", [name for name, thing in PUBLIC.items() if inspect.isfunction(thing)])
def test_functions_say_what_they_take_give_and_raise(name):
    assert gaps(PUBLIC[name]) == []


@pytest.mark.parametrize("name", [name for name, thing in PUBLIC.items() if isinstance(thing, property)])
def test_properties_have_a_text(name):
    assert inspect.getdoc(PUBLIC[name])


@pytest.mark.parametrize("name", [name for name, thing in PUBLIC.items() if inspect.isclass(thing)])
def test_classes_say_what_their_fields_are(name):
    thing = PUBLIC[name]
    assert (inspect.getdoc(thing) or "").strip()
    assert undescribed(thing) == set()


def test_there_is_something_to_look_at():
    assert len(PUBLIC) > 150
    assert {"numfmt.accumulate", "numfmt.FloatFormat.round", "numfmt.matrix_units.matmul"} <= PUBLIC.keys()


# Planted gaps.


def complete(a: int, *rest: int, b: int = 0) -> int:
    """Add.

    Args:
        a: A number,
            large or small.
        *rest: More.
        b: Another.

    Returns:
        The sum.

    Raises:
        ValueError: For nothing.
    """
    if a > b:
        raise ValueError(rest)
    return a


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        (("", ""), []),
        (("    a: A number,\n", ""), ["argument a"]),
        (("    *rest: More.\n", ""), ["argument rest"]),
        (("    b: Another.", "    c: Another."), ["argument b", "no argument c"]),
        (("    b: Another.", "    b:"), ["argument b"]),
        (("Returns:", "Gives:"), ["Returns"]),
        (("Raises:", "Hurts:"), ["Raises"]),
        (("Args:", "Arguments taken:"), ["argument a", "argument rest", "argument b"]),
    ],
)
def test_planted_gaps_are_found(monkeypatch, change, missing):
    doc = inspect.getdoc(complete)
    assert doc is not None
    assert change[0] in doc
    monkeypatch.setattr(complete, "__doc__", doc.replace(*change))
    assert gaps(complete) == missing
