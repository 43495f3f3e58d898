"""The mutation study: bugs planted in four kernels, and what a check says of each. Writes results/fpsan-mutants.json.

    python bench/fpsan_mutants.py

Nothing is measured in time; the file is the same on every machine with the same Triton. The page
docs/explanation/planted-bugs.md shows it as a table, and the tests of fpsan-tools compare it with a run.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULT = Path(__file__).parent / "results" / "fpsan-mutants.json"


def main() -> int:
    """Run the study and write its file."""
    sys.path.insert(0, str(ROOT / "packages" / "fpsan-tools" / "tests"))
    import fpsan_mutants

    from fpsan_tools import algebra
    from fpsan_tools.checking.rendering import write

    def progress(done: int, total: int) -> None:
        print(f"\r{done} of {total} planted bugs", end="" if done < total else "\n", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        records = fpsan_mutants.study(Path(folder), progress)
        for record in records:  # folders differ from run to run
            record["diagnosis"] = [text.replace(f"{folder}/", "") for text in record["diagnosis"]]
    result = {"triton": algebra.installed_triton(), "algebra": algebra.get().version, "mutants": records}
    write(RESULT, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    found = sum(bool(record["found_by"]) for record in records)
    print(f"{found} of {len(records)} found; written to {RESULT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
