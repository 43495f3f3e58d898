"""Cuts fp32 matrices into parts for a matrix unit: two fp16 numbers, three int8 digits or three bf16 numbers.

**Layout.** Parts are K-major and lie below each other: part p of row r begins at row p·rows + r of a matrix whose rows
are `pitch` elements apart, zeros behind column K. B is cut as the rows of its transpose. Both come from operands of any
strides; a transposing kernel reads operands whose rows lie side by side in memory.

**Scales.** fp16 and int8 parts of a row are those of row·2**s, with s chosen so that the largest finite number of the
row lies in [2**14, 2**15) (fp16), or so that it is at most 8355711 = 127·2**16 + 127·2**8 + 127 as an integer (int8).
Powers of two lose nothing, whatever the row's size: subnormal rows are scaled up exactly. bf16 parts are not scaled.

**Facts.** In the same pass every row gets what the guard wants to know, in integers, so that no order of adding can
change a decision: the exponent -s, the sum of squares of the row's scaled integers in nine bits (int8), how many of its
numbers are too small for full accuracy, and whether it holds Inf or NaN. Numbers that are not finite become zeros in
the parts; the outputs they belong to are computed again with fp32 arithmetic (`rescue`).
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

KINDS = {"fp16": 2, "int8": 3, "bf16": 3}
"""Kinds of parts, and how many of them."""

_MAGIC = tl.constexpr(8388608.0)  # 2**23
_MAGNITUDE = tl.constexpr(0x7FFFFF)
_HALVES = tl.constexpr(0x808080)
_TOO_LARGE = tl.constexpr(8355711.5)
_LARGEST_BF16 = tl.constexpr(3.3895313892515355e38)
_SPECIAL = tl.constexpr(1 << 30)
_ROW_OF_ZEROS = tl.constexpr(1 << 62)


@triton.jit
def exponent_of(x):
    """floor(log2 x) of fp32 numbers x > 0, subnormal ones too; 0 for x = 0."""
    tiny = x < 1.1754943508222875e-38
    bits = tl.where(tiny, x * 18446744073709551616.0, x).to(tl.int32, bitcast=True)
    exponent = (bits >> 23) - 127 - tl.where(tiny, 64, 0)
    return tl.where(x > 0, exponent, 0)


@triton.jit
def power_of_two(exponent):
    """2**exponent in fp32, for exponents from -126 to 127."""
    return ((exponent + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def times_power(x, exponent):
    """x·2**exponent, for exponents from -252 to 254, in two exact steps (unless the result is subnormal)."""
    half = exponent >> 1
    return x * power_of_two(half) * power_of_two(exponent - half)


@triton.jit
def finite_part(x, KIND: tl.constexpr):
    """x with zeros for what the parts cannot hold, and NaN there and 0 elsewhere: any sum of these tells of one."""
    if KIND == "bf16":
        fits = tl.abs(x) <= _LARGEST_BF16
        return tl.where(fits, x, 0.0), tl.where(fits, 0.0, float("nan"))
    else:
        return tl.where(tl.abs(x) < float("inf"), x, 0.0), x * 0.0


@triton.jit
def flag_of(mark):
    """1 << 30 where a sum of `finite_part`'s marks tells of a number that is not finite, else 0."""
    return tl.where(mark == mark, 0, _SPECIAL)


@triton.jit
def nearest_integer(v):
    """fp32 |v| <= 2**23 - 1 to the nearest integer, ties to even, as int32.

    Adding 2**23 pushes the fraction out of the 24 bits; the magnitude is then in the low bits of the sum.
    """
    magnitude = (tl.abs(v) + _MAGIC).to(tl.int32, bitcast=True) & _MAGNITUDE
    sign = v.to(tl.int32, bitcast=True) >> 31
    return (magnitude ^ sign) - sign


@triton.jit
def digits_of(q):
    """Integers |q| <= 8355711 as three bytes of a number: each byte is a signed digit, the lowest the least.

    Adding 128 to every digit makes a carry of each borrow; flipping the top bit of a byte takes 128 away again.
    """
    return (q + _HALVES) ^ _HALVES


@triton.jit
def shift_for(largest, KIND: tl.constexpr):
    """The s by which a row with this largest magnitude is scaled."""
    if KIND == "fp16":
        return 14 - exponent_of(largest)
    elif KIND == "int8":
        shift = 22 - exponent_of(largest)
        # 8355711 is the most in three signed bytes; halfway to the next it rounds up, to the even one.
        return tl.where(times_power(largest, shift) >= _TOO_LARGE, shift - 1, shift)
    else:
        return (largest != largest).to(tl.int32)  # 0 in largest's shape


@triton.jit
def exponent_for(shift, KIND: tl.constexpr):
    """What a row's sums are multiplied by, as a power of two; int8 digits lack another 2**8 each."""
    return 8 - shift if KIND == "int8" else -shift


@triton.jit
def neighbours(x):
    """The numbers 4i, 4i + 1, 4i + 2 and 4i + 3 of the last axis."""
    if len(x.shape) == 1:
        pairs = tl.reshape(x, (x.shape[0] // 4, 2, 2))
    else:
        pairs = tl.reshape(x, (x.shape[0], x.shape[1] // 4, 2, 2))
    even, odd = tl.split(pairs)
    x0, x2 = tl.split(even)
    x1, x3 = tl.split(odd)
    return x0, x1, x2, x3


@triton.jit
def digits_and_squares(x, shift):
    """Digits of numbers as `digits_of` has them, and the squares of their integers in nine bits, 32768 of which fit
    into 31 bits."""
    q = nearest_integer(times_power(x, shift))
    coarse = (q + 16512) >> 15  # without the low digit, rounded to nine bits
    return digits_of(q), coarse * coarse


@triton.jit
def store_digits(x0, x1, x2, x3, shift, at, part, live):
    """Stores the digits of numbers with their right-hand neighbours as words of four; returns their squares' sum."""
    d0, s0 = digits_and_squares(x0, shift)
    d1, s1 = digits_and_squares(x1, shift)
    d2, s2 = digits_and_squares(x2, shift)
    d3, s3 = digits_and_squares(x3, shift)
    top = ((d0 >> 16) & 0xFF) | ((d1 >> 8) & 0xFF00) | (d2 & 0xFF0000) | ((d3 << 8) & -0x1000000)
    middle = ((d0 >> 8) & 0xFF) | (d1 & 0xFF00) | ((d2 << 8) & 0xFF0000) | ((d3 << 16) & -0x1000000)
    low = (d0 & 0xFF) | ((d1 << 8) & 0xFF00) | ((d2 << 16) & 0xFF0000) | (d3 << 24)
    tl.store(at, top, mask=live)
    tl.store(at + part, middle, mask=live)
    tl.store(at + part + part, low, mask=live)
    return (s0 + s1) + (s2 + s3)


@triton.jit
def store_parts(x, shift, at, part, live, KIND: tl.constexpr):
    """Stores the parts of finite numbers x of one row (or, with shift broadcast, several).

    Args:
        x: The numbers.
        shift: The power of two that they are multiplied by.
        at: Where the first parts go; four int8 digits are one int32 word.
        part: Elements (words) from one part to the next.
        live: Which parts (words) to store.
        KIND: The kind of parts.

    Returns:
        Where a number is too small for full accuracy (fp16); sums of the squares of four neighbours (int8).
    """
    if KIND == "fp16":
        v = times_power(x, shift)
        high = v.to(tl.float16)
        tl.store(at, high, mask=live)
        tl.store(at + part, (v - high.to(tl.float32)).to(tl.float16), mask=live)
        # Below 2**-3 the lower part is subnormal.
        return ((tl.abs(v) < 0.125) & (x != 0)).to(tl.int32)
    elif KIND == "int8":
        x0, x1, x2, x3 = neighbours(x)
        return store_digits(x0, x1, x2, x3, shift, at, part, live)
    else:
        high = x.to(tl.bfloat16)
        rest = x - high.to(tl.float32)
        middle = rest.to(tl.bfloat16)
        tl.store(at, high, mask=live)
        tl.store(at + part, middle, mask=live)
        tl.store(at + part + part, (rest - middle.to(tl.float32)).to(tl.bfloat16), mask=live)
        return (x != x).to(tl.int32)


@triton.jit
def split_rows_kernel(
    x_ptr,
    parts_ptr,
    exponents_ptr,
    energy_ptr,
    small_ptr,
    K,
    pitch,
    part,
    stride_r,
    stride_k,
    gate_ptr,
    ready_ptr,
    tiles,
    KIND: tl.constexpr,
    BLOCK: tl.constexpr,
    RESIDENT: tl.constexpr,
    GATED: tl.constexpr,
    AHEAD: tl.constexpr,
):
    """One row per program. RESIDENT: BLOCK holds a whole row, which is read once; otherwise it is read twice.

    GATED: nothing is done if gate_ptr holds 0, the verdict that the product stands already.

    AHEAD: The kernel before and the one after may run at the same time, see `emulated`. The last program ends after the
    kernel before.

    Counters at ready_ptr, at most as many as programs, are set to zero.
    """
    if AHEAD:
        gdc_launch_dependents()
    if tl.program_id(0) < tiles:
        tl.store(ready_ptr + tl.program_id(0), 0)
    if GATED:
        if tl.load(gate_ptr) == 0:
            return
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, BLOCK)
    WORD: tl.constexpr = 4 if KIND == "int8" else 1
    words = tl.arange(0, BLOCK // WORD)
    x_ptr += row * stride_r
    at = parts_ptr + row * pitch
    if RESIDENT:
        raw = tl.load(x_ptr + k.to(tl.int64) * stride_k, mask=k < K, other=0.0)
        x, mark = finite_part(raw, KIND)
        largest = tl.max(tl.abs(x), 0)
        marks = tl.sum(mark, 0)
        shift = shift_for(largest, KIND)
        fact = store_parts(x, shift, at + words, part, words < pitch, KIND)
        facts = tl.sum(fact, 0).to(tl.int64)
    else:
        running = tl.zeros((BLOCK,), tl.float32)
        found = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, K, BLOCK):
            depth = start + k
            raw = tl.load(x_ptr + depth.to(tl.int64) * stride_k, mask=depth < K, other=0.0)
            x, mark = finite_part(raw, KIND)
            running = tl.maximum(running, tl.abs(x))
            found += mark
        largest = tl.max(running, 0)
        marks = tl.sum(found, 0)
        shift = shift_for(largest, KIND)
        sums = tl.zeros((BLOCK // WORD,), tl.int64)
        for start in range(0, pitch * WORD, BLOCK):
            depth = start + k
            raw = tl.load(x_ptr + depth.to(tl.int64) * stride_k, mask=depth < K, other=0.0)
            x, _ = finite_part(raw, KIND)
            place = start // WORD + words
            fact = store_parts(x, shift, at + place, part, place < pitch, KIND)
            sums += fact.to(tl.int64)
        facts = tl.sum(sums, 0)
    tl.store(exponents_ptr + row, exponent_for(shift, KIND))
    smalls = flag_of(marks)
    if KIND == "int8":
        tl.store(energy_ptr + row, tl.where(largest > 0, facts, _ROW_OF_ZEROS))
    elif KIND == "fp16":
        smalls += facts.to(tl.int32)
    tl.store(small_ptr + row, smalls)
    if AHEAD:
        if tl.program_id(0) == tl.num_programs(0) - 1:
            gdc_wait()


@triton.jit
def column_facts(
    x_ptr, largest_ptr, small_ptr, r, k, R, K, stride_r, stride_k, KIND: tl.constexpr, TALL: tl.constexpr,
    STAYS: tl.constexpr,
):  # fmt: skip
    """The largest finite magnitude of rows r that lie side by side, and whether they hold others, from TALL times k.

    Both arrays begin as zeros; magnitudes are compared as the integers that their bits are.
    """
    running = tl.zeros((k.shape[0], r.shape[0]), tl.float32)
    found = tl.zeros((k.shape[0], r.shape[0]), tl.float32)
    for _ in tl.static_range(TALL):
        at = x_ptr + k.to(tl.int64)[:, None] * stride_k + r.to(tl.int64)[None, :] * stride_r
        raw = tl.load(at, mask=(k < K)[:, None] & (r < R)[None, :], other=0.0, eviction_policy=STAYS)
        x, mark = finite_part(raw, KIND)
        running = tl.maximum(running, tl.abs(x))
        found += mark
        k += k.shape[0]
    tl.atomic_max(largest_ptr + r, tl.max(running, 0).to(tl.int32, bitcast=True), mask=r < R, sem="relaxed")
    flags = flag_of(tl.sum(found, 0))
    tl.atomic_or(small_ptr + r, flags, mask=(r < R) & (flags > 0), sem="relaxed")


@triton.jit
def beside(x_ptr, r, k, R, K, stride_r, stride_k, GOES: tl.constexpr):
    """The numbers k of rows r that lie side by side, transposed."""
    at = x_ptr + k.to(tl.int64)[:, None] * stride_k + r.to(tl.int64)[None, :] * stride_r
    return tl.trans(tl.load(at, mask=(k < K)[:, None] & (r < R)[None, :], other=0.0, eviction_policy=GOES))


@triton.jit
def split_columns(
    x_ptr, largest_ptr, parts_ptr, exponents_ptr, energy_ptr, small_ptr, r, deep, R, K, pitch, part, stride_r,
    stride_k, BLOCK_K: tl.constexpr, KIND: tl.constexpr, GOES: tl.constexpr,
):  # fmt: skip
    """Cuts BLOCK_K numbers from `deep` on of rows r that lie side by side, transposing them on the way.

    Atomics add up energies and counts.

    Integers are exact in any order. Energies begin as zeros. The first tile of a row says what its exponent is.
    """
    if KIND == "bf16":
        largest = tl.zeros((r.shape[0],), tl.float32)
    else:
        # Past the first cache, which may hold what stood there before.
        largest = tl.load(largest_ptr + r, mask=r < R, other=0, cache_modifier=".cg").to(tl.float32, bitcast=True)
    shift = shift_for(largest, KIND)
    WORD: tl.constexpr = 4 if KIND == "int8" else 1
    words = deep // WORD + tl.arange(0, BLOCK_K // WORD)
    at = parts_ptr + r.to(tl.int64)[:, None] * pitch + words[None, :]
    live = (r < R)[:, None] & (words < pitch)[None, :]
    k = words * WORD
    if KIND == "int8":
        # Four tiles of every fourth k: a thread has the four digits of a word, and words are what is transposed.
        x0, _ = finite_part(beside(x_ptr, r, k, R, K, stride_r, stride_k, GOES), KIND)
        x1, _ = finite_part(beside(x_ptr, r, k + 1, R, K, stride_r, stride_k, GOES), KIND)
        x2, _ = finite_part(beside(x_ptr, r, k + 2, R, K, stride_r, stride_k, GOES), KIND)
        x3, _ = finite_part(beside(x_ptr, r, k + 3, R, K, stride_r, stride_k, GOES), KIND)
        squares = store_digits(x0, x1, x2, x3, shift[:, None], at, part, live)
        tl.atomic_add(energy_ptr + r, tl.sum(squares, 1).to(tl.int64), mask=r < R, sem="relaxed")
    else:
        x, mark = finite_part(beside(x_ptr, r, k, R, K, stride_r, stride_k, GOES), KIND)
        small = store_parts(x, shift[:, None], at, part, live, KIND)
    if KIND == "bf16":
        flags = flag_of(tl.sum(mark, 1))
        tl.atomic_or(small_ptr + r, flags, mask=(r < R) & (flags > 0), sem="relaxed")
    else:
        if KIND == "fp16":
            smalls = tl.sum(small, 1)
            tl.atomic_add(small_ptr + r, smalls, mask=(r < R) & (smalls > 0), sem="relaxed")
        if deep == 0:
            tl.store(exponents_ptr + r, exponent_for(shift, KIND), mask=r < R)
            if KIND == "int8":
                # A row of zeros is exact: it must not look like one whose numbers are all too small.
                zeros = tl.where(largest > 0, 0, _ROW_OF_ZEROS).to(tl.int64)
                tl.atomic_add(energy_ptr + r, zeros, mask=r < R, sem="relaxed")


@triton.jit
def split_columns_kernel(
    x_ptr, largest_ptr, done_ptr, parts_ptr, exponents_ptr, energy_ptr, small_ptr, R, K, pitch, part, stride_r,
    stride_k, behind, gate_ptr, KIND: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr,
    BLOCKS: tl.constexpr, BESIDE: tl.constexpr, GATED: tl.constexpr, AHEAD: tl.constexpr,
    STAYS: tl.constexpr = "evict_last", GOES: tl.constexpr = "evict_first",
):  # fmt: skip
    """Cuts rows that lie side by side, reading them from memory once.

    A strip of BESIDE·BLOCKS·BLOCK_R rows passes the cache twice: first for the rows' largest numbers, then to be cut.
    Programs come in rounds, one program per cell of a strip: one that looks at strip i, then one that cuts strip
    i - behind, by then still in the cache. These wait until all of the strip has been looked at; programs start in
    the order of their numbers, so that those waited for have started. STAYS and GOES are what the cache is told about
    numbers that are looked at and cut. AHEAD: as in `split_rows_kernel`, for the kernel
    after.
    """
    if AHEAD:
        gdc_launch_dependents()
    if GATED:
        if tl.load(gate_ptr) == 0:
            return
    WIDE: tl.constexpr = BLOCKS * BLOCK_R
    cells = BESIDE * tl.cdiv(pitch * (4 if KIND == "int8" else 1), BLOCK_K)
    if KIND == "bf16":
        strip = tl.program_id(0) // cells
        looks = False
    else:
        strip = tl.program_id(0) // (2 * cells)
        looks = tl.program_id(0) % (2 * cells) < cells
        strip -= tl.where(looks, 0, behind)
    cell = tl.program_id(0) % cells
    row = (strip * BESIDE + cell % BESIDE) * WIDE
    if (strip < 0) | (row >= R):
        return
    deep = cell // BESIDE * BLOCK_K
    if looks:
        wide = row + tl.arange(0, WIDE)
        shallow = deep + tl.arange(0, BLOCK_K // 4)
        column_facts(x_ptr, largest_ptr, small_ptr, wide, shallow, R, K, stride_r, stride_k, KIND, 4, STAYS)
        tl.debug_barrier()
        tl.atomic_add(done_ptr + row // WIDE, 1, sem="release")
    else:
        if KIND != "bf16":
            while tl.atomic_load(done_ptr + row // WIDE, sem="acquire") < cells // BESIDE:
                pass
        for block in range(BLOCKS):
            r = row + block * BLOCK_R + tl.arange(0, BLOCK_R)
            split_columns(
                x_ptr, largest_ptr, parts_ptr, exponents_ptr, energy_ptr, small_ptr, r, deep, R, K, pitch, part,
                stride_r, stride_k, BLOCK_K, KIND, GOES,
            )  # fmt: skip
