"""A verdict as text, as data, and in files."""

from __future__ import annotations

import json
import textwrap
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fpsan_tools.checking.comparing import Comparison
from fpsan_tools.checking.verdict import Verdict, percent
from fpsan_tools.exceptions import FpsanError

WIDTH = 110


def table(header: list[str], rows: list[list[str]]) -> str:
    """Columns of text, two spaces apart."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [header, *rows]]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def comparison_rows(verdict: Verdict) -> tuple[list[str], list[list[str]]]:
    """The outputs as a table: header and rows."""
    header = ["output", "type", "shape", "differing", "first at", "a", "b", "where"]
    return header, [_row(c) for c in verdict.comparisons]


def _row(c: Comparison) -> list[str]:
    shape = "x".join(map(str, c.shape)) or "scalar"
    if c.problem:
        return [c.name, c.dtype, shape, "all", "", "", "", c.problem]
    first = f"[{', '.join(map(str, c.first))}]" if c.differing else ""
    count = f"{c.differing} ({percent(c.share)})" if c.differing else "0"
    return [c.name, c.dtype, shape, count, first, *c.values, c.pattern.text]


def run_lines(verdict: Verdict) -> list[str]:
    """How the check was run, one fact per line."""
    sizes = ", ".join(f"{name}={size}" for name, size in verdict.sizes.items())
    seeds = f"seed{'s' if len(verdict.seeds) != 1 else ''} {', '.join(map(str, verdict.seeds))}"
    if verdict.differing_seeds and len(verdict.seeds) > 1:
        seeds += f" (different for {', '.join(map(str, verdict.differing_seeds))})"
    lines = [
        f"algebra {verdict.version}, engine {verdict.engine}, Triton {verdict.triton or 'not installed'}",
        f"{seeds}{'; sizes ' + sizes if sizes else ''}",
    ]
    for side, launched in verdict.kernels.items():
        lines.append(f"{side}: {getattr(verdict, side)}: {', '.join(launched) or 'nothing that ran to its end'}")
    return lines


def as_text(verdict: Verdict) -> str:
    """The verdict as text."""
    parts = [_wrapped(verdict.headline)]
    if verdict.comparisons:
        parts.append(table(*comparison_rows(verdict)))
    parts.append("\n".join(run_lines(verdict)))
    if verdict.findings:
        told = [_wrapped(f.text + (f" [{f.evidence}]" if f.evidence else ""), "- ") for f in verdict.findings]
        parts.append("Diagnosis\n" + "\n".join(told))
    if verdict.divergence is not None:
        lines = [_wrapped(verdict.divergence.text)]
        for place in verdict.divergence.places:
            lines.append(f"  {place.side}: {place.file}:{place.line}  {place.source}")
            lines.append(_wrapped(place.text, "     "))
        parts.append("First diverging intermediate\n" + "\n".join(lines))
    if verdict.gaps:
        rows = [[g.side, f"{g.file}:{g.line}", g.op, g.reason] for g in verdict.gaps]
        parts.append("Not covered by payloads\n" + table(["side", "place", "operation", "it"], rows))
    if verdict.notes:
        parts.append("Notes\n" + "\n".join(_wrapped(note, "- ") for note in verdict.notes))
    parts.append(_wrapped(verdict.meaning))
    if verdict.replay:
        parts.append(f"Replay: {verdict.replay}")
    return "\n\n".join(parts)


def _wrapped(text: str, mark: str = "") -> str:
    blank = " " * len(mark)
    return textwrap.fill(
        text, WIDTH, initial_indent=mark, subsequent_indent=blank, break_long_words=False, break_on_hyphens=False
    )


def as_dict(verdict: Verdict) -> dict[str, Any]:
    """The verdict as JSON-ready data; arrays are left out."""
    return {
        "outcome": verdict.outcome,
        "headline": verdict.headline,
        "reason": verdict.reason,
        "meaning": verdict.meaning,
        "a": verdict.a,
        "b": verdict.b,
        "algebra": verdict.version,
        "engine": verdict.engine,
        "triton": verdict.triton,
        "date": verdict.date,
        "seed": verdict.seed,
        "seeds": list(verdict.seeds),
        "differing_seeds": list(verdict.differing_seeds),
        "sizes": dict(verdict.sizes),
        "kernels": {side: list(launched) for side, launched in verdict.kernels.items()},
        "outputs": [_comparison_dict(c) for c in verdict.comparisons],
        "diagnosis": [asdict(finding) for finding in verdict.findings],
        "divergence": _divergence_dict(verdict),
        "not_covered": [asdict(gap) for gap in verdict.gaps],
        "notes": list(verdict.notes),
        "replay": verdict.replay,
    }


def _divergence_dict(verdict: Verdict) -> dict[str, Any] | None:
    found = verdict.divergence
    if found is None:
        return None
    return {"places": [asdict(place) for place in found.places], "sure": found.sure, "text": found.text}


def _comparison_dict(c: Comparison) -> dict[str, Any]:
    return {
        "name": c.name,
        "dtype": c.dtype,
        "shape": list(c.shape),
        "differing": c.differing,
        "total": c.total,
        "share": c.share,
        "first": list(c.first),
        "payloads": list(c.values),
        "pattern": {"kind": c.pattern.kind, "text": c.pattern.text, "exact": c.pattern.exact},
        "problem": c.problem,
    }


def as_json(verdict: Verdict) -> str:
    """The verdict as JSON."""
    return json.dumps(as_dict(verdict), indent=2, ensure_ascii=False)


def save(verdict: Verdict, path: str | Path) -> Path:
    """Write a verdict; the ending says how.

    Raises:
        FpsanError: for another ending than .json, .html, .txt.
    """
    target = Path(path)
    forms = {".json": verdict.to_json, ".html": verdict.to_html, ".txt": verdict.to_text}
    if target.suffix not in forms:
        raise FpsanError(f"{target}: the name must end in {', '.join(forms)}, which says how the verdict is written")
    write(target, forms[target.suffix]() + "\n")
    return target


def write(target: Path, text: str) -> None:
    """Write a file under a temporary name and move it, so that it is complete or as it was before."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
