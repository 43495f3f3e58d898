"""The site's results pages show every measured file, and what they show is what the file says."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ROOT / "tools"
if not (TOOLS / "site_results.py").exists():
    pytest.skip("the pages belong to the repository, not to the package", allow_module_level=True)

import site_hooks  # noqa: E402
import site_plots  # noqa: E402
import site_results  # noqa: E402

RESULTS = ROOT / "bench" / "results"
FILES = sorted(path.stem for path in RESULTS.glob("*.json"))


def read(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def pages() -> dict[str, list[str]]:
    return site_hooks.results_by_page()


@pytest.mark.parametrize("name", FILES)
def test_every_measured_file_is_shown_on_a_page(name: str, pages: dict[str, list[str]]) -> None:
    shown = [page for page, names in pages.items() if name in names]
    assert shown, (
        f"no page shows bench/results/{name}.json: put a line [[results VIEW {name}]] on a page of docs/results "
        f"(views: {', '.join(sorted(site_results.VIEWS))}), or give it rows, which speed.md and gemm.md show"
    )


@pytest.mark.parametrize("name", FILES)
def test_every_file_says_where_it_was_measured(name: str) -> None:
    facts = site_results.facts(name, read(name))
    assert facts.get("machine"), f'{name}: write "machine" into the file, or into bench/results/recorded.toml'
    assert re.fullmatch(r"(20\d\d-\d\d-\d\d.*)?", facts.get("recorded", ""))


def test_what_is_recorded_beside_belongs_to_a_file() -> None:
    assert set(site_results.recorded()) <= set(FILES)


def test_the_table_of_errors_holds_the_audits_figures() -> None:
    data = read("nvidia-h200-audit")
    text = site_results.render("accuracy", "nvidia-h200-audit")
    for key in ("A", "B", "library"):
        report = data["rounding"]["strata"]["all"][key]
        row = next(line for line in text.splitlines() if line.startswith(f"| {key} ("))
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert float(cells[1]) == pytest.approx(report["rms_scaled"], rel=5e-3)
        assert float(cells[2]) == pytest.approx(report["max_scaled"], rel=5e-3)
        assert (cells[5], cells[6]) == (str(report["outside"]), str(report["outside_library"]))


def test_the_counts_of_matrix_units_add_up() -> None:
    data = read("nvidia-h200-matrix-units-dots")
    rows = [
        [cell.strip(" *") for cell in line.strip("|").split("|")]
        for line in site_results.render("dots", "nvidia-h200-matrix-units-dots").splitlines()
        if line.startswith("|")
    ][2:]
    outputs = [int(row[2].replace(",", "")) for row in rows]
    assert outputs[-1] == sum(outputs[:-1]) == data["total"]["outputs"]
    assert sum(int(row[1]) for row in rows[:-1]) == len(data) - 1


def test_the_history_of_planted_bugs_adds_up() -> None:
    rows = [
        [cell.strip(" *") for cell in line.strip("|").split("|")]
        for line in site_results.render("mutants", "fpsan-mutants").splitlines()
        if line.startswith("|")
    ][2:]
    assert int(rows[-1][1]) == len(read("fpsan-mutants")["mutants"])
    for row in rows:
        assert int(row[1]) == sum(map(int, row[2:]))


def planted(folder: Path, name: str, rows: list[dict]) -> Path:
    (folder / f"{name}.json").write_text(json.dumps({"machine": "m", "date": "2026-01-02", "rows": rows}))
    return folder


def test_speeds_of_products_with_any_columns_are_shown(tmp_path: Path) -> None:
    columns = ("shape", "mode", "tflops_cool", "tflops_hot", "ratio", "error")
    figures = [
        ([4096, 4096, 4096], "fp16x3", 255.5, 240.25, 4.5, "0.061 u"),
        ([4096, 4096, 4096], "cuBLAS fp32", 50.0, None, 1.0, "0.400 u"),
        ("8192^3", "ieee", 47, 46.0, 0.93, "<equal>"),
    ]
    rows = [dict(zip(columns, row, strict=True)) for row in figures]
    text = site_results.render("gemm", "*-gemm", planted(tmp_path, "nvidia-h200-gemm", rows))
    assert "### 4096, 4096, 4096" in text
    assert "### 8192^3" in text
    for shown in ("256", "240", "4.50", "0.061 u", "&lt;equal&gt;", "fp16x3"):
        assert shown in text
    assert site_results.render("gemm", "*-gemm*", tmp_path / "nothing") == ""
    assert site_results.render("speed", "*", tmp_path) == "", "products have a page of their own"


def product(contestant: str, regime: str, shape: tuple[int, ...] = (4096, 4096, 4096), **facts: object) -> dict:
    figures = {"ms": 0.5, "tflops": 50.0, "ratio": 1.0, "spread": 0.01, "mhz": 1900, "watts": 600, "share": None}
    return {"family": "fp16x3", "contestant": contestant, "shape": shape, "regime": regime, **figures, **facts}


def test_duels_with_the_vendor_are_shown_with_their_errors(tmp_path: Path) -> None:
    error = {"error": {"rms": 0.0612, "max": 0.64}, "vendor_error": {"rms": 0.4, "max": 5.9}, "equal_bits": False}
    few = (16, 4096, 7168)
    figures = [
        product("vendor", "cool"), product("vendor", "hot", tflops=48.0),
        product("ours", "cool", tflops=225.4, ratio=4.512, share=0.81, error=error),
        product("ours", "hot", tflops=190.2, ratio=3.96),
        product("vendor", "cool", few, ms=0.03), product("ours", "cool", few, ms=0.04, ratio=0.75),
        product("ours, not invariant", "cool", few, ms=0.032, ratio=0.94),
        {"family": "int8x6", "shape": [4096, 4096, 4096], "failed": "no result within 60 s"},
        product("vendor", "cool", (4095, 4097, 4099)), product("ours", "cool", (4095, 4097, 4099), tflops=180.32),
    ]  # fmt: skip
    data = {"device": "NVIDIA H200", "torch": "2.11.0", "ceilings": {"16 bit": 833.0}, "figures": figures}
    (tmp_path / "x-gemm.json").write_text(json.dumps(data))
    text = site_results.render("gemm", "*-gemm", tmp_path)
    row = next(line for line in text.splitlines() if line.startswith("| fp16x3"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:10] == ["225", "50.0", "190", "48.0", "4.51×", "3.96×", "81 %", "0.0612, 0.640", "0.400, 5.90"]
    assert "no result within 60 s" in text
    assert "| 16\u00a0×\u00a04096\u00a0×\u00a07168 | 0.0400 | 0.0300 | 0.75× | 0.94× |" in text
    assert "16 bit 833" in text
    assert "Of the speed at 4096\u00a0×\u00a04096\u00a0×\u00a04096: fp16x3 80 %." in text
    assert "1900" in text


def test_two_runs_are_shown_with_their_spread(tmp_path: Path) -> None:
    few = (16, 4096, 7168)
    runs = {
        "": [
            product("ours", "cool", ratio=4.5), product("ours", "hot", ratio=4.4), product("vendor", "cool"),
            product("ours, not invariant", "cool", few, ratio=0.9), product("ours", "cool", few, ratio=0.75),
        ],
        "-second": [
            product("ours", "hot", ratio=4.4), product("ours", "cool", ratio=4.77), product("vendor", "cool"),
            product("ours, not invariant", "cool", few, ratio=0.72),
            {"family": "int8x6", "shape": [4096, 4096, 4096], "failed": "no result within 60 s"},
        ],
    }  # fmt: skip
    for suffix, figures in runs.items():
        (tmp_path / f"x-gemm{suffix}.json").write_text(json.dumps({"figures": figures}))
    text = site_results.render("spread", "*-gemm-second", tmp_path)
    assert "3 ratios: half of them are within 6.0 %" in text
    assert "the farthest 25.0 % apart" in text
    assert "| fp16x3 | 4.500× | 4.770× | 6.0 % | 4.400× | 4.400× | 0.0 % |" in text
    assert "| fp16x3, not invariant | 0.900× | 0.720× | 25.0 % |  |  |  |" in text
    assert site_results.render("gemm", "*-gemm", tmp_path).count("<!-- results") == 1, "the second run has no tables"


def test_calls_and_files_of_any_other_kind_are_shown(tmp_path: Path) -> None:
    calls = {
        "device": "NVIDIA H200",
        "float32": {"torch.matmul": {"us": 4.0, "ratio": 1.0}, "mm": {"us": 5.5, "ratio": 1.38}},
    }
    (tmp_path / "x-overhead.json").write_text(json.dumps(calls))
    (tmp_path / "y.json").write_text(json.dumps({"what": ["<ever>"], "verdict": {"sentences": ["It <holds>."]}}))
    text = site_results.render("speed", "*", tmp_path)
    assert "5.50 µs (1.38×)" in text
    assert "- It &lt;holds&gt;." in text
    assert "&lt;ever&gt;" in text
    assert "\n\n" not in text[text.index("<details>") : text.index("</details>")], "a blank line ends HTML in Markdown"


@pytest.mark.parametrize("name", ["x-audit", "x-audit-more", "x-gemm", "x-y"])
@pytest.mark.parametrize(
    "data",
    [
        {},
        [],
        {"rows": []},
        {"figures": []},
        {"verdict": {}},
        {"a": {"b": [1, None, "<"]}},
        {"rows": [{"K": 3, "x": {"y": 1}}, {}]},
    ],
)
def test_a_file_of_any_content_and_name_is_shown_once(tmp_path: Path, name: str, data: object) -> None:
    (tmp_path / f"{name}.json").write_text(json.dumps(data))
    marks = [("speed", "*"), ("gemm", "*-gemm"), ("audits", "*-audit-*")]
    shown = [site_results.render(view, pattern, tmp_path) for view, pattern in marks]
    assert sum(f"<!-- results: {name} -->" in text for text in shown) == 1


def test_an_unknown_view_is_an_error() -> None:
    with pytest.raises(LookupError, match="no view 'pie'"):
        site_results.render("pie", "*")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.033722, "0.0337"),
        (0.4000648, "0.400"),
        (5.99028, "5.99"),
        (33554432, "33,554,432"),
        (1951325952.0, "1.95·10⁹"),
        (2.0459e-5, "2.05·10⁻⁵"),
        (0.0, "0"),
        (999.96, "1,000"),
        (-0.9996, "-1.00"),
        (None, "–"),
        (math.inf, "inf"),
    ],
)
def test_figures_have_three_digits(value: float | None, text: str) -> None:
    assert site_plots.figure(value) == text


def test_bars_are_as_long_as_their_figures() -> None:
    html = ElementTree.fromstring(site_plots.bars("c <d>", [("a&b", 2.0, "2"), ("peer", 4.0, "4")], ["peer"]))
    assert [bar.get("style") for bar in html.iter("span")] == ["width:50.0%", "width:100.0%"]
    assert [row.get("class") for row in html.iter("tr")] == [None, "marked"]
    assert html.find("caption").text == "c <d>"


def test_a_plots_points_lie_where_their_values_are() -> None:
    text = site_plots.plot("t", "x", "y", [site_plots.Curve("c", [(0, 0), (5, 50), (10, 100), (7, math.nan)])])
    svg = ElementTree.fromstring(re.search(r"<svg.*</svg>", text)[0])
    points = [tuple(map(float, p.split(","))) for p in svg.find("polyline").get("points").split()]
    assert len(points) == 3, "NaN is left out"
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.11)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.11)
    assert y2 < y0, "up is more"
    labels = [e.text for e in svg.iter("text")]
    assert "100" in labels
    assert labels[-2:] == ["x", "y"]
    with pytest.raises(ValueError, match="no finite point"):
        site_plots.plot("t", "x", "y", [site_plots.Curve("c", [(math.nan, 1)])])


def test_ticks_lie_within_the_axis_and_are_round() -> None:
    for low, high in ((0, 1), (0.2, 17.3), (-3, 4000), (1e-7, 3e-7)):
        places = site_plots.ticks(low, high)
        assert 2 <= len(places) <= 8
        assert all(low <= place + 1e-12 and place <= high * (1 + 1e-9) for place in places)
    assert site_plots.ticks(-16, 3, log=2) == [-16, -12, -8, -4, 0]
