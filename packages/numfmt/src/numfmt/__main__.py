"""``python -m numfmt`` is the command ``numfmt-sim``."""

import sys

from numfmt.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
