"""Text, Markdown and plots: layout, whatever is in it."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lectures_reports import quick_report

import numfmt_lectures
from numfmt_lectures import columns, render
from numfmt_lectures.catalogue import Catalogue, load
from numfmt_lectures.lecture import LECTURES, find
from numfmt_lectures.report import Column, Demonstration, Figure, Label, Observation, Report, Series, Table, ratio

TEXTS = {
    "title": "T",
    "introduction": "Intro.",
    "exercises": ["do"],
    "labels": {"row": "row {n}"},
    "d": {
        "title": "Demo",
        "text": "One.\n\nTwo.",
        "tables": {"t": {"caption": "Cap", "columns": {"a": "name", "b": "figure"}}},
        "observations": {"o": {"holds": "yes {x:.1f}", "fails": "no {x:.1f}"}},
        "figures": {"f": {"title": 'F < "G"', "x": "x", "y": "y"}},
    },
}
SHARED = {
    "yes": "yes",
    "no": "no",
    "observations": "Seen",
    "exercises_title": "Do",
    "premise_failed": "Not here: {said}",
}


def sample(holds: bool) -> tuple[Report, Catalogue]:
    table = Table("t", [Column("a"), Column("b", ".2f")], [(Label("row", {"n": 1}), 1.234), ("plain|bar", None)])
    figure = Figure(
        "f", "line", [Series("s", [1.0, 2.0], [3.0, 4.0]), Series("u", [1.0, 2.0], [1.0, 1.0], dashed=True)]
    )
    demonstration = Demonstration("d", [table], [Observation("o", holds, {"x": 2.04})], [figure])
    return Report("l", {"seed": 0}, [demonstration]), Catalogue("l", "en", TEXTS, SHARED)


def test_text() -> None:
    assert render.to_text(*sample(True)) == (
        "T\n=\n\nIntro.\n\n1. Demo\n-------\n\nOne.\n\nTwo.\n\nCap\n\nname       figure\n---------  ------\n"
        "row 1        1.23\nplain|bar       —\n\nSeen\n* yes 2.0\n\nDo\n--\n\n1. do\n"
    )


def test_markdown() -> None:
    assert render.to_markdown(*sample(False), heading=3, picture=lambda key, figure: f"<{key}/{figure.key}>") == (
        "Intro.\n\n### 1. Demo { #d }\n\nOne.\n\nTwo.\n\n*Cap*\n\n| name | figure |\n| --- | ---: |\n| row 1 | 1.23 |\n"
        "| plain\\|bar | — |\n\n<d/f>\n\n**Seen**\n\n- Not here: no 2.0\n\n### Do { #exercises }\n\n1. do\n"
    )


def test_markdown_without_figures_is_plain() -> None:
    plain = render.to_markdown(*sample(True))
    assert "{ #" not in plain
    assert "<" not in plain


def test_data() -> None:
    (demonstration,) = render.to_dict(*sample(False))["demonstrations"]
    assert demonstration["tables"] == [
        {"key": "t", "columns": ["a", "b"], "rows": [["row 1", 1.234], ["plain|bar", None]]}
    ]
    assert demonstration["observations"] == [
        {"key": "o", "holds": False, "text": "Not here: no 2.0", "values": {"x": 2.04}}
    ]


def test_a_crooked_table_is_refused() -> None:
    with pytest.raises(ValueError, match="a row of 1 values for 2 columns"):
        Table("t", [Column("a"), Column("b")], [(1,)])


def test_wrap_counts_east_asian_characters_twice_and_keeps_marks_with_their_words() -> None:
    text = "舍入误差会累积，因此（在这里）FP16 不够。" * 4
    for width in range(16, 40):
        lines = columns.wrap(text, width).splitlines()
        assert max(columns.width(line) for line in lines) <= width
        assert not any(line[0] in "，。）" or line[-1] in "（" for line in lines)
        assert "".join("".join(lines).split()) == "".join(text.split())


def test_only_a_word_longer_than_a_line_sticks_out() -> None:
    assert columns.wrap("a (extraordinary). b", 8) == "a\n(extraordinary).\nb"


def test_wrap_indents_and_breaks_at_spaces() -> None:
    assert columns.wrap("one two three four", 9, "* ", "  ") == "* one two\n  three\n  four"


@pytest.mark.parametrize("name", numfmt_lectures.names())
def test_no_line_of_text_is_too_long_in_any_language(name: str) -> None:
    for module in LECTURES[name].requires:
        pytest.importorskip(module)
    report = quick_report(name)
    for language in numfmt_lectures.LANGUAGES:
        for line in render.to_text(report, load(name, language)).splitlines():
            assert columns.width(line) <= 100, line


@pytest.mark.parametrize("name", numfmt_lectures.names())
def test_every_lecture_is_data_in_every_language(name: str) -> None:
    for module in LECTURES[name].requires:
        pytest.importorskip(module)
    report = quick_report(name)
    texts = []
    for language in numfmt_lectures.LANGUAGES:
        data = json.loads(json.dumps(render.to_dict(report, load(name, language)), allow_nan=False))
        assert [d["key"] for d in data["demonstrations"]] == [d.key for d in report.demonstrations]
        assert all(o["text"] for d in data["demonstrations"] for o in d["observations"])
        texts.append([row for d in data["demonstrations"] for t in d["tables"] for row in t["rows"]])
    # The figures are the same in every language.
    numbers = [[[v for v in row if isinstance(v, float)] for row in rows] for rows in texts]
    assert all(other == numbers[0] for other in numbers[1:])


SMALL: dict[str, dict[str, object]] = {
    "numbers": {"samples": 100},
    "block-scales": {"rows": 4, "columns": 64, "outliers": 1},
    "rounding-and-accumulation": {
        "samples": 100,
        "additions": 300,
        "ones": 300,
        "runs": 4,
        "dots": 4,
        "lengths": (64,),
    },
    "tl-dot": {"rows": 4, "depth": 128, "lengths": (32, 64)},
    "fp32-from-parts": {"samples": 20, "rows": 3, "depth": 64, "lengths": (1, 32), "sums": (64,)},
    "reproducibility": {"rows": 3, "depth": 256, "runs": 3, "orders": 3, "steps": 5, "width": 8},
}


@pytest.mark.parametrize("name", SMALL)
def test_a_lecture_is_deterministic_and_runs_at_small_sizes(name: str) -> None:
    one, other = (numfmt_lectures.compute(name, quick=True, **SMALL[name]) for _ in range(2))
    words = load(name, "en")
    assert render.to_dict(one, words) == render.to_dict(other, words)
    # What small sizes do not show is said, in every language.
    for language in numfmt_lectures.LANGUAGES:
        text = render.to_text(one, load(name, language))
        said = load(name, language).text("premise_failed", said="").rstrip()
        failed = [o for d in one.demonstrations for o in d.observations if not o.holds]
        assert text.replace("\n  ", " ").count(said) == len(failed)


@pytest.mark.parametrize("name", SMALL)
@settings(max_examples=4, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_sizes_give_a_text_or_a_refusal_that_names_the_setting(name: str, data: st.DataObject) -> None:
    sizes = st.sampled_from([1, 2, 3, 16, 32, 256])
    fields = {f.name: f for f in dataclasses.fields(find(name).settings)}
    chosen = {
        key: data.draw(st.lists(sizes, min_size=1, max_size=3).map(tuple) if isinstance(f.default, tuple) else sizes)
        for key, f in fields.items()
    }
    refusal, report = "", None
    try:
        report = numfmt_lectures.compute(name, quick=True, **chosen)
    except numfmt_lectures.LectureError as refused:
        refusal = str(refused)
    assert report is not None or any(f"'{key}'" in refusal for key in fields)
    for language in numfmt_lectures.LANGUAGES if report else ():
        assert render.to_text(report, load(name, language))


def test_a_ratio_exists_beside_nothing() -> None:
    assert (ratio(3, 2), ratio(0, 2), ratio(0, 0), ratio(1, 0)) == (1.5, 0, 1, math.inf)


@pytest.mark.parametrize("name", numfmt_lectures.names())
def test_every_lecture_has_a_figure_with_its_own_file(name: str) -> None:
    for module in LECTURES[name].requires:
        pytest.importorskip(module)
    keys = [figure.key for d in quick_report(name).demonstrations for figure in d.figures]
    assert len(keys) == len(set(keys))
    assert keys


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(numfmt_lectures.LectureError, match="unknown form 'mrkdown'; did you mean 'markdown'"):
        numfmt_lectures.run("numbers", quick=True, form="mrkdown")


def test_a_plot_inside_a_page_takes_the_pages_colour_and_is_one_line() -> None:
    pytest.importorskip("matplotlib")
    from numfmt_lectures.plots import inline_svg

    report, words = sample(True)
    svg = inline_svg("d", report.demonstrations[0].figures[0], words)
    assert "\n" not in svg
    assert "currentColor" in svg
    assert "#010203" not in svg
    assert 'aria-label="F &lt; &quot;G&quot;"' in svg
    assert svg == inline_svg("d", report.demonstrations[0].figures[0], words)


def test_plots_survive_a_failure_without_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    from numfmt_lectures import plots

    report, _ = sample(True)
    monkeypatch.setattr(plots, "_draw", lambda *_: b"new")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    (tmp_path / "l-f.png").write_bytes(b"old")
    with pytest.raises(numfmt_lectures.LectureError, match="No space left on device"):
        plots.write(report, load("numbers"), tmp_path)
    assert (tmp_path / "l-f.png").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["l-f.png"]


def without_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any font for Chinese."""
    from numfmt_lectures import plots

    monkeypatch.setattr(plots, "_installed", lambda language: [])


def test_without_a_font_a_picture_is_in_english_and_a_page_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PNG would show boxes; an SVG holds text, for which the browser has fonts."""
    pytest.importorskip("matplotlib")
    from numfmt_lectures import plots

    without_fonts(monkeypatch)
    report = quick_report("numbers")
    words = load("numbers", "zh")
    assert not plots.legible(words)
    assert plots.legible(load("numbers", "en"))
    demonstration = report.demonstration("spacing")
    (figure,) = demonstration.figures
    assert words.text("spacing", "figures", "spacing", "x") in plots.inline_svg("spacing", figure, words)
    english = plots._draw("spacing", figure, load("numbers", "en"), "png", "black")
    assert plots._draw("spacing", figure, words, "png", "black") == english


def test_the_command_says_that_labels_are_english(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    from numfmt_lectures.__main__ import main

    arguments = ["run", "numbers", "--quick", "--lang", "zh", "--plots", str(tmp_path)]
    without_fonts(monkeypatch)
    assert main(arguments) == 0
    assert load("numbers", "zh").text("plot_font") in capsys.readouterr().out
    assert main([*arguments[:3], "--plots", str(tmp_path)]) == 0
    assert load("numbers", "en").text("plot_font") not in capsys.readouterr().out


def test_bars_are_named_in_the_language() -> None:
    pytest.importorskip("matplotlib")
    from numfmt_lectures.plots import inline_svg

    _, words = sample(True)
    figure = Figure("f", "bars", [Series("s", [Label("row", {"n": 7}), Label("row", {"n": 8})], [1.0, 2.0])])
    assert "row 7" in inline_svg("d", figure, words)
