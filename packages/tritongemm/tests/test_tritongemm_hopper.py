"""The Hopper kernels without a GPU: recorded bits are those predicted, and the kernels compile without spills."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tritongemm_hopper_cases as cases

RECORDED = Path(__file__).parent / "data" / "hopper-bits.npz"

# What the guard did on the GPU.
DECIDED = {
    "fp16x3": "fp16x3",
    "fp16x3, wide": "bf16x6",
    "int8x6": "int8x6",
    "int8x6, wide": "ieee",
    "auto": "int8x6",
    "auto, wide": "fp16x3",
}


@pytest.mark.parametrize("case", cases.CASES)
def test_recorded_bits_are_the_predicted_ones(case):
    """What an H200 returned (bench/record_hopper.py), places of NaN and Inf and the signs of zeros included."""
    from tritongemm import modes
    from tritongemm.elements import element_named

    mode, dtype, _ = cases.CASES[case]
    element = element_named(dtype)
    operands = cases.values(case)
    if element.name != "fp32":
        operands = [element.format.decode(element.format.encode(x)).astype(np.float32) for x in operands]
    with np.load(RECORDED) as recorded:
        got = recorded[case]
        if case in DECIDED:
            assert str(recorded[f"{case}: mode"]) == DECIDED[case]
    want = modes.get(mode).predict(*operands, types=(element.name, element.name))
    np.testing.assert_array_equal(got, want.view(np.uint32))


def test_a_wrong_bit_of_an_operand_shows_in_recorded_bits():
    from tritongemm import modes

    a, b = cases.values("tf32")
    a[:, 0] *= np.float32(1 + 2.0**-9)
    with np.load(RECORDED) as recorded:
        assert (recorded["tf32"] != modes.get("tf32").predict(a, b).view(np.uint32)).any()


compiler = pytest.mark.triton


def needs_gluon():
    triton = pytest.importorskip("triton")
    if tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9):
        pytest.skip("the kernels need Triton 3.9")


_TF32 = {"A_MK": False, "HALVINGS": 2, "UNROLL": 4}
# order, operands, result, instruction, shape of the launch, constants
CASES = {
    "bf16": ("chained", "bf16", "bf16", "HGMMA", (128, 256, 64, 3, 1, 2, 1), {"BUFFERS": 2, "HALVINGS": 1}),
    "bf16, B along n": ("chained", "bf16", "bf16", "HGMMA", (128, 256, 64, 3, 1, 2, 1), {"B_NK": False, "HALVINGS": 1}),
    "batch": ("chained", "bf16", "bf16", "HGMMA", (128, 256, 64, 3, 1, 2, 1), {"BATCHED": True}),
    "tall tile": ("chained", "bf16", "bf16", "HGMMA", (256, 128, 64, 3, 1, 2, 1), {"BUFFERS": 2, "HALVINGS": 2}),
    "one warpgroup": ("chained", "bf16", "bf16", "HGMMA", (64, 32, 128, 8, 1, 1, 1), {"HALVINGS": 0}),
    "tf32": ("chained", "fp32", "fp32", "HGMMA", (128, 256, 32, 4, 1, 2, 1), {"HALVINGS": 2}),
    "tf32, A along m": ("chained_from_registers", "fp32", "fp32", "HGMMA", (128, 256, 32, 4, 1, 2, 1), _TF32),
    "tf32, B along n": (
        "chained_from_registers", "fp32", "fp32", "HGMMA", (128, 256, 32, 4, 1, 2, 1), _TF32 | {"TRANSPOSED": True},
    ),
    "fp8": ("promoted_pairs", "fp8e4nv", "bf16", "QGMMA", (128, 128, 128, 6, 1, 2, 1), {"UNROLL": 2, "HALVINGS": 0}),
    "fp8, scales of blocks": (
        "promoted_pairs", "fp8e4nv", "bf16", "QGMMA", (128, 128, 128, 6, 1, 2, 1),
        {"UNROLL": 2, "HALVINGS": 0, "BLOCKS": True},
    ),
    "fp16x3": ("promoted_parts", "fp16", "fp32", "HGMMA", (128, 128, 64, 3, 2, 2, 1), {"SCALED": True, "GATED": True}),
    "int8x6": ("integers", "i8", "fp32", "IGMMA", (256, 128, 64, 4, 3, 2, 2), {"SCALED": True, "GATED": True}),
    "int8x6, cutting": (
        "integers", "i8", "fp32", "IGMMA", (256, 128, 64, 4, 3, 2, 2), {"SCALED": True, "PIECES": 8}
    ),
    "ragged": ("promoted_parts", "fp16", "fp32", "HGMMA", (128, 128, 64, 3, 2, 2, 1), {"SCALED": True, "TMA": False}),
}  # fmt: skip


def compiled(order, operands, result, shape, constants):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon._runtime import GluonASTSource

    from tritongemm.kernels.hopper.matrices import tile_layout
    from tritongemm.kernels.hopper.product import product_kernel

    block_m, block_n, block_k, stages, parts, groups, ctas = shape
    types = {"bf16": gl.bfloat16, "fp16": gl.float16, "fp32": gl.float32, "fp8e4nv": gl.float8e4nv, "i8": gl.int8}
    given = {
        "ORDER": order, "BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "GROUP_M": 8, "STAGES": stages,
        "PARTS": parts, "GROUPS": groups, "A_MK": True, "B_NK": True, "UNROLL": 1, "PRECISION": "tf32", "BUFFERS": 1,
        "HALVINGS": 1, "TMA": True, "SCALED": False, "FACTORS": False, "BLOCKS": False, "ALPHA": False, "ADD": False,
        "BIAS": False, "ACTIVATION": None, "GATED": False, "SPLIT": False, "TRANSPOSED": False,
        "PIECES": 0, "BATCHED": False, "FOLDED": order == "chained_from_registers",
    } | constants  # fmt: skip
    split, share = (True, False) if ctas == 2 else (None, None)
    rows, piece = block_m // groups, block_n >> given["HALVINGS"]
    tiles = {
        "a_desc": (operands, [rows, block_k] if given["A_MK"] else [block_k, rows], split),
        "b_desc": (operands, [block_n, block_k] if given["B_NK"] else [block_k, block_n], share),
        "c_desc": (result, [piece, rows] if given["TRANSPOSED"] else [rows, piece], split),
    }
    one = [1] if given["BATCHED"] else []
    layouts = {
        name: tile_layout(*tile, types[kind], how, given["BATCHED"]) for name, (kind, tile, how) in tiles.items()
    }
    facts = ("gate_ptr", "row_exponents", "column_exponents", "cut_exponents", "small_ptr", "ready_ptr")
    pointers = dict.fromkeys(facts, "i32") | {
        "energy_ptr": "i64",
        "x_ptr": "fp32",
        "parts_ptr": "i32" if operands == "i8" else operands,
    }
    signature = {}
    for name in product_kernel.arg_names:
        if name in tiles:
            kind, tile, _ = tiles[name]
            signature[name] = f"tensordesc<{kind}[{','.join(map(str, one + tile))}],{layouts[name]!r}>"
        elif name in given or name == "C_LAYOUT":
            signature[name] = "constexpr"
        elif name in ("alpha", "beta", "row_factors", "column_factors"):
            signature[name] = "fp32" if name in ("alpha", "beta") else "*fp32"
        elif name in pointers:
            signature[name] = f"*{pointers[name]}"
        elif name.endswith("_ptr"):
            signature[name] = f"*{result}"
        else:
            signature[name] = "i64" if name.startswith("stride") else "i32"
    kind, tile, how = tiles["c_desc"]
    given["C_LAYOUT"] = tile_layout(*tile, types[kind], how)
    if not given["TMA"]:
        signature["c_desc"], given["c_desc"] = "constexpr", None
    names = product_kernel.arg_names
    constants = {(names.index(name),): value for name, value in given.items()}
    aligned = {(names.index(n),): [["tt.divisibility", 16]] for n, t in signature.items() if t.startswith("*")}
    options = {"num_warps": 4, "maxnreg": 168, "num_ctas": ctas, "enable_fp_fusion": True}
    source = GluonASTSource(product_kernel, signature, constants, aligned)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


# Compiling the others takes half a minute each.
QUICK = ("bf16", "one warpgroup", "tf32, B along n")


@compiler
@pytest.mark.parametrize("case", [c if c in QUICK else pytest.param(c, marks=pytest.mark.exhaustive) for c in CASES])
def test_kernels_compile_without_spills(case, tmp_path):
    needs_gluon()
    order, operands, result, instruction, shape, constants = CASES[case]
    kernel = compiled(order, operands, result, shape, constants)
    assert kernel.metadata.shared <= 227 * 1024
    binary = tmp_path / "kernel.cubin"
    binary.write_bytes(kernel.asm["cubin"])
    import triton

    disassembler = triton.knobs.nvidia.cuobjdump.path

    def output(option):
        return subprocess.run([disassembler, option, binary], capture_output=True, text=True, check=True).stdout

    registers, stack = map(int, re.search(r"REG:(\d+) STACK:(\d+)", output("-res-usage")).groups())
    assert (registers, stack) == (168, 0)
    instructions = output("-sass")
    assert instructions.count(instruction) >= shape[5] * 2
    assert "UTMALDG" in instructions
    assert ("UTMASTG" in instructions) == constants.get("TMA", True)
    assert "STL" not in instructions
    if order.startswith("chained"):
        # Where the compiler cannot follow an operand in registers it waits for each instruction, not for each stage.
        steps = shape[2] * {"fp32": 32, "bf16": 16}[operands] // 256 * (shape[0] // shape[5] // 64)
        assert len(re.findall(r"HGMMA[^;]*gsb0", instructions)) * steps == instructions.count("HGMMA")


@compiler
def test_configurations_fit_the_shared_memory():
    needs_gluon()
    from tritongemm.kernels.hopper.emulated import EMULATIONS
    from tritongemm.kernels.hopper.warp_specialised import _SHARED, KINDS, _tiles, shape_of

    for (_, element), kind in KINDS.items():
        size = {"fp32": 4, "fp16": 2, "bf16": 2}.get(element, 1)
        for result in (2, 4):
            for config in _tiles(kind, size, result):
                assert shape_of(config, kind, size, result).shared_memory(size, result) <= _SHARED, (kind, config)
    sizes = {"fp16": 2, "bf16": 2, "int8": 1}
    for plan in EMULATIONS.values():
        assert plan.shape.shared_memory(sizes[plan.kind], 4) <= 227 * 1024 - 512


@compiler
@pytest.mark.parametrize(
    ("M", "K", "N", "tile"),
    [
        (8192, 6144, 4096, (128, 256)), (4096, 4096, 4096, (128, 256)), (1, 18432, 7168, (64, 128)),
        (16, 4096, 18432, (64, 256)), (1, 4096, 7168, (64, 128)),
    ],
)  # fmt: skip
def test_the_estimate_chooses_the_tile_that_an_h200_measured_fastest(M, K, N, tile):
    needs_gluon()
    from tritongemm.kernels.hopper.warp_specialised import KINDS, _clocks, _tiles

    kind = KINDS["ieee", "bf16"]
    best = min(_tiles(kind, 2, 2), key=lambda c: _clocks(c, kind, M, N, K, 2, 132))
    assert (best.block_m, best.block_n) == tile


@compiler
def test_tiles_are_tall_where_that_saves_a_round_of_them():
    needs_gluon()
    from tritongemm.configurations import Config
    from tritongemm.kernels.hopper.warp_specialised import _tall

    wide = Config(kernel="warp_specialised", block_m=128, block_n=256, block_k=64)
    for M, N, tall in ((4095, 4099, True), (4096, 4224, True), (4096, 4096, False), (8192, 8320, False)):
        config = _tall(wide, M, N, 132)
        assert (config.block_m, config.block_n) == ((256, 128) if tall else (128, 256))


def test_recorded_speeds_come_with_smaller_errors_than_the_librarys():
    """bench/results/nvidia-h200-gemm.json: fp32-accurate products are faster than the library's and err less."""
    import json

    path = Path(__file__).parents[3] / "bench" / "results" / "nvidia-h200-gemm.json"
    if not path.exists():
        pytest.skip("the benchmark's results are part of the repository only")
    figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
    ours = [f for f in figures if f.get("contestant") == "ours"]
    emulated = [f for f in ours if f["family"].split()[0] in ("fp16x3", "int8x6", "bf16x6")]
    assert emulated
    for figure in emulated:
        assert figure["ratio"] > 2
        assert figure["error"]["error"]["rms"] < figure["error"]["vendor_error"]["rms"]
        assert figure["error"]["error"]["max"] < figure["error"]["vendor_error"]["max"]
    chains = [f for f in ours if f["family"] == "ieee fp32"]
    assert all(f["error"]["equal_bits"] for f in chains), "the library's bits"
    for figure in figures:
        M, K, N = figure["shape"]
        assert figure["tflops"] == pytest.approx(2e-9 * M * K * N / figure["ms"])


@compiler
def test_what_the_copy_engine_reads_and_stores():
    torch = pytest.importorskip("torch")
    needs_gluon()
    from tritongemm.kernels.hopper.matrices import contiguous_axis, readable, storable

    x = torch.arange(64 * 48, dtype=torch.float32).reshape(64, 48)
    odd = torch.zeros(64 * 48 + 3)[3:].view(64, 48)
    assert contiguous_axis(x) == 1
    assert contiguous_axis(x.t()) == 0
    assert contiguous_axis(x[:, :47]) == 1
    assert contiguous_axis(x[:, ::2]) is None
    assert contiguous_axis(x[:1].expand(64, 48)) is None, "a row repeated has no pitch"
    assert contiguous_axis(x.to(torch.bfloat16)[:, :45].contiguous()) is None, "90 bytes per row"
    assert contiguous_axis(torch.zeros(1, 45)) == 1, "a single row has no pitch"
    assert odd.data_ptr() % 16 == 12
    assert contiguous_axis(odd) is None
    for view in (x[:, ::2], x.to(torch.bfloat16)[:, :45].contiguous(), odd, x[:1].expand(64, 48)):
        for axis in (None, 0, 1):
            copy, found = readable(view, axis)
            assert torch.equal(copy, view)
            assert found == contiguous_axis(copy)
            assert axis in (None, found)
    same, axis = readable(x.t(), None)
    assert (same.data_ptr(), axis) == (x.data_ptr(), 0)
    assert storable(x)
    assert storable(x[:, :44])
    assert not storable(x[:, :45]), "the engine would write past the edge"
    assert not storable(odd)
    assert not storable(x.t())


def test_recorded_accuracy_is_computed_again():
    """bench/results/emulation-accuracy.json, one of its rows."""
    import importlib.util
    import json

    bench = Path(__file__).parents[3] / "bench"
    path = bench / "results" / "emulation-accuracy.json"
    if not path.exists():
        pytest.skip("the benchmark's results are part of the repository only")
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    spec = importlib.util.spec_from_file_location("emulation_accuracy", bench / "emulation_accuracy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    want = next(row for row in rows if (row["data"], row["K"]) == ("normal", 64))
    assert module.measure("normal", 64) == want
    for row in rows:
        assert row["auto"]["rms"] <= 1.1 * row["ieee"]["rms"], row


@compiler
def test_programs_that_cut_rows_are_those_without_tiles():
    """Over many shapes: as many rounds of tiles as without them, whole tiles cut before, an even share of the rest."""
    needs_gluon()
    from tritongemm.kernels.hopper.emulated import EMULATIONS, share_of

    plan = EMULATIONS["int8x6"]
    shape, rng = plan.shape, np.random.default_rng(0)
    shared = 0
    for M, K, N in [(8192, 6144, 4096), *rng.integers(1, 12000, (400, 3)).tolist()]:
        share = share_of(M, K, N, plan.cut_rate, shape, 132)
        if share is None:
            continue
        shared += 1
        tiles = -(-M // shape.block_m) * -(-N // shape.block_n)
        programs = 132 // shape.ctas
        assert -(-tiles // (programs - share.programs)) == -(-tiles // programs)
        assert share.programs > 0
        assert share.first % shape.block_m == 0
        # The first round reaches rows that nobody could have cut in time.
        reached = -(-(programs - share.programs) // -(-N // shape.block_n))
        assert reached * shape.block_m <= share.first < M
    assert shared > 50
    assert share_of(8192, 6144, 4096, plan.cut_rate, shape, 128 // shape.ctas * shape.ctas) is None, (
        "no program is idle"
    )
    assert share_of(4096, 4096, 4096, plan.cut_rate, shape, 132) is None, "few rounds"
    assert share_of(8192, 8208, 4096, plan.cut_rate, shape, 132) is None, "rows that no warpgroup can hold"
