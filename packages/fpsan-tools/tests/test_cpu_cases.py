"""The CPU engine on every case of `fpsan_cases`: its results must be the algebra's, as the compiled code's are."""

import functools

import numpy as np
import pytest

pytest.importorskip("triton")

import fpsan_cases

import fpsan_tools
from fpsan_tools import algebra
from fpsan_tools.algebra.versions import installed_triton

pytestmark = pytest.mark.triton

RELEASE = ".".join((installed_triton() or "0.0").split(".")[:2])
if RELEASE not in algebra.VERSIONS:
    pytest.skip(f"Triton {RELEASE} has no known FpSan algebra", allow_module_level=True)

GROUPS = fpsan_cases.grouped(fpsan_cases.all_cases(RELEASE))
PROGRAMS = 32


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    return fpsan_cases.load_kernels(GROUPS, tmp_path_factory.mktemp("kernels"))


def array(bits, dtype):
    """Patterns as the CPU engine takes them: a float type's name with them, integers as they are."""
    if dtype in fpsan_cases.INTEGERS:
        return bits if dtype.startswith("u") else bits.view(f"i{bits.itemsize}")
    return fpsan_tools.typed(bits, dtype)


@functools.lru_cache(maxsize=2)  # the cases of a group are neighbours
def outputs(group, kernels):
    operands = fpsan_cases.patterns(group.operands, PROGRAMS, np.random.default_rng(40))
    results = [np.zeros((PROGRAMS, *case.result.shape), case.result.unsigned) for case in group.cases]
    tiles = [array(bits, tile.dtype) for bits, tile in zip((*operands, *results), group.tiles, strict=True)]
    with fpsan_tools.on_cpu():
        getattr(kernels, group.name)[(PROGRAMS,)](*tiles)
    return operands, results


PARAMETERS = [pytest.param(group, i, id=c.identifier) for group in GROUPS for i, c in enumerate(group.cases)]


@pytest.mark.parametrize(("group", "index"), PARAMETERS)
def test_cpu_engine_stores_the_rules_bits(group, index, kernels):
    operands, results = outputs(group, kernels)
    wanted = fpsan_cases.expected(group.cases[index], algebra.get(RELEASE), operands)
    np.testing.assert_array_equal(results[index], wanted)
