"""The float types that have payloads: a table of facts, and how payload arrays are typed.

A payload is an unsigned NumPy integer of the float type's width. Payloads never live in float arrays: arithmetic,
`astype` and `item()` on floats may quiet signalling NaNs, which are ordinary payload patterns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fpsan_tools.exceptions import FpsanError, UnknownName

Payload = npt.NDArray[np.unsignedinteger[Any]]
"""An array of payloads: unsigned integers of 8, 16, 32 or 64 bits."""

UNSIGNED: dict[int, np.dtype[Any]] = {w: np.dtype(f"u{w // 8}") for w in (8, 16, 32, 64)}
SIGNED: dict[int, np.dtype[Any]] = {w: np.dtype(f"i{w // 8}") for w in (8, 16, 32, 64)}


@dataclass(frozen=True)
class FloatType:
    """What the algebra needs to know of a float type.

    Attributes:
        name: this package's name of the type.
        bits: its width w.
        one: the bit pattern of +1.0; its trailing zeros are the shift of the embedding.
        largest: the largest magnitude's pattern that is not a NaN (+infinity where the type has one).
        triton: the name in Triton's signatures (`*fp8e4nv`).
        mlir: the name in Triton's intermediate representation (`f8E4M3FN`).
        aliases: further spellings (NumPy's, ml_dtypes', torch's).
    """

    name: str
    bits: int
    one: int
    largest: int
    triton: str
    mlir: str
    aliases: tuple[str, ...] = field(default=(), repr=False)

    @property
    def shift(self) -> int:
        """Trailing zeros of the pattern of 1.0, the embedding's shift s."""
        return (self.one & -self.one).bit_length() - 1

    @property
    def unsigned(self) -> np.dtype[Any]:
        """NumPy dtype of a payload."""
        return UNSIGNED[self.bits]

    @property
    def signed(self) -> np.dtype[Any]:
        """NumPy dtype of a payload read as a signed integer."""
        return SIGNED[self.bits]


_TYPES = (
    FloatType("fp64", 64, 0x3FF0000000000000, 0x7FF0000000000000, "fp64", "f64", ("float64", "double")),
    FloatType("fp32", 32, 0x3F800000, 0x7F800000, "fp32", "f32", ("float32", "float")),
    FloatType("fp16", 16, 0x3C00, 0x7C00, "fp16", "f16", ("float16", "half")),
    FloatType("bf16", 16, 0x3F80, 0x7F80, "bf16", "bf16", ("bfloat16",)),
    FloatType("fp8e4m3fn", 8, 0x38, 0x7E, "fp8e4nv", "f8E4M3FN", ("float8_e4m3fn", "e4m3fn", "e4m3")),
    FloatType("fp8e5m2", 8, 0x3C, 0x7C, "fp8e5", "f8E5M2", ("float8_e5m2", "e5m2")),
    FloatType("fp8e4m3fnuz", 8, 0x40, 0x7F, "fp8e4b8", "f8E4M3FNUZ", ("float8_e4m3fnuz", "e4m3fnuz")),
    FloatType("fp8e5m2fnuz", 8, 0x40, 0x7F, "fp8e5b16", "f8E5M2FNUZ", ("float8_e5m2fnuz", "e5m2fnuz")),
)

FLOAT_TYPES: dict[str, FloatType] = {t.name: t for t in _TYPES}
"""Every float type by its name."""

_BY_SPELLING = {spelling: t for t in _TYPES for spelling in (t.name, t.triton, t.mlir, *t.aliases)}


def float_type(dtype: str | FloatType) -> FloatType:
    """Find a float type by any of its spellings.

    Args:
        dtype: "fp32", "fp16", "bf16", "fp64", "fp8e4m3fn", "fp8e5m2" or another spelling: Triton's, MLIR's, NumPy's,
            torch's (`str(tensor.dtype)` with or without "torch.").

    Returns:
        The type's facts.

    Raises:
        UnknownName: for anything else.
    """
    if isinstance(dtype, FloatType):
        return dtype
    found = _BY_SPELLING.get(str(dtype).removeprefix("torch."))
    if found is None:
        raise UnknownName.of("float type", dtype, _BY_SPELLING, FLOAT_TYPES)
    return found


def width(x: Payload) -> int:
    """Width in bits of the payloads in `x`."""
    return int(x.dtype.itemsize) * 8


def as_payload(x: npt.ArrayLike) -> Payload:
    """Return `x` as a payload array, refusing everything that is not an unsigned integer array.

    Raises:
        FpsanError: for Python numbers, floats, signed integers: payload arithmetic on them would be wrong silently.
    """
    array = np.asarray(x)
    if array.dtype.kind != "u":
        raise FpsanError(
            f"payloads are unsigned integer arrays, but dtype {array.dtype} was given; embed floats first "
            "(algebra.embed(values, dtype)) or view signed integers as unsigned"
        )
    return array


def signed(x: Payload) -> npt.NDArray[np.signedinteger[Any]]:
    """The payloads of `x` read as signed integers (a view)."""
    return x.view(SIGNED[width(x)])


def constant(x: Payload, value: int) -> np.unsignedinteger[Any]:
    """The integer `value` mod 2^w as a scalar of the payloads' dtype."""
    scalar: np.unsignedinteger[Any] = x.dtype.type(value & ((1 << width(x)) - 1))
    return scalar


def resize(x: npt.NDArray[Any], bits: int) -> Payload:
    """Sign-extend or truncate integers to `bits` bits.

    Args:
        x: integer or boolean array of any width; unsigned arrays are read as signed, booleans as 0 and 1.
        bits: the new width.

    Returns:
        Unsigned array of that width.
    """
    if x.dtype.kind == "b":
        return x.astype(UNSIGNED[bits])
    return x.view(SIGNED[width(x)]).astype(SIGNED[bits]).view(UNSIGNED[bits])
