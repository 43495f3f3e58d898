"""Every kernel in several configurations, with the prediction of its bits: the same list is run on a CPU and a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tritongemm_cases import bits, operands, typed

from tritongemm import dispatch, modes
from tritongemm.configurations import Config
from tritongemm.kernels.block_scaled import predict_block_scaled
from tritongemm.kernels.split_k import predict_split_k
from tritongemm.kernels.stream_k import predict_stream_k

Make = Callable[[np.ndarray, str], Any]
"""Makes a matrix of bit patterns and a type's name: `tritongemm_cases.typed` or `tensor`."""


@dataclass(frozen=True)
class Way:
    """One way to compute a product.

    Attributes:
        name: For the test's id.
        mode: Precision mode.
        dtype: Operand type.
        shape: (M, K, N).
        run: Computes the bits of an fp32 (fp64) result on a device: `run(make, kind)`.
        predict: Predicts them.
    """

    name: str
    mode: str
    dtype: str
    shape: tuple[int, int, int]
    run: Callable[[Make, str], np.ndarray]
    predict: Callable[[str], np.ndarray]


def result_of(dtype: str) -> str:
    return "fp64" if dtype == "fp64" else "fp32"


def _matrices(make: Make, kind: str, shape, dtype: str, columns: bool = False):
    a, b = operands(kind, shape, dtype)
    if columns:  # B with contiguous k
        return make(a, dtype), _by_columns(make, b, dtype)
    return make(a, dtype), make(b, dtype)


def _by_columns(make: Make, b: np.ndarray, dtype: str):
    if make is typed:
        return typed(np.asfortranarray(b), dtype)
    return make(np.ascontiguousarray(b.T), dtype).T


def plain(mode: str, dtype: str, config: Config, shape, *, columns: bool = False) -> Way:
    """A product in a configuration of a kernel whose bits are the mode's."""

    def run(make: Make, kind: str) -> np.ndarray:
        x, y = _matrices(make, kind, shape, dtype, columns)
        return bits(dispatch.product(x, y, mode=mode, out_dtype=result_of(dtype), config=config))

    def predict(kind: str) -> np.ndarray:
        x, y = _matrices(typed, kind, shape, dtype)
        return bits(modes.get(mode).predict(x, y))

    tile = f"{config.block_m}x{config.block_n}x{config.block_k}-{config.warps}w{config.stages}s"
    return Way(f"{config.kernel}-{mode}-{dtype}-{tile}{'-nt' if columns else ''}", mode, dtype, shape, run, predict)


def cut(mode: str, dtype: str, config: Config, shape) -> Way:
    """A product whose sums are cut, by `split_k` or `stream_k`."""
    predictors = {"split_k": predict_split_k, "stream_k": predict_stream_k}

    def run(make: Make, kind: str) -> np.ndarray:
        x, y = _matrices(make, kind, shape, dtype)
        made = dispatch.product(x, y, mode=mode, out_dtype=result_of(dtype), config=config, invariant=False)
        return bits(made)

    def predict(kind: str) -> np.ndarray:
        x, y = _matrices(typed, kind, shape, dtype)
        return bits(predictors[config.kernel](modes.get(mode), x, y, config))

    return Way(f"{config.kernel}-{mode}-{dtype}-{config.splits}", mode, dtype, shape, run, predict)


def block_scaled(dtype: str, shape) -> Way:
    """A product with 1 x 128 and 128 x 128 scales."""
    M, K, N = shape
    rng = np.random.default_rng(5)
    blocks = -(-K // 128)
    scale_a = rng.uniform(0.25, 4, (M, blocks)).astype(np.float32)
    scale_b = rng.uniform(0.25, 4, (blocks, -(-N // 128))).astype(np.float32)
    config = Config(kernel="block_scaled", block_m=64, block_n=64, block_k=128)

    def run(make: Make, kind: str) -> np.ndarray:
        x, y = _matrices(make, kind, shape, dtype)
        scales = (make(scale.view(np.uint32), "fp32") for scale in (scale_a, scale_b))
        return bits(dispatch.scaled_product(x, y, *scales, out_dtype="fp32", config=config))

    def predict(kind: str) -> np.ndarray:
        return bits(predict_block_scaled(*_matrices(typed, kind, shape, dtype), scale_a, scale_b))

    return Way(f"block_scaled-{dtype}", "ieee", dtype, shape, run, predict)


def _config(kernel: str, m: int, n: int, k: int, warps: int = 4, stages: int = 3, **more: int) -> Config:
    return Config(kernel=kernel, block_m=m, block_n=n, block_k=k, warps=warps, stages=stages, **more)


ODD = (70, 300, 67)
EVEN = (72, 304, 48)

TILES = [
    *[plain("ieee", "fp32", _config("blocked", *tile), ODD) for tile in ((16, 64, 16), (64, 32, 32, 8), (128, 64, 16))],
    *[
        plain("ieee", "bf16", _config("blocked", *tile), ODD)
        for tile in ((16, 32, 16), (64, 64, 64), (128, 128, 64, 8))
    ],
    *[plain("tf32", "fp32", _config("blocked", *tile), ODD) for tile in ((32, 32, 16), (64, 128, 32, 8, 2))],
    plain("bf16x6", "fp32", _config("blocked", 32, 32, 32, 4), ODD),
    plain("tf32x3", "fp32", _config("blocked", 128, 64, 32, 8), ODD),
    *[plain("promote64", "fp8e4m3fn", _config("blocked", *tile), ODD) for tile in ((64, 64, 128), (128, 32, 128, 8))],
    plain("fast", "fp8e5m2", _config("blocked", 64, 64, 32), ODD),
]
"""Tile shapes, warps and stages, none of which may change a bit."""

KERNELS = [
    *[plain(mode, "fp32", _config("persistent", 64, 64, 32), EVEN) for mode in ("ieee", "tf32", "tf32_rounded")],
    plain("tf32_even", "fp32", _config("persistent", 64, 64, 32), EVEN),
    *[plain(mode, "fp32", _config("persistent", 64, 64, 32), EVEN) for mode in ("tf32x3", "bf16x3", "bf16x6")],
    *[plain("ieee", d, _config("persistent", 128, 64, 64), EVEN, columns=c) for d in ("fp16", "bf16") for c in (0, 1)],
    *[plain(m, "fp8e4m3fn", _config("persistent", 64, 64, 128), EVEN) for m in ("ieee", "fast", "promote32")],
    *[cut("ieee", d, _config("split_k", 64, 32, 32, splits=4), ODD) for d in ("fp32", "fp16", "bf16")],
    cut("ieee", "fp64", _config("split_k", 32, 32, 32, splits=4), (20, 150, 18)),
    cut("ieee", "fp8e4m3fn", _config("split_k", 64, 64, 128, splits=2), ODD),
    cut("bf16x6", "fp32", _config("split_k", 64, 64, 32, splits=3), ODD),
    cut("ieee", "fp32", _config("split_k", 16, 64, 32, splits=100), (3, 77, 40)),
    *[cut("ieee", d, _config("stream_k", 32, 32, 32, splits=7), ODD) for d in ("fp32", "bf16")],
    cut("ieee", "fp32", _config("stream_k", 64, 64, 32, splits=132), ODD),
    block_scaled("fp8e4m3fn", (70, 520, 150)),
    block_scaled("fp8e5m2", (3, 130, 40)),
]
"""Kernels other than `blocked`."""
