"""Records what an H200 computes, for tests without a GPU: python3 tritongemm_record_h200.py DIRECTORY [modes] [kernels]

`modes` writes modes_h200.npz: accumulators by "mode/dtype/kind/MxKxN" (fp32 results as uint32, fp64 as uint64), and
modes_h200.json with digests of the operands. `kernels` writes kernels_h200.json: digests of what every kernel of
`tritongemm_ways` computed, by its name and the kind of operands. Both print how much agrees with the predictions; a
disagreement is recorded all the same.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from tritongemm_cases import KINDS, SHAPES, bits, digest, operands, tensor, typed
from tritongemm_ways import KERNELS, TILES

from tritongemm import dispatch, modes
from tritongemm.kernels.blocked import blocked_config
from tritongemm.kernels.epilogue import Epilogue
from tritongemm.kernels.problems import Operands


def facts() -> dict[str, str]:
    """Where the recording was made."""
    import torch
    import triton

    return {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}


def kernels(directory: Path) -> None:
    """Record every kernel and configuration."""
    made: dict[str, dict[str, str]] = {}
    agreed = 0
    for way in (*TILES, *KERNELS):
        made[way.name] = {}
        for kind in KINDS:
            got = way.run(tensor, kind)
            made[way.name][kind] = digest(got)
            wrong = int((got != way.predict(kind)).sum())
            agreed += wrong == 0
            if wrong:
                print(f"   {way.name} {kind}: {wrong} of {got.size} outputs are not as predicted", flush=True)
    print(f"{agreed} of {len(made) * len(KINDS)} results of {len(made)} kernels as predicted")
    (directory / "kernels_h200.json").write_text(json.dumps({"facts": facts(), "results": made}, indent=0))


def modes_recorded(directory: Path) -> None:
    """Record every mode."""
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
    np.savez_compressed(directory / "modes_h200.npz", **made)
    (directory / "modes_h200.json").write_text(json.dumps({"facts": facts(), "inputs": inputs}, indent=0))


def main(directory: Path, *parts: str) -> None:
    """Record the parts that are named, or all."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, record in (("modes", modes_recorded), ("kernels", kernels)):
        if not parts or name in parts:
            record(directory)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
