"""Record how many results of numfmt were compared with exact oracles, and that none differed.

Runs the tests that compare with the definitions in exact rationals, and the fast implementations with the exact
engine, the exhaustive ones included, and writes what they counted to `bench/results/numfmt-oracle.json`. A difference
is a failed test; then nothing is written.

    python bench/record_numfmt_oracle.py [-k EXPRESSION]     # all tests take minutes; -k as pytest's selects some
"""

from __future__ import annotations

import datetime
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from _tables import versions

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "packages" / "numfmt" / "tests"
FILES = ("test_numfmt_rounding", "test_numfmt_fast", "test_accumulate", "test_arithmetic")


class Outcome:
    """How many tests passed."""

    passed = 0

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.passed += report.when == "call" and report.passed


def main() -> int:
    """Run the tests and write the file."""
    outcome = Outcome()
    arguments = [*(str(TESTS / f"{name}.py") for name in FILES), "-m", "not gpu", "-q", "-p", "no:cacheprovider"]
    chosen = sys.argv[1:]
    status = pytest.main([*arguments, *chosen], plugins=[outcome])
    if status != pytest.ExitCode.OK:
        return int(status)
    import numfmt_tally  # beside the tests, on the path that pytest made

    rows = numfmt_tally.table()
    formats = len({fmt for _, fmt in numfmt_tally.COUNTS})
    total = sum(count for _, _, count in rows)
    sentences = [f"{total:,} results in {formats} formats compared, 0 differ ({outcome.passed} tests)."]
    sentences += [f"{count:,} {subject}, in {number} formats." for subject, number, count in rows]
    results = {
        "benchmark": "numfmt-oracle",
        "machine": "any: the results do not depend on it",
        "command": shlex.join(["python", "bench/record_numfmt_oracle.py", *chosen]),
        "date": datetime.date.today().isoformat(),
        "versions": versions(),
        "differences": 0,
        "counts": [{"what": what, "formats": number, "comparisons": count} for what, number, count in rows],
        "verdict": {"sentences": sentences},
    }
    path = ROOT / "bench" / "results" / "numfmt-oracle.json"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)
    print("\n".join(sentences))
    return 0


if __name__ == "__main__":
    sys.exit(main())
