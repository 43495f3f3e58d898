"""`fpsan check a.py:k1 b.py:k2 --inputs spec.py`: are two kernels the same algebra?"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import Any

from fpsan_tools.checking import check as run_check
from fpsan_tools.checking import launch, load
from fpsan_tools.checking.sides import MissingParameter, is_kernel, unwrapped
from fpsan_tools.checking.verdict import EXIT_STATUS, INCONCLUSIVE, Verdict
from fpsan_tools.commands import expressions, sources
from fpsan_tools.exceptions import FpsanError, TritonUnavailable

_EPILOG = """\
A and B are file.py:name or package.module:name: functions that launch kernels, or kernels
themselves. The named files are executed, as an import would. A kernel needs a grid:
--grid 'cdiv(M, BLOCK_M), cdiv(N, BLOCK_N)', or in SPEC.

SPEC is a Python file with
  make_inputs(rng, M=64, N=32)   the arguments of both sides, as a dictionary or tuple;
                                 whole-number defaults are sizes that the diagnosis varies
  grid, constants                optional, for kernels: a tuple or function of the bound
                                 arguments, and a dictionary; or dictionaries of those by
                                 kernel name
  outputs                        optional: names of the arrays to compare
or spec.py:function, or an .npz file of named arrays (numbers are arrays without axes; nothing
is unpickled).

Exit status: 0 equal, 1 different, 2 wrong use, 3 inconclusive.
"""


def register(subparsers: Any) -> None:
    """Add the parser of this module."""
    command = subparsers.add_parser(
        "check",
        help="are two kernels the same algebra? No GPU needed",
        description="Run two kernels on equal inputs in FpSan payloads, compare, and explain a difference.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("a", metavar="A", help="first kernel or launcher, as file.py:name")
    command.add_argument("b", metavar="B", help="second one, likewise")
    command.add_argument("--inputs", required=True, metavar="SPEC", help="spec.py, spec.py:function or data.npz")
    command.add_argument(
        "--engine", default="auto", help="cpu, gpu or auto (default): the GPU for inputs that lie there"
    )
    command.add_argument("--algebra", metavar="VERSION", help="3.8, 3.9 or 3.9-homomorphic (default: Triton's)")
    command.add_argument(
        "--bounds", default="live", help="live (default), or all: masked-off lanes must be inside, too"
    )
    command.add_argument(
        "--seeds", type=expressions.numbers, default=(0, 1), metavar="N,N", help="seeds of the inputs (default 0,1)"
    )
    command.add_argument(
        "--size",
        type=expressions.size,
        action="append",
        default=[],
        metavar="NAME=N",
        help="another value for a size of make_inputs",
    )
    command.add_argument(
        "--output", action="append", metavar="NAME", help="an array to compare (default: what changes)"
    )
    for letter, told in (("", "both kernels"), ("-a", "A"), ("-b", "B")):
        command.add_argument(f"--grid{letter}", metavar="EXPR", help=f"grid of {told}")
        command.add_argument(
            f"--const{letter}",
            type=expressions.constant,
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help=f"constant or launch option of {told}",
        )
    command.add_argument(
        "--special-values", action="store_true", help="also compare where NaN and infinity appear with IEEE arithmetic"
    )
    command.add_argument("--no-diagnosis", action="store_true", help="do not explain a difference")
    command.add_argument("--budget", type=float, default=20.0, metavar="SECONDS", help="time for the diagnosis (20)")
    command.add_argument("--json", action="store_true", help="print the verdict as JSON")
    command.add_argument("--save", action="append", default=[], metavar="FILE", help="also write .html, .json or .txt")
    command.set_defaults(run=_check)


def _check(arguments: argparse.Namespace) -> int:
    try:
        with sources.import_paths():
            verdict = _verdict(arguments)
    except TritonUnavailable as error:
        print(f"fpsan check: INCONCLUSIVE: {error}", file=sys.stderr)
        return EXIT_STATUS[INCONCLUSIVE]
    print(verdict.to_json() if arguments.json else verdict.to_text())
    for path in arguments.save:
        print(f"written: {verdict.save(path)}", file=sys.stderr)
    return verdict.exit_status


def _verdict(arguments: argparse.Namespace) -> Verdict:
    make_inputs, spec = inputs(arguments.inputs)
    sides = [
        side(
            getattr(arguments, letter),
            spec,
            getattr(arguments, f"grid_{letter}") or arguments.grid,
            {**dict(arguments.const), **dict(getattr(arguments, f"const_{letter}"))},
        )
        for letter in "ab"
    ]
    try:
        verdict = run_check(
            sides[0],
            sides[1],
            make_inputs,
            outputs=arguments.output or getattr(spec, "outputs", None),
            engine=arguments.engine,
            version=arguments.algebra,
            bounds=arguments.bounds,
            special_values=arguments.special_values,
            seeds=arguments.seeds,
            sizes=dict(arguments.size),
            diagnose=not arguments.no_diagnosis,
            budget=arguments.budget,
        )
    except MissingParameter as error:
        remedy = f"give it as --const {error.parameter}=..., or in `constants` or make_inputs of the spec"
        raise MissingParameter(error.kernel, error.parameter, error.given, error.constants, remedy) from error
    except (FpsanError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise sources.user_error(error, "a launcher or make_inputs") from error
    return dataclasses.replace(verdict, a=arguments.a, b=arguments.b, replay=_replay(arguments))


def _replay(arguments: argparse.Namespace) -> str:
    words = [arguments.a, arguments.b, "--inputs", arguments.inputs, "--seeds", ",".join(map(str, arguments.seeds))]
    plain = (
        ("engine", "auto"),
        ("algebra", None),
        ("bounds", "live"),
        ("grid", None),
        ("grid_a", None),
        ("grid_b", None),
    )
    for name, default in plain:
        if getattr(arguments, name) != default:
            words += [f"--{name.replace('_', '-')}", str(getattr(arguments, name))]
    for name in ("const", "const_a", "const_b", "size"):
        words += [w for key, v in getattr(arguments, name) for w in (f"--{name.replace('_', '-')}", f"{key}={v}")]
    if arguments.special_values:
        words.append("--special-values")
    words += [w for name in arguments.output or () for w in ("--output", name)]
    return shlex.join(["fpsan", "check", *words])


def inputs(reference: str) -> tuple[Any, Any]:
    """The inputs that a spec describes, and the spec's module (None for a file of arrays).

    Args:
        reference: spec.py, spec.py:function, package.module:function or data.npz.

    Returns:
        What `check` takes as `make_inputs`, and the module.

    Raises:
        FpsanError: if it cannot be loaded.
    """
    if reference.endswith(".npz"):
        return load(reference), None
    place, _ = sources.split(reference)
    return sources.load(reference, "make_inputs"), sources.module(place)


def side(reference: str, spec: Any, grid: str | None, constants: Mapping[str, Any]) -> Callable[..., Any]:
    """A side of a check: a launcher as it is, a kernel with the grid and constants of the command line or the spec.

    Args:
        reference: file.py:name or package.module:name.
        spec: the spec's module, or None.
        grid: grid expression, None for the spec's.
        constants: constants that go before the spec's.

    Returns:
        The callable.

    Raises:
        FpsanError: for a kernel without a grid, a launcher with one, or what is neither.
    """
    value = sources.load(reference)
    if not is_kernel(value):
        if not callable(value):
            raise FpsanError(f"{reference} is neither a kernel nor a function, but {type(value).__name__}")
        if grid is not None or constants:
            raise FpsanError(f"{reference} is a function, which launches with its own grid and constants, no kernel")
        launcher: Callable[..., Any] = value
        return launcher
    name = str(getattr(unwrapped(value), "__name__", reference))
    chosen = expressions.grid(grid) if grid is not None else _of_kernel(getattr(spec, "grid", None), name)
    if chosen is None:
        raise FpsanError(f"kernel {reference} needs a grid: --grid 'cdiv(M, BLOCK_M), 1', or `grid` in the spec")
    given = _of_kernel(getattr(spec, "constants", None) or {}, name) or {}
    return launch(value, chosen, **{**given, **constants})


def _of_kernel(value: Any, name: str) -> Any:
    """A value for all kernels, or the one of a kernel from a dictionary by names."""
    if (
        isinstance(value, Mapping)
        and value
        and all(isinstance(v, Mapping | tuple) or callable(v) for v in value.values())
    ):
        return value.get(name)
    return value
