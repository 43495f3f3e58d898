"""Import and size: milliseconds that `import numfmt` takes beyond NumPy's, and kilobytes of the wheel.

Every time is the best of several new processes, the imports of both in turns; `ratio` divides by the import of NumPy
alone. The wheel is built from the checkout in a temporary directory; `ratio` divides by the size of a peer's wheel
where one is installed, from the record of its files.

    python bench/numfmt_import.py [--quick] [--machine NAME] [--json PATH]
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from _tables import Row, have, main

PACKAGE = Path(__file__).resolve().parents[1] / "packages" / "numfmt"
PEERS = ("ml_dtypes", "gfloat", "apytypes", "torch", "numba")


def import_seconds(modules: list[str], runs: int) -> dict[str, float]:
    """Shortest import of each module in a new process, the modules in turns; the time that the process was running."""
    code = "import time; t = time.process_time(); import {}; print(time.process_time() - t)"
    times: dict[str, float] = {}
    for _ in range(runs):
        for module in modules:
            process = subprocess.run([sys.executable, "-c", code.format(module)], capture_output=True, check=True)
            times[module] = min(times.get(module, float("inf")), float(process.stdout))
    return times


def imports(runs: int) -> list[Row]:
    """NumPy, numfmt, and the peers that are installed."""
    peers = [name for name in PEERS if have(name)]
    times = import_seconds(["numpy", "numfmt", *peers], runs)
    alone = times["numpy"]
    return [
        Row("import numpy", "", alone * 1e3, "ms", 1.0),
        Row("import numfmt, beyond numpy", "", (times["numfmt"] - alone) * 1e3, "ms", times["numfmt"] / alone, "<= 30"),
        *(Row(f"import {name}", "", times[name] * 1e3, "ms", times[name] / alone) for name in peers),
    ]


def installed_kilobytes(distribution: str) -> float:
    """Size of an installed distribution's files, without what Python compiled."""
    files = importlib.metadata.files(distribution) or []
    return sum(file.locate().stat().st_size for file in files if file.suffix != ".pyc" and file.locate().exists()) / 1e3


def sizes() -> list[Row]:
    """The wheel of numfmt, packed and unpacked, and the unpacked size of the peers."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", folder]
        if have("hatchling"):
            subprocess.run([*build, str(PACKAGE)], check=True)
            wheel = next(Path(folder).glob("*.whl"))
            with zipfile.ZipFile(wheel) as archive:
                unpacked = sum(entry.file_size for entry in archive.infolist()) / 1e3
            rows += [
                Row("wheel of numfmt-sim", "", wheel.stat().st_size / 1e3, "kB"),
                Row("unpacked: numfmt-sim", "", unpacked, "kB", 1.0),
            ]
        else:
            print("numfmt_import: no wheel was built; pip install hatchling", file=sys.stderr)
            unpacked = float("nan")
    for name in ("numpy", *PEERS):
        if have(name):
            size = installed_kilobytes(name)
            rows.append(Row(f"unpacked: {name}", "", size, "kB", size / unpacked))
    return rows


def measure(seconds: float) -> list[Row]:
    """All rows; more seconds mean more processes."""
    return imports(20 if seconds > 0.1 else 5) + sizes()


if __name__ == "__main__":
    sys.exit(main("numfmt-import", __doc__, measure))
