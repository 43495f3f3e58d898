"""Record which tests ran on a GPU, how many cases of each, and that none failed.

    python -m pytest packages/tritongemm/tests -m gpu --junitxml=gpu.xml
    python bench/record_tests.py bench/results/MACHINE-tests.json gpu.xml ...

Inputs are reports of pytest and files that this script wrote before, of the same versions; what was recorded later
replaces what was recorded earlier. A failed case is refused: it is no result.
"""

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree


def facts():
    """Device and versions of this machine; nothing without a GPU."""
    try:
        import torch
        import triton
    except ImportError:
        return {}
    if not torch.cuda.is_available():
        return {}
    return {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}


def of_report(path):
    """Test file -> test -> how many cases passed and were skipped, and their seconds, of a report of pytest."""
    found = {}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        outcomes = {child.tag for child in case}
        if not case.get("classname"):
            raise SystemExit(f"{path}: the run was interrupted; only whole runs are recorded")
        if outcomes & {"failure", "error"}:
            raise SystemExit(
                f"{path}: {case.get('classname')}.{case.get('name')} failed; only passed tests are recorded"
            )
        file = case.get("classname").rsplit(".", 1)[-1]
        test = re.sub(r"\[.*", "", case.get("name"), flags=re.DOTALL)
        entry = found.setdefault(file, {}).setdefault(test, {"passed": 0, "skipped": 0, "seconds": 0.0})
        entry["skipped" if "skipped" in outcomes else "passed"] += 1
        entry["seconds"] = round(entry["seconds"] + float(case.get("time", 0)), 2)
    return found


def main(out, *inputs):
    """Merge reports and records into one record."""
    made = {**facts(), "tests": {}}
    for path in map(Path, inputs):
        if path.suffix == ".json":
            read = json.loads(path.read_text(encoding="utf-8"))
            for key in ("device", "torch", "triton"):
                if made.setdefault(key, read.get(key)) != read.get(key):
                    raise SystemExit(f"{path}: recorded with {key} {read.get(key)}, not {made[key]}")
            tests = read["tests"]
        else:
            tests = of_report(path)
        for file, cases in tests.items():
            made["tests"].setdefault(file, {}).update(cases)
    if not made.get("device"):
        raise SystemExit("no GPU here: a report of pytest says nothing about the machine it ran on")
    made["tests"] = {file: dict(sorted(cases.items())) for file, cases in sorted(made["tests"].items())}
    Path(out).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    count = sum(entry["passed"] for cases in made["tests"].values() for entry in cases.values())
    print(f"{out}: {count} cases of {sum(map(len, made['tests'].values()))} tests passed on {made['device']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
