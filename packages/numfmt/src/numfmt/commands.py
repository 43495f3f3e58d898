"""What the subcommands of `numfmt-sim` print; the parser is in `numfmt.cli`."""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

from numfmt import tables
from numfmt._progress import track
from numfmt.blocks import BLOCK_FORMATS, SCALE_RULES, BlockFormat
from numfmt.elements import ELEMENTS
from numfmt.explanation import explain, number_text, parse_number
from numfmt.families import ALIASES, block_formats, lookup
from numfmt.formats import FORMATS, NAN_CODES, FloatFormat
from numfmt.rounding import OVERFLOWS, ROUNDINGS

#: What can be drawn, for people.
PICTURES: dict[str, str] = {
    "values": "where the values lie",
    "spacing": "how far apart neighbours are",
    "error": "what rounding does to a sweep of numbers",
    "stagnation": "where a running sum stops growing",
    "growth": "error of sums against the number of terms",
}

# Sums that are printed of many, unless all are asked for: so many first ones, and as many last ones.
_FEW = 10
# Terms that are summed between two steps of the progress bar.
_SLICE = 2**22
_WIDTH = 100


def _width() -> int:
    """Columns to use: the terminal's, or a page's where there is none."""
    return max(64, min(shutil.get_terminal_size((_WIDTH, 24)).columns, _WIDTH))


def _json(value: Any) -> None:
    print(json.dumps(_plain(value), indent=2, ensure_ascii=False))


def _plain(value: Any) -> Any:
    """A value for JSON, which has no NaN and no infinities: these are strings."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else str(float(value))
    return int(value) if isinstance(value, np.integer) else value


def list_formats(options: argparse.Namespace) -> None:
    """`numfmt-sim list`."""
    if options.markdown:
        print(tables.formats_table())
        return
    if options.json:
        _json([tables.describe(fmt) for fmt in (*FORMATS.values(), *ELEMENTS.values(), *BLOCK_FORMATS.values())])
        return
    width = _width()
    print(tables.narrow_table(FORMATS.values(), width))
    print("\nspecial values\n" + tables.wrapped(list(tables.SPECIALS.items()), width))
    others = [
        ("blocks", ", ".join(BLOCK_FORMATS)),
        ("integers, tables", ", ".join(ELEMENTS)),
        ("IEEE P3109", "BinaryKpP[s|u][e|f], such as Binary8p4se"),
        ("any widths", "eXmY[bBIAS][fn|fnuz|finite], such as e8m13"),
    ]
    print("\nfurther formats\n" + tables.wrapped(others, width))
    print("\nrounding modes\n" + tables.wrapped([(m.name, m.meaning) for m in ROUNDINGS.values()], width))
    print("\noverflow policies\n" + tables.wrapped([(p.name, p.meaning) for p in OVERFLOWS.values()], width))


def _value_format(name: str) -> Any:
    """The format of a name, with a word about names that look mistyped: e4m33 is a format of 38 bits."""
    fmt = lookup(name)
    folded = name.strip().casefold()
    if isinstance(fmt, FloatFormat) and fmt.name == folded.upper() and fmt.name not in FORMATS:
        shorter = {folded[:i] + folded[i + 1 :] for i in range(len(folded))}
        if near := sorted(shorter.intersection(ALIASES)):
            known = lookup(near[0])
            print(
                f"numfmt-sim: note: {name} is a custom format of {fmt.bits} bits; {near[0]} is {known.name}, "
                f"of {known.bits}",
                file=sys.stderr,
            )
    return fmt


def show(options: argparse.Namespace) -> None:
    """`numfmt-sim show`."""
    blocks = block_formats(options.format)
    if options.json:
        if blocks and options.values:
            raise ValueError(f"--values: {options.format} is a block format; show the values of its elements' format")
        facts = [tables.describe(fmt) for fmt in blocks or [_value_format(options.format)]]
        if options.values:
            facts[0]["values"] = tables.checked_values(_value_format(options.format))
        _json(facts if blocks else facts[0])
        return
    if blocks:
        for i, block in enumerate(blocks):
            print(("\n" if i else "") + tables.wrapped(_block_rows(block), _width()))
        for element in dict.fromkeys(block.element for block in blocks):
            if options.values:
                print(f"\nelements, {element.name}\n{tables.value_table(element)}")
            else:
                print(f"\nelements, {element.name}\n{tables.wrapped(_rows(element), _width())}")
        return
    fmt = _value_format(options.format)
    print(tables.wrapped(_rows(fmt), _width()))
    if options.values:
        print("\n" + tables.value_table(fmt))
    elif fmt.bits <= tables.TABLE_BITS:
        print(f"\n--values prints all {1 << fmt.bits} values")


def _block_rows(fmt: BlockFormat) -> list[tuple[str, str]]:
    tensor = fmt.tensor_scale
    return [
        ("name", fmt.name),
        ("kind", "block format: elements that share a scale"),
        ("block", f"{fmt.block} numbers"),
        ("elements", f"{fmt.element.name}, {fmt.element.bits} bits each"),
        ("scale", f"one {fmt.scale.name} a block{f', and one {tensor.name} for the whole array' if tensor else ''}"),
        ("scale rule", f"{fmt.rule}: {SCALE_RULES[fmt.rule]}"),
        ("storage", f"{fmt.bits_per_value:g} bits a number"),
    ]


def _code(fmt: tables.ValueSet, code: int) -> str:
    return f"0x{code:0{(fmt.bits + 3) // 4}X}  {tables.code_bits(fmt, code)}"


def _rows(fmt: Any) -> list[tuple[str, str]]:
    """The facts of a format, a line each."""
    rows: list[tuple[str, str]] = [("name", fmt.name), ("bits", str(fmt.bits))]
    limits = ["max", "min_positive", "min"]
    if isinstance(fmt, FloatFormat):
        rows += [
            ("fields", f"{int(fmt.signed)} sign, {fmt.exponent_bits} exponent, {fmt.mantissa_bits} mantissa"),
            ("bias", str(fmt.bias)),
            ("exponents", f"emin {fmt.emin}, emax {fmt.emax}"),
            ("precision", f"p = {fmt.precision}, unit roundoff {fmt.unit_roundoff:g}, eps {fmt.eps:g}"),
        ]
        limits = ["max", *(["min_normal"] if fmt.has_normals else []), "min_subnormal", "min"]
        if not (fmt.subnormals and fmt.mantissa_bits) and fmt.has_normals:
            limits.remove("min_subnormal")
    for limit in limits:
        value = getattr(fmt, limit)
        rows.append((limit, f"{tables.value_text(value)}  {_code(fmt, int(fmt.encode(value)))}"))
    if isinstance(fmt, FloatFormat):
        infinity, nan = fmt.infinity_code, fmt.nan_code
        rows += [
            ("infinity", "none" if infinity is None else _code(fmt, infinity)),
            ("NaN", "none" if nan is None else f"{_code(fmt, nan)}  ({NAN_CODES[fmt.nan]})"),
            ("zeros", "+0 and -0" if fmt.negative_zero else ("+0 only" if fmt.zero else "none")),
            ("subnormals", "yes" if fmt.subnormals and fmt.mantissa_bits else "no"),
            ("overflow", f"{fmt.overflow}: {OVERFLOWS[fmt.overflow].meaning}"),
        ]
    return rows


def round_numbers(options: argparse.Namespace) -> None:
    """`numfmt-sim round`."""
    numbers = [(text, parse_number(text)) for text in options.numbers]
    if blocks := block_formats(options.to):
        _round_blocks(options, blocks, [float(number) for _, number in numbers])
        return
    if options.rule:
        raise ValueError(f"--rule is for block formats such as mxfp4, and {options.to} is none")
    fmt = _value_format(options.to)
    if not fmt.has_nan and any(isinstance(number, float) and math.isnan(number) for _, number in numbers):
        raise ValueError(f"{fmt.name} has no NaN; in Python, round(x, nan='zero') or nan='largest' puts a value there")
    rng = None if options.seed is None else np.random.default_rng(options.seed)
    rows = [("x", "rounded", "code", "bits")]
    found = []
    for i, (text, number) in enumerate(numbers):
        explanation = explain(number, fmt, options.mode, options.overflow, rng)
        value, code, bits = explanation.result_row()
        rows.append((text, value, code, bits))
        found.append({"x": text, "rounded": explanation.result, "code": int(code, 16) if code else None})
        if options.explain:
            print(("\n\n" if i else "") + str(explanation) + "\n\n" + explanation.other_modes())
    if options.json:
        _json({"format": fmt.name, "mode": options.mode, "results": found})
    elif not options.explain:
        print(tables.align(rows, "<><<"))


def _round_blocks(options: argparse.Namespace, blocks: list[BlockFormat], numbers: list[float]) -> None:
    """Numbers as the consecutive elements of an array in blocks."""
    if len(blocks) > 1:
        raise ValueError(f"--to {options.to} may be {' or '.join(fmt.name for fmt in blocks)}; choose one")
    if options.overflow:
        raise ValueError("--overflow: elements of blocks always saturate, as the formats' definitions say")
    (fmt,) = blocks
    stored = fmt.quantise(numbers, rule=options.rule, rounding=options.mode, seed=options.seed)
    values = stored.dequantise()
    if options.json:
        _json(
            {
                "format": fmt.name,
                "x": numbers,
                "rounded": values,
                "elements": stored.elements,
                "element_codes": stored.element_codes(),
                "scales": stored.scales,
                "scale_codes": stored.scale_codes(),
                "tensor_scale": stored.tensor_scale,
            }
        )
        return
    if options.explain:
        rule = options.rule or fmt.rule
        print(tables.wrapped([*_block_rows(fmt)[:5], ("scale rule", f"{rule}: {SCALE_RULES[rule]}")], _width()))
        if stored.tensor_scale is not None:
            print(f"\ntensor scale {tables.value_text(stored.tensor_scale)}")
    codes = stored.element_codes()
    for i, scale in enumerate(stored.scales):
        part = slice(i * fmt.block, (i + 1) * fmt.block)
        if options.explain:
            finite = [abs(x) for x in numbers[part] if math.isfinite(x)]
            print(
                f"\nblock {i}: largest magnitude {tables.value_text(max(finite, default=0.0))}, "
                f"scale {tables.value_text(scale)}  {_code(fmt.scale, int(stored.scale_codes()[i]))}"
            )
        rows = [("x", "rounded", "=", "element", "x scale", "code", "bits")]
        found = zip(numbers[part], values[part], stored.elements[part], codes[part], strict=True)
        for x, value, element, code in found:
            texts = (number_text(x), *(tables.value_text(v) for v in (value, element, scale)))
            hexadecimal, bits = _code(fmt.element, int(code)).split("  ")
            rows.append((texts[0], texts[1], "", texts[2], texts[3], hexadecimal, bits))
        print(("" if options.explain or not i else "\n") + tables.align(rows, "<><>><<"))


def _numbers(file: str) -> Any:
    """The numbers of a file: .npy, or text."""
    if Path(file).suffix == ".npz":
        raise ValueError(f"{file} is an archive of arrays; save the one to sum with numpy.save")
    if file != "-" and Path(file).suffix == ".npy":
        try:
            return np.load(file, allow_pickle=False)
        except (ValueError, EOFError):
            raise ValueError(f"{file} is no array of numbers that numpy.save wrote") from None
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{file} is neither a .npy file nor a text of numbers") from None
    words = text.replace(",", " ").replace(";", " ").split()
    try:
        return np.array([float(word) for word in words])
    except ValueError as error:
        raise ValueError(f"{file} holds something that is no number: {error}") from None


def sum_file(options: argparse.Namespace) -> None:
    """`numfmt-sim sum`."""
    acc = _value_format(options.acc)
    if not isinstance(acc, FloatFormat):
        raise ValueError(f"--acc must be a floating-point format, not {acc.name}")
    values = np.asarray(_numbers(options.file))
    name = "standard input" if options.file == "-" else options.file
    if values.size == 0:
        raise ValueError(f"{name} holds no numbers")
    rows = values.reshape(1, -1) if values.ndim < 2 else values.reshape(-1, values.shape[-1])
    if options.terms:
        blocks = block_formats(options.terms)
        if len(blocks) > 1:
            raise ValueError(f"--terms {options.terms} may be {' or '.join(f.name for f in blocks)}; choose one")
        rows = np.asarray((blocks[0] if blocks else _value_format(options.terms)).round(rows))
    report = _reports(rows, acc, options)
    if options.json:
        _json(
            {
                "format": acc.name,
                "mode": options.mode,
                "method": options.method,
                "terms": rows.shape[1],
                "sums": report.computed,
                "exact": report.exact,
                "error": report.error,
                "summary": report.summary(),
            }
        )
    elif rows.shape[0] == 1:
        table = [
            ("sum", tables.value_text(report.computed[0])),
            ("exact sum", f"{tables.value_text(report.exact[0])} (rounded to float64)"),
            ("terms", str(rows.shape[1])),
            ("condition number", f"{report.kappa[0]:.6g}"),
            ("error", f"{report.error[0]:.6g}"),
            ("in ulps", f"{report.ulps[0]:.4g}"),
            ("in u·sum|p|", f"{report.units[0]:.4g}"),
        ]
        if report.bound is not None:
            table.append(("a-priori bound", f"{report.bound[0]:.4g}"))
        print(tables.align(table, "<<"))
    else:
        print(_sums_table(report, None if options.all else _FEW) + "\n\n" + str(report))


def _reports(rows: Any, acc: FloatFormat, options: argparse.Namespace) -> Any:
    """The report of all rows, made in slices, so that a person sees how far it is."""
    from dataclasses import fields, replace

    from numfmt._summation import METHODS
    from numfmt.reports import sum_report

    known = {name for method in METHODS.values() for name in method.parameters}
    parameters = {name: getattr(options, name) for name in known if getattr(options, name) is not None}
    step = max(1, _SLICE // max(rows.shape[1], 1))
    # Slices must not repeat each other's random numbers: they draw from one generator.
    seed = np.random.default_rng(options.seed) if rows.shape[0] > step else options.seed
    parts = [
        sum_report(rows[i : i + step], acc, options.mode, options.method, options.chunk, seed, **parameters)
        for i in track(range(0, rows.shape[0], step), label="sums")
    ]
    arrays = [f.name for f in fields(parts[0]) if isinstance(getattr(parts[0], f.name), np.ndarray)]
    joined: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in arrays}
    return replace(parts[0], **joined)


def _sums_table(report: Any, few: int | None) -> str:
    """One line a sum; only the first and last ones of many."""
    count = report.computed.size
    shown = range(count) if few is None or count <= 2 * few else [*range(few), *range(count - few, count)]
    rows = [("row", "sum", "exact sum", "error", "error / (u·sum|p|)")]
    for i in shown:
        sums = (tables.value_text(report.computed[i]), tables.value_text(report.exact[i]))
        rows.append((str(i), *sums, f"{report.error[i]:.4g}", f"{report.units[i]:.4g}"))
    lines = tables.align(rows, ">>>>>").splitlines()
    if len(shown) < count:
        lines.insert(few + 1, f"... {count - len(shown)} more; --all prints them ...")  # type: ignore[operator]
    return "\n".join(lines)


def plot(options: argparse.Namespace) -> None:
    """`numfmt-sim plot`."""
    from numfmt import plots, sumplots

    formats = [_value_format(name) for name in options.formats]
    if options.mode is not None and options.picture not in ("error", "stagnation"):
        raise ValueError(f"--mode is for the pictures error and stagnation, not for {options.picture}")
    wrong = [fmt for fmt in formats if not isinstance(fmt, FloatFormat)]
    if wrong and options.picture != "values":
        raise ValueError(f"plot {options.picture} takes floating-point formats, and {wrong[0].name} is none")
    arguments = {} if options.mode is None else {"rounding": options.mode}
    draw = sumplots.error_growth if options.picture == "growth" else plots.PLOTS[options.picture]
    print(plots.save(draw(formats, **arguments), options.output))
