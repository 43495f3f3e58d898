"""What the compiler makes of the kernels for an H200, without one: the instructions each mode is meant to use, no
spilled registers, and nothing that the environment could change."""

import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

triton = pytest.importorskip("triton")

from tritongemm_cases import operands, typed  # noqa: E402
from tritongemm_compiling import compiled, recorded  # noqa: E402

from tritongemm import dispatch, modes  # noqa: E402
from tritongemm.configurations import Config  # noqa: E402
from tritongemm.kernels.epilogue import Epilogue  # noqa: E402
from tritongemm.kernels.problems import Operands  # noqa: E402

pytestmark = pytest.mark.triton

CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


def launches_of(mode, dtype, config, shape=(128, 256, 128), out_dtype="fp32", **more):
    x, y = (typed(v, dtype) for v in operands("normal", shape, dtype))
    with recorded() as launches:
        dispatch.product(x, y, mode=mode, config=config, out_dtype=out_dtype, invariant=False, **more)
    return launches


def usage(kernel):
    """Registers and bytes of stack of a compiled kernel."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        text = subprocess.run([CUOBJDUMP, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", text)
    return int(found[1]), int(found[2])


MODES = [
    ("ieee", "fp32", r"fma\.rn\.f32"),
    ("ieee", "fp64", r"mma\.sync\.aligned\.m8n8k4\.row\.col\.f64"),
    pytest.param("ieee", "fp16", r"wgmma\.mma_async\S*k16\.f32\.f16", marks=pytest.mark.exhaustive),
    ("ieee", "bf16", r"wgmma\.mma_async\S*k16\.f32\.bf16"),
    pytest.param("tf32", "fp32", r"wgmma\.mma_async\S*k8\.f32\.tf32", marks=pytest.mark.exhaustive),
    ("tf32_rounded", "fp32", r"cvt\.rna\.tf32\.f32"),
    ("tf32_even", "fp32", r"wgmma\.mma_async\S*k8\.f32\.tf32"),
    pytest.param("tf32x3", "fp32", r"wgmma\.mma_async\S*k8\.f32\.tf32", marks=pytest.mark.exhaustive),
    pytest.param("bf16x3", "fp32", r"wgmma\.mma_async\S*k16\.f32\.bf16", marks=pytest.mark.exhaustive),
    ("bf16x6", "fp32", r"wgmma\.mma_async\S*k16\.f32\.bf16"),
    ("bf16x6_chained", "fp32", r"wgmma\.mma_async\S*k16\.f32\.bf16"),
    pytest.param("fast", "fp8e5m2", r"wgmma\.mma_async\S*k32\.f32\.e5m2", marks=pytest.mark.exhaustive),
    ("ieee", "fp8e4m3fn", r"wgmma\.mma_async\S*k32\.f32\.e4m3"),
    pytest.param("promote32", "fp8e4m3fn", r"wgmma\.mma_async\S*k32\.f32\.e4m3", marks=pytest.mark.exhaustive),
]


def block_k(mode, dtype):
    dot = modes.get(mode).arithmetic[dtype].dot
    return dot.block_k or (16 if (mode, dtype) == ("ieee", "fp32") else 32)


@pytest.mark.parametrize(("mode", "dtype", "instruction"), MODES)
def test_each_mode_uses_the_unit_it_is_predicted_for_and_spills_nothing(mode, dtype, instruction):
    config = Config(kernel="blocked", block_m=64, block_n=64, block_k=block_k(mode, dtype))
    (launch,) = launches_of(mode, dtype, config, out_dtype="fp64" if dtype == "fp64" else "fp32")
    kernel = compiled(launch)
    assert re.search(instruction, kernel.asm["ptx"])
    registers, stack = usage(kernel)
    assert registers <= 255
    assert stack == 0


@pytest.mark.parametrize(("kernel", "kernels"), [("persistent", 1), ("split_k", 2), ("stream_k", 2)])
def test_the_other_kernels_compile_and_spill_nothing(kernel, kernels):
    launches = launches_of("ieee", "bf16", Config(kernel=kernel, block_m=64, block_n=64, splits=3))
    assert len(launches) == kernels
    for launch in launches:
        # On a GPU the loops over tiles and over k are one.
        made = compiled(launch, **({"FLATTEN": True} if kernel == "persistent" else {}))
        assert usage(made)[1] == 0
        assert "atom" not in made.asm["ptx"]


def test_block_scaled_and_grouped_kernels_compile():
    a, b = operands("normal", (64, 256, 128), "fp8e4m3fn")
    with recorded() as launches:
        x, y = typed(a, "fp8e4m3fn"), typed(np.asfortranarray(b), "fp8e4m3fn")
        dispatch.scaled_product(x, y, np.ones((64, 2), np.float32), np.ones((2, 1), np.float32))
        x, y = (typed(v, "bf16") for v in operands("normal", (64, 256, 128), "bf16"))
        dispatch.grouped_product([x], [y], config=Config(kernel="grouped", block_m=64, block_k=32))
    assert len(launches) == 2
    for launch, form in zip(launches, ("e4m3", "bf16"), strict=True):
        made = compiled(launch)
        assert re.search(rf"wgmma\.mma_async\S*{form}", made.asm["ptx"])
        assert usage(made)[1] == 0


def test_the_persistent_kernel_reads_by_tma_and_does_not_write_by_it():
    """TMA stores on Hopper write whole 16-byte chunks past the end of a row."""
    (launch,) = launches_of("ieee", "bf16", Config(kernel="persistent", block_m=64, block_n=64))
    ptx = compiled(launch, FLATTEN=True).asm["ptx"]
    assert re.search(r"cp\.async\.bulk\.tensor\S*shared::(cluster|cta)\.global", ptx)
    assert not re.search(r"cp\.async\.bulk\.tensor\S*global\.shared", ptx)


def test_plain_pointers_are_read_sixteen_bytes_at_a_time():
    (launch,) = launches_of("ieee", "bf16", Config(kernel="blocked", block_m=64, block_n=64, block_k=64))
    assert re.search(
        r"cp\.async\.cg\.shared\.global[^;]*0x10|cp\.async\.cg\.shared\.global[^;]*, 16", compiled(launch).asm["ptx"]
    )


@pytest.mark.parametrize("kernel", ["blocked", "persistent", "split_k", "stream_k"])
def test_every_launch_states_fusion_and_precision(kernel):
    """Triton's defaults (fusion, tf32) change with its version and the environment; no launch relies on them."""
    for launch in launches_of("ieee", "fp32", Config(kernel=kernel, block_m=64, block_n=64, splits=3)):
        assert launch.keywords["enable_fp_fusion"] is True
        if "INPUT_PRECISION" in launch.kernel.arg_names:
            assert launch.keywords["INPUT_PRECISION"] == "ieee"


def test_the_environments_default_precision_changes_no_bit(monkeypatch):
    config = Config(kernel="blocked", block_m=64, block_n=64)
    (launch,) = launches_of("ieee", "fp32", config)
    before = compiled(launch).asm["ttir"]
    monkeypatch.setattr(triton.knobs.language, "fp32_default", "tf32")
    assert compiled(launch, num_stages=4).asm["ttir"].replace("loc", "") == before.replace("loc", "")


def test_a_grid_has_one_axis():
    """Axes 1 and 2 of a grid stop at 65535."""
    for kernel in ("blocked", "persistent", "split_k", "stream_k"):
        for launch in launches_of("ieee", "fp32", Config(kernel=kernel, splits=3)):
            assert len(launch.grid) == 1


def test_far_elements_of_what_the_epilogue_reads_count_too():
    x = np.ones((2, 2), np.float16)
    memory = np.zeros(2**31 + 4, np.uint8)  # pages that nobody touches
    far = typed(np.lib.stride_tricks.as_strided(memory, (2,), (2**31,)), "fp8e4m3fn")
    rows = typed(np.lib.stride_tricks.as_strided(memory, (2, 1), (2**31, 1)), "fp8e4m3fn")
    one = typed(np.zeros((1, 1), np.uint8), "fp8e4m3fn")

    def wide(**more):
        return Operands.of(x, x.copy(), modes.get("ieee"), epilogue=Epilogue(**more)).wide

    assert not wide(scale_a=one, scale_b=one)
    assert wide(scale_a=rows, scale_b=one)
    assert wide(bias=far)
    matrix = typed(np.lib.stride_tricks.as_strided(memory, (2, 2), (2**31, 1)), "fp8e4m3fn")
    assert wide(beta=1.0, c=matrix)
    assert not wide(beta=0.0, c=matrix)  # not read


def test_offsets_are_computed_in_64_bits_where_they_need_them():
    near = typed(np.zeros((4, 4), np.uint8), "fp8e4m3fn")
    memory = np.zeros(2**31 + 4, np.uint8)  # pages that nobody touches
    far = typed(np.lib.stride_tricks.as_strided(memory, (2, 4), (2**31, 1)), "fp8e4m3fn")
    for x, wide in ((near, False), (far, True)):
        with recorded() as launches:
            dispatch.product(x, near, mode="fast", config=Config(kernel="blocked"))
        assert launches[0].keywords["WIDE"] is wide
        # Strides beyond 32 bits are 64-bit arguments; what is multiplied with them must be, too.
        ptx = compiled(launches[0]).asm["ptx"]
        assert ("mul.lo.s64" in ptx or "mad.lo.s64" in ptx) or not wide
