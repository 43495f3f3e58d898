"""What benchmarks share: the best of several runs, a table of figures, and its JSON file."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

#: Distributions whose versions a result depends on, by the module's name.
LIBRARIES = {
    "numpy": "numpy",
    "numfmt": "numfmt-sim",
    "numba": "numba",
    "ml_dtypes": "ml_dtypes",
    "gfloat": "gfloat",
    "torch": "torch",
    "triton": "triton",
    "apytypes": "apytypes",
}


@dataclass(frozen=True)
class Row:
    """One measured figure.

    Attributes:
        what: what was measured.
        shape: on which sizes and types.
        value: the figure.
        unit: its unit.
        ratio: the figure's time over that of the peer, None without one; it carries over to other machines.
        goal: what is asked of the figure, or "".
    """

    what: str
    shape: str
    value: float
    unit: str
    ratio: float | None = None
    goal: str = ""


def best(function: Callable[[], object], seconds: float) -> float:
    """Shortest time of one call, in seconds, from calls that fill the given time (at least three)."""
    function()
    shortest, spent, runs = math.inf, 0.0, 0
    while spent < seconds or runs < 3:
        start = time.perf_counter()
        function()
        elapsed = time.perf_counter() - start
        shortest, spent, runs = min(shortest, elapsed), spent + elapsed, runs + 1
    return shortest


def best_pair(function: Callable[[], object], peer: Callable[[], object], seconds: float) -> tuple[float, float]:
    """Shortest times of one call of each, in seconds, from calls in turns, so that both see the same machine.

    Times are those that the process was running, for work on one thread: what else the machine does in between does
    not count.
    """
    shortest = [math.inf, math.inf]
    spent, runs = 0.0, -1  # the first turn warms up
    while spent < seconds or runs < 4:
        for i, call in enumerate((function, peer)):
            start = time.process_time()
            call()
            elapsed = time.process_time() - start
            if runs >= 0:
                shortest[i], spent = min(shortest[i], elapsed), spent + elapsed
        runs += 1
    return shortest[0], shortest[1]


def have(module: str) -> bool:
    """Whether a module is installed."""
    return importlib.util.find_spec(module) is not None


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that took part, those that were imported."""
    found = {"python": platform.python_version()}
    for module, distribution in LIBRARIES.items():
        if module in sys.modules:
            try:
                found[module] = importlib.metadata.version(distribution)
            except importlib.metadata.PackageNotFoundError:  # used from a checkout
                found[module] = str(getattr(sys.modules[module], "__version__", "unknown"))
    return found


def show(table: list[Row]) -> str:
    """The table as text."""
    what, shape = (max(map(len, column)) + 2 for column in ([r.what for r in table], [r.shape for r in table]))
    lines = [f"{'':<{what}}{'shape':<{shape}}{'value':>9}  {'unit':<8}{'ratio':>8}  goal"]
    for row in table:
        ratio = "" if row.ratio is None else f"{row.ratio:8.3g}"
        lines.append(
            f"{row.what:<{what}}{row.shape:<{shape}}{row.value:9.3f}  {row.unit:<8}{ratio:>8}  {row.goal}".rstrip()
        )
    return "\n".join(lines)


def main(name: str, text: str, measure: Callable[[float], list[Row]], arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write it as JSON.

    Args:
        name: the benchmark's name, part of the file's.
        text: its docstring.
        measure: gives the rows for the seconds to spend on each.
        arguments: the command line, None for the process's.

    Returns:
        The exit status, 0.
    """
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="shorter runs, for a look")
    machine = f"cpu-{os.cpu_count()}cores"
    parser.add_argument("--machine", default=machine, help=f"name of this machine in the results (default {machine})")
    parser.add_argument("--json", type=Path, help=f"file for the results (default bench/results/MACHINE-{name}.json)")
    options = parser.parse_args(arguments)
    table = measure(0.05 if options.quick else 0.4)
    print(show(table))
    path = options.json or Path(__file__).parent / "results" / f"{options.machine}-{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    results = {
        "benchmark": name,
        "machine": options.machine,
        "command": f"python bench/{Path(sys.argv[0]).name}" + (" --quick" if options.quick else ""),
        "date": datetime.date.today().isoformat(),
        "versions": versions(),
        "rows": [asdict(row) for row in table],
    }
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)
    print(f"written to {path}", file=sys.stderr)
    return 0
