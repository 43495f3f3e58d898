"""What rounding to a format must give, from the definition, in exact rationals. Shares no code with numfmt.

A format is written down here as the list of its codes and their values. Rounding a number means looking up its two
neighbours in that list and choosing one by the definition of the mode. There are two forms: one number at a time in
``fractions.Fraction``, and whole float64 arrays for the exhaustive sets, where the only arithmetic is the comparison
of a number with values and midpoints that float64 holds exactly; the tests compare the two.
"""

from __future__ import annotations

import itertools
import math
import random
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

INF, NAN = math.inf, math.nan
HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Facts:
    """A format as the standards describe it: widths, bias, and which codes are special."""

    exponent_bits: int
    mantissa_bits: int
    bias: int
    signed: bool = True
    zero: bool = True
    subnormals: bool = True
    infinity: bool = True
    nan: str = "top_exponent"  # none | highest | top_exponent | negative_zero
    overflow: str = "infinity"


def ieee(e: int, m: int, b: int) -> Facts:
    return Facts(e, m, b)


def fn(e: int, m: int, b: int) -> Facts:
    return Facts(e, m, b, infinity=False, nan="highest", overflow="nan")


def fnuz(e: int, m: int, b: int) -> Facts:
    return Facts(e, m, b, infinity=False, nan="negative_zero", overflow="nan")


def finite(e: int, m: int, b: int) -> Facts:
    return Facts(e, m, b, infinity=False, nan="none", overflow="saturate")


#: The constant formats, from IEEE 754-2019, OCP OFP8, OCP MX 1.0 and the papers that define the others.
CONSTANTS: dict[str, Facts] = {
    "FP64": ieee(11, 52, 1023),
    "FP32": ieee(8, 23, 127),
    "TF32": ieee(8, 10, 127),
    "FP16": ieee(5, 10, 15),
    "BF16": ieee(8, 7, 127),
    "FP8_E4M3": fn(4, 3, 7),
    "FP8_E5M2": ieee(5, 2, 15),
    "FP8_E4M3FNUZ": fnuz(4, 3, 8),
    "FP8_E5M2FNUZ": fnuz(5, 2, 16),
    "FP8_E4M3B11FNUZ": fnuz(4, 3, 11),
    "FP8_E4M3_IEEE": ieee(4, 3, 7),
    "FP8_E3M4": ieee(3, 4, 3),
    "FP6_E2M3": finite(2, 3, 1),
    "FP6_E3M2": finite(3, 2, 3),
    "FP4_E2M1": finite(2, 1, 1),
    "E8M0": Facts(8, 0, 127, False, False, False, False, "highest", "nan"),
}

MODES = ("nearest_even", "nearest_away", "toward_zero", "up", "down", "to_odd")
STOCHASTIC = ("stochastic", "stochastic_b", "stochastic_c")
POLICIES = ("infinity", "nan", "saturate", "propagate")


def floor_log2(x: Fraction) -> int:
    """Exponent of the largest power of two that is not above x > 0."""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


class Oracle:
    """The values of one format and the definition of rounding to them."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.magnitudes = 1 << (facts.exponent_bits + facts.mantissa_bits)
        nans = {"none": 0, "negative_zero": 0, "highest": 1, "top_exponent": (1 << facts.mantissa_bits) - 1}[facts.nan]
        self.last = self.magnitudes - nans - (2 if facts.infinity else 1)  # code of the largest finite value
        self.bits = facts.exponent_bits + facts.mantissa_bits + (1 if facts.signed else 0)
        self.max = self.finite(self.last)
        self.beyond = self.finite(self.last + 1)  # the value that would follow if the exponent went on
        self._places: dict[Fraction, tuple[int, Fraction, Fraction, Fraction]] = {}
        self.has_nan = facts.nan != "none"
        self.lowest = Fraction(0) if facts.zero else self.finite(0)

    def finite(self, code: int) -> Fraction:
        """The value of a magnitude code, taken as finite."""
        f = self.facts
        field, mantissa = code >> f.mantissa_bits, code & ((1 << f.mantissa_bits) - 1)
        if field == 0 and f.zero:
            scale = Fraction(2) ** (1 - f.bias - f.mantissa_bits)
            return mantissa * scale if f.subnormals else Fraction(0)
        return ((1 << f.mantissa_bits) + mantissa) * Fraction(2) ** (field - f.bias - f.mantissa_bits)

    def value(self, code: int) -> float:
        """The value of any code, as a Python float (exact; -0.0, inf and nan included)."""
        f = self.facts
        negative = f.signed and code >= self.magnitudes
        magnitude = code - self.magnitudes if negative else code
        if negative and magnitude == 0 and f.nan == "negative_zero":
            return NAN
        if magnitude <= self.last:
            value = float(self.finite(magnitude))
        elif f.infinity and magnitude == self.last + 1:
            value = INF
        else:
            return NAN
        if negative and value == 0 and f.nan == "negative_zero":
            return 0.0
        return -value if negative else value

    @cached_property
    def table(self) -> tuple[list[int], list[Fraction]]:
        """Codes and values from zero to the first value beyond the largest, ascending; each value once."""
        codes, values = [], []
        for code in range(self.last + 2):
            value = self.finite(code)
            if not values or value > values[-1]:
                codes.append(code)
                values.append(value)
        if not self.facts.zero:  # below the smallest value there is no other; this row stands for "below"
            codes.insert(0, -1)
            values.insert(0, Fraction(0))
        return codes, values

    def place(self, x: Fraction) -> tuple[int, Fraction, Fraction, Fraction]:
        """:meth:`around`, and where between the two x lies, from 0 to below 1; remembered."""
        if x not in self._places:
            code, low, high = self.around(x)
            self._places[x] = code, low, high, (x - low) / (high - low)
        return self._places[x]

    def around(self, x: Fraction) -> tuple[int, Fraction, Fraction]:
        """Code and value of the largest value that is not above x >= 0, and the value after it.

        Beyond the largest value the exponent goes on without a bound.
        """
        if self.bits <= 16 and x < self.beyond:
            codes, values = self.table
            i = bisect_right(values, x) - 1
            return codes[i], values[i], values[i + 1]
        return self._around(x)

    def _around(self, x: Fraction) -> tuple[int, Fraction, Fraction]:
        """The same by arithmetic, for wide formats."""
        f = self.facts
        emin = (1 if f.zero else 0) - f.bias
        if x < Fraction(2) ** emin:
            if not f.zero:
                return -1, Fraction(0), self.finite(0)
            if not f.subnormals:
                return 0, Fraction(0), Fraction(2) ** emin
            step = Fraction(2) ** (emin - f.mantissa_bits)
            n = x // step
            return n, n * step, (n + 1) * step
        e = floor_log2(x)
        step = Fraction(2) ** (e - f.mantissa_bits)
        n = x // step
        code = ((e + f.bias) << f.mantissa_bits) + n - (1 << f.mantissa_bits)
        return code, n * step, (n + 1) * step

    def round(
        self,
        x: Fraction | float,
        mode: str,
        policy: str | None = None,
        nan: str | None = None,
        r: int = 0,
        n: int = 32,
    ) -> float:
        """The rounded value as a float. ``x`` is a Fraction or one of the floats inf, -inf, nan, -0.0."""
        policy = policy or self.facts.overflow
        if isinstance(x, float):
            if math.isnan(x):
                if self.has_nan:
                    return NAN
                return {"zero": 0.0 if self.facts.zero else float(self.lowest), "largest": float(self.max)}[nan]
            if math.isinf(x):
                return self.end(x > 0, policy, infinite=True)
            assert x == 0
            negative, size = math.copysign(1, x) < 0, Fraction(0)
        else:
            negative, size = x < 0, abs(x)
        code, low, high, delta = self.place(size)
        up = self.goes_up(mode, delta, code % 2 == 1, negative, r, n)
        magnitude = high if up else low
        if negative and not self.facts.signed:
            out = magnitude > 0 if self.facts.zero else size > 0
            if out:
                return float(self.lowest) if mode in ("toward_zero", "up") else self.end(False, policy, infinite=False)
            return float(self.lowest)
        if not self.facts.zero and magnitude == 0:
            magnitude = self.lowest
        if magnitude > self.max:
            inward = mode == "toward_zero" or mode == ("up" if negative else "down")
            if inward or (mode == "to_odd" and self.last % 2 == 1):
                magnitude = self.max
            else:
                return self.end(not negative, policy, infinite=False)
        value = float(magnitude)
        if negative and not (value == 0 and self.facts.nan == "negative_zero"):
            value = -value
        return value

    @staticmethod
    def goes_up(mode: str, delta: Fraction, odd: bool, negative: bool, r: int, n: int) -> bool:
        """Does the magnitude go to the upper neighbour, ``delta`` of the way towards it?"""
        match mode:
            case "nearest_even":
                return delta > HALF or (delta == HALF and odd)
            case "nearest_away":
                return delta >= HALF
            case "toward_zero":
                return False
            case "up":
                return delta > 0 and not negative
            case "down":
                return delta > 0 and negative
            case "to_odd":
                return delta > 0 and not odd
            case "stochastic":
                return delta * 2**n // 1 + r >= 2**n
            case "stochastic_b":
                return delta + (r + HALF) / 2**n >= 1
            case "stochastic_c":
                return round(delta * 2**n) + r >= 2**n  # Python rounds a Fraction to nearest even
        raise ValueError(mode)

    def end(self, positive: bool, policy: str, infinite: bool) -> float:
        """What a number beyond the range becomes."""
        f = self.facts
        limit = float(self.max) if positive else (-float(self.max) if f.signed else float(self.lowest))
        infinity = (INF if positive else -INF) if f.infinity and (positive or f.signed) else None
        if policy == "saturate" or (policy == "propagate" and not infinite):
            return limit
        if policy in ("infinity", "propagate"):
            return limit if infinity is None else infinity
        assert policy == "nan"
        return infinity if infinite and infinity is not None else NAN

    # Whole arrays -----------------------------------------------------------------------------------------------------

    @cached_property
    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        codes, values = self.table
        floats = np.array([float(v) for v in values])
        middles = np.array([float((a + b) / 2) for a, b in itertools.pairwise(values)])
        exact = all(Fraction(float(v)) == v for v in values) and all(
            Fraction(float(m)) == (a + b) / 2 for m, a, b in zip(middles, values, values[1:], strict=False)
        )
        assert exact, "float64 does not hold the values and midpoints of this format"
        return np.array(codes), floats, middles

    def round_array(self, x: np.ndarray, mode: str, policy: str | None = None) -> np.ndarray:
        """Deterministic modes on a float64 array, for formats of at most 16 bits."""
        codes, values, middles = self._arrays
        f = self.facts
        negative, size = np.signbit(x), np.abs(x)
        special = ~np.isfinite(x)
        clipped = np.where(special | (size >= values[-1]), 0.0, size)
        i = np.searchsorted(values, clipped, side="right") - 1
        odd = codes[i] % 2 == 1
        inexact = clipped != values[i]
        above, tie = clipped > middles[i], clipped == middles[i]
        up = {
            "nearest_even": above | (tie & odd),
            "nearest_away": above | tie,
            "toward_zero": np.zeros_like(odd),
            "up": inexact & ~negative,
            "down": inexact & negative,
            "to_odd": inexact & ~odd,
        }[mode]
        result = values[i + up]
        if not f.zero:
            result = np.maximum(result, values[1])
        result = np.where(negative, -result, result)
        # What a number beyond the range becomes depends on its sign only, so one of each side stands for all.
        finite = ~special
        for sign in (1, -1):
            side = (negative if sign < 0 else ~negative) & finite
            if sign < 0 and not f.signed:
                out = side & ((size >= values[-1]) | (np.abs(result) > 0) if f.zero else (size > 0))
                result[side] = float(self.lowest)
                result[out] = self.round(-self.max, mode, policy)
            else:
                out = side & ((size >= values[-1]) | (np.abs(result) > values[-2]))
                result[out] = self.round(sign * 2 * self.beyond, mode, policy)
            result[x == sign * INF] = self.round(sign * INF, mode, policy)
        result[(x == 0) & negative] = self.round(-0.0, mode)
        if f.nan == "negative_zero":
            result = np.where(result == 0, 0.0, result)
        result[np.isnan(x)] = NAN
        return result


def random_facts(count: int, seed: int = 20240229) -> dict[str, Facts]:
    """Random formats of at most 16 bits that cover every combination of kinds and widths that can exist."""
    rng = random.Random(seed)
    chosen: dict[str, Facts] = {}
    while len(chosen) < count:
        e, m = rng.randint(0, 8), rng.randint(0, 8)
        facts = Facts(
            e,
            m,
            rng.randint(-20, 40) if rng.random() < 0.5 else (1 << max(e - 1, 0)) - 1,
            signed=rng.random() < 0.8,
            zero=rng.random() < 0.9,
            subnormals=rng.random() < 0.8,
            infinity=rng.random() < 0.5,
            nan=rng.choice(("none", "highest", "top_exponent", "negative_zero")),
            overflow=rng.choice(POLICIES),
        )
        if possible(facts):
            chosen[f"R{len(chosen):02d}_e{e}m{m}"] = facts
    return chosen


def possible(f: Facts) -> bool:
    """The facts do not contradict each other and leave at least one positive value."""
    if f.exponent_bits == 0 and (f.nan == "top_exponent" or not f.zero or not f.subnormals or f.infinity):
        return False
    if f.nan == "top_exponent" and (not f.infinity or f.mantissa_bits == 0):
        return False
    if f.nan == "negative_zero" and not (f.signed and f.zero):
        return False
    if f.subnormals and not f.zero:
        return False
    if f.overflow == "nan" and f.nan == "none":
        return False
    return f.exponent_bits + f.mantissa_bits >= 2 and Oracle(f).last >= 1 and Oracle(f).max > 0


def points(oracle: Oracle, carrier: type, limit: int | None, seed: int = 1) -> list[Fraction]:
    """Numbers worth rounding, both signs: values, midpoints and quarter points, with their neighbours in the carrier.

    Args:
        oracle: The format.
        carrier: np.float32 or np.float64; only numbers it holds are returned.
        limit: At most this many codes (all powers of two and both ends stay); None for all.
        seed: Which codes are left out.
    """
    rng = random.Random(seed)
    codes = range(oracle.last + 1)
    if limit is not None and len(codes) > limit:
        m = oracle.facts.mantissa_bits
        ends = {0, 1, 2, 3, oracle.last - 1, oracle.last}
        fields = rng.sample(range(oracle.last >> m), min(12, oracle.last >> m))
        ends |= {max(0, (field << m) + d) for field in (0, 1, *fields) for d in (-1, 0, 1)}
        codes = sorted({c for c in ends if c <= oracle.last} | set(rng.sample(codes, limit)))
    found: set[Fraction] = set()
    for code in codes:
        low, high = oracle.finite(code), oracle.finite(code + 1)
        for exact in (low, (low + high) / 2, (3 * low + high) / 4, low + (high - low) * Fraction(rng.random())):
            if exact > float(np.finfo(carrier).max):
                continue
            with np.errstate(over="ignore", under="ignore"):
                near = carrier(float(exact))
                for value in (near, np.nextafter(near, carrier(INF)), np.nextafter(near, carrier(-INF))):
                    if np.isfinite(value):
                        found.add(Fraction(float(value)))
    with np.errstate(over="ignore"):
        top = carrier(min(float(oracle.max), float(np.finfo(carrier).max)))
        for factor in (1, 1.5, 2, 4, 1e10):
            value = top * carrier(factor)
            if np.isfinite(value):
                found.add(Fraction(float(value)))
    found |= {Fraction(float(np.finfo(carrier).smallest_subnormal)), Fraction(float(np.finfo(carrier).max))}
    return sorted(found | {-x for x in found})
