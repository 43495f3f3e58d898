"""Rounding: nanoseconds per number, next to a copy of the same array and to other libraries.

Every figure is the best of several runs on one thread, on an array too large for the caches. `ratio` divides by
`np.copyto` of the same array in the same process: 1 is the speed of memory. Peers that are not installed are left out.

    python bench/numfmt_rounding.py [--quick] [--machine NAME] [--json PATH]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from _tables import Row, best_pair, have, main

from numfmt import BF16, FP4_E2M1, FP8_E4M3, FP8_E5M2, FP16, TF32, FloatFormat, backend

SIZE = 1 << 24
PEER_SIZE = 1 << 20
FORMATS = (FP8_E4M3, FP8_E5M2, FP4_E2M1, FP16, BF16, TF32)
MODES = ("nearest_away", "toward_zero", "up", "down", "to_odd", "stochastic")


def per_number(seconds: float, count: int) -> float:
    """Nanoseconds."""
    return seconds / count * 1e9


def rounding(choice: str, dtype: type, seconds: float) -> list[Row]:
    """Every format to nearest, and every mode of one format."""
    x = np.random.default_rng(0).standard_normal(SIZE).astype(dtype)
    out = np.empty_like(x)
    rows = []
    shape = f"2^24 {np.dtype(dtype).name}"
    goal = {"numba": ">= 0.80 of a copy" if dtype is np.float32 else ">= 0.85 of a copy"}.get(
        choice, "<= 2.5 ns" if dtype is np.float32 else "<= 3.6 ns"
    )

    def measure(fmt: FloatFormat, mode: str) -> tuple[float, float]:
        """Time of a rounding and of a copy, taken in turns so that both see the same machine."""
        return best_pair(lambda: fmt.round(x, mode, rng=1, out=out), lambda: np.copyto(out, x), seconds)

    with backend(choice):
        for fmt in FORMATS:
            time, copy = measure(fmt, "nearest_even")
            rows.append(Row(f"{choice}: round to {fmt.name}", shape, per_number(time, SIZE), "ns", time / copy, goal))
            if fmt is FP8_E4M3:
                nearest = time
        for mode in MODES:
            time, copy = measure(FP8_E4M3, mode)
            factor = 3.0 if mode == "stochastic" else 1.5
            rows.append(
                Row(
                    f"{choice}: {mode}, {time / nearest:.2f} x nearest_even",
                    shape,
                    per_number(time, SIZE),
                    "ns",
                    time / copy,
                    f"<= {factor} x",
                )
            )
    rows.append(Row("np.copyto", shape, per_number(copy, SIZE), "ns", 1.0))
    return rows


def peers(dtype: type, seconds: float) -> list[Row]:
    """The same work in other libraries."""
    x = np.random.default_rng(0).standard_normal(PEER_SIZE).astype(dtype)
    out = np.empty_like(x)
    work: dict[str, Callable[[], Any]] = {}
    if have("ml_dtypes"):
        import ml_dtypes

        for name in ("float8_e4m3fn", "float4_e2m1fn", "bfloat16"):
            kind = getattr(ml_dtypes, name)
            work[f"ml_dtypes: to {name} and back"] = lambda kind=kind: x.astype(kind).astype(dtype)
    if have("torch"):
        import torch

        torch.set_num_threads(1)
        tensor = torch.from_numpy(x)
        for name in ("float8_e4m3fn", "bfloat16"):
            kind = getattr(torch, name)
            work[f"torch: to {name} and back"] = lambda kind=kind: tensor.to(kind).to(tensor.dtype)
    if have("gfloat"):
        from gfloat import round_ndarray
        from gfloat.formats import format_info_ocp_e4m3

        work["gfloat: round_ndarray to E4M3"] = lambda: round_ndarray(format_info_ocp_e4m3, x)
    if have("apytypes"):
        import apytypes

        work["apytypes: to E4M3"] = lambda: apytypes.APyFloatArray.from_float(x[: 1 << 14], 4, 3)
    rows = []
    for what, call in work.items():
        count = 1 << 14 if what.startswith("apytypes") else PEER_SIZE
        with np.errstate(all="ignore"):
            time, copy = best_pair(call, lambda: np.copyto(out, x), seconds)
        time *= PEER_SIZE / count
        rows.append(Row(what, f"2^20 {np.dtype(dtype).name}", per_number(time, PEER_SIZE), "ns", time / copy))
    return rows


def measure(seconds: float) -> list[Row]:
    """All rows."""
    rows = []
    for dtype in (np.float32, np.float64):
        for choice in ("numpy", "numba") if have("numba") else ("numpy",):
            rows += rounding(choice, dtype, seconds)
        rows += peers(dtype, seconds)
    return rows


if __name__ == "__main__":
    if have("numba"):
        from numfmt._fast import jit

        jit.THREADED = 1 << 62  # one thread, as the copy
    sys.exit(main("numfmt-rounding", __doc__, measure))
