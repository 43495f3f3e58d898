"""An extension of Griffe: powers in docstrings (2**-24) are no emphasis when docstrings are read as Markdown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import griffe

sys.path.insert(0, str(Path(__file__).resolve().parent))

from site_reference import escaped


class Powers(griffe.Extension):
    """Escapes the powers in every docstring."""

    def on_instance(self, *, node: Any, obj: griffe.Object, **_: Any) -> None:
        """Called by Griffe for every module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = escaped(obj.docstring.value)
