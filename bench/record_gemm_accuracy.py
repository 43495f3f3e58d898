"""How accurate every precision mode is on a GPU, for all outputs of a full-size product, and how many outputs have the
predicted bits.

    python bench/record_gemm_accuracy.py FOLDER [--shape M,K,N]

Writes `nvidia-h200-gemm-accuracy.json` to the folder: per mode and operand type the error against float64 over every
output (largest and root mean square in units of u·sum|p| with u = 2**-24, bias, largest absolute error), the mode's
bound and how many outputs exceed it, the kernel that ran, and how many of a sample of outputs have the bits that the
mode predicts. The library's products are measured the same way. Inputs are uniform on (-1, 1). Run from the repository
root with the four src folders on PYTHONPATH; takes a minute.
"""

import argparse
import datetime
import json
import math
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "packages" / "tritongemm" / "tests"))

_U = 2.0**-24
_SAMPLE = 24
_ROWS = 1024
NAME = "nvidia-h200-gemm-accuracy.json"


def drawn(torch, shape, dtype, seed):
    """Numbers uniform on (-1, 1), rounded to a type."""
    generator = torch.Generator("cuda").manual_seed(seed)
    x = torch.rand(shape, generator=generator, device="cuda", dtype=torch.float64 if dtype == "fp64" else torch.float32)
    from tritongemm.elements import ELEMENTS

    return (x * 2 - 1).to(getattr(torch, ELEMENTS[dtype].library))


class Measured:
    """The error of a product against float64, row block by row block."""

    def __init__(self, torch, a, b):
        self.torch = torch
        self.a, self.b = a.double(), b.double()
        self.columns = self.b.abs().amax(0)

    def of(self, c, promise=None):
        """Figures of one result."""
        torch = self.torch
        worst = worst_abs = squares = signed = absolute = 0.0
        exceeded = 0
        for top in range(0, c.shape[0], _ROWS):
            x = self.a[top : top + _ROWS]
            golden, magnitude = x @ self.b, x.abs() @ self.b.abs()
            error = c[top : top + _ROWS].double() - golden
            scaled = error.abs() / magnitude
            worst, worst_abs = max(worst, scaled.max().item()), max(worst_abs, error.abs().max().item())
            squares += scaled.square().sum().item()
            signed += (error * golden.sign()).sum().item()
            absolute += error.abs().sum().item()
            if promise is not None:
                limit = promise.relative_bound * magnitude + promise.absolute
                limit += promise.subnormal * (x.abs().amax(1)[:, None] + self.columns)
                limit += promise.scaled * x.abs().amax(1)[:, None] * self.columns
                # The reference itself errs by K·2**-53 of sum|p|.
                exceeded += int((error.abs() > limit + x.shape[1] * 2.0**-53 * magnitude).sum())
        torch.cuda.synchronize()
        figures = {
            "largest_scaled": worst / _U,
            "rms_scaled": math.sqrt(squares / c.numel()) / _U,
            "largest_absolute": worst_abs,
            "bias": signed / absolute if absolute else 0.0,
            "outputs": c.numel(),
        }
        if promise is not None:
            figures |= {"bound_scaled": promise.relative_bound / _U, "bound_exceeded": exceeded}
        return figures


def predicted(mode, a, b, c, seed=1):
    """How many of a sample of outputs have the predicted bits."""
    from tritongemm_cases import bits

    rng = np.random.default_rng(seed)
    rows = sorted(rng.choice(c.shape[0], _SAMPLE, replace=False).tolist())
    columns = sorted(rng.choice(c.shape[1], _SAMPLE, replace=False).tolist())
    want = bits(mode.predict(a[rows].cpu(), b[:, columns].contiguous().cpu()))
    return int((want == bits(c[rows][:, columns])).sum()), want.size


def modes_measured(torch, shape):
    """Every mode that a kernel here offers, for every type of operands."""
    from tritongemm import dispatch, modes
    from tritongemm.kernels.epilogue import Epilogue
    from tritongemm.kernels.problems import Operands

    M, K, N = shape
    found = {}
    dtypes = sorted({dtype for mode in modes.MODES.values() for dtype in mode.operands})
    for dtype in dtypes:
        a, b = drawn(torch, (M, K), dtype, 0), drawn(torch, (N, K), dtype, 1).t()
        measured = Measured(torch, a, b)
        result = "fp64" if dtype == "fp64" else "fp32"
        for mode in modes.MODES.values():
            if dtype not in mode.operands:
                continue
            try:
                operands = Operands.of(a, b, mode, out_dtype=dispatch.element_named(result), epilogue=Epilogue())
                candidate, config = dispatch.choose(operands)
                candidate.run(operands, config)
                figures = measured.of(operands.out, mode.promise(K, dtype))
                # Scales of emulated products come from whole rows and columns, which a sample keeps.
                figures["predicted"], figures["sampled"] = predicted(mode, a, b, operands.out)
                figures |= {"kernel": candidate.kernel, "config": config.as_dict()}
            except Exception as error:
                figures = {"failed": f"{type(error).__name__}: {str(error)[:200]}"}
            found[f"{mode.name} {dtype}"] = figures
            print(f"{mode.name:>15} {dtype:>10} {summary(figures)}", flush=True)
        for name, c in library(torch, dtype, a, b):
            found[f"library {name}"] = figures = measured.of(c)
            print(f"{'library':>15} {name:>10} {summary(figures)}", flush=True)
        del measured, a, b
    return found


def library(torch, dtype, a, b):
    """The vendor library's results."""
    if dtype == "fp32":
        torch.backends.cuda.matmul.allow_tf32 = False
        yield "fp32", torch.matmul(a, b)
        torch.backends.cuda.matmul.allow_tf32 = True
        yield "tf32", torch.matmul(a, b)
        torch.backends.cuda.matmul.allow_tf32 = False
    elif dtype == "fp8e4m3fn":
        one = torch.ones((), device="cuda")
        for fast in (True, False):
            c = torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.float32, use_fast_accum=fast)
            yield f"fp8 {'fast' if fast else 'exact'}", c
    elif dtype == "fp64":
        yield "fp64", torch.matmul(a, b)


def summary(figures):
    """One line of a table."""
    if "failed" in figures:
        return figures["failed"]
    line = (
        f"max {figures['largest_scaled']:11.4g}u  rms {figures['rms_scaled']:10.4g}u  bias {figures['bias']:+.3f}  "
        f"abs {figures['largest_absolute']:.3g}"
    )
    if "bound_scaled" in figures:
        line += (
            f"  bound {figures['bound_scaled']:.4g}u, exceeded {figures['bound_exceeded']}  "
            f"bits {figures['predicted']}/{figures['sampled']}  {figures['kernel']}"
        )
    return line


def rows(found):
    """The figures as rows of a table; errors in units of u·sum|p|."""
    made = []
    for name, f in found.items():
        mode, operands = name.split(" ", 1)
        row = {"mode": mode, "operands": operands}
        if "failed" in f:
            made.append(row | {"kernel": f["failed"]})
            continue
        row |= {
            "kernel": f.get("kernel", "the library's"),
            "predicted_bits": f"{f['predicted']} of {f['sampled']}" if "predicted" in f else "",
        }
        if operands == "fp64":
            if mode != "library":  # The reference itself: its error is not measured with it.
                made.append(row)
            continue
        row |= {
            "largest_error": f["largest_scaled"],
            "rms_error": f["rms_scaled"],
            "bias": f["bias"],
            "largest_absolute_error": f["largest_absolute"],
            "certain_bound": f.get("bound_scaled"),
            "outputs_beyond_it": f.get("bound_exceeded"),
        }
        made.append(row)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shape", default="8192,6144,4096", help="M,K,N")
    options = parser.parse_args()
    import torch
    import triton

    shape = tuple(int(n) for n in options.shape.split(","))
    made = {
        "date": datetime.date.today().isoformat(),
        "versions": {"torch": torch.__version__, "triton": triton.__version__, "numpy": np.__version__},
        "machine": torch.cuda.get_device_name(),
        "shape": dict(zip("MKN", shape, strict=True)),
        "inputs": "uniform on (-1, 1), rounded to the operands' type",
        "unit": "u·sum|p| with u = 2**-24",
    }
    found = modes_measured(torch, shape)
    made["rows"] = rows(found)
    made["configurations"] = {name: figures["config"] for name, figures in found.items() if "config" in figures}
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / NAME).write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
