"""The page of edge tests lists what the test files hold, and counts only what passed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ROOT / "tools"
if not (TOOLS / "site_tests.py").exists():
    pytest.skip("the pages belong to the repository, not to the package", allow_module_level=True)

import site_results  # noqa: E402
import site_tests  # noqa: E402

REPORT = """<testsuites><testsuite>
<testcase classname="x.test_tritongemm_edges_gpu" name="test_tma_reads_either_axis[a-b]" time="1.5"/>
<testcase classname="x.test_tritongemm_edges_gpu" name="test_tma_reads_either_axis[c]" time="0.5"/>
<testcase classname="x.test_tritongemm_edges_gpu" name="test_memcheck_finds_nothing"><skipped/></testcase>
{more}
</testsuite></testsuites>"""


@pytest.fixture
def recorder():
    spec = importlib.util.spec_from_file_location("record_tests", ROOT / "bench" / "record_tests.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reported(tmp_path: Path, more: str = "") -> str:
    path = tmp_path / "report.xml"
    path.write_text(REPORT.format(more=more), encoding="utf-8")
    return str(path)


def test_names_become_sentences():
    test = site_tests.Test("file", "test_gpu_k_tails_on_an_h200_have_cublas_bits", True)
    assert test.sentence == "K tails on an H200 have cuBLAS bits"


def test_a_file_is_listed_whole(tmp_path):
    path = tmp_path / "test_x.py"
    path.write_text(
        '"""Edges. More.\n"""\nimport pytest\n\n'
        "def helper(): pass\n\ndef test_b(): pass\n\n@pytest.mark.gpu\ndef test_a(): pass\n\n"
        "@pytest.mark.exhaustive\ndef test_long(): pass\n",
        encoding="utf-8",
    )
    assert [(t.name, t.gpu) for t in site_tests.tests_of(path)] == [("test_b", False), ("test_a", True)]
    assert site_tests.subject(path) == "Edges"
    path.write_text("import pytest\npytestmark = pytest.mark.gpu\n\ndef test_a(): pass\n", encoding="utf-8")
    assert [t.gpu for t in site_tests.tests_of(path)] == [True]


def test_reports_are_counted_and_merged(recorder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(recorder, "facts", lambda: {"device": "NVIDIA X", "torch": "2", "triton": "3"})
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    recorder.main(str(first), reported(tmp_path))
    made = json.loads(first.read_text())["tests"]["test_tritongemm_edges_gpu"]
    assert made["test_tma_reads_either_axis"] == {"passed": 2, "skipped": 0, "seconds": 2.0}
    assert made["test_memcheck_finds_nothing"]["passed"] == 0
    monkeypatch.setattr(recorder, "facts", dict)
    recorder.main(str(second), str(first), str(first))
    assert json.loads(second.read_text()) == json.loads(first.read_text())
    assert "2 cases of 2 tests passed on NVIDIA X" in capsys.readouterr().out


def test_failures_and_reports_of_no_machine_are_refused(recorder, tmp_path, monkeypatch):
    failed = '<testcase classname="x.test_y" name="test_z"><failure/></testcase>'
    with pytest.raises(SystemExit, match="test_z failed"):
        recorder.main(str(tmp_path / "out.json"), reported(tmp_path, failed))
    with pytest.raises(SystemExit, match="interrupted"):
        recorder.main(str(tmp_path / "out.json"), reported(tmp_path, '<testcase name="test_z"/>'))
    monkeypatch.setattr(recorder, "facts", dict)
    with pytest.raises(SystemExit, match="no GPU here"):
        recorder.main(str(tmp_path / "out.json"), reported(tmp_path))
    assert not (tmp_path / "out.json").exists()


def test_the_page_lists_every_test_and_what_passed():
    ran = {"test_tritongemm_edges_gpu": {"test_tma_reads_either_axis": {"passed": 12, "skipped": 0, "seconds": 1.0}}}
    text = "\n".join(site_results.edge_tests("x", {"tests": ran}))
    for file in site_results.EDGES:
        listed = list(site_tests.tests_of(site_tests.TESTS / f"test_tritongemm_{file}.py"))
        assert len(listed) > 3, file
        for test in listed:
            assert f"| {test.sentence} |" in text
    assert "| TMA reads either axis | GPU | 12 |" in text
    counted = "\n".join(site_results.gpu_tests("x", {"tests": ran}))
    assert "| **all** |  |  | **1** | **12** |" in counted
    assert "| `tritongemm` | `test_tritongemm_edges_gpu.py` | 1 | 12 |" in counted
