"""The pytest plugin: a fixture for checks and launches in payloads, with an option and a mark for engine and version.

Loaded by pytest where fpsan-tools is installed. It imports nothing but pytest until a test asks for the fixture.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fpsan_tools.checking.inputs import MakeInputs
    from fpsan_tools.checking.verdict import Verdict

ENGINES = ("auto", "cpu", "gpu")
_MARK = (
    "fpsan(engine=None, version=None, seeds=None, bounds=None): a test of kernels in FpSan payloads; the arguments are "
    "defaults of the fixture `fpsan`"
)
_OPTIONS = frozenset({"engine", "version", "seeds", "bounds", "diagnose", "budget"})


class Fpsan:
    """What the fixture `fpsan` gives: checks with the engine and version of the command line, the mark or the call.

    Args:
        defaults: arguments of `check` that a call may override.
    """

    def __init__(self, defaults: dict[str, Any]) -> None:
        self.defaults = defaults

    def check(self, a: Any, b: Any, make_inputs: MakeInputs, **options: Any) -> Verdict:
        """`fpsan_tools.check` with this test's defaults."""
        from fpsan_tools.checking import check

        return check(a, b, make_inputs, **{**self.defaults, **options})

    def assert_same_algebra(self, a: Any, b: Any, make_inputs: MakeInputs, **options: Any) -> Verdict:
        """`fpsan_tools.assert_same_algebra` with this test's defaults."""
        __tracebackhide__ = True
        from fpsan_tools.checking import assert_same_algebra

        return assert_same_algebra(a, b, make_inputs, **{**self.defaults, **options})

    def launches(self) -> AbstractContextManager[Any]:
        """A block in which kernels run in payloads: `on_cpu`, or `on_gpu` for the engine "gpu"."""
        import fpsan_tools

        version = self.defaults.get("version")
        gpu = self.defaults["engine"] == "gpu"
        bounds = self.defaults.get("bounds", "live")
        session: AbstractContextManager[Any] = (
            fpsan_tools.on_gpu(version=version) if gpu else fpsan_tools.on_cpu(version=version, bounds=bounds)
        )
        return session


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--fpsan-engine` and `--fpsan-algebra`, and their settings in the configuration file."""
    group = parser.getgroup("fpsan", "kernels in FpSan payloads")
    group.addoption("--fpsan-engine", choices=ENGINES, help="engine of the fixture fpsan: auto, cpu or gpu")
    group.addoption(
        "--fpsan-algebra", metavar="VERSION", help="algebra of the fixture fpsan: 3.8, 3.9, 3.9-homomorphic"
    )
    parser.addini("fpsan_engine", "engine of the fixture fpsan: auto (default), cpu or gpu", default="auto")


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", _MARK)


@pytest.fixture
def fpsan(request: pytest.FixtureRequest) -> Fpsan:
    """Checks of kernels in FpSan payloads.

    Engine and version come from `--fpsan-engine` and `--fpsan-algebra`, else from the test's mark
    `@pytest.mark.fpsan(engine=..., version=...)`, else from the configuration (`fpsan_engine`).
    """
    mark = request.node.get_closest_marker("fpsan")
    defaults: dict[str, Any] = {"engine": request.config.getini("fpsan_engine")}
    if mark is not None:
        unknown = sorted(set(mark.kwargs) - _OPTIONS)
        if unknown or mark.args:
            what = f"argument {unknown[0]!r}" if unknown else "positional arguments"
            raise pytest.UsageError(f"mark fpsan: {what} not known (known: {', '.join(sorted(_OPTIONS))})")
        defaults.update({name: value for name, value in mark.kwargs.items() if value is not None})
    given = {"engine": request.config.getoption("fpsan_engine"), "version": request.config.getoption("fpsan_algebra")}
    defaults.update({name: value for name, value in given.items() if value is not None})
    if defaults["engine"] not in ENGINES:
        raise pytest.UsageError(f"fpsan engine {defaults['engine']!r} is not known (known: {', '.join(ENGINES)})")
    return Fpsan(defaults)
