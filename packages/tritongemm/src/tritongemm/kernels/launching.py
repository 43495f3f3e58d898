"""What launchers of kernels with the signature of Triton's tutorial do: check the operands, make the result, and run
the kernel where the operands are. Products in a precision mode have more to check: `tritongemm.kernels.problems`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritongemm.errors import UsageError
from tritongemm.kernels.problems import LARGEST_INT32, home
from tritongemm.matrices import dtype_of, is_cuda, is_torch, largest_offset, name_of, strides_of


class Product:
    """Operands and result of C[M,N] = A[M,K] B[K,N], checked.

    Args:
        a: The (M, K) matrix.
        b: The (K, N) matrix.
        out: The (M, N) result, or None for a new one.
        out_dtype: dtype of a new result, in a's library; None for a's.

    Raises:
        UsageError: Shapes, dtypes, devices or libraries do not fit.
    """

    def __init__(self, a: Any, b: Any, out: Any = None, out_dtype: Any = None) -> None:
        given = {"a": a, "b": b} | ({} if out is None else {"out": out})
        types = {name: dtype_of(x, name) for name, x in given.items()}
        for name, x in given.items():
            if x.ndim != 2:
                raise UsageError(f"{name}: a matrix has 2 dimensions, given shape {tuple(x.shape)}.")
        if types["a"] != types["b"]:
            raise UsageError(
                f"b: its dtype {name_of(types['b'])} is not a's {name_of(types['a'])}; convert one of them."
            )
        if a.shape[1] != b.shape[0]:
            raise UsageError(
                f"b: {tuple(b.shape)} does not fit a {tuple(a.shape)}: a's columns and b's rows must agree (K)."
            )
        homes = {name: home(x) for name, x in given.items()}
        if len(set(homes.values())) > 1:
            raise UsageError(f"The matrices lie in different places: {homes}; move them to one.")
        self.M, self.K, self.N = int(a.shape[0]), int(a.shape[1]), int(b.shape[1])
        if out is not None and tuple(out.shape) != (self.M, self.N):
            raise UsageError(f"out: shape {tuple(out.shape)}, but the product is {(self.M, self.N)}.")
        if out is not None and out_dtype is not None and out.dtype != out_dtype:
            raise UsageError(f"out_dtype: {out_dtype} contradicts out's {out.dtype}; leave one of them away.")
        self.a, self.b = a, b
        self.c = _new(a, (self.M, self.N), out_dtype) if out is None else out
        dtype_of(self.c, "out_dtype")

    def run(self, kernel: Any, grid: tuple[int, ...], **constants: Any) -> Any:
        """Launches the kernel on a GPU's matrices, evaluates it on the CPU's.

        Args:
            kernel: A kernel with the signature of this package and a constant WIDE.
            grid: Its launch grid; empty grids launch nothing.
            **constants: Its constants and the compiler's options.

        Returns:
            The result matrix.
        """
        if self.M * self.N == 0:
            return self.c
        if grid[0] > LARGEST_INT32:
            raise UsageError(f"a, b: the product has too many outputs for one launch ({grid[0]} programs).")
        offset = max(largest_offset(x, n) for n, x in (("a", self.a), ("b", self.b), ("out", self.c)))
        strides = [s for n, x in (("a", self.a), ("b", self.b), ("out", self.c)) for s in strides_of(x, n)]
        arguments = (self.a, self.b, self.c, self.M, self.N, self.K, *strides)
        # Fusion is stated, not left to a default that changes with Triton's version and the environment.
        constants = {"enable_fp_fusion": True, **constants, "WIDE": offset > LARGEST_INT32}
        if is_cuda(self.a):
            kernel[grid](*arguments, **constants)
        else:
            import fpsan_tools
            from fpsan_tools import dispatch

            if dispatch.current() is not None:  # A session of the caller's, which says what floats are.
                kernel[grid](*arguments, **constants)
            else:
                fpsan_tools.run(kernel, grid, *arguments, domain="ieee", **constants)
        return self.c


def _new(like: Any, shape: tuple[int, int], dtype: Any) -> Any:
    """An uninitialised matrix of the library, place and dtype of another."""
    if is_torch(like):
        return like.new_empty(shape, dtype=dtype)
    return np.empty(shape, dtype=like.dtype if dtype is None else dtype)
