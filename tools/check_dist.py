"""Check the built distributions: exactly the files they must contain, and metadata that agrees with the source.

Usage: python tools/check_dist.py DIST_FOLDER
"""

from __future__ import annotations

import email
import re
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
#: distribution name -> (folder under packages/, import name)
PACKAGES = {
    "numfmt-sim": ("numfmt", "numfmt"),
    "fpsan-tools": ("fpsan-tools", "fpsan_tools"),
    "tritongemm": ("tritongemm", "tritongemm"),
    "numfmt-lectures": ("lectures", "numfmt_lectures"),
}
#: Files of a package that are not Python: everything a wheel may carry besides modules.
DATA_SUFFIXES = {".py", ".typed", ".json", ".npz", ".toml", ".css", ".js", ".html", ".svg"}


def source_files(folder: str, name: str) -> set[str]:
    """The files below `src/` that belong into the wheel, as paths inside it."""
    source = ROOT / "packages" / folder / "src"
    return {
        path.relative_to(source).as_posix()
        for path in (source / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def check_wheel(path: Path, dist: str, folder: str, name: str) -> list[str]:
    """Compare a wheel with the source tree; returns the complaints."""
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        info = next(entry for entry in names if entry.endswith(".dist-info/METADATA")).rsplit("/", 1)[0]
        metadata = email.message_from_string(archive.read(f"{info}/METADATA").decode())
    wanted = source_files(folder, name)
    expected = wanted | {
        f"{info}/{entry}" for entry in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    }
    faults = [f"lacks {entry}" for entry in sorted(expected - names)]
    faults += [f"carries {entry}, which is not in the source tree" for entry in sorted(names - expected)]
    faults += [
        f"carries {entry}, a kind of file no package ships"
        for entry in sorted(wanted)
        if PurePosixPath(entry).suffix not in DATA_SUFFIXES
    ]
    if f"{name}/py.typed" not in names:
        faults.append(f"lacks {name}/py.typed")
    version = re.search(
        r'^__version__ = "(.+)"$', (ROOT / "packages" / folder / "src" / name / "__init__.py").read_text(), re.M
    )
    if version is None or metadata["Version"] != version.group(1):
        faults.append(f"says version {metadata['Version']}, the source {version and version.group(1)}")
    if metadata["Name"] != dist:
        faults.append(f"is named {metadata['Name']}, not {dist}")
    if metadata["License-Expression"] != "MIT":
        faults.append(f"has licence {metadata['License-Expression']}, not MIT")
    return faults


def check_sdist(path: Path) -> list[str]:
    """An sdist must hold what a packager needs: source, tests, licence, changelog; returns the complaints."""
    with tarfile.open(path) as archive:
        names = {PurePosixPath(*PurePosixPath(entry.name).parts[1:]).as_posix() for entry in archive.getmembers()}
    wanted = {"pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "PKG-INFO"}
    faults = [f"lacks {entry}" for entry in sorted(wanted - names)]
    faults += [
        f"lacks {folder}/" for folder in ("src", "tests") if not any(entry.startswith(f"{folder}/") for entry in names)
    ]
    faults += [f"carries {entry}" for entry in sorted(names) if "__pycache__" in entry or entry.endswith(".pyc")]
    return faults


def main(folder: Path) -> int:
    """Check every distribution in `folder`; returns the exit code."""
    failed = False
    for dist, (package, name) in PACKAGES.items():
        stem = dist.replace("-", "_")
        wheels, sdists = sorted(folder.glob(f"{stem}-*.whl")), sorted(folder.glob(f"{stem}-*.tar.gz"))
        if len(wheels) != 1 or len(sdists) != 1:
            print(f"{dist}: expected one wheel and one sdist in {folder}, found {len(wheels)} and {len(sdists)}")
            failed = True
            continue
        for path, faults in (
            (wheels[0], check_wheel(wheels[0], dist, package, name)),
            (sdists[0], check_sdist(sdists[0])),
        ):
            size = path.stat().st_size / 1024
            print(f"{path.name}: {size:.0f} KiB, {'ok' if not faults else 'FAULTY'}")
            for fault in faults:
                print(f"  {fault}")
                failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
