"""Cuts rows of A into int8 digits while other programs multiply.

A product of 2048 tiles takes 16 rounds of 128 multiprocessors and as many of 132. The four that the last round leaves
idle cut rows of A instead, in the order in which the others need them: the memory, which a product hardly uses, works
at the same time as the matrix unit. A counter per row of tiles says how many of its rows are cut; the loading warp of a
tile waits for all of them. Programs that cut have the lowest numbers and wait for nothing, so nobody waits in vain.
"""

from __future__ import annotations

from triton import aggregate
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from tritongemm.kernels.hopper.splitting import (
    _ROW_OF_ZEROS,
    exponent_for,
    finite_part,
    flag_of,
    neighbours,
    shift_for,
    store_digits,
)

PIECE = 1024
"""Numbers of a row that a warpgroup has in one tensor; a row is held in registers, in several of them."""

_PIECE = gl.constexpr(PIECE)


@aggregate
class Cutting:
    """What is cut by whom.

    Attributes:
        x: A's first number, `stride` numbers between rows, K of them in a row, both multiples of 16.
        parts: Where parts go, four int8 digits as one int32 word, `pitch` words between rows, `part` between the parts
            of a number.
        exponents: As `parts.Parts`, like `energy` and `small`.
        ready: Rows that are cut, per row of tiles from the one of row `first` on.
        first: Rows before it are cut already.
        M: Rows.
        programs: How many programs cut.
        PIECES: Pieces of a row; 0 if nothing is cut.
    """

    x: gl.tensor
    parts: gl.tensor
    exponents: gl.tensor
    energy: gl.tensor
    small: gl.tensor
    ready: gl.tensor
    first: gl.tensor
    M: gl.tensor
    K: gl.tensor
    stride: gl.tensor
    pitch: gl.tensor
    part: gl.tensor
    programs: gl.tensor
    PIECES: gl.constexpr

    @gluon.jit
    def wait_for(self, tile_m, BM: gl.constexpr):
        """Waits until all rows of a row of tiles are cut, and lets the copy engine see them."""
        if self.PIECES > 0:
            row = tile_m * BM
            wanted = gl.where(row >= self.first, gl.minimum(BM, self.M - row), 0)
            while gl.load(self.ready + tile_m, volatile=True) < wanted:
                pass
            gl.inline_asm("fence.acq_rel.gpu; fence.proxy.async.global;", "~{memory}")


@gluon.jit
def cut_digits(xs, shift, r, live, parts, pitch, part):
    """Stores the digits of rows' pieces; the rows' energies.

    A thread's numbers are neighbours, so that words are made without an exchange, in a layout of their own.
    """
    for p in gl.static_range(len(xs)):
        x0, x1, x2, x3 = neighbours(xs[p])
        if p == 0:
            LAYOUT: gl.constexpr = x0.type.layout
            rows = gl.convert_layout(r, gl.SliceLayout(1, LAYOUT))
            there = gl.convert_layout(live, gl.SliceLayout(1, LAYOUT))
            shifts = gl.convert_layout(shift, gl.SliceLayout(1, LAYOUT))
            words = gl.arange(0, x0.shape[1], gl.SliceLayout(0, LAYOUT))
            at = parts + rows.to(gl.int64)[:, None] * pitch
            squares = gl.zeros(x0.shape, gl.int32, LAYOUT)
        w = words + p * x0.shape[1]
        stored = there[:, None] & (w < pitch)[None, :]
        squares += store_digits(x0, x1, x2, x3, shifts[:, None], at + w[None, :], part, stored)
    return gl.sum(squares, 1)


@gluon.jit
def load_rows(cutting, r, depth, K, stride):
    """Rows in pieces, zeros beyond K and M."""
    from_x = cutting.x + r.to(gl.int64)[:, None] * stride
    xs = ()
    for p in gl.static_range(cutting.PIECES):
        k = depth + p * _PIECE
        live = (r < cutting.M)[:, None] & (k < K)[None, :]
        xs += (gl.load(from_x + k[None, :], mask=live, other=0.0),)  # type: ignore[assignment]
    return xs


@gluon.jit
def cut_rows(cutting, group: gl.constexpr, GROUPS: gl.constexpr, BM: gl.constexpr):
    """A warpgroup's share of the rows, one at a time in each program of a cluster.

    The next row is loaded before one is cut. A row is counted when the one after it is cut, since a fence would wait
    for stores that have just been issued.
    """
    ROWS: gl.constexpr = gl.num_ctas()
    LAYOUT: gl.constexpr = gl.BlockedLayout(
        [1, 8], [1, 32], [1, 4], [1, 0], cga_layout=[[1, 0]] if gl.num_ctas() == 2 else []
    )
    # The compiler does not know that these are such multiples, and would load and store numbers one by one.
    pitch = cutting.pitch // 32 * 32
    part = cutting.part // 32 * 32
    K = cutting.K // 16 * 16
    stride = cutting.stride // 16 * 16
    depth = gl.arange(0, _PIECE, gl.SliceLayout(0, LAYOUT))
    inside = gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
    step = cutting.programs * GROUPS * ROWS
    begin = cutting.first + (gl.program_id(0) * GROUPS + group) * ROWS
    end = gl.where(gl.program_id(0) < cutting.programs, cutting.M, 0)
    if begin < end:
        ahead = load_rows(cutting, begin + inside, depth, K, stride)
        for start in range(begin, end, step):
            r = start + inside
            live = r < cutting.M
            xs = ahead
            ahead = load_rows(cutting, r + step, depth, K, stride)
            marks = gl.zeros([ROWS, _PIECE], gl.float32, LAYOUT)
            running = gl.zeros([ROWS, _PIECE], gl.float32, LAYOUT)
            finite = ()
            for p in gl.static_range(cutting.PIECES):
                x, mark = finite_part(xs[p], "int8")
                finite += (x,)  # type: ignore[assignment]
                running = gl.maximum(running, gl.abs(x))
                marks += mark
            largest = gl.max(running, 1)
            count(cutting, r - step, start > begin, BM)
            shift = shift_for(largest, "int8")
            energy = cut_digits(finite, shift, r, live, cutting.parts, pitch, part)
            energy = gl.convert_layout(energy, r.type.layout).to(gl.int64)
            gl.store(cutting.energy + r, gl.where(largest > 0, energy, _ROW_OF_ZEROS), mask=live)
            gl.store(cutting.exponents + r, exponent_for(shift, "int8"), mask=live)
            gl.store(cutting.small + r, flag_of(gl.sum(marks, 1)), mask=live)
        count(cutting, begin + (end - 1 - begin) // step * step + inside, True, BM)


@gluon.jit
def count(cutting, r, there, BM: gl.constexpr):
    """Tells that rows are cut, if they are there, after every copy engine would see what this warpgroup wrote."""
    gl.inline_asm("fence.proxy.async.global;", "~{memory}")
    gl.barrier()
    one = gl.full(r.shape, 1, gl.int32, r.type.layout)
    gl.atomic_add(cutting.ready + r // BM, one, mask=(r < cutting.M) & there, sem="release")
