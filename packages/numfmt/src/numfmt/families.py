"""Families of formats, and formats by name."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING

from numfmt import dtypes
from numfmt._errors import unknown_name
from numfmt._inputs import as_integer
from numfmt.elements import ELEMENTS, FixedFormat, TableFormat
from numfmt.formats import FORMATS, FloatFormat

if TYPE_CHECKING:  # blocks are imported when they are asked for
    from numfmt.blocks import BlockFormat

__all__ = ["ALIASES", "block_formats", "lookup", "p3109"]


def p3109(width: int, precision: int, *, signed: bool = True, extended: bool = True) -> FloatFormat:
    """A format of IEEE P3109, the draft standard for small floating-point formats.

    The family has one NaN, one zero, and subnormals. NaN is the code that would be -0 in a signed format, and the
    highest code in an unsigned one; the extended domain spends the next lower code (of each sign) on infinity. The bias
    is 2**(K - P - 1) for signed and 2**(K - P) for unsigned formats, so that 1 lies in the middle of the codes. (IEEE
    SA P3109 working group, Interim Report on Binary Floating-point Formats for Machine Learning.)

    Args:
        width: Bits K of a code.
        precision: Significant bits P, the implicit one included: 1 <= P < K for signed formats, 1 <= P <= K otherwise.
        signed: There is a sign bit.
        extended: The domain has infinities.

    Returns:
        The format, named as in the draft: ``Binary8p4se`` has width 8, precision 4, is signed and extended.

    Raises:
        ValueError: For a precision out of range, or exponents that float64 does not have.
        TypeError: For widths that are no integers.
    """
    width, precision = as_integer(width, "width", 1), as_integer(precision, "precision")
    highest = width - 1 if signed else width
    if not 1 <= precision <= highest:
        raise ValueError(
            f"precision must be between 1 and {highest} for {'a signed' if signed else 'an unsigned'} format of "
            f"{width} bits, not {precision}"
        )
    name = f"Binary{width}p{precision}{'s' if signed else 'u'}{'e' if extended else 'f'}"
    exponent_bits = width - precision + (0 if signed else 1)
    if exponent_bits > 11:
        raise ValueError(
            f"{name} has {exponent_bits} exponent bits, more than float64 carries; choose a precision >= "
            f"{width - 11 + (0 if signed else 1)}"
        )
    return FloatFormat(
        name,
        exponent_bits,
        precision - 1,
        2 ** (width - precision - 1) if signed else 2 ** (width - precision),
        "p3109",
        signed=signed,
        infinities=extended,
        nan="negative_zero" if signed else "highest",
    )


#: Other spellings of the constant formats.
ALIASES: dict[str, str] = {
    "e4m3": "FP8_E4M3",
    "e4m3fn": "FP8_E4M3",
    "e5m2": "FP8_E5M2",
    "e4m3fnuz": "FP8_E4M3FNUZ",
    "e5m2fnuz": "FP8_E5M2FNUZ",
    "e4m3b11fnuz": "FP8_E4M3B11FNUZ",
    "e3m4": "FP8_E3M4",
    "e2m3": "FP6_E2M3",
    "e3m2": "FP6_E3M2",
    "e2m1": "FP4_E2M1",
    "fp4": "FP4_E2M1",
    "ue8m0": "E8M0",
    "double": "FP64",
    "single": "FP32",
    "half": "FP16",
    "binary64": "FP64",
    "binary32": "FP32",
    "binary16": "FP16",
    "bf16": "BF16",
}

_P3109 = re.compile(r"(?:p3109_)?(?:binary|k)(\d+)p(\d+)([su])([ef])", re.IGNORECASE)
_CUSTOM = re.compile(r"e(\d+)m(\d+)(?:b(-?\d+))?(fn|fnuz|finite|ieee)?", re.IGNORECASE)


def lookup(name: str) -> FloatFormat | FixedFormat | TableFormat:
    """The format of a name.

    Args:
        name: In any case: a constant (``"FP8_E4M3"``, ``"bf16"``, ``"nf4"``), its short form (``"e4m3"``), the name of
            a NumPy, ml_dtypes or torch type (``"float8_e5m2"``), a P3109 format (``"Binary8p4se"``), or widths of a
            custom one (``"e8m13"``, ``"e5m3fnuz"``, ``"e4m3b10fn"`` with bias 10; IEEE special values and bias 2**(e-1)
            - 1 by default).

    Returns:
        The format.

    Raises:
        ValueError: For an unknown name (the nearest known one is named), and for the name of a block format.
        TypeError: If ``name`` is no string.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string such as 'bf16', got {name!r}")
    folded = name.strip().casefold().replace("-", "_")
    known = {known.casefold(): fmt for known, fmt in (FORMATS | ELEMENTS).items()}
    known |= {alias: FORMATS[target] for alias, target in ALIASES.items()}
    if folded in known:
        return known[folded]
    if folded in dtypes.TYPES:
        return dtypes.TYPES[folded]
    if match := _P3109.fullmatch(folded):
        width, precision, sign, domain = match.groups()
        return p3109(int(width), int(precision), signed=sign == "s", extended=domain == "e")
    if match := _CUSTOM.fullmatch(folded):
        e, m, bias, kind = match.groups()
        default = 2 ** (int(e) - 1) - 1 if int(e) else 0
        return FloatFormat(folded.upper(), int(e), int(m), default if bias is None else int(bias), kind or "ieee")
    if blocks := block_formats(name):
        names = " and ".join(f"numfmt.{fmt.name}" for fmt in blocks)
        elements = " or ".join(fmt.element.name for fmt in blocks)
        raise ValueError(
            f"{name!r} is a block format, whose elements share scales: {names} {'is' if len(blocks) == 1 else 'are'} "
            f"there for arrays; the format of an element is {elements}"
        )
    known_names = [
        *FORMATS,
        *ELEMENTS,
        *ALIASES,
        *dtypes.TYPES,
        *importlib.import_module("numfmt.blocks").BLOCK_FORMATS,
    ]
    raise ValueError(unknown_name("format", name, known_names))


def block_formats(name: str) -> list[BlockFormat]:
    """The constant block formats of a name.

    Args:
        name: In any case: a constant (``"MXFP4"``), or the beginning that several share (``"mxfp8"``).

    Returns:
        One or more block formats; none for any other name.
    """
    table: dict[str, BlockFormat] = importlib.import_module("numfmt.blocks").BLOCK_FORMATS
    folded = name.strip().casefold().replace("-", "_")
    return [fmt for known, fmt in table.items() if folded in (known.casefold(), known.casefold().partition("_")[0])]
