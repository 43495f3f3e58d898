"""The command: what a person types, what they get, and one clear sentence when it cannot be done."""

import json
import os
import re
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

import numfmt
import numfmt.commands
import numfmt.elements
import numfmt.families
import numfmt.tables
from numfmt import _progress
from numfmt.cli import main


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    """The tests' own terminal may be narrow, and the command fits its text to it."""
    monkeypatch.setenv("COLUMNS", "100")


def run(capsys, *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_list_has_every_format_mode_and_policy(capsys):
    text = run(capsys, "list")
    for name in (*numfmt.FORMATS, *numfmt.ROUNDINGS, *numfmt.OVERFLOWS, "NF4", *numfmt.BLOCK_FORMATS):
        assert re.search(rf"\b{name}\b", text), name
    assert run(capsys, "list", "--markdown").strip() == numfmt.formats_table()


@pytest.mark.parametrize(("columns", "widest"), [(None, 100), (64, 64), (80, 80), (300, 100)])
def test_list_and_show_fit_the_terminal(capsys, monkeypatch, columns, widest):
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", str(columns))
    text = run(capsys, "list") + run(capsys, "show", "bf16") + run(capsys, "show", "nvfp4")
    assert max(map(len, text.splitlines())) <= widest
    # A wide terminal shows all facts; a narrow one never loses these.
    heading = text.splitlines()[0].split()
    assert set(heading) >= {"format", "bits", "fields", "largest", "roundoff", "specials"}
    assert ("overflow" in heading) == (widest == 100)


def test_the_list_says_what_the_formats_are(capsys):
    rows = {line.split()[0]: line.split() for line in run(capsys, "list").splitlines() if line}
    heading = rows["format"]
    for name, fmt in numfmt.FORMATS.items():
        row = dict(zip(heading, rows[name], strict=True))
        assert row["fields"] == f"{int(fmt.signed)}+{fmt.exponent_bits}+{fmt.mantissa_bits}"
        assert (int(row["bits"]), int(row["bias"])) == (fmt.bits, fmt.bias)
        assert (row["specials"], row["overflow"]) == (fmt.specials, fmt.overflow)
        for column, value in (
            ("smallest", fmt.min_positive),
            ("normal", fmt.min_normal),
            ("roundoff", fmt.unit_roundoff),
        ):
            text = row[column]
            assert (2.0 ** int(text[2:]) if text.startswith("2^") else float(text)) == value, (name, column)
        if not row["largest"].startswith("2^"):
            assert abs(Fraction(row["largest"]) / Fraction(fmt.max) - 1) < Fraction(1, 2000)
    assert set(numfmt.tables.SPECIALS) == set(numfmt.formats.KINDS)


@pytest.mark.parametrize("name", ["mxfp8", "mxfp4", "nvfp4", "mxint8"])
def test_show_tells_of_block_formats(capsys, name):
    text = run(capsys, "show", name)
    facts = json.loads(run(capsys, "show", name, "--json"))
    assert [fact["name"] for fact in facts] == re.findall(r"^name +(MX\w+|NV\w+)$", text, re.MULTILINE)[: len(facts)]
    for fact in facts:
        fmt = numfmt.BLOCK_FORMATS[fact["name"]]
        assert (fact["element"], fact["block"], fact["scale"]) == (fmt.element.name, fmt.block, fmt.scale.name)
        assert f"one {fmt.scale.name} a block" in text
        assert all(words in text for words in (f"{fmt.block} numbers", f"{fmt.element.name}, ", f"{fmt.rule}: "))
    assert f"elements, {fmt.element.name}" in text
    assert len(run(capsys, "show", name, "--values").splitlines()) > 2**fmt.element.bits


def test_names_one_letter_beside_a_known_one_are_remarked_on(capsys):
    for name, words in (("e4m33", "custom format of 38 bits; e4m3 is FP8_E4M3, of 8"), ("e8m13", ""), ("e4m3", "")):
        assert main(["show", name]) == 0
        assert words in (error := capsys.readouterr().err)
        assert bool(error) == bool(words)


def test_json_is_strict_and_says_the_same(capsys):
    def strict(*arguments: str):
        def refuse(text: str) -> None:
            raise AssertionError(text)

        return json.loads(run(capsys, *arguments, "--json"), parse_constant=refuse)

    listed = {fact["name"]: fact for fact in strict("list")}
    assert listed.keys() == {*numfmt.FORMATS, *numfmt.elements.ELEMENTS, *numfmt.BLOCK_FORMATS}
    assert listed["FP8_E4M3"]["max"] == 448
    shown = strict("show", "e4m3", "--values")
    assert {**shown, "values": None} == {**listed["FP8_E4M3"], "values": None}
    values = [float(v) for v in shown["values"]]
    np.testing.assert_array_equal(values, numfmt.FP8_E4M3.values())
    results = strict("round", "0.1", "1e9", "--to", "e4m3")["results"]
    assert results == [{"x": "0.1", "rounded": 0.1015625, "code": 29}, {"x": "1e9", "rounded": "nan", "code": 127}]


def test_round_to_blocks(capsys):
    x = [0.3, 1.5, -6.1, *range(31)]
    words = [str(v) for v in x]
    for name in ("mxfp4", "nvfp4"):
        (fmt,) = numfmt.families.block_formats(name)
        stored = fmt.quantise(x)
        found = json.loads(run(capsys, "round", *words, "--to", name, "--json"))
        np.testing.assert_array_equal(found["rounded"], stored.dequantise())
        np.testing.assert_array_equal(found["element_codes"], stored.element_codes())
        np.testing.assert_array_equal(found["scale_codes"], stored.scale_codes())
        lines = [line.split() for line in run(capsys, "round", *words, "--to", name).splitlines()]
        rows = [line for line in lines if line and line[0] != "x"]
        assert [float(line[1]) for line in rows] == stored.dequantise().tolist()
        assert all(float(r[1]) == float(r[2]) * float(r[3]) * (stored.tensor_scale or 1.0) for r in rows)
    text = run(capsys, "round", *words, "--to", "mxfp4", "--rule", "rceil", "--explain")
    assert "rceil: the smallest scale value" in text
    assert "block 0: largest magnitude 28, scale 8" in text
    assert "block 1: largest magnitude 30, scale 8" in text


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


def test_negative_numbers_are_no_options(capsys):
    numbers = ["-0.1", "-1/3", "-inf", "-0x1p-3", "-.5", "-nan"]
    lines = run(capsys, "round", *numbers, "--to", "e5m2").splitlines()[1:]
    assert [line.split()[:2] for line in lines] == [
        ["-0.1", "-0.09375"],
        ["-1/3", "-0.3125"],
        ["-inf", "-inf"],
        ["-0x1p-3", "-0.125"],
        ["-.5", "-0.5"],
        ["-nan", "nan"],
    ]


def test_numbers_beyond_float64_are_explained(capsys):
    assert "about 2^16606" in run(capsys, "round", "1e4999", "--to", "bf16", "--explain")
    text = run(capsys, "round", "1e-4999", "--to", "bf16", "--explain")
    assert "about 2^-16606" in text
    assert "Error about -2^-16606, relative 1" in text


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
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][:4] == ["row", "sum", "exact", "sum"]
    assert [line[:4] for line in lines[1:6]] == [[str(i), "7", "7", "0"] for i in range(5)]
    assert "5 sums against exact ones" in out


def test_sums_of_many_rows(capsys, tmp_path, monkeypatch):
    x = np.random.default_rng(0).standard_normal((50, 40))
    path = str(tmp_path / "x.npy")
    np.save(path, x)
    report = numfmt.sum_report(x, numfmt.BF16, method="lanes", lanes=8)
    command = ["sum", path, "--acc", "bf16", "--method", "lanes", "--lanes", "8"]
    short, long = run(capsys, *command), run(capsys, *command, "--all")
    assert "... 30 more; --all prints them ..." in short
    assert short.endswith(f"\n\n{report}\n")
    assert [float(line.split()[1]) for line in long.splitlines()[1:51]] == report.computed.tolist()
    # In slices of a few rows: the same sums, and one report of all of them.
    monkeypatch.setattr(numfmt.commands, "_SLICE", 200)
    assert run(capsys, *command, "--all") == long
    found = json.loads(run(capsys, *command, "--json"))
    assert (found["sums"], found["exact"]) == (report.computed.tolist(), report.exact.tolist())
    assert found["summary"] == json.loads(json.dumps(report.summary()))


def test_terms_may_be_blocks(capsys, tmp_path):
    x = np.random.default_rng(0).standard_normal(100)
    np.save(tmp_path / "x.npy", x)
    text = run(capsys, "sum", str(tmp_path / "x.npy"), "--acc", "fp32", "--terms", "mxfp4")
    assert str(float(numfmt.exact_sum(numfmt.MXFP4.round(x)))) in text


def test_plot_writes_the_picture(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    for picture, names in (
        ("values", ["e4m3", "nf4"]),
        ("spacing", ["e4m3", "bf16"]),
        ("error", ["e4m3"]),
        ("stagnation", ["bf16"]),
        ("growth", ["bf16"]),
    ):
        path = tmp_path / f"{picture}.svg"
        assert run(capsys, "plot", picture, *names, "-o", str(path)).strip() == str(path)
        assert path.read_text().lstrip().startswith("<?xml")
    assert {p.name for p in tmp_path.iterdir()} == {f"{p}.svg" for p in numfmt.commands.PICTURES}  # nothing left behind


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
        (["sum", "x.npy", "--acc", "mxfp4"], "the format of an element is FP4_E2M1"),
        (["sum", "x.npz", "--acc", "bf16"], "x.npz is an archive of arrays; save the one to sum with numpy.save"),
        (["sum", ".", "--acc", "bf16"], ".: "),
        (["round", "1", "--to", "mxfp8"], "--to mxfp8 may be MXFP8_E4M3 or MXFP8_E5M2; choose one"),
        (["round", "1", "--to", "mxfp4", "--rule", "flor"], "did you mean 'floor'?"),
        (["round", "1", "--to", "mxfp4", "--overflow", "nan"], "elements of blocks always saturate"),
        (["round", "1", "--to", "bf16", "--rule", "floor"], "--rule is for block formats such as mxfp4"),
        (["round", "1", "--to", "bf16", "--overflow", "satrate"], "did you mean 'saturate'?"),
        (["round", "1e999999999", "--to", "bf16"], "has an exponent beyond 5000"),
        (["show", "mxfp44"], "did you mean 'MXFP4'?"),
        (["show", "mxfp4", "--values", "--json"], "show the values of its elements' format"),
        (["show", "bf16", "--values", "--json"], "tables are made for up to 12 bits"),
        (["plot", "spacing", "nf4"], "plot spacing takes floating-point formats, and NF4 is none"),
        (["plot", "values", "fp32"], "FP32 has too many values to draw; values takes formats of up to 16 bits"),
        (["plot", "values", "e4m3", "--mode", "up"], "--mode is for the pictures error and stagnation"),
    ],
)
def test_wrong_use_is_one_sentence_and_status_2(capsys, arguments, sentence):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.startswith("numfmt-sim: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["lst"], "numfmt-sim: unknown command 'lst'; did you mean 'list'? known: list, show, round, sum, plot"),
        (["plot", "spacng", "e4m3"], "did you mean 'spacing'? known: values, spacing, error, stagnation, growth"),
        (["round", "1", "--to", "bf16", "--moed", "up"], "unknown option --moed; did you mean '--mode'?"),
        (["round", "1"], "the following arguments are required: --to"),
        (["round", "1", "--to", "bf16", "--seed", "-3"], "argument --seed: a seed is 0, 1, 2, ..., not '-3'"),
        (["show", "e4m3", "--vales"], "did you mean '--values'?"),
        (["round", "1", "--to", "e4m3", "--explain", "--json"], "not allowed with argument"),
    ],
)
def test_wrong_commands_and_options_name_the_nearest(capsys, arguments, sentence):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_no_command_shows_the_help(capsys):
    assert main([]) == 2
    assert "numfmt-sim round 0.1 --to e4m3 --explain" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"hello", b"", b"\x93NUMPY\x01\x00"])
def test_broken_files_are_refused(capsys, tmp_path, content):
    (tmp_path / "x.npy").write_bytes(content)
    assert main(["sum", str(tmp_path / "x.npy"), "--acc", "bf16"]) == 2
    assert "x.npy is no array of numbers that numpy.save wrote" in capsys.readouterr().err
    (tmp_path / "x.bin").write_bytes(bytes(range(200, 256)))
    assert main(["sum", str(tmp_path / "x.bin"), "--acc", "bf16"]) == 2
    assert "neither a .npy file nor a text of numbers" in capsys.readouterr().err


def test_an_interrupt_is_no_traceback(capsys, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(numfmt.commands.tables, "value_table", interrupt)
    assert main(["show", "e4m3", "--values"]) == 130
    assert "stopped" in capsys.readouterr().err


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
