"""The pytest plugin, in test runs of its own."""

from pathlib import Path

import pytest

pytest.importorskip("triton")

pytestmark = pytest.mark.triton
pytest_plugins = ["pytester"]

HERE = Path(__file__).parent

TESTS = """
import checking_kernels as k
import pytest

def test_equal(fpsan):
    verdict = fpsan.assert_same_algebra(k.by_64, k.by_32, k.scaling_inputs)
    assert verdict.engine == "cpu"

def test_different(fpsan):
    fpsan.assert_same_algebra(k.by_64, k.tail_dropped, k.scaling_inputs, diagnose=False)

@pytest.mark.fpsan(version="3.8", seeds=[4])
def test_marked(fpsan):
    verdict = fpsan.check(k.by_64, k.by_32, k.scaling_inputs)
    assert (verdict.version, verdict.seeds) == (EXPECTED, (4,))
    assert fpsan.check(k.by_64, k.by_32, k.scaling_inputs, version="3.9").version == "3.9"

@pytest.mark.fpsan(versions="3.8")
def test_wrong_mark(fpsan):
    pass

def test_launches(fpsan):
    import numpy as np
    made = k.scaling_inputs(np.random.default_rng(0))
    with fpsan.launches() as session:
        k.by_64(**made)
    assert [launch.kernel for launch in session.launches] == ["scaled"]
"""


@pytest.fixture
def project(pytester, monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    pytester.makepyprojecttoml(
        "[tool.pytest.ini_options]\naddopts = ['--strict-markers']\nfilterwarnings = ['error']\n"
    )
    return pytester


def loaded(project, *words):
    """Run with the plugin, whether or not the installed package brings it already."""
    installed = project.runpytest("--help").stdout.str()
    more = () if "--fpsan-engine" in installed else ("-p", "fpsan_tools.pytest_plugin")
    return project.runpytest(*more, *words)


def test_fixture_mark_and_assertion(project):
    project.makepyfile(TESTS.replace("EXPECTED", '"3.8"'))
    result = loaded(project)
    result.assert_outcomes(passed=3, failed=1, errors=1)
    output = result.stdout.str()
    assert "AssertionError" in output
    assert "DIFFERENT: 4 of 100 elements of 'out'" in output
    assert "checking/assertion.py" not in output  # the traceback ends at the user's line
    assert (
        "mark fpsan: argument 'versions' not known (known: bounds, budget, diagnose, engine, seeds, version)" in output
    )


def test_options_go_before_marks(project):
    project.makepyfile(TESTS.replace("EXPECTED", '"3.9-homomorphic"'))
    result = loaded(project, "--fpsan-algebra", "3.9-homomorphic", "-k", "marked and not wrong")
    result.assert_outcomes(passed=1, deselected=4)


def test_the_engine_of_the_command_line_and_of_the_configuration(project):
    project.makepyfile(
        """
        def test_engine(fpsan):
            assert fpsan.defaults["engine"] == "gpu"
        """
    )
    loaded(project, "--fpsan-engine", "gpu").assert_outcomes(passed=1)
    loaded(project, "-o", "fpsan_engine=gpu").assert_outcomes(passed=1)
    loaded(project).assert_outcomes(failed=1)
    loaded(project, "-o", "fpsan_engine=tpu").assert_outcomes(errors=1)
    assert loaded(project, "--fpsan-engine", "tpu").ret == pytest.ExitCode.USAGE_ERROR


def test_importing_the_plugin_imports_neither_numpy_nor_triton(project):
    project.makepyfile(
        """
        import subprocess, sys

        def test_light():
            code = "import sys, fpsan_tools.pytest_plugin; print({'numpy', 'torch', 'triton'} & set(sys.modules))"
            assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\\n"
        """
    )
    loaded(project).assert_outcomes(passed=1)
