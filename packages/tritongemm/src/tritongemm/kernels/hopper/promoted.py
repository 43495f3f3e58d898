"""fp8 products whose sums are promoted every 128 products, with or without scales of blocks, in tiles of two widths.

**Summation order.** That of "promote128": a chain from zero per 128 k in the tensor core, the chains added in ascending
k in fp32; with scales of blocks by a fused multiply-add with the product of the two scales. Tiles, their widths and
stages change no bit.

**Bound.** That of the mode, or of `tritongemm.kernels.block_scaled`.

**What the numbers mean.** The wider a tile, the fewer bytes pass the cache per product: 128 x 192 tiles read 17 % less
than 128 x 128. Sums and chains of 192 columns are what the registers hold, as 128 and 64, because shapes are powers of
two. Wide tiles are few, so the last wave would be a long one; `strips` gives some columns to tiles of 128 and makes
the programs end at the same time. The chain of 64 columns runs while that of 128 is added up, and the other way round,
so that a warpgroup keeps the tensor core busy by itself. Scales of blocks arrive in shared memory with their stage:
loaded by the multiplying warps they cost 8 % more, spent waiting for the cache.
"""

from __future__ import annotations

import functools
from typing import Any

from triton import aggregate
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)

from tritongemm import launches
from tritongemm.configurations import Config
from tritongemm.elements import FP8, strides_of
from tritongemm.kernels.hopper import warp_specialised
from tritongemm.kernels.hopper.consumers import accumulator, scaled_sum
from tritongemm.kernels.hopper.matrices import (
    descriptor,
    gluon_type,
    multiprocessors,
    readable,
    storable,
    tile_layout,
)
from tritongemm.kernels.hopper.pipeline import Exit, store
from tritongemm.kernels.problems import Operands, along_scales

NAME = "promoted"

# Columns of a narrow tile and of the larger part of a wide one; columns that a wide tile has more; products per chain.
BLOCK_N = gl.constexpr(128)
REST = gl.constexpr(64)
BLOCK_K = gl.constexpr(128)
# Scales of B per box of the copy engine, which goes to multiples of 128 bytes, and comes from multiples of 16: of
# BEGIN steps. One of them is used.
BOX = gl.constexpr(32)
BEGIN = gl.constexpr(4)

_SHARED = 227 * 1024 - 1024


@aggregate
class Strips:
    """The tiles of a result: `wide` columns of wide tiles, then `narrow` columns of narrow ones, in `rows` rows.

    The wide ones come first in the numbering, each kind so that GROUP rows of tiles share their columns of B in the
    cache. Programs compute every gl.num_programs(0)-th tile.
    """

    rows: gl.tensor
    wide: gl.tensor
    narrow: gl.tensor
    steps: gl.tensor
    GROUP: gl.constexpr

    @gluon.jit
    def place(self, tile, columns):
        """Row and column of a tile, in tiles, among this many columns of tiles."""
        group = tile // (self.GROUP * columns)
        first = group * self.GROUP
        height = gl.minimum(self.rows - first, self.GROUP)
        inside = tile - group * self.GROUP * columns
        return first + inside % height, inside // height

    @gluon.jit
    def wide_tile(self, tile):
        """Row of a wide tile, in tiles, and the first columns of its two parts, each inside of 128 columns of B.

        Two neighbours share three blocks of 128 columns: the right one has its 64 columns in front.
        """
        row, column = self.place(tile, self.wide)
        start = column * (BLOCK_N + REST)
        right = column & 1
        return row, start + right * REST, start + (1 - right) * BLOCK_N

    @gluon.jit
    def narrow_tile(self, tile):
        """Row of a narrow tile, in tiles, and its first column."""
        row, column = self.place(tile - self.rows * self.wide, self.narrow)
        return row, self.wide * (BLOCK_N + REST) + column * BLOCK_N

    @gluon.jit
    def begin_narrow(self):
        """This program's first narrow tile."""
        count = self.rows * self.wide
        programs = gl.num_programs(0)
        return count + (gl.program_id(0) - count % programs + programs) % programs


@gluon.constexpr_function
def one_by_one():
    """The layout of one number out of many in shared memory."""
    return gl.SwizzledSharedLayout(1, 1, 1, [0])


@aggregate
class Ring:
    """Stages in shared memory: a tile of A per warpgroup, the two parts of a tile of B, and their scales.

    `single` are `column_scales`, number by number.
    """

    a: gl.shared_memory_descriptor
    b: gl.shared_memory_descriptor
    rest: gl.shared_memory_descriptor
    row_scales: gl.shared_memory_descriptor
    column_scales: gl.shared_memory_descriptor
    single: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    STAGES: gl.constexpr
    BLOCKS: gl.constexpr

    @gluon.jit
    def next(self, stage, phase):
        """The stage after this one and its barriers' phase."""
        wrap = stage == self.STAGES - 1
        return gl.where(wrap, 0, stage + 1), gl.where(wrap, phase ^ 1, phase)

    @gluon.jit
    def wait_full(self, stage, phase):
        mbarrier.wait(self.full.index(stage), phase)

    @gluon.jit
    def free(self, stage):
        """This warpgroup reads the stage no more."""
        mbarrier.arrive(self.empty.index(stage))

    @gluon.jit
    def multiply(self, stage, chain, group: gl.constexpr):
        """Starts the chain of the first 128 columns."""
        b = self.b.index(stage).permute((1, 0))
        chain = warpgroup_mma_init(chain)
        return warpgroup_mma(self.a.index(stage * 2 + group), b, chain, use_acc=False, is_async=True)

    @gluon.jit
    def multiply_rest(self, stage, chain, group: gl.constexpr):
        """Starts the chain of the other 64."""
        b = self.rest.index(stage).permute((1, 0))
        chain = warpgroup_mma_init(chain)
        return warpgroup_mma(self.a.index(stage * 2 + group), b, chain, use_acc=False, is_async=True)

    @gluon.jit
    def add(self, total, chain, scales):
        """total + chain, or with scales of blocks total + chain·scales, fused."""
        if self.BLOCKS:
            return scaled_sum(total, chain, scales)
        else:
            return total + chain

    @gluon.jit
    def scales(self, stage, step, group: gl.constexpr, part: gl.constexpr, LAYOUT: gl.constexpr):
        """A scale per row of sums: those of A's rows times the one of B's block; nothing without scales."""
        if self.BLOCKS:
            rows = self.row_scales.index(stage * 2 + group)
            x = rows.reshape([rows.shape[1]]).load(gl.SliceLayout(1, LAYOUT))
            column = self.single.index((stage * 2 + part) * BOX + step % BEGIN)
            y = column.load(gl.SliceLayout(1, LAYOUT))
            x, y = gl.broadcast(x, y)
            return x * y
        else:
            return 0


@gluon.jit
def multiply_tiles(group: gl.constexpr, c_desc, ring, strips, leave, leave_rest, BLOCK_M: gl.constexpr):
    """A multiplying warpgroup: its rows of all wide tiles, then of all narrow ones."""
    ROWS: gl.constexpr = BLOCK_M // 2
    LAYOUT: gl.constexpr = accumulator(BLOCK_N, 8, leave.buffers.layout.cga_layout)
    LAYOUT_REST: gl.constexpr = accumulator(REST, 8, leave.buffers.layout.cga_layout)
    pairs = (strips.steps + 1) // 2
    stage = gl.to_tensor(0)
    phase = gl.to_tensor(0)
    first = gl.zeros([ROWS, BLOCK_N], gl.float32, LAYOUT)
    second = gl.zeros([ROWS, REST], gl.float32, LAYOUT_REST)
    for tile in range(gl.program_id(0), strips.rows * strips.wide, gl.num_programs(0)):
        tile_m, column, column_rest = strips.wide_tile(tile)
        total = gl.zeros([ROWS, BLOCK_N], gl.float32, LAYOUT)
        total_rest = gl.zeros([ROWS, REST], gl.float32, LAYOUT_REST)
        for pair in range(pairs):
            ring.wait_full(stage, phase)
            small = ring.multiply_rest(stage, second, group)
            large = ring.multiply(stage, first, group)
            scales = ring.scales(stage, 2 * pair, group, 1, LAYOUT_REST)
            second = warpgroup_mma_wait(1, deps=[small])
            total_rest = ring.add(total_rest, second, scales)
            after, after_phase = ring.next(stage, phase)
            ring.wait_full(after, after_phase)
            small = ring.multiply_rest(after, second, group)
            scales = ring.scales(stage, 2 * pair, group, 0, LAYOUT)
            first = warpgroup_mma_wait(1, deps=[large])
            total = ring.add(total, first, scales)
            ring.free(stage)
            large = ring.multiply(after, first, group)
            scales = ring.scales(after, 2 * pair + 1, group, 1, LAYOUT_REST)
            second = warpgroup_mma_wait(1, deps=[small])
            total_rest = ring.add(total_rest, second, scales)
            scales = ring.scales(after, 2 * pair + 1, group, 0, LAYOUT)
            first = warpgroup_mma_wait(0, deps=[large])
            total = ring.add(total, first, scales)
            ring.free(after)
            stage, phase = ring.next(after, after_phase)
        row = tile_m * BLOCK_M + group * ROWS
        store(c_desc, leave, total, row, column, 0, group)
        store(c_desc, leave_rest, total_rest, row, column_rest, 0, group)
    other = gl.zeros([ROWS, BLOCK_N], gl.float32, LAYOUT)
    last = strips.rows * (strips.wide + strips.narrow)
    for tile in range(strips.begin_narrow(), last, gl.num_programs(0)):
        tile_m, column = strips.narrow_tile(tile)
        total = gl.zeros([ROWS, BLOCK_N], gl.float32, LAYOUT)
        for pair in range(pairs):
            ring.wait_full(stage, phase)
            early = ring.multiply(stage, first, group)
            scales = ring.scales(stage, 2 * pair, group, 0, LAYOUT)
            after, after_phase = ring.next(stage, phase)
            ring.wait_full(after, after_phase)
            late = ring.multiply(after, other, group)
            first = warpgroup_mma_wait(1, deps=[early])
            total = ring.add(total, first, scales)
            ring.free(stage)
            scales = ring.scales(after, 2 * pair + 1, group, 0, LAYOUT)
            other = warpgroup_mma_wait(0, deps=[late])
            total = ring.add(total, other, scales)
            ring.free(after)
            stage, phase = ring.next(after, after_phase)
        store(c_desc, leave, total, tile_m * BLOCK_M + group * ROWS, column, 0, group)
    tma.store_wait(0)


@gluon.jit
def load_stage(a_desc, b_desc, rest_desc, row_desc, column_desc, ring, stage, phase, row, column, rest, step,
               WIDE: gl.constexpr):  # fmt: skip
    """Waits until a stage is empty and asks for its tiles; `rest` is the first column of the 64 of a wide tile."""
    ROWS: gl.constexpr = a_desc.block_type.shape[0]
    PARTS: gl.constexpr = 2 if WIDE else 1
    TILES: gl.constexpr = 2 * a_desc.nbytes_per_cta + b_desc.nbytes_per_cta
    MORE: gl.constexpr = rest_desc.nbytes_per_cta if WIDE else 0
    SCALES: gl.constexpr = 2 * row_desc.nbytes_per_cta + PARTS * column_desc.nbytes_per_cta if ring.BLOCKS else 0
    mbarrier.wait(ring.empty.index(stage), phase ^ 1)
    bar = ring.full.index(stage)
    mbarrier.expect(bar, TILES + MORE + SCALES)
    k = step * BLOCK_K
    for group in gl.static_range(2):
        tma.async_load(a_desc, [row + group * ROWS, k], bar, ring.a.index(stage * 2 + group))
        if ring.BLOCKS:
            tma.async_load(row_desc, [step, row + group * ROWS], bar, ring.row_scales.index(stage * 2 + group))
    tma.async_load(b_desc, [column, k], bar, ring.b.index(stage))
    if ring.BLOCKS:
        tma.async_load(column_desc, [column // 128, step // BEGIN * BEGIN], bar, ring.column_scales.index(stage * 2))
    if WIDE:
        tma.async_load(rest_desc, [rest, k], bar, ring.rest.index(stage))
        if ring.BLOCKS:
            tma.async_load(
                column_desc, [rest // 128, step // BEGIN * BEGIN], bar, ring.column_scales.index(stage * 2 + 1)
            )


@gluon.jit
def load_tiles(a_desc, b_desc, rest_desc, row_desc, column_desc, ring, strips, BLOCK_M: gl.constexpr):
    """The producer warp: every stage of every tile, in the consumers' order; steps beyond K load zeros."""
    steps = (strips.steps + 1) // 2 * 2
    stage = gl.to_tensor(0)
    phase = gl.to_tensor(0)
    for tile in range(gl.program_id(0), strips.rows * strips.wide, gl.num_programs(0)):
        tile_m, column, rest = strips.wide_tile(tile)
        for step in range(steps):
            load_stage(
                a_desc, b_desc, rest_desc, row_desc, column_desc, ring, stage, phase, tile_m * BLOCK_M, column, rest,
                step, True,
            )  # fmt: skip
            stage, phase = ring.next(stage, phase)
    last = strips.rows * (strips.wide + strips.narrow)
    for tile in range(strips.begin_narrow(), last, gl.num_programs(0)):
        tile_m, column = strips.narrow_tile(tile)
        for step in range(steps):
            load_stage(
                a_desc, b_desc, rest_desc, row_desc, column_desc, ring, stage, phase, tile_m * BLOCK_M, column, column,
                step, False,
            )  # fmt: skip
            stage, phase = ring.next(stage, phase)


_SIZES = [
    "M", "N", "K", "wide", "narrow", "stride_cm", "stride_dm", "stride_dn", "stride_bias", "stride_sa", "stride_sb",
]  # fmt: skip


@gluon.jit(do_not_specialize=[*_SIZES, "alpha", "beta"])
def promoted_kernel(
    a_desc,
    b_desc,
    rest_desc,
    c_desc,
    row_desc,
    column_desc,
    c_ptr,
    d_ptr,
    bias_ptr,
    row_factors,
    column_factors,
    exponents,
    alpha,
    beta,
    M,
    N,
    K,
    wide,
    narrow,
    stride_cm,
    stride_dm,
    stride_dn,
    stride_bias,
    stride_sa,
    stride_sb,
    BLOCK_M: gl.constexpr,
    GROUP_M: gl.constexpr,
    STAGES: gl.constexpr,
    C_LAYOUT: gl.constexpr,
    TMA: gl.constexpr,
    FACTORS: gl.constexpr,
    BLOCKS: gl.constexpr,
    ALPHA: gl.constexpr,
    ADD: gl.constexpr,
    BIAS: gl.constexpr,
    ACTIVATION: gl.constexpr,
):
    """C = activation(alpha·A·B + beta·D + bias) in `wide` columns of wide tiles and `narrow` columns of narrow ones.

    Args:
        a_desc: Descriptor of A, (M, K).
        b_desc, rest_desc: Descriptors of B's transpose, (N, K), for 128 and for 64 of its rows.
        c_desc: Descriptor of C for pieces of 64 columns, None unless TMA.
        row_desc, column_desc: Descriptors of the transposes of block scales, (K / 128, M) and (N / 128, K / 128).
        c_ptr, d_ptr, bias_ptr, row_factors, column_factors, exponents: First elements; anything where not used.
    """
    strips = Strips(gl.cdiv(M, BLOCK_M), wide, narrow, gl.cdiv(K, BLOCK_K), GROUP_M)  # type: ignore[call-arg]
    a = gl.allocate_shared_memory(a_desc.dtype, [STAGES * 2, BLOCK_M // 2, BLOCK_K], a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, [STAGES, BLOCK_N, BLOCK_K], b_desc.layout)
    rest = gl.allocate_shared_memory(b_desc.dtype, [STAGES, REST, BLOCK_K], rest_desc.layout)
    if BLOCKS:
        rows = gl.allocate_shared_memory(gl.float32, [STAGES * 2, 1, BLOCK_M // 2], row_desc.layout)
        columns = gl.allocate_shared_memory(gl.float32, [STAGES * 2, 1, BOX], column_desc.layout)
    else:
        rows = rest
        columns = rest
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=2)
    single = columns
    if BLOCKS:
        single = columns.reinterpret(gl.float32, [STAGES * 2 * BOX, 1], one_by_one())
    ring = Ring(a, b, rest, rows, columns, single, full, empty, STAGES, BLOCKS)  # type: ignore[call-arg]
    buffers = gl.allocate_shared_memory(c_ptr.dtype.element_ty, [2, BLOCK_M // 2, REST], C_LAYOUT)
    none = gl.to_tensor(0)
    leave = Exit(  # type: ignore[call-arg]
        buffers=buffers, out=c_ptr, add=d_ptr, bias=bias_ptr, row_factors=row_factors, column_factors=column_factors,
        row_exponents=exponents, column_exponents=exponents, alpha=alpha, beta=beta, M=M, N=N, stride=stride_cm,
        part_stride=none, add_stride=none, add_stride_m=stride_dm, add_stride_n=stride_dn, bias_stride=stride_bias,
        row_stride=stride_sa, column_stride=stride_sb, row_step=none, column_step=none, SCALED=False, FACTORS=FACTORS,
        BLOCKS=BLOCKS, ALPHA=ALPHA, ADD=ADD, BIAS=BIAS, ACTIVATION=ACTIVATION, TMA=TMA, BUFFERS=1, HALVINGS=1,
        TRANSPOSED=False, FOLDED=False, BATCHED=False,
    )  # fmt: skip
    leave_rest = Exit(  # type: ignore[call-arg]
        buffers=buffers, out=c_ptr, add=d_ptr, bias=bias_ptr, row_factors=row_factors, column_factors=column_factors,
        row_exponents=exponents, column_exponents=exponents, alpha=alpha, beta=beta, M=M, N=N, stride=stride_cm,
        part_stride=none, add_stride=none, add_stride_m=stride_dm, add_stride_n=stride_dn, bias_stride=stride_bias,
        row_stride=stride_sa, column_stride=stride_sb, row_step=none, column_step=none, SCALED=False, FACTORS=FACTORS,
        BLOCKS=BLOCKS, ALPHA=ALPHA, ADD=ADD, BIAS=BIAS, ACTIVATION=ACTIVATION, TMA=TMA, BUFFERS=1, HALVINGS=0,
        TRANSPOSED=False, FOLDED=False, BATCHED=False,
    )  # fmt: skip
    gl.warp_specialize(
        [
            (multiply_tiles, (0, c_desc, ring, strips, leave, leave_rest, BLOCK_M)),
            (multiply_tiles, (1, c_desc, ring, strips, leave, leave_rest, BLOCK_M)),
            (load_tiles, (a_desc, b_desc, rest_desc, row_desc, column_desc, ring, strips, BLOCK_M)),
        ],
        [4, 1],
        [240, 24],
    )


@functools.cache
def strips(M: int, N: int, block_m: int, programs: int, even: bool) -> tuple[int, int]:
    """Columns of wide tiles and of narrow ones with which the last program ends earliest; of equals, the most wide.

    Args:
        M: Rows of the result.
        N: Its columns.
        block_m: Rows of a tile.
        programs: Programs that share the tiles.
        even: Whether narrow tiles must begin at multiples of 128 columns.

    Returns:
        Columns of wide and of narrow tiles; together they cover N.
    """
    units, rows = -(-N // REST.value), -(-M // block_m)
    found = []
    for wide in range(0, units // 3 + 1, 2 if even else 1):
        narrow = -(-(units - 3 * wide) // 2)
        first, count = rows * wide, rows * (wide + narrow)
        # Programs up to first % programs have one wide tile more than the others, and likewise for all tiles.
        longest = max(
            2 * -(-(count - i) // programs) + -(-(first - i) // programs)
            for i in {0, first % programs, count % programs}
        )
        found.append((longest, narrow, wide))
    _, narrow, wide = min(found)
    return wide, narrow


def _stages(result_bytes: int) -> int:
    """Stages that fit beside the result's pieces."""
    stage = (BLOCK_N.value + BLOCK_N.value + REST.value) * BLOCK_K.value + 1024
    return int((_SHARED - 2 * 64 * REST.value * result_bytes) // stage)


def configure(operands: Operands, blocks: bool = False) -> Config:
    """The configuration that an H200 measured fastest.

    Args:
        operands: The product.
        blocks: Whether it has scales of blocks.
    """
    few = blocks and min(operands.M, operands.N) < 8192
    return Config(
        kernel=NAME, block_m=128, block_n=BLOCK_N.value, block_k=BLOCK_K.value, group_m=8 if few else 16,
        stages=_stages(operands.out.element_size()), warps=4,
    )  # fmt: skip


def supports(operands: Operands, config: Config | None) -> bool:
    """Whether the kernel takes a product: fp8 promoted every 128; if not by name, one that large tiles suit."""
    if operands.mode.name not in ("ieee", "promote128") or operands.types[0] not in FP8:
        return False
    if operands.types[0] != operands.types[1] or operands.a.ndim != 2 or operands.K == 0:
        return False
    if operands.out.stride(-1) != 1 or str(operands.out.dtype) == "torch.float64":
        return False
    if config is None:
        # Where tiles of 128 x 128 are estimated to be fastest, these are not slower.
        tile = warp_specialised.configure(operands)
        return tile.block_m >= 128 and tile.block_n == 128
    return bool(
        config.block_n == BLOCK_N.value
        and config.block_k == BLOCK_K.value
        and config.block_m == 128
        and config.ctas == 1
        and config.splits == 1
        and 2 <= config.stages <= _stages(operands.out.element_size())
    )


def supports_blocks(operands: Operands, scale_a: Any, scale_b: Any, config: Config | None) -> bool:
    """Whether the kernel takes a product with scales of blocks."""
    return supports(operands, config)


def run_blocks(operands: Operands, scale_a: Any, scale_b: Any, config: Config | None) -> None:
    """Computes a product with a scale for every 1 x 128 of A and 128 x 128 of B."""
    run(operands, configure(operands, True) if config is None else config, scale_a, scale_b)


def run(operands: Operands, config: Config, scale_a: Any = None, scale_b: Any = None) -> None:
    """Computes a product, with scales of blocks if they are given."""
    out, epilogue = operands.out, operands.epilogue
    a, _ = readable(operands.a, 1)
    b, _ = readable(operands.b, 0)
    blocks = scale_a is not None
    rows = config.block_m // 2
    dtype, result = gluon_type(a), gluon_type(out)
    c_layout = tile_layout(rows, REST.value, result, None)
    engine = storable(out)
    row_desc = column_desc = None
    if blocks:
        scale_a, _ = readable(scale_a, 0)
        scale_b, _ = readable(scale_b, 0)
        row_desc = descriptor(scale_a.t(), [1, rows], _plain())
        column_desc = descriptor(scale_b.t(), [1, BOX.value], _plain())
    M, N = operands.M, operands.N
    programs = multiprocessors(out.device.index)
    wide, narrow = strips(M, N, config.block_m, programs, blocks)
    tiles = -(-M // config.block_m) * (wide + narrow)
    c = epilogue.addend
    bias = epilogue.bias
    along_c = (0, 0) if c is None else strides_of(c, "c")
    left, right = [rows, BLOCK_K.value], [BLOCK_N.value, BLOCK_K.value]
    rest = [REST.value, BLOCK_K.value]
    launches.launch(
        promoted_kernel,
        (min(tiles, programs),),
        descriptor(a, left, tile_layout(*left, dtype, None)),
        descriptor(b.t(), right, tile_layout(*right, dtype, None)),
        descriptor(b.t(), rest, tile_layout(*rest, dtype, None)),
        descriptor(out, [rows, REST.value], c_layout) if engine else None,
        row_desc,
        column_desc,
        out,
        out if c is None else c,
        out if bias is None else bias,
        out if epilogue.scale_a is None else epilogue.scale_a,
        out if epilogue.scale_b is None else epilogue.scale_b,
        out,
        float(epilogue.alpha),
        float(epilogue.beta),
        M,
        N,
        operands.K,
        wide,
        narrow,
        out.stride(0),
        *along_c,
        0 if bias is None else strides_of(bias, "bias")[0],
        along_scales(epilogue.scale_a, 0),
        along_scales(epilogue.scale_b, 1),
        BLOCK_M=config.block_m,
        GROUP_M=config.group_m,
        STAGES=config.stages,
        C_LAYOUT=c_layout,
        TMA=engine,
        FACTORS=epilogue.scale_a is not None,
        BLOCKS=blocks,
        **epilogue.flags,
        num_warps=4,
        maxnreg=168,
        enable_fp_fusion=True,
    )


@functools.cache
def _plain() -> Any:
    """The layout of fp32 scales as they lie in memory."""
    return gl.NVMMASharedLayout(0, 32, 2)
