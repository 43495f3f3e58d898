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
# What two audits that are compared have in common, as places in their JSON with the words for them; kernels go by their
# names, for a file may have moved, and their constants may differ: that is what a baseline is for.
_SAME = {
    "case.name": "adapter",
    "kernels.A.name": "kernel A",
    "kernels.B.name": "kernel B",
    "case.sizes": "sizes",
    "product.M": "M",
    "product.N": "N",
    "product.K": "K",
    "case.dtype": "dtype",
    "product.dtype": "dtype",
    "product.out_dtype": "out_dtype",
    "product.distribution": "operands",
    "product.atol": "atol",
    "product.rtol": "rtol",
}


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

    Raises:
        UsageError: They are audits of different things: adapters, kernels, sizes, types.
    """
    _refuse_another(path, before, now)
    found = Comparison(str(path))
    old, new = before["verdict"]["status"], now["verdict"]["status"]
    if _BAD[new] > _BAD[old]:
        found.worse.append(f"the verdict was {old} and is {new}.")
    elif _BAD[new] < _BAD[old]:
        found.better.append(f"the verdict was {old} and is {new}.")
    if before.get("device") != now.get("device"):
        found.remarks.append(f"The earlier audit had another device: {before.get('device')}.")
    first, second = before["figures"], now["figures"]
    seeds = _seed(before), _seed(now)
    if seeds[0] != seeds[1]:  # Largest errors and counts of other numbers are others without being worse.
        found.remarks.append(
            f"The earlier audit drew other numbers, with --seed {seeds[0]} instead of {seeds[1]}: its verdict is "
            "compared, its figures are not."
        )
        return found
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


def _refuse_another(path: str | Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuses an earlier audit of something else."""
    for place, word in _SAME.items():
        was, is_now = _at(before, place), _at(now, place)
        if was != is_now:
            raise UsageError(
                f"--baseline: {str(path)!r} is the audit of something else: {word}: {_text(was)}, and here "
                f"{_text(is_now)}. Compare with an audit of the same, or make one with --out."
            )
    if before["figures"] and now["figures"] and not before["figures"].keys() & now["figures"].keys():
        raise UsageError(
            f"--baseline: {str(path)!r} has no figure that this audit has: its inputs or outputs are others. Compare "
            "with an audit of the same, or make one with --out."
        )


def _at(audit: Mapping[str, Any], place: str) -> Any:
    """What stands at a place like "kernels.A.name", None if nothing does."""
    found: Any = audit
    for key in place.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _seed(audit: Mapping[str, Any]) -> Any:
    product = _at(audit, "product.seed")
    return _at(audit, "case.seed") if product is None else product


def _text(x: Any) -> str:
    if x is None:
        return "not given"
    return ", ".join(f"{k}={v}" for k, v in x.items()) if isinstance(x, Mapping) else str(x)
