"""Products of every kernel at odd sizes, for NVIDIA's memory checker:

PYTORCH_NO_CUDA_MEMORY_CACHING=1 \\
    compute-sanitizer --tool memcheck --report-api-errors no python3 tritongemm_memcheck.py [--all]

A third of the ways of `tritongemm_ways` unless all are asked for.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
from tritongemm_cases import tensor
from tritongemm_ways import KERNELS, TILES

from tritongemm import dispatch
from tritongemm.kernels.epilogue import Epilogue

WAYS = (*TILES, *KERNELS)


def main() -> None:
    count = 0
    chosen = WAYS if "--all" in sys.argv else WAYS[::3]
    for way in chosen:
        way.run(tensor, "normal")
        count += 1
    x, y = torch.randn((37, 53), device="cuda"), torch.randn((53, 41), device="cuda")
    c, bias = torch.randn((37, 41), device="cuda"), torch.randn(41, device="cuda")
    dispatch.product(x, y, epilogue=Epilogue(alpha=0.5, beta=2.0, c=c, bias=bias, activation="relu"))
    dispatch.grouped_product([x, x[:5]], [y, y])
    dispatch.product(x.expand(3, 37, 53), y.expand(3, 53, 41))
    torch.cuda.synchronize()
    print(f"{count + 3} products were computed")


if __name__ == "__main__":
    main()
