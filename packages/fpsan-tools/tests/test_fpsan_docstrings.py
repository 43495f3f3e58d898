"""Docstrings of everything public: every argument named, what is returned, which errors are raised.

The rule, and planted gaps that it finds.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fpsan_tools import FpsanError

MODULES = (
    "fpsan_tools",
    "fpsan_tools.algebra",
    "fpsan_tools.checking",
)


def raised(function: Callable[..., Any]) -> bool:
    """Whether a function's own body raises something, other than again."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return False
    inner = [n for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and f is not tree.body[0] for n in ast.walk(f)]
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Raise) and n.exc is not None]
    return any(node not in inner for node in nodes)


def section(doc: str, *titles: str) -> str | None:
    """The text of a section, or None."""
    found = re.search(rf"^(?:{'|'.join(titles)}):\n((?:(?:[ ]{{4}}.*)?\n?)*)", doc, re.MULTILINE)
    return found[1] if found else None


def gaps(function: Callable[..., Any]) -> list[str]:
    """What a docstring does not say."""
    doc = (inspect.getdoc(function) or "") + "\n"
    signature = inspect.signature(function)
    found = [] if doc.strip() else ["text"]
    arguments = section(doc, "Args") or ""
    for name in signature.parameters:
        if name not in ("self", "cls") and not re.search(rf"^ {{4}}\*{{0,2}}{name}: \S", arguments, re.MULTILINE):
            found.append(f"argument {name}")
    named = set(re.findall(r"^ {4}\*{0,2}(\w+): ", arguments, re.MULTILINE))
    found += [f"no argument {name}" for name in sorted(named - set(signature.parameters))]
    returns = signature.return_annotation not in (None, "None", inspect.Signature.empty)
    if returns and section(doc, "Returns", "Yields") is None:
        found.append("Returns")
    if raised(function) and section(doc, "Raises") is None:
        found.append("Raises")
    return found


def public(modules: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Every public function, class, method and property with its name."""
    seen: set[int] = set()
    for module in modules:
        loaded = importlib.import_module(module)
        for name in loaded.__all__:
            try:
                thing = getattr(loaded, name)
            except (ImportError, FpsanError):  # needs torch, which this environment may lack
                continue
            if inspect.ismodule(thing) or not callable(thing) or id(thing) in seen:
                continue
            seen.add(id(thing))
            yield f"{module}.{name}", thing
            if inspect.isclass(thing):
                for member, value in vars(thing).items():
                    if not member.startswith("_"):
                        yield f"{module}.{name}.{member}", getattr(value, "__func__", value)


PUBLIC = dict(public(MODULES))


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
    doc = (inspect.getdoc(thing) or "") + "\n"
    assert doc.strip()
    if dataclasses.is_dataclass(thing):
        fields = {f.name for f in dataclasses.fields(thing) if not f.name.startswith("_")}
        text = (section(doc, "Args") or "") + (section(doc, "Attributes") or "")
        assert fields - set(re.findall(r"^ {4}(\w+): \S", text, re.MULTILINE)) == set()


def test_there_is_something_to_look_at():
    assert len(PUBLIC) > 50
    assert {"fpsan_tools.on_cpu", "fpsan_tools.check", "fpsan_tools.algebra.get"} <= PUBLIC.keys()


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
