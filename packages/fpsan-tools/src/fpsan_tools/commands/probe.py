# mypy: allow-untyped-defs, allow-incomplete-defs
"""The kernel with which `fpsan doctor` tries the engines. Importing this module needs Triton."""

import triton
import triton.language as tl


@triton.jit
def probe(x, y, out, N: tl.constexpr):
    """out = (x + y) * x."""
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(out + i, (a + tl.load(y + i)) * a)
