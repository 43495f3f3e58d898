"""Schedules: how a kernel or a library cuts K into chains of a unit's steps, as values that compose.

A unit fixes what one instruction does; a schedule fixes which instructions follow each other, where partial sums
start from zero, and in which order they are added. Leaves are `ChainAll` (`chain()`) and `TlDot`
(`tl_dot()`); the others wrap an inner schedule. Nothing here computes: a schedule is turned into a plan (`plan.py`),
which an engine evaluates and `explain` reads.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, replace

from numfmt._errors import unknown_name
from numfmt.matrix_units.plan import Accumulator, Chain, Node, Program, Region, Sum, WithoutNan, split_additions
from numfmt.matrix_units.units import MatrixUnit, find_unit


@dataclass(frozen=True)
class Request:
    """What `matmul` was asked for: the unit's name or facts, format keys, accumulator, and the shape (M, N, K)."""

    unit: str | MatrixUnit
    inputs: tuple[str, str]
    accumulator: str
    shape: tuple[int, int, int]
    has_c: bool = True


@dataclass(frozen=True)
class Resolved:
    """The unit a schedule runs on, with what it needs besides.

    Attributes:
        unit: The facts.
        multiplied: Format keys of the operands where the unit multiplies them (fp32 operands are split into bf16, say).
        order: A permutation of each group of len(order) consecutive k, or None.
        block: K is padded with zeros to a multiple of this, or None: K must be a multiple of the unit's depth.
        notes: Sentences for `explain`.
        split: How fp32 operands are split, for Triton's dot.
        interval: Products after which Triton's FP8 dot promotes, or None.
        folded: The accumulator goes into the instructions instead of being added to their result.
    """

    unit: MatrixUnit
    multiplied: tuple[str, str]
    order: tuple[int, ...] | None = None
    block: int | None = None
    notes: tuple[str, ...] = ()
    split: Split | None = None
    interval: int | None = None
    folded: bool = True


class Schedule:
    """Base of all schedules. Subclasses say how to sum a range of k; the rest is shared."""

    def call(self) -> str:
        """The call that makes this schedule.

        Returns:
            Python text; arguments with their default values are left out.
        """
        given = []
        for spec in fields(self):  # type: ignore[arg-type]
            value = getattr(self, spec.name)
            if isinstance(value, ChainAll) or (spec.default is not MISSING and value == spec.default):
                continue
            given.append(f"{spec.name}={value.call() if isinstance(value, Schedule) else repr(value)}")
        return f"{_CALLS[type(self).__name__]}({', '.join(given)})"

    def resolve(self, request: Request) -> Resolved:
        """The unit for a request, with the operands' formats as the unit multiplies them.

        Args:
            request: What is computed: unit, formats, shape.

        Returns:
            The unit and what the lowering decides.
        """
        return Resolved(find_unit(request.unit, request.inputs, request.accumulator), request.inputs)

    def node(self, start: int, stop: int, init: Node | None, resolved: Resolved) -> Node:
        """The sum over a range of k.

        Args:
            start: First k.
            stop: One beyond the last.
            init: What the sum goes onto; None: from zero.
            resolved: What `resolve` decided.

        Returns:
            The plan of the range.

        Raises:
            NotImplementedError: In the base class.
        """
        raise NotImplementedError

    def regions(self, shape: tuple[int, int, int], init: Node | None, resolved: Resolved) -> Iterator[Region]:
        """Rectangles of outputs with their plans; one for all outputs unless a schedule cuts tiles differently.

        Args:
            shape: (M, N, K).
            init: What the sums go onto; None: from zero.
            resolved: What `resolve` decided.

        Yields:
            Regions that together are all outputs.
        """
        m, n, k = shape
        yield Region(slice(0, m), slice(0, n), self.node(0, k, init, resolved))

    def program(self, request: Request) -> Program:
        """Everything an engine needs to compute the product.

        Args:
            request: What is computed: unit, formats, shape.

        Returns:
            The unit, the plan of every output, and notes for people.

        Raises:
            ValueError: For formats the unit does not take, a K its instruction cannot split, or an interval that is no
                multiple of the instruction's depth.
        """
        resolved = self.resolve(request)
        m, n, k = request.shape
        unit = resolved.unit
        if resolved.block is not None:
            k = -(-k // resolved.block) * resolved.block
        if k % unit.depth:
            raise ValueError(
                f"K = {k} is no multiple of {unit.depth}, the depth of one {unit.name} instruction for "
                f"{'/'.join(dict.fromkeys(resolved.multiplied))}; pad a and b with zeros along K to "
                f"{-(-k // unit.depth) * unit.depth} "
                f"(a kernel with masked loads does the same), which pad_k=True does"
            )
        init = Accumulator() if request.has_c else None
        regions = tuple(
            replace(region, node=split_additions(region.node, unit))
            for region in self.regions((m, n, k), init, resolved)
        )
        omitted = (
            resolved.split.omitted if resolved.split else _TF32_OMITTED if resolved.multiplied[0] == "tf32" else 0.0
        )
        order = _combined(unit.order, resolved.order)
        return Program(unit, resolved.multiplied, regions, order, k, resolved.notes, omitted)


def _combined(first: tuple[int, ...] | None, second: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if first is not None and second is not None:
        raise ValueError("a unit with an order of its own cannot take a k_width order as well")
    return first or second


def _interval(n: int, argument: str, resolved: Resolved) -> int:
    depth = resolved.unit.depth
    if n <= 0 or n % depth:
        raise ValueError(
            f"{argument} = {n}: an interval must be a positive multiple of {depth}, the depth of one "
            f"{resolved.unit.name} "
            f"instruction, for example {max(depth, round(n / depth) * depth)}"
        )
    return n


def _positive(value: int, argument: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{argument} must be a positive integer, got {value!r}")


@dataclass(frozen=True)
class ChainAll(Schedule):
    """All instructions in one chain: every result is the next one's accumulator."""

    def node(self, start: int, stop: int, init: Node | None, resolved: Resolved) -> Node:
        return Chain(start, stop, init)


@dataclass(frozen=True)
class Promote(Schedule):
    """Every `interval` products the partial sum, begun at zero, is added to an FP32 accumulator, to nearest even."""

    interval: int
    inner: Schedule

    def __post_init__(self) -> None:
        _positive(self.interval, "interval")

    def resolve(self, request: Request) -> Resolved:
        return self.inner.resolve(request)

    def node(self, start: int, stop: int, init: Node | None, resolved: Resolved) -> Node:
        n = _interval(self.interval, "interval", resolved)
        parts = tuple(self.inner.node(k, min(k + n, stop), None, resolved) for k in range(start, stop, n))
        return Sum(parts if init is None else (init, *parts))


@dataclass(frozen=True)
class SplitK(Schedule):
    """K cut into `parts` contiguous ranges, each summed from zero by `inner`; the results added up, c last.

    Attributes:
        parts: Number of ranges; ranges without k are left out.
        inner: Schedule of one range.
        granularity: Ranges begin at multiples of this (a kernel's BLOCK_K); None: the unit's depth.
        reduction: "sequential" (0 + 1 + 2 + ...), "pairwise" (neighbours, then neighbours of those, ...) or "halves"
            (the sum of the first half of the ranges, rounded down, plus that of the others, each made the same way).
        even: Ranges differ by one granule at most, the longer ones last; otherwise all but the last are equally long.
    """

    parts: int
    inner: Schedule
    granularity: int | None = None
    reduction: str = "sequential"
    even: bool = False

    def __post_init__(self) -> None:
        _positive(self.parts, "parts")
        if self.granularity is not None:
            _positive(self.granularity, "granularity")
        if self.reduction not in _REDUCTIONS:
            raise ValueError(unknown_name("reduction", self.reduction, _REDUCTIONS))

    def resolve(self, request: Request) -> Resolved:
        return self.inner.resolve(request)

    def node(self, start: int, stop: int, init: Node | None, resolved: Resolved) -> Node:
        grain = self.granularity or resolved.block or resolved.unit.depth
        _interval(grain, "granularity", resolved)
        blocks = -(-(stop - start) // grain)
        count = max(1, min(self.parts, blocks))
        if self.even:
            short, long_parts = divmod(blocks, count)
            edges = [p * short + max(0, p + long_parts - count) for p in range(count + 1)]
        else:
            edges = [p * -(-blocks // count) for p in range(count + 1)]
        cuts = dict.fromkeys(min(start + edge * grain, stop) for edge in edges)
        # Without any k there is one range, which is empty.
        ranges = [*itertools.pairwise(cuts)] or [(start, stop)]
        parts = [self.inner.node(low, high, None, resolved) for low, high in ranges]
        return _with_epilogue(_REDUCTIONS[self.reduction](parts), init)


@dataclass(frozen=True)
class StreamK(Schedule):
    """All (tile, k block) pairs in one line, cut evenly among `workers`: a tile's k is cut where a worker's share ends.

    A tile's partial sums are added in ascending k, c last. Tiles are numbered along rows of tiles (N first).

    Reference: M. Osama et al., "Stream-K: Work-centric parallel decomposition for dense matrix-matrix multiplication on
    the GPU", PPoPP 2023.

    Attributes:
        block_m: Rows of a tile.
        block_n: Columns of a tile.
        block_k: k of one unit of work.
        workers: Number of thread blocks that share the work.
        inner: Schedule of one tile's range of k.
    """

    block_m: int
    block_n: int
    block_k: int
    workers: int
    inner: Schedule

    def __post_init__(self) -> None:
        for name in ("block_m", "block_n", "block_k", "workers"):
            _positive(getattr(self, name), name)

    def resolve(self, request: Request) -> Resolved:
        return self.inner.resolve(request)

    def node(self, start: int, stop: int, init: Node | None, resolved: Resolved) -> Node:
        raise ValueError(
            "stream_k cuts whole outputs into tiles and cannot be the inner schedule of another; put it outside"
        )

    def regions(self, shape: tuple[int, int, int], init: Node | None, resolved: Resolved) -> Iterator[Region]:
        m, n, k = shape
        _interval(self.block_k, "block_k", resolved)
        blocks = -(-k // self.block_k)
        tiles = [(i, j) for i in range(0, m, self.block_m) for j in range(0, n, self.block_n)]
        work = len(tiles) * blocks
        share, rest = divmod(work, self.workers)
        # The first `rest` workers take one block more.
        cuts = {min(w, rest) + w * share for w in range(self.workers + 1)}
        for index, (i, j) in enumerate(tiles):
            first = index * blocks
            inside = sorted(cut - first for cut in cuts if first < cut < first + blocks)
            edges = [0, *inside, blocks]
            parts = [
                self.inner.node(low * self.block_k, min(high * self.block_k, k), None, resolved)
                for low, high in itertools.pairwise(edges)
            ]
            node = _with_epilogue(Sum(tuple(parts)) if len(parts) > 1 else parts[0], init)
            yield Region(slice(i, min(i + self.block_m, m)), slice(j, min(j + self.block_n, n)), node)


def _with_epilogue(node: Node, init: Node | None) -> Node:
    if init is None:
        return node
    return Sum((node, init))


def _pairwise(parts: list[Node]) -> Node:
    while len(parts) > 1:
        parts = [parts[i] if i + 1 == len(parts) else Sum((parts[i], parts[i + 1])) for i in range(0, len(parts), 2)]
    return parts[0]


def _halves(parts: list[Node]) -> Node:
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return Sum((_halves(parts[:middle]), _halves(parts[middle:])))


def _sequential(parts: list[Node]) -> Node:
    return parts[0] if len(parts) == 1 else Sum(tuple(parts))


_CALLS = {
    "ChainAll": "chain",
    "Promote": "promote",
    "SplitK": "split_k",
    "StreamK": "stream_k",
    "TlDot": "tl_dot",
}
_REDUCTIONS = {"sequential": _sequential, "pairwise": _pairwise, "halves": _halves}


# ----------------------------------------------------------------------------------------------------------- Triton
@dataclass(frozen=True)
class Split:
    """How Triton makes an fp32 product from products of narrower parts.

    Attributes:
        format: Format the parts are multiplied in.
        corrections: (left part, right part) in the order they are chained, from zero.
        main: The product added last, after a NaN among the corrections became zero.
        omitted: What the products left out and the bits cut off the parts can amount to, in units of |a·b|.
    """

    format: str
    corrections: tuple[tuple[str, str], ...]
    main: tuple[str, str]
    omitted: float


# tf32: each operand loses less than 2^-10. tf32x3: small*small (2^-22) and the last bit of each small part (2^-23).
# bf16x3: what high + middle leave of each operand (2^-16), and middle*middle (2^-16). bf16x6: middle*low twice (2^-24),
# low*low.
SPLITS: dict[str, Split] = {
    "tf32x3": Split(
        "tf32", (("tf32_small", "tf32_big"), ("tf32_big", "tf32_small")), ("tf32_big", "tf32_big"), 2.0**-21
    ),
    "bf16x3": Split(
        "bf16", (("bf16_middle", "bf16_high"), ("bf16_high", "bf16_middle")), ("bf16_high", "bf16_high"), 3 * 2.0**-16
    ),
    "bf16x6": Split(
        "bf16",
        (
            ("bf16_middle", "bf16_middle"),
            ("bf16_low", "bf16_high"),
            ("bf16_high", "bf16_low"),
            ("bf16_middle", "bf16_high"),
            ("bf16_high", "bf16_middle"),
        ),
        ("bf16_high", "bf16_high"),
        2.0**-22,
    ),
}
_TF32_OMITTED = 2.0**-9
INPUT_PRECISIONS = ("ieee", "tf32", *SPLITS)
FORMS = ("acc=", "+=")

_WGMMA_BITS = 256
_PROMOTION_STEP = 32


@dataclass(frozen=True)
class TlDot(Schedule):
    """A loop of `tl.dot` over BLOCK_K on Hopper, as Triton 3.9 lowers it.

    Attributes:
        block_k: BLOCK_K; K is padded with zeros to a multiple, as masked loads do.
        form: "acc=" for `acc = tl.dot(a, b, acc)`, "+=" for `acc += tl.dot(a, b)`.
        input_precision: For fp32 operands: "ieee", "tf32" (Triton's default), "tf32x3", "bf16x3" or "bf16x6".
        max_num_imprecise_acc: Promotion interval of FP8 products; None: the argument is not given.
        num_warps: Warps of the kernel.
        block_m: BLOCK_M.
        block_n: BLOCK_N.
        k_width: The kWidth of operands that were widened after the load and reach mma.sync; None: not widened.
    """

    block_k: int
    form: str = "acc="
    input_precision: str = "tf32"
    max_num_imprecise_acc: int | None = None
    num_warps: int = 4
    block_m: int = 64
    block_n: int = 64
    k_width: int | None = None

    def __post_init__(self) -> None:
        for name in ("block_k", "num_warps", "block_m", "block_n"):
            _positive(getattr(self, name), name)
        if self.k_width is not None:
            _positive(self.k_width, "k_width")
        if self.form not in FORMS:
            raise ValueError(unknown_name("form", self.form, FORMS))
        if self.input_precision not in INPUT_PRECISIONS:
            raise ValueError(unknown_name("input_precision", self.input_precision, INPUT_PRECISIONS))
        n = self.max_num_imprecise_acc
        if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 0):
            raise ValueError(f"max_num_imprecise_acc must be None or an integer >= 0, got {n!r}")

    # ---- which instruction
    def resolve(self, request: Request) -> Resolved:
        if isinstance(request.unit, MatrixUnit) or not str(request.unit).casefold().startswith("hopper"):
            raise ValueError(
                f"unit: tl_dot() knows how Triton uses Hopper's units, got {request.unit!r}; use unit='hopper'"
            )
        a, b = request.inputs
        if {a, b} <= {"fp32", "tf32"}:
            return self._fp32(request.accumulator)
        if {a, b} <= {"e4m3", "e5m2"}:
            return self._fp8((a, b), request.accumulator)
        if a != b:
            raise ValueError(
                f"inputs: tl.dot multiplies {a} x {b} only after a conversion; convert one operand and name its format"
            )
        if a not in ("fp16", "bf16"):
            raise ValueError(f"inputs: tl.dot on Hopper takes fp32, fp16, bf16, e4m3 and e5m2, got {a}")
        return self._on_matrix_unit((a, a), request.accumulator, bits=16)

    def _fp8(self, inputs: tuple[str, str], accumulator: str) -> Resolved:
        n = self.max_num_imprecise_acc
        if n is not None and n > self.block_k:
            raise ValueError(
                f"max_num_imprecise_acc = {n} is larger than block_k = {self.block_k}, which Triton refuses "
                f"to compile; "
                f"use at most {self.block_k}"
            )
        # Without the argument Triton chains FP8 for ever, but keeps `+=` apart; 0 folds it.
        folded = self.form == "acc=" or n == 0
        too_fine = n is not None and n < _PROMOTION_STEP and accumulator == "fp32"
        if self._has_wgmma_shape(8) and not too_fine:
            interval = -(-n // _PROMOTION_STEP) * _PROMOTION_STEP if n and accumulator == "fp32" else None
            return replace(self._on_matrix_unit(inputs, accumulator, bits=8), interval=interval, folded=folded)
        # Triton converts to fp16 and uses fp16 instructions; the operands keep the register layout of their 8 bits.
        return replace(self._on_matrix_unit(("fp16", "fp16"), accumulator, bits=16, loaded_bits=8), folded=folded)

    def _fp32(self, accumulator: str) -> Resolved:
        if self.input_precision == "ieee":
            note = "Instruction: fp32 fused multiply-adds, one per product, to nearest even."
            unit = find_unit("simt.fma", "fp32", accumulator)
            return Resolved(unit, ("fp32", "fp32"), block=self.block_k, notes=(note,), folded=self._folds())
        split = SPLITS.get(self.input_precision)
        key = "tf32" if split is None else split.format
        return replace(self._on_matrix_unit((key, key), accumulator, bits=16 if key == "bf16" else 32), split=split)

    def _folds(self) -> bool:
        return self.form == "acc=" or not self.max_num_imprecise_acc

    def _has_wgmma_shape(self, bits: int) -> bool:
        return not self._obstacles(bits)

    def _obstacles(self, bits: int) -> list[str]:
        """Why the tile does not fit wgmma."""
        return [
            text
            for wrong, text in (
                (self.num_warps % 4 != 0, f"num_warps = {self.num_warps} is no multiple of 4"),
                (self.block_m % 64 != 0, f"BLOCK_M = {self.block_m} is no multiple of 64"),
                (self.block_n % 8 != 0, f"BLOCK_N = {self.block_n} is no multiple of 8"),
                (self.block_k * bits < _WGMMA_BITS, f"BLOCK_K = {self.block_k} holds fewer than {_WGMMA_BITS} bits"),
            )
            if wrong
        ]

    def _on_matrix_unit(
        self, multiplied: tuple[str, str], accumulator: str, *, bits: int, loaded_bits: int | None = None
    ) -> Resolved:
        """wgmma or mma.sync for operands of `bits` bits; operands loaded with fewer bits always reach mma.sync."""
        obstacles = self._obstacles(loaded_bits or bits)
        if loaded_bits is not None and not obstacles:
            obstacles = [f"max_num_imprecise_acc = {self.max_num_imprecise_acc} is below {_PROMOTION_STEP}"]
        unit = find_unit("hopper.mma" if obstacles else "hopper.wgmma", multiplied, accumulator)
        if not obstacles:
            note = (
                "Instruction: wgmma (num_warps % 4 == 0, BLOCK_M % 64 == 0, BLOCK_N % 8 == 0, at least 256 bits of k)."
            )
            return Resolved(unit, multiplied, block=self.block_k, notes=(note,), folded=self._folds())
        notes = [f"Instruction: mma.sync, because {', '.join(obstacles)}."]
        elements = 32 // bits
        width = self.k_width or 32 // (loaded_bits or bits)
        order = None
        if width > elements:
            order = width_order(unit.depth, width, elements)
            if self.block_k % len(order):
                raise ValueError(
                    f"block_k = {self.block_k} is no multiple of {len(order)}, the k that {width // elements} mma.sync "
                    f"instructions share when kWidth is {width}; choose a multiple of {len(order)}"
                )
            notes.append(
                f"The operands were widened after the load (kWidth {width}): of each {len(order)} k, one "
                f"instruction takes "
                f"{', '.join(map(str, order[:4]))}, ..., the next the others."
            )
        return Resolved(unit, multiplied, order, self.block_k, tuple(notes), folded=self._folds())

    # ---- in which order
    def node(self, start: int, stop: int, init: Node | None, resolved: Resolved) -> Node:
        blocks = [(k, min(k + self.block_k, stop)) for k in range(start, stop, self.block_k)]
        if resolved.split is not None:
            return _onto(init, [_split_block(resolved.split, *block) for block in blocks])
        if resolved.interval is None:
            return Chain(start, stop, init) if resolved.folded else _onto(init, [Chain(*block) for block in blocks])
        n = resolved.interval
        promoted: list[list[Node]] = [[Chain(k, min(k + n, high)) for k in range(low, high, n)] for low, high in blocks]
        if self.form == "acc=":
            return _onto(init, [part for block in promoted for part in block])
        return _onto(init, [_sequential(block) for block in promoted])


def _onto(init: Node | None, parts: Sequence[Node]) -> Node:
    return _sequential([*parts] if init is None else [init, *parts])


def _split_block(split: Split, start: int, stop: int) -> Node:
    """One tl.dot of split operands: the corrections from zero, NaN to zero, then the main product."""
    node: Node | None = None
    for a, b in split.corrections:
        node = Chain(start, stop, node, a, b)
    assert node is not None
    return Chain(start, stop, WithoutNan(node), *split.main)


def width_order(depth: int, width: int, elements: int) -> tuple[int, ...]:
    """The k of one group of mma.sync instructions in the order they take them.

    With kWidth `width` a thread holds `width` neighbouring k of its operand in registers of `elements` k each (32
    bits), and instruction i multiplies register i of every thread: the k with (k mod width) // elements == i.

    Args:
        depth: k of one instruction.
        width: kWidth.
        elements: k in 32 bits of the type that is multiplied.

    Returns:
        A permutation of range(depth * width // elements).
    """
    if width % elements:
        raise ValueError(f"k_width = {width} must be a multiple of {elements}, the elements in 32 bits")
    group = depth * width // elements
    return tuple(k for i in range(width // elements) for k in range(group) if (k % width) // elements == i)


# ------------------------------------------------------------------------------------------------------ constructors
def chain() -> ChainAll:
    """One chain over all of K, c first: what a plain loop over instructions does.

    Returns:
        The schedule.
    """
    return ChainAll()


def promote(interval: int, inner: Schedule | None = None) -> Promote:
    """A partial sum from zero for every `interval` products, added to the accumulator in FP32 (nearest even).

    Args:
        interval: Products per partial sum, a multiple of the instruction's depth.
        inner: Schedule of one interval; None: a chain.

    Returns:
        The schedule.
    """
    return Promote(interval, inner or ChainAll())


def split_k(
    parts: int,
    inner: Schedule | None = None,
    *,
    granularity: int | None = None,
    reduction: str = "sequential",
    even: bool = False,
) -> SplitK:
    """K in contiguous ranges, each summed from zero, the results added up.

    Args:
        parts: Ranges.
        inner: Schedule of one range; None: a chain.
        granularity: Ranges begin at multiples of this; None: of the instruction's depth.
        reduction: How the results are added: "sequential" (0 + 1 + 2 + ...), "pairwise" (neighbours, then neighbours of
            those, ...) or "halves" (the sum of the first half of the ranges, rounded down, plus that of the others).
        even: Ranges differ by one granule at most, the longer ones last; otherwise all but the last are equally long.

    Returns:
        The schedule.
    """
    return SplitK(parts, inner or ChainAll(), granularity, reduction, even)


def stream_k(block_m: int, block_n: int, block_k: int, workers: int, inner: Schedule | None = None) -> StreamK:
    """Work cut evenly among workers across tiles, so that a tile's k can be cut anywhere.

    Args:
        block_m: Rows of a tile.
        block_n: Columns of a tile.
        block_k: k of one step.
        workers: Programs that share the steps of all tiles.
        inner: Schedule of one part; None: a chain.

    Returns:
        The schedule.
    """
    return StreamK(block_m, block_n, block_k, workers, inner or ChainAll())


def tl_dot(
    block_k: int,
    form: str = "acc=",
    input_precision: str = "tf32",
    max_num_imprecise_acc: int | None = None,
    num_warps: int = 4,
    block_m: int = 64,
    block_n: int = 64,
    k_width: int | None = None,
) -> TlDot:
    """A loop of `tl.dot` over BLOCK_K on Hopper, as Triton 3.9 lowers it.

    Args:
        block_k: BLOCK_K; K is padded with zeros to a multiple, as masked loads do.
        form: "acc=" for `acc = tl.dot(a, b, acc)`, "+=" for `acc += tl.dot(a, b)`.
        input_precision: For fp32 operands: "ieee", "tf32" (Triton's default), "tf32x3", "bf16x3" or "bf16x6".
        max_num_imprecise_acc: Promotion interval of FP8 products; None: the argument is not given.
        num_warps: Warps of the kernel.
        block_m: BLOCK_M.
        block_n: BLOCK_N.
        k_width: The kWidth of operands that were widened after the load and reach mma.sync; None: not widened.

    Returns:
        The schedule.

    Raises:
        ValueError: For unknown names and sizes that are not positive.
    """
    return TlDot(block_k, form, input_precision, max_num_imprecise_acc, num_warps, block_m, block_n, k_width)


def cublas_like(
    splits: int = 1, promotion: int | None = None, *, granularity: int | None = None, reduction: str = "sequential"
) -> Schedule:
    """What cuBLAS does with K on Hopper at the shapes measured: a chain, promoted or not, in one or more ranges of K.

    Args:
        splits: Ranges of K (split-K); the library chooses this by shape.
        promotion: None for one chain (fp16, bf16, tf32, and FP8 with fast accumulation); 128 for FP8 with
            `use_fast_accum=False`.
        granularity: Ranges begin at multiples of this.
        reduction: How the ranges' results are added.

    Returns:
        The schedule.
    """
    inner: Schedule = ChainAll() if promotion is None else Promote(promotion, ChainAll())
    return inner if splits == 1 else SplitK(splits, inner, granularity, reduction)
