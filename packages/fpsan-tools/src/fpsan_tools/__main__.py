"""The command `fpsan` (also `python -m fpsan_tools`)."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Sequence

from fpsan_tools import __version__
from fpsan_tools.exceptions import FpsanError

COMMANDS = ("check", "run", "leaks", "payloads", "doctor")
"""Modules of `fpsan_tools.commands`, in the order of the help text."""

WRONG_USE = 2
INTERRUPTED = 130  # as shells report the signal

# Values such as -inf and -0x1.8p0, which argparse would take for options.
_NEGATIVE = re.compile(r"-(inf|infinity|nan|0x[0-9a-f.p+-]+)", re.IGNORECASE)


def parser() -> argparse.ArgumentParser:
    """The command's parser with all subcommands."""
    top = argparse.ArgumentParser(
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
