"""Compiles the launches of a call for sm_90 down to machine code, without a GPU; nothing is launched.

with recorded() as launches:
    product(a, b, config=...)
for launch in launches:
    kernel = compiled(launch)      # kernel.metadata, kernel.asm["ptx"], ...
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile, make_backend
from triton.runtime.jit import create_function_from_signature

from fpsan_tools import dispatch
from fpsan_tools.arrays import is_array, passed

TARGET = GPUTarget("cuda", 90, 32)


@dataclass(frozen=True)
class Launch:
    """A launch that was asked for."""

    kernel: Any
    grid: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


class _Recorder:
    def __init__(self) -> None:
        self.launches: list[Launch] = []

    def launch(self, kernel, grid, arguments, keywords, warmup, original):
        self.launches.append(Launch(kernel, grid, arguments, dict(keywords)))


@contextmanager
def recorded():
    """Launches inside are kept instead of being run."""
    recorder = _Recorder()
    with dispatch.engaged(recorder):
        yield recorder.launches


def compiled(launch: Launch, **options: Any):
    """The machine code of a launch, with the specialisation that its arguments bring."""
    backend = make_backend(TARGET)
    binder = create_function_from_signature(launch.kernel.signature, launch.kernel.params, backend)
    keywords = {"debug": False, **launch.keywords, **options}
    arguments = [_argument(x) for x in launch.arguments]
    bound, specialization, rest = binder(*arguments, **{k: _argument(v) for k, v in keywords.items()})
    parsed, signature, constants, attributes = launch.kernel._pack_args(backend, rest, bound, specialization, rest)
    source = ASTSource(launch.kernel, signature, constants, attributes)
    return compile(source, target=TARGET, options=parsed.__dict__)


def _argument(x: Any) -> Any:
    if type(x).__name__ == "TensorDescriptor":
        return replace(x, base=x.base) if is_array(x.base) else x
    return passed("x", x) if is_array(x) else x
