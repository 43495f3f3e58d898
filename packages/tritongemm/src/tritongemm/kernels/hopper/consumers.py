"""The multiplying warpgroups: how tiles become sums, one function per order of summation.

Every consumer owns BLOCK_M / GROUPS rows of its program's tile; `group` says which. Within one stage a matrix
instruction takes k in ascending order, 16 products at a time for 16-bit operands, 8 for tf32, 32 for 8-bit ones.

| consumer | sum |
|---|---|
| `chained` | one chain over k in the accumulator of the matrix unit |
| `chained_from_registers` | the same, for a left operand of four bytes that is contiguous along its rows' axis |
| `promoted_pairs` | a chain from zero per BLOCK_K, added to an fp32 sum to nearest even; two stages at a time |
| `promoted_parts` | the same for operands of two or three parts: per BLOCK_K the products of parts, smallest first |
| `integers` | three exact int32 sums of products of int8 digits, joined in fp32 |
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)

from tritongemm.kernels.hopper.cutting import cut_rows
from tritongemm.kernels.hopper.pipeline import store


@gluon.constexpr_function
def accumulator(columns, bits, cga_layout):
    """The layout of a warpgroup's accumulator for instructions on operands of `bits` bits."""
    return gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, min(columns, 256), 256 // bits], cga_layout=cga_layout
    )


@gluon.jit
def chained(
    group: gl.constexpr, c_desc, ring, tiles, leave, BM: gl.constexpr, BN: gl.constexpr, PRECISION: gl.constexpr
):
    """One chain over k: every product goes into the accumulator of the matrix unit.

    One instruction stays in flight across the loop, so a stage is freed when the next one has been issued.
    """
    ROWS: gl.constexpr = BM // ring.GROUPS
    LAYOUT: gl.constexpr = accumulator(BN, ring.a.dtype.primitive_bitwidth, leave.buffers.layout.cga_layout)
    stage = gl.to_tensor(0)
    phase = gl.to_tensor(0)
    zero = gl.zeros([ROWS, BN], gl.float32, LAYOUT)
    total = warpgroup_mma_init(zero)
    for tile in range(tiles.first, tiles.count, tiles.stride):
        tile_m, tile_n = tiles.place(tile)
        part, _, steps = tiles.part(tile)
        for step in range(steps):
            ring.wait_full(stage, phase)
            total = warpgroup_mma(
                ring.a_tile(stage, 0, group), ring.b_tile(stage, 0), total,
                use_acc=step > 0, precision=PRECISION, is_async=True,
            )  # fmt: skip
            total = warpgroup_mma_init(warpgroup_mma_wait(1, deps=[total]))
            ring.free(ring.previous(stage), step > 0)
            stage, phase = ring.next(stage, phase)
        done = warpgroup_mma_wait(0, deps=[total])
        ring.free(ring.previous(stage), True)
        row = tile_m * BM + group * ROWS
        store(c_desc, leave, done, row, tile_n * BN, part, group)
        if leave.ALPHA or leave.ADD or leave.BIAS or leave.FACTORS or leave.ACTIVATION is not None:
            total = warpgroup_mma_init(zero)  # not `done`, whose registers such an epilogue needs
        else:
            total = warpgroup_mma_init(done)
    tma.store_wait(0)


@gluon.constexpr_function
def unfolding(depth):
    """How a warpgroup reads [depth, 64] numbers of four bytes, contiguous along the 64, as its left operand's rows.

    The matrix unit gives a thread rows r and r + 8, and k, k + 4, ...: eight rows and four k per warp and register.
    Which of the 64 numbers is which row is free, as long as results are stored accordingly (`pipeline.unfolded`). Here
    rows r and r + 8 are neighbours, so that a thread reads them together, and what 16 threads read at a time, four rows
    and four k, lies in different banks of the swizzled memory, where number 4·c of row k is at 4·(c ^ (k & 7)).
    """
    registers = [[0, 1], *([1 << i, 0] for i in range(2, depth.bit_length() - 1))]
    return gl.DistributedLinearLayout(
        reg_bases=registers, lane_bases=[[1, 0], [2, 0], [0, 2], [0, 16], [0, 4]], warp_bases=[[0, 8], [0, 32]],
        block_bases=[], shape=[depth, 64],
    )  # fmt: skip


@gluon.jit
def fragment(ring, stage, group: gl.constexpr, LAYOUT: gl.constexpr):
    """A warpgroup's left operand of a stage in registers; its rows as `unfolding` says."""
    tile = ring.a.index(stage * ring.GROUPS + group)
    DEPTH: gl.constexpr = tile.shape[0]
    gl.static_assert(tile.shape[1] == 64)
    x = tile.load(unfolding(DEPTH)).reshape(DEPTH, 2, 2, 2, 2, 2, 2).permute(1, 3, 6, 4, 2, 5, 0).reshape(64, DEPTH)
    return gl.convert_layout(x, gl.DotOperandLayout(0, LAYOUT, 1), assert_trivial=True)


@gluon.jit
def released(running, left, ring, stage):
    """Waits until only the newest product is in flight: the one before has read its registers and its stage."""
    done = warpgroup_mma_wait(1, deps=[running, left])
    ring.free(stage, True)
    return warpgroup_mma_init(done[0])


@gluon.jit
def chained_from_registers(
    group: gl.constexpr, c_desc, ring, tiles, leave, BM: gl.constexpr, BN: gl.constexpr, PRECISION: gl.constexpr
):
    """`chained` for a left operand of four bytes that is contiguous along its rows' axis.

    The matrix unit reads such numbers from shared memory along k only, but takes a left operand from registers, where
    threads bring it the other way round. A stage's is read while the one before is multiplied: of four stages, one
    more is then in use, but shared memory, which is busy, has time to answer. After UNROLL steps all products are
    waited for, because were one that reads registers in flight across the loop, the compiler would wait for each.
    """
    ROWS: gl.constexpr = BM // ring.GROUPS
    LAYOUT: gl.constexpr = accumulator(BN, ring.a.dtype.primitive_bitwidth, leave.buffers.layout.cga_layout)
    UNROLL: gl.constexpr = tiles.UNROLL
    EARLY: gl.constexpr = ring.STAGES > 3
    stage = gl.to_tensor(0)
    phase = gl.to_tensor(0)
    total = gl.zeros([ROWS, BN], gl.float32, LAYOUT)
    for tile in range(tiles.first, tiles.count, tiles.stride):
        tile_m, tile_n = tiles.place(tile)
        part, _, steps = tiles.part(tile)
        rounds = steps // UNROLL
        ring.wait_full(stage, phase)
        left = fragment(ring, stage, group, LAYOUT)
        for i in range(rounds):
            lefts = (left,)
            running = warpgroup_mma_init(total)
            for j in gl.static_range(UNROLL):
                running = warpgroup_mma(
                    lefts[j], ring.b_tile(stage, 0), running,
                    use_acc=i > 0 if j == 0 else True, precision=PRECISION, is_async=True,
                )  # fmt: skip
                if j > 0 and not EARLY:
                    running = released(running, lefts[j - 1], ring, ring.previous(stage))
                after, after_phase = ring.next(stage, phase)
                # Behind the last step of a tile there may be nothing to read yet, and what is read is not used.
                mbarrier.wait(ring.full.index(after), after_phase, pred=True if j + 1 < UNROLL else i + 1 < rounds)
                lefts += (fragment(ring, after, group, LAYOUT),)  # type: ignore[assignment]
                if j > 0 and EARLY:
                    running = released(running, lefts[j - 1], ring, ring.previous(stage))
                stage = after
                phase = after_phase
            done = warpgroup_mma_wait(0, deps=[running, lefts[UNROLL - 1]])
            ring.free(ring.previous(stage), True)
            total = done[0]
            left = lefts[UNROLL]
        store(c_desc, leave, total, tile_m * BM + group * ROWS, tile_n * BN, part, group)
    tma.store_wait(0)


@gluon.jit
def block_scales(leave, at, live, block, steps, column):
    """The scales of one block of k, zeros beyond K: those of A's rows, and the one of B's 128 columns.

    Not yet multiplied: loads are issued long before their use, and a product would wait for them.
    """
    rows = gl.load(at + block * leave.row_step, mask=live & (block < steps), other=0.0)
    there = leave.column_factors + block * leave.column_step + column * leave.column_stride
    return rows, gl.load(there, mask=block < steps, other=0.0)


@gluon.jit
def scaled_sum(total, part, factors):
    """total + part·factors, one factor per row, fused."""
    factors, _ = gl.broadcast(factors[:, None], total)
    return gl.fma(part, factors, total)


@gluon.jit
def promoted_pairs(
    group: gl.constexpr, c_desc, ring, tiles, leave, BM: gl.constexpr, BN: gl.constexpr, PRECISION: gl.constexpr
):
    """Each BLOCK_K is summed from zero and added in fp32; of two in flight the first is added while the second runs.

    With block scales, those of a pair of blocks are loaded while the pair before is multiplied.
    """
    ROWS: gl.constexpr = BM // ring.GROUPS
    LAYOUT: gl.constexpr = accumulator(BN, ring.a.dtype.primitive_bitwidth, leave.buffers.layout.cga_layout)
    stage = gl.to_tensor(0)
    phase = gl.to_tensor(0)
    first = gl.zeros([ROWS, BN], gl.float32, LAYOUT)
    second = gl.zeros([ROWS, BN], gl.float32, LAYOUT)
    for tile in range(tiles.first, tiles.count, tiles.stride):
        tile_m, tile_n = tiles.place(tile)
        matrix, _, steps = tiles.part(tile)
        row = tile_m * BM + group * ROWS
        total = gl.zeros([ROWS, BN], gl.float32, LAYOUT)
        if leave.BLOCKS:
            m = row + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
            live = m < leave.M
            at = leave.row_factors + m.to(gl.int64) * leave.row_stride
            column = tile_n * BN // 128
            rows_early, column_early = block_scales(leave, at, live, 0, tiles.steps, column)
            rows_late, column_late = block_scales(leave, at, live, 1, tiles.steps, column)
        for pair in range(steps // 2):
            ring.wait_full(stage, phase)
            early = warpgroup_mma(
                ring.a_tile(stage, 0, group), ring.b_tile(stage, 0), warpgroup_mma_init(first),
                use_acc=False, precision=PRECISION, is_async=True,
            )  # fmt: skip
            after, after_phase = ring.next(stage, phase)
            ring.wait_full(after, after_phase)
            late = warpgroup_mma(
                ring.a_tile(after, 0, group), ring.b_tile(after, 0), warpgroup_mma_init(second),
                use_acc=False, precision=PRECISION, is_async=True,
            )  # fmt: skip
            if leave.BLOCKS:
                block = 2 * pair + 2
                rows_next, column_next = block_scales(leave, at, live, block, tiles.steps, column)
                rows_after, column_after = block_scales(leave, at, live, block + 1, tiles.steps, column)
            first = warpgroup_mma_wait(1, deps=[early])
            ring.free(stage, True)
            if leave.BLOCKS:
                total = scaled_sum(total, first, rows_early * column_early)
                rows_early, column_early = rows_next, column_next
            else:
                total = total + first
            second = warpgroup_mma_wait(0, deps=[late])
            ring.free(after, True)
            if leave.BLOCKS:
                total = scaled_sum(total, second, rows_late * column_late)
                rows_late, column_late = rows_after, column_after
            else:
                total = total + second
            stage, phase = ring.next(after, after_phase)
        store(c_desc, leave, total, row, tile_n * BN, matrix, group)
    tma.store_wait(0)


@gluon.jit
def promoted_parts(
    group: gl.constexpr, c_desc, ring, tiles, leave, BM: gl.constexpr, BN: gl.constexpr, PRECISION: gl.constexpr
):
    """Per BLOCK_K the products of parts, smallest first, in one chain from zero that is added in fp32.

    With two parts: small·big, big·small, big·big. With three: middle·middle, low·high, high·low, middle·high,
    high·middle, high·high, the order of Triton's `tl.dot`. The chain is drained before it is added; the
    other warpgroup keeps the matrix unit busy.
    """
    ROWS: gl.constexpr = BM // ring.GROUPS
    LAYOUT: gl.constexpr = accumulator(BN, ring.a.dtype.primitive_bitwidth, leave.buffers.layout.cga_layout)
    stage = gl.to_tensor(0)
    phase = gl.to_tensor(0)
    part = gl.zeros([ROWS, BN], gl.float32, LAYOUT)
    for tile in range(tiles.first, tiles.count, tiles.stride):
        tile_m, tile_n = tiles.place(tile)
        matrix, _, _ = tiles.part(tile)
        total = gl.zeros([ROWS, BN], gl.float32, LAYOUT)
        for _ in range(tiles.steps):
            ring.wait_full(stage, phase)
            chain = warpgroup_mma_init(part)
            a0 = ring.a_tile(stage, 0, group)
            b0 = ring.b_tile(stage, 0)
            a1 = ring.a_tile(stage, 1, group)
            b1 = ring.b_tile(stage, 1)
            if ring.PARTS == 3:
                chain = warpgroup_mma(a1, b1, chain, use_acc=False, is_async=True)
                chain = warpgroup_mma(ring.a_tile(stage, 2, group), b0, chain, is_async=True)
                chain = warpgroup_mma(a0, ring.b_tile(stage, 2), chain, is_async=True)
                chain = warpgroup_mma(a1, b0, chain, is_async=True)
            else:
                chain = warpgroup_mma(a1, b0, chain, use_acc=False, is_async=True)
            chain = warpgroup_mma(a0, b1, chain, is_async=True)
            chain = warpgroup_mma(a0, b0, chain, is_async=True)
            part = warpgroup_mma_wait(0, deps=[chain])
            ring.free(stage, True)
            total = total + part
            stage, phase = ring.next(stage, phase)
        row = tile_m * BM + group * ROWS
        store(c_desc, leave, total, row, tile_n * BN, matrix, group)
    tma.store_wait(0)


@gluon.jit
def integers(
    group: gl.constexpr, c_desc, ring, tiles, leave, BM: gl.constexpr, BN: gl.constexpr, PRECISION: gl.constexpr
):
    """Six products of int8 digits in three exact int32 sums, joined as g0·2**16 + (g1·2**8 + g2) in fp32.

    g0 sums top·top, g1 top·middle + middle·top, g2 top·low + middle·middle + low·top; the three products below are left
    out. |digits| <= 128, so g2 stays exact while 3·2**14·K < 2**31: launchers cut K at 32768.
    """
    ROWS: gl.constexpr = BM // ring.GROUPS
    LAYOUT: gl.constexpr = accumulator(BN, 8, leave.buffers.layout.cga_layout)
    stage = gl.to_tensor(0)
    phase = gl.to_tensor(0)
    zero = gl.zeros([ROWS, BN], gl.int32, LAYOUT)
    g0 = warpgroup_mma_init(zero)
    g1 = warpgroup_mma_init(zero)
    g2 = warpgroup_mma_init(zero)
    for tile in range(tiles.first, tiles.count, tiles.stride):
        tile_m, tile_n = tiles.place(tile)
        matrix, _, _ = tiles.part(tile)
        for step in range(tiles.steps):
            ring.wait_full(stage, phase)
            a0 = ring.a_tile(stage, 0, group)
            a1 = ring.a_tile(stage, 1, group)
            a2 = ring.a_tile(stage, 2, group)
            b0 = ring.b_tile(stage, 0)
            b1 = ring.b_tile(stage, 1)
            b2 = ring.b_tile(stage, 2)
            more = step > 0
            g0 = warpgroup_mma(a0, b0, g0, use_acc=more, is_async=True)
            g1 = warpgroup_mma(a0, b1, g1, use_acc=more, is_async=True)
            g2 = warpgroup_mma(a0, b2, g2, use_acc=more, is_async=True)
            g1 = warpgroup_mma(a1, b0, g1, is_async=True)
            g2 = warpgroup_mma(a1, b1, g2, is_async=True)
            g2 = warpgroup_mma(a2, b0, g2, is_async=True)
            x0, x1, x2 = warpgroup_mma_wait(6, deps=[g0, g1, g2])
            g0 = warpgroup_mma_init(x0)
            g1 = warpgroup_mma_init(x1)
            g2 = warpgroup_mma_init(x2)
            ring.free(ring.previous(stage), more)
            stage, phase = ring.next(stage, phase)
        x0, x1, x2 = warpgroup_mma_wait(0, deps=[g0, g1, g2])
        ring.free(ring.previous(stage), True)
        row = tile_m * BM + group * ROWS
        total = x0.to(gl.float32) * 65536.0 + (x1.to(gl.float32) * 256.0 + x2.to(gl.float32))
        store(c_desc, leave, total, row, tile_n * BN, matrix, group)
        g0 = warpgroup_mma_init(zero)  # not x0, whose registers the epilogue needs
        g1 = warpgroup_mma_init(zero)
        g2 = warpgroup_mma_init(zero)
    tma.store_wait(0)


@gluon.jit
def consume(
    group: gl.constexpr, c_desc, ring, tiles, leave, cutting, BM: gl.constexpr, BN: gl.constexpr,
    PRECISION: gl.constexpr, ORDER: gl.constexpr,
):  # fmt: skip
    """The consumer of this name; programs without tiles cut rows instead."""
    if cutting.PIECES > 0:
        cut_rows(cutting, group, ring.GROUPS, BM)
    if ORDER == "chained":
        chained(group, c_desc, ring, tiles, leave, BM, BN, PRECISION)
    elif ORDER == "chained_from_registers":
        chained_from_registers(group, c_desc, ring, tiles, leave, BM, BN, PRECISION)
    elif ORDER == "promoted_pairs":
        promoted_pairs(group, c_desc, ring, tiles, leave, BM, BN, PRECISION)
    elif ORDER == "promoted_parts":
        promoted_parts(group, c_desc, ring, tiles, leave, BM, BN, PRECISION)
    else:
        gl.static_assert(ORDER == "integers", "no such order of summation")
        integers(group, c_desc, ring, tiles, leave, BM, BN, PRECISION)
