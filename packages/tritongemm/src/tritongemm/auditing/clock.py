"""A limit on the time of one evaluation: a kernel's evaluation stops at its next operation."""

from __future__ import annotations

import time
from typing import Any

from tritongemm.errors import KernelFailed


class OutOfTime(KernelFailed):
    """An evaluation took longer than it may."""


class Deadline:
    """Stops evaluations of kernels after a time; an observer for `fpsan_tools.on_cpu`.

    Args:
        at: Time (`time.monotonic`) after which an evaluation stops; infinity for never.
    """

    def __init__(self, at: float) -> None:
        self.at = at

    def __call__(self, machine: Any, operation: Any, frame: Any) -> None:
        """Called after each operation.

        Raises:
            OutOfTime: The time is over.
        """
        if time.monotonic() > self.at:
            raise OutOfTime("its evaluation takes longer than the time that is left")
