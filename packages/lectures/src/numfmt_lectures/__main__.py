"""The command `lectures` (also `python -m numfmt_lectures`): list the lectures, run one."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from numfmt_lectures import LANGUAGES, LectureError, __version__
from numfmt_lectures.catalogue import load
from numfmt_lectures.columns import pad
from numfmt_lectures.lecture import LECTURES, find, perform
from numfmt_lectures.names import unknown
from numfmt_lectures.render import to_dict, to_text

__all__ = ["build_parser", "main"]

_COMMANDS = ("list", "run")


class _Parser(argparse.ArgumentParser):
    """argparse, whose errors are one sentence, with the nearest known option where an option is unknown."""

    # Of all commands: an unknown option is reported by the outermost parser.
    options: ClassVar[set[str]] = set()

    def add_argument(self, *names: Any, **facts: Any) -> argparse.Action:
        self.options.update(name for name in names if name.startswith("--"))
        return super().add_argument(*names, **facts)

    def error(self, message: str) -> NoReturn:
        _, unrecognised, given = message.partition("unrecognized arguments: ")
        if unrecognised and given.startswith("-"):
            message = str(unknown("option", given.split()[0].partition("=")[0], self.options))
        self.exit(2, f"{self.prog}: {message}\n")


def build_parser() -> argparse.ArgumentParser:
    """The parser of the command `lectures`; its help is the command's manual."""
    parser = _Parser(prog="lectures", description="Lectures on low-precision arithmetic that run in seconds.")
    parser.add_argument("--version", action="version", version=f"numfmt-lectures {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="{list,run}", parser_class=_Parser)
    listing = commands.add_parser("list", help="name every lecture, with its title")
    running = commands.add_parser("run", help="run a lecture and print it")
    running.add_argument("name", metavar="NAME", help="a lecture's name, as `lectures list` gives it")
    running.add_argument("--quick", action="store_true", help="small sizes that take a second")
    running.add_argument("--plots", metavar="DIR", type=Path, help="write the figures as PNG files into this folder")
    running.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="change one of the lecture's sizes or seeds and rerun; may be given several times",
    )
    for command in (listing, running):
        command.add_argument("--json", action="store_true", help="print data instead of text")
        command.add_argument("--lang", default="en", help=f"language: {', '.join(LANGUAGES)} (default: en)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: the words after the command's name; those of the process by default.

    Returns:
        0, or 2 for wrong use, which one sentence on standard error explains.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = build_parser()
    try:
        if words and not words[0].startswith("-") and words[0] not in _COMMANDS:
            raise unknown("command", words[0], _COMMANDS)
        options = parser.parse_args(words)
        if options.command is None:
            parser.print_help()
            return 0
        print(_list(options) if options.command == "list" else _run(options), end="")
    except LectureError as error:
        print(f"lectures: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of a pipe, such as `head`, has seen enough: nothing to report.
        sys.stderr.close()
    return 0


def _list(options: argparse.Namespace) -> str:
    titles = {name: load(name, options.lang).text("title") for name in LECTURES}
    if options.json:
        return json.dumps([{"name": n, "title": t} for n, t in titles.items()], ensure_ascii=False, indent=2) + "\n"
    widest = max(len(name) for name in titles)
    return "".join(f"{pad(name, widest)}  {title}\n" for name, title in titles.items())


def _run(options: argparse.Namespace) -> str:
    lecture = find(options.name)
    words = load(options.name, options.lang)
    overrides = {}
    for setting in options.set:
        name, equals, value = setting.partition("=")
        if not equals:
            raise LectureError(f"--set takes NAME=VALUE, not {setting!r}")
        overrides[name] = value
    report = perform(lecture, options.quick, overrides)
    written, notes = [], []
    if options.plots is not None:
        from numfmt_lectures.plots import legible, write

        written = write(report, words, options.plots)
        if written and not legible(words):
            notes.append(words.text("plot_font") + "\n")
    if options.json:
        data = {**to_dict(report, words), "plots": [str(path) for path in written]}
        return json.dumps(data, ensure_ascii=False, indent=2) + "\n"
    lines = "".join([*(words.text("plot_written", path=path) + "\n" for path in written), *notes])
    return to_text(report, words) + (f"\n{lines}" if lines else "")


if __name__ == "__main__":
    sys.exit(main())
