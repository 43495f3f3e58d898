"""What the warp-specialised kernels share: order of tiles, ring of stages, loading warp, the results' way out.

A program runs three kinds of warps at the same time. One *producer* warp asks the copy engine for tiles of A and B and
writes no data itself; one or two *consumer* warpgroups multiply the tiles and store their 64 rows of the result. They
meet at barriers only: stage i is `full` when all its bytes have arrived and `empty` when every consumer is done with
it. Consumers never wait for each other, so that one multiplies while the other rounds, scales and stores.

Programs are persistent: program p computes tiles p, p + programs, p + 2·programs, ... Reads beyond a matrix give
zeros, which the copy engine fills in, so that any M, N and K works; results beyond it are not written.
"""

from __future__ import annotations

from triton import aggregate
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

# Exponents of results that are surely 0 or infinite lie beyond: sums of emulated products lie in 2**-48 .. 2**63.
_FARTHEST = gl.constexpr(252)


@aggregate
class Tiles:
    """The tiles of a result, numbered so that GROUP rows of tiles share their columns of B in the cache.

    A program that takes no part, because a guard chose another kernel, sees `count` = 0. With SPLIT every tile occurs
    once per part of k: `share` steps each, the last part what is left. With BATCHED every tile occurs once per matrix.

    Steps over k are rounded up to a multiple of UNROLL; those beyond K add zeros.

    This program's tiles are `first`, `first + stride`, ...; programs that do something else have none.
    """

    rows: gl.tensor
    columns: gl.tensor
    steps: gl.tensor
    count: gl.tensor
    share: gl.tensor
    first: gl.tensor
    stride: gl.tensor
    GROUP: gl.constexpr
    SPLIT: gl.constexpr
    BATCHED: gl.constexpr
    UNROLL: gl.constexpr

    @gluon.jit
    def place(self, tile):
        """Row and column of a tile, in tiles."""
        if self.SPLIT or self.BATCHED:
            tile = tile % (self.rows * self.columns)
        group = tile // (self.GROUP * self.columns)
        first = group * self.GROUP
        height = gl.minimum(self.rows - first, self.GROUP)
        inside = tile - group * self.GROUP * self.columns
        return first + inside % height, inside // height

    @gluon.jit
    def part(self, tile):
        """Which part of k, or matrix, a tile is of, its first step, and how many it has."""
        if self.SPLIT:
            part = tile // (self.rows * self.columns)
            first = part * self.share
            return part, first, self.rounded(gl.minimum(self.share, self.steps - first))
        elif self.BATCHED:
            return tile // (self.rows * self.columns), 0, self.rounded(self.steps)
        else:
            return 0, 0, self.rounded(self.steps)

    @gluon.jit
    def rounded(self, steps):
        return (steps + self.UNROLL - 1) // self.UNROLL * self.UNROLL


@aggregate
class Ring:
    """Stages of operand tiles in shared memory, and the barriers between the producer and the consumers.

    A stage holds, for each of PARTS parts, one tile of A per consumer warpgroup and one tile of B for all. In a cluster
    of two programs B's tile is loaded once for both; `pair` then counts the consumers of both programs.
    """

    a: gl.shared_memory_descriptor
    b: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    pair: gl.shared_memory_descriptor
    STAGES: gl.constexpr
    PARTS: gl.constexpr
    GROUPS: gl.constexpr
    A_MK: gl.constexpr
    B_NK: gl.constexpr

    @gluon.jit
    def a_tile(self, stage, part: gl.constexpr, group: gl.constexpr):
        """A warpgroup's tile [rows, BLOCK_K] of A."""
        tile = self.a.index((stage * self.PARTS + part) * self.GROUPS + group)
        if not self.A_MK:
            tile = tile.permute((1, 0))
        return tile

    @gluon.jit
    def b_tile(self, stage, part: gl.constexpr):
        """The tile [BLOCK_K, BLOCK_N] of B."""
        tile = self.b.index(stage * self.PARTS + part)
        if self.B_NK:
            tile = tile.permute((1, 0))
        return tile

    @gluon.jit
    def next(self, stage, phase):
        """The stage after this one and its barriers' phase."""
        wrap = stage == self.STAGES - 1
        return gl.where(wrap, 0, stage + 1), gl.where(wrap, phase ^ 1, phase)

    @gluon.jit
    def previous(self, stage):
        """The stage before this one.

        Computed, not remembered: the front end takes a variable that is `stage` before a loop and `stage` again inside
        it for an invariant of the loop, and the barriers of all but one stage would never be freed.
        """
        return gl.where(stage == 0, self.STAGES - 1, stage - 1)

    @gluon.jit
    def wait_full(self, stage, phase):
        mbarrier.wait(self.full.index(stage), phase)

    @gluon.jit
    def free(self, stage, pred):
        """This warpgroup reads the stage no more: tell the own producer and, in a cluster, the one that loads B."""
        mbarrier.arrive(self.empty.index(stage), pred=pred)
        if gl.num_ctas() == 2:
            mbarrier.arrive(self.pair.index(stage), pred=pred)


@gluon.constexpr_function
def matrix_layout(layout):
    """The layout of one matrix of a descriptor's block, which may be a batch of one."""
    if layout.rank == 2:
        return layout
    return gl.NVMMASharedLayout(layout.swizzle_byte_width, layout.element_bitwidth, rank=2)


@gluon.constexpr_function
def matrix_shape(shape):
    """Rows and columns of a descriptor's block."""
    return [int(n) for n in shape[-2:]]


@gluon.jit
def make_ring(
    a_desc,
    b_desc,
    STAGES: gl.constexpr,
    PARTS: gl.constexpr,
    GROUPS: gl.constexpr,
    A_MK: gl.constexpr,
    B_NK: gl.constexpr,
):
    """Shared memory and initialised barriers of a ring."""
    A_SHAPE: gl.constexpr = matrix_shape(a_desc.block_type.shape)
    B_SHAPE: gl.constexpr = matrix_shape(b_desc.block_type.shape)
    a = gl.allocate_shared_memory(
        a_desc.dtype, [STAGES * PARTS * GROUPS, A_SHAPE[0], A_SHAPE[1]], matrix_layout(a_desc.layout)
    )
    b = gl.allocate_shared_memory(b_desc.dtype, [STAGES * PARTS, B_SHAPE[0], B_SHAPE[1]], matrix_layout(b_desc.layout))
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    if gl.num_ctas() == 2:
        pair = mbarrier.allocate_mbarrier(batch=STAGES, two_ctas=True)
    else:
        pair = empty
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=GROUPS)
        if gl.num_ctas() == 2:
            mbarrier.init(pair.index(stage), count=GROUPS)
    return Ring(a, b, full, empty, pair, STAGES, PARTS, GROUPS, A_MK, B_NK)  # type: ignore[call-arg]


@gluon.jit
def load(desc, matrix, y, x, barrier, buffer, BATCHED: gl.constexpr, MULTICAST: gl.constexpr):
    """Asks the copy engine for a block, of a matrix of the batch if there is one."""
    if BATCHED:
        tma.async_load(desc, [matrix, y, x], barrier, buffer, multicast=MULTICAST)
    else:
        tma.async_load(desc, [y, x], barrier, buffer, multicast=MULTICAST)


@gluon.jit
def load_tiles(
    a_desc,
    b_desc,
    ring,
    tiles,
    cutting,
    a_rows,
    b_rows,
    BM: gl.constexpr,
    BN: gl.constexpr,
    BK: gl.constexpr,
):
    """The producer warp: every stage of every tile, in the consumers' order.

    Args:
        cutting: Who cuts the rows of A that are not cut yet.
        a_rows: Rows between the parts of A, which lie below each other in memory.
        b_rows: Rows between the parts of B.
    """
    ROWS: gl.constexpr = BM // ring.GROUPS
    BYTES: gl.constexpr = (ring.GROUPS * a_desc.nbytes_per_cta + b_desc.nbytes_per_cta) * ring.PARTS
    CLUSTER: gl.constexpr = gl.num_ctas() == 2
    stage = gl.to_tensor(0)
    phase = gl.to_tensor(0)
    for tile in range(tiles.first, tiles.count, tiles.stride):
        tile_m, tile_n = tiles.place(tile)
        cutting.wait_for(tile_m, BM)
        matrix, first, steps = tiles.part(tile)
        for step in range(first, first + steps):
            mbarrier.wait(ring.empty.index(stage), phase ^ 1)
            if CLUSTER:
                mbarrier.wait(ring.pair.index(stage), phase ^ 1)
            bar = ring.full.index(stage)
            mbarrier.expect(bar, BYTES)
            k = step * BK
            for part in gl.static_range(ring.PARTS):
                for group in gl.static_range(ring.GROUPS):
                    row = part * a_rows + tile_m * BM + group * ROWS
                    buf = ring.a.index((stage * ring.PARTS + part) * ring.GROUPS + group)
                    if ring.A_MK:
                        load(a_desc, matrix, row, k, bar, buf, tiles.BATCHED, False)
                    else:
                        load(a_desc, matrix, k, row, bar, buf, tiles.BATCHED, False)
                buf = ring.b.index(stage * ring.PARTS + part)
                if ring.B_NK:
                    load(b_desc, matrix, part * b_rows + tile_n * BN, k, bar, buf, tiles.BATCHED, CLUSTER)
                else:
                    load(b_desc, matrix, part * b_rows + k, tile_n * BN, bar, buf, tiles.BATCHED, CLUSTER)
            stage, phase = ring.next(stage, phase)


@aggregate
class Exit:
    """What happens to a finished sum on its way to memory.

    Attributes:
        buffers: Shared memory that pieces of the result pass through.
        out: The result's first element, `stride` elements between its rows, `part_stride` between parts of k or the
            matrices of a batch.
        add: The matrix that beta multiplies, `add_stride_m` and `add_stride_n` elements between rows and columns,
            `add_stride` between the matrices of a batch.
        bias: One number per column, `bias_stride` elements apart.
        row_factors: Scales of A's rows, `row_stride` elements apart (0: one for all).
        column_factors: Scales of B's columns, `column_stride` elements apart.
        row_step, column_step: With BLOCKS the factors are those of blocks of 128 in k, this many elements apart, and
            column_factors one per 128 columns: consumers multiply by them, and what leaves is scaled already.
        row_exponents: Powers of two, as integers, that row m of an emulated product is multiplied by.
        column_exponents: The same for columns.
        ACTIVATION: Name of the activation function, or None.
        TMA: Whether the copy engine stores the result: its rows start at multiples of 16 bytes and fill such.
        BUFFERS: Pieces in flight per warpgroup.
        HALVINGS: The columns of a warpgroup's sums leave in 2**HALVINGS pieces.
        TRANSPOSED: Whether the sums are those of the result's transpose; all else here is of the result itself.
        FOLDED: Whether the rows of a warpgroup's sums are in the order of `folded`.
    """

    buffers: gl.shared_memory_descriptor
    out: gl.tensor
    add: gl.tensor
    bias: gl.tensor
    row_factors: gl.tensor
    column_factors: gl.tensor
    row_exponents: gl.tensor
    column_exponents: gl.tensor
    alpha: gl.tensor
    beta: gl.tensor
    M: gl.tensor
    N: gl.tensor
    stride: gl.tensor
    part_stride: gl.tensor
    add_stride: gl.tensor
    add_stride_m: gl.tensor
    add_stride_n: gl.tensor
    bias_stride: gl.tensor
    row_stride: gl.tensor
    column_stride: gl.tensor
    row_step: gl.tensor
    column_step: gl.tensor
    SCALED: gl.constexpr
    FACTORS: gl.constexpr
    BLOCKS: gl.constexpr
    ALPHA: gl.constexpr
    ADD: gl.constexpr
    BIAS: gl.constexpr
    ACTIVATION: gl.constexpr
    TMA: gl.constexpr
    BUFFERS: gl.constexpr
    HALVINGS: gl.constexpr
    TRANSPOSED: gl.constexpr
    FOLDED: gl.constexpr
    BATCHED: gl.constexpr


@gluon.jit
def power_of_two(exponent):
    """2**exponent in fp32, for exponents from -126 to 127."""
    return ((exponent + 127) << 23).to(gl.float32, bitcast=True)


@gluon.jit
def scaled(x, exponents):
    """x·2**exponents, rounded once: the factor, which fp32 may not hold, enters as two halves.

    The first multiplication is exact for sums of emulated products unless the result is 0 or infinite anyhow.
    """
    exponents = gl.minimum(gl.maximum(exponents, -_FARTHEST), _FARTHEST)
    half = exponents >> 1
    return x * power_of_two(half) * power_of_two(exponents - half)


@gluon.jit
def pieces(x, HALVINGS: gl.constexpr):
    """x in 2**HALVINGS pieces of neighbouring columns."""
    xs = (x,)
    for _ in gl.static_range(HALVINGS):
        halves = ()
        for j in gl.static_range(len(xs)):
            y = xs[j]
            halves += y.reshape(y.shape[0], 2, y.shape[1] // 2).permute(0, 2, 1).split()
        xs = halves  # type: ignore[assignment]
    return xs


@gluon.jit
def activated(x, ACTIVATION: gl.constexpr):
    """The activation of `tritongemm.kernels.epilogue`, which says what it is."""
    if ACTIVATION == "relu":
        x = gl.where(x <= 0, 0.0, x)
    elif ACTIVATION == "gelu":
        x = 0.5 * x * (1.0 + gl.erf(x * 0.7071067811865476))
    elif ACTIVATION == "silu":
        x = x / (1.0 + gl.exp(-x))
    return x


@gluon.jit
def unfolded(x):
    """Sums whose 64 rows are in the order of `consumers.fragment`, in natural order; moves no register."""
    y = x.reshape(2, 2, 2, 2, 2, 2, x.shape[1])
    return y.permute(0, 4, 1, 3, 5, 2, 6).reshape(64, x.shape[1])


@gluon.jit
def finish(total, leave, row, column, matrix):
    """Scales, adds and activates a piece of finished sums: `tritongemm.kernels.epilogue.finished` in Gluon."""
    LAYOUT: gl.constexpr = total.type.layout
    m = row + gl.arange(0, total.shape[0], gl.SliceLayout(1, LAYOUT))
    n = column + gl.arange(0, total.shape[1], gl.SliceLayout(0, LAYOUT))
    live_m = m < leave.M
    live_n = n < leave.N
    zero = gl.zeros(total.shape, gl.float32, LAYOUT)
    if leave.SCALED:
        # Past the first cache, which may hold what stood there before the row was cut.
        rows = gl.load(leave.row_exponents + m, mask=live_m, other=0, cache_modifier=".cg")
        columns = gl.load(leave.column_exponents + n, mask=live_n, other=0)
        total = scaled(total, rows[:, None] + columns[None, :])
        # -0 becomes +0, as in every other kernel. Not `total + 0.0`: a compiler may fuse that with the multiplication,
        # and a fused sum that underflows keeps its sign. Sums that are not scaled are never -0: no unit returns it.
        total = gl.where(total == 0.0, 0.0, total)
    if leave.BLOCKS:
        total = gl.where(total == 0.0, 0.0, total)  # -0 becomes +0 here too
    factor = zero + leave.alpha
    if leave.FACTORS:
        rows = gl.load(leave.row_factors + m * leave.row_stride, mask=live_m, other=0.0).to(gl.float32)
        columns = gl.load(leave.column_factors + n * leave.column_stride, mask=live_n, other=0.0).to(gl.float32)
        if leave.ALPHA:
            factor = rows[:, None] * columns[None, :] * leave.alpha
        else:
            factor = rows[:, None] * columns[None, :]
    if leave.BIAS:
        bias = gl.load(leave.bias + n * leave.bias_stride, mask=live_n, other=0.0).to(gl.float32)[None, :]
        if leave.ALPHA or leave.FACTORS:
            total = gl.fma(total, factor, zero + bias)
        else:
            total = total + bias
    elif leave.ALPHA or leave.FACTORS:
        total = total * factor
    if leave.ADD:
        first = leave.add
        if leave.BATCHED:
            first += matrix.to(gl.int64) * leave.add_stride
        at = first + m.to(gl.int64)[:, None] * leave.add_stride_m + n.to(gl.int64)[None, :] * leave.add_stride_n
        added = gl.load(at, mask=live_m[:, None] & live_n[None, :], other=0.0).to(gl.float32)
        total = gl.fma(added, zero + leave.beta, total)
    return activated(total, leave.ACTIVATION)


@gluon.jit
def store(c_desc, leave, x, row, column, part, group: gl.constexpr):
    """Finishes and stores a warpgroup's sums, piece by piece through shared memory.

    Piece by piece, because a thread that holds a whole tile's sums has few registers left for exponents and addends.

    Args:
        part: Part of k, or matrix of the batch.
        row, column: Of the first sum, among the sums: with TRANSPOSED, the result's column and row.
    """
    HEIGHT: gl.constexpr = leave.buffers.shape[1]
    WIDTH: gl.constexpr = leave.buffers.shape[2]
    # For rows that start anywhere: one element per thread, 32 neighbours per warp, so that sectors are written whole.
    WIDE: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0], cga_layout=leave.buffers.layout.cga_layout)
    xs = pieces(x, leave.HALVINGS)
    for q in gl.static_range(len(xs)):
        y = xs[q]
        if leave.FOLDED:
            y = unfolded(y)
        if leave.TRANSPOSED:
            y = y.permute(1, 0)
            top = column + q * HEIGHT
            first = row
        else:
            top = row
            first = column + q * WIDTH
        z = finish(y, leave, top, first, part).to(leave.out.dtype.element_ty)
        buffer = leave.buffers.index(group * leave.BUFFERS + q % leave.BUFFERS)
        if leave.TMA:
            tma.store_wait(leave.BUFFERS - 1)
            buffer.store(z)
            fence_async_shared()
            if leave.BATCHED:
                tma.async_store(c_desc, [part, top, first], buffer)
            else:
                tma.async_store(c_desc, [top, first], buffer)
        else:
            buffer.store(z)
            m = top + gl.arange(0, HEIGHT, gl.SliceLayout(1, WIDE))
            n = first + gl.arange(0, WIDTH, gl.SliceLayout(0, WIDE))
            at = (
                leave.out
                + gl.to_tensor(part).to(gl.int64) * leave.part_stride
                + m.to(gl.int64)[:, None] * leave.stride
                + n[None, :]
            )
            gl.store(at, buffer.load(WIDE), mask=(m < leave.M)[:, None] & (n < leave.N)[None, :])
