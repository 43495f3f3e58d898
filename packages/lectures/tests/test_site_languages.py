"""The site's pages in other languages do not drift from the English ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"
if not DOCS.exists():
    pytest.skip("the pages belong to the repository, not to the package", allow_module_level=True)

TRANSLATED = sorted(DOCS.rglob("*.zh.md"))
MUST_HAVE = ["index.md", *(f"tutorials/{path.name}" for path in sorted((DOCS / "tutorials").glob("*.md")))]


def english(path: Path) -> Path:
    return path.with_name(path.name.replace(".zh.md", ".md"))


def structure(text: str) -> dict[str, list[str]]:
    """What must not differ: headings' levels, code, links, controls, and the figures in tables."""
    code = re.findall(r"```.*?```", text, re.DOTALL)
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    # Commentary in code is translated; a lecture is asked for in the page's language.
    code = [re.sub(r'#.*|lang="\w+", |--lang \w+ ?', "", block) for block in code]
    return {
        "headings": re.findall(r"^#+", prose, re.MULTILINE),
        "code": [re.sub(r"\s+", " ", block) for block in code],
        "links": sorted(re.findall(r"\]\(([^)]+)\)", prose)),
        "parts": re.findall(r'(?:id|data-part|class|type|min|max)="[^"]*"', prose),
        "scripts": [source.removeprefix("../") for source in re.findall(r'<script src="([^"]+)"', prose)],
        "figures": re.findall(r"(?<=\| )[*\d.]+(?= \|)", prose),
    }


@pytest.mark.parametrize("path", [p for p in MUST_HAVE if ".zh." not in p])
def test_home_and_tutorials_are_translated(path: str) -> None:
    assert (DOCS / path.replace(".md", ".zh.md")).exists()


@pytest.mark.parametrize("path", TRANSLATED, ids=lambda path: str(path.relative_to(DOCS)))
def test_a_translation_has_the_structure_of_its_original(path: Path) -> None:
    original = english(path)
    assert original.exists()
    here, there = structure(path.read_text(encoding="utf-8")), structure(original.read_text(encoding="utf-8"))
    here["scripts"] = [source.removeprefix("../") for source in here["scripts"]]
    assert here == there


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (("## B", "# B"), "headings"),
        (("run()", "walk()"), "code"),
        (("(c.md)", "(d.md)"), "links"),
        (("| 0.4 |", "| 0.5 |"), "figures"),
        (('data-part="x"', 'data-part="y"'), "parts"),
    ],
)
def test_planted_drift_is_seen(change: tuple[str, str], kind: str) -> None:
    text = '# A\n\n## B\n\n[c](c.md)\n\n```python\nrun()  # do\n```\n\n| 0.4 | 2 |\n<input data-part="x">\n'
    before, after = structure(text), structure(text.replace(*change))
    assert [key for key in before if before[key] != after[key]] == [kind]
