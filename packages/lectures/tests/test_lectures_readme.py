"""The README's commands and its Python code run, and print something."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from numfmt_lectures.__main__ import main

README = Path(__file__).resolve().parents[1] / "README.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
COMMANDS = [
    line.partition("#")[0].strip()
    for language, block in BLOCKS
    if language == "bash"
    for line in block.splitlines()
    if line.startswith("lectures ")
]


def test_there_is_something_to_run() -> None:
    assert len(COMMANDS) >= 4
    assert sum(language == "python" for language, _ in BLOCKS) >= 1


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "--plots" in command:
        pytest.importorskip("matplotlib")
    if "fpsan" in command:
        pytest.importorskip("triton")
        pytest.importorskip("fpsan_tools")
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("code", [block for language, block in BLOCKS if language == "python"])
def test_python_code_of_the_readme(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, str(README), "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out.strip()
