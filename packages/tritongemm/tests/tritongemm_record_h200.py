"""Records what an H200 computes in every mode, for tests without a GPU: python3 tritongemm_record_h200.py DIRECTORY

Writes modes_h200.npz: accumulators by "mode/dtype/kind/MxKxN" (fp32 results as uint32, fp64 as uint64) and digests of
the operands. Prints how many agree with the predictions; a disagreement is recorded all the same.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from tritongemm_cases import KINDS, SHAPES, bits, digest, operands, tensor, typed

from tritongemm import dispatch, modes
from tritongemm.kernels.blocked import blocked_config
from tritongemm.kernels.epilogue import Epilogue
from tritongemm.kernels.problems import Operands


def main(directory: Path) -> None:
    import torch
    import triton

    made: dict[str, np.ndarray] = {}
    inputs: dict[str, str] = {}
    for mode in modes.MODES.values():
        for dtype in mode.operands:
            if mode.arithmetic[dtype].dot is None:
                continue
            wrong = total = 0
            for kind in KINDS:
                for shape in SHAPES:
                    name = f"{mode.name}/{dtype}/{kind}/{'x'.join(map(str, shape))}"
                    a, b = operands(kind, shape, dtype)
                    x, y = tensor(a, dtype), tensor(b, dtype)
                    result = "fp64" if dtype == "fp64" else "fp32"
                    config = blocked_config(Operands.of(x, y, mode, epilogue=Epilogue()))
                    got = bits(dispatch.product(x, y, mode=mode, out_dtype=result, config=config))
                    want = bits(mode.predict(typed(a, dtype), typed(b, dtype)))
                    wrong, total = wrong + int((got != want).sum()), total + got.size
                    if (got != want).any():
                        at = tuple(int(v[0]) for v in np.nonzero(got != want))
                        print(f"   {name}: {(got != want).sum()} differ, first {at}: {got[at]:x}, not {want[at]:x}")
                    made[name], inputs[name] = got, digest(a, b)
            print(f"{mode.name:>15} {dtype:>10}: {total - wrong} of {total} outputs as predicted", flush=True)
    facts = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}
    directory.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(directory / "modes_h200.npz", **made)
    (directory / "modes_h200.json").write_text(json.dumps({"facts": facts, "inputs": inputs}, indent=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
