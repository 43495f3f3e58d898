"""`identify`: what a black box that sums products does, from designed inputs.

Three stages. *Masking* reveals the summation tree (which terms meet where, in which order, how many are fused, where c
enters). *Probes* on one fused node measure what the tree cannot show: how many bits are kept below the largest
exponent, how a result is rounded, what a zero counts with. *Comparison* runs designed and random matrices through the
box and through
models: those of the table whose tree fits, and every one-fact change of the best of them. What reproduces all bits
stays; more than one model staying means that the inputs could not tell them apart, which is reported.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from numfmt._errors import unknown_name
from numfmt.dtypes import TYPES
from numfmt.formats import FP16, FP32, FP64, FloatFormat
from numfmt.matrix_units.operands import PARTS
from numfmt.matrix_units.product import matmul
from numfmt.matrix_units.schedules import ChainAll, Promote, Request, Schedule, TlDot, promote, split_k, tl_dot
from numfmt.matrix_units.trees import Leaf, Tree, Unrevealed, model_tree, reveal
from numfmt.matrix_units.units import INPUT_FORMATS, UNITS, MatrixUnit, format_key

KINDS = ("matmul", "dot", "sum")
FRAMEWORKS = ("numpy", "torch")

# Rows and columns of one result that are compared with models.
_COMPARED_SIDE = 64
# Bits between the mask and the sum of the small numbers: what a fused sum keeps at most, so that these vanish beside
# it.
_MASK_BITS = 25


# ------------------------------------------------------------------------------------------------------ calling the box
@dataclass
class BlackBox:
    """A callable with its calling convention, called with many experiments at a time.

    Attributes:
        function: Takes (a, b), (a, b, c), (x, y) or (x,), as `kind` and `takes_c` say.
        kind: "matmul" (matrices (M, K), (K, N)), "dot" (two vectors) or "sum" (one vector).
        keys: Names of the operands' formats.
        k: Number of products.
        shape: (M, N) of every matrix call.
        takes_c: The function takes c as its third argument.
        c_dtype: dtype of c.
        framework: "numpy" or "torch".
        device: torch device.
        calls: How often the function was called so far.
    """

    function: Callable[..., Any]
    kind: str
    keys: tuple[str, str]
    k: int
    shape: tuple[int, int]
    takes_c: bool
    c_dtype: type[np.floating[Any]]
    framework: str
    device: str
    calls: int = 0

    def products(
        self, a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Results of experiments: row t of `a` (T, k) times row t of `b` (T, k), onto c[t]."""
        count = a.shape[0]
        if self.kind != "matmul":
            return np.array([self._vector(a[t], b[t]) for t in range(count)])
        results = np.empty(count)
        at_once = min(self.shape)
        for start in range(0, count, at_once):
            part = slice(start, min(start + at_once, count))
            size = part.stop - start
            left, right = np.zeros((self.shape[0], self.k)), np.zeros((self.k, self.shape[1]))
            left[:size], right[:, :size] = a[part], b[part].T
            onto = np.zeros(self.shape)
            if c is not None:
                onto[np.arange(size), np.arange(size)] = c[part]
            results[part] = np.diagonal(self.matrices(left, right, onto))[:size]
        return results

    def matrices(
        self, a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """One call on whole matrices, as float64."""
        arguments = [self._given(a, self.keys[0]), self._given(b, self.keys[1])]
        if self.takes_c:
            onto = np.zeros((a.shape[0], b.shape[1])) if c is None else c
            arguments.append(self._tensor(onto.astype(self.c_dtype)))
        return self._called(arguments)

    def _vector(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
        given = [x * y] if self.kind == "sum" else [x, y]
        return float(self._called([self._given(v, key) for v, key in zip(given, self.keys, strict=False)]))

    def _called(self, arguments: list[Any]) -> NDArray[np.float64]:
        self.calls += 1
        with np.errstate(all="ignore"):
            result = self.function(*arguments)
        if hasattr(result, "detach"):
            result = result.detach().cpu().double().numpy()
        numbers = np.asarray(result).astype(np.float64)
        shapes = [tuple(x.shape) for x in arguments]
        expected = (shapes[0][0], shapes[1][1]) if self.kind == "matmul" else ()
        if numbers.shape != expected and not (self.kind != "matmul" and numbers.size == 1):
            raise ValueError(
                f"function must return an array of shape {expected} for arguments of shapes "
                f"{', '.join(map(str, shapes))} with kind={self.kind!r}, got shape {numbers.shape}"
            )
        return numbers.reshape(expected)

    def _given(self, values: NDArray[np.float64], key: str) -> Any:
        """Values in the dtype of their format, as the framework's array."""
        fmt = _format(key)
        if self.framework == "torch":
            torch = importlib.import_module("torch")
            name = _type_name(fmt)
            if name is None or not hasattr(torch, name):
                raise ValueError(f"inputs: torch has no dtype for {key}; wrap the function and use framework='numpy'")
            # Through float32, which holds every value of these formats but float64.
            wide = torch.from_numpy(np.ascontiguousarray(values if fmt == FP64 else values.astype(np.float32)))
            return wide.to(getattr(torch, name)).to(self.device)
        return values.astype(np.float32 if fmt.bits < 16 or key == "tf32" else _array_type(fmt))

    def _tensor(self, values: NDArray[Any]) -> Any:
        if self.framework == "torch":
            return importlib.import_module("torch").from_numpy(values).to(self.device)
        return values


def _format(key: str) -> FloatFormat:
    return FP64 if key == "fp64" else INPUT_FORMATS["fp32" if key == "tf32" else key]


def _array_type(fmt: FloatFormat) -> np.dtype[Any]:
    """The type of NumPy arrays of a format: float32, which holds its values, for bf16 where ml_dtypes is missing."""
    try:
        return fmt.dtype or np.dtype(np.float32)
    except ImportError:
        return np.dtype(np.float32)


def _type_name(fmt: FloatFormat) -> str | None:
    return next((name for name, known in TYPES.items() if known == fmt), None)


# ------------------------------------------------------------------------------------------------------------- results
@dataclass(frozen=True)
class Facts:
    """What the probes measured on one fused node; None where the box shows no fused node or the probe found nothing.

    Attributes:
        fan_in: Products of a fused sum, c not counted; 1 if all additions are ordinary.
        fraction_bits: Bits kept below the largest exponent of a fused sum; None: all of them (more than 40), or no
            fused sum.
        mantissa_bits: Mantissa bits of a result.
        rounding: "toward_zero", "nearest_even" or another name, of the result.
        c_aligned: c takes part in the fused sum (True) or is added to it (False).
    """

    fan_in: int
    fraction_bits: int | None
    mantissa_bits: int | None
    rounding: str | None
    c_aligned: bool | None


@dataclass(frozen=True)
class Model:
    """A unit and a schedule that may explain the box."""

    unit: MatrixUnit
    schedule: Schedule
    name: str
    resolves: str | MatrixUnit


@dataclass(frozen=True)
class Identification:
    """What `identify` found.

    Attributes:
        tree: The summation tree.
        facts: Measurements.
        models: Models that reproduce every compared output, the table's first.
        alternatives: One-fact changes of the first model that reproduce every output as well.
        compared: Outputs compared.
        reproduced: Share of them that the best model reproduces, bit for bit.
        best: Name of the best model, or None if none has the tree.
        calls: How often the box was called.
        notes: Remarks.
    """

    tree: Tree
    facts: Facts
    models: tuple[Model, ...]
    alternatives: tuple[str, ...]
    compared: int
    reproduced: float
    best: str | None
    calls: int
    notes: tuple[str, ...] = field(default=())

    @property
    def unit(self) -> MatrixUnit | None:
        """The unit of the first model, or None."""
        return self.models[0].unit if self.models else None

    @property
    def schedule(self) -> Schedule | None:
        """The schedule of the first model, or None."""
        return self.models[0].schedule if self.models else None

    def __str__(self) -> str:
        facts = self.facts
        lines = [f"Summation tree: {self.tree.depth} additions deep, up to {self.tree.fan_in} terms at once"]
        lines += ["  " + line for line in self.tree.draw().splitlines()[:12]]
        if facts.fan_in > 2:
            kept = (
                "all bits" if facts.fraction_bits is None else f"{facts.fraction_bits} bits below the largest exponent"
            )
            lines.append(f"Fused sums: {facts.fan_in} products at once, {kept} kept")
        if facts.mantissa_bits is not None:
            lines.append(f"Result: {facts.mantissa_bits} mantissa bits, rounded {facts.rounding}")
        if facts.c_aligned is not None:
            lines.append("c is " + ("aligned with the products" if facts.c_aligned else "added to their sum"))
        if self.best is None:
            lines.append("No unit of the table with a known schedule has this tree.")
        else:
            lines.append(f"Best model: {self.best}: {self.reproduced:.2%} of {self.compared} outputs, bit for bit")
        if len(self.models) > 1:
            lines.append("Equal on everything tried: " + ", ".join(model.name for model in self.models))
        if self.alternatives:
            lines.append("Could not be told apart: " + "; ".join(self.alternatives))
        lines += list(self.notes)
        return "\n".join(lines)


# ------------------------------------------------------------------------------------------------------------ identify
def identify(
    function: Callable[..., Any],
    *,
    inputs: str | tuple[str, str] = "fp32",
    k: int = 128,
    kind: str = "matmul",
    accumulator: str = "fp32",
    takes_c: bool = False,
    shape: tuple[int, int] = (64, 64),
    framework: str = "numpy",
    device: str = "cpu",
    positions: Sequence[int] | None = None,
    schedules: Sequence[Schedule] | None = None,
    architectures: Sequence[str] | None = None,
    outputs: int = 20_000,
    seed: int = 0,
) -> Identification:
    """Find out how a black box sums products.

    Args:
        function: `function(a, b)` or, with `takes_c`, `function(a, b, c)`: a product of (M, K) and (K, N) matrices; for
            kind="dot" of two vectors; for kind="sum" the sum of one vector. Arrays have the dtype of `inputs`
            (float32 for tf32 and, with NumPy, for formats of fewer than 16 bits and for bf16 without ml_dtypes, whose
            values it holds).
        inputs: Format of the operands or a pair, or "fp64" for sums and dots.
        k: Number of products: a multiple of what one instruction takes. More shows longer schedules and costs more
            calls.
        kind: "matmul", "dot" or "sum".
        accumulator: "fp32" or "fp16": the result's format that models are looked up with.
        takes_c: The function takes c.
        shape: (M, N) of every call; libraries choose schedules by shape.
        framework: "numpy" or "torch": the arrays the function gets.
        device: The torch device.
        positions: Look at these products only, the others being zero; None: all. `range(0, k, 64)` shows the schedule
            of a large K with few calls, `range(64)` the instructions of its beginning.
        schedules: Candidates besides the built-in ones (chain, promotion, split-K, `tl_dot` forms).
        architectures: Restrict models to these; None: every architecture of the table.
        outputs: Outputs to compare with models, at least.
        seed: Seed of the random part.

    Returns:
        The tree, the measured facts, the models that reproduce everything, and what could not be told apart.

    Raises:
        ValueError: If the box does not behave like a sum (`Unrevealed`), or for arguments that do not fit.

    Example:
        >>> import numpy as np
        >>> from numfmt.matrix_units import identify, matmul
        >>> found = identify(lambda a, b: matmul(a, b, unit="hopper.wgmma", inputs="fp16"), inputs="fp16", k=64)
        >>> found.facts.fan_in, found.facts.fraction_bits, found.unit.name
        (16, 25, 'hopper.wgmma')
    """
    if kind not in KINDS:
        raise ValueError(unknown_name("kind", kind, KINDS))
    if framework not in FRAMEWORKS:
        raise ValueError(unknown_name("framework", framework, FRAMEWORKS))
    pair = (inputs, inputs) if isinstance(inputs, str) else (inputs[0], inputs[1])
    keys = tuple("fp64" if key in ("fp64", "float64") else format_key(key) for key in pair)
    accumulator = format_key(accumulator, "accumulator")
    if k < 2:
        raise ValueError(f"k = {k}: at least two products are needed to see an order")
    box = BlackBox(
        function=function,
        kind=kind,
        keys=(keys[0], keys[1]),
        k=k,
        shape=shape,
        takes_c=takes_c,
        c_dtype=np.float16 if accumulator == "fp16" else np.float32,
        framework=framework,
        device=device,
    )
    looked_at = sorted(set(range(k) if positions is None else positions))
    if len(looked_at) < 2 or not 0 <= looked_at[0] <= looked_at[-1] < k:
        raise ValueError(f"positions must be at least two numbers from 0 to k - 1 = {k - 1}, got {positions!r}")
    leaves: list[Leaf] = [*looked_at, *(["c"] if takes_c else [])]
    masks = _Masks.of(box.keys, len(leaves), accumulator)
    tree = reveal(lambda pairs: masks.sizes(box, pairs, leaves), leaves)
    facts = _measure(box, tree)
    if kind != "matmul":
        return Identification(tree, facts, (), (), 0, 0.0, None, box.calls)
    candidates = [
        model
        for model in _models(box, accumulator, schedules or (), architectures)
        if model_tree(_program(box, model, accumulator)).restricted(leaves) == tree
    ]
    return _compare(box, tree, facts, candidates, accumulator, outputs, seed)


@dataclass(frozen=True)
class _Masks:
    """The numbers of masking: factors of the mask and of the small number."""

    mask: tuple[float, float]
    small: tuple[float, float]

    @classmethod
    def of(cls, keys: tuple[str, str], k: int, accumulator: str) -> _Masks:
        """The largest powers of two whose product the accumulator holds, and the smallest that suffice."""
        a, b = (_format(key) for key in keys)
        limit = INPUT_FORMATS[accumulator].emax - 1 if "fp64" not in keys else 1000
        low = [fmt.emin - (fmt.mantissa_bits if fmt.bits <= 16 else 0) for fmt in (a, b)]
        high_a = min(a.emax, limit)
        high_b = min(b.emax, limit - high_a)
        need = _MASK_BITS + int(np.ceil(np.log2(k)))
        # Wide enough for a sum that is carried in float64 where the formats' range allows it.
        wanted = 50 if min(a.exponent_bits, b.exponent_bits) < 8 else 80
        small = high_a + high_b - max(need, wanted)
        results = INPUT_FORMATS[accumulator]
        small = max(small, low[0] + low[1])
        if "fp64" not in keys:
            small = max(small, results.emin - results.mantissa_bits)
        if high_a + high_b - small < need:
            raise ValueError(
                f"inputs: products of {keys[0]} and {keys[1]} span 2**{high_a + high_b - small}, too little "
                f"to mask {k} small "
                f"numbers (2**{need} is needed); use a smaller k or other inputs"
            )
        small_a = max(low[0], min(small - small // 2, high_a))
        return cls((2.0**high_a, 2.0**high_b), (2.0**small_a, 2.0 ** (small - small_a)))

    def sizes(self, box: BlackBox, pairs: list[tuple[Leaf, Leaf]], leaves: list[Leaf]) -> list[int]:
        """For pairs of leaves, the number of leaves of their smallest common subtree."""
        count = len(pairs)
        positions = [leaf for leaf in leaves if isinstance(leaf, int)]
        a, b = np.zeros((count, box.k)), np.zeros((count, box.k))
        a[:, positions], b[:, positions] = self.small
        unit = self.small[0] * self.small[1]
        c = np.full(count, unit) if box.takes_c else None
        for row, pair in enumerate(pairs):
            for leaf, sign in zip(pair, (1.0, -1.0), strict=True):
                if isinstance(leaf, int):
                    a[row, leaf], b[row, leaf] = sign * self.mask[0], self.mask[1]
                elif c is not None:
                    c[row] = sign * self.mask[0] * self.mask[1]
        total = len(leaves)
        sizes = total - box.products(a, b, c) / unit
        if not ((sizes == np.rint(sizes)) & (sizes >= 2) & (sizes <= total)).all():
            wrong = sizes[~((sizes == np.rint(sizes)) & (sizes >= 2) & (sizes <= total))][0]
            raise Unrevealed(
                f"masking two of {total} terms left {total - wrong!r} small numbers, where a sum in floating "
                f"point leaves a whole "
                f"number from 0 to {total - 2}; is this a plain sum of products without scaling?"
            )
        return [int(n) for n in sizes]


# ------------------------------------------------------------------------------------------------------------- probing
def _fused_leaves(tree: Tree, k: int) -> list[int]:
    """Leaves of a fused node with the most products, or of the deepest ordinary node."""
    best: list[int] = []
    stack = [tree]
    while stack:
        top = stack.pop()
        leaves = [child for child in top.children if isinstance(child, int)]
        if len(leaves) >= len(best):
            best = leaves
        stack.extend(child for child in top.children if isinstance(child, Tree))
    return sorted(best)


def _measure(box: BlackBox, tree: Tree) -> Facts:
    leaves = _fused_leaves(tree, box.k)
    fan_in = max(len(leaves), 1)
    if box.takes_c and fan_in == 2 and tree.fan_in == 2:
        fan_in = 1
    fused = fan_in > 2
    fraction = _fraction_bits(box, leaves) if fused else None
    mantissa, rounding = _result_rounding(
        box, leaves if fused else sorted(leaf for leaf in tree.leaves if isinstance(leaf, int))[:2], fraction
    )
    c_aligned = _c_is_aligned(box, tree) if box.takes_c and fused else None
    return Facts(fan_in if fused else 1, fraction, mantissa, rounding, c_aligned)


def _experiments(box: BlackBox, terms: Sequence[dict[int, float]]) -> NDArray[np.float64]:
    """Results of experiments given as products at positions; a product is split evenly over both operands."""
    a, b = np.zeros((len(terms), box.k)), np.zeros((len(terms), box.k))
    formats = [_format(key) for key in box.keys]
    for row, products in enumerate(terms):
        for position, value in products.items():
            significand, exponent = np.frexp(value)
            second = int(exponent) // 2
            low = formats[1].emin - (formats[1].mantissa_bits if formats[1].bits <= 16 else 0)
            second = max(min(second, formats[1].emax), low)
            a[row, position], b[row, position] = np.ldexp(significand, int(exponent) - second), 2.0**second
    return box.products(a, b)


def _reach(box: BlackBox) -> int:
    """Powers of two below 1 that a product and a result can be."""
    lows = [fmt.emin - (fmt.mantissa_bits if fmt.bits <= 16 else 0) for fmt in map(_format, box.keys)]
    results = FP16 if box.c_dtype is np.float16 else FP32
    return min(-sum(lows), results.mantissa_bits - results.emin, 60)


def _fraction_bits(box: BlackBox, leaves: list[int]) -> int | None:
    """The largest q for which 2**-q survives beside 1 and -1 in one fused sum; None if all tried do."""
    one, minus, probe = leaves[:3]
    # The masks' exponent may be raised so that formats of short range reach far enough below it.
    highest = FP16.emax if box.c_dtype is np.float16 else 120
    lift = max(0, min(40 - _reach(box), sum(_format(key).emax for key in box.keys) - 2, highest - 1))
    top = 2.0**lift
    tried = range(1, min(40, _reach(box) + lift) + 1)
    results = _experiments(box, [{one: top, minus: -top, probe: top * 2.0**-q} for q in tried])
    kept = [q for q, value in zip(tried, results, strict=True) if value != 0]
    return None if len(kept) == len(tried) else max(kept, default=0)


def _result_rounding(box: BlackBox, leaves: list[int], fraction: int | None) -> tuple[int | None, str | None]:
    """Mantissa bits of a result and its rounding, from sums 2 + 2**-q (fused: 2.25 + ...), which need one bit more
    than they get.
    """
    reach = _reach(box)
    first, second = leaves[:2]
    # A significand of 2.25 has exponent 1 in the result and 0 in the alignment, so one more bit is cut by the rounding
    # than by the alignment.
    base = 2.25 if len(leaves) > 2 else 2.0
    a, b = np.zeros((reach, box.k)), np.zeros((reach, box.k))
    for row in range(reach):
        a[row, first], b[row, first] = (1.5, 1.5) if base == 2.25 else (2.0, 1.0)
    positions = np.arange(reach)
    small = _experiments(box, [{second: 2.0**-q} for q in range(reach)])
    if not (small == 2.0 ** -positions.astype(float)).all():
        return None, None
    both = _summed(box, first, base, [{second: 2.0**-q} for q in range(reach)])
    kept = [q for q in range(reach) if both[q] - base == 2.0**-q]
    if len(kept) == reach:
        return None, None
    mantissa = max(kept) + 1
    third = leaves[2] if len(leaves) > 2 else None
    if third is None:
        return mantissa, _ordinary_rounding(box, first, second, mantissa)
    if fraction is not None and fraction < mantissa:
        return mantissa, None
    unit = 2.0 ** (1 - mantissa)
    up, even, down = _summed(
        box,
        first,
        base,
        [{second: unit, third: unit / 2}, {second: unit / 2}, {second: -unit / 2}],
    )
    if up == base + unit and even == base and down == base - unit:
        return mantissa, "toward_zero"
    if up == base + 2 * unit and even == base and down == base:
        return mantissa, "nearest_even"
    return mantissa, f"other ({up}, {even}, {down})"


def _ordinary_rounding(box: BlackBox, first: int, second: int, mantissa: int) -> str:
    """Rounding of an addition of two numbers: 2 + u, 2 + 3u, -(2 + u) with u half an ulp of 2."""
    half = 2.0**-mantissa
    odd = 2.0 + 2 * half
    results = _summed(box, first, 2.0, [{second: half}, {second: 1.5 * half}]).tolist()
    a, b = np.zeros((1, box.k)), np.zeros((1, box.k))
    a[0, first], b[0, first] = odd, 1.0
    try:
        a[0, second], b[0, second] = half, 1.0
        results += box.products(a, b).tolist()
    except ValueError:
        return "unknown"
    if results == [2.0, 2.0 + 2 * half, 2.0 + 4 * half]:
        return "nearest_even"
    if results == [2.0, 2.0, odd]:
        return "toward_zero"
    return f"other ({results})"


def _summed(box: BlackBox, first: int, base: float, terms: Sequence[dict[int, float]]) -> NDArray[np.float64]:
    """Experiments with the product `base` (2.25 = 1.5 * 1.5, or 2) at `first` beside the terms."""
    a, b = np.zeros((len(terms), box.k)), np.zeros((len(terms), box.k))
    factors = (1.5, 1.5) if base == 2.25 else (base, 1.0)
    for row, products in enumerate(terms):
        a[row, first], b[row, first] = factors
        for position, value in products.items():
            significand, exponent = np.frexp(abs(value))
            second = int(exponent) // 2
            a[row, position] = np.copysign(np.ldexp(significand, int(exponent) - second), value)
            b[row, position] = 2.0**second
    return box.products(a, b)


def _c_is_aligned(box: BlackBox, tree: Tree) -> bool:
    """Whether c, far below a product that is cancelled in the same sum, is cut as a product would be."""
    a, b = np.zeros((1, box.k)), np.zeros((1, box.k))
    # The fused node that c is a child of; if there is none, c meets a finished sum.
    stack, leaves = [tree], None
    while stack:
        top = stack.pop()
        if "c" in top.children:
            leaves = [child for child in top.children if isinstance(child, int)]
        stack.extend(child for child in top.children if isinstance(child, Tree))
    if leaves is None or len(leaves) < 2:
        return False
    top_exponent = min(_format(box.keys[0]).emax, 14)
    a[0, leaves[0]], a[0, leaves[1]] = 2.0**top_exponent, -(2.0**top_exponent)
    b[0, leaves[0]] = b[0, leaves[1]] = 1.0
    result = box.products(a, b, np.array([2.0 ** (top_exponent - 40)]))
    return bool(result[0] == 0)


# ----------------------------------------------------------------------------------------------------------- comparing
def _models(
    box: BlackBox, accumulator: str, schedules: Sequence[Schedule], architectures: Sequence[str] | None
) -> Iterator[Model]:
    """Every model of the table that takes these inputs, with every schedule that fits K."""
    k = box.k
    plain: list[Schedule] = [ChainAll()]
    plain += [promote(n) for n in (16, 32, 64, 128, 256, 512) if n < k]
    plain += [split_k(s, reduction=r) for s in (2, 3, 4, 8) for r in ("sequential", "pairwise") if s <= k // 16]
    plain += [split_k(s, promote(128)) for s in (2, 4) if k >= 128 * s]
    plain += [schedule for schedule in schedules if not isinstance(_leaf(schedule), TlDot)]
    seen: set[tuple[str, str]] = set()
    for unit in UNITS:
        if architectures is not None and unit.architecture not in architectures:
            continue
        key = "fp32" if unit.arithmetic == "fma" else "tf32" if box.keys[0] == "fp32" else box.keys[0]
        other = "fp32" if unit.arithmetic == "fma" else "tf32" if box.keys[1] == "fp32" else box.keys[1]
        if unit.scales is not None or unit.accumulator != accumulator or not {key, other} <= set(unit.inputs):
            continue
        if k % unit.depth:
            continue
        for schedule in plain:
            if isinstance(schedule, Promote) and schedule.interval % unit.depth:
                continue
            name = f"{unit.name}, {schedule.call()}"
            if (name, key) not in seen:
                seen.add((name, key))
                yield Model(unit, schedule, name, unit)
    if architectures is not None and "hopper" not in architectures:
        return
    for schedule in (*_triton(box.keys, k), *(s for s in schedules if isinstance(_leaf(s), TlDot))):
        yield Model(_unit_of(box, schedule, accumulator), schedule, f"hopper, {schedule.call()}", "hopper")


def _leaf(schedule: Schedule) -> Schedule:
    """The innermost schedule."""
    while (inner := getattr(schedule, "inner", None)) is not None:
        schedule = inner
    return schedule


def _triton(keys: tuple[str, str], k: int) -> Iterator[Schedule]:
    blocks = [n for n in (16, 32, 64, 128, 256) if n <= k and k % n == 0]
    if set(keys) <= {"e4m3", "e5m2"}:
        for block in (n for n in blocks if n >= 32):
            yield tl_dot(block, block_m=16)
            yield tl_dot(block, "+=", block_m=16)
    if set(keys) <= {"fp32", "tf32"}:
        for block in blocks:
            for precision in ("tf32x3", "bf16x3", "bf16x6"):
                yield tl_dot(block, input_precision=precision)


def _unit_of(box: BlackBox, schedule: Schedule, accumulator: str) -> MatrixUnit:
    return schedule.resolve(Request("hopper", box.keys, accumulator, (1, 1, box.k))).unit


def _keys_for(box: BlackBox, model: Model) -> tuple[str, str]:
    if isinstance(model.resolves, str):
        return box.keys
    if model.unit.arithmetic == "fma":
        return "fp32", "fp32"
    return tuple("tf32" if key == "fp32" else key for key in box.keys)  # type: ignore[return-value]


def _program(box: BlackBox, model: Model, accumulator: str) -> Any:
    request = Request(model.resolves, _keys_for(box, model), accumulator, (*box.shape, box.k), box.takes_c)
    return model.schedule.program(request)


def _designed(
    box: BlackBox, rng: np.random.Generator, kind: str
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Matrices of one kind that tell models apart."""
    formats = [_format(key) for key in box.keys]
    shapes = ((box.shape[0], box.k), (box.k, box.shape[1]))
    made = []
    for fmt, key, shape in zip(formats, box.keys, shapes, strict=True):
        low, high = max(fmt.emin - 2, -80), min(fmt.emax - 1, 40)
        if kind == "uniform":
            x = rng.uniform(-1, 1, shape)
        elif kind == "positive":
            x = rng.uniform(0, 1, shape)
        elif kind == "wide":
            x = rng.uniform(1, 2, shape) * 2.0 ** rng.integers(low, high, shape) * rng.choice([-1.0, 1.0], shape)
        elif kind == "tiny":
            least = max(fmt.emin - fmt.mantissa_bits, -76)
            x = rng.uniform(-2, 2, shape) * 2.0 ** rng.integers(least, least + 10, shape)
        else:  # sparse: zeros of both signs beside large and small factors
            x = np.where(rng.random(shape) < 0.5, 0.0, rng.uniform(1, 2, shape) * 2.0 ** rng.integers(low, high, shape))
            x = np.copysign(x, rng.uniform(-1, 1, shape))
        made.append(_representable(fmt.round(x), key))
    if kind == "wide":
        # Neighbours along k that nearly cancel.
        made[0][:, 1::2] = -made[0][:, ::2][:, : made[0][:, 1::2].shape[1]]
        made[1][1::2] = made[1][::2][: made[1][1::2].shape[0]]
        flip = rng.random(made[0].shape) < 0.2
        made[0] = np.where(flip, _representable(formats[0].round(made[0] * 0.75), box.keys[0]), made[0])
    c = np.zeros(box.shape)
    if box.takes_c:
        scale = {"tiny": 2.0**-140, "wide": 2.0**10}.get(kind, 4.0)
        c = rng.uniform(-1, 1, box.shape).astype(box.c_dtype).astype(np.float64) * scale
        c = c.astype(box.c_dtype).astype(np.float64)
        c[rng.random(box.shape) < 0.3] = 0.0
    return made[0], made[1], c


def _representable(x: NDArray[np.float64], key: str) -> NDArray[np.float64]:
    """tf32 operands as tf32 numbers: whether a box rounds or cuts the others is not what models differ in."""
    if key != "tf32":
        return x
    cut: NDArray[np.float64] = PARTS["tf32"](np.ascontiguousarray(x, np.float32)).astype(np.float64)
    return cut


_DATA_KINDS = ("uniform", "positive", "wide", "tiny", "sparse")


def _compare(
    box: BlackBox,
    tree: Tree,
    facts: Facts,
    candidates: list[Model],
    accumulator: str,
    outputs: int,
    seed: int,
) -> Identification:
    if not candidates:
        return Identification(tree, facts, (), (), 0, 0.0, None, box.calls)
    rng = np.random.default_rng(seed)
    # Of large results a sample of rows and columns is compared.
    rows, columns = (np.sort(rng.permutation(n)[:_COMPARED_SIDE]) for n in box.shape)
    rounds = max(1, -(-outputs // (len(_DATA_KINDS) * rows.size * columns.size)))
    data, seen = [], []
    for kind in _DATA_KINDS * rounds:
        a, b, c = _designed(box, rng, kind)
        seen.append(box.matrices(a, b, c)[np.ix_(rows, columns)])
        data.append((a[rows], b[:, columns], c[np.ix_(rows, columns)]))
    compared = sum(result.size for result in seen)

    def share(model: Model) -> float:
        equal = 0
        for (a, b, c), result in zip(data, seen, strict=True):
            predicted = matmul(
                a,
                b,
                c if box.takes_c else None,
                model.resolves,
                inputs=_keys_for(box, model),
                accumulator=accumulator,
                schedule=model.schedule,
            ).astype(np.float64)
            equal += int(((predicted == result) | (np.isnan(predicted) & np.isnan(result))).sum())
        return equal / compared

    shares = [(share(model), model) for model in candidates]
    shares.sort(key=lambda pair: -pair[0])
    fitting = tuple(model for part, model in shares if part == 1.0)
    alternatives = (
        tuple(text for text, model in _variations(fitting[0]) if share(model) == 1.0)
        if fitting and not isinstance(fitting[0].resolves, str)
        else ()
    )
    best = shares[0] if shares else (0.0, None)
    return Identification(
        tree=tree,
        facts=facts,
        models=fitting,
        alternatives=alternatives,
        compared=compared,
        reproduced=best[0],
        best=None if best[1] is None else best[1].name,
        calls=box.calls,
    )


def _variations(model: Model) -> Iterator[tuple[str, Model]]:
    """One-fact changes of a model, with their description."""
    unit = model.unit
    if unit.arithmetic != "aligned":
        return
    changes: list[tuple[str, dict[str, Any]]] = [
        (
            f"fraction_bits {unit.fraction_bits + d} instead of {unit.fraction_bits}",
            {"fraction_bits": unit.fraction_bits + d},
        )
        for d in (-1, 1, 2)
    ]
    floor = unit.least_exponent
    if floor is None:
        changes.append(("a floor of -133 under the largest exponent", {"least_exponent": -133}))
    else:
        changes += [
            (f"floor {floor + d} instead of {floor} under the largest exponent", {"least_exponent": floor + d})
            for d in (-1, 1)
        ]
        changes.append((f"no floor instead of {floor} under the largest exponent", {"least_exponent": None}))
    zero = unit.zero_exponent
    changes.append(
        ("a zero counting with -126 instead of taking no part", {"zero_exponent": -126})
        if zero is None
        else (f"a zero taking no part instead of counting with {zero}", {"zero_exponent": None})
    )
    other = {"toward_zero": "nearest_even", "nearest_even": "toward_zero"}[unit.rounding]
    changes.append((f"results rounded {other}", {"rounding": other}))
    for text, change in changes:
        altered = replace(unit, **change)
        yield text, Model(altered, model.schedule, text, altered)
