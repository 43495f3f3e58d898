"""The algebra against the compiler: the sanitised TTGIR of FpSan's pass, evaluated in NumPy, bit for bit.

The elementwise cases, casts, reductions and scans of `fpsan_cases` are compiled for sm_90 with the installed Triton;
`fpsan_sanitised` evaluates what the pass emitted. The matrix products are left to the final LLVM IR: the pass computes
them in scratch memory.
"""

import functools
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("triton")
pytest.importorskip("llvmlite")

import fpsan_cases
import fpsan_llvm
import fpsan_sanitised

from fpsan_tools import algebra
from fpsan_tools.algebra.versions import installed_triton

pytestmark = [pytest.mark.triton, pytest.mark.fpsan]

RELEASE = ".".join((installed_triton() or "0.0").split(".")[:2])
if RELEASE not in algebra.VERSIONS:
    pytest.skip(f"Triton {RELEASE} has no known FpSan algebra", allow_module_level=True)

CASES = [case for case in fpsan_cases.all_cases(RELEASE) if not case.slow and not case.name.startswith("dot")]
GROUPS = fpsan_cases.grouped(CASES, prefix="sanitised")
HOMOMORPHIC = fpsan_cases.grouped(
    (case for case in CASES if case.name.startswith("cast") or (case.name == "div" and case.result.bits < 32)),
    prefix="sanitised_homomorphic",
)
ELEMENTWISE_PROGRAMS = 2048  # all patterns of 16 bits
BLOCK_PROGRAMS = 32
MLIR = {"fp64": "f64", "fp32": "f32", "fp16": "f16", "bf16": "bf16", "fp8e4m3fn": "f8E4M3FN", "fp8e5m2": "f8E5M2"}

CONSTANTS = """
import triton
import triton.language as tl


@triton.jit
def kernel(p, o):
    i = tl.arange(0, 32)
    x = tl.load(p + i)
    tl.store(o + i, x + x * x)
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return fpsan_cases.load_kernels([*GROUPS, *HOMOMORPHIC], tmp_path_factory.mktemp("sanitised"))


@pytest.fixture(scope="module")
def embeddings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, fpsan_sanitised.Embedding]:
    path = tmp_path_factory.mktemp("embeddings") / "embedded.py"
    path.write_text(CONSTANTS, encoding="utf-8")
    kernel = fpsan_cases.load_module(path).kernel
    found = {}
    for dtype, name in MLIR.items():
        pointer = "*" + algebra.float_type(dtype).triton
        multiplier = fpsan_sanitised.multiplier_of(fpsan_llvm.compile_llvm(kernel, {"p": pointer, "o": pointer})[1])
        found[name] = fpsan_sanitised.Embedding(algebra.float_type(dtype).bits, fpsan_sanitised.ONE[name], multiplier)
    return found


@pytest.fixture(scope="module")
def outputs(kernels, embeddings):
    """A function of a group: its operands, what it stores, and the unknown operations that stored values depend on."""

    @functools.lru_cache(maxsize=2)  # the cases of a group are neighbours
    def evaluate(group, homomorphic=False):
        signature = {argument: tile.pointer for argument, tile in zip(group.arguments, group.tiles, strict=True)}
        options = {"fpsan_homomorphic_casts": True} if homomorphic else {}
        ttgir, _, _ = fpsan_llvm.compile_llvm(getattr(kernels, group.name), signature, **options)
        elementwise = all(tile.shape == (fpsan_cases.LANES,) for tile in group.tiles)
        programs = ELEMENTWISE_PROGRAMS if elementwise else BLOCK_PROGRAMS
        operands = fpsan_cases.patterns(group.operands, programs, np.random.default_rng(21))
        results = [np.zeros((programs, *case.result.shape), case.result.unsigned) for case in group.cases]
        unknown = fpsan_sanitised.run(ttgir, [*operands, *results], programs, embeddings)
        return operands, results, {index - len(operands): name for index, name in unknown.items()}

    return evaluate


def without_free_choices(bits, dtype):
    """Float patterns with one NaN and one zero: a clamp of carriers leaves the choice among them to the processor."""
    kind = algebra.float_type(dtype)
    magnitude = bits & bits.dtype.type((1 << (kind.bits - 1)) - 1)
    nan = bits.dtype.type(kind.largest + 1)
    return np.where(magnitude > kind.largest, nan, np.where(magnitude == 0, magnitude, bits))


def assert_same_bits(group, index, version, evaluated):
    operands, results, unknown = evaluated
    case, stored, rules = group.cases[index], results[index], algebra.get(version)
    assert index not in unknown, f"{case.identifier}: the meaning of {unknown[index]} is not known"
    wanted = fpsan_cases.expected(case, rules, operands)
    if case.name == "clamp" and not rules.instruments_clamp:
        stored, wanted = (without_free_choices(bits, case.result.dtype) for bits in (stored, wanted))
    np.testing.assert_array_equal(stored, wanted)


def parameters(groups):
    return [pytest.param(g, i, id=case.identifier) for g in groups for i, case in enumerate(g.cases)]


@pytest.mark.parametrize(("group", "index"), parameters(GROUPS))
def test_sanitised_kernel_stores_the_rules_bits(group, index, outputs):
    assert_same_bits(group, index, RELEASE, outputs(group))


@pytest.mark.skipif(f"{RELEASE}-homomorphic" not in algebra.VERSIONS, reason="the option starts in Triton 3.9")
@pytest.mark.parametrize(("group", "index"), parameters(HOMOMORPHIC))
def test_sanitised_homomorphic_casts_store_the_rules_bits(group, index, outputs):
    assert_same_bits(group, index, f"{RELEASE}-homomorphic", outputs(group, homomorphic=True))


def test_the_evaluated_embedding_is_a_bijection_that_keeps_one_and_signs(embeddings):
    for name, embedding in embeddings.items():
        unsigned = fpsan_sanitised.UNSIGNED[embedding.bits]
        largest = np.iinfo(unsigned).max
        if embedding.bits <= 16:
            patterns = np.arange(largest + 1, dtype=unsigned)
        else:
            patterns = np.random.default_rng(22).integers(0, largest, 10000, dtype=unsigned, endpoint=True)
        np.testing.assert_array_equal(embedding.unembed(embedding.embed(patterns)), patterns, err_msg=name)
        one = unsigned(embedding.one)
        sign = unsigned(embedding.below + 1)
        ones = embedding.embed(np.array([0, one, one | sign], unsigned))
        np.testing.assert_array_equal(ones, np.array([0, 1, largest], unsigned), err_msg=name)


def test_an_unknown_operation_is_reported_for_what_depends_on_it_only():
    text = """
  tt.func public @kernel(%arg0: !tt.ptr<i32>, %arg1: !tt.ptr<i32>, %arg2: !tt.ptr<i32>) {
    %0 = tt.load %arg0 : !tt.ptr<i32>
    %1 = math.mystery %0 : i32
    %2 = arith.addi %1, %0 : i32
    tt.store %arg1, %2 : !tt.ptr<i32>
    %3 = arith.addi %0, %0 : i32
    tt.store %arg2, %3 : !tt.ptr<i32>
    tt.return
  }
"""
    arrays = [np.array([value], np.uint32) for value in (21, 0, 0)]
    assert fpsan_sanitised.run(text, arrays, 1, {}) == {1: "math.mystery"}
    assert arrays[2].item() == 42


def test_enough_cases_are_evaluated():
    assert len(CASES) >= 350
    assert len({case.identifier for case in CASES}) == len(CASES)
