"""A matrix product in Triton into which a bug can be planted: the patient of the lecture "fpsan"."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

__all__ = ["BUGS", "product"]

BUGS = (
    "none",
    "dropped_tail",
    "lost_product",
    "repeated_row",
    "hidden_cast",
    "unmasked_operand",
    "unmasked_store",
)
"""What can be planted, the sound kernel first."""


@triton.jit
def product_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BUG: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """C = A B for contiguous row-major matrices, one program per BLOCK x BLOCK tile of C."""
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, BLOCK_K)
    live_m = (m < M)[:, None]
    live_n = (n < N)[None, :]
    row = tl.minimum(m, M - 2) if BUG == "repeated_row" else m
    end = K - BLOCK_K + 1 if BUG == "dropped_tail" else K
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, end, BLOCK_K):
        depth = start + k
        live_k = depth < K
        if BUG == "lost_product":
            live_k = live_k & (depth != K // 2)
        live_a = live_m if BUG == "unmasked_operand" else live_m & live_k[None, :]
        a = tl.load(a_ptr + row[:, None] * K + depth[None, :], mask=live_a, other=0.0)
        b = tl.load(b_ptr + depth[:, None] * N + n[None, :], mask=live_k[:, None] & live_n, other=0.0)
        if BUG == "hidden_cast":
            a = a.to(tl.float16).to(tl.float32)
        total = tl.dot(a, b, total, input_precision="ieee")
    live_c = live_m & (n < N + 1)[None, :] if BUG == "unmasked_store" else live_m & live_n
    tl.store(c_ptr + m[:, None] * N + n[None, :], total, mask=live_c)


def product(a: Any, b: Any, c: Any, bug: str = "none", block: int = 16, block_k: int = 32) -> None:
    """Launch the kernel; on a CPU inside `fpsan_tools.on_cpu`.

    Args:
        a: (M, K) fp32, contiguous.
        b: (K, N) fp32, contiguous.
        c: (M, N) fp32, contiguous; written.
        bug: one of `BUGS`.
        block: rows and columns of a tile of C.
        block_k: products per step.
    """
    (rows, depth), columns = a.shape, b.shape[1]
    grid = (triton.cdiv(rows, block), triton.cdiv(columns, block))
    product_kernel[grid](a, b, c, rows, columns, depth, BUG=bug, BLOCK=block, BLOCK_K=block_k)
