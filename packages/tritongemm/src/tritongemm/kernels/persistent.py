"""A grid as large as the GPU, whose programs take one tile after another and fetch operands by TMA.

**Summation order.** The mode's own, that of `blocked`: how an operand comes into shared memory, and which program
computes a tile, change no bit.

**Bound.** The mode's.

**What the numbers mean.** TMA computes addresses in hardware and needs no registers for them, and the loads of the next
tile begin while the last one is being written. Operands that break TMA's rules (`tritongemm.kernels.descriptors`) are
not taken, and go to `blocked`. So do products of fused multiply-adds: there registers are what is scarce, and holding
parts of two tiles at once spills them.
"""

from __future__ import annotations

import sys

import triton
import triton.language as tl

from tritongemm.configurations import Config
from tritongemm.errors import UsageError
from tritongemm.kernels.blocked import blocked_config, takes_blocked
from tritongemm.kernels.descriptors import contiguous_axis, descriptor
from tritongemm.kernels.epilogue import deliver
from tritongemm.kernels.mainloop import multiply
from tritongemm.kernels.problems import Operands, launch
from tritongemm.kernels.tiles import extent, tile_of, tiles_in
from tritongemm.matrices import is_cuda


@triton.jit
def persistent_kernel(
    a_descriptor,
    b_descriptor,
    M,
    N,
    K,
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
    PROGRAMS: tl.constexpr,
    A_TRANSPOSED: tl.constexpr,
    B_TRANSPOSED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
    IMPRECISE: tl.constexpr,
    PREPARE: tl.constexpr,
    PARTS: tl.constexpr,
    SCALED: tl.constexpr,
    ACTIVATION: tl.constexpr,
    WIDE: tl.constexpr,
    FLATTEN: tl.constexpr,
):
    """out = epilogue(A B). A transposed operand's descriptor has its contiguous axis (m of A, k of B) last."""
    steps = tl.cdiv(K, BLOCK_K)
    for tile in tl.range(tl.program_id(0), tiles_in(M, N, BLOCK_M, BLOCK_N), PROGRAMS, flatten=FLATTEN):
        tile_m, tile_n = tile_of(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACCUMULATOR)
        for step in range(steps):
            if A_TRANSPOSED:
                a = a_descriptor.load([step * BLOCK_K, tile_m * BLOCK_M]).T
            else:
                a = a_descriptor.load([tile_m * BLOCK_M, step * BLOCK_K])
            if B_TRANSPOSED:
                b = b_descriptor.load([tile_n * BLOCK_N, step * BLOCK_K]).T
            else:
                b = b_descriptor.load([step * BLOCK_K, tile_n * BLOCK_N])
            total = multiply(a, b, total, INPUT_PRECISION, IMPRECISE, PREPARE, PARTS)
        m, live_m = extent(tile_m, M, BLOCK_M, WIDE)
        n, live_n = extent(tile_n, N, BLOCK_N, WIDE)
        deliver(
            total, 0, m, n, live_m, live_n, out_ptr, c_ptr, bias_ptr, scale_a_ptr, scale_b_ptr,
            stride_ob, stride_om, stride_on, stride_cb, stride_cm, stride_cn, stride_bias, stride_sa, stride_sb,
            alpha, beta, SCALED, ACTIVATION,
        )  # fmt: skip


def persistent(operands: Operands, config: Config) -> None:
    """A product by `persistent_kernel`; writes to its result.

    Args:
        operands: A product that `takes_persistent`.
        config: Block sizes, warps and stages.
    """
    along_a, along_b = contiguous_axis(operands.a, "a"), contiguous_axis(operands.b, "b")
    if along_a is None or along_b is None:
        raise UsageError("a, b: TMA cannot read one of them (address, stride or size); leave config away.")
    a = descriptor(operands.a, along_a, (config.block_m, config.block_k), "a")
    b = descriptor(operands.b, along_b, (config.block_k, config.block_n), "b")
    programs = min(_multiprocessors(operands), -(-operands.M // config.block_m) * -(-operands.N // config.block_n))
    constants = {**operands.constants(config), **config.blocks, "PROGRAMS": programs}
    constants |= {"A_TRANSPOSED": along_a == 0, "B_TRANSPOSED": along_b == 0}
    # One loop out of two keeps the pipeline filled between tiles; there is none on the CPU.
    constants["FLATTEN"] = is_cuda(operands.out)
    arguments = (a, b, operands.M, operands.N, operands.K, *operands.finishing_arguments())
    launch(persistent_kernel, (programs,), operands, *arguments, **constants)


def takes_persistent(operands: Operands, config: Config | None) -> bool:
    """Whether `persistent` computes a product: single matrices that TMA can read, with some k."""
    if operands.batch != 1 or len(operands.a.shape) != 2 or operands.K == 0 or operands.types[0] == "fp64":
        return False
    if not takes_blocked(operands, config) or not _has_tma(operands):
        return False
    if config is None and (operands.accumulates_by_fma or operands.M * operands.N < _LEAST_OUTPUTS):
        return False
    return contiguous_axis(operands.a, "a") is not None and contiguous_axis(operands.b, "b") is not None


def persistent_config(operands: Operands) -> Config:
    """A configuration that takes the product."""
    return blocked_config(operands).changed(kernel="persistent")


def _has_tma(operands: Operands) -> bool:
    """Whether the product is on a GPU that has the accelerator (Hopper and later), or on the CPU."""
    if not is_cuda(operands.out):
        return True
    return bool(sys.modules["torch"].cuda.get_device_capability(operands.out.device)[0] >= 9)


# Outputs for which it pays to make descriptors: as many tiles of 128 x 128 as a large GPU has multiprocessors.
_LEAST_OUTPUTS = 132 * 128 * 128
# An H200 has 132; on the CPU any number gives the same result.
_PROGRAMS_ON_CPU = 132


def _multiprocessors(operands: Operands) -> int:
    if not is_cuda(operands.out):
        return _PROGRAMS_ON_CPU
    return int(sys.modules["torch"].cuda.get_device_properties(operands.out.device).multi_processor_count)
