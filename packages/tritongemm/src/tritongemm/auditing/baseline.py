"""What got worse since a stored audit."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tritongemm.auditing.verdict import FAIL, INCONCLUSIVE, LIMITED, PASS
from tritongemm.errors import UsageError
from tritongemm.tables import figure

Figures = dict[str, float]
"""Figures of an audit by name; more is worse."""

_BAD = {PASS: 0, LIMITED: 1, INCONCLUSIVE: 2, FAIL: 3}
# A figure is worse when it grew by more than this; samples of equal size differ by less.
_WORSE = 1.1


@dataclass
class Comparison:
    """An audit beside an earlier one.

    Attributes:
        path: The earlier one's file.
        worse: What got worse, in sentences.
        better: What got better.
        same: Figures that did neither.
        unknown: Figures that only one of the two has.
        remarks: What makes the comparison weak.
    """

    path: str
    worse: list[str] = field(default_factory=list)
    better: list[str] = field(default_factory=list)
    same: int = 0
    unknown: int = 0
    remarks: list[str] = field(default_factory=list)

    def sentences(self) -> list[str]:
        """The comparison in words."""
        said = [f"Since {self.path}: {len(self.worse)} worse, {len(self.better)} better, {self.same} as they were."]
        said += [f"Worse: {text}" for text in self.worse]
        said += [f"Better: {text}" for text in self.better[:5]]
        if self.unknown:
            said.append(f"{self.unknown} figures are in one of the two audits only.")
        return said + self.remarks


def load_baseline(path: str | Path) -> dict[str, Any]:
    """Reads a stored audit.

    Args:
        path: An `audit.json`.

    Raises:
        UsageError: It cannot be read, or is none.
    """
    try:
        read = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--baseline: {str(path)!r} cannot be read as JSON: {error}") from None
    if not isinstance(read, dict) or "verdict" not in read or "figures" not in read:
        raise UsageError(f"--baseline: {str(path)!r} is no audit.json of this version; make one with --out.")
    return read


def compare_with(path: str | Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> Comparison:
    """Compares two audits, as their JSON.

    Args:
        path: The earlier one's file.
        before: The earlier one.
        now: The new one.
    """
    found = Comparison(str(path))
    old, new = before["verdict"]["status"], now["verdict"]["status"]
    if _BAD[new] > _BAD[old]:
        found.worse.append(f"the verdict was {old} and is {new}.")
    elif _BAD[new] < _BAD[old]:
        found.better.append(f"the verdict was {old} and is {new}.")
    for key in ("device", "product", "case"):
        if before.get(key) != now.get(key):
            found.remarks.append(f"The earlier audit had another {key}: {_text(before.get(key))}.")
    first, second = before["figures"], now["figures"]
    for name in (*first, *(n for n in second if n not in first)):
        if name not in first or name not in second:
            found.unknown += 1
            continue
        was, is_now = float(first[name]), float(second[name])
        text = f"{name} was {figure(was)} and is {figure(is_now)}."
        if math.isnan(is_now) != math.isnan(was) or is_now > _WORSE * was:
            found.worse.append(text)
        elif is_now * _WORSE < was:
            found.better.append(text)
        else:
            found.same += 1
    return found


def _text(x: Any) -> str:
    return ", ".join(f"{k} {v}" for k, v in x.items()) if isinstance(x, Mapping) else str(x)
