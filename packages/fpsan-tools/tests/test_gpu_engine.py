"""The GPU engine's handling of Triton's settings, threads and errors; what needs no GPU."""

import os
import threading
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("triton")

import triton
import triton.language as tl
from triton import knobs
from triton.runtime.jit import JITFunction

import fpsan_tools
from fpsan_tools import algebra, dispatch, gpu
from fpsan_tools.exceptions import FpsanError, TritonUnavailable, UnknownName

pytestmark = pytest.mark.triton

RELEASE = ".".join(triton.__version__.split(".")[:2])
if RELEASE not in algebra.VERSIONS:
    pytest.skip(f"Triton {RELEASE} has no known FpSan algebra", allow_module_level=True)


@triton.jit
def copy(source, target):
    tl.store(target, tl.load(source))


TTIR = """\
#loc = loc("kernels.py":3:0)
module {
  tt.func public @kernel(%arg0: !tt.ptr<f32> loc("kernels.py":3:0)) attributes {noinline = false} {
    %0 = tt.load %arg0 : !tt.ptr<f32> loc(#loc1)
    %1 = math.absf %0 : f32 loc(#loc2)
    tt.store %arg0, %1 : !tt.ptr<f32> loc(#loc3)
    tt.return loc(#loc3)
  } loc(#loc)
} loc(#loc)
#loc1 = loc("kernels.py":4:8)
#loc2 = loc("kernels.py":5:8)
#loc3 = loc("kernels.py":6:4)
"""


class Device:
    """Stands for a GPU and for Triton's launch on it, which notes the settings it was called under."""

    def __init__(self, monkeypatch, backend="cuda", arch=90):
        self.seen = []
        self.failure = None
        self.asm = {"ttir": TTIR}
        target = SimpleNamespace(backend=backend, arch=arch)
        monkeypatch.setattr(triton.runtime.driver, "_active", SimpleNamespace(get_current_target=lambda: target))
        # A function, as Triton's own entry point is: the kernel is its first argument.
        monkeypatch.setattr(JITFunction, "run", lambda kernel, *a, **k: self.run(kernel, *a, **k))

    def run(self, kernel, *arguments, grid, warmup, **keywords):
        named = dict(zip(kernel.arg_names, arguments, strict=False))
        size = None if warmup else grid(named) if callable(grid) else grid
        casts = getattr(knobs.compilation, "fpsan_homomorphic_casts", None)
        self.seen.append((knobs.compilation.instrumentation_mode, casts, size))
        if self.failure is not None:
            raise self.failure
        return SimpleNamespace(metadata=SimpleNamespace(enable_fp_fusion=False), asm=self.asm)


@pytest.fixture
def device(monkeypatch):
    return Device(monkeypatch)


def settings():
    return dict(knobs.compilation.__dict__), {k: v for k, v in os.environ.items() if "TRITON" in k}


CUDA = SimpleNamespace(device=SimpleNamespace(type="cuda"))


def test_launches_in_the_block_are_compiled_in_the_mode_and_others_are_not(device):
    before, ordinary = settings(), knobs.compilation.instrumentation_mode
    with fpsan_tools.on_gpu() as session:
        assert settings() == before  # set for launches only
        copy[(3, 2)](CUDA, CUDA)
        copy[lambda arguments: (len(arguments),)](CUDA, CUDA)
        copy.warmup(CUDA, CUDA, grid=(1,))
    copy[(1,)](CUDA, CUDA)
    assert [mode for mode, _, _ in device.seen] == ["fpsan", "fpsan", "fpsan", ordinary]
    assert [launch.grid for launch in session.launches] == [(3, 2, 1), (2, 1, 1)]
    assert session.launches[0].programs == 6
    assert session.launches[0].fusion is False
    assert session.launches[0].triton_version == triton.__version__
    assert settings() == before


@pytest.mark.parametrize("failure", [ValueError("in the launch"), KeyboardInterrupt()])
def test_settings_and_entry_points_are_restored_after_failures(device, failure):
    before, entry = settings(), JITFunction.run
    device.failure = failure
    with pytest.raises(type(failure)), fpsan_tools.on_gpu():
        copy[(1,)](CUDA, CUDA)
    assert settings() == before
    assert JITFunction.run is entry
    assert device.seen[0][0] == "fpsan"


def test_a_mode_that_was_set_before_is_kept(device, monkeypatch):
    monkeypatch.setattr(knobs.compilation, "instrumentation_mode", "consan")
    with fpsan_tools.on_gpu():
        copy[(1,)](CUDA, CUDA)
    copy[(1,)](CUDA, CUDA)
    assert [mode for mode, _, _ in device.seen] == ["fpsan", "consan"]


@pytest.mark.skipif(f"{RELEASE}-homomorphic" not in algebra.VERSIONS, reason="the option starts in Triton 3.9")
def test_homomorphic_casts_follow_the_version(device, monkeypatch):
    with fpsan_tools.on_gpu(version=f"{RELEASE}-homomorphic") as session:
        copy[(1,)](CUDA, CUDA)
    assert session.algebra.mixing_casts is False
    monkeypatch.setenv("TRITON_FPSAN_HOMOMORPHIC_CASTS", "1")
    with fpsan_tools.on_gpu(version=RELEASE):
        copy[(1,)](CUDA, CUDA)
    with fpsan_tools.on_gpu():
        copy[(1,)](CUDA, CUDA)
    assert [casts for _, casts, _ in device.seen] == [True, False, True]
    assert os.environ["TRITON_FPSAN_HOMOMORPHIC_CASTS"] == "1"


def test_other_threads_are_not_affected_and_sessions_may_overlap(device):
    entry = JITFunction.run
    inside, go_on = threading.Event(), threading.Event()

    def elsewhere():
        with fpsan_tools.on_gpu():
            inside.set()
            go_on.wait(10)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    assert inside.wait(10)
    copy[(1,)](CUDA, CUDA)  # not in a session here
    with fpsan_tools.on_gpu():
        go_on.set()
        thread.join()  # the other session ends first
        copy[(1,)](CUDA, CUDA)
    assert [mode for mode, _, _ in device.seen] == ["", "fpsan"]
    assert JITFunction.run is entry


def test_nested_engines_are_those_of_the_innermost_block(device):
    one, two = np.ones(1, np.float32), np.zeros(1, np.float32)
    with fpsan_tools.on_gpu():
        with fpsan_tools.on_cpu():
            copy[(1,)](one, two)
        copy[(1,)](CUDA, CUDA)
    assert two[0] == 1
    assert [mode for mode, _, _ in device.seen] == ["fpsan"]


def test_arrays_that_are_not_on_the_gpu_are_named(device):
    with fpsan_tools.on_gpu():
        with pytest.raises(FpsanError, match=r"kernel 'copy': argument 'target' is not on the GPU \(ndarray\)"):
            copy[(1,)](CUDA, np.zeros(1, np.float32))
        host = SimpleNamespace(device=SimpleNamespace(type="cpu"))
        with pytest.raises(FpsanError, match=r"argument 'source' is not on the GPU.*use fpsan_tools.on_cpu\(\)"):
            copy[(1,)](target=CUDA, source=host)
    assert device.seen == []


def test_versions_of_other_releases_are_refused(device):
    other = "3.8" if RELEASE != "3.8" else "3.9"
    with pytest.raises(FpsanError, match=rf"version '{other}' was asked for, but a GPU computes"):
        gpu.on_gpu(version=other).__enter__()
    with pytest.raises(UnknownName, match=r"unknown algebra version '4\.0'"):
        gpu.on_gpu(version="4.0").__enter__()


@pytest.mark.parametrize(
    ("raised", "torch", "told"),
    [
        ("0 active drivers ([]). There should only be one.", True, "no GPU driver found"),
        ("out of luck", True, "out of luck"),
        ("0 active drivers ([])", False, "torch, which is not installed: pip install 'fpsan-tools[torch]'"),
    ],
)
def test_a_machine_without_a_gpu_says_so(monkeypatch, raised, torch, told):
    def nothing():
        raise RuntimeError(raised)

    monkeypatch.setattr(triton.runtime.driver, "_active", SimpleNamespace(get_current_target=nothing))
    monkeypatch.setattr(gpu.importlib.util, "find_spec", lambda name: object() if torch else None)
    with pytest.raises(TritonUnavailable, match="Triton finds no GPU here") as caught:
        gpu.gpu_target()
    assert f"{told}); fpsan_tools.on_cpu()" in str(caught.value)
    assert "([])" not in str(caught.value)


AMD = [("gfx942", True), ("gfx942:sramecc+", True), ("gfx90a", False), ("gfx1100", False)]


@pytest.mark.parametrize(("arch", "works"), AMD)
def test_amd_architectures_that_ignore_the_mode_are_refused(arch, works, monkeypatch):
    Device(monkeypatch, "hip", arch)
    if works:
        assert gpu.gpu_target().arch == arch
    else:
        with pytest.raises(TritonUnavailable, match=f"FpSan instruments nothing on {arch}"):
            gpu.gpu_target()


def test_records_list_what_payloads_do_not_cover(device):
    with fpsan_tools.on_gpu() as session:
        copy[(1,)](CUDA, CUDA)
        device.asm = {"ttir": TTIR.replace("math.absf %0 : f32", "?? %0")}
        copy[(1,)](CUDA, CUDA)
        device.asm = {"glir": TTIR}  # a kernel written in Gluon
        copy[(1,)](CUDA, CUDA)
        device.asm = {"cubin": b""}
        copy[(1,)](CUDA, CUDA)
    first, second, gluon, bare = session.launches
    assert gluon.unsanitised == first.unsanitised
    assert bare.notes[1].startswith("operations that payloads do not cover are not listed: the compiled kernel carries")
    assert [(gap.op, gap.file, gap.line) for gap in first.unsanitised] == [("math.absf", "kernels.py", 5)]
    assert second.unsanitised == []
    assert second.notes[1].startswith("operations that payloads do not cover are not listed: ")


def test_no_session_leaves_a_patch(device):
    entry = JITFunction.run
    with fpsan_tools.on_gpu(), fpsan_tools.on_gpu():
        assert JITFunction.run is dispatch._run_jit
    assert JITFunction.run is entry
