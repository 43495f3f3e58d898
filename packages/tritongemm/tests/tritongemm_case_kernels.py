"""Kernels of other signatures than a matrix product's, each with planted mistakes by name, and their launchers."""

import numpy as np
import triton
import triton.language as tl

import fpsan_tools


def strides(x):
    return x.stride() if callable(getattr(x, "stride", None)) else tuple(s // x.itemsize for s in x.strides)


def like(x, shape=None, dtype=None):
    """An uninitialised array of x's library."""
    if hasattr(x, "new_empty"):
        return x.new_empty(tuple(x.shape if shape is None else shape), dtype=dtype or x.dtype)
    if hasattr(x, "array"):
        return fpsan_tools.typed(np.empty(x.shape if shape is None else shape, x.array.dtype), str(x.dtype))
    return np.empty(x.shape if shape is None else shape, dtype or x.dtype)


@triton.jit
def softmax_kernel(x_ptr, y_ptr, columns, stride_x, stride_y, MISTAKE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    live = at < columns
    if MISTAKE == "mask tail missing":
        live = at < columns - columns % 16
    other = -float("inf")
    if MISTAKE == "no max":
        other = -1e30
    x = tl.load(x_ptr + row * stride_x + at, mask=live, other=other).to(tl.float32)
    if MISTAKE == "no max":
        p = tl.exp(x)
    else:
        p = tl.exp(x - tl.max(x, axis=0))
    if MISTAKE == "fp16 sum":
        total = tl.sum(p.to(tl.float16), axis=0).to(tl.float32)
    else:
        total = tl.sum(p, axis=0)
    y = p / total
    if MISTAKE == "wrong scale":
        y = y * 0.5
    tl.store(y_ptr + row * stride_y + at, y.to(y_ptr.dtype.element_ty), mask=at < columns)


def softmax(x, mistake="none"):
    y = like(x)
    block = triton.next_power_of_2(x.shape[1])
    softmax_kernel[(x.shape[0],)](x, y, x.shape[1], strides(x)[0], strides(y)[0], MISTAKE=mistake, BLOCK=block)
    return y


@triton.jit
def softmax_gradient_kernel(y_ptr, dy_ptr, dx_ptr, columns, stride, MISTAKE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = row * stride + tl.arange(0, BLOCK)
    live = tl.arange(0, BLOCK) < columns
    y = tl.load(y_ptr + at, mask=live, other=0.0)
    dy = tl.load(dy_ptr + at, mask=live, other=0.0)
    inner = tl.sum(y * dy, axis=0)
    if MISTAKE == "sum forgotten":
        inner = inner * 0.0
    tl.store(dx_ptr + at, y * (dy - inner), mask=live)


def differentiable_softmax(mistake="none"):
    """A softmax of rows for PyTorch's autograd, with a kernel for its gradient."""
    import torch

    class Softmax(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = softmax(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, dy):
            (y,) = ctx.saved_tensors
            dx = torch.empty_like(y)
            softmax_gradient_kernel[(y.shape[0],)](
                y, dy.contiguous(), dx, y.shape[1], y.stride(0), MISTAKE=mistake, BLOCK=64
            )
            return dx

    def softmax_of_rows(x):
        return Softmax.apply(x)

    return softmax_of_rows


@triton.jit
def rms_norm_kernel(x_ptr, w_ptr, y_ptr, columns, stride, eps, MISTAKE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    live = at < columns
    x = tl.load(x_ptr + row * stride + at, mask=live, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + at, mask=live, other=0.0).to(tl.float32)
    square = tl.sum(x * x, axis=0) / columns
    if MISTAKE == "eps misplaced":
        y = x / (tl.sqrt(square) + eps) * w
    elif MISTAKE == "block instead of columns":
        y = x / tl.sqrt(tl.sum(x * x, axis=0) / BLOCK + eps) * w
    else:
        y = x / tl.sqrt(square + eps) * w
    tl.store(y_ptr + row * stride + at, y.to(y_ptr.dtype.element_ty), mask=live)


def rms_norm(x, w, mistake="none"):
    y = like(x)
    block = triton.next_power_of_2(x.shape[1])
    rms_norm_kernel[(x.shape[0],)](x, w, y, x.shape[1], strides(x)[0], 1e-5, MISTAKE=mistake, BLOCK=block)
    return y


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, keys, scale, MISTAKE: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    """One block of queries per program, online softmax over blocks of keys; queries are a multiple of BM."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :])
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    o = tl.zeros((BM, D), tl.float32)
    stop = keys
    if MISTAKE == "last block dropped":
        stop = keys - BN
    for start in range(0, stop, BN):
        n = start + tl.arange(0, BN)
        live = n < keys
        k = tl.load(k_ptr + n[:, None] * D + d[None, :], mask=live[:, None], other=0.0)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=live[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="tf32" if MISTAKE == "tf32" else "ieee") * scale
        if MISTAKE != "key tail unmasked":
            s = tl.where(live[None, :], s, -float("inf"))
        new = tl.maximum(top, tl.max(s, axis=1))
        fade = tl.exp(top - new)
        p = tl.exp(s - new[:, None])
        if MISTAKE == "tile counted twice":
            if start == 0:
                p = p * 2.0
        total = total * fade + tl.sum(p, axis=1)
        if MISTAKE != "not rescaled":
            o = o * fade[:, None]
        o = tl.dot(p.to(v.dtype), v, o, input_precision="ieee")
        top = new
    tl.store(o_ptr + m[:, None] * D + d[None, :], (o / total[:, None]).to(o_ptr.dtype.element_ty))


def attention(q, k, v, mistake="none"):
    o = like(q)
    scale = q.shape[1] ** -0.5
    if mistake == "wrong scale":
        scale = 1 / q.shape[1]
    grid = (q.shape[0] // 16,)
    attention_kernel[grid](q, k, v, o, k.shape[0], scale, MISTAKE=mistake, D=q.shape[1], BM=16, BN=16)
    return o


@triton.jit
def quantised_kernel(
    a_ptr, b_ptr, c_ptr, scale_a_ptr, scale_b_ptr, M, N, K, MISTAKE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """C = diag(scale_a) A B diag(scale_b) with fp8 operands, row-major."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :], other=0.0)
        total = tl.dot(a, b, total)
    rows = tl.load(scale_a_ptr + m, mask=m < M, other=0.0)
    columns = tl.load(scale_b_ptr + n, mask=n < N, other=0.0)
    if MISTAKE == "scale of the wrong row":
        rows = tl.load(scale_a_ptr + m + 1, mask=m + 1 < M, other=1.0)
    c = total * rows[:, None]
    if MISTAKE != "one scale forgotten":
        c = c * columns[None, :]
    tl.store(c_ptr + m[:, None] * N + n[None, :], c, mask=(m < M)[:, None] & (n < N)[None, :])


def quantised(a, b, scale_a, scale_b, mistake="none"):
    (M, K), N = a.shape, b.shape[1]
    c = like(scale_a, (M, N))
    grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))
    quantised_kernel[grid](a, b, c, scale_a, scale_b, M, N, K, MISTAKE=mistake, BM=16, BN=16, BK=32)
    return c
