"""The command: what a person types, what they get, and one clear sentence when it cannot be done."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import numfmt
from numfmt import _progress
from numfmt.cli import main


def run(capsys, *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_list_has_every_format_mode_and_policy(capsys):
    text = run(capsys, "list")
    for name in (*numfmt.FORMATS, *numfmt.ROUNDINGS, *numfmt.OVERFLOWS, "NF4"):
        assert re.search(rf"\b{name}\b", text), name
    assert run(capsys, "list", "--markdown").strip() == numfmt.formats_table()


@pytest.mark.parametrize("name", [*numfmt.FORMATS, "nf4", "int4", "Binary8p4ue", "e0m4finite", "e3m0fn", "e1m1"])
def test_show_knows_every_format(capsys, name):
    fmt = numfmt.lookup(name)
    text = run(capsys, "show", name)
    assert fmt.name in text.splitlines()[0]
    assert re.search(rf"^max +{re.escape(numfmt.tables.value_text(fmt.max))} ", text, re.MULTILINE)
    if fmt.bits <= 8:
        assert len(run(capsys, "show", name, "--values").splitlines()) > 2**fmt.bits


def test_round_prints_value_code_and_bits(capsys):
    lines = run(capsys, "round", "0.1", "1/3", "0x1p-9", "464", "1e9", "nan", "--to", "e4m3").splitlines()[1:]
    cells = [line.split() for line in lines]
    assert [(c[0], c[1], c[2]) for c in cells] == [
        ("0.1", "0.1015625", "0x1D"),
        ("1/3", "0.34375", "0x2B"),
        ("0x1p-9", "0.001953125", "0x01"),
        ("464", "448", "0x7E"),
        ("1e9", "nan", "0x7F"),
        ("nan", "nan", "0x7F"),
    ]
    assert " 0 0011 101" in lines[0]


def test_decimals_are_taken_exactly(capsys):
    # 1.00390625 is a tie of BF16; the digits after it are lost in float64, not here.
    for text, value in (("1.00390625", "1"), ("1.0039062500000000000000000000001", "1.0078125")):
        assert run(capsys, "round", text, "--to", "bf16").splitlines()[1].split()[1] == value


def test_negative_numbers_follow_two_dashes(capsys):
    assert "-0.1015625" in run(capsys, "round", "--to", "e4m3", "--", "-0.1")


def test_explain_shows_neighbours_ties_and_every_mode(capsys):
    text = run(capsys, "round", "0.09765625", "--to", "e4m3", "--explain")
    assert "A tie: both are equally near. nearest_even takes the one with the even code, 0.09375." in text
    assert re.search(r"above +0\.1015625 +0x1D", text)
    assert re.search(r"below +0\.09375 +0x1C", text)
    assert re.search(r"nearest_away +0\.1015625", text)
    almost = run(capsys, "round", "0.0976562500000000001", "--to", "e4m3", "--explain")
    assert "a hair more than 50 %" in almost
    assert "takes the nearer one, 0.1015625" in almost


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["1", "--to", "bf16"], "1 is a value of the format, which every mode keeps."),
        (["500", "--to", "e4m3"], "x lies beyond 448, the last value, and nearest_even takes it farther"),
        (["500", "--to", "e4m3", "--mode", "rz"], "toward_zero with policy nan stays there"),
        (["inf", "--to", "e4m3"], "Infinity becomes nan (overflow policy nan"),
        (["0.1", "--to", "e4m3", "--mode", "sr", "--seed", "1"], "stochastic goes up with probability 80 %"),
        (["0.1", "--to", "e4m3", "--mode", "up"], "up goes to the smallest value that is not smaller: 0.1015625."),
        (["0.095", "--to", "e4m3"], "nearest_even takes the nearer one, 0.09375."),
        (["1/3", "--to", "nf4"], "takes the nearer one, 0.33791524171829224."),
        (["200", "--to", "int8"], "x lies beyond 127"),
    ],
)
def test_explanations_say_why(capsys, arguments, sentence):
    assert sentence in run(capsys, "round", *arguments, "--explain")


def test_explanations_agree_with_rounding():
    rng = np.random.default_rng(0)
    for name in ("e4m3", "e2m1", "bf16", "e8m0", "nf4", "int8"):
        fmt = numfmt.lookup(name)
        for x in np.concatenate([rng.standard_normal(20) * 5, [0.0, -0.0, 1e9, -1e9]]):
            explanation = numfmt.explain(float(x), fmt)
            got, expected = explanation.result, fmt.round(float(x))
            assert got == expected or (np.isnan(got) and np.isnan(expected))
            if explanation.below is not None and explanation.above is not None:
                assert explanation.below <= x <= explanation.above
            assert str(explanation)


def test_sum_reports_the_error_of_rounded_additions(capsys, tmp_path):
    x = np.random.default_rng(0).uniform(0, 1, 1000)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "x.txt").write_text("\n".join(map(repr, x.tolist())))
    for file in ("x.npy", "x.txt"):
        for method in ("sequential", "pairwise", "kahan"):
            text = run(capsys, "sum", str(tmp_path / file), "--acc", "bf16", "--method", method)
            expected = numfmt.accumulate(x[None], numfmt.BF16, method=method)[0]
            assert re.search(rf"^sum +{re.escape(numfmt.tables.value_text(expected))}$", text, re.MULTILINE)
            assert re.search(rf"^exact sum +{re.escape(repr(float(numfmt.exact_sum(x))))} ", text, re.MULTILINE)
    np.save(tmp_path / "many.npy", np.ones((5, 7)))
    out = run(capsys, "sum", str(tmp_path / "many.npy"), "--acc", "fp16")
    assert out.splitlines() == ["7 7"] * 5


def test_plot_writes_the_picture(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    for picture, names in (
        ("values", ["e4m3", "nf4"]),
        ("spacing", ["e4m3", "bf16"]),
        ("error", ["e4m3"]),
        ("stagnation", ["bf16"]),
    ):
        path = tmp_path / f"{picture}.svg"
        assert run(capsys, "plot", picture, *names, "-o", str(path)).strip() == str(path)
        assert path.read_text().lstrip().startswith("<?xml")
    assert {p.name for p in tmp_path.iterdir()} == {f"{p}.svg" for p in numfmt.plots.PLOTS}  # nothing left behind


def test_a_picture_that_cannot_be_written_leaves_the_old_one(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "picture.wrong"
    path.write_text("old")
    assert main(["plot", "values", "e2m1", "-o", str(path)]) == 2
    assert "numfmt-sim: " in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["picture.wrong"]
    assert path.read_text() == "old"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["show", "e4m33x"], "unknown format 'e4m33x'; did you mean 'e4m3'"),
        (["round", "0.1", "--to", "bf17"], "did you mean 'bf16'"),
        (["round", "zero", "--to", "bf16"], "'zero' is no number; write it like 0.1"),
        (["round", "1/0", "--to", "bf16"], "'1/0' is no number"),
        (["round", "1", "--to", "bf16", "--mode", "nearst_even"], "did you mean 'nearest_even'"),
        (["round", "nan", "--to", "e2m1"], "FP4_E2M1 has no NaN"),
        (["show", "bf16", "--values"], "tables are made for up to 12 bits"),
        (["sum", "no_such_file.npy", "--acc", "bf16"], "no_such_file.npy"),
        (["sum", "x.npy", "--acc", "nf4"], "--acc must be a floating-point format, not NF4"),
    ],
)
def test_wrong_use_is_one_sentence_and_status_2(capsys, arguments, sentence):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.startswith("numfmt-sim: ")
    assert error.count("\n") == 1


def test_text_files_with_words_are_refused(capsys, tmp_path):
    (tmp_path / "x.csv").write_text("1,2,three")
    assert main(["sum", str(tmp_path / "x.csv"), "--acc", "bf16"]) == 2
    assert "holds something that is no number" in capsys.readouterr().err


def test_the_module_is_the_command():
    text = subprocess.run(
        [sys.executable, "-m", "numfmt", "--version"], check=True, capture_output=True, text=True
    ).stdout
    assert text == f"numfmt-sim {numfmt.__version__}\n"


@pytest.mark.skipif(os.name == "nt", reason="needs a shell with pipes")
def test_a_reader_that_stops_early_is_no_error():
    command = f"{sys.executable} -m numfmt show e4m3 --values | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""


def test_progress_is_drawn_when_asked_and_passes_items_on():
    import io

    stream = io.StringIO()
    assert list(_progress.track([3, 1, 2], label="work", show=True, stream=stream)) == [3, 1, 2]
    assert "work [" in stream.getvalue()
    assert "3/3" in stream.getvalue()
    quiet = io.StringIO()
    assert list(_progress.track(iter("ab"), stream=quiet)) == ["a", "b"]
    assert quiet.getvalue() == ""
    assert _progress.bar(1, 4, 10.0).endswith("1/4 0:30 left")
