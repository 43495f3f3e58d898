"""Four correct kernels, into whose text `fpsan_mutants` plants bugs. Every line there is named by its text."""

import triton
import triton.language as tl


@triton.jit
def matmul(
    a, b, bias, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, alpha,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """c = alpha * a @ b + bias, tiles visited in groups of rows."""
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP * tiles_n) * GROUP
    group = min(tiles_m - first_m, GROUP)
    pid_m = first_m + pid % (GROUP * tiles_n) % group
    pid_n = pid % (GROUP * tiles_n) // group
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    live_m = (rm < M)[:, None]
    live_n = (rn < N)[None, :]
    pa = a + rm[:, None] * stride_am + rk[None, :] * stride_ak
    pb = b + rk[:, None] * stride_bk + rn[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        live_ka = (rk < K - k0)[None, :]
        live_kb = (rk < K - k0)[:, None]
        x = tl.load(pa, mask=live_m & live_ka, other=0.0)
        y = tl.load(pb, mask=live_n & live_kb, other=0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee")
        pa += BLOCK_K * stride_ak
        pb += BLOCK_K * stride_bk
    acc = acc * alpha
    acc += tl.load(bias + rn, mask=rn < N, other=0.0)[None, :]
    pc = c + rm[:, None] * stride_cm + rn[None, :] * stride_cn
    tl.store(pc, acc, mask=live_m & live_n)


@triton.jit
def softmax(x, y, rows, n, stride_x, stride_y, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """y = softmax of each row of x; masked-off elements are zeroed after exp."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    live = (row < rows)[:, None] & (column < n)[None, :]
    value = tl.load(x + row[:, None] * stride_x + column[None, :], mask=live, other=-float("inf"))
    value = value - tl.max(value, axis=1)[:, None]
    power = tl.exp(value)
    power = tl.where(live, power, 0.0)
    total = tl.sum(power, axis=1)[:, None]
    result = power / total
    tl.store(y + row[:, None] * stride_y + column[None, :], result, mask=live)


@triton.jit
def attention(
    q, k, v, out, rows, keys, stride_qh, stride_kh, stride_vh, stride_q, stride_k, stride_v, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Flash attention forward: one program per tile of queries and head; out is laid out like q."""
    head = tl.program_id(1)
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rd = tl.arange(0, D)
    live_m = (rm < rows)[:, None]
    query = tl.load(q + head * stride_qh + rm[:, None] * stride_q + rd[None, :], mask=live_m, other=0.0)
    query = query * scale
    best = tl.full((BLOCK_M,), -1.0e9, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for n0 in range(0, keys, BLOCK_N):
        rn = n0 + tl.arange(0, BLOCK_N)
        live_n = (rn < keys)[:, None]
        key = tl.load(k + head * stride_kh + rn[:, None] * stride_k + rd[None, :], mask=live_n, other=0.0)
        value = tl.load(v + head * stride_vh + rn[:, None] * stride_v + rd[None, :], mask=live_n, other=0.0)
        score = tl.dot(query, tl.trans(key), input_precision="ieee")
        live = (rn < keys)[None, :]
        if CAUSAL:
            live = live & (rn[None, :] <= rm[:, None])
        highest = tl.maximum(best, tl.max(tl.where(live, score, -1.0e9), axis=1))
        factor = tl.exp(best - highest)
        power = tl.exp(score - highest[:, None])
        power = tl.where(live, power, 0.0)
        total = total * factor + tl.sum(power, axis=1)
        acc = acc * factor[:, None]
        acc = tl.dot(power, value, acc, input_precision="ieee")
        best = highest
    acc = acc / total[:, None]
    tl.store(out + head * stride_qh + rm[:, None] * stride_q + rd[None, :], acc, mask=live_m)


@triton.jit
def layer_norm(x, weight, bias, y, n, stride, eps, BLOCK: tl.constexpr):
    """y = (x - mean) / sqrt(variance + eps) * weight + bias, one program per row."""
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    live = column < n
    value = tl.load(x + row * stride + column, mask=live, other=0.0)
    mean = tl.sum(value, axis=0) / n
    centred = tl.where(live, value - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n
    scale = tl.rsqrt(variance + eps)
    w = tl.load(weight + column, mask=live, other=0.0)
    b = tl.load(bias + column, mask=live, other=0.0)
    result = centred * scale * w + b
    tl.store(y + row * stride + column, result, mask=live)
