"""The precision modes: how each multiplies and adds up, the bits that follow on an H200, and what it promises.

A mode is a promise, not a hint. It fixes, for every type of operands, what is multiplied (the operands, their parts, or
roundings of them), on which unit, and in which order the products are added up; every kernel that offers the mode gives
these bits for any shape, tile, number of warps and stages. `Mode.predict` gives them on a CPU.

The accumulator is what is promised: the sum before scales, alpha, beta, bias, activation and the rounding to the
result's type (`tritongemm.kernels.epilogue`). Zero sums are +0.

NaN and infinities come out as fp32 arithmetic says, with three exceptions:

- `tf32` and `tf32x3` let the tensor core cut the last 13 bits of operands, and a NaN that nothing else tells from an
  infinity becomes one. NaN that arithmetic makes are not among these.
- What an operand is rounded, cut or split to can be zero: below 2**-136 in `tf32`, below 2**-137 in
  `tf32_rounded` and `tf32x3`, up to 2**-137 in `tf32_even` and up to 2**-134 in `bf16x3` and `bf16x6`. An infinity
  times such a number is NaN.
- `bf16x6_chained` makes NaN of every infinity: what its first part leaves of it is inf - inf.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

import numfmt
from numfmt import matrix_units
from numfmt.matrix_units import Schedule
from tritongemm.elements import ELEMENTS, FP8, Element, element_named, element_of, values_of
from tritongemm.errors import UsageError, nearest
from tritongemm.promises import SPLITS, WHOLE, Promise, Split, of_chain, on_matrix_unit

__all__ = ["ALIASES", "MODES", "Mode", "get", "register"]

Array = np.ndarray[Any, np.dtype[Any]]
Types = tuple[str, str]

HOPPER = "hopper.wgmma"
"""numfmt's name of the unit."""

SPLIT_BLOCK = 32
"""Products over which the parts of split fp32 operands are added up before their sum goes to the accumulator."""


@dataclass(frozen=True, kw_only=True)
class Dot:
    """How a Triton kernel writes a mode as `tl.dot`: constants of the shared main loop.

    Attributes:
        input_precision: `tl.dot`'s argument of that name; "ieee" where the operands are no fp32 numbers.
        imprecise: `max_num_imprecise_acc`, or None.
        prepare: What is done to loaded fp32 operands: "" (nothing) or a name of `ROUNDINGS`.
        chained_parts: Number of bf16 parts that operands are split into by the kernel itself, their products all
            chained through the accumulator; 0 for none.
        block_k: Products per `tl.dot` where the bits depend on it; None where they do not.
        least_block_m: Rows that a tile must have for the unit of the mode to be used.
    """

    input_precision: str = "ieee"
    imprecise: int | None = None
    prepare: str = ""
    chained_parts: int = 0
    block_k: int | None = None
    least_block_m: int = 16


class Arithmetic(Protocol):
    """What a mode does with operands of given types."""

    @property
    def dot(self) -> Dot | None:
        """How Triton's kernels write it; None for kernels of other kinds only."""

    def predict(self, a: Array, b: Array, types: Types) -> Array:
        """The (M, N) accumulator's bits for (M, K) and (K, N) values: float32, or float64 for fp64 operands."""

    def promise(self, K: int, types: Types) -> Promise:
        """The bounds for sums of K products."""


@dataclass(frozen=True, kw_only=True)
class Chain:
    """One serial chain of fused multiply-adds in ascending k, in fp32 or fp64."""

    dot: Dot = field(default_factory=Dot)

    def predict(self, a: Array, b: Array, types: Types) -> Array:
        """See `Arithmetic`."""
        if types[0] != "fp64":
            return np.asarray(matrix_units.matmul(a, b, unit="simt.fma", inputs="fp32") + np.float32(0))
        c = np.zeros((a.shape[0], b.shape[1]))
        for k in range(a.shape[1]):
            c = np.asarray(numfmt.fma(a[:, k, None], b[None, k, :], c, ELEMENTS["fp64"].format))
        return np.asarray(c + 0.0)

    def promise(self, K: int, types: Types) -> Promise:
        """See `Arithmetic`."""
        return of_chain(K, ELEMENTS[types[0]].format)


@dataclass(frozen=True, kw_only=True)
class OnUnit:
    """Products on Hopper's tensor core, in the order of a schedule of numfmt's.

    Attributes:
        schedule: The order.
        inputs: Format key of the operands for the schedule, where it is not their own.
        multiplied: Format key of what the unit multiplies, where it is not the operands' own.
        interval: Products between additions to an fp32 sum, or None for a single chain.
        split: What becomes of fp32 operands first.
        dot: See `Arithmetic`.
    """

    schedule: Schedule
    inputs: str | None = None
    multiplied: str | None = None
    interval: int | None = None
    split: Split = WHOLE
    dot: Dot = field(default_factory=Dot)

    def predict(self, a: Array, b: Array, types: Types) -> Array:
        """See `Arithmetic`."""
        if a.shape[1] == 0:
            return np.zeros((a.shape[0], b.shape[1]), np.float32)
        if self.dot.prepare:
            a, b = ROUNDINGS[self.dot.prepare](a), ROUNDINGS[self.dot.prepare](b)
        elif self.multiplied == "tf32":
            a, b = cut_nan(a), cut_nan(b)
        keys = (_UNIT_KEYS[types[0]], _UNIT_KEYS[types[1]]) if self.inputs is None else (self.inputs, self.inputs)
        # A schedule of tl.dot chooses among the architecture's instructions.
        unit = HOPPER if self.inputs != "fp32" else "hopper"
        return np.asarray(matrix_units.matmul(a, b, unit=unit, inputs=keys, schedule=self.schedule, pad_k=True))

    def promise(self, K: int, types: Types) -> Promise:
        """See `Arithmetic`."""
        keys = [_UNIT_KEYS[name] if self.multiplied is None else self.multiplied for name in types]
        facts = matrix_units.find_unit(HOPPER, (keys[0], keys[1]))
        coarser = max((_FORMATS[key] for key in keys), key=lambda fmt: fmt.min_normal)
        return on_matrix_unit(facts, K, coarser, interval=self.interval, split=self.split)


@dataclass(frozen=True, kw_only=True)
class ChainedParts:
    """fp32 operands in three bf16 parts, six products of parts, all chained through one accumulator on the unit."""

    dot: Dot

    def predict(self, a: Array, b: Array, types: Types) -> Array:
        """See `Arithmetic`."""
        c = np.zeros((a.shape[0], b.shape[1]), np.float32)
        left, right = bf16_parts(a), bf16_parts(b)
        for start in range(0, a.shape[1], SPLIT_BLOCK):
            k = slice(start, start + SPLIT_BLOCK)
            for i, j in SIX_PRODUCTS:
                c = np.asarray(matrix_units.matmul(left[i][:, k], right[j][k], c, HOPPER, inputs="bf16", pad_k=True))
        return c

    def promise(self, K: int, types: Types) -> Promise:
        """See `Arithmetic`."""
        facts = matrix_units.find_unit(HOPPER, "bf16")
        # A chain over all of K, padded to whole blocks.
        padded = -(-K // SPLIT_BLOCK) * SPLIT_BLOCK
        return on_matrix_unit(facts, padded, _FORMATS["bf16"], split=SPLITS["bf16x6"])


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """Arithmetic that another module defines; imported when it is asked for.

    Attributes:
        module: The module.
        name: The object in it that has `predict` and `promise`.
        dot: None: no kernel of `tl.dot` computes it.
    """

    module: str
    name: str
    dot: None = None

    def _loaded(self) -> Any:
        return getattr(importlib.import_module(self.module), self.name)

    def predict(self, a: Array, b: Array, types: Types) -> Array:
        """See `Arithmetic`."""
        return np.asarray(self._loaded().predict(a, b, types))

    def promise(self, K: int, types: Types) -> Promise:
        """See `Arithmetic`."""
        promise: Promise = self._loaded().promise(K, types)
        return promise


@dataclass(frozen=True)
class Mode:
    """A precision mode.

    Attributes:
        name: Its name, the `precision` argument of the package's functions.
        summary: One sentence for people.
        arithmetic: What it does, by the type of A's operands (B's may differ for fp8 only).
    """

    name: str
    summary: str
    arithmetic: Mapping[str, Arithmetic]

    @property
    def operands(self) -> tuple[str, ...]:
        """Names of the operand types it takes."""
        return tuple(self.arithmetic)

    def of(self, types: Types, argument: str = "a") -> Arithmetic:
        """What the mode does with operands of two types.

        Args:
            types: Their names.
            argument: What the caller's caller calls the first operand, for the message.

        Raises:
            UsageError: It takes no such operands.
        """
        first, second = types
        if first not in self.arithmetic:
            able = [mode.name for mode in MODES.values() if first in mode.arithmetic]
            raise UsageError(
                f"{argument}: mode {self.name!r} takes {', '.join(self.operands)} operands, given {first}; "
                f"modes for {first}: {', '.join(able)}."
            )
        if first != second and not (first in FP8 and second in FP8):
            raise UsageError(f"b: its dtype {second} is not a's {first}; convert one of them.")
        return self.arithmetic[first]

    def predict(self, a: Any, b: Any, *, types: Types | None = None) -> Array:
        """The accumulator's bits on an H200.

        Args:
            a: (M, K) matrix: NumPy, torch, or bits with a named type.
            b: (K, N) matrix.
            types: Types of the operands where a and b are their values in a wider type; None: a's and b's own.

        Returns:
            (M, N) array: float64 for fp64 operands, float32 for all others. NaN is canonical, zeros are +0.

        Raises:
            UsageError: Shapes or types do not fit.
        """
        if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
            raise UsageError(f"a, b: shapes {tuple(a.shape)} and {tuple(b.shape)} are no (M, K) and (K, N).")
        elements = [
            element_of(x, name) if types is None else element_named(types[i], "types")
            for i, (x, name) in enumerate(((a, "a"), (b, "b")))
        ]
        own = (elements[0].name, elements[1].name)
        arithmetic = self.of(own)
        wide = [_wide(x, element) for x, element in zip((a, b), elements, strict=True)]
        with np.errstate(all="ignore"):
            return canonical(arithmetic.predict(wide[0], wide[1], own))

    def promise(self, K: int, a_dtype: Any, b_dtype: Any = None) -> Promise:
        """Bounds of the accumulator's error for sums of K products.

        Args:
            K: Number of products.
            a_dtype: Type of A's elements: a name, or a dtype of torch or NumPy.
            b_dtype: Type of B's; A's if not given.

        Raises:
            UsageError: K is no number of products, there is no such type, or the mode does not take it.
        """
        K, first = _count(K), _element(a_dtype, "a_dtype").name
        second = first if b_dtype is None else _element(b_dtype, "b_dtype").name
        return self.of((first, second)).promise(K, (first, second))

    def describe(self, K: int, a_dtype: Any) -> str:
        """What the mode does and promises for sums of K products, in a few lines.

        Args:
            K: Number of products.
            a_dtype: Type of the operands.

        Raises:
            UsageError: As `promise`.
        """
        K, name = _count(K), _element(a_dtype, "a_dtype").name
        arithmetic = self.of((name, name))
        promise = arithmetic.promise(K, (name, name))
        u = ELEMENTS[ELEMENTS[name].accumulator].format.unit_roundoff
        lines = [
            f"{self.name}, {name} operands, K = {K}: {promise.order}.",
            f"|error| <= {promise.relative_bound:.3g}·sum|p| = {promise.relative_bound / u:.4g} u·sum|p| for any "
            f"operands; for random ones below {promise.probabilistic / u:.3g} u·sum|p|.",
        ]
        schedule = getattr(arithmetic, "schedule", None)
        if schedule is not None:
            lines.append(f"numfmt.matrix_units: schedule {schedule.call()} on {HOPPER}.")
        return "\n".join(lines)


def _count(K: Any) -> int:
    """K as a Python int."""
    if isinstance(K, bool) or not isinstance(K, int | np.integer) or K < 0:
        raise UsageError(f"K: a number of products, a whole number from 0 on, given {K!r}.")
    return int(K)


def _element(dtype: Any, argument: str) -> Element:
    """The type of a name or of a library's dtype."""
    if isinstance(dtype, np.dtype) or (isinstance(dtype, type) and issubclass(dtype, np.generic)):
        dtype = np.dtype(dtype).name
    return element_named(dtype if isinstance(dtype, str) else str(dtype), argument)


def _wide(x: Any, element: Element) -> Array:
    if isinstance(x, np.ndarray) and x.dtype in (np.float32, np.float64) and element.name != "fp64":
        return x.astype(np.float32, copy=False)
    return values_of(x, element)


def canonical(values: Array) -> Array:
    """The same numbers with every NaN as the GPU's arithmetic writes it: all bits but the sign (fp64: quiet)."""
    missing = np.isnan(values)
    if not missing.any():
        return values
    if values.dtype == np.float64:
        return np.where(missing, np.uint64(0x7FF8000000000000), values.view(np.uint64)).view(np.float64)
    return np.where(missing, np.uint32(0x7FFFFFFF), np.ascontiguousarray(values).view(np.uint32)).view(np.float32)


_UNIT_KEYS = {"fp32": "fp32", "fp16": "fp16", "bf16": "bf16", "fp8e4m3fn": "e4m3", "fp8e5m2": "e5m2"}
_FORMATS = {key: ELEMENTS[name].format for name, key in _UNIT_KEYS.items()} | {"tf32": numfmt.TF32}


# --------------------------------------------------------------------------------------------------- parts of operands
_TF32_DROPPED = 13
_TF32_MASK = np.uint32(0xFFFFFFFF << _TF32_DROPPED & 0xFFFFFFFF)
_BF16_DROPPED = 16

SIX_PRODUCTS = ((1, 1), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0))
"""Products of bf16 parts (high 0, middle 1, low 2) of A and B in the order they are added: small ones first."""


def to_tf32(x: Array) -> Array:
    """To the nearest tf32 number, ties away from zero, as `cvt.rna.tf32.f32` rounds; infinities and NaN are kept."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    half = np.uint32(1 << (_TF32_DROPPED - 1))
    return np.where(np.isfinite(x), ((bits + half) & _TF32_MASK).view(np.float32), _quiet(x))


def to_tf32_even(x: Array) -> Array:
    """To the nearest tf32 number, ties to even, as cuBLAS and the copy engine round; infinities and NaN are kept."""
    return np.where(np.isfinite(x), _nearest_even(x, _TF32_DROPPED), _quiet(x))


def cut_nan(x: Array) -> Array:
    """Operands with their NaN as the tensor core sees them when it cuts to tf32: one that nothing but its last 13 bits
    tells from an infinity becomes that infinity. The usual NaN (quiet ones) stay NaN."""
    cut = (np.ascontiguousarray(x, np.float32).view(np.uint32) & _TF32_MASK).view(np.float32)
    return np.where(np.isnan(x) & np.isinf(cut), cut, x)


def _quiet(x: Array) -> Array:
    """Infinities, and NaN with the bit that no cut takes away."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return np.where(np.isnan(x), bits | np.uint32(0x00400000), bits).view(np.float32)


ROUNDINGS: dict[str, Callable[[Array], Array]] = {"tf32": to_tf32, "tf32_even": to_tf32_even}
"""What fp32 operands are rounded to before the tensor core sees them, by the name that kernels know it by."""


def bf16_parts(x: Array) -> list[Array]:
    """high = bf16(x), middle = bf16(x - high), low = bf16((x - high) - middle), to nearest even, as float32 values."""
    parts, rest = [], np.asarray(x, np.float32)
    with np.errstate(all="ignore"):
        for _ in range(3):
            parts.append(_bf16(rest))
            rest = rest - parts[-1]
    return parts


def _bf16(x: Array) -> Array:
    return np.where(np.isnan(x), x, _nearest_even(x, _BF16_DROPPED))


def _nearest_even(x: Array, dropped: int) -> Array:
    """fp32 numbers without their last so many bits, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    tie = (bits >> np.uint32(dropped)) & np.uint32(1)
    rounded = (bits + (np.uint32((1 << (dropped - 1)) - 1) + tie)) & np.uint32(0xFFFFFFFF << dropped & 0xFFFFFFFF)
    return rounded.view(np.float32)


# ------------------------------------------------------------------------------------------------------------ the table
_chain, _promote, _tl_dot = matrix_units.chain, matrix_units.promote, matrix_units.tl_dot


def _fp8(interval: int | None) -> dict[str, Arithmetic]:
    """fp8 operands, their sum added to fp32 every so many products. Tiles of fewer than 64 rows use another unit."""
    schedule = _chain() if interval is None else _promote(interval)
    dot = Dot(imprecise=interval, least_block_m=64, block_k=None if interval is None else 128)
    return dict.fromkeys(FP8, OnUnit(schedule=schedule, interval=interval, dot=dot))


def _tf32(prepare: str, split: str) -> dict[str, Arithmetic]:
    """fp32 operands on the tf32 unit, cut by it or rounded first."""
    dot = Dot(input_precision="tf32", prepare=prepare)
    return {"fp32": OnUnit(schedule=_chain(), inputs="tf32", multiplied="tf32", split=SPLITS[split], dot=dot)}


def _split(precision: str) -> dict[str, Arithmetic]:
    """fp32 operands in parts, by `tl.dot`."""
    return {
        "fp32": OnUnit(
            schedule=_tl_dot(SPLIT_BLOCK, input_precision=precision),
            inputs="fp32",
            multiplied="tf32" if precision == "tf32x3" else "bf16",
            interval=SPLIT_BLOCK,
            split=SPLITS[precision],
            dot=Dot(input_precision=precision, block_k=SPLIT_BLOCK),
        )
    }


_TENSOR_CORE = OnUnit(schedule=_chain())
_EMULATION = "tritongemm.emulation"


def _table(*modes: Mode) -> dict[str, Mode]:
    return {mode.name: mode for mode in modes}


MODES: dict[str, Mode] = _table(
    Mode(
        "ieee",
        "Exact products: one serial chain of fused multiply-adds for fp32 and fp64, the tensor core's accumulator for "
        "fp16 and bf16, sums of 128 products added up in fp32 for fp8.",
        {
            "fp32": Chain(),
            "fp16": _TENSOR_CORE,
            "bf16": _TENSOR_CORE,
            "fp64": Chain(),
            **_fp8(128),
        },
    ),
    Mode(
        "tf32",
        "fp32 operands cut to tf32 (11 bits) by the tensor core: fast and biased toward zero.",
        _tf32("", "tf32"),
    ),
    Mode(
        "tf32_rounded",
        "fp32 operands rounded to the nearest tf32 number (11 bits, ties away from zero): errs as much as "
        "cuBLAS's tf32, whose ties go to even.",
        _tf32("tf32", "tf32_rounded"),
    ),
    Mode(
        "tf32_even",
        "fp32 operands rounded to the nearest tf32 number, ties to even: the bits of cuBLAS's tf32, where that does "
        "not split k.",
        _tf32("tf32_even", "tf32_rounded"),
    ),
    Mode("tf32x3", "fp32 operands in two tf32 parts, three products, their sums added up in fp32.", _split("tf32x3")),
    Mode("bf16x3", "fp32 operands in two bf16 parts, three products, their sums added up in fp32.", _split("bf16x3")),
    Mode("bf16x6", "fp32 operands in three bf16 parts, six products, their sums added up in fp32.", _split("bf16x6")),
    Mode(
        "bf16x6_chained",
        "fp32 operands in three bf16 parts whose products all share the tensor core's accumulator: what is small is "
        "cut off at the exponent of what is large, and the result is worse than plain fp32; kept to show it.",
        {"fp32": ChainedParts(dot=Dot(chained_parts=3, block_k=SPLIT_BLOCK))},
    ),
    Mode(
        "fp16x3",
        "fp32 operands in two scaled fp16 parts, three products, their sums added up in fp32.",
        {"fp32": Elsewhere(module=_EMULATION, name="FP16X3")},
    ),
    Mode(
        "int8x6",
        "fp32 operands in three int8 digits, six products, exact integer sums: the same bits on any device.",
        {"fp32": Elsewhere(module=_EMULATION, name="INT8X6")},
    ),
    Mode(
        "auto",
        "fp32 operands: the fastest of int8x6, fp16x3, bf16x6 and ieee whose expected error for these numbers is no "
        "worse than that of a serial fp32 sum.",
        {"fp32": Elsewhere(module=_EMULATION, name="AUTO")},
    ),
    Mode("fast", "fp8 products in the tensor core's 14-bit accumulator, for all of K.", _fp8(None)),
    Mode("promote32", "fp8 products, added to an fp32 sum every 32.", _fp8(32)),
    Mode("promote64", "fp8 products, added to an fp32 sum every 64.", _fp8(64)),
    Mode("promote128", "fp8 products, added to an fp32 sum every 128.", _fp8(128)),
)
"""Every mode by name."""

ALIASES = {"portable": "int8x6"}
"""Other names of modes."""


def get(name: str) -> Mode:
    """The mode of a name or alias.

    Raises:
        UsageError: No such mode; the nearest one is named.
    """
    if not isinstance(name, str):
        raise UsageError(f"precision: a mode's name, given {name!r}. {nearest('', MODES)}")
    known = ALIASES.get(name, name)
    if known not in MODES:
        raise UsageError(f"precision: {name!r} is no mode. {nearest(name, [*MODES, *ALIASES])}")
    return MODES[known]


def register(mode: Mode) -> Mode:
    """Add a mode to the table, or replace it.

    Args:
        mode: The mode.

    Returns:
        The mode.
    """
    MODES[mode.name] = mode
    return mode
