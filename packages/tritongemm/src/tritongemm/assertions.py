"""`assert_close`: is a computed matrix product right, apart from rounding? The tolerance is computed, not chosen.

For every output there are two limits on |actual - product|:

- *certain*: the a-priori bound of the precision mode, rounding of the output included. No order of summation and no
  input exceeds it: an output beyond it is wrong.
- *probable*: what independent roundings exceed in fewer than one of a million outputs (Higham and Mary, A new approach
  to probabilistic rounding error analysis, 2019, theorem 3.1, with lambda = 6). It grows with sqrt(K) instead of K, and
  so sees a single dropped product where the certain limit does not. Roundings need not be independent: in a sum of
  equal numbers they all point the same way. Outputs between the limits are therefore computed once more by the mode's
  own arithmetic, and pass where that errs alike.

Both grow with sum|p|, the sum of the products' absolute values, so results that cancel get the room they need and
others get no more than they need.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import numfmt
from numfmt import FloatFormat
from tritongemm import automatic
from tritongemm.auditing.epilogues import ACTIVATIONS, Added, After
from tritongemm.auditing.regions import roughly
from tritongemm.auditing.symptoms import EPILOGUE, OTHER_EPILOGUE, PRECISION, Symptom, Wrong, symptom
from tritongemm.elements import ELEMENTS, Element, element_of, is_typed, values_of
from tritongemm.errors import UsageError
from tritongemm.operands import (
    Call,
    check_activation,
    check_has_numbers,
    check_matrix,
    check_number,
    expanded,
    type_name,
)
from tritongemm.orders import SummationOrder
from tritongemm.promises import SPLITS, in_type, probable_chain, underflow
from tritongemm.reference import Block, reference_blocks
from tritongemm.tables import counted, figure

__all__ = ["Closeness", "Limits", "assert_close", "closeness", "limits"]

Array = np.ndarray[Any, np.dtype[Any]]

# Outputs between the limits that are computed again, and by how much they may exceed that.
_AGAIN, _AGAIN_RATIO = 48, 4.0
# Wrong outputs that an explanation is looked for with.
_EXPLAINED = 48
# Golden results that are kept to look for values at wrong places.
_KEPT = 1 << 22
_FP32, _FP64 = numfmt.FP32, numfmt.FP64
# Which argument stands for what results look like.
_ADVICE = {
    PRECISION: " If that is intended, name the mode with precision=...; otherwise find the conversion.",
    EPILOGUE: " An activation can be given here, activation=...; compare what goes into any other function.",
    OTHER_EPILOGUE: " If that is intended, give it here: alpha, beta, c, bias, activation.",
}


@dataclass(frozen=True)
class Limits:
    """How far from sum p a result may be, in units of sum|p| and apart from the rounding of the output.

    Attributes:
        certain: Never exceeded.
        probable: Exceeded by independent unbiased roundings with a probability below 2·K·exp(-18).
        absolute: Underflow, in absolute terms.
        text: What the limits are of, in words.
        unit: The unit roundoff u of the sums.
        subnormal: In units of max|row of A| + max|column of B|: what subnormal operands can add on a matrix unit.
        scaled: In units of max|row of A|·max|column of B|: of modes that scale rows and columns.
        largest: Parts of operands beyond this magnitude are infinite, and so may be what they are added to.
        opposite: What parts of products may add up to whose sign is not the products', in units of sum|p|.
    """

    certain: float
    probable: float
    absolute: float
    text: str
    unit: float = _FP32.unit_roundoff
    subnormal: float = 0.0
    scaled: float = 0.0
    largest: float = math.inf
    opposite: float = 0.0


def limits(precision: str, K: int, operands: str = "fp32") -> Limits:
    """The limits of a precision mode.

    Args:
        precision: A name of `tritongemm.modes.MODES`. "ieee" stands for any order of summation in fp32 (in fp64 for
            fp64 operands), on CUDA cores or on matrix units.
        K: Number of products per output.
        operands: Their type, a name of `tritongemm.elements.ELEMENTS`.

    Returns:
        The limits.

    Raises:
        UsageError: There is no such mode, or it does not take these operands.
    """
    from tritongemm import modes

    sums = _FP64 if operands == "fp64" else _FP32
    precision = automatic.of_type(precision, operands)
    if precision == "ieee" and operands in ("fp32", "fp16", "bf16", "fp64"):
        u = sums.unit_roundoff
        certain = float(numfmt.gamma(K, u)) if K else 0.0
        probable = probable_chain(K, u) if K else 0.0
        lost, subnormal = 0.0, 0.0
        if operands in ("fp16", "bf16") and K:
            # A matrix unit cuts products: on few of them that is more than an order can lose, and where they are
            # subnormal it is no share of them. Cutting has a direction: nothing cancels.
            unit = modes.get("ieee").promise(K, operands)
            certain = probable = max(certain, unit.relative_bound)
            lost, subnormal = unit.absolute, unit.subnormal
        lost += underflow(1 + certain, K, sums)
        text = f"any order of {K:,} products in {_short(sums)}"
        return Limits(certain, min(certain, probable), lost, text, u, subnormal)
    mode = modes.get(precision)
    promise = mode.promise(K, operands)
    certain = promise.relative_bound
    # Arithmetic that does not say what it does to operands cuts them into parts no coarser than bf16.
    split = getattr(mode.arithmetic[operands], "split", SPLITS["bf16x6"])
    return Limits(
        certain, min(certain, promise.probabilistic), promise.absolute, promise.order, sums.unit_roundoff,
        promise.subnormal, promise.scaled, promise.largest, split.spread - 1,
    )  # fmt: skip


def _short(fmt: FloatFormat) -> str:
    return "fp64" if fmt.bits == 64 else "fp32"


@dataclass
class Closeness:
    """How a product compares with its limits.

    Attributes:
        name: What was compared.
        precision: The mode.
        shape: Of the product, K last: (M, N, K).
        limits: The mode's limits.
        out: Type of the results.
        outputs: Outputs compared.
        wrong: Outputs beyond the limits, or NaN or infinite where they should not be.
        certain: How many of these are beyond the certain limit or not finite.
        excused: Outputs beyond the probable limit that the mode's own arithmetic misses alike.
        worst: The worst output: its place, value, golden value, allowed error, sum|p|.
        where: Where the wrong outputs lie, in words.
        looks_like: What they look like.
        rms: Root mean square of all errors, in units of u·sum|p|.
    """

    name: str
    precision: str
    shape: tuple[int, int, int]
    limits: Limits
    out: Element
    outputs: int = 0
    wrong: int = 0
    certain: int = 0
    excused: int = 0
    worst: dict[str, Any] = field(default_factory=dict)
    where: str = ""
    looks_like: Symptom | None = None
    rms: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether every output is within its limits."""
        return self.wrong == 0

    def message(self, advice: bool = True) -> str:
        """What is wrong, in a few lines.

        Args:
            advice: Whether to say which argument of `assert_close` stands for what was found.
        """
        M, N, K = self.shape
        if self.passed:
            excused = f" ({self.excused:,} as far off as the mode's own arithmetic)" if self.excused else ""
            return f"{self.name} is within the limits of {self.precision!r} in all {self.outputs:,} outputs{excused}."
        w = self.worst
        unit = self.limits.unit
        lines = [
            f"{self.name} ({M} x {N}, K = {K}) is not the product of a and b: {self.wrong:,} of {self.outputs:,} "
            f"outputs {'are' if self.wrong > 1 else 'is'} further away than {self.precision!r} allows.",
            f"  Where: {self.where}; the worst is [{w['row']}, {w['column']}]: {w['value']:.9g} instead of "
            f"{w['golden']:.9g}.",
        ]
        if math.isfinite(w["error"]):
            kappa = w["magnitude"] / abs(w["golden"]) if w["golden"] else math.inf
            scaled = w["error"] / (unit * w["magnitude"]) if w["magnitude"] else math.inf
            share = w["error"] / w["allowed"] if w["allowed"] else math.inf
            lines.append(
                f"  Its error {w['error']:.3g} is {figure(share)} times what is allowed "
                f"({w['allowed']:.3g}); sum|p| = {w['magnitude']:.4g}, kappa = {figure(kappa)}, error / (u·sum|p|) = "
                f"{figure(scaled)}."
            )
        lines.append(f"  {self.reading(advice)}")
        lines.append(
            f"  The limit is computed from {self.limits.text}: {figure(self.limits.probable / unit)} u·sum|p| per "
            f"output (certain: {figure(self.limits.certain / unit)}), plus the rounding to {self.out.name}."
        )
        return "\n".join(lines)

    def reading(self, advice: bool = True) -> str:
        """What the wrong outputs look like, in a sentence or two.

        Args:
            advice: See `message`.
        """
        found = self.looks_like
        if found is not None:
            said = _ADVICE.get(found.kind, "") if advice else ""
            return f"This looks like {found.kind}: {found.text}.{said}"
        if 20 * self.certain < self.wrong:
            return (
                f"Most are just beyond the limit, which speaks for another precision than {self.precision!r} rather "
                "than for an indexing mistake; none of the usual ones gives these values."
            )
        if self.certain:
            share = self.wrong / max(1, self.outputs)
            if share < 0.5:
                return (
                    f"No rounding does that: the certain limit is exceeded in {counted(self.certain, 'output')}. "
                    "As other outputs are right, look at masks, strides and tails."
                )
            return (
                f"No rounding of {self.precision!r} does that: the certain limit is exceeded in "
                f"{counted(self.certain, 'output')}."
            )
        return (
            "It may be rounding, but of no order of summation that was tried: nothing exceeds the certain limit, and "
            "the mode's own arithmetic errs less on the same numbers."
        )


def assert_close(
    actual: Any,
    a: Any,
    b: Any,
    *,
    precision: str = "ieee",
    alpha: float = 1.0,
    beta: float = 0.0,
    c: Any = None,
    bias: Any = None,
    activation: str | None = None,
    name: str = "actual",
) -> None:
    """Asserts that a matrix is activation(alpha·(a b) + beta·c + bias), but for what a precision mode may round.

    Use it instead of `allclose`: no tolerance is given, it follows from K, from the operands and from the types.

    Args:
        actual: (M, N) results, fp64, fp32, fp16 or bf16; NumPy or torch, CPU or GPU; or (B, M, N).
        a: (M, K) operand, or (B, M, K).
        b: (K, N) operand, or (B, K, N).
        precision: The mode whose rounding is allowed: "ieee" (any order of fp32 additions of exact or fp32-rounded
            products), "tf32", "bf16x3", ...
        alpha: Factor of the product.
        beta: Factor of c.
        c: (M, N) matrix that was added, of any type.
        bias: (N,) vector that was added.
        activation: "relu", "gelu" (the exact one, by erf) or "silu", applied before the result is rounded to its type.
        name: What to call the results in the message.

    Raises:
        AssertionError: An output is further away; the message says where, how many, how badly conditioned, and whether
            it looks like an indexing mistake, another precision, or rounding.
        UsageError: Shapes or dtypes do not fit, or there is no such mode or activation.
    """
    found = closeness(
        actual, a, b, precision=precision, alpha=alpha, beta=beta, c=c, bias=bias, activation=activation, name=name
    )
    if not found.passed:
        raise AssertionError(found.message())


def closeness(
    actual: Any,
    a: Any,
    b: Any,
    *,
    precision: str = "ieee",
    alpha: float = 1.0,
    beta: float = 0.0,
    c: Any = None,
    bias: Any = None,
    activation: str | None = None,
    name: str = "actual",
) -> Closeness:
    """What `assert_close` asserts, as a result: counts, the worst output, and what the wrong ones look like.

    Args:
        actual: See `assert_close`.
        a: See `assert_close`.
        b: See `assert_close`.
        precision: See `assert_close`.
        alpha: See `assert_close`.
        beta: See `assert_close`.
        c: See `assert_close`.
        bias: See `assert_close`.
        activation: See `assert_close`.
        name: See `assert_close`.

    Returns:
        The comparison.

    Raises:
        UsageError: Shapes or dtypes do not fit, or there is no such mode or activation.
    """
    check_activation(activation)
    alpha, beta = check_number("alpha", alpha), check_number("beta", beta)
    out = element_of(actual, "actual")
    kinds = [element_of(x, argument) for argument, x in (("a", a), ("b", b))]
    if beta and c is None:
        raise UsageError(f"beta: {beta}, but there is no c; give c=, or leave beta at 0.")
    c = c if beta else None
    for argument, x in (("actual", actual), ("a", a), ("b", b), ("c", c), ("bias", bias)):
        _check_numbers(argument, x)
    operands = max(kinds, key=lambda kind: kind.format.bits).name
    precision = automatic.of_type(precision, operands)
    # Bit patterns cannot be cut into blocks; their numbers can.
    actual, a, b = (values_of(x, k) if is_typed(x) else x for x, k in zip((actual, a, b), (out, *kinds), strict=True))
    shapes = tuple(tuple(x.shape) for x in (actual, a, b))
    _check_product(*shapes)
    c, bias = (values_of(x, element_of(x, n)) if is_typed(x) else x for n, x in (("c", c), ("bias", bias)))
    if c is not None:
        c = expanded(_CALL, "c", c, shapes[0])
    if bias is not None and tuple(bias.shape) != shapes[0][-1:]:
        raise UsageError(
            f"bias: shape {tuple(bias.shape)}, but one number per column is added: {shapes[0][-1:]}; what has more "
            "dimensions goes to c, with beta=1."
        )
    epilogue = _Epilogue(alpha, beta, c, bias, activation)
    allowed = limits(precision, int(a.shape[-1]), operands)
    if actual.ndim == 3:
        return _batched(
            actual, a, b, shapes, precision=precision, alpha=alpha, beta=beta, c=c, bias=bias, activation=activation,
            name=name,
        )  # fmt: skip
    M, N, K = int(a.shape[0]), int(b.shape[1]), int(a.shape[1])
    result = Closeness(name, precision, (M, N, K), allowed, out)
    search = _Search(result, actual, a, b, epilogue, operands)
    for block in reference_blocks(a, b):
        expected = _with_epilogue(block, alpha, beta, c, bias, search.sums, allowed)
        search.look_at(epilogue.activated(expected, search.sums))
    search.finish()
    return result


_CALL = Call("assert_close")


def _check_numbers(argument: str, x: Any) -> None:
    """Checks that something is a matrix whose numbers can be read."""
    if x is not None:
        check_matrix(_CALL, argument, x)
        check_has_numbers(argument, x, "compare")


def _check_product(actual: tuple[int, ...], a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Checks that shapes are those of a product of matrices or of a batch of them."""
    many = len(actual) == 3
    if {len(actual), len(a), len(b)} - {2 + many} or not (
        actual[:-1] == a[:-1] and a[-1] == b[-2] and b[-1] == actual[-1] and b[:-2] == a[:-2]
    ):
        wanted = "(B, M, N), (B, M, K), (B, K, N)" if many else "(M, N), (M, K), (K, N)"
        raise UsageError(f"actual, a, b: shapes {actual}, {a} and {b} are no {wanted}.")


def _batched(actual: Any, a: Any, b: Any, shapes: tuple[Any, ...], **how: Any) -> Closeness:
    name, c = how.pop("name"), how.pop("c")
    found = [
        closeness(actual[i], a[i], b[i], name=f"{name}[{i}]", c=None if c is None else c[i], **how)
        for i in range(shapes[0][0])
    ]
    wrong = [one for one in found if not one.passed]
    if wrong:
        return wrong[0]
    if not found:
        return Closeness(name, how["precision"], (shapes[1][1], shapes[2][2], shapes[1][2]), Limits(0, 0, 0, ""),
                         ELEMENTS["fp32"])  # fmt: skip
    whole = found[0]
    whole.name, whole.outputs = name, sum(one.outputs for one in found)
    whole.excused = sum(one.excused for one in found)
    return whole


@dataclass(frozen=True)
class _Expected:
    """A block of golden results after the epilogue.

    Attributes:
        rows: Its rows.
        columns: Its columns.
        golden: What belongs there.
        magnitude: Sum of the absolute values of all that is added up.
        extra: What the epilogue's own roundings may add to the error.
        above: Where a partial sum may overflow to +inf.
        below: Where one may overflow to -inf.
        parts: Where the parts of one product may overflow to both.
    """

    rows: slice
    columns: slice
    golden: Array
    magnitude: Array
    extra: Array | float
    above: Array
    below: Array
    parts: Array


def _with_epilogue(
    block: Block, alpha: float, beta: float, c: Any, bias: Any, sums: FloatFormat, limits: Limits
) -> _Expected:
    """alpha, beta, c and bias applied in float64; each may cost one more rounding of what it touches, and its own."""
    with np.errstate(all="ignore"):
        above, below = _overflows(block.golden, block.magnitude, sums, limits)
        parts = ~(limits.opposite * block.magnitude <= sums.max) & np.isfinite(block.golden) & (alpha != 0)
        if alpha < 0:
            above, below = below, above
        if alpha == 0:  # Nothing of a and b is read, infinities neither.
            golden = magnitude = np.zeros_like(block.golden)
            above = below = np.zeros(golden.shape, bool)
        else:
            golden, magnitude = alpha * block.golden, abs(alpha) * block.magnitude
        extra: Array | float = 0.0
        u, tiny = _FP32.unit_roundoff, sums.min_subnormal
        if alpha not in (0, 1):
            extra = extra + u * magnitude + _lost(alpha, sums) * block.magnitude + tiny
        for factor, added in ((beta, c if beta else None), (1.0, bias)):
            if added is None:
                continue
            values = _values(added[block.at] if added.ndim == 2 else added[block.columns])
            term = factor * values
            golden = golden + term
            magnitude = magnitude + np.abs(term)
            extra = extra + 2 * u * magnitude + _lost(factor, sums) * np.abs(values) + tiny
            if type_name(added) == "float64" and sums.bits < 64:  # It becomes a number of the sums' type first.
                extra = extra + abs(factor) * tiny
        if golden is not block.golden:
            over = _overflows(golden, magnitude, sums, limits)
            above, below = above | over[0], below | over[1]
    return _Expected(block.rows, block.columns, golden, magnitude, extra, above, below, parts)


def _lost(factor: float, sums: FloatFormat) -> float:
    """What a factor loses when it is rounded to the type of sums; nothing if it is beyond its range."""
    if sums.bits == 64 or not abs(factor) <= sums.max:
        return 0.0
    return abs(factor - float(np.float32(factor)))


def _overflows(golden: Array, magnitude: Array, sums: FloatFormat, limits: Limits) -> tuple[Array, Array]:
    """Where partial sums in some order may overflow to +inf, and where to -inf.

    The largest partial sum is that of all positive terms, (sum|p| + sum p)/2, and the least that of all negative ones.
    """
    most = sums.max / (1 + limits.certain) / (1 + 2 * limits.opposite)
    # Halves are added: in fp64, sums may be larger than the largest number.
    positive, negative = magnitude / 2 + golden / 2, magnitude / 2 - golden / 2
    return ~(positive <= most) & np.isfinite(golden), ~(negative <= most) & np.isfinite(golden)


@dataclass(frozen=True)
class _Epilogue:
    """What follows the product."""

    alpha: float
    beta: float
    c: Any
    bias: Any
    activation: str | None

    @property
    def slope(self) -> float:
        """How much an error of a sum may be enlarged."""
        return ACTIVATIONS[self.activation].slope if self.activation else 1.0

    def activated(self, sums: _Expected, fmt: FloatFormat) -> _Expected:
        """A block of sums after the activation, in float64."""
        if self.activation is None:
            return sums
        function = ACTIVATIONS[self.activation]
        with np.errstate(all="ignore"):
            extra = sums.extra + function.roundings * fmt.unit_roundoff * np.abs(sums.golden)
            return replace(sums, golden=function.of(sums.golden), extra=extra)

    def at(self, rows: Array, columns: Array) -> After:
        """What follows the sums of some outputs."""

        def values(added: Any, rows: Array, columns: Array) -> Array:
            at = (rows, columns) if isinstance(added, np.ndarray) else (rows.tolist(), columns.tolist())
            return _values(added[at] if added.ndim == 2 else added[at[1]])

        c = None if self.c is None else self.beta * values(self.c, rows, columns)
        bias = along_rows = None
        if self.bias is not None:
            bias = values(self.bias, rows, columns)
            if self.bias.ndim == 1 and rows.max(initial=0) < self.bias.shape[0]:
                along_rows = values(self.bias, rows, rows)
        return After(self.alpha, self.beta, Added(c, bias), along_rows, self.activation)


class _Search:
    """Finds the outputs beyond their limits, block by block, and keeps what an explanation needs."""

    def __init__(self, result: Closeness, actual: Any, a: Any, b: Any, epilogue: _Epilogue, operands: str) -> None:
        self.result, self.actual, self.a, self.b = result, actual, a, b
        self.epilogue, self.alpha, self.operands = epilogue, epilogue.alpha, operands
        self.sums = _FP64 if operands == "fp64" else _FP32
        self.out = result.out.format
        M, N, _ = result.shape
        self.mask = np.zeros((M, N), bool)
        self.golden = np.empty((M, N)) if M * N <= _KEPT else None
        needed = bool(result.limits.subnormal or result.limits.scaled or math.isfinite(result.limits.largest))
        self.rows: Array = _largest(a, 1) if needed else np.zeros(M)
        self.columns: Array = _largest(b, 0) if needed else np.zeros(N)
        self.found: list[tuple[Array, ...]] = []
        self.doubtful: list[tuple[Array, ...]] = []
        self.square, self.finite = 0.0, 0

    def look_at(self, block: _Expected) -> None:
        r = self.result
        at = (block.rows, block.columns)
        got = _values(self.actual[at])
        golden, magnitude = block.golden, block.magnitude
        r.outputs += got.size
        if self.golden is not None:
            self.golden[at] = golden
        with np.errstate(all="ignore"):
            error = np.abs(got - golden)
            certain, probable = (
                self._allowed(limit, golden, magnitude, block.extra + self._of_rows(at))
                for limit in (r.limits.certain, r.limits.probable)
            )
            same = (got == golden) | (np.isnan(got) & np.isnan(golden))
            same |= np.isfinite(golden) & self._overflowed(got, golden, certain, block)
            surely = ~same & (~(error <= certain) | ~np.isfinite(golden))
            maybe = ~same & ~surely & (error > probable)
            fine = np.isfinite(error) & (magnitude > 0)
            unit = self.sums.unit_roundoff
            scaled = np.where(fine, error / (unit * np.where(fine, magnitude, 1.0)), 0.0)
        self.square += float((scaled * scaled).sum())
        self.finite += int(fine.sum())
        for mask, store, allowed in ((surely, self.found, probable), (maybe, self.doubtful, probable)):
            if mask.any():
                rows, columns = np.nonzero(mask)
                store.append(
                    (
                        rows + block.rows.start,
                        columns + block.columns.start,
                        got[mask],
                        golden[mask],
                        allowed[mask],
                        magnitude[mask],
                    )
                )

    def _overflowed(self, got: Array, golden: Array, certain: Array, block: _Expected) -> Array:
        """Where a finite product may come out as what is there: an infinity, or the NaN of two infinities' sum."""
        above = block.above | (golden + certain > self.out.max)
        below = block.below | (golden - certain < -self.out.max)
        largest = np.maximum(self.rows[block.rows, None], self.columns[None, block.columns])
        both = (block.above & block.below) | block.parts | (largest >= self.result.limits.largest)
        if self.epilogue.activation in ("gelu", "silu"):
            both |= block.below  # They make NaN of -inf.
        return np.asarray(np.isnan(got) & both | (got == np.inf) & above | (got == -np.inf) & below)

    def _of_rows(self, at: tuple[slice, slice]) -> Array:
        high, wide = self.rows[at[0], None], self.columns[None, at[1]]
        limits = self.result.limits
        return np.asarray(abs(self.alpha) * (limits.subnormal * (high + wide) + limits.scaled * high * wide))

    def _allowed(self, relative: float, golden: Array, magnitude: Array, extra: Array | float) -> Array:
        r = self.result
        bound = relative * magnitude + abs(self.alpha) * r.limits.absolute + extra
        # The reference errs too, if less.
        bound = bound + float(numfmt.gamma(max(1, r.shape[2]), _FP64.unit_roundoff)) * magnitude
        bound = bound * self.epilogue.slope
        if self.out.bits < self.sums.bits:
            bound = in_type(bound, golden, self.out)
        return np.asarray(bound)

    def finish(self) -> None:
        r = self.result
        r.rms = math.sqrt(self.square / self.finite) if self.finite else 0.0
        found, doubtful = _joined(self.found), _joined(self.doubtful)
        r.certain = found[0].size
        if doubtful[0].size:
            excused = self._errs_alike(doubtful)
            r.excused = int(excused.sum())
            found = tuple(np.concatenate([x, y[~excused]]) for x, y in zip(found, doubtful, strict=True))
        rows, columns, got, golden, allowed, magnitude = found
        r.wrong = rows.size
        if not rows.size:
            return
        self.mask[rows, columns] = True
        r.where = roughly(self.mask)
        error = np.abs(got - golden)
        share = np.where(np.isfinite(error), error / np.maximum(allowed, 1e-300), np.inf)
        at = int(np.argmax(share))
        r.worst = {
            "row": int(rows[at]), "column": int(columns[at]), "value": float(got[at]), "golden": float(golden[at]),
            "allowed": float(allowed[at]), "error": float(error[at]), "magnitude": float(magnitude[at]),
        }  # fmt: skip
        # The worst alone would not show the usual size of errors.
        some = np.argsort(-share, kind="stable")[_spread(rows.size, _EXPLAINED)]
        rows, columns = rows[some], columns[some]
        x, y = self._operands(rows, columns)
        after = self.epilogue.at(rows, columns)
        r.looks_like = symptom(
            Wrong((rows, columns), got[some], golden[some], allowed[some], x, y, self.golden, self.out, after)
        )

    def _operands(self, rows: Array, columns: Array) -> tuple[Array, Array]:
        x, y = (_values(m) for m in (_rows(self.a, rows), _rows(self.b.T, columns)))
        return x, y

    def _errs_alike(self, doubtful: tuple[Array, ...]) -> Array:
        """Whether the mode's own arithmetic misses the doubtful outputs by about as much."""
        rows, columns, got, golden, allowed, magnitude = doubtful
        error = np.abs(got - golden)
        worst = np.argsort(-(error / allowed), kind="stable")[:_AGAIN]
        x, y = self._operands(rows[worst], columns[worst])
        made = np.concatenate([self._by_the_mode(x[i : i + 1], y[i : i + 1]) for i in range(len(worst))])
        off = np.abs(made - (x * y).sum(axis=1)) * abs(self.alpha) * self.epilogue.slope
        excused = np.zeros(rows.size, bool)
        excused[worst] = error[worst] <= _AGAIN_RATIO * off + self._allowed(0.0, golden, magnitude, 0.0)[worst]
        if excused[worst].all():
            excused[:] = True  # Those that were not computed again are closer to their limit.
        return excused

    def _by_the_mode(self, x: Array, y: Array) -> Array:
        """One output, as (1,) float64, in the mode's own arithmetic."""
        if self.result.precision == "ieee":
            made = SummationOrder.chain().simulate(x.astype(np.float32), y.T.astype(np.float32))
        else:
            from tritongemm import modes

            kinds = (self.operands, self.operands)
            made = modes.get(self.result.precision).predict(x.astype(np.float32), y.T.astype(np.float32), types=kinds)
        return np.asarray(np.asarray(made, np.float64)[0])


def _values(x: Any) -> Array:
    """Numbers as float64; those of a GPU are copied to the CPU."""
    if isinstance(x, np.ndarray):
        return x.astype(np.float64)
    return np.asarray(x.detach().double().cpu().numpy())


def _largest(x: Any, axis: int) -> Array:
    """The largest magnitude of each row or column."""
    values = np.abs(_values(x))
    return np.asarray(values.max(axis=axis, initial=0.0, where=np.isfinite(values)))


def _spread(count: int, most: int) -> Array:
    """At most `most` of the numbers below count, evenly spread, the first and last among them."""
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).astype(np.int64)


def _rows(x: Any, rows: Array) -> Any:
    return x[rows] if isinstance(x, np.ndarray) else x[rows.tolist()]


def _joined(parts: list[tuple[Array, ...]]) -> tuple[Array, ...]:
    if not parts:
        whole = np.zeros(0, np.int64)
        return (whole, whole, *(np.zeros(0) for _ in range(4)))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))
