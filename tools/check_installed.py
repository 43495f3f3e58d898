"""Check that the four packages that Python imports are the installed distributions, not the source tree.

Usage: python tools/check_installed.py REPOSITORY
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from pathlib import Path

NAMES = {
    "numfmt-sim": "numfmt",
    "fpsan-tools": "fpsan_tools",
    "tritongemm": "tritongemm",
    "numfmt-lectures": "numfmt_lectures",
}


def main(root: Path) -> int:
    """Report each package's place and version; returns the exit code."""
    failed = False
    for dist, name in NAMES.items():
        module = importlib.import_module(name)
        place = Path(module.__file__ or "").resolve()
        version = importlib.metadata.version(dist)
        fine = (root / "packages") not in place.parents and version == module.__version__
        print(f"{dist} {version}: import {name} {module.__version__} {'ok' if fine else f'WRONG, from {place}'}")
        failed |= not fine
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
