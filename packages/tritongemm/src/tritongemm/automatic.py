"""`precision="auto"`: the fastest mode that is expected to be as accurate as a plain fp32 sum.

For fp32 operands that is the mode `auto` of `tritongemm.emulation`, which looks at the numbers while it cuts them into
parts and takes `int8x6`, `fp16x3`, `bf16x6` or `ieee`. Other operands, and GPUs without these kernels, get `ieee`.

The look is at all rows at once: a row of data out of range changes the bits, though not the promise, of the others.
Where few products dominate a sum, a plain sum has few roundings that count: there `ieee` can be more accurate, by up to
about 3 times on numbers that span 2**60. The mode's bound is never exceeded.
"""

from __future__ import annotations

from typing import Any

from tritongemm.elements import element_of
from tritongemm.matrices import is_cuda

NAME = "auto"
"""The name of the precision."""


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
    if element_of(a, "a").name != "fp32":
        return "ieee"
    if is_cuda(a):
        from tritongemm.kernels.hopper.candidates import is_hopper

        if not is_hopper(a):
            return "ieee"
    return NAME
