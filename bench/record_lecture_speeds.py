"""Take from the recorded products of bench/gemm.py what the lecture on FP32 from parts quotes.

    python bench/record_lecture_speeds.py

Reads bench/results/nvidia-h200-gemm.json and writes packages/lectures/src/numfmt_lectures/data/nvidia-h200-speed.json:
speeds and errors of the modes at one shape, on a rested card, with the peaks of the data sheet.
"""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "bench" / "results" / "nvidia-h200-gemm.json"
TARGET = ROOT / "packages" / "lectures" / "src" / "numfmt_lectures" / "data" / "nvidia-h200-speed.json"
SHAPE = [8192, 6144, 4096]
REGIME = "cool"
# Dense peaks of NVIDIA's data sheet of the H200 SXM, TFLOP/s or TOP/s.
UNITS = {"sgemm": ("FP32", 67), "fp16x3": ("FP16", 989), "bf16x6": ("BF16", 989), "int8x6": ("INT8", 1979)}


def figure(source, family, contestant):
    """A family's figure at the shape and in the regime, or None."""
    for one in source["figures"]:
        if (one["family"], one["contestant"], one["shape"], one["regime"]) == (family, contestant, SHAPE, REGIME):
            return one
    return None


def ways(source):
    """Speed with both operands split, with B split before, and rms error, of every way."""
    found = {}
    for name, (unit, peak) in UNITS.items():
        whole = figure(source, "ieee fp32", "vendor") if name == "sgemm" else figure(source, name, "ours")
        prepared = figure(source, f"{name} prepared", "ours")
        errors = (
            figure(source, "ieee fp32", "ours")["error"]["vendor_error"] if name == "sgemm" else whole["error"]["error"]
        )
        found[name] = {"unit": unit, "peak": peak, "whole": round(whole["tflops"], 1), "rms": round(errors["rms"], 4)}
        if prepared is not None:
            found[name]["prepared"] = round(prepared["tflops"], 1)
    return found


def main():
    source = json.loads(SOURCE.read_text())
    found = {
        "benchmark": "fp32 products from parts",
        "machine": source["machine"],
        "versions": {key: source[key] for key in ("device", "cuda", "torch", "triton")},
        "source": str(SOURCE.relative_to(ROOT)),
        "shape": dict(zip("MKN", SHAPE, strict=True)),
        "method": (
            "TFLOP/s of the FP32 product, 2MNK over the time, of a rested card; uniform random data; rms errors in "
            "units of u times the sum of the magnitudes of the products"
        ),
        "peaks": "dense peaks of NVIDIA's data sheet of the H200 SXM",
        "ways": ways(source),
    }
    temporary = TARGET.with_suffix(".part")
    temporary.write_text(json.dumps(found, indent=1) + "\n")
    temporary.replace(TARGET)
    print(json.dumps(found["ways"], indent=1))


if __name__ == "__main__":
    main()
