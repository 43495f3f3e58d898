"""Simulated sums: nanoseconds per rounded addition, next to the unrounded loop and to other libraries.

Every figure is the best of several runs on one thread. `ratio` divides the time by that of the unrounded float64 loop
`s += x[k]` of the same shape in the same process (for matrix products: of unrounded rank-one updates; for exact sums:
of `np.sum`), which is what carries over to other machines; absolute times are orientation. Peers that are not
installed are left out.

    python bench/numfmt_sums.py [--quick] [--machine NAME] [--json PATH]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import numpy as np
from _tables import Row, best_pair, have, main

import numfmt
from numfmt import BF16, FP16, FP32, Accumulator, accumulate
from numfmt._fast.backend import backend

#: Rows that slow peers add, and sizes of their products.
FEW_ROWS = {"gfloat": 64, "apytypes": 256}
SMALL_PRODUCT = 64
#: What is simulated, by name: arguments of `accumulate`.
SUMS: dict[str, dict[str, object]] = {
    "BF16 nearest, (K, T)": {"axis": 0},
    "BF16 nearest, (T, K)": {},
    "BF16 toward zero, exact": {"axis": 0, "rounding": "toward_zero"},
    "BF16 down, exact": {"axis": 0, "rounding": "down"},
    "BF16 stochastic": {"axis": 0, "rounding": "stochastic", "seed": 1},
    "BF16 pairwise": {"axis": 0, "method": "pairwise"},
    "BF16 Kahan": {"axis": 0, "method": "kahan"},
    "BF16 Neumaier": {"axis": 0, "method": "neumaier"},
    "BF16 promoted every 128": {"axis": 0, "chunk": 128},
}
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
    if have("ml_dtypes"):
        import ml_dtypes

        narrow = x.astype(ml_dtypes.bfloat16)

        def with_ml_dtypes() -> object:
            s = np.zeros(x.shape[1], ml_dtypes.bfloat16)
            for row in narrow:
                s = s + row
            return s

        found["ml_dtypes"] = with_ml_dtypes
    if have("gfloat"):
        import gfloat
        from gfloat.formats import format_info_bfloat16

        def with_gfloat() -> object:
            s = np.zeros(x.shape[1])
            for row in x[: FEW_ROWS["gfloat"]]:
                s = gfloat.round_ndarray(format_info_bfloat16, s + row)
            return s

        found["gfloat"] = with_gfloat
    if have("torch"):
        import torch

        torch.set_num_threads(1)
        tensor = torch.from_numpy(x).to(torch.bfloat16)

        def with_torch() -> object:
            s = torch.zeros(x.shape[1], dtype=torch.bfloat16)
            for row in tensor:
                s = s + row
            return s

        found["torch"] = with_torch
    if have("apytypes"):
        from apytypes import APyFloatArray

        rows = [APyFloatArray.from_float(row, 8, 7) for row in x[: FEW_ROWS["apytypes"]]]

        def with_apytypes() -> object:
            s = APyFloatArray.from_float(np.zeros(x.shape[1]), 8, 7)
            for row in rows:
                s = s + row
            return s

        found["apytypes"] = with_apytypes
    return found


def product_peers(a: np.ndarray, b: np.ndarray) -> dict[str, Callable[[], object]]:
    """BF16 products of two matrices with every operation rounded, as rank-one updates in other libraries."""
    found: dict[str, Callable[[], object]] = {}
    if have("ml_dtypes"):
        import ml_dtypes

        x, y = a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16)

        def with_ml_dtypes() -> object:
            s = np.zeros((len(x), y.shape[1]), ml_dtypes.bfloat16)
            for k in range(len(y)):
                s = s + x[:, k : k + 1] * y[k]
            return s

        found["ml_dtypes"] = with_ml_dtypes
    if have("gfloat"):
        import gfloat
        from gfloat.formats import format_info_bfloat16 as kind

        def with_gfloat() -> object:
            s = np.zeros((len(a), b.shape[1]))
            for k in range(len(b)):
                s = gfloat.round_ndarray(kind, s + gfloat.round_ndarray(kind, a[:, k : k + 1] * b[k]))
            return s

        found["gfloat"] = with_gfloat
    if have("torch"):
        import torch

        p, q = torch.from_numpy(a).to(torch.bfloat16), torch.from_numpy(b).to(torch.bfloat16)

        def with_torch() -> object:
            s = torch.zeros(len(p), q.shape[1], dtype=torch.bfloat16)
            for k in range(len(q)):
                s = s + p[:, k : k + 1] * q[k]
            return s

        found["torch"] = with_torch
    if have("apytypes"):
        from apytypes import APyFloatAccumulatorContext, APyFloatArray

        left, right = (APyFloatArray.from_float(v, 8, 7) for v in (a, b))

        def with_apytypes() -> object:
            with APyFloatAccumulatorContext(8, 7):
                return left @ right

        found["apytypes"] = with_apytypes
    return found


def running_sums(columns: int, terms: int, seconds: float) -> list[Row]:
    """Every method and mode on one shape, next to the unrounded loop and, for short rows, to the peers."""
    x = BF16.round(np.random.default_rng(0).standard_normal((terms, columns)))
    rows_first = np.ascontiguousarray(x.T)
    shape = f"T={columns} K={terms}"
    base = best_pair(lambda: unrounded_loop(x), lambda: None, seconds)[0] / x.size * 1e9
    table = [Row("unrounded float64 loop", shape, base, "ns/add", 1.0)]

    def timed(what: str, call: Callable[[], object], adds: int, goal: str = "") -> None:
        time, loop = best_pair(call, lambda: unrounded_loop(x), seconds)
        value = time / adds * 1e9
        table.append(Row(what, shape, value, "ns/add", value / (loop / x.size * 1e9), goal))

    for name in ["numpy", *(["numba"] if have("numba") else [])]:
        with backend(name):
            goals = GOALS.get((name, columns), {})
            for what, options in SUMS.items():
                array = x if "axis" in options else rows_first
                timed(
                    f"accumulate {what} [{name}]",
                    lambda array=array, options=options: accumulate(array, BF16, **options),
                    x.size,
                    goals.get(what, ""),
                )
            if columns == 256:
                timed(f"Accumulator, 32 pieces [{name}]", lambda: stream(rows_first), x.size)
    if columns == 256:
        for name, call in peers(x[:1024]).items():
            timed(f"BF16 running sum: {name}", call, min(FEW_ROWS.get(name, 1024), 1024) * columns)
    return table


def stream(x: np.ndarray) -> object:
    """BF16 sums of terms that arrive in 32 pieces."""
    accumulator = Accumulator(len(x), BF16)
    for piece in np.array_split(x, 32, axis=1):
        accumulator.add(piece)
    return accumulator.total()


def unrounded_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The float64 product of two matrices as rank-one updates: what a simulation costs if rounding were free."""
    s, update = np.zeros((len(a), b.shape[1])), np.empty((len(a), b.shape[1]))
    for k in range(len(b)):
        np.multiply(a[:, k : k + 1], b[k], update)
        np.add(s, update, s)
    return s


def products(seconds: float) -> list[Row]:
    """Matrix products with every operation rounded, next to unrounded rank-one updates of the same size."""
    rng, table = np.random.default_rng(0), []

    def timed(what: str, call: Callable[[], object], a: np.ndarray, b: np.ndarray, goal: str = "") -> None:
        time, loop = best_pair(call, lambda: unrounded_product(a, b), seconds)
        rate = len(a) * b.size / time / 1e9
        table.append(Row(what, f"{len(a)}^3", rate, "GMAC/s", time / loop, goal))

    for name in ["numpy", *(["numba"] if have("numba") else [])]:
        size = 512 if name == "numba" else 128
        for fmt, product, goal in ((BF16, "rounded", ">= 2.5"), (FP16, "rounded", ""), (FP32, "fma", "")):
            a, b = (fmt.round(rng.standard_normal((size, size))) for _ in range(2))
            what = f"matmul {fmt.name}, {'FMA chain' if product == 'fma' else 'every operation rounded'} [{name}]"
            with backend(name):
                timed(
                    what,
                    lambda a=a, b=b, fmt=fmt, product=product: numfmt.matmul(a, b, fmt, product=product),
                    a,
                    b,
                    goal if name == "numba" else "",
                )
    a, b = (BF16.round(rng.standard_normal((SMALL_PRODUCT, SMALL_PRODUCT))) for _ in range(2))
    for name, call in product_peers(a, b).items():
        timed(f"BF16 product, every operation rounded: {name}", call, a, b)
    return table


def exact_sums(seconds: float) -> list[Row]:
    """Exact sums next to `np.sum`, and a fused multiply-add of arrays next to the unfused one."""
    rng, table = np.random.default_rng(0), []
    a, b, c = rng.standard_normal((3, 128, 128)).astype(np.float32)
    value, base = best_pair(lambda: numfmt.fma(a, b, c, FP32), lambda: a * b + c, seconds)
    table.append(Row("fma, float32 arrays [numpy]", "128x128", value / a.size * 1e9, "ns/fma", value / base, "<= 40"))
    x = rng.standard_normal((256, 6144))
    for what, call in (
        ("np.sum", lambda: x.sum(axis=1)),
        ("exact_sum", lambda: numfmt.exact_sum(x)),
        ("math.fsum on every row", lambda: [math.fsum(row) for row in x]),
    ):
        value, base = best_pair(call, lambda: x.sum(axis=1), seconds)
        table.append(Row(what, "T=256 K=6144", value / x.size * 1e9, "ns/term", value / base))
    return table


def measure(seconds: float) -> list[Row]:
    """All rows of the table."""
    table = running_sums(256, 4096, seconds) + running_sums(1 << 14, 256, seconds)
    return table + products(seconds) + exact_sums(seconds)


if __name__ == "__main__":
    sys.exit(main("numfmt-sums", __doc__, measure))
