"""What is recorded on a GPU: launches with their inputs by seed, and the file that holds the outputs.

`bench/record_fpsan.py` runs the launches on a GPU and writes the file; `test_fpsan_recorded.py` runs them on a CPU. The
file is one array of bytes; its index (JSON) says which name, dtype and shape each stretch of it has.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fpsan_cases
import fpsan_gpu_kernels
import fpsan_hardware_kernels
import fpsan_kernels
import numpy as np

import numfmt
from fpsan_tools.algebra import float_type

DATA = Path(__file__).with_name("data")
NAME = "fpsan_h200"
KEPT = 256  # elements of each output

FORMATS = {"fp32": numfmt.FP32, "fp16": numfmt.FP16, "bf16": numfmt.BF16}
FORMATS |= {"fp8e4m3fn": numfmt.FP8_E4M3, "fp8e5m2": numfmt.FP8_E5M2}

Patterns = tuple[np.ndarray, str]  # bit patterns and their float type


@dataclass(frozen=True)
class Input:
    """An array by its shape, float type and kind of content.

    Kinds: "patterns" (every bit pattern), "wide" (normal numbers times powers of two from 2^-8 to 2^8, whose sums
    depend on their order), "narrow" (2^-3 to 2^3), "spread" (2^-60 to 2^60), "positive" (spread, without signs),
    "moderate" (2^-20 to 2^6, as exponentials take them).
    """

    shape: tuple[int, ...]
    dtype: str = "fp32"
    kind: str = "wide"

    def patterns(self, name: str) -> np.ndarray:
        """Bit patterns; equal names give equal ones."""
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        bits = float_type(self.dtype).bits
        unsigned = np.dtype(f"u{bits // 8}")
        if self.kind == "patterns":
            return rng.integers(0, (1 << bits) - 1, self.shape, unsigned, endpoint=True)
        low, high = {"wide": (-8, 8), "narrow": (-3, 3), "moderate": (-20, 6)}.get(self.kind, (-60, 60))
        values = np.ldexp(rng.standard_normal(self.shape), rng.integers(low, high, self.shape, endpoint=True))
        if self.kind == "positive":
            values = np.abs(values)
        if self.dtype == "fp64":
            return values.view(unsigned)
        fmt = FORMATS[self.dtype]
        return np.asarray(fmt.encode(fmt.round(values))).astype(unsigned)


@dataclass(frozen=True)
class Recording:
    """One launch: inputs, then an output of zeros, then scalars."""

    name: str
    domain: str
    kernel: Any = field(repr=False)
    grid: tuple[int, ...]
    inputs: tuple[Input, ...]
    shape: tuple[int, ...]
    dtype: str = "fp32"
    scalars: tuple[Any, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def slow(self) -> bool:
        """Whether it is left to the exhaustive run: layouts of 2 and 8 warps are like those of 1 and 4."""
        return dict(self.options).get("num_warps") in (2, 8)

    def arguments(self) -> list[Patterns]:
        """Patterns of inputs and output."""
        made = [(x.patterns(f"{self.name}/{place}"), x.dtype) for place, x in enumerate(self.inputs)]
        return [*made, (np.zeros(self.shape, float_type(self.dtype).unsigned), self.dtype)]


def kept(bits: np.ndarray) -> np.ndarray:
    """At most `KEPT` elements of an output, evenly spread over it, the last one among them."""
    flat = bits.reshape(-1)
    if len(flat) <= KEPT:
        return flat.copy()
    return flat[np.linspace(0, len(flat) - 1, KEPT).astype(np.int64)]


# ---------------------------------------------------------------------------------------------------------------------
# Payloads of whole kernels

MATMULS = [
    *(("fp32", "ieee", "fp32"), ("fp32", "tf32", "fp32"), ("fp64", "ieee", "fp64"), ("fp16", "tf32", "fp32")),
    *(("fp16", "tf32", "fp16"), ("bf16", "tf32", "fp32"), ("bf16", "tf32", "bf16"), ("fp8e4m3fn", "tf32", "fp32")),
    ("fp8e5m2", "tf32", "fp16"),
]


def _payloads() -> Iterator[Recording]:
    kernels = fpsan_gpu_kernels
    for operand, precision, result in MATMULS:
        m, n, k = 33, 17, 200
        inputs = (Input((m, k), operand, "patterns"), Input((k, n), operand, "patterns"))
        name = f"matmul-{operand}-{precision}-{result}"
        yield Recording(
            name, "payload", kernels.matmul, (2, 1), inputs, (m, n), result, (m, n, k, precision, 32, 32, 32)
        )
    for dtype in ("fp32", "fp16", "bf16"):
        for columns in (77, 256):
            block, shape = (("BLOCK", 1 << (columns - 1).bit_length()),), (5, columns)
            x, vector = Input(shape, dtype, "patterns"), Input((columns,), dtype, "patterns")
            name, grid = f"{dtype}-{columns}", (5,)
            yield Recording(f"softmax-{name}", "payload", kernels.softmax, grid, (x,), shape, dtype, (columns,), block)
            inputs, scalars = (x, vector, vector), (columns, 1e-5)
            name = f"layer-norm-{name}"
            yield Recording(name, "payload", kernels.layer_norm, grid, inputs, shape, dtype, scalars, block)
        for causal in (False, True):
            keys, depth = 101, 64
            x = Input((2, keys, depth), dtype, "patterns")
            name = f"attention-{dtype}{'-causal' * causal}"
            scalars = (keys, 0.125, causal, depth, 32, 32)
            yield Recording(name, "payload", kernels.attention, (4, 2), (x,) * 3, x.shape, dtype, scalars)
    x = Input((4096,), "fp32", "patterns")
    yield Recording(
        "uninstrumented", "payload", kernels.uninstrumented, (32,), (x, x), (4096,), options=(("BLOCK", 128),)
    )


# ---------------------------------------------------------------------------------------------------------------------
# Bits of ordinary launches


def _options(**options: Any) -> tuple[tuple[str, Any], ...]:
    return tuple(options.items())


def _hardware() -> Iterator[Recording]:
    kernels = fpsan_hardware_kernels
    make = functools.partial(Recording, domain="hardware")
    for fusion in (False, True):
        mark = "-fused" * fusion
        for warps in (1, 2, 4, 8):
            common = {"num_warps": warps, "enable_fp_fusion": fusion}
            for block in (32, 256, 2048):
                pair, options = (Input((block,)),) * 2, _options(B=block, **common)
                name = f"sum-of-products-{block}-w{warps}{mark}"
                yield make(name, kernel=kernels.sum_of_products, grid=(1,), inputs=pair, shape=(1,), options=options)
            for m, n in ((4, 4), (16, 64), (64, 16), (64, 64), (128, 128)):
                pair, options = (Input((m, n)),) * 2, _options(M=m, N=n, **common)
                name = f"sum-of-all-products-{m}x{n}-w{warps}{mark}"
                yield make(
                    name, kernel=kernels.sum_of_all_products, grid=(1,), inputs=pair, shape=(1,), options=options
                )
            for k in (777, 1536):
                pair, options = (Input((8, k)), Input((k, 8))), _options(BLOCK=256, **common)
                scalars = (8, 8, k, k, 1, 8, 1, 8, 1)
                name = f"strided-lanes-{k}-w{warps}{mark}"
                yield make(
                    name,
                    kernel=fpsan_kernels.strided_lanes,
                    grid=(8, 8),
                    inputs=pair,
                    shape=(8, 8),
                    scalars=scalars,
                    options=options,
                )
        name, options = f"loop-of-row-sums{mark}", _options(M=16, N=64, enable_fp_fusion=fusion)
        stack = (Input((5, 16, 64)),)
        yield make(
            name, kernel=kernels.loop_of_row_sums, grid=(1,), inputs=stack, shape=(16,), scalars=(5,), options=options
        )
    for warps in (1, 2, 4, 8):
        for block in (32, 128, 1024, 4096):
            for dtype in ("fp32", "fp16", "bf16", "fp64"):
                name, rows = f"sum-{dtype}-{block}-w{warps}", (Input((16, block), dtype),)
                options = _options(B=block, num_warps=warps)
                yield make(
                    name, kernel=kernels.sum_1d, grid=(16,), inputs=rows, shape=(16,), dtype=dtype, options=options
                )
            for reverse in (False, True):
                name, options = (
                    f"running-sum-{block}-w{warps}{'-reverse' * reverse}",
                    _options(B=block, REVERSE=reverse, num_warps=warps),
                )
                row = (Input((block,)),)
                yield make(name, kernel=kernels.cumulative, grid=(1,), inputs=row, shape=(block,), options=options)
        for m, n in ((8, 8), (16, 64), (64, 16), (128, 32)):
            for axis in (0, 1):
                options = _options(M=m, N=n, AXIS=axis, num_warps=warps)
                for dtype in ("fp32", "fp16", "bf16"):
                    name, tile = f"sum-{dtype}-{m}x{n}-axis{axis}-w{warps}", (Input((m, n), dtype),)
                    yield make(
                        name,
                        kernel=kernels.sum_2d,
                        grid=(1,),
                        inputs=tile,
                        shape=((n, m)[axis],),
                        dtype=dtype,
                        options=options,
                    )
                name, tile = f"running-sum-{m}x{n}-axis{axis}-w{warps}", (Input((m, n)),)
                yield make(name, kernel=kernels.cumulative_2d, grid=(1,), inputs=tile, shape=(m, n), options=options)
            name, options = f"whole-sum-{m}x{n}-w{warps}", _options(M=m, N=n, num_warps=warps)
            yield make(name, kernel=kernels.sum_all, grid=(1,), inputs=(Input((m, n)),), shape=(1,), options=options)
        for columns in (77, 1000):
            rows = Input((16, columns), "fp32", "narrow")
            options = _options(BLOCK=1 << (columns - 1).bit_length(), num_warps=warps)
            yield make(
                f"softmax-{columns}-w{warps}",
                kernel=fpsan_gpu_kernels.softmax,
                grid=(16,),
                inputs=(rows,),
                shape=rows.shape,
                scalars=(columns,),
                options=options,
            )
    for function in ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sigmoid", "third"):
        kind = "positive" if function in ("log", "log2", "sqrt", "rsqrt") else "moderate"
        x, options = Input((4096,), "fp32", kind), _options(B=4096, NAME=function)
        yield make(function, kernel=kernels.function, grid=(1,), inputs=(x,), shape=(4096,), options=options)
    x = Input((4096,), "fp32", "spread")
    yield make("quotient", kernel=kernels.quotient, grid=(1,), inputs=(x, x), shape=(4096,), options=_options(B=4096))
    for dtype, precision, imprecise in (
        *(("fp16", "ieee", None), ("bf16", "ieee", None), ("fp32", "tf32", None), ("fp32", "tf32x3", None)),
        *(("fp32", "bf16x3", None), ("fp32", "bf16x6", None), ("fp32", "ieee", None), ("fp8e4m3fn", "ieee", None)),
        *(("fp8e4m3fn", "ieee", 32), ("fp8e5m2", "ieee", None)),
    ):
        for rows in (32, 64, 128):
            depth, columns = 64, 32
            k = 4 * depth
            inputs = (Input((rows, k), dtype, "narrow"), Input((k, columns), dtype, "narrow"))
            tiles = {"BM": rows, "BN": columns, "BK": depth, "FOLD": True}
            options = _options(PRECISION=precision, IMPRECISE=imprecise, **tiles)
            promoted = "" if imprecise is None else f"-promoted{imprecise}"
            yield make(
                f"product-{dtype}-{precision}{promoted}-{rows}",
                kernel=kernels.tiled,
                grid=(1,),
                inputs=inputs,
                shape=(rows, columns),
                scalars=(k,),
                options=options,
            )


def recordings() -> list[Recording]:
    """Every recorded launch."""
    return [*_payloads(), *_hardware()]


# ---------------------------------------------------------------------------------------------------------------------
# Every operation and type, in payloads


def case_programs(group: fpsan_cases.Group) -> int:
    """Programs of a recorded launch of a group: 256 elements of elementwise ones."""
    return 8 if all(len(tile.shape) == 1 for tile in group.operands) else 1


def case_operands(group: fpsan_cases.Group) -> list[np.ndarray]:
    """Operands of a recorded launch of a group; they depend on the operands' types only, not on the Triton release."""
    name = "/".join(f"{tile.dtype}{tile.shape}" for tile in group.operands)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return fpsan_cases.patterns(group.operands, case_programs(group), rng)


# ---------------------------------------------------------------------------------------------------------------------
# The file


def write(folder: Path, outputs: dict[str, np.ndarray], facts: dict[str, Any]) -> None:
    """Write outputs (bit patterns by name) and their index."""
    whole = np.concatenate([np.ascontiguousarray(bits).reshape(-1).view(np.uint8) for bits in outputs.values()])
    np.savez_compressed(folder / f"{NAME}.npz", outputs=whole)
    index = {
        **facts,
        "sha256": hashlib.sha256(whole.tobytes()).hexdigest(),
        "outputs": {name: " ".join(map(str, (bits.dtype, *bits.shape))) for name, bits in outputs.items()},
    }
    text = json.dumps(index, indent=1)
    (folder / f"{NAME}.json").write_text(text + "\n", encoding="utf-8")


def read(folder: Path = DATA) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Outputs by name, and the index.

    Raises:
        ValueError: if the bytes are not those that the index speaks of.
    """
    index = json.loads((folder / f"{NAME}.json").read_text(encoding="utf-8"))
    with np.load(folder / f"{NAME}.npz", allow_pickle=False) as file:
        whole = file["outputs"]
    if hashlib.sha256(whole.tobytes()).hexdigest() != index["sha256"]:
        raise ValueError(f"{folder / NAME}.npz is not the file that its index describes")
    outputs, start = {}, 0
    for name, text in index["outputs"].items():
        dtype, *lengths = text.split()
        shape = tuple(map(int, lengths))
        size = math.prod(shape) * np.dtype(dtype).itemsize
        outputs[name] = whole[start : start + size].view(dtype).reshape(shape)
        start += size
    return outputs, index
