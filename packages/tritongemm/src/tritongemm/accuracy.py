"""How far a computed product is from the true one, in the units that say whether that is much.

Definitions, for one output c of C = A B with the products p[k] = a[k]·b[k] and the float64 reference s = sum p:

- scaled error: |c - s| / (u·sum|p|), u = 2**-24 the unit roundoff of fp32, in which the kernels add. An error of 1 is
  one rounding of the largest sum there could be; a bound gamma_n allows n.
- ulps: how many numbers of the output's type lie between c and the correctly rounded s.
- bias: mean of (c - s)·sign(s) over mean |c - s|, between -1 and 1: +1 when every error makes the result larger in
  absolute value.
- kappa = sum|p| / |s|: the condition number of the sum. Relative errors grow with it, whoever adds.
- a-priori bound: gamma_n·sum|p|, n the height of the kernel's summation order, plus the rounding to the output's type
  and half of the smallest fp32 number for each operation that may underflow. No input exceeds it.
- probabilistic bound: what random, independent, unbiased rounding errors exceed only with a stated probability (Higham
  and Mary, A new approach to probabilistic rounding error analysis, 2019): with lambda = 6, 1 - 2·K·exp(-18) per
  output.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

import numfmt
from numfmt import FloatFormat
from tritongemm import automatic
from tritongemm.errors import UsageError
from tritongemm.files import replaced
from tritongemm.matrices import DTYPES, dtype_of, name_of, widened
from tritongemm.operands import Call, check_has_numbers, check_matrix
from tritongemm.orders import SummationOrder
from tritongemm.promises import LAMBDA, in_type, probable_chain, underflow
from tritongemm.reference import reference, reference_blocks
from tritongemm.tables import Table, figure, percent, share, short

__all__ = [
    "BoundedOrder",
    "ErrorAccumulator",
    "ErrorReport",
    "Tolerance",
    "a_priori_bound",
    "measure",
    "probabilistic_bound",
    "reference",
    "reference_blocks",
    "save_page",
    "ulps_between",
]

Array = np.ndarray[Any, np.dtype[Any]]

_FP32 = DTYPES["fp32"]
_FP64_UNIT_ROUNDOFF = 2.0**-53
KAPPA_QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0)
# Any order of adding K products, rounded or not before the addition, has at most this height.
ANY_ORDER = SummationOrder.chain(fused=False)


class BoundedOrder(Protocol):
    """An order of summation whose errors are bounded."""

    def describe(self) -> str:
        """The order in a few words."""

    def height(self, K: int) -> int:
        """The most roundings that any product of a sum of K passes through."""

    def relative_bound(self, K: int) -> float:
        """The largest error in units of sum|p|, underflow aside."""


@dataclass(frozen=True)
class Tolerance:
    """|actual - expected| <= atol + rtol·|expected|, the test of `numpy.allclose` and `torch.allclose`.

    Raises:
        UsageError: One of them is negative, infinite or NaN.
    """

    atol: float = 1e-4
    rtol: float = 1e-4

    def __post_init__(self) -> None:
        if not (0 <= self.atol < math.inf and 0 <= self.rtol < math.inf):
            raise UsageError(f"atol, rtol: {self.atol} and {self.rtol}; tolerances are finite and not negative.")

    def outside(self, actual: Array, expected: Array) -> Array:
        """Where the test fails; both arrays float64."""
        with np.errstate(invalid="ignore"):
            return np.asarray(~(np.abs(actual - expected) <= self.atol + self.rtol * np.abs(expected)))

    def __str__(self) -> str:
        if self.atol == self.rtol:
            return f"atol = rtol = {short(self.atol)}"
        return f"atol = {short(self.atol)}, rtol = {short(self.rtol)}"


def a_priori_bound(
    order: BoundedOrder,
    K: int,
    golden: Array,
    magnitude: Array,
    out: FloatFormat = _FP32,
    largest: tuple[Array, Array] | None = None,
) -> Array:
    """The largest error an order of summation in fp32 can make, for outputs that do not overflow.

    gamma_n·sum|p| with n the order's height (Higham, section 4.2), plus (1 + gamma_n)·K/2·2**-149 for products and
    fused additions that underflow (section 2.2; additions alone are exact there), plus one rounding to the output's
    type if that is not fp32. Orders of matrix units and of precision modes have bounds of their own, in which the
    operands' sizes take part: see `tritongemm.promises`.

    Args:
        order: The kernel's order of summation.
        K: Number of products.
        golden: Reference results, float64.
        magnitude: sum|p|, float64, same shape.
        out: The output's type.
        largest: The largest magnitudes of the rows of A and of the columns of B, each to be broadcast to that shape;
            None: no operand is subnormal, and nothing is scaled.

    Returns:
        Bounds of |c - s|, float64, same shape.
    """
    own = getattr(order, "error_bound", None)
    if own is not None and largest is not None:
        bound = own(K, magnitude, *largest)
    else:
        gamma = order.relative_bound(K)
        bound = gamma * magnitude + underflow(1 + gamma, K, _FP32)
    return np.asarray(bound) if out is _FP32 else in_type(bound, golden, out)


def probabilistic_bound(order: BoundedOrder, K: int, lam: float = LAMBDA) -> tuple[float, float]:
    """What independent unbiased rounding errors stay below, in units of sum|p|, and the probability that they do.

    Args:
        order: The kernel's order of summation.
        K: Number of products.
        lam: lambda of Higham and Mary, theorem 3.1; orders with a probabilistic bound of their own have it for 6.

    Returns:
        gamma~_n(lambda) = exp(lambda·sqrt(n)·u + n·u²/(1-u)) - 1 with n the order's height, or the a-priori bound
        where that is less, and 1 - 2·K·exp(-lambda²(1-u)²/2).
    """
    u = _FP32.unit_roundoff
    own = getattr(order, "probable", None)  # Of orders whose operations do not round to nearest.
    if own is not None:
        bound, lam = float(own(K)), LAMBDA
    else:
        bound = probable_chain(order.height(K), u, lam) if K else 0.0
        bound = min(bound, order.relative_bound(K))  # Short sums cannot err as much as that.
    return bound, max(0.0, 1 - 2 * K * math.exp(-((lam * (1 - u)) ** 2) / 2))


def ulps_between(c: Any, golden: Array) -> Array:
    """How many numbers of c's type lie between each c and the correctly rounded reference.

    Args:
        c: Computed results, fp32, fp16 or bf16.
        golden: float64 references, same shape.

    Returns:
        int64 distances; 0 means correctly rounded. Meaningless where either is not finite.
    """
    kind = dtype_of(c, "c")
    return np.asarray(np.abs(_ordinals(widened(c), kind) - _ordinals(golden, kind)))


def _ordinals(x: Array, kind: FloatFormat) -> Array:
    """The places of numbers, rounded to a type, in the order of all its numbers; -0 and +0 share one."""
    if kind is _FP32:  # NumPy rounds float64 to it correctly, and fast.
        with np.errstate(over="ignore"):
            codes = x.astype(np.float32).view(np.uint32).astype(np.int64)
    else:
        codes = kind.encode(x).astype(np.int64)
    sign = 1 << (kind.bits - 1)
    return np.where(codes & sign, -(codes & (sign - 1)), codes)


@dataclass
class ErrorReport:
    """The error of a computed product; `print(report)` shows it as a table.

    Attributes:
        name: What was measured.
        dtype: The output's type.
        K: Number of products per output.
        outputs: Outputs measured.
        order: The order of summation that the bound is for, in words.
        height: Its height n.
        tolerance: The test that `outside` counts failures of.
        max_abs: Largest |c - s|.
        rms_abs: Root mean square of c - s.
        golden_rms: Root mean square of s.
        golden_max: Largest |s|.
        max_scaled: Largest |c - s| / (u·sum|p|).
        rms_scaled: Its root mean square.
        max_out: Largest |c - s| / (u_out·|s| + u·sum|p|): in units of one rounding of the output's type and one of the
            sum; 1 at most for a correctly rounded result.
        rms_out: Its root mean square.
        bias: Signed bias, between -1 and 1.
        ulps: Share of outputs within 0, 1 and 8 ulps, and the largest distance, under "0", "1", "8", "max".
        outside: Outputs outside the tolerance of the float64 reference.
        outside_library: ... of the given fp32 library product; None without one.
        blamed: Outputs outside the library's tolerance though within float64's: the library is off there.
        bits_of_library: Outputs with the library's bits.
        atol_needed: The least atol, at the tolerance's rtol, with which every output passes against float64.
        atol_guaranteed: ... with which no input of this K and these magnitudes can fail, by the a-priori bound.
        bound_used: Largest share of the a-priori bound that an error reached; above 1 the bound is broken.
        bound_exceeded: Outputs beyond the a-priori bound.
        relative_bound: gamma_n.
        probable_bound: The probabilistic bound in units of u·sum|p|.
        probability: Its probability per output.
        kappa: Quantiles of the condition number, by their share.
        not_finite: Outputs that are NaN or infinite where the reference says so too.
        wrong_special: Outputs that are NaN or infinite where the reference is not, or the other way round.
        may_overflow: Outputs whose partial sums may overflow, so that no bound holds; left out of the figures above.
        worst: Row and column of the largest scaled error.
        worst_kappa: Condition number of that output.
        histogram: Outputs per half octave of error, scaled as in `max_scaled`, or as in `max_out` for results narrower
            than fp32: exponents (lower edges, log2) and counts; "zero" counts exact ones.
        by_kappa: Per decade fraction of kappa: lower edge (log10), outputs, rms and largest relative error in units of
            u.
    """

    name: str
    dtype: str
    K: int
    outputs: int
    order: str
    height: int
    tolerance: Tolerance
    max_abs: float
    rms_abs: float
    golden_rms: float
    golden_max: float
    max_scaled: float
    rms_scaled: float
    max_out: float
    rms_out: float
    bias: float
    ulps: dict[str, float]
    outside: int
    outside_library: int | None
    blamed: int | None
    bits_of_library: int | None
    atol_needed: float
    atol_guaranteed: float
    bound_used: float
    bound_exceeded: int
    relative_bound: float
    probable_bound: float
    probability: float
    kappa: dict[str, float]
    not_finite: int
    wrong_special: int
    may_overflow: int
    worst: tuple[int, int] | None
    worst_kappa: float
    histogram: dict[str, Any] = field(repr=False)
    by_kappa: dict[str, list[float]] = field(repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Everything, in types that JSON knows; NaN and infinities as text."""
        return {k: _plain(v) for k, v in self.__dict__.items()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the report as JSON, under a temporary name first.

        Args:
            path: The file to write or replace.
        """
        replaced(path, json.dumps(self.as_dict(), indent=1, allow_nan=False) + "\n")

    def table(self) -> Table:
        """The figures as a table of name and value."""
        rows = [
            ("outputs", f"{self.outputs:,} of K = {self.K:,} ({self.dtype})"),
            ("largest |error|", figure(self.max_abs)),
            ("largest |error| / (u·sum|p|)", figure(self.max_scaled)),
            ("rms error / (u·sum|p|)", figure(self.rms_scaled)),
            *self._in_roundings(),
            ("bias", f"{self.bias:+.2f}"),
            ("correctly rounded, within 1, 8 ulps", " / ".join(f"{100 * self.ulps[k]:.1f} %" for k in ("0", "1", "8"))),
            ("largest distance in ulps", f"{int(self.ulps['max']):,}"),
            ("kappa, median and largest", f"{figure(self.kappa['0.5'])} / {figure(self.kappa['1.0'])}"),
            ("kappa of the worst output", figure(self.worst_kappa)),
            (f"outside {self.tolerance} of float64", f"{self.outside:,}"),
            ("a-priori bound, in u·sum|p|", f"{figure(self.relative_bound / _FP32.unit_roundoff)} ({self.order})"),
            ("share of the bound used", figure(self.bound_used)),
            (f"probabilistic bound ({percent(self.probability)})", figure(self.probable_bound)),
        ]
        if self.outside_library is not None:
            rows.append((f"outside {self.tolerance} of the library", f"{self.outside_library:,}"))
            rows.append(("... where float64 agrees with it", f"{self.blamed:,}"))
            rows.append(("bits of the library", share(self.bits_of_library or 0, self.outputs)))
        if self.not_finite or self.wrong_special or self.may_overflow:
            rows.append(("NaN or infinity as expected / wrong", f"{self.not_finite:,} / {self.wrong_special:,}"))
            rows.append(("partial sums may overflow (left out)", f"{self.may_overflow:,}"))
        return Table(("", self.name), rows)

    def _in_roundings(self) -> list[tuple[str, str]]:
        if self.dtype == "fp32":
            return []
        return [
            (f"... in roundings of {self.dtype}, largest / rms", f"{figure(self.max_out)} / {figure(self.rms_out)}")
        ]

    def __str__(self) -> str:
        return self.table().text(indent="")

    def advice(self) -> str:
        """What tolerance this K and these inputs call for, in words."""
        judged = f"{self.tolerance} fails {self.outside:,} of {self.outputs:,} outputs of {self.name} against float64"
        return (
            f"{judged}; at rtol = {short(self.tolerance.rtol)} it needs atol = {figure(max(0.0, self.atol_needed), 2)} "
            "to pass, twice "
            f"that against another fp32 product ({figure(2 * max(0.0, self.atol_needed), 2)}); "
            f"only atol = {figure(max(0.0, self.atol_guaranteed), 2)} is safe whatever the signs of the rounding "
            "errors."
        )


def _plain(x: Any) -> Any:
    if isinstance(x, dict):
        return {str(k): _plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [_plain(v) for v in x]
    if isinstance(x, Tolerance):
        return {"atol": x.atol, "rtol": x.rtol}
    if isinstance(x, np.generic):
        return _plain(x.item())
    if isinstance(x, float) and not math.isfinite(x):
        return str(x)
    return x


_LOWEST, _HIGHEST, _PER_OCTAVE = -16, 16, 2
_KAPPA_DECADES, _PER_DECADE = 12, 5


class ErrorAccumulator:
    """Collects the errors of a product block by block and makes an `ErrorReport` of them.

    Args:
        name: What is measured.
        K: Number of products per output.
        dtype: The output's type.
        order: The order of summation whose bound is to hold; None for the bound of any order.
        tolerance: The test to count failures of.
    """

    def __init__(
        self,
        name: str,
        K: int,
        dtype: FloatFormat = _FP32,
        order: BoundedOrder | None = None,
        tolerance: Tolerance | None = None,
    ) -> None:
        self.name, self.K, self.dtype = name, K, dtype
        self.order: BoundedOrder = ANY_ORDER if order is None else order
        self.order_text = "any order of summation" if order is None else order.describe()
        self.tolerance = Tolerance() if tolerance is None else tolerance
        self._counts = dict.fromkeys(
            ("outputs", "outside", "outside_library", "blamed", "bits", "exceeded", "nan", "wrong", "overflow"), 0
        )
        self._sums = dict.fromkeys(("square", "scaled", "golden", "signed", "absolute", "out"), 0.0)
        self._largest = dict.fromkeys(("abs", "golden", "scaled", "share", "needed", "guaranteed", "out"), 0.0)
        self._within = dict.fromkeys((0, 1, 8), 0)
        self._ulp_max = 0
        self._library = False
        self._worst: tuple[int, int] | None = None
        self._worst_kappa = math.nan
        self._kappa: list[Array] = []
        self._zeros = 0
        self._histogram = np.zeros((_HIGHEST - _LOWEST) * _PER_OCTAVE, np.int64)
        bins = _KAPPA_DECADES * _PER_DECADE
        self._kappa_count = np.zeros(bins, np.int64)
        self._kappa_square = np.zeros(bins)
        self._kappa_max = np.zeros(bins)

    def add(
        self,
        c: Any,
        golden: Array,
        magnitude: Array,
        library: Any = None,
        at: tuple[int, int] = (0, 0),
        largest: tuple[Array, Array] | None = None,
    ) -> None:
        """Adds a block of outputs.

        Args:
            c: Computed results of the accumulator's type, a matrix.
            golden: float64 references, same shape.
            magnitude: sum|p|, same shape.
            library: A library's results to compare with as well, same shape.
            at: Row and column of the block's first output, for `worst`.
            largest: See `a_priori_bound`.
        """
        if tuple(c.shape) != golden.shape:
            raise UsageError(f"c: shape {tuple(c.shape)}, but the reference's is {golden.shape}.")
        if c.size == 0 if isinstance(c, np.ndarray) else 0 in c.shape:
            return
        n = self._counts
        got = widened(c).astype(np.float64)
        n["outputs"] += got.size
        bound = a_priori_bound(self.order, self.K, golden, magnitude, self.dtype, largest)
        with np.errstate(all="ignore"):
            finite = np.isfinite(golden) & np.isfinite(magnitude)
            special = ~finite
            same = (np.isnan(got) & np.isnan(golden)) | (got == golden)
            n["nan"] += int((special & same).sum())
            overflow = finite & (
                (magnitude * (1 + self.order.relative_bound(self.K)) > _FP32.max)
                | (np.abs(golden) + bound > self.dtype.max)
            )
            n["overflow"] += int(overflow.sum())
            wrong = (special & ~same) | (finite & ~overflow & ~np.isfinite(got))
            n["wrong"] += int(wrong.sum())
        use = finite & ~overflow & np.isfinite(got)
        if library is not None:
            self._library = True
            self._compare_library(got, golden, widened(library).astype(np.float64))
        outside = self.tolerance.outside(got, golden) & finite & ~overflow
        n["outside"] += int(outside.sum())
        if not use.any():
            return
        chosen = np.flatnonzero(use)
        before = self._largest["scaled"]
        top = self._collect(got[use], golden[use], magnitude[use], bound[use])
        if self._worst is None or self._largest["scaled"] > before:
            row, column = divmod(int(chosen[top]), got.shape[1])
            self._worst = (at[0] + row, at[1] + column)
            size = float(np.abs(golden[use][top]))
            self._worst_kappa = float(magnitude[use][top]) / size if size else math.inf

    def _compare_library(self, got: Array, golden: Array, library: Array) -> None:
        away = self.tolerance.outside(got, library) & ~(np.isnan(got) & np.isnan(library)) & (got != library)
        self._counts["outside_library"] += int(away.sum())
        self._counts["blamed"] += int((away & ~self.tolerance.outside(got, golden)).sum())
        self._counts["bits"] += int(((got == library) & (np.signbit(got) == np.signbit(library))).sum())

    def _collect(self, got: Array, golden: Array, magnitude: Array, bound: Array) -> int:
        """Takes in finite outputs, as vectors; returns the place of the largest scaled error."""
        signed = got - golden
        error = np.abs(signed)
        size = np.abs(golden)
        # The reference itself errs, a little: the bound is checked with that allowance.
        slack = numfmt.gamma(max(1, self.K), _FP64_UNIT_ROUNDOFF) * magnitude
        with np.errstate(all="ignore"):
            scaled = np.where(error > 0, error / (_FP32.unit_roundoff * magnitude), 0.0)
            unit = self.dtype.unit_roundoff * size + _FP32.unit_roundoff * magnitude
            out = np.where(error > 0, error / unit, 0.0)
            kappa = np.where(magnitude > 0, magnitude / size, 1.0)
            relative = error / size / _FP32.unit_roundoff
            used = np.where(error > 0, error / (bound + slack), 0.0)
        sums, largest = self._sums, self._largest
        sums["square"] += float(error @ error)
        sums["scaled"] += float(scaled @ scaled)
        sums["out"] += float(out @ out)
        sums["golden"] += float(golden @ golden)
        sums["signed"] += float(signed @ np.sign(golden))
        sums["absolute"] += float(error.sum())
        allowed = self.tolerance.rtol * size
        extremes = {
            "abs": error,
            "golden": size,
            "scaled": scaled,
            "out": out,
            "share": used,
            "needed": error - allowed,
            "guaranteed": bound - allowed,
        }
        for key, values in extremes.items():
            largest[key] = max(largest[key], float(values.max()))
        self._counts["exceeded"] += int((used > 1).sum())
        distance = np.abs(_ordinals(got, self.dtype) - _ordinals(golden, self.dtype))
        for limit in self._within:
            self._within[limit] += int((distance <= limit).sum())
        self._ulp_max = max(self._ulp_max, int(distance.max()))
        self._kappa.append(kappa.astype(np.float32))
        self._bin(scaled if self.dtype is _FP32 else out, kappa, relative)
        return int(scaled.argmax())

    def _bin(self, scaled: Array, kappa: Array, relative: Array) -> None:
        self._zeros += int((scaled == 0).sum())
        exponent = np.log2(scaled[scaled > 0])
        place = np.clip(np.floor((exponent - _LOWEST) * _PER_OCTAVE), 0, len(self._histogram) - 1).astype(np.int64)
        self._histogram += np.bincount(place, minlength=len(self._histogram))
        known = np.isfinite(kappa) & np.isfinite(relative)
        place = np.floor(np.log10(kappa[known]) * _PER_DECADE)
        place = np.clip(place, 0, len(self._kappa_count) - 1).astype(np.int64)
        relative = relative[known]
        self._kappa_count += np.bincount(place, minlength=len(self._kappa_count))
        self._kappa_square += np.bincount(place, relative**2, minlength=len(self._kappa_count))
        np.maximum.at(self._kappa_max, place, relative)

    def report(self) -> ErrorReport:
        """The report on everything added so far."""
        n, sums, largest = self._counts, self._sums, self._largest
        kappa = np.concatenate(self._kappa) if self._kappa else np.zeros(0, np.float32)
        used = kappa.size
        quantiles = np.quantile(kappa, KAPPA_QUANTILES, method="lower") if used else [math.nan] * len(KAPPA_QUANTILES)
        probable, probability = probabilistic_bound(self.order, self.K)
        filled = np.nonzero(self._kappa_count)[0]
        count = self._kappa_count[filled]
        return ErrorReport(
            name=self.name,
            dtype=name_of(self.dtype),
            K=self.K,
            outputs=n["outputs"],
            order=self.order_text,
            height=self.order.height(self.K),
            tolerance=self.tolerance,
            max_abs=largest["abs"],
            rms_abs=math.sqrt(sums["square"] / used) if used else math.nan,
            golden_max=largest["golden"],
            golden_rms=math.sqrt(sums["golden"] / used) if used else math.nan,
            max_scaled=largest["scaled"],
            rms_scaled=math.sqrt(sums["scaled"] / used) if used else math.nan,
            max_out=largest["out"],
            rms_out=math.sqrt(sums["out"] / used) if used else math.nan,
            bias=sums["signed"] / sums["absolute"] if sums["absolute"] else 0.0,
            ulps={**{str(k): v / used if used else math.nan for k, v in self._within.items()}, "max": self._ulp_max},
            outside=n["outside"],
            outside_library=n["outside_library"] if self._library else None,
            blamed=n["blamed"] if self._library else None,
            bits_of_library=n["bits"] if self._library else None,
            atol_needed=largest["needed"],
            atol_guaranteed=largest["guaranteed"],
            bound_used=largest["share"],
            bound_exceeded=n["exceeded"],
            relative_bound=self.order.relative_bound(self.K),
            probable_bound=probable / _FP32.unit_roundoff,
            probability=probability,
            kappa={str(q): float(x) for q, x in zip(KAPPA_QUANTILES, quantiles, strict=True)},
            not_finite=n["nan"],
            wrong_special=n["wrong"],
            may_overflow=n["overflow"],
            worst=self._worst,
            worst_kappa=self._worst_kappa,
            histogram={
                "per_octave": _PER_OCTAVE,
                "lowest": _LOWEST,
                "zero": self._zeros,
                "counts": self._histogram.tolist(),
            },
            by_kappa={
                "log10_kappa": (filled / _PER_DECADE).tolist(),
                "width": [1 / _PER_DECADE],
                "outputs": count.tolist(),
                "rms": np.sqrt(self._kappa_square[filled] / count).tolist(),
                "max": self._kappa_max[filled].tolist(),
            },
        )


def measure(
    c: Any,
    a: Any,
    b: Any,
    *,
    name: str | None = None,
    order: BoundedOrder | None = None,
    precision: str | None = None,
    tolerance: Tolerance | None = None,
    library: Any = None,
) -> ErrorReport:
    """Measures a computed product C = A B against float64. On a GPU the float64 product is computed there, in blocks.

    Args:
        c: (M, N) computed product, fp32, fp16 or bf16; NumPy or torch; or a function of a and b that computes it.
        a: (M, K) operand.
        b: (K, N) operand.
        name: What to call the product in the report; the function's name if there is one.
        order: The order in which it was summed, for its bound; without one, the bound that holds for any order, of
            16-bit operands on a matrix unit too.
        precision: Instead of an order, the precision mode whose promise is its bound; see `tritongemm.modes`.
        tolerance: The test to count failures of; atol = rtol = 1e-4 if not given.
        library: A library's fp32 product of the same operands, to be counted against too.

    Returns:
        The report.

    Raises:
        UsageError: Shapes or dtypes do not fit; fp64 is for `tritongemm.assert_close`.
    """
    if callable(c):
        name = name or str(getattr(c, "__name__", type(c).__name__))
        c = c(a, b)
    given = (("c", c), ("a", a), ("b", b))
    for argument, x in (*given, ("library", library)):
        if x is not None or argument != "library":
            _check_numbers(argument, x)
    if order is not None and not hasattr(order, "relative_bound"):
        raise UsageError(f"order: a tritongemm.orders.SummationOrder or the like, given {order!r}; see precision too.")
    if tolerance is not None and not isinstance(tolerance, Tolerance):
        raise UsageError(f"tolerance: a tritongemm.accuracy.Tolerance(atol, rtol), given {tolerance!r}.")
    for argument, x in given:
        if str(getattr(x, "dtype", "")).endswith("float64"):
            raise UsageError(
                f"{argument}.dtype: float64, and errors are measured against float64, which errs as much; "
                "tritongemm.assert_close judges such products."
            )
    kinds = {argument: dtype_of(x, argument) for argument, x in given}
    from tritongemm.auditing.implied_orders import AnyOrder, ModeOrder

    operands = name_of(kinds["a"])
    if precision is not None:
        if order is not None:
            raise UsageError("order, precision: give one of them; a precision mode has its own bound.")
        order = ModeOrder(automatic.of_type(precision, operands), operands)
        order.relative_bound(1)  # There may be no such mode.
    elif order is None:
        order = AnyOrder(operands)  # On a matrix unit too, where the operands are of 16 bits.
    if tuple(c.shape) != (a.shape[0], b.shape[1]):
        raise UsageError(f"c: shape {tuple(c.shape)}, but a and b make {(a.shape[0], b.shape[1])}.")
    if library is not None and tuple(library.shape) != tuple(c.shape):
        raise UsageError(f"library: shape {tuple(library.shape)}, but c is {tuple(c.shape)}.")
    errors = ErrorAccumulator(name or "product", int(a.shape[1]), kinds["c"], order, tolerance)
    for block in reference_blocks(a, b):
        other = None if library is None else library[block.at]
        at = (block.rows.start, block.columns.start)
        errors.add(c[block.at], block.golden, block.magnitude, other, at, block.largest)
    return errors.report()


_CALL = Call("measure")


def _check_numbers(argument: str, x: Any) -> None:
    """Checks that something is a matrix whose numbers can be read."""
    check_matrix(_CALL, argument, x)
    check_has_numbers(argument, x, "measure")
    if len(x.shape) != 2:
        raise UsageError(f"{argument}: a matrix has 2 dimensions, given shape {tuple(x.shape)}.")


def save_page(path: str | os.PathLike[str], reports: Mapping[str, ErrorReport], title: str = "Errors") -> None:
    """Writes reports as one HTML page with plots, to be looked at or attached; nothing in it is loaded from elsewhere.

    Args:
        path: The file to write or replace.
        reports: Reports of products of the same operands, by what to call them; up to four.
        title: The page's heading.

    Raises:
        UsageError: There are none, or more than can be told apart.
    """
    from tritongemm.auditing.document import Document, Section
    from tritongemm.auditing.page import page
    from tritongemm.auditing.plots import error_histogram, errors_by_kappa

    if not 1 <= len(reports) <= 4:
        raise UsageError(f"reports: {len(reports)}; one to four fit on a page.")
    labels = {key: key for key in reports}
    colours = {key: number for number, key in enumerate(reports)}
    first = next(iter(reports.values()))
    lead = [f"{first.outputs:,} outputs of K = {first.K:,} products each, against float64."]
    tables = [r.table() for r in reports.values()]
    plots = [error_histogram(reports, labels, colours), errors_by_kappa(reports, labels, colours)]
    advice = [f"{key}: {r.advice()}" for key, r in reports.items()]
    document = Document(title, "", [], lead, [Section("Figures", [*tables, *advice]), Section("Plots", plots)])
    replaced(path, page(document))
