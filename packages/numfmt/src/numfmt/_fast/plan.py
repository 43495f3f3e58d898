"""How a format is rounded in a given carrier: the constants that all fast implementations share.

There are two ways to round a number x of exponent E without a branch.

*scaled*: the format's quantum at x is q = 2**(max(E, emin) - m). x / q is exact, since q is a power of two; rounding it
to an integer is one instruction in most modes; multiplying by q again is exact. q and 1 / q are made from the exponent
bits. Subnormals come out right because E is replaced by emin where it is smaller.

*aligned*: where the format's subnormals begin where the carrier's do (BF16, TF32 in float32), q may be no normal
number. But there the codes of the format are the leading bits of the carrier's, for subnormals too, and rounding is an
integer addition to the bits. (E8M0 in float32 is such a format up to its smallest power of two, 2**-127, which float32
has as a subnormal: there the bits are *stretched* to those of a binade of their own first.)

What happens at the ends of the range is asked of the exact engine once and becomes constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from numfmt import _parts
from numfmt._engine import nan_value, round_parts
from numfmt.rounding import OverflowPolicy, RoundingMode

if TYPE_CHECKING:
    from numfmt.formats import FloatFormat


@dataclass(frozen=True)
class Carrier:
    """A hardware type that carries numbers: NumPy types, widths and masks.

    Attributes:
        name: NumPy name of the floating-point type.
        mantissa: Bits of its mantissa field.
        bias: Its exponent bias.
        width: Its bits.
    """

    name: str
    mantissa: int
    bias: int
    width: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The floating-point type."""
        return np.dtype(self.name)

    @property
    def integer(self) -> np.dtype[Any]:
        """The unsigned integer type of the same width."""
        return np.dtype(f"uint{self.width}")

    @property
    def sign(self) -> int:
        """Mask of the sign bit."""
        return 1 << (self.width - 1)

    @property
    def infinity(self) -> int:
        """Bits of infinity, which are also the mask of the exponent field."""
        return (2 * self.bias + 1) << self.mantissa

    def bits(self, value: float) -> int:
        """Bits of a value."""
        with np.errstate(over="ignore"):
            return int(np.array(value, self.dtype).view(self.integer))

    def power(self, exponent: int) -> int:
        """Bits of 2**exponent, which must be a normal number."""
        assert 1 - self.bias <= exponent <= self.bias
        return (exponent + self.bias) << self.mantissa


FLOAT32 = Carrier("float32", 23, 127, 32)
FLOAT64 = Carrier("float64", 52, 1023, 64)
CARRIERS = (FLOAT32, FLOAT64)


@dataclass(frozen=True)
class Plan:
    """Constants of one format, mode and policy in one carrier; values are floats, exact in the carrier.

    Attributes:
        carrier: The carrier.
        way: "scaled" or "aligned".
        mode: The rounding mode.
        mantissa: Mantissa bits m of the format.
        emin: Exponent of its smallest normal value.
        bias_parity: For m = 0: a power of two 2**E has the odd code if E + bias_parity is odd.
        subnormals: There are subnormals.
        signed: There are negative values.
        negative_zero: There is a -0.
        lowest: Smallest magnitude; 0 in formats with zero.
        limit: Largest value.
        over: Results for finite numbers beyond ``limit`` (positive, negative); below 0 for an unsigned format.
        infinite: Results for (+infinity, -infinity).
        nan: Result for NaN, or None: NaN is an error.
    """

    carrier: Carrier
    way: str
    mode: RoundingMode
    mantissa: int
    emin: int
    bias_parity: int
    subnormals: bool
    signed: bool
    negative_zero: bool
    lowest: float
    limit: float
    over: tuple[float, float]
    infinite: tuple[float, float]
    nan: float | None

    @property
    def stretched(self) -> bool:
        """The binade of 2**emin has no exponent of its own in the carrier: see `Plan.way` "aligned"."""
        return self.way == "aligned" and self.emin == -self.carrier.bias

    @property
    def shift(self) -> int:
        """Bits of the carrier's mantissa that the format does not have."""
        return self.carrier.mantissa - self.mantissa

    @property
    def grows(self) -> bool:
        """Dividing by a quantum at least doubles every number."""
        return self.emin - (self.mantissa if self.subnormals else 0) <= -1

    @property
    def emin_bits(self) -> int:
        """Bits of 2**emin in the carrier."""
        return self.carrier.power(self.emin)

    @property
    def flushed_quantum(self) -> int:
        """Bits of the quantum below 2**emin in a format without subnormals: 2**emin itself."""
        return self.carrier.power(self.emin)

    @property
    def calm_bits(self) -> int:
        """Bits of a power of two; numbers below it need no look at the ends of the range, unless unsigned."""
        return self.carrier.bits(float(np.ldexp(1.0, int(np.frexp(self.limit)[1]) - 1)))


def _way(fmt: FloatFormat, carrier: Carrier) -> str | None:
    m, least = fmt.mantissa_bits, 1 - carrier.bias  # least: the carrier's emin
    if m > carrier.mantissa or fmt.emax > carrier.bias or fmt.emin < least - 1:
        return None
    if fmt.emin == least and fmt.subnormals:
        return "aligned"
    if fmt.emin == least - 1 and m == 0 and not fmt.zero:
        return "aligned"
    # q must be normal, and its smallest value at most 1, so that x / q never underflows.
    smallest = fmt.emin - m if fmt.subnormals else fmt.emin
    if fmt.emin - m >= least and smallest <= 0:
        return "scaled"
    return None


@lru_cache(maxsize=512)
def plan(
    fmt: FloatFormat, mode: RoundingMode, policy: OverflowPolicy, nan: str | None, carrier: Carrier
) -> Plan | None:
    """The plan of a format in a carrier, or None where only the exact engine can do it."""
    way = _way(fmt, carrier)
    if way is None:
        return None
    # Beyond every format, and infinite: the engine says what becomes of them.
    ends = _parts.from_objects(np.array([2**1100, -(2**1100), np.inf, -np.inf], object))
    zeros = np.zeros(4, np.uint32)
    over_up, over_down, infinite_up, infinite_down = (
        float(v) for v in round_parts(fmt, ends, mode, policy, nan, zeros, 32)
    )
    return Plan(
        carrier=carrier,
        way=way,
        mode=mode,
        mantissa=fmt.mantissa_bits,
        emin=fmt.emin,
        bias_parity=fmt.bias & 1,
        subnormals=fmt.subnormals,
        signed=fmt.signed,
        negative_zero=fmt.negative_zero,
        lowest=fmt.min_nonnegative,
        limit=fmt.max,
        over=(over_up, over_down),
        infinite=(infinite_up, infinite_down),
        nan=_nan(fmt, nan),
    )


def _nan(fmt: FloatFormat, nan: str | None) -> float | None:
    if fmt.has_nan or nan is not None:
        return nan_value(fmt, nan)
    return None
