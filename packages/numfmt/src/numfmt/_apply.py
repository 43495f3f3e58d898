"""From a user's array to the engine and back: input checks, the random numbers, the type of the result."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from numfmt import _parts
from numfmt._engine import nan_value, round_parts
from numfmt._errors import unknown_name
from numfmt._fast.backend import use_numba
from numfmt._fast.chunks import NanRefused, round_chunks
from numfmt._fast.plan import CARRIERS, FLOAT64
from numfmt._fast.plan import plan as make_plan
from numfmt._parts import Parts
from numfmt._random import Seed, draw_key, philox_words
from numfmt.rounding import OverflowPolicy, RoundingMode, overflow_policy, rounding_mode

if TYPE_CHECKING:
    from numfmt.formats import FloatFormat

#: Replacements for NaN that `FloatFormat.round` offers where a format has none.
NAN_REPLACEMENTS = ("zero", "largest")


def widen(array: NDArray[Any]) -> NDArray[np.float64]:
    """A narrower floating-point array as float64, which is exact. Signalling NaNs become quiet without a warning."""
    with np.errstate(invalid="ignore"):
        return array.astype(np.float64, copy=False)


def as_numbers(x: Any, argument: str = "x") -> NDArray[Any]:
    """x as a native-endian array of float64, float32, longdouble, an integer type, or object.

    Smaller floating-point types, those of ml_dtypes included, are widened to float64, which holds them exactly.

    Raises:
        TypeError: If x holds no real numbers.
    """
    array = np.asarray(x)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    kind, name = array.dtype.kind, array.dtype.name
    if kind == "f":
        return array if array.dtype in (np.float64, np.float32, np.longdouble) else widen(array)
    if kind in "iub" or kind == "O":
        return array
    if name.startswith(("float", "bfloat")):  # ml_dtypes registers its types with kind "V" or "f"
        return widen(array)
    if name.startswith(("int", "uint")):
        return array.astype(np.int64)
    raise TypeError(
        f"{argument} must hold real numbers, not {array.dtype}"
        + ("; round .real and .imag separately" if kind == "c" else "")
    )


def take_apart(x: Any) -> Parts:
    """Parts of any input numbers, exactly; one-dimensional input, since scalars warn where arrays wrap around."""
    array = as_numbers(x)
    kind = array.dtype.kind
    if kind == "O":
        return _parts.from_objects(array)
    if kind != "f":
        return _parts.from_integer(array)
    if array.dtype == np.longdouble and array.dtype != np.float64:
        return _parts.from_longdouble(array)
    return _parts.from_float64(widen(array))


def check_random_bits(random_bits: object) -> int:
    """The number of random bits, checked."""
    if isinstance(random_bits, bool) or not isinstance(random_bits, int | np.integer):
        raise TypeError(f"random_bits must be an integer, not {type(random_bits).__name__} {random_bits!r}")
    if not 1 <= random_bits <= 32:
        raise ValueError(f"random_bits must be between 1 and 32, not {random_bits}")
    return int(random_bits)


def check_random(random: Any, random_bits: int, shape: tuple[int, ...]) -> NDArray[np.uint32]:
    """The user's random integers, checked."""
    array = np.asarray(random)
    if array.dtype.kind not in "iu":
        raise TypeError(f"random must hold integers in [0, 2**random_bits), not {array.dtype}")
    if array.shape != shape:
        raise ValueError(f"random must have the shape of x, {shape}, not {array.shape}")
    if array.size and (int(array.min()) < 0 or int(array.max()) >= 1 << random_bits):
        raise ValueError(f"random must lie in [0, 2**random_bits) = [0, {1 << random_bits})")
    return array.astype(np.uint32)


def random_integers(rng: Seed, random: Any, random_bits: int, shape: tuple[int, ...]) -> NDArray[np.uint32]:
    """Random integers in ``[0, 2**random_bits)``: the user's, or those of a seed."""
    if random is not None:
        return check_random(random, random_bits, shape)
    count = int(np.prod(shape, dtype=np.int64))
    return philox_words(draw_key(rng), 0, count).reshape(shape) >> np.uint32(32 - random_bits)


def exact_float64(x: Any) -> NDArray[np.float64]:
    """x as float64 if that is exact.

    Raises:
        TypeError: If x holds no real numbers, or numbers that float64 does not hold.
    """
    from numfmt.formats import FP64

    array = as_numbers(x)
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        return widen(array)
    low, high = (np.asarray(FP64.round(array, mode), np.float64) for mode in ("down", "up"))
    if not np.array_equal(low, high, equal_nan=True):
        raise TypeError("x holds numbers that float64 does not hold exactly; round them to FP64 first")
    return high


def check_nan(nan: object) -> str | None:
    """The name of a replacement for NaN, checked."""
    if nan is None or nan in NAN_REPLACEMENTS:
        return None if nan is None else str(nan)
    raise ValueError(unknown_name("nan", nan, NAN_REPLACEMENTS))


def fits_float32(fmt: FloatFormat) -> bool:
    """float32 holds every value of the format."""
    lowest = fmt.emin - fmt.mantissa_bits if fmt.subnormals else fmt.emin
    return fmt.mantissa_bits <= 23 and fmt.emax <= 127 and lowest >= -149


def round_to(
    fmt: FloatFormat,
    x: Any,
    rounding: str | RoundingMode,
    rng: Seed,
    overflow: str | OverflowPolicy | None,
    nan: str | None,
    random_bits: int,
    random: Any,
    out: NDArray[Any] | None = None,
) -> Any:
    """Round numbers to a format; see `FloatFormat.round`."""
    if "torch" in sys.modules:
        from numfmt._fast import tensors

        if tensors.is_tensor(x):
            return tensors.round_tensor(fmt, x, rounding, rng, overflow, nan, random_bits, random, out)
    mode = rounding_mode(rounding)
    policy = overflow_policy(fmt.overflow if overflow is None else overflow)
    check_nan(nan)
    random_bits = check_random_bits(random_bits)
    array = as_numbers(x)
    words, key = None, 0
    if mode.stochastic:
        if random is not None:
            words = check_random(random, random_bits, array.shape)
        else:
            key = draw_key(rng)
    dtype = np.dtype(np.float32 if array.dtype == np.float32 and fits_float32(fmt) else np.float64)
    result = _result(out, array.shape, dtype)
    if not _round_fast(fmt, array, result, mode, policy, nan, key, words, random_bits):
        if mode.stochastic and words is None:
            words = philox_words(key, 0, array.size) >> np.uint32(32 - random_bits)
        flat = words if words is None else words.reshape(-1)
        exact = round_parts(fmt, take_apart(array.reshape(-1)), mode, policy, nan, flat, random_bits)
        result[...] = exact.reshape(array.shape)
    if out is not None:
        return out
    return result if isinstance(x, np.ndarray) else result[()]


def _result(out: NDArray[Any] | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    if out is None:
        return np.empty(shape, dtype)
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != dtype or not out.flags.writeable:
        given = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        raise ValueError(f"out must be a writeable {dtype} array of shape {shape}, not {given}")
    return out


def _round_fast(
    fmt: FloatFormat,
    array: NDArray[Any],
    result: NDArray[Any],
    mode: RoundingMode,
    policy: OverflowPolicy,
    nan: str | None,
    key: int,
    words: NDArray[np.uint32] | None,
    random_bits: int,
) -> bool:
    """Round with a fast implementation if one can do it exactly; says whether it did."""
    if array.dtype.kind in "iub":
        if array.dtype.itemsize == 8 and array.size and not -(2**53) <= int(array.min()) <= int(array.max()) <= 2**53:
            return False
    elif array.dtype not in (np.float32, np.float64):
        return False
    plans = (make_plan(fmt, mode, policy, nan, c) for c in CARRIERS if c.dtype == result.dtype or c is FLOAT64)
    plan = next((p for p in plans if p is not None), None)
    if plan is None:
        return False
    source = array if array.dtype.kind == "f" else array.astype(np.float64)
    flat = np.ascontiguousarray(source).reshape(-1)
    target = result.reshape(-1) if result.flags.c_contiguous else np.empty(result.size, result.dtype)
    if np.may_share_memory(flat, target) and (flat.dtype != target.dtype or flat.ctypes.data != target.ctypes.data):
        flat = flat.copy()  # results must not overwrite numbers that are still to be read
    flat_words = None if words is None else words.reshape(-1)
    try:
        if use_numba(array.size):
            from numfmt._fast.jit import round_jit

            round_jit(flat, target, plan, key, flat_words, random_bits)
        else:
            round_chunks(flat, target, plan, key, flat_words, random_bits)
    except NanRefused:
        nan_value(fmt, nan)
        raise
    if not result.flags.c_contiguous:
        result[...] = target.reshape(result.shape)
    return True


def round_sum(
    fmt: FloatFormat,
    high: NDArray[np.float64],
    low: NDArray[np.float64],
    rounding: str | RoundingMode = "nearest_even",
    overflow: str | OverflowPolicy | None = None,
    *,
    nan: str | None = None,
    random: NDArray[np.uint32] | None = None,
    random_bits: int = 32,
) -> NDArray[np.float64]:
    """Round unevaluated sums ``high + low`` to a format, each with one rounding, in every mode.

    This is what a simulated addition needs after TwoSum (Knuth, TAOCP 4.2.2): the pair is the exact sum, and rounding
    ``high`` alone would round twice. Inputs are not checked.

    For formats of at most 51 significant bits the pair can also be folded into one float64 first, by rounding it to
    odd: where ``low`` is not zero and ``high`` has an even last bit, replace ``high`` by its neighbour in the direction
    of ``low`` (S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums", IEEE TC 2008). Then any rounding
    of that float64 is the rounding of the pair. `fold_to_odd` does it.

    Args:
        fmt: The format.
        high: float64, the sum rounded to nearest, any shape.
        low: float64, the rest, ``abs(low) <= ulp(high) / 2``; 0 where ``high`` is not finite. Same shape.
        rounding: Rounding mode.
        overflow: Overflow policy; None takes the format's own.
        nan: What NaN becomes in a format without NaN.
        random: For stochastic modes, integers in ``[0, 2**random_bits)``, same shape.
        random_bits: Number of random bits.

    Returns:
        float64 values of the format, same shape.
    """
    parts = _parts.from_float64(high)
    # Bring low to the units of the 64-bit significand (11 bits below high's last bit); what is left below is
    # inexactness. Where they pull in opposite directions, borrow one unit so that the fraction stays positive.
    units = np.where(parts.nan | parts.infinite | (parts.significand == 0), 0.0, low)
    units = np.where(parts.negative, -units, units)
    with np.errstate(under="ignore"):
        scaled = np.ldexp(units, -parts.exponent)
    # However small a rest is, it must not vanish; and below 2^-60 its size does not matter.
    units = np.where(np.abs(scaled) < 2.0**-60, np.copysign(2.0**-60, units) * (units != 0), scaled)
    significand = _add(parts.significand, np.floor(units))
    # A power of two minus something has one bit less in front, so that it needs the next bit of low. The difference
    # from the whole units must not be taken in float64: 1 - 2^-60 would be 1.
    short = (significand < np.uint64(1 << 63)) & (parts.significand != 0)
    units = np.where(short, 2 * units, units)
    significand = np.where(short, _add(parts.significand << np.uint64(1), np.floor(units)), significand)
    inexact = units != np.floor(units)
    exponent = parts.exponent - short
    parts = Parts(parts.negative, significand, exponent, inexact, parts.nan, parts.infinite)
    mode = rounding_mode(rounding)
    policy = overflow_policy(fmt.overflow if overflow is None else overflow)
    return round_parts(fmt, parts, mode, policy, nan, random, random_bits)


def _add(significand: NDArray[np.uint64], units: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Sum modulo 2**64 of a significand and a small integer of either sign."""
    return significand + units.astype(np.int64).view(np.uint64)


def fold_to_odd(high: NDArray[np.float64], low: NDArray[np.float64]) -> NDArray[np.float64]:
    """The exact sum ``high + low`` rounded to odd in float64; see `round_sum`.

    Args:
        high: float64, the sum rounded to nearest.
        low: float64, the rest.

    Returns:
        float64, same shape: ``high`` where ``low`` is 0 or ``high`` is odd, else the neighbour of ``high`` towards
        ``low``.
    """
    even = (high.view(np.uint64) & np.uint64(1)) == 0
    move = even & (low != 0) & np.isfinite(high)
    return np.where(move, np.nextafter(high, np.where(low > 0, np.inf, -np.inf)), high)
