"""A matrix product with a bug, for the tutorial on the audit."""

import triton
import triton.language as tl


@triton.jit
def product_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr = 32,
    BLOCK_N: tl.constexpr = 32,
    BLOCK_K: tl.constexpr = 32,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K - BLOCK_K + 1, BLOCK_K):
        depth = start + k
        a_at = a_ptr + m[:, None] * stride_am + depth[None, :] * stride_ak
        b_at = b_ptr + depth[:, None] * stride_bk + n[None, :] * stride_bn
        a = tl.load(a_at, mask=(m < M)[:, None], other=0.0)
        b = tl.load(b_at, mask=(n < N)[None, :], other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    c_at = c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn
    tl.store(c_at, total, mask=(m < M)[:, None] & (n < N)[None, :])
