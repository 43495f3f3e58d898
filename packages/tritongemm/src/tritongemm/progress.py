"""A progress bar on a terminal, silence elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO

_WIDTH = 24
_EVERY_SECONDS = 0.1


class Progress:
    """Shows how far a run of known length is; a context manager.

    Args:
        quiet: Show nothing.
        stream: Where to; standard error if not given. Only a terminal is written to.
    """

    def __init__(self, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._on = not quiet and self._stream.isatty()
        self._last = 0.0
        self._shown = 0

    def show(self, what: str, done: float = 0.0) -> None:
        """Draws the bar.

        Args:
            what: What is being done.
            done: Share of it that is done, 0 to 1.
        """
        now = time.monotonic()
        if not self._on or (now - self._last < _EVERY_SECONDS and 0 < done < 1):
            return
        self._last = now
        filled = round(_WIDTH * min(1.0, max(0.0, done)))
        line = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {what}"
        self._stream.write("\r" + line.ljust(self._shown))
        self._stream.flush()
        self._shown = len(line)

    def clear(self) -> None:
        """Removes the bar, so that something else can be printed."""
        if self._on and self._shown:
            self._stream.write("\r" + " " * self._shown + "\r")
            self._stream.flush()
            self._shown = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()
