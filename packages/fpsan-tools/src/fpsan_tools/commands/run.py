"""`fpsan run script.py`: run a script as it is, with its kernels and torch operations in payloads."""

from __future__ import annotations

import argparse
import importlib.util
import runpy
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from fpsan_tools.checking.rendering import table
from fpsan_tools.cpu import Launch, on_cpu
from fpsan_tools.exceptions import FpsanError, TritonUnavailable, UnknownName

_ENGINES = ("cpu", "gpu")
_PAYLOAD = "payload"


def register(subparsers: Any) -> None:
    """Add the parser of this module."""
    command = subparsers.add_parser(
        "run",
        help="run a script, unmodified, with its kernels in payloads",
        description="Run a script as `python script.py` would, with every Triton launch in FpSan payloads.",
        epilog="On the CPU, 'cuda' devices that the script asks for become the CPU, so no GPU is needed. Exit status: "
        "the script's.",
    )
    command.add_argument("--engine", default="cpu", help="cpu (default) or gpu")
    command.add_argument(
        "--domain", default=_PAYLOAD, help="on the CPU: payload (default), or ieee for ordinary floats"
    )
    command.add_argument("--algebra", metavar="VERSION", help="3.8, 3.9 or 3.9-homomorphic (default: Triton's)")
    command.add_argument("--bounds", default="live", help="on the CPU: live (default) or all")
    command.add_argument("--no-torch", action="store_true", help="leave torch's operations as they are")
    command.add_argument("--quiet", action="store_true", help="no list of launches afterwards")
    command.add_argument("script", help="the script")
    command.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.engine not in _ENGINES:
        raise UnknownName.of("engine", arguments.engine, _ENGINES)
    if arguments.engine == "gpu" and arguments.domain != _PAYLOAD:
        raise FpsanError("--engine gpu computes payloads only; --domain is for --engine cpu")
    script = Path(arguments.script)
    if not script.is_file():
        raise FpsanError(f"there is no script {script}")
    torch_too = arguments.domain == _PAYLOAD and not arguments.no_torch
    with ExitStack() as stack:
        try:
            launches = _engage(stack, arguments)
        except TritonUnavailable as error:
            print(f"fpsan run: {error}", file=sys.stderr)
            return 3
        stack.enter_context(as_script(script, arguments.arguments))
        if torch_too:
            _engage_torch(stack, arguments.algebra)
        status = execute(script)
    if not arguments.quiet:
        print(report(launches), file=sys.stderr)
    return status


def _engage(stack: ExitStack, arguments: argparse.Namespace) -> list[Launch]:
    if arguments.engine == "gpu":
        from fpsan_tools.gpu import on_gpu

        return stack.enter_context(on_gpu(version=arguments.algebra)).launches
    from fpsan_tools.commands.cuda_on_cpu import cuda_on_cpu

    session = stack.enter_context(on_cpu(arguments.domain, version=arguments.algebra, bounds=arguments.bounds))
    stack.enter_context(cuda_on_cpu())
    return session.launches


@contextmanager
def as_script(script: Path, arguments: list[str]) -> Iterator[None]:
    """Inside this block, `sys.argv` and the import path are a script's; afterwards they are as before."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        sys.argv = argv
        sys.path[:] = path


def execute(script: Path) -> int:
    """Run a script as the main module.

    Args:
        script: the file.

    Returns:
        Its exit status; 1, and a traceback that begins in the script, if it raises.
    """
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        if end.code is None:
            return 0
        if isinstance(end.code, int):
            return end.code
        print(end.code, file=sys.stderr)
        return 1
    except Exception as error:
        place = error.__traceback__
        while place is not None and place.tb_frame.f_code.co_filename != str(script):
            place = place.tb_next
        traceback.print_exception(error.with_traceback(place or error.__traceback__))
        return 1
    return 0


def _engage_torch(stack: ExitStack, version: str | None) -> None:
    """Payloads for torch's operations, and exact comparisons, where torch is installed."""
    if importlib.util.find_spec("torch") is None:
        return
    from fpsan_tools.commands.payload_comparisons import PayloadComparisons
    from fpsan_tools.torch_mode import FpSanTorch

    stack.enter_context(FpSanTorch(version=version))
    stack.enter_context(PayloadComparisons())


def report(launches: list[Launch]) -> str:
    """What ran, and what payloads do not cover, as text."""
    if not launches:
        return "fpsan run: the script launched no Triton kernel"
    counted = Counter((launch.kernel, "x".join(map(str, launch.grid))) for launch in launches)
    parts = [table(["kernel", "grid", "launches"], [[k, g, str(n)] for (k, g), n in counted.items()])]
    gaps = list(dict.fromkeys(gap for launch in launches for gap in launch.unsanitised))
    if gaps:
        parts.append("Not covered by payloads:\n")
        parts[-1] += table(["place", "operation", "it"], [[f"{g.file}:{g.line}", g.op, g.reason] for g in gaps])
    return "\n\n".join(parts)
