"""CPU time of one eager call of a product, ours and torch's, on a GPU.

    python bench/gemm_overhead.py [--size 64 --size 1024] [--quick] [--machine NAME] [--json FILE]

Products of 64 rows go to the kernels that run everywhere, those of 1024 to the ones made for Hopper.

Calls are issued in bursts short enough never to wait for the GPU, which is idle before each; what is timed is Python,
the dispatcher and the launch, not the product. The order is random in every round; the figure is the median of the
rounds, the ratio that to `torch.matmul` of the same round.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import triton

import tritongemm
from tritongemm.kernels.blocked import blocked

BURST, ROUNDS = 100, 20
GOAL = 1.5


def contestants(size: int, dtype: torch.dtype) -> dict[str, Callable[[], object]]:
    """What is timed, by name."""
    a, b, out = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(3))
    bias = torch.randn(size, device="cuda").to(dtype)
    leaf = a.clone().requires_grad_()

    def without_gradients(call: Callable[[], object]) -> Callable[[], object]:
        def called() -> object:
            with torch.no_grad():
                return call()

        return called

    from tritongemm import library

    assert library  # registers the operator
    operator = torch.ops.tritongemm.product
    return {
        "torch.matmul": lambda: torch.matmul(a, b),
        "torch.mm(out=)": lambda: torch.mm(a, b, out=out),
        "torch linear with bias": lambda: torch.nn.functional.linear(a, b, bias),
        "tritongemm.mm": lambda: tritongemm.mm(a, b),
        "tritongemm.mm(out=)": lambda: tritongemm.mm(a, b, out=out),
        "tritongemm.mm(bias=, activation=)": lambda: tritongemm.mm(a, b, bias=bias, activation="relu"),
        "tritongemm.linear": lambda: tritongemm.linear(a, b, bias),
        "the operator": lambda: operator(a, b, None, None, 1.0, 0.0, None, "ieee", None, True, None),
        "recording gradients": lambda: tritongemm.mm(leaf, b),
        "torch.matmul recording gradients": lambda: torch.matmul(leaf, b),
        "no plan: the whole way": without_gradients(lambda: _long_way(a, b)),
        "a launcher of Triton's": lambda: blocked(a, b, out=out) if dtype != torch.float64 else None,
    }


def _long_way(a: torch.Tensor, b: torch.Tensor) -> object:
    from tritongemm import eager

    kept, eager._plans = eager._plans, {}
    try:
        return tritongemm.mm(a, b)
    finally:
        eager._plans = kept


def measure(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, dict[str, float]]:
    """Microseconds per call and the ratio to torch.matmul of the same round, medians."""
    for call in calls.values():
        for _ in range(3):
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            torch.cuda.synchronize()
            call = calls[name]
            start = time.perf_counter_ns()
            for _ in range(BURST):
                call()
            times[name].append((time.perf_counter_ns() - start) / BURST / 1000)
    reference = times["torch.matmul"]
    return {
        name: {
            "us": round(statistics.median(own), 2),
            "ratio": round(statistics.median(x / y for x, y in zip(own, reference, strict=True)), 3),
        }
        for name, own in times.items()
    }


def main() -> None:
    """Prints the tables, and writes them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, action="append", help="extent of the square matrices: 64 and 1024")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for a look")
    parser.add_argument("--machine", default="gpu", help="name of this machine in the results")
    parser.add_argument("--json", type=Path, help="file to write (default bench/results/MACHINE-gemm-overhead.json)")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("gemm_overhead.py needs a CUDA GPU")
    report: dict[str, object] = {
        "device": torch.cuda.get_device_name(),
        "versions": {"torch": torch.__version__, "triton": triton.__version__},
    }
    for size in options.size or [64, 1024]:
        for dtype in (torch.float32, torch.bfloat16):
            figures = measure(contestants(size, dtype), 3 if options.quick else ROUNDS)
            title = f"{str(dtype).removeprefix('torch.')}, {size} x {size} x {size}"
            report[title] = figures
            print(f"\n{title}, CPU time per call")
            for name, figure in figures.items():
                print(f"  {name:36} {figure['us']:8.2f} us  {figure['ratio']:6.2f}x")
            ours = figures["tritongemm.mm"]["ratio"]
            print(f"  goal: at most {GOAL}x, {'reached' if ours <= GOAL else 'not reached'} ({ours:.2f}x)")
    path = options.json or Path(__file__).parent / "results" / f"{options.machine}-gemm-overhead.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"written to {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
