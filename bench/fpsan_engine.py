"""Whole kernels in the CPU engine: seconds of a launch by domain, and the memory that it takes beyond its operands.

`ratio` is the time over that of `np.matmul` on float32 matrices of the same sizes (for products), empty for others.

    python bench/fpsan_engine.py [--quick] [--machine NAME] [--json PATH]
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _tables import Row, best, main

import fpsan_tools

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "packages" / "fpsan-tools" / "tests"))

from fpsan_gpu_kernels import attention, matmul, softmax
from fpsan_kernels import blocked, strided_lanes


def memory(function: Callable[[], object], operands: int) -> float:
    """Peak memory of a call over the size of its operands."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1] / operands
    finally:
        tracemalloc.stop()


def measure(seconds: float) -> list[Row]:
    """All rows of the table."""
    rng = np.random.default_rng(0)
    table = []

    def add(what: str, shape: str, call: Callable[[], object], operands: int, goal: str = "", base: float = 0) -> None:
        time = best(call, seconds)
        table.append(Row(what, shape, time, "s", time / base if base else None, goal))
        table.append(Row(f"{what}, peak memory", shape, memory(call, operands), "operands"))

    size = 512
    a, b = rng.standard_normal((2, size, size)).astype(np.float32)
    c = np.zeros((size, size), np.float32)
    base = best(lambda: a @ b, seconds)
    for domain in ("payload", "ieee"):

        def product(domain: str = domain) -> object:
            return fpsan_tools.run(matmul, (8, 8), a, b, c, size, size, size, "ieee", 64, 64, 64, domain=domain)

        goal = "<= 1" if domain == "payload" else ""
        add(f"matmul, 64^3 tiles, {domain}", f"{size}^3 fp32", product, 3 * a.nbytes, goal, base)
    keys, depth = 1024, 64
    q, k, v, o = rng.standard_normal((4, 1, keys, depth)).astype(np.float32)

    def flash() -> object:
        return fpsan_tools.run(attention, (keys // 64, 1), q, k, v, o, keys, 0.125, False, depth, 64, 64)

    add("flash attention, payload", f"N={keys} D={depth} fp32", flash, 4 * q.nbytes, "<= 1.5")
    rows, columns = 4096, 1000
    x, y = rng.standard_normal((2, rows, columns)).astype(np.float32)
    for domain in ("payload", "ieee"):

        def rowwise(domain: str = domain) -> object:
            return fpsan_tools.run(softmax, (rows,), x, y, columns, BLOCK=1024, domain=domain)

        add(f"softmax, {domain}", f"{rows} x {columns} fp32", rowwise, 2 * x.nbytes)
    m, n, depth = 256, 256, 1536
    a, b = rng.standard_normal((m, depth)).astype(np.float32), rng.standard_normal((depth, n)).astype(np.float32)
    c = np.zeros((m, n), np.float32)
    base = best(lambda: a @ b, seconds)
    shape = (m, n, depth, depth, 1, n, 1, n, 1)

    def lanes() -> object:
        return fpsan_tools.run(strided_lanes, (m, n), a, b, c, *shape, BLOCK=256, domain="ieee")

    def tiled() -> object:
        tiles = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "FOLD": True}
        return fpsan_tools.run(blocked, (m // 64, n // 64), a, b, c, *shape, domain="ieee", **tiles)

    operands = a.nbytes + b.nbytes + c.nbytes
    add("strided lanes, ieee", f"{m}x{n}x{depth} fp32", lanes, operands, "", base)
    add("blocked, ieee", f"{m}x{n}x{depth} fp32", tiled, operands, "", base)
    return table


if __name__ == "__main__":
    raise SystemExit(main("fpsan_engine", __doc__, measure))
