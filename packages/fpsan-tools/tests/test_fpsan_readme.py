"""The README's Python runs as printed, and so do its commands."""

import re
import shlex
from pathlib import Path

import pytest

from fpsan_tools.__main__ import main

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
COMMANDS = [
    line.partition("#")[0].strip()
    for block in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("fpsan ")
]
SELF_CONTAINED = [line for line in COMMANDS if ".py" not in line]


def run(blocks, tmp_path):
    script = tmp_path / "readme_blocks.py"  # Triton reads a kernel's source from its file
    script.write_text("\n".join(blocks), encoding="utf-8")
    exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), {"__name__": "readme_blocks"})


@pytest.mark.triton
def test_the_ten_lines_and_the_algebra_run_without_torch_too(tmp_path):
    pytest.importorskip("triton")
    with_torch = [block for block in BLOCKS if "torch" in block]
    assert (len(BLOCKS), len(with_torch)) == (3, 1)
    run([block for block in BLOCKS if block not in with_torch], tmp_path)
    lines = BLOCKS[0].partition("x = ")[2].splitlines()
    assert len(lines) <= 10


@pytest.mark.triton
@pytest.mark.torch
def test_python_blocks_run_in_order(tmp_path):
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    run(BLOCKS, tmp_path)


def test_there_are_commands_to_run():
    assert len(SELF_CONTAINED) >= 4
    assert {line.split()[1] for line in COMMANDS} == {"check", "run", "leaks", "embed", "unembed", "explain", "doctor"}


@pytest.mark.parametrize("command", SELF_CONTAINED)
def test_a_command_of_the_readme(command, capsys):
    if "--dtype" not in command:
        pytest.importorskip("triton")
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out.strip()
