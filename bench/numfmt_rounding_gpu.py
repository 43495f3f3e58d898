"""Rounding of CUDA tensors: the share of the device's copy bandwidth that `fmt.round(tensor)` reaches.

Every figure is the median over groups of calls timed with CUDA events, on tensors of 2^30 bytes; `ratio` divides the
time by that of `out.copy_(x)` of the same tensor in the same run. A group is queued while the device still works on
calls before it: with a single call between two events the device would wait for Python, and that wait would be timed.
The goal for float32 is a share of at least 0.7: a ratio of at most 1.43. Next to it: torch's own casts to the type and
back.

    python bench/numfmt_rounding_gpu.py [--quick] [--machine NAME] [--json PATH]
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable

import torch
from _tables import Row, main

from numfmt import BF16, E8M0, FP4_E2M1, FP8_E4M3, FP8_E5M2, FP16, ROUNDINGS, TF32

COUNT = 1 << 28
#: Calls between two events, and calls queued before the first: longer on the device than a group takes to be queued.
GROUP, AHEAD = 8, 8


def milliseconds(work: Callable[[], object], seconds: float) -> float:
    """Median time of a call on the device, over groups of them."""
    work()
    times: list[float] = []
    while len(times) < 5 or sum(times) * GROUP < 1e3 * seconds:
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        for _ in range(AHEAD):
            work()
        start.record()
        for _ in range(GROUP):
            work()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) / GROUP)
    return statistics.median(times)


def rows_of(dtype: torch.dtype, count: int, seconds: float) -> list[Row]:
    """Every format to nearest, every mode of one format, and torch's casts, for one type."""
    x = torch.randn(count, dtype=dtype, device="cuda")
    out = torch.empty_like(x)
    shape = f"2^{count.bit_length() - 1} {str(dtype).removeprefix('torch.')}"
    goal = "ratio <= 1.43" if dtype is torch.float32 else ""
    work: dict[str, Callable[[], object]] = {"copy": lambda: out.copy_(x)}
    for fmt in (FP8_E4M3, FP8_E5M2, FP4_E2M1, FP16, BF16, TF32, E8M0):
        nan = None if fmt.has_nan else "zero"
        work[f"round to {fmt.name}"] = lambda fmt=fmt, nan=nan: fmt.round(x, out=out, nan=nan)
    for mode in ROUNDINGS:
        work[f"E4M3, {mode}"] = lambda mode=mode: FP8_E4M3.round(x, mode, rng=1, out=out)
    for name in ("float8_e4m3fn", "bfloat16"):
        kind = getattr(torch, name)
        work[f"torch: to {name} and back"] = lambda kind=kind: x.to(kind).to(dtype)
    times = {what: milliseconds(call, seconds) for what, call in work.items()}
    moved = 2 * x.element_size() * count
    return [
        Row(what, shape, moved / time / 1e9, "TB/s", time / times["copy"], goal if what.startswith("round") else "")
        for what, time in times.items()
    ]


def measure(seconds: float) -> list[Row]:
    """All rows."""
    return rows_of(torch.float32, COUNT, seconds) + rows_of(torch.float64, COUNT // 2, seconds)


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("numfmt_rounding_gpu.py needs a CUDA GPU")
    sys.exit(main("numfmt-rounding-gpu", __doc__, measure))
