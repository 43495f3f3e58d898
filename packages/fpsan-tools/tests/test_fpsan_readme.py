"""The Python of the README runs as printed."""

import re
from pathlib import Path

import pytest

pytestmark = [pytest.mark.triton, pytest.mark.torch]

README = Path(__file__).parents[1] / "README.md"


def test_python_blocks_run_in_order(tmp_path):
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    script = tmp_path / "readme_blocks.py"  # Triton reads a kernel's source from its file
    script.write_text("\n".join(blocks), encoding="utf-8")
    exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), {"__name__": "readme_blocks"})
