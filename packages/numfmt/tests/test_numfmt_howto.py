"""The how-to on large studies: its scripts on a small grid, in one go, then on a cluster, with the same results."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "examples"
if not EXAMPLES.exists():
    pytest.skip("the documentation is not part of a source distribution", allow_module_level=True)


@pytest.fixture
def folder(tmp_path):
    """The scripts of the page, with fewer and shorter sums."""
    for name in ("more.py", "cluster.py"):
        shutil.copy(EXAMPLES / name, tmp_path)
    text = (EXAMPLES / "study.py").read_text(encoding="utf-8")
    for full, small in (("[64, 256, 1024, 4096]", "[4, 4096]"), ("rows=64", "rows=2"), ("range(2)", "range(1)")):
        assert full in text
        text = text.replace(full, small)
    (tmp_path / "study.py").write_text(text, encoding="utf-8")
    return tmp_path


def run(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_a_larger_study_takes_over_what_a_smaller_one_has_done(folder):
    pytest.importorskip("matplotlib")
    lines = run(folder, "study.py").splitlines()
    assert lines[0].startswith("18 cells")
    assert len(lines) == 2 + 9
    assert (folder / "sums.svg").stat().st_size > 10_000
    assert run(folder, "more.py").splitlines() == [
        "18 of 36 cells are in the file",
        "36 cells; those of before are the same: True",
    ]


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_finds_the_same(folder):
    distributed = pytest.importorskip("distributed")
    pytest.importorskip("matplotlib")
    here = run(folder, "-c", "from study import study; print(study.run('here.sqlite', workers=1))")
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(protocol="tcp", **options) as cluster:
        assert run(folder, "cluster.py", cluster.scheduler_address) == "18 cells\n"
    assert run(folder, "-c", "from study import study; print(study.results('sums.sqlite'))") == here
