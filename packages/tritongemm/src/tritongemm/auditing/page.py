"""The report as one HTML page: no script, nothing loaded from elsewhere, every text escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tritongemm.auditing.document import Document, Plot
from tritongemm.auditing.svg import svg
from tritongemm.tables import Table

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1c20; --soft: #5d6470; --page: #ffffff; --card: #f6f7f9; --line: #d9dde3;
  --c0: #1f6feb; --c1: #d1540f; --c2: #6e7781; --c3: #8250df; --good: #1a7f37; --warn: #9a6700; --bad: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #9aa3af; --page: #15181d; --card: #1d2127; --line:
#363c46;
  --c0: #6cb0ff; --c1: #ff9a5c; --c2: #a5adb8; --c3: #c297ff; --good: #57c772; --warn: #e0b040; --bad: #ff7b72; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 2rem 1.2rem 4rem; font: 16px/1.55 system-ui, sans-serif; color:
var(--ink);
  background: var(--page); }
h1 { font-size: 1.55rem; line-height: 1.25; margin: 0 0 .8rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--line); }
p { margin: .5rem 0; overflow-wrap: anywhere; }
.verdict { display: inline-block; font-weight: 700; padding: .25rem .8rem; border-radius: .4rem; border: 2px solid; }
.pass { color: var(--good); } .limits { color: var(--warn); } .fail { color: var(--bad); }
/* Shadows at the edges tell that a table goes on; they scroll away with its ends. */
.wide { overflow-x: auto; margin: .3rem 0 .8rem; background:
  linear-gradient(to right, var(--page) 30%, transparent) left / 2.5rem 100% no-repeat local,
  linear-gradient(to left, var(--page) 30%, transparent) right / 2.5rem 100% no-repeat local,
  linear-gradient(to right, var(--line), transparent) left / .9rem 100% no-repeat scroll,
  linear-gradient(to left, var(--line), transparent) right / .9rem 100% no-repeat scroll; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
.caption, figcaption, .key { overflow-wrap: anywhere; min-width: 0; }
.caption { font-weight: 600; font-size: .9rem; margin: 1rem 0 0; }
th, td { padding: .3rem .55rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: bottom; }
th:first-child, td:first-child { padding-left: 0; }
th { color: var(--soft); font-weight: 600; }
td { white-space: nowrap; } th.text, td.text { text-align: left; }
td.text { white-space: normal; min-width: 8rem; max-width: 30rem; overflow-wrap: anywhere; }
ul { margin: .6rem 0; padding-left: 1.2rem; } li { margin: .25rem 0; overflow-wrap: anywhere; }
.note { color: var(--soft); font-size: .9rem; }
figure { margin: 1.2rem 0; padding: 1rem; background: var(--card); border-radius: .5rem; }
figcaption { font-weight: 600; margin-bottom: .4rem; }
.plot { overflow-x: auto; } svg { width: 100%; min-width: 34rem; height: auto; display: block; }
svg text { fill: var(--soft); font: 12px system-ui, sans-serif; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg path { fill: none; stroke-width: 2; } svg .dashed { stroke-dasharray: 6 4; }
svg path.c0 { stroke: var(--c0); } svg path.c1 { stroke: var(--c1); } svg path.c2 { stroke: var(--c2); }
svg path.c3 { stroke: var(--c3); }
svg circle.c0 { fill: var(--c0); } svg circle.c1 { fill: var(--c1); } svg circle.c2 { fill: var(--c2); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; font-size: .85rem; margin-bottom: .3rem; }
.key i { display: inline-block; width: 1.4rem; height: 0; border-top: 3px solid; margin-right: .4rem; vertical-align:
middle; } .key i.dashed { border-top-style: dashed; } .key i.dots { width: .5rem; height: .5rem; border: 0;
border-radius: 50%;
  background: currentColor; }
.key.c0 i { color: var(--c0); } .key.c1 i { color: var(--c1); } .key.c2 i { color: var(--c2); }
.key.c3 i { color: var(--c3); }
@media (min-width: 40rem) { td.text:first-child { min-width: 12.5rem; } }
@media (max-width: 40rem) { body { padding: 1rem .9rem 3rem; } figure { padding: .7rem; } table { font-size: .82rem; }
  td.text { min-width: 8rem; } }
"""
_CLASSES = {"PASS": "pass", "PASS WITH LIMITATIONS": "limits", "INCONCLUSIVE": "limits", "FAIL": "fail"}


def page(document: Document) -> str:
    """A report as HTML.

    Args:
        document: The report.

    Returns:
        A complete page.
    """
    body = [f"<h1>{escape(document.title)}</h1>"]
    if document.verdict:
        body.append(f'<p class="verdict {_CLASSES.get(document.verdict, "fail")}">{escape(document.verdict)}</p>')
    if document.summary:
        body.append("<ul>" + "".join(f"<li>{escape(s)}</li>" for s in document.summary) + "</ul>")
    body += [f'<p class="note">{escape(s)}</p>' for s in document.lead]
    for section in document.sections:
        body.append(f"<h2>{escape(section.title)}</h2>")
        for item in section.items:
            if isinstance(item, str):
                body.append(f"<p>{escape(item)}</p>")
            elif isinstance(item, Table):
                body.append(_table(item))
            else:
                body.append(_figure(item))
    title = escape(f"{document.verdict}: {document.title}" if document.verdict else document.title)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def _table(table: Table) -> str:
    def cells(row: Sequence[str], tag: str) -> str:
        kinds = (' class="text"' if i in table.texts else "" for i in range(len(row)))
        return (
            "<tr>" + "".join(f"<{tag}{kind}>{escape(c)}</{tag}>" for kind, c in zip(kinds, row, strict=True)) + "</tr>"
        )

    head = cells(table.columns, "th")
    rows = "".join(cells(row, "td") for row in table.rows)
    caption = f'<p class="caption">{escape(table.title)}</p>' if table.title else ""  # Outside of what scrolls.
    label = f' aria-label="{escape(table.title, quote=True)}"' if table.title else ""
    notes = "".join(f'<p class="note">{escape(n)}</p>' for n in table.notes)
    body = f"<table{label}><thead>{head}</thead><tbody>{rows}</tbody></table>"
    return f'{caption}<div class="wide" tabindex="0">{body}</div>{notes}'


def _figure(plot: Plot) -> str:
    caption = f'<p class="note">{escape(plot.caption)}</p>' if plot.caption else ""
    return f"<figure><figcaption>{escape(plot.title)}</figcaption>{svg(plot)}{caption}</figure>"
