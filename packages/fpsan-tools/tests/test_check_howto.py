"""The how-to page on checks does what it says: its code runs, and prints what the page quotes."""

import contextlib
import io
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

from fpsan_mutants import load

from fpsan_tools.__main__ import main

pytestmark = pytest.mark.triton

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "check-two-kernels.md"


@pytest.fixture(scope="module")
def blocks():
    if not PAGE.exists():
        pytest.skip("the documentation is not part of a source distribution")
    return re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def script(blocks, tmp_path_factory):
    path = tmp_path_factory.mktemp("howto") / "reductions.py"
    path.write_text(next(text for language, text in blocks if language == "python"))
    return path


def squeezed(text):
    return re.sub(r"\s+", " ", text)


def test_the_script_prints_what_the_page_quotes(blocks, script):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        module = load(script)
    output = squeezed(printed.getvalue().replace(f"{script.parent}/", ""))
    assert output.startswith("SAME ALGEBRA")
    quoted = next(text for language, text in blocks if language == "text")
    for part in quoted.split("...\n"):
        assert squeezed(part).strip() in output
    later = [text for language, text in blocks if language == "python"][1:]
    for text in later:
        exec(compile(text, str(PAGE), "exec"), vars(module))
        module.test_block_sizes_do_not_matter()
    del sys.modules[module.__name__]


def test_the_commands_run_as_written(blocks, script, capsys, monkeypatch):
    import shlex

    monkeypatch.chdir(script.parent)
    commands = "".join(text for language, text in blocks if language == "bash").replace("\\\n", " ")
    (command,) = [line for line in commands.splitlines() if line.startswith("fpsan check")]
    assert main(shlex.split(command)[1:]) == 1
    assert "a multiple of 32" in capsys.readouterr().out
    inline = re.findall(r"`(fpsan leaks [^`]+)`", PAGE.read_text())
    for command in inline:
        assert main(shlex.split(command)[1:]) == 0
