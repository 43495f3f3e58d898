"""Kernels as people write them, for comparing the engines: matmul, softmax, layer norm, flash attention, autotuned."""

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M, N, K, PRECISION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c[M, N] = a[M, K] @ b[K, N], row-major, any sizes."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float64 if a.dtype.element_ty == tl.float64 else tl.float32)
    for k in range(tl.cdiv(K, BK)):
        left = (rows < M)[:, None] & (inner + k * BK < K)[None, :]
        right = (inner + k * BK < K)[:, None] & (columns < N)[None, :]
        x = tl.load(a + rows[:, None] * K + (inner + k * BK)[None, :], mask=left, other=0.0)
        y = tl.load(b + (inner + k * BK)[:, None] * N + columns[None, :], mask=right, other=0.0)
        total = tl.dot(x, y, total, input_precision=PRECISION, out_dtype=total.dtype)
    where = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(c.dtype.element_ty), mask=where)


@triton.jit
def softmax(x, y, N, BLOCK: tl.constexpr):
    """One row a program; masked lanes are multiplied away, since exp(-inf) is an ordinary payload."""
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    inside = lane < N
    values = tl.load(x + row * N + lane, mask=inside, other=-float("inf")).to(tl.float32)
    e = tl.where(inside, tl.exp(values - tl.max(values, axis=0)), 0.0)
    tl.store(y + row * N + lane, (e / tl.sum(e, axis=0)).to(y.dtype.element_ty), mask=inside)


@triton.jit
def layer_norm(x, weight, bias, y, N, eps, BLOCK: tl.constexpr):
    """One row a program."""
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    inside = lane < N
    values = tl.load(x + row * N + lane, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / N
    centred = tl.where(inside, values - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / N + eps)
    w = tl.load(weight + lane, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(bias + lane, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * N + lane, (centred * scale * w + b).to(y.dtype.element_ty), mask=inside)


@triton.jit
def attention(q, k, v, o, N, scale, CAUSAL: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Flash attention forward of one head: a block of queries a program, keys in blocks with a running maximum."""
    rows, lanes, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    head = tl.program_id(1) * N * D
    queries = tl.load(q + head + rows[:, None] * D + d[None, :], mask=(rows < N)[:, None], other=0.0)
    total = tl.zeros((BM, D), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    peak = tl.full((BM,), -float("inf"), tl.float32)
    for start in range(0, N, BN):
        columns = start + lanes
        keys = tl.load(k + head + columns[None, :] * D + d[:, None], mask=(columns < N)[None, :], other=0.0)
        seen = (columns < N)[None, :]
        if CAUSAL:
            seen = seen & (columns[None, :] <= rows[:, None])
        scores = tl.where(seen, tl.dot(queries, keys) * scale, -float("inf"))
        highest = tl.maximum(peak, tl.max(scores, axis=1))
        e = tl.where(seen, tl.exp(scores - highest[:, None]), 0.0)
        shrink = tl.exp(peak - highest)
        values = tl.load(v + head + columns[:, None] * D + d[None, :], mask=(columns < N)[:, None], other=0.0)
        weight = weight * shrink + tl.sum(e, axis=1)
        total = tl.dot(e.to(values.dtype), values, total * shrink[:, None])
        peak = highest
    out = total / weight[:, None]
    tl.store(o + head + rows[:, None] * D + d[None, :], out.to(o.dtype.element_ty), mask=(rows < N)[:, None])


@triton.jit
def uninstrumented(x, y, o, BLOCK: tl.constexpr):
    """Operations that see the carriers: comparisons, conversions to and from integers, abs, sorting."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x + lane), tl.load(y + lane)
    chosen = tl.where(a < b, a * b, tl.abs(a) + b)
    whole = (lane % 1000).to(tl.float32)
    tl.store(o + lane, chosen + whole + (a == b).to(tl.float32))


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["N"])
@triton.jit
def tuned_add(x, y, o, N, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = lane < N
    tl.store(o + lane, tl.load(x + lane, mask=inside) + tl.load(y + lane, mask=inside), mask=inside)
