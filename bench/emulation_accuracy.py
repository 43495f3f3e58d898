"""Error of emulated fp32 products next to a serial fp32 sum, by distribution and length, from predicted bits.

    python3 bench/emulation_accuracy.py [--quick] [--json bench/results/emulation-accuracy.json]

The predictions are an H200's bits (`tests/data/hopper-bits.npz` holds some of them), so no GPU is needed. Errors are in
units of u·sum|p|, u = 2**-24; "decided" is what the guard does with these data.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from tritongemm import emulation, modes

LENGTHS = (16, 64, 256, 1024, 6144)
OUTPUTS = (24, 32)
Array = np.ndarray[Any, np.dtype[Any]]


def draw(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """Numbers of a distribution; "outlier": the fourth column times 1000."""
    x = rng.uniform(-1, 1, shape) if kind in ("uniform", "wide exponents") else rng.normal(size=shape)
    if kind == "lognormal":
        x = np.exp(x) * rng.choice([-1, 1], shape)
    if kind == "wide exponents":
        x = np.ldexp(x, rng.integers(-8, 9, shape))
    if kind == "outlier":
        x[:, 3] *= 1000
    return x.astype(np.float32)


def errors(c: Array, a: Array, b: Array) -> dict[str, float]:
    """Root mean square and largest error."""
    golden, magnitude = a.astype(np.float64) @ b.astype(np.float64), np.abs(a).astype(np.float64) @ np.abs(b)
    scaled = np.abs(c - golden) / (magnitude * 2.0**-24)
    return {"rms": round(math.sqrt((scaled**2).mean()), 4), "max": round(float(scaled.max()), 3)}


def measure(kind: str, K: int) -> dict[str, Any]:
    """All modes on one distribution and length."""
    rng = np.random.default_rng([K, len(kind)])
    a = draw(kind, (OUTPUTS[0], K), rng)
    # Outliers and lognormal numbers in A only, as activations have them before a layer's weights.
    b = draw("normal" if kind in ("outlier", "lognormal") else kind, (K, OUTPUTS[1]), rng)
    sums = {
        "ieee": modes.get("ieee").predict(a, b),
        "bf16x6": modes.get("bf16x6").predict(a, b),
        "fp16x3": emulation.FP16X3.predict(a, b, guard=False),
        "int8x6": emulation.INT8X6.predict(a, b, guard=False),
        "auto": emulation.AUTO.predict(a, b),
    }
    decided = {}
    for name, split, limits in (
        ("fp16x3", emulation.split_fp16, emulation.fp16x3_limits),
        ("int8x6", emulation.split_int8, emulation.int8x6_limits),
    ):
        decided[name] = emulation.VERDICTS[emulation.verdict(split(a), split(b.T), K, limits(K))]
    return {"data": kind, "K": K, "decided": decided, **{name: errors(c, a, b) for name, c in sums.items()}}


def main() -> int:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only lengths up to 1024")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "emulation-accuracy.json")
    options, _ = parser.parse_known_args()
    rows = []
    names = ("ieee", "bf16x6", "fp16x3", "int8x6", "auto")
    print(f"{'data':<16}{'K':>6}  " + "".join(f"{n:>16}" for n in names) + "   fp16x3, int8x6 decided   (rms, max)")
    for kind in ("uniform", "normal", "lognormal", "wide exponents", "outlier"):
        for K in LENGTHS[:-1] if options.quick else LENGTHS:
            row = measure(kind, K)
            rows.append(row)
            cells = "".join(f"{row[n]['rms']:8.3f}{row[n]['max']:8.2f}" for n in names)
            print(f"{kind:<16}{K:>6}  {cells}   {row['decided']['fp16x3']}, {row['decided']['int8x6']}", flush=True)
    temporary = options.json.with_suffix(".tmp")
    temporary.write_text(
        json.dumps({"benchmark": "emulation-accuracy", "rows": rows}, indent=1) + "\n", encoding="utf-8"
    )
    temporary.replace(options.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
