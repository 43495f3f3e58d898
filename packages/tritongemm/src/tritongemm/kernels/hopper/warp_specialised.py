"""Products on the tensor core, one producer warp and two consumer warpgroups: the fast path for narrow types.

**Summation order.** 16-bit operands, tf32 and "fast" fp8: one chain over k in the tensor core's accumulator
(`numfmt.matrix_units.chain()`). Promoted fp8: a chain from zero per 128 (64, 32) k, chains added in ascending k in fp32
(`promote(128)`). Tiles, stages, warpgroups and clusters do not change a bit, nor do M and N: the kernel is batch
invariant, and shares the bits of the other kernels of its mode.

**Bound.** That of the mode (`tritongemm.modes`).

**What the numbers mean.** The main loop keeps the tensor core busy for about 96 % of the time on large products; what
is left is the last, partly filled wave of tiles (3 % at 8192 x 6144 x 4096) and the card's power limit. Few rows are
bound by reading B, and are the business of `small`; for some more of them `warp_specialised_split` cuts K, for those
who ask for it: its bits depend on the shape.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

from tritongemm import launches
from tritongemm.configurations import Config
from tritongemm.kernels.epilogue import Epilogue
from tritongemm.kernels.hopper.launching import BlockScales, Shape, launch
from tritongemm.kernels.hopper.matrices import contiguous_axis, multiprocessors, readable
from tritongemm.kernels.problems import LARGEST_INT32, Operands, reach

NAME = "warp_specialised"

# Bytes of shared memory for tiles and results; the rest of 227 KiB is for barriers and the compiler.
_SHARED = 227 * 1024 - 1024
_LEAST_WORK = 1 << 24
_LEAST_WORK_EACH = 1 << 21
_MOST_BATCHES = 16


@dataclass(frozen=True)
class Kind:
    """How a mode uses the tensor core for operands of some size.

    Attributes:
        order: The consumer.
        block_k: Depth of a stage; part of the promise where the order is promoted.
        products: Multiply-adds per clock of one multiprocessor.
        block_n: Widest tile: accumulators must fit the registers.
        any_axis: Whether the matrix unit reads operands that are contiguous along M and N from shared memory.
        registers: The consumer of a left operand that is contiguous along its rows' axis, through registers.
        rounded: Whether the copy engine rounds operands to tf32 on their way, ties to even.
    """

    order: str
    block_k: int
    products: int
    block_n: int = 256
    any_axis: bool = False
    registers: str | None = None
    rounded: bool = False

    @property
    def promoted(self) -> bool:
        """Whether sums are added up in fp32 every block_k, which then decides bits."""
        return self.order == "promoted_pairs"


_TF32 = Kind("chained", 32, 1024, registers="chained_from_registers")
_SIXTEEN = Kind("chained", 64, 2048, any_axis=True)
KINDS: dict[tuple[str, str], Kind] = {
    ("ieee", "fp16"): _SIXTEEN,
    ("ieee", "bf16"): _SIXTEEN,
    ("tf32", "fp32"): _TF32,
    ("tf32_even", "fp32"): replace(_TF32, rounded=True),
    **{("fast", fp8): Kind("chained", 128, 4096) for fp8 in ("fp8e4m3fn", "fp8e5m2")},
    **{
        (mode, fp8): Kind("promoted_pairs", n, 4096, block_n=128)
        for fp8 in ("fp8e4m3fn", "fp8e5m2")
        for mode, n in (("ieee", 128), ("promote128", 128), ("promote64", 64), ("promote32", 32))
    },
}
"""(mode, operand type) -> how."""


def shape_of(config: Config, kind: Kind, operand_bytes: int, result_bytes: int) -> Shape:
    """The launch shape of a configuration: as many stages as asked for, the result in pieces that fit beside them."""
    groups = 2 if config.block_m // config.ctas >= 128 else 1
    shape = Shape(
        kind.order, config.block_m, config.block_n, config.block_k, config.stages, config.group_m, groups=groups,
        ctas=config.ctas,
    )  # fmt: skip
    # A piece is at most 128 columns wide and at least 16, and half of a warpgroup's registers hold it.
    rows = config.block_m // config.ctas // groups
    least = max(0, (config.block_n // 128).bit_length() - 1, 2 if rows > 64 and config.block_n > 64 else 0)
    for halvings in range(least, max(least, (config.block_n // 16).bit_length() - 1) + 1):
        for buffers in (2, 1):
            tried = shape.changed(halvings=halvings, buffers=min(buffers, 1 << halvings))
            if tried.shared_memory(operand_bytes, result_bytes) <= _SHARED:
                return tried
    return shape.changed(halvings=least + 1)


def _tiles(kind: Kind, operand_bytes: int, result_bytes: int) -> list[Config]:
    """Configurations of every size of tile, with as many stages as fit."""
    found = []
    for block_m, block_n in (
        (128, 256), (128, 128), (128, 64), (128, 32), (64, 256), (64, 128), (64, 64), (64, 32),
    ):  # fmt: skip
        if block_n > kind.block_n:
            continue
        # Narrow tiles wait for memory: deeper stages mean fewer barriers for the same bytes in flight.
        deeper = 2 if not kind.promoted and block_m * block_n <= 64 * 64 else 1
        stage = (block_m + block_n) * kind.block_k * deeper * operand_bytes
        result = block_m * min(block_n, 128) * result_bytes
        stages = max(2, min(8, (_SHARED - result) // stage))
        if (block_m, block_n) == (128, 256) and operand_bytes < 4:
            stages = 3  # a whole tile of the result then fits beside the ring, and leaves while the next is computed
        found.append(
            Config(
                kernel=NAME, block_m=block_m, block_n=block_n, block_k=kind.block_k * deeper, stages=stages,
                group_m=4 if kind.promoted else 8 if operand_bytes == 1 else 16, warps=4,
            )
        )  # fmt: skip
    return found


# Bytes per clock, measured on an H200: what one multiprocessor gets through its copy engine, what all get from the L2
# cache together, what all get from memory. Rows beyond M cost the engine as much as others.
_ENGINE_BYTES, _CACHE_BYTES, _MEMORY_BYTES = 46, 4670, 2390
_TILE_CLOCKS = 5000
# Narrow tiles were measured that much slower than their bytes say.
_NARROW, _NARROW_FACTOR = 128, 1.4
# Tiles of 256 x 128 take that much longer than those of 128 x 256: each warpgroup reads B's columns twice.
_TALL_FACTOR = 1.09


def _clocks(
    config: Config, kind: Kind, M: int, N: int, K: int, operand_bytes: int, processors: int, batch: int = 1
) -> float:
    """A product's estimated time: the slowest of the multiprocessors, wave by wave, the cache and the memory."""
    tiles = batch * -(-M // config.block_m) * -(-N // config.block_n)
    waves = -(-tiles // processors)
    work = K * config.block_m * config.block_n / kind.products
    read = K * (config.block_m + config.block_n) * operand_bytes
    cache = tiles * read / _CACHE_BYTES * (_NARROW_FACTOR if config.block_n < _NARROW else 1)
    memory = batch * (M * K + K * N) * operand_bytes / _MEMORY_BYTES
    return max(waves * max(work, read / _ENGINE_BYTES), cache, memory) + waves * _TILE_CLOCKS


def _tall(config: Config, M: int, N: int, processors: int) -> Config:
    """The configuration, or one whose tiles have its rows and columns exchanged, where that saves a round of tiles."""

    def rounds(rows: int, columns: int) -> int:
        return -(-(-(-M // rows) * -(-N // columns)) // processors)

    if rounds(256, 128) * _TALL_FACTOR < rounds(128, 256):
        return config.changed(block_m=256, block_n=128, group_m=8)
    return config


def configure(operands: Operands) -> Config:
    """The configuration with the least estimated time."""
    kind = KINDS[operands.mode.name, operands.types[0]]
    size, result = operands.a.element_size(), operands.out.element_size()
    processors = multiprocessors(operands.out.device.index)
    M, N, K = operands.M, operands.N, operands.K
    if _is_transposed(operands, kind):
        M, N = N, M
    batch = operands.batch if together(operands) else 1
    best = min(_tiles(kind, size, result), key=lambda c: _clocks(c, kind, M, N, K, size, processors, batch))
    if kind.any_axis and (best.block_m, best.block_n, batch) == (128, 256, 1):
        return _tall(best, M, N, processors)
    if kind.promoted and best.block_m == 128 and min(M, N) >= 8192 and batch == 1:
        return best.changed(block_m=256, ctas=2, group_m=8)
    return best


def supports(operands: Operands, config: Config | None) -> bool:
    """Whether the kernel takes a product: a mode of the tensor core, enough work, a result it can store."""
    kind = KINDS.get((operands.mode.name, operands.types[0]))
    if kind is None or operands.types[0] != operands.types[1]:
        return False
    if operands.K == 0 or operands.out.stride(-1) != 1 or str(operands.out.dtype) == "torch.float64":
        return False
    if config is None:
        batch, work = operands.batch, operands.M * operands.N * operands.K
        if together(operands):
            return work >= _LEAST_WORK_EACH and batch * work >= _LEAST_WORK
        return batch <= _MOST_BATCHES and work >= _LEAST_WORK
    fits = shape_of(config, kind, operands.a.element_size(), operands.out.element_size())
    rows = config.block_m // config.ctas
    return (
        (rows in (64, 128) or (rows == 256 and config.block_n <= 128 and kind.any_axis))
        and config.ctas <= (2 if kind.registers is None else 1)
        and config.block_n <= kind.block_n
        and config.block_k >= kind.block_k
        and (not kind.promoted or config.block_k == kind.block_k)
        and config.splits == 1
        and fits.shared_memory(operands.a.element_size(), operands.out.element_size()) <= _SHARED
    )


@dataclass(frozen=True)
class Reading:
    """How a product's operands are read.

    Attributes:
        left: The left operand: A, or B's transpose if `transposed`.
        right: The right one: B, or A's transpose.
        axes: Their contiguous axes.
        order: The consumer.
        transposed: Whether the result's transpose is computed: its tiles are those of a configuration.
    """

    left: Any
    right: Any
    axes: tuple[int, int]
    order: str
    transposed: bool


def reading(a: Any, b: Any, kind: Kind) -> Reading:
    """Operands as the kernel reads them; copies of those that it cannot read.

    The matrix unit takes wide types along k only, except for a left operand that comes through registers. A product
    whose B is contiguous along n is therefore computed as the transpose of B's transpose times A's: the products and
    their order are the same.
    """
    if kind.any_axis:
        left, a_axis = readable(a)
        right, b_axis = readable(b)
        return Reading(left, right, (a_axis, b_axis), kind.order, False)
    if kind.registers is not None:
        if contiguous_axis(a) == 0:
            return Reading(a, readable(b, 0)[0], (0, 0), kind.registers, False)
        if contiguous_axis(b) == 1:
            return Reading(b.mT, readable(a, 1)[0].mT, (0, 0), kind.registers, True)
    return Reading(readable(a, 1)[0], readable(b, 0)[0], (1, 0), kind.order, False)


def _is_transposed(operands: Operands, kind: Kind) -> bool:
    """Whether `reading` will say so, without copying anything."""
    if kind.registers is None:
        return False
    a, b = (x if x.ndim == 2 or together(operands) else x[0] for x in (operands.a, operands.b))
    return contiguous_axis(a) != 0 and contiguous_axis(b) == 1


def run(operands: Operands, config: Config) -> None:
    """Computes a product or a batch of them."""
    kind = KINDS[operands.mode.name, operands.types[0]]
    shape = shape_of(config, kind, operands.a.element_size(), operands.out.element_size())
    if together(operands):
        cases = [(operands.a, operands.b, operands.out, operands.epilogue)]
    else:
        cases = products(operands)
    for a, b, out, epilogue in cases:
        read = reading(a, b, kind)
        launch(
            read.left, read.right, out, shape.changed(order=read.order), K=operands.K, a_axis=read.axes[0],
            b_axis=read.axes[1], epilogue=epilogue, transposed=read.transposed, rounded=kind.rounded,
        )  # fmt: skip


def supports_blocks(operands: Operands, scale_a: Any, scale_b: Any, config: Config | None) -> bool:
    """Whether the kernel takes a product with scales of blocks: one that it takes anyhow, promoted every 128."""
    kind = KINDS.get((operands.mode.name, operands.types[0]))
    if kind is None or not kind.promoted or kind.block_k != 128 or operands.a.ndim != 2:
        return False
    near = all(reach(x, "scale") <= LARGEST_INT32 for x in (scale_a, scale_b))
    return near and supports(operands, config) and (config is None or config.block_n <= 128)


def run_blocks(operands: Operands, scale_a: Any, scale_b: Any, config: Config | None) -> None:
    """Computes a product with a scale for every 1 x 128 of A and 128 x 128 of B."""
    config = configure(operands) if config is None else config
    kind = KINDS[operands.mode.name, operands.types[0]]
    shape = shape_of(config, kind, operands.a.element_size(), operands.out.element_size())
    left, _ = readable(operands.a, 1)
    right, _ = readable(operands.b, 0)
    launch(
        left, right, operands.out, shape,
        K=operands.K, blocks=BlockScales(scale_a, scale_b), epilogue=operands.epilogue,
    )  # fmt: skip


SPLIT_NAME = "warp_specialised_split"
_MOST_PARTS = 16


def configure_split(operands: Operands) -> Config:
    """The tile and number of parts of k with the least estimated time, joining the parts included."""
    kind = KINDS[operands.mode.name, operands.types[0]]
    size, result = operands.a.element_size(), operands.out.element_size()
    processors = multiprocessors(operands.out.device.index)
    M, N, K = operands.M, operands.N, operands.K
    if _is_transposed(operands, kind):
        M, N = N, M
    return _best_split(kind, M, N, K, size, result, processors)


def _best_split(kind: Kind, M: int, N: int, K: int, size: int, result: int, processors: int) -> Config:
    best, least = None, float("inf")
    for config in _tiles(kind, size, result):
        for parts in range(1, _MOST_PARTS + 1):
            share = -(-K // config.block_k // parts) * config.block_k
            if parts > 1 and (share < 4 * config.block_k or share * (parts - 1) >= K):
                continue
            # Every part is a set of tiles with less to add up.
            estimate = _clocks(config, kind, M, N * parts, share, size, processors)
            if parts > 1:
                estimate += 2 * _TILE_CLOCKS + 2 * parts * M * N * 4 / _MEMORY_BYTES
            if estimate < least:
                best, least = config.changed(kernel=SPLIT_NAME, splits=parts), estimate
    assert best is not None
    return best


def supports_split(operands: Operands, config: Config | None) -> bool:
    """Whether the kernel takes a product with k cut into parts: one matrix, one chain per part."""
    kind = KINDS.get((operands.mode.name, operands.types[0]))
    if kind is None or kind.promoted or operands.batch != 1 or operands.a.ndim != 2:
        return False
    if config is None:
        return operands.M > _FEW and min(operands.M, operands.N) <= _SMALL and supports(operands, None)
    return supports(operands, config.changed(splits=1)) and -(-operands.K // config.block_k) >= config.splits


_SMALL = 256
# Fewer rows are `small`'s, whose parts of k meet in a cluster.
_FEW = 128


def split_bits(operands: Operands, config: Config) -> str:
    """The class of equal bits: that of the mode for one part."""
    if config.splits == 1:
        return ""
    share = _share(operands.K, config)
    return f"chains over {share * config.block_k} of k, added in ascending order in fp32"


def _share(K: int, config: Config) -> int:
    """Steps over k per part."""
    return -(-(-(-K // config.block_k)) // config.splits)


def run_split(operands: Operands, config: Config) -> None:
    """Computes a product with k cut into parts: partial sums in memory, then joined in ascending order."""
    if config.splits == 1:
        run(operands, config)
        return
    from tritongemm.kernels.finishing import finish

    kind = KINDS[operands.mode.name, operands.types[0]]
    shape = shape_of(config, kind, operands.a.element_size(), 4)
    read = reading(operands.a, operands.b, kind)
    share = _share(operands.K, config)
    parts = -(-(-(-operands.K // config.block_k)) // share)
    torch = sys.modules["torch"]
    sums = torch.empty((parts, operands.M, operands.N), dtype=torch.float32, device=operands.out.device)
    launches.workspace(sums)
    launch(
        read.left, read.right, sums, shape.changed(order=read.order), K=operands.K, a_axis=read.axes[0],
        b_axis=read.axes[1], share=share, transposed=read.transposed, rounded=kind.rounded,
    )  # fmt: skip
    finish(operands, sums[:, None])


def together(operands: Operands) -> bool:
    """Whether one launch computes a batch: its matrices are different ones."""
    return operands.a.ndim == 3 and operands.batch > 1 and all(x.stride(0) > 0 for x in (operands.a, operands.b))


def products(operands: Operands) -> list[tuple[Any, Any, Any, Epilogue]]:
    """The products of a batch, one by one: a, b, out, epilogue."""
    epilogue = operands.epilogue
    if operands.a.ndim == 2:
        return [(operands.a, operands.b, operands.out, epilogue)]
    return [
        (
            operands.a[i], operands.b[i], operands.out[i],
            replace(epilogue, c=epilogue.c[i]) if epilogue.reads_c else epilogue,
        )
        for i in range(operands.batch)
    ]  # fmt: skip
