"""Kernels whose bits on an H200 are known."""

import triton
import triton.language as tl


@triton.jit
def sum_1d(a, o, B: tl.constexpr):
    p = tl.program_id(0)
    tl.store(o + p, tl.sum(tl.load(a + p * B + tl.arange(0, B)), 0))


@triton.jit
def sum_2d(a, o, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    s = tl.sum(tl.load(a + m[:, None] * N + n[None, :]), AXIS)
    if AXIS == 0:
        tl.store(o + n, s)
    else:
        tl.store(o + m, s)


@triton.jit
def sum_all(a, o, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    tl.store(o, tl.sum(tl.load(a + m[:, None] * N + n[None, :])))


@triton.jit
def sum_of_all_products(a, b, o, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    at = m[:, None] * N + n[None, :]
    tl.store(o, tl.sum(tl.load(a + at) * tl.load(b + at)))


@triton.jit
def sum_of_products(a, b, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o, tl.sum(tl.load(a + i) * tl.load(b + i), 0))


@triton.jit
def cumulative(a, o, B: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.cumsum(tl.load(a + i), 0, reverse=REVERSE))


@triton.jit
def cumulative_2d(a, o, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    at = m[:, None] * N + n[None, :]
    tl.store(o + at, tl.cumsum(tl.load(a + at), AXIS))


@triton.jit
def function(a, o, B: tl.constexpr, NAME: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(a + i)
    if NAME == "exp":
        y = tl.exp(x)
    elif NAME == "exp2":
        y = tl.exp2(x)
    elif NAME == "log":
        y = tl.log(x)
    elif NAME == "log2":
        y = tl.log2(x)
    elif NAME == "sqrt":
        y = tl.sqrt(x)
    elif NAME == "rsqrt":
        y = tl.rsqrt(x)
    elif NAME == "sigmoid":
        y = tl.sigmoid(x)
    elif NAME == "third":
        y = x / 3.0
    tl.store(o + i, y)


@triton.jit
def quotient(a, b, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(a + i) / tl.load(b + i))


@triton.jit
def loop_of_row_sums(a, o, steps, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    acc = tl.zeros((M,), tl.float32)
    for k in range(steps):
        acc += tl.sum(tl.load(a + k * M * N + m[:, None] * N + n[None, :]), 1)
    tl.store(o + m, acc)


@triton.jit
def tiled(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
          IMPRECISE: tl.constexpr, FOLD: tl.constexpr):  # fmt: skip
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (k0 + k)[None, :])
        y = tl.load(b + (k0 + k)[:, None] * BN + n[None, :])
        if FOLD:
            acc = tl.dot(x, y, acc, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE)
        else:
            acc += tl.dot(x, y, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE)
    tl.store(c + m[:, None] * BN + n[None, :], acc)


@triton.jit
def row_sums_of_product(a, b, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    tl.store(o + m, tl.sum(tl.dot(x, y), 1))


@triton.jit
def transposed_loads(a, b, c, depth, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, depth], [depth, 1], [M, K])
    right = tl.make_tensor_descriptor(b, [N, depth], [depth, 1], [N, K])
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, depth, K):
        acc = tl.dot(left.load([0, k]), right.load([0, k]).T, acc)
    m, n = tl.arange(0, M), tl.arange(0, N)
    tl.store(c + m[:, None] * N + n[None, :], acc)
