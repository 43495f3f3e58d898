"""A-priori error bounds of sums: gamma_n, and the bound of every summation method.

All bounds have the form |computed - exact| <= g·sum|x| + underflow, where g depends on the method, the number of
terms and the unit roundoff v: v = u for the nearest modes, v = 2u for directed and stochastic ones. They hold without
overflow. Terms need not be values of the format: the rounding at a term's first addition is counted.

Deterministic g (proofs in the references, composed for promoted and blocked sums):

- a tree of depth d: (1 + v)^d - 1 (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2);
- one running sum of n terms in a nearest mode: n·u without a second-order term and for every n (Jeannerod and Rump,
  "Improved error bounds for inner products in floating-point arithmetic", SIAM J. Matrix Anal. Appl. 34(2), 2013);
- Kahan and Neumaier: see `_kahan` and `_neumaier`, which keep the terms of second order that the textbook form 2u +
  O(n·u^2) leaves out, since they dominate in narrow formats.

Probabilistic g: exp(lambda·sqrt(d)·v + d·v^2 / (1 - v)) - 1 with lambda from the confidence, if rounding errors are
independent with mean zero (Higham and Mary, "A new approach to probabilistic rounding error analysis", SIAM J. Sci.
Comput. 41(5), 2019), and without that assumption for stochastic rounding (Connolly, Higham and Mary, SIAM J. Sci.
Comput. 43(1), 2021). Stagnating sums break the assumption: their errors all have one sign.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from numfmt._bits import significant_bits
from numfmt._inputs import as_carrier, normal_axis
from numfmt._rounded import RoundedArithmetic
from numfmt.exact import exact_dot, exact_sum
from numfmt.formats import FP32, FloatFormat
from numfmt.rounding import RoundingMode
from numfmt.sums import SumPlan

Float64Array = NDArray[np.float64]


def gamma(n: ArrayLike, u: float) -> Float64Array:
    """gamma_n = n·u / (1 - n·u), the bound on the relative effect of n roundings.

    Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., lemma 3.1.

    Args:
        n: Number of roundings; array or scalar, not negative.
        u: Unit roundoff, for example `BF16.unit_roundoff`; for directed and stochastic rounding twice that.

    Returns:
        float64 array of n's shape, a scalar for a scalar; infinite where n·u >= 1, where the bound does not exist.

    Raises:
        ValueError: For negative n, and for u outside (0, 1].
        TypeError: For n that holds no real numbers.
    """
    count = as_carrier(n, "n")
    if not np.all(count >= 0):
        raise ValueError(f"n must not be negative, got {n!r}")
    if not 0.0 < u <= 1.0:
        raise ValueError(f"u must be a unit roundoff in (0, 1], got {u!r}; take fmt.unit_roundoff")
    with np.errstate(divide="ignore", invalid="ignore"):
        product = count * u
        result: Float64Array = np.where(product < 1.0, product / (1.0 - product), np.inf)
    return result[()]


def roundoff(ops: RoundedArithmetic) -> float:
    """v: the largest relative error of one rounding of a normal number in the mode."""
    nearest = ops.mode.name in ("nearest_even", "nearest_away")
    return ops.fmt.unit_roundoff * (1.0 if nearest else 2.0)


def _compound(depth: float, v: float) -> float:
    """(1 + v)^depth - 1."""
    return math.expm1(depth * math.log1p(v)) if depth * v < 700 else math.inf


def _probable(depth: float, v: float, lam: float) -> float:
    """Higham and Mary's factor for `depth` roundings; v = 1 is outside the theory."""
    if v >= 1:
        return math.inf
    exponent = lam * math.sqrt(depth) * v + depth * v * v / (1.0 - v)
    return math.expm1(exponent) if exponent < 700 else math.inf


def _lambda(n: int, v: float, confidence: float) -> float:
    """The lambda for which the factor holds for all n terms at once with the given confidence."""
    return math.sqrt(2.0 * math.log(2.0 * max(n, 1) / (1.0 - confidence))) / (1.0 - v)


def _kahan(n: int, v: float) -> float:
    """g of Kahan's sum for faithful rounding with relative error at most v.

    With y = (x - c)(1 + e1), t = (s + y)(1 + e2), c' = ((t - s)(1 + e3) - y)(1 + e4), the corrected sum S = s - c obeys
    S' = S + x - a·s + b·(x - c) with |a| <= A = v^2 (2 + v) and |b| <= B = (1 + v)(1 + v + 3v^2 + v^3) - 1, and
    |c'| <= v(1 + v)^2 |s| + (1 + v)(2v + v^2)|y|. Summing over n steps bounds the largest |s|, the sum of all |c|, and
    with them the error.
    """
    a, b = v * v * (2 + v), (1 + v) * (1 + v + 3 * v * v + v**3) - 1
    from_s, from_y = v * (1 + v) ** 2, (1 + v) ** 2 * (2 * v + v * v)
    if from_y >= 1:
        return math.inf
    shrink = 1 - from_y
    share = 1 - n * a - (b * n + 1) * from_s / shrink
    if share <= 0:
        return math.inf
    largest = (1 + b + (b + 1) * from_y / shrink) / share
    all_c = (n * from_s * largest + from_y) / shrink
    last_c = (from_s * largest + from_y) / shrink
    return b + n * a * largest + b * all_c + last_c


def _neumaier(n: int, v: float, running: float, exact_differences: bool) -> tuple[float, float]:
    """(factor of |exact sum|, factor of sum|x|) of Neumaier's sum.

    The correction terms e_k = (big - t) + small miss the true errors by at most v^2·P_k, P_k = |s + x|, and, where
    big - t is not exact, by another (1 + v)·v·(|x_k| + v·P_k); adding them up loses ((1 + v)^n - 1)·sum|e_k|. (Compare
    Ogita, Rump and Oishi, "Accurate sum and dot product", SIAM J. Sci. Comput. 26(6), 2005, proposition 4.5. big - t is
    exact for terms of the format in every faithful mode: Boldo, Graillat and Muller, "On the robustness of the 2Sum
    and Fast2Sum algorithms", ACM Trans. Math. Softw. 44(1), 2017.)

    Args:
        n: Number of terms.
        v: Relative error of one rounding.
        running: g of the plain running sum, so that no |s| exceeds (1 + running)·sum|x|.
        exact_differences: Terms are values of the format, so that big - t is exact.
    """
    if v >= 1 or math.isinf(running):
        return math.inf, math.inf
    all_p = n * (1 + running) / (1 - v)
    extra = 0.0 if exact_differences else (1 + v) * v * (1 + v * all_p)
    all_e = (1 + v) * v * all_p + extra
    lost = _compound(n, v) * all_e + v * v * all_p + extra
    return v, (1 + v) * lost


def _factors(plan: SumPlan, n: int, confidence: float | None, in_format: bool) -> tuple[float, float]:
    """(factor of |exact sum|, factor of sum|x|) of a method without promotion, for n terms."""
    v = roundoff(plan.ops)
    depth = plan.method.depth(n, **plan.parameters)
    nearest = plan.ops.mode.name in ("nearest_even", "nearest_away")
    tree = _compound(depth, v)
    # One running sum; so are fused steps, whose terms are the exact sums of groups.
    running = min(tree, depth * v) if nearest and plan.method.name in ("sequential", "fused") else tree
    if plan.method.name == "kahan":
        return 0.0, _kahan(n, v)
    if plan.method.name == "neumaier":
        return _neumaier(n, v, min(running, n * v) if nearest else running, in_format)
    unbiased = nearest or plan.ops.mode.stochastic
    if confidence is not None and unbiased:
        return 0.0, min(running, _probable(depth, v, _lambda(n, v, confidence)))
    return 0.0, running


def error_bound(
    values: ArrayLike,
    fmt: FloatFormat,
    rounding: str | RoundingMode = "nearest_even",
    method: str = "sequential",
    chunk: int | None = None,
    *,
    confidence: float | None = None,
    axis: int = -1,
    promote_to: FloatFormat = FP32,
    fan_in: int | None = None,
    block: int | None = None,
    lanes: int | None = None,
) -> Float64Array:
    """A-priori bound on |accumulate(values, ...) - exact sum|, for every sum.

    Args:
        values: Terms as for `accumulate`, and the other arguments as there.
        fmt: Format of every partial sum.
        rounding: Rounding mode.
        method: Summation order.
        chunk: Promotion interval.
        confidence: None for the deterministic bound. A probability below 1 for the bound that holds with at least that
            probability for each sum, if rounding errors are independent with mean zero, and unconditionally for
            stochastic rounding; it grows with sqrt(n). Directed modes and compensated sums have no probabilistic
            bound: the deterministic one is given.
        axis: The axis that is summed.
        promote_to: Format of the outer accumulator.
        fan_in: For methods ``tree`` and ``fused``.
        block: For method ``blocked``.
        lanes: For method ``lanes``.

    Returns:
        float64 array of values' shape without `axis`; infinite where no bound exists. Overflow is not covered.

    Raises:
        ValueError: As `accumulate`, and for a confidence outside (0, 1).
        TypeError: As `accumulate`.
    """
    plan = SumPlan.of(fmt, rounding, method, chunk, promote_to=promote_to, fan_in=fan_in, block=block, lanes=lanes)
    _check_confidence(confidence)
    terms = as_carrier(values, "values")
    axis = normal_axis(axis, terms.ndim, "values")
    sums = exact_sum(np.abs(terms), axis), np.abs(exact_sum(terms, axis))
    on_quantum = on_quantum_grid(terms, fmt)
    in_format = on_quantum and significant_bits(terms) <= fmt.precision
    return bound_of_sums(plan, terms.shape[axis], *sums, confidence, 0, on_quantum, in_format)


def dot_bound(
    a: ArrayLike,
    b: ArrayLike,
    fmt: FloatFormat,
    rounding: str | RoundingMode = "nearest_even",
    method: str = "sequential",
    chunk: int | None = None,
    *,
    product: str = "rounded",
    confidence: float | None = None,
    axis: int = -1,
    promote_to: FloatFormat = FP32,
    fan_in: int | None = None,
    block: int | None = None,
    lanes: int | None = None,
) -> Float64Array:
    """A-priori bound on |dot(a, b, ...) - exact dot product|, for every dot product.

    Args:
        a: Factors as for `numfmt.dot`, and the other arguments as there.
        b: The other factors.
        fmt: Format of every product and partial sum.
        rounding: Rounding mode.
        method: Summation order.
        chunk: Promotion interval.
        product: What happens to products; ``"rounded"`` counts one rounding more.
        confidence: None, or the probability of the probabilistic bound, as for `error_bound`.
        axis: The axis that is summed.
        promote_to: Format of the outer accumulator.
        fan_in: For methods ``tree`` and ``fused``.
        block: For method ``blocked``.
        lanes: For method ``lanes``.

    Returns:
        float64 array of the common shape without `axis`; infinite where no bound exists. Overflow is not covered.

    Raises:
        ValueError: As `numfmt.dot`, and for a confidence outside (0, 1).
        TypeError: As `numfmt.dot`.
    """
    plan = SumPlan.of(fmt, rounding, method, chunk, promote_to=promote_to, fan_in=fan_in, block=block, lanes=lanes)
    _check_confidence(confidence)
    x, y = as_carrier(a, "a"), as_carrier(b, "b")
    size, total = exact_dot(np.abs(x), np.abs(y), axis), np.abs(exact_dot(x, y, axis))
    shape = np.broadcast_shapes(x.shape, y.shape)
    terms = shape[normal_axis(axis, len(shape), "a and b")]
    rounded = product == "rounded"
    return bound_of_sums(plan, terms, size, total, confidence, int(rounded), False, rounded)


def _check_confidence(confidence: float | None) -> None:
    if confidence is not None and not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}; take None for a sure bound")


def on_quantum_grid(terms: Float64Array, fmt: FloatFormat) -> bool:
    """Whether all terms, and so all their sums, are multiples of the format's smallest value: nothing underflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        in_quanta = terms / fmt.min_positive
        return bool((np.rint(in_quanta) == in_quanta).all())


def bound_of_sums(
    plan: SumPlan,
    n: int,
    size: Float64Array,
    total: Float64Array,
    confidence: float | None,
    roundings_before: int,
    on_quantum: bool,
    in_format: bool,
) -> Float64Array:
    """The bound for n terms with sum|p| = size, |sum p| = total, each rounded `roundings_before` times before."""
    if plan.chunk is None:
        of_total, of_size = _factors(plan, n, confidence, in_format)
    else:
        inner_total, inner = _factors(plan, min(n, plan.chunk), confidence, in_format)
        inner += inner_total
        _, outer = _factors(SumPlan.of(plan.outer.fmt), -(-n // plan.chunk), confidence, True)
        of_total, of_size = 0.0, inner + outer * (1 + inner)
    if roundings_before:
        first = _compound(roundings_before, roundoff(plan.ops))
        of_total, of_size = 0.0, first + (of_total + of_size) * (1 + first)
    # Each rounding of a number that is no multiple of the quantum may lose up to one quantum to underflow.
    lost = 0.0 if on_quantum else (5 * n + 1) * plan.ops.fmt.min_positive
    with np.errstate(invalid="ignore", over="ignore"):
        # Not "> 0": sums that hold NaN have no bound.
        bound = np.where(total != 0, of_total * total, 0.0) + np.where(size != 0, of_size * size, 0.0)
        result: Float64Array = np.asarray(bound + (lost * (1.0 + of_size) if lost else 0.0))
    # The bound itself was computed in float64.
    return result * (1 + 2.0**-48)
