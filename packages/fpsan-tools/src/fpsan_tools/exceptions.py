"""The exceptions of fpsan_tools: one base class, one class per thing that a caller can react to."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FpsanError(Exception):
    """Base class of every error that fpsan_tools raises on purpose."""


class UnknownName(FpsanError, ValueError):
    """A version, dtype, operation or domain name that fpsan_tools does not know."""

    @classmethod
    def of(cls, kind: str, given: object, known: Iterable[str], listed: Iterable[str] | None = None) -> UnknownName:
        """Build the error for `given`, naming the nearest known name.

        Args:
            kind: what the name stands for, as in "algebra version".
            given: the name that was given.
            known: all known names.
            listed: the names to list, where `known` has many spellings; None for all.

        Returns:
            The exception, to be raised by the caller.
        """
        names = sorted(known)
        shown = names if listed is None else list(listed)
        near = [n for among in (shown, names) for n in difflib.get_close_matches(str(given), among, n=1, cutoff=0.5)]
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return cls(f"unknown {kind} {given!r}{hint} (known: {', '.join(shown)})")


class UnsupportedOperation(FpsanError, NotImplementedError):
    """An operation of a kernel that no rule covers; nothing was computed by accident.

    Args:
        kernel: the kernel's name.
        file: the source file of the operation, or "" where it is not known.
        line: the line in that file, or 0.
        op: the operation's name in Triton's intermediate representation.
        reason: why it is refused and what to do instead.
    """

    def __init__(self, kernel: str, file: str, line: int, op: str, reason: str = "") -> None:
        self.kernel, self.file, self.line, self.op, self.reason = kernel, file, line, op, reason
        where = f" at {file}:{line}" if file else ""
        super().__init__(
            f"kernel {kernel!r}{where}: operation {op} is not supported" + (f": {reason}" if reason else "")
        )


class OutOfBounds(FpsanError):
    """A load or store outside the arrays that were passed to the kernel."""


class AssertionViolated(FpsanError):
    """A device_assert of the kernel failed, or a tl.assume does not hold."""


class CompilationFailed(FpsanError):
    """Triton's front end or one of its passes refused the kernel."""


class TritonUnavailable(FpsanError, RuntimeError):
    """Triton (3.8 or newer, Linux) is needed here and is missing, too old, or has no GPU to run on."""
