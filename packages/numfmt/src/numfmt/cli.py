"""The command `numfmt-sim`: formats, roundings and sums from a shell. What it prints is made in `numfmt.commands`."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from numfmt import commands
from numfmt._summation import METHODS
from numfmt.rounding import OVERFLOWS, ROUNDINGS

_EXAMPLES = """examples:
  numfmt-sim list
  numfmt-sim show e4m3 --values
  numfmt-sim show nvfp4
  numfmt-sim round 0.1 --to e4m3 --explain
  numfmt-sim round 1/3 -0x1.8p-3 --to bf16 --mode toward_zero
  numfmt-sim round 0.3 1.5 -6.1 --to mxfp4 --explain
  numfmt-sim sum data.npy --acc bf16 --method pairwise
  numfmt-sim plot spacing e4m3 e5m2 bf16 -o spacing.svg
"""

# What may follow a minus sign in a number: then it is no option.
_NEGATIVE = re.compile(r"^-(\d|\.\d|0x|inf|nan)", re.IGNORECASE)
_CHOICE = re.compile(r"argument (\S+): invalid choice: '?(.*?)'? \(choose from (.*)\)", re.DOTALL)
_OPTION = re.compile(r"unrecognized arguments: (--?[\w-]+)")


class _Parser(argparse.ArgumentParser):
    """A parser whose errors name the nearest thing that it knows, and to which -1/3 is a number."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._negative_number_matcher = _NEGATIVE
        self.subcommands: list[argparse.ArgumentParser] = []

    def error(self, message: str) -> NoReturn:
        if match := _CHOICE.fullmatch(message):
            what, given, known = match.groups()
            names = [name.strip("' ") for name in known.split(",")]
            what = "command" if what == "COMMAND" else what
            message = f"unknown {what} {given!r}; {_nearest(given, names)}known: {', '.join(names)}"
        elif match := _OPTION.match(message):
            options = [o for parser in (self, *self.subcommands) for o in parser._option_string_actions]
            message = f"unknown option {match[1]}; {_nearest(match[1], options)}see {self.prog} COMMAND --help"
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(2)


def _nearest(given: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}? " if near else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: Command-line arguments; None takes those of the process.

    Returns:
        Exit status: 0, or 2 for wrong use (one sentence on standard error).
    """
    parser = build_parser()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given:
        parser.print_help(sys.stderr)
        return 2
    options = parser.parse_args(given)
    try:
        options.run(options)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print(f"\n{parser.prog}: stopped", file=sys.stderr)
        return 130
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"{parser.prog}: {place}{error.strerror or error}", file=sys.stderr)
        return 2
    except (ValueError, TypeError, ImportError, OverflowError, MemoryError) as error:
        more = "; numfmt-sim list shows them" if str(error).startswith("unknown format") else ""
        print(f"{parser.prog}: {error or type(error).__name__}{more}", file=sys.stderr)
        return 2
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The parser with all subcommands.

    Returns:
        A parser whose namespace has `run`, which takes the namespace.
    """
    parser = _Parser(
        prog="numfmt-sim",
        description="Number formats, rounding and summation, simulated exactly.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    from numfmt import __version__

    parser.add_argument("--version", action="version", version=f"numfmt-sim {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(name: str, text: str, run: object) -> argparse.ArgumentParser:
        command = subparsers.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        command.set_defaults(run=run)
        parser.subcommands.append(command)
        return command

    command = add("list", "all formats, rounding modes and overflow policies", commands.list_formats)
    form = command.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="the table of formats as Markdown")
    form.add_argument("--json", action="store_true", help="the facts of all formats as JSON")

    command = add("show", "limits and special values of a format, and its values", commands.show)
    command.add_argument("format", help="a name such as e4m3, bf16, float8_e5m2, Binary8p4se, e8m13, nf4, nvfp4")
    command.add_argument("--values", action="store_true", help="every value too (formats of up to 12 bits)")
    command.add_argument("--json", action="store_true", help="as JSON; NaN and infinities as strings")

    command = add("round", "round numbers to a format, or to blocks of a block format", commands.round_numbers)
    command.add_argument("numbers", nargs="+", metavar="NUMBER", help="0.1, -1/3, 0x1.8p-3, inf, nan; taken exactly")
    command.add_argument("--to", required=True, metavar="FORMAT", help="the format")
    _add_mode(command)
    command.add_argument("--overflow", metavar="POLICY", help=f"{', '.join(OVERFLOWS)}; the format's own if left out")
    command.add_argument("--rule", help="scale rule of a block format: floor, ceil, rceil, even, nearest")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--explain", action="store_true", help="show bits, neighbours, ties and every mode")
    form.add_argument("--json", action="store_true", help="as JSON; NaN and infinities as strings")

    command = add("sum", "sum a file of numbers with rounded additions", commands.sum_file)
    command.add_argument(
        "file", help="a .npy file or a text of numbers, - for standard input; of a matrix every row is a sum"
    )
    command.add_argument("--acc", required=True, metavar="FORMAT", help="format of every partial sum")
    command.add_argument("--terms", metavar="FORMAT", help="round the numbers to this format first")
    _add_mode(command)
    command.add_argument("--method", default="sequential", help=f"{', '.join(METHODS)} (default %(default)s)")
    parameters: dict[str, list[str]] = {}
    for method in METHODS.values():
        for name in method.parameters:
            parameters.setdefault(name, []).append(method.name)
    for name, owners in parameters.items():
        command.add_argument(
            f"--{name.replace('_', '-')}", type=int, metavar="N", help=f"{name} of the method {' and '.join(owners)}"
        )
    command.add_argument(
        "--chunk", type=int, metavar="N", help="add the partial sum to an FP32 accumulator every N terms"
    )
    command.add_argument("--all", action="store_true", help="print every sum, not only the first and last ones of many")
    command.add_argument("--json", action="store_true", help="as JSON; NaN and infinities as strings")

    command = add("plot", "draw a picture (needs matplotlib)", commands.plot)
    command.add_argument(
        "picture",
        choices=list(commands.PICTURES),
        metavar="PICTURE",
        help="; ".join(f"{name}: {meaning}" for name, meaning in commands.PICTURES.items()),
    )
    command.add_argument("formats", nargs="+", metavar="FORMAT", help="as for show")
    command.add_argument("--mode", help="rounding mode of error and stagnation (default nearest_even)")
    command.add_argument("-o", "--output", default="numfmt.png", help="file to write (default %(default)s)")
    return parser


def _add_mode(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--mode", default="nearest_even", help=f"rounding: {', '.join(ROUNDINGS)} (default %(default)s)"
    )
    command.add_argument("--seed", type=_seed, help="for stochastic modes")


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a seed is 0, 1, 2, ..., not {text!r}")
    return int(text)
