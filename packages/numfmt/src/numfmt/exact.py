"""Exact reference sums: correctly rounded float64 sums and dot products, vectorised along an axis.

The rows are cut into pieces that float64 adds without error (Rump, Ogita and Oishi, "Accurate floating-point
summation part I", SIAM J. Sci. Comput. 31(1), 2008: ExtractVector). With sigma = 2^M·max|x|, the numbers
q = (sigma + x) - sigma are multiples of 2^-53·sigma whose sum stays below sigma, so that any order of adding them is
exact; x - q is exact as well and goes into the next pass. Two passes suffice unless a row cancels heavily; what they
leave is bounded, and the result is taken only where no remainder within that bound could change its rounding. Rows
for which this fails go on until nothing is left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from numfmt._inputs import as_carrier, as_integer, normal_axis
from numfmt.errorfree import CARRIER_PRECISION, Carried, products_are_easy, two_prod, two_sum

Float64Array = NDArray[np.float64]

# Elements of a row that are extracted at once: they fit the second-level cache, and a pass takes 37 bits off.
_SEGMENT = 1 << 15
# Elements of all rows that are held at once.
_BLOCK = 1 << 18
# Beyond these magnitudes sigma would overflow (above), or the bound on the remainder underflow (below).
_LARGE = 2.0**960
_SMALL = 2.0**-900


def _integer_sum(row: Float64Array) -> Fraction:
    """The exact sum of finite numbers, in integers."""
    total = 0
    for x in row.tolist():
        n, d = x.as_integer_ratio()
        total += n * ((1 << 1074) // d)
    return Fraction(total, 1 << 1074)


def round_fraction(exact: Fraction) -> tuple[float, float]:
    """A fraction rounded to nearest even in float64, and the sign of what was lost.

    Args:
        exact: Any fraction.

    Returns:
        (value, residual): value is infinite beyond float64's range; residual is -1.0, 0.0 or 1.0.
    """
    try:
        value = exact.numerator / exact.denominator
    except OverflowError:
        value = math.inf if exact > 0 else -math.inf
    if math.isinf(value):
        return value, -math.copysign(1.0, value)
    lost = exact - Fraction(value)
    return value, float((lost > 0) - (lost < 0))


def _finish(pieces: list[float]) -> tuple[float, float]:
    """The sum of a few pieces, correctly rounded, and the sign of what was lost."""
    value = math.fsum(pieces)
    return value, math.fsum([*pieces, -value])


def _extract(x: Float64Array, log_terms: int) -> Iterator[tuple[Float64Array, Float64Array]]:
    """Pass after pass: exact sums of the leading parts of each row, and a bound on what is left of it.

    Args:
        x: (rows, terms) finite numbers below `_LARGE`; overwritten.
        log_terms: ceil(log2(terms)) + 1.

    Yields:
        (tau, rest): tau[r] is exact; |sum of what is left of row r| <= rest[r]; the last rest is 0.
    """
    largest = np.abs(x).max(axis=1)
    while True:
        exponent = np.frexp(largest)[1] + log_terms
        sigma = np.where(largest > 0, np.ldexp(1.0, exponent), 0.0)[:, None]
        q = x + sigma
        q -= sigma
        x -= q
        tau = q.sum(axis=1)
        largest = np.abs(x, out=q).max(axis=1)
        rest = np.ldexp(largest, log_terms)
        yield tau, rest
        if not rest.any():
            return


def _sum_short_rows(x: Float64Array) -> Carried:
    """Correctly rounded sums of rows of at most `_SEGMENT` finite numbers below `_LARGE`; x is overwritten."""
    rows, terms = x.shape
    log_terms = max(terms - 1, 0).bit_length() + 1
    value = np.zeros(rows)
    residual = np.zeros(rows)
    open_rows = np.arange(rows)
    pieces: list[Float64Array] = []
    for tau, rest in _extract(x, log_terms):
        pieces.append(tau)
        if len(pieces) < 2 and rest.any():
            continue
        if len(pieces) <= 2:
            s, e = two_sum(pieces[0], pieces[1] if len(pieces) == 2 else np.zeros(rows))
            # The rounding of s + e + (anything within rest) is s, and the sign of e + rest is known.
            outward = np.where(rest > 0, np.maximum(2.0 * rest, np.abs(e) * 2.0**-51), 0.0)
            settled = (s + (e + outward) == s) & (s + (e - outward) == s) & ((np.abs(e) > outward) | (rest == 0))
            settled &= (np.abs(s) > _SMALL) | (rest == 0)
            value[settled], residual[settled] = s[settled], e[settled]
            open_rows = np.flatnonzero(~settled)
            if not open_rows.size:
                return Carried(value, residual)
    table = np.stack(pieces)
    for r in open_rows:
        value[r], residual[r] = _finish(table[:, r].tolist())
    return Carried(value, residual)


def _pieces_of_long_rows(x: Float64Array) -> Float64Array:
    """Few numbers with the same exact sum as each row of x, which is cut into segments and overwritten."""
    pieces: list[Float64Array] = []
    for start in range(0, x.shape[1], _SEGMENT):
        segment = x[:, start : start + _SEGMENT]
        log_terms = max(segment.shape[1] - 1, 0).bit_length() + 1
        pieces.extend(tau for tau, _ in _extract(segment, log_terms))
    return np.stack(pieces, axis=1)


def sum_rows(x: Float64Array) -> Carried:
    """Exact sums of the rows of a matrix.

    Args:
        x: (rows, terms) float64 array, not modified.

    Returns:
        `Carried` pair of two (rows,) arrays: sums rounded to nearest even, and the signs of what was lost. Infinities
        and NaN follow IEEE 754's addition; an exact zero is +0.
    """
    rows, terms = x.shape
    value, residual = np.zeros(rows), np.zeros(rows)
    if not terms or not rows:
        return Carried(value, residual)
    step = max(1, _BLOCK // terms)
    for start in range(0, rows, step):
        block = np.array(x[start : start + step])
        out = slice(start, start + len(block))
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            largest = np.maximum(block.max(axis=1), -block.min(axis=1))
            regular = largest < _LARGE
            if regular.all():
                value[out], residual[out] = _sum_regular(block)
                continue
            irregular = np.flatnonzero(~regular)
            specials = block[irregular]
            block[irregular] = 0.0
            value[out], residual[out] = _sum_regular(block)
            for r, row in zip(start + irregular, specials, strict=True):
                if np.isfinite(row).all():
                    value[r], residual[r] = round_fraction(_integer_sum(row))
                else:
                    value[r] = row[~np.isfinite(row)].sum()
    return Carried(value, residual)


def _sum_regular(block: Float64Array) -> Carried:
    while block.shape[1] > _SEGMENT:
        block = _pieces_of_long_rows(block)
    value, residual = _sum_short_rows(block)
    return Carried(value + 0.0, residual)


def exact_sum(x: ArrayLike, axis: int = -1) -> Float64Array:
    """Correctly rounded float64 sums along an axis, whatever the cancellation.

    Like `math.fsum` on every row, but for whole arrays, and without its overflow of intermediates.

    Args:
        x: Real array of any dtype that float64 holds exactly; not modified.
        axis: The axis that is summed.

    Returns:
        float64 array of x's shape without `axis`: the exact sums, rounded once to nearest even. Infinite beyond
        float64's range; infinities and NaN among the terms act as in IEEE 754's addition; exact zeros are +0.

    Raises:
        TypeError: For complex, string or object arrays.
        ValueError: For an axis that x does not have, or integers that float64 does not hold.
    """
    array = as_carrier(x, "x")
    axis = normal_axis(axis, array.ndim, "x")
    moved = np.moveaxis(array, axis, -1)
    outer, terms = moved.shape[:-1], moved.shape[-1]
    result: Float64Array = sum_rows(moved.reshape(math.prod(outer), terms)).value.reshape(outer)
    return result


class ExactAccumulator:
    """Exact sums whose terms arrive in pieces, for data that do not fit memory.

    Args:
        count: Number of independent sums T.
    """

    # Pieces of one sum that are kept before they are condensed.
    _KEPT = 256

    def __init__(self, count: int) -> None:
        self._count = as_integer(count, "count", 0)
        self._pieces: list[Float64Array] = []

    def add(self, values: ArrayLike) -> None:
        """Take the next terms of every sum.

        Args:
            values: (T, k) array of finite numbers, or infinities and NaN, which spoil their sum as in `exact_sum`.

        Raises:
            ValueError: If the number of rows is not T.
            TypeError: For complex, string or object arrays.
        """
        array = as_carrier(values, "values")
        if array.ndim != 2 or array.shape[0] != self._count:
            raise ValueError(f"values must have shape ({self._count}, k), got {array.shape}")
        if not array.size:
            return
        step = max(1, _BLOCK // array.shape[1])
        blocks = [self._condensed(array[start : start + step]) for start in range(0, self._count, step)]
        self._pieces.extend(_stacked(blocks).T)
        if len(self._pieces) > self._KEPT:
            self._pieces = list(self._condensed(np.stack(self._pieces, axis=1)).T)

    @staticmethod
    def _condensed(block: Float64Array) -> Float64Array:
        """Few numbers with the same exact sum as each row; rows beyond the method's range stay as they are."""
        with np.errstate(invalid="ignore"):
            regular = bool(np.abs(block).max(initial=0.0) < _LARGE)
        return _pieces_of_long_rows(np.array(block)) if regular else np.array(block)

    def total(self) -> Float64Array:
        """The sums of all terms so far; may be called at any time.

        Returns:
            float64 array (T,), correctly rounded.
        """
        if not self._pieces:
            return np.zeros(self._count)
        return sum_rows(np.stack(self._pieces, axis=1)).value


def _stacked(blocks: list[Float64Array]) -> Float64Array:
    """Blocks of rows below one another, the shorter ones filled up with zeros."""
    width = max(block.shape[1] for block in blocks)
    return np.concatenate([np.pad(block, ((0, 0), (0, width - block.shape[1]))) for block in blocks])


def _short(x: Float64Array) -> bool:
    """Whether products of such numbers with one another are exact in float64: at most 26 bits, middling exponents."""
    bits = np.bitwise_or.reduce(np.ascontiguousarray(x).view(np.uint64).ravel(), initial=np.uint64(0))
    if int(bits) & ((1 << (CARRIER_PRECISION - 26)) - 1):
        return False
    size = np.abs(x)
    return bool(((size < 2.0**500) & ((size > 2.0**-500) | (size == 0))).all())


def _fraction_dot(a: Float64Array, b: Float64Array) -> tuple[float, float]:
    """One exact dot product of finite numbers in rationals."""
    return round_fraction(
        sum((Fraction(x) * Fraction(y) for x, y in zip(a.tolist(), b.tolist(), strict=True)), Fraction(0))
    )


def dot_rows(a: Float64Array, b: Float64Array) -> Carried:
    """Exact dot products of the rows of two matrices of the same shape; as `sum_rows` for the results."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        if _short(a) and _short(b):
            return sum_rows(a * b)
        p, e = two_prod(a, b)
        hard = ~products_are_easy(a, b, p).all(axis=1)
        if not hard.any():
            return sum_rows(np.concatenate([p, e], axis=1))
        p[hard], e[hard] = 0.0, 0.0
        value, residual = sum_rows(np.concatenate([p, e], axis=1))
        for r in np.flatnonzero(hard):
            x, y = a[r], b[r]
            if np.isfinite(x).all() and np.isfinite(y).all():
                value[r], residual[r] = _fraction_dot(x, y)
            else:
                finite = np.isfinite(x) & np.isfinite(y)
                value[r] = (x[~finite] * y[~finite]).sum()
    return Carried(value, residual)


def exact_dot(a: ArrayLike, b: ArrayLike, axis: int = -1) -> Float64Array:
    """Correctly rounded float64 dot products along an axis.

    Args:
        a: Real array of any dtype that float64 holds exactly; not modified.
        b: Another; the two broadcast.
        axis: The axis of the broadcast arrays over which products are summed.

    Returns:
        float64 array: the exact sums of the exact products, rounded once to nearest even; infinities and NaN as in
        `exact_sum`.

    Raises:
        TypeError: For complex, string or object arrays.
        ValueError: For shapes that do not broadcast, or an axis they do not have.
    """
    x, y = as_carrier(a, "a"), as_carrier(b, "b")
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        raise ValueError(f"a and b must broadcast, got shapes {x.shape} and {y.shape}") from None
    axis = normal_axis(axis, len(shape), "a and b")
    x, y = (np.moveaxis(np.broadcast_to(v, shape), axis, -1) for v in (x, y))
    outer, terms = x.shape[:-1], x.shape[-1]
    count = math.prod(outer)
    result = np.empty(outer)
    step = max(1, _BLOCK // max(terms, 1))
    for start in range(0, count, step):
        # Rows are gathered block by block, so that a broadcast operand is never copied whole.
        size = min(step, count - start)
        index = np.unravel_index(np.arange(start, start + size), outer) if outer else ()
        rows = (np.ascontiguousarray(v[index]).reshape(size, terms) for v in (x, y))
        result[index] = dot_rows(*rows).value.reshape(np.shape(result[index]))
    return result


def exact_matmul(a: ArrayLike, b: ArrayLike) -> Float64Array:
    """The matrix product with every entry correctly rounded.

    Args:
        a: (M, K) real array.
        b: (K, N) real array.

    Returns:
        (M, N) float64 array.

    Raises:
        TypeError: For complex, string or object arrays.
        ValueError: For shapes that do not match.
    """
    x, y = as_carrier(a, "a"), as_carrier(b, "b")
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[0]:
        raise ValueError(f"a and b must be (M, K) and (K, N) matrices, got shapes {x.shape} and {y.shape}")
    return exact_dot(x[:, None, :], y.T[None, :, :])


def condition_number(p: ArrayLike, axis: int = -1) -> Float64Array:
    """The condition number of a sum, kappa = sum|p| / |sum p|, from exact sums.

    A relative change of every term by at most d changes the sum by at most kappa·d (Higham, Accuracy and Stability of
    Numerical Algorithms, 2nd ed., section 4.2). For a dot product, give the products.

    Args:
        p: Real array of terms; not modified.
        axis: The axis that is summed.

    Returns:
        float64 array of p's shape without `axis`: at least 1; infinite where the sum is zero and a term is not; 1
        where all terms are zero (or there are none); NaN where a term is not finite.

    Raises:
        TypeError: For complex, string or object arrays.
        ValueError: For an axis that p does not have.
    """
    terms = as_carrier(p, "p")
    return ratio_of_sums(exact_sum(np.abs(terms), axis), exact_sum(terms, axis))


def ratio_of_sums(magnitude: Float64Array, total: Float64Array) -> Float64Array:
    """kappa from sum|p| and sum p, with the conventions of `condition_number`."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        kappa = np.where(magnitude == 0.0, 1.0, magnitude / np.abs(total))
    # Beyond float64's range the two sums cannot tell: say so instead of a wrong 1 or infinity.
    result: Float64Array = np.where(np.isfinite(magnitude), kappa, np.nan)
    return result
