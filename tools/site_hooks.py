"""MkDocs hooks. Reference pages list every public name of a package, so that none is forgotten and none invented.

A line `[[api PACKAGE]]` in a page becomes an entry for each name in the package's `__all__`, written by mkdocstrings
from the docstring, under the name that users import, wherever the code lies. Names that are modules follow, each with
its own. `[[api PACKAGE: NAME NAME]]` takes some of them, one heading level lower; `[[api PACKAGE]]` after it takes the
others. `[[constants PACKAGE: NAME NAME]]` becomes a table of constants (see site_reference.py).

A line `[[cli MODULE:FUNCTION]]` becomes the help of a command and of its subcommands, from the parser that the function
makes. A line `[[results VIEW NAME]]` becomes figures of bench/results (see site_results.py), and `[[results overview]]`
the list of all of them. A line `[[rules VIEW]]` becomes a table of the payload algebra (see site_rules.py). Lines
`[[file NAME]]`, `[[run COMMAND]]` and `[[picture NAME: TEXT]]` are examples (see site_examples.py).
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import inspect
import os
import pkgutil
import posixpath
import re
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

TOOLS = Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

import site_examples  # noqa: E402
import site_reference  # noqa: E402
import site_results  # noqa: E402

DOCS = TOOLS.parent / "docs"
ALTERNATE = re.compile(r'<link rel="alternate"[^>]*\bhreflang=[^>]*>')
COMMAND = re.compile(r"^\[\[cli ([\w.]+):(\w+)\]\]$", re.MULTILINE)
MARK = re.compile(r"^\[\[(api|constants) ([\w.]+)(?::((?: \w+)+))?\]\]$", re.MULTILINE)
# The anchor of a heading that a page has for a module.
ANCHOR = re.compile(r"^#+ .* \{ #([\w.]+) \}$", re.MULTILINE)
RESULTS = re.compile(r"^\[\[results ([\w-]+)(?: ([\w.*?-]+))?\]\]$", re.MULTILINE)
RULES = re.compile(r"^\[\[rules ([\w-]+)\]\]$", re.MULTILINE)

_started = time.perf_counter()
_spent: dict[str, float] = {}
_page_began = 0.0
_source = ""
_outputs: dict[tuple[str, ...], str] = {}


def on_startup(**_: Any) -> None:
    """Run the blocks of a page, and a lecture, once for all languages that show them; called by MkDocs.

    A page without a translation is built again for each language, from the same file: its blocks give the same output.
    A lecture computes the same in every language and is then told in one.
    """
    lectures = importlib.import_module("numfmt_lectures")
    perform = lectures.perform
    reports: dict[tuple[Any, ...], Any] = {}

    def perform_once(lecture: Any, quick: bool = False, overrides: Any = None) -> Any:
        key = (lecture.name, quick, *sorted((overrides or {}).items()))
        if key not in reports:
            reports[key] = perform(lecture, quick, overrides)
        return reports[key]

    lectures.perform = perform_once
    try:
        blocks = importlib.import_module("markdown_exec._internal.formatters.python")
        run = blocks._run_python
    except (ImportError, AttributeError):  # another version of the plugin: every block is run, which only takes longer
        return

    def run_once(code: str, **options: Any) -> str:
        key = (_source, code, *map(str, options.values()))
        if key not in _outputs:
            _outputs[key] = run(code, **options)
        return _outputs[key]

    blocks._run_python = run_once


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """Replace the marks of a page; called by MkDocs."""
    global _source, _page_began
    _page_began = time.process_time()
    _source = page.file.src_uri if page else ""
    markdown = COMMAND.sub(lambda mark: "\n".join(manual(mark[1], mark[2])), markdown)
    markdown = RESULTS.sub(lambda mark: results(mark[1], mark[2], _source or "index.md"), markdown)
    markdown = RULES.sub(lambda mark: rules(mark[1]), markdown)
    markdown = site_examples.render(markdown, _source, DOCS)
    seen = set(ANCHOR.findall(markdown))
    return MARK.sub(lambda mark: "\n".join(reference(mark, seen)), markdown)


def reference(mark: re.Match[str], seen: set[str]) -> Iterator[str]:
    """Markdown of a mark for names of a package."""
    kind, package, given = mark.groups()
    if not given:
        yield from entries(package, seen=seen)
        return
    module = importlib.import_module(package)
    names = given.split()
    unknown = [name for name in names if name not in public_names(module)]
    if unknown:
        raise LookupError(f"{package} offers no {unknown[0]}: {mark[0]}")
    if kind == "api":
        yield from entries(package, 3, seen, names)
        return
    places = [definition(module, name, getattr(module, name)) for name in names]
    seen.update(places)
    yield from site_reference.constants(package, names, places)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Link public names that a page writes as code, and note what the page cost; called by MkDocs."""
    _spent[page.file.src_uri] = _spent.get(page.file.src_uri, 0.0) + time.process_time() - _page_began
    path = Path(page.file.src_uri)
    package = path.stem.replace("-", "_") if path.parent.name == "reference" else ""
    return site_reference.link_names(html, package if package in site_reference.PACKAGES else None)


def on_post_build(config: Any = None, **_: Any) -> None:
    """Copy the search's index where pages on a disk can read it, and say how long the site took; called by MkDocs.

    A page on a disk may load a script, not a data file. Called once for each language; the index is whole at last.
    """
    index = Path(config["site_dir"]) / "search" / "search_index.json" if config else None
    if index and index.exists():
        index.with_suffix(".js").write_text(f"var __index = {index.read_text(encoding='utf-8')}", encoding="utf-8")
    slow = sorted(_spent.items(), key=lambda item: -item[1])[:6]
    told = ", ".join(f"{page} {seconds:.1f} s" for page, seconds in slow)
    print(f"site_hooks: {time.perf_counter() - _started:.1f} s since the start of the build; most of it for {told}")


# After the plugins of languages and search, which write the index; what `mkdocs.plugins.event_priority` does.
on_post_build.mkdocs_priority = -200  # type: ignore[attr-defined]


def rules(which: str) -> str:
    """Markdown of a mark for a table of the payload algebra."""
    sys.path.insert(0, str(TOOLS))  # MkDocs takes it away again once the hooks are loaded
    try:
        import site_rules  # needs fpsan_tools, which a page without the mark does not
    finally:
        sys.path.remove(str(TOOLS))
    return "\n".join(site_rules.VIEWS[which]())


def results(which: str, pattern: str | None, source: str) -> str:
    """Markdown of a mark for results on the page of a source file."""
    if which != "overview":
        return site_results.render(which, pattern or "*") or "*Nothing is recorded yet.*"
    pages: dict[str, list[str]] = {}
    for path, shown in results_by_page().items():
        heading = re.search(r"^# (.*)$", (DOCS / path).read_text(encoding="utf-8"), re.MULTILINE)
        link = f"[{heading[1] if heading else path}]({posixpath.relpath(path, posixpath.dirname(source))})"
        for name in shown:
            pages.setdefault(name, []).append(link)
    return "\n".join(site_results.overview(pages))


@functools.cache
def results_by_page() -> dict[str, list[str]]:
    """For each page with marks for results, the files that these marks show."""
    found = {}
    for path in sorted(DOCS.rglob("*.md")):
        if path.name.endswith(".zh.md"):
            continue
        shown: set[str] = set()
        for mark in RESULTS.finditer(path.read_text(encoding="utf-8")):
            if mark[1] != "overview":
                shown.update(re.findall(r"<!-- results: (\S+) -->", site_results.render(mark[1], mark[2] or "*")))
        if shown:
            found[path.relative_to(DOCS).as_posix()] = sorted(shown)
    return found


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


def entries(
    package: str, level: int = 2, seen: set[str] | None = None, names: list[str] | None = None
) -> Iterator[str]:
    """Markdown of a package's public names, or of some of them, its public modules last.

    Raises:
        LookupError: a public name is neither a function, class or module nor assigned in any module of the package.
    """
    seen = seen if seen is not None else set()
    module = importlib.import_module(package)
    modules = []
    for name in names or public_names(module):
        thing = attribute(module, name)
        if inspect.ismodule(thing):
            modules.append(thing.__name__)
            continue
        if thing is None and hasattr(module, "__path__") and find_spec(f"{package}.{name}"):
            # A module that needs torch: read by mkdocstrings, not imported.
            heading = f"      show_root_heading: true\n      heading: {package}.{name}\n      heading_level: {level}\n"
            yield f"::: {package}.{name}\n    options:\n{heading}"
            continue
        place = definition(module, name, thing)
        if place in seen:
            continue
        seen.add(place)
        yield f'<a id="{package}.{name}"></a>\n'
        options = f"      show_root_heading: true\n      show_root_toc_entry: true\n      heading: {name}\n"
        if isinstance(thing, dict):  # its source says less than its comment
            options += "      show_attribute_values: false\n"
        yield f"::: {place}\n    options:\n{options}      toc_label: {name}\n      heading_level: {level}\n"
        if not (inspect.isclass(thing) or inspect.isroutine(thing)):
            yield f"{site_reference.comment(place)}\n"
    for name in modules:
        if name not in seen:  # else the page has a heading of its own for it
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


@functools.cache
def defined(source: str) -> frozenset[str]:
    """The names that a module's source defines or assigns at its top level."""
    names = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(names)


def first_paragraph(module: ModuleType) -> str:
    """The first paragraph of a module's docstring."""
    return (inspect.getdoc(module) or "").partition("\n\n")[0]
