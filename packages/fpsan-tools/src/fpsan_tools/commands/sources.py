"""Objects that the command line names: `path/to/file.py:name` or `package.module:name`."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from fpsan_tools.exceptions import FpsanError


@contextmanager
def import_paths() -> Iterator[None]:
    """Inside this block, folders of loaded files may be put on the import path; afterwards it is as before."""
    before = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = before


def split(reference: str) -> tuple[str, str]:
    """The file or module of a reference, and the name in it ("" if there is none)."""
    place, colon, name = reference.rpartition(":")
    if not colon or os.sep in name or (name and not name.replace(".", "_").isidentifier()):
        return reference, ""
    return place, name


def load(reference: str, default: str = "") -> Any:
    """Import a file or module, which executes it, and take a name from it.

    Args:
        reference: `file.py:name` or `package.module:name`.
        default: the name, if the reference has none.

    Returns:
        The object.

    Raises:
        FpsanError: if there is no such file, module or name, or the import fails.
    """
    place, name = split(reference)
    name = name or default
    if not name:
        raise FpsanError(f"{reference!r} names no object; expected file.py:name or package.module:name")
    value: Any = module(place)
    for part in name.split("."):
        if not hasattr(value, part):
            known = [known for known in vars(value) if not known.startswith("_")] if hasattr(value, "__dict__") else []
            near = difflib.get_close_matches(part, known, n=1, cutoff=0.5)
            raise FpsanError(f"{place} has no {part!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        value = getattr(value, part)
    return value


def module(place: str) -> ModuleType:
    """Import a file or a module by name.

    Raises:
        FpsanError: if that fails.
        TritonUnavailable: if it is for want of Triton.
    """
    try:
        if place.endswith(".py") or os.sep in place:
            return _file(Path(place))
        if "" not in sys.path:
            sys.path.insert(0, "")
        return importlib.import_module(place)
    except FpsanError:
        raise
    except Exception as error:
        if isinstance(error, ImportError) and (error.name or "").split(".")[0] == "triton":
            from fpsan_tools.ttir.compile import import_triton

            import_triton()  # says what is missing
        raise FpsanError(f"{place} cannot be imported: {type(error).__name__}: {error}{_line(error, place)}") from error


def _file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise FpsanError(f"there is no file {path}")
    if path.suffix != ".py":
        raise FpsanError(f"{path} is no Python file")
    # A name of its own, so that files of equal names do not hide each other or an installed module.
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    try:
        spec.loader.exec_module(loaded)
    except BaseException:
        del sys.modules[name]
        raise
    return loaded


def _line(error: BaseException, place: str) -> str:
    """The last line of the user's file in a traceback."""
    wanted = Path(place).name
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name == wanted]
    return f" (line {lines[-1]})" if lines else ""


def user_error(error: BaseException, what: str) -> FpsanError:
    """An exception of a user's function as a sentence with the innermost line outside of this package."""
    package = str(Path(__file__).parent.parent)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(package)]
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return FpsanError(f"{what} raised {type(error).__name__}{place}: {error}")
