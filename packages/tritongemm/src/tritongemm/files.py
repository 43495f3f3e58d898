"""Files that are complete or not there: written under a temporary name, then moved."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def replaced(path: str | os.PathLike[str], text: str) -> Path:
    """Writes a text file in one step: an interrupted run leaves the old file as it was.

    Args:
        path: The file to write or replace; its folder is made if need be.
        text: The content, written as UTF-8.

    Returns:
        The path.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    return path


def why_unwritable(folder: str | os.PathLike[str], names: Iterable[str] = ()) -> str | None:
    """Why files cannot be made in a folder: tried with a temporary one, of which nothing is left, nor of new folders.

    Args:
        folder: The folder, which need not exist yet.
        names: Files that are to be written there.

    Returns:
        The reason; None if there is none to be seen.
    """
    folder = Path(folder).absolute()
    made: list[Path] = []
    try:
        missing = [place for place in (folder, *folder.parents) if not os.path.exists(place)]
        for place in reversed(missing):
            place.mkdir()
            made.append(place)
        if not os.path.isdir(folder):
            return f"{folder} is no folder"
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".", suffix=".part")
        os.close(handle)
        os.unlink(temporary)
    except (OSError, ValueError) as error:
        there = next((place for place in (folder, *folder.parents) if os.path.exists(place)), folder)
        reason = getattr(error, "strerror", None) or str(error)
        return f"{there} is no folder" if not os.path.isdir(there) else f"{reason}: {folder}"
    finally:
        for place in reversed(made):
            with contextlib.suppress(OSError):
                place.rmdir()
    taken = next((folder / name for name in names if (folder / name).is_dir()), None)
    return f"{taken} is a folder" if taken else None
