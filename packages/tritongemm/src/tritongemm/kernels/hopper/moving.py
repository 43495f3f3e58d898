"""Moves rows of A to where the copy engine can read them while other programs multiply.

The copy engine reads rows that begin at multiples of 16 bytes; others are copied first (`copying.pad`). That takes the
memory's time, in which no product is computed, for a matrix of which the first tiles need a part only. Programs that
the last round of tiles leaves idle move the rest, as `cutting` cuts rows into parts.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

PIECE = 1024
"""Words of a row, of 4 bytes, that a warpgroup has in one tensor."""

_PIECE = gl.constexpr(PIECE)
# Rows that a warpgroup moves before it says so; all of one row of tiles.
_AT_ONCE = gl.constexpr(16)


@gluon.jit
def row_of_words(cutting, r, live, HALVES: gl.constexpr):
    """Words of rows r in pieces; with HALVES elements of 2 bytes, whose rows may begin in the middle of a word."""
    w = gl.arange(0, _PIECE, gl.SliceLayout(0, r.type.layout.parent))
    xs = ()
    if HALVES:
        # Of a word that is half in a row all is read; it is memory that the matrix is in.
        address = cutting.x.to(gl.int64)
        begin = (address >> 1 & 1) + r.to(gl.int64) * cutting.stride
        odd = ((begin & 1) != 0)[:, None]
        at = (address & -4).to(gl.pointer_type(gl.uint32)) + (begin >> 1)[:, None]
        for p in gl.static_range(cutting.PIECES):
            i = (w + p * _PIECE)[None, :]
            first = gl.load(at + i, mask=live[:, None] & (2 * i < cutting.K), other=0)
            second = gl.load(at + i + 1, mask=live[:, None] & odd & (2 * i + 1 < cutting.K), other=0)
            xs += (gl.where(odd, first >> 16 | second << 16, first),)  # type: ignore[assignment]
    else:
        at = cutting.x.to(gl.pointer_type(gl.uint32), bitcast=True) + (r.to(gl.int64) * cutting.stride)[:, None]
        for p in gl.static_range(cutting.PIECES):
            i = (w + p * _PIECE)[None, :]
            xs += (gl.load(at + i, mask=live[:, None] & (i < cutting.K), other=0),)  # type: ignore[assignment]
    return xs


@gluon.jit
def move_rows(cutting, group: gl.constexpr, GROUPS: gl.constexpr, BM: gl.constexpr):
    """A warpgroup's share of the rows, a few at a time, so that enough is underway."""
    HALVES: gl.constexpr = cutting.KIND == "halves"
    ROWS: gl.constexpr = 4 if cutting.PIECES <= 3 else 2
    LAYOUT: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [1, 4], [1, 0])
    w = gl.arange(0, _PIECE, gl.SliceLayout(0, LAYOUT))
    # The launcher sees to it that rows of the result are such multiples of words.
    pitch = cutting.pitch // 64 * 32 if HALVES else cutting.pitch // 32 * 32
    worker = gl.program_id(0) * GROUPS + group
    end = gl.where(gl.program_id(0) < cutting.programs, cutting.M, 0)
    for start in range(cutting.first + worker * _AT_ONCE, end, cutting.programs * GROUPS * _AT_ONCE):
        for row in range(start, start + _AT_ONCE, ROWS):
            r = row + gl.arange(0, ROWS, gl.SliceLayout(1, LAYOUT))
            live = r < cutting.M
            xs = row_of_words(cutting, r, live, HALVES)
            to = cutting.parts.to(gl.pointer_type(gl.uint32), bitcast=True) + (r.to(gl.int64) * pitch)[:, None]
            for p in gl.static_range(len(xs)):
                i = (w + p * _PIECE)[None, :]
                gl.store(to + i, xs[p], mask=live[:, None] & (i < pitch))
        # What this warpgroup wrote is there for every copy engine before the count says so: a wait for the memory,
        # which is why it is not done for every few rows.
        gl.inline_asm("fence.proxy.async.global;", "~{memory}")
        gl.barrier()
        done = gl.minimum(cutting.M - start, _AT_ONCE)
        gl.atomic_add(cutting.ready + start // BM, done, sem="release")
