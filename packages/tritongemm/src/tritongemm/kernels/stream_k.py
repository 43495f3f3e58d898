"""All of a product's work in one line, cut into equal shares: no wave of tiles is left half empty.

**Summation order.** The steps over k of all tiles, tile after tile in row-major order, are dealt out to the programs in
equal runs, the first ones getting one step more where it does not come out even. A tile whose steps all fall to one
program is summed as in `blocked`. Another is cut where a share ends; its parts are summed from zero, kept in the
accumulator's type and added in ascending k by a second kernel, in the same order in every run: no atomics, no waiting.
numfmt calls this order `stream_k(BLOCK_M, BLOCK_N, BLOCK_K, WORKERS, inner)`.

**Bound.** A tile is cut into at most ceil(steps / share) + 1 parts: the mode's bound, and one more rounding for every
further part (`promise_stream_k`).

**What the numbers mean.** Where a sum is cut depends on M, N and the number of programs, so a row's bits depend on its
neighbours: the kernel is not invariant and is taken by name or with `invariant=False` only.

Reference: M. Osama et al., "Stream-K: Work-centric parallel decomposition for dense matrix-matrix multiplication on the
GPU", PPoPP 2023.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from tritongemm.configurations import Config
from tritongemm.elements import element_of, empty_like, values_of
from tritongemm.kernels.blocked import blocked_config, takes_blocked
from tritongemm.kernels.epilogue import deliver
from tritongemm.kernels.mainloop import sum_of_products
from tritongemm.kernels.problems import LARGEST_INT32, Operands, launch
from tritongemm.kernels.split_k import added_parts, promise_in_parts
from tritongemm.kernels.tiles import extent, tile_of, tiles_in
from tritongemm.modes import Mode
from tritongemm.promises import Promise

Array = np.ndarray[Any, np.dtype[Any]]


@triton.jit
def share_of(worker, work, WORKERS: tl.constexpr):
    """Where the share of a worker begins; the one after it begins where it ends."""
    return worker * (work // WORKERS) + min(worker, work % WORKERS)


@triton.jit
def worker_of(step, work, WORKERS: tl.constexpr):
    """The worker that a step falls to."""
    share = work // WORKERS
    longer = (work % WORKERS) * (share + 1)
    if step < longer:
        worker = step // (share + 1)
    else:
        worker = work % WORKERS + (step - longer) // max(share, 1)
    return worker


@triton.jit
def stream_k_kernel(
    a_ptr,
    b_ptr,
    M,
    N,
    K,
    stride_ab,
    stride_am,
    stride_ak,
    stride_bb,
    stride_bk,
    stride_bn,
    out_ptr,
    c_ptr,
    bias_ptr,
    scale_a_ptr,
    scale_b_ptr,
    stride_ob,
    stride_om,
    stride_on,
    stride_cb,
    stride_cm,
    stride_cn,
    stride_bias,
    stride_sa,
    stride_sb,
    alpha,
    beta,
    parts_ptr,
    batches,
    WORKERS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
    IMPRECISE: tl.constexpr,
    PREPARE: tl.constexpr,
    PARTS: tl.constexpr,
    SCALED: tl.constexpr,
    ACTIVATION: tl.constexpr,
    WIDE: tl.constexpr,
):
    """One worker's share of all steps. A part of a tile goes to parts[worker, 0 if it begins the tile, else 1]."""
    tiles = tiles_in(M, N, BLOCK_M, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    work = batches * tiles * steps
    worker = tl.program_id(0)
    at = share_of(worker, work, WORKERS)
    end = share_of(worker + 1, work, WORKERS)
    while at < end:
        tile = at // steps
        first = at % steps
        count = min(steps - first, end - at)
        batch = (tile // tiles).to(tl.int64)
        tile_m, tile_n = tile_of(tile % tiles, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        m, live_m = extent(tile_m, M, BLOCK_M, WIDE)
        n, live_n = extent(tile_n, N, BLOCK_N, WIDE)
        total = sum_of_products(
            a_ptr + batch * stride_ab, b_ptr + batch * stride_bb, m, n, live_m, live_n,
            first * BLOCK_K, min((first + count) * BLOCK_K, K),
            stride_am, stride_ak, stride_bk, stride_bn,
            ACCUMULATOR, BLOCK_K, INPUT_PRECISION, IMPRECISE, PREPARE, PARTS, WIDE,
        )  # fmt: skip
        if count == steps:
            deliver(
                total, batch, m, n, live_m, live_n, out_ptr, c_ptr, bias_ptr, scale_a_ptr, scale_b_ptr,
                stride_ob, stride_om, stride_on, stride_cb, stride_cm, stride_cn, stride_bias, stride_sa, stride_sb,
                alpha, beta, SCALED, ACTIVATION,
            )  # fmt: skip
        else:
            slot = 2 * worker + (first > 0).to(tl.int32)
            inside = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
            tl.store(parts_ptr + slot.to(tl.int64) * BLOCK_M * BLOCK_N + inside, total)
        at += count


@triton.jit
def joining_kernel(
    M,
    N,
    K,
    out_ptr,
    c_ptr,
    bias_ptr,
    scale_a_ptr,
    scale_b_ptr,
    stride_ob,
    stride_om,
    stride_on,
    stride_cb,
    stride_cm,
    stride_cn,
    stride_bias,
    stride_sa,
    stride_sb,
    alpha,
    beta,
    parts_ptr,
    batches,
    WORKERS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    SCALED: tl.constexpr,
    ACTIVATION: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Adds the parts of a tile that was cut, in ascending k, and finishes it; one program per tile."""
    tiles = tiles_in(M, N, BLOCK_M, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    work = batches * tiles * steps
    tile = tl.program_id(0)
    first = worker_of(tile * steps, work, WORKERS)
    last = worker_of(tile * steps + steps - 1, work, WORKERS)
    if first < last:
        inside = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
        # Whoever begins a tile kept its part in slot 0, whoever goes on with one in slot 1.
        total = tl.load(parts_ptr + (2 * first).to(tl.int64) * BLOCK_M * BLOCK_N + inside)
        at = parts_ptr + (2 * first + 1).to(tl.int64) * BLOCK_M * BLOCK_N + inside
        for _ in range(first, last):
            at += 2 * BLOCK_M * BLOCK_N
            total += tl.load(at)
        batch = (tile // tiles).to(tl.int64)
        tile_m, tile_n = tile_of(tile % tiles, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        m, live_m = extent(tile_m, M, BLOCK_M, WIDE)
        n, live_n = extent(tile_n, N, BLOCK_N, WIDE)
        deliver(
            total, batch, m, n, live_m, live_n, out_ptr, c_ptr, bias_ptr, scale_a_ptr, scale_b_ptr,
            stride_ob, stride_om, stride_on, stride_cb, stride_cm, stride_cn, stride_bias, stride_sa, stride_sb,
            alpha, beta, SCALED, ACTIVATION,
        )  # fmt: skip


def stream_k(operands: Operands, config: Config) -> None:
    """A product by `stream_k_kernel` and `joining_kernel`; writes to its result.

    Args:
        operands: The product; K is not 0.
        config: Block sizes, warps, stages; `splits` is the number of programs that share the work.
    """
    if operands.empty:
        return
    workers, tiles = config.splits, tiles_of(operands, config)
    parts = empty_like(operands.out, (workers, 2, config.block_m, config.block_n), operands.accumulator)
    constants = {**operands.constants(config), **config.blocks, "WORKERS": workers, "GROUP_M": 1}
    ending = (*operands.finishing_arguments(), parts, operands.batch)
    launch(stream_k_kernel, (workers,), operands, *operands.arguments(), *ending, **constants)
    for name in ("ACCUMULATOR", "INPUT_PRECISION", "IMPRECISE", "PREPARE", "PARTS"):
        del constants[name]
    launch(joining_kernel, (tiles,), operands, operands.M, operands.N, operands.K, *ending, **constants)


def tiles_of(operands: Operands, config: Config) -> int:
    """Number of tiles of all products."""
    return operands.batch * -(-operands.M // config.block_m) * -(-operands.N // config.block_n)


def takes_stream_k(operands: Operands, config: Config | None) -> bool:
    """Whether `stream_k` computes a product: its steps must be counted in 32 bits."""
    if not takes_blocked(operands, config):
        return False
    chosen = stream_k_config(operands) if config is None else config
    steps = tiles_of(operands, chosen) * -(-operands.K // chosen.block_k)
    return 0 < steps <= LARGEST_INT32


def stream_k_config(operands: Operands) -> Config:
    """A configuration with one program for each multiprocessor of a large GPU."""
    return blocked_config(operands).changed(kernel="stream_k", splits=_WORKERS)


_WORKERS = 132


def stream_k_bits(operands: Operands, config: Config) -> str:
    """The class of equal bits: the mode's own if no tile is cut."""
    tiles, steps = tiles_of(operands, config), -(-operands.K // config.block_k)
    if config.splits == 1 or (tiles % config.splits == 0):
        return ""
    return f"stream_k, {tiles} tiles of {steps} steps over {config.splits} programs"


def promise_stream_k(mode: Mode, shape: tuple[int, int, int], a_dtype: str, config: Config) -> Promise:
    """Bounds of the accumulator's error of `stream_k` in a configuration.

    Args:
        mode: The precision mode.
        shape: (M, K, N).
        a_dtype: Type of the operands.
        config: The configuration.
    """
    M, K, N = shape
    steps = -(-K // config.block_k)
    share = max(1, -(-M // config.block_m) * -(-N // config.block_n) * steps // config.splits)
    # A share that ends inside of a tile begins a part; a whole share fits between two ends.
    parts = min(steps, -(-steps // share) + 1) if config.splits > 1 else 1
    return promise_in_parts(mode, K, parts, a_dtype)


def predict_stream_k(mode: Mode, a: Any, b: Any, config: Config) -> Array:
    """The accumulator's bits of `stream_k` in a configuration.

    Args:
        mode: The precision mode.
        a: (M, K) matrix.
        b: (K, N) matrix.
        config: The configuration.
    """
    first, second = element_of(a, "a"), element_of(b, "b")
    x, y, types = values_of(a, first), values_of(b, second), (first.name, second.name)
    (M, K), N = x.shape, y.shape[1]
    high, wide, deep, workers = config.block_m, config.block_n, config.block_k, config.splits
    steps, columns = -(-K // deep), -(-N // wide)
    tiles = -(-M // high) * columns
    share, more = divmod(tiles * steps, workers)
    begins = [worker * share + min(worker, more) for worker in range(workers)]
    c = np.empty((M, N), x.dtype)
    for tile in range(tiles):
        cuts = sorted({0, *(begin - tile * steps for begin in begins if 0 < begin - tile * steps < steps)})
        rows = slice(tile // columns * high, (tile // columns + 1) * high)
        span = slice(tile % columns * wide, (tile % columns + 1) * wide)
        c[rows, span] = added_parts(mode, x[rows], y[:, span], types, [cut * deep for cut in cuts])
    return c
