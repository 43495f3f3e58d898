"""Configurations that were found to be fast, kept in a file from one program to the next.

The file is `configurations.json` in the folder that `TRITONGEMM_CACHE_DIR` names, or else in `tritongemm` in the user's
cache folder (`XDG_CACHE_HOME`, `~/.cache`). `TRITONGEMM_CACHE_DIR=off` keeps nothing. It is JSON, one entry per kind of
product, and can be deleted at any time. A file that cannot be read is left aside with a warning.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tritongemm import files
from tritongemm.configurations import Config
from tritongemm.errors import UsageError

VARIABLE = "TRITONGEMM_CACHE_DIR"
"""The environment variable that names the folder."""

_SCHEMA = 1


def location() -> Path | None:
    """The file; None if nothing is to be kept."""
    named = os.environ.get(VARIABLE, "")
    if named == "off":
        return None
    if named:
        return Path(named) / "configurations.json"
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative paths ignored.
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "tritongemm" / "configurations.json"


class Store:
    """The configurations of one file.

    Args:
        path: The file, which need not exist; None to keep nothing on disk.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._entries: dict[str, dict[str, Any]] | None = None
        self._threads = threading.Lock()

    def empty(self) -> bool:
        """Whether nothing is kept; the file is read once."""
        return not self._loaded()

    def _loaded(self) -> dict[str, dict[str, Any]]:
        if self._entries is None:
            with self._threads:
                if self._entries is None:
                    self._entries = self._read()
        return self._entries

    def get(self, key: str) -> Config | None:
        """The configuration kept under a key.

        Args:
            key: What `tritongemm.tuning.key_of` made.

        Returns:
            The configuration; None if there is none that can be read.
        """
        entry = self._loaded().get(key)
        if entry is None:
            return None
        try:
            return Config.from_dict(entry["config"])
        except (UsageError, KeyError, TypeError) as error:
            warnings.warn(f"{self.path}: the entry {key!r} is left aside ({error}).", stacklevel=2)
            del self._loaded()[key]
            return None

    def put(self, key: str, config: Config, **facts: Any) -> None:
        """Keeps a configuration; what other programs have kept meanwhile stays.

        Args:
            key: What `tritongemm.tuning.key_of` made.
            config: The configuration.
            **facts: What else to write down about it.
        """
        entry = {"config": config.as_dict(), **facts}
        with self._threads:
            if self.path is None:
                self._entries = {**(self._entries or {}), key: entry}
                return
            try:
                with _locked(self.path):
                    self._entries = {**self._read(), key: entry}
                    text = json.dumps({"schema": _SCHEMA, "entries": self._entries}, indent=1, sort_keys=True)
                    files.replaced(self.path, text + "\n")
            except OSError as error:  # a read-only home must not stop a product
                self._entries = {**(self._entries or {}), key: entry}
                warnings.warn(f"{self.path}: configurations are kept for this program only ({error}).", stacklevel=2)

    def _read(self) -> dict[str, dict[str, Any]]:
        if self.path is None:
            return {}
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            if found["schema"] != _SCHEMA:
                return {}
            return {str(key): dict(entry) for key, entry in found["entries"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            warnings.warn(
                f"{self.path}: cannot be read and is left aside ({type(error).__name__}: {error}).", stacklevel=3
            )
            return {}


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keeps other programs from writing between our reading and our writing; where there are no locks, without one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(path.with_name(path.name + ".lock"), "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


_opened: dict[Path | None, Store] = {}


def current() -> Store:
    """The store of the file that the environment names now."""
    path = location()
    if path not in _opened:
        _opened[path] = Store(path)
    return _opened[path]
