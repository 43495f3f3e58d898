"""What each matrix unit does, as data: one row per architecture, instruction, input formats and accumulator.

The rows describe one model. A *step* takes `products` products and the accumulator c, aligns all of them to the largest
exponent among them, cuts each toward zero `fraction_bits` below that exponent, adds them exactly and rounds once. An
instruction of depth `depth` is a chain of steps, a matrix product a chain of instructions. Operand exponents are not
normalised below the format's emin, and a product's exponent is the sum of its operands' exponents.

Sources: M. Fasi, N. Higham, M. Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ CS 7 (2021);
B. Hickmann and D. Bradford (ARITH 2019); F. Khattak and M. Mikaitis, arXiv 2512.07004; P. Xie et al., MMA-Sim,
arXiv 2511.10909. The rows of Hopper were measured on an H200 and are compared with recorded outputs in the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numfmt._errors import unknown_name
from numfmt.dtypes import TYPES
from numfmt.formats import (
    BF16,
    E8M0,
    FP4_E2M1,
    FP6_E2M3,
    FP6_E3M2,
    FP8_E4M3,
    FP8_E5M2,
    FP16,
    FP32,
    TF32,
    FloatFormat,
)

E8M13 = FloatFormat("E8M13", 8, 13, 127, "ieee")
"""The accumulator of Ada's and Hopper's FP8 units: an FP32 whose low ten bits are zero."""

INPUT_FORMATS: dict[str, FloatFormat] = {
    "fp32": FP32,
    "tf32": TF32,
    "bf16": BF16,
    "fp16": FP16,
    "e4m3": FP8_E4M3,
    "e5m2": FP8_E5M2,
    "e3m2": FP6_E3M2,
    "e2m3": FP6_E2M3,
    "e2m1": FP4_E2M1,
}
"""The names that `inputs=` and `accumulator=` take."""

# The names of NumPy, ml_dtypes and torch, then Triton's and PTX's.
_ALIASES = {name: key for key, fmt in INPUT_FORMATS.items() for name, known in TYPES.items() if fmt == known} | {
    "f32": "fp32",
    "f16": "fp16",
    "half": "fp16",
    "fp8e4nv": "e4m3",
    "fp8e5": "e5m2",
    "fp8_e4m3": "e4m3",
    "fp8_e5m2": "e5m2",
    "fp6_e3m2": "e3m2",
    "fp6_e2m3": "e2m3",
    "fp4_e2m1": "e2m1",
}


def format_key(name: str, argument: str = "inputs") -> str:
    """The short name of a format: "fp16" for "float16", "e4m3" for "float8_e4m3fn" or "fp8e4nv".

    Raises:
        ValueError: For an unknown name; the nearest known one is named.
    """
    folded = str(name).casefold().strip()
    folded = _ALIASES.get(folded, folded)
    if folded not in INPUT_FORMATS:
        raise ValueError(unknown_name(argument, name, INPUT_FORMATS))
    return folded


@dataclass(frozen=True)
class Scales:
    """The block scales of an instruction.

    Attributes:
        format: Format of a scale.
        block: How many neighbouring k share one.
    """

    format: FloatFormat
    block: int


@dataclass(frozen=True, kw_only=True)
class MatrixUnit:
    """The facts of one matrix instruction.

    Attributes:
        architecture: "volta" ... "blackwell", "cdna2", or "simt" for ordinary fused multiply-adds.
        instruction: "mma", "wgmma", "tcgen05", ...; with the architecture it makes the unit's name, "hopper.wgmma".
        inputs: Keys of `INPUT_FORMATS` that an operand can have.
        accumulator: "fp32" or "fp16": the format of c and of the result.
        mixed: The two operands may have different formats of `inputs`.
        depth: k of one instruction; K must be a multiple of it.
        products: Products per step, the L of the literature.
        fraction_bits: Bits kept below the largest exponent, the F of the literature.
        mantissa_bits: Mantissa bits of a step's result (23, or 13 for the short FP8 accumulator, or 10).
        rounding: How a step's exact sum is rounded to the result: "toward_zero" or "nearest_even".
        least_exponent: A floor under the largest exponent of a step, or None.
        zero_exponent: The exponent a zero term takes part with, or None: it takes no part.
        multiplied: The format in which operands are multiplied if it is not the input's (conversion before the
            product).
        order: The k of one instruction in the order in which steps take them; None: ascending.
        adds_accumulator: The instruction's products are summed from zero, and c is added by an ordinary addition.
        group: That many products are summed exactly and make one term of the alignment.
        scales: Block scales, or None.
        arithmetic: "aligned" (the model above), "pairwise" (a tree of ordinary FP32 additions, subnormals flushed) or
            "fma" (one fused multiply-add per product, to nearest even).
        evidence: "measured" (compared here with recorded hardware outputs), "vectors" (agrees with published
            single-instruction vectors of that hardware) or "model" (public models only, not verified on hardware).
    """

    architecture: str
    instruction: str
    inputs: tuple[str, ...]
    accumulator: str
    depth: int
    products: int
    fraction_bits: int
    mantissa_bits: int
    rounding: str
    least_exponent: int | None
    zero_exponent: int | None
    evidence: str
    mixed: bool = False
    multiplied: str | None = None
    order: tuple[int, ...] | None = None
    adds_accumulator: bool = False
    group: int = 1
    scales: Scales | None = None
    arithmetic: str = "aligned"

    @property
    def name(self) -> str:
        """Architecture and instruction, the spelling that `matmul(unit=...)` takes."""
        return f"{self.architecture}.{self.instruction}"

    @cached_property
    def accumulator_format(self) -> FloatFormat:
        """The `FloatFormat` of c and of the returned matrix."""
        return INPUT_FORMATS[self.accumulator]

    @property
    def terms(self) -> int:
        """Terms of one step's alignment besides c."""
        return self.products // self.group

    def multiplied_format(self, key: str) -> FloatFormat:
        """The format whose emin clamps the exponents of operands.

        Args:
            key: Key of `INPUT_FORMATS` that the operand is given in.

        Returns:
            The format that is multiplied: the operand's own, or what the unit widens it to.
        """
        return INPUT_FORMATS[self.multiplied or key]

    def describe(self) -> str:
        """The facts in words, for people.

        Returns:
            One line.
        """
        kinds = "/".join(self.inputs)
        if self.arithmetic == "fma":
            return f"{self.name}: {kinds}, one fused multiply-add per product, to nearest even"
        if self.arithmetic == "pairwise":
            return (
                f"{self.name}: {kinds}, {self.products} products in a pairwise tree of fp32 additions, then "
                f"c; subnormals "
                f"flushed ({self.evidence})"
            )
        what = f"{self.terms} groups of {self.group} products" if self.group > 1 else f"{self.products} products"
        after = "; c added afterwards" if self.adds_accumulator else ""
        exponent_bits = 5 if self.accumulator == "fp16" else 8
        return (
            f"{self.name}: {kinds} -> {self.accumulator}, {what} a step, cut {self.fraction_bits} bits below "
            f"the largest "
            f"exponent, result {self.rounding} to e{exponent_bits}m{self.mantissa_bits}{after} ({self.evidence})"
        )


def _rows(
    unit: str,
    inputs: str,
    depth: int,
    products: int,
    fraction_bits: int,
    floor: int | None,
    accumulators: str,
    evidence: str,
    *,
    short: bool = False,
    **more: Any,
) -> list[MatrixUnit]:
    """Rows that differ in the accumulator only; `short` is the 13-bit FP8 accumulator that calls itself fp32.

    An fp32 accumulator is cut toward zero, a zero takes no part in the alignment, and the alignment has the floor of
    the architecture. An fp16 accumulator is rounded to nearest even, a zero counts with 2**-126, and there is no floor.
    """
    architecture, instruction = unit.split(".")
    wide = {
        "mantissa_bits": 13 if short else 23,
        "rounding": "toward_zero",
        "least_exponent": floor,
        "zero_exponent": None,
    }
    half = {"mantissa_bits": 10, "rounding": "nearest_even", "least_exponent": None, "zero_exponent": -126}
    return [
        MatrixUnit(
            architecture=architecture,
            instruction=instruction,
            inputs=tuple(inputs.split()),
            accumulator=accumulator,
            depth=depth,
            products=products,
            fraction_bits=fraction_bits,
            evidence=evidence,
            **(half if accumulator == "fp16" else wide),
            **more,
        )
        for accumulator in accumulators.split()
    ]


# No FP8 mma.sync exists on Hopper: the assembler converts to fp16, multiplies the k with k % 4 in {0, 1} of each 32
# from zero, chains those with k % 4 in {2, 3} on them, and adds c by an ordinary addition.
_EMULATED: dict[str, Any] = {
    "mixed": True,
    "multiplied": "fp16",
    "order": tuple(k for half in ((0, 1), (2, 3)) for k in range(32) if k % 4 in half),
    "adds_accumulator": True,
}
_FP8 = "e4m3 e5m2"
_NARROW = "e4m3 e5m2 e3m2 e2m3 e2m1"
# What the block-scaled and the fma and pairwise rows share with others but do not use is set to None or to its plain
# value.
_SCALED: dict[str, Any] = {
    "accumulator": "fp32",
    "mantissa_bits": 23,
    "rounding": "toward_zero",
    "least_exponent": -133,
    "zero_exponent": -126,
    "evidence": "model",
}
_ORDINARY: dict[str, Any] = {
    "accumulator": "fp32",
    "fraction_bits": 23,
    "mantissa_bits": 23,
    "rounding": "nearest_even",
    "least_exponent": None,
    "zero_exponent": None,
}

UNITS: tuple[MatrixUnit, ...] = (
    #      unit, inputs, depth, products L, fraction bits F, floor, accumulators, evidence
    *_rows("volta.mma", "fp16", 4, 4, 23, None, "fp32 fp16", "vectors"),
    *_rows("turing.mma", "fp16", 8, 8, 24, -132, "fp32 fp16", "model"),
    *_rows("ampere.mma", "fp16", 16, 8, 24, -132, "fp32 fp16", "vectors"),
    *_rows("ampere.mma", "bf16", 16, 8, 24, -132, "fp32", "vectors"),
    *_rows("ampere.mma", "tf32", 8, 4, 24, -132, "fp32", "vectors"),
    *_rows("ada.mma", "fp16", 16, 8, 24, -132, "fp32 fp16", "vectors"),
    *_rows("ada.mma", "bf16", 16, 8, 24, -132, "fp32", "vectors"),
    *_rows("ada.mma", "tf32", 8, 4, 24, -132, "fp32", "vectors"),
    *_rows("ada.mma", _FP8, 32, 16, 13, -132, "fp32 fp16", "vectors", short=True, mixed=True),
    *_rows("hopper.wgmma", "fp16", 16, 16, 25, -133, "fp32 fp16", "measured"),
    *_rows("hopper.wgmma", "bf16", 16, 16, 25, -133, "fp32", "measured"),
    *_rows("hopper.wgmma", "tf32", 8, 8, 25, -133, "fp32", "measured"),
    *_rows("hopper.wgmma", _FP8, 32, 32, 13, -133, "fp32 fp16", "measured", short=True, mixed=True),
    *_rows("hopper.mma", "fp16", 16, 16, 25, -133, "fp32 fp16", "measured"),
    *_rows("hopper.mma", "bf16", 16, 16, 25, -133, "fp32", "measured"),
    *_rows("hopper.mma", "tf32", 8, 8, 25, -133, "fp32", "measured"),
    *_rows("hopper.mma", _FP8, 32, 16, 25, -133, "fp32 fp16", "measured", **_EMULATED),
    *_rows("blackwell.tcgen05", "fp16", 16, 16, 25, -133, "fp32 fp16", "vectors"),
    *_rows("blackwell.tcgen05", "bf16", 16, 16, 25, -133, "fp32", "vectors"),
    *_rows("blackwell.tcgen05", "tf32", 8, 8, 25, -133, "fp32", "vectors"),
    *_rows("blackwell.tcgen05", _NARROW, 32, 32, 25, -133, "fp32 fp16", "vectors", mixed=True),
    *_rows("blackwell.mma", "fp16", 16, 16, 25, -133, "fp32 fp16", "model"),
    *_rows("blackwell.mma", "bf16", 16, 16, 25, -133, "fp32", "model"),
    *_rows("blackwell.mma", "tf32", 8, 8, 25, -133, "fp32", "model"),
    *_rows("blackwell.mma", _NARROW, 32, 32, 25, -133, "fp32 fp16", "model", mixed=True),
    MatrixUnit(
        architecture="blackwell",
        instruction="mxf8f6f4",
        inputs=tuple(_NARROW.split()),
        mixed=True,
        depth=32,
        products=32,
        fraction_bits=25,
        scales=Scales(E8M0, 32),
        **_SCALED,
    ),
    MatrixUnit(
        architecture="blackwell",
        instruction="mxf4",
        inputs=("e2m1",),
        depth=64,
        products=64,
        group=16,
        fraction_bits=35,
        scales=Scales(E8M0, 32),
        **_SCALED,
    ),
    MatrixUnit(
        architecture="blackwell",
        instruction="nvf4",
        inputs=("e2m1",),
        depth=64,
        products=64,
        group=16,
        fraction_bits=35,
        scales=Scales(FP8_E4M3, 16),
        **_SCALED,
    ),
    MatrixUnit(
        architecture="cdna2",
        instruction="mfma",
        inputs=("fp16", "bf16"),
        depth=4,
        products=4,
        arithmetic="pairwise",
        evidence="model",
        **_ORDINARY,
    ),
    MatrixUnit(
        architecture="cdna2",
        instruction="mfma_bf16",
        inputs=("bf16",),
        depth=2,
        products=2,
        arithmetic="pairwise",
        evidence="model",
        **_ORDINARY,
    ),
    MatrixUnit(
        architecture="simt",
        instruction="fma",
        inputs=("fp32",),
        depth=1,
        products=1,
        arithmetic="fma",
        evidence="measured",
        **_ORDINARY,
    ),
)
"""Every unit this package knows. `mfma` of bf16 is the `_1k` instruction, `mfma_bf16` the older one."""


def unit_names() -> tuple[str, ...]:
    """The names of units.

    Returns:
        What `matmul(unit=...)` takes, in the order of the table `UNITS`.
    """
    return tuple(dict.fromkeys(unit.name for unit in UNITS))


def find_unit(
    unit: str | MatrixUnit = "hopper",
    inputs: str | tuple[str, str] = "fp16",
    accumulator: str = "fp32",
) -> MatrixUnit:
    """The row of the table for a unit, its input formats and its accumulator.

    Args:
        unit: "hopper.wgmma", or an architecture alone ("hopper"), which takes the first instruction of the table that
            fits; a `MatrixUnit`, also one of your own making, is checked against the formats and returned.
        inputs: Format of the operands, or a pair (a, b).
        accumulator: "fp32" or "fp16".

    Returns:
        The facts.

    Raises:
        ValueError: For a name the table lacks, or formats the unit does not take; the message says what it takes.
    """
    a, b = (inputs, inputs) if isinstance(inputs, str) else inputs
    a, b, accumulator = format_key(a), format_key(b), format_key(accumulator, "accumulator")
    if isinstance(unit, MatrixUnit):
        rows: list[MatrixUnit] = [unit]
        name = unit.name
    else:
        name = str(unit).casefold().strip()
        rows = [row for row in UNITS if name in (row.name, row.architecture)]
        if not rows:
            raise ValueError(unknown_name("unit", unit, [*unit_names(), *dict.fromkeys(u.architecture for u in UNITS)]))
    taking = [row for row in rows if {a, b} <= set(row.inputs) and (a == b or row.mixed)]
    if not taking:
        kinds = ", ".join(dict.fromkeys("/".join(row.inputs) for row in rows))
        pair = a if a == b else f"{a} x {b}"
        others = dict.fromkeys(u.name for u in UNITS if {a, b} <= set(u.inputs) and (a == b or u.mixed))
        elsewhere = f"; {pair} is taken by {', '.join(others)}" if others else ""
        raise ValueError(f"inputs: {name} does not multiply {pair}, it takes {kinds}{elsewhere}")
    for row in taking:
        if row.accumulator == accumulator:
            return row
    kinds = ", ".join(dict.fromkeys(row.accumulator for row in taking))
    raise ValueError(f"accumulator: {name} with {a} inputs has no {accumulator} accumulator, it has {kinds}")
