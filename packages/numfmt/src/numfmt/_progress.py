"""A progress bar for long work, on standard error and only where a person watches."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TextIO, TypeVar

T = TypeVar("T")

_WIDTH = 30
_INTERVAL = 0.1


def track(
    items: Iterable[T],
    total: int | None = None,
    label: str = "",
    show: bool | None = None,
    stream: TextIO | None = None,
) -> Iterator[T]:
    """Pass items on and draw a bar with the time that is left.

    Args:
        items: What is worked on.
        total: How many; None asks ``len``.
        label: What the work is called.
        show: Draw or not; None draws on a terminal only.
        stream: Where; None is standard error.

    Yields:
        The items.
    """
    out = sys.stderr if stream is None else stream
    visible = out.isatty() if show is None else show
    count = len(items) if total is None and isinstance(items, Sized) else total
    start = drawn = time.monotonic()
    if not visible or not count:
        yield from items
        return
    done = 0
    try:
        for done, item in enumerate(items, 1):
            yield item
            now = time.monotonic()
            if now - drawn >= _INTERVAL or done == count:
                drawn = now
                out.write("\r" + bar(done, count, now - start, label))
                out.flush()
    finally:
        if done:
            out.write("\n")
            out.flush()


def bar(done: int, total: int, seconds: float, label: str = "") -> str:
    """One line: label, bar, count, and the time that is left at the pace so far."""
    share = min(done / total, 1.0)
    filled = round(_WIDTH * share)
    left = seconds / done * (total - done) if done else 0.0
    clock = f"{int(left) // 60}:{int(left) % 60:02d} left" if done < total else f"{seconds:.1f} s"
    return f"{label + ' ' if label else ''}[{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{total} {clock}"
