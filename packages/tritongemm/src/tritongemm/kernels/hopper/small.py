"""Products of few rows on the tensor core: B goes by once, at the memory's speed, through all multiprocessors.

**Summation order.** `small`: the mode's own, one chain over k in the tensor core's accumulator
(`numfmt.matrix_units.chain()`; promoted fp8: a chain from zero per 128 k, the chains added in ascending k in fp32), so
that a row has the bits that it has among any number of rows. `small_split`: k is cut into two or four parts of whole
stages, one for each program of a cluster; each part is summed by itself, and the sums are added in ascending order in
fp32, through the cluster's shared memory: no atomics, no order that could change. Why the default does not cut k as
well, by a rule that knows N and K only: every kernel of the mode, large products included, would have to add up in that
order, which costs them a second accumulator and says nothing to them.

**Bound.** That of the mode; for parts that of their length, and a rounding for each but the first.

**What the numbers mean.** A multiprocessor gets 46 bytes per clock through its copy engine, all of them 2390 from
memory. What counts is therefore that all of them read B, that little else passes the engine, and that enough is
underway: a latency of 1 us at 4.2 TB/s is 4 MB, 32 kB for each. A tile has 64 or 128 rows because the instruction has,
but only rows that exist are loaded; the others keep what was in shared memory, and nobody stores their results.
One group of warps loads, multiplies and stores: a loading warp of its own gains nothing where memory is what
one waits for, and makes a program too large for two of them to share a multiprocessor.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
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
from tritongemm.elements import strides_of
from tritongemm.kernels.epilogue import Epilogue
from tritongemm.kernels.hopper.matrices import contiguous_axis, descriptor, gluon_type, multiprocessors, readable
from tritongemm.kernels.hopper.pipeline import finish
from tritongemm.kernels.hopper.warp_specialised import KINDS, Kind
from tritongemm.kernels.problems import Operands, along_scales

NAME, SPLIT_NAME = "small", "small_split"


@aggregate
class Leave:
    """What `finish` reads of a result's way out; `tritongemm.kernels.hopper.pipeline.Exit` says what is what."""

    out: gl.tensor
    add: gl.tensor
    bias: gl.tensor
    row_factors: gl.tensor
    column_factors: gl.tensor
    alpha: gl.tensor
    beta: gl.tensor
    M: gl.tensor
    N: gl.tensor
    stride: gl.tensor
    add_stride_m: gl.tensor
    add_stride_n: gl.tensor
    bias_stride: gl.tensor
    row_stride: gl.tensor
    column_stride: gl.tensor
    SCALED: gl.constexpr
    FACTORS: gl.constexpr
    BLOCKS: gl.constexpr
    BATCHED: gl.constexpr
    ALPHA: gl.constexpr
    ADD: gl.constexpr
    BIAS: gl.constexpr
    ACTIVATION: gl.constexpr


def _bases(parts: int, rank: int, axis: int | None) -> list[list[int]]:
    """Bases of a layout of this rank whose axis is spread over the programs of a cluster; None: each has all of it."""
    return [[size if i == axis else 0 for i in range(rank)] for size in (1, 2) if size < parts]


spread = gluon.constexpr_function(_bases)


@gluon.constexpr_function
def accumulator(rows, columns, bits, parts):
    """Where the sums of a tile are while instructions on operands of `bits` bits add them up."""
    return gl.NVMMADistributedLayout(
        version=[3, 0],
        warps_per_cta=[rows // 16, 1],
        instr_shape=[16, columns, 256 // bits],
        cga_layout=spread(parts, 2, 1),
    )


@gluon.constexpr_function
def joining(rows, columns, parts):
    """Where sums are when all parts of one are in one thread: columns spread over the cluster."""
    wide = min(32, columns // parts // 2)
    return gl.BlockedLayout(
        [1, 2, parts], [32 // wide, wide, 1], [rows // 16, 1, 1], [2, 1, 0], cga_layout=spread(parts, 3, 1)
    )


@gluon.jit
def program_of_cluster(x):
    """Which program of its cluster this is; x is anything."""
    return gl.inline_asm_elementwise("mov.u32 $0, %cluster_ctarank;", "=r,r", [x], dtype=gl.int32, is_pure=True, pack=1)


@gluon.jit
def joined(total, ROWS: gl.constexpr, COLUMNS: gl.constexpr, PARTS: gl.constexpr):
    """The sum over the parts of a tile, in ascending order; the parts lie side by side, one in each program."""
    parts = total.reshape(ROWS, PARTS, COLUMNS).permute(0, 2, 1)
    parts = gl.convert_layout(parts, joining(ROWS, COLUMNS, PARTS))
    if PARTS == 2:
        first, second = parts.split()
        return first + second
    else:
        even, odd = parts.reshape(ROWS, COLUMNS, 2, 2).split()
        first, third = even.split()
        second, fourth = odd.split()
        return first + second + third + fourth


@gluon.jit
def store(total, leave, row, column):
    """Finishes and stores a tile of sums."""
    y = finish(total, leave, row, column, 0).to(leave.out.dtype.element_ty)
    LAYOUT: gl.constexpr = y.type.layout
    m = row + gl.arange(0, y.shape[0], gl.SliceLayout(1, LAYOUT))
    n = column + gl.arange(0, y.shape[1], gl.SliceLayout(0, LAYOUT))
    at = leave.out + m.to(gl.int64)[:, None] * leave.stride + n[None, :]
    gl.store(at, y, mask=(m < leave.M)[:, None] & (n < leave.N)[None, :])


@aggregate
class Source:
    """Where operand tiles come from and where they go.

    A stage has DEEP boxes of WIDTH k each: of rows of A, of COLUMNS columns of B, and of EXTRA further ones.
    """

    a: gl.shared_memory_descriptor
    b: gl.shared_memory_descriptor
    extra: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    row: gl.tensor
    column: gl.tensor
    column_extra: gl.tensor
    WIDTH: gl.constexpr
    DEEP: gl.constexpr
    EXTRA: gl.constexpr
    B_NK: gl.constexpr

    @gluon.jit
    def columns_at(self, desc, column, k, tiles, at, bar, live):
        if self.B_NK:
            tma.async_load(desc, [column, k], bar, tiles.index(at), pred=live)
        else:
            tma.async_load(desc, [k, column], bar, tiles.index(at), pred=live)

    @gluon.jit
    def load(self, a_desc, b_desc, extra_desc, stage, k, live):
        """Asks the copy engine for the stage that begins at k."""
        bar = self.full.index(stage)
        BOX: gl.constexpr = a_desc.block_type.shape[0]
        BYTES: gl.constexpr = a_desc.nbytes_per_cta + b_desc.nbytes_per_cta
        if self.EXTRA:
            mbarrier.expect(bar, (BYTES + extra_desc.nbytes_per_cta) * self.DEEP, pred=live)
        else:
            mbarrier.expect(bar, BYTES * self.DEEP, pred=live)
        for d in gl.static_range(self.DEEP):
            at = stage * self.DEEP + d
            self.columns_at(b_desc, self.column, k + d * self.WIDTH, self.b, at, bar, live)
            if self.EXTRA:
                self.columns_at(extra_desc, self.column_extra, k + d * self.WIDTH, self.extra, at, bar, live)
            tma.async_load(a_desc, [self.row, k + d * self.WIDTH], bar, self.a.index(at).slice(0, BOX, 0), pred=live)

    @gluon.jit
    def columns_of(self, tiles, at):
        """A box of B as the matrix unit takes it: [WIDTH, columns]."""
        tile = tiles.index(at)
        if self.B_NK:
            tile = tile.permute((1, 0))
        return tile


_SIZES = ["M", "N", "K", "stride_cm", "stride_dm", "stride_dn", "stride_bias", "stride_sa", "stride_sb"]


@gluon.jit(do_not_specialize=[*_SIZES, "alpha", "beta"])
def small_kernel(
    a_desc,
    b_desc,
    extra_desc,
    c_ptr,
    d_ptr,
    bias_ptr,
    row_factors,
    column_factors,
    alpha,
    beta,
    M,
    N,
    K,
    stride_cm,
    stride_dm,
    stride_dn,
    stride_bias,
    stride_sa,
    stride_sb,
    ROWS: gl.constexpr,
    COLUMNS: gl.constexpr,
    EXTRA: gl.constexpr,
    STAGES: gl.constexpr,
    DEEP: gl.constexpr,
    B_NK: gl.constexpr,
    PROMOTED: gl.constexpr,
    A_LAYOUT: gl.constexpr,
    FACTORS: gl.constexpr,
    ALPHA: gl.constexpr,
    ADD: gl.constexpr,
    BIAS: gl.constexpr,
    ACTIVATION: gl.constexpr,
):
    """C = activation(alpha·A·B + beta·D + bias), a tile per cluster, each of its programs for a part of k.

    Args:
        a_desc: Descriptor of A; its box may have fewer rows than a tile.
        b_desc: Descriptor of B, or of its transpose (B_NK).
        extra_desc: The same for the EXTRA columns of a tile; None if there are none.
        c_ptr, d_ptr, bias_ptr, row_factors, column_factors: First elements; anything where not used.
    """
    PARTS: gl.constexpr = gl.num_ctas()
    WIDTH: gl.constexpr = a_desc.block_type.shape[1]
    BITS: gl.constexpr = a_desc.dtype.primitive_bitwidth
    STEP: gl.constexpr = WIDTH * DEEP
    columns = gl.cdiv(N, COLUMNS + EXTRA)
    tile = gl.program_id(0)
    column = (tile % columns) * (COLUMNS + EXTRA)
    row = tile // columns * ROWS
    steps = gl.cdiv(K, STEP)
    part = gl.to_tensor(0)
    first = gl.to_tensor(0)
    if PARTS > 1:
        part = program_of_cluster(tile)
        share = gl.cdiv(steps, PARTS)
        first = part * share
        steps = gl.maximum(gl.minimum(share, steps - first), 0)
    a = gl.allocate_shared_memory(a_desc.dtype, [STAGES * DEEP, ROWS, WIDTH], A_LAYOUT)
    b = gl.allocate_shared_memory(
        b_desc.dtype, [STAGES * DEEP, b_desc.block_type.shape[0], b_desc.block_type.shape[1]], b_desc.layout
    )
    extra = b
    if EXTRA > 0:
        extra = gl.allocate_shared_memory(
            b_desc.dtype, [STAGES * DEEP, extra_desc.block_type.shape[0], extra_desc.block_type.shape[1]],
            extra_desc.layout,
        )  # fmt: skip
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
    # In a cluster the tile of B is one for all, spread by columns: the engine adds each program's share to where it
    # reads. All shall read the same columns, at their own k.
    source = Source(  # type: ignore[call-arg]
        a,
        b,
        extra,
        full,
        row,
        column - part * COLUMNS,
        column + COLUMNS - part * EXTRA,
        WIDTH,
        DEEP,
        EXTRA > 0,
        B_NK,
    )
    for stage in gl.static_range(STAGES - 1):
        source.load(a_desc, b_desc, extra_desc, stage, (first + stage) * STEP, stage < steps)
    LAYOUT: gl.constexpr = accumulator(ROWS, COLUMNS, BITS, PARTS)
    total = warpgroup_mma_init(gl.zeros([ROWS, PARTS * COLUMNS], gl.float32, LAYOUT))
    beside = total
    if EXTRA > 0:
        LAYOUT_EXTRA: gl.constexpr = accumulator(ROWS, EXTRA, BITS, PARTS)
        beside = warpgroup_mma_init(gl.zeros([ROWS, PARTS * EXTRA], gl.float32, LAYOUT_EXTRA))
    if PROMOTED:
        total = gl.zeros([ROWS, PARTS * COLUMNS], gl.float32, LAYOUT)
        chain = total
        beside = total
        if EXTRA > 0:
            beside = gl.zeros([ROWS, PARTS * EXTRA], gl.float32, LAYOUT_EXTRA)
        chain_beside = beside
    stage = gl.to_tensor(0)
    phase = gl.to_tensor(0)
    for step in range(steps):
        mbarrier.wait(full.index(stage), phase)
        if PROMOTED:
            for d in gl.static_range(DEEP):
                at = stage * DEEP + d
                early = warpgroup_mma(
                    a.index(at), source.columns_of(b, at), warpgroup_mma_init(chain), use_acc=False, is_async=True
                )
                if EXTRA > 0:
                    late = warpgroup_mma(
                        a.index(at), source.columns_of(extra, at), warpgroup_mma_init(chain_beside), use_acc=False,
                        is_async=True,
                    )  # fmt: skip
                    chain = warpgroup_mma_wait(1, deps=[early])
                    total = total + chain
                    chain_beside = warpgroup_mma_wait(0, deps=[late])
                    beside = beside + chain_beside
                else:
                    chain = warpgroup_mma_wait(0, deps=[early])
                    total = total + chain
        else:
            for d in gl.static_range(DEEP):
                at = stage * DEEP + d
                total = warpgroup_mma(a.index(at), source.columns_of(b, at), total, precision="tf32", is_async=True)
                if EXTRA > 0:
                    beside = warpgroup_mma(
                        a.index(at), source.columns_of(extra, at), beside, precision="tf32", is_async=True
                    )
            if EXTRA > 0:
                x, y = warpgroup_mma_wait(2 * DEEP, deps=[total, beside])
                total = warpgroup_mma_init(x)
                beside = warpgroup_mma_init(y)
            else:
                total = warpgroup_mma_init(warpgroup_mma_wait(DEEP, deps=[total]))
        # The instructions of the stage before this one are done: it can be loaded again.
        ahead = step + STAGES - 1
        before = gl.where(stage == 0, STAGES - 1, stage - 1)
        source.load(a_desc, b_desc, extra_desc, before, (first + ahead) * STEP, ahead < steps)
        wrap = stage == STAGES - 1
        stage = gl.where(wrap, 0, stage + 1)
        phase = gl.where(wrap, phase ^ 1, phase)
    leave = Leave(  # type: ignore[call-arg]
        c_ptr, d_ptr, bias_ptr, row_factors, column_factors, alpha, beta, M, N, stride_cm, stride_dm, stride_dn,
        stride_bias, stride_sa, stride_sb, False, FACTORS, False, False, ALPHA, ADD, BIAS, ACTIVATION,
    )  # fmt: skip
    if EXTRA > 0:
        if PROMOTED:
            x, y = total, beside
        else:
            x, y = warpgroup_mma_wait(0, deps=[total, beside])
        if PARTS > 1:
            x = joined(x, ROWS, COLUMNS, PARTS)
            y = joined(y, ROWS, EXTRA, PARTS)
        store(x, leave, row, column)
        store(y, leave, row, column + COLUMNS)
    else:
        x = total
        if not PROMOTED:
            x = warpgroup_mma_wait(0, deps=[total])
        if PARTS > 1:
            x = joined(x, ROWS, COLUMNS, PARTS)
        store(x, leave, row, column)


@dataclass(frozen=True)
class Cut:
    """How a product of few rows is cut.

    Attributes:
        rows: Rows of a tile, 64 or 128.
        box: Rows of A that are loaded, a power of two from 8 to `rows`.
        columns: Columns of a tile, a power of two from 16 to 256.
        extra: Columns beside them, a power of two from 16 on, or 0: so that there are as many tiles as multiprocessors.
        stages: Stages in shared memory.
        deep: Boxes of 128 bytes of k per stage.
        parts: Parts of k, one per program of a cluster: 1, 2 or 4.
    """

    rows: int
    box: int
    columns: int
    extra: int = 0
    stages: int = 4
    deep: int = 2
    parts: int = 1

    @property
    def stage_bytes(self) -> int:
        """Bytes of shared memory per stage."""
        return self.deep * _LINE * (self.rows + self.columns + self.extra)

    @property
    def shared_memory(self) -> int:
        """Bytes of shared memory of a program, barriers aside."""
        return self.stages * self.stage_bytes


# Bytes of k that a box has: as many as the widest pattern of shared memory.
_LINE = 128


@functools.cache
def _layout(shape: tuple[int, int], dtype: Any, parts: int, axis: int | None) -> Any:
    return gl.NVMMASharedLayout.get_default_for(list(shape), dtype, cga_layout=_bases(parts, 2, axis))


def launch(
    a: Any,
    b: Any,
    out: Any,
    cut: Cut,
    *,
    K: int,
    b_axis: int = 0,
    epilogue: Epilogue | None = None,
    promoted: bool = False,
) -> None:
    """Computes a product on the GPU of its operands.

    Args:
        a: (M, K) matrix, contiguous along k, as the copy engine reads it.
        b: (K, N) matrix, likewise along `b_axis`.
        out: (M, N) result with contiguous rows, of any alignment.
        cut: How to cut it.
        K: Products per sum.
        b_axis: b's contiguous axis; 1 for 16-bit types only.
        epilogue: What happens to the sums.
        promoted: Whether sums over 128 bytes of k are added up in fp32.
    """
    epilogue = Epilogue() if epilogue is None else epilogue
    M, N = out.shape
    dtype, width = gluon_type(a), _LINE // a.element_size()
    c = epilogue.addend
    bias = epilogue.bias
    along_c = (0, 0) if c is None else strides_of(c, "c")

    def columns(count: int) -> Any:
        if count == 0:
            return None
        shape = (cut.parts * count, width) if b_axis == 0 else (width, cut.parts * count)
        layout = _layout(shape, dtype, cut.parts, b_axis)
        return descriptor(b.t() if b_axis == 0 else b, list(shape), layout)

    launches.launch(
        small_kernel,
        (-(-M // cut.rows) * -(-N // (cut.columns + cut.extra)),),
        descriptor(a, [cut.box, width], _layout((cut.box, width), dtype, cut.parts, None)),
        columns(cut.columns),
        columns(cut.extra),
        out,
        out if c is None else c,
        out if bias is None else bias,
        out if epilogue.scale_a is None else epilogue.scale_a,
        out if epilogue.scale_b is None else epilogue.scale_b,
        float(epilogue.alpha),
        float(epilogue.beta),
        M,
        N,
        K,
        out.stride(0),
        *along_c,
        0 if bias is None else strides_of(bias, "bias")[0],
        along_scales(epilogue.scale_a, 0),
        along_scales(epilogue.scale_b, 1),
        ROWS=cut.rows,
        COLUMNS=cut.columns,
        EXTRA=cut.extra,
        STAGES=cut.stages,
        DEEP=cut.deep,
        B_NK=b_axis == 0,
        PROMOTED=promoted,
        A_LAYOUT=_layout((cut.rows, width), dtype, cut.parts, None),
        FACTORS=epilogue.scale_a is not None,
        **epilogue.flags,
        num_warps=cut.rows // 16,
        num_ctas=cut.parts,
        enable_fp_fusion=True,
    )


# Rows up to which the kernel is the fastest, and up to which it is where tiles of `warp_specialised` do not fit N.
_FEW_ROWS, _MOST_ROWS = 64, 128
# Columns of a tile of `warp_specialised` for that many rows.
_COLUMNS = 64
_LEAST_WEIGHTS = 1 << 20
# Of 227 KiB, what barriers and the compiler leave; of the half of 228 that two programs of a multiprocessor have.
_SHARED, _SHARED_BY_TWO = 227 * 1024 - 1024, 112 * 1024
_MOST_STAGES = 8

# Bytes per clock, measured on an H200: what one multiprocessor gets through its copy engine, what all get from the L2
# cache together, what all get from memory. Clocks that begin and end a tile, and that it takes to join two parts.
_ENGINE_BYTES, _CACHE_BYTES, _MEMORY_BYTES = 46, 4670, 2390
_TILE_CLOCKS, _JOIN_CLOCKS = 5000, 1500


def cut_of(config: Config, M: int, N: int, operand_bytes: int, processors: int) -> Cut:
    """How a configuration cuts a product; no bit depends on what the sizes decide here.

    Args:
        config: The configuration: a tile's rows and columns, the depth of a stage, stages, parts.
        M: Rows of the product.
        N: Its columns.
        operand_bytes: Bytes of an element.
        processors: Multiprocessors of the GPU.
    """
    box = min(config.block_m, max(16, 1 << (M - 1).bit_length()))
    deep = config.block_k * operand_bytes // _LINE
    extra = _extra(N, config.block_n, config.splits, processors)
    return Cut(config.block_m, box, config.block_n, extra, config.stages, deep, config.splits)


def _extra(N: int, columns: int, parts: int, processors: int) -> int:
    """Columns to add to those of a tile, so that no multiprocessor has a program more than others; or 0.

    Each has one program then; if that is not to be had and there are parts of k, as many as there are parts.
    """
    for most in (processors // parts, processors):
        for extra in (0, 16, 32, 64):
            if extra < columns and -(-N // (columns + extra)) <= most:
                return extra
    return 0


def _configurations(
    M: int, N: int, operand_bytes: int, processors: int, parts: tuple[int, ...], widest: int = 256
) -> list[Config]:
    """Tiles of every width up to the widest, with as many stages as fit."""
    found = []
    # Deeper stages mean fewer barriers; shallow ones leave less of the shared memory unused where tiles are large.
    rows, deep = (64, 2) if M <= 64 else (128, 1)
    for splits in parts:
        for columns in (n for n in (32, 64, 128, 256) if n <= widest):
            config = Config(
                kernel=NAME if splits == 1 else SPLIT_NAME, block_m=rows, block_n=columns,
                block_k=deep * _LINE // operand_bytes, warps=rows // 16, stages=1, splits=splits,
            )  # fmt: skip
            cut = cut_of(config, M, N, operand_bytes, processors)
            room = _SHARED if _programs(cut, M, N) <= processors else _SHARED_BY_TWO
            if 2 * cut.stage_bytes <= room:
                found.append(config.changed(stages=min(_MOST_STAGES, room // cut.stage_bytes)))
    return found


def _programs(cut: Cut, M: int, N: int) -> int:
    return -(-M // cut.rows) * -(-N // (cut.columns + cut.extra)) * cut.parts


def _clocks(config: Config, M: int, N: int, K: int, operand_bytes: int, processors: int) -> float:
    """A product's estimated time: the slowest of multiprocessors, cache and memory, and what tiles take besides."""
    cut = cut_of(config, M, N, operand_bytes, processors)
    tiles = _programs(cut, M, N)
    waves = -(-tiles // processors)
    read = K // cut.parts * (cut.box + cut.columns + cut.extra) * operand_bytes
    memory = (M + N) * K * operand_bytes / _MEMORY_BYTES
    # Two programs with a part each begin and end together on one multiprocessor.
    besides = waves * _TILE_CLOCKS if cut.parts == 1 else _TILE_CLOCKS + _JOIN_CLOCKS
    return max(waves * read / _ENGINE_BYTES, tiles * read / _CACHE_BYTES, memory) + besides


def _best(
    M: int, N: int, K: int, operand_bytes: int, processors: int, parts: tuple[int, ...], widest: int = 256
) -> Config:
    tried = _configurations(M, N, operand_bytes, processors, parts, widest)
    return min(tried, key=lambda c: _clocks(c, M, N, K, operand_bytes, processors))


def _chosen(operands: Operands, parts: tuple[int, ...]) -> Config:
    processors = multiprocessors(operands.out.device.index)
    widest = KINDS[operands.mode.name, operands.types[0]].block_n
    return _best(operands.M, operands.N, operands.K, operands.a.element_size(), processors, parts, widest)


def configure(operands: Operands) -> Config:
    """The configuration of one chain per sum with the least estimated time."""
    return _chosen(operands, (1,))


def configure_split(operands: Operands) -> Config:
    """The configuration of one or two parts with the least estimated time."""
    return _chosen(operands, _parts(operands.M))


def _parts(M: int) -> tuple[int, ...]:
    """Numbers of parts to choose from: four cost more than they gain, and more rows than few gain by two."""
    return (1, 2) if M <= _FEW_ROWS else (2,)


def _wanted(config: Config, M: int, N: int, operand_bytes: int, processors: int) -> bool:
    """Whether a product goes to this kernel if nobody names one."""
    if M <= _FEW_ROWS:
        return True
    # A tile of `warp_specialised` for each multiprocessor, or nearly, is as fast, and for more rows it is faster.
    if M > _MOST_ROWS or processors * 3 // 4 <= -(-N // _COLUMNS) <= processors:
        return False
    return config.splits > 1 or cut_of(config, M, N, operand_bytes, processors).extra > 0


def _kind(operands: Operands) -> Kind | None:
    """How the product's mode uses the tensor core, if in chains of any length or of a box's, and it can be stored."""
    kind = KINDS.get((operands.mode.name, operands.types[0]))
    if kind is None or kind.rounded or operands.types[0] != operands.types[1]:
        return None
    if kind.promoted and kind.block_k != _LINE:
        return None
    if operands.K == 0 or operands.out.stride(-1) != 1 or str(operands.out.dtype) == "torch.float64":
        return None
    return kind if operands.a.ndim == 2 else None


def _goes_here(operands: Operands, parts: tuple[int, ...]) -> bool:
    """Whether a product that names no kernel is computed here, with numbers of parts to choose from."""
    kind = _kind(operands)
    if kind is None or kind.promoted or operands.M > _MOST_ROWS or operands.N * operands.K < _LEAST_WEIGHTS:
        return False
    if contiguous_axis(operands.b) not in ((0, 1) if kind.any_axis else (0,)):
        return False
    config, processors = _chosen(operands, parts), multiprocessors(operands.out.device.index)
    wanted = _wanted(config, operands.M, operands.N, operands.a.element_size(), processors)
    return wanted and (parts == (1,) or config.splits > 1)


def supports(operands: Operands, config: Config | None) -> bool:
    """Whether the kernel takes a product: chains on the tensor core; of few rows and much of B, if not by name.

    Args:
        operands: The product.
        config: The configuration; None for one of the kernel's own.
    """
    if config is None:
        return _goes_here(operands, (1,))
    kind = _kind(operands)
    if kind is None:
        return False
    size = operands.a.element_size()
    processors = multiprocessors(operands.out.device.index)
    return (
        config.block_m in (64, 128)
        and config.block_n <= kind.block_n
        and config.block_k * size % _LINE == 0
        and config.block_k * size <= 4 * _LINE
        and config.stages >= 2
        and config.ctas == 1
        and config.splits == 1
        and cut_of(config, operands.M, operands.N, size, processors).shared_memory <= _SHARED
    )


def supports_split(operands: Operands, config: Config | None) -> bool:
    """Whether the kernel takes a product with k cut into parts; without a configuration, where it gains by that."""
    if config is None:
        return _goes_here(operands, _parts(operands.M))
    if config.splits not in (1, 2, 4) or not supports(operands, config.changed(splits=1)):
        return False
    return -(-operands.K // config.block_k) >= config.splits


def split_bits(operands: Operands, config: Config) -> str:
    """The class of equal bits: that of the mode for one part."""
    if config.splits == 1:
        return ""
    steps = -(-operands.K // config.block_k)
    share = -(-steps // config.splits) * config.block_k
    kind = KINDS[operands.mode.name, operands.types[0]]
    each = "chains" if not kind.promoted else f"sums promoted every {kind.block_k}"
    return f"{each} over {share} of k, added in ascending order in fp32"


def run(operands: Operands, config: Config) -> None:
    """Computes a product."""
    a, b, out = operands.a, operands.b, operands.out
    kind = _kind(operands)
    assert kind is not None
    left, _ = readable(a, 1)
    right, b_axis = readable(b, None if kind.any_axis else 0)
    cut = cut_of(config, operands.M, operands.N, a.element_size(), multiprocessors(out.device.index))
    epilogue = operands.epilogue
    launch(
        left, right, out, cut,
        K=operands.K, b_axis=b_axis, epilogue=epilogue, promoted=kind.promoted,
    )  # fmt: skip


__all__ = ["NAME", "SPLIT_NAME", "Cut", "configure", "configure_split", "cut_of", "launch", "run", "small_kernel"]
