"""How far a kernel's outputs are from float64, beside the library's in the same types: one trial of an audit.

The gate. An output is accepted when its error, rms and largest, is at most twice the larger of two others, plus one
rounding of the output's type: that of the library's result in the same types, and what moving every input by one
rounding of fp32 does to the float64 result (no algorithm that rounds can be asked for less; of inputs in fp64, by 256
roundings of fp64, for the reference's own add up too). An output of the right
formula that is not accepted gets a second look (`second_look`), at what the reference errs at inputs next to these and
with serial sums. NaN and infinity have to be where they belong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import numfmt
from numfmt import FloatFormat
from tritongemm.accuracy import Tolerance
from tritongemm.auditing.trials import Spec, Values
from tritongemm.elements import ELEMENTS

Array = np.ndarray[Any, np.dtype[Any]]

ALLOWED_RATIO = 2.0
# A reference that is further off than this share of the results' size says nothing.
MEANINGLESS = 0.1
# Where all results should be zero, and usually are of another size, errors below this share of that size are rounding.
_NOTHING = 1e-3
# The largest of many random errors is about this many times their rms; that alone is no mistake.
_PEAK = 5.0
# In float64 arithmetic a kernel may differ from the reference by the roundings of what it stores, and of constants.
_FORMULA_ROUNDINGS = 4.0
_LOWEST, _HIGHEST, _PER_OCTAVE = -12, 20, 2
# torch.testing's tolerances (torch.testing.assert_close) by the output's type: rtol, atol.
TORCH_TOLERANCES = {
    "fp64": (1e-7, 1e-7),
    "fp32": (1.3e-6, 1e-5),
    "fp16": (1e-3, 1e-5),
    "bf16": (1.6e-2, 1e-5),
    "fp8e4m3fn": (0.125, 1e-5),
    "fp8e5m2": (0.25, 1e-5),
}


def torch_tolerance(dtype: str) -> Tolerance:
    """The tolerance that `torch.testing.assert_close` takes for a type; for fp8 one rounding."""
    rtol, atol = TORCH_TOLERANCES[dtype]
    return Tolerance(atol, rtol)


@dataclass(frozen=True)
class Errors:
    """Errors of one side's output against float64.

    Attributes:
        rms: Root mean square of the error.
        largest: The largest.
        outside: Outputs outside of the tolerance.
        special: Outputs that are NaN or infinite where float64 is not, or the other way round.
        finite: Outputs that are measured.
        ulps: Share of outputs within one neighbour of the correctly rounded one.
        bias: Mean of error·sign(golden) over mean |error|.
        histogram: Outputs per half octave of |error| / (u·|golden|).
    """

    rms: float
    largest: float
    outside: int
    special: int
    finite: int
    ulps: float
    bias: float
    histogram: list[int] = field(repr=False)


@dataclass(frozen=True)
class Measured:
    """One output of one trial.

    Attributes:
        spec: The trial.
        output: Its name.
        dtype: Its type.
        shape: Its shape.
        own: The kernel's errors.
        library: The reference's in its own type; None where it lacks these types.
        rms: Root mean square of the float64 results.
        largest: Largest of them.
        moved_rms: What moving the inputs by one rounding does, rms.
        moved_largest: ... at most.
        worst: Where the kernel's largest error is, and its condition: value, golden, kappa.
        formula: Largest difference from float64 when the kernel runs without rounding, as a multiple of what the
            roundings of stored values explain; above 1 it is another formula. None if not known.
        formula_error: The same, relative to the results' size.
        resolution: The smallest difference from float64, relative to a result, that counts as another formula.
        stored: The type that results are rounded to even there.
        wrong: Where errors are beyond all tolerance, for a diagnosis.
        values: The kernel's results, and golden ones, of a small trial.
        problem: Why there is nothing to measure: another shape or type.
        library_dtype: Type of the reference's results, where it is another one.
        usual: Root mean square of the results as drawn.
        next_to_it: What a second look found the reference to be off by, rms and at most.
    """

    spec: Spec
    output: str
    dtype: str
    shape: tuple[int, ...]
    own: Errors
    library: Errors | None
    rms: float
    largest: float
    moved_rms: float
    moved_largest: float
    worst: dict[str, Any]
    formula: float | None = None
    formula_error: float = 0.0
    wrong: Array = field(default_factory=lambda: np.zeros(0, bool), repr=False)
    values: tuple[Array, Array] = field(default_factory=lambda: (np.zeros(0), np.zeros(0)), repr=False)
    problem: str = ""
    library_dtype: str = ""
    usual: float = 0.0
    resolution: float = 0.0
    stored: str = ""
    next_to_it: tuple[float, float] = (0.0, 0.0)

    @property
    def reference_text(self) -> str:
        """The reference that the gate looks at, in words."""
        return f"the reference in {self.library_dtype or 'the same types'}"

    @property
    def reference_errors(self) -> tuple[float, float]:
        """The errors that the gate compares with, rms and largest: the reference's, or what moving the inputs does."""
        library, (rms, largest) = self.library, self.next_to_it
        its = (library.rms, library.largest) if library else (0.0, 0.0)
        its = (its[0] if math.isfinite(its[0]) else 0.0, its[1] if math.isfinite(its[1]) else 0.0)
        return max(self.moved_rms, its[0], rms), max(self.moved_largest, its[1], largest)

    @property
    def may_be_luck(self) -> bool:
        """Whether it is refused for the size of its rounding errors only, which a second look may excuse."""
        special = self.problem or self.own.special or self.meaningless
        return not (special or self.accepted or (self.formula is not None and self.formula > 1))

    @property
    def floor(self) -> float:
        """One rounding of the output's type, u of it."""
        return ELEMENTS[self.dtype].format.unit_roundoff

    @property
    def allowed(self) -> tuple[float, float]:
        """The error that the gate allows, rms and largest."""
        rms, largest = self.reference_errors
        least = ELEMENTS[self.dtype].format.min_subnormal
        allowed = ALLOWED_RATIO * rms + self.floor * self.rms + least
        return allowed, max(ALLOWED_RATIO * largest + self.floor * self.largest + least, _PEAK * allowed)

    @property
    def meaningless(self) -> bool:
        """Whether the reference itself is too far off to judge by, or all results cancel to zero but for rounding."""
        library = self.library
        if self.rms == 0:
            return 0 < self.own.largest <= _NOTHING * self.usual and not self.own.special
        return library is not None and self.rms > 0 and library.rms > MEANINGLESS * self.rms

    @property
    def share(self) -> float:
        """How much of the allowed error is used: above 1 the output is refused."""
        rms, largest = self.allowed
        return max(
            self.own.rms / rms if rms else math.inf * bool(self.own.rms),
            self.own.largest / largest if largest else math.inf * bool(self.own.largest),
        )

    @property
    def accepted(self) -> bool:
        """Whether the gate lets it pass."""
        return not self.problem and self.own.special == 0 and self.share <= 1


def measure(
    spec: Spec,
    name: str,
    own: Values,
    library: Values | None,
    golden: Array,
    moved: Array | None,
    tolerance: Tolerance | None = None,
    exact: Values | None = None,
    keep: bool = False,
    several: bool = False,
    usual: float = 0.0,
    golden_dtype: str = "fp64",
    unit: float = numfmt.FP32.unit_roundoff,
) -> Measured:
    """Measures one output.

    Args:
        spec: The trial.
        name: The output's name.
        own: The kernel's output.
        library: The reference's in its own type.
        golden: The reference's in float64.
        moved: ... with every input moved by a rounding.
        tolerance: The test whose failures are counted; torch.testing's of the type if not given.
        exact: The kernel's results when it runs without rounding, and the type that they are stored in then.
        keep: Whether to keep the values.
        several: Whether several kernels hand results to each other, which rounds them also where nothing else does.
        usual: Root mean square of the results as drawn.
        golden_dtype: Type of the float64 reference's results, another one where it converts them.
        unit: How far inputs were moved, relatively.

    Returns:
        The figures.
    """
    dtype = own.dtype
    nothing = Errors(0.0, 0.0, 0, 0, 0, 1.0, 0.0, [])
    if dtype not in ELEMENTS or own.values.shape != golden.shape:
        problem = (
            f"its shape is {own.values.shape} and the reference's {golden.shape}"
            if own.values.shape != golden.shape
            else f"it is {dtype}, no floats"
        )
        return Measured(spec, name, dtype if dtype in ELEMENTS else "fp32", own.values.shape, nothing, None, 0, 0, 0, 0,
                        {}, problem=problem)  # fmt: skip
    kind = ELEMENTS[dtype].format
    test = tolerance or torch_tolerance(dtype)
    with np.errstate(all="ignore"):
        rounded = np.asarray(kind.round(golden, overflow="infinity"), np.float64)
        usable = np.isfinite(golden) & np.isfinite(rounded)
        excused = np.zeros(golden.shape, bool)
        theirs = None
        if library is not None and library.values.shape == golden.shape:
            theirs = _errors(library.values, golden, rounded, usable, excused, kind, test)
            # Where the library too leaves the finite numbers, its arithmetic overflows, not the kernel.
            excused = usable & ~np.isfinite(library.values)
        mine = _errors(own.values, golden, rounded, usable, excused, kind, test)
        difference = np.abs(own.values - golden)
        size = np.abs(golden)
        shift = np.zeros_like(golden) if moved is None else np.abs(moved - golden)
        shift = np.where(np.isfinite(shift) & usable, shift, 0.0)
        finite = usable & np.isfinite(own.values)
        between = 0.0
        if several:
            between = ALLOWED_RATIO * max(float(shift.max(initial=0.0)), theirs.largest if theirs else 0.0)
        # Rounded by whichever of the two is narrower.
        kinds = [ELEMENTS[n] for n in (exact.dtype if exact else dtype, golden_dtype) if n in ELEMENTS]
        stored = max(kinds, key=lambda e: e.format.unit_roundoff)
        share, error = _formula(exact.values if exact else None, golden, usable, shift + between, stored.format)
        norm = float(np.sqrt(np.mean(size[usable] ** 2))) if usable.any() else 0.0
        worst = _worst(own.values, golden, difference, finite, shift / unit)
        allowed = ALLOWED_RATIO * (shift + (np.abs(library.values - golden) if theirs and library else 0.0))
        wrong = (usable & ~np.isfinite(own.values)) | (difference > allowed + 2 * kind.unit_roundoff * (size + norm))
    return Measured(
        spec, name, dtype, golden.shape, mine, theirs, norm,
        float(size[usable].max(initial=0.0)),
        float(np.sqrt(np.mean(shift**2))) if shift.size else 0.0,
        float(shift.max(initial=0.0)),
        worst, share, error, wrong,
        (own.values, golden) if keep else (np.zeros(0), np.zeros(0)),
        library_dtype=library.dtype if library is not None and library.dtype != dtype else "",
        resolution=_FORMULA_ROUNDINGS * stored.format.unit_roundoff,
        stored=stored.name,
        usual=usual,
    )  # fmt: skip


def _errors(
    got: Array, golden: Array, rounded: Array, usable: Array, excused: Array, kind: FloatFormat, test: Tolerance
) -> Errors:
    expected = np.where(np.isfinite(golden), rounded, golden)
    special = ~usable & ~((got == expected) | (np.isnan(got) & np.isnan(expected)))
    special |= usable & ~np.isfinite(got) & ~excused
    use = usable & np.isfinite(got)
    signed, size = (got - golden)[use], np.abs(golden[use])
    error = np.abs(signed)
    count = error.size
    if not count:
        return Errors(0.0, 0.0, int(special.sum()), int(special.sum()), 0, 1.0, 0.0, [0] * _bins())
    scaled = np.where(error > 0, error / (kind.unit_roundoff * np.maximum(size, kind.min_normal)), 0.0)
    exponent = np.log2(scaled[scaled > 0])
    place = np.clip(np.floor((exponent - _LOWEST) * _PER_OCTAVE), 0, _bins() - 1).astype(np.int64)
    near = np.abs(got[use] - rounded[use]) <= np.asarray(kind.ulp(rounded[use]), np.float64)
    total = float(error.sum())
    return Errors(
        rms=float(np.sqrt(np.mean(error * error))),
        largest=float(error.max()),
        outside=int(test.outside(got, golden)[use].sum()) + int(special.sum()),
        special=int(special.sum()),
        finite=count,
        ulps=float(near.mean()),
        bias=float(signed @ np.sign(golden[use])) / total if total else 0.0,
        histogram=np.bincount(place, minlength=_bins()).tolist(),
    )


def _bins() -> int:
    return (_HIGHEST - _LOWEST) * _PER_OCTAVE


def histogram_edges() -> tuple[int, int]:
    """Exponent (log2) of the histograms' lowest edge, and bins per octave."""
    return _LOWEST, _PER_OCTAVE


def _formula(
    exact: Array | None, golden: Array, usable: Array, shift: Array, kind: FloatFormat
) -> tuple[float | None, float]:
    """How far a kernel without rounding is from the reference, as a share of what stored roundings explain."""
    if exact is None or exact.shape != golden.shape or not usable.any():
        return None, 0.0
    use = usable & np.isfinite(exact)
    size = np.abs(golden[use])
    norm = float(np.sqrt(np.mean(size**2))) if size.size else 0.0
    difference = np.abs(exact[use] - golden[use])
    # Stored values, among them those that another kernel reads again, are rounded; so are constants such as 1e-5.
    stored = kind.unit_roundoff * (size + norm) + numfmt.FP32.unit_roundoff * norm
    explained = _FORMULA_ROUNDINGS * (stored + shift[use]) + kind.min_subnormal
    if not difference.size:
        return None, 0.0
    # What overflows even float64 is no other formula, and is seen among the special values.
    share = float((difference / explained).max(initial=0.0))
    return share, float(difference.max(initial=0.0)) / norm if norm else 0.0


def _worst(got: Array, golden: Array, difference: Array, finite: Array, sensitivity: Array) -> dict[str, Any]:
    if not finite.any():
        return {}
    at = np.unravel_index(int(np.argmax(np.where(finite, difference, -1.0))), golden.shape)
    size = abs(float(golden[at]))
    moved = float(sensitivity[at])
    return {
        "at": [int(i) for i in at],
        "value": float(got[at]),
        "golden": float(golden[at]),
        "error": float(difference[at]),
        "kappa": moved / size if size else math.inf,
    }
