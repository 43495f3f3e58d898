"""What happens to a finished sum: result = activation(beta·C + (alpha·sum + bias)), rounded once to the result's type.

**Order.** In the accumulator's type: t = alpha·sum + bias as one fused multiply-add, then t = beta·C + t as another,
then the activation. Where rows of A and columns of B have scales, alpha is (scale_a·scale_b)·alpha, each product
rounded. Parts that are absent are left out, not computed with neutral numbers: with beta = 0 nothing of C
is read, so its NaN cannot come through. The order is written out as fused operations, so a compiler has no choice left
that could change a bit. Zero sums are +0, whatever K was padded to.

**Bound.** Each of the at most two fused operations and the final rounding add one rounding of their result. ReLU is
exact; GELU (the exact one, by erf) and SiLU use the GPU's exp and erf, which are no more than a few ulps off.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl

from tritongemm.errors import UsageError
from tritongemm.operands import check_activation

_HALF_SQRT = tl.constexpr(0.7071067811865476)  # sqrt(1/2)


@dataclass(frozen=True)
class Epilogue:
    """What happens to a finished sum, before it is rounded to the result's type.

    Attributes:
        alpha: Factor of the sum.
        beta: Factor of C; 0 does not read C.
        c: (M, N) or (batch, M, N) matrix of the result's library, of any type and strides.
        bias: (N,) vector, added to every row.
        activation: None, "relu", "gelu" (by erf) or "silu".
        scale_a: Scales of A: one number, or one per row (M, 1); an array of the result's library.
        scale_b: Scales of B: one number, or one per column (1, N).

    Raises:
        UsageError: beta without C, a factor that is no number, or an unknown activation.
    """

    alpha: float = 1.0
    beta: float = 0.0
    c: Any = None
    bias: Any = None
    activation: str | None = None
    scale_a: Any = None
    scale_b: Any = None

    def __post_init__(self) -> None:
        for name in ("alpha", "beta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UsageError(f"{name}: a real number, given {value!r}.")
        if self.beta != 0 and self.c is None:
            raise UsageError(f"c: beta = {self.beta} needs a matrix C; pass c, or leave beta away.")
        check_activation(self.activation)
        if (self.scale_a is None) != (self.scale_b is None):
            missing = "scale_a" if self.scale_a is None else "scale_b"
            raise UsageError(f"{missing}: scales come in pairs; pass both, a single 1.0 where an operand has none.")

    @property
    def reads_c(self) -> bool:
        """Whether C is read at all."""
        return self.c is not None and self.beta != 0

    @property
    def addend(self) -> Any:
        """C where it is read, else None."""
        return self.c if self.reads_c else None

    @property
    def flags(self) -> dict[str, Any]:
        """What the kernels for Hopper GPUs are compiled for."""
        return {
            "ALPHA": self.alpha != 1,
            "ADD": self.reads_c,
            "BIAS": self.bias is not None,
            "ACTIVATION": self.activation,
        }

    @property
    def trivial(self) -> bool:
        """Whether the result is just the sum, rounded."""
        plain = self.alpha == 1 and self.scale_a is None and self.bias is None
        return plain and not self.reads_c and self.activation is None

    def factor(self, name: str, wide: bool) -> float | int:
        """alpha or beta as kernels take them: a number, which becomes fp32; for fp64 sums the bits of the fp64 number.

        Args:
            name: "alpha" or "beta".
            wide: Whether sums are fp64.
        """
        value = float(getattr(self, name))
        return int(struct.unpack("<q", struct.pack("<d", value))[0]) if wide else value


@triton.jit
def factor_of(value, total):
    """A factor in the accumulator's type; fp64 factors come as bits, since a launch passes floats as fp32."""
    if total.dtype == tl.float64:
        return value.to(tl.int64).to(tl.float64, bitcast=True)
    else:
        return value


@triton.jit
def activated(x, ACTIVATION: tl.constexpr):
    """The activation of a tile; NaN stays NaN."""
    if ACTIVATION == "relu":
        return tl.where(x <= 0, 0.0, x)
    elif ACTIVATION == "gelu":
        return 0.5 * x * (1.0 + tl.erf(x * _HALF_SQRT))
    elif ACTIVATION == "silu":
        return x / (1.0 + tl.exp(-x))
    else:
        return x


@triton.jit
def finished(
    total,
    m,
    n,
    live_m,
    live_n,
    c_ptr,
    bias_ptr,
    scale_a_ptr,
    scale_b_ptr,
    stride_cm,
    stride_cn,
    stride_bias,
    stride_sa,
    stride_sb,
    alpha,
    beta,
    SCALED: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    """A tile of finished sums, with scales, alpha, bias, C and the activation applied, in the accumulator's type.

    SCALED says that alpha is not 1; the pointers are None where there is no C, no bias or no scales.
    """
    total = total + 0.0  # -0 becomes +0: what is left does not depend on how many zero products K was padded with
    factor = tl.zeros_like(total) + 1.0
    if scale_a_ptr is not None:
        scale_a = tl.load(scale_a_ptr + m * stride_sa, mask=live_m, other=0.0).to(total.dtype)
        scale_b = tl.load(scale_b_ptr + n * stride_sb, mask=live_n, other=0.0).to(total.dtype)
        factor = scale_a[:, None] * scale_b[None, :]
        if SCALED:
            factor = factor * factor_of(alpha, total)
    elif SCALED:
        factor = tl.zeros_like(total) + factor_of(alpha, total)
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + n * stride_bias, mask=live_n, other=0.0).to(total.dtype)[None, :]
        if SCALED or scale_a_ptr is not None:
            total = tl.fma(total, factor, tl.zeros_like(total) + bias)
        else:
            total = total + bias
    elif SCALED or scale_a_ptr is not None:
        total = total * factor
    if c_ptr is not None:
        at = c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn
        c = tl.load(at, mask=live_m[:, None] & live_n[None, :], other=0.0).to(total.dtype)
        total = tl.fma(c, tl.zeros_like(total) + factor_of(beta, total), total)
    return activated(total, ACTIVATION)


@triton.jit
def store(total, m, n, live_m, live_n, out_ptr, stride_om, stride_on):
    """Write a tile, rounded to the result's type; nothing outside the matrix is touched."""
    at = out_ptr + m[:, None] * stride_om + n[None, :] * stride_on
    tl.store(at, total.to(out_ptr.dtype.element_ty), mask=live_m[:, None] & live_n[None, :])


@triton.jit
def deliver(
    total,
    batch,
    m,
    n,
    live_m,
    live_n,
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
    SCALED: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    """Finish a tile of sums and write it to product `batch` of the result."""
    if c_ptr is not None:
        c_ptr += batch * stride_cb
    total = finished(
        total, m, n, live_m, live_n, c_ptr, bias_ptr, scale_a_ptr, scale_b_ptr,
        stride_cm, stride_cn, stride_bias, stride_sa, stride_sb, alpha, beta, SCALED, ACTIVATION,
    )  # fmt: skip
    store(total, m, n, live_m, live_n, out_ptr + batch * stride_ob, stride_om, stride_on)
