"""The command `fpsan` (also `python -m fpsan_tools`)."""

from __future__ import annotations

import argparse
import difflib
import importlib
import re
import sys
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

from fpsan_tools import __version__
from fpsan_tools.exceptions import FpsanError, UnknownName

COMMANDS = ("check", "run", "leaks", "payloads", "doctor")
"""Modules of `fpsan_tools.commands`, in the order of the help text."""

WRONG_USE = 2
INTERRUPTED = 130  # as shells report the signal

# Values such as -inf and -0x1.8p0, which argparse would take for options.
_NEGATIVE = re.compile(r"-(inf|infinity|nan|0x[0-9a-f.p+-]+)", re.IGNORECASE)


# What argparse says of a value that is none of the choices.
_CHOICE = re.compile(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence that names the nearest command or option."""

    options: ClassVar[set[str]] = set()  # of all commands: an unknown option is reported by the outermost parser

    def add_argument(self, *names: Any, **facts: Any) -> argparse.Action:
        self.options.update(name for name in names if name.startswith("--"))
        return super().add_argument(*names, **facts)

    def error(self, message: str) -> NoReturn:
        _, unrecognised, given = message.partition("unrecognized arguments: ")
        if match := _CHOICE.fullmatch(message):
            what, value, known = match.groups()
            names = re.findall(r"[^\s',]+", known)
            message = str(UnknownName.of("command" if what == "COMMAND" else what, value, names, names))
        elif unrecognised and given.startswith("--"):
            option = given.split()[0].partition("=")[0]
            near = difflib.get_close_matches(option, sorted(self.options), n=1)
            message = f"unknown option {option!r}" + (f"; did you mean {near[0]!r}?" if near else "")
        else:
            message += f"; see {self.prog} --help"
        self.exit(WRONG_USE, f"{self.prog}: {message}\n")


def parser() -> argparse.ArgumentParser:
    """The command's parser with all subcommands."""
    top = _Parser(
        prog="fpsan",
        description="Structural checks of Triton kernels by FpSan's payload algebra.",
    )
    top.add_argument("--version", action="version", version=f"fpsan-tools {__version__}")
    subparsers = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name in COMMANDS:
        importlib.import_module(f"fpsan_tools.commands.{name}").register(subparsers)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: the command line without the program's name, None for the process's.

    Returns:
        The exit status: what the subcommand says, 2 for wrong use.
    """
    given = sys.argv[1:] if arguments is None else arguments
    # A leading space makes argparse take it as a value; the subcommands strip their values.
    parsed = parser().parse_args([f" {word}" if _NEGATIVE.fullmatch(word) else word for word in given])
    try:
        return int(parsed.run(parsed))
    except FpsanError as error:
        print(f"fpsan: {error}", file=sys.stderr)
        return WRONG_USE
    except KeyboardInterrupt:
        print("fpsan: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe went away
        sys.stderr.close()
        return 1


if __name__ == "__main__":
    sys.exit(main())
