"""Recorded outputs of a GPU: how their inputs are made again, and where they lie.

Inputs come from the raw words of a PCG64 generator, whose stream NumPy guarantees, not from distributions, whose
algorithms may change between versions.
"""

import hashlib
import json
import zlib
from pathlib import Path

import numpy as np
from matrix_units_data import accumulators, operands

from numfmt import TF32

DATA = Path(__file__).parent / "data"
INDEX = DATA / "matrix_units_h200.json"
LIBRARY_INDEX = DATA / "matrix_units_library_h200.json"

RECORDED_KINDS = ("uniform", "wide", "cancelling", "tiny", "special")
LIBRARY_SHAPES = ((256, 256, 1024), (512, 256, 4096), (1024, 1024, 2048))
# Of each product the upper left corner is kept; it depends on these rows and columns only.
KEPT_ROWS, KEPT_COLUMNS = 32, 16


# How a library may read an fp32 operand that it multiplies as tf32.
TF32_READINGS = ("nearest_even", "nearest_away", "toward_zero")
# fp32 numbers around ties of tf32: normal, subnormal, at both ends of the range, infinite, NaN.
TF32_PROBES = np.array(
    [0x3F800000 + low for low in (0x0FFF, 0x1000, 0x1001, 0x2000, 0x2FFF, 0x3000, 0x3001, 0x7FF000)]
    + [0xBF801000, 0xBF803000, 0x3FFFF000, 0x3FFFFFFF]
    + [0x00000001, 0x00000FFF, 0x00001000, 0x00001001, 0x00003000, 0x007FEFFF, 0x007FF000, 0x007FFFFF, 0x00801000]
    + [0x7F7FE000, 0x7F7FEFFF, 0x7F7FF000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7F800001, 0x7FC00000]
    + [0x7FFFFFFF, 0xFFFFFFFF],
    np.uint32,
)
# Kinds of data of the sampled library products; "ties" tells readings apart.
LIBRARY_KINDS = ("uniform", "cancelling", "wide")
TIES = {"tf32": ("ties",)}


def write_recordings(index, outputs, facts):
    """Outputs and their index, each under a temporary name first; the checksum ties them together.

    Args:
        index: Path of the index; the archive lies beside it.
        outputs: Arrays by name.
        facts: What else the index says.

    Returns:
        The archive's path.
    """
    archive = index.with_suffix(".npz")
    temporary = archive.with_name(archive.name + ".part")
    with temporary.open("wb") as file:
        np.savez_compressed(file, **outputs)
    temporary.replace(archive)
    tied = {"outputs": archive.name, "sha256": hashlib.sha256(archive.read_bytes()).hexdigest()}
    temporary = index.with_name(index.name + ".part")
    temporary.write_text(json.dumps(tied | facts, indent=1) + "\n")
    temporary.replace(index)
    return archive


class PortableGenerator:
    """The three methods of a NumPy generator that test data need, from raw words."""

    def __init__(self, seed):
        self.words = np.random.PCG64(seed)

    def random(self, size=()):
        """Multiples of 2**-53 in [0, 1)."""
        count = int(np.prod(size))
        return ((self.words.random_raw(count) >> np.uint64(11)) * 2.0**-53).reshape(size)

    def uniform(self, low, high, size=()):
        return low + (high - low) * self.random(size)

    def integers(self, low, high, size=(), dtype=np.int64):
        return (low + np.floor(self.random(size) * (high - low))).astype(dtype)


def recorded_inputs(name, loads, accumulator, kind, shape):
    """a (M, K), b (K, N), c (M, N) of a recorded case, from its name and the kind of data.

    Rows and columns beyond the kept ones are there too, since kernels compute whole tiles.
    """
    rng = PortableGenerator(zlib.crc32(f"{name}/{kind}".encode()))
    a, b = operands(rng, loads, shape, kind)
    return a, b, accumulators(rng, accumulator, shape[:2], kind)


def recorded_k(case):
    """K of a recorded case."""
    return 232 if case.ragged else 256


def library_inputs(name, key, shape):
    """a (M, K) and b (K, N) of a library's product: uniform values, tf32 numbers for tf32 (torch rounds the others)."""
    rng = PortableGenerator(zlib.crc32(name.encode()))
    a, b = operands(rng, (key, key), shape, "uniform")
    return (tf32(a), tf32(b)) if key == "tf32" else (a, b)


def tf32(x, rounding="toward_zero"):
    """fp32 numbers as tf32 numbers."""
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return TF32.round(np.asarray(x, np.float64), rounding)


def sampled_lines(shape, count=20):
    """Rows and columns, spread over a product, whose outputs are looked at."""
    return tuple(np.arange(0, size, max(1, size // count))[:count] for size in shape[:2])


def sampled_inputs(operation, key, shape, kind):
    """The rows of a (20, K) and the columns of b (K, 20) that give the sampled outputs of a library's product."""
    rng = PortableGenerator(zlib.crc32(f"{operation}/{'x'.join(map(str, shape))}/{kind}".encode()))
    rows, columns = sampled_lines(shape)
    return operands(rng, (key, key), (rows.size, columns.size, shape[2]), kind)


def as_multiplied(operation, *operands):
    """Operands as a library multiplies them: those of tf32 products are rounded to nearest, ties to even."""
    return tuple(tf32(x, "nearest_even") for x in operands) if operation == "tf32" else operands


def read_index(path=INDEX):
    """The description of a recording: versions, cases, checksum of the outputs."""
    return json.loads(path.read_text())


def read_outputs(index):
    """The recorded bits by "case/kind".

    Raises:
        FileNotFoundError: If the file that the index promises is missing.
        ValueError: If it is not the file that was recorded.
    """
    path = DATA / index["outputs"]
    if not path.exists():
        raise FileNotFoundError(
            f"{path.name} is missing, which an index in {DATA.name}/ promises; restore it from the repository"
        )
    if hashlib.sha256(path.read_bytes()).hexdigest() != index["sha256"]:
        raise ValueError(f"{path.name} is not the file that its index describes: its checksum differs")
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}
