"""Products of every kernel at odd sizes, for NVIDIA's memory checker:

python3 tritongemm_memcheck.py --compile
PYTORCH_NO_CUDA_MEMORY_CACHING=1 \\
    compute-sanitizer --tool memcheck --target-processes application-only --report-api-errors no \\
    python3 tritongemm_memcheck.py

The first command compiles every kernel on all cores and runs none; the second finds them in Triton's cache, so the
checker's time goes into what it checks. Kernels are found in the table of candidates: a new one is checked too.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
from tritongemm_cases import operands, tensor
from tritongemm_ways import KERNELS, TILES

import tritongemm
from tritongemm import dispatch, launches, modes
from tritongemm.elements import FP8
from tritongemm.kernels.epilogue import Epilogue
from tritongemm.kernels.problems import Operands

Product = tuple[str, Callable[[], object]]

SHAPES = ((37, 208, 48), (1, 272, 144), (130, 300, 67))
"""(M, K, N): rows that the copy engine reads, few rows, and odd pitches."""


def products() -> Iterator[Product]:
    """(name, what computes it) of every product that is checked."""
    for way in (*TILES, *KERNELS):
        yield way.name, lambda way=way: way.run(tensor, "normal")
    cases = [(mode, dtype) for mode in modes.MODES.values() for dtype in mode.operands]
    for i, (mode, dtype) in enumerate(cases):
        yield from by_every_kernel(mode, dtype, SHAPES[i % len(SHAPES)])
    for dtype in ("fp32", "fp16", "bf16"):
        for M, K, N in SHAPES:
            x, y = (tensor(v, dtype) for v in operands("normal", (M, K, N), dtype))
            yield f"{dtype} {M}x{K}x{N}", lambda x=x, y=y: tritongemm.mm(x, y)
            yield f"{dtype} {M}x{K}x{N} cut", lambda x=x, y=y: tritongemm.mm(x, y, invariant=False)
    x, y = torch.randn((37, 53), device="cuda"), torch.randn((53, 41), device="cuda")
    c, bias = torch.randn((37, 41), device="cuda"), torch.randn(41, device="cuda")
    for activation in (None, "relu", "gelu", "silu"):
        epilogue = Epilogue(alpha=0.5, beta=2.0, c=c, bias=bias, activation=activation)
        yield f"epilogue {activation}", lambda e=epilogue: dispatch.product(x, y, epilogue=e)
        for kind in ("bf16", "fp16"):
            a, b = (tensor(v, kind) for v in operands("normal", (70, 128, 40), kind))
            d = torch.randn((70, 40), device="cuda", dtype=a.dtype)
            more = {"alpha": 0.5, "beta": 2.0, "c": d, "bias": d[0], "activation": activation}
            yield f"epilogue {activation} {kind}", lambda a=a, b=b, more=more: tritongemm.mm(a, b, **more)
    yield "groups", lambda: dispatch.grouped_product([x, x[:5]], [y, y])
    yield "batch", lambda: dispatch.product(x.expand(3, 37, 53), y.expand(3, 53, 41))
    inside = torch.randn((41, 60), device="cuda")[2:39, 3:56]
    yield "views", lambda: tritongemm.mm(inside, y[:, 1:40], out=torch.empty((39, 37), device="cuda").t())


def by_every_kernel(mode: modes.Mode, dtype: str, shape: tuple[int, int, int]) -> Iterator[Product]:
    """A product by the kernel that is chosen and by every other one that takes it."""
    a, b = operands("normal", shape, dtype)
    columns = dtype in FP8  # B as the tensor core reads it
    x = tensor(a, dtype)
    y = tensor(b.T.copy(), dtype).T if columns else tensor(b, dtype)
    name = f"{mode.name} {dtype} {'x'.join(map(str, shape))}"
    yield name, lambda: tritongemm.mm(x, y, precision=mode.name)
    checked = Operands.of(x, y, mode, epilogue=Epilogue())
    for candidate in dispatch.CANDIDATES:
        if candidate.supports(checked, None) and candidate.supports(checked, config := candidate.configure(checked)):
            yield (
                f"{name} {candidate.kernel}",
                lambda c=config: tritongemm.mm(x, y, precision=mode.name, config=c, invariant=False),
            )


def main() -> None:
    started = time.monotonic()
    if "--compile" in sys.argv:
        with launches.compiling_ahead():
            for _, compute in products():
                compute()
        print(f"compiled in {time.monotonic() - started:.1f} s", flush=True)
        return
    count = 0
    for name, compute in products():
        compute()
        torch.cuda.synchronize()
        count += 1
        if "--names" in sys.argv:
            print(f"{time.monotonic() - started:6.1f} s {name}", flush=True)
    print(f"{count} products were computed in {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main()
