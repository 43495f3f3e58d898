"""Check a built site: `python tools/check_site.py SITE`.

Every link to a page or file of the site resolves, its anchor too, and nothing is loaded from another host: no script,
style, image, font, frame or module. Links that a reader may click, which load nothing by themselves, may go anywhere.
Those are listed, for somebody to follow now and then.
No text shows markup that was meant to become something else: a role of Sphinx, or a link that resolved to nothing.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches without being asked: tag -> attributes.
LOADED = {
    "script": ["src"],
    "img": ["src", "srcset"],
    "source": ["src", "srcset"],
    "video": ["src", "poster"],
    "audio": ["src"],
    "track": ["src"],
    "iframe": ["src"],
    "embed": ["src"],
    "object": ["data"],
    "input": ["src"],
    "use": ["href", "xlink:href"],
    "image": ["href", "xlink:href"],
}
# <link> loads by its relation; the others (canonical, alternate, prev, next, ...) only tell.
LOADING_RELATIONS = {"stylesheet", "icon", "preload", "modulepreload", "prefetch", "manifest", "apple-touch-icon"}
CSS_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)['\"]?\s*\)|@import\s+['\"]([^'\"]+)['\"]")
CSS_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
# Literal addresses that a script loads: modules, fetches and workers.
JS_LOAD = re.compile(
    r"(?:\bfrom\s*|\bimport\s*\(?\s*|\bfetch\s*\(\s*|\bimportScripts\s*\(\s*|\bWorker\s*\(\s*)"
    r"[\"'`]((?:https?:)?//[^\"'`]+)[\"'`]"
)
# Markup that a page shows instead of what was meant: a role (:func:`x`; its code is an element of its own by then), a
# reference ([`x`][y.z]) that nothing defines, and a mark of the site's own hooks.
RAW = re.compile(
    r":(?:func|data|class|meth|attr|mod|obj|exc|ref|doc|math|term|py:\w+):(?=$|`)"
    r"|\]\[[a-z_]\w*(?:\.\w+)+\]|\[\[(?:api|cli|results|rules|file|run|picture) "
)


@dataclass
class Page:
    """What one HTML file refers to: `links` a reader may follow, `loads` the browser fetches by itself.

    `raw` is markup that shows in its text outside of code.
    """

    ids: set[str] = field(default_factory=set)
    raw: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    base: str = ""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self._inside = ""
        self._code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        page = self.page
        page.ids.update(given[name] for name in ("id", "name") if given.get(name))
        if tag in ("a", "area") and "href" in given:
            page.links.append(given["href"])
        if tag == "base" and "href" in given:
            page.base = given["href"]
        if tag == "link" and LOADING_RELATIONS.intersection(given.get("rel", "").lower().split()):
            page.loads.append(given.get("href", ""))
        for name in LOADED.get(tag, []):
            if given.get(name):
                page.loads += _srcset(given[name]) if name == "srcset" else [given[name]]
        page.loads += css_loads(given.get("style", ""))
        self._inside = tag if tag in ("style", "script") else ""
        self._code += tag in ("pre", "code")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""
        self._code = max(0, self._code - (tag in ("pre", "code")))

    def handle_data(self, data: str) -> None:
        if self._inside == "style":
            self.page.loads += css_loads(data)
        elif self._inside == "script":
            self.page.loads += js_loads(data)
        elif not self._code:
            self.page.raw += RAW.findall(data)


def _srcset(value: str) -> list[str]:
    return [candidate.split()[0] for candidate in value.split(",") if candidate.split()]


def css_loads(text: str) -> list[str]:
    """The addresses that a style sheet loads."""
    return [a or b for a, b in CSS_URL.findall(CSS_COMMENT.sub("", text))]


def js_loads(text: str) -> list[str]:
    """The addresses on other hosts that a script names where it loads something."""
    return JS_LOAD.findall(text)


def read_page(text: str) -> Page:
    """What an HTML file refers to."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader.page


def is_remote(address: str) -> bool:
    """Whether an address names another host."""
    parts = urlsplit(address.strip())
    return bool(parts.netloc) or parts.scheme in ("http", "https", "ftp")


def resolve(site: Path, source: Path, address: str) -> Path | None:
    """The file of the site that an address in `source` means, or None if there is none."""
    path = unquote(urlsplit(address).path)
    target = (site / path.lstrip("/")) if path.startswith("/") else (source.parent / path if path else source)
    target = target.resolve()
    if target.is_dir():
        target /= "index.html"
    inside = target.is_relative_to(site.resolve())
    return target if inside and target.is_file() else None


def faults(site: Path) -> Iterator[str]:
    """Every fault of the site, one sentence each, in the order of the files."""
    pages = {path.resolve(): read_page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        if page.base:
            yield f"{name}: a <base href={page.base!r}> makes every relative link mean something else"
        for text in page.raw:
            yield f"{name}: shows {text!r}, markup that was meant to become something else"
        for address in page.loads:
            yield from _load_fault(site, path, address, str(name))
        for address in page.links:
            parts = urlsplit(address)
            if is_remote(address) or parts.scheme:
                continue
            target = resolve(site, path, address)
            anchor = unquote(parts.fragment)
            if target is None:
                yield f"{name}: link to {address!r}, which is not there"
            elif anchor and target in pages and anchor not in pages[target].ids:
                yield f"{name}: link to {address!r}, but that page has no anchor {anchor!r}"
    for path in sorted(site.rglob("*.css")):
        for address in css_loads(path.read_text(encoding="utf-8")):
            yield from _load_fault(site, path.resolve(), address, str(path.relative_to(site)))
    for path in sorted([*site.rglob("*.js"), *site.rglob("*.mjs")]):
        for address in js_loads(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: loads {address!r} from another host"


def external_links(site: Path) -> dict[str, int]:
    """Addresses on other hosts that readers may follow, and on how many pages each is."""
    counts: dict[str, int] = {}
    for path in sorted(site.rglob("*.html")):
        for address in {link for link in read_page(path.read_text(encoding="utf-8")).links if is_remote(link)}:
            counts[address] = counts.get(address, 0) + 1
    return dict(sorted(counts.items()))


def _load_fault(site: Path, source: Path, address: str, name: str) -> Iterator[str]:
    if address.startswith(("data:", "blob:", "#")):
        return
    if is_remote(address):
        yield f"{name}: loads {address!r} from another host"
    elif resolve(site, source, address) is None:
        yield f"{name}: loads {address!r}, which is not there"


def main(arguments: list[str] | None = None) -> int:
    """Run the check; 0 when the site is sound, 1 when it is not, 2 when there is no site."""
    parser = argparse.ArgumentParser(description="Check a built site's links and that nothing loads from another host.")
    parser.add_argument("site", type=Path, help="folder that `mkdocs build` made")
    site: Path = parser.parse_args(arguments).site
    pages = len(list(site.rglob("*.html")))
    if not pages:
        print(f"check_site: {site} holds no HTML page: build the site first", file=sys.stderr)
        return 2
    found = list(faults(site))
    for fault in found:
        print(f"check_site: {fault}", file=sys.stderr)
    links = external_links(site)
    for address, count in links.items():
        print(f"check_site: {address} ({count} page{'s' if count > 1 else ''})")
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    hosts = {urlsplit(address).netloc for address in links}
    print(
        f"check_site: {pages} pages, {size / 1e6:.1f} MB, {len(links)} external links to {len(hosts)} hosts, "
        f"{len(found)} faults"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
