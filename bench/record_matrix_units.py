"""Record outputs of a Hopper GPU for the tests of numfmt.matrix_units.

Writes `matrix_units_h200.npz` (bits of outputs, no pickles) and `matrix_units_h200.json` (versions, cases, checksum)
to a folder. Inputs are not stored: they are made again from the names of the cases
(packages/numfmt/tests/matrix_units_recordings.py).

    python bench/record_matrix_units.py FOLDER

Run from the repository root with the four src folders on PYTHONPATH; takes about two minutes.
"""

import sys
import time
import zlib
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "packages" / "numfmt" / "tests"))

import matrix_units_device as device  # noqa: E402
from matrix_units_cases import all_cases  # noqa: E402
from matrix_units_data import bits  # noqa: E402
from matrix_units_prediction import Predictor  # noqa: E402
from matrix_units_recordings import (  # noqa: E402
    INDEX,
    KEPT_COLUMNS,
    KEPT_ROWS,
    LIBRARY_SHAPES,
    RECORDED_KINDS,
    library_inputs,
    recorded_inputs,
    recorded_k,
    write_recordings,
)

from numfmt.matrix_units.search import library_schedules  # noqa: E402
from numfmt.matrix_units.units import find_unit  # noqa: E402


def kept(result):
    """The bits of the upper left corner."""
    return np.ascontiguousarray(bits(result)[:KEPT_ROWS, :KEPT_COLUMNS])


def record_dots(outputs):
    """Every case with every recorded kind of data; returns the descriptions."""
    described = {}
    for case in all_cases():
        shape = (case.schedule.block_m * 2, case.schedule.block_n, recorded_k(case))
        for kind in RECORDED_KINDS:
            a, b, c = recorded_inputs(case.name, case.loads, case.accumulator, kind, shape)
            outputs[f"{case.name}/{kind}"] = kept(device.run_case(case, a, b, c))
        described[case.name] = {"shape": shape}
        print(case.name, flush=True)
    return described


def record_libraries(outputs, predictor):
    """torch's products: outputs, and the schedule that reproduces them, where one of the known ones does."""
    described = {}
    for operation, (key, unit, function) in device.OPERATIONS.items():
        for shape in LIBRARY_SHAPES:
            name = f"{operation}/{'x'.join(map(str, shape))}"
            a, b = library_inputs(name, key, shape)
            result = function(device.to_device(a, key), device.to_device(b, key)).cpu().numpy()
            outputs[name] = kept(result)
            facts = find_unit(unit, key, "fp32")
            candidates = list(library_schedules(shape[2], facts))
            if operation == "fp32":
                # Fused multiply-adds in NumPy are slow, and every fp32 product so far was added in order.
                candidates = [one for one in candidates if getattr(one, "reduction", "sequential") == "sequential"]
            best = predictor.search(
                result[:KEPT_ROWS, :KEPT_COLUMNS],
                a[:KEPT_ROWS],
                b[:, :KEPT_COLUMNS],
                candidates,
                unit=facts,
                inputs=key,
                sample=KEPT_ROWS * KEPT_COLUMNS,
            )[0]
            described[name] = {
                "shape": shape,
                "inputs": key,
                "unit": unit,
                "share": best.share,
                "schedule": best.schedule.call(),
            }
            print(name, best, flush=True)
    return described


def write(folder, outputs, described):
    """Both files, with what tells whether inputs and versions are still these."""
    facts = {
        "versions": device.environment(),
        "kinds": RECORDED_KINDS,
        "kept": [KEPT_ROWS, KEPT_COLUMNS],
        # Of the inputs, so that a change of the code that makes them is not mistaken for a wrong model.
        "inputs": {name: zlib.crc32(b"".join(x.tobytes() for x in arrays)) for name, arrays in _witnesses()},
        **described,
    }
    archive = write_recordings(folder / INDEX.name, outputs, facts)
    print(
        f"{archive.name}: {archive.stat().st_size} bytes, {sum(x.size for x in outputs.values())} outputs", flush=True
    )


def _witnesses():
    case = all_cases()[0]
    for kind in RECORDED_KINDS:
        yield kind, recorded_inputs(case.name, case.loads, case.accumulator, kind, (64, 64, recorded_k(case)))


def main():
    folder = Path(sys.argv[1])
    device.require_hopper()
    started = time.monotonic()
    predictor = Predictor()
    outputs = {}
    described = {"dots": record_dots(outputs), "libraries": {}}
    write(folder, outputs, described)
    described["libraries"] = record_libraries(outputs, predictor)
    write(folder, outputs, described)
    predictor.close()
    print(f"{time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
