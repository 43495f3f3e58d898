"""Make test data of the library products that the GPU tests sampled.

Reads `matrix_units_libraries.json` and `matrix_units_library_samples.npz` from the folders given (what the environment
variable OUT named when `test_matrix_units_gpu.py -k library` ran there, in one run or in several), and writes
`matrix_units_library_h200.npz` and `.json` to the tests' data. Needs no GPU.

    python bench/record_library_products.py VERSIONS.json FOLDER...

VERSIONS.json is an index whose "versions" describe the machine, such as that of bench/record_matrix_units.py.
"""

import json
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "packages" / "numfmt" / "tests"))

from matrix_units_recordings import LIBRARY_INDEX, write_recordings  # noqa: E402


def chosen(entry):
    """Of the schedules that fit every kind of data, one of the kind that the kernels' names tell, the shortest."""
    split = any("splitk" in name.lower() for name in entry["kernel"])
    fitting = [call for call in entry["fitting"] if not split or call.startswith("split_k")]
    return min(fitting, key=len, default=None)


def main():
    versions, *folders = map(Path, sys.argv[1:])
    outputs, entries = {}, {}
    for folder in folders:
        entries |= json.loads((folder / "matrix_units_libraries.json").read_text())
        with np.load(folder / "matrix_units_library_samples.npz", allow_pickle=False) as archive:
            outputs |= {key: archive[key] for key in archive.files}
    facts = {
        "versions": json.loads(versions.read_text())["versions"],
        "products": {name: chosen(entry) for name, entry in entries.items() if "fitting" in entry},
    }
    write_recordings(LIBRARY_INDEX, outputs, facts)


if __name__ == "__main__":
    main()
