"""Set a package's `__version__`, the one place its version is written.

Usage: python tools/set_version.py PACKAGE VERSION
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(package: str, version: str) -> int:
    """Write the version; returns the exit code."""
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        print(f"VERSION must look like 1.2.3 or 1.2.3rc1, got {version!r}")
        return 2
    (init,) = (ROOT / "packages" / package / "src").glob("*/__init__.py")
    text, count = re.subn(r'^__version__ = ".*"$', f'__version__ = "{version}"', init.read_text(), flags=re.M)
    if count != 1:
        print(f"{init} must hold exactly one __version__ line, found {count}")
        return 1
    init.write_text(text)
    print(f"{init.relative_to(ROOT)}: {version}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__)
        sys.exit(2)
    sys.exit(main(sys.argv[1], sys.argv[2]))
