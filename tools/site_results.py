"""The figures of `bench/results` as tables and plots, for the site's pages.

A page's line `[[results VIEW NAME]]` becomes what the view writes of each result file whose name (without .json) fits;
NAME may be a pattern. A view of a file that is not there writes nothing: a benchmark may not have been run yet.
`bench/results/recorded.toml` says of a file what it does not say itself.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from html import escape
from pathlib import Path
from typing import Any

import site_tests
from site_plots import Curve, bars, figure, plot

RESULTS = Path(__file__).resolve().parents[1] / "bench" / "results"
Data = dict[str, Any]
View = Callable[[str, Data], Iterator[str]]
VIEWS: dict[str, View] = {}
SECOND = "-second"


def view(function: View) -> View:
    """Register a view under its name, underscores as hyphens."""
    VIEWS[function.__name__.removesuffix("_").replace("_", "-")] = function
    return function


def names(pattern: str, folder: Path = RESULTS) -> list[str]:
    """Names of the result files that fit a pattern, in order."""
    return sorted(path.stem for path in folder.glob("*.json") if fnmatchcase(path.stem, pattern))


def render(which: str, pattern: str, folder: Path = RESULTS) -> str:
    """Markdown of a view of each result file that fits.

    Args:
        which: name of the view.
        pattern: name of the files, `*` and `?` as in a shell.
        folder: where the files are.

    Returns:
        Markdown, empty if no file fits.

    Raises:
        LookupError: there is no such view.
    """
    if which not in VIEWS:
        raise LookupError(f"no view {which!r} of results; there are {', '.join(sorted(VIEWS))}")
    lines: list[str] = []
    for name in names(pattern, folder):
        data = read(name, folder)
        written = list(VIEWS[which](name, data))
        if written:
            lines += [f"<!-- results: {name} -->", "", *written, ""]
    return "\n".join(lines)


def read(name: str, folder: Path = RESULTS) -> Data:
    """What a file holds; a list lies under "entries", and the run that a second run repeats under "first"."""
    data = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    data = data if isinstance(data, dict) else {"entries": data}
    if name.endswith(SECOND):
        data["first"] = read(name.removesuffix(SECOND), folder)
    return data


def recorded(folder: Path = RESULTS) -> dict[str, Data]:
    """What is known of each result file beside its content."""
    path = folder / "recorded.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def table(head: list[str], rows: list[list[str]], numbers: int = 1) -> Iterator[str]:
    """A Markdown table whose columns from `numbers` on are aligned to the right."""
    yield "| " + " | ".join(head) + " |"
    yield "| " + " | ".join("---" if i < numbers else "---:" for i in range(len(head))) + " |"
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "&#124;") for cell in row) + " |"


# What is known about a measurement.

FACTS = {"device": "", "gpu": "", "driver": "driver ", "cuda": "CUDA ", "clocks": "clocks ", "cpu": ""}


def facts(name: str, data: Data) -> dict[str, str]:
    """Machine, versions, clocks and date of a result file, as texts; empty ones are left out."""
    beside = recorded().get(name, {})
    versions = {key: str(data[key]) for key in ("python", "numpy", "torch", "triton") if isinstance(data.get(key), str)}
    versions = {**beside.get("versions", {}), **versions, **(data.get("versions") or data.get("environment") or {})}
    machine = [label + _words(data[key]) for key, label in FACTS.items() if data.get(key)] or [
        beside.get("machine") or data.get("machine", "")
    ]
    found = {
        "machine": ", ".join(machine),
        "versions": ", ".join(f"{key} {_words(value)}" for key, value in versions.items() if value),
        "recorded": str(data.get("date") or data.get("recorded") or beside.get("date", "")),
        "command": str(data.get("replay") or data.get("command") or beside.get("command", "")),
    }
    return {key: text for key, text in found.items() if text}


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key.replace('_', ' ')} {_words(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(_words(inner) for inner in value)
    return figure(value) if isinstance(value, float) else str(value)


@view
def source(name: str, data: Data) -> Iterator[str]:
    """Where a file's figures come from, in one paragraph."""
    known = facts(name, data)
    texts = [known.get("machine", ""), known.get("versions", ""), known.get("recorded", "")]
    command = f" Made by `{known['command']}`." if "command" in known else ""
    told = " ".join([*(f"{text}." for text in texts if text), f"{command} Data: `bench/results/{name}.json`.".strip()])
    yield f'<div class="source" markdown>\n{told}\n</div>'


def title(name: str) -> str:
    """A heading for a file."""
    return str(recorded().get(name, {}).get("title") or name)


def overview(pages: dict[str, list[str]]) -> Iterator[str]:
    """A table of every result file and the pages that show it: name to links."""
    rows = []
    for name in names("*"):
        known = facts(name, read(name))
        shown = ", ".join(pages.get(name, []))
        # A date is one word.
        date = known.get("recorded", "").replace("-", "\u2011")
        rows.append([f"{title(name)}<br>`{name}`", known.get("machine", ""), date, shown])
    yield from table(["measurement", "machine", "recorded", "shown on"], rows, 4)


# The audit.

SERIES = {"library": 2, "B": 1, "A": 0}


def _strata(data: Data) -> dict[str, Data]:
    strata: dict[str, dict[str, Data]] = data["rounding"]["strata"]
    return strata["all"] if "all" in strata else next(iter(strata.values()))


def _called(key: str, data: Data) -> str:
    name = data["rounding"]["names"].get(key, key)
    return f"{key} ({name})"


@view
def accuracy(name: str, data: Data) -> Iterator[str]:
    """The table of errors of an audit."""
    columns: list[tuple[str, Callable[[Data], str]]] = [
        ("rms error<br>u·Σ\\|p\\|", lambda r: figure(r["rms_scaled"])),
        ("largest<br>u·Σ\\|p\\|", lambda r: figure(r["max_scaled"])),
        ("largest error", lambda r: figure(r["max_abs"])),
        ("bias<br>u·Σ\\|p\\|", lambda r: figure(r["bias"], 1)),
        ("outside<br>of float64", lambda r: figure(r["outside"])),
        ("outside<br>of the library", lambda r: figure(r["outside_library"])),
        ("bits of<br>the library", lambda r: _share(r["bits_of_library"], r["outputs"])),
        ("of its bound<br>at most", lambda r: f"{100 * r['bound_used']:.2g} %"),
    ]
    product = data["product"]
    reports = {key: report for key, report in _strata(data).items() if key in SERIES}
    rows = [[_called(key, data), *(cell(reports[key]) for _, cell in columns)] for key in SERIES if key in reports]
    yield (
        f"M = {product['M']:,}, N = {product['N']:,}, K = {product['K']:,}, {product['dtype'].upper()}, inputs "
        f"{product['distribution']} in (-1, 1), all {data['rounding']['evaluated']:,} outputs against float64; "
        f"tolerance atol = {product['atol']:g}, rtol = {product['rtol']:g}.\n"
    )
    yield from table(["product", *(head.replace("\\|", "&#124;") for head, _ in columns)], rows)


def _share(part: int | None, whole: int) -> str:
    if part is None:
        return "–"
    return "all" if part == whole else f"{100 * part / whole:.1f} %"


@view
def bars_of_errors(name: str, data: Data) -> Iterator[str]:
    """Root mean square errors as bars."""
    reports = _strata(data)
    rows = [
        (_called(key, data), reports[key]["rms_scaled"], figure(reports[key]["rms_scaled"]))
        for key in SERIES
        if key in reports
    ]
    yield bars("rms error in units of u·Σ|p|: shorter is better", rows, [_called("library", data)])


# The home page's words, by language.
SUMMARY = {
    "en": {
        "library": "library (cuBLAS)",
        "blocked_kernel": "blocked tl.dot",
        "strided_lanes_kernel": "strided lanes",
        "caption": "FP32 products on an {device}, M = {M}, K = {K}, N = {N}: rms error / u·Σ|p|, and misses of "
        "{tolerance} against float64 among {outputs} outputs",
        "misses": "{error} · {count} misses",
    },
    "zh": {
        "library": "库（cuBLAS）",
        "blocked_kernel": "分块 tl.dot",
        "strided_lanes_kernel": "并行累加（strided lanes）",
        "caption": "{device} 上的 FP32 乘积，M = {M}，K = {K}，N = {N}：误差均方根 / u·Σ|p|，以及 {outputs} 个输出中以 "
        "{tolerance} 与 float64 相比不通过的个数",
        "misses": "{error} · {count} 处不通过",
    },
}


def _summary(data: Data, language: str) -> str:
    words = SUMMARY[language]
    product, reports = data["product"], _strata(data)
    tolerance = f"atol = rtol = {product['atol']:g}".replace("0.0001", "1e-4")
    facts = {**product, "tolerance": tolerance, "outputs": figure(data["rounding"]["evaluated"])}
    facts["device"] = data["device"].partition(" (")[0]
    rows = []
    for key in SERIES:
        report = reports[key]
        text = words["misses"].format(error=figure(report["rms_scaled"]), count=report["outside"])
        rows.append((words[key if key == "library" else report["name"]], report["rms_scaled"], text))
    return bars(words["caption"].format(**facts), rows, [words["library"]])


@view
def summary(name: str, data: Data) -> Iterator[str]:
    """Errors and misses in one chart, for the home page."""
    yield _summary(data, "en")


@view
def summary_zh(name: str, data: Data) -> Iterator[str]:
    """The same in Chinese."""
    yield _summary(data, "zh")


@view
def errors(name: str, data: Data) -> Iterator[str]:
    """How errors are distributed, and how they grow with the condition number."""
    histograms, growth = [], []
    unit = math.log10(2.0**-24)
    for key, report in _strata(data).items():
        if key not in ("A", "B"):
            continue
        counts, low, per = (report["histogram"][part] for part in ("counts", "lowest", "per_octave"))
        filled = [i for i, count in enumerate(counts) if count]
        steps = [(low + i / per, 100 * counts[i] / report["outputs"]) for i in range(filled[0], filled[-1] + 1)]
        steps.append((low + (filled[-1] + 1) / per, 0.0))
        histograms.append(Curve(_called(key, data), steps, SERIES[key], "steps"))
        kappa = report["by_kappa"]
        centres = [edge + kappa["width"][0] / 2 for edge in kappa["log10_kappa"]]
        for label, part, style in (("rms", "rms", "line"), ("largest", "max", "dots")):
            points = [(x, math.log10(y) + unit) for x, y in zip(centres, kappa[part], strict=True) if y > 0]
            growth.append(Curve(f"{key}, {label}", points, SERIES[key], style))
        bound = [(x, x + math.log10(report["relative_bound"])) for x in (centres[0], centres[-1])]
        growth.append(Curve(f"{key}, bound", bound, SERIES[key], "dashed"))
    yield plot("How large the errors are", "|error| / (u·Σ|p|)", "% of the outputs", histograms, x_log=2)
    yield ""
    yield plot(
        "Errors against the condition of the output",
        "κ = Σ|p| / |Σp|",
        "|error| / |result|",
        growth,
        x_log=10,
        y_log=10,
    )


@view
def kappa(name: str, data: Data) -> Iterator[str]:
    """Quantiles of the condition numbers of an audit's outputs."""
    quantiles = next(iter(_strata(data).values()))["kappa"]
    heads = ["largest" if float(q) == 1 else f"{100 * float(q):g} %" for q in quantiles]
    yield from table(["share of the outputs", *heads], [["κ at most", *(figure(v) for v in quantiles.values())]])


@view
def verdict(name: str, data: Data) -> Iterator[str]:
    """An audit's verdict, sentence by sentence."""
    yield f"**{data['verdict']['status']}**\n"
    for sentence in data["verdict"]["sentences"]:
        yield f"- {escape(sentence, quote=False)}"


@view
def audits(name: str, data: Data) -> Iterator[str]:
    """A further audit: what was audited, on what, and its verdict."""
    yield f"### {title(name)} {{ #{name} }}\n"
    yield from source(name, data)
    yield ""
    if isinstance(data.get("verdict"), dict) and {"status", "sentences"} <= set(data["verdict"]):
        yield from verdict(name, data)
    else:
        yield from _as_it_is(data)


@view
def trials(name: str, data: Data) -> Iterator[str]:
    """The products whose payloads an audit compared."""
    rows = [
        [trial["why"], trial["layout"], *(figure(trial[key]) for key in ("M", "N", "K", "different"))]
        for trial in data["algebra"]["trials"]
    ]
    yield from table(["shape", "layout", "M", "N", "K", "different payloads"], rows, 2)


# Tests.

EDGES = ("edges", "edges_kernels", "edges_gpu", "hopper_gpu", "invariance_gpu", "mistakes")
"""Test files of tritongemm whose tests are listed one by one."""


@view
def edge_tests(name: str, data: Data) -> Iterator[str]:
    """Every test of an edge: what it says, where it runs, and how many of its cases passed on the recorded GPU."""
    for file in EDGES:
        path = site_tests.TESTS / f"test_tritongemm_{file}.py"
        ran = data["tests"].get(path.stem, {})
        rows = []
        for test in site_tests.tests_of(path):
            passed = ran.get(test.name, {}).get("passed", 0)
            rows.append([test.sentence, "GPU" if test.gpu else "CPU", figure(passed) if passed else "-" * test.gpu])
        yield f"### {site_tests.subject(path)}\n"
        yield from table(["what is tested", "runs on", "cases passed"], rows, 2)
        yield ""


@view
def gpu_tests(name: str, data: Data) -> Iterator[str]:
    """Per test file, how many tests and cases passed on the recorded GPU."""
    rows = []
    for file, tests in data["tests"].items():
        path = site_tests.file_named(file)
        package = path.relative_to(site_tests.PACKAGES).parts[0]
        rows.append([site_tests.subject(path), f"`{package}`", f"`{file}.py`", *map(figure, _counted(tests))])
    totals = (sum(column) for column in zip(*map(_counted, data["tests"].values()), strict=True))
    rows.append(["**all**", "", "", *(f"**{figure(total)}**" for total in totals)])
    yield from table(["what is tested", "package", "file", "tests", "cases passed"], rows, 3)


def _counted(tests: Data) -> tuple[int, int]:
    return len(tests), sum(entry["passed"] for entry in tests.values())


# Matrix units.


@view
def dots(name: str, data: Data) -> Iterator[str]:
    """Kernels with tl.dot, by operand type: outputs compared and outputs that differ from the model."""
    groups: dict[str, list[Data]] = {}
    for case, entry in data.items():
        if case != "total":
            groups.setdefault(case.partition("-")[0], []).append(entry)
    rows = [
        [
            f"`{kind}`",
            figure(len(entries)),
            *(figure(sum(e[key] for e in entries)) for key in ("outputs", "mismatches")),
        ]
        for kind, entries in groups.items()
    ]
    total = data["total"]
    count = sum(len(entries) for entries in groups.values())
    rows.append(["**all**", *(f"**{figure(x)}**" for x in (count, total["outputs"], total["mismatches"]))])
    yield from table(["operands", "kernels", "outputs compared", "outputs with another bit"], rows)


@view
def identified(name: str, data: Data) -> Iterator[str]:
    """What `identify` says of each kernel."""
    rows = []
    for kernel, entry in data.items():
        text = "\n".join(entry.get("text", []))
        found = re.search(r"Fused sums: (\d+) products at once, (\d+) bits", text)
        if not found:
            continue
        result = re.search(r"Result: (.*)", text)
        best = re.search(r"Best model: (.*): ([\d.]+)% of (\d+) outputs", text)
        model = [f"`{best[1]}`", f"{float(best[2]):g} % of {int(best[3]):,}"] if best else ["", ""]
        rows.append(
            [
                f"`{kernel}`",
                result[1].replace("_", " ") if result else "not decided",
                model[0],
                *found.groups(),
                model[1],
            ]
        )
    yield from table(["kernel", "result", "best model", "products at once", "bits kept", "outputs reproduced"], rows, 3)


@view
def libraries(name: str, data: Data) -> Iterator[str]:
    """Share of a library's outputs that one order of summation reproduces bit for bit, per type and shape."""
    products = {key: entry for key, entry in data.items() if isinstance(entry, dict) and "share" in entry}
    operations = list(dict.fromkeys(key.rpartition(" ")[0] for key in products))
    shapes = list(dict.fromkeys(key.rpartition(" ")[2] for key in products))

    def cell(operation: str, shape: str) -> str:
        entry = products.get(f"{operation} {shape}")
        if entry is None:
            return ""
        share = min(entry["share"].values())
        # A kernel whose name tells that it splits K does; other schedules that fit too fit by chance.
        split = any("splitk" in kernel.lower() for kernel in entry["kernel"])
        fitting = [call for call in entry.get("fitting", []) if not split or call.startswith("split_k")]
        first = min(fitting, key=len, default="")
        order = f"`{first.partition('(')[0]}`" if first else "two orders"
        return order if share == 1 else f"{order}, {100 * share:.0f} %"

    rows = [
        [shape.replace("x", "\u00a0×\u00a0"), *(cell(operation, shape) for operation in operations)] for shape in shapes
    ]
    yield from table(["M × N × K", *operations], rows, len(operations) + 1)


# Planted bugs.

FOUND = {"payloads": "payloads", "bounds": "bounds check", "special values": "special values", "": "not found"}


@view
def mutants(name: str, data: Data) -> Iterator[str]:
    """Planted bugs per kernel and what found them."""
    kernels = list(dict.fromkeys(m["kernel"] for m in data["mutants"]))
    counts = {kernel: Counter(m["found_by"] for m in data["mutants"] if m["kernel"] == kernel) for kernel in kernels}
    rows = [
        [kernel.replace("_", " "), figure(counts[kernel].total()), *(figure(counts[kernel][by]) for by in FOUND)]
        for kernel in kernels
    ]
    total = sum(counts.values(), Counter())
    rows.append(["**all**", f"**{total.total()}**", *(f"**{total[by]}**" for by in FOUND)])
    yield from table(["kernel", "planted", *FOUND.values()], rows)


# Tables of rows, as the benchmarks write them.

HEADS = {
    "what": "what", "shape": "shape", "value": "value", "unit": "unit", "ratio": "time / peer's", "goal": "goal",
}  # fmt: skip


@view
def speed(name: str, data: Data) -> Iterator[str]:
    """Every benchmark that no other view shows: rows as charts, calls by type as charts, anything else as it is."""
    if any(fnmatchcase(name, pattern) for pattern in CLAIMED):
        return
    yield f"## {title(name)} {{ #{name} }}\n"
    yield from source(name, data)
    yield ""
    rows = data.get("rows")
    if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
        charted = all(isinstance(row.get("value"), int | float) and "what" in row for row in rows)
        yield from _charts(rows) if charted else _plain(rows)
        return
    calls = {key: value for key, value in data.items() if _is_calls(value)}
    for key, value in calls.items():
        charted = [(call, f["us"], f"{figure(f['us'])} µs ({figure(f['ratio'])}×)") for call, f in value.items()]
        peers = [call for call, f in value.items() if f["ratio"] == 1]
        yield bars(f"{key}: CPU time per call (in brackets: relative to the peer's); shorter is better", charted, peers)
        yield ""
    if not calls:
        yield from _as_it_is(data)


def _as_it_is(data: Data) -> Iterator[str]:
    """A file that no view knows: its verdict if it has one, and its beginning."""
    yield from (f"- {escape(sentence, quote=False)}" for sentence in (data.get("verdict") or {}).get("sentences", []))
    lines = [line[:120] for line in json.dumps(data, indent=1, ensure_ascii=False).splitlines()[:80]]
    yield "\n<details><summary>The file</summary>"
    yield f"<pre><code>{escape(chr(10).join(lines), quote=False).replace(chr(10), '&#10;')}</code></pre></details>"


# Files that views of their own show.
CLAIMED = (
    "*-gemm", "*-gemm-second", "emulation-accuracy", "nvidia-h200-audit", "*-audit-*", "*-matrix-units-dots",
    "*-matrix-units-identified", "*-matrix-units-libraries", "fpsan-mutants",
)  # fmt: skip


def _plain(rows: list[Data]) -> Iterator[str]:
    """A table of rows with any columns."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    numbers = [key for key in columns if all(isinstance(row.get(key), int | float | None) for row in rows)]
    texts = [key for key in columns if key not in numbers]
    cells = [[_cell(row.get(key)) for key in [*texts, *numbers]] for row in rows]
    yield from table([key.replace("_", " ") for key in [*texts, *numbers]], cells, len(texts))


def _is_calls(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(
        isinstance(entry, dict) and {"us", "ratio"} <= set(entry) for entry in value.values()
    )  # fmt: skip


def _charts(rows: list[Data]) -> Iterator[str]:
    """A chart for each shape and unit of a benchmark's rows."""
    # Figures in one unit on one shape compare with each other.
    groups: dict[tuple[str, str], list[Data]] = {}
    for row in rows:
        groups.setdefault((str(row.get("shape", "")), str(row.get("unit", ""))), []).append(row)
    for (shape, unit), group in groups.items():
        heading = ", ".join(filter(None, [shape, f"in {unit}" if unit else ""]))
        charted = [(str(r["what"]), float(r["value"]), _with_ratio(r)) for r in group]
        peers = [str(r["what"]) for r in group if r.get("ratio") == 1]
        if len(group) > 1:
            yield bars(
                f"{heading} (in brackets: time relative to the peer's)"
                if any(r.get("ratio") for r in group)
                else heading,
                charted,
                peers,
            )
        else:
            yield f"{charted[0][0]} ({heading}): **{charted[0][2]}**"
        yield ""


def _with_ratio(row: Data) -> str:
    ratio = f" ({figure(row['ratio'])}×)" if row.get("ratio") is not None else ""
    return f"{figure(row['value'])}{ratio}"


@view
def gemm(name: str, data: Data) -> Iterator[str]:
    """Speeds of matrix products next to the vendor's: a chart and a table for each shape, small ones in one table."""
    figures = data.get("figures")
    if not isinstance(figures, list) or not figures:
        yield from _plain_gemm(name, data)
        return
    yield f"## {title(name)} {{ #{name} }}\n"
    yield from source(name, data)
    yield ""
    shapes = list(dict.fromkeys(tuple(f["shape"]) for f in figures))
    for shape in (shape for shape in shapes if min(shape) > SMALL):
        yield from _products(shape, [f for f in figures if tuple(f["shape"]) == shape])
        yield from _ragged(shape, figures)
    few = [f for f in figures if min(f["shape"]) <= SMALL]
    if few:
        yield "### Few rows\n"
        yield (
            "*Invariant* is the default: a row's bits do not depend on how many rows come along. Without that promise "
            "K may be cut into parts.\n"
        )
        rows = [_few(shape, [f for f in few if tuple(f["shape"]) == shape]) for shape in shapes if min(shape) <= SMALL]
        head = ["M × K × N", "ms", "vendor's ms", "ratio", "ratio, not invariant"]
        yield from table(head, rows)
        yield ""
    limits = data.get("ceilings")
    if limits:
        told = ", ".join(f"{unit} {figure(value)}" for unit, value in limits.items())
        yield f"Ceilings, the vendor's best with each unit at 8192³ in TFLOP/s: {told}.\n"


@view
def spread(name: str, data: Data) -> Iterator[str]:
    """Two runs of the same products, `X-gemm` and `X-gemm-second`: their ratios to the vendor and how far apart."""
    figures = [
        {(f["family"], tuple(f["shape"]), f["regime"], f["contestant"]): f["ratio"] for f in run if "ratio" in f}
        for run in (data["first"].get("figures", []), data.get("figures", []))
    ]
    rows: dict[tuple[tuple[int, ...], str, bool], dict[str, list[str]]] = {}
    apart = []
    for key, first in figures[0].items():
        family, shape, regime, contestant = key
        if not contestant.startswith("ours") or key not in figures[1]:
            continue
        second = figures[1][key]
        apart.append(max(first, second) / min(first, second) - 1)
        row = rows.setdefault((shape, family, contestant == "ours"), {})
        row[regime] = [f"{first:.3f}×", f"{second:.3f}×", f"{100 * apart[-1]:.1f} %"]
    if not rows:
        return
    yield "## Two runs and their spread\n"
    told = "The whole list was measured twice, in runs that share nothing."
    yield f"{told} Ratios to the vendor's time in the same run.\n"
    yield from source(name, data)
    yield ""
    apart.sort()
    yield (
        f"{len(apart)} ratios: half of them are within {100 * apart[len(apart) // 2]:.1f} %, "
        f"nine of ten within {100 * apart[9 * len(apart) // 10]:.1f} %, the farthest {100 * apart[-1]:.1f} % apart.\n"
    )
    head = ["M × K × N", "product", *(f"{regime}, {what}" for regime in ("cool", "hot")
                                      for what in ("first", "second", "apart"))]  # fmt: skip
    nothing = ["", "", ""]
    cells = [
        [_sizes(shape), family if invariant else f"{family}, not invariant",
         *row.get("cool", nothing), *row.get("hot", nothing)]
        for (shape, family, invariant), row in rows.items()
    ]  # fmt: skip
    yield f"<details markdown><summary>All {len(cells)} products</summary>\n"
    yield from table(head, cells, 2)
    yield "\n</details>"


HEADLINES = {
    "en": "The same knowledge makes products: [`fp16x3`]({page}) multiplies FP32 matrices **{speed:.1f} times** as "
    "fast as the library's FP32, with **{error:.1f} times** smaller error.",
    "zh": "同样的知识也造出乘积：[`fp16x3`]({page}) 做 FP32 矩阵乘法的速度是库的 FP32 的 **{speed:.1f} 倍**，"
    "误差小到 **1/{error:.1f}**。",
}


def _headline(data: Data, language: str) -> Iterator[str]:
    for f in data.get("figures", []):
        if (f["family"], f.get("contestant"), f.get("regime"), tuple(f["shape"])) == HEADLINE and f.get("error"):
            error = f["error"]["vendor_error"]["rms"] / f["error"]["error"]["rms"]
            yield HEADLINES[language].format(speed=f["ratio"], error=error, page="results/gemm.md")


HEADLINE = ("fp16x3", "ours", "cool", (8192, 6144, 4096))


@view
def headline(name: str, data: Data) -> Iterator[str]:
    """An emulated product's speed and error in one sentence, for the home page."""
    yield from _headline(data, "en")


@view
def headline_zh(name: str, data: Data) -> Iterator[str]:
    """The same in Chinese."""
    yield from _headline(data, "zh")


@view
def emulation(name: str, data: Data) -> Iterator[str]:
    """Errors of emulated FP32 products by distribution and length, next to FP32's own, and what the guard decides."""
    rows = data.get("rows", [])
    modes = [key for key, value in rows[0].items() if isinstance(value, dict) and "rms" in value] if rows else []
    cells = []
    for row in rows:
        least = row["ieee"]["rms"] if "ieee" in row else math.inf
        errors = [row[mode]["rms"] for mode in modes]
        # Worse than a serial FP32 sum: set apart.
        shown = [
            f"**{figure(e)}**" if e > 1.05 * least and m != "ieee" else figure(e)
            for m, e in zip(modes, errors, strict=True)
        ]
        decided = ", ".join(f"{mode}: {what}" for mode, what in (row.get("decided") or {}).items() if what != "kept")
        cells.append([str(row["data"]), decided, f"{row['K']:,}", *shown])
    yield from table(["data", "what the guard changes", "K", *(f"`{mode}`" for mode in modes)], cells, 2)


SMALL = 128


def _by(figures: list[Data], contestant: str, regime: str) -> Data:
    return next((f for f in figures if f.get("contestant") == contestant and f.get("regime") == regime), {})


def _sizes(shape: tuple[int, ...]) -> str:
    return "\u00a0×\u00a0".join(map(str, shape))


def _products(shape: tuple[int, ...], figures: list[Data]) -> Iterator[str]:
    """One large product in every family."""
    yield f"### {_sizes(shape)} (M × K × N)\n"
    charted, rows = [("vendor", 1.0, "1.00×")], []
    for family in dict.fromkeys(f["family"] for f in figures):
        of = [f for f in figures if f["family"] == family]
        cool, hot = _by(of, "ours", "cool"), _by(of, "ours", "hot")
        theirs = [_by(of, "vendor", regime).get("tflops") for regime in ("cool", "hot")]
        if not cool:
            rows.append([family, *[""] * 9, escape(str(of[0].get("failed", ""))[:80], quote=False)])
            continue
        charted.append((family, cool["ratio"], f"{cool['ratio']:.2f}×"))
        error = cool.get("error") or {}
        mine, other = error.get("error") or {}, error.get("vendor_error") or {}
        rows.append(
            [family, *(_whole(x) for x in (cool.get("tflops"), theirs[0], hot.get("tflops"), theirs[1])),
             *(_times(f.get("ratio")) for f in (cool, hot)), _percent(cool.get("share")),
             _pair(mine), _pair(other), cool.get("error_class") or ("equal bits" if error.get("equal_bits") else "")]
        )  # fmt: skip
    yield bars("speed relative to the vendor's library, cool: longer is faster", charted, ["vendor"])
    yield ""
    head = ["product", "cool", "vendor", "hot", "vendor", "ratio, cool", "ratio, hot", "of the unit's ceiling",
            "error: rms, largest", "vendor's error", ""]  # fmt: skip
    yield from table(head, rows)
    clocks = [f["mhz"] for f in figures if f.get("mhz")]
    watts = [f["watts"] for f in figures if f.get("watts")]
    state = (
        f" Clock {min(clocks):.0f} to {max(clocks):.0f} MHz, {min(watts):.0f} to {max(watts):.0f} W." if clocks else ""
    )
    yield f"\nTFLOP/s; errors in units of u·Σ|p|.{state}\n"


def _ragged(shape: tuple[int, ...], figures: list[Data]) -> Iterator[str]:
    """What sides that are no multiples of 16 cost: speed next to that of the product whose sides differ by a few."""
    near = tuple(16 * round(side / 16) for side in shape)
    if near == shape:
        return
    told = []
    for f in figures:
        if tuple(f["shape"]) == shape and (f.get("contestant"), f.get("regime")) == ("ours", "cool"):
            aligned = _by(
                [g for g in figures if g["family"] == f["family"] and tuple(g["shape"]) == near], "ours", "cool"
            )
            if aligned:
                told.append(f"{f['family']} {100 * f['tflops'] / aligned['tflops']:.0f} %")
    if told:
        yield f"Of the speed at {_sizes(near)}: {', '.join(told)}.\n"


def _few(shape: tuple[int, ...], figures: list[Data]) -> list[str]:
    ours, theirs = _by(figures, "ours", "cool"), _by(figures, "vendor", "cool")
    loose = _by(figures, "ours, not invariant", "cool")
    return [
        _sizes(shape),
        *(figure(f.get("ms")) for f in (ours, theirs)),
        *(_times(f.get("ratio")) for f in (ours, loose)),
    ]


def _whole(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 else figure(value)


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}×"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def _pair(error: Data) -> str:
    return f"{figure(error['rms'])}, {figure(error['max'])}" if "rms" in error else ""


def _plain_gemm(name: str, data: Data) -> Iterator[str]:
    """Rows with any columns: for each shape a chart and a table."""
    yield f"## {title(name)} {{ #{name} }}\n"
    yield from source(name, data)
    yield ""
    rows = data.get("rows")
    if not isinstance(rows, list) or not rows:
        yield from _as_it_is(data)
        return
    columns = list(dict.fromkeys(key for row in rows for key in row))
    shape_key = next((key for key in columns if "shape" in key), None)
    speeds = [key for key in columns if re.search(r"tflops?|tflop/s|value|cool|hot", key, re.IGNORECASE)
              and any(isinstance(row.get(key), float) for row in rows)]  # fmt: skip
    label_keys = [key for key in ("what", "mode", "name", "kernel", "library", "layout") if key in columns]
    shapes = list(dict.fromkeys(_words(row.get(shape_key, "")) for row in rows)) if shape_key else [""]
    for shape in shapes:
        group = [row for row in rows if not shape_key or _words(row.get(shape_key, "")) == shape]
        if shape:
            yield f"### {shape}\n"
        if speeds:
            charted = [
                (
                    " ".join(str(row[key]) for key in label_keys if row.get(key)),
                    float(row[speeds[0]]),
                    figure(row[speeds[0]]),
                )
                for row in group
                if isinstance(row.get(speeds[0]), int | float)
            ]
            peers = [
                label for label, _, _ in charted if re.search(r"cublas|torch|vendor|_scaled_mm", label, re.IGNORECASE)
            ]
            yield bars(f"{speeds[0].replace('_', ' ')}: longer is better", charted, peers)
            yield ""
        kept = [key for key in columns if key != shape_key and any(row.get(key) not in (None, "") for row in group)]
        texts = [key for key in kept if any(isinstance(row.get(key), str) for row in group)]
        numbers = [key for key in kept if key not in texts]
        cells = [[_cell(row.get(key)) for key in [*texts, *numbers]] for row in group]
        yield from table([key.replace("_", " ") for key in [*texts, *numbers]], cells, len(texts))
        yield ""


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int | float):
        return figure(value)
    return escape(_words(value), quote=False)
