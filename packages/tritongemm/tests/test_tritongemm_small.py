"""The kernel for products of few rows without a GPU: it compiles without spills, and its configurations fit."""

import re
import subprocess

import pytest

pytestmark = pytest.mark.triton


@pytest.fixture
def small():
    triton = pytest.importorskip("triton")
    if tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9):
        pytest.skip("the kernel needs Triton 3.9")
    pytest.importorskip("torch")
    from tritongemm.kernels.hopper import small

    return small


SHAPES = [(m, k, n) for m in (1, 16, 64, 128) for k in (4096, 7168, 18432) for n in (4096, 7168, 18432)]


def compiled(small, cut, dtype, b_nk, promoted=False):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon._runtime import GluonASTSource

    kinds = {"bf16": (gl.bfloat16, 64), "fp32": (gl.float32, 32), "fp8e4nv": (gl.float8e4nv, 128)}
    kind, width = kinds[dtype]

    def columns(count):
        return (cut.parts * count, width) if b_nk else (width, cut.parts * count)

    tiles = {"a_desc": ((cut.box, width), None), "b_desc": (columns(cut.columns), 0 if b_nk else 1)}
    given = {
        "ROWS": cut.rows, "COLUMNS": cut.columns, "EXTRA": cut.extra, "STAGES": cut.stages, "DEEP": cut.deep,
        "B_NK": b_nk, "PROMOTED": promoted, "FACTORS": False,
        "A_LAYOUT": small._layout((cut.rows, width), kind, cut.parts, None), "ALPHA": False, "ADD": False,
        "BIAS": False, "ACTIVATION": None,
    }  # fmt: skip
    if cut.extra:
        tiles["extra_desc"] = (columns(cut.extra), 0 if b_nk else 1)
    else:
        given["extra_desc"] = None
    signature = {}
    for name in small.small_kernel.arg_names:
        if name in tiles:
            shape, axis = tiles[name]
            layout = small._layout(shape, kind, cut.parts, axis)
            signature[name] = f"tensordesc<{dtype}[{','.join(map(str, shape))}],{layout!r}>"
        elif name in given:
            signature[name] = "constexpr"
        elif name in ("alpha", "beta", "row_factors", "column_factors"):
            signature[name] = "fp32" if name in ("alpha", "beta") else "*fp32"
        else:
            signature[name] = "*bf16" if name.endswith("_ptr") else "i64" if name.startswith("stride") else "i32"
    names = small.small_kernel.arg_names
    constants = {(names.index(name),): value for name, value in given.items()}
    aligned = {(names.index(n),): [["tt.divisibility", 16]] for n, t in signature.items() if t.startswith("*")}
    options = {"num_warps": cut.rows // 16, "num_ctas": cut.parts, "enable_fp_fusion": True}
    source = GluonASTSource(small.small_kernel, signature, constants, aligned)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


CUTS = {
    "one part": ((64, 16, 64, 0, 6, 2, 1), "bf16", True, "HGMMA"),
    "more columns": ((64, 64, 128, 16, 4, 2, 1), "bf16", True, "HGMMA"),
    "two parts": ((128, 128, 64, 0, 4, 2, 2), "bf16", True, "HGMMA"),
    "four parts": ((64, 16, 256, 32, 2, 1, 4), "bf16", True, "HGMMA"),
    "B along n": ((64, 16, 128, 16, 2, 2, 2), "bf16", False, "HGMMA"),
    "tf32": ((64, 16, 64, 0, 4, 2, 2), "fp32", True, "HGMMA"),
    "fp8": ((64, 16, 64, 0, 4, 2, 1), "fp8e4nv", True, "QGMMA"),
    "fp8, promoted": ((64, 16, 64, 0, 4, 2, 1), "fp8e4nv", True, "QGMMA"),
    "fp8, promoted, more columns": ((128, 128, 128, 64, 4, 1, 1), "fp8e4nv", True, "QGMMA"),
    "fp8, promoted, two parts": ((64, 16, 128, 16, 4, 2, 2), "fp8e4nv", True, "QGMMA"),
}


@pytest.mark.parametrize("case", CUTS)
def test_kernels_of_few_rows_compile_without_spills(small, case, tmp_path):
    import triton

    cut, dtype, b_nk, instruction = CUTS[case]
    cut = small.Cut(*cut)
    kernel = compiled(small, cut, dtype, b_nk, "promoted" in case)
    assert cut.shared_memory <= kernel.metadata.shared <= 227 * 1024
    binary = tmp_path / "kernel.cubin"
    binary.write_bytes(kernel.asm["cubin"])

    def output(option):
        tool = triton.knobs.nvidia.cuobjdump.path
        return subprocess.run([tool, option, binary], capture_output=True, text=True, check=True).stdout

    registers, stack = map(int, re.search(r"REG:(\d+) STACK:(\d+)", output("-res-usage")).groups())
    assert stack == 0
    assert registers * cut.rows * 2 <= 65536
    instructions = output("-sass")
    assert instruction in instructions
    assert "UTMALDG" in instructions
    # Parts of k meet in the shared memory of the cluster, not in memory.
    assert ("MAPA" in instructions or "ld.shared::cluster" in kernel.asm["ptx"]) == (cut.parts > 1)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_configurations_for_few_rows_fit_the_shared_memory(small, size):
    for M, _, N in SHAPES:
        for config in small._configurations(M, N, size, 132, (1, 2, 4)):
            cut = small.cut_of(config, M, N, size, 132)
            assert 2 * cut.stage_bytes <= cut.shared_memory <= small._SHARED, config
            assert min(M, 16) <= cut.box <= cut.rows


def test_columns_are_added_only_where_they_save_a_second_tile(small):
    config = small.Config(kernel="small", block_n=128, block_k=128)
    sizes = (132 * 128, 132 * 128 + 1, 132 * 144, 132 * 144 + 1, 132 * 160 + 1, 132 * 192 + 1)
    for N, extra in zip(sizes, (0, 16, 16, 32, 64, 0), strict=True):
        assert small.cut_of(config, 16, N, 2, 132).extra == extra
    in_parts = config.changed(splits=2)
    for N, extra in zip((66 * 128, 66 * 144, 66 * 192, 132 * 128, 132 * 144), (0, 16, 64, 0, 16), strict=True):
        assert small.cut_of(in_parts, 16, N, 2, 132).extra == extra


# What an H200 measured to be fastest, or as fast within 3 %: columns, extra columns, parts; None: another kernel.
MEASURED = {
    (1, 4096): ((32, 0, 1), (32, 0, 1)), (16, 4096): ((32, 0, 1), (32, 0, 1)), (64, 4096): ((32, 0, 1), (64, 0, 2)),
    (128, 4096): (None, (64, 0, 2)), (1, 7168): ((64, 0, 1), (64, 0, 1)),
    (64, 7168): ((64, 0, 1), [(64, 0, 1), (128, 0, 2)]), (128, 7168): (None, None),
    (1, 18432): ((128, 16, 1), (128, 16, 1)), (64, 18432): ((128, 16, 1), (128, 16, 1)),
    (128, 18432): ((128, 16, 1), (128, 16, 2)),
}  # fmt: skip


@pytest.mark.parametrize(("M", "N"), MEASURED)
@pytest.mark.parametrize("K", [4096, 7168, 18432])
def test_the_estimate_chooses_what_an_h200_measured_fastest_for_few_rows(small, M, N, K):
    for parts, want in zip(((1,), small._parts(M)), MEASURED[M, N], strict=True):
        config = small._best(M, N, K, 2, 132, parts)
        cut = small.cut_of(config, M, N, 2, 132)
        found = (cut.columns, cut.extra, cut.parts) if small._wanted(config, M, N, 2, 132) else None
        assert found in (want if isinstance(want, list) else [want])
