"""Matrix units: products per second of a bit-accurate 512^3 product, next to BLAS and to a scalar model.

Every figure is the best of several calls of `numfmt.matrix_units.matmul`, checking of the inputs included. `ratio`
divides the time by that of NumPy's float64 product of the same matrices in the same process on all its threads: what
bit accuracy costs. The scalar model is the exact-rational oracle of the tests; MMA-Sim's row is the figure published
for it (scalar Python, another machine).

    python bench/matrix_units.py [--quick] [--machine NAME] [--json PATH]
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from pathlib import Path

import numpy as np
from _tables import Row, best, main

from numfmt import BF16, FP8_E4M3, FP16, FP32
from numfmt.matrix_units import matmul, promote, tl_dot

SIZE = 512
GOALS = {"numba": {"fp16": ">= 1.0 on 2 cores", "e4m3": ">= 1.0 on 2 cores"}, "numpy": ">= 0.2"}
MMA_SIM = 9e4
"""Products per second, arXiv 2511.10909's tool as measured by others."""


def scalar_rate() -> float:
    """Products per second of the tests' oracle."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "packages" / "numfmt" / "tests"))
    import matrix_units_oracle as oracle

    rng = np.random.default_rng(0)
    a, b = (FP16.round(rng.uniform(-1, 1, 4096)).tolist() for _ in range(2))
    start = time.perf_counter()
    oracle.chain(a, b, 0.0, oracle.Step(16, 25), -14, -14)
    return 4096 / (time.perf_counter() - start)


def measure(seconds: float) -> list[Row]:
    """The table."""
    rng = np.random.default_rng(0)
    shape = f"{SIZE}^3"
    products = SIZE**3
    rows = []
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    engines = ["numpy", *(["numba"] if importlib.util.find_spec("numba") else [])]
    for key, fmt in (("fp16", FP16), ("bf16", BF16), ("tf32", FP32), ("e4m3", FP8_E4M3)):
        a, b = (fmt.round(rng.uniform(-1, 1, (SIZE, SIZE))) for _ in range(2))
        blas = best(lambda a=a, b=b: a @ b, seconds)
        for engine in engines:
            goals = GOALS[engine]
            goal = goals if isinstance(goals, str) else goals.get(key, "")
            for threads in sorted({1, cores}):
                spent = best(lambda: matmul(a, b, inputs=key, engine=engine, threads=threads), seconds)  # noqa: B023
                rows.append(
                    Row(
                        f"{key}, one chain, {engine}, {threads} thread{'s' if threads > 1 else ''}",
                        shape,
                        products / spent / 1e9,
                        "G/s",
                        spent / blas,
                        goal if threads == cores else "",
                    )
                )
    for name, key, fmt, schedule in (
        ("e4m3, promoted every 128", "e4m3", FP8_E4M3, promote(128)),
        ("fp32 as bf16x6 (6 products counted as 1)", "fp32", FP32, tl_dot(64, input_precision="bf16x6")),
        ("fp32, fused multiply-adds", "fp32", FP32, tl_dot(64, input_precision="ieee")),
    ):
        a, b = (fmt.round(rng.uniform(-1, 1, (SIZE, SIZE))) for _ in range(2))
        blas = best(lambda a=a, b=b: a @ b, seconds)
        for engine in engines:
            spent = best(lambda: matmul(a, b, inputs=key, engine=engine, schedule=schedule), seconds)  # noqa: B023
            rows.append(Row(f"{name}, {engine}", shape, products / spent / 1e9, "G/s", spent / blas))
    rows.append(Row("exact rationals, the tests' oracle", "4096 products", scalar_rate() / 1e3, "k/s"))
    rows.append(Row("MMA-Sim, published", "", MMA_SIM / 1e3, "k/s"))
    return rows


if __name__ == "__main__":
    sys.exit(main("matrix-units", __doc__ or "", measure))
