"""An extension of Griffe: powers in docstrings (2**-24) are no emphasis when docstrings are read as Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

# Code, which keeps its stars, or a power between a number, a name or a bracket and its exponent.
_CODE = r"``.*?``|`[^`]*`|^ *(?:>>>|\.\.\. )[^\n]*"
_CODE_OR_POWER = re.compile(rf"({_CODE})|(?<=[\w)])\*\*(?=[\w(-])", re.DOTALL | re.MULTILINE)


def escaped(text: str) -> str:
    """The text with the stars of powers escaped, outside of code."""
    return _CODE_OR_POWER.sub(lambda found: found[1] or r"\*\*", text)


class Powers(griffe.Extension):
    """Escapes the powers in every docstring."""

    def on_instance(self, *, node: Any, obj: griffe.Object, **_: Any) -> None:
        """Called by Griffe for every module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = escaped(obj.docstring.value)
