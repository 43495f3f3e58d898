"""Starts `product_kernel`: which tiles, which layouts, how many programs."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

from tritongemm import launches
from tritongemm.elements import strides_of
from tritongemm.kernels.epilogue import Epilogue
from tritongemm.kernels.hopper.matrices import (
    descriptor,
    gluon_type,
    multiprocessors,
    storable,
    tile_layout,
)
from tritongemm.kernels.hopper.product import product_kernel
from tritongemm.kernels.problems import along_scales

UNROLLS = {"promoted_pairs": 2, "chained_from_registers": 4}
"""Steps over k that an order of summation takes at a time, if not one; of a part of k it takes one."""


@dataclass(frozen=True)
class Shape:
    """How a product is cut; a value, chosen per order of summation and problem.

    Attributes:
        order: The consumer: the name of a function of `consumers`.
        block_m: Rows of a tile, those of both programs of a cluster.
        block_n: Columns of a tile.
        block_k: Depth of a stage. A sum's bits depend on it for the two promoted orders.
        stages: Stages in shared memory.
        group_m: Rows of tiles that share their columns of B.
        parts: Parts of each operand.
        groups: Consumer warpgroups.
        ctas: Programs of a cluster, 1 or 2.
        buffers: Pieces of the result in flight per warpgroup.
        halvings: A warpgroup's columns leave in 2**halvings pieces.
    """

    order: str
    block_m: int = 128
    block_n: int = 256
    block_k: int = 64
    stages: int = 3
    group_m: int = 8
    parts: int = 1
    groups: int = 2
    ctas: int = 1
    buffers: int = 1
    halvings: int = 1

    def changed(self, **changes: Any) -> Shape:
        """This shape with other values."""
        return replace(self, **changes)

    def shared_memory(self, operand_bytes: int, result_bytes: int) -> int:
        """Bytes of shared memory of a program, barriers aside."""
        rows = self.block_m // self.ctas
        ring = self.stages * self.parts * (rows + self.block_n) * self.block_k * operand_bytes
        return (
            ring + self.groups * self.buffers * (rows // self.groups) * (self.block_n >> self.halvings) * result_bytes
        )


@dataclass(frozen=True)
class Gate:
    """A product that is computed only if a number in GPU memory has a value.

    Attributes:
        verdict: int32 tensor whose first element is compared.
        value: The value.
    """

    verdict: Any
    value: int


@dataclass(frozen=True)
class Cut:
    """Rows of A that the product's own programs cut into int8 digits.

    Attributes:
        x: (M, K) fp32 matrix with contiguous rows.
        left: Its `parts.Parts`, cut up to row `first`.
        ready: int32 tensor, zeros when the product starts, one per row of tiles.
        first: First row that is not cut, a multiple of a tile's rows.
        programs: Programs (clusters) that cut.
        pieces: Pieces of a row.
        ahead: Whether the kernel before may still be at work; the product waits for it.
    """

    x: Any
    left: Any
    ready: Any
    first: int
    programs: int
    pieces: int
    ahead: bool


@dataclass(frozen=True)
class Scales:
    """Powers of two that rows and columns of an emulated product are multiplied by, as int32 tensors."""

    rows: Any
    columns: Any


@dataclass(frozen=True)
class BlockScales:
    """fp32 scales of every 1 x 128 stretch of A's rows and every 128 x 128 block of B, of any strides.

    Attributes:
        rows: (M, ceil(K / 128)) scales.
        columns: (ceil(K / 128), ceil(N / 128)) scales.
    """

    rows: Any
    columns: Any


def launch(
    a: Any,
    b: Any,
    out: Any,
    shape: Shape,
    *,
    K: int,
    a_axis: int = 1,
    b_axis: int = 0,
    part_rows: tuple[int, int] = (0, 0),
    scales: Scales | None = None,
    blocks: BlockScales | None = None,
    epilogue: Epilogue | None = None,
    gate: Gate | None = None,
    share: int = 0,
    cut: Cut | None = None,
    transposed: bool = False,
    rounded: bool = False,
) -> None:
    """Computes a product, or one for each matrix of a batch, on the GPU of its operands.

    Args:
        a: (M, K) matrix, or its parts below each other; or (batch, M, K).
        b: (K, N) matrix, or the transpose of its parts below each other; or (batch, K, N).
        out: (M, N) or (batch, M, N) result with contiguous rows, of any alignment.
        shape: How to cut it.
        K: Products per sum.
        a_axis: a's contiguous axis; 0 for 16-bit types only.
        b_axis: b's contiguous axis; 1 for 16-bit types only.
        part_rows: Rows from one part to the next, of A and of B's transpose.
        scales: Powers of two per row and column.
        blocks: Scales of blocks, for "promoted_pairs" with BLOCK_K = 128; the epilogue has no scales then.
        epilogue: What happens to the sums.
        gate: When to compute at all.
        share: Steps of BLOCK_K per part of k, for `out` of shape (parts, M, N), contiguous; 0: k is not cut.
        cut: Rows of A that are cut meanwhile.
        transposed: a and b are the operands of the result's transpose: (N, K) and (K, M). `out`, the scales and the
            epilogue remain those of the result.
        rounded: Whether fp32 operands are rounded to tf32 on their way, ties to even.
    """
    epilogue = Epilogue() if epilogue is None else epilogue
    split_k, batched = share > 0, a.ndim == 3
    layers = int(out.shape[0]) if out.ndim == 3 else 1
    one = [1] if batched else []
    M, N = out.shape[-2:]
    across, along = (shape.block_n, shape.block_m) if transposed else (shape.block_m, shape.block_n)
    dtype, result = gluon_type(a), gluon_type(out)
    split, shared = (True, False) if shape.ctas == 2 else (None, None)
    rows, piece = shape.block_m // shape.groups, shape.block_n >> shape.halvings
    a_tile = [rows, shape.block_k] if a_axis == 1 else [shape.block_k, rows]
    b_tile = [shape.block_n, shape.block_k] if b_axis == 0 else [shape.block_k, shape.block_n]
    c_tile = [piece, rows] if transposed else [rows, piece]
    c_layout = tile_layout(*c_tile, result, split)
    engine = storable(out) and not split_k
    c = epilogue.addend
    bias = epilogue.bias
    if blocks is None:
        row_factors, column_factors = epilogue.scale_a, epilogue.scale_b
        along_factors = (along_scales(row_factors, 0), along_scales(column_factors, 1), 0, 0)
    else:
        row_factors, column_factors = blocks.rows, blocks.columns
        row, row_step = strides_of(row_factors, "scale_a")
        column_step, column = strides_of(column_factors, "scale_b")
        along_factors = (row, column, row_step, column_step)
    along_c = (0, 0) if c is None else strides_of(c, "c")
    tiles = -(-M // across) * -(-N // along) * layers
    programs = multiprocessors(out.device.index) // shape.ctas
    if cut is None:
        programs = min(tiles, programs)
    launches.launch(
        product_kernel,
        (programs,),
        descriptor(a if a_axis == 1 else a.mT, one + a_tile, tile_layout(*a_tile, dtype, split, batched), rounded),
        descriptor(b.mT if b_axis == 0 else b, one + b_tile, tile_layout(*b_tile, dtype, shared, batched), rounded),
        descriptor(out, one + c_tile, tile_layout(*c_tile, result, split, batched)) if engine else None,
        out,
        out if c is None else c,
        out if bias is None else bias,
        out if row_factors is None else row_factors,
        out if column_factors is None else column_factors,
        out if scales is None else scales.rows,
        out if scales is None else scales.columns,
        out if gate is None else gate.verdict,
        *_cut_tensors(cut, out),
        0 if gate is None else gate.value,
        float(epilogue.alpha),
        float(epilogue.beta),
        M,
        N,
        K,
        *part_rows,
        share,
        layers,
        out.stride(0) if layers > 1 else 0,
        out.stride(-2),
        *((0,) * (3 - len(along_c))),
        *along_c,
        0 if bias is None else strides_of(bias, "bias")[0],
        *along_factors,
        *_cut_sizes(cut),
        ORDER=shape.order,
        BLOCK_M=shape.block_m,
        BLOCK_N=shape.block_n,
        BLOCK_K=shape.block_k,
        GROUP_M=shape.group_m,
        STAGES=shape.stages,
        PARTS=shape.parts,
        GROUPS=shape.groups,
        A_MK=a_axis == 1,
        B_NK=b_axis == 0,
        UNROLL=1 if split_k else UNROLLS.get(shape.order, 1),
        PRECISION="tf32",
        C_LAYOUT=c_layout,
        BUFFERS=shape.buffers,
        HALVINGS=shape.halvings,
        TMA=engine,
        SCALED=scales is not None,
        FACTORS=epilogue.scale_a is not None,
        BLOCKS=blocks is not None,
        **epilogue.flags,
        GATED=gate is not None,
        SPLIT=split_k,
        PIECES=0 if cut is None else cut.pieces,
        TRANSPOSED=transposed,
        BATCHED=batched,
        FOLDED=shape.order == "chained_from_registers",
        num_warps=4,
        num_ctas=shape.ctas,
        launch_pdl=cut is not None and cut.ahead,
        maxnreg=168,
        enable_fp_fusion=True,
    )


def _cut_tensors(cut: Cut | None, other: Any) -> tuple[Any, ...]:
    if cut is None:
        return (other,) * 6
    left = cut.left
    return cut.x, left.data.view(sys.modules["torch"].int32), left.exponents, left.energy, left.small, cut.ready


def _cut_sizes(cut: Cut | None) -> tuple[int, ...]:
    if cut is None:
        return (0,) * 5
    pitch = int(cut.left.data.shape[1]) // 4
    return cut.first, cut.programs, int(cut.x.stride(0)), pitch, int(cut.left.rows) * pitch


__all__ = ["BlockScales", "Cut", "Gate", "Scales", "Shape", "launch"]
