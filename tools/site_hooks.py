"""MkDocs hooks. Reference pages list every public name of a package, so that none is forgotten and none invented.

A line `[[api PACKAGE]]` in a page becomes an entry for each name in the package's `__all__`, written by mkdocstrings
from the docstring, under the name that users import, wherever the code lies. Names that are modules follow, each with
its own. A line `[[cli MODULE:FUNCTION]]` becomes the help of a command and of its subcommands, from the parser that the
function makes.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import os
import pkgutil
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

ALTERNATE = re.compile(r'<link rel="alternate"[^>]*\bhreflang=[^>]*>')
COMMAND = re.compile(r"^\[\[cli ([\w.]+):(\w+)\]\]$", re.MULTILINE)
MARK = re.compile(r"^\[\[api ([\w.]+)\]\]$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the marks of a page; called by MkDocs."""
    markdown = COMMAND.sub(lambda mark: "\n".join(manual(mark[1], mark[2])), markdown)
    return MARK.sub(lambda mark: "\n".join(entries(mark[1])), markdown)


def manual(module: str, function: str) -> Iterator[str]:
    """Markdown of a command's help, then that of each of its subcommands."""
    parser: argparse.ArgumentParser = getattr(importlib.import_module(module), function)()
    yield from _help(parser, 2)
    for action in parser._subparsers._group_actions if parser._subparsers else []:
        seen: set[int] = set()
        for subparser in (action.choices or {}).values():
            if id(subparser) not in seen:  # an alias has no page of its own
                seen.add(id(subparser))
                yield from _help(subparser, 3)


def _help(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    """A heading and the text of `--help`, as wide as a page, whatever terminal builds the site."""
    anchor = parser.prog.replace(" ", "-")
    with mock.patch.dict(os.environ, {"COLUMNS": "80", "NO_COLOR": "1"}):
        text = parser.format_help().rstrip()
    yield f"{'#' * level} `{parser.prog}` {{ #{anchor} }}\n\n```text\n{text}\n```\n"


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
