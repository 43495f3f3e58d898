"""The command line: embed, unembed, explain, doctor, and how errors leave it."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from fpsan_tools import __version__, algebra
from fpsan_tools.__main__ import main, parser
from fpsan_tools.commands import doctor


def run(capsys, *words):
    status = main(words)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def rows(text):
    return [line.split() for line in text.splitlines()[1:]]


def test_embed_shows_bits_and_payloads(capsys):
    status, out, _ = run(capsys, "embed", "2.0", "-1", "0x7f800000", "0x1p-1", "--algebra", "3.9")
    assert status == 0
    assert [row[2:] for row in rows(out)] == [
        ["0x40000000", "0x35606380", "895509376"],
        ["0xbf800000", "0xffffffff", "-1"],
        ["0x7f800000", "0x4a9f9c81", "1251974273"],
        ["0x3f000000", "0x5fded582", str(0x5FDED582)],
    ]


@pytest.mark.parametrize(
    ("dtype", "value", "bits"),
    [
        ("bf16", "0.1", "0x3dcd"),
        ("fp16", "-inf", "0xfc00"),
        ("fp8e4m3fn", "3", "0x44"),
        ("fp64", "-0x1.8p0", "0xbff8000000000000"),
        ("fp8e5m2", "-0", "0x80"),
    ],
)
def test_values_are_rounded_to_the_type(capsys, dtype, value, bits):
    status, out, _ = run(capsys, "embed", value, "--dtype", dtype)
    assert status == 0
    assert rows(out)[0][2] == bits


def test_unembed_undoes_embed(capsys):
    patterns = np.random.default_rng(0).integers(0, 1 << 16, 20, np.uint16)
    payloads = algebra.get("3.8").embed(patterns, "bf16")
    words = [*(str(p) for p in payloads), *(str(p) for p in payloads.view(np.int16)), *map(hex, payloads.tolist())]
    status, out, _ = run(capsys, "unembed", *words, "--dtype", "bf16", "--algebra", "3.8")
    assert status == 0
    assert [int(row[2], 16) for row in rows(out)] == patterns.tolist() * 3


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp8e5m2"])
@pytest.mark.parametrize("version", sorted(algebra.VERSIONS))
@pytest.mark.parametrize("value", ["1.5", "-2"])
def test_explain_derives_the_payload_that_embed_gives(capsys, dtype, version, value):
    status, out, _ = run(capsys, "explain", value, "--dtype", dtype, "--algebra", version)
    assert status == 0
    _, table, _ = run(capsys, "embed", value, "--dtype", dtype, "--algebra", version)
    payload = rows(table)[0][3]
    derived = next(line for line in out.splitlines() if line.strip().startswith("payload ="))
    assert f"= {payload} =" in derived
    z = int(next(line for line in out.splitlines() if line.strip().startswith("z =")).split("= ")[-1], 16)
    factor, n = int(derived.split("* ")[1].split()[0], 16), algebra.float_type(dtype).bits - 1
    sign = int(payload, 16) >> n
    assert z * factor % (1 << n) | sign << n == int(payload, 16)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["embed", "foo"], "'foo' is neither a float (1.5, -inf, 0x1.8p0) nor a bit pattern"),
        (["embed", "1", "--dtype", "fp8"], "did you mean 'fp8e5m2'? (known: fp64, fp32"),
        (["embed", "1", "--dtype", "bf61"], "unknown float type 'bf61'; did you mean 'bf16'? (known: fp64, fp32, fp16"),
        (["embed", "1", "--algebra", "4"], "unknown algebra version '4' (known: 3.8, 3.9, 3.9-homomorphic)"),
        (["unembed", "0x100000000"], "0x100000000 does not fit the 32 bits of fp32"),
        (["unembed", "1.5"], "'1.5' is not an integer"),
    ],
)
def test_wrong_use_is_one_sentence_and_status_2(capsys, words, message):
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert err.startswith("fpsan: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["embedd", "1"], "fpsan: unknown command 'embedd'; did you mean 'embed'? (known: check, run, leaks, embed, "),
        (
            ["embed", "1", "--dtpye", "bf16"],
            "fpsan: unknown option '--dtpye'; did you mean '--dtype'?\n",
        ),
        (["check", "a.py:a"], "fpsan check: the following arguments are required: B, --inputs; see fpsan check --help"),
        ([], "fpsan: the following arguments are required: COMMAND"),
    ],
)
def test_what_the_parser_refuses_is_one_sentence_with_the_nearest_name(capsys, words, message):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert error.count("\n") == 1


def test_every_command_has_help():
    top = parser()
    commands = next(action for action in top._actions if isinstance(action.choices, dict))
    for name in ("embed", "unembed", "explain", "doctor"):
        assert commands.choices[name].description


def test_the_module_runs_as_a_program():
    command = [sys.executable, "-m", "fpsan_tools", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"fpsan-tools {__version__}\n"


def test_doctor_reports_what_works(capsys):
    status, out, _ = run(capsys, "doctor", "--json")
    found = {finding["name"]: finding for finding in json.loads(out)}
    assert status == 0
    assert found["algebra"]["works"] is True
    assert found["numpy"]["detail"] == np.__version__
    assert set(found) >= {"CPU engine", "GPU engine", "torch mode", "triton", "torch"}
    _, text, _ = run(capsys, "doctor")
    assert text.splitlines()[0].split()[0] == "python"


@pytest.mark.triton
def test_doctor_tries_the_cpu_engine():
    pytest.importorskip("triton")
    assert doctor._try("CPU engine", doctor._cpu) == doctor.Finding(
        "CPU engine", True, "(x + y) * x gives the algebra's payloads"
    )


@pytest.mark.triton
def test_interpreted_kernels_are_refused_by_name():
    pytest.importorskip("triton")
    command = [sys.executable, "-m", "fpsan_tools", "doctor", "--json"]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert found["CPU engine"]["works"] is False
    assert found["CPU engine"]["detail"].startswith("kernel 'probe' was made while TRITON_INTERPRET was set")


def test_doctor_notices_wrong_payloads(monkeypatch):
    stored = np.zeros(4, np.uint32)
    finding = doctor._try("engine", lambda: doctor._same(stored, stored + np.uint32([0, 1, 0, 1])))
    assert finding == doctor.Finding("engine", False, "2 of 4 payloads of (x + y) * x are not the algebra's")


def test_doctor_says_why_something_is_missing(monkeypatch):
    def broken():
        raise ImportError("no such library\nlong traceback")

    assert doctor._try("x", broken) == doctor.Finding("x", False, "no such library")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    findings = {finding.name: finding.detail for finding in doctor.examine()}
    assert "unset it" in findings["TRITON_INTERPRET"]
