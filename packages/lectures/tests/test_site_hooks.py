"""The site's reference pages: each public name is found where it is defined, and a name that is nowhere is an error."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import numfmt_lectures

hooks = pytest.importorskip("site_hooks", reason="the hooks belong to the repository, not to the package")


def test_every_public_name_has_an_entry_under_the_name_that_users_import() -> None:
    page = hooks.on_page_markdown("before\n\n[[api numfmt_lectures]]\n\nafter")
    assert page.startswith("before")
    assert page.endswith("after")
    for name in numfmt_lectures.__all__:
        assert f'<a id="numfmt_lectures.{name}"></a>' in page
    assert "::: numfmt_lectures.run\n" in page
    assert "::: numfmt_lectures.names.LectureError\n" in page  # where its docstring is
    assert "::: numfmt_lectures.catalogue.LANGUAGES\n" in page  # a constant


def test_links_to_other_languages_leave_the_head_and_stay_in_the_header() -> None:
    feed = '<link rel="alternate" type="application/rss+xml">'
    head = f'<head><link rel="alternate" href="../zh/" hreflang="zh">{feed}</head>'
    link = '<a href="../zh/" hreflang="zh" class="md-select__link">'
    kept = f"<head>{feed}</head>"
    assert hooks.on_post_page(head + link) == hooks.on_post_template(head + link) == kept + link


def test_a_command_and_its_subcommands_have_their_help() -> None:
    page = hooks.on_page_markdown("[[cli numfmt_lectures.__main__:build_parser]]")
    for heading in ("## `lectures` { #lectures }", "### `lectures list` {", "### `lectures run` { #lectures-run }"):
        assert heading in page
    assert "--quick" in page
    assert max(len(line) for line in page.splitlines()) <= 100


def test_blocks_of_a_page_are_run_once_for_all_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = ModuleType("markdown_exec._internal.formatters.python")
    calls: list[str] = []
    plugin._run_python = lambda code, **options: calls.append(code) or f"ran {code}"  # type: ignore[attr-defined]
    for name in ("markdown_exec", "markdown_exec._internal", "markdown_exec._internal.formatters"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, plugin.__name__, plugin)
    monkeypatch.setattr(numfmt_lectures, "perform", numfmt_lectures.perform)
    hooks.on_startup()
    page = SimpleNamespace(file=SimpleNamespace(src_uri="a.md"))
    hooks.on_page_markdown("", page=page)
    assert [plugin._run_python("x", session="s") for _ in range(2)] == ["ran x", "ran x"]
    assert plugin._run_python("x", session="t") == "ran x"
    assert calls == ["x", "x"], "once for each session"
    page.file.src_uri = "b.md"
    hooks.on_page_markdown("", page=page)
    plugin._run_python("x", session="s")
    assert len(calls) == 3, "another page is another run"


def test_a_lecture_is_performed_once_and_told_in_every_language(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, bool]] = []
    perform = numfmt_lectures.perform

    def counted(lecture: Any, quick: bool = False, overrides: Any = None) -> Any:
        calls.append((lecture.name, quick))
        return perform(lecture, quick, overrides)

    monkeypatch.setattr(numfmt_lectures, "perform", counted)
    hooks.on_startup()
    told = {lang: numfmt_lectures.run("numbers", quick=True, lang=lang) for lang in ("en", "zh")}
    assert calls == [("numbers", True)]
    assert told["en"] != told["zh"]
    monkeypatch.undo()
    for lang, text in told.items():
        assert numfmt_lectures.run("numbers", quick=True, lang=lang) == text, "as if it were performed again"


def test_another_version_of_the_plugin_runs_every_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numfmt_lectures, "perform", numfmt_lectures.perform)
    monkeypatch.setitem(sys.modules, "markdown_exec._internal.formatters.python", None)  # type: ignore[arg-type]
    hooks.on_startup()


def test_a_page_without_a_mark_stays_as_it_is() -> None:
    assert hooks.on_page_markdown("a [[api]] b [[api x]] c") == "a [[api]] b [[api x]] c"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "planted_package"
    folder.mkdir()
    (folder / "inner.py").write_text('"""Inner."""\n\n__all__ = ["deep"]\n\n\ndef deep():\n    """Deep."""\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder  # type: ignore[misc]
    for name in [name for name in sys.modules if name.startswith("planted_package")]:
        del sys.modules[name]


def test_public_modules_follow_with_their_names(package: Path) -> None:
    (package / "__init__.py").write_text('from . import inner\n\n__all__ = ["LIMIT", "inner"]\nLIMIT = 3\n')
    lines = "\n".join(hooks.entries("planted_package"))
    assert "::: planted_package.LIMIT\n" in lines
    assert "## planted_package.inner { #planted_package.inner }" in lines
    assert "::: planted_package.inner.deep\n" in lines
    assert "heading_level: 3" in lines


def test_a_public_name_that_nothing_assigns_is_an_error(package: Path) -> None:
    (package / "__init__.py").write_text('__all__ = ["ghost"]\nglobals()["ghost"] = 3\n')
    with pytest.raises(
        LookupError, match=r"planted_package\.ghost is public, but no module of planted_package assigns it"
    ):
        list(hooks.entries("planted_package"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2**-24 and 2**(emin - m)", r"2\*\*-24 and 2\*\*(emin - m)"),
        ("between (a + b)**2 and x**n", r"between (a + b)\*\*2 and x\*\*n"),
        ("`2**3` and ``f(**options)``", "`2**3` and ``f(**options)``"),
        ("**Bound.** That of 2**n", r"**Bound.** That of 2\*\*n"),
        ("        >>> 2**3\n        8\n2**3", ("        >>> 2**3\n        8\n" + r"2\*\*3")),
        ("**options: Keyword arguments.", "**options: Keyword arguments."),
    ],
)
def test_powers_in_docstrings_are_no_emphasis(text: str, shown: str) -> None:
    assert hooks.site_reference.escaped(text) == shown


def test_some_names_of_a_package_come_first_and_the_others_follow() -> None:
    page = hooks.on_page_markdown("[[api numfmt_lectures: run]]\n\n[[api numfmt_lectures]]")
    assert page.index("::: numfmt_lectures.run\n") < page.index("::: numfmt_lectures.names.LectureError\n")
    assert page.count("::: numfmt_lectures.run\n") == 1
    with pytest.raises(LookupError, match="numfmt_lectures offers no ghost"):
        hooks.on_page_markdown("[[api numfmt_lectures: ghost]]")


def test_a_page_may_have_its_own_heading_for_a_module(package: Path) -> None:
    (package / "__init__.py").write_text('from . import inner\n\n__all__ = ["inner"]\n')
    page = hooks.on_page_markdown("## Inside { #planted_package.inner }\n\n[[api planted_package]]")
    assert page.count("{ #planted_package.inner }") == 1
    assert "::: planted_package.inner.deep\n" in page


def test_constants_are_a_table_and_their_comments_are_read(package: Path) -> None:
    (package / "__init__.py").write_text('__all__ = ["A", "B"]\n#: The first\n#: number.\nA = 3\n\nB: int = 4\n')
    page = hooks.on_page_markdown("[[constants planted_package: B]]\n\n[[api planted_package]]")
    assert "| [](){ #planted_package.B }`B` | `4` |" in page
    assert "::: planted_package.A\n" in page
    assert "::: planted_package.B\n" not in page
    assert page.rstrip().endswith("The first number.")


def test_public_names_written_as_code_become_links() -> None:
    pytest.importorskip("tritongemm")  # the names of all four packages are known
    pytest.importorskip("fpsan_tools")
    reference = hooks.site_reference
    link = '<autoref identifier="numfmt_lectures.run" optional><code>{}</code></autoref>'
    for package, name in ((None, "numfmt_lectures.run"), ("numfmt_lectures", "run")):
        assert reference.link_names(f"<p><code>{name}</code></p>", package) == f"<p>{link.format(name)}</p>"
    for text in (
        "<code>run</code>",  # whose, on this page?
        "<code>numfmt_lectures.ghost</code>",
        "<code>numfmt_lectures.run()</code>",
        "<pre><code>numfmt_lectures.run</code></pre>",
        '<a href="x"><code>numfmt_lectures.run</code></a>',
        "<h2><code>numfmt_lectures.run</code></h2>",
        "<b><code>numfmt_lectures.run</code></b>",
    ):
        assert reference.link_names(text, None) == text
