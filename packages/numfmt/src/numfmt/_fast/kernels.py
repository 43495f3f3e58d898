"""The rounding of ``plan`` as a Triton kernel.

Everything a kernel needs to know about format, mode and policy is a compile-time constant, so each combination is one
lean kernel at the speed of memory. Bits are signed integers of the carrier's width here, because Triton has no unsigned
literals; magnitudes are never negative, so comparing them is the same.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import triton
import triton.language as tl

from numfmt._fast.plan import FLOAT32, Plan
from numfmt._random import GROUP, MULTIPLIERS, PLANE, ROUNDS, WEYL

_M0, _M1 = tl.constexpr(MULTIPLIERS[0]), tl.constexpr(MULTIPLIERS[1])
_W0, _W1 = tl.constexpr(WEYL[0]), tl.constexpr(WEYL[1])


@triton.jit
def _philox(counter, k0, k1, ROUNDS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Four words of Philox4x32 for int64 counters; keys are uint32."""
    c0 = (counter & 0xFFFFFFFF).to(tl.uint32)
    c1 = ((counter >> 32) & 0xFFFFFFFF).to(tl.uint32)
    c2 = tl.zeros_like(c0)
    c3 = tl.zeros_like(c0)
    for _ in tl.static_range(ROUNDS):
        m0 = tl.full(c0.shape, _M0, tl.uint32)
        m1 = tl.full(c0.shape, _M1, tl.uint32)
        high0, low0 = tl.umulhi(c0, m0), c0 * m0
        high1, low1 = tl.umulhi(c2, m1), c2 * m1
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0 = k0 + tl.full(k0.shape, _W0, tl.uint32)
        k1 = k1 + tl.full(k1.shape, _W1, tl.uint32)
    return c0, c1, c2, c3


@triton.jit
def _carry(fraction, word, C: tl.constexpr):  # type: ignore[no-untyped-def]
    """Does the discarded fraction, brought to n bits as the variant says, plus the random number reach one?"""
    # whole + R >= 2^n where R are the word's top n bits; whole is at most 2^n, which 32 bits do not hold.
    scaled = fraction * (2.0**C.random_bits)
    whole = tl.floor(scaled)
    if C.variant == "b":
        whole += tl.where(scaled - whole >= 0.5, 1.0, 0.0)
    if C.variant == "c":  # numbers from `magic` on are integers
        whole = tl.where(scaled < C.magic, (scaled + C.magic) - C.magic, scaled)
    cut: tl.constexpr = 32 - C.random_bits
    return (whole >= 2.0**C.random_bits) | (tl.minimum(whole, C.most).to(tl.uint32) > ((word ^ 0xFFFFFFFF) >> cut))


@triton.jit
def _ceil(s):  # type: ignore[no-untyped-def]
    """Ceiling of numbers from 0 on. The hardware's own, as Triton emits it, takes subnormal numbers for 0."""
    low = tl.floor(s)
    return tl.where(s > low, low + 1.0, low)


@triton.jit
def _scaled(x, u, word, C: tl.constexpr):  # type: ignore[no-untyped-def]
    """Magnitudes rounded as multiples of the quantum, as bits."""
    exponent = u & C.infinity
    q = tl.maximum(exponent, C.emin_bits) - C.mantissa_field
    if not C.subnormals:
        q = tl.where(exponent < C.emin_bits, C.emin_bits, q)
    if C.mantissa == 0:  # 2**bias has no inverse in the carrier; no format reaches it
        q = tl.minimum(q, C.highest)
    s = tl.abs(x) * (C.double - q).to(x.dtype, bitcast=True)
    if C.mode == "nearest_even" and C.mantissa > 0:
        value = (s + C.magic) - C.magic  # s is below it
    elif C.mode == "toward_zero":
        value = tl.floor(s)
    elif C.mode == "up":
        value = tl.where(u < 0, tl.floor(s), _ceil(s))
    elif C.mode == "down":
        value = tl.where(u < 0, _ceil(s), tl.floor(s))
    elif C.mode == "to_odd" and C.mantissa > 0 and C.grows:
        half = s * 0.5  # exact: s is at least twice a number of the carrier
        value = tl.floor(half) + _ceil(half)
    else:
        low = tl.floor(s)
        fraction = s - low
        if C.mantissa == 0:
            odd = (low != 0) & ((((q >> C.field) + C.parity) & 1) != 0)
        else:
            half = low * 0.5
            odd = half != tl.floor(half)
        if C.mode == "nearest_even":
            away = (fraction > 0.5) | ((fraction == 0.5) & odd)
        elif C.mode == "nearest_away":
            away = fraction >= 0.5
        elif C.mode == "to_odd":
            away = (fraction > 0) & (odd == 0)
        else:
            away = _carry(fraction, word, C)
        value = tl.where(away, low + 1.0, low)
    return (value * q.to(x.dtype, bitcast=True)).to(C.integer, bitcast=True) & C.absolute


@triton.jit
def _aligned(x, u, word, C: tl.constexpr):  # type: ignore[no-untyped-def]
    """Magnitudes rounded by an addition to the bits."""
    size = u & C.absolute
    if C.stretched:
        size = tl.where(size < C.normal, tl.maximum(size + size, C.normal) - C.normal, size)
    if C.shift == 0:
        return size
    if C.mode == "nearest_even":
        size += ((size >> C.shift) & 1) + (C.half - 1)
    elif C.mode == "nearest_away":
        size += C.half
    elif C.mode == "up":
        size += tl.where(u < 0, 0, C.mask).to(C.integer)
    elif C.mode == "down":
        size += tl.where(u < 0, C.mask, 0).to(C.integer)
    elif C.mode == "to_odd":
        size |= (size & C.mask) + C.mask
    elif C.mode != "toward_zero":
        fraction = (size & C.mask).to(x.dtype) * C.unit
        size += tl.where(_carry(fraction, word, C), C.step, 0).to(C.integer)
    return size & C.keep


@triton.jit
def _round(x, word, C: tl.constexpr):  # type: ignore[no-untyped-def]
    """Round numbers of the carrier's type; C is a `Constants`."""
    u = x.to(C.integer, bitcast=True)
    size = u & C.absolute
    negative = u < 0
    if C.way == "scaled":
        r = _scaled(x, u, word, C)
    else:
        r = _aligned(x, u, word, C)
    if not C.zero:
        r = tl.maximum(r, C.lowest)
    if C.signed:
        over = r > C.limit
        signed = r | (u & C.sign)
        if not C.negative_zero:
            signed = tl.where(r == 0, 0, signed)
    else:  # below, the range ends at 0, or at the smallest value if that is not 0
        bound = tl.where(negative, 0, C.limit).to(C.integer)
        if C.zero:
            over = r > bound
        else:
            over = tl.minimum(r, size) > bound
        signed = r
    signed = tl.where(over, tl.where(negative, C.over_down, C.over_up), signed)
    if not C.ordinary_infinity:
        signed = tl.where(size == C.infinity, tl.where(negative, C.infinite_down, C.infinite_up), signed)
    signed = tl.where(size > C.infinity, C.nan, signed)
    return signed.to(C.integer).to(x.dtype, bitcast=True)


@triton.jit
def round_kernel(x_ptr, y_ptr, count, C: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Deterministic modes: y[i] = round(x[i]) for i < count."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(C.real)
    y = _round(x, x, C)
    tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["k0", "k1"])
def stochastic_kernel(  # type: ignore[no-untyped-def]
    x_ptr,
    y_ptr,
    random_ptr,
    count,
    k0,
    k1,
    C: tl.constexpr,
    GROUPS: tl.constexpr,
    PLANE: tl.constexpr,
    ROUNDS: tl.constexpr,
    GIVEN: tl.constexpr,
):
    """Stochastic modes: a program takes GROUPS groups of 4 * PLANE numbers, whose words come from GROUPS * PLANE
    blocks."""
    group = tl.program_id(0).to(tl.int64) * GROUPS + tl.arange(0, GROUPS)
    lane = tl.arange(0, PLANE)
    counter = group[:, None] * PLANE + lane[None, :]
    key0 = tl.full(counter.shape, 0, tl.uint32) + k0.to(tl.uint32)
    key1 = tl.full(counter.shape, 0, tl.uint32) + k1.to(tl.uint32)
    words = _philox(counter, key0, key1, ROUNDS)
    for w in tl.static_range(4):
        offsets = group[:, None] * (4 * PLANE) + w * PLANE + lane[None, :]
        inside = offsets < count
        x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(C.real)
        word = words[w]
        if GIVEN:
            word = tl.load(random_ptr + offsets, mask=inside, other=0).to(tl.uint32, bitcast=True) << (
                32 - C.random_bits
            )
        y = _round(x, word, C)
        tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=inside)


class Constants(NamedTuple):
    """What a kernel is compiled for: the fields of a plan as bits, and what follows from the carrier.

    Integers are the carrier's bits as signed numbers. ``real`` and ``integer`` are Triton types.
    """

    real: Any
    integer: Any
    way: str
    mode: str
    variant: str
    random_bits: int
    absolute: int
    sign: int
    infinity: int
    double: int
    highest: int
    field: int
    mantissa: int
    subnormals: bool
    signed: bool
    zero: bool
    negative_zero: bool
    emin_bits: int
    mantissa_field: int
    parity: int
    shift: int
    mask: int
    keep: int
    half: int
    step: int
    stretched: bool
    normal: int
    grows: bool
    magic: float
    most: float
    unit: float
    limit: int
    lowest: int
    ordinary_infinity: bool
    over_up: int
    over_down: int
    infinite_up: int
    infinite_down: int
    nan: int


@lru_cache(maxsize=256)
def constants(plan: Plan, random_bits: int) -> Constants:
    """The constants of a plan."""
    c = plan.carrier

    def signed(bits: int) -> int:
        return bits - (1 << c.width) if bits >= c.sign else bits

    scaled = plan.way == "scaled"
    nan = c.bits(float("nan") if plan.nan is None else plan.nan)
    over_up, over_down, infinite_up, infinite_down = (signed(c.bits(v)) for v in (*plan.over, *plan.infinite))
    return Constants(
        real=tl.float32 if c is FLOAT32 else tl.float64,
        integer=tl.int32 if c is FLOAT32 else tl.int64,
        way=plan.way,
        mode=plan.mode.name,
        variant=plan.mode.stochastic,
        random_bits=random_bits,
        absolute=c.sign - 1,
        sign=signed(c.sign),
        infinity=c.infinity,
        double=2 * c.power(0),
        highest=c.power(c.bias - 1),
        field=c.mantissa,
        mantissa=plan.mantissa,
        subnormals=plan.subnormals,
        signed=plan.signed,
        zero=plan.lowest == 0,
        negative_zero=plan.negative_zero,
        emin_bits=plan.emin_bits if scaled else 0,
        mantissa_field=plan.mantissa << c.mantissa,
        parity=(plan.bias_parity + c.bias) & 1,
        shift=plan.shift,
        mask=(1 << plan.shift) - 1,
        keep=(c.sign - 1) ^ ((1 << plan.shift) - 1),
        half=1 << max(plan.shift - 1, 0),
        step=1 << plan.shift,
        stretched=plan.stretched,
        normal=1 << c.mantissa,
        grows=plan.grows,
        magic=2.0**c.mantissa,
        most=float(np.nextafter(c.dtype.type(2.0**32), c.dtype.type(0))),
        unit=2.0**-plan.shift,
        limit=c.bits(plan.limit),
        lowest=c.bits(plan.lowest),
        ordinary_infinity=(over_up, over_down) == (infinite_up, infinite_down),
        over_up=over_up,
        over_down=over_down,
        infinite_up=infinite_up,
        infinite_down=infinite_down,
        nan=signed(nan),
    )


def _signed(word: int) -> int:
    """A 32-bit word as a signed number, so that every key has the same type and none compiles the kernel anew."""
    return word - (1 << 32) if word >= 1 << 31 else word


#: Numbers a program takes: one wide load of each thread. Measured on an H200: 1.01 to 1.03 times a copy's time, where
#: four loads take 1.04 to 1.10 times.
BLOCK = 512
#: In stochastic modes, which draw four words at once and have more to do per number.
STOCHASTIC_BLOCK = 2048


def round_triton(x: Any, out: Any, plan: Plan, key: int = 0, random: Any = None, random_bits: int = 32) -> None:
    """Round a contiguous tensor into another one of the same shape.

    Args:
        x: Numbers, of any floating-point type that converts to the plan's carrier exactly.
        out: Results, float32 or float64.
        plan: How.
        key: Key of the random words, for stochastic modes without ``random``.
        random: Random integers in ``[0, 2**random_bits)`` as an int32 tensor (bits of uint32), or None.
        random_bits: Number of random bits.
    """
    count = x.numel()
    if count == 0:
        return
    c = constants(plan, random_bits)
    # A contraction to fused multiply-add could not change a bit here; switched off, it is no question.
    options = {"enable_fp_fusion": False, "num_warps": 4}
    if not plan.mode.stochastic:
        round_kernel[(triton.cdiv(count, BLOCK),)](x, out, count, C=c, BLOCK=BLOCK, **options)
        return
    stochastic_kernel[(triton.cdiv(count, STOCHASTIC_BLOCK),)](
        x,
        out,
        out if random is None else random,
        count,
        _signed(key & 0xFFFFFFFF),
        _signed(key >> 32),
        C=c,
        GROUPS=STOCHASTIC_BLOCK // GROUP,
        PLANE=PLANE,
        ROUNDS=ROUNDS,
        GIVEN=random is not None,
        **options,
    )
