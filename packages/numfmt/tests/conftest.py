"""At the end of a run: how many results were compared with the oracles."""

from __future__ import annotations

from typing import Any

import numfmt_tally
import pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist hands its counts to the process that reports."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["numfmt_tally"] = [(*key, count) for key, count in numfmt_tally.COUNTS.items()]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Add a worker's counts."""
    for subject, fmt, count in getattr(node, "workeroutput", {}).get("numfmt_tally", []):
        numfmt_tally.tally(subject, fmt, count)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the counts."""
    rows = numfmt_tally.table()
    if not rows:
        return
    terminalreporter.section("compared with oracles (a mismatch is a failure above)", sep="-")
    for subject, formats, count in rows:
        terminalreporter.write_line(f"{count:>15,}  {subject}, {formats} formats")
