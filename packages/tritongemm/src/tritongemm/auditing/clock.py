"""What looks on while a kernel is evaluated: a limit on its time, and loads whose masked-off lanes are undefined."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tritongemm.errors import KernelFailed


class OutOfTime(KernelFailed):
    """An evaluation took longer than it may."""


class Watch:
    """Stops evaluations of kernels after a time, and remembers what they do: an observer for `fpsan_tools.on_cpu`.

    Attributes:
        undefined: Places of loads with a mask and no `other`.
        operations: Names of the operations that were evaluated, with the first place of each.

    Args:
        at: Time (`time.monotonic`) after which an evaluation stops; infinity for never.
    """

    def __init__(self, at: float = math.inf) -> None:
        self.at = at
        self.undefined: dict[str, None] = {}
        self.operations: dict[str, str] = {}

    def __call__(self, machine: Any, operation: Any, frame: Any) -> None:
        """Called after each operation.

        Raises:
            OutOfTime: The time is over.
        """
        if operation.name not in self.operations:
            place = operation.location.user
            self.operations[operation.name] = f"{Path(place.file).name}:{place.line}" if place.file else ""
        if operation.name == "tt.load" and len(operation.operands) == 2:  # A pointer and a mask.
            place = operation.location.user
            self.undefined.setdefault(f"{Path(place.file).name}:{place.line}")
        if time.monotonic() > self.at:
            raise OutOfTime("its evaluation takes longer than the time that is left")

    def note(self) -> tuple[str, ...]:
        """A remark on the loads whose masked-off lanes are undefined."""
        if not self.undefined:
            return ()
        places = ", ".join(self.undefined)
        return (
            f"lanes that a mask without `other` switches off ({places}) hold something undefined on a GPU, and 0 here",
        )


def operations_of(launches: Iterable[Any], watch: Watch) -> dict[str, str]:
    """Names of the operations that launches evaluated, with the first place of each; none of those in reductions.

    Args:
        launches: Records of `fpsan_tools.on_cpu`.
        watch: What looked on.
    """
    return {**{name: "" for launch in launches for name in launch.operations}, **watch.operations}
