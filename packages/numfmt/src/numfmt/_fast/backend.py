"""Which implementation large calls use."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from contextvars import ContextVar

from numfmt._errors import unknown_name

BACKENDS = {
    "auto": "numba if it is imported already, or if the call is large enough to pay for importing it; else NumPy",
    "numpy": "NumPy only",
    "numba": "numba always (pip install 'numfmt-sim[fast]')",
}

#: Operations from which importing and compiling pays for itself within one call.
AUTO_THRESHOLD = 10**8

_chosen: ContextVar[str] = ContextVar("numfmt_backend", default="auto")


def _check(name: str) -> str:
    if name not in BACKENDS:
        raise ValueError(unknown_name("backend", name, BACKENDS))
    if name == "numba" and importlib.util.find_spec("numba") is None:
        raise ImportError("backend 'numba' needs numba; install it with: pip install 'numfmt-sim[fast]'")
    return name


def set_backend(name: str) -> None:
    """Choose the implementation of large calls for this thread (or async task) from here on.

    Results do not depend on it.

    Args:
        name: A key of `BACKENDS`: ``"auto"`` (the default), ``"numpy"`` or ``"numba"``.

    Raises:
        ValueError: For an unknown name.
        ImportError: For ``"numba"`` where it is not installed.
    """
    _chosen.set(_check(name))


@contextlib.contextmanager
def backend(name: str) -> Iterator[None]:
    """`set_backend` for a ``with`` block; the previous choice is restored, also after an exception.

    Args:
        name: As for `set_backend`.

    Yields:
        Nothing.

    Raises:
        ValueError: For an unknown name.
        ImportError: For ``"numba"`` without numba.
    """
    token = _chosen.set(_check(name))
    try:
        yield
    finally:
        _chosen.reset(token)


def get_backend() -> str:
    """What was chosen by `set_backend` or `backend`.

    Returns:
        ``"auto"``, ``"numpy"`` or ``"numba"``.
    """
    return _chosen.get()


def use_numba(operations: int, threshold: int = AUTO_THRESHOLD) -> bool:
    """Whether a call of this many operations is to run in numba.

    Args:
        operations: Roundings, or rounded additions, of the call.
        threshold: From how many on an ``"auto"`` call imports numba.
    """
    name = _chosen.get()
    if name != "auto":
        return name == "numba"
    if sys.modules.get("numba") is not None:
        # Imported is not compiled: a small call would wait half a second for its kernel.
        return operations >= threshold // 100
    return operations >= threshold and importlib.util.find_spec("numba") is not None
