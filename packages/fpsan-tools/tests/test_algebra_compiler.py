"""The algebra against the compiler: Triton's final LLVM IR under FpSan, run on the CPU, bit for bit.

Every case of `fpsan_cases` is compiled for sm_90 with the installed Triton and executed by LLVM's JIT compiler on
random patterns (all patterns where they are few); the stored bits must be those of the NumPy rules.
"""

import functools
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")
pytest.importorskip("llvmlite")

import fpsan_cases
import fpsan_llvm
import llvmlite.binding

from fpsan_tools import algebra
from fpsan_tools.algebra.embedding import embedding_constants
from fpsan_tools.algebra.versions import installed_triton

pytestmark = [pytest.mark.triton, pytest.mark.fpsan]

RELEASE = ".".join((installed_triton() or "0.0").split(".")[:2])
if RELEASE not in algebra.VERSIONS:
    pytest.skip(f"Triton {RELEASE} has no known FpSan algebra", allow_module_level=True)

if llvmlite.binding.llvm_version_info[0] < 22:
    pytest.skip("Triton's IR needs LLVM 22 to be read: llvmlite 0.50 or newer", allow_module_level=True)

CASES = fpsan_cases.all_cases(RELEASE)
GROUPS = fpsan_cases.grouped(case for case in CASES if not case.slow)
SLOW_GROUPS = fpsan_cases.grouped((case for case in CASES if case.slow), prefix="slow")
SERIAL_PROGRAMS = 2048  # 65536 elements of an elementwise kernel: all patterns of 16 bits
WARP_PROGRAMS = 2


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return fpsan_cases.load_kernels([*GROUPS, *SLOW_GROUPS], tmp_path_factory.mktemp("kernels"))


def outputs(group, kernels, **options):
    """Operands and stored results of a group's kernel."""
    signature = {argument: tile.pointer for argument, tile in zip(group.arguments, group.tiles, strict=True)}
    kernel = fpsan_llvm.Kernel(getattr(kernels, group.name), signature, **options)
    programs = SERIAL_PROGRAMS if kernel.serial else WARP_PROGRAMS
    operands = fpsan_cases.patterns(group.operands, programs, np.random.default_rng(20))
    results = [np.zeros((programs, *case.result.shape), case.result.unsigned) for case in group.cases]
    kernel.run([*operands, *results], programs)
    return operands, results


cached_outputs = functools.lru_cache(maxsize=2)(outputs)  # the cases of a group are neighbours


def without_free_choices(bits, dtype):
    """Float patterns with one NaN and one zero: LLVM's IR leaves a clamp's choice among them to the processor."""
    kind = algebra.float_type(dtype)
    magnitude = bits & bits.dtype.type((1 << (kind.bits - 1)) - 1)
    return np.where(
        magnitude > kind.largest, bits.dtype.type(kind.largest + 1), np.where(magnitude == 0, magnitude, bits)
    )


def assert_same_bits(case, version, operands, stored):
    wanted = fpsan_cases.expected(case, algebra.get(version), operands)
    if case.name == "clamp" and not algebra.get(version).instruments_clamp:
        stored, wanted = (without_free_choices(bits, case.result.dtype) for bits in (stored, wanted))
    np.testing.assert_array_equal(stored, wanted)


def parameters(groups):
    return [pytest.param(g, i, id=case.identifier) for g in groups for i, case in enumerate(g.cases)]


@pytest.mark.parametrize(("group", "index"), parameters(GROUPS))
def test_compiled_kernel_stores_the_rules_bits(group, index, kernels):
    operands, results = cached_outputs(group, kernels)
    assert_same_bits(group.cases[index], RELEASE, operands, results[index])


@pytest.mark.exhaustive
@pytest.mark.parametrize(("group", "index"), parameters(SLOW_GROUPS))
def test_compiled_kernel_stores_the_rules_bits_in_the_slow_cases(group, index, kernels):
    operands, results = cached_outputs(group, kernels)
    assert_same_bits(group.cases[index], RELEASE, operands, results[index])


HOMOMORPHIC = fpsan_cases.grouped(
    (c for c in CASES if c.name.startswith("cast") or (c.name == "div" and c.result.bits < 32)), prefix="homomorphic"
)


@pytest.mark.skipif(f"{RELEASE}-homomorphic" not in algebra.VERSIONS, reason="the option starts in Triton 3.9")
@pytest.mark.parametrize("group", HOMOMORPHIC, ids=lambda g: g.cases[0].identifier)
def test_homomorphic_casts_truncate(group, tmp_path):
    kernels = fpsan_cases.load_kernels([group], tmp_path)
    operands, results = outputs(group, kernels, fpsan_homomorphic_casts=True)
    for case, stored in zip(group.cases, results, strict=True):
        assert_same_bits(case, f"{RELEASE}-homomorphic", operands, stored)


def test_enough_cases_are_compared():
    assert len(CASES) >= 250
    assert len({case.identifier for case in CASES}) == len(CASES)


# ---------------------------------------------------------------------------------------------------------------------
# The constants, read from the compiler's output: equivalence tests pass with wrong constants too.


def _module(folder: Path, expression: str) -> ModuleType:
    path = folder / "constants.py"
    lines = ["import triton", "import triton.language as tl", "", "@triton.jit", "def kernel(p, o):"]
    lines += ["    i = tl.arange(0, 32)", "    x = tl.load(p + i)", f"    tl.store(o + i, {expression})"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return fpsan_cases.load_module(path)


def _integers(text: str, bits: int) -> set[int]:
    return {int(number) % (1 << bits) for number in re.findall(r"(?<![\w%.])-?\d+", text)}


HOPPER, MI300 = ("cuda", 90, 32), ("hip", "gfx942", 64)


def _compiled(folder: Path, dtype: str, expression: str, target: tuple[str, Any, int] = HOPPER) -> tuple[str, str]:
    pointer = "*" + algebra.float_type(dtype).triton
    kernel = _module(folder, expression).kernel
    ttgir, llvm_ir, _ = fpsan_llvm.compile_llvm(kernel, {"p": pointer, "o": pointer}, target)
    return ttgir, "\n".join(line for line in llvm_ir.splitlines() if " mul " in line or " select " in line)


@pytest.mark.parametrize("dtype", sorted(algebra.FLOAT_TYPES))
def test_embedding_constants_stand_in_the_compiled_code(dtype, tmp_path):
    kind = algebra.float_type(dtype)
    _, arithmetic = _compiled(tmp_path, dtype, "x + x * x", MI300 if dtype.endswith("fnuz") else HOPPER)
    found = _integers(arithmetic, kind.bits)
    sign = 1 << (kind.bits - 1)

    def present(value):
        """Up to the sign bit, which is masked off afterwards: the optimiser may set or clear it."""
        return bool({value, value | sign, value - sign} & found)

    constants = embedding_constants(kind, algebra.get(RELEASE).embed_multiplier)
    needed = (constants.multiplier, constants.multiplier_inverse, constants.positive, constants.negative)
    for value in (*needed, constants.positive_inverse, constants.negative_inverse):
        assert present(value), hex(value)
    for other in algebra.VERSIONS.values():
        foreign = embedding_constants(kind, other.embed_multiplier)
        if foreign.positive != constants.positive:
            assert not present(foreign.positive)


@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
def test_exponential_constant_stands_in_the_sanitised_code(dtype, tmp_path):
    ttgir, _ = _compiled(tmp_path, dtype, "tl.exp(x)")
    assert str(algebra.get(RELEASE).exp_constant) in re.findall(r"dense<(-?\d+)>", ttgir)
    for other in algebra.VERSIONS.values():
        if other.exp_constant != algebra.get(RELEASE).exp_constant:
            assert str(other.exp_constant) not in ttgir
