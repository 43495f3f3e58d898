"""The command line: `tritongemm audit A B`."""

from __future__ import annotations

import argparse
import ast
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import tritongemm
from tritongemm.errors import TritongemmError, UsageError

WRONG_USE = 2
_INTERRUPTED, _PIPE_CLOSED = 130, 141


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USE, f"{self.prog}: {message}. See {self.prog} --help.\n")


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
        help="compare two GEMM kernels: algebra, rounding, order of summation, verdict",
        description=(
            "Compares two GEMM kernels with payload arithmetic (are they the same algebra?) and with float64 (how do "
            "they round?), finds "
            "their order of summation, and judges. It imports, and so executes, the files that are named. Exit status: "
            "0 PASS or PASS WITH "
            "LIMITATIONS, 1 FAIL, 2 wrong use, 3 INCONCLUSIVE."
        ),
        epilog=(
            "A kernel has one of two signatures, then constants: (a, b, c, M, N, K, stride_am, stride_ak, stride_bk, "
            "stride_bn, stride_cm, "
            "stride_cn) with C[M,N] = A[M,K] B[K,N], or (a, b, c, M, N, K, stride_am, stride_an, stride_bn, stride_bk, "
            "stride_cm, stride_ck) "
            "with C[M,K] = A[M,N] B[N,K]. M, N and K of this command are the first one's."
        ),
    )
    p.add_argument(
        "kernel_a",
        nargs="?",
        default="strided_lanes",
        metavar="A",
        help="strided_lanes, blocked, package.module:kernel or file.py:kernel",
    )
    p.add_argument(
        "kernel_b", nargs="?", default="blocked", metavar="B", help="likewise (default: strided_lanes against blocked)"
    )
    p.add_argument("--m", type=int, default=8192, help="rows of the product (default 8192)")
    p.add_argument("--n", type=int, default=4096, help="columns of the product (default 4096)")
    p.add_argument("--k", type=int, default=6144, help="products per output (default 6144)")
    p.add_argument("--dtype", default="fp32", help="type of the operands: fp32, fp16, bf16 (default fp32)")
    p.add_argument("--out-dtype", default=None, help="type of the result (default: the operands')")
    p.add_argument(
        "--inputs", default="uniform", help="uniform (-1 to 1), positive (0 to 1), normal, wide (default uniform)"
    )
    p.add_argument("--seed", type=int, default=0, help="seed of operands and sample (default 0)")
    p.add_argument(
        "--atol", type=float, default=1e-4, help="absolute tolerance whose failures are counted (default 1e-4)"
    )
    p.add_argument("--rtol", type=float, default=1e-4, help="relative tolerance (default 1e-4)")
    p.add_argument(
        "--device", default="auto", help="cpu (a sample, evaluated), gpu (every output, launched), auto (default)"
    )
    p.add_argument(
        "--max-time", type=float, default=120.0, metavar="SECONDS", help="time a CPU audit may take (default 120)"
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
        print(f"tritongemm {options.command}: {error}", file=sys.stderr)
        return WRONG_USE
    except KeyboardInterrupt:
        print(f"tritongemm {options.command}: interrupted; reports of earlier runs are as they were.", file=sys.stderr)
        return _INTERRUPTED


def _audit(options: argparse.Namespace) -> int:
    from tritongemm.auditing.contestants import Choices, constants_of
    from tritongemm.auditing.run import REPORT_FILES, audit
    from tritongemm.files import why_unwritable
    from tritongemm.progress import Progress

    reason = None if options.no_report else why_unwritable(options.out, REPORT_FILES)
    if reason:  # Said before the minutes of work rather than after them.
        raise UsageError(_no_report(options.out, reason))
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
            )
        )
    unused = [name for name, _ in options.const if name not in used]
    if unused:
        raise UsageError(f"--const: neither kernel has a constant {unused[0]!r}.")
    with Progress(quiet=options.quiet) as bar:
        result = audit(
            options.kernel_a,
            options.kernel_b,
            M=options.m,
            N=options.n,
            K=options.k,
            dtype=options.dtype,
            out_dtype=options.out_dtype,
            distribution=options.inputs,
            seed=options.seed,
            atol=options.atol,
            rtol=options.rtol,
            device=options.device,
            max_time=options.max_time,
            choices_a=choices[0],
            choices_b=choices[1],
            show=bar.show,
        )
    print(f"{result.status}\n" + "\n".join(result.document.summary) if options.quiet else result)
    if not options.no_report:
        try:
            page, data = result.save(options.out)
        except OSError as error:
            raise UsageError(_no_report(options.out, error.strerror or str(error))) from error
        print(f"\nReport: {page} and {data}")
    return result.exit_code


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
