"""Kernels to audit: right ones in several styles, and wrong ones with one planted mistake each."""

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, warpgroup_mma, warpgroup_mma_wait


@triton.jit
def tutorial_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr,
    ACTIVATION: tl.constexpr,
):  # fmt: skip
    """In the style of Triton's tutorial: rows wrapped around by a modulus, constants without defaults."""
    pid = tl.program_id(axis=0)
    rows = tl.cdiv(M, BLOCK_SIZE_M)
    columns = tl.cdiv(N, BLOCK_SIZE_N)
    group = pid // (GROUP_SIZE_M * columns)
    height = min(rows - group * GROUP_SIZE_M, GROUP_SIZE_M)
    pid_m = group * GROUP_SIZE_M + ((pid % (GROUP_SIZE_M * columns)) % height)
    pid_n = (pid % (GROUP_SIZE_M * columns)) // height
    m = (pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)) % M
    n = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)) % N
    k = tl.arange(0, BLOCK_SIZE_K)
    a_at = a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak
    b_at = b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn
    total = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for step in range(tl.cdiv(K, BLOCK_SIZE_K)):
        left = K - step * BLOCK_SIZE_K
        a = tl.load(a_at, mask=k[None, :] < left, other=0.0)
        b = tl.load(b_at, mask=k[:, None] < left, other=0.0)
        total += tl.dot(a, b, input_precision="ieee")
        a_at += BLOCK_SIZE_K * stride_ak
        b_at += BLOCK_SIZE_K * stride_bk
    if ACTIVATION == "relu":
        total = tl.maximum(total, 0.0)
    m = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    n = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_at = c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn
    tl.store(c_at, total.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def challenge_kernel(
    a, b, c, M, N, K, stride_am, stride_an, stride_bn, stride_bk, stride_cm, stride_ck, BLOCK: tl.constexpr = 64
):  # fmt: skip
    """The challenge's argument list, one program per output on a two-dimensional grid, a sum per step."""
    row = tl.program_id(0)
    col = tl.program_id(1)
    total = 0.0
    for start in range(0, N, BLOCK):
        n = start + tl.arange(0, BLOCK)
        x = tl.load(a + row * stride_am + n * stride_an, mask=n < N, other=0.0)
        y = tl.load(b + n * stride_bn + col * stride_bk, mask=n < N, other=0.0)
        total += tl.sum(x * y, axis=0)
    tl.store(c + row * stride_cm + col * stride_ck, total)


@triton.jit
def columns_first_kernel(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr = 16, BN: tl.constexpr = 32, BK: tl.constexpr = 16,
):  # fmt: skip
    """Tiles on a two-dimensional grid whose first axis counts the columns."""
    pid_n = tl.program_id(0)
    pid_m = tl.program_id(1)
    m = pid_m * BM + tl.arange(0, BM)
    n = pid_n * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        live = start + k < K
        x = tl.load(a + m[:, None] * stride_am + (start + k)[None, :] * stride_ak,
                    mask=(m < M)[:, None] & live[None, :], other=0.0)  # fmt: skip
        y = tl.load(b + (start + k)[:, None] * stride_bk + n[None, :] * stride_bn,
                    mask=live[:, None] & (n < N)[None, :], other=0.0)  # fmt: skip
        total = tl.dot(x, y, total, input_precision="ieee")
    tl.store(c + m[:, None] * stride_cm + n[None, :] * stride_cn, total, mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def planted_kernel(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    MISTAKE: tl.constexpr = "none", BLOCK_M: tl.constexpr = 16, BLOCK_N: tl.constexpr = 16, BLOCK_K: tl.constexpr = 32,
):  # fmt: skip
    """A tiled product with one planted mistake, by name."""
    tiles = tl.cdiv(N, BLOCK_N)
    m = tl.program_id(0) // tiles * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) % tiles * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    stop = K
    if (MISTAKE == "k tail dropped") | (MISTAKE == "k tail dropped, accumulates"):
        stop = K // BLOCK_K * BLOCK_K
    first = 0
    if MISTAKE == "first step skipped":
        first = BLOCK_K
    stride_down = stride_bk
    if MISTAKE == "strides of B swapped":
        stride_down = stride_bn
        stride_bn = stride_bk
    if MISTAKE == "one program":
        if (tl.program_id(0) // tiles == 11) & (tl.program_id(0) % tiles == 11):
            stop = K - BLOCK_K
    stride_across = stride_ak
    if MISTAKE == "stride ignored":
        stride_across = 1
    for start in range(first, stop, BLOCK_K):
        live = start + k < K
        keep = n < N
        if MISTAKE == "k tail dropped from column 64":
            keep = keep & ((n < 64) | (start + BLOCK_K <= K))
        x = tl.load(a + m[:, None] * stride_am + (start + k)[None, :] * stride_across,
                    mask=(m < M)[:, None] & live[None, :], other=0.0)  # fmt: skip
        y = tl.load(b + (start + k)[:, None] * stride_down + n[None, :] * stride_bn,
                    mask=live[:, None] & keep[None, :], other=0.0)  # fmt: skip
        if MISTAKE == "bf16 operands":
            x = x.to(tl.bfloat16)
            y = y.to(tl.bfloat16)
        if MISTAKE == "bf16 A":
            x = x.to(tl.bfloat16).to(tl.float32)
        total = tl.dot(x, y, total, input_precision="ieee")
        if MISTAKE == "fp16 sum":
            total = total.to(tl.float16).to(tl.float32)
        if MISTAKE == "second step twice":
            if start == BLOCK_K:
                total = tl.dot(x, y, total, input_precision="ieee")
    if MISTAKE == "negated":
        total = -total
    if MISTAKE == "doubled":
        total = total * 2.0
    if MISTAKE == "prints":
        tl.device_print("total", total)
    if MISTAKE == "absolute":
        total = tl.abs(total)
    inside = (m < M)[:, None] & (n < N)[None, :]
    if (MISTAKE == "accumulates") | (MISTAKE == "k tail dropped, accumulates"):
        total += tl.load(c + m[:, None] * stride_cm + n[None, :] * stride_cn, mask=inside, other=0.0)
    if MISTAKE == "last row not written":
        inside = (m < M - 1)[:, None] & (n < N)[None, :]
    if MISTAKE == "shifted column":
        n = (n + 1) % N
    if MISTAKE == "mask forgotten":
        inside = (m < M + BLOCK_M)[:, None] & (n < N)[None, :]
    tl.store(c + m[:, None] * stride_cm + n[None, :] * stride_cn, total, mask=inside)
    if MISTAKE == "writes to A":
        if tl.program_id(0) == tl.num_programs(0) - 1:
            tl.store(a + m * stride_am, tl.zeros((BLOCK_M,), tl.float32), mask=m < M)


@triton.jit
def epilogue_kernel(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    HOW: tl.constexpr = "plain", STOP: tl.constexpr = 0,
    BLOCK_M: tl.constexpr = 16, BLOCK_N: tl.constexpr = 16, BLOCK_K: tl.constexpr = 32,
):  # fmt: skip
    """A tiled product to which something is done, by name: much of it harmless to numbers, and not to payloads."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float16 if HOW == "fp16 sum" else tl.float32)
    for start in range(0, K // BLOCK_K * BLOCK_K if STOP else K, BLOCK_K):
        live = start + k < K
        x = tl.load(a + m[:, None] * stride_am + (start + k)[None, :] * stride_ak,
                    mask=(m < M)[:, None] & live[None, :], other=0.0)  # fmt: skip
        y = tl.load(b + (start + k)[:, None] * stride_bk + n[None, :] * stride_bn,
                    mask=live[:, None] & (n < N)[None, :], other=0.0)  # fmt: skip
        if HOW == "operands without NaN":
            x = tl.where(x == x, x, 0.0)
            y = tl.where(y == y, y, 0.0)
        if HOW == "fp16 operands":
            x = x.to(tl.float16).to(tl.float32)
            y = y.to(tl.float16).to(tl.float32)
        if HOW == "rows scaled":
            largest = tl.max(tl.abs(x), axis=1)
            largest = tl.where(largest > 0, largest, 1.0)
            total += tl.dot(x / largest[:, None], y, input_precision="ieee") * largest[:, None]
        elif HOW == "fp16 sum":
            total = (total.to(tl.float32) + tl.dot(x, y, input_precision="ieee")).to(tl.float16)
        else:
            total = tl.dot(x, y, total, input_precision="ieee")
    if HOW == "one product missing":
        x = tl.load(a + (M - 1) * stride_am + (K - 1) * stride_ak).to(tl.float32)
        y = tl.load(b + (K - 1) * stride_bk + (N - 1) * stride_bn).to(tl.float32)
        total = tl.where((m == M - 1)[:, None] & (n == N - 1)[None, :], total - 0.001 * x * y, total)
    if HOW == "NaN to zero" or HOW == "one row halved":
        total = tl.where(total == total, total, 0.0)
    if HOW == "one row halved":
        total = tl.where((m == 3)[:, None], 0.5 * total, total)
    if HOW == "clamp to fp16":
        total = tl.clamp(total, -65504.0, 65504.0)
    if HOW == "minimum and maximum":
        total = tl.minimum(tl.maximum(total, -3e38), 3e38)
    if HOW == "flush the tiny":
        total = tl.where(tl.abs(total) < 1e-30, 0.0, total)
    if HOW == "sign and size":
        total = tl.where(total < 0, -tl.abs(total), tl.abs(total))
    if HOW == "two relus":
        total = tl.maximum(total, 0.0) - tl.maximum(-total, 0.0)
    if HOW == "two halves":
        total = total * 0.5 + total * 0.5
    if HOW == "three thirds":
        total = total * 3.0 / 3.0
    if HOW == "bits and back":
        total = total.to(tl.int32, bitcast=True).to(tl.float32, bitcast=True)
    if HOW == "fp64 and back":
        total = total.to(tl.float64).to(tl.float32)
    if HOW == "zero times":
        total = total + 0.0 * total
    if HOW == "clamp to 1":
        total = tl.clamp(total, -1.0, 1.0)
    if HOW == "relu":
        total = tl.maximum(total, 0.0)
    if HOW == "relu by comparison":
        total = tl.where(total > 0, total, 0.0)
    if HOW == "sign":
        total = tl.where(total > 0, 1.0, -1.0)
    if HOW == "flush below 1":
        total = tl.where(tl.abs(total) < 1.0, 0.0, total)
    if HOW == "absolute value":
        total = tl.abs(total)
    if HOW == "minus the absolute value":
        total = -tl.abs(total)
    if HOW == "leaky relu":
        total = tl.where(total > 0, total, 0.01 * total)
    if HOW == "gelu":
        total = total * 0.5 * (1 + tl.erf(total * 0.70710678))
    if HOW == "whole numbers":
        total = tl.floor(total + 0.5)
    if HOW == "bf16 result":
        total = total.to(tl.bfloat16).to(tl.float32)
    inside = (m < M)[:, None] & (n < N)[None, :]
    tl.store(c + m[:, None] * stride_cm + n[None, :] * stride_cn, total.to(c.dtype.element_ty), mask=inside)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 16, "BLOCK_SIZE_K": 16, "GROUP_SIZE_M": 2}, num_warps=2),
        triton.Config({"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 4}, num_warps=8),
    ],
    key=["M", "N", "K"],
)
@triton.heuristics({"ACTIVATION": lambda known: "relu" if known["M"] < 0 else ""})
@triton.jit
def tuned_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr,
    ACTIVATION: tl.constexpr,
):  # fmt: skip
    """Autotuned, with a heuristic."""
    pid = tl.program_id(0)
    columns = tl.cdiv(N, BLOCK_SIZE_N)
    m = pid // columns * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    n = pid % columns * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    k = tl.arange(0, BLOCK_SIZE_K)
    total = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_SIZE_K):
        live = start + k < K
        x = tl.load(a_ptr + m[:, None] * stride_am + (start + k)[None, :] * stride_ak,
                    mask=(m < M)[:, None] & live[None, :], other=0.0)  # fmt: skip
        y = tl.load(b_ptr + (start + k)[:, None] * stride_bk + n[None, :] * stride_bn,
                    mask=live[:, None] & (n < N)[None, :], other=0.0)  # fmt: skip
        total = tl.dot(x, y, total, input_precision="ieee")
    if ACTIVATION == "relu":
        total = tl.maximum(total, 0.0)
    c_at = c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn
    tl.store(c_at, total, mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def many_tiles_kernel(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    MISTAKE: tl.constexpr = "none", BLOCK_M: tl.constexpr = 16, BLOCK_N: tl.constexpr = 16, BLOCK_K: tl.constexpr = 16,
    GROUP_M: tl.constexpr = 8, NUM_PROGRAMS: tl.constexpr = 100000,
):  # fmt: skip
    """Programs that share all tiles, in groups of rows; its mistakes show when there are many tiles."""
    rows = tl.cdiv(M, BLOCK_M)
    columns = tl.cdiv(N, BLOCK_N)
    step = NUM_PROGRAMS
    if MISTAKE == "wave too wide":
        step = NUM_PROGRAMS + 1
    k = tl.arange(0, BLOCK_K)
    for tile in range(tl.program_id(0), rows * columns, step):
        first = tile // (GROUP_M * columns) * GROUP_M
        height = min(rows - first, GROUP_M)
        inside = tile % (GROUP_M * columns)
        tile_m = first + inside % height
        tile_n = inside // height
        if MISTAKE == "group start forgotten":
            tile_m = inside % height
        if MISTAKE == "row of tiles in 8 bits":
            tile_m = tile_m % 128
        if MISTAKE == "column of tiles in 8 bits":
            tile_n = tile_n % 128
        m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
        n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(0, K, BLOCK_K):
            live = start + k < K
            x = tl.load(a + m[:, None] * stride_am + (start + k)[None, :] * stride_ak,
                        mask=(m < M)[:, None] & live[None, :], other=0.0)  # fmt: skip
            y = tl.load(b + (start + k)[:, None] * stride_bk + n[None, :] * stride_bn,
                        mask=live[:, None] & (n < N)[None, :], other=0.0)  # fmt: skip
            total = tl.dot(x, y, total, input_precision="ieee")
        inside_c = (m < M)[:, None] & (n < N)[None, :]
        tl.store(c + m[:, None] * stride_cm + n[None, :] * stride_cn, total, mask=inside_c)


@triton.jit
def wide_kernel(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    MISTAKE: tl.constexpr = "none", LANES: tl.constexpr = 32,
):  # fmt: skip
    """Products and sums in float64."""
    m = tl.program_id(0)
    n = tl.program_id(1)
    lane = tl.arange(0, LANES)
    total = tl.zeros((LANES,), dtype=tl.float64)
    stop = K
    if MISTAKE == "k tail dropped":
        stop = K // LANES * LANES
    for start in range(0, stop, LANES):
        k = start + lane
        x = tl.load(a + m * stride_am + k * stride_ak, mask=k < K, other=0.0)
        y = tl.load(b + k * stride_bk + n * stride_bn, mask=k < K, other=0.0)
        if MISTAKE == "bf16 operands":
            x = x.to(tl.bfloat16)
            y = y.to(tl.bfloat16)
        total += x.to(tl.float64) * y.to(tl.float64)
    tl.store(c + m * stride_cm + n * stride_cn, tl.sum(total, axis=0).to(c.dtype.element_ty))


@triton.jit
def split_kernel(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr = 16, BN: tl.constexpr = 16, BK: tl.constexpr = 16, SPLIT_K: tl.constexpr = 3,
):  # fmt: skip
    """Several programs add to each output, which has to be zero before."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(tl.program_id(2) * BK, K, SPLIT_K * BK):
        live = start + k < K
        x = tl.load(a + m[:, None] * stride_am + (start + k)[None, :] * stride_ak,
                    mask=(m < M)[:, None] & live[None, :], other=0.0)  # fmt: skip
        y = tl.load(b + (start + k)[:, None] * stride_bk + n[None, :] * stride_bn,
                    mask=live[:, None] & (n < N)[None, :], other=0.0)  # fmt: skip
        total = tl.dot(x, y, total, input_precision="ieee")
    inside = (m < M)[:, None] & (n < N)[None, :]
    tl.atomic_add(c + m[:, None] * stride_cm + n[None, :] * stride_cn, total, mask=inside)


split_tuned_kernel = triton.autotune(
    configs=[triton.Config({"BM": 16, "BN": 32, "BK": 16, "SPLIT_K": 2})], key=["M"], reset_to_zero=["c"]
)(split_kernel)


@triton.jit
def nameless_axes_kernel(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr = 16, BN: tl.constexpr = 32, BK: tl.constexpr = 16,
):  # fmt: skip
    """Axes whose variables say nothing, but for what they are multiplied with; loads without `other`."""
    first = tl.program_id(0)
    there = first * BN + tl.arange(0, BN)
    here = tl.program_id(1) * BM + tl.arange(0, BM)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        live = start + k < K
        x = tl.load(a + here[:, None] * stride_am + (start + k)[None, :] * stride_ak,
                    mask=(here < M)[:, None] & live[None, :])  # fmt: skip
        y = tl.load(b + (start + k)[:, None] * stride_bk + there[None, :] * stride_bn,
                    mask=live[:, None] & (there < N)[None, :])  # fmt: skip
        total = tl.dot(x, y, total, input_precision="ieee")
    inside = (here < M)[:, None] & (there < N)[None, :]
    tl.store(c + here[:, None] * stride_cm + there[None, :] * stride_cn, total, mask=inside)


@gluon.jit
def gluon_kernel(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, BLOCK: gl.constexpr = 64
):  # fmt: skip
    """One row of one block of columns per program, in Gluon."""
    m = gl.program_id(0)
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [2], [0])
    n = gl.program_id(1) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    total = gl.zeros([BLOCK], gl.float32, layout=layout)
    for k in range(K):
        x = gl.load(a + m * stride_am + k * stride_ak)
        y = gl.load(b + k * stride_bk + n * stride_bn, mask=n < N, other=0.0)
        total += x * y
    gl.store(c + m * stride_cm + n * stride_cn, total, mask=n < N)


@gluon.jit
def warpgroup_kernel(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: gl.constexpr = 64, BLOCK_N: gl.constexpr = 64, BLOCK_K: gl.constexpr = 64, MISTAKE: gl.constexpr = "none",
):  # fmt: skip
    """A tile per program by warpgroup instructions on 16-bit operands, in Gluon; four warps."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    kind: gl.constexpr = a.dtype.element_ty
    sums: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    m = gl.program_id(0) * BLOCK_M + gl.arange(0, BLOCK_M, layout=gl.SliceLayout(1, layout))
    n = gl.program_id(1) * BLOCK_N + gl.arange(0, BLOCK_N, layout=gl.SliceLayout(0, layout))
    down = gl.arange(0, BLOCK_K, layout=gl.SliceLayout(1, layout))
    across = gl.arange(0, BLOCK_K, layout=gl.SliceLayout(0, layout))
    x = gl.allocate_shared_memory(
        kind, [BLOCK_M, BLOCK_K], gl.NVMMASharedLayout.get_default_for([BLOCK_M, BLOCK_K], kind)
    )
    y = gl.allocate_shared_memory(
        kind, [BLOCK_K, BLOCK_N], gl.NVMMASharedLayout.get_default_for([BLOCK_K, BLOCK_N], kind)
    )
    total = gl.zeros([BLOCK_M, BLOCK_N], gl.float32, sums)
    stop = K
    if MISTAKE == "k tail dropped":
        stop = K // BLOCK_K * BLOCK_K
    for start in range(0, stop, BLOCK_K):
        x_at = a + m[:, None] * stride_am + (start + across)[None, :] * stride_ak
        y_at = b + (start + down)[:, None] * stride_bk + n[None, :] * stride_bn
        x.store(gl.load(x_at, mask=(m < M)[:, None] & (start + across < K)[None, :], other=0.0))
        y.store(gl.load(y_at, mask=(start + down < K)[:, None] & (n < N)[None, :], other=0.0))
        fence_async_shared()
        total = warpgroup_mma(x, y, total, is_async=True)
        total = warpgroup_mma_wait(0, deps=[total])
    result = gl.convert_layout(total, layout).to(c.dtype.element_ty)
    inside = (m < M)[:, None] & (n < N)[None, :]
    gl.store(c + m[:, None] * stride_cm + n[None, :] * stride_cn, result, mask=inside)


@triton.jit
def reader_kernel(a, b, c, M, N, K, stride_am, stride_ak, LANES: tl.constexpr = 64):
    """No product of this audit: strides are missing."""
    tl.store(c, tl.load(a))


@triton.jit
def clocked_kernel(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, LANES: tl.constexpr = 64
):  # fmt: skip
    """Uses an operation that no CPU evaluates: inline assembly."""
    m = tl.program_id(0) // N
    n = tl.program_id(0) % N
    k = tl.arange(0, LANES)
    x = tl.load(a + m * stride_am + k * stride_ak, mask=k < K, other=0.0)
    y = tl.inline_asm_elementwise("ex2.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=False, pack=1)
    tl.store(c + m * stride_cm + n * stride_cn, tl.sum(y, axis=0))


def launcher(a, b):
    """Not a kernel."""


not_a_kernel = 3
