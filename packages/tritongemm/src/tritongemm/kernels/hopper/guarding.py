"""Decides on the GPU whether emulated products keep their promise for these data, and computes again what they cannot.

No number travels to the host: a verdict is an integer in GPU memory that later kernels read, so that a guarded product
can be captured in a CUDA graph. `verdict_kernel` reads the facts of all rows of A and columns of B that the splitting
kernels wrote. The emulated kernel computes nothing if the verdict is not KEEP. `rescue_kernel` then computes the whole
product in another mode; after KEEP it computes only outputs whose row or column holds Inf or NaN, in fp32 arithmetic.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from tritongemm.kernels.epilogue import finished
from tritongemm.kernels.hopper.splitting import _ROW_OF_ZEROS, _SPECIAL
from tritongemm.kernels.mainloop import sum_of_products
from tritongemm.kernels.tiles import extent, tile_of, tiles_in

KEEP, BF16X6, IEEE, LEAVE = 0, 1, 2, 3
"""Verdicts: the emulated product stands; it is computed again as bf16x6, or with fp32 arithmetic; or it is another
launch's business."""

_KEEP, _BF16X6, _IEEE, _LEAVE = (tl.constexpr(code) for code in (KEEP, BF16X6, IEEE, LEAVE))


@triton.jit
def side_facts(exponents_ptr, energy_ptr, small_ptr, R, K, BLOCK: tl.constexpr, ENERGY: tl.constexpr):
    """Facts of an operand's rows: most small numbers, whether any row is special, least and largest exponent, largest
    and total inverse energy.

    An inverse energy is K / energy in fp32, times 2**40, without its fraction: integers add up in any order, and fp32
    division is the same everywhere.
    """
    small = tl.zeros((BLOCK,), tl.int32)
    special = tl.zeros((BLOCK,), tl.int32)
    least = tl.zeros((BLOCK,), tl.int32) + 1000
    most = tl.zeros((BLOCK,), tl.int32) - 1000
    worst = tl.zeros((BLOCK,), tl.int64)
    total = tl.zeros((BLOCK,), tl.int64)
    for start in range(0, R, BLOCK):
        r = start + tl.arange(0, BLOCK)
        count = tl.load(small_ptr + r, mask=r < R, other=0)
        exponents = tl.load(exponents_ptr + r, mask=r < R, other=0)
        least = tl.minimum(least, tl.where(r < R, exponents, 1000))
        most = tl.maximum(most, tl.where(r < R, exponents, -1000))
        small = tl.maximum(small, count & (_SPECIAL - 1))
        special |= count >> 30
        if ENERGY:
            energy = tl.load(energy_ptr + r, mask=r < R, other=_ROW_OF_ZEROS).to(tl.float32)
            inverse = tl.div_rn(tl.zeros_like(energy) + K.to(tl.float32), energy) * 1099511627776.0
            inverse = inverse.to(tl.int64)
            worst = tl.maximum(worst, inverse)
            total += inverse
    if ENERGY:
        return (
            tl.max(small, 0),
            tl.max(special, 0),
            tl.min(least, 0),
            tl.max(most, 0),
            tl.max(worst, 0),
            tl.sum(total, 0),
        )
    else:
        return tl.max(small, 0), tl.max(special, 0), tl.min(least, 0), tl.max(most, 0), 0, 0


@triton.jit
def verdict_kernel(
    exponents_a, energy_a, small_a, exponents_b, energy_b, small_b, verdict_ptr, M, N, K,
    most_small, worst_inverse, mean_inverse, least_exponent, most_exponent, gate_ptr, OTHERWISE: tl.constexpr,
    ENERGY: tl.constexpr, GATED: tl.constexpr, BLOCK: tl.constexpr, ready_ptr=None, first_tile=0, rows_per_tile=1,
    EARLY: tl.constexpr = False,
):  # fmt: skip
    """verdict[0]: what to do; [1]: whether some row or column is special; [2], [3]: most small numbers of a row of A,
    of a column of B; [4]: the least exponent; [5], [6]: bits of the largest inverse energy and of the larger mean;
    [7]: 0.

    Args:
        most_small: Small numbers that a row may hold.
        worst_inverse: Largest inverse energy of a row.
        mean_inverse: Largest mean of inverse energies.
        least_exponent: Exponent of the smallest row that bf16 parts hold without loss.
        most_exponent: Exponent of the largest row that bf16 can hold.
        OTHERWISE: Verdict if something is beyond its limit; BF16X6 becomes IEEE for rows below
            `least_exponent` or above `most_exponent`.
        ENERGY: Whether energies count.
        GATED: If gate_ptr holds KEEP, the product stands already and the verdict is LEAVE.
        EARLY: The product is still at work, and cuts rows of A from tile `first_tile` on: ready_ptr counts them.
    """
    if EARLY:
        gdc_launch_dependents()
        for tile in range(first_tile, tl.cdiv(M, rows_per_tile)):
            wanted = tl.minimum(rows_per_tile, M - tile * rows_per_tile)
            while tl.atomic_load(ready_ptr + tile, sem="acquire") < wanted:
                pass
    if GATED:
        if tl.load(gate_ptr) == _KEEP:
            tl.store(verdict_ptr, _LEAVE)
            return
    sa, xa, ea, la, wa, ta = side_facts(exponents_a, energy_a, small_a, M, K, BLOCK, ENERGY)
    sb, xb, eb, lb, wb, tb = side_facts(exponents_b, energy_b, small_b, N, K, BLOCK, ENERGY)
    kept = tl.maximum(sa, sb) <= most_small
    if ENERGY:
        kept = kept & (tl.maximum(wa, wb) <= worst_inverse)
        kept = kept & (ta // M <= mean_inverse) & (tb // N <= mean_inverse)
    otherwise = OTHERWISE
    if OTHERWISE == _BF16X6:
        out_of_range = (tl.minimum(ea, eb) < least_exponent) | (tl.maximum(la, lb) > most_exponent)
        otherwise = tl.where(out_of_range, _IEEE, OTHERWISE)
    tl.store(verdict_ptr, tl.where(kept, _KEEP, otherwise))
    tl.store(verdict_ptr + 1, xa | xb)
    tl.store(verdict_ptr + 2, sa)
    tl.store(verdict_ptr + 3, sb)
    tl.store(verdict_ptr + 4, tl.minimum(ea, eb))
    worst = 0
    mean = 0
    if ENERGY:
        worst = tl.maximum(wa, wb).to(tl.float32).to(tl.int32, bitcast=True)
        mean = tl.maximum(ta // M, tb // N).to(tl.float32).to(tl.int32, bitcast=True)
    tl.store(verdict_ptr + 5, worst)
    tl.store(verdict_ptr + 6, mean)
    tl.store(verdict_ptr + 7, 0)
    if EARLY:
        gdc_wait()  # the next kernel waits for this one only


@triton.jit
def rescue_kernel(
    a_ptr, b_ptr, out_ptr, c_ptr, bias_ptr, verdict_ptr, small_a, small_b, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_om, stride_on, stride_cm, stride_cn, stride_bias, alpha, beta,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr, GUARDED: tl.constexpr, SCALED: tl.constexpr,
    ACTIVATION: tl.constexpr, WIDE: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """Computes what the verdict asks for; nothing in most launches, which end after two loads.

    EARLY: Launched before the verdict is there.
    """
    if EARLY:
        gdc_wait()
    verdict = _KEEP
    if GUARDED:
        verdict = tl.load(verdict_ptr)
    special = tl.load(verdict_ptr + 1)
    asked = (verdict != _LEAVE) & ((verdict != _KEEP) | (special != 0))
    tiles = tl.where(asked, tiles_in(M, N, BLOCK_M, BLOCK_N), 0)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        tile_m, tile_n = tile_of(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        m, live_m = extent(tile_m, M, BLOCK_M, WIDE)
        n, live_n = extent(tile_n, N, BLOCK_N, WIDE)
        rows = tl.load(small_a + m, mask=live_m, other=0) >= _SPECIAL
        columns = tl.load(small_b + n, mask=live_n, other=0) >= _SPECIAL
        here = (tl.max(rows.to(tl.int32), 0) | tl.max(columns.to(tl.int32), 0)) != 0
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        if (verdict == _IEEE) | here:
            total = sum_of_products(
                a_ptr, b_ptr, m, n, live_m, live_n, 0, K, stride_am, stride_ak, stride_bk, stride_bn,
                tl.float32, 32, "ieee", None, "", 0, WIDE,
            )  # fmt: skip
        flagged = rows[:, None] | columns[None, :]
        write = flagged
        if verdict == _BF16X6:
            other = sum_of_products(
                a_ptr, b_ptr, m, n, live_m, live_n, 0, K, stride_am, stride_ak, stride_bk, stride_bn,
                tl.float32, 32, "bf16x6", None, "", 0, WIDE,
            )  # fmt: skip
            total = tl.where(flagged, total, other)
        if (verdict != _KEEP) | here:
            write = write | (verdict != _KEEP)
            result = finished(
                total, m, n, live_m, live_n, c_ptr, bias_ptr, None, None, stride_cm, stride_cn, stride_bias, 0, 0,
                alpha, beta, SCALED, ACTIVATION,
            )  # fmt: skip
            at = out_ptr + m[:, None] * stride_om + n[None, :] * stride_on
            tl.store(at, result.to(out_ptr.dtype.element_ty), mask=write & live_m[:, None] & live_n[None, :])
