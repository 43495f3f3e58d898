"""fp8 in tiles of two widths: each column belongs to one tile, programs end together, and the kernel spills nothing."""

import re
import subprocess
from collections import Counter

import pytest

triton = pytest.importorskip("triton")
if tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9):
    pytest.skip("the kernels need Triton 3.9", allow_module_level=True)

from tritongemm.kernels.hopper import promoted  # noqa: E402

SIZES = [(8192, 4096), (4096, 4096), (8192, 8192), (128, 17000), (8191, 4095), (300, 515), (1, 40), (20000, 64), (1, 1)]


def programs_of(M, N, block_m, programs, even):
    """The tiles of every program as the kernel numbers them: (row, first column, columns)."""
    wide, narrow = promoted.strips(M, N, block_m, programs, even)
    rows = -(-M // block_m)
    first, count = rows * wide, rows * (wide + narrow)
    tiles = [(t // wide, 192 * (t % wide), 192) for t in range(first)]
    tiles += [((t - first) // narrow, 192 * wide + 128 * ((t - first) % narrow), 128) for t in range(first, count)]
    return [tiles[p::programs] for p in range(programs)]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("even", [False, True])
def test_every_column_belongs_to_one_tile_and_none_lies_beyond(size, even):
    M, N = size
    covered = Counter()
    for program in programs_of(M, N, 128, 132, even):
        for row, column, columns in program:
            assert row * 128 < M
            covered.update((row, n) for n in range(column, column + columns, 64))
    assert set(covered.values()) == {1}
    # A tile may reach beyond N with its last 64 columns only.
    assert {(r, n) for r in range(-(-M // 128)) for n in range(0, N, 64)} <= set(covered)
    assert max(n for _, n in covered) < N + 64


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("programs", [132, 66])
def test_no_other_number_of_wide_tiles_lets_programs_end_earlier(size, programs):
    M, N = size
    longest = max(sum(t[2] for t in p) for p in programs_of(M, N, 128, programs, False))
    units, rows = -(-N // 64), -(-M // 128)
    for wide in range(units // 3 + 1):
        tiles = [3] * (rows * wide) + [2] * (rows * -(-(units - 3 * wide) // 2))
        assert longest <= 64 * max(sum(tiles[p::programs]) for p in range(programs))


def test_narrow_tiles_begin_at_blocks_of_scales():
    for M, N in SIZES:
        assert promoted.strips(M, N, 128, 132, True)[0] % 2 == 0


CASES = {
    "bf16": ("bf16", {}),
    "scales of blocks": ("bf16", {"BLOCKS": True}),
    "epilogue": ("fp32", {"ADD": True, "BIAS": True, "ALPHA": True, "ACTIVATION": "silu"}),
    "ragged, scales of blocks": ("fp32", {"BLOCKS": True, "TMA": False}),
    "scales of rows": ("bf16", {"FACTORS": True}),
}


def compiled(result, constants):
    from triton.backends.compiler import GPUTarget
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon._runtime import GluonASTSource

    from tritongemm.kernels.hopper.matrices import tile_layout

    kernel = promoted.promoted_kernel
    fp8, out = gl.float8e4nv, {"bf16": gl.bfloat16, "fp32": gl.float32}[result]
    given = {
        "BLOCK_M": 128, "GROUP_M": 8, "STAGES": promoted._stages(2 if result == "bf16" else 4), "TMA": True,
        "FACTORS": False, "BLOCKS": False, "ALPHA": False, "ADD": False, "BIAS": False, "ACTIVATION": None,
        "C_LAYOUT": tile_layout(64, 64, out, None),
    } | constants  # fmt: skip
    described = {
        "a_desc": ("fp8e4nv", [64, 128], tile_layout(64, 128, fp8, None)),
        "b_desc": ("fp8e4nv", [128, 128], tile_layout(128, 128, fp8, None)),
        "rest_desc": ("fp8e4nv", [64, 128], tile_layout(64, 128, fp8, None)),
        "c_desc": (result, [64, 64], given["C_LAYOUT"]),
        "row_desc": ("fp32", [1, 64], promoted._plain()),
        "column_desc": ("fp32", [1, 32], promoted._plain()),
    }
    absent = [] if given["BLOCKS"] else ["row_desc", "column_desc"]
    given |= dict.fromkeys(absent if given["TMA"] else [*absent, "c_desc"])
    signature = {}
    for name in kernel.arg_names:
        if name in given:
            signature[name] = "constexpr"
        elif name in described:
            kind, tile, layout = described[name]
            signature[name] = f"tensordesc<{kind}[{','.join(map(str, tile))}],{layout!r}>"
        elif name in ("alpha", "beta"):
            signature[name] = "fp32"
        elif name.endswith(("_ptr", "factors", "exponents")):
            signature[name] = {"c_ptr": f"*{result}", "exponents": "*i32"}.get(name, "*fp32")
        else:
            signature[name] = "i32"
    names = kernel.arg_names
    constants = {(names.index(name),): value for name, value in given.items()}
    options = {"num_warps": 4, "maxnreg": 168, "enable_fp_fusion": True}
    source = GluonASTSource(kernel, signature, constants, {})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


@pytest.mark.triton
@pytest.mark.parametrize("case", [c if "," not in c else pytest.param(c, marks=pytest.mark.exhaustive) for c in CASES])
def test_the_kernel_compiles_without_spills(case, tmp_path):
    result, constants = CASES[case]
    kernel = compiled(result, constants)
    assert kernel.metadata.shared <= 227 * 1024
    binary = tmp_path / "kernel.cubin"
    binary.write_bytes(kernel.asm["cubin"])

    def output(option):
        command = [triton.knobs.nvidia.cuobjdump.path, option, binary]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    registers, stack = map(int, re.search(r"REG:(\d+) STACK:(\d+)", output("-res-usage")).groups())
    assert (registers, stack) == (168, 0)
    instructions = output("-sass")
    # Two warpgroups, each with two stages of a wide and two of a narrow tile; none waits for itself to drain at once.
    assert instructions.count("QGMMA.64x128x32") == 2 * 4 * (2 + 2)
    assert instructions.count("QGMMA.64x64x32") == 2 * 4 * 2
    assert instructions.count("WARPGROUP.DEPBAR") == 2 * (4 + 2)
    assert ("UTMASTG" in instructions) == constants.get("TMA", True)
