"""fp32 products without matrix units: one outer product per k, every output one serial chain of fused multiply-adds.

**Summation order.** One chain over k in ascending order, K padded with zeros to a multiple of BLOCK_K: that of
`blocked` with `input_precision="ieee"` and of cuBLAS's SGEMM, bit for bit, whatever the tile.

**Bound.** gamma_K·sum|p|.

**How.** A thread owns 16 x 8 outputs as 4 x 4 blocks, so that the 24 numbers of a k come as six 16-byte loads from
shared memory for 128 multiply-adds. B goes straight to shared memory (cp.async); A passes through registers, because it
is contiguous along k and has to be transposed on the way. Both are double-buffered.

**What the numbers mean.** The fp32 units are the limit: 46 TFLOP/s on an H200, 0.92 of the library's SGEMM; what is
lost are issue slots around the barrier. Loading the first fragments of the next stage before the last multiply-adds of
this one (`AHEAD`) was slower, 45 TFLOP/s: the compiler then needs a second barrier per stage.
"""

from __future__ import annotations

from typing import Any

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from tritongemm import launches
from tritongemm.configurations import Config
from tritongemm.elements import strides_of
from tritongemm.kernels.hopper.matrices import contiguous_axis
from tritongemm.kernels.hopper.pipeline import activated
from tritongemm.kernels.hopper.warp_specialised import products
from tritongemm.kernels.problems import Operands

NAME = "simt"
_AHEAD = False
_SIZES = ["M", "N", "K", "alpha", "beta", "stride_om", "stride_dm", "stride_dn", "stride_bias"]


@gluon.jit
def fragments(a, b, k: gl.constexpr, LAYOUT: gl.constexpr):
    """Column k of A's tile and row k of B's, where the threads want them."""
    return a.slice(k, 1, 0).permute((1, 0)).load(LAYOUT), b.slice(k, 1, 0).load(LAYOUT)


@gluon.jit
def outer_product(x, y, total):
    """total + x·y for a column x and a row y, fused."""
    x, _ = gl.broadcast(x, total)
    y, _ = gl.broadcast(y, total)
    return gl.fma(x, y, total)


@gluon.jit(do_not_specialize=_SIZES)
def simt_kernel(
    a_ptr,
    b_ptr,
    out_ptr,
    d_ptr,
    bias_ptr,
    M,
    N,
    K,
    a_columns,
    b_columns,
    stride_am,
    stride_bk,
    stride_om,
    stride_dm,
    stride_dn,
    stride_bias,
    alpha,
    beta,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    GROUP_M: gl.constexpr,
    ALPHA: gl.constexpr,
    ADD: gl.constexpr,
    BIAS: gl.constexpr,
    ACTIVATION: gl.constexpr,
    AHEAD: gl.constexpr,
):
    """out = activation(alpha·A·B + beta·D + bias), A contiguous along k, B and out along n; 8 warps.

    Rows of A hold a_columns readable numbers, zeros from K on, and rows of B b_columns, any from N on. Both are
    multiples of 16, which the compiler is told, so that 16 bytes are loaded at once.

    AHEAD: the first fragments of a stage are loaded before the last multiply-adds of the stage before.
    """
    LAYOUT: gl.constexpr = gl.BlockedLayout([4, 4], [4, 8], [2, 4], [1, 0])
    WARPS_K: gl.constexpr = BLOCK_K // 4 if BLOCK_K < 32 else 8
    # Lanes along M: the transposing stores to shared memory meet no bank twice.
    LOAD_A: gl.constexpr = gl.BlockedLayout([1, 4], [32, 1], [8 // WARPS_K, WARPS_K], [1, 0])
    LOAD_B: gl.constexpr = gl.BlockedLayout([1, 4], [1, 32], [8, 1], [1, 0])
    ROWS: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    tile = gl.program_id(0)
    columns = gl.cdiv(N, BLOCK_N)
    group = tile // (GROUP_M * columns)
    first = group * GROUP_M
    height = gl.minimum(gl.cdiv(M, BLOCK_M) - first, GROUP_M)
    inside = tile - group * GROUP_M * columns
    row = (first + inside % height) * BLOCK_M
    column = (inside // height) * BLOCK_N
    a_m = row + gl.arange(0, BLOCK_M, gl.SliceLayout(1, LOAD_A))
    a_k = gl.arange(0, BLOCK_K, gl.SliceLayout(0, LOAD_A))
    b_k = gl.arange(0, BLOCK_K, gl.SliceLayout(1, LOAD_B))
    b_n = column + gl.arange(0, BLOCK_N, gl.SliceLayout(0, LOAD_B))
    a_at = a_ptr + a_m.to(gl.int64)[:, None] * stride_am + a_k[None, :]
    b_at = b_ptr + b_k.to(gl.int64)[:, None] * stride_bk + b_n[None, :]
    a_live = (a_m < M)[:, None]
    b_live = (b_n < b_columns)[None, :]
    a_tiles = gl.allocate_shared_memory(gl.float32, [2, BLOCK_K, BLOCK_M], ROWS)
    b_tiles = gl.allocate_shared_memory(gl.float32, [2, BLOCK_K, BLOCK_N], ROWS)
    total = gl.zeros([BLOCK_M, BLOCK_N], gl.float32, LAYOUT)
    async_copy.async_load(b_tiles.index(0), b_at, mask=b_live & (b_k < K)[:, None])
    async_copy.commit_group()
    a_tiles.index(0).permute((1, 0)).store(gl.load(a_at, mask=a_live & (a_k < a_columns)[None, :], other=0.0))
    if AHEAD:
        async_copy.wait_group(0)
        x, y = fragments(a_tiles.index(0), b_tiles.index(0), 0, LAYOUT)
    now = 0
    for start in range(BLOCK_K, K + BLOCK_K, BLOCK_K):
        if not AHEAD:
            async_copy.wait_group(0)
        a_at += BLOCK_K
        b_at += BLOCK_K * stride_bk.to(gl.int64)
        ahead = gl.load(a_at, mask=a_live & (a_k < a_columns - start)[None, :], other=0.0)
        async_copy.async_load(b_tiles.index(now ^ 1), b_at, mask=b_live & (b_k < K - start)[:, None])
        async_copy.commit_group()
        if AHEAD:
            for k in gl.static_range(1, BLOCK_K):
                next_x, next_y = fragments(a_tiles.index(now), b_tiles.index(now), k, LAYOUT)
                total = outer_product(x, y, total)
                x, y = next_x, next_y
        else:
            for k in gl.static_range(BLOCK_K):
                column_of_a, row_of_b = fragments(a_tiles.index(now), b_tiles.index(now), k, LAYOUT)
                total = outer_product(column_of_a, row_of_b, total)
        now ^= 1
        a_tiles.index(now).permute((1, 0)).store(ahead)
        if AHEAD:
            async_copy.wait_group(0)
            next_x, next_y = fragments(a_tiles.index(now), b_tiles.index(now), 0, LAYOUT)
            total = outer_product(x, y, total)
            x, y = next_x, next_y
    m = row + gl.arange(0, BLOCK_M, gl.SliceLayout(1, LAYOUT))
    n = column + gl.arange(0, BLOCK_N, gl.SliceLayout(0, LAYOUT))
    live = (m < M)[:, None] & (n < N)[None, :]
    total = total + 0.0  # -0 becomes +0: what is left does not depend on how many zero products K was padded with
    zero = gl.zeros([BLOCK_M, BLOCK_N], gl.float32, LAYOUT)
    if BIAS:
        bias = gl.load(bias_ptr + n * stride_bias, mask=n < N, other=0.0).to(gl.float32)[None, :]
        if ALPHA:
            total = gl.fma(total, zero + alpha, zero + bias)
        else:
            total = total + bias
    elif ALPHA:
        total = total * alpha
    if ADD:
        d_at = d_ptr + m.to(gl.int64)[:, None] * stride_dm + n.to(gl.int64)[None, :] * stride_dn
        total = gl.fma(gl.load(d_at, mask=live, other=0.0).to(gl.float32), zero + beta, total)
    total = activated(total, ACTIVATION)
    at = out_ptr + m.to(gl.int64)[:, None] * stride_om + n[None, :]
    gl.store(at, total.to(out_ptr.dtype.element_ty), mask=live)


def configure(operands: Operands) -> Config:
    """The one tile that fills the registers."""
    return Config(kernel=NAME, block_m=128, block_n=256, block_k=16, group_m=8, warps=8, stages=2)


# Fewer tiles than multiprocessors leave some of them idle, and smaller tiles of other kernels win.
_LEAST_TILES = 96


def supports(operands: Operands, config: Config | None) -> bool:
    """Whether the kernel takes a product: fp32, `ieee`, enough tiles, a result with contiguous rows."""
    if operands.mode.name != "ieee" or operands.types != ("fp32", "fp32") or operands.K == 0:
        return False
    if operands.out.stride(-1) != 1 or str(operands.out.dtype) == "torch.float64":
        return False
    if operands.epilogue.scale_a is not None:
        return False
    if config is not None:
        return (config.block_m, config.block_n, config.warps, config.splits) == (128, 256, 8, 1)
    return operands.batch == 1 and -(-operands.M // 128) * -(-operands.N // 256) >= _LEAST_TILES


def run(operands: Operands, config: Config) -> None:
    """Computes a product or a batch of them."""
    for a, b, out, epilogue in products(operands):
        left, right = _in_sixteens(a, True), _in_sixteens(b, False)
        c = epilogue.c if epilogue.reads_c else None
        bias = epilogue.bias
        M, N = out.shape
        launch(
            left, right, out, c, bias, (M, N, operands.K), epilogue, config,
            (0, 0) if c is None else strides_of(c, "c"), 0 if bias is None else strides_of(bias, "bias")[0],
        )  # fmt: skip


def _in_sixteens(x: Any, zeros: bool) -> Any:
    """A matrix with contiguous rows of a multiple of 16 numbers: itself, or a copy."""
    rows, columns = x.shape
    wide = -(-columns // 16) * 16
    if wide == columns and contiguous_axis(x) == 1 and x.stride(1) == 1:
        return x
    copy = x.new_empty((rows, wide))
    copy[:, :columns].copy_(x)
    if zeros:
        copy[:, columns:].zero_()
    return copy


def launch(
    a: Any, b: Any, out: Any, c: Any, bias: Any, sizes: tuple[int, int, int], epilogue: Any, config: Config,
    along_c: tuple[int, ...], along_bias: int,
) -> None:  # fmt: skip
    """Starts `simt_kernel` on operands as `_in_sixteens` makes them."""
    M, N, K = sizes
    grid = (-(-M // config.block_m) * -(-N // config.block_n),)
    launches.launch(
        simt_kernel, grid,
        a, b, out, out if c is None else c, out if bias is None else bias, M, N, K, a.shape[1], b.shape[1],
        a.stride(0), b.stride(0), out.stride(0), *along_c, along_bias, float(epilogue.alpha), float(epilogue.beta),
        BLOCK_M=config.block_m, BLOCK_N=config.block_n, BLOCK_K=config.block_k, GROUP_M=config.group_m,
        ALPHA=epilogue.alpha != 1, ADD=c is not None, BIAS=bias is not None, ACTIVATION=epilogue.activation,
        AHEAD=_AHEAD, num_warps=config.warps, enable_fp_fusion=True,
    )  # fmt: skip
