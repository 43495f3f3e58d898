"""One output at a time, in exact rationals: what a matrix unit returns, written as the rule reads.

Nothing here is shared with `numfmt.matrix_units`: values are Python floats (every format below fits a float64),
arithmetic is `fractions.Fraction`, and the facts of the units are a second copy of the published table, so that a
slip in either table shows as a mismatch.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

INF = math.inf
NAN = math.nan

# name: (mantissa bits, smallest normal exponent, largest finite value)
FORMATS = {
    "fp32": (23, -126, (2 - 2**-23) * 2.0**127),
    "tf32": (10, -126, (2 - 2**-10) * 2.0**127),
    "bf16": (7, -126, (2 - 2**-7) * 2.0**127),
    "fp16": (10, -14, 65504.0),
    "e8m13": (13, -126, (2 - 2**-13) * 2.0**127),
    "e4m3": (3, -6, 448.0),
    "e5m2": (2, -14, 57344.0),
    "e3m2": (2, -2, 28.0),
    "e2m3": (3, 0, 7.5),
    "e2m1": (1, 0, 6.0),
}


@dataclass(frozen=True)
class Step:
    """One fused step as hardware does it: `length` products and the accumulator aligned, cut to `fraction` bits,
    summed.
    """

    length: int
    fraction: int
    result: str = "fp32"  # a key of FORMATS
    mode: str = "toward_zero"
    floor: int | None = -133  # the least exponent of the alignment
    zero_exponent: int | None = None  # what a zero term counts with; None: it takes no part
    c_emin: int = -126


def floor_log2(x: Fraction) -> int:
    """The exponent e with 2**e <= |x| < 2**(e+1); x is not zero."""
    x = abs(x)
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if x >= Fraction(2) ** e else e - 1


def round_to(x: Fraction, fmt: str, mode: str) -> float:
    """The value of `fmt` next to x; infinity above the largest value, whatever the mode."""
    mantissa, emin, largest = FORMATS[fmt]
    if x == 0:
        return 0.0
    quantum = Fraction(2) ** (max(floor_log2(x), emin) - mantissa)
    steps, rest = divmod(abs(x), quantum)
    if mode == "nearest_even" and (rest * 2 > quantum or (rest * 2 == quantum and steps % 2)):
        steps += 1
    if mode == "nearest_away" and rest * 2 >= quantum:
        steps += 1
    value = steps * quantum
    if value > Fraction(largest):
        return INF if x > 0 else -INF
    return float(value) if x > 0 else -float(value)


def operand_exponent(x: float, emin: int) -> int:
    return max(floor_log2(Fraction(x)), emin)


def special_sum(products: list[float], c: float) -> float | None:
    """NaN or an infinity if the terms contain one, None if all are finite."""
    terms = [*products, c]
    if any(math.isnan(t) for t in terms) or (INF in terms and -INF in terms):
        return NAN
    for t in (INF, -INF):
        if t in terms:
            return t
    return None


def ieee_product(x: float, y: float) -> float:
    """x*y for its kind only: NaN, a signed infinity, or a finite stand-in that cannot overflow."""
    if math.isfinite(x) and math.isfinite(y):
        return 0.0
    return x * y


def fused_step(a: list[float], b: list[float], c: float, step: Step, a_emin: int, b_emin: int) -> float:
    """The result of one step on the products a[i]*b[i] and c."""
    special = special_sum([ieee_product(x, y) for x, y in zip(a, b, strict=True)], c)
    if special is not None:
        return special
    terms = []  # (exact value, exponent or None for a zero)
    for x, y in zip(a, b, strict=True):
        if x == 0 or y == 0:
            terms.append((Fraction(0), step.zero_exponent))
        else:
            terms.append((Fraction(x) * Fraction(y), operand_exponent(x, a_emin) + operand_exponent(y, b_emin)))
    terms.append((Fraction(c), operand_exponent(c, step.c_emin) if c else step.zero_exponent))
    return finish_step(terms, step)


def finish_step(terms: list[tuple[Fraction, int | None]], step: Step) -> float:
    exponents = [e for _, e in terms if e is not None]
    if step.floor is not None:
        exponents.append(step.floor)
    if not exponents:
        return 0.0
    quantum = Fraction(2) ** (max(exponents) - step.fraction)
    total = Fraction(0)
    for value, _ in terms:
        total += math.trunc(value / quantum) * quantum  # math.trunc is toward zero
    rounded = round_to(total, step.result, step.mode)
    return rounded if rounded != 0 else 0.0


def chain(a: list[float], b: list[float], c: float, step: Step, a_emin: int, b_emin: int) -> float:
    """Consecutive steps in ascending k, each result the next step's accumulator."""
    assert len(a) % step.length == 0
    for k in range(0, len(a), step.length):
        c = fused_step(a[k : k + step.length], b[k : k + step.length], c, step, a_emin, b_emin)
    return c


def add(x: float, y: float, fmt: str = "fp32") -> float:
    """An ordinary IEEE addition in fp32 or fp16, to nearest even."""
    if not (math.isfinite(x) and math.isfinite(y)):
        return x + y
    total = Fraction(x) + Fraction(y)
    if total == 0:
        return x + y  # the sign of an exact zero, as IEEE has it
    return math.copysign(round_to(total, fmt, "nearest_even"), total)


def fma(x: float, y: float, c: float) -> float:
    """A fused multiply-add in fp32, to nearest even."""
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(c)):
        return ieee_product(x, y) + c
    total = Fraction(x) * Fraction(y) + Fraction(c)
    if total == 0:
        return math.copysign(1.0, x) * math.copysign(1.0, y) * 0.0 + (c if c == 0 else 0.0)
    return math.copysign(round_to(total, "fp32", "nearest_even"), total)


# ---------------------------------------------------------------------------------------------------------------- facts
# unit, accumulator -> (formats of the inputs, step); a second copy of the public table
FP16_ACC = {"result": "fp16", "mode": "nearest_even", "floor": None, "zero_exponent": -126, "c_emin": -14}
UNITS: dict[tuple[str, str], list[tuple[tuple[str, ...], Step]]] = {
    ("volta.mma", "fp32"): [(("fp16",), Step(4, 23, floor=None))],
    ("volta.mma", "fp16"): [(("fp16",), Step(4, 23, **FP16_ACC))],
    ("turing.mma", "fp32"): [(("fp16",), Step(8, 24, floor=-132))],
    ("turing.mma", "fp16"): [(("fp16",), Step(8, 24, **FP16_ACC))],
    ("ampere.mma", "fp32"): [
        (("fp16",), Step(8, 24, floor=-132)),
        (("bf16",), Step(8, 24, floor=-132)),
        (("tf32",), Step(4, 24, floor=-132)),
    ],
    ("ampere.mma", "fp16"): [(("fp16",), Step(8, 24, **FP16_ACC))],
    ("ada.mma", "fp32"): [
        (("fp16",), Step(8, 24, floor=-132)),
        (("bf16",), Step(8, 24, floor=-132)),
        (("tf32",), Step(4, 24, floor=-132)),
        (("e4m3", "e5m2"), Step(16, 13, result="e8m13", floor=-132)),
    ],
    ("ada.mma", "fp16"): [(("fp16",), Step(8, 24, **FP16_ACC)), (("e4m3", "e5m2"), Step(16, 13, **FP16_ACC))],
    ("hopper.mma", "fp32"): [
        (("fp16",), Step(16, 25)),
        (("bf16",), Step(16, 25)),
        (("tf32",), Step(8, 25)),
    ],
    ("hopper.mma", "fp16"): [(("fp16",), Step(16, 25, **FP16_ACC))],
    ("hopper.wgmma", "fp32"): [
        (("fp16",), Step(16, 25)),
        (("bf16",), Step(16, 25)),
        (("tf32",), Step(8, 25)),
        (("e4m3", "e5m2"), Step(32, 13, result="e8m13")),
    ],
    ("hopper.wgmma", "fp16"): [(("fp16",), Step(16, 25, **FP16_ACC)), (("e4m3", "e5m2"), Step(32, 13, **FP16_ACC))],
    ("blackwell.tcgen05", "fp32"): [
        (("fp16",), Step(16, 25)),
        (("bf16",), Step(16, 25)),
        (("tf32",), Step(8, 25)),
        (("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"), Step(32, 25)),
    ],
    ("blackwell.tcgen05", "fp16"): [
        (("fp16",), Step(16, 25, **FP16_ACC)),
        (("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"), Step(32, 25, **FP16_ACC)),
    ],
    ("blackwell.mma", "fp32"): [
        (("fp16",), Step(16, 25)),
        (("bf16",), Step(16, 25)),
        (("tf32",), Step(8, 25)),
        (("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"), Step(32, 25)),
    ],
    ("blackwell.mma", "fp16"): [
        (("fp16",), Step(16, 25, **FP16_ACC)),
        (("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"), Step(32, 25, **FP16_ACC)),
    ],
}
SCALED_MXF8F6F4 = Step(32, 25, zero_exponent=-126)
SCALED_FP4 = Step(64, 35, zero_exponent=-126)  # four groups of 16


def scaled_step(
    a: list[float], b: list[float], c: float, scale_a: float, scale_b: float, a_emin: int, b_emin: int
) -> float:
    """One mxf8f6f4 step: the exponents of the two E8M0 scales are added to every product's exponent."""
    step = SCALED_MXF8F6F4
    products = [ieee_product(x, y) for x, y in zip(a, b, strict=True)]
    if math.isnan(scale_a) or math.isnan(scale_b):
        return NAN
    special = special_sum(products, c)
    if special is not None:
        return special
    shift = floor_log2(Fraction(scale_a)) + floor_log2(Fraction(scale_b))
    terms: list[tuple[Fraction, int | None]] = []
    for x, y in zip(a, b, strict=True):
        if x == 0 or y == 0:
            terms.append((Fraction(0), step.zero_exponent))
        else:
            exponent = operand_exponent(x, a_emin) + operand_exponent(y, b_emin) + shift
            terms.append((Fraction(x) * Fraction(y) * Fraction(2) ** shift, exponent))
    terms.append((Fraction(c), operand_exponent(c, -126) if c else step.zero_exponent))
    return finish_step(terms, step)


def fp4_step(
    a: list[float], b: list[float], c: float, scales_a: list[float], scales_b: list[float], scale_emin: int
) -> float:
    """One k=64 step of mxf4 or nvf4; `scales_*` holds one scale for each group of 16 products."""
    step = SCALED_FP4
    if any(math.isnan(s) for s in [*scales_a, *scales_b]):
        return NAN
    if not math.isfinite(c):
        return c
    terms: list[tuple[Fraction, int | None]] = []
    for group in range(4):
        part = range(16 * group, 16 * group + 16)
        total = sum((Fraction(a[i]) * Fraction(b[i]) for i in part), Fraction(0))
        value = total * Fraction(scales_a[group]) * Fraction(scales_b[group])
        if value == 0:
            terms.append((value, step.zero_exponent))
        else:
            exponent = operand_exponent(scales_a[group], scale_emin) + operand_exponent(scales_b[group], scale_emin)
            terms.append((value, exponent))
    terms.append((Fraction(c), operand_exponent(c, -126) if c else step.zero_exponent))
    return finish_step(terms, step)


def hopper_fp8_mma(a: list[float], b: list[float], c: float, accumulator: str = "fp32") -> float:
    """fp8 `mma.sync` on Hopper, k = 32: conversion to fp16, two 16-product steps from zero, an ordinary add of c."""
    step = Step(16, 25) if accumulator == "fp32" else Step(16, 25, **FP16_ACC)
    for k in range(0, len(a), 32):
        first = [k + i for i in range(32) if i % 4 in (0, 1)]
        second = [k + i for i in range(32) if i % 4 in (2, 3)]
        part = fused_step([a[i] for i in first], [b[i] for i in first], 0.0, step, -14, -14)
        part = fused_step([a[i] for i in second], [b[i] for i in second], part, step, -14, -14)
        c = add(c, part, accumulator)
    return c


def flush(x: float, fmt: str = "fp32", keep_sign: bool = True) -> float:
    if x != 0 and abs(x) < 2.0 ** FORMATS[fmt][1]:
        return math.copysign(0.0, x) if keep_sign else 0.0
    return x


def cdna2_chain(a: list[float], b: list[float], c: float, fmt: str, products: int) -> float:
    """CDNA2: products, then a pairwise tree, then c, every one an fp32 operation to nearest even; subnormals become
    zero.
    """
    c = flush(c, keep_sign=False)
    for k in range(0, len(a), products):
        terms = []
        for i in range(k, k + products):
            x, y = flush(a[i], fmt, keep_sign=False), flush(b[i], fmt, keep_sign=False)
            if math.isfinite(x) and math.isfinite(y) and x != 0 and y != 0:
                terms.append(flush(round_to(Fraction(x) * Fraction(y), "fp32", "nearest_even")))
            else:
                terms.append(x * y)
        while len(terms) > 1:
            terms = [flush(add(terms[i], terms[i + 1])) for i in range(0, len(terms), 2)]
        c = flush(add(c, terms[0]))
    return c


# ------------------------------------------------------------------------------------------------------------ schedules
def promoted(a: list[float], b: list[float], c: float, interval: int, step: Step, a_emin: int, b_emin: int) -> float:
    """Every `interval` products a partial sum from zero is added to c in fp32."""
    for k in range(0, len(a), interval):
        c = add(c, chain(a[k : k + interval], b[k : k + interval], 0.0, step, a_emin, b_emin))
    return c


def dot_fp8(
    a: list[float],
    b: list[float],
    c: float,
    block_k: int,
    form: str,
    imprecise: int,
    step: Step,
    emins: tuple[int, int],
) -> float:
    """Triton's fp8 tl.dot on wgmma; `imprecise` is max_num_imprecise_acc, 0 for not set."""
    for start in range(0, len(a), block_k):
        block = slice(start, start + block_k)
        x, y = a[block], b[block]
        if imprecise == 0:
            if form == "acc=":
                c = chain(x, y, c, step, *emins)
            else:
                c = add(c, chain(x, y, 0.0, step, *emins))
            continue
        interval = -(-imprecise // 32) * 32
        parts = [
            chain(x[k : k + interval], y[k : k + interval], 0.0, step, *emins) for k in range(0, block_k, interval)
        ]
        if form == "acc=":
            for part in parts:
                c = add(c, part)
        else:
            total = 0.0
            for part in parts:
                total = add(total, part)
            c = add(c, total)
    return c


def split(x: float, scheme: str) -> dict[str, float]:
    """The parts of an fp32 operand that Triton multiplies."""
    if scheme == "tf32x3":
        if not math.isfinite(x):
            return {"big": x, "small": NAN}
        big = round_to(Fraction(x), "tf32", "nearest_away") if x else x
        small = add(x, -big)
        return {"big": big, "small": truncate_tf32(small)}
    hi = bf16(x)
    mid = bf16(add(x, -hi))
    lo = bf16(add(add(x, -hi), -mid))
    return {"hi": hi, "mid": mid, "lo": lo}


def bf16(x: float) -> float:
    return x if not math.isfinite(x) or x == 0 else round_to(Fraction(x), "bf16", "nearest_even")


def truncate_tf32(x: float) -> float:
    return x if not math.isfinite(x) or x == 0 else round_to(Fraction(x), "tf32", "toward_zero")


SPLIT_PRODUCTS = {
    "tf32x3": ([("small", "big"), ("big", "small")], ("big", "big"), "tf32"),
    "bf16x3": ([("mid", "hi"), ("hi", "mid")], ("hi", "hi"), "bf16"),
    "bf16x6": ([("mid", "mid"), ("lo", "hi"), ("hi", "lo"), ("mid", "hi"), ("hi", "mid")], ("hi", "hi"), "bf16"),
}


def dot_split(a: list[float], b: list[float], c: float, block_k: int, scheme: str, steps: dict[str, Step]) -> float:
    """tl.dot with input_precision tf32x3, bf16x3 or bf16x6."""
    corrections, main, fmt = SPLIT_PRODUCTS[scheme]
    step = steps[fmt]
    for start in range(0, len(a), block_k):
        xs = [split(x, scheme) for x in a[start : start + block_k]]
        ys = [split(y, scheme) for y in b[start : start + block_k]]
        part = 0.0
        for left, right in corrections:
            part = chain([x[left] for x in xs], [y[right] for y in ys], part, step, -126, -126)
        if math.isnan(part):
            part = 0.0
        part = chain([x[main[0]] for x in xs], [y[main[1]] for y in ys], part, step, -126, -126)
        c = add(c, part)
    return c


def dot_ieee(a: list[float], b: list[float], c: float) -> float:
    for x, y in zip(a, b, strict=True):
        c = fma(x, y, c)
    return c


def width_order(length: int, depth: int, width: int, elements: int) -> list[int]:
    """The order in which mma.sync takes k when operands were widened: kWidth `width`, `elements` = 32/bits."""
    count = width // elements
    group = depth * count
    return [
        start + k
        for start in range(0, length, group)
        for instruction in range(count)
        for k in range(group)
        if (k % width) // elements == instruction
    ]
