"""The mutation study: bugs planted in four kernels, and what a check says of each. Writes results/fpsan-mutants.json.

    python bench/fpsan_mutants.py [--quick]

Nothing is measured in time; the file is the same on every machine with the same Triton. The page
docs/explanation/planted-bugs.md shows it as a table, and the tests of fpsan-tools compare it with a run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULT = Path(__file__).parent / "results" / "fpsan-mutants.json"
#: `--quick` plants one bug in so many.
QUICK = 10


def main() -> int:
    """Run the study and write its file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"every {QUICK}th bug only, and no file written")
    quick = parser.parse_args().quick
    sys.path.insert(0, str(ROOT / "packages" / "fpsan-tools" / "tests"))
    import fpsan_mutants

    from fpsan_tools import algebra
    from fpsan_tools.checking.rendering import write

    def progress(done: int, total: int) -> None:
        print(f"\r{done} of {total} planted bugs", end="" if done < total else "\n", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        records = fpsan_mutants.study(Path(folder), progress, QUICK if quick else 1)
        for record in records:  # folders differ from run to run
            record["diagnosis"] = [text.replace(f"{folder}/", "") for text in record["diagnosis"]]
    result = {"triton": algebra.installed_triton(), "algebra": algebra.get().version, "mutants": records}
    found = f"{sum(bool(record['found_by']) for record in records)} of {len(records)} found"
    if quick:
        print(f"{found}; nothing is written")
        return 0
    write(RESULT, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print(f"{found}; written to {RESULT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
