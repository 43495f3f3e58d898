"""The site's pages and lectures in other languages do not drift from the English ones, in structure nor in content."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"
if not DOCS.exists():
    pytest.skip("the pages belong to the repository, not to the package", allow_module_level=True)

TRANSLATED = sorted(DOCS.rglob("*.zh.md"))
MUST_HAVE = ["index.md", *(f"tutorials/{path.name}" for path in sorted((DOCS / "tutorials").glob("*.md")))]


def english(path: Path) -> Path:
    return path.with_name(path.name.replace(".zh.md", ".md"))


def structure(text: str) -> dict[str, list[str]]:
    """What must not differ: headings, paragraphs, code, links, controls, figures, and what the site's hooks fill in."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    code = re.findall(r"```.*?```", text, re.DOTALL)
    prose = re.sub(r"```.*?```", "```", text, flags=re.DOTALL)
    # Commentary in code is translated; a lecture is asked for in the page's language.
    code = [re.sub(r'#.*|lang="\w+", |--lang \w+ ?', "", block) for block in code]
    inline = [re.sub(r" --lang \w+|['\"]", "", found) for found in re.findall(r"`[^`\n]+`", prose)]
    plain = re.sub(r"`[^`\n]*`|\]\([^)]*\)|<[^>]*>", "", prose)
    return {
        "headings": re.findall(r"^#+", prose, re.MULTILINE),
        "blocks": [kind(block) for block in re.split(r"\n\s*\n", prose.strip())],
        "items": re.findall(r"^\s*(?:- |\d+\. |\| )", prose, re.MULTILINE),
        "code": [re.sub(r"\s+", " ", block) for block in code],
        "words in code": sorted(inline),
        "links": sorted(re.findall(r"\]\(([^)]+)\)", prose)),
        "parts": re.findall(r'(?:id|data-part|class|type|min|max)="[^"]*"', prose),
        "scripts": [source.removeprefix("../") for source in re.findall(r'<script src="([^"]+)"', prose)],
        "figures": re.findall(r"(?<=\| )[*\d.]+(?= \|)", prose),
        "numbers": sorted(re.findall(r"\d[\d.,]*\d|\d", plain)),
        "emphasis": ["**"] * len(re.findall(r"\*\*[^*]+\*\*", plain)),
        "marks": [mark.replace("-zh ", " ") for mark in re.findall(r"^\[\[.*\]\]$", prose, re.MULTILINE)],
    }


def kind(block: str) -> str:
    """What a block of Markdown is: a heading, a list, a table, HTML, a note, a mark, or text."""
    start = re.match(r"#+|- |\d+\. |\||!!!|\?\?\?|<|\[\[|:  |```", block.strip())
    return start[0].strip() if start else "text"


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
    ("change", "differing"),
    [
        (("## B", "# B"), ["headings", "blocks"]),
        (("run()", "walk()"), ["code"]),
        (("(c.md)", "(d.md)"), ["links"]),
        (("| 0.4 |", "| 0.5 |"), ["figures", "numbers"]),
        (('data-part="x"', 'data-part="y"'), ["parts"]),
        (("`--quick`", "`--slow`"), ["words in code"]),
        (("256 lanes", "128 lanes"), ["numbers"]),
        (("**not**", "not"), ["emphasis"]),
        (("- two\n", ""), ["items"]),
        (("One more.\n\n", ""), ["blocks"]),
        (("[[results a b]]", "[[results a c]]"), ["marks"]),
    ],
)
def test_planted_drift_is_seen(change: tuple[str, str], differing: list[str]) -> None:
    text = (
        "# A\n\n## B\n\n[c](c.md)\n\n```python\nrun()  # do\n```\n\n| 0.4 | 2 |\n<input data-part=x>\n\n"
        "Use `--quick` with 256 lanes, **not** less.\n\n- one\n- two\n- three\n\nOne more.\n\n[[results a b]]\n"
    ).replace("data-part=x", 'data-part="x"')
    assert change[0] in text
    before, after = structure(text), structure(text.replace(*change))
    assert [key for key in before if before[key] != after[key]] == differing


# Content.

TOOL = DOCS.parent / "tools" / "translations.py"


def load_tool(root: Path | None = None) -> ModuleType:
    spec = importlib.util.spec_from_file_location("translations", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if root is not None:
        module.ROOT, module.LOCK = root, root / "translations.json"
        module.CATALOGUES = root / "catalogues"
    return module


def test_no_translation_is_older_than_its_text() -> None:
    assert load_tool().report() == []


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    for name in ("index.md", "index.zh.md"):
        shutil.copy(DOCS / name, tmp_path / "docs")
    for language, word in (("en", "A sum."), ("zh", "一个和。")):
        (tmp_path / "catalogues" / language).mkdir(parents=True)
        (tmp_path / "catalogues" / language / "sums.toml").write_text(f'[title]\nlong = "{word}"\nlist = ["1", "2"]\n')
    tool = load_tool(tmp_path)
    assert tool.new() == ["catalogues/zh/sums.toml", "docs/index.zh.md"]
    assert tool.main(["--accept"]) == 0
    assert tool.new() == []
    return tmp_path


def test_a_changed_word_makes_a_translation_stale_until_it_is_accepted(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool, page = load_tool(copy), copy / "docs" / "index.md"
    page.write_text(page.read_text(encoding="utf-8").replace("Two matrix kernels", "Two kernels"), encoding="utf-8")
    assert tool.main([]) == 1
    said = capsys.readouterr().out
    assert "docs/index.zh.md is of an older English text" in said
    assert "Two kernels" in said
    assert "sums" not in said
    assert tool.main(["--accept", "docs/index.zh.md"]) == 0


def test_a_changed_text_of_a_lecture_is_seen_by_its_name(copy: Path) -> None:
    (copy / "catalogues" / "en" / "sums.toml").write_text('[title]\nlong = "A sum."\nlist = ["1", "3"]\n')
    (line,) = load_tool(copy).report()
    assert "title.list.1" in line
    assert "title.long" not in line


def test_passages_that_changed_in_both_languages_are_not_stale(copy: Path) -> None:
    tool = load_tool(copy)
    for name, words in (("index.md", "Three small packages"), ("index.zh.md", "三个小软件包")):
        page = copy / "docs" / name
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace("Four small packages", words).replace("四个小软件包", words), encoding="utf-8")
    assert tool.report() == []
    page = copy / "docs" / "index.md"
    page.write_text(page.read_text(encoding="utf-8").replace("is called wrong", "is called bad"), encoding="utf-8")
    assert "Judged by" in tool.report()[0]


def test_other_spaces_are_no_change(copy: Path) -> None:
    page = copy / "docs" / "index.md"
    page.write_text(page.read_text(encoding="utf-8").replace("Two matrix", "Two\nmatrix"), encoding="utf-8")
    assert load_tool(copy).report() == []


def test_a_translation_without_a_text_and_a_wrong_name_are_told(copy: Path) -> None:
    (copy / "docs" / "lost.zh.md").write_text("x")
    assert load_tool(copy).report() == ["docs/lost.zh.md: there is no docs/lost.md that it could translate"]
    with pytest.raises(SystemExit, match=r"index\.zh is no translation; did you mean docs/index\.zh\.md\?"):
        load_tool(copy).main(["--accept", "docs/index.zh"])


def test_every_entry_of_the_navigation_is_translated() -> None:
    text = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")

    def titles(part: str, indent: str) -> list[str]:
        return [a or b for a, b in re.findall(rf'^{indent}(?:"([^"]+)"|([^":\n]+)):', part, re.MULTILINE)]

    navigation = titles(text[text.index("\nnav:") :], r"\s+- ")
    translated = titles(text[text.index("nav_translations:") : text.index("  - autorefs")], r"\s{12}")
    assert len(navigation) > 40
    packages = {"numfmt", "fpsan_tools", "tritongemm", "numfmt_lectures"}  # names stay as they are
    assert set(navigation) - packages == set(translated)
    assert len(translated) == len(set(translated)), "an entry is there twice"
