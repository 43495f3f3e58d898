"""Kernels that several test files run: two ways to multiply matrices."""

import triton
import triton.language as tl


@triton.jit
def strided_lanes(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, BLOCK: tl.constexpr
):
    """One program per output: BLOCK running sums over k, then tl.sum."""
    m = tl.program_id(0)
    n = tl.program_id(1)
    lane = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for k0 in range(0, K, BLOCK):
        k = k0 + lane
        live = k < K
        x = tl.load(a + m * stride_am + k * stride_ak, mask=live, other=0.0).to(tl.float32)
        y = tl.load(b + k * stride_bk + n * stride_bn, mask=live, other=0.0).to(tl.float32)
        acc += x * y
    tl.store(c + m * stride_cm + n * stride_cn, tl.sum(acc, axis=0))


@triton.jit
def blocked(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, FOLD: tl.constexpr,
):  # fmt: skip
    """One program per tile of outputs: tl.dot over tiles of k, tails masked; FOLD passes the sums to tl.dot."""
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    live_m = (rm < M)[:, None]
    live_n = (rn < N)[None, :]
    pa = a + rm[:, None] * stride_am + rk[None, :] * stride_ak
    pb = b + rk[:, None] * stride_bk + rn[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        x = tl.load(pa, mask=live_m & (rk < K - k0)[None, :], other=0.0)
        y = tl.load(pb, mask=live_n & (rk < K - k0)[:, None], other=0.0)
        if FOLD:
            acc = tl.dot(x, y, acc, input_precision="ieee")
        else:
            acc += tl.dot(x, y, input_precision="ieee")
        pa += BLOCK_K * stride_ak
        pb += BLOCK_K * stride_bk
    tl.store(c + rm[:, None] * stride_cm + rn[None, :] * stride_cn, acc, mask=live_m & live_n)
