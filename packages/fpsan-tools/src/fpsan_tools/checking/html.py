"""A verdict as HTML: one self-contained page, or a fragment for notebooks. Everything from users is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from fpsan_tools.checking.patterns import density
from fpsan_tools.checking.rendering import comparison_rows, run_lines
from fpsan_tools.checking.verdict import Divergence, Finding, Verdict

if TYPE_CHECKING:
    from fpsan_tools.checking.comparing import Comparison

# Colours are set for light and dark by the reader's own preference; notebooks may embed several verdicts.
_STYLE = """
.fpsan{--ink:#1c1f26;--soft:#5b6270;--line:#d9dce3;--paper:#fff;--tint:#f5f6f8;--good:#1d7a46;--bad:#b3261e;--open:#8a5a00;
color:var(--ink);background:var(--paper);font:15px/1.5 system-ui,sans-serif;max-width:62rem;padding:.2rem 1.2rem 1rem}
@media (prefers-color-scheme:dark){.fpsan{--ink:#e6e8ee;--soft:#a0a7b5;--line:#3a3f4b;--paper:#16181d;--tint:#1f2229;
--good:#5fc98d;--bad:#ff8a80;--open:#e6b35a}}
.fpsan h1{font-size:1.25rem;line-height:1.35;margin:.9rem 0 .6rem;padding-left:.7rem;
border-left:.3rem solid var(--mark)}
.fpsan .equal{--mark:var(--good)}.fpsan .different{--mark:var(--bad)}.fpsan .inconclusive{--mark:var(--open)}
.fpsan h2{font-size:1rem;margin:1.3rem 0 .3rem}
.fpsan p{margin:.4rem 0}.fpsan ul{margin:.3rem 0;padding-left:1.2rem}.fpsan li{margin:.25rem 0}
.fpsan .soft{color:var(--soft)}
.fpsan code,.fpsan pre,.fpsan td.fig{font-family:ui-monospace,"DejaVu Sans Mono",
Menlo,Consolas,monospace;font-size:.86em}
.fpsan pre{background:var(--tint);border:1px solid var(--line);border-radius:.25rem;padding:.5rem .7rem;overflow-x:auto;
margin:.3rem 0}
.fpsan .scroll{overflow-x:auto}
.fpsan table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.3rem 0}
.fpsan th,.fpsan td{text-align:left;padding:.25rem .9rem .25rem 0;
border-bottom:1px solid var(--line);vertical-align:top}
.fpsan td.fig{white-space:nowrap}
.fpsan th{color:var(--soft);font-weight:600}
.fpsan svg{display:block;margin:.4rem 0;border:1px solid var(--line);max-width:100%}
.fpsan svg rect.on{fill:var(--bad)}.fpsan svg rect.off{fill:var(--tint)}
.fpsan .tag{border:1px solid var(--line);border-radius:.2rem;padding:0 .35rem;font-size:.82em;color:var(--soft);
margin-right:.3rem}
""".strip()


def page(verdict: Verdict) -> str:
    """A complete HTML page; nothing is loaded from elsewhere and nothing in it runs."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    title = f"{verdict.a} and {verdict.b}: {verdict.outcome}"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n"
        "<style>html{color-scheme:light dark}body{margin:0}@media (prefers-color-scheme:dark){body{background:#16181d}}"
        f"</style>\n</head>\n<body>\n{fragment(verdict)}\n</body>\n</html>"
    )


def fragment(verdict: Verdict) -> str:
    """The verdict as HTML elements with their own style, as notebooks show it."""
    parts = [f'<h1 class="{escape(verdict.outcome)}">{escape(verdict.headline)}</h1>', _paragraph(verdict.meaning)]
    if verdict.comparisons:
        parts += ["<h2>Outputs</h2>", _outputs(verdict)]
        parts += [_picture(c) for c in verdict.comparisons if 0 < c.differing < c.total and not c.problem]
    if verdict.findings:
        parts += ["<h2>Diagnosis</h2>", _list([_finding(finding) for finding in verdict.findings])]
    if verdict.divergence is not None:
        parts += ["<h2>First diverging intermediate</h2>", _divergence(verdict.divergence)]
    if verdict.gaps:
        rows = [[g.side, f"{g.file}:{g.line}", g.kernel, g.op, g.reason] for g in verdict.gaps]
        header = ["side", "place", "kernel", "operation", "it"]
        parts += ["<h2>Not covered by payloads</h2>", _table(header, rows, figures={1, 3})]
    if verdict.notes:
        parts += ["<h2>Notes</h2>", _list([escape(note) for note in verdict.notes])]
    parts += ["<h2>How it was run</h2>", _list([escape(line) for line in [*run_lines(verdict), verdict.date]])]
    if verdict.replay:
        parts.append(f"<pre>{escape(verdict.replay)}</pre>")
    return f'<div class="fpsan"><style>{_STYLE}</style>\n' + "\n".join(parts) + "\n</div>"


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _list(items: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{item}</li>" for item in items) + "</ul>"


def _table(header: list[str], rows: list[list[str]], figures: set[int] | None = None) -> str:
    def row(cells: list[str], tag: str) -> str:
        kinds = [' class="fig"' if tag == "td" and i in (figures or set()) else "" for i in range(len(cells))]
        inner = "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for cell, kind in zip(cells, kinds, strict=True))
        return f"<tr>{inner}</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    return f'<div class="scroll"><table><thead>{row(header, "th")}</thead><tbody>{body}</tbody></table></div>'


def _outputs(verdict: Verdict) -> str:
    header, rows = comparison_rows(verdict)
    return _table(header, rows, figures={0, 1, 2, 3, 4, 5, 6})


_TAGS = {True: "no bug", False: "points at a bug", None: "observation"}


def _finding(finding: Finding) -> str:
    evidence = f'<br><span class="soft">{escape(finding.evidence)}</span>' if finding.evidence else ""
    return f'<span class="tag">{_TAGS[finding.benign]}</span>{escape(finding.text)}{evidence}'


def _divergence(divergence: Divergence) -> str:
    told = []
    for place in divergence.places:
        told.append(
            f"<p><b>{escape(place.side)}</b> <code>{escape(f'{place.file}:{place.line}')}</code> in "
            f"{escape(place.kernel)}</p>"
        )
        if place.source:
            told.append(f"<pre>{escape(place.source)}</pre>")
        told.append(f'<p class="soft">{escape(place.text)}</p>')
    return _paragraph(divergence.text) + "".join(told)


def _picture(comparison: Comparison) -> str:
    """Where the differences lie, as a coarse grid; darker cells hold more of them."""
    grid = density(comparison.different)
    rows, columns = grid.shape
    cell = max(3, min(12, 480 // columns, 280 // rows))
    boxes = [
        f'<rect class="on" x="{x * cell}" y="{y * cell}" width="{cell}" height="{cell}" '
        f'fill-opacity="{0.25 + 0.75 * v:.2f}"/>'
        for y, x in zip(*np.nonzero(grid), strict=True)
        for v in (float(grid[y, x]),)
    ]
    width, height = columns * cell, rows * cell
    shape = "x".join(map(str, comparison.shape))
    label = escape(f"differing elements of {comparison.name} ({shape}): {comparison.pattern.text}")
    return (
        f'<svg role="img" aria-label="{label}" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<rect class="off" width="{width}" height="{height}"/>{"".join(boxes)}</svg>'
    )
