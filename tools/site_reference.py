"""Parts of the reference pages that mkdocstrings does not write: constants, their comments, and links between names."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

#: The packages that have a reference page.
PACKAGES = ("numfmt", "fpsan_tools", "tritongemm", "numfmt_lectures")
#: Modules whose names are public under the module's name.
MODULES = (
    *("numfmt.blocks", "numfmt.explanation", "numfmt.families", "numfmt.matrix_units", "numfmt.plots"),
    *("numfmt.rounding", "numfmt.study", "numfmt.sumplots", "numfmt.tables"),
)

# Parts of a page in which code is no mention of a name: links, listings, headings, and names of parameters.
_APART = re.compile(
    r"<a\b.*?</a>|<pre\b.*?</pre>|<h[1-6]\b.*?</h[1-6]>|<b><code>.*?</code></b>|<autoref\b.*?</autoref>", re.DOTALL
)
_CODE = re.compile(r"<code>([A-Za-z_]\w*(?:\.\w+)*)</code>")

# Code, which keeps its stars, or a power between a number, a name or a bracket and its exponent.
_SHOWN = r"``.*?``|`[^`]*`|^ *(?:>>>|\.\.\. )[^\n]*"
_SHOWN_OR_POWER = re.compile(rf"({_SHOWN})|(?<=[\w)])\*\*(?=[\w(-])", re.DOTALL | re.MULTILINE)


def escaped(text: str) -> str:
    """A docstring with the stars of powers (2**-24) escaped, so that they are no emphasis, outside of code."""
    return _SHOWN_OR_POWER.sub(lambda found: found[1] or r"\*\*", text)


def comment(place: str) -> str:
    """The comment (`#: ...`) above an assignment, which documents a constant and which mkdocstrings does not read.

    Args:
        place: Dotted path of the constant, module first.

    Returns:
        Its text in one paragraph; "" if there is none.
    """
    module, _, name = place.rpartition(".")
    origin = getattr(find_spec(module), "origin", None)
    source = Path(origin).read_text(encoding="utf-8") if origin else ""
    found = re.search(rf"((?:^#:.*\n)+)^{re.escape(name)}\b", source, re.MULTILINE)
    return " ".join(line.removeprefix("#:").strip() for line in found[1].splitlines()) if found else ""


def constants(package: str, names: Iterable[str], places: Iterable[str]) -> Iterator[str]:
    """Markdown of constants as a table: name, value.

    Args:
        package: The package that offers them.
        names: Their names.
        places: Dotted paths of where they are assigned, which other pages may refer to as well.
    """
    module = importlib.import_module(package)
    yield "| name | value |\n| --- | --- |"
    for name, place in zip(names, places, strict=True):
        anchors = "".join(f"[](){{ #{anchor} }}" for anchor in dict.fromkeys((f"{package}.{name}", place)))
        yield f"| {anchors}`{name}` | {_value(getattr(module, name))} |"
    yield ""


def _value(thing: Any) -> str:
    """What a constant is, for people."""
    if hasattr(thing, "element"):
        scale = f"`{thing.scale}`" + (f" and one `{thing.tensor_scale}` for the tensor" if thing.tensor_scale else "")
        return f"blocks of {thing.block} `{thing.element.name}`, scales `{thing.rule}` in {scale}"
    if hasattr(thing, "entries"):
        return f"a table of {len(thing.entries)} values from {thing.min:g} to {thing.max:g}"
    return f"`{thing!r}`"


@functools.cache
def _names(package: str) -> dict[str, str]:
    """Names of a package, and of its classes' members, with their dotted paths; ambiguous ones are left out."""
    module = importlib.import_module(package)
    found: dict[str, str] = {}
    twice: set[str] = set()

    def note(name: str, path: str) -> None:
        if found.setdefault(name, path) != path:
            twice.add(name)

    def walk(module: ModuleType, prefix: str) -> None:
        for name in getattr(module, "__all__", []):
            try:
                thing = getattr(module, name)
            except Exception:  # needs a package that the site is built without
                continue
            path = f"{prefix}.{name}"
            if inspect.ismodule(thing):
                walk(thing, thing.__name__)
                continue
            # The place of its definition is the anchor that mkdocstrings makes.
            known = inspect.isclass(thing) or inspect.isroutine(thing)
            place = f"{thing.__module__}.{thing.__qualname__}" if known else path
            note(name, place)
            note(path, place)
            if inspect.isclass(thing):
                for member in vars(thing):
                    if not member.startswith("_"):
                        note(f"{name}.{member}", f"{place}.{member}")
                        note(f"{path}.{member}", f"{place}.{member}")

    walk(module, package)
    return {name: path for name, path in found.items() if name not in twice}


def link_names(html: str, package: str | None) -> str:
    """A page's HTML in which code that is a public name links to its entry.

    Args:
        html: The page.
        package: On a package's reference page, that package: its names count without the package's name before them.

    Returns:
        The HTML; links that lead nowhere stay text.
    """
    every = {name: path for other in (*PACKAGES, *MODULES) for name, path in _names(other).items()}
    known = {name: path for name, path in every.items() if name.partition(".")[0] in PACKAGES}
    known |= _names(package) if package else {}

    def linked(match: re.Match[str]) -> str:
        path = known.get(match[1])
        return f'<autoref identifier="{path}" optional>{match[0]}</autoref>' if path else match[0]

    parts, last = [], 0
    for apart in _APART.finditer(html):
        parts += [_CODE.sub(linked, html[last : apart.start()]), apart[0]]
        last = apart.end()
    return "".join([*parts, _CODE.sub(linked, html[last:])])
