"""MkDocs hooks. Reference pages list every public name of a package, so that none is forgotten and none invented.

A line `[[api PACKAGE]]` in a page becomes an entry for each name in the package's `__all__`, written by mkdocstrings
from the docstring, under the name that users import, wherever the code lies. Names that are modules follow, each with
its own.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

ALTERNATE = re.compile(r'<link rel="alternate"[^>]*\bhreflang=[^>]*>')
MARK = re.compile(r"^\[\[api ([\w.]+)\]\]$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the marks of a page; called by MkDocs."""
    return MARK.sub(lambda mark: "\n".join(entries(mark[1])), markdown)


def on_post_template(output_content: str, **_: Any) -> str:
    """The same as `on_post_page` for the page of missing pages; called by MkDocs."""
    return on_post_page(output_content)


def on_post_page(output: str, **_: Any) -> str:
    """Drop the links to other languages from a page's head; called by MkDocs.

    For each of them the theme's script asks for a sitemap beside the page, which is nowhere. The reader's own links, in
    the header, stay.
    """
    return ALTERNATE.sub("", output)


def public_names(module: ModuleType) -> list[str]:
    """The names a module offers."""
    return [name for name in getattr(module, "__all__", []) if not name.startswith("_")]


def entries(package: str, level: int = 2, seen: set[str] | None = None) -> Iterator[str]:
    """Markdown of a package's public names, its public modules last.

    Raises:
        LookupError: a public name is neither a function, class or module nor assigned in any module of the package.
    """
    seen = seen if seen is not None else set()
    module = importlib.import_module(package)
    modules = []
    for name in public_names(module):
        thing = attribute(module, name)
        if inspect.ismodule(thing):
            modules.append(thing.__name__)
            continue
        place = definition(module, name, thing)
        if place in seen:
            continue
        seen.add(place)
        yield f'<a id="{package}.{name}"></a>\n'
        options = f"      show_root_heading: true\n      show_root_toc_entry: true\n      heading: {name}\n"
        yield f"::: {place}\n    options:\n{options}      toc_label: {name}\n      heading_level: {level}\n"
    for name in modules:
        yield f"{'#' * level} {name} {{ #{name} }}\n"
        yield f"{first_paragraph(importlib.import_module(name))}\n"
        yield from entries(name, level + 1, seen)


def attribute(module: ModuleType, name: str) -> Any:
    """A module's attribute, or None where loading it needs a package that the site is built without (torch)."""
    try:
        return getattr(module, name)
    except Exception as error:
        missing = error if isinstance(error, ImportError) else error.__cause__
        if not isinstance(missing, ImportError) or (missing.name or "").startswith(module.__name__.partition(".")[0]):
            raise
        return None


def definition(module: ModuleType, name: str, thing: Any) -> str:
    """The dotted path of the place where a name is defined, which is where its docstring is."""
    if inspect.isclass(thing) or inspect.isroutine(thing):
        return f"{thing.__module__}.{thing.__qualname__}"
    # Triton's jit wraps a kernel: the function inside knows its place.
    function = getattr(thing, "fn", None)
    if inspect.isroutine(function):
        return f"{function.__module__}.{function.__qualname__}"
    top = module.__name__.partition(".")[0]
    root = importlib.import_module(top)
    candidates = [module.__name__, *(m.name for m in pkgutil.walk_packages(root.__path__, f"{top}."))]
    for candidate in candidates:
        origin = getattr(find_spec(candidate), "origin", None)
        # Read, not imported: some modules need optional packages, and some run a command.
        if origin and origin.endswith(".py") and name in defined(Path(origin).read_text(encoding="utf-8")):
            return f"{candidate}.{name}"
    raise LookupError(f"{module.__name__}.{name} is public, but no module of {top} assigns it")


def defined(source: str) -> set[str]:
    """The names that a module's source defines or assigns at its top level."""
    names = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def first_paragraph(module: ModuleType) -> str:
    """The first paragraph of a module's docstring."""
    return (inspect.getdoc(module) or "").partition("\n\n")[0]
