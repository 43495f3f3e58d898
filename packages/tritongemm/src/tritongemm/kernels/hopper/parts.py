"""Cuts operands into parts on their GPU: which kernel, how much memory."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import triton

from tritongemm.kernels.hopper.splitting import KINDS, split_columns_kernel, split_rows_kernel
from tritongemm.launches import launch

# Rows of parts are padded to the tallest tile, so that a tile of one part never reads the next.
_ROWS = 256
_LONGEST_RESIDENT = 16384
_TILE_R, _TILE_K, _TILES = 64, 128, 2
# Strips of B's columns: tiles beside each other, and programs that an H200 runs at the same time.
_BESIDE, _AT_ONCE = 1, 300
# Two of them per multiprocessor.
_COLUMNS = {"num_warps": 8, "maxnreg": 128}


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of an operand's rows, A's or those of B's transpose.

    Attributes:
        kind: "fp16", "int8" or "bf16".
        data: The parts below each other, K-major, `rows` rows each.
        rows: Rows from one part to the next.
        R: Rows of the operand.
        K: Their length.
        exponents: int32 per row: the power of two that sums are multiplied by.
        energy: int64 per row: sum of squares of its scaled integers; beyond 2**62 for a row of zeros.
        small: int32 per row: numbers too small for full accuracy, plus 2**30 if it holds Inf or NaN.
    """

    kind: str
    data: Any
    rows: int
    R: int
    K: int
    exponents: Any
    energy: Any
    small: Any


def split(
    x: Any, kind: str, unless: Any = None, *, until: int | None = None, ready: Any = None, ahead: bool = False,
    behind_ahead: bool = False,
) -> Parts:  # fmt: skip
    """The parts of a matrix's rows.

    Args:
        x: (R, K) fp32 CUDA tensor of any strides; B is passed as its transpose.
        kind: "fp16", "int8" or "bf16".
        unless: int32 tensor; nothing is cut if it holds 0, the verdict that a product stands already.
        until: Rows to cut now, of a matrix with contiguous rows; all if not given. The others' parts and facts are
            whatever was in memory.
        ready: int32 tensor of at most `until` elements that is set to zero on the way.
        ahead: Whether the next kernel may start before this one ends, and looks after itself.
        behind_ahead: Whether the kernel before is one that was launched with `ahead`, for x with contiguous rows.

    Returns:
        The parts.
    """
    torch = sys.modules["torch"]
    R, K = (int(n) for n in x.shape)
    dtype = {"fp16": torch.float16, "int8": torch.int8, "bf16": torch.bfloat16}[kind]
    step = 128 // dtype.itemsize
    pitch, rows = -(-K // step) * step, -(-R // _ROWS) * _ROWS
    data = torch.empty((KINDS[kind] * rows, pitch), dtype=dtype, device=x.device)
    beside = x.stride(0) == 1 and x.stride(1) != 1 and R > 1
    make = torch.zeros if beside else torch.empty
    strips = triton.cdiv(R, _TILE_R * _TILES)
    facts = make(5 * R + strips, dtype=torch.int32, device=x.device)
    energy, exponents, small, largest, done = (
        facts[: 2 * R].view(torch.int64), facts[2 * R : 3 * R], facts[3 * R : 4 * R], facts[4 * R : 5 * R],
        facts[5 * R :],
    )  # fmt: skip
    strides = (x.stride(0), x.stride(1))
    # Digits are stored as words of four.
    word = 4 if kind == "int8" else 1
    stored, wide = (data.view(torch.int32) if word == 4 else data), pitch // word
    gate = facts if unless is None else unless
    if beside:
        rounds = triton.cdiv(strips, _BESIDE)
        cells = _BESIDE * triton.cdiv(pitch, _TILE_K)
        # As far behind as programs are at work at the same time, so that few of them wait.
        behind = min(rounds, triton.cdiv(_AT_ONCE, 2 * cells))
        programs = rounds * cells if kind == "bf16" else 2 * (rounds + behind) * cells
        launch(
            split_columns_kernel, (programs,), x, largest, done, stored, exponents, energy, small, R, K, wide,
            rows * wide, *strides, behind, gate, KIND=kind, BLOCK_R=_TILE_R, BLOCK_K=_TILE_K, BLOCKS=_TILES,
            BESIDE=_BESIDE, GATED=unless is not None, AHEAD=ahead, enable_fp_fusion=True, **_COLUMNS,
        )  # fmt: skip
    else:
        resident = pitch <= _LONGEST_RESIDENT
        block = triton.next_power_of_2(pitch) if resident else 8192
        launch(
            split_rows_kernel, (R if until is None else until,), x, stored, exponents, energy, small, K, wide,
            rows * wide, *strides, gate, facts if ready is None else ready, 0 if ready is None else ready.numel(),
            KIND=kind, BLOCK=block, RESIDENT=resident, GATED=unless is not None, AHEAD=ahead, launch_pdl=behind_ahead,
            num_warps=max(1, min(16, block // 1024)), enable_fp_fusion=True,
        )  # fmt: skip
    return Parts(kind, data, rows, R, K, exponents, energy, small)
