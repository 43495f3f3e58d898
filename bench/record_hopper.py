"""Records on a Hopper GPU what the warp-specialised, emulated and fp32 kernels return, for tests without a GPU.

python3 bench/record_hopper.py packages/tritongemm/tests/data/hopper-bits.npz
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
import triton

sys.path.insert(0, str(Path(__file__).parents[1] / "packages/tritongemm/tests"))
import tritongemm_hopper_cases as cases

from tritongemm import dispatch, emulation
from tritongemm.configurations import Config

# Small products would go to other kernels.
CONFIGS = {
    "bf16": Config(kernel="warp_specialised", block_m=128, block_n=64, block_k=64, stages=3),
    "fp16": Config(kernel="warp_specialised", block_m=64, block_n=64, block_k=64, stages=3),
    "tf32": Config(kernel="warp_specialised", block_m=128, block_n=64, block_k=32, stages=3),
    "fp32": Config(kernel="simt", block_m=128, block_n=256, block_k=32, warps=8),
    "fp8 fast": Config(kernel="warp_specialised", block_m=128, block_n=64, block_k=128, stages=3),
    "fp8 promoted": Config(kernel="warp_specialised", block_m=128, block_n=64, block_k=128, stages=4),
    "bf16x6": Config(kernel="emulated", block_m=128, block_n=128, block_k=32, stages=4),
}


def main() -> int:
    """Records every case."""
    found: dict[str, np.ndarray] = {}
    for name, (mode, dtype, _) in cases.CASES.items():
        a, b = (torch.from_numpy(x).cuda().to(getattr(torch, dtype)) for x in cases.values(name))
        b = b.t().contiguous().t()
        config = CONFIGS.get(name)
        out = torch.full((cases.M, cases.N), float("nan"), device="cuda")
        dispatch.product(a, b, mode=mode, out=out, config=config)
        found[name] = out.cpu().numpy().view(np.uint32)
        outcome = emulation.last_outcome()
        if mode in ("fp16x3", "int8x6", "auto") and outcome is not None:
            found[f"{name}: mode"] = np.array(outcome.modes[0])
    device = torch.cuda.get_device_properties(0).name
    facts = {"device": device, "torch": torch.__version__, "triton": triton.__version__}
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, facts=np.array(json.dumps(facts)), **found)
    print(f"{len(found)} arrays written to {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
