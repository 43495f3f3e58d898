"""Small kernels and launchers for the tests of checks: one file, so that the command line can name them."""

import numpy as np
import triton
import triton.language as tl

import fpsan_tools
from fpsan_tools.checking import launch


@triton.jit
def scaled(x, out, n, s, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offset, mask=offset < n, other=0.0)
    tl.store(out + offset, value * s, mask=offset < n)


autotuned = triton.autotune([triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["n"])(scaled)


@triton.jit
def scaled_by_division(x, out, n, s, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offset, mask=offset < n, other=0.0)
    tl.store(out + offset, value / (1.0 / s), mask=offset < n)


@triton.jit
def scaled_without_mask(x, out, n, s, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offset)
    tl.store(out + offset, value * s, mask=offset < n)


@triton.jit
def relu_and_sum(x, out, n, BLOCK: tl.constexpr):
    offset = tl.arange(0, BLOCK)
    value = tl.load(x + offset, mask=offset < n, other=0.0)
    value = tl.where(value > 0, tl.abs(value), 0.0)
    tl.atomic_add(out + offset * 0, value)


@triton.jit
def split_product(a, b, c, PRECISION: tl.constexpr):
    i = tl.arange(0, 16)
    where = i[:, None] * 16 + i[None, :]
    tl.store(c + where, tl.dot(tl.load(a + where), tl.load(b + where), input_precision=PRECISION))


@triton.jit
def formula(x, y, out, n, FORM: tl.constexpr, BLOCK: tl.constexpr):
    """Pairs of forms that real numbers do not tell apart (and some that they do)."""
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = offset < n
    u = tl.load(x + offset, mask=live, other=1.0)
    v = tl.load(y + offset, mask=live, other=1.0)
    if FORM == "2x":
        r = 2.0 * u
    elif FORM == "x+x":
        r = u + u
    elif FORM == "x/4":
        r = u / 4.0
    elif FORM == "x*0.25":
        r = u * 0.25
    elif FORM == "rsqrt":
        r = tl.rsqrt(u)
    elif FORM == "1/sqrt":
        r = 1.0 / tl.sqrt(u)
    elif FORM == "log":
        r = tl.log(u)
    elif FORM == "log2*ln2":
        r = tl.log2(u) * 0.6931471805599453
    elif FORM == "to fp8":
        r = u.to(tl.float8e5).to(tl.float32)
    elif FORM == "to fp16 to fp8":
        r = u.to(tl.float16).to(tl.float8e5).to(tl.float32)
    elif FORM == "x-y":
        r = u - v
    elif FORM == "y-x":
        r = v - u
    elif FORM == "x/y":
        r = u / v
    elif FORM == "y/x":
        r = v / u
    elif FORM == "x*(1/y)":
        r = u * (1.0 / v).to(u.dtype)
    elif FORM == "x":
        r = u
    elif FORM == "x+y":
        r = u + v
    elif FORM == "3*x":
        r = 3.0 * u
    elif FORM == "x through fp16":
        r = u.to(tl.float16).to(tl.float32)
    tl.store(out + offset, r, mask=live)


@triton.jit
def softmax(x, y, n, SUBTRACT: tl.constexpr, ZEROED: tl.constexpr, BLOCK: tl.constexpr):
    offset = tl.arange(0, BLOCK)
    live = offset < n
    value = tl.load(x + tl.program_id(0) * n + offset, mask=live, other=-float("inf"))
    if SUBTRACT:
        value = value - tl.max(value, axis=0)
    power = tl.exp(value)
    if ZEROED:
        power = tl.where(live, power, 0.0)
    tl.store(y + tl.program_id(0) * n + offset, power / tl.sum(power, axis=0), mask=live)


@triton.jit
def transposed_copy(x, out, rows, columns, TURN: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    live = (i < rows)[:, None] & (i < columns)[None, :]
    value = tl.load(x + i[:, None] * columns + i[None, :], mask=live)
    to = i[None, :] * rows + i[:, None] if TURN else i[:, None] * columns + i[None, :]
    tl.store(out + to, value, mask=live)


@triton.jit
def product(a, b, c, K, NARROW: tl.constexpr, LAST: tl.constexpr, BLOCK: tl.constexpr):
    """A tile of a product; NARROW rounds the sum at every step, LAST leaves out the last step."""
    i, k = tl.arange(0, 16), tl.arange(0, BLOCK)
    total = tl.zeros((16, 16), tl.float32)
    for start in range(0, K if LAST else K - BLOCK, BLOCK):
        x = tl.load(a + i[:, None] * K + start + k[None, :])
        y = tl.load(b + (start + k)[:, None] * 16 + i[None, :])
        total = tl.dot(x, y, total)
        if NARROW:
            total = total.to(tl.bfloat16).to(tl.float32)  # narrowed on the way
    tl.store(c + i[:, None] * 16 + i[None, :], total.to(tl.bfloat16))  # narrowed at the end


def cdiv(a, b):
    return -(-a // b)


def scaling_inputs(rng, n=100):
    return {"x": rng.standard_normal(n).astype(np.float32), "out": np.zeros(n, np.float32), "n": n, "s": 0.3}


def by_64(x, out, n, s):
    scaled[(cdiv(n, 64),)](x, out, n, s, BLOCK=64)


def by_32(x, out, n, s):
    scaled[(cdiv(n, 32),)](x, out, n, s, BLOCK=32)


def tail_dropped(x, out, n, s):
    scaled[(n // 32,)](x, out, n, s, BLOCK=32)


def form(name):
    return launch(formula, lambda bound: (cdiv(bound["n"], 32),), FORM=name, BLOCK=32)


def form_inputs(rng, n=70):
    x, y = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    return {"x": x, "y": y, "out": np.zeros(n, np.float32), "n": n}


def softmax_side(subtract=True, zeroed=True, block=64):
    def side(x, y):
        rows, n = x.shape
        softmax[(rows,)](x, y, n, SUBTRACT=subtract, ZEROED=zeroed, BLOCK=block * cdiv(n, block))

    return side


def power_of_two(n):
    return 1 << (n - 1).bit_length()


def softmax_by_power_of_two(subtract=True, zeroed=True):
    def side(x, y):
        rows, n = x.shape
        softmax[(rows,)](x, y, n, SUBTRACT=subtract, ZEROED=zeroed, BLOCK=max(16, power_of_two(n)))

    return side


def softmax_inputs(rng, M=3, N=48):
    return {"x": rng.standard_normal((M, N)).astype(np.float32), "y": np.zeros((M, N), np.float32)}


def product_side(narrow=False, last=True, block=16):
    return launch(product, (1,), NARROW=narrow, LAST=last, BLOCK=block)


right_product, narrowed_product = product_side(block=32), product_side(narrow=True)


def bf16(values):
    return fpsan_tools.typed((values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16), "bf16")


def product_inputs(rng):
    K = 64
    a, b = (bf16(rng.standard_normal(shape)) for shape in ((16, K), (K, 16)))
    return {"a": a, "b": b, "c": bf16(np.zeros((16, 16))), "K": K}
