"""`matmul`: a whole matrix product as a matrix unit and a schedule compute it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from numfmt._errors import unknown_name
from numfmt.matrix_units import aligned, compiled, ordinary
from numfmt.matrix_units.operands import (
    PARTS,
    Float32Array,
    Operand,
    as_matrix,
    check_values,
    prepare,
    prepare_scaled,
    resolve_inputs,
)
from numfmt.matrix_units.plan import Accumulator, Chain, Node, Program, Sum
from numfmt.matrix_units.schedules import ChainAll, Request, Schedule
from numfmt.matrix_units.units import INPUT_FORMATS, MatrixUnit, format_key

ChainFunction = Callable[[MatrixUnit, Operand, Operand, Float32Array], Float32Array]

ENGINES = ("auto", "numpy", "numba")

_NUMPY_CHAINS: dict[str, ChainFunction] = {
    "aligned": aligned.chain,
    "pairwise": ordinary.pairwise_chain,
    "fma": ordinary.fma_chain,
}

# Outputs of a tile: its buffers of 8 bytes fit the second-level cache. Wide tiles make long inner loops.
_TILE_ROWS = 64
_TILE_COLUMNS = 512
# k that are converted at once.
_SLICE = 512
# Products above which starting numba (0.2 s, and seconds once per machine for compilation) pays.
_WORTH_COMPILING = 10**9

_NAN32 = np.uint32(0x7FFFFFFF)
_NAN16 = np.uint16(0x7FFF)


def matmul(
    a: ArrayLike,
    b: ArrayLike,
    c: ArrayLike | None = None,
    unit: str | MatrixUnit = "hopper",
    *,
    inputs: str | tuple[str, str] | None = None,
    accumulator: str = "fp32",
    schedule: Schedule | None = None,
    scale_a: ArrayLike | None = None,
    scale_b: ArrayLike | None = None,
    pad_k: bool = False,
    engine: str = "auto",
    threads: int | None = None,
) -> NDArray[Any]:
    """The bits of a·b + c as a GPU's matrix unit returns them.

    Args:
        a: (M, K) matrix: NumPy or ml_dtypes floats whose values the format of `inputs` holds. tf32 operands are fp32
            numbers; the unit ignores their low 13 bits.
        b: (K, N) matrix.
        c: (M, N) matrix of values of the accumulator's format, or None for zero.
        unit: A name of `unit_names` ("hopper.wgmma"), an architecture ("hopper": the first instruction of the
            table that takes the inputs), or a `MatrixUnit` of your own.
        inputs: Format of both operands or a pair (a, b), such as "fp16", "tf32", ("e4m3", "e5m2"); None: from the
            dtypes, float32 being "tf32" for a unit and "fp32" for `simt.fma` and `tl_dot`.
        accumulator: "fp32" or "fp16", the format of c and of the result.
        schedule: Order of the instructions: `chain()` (default), `promote(n)`, `split_k(...)`, `stream_k(...)`,
            `tl_dot(...)`.
        scale_a: (M, K / block) scales for block-scaled units, powers of two (E8M0) or E4M3 values; block is 32 or 16.
        scale_b: (K / block, N) likewise.
        pad_k: Pad K with zeros to a multiple of the instruction's depth instead of raising.
        engine: "numpy", "numba", or "auto": numba if it is installed and the product is large or numba is in use
            already. The bits are the same.
        threads: Tiles computed at the same time; None: one per CPU this process may use.

    Returns:
        (M, N) array, float32 or float16. NaN is canonical (0x7FFFFFFF, 0x7FFF), zero results of a unit are +0.

    Raises:
        ValueError: For shapes that do not fit, formats the unit does not take, values the format cannot hold, a K the
            instruction cannot split.
        TypeError: For dtypes that hold no real numbers or do not say which format is meant.
        ImportError: For engine="numba" without numba.

    Example:
        >>> import numpy as np
        >>> from numfmt.matrix_units import matmul, promote
        >>> a = np.full((1, 6144), 0.9375, np.float16)
        >>> b = np.full((6144, 1), 0.9375, np.float16)
        >>> float(matmul(a, b, unit="hopper.wgmma", inputs="e4m3")[0, 0])
        4640.0
        >>> float(matmul(a, b, unit="hopper.wgmma", inputs="e4m3", schedule=promote(128))[0, 0])
        5394.0
    """
    left, right = as_matrix(a, "a"), as_matrix(b, "b")
    if left.shape[1] != right.shape[0]:
        raise ValueError(
            f"a has shape {left.shape} and b {right.shape}: a's columns must be as many as b's rows"
            + ("; b.T fits" if left.shape[1] == right.shape[1] else "")
        )
    if engine not in ENGINES:
        raise ValueError(unknown_name("engine", engine, ENGINES))
    schedule = ChainAll() if schedule is None else schedule
    if not isinstance(schedule, Schedule):
        raise TypeError(f"schedule must be a schedule such as chain() or promote(128), got {schedule!r}")
    accumulator = format_key(accumulator, "accumulator")
    keys = operand_keys(left, right, inputs, unit)
    depth = left.shape[1]
    if pad_k:
        row = schedule.resolve(Request(unit, keys, accumulator, (1, 1, depth))).unit
        depth = -(-depth // row.depth) * row.depth
    shape = (left.shape[0], right.shape[1], depth)
    program = schedule.program(Request(unit, keys, accumulator, shape, c is not None))
    check_values(left, keys[0], "a")
    check_values(right, keys[1], "b")
    accumulators = _accumulators(c, shape, accumulator)
    scales = _scales(program, left.shape, right.shape, scale_a, scale_b)
    chain_function = _engine(engine, program, shape)
    result = np.empty(shape[:2], np.float32)

    def compute(tile: tuple[slice, slice, Node]) -> None:
        rows, columns, node = tile
        context = _Tile(program, left, right, scales, accumulators, rows, columns, chain_function)
        result[rows, columns] = context.evaluate(node)

    tiles = list(_tiles(program, shape))
    workers = min(len(tiles), _threads(threads))
    if workers <= 1:
        for tile in tiles:
            compute(tile)
    else:
        with ThreadPoolExecutor(workers) as pool:
            for _ in pool.map(compute, tiles):
                pass
    return _finished(result, accumulator)


def operand_keys(
    a: NDArray[Any], b: NDArray[Any], inputs: str | tuple[str, str] | None, unit: str | MatrixUnit
) -> tuple[str, str]:
    """The format keys of both operands; float32 operands of a matrix unit mean tf32 unless `inputs` says otherwise."""
    keys = resolve_inputs(a, b, inputs)
    if inputs is None and keys == ("fp32", "fp32"):
        takes_fp32 = unit.inputs if isinstance(unit, MatrixUnit) else ("fp32",) if str(unit).startswith("simt") else ()
        return keys if "fp32" in takes_fp32 else ("tf32", "tf32")
    return keys


def _threads(threads: int | None) -> int:
    if threads is None:
        try:
            return len(os.sched_getaffinity(0))
        except AttributeError:  # not on every system
            return os.cpu_count() or 1
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ValueError(f"threads must be a positive integer or None, got {threads!r}")
    return threads


def _accumulators(c: ArrayLike | None, shape: tuple[int, int, int], accumulator: str) -> Float32Array | None:
    if c is None:
        return None
    array = as_matrix(c, "c")
    if array.shape != shape[:2]:
        raise ValueError(f"c has shape {array.shape}, the product has shape {shape[:2]}")
    check_values(array, accumulator, "c")
    with np.errstate(invalid="ignore"):
        return array.astype(np.float32)


def _scales(
    program: Program,
    a_shape: tuple[int, ...],
    b_shape: tuple[int, ...],
    scale_a: ArrayLike | None,
    scale_b: ArrayLike | None,
) -> tuple[Float32Array, Float32Array] | None:
    facts = program.unit.scales
    if facts is None:
        if scale_a is not None or scale_b is not None:
            raise ValueError(
                f"scale_a, scale_b: {program.unit.name} has no block scales; blackwell.mxf8f6f4, mxf4 and "
                f"nvf4 have, or multiply "
                f"the matrices first"
            )
        return None
    if scale_a is None or scale_b is None:
        raise ValueError(f"{program.unit.name} needs scale_a (M, K/{facts.block}) and scale_b (K/{facts.block}, N)")
    blocks = program.depth // facts.block
    found = []
    for name, given, expected in (
        ("scale_a", scale_a, (a_shape[0], blocks)),
        ("scale_b", scale_b, (blocks, b_shape[1])),
    ):
        array = as_matrix(given, name)
        if array.shape != expected:
            raise ValueError(f"{name} has shape {array.shape}; one scale for {facts.block} k makes {expected}")
        wide = array.astype(np.float64)
        if (np.signbit(wide) & ~np.isnan(wide)).any():
            raise ValueError(f"{name} holds a negative scale; scales are unsigned {facts.format.name} values")
        held = facts.format.round(np.where(np.isnan(wide), 1.0, wide))
        wrong = (held != wide) & ~np.isnan(wide)
        if wrong.any():
            raise ValueError(
                f"{name} holds {wide[wrong][0]!r}, which is no {facts.format.name} value; "
                f"round the scales first, for example with "
                f"numfmt.{'E8M0' if facts.format.name == 'E8M0' else 'FP8_E4M3'}.round"
            )
        found.append(array.astype(np.float32))
    return found[0], found[1]


def _engine(engine: str, program: Program, shape: tuple[int, int, int]) -> ChainFunction:
    plain = _NUMPY_CHAINS[program.unit.arithmetic]
    if engine == "numpy":
        return plain
    if engine == "auto" and not compiled.worth_using(shape[0] * shape[1] * shape[2], _WORTH_COMPILING):
        return plain
    return compiled.chain_function(program.unit, plain)


def _tiles(program: Program, shape: tuple[int, int, int]) -> Iterator[tuple[slice, slice, Node]]:
    """Tiles of outputs, each within one region; columns are the outer loop, since preparing b's slices costs more."""
    for region in program.regions:
        rows, columns = region.rows, region.columns
        width = min(_TILE_COLUMNS, max(columns.stop - columns.start, 1))
        height = max(_TILE_ROWS, _TILE_ROWS * _TILE_COLUMNS // width // 4)
        for j in range(columns.start, columns.stop, width):
            for i in range(rows.start, rows.stop, height):
                yield slice(i, min(i + height, rows.stop)), slice(j, min(j + width, columns.stop)), region.node


@dataclass
class _Tile:
    """One tile of outputs: fetches slices of the operands and evaluates a plan on them."""

    program: Program
    a: NDArray[Any]
    b: NDArray[Any]
    scales: tuple[Float32Array, Float32Array] | None
    c: Float32Array | None
    rows: slice
    columns: slice
    chain: ChainFunction
    prepared: dict[tuple[str, str, int, int], Operand] = field(default_factory=dict)

    def evaluate(self, node: Node) -> Float32Array:
        """The (rows, columns) values of a plan."""
        if isinstance(node, Accumulator):
            return self._zero() if self.c is None else self.c[self.rows, self.columns]
        if isinstance(node, Chain):
            return self._chain(node)
        if isinstance(node, Sum):
            return self._sum(node)
        value = self.evaluate(node.term)
        return np.where(np.isnan(value), np.float32(0), value)

    def _zero(self) -> Float32Array:
        return np.zeros((self.rows.stop - self.rows.start, self.columns.stop - self.columns.start), np.float32)

    def _sum(self, node: Sum) -> Float32Array:
        half = self.program.unit.accumulator == "fp16"
        total = self.evaluate(node.terms[0])
        with np.errstate(over="ignore", invalid="ignore"):
            for term in node.terms[1:]:
                total = total + self.evaluate(term)
                if half:
                    # The fp32 sum of two fp16 numbers has enough bits for a second rounding to be harmless (24 >= 2 *
                    # 11 + 2).
                    total = total.astype(np.float16).astype(np.float32)
        return total

    def _chain(self, node: Chain) -> Float32Array:
        result = self._zero() if node.init is None else self.evaluate(node.init)
        # Slices hold whole groups of reordered k, and whole instructions.
        group = max(self.program.unit.depth, len(self.program.order or ()))
        length = max(_SLICE // group, 1) * group
        for start in range(node.start, node.stop, length):
            stop = min(start + length, node.stop)
            a = self._operand("a", node.a, start, stop)
            b = self._operand("b", node.b, start, stop)
            result = self.chain(self.program.unit, a, b, result)
        return result

    def _operand(self, side: str, part: str, start: int, stop: int) -> Operand:
        key = (side, part, start, stop)
        if key not in self.prepared:
            if any(known[2:] != key[2:] for known in self.prepared):
                self.prepared.clear()
            self.prepared[key] = self._prepare(side, part, start, stop)
        return self.prepared[key]

    def _prepare(self, side: str, part: str, start: int, stop: int) -> Operand:
        """One operand's slice [start, stop), k first, as the unit multiplies it."""
        left = side == "a"
        source = self.a[self.rows, start:stop].T if left else self.b[start:stop, self.columns]
        with np.errstate(invalid="ignore"):
            values: Float32Array = np.ascontiguousarray(source.astype(np.float32, copy=False))
        missing = stop - start - values.shape[0]
        if missing:
            values = np.concatenate([values, np.zeros((missing, values.shape[1]), np.float32)])
        values = np.ascontiguousarray(PARTS[part](values))
        unit = self.program.unit
        key = self.program.operands[0 if left else 1]
        if key == "tf32":
            values = np.ascontiguousarray(PARTS["tf32"](values))
        fmt = unit.multiplied_format(key)
        if unit.arithmetic == "pairwise":
            values = ordinary.flush_operand(values, INPUT_FORMATS[key].min_normal)
        values, scales = self._ordered(values, start, left)
        if scales is not None and unit.scales is not None:
            return prepare_scaled(values, scales, fmt, unit.scales, unit.group)
        return prepare(values, fmt)

    def _ordered(self, values: Float32Array, start: int, left: bool) -> tuple[Float32Array, Float32Array | None]:
        """The slice in the order the steps take k, and its block scales."""
        order = self.program.order
        if order is not None:
            index = np.add.outer(np.arange(0, values.shape[0], len(order)), np.array(order)).ravel()
            values = values[index]
        if self.scales is None or self.program.unit.scales is None:
            return values, None
        block = self.program.unit.scales.block
        span = slice(start // block, (start + values.shape[0]) // block)
        scales = self.scales[0][self.rows, span].T if left else self.scales[1][span, self.columns]
        return values, np.ascontiguousarray(scales)


def _finished(result: Float32Array, accumulator: str) -> NDArray[Any]:
    """In the accumulator's dtype, NaN canonical."""
    nan = np.isnan(result)
    if accumulator == "fp16":
        half = result.astype(np.float16)
        half.view(np.uint16)[nan] = _NAN16
        return half
    result.view(np.uint32)[nan] = _NAN32
    return result
