"""The sum over k that every tiled kernel shares: masked loads, what a mode does to operands, and `tl.dot`.

Rows, columns and depths beyond the matrices are masked off, never wrapped around: a masked element reads nothing, so it
cannot read a NaN of the surroundings, and it counts as a zero product, which changes no sum.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def nearest_tf32(x):
    """fp32 numbers rounded to tf32, to nearest, ties away from zero; NaN as `even_tf32` has it."""
    rounded = tl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)
    return tl.where(x == x, rounded.to(tl.uint32, bitcast=True), 0x7FFFFFFF).to(tl.float32, bitcast=True)


@triton.jit
def even_tf32(x):
    """fp32 numbers rounded to tf32, to nearest, ties to even.

    By integers: the instruction (cvt.rn.tf32.f32) is one of compute capability 9.0 and newer. NaN becomes the one whose
    bits are all ones: what the tensor core cuts off may be all that tells a NaN from an infinity.
    """
    bits = x.to(tl.uint32, bitcast=True)
    rounded = (bits + 0xFFF + ((bits >> 13) & 1)) & 0xFFFFE000
    return tl.where(x == x, rounded, 0x7FFFFFFF).to(tl.float32, bitcast=True)


@triton.jit
def bf16_part(x):
    """The nearest bf16 number, and what is left, as fp32."""
    part = x.to(tl.bfloat16)
    return part, x - part.to(tl.float32)


@triton.jit
def load_a(a_ptr, m, depth, stride_am, stride_ak, live_m, live_k):
    """A tile of A: rows m, depths `depth`; zeros where not live."""
    at = a_ptr + m[:, None] * stride_am + depth[None, :] * stride_ak
    return tl.load(at, mask=live_m[:, None] & live_k[None, :], other=0.0)


@triton.jit
def load_b(b_ptr, n, depth, stride_bk, stride_bn, live_n, live_k):
    """A tile of B: depths `depth`, columns n; zeros where not live."""
    at = b_ptr + depth[:, None] * stride_bk + n[None, :] * stride_bn
    return tl.load(at, mask=live_k[:, None] & live_n[None, :], other=0.0)


@triton.jit
def multiply(
    a, b, total, INPUT_PRECISION: tl.constexpr, IMPRECISE: tl.constexpr, PREPARE: tl.constexpr, PARTS: tl.constexpr
):
    """total + a b in a mode's arithmetic.

    INPUT_PRECISION and IMPRECISE are `tl.dot`'s, PREPARE "tf32" and "tf32_even" round fp32 operands first, PARTS 3
    multiplies three bf16 parts of each, small products first, all chained through the accumulator.
    """
    if PARTS == 3:
        a0, rest_a = bf16_part(a)
        a1, rest_a = bf16_part(rest_a)
        a2 = rest_a.to(tl.bfloat16)
        b0, rest_b = bf16_part(b)
        b1, rest_b = bf16_part(rest_b)
        b2 = rest_b.to(tl.bfloat16)
        total = tl.dot(a1, b1, total, out_dtype=total.dtype)
        total = tl.dot(a2, b0, total, out_dtype=total.dtype)
        total = tl.dot(a0, b2, total, out_dtype=total.dtype)
        total = tl.dot(a1, b0, total, out_dtype=total.dtype)
        total = tl.dot(a0, b1, total, out_dtype=total.dtype)
        return tl.dot(a0, b0, total, out_dtype=total.dtype)
    else:
        if PREPARE == "tf32":
            a = nearest_tf32(a)
            b = nearest_tf32(b)
        elif PREPARE == "tf32_even":
            a = even_tf32(a)
            b = even_tf32(b)
        return tl.dot(
            a,
            b,
            total,
            input_precision=INPUT_PRECISION,
            max_num_imprecise_acc=IMPRECISE,
            out_dtype=total.dtype,
        )


@triton.jit
def sum_of_products(
    a_ptr,
    b_ptr,
    m,
    n,
    live_m,
    live_n,
    first,
    last,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    ACCUMULATOR: tl.constexpr,
    BLOCK_K: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
    IMPRECISE: tl.constexpr,
    PREPARE: tl.constexpr,
    PARTS: tl.constexpr,
    WIDE: tl.constexpr,
):
    """The sum over k in [first, last) of A[m, k]·B[k, n], from zero, for rows m and columns n of a tile."""
    total = tl.zeros((m.shape[0], n.shape[0]), dtype=ACCUMULATOR)
    k = tl.arange(0, BLOCK_K)
    if WIDE:
        k = k.to(tl.int64)
    for start in range(first, last, BLOCK_K):
        depth = start + k
        live_k = depth < last
        a = load_a(a_ptr, m, depth, stride_am, stride_ak, live_m, live_k)
        b = load_b(b_ptr, n, depth, stride_bk, stride_bn, live_n, live_k)
        total = multiply(a, b, total, INPUT_PRECISION, IMPRECISE, PREPARE, PARTS)
    return total
