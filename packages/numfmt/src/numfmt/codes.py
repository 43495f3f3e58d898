"""Codes to values and back."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from numfmt import _apply

if TYPE_CHECKING:
    from numfmt._random import Seed
    from numfmt.formats import FloatFormat
    from numfmt.rounding import OverflowPolicy, RoundingMode

#: Up to this width, decoding looks values up in a table that is made once per format.
_TABLE_BITS = 16
_VALUES_BITS = 24


def code_type(bits: int) -> np.dtype[Any]:
    """The smallest unsigned integer type of at least ``bits`` bits."""
    return np.dtype(f"uint{max(8, 1 << (bits - 1).bit_length())}")


def encode(
    fmt: FloatFormat,
    x: Any,
    rounding: str | RoundingMode,
    rng: Seed,
    overflow: str | OverflowPolicy | None,
    nan: str | None,
    random_bits: int,
    random: Any,
) -> Any:
    """Round and encode; see `FloatFormat.encode`."""
    rounded = _apply.round_to(fmt, x, rounding, rng, overflow, nan, random_bits, random)
    values = np.asarray(rounded, np.float64)
    return code_of(fmt, values.reshape(-1)).reshape(values.shape)[()]


def code_of(fmt: FloatFormat, values: NDArray[np.float64]) -> NDArray[Any]:
    """Codes of float64 numbers that are values of the format already, one-dimensional."""
    m = fmt.mantissa_bits
    special = ~np.isfinite(values)
    magnitude = np.where(special, fmt.max, np.abs(values))
    # A normal value's code is the leading bits of its float64, but for the difference of the biases.
    offset = np.uint64(((1023 - fmt.bias) << m) % 2**64)
    code = (magnitude.view(np.uint64) >> np.uint64(52 - m)) - offset
    if fmt.zero:  # below, the code counts quanta
        low = magnitude < 2.0**fmt.emin if fmt.exponent_bits else np.ones(values.shape, np.bool_)
        if low.any():
            quanta = np.ldexp(np.where(low, magnitude, 0.0), m - fmt.emin)
            code = np.where(low, quanta.astype(np.uint64), code)
    if fmt.infinity_code is not None:
        code = np.where(np.isinf(values), np.uint64(fmt.infinity_code), code)
    if fmt.signed:
        code = code | (np.signbit(values).astype(np.uint64) << np.uint64(fmt.bits - 1))
    if fmt.nan_code is not None:
        code = np.where(np.isnan(values), np.uint64(fmt.nan_code), code)
    return np.asarray(code).astype(code_type(fmt.bits))


def decode(fmt: FloatFormat, codes: Any) -> Any:
    """Values of codes; see `FloatFormat.decode`."""
    array = np.asarray(codes)
    if array.dtype.kind == "O" and array.size and all(isinstance(c, int) for c in array.flat):
        raise ValueError(f"codes must lie in [0, 2**{fmt.bits}) for {fmt.name}, and some exceed 64 bits")
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"codes must be integers, not {array.dtype}")
    if array.size:
        low, high = int(array.min()), int(array.max())
        if low < 0 or high >= 1 << fmt.bits:
            raise ValueError(f"codes must lie in [0, 2**{fmt.bits}) for {fmt.name}, not {low if low < 0 else high}")
    code = array.astype(np.uint64)
    if fmt.bits <= _TABLE_BITS:
        return _table(fmt)[code][()]
    return _decode(fmt, code.reshape(-1)).reshape(code.shape)[()]


def _decode(fmt: FloatFormat, code: NDArray[np.uint64]) -> NDArray[np.float64]:
    m = fmt.mantissa_bits
    negative = (code >> np.uint64(fmt.bits - 1) != 0) if fmt.signed else np.zeros(code.shape, np.bool_)
    magnitude_code = code & np.uint64(fmt._magnitude_codes - 1)
    field = (magnitude_code >> np.uint64(m)).astype(np.int64)
    mantissa = magnitude_code & np.uint64((1 << m) - 1)
    low = fmt.zero & (field == 0)
    significand = np.where(low, mantissa if fmt.subnormals else np.uint64(0), mantissa + np.uint64(1 << m))
    finite = magnitude_code <= np.uint64(fmt.max_code)
    exponent = np.where(low, fmt.emin, field - fmt.bias) - m
    value = np.ldexp(np.where(finite, significand, 0).astype(np.float64), np.where(finite, exponent, 0))
    value = np.where(finite, value, np.nan)
    if fmt.infinity_code is not None:
        value = np.where(magnitude_code == np.uint64(fmt.infinity_code), np.inf, value)
    value = np.where(negative & ~np.isnan(value), -value, value)
    if fmt.nan == "negative_zero":
        assert fmt.nan_code is not None
        value = np.where(code == np.uint64(fmt.nan_code), np.nan, np.where(value == 0, 0.0, value))
    return np.asarray(value, np.float64)


@lru_cache(maxsize=64)
def _table(fmt: FloatFormat) -> NDArray[np.float64]:
    table = _decode(fmt, np.arange(1 << fmt.bits, dtype=np.uint64))
    table.flags.writeable = False
    return table


def values(fmt: FloatFormat) -> NDArray[np.float64]:
    """Every value in code order; see `FloatFormat.values`."""
    if fmt.bits > _VALUES_BITS:
        raise ValueError(
            f"{fmt.name} has 2**{fmt.bits} values, too many for one array; decode the codes you need with decode()"
        )
    if fmt.bits <= _TABLE_BITS:
        return _table(fmt).copy()
    return _decode(fmt, np.arange(1 << fmt.bits, dtype=np.uint64))
