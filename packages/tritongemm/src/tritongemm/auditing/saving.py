"""The report's files: a page for people and JSON for programs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from tritongemm.auditing.document import Document
from tritongemm.auditing.page import page
from tritongemm.files import replaced

REPORT_FILES = ("audit.html", "audit.json")


def save_report(folder: str | Path, document: Document, data: dict[str, Any]) -> tuple[Path, Path]:
    """Writes `audit.html` and `audit.json`; an interrupted run leaves the old ones.

    Args:
        folder: Where to; made if need be.
        document: The page's content.
        data: The JSON's.

    Returns:
        Both paths.
    """
    folder = Path(folder)
    html, plain_data = (folder / name for name in REPORT_FILES)
    made = replaced(plain_data, json.dumps(plain(data), indent=1, allow_nan=False) + "\n")
    return replaced(html, page(document)), made


def plain(x: Any) -> Any:
    """The same in JSON's types; NaN and infinities as text."""
    if isinstance(x, dict):
        return {str(k): plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [plain(v) for v in x]
    if isinstance(x, float) and not math.isfinite(x):
        return str(x)
    return x
