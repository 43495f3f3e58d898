"""Floating-point formats as facts.

A `FloatFormat` is a handful of independent facts: field widths, bias, which special values there are and where
their codes lie. Everything else (limits, rounding, codes) is derived from them, so a new format is a new row of facts
and no new code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from numfmt import rounding as _rounding
from numfmt._errors import unknown_name

if TYPE_CHECKING:
    from numfmt._random import Seed
    from numfmt.rounding import OverflowPolicy, RoundingMode

NanCodes = Literal["none", "highest", "top_exponent", "negative_zero"]

#: Where NaN's codes can lie, for people.
NAN_CODES: dict[str, str] = {
    "none": "no NaN",
    "highest": "one code per sign, the highest",
    "top_exponent": "every code above infinity with the highest exponent field (IEEE 754)",
    "negative_zero": "one code, the one that would be -0",
}

#: What each kind of special values says about the facts a user did not give.
KINDS: dict[str, dict[str, Any]] = {
    "ieee": {"infinities": True, "nan": "top_exponent", "overflow": "infinity"},
    "fn": {"infinities": False, "nan": "highest", "overflow": "nan"},
    "fnuz": {"infinities": False, "nan": "negative_zero", "overflow": "nan"},
    "finite": {"infinities": False, "nan": "none", "overflow": "saturate"},
    "scale": {
        "signed": False,
        "zero": False,
        "subnormals": False,
        "infinities": False,
        "nan": "highest",
        "overflow": "nan",
    },
    "p3109": {"infinities": True, "nan": "negative_zero", "overflow": "infinity"},
}

_DEFAULTS: dict[str, Any] = {"signed": True, "zero": True, "subnormals": True}


def _integer(name: str, value: object, low: int, high: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer, not {type(value).__name__} {value!r}")
    if value < low or (high is not None and value > high):
        limits = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ValueError(f"{name} must be {limits}, not {value!r}")
    return int(value)


@dataclass(frozen=True, init=False)
class FloatFormat:
    """A floating-point format: sign, exponent field, mantissa field, and its special values.

    The value of a code with exponent field f and mantissa field t is ``(1 + t / 2**m) * 2**(f - bias)``, and
    ``(t / 2**m) * 2**(1 - bias)`` for f = 0 (zero and the subnormals), as in IEEE 754-2019, section 3.4.

    Two formats are equal if they have the same values, codes and default policies; the name does not count.

    Args:
        name: Name for people.
        exponent_bits: Width of the exponent field, 0 to 11. With 0 every value is subnormal (fixed point).
        mantissa_bits: Width of the mantissa field (without the implicit bit), 0 to 52.
        bias: Exponent bias.
        specials: Kind of special values, a row of `KINDS`: ``"ieee"`` (infinities and NaNs in the top binade),
            ``"fn"`` (no infinity, one NaN per sign, as OCP E4M3), ``"fnuz"`` (no infinity, one NaN in the place of -0),
            ``"finite"`` (neither, as OCP FP4 and FP6), ``"scale"`` (unsigned powers of two with one NaN and no zero, as
            OCP
            E8M0) or ``"p3109"`` (see `numfmt.p3109`). It fills in the facts below that are not given.
        signed: There is a sign bit.
        zero: Exponent field 0 encodes zero and the subnormals. Without it, field 0 is an ordinary binade.
        subnormals: There are subnormal values. Without them, nothing lies between zero and ``min_normal``, and codes
            that would be subnormal decode to zero.
        infinities: The highest code below the NaNs is infinity.
        nan: Where NaN's codes lie, a key of `NAN_CODES`.
        overflow: Default overflow policy, a name of `numfmt.rounding.OVERFLOWS`.

    Raises:
        ValueError: For facts that contradict each other or do not fit float64, which carries every value.
        TypeError: For widths that are no integers.
    """

    name: str = field(compare=False)
    exponent_bits: int
    mantissa_bits: int
    bias: int
    specials: str = field(compare=False)
    signed: bool
    zero: bool
    subnormals: bool
    infinities: bool
    nan: NanCodes
    overflow: str

    def __init__(
        self,
        name: str,
        exponent_bits: int,
        mantissa_bits: int,
        bias: int,
        specials: str = "ieee",
        *,
        signed: bool | None = None,
        zero: bool | None = None,
        subnormals: bool | None = None,
        infinities: bool | None = None,
        nan: NanCodes | None = None,
        overflow: str | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"name must be a string, not {type(name).__name__} {name!r}")
        if specials not in KINDS:
            raise ValueError(unknown_name("specials", specials, KINDS))
        given = {
            "signed": signed,
            "zero": zero,
            "subnormals": subnormals,
            "infinities": infinities,
            "nan": nan,
            "overflow": overflow,
        }
        facts = {**_DEFAULTS, **KINDS[specials], **{k: v for k, v in given.items() if v is not None}}
        if not facts["zero"] and subnormals is None:
            facts["subnormals"] = False
        if facts["nan"] not in NAN_CODES:
            raise ValueError(unknown_name("nan", facts["nan"], NAN_CODES))
        facts["overflow"] = _rounding.overflow_policy(facts["overflow"]).name
        facts |= {
            "name": name,
            "exponent_bits": _integer("exponent_bits", exponent_bits, 0, 11),
            "mantissa_bits": _integer("mantissa_bits", mantissa_bits, 0, 52),
            "bias": _integer("bias", bias, -(2**20), 2**20),
            "specials": specials,
        }
        for key, value in facts.items():
            object.__setattr__(self, key, value)
        self._check()

    def _check(self) -> None:
        """Refuse facts that contradict each other, each with the way out."""
        e, m = self.exponent_bits, self.mantissa_bits
        if e == 0 and (self.nan == "top_exponent" or not self.zero or not self.subnormals):
            raise ValueError(
                f"exponent_bits=0 leaves only subnormal values, so {self.name} cannot have IEEE special values, "
                "lack zero or lack subnormals; use specials='finite' or at least 1 exponent bit"
            )
        if self.subnormals and not self.zero:
            raise ValueError("subnormals=True needs zero=True: both have exponent field 0")
        if e == 0 and self.infinities:
            raise ValueError(
                f"exponent_bits=0 leaves no binade for an infinity in {self.name}; use specials='finite' or 'fn'"
            )
        if self.nan == "top_exponent" and not self.infinities:
            raise ValueError("nan='top_exponent' needs infinities=True (they share a binade); use nan='highest'")
        if self.nan == "top_exponent" and m == 0:
            raise ValueError(
                f"mantissa_bits=0 leaves no code for NaN beside infinity in {self.name}; "
                "use nan='highest' or specials='fn'"
            )
        if self.nan == "negative_zero" and not (self.signed and self.zero):
            raise ValueError("nan='negative_zero' needs a signed format with zero; use nan='highest'")
        if self.overflow == "nan" and self.nan == "none":
            raise ValueError(f"overflow='nan' needs a NaN, and {self.name} has none; use overflow='saturate'")
        if self.max_code < (1 if self.subnormals or not self.zero else 1 << m):
            raise ValueError(f"{self.name} has no positive finite value left; give it more exponent or mantissa bits")
        lowest = self.emin - m if self.subnormals else self.emin
        if lowest < -1074 or self._max_parts()[1] + self._max_parts()[0].bit_length() > 1024:
            raise ValueError(
                f"bias={self.bias} puts values of {self.name} outside float64, which carries them "
                f"(smallest allowed 2**-1074, largest below 2**1024); choose another bias or fewer exponent bits"
            )

    def __repr__(self) -> str:
        kind = KINDS[self.specials]
        extra = "".join(
            f", {fact}={getattr(self, fact)!r}"
            for fact in ("signed", "zero", "subnormals", "infinities", "nan", "overflow")
            if getattr(self, fact) != {**_DEFAULTS, **kind}[fact]
        )
        return (
            f"FloatFormat({self.name!r}, {self.exponent_bits}, {self.mantissa_bits}, {self.bias}, "
            f"{self.specials!r}{extra})"
        )

    def __str__(self) -> str:
        return self.name

    # Codes ------------------------------------------------------------------------------------------------------------

    @property
    def bits(self) -> int:
        """Width of a code in bits."""
        return int(self.signed) + self.exponent_bits + self.mantissa_bits

    @property
    def _magnitude_codes(self) -> int:
        """Number of codes of one sign."""
        return 1 << (self.exponent_bits + self.mantissa_bits)

    @property
    def max_code(self) -> int:
        """Code of the largest finite value."""
        nans = {"highest": 1, "top_exponent": (1 << self.mantissa_bits) - 1}.get(self.nan, 0)
        return self._magnitude_codes - 1 - nans - int(self.infinities)

    @property
    def infinity_code(self) -> int | None:
        """Code of +infinity, or None."""
        return self.max_code + 1 if self.infinities else None

    @property
    def nan_code(self) -> int | None:
        """Code that NaN is encoded as (IEEE: the positive quiet NaN without payload), or None."""
        if self.nan == "negative_zero":
            return self._magnitude_codes
        if self.nan == "highest":
            return self._magnitude_codes - 1
        if self.nan == "top_exponent":
            return self.max_code + 1 + (1 << (self.mantissa_bits - 1))
        return None

    @property
    def has_nan(self) -> bool:
        """There is a NaN."""
        return self.nan != "none"

    @property
    def negative_zero(self) -> bool:
        """There is a -0."""
        return self.signed and self.zero and self.nan != "negative_zero"

    # Limits -----------------------------------------------------------------------------------------------------------

    @property
    def precision(self) -> int:
        """Significant bits p of a normal value, the implicit one included."""
        return self.mantissa_bits + 1

    @property
    def eps(self) -> float:
        """Distance from 1 to the next larger value of the same precision, 2**-m (IEEE's machine epsilon)."""
        return 2.0**-self.mantissa_bits

    @property
    def unit_roundoff(self) -> float:
        """u = 2**-p, the largest relative error of rounding a normal number to nearest."""
        return 2.0 ** -(self.mantissa_bits + 1)

    @property
    def emin(self) -> int:
        """Exponent of the smallest normal value."""
        return (1 if self.zero else 0) - self.bias

    @property
    def emax(self) -> int:
        """Exponent of the largest finite value, floor(log2(max))."""
        significand, exponent = self._max_parts()
        return significand.bit_length() - 1 + exponent

    def _max_parts(self) -> tuple[int, int]:
        """Integer significand and exponent of the largest finite value."""
        f, t = divmod(self.max_code, 1 << self.mantissa_bits)
        if self.zero and f == 0:
            return t, self.emin - self.mantissa_bits
        return (1 << self.mantissa_bits) + t, f - self.bias - self.mantissa_bits

    @property
    def max(self) -> float:
        """Largest finite value."""
        significand, exponent = self._max_parts()
        return float(np.ldexp(float(significand), exponent))

    @property
    def min(self) -> float:
        """Lowest finite value: ``-max``, or the smallest non-negative one of an unsigned format."""
        return -self.max if self.signed else self.min_nonnegative

    @property
    def has_normals(self) -> bool:
        """There are normal values (not so without exponent bits, or if the special values take every binade)."""
        return not self.zero or self.max_code >= 1 << self.mantissa_bits

    @property
    def min_normal(self) -> float:
        """Smallest positive normal value, 2**emin.

        Raises:
            ValueError: If the format has no normal values (see `has_normals`).
        """
        if not self.has_normals:
            raise ValueError(f"{self.name} has no normal values")
        return float(np.ldexp(1.0, self.emin))

    @property
    def min_subnormal(self) -> float:
        """Smallest positive subnormal value, 2**(emin - m); without subnormals the smallest positive value."""
        return float(np.ldexp(1.0, self.emin - self.mantissa_bits)) if self.subnormals else self.min_normal

    @property
    def min_positive(self) -> float:
        """Smallest positive value."""
        if self.subnormals and self.mantissa_bits > 0:
            return self.min_subnormal
        return self.min_normal

    @property
    def min_nonnegative(self) -> float:
        """Smallest value that is not negative: 0, or the smallest positive value of a format without zero."""
        return 0.0 if self.zero else self.min_positive

    # Numbers ----------------------------------------------------------------------------------------------------------

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
        out: NDArray[Any] | None = None,
    ) -> Any:
        """Round numbers to this format, each with one rounding.

        Args:
            x: Numbers of any shape: float64, float32, float16, bfloat16 and the other ml_dtypes types, integers, or an
                object array of Python integers and fractions. Never modified. Or a torch tensor on any device: then the
                result is a tensor there with the same bits (float32 also for the narrower floating-point types).
            rounding: A name or alias of `numfmt.rounding.ROUNDINGS`.
            rng: For stochastic modes: a seed or generator. None draws fresh entropy. The random number of an element
                depends on one 64-bit draw from ``rng`` and on the element's index in C order only.
            overflow: A name or alias of `numfmt.rounding.OVERFLOWS`; None takes the format's own.
            nan: What NaN becomes in a format without NaN: ``"zero"`` or ``"largest"``. None refuses it.
            random_bits: Number of random bits of stochastic modes, 1 to 32.
            random: Instead of ``rng``, the random integers themselves, in ``[0, 2**random_bits)``, of x's shape.
            out: Array for the result, of the type and shape it would have; it may be x itself.

        Returns:
            The values, in the shape of x: float32 for float32 input if float32 holds every value of the format, else
            float64. A scalar for a scalar.

        Raises:
            ValueError: For unknown names, and for NaN where the format has none and ``nan`` is None.
            TypeError: For complex numbers, strings and other things that are no real numbers.
        """
        from numfmt import _apply

        return _apply.round_to(self, x, rounding, rng, overflow, nan, random_bits, random, out)

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
        """Round numbers to this format and return their codes.

        Args:
            x: Numbers, as in `round`, and likewise the other arguments.
            rounding: Rounding mode.
            rng: For stochastic modes.
            overflow: Overflow policy.
            nan: What NaN becomes in a format without NaN.
            random_bits: Random bits of stochastic modes.
            random: The random integers themselves.

        Returns:
            Codes in the smallest unsigned type that holds them (uint8 for up to 8 bits, ...), in the shape of x. NaN is
            `nan_code`, whatever its sign and payload.
        """
        from numfmt import codes

        return codes.encode(self, x, rounding, rng, overflow, nan, random_bits, random)

    def decode(self, codes: Any) -> Any:
        """Values of codes.

        Args:
            codes: Integers in ``[0, 2**bits)``, any shape.

        Returns:
            float64 values of the same shape.

        Raises:
            ValueError: For a code out of range.
            TypeError: For codes that are no integers.
        """
        from numfmt import codes as _codes

        return _codes.decode(self, codes)

    def values(self) -> NDArray[np.float64]:
        """Every value in code order: ``values()[c] == decode(c)``, NaNs and infinities included.

        Returns:
            float64, shape (2**bits,).

        Raises:
            ValueError: For formats of more than 24 bits.
        """
        from numfmt import codes

        return codes.values(self)

    def finite_values(self) -> NDArray[np.float64]:
        """Every different finite value in ascending order (-0 and +0 are one value).

        Returns:
            float64, one-dimensional.

        Raises:
            ValueError: For formats of more than 24 bits.
        """
        values = self.values()
        return np.unique(values[np.isfinite(values)])

    def table(self) -> str:
        """The format's whole value set as text.

        Returns:
            One line a code, under headings: code, bit fields, value and kind.

        Raises:
            ValueError: For formats of more than 12 bits.
        """
        from numfmt import tables

        return tables.value_table(self)

    def ulp(self, x: Any) -> Any:
        """Unit in the last place: the distance between values of this format in the binade of x.

        Args:
            x: Numbers as in `round`; they need not be values of the format. The sign does not matter.

        Returns:
            ``2**(max(floor(log2|x|), emin) - m)`` as float64; for |x| beyond the largest value that of the largest
            value, for infinities infinity, for NaN NaN (the conventions of ``math.ulp``).
        """
        from numfmt import neighbours

        return neighbours.ulp(self, x)

    def next_up(self, x: Any) -> Any:
        """The smallest value of this format that is larger than x.

        Args:
            x: Numbers as in `round`; they need not be values of the format.

        Returns:
            float64. Above the largest value: infinity, NaN, or the largest value again, as the format's default
            overflow policy says. +infinity and NaN stay. Below zero the result may be -0, as in IEEE 754-2019, section
            5.3.1.
        """
        from numfmt import neighbours

        return neighbours.next_up(self, x)

    def next_down(self, x: Any) -> Any:
        """The largest value of this format that is smaller than x; the mirror image of `next_up`.

        Args:
            x: Numbers as in `round`; they need not be values of the format.

        Returns:
            Values in the shape of x, as for `next_up`.
        """
        from numfmt import neighbours

        return neighbours.next_down(self, x)

    # Other libraries --------------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The NumPy or ml_dtypes type of this format, or None if there is none.

        Raises:
            ImportError: If it is an ml_dtypes type and ml_dtypes is not installed.
        """
        from numfmt import dtypes

        return dtypes.numpy_dtype(self)

    @property
    def torch_dtype(self) -> Any:
        """The torch type of this format, or None if there is none."""
        from numfmt import dtypes

        return dtypes.torch_dtype(self)

    @classmethod
    def from_dtype(cls, dtype: Any) -> FloatFormat:
        """The format of a NumPy, ml_dtypes or torch type, or of its name.

        Args:
            dtype: For example ``np.float16``, ``ml_dtypes.float8_e4m3fn``, ``torch.bfloat16`` or ``"float8_e5m2"``.

        Returns:
            The constant of this package.

        Raises:
            ValueError: For types that are no floating-point format known here.
        """
        from numfmt import dtypes

        return dtypes.from_dtype(dtype)


FP64 = FloatFormat("FP64", 11, 52, 1023)
FP32 = FloatFormat("FP32", 8, 23, 127)
TF32 = FloatFormat("TF32", 8, 10, 127)
FP16 = FloatFormat("FP16", 5, 10, 15)
BF16 = FloatFormat("BF16", 8, 7, 127)
FP8_E4M3 = FloatFormat("FP8_E4M3", 4, 3, 7, "fn")
FP8_E5M2 = FloatFormat("FP8_E5M2", 5, 2, 15)
FP8_E4M3FNUZ = FloatFormat("FP8_E4M3FNUZ", 4, 3, 8, "fnuz")
FP8_E5M2FNUZ = FloatFormat("FP8_E5M2FNUZ", 5, 2, 16, "fnuz")
FP8_E4M3B11FNUZ = FloatFormat("FP8_E4M3B11FNUZ", 4, 3, 11, "fnuz")
FP8_E4M3_IEEE = FloatFormat("FP8_E4M3_IEEE", 4, 3, 7)
FP8_E3M4 = FloatFormat("FP8_E3M4", 3, 4, 3)
FP6_E2M3 = FloatFormat("FP6_E2M3", 2, 3, 1, "finite")
FP6_E3M2 = FloatFormat("FP6_E3M2", 3, 2, 3, "finite")
FP4_E2M1 = FloatFormat("FP4_E2M1", 2, 1, 1, "finite")
E8M0 = FloatFormat("E8M0", 8, 0, 127, "scale")

#: Every constant format, by name.
FORMATS: dict[str, FloatFormat] = {
    fmt.name: fmt
    for fmt in (
        FP64,
        FP32,
        TF32,
        FP16,
        BF16,
        FP8_E4M3,
        FP8_E5M2,
        FP8_E4M3FNUZ,
        FP8_E5M2FNUZ,
        FP8_E4M3B11FNUZ,
        FP8_E4M3_IEEE,
        FP8_E3M4,
        FP6_E2M3,
        FP6_E3M2,
        FP4_E2M1,
        E8M0,
    )
}
