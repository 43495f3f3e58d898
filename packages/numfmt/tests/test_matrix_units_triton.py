"""The instruction and the additions that `tl_dot` predicts are those Triton's compiler emits for sm_90. No GPU is
needed.
"""

import re

import numpy as np
import pytest

pytest.importorskip("triton")

from matrix_units_cases import all_cases
from matrix_units_kernels import compile_case
from triton.backends.compiler import GPUTarget

from numfmt.matrix_units.explain import request_for
from numfmt.matrix_units.plan import Chain, Sum, walk

pytestmark = [pytest.mark.triton, pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")]

PTX_TYPES = {"fp16": "f16", "bf16": "bf16", "tf32": "tf32", "fp32": "f32", "e4m3": "e4m3", "e5m2": "e5m2"}
# Every tenth case in ordinary runs: each takes the compiler half a second.
CASES = [
    case if i % 10 == 0 else pytest.param(case, marks=pytest.mark.exhaustive) for i, case in enumerate(all_cases())
]


def instructions(ptx):
    """The distinct matrix instructions or fused multiply-adds of a kernel: (name, shape k, types)."""
    found = set()
    for name, k, types in re.findall(r"(wgmma\.mma_async|mma)\.sync\.aligned\.m\d+n\d+k(\d+)((?:\.\w+)+)", ptx):
        found.add((name.split(".")[0], int(k), tuple(t for t in types.split(".") if t and t not in ("row", "col"))))
    return found


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in all_cases()])
def test_triton_emits_what_the_schedule_says(case):
    ptx = compile_case(case, GPUTarget("cuda", 90, 32)).asm["ptx"]
    schedule = case.schedule
    program = schedule.program(request_for(schedule.block_k, case.inputs, "hopper", case.accumulator, True, (64, 64)))
    unit = program.unit
    found = instructions(ptx)
    if unit.arithmetic == "fma":
        assert not found
        assert "fma.rn.f32" in ptx
        return
    ((instruction, depth, types),) = found
    assert instruction == unit.instruction
    accumulator = {"fp32": "f32", "fp16": "f16"}[case.accumulator]
    operands = [PTX_TYPES[key] for key in program.operands]
    assert list(types[:3]) == [accumulator, *operands]
    assert depth == unit.depth

    # Every output of one tl.dot: instructions in the chains, and ordinary additions after them.
    node = program.regions[0].node
    chains = [part for part in walk(node) if isinstance(part, Chain)]
    expected = sum(part.stop - part.start for part in chains) // unit.depth
    emitted = len(re.findall(r"wgmma\.mma_async\.sync|mma\.sync\.aligned\.m\d+n\d+k\d+", ptx))
    tiles = 1 if instruction == "wgmma" else tile_count(schedule)
    assert emitted == expected * max(tiles, 1) * wgmma_rows(schedule, instruction)
    additions = sum(len(part.terms) - 1 for part in walk(node) if isinstance(part, Sum))
    outputs = schedule.block_m * schedule.block_n // (32 * schedule.num_warps)
    if case.accumulator == "fp32" and "tf32x3" not in case.name and "bf16x" not in case.name:
        assert len(re.findall(r"\badd(?:\.rn)?\.f32\b", ptx)) == additions * outputs


def wgmma_rows(schedule, instruction):
    """Instructions along M (and N) that one warp group issues: 64 rows each."""
    if instruction != "wgmma":
        return 1
    groups = schedule.num_warps // 4
    return max(1, schedule.block_m // 64 // groups)


def tile_count(schedule):
    """m16n8 tiles of one warp for mma.sync, whichever way the warps are laid out."""
    per_warp = schedule.block_m * schedule.block_n / schedule.num_warps
    return int(np.ceil(per_warp / (16 * 8)))
