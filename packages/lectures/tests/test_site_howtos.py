"""The how-to pages for contributors: their code runs, and the files and sessions that they name exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import site_noxfile

ROOT = Path(__file__).resolve().parents[3]
HOWTO = ROOT / "docs" / "how-to"
if not HOWTO.exists():
    pytest.skip("the pages belong to the repository, not to the package", allow_module_level=True)

PAGES = ["add-a-kernel.md", "run-the-gpu-tests.md", "cut-a-release.md"]
BLOCKS = re.findall(
    r"```python\n# (\w+\.py)\n(.*?)```", (HOWTO / "add-a-kernel.md").read_text(encoding="utf-8"), re.DOTALL
)


def run_tests(folder: Path) -> subprocess.CompletedProcess[str]:
    """Pytest of the page's test file, as a reader would call it."""
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "-c", os.devnull,
         str(folder / "test_row_steps.py")],
        capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


@pytest.fixture
def written(tmp_path: Path) -> Path:
    pytest.importorskip("triton")
    pytest.importorskip("tritongemm")
    for name, text in BLOCKS:
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_new_kernel_passes_its_tests(written: Path) -> None:
    assert [name for name, _ in BLOCKS] == ["row_steps.py", "test_row_steps.py"]
    done = run_tests(written)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("range(0, K, LANES)", "range(0, K - LANES + 1, LANES)"),
        pytest.param(
            "mask=live, other=0.0).to(tl.float32)\n        total",
            "mask=k <= K, other=0.0).to(tl.float32)\n        total",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param("m * stride_cm + n * stride_cn", "m * N + n", marks=pytest.mark.exhaustive),
    ],
)
def test_a_bug_planted_in_the_new_kernel_is_caught(written: Path, right: str, wrong: str) -> None:
    path = written / "row_steps.py"
    text = path.read_text(encoding="utf-8")
    assert right in text
    path.write_text(text.replace(right, wrong), encoding="utf-8")
    assert run_tests(written).returncode == 1


@pytest.mark.parametrize("page", PAGES)
def test_named_files_and_sessions_exist(page: str) -> None:
    text = (HOWTO / page).read_text(encoding="utf-8")
    named = set(re.findall(r"nox -s (\w+)", text))
    sessions = site_noxfile.sessions()
    assert named <= sessions, f"{named - sessions}"
    benchmarks = set(re.findall(r"nox -s bench -- (\w+)", text))
    files = re.findall(r"(?:bench|tools)/\w+\.(?:py|toml)|\.ci/run", text) + [f"bench/{name}.py" for name in benchmarks]
    folders = re.findall(r"packages/[\w-]+/(?:src[\w/]*|tests/data)", text)
    assert files or folders or named
    for path in [*files, *folders]:
        if path != "bench/results":
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize(
    ("arguments", "marks", "others"),
    [
        ([], "", []),
        (["-k", "edges", "-x"], "", ["-k", "edges", "-x"]),
        (["-m", "gpu and fpsan", "-q"], "gpu and fpsan", ["-q"]),
        (["-mfpsan"], "fpsan", []),
        (["-m=fpsan", "--markers"], "fpsan", ["--markers"]),
    ],
)
def test_marks_given_to_the_gpu_tests_are_joined_with_those_of_its_two_parts(
    arguments: list[str], marks: str, others: list[str]
) -> None:
    assert site_noxfile.defined("marks_of")(arguments) == (marks, others)


def test_every_benchmark_can_be_quick_and_those_of_a_gpu_are_known() -> None:
    benchmarks = {
        path.stem: path.read_text(encoding="utf-8")
        for path in (ROOT / "bench").glob("*.py")
        if not path.stem.startswith(("_", "record_"))
    }
    assert len(benchmarks) >= 10
    for name, text in benchmarks.items():
        assert '"--quick"' in text or re.search(r"^from _tables import .*\bmain\b", text, re.MULTILINE), name
    of_gpu = {name for name, text in benchmarks.items() if "needs a CUDA GPU" in text}
    assert of_gpu == site_noxfile.defined("GPU_BENCHMARKS")


def test_every_howto_is_in_the_index_and_the_navigation() -> None:
    index = (HOWTO / "index.md").read_text(encoding="utf-8")
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for path in HOWTO.glob("*.md"):
        if path.name != "index.md" and ".zh." not in path.name:
            assert f"]({path.name})" in index, path.name
            assert f"how-to/{path.name}" in navigation, path.name
