"""The payload algebra in NumPy: matrix products mod 2^w next to float64 BLAS, and nanoseconds an element of each rule.

`ratio` is the time over that of `np.matmul` on float64 matrices of the same shape (for products), or of one float64
multiplication of arrays of the same length (for rules).

    python bench/fpsan_algebra.py [--quick] [--machine NAME] [--json PATH]
"""

from __future__ import annotations

import numpy as np
from _tables import Row, best, main

from fpsan_tools import algebra

WIDTHS = {"fp8e5m2": 8, "bf16": 16, "fp32": 32, "fp64": 64}
SHAPES = {"512^3": (512,), "2048^3": (2048,), "64 x 64^3": (64, 64), "256 x 32^3": (256, 32)}


def measure(seconds: float) -> list[Row]:
    """All rows of the table."""
    rules = algebra.get("3.9")
    rng = np.random.default_rng(0)
    table = []
    for label, shape in SHAPES.items():
        size = shape[-1]
        batch = shape[:-1]
        macs = int(np.prod(batch)) * size**3
        x = rng.standard_normal((*batch, size, size))
        base = best(lambda x=x: np.matmul(x, x), seconds)
        table.append(Row("np.matmul float64", label, macs / base / 1e9, "GMAC/s", 1.0))
        for dtype, width in WIDTHS.items():
            a = rng.integers(0, (1 << width) - 1, (*batch, size, size), f"u{width // 8}", endpoint=True)
            accumulator = "fp64" if width == 64 else "fp32"
            time = best(lambda a=a, to=accumulator: rules.matmul(a, a, dtype=to), seconds)
            goal = ">= 0.2" if dtype == "fp32" else ""
            table.append(Row(f"matmul of {dtype} payloads", label, macs / time / 1e9, "GMAC/s", time / base, goal))
    count = 1 << 20
    x = rng.standard_normal(count)
    base = best(lambda: x * x, seconds)
    table.append(Row("float64 multiplication", f"{count}", base / count * 1e9, "ns", 1.0))
    for dtype in ("bf16", "fp32", "fp64"):
        width = WIDTHS[dtype]
        p = rng.integers(0, (1 << width) - 1, count, f"u{width // 8}", endpoint=True)
        for name, call in {
            "embed": lambda p=p, d=dtype: rules.embed(p, d),
            "unembed": lambda p=p, d=dtype: rules.unembed(p, d),
            "1/x": lambda p=p: rules.inv(p),
            "exp": lambda p=p: rules.exp(p),
            "cos and sin": lambda p=p: rules.cos_sin(p),
            "log": lambda p=p: rules.tagged("log", p),
            "cast to fp8": lambda p=p: rules.cast(p, "fp8e5m2"),
            "sum": lambda p=p: rules.sum(p),
        }.items():
            time = best(call, seconds / 4)
            table.append(Row(name, f"{count} {dtype}", time / count * 1e9, "ns", time / base))
    return table


if __name__ == "__main__":
    raise SystemExit(main("fpsan_algebra", __doc__, measure))
