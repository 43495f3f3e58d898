"""fp32 products without matrix units: one outer product per k, every output one serial chain of fused multiply-adds.

**Summation order.** One chain over k in ascending order, K padded with zeros to a multiple of BLOCK_K: that of
`blocked` with `input_precision="ieee"` and of cuBLAS's SGEMM, bit for bit, whatever the tile.

**Bound.** gamma_K·sum|p|.

**How.** Two consumers of four warps own half of a tile each and wait for nobody but the producer, so that one
multiplies while the other changes stages or stores. A thread owns 16 x 8 outputs as 4 x 4 blocks: the 24 numbers of a k
come as six 16-byte loads from shared memory for 128 multiply-adds. Both operands lie there with rows of one k, as the
copy engine brings them if they are contiguous along m and n; others are transposed beforehand (1 % of the time).

**What the numbers mean.** The multipliers' registers are the limit, then the issue slots. A multiply-add reads three
registers, but the register file gives two per clock, one from each of two banks; the third must be left from the
instruction before. With the sums in the right order that holds for nine of ten; in the order that the assembler chooses
for a long loop it held for seven of ten, and cost the kernel before this one 0.92 of the library's speed.
"""

from __future__ import annotations

from typing import Any

from triton import aggregate
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

from tritongemm import launches
from tritongemm.configurations import Config
from tritongemm.elements import strides_of
from tritongemm.kernels.hopper.matrices import descriptor, multiprocessors, readable
from tritongemm.kernels.hopper.pipeline import Ring, activated
from tritongemm.kernels.hopper.warp_specialised import products
from tritongemm.kernels.problems import Operands

NAME = "simt"
_PLAIN = gl.constexpr(gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=2))
# Strides are told to the compiler: rows of D that it knows to be contiguous take few registers, so that the sums may
# stay where the loop over k wants them.
_SIZES = ["M", "N", "pairs", "stride_bias"]


@aggregate
class Tiles:
    """The tiles of the result, numbered so that GROUP rows of tiles share their columns of B in the cache."""

    rows: gl.tensor
    columns: gl.tensor
    steps: gl.tensor
    GROUP: gl.constexpr

    @gluon.jit
    def place(self, tile):
        """Row and column of a tile, in tiles."""
        group = tile // (self.GROUP * self.columns)
        first = group * self.GROUP
        height = gl.minimum(self.rows - first, self.GROUP)
        inside = tile - group * self.GROUP * self.columns
        return first + inside % height, inside // height


@aggregate
class Exit:
    """Where results go and what happens to them: `out`, and beta·`add` and `bias` with their strides."""

    out: gl.tensor
    add: gl.tensor
    bias: gl.tensor
    alpha: gl.tensor
    beta: gl.tensor
    M: gl.tensor
    N: gl.tensor
    stride: gl.tensor
    add_stride_m: gl.tensor
    add_stride_n: gl.tensor
    bias_stride: gl.tensor
    ALPHA: gl.constexpr
    ADD: gl.constexpr
    BIAS: gl.constexpr
    ACTIVATION: gl.constexpr


@gluon.constexpr_function
def sums_layout(ROWS, COLUMNS):
    """Which outputs a thread owns.

    Neighbouring lanes take neighbouring blocks of rows, so that pairs of lanes load the same numbers of B, and every
    other pair the same numbers of A: the load unit then serves 16 lanes at once.

    A thread's rows come first: in the order of its registers one number of B is multiplied with 16 of A, and stays in
    the operand cache of the multiplier, which otherwise could not read three registers per clock.
    """
    registers = [[m, 0] for m in (1, 2, 16, 32)] + [[0, n] for n in (1, 2, 32)]
    lanes = [[4, 0], [0, 4], [0, 8], [0, 16], [8, 0]]
    return gl.DistributedLinearLayout(registers, lanes, [[0, 64], [0, 128]], [], [ROWS, COLUMNS])


@gluon.jit
def outer_product(x, y, total):
    """total + x·y for a column x and a row y, fused."""
    x, _ = gl.broadcast(x, total)
    y, _ = gl.broadcast(y, total)
    return gl.fma(x, y, total)


@gluon.jit
def fragments(ring, k, group: gl.constexpr, SUMS: gl.constexpr):
    """The numbers of A and of B that a thread needs for row k of the ring."""
    ROWS: gl.constexpr = ring.a.shape[2] // 2
    x = ring.a.index(k).slice(group * ROWS, ROWS, 1).permute((1, 0)).load(SUMS)
    return x, ring.b.index(k).load(SUMS)


@gluon.jit
def consume(group: gl.constexpr, ring, tiles, leave, pairs, BLOCK_K: gl.constexpr):
    """Half of every tile: rows from group·ROWS on.

    The numbers of the next k are loaded before those of this k are multiplied, across stages too. The loop takes two k
    at a time, so that they need not be moved between registers, and no more: two consumers with 30 KB of instructions
    each evict each other's from the cache (half the speed), and in a long stretch of code the assembler orders
    multiply-adds so that every third waits for its registers.

    Args:
        pairs: BLOCK_K / 2, as a number that the compiler does not know: it would unroll the loop.
    """
    ROWS: gl.constexpr = ring.a.shape[2] // 2
    COLUMNS: gl.constexpr = ring.b.shape[2]
    SUMS: gl.constexpr = sums_layout(ROWS, COLUMNS)
    stage = gl.to_tensor(0)
    phase = gl.to_tensor(0)
    for tile in range(gl.program_id(0), tiles.rows * tiles.columns, gl.num_programs(0)):
        tile_m, tile_n = tiles.place(tile)
        total = gl.zeros([ROWS, COLUMNS], gl.float32, SUMS)
        ring.wait_full(stage, phase)
        x, y = fragments(ring, stage * BLOCK_K, group, SUMS)
        for step in range(tiles.steps):
            for pair in range(pairs - 1):
                k = stage * BLOCK_K + 2 * pair
                next_x, next_y = fragments(ring, k + 1, group, SUMS)
                total = outer_product(x, y, total)
                x, y = fragments(ring, k + 2, group, SUMS)
                total = outer_product(next_x, next_y, total)
            next_x, next_y = fragments(ring, stage * BLOCK_K + BLOCK_K - 1, group, SUMS)
            total = outer_product(x, y, total)
            # The stage before: a barrier does not wait for what was just asked of this one, and the copy engine might
            # overwrite it first. What was read from that one has been multiplied.
            ring.free(ring.previous(stage), step > 0)
            stage, phase = ring.next(stage, phase)
            if step + 1 < tiles.steps:
                ring.wait_full(stage, phase)
            # After the last step these are numbers of some other stage, which nothing multiplies.
            x, y = fragments(ring, stage * BLOCK_K, group, SUMS)
            total = outer_product(next_x, next_y, total)
        ring.free(ring.previous(stage), True)
        row = (tile_m * 2 + group) * ROWS
        # In four pieces: a thread that holds all sums has few registers left for addends and addresses.
        upper, lower = total.reshape(2, ROWS // 2, COLUMNS).permute(1, 2, 0).split()
        halves = (upper, lower)
        for i in gl.static_range(2):
            first, second = halves[i].reshape(2, ROWS // 4, COLUMNS).permute(1, 2, 0).split()
            store(first, leave, row + i * (ROWS // 2), tile_n * COLUMNS)
            store(second, leave, row + i * (ROWS // 2) + ROWS // 4, tile_n * COLUMNS)


@gluon.jit
def store(total, leave, row, column):
    """Scales, adds, activates and stores finished sums."""
    LAYOUT: gl.constexpr = total.type.layout
    m = row + gl.arange(0, total.shape[0], gl.SliceLayout(1, LAYOUT))
    n = column + gl.arange(0, total.shape[1], gl.SliceLayout(0, LAYOUT))
    live = (m < leave.M)[:, None] & (n < leave.N)[None, :]
    total = total + 0.0  # -0 becomes +0: what is left does not depend on how many zero products K was padded with
    zero = gl.zeros(total.shape, gl.float32, LAYOUT)
    if leave.BIAS:
        bias = gl.load(leave.bias + n * leave.bias_stride, mask=n < leave.N, other=0.0).to(gl.float32)[None, :]
        if leave.ALPHA:
            total = gl.fma(total, zero + leave.alpha, zero + bias)
        else:
            total = total + bias
    elif leave.ALPHA:
        total = total * leave.alpha
    if leave.ADD:
        at = leave.add + m.to(gl.int64)[:, None] * leave.add_stride_m + n.to(gl.int64)[None, :] * leave.add_stride_n
        total = gl.fma(gl.load(at, mask=live, other=0.0).to(gl.float32), zero + leave.beta, total)
    total = activated(total, leave.ACTIVATION)
    at = leave.out + m.to(gl.int64)[:, None] * leave.stride + n[None, :]
    gl.store(at, total.to(leave.out.dtype.element_ty), mask=live)


@gluon.jit
def load(a_desc, b_desc, a, b, ring, tiles):
    """The producer warp: every stage of every tile, in the consumers' order."""
    BLOCK_K: gl.constexpr = a.shape[1]
    BLOCK_M: gl.constexpr = a.shape[2]
    BLOCK_N: gl.constexpr = b.shape[2]
    stage = gl.to_tensor(0)
    phase = gl.to_tensor(0)
    for tile in range(gl.program_id(0), tiles.rows * tiles.columns, gl.num_programs(0)):
        tile_m, tile_n = tiles.place(tile)
        for step in range(tiles.steps):
            mbarrier.wait(ring.empty.index(stage), phase ^ 1)
            bar = ring.full.index(stage)
            mbarrier.expect(bar, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
            tma.async_load(a_desc, [step * BLOCK_K, tile_m * BLOCK_M], bar, a.index(stage))
            tma.async_load(b_desc, [step * BLOCK_K, tile_n * BLOCK_N], bar, b.index(stage))
            stage, phase = ring.next(stage, phase)


@gluon.jit(do_not_specialize=[*_SIZES, "alpha", "beta"])
def simt_kernel(
    a_desc,
    b_desc,
    out_ptr,
    d_ptr,
    bias_ptr,
    M,
    N,
    K,
    pairs,
    stride_om,
    stride_dm,
    stride_dn,
    stride_bias,
    alpha,
    beta,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    GROUP_M: gl.constexpr,
    STAGES: gl.constexpr,
    ALPHA: gl.constexpr,
    ADD: gl.constexpr,
    BIAS: gl.constexpr,
    ACTIVATION: gl.constexpr,
):
    """out = activation(alpha·A·B + beta·D + bias), rows of out contiguous.

    Args:
        a_desc: Descriptor of A's transpose, in tiles [BLOCK_K, BLOCK_M].
        b_desc: Descriptor of B, in tiles [BLOCK_K, BLOCK_N].
        pairs: BLOCK_K / 2.
    """
    tiles = Tiles(gl.cdiv(M, BLOCK_M), gl.cdiv(N, BLOCK_N), gl.cdiv(K, BLOCK_K), GROUP_M)  # type: ignore[call-arg]
    leave = Exit(  # type: ignore[call-arg]
        out_ptr, d_ptr, bias_ptr, alpha, beta, M, N, gl.to_tensor(stride_om), gl.to_tensor(stride_dm),
        gl.to_tensor(stride_dn), stride_bias, ALPHA, ADD, BIAS, ACTIVATION,
    )  # fmt: skip
    a = gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK_K, BLOCK_M], _PLAIN)
    b = gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK_K, BLOCK_N], _PLAIN)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    for stage in gl.static_range(STAGES):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(empty.index(stage), count=2)
    # Consumers see rows of one k.
    ring = Ring(  # type: ignore[call-arg]
        a.reinterpret(gl.float32, [STAGES * BLOCK_K, 1, BLOCK_M], _PLAIN),
        b.reinterpret(gl.float32, [STAGES * BLOCK_K, 1, BLOCK_N], _PLAIN),
        full, empty, empty, STAGES, 1, 2, False, False,
    )  # fmt: skip
    # 128·(240 + 240) + 128·24 registers are the 168 per thread that the kernel starts with.
    gl.warp_specialize(
        [
            (consume, (0, ring, tiles, leave, pairs, BLOCK_K)),
            (consume, (1, ring, tiles, leave, pairs, BLOCK_K)),
            (load, (a_desc, b_desc, a, b, ring, tiles)),
        ],
        [4, 1],
        [240, 24],
    )


def configure(operands: Operands) -> Config:
    """The one tile that fills the registers."""
    return Config(kernel=NAME, block_m=128, block_n=256, block_k=32, group_m=8, warps=8, stages=4)


# Bytes of shared memory for stages; the rest of 227 KiB is for barriers and the compiler.
_SHARED = 226 * 1024
# Fewer tiles than multiprocessors leave some of them idle, and smaller tiles of other kernels win.
_LEAST_TILES = 96


def supports(operands: Operands, config: Config | None) -> bool:
    """Whether the kernel takes a product: fp32, `ieee`, enough tiles, a result with contiguous rows."""
    if operands.mode.name != "ieee" or operands.types != ("fp32", "fp32") or operands.K == 0:
        return False
    if operands.out.stride(-1) != 1 or str(operands.out.dtype) == "torch.float64":
        return False
    if operands.epilogue.scale_a is not None:
        return False
    if config is not None:
        shape = (config.block_m, config.block_n, config.warps, config.splits, config.ctas)
        # Of two stages one is read while the other, given back a stage later, is filled.
        return shape == (128, 256, 8, 1, 1) and config.stages >= 2 and config.stages * _stage(config) <= _SHARED
    return operands.batch == 1 and -(-operands.M // 128) * -(-operands.N // 256) >= _LEAST_TILES


def _stage(config: Config) -> int:
    """Bytes of a stage."""
    return (config.block_m + config.block_n) * config.block_k * 4


def run(operands: Operands, config: Config) -> None:
    """Computes a product or a batch of them."""
    for a, b, out, epilogue in products(operands):
        launch(readable(a, 0)[0], readable(b, 1)[0], out, epilogue, config)


def launch(a: Any, b: Any, out: Any, epilogue: Any, config: Config) -> None:
    """Starts `simt_kernel`.

    Args:
        a: (M, K) matrix that the copy engine can read along m.
        b: (K, N) matrix that the copy engine can read along n.
        out: (M, N) result with contiguous rows.
        epilogue: What happens to the sums.
        config: How to cut the product.
    """
    (M, K), N = a.shape, b.shape[1]
    c = epilogue.addend
    bias = epilogue.bias
    tiles = -(-M // config.block_m) * -(-N // config.block_n)
    launches.launch(
        simt_kernel,
        (min(tiles, multiprocessors(out.device.index)),),
        descriptor(a.t(), [config.block_k, config.block_m], _PLAIN.value),
        descriptor(b, [config.block_k, config.block_n], _PLAIN.value),
        out,
        out if c is None else c,
        out if bias is None else bias,
        M,
        N,
        K,
        config.block_k // 2,
        out.stride(0),
        *((0, 0) if c is None else strides_of(c, "c")),
        0 if bias is None else strides_of(bias, "bias")[0],
        float(epilogue.alpha),
        float(epilogue.beta),
        BLOCK_M=config.block_m,
        BLOCK_N=config.block_n,
        BLOCK_K=config.block_k,
        GROUP_M=config.group_m,
        STAGES=config.stages,
        **epilogue.flags,
        num_warps=4,
        maxnreg=168,
        enable_fp_fusion=True,
    )
