"""Formats as text: the value set of one, the facts of many."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from numfmt._errors import not_a_format
from numfmt.formats import FORMATS, FloatFormat

__all__ = ["SPECIALS", "describe", "formats_table", "value_table", "value_text"]

#: Widest format whose values are printed.
TABLE_BITS = 12

#: Kinds of special values, for people.
SPECIALS: dict[str, str] = {
    "ieee": "infinities, and NaNs above them, in the highest exponent (IEEE 754)",
    "fn": "no infinity; NaN is the highest code of each sign (OCP E4M3)",
    "fnuz": "no infinity and no -0, whose code is the only NaN",
    "finite": "every code is a number",
    "scale": "powers of two: no sign, no zero; NaN is the highest code",
    "p3109": "one NaN, no -0, infinities in the extended domain (IEEE P3109)",
}


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
    """A value in the shortest decimal form that reads back as the same float64, without a trailing ``.0``.

    Args:
        value: The value.

    Returns:
        For example ``448``, ``0.001953125``, ``inf``, ``nan``.
    """
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
    digits = (fmt.bits + 3) // 4
    rows = [("code", "bits", "value", "hexadecimal", "kind")]
    for code, value in enumerate(checked_values(fmt)):
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


def checked_values(fmt: ValueSet) -> NDArray[np.float64]:
    """The values of a format that is narrow enough to print them.

    Args:
        fmt: A format of at most 12 bits.

    Returns:
        float64 array of 2**bits values in code order.

    Raises:
        ValueError: For wider formats.
    """
    if fmt.bits > TABLE_BITS:
        raise ValueError(
            f"{fmt.name} has 2**{fmt.bits} values; tables are made for up to {TABLE_BITS} bits, and in Python "
            "fmt.decode(codes) gives those of any codes"
        )
    return fmt.values()


def align(rows: Sequence[tuple[str, ...]], columns: str) -> str:
    """Rows as text with aligned columns; ``columns`` has one of ``<`` and ``>`` for each."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns))]
    return "\n".join(
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, columns, widths, strict=True)).rstrip()
        for row in rows
    )


def wrapped(rows: Sequence[tuple[str, str]], width: int) -> str:
    """Names and texts in two columns; long texts go on in their column.

    Args:
        rows: Pairs of a name and a text.
        width: Columns of the page.

    Returns:
        Lines of at most that width, unless a word is wider.
    """
    indent = max(len(name) for name, _ in rows) + 2
    lines: list[str] = []
    for name, text in rows:
        # Two spaces separate columns inside a text: they stay.
        fits = len(text) <= width - indent
        parts = [text] if fits else textwrap.wrap(text, max(20, width - indent), break_on_hyphens=False)
        lines += [f"{(name if i == 0 else ''):{indent}}{part}".rstrip() for i, part in enumerate(parts)]
    return "\n".join(lines)


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


# Columns of `narrow_table`: heading, alignment, and the order in which narrow terminals lose them (0: never).
_NARROW = (
    ("format", "<", 0),
    ("bits", ">", 0),
    ("fields", ">", 0),
    ("bias", ">", 3),
    ("largest", ">", 0),
    ("smallest", ">", 2),
    ("normal", ">", 4),
    ("roundoff", ">", 0),
    ("specials", "<", 0),
    ("overflow", "<", 1),
)


def narrow_table(formats: Iterable[FloatFormat], width: int) -> str:
    """The facts of formats for a terminal.

    Args:
        formats: Which.
        width: Columns of the terminal; where they do not suffice, less important facts are left out.

    Returns:
        Lines: sign, exponent and mantissa bits as ``1+8+23``, the largest and smallest positive and the smallest normal
        value, the unit roundoff, the kind of special values (`SPECIALS`), and the default overflow policy.
    """
    rows = [tuple(heading for heading, _, _ in _NARROW)]
    for fmt in formats:
        f = dict(zip(HEADINGS, facts(fmt), strict=True))
        fields = f["sign + exponent + mantissa"].replace(" ", "")
        smallest = _power(fmt.min_positive)
        limits = (f["largest"], smallest, f["smallest normal"], f["unit roundoff"])
        rows.append((fmt.name, f["bits"], fields, f["bias"], *limits, fmt.specials, fmt.overflow))
    columns = list(range(len(_NARROW)))
    for lost in range(1, len(_NARROW)):
        text = align([tuple(row[i] for i in columns) for row in rows], "".join(_NARROW[i][1] for i in columns))
        if max(map(len, text.splitlines())) <= width:
            break
        columns = [i for i in columns if _NARROW[i][2] != lost]
    return text


# What `describe` tells of a float format, besides its limits.
_FACTS = (
    *("signed", "exponent_bits", "mantissa_bits", "bias", "specials", "precision", "emin", "emax"),
    *("unit_roundoff", "eps", "infinity_code", "nan_code", "negative_zero", "zero", "subnormals", "overflow"),
)


def describe(fmt: Any) -> dict[str, Any]:
    """The facts of a format as plain values.

    Args:
        fmt: A float format, an integer format, a value table, or a block format.

    Returns:
        Names and values, ready for JSON: strings, numbers, booleans and None.
    """
    if hasattr(fmt, "element"):
        return {
            "name": fmt.name,
            "kind": "blocks",
            "block": fmt.block,
            "element": fmt.element.name,
            "scale": fmt.scale.name,
            "tensor_scale": fmt.tensor_scale and fmt.tensor_scale.name,
            "rule": fmt.rule,
            "bits_per_value": fmt.bits_per_value,
        }
    common = {"name": fmt.name, "bits": fmt.bits}
    limits = {"max": fmt.max, "min": fmt.min, "min_positive": fmt.min_positive}
    if not isinstance(fmt, FloatFormat):
        return {**common, "kind": "table" if hasattr(fmt, "entries") else "fixed point", **limits}
    normal = {"min_normal": fmt.min_normal if fmt.has_normals else None}
    return {**common, "kind": "float", **{name: getattr(fmt, name) for name in _FACTS}, **limits, **normal}


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


def formats_table(formats: Iterable[FloatFormat | str] | None = None) -> str:
    """The facts of formats as a Markdown table.

    Args:
        formats: Which, or their names; None takes every constant.

    Returns:
        Markdown, made from the formats themselves, so that a page that calls this cannot be out of date.

    Raises:
        ValueError: For an unknown name.
        TypeError: For something that is no floating-point format.
    """
    from numfmt.families import lookup

    chosen = []
    for given in FORMATS.values() if formats is None else formats:
        fmt = lookup(given) if isinstance(given, str) else given
        if not isinstance(fmt, FloatFormat):
            raise TypeError(not_a_format("formats", fmt))
        chosen.append(fmt)
    lines = ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    lines += ["| `" + "` | ".join((facts(fmt)[0], " | ".join(facts(fmt)[1:]))) + " |" for fmt in chosen]
    return "\n".join(lines)
