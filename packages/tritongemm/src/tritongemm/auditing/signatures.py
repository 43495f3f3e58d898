"""The two argument lists that an audited kernel may have, as facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tritongemm.errors import UsageError


@dataclass(frozen=True)
class Signature:
    """How a kernel names the sizes and strides of C = A B.

    Attributes:
        name: Where the argument list comes from.
        rows: The kernel's letter for the rows of A and C.
        columns: ... for the columns of B and C.
        inner: ... for the summed dimension.
    """

    name: str
    rows: str
    columns: str
    inner: str

    @property
    def stride_letters(self) -> tuple[str, ...]:
        """Last letters of the six strides' names: of A, of B, of C."""
        r, c, i = self.rows, self.columns, self.inner
        return (r, i, i, c, r, c)

    @property
    def formula(self) -> str:
        """The product in the kernel's letters."""
        r, c, i = self.rows.upper(), self.columns.upper(), self.inner.upper()
        return f"C[{r},{c}] = A[{r},{i}] B[{i},{c}]"

    def sizes(self, M: int, N: int, K: int) -> tuple[int, int, int]:
        """The kernel's M, N, K for a product of our (M, K) and (K, N)."""
        by_letter = {self.rows: M, self.columns: N, self.inner: K}
        return by_letter["m"], by_letter["n"], by_letter["k"]

    def arguments(self) -> str:
        """The argument list, for messages."""
        strides = (f"stride_{o}{x}" for o, x in zip("aabbcc", self.stride_letters, strict=True))
        return f"a, b, c, M, N, K, {', '.join(strides)}"


SIGNATURES = (
    Signature("Triton's tutorial", rows="m", columns="n", inner="k"),
    Signature("the public challenge", rows="m", columns="k", inner="n"),
)
_RUNTIME_ARGUMENTS = 12


def signature_of(kernel: str, parameters: Sequence[str]) -> Signature:
    """The signature that a kernel's run-time parameters follow.

    Args:
        kernel: The kernel's name, for the error.
        parameters: Names of its parameters that are no constants, in order: three pointers (any names), M, N, K, and
            six strides whose last letters tell the signatures apart.

    Returns:
        The signature.

    Raises:
        UsageError: It is neither.
    """
    sizes = [p.lower() for p in parameters[3:6]]
    letters = tuple(p.lower()[-1:] for p in parameters[6:_RUNTIME_ARGUMENTS])
    if len(parameters) == _RUNTIME_ARGUMENTS and sizes == ["m", "n", "k"]:
        for signature in SIGNATURES:
            if letters == signature.stride_letters:
                return signature
    known = "; or ".join(f"({s.arguments()}) of {s.name}" for s in SIGNATURES)
    raise UsageError(
        f"{kernel}: its arguments ({', '.join(parameters)}) follow neither signature. An audited kernel takes {known}, "
        "then "
        "constants. Wrap yours in a kernel with one of these."
    )
