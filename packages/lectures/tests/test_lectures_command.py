"""The command `lectures`: what it prints, and how it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import numfmt_lectures
from numfmt_lectures.__main__ import main


def test_list_names_every_lecture_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == numfmt_lectures.names()


def test_the_eight_lectures_are_in_teaching_order() -> None:
    assert numfmt_lectures.names() == [
        "numbers",
        "block-scales",
        "rounding-and-accumulation",
        "another-order",
        "tl-dot",
        "fpsan",
        "fp32-from-parts",
        "reproducibility",
    ]


def test_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)] == numfmt_lectures.names()


def test_run_prints_what_the_function_returns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "numbers", "--quick"]) == 0
    assert capsys.readouterr().out == numfmt_lectures.run("numbers", quick=True)


def test_run_as_json_holds_unrounded_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "numbers", "--quick", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["lecture"] == "numbers"
    assert data["settings"]["samples"] == 50_000
    table = data["demonstrations"][1]["tables"][0]
    row = dict(zip(table["columns"], table["rows"][1], strict=True))
    assert row["format"] == "FP32"
    assert row["u"] == 2.0**-24
    assert all(o["holds"] is True for d in data["demonstrations"] for o in d["observations"])


def test_set_changes_a_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "numbers", "--quick", "--json", "--set", "denominator=3", "--set", "samples=10"]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert (settings["denominator"], settings["samples"]) == (3, 10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "rounding"], "unknown lecture 'rounding'; did you mean 'rounding-and-accumulation'?"),
        (["run", "tldot"], "unknown lecture 'tldot'; did you mean 'tl-dot'?"),
        (["run", "reproducable"], "unknown lecture 'reproducable'; did you mean 'reproducibility'?"),
        (["run", "fp32"], "unknown lecture 'fp32'; did you mean 'fp32-from-parts'?"),
        (["run", "nmbers"], "unknown lecture 'nmbers'; did you mean 'numbers'?"),
        (["rum", "numbers"], "unknown command 'rum'; did you mean 'run'?"),
        (["run", "numbers", "--set", "smples=3"], "unknown setting 'smples'; did you mean 'samples'?"),
        (["run", "numbers", "--set", "samples"], "--set takes NAME=VALUE, not 'samples'"),
        (["run", "numbers", "--set", "samples=many"], "setting 'samples' takes an integer of at least 1, not 'many'"),
        (["run", "numbers", "--set", "samples=0"], "setting 'samples' takes an integer of at least 1, not '0'"),
        (["run", "numbers", "--set", "samples=1,2"], "setting 'samples' takes an integer of at least 1, not '1,2'"),
        (["run", "numbers", "--lang", "eng"], "unknown language 'eng'; did you mean 'en'?"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"lectures: {message}")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["run"], ["run", "numbers", "--nonsense"], ["--nonsense"]])
def test_argparse_refuses_alike(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(arguments)
    assert refused.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (["run", "numbers", "--quik"], "unknown option '--quik'; did you mean '--quick'?"),
        (["run", "numbers", "--plts=x"], "unknown option '--plts'; did you mean '--plots'?"),
        (["list", "--lnag", "zh"], "unknown option '--lnag'; did you mean '--lang'?"),
        (["list", "--jsn"], "unknown option '--jsn'; did you mean '--json'?"),
    ],
)
def test_the_nearest_option_is_named(arguments: list[str], nearest: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(arguments)
    assert refused.value.code == 2
    assert capsys.readouterr().err.startswith(f"lectures: {nearest}")


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "file").write_text("")
    assert main(["run", "numbers", "--quick", "--plots", str(tmp_path / "file")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_plots_are_written_whole_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert main(["run", "numbers", "--quick", "--plots", str(tmp_path / "plots")]) == 0
    assert [path.name for path in (tmp_path / "plots").iterdir()] == ["numbers-spacing.png"]
    assert (tmp_path / "plots" / "numbers-spacing.png").read_bytes().startswith(b"\x89PNG")
    assert f"plot: {tmp_path / 'plots' / 'numbers-spacing.png'}" in capsys.readouterr().out


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "numfmt_lectures", "list"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].startswith(numfmt_lectures.names()[0])


def test_a_missing_package_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from numfmt_lectures import lecture

    monkeypatch.setitem(lecture.LECTURES, "numbers", lecture.Entry("no_such_lecture", ["no_such_module"]))
    with pytest.raises(numfmt_lectures.LectureError, match="needs no_such_module, which is not installed: pip install"):
        lecture.find("numbers")
