"""What a GPU was seen to do: inputs that can be made again anywhere, and the file of results that lectures quote.

`bench/record_lectures.py` in the repository runs these inputs on a GPU and writes its results to the file. Lectures
recompute them and compare: a recording is evidence about hardware, never a figure that could have been computed.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from numfmt import BF16, FP8_E4M3, FP16, FP32, FloatFormat
from numfmt.matrix_units import Schedule, tl_dot

__all__ = [
    "DEPTH",
    "DOTS",
    "KEPT",
    "PROBES",
    "SIGNS",
    "Dot",
    "Probe",
    "operands",
    "probe_operands",
    "results",
    "speed",
    "words",
]

Array = NDArray[np.float64]

FORMATS: Mapping[str, FloatFormat] = {"fp32": FP32, "fp16": FP16, "bf16": BF16, "e4m3": FP8_E4M3}

DEPTH = 2048
"""Products per output of the recorded dot products."""

SIGNS = ("both", "positive")
"""Their inputs: uniform between -1 and 1, and between 0 and 1."""

KEPT = 8
"""Of every product the upper left corner of this size is kept."""

_ROWS = 64


@dataclass(frozen=True)
class Dot:
    """A way to write a matrix product in Triton.

    Attributes:
        name: its key among the results.
        inputs: format of the operands.
        schedule: what `numfmt.matrix_units.matmul` predicts it with; the kernel's constants come from it.
    """

    name: str
    inputs: str
    schedule: Schedule


DOTS = (
    Dot("fp32 ieee", "fp32", tl_dot(32, input_precision="ieee")),
    Dot("fp32 tf32", "fp32", tl_dot(32, input_precision="tf32")),
    Dot("fp32 tf32x3", "fp32", tl_dot(32, input_precision="tf32x3")),
    Dot("fp32 bf16x3", "fp32", tl_dot(32, input_precision="bf16x3")),
    Dot("fp32 bf16x6", "fp32", tl_dot(32, input_precision="bf16x6")),
    Dot("fp16", "fp16", tl_dot(64)),
    Dot("bf16", "bf16", tl_dot(64)),
    Dot("e4m3, acc = dot(a, b, acc)", "e4m3", tl_dot(128)),
    Dot("e4m3, acc += dot(a, b)", "e4m3", tl_dot(128, "+=")),
    Dot("e4m3, max_num_imprecise_acc=32", "e4m3", tl_dot(128, max_num_imprecise_acc=32)),
    Dot("e4m3, BLOCK_M=32", "e4m3", tl_dot(128, block_m=32)),
)
"""The recorded dot products: every input precision, the 16-bit formats, and four ways to write FP8."""


def operands(dot: Dot, signs: str) -> tuple[Array, Array]:
    """The (64, K) and (K, 64) operands of a recorded dot product.

    They come from the raw words of PCG64, whose stream NumPy guarantees; distributions may change between versions.
    """
    words = np.random.PCG64(zlib.crc32(f"{dot.name}/{signs}".encode()))
    low = -1.0 if signs == "both" else 0.0

    def uniform(shape: tuple[int, int]) -> Array:
        fractions = (words.random_raw(shape[0] * shape[1]) >> np.uint64(11)) * 2.0**-53
        drawn: Array = FORMATS[dot.inputs].round(low + (1 - low) * fractions).reshape(shape)
        return drawn

    return uniform((_ROWS, DEPTH)), uniform((DEPTH, _ROWS))


@dataclass(frozen=True)
class Probe:
    """One step of a matrix unit on numbers that were chosen to show a single rule.

    Attributes:
        key: its name in the catalogues.
        c: the accumulator that goes in.
        factors: pairs of FP16 numbers, at most 16; their products are what is added.
        large: what the large terms add up to; the other terms are those whose fate is looked at.
    """

    key: str
    c: float
    factors: Sequence[tuple[float, float]]
    large: float

    @property
    def small(self) -> float:
        """The exact sum of the small terms."""
        return math.fsum([self.c, *(a * b for a, b in self.factors), -self.large])


PROBES = (
    Probe("fused", 1.0, [(2.0**-12, 2.0**-12)] * 8, 1.0),
    Probe("toward_zero", 1.0, [(3 * 2.0**-12, 2.0**-13)], 1.0),
    Probe("symmetric", -1.0, [(-3 * 2.0**-12, 2.0**-13)], -1.0),
    Probe("cut", 1.0, [(2.0**-13, 2.0**-13)] * 16, 1.0),
    Probe("cancelling", 0.0, [(2.0**12, 2.0**12), (1.0, 1.0), (-(2.0**12), 2.0**12)], 0.0),
    Probe("far", 0.0, [(2.0**14, 2.0**13), (1.0, 1.0), (-(2.0**14), 2.0**13)], 0.0),
    Probe("unnormalised", 0.0, [(1.5, 1.5), *[(2.0**-12, 2.0**-13)] * 8], 2.25),
)
"""The recorded single steps."""


def probe_operands() -> tuple[Array, Array, Array]:
    """All probes as one (64, 16) by (16, 64) product with a (64, 64) accumulator: probe i is the output (i, i)."""
    a, b, c = np.zeros((_ROWS, 16)), np.zeros((16, _ROWS)), np.zeros((_ROWS, _ROWS))
    for i, probe in enumerate(PROBES):
        c[i, i] = probe.c
        for k, (left, right) in enumerate(probe.factors):
            a[i, k], b[k, i] = left, right
    return a, b, c


@cache
def _read(name: str) -> Mapping[str, Any]:
    source = files("numfmt_lectures").joinpath("data", name)
    found: Mapping[str, Any] = json.loads(source.read_text(encoding="utf-8"))
    return found


def words(text: str) -> NDArray[np.float32]:
    """The FP32 numbers whose bits a string of hexadecimal digits holds, eight digits for each."""
    codes = [int(text[i : i + 8], 16) for i in range(0, len(text), 8)]
    return np.array(codes, np.uint32).view(np.float32)


def results() -> Mapping[str, Any]:
    """The recorded bits, with the versions they were recorded with."""
    return _read("nvidia-h200-lectures.json")


def speed() -> Mapping[str, Any]:
    """Recorded speeds of FP32 products made from parts, with how they were measured."""
    return _read("nvidia-h200-speed.json")
