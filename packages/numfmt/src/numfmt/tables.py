"""Formats as text: the value set of one, the facts of many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from numfmt.formats import FORMATS, FloatFormat

#: Widest format whose values are printed.
TABLE_BITS = 12


class ValueSet(Protocol):
    """Anything with codes and values: a `FloatFormat`, an integer format, a table."""

    @property
    def name(self) -> str:
        """Name for people."""

    @property
    def bits(self) -> int:
        """Width of a code."""

    def values(self) -> NDArray[np.float64]:
        """Every value in code order."""


def code_bits(fmt: ValueSet, code: int) -> str:
    """The bits of a code, with spaces between sign, exponent and mantissa field where there are such fields."""
    digits = format(code, f"0{fmt.bits}b")
    if not isinstance(fmt, FloatFormat):
        return digits
    sign, e = int(fmt.signed), fmt.exponent_bits
    return " ".join(part for part in (digits[:sign], digits[sign : sign + e], digits[sign + e :]) if part)


def code_kind(fmt: ValueSet, value: float) -> str:
    """What kind of value it is: "normal", "subnormal", "zero", "infinity", "NaN"; "" for integers and tables."""
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "infinity"
    if not isinstance(fmt, FloatFormat):
        return ""
    if value == 0:
        return "zero"
    return "subnormal" if abs(value) < 2.0**fmt.emin else "normal"


def value_text(value: float) -> str:
    """A value in the shortest decimal form that reads back as the same float64, without a trailing ``.0``."""
    text = repr(float(value))
    return text.removesuffix(".0")


def value_table(fmt: ValueSet) -> str:
    """The whole value set of a format, one line a code.

    Args:
        fmt: A format of at most 12 bits.

    Returns:
        Lines of code (hexadecimal), bits, value (decimal), value (hexadecimal) and kind, under a line of headings.

    Raises:
        ValueError: For wider formats.
    """
    if fmt.bits > TABLE_BITS:
        raise ValueError(f"{fmt.name} has 2**{fmt.bits} values; tables are made for up to {TABLE_BITS} bits")
    digits = (fmt.bits + 3) // 4
    rows = [("code", "bits", "value", "hexadecimal", "kind")]
    for code, value in enumerate(fmt.values()):
        finite = bool(np.isfinite(value))
        rows.append(
            (
                f"0x{code:0{digits}X}",
                code_bits(fmt, code),
                value_text(value),
                float(value).hex() if finite else "",
                code_kind(fmt, float(value)),
            )
        )
    return align(rows, "<<><<")


def align(rows: Sequence[tuple[str, ...]], columns: str) -> str:
    """Rows as text with aligned columns; ``columns`` has one of ``<`` and ``>`` for each."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns))]
    return "\n".join(
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, columns, widths, strict=True)).rstrip()
        for row in rows
    )


def _power(value: float) -> str:
    """A limit for people: exact and short where it is a small number or a power of two, else rounded."""
    mantissa, exponent = np.frexp(value)
    if mantissa == 0.5 and not -3 <= int(exponent) - 1 <= 12:
        return f"2^{int(exponent) - 1}"
    text = value_text(value)
    return text if len(text) <= 9 else f"{value:.4g}"


def facts(fmt: FloatFormat) -> tuple[str, ...]:
    """The row of `formats_table` of one format."""
    specials = {
        "none": "no",
        "highest": "1 a sign" if fmt.signed else "1",
        "top_exponent": str(2 * ((1 << fmt.mantissa_bits) - 1)),
        "negative_zero": "1 (code of -0)",
    }[fmt.nan]
    if fmt.nan == "top_exponent" and fmt.mantissa_bits > 4:
        specials = f"2^{fmt.mantissa_bits + 1} - 2"
    return (
        fmt.name,
        str(fmt.bits),
        f"{'1' if fmt.signed else '0'} + {fmt.exponent_bits} + {fmt.mantissa_bits}",
        str(fmt.bias),
        _power(fmt.max),
        _power(fmt.min_normal) if fmt.has_normals else "none",
        _power(fmt.min_subnormal) if fmt.subnormals and fmt.mantissa_bits else "none",
        _power(fmt.unit_roundoff),
        "yes" if fmt.infinities else "no",
        specials,
        "yes" if fmt.negative_zero else "no",
        fmt.overflow,
    )


HEADINGS = (
    "format",
    "bits",
    "sign + exponent + mantissa",
    "bias",
    "largest",
    "smallest normal",
    "smallest subnormal",
    "unit roundoff",
    "infinities",
    "NaNs",
    "-0",
    "overflow",
)


def formats_table(formats: Iterable[FloatFormat] | None = None) -> str:
    """The facts of formats as a Markdown table.

    Args:
        formats: Which; None takes every constant.

    Returns:
        Markdown, made from the formats themselves, so that a page that calls this cannot be out of date.
    """
    chosen = list(FORMATS.values()) if formats is None else list(formats)
    lines = ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    lines += ["| `" + "` | ".join((facts(fmt)[0], " | ".join(facts(fmt)[1:]))) + " |" for fmt in chosen]
    return "\n".join(lines)
