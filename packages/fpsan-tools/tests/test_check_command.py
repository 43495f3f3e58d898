"""`fpsan check`, `fpsan leaks` and `fpsan run`: what they print, their exit status, and what they leave as it was."""

import json
import os
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("triton")

import checking_kernels as k

from fpsan_tools.__main__ import main
from fpsan_tools.commands import expressions
from fpsan_tools.exceptions import FpsanError, TritonUnavailable

pytestmark = pytest.mark.triton

KERNELS = k.__file__
SPEC = f"{KERNELS}:scaling_inputs"
GRID = ["--grid", "cdiv(n, BLOCK)", "--const", "BLOCK=32"]


def run(capsys, *words):
    status = main(words)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(request):
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    if request.node.get_closest_marker("gpu"):
        assert driver.active, "the first launch of a process chooses Triton's driver: before, so that it is no change"
    before = list(sys.path), sys.argv, JITFunction.run, driver._active, sys.modules["__main__"]
    yield
    assert (sys.path, sys.argv, JITFunction.run, driver._active, sys.modules["__main__"]) == before


# ---- check


def test_exit_status_0_and_1(capsys, tmp_path):
    status, out, _ = run(capsys, "check", f"{KERNELS}:by_64", f"{KERNELS}:by_32", "--inputs", SPEC)
    assert status == 0
    assert out.startswith("SAME ALGEBRA")
    report = tmp_path / "verdict.html"
    status, out, err = run(
        capsys, "check", f"{KERNELS}:by_64", f"{KERNELS}:tail_dropped", "--inputs", SPEC, "--save", str(report)
    )
    assert status == 1
    assert "a multiple of 32" in out
    assert str(report) in err
    assert report.read_text().startswith("<!DOCTYPE html>")


def test_bare_kernels_take_grid_and_constants_from_the_command_line(capsys):
    sides = [f"{KERNELS}:scaled", f"{KERNELS}:scaled"]
    words = ["--inputs", SPEC, "--grid", "cdiv(n, BLOCK)", "--const-a", "BLOCK=32", "--const-b", "BLOCK=64", "--json"]
    status, out, _ = run(capsys, "check", *sides, *words)
    assert status == 0
    data = json.loads(out)
    assert data["kernels"] == {"a": ["scaled[4, 1, 1]"], "b": ["scaled[2, 1, 1]"]}
    assert data["replay"].endswith("--grid 'cdiv(n, BLOCK)' --const-a BLOCK=32 --const-b BLOCK=64")


def test_a_spec_file_has_inputs_grid_and_constants(capsys, tmp_path):
    spec = tmp_path / "spec.py"
    spec.write_text(
        textwrap.dedent(
            """
            import numpy as np
            grid = lambda bound: (-(-bound["n"] // bound["BLOCK"]),)
            constants = {"scaled": {"BLOCK": 32}, "scaled_by_division": {"BLOCK": 16}}
            outputs = ["out"]
            def make_inputs(rng, n=50):
                x, out = rng.standard_normal(n, np.float32), np.zeros(n, np.float32)
                return {"x": x, "out": out, "n": n, "s": 0.3}
            """
        )
    )
    sides = f"{KERNELS}:scaled", f"{KERNELS}:scaled_by_division"
    status, out, _ = run(capsys, "check", *sides, "--inputs", str(spec), "--size", "n=20", "--seeds", "3", "--json")
    data = json.loads(out)
    assert status == 0  # x / (1 / s) = x * s holds for payloads, too
    assert data["kernels"] == {"a": ["scaled[1, 1, 1]"], "b": ["scaled_by_division[2, 1, 1]"]}
    assert data["sizes"] == {"n": 20}
    assert data["seeds"] == [3]
    assert run(capsys, "check", sides[0], sides[0], "--inputs", str(spec))[0] == 0


def test_inputs_from_a_file_of_arrays(capsys, tmp_path):
    path = tmp_path / "inputs.npz"
    np.savez(path, **k.scaling_inputs(np.random.default_rng(0)))
    status, _, _ = run(capsys, "check", f"{KERNELS}:by_64", f"{KERNELS}:by_32", "--inputs", str(path))
    assert status == 0


def test_exit_status_3_if_nothing_is_decided(capsys, monkeypatch):
    words = ["check", f"{KERNELS}:by_64", f"{KERNELS}:by_32", "--inputs", SPEC, "--bounds", "all"]
    status, out, _ = run(capsys, *words)
    assert status == 3
    assert out.startswith("INCONCLUSIVE: side a (by_64): kernel 'scaled' at")

    def missing():
        raise TritonUnavailable("Triton is not installed")

    monkeypatch.setattr("fpsan_tools.ttir.compile.import_triton", missing)
    status, _, err = run(capsys, *words)
    assert status == 3
    assert "INCONCLUSIVE: Triton is not installed" in err


def test_a_gpu_run_without_torch_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # import torch raises ModuleNotFoundError
    words = ["check", f"{KERNELS}:by_64", f"{KERNELS}:by_32", "--inputs", SPEC, "--engine", "gpu"]
    status, _, err = run(capsys, *words)
    assert status == 3
    assert "INCONCLUSIVE: a GPU run needs torch: pip install 'fpsan-tools[torch]'" in err
    assert "a launcher or make_inputs raised" not in err


def test_without_triton_nothing_is_decided(tmp_path):
    import subprocess

    (tmp_path / "triton.py").write_text("raise ModuleNotFoundError('no triton', name='triton')\n")
    words = ["-m", "fpsan_tools", "check", f"{KERNELS}:by_64", f"{KERNELS}:by_32", "--inputs", SPEC]
    path = os.pathsep.join([str(tmp_path), *(entry for entry in sys.path if entry)])
    result = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=False
    )
    assert result.returncode == 3
    assert result.stderr.startswith("fpsan check: INCONCLUSIVE: Triton is not installed")


BROKEN = {
    "raises.py": "import numpy\n\nraise RuntimeError('on purpose')\n",
    "failing.py": "def launcher(x, out, n, s):\n    return missing_name\n",
    "data.py": "number = 3\n",
    "refused.py": (
        "import triton, triton.language as tl\n@triton.jit\n"
        "def refused(x, out, n, s):\n    tl.store(out, tl.undefined(x))\n"
    ),
}


@pytest.mark.parametrize(
    ("a", "more", "message"),
    [
        ("nowhere.py:kernel", [], "there is no file"),
        (f"{KERNELS}:by_46", [], "has no 'by_46'; did you mean 'by_64'?"),
        (KERNELS, [], "names no object"),
        ("no.such.module:kernel", [], "cannot be imported: ModuleNotFoundError"),
        ("raises.py:kernel", [], "raises.py cannot be imported: RuntimeError: on purpose (line 3)"),
        ("failing.py:launcher", [], "raised NameError at"),
        ("data.py:number", [], "is neither a kernel nor a function, but int"),
        ("refused.py:refused", ["--grid-a", "1"], "Triton refuses kernel 'refused'"),
        (f"{KERNELS}:scaled", [], "needs a grid"),
        (
            f"{KERNELS}:scaled",
            ["--grid-a", "cdiv(N, BLOCK)", "--const-a", "BLOCK=32"],
            "the kernel has no argument 'N'",
        ),
        (f"{KERNELS}:scaled", ["--grid-a", "1"], "no value for parameter 'BLOCK' (make_inputs gives x, out, n, s"),
        (f"{KERNELS}:scaled", ["--grid-a", "1"], "give it as --const BLOCK=..., or in `constants`"),
        (f"{KERNELS}:scaled", ["--grid-a", "__import__('os')"], "only names, whole numbers"),
        (f"{KERNELS}:by_64", ["--grid-a", "3"], "is a function, which launches with its own grid"),
        (f"{KERNELS}:by_64", ["--engine", "cqu"], "did you mean 'cpu'?"),
        (f"{KERNELS}:by_64", ["--size", "m=3"], "unknown size 'm'"),
        (f"{KERNELS}:by_64", ["--save", "verdict.pdf"], "must end in .json, .html, .txt"),
    ],
)
def test_wrong_use_is_status_2_and_one_sentence(capsys, tmp_path, monkeypatch, a, more, message):
    monkeypatch.chdir(tmp_path)
    for name, text in BROKEN.items():
        Path(name).write_text(text)
    status, _, err = run(capsys, "check", a, f"{KERNELS}:by_32", "--inputs", SPEC, *more)
    assert status == 2
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "words", [["check"], ["check", "a.py:k", "b.py:k"], ["check", "a", "b", "--inputs", "c", "--size", "n"]]
)
def test_missing_arguments_are_status_2(capsys, words):
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2


def test_interruption_has_its_own_status(capsys, tmp_path):
    (tmp_path / "slow.py").write_text("def launcher(**inputs):\n    raise KeyboardInterrupt\n")
    status, _, err = run(capsys, "check", f"{tmp_path}/slow.py:launcher", f"{KERNELS}:by_32", "--inputs", SPEC)
    assert status == 130
    assert "interrupted" in err


def test_grids_are_arithmetic_only():
    grid = expressions.grid("cdiv(M, B) * 2 - 1, max(M % 3, -B + 40), next_power_of_2(M // 2)")
    assert grid({"M": 100, "B": 32}) == (7, 8, 64)
    for text in (
        "M.real",
        "[1]",
        "1.5",
        "lambda: 1",
        "'a'",
        "M if B else 1",
        "cdiv(M",
        "cdiv(a=1, b=2)",
        "open(M)",
        "M ** 9",
    ):
        with pytest.raises(FpsanError, match="grid"):
            expressions.grid(text)({"M": 100, "B": 32})


# ---- leaks


def test_leaks_by_types(capsys):
    types = ["--types", "x=*fp32,out=*bf16,n=i32,s=fp32"]
    status, out, _ = run(capsys, "leaks", f"{KERNELS}:scaled", *types, "--const", "BLOCK=32")
    assert status == 0
    assert "every float operation is instrumented" in out
    words = ["--types", "x=*fp32,out=*fp32,n=i32", "--const", "BLOCK=32", "--json"]
    status, out, _ = run(capsys, "leaks", f"{KERNELS}:relu_and_sum", *words)
    assert status == 1
    found = {(gap["op"], gap["decisive"]) for gap in json.loads(out)}
    assert found == {("arith.cmpf", False), ("math.absf", False), ("tt.atomic_rmw fadd", True)}
    status, out, _ = run(capsys, "leaks", f"{KERNELS}:relu_and_sum", *words[:-1])
    assert "checking_kernels.py:" in out


def test_leaks_of_other_versions(capsys, tmp_path):
    path = tmp_path / "clamping.py"
    path.write_text(
        "import triton, triton.language as tl\n@triton.jit\n"
        "def clamping(x):\n    tl.store(x, tl.clamp(tl.load(x), 0.0, 1.0))\n"
    )
    words = ["leaks", f"{path}:clamping", "--types", "x=*fp32"]
    assert run(capsys, *words, "--algebra", "3.9")[0] == 0
    status, out, _ = run(capsys, *words, "--algebra", "3.8")
    assert status == 1
    assert "tt.clampf" in out


def test_leaks_by_inputs_take_launchers(capsys):
    assert run(capsys, "leaks", f"{KERNELS}:by_64", "--inputs", SPEC)[0] == 0
    assert run(capsys, "leaks", f"{KERNELS}:scaled", "--inputs", SPEC, *GRID)[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([f"{KERNELS}:scaled"], "give --types x=...,out=...,n=...,s=... --const BLOCK=..., or --inputs"),
        ([f"{KERNELS}:by_64"], "a launcher needs --inputs"),
        ([f"{KERNELS}:scaled", "--types", "xx=*fp32"], "did you mean 'x'?"),
        (
            [f"{KERNELS}:scaled", "--types", "x=*fp33,out=*fp32,n=i32,s=fp32", "--const", "BLOCK=32"],
            "did you mean '*fp32'?",
        ),
        ([f"{KERNELS}:scaled", "--types", "x"], "is not NAME=TYPE"),
    ],
)
def test_leaks_in_wrong_use(capsys, words, message):
    status, _, err = run(capsys, "leaks", *words)
    assert status == 2
    assert message in err


# ---- run

NUMPY_SCRIPT = """
import sys
import numpy as np
import triton, triton.language as tl

@triton.jit
def double(x, n, B: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(x + o, mask=o < n, other=0.0)
    tl.store(x + o, v + v, mask=o < n)

if __name__ == "__main__":
    x = np.arange(5, dtype=np.float32)
    double[(1,)](x, 5, B=8)
    print(x.view(np.uint32).tolist(), sys.argv[1:])
    sys.exit(int(sys.argv[1]))
"""


def test_a_script_runs_unmodified(capsys, tmp_path):
    from fpsan_tools import algebra

    script = tmp_path / "script.py"
    script.write_text(NUMPY_SCRIPT)
    status, out, err = run(capsys, "run", str(script), "7", "--flag")
    assert status == 7
    rules = algebra.get()
    payloads = rules.embed(np.arange(5, dtype=np.float32), "fp32")
    assert out.strip() == f"{rules.unembed(payloads + payloads, 'fp32').tolist()} ['7', '--flag']"
    assert "double  1x1x1  1" in err
    status, out, err = run(capsys, "run", "--domain", "ieee", "--quiet", str(script), "0")
    assert status == 0
    assert out.startswith(str((2 * np.arange(5, dtype=np.float32)).view(np.uint32).tolist()))
    assert err == ""


def test_a_script_that_fails_shows_its_own_traceback(capsys, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("def inner():\n    raise ValueError('in the script')\n\ninner()\n")
    status, _, err = run(capsys, "run", str(script))
    assert status == 1
    assert "script.py" in err
    assert "ValueError: in the script" in err
    assert "runpy" not in err
    script.write_text("import sys\nsys.exit('a message')\n")
    status, _, err = run(capsys, "run", str(script))
    assert status == 1
    assert "a message" in err


def test_run_in_wrong_use(capsys, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("raise KeyboardInterrupt\n")
    for words, message in (
        (["nowhere.py"], "there is no script nowhere.py"),
        (["--engine", "tpu", str(script)], "unknown engine 'tpu'"),
        (["--domain", "payloads", str(script)], "did you mean 'payload'?"),
        (["--engine", "gpu", "--domain", "ieee", str(script)], "computes payloads only"),
    ):
        status, _, err = run(capsys, "run", *words)
        assert status == 2
        assert message in err
    assert run(capsys, "run", str(script))[0] == 130


TORCH_SCRIPT = """
import torch
import triton, triton.language as tl

DEVICE = triton.runtime.driver.active.get_active_torch_device()

@triton.jit
def add(x, y, out, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    m = o < n
    tl.store(out + o, tl.load(x + o, mask=m) + tl.load(y + o, mask=m), mask=m)

torch.manual_seed(0)
assert torch.cuda.is_available()
x = torch.rand(1000, device="cuda")
y = torch.rand(1000, device=DEVICE).to("cuda").cuda()
assert x.is_cuda
out = torch.empty_like(x)
add[lambda meta: (triton.cdiv(1000, meta["B"]),)](x, y, out, 1000, B=128)
torch.cuda.synchronize()
torch.testing.assert_close(out, x + y)
assert torch.allclose(out, x + y)
assert not torch.allclose(out, x - y)
launch = lambda: add[(8,)](x, y, out, 1000, B=128)
print(triton.testing.do_bench(launch), triton.testing.do_bench(launch, quantiles=[0.5, 0.2, 0.8]))
print("same", torch.equal(out, x + y))
"""


@pytest.mark.gpu
@pytest.mark.fpsan
def test_scripts_and_checks_on_a_gpu(capsys, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(TORCH_SCRIPT.split("launch =")[0] + "print('same')\n")
    status, out, err = run(capsys, "run", "--engine", "gpu", str(script))
    assert (status, out) == (0, "same\n"), err
    assert "add     8x1x1  1" in err
    words = ["check", f"{KERNELS}:by_64", f"{KERNELS}:tail_dropped", "--inputs", SPEC, "--json"]
    found = []
    for engine in ("cpu", "gpu"):
        status, out, err = run(capsys, *words, "--engine", engine)
        assert status == 1, err
        found.append(json.loads(out)["outputs"])
    assert found[0] == found[1]


@pytest.mark.torch
@pytest.mark.parametrize("domain", ["payload", "ieee"])
def test_a_script_for_a_gpu_runs_on_the_cpu(capsys, tmp_path, domain):
    torch = pytest.importorskip("torch")
    script = tmp_path / "script.py"
    script.write_text(TORCH_SCRIPT)
    available = torch.cuda.is_available
    status, out, err = run(capsys, "run", "--domain", domain, str(script))
    assert (status, out) == (0, "nan [nan, nan, nan]\nsame True\n"), err
    assert "add     8x1x1  3" in err
    assert torch.cuda.is_available is available
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    assert not torch.overrides._get_current_function_mode_stack()
