"""`precision="auto"`: the fastest mode that is expected to be as accurate as a plain fp32 sum.

For fp32 operands that is the mode `auto` of `tritongemm.emulation`, which looks at the numbers while it cuts them into
parts and takes `int8x6`, `fp16x3`, `bf16x6` or `ieee`. Other operands, and GPUs without these kernels, get `ieee`.

What was taken, and why, is what `tritongemm.last_outcome()` tells.

The look is at all rows at once: a row of data out of range changes the bits, though not the promise, of the others.
Where few products dominate a sum, a plain sum has few roundings that count: there `ieee` can be more accurate, by up to
about 3 times on numbers that span 2**60. Each operand is looked at by itself, and an eighth of a row may be small:
where only those meet anything but zeros, as in products with triangular matrices of columns on different scales, all of
the result can be lost. The mode's bound, whose `scaled` term counts in units of the row's and the column's largest
numbers, is never exceeded; such data want `ieee` or `bf16x6`.
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
    return "ieee" if precision == NAME and reason(a) else precision


def of_type(precision: str, operands: str) -> str:
    """The mode that bounds what a precision gives for operands of a type, on any device.

    Args:
        precision: "auto", or a mode, which stands for itself.
        operands: The type, a name of `tritongemm.elements.ELEMENTS`.

    Returns:
        The mode's name.
    """
    return "ieee" if precision == NAME and operands != "fp32" else precision


def reason(a: Any) -> str:
    """Why "auto" is `ieee` for operands like these, whatever their numbers; "" where their numbers decide.

    Args:
        a: The (M, K) operand, or a batch.
    """
    name = element_of(a, "a").name
    if name != "fp32":
        return f"only products of fp32 numbers are emulated, and these are {name}"
    if is_cuda(a):
        from tritongemm.kernels.hopper.candidates import is_hopper

        if not is_hopper(a):
            return "this GPU has no kernels for emulated products: compute capability 9.0 and Triton 3.9 are needed"
    return ""


def remembered(precision: str, a: Any) -> str:
    """`resolved`, for a product that is computed: `tritongemm.last_outcome` tells why "auto" is `ieee`."""
    if precision == NAME and (why := reason(a)):
        from tritongemm import emulation

        emulation.remember(NAME, (), K=int(a.shape[-1]), guarded=False, reason=why)
        return "ieee"
    return precision
