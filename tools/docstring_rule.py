"""The rule for docstrings of everything public: arguments named, what is returned, which errors are raised."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Any


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


def public(
    modules: Iterable[str], unavailable: tuple[type[Exception], ...] = (ImportError,)
) -> Iterator[tuple[str, Any]]:
    """Every public function, class, method and property with its name.

    Args:
        modules: Where to look, the first home of a thing counts.
        unavailable: What a name raises that needs an optional package which is missing.
    """
    seen: set[int] = set()
    for module in modules:
        loaded = importlib.import_module(module)
        for name in loaded.__all__:
            try:
                thing = getattr(loaded, name)
            except unavailable:
                continue
            if inspect.ismodule(thing) or not callable(thing) or id(thing) in seen:
                continue
            seen.add(id(thing))
            yield f"{module}.{name}", thing
            if inspect.isclass(thing):
                for member, value in vars(thing).items():
                    if not member.startswith("_"):
                        yield f"{module}.{name}.{member}", getattr(value, "__func__", value)


def undescribed(cls: type) -> set[str]:
    """The fields of a dataclass that its docstring leaves out."""
    if not dataclasses.is_dataclass(cls):
        return set()
    doc = (inspect.getdoc(cls) or "") + "\n"
    fields = {f.name for f in dataclasses.fields(cls) if not f.name.startswith("_")}
    text = (section(doc, "Args") or "") + (section(doc, "Attributes") or "")
    return fields - set(re.findall(r"^ {4}(\w+): \S", text, re.MULTILINE))
