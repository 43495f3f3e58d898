"""How two different outputs are related: a sign, a factor, a summand, other places, a rounding in between.

Payloads make these questions exact: a factor of 1/8 is one payload everywhere, whatever the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from fpsan_tools.algebra import FLOAT_TYPES, Algebra, float_type
from fpsan_tools.checking.comparing import Comparison
from fpsan_tools.checking.inputs import Arguments, bits_of, dtype_of, is_float
from fpsan_tools.checking.verdict import EXTRA_ROUNDING, Finding
from fpsan_tools.domains.formats import FORMATS

Array = npt.NDArray[Any]

_FEWEST = 4  # elements below which an agreement proves little


def relations(comparison: Comparison, algebra: Algebra, inputs: Arguments, sizes: Mapping[str, int]) -> list[Finding]:
    """Find out how the outputs of the two sides are related.

    Args:
        comparison: one output of both sides.
        algebra: whose payloads these are.
        inputs: the inputs, to recognise a missing summand.
        sizes: to recognise factors such as 1/K.

    Returns:
        At most one finding.
    """
    if comparison.problem or not is_float(comparison.dtype) or comparison.equal or comparison.total < _FEWEST:
        return []
    dtype = comparison.dtype
    a, b = (algebra.embed(bits, dtype) for bits in (comparison.a, comparison.b))
    if not a.any() or not b.any():
        side = "a" if not a.any() else "b"
        return [Finding("all zero", f"Side {side} gives nothing but zeros.", False, f"output {comparison.name!r}")]
    if np.array_equal(b, algebra.neg(a)):
        return [Finding("sign", "The outputs differ by their sign.", False, "b = -a in payloads")]
    found = (
        _places(a, b)
        or _factor(a, b, dtype, algebra, sizes)
        or _summand(a, b, dtype, algebra, inputs, sizes)
        or _rounded(a, b, dtype, algebra)
    )
    return [found] if found is not None else []


def _places(a: Array, b: Array) -> Finding | None:
    """The same values at other places."""
    for axes in permutations(range(a.ndim)) if a.ndim <= 3 else ():
        turned = a.transpose(axes)
        if axes != tuple(range(a.ndim)) and turned.shape == b.shape and np.array_equal(turned, b):
            return Finding("transposed output", "One output is the other one transposed.", False, f"axes {axes}")
    for axis, size in enumerate(a.shape):
        if np.array_equal(np.flip(a, axis), b):
            return Finding("reversed output", f"One output is the other one reversed along axis {axis}.", False)
        steps = range(1, min(size, 65))
        for step in (*steps, *(-n for n in steps)):
            if np.array_equal(np.roll(a, step, axis), b):
                text = f"Output b is output a moved by {step} along axis {axis}, around the end."
                return Finding("moved output", text, False)
    if np.array_equal(np.sort(a, axis=None), np.sort(b, axis=None)):
        text = "Both outputs hold the same values, at other places."
        return Finding("moved output", text, False, "sorted, the payloads agree")
    return None


def _factor(a: Array, b: Array, dtype: str, algebra: Algebra, sizes: Mapping[str, int]) -> Finding | None:
    """One output is the other one times a factor: one for all, or one per row or column.

    Odd payloads give the factor, the product then confirms it everywhere.
    """
    for whole, scaled, x, y in (("a", "b", a, b), ("b", "a", b, a)):
        odd = (x & x.dtype.type(1)).astype(bool)
        ratio = algebra.mul(y, algebra.inv(x))
        if odd.any():
            factor = ratio[odd][:1]
            if np.array_equal(algebra.mul(x, factor), y):
                text = f"Output {scaled} is output {whole} times {named(factor, dtype, algebra, sizes)}."
                return Finding("factor", text, False, "their payloads have one ratio")
        for axis, told in ((-1, "row"), (-2, "column")) if a.ndim >= 2 else ():
            if a.shape[axis] < 3 or not odd.any(axis=axis).all():
                continue
            factor = np.take_along_axis(ratio, np.expand_dims(odd.argmax(axis=axis), axis), axis)
            if np.array_equal(algebra.mul(x, factor), y):
                text = (
                    f"Output {scaled} is output {whole} times one factor per {told}: a normalisation or scale differs."
                )
                return Finding("factor", text, False, f"their payloads have one ratio per {told}")
    return None


def _summand(
    a: Array, b: Array, dtype: str, algebra: Algebra, inputs: Arguments, sizes: Mapping[str, int]
) -> Finding | None:
    """b = a + d, with d constant, or an input that is added or left out."""
    difference = algebra.sub(b, a)
    if (difference == difference.flat[0]).all():
        name = named(difference, dtype, algebra, sizes)
        return Finding("summand", f"Output b is output a plus {name}.", False, "b - a is one payload")
    for name, value in inputs.arrays():
        if not is_float(dtype_of(value)):
            continue
        payload = algebra.cast(algebra.embed(bits_of(value), dtype_of(value)), dtype)
        for shaped in [payload, payload[:, None]] if payload.ndim == 1 and a.ndim == 2 else [payload]:
            try:
                wide = np.broadcast_to(shaped, a.shape)
            except ValueError:
                continue
            if np.array_equal(difference, wide):
                text = f"Output b has {name!r} added once more than output a."
                return Finding("summand", text, False, f"b - a is {name!r} in payloads")
            if np.array_equal(difference, algebra.neg(wide)):
                text = f"Output b lacks a summand {name!r} that output a has."
                return Finding("summand", text, False, f"a - b is {name!r} in payloads")
    return None


def _rounded(a: Array, b: Array, dtype: str, algebra: Algebra) -> Finding | None:
    """One output is the other one, narrowed and widened."""
    for narrow in ("fp16", "fp8e4m3fn"):
        bits = FLOAT_TYPES[narrow].bits
        if bits >= float_type(dtype).bits:
            continue
        for wide, other, side in ((a, b, "b"), (b, a, "a")):
            if np.array_equal(algebra.cast(algebra.cast(wide, narrow), dtype), other):
                text = f"Side {side} narrows its result to {bits} bits and widens it again."
                return Finding(EXTRA_ROUNDING, text, None, "the other side's payloads, narrowed and widened, agree")
    return None


# ---- constants by name

_CONSTANTS = {
    "log2(e)": math.log2(math.e),
    "ln(2)": math.log(2),
    "pi": math.pi,
    "sqrt(2)": math.sqrt(2),
    "1/sqrt(2)": math.sqrt(0.5),
    "sqrt(2/pi)": math.sqrt(2 / math.pi),
}
_DIGITS = 5  # a number with more significant digits is hardly one that people write


def named(payload: Array, dtype: str, algebra: Algebra, sizes: Mapping[str, int]) -> str:
    """A constant payload as a number if it is a plain one (or one over a plain one), else as a payload.

    Args:
        payload: array whose first element counts.
        dtype: its float type.
        algebra: whose payload it is.
        sizes: sizes whose simple functions are recognised.

    Returns:
        As in "0.125 (1/sqrt(D))", "1 / 3", "a constant (payload 0x1234)".
    """
    one = payload.reshape(-1)[:1]
    for over, tried in (("", one), ("1 / ", algebra.inv(one))):
        value = number(tried, dtype, algebra)
        known = _recognised(value, sizes)
        if known:
            return f"{over}{value:.6g} ({known})"
        if _is_plain(value):
            return f"{over}{value:.6g}"
    return f"a constant (payload 0x{int(one[0]):X})"


def number(payload: Array, dtype: str, algebra: Algebra) -> float:
    """The float whose payload this is."""
    bits = algebra.unembed(payload.reshape(-1)[:1], dtype)
    return float(np.asarray(FORMATS[float_type(dtype).mlir].decode(bits))[0])


def _recognised(value: float, sizes: Mapping[str, int]) -> str:
    formulas = dict(_CONSTANTS)
    for name, size in sizes.items():
        if size > 2:
            formulas |= {f"1/{name}": 1 / size, f"sqrt({name})": size**0.5, f"1/sqrt({name})": size**-0.5}
    with np.errstate(over="ignore"):
        given = np.float32(value)
    return next((text for text, known in formulas.items() if given in (np.float32(known), np.float32(-known))), "")


def _is_plain(value: float) -> bool:
    if not math.isfinite(value) or value == 0 or not 1e-12 <= abs(value) <= 1e12:
        return False
    mantissa, _ = math.frexp(value)
    digits = np.format_float_scientific(np.float32(value), unique=True).split("e")[0].replace(".", "").strip("-0")
    return abs(mantissa) == 0.5 or len(digits) <= _DIGITS
