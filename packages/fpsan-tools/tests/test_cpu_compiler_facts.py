"""Facts about the compiler that the ieee and hardware domains rest on, read from what it emits (no GPU needed)."""

import re
from collections import Counter

import pytest

pytest.importorskip("triton")

import fpsan_feature_kernels as features
import fpsan_hardware_kernels as hardware
from fpsan_kernels import blocked, strided_lanes
from triton._C.libtriton import ir
from triton.compiler import ASTSource

from fpsan_tools.ttir.compile import CAPABILITY, backend_for
from fpsan_tools.ttir.fusion import contract
from fpsan_tools.ttir.parser import parse

pytestmark = pytest.mark.triton


def stages(kernel, types, constants, last, **options):
    """Texts of the compiler's stages up to `last`: "ttir", "ttgir", "ptx"."""
    target, backend = backend_for()
    options = backend.parse_options({"enable_fp_fusion": True, **options})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    names = kernel.arg_names
    signature = {name: "constexpr" if name in constants else types[name] for name in names}
    fixed = {(names.index(name),): value for name, value in constants.items()}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if name not in constants}
    source = ASTSource(kernel, signature, fixed, aligned)
    codegen, modules = backend.get_codegen_implementation(options), backend.get_module_map()
    module = source.make_ir(target, options, codegen, modules, context)
    metadata = {}
    module = backend.make_ttir(module, metadata, options, CAPABILITY)
    texts = {"ttir": str(module)}
    if last != "ttir":
        module = backend.make_ttgir(module, metadata, options, CAPABILITY)
        texts["ttgir"] = str(module)
    if last == "ptx":
        texts["ptx"] = backend.make_ptx(backend.make_llir(module, metadata, options, CAPABILITY), metadata, options, 90)
    return texts


FP32 = "*fp32"
MATRIX = dict.fromkeys(("a", "b", "c"), FP32) | dict.fromkeys(strided_lanes.arg_names[3:12], "i32")


@pytest.mark.parametrize("fusion", [True, False])
@pytest.mark.parametrize("case", range(12))
def test_the_assembler_s_input_contracts_what_the_rule_contracts(case, fusion):
    types = {"a": FP32, "b": FP32, "c": FP32, "o": FP32}
    options = {"num_warps": 1, "enable_fp_fusion": fusion}
    texts = stages(features.fusions, types, {"B": 32, "CASE": case}, "ptx", **options)
    emitted = Counter(re.findall(r"\b(fma|mul|add|sub)\.(?:rn\.)?f32\b", texts["ptx"]))
    module = parse(texts["ttir"])
    if fusion:
        contract(module)
    ours = Counter(operation.name for operation in module.operations())
    assert emitted["fma"] == ours["contracted.fma"]
    plain = ours["arith.mulf"] + ours["arith.addf"] + ours["arith.subf"]
    assert emitted["mul"] + emitted["add"] + emitted["sub"] == plain  # a product with 2 may be emitted as a sum
    assert (case in (8, 9) or not fusion) == (emitted["fma"] == 0)


@pytest.mark.parametrize("fold", [True, False])
def test_products_that_are_added_to_a_sum_are_one_chain(fold):
    """`acc += tl.dot(...)` in ieee precision is the same operation as `acc = tl.dot(..., acc)`."""
    constants = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "FOLD": fold}
    texts = stages(blocked, MATRIX, constants, "ptx")
    names = Counter(operation.name for operation in parse(texts["ttir"]).operations())
    assert (names["tt.dot"], names["arith.addf"]) == (1, 0)
    emitted = Counter(re.findall(r"\b(fma|mul|add)\.(?:rn\.)?f32\b", texts["ptx"]))
    assert emitted["fma"] == 32 * 32 * 16 // 128
    assert emitted["mul"] + emitted["add"] == 0


def orders(text):
    """Layouts and lines of reductions and scans."""
    module = parse(text)
    found = set()
    for operation in module.operations():
        if operation.name in ("tt.reduce", "tt.scan"):
            layout = operation.types[0][0].layout
            for name in sorted(module.layouts, key=len, reverse=True):
                layout = layout.replace(name, module.layouts[name])
            found.add((operation.name, operation.types[0][0].shape, layout, str(operation.location.user)))
    return found


@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize(
    ("kernel", "types", "constants"),
    [
        (strided_lanes, MATRIX, {"BLOCK": 256}),
        (hardware.loop_of_row_sums, {"a": FP32, "o": FP32, "steps": "i32"}, {"M": 16, "N": 64}),
        (hardware.row_sums_of_product, {"a": "*fp16", "b": "*fp16", "o": FP32}, {"M": 64, "N": 64, "K": 64}),
        (features.softmax_rows, {"a": FP32, "o": FP32, "n": "i32", "stride": "i32"}, {"B": 1024}),
    ],
    ids=["lanes", "row-sums", "product", "softmax"],
)
def test_pipelines_do_not_change_the_order_of_sums(kernel, types, constants, warps):
    found = [
        orders(stages(kernel, types, constants, "ttgir", num_warps=warps, num_stages=depth)["ttgir"])
        for depth in (1, 3)
    ]
    assert found[0] == found[1] != set()


@pytest.mark.parametrize(("m", "n", "warps"), [(16, 64, 1), (16, 64, 4), (64, 16, 1), (128, 32, 8)])
def test_whole_sums_of_products_are_contracted_in_their_first_step(m, n, warps):
    types = {"a": FP32, "b": FP32, "o": FP32}
    options = {"num_warps": warps, "enable_fp_fusion": True}
    texts = stages(hardware.sum_of_all_products, types, {"M": m, "N": n}, "ptx", **options)
    emitted = Counter(re.findall(r"\b(fma|mul)\.(?:rn\.)?f32\b", texts["ptx"]))
    per_thread = m * n // (32 * warps)
    assert emitted == {"fma": per_thread // 2, "mul": per_thread // 2}
    module = parse(texts["ttgir"])
    contract(module, sums=True)
    names = [operation.name for operation in module.kernel.body.blocks[0].operations]
    assert "contracted.reduce" in names
    assert "arith.mulf" not in names
