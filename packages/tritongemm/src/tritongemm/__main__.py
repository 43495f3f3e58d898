"""The command line: `tritongemm audit A B`."""

from __future__ import annotations

import argparse
import ast
import difflib
import io
import os
import shlex
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

import tritongemm
from tritongemm.errors import TritongemmError, UsageError, nearest
from tritongemm.tables import WIDTH

WRONG_USE = 2
_INTERRUPTED, _PIPE_CLOSED = 130, 141


# What the functions call the options, where that is not the option's name without its dashes.
_OPTIONS = {
    **{name: f"--{name.replace('_', '-')}" for name in (
        "dtype", "out_dtype", "seed", "atol", "rtol", "max_time", "device")},
    "distribution": "--inputs",
    **{name: f"--{name.lower()}" for name in "MNK"},
    **{f"choices_{letter}.precision": f"--precision-{letter}" for letter in "ab"},
}  # fmt: skip


class _Parser(argparse.ArgumentParser):
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        # A command's parser complains itself of what it does not know: it knows what is nearest.
        known, unknown = super().parse_known_args(args, namespace)
        if unknown and self._subparsers is None:
            option = next((word.partition("=")[0] for word in unknown if word.startswith("-")), "")
            close = difflib.get_close_matches(option, self._option_string_actions, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return known, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(action, f"{value!r} is none. {nearest(str(value), known)}".rstrip("."))

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USE, f"{self.prog}: {message}{'' if message.endswith('?') else '.'} See {self.prog} --help.\n")


def _constant(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value  # A plain word is a text: INPUT_PRECISION=tf32.


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    top = _Parser(prog="tritongemm", description="Triton matrix products whose error is known.")
    top.add_argument("--version", action="version", version=f"tritongemm {tritongemm.__version__}")
    commands = top.add_subparsers(dest="command", metavar="command", required=True)
    p = commands.add_parser(
        "audit",
        help="compare two GEMM kernels, or any kernel with a reference: algebra, rounding, verdict",
        description=(
            "With A and B: compares two GEMM kernels with payload arithmetic (are they the same algebra?) and with "
            "float64 (how do they round?), finds their order of summation, and judges. With an adapter alone "
            "(adapter.py): audits the kernel that it launches, of any signature, against its reference. It imports, "
            "and so executes, the files that are named. Exit status: 0 PASS or PASS WITH LIMITATIONS, 1 FAIL or worse "
            "than the baseline, 2 wrong use, 3 INCONCLUSIVE."
        ),
        epilog=(
            "A GEMM kernel has one of two signatures, then constants: (a, b, c, M, N, K, stride_am, stride_ak, "
            "stride_bk, stride_bn, stride_cm, stride_cn) with C[M,N] = A[M,K] B[K,N], or (a, b, c, M, N, K, stride_am, "
            "stride_an, stride_bn, stride_bk, stride_cm, stride_ck) with C[M,K] = A[M,N] B[N,K]. M, N and K of this "
            "command are the first one's. A function of two matrices, such as torch:matmul, tritongemm:mm or a "
            "launcher of yours, stands for whatever it computes with. Kernels of other signatures need an adapter: "
            "--template prints one to start from."
        ),
    )
    p.add_argument(
        "kernel_a",
        nargs="?",
        default=None,
        metavar="A",
        help="strided_lanes, blocked, package.module:name or file.py:name; or an adapter",
    )
    p.add_argument(
        "kernel_b", nargs="?", default=None, metavar="B", help="likewise (default: strided_lanes against blocked)"
    )
    p.add_argument("--template", action="store_true", help="print an adapter to start from, and do nothing else")
    p.add_argument(
        "--data",
        nargs="+",
        metavar="FILE",
        help="your own tensors: A and B as x.npy, x.npz:NAME or x.safetensors:NAME; for an adapter one .npz or "
        ".safetensors file of all inputs",
    )
    p.add_argument(
        "--baseline", metavar="JSON", help="an earlier audit.json: says what got worse since, and exits with 1 then"
    )
    p.add_argument("--m", type=int, default=8192, help="rows of the product (default 8192)")
    p.add_argument("--n", type=int, default=4096, help="columns of the product (default 4096)")
    p.add_argument("--k", type=int, default=6144, help="products per output (default 6144)")
    p.add_argument(
        "--dtype", default=None, help="type of the operands: fp32 (default), fp16, bf16; of an adapter's inputs: any"
    )
    p.add_argument("--out-dtype", default=None, help="type of the result (default: the operands')")
    p.add_argument(
        "--inputs", default="uniform", help="uniform (-1 to 1), positive (0 to 1), normal, wide (default uniform)"
    )
    p.add_argument("--seed", type=int, default=0, help="seed of operands and sample (default 0)")
    p.add_argument(
        "--atol",
        type=float,
        default=None,
        help="absolute tolerance whose failures are counted (default 1e-4 for fp32 results, else torch.testing's)",
    )
    p.add_argument("--rtol", type=float, default=None, help="relative tolerance (likewise)")
    p.add_argument(
        "--device", default="auto", help="cpu (a sample, evaluated), gpu (every output, launched), auto (default)"
    )
    p.add_argument(
        "--hardware", action="store_true", help="on a CPU: predict the bits of an H200 (sm_90), tensor cores included"
    )
    p.add_argument(
        "--max-time",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="time that an audit may take; on a GPU its payload comparisons may take a quarter of it (default 120)",
    )
    p.add_argument(
        "--const",
        type=_constant,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="constant of every kernel that has it",
    )
    for letter in "ab":
        upper = letter.upper()
        p.add_argument(
            f"--const-{letter}",
            type=_constant,
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help=f"constant of {upper}",
        )
        p.add_argument(
            f"--grid-{letter}", metavar="EXPR", help=f"launch grid of {upper}, as 'cdiv(M, BLOCK_M), cdiv(N, BLOCK_N)'"
        )
        p.add_argument(
            f"--config-{letter}",
            type=int,
            default=0,
            metavar="N",
            help=f"configuration of an autotuned {upper} (default 0)",
        )
        p.add_argument(
            f"--no-fusion-{letter}", action="store_true", help=f"compile {upper} with enable_fp_fusion=False"
        )
        p.add_argument(
            f"--zeroed-{letter}", action="store_true", help=f"set C to zero before {upper}, as its launcher does"
        )
        p.add_argument(
            f"--precision-{letter}", metavar="MODE", help=f"precision that {upper} is meant to have: tf32, bf16x3, ..."
        )
    p.add_argument("--grid", metavar="EXPR", help="launch grid of both kernels")
    p.add_argument(
        "--out", default="reports", metavar="FOLDER", help="where audit.html and audit.json go (default reports)"
    )
    p.add_argument("--no-report", action="store_true", help="write no files")
    p.add_argument("--quiet", action="store_true", help="print the verdict only, and no progress bar")
    q = commands.add_parser(
        "challenge",
        help="the 14 cases of the public challenge, for both kernels of this package",
        description=(
            "Runs strided_lanes and blocked through the 14 cases of the public challenge (atol = rtol = 1e-4) and "
            "counts "
            "the outputs outside the tolerance of float64 and of the library's fp32 product. On a CPU the last case is "
            "sampled where it is hardest, which takes about a minute."
        ),
    )
    q.add_argument("--quick", action="store_true", help="leave out the last case")
    q.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="where to run (default cpu)")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
        arguments: Its arguments; those of the process if not given.

    Returns:
        The exit status.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # A terminal that lacks the mathematical signs gets question marks.
    options = parser().parse_args(arguments)
    try:
        status = {"audit": _audit, "challenge": _challenge}[options.command](options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Or the interpreter's last flush complains.
        return _PIPE_CLOSED
    except MemoryError as error:
        print(f"tritongemm {options.command}: out of memory ({error}); give smaller sizes.", file=sys.stderr)
        return WRONG_USE
    except (TritongemmError, OSError) as error:
        print(f"tritongemm {options.command}: {_as_options(str(error))}", file=sys.stderr)
        return WRONG_USE
    except KeyboardInterrupt:
        print(f"tritongemm {options.command}: interrupted; reports of earlier runs are as they were.", file=sys.stderr)
        return _INTERRUPTED


def _as_options(message: str) -> str:
    """A message that begins with names of arguments, with the names of options in their place."""
    names, colon, rest = message.partition(":")
    if not colon:
        return message
    return ", ".join(_OPTIONS.get(name, name) for name in names.split(", ")) + colon + rest


def _audit(options: argparse.Namespace) -> int:
    from tritongemm.auditing.baseline import load_baseline
    from tritongemm.auditing.saving import REPORT_FILES
    from tritongemm.files import why_unwritable

    if options.template:
        from tritongemm.auditing.cases import TEMPLATE

        if options.kernel_a is not None:
            raise UsageError(
                f"--template: it prints an adapter and takes no other argument, given {options.kernel_a!r}."
            )
        print(TEMPLATE, end="")
        return 0
    reason = None if options.no_report else why_unwritable(options.out, REPORT_FILES)
    if reason:  # Said before the minutes of work rather than after them.
        raise UsageError(_no_report(options.out, reason))
    before = load_baseline(options.baseline) if options.baseline else None
    case = _adapter(options)
    result = _audit_pair(options) if case is None else _audit_case(options, case)
    worse: list[str] = []
    refused: UsageError | None = None
    if before is not None:
        from tritongemm.auditing.baseline import compare_with

        try:
            found = compare_with(options.baseline, before, result.as_dict())
        except UsageError as error:  # told at the end: what this audit found is not lost for a wrong file
            refused = error
        else:
            worse = found.worse
            result = result.beside(found.sentences())
    summary = [textwrap.fill(s, WIDTH, break_on_hyphens=False) for s in result.document.summary]
    print("\n".join([result.status, *summary]) if options.quiet else result)
    if not options.no_report:
        try:
            page, data = result.save(options.out)
        except OSError as error:
            raise UsageError(_no_report(options.out, error.strerror or str(error))) from error
        print(f"\nReport: {page} and {data}")
    if refused is not None:
        raise refused
    return 1 if worse else int(result.exit_code)


# Options that have a meaning for GEMM kernels only, with their defaults.
_PAIR_ONLY: dict[str, Any] = {
    "m": 8192, "n": 4096, "k": 6144, "out_dtype": None, "inputs": "uniform", "const": [], "grid": None,
    **{f"{name}_{letter}": default for letter in "ab" for name, default in (
        ("const", []), ("grid", None), ("config", 0), ("no_fusion", False), ("zeroed", False), ("precision", None))},
}  # fmt: skip


def _adapter(options: argparse.Namespace) -> Any:
    """The case, if the command names an adapter alone."""
    if options.kernel_a is None or options.kernel_b is not None or ":" in options.kernel_a:
        return None
    from tritongemm.auditing.cases import case_of, looks_like_adapter
    from tritongemm.auditing.contestants import OWN, import_place, usable_triton

    if options.kernel_a in OWN or not (options.kernel_a.endswith(".py") or "." in options.kernel_a):
        return None
    usable_triton()
    module = import_place(options.kernel_a, "A")
    if not looks_like_adapter(module):
        return None
    for name, default in _PAIR_ONLY.items():
        if getattr(options, name) != default:
            raise UsageError(
                f"--{name.replace('_', '-')}: an option for two GEMM kernels; the adapter {options.kernel_a} says such "
                "things itself."
            )
    return case_of(module, options.kernel_a)


def _audit_case(options: argparse.Namespace, case: Any) -> Any:
    from tritongemm.accuracy import Tolerance
    from tritongemm.auditing.data import load_named
    from tritongemm.auditing.kernel_audit import audit_case
    from tritongemm.progress import Progress

    if (options.atol is None) != (options.rtol is None):
        raise UsageError("--atol, --rtol: give both or none.")
    data = None
    if options.data:
        if len(options.data) != 1:
            raise UsageError(f"--data: {len(options.data)} files; an adapter takes one, with all inputs by name.")
        data = load_named(options.data[0])
    words = ["tritongemm", "audit", options.kernel_a, "--seed", str(options.seed), "--device", options.device]
    for name in ("dtype", "atol", "rtol"):
        value = getattr(options, name)
        words += [f"--{name}", str(value)] if value is not None else []
    words += ["--data", *options.data] if options.data else []
    words += ["--hardware"] if options.hardware else []
    with Progress(quiet=options.quiet) as bar:
        return audit_case(
            case,
            dtype=options.dtype,
            tolerance=None if options.atol is None else Tolerance(options.atol, options.rtol),
            seed=options.seed,
            device=options.device,
            max_time=options.max_time,
            show=bar.show,
            hardware=options.hardware,
            replay=shlex.join(words),
            data=data,
        )


def _audit_pair(options: argparse.Namespace) -> Any:
    from tritongemm.auditing.contestants import Choices, constants_of
    from tritongemm.auditing.data import load_array
    from tritongemm.auditing.run import DEFAULT_KERNELS, audit
    from tritongemm.progress import Progress

    if options.kernel_a is None:
        options.kernel_a = DEFAULT_KERNELS[0]
    if options.kernel_b is None:
        options.kernel_b = DEFAULT_KERNELS[1]
    if options.data and len(options.data) != 2:
        raise UsageError(f"--data: {len(options.data)} of 2 files; give A and B, as in --data a.npy b.npy.")
    choices = []
    used: set[str] = set()
    for letter in "ab":
        known = constants_of(getattr(options, f"kernel_{letter}"), letter.upper()) if options.const else set()
        shared = {k: v for k, v in options.const if k in known}
        used |= set(shared)
        own_grid = getattr(options, f"grid_{letter}")
        choices.append(
            Choices(
                constants={**shared, **dict(getattr(options, f"const_{letter}"))},
                grid=options.grid if own_grid is None else own_grid,
                config=getattr(options, f"config_{letter}"),
                fusion=not getattr(options, f"no_fusion_{letter}"),
                zeroed=getattr(options, f"zeroed_{letter}"),
                precision=getattr(options, f"precision_{letter}"),
            )
        )
    unused = [name for name, _ in options.const if name not in used]
    if unused:
        raise UsageError(f"--const: neither kernel has a constant {unused[0]!r}.")
    data = tuple(load_array(place) for place in options.data) if options.data else None
    with Progress(quiet=options.quiet) as bar:
        return audit(
            options.kernel_a,
            options.kernel_b,
            M=options.m,
            N=options.n,
            K=options.k,
            dtype=options.dtype or "fp32",
            out_dtype=options.out_dtype,
            distribution=options.inputs,
            seed=options.seed,
            atol=options.atol,
            rtol=options.rtol,
            device=options.device,
            max_time=options.max_time,
            choices_a=choices[0],
            choices_b=choices[1],
            data=data,
            data_files=options.data or (),
            hardware=options.hardware,
            show=bar.show,
        )


def _no_report(folder: str, reason: str) -> str:
    return (
        f"--out: no report can be written to {folder!r} ({reason}); name another folder, or write none with "
        "--no-report."
    )


def _challenge(options: argparse.Namespace) -> int:
    from tritongemm import challenge
    from tritongemm.auditing.contestants import usable_triton
    from tritongemm.progress import Progress

    usable_triton()
    from tritongemm.kernels.blocked import blocked
    from tritongemm.kernels.strided_lanes import strided_lanes

    cases = challenge.CASES[:-1] if options.quick else challenge.CASES
    with Progress() as bar:
        outcomes = {
            multiply.__name__: challenge.run(multiply, cases=cases, device=options.device, show=bar.show)
            for multiply in (strided_lanes, blocked)
        }
    print(challenge.table(outcomes, "torch" if options.device == "gpu" else "serial fma chain").text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
