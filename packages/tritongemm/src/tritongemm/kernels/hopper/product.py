"""The warp-specialised kernel: one entry for all orders of summation."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from tritongemm.kernels.hopper.consumers import consume
from tritongemm.kernels.hopper.cutting import Cutting
from tritongemm.kernels.hopper.pipeline import Exit, Tiles, load_tiles, make_ring

_SIZES = [
    "M",
    "N",
    "K",
    "a_rows",
    "b_rows",
    "share",
    "batch",
    "stride_cp",
    "stride_dp",
    "stride_cm",
    "stride_dm",
    "stride_dn",
    "stride_bias",
    "stride_sa",
    "stride_sb",
    "step_sa",
    "step_sb",
    "gate_value",
    "first_row",
    "cutters",
    "stride_x",
    "pitch",
    "part",
]


@gluon.jit(do_not_specialize=[*_SIZES, "alpha", "beta"])
def product_kernel(
    a_desc,
    b_desc,
    c_desc,
    c_ptr,
    d_ptr,
    bias_ptr,
    row_factors,
    column_factors,
    row_exponents,
    column_exponents,
    gate_ptr,
    x_ptr,
    parts_ptr,
    cut_exponents,
    energy_ptr,
    small_ptr,
    ready_ptr,
    gate_value,
    alpha,
    beta,
    M,
    N,
    K,
    a_rows,
    b_rows,
    share,
    batch,
    stride_cp,
    stride_cm,
    stride_dp,
    stride_dm,
    stride_dn,
    stride_bias,
    stride_sa,
    stride_sb,
    step_sa,
    step_sb,
    first_row,
    cutters,
    stride_x,
    pitch,
    part,
    ORDER: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    GROUP_M: gl.constexpr,
    STAGES: gl.constexpr,
    PARTS: gl.constexpr,
    GROUPS: gl.constexpr,
    A_MK: gl.constexpr,
    B_NK: gl.constexpr,
    UNROLL: gl.constexpr,
    PRECISION: gl.constexpr,
    C_LAYOUT: gl.constexpr,
    BUFFERS: gl.constexpr,
    HALVINGS: gl.constexpr,
    TMA: gl.constexpr,
    SCALED: gl.constexpr,
    FACTORS: gl.constexpr,
    BLOCKS: gl.constexpr,
    ALPHA: gl.constexpr,
    ADD: gl.constexpr,
    BIAS: gl.constexpr,
    ACTIVATION: gl.constexpr,
    GATED: gl.constexpr,
    SPLIT: gl.constexpr,
    PIECES: gl.constexpr,
    TRANSPOSED: gl.constexpr,
    FOLDED: gl.constexpr,
    BATCHED: gl.constexpr,
):
    """C = activation(alpha·A·B + beta·D + bias), tile by tile, if gate_ptr holds gate_value or GATED is false.

    Args:
        a_desc: Descriptor of A, its parts below each other every a_rows rows.
        b_desc: Descriptor of B, likewise every b_rows rows.
        share: Steps over k per part, if SPLIT: each part is a result of its own, stride_cp elements apart.
        batch: Matrices, if BATCHED: descriptors then are those of batches, and matrices stride_cp and stride_dp apart.
        c_desc: Descriptor of C, None unless TMA.
        c_ptr, d_ptr, bias_ptr, row_factors, column_factors, row_exponents, column_exponents, gate_ptr: First elements;
            anything where not used.
        TRANSPOSED: The tiles are those of C's transpose: B and A change places, and blocks lie in its rows and columns.
        FOLDED: Whether the order of summation leaves rows of sums in the order of `pipeline.unfolded`.
        ORDER: Name of one of the functions of `consumers`.
        x_ptr, parts_ptr, cut_exponents, energy_ptr, small_ptr, ready_ptr, first_row, stride_x, pitch, part,
            PIECES: See `Cutting`; anything if PIECES is 0.
        cutters: Programs that cut rows of A, those with the lowest numbers.
    """
    if PIECES > 0:
        # What was launched before may still be at work. Programs that cut tell the next kernel by their end.
        gdc_wait()
        if gl.program_id(0) >= cutters:
            gdc_launch_dependents()
    if TRANSPOSED:
        rows = gl.cdiv(N, BLOCK_M)
        columns = gl.cdiv(M, BLOCK_N)
    else:
        rows = gl.cdiv(M, BLOCK_M)
        columns = gl.cdiv(N, BLOCK_N)
    steps = gl.cdiv(K, BLOCK_K)
    count = rows * columns
    if SPLIT:
        count = count * gl.cdiv(steps, share)
    if BATCHED:
        count = count * batch
    if GATED:
        count = gl.where(gl.load(gate_ptr) == gate_value, count, 0)
    begin = gl.program_id(0)
    stride = gl.num_programs(0)
    if PIECES > 0:
        begin = gl.where(begin < cutters, count, begin - cutters)
        stride -= cutters
    tiles = Tiles(rows, columns, steps, count, share, begin, stride, GROUP_M, SPLIT, BATCHED, UNROLL)  # type: ignore[call-arg]
    cutting = Cutting(  # type: ignore[call-arg]
        x_ptr, parts_ptr, cut_exponents, energy_ptr, small_ptr, ready_ptr, first_row, M, K, stride_x, pitch, part,
        cutters, PIECES,
    )  # fmt: skip
    ring = make_ring(a_desc, b_desc, STAGES, PARTS, GROUPS, A_MK, B_NK)
    HEIGHT: gl.constexpr = BLOCK_N >> HALVINGS if TRANSPOSED else BLOCK_M // GROUPS
    WIDTH: gl.constexpr = BLOCK_M // GROUPS if TRANSPOSED else BLOCK_N >> HALVINGS
    buffers = gl.allocate_shared_memory(c_ptr.dtype.element_ty, [GROUPS * BUFFERS, HEIGHT, WIDTH], C_LAYOUT)
    leave = Exit(  # type: ignore[call-arg]
        buffers, c_ptr, d_ptr, bias_ptr, row_factors, column_factors, row_exponents, column_exponents, alpha, beta, M,
        N, stride_cm, stride_cp, stride_dp, stride_dm, stride_dn, stride_bias, stride_sa, stride_sb, step_sa, step_sb,
        SCALED, FACTORS, BLOCKS, ALPHA, ADD, BIAS, ACTIVATION, TMA, BUFFERS, HALVINGS, TRANSPOSED, FOLDED, BATCHED,
    )  # fmt: skip
    # The tuples stand where they are used: the front end would turn a string in an assigned tuple into a tensor.
    if GROUPS == 2:
        # 128·(240 + 240) + 128·24 registers are the 168 per thread that the kernel starts with.
        gl.warp_specialize(
            [
                (consume, (0, c_desc, ring, tiles, leave, cutting, BLOCK_M, BLOCK_N, PRECISION, ORDER)),
                (consume, (1, c_desc, ring, tiles, leave, cutting, BLOCK_M, BLOCK_N, PRECISION, ORDER)),
                (load_tiles, (a_desc, b_desc, ring, tiles, cutting, a_rows, b_rows, BLOCK_M, BLOCK_N, BLOCK_K)),
            ],
            [4, 1],
            [240, 24],
        )
    else:
        gl.warp_specialize(
            [
                (consume, (0, c_desc, ring, tiles, leave, cutting, BLOCK_M, BLOCK_N, PRECISION, ORDER)),
                (load_tiles, (a_desc, b_desc, ring, tiles, cutting, a_rows, b_rows, BLOCK_M, BLOCK_N, BLOCK_K)),
            ],
            [1],
            [24],
        )
