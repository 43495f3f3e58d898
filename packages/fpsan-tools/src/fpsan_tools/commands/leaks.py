"""`fpsan leaks kernel`: which operations of a kernel FpSan does not instrument, with file and line."""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import asdict
from typing import Any

import numpy as np

from fpsan_tools import algebra
from fpsan_tools.arrays import TRITON_NAMES, typed
from fpsan_tools.checking.inputs import Source
from fpsan_tools.checking.rendering import table
from fpsan_tools.checking.sides import Engine, is_kernel, unwrapped
from fpsan_tools.checking.verdict import EXIT_STATUS, INCONCLUSIVE
from fpsan_tools.commands import check, expressions, sources
from fpsan_tools.cpu import on_cpu
from fpsan_tools.exceptions import FpsanError, TritonUnavailable, UnknownName
from fpsan_tools.ttir import compile as compiler
from fpsan_tools.ttir.coverage import Unsanitised


def register(subparsers: Any) -> None:
    """Add the parser of this module."""
    command = subparsers.add_parser(
        "leaks",
        help="operations of a kernel that FpSan leaves as they are",
        description="List the operations of a kernel that payloads do not cover, with file and line.",
        epilog="Give the types of the kernel's parameters, or a spec as for `fpsan check`. Exit status: 0 if every "
        "operation is covered, 1 if not, 2 wrong use, 3 inconclusive.",
    )
    command.add_argument(
        "kernel", metavar="KERNEL", help="file.py:name or package.module:name; with --inputs also a launcher"
    )
    command.add_argument("--types", default="", metavar="NAME=TYPE,...", help="as in x=*fp32,y=*bf16,n=i32,eps=fp32")
    command.add_argument(
        "--const", type=expressions.constant, action="append", default=[], metavar="NAME=VALUE", help="a constant"
    )
    command.add_argument("--inputs", metavar="SPEC", help="spec.py or data.npz instead of --types, see `fpsan check`")
    command.add_argument("--grid", metavar="EXPR", help="with --inputs: the kernel's grid")
    command.add_argument("--algebra", metavar="VERSION", help="3.8, 3.9 or 3.9-homomorphic (default: Triton's)")
    command.add_argument("--json", action="store_true", help="print the list as JSON")
    command.set_defaults(run=_leaks)


def _leaks(arguments: argparse.Namespace) -> int:
    try:
        with sources.import_paths():
            found = _by_inputs(arguments) if arguments.inputs else _by_types(arguments)
    except TritonUnavailable as error:
        print(f"fpsan leaks: INCONCLUSIVE: {error}", file=sys.stderr)
        return EXIT_STATUS[INCONCLUSIVE]
    if arguments.json:
        print(json.dumps([asdict(gap) for gap in found], indent=2))
    elif not found:
        version = algebra.get(arguments.algebra).version
        print(f"{arguments.kernel}: every float operation is instrumented (algebra {version})")
    else:
        print(table(["place", "operation", "it"], [[f"{g.file}:{g.line}", g.op, g.reason] for g in found]))
    return 1 if found else 0


def _by_inputs(arguments: argparse.Namespace) -> list[Unsanitised]:
    make_inputs, spec = check.inputs(arguments.inputs)
    side = check.side(arguments.kernel, spec, arguments.grid, dict(arguments.const))
    outcome = Engine("cpu", arguments.algebra).run(side, Source(make_inputs).make(0))
    if outcome.error is not None:
        raise outcome.error
    if not outcome.launches:
        raise FpsanError(f"{arguments.kernel} launched no kernel")
    return list(dict.fromkeys(gap for launch in outcome.launches for gap in launch.unsanitised))


def _by_types(arguments: argparse.Namespace) -> list[Unsanitised]:
    kernel = sources.load(arguments.kernel)
    if not is_kernel(kernel):
        raise FpsanError(f"{arguments.kernel} is no @triton.jit kernel; a launcher needs --inputs spec.py")
    kernel = unwrapped(kernel)
    types = dict(_type(part) for part in _parts(arguments.types))
    constants = dict(arguments.const)
    names = [parameter.name for parameter in kernel.params]
    for name in types:
        if name not in names:
            raise UnknownName.of(f"parameter of kernel {compiler.kernel_name(kernel)!r}", name, names)
    missing = [p.name for p in kernel.params if p.name not in types and p.name not in constants and not p.has_default]
    if missing:
        wanted = [n for n in missing if not kernel.params[names.index(n)].is_constexpr]
        values = [n for n in missing if n not in wanted]
        told = ([f"--types {','.join(f'{n}=...' for n in wanted)}"] if wanted else []) + [
            f"--const {n}=..." for n in values
        ]
        raise FpsanError(f"kernel {compiler.kernel_name(kernel)!r}: give {' '.join(told)}, or --inputs spec.py")
    examples = {name: _example(kind) for name, kind in types.items()}
    # Compiled as for a launch, of which no program is run.
    with on_cpu(version=arguments.algebra, programs=()) as session:
        kernel[(1,)](**examples, **constants)
    return session.launches[0].unsanitised


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _type(text: str) -> tuple[str, str]:
    name, equals, kind = text.partition("=")
    if not equals or not name.isidentifier():
        raise FpsanError(f"--types: {text!r} is not NAME=TYPE, as in x=*fp32")
    return name, kind


# Numbers of which the compiler knows nothing but the type: not 1, not divisible by 16.
_SCALARS = {"i1": True, "i32": 17, "i64": (1 << 40) + 17, "u64": (1 << 63) + 17, "fp32": 0.5}


def _example(kind: str) -> Any:
    """An argument of a type: an array of one element for a pointer, or a number."""
    known = sorted({*TRITON_NAMES.values()})
    if kind.startswith("*"):
        element = kind[1:]
        width = re.search(r"fp8|\d+$", element)
        if element not in known or width is None:
            raise UnknownName.of("pointer type", kind, [f"*{k}" for k in known])
        bits = 8 if width.group() == "fp8" or element == "i1" else int(width.group())
        array = np.zeros(1, f"u{bits // 8}")
        if element == "i1":
            return array.astype(np.bool_)
        return typed(array, element) if element.startswith(("fp", "bf")) else array.view(f"{element[0]}{bits // 8}")
    if kind not in _SCALARS:
        raise UnknownName.of("type", kind, [*_SCALARS, *(f"*{k}" for k in known)])
    return _SCALARS[kind]
