"""Simulated sums: nanoseconds per rounded addition, next to the unrounded loop and to other libraries.

Every figure is the best of several runs on one thread. `ratio` divides by the unrounded float64 loop `s += x[k]` of the
same shape in the same process (for exact sums: by `np.sum`; for matrix products it is the rate itself), which is
what carries over to other machines; absolute times are orientation. Peers that are not installed are left out.

    python bench/numfmt_sums.py [--quick] [--machine NAME] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import numfmt
from numfmt import BF16, FP16, FP32, Accumulator, accumulate
from numfmt._fast.backend import backend


@dataclass(frozen=True)
class Row:
    """One measured figure."""

    what: str
    shape: str
    value: float
    unit: str
    ratio: float | None
    goal: str


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


def unrounded_loop(x: np.ndarray) -> np.ndarray:
    """The running float64 sum of the rows of x: what a simulation costs if rounding were free."""
    s = np.zeros(x.shape[1])
    for row in x:
        np.add(s, row, s)
    return s


def textbook_loop(x: np.ndarray, bits: int) -> np.ndarray:
    """The usual simulation: add in float64, take the number apart with frexp, round the significand."""
    s = np.zeros(x.shape[1])
    for row in x:
        mantissa, exponent = np.frexp(s + row)
        s = np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits)
    return s


def peers(x: np.ndarray) -> dict[str, Callable[[], object]]:
    """BF16 running sums of the rows of x with the libraries that are installed."""
    found: dict[str, Callable[[], object]] = {"textbook frexp loop": lambda: textbook_loop(x, 8)}
    try:
        import ml_dtypes

        narrow = x.astype(ml_dtypes.bfloat16)

        def with_ml_dtypes() -> object:
            s = np.zeros(x.shape[1], ml_dtypes.bfloat16)
            for row in narrow:
                s = s + row
            return s

        found["ml_dtypes"] = with_ml_dtypes
    except ImportError:
        pass
    try:
        import gfloat
        from gfloat.formats import format_info_bfloat16

        def with_gfloat() -> object:
            s = np.zeros(x.shape[1])
            for row in x[:64]:
                s = gfloat.round_ndarray(format_info_bfloat16, s + row)
            return s

        found["gfloat"] = with_gfloat
    except ImportError:
        pass
    try:
        import torch

        tensor = torch.from_numpy(x).to(torch.bfloat16)

        def with_torch() -> object:
            s = torch.zeros(x.shape[1], dtype=torch.bfloat16)
            for row in tensor:
                s = s + row
            return s

        found["torch"] = with_torch
    except ImportError:
        pass
    try:
        from apytypes import APyFloatArray

        rows = [APyFloatArray.from_float(row, 8, 7) for row in x[:256]]

        def with_apytypes() -> object:
            s = APyFloatArray.from_float(np.zeros(x.shape[1]), 8, 7)
            for row in rows:
                s = s + row
            return s

        found["apytypes"] = with_apytypes
    except ImportError:
        pass
    return found


def rows_done(name: str, terms: int) -> int:
    """How many rows the loop of a peer adds."""
    return {"gfloat": min(64, terms), "apytypes": min(256, terms)}.get(name, terms)


def measure(seconds: float) -> list[Row]:
    """All rows of the table."""
    table: list[Row] = []
    rng = np.random.default_rng(0)
    backends = ["numpy", *(["numba"] if have_numba() else [])]

    for columns, terms in ((256, 4096), (1 << 14, 256)):
        x = BF16.round(rng.standard_normal((terms, columns)))
        rows_first = np.ascontiguousarray(x.T)
        base = best(lambda x=x: unrounded_loop(x), seconds) / x.size * 1e9
        label = f"T={columns} K={terms}"
        table.append(Row("unrounded float64 loop", label, base, "ns/add", 1.0, ""))

        def timed(what: str, goal: str, call: Callable[[], object], adds: int, base: float, label: str) -> None:
            value = best(call, seconds) / adds * 1e9
            table.append(Row(what, label, value, "ns/add", value / base, goal))

        for name in backends:
            with backend(name):
                goals = GOALS.get((name, columns), {})
                for what, array, options in (
                    ("BF16 nearest, (K, T)", x, {"axis": 0}),
                    ("BF16 nearest, (T, K)", rows_first, {}),
                    ("BF16 toward zero, exact", x, {"axis": 0, "rounding": "toward_zero"}),
                    ("BF16 down, exact", x, {"axis": 0, "rounding": "down"}),
                    ("BF16 stochastic", x, {"axis": 0, "rounding": "stochastic", "seed": 1}),
                    ("BF16 pairwise", x, {"axis": 0, "method": "pairwise"}),
                    ("BF16 Kahan", x, {"axis": 0, "method": "kahan"}),
                    ("BF16 Neumaier", x, {"axis": 0, "method": "neumaier"}),
                    ("BF16 promoted every 128", x, {"axis": 0, "chunk": 128}),
                ):
                    timed(
                        f"accumulate {what} [{name}]",
                        goals.get(what, ""),
                        lambda array=array, options=options: accumulate(array, BF16, **options),
                        x.size,
                        base,
                        label,
                    )
        if columns == 256:
            for name, call in peers(x[:1024]).items():
                timed(f"BF16 running sum: {name}", "", call, rows_done(name, 1024) * columns, base, label)
        if columns == 256:
            pieces = np.array_split(rows_first, 32, axis=1)

            def stream(pieces: list[np.ndarray] = pieces) -> object:
                accumulator = Accumulator(256, BF16)
                for piece in pieces:
                    accumulator.add(piece)
                return accumulator.total()

            timed(f"Accumulator, 32 pieces [{backends[-1]}]", "", stream, x.size, base, label)

    for name in backends:
        with backend(name):
            size = 512 if name == "numba" else 128
            for fmt, product, goal in ((BF16, "rounded", ">= 2.5"), (FP16, "rounded", ""), (FP32, "fma", "")):
                a = fmt.round(rng.standard_normal((size, size)))
                b = fmt.round(rng.standard_normal((size, size)))
                call = lambda a=a, b=b, fmt=fmt, product=product: numfmt.matmul(a, b, fmt, product=product)  # noqa: E731
                rate = size**3 / best(call, seconds) / 1e9
                what = f"matmul {fmt.name}, {'FMA chain' if product == 'fma' else 'every operation rounded'} [{name}]"
                table.append(Row(what, f"{size}^3", rate, "GMAC/s", None, goal if name == "numba" else ""))

    a, b, c = rng.standard_normal((3, 128, 128)).astype(np.float32)
    value = best(lambda: numfmt.fma(a, b, c, FP32), seconds) / a.size * 1e9
    table.append(Row("fma, float32 arrays [numpy]", "128x128", value, "ns/fma", None, "<= 40"))

    x = rng.standard_normal((256, 6144))
    base = best(lambda: x.sum(axis=1), seconds) / x.size * 1e9
    for what, call in (
        ("np.sum", lambda: x.sum(axis=1)),
        ("exact_sum", lambda: numfmt.exact_sum(x)),
        ("math.fsum on every row", lambda: [math.fsum(row) for row in x]),
    ):
        value = best(call, seconds) / x.size * 1e9
        table.append(Row(what, "T=256 K=6144", value, "ns/term", value / base, ""))
    return table


#: Goals by backend, columns and row, in ns per addition.
GOALS: dict[tuple[str, int], dict[str, str]] = {
    ("numba", 256): {
        "BF16 nearest, (K, T)": "<= 0.40",
        "BF16 nearest, (T, K)": "<= 1.3",
        "BF16 toward zero, exact": "<= 0.8",
        "BF16 down, exact": "<= 0.8",
    },
    ("numpy", 256): {"BF16 nearest, (K, T)": "<= 12"},
    ("numpy", 1 << 14): {"BF16 nearest, (K, T)": "<= 1.5"},
}


def have_numba() -> bool:
    """numba can be imported."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def show(table: list[Row]) -> str:
    """The table as text."""
    lines = [f"{'':<58}{'shape':<16}{'value':>9}  {'unit':<8}{'ratio':>7}  goal"]
    for row in table:
        ratio = "" if row.ratio is None else f"{row.ratio:7.2f}"
        lines.append(f"{row.what:<58}{row.shape:<16}{row.value:9.3f}  {row.unit:<8}{ratio:>7}  {row.goal}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="shorter runs, for a look")
    parser.add_argument("--machine", default=platform.machine(), help="name of this machine in the results")
    parser.add_argument(
        "--json", type=Path, help="file for the results (default bench/results/MACHINE-numfmt_sums.json)"
    )
    options = parser.parse_args(arguments)
    table = measure(0.05 if options.quick else 0.4)
    print(show(table))
    path = options.json or Path(__file__).parent / "results" / f"{options.machine}-numfmt_sums.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    results = {
        "benchmark": "numfmt_sums",
        "machine": options.machine,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "rows": [asdict(row) for row in table],
    }
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(results, indent=1) + "\n")
    temporary.replace(path)
    print(f"written to {path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
