"""Functions of NVIDIA's device library, by symbol, in float64 and rounded once (integer ones exactly)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fpsan_tools.domains.formats import narrow
from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir.types import UNSIGNED, Element
from fpsan_tools.ttir.values import Array

Function = Callable[..., Any]


def _scalar(function: Callable[..., float], count: int = 1) -> Function:
    """A function of Python's math module applied to every element; what it refuses is NaN."""

    def guarded(*x: float) -> float:
        try:
            return function(*x)
        except (ValueError, OverflowError):
            return math.nan

    apply = np.frompyfunc(guarded, count, 1)
    return lambda *x: np.asarray(apply(*x), np.float64)


def _gamma(x: float) -> float:
    if math.isinf(x) or x > 171.7:
        return math.inf if x > 0 else math.nan
    return math.copysign(math.inf, x) if x == 0 else math.gamma(x)


def _log_gamma(x: float) -> float:
    return math.inf if math.isinf(x) or (x <= 0 and x == math.floor(x)) else math.lgamma(x)


def _round_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), whole)


def _sin_pi(x: Array) -> Array:
    reduced = np.fmod(x, 2.0)
    return np.where(reduced == np.trunc(reduced), np.copysign(0.0, x), np.sin(np.pi * reduced))


def _cos_pi(x: Array) -> Array:
    reduced = np.fmod(np.abs(x), 2.0)
    return np.where(np.fmod(reduced, 1.0) == 0.5, 0.0, np.cos(np.pi * reduced))


_CDF = _scalar(lambda x: 0.5 * math.erfc(-x / math.sqrt(2.0)))

# Float functions of float operands, by the name without prefix and without the "f" of the fp32 version.
_FLOAT: dict[str, Function] = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt")},
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil", "trunc")},
    **{name: getattr(np, name) for name in ("rint", "copysign", "hypot", "fmod", "fabs")},
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "pow": np.power,
    "powi": lambda x, n: np.power(x, n.astype(np.float64)),
    "exp10": lambda x: np.power(10.0, x),
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "rcbrt": lambda x: 1.0 / np.cbrt(x),
    "rhypot": lambda x, y: 1.0 / np.hypot(x, y),
    "sinpi": _sin_pi,
    "cospi": _cos_pi,
    "erf": _scalar(math.erf),
    "erfc": _scalar(math.erfc),
    "normcdf": _CDF,
    "tgamma": _scalar(_gamma),
    "lgamma": _scalar(_log_gamma),
    "nearbyint": np.rint,
    "round": _round_away,
    "remainder": _scalar(math.remainder, 2),
    "fdim": lambda x, y: np.where(x > y, x - y, np.where(np.isnan(x) | np.isnan(y), np.nan, 0.0)),
    "fma": None,  # type: ignore[dict-item]  # has a rounding of its own, see `call`
    "ldexp": lambda x, n: np.ldexp(x, n.astype(np.int64).clip(-5000, 5000).astype(np.int32)),
    "scalbn": lambda x, n: np.ldexp(x, n.astype(np.int64).clip(-5000, 5000).astype(np.int32)),
    "logb": lambda x: np.where(x == 0, -np.inf, np.where(np.isfinite(x), np.frexp(x)[1] - 1.0, np.abs(x))),
    "saturate": lambda x: np.where(x > 0, np.minimum(x, 1.0), 0.0),
    "fast_sin": np.sin,
    "fast_cos": np.cos,
    "fast_tan": np.tan,
    "fast_exp": np.exp,
    "fast_exp10": lambda x: np.power(10.0, x),
    "fast_log": np.log,
    "fast_log2": np.log2,
    "fast_log10": np.log10,
    "fast_pow": np.power,
    "fast_fdivide": np.divide,
    "norm3d": lambda x, y, z: np.sqrt(x * x + y * y + z * z),
    "norm4d": lambda x, y, z, w: np.sqrt(x * x + y * y + z * z + w * w),
}

# One operation with a stated rounding: __nv_fadd_rz, __nv_drcp_rn, ...
_ROUNDED: dict[str, Function] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
    "rcp": lambda x: 1.0 / x,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
}

_PREDICATES: dict[str, Function] = {
    "isnanf": np.isnan,
    "isnand": np.isnan,
    "isinff": np.isinf,
    "isinfd": np.isinf,
    "finitef": np.isfinite,
    "isfinited": np.isfinite,
    "signbitf": np.signbit,
    "signbitd": np.signbit,
}


def _unsigned(x: Array) -> Array:
    return x.view(UNSIGNED[x.dtype.itemsize * 8])


def _reverse_bits(x: Array) -> Array:
    u = _unsigned(x)
    result = np.zeros_like(u)
    for _ in range(u.dtype.itemsize * 8):
        result = (result << u.dtype.type(1)) | (u & u.dtype.type(1))
        u = u >> u.dtype.type(1)
    return result.view(x.dtype)


def _leading_zeros(x: Array) -> Array:
    u = _unsigned(x).astype(np.uint64)
    width = x.dtype.itemsize * 8
    filled = u.copy()
    for step in (1, 2, 4, 8, 16, 32):
        filled |= filled >> np.uint64(step)
    return width - np.bitwise_count(filled).astype(np.int64)


def _first_set(x: Array) -> Array:
    u = _unsigned(x)
    lowest = u & (~u + u.dtype.type(1))
    return np.where(u == 0, 0, np.bitwise_count(lowest - u.dtype.type(1)).astype(np.int64) + 1)


def _wide(function: Callable[[int, int], int], signed: bool) -> Function:
    apply = np.frompyfunc(function, 2, 1)
    return lambda x, y: apply(*(v.astype(object) if signed else _unsigned(v).astype(object) for v in (x, y)))


_INTEGER: dict[str, Function] = {
    "abs": np.abs,
    "llabs": np.abs,
    "popc": lambda x: np.bitwise_count(_unsigned(x)),
    "popcll": lambda x: np.bitwise_count(_unsigned(x)),
    "clz": _leading_zeros,
    "clzll": _leading_zeros,
    "ffs": _first_set,
    "ffsll": _first_set,
    "brev": _reverse_bits,
    "brevll": _reverse_bits,
    "mulhi": _wide(lambda x, y: (x * y) >> 32, True),
    "umulhi": _wide(lambda x, y: (x * y) >> 32, False),
    "mul64hi": _wide(lambda x, y: (x * y) >> 64, True),
    "umul64hi": _wide(lambda x, y: (x * y) >> 64, False),
    "hadd": _wide(lambda x, y: (x + y) >> 1, True),
    "rhadd": _wide(lambda x, y: (x + y + 1) >> 1, True),
    "uhadd": _wide(lambda x, y: (x + y) >> 1, False),
    "urhadd": _wide(lambda x, y: (x + y + 1) >> 1, False),
}

_BITS = {"float_as_int", "float_as_uint", "double_as_longlong", "int_as_float", "uint_as_float", "longlong_as_double"}
_ROUNDINGS = {"rn": "nearest_even", "rz": "toward_zero", "ru": "up", "rd": "down"}


def call(symbol: str, x: list[Array], elements: list[Element], target: Element) -> Array:
    """Evaluate a function of the device library.

    Args:
        symbol: its symbol, such as "__nv_expf".
        x: operands: float32/float64 values, integers as signed arrays.
        elements: their types.
        target: type of the result.

    Returns:
        Carriers of the ieee domain for a float result (see `formats.narrow`), signed integers otherwise.

    Raises:
        FpsanError: for a function that is not known.
    """
    name = symbol.removeprefix("__nv_")
    if symbol == name:
        raise FpsanError(f"function {symbol} is not one of NVIDIA's device library")
    if name in _BITS:
        source = x[0].view(target.memory)
        return (
            source.view(target.integers)
            if target.kind == "int"
            else narrow(source.view(f"f{target.bits // 8}"), target)
        )
    if target.kind == "int":
        return _to_integers(name, symbol, x, target)
    wide = [v.astype(np.float64) if e.is_float else v for v, e in zip(x, elements, strict=True)]
    base, _, mode = name.rpartition("_")
    if mode in _ROUNDINGS:
        return _with_rounding(symbol, base, mode, wide, elements, target)
    plain = name[:-1] if name not in _FLOAT and name.endswith("f") else name
    if plain == "fma":
        from fpsan_tools.domains.ieee import Ieee

        return Ieee().fma(x[0], x[1], x[2], target)
    function = _FLOAT.get(plain)
    if function is None:
        raise FpsanError(f"function {symbol} of the device library is not known in this domain")
    return narrow(function(*wide), target)


def _to_integers(name: str, symbol: str, x: list[Array], target: Element) -> Array:
    if name in _PREDICATES:
        return np.asarray(_PREDICATES[name](x[0])).astype(target.integers)
    if name in _INTEGER:
        wrapped = np.asarray(_INTEGER[name](*x))
        if wrapped.dtype == object:
            modulus = 1 << target.bits
            wrapped = np.asarray(np.frompyfunc(lambda v: int(v) % modulus, 1, 1)(wrapped), UNSIGNED[target.bits])
        return wrapped.astype(UNSIGNED[target.bits]).view(target.integers)
    plain = name[:-1] if name.endswith("f") else name
    if plain in ("llrint", "llround"):
        from fpsan_tools.domains.ieee import round_toward_zero

        whole = np.rint(x[0]) if plain == "llrint" else _round_away(x[0])
        return round_toward_zero(whole, target.bits, True)
    if plain == "ilogb":
        exponent = np.frexp(x[0].astype(np.float64))[1].astype(np.int64) - 1
        limits = np.where(np.isinf(x[0]), 2**31 - 1, -(2**31))
        return np.where(np.isfinite(x[0]) & (x[0] != 0), exponent, limits).astype(target.integers)
    base, _, mode = name.rpartition("_")
    if mode in _ROUNDINGS and "2" in base:
        from fpsan_tools.domains.ieee import round_toward_zero

        whole = {"rn": np.rint, "rz": np.trunc, "ru": np.ceil, "rd": np.floor}[mode](x[0])
        return round_toward_zero(whole, target.bits, not base.split("2")[1].startswith("u"))
    raise FpsanError(f"function {symbol} of the device library is not known in this domain")


def _with_rounding(
    symbol: str, base: str, mode: str, wide: list[Array], elements: list[Element], target: Element
) -> Array:
    """Operations and conversions whose name states the rounding."""
    rounding = _ROUNDINGS[mode]
    if "2" in base:
        source = wide[0]
        if not elements[0].is_float and base.startswith("u"):
            source = _unsigned(source)
        return narrow(source, target, rounding)
    function = _ROUNDED.get(base[1:]) if base[:1] in ("f", "d") else None
    if function is None or (mode != "rn" and base[1:] != "mul"):
        raise FpsanError(f"function {symbol} of the device library is not known in this domain")
    if target.name == "f64":
        if mode != "rn":
            raise FpsanError(f"function {symbol} of the device library is not known in this domain")
        return np.asarray(function(*wide))
    return narrow(function(*wide), target, rounding)
