"""Formats whose values are no floating-point numbers: integers and fixed point in two's complement, and value tables.

They serve as elements of block formats and have the methods of `numfmt.FloatFormat`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from numfmt import _apply
from numfmt.codes import code_type
from numfmt.formats import FloatFormat
from numfmt.rounding import OverflowPolicy, RoundingMode, overflow_policy, rounding_mode

if TYPE_CHECKING:
    from numfmt._random import Seed


class _Elements:
    """What both kinds share: everything that follows from the list of values."""

    name: str

    @property
    def bits(self) -> int:
        """Width of a code in bits."""
        raise NotImplementedError

    def values(self) -> NDArray[np.float64]:
        """Every value in code order.

        Returns:
            float64 array (2**bits,).
        """
        raise NotImplementedError

    def round(
        self,
        x: Any,
        rounding: str | RoundingMode = "nearest_even",
        rng: Seed = None,
        overflow: str | OverflowPolicy | None = None,
        *,
        nan: str | None = None,
        random_bits: int = 32,
        random: Any = None,
    ) -> Any:
        """Round numbers to the format; see `numfmt.FloatFormat.round`.

        Infinities and numbers beyond the range become the nearest end (policy "saturate" is the only one); NaN is
        refused unless ``nan`` names a replacement. The result is float64.
        """
        raise NotImplementedError

    def __str__(self) -> str:
        return self.name

    def finite_values(self) -> NDArray[np.float64]:
        """Every different value.

        Returns:
            float64 array in ascending order.
        """
        return np.unique(self.values())

    @property
    def max(self) -> float:
        """Largest value."""
        return float(self.finite_values()[-1])

    @property
    def min(self) -> float:
        """Lowest value."""
        return float(self.finite_values()[0])

    @property
    def min_positive(self) -> float:
        """Smallest positive value."""
        values = self.finite_values()
        return float(values[values > 0][0])

    @property
    def emax(self) -> int:
        """floor(log2(max))."""
        return int(np.frexp(self.max)[1]) - 1

    @property
    def has_nan(self) -> bool:
        """Never."""
        return False

    def decode(self, codes: Any) -> Any:
        """Values of codes.

        Args:
            codes: Integers of any shape.

        Returns:
            float64 in the same shape.

        Raises:
            ValueError: For a code out of range.
            TypeError: For codes that are no integers.
        """
        array = np.asarray(codes)
        if array.dtype.kind not in "iu" and array.size:
            raise TypeError(f"codes must be integers, not {array.dtype}")
        if array.size and not 0 <= int(array.min()) <= int(array.max()) < 1 << self.bits:
            raise ValueError(f"codes must lie in [0, 2**{self.bits}) for {self.name}")
        return self.values()[array.astype(np.intp)][()]

    def next_up(self, x: Any) -> Any:
        """The smallest value larger than x.

        Args:
            x: Numbers of any shape.

        Returns:
            float64 in the shape of x; the largest value where there is no larger one, NaN for NaN.
        """
        values = self.finite_values()
        numbers = np.asarray(x, np.float64)
        result = values[np.minimum(np.searchsorted(values, numbers, side="right"), values.size - 1)]
        return np.where(np.isnan(numbers), np.nan, result)[()]

    def next_down(self, x: Any) -> Any:
        """The largest value smaller than x.

        Args:
            x: Numbers of any shape.

        Returns:
            float64 in the shape of x; the lowest value where there is no lower one, NaN for NaN.
        """
        values = self.finite_values()
        numbers = np.asarray(x, np.float64)
        result = values[np.maximum(np.searchsorted(values, numbers, side="left") - 1, 0)]
        return np.where(np.isnan(numbers), np.nan, result)[()]

    def table(self) -> str:
        """The format's whole value set as text; see `numfmt.tables.value_table`.

        Returns:
            One line a code, under headings.

        Raises:
            ValueError: For formats of more than 12 bits.
        """
        from numfmt import tables

        return tables.value_table(self)

    def _saturates(self, overflow: str | OverflowPolicy | None) -> None:
        if overflow is not None and overflow_policy(overflow).finite != "largest":
            raise ValueError(
                f"overflow={overflow_policy(overflow).name!r} needs infinities or NaN, and {self.name} has neither; "
                "use overflow='saturate'"
            )


@dataclass(frozen=True)
class FixedFormat(_Elements):
    """Integers or fixed-point numbers: a two's complement or unsigned integer times 2**-fraction_bits.

    Args:
        name: Name for people.
        width: Bits, 1 to 32.
        fraction_bits: Bits after the binary point; 0 for integers.
        signed: Two's complement.
        symmetric: Leave the most negative value out, so that the range is symmetric (OCP MX allows it for MXINT8).

    Raises:
        ValueError: For widths out of range.
    """

    name: str = field(compare=False)
    width: int
    fraction_bits: int = 0
    signed: bool = True
    symmetric: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.width <= 32:
            raise ValueError(f"width must be between 1 and 32, not {self.width!r}")
        if self.signed and self.width < 2:
            raise ValueError("width must be at least 2 for a signed format; or pass signed=False")
        if not -512 <= self.fraction_bits <= 512:
            raise ValueError(f"fraction_bits must be between -512 and 512, not {self.fraction_bits!r}")

    @property
    def bits(self) -> int:
        """Width of a code in bits."""
        return self.width

    @property
    def _range(self) -> tuple[int, int]:
        """Lowest and largest integer."""
        if not self.signed:
            return 0, (1 << self.width) - 1
        half = 1 << (self.width - 1)
        return (1 - half if self.symmetric else -half), half - 1

    @property
    def max(self) -> float:
        """Largest value."""
        return float(np.ldexp(float(self._range[1]), -self.fraction_bits))

    @property
    def min(self) -> float:
        """Lowest value."""
        return float(np.ldexp(float(self._range[0]), -self.fraction_bits))

    @property
    def min_positive(self) -> float:
        """Smallest positive value, also the distance between values."""
        return float(np.ldexp(1.0, -self.fraction_bits))

    def ulp(self, x: Any) -> Any:
        """The distance between values, the same everywhere.

        Args:
            x: Numbers of any shape.

        Returns:
            float64 in the shape of x; NaN for NaN.
        """
        return np.where(np.isnan(np.asarray(x, np.float64)), np.nan, self.min_positive)[()]

    @cached_property
    def _grid(self) -> FloatFormat:
        """A sign-magnitude format with the same grid and a wider range: a float format without exponent bits."""
        m = self.width + 1
        return FloatFormat(f"grid of {self.name}", 0, m, 1 + self.fraction_bits - m, "finite")

    def values(self) -> NDArray[np.float64]:
        """Every value in code order.

        Returns:
            float64 array (2**bits,).

        Raises:
            ValueError: For more than 24 bits.
        """
        if self.width > 24:
            raise ValueError(f"{self.name} has 2**{self.width} values, too many for one array")
        codes = np.arange(1 << self.width, dtype=np.int64)
        if self.signed:
            codes = np.where(codes >= 1 << (self.width - 1), codes - (1 << self.width), codes)
        return np.ldexp(np.maximum(codes, self._range[0]).astype(np.float64), -self.fraction_bits)

    def round(
        self,
        x: Any,
        rounding: str | RoundingMode = "nearest_even",
        rng: Seed = None,
        overflow: str | OverflowPolicy | None = None,
        *,
        nan: str | None = None,
        random_bits: int = 32,
        random: Any = None,
    ) -> Any:
        """Round numbers to the format, as `numfmt.FloatFormat.round` does.

        Infinities and numbers beyond the range become the nearest end. There is no -0.

        Args:
            x: Numbers of any shape; not modified.
            rounding: A name or alias of `numfmt.ROUNDINGS`.
            rng: For stochastic modes: a seed, a generator, or None for fresh entropy.
            overflow: Overflow policy; only "saturate" and its aliases.
            nan: ``"zero"`` or ``"largest"``: what NaN becomes; None makes it an error.
            random_bits: Random bits of stochastic modes.
            random: The random integers themselves, in the shape of x.

        Returns:
            Values of the format, float64, in the shape of x.

        Raises:
            ValueError: For NaN without a replacement, other policies, and unknown names.
            TypeError: For arrays that hold no real numbers.
        """
        self._saturates(overflow)
        if nan is None and np.asarray(x).dtype.kind == "f" and np.isnan(x).any():
            raise ValueError(f"x holds NaN, but {self.name} has no NaN; pass nan='zero' or nan='largest' to replace it")
        rounded = self._grid.round(x, rounding, rng, "saturate", nan=nan, random_bits=random_bits, random=random)
        return (np.clip(np.asarray(rounded, np.float64), self.min, self.max) + 0.0)[()]

    def encode(self, x: Any, rounding: str | RoundingMode = "nearest_even", **options: Any) -> Any:
        """Round numbers and return their codes, in two's complement.

        Args:
            x: Numbers, as for `round`.
            rounding: Rounding mode.
            **options: Further arguments of `round`.

        Returns:
            Codes in the smallest unsigned type that holds them, in the shape of x.
        """
        integers = np.ldexp(np.asarray(self.round(x, rounding, **options)), self.fraction_bits).astype(np.int64)
        return (integers & ((1 << self.width) - 1)).astype(code_type(self.width))[()]


@dataclass(frozen=True)
class TableFormat(_Elements):
    """A format given by the list of its values, such as NF4.

    Args:
        name: Name for people.
        entries: The values in code order, strictly ascending, a power of two of them.

    Raises:
        ValueError: For values that are not finite, not ascending, or not a power of two many.
    """

    name: str = field(compare=False)
    entries: Sequence[float]

    def __post_init__(self) -> None:
        entries = tuple(float(v) for v in self.entries)
        object.__setattr__(self, "entries", entries)
        if len(entries) < 2 or len(entries) & (len(entries) - 1):
            raise ValueError(f"entries must be a power of two many, not {len(entries)}")
        if not np.isfinite(entries).all() or not (np.diff(entries) > 0).all():
            raise ValueError("entries must be finite and strictly ascending")

    @property
    def bits(self) -> int:
        """Width of a code in bits."""
        return len(self.entries).bit_length() - 1

    def values(self) -> NDArray[np.float64]:
        """Every value in code order.

        Returns:
            float64 array (2**bits,).
        """
        return np.array(self.entries)

    def ulp(self, x: Any) -> Any:
        """The distance between the two values around x.

        Args:
            x: Numbers of any shape.

        Returns:
            float64 in the shape of x; beyond the ends the distance of the last two values, NaN for NaN.
        """
        values = self.values()
        numbers = np.asarray(x, np.float64)
        i = np.clip(np.searchsorted(values, numbers, side="right"), 1, values.size - 1)
        return np.where(np.isnan(numbers), np.nan, values[i] - values[i - 1])[()]

    def round(
        self,
        x: Any,
        rounding: str | RoundingMode = "nearest_even",
        rng: Seed = None,
        overflow: str | OverflowPolicy | None = None,
        *,
        nan: str | None = None,
        random_bits: int = 32,
        random: Any = None,
    ) -> Any:
        """Round numbers to the nearest entry, or as the mode says; see `numfmt.FloatFormat.round`.

        Ties go to the even code. Numbers beyond the ends become the end. Input wider than float64 must be exact in it.

        Args:
            x: Numbers of any shape; not modified.
            rounding: A name or alias of `numfmt.ROUNDINGS`.
            rng: For stochastic modes: a seed, a generator, or None for fresh entropy.
            overflow: Overflow policy; only "saturate" and its aliases.
            nan: ``"zero"`` or ``"largest"``: what NaN becomes; None makes it an error.
            random_bits: Random bits of stochastic modes.
            random: The random integers themselves, in the shape of x.

        Returns:
            Values of the format, float64, in the shape of x.

        Raises:
            ValueError: For NaN without a replacement, other policies, and unknown names.
            TypeError: For arrays that hold no real numbers.
        """
        return self.values()[self._codes(x, rounding, rng, overflow, nan, random_bits, random)][()]

    def encode(
        self,
        x: Any,
        rounding: str | RoundingMode = "nearest_even",
        rng: Seed = None,
        overflow: str | OverflowPolicy | None = None,
        *,
        nan: str | None = None,
        random_bits: int = 32,
        random: Any = None,
    ) -> Any:
        """Round numbers and return their codes.

        Args:
            x: Numbers of any shape; not modified.
            rounding: A name or alias of `numfmt.ROUNDINGS`.
            rng: For stochastic modes: a seed, a generator, or None for fresh entropy.
            overflow: Overflow policy; only "saturate" and its aliases.
            nan: ``"zero"`` or ``"largest"``: what NaN becomes; None makes it an error.
            random_bits: Random bits of stochastic modes.
            random: The random integers themselves, in the shape of x.

        Returns:
            Codes in the smallest unsigned type that holds them, in the shape of x.

        Raises:
            ValueError: For NaN without a replacement, other policies, and unknown names.
            TypeError: For arrays that hold no real numbers.
        """
        codes = self._codes(x, rounding, rng, overflow, nan, random_bits, random)
        return codes.astype(code_type(self.bits))[()]

    def _codes(
        self,
        x: Any,
        rounding: str | RoundingMode,
        rng: Seed,
        overflow: str | OverflowPolicy | None,
        nan: str | None,
        random_bits: int,
        random: Any,
    ) -> NDArray[np.intp]:
        self._saturates(overflow)
        mode = rounding_mode(rounding)
        _apply.check_nan(nan)
        numbers = _apply.exact_float64(x)
        isnan = np.isnan(numbers)
        if isnan.any() and nan is None:
            raise ValueError(f"x holds NaN, but {self.name} has no NaN; pass nan='zero' or nan='largest' to replace it")
        values = self.values()
        clipped = np.clip(np.where(isnan, values[-1] if nan == "largest" else 0.0, numbers), values[0], values[-1])
        below = np.searchsorted(values, clipped, side="right") - 1
        above = np.minimum(below + 1, values.size - 1)
        low, high = values[below], values[above]
        inexact = clipped != low
        # The sign of 2 x - (low + high), exactly: s + e is the sum (TwoSum), and 2 x - s is exact where it is small.
        s = low + high
        b = s - low
        e = (low - (s - b)) + (high - b)
        side = (2 * clipped - s) - e
        even = below % 2 == 0
        if mode.name == "nearest_even":
            up = (side > 0) | ((side == 0) & ~even)
        elif mode.name == "nearest_away":
            up = (side > 0) | ((side == 0) & (np.abs(high) > np.abs(low)))
        elif mode.stochastic:
            random_bits = _apply.check_random_bits(random_bits)
            words = _apply.random_integers(rng, random, random_bits, numbers.shape)
            with np.errstate(invalid="ignore"):
                fraction = np.where(inexact, (clipped - low) / (high - low), 0.0) * 2.0**random_bits
            up = np.floor(fraction) + words >= 2.0**random_bits
        else:
            up = {
                "toward_zero": np.abs(high) < np.abs(low),
                "up": np.ones_like(inexact),
                "down": np.zeros_like(inexact),
                "to_odd": even,
            }[mode.name]
        return np.where(inexact & up, above, below)


#: 4-bit NormalFloat of QLoRA (T. Dettmers et al., "QLoRA", 2023, appendix E): quantiles of a normal distribution,
#: scaled to [-1, 1], with an exact zero.
NF4 = TableFormat(
    "NF4",
    (
        -1.0,
        -0.6961928009986877,
        -0.5250730514526367,
        -0.39491748809814453,
        -0.28444138169288635,
        -0.18477343022823334,
        -0.09105003625154495,
        0.0,
        0.07958029955625534,
        0.16093020141124725,
        0.24611230194568634,
        0.33791524171829224,
        0.44070982933044434,
        0.5626170039176941,
        0.7229568362236023,
        1.0,
    ),
)
INT8 = FixedFormat("INT8", 8)
INT4 = FixedFormat("INT4", 4)
UINT8 = FixedFormat("UINT8", 8, signed=False)
UINT4 = FixedFormat("UINT4", 4, signed=False)
#: Element of OCP MXINT8: two's complement with 6 fraction bits, from -2 to 1.984375.
MXINT8_ELEMENT = FixedFormat("MXINT8_ELEMENT", 8, 6)

#: Every constant of this module, by name.
ELEMENTS: dict[str, FixedFormat | TableFormat] = {
    fmt.name: fmt for fmt in (NF4, INT8, INT4, UINT8, UINT4, MXINT8_ELEMENT)
}
