"""Examples of the site: files are shown as they are, commands are run, and one that fails stops the build."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

examples = pytest.importorskip("site_examples", reason="the tool belongs to the repository, not to the package")

DRAWING = """<?xml version='1.0'?>
<svg><g id="a"/>

<use href="#a"/><metadata>x</metadata></svg>
"""


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs" / "how-to" / "examples"
    folder.mkdir(parents=True)
    (folder / "hello.py").write_text("import sys\nprint('hello', *sys.argv[1:])\nsys.exit(len(sys.argv) - 1)\n")
    (folder / "draw.py").write_text(f"open('x.svg', 'w').write({DRAWING!r})\n")
    (folder / "once.py").write_text("open('count', 'x')\n")
    return tmp_path / "docs"


def test_files_and_commands_are_shown_and_run(docs: Path) -> None:
    page = "a\n\n[[file examples/hello.py as deep/greet.py]]\n\n[[run python deep/greet.py]]\n\nb"
    text = examples.render(page, "how-to/one.md", docs)
    assert 'title="deep/greet.py"\nimport sys\n' in text
    assert "```console\n$ python deep/greet.py\nhello\n```" in text
    assert text.startswith("a\n")
    assert text.endswith("\nb")


def test_the_exit_status_must_be_the_one_of_the_page(docs: Path) -> None:
    page = "[[file examples/hello.py]]\n[[run 1 python hello.py x]]"
    assert "$ python hello.py x\nhello x\n" in examples.render(page, "how-to/two.md", docs)
    for wrong in ("[[run python hello.py x y]]", "[[run 3 python hello.py]]"):
        with pytest.raises(examples.ExampleError, match=r"hello\.py.* ended with \d and not with \d"):
            examples.render(wrong, "how-to/two.md", docs)


def test_a_page_runs_its_commands_once_and_in_a_folder_of_its_own(docs: Path) -> None:
    page = "[[file examples/once.py]]\n[[run python once.py]]"
    first = examples.render(page, "how-to/three.md", docs)
    assert examples.render(page, "how-to/three.md", docs) == first
    assert examples.render(page, "how-to/four.md", docs) == first
    assert not (docs / "how-to" / "count").exists()


def test_pictures_become_part_of_the_page(docs: Path) -> None:
    page = "[[file examples/draw.py]]\n[[run python draw.py]]\n[[picture x.svg: a use]]"
    text = examples.render(page, "how-to/five.md", docs)
    assert 'aria-label="a use"><svg><g id="x-svg-a"/> <use href="#x-svg-a"/></svg> </figure>' in text


def test_a_file_that_is_not_there_is_an_error(docs: Path) -> None:
    with pytest.raises(FileNotFoundError):
        examples.render("[[file examples/gone.py]]", "how-to/six.md", docs)


def test_a_page_without_marks_stays_as_it_is(docs: Path) -> None:
    assert examples.render("x [[run y]] z [[file]]", "how-to/seven.md", docs) == "x [[run y]] z [[file]]"


def test_commands_of_the_packages_are_those_of_this_environment() -> None:
    assert examples.executable(["python", "x.py"]) == [sys.executable, "x.py"]
    assert examples.executable(["lectures", "list"]) == [sys.executable, "-m", "numfmt_lectures", "list"]
    assert examples.executable(["no-such-command", "x"]) == ["no-such-command", "x"]
