"""fp8 products with a scale for every 1 x 128 stretch of A's rows and every 128 x 128 block of B.

**Summation order.** The 128 products that share two scales are summed from zero on the tensor core, in its 14-bit
accumulator, four steps of 32; the partial sum then goes to an fp32 sum by one fused multiply-add with the product of
its two scales: total = part·(scale_a[m, k/128]·scale_b[k/128, n/128]) + total, in ascending k.

**Bound.** Per part that of a chain of four steps of the fp8 unit, one rounding for the product of scales, and one per
part for the addition: ((1 + t)^4·(1 + 2^-13)^4·(1 + u)·(1 + gamma_parts) - 1)·P with P the sum of
|scale_a·a·scale_b·b| and t = 33·2^-13.

The product of two scales is an fp32 number of its own: from 2^128 on all that it multiplies is infinite, and below
2^-126 it loses bits, whatever the operands are.

**What the numbers mean.** Scales that follow the data keep fp8's 3 or 2 mantissa bits where the data are; the error of
the summation is that of the mode "promote128".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from numfmt import FP8_E5M2
from numfmt.arithmetic import fma_float32
from tritongemm import modes
from tritongemm.configurations import Config
from tritongemm.elements import FP8, element_of, strides_of, values_of
from tritongemm.errors import UsageError
from tritongemm.kernels.blocked import blocked_config
from tritongemm.kernels.epilogue import deliver
from tritongemm.kernels.hopper.candidates import block_scaled as hopper
from tritongemm.kernels.mainloop import load_a, load_b
from tritongemm.kernels.problems import LARGEST_INT32, Operands, home, launch, reach
from tritongemm.kernels.tiles import extent, tile_of
from tritongemm.operands import SCALE_BLOCK
from tritongemm.promises import Error, Promise, rounded

Array = np.ndarray[Any, np.dtype[Any]]

BLOCK = SCALE_BLOCK
"""Products that share two scales, and columns of B that share one."""

HOPPER = ("promoted", "warp_specialised")
"""The kernels that are tried first."""

_U = 2.0**-24


@triton.jit
def block_scaled_kernel(
    a_ptr,
    b_ptr,
    M,
    N,
    K,
    stride_ab,
    stride_am,
    stride_ak,
    stride_bb,
    stride_bk,
    stride_bn,
    out_ptr,
    c_ptr,
    bias_ptr,
    scale_a_ptr,
    scale_b_ptr,
    stride_ob,
    stride_om,
    stride_on,
    stride_cb,
    stride_cm,
    stride_cn,
    stride_bias,
    stride_sa,
    stride_sb,
    alpha,
    beta,
    blocks_a_ptr,
    blocks_b_ptr,
    stride_sam,
    stride_sak,
    stride_sbk,
    stride_sbn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    SCALED: tl.constexpr,
    ACTIVATION: tl.constexpr,
    WIDE: tl.constexpr,
):
    """out = epilogue(the block-scaled product); BLOCK_K is 128, and BLOCK_N divides 128."""
    tile_m, tile_n = tile_of(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    m, live_m = extent(tile_m, M, BLOCK_M, WIDE)
    n, live_n = extent(tile_n, N, BLOCK_N, WIDE)
    k = tl.arange(0, BLOCK_K)
    if WIDE:
        k = k.to(tl.int64)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        depth = start + k
        live_k = depth < K
        a = load_a(a_ptr, m, depth, stride_am, stride_ak, live_m, live_k)
        b = load_b(b_ptr, n, depth, stride_bk, stride_bn, live_n, live_k)
        block = start // BLOCK_K
        scale_a = tl.load(blocks_a_ptr + m * stride_sam + block * stride_sak, mask=live_m, other=0.0)
        # All columns of a tile lie in one block of B.
        scale_b = tl.load(blocks_b_ptr + block * stride_sbk + (tile_n * BLOCK_N // BLOCK_K) * stride_sbn)
        part = tl.dot(a, b, tl.zeros_like(total))
        factor = tl.zeros_like(total) + (scale_a * scale_b)[:, None]
        total = tl.fma(part, factor, total)
    deliver(
        total, 0, m, n, live_m, live_n, out_ptr, c_ptr, bias_ptr, scale_a_ptr, scale_b_ptr,
        stride_ob, stride_om, stride_on, stride_cb, stride_cm, stride_cn, stride_bias, stride_sa, stride_sb,
        alpha, beta, SCALED, ACTIVATION,
    )  # fmt: skip


def block_scaled(operands: Operands, scale_a: Any, scale_b: Any, config: Config | None = None) -> None:
    """A product by a Hopper kernel or by `block_scaled_kernel`; writes to its result.

    Args:
        operands: Two fp8 matrices.
        scale_a: (M, ceil(K / 128)) fp32 scales, any strides.
        scale_b: (ceil(K / 128), ceil(N / 128)) fp32 scales, any strides.
        config: Block sizes (block_k is 128, block_m at least 64, block_n at most 128), warps and stages; the kernel
            is "promoted", "warp_specialised" or "block_scaled". None: the first that takes the product.

    Raises:
        UsageError: Operands, scales or configuration do not fit.
    """
    check_scales(operands, scale_a, scale_b)
    if config is None or config.kernel in HOPPER:
        if hopper(operands, scale_a, scale_b, config):
            return
        if config is not None:
            raise UsageError(f"config: kernel {config.kernel!r} does not take this product in {config}.")
        config = blocked_config(operands).changed(kernel="block_scaled", block_k=BLOCK)
    if config.block_k != BLOCK or config.block_n > BLOCK or config.block_m < 64 or config.warps % 4:
        raise UsageError(f"config: block scales need block_k = 128, block_n <= 128, block_m >= 64; given {config}.")
    grid = (triton.cdiv(operands.M, config.block_m) * triton.cdiv(operands.N, config.block_n),)
    scales = (scale_a, scale_b, *strides_of(scale_a, "scale_a"), *strides_of(scale_b, "scale_b"))
    arguments = (*operands.arguments(), *operands.finishing_arguments(), *scales)
    constants = {**operands.finishing(), **config.blocks, **config.options}
    constants["WIDE"] |= any(reach(x, "scale") > LARGEST_INT32 for x in (scale_a, scale_b))
    launch(block_scaled_kernel, grid, operands, *arguments, **constants)


def check_scales(operands: Operands, scale_a: Any, scale_b: Any) -> None:
    """Refuse operands and scales that do not belong together.

    Raises:
        UsageError: They do not.
    """
    if operands.types[0] not in FP8 or len(operands.a.shape) != 2:
        raise UsageError(f"a: block scales are for two fp8 matrices, given {operands.types[0]} {operands.a.shape}.")
    blocks = -(-int(operands.a.shape[1]) // BLOCK)
    wanted = {"scale_a": (operands.M, blocks), "scale_b": (blocks, -(-operands.N // BLOCK))}
    for name, scale in (("scale_a", scale_a), ("scale_b", scale_b)):
        if tuple(scale.shape) != wanted[name]:
            raise UsageError(
                f"{name}: shape {tuple(scale.shape)}; one scale for each 1 x 128 of A and 128 x 128 of B makes "
                f"{wanted[name]}."
            )
        if element_of(scale, name).name != "fp32":
            raise UsageError(f"{name}: block scales are fp32, given {element_of(scale, name).name}; convert them.")
        if home(scale) != home(operands.out):
            raise UsageError(f"{name}: it lies on {home(scale)}, the operands on {home(operands.out)}; move it.")


def predict_block_scaled(a: Any, b: Any, scale_a: Any, scale_b: Any) -> Array:
    """The accumulator's bits on an H200.

    Args:
        a: (M, K) fp8 matrix.
        b: (K, N) fp8 matrix.
        scale_a: (M, ceil(K / 128)) fp32 scales.
        scale_b: (ceil(K / 128), ceil(N / 128)) fp32 scales.

    Returns:
        (M, N) float32.
    """
    first, second = element_of(a, "a"), element_of(b, "b")
    x, y = values_of(a, first), values_of(b, second)
    rows, columns = (
        values_of(scale_a, element_of(scale_a, "scale_a")),
        values_of(scale_b, element_of(scale_b, "scale_b")),
    )
    fast = modes.get("fast")
    total = np.zeros((x.shape[0], y.shape[1]), np.float32)
    for block in range(-(-x.shape[1] // BLOCK)):
        k = slice(block * BLOCK, (block + 1) * BLOCK)
        part = fast.predict(x[:, k], y[k], types=(first.name, second.name))
        across = np.repeat(columns[block], BLOCK)[: y.shape[1]]
        with np.errstate(all="ignore"):
            total = fma_float32(part, rows[:, block, None] * across, total)
    return modes.canonical(np.asarray(total + np.float32(0)))


def promise(K: int) -> Promise:
    """Bounds of the sum's error in units of the sum of |scale_a·a·scale_b·b|, for K products.

    They hold where all products of two scales are finite in fp32 (below 2**128): such a product is formed first, and is
    infinite beyond, however small the operands. One below 2**-126 is subnormal and loses bits, which `absolute` has.
    """
    parts = -(-K // BLOCK)
    part = modes.get("fast").promise(min(K, BLOCK), "fp8e4m3fn")
    error = rounded(rounded(Error(1 + part.relative_bound, part.probabilistic), 1, _U), parts, _U)
    return Promise(
        error.bound,
        error.factor * (parts * 2.0**-149 + K * float(FP8_E5M2.max) ** 2 * 2.0**-150),
        error.probable,
        "chains of 128 products on the tensor core, scaled and added to an fp32 sum by fused multiply-adds",
    )
