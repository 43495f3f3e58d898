"""The command ``numfmt-sim``: formats, roundings and sums from a shell."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from numfmt import tables
from numfmt._progress import track
from numfmt.elements import ELEMENTS
from numfmt.explanation import explain, parse_number
from numfmt.families import lookup
from numfmt.formats import FORMATS, NAN_CODES, FloatFormat
from numfmt.rounding import OVERFLOWS, ROUNDINGS

_EXAMPLES = """examples:
  numfmt-sim list
  numfmt-sim show e4m3 --values
  numfmt-sim round 0.1 --to e4m3 --explain
  numfmt-sim round 1/3 0x1.8p-3 --to bf16 --mode toward_zero
  numfmt-sim sum data.npy --acc bf16 --method pairwise
  numfmt-sim plot spacing e4m3 e5m2 bf16 -o spacing.svg
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: Command-line arguments; None takes those of the process.

    Returns:
        Exit status: 0, or 2 for wrong use (one sentence on standard error).
    """
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        sys.stderr.close()
        return 0
    except (ValueError, TypeError, ImportError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The parser with all subcommands."""
    parser = argparse.ArgumentParser(
        prog="numfmt-sim",
        description="Number formats, rounding and summation, simulated exactly.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    from numfmt import __version__

    parser.add_argument("--version", action="version", version=f"numfmt-sim {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    command = commands.add_parser("list", help="all formats, rounding modes and overflow policies")
    command.add_argument("--markdown", action="store_true", help="the table of formats as Markdown")
    command.set_defaults(run=_list)

    command = commands.add_parser("show", help="limits and special values of a format, and its values")
    command.add_argument("format", help="a name such as e4m3, bf16, float8_e5m2, Binary8p4se, e8m13, nf4")
    command.add_argument("--values", action="store_true", help="print every value (formats of up to 12 bits)")
    command.set_defaults(run=_show)

    command = commands.add_parser("round", help="round numbers to a format")
    command.add_argument("numbers", nargs="+", metavar="NUMBER", help="0.1, 1/3, 0x1.8p-3, inf, nan; taken exactly")
    command.add_argument("--to", required=True, metavar="FORMAT", help="the format")
    command.add_argument("--mode", default="nearest_even", help=f"one of {', '.join(ROUNDINGS)}")
    command.add_argument("--overflow", help=f"one of {', '.join(OVERFLOWS)}; the format's own if left out")
    command.add_argument("--seed", type=int, help="for stochastic modes")
    command.add_argument("--explain", action="store_true", help="show bits, neighbours, ties and every mode")
    command.set_defaults(run=_round)

    command = commands.add_parser("sum", help="sum a file of numbers with rounded additions")
    command.add_argument("file", help="a .npy file or a text of numbers; - reads standard input")
    command.add_argument("--acc", required=True, metavar="FORMAT", help="format of every partial sum")
    command.add_argument("--terms", metavar="FORMAT", help="round the numbers to this format first")
    command.add_argument("--mode", default="nearest_even", help=f"one of {', '.join(ROUNDINGS)}")
    command.add_argument("--method", default="sequential", help="sequential, pairwise, kahan, neumaier, ...")
    command.add_argument("--chunk", type=int, help="add the partial sum to an FP32 accumulator every so many terms")
    command.add_argument("--seed", type=int, help="for stochastic modes")
    command.set_defaults(run=_sum)

    command = commands.add_parser("plot", help="draw a picture (needs matplotlib)")
    command.add_argument("picture", choices=["values", "spacing", "error", "stagnation"])
    command.add_argument("formats", nargs="+", metavar="FORMAT")
    command.add_argument("--mode", default="nearest_even", help="rounding mode of error and stagnation")
    command.add_argument("-o", "--output", default="numfmt.png", help="file to write (default %(default)s)")
    command.set_defaults(run=_plot)
    return parser


def _list(options: argparse.Namespace) -> None:
    if options.markdown:
        print(tables.formats_table())
        return
    print(tables.align([tables.HEADINGS, *(tables.facts(f) for f in FORMATS.values())], "<>>>>>>><<<<"))
    print("\ninteger formats and value tables: " + ", ".join(ELEMENTS))
    print("families: BinaryKpP[su][ef] (IEEE P3109), eXmY[bBIAS][fn|fnuz|finite] (any widths)")
    print("\nrounding modes")
    print(tables.align([(m.name, m.meaning) for m in ROUNDINGS.values()], "<<"))
    print("\noverflow policies")
    print(tables.align([(p.name, p.meaning) for p in OVERFLOWS.values()], "<<"))


def _code(fmt: tables.ValueSet, code: int) -> str:
    return f"0x{code:0{(fmt.bits + 3) // 4}X}  {tables.code_bits(fmt, code)}"


def _show(options: argparse.Namespace) -> None:
    fmt = lookup(options.format)
    rows: list[tuple[str, str]] = [("name", fmt.name), ("bits", str(fmt.bits))]
    if isinstance(fmt, FloatFormat):
        rows += [
            ("fields", f"{int(fmt.signed)} sign, {fmt.exponent_bits} exponent, {fmt.mantissa_bits} mantissa"),
            ("bias", str(fmt.bias)),
            ("exponents", f"emin {fmt.emin}, emax {fmt.emax}"),
            ("precision", f"p = {fmt.precision}, unit roundoff {fmt.unit_roundoff:g}, eps {fmt.eps:g}"),
        ]
    limits = ["max", "min_positive", "min"]
    if isinstance(fmt, FloatFormat):
        limits[1:2] = ["min_normal", "min_subnormal"]
    if isinstance(fmt, FloatFormat) and not fmt.has_normals:
        limits.remove("min_normal")
    for limit in limits:
        value = getattr(fmt, limit)
        rows.append((limit, f"{tables.value_text(value)}  {_code(fmt, int(fmt.encode(value)))}"))
    if isinstance(fmt, FloatFormat):
        infinity, nan = fmt.infinity_code, fmt.nan_code
        rows += [
            ("infinity", "none" if infinity is None else _code(fmt, infinity)),
            ("NaN", "none" if nan is None else f"{_code(fmt, nan)}  ({NAN_CODES[fmt.nan]})"),
        ]
        rows += [
            ("zeros", "+0 and -0" if fmt.negative_zero else ("+0 only" if fmt.zero else "none")),
            ("subnormals", "yes" if fmt.subnormals and fmt.mantissa_bits else "no"),
            ("overflow", f"{fmt.overflow}: {OVERFLOWS[fmt.overflow].meaning}"),
        ]
    print(tables.align(rows, "<<"))
    if options.values:
        print("\n" + tables.value_table(fmt))
    elif fmt.bits <= tables.TABLE_BITS:
        print(f"\n--values prints all {1 << fmt.bits} values")


def _round(options: argparse.Namespace) -> None:
    fmt = lookup(options.to)
    rng = None if options.seed is None else np.random.default_rng(options.seed)
    rows = [("x", "rounded", "code", "bits")]
    for i, text in enumerate(options.numbers):
        explanation = explain(parse_number(text), fmt, options.mode, options.overflow, rng)
        if options.explain:
            print(("\n\n" if i else "") + str(explanation) + "\n\n" + explanation.other_modes())
        else:
            rows.append((text, *explanation.result_row()))
    if not options.explain:
        print(tables.align(rows, "<><<"))


def _numbers(file: str) -> Any:
    """The numbers of a file: .npy, or text."""
    if file == "-":
        text = sys.stdin.read()
    elif Path(file).suffix == ".npy":
        return np.load(file, allow_pickle=False)
    else:
        text = Path(file).read_text(encoding="utf-8")
    words = text.replace(",", " ").replace(";", " ").split()
    try:
        return np.array([float(word) for word in words])
    except ValueError as error:
        raise ValueError(f"{file} holds something that is no number: {error}") from None


def _sum(options: argparse.Namespace) -> None:
    from numfmt.reports import sum_report

    acc = lookup(options.acc)
    if not isinstance(acc, FloatFormat):
        raise ValueError(f"--acc must be a floating-point format, not {acc.name}")
    values = np.asarray(_numbers(options.file))
    if values.size == 0:
        raise ValueError(f"{options.file} holds no numbers")
    rows = values.reshape(1, -1) if values.ndim < 2 else values.reshape(-1, values.shape[-1])
    if options.terms:
        rows = np.asarray(lookup(options.terms).round(rows))
    if rows.shape[0] == 1:
        report = sum_report(rows, acc, options.mode, options.method, options.chunk, options.seed)
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
        return
    # Many sums: in slices, so that a person sees how far it is.
    step = max(1, 2**22 // max(rows.shape[1], 1))
    slices = [slice(i, i + step) for i in range(0, rows.shape[0], step)]
    for part in track(slices, label="sums"):
        report = sum_report(rows[part], acc, options.mode, options.method, options.chunk, options.seed)
        for computed, exact in zip(report.computed, report.exact, strict=True):
            print(tables.value_text(computed), tables.value_text(exact))
    print(str(report), file=sys.stderr)


def _plot(options: argparse.Namespace) -> None:
    from numfmt import plots

    formats = [lookup(name) for name in options.formats]
    arguments = {"rounding": options.mode} if options.picture in ("error", "stagnation") else {}
    if options.picture != "values" and not all(isinstance(f, FloatFormat) for f in formats):
        raise ValueError(f"plot {options.picture} takes floating-point formats only")
    path = plots.save(plots.PLOTS[options.picture](formats, **arguments), options.output)
    print(path)
