"""Record on a Hopper GPU what the lectures quote: bits of dot products, and what changes the bits of a product.

    python bench/record_lectures.py packages/lectures/src/numfmt_lectures/data/nvidia-h200-lectures.json

Writes one JSON file: `dots` and `probes`, the bits of the products of numfmt_lectures.recorded; `batch`, whether the
rows of a product keep their bits when other rows come along; `atomics`, the different results of runs of one kernel
whose partial sums meet in an atomic addition; and the versions. Run from the repository root with the src folders on
PYTHONPATH; takes about half a minute.
"""

import json
import sys
import zlib
from pathlib import Path

import numpy as np
import torch
import triton
import triton.language as tl

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "packages" / "numfmt" / "tests"))

import matrix_units_device as device  # noqa: E402
from matrix_units_cases import Case  # noqa: E402

from numfmt.matrix_units import tl_dot  # noqa: E402
from numfmt_lectures.recorded import DOTS, KEPT, PROBES, SIGNS, operands, probe_operands  # noqa: E402
from tritongemm.kernels.blocked import blocked  # noqa: E402

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
DEPTH = COLUMNS = 4096
SPLITS = (1, 2, 3, 4, 8, 16, 64)
RUNS = 50


def words(result):
    """A float32 array as one string of hexadecimal digits, eight for each value."""
    return "".join(f"{word:08x}" for word in np.ascontiguousarray(result).view(np.uint32).ravel())


def record_dots():
    """The kept corner of every recorded dot product."""
    found = {}
    for dot in DOTS:
        case = Case((dot.inputs, dot.inputs), dot.schedule)
        for signs in SIGNS:
            a, b = operands(dot, signs)
            result = device.run_case(case, a, b, np.zeros((a.shape[0], b.shape[1])))
            found[f"{dot.name}/{signs}"] = words(result[:KEPT, :KEPT])
    return found


def record_probes():
    """One result for each probe."""
    a, b, c = probe_operands()
    result = device.run_case(Case(("fp16", "fp16"), tl_dot(16)), a, b, c)
    return {probe.key: words(result[i, i : i + 1]) for i, probe in enumerate(PROBES)}


def record_batches():
    """For each product and number of rows: a checksum of the first row's bits.

    The products are torch's (with an fp32 result, which shows every bit of the sum) and the kernel `blocked`.
    """
    torch.manual_seed(0)
    a = torch.rand(max(BATCHES), DEPTH, device="cuda") * 2 - 1
    b = torch.rand(DEPTH, COLUMNS, device="cuda") * 2 - 1
    functions = {
        "torch.mm fp32": (torch.float32, device.mm),
        "torch.mm tf32": (torch.float32, device.mm_tf32),
        "torch.mm bf16": (torch.bfloat16, device.mm),
        "torch.mm fp16": (torch.float16, device.mm),
        "blocked fp32": (torch.float32, blocked),
        "blocked bf16": (torch.bfloat16, lambda x, y: blocked(x, y, out_dtype=torch.float32)),
    }
    found = {}
    for name, (dtype, function) in functions.items():
        x, y = a.to(dtype), b.to(dtype)
        found[name] = []
        for rows in BATCHES:
            row = function(x[:rows], y)[0].contiguous().cpu().numpy()
            found[name].append(f"{zlib.crc32(row.view(np.uint32).tobytes()):08x}")
    return {"rows": BATCHES, "shape": [DEPTH, COLUMNS], "first_row": found}


@triton.jit
def split_k_atomics(a_ptr, b_ptr, c_ptr, N, K, LENGTH, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    """C += A[:, part] B[part, :], parts of LENGTH products, with an atomic addition for each part and output."""
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.program_id(2) * LENGTH + tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, LENGTH, BLOCK_K):
        a = tl.load(a_ptr + m[:, None] * K + (start + k)[None, :], mask=(start + k)[None, :] < K, other=0.0)
        b = tl.load(b_ptr + (start + k)[:, None] * N + n[None, :], mask=(start + k)[:, None] < K, other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    tl.atomic_add(c_ptr + m[:, None] * N + n[None, :], total)


def record_atomics():
    """Different results of the same launch, and outputs that took more than one value, for each number of parts."""
    torch.manual_seed(1)
    size, depth = 256, 6144
    a = torch.rand(size, depth, device="cuda") * 2 - 1
    b = torch.rand(depth, size, device="cuda") * 2 - 1
    rows = []
    for splits in SPLITS:
        length = -(-depth // splits // 32) * 32
        results = []
        for _ in range(RUNS):
            c = torch.zeros(size, size, device="cuda")
            grid = (size // 64, size // 64, splits)
            split_k_atomics[grid](a, b, c, size, depth, length, BLOCK=64, BLOCK_K=32, num_warps=4)
            results.append(c.cpu().numpy().view(np.uint32))
        stack = np.stack(results)
        distinct = len({one.tobytes() for one in stack})
        varying = int((stack != stack[0]).any(axis=0).sum())
        rows.append({"splits": splits, "runs": RUNS, "results": distinct, "varying": varying, "outputs": size * size})
        print(rows[-1], flush=True)
    return {"shape": [size, size, depth], "rows": rows}


def main():
    target = Path(sys.argv[1])
    device.require_hopper()
    found = {
        "benchmark": "lectures",
        "machine": "nvidia-h200",
        "versions": device.environment(),
        "dots": record_dots(),
        "probes": record_probes(),
        "batch": record_batches(),
        "atomics": record_atomics(),
    }
    temporary = target.with_suffix(".part")
    temporary.write_text(json.dumps(found, indent=1) + "\n")
    temporary.replace(target)
    for name, sums in found["batch"]["first_row"].items():
        print(name, len(set(sums)), "different first rows:", *sums)


if __name__ == "__main__":
    main()
