"""Layouts of the compiler's second representation against the compiler's own linear layouts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir.layouts import bases

pytestmark = pytest.mark.triton


def vectors(lists):
    return tuple(tuple(vector) for vector in lists)


def test_bases_are_those_of_the_compiler():
    program = Path(__file__).with_name("fpsan_linear_layouts.py")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    if "to_linear_layout" in done.stderr and not done.stdout:
        pytest.skip("this Triton does not give linear layouts")
    kinds = set()
    for line in done.stdout.splitlines():
        text, shape, registers, lanes, warps = json.loads(line)
        kinds.add(text.split("<")[0])
        ours = bases(text, tuple(shape), {})
        assert ours.registers == tuple(v for v in vectors(registers) if any(v)), text
        assert ours.lanes == vectors(lanes), text
        assert ours.warps == vectors(warps), text
    assert kinds == {"#ttg.blocked", "#ttg.slice", "#ttg.nvidia_mma"}, done.stderr[-2000:]


def test_names_and_linear_layouts_are_read():
    aliases = {
        "#linear": "#ttg.linear<{register = [[0, 1], [0, 0], [8, 0]], lane = [[1, 0], [2, 0]], warp = [], block = []}>"
    }
    found = bases("#linear", (16, 2), aliases)
    assert found.registers == ((0, 1), (8, 0))
    assert found.lanes == ((1, 0), (2, 0))
    assert found.warps == ()


@pytest.mark.parametrize("layout", ["#unknown", "#ttg.swizzled_shared<{vec = 1, order = [0]}>", "nothing"])
def test_unknown_layouts_are_refused(layout):
    with pytest.raises(FpsanError, match="layout"):
        bases(layout, (16,), {})
