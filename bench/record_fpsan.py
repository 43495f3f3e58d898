"""Record outputs of a Hopper GPU for the tests of fpsan_tools.

Writes `fpsan_h200.npz` (bits of outputs, no pickles) and `fpsan_h200.json` (versions, index, checksum) to a folder:
payloads of every operation and type and of whole kernels under Triton's FpSan, and outputs of ordinary launches that
the hardware domain predicts. Inputs are not stored: they are made again from the names of the cases
(packages/fpsan-tools/tests/fpsan_recordings.py). Every output is compared with the prediction on the way.

    python bench/record_fpsan.py FOLDER

Run from the repository root with the four src folders on PYTHONPATH; takes about two minutes.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "packages" / "fpsan-tools" / "tests"))

import fpsan_cases  # noqa: E402
import fpsan_prediction  # noqa: E402
import fpsan_recordings  # noqa: E402
import torch  # noqa: E402
import triton  # noqa: E402
from fpsan_device import from_device, to_device  # noqa: E402

import fpsan_tools  # noqa: E402
from fpsan_tools import gpu  # noqa: E402


def record_cases(release, outputs):
    """Every operation and type, under FpSan."""
    groups = fpsan_cases.grouped(fpsan_cases.all_cases(release))
    differing = []
    with tempfile.TemporaryDirectory() as folder:
        kernels = fpsan_cases.load_kernels(groups, Path(folder))
        for group in groups:
            operands = fpsan_recordings.case_operands(group)
            programs = fpsan_recordings.case_programs(group)
            tensors = [to_device(bits, tile.dtype) for bits, tile in zip(operands, group.operands, strict=True)]
            results = [
                to_device(np.zeros((programs, *case.result.shape), case.result.unsigned), case.result.dtype)
                for case in group.cases
            ]
            with fpsan_tools.on_gpu():
                getattr(kernels, group.name)[(programs,)](*tensors, *results)
            for case, result in zip(group.cases, results, strict=True):
                bits = from_device(result)
                outputs[f"case/{case.identifier}"] = bits
                if not np.array_equal(bits, fpsan_prediction.case(case, release, operands)):
                    differing.append(case.identifier)
    return differing


def record_launches(release, outputs):
    """Whole kernels, under FpSan or as they are."""
    differing = []
    for recording in fpsan_recordings.recordings():
        tensors = [to_device(bits, dtype) for bits, dtype in recording.arguments()]
        launch = recording.kernel[recording.grid]
        if recording.domain == "payload":
            with fpsan_tools.on_gpu():
                launch(*tensors, *recording.scalars, **dict(recording.options))
        else:
            launch(*tensors, *recording.scalars, **dict(recording.options))
        bits = fpsan_recordings.kept(from_device(tensors[-1]))
        outputs[f"{recording.domain}/{recording.name}"] = bits
        if not np.array_equal(bits, fpsan_prediction.launch(recording, release)):
            differing.append(f"{recording.domain}/{recording.name}")
    return differing


def main(folder):
    """Record into a folder."""
    started = time.perf_counter()
    release = ".".join(triton.__version__.split(".")[:2])
    outputs = {}
    differing = [*record_cases(release, outputs), *record_launches(release, outputs)]
    facts = {
        "device": torch.cuda.get_device_name(),
        "target": gpu.describe(),
        "triton": triton.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "release": release,
    }
    fpsan_recordings.write(Path(folder), outputs, facts)
    print(f"{len(outputs)} outputs in {time.perf_counter() - started:.0f} s; {len(differing)} are not as predicted")
    for name in differing:
        print(f"  {name}")


if __name__ == "__main__":
    main(sys.argv[1])
