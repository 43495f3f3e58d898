"""Renderings of a verdict: text, data, HTML that escapes and loads nothing, and files, complete or not there."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

pytest.importorskip("triton")

import checking_kernels as k

from fpsan_tools.checking import Divergence, Finding, Gap, Place, check
from fpsan_tools.checking.verdict import percent
from fpsan_tools.exceptions import FpsanError

pytestmark = pytest.mark.triton

EVIL = "<script>alert('&')</script>\"><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def different():
    return check(k.by_64, k.tail_dropped, k.scaling_inputs)


@pytest.fixture(scope="module")
def equal():
    return check(k.by_64, k.by_32, k.scaling_inputs)


def hostile(verdict):
    """The verdict with hostile text in every field that can hold a user's text."""
    comparison = replace(verdict.comparisons[0], name=EVIL, dtype=EVIL, values=(EVIL, EVIL))
    return replace(
        verdict,
        a=EVIL,
        b=EVIL,
        reason=EVIL,
        comparisons=(comparison,),
        sizes={EVIL: 3},
        kernels={"a": (EVIL,), "b": (EVIL,)},
        gaps=(Gap("b", EVIL, EVIL, EVIL, 3, EVIL),),
        findings=(Finding(EVIL, EVIL, True, EVIL),),
        divergence=Divergence((Place("a", EVIL, EVIL, 3, EVIL, EVIL, 0, EVIL),), True, EVIL),
        notes=(EVIL,),
        replay=EVIL,
    )


class Tags(HTMLParser):
    """Collects elements and their attributes, and checks that they are closed in order."""

    VOID = frozenset({"meta", "br", "rect"})

    def __init__(self):
        super().__init__()
        self.found, self.open, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parsed(text):
    tags = Tags()
    tags.feed(text)
    tags.close()
    assert tags.open == []
    return tags


def test_text_has_everything_that_was_found(different):
    text = str(different)
    assert text == different.to_text()
    assert text.startswith("DIFFERENT: 4 of 100 elements of 'out' (4%): the last 4 elements (from 96).")
    for part in (
        "Diagnosis",
        "First diverging intermediate",
        "checking_kernels.py:",
        "seeds 0, 1",
        "n=100",
        "Replay: fpsan",
    ):
        assert part in text
    assert max(map(len, text.splitlines())) <= 250
    assert repr(different).startswith("<Verdict DIFFERENT")


def test_text_of_an_equal_verdict_is_short(equal):
    text = str(equal)
    assert text.startswith("SAME ALGEBRA: by_64 and by_32 give equal payloads.")
    assert "Diagnosis" not in text


def test_json_is_complete_and_plain(different):
    data = json.loads(different.to_json())
    assert data == different.to_dict()
    assert data["outcome"] == "different"
    assert data["algebra"] == different.version
    assert data["outputs"][0]["first"] == [96]
    assert data["outputs"][0]["pattern"] == {"kind": "box", "text": "the last 4 elements (from 96)", "exact": True}
    assert data["diagnosis"][0]["kind"] == "tail"
    assert data["divergence"]["places"][0]["line"] > 0
    assert data["seeds"] == [0, 1]


def test_html_is_one_page_that_loads_nothing_and_runs_nothing(different, equal):
    for verdict in (different, equal):
        tags = parsed(verdict.to_html())
        names = [tag for tag, _ in tags.found]
        assert names[0] == "html"
        assert not {"script", "link", "img", "iframe", "object", "form"} & set(names)
        for _, attributes in tags.found:
            assert not [name for name in attributes if name.startswith("on") or name in ("src", "href")]
        assert "url(" not in verdict.to_html()
        assert "default-src 'none'" in next(a["content"] for t, a in tags.found if a.get("http-equiv"))


def test_html_escapes_everything_that_users_name(different):
    verdict = hostile(different)
    plain, changed = parsed(different.to_html()), parsed(verdict.to_html())
    assert {tag for tag, _ in changed.found} <= {tag for tag, _ in plain.found} | {
        "h2",
        "table",
        "td",
        "tr",
        "th",
        "li",
        "ul",
        "br",
    }
    assert "".join(changed.text).count(EVIL) >= 15
    assert EVIL not in verdict.to_html()
    json.loads(verdict.to_json())


def test_notebooks_get_the_same_without_a_page_around(different):
    fragment = different._repr_html_()
    assert parsed(fragment).found[0] == ("div", {"class": "fpsan"})
    assert fragment in different.to_html()


def test_the_picture_shows_the_differing_elements(different):
    tags = parsed(different.to_html())
    boxes = [attributes for tag, attributes in tags.found if tag == "rect" and attributes["class"] == "on"]
    width = next(int(attributes["width"]) for tag, attributes in tags.found if tag == "svg")
    assert boxes
    assert all(float(box["x"]) >= 0.9 * width for box in boxes)  # the last 4 of 100 elements


@pytest.mark.parametrize("ending", [".json", ".html", ".txt"])
def test_files(different, tmp_path, ending):
    path = different.save(tmp_path / "deeper" / f"verdict{ending}")
    written = path.read_text()
    assert (
        written == {".json": different.to_json, ".html": different.to_html, ".txt": different.to_text}[ending]() + "\n"
    )
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_file_that_cannot_be_written_leaves_the_old_one(different, tmp_path, monkeypatch):
    path = tmp_path / "verdict.json"
    path.write_text("old")
    with pytest.raises(FpsanError, match=r"must end in \.json, \.html, \.txt"):
        different.save(tmp_path / "verdict.pdf")
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError("no room")))
    with pytest.raises(OSError, match="no room"):
        different.save(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_percentages_never_hide_a_difference():
    assert percent(1e-9) == "less than 0.1%"
    assert percent(1 - 1e-9) == "more than 99.9%"
    assert percent(0.5) == "50%"
    assert percent(0) == "0%"
    assert percent(1) == "100%"


def test_the_replay_command_repeats_the_check(different, capsys, monkeypatch):
    import shlex

    from fpsan_tools.__main__ import main

    assert re.match(
        r"fpsan check \S+checking_kernels\.py:by_64 \S+:tail_dropped --inputs \S+:scaling_inputs", different.replay
    )
    assert main([*shlex.split(different.replay)[1:], "--json"]) == 1
    again = json.loads(capsys.readouterr().out)
    assert again["outputs"] == different.to_dict()["outputs"]
    sized = check(k.by_64, k.tail_dropped, k.scaling_inputs, sizes={"n": 33}, seeds=(7,), bounds="all", diagnose=False)
    assert "--seeds 7 --size n=33" in sized.replay
    assert sized.replay.endswith("--bounds all")


def test_no_replay_command_for_what_has_no_name():
    assert check(lambda x, out, n, s: k.by_64(x, out, n, s), k.by_32, k.scaling_inputs).replay == ""
    assert check(k.by_64, k.by_32, k.scaling_inputs(np.random.default_rng(0))).replay == ""
