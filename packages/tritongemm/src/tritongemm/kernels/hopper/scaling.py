"""Scales sums in memory and applies the epilogue: the end of emulated products that took several launches."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from tritongemm.elements import strides_of
from tritongemm.kernels.epilogue import Epilogue, finished
from tritongemm.kernels.hopper.splitting import power_of_two
from tritongemm.launches import launch

_FARTHEST = tl.constexpr(252)


@triton.jit
def scaling_kernel(
    sums_ptr, rows_ptr, columns_ptr, out_ptr, c_ptr, bias_ptr, gate_ptr, gate_value, M, N, stride_om, stride_cm,
    stride_cn, stride_bias, alpha, beta, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SCALED: tl.constexpr,
    ACTIVATION: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    """out = epilogue(sums·2**(rows + columns)), sums contiguous, if gate_ptr holds gate_value or GATED is false."""
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    live_m, live_n = m < M, n < N
    live = live_m[:, None] & live_n[None, :]
    if GATED:
        live = live & (tl.load(gate_ptr) == gate_value)
    total = tl.load(sums_ptr + m[:, None] * N + n[None, :], mask=live, other=0.0)
    rows = tl.load(rows_ptr + m, mask=live_m, other=0)
    columns = tl.load(columns_ptr + n, mask=live_n, other=0)
    exponents = tl.minimum(tl.maximum(rows[:, None] + columns[None, :], -_FARTHEST), _FARTHEST)
    half = exponents >> 1
    total = total * power_of_two(half) * power_of_two(exponents - half)
    total = tl.where(total == 0.0, 0.0, total)  # not left to an addition, which may be fused with the multiplication
    total = finished(
        total, m, n, live_m, live_n, c_ptr, bias_ptr, None, None, stride_cm, stride_cn, stride_bias, 0, 0, alpha, beta,
        SCALED, ACTIVATION,
    )  # fmt: skip
    at = out_ptr + m[:, None] * stride_om + n[None, :]
    tl.store(at, total.to(out_ptr.dtype.element_ty), mask=live)


def scale(sums: Any, rows: Any, columns: Any, out: Any, epilogue: Epilogue, gate: Any) -> None:
    """Launches `scaling_kernel`.

    Args:
        sums: (M, N) fp32, contiguous.
        rows: int32 exponents of rows.
        columns: int32 exponents of columns.
        out: (M, N) result with contiguous rows.
        epilogue: What happens to the scaled sums.
        gate: When to do it (`launching.Gate`), or None.
    """
    M, N = out.shape
    c, bias = epilogue.addend, epilogue.bias
    launch(
        scaling_kernel, (triton.cdiv(M, 16), triton.cdiv(N, 128)), sums, rows, columns, out, c, bias,
        out if gate is None else gate.verdict, 0 if gate is None else gate.value, M, N, out.stride(0),
        *((0, 0) if c is None else strides_of(c, "c")), 0 if bias is None else strides_of(bias, "bias")[0],
        float(epilogue.alpha), float(epilogue.beta), BLOCK_M=16, BLOCK_N=128, SCALED=epilogue.alpha != 1,
        ACTIVATION=epilogue.activation, GATED=gate is not None, num_warps=4, enable_fp_fusion=True,
    )  # fmt: skip
