"""Block formats: elements that share a scale, as in OCP MX and NVFP4.

A block of consecutive numbers along an axis is stored as narrow elements and one scale; NVFP4 adds one FP32 scale for
the whole tensor. A value is element · scale (· tensor scale), which float64 holds exactly.

How a number becomes an element, in this order:

1. The largest magnitude of a block, amax, gives the scale by a named rule (`SCALE_RULES`); exponents are taken from the
   numbers' bits, never from a logarithm.
2. Each number is divided by the scale, exactly, and rounded once to the element format, with saturation (OCP
   Microscaling Formats (MX) Specification 1.0, section 6.3). The named alternatives of `QUOTIENTS` do as kernels do.

Blocks that need a decision:

- *zeros only*: the smallest scale (0 where the scale format has a zero); elements are zeros with their signs.
- *subnormal numbers*: like any others; a scale that would be below the scale format's smallest value is that value.
- *a nonzero block whose scale rounds to zero* (NVFP4): the smallest positive scale.
- *NaN or infinity*: with ``special="block"`` the scale is NaN, and so is every value of the block; with ``"element"``
  they take no part in amax and become NaN or infinity elements where the element format has them (else an error);
  with ``"error"`` they are refused.
- *a last block that is short*: scaled by the numbers it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from numfmt import errorfree
from numfmt._errors import not_a_format, unknown_name
from numfmt._inputs import as_carrier, as_integer, normal_axis
from numfmt._random import Seed
from numfmt._rounded import RandomWords
from numfmt.elements import MXINT8_ELEMENT, FixedFormat, TableFormat
from numfmt.formats import (
    E8M0,
    FP4_E2M1,
    FP6_E2M3,
    FP6_E3M2,
    FP8_E4M3,
    FP8_E5M2,
    FP32,
    FloatFormat,
)
from numfmt.rounding import RoundingMode, rounding_mode

__all__ = [
    "BLOCK_FORMATS",
    "MXFP4",
    "MXFP6_E2M3",
    "MXFP6_E3M2",
    "MXFP8_E4M3",
    "MXFP8_E5M2",
    "MXINT8",
    "NVFP4",
    "QUOTIENTS",
    "SCALE_RULES",
    "SPECIALS",
    "BlockArray",
    "BlockCodes",
    "BlockFormat",
    "block_floating_point",
]

Float64Array = NDArray[np.float64]
ElementFormat: TypeAlias = "FloatFormat | FixedFormat | TableFormat"

#: Rules that give a block's scale from its largest magnitude; emax and max are those of the element format.
SCALE_RULES: dict[str, str] = {
    "floor": "2^(floor(log2 amax) - emax), as OCP MX 1.0 defines it; elements beyond the largest value saturate",
    "ceil": "2^(ceil(log2 amax) - emax)",
    "rceil": "the smallest scale value with scale · max >= amax: nothing saturates",
    "even": "amax is first rounded to the element's precision (ties away from zero), then as floor",
    "nearest": "amax / max, rounded to nearest even in the scale format",
}

#: How a number is divided by its scale.
QUOTIENTS: dict[str, str] = {
    "exact": "the exact quotient, rounded once to the element format",
    "float32": "the quotient rounded to float32, then to the element format",
    "reciprocal_float32": "the number times the float32 reciprocal of the scale, in float32, then rounded",
}

#: What happens to blocks with NaN or infinities.
SPECIALS = ("block", "element", "error")

# Numbers that are worked on at once.
_PART = 1 << 15
_RANDOM_BITS = 32
_LARGEST_SAFE, _SMALLEST_SAFE = 2.0**800, 2.0**-800


def _precision(element: ElementFormat) -> int:
    """Bits below the leading bit of the element format's largest values, for the rule "even"."""
    if isinstance(element, FloatFormat):
        return element.mantissa_bits
    if isinstance(element, FixedFormat):
        return element.width - (2 if element.signed else 1)
    raise ValueError(f"rule='even' needs elements with a precision, and {element.name} is a table; use rule='nearest'")


def _exponent(x: Float64Array) -> NDArray[np.int64]:
    """floor(log2 x) of positive numbers, from their bits; 0 for zero."""
    return np.where(x > 0, np.frexp(x)[1] - 1, 0).astype(np.int64)


def _floor(amax: Float64Array, element: ElementFormat) -> NDArray[np.int64]:
    return _exponent(amax) - element.emax


def _ceil(amax: Float64Array, element: ElementFormat) -> NDArray[np.int64]:
    mantissa, exponent = np.frexp(amax)
    return np.asarray(np.where(mantissa == 0.5, exponent - 1, exponent) - element.emax, np.int64)


def _rceil(amax: Float64Array, element: ElementFormat) -> NDArray[np.int64]:
    low = _floor(amax, element)
    # Both sides are exact: max has few bits and the exponents are far from float64's ends.
    too_small = np.ldexp(element.max, low) < amax
    return low + too_small


def _even(amax: Float64Array, element: ElementFormat) -> NDArray[np.int64]:
    # Rounding half away to m bits after the leading one reaches the next power of two from 2 - 2^-(m+1) on.
    mantissa, exponent = np.frexp(amax)
    carries = mantissa >= 1.0 - 2.0 ** -(_precision(element) + 2)
    return np.asarray(np.where(amax > 0, exponent - 1 + carries, 0) - element.emax, np.int64)


_POWERS: dict[str, Callable[[Float64Array, ElementFormat], NDArray[np.int64]]] = {
    "floor": _floor,
    "ceil": _ceil,
    "rceil": _rceil,
    "even": _even,
}


class BlockCodes(NamedTuple):
    """An array in codes, in the order of the arguments of `BlockFormat.decode`.

    Attributes:
        elements: Codes of the elements, in the array's shape.
        scales: Codes of the scales, one per block along the axis.
        axis: The axis along which blocks lie.
        tensor_scale: The scale of the whole tensor, or None.
    """

    elements: NDArray[Any]
    scales: NDArray[Any]
    axis: int
    tensor_scale: float | None


@dataclass(frozen=True)
class BlockFormat:
    """A block format: element format, block length, scale format, and how scales are found.

    Args:
        name: Name for people.
        element: Format of the elements: a float format, integers or fixed point, or a value table.
        block: Numbers that share a scale.
        scale: Format of the scales: powers of two such as E8M0, or a float format such as FP8_E4M3.
        rule: Default rule of `SCALE_RULES`.
        tensor_scale: Format of the scale of the whole tensor, or None for none.

    Raises:
        ValueError: For an unknown rule, one that does not suit the scale format, or a block below 1.
        TypeError: For formats that are none.
    """

    name: str
    element: ElementFormat
    block: int
    scale: FloatFormat = E8M0
    rule: str = "floor"
    tensor_scale: FloatFormat | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.element, FloatFormat | FixedFormat | TableFormat):
            raise TypeError(f"element must be a FloatFormat, FixedFormat or TableFormat, got {self.element!r}")
        for argument in ("scale", "tensor_scale"):
            value = getattr(self, argument)
            if not isinstance(value, FloatFormat) and not (value is None and argument == "tensor_scale"):
                raise TypeError(not_a_format(argument, value, "E8M0", optional=argument == "tensor_scale"))
        as_integer(self.block, "block", 1)
        self._checked_rule(self.rule)

    @property
    def powers_of_two(self) -> bool:
        """Scales are powers of two."""
        return self.scale.mantissa_bits == 0 and not self.scale.zero

    @property
    def bits_per_value(self) -> float:
        """Bits of storage per number in full blocks, without the tensor scale."""
        return self.element.bits + self.scale.bits / self.block

    def __str__(self) -> str:
        return self.name

    def _checked_rule(self, rule: str) -> str:
        if rule not in SCALE_RULES:
            raise ValueError(unknown_name("rule", rule, SCALE_RULES))
        if rule in ("floor", "ceil", "even") and not self.powers_of_two:
            raise ValueError(
                f"rule={rule!r} gives powers of two, and scales of {self.name} are {self.scale.name}; "
                "use rule='nearest' or rule='rceil'"
            )
        if rule == "even":
            _precision(self.element)
        return rule

    def quantise(
        self,
        x: ArrayLike,
        axis: int = -1,
        *,
        rule: str | None = None,
        rounding: str | RoundingMode = "nearest_even",
        seed: Seed = None,
        quotient: str = "exact",
        special: str = "block",
        tensor_scale: float | None = None,
    ) -> BlockArray:
        """Store an array in blocks along an axis.

        Args:
            x: Real numbers of any dtype that float64 holds exactly; not modified.
            axis: The axis along which blocks lie; its last block may be short.
            rule: Rule of `SCALE_RULES`; None is the format's own.
            rounding: Rounding mode of the elements, as for `FloatFormat.round`.
            seed: For stochastic rounding.
            quotient: Division of `QUOTIENTS`.
            special: What becomes of blocks with NaN or infinities: ``"block"``, ``"element"`` or ``"error"``.
            tensor_scale: The tensor scale, for formats that have one; None takes the largest finite magnitude
                divided by (element max · scale max), rounded to nearest.

        Returns:
            The elements and scales.

        Raises:
            ValueError: For unknown names, a missing axis, specials where they are refused or cannot be stored, and
                tensor scales that are not positive and finite.
            TypeError: For complex, string or object arrays.
        """
        numbers = as_carrier(x, "x")
        axis = normal_axis(axis, numbers.ndim, "x")
        rule = self._checked_rule(self.rule if rule is None else rule)
        for argument, value, known in (("quotient", quotient, QUOTIENTS), ("special", special, SPECIALS)):
            if value not in known:
                raise ValueError(unknown_name(argument, value, known))
        blocks = _to_blocks(numbers, axis, self.block)
        rows = blocks.reshape(-1, self.block)
        amax, spoilt = _largest(rows)
        if special == "error" and spoilt.any():
            raise ValueError("x holds NaN or infinity; pass special='block' or special='element' to store it")
        tensor = self._tensor_scale(float(amax.max(initial=0.0)), tensor_scale)
        scales = self._scales(amax, rule, tensor)
        spoilt &= special == "block"
        words = RandomWords(seed, _RANDOM_BITS) if rounding_mode(rounding).stochastic else None
        elements = np.empty(rows.shape)
        for part in _parts(rows):
            x_part = np.where(spoilt[part, None], 0.0, rows[part]) if spoilt[part].any() else rows[part]
            quotients = _divide(x_part, scales[part, None], 1.0 if tensor is None else tensor, quotient)
            random = words.take(0, part.start * self.block, quotients.shape) if words else None
            elements[part] = self._elements(quotients, rounding, random)
        scales = np.where(spoilt, np.nan, scales).reshape(blocks.shape[:-1])
        elements = _from_blocks(elements.reshape(blocks.shape), axis, numbers.shape)
        return BlockArray(self, elements, np.moveaxis(scales, -1, axis), axis, tensor)

    def _tensor_scale(self, amax: float, given: float | None) -> float | None:
        if self.tensor_scale is None:
            if given is not None:
                raise ValueError(f"tensor_scale={given!r} given, and {self.name} has no tensor scale; leave it out")
            return None
        if given is not None:
            if isinstance(given, str | bytes | complex):
                raise TypeError(f"tensor_scale must be a number, got {given!r}")
            value = float(self.tensor_scale.round(float(given)))
            if not 0.0 < value < np.inf:
                raise ValueError(f"tensor_scale must be positive and finite in {self.tensor_scale.name}, got {given!r}")
            return value
        if amax == 0.0:
            return 1.0
        largest = np.array([self.element.max * self.scale.max])
        exact = errorfree.to_odd(*errorfree.divide(np.array([amax]), largest))
        return max(float(self.tensor_scale.round(exact)[0]), self.tensor_scale.min_positive)

    def _scales(self, amax: Float64Array, rule: str, tensor: float | None) -> Float64Array:
        """The scale of each block."""
        if self.powers_of_two and rule in _POWERS and tensor is None:
            exponent = _POWERS[rule](amax, self.element)
            lowest, highest = int(np.frexp(self.scale.min_positive)[1]) - 1, self.scale.emax
            exponent = np.where(amax > 0, np.clip(exponent, lowest, highest), lowest)
            return np.ldexp(1.0, exponent)
        mode = "up" if rule == "rceil" else "nearest_even"
        divisor = np.full(amax.shape, self.element.max * (1.0 if tensor is None else tensor))
        exact = errorfree.to_odd(*errorfree.divide(amax, divisor))
        scales: Float64Array = np.asarray(self.scale.round(exact, mode, overflow="saturate"), np.float64)
        smallest = self.scale.min_positive
        return np.asarray(np.where((scales < smallest) & (amax > 0), smallest, scales), np.float64)

    def _elements(
        self, quotients: Float64Array, rounding: str | RoundingMode, random: NDArray[np.uint32] | None
    ) -> Float64Array:
        """Elements of quotients: finite ones saturate; specials only where the element format has them."""
        options: dict[str, Any] = {} if random is None else {"random": random, "random_bits": _RANDOM_BITS}
        finite = np.isfinite(quotients)
        if finite.all():
            return np.asarray(self.element.round(quotients, rounding, overflow="saturate", **options), np.float64)
        element = self.element
        if not element.has_nan:
            raise ValueError(
                f"special='element' needs NaN or infinity in the elements, and {element.name} has none; "
                "use special='block'"
            )
        held = np.where(finite, quotients, 0.0)
        rounded = np.asarray(element.round(held, rounding, overflow="saturate", **options), np.float64)
        return np.where(finite, rounded, np.asarray(element.round(np.where(finite, 0.0, quotients)), np.float64))

    def round(self, x: ArrayLike, axis: int = -1, **options: Any) -> Float64Array:
        """The values that storing x in this format leaves: `quantise` and back.

        Args:
            x: Numbers.
            axis: The axis along which blocks lie.
            **options: Keyword arguments of `quantise`.

        Returns:
            float64 array of x's shape.
        """
        return self.quantise(x, axis, **options).dequantise()

    def encode(self, x: ArrayLike, axis: int = -1, **options: Any) -> BlockCodes:
        """The codes that store an array in this format: `quantise`, and the codes of what it gives.

        Args:
            x: Numbers.
            axis: The axis along which blocks lie.
            **options: Keyword arguments of `quantise`.

        Returns:
            Codes of the elements and of the scales, and what else `decode` takes: ``fmt.decode(*fmt.encode(x))`` is
            ``fmt.quantise(x)``.
        """
        stored = self.quantise(x, axis, **options)
        return BlockCodes(stored.element_codes(), stored.scale_codes(), stored.axis, stored.tensor_scale)

    def decode(
        self, elements: ArrayLike, scales: ArrayLike, axis: int = -1, tensor_scale: float | None = None
    ) -> BlockArray:
        """An array from the codes of its elements and scales.

        Args:
            elements: Codes of the elements, any shape.
            scales: Codes of the scales: the same shape with one scale per block along the axis.
            axis: The axis along which blocks lie.
            tensor_scale: The tensor scale, for formats that have one (1 if left out).

        Returns:
            The array.

        Raises:
            ValueError: For shapes that do not match and codes out of range.
            TypeError: For codes that are no integers.
        """
        codes, scale_codes = np.asarray(elements), np.asarray(scales)
        axis = normal_axis(axis, codes.ndim, "elements")
        expected = tuple(-(-n // self.block) if i == axis else n for i, n in enumerate(codes.shape))
        if scale_codes.shape != expected:
            raise ValueError(f"scales must have shape {expected} for elements {codes.shape}, got {scale_codes.shape}")
        tensor = self._tensor_scale(0.0, tensor_scale)
        return BlockArray(self, self.element.decode(codes), self.scale.decode(scale_codes), axis, tensor)


@dataclass(frozen=True)
class BlockArray:
    """An array stored in blocks.

    Attributes:
        fmt: The block format.
        elements: Element values, float64, in the array's shape.
        scales: Scale values, float64: the same shape with one number per block along the axis; NaN for a NaN block.
        axis: The axis along which blocks lie.
        tensor_scale: The scale of the whole tensor, or None.
    """

    fmt: BlockFormat
    elements: Float64Array
    scales: Float64Array
    axis: int
    tensor_scale: float | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape."""
        return self.elements.shape

    def dequantise(self) -> Float64Array:
        """The values: element · scale · tensor scale.

        Returns:
            float64 array of the array's shape, exact; NaN throughout a block with a NaN scale.
        """
        scales = np.repeat(self.scales, self.fmt.block, axis=self.axis)
        scales = np.take(scales, range(self.shape[self.axis]), axis=self.axis)
        values: Float64Array = self.elements * scales
        return values if self.tensor_scale is None else values * self.tensor_scale

    def element_codes(self) -> NDArray[Any]:
        """Codes of the elements.

        Returns:
            Array of the array's shape, in the smallest unsigned type that holds a code.
        """
        return np.asarray(self.fmt.element.encode(self.elements))

    def scale_codes(self) -> NDArray[Any]:
        """Codes of the scales.

        Returns:
            Array of the scales' shape, one code per block, in the smallest unsigned type that holds a code.
        """
        return np.asarray(self.fmt.scale.encode(self.scales))


def _to_blocks(x: Float64Array, axis: int, block: int) -> Float64Array:
    """(..., blocks, block) with the axis last; a short last block is filled with zeros."""
    moved = np.moveaxis(x, axis, -1)
    length = moved.shape[-1]
    count = -(-length // block)
    if count * block != length:
        padded = np.zeros((*moved.shape[:-1], count * block))
        padded[..., :length] = moved
        moved = padded
    return moved.reshape(*moved.shape[:-1], count, block)


def _parts(rows: Float64Array) -> Iterator[slice]:
    """Slices of rows that stay in the cache while they are worked on."""
    step = max(1, _PART // rows.shape[1])
    for start in range(0, rows.shape[0], step):
        yield slice(start, min(start + step, rows.shape[0]))


def _largest(rows: Float64Array) -> tuple[Float64Array, NDArray[np.bool_]]:
    """Largest finite magnitude of each row (0 for none), and which rows hold NaN or infinities."""
    amax, spoilt = np.zeros(len(rows)), np.zeros(len(rows), np.bool_)
    for part in _parts(rows):
        size = np.abs(rows[part])
        largest = size.max(axis=1)
        bad = ~np.isfinite(largest)
        if bad.any():
            largest[bad] = np.max(size[bad], axis=1, where=np.isfinite(size[bad]), initial=0.0)
        amax[part], spoilt[part] = largest, bad
    return amax, spoilt


def _from_blocks(blocks: Float64Array, axis: int, shape: tuple[int, ...]) -> Float64Array:
    """The inverse of `_to_blocks`."""
    flat = blocks.reshape(*blocks.shape[:-2], blocks.shape[-2] * blocks.shape[-1])
    return np.moveaxis(flat[..., : shape[axis]], -1, axis)


def _divide(x: Float64Array, scale: Float64Array, tensor: float, quotient: str) -> Float64Array:
    """x / (scale · tensor), rounded to odd if exact, or as a kernel computes it; 0 where the scale is 0."""
    divisor = scale * tensor  # at most 28 bits: exact
    zero = divisor == 0
    safe = np.where(zero, 1.0, divisor)
    with np.errstate(invalid="ignore", over="ignore", under="ignore", divide="ignore"):
        if quotient == "float32":
            result = (x.astype(np.float32) / safe.astype(np.float32)).astype(np.float64)
        elif quotient == "reciprocal_float32":
            result = (x.astype(np.float32) * (np.float32(1.0) / safe.astype(np.float32))).astype(np.float64)
        else:
            result = _exact_quotient(x, safe)
    return np.where(zero, np.copysign(0.0, x), result)


def _exact_quotient(x: Float64Array, divisor: Float64Array) -> Float64Array:
    """x / divisor rounded to odd."""
    size = np.abs(x)
    calm = all(
        not v.size or bool(v.max() < _LARGEST_SAFE and np.min(v, where=v > 0, initial=1.0) > _SMALLEST_SAFE)
        for v in (size, divisor)
    )
    if not calm:
        return errorfree.to_odd(*errorfree.divide(*np.broadcast_arrays(x, divisor)))
    quotient = np.asarray(x / divisor)
    if (np.frexp(divisor)[0] == 0.5).all():
        return quotient
    # The remainder of a correctly rounded quotient is exact (`errorfree.divide` does this for all exponents).
    product, error = errorfree.two_prod(quotient, divisor)
    return errorfree.to_odd(quotient, (x - product) - error)


def block_floating_point(bits: int, block: int, rule: str = "floor", scale: FloatFormat = E8M0) -> BlockFormat:
    """Plain block floating point: integers of some width that share a power-of-two scale.

    Args:
        bits: Width of an element, sign included; two's complement, with the binary point after the leading bit.
        block: Numbers that share a scale.
        rule: Rule of `SCALE_RULES`.
        scale: Format of the scales.

    Returns:
        The format, named for example BFP8x32.

    Raises:
        ValueError: For widths below 2, blocks below 1 and unknown rules.
    """
    width = as_integer(bits, "bits", 2)
    element = FixedFormat(f"INT{width}", width, width - 2)
    return BlockFormat(f"BFP{width}x{block}", element, block, scale, rule)


#: OCP MX 1.0, table 1: blocks of 32 with E8M0 scales.
MXFP8_E4M3 = BlockFormat("MXFP8_E4M3", FP8_E4M3, 32)
MXFP8_E5M2 = BlockFormat("MXFP8_E5M2", FP8_E5M2, 32)
MXFP6_E2M3 = BlockFormat("MXFP6_E2M3", FP6_E2M3, 32)
MXFP6_E3M2 = BlockFormat("MXFP6_E3M2", FP6_E3M2, 32)
MXFP4 = BlockFormat("MXFP4", FP4_E2M1, 32)
MXINT8 = BlockFormat("MXINT8", MXINT8_ELEMENT, 32)
#: NVIDIA's NVFP4: blocks of 16 with E4M3 scales and an FP32 scale for the tensor.
NVFP4 = BlockFormat("NVFP4", FP4_E2M1, 16, FP8_E4M3, "nearest", FP32)

#: Every constant block format, by name.
BLOCK_FORMATS: dict[str, BlockFormat] = {
    fmt.name: fmt for fmt in (MXFP8_E4M3, MXFP8_E5M2, MXFP6_E2M3, MXFP6_E3M2, MXFP4, MXINT8, NVFP4)
}
