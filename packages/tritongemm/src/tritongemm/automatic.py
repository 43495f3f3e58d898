"""`precision="auto"`: a fast mode that is as accurate as a plain fp32 sum on data of like size.

For fp32 operands and sums of at least 64 products that is `fp16x3`, three products of scaled fp16 parts, behind the
guard of `tritongemm.emulation`: it looks at the data while it splits them, and where numbers are out of the parts'
range it computes in `bf16x6`, or in `ieee`. Shorter sums, other operands, and GPUs without these kernels get `ieee`.
The choice of fp16x3 depends on K and the type alone; the guard's looks at all rows, so a row of data out of range
changes the bits (not the promise) of the others.

Where few products dominate a sum, a plain sum has few roundings that count: there `ieee` can be more accurate, by up to
about 3 times on numbers that span 2**60. The bound that is never exceeded is that of `fp16x3`.
"""

from __future__ import annotations

from typing import Any

from tritongemm.elements import element_of
from tritongemm.matrices import is_cuda

NAME = "auto"
"""The name of the precision."""

LEAST_K = 64
"""The shortest sum for which `fp16x3` is taken. Its operands keep 22 bits of 24, which costs short sums more than their
few additions do: on an H200 both errors are equal at about 16 products of uniform and 32 of normal numbers."""


def resolved(precision: str, a: Any) -> str:
    """The mode that a precision stands for.

    Args:
        precision: "auto", or a mode, which stands for itself.
        a: The (M, K) operand, or a batch.

    Returns:
        The mode's name.
    """
    if precision != NAME:
        return precision
    if element_of(a, "a").name != "fp32" or a.shape[-1] < LEAST_K:
        return "ieee"
    if is_cuda(a):
        from tritongemm.kernels.hopper.candidates import is_hopper

        if not is_hopper(a):
            return "ieee"
    return "fp16x3"
