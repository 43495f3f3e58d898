"""The command: exit statuses, bad input in one sentence each, and reports that escape what is not theirs."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

from tritongemm.__main__ import main, parser
from tritongemm.auditing import contestants, devices
from tritongemm.auditing.document import Document, Plot, Section, Series
from tritongemm.auditing.page import page
from tritongemm.auditing.signatures import SIGNATURES, signature_of
from tritongemm.errors import Unavailable, UsageError
from tritongemm.files import replaced, why_unwritable
from tritongemm.tables import Table, figure, percent, share, short

QUICK = ["--m", "40", "--n", "36", "--k", "70", "--device", "cpu"]


@pytest.fixture(autouse=True)
def one_distribution(monkeypatch):
    """The sweep over distributions has tests of its own; here one of them is enough."""
    from tritongemm.auditing import sweep

    monkeypatch.setattr(sweep, "SWEEP", {"positive": sweep.SWEEP["positive"]})


HEAD = """
import triton
import triton.language as tl

"""
LANES = """
@triton.jit
def {name}(a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, LANES: tl.constexpr{default}):
    m = tl.program_id(0)
    n = tl.program_id(1)
    lane = tl.arange(0, LANES)
    total = tl.zeros((LANES,), dtype=tl.float32)
    for start in range(0, K{stop}, LANES):
        k = start + lane
        x = tl.load(a + m * sam + k * sak, mask=k < K, other=0.0)
        y = tl.load(b + k * sbk + n * sbn, mask=k < K, other=0.0)
        total += x * y
    tl.store(c + m * scm + n * scn, tl.sum(total, axis=0))
"""
OTHER = LANES.replace("{name}", "other")
SPLIT = LANES.replace("LANES", "SPLIT")
ADAPTER = "def inputs(rng):\n    pass\n\n\nkernel = reference = inputs\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder, name, body, **how):
    values = {"name": "kernel", "default": " = 32", "stop": ""} | how
    (folder / name).write_text(HEAD + body.format(**values))


def complaint(capsys, *arguments):
    """The one sentence with which the command refuses, checked to be one."""
    assert main(["audit", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("tritongemm audit: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


@pytest.mark.triton
def test_a_file_of_the_user_is_audited_and_the_report_replayed(folder, capsys):
    pytest.importorskip("triton")
    write(folder, "mine.py", LANES)
    assert main(["audit", "mine.py:kernel", "blocked", *QUICK, "--const-a", "LANES=64"]) == 0
    out, err = capsys.readouterr()
    assert "4. Verdict: PASS" in out
    assert "This run executed the code of mine.py:kernel and blocked." in " ".join(out.split())
    assert err == ""
    read = json.loads((folder / "reports" / "audit.json").read_text())
    assert read["kernels"]["A"]["constants"] == {"LANES": 64}
    replay = read["replay"].split()
    assert replay[:2] == ["tritongemm", "audit"]
    first = read["rounding"]["strata"]["all"]["A"]["rms_scaled"]
    assert main([*replay[1:], "--quiet", "--no-report"]) == 0
    assert capsys.readouterr().out.startswith("PASS\nSame algebra")
    assert main([*replay[1:], "--out", "again"]) == 0
    again = json.loads((folder / "again" / "audit.json").read_text())
    assert again["rounding"]["strata"]["all"]["A"]["rms_scaled"] == first


@pytest.mark.triton
def test_different_algebra_exits_with_1(folder, capsys):
    pytest.importorskip("triton")
    write(folder, "short.py", LANES, stop=" - K % LANES")
    assert main(["audit", "short.py", "strided_lanes", *QUICK]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "4. Verdict: FAIL" in out
    assert "a K tail is dropped" in out


@pytest.mark.triton
def test_an_operation_that_is_not_known_exits_with_3_and_one_sentence(folder, capsys):
    pytest.importorskip("triton")
    body = LANES.replace("total += x * y", 'total += tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], '
                         "dtype=tl.float32, is_pure=False, pack=1)")  # fmt: skip
    write(folder, "clock.py", body)
    assert main(["audit", "clock.py", "blocked", *QUICK]) == 3
    out, err = capsys.readouterr()
    assert "4. Verdict: INCONCLUSIVE" in out
    assert "inline" in out
    assert "kernel" in out
    assert "Traceback" not in out + err


@pytest.mark.triton
@pytest.mark.parametrize(
    ("files", "arguments", "words"),
    [
        ({}, ["stridedlanes"], ["A: 'stridedlanes'", "Did you mean 'strided_lanes'?", "package.module:kernel"]),
        ({}, ["blocked", "no.such.module:k"], ["B: there is no module", "path/to/file.py:kernel"]),
        ({}, ["gone.py:k"], ["A: there is no file 'gone.py'"]),
        ({"x.py": "raise OSError('no luck')\n"}, ["x.py:k"], ["A: importing x.py failed", "line 1", "no luck"]),
        ({"x.py": "import sys\n\nsys.exit(3)\n"}, ["x.py:k"], ["A: importing x.py failed", "line 3", "SystemExit"]),
        ({"x.py": "def broken(:\n"}, ["x.py:k"], ["A: importing x.py failed", "line 1", "SyntaxError"]),
        ({"x.py": "import no_such_thing\n"}, ["x.py:k"], ["line 1", "No module named 'no_such_thing'"]),
        ({"y.py": "import no_such_thing\n"}, ["y:k"], ["importing y failed", "No module named 'no_such_thing'"]),
        ({"x.py": HEAD + LANES}, ["x.py:kernal"], ["x.py has no 'kernal'", "Did you mean 'kernel'?"]),
        ({"x.py": "def f():\n    pass\n"}, ["x.py:f"], ["f: this function cannot be called with two matrices"]),
        ({"x.py": "f = 3\n"}, ["x.py:f"], ["f: an int, neither a @triton.jit kernel nor a function of two matrices"]),
        ({"x.py": "f = 3\n"}, ["x.py"], ["x.py has no kernel with a known signature"]),
        ({"x.py": HEAD + LANES + OTHER}, ["x.py"], ["has 2 kernels", "x.py:kernel"]),
        ({"x.py": HEAD + LANES.replace("sak, ", "", 1)}, ["x.py:kernel"], ["follow neither signature", "stride_an"]),
        ({"x.py": HEAD + SPLIT}, ["x.py", "--const-a", "LANES=3"], ["no constant 'LANES'"]),
        ({"x.py": HEAD + SPLIT.replace("{default}", "")}, ["x.py"], ["SPLIT has no value", "--const-a"]),
        ({"x.py": HEAD + LANES.replace("id(1)", "id(2)")}, ["x.py"], ["program axes [0, 2]", "--grid-a"]),
        ({"x.py": HEAD + LANES.replace("LANES", "BLOCK_M")}, ["x.py"], ["for one dimension only (BLOCK_M)"]),
        ({}, ["--grid-a", "cdiv(M, SIZE)"], ["--grid-a", "'SIZE' is not understood", "LANES"]),
        ({}, ["--grid-b", "__import__('os')"], ["--grid-b", "is not understood"]),
        ({}, ["--grid", "M //"], ["--grid-a", "is no expression"]),
        ({}, ["--grid", "1, 2, 3, 4"], ["4 axes"]),
        ({}, ["--grid", "M // 0"], ["divides by zero"]),
        ({}, ["--const", "BLOCK_X=3"], ["neither kernel has a constant 'BLOCK_X'"]),
        ({}, ["--config-b", "2"], ["--config-b", "not autotuned"]),
        ({}, ["--dtype", "fp8"], ["--dtype: 'fp8'", "Known: bf16, fp16, fp32"]),
        ({}, ["--out-dtype", "int"], ["--out-dtype: 'int'"]),
        ({}, ["--precision-a", "tf23"], ["--precision-a: 'tf23' is no mode. Did you mean 'tf32'?"]),
        ({}, ["--precision-b", "tf32", "--dtype", "fp16"], ["--precision-b: mode 'tf32' takes fp32 operands"]),
        (
            {"x.py": ADAPTER},
            ["x.py", "x.py"],
            ["A: x.py is an adapter, which is audited alone"],
        ),
        ({}, ["--template", "blocked"], ["--template: it prints an adapter and takes no other argument", "'blocked'"]),
        ({}, ["--inputs", "gauss"], ["'gauss'", "normal"]),
        ({}, ["--device", "tpu"], ["--device: 'tpu'", "Known: auto, cpu, gpu"]),
        ({}, ["--k", "0"], ["--k: 0, but an audit needs 1 to"]),
        ({}, ["--m", "99999999"], ["--m: 99999999"]),
        ({}, ["--max-time", "0"], ["--max-time: 0.0 seconds"]),
        ({}, ["--atol=-1"], ["--atol, --rtol: -1.0"]),
        ({}, ["--rtol", "inf"], ["--atol, --rtol: 0.0001 and inf"]),
        (
            {},
            ["--inputs", "wide", "--dtype", "fp16"],
            ["--inputs: U(-1, 1) times 2^-20", "fp16's largest number"],
        ),
        ({}, ["--seed", "-1"], ["--seed: -1", "not negative"]),
        (
            {},
            ["--const-b", "BLOCK_M=wide"],
            ["blocked_kernel: BLOCK_M is 'wide'", "positive whole number", "--const-b"],
        ),
        ({}, ["--const-b", "BLOCK_N=0"], ["blocked_kernel: BLOCK_N is 0"]),
        ({}, ["--const-b", "BLOCK_K=1.5"], ["blocked_kernel: BLOCK_K is 1.5"]),
        (
            {"x.py": "raise BaseException('no')\n"},
            ["x.py:k"],
            ["importing x.py failed", "line 1", "BaseException: no"],
        ),
        ({"x.py": "\0"}, ["x.py:k"], ["A: importing x.py failed at x.py", "null bytes"]),
        ({}, [":"], ["A: ':' is neither"]),
        (
            {"taken": ""},
            ["--out", "taken"],
            ["--out: no report", "'taken'", "is no folder", "--no-report"],
        ),
        ({"taken": ""}, ["--out", "taken/deeper"], ["--out: no report can be written", "taken is no folder"]),
        ({}, ["--out", "x" * 300], ["--out: no report can be written", "File name too long"]),
        ({}, ["--out", "/proc/reports"], ["--out: no report can be written", "/proc"]),
    ],
)
def test_wrong_use_is_one_sentence_and_exits_with_2(folder, capsys, files, arguments, words):
    pytest.importorskip("triton")
    for name, text in files.items():
        text = text.replace("{name}", "kernel").replace("{default}", " = 32").replace("{stop}", "")
        (folder / name).write_text(text)
    sizes = [x for pair in zip(QUICK[::2], QUICK[1::2], strict=True) if pair[0] not in arguments for x in pair]
    said = complaint(capsys, *arguments, *sizes)
    for text in words:
        assert text in said
    assert not (folder / "reports").exists()


@pytest.mark.triton
def test_sizes_beyond_the_memory_are_one_sentence(capsys):
    pytest.importorskip("triton")
    size = ["--m", "1048576", "--n", "1048576", "--k", "1048576", "--device", "cpu"]
    said = complaint(capsys, *size)
    assert "--m, --n, --k: 1048576, 1048576 and 1048576 make operands of 16,384.0 GiB" in said
    assert "give smaller sizes" in said


@pytest.mark.triton
def test_a_report_that_cannot_be_written_after_all_is_one_sentence(folder, capsys, monkeypatch):
    pytest.importorskip("triton")

    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tritongemm.auditing.saving.replaced", full)
    assert main(["audit", *QUICK]) == 2
    out, err = capsys.readouterr()
    assert "4. Verdict: PASS" in out  # The work is not lost.
    assert err.startswith("tritongemm audit: --out: no report can be written to 'reports' (No space left on device)")
    assert err.count("\n") == 1


@pytest.mark.triton
def test_an_interrupted_audit_leaves_the_old_report(folder, capsys, monkeypatch):
    pytest.importorskip("triton")
    (folder / "reports").mkdir()
    (folder / "reports" / "audit.json").write_text("old")

    def interrupted(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("tritongemm.auditing.run.sampled", interrupted)
    assert main(["audit", *QUICK]) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert "interrupted; reports of earlier runs are as they were" in err
    assert (folder / "reports" / "audit.json").read_text() == "old"
    assert [p.name for p in (folder / "reports").iterdir()] == ["audit.json"]


@pytest.mark.triton
def test_an_interrupted_evaluation_leaves_triton_as_it_was(folder, capsys, monkeypatch):
    """Ctrl-C in the middle of a kernel: launches go where they always go, and no file is left half-written."""
    triton = pytest.importorskip("triton")
    from tritongemm.auditing.clock import Watch

    seen, run = [], triton.runtime.jit.JITFunction.run

    def press(self, machine, operation, frame):
        seen.append(operation.name)
        if len(seen) == 500:
            raise KeyboardInterrupt

    knobs = dict(triton.knobs.compilation.__dict__)
    monkeypatch.setattr(Watch, "__call__", press)
    assert main(["audit", *QUICK]) == 130
    assert len(seen) == 500
    assert triton.runtime.jit.JITFunction.run is run
    assert triton.knobs.compilation.__dict__ == knobs
    assert list(folder.iterdir()) == []
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.triton
def test_a_terminal_without_mathematical_signs_and_a_closed_pipe_are_no_tracebacks(tmp_path):
    pytest.importorskip("triton")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "tritongemm", "audit", *QUICK, "--no-report"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert run.returncode == 0, run.stderr
    assert "A ? B" in run.stdout
    read, write = os.pipe()
    os.close(read)
    run = subprocess.run([sys.executable, "-m", "tritongemm", "challenge", "--quick"], stdout=write,
                         stderr=subprocess.PIPE, text=True, cwd=tmp_path)  # fmt: skip
    os.close(write)
    assert (run.returncode, run.stderr) == (141, "")


def test_a_folder_that_cannot_take_files_is_told_without_making_anything(tmp_path):
    assert why_unwritable(tmp_path / "new" / "deep", ["x"]) is None
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "x").mkdir()
    assert why_unwritable(tmp_path, ["x"]) == f"{tmp_path / 'x'} is a folder"
    (tmp_path / "file").write_text("")
    assert why_unwritable(tmp_path / "file" / "deep") == f"{tmp_path / 'file'} is no folder"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["audit", "--m", "many"], "argument --m: invalid int value: 'many'"),
        (["audit", "--const", "1=2"], "'1=2' is not NAME=VALUE"),
        (["adit"], "tritongemm: argument command: 'adit' is none. Did you mean 'audit'? Known: audit, challenge"),
        ([], "tritongemm: the following arguments are required: command"),
        (["audit", "--nonsense"], "tritongemm audit: unrecognized arguments: --nonsense"),
        (["audit", "--dytpe=bf16"], "unrecognized arguments: --dytpe=bf16; did you mean --dtype?"),
        (["audit", "a", "b", "c"], "tritongemm audit: unrecognized arguments: c"),
        (["challenge", "--device", "gpus"], "'gpus' is none. Did you mean 'gpu'?"),
    ],
)
def test_arguments_that_are_none_exit_with_2(capsys, arguments, words):
    with pytest.raises(SystemExit) as exited:
        parser().parse_args(arguments)
    assert exited.value.code == 2
    err = capsys.readouterr().err
    assert words in err
    assert "--help" in err
    assert err.count("\n") == 1


def test_a_missing_triton_is_one_sentence(monkeypatch, capsys):
    def missing(name):
        raise contestants.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(contestants.importlib.metadata, "version", missing)
    said = complaint(capsys, *QUICK)
    assert "Triton is not installed" in said
    assert "pip install 'triton>=3.8,<3.10'" in said
    monkeypatch.setattr(contestants.sys, "platform", "darwin")
    assert "packages for Linux only, and this is darwin" in complaint(capsys, *QUICK)


@pytest.mark.parametrize("version", ["3.7.1", "2.3.1", "3.7.0+git1234"])
def test_a_triton_that_is_too_old_is_one_sentence(monkeypatch, capsys, version):
    monkeypatch.setattr(contestants.importlib.metadata, "version", lambda name: version)
    said = complaint(capsys, *QUICK)
    assert f"Triton {version} is installed" in said
    assert "starts with 3.8" in said


@pytest.mark.parametrize("command", ["audit", "challenge"])
def test_a_triton_that_cannot_be_imported_is_one_sentence(monkeypatch, capsys, command):
    monkeypatch.setattr(contestants.importlib.metadata, "version", lambda name: "3.9.0")
    monkeypatch.setitem(sys.modules, "triton", None)  # as if its libraries were broken
    assert main([command, *(QUICK if command == "audit" else ["--quick"])]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"tritongemm {command}: Triton 3.9.0 is installed but cannot be imported")
    assert err.count("\n") == 1


def test_a_triton_that_was_not_tested_is_remarked(monkeypatch):
    for version, remark in (("3.8.0", False), ("3.9.0", False), ("3.10.0", True), ("4.0.1", True)):
        monkeypatch.setattr(contestants.importlib.metadata, "version", lambda name, v=version: v)
        assert (contestants.triton_version()[1] is not None) == remark


@pytest.mark.triton
def test_a_gpu_that_is_not_there_is_one_sentence(capsys, monkeypatch):
    pytest.importorskip("triton")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "torch", None)  # as if it were not installed
        said = complaint(capsys, *QUICK[:-2], "--device", "gpu")
    assert "needs torch, which is not installed" in said
    assert "--device cpu" in said
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    said = complaint(capsys, *QUICK[:-2], "--device", "gpu")
    assert "torch finds no CUDA GPU" in said
    assert devices.device_named("auto").kind in ("cpu", "gpu")


@pytest.mark.triton
def test_a_grid_of_the_user_that_fails_is_told_without_a_traceback(folder, capsys):
    pytest.importorskip("triton")
    write(folder, "mine.py", LANES + "\n\ndef grid(M, N, K, c):\n    return c['SIZE']\n\n\nkernel.audit_grid = grid\n")
    assert main(["audit", "mine.py:kernel", "blocked", *QUICK]) == 3
    out, err = capsys.readouterr()
    assert "its launch failed: KeyError: 'SIZE'" in " ".join(out.split())
    assert "Traceback" not in out + err


@pytest.mark.triton
def test_the_interpreter_is_refused(tmp_path):
    pytest.importorskip("triton")
    (tmp_path / "x.py").write_text(HEAD + LANES.format(name="kernel", default=" = 32", stop=""))
    run = subprocess.run(
        [sys.executable, "-m", "tritongemm", "audit", "x.py", *QUICK, "--no-report"],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "TRITON_INTERPRET": "1"},
    )  # fmt: skip
    assert run.returncode == 2
    assert "unset TRITON_INTERPRET" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.triton
def test_a_cpu_audit_imports_no_torch_and_no_matplotlib(tmp_path):
    pytest.importorskip("triton")
    code = textwrap.dedent(
        f"""
        import sys
        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in ("torch", "matplotlib"):
                    raise AssertionError(f"{{name}} was imported")
        sys.meta_path.insert(0, Refuse())
        from tritongemm.__main__ import main
        sys.exit(main(["audit", *{QUICK[:-2]!r}]))
        """
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "reports" / "audit.html").is_file()


def test_importing_the_package_imports_neither_triton_nor_torch():
    code = "import sys, tritongemm, tritongemm.accuracy; print([m for m in ('triton', 'torch') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.strip() == "[]", run.stderr


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = replaced(tmp_path / "report.html", "old")

    def interrupted(source, target):
        raise KeyboardInterrupt

    monkeypatch.setattr("tritongemm.files.os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replaced(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_page_escapes_every_text():
    evil = '<script>alert("&")</script>'
    plot = Plot(evil, evil, evil, [Series(evil, [0, 1], [1, 2], "line", 0)], 2, None, evil)
    table = Table((evil, evil), [(evil, evil)], evil, [evil])
    html = page(Document(evil, "PASS", [evil], [evil], [Section(evil, [evil, table, plot])]))
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert 'alert("' not in html.replace("&quot;", "")


@pytest.mark.parametrize(("wide", "fits"), [(1200, True), (500, False)])
def test_the_page_fits_its_window(tmp_path, wide, fits):
    """In a browser: on a desktop no table needs to be scrolled, on a phone tables scroll and the page does not."""
    browser = next((b for b in map(shutil.which, ("chromium", "google-chrome", "chromium-browser")) if b), None)
    if browser is None:
        pytest.skip("needs a browser: chromium or google-chrome")
    name = "a_kernel_with_a_name_of_sixty_characters_as_generators_make_it"
    columns = ("", "outputs", "max |e|", "max |e|/(u·sum|p|)", "rms/(u·sum|p|)", "bias", "<= 1 ulp",
               "outside of float64", "... of the reference")  # fmt: skip
    rows = [(f"{k}: {name}", "33,554,432", "5.56e-04", "0.00345", "0.400", "+0.02", "100.0 %", "12,345,678",
             "12,345,678") for k in "AB"]  # fmt: skip
    items = [Table(columns, rows, "Errors", [f"Reference: {name}."]), Plot(name, name, name, [], 2, None, name)]
    items.append(Plot("p", "x", "y", [Series(name, [0, 1], [1, 2], "line", 0)], 2, None, ""))
    html = page(Document(f"Audit of A: {name} and B: {name}", "PASS", [name * 3], [name], [Section("2", items)]))
    measure = """<script>onload = () => { const over = x => x.scrollWidth - x.clientWidth;
      document.title = "over " + over(document.documentElement) + " "
        + Math.max(...[...document.querySelectorAll(".wide")].map(over)); }</script>"""
    html = re.sub(r"<meta http-equiv=.*>", "", html).replace("</body>", measure + "</body>")
    (tmp_path / "page.html").write_text(html)
    run = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
         f"--window-size={wide},2000", "--dump-dom", (tmp_path / "page.html").as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    found = re.search(r"<title>over (-?\d+) (-?\d+)</title>", run.stdout)
    assert found, run.stderr
    assert int(found[1]) <= 0
    assert (int(found[2]) <= 0) == fits


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda s: s.name)
def test_both_signatures_map_the_same_product(signature):
    names = [x.strip() for x in signature.arguments().split(",")]
    assert signature_of("k", names) == signature
    assert signature_of("k", [n.replace("stride_", "s") for n in names]) == signature
    M, N, K = signature.sizes(2, 3, 5)
    assert {signature.rows: M, "n": N, "k": K, "m": M}[signature.rows] == 2
    assert dict(zip("mnk", (M, N, K), strict=True)) == {signature.rows: 2, signature.columns: 3, signature.inner: 5}


@pytest.mark.parametrize(
    "change", [lambda n: n[:-1], lambda n: [*n, "alpha"], lambda n: [*n[:3], "M", "K", "N", *n[6:]]]
)
def test_other_argument_lists_are_no_signature(change):
    names = [x.strip() for x in SIGNATURES[0].arguments().split(",")]
    with pytest.raises(UsageError, match="follow neither signature"):
        signature_of("kernel", change(names))


def test_unavailable_things_are_errors_of_their_own_kind(monkeypatch):
    monkeypatch.setattr(contestants.importlib.metadata, "version", lambda name: "3.0.0")
    with pytest.raises(Unavailable):
        contestants.triton_version()


def test_figures_are_written_for_people():
    assert [figure(x) for x in (0, 0.034, 6.12, 33554432, 5.64e-4, 12345.6, float("inf"))] == [
        "0", "0.0340", "6.12", "33,554,432", "5.64e-04", "12,346", "inf",
    ]  # fmt: skip
    assert [short(x) for x in (1e-4, 0.01, 2.5e-6, 0, 1)] == ["1e-4", "0.01", "2.5e-6", "0", "1"]
    assert [share(*x) for x in ((0, 5), (5, 5), (1, 1000000), (999999, 1000000), (0, 0))] == [
        "0 %", "100 %", "0.01 %", "99.99 %", "-",
    ]  # fmt: skip
    assert [percent(x) for x in (0.9998, 1.0)] == ["99.98 %", "> 99.99 %"]
