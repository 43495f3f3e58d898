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

DATA = Path(__file__).parent / "data"
INDEX = DATA / "matrix_units_h200.json"

# How a library may read an fp32 operand that it multiplies as tf32.
TF32_READINGS = {
    "ties to even": lambda words: words + np.uint32(0xFFF) + ((words >> np.uint32(13)) & np.uint32(1)),
    "ties away": lambda words: words + np.uint32(0x1000),
    "cut": lambda words: words,
}
RECORDED_KINDS = ("uniform", "wide", "cancelling", "tiny", "special")
LIBRARY_SHAPES = ((256, 256, 1024), (512, 256, 4096), (1024, 1024, 2048))
# Of each product the upper left corner is kept; it depends on these rows and columns only.
KEPT_ROWS, KEPT_COLUMNS = 32, 16


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


def tf32(x, reading="cut"):
    """fp32 numbers as tf32 numbers, read in one of the ways of TF32_READINGS; infinities and NaN are only cut."""
    words = np.ascontiguousarray(x, np.float32).view(np.uint32)
    finite = words & np.uint32(0x7F800000) != np.uint32(0x7F800000)
    read = np.where(finite, TF32_READINGS[reading](words), words) & np.uint32(0xFFFFE000)
    return read.view(np.float32).astype(np.float64)


def sampled_lines(shape, count=20):
    """Rows and columns, spread over a product, whose outputs are looked at."""
    return tuple(np.arange(0, size, max(1, size // count))[:count] for size in shape[:2])


def sampled_inputs(operation, key, shape, kind):
    """The rows of a (20, K) and the columns of b (K, 20) that give the sampled outputs of a library's product."""
    rng = PortableGenerator(zlib.crc32(f"{operation}/{'x'.join(map(str, shape))}/{kind}".encode()))
    rows, columns = sampled_lines(shape)
    return operands(rng, (key, key), (rows.size, columns.size, shape[2]), kind)


def read_index():
    """The description of the recording: versions, cases, checksum of the outputs."""
    return json.loads(INDEX.read_text())


def read_outputs(index):
    """The recorded bits by "case/kind".

    Raises:
        FileNotFoundError: If the file that the index promises is missing.
        ValueError: If it is not the file that was recorded.
    """
    path = DATA / index["outputs"]
    if not path.exists():
        raise FileNotFoundError(
            f"{INDEX.name} promises {path.name}, which is missing beside it; restore it from the repository"
        )
    if hashlib.sha256(path.read_bytes()).hexdigest() != index["sha256"]:
        raise ValueError(f"{path.name} is not the file that {INDEX.name} describes: its checksum differs")
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}
