"""Small kernels, one feature each, for the CPU engine. All take input arrays first and write to `o`."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def helper_twice(x):
    return x + x


@triton.jit
def helper_pick(x, y, flag: tl.constexpr):
    if flag:
        return helper_twice(x)
    return y


@triton.jit(noinline=True)
def helper_scalar(x, y):
    if x > y:
        return x * 2.0
    return y - x


@triton.jit
def device_functions(a, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(a + i)
    tl.store(o + i, helper_pick(x, x, True) + helper_pick(x, x * x, False))


@triton.jit
def scalar_call(a, o):
    p = tl.program_id(0)
    tl.store(o + p, helper_scalar(tl.load(a + p), 3.0))


@triton.jit
def early_return(a, o, n):
    p = tl.program_id(0)
    if p >= n:
        return
    x = tl.load(a + p)
    if x > 4.0:
        tl.store(o + p, x * 2.0)
        return
    tl.store(o + p, -x)


@triton.jit
def nested_ifs(a, o, n):
    p = tl.program_id(0)
    x = tl.load(a + p)
    y = x
    if p % 2 == 0:
        if x > n:
            y = x + 100.0
        else:
            y = x + 200.0
    elif p % 3 == 0:
        y = x + 300.0
    tl.store(o + p, y)


@triton.jit
def loops_of_different_lengths(a, o, stride, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    acc = tl.zeros((B,), tl.float32)
    last = 0
    for k in range(p % 3, p * 2, 2):
        acc += tl.load(a + k * stride + i) * (k + 1)
        last = k
    tl.store(o + p * B + i, acc + last)


@triton.jit
def nested_loops(a, o, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    acc = tl.zeros((B,), tl.float32)
    for j in range(p):
        for k in range(j, p):
            acc += tl.load(a + i) + j * k
        if p % 2 == 1:
            acc = acc - 1.0
    tl.store(o + p * B + i, acc)


@triton.jit
def downward_loop(a, o, n):
    acc = 0.0
    for k in range(n - 1, -1, -1):
        acc = acc * 2.0 + tl.load(a + k)
    tl.store(o, acc)


@triton.jit
def static_loops(a, o, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(a + i)
    for k in tl.static_range(3):
        x = x * 2.0 + k
    for k in tl.range(0, 4, num_stages=2, loop_unroll_factor=2):
        x = x + k
    tl.store(o + i, x)


@triton.jit
def while_collatz(a, o):
    p = tl.program_id(0)
    n = tl.load(a + p)
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    tl.store(o + p, steps)


@triton.jit
def while_tensors(a, o, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    x = tl.load(a + p * B + i)
    while tl.max(x) > 1.0:
        x = x * 0.5
    tl.store(o + p * B + i, x)


@triton.jit
def larger_magnitude(x, y):
    return tl.where(tl.abs(x) > tl.abs(y), x, y)


@triton.jit
def pair_combine(x, i, y, j):
    first = (x < y) | ((x == y) & (i < j))
    return tl.where(first, x, y), tl.where(first, i, j)


@triton.jit
def multiply(x, y):
    return x * y


@triton.jit
def affine_combine(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def custom_reductions(a, o, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(a + i)
    tl.store(o, tl.reduce(x, 0, larger_magnitude))
    v, j = tl.reduce((x, i), 0, pair_combine)
    tl.store(o + 1, v)
    tl.store(o + 2, j.to(tl.float32))
    tl.store(o + 3, tl.reduce(x, 0, multiply))


@triton.jit
def reductions_2d(a, o, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(a + r[:, None] * N + c[None, :])
    tl.store(o + r, tl.sum(x, 1))
    tl.store(o + M + c, tl.max(x, 0))
    tl.store(o + M + N + r, tl.argmax(x, 1).to(tl.float32))
    tl.store(o + 2 * M + N + c, tl.argmin(x, 0).to(tl.float32))
    tl.store(o + 2 * M + 2 * N, tl.sum(x))
    tl.store(o + 2 * M + 2 * N + 1, tl.min(x))
    tl.store(o + 2 * M + 2 * N + 2, tl.sum(tl.xor_sum(r[:, None] * N + c[None, :] + x.to(tl.int32), 0)).to(tl.float32))


@triton.jit
def scans(a, o, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, M), tl.arange(0, N)
    at = r[:, None] * N + c[None, :]
    x = tl.load(a + at)
    tl.store(o + at, tl.cumsum(x, 1))
    tl.store(o + M * N + at, tl.cumsum(x, 0, reverse=True))
    tl.store(o + 2 * M * N + at, tl.cumprod(x, 1))
    tl.store(o + 3 * M * N + at, tl.associative_scan(x, 1, larger_magnitude))
    p, q = tl.associative_scan((x, x + 1.0), 1, affine_combine)
    tl.store(o + 4 * M * N + at, p + q)


@triton.jit
def shapes(a, o, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, M), tl.arange(0, N)
    at = r[:, None] * N + c[None, :]
    x = tl.load(a + at)
    t = tl.trans(x)
    tl.store(o + c[:, None] * M + r[None, :], t)
    j = tl.join(x, x * 2.0)
    lo, hi = tl.split(tl.permute(j, (1, 0, 2)))
    tl.store(o + M * N + c[:, None] * M + r[None, :], lo - hi)
    f = tl.reshape(x, (M * N,))
    tl.store(o + 2 * M * N + tl.arange(0, M * N), tl.flip(f, 0))
    v = tl.reshape(x, (N, M))
    tl.store(o + 3 * M * N + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], v)
    tl.store(o + 4 * M * N + tl.arange(0, 2 * N), tl.interleave(tl.sum(x, 0), tl.max(x, 0)))
    tl.store(o + 4 * M * N + 2 * N + tl.arange(0, 2 * M * N), tl.cat(f, f + 1.0, can_reorder=False))
    b = tl.broadcast_to(tl.sum(x, 1)[:, None], (M, N))
    tl.store(o + 6 * M * N + 2 * N + at, b)


@triton.jit
def gathers(a, index, o, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, M), tl.arange(0, N)
    at = r[:, None] * N + c[None, :]
    x, i = tl.load(a + at), tl.load(index + at)
    tl.store(o + at, tl.gather(x, i % N, 1))
    tl.store(o + M * N + at, tl.gather(x, i % M, 0))


@triton.jit
def sorting(a, o, N: tl.constexpr, K: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, N)
    x = tl.load(a + p * N + i)
    tl.store(o + p * (2 * N + K) + i, tl.sort(x))
    tl.store(o + p * (2 * N + K) + N + i, tl.sort(x, descending=True))
    tl.store(o + p * (2 * N + K) + 2 * N + tl.arange(0, K), tl.topk(x, K))


@triton.jit
def histograms(a, o, B: tl.constexpr, BINS: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    x = tl.load(a + p * B + i)
    tl.store(o + p * BINS + tl.arange(0, BINS), tl.histogram(x, BINS) + tl.histogram(x, BINS, mask=i < 5))


@triton.jit
def integers(a, b, o, B: tl.constexpr):
    i = tl.arange(0, B)
    x, y = tl.load(a + i), tl.load(b + i)
    s = (y & 15).to(tl.int32)
    tl.store(o + i, x + y * 3 - 7)
    tl.store(o + B + i, x // y)
    tl.store(o + 2 * B + i, x % y)
    tl.store(o + 3 * B + i, (x << s) ^ (x >> s))
    tl.store(o + 4 * B + i, (x & y) | ~x)
    tl.store(o + 5 * B + i, tl.maximum(x, y) - tl.minimum(x, y) + tl.abs(x))
    tl.store(o + 6 * B + i, tl.where((x < y) & (x != 3) | (x >= 100), x, y))
    tl.store(o + 7 * B + i, tl.clamp(x.to(tl.float32), -5.0, 5.0).to(x.dtype))
    tl.store(o + 8 * B + i, tl.cdiv(x, y))


@triton.jit
def wide_integers(a, b, o, B: tl.constexpr):
    i = tl.arange(0, B)
    x, y = tl.load(a + i), tl.load(b + i)
    tl.store(o + i, tl.umulhi(x, y))
    tl.store(o + B + i, x // (y | 1))
    tl.store(o + 2 * B + i, x % (y | 1))
    tl.store(o + 3 * B + i, x >> (y & 7))
    tl.store(o + 4 * B + i, tl.where(x < y, x, y))


@triton.jit
def integer_casts(a, o8, ou8, o16, o64, ob, of, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(a + i)
    tl.store(o8 + i, x.to(tl.int8))
    tl.store(ou8 + i, x.to(tl.uint8))
    tl.store(o16 + i, x.to(tl.int8).to(tl.int16))
    tl.store(o64 + i, x.to(tl.uint32).to(tl.int64) + x.to(tl.uint8).to(tl.int64))
    tl.store(ob + i, x > 5)
    tl.store(of + i, x.to(tl.float32) + x.to(tl.uint32).to(tl.float32) + (x > 5).to(tl.float32))


@triton.jit
def float_to_integer(a, o32, o8, ou32, o64, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(a + i)
    tl.store(o32 + i, x.to(tl.int32))
    tl.store(o8 + i, x.to(tl.int8))
    tl.store(ou32 + i, tl.abs(x).to(tl.uint32))
    tl.store(o64 + i, x.to(tl.int64))


@triton.jit
def bitcasts(a, o, of, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(a + i)
    bits = x.to(tl.int32, bitcast=True)
    tl.store(o + i, bits)
    tl.store(of + i, (bits ^ -2147483648).to(tl.float32, bitcast=True))


@triton.jit
def convert(a, o, B: tl.constexpr, ROUNDING: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(a + i).to(o.dtype.element_ty, fp_downcast_rounding=ROUNDING))


@triton.jit
def arithmetic(a, b, c, o, B: tl.constexpr):
    i = tl.arange(0, B)
    x, y, z = tl.load(a + i), tl.load(b + i), tl.load(c + i)
    tl.store(o + i, x + y)
    tl.store(o + B + i, x - y)
    tl.store(o + 2 * B + i, x * y)
    tl.store(o + 3 * B + i, (x / y).to(x.dtype))
    tl.store(o + 4 * B + i, tl.fma(x, y, z))
    tl.store(o + 5 * B + i, -x)
    tl.store(o + 6 * B + i, tl.abs(x))
    tl.store(o + 7 * B + i, tl.maximum(x, y))
    tl.store(o + 8 * B + i, tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL))
    tl.store(o + 9 * B + i, tl.where(x > y, x, y))
    tl.store(o + 10 * B + i, tl.clamp(x, tl.minimum(y, z), tl.maximum(y, z)))


@triton.jit
def functions(a, o, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(a + i)
    tl.store(o + i, tl.exp(x))
    tl.store(o + B + i, tl.exp2(x))
    tl.store(o + 2 * B + i, tl.log(tl.abs(x)))
    tl.store(o + 3 * B + i, tl.log2(tl.abs(x)))
    tl.store(o + 4 * B + i, tl.sqrt(tl.abs(x)))
    tl.store(o + 5 * B + i, tl.sin(x))
    tl.store(o + 6 * B + i, tl.cos(x))
    tl.store(o + 7 * B + i, tl.erf(x))
    tl.store(o + 8 * B + i, tl.floor(x))
    tl.store(o + 9 * B + i, tl.ceil(x))
    tl.store(o + 10 * B + i, tl.rsqrt(tl.abs(x)))


@triton.jit
def device_library(a, b, o, oi, B: tl.constexpr):
    i = tl.arange(0, B)
    x, y = tl.load(a + i), tl.load(b + i)
    tl.store(o + i, libdevice.tanh(x))
    tl.store(o + B + i, libdevice.pow(tl.abs(x), y))
    tl.store(o + 2 * B + i, libdevice.log1p(tl.abs(x)))
    tl.store(o + 3 * B + i, libdevice.rint(x))
    tl.store(o + 4 * B + i, libdevice.fmod(x, y))
    tl.store(o + 5 * B + i, libdevice.atan2(x, y))
    tl.store(oi + i, libdevice.isnan(x).to(tl.int32))
    tl.store(oi + B + i, libdevice.float2int_rn(x))
    tl.store(oi + 2 * B + i, libdevice.popc(i * 12345))
    tl.store(oi + 3 * B + i, libdevice.clz(i * 12345))


@triton.jit
def atomics(a, o, old, n, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    x = tl.load(a + p * B + i)
    tl.store(old + p * B + i, tl.atomic_add(o + (i % 4), x, mask=i < n))
    tl.atomic_max(o + 4 + (i % 2), x)
    tl.atomic_min(o + 6, tl.min(x))
    tl.atomic_and(o + 7 + i % 1, x)
    tl.atomic_or(o + 8 + i % 1, x)
    tl.atomic_xor(o + 9 + i % 1, x)
    tl.atomic_xchg(o + 10, p)
    tl.atomic_cas(o + 11, p, p + 1)


@triton.jit
def float_atomics(a, o, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(a + tl.program_id(0) * B + i)
    tl.atomic_add(o + i % 2, x)
    tl.atomic_max(o + 2, tl.max(x))
    tl.atomic_min(o + 3, tl.min(x))


@triton.jit
def spin_lock(a, o, lock):
    p = tl.program_id(0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(o, tl.load(o) * 2.0 + tl.load(a + p))
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def waits_for_ever(o, lock):
    while tl.atomic_cas(lock, 7, 7) != 7:
        pass
    tl.store(o, 1.0)


@triton.jit
def last_one_sums(a, o, parts, counter, n):
    p = tl.program_id(0)
    tl.store(parts + p, tl.load(a + p) * 2.0)
    if tl.atomic_add(counter, 1) == n - 1:
        acc = 0.0
        for k in range(n):
            acc += tl.load(parts + k)
        tl.store(o, acc)


@triton.jit
def made_descriptors(a, o, M, N, BM: tl.constexpr, BN: tl.constexpr):
    r, c = tl.program_id(0) * BM, tl.program_id(1) * BN
    source = tl.make_tensor_descriptor(a, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(o, [M, N], [N, 1], [BM, BN])
    target.store([r, c], source.load([r, c]) * 2.0 + source.load([r + 3, c - 2]))


@triton.jit
def nan_padding(a, o, M, N, B: tl.constexpr):
    source = tl.make_tensor_descriptor(a, [M, N], [N, 1], [B, B], padding_option="nan")
    i = tl.arange(0, B)
    tl.store(o + i[:, None] * B + i[None, :], source.load([0, 0]))


@triton.jit
def passed_descriptors(source, target, B: tl.constexpr):
    r, c = tl.program_id(0) * B, tl.program_id(1) * B
    target.store([c, r], source.load([r, c]).T)
    target.atomic_add([c, r], source.load([r, c]).T)


@triton.jit
def gathering_descriptors(a, o, rows, M, N, B: tl.constexpr):
    source = tl.make_tensor_descriptor(a, [M, N], [N, 1], [1, B])
    target = tl.make_tensor_descriptor(o, [M, N], [N, 1], [1, B])
    i = tl.load(rows + tl.arange(0, 8))
    target.scatter(source.gather(i, 4), tl.arange(0, 8), 0)


@triton.jit
def tuple_arguments(pair, scale, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(pair[0] + i) * scale[0] + tl.load(pair[1] + i) * scale[1])


@triton.jit
def optional_bias(a, bias, o, one, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(a + i * one)
    if bias is not None:
        x += tl.load(bias + i)
    tl.store(o + i, x)


@triton.jit
def assertion(a, o, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(a + i)
    tl.device_assert(x >= 0, "negative input")
    tl.store(o + i, x)


@triton.jit
def assumption(a, o, n):
    tl.assume(n > 3)
    tl.store(o, tl.load(a + n))


@triton.jit
def printing(a, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.device_print("value", tl.load(a + i), tl.program_id(0))


@triton.jit
def clamp_pair(x, y):
    if x > y:
        return y, x * 2.0
    else:
        return x, y


@triton.jit
def mapped(a, b, o, B: tl.constexpr):
    i = tl.arange(0, B)
    x, y = tl.map_elementwise(clamp_pair, tl.load(a + i), tl.load(b + i))
    tl.store(o + i, x)
    tl.store(o + B + i, y)


@triton.jit
def pointers_by_choice(a, b, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    p = tl.program_id(0)
    q = a
    if p % 2 == 1:
        q = b
    x = tl.load(tl.where(i < n, a + i, b + i)) + tl.load(q + i)
    tl.store(o + p * B + i, x)


@triton.jit
def pointer_table(table, o, B: tl.constexpr):
    p = tl.program_id(0)
    q = tl.load(table + p).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, B)
    tl.store(o + p * B + i, tl.load(q + i))


@triton.jit
def dots(a, b, c, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    at = m[:, None] * N + n[None, :]
    z = tl.load(c + at)
    tl.store(o + at, tl.dot(x, y, z, input_precision=PRECISION, out_dtype=z.dtype))


@triton.jit
def batched_dots(a, b, o, S: tl.constexpr):
    s, i = tl.arange(0, 2), tl.arange(0, S)
    at = s[:, None, None] * S * S + i[None, :, None] * S + i[None, None, :]
    tl.store(o + at, tl.dot(tl.load(a + at), tl.load(b + at), input_precision="ieee"))


@triton.jit
def block_scaled(a, sa, b, sb, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, FA: tl.constexpr,
                 FB: tl.constexpr, PA: tl.constexpr, PB: tl.constexpr):  # fmt: skip
    m, n = tl.arange(0, M), tl.arange(0, N)
    ka, kb, ks = tl.arange(0, K // PA), tl.arange(0, K // PB), tl.arange(0, K // 32)
    x = tl.load(a + m[:, None] * (K // PA) + ka[None, :])
    y = tl.load(b + kb[:, None] * N + n[None, :])
    scale_a = tl.load(sa + m[:, None] * (K // 32) + ks[None, :])
    scale_b = tl.load(sb + n[:, None] * (K // 32) + ks[None, :])
    tl.store(o + m[:, None] * N + n[None, :], tl.dot_scaled(x, scale_a, FA, y, scale_b, FB))


@triton.jit
def softmax_rows(a, o, n, stride, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    x = tl.load(a + p * stride + i, mask=i < n, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    e = tl.where(i < n, e, 0.0)
    tl.store(o + p * stride + i, e / tl.sum(e, 0), mask=i < n)


@triton.jit
def without_other(a, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(a + i, mask=i < n))


@triton.jit
def copy(a, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(a + i))


@triton.jit
def assembly(a, o, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(a + i)
    y = tl.inline_asm_elementwise("add.f32 $0, $1, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(o + i, y)


@triton.jit
def fusions(a, b, c, o, B: tl.constexpr, CASE: tl.constexpr):
    i = tl.arange(0, B)
    x, y, z = tl.load(a + i), tl.load(b + i), tl.load(c + i)
    if CASE == 0:
        r = x * y + z
    elif CASE == 1:
        r = z + x * y
    elif CASE == 2:
        r = x * y - z
    elif CASE == 3:
        r = z - x * y
    elif CASE == 4:
        r = x * y + y * z
    elif CASE == 5:
        p = x * z
        tl.store(o + B + i, p)
        r = p + y
    elif CASE == 6:
        p = x * z
        tl.store(o + B + i, p)
        r = p + x * y
    elif CASE == 7:
        r = (x * y) * 2.0 + z
    elif CASE == 8:
        r = tl.where(x > y, x * y, z) + z
    elif CASE == 9:
        r = (x + y) * z
    elif CASE == 10:
        r = -(x * y) + z
    elif CASE == 11:
        r = x * y - y * z
    tl.store(o + i, r)


@triton.jit
def tunable(a, o, n, B: tl.constexpr, SCALE: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(a + i, mask=i < n) * SCALE, mask=i < n)


tuned = triton.autotune(
    [triton.Config({"B": 16, "SCALE": 2}), triton.Config({"B": 32, "SCALE": 3}, num_warps=2)], key=["n"]
)(tunable)


@triton.heuristics({"B": lambda args: triton.next_power_of_2(args["n"]), "SCALE": lambda args: args["n"] // 2})
@triton.jit
def heuristic(a, o, n, B: tl.constexpr, SCALE: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(a + i, mask=i < n) * SCALE, mask=i < n)


@triton.jit
def through_half(a, o, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(a + i)
    y = x * 3.0
    y = y.to(tl.float16).to(tl.float32)
    y = y + 1.0
    tl.store(o + i, y)


@triton.jit
def naive_variance(a, o, B: tl.constexpr):
    p = tl.program_id(0)
    x = tl.load(a + p * B + tl.arange(0, B))
    mean = tl.sum(x, 0) / B
    square = tl.sum(x * x, 0) / B
    variance = square - mean * mean
    tl.store(o + p, variance)


@triton.jit
def two_pass_variance(a, o, B: tl.constexpr):
    p = tl.program_id(0)
    x = tl.load(a + p * B + tl.arange(0, B))
    mean = tl.sum(x, 0) / B
    d = x - mean
    variance = tl.sum(d * d, 0) / B
    tl.store(o + p, variance)


FACTOR = tl.constexpr(3)


@triton.jit
def scaled_by_a_global(a, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(a + i) * FACTOR)


@triton.jit
def block_pointers(a, o, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Twice a matrix, in steps along its rows (not in Triton 3.9)."""
    x = tl.make_block_ptr(a, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    y = tl.make_block_ptr(o, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    for _ in range(0, N, BN):
        values = tl.load(x, boundary_check=(0, 1), padding_option="zero")
        tl.store(y, values + values, boundary_check=(0, 1))
        x = tl.advance(x, (0, BN))
        y = tl.advance(y, (0, BN))
