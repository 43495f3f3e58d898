"""Lecture: reproducibility. Which changes of a kernel change the bits of a product, and which sums have no order.

Five demonstrations: every usual change tried on the same product; partial sums that meet in any order; a row that
depends on its neighbours; sums that are exact and therefore have no order; and what becomes of a changed last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from numfmt import FP8_E4M3, FP32, exact_dot
from numfmt.matrix_units import Schedule, matmul, same_bits, split_k, stream_k, tl_dot
from numfmt_lectures.lecture import Lecture
from numfmt_lectures.names import LectureError
from numfmt_lectures.parts import LONGEST, integer_product
from numfmt_lectures.recorded import results
from numfmt_lectures.report import Column, Demonstration, Figure, Label, Observation, Series, Table, Value

__all__ = ["LECTURE", "Settings"]

Array = NDArray[np.float64]
Matrix = NDArray[np.float32]

U = FP32.unit_roundoff
BLOCK_K = 32


@dataclass(frozen=True)
class Settings:
    """Sizes and seeds.

    Attributes:
        seed: of every random generator.
        rows: of the products, and their columns.
        depth: products per output, a multiple of 256.
        runs: runs of a kernel whose partial sums meet in any order.
        splits: partial sums of an output in such a kernel.
        batch: rows of the product of which one is looked at.
        processors: of the imagined GPU, which a library wants to keep busy.
        orders: random orders of the sums that are said to have none.
        steps: of the recurrence in the last demonstration.
        width: numbers of its state.
        gain: of its weights, in per cent: above 100 it amplifies.
    """

    seed: int = 0
    rows: int = 24
    depth: int = 4096
    runs: int = 50
    splits: tuple[int, ...] = (1, 2, 3, 4, 8, 16, 64)
    batch: tuple[int, ...] = (1, 16, 64, 128, 256, 512, 1024, 4096)
    processors: int = 132
    orders: int = 30
    steps: int = 300
    width: int = 128
    gain: int = 180

    def __post_init__(self) -> None:
        if self.depth % 256 or self.depth > LONGEST:
            raise LectureError(f"setting 'depth' takes a multiple of 256 up to {LONGEST}, not {self.depth}")

    @classmethod
    def quick(cls) -> Self:
        """Smaller products and fewer runs."""
        return cls(rows=12, depth=1024, runs=20, splits=(1, 2, 3, 8, 64), orders=10)


def operands(rng: np.random.Generator, rows: int, depth: int) -> tuple[Matrix, Matrix]:
    """Random FP32 matrices (rows, depth) and (depth, rows) with elements between -1 and 1."""
    a, b = rng.uniform(-1, 1, (rows, depth)), rng.uniform(-1, 1, (depth, rows))
    return a.astype(np.float32), b.astype(np.float32)


def bits(x: NDArray[Any]) -> NDArray[np.uint32]:
    """Bit patterns of FP32 numbers."""
    return np.ascontiguousarray(x, np.float32).view(np.uint32)


# 1. What changes the bits.


@dataclass(frozen=True)
class Change:
    """One change of a kernel.

    Attributes:
        key: its name in the catalogues.
        inputs: `fp32` or `e4m3`: which product it is tried on.
        harmless: whether theory says that no bit can change.
        differing: outputs whose bits changed.
        outputs: all of them.
    """

    key: str
    inputs: str
    harmless: bool
    differing: int
    outputs: int


_IEEE = tl_dot(BLOCK_K, input_precision="ieee")
_FP8 = tl_dot(128, "+=")

SCHEDULES: Sequence[tuple[str, str, Schedule, Schedule]] = (
    ("tiles", "fp32", _IEEE, tl_dot(BLOCK_K, input_precision="ieee", block_m=128, block_n=256, num_warps=8)),
    ("block_k", "fp32", _IEEE, tl_dot(64, input_precision="ieee")),
    ("form", "fp32", _IEEE, tl_dot(BLOCK_K, "+=", input_precision="ieee")),
    ("split_two", "fp32", _IEEE, split_k(2, _IEEE)),
    ("split_eight", "fp32", _IEEE, split_k(8, _IEEE)),
    ("stream", "fp32", _IEEE, stream_k(16, 16, BLOCK_K, 5, _IEEE)),
    ("precision", "fp32", _IEEE, tl_dot(BLOCK_K, input_precision="tf32")),
    ("fp8_tiles", "e4m3", _FP8, tl_dot(128, "+=", block_m=128, num_warps=8)),
    ("fp8_block_k", "e4m3", _FP8, tl_dot(64, "+=")),
    ("fp8_form", "e4m3", _FP8, tl_dot(128)),
    ("fp8_small_tile", "e4m3", _FP8, tl_dot(128, "+=", block_m=32)),
)
"""Changes that are another schedule: name, inputs, schedule before and after."""


def changes(settings: Settings) -> Demonstration:
    """Multiply the same matrices by kernels that differ in one thing, and count the outputs whose bits differ."""
    found = try_changes(settings)
    columns = [Column("change"), Column("inputs"), Column("harmless"), Column("differing", "d"), Column("share", ".1%")]
    rows: list[tuple[Value, ...]] = [
        (Label(c.key), c.inputs.upper(), c.harmless, c.differing, c.differing / c.outputs) for c in found
    ]
    return Demonstration("changes", [Table("changes", columns, rows)], observe_changes(found))


def try_changes(settings: Settings) -> list[Change]:
    """Every change of `SCHEDULES`, and those that are no schedule."""
    rng = np.random.default_rng(settings.seed)
    a, b = operands(rng, settings.rows, settings.depth)
    narrow = (FP8_E4M3.round(a), FP8_E4M3.round(b))
    shape = (settings.rows, settings.rows)
    found = []

    def compute(inputs: str, schedule: Schedule) -> NDArray[np.uint32]:
        left, right = (a, b) if inputs == "fp32" else narrow
        return bits(matmul(left, right, unit="hopper", inputs=inputs, schedule=schedule))

    base = {key: compute(key, schedule) for key, schedule in (("fp32", _IEEE), ("e4m3", _FP8))}
    for key, inputs, before, after in SCHEDULES:
        harmless = same_bits(before, after, k=settings.depth, inputs=inputs, shape=shape)
        differing = int((compute(inputs, after) != base[inputs]).sum())
        found.append(Change(key, inputs, harmless, differing, base[inputs].size))
    others = {
        "padding": (True, np.pad(a, ((0, 0), (0, 96))), np.pad(b, ((0, 96), (0, 0))), None),
        "transposed": (True, np.ascontiguousarray(b.T), np.ascontiguousarray(a.T), None),
        "backwards": (False, a[:, ::-1], b[::-1], None),
        "lanes": (False, a, b, _lanes),
        "unfused": (False, a, b, _unfused),
    }
    extra = []
    for key, (harmless, left, right, way) in others.items():
        c = serial(left, right) if way is None else way(left, right)
        result = bits(c.T if key == "transposed" else c)
        extra.append(Change(key, "fp32", harmless, int((result != base["fp32"]).sum()), result.size))
    wide = [c for c in found if c.inputs == "fp32"]
    return sorted([*wide, *extra], key=lambda c: not c.harmless) + sorted(
        [c for c in found if c.inputs == "e4m3"], key=lambda c: not c.harmless
    )


def serial(a: Matrix, b: Matrix) -> Matrix:
    """A serial chain of fused multiply-adds over k: `tl.dot` with input_precision="ieee"."""
    c: Matrix = matmul(a, b, unit="simt.fma", inputs="fp32")
    return c


def _lanes(a: Matrix, b: Matrix, lanes: int = 256) -> Matrix:
    """Strided running sums, joined in halves: how a kernel with `tl.sum` at its end adds."""
    sums = [serial(a[:, lane::lanes], b[lane::lanes]) for lane in range(lanes)]
    while len(sums) > 1:
        half = len(sums) // 2
        sums = [sums[i] + sums[i + half] for i in range(half)]
    return sums[0]


def _unfused(a: Matrix, b: Matrix) -> Matrix:
    """The serial sum with every product rounded before it is added: what `enable_fp_fusion=False` makes of it."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        total = total + np.outer(a[:, k], b[k])
    return total


def observe_changes(found: Sequence[Change]) -> list[Observation]:
    """Whether the harmless changes changed nothing and the others something."""
    kept = [c for c in found if c.harmless]
    risky = [c for c in found if not c.harmless]
    broken = [Label(c.key) for c in kept if c.differing]
    lucky = [Label(c.key) for c in risky if not c.differing]
    tuned = [c for c in risky if c.key in ("fp8_block_k", "fp8_small_tile")]
    return [
        Observation("harmless", bool(kept) and not broken, {"kept": [Label(c.key) for c in kept], "broken": broken}),
        Observation(
            "harmful",
            bool(risky) and not lucky,
            {"least": min((c.differing / c.outputs for c in risky), default=0.0), "lucky": lucky},
        ),
        Observation(
            "tuning",
            bool(tuned) and all(c.differing for c in tuned),
            {"shares": [Label("share", {"share": c.differing / c.outputs}) for c in tuned]},
        ),
    ]


# 2. Partial sums that meet in any order.


@dataclass(frozen=True)
class Meeting:
    """Runs of a kernel with one number of partial sums.

    Attributes:
        splits: partial sums of an output.
        results: different results of the whole product.
        varying: share of outputs that took more than one value.
        spread: largest distance between two values of an output, in units of u·sum|p|.
        recorded: share of varying outputs of a real kernel on a GPU; None where that was not recorded.
    """

    splits: int
    results: int
    varying: float
    spread: float
    recorded: float | None


def atomics(settings: Settings) -> Demonstration:
    """Add partial sums in random orders, as atomic additions do, and count what comes out."""
    found = meet(settings, results())
    columns = [
        Column("splits", "d"),
        Column("results", "d"),
        Column("varying", ".1%"),
        Column("spread", ".2f"),
        Column("recorded", ".1%"),
    ]
    rows = [(m.splits, m.results, m.varying, m.spread, m.recorded) for m in found]
    shown = [m for m in found if m.recorded is not None]
    figure = Figure(
        "varying",
        "points",
        [
            Series(Label("simulated"), [m.splits for m in found], [100 * m.varying for m in found]),
            Series(Label("recorded"), [m.splits for m in shown], [100 * (m.recorded or 0.0) for m in shown], True),
        ],
        ("log2", "linear"),
    )
    observations = observe_atomics(found, settings.runs, results()["atomics"])
    return Demonstration("atomics", [Table("atomics", columns, rows)], observations, [figure])


def meet(settings: Settings, recorded: Mapping[str, Any]) -> list[Meeting]:
    """Every number of partial sums, with what was recorded of it."""
    rng = np.random.default_rng(settings.seed + 1)
    a, b = operands(rng, settings.rows, settings.depth)
    magnitude = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    measured = {row["splits"]: row["varying"] / row["outputs"] for row in recorded["atomics"]["rows"]}
    found = []
    for splits in settings.splits:
        partial = np.stack([serial(a[:, s], b[s]) for s in _ranges(settings.depth, splits)])
        outcomes = []
        for _ in range(settings.runs):
            # Every output's additions arrive in an order of their own.
            arrival = rng.random(partial.shape).argsort(axis=0)
            total = np.zeros(partial.shape[1:], np.float32)
            for arrived in np.take_along_axis(partial, arrival, axis=0):
                total = total + arrived
            outcomes.append(total)
        stack = np.stack(outcomes)
        spread = (stack.max(axis=0).astype(np.float64) - stack.min(axis=0)) / (U * magnitude)
        found.append(
            Meeting(
                splits,
                _different(list(stack)),
                float((bits(stack) != bits(stack[0])).any(axis=0).mean()),
                float(spread.max()),
                measured.get(splits),
            )
        )
    return found


def _ranges(depth: int, splits: int) -> list[slice]:
    """K in as many ranges, multiples of BLOCK_K but for the last; ranges without k are left out."""
    length = -(-depth // splits // BLOCK_K) * BLOCK_K
    return [slice(start, min(start + length, depth)) for start in range(0, depth, length)]


def observe_atomics(found: Sequence[Meeting], runs: int, recorded: Mapping[str, Any]) -> list[Observation]:
    """Whether one and two partial sums have one result, more have several, and a GPU agrees."""
    few = [m for m in found if m.splits <= 2]
    many = [m for m in found if m.splits > 2]
    most = found[-1]
    rows = recorded["rows"]
    steady = [str(row["splits"]) for row in rows if row["results"] == 1]
    return [
        Observation(
            "two",
            bool(few) and all(m.results == 1 for m in few),
            {"results": max((m.results for m in few), default=0)},
        ),
        Observation(
            "many",
            bool(many) and all(m.results > 1 for m in many),
            {"splits": most.splits, "results": most.results, "runs": runs, "varying": most.varying},
        ),
        Observation(
            "recorded",
            all(row["results"] == 1 for row in rows if row["splits"] <= 2) and any(row["results"] > 1 for row in rows),
            {
                "runs": rows[-1]["runs"],
                "steady": steady,
                "results": max(row["results"] for row in rows),
                "varying": max(row["varying"] / row["outputs"] for row in rows),
            },
        ),
    ]


# 3. A row that depends on its neighbours.


@dataclass(frozen=True)
class Row:
    """The first row of a product of several rows, under a policy that looks at their number.

    Attributes:
        rows: of the product.
        tiles: of its output.
        splits: ranges of K that the policy chooses.
        moved: outputs of the first row whose bits differ from those it has in the smallest product.
    """

    rows: int
    tiles: int
    splits: int
    moved: int


TILE = 128
COLUMNS = 4096
"""Columns of B, of which `width` are computed."""


def batches(settings: Settings) -> Demonstration:
    """The same row in products of more and more rows, by a policy that splits K to keep processors busy."""
    found = try_batches(settings)
    recorded = results()["batch"]
    columns = [Column("rows", "d"), Column("tiles", "d"), Column("splits", "d"), Column("moved", ".1%")]
    rows = [(r.rows, r.tiles, r.splits, r.moved / settings.width) for r in found]
    seen: list[tuple[Value, ...]] = [(name, len(recorded["rows"]), len(set(s))) for name, s in _recorded(recorded)]
    tables = [
        Table("batches", columns, rows),
        Table("recorded", [Column("product"), Column("sizes", "d"), Column("different", "d")], seen),
    ]
    return Demonstration("batches", tables, observe_batches(found, recorded))


def _recorded(recorded: Mapping[str, Any]) -> list[tuple[str, Sequence[str]]]:
    return list(recorded["first_row"].items())


def policy(rows: int, columns: int, processors: int) -> tuple[int, int]:
    """Tiles of a product, and into how many ranges K is split so that there is work for every processor.

    The policy is this lecture's; libraries have others, which they do not publish, with the same purpose.
    """
    tiles = math.ceil(rows / TILE) * math.ceil(columns / TILE)
    return tiles, max(1, min(16, processors // tiles))


def try_batches(settings: Settings) -> list[Row]:
    """The first row's bits for every number of rows."""
    rng = np.random.default_rng(settings.seed + 2)
    row = rng.uniform(-1, 1, (1, settings.depth)).astype(np.float32)
    b = rng.uniform(-1, 1, (settings.depth, settings.width)).astype(np.float32)

    def compute(splits: int) -> NDArray[np.uint32]:
        total = np.zeros((1, settings.width), np.float32)
        for part in _ranges(settings.depth, splits):
            total = total + serial(row[:, part], b[part])
        return bits(total)

    found = []
    first: NDArray[np.uint32] | None = None
    for rows in settings.batch:
        tiles, splits = policy(rows, COLUMNS, settings.processors)
        here = compute(splits)
        first = here if first is None else first
        found.append(Row(rows, tiles, splits, int((here != first).sum())))
    return found


def observe_batches(found: Sequence[Row], recorded: Mapping[str, Any]) -> list[Observation]:
    """Whether the policy moves bits, and which products of a GPU were seen to."""
    moved = [r for r in found if r.moved]
    classes = {name: len(set(sums)) for name, sums in _recorded(recorded)}
    library = {name: count for name, count in classes.items() if name.startswith("torch")}
    ours = {name: count for name, count in classes.items() if not name.startswith("torch")}
    most = max(library, key=lambda name: library[name])
    sizes, rows = recorded["rows"], recorded["first_row"]
    # The sizes from which on the library's FP32 row has the bits of a serial chain.
    equal = [one == other for one, other in zip(rows["torch.mm fp32"], rows["blocked fp32"], strict=True)]
    first = len(equal) - next((i for i, same in enumerate(reversed(equal)) if not same), len(equal))
    return [
        Observation(
            "policy",
            bool(moved) and len({r.splits for r in found}) > 1,
            {"moved": len(moved), "sizes": len(found)},
        ),
        Observation(
            "recorded",
            library[most] > 1 and all(count == 1 for count in ours.values()),
            {"name": most, "different": library[most], "sizes": len(sizes), "ours": list(ours)},
        ),
        Observation(
            "chain",
            0 < first < len(equal) and not any(equal[:first]),
            {"first": sizes[first] if first < len(equal) else 0, "last": sizes[-1]},
        ),
    ]


# 4. Sums that have no order.


@dataclass(frozen=True)
class Order:
    """One way to add, tried in several orders of the same terms.

    Attributes:
        key: its name in the catalogues.
        orders: how many were tried.
        results: different results in FP32.
        unrounded: different results before they were rounded to FP32.
        rms: error of the first, in units of u·sum|p|.
        order_free: whether theory promises one result.
    """

    key: str
    orders: int
    results: int
    unrounded: int
    rms: float
    order_free: bool


def exact_sums(settings: Settings) -> Demonstration:
    """The same products in many orders, by ways to add that round, round late, or do not round at all."""
    found = try_orders(settings)
    columns = [Column("way"), Column("orders", "d"), Column("results", "d"), Column("rms", ".3f"), Column("promised")]
    rows: list[tuple[Value, ...]] = [(Label(o.key), o.orders, o.results, o.rms, o.order_free) for o in found.values()]
    observations = observe_orders(found)
    return Demonstration("orders", [Table("orders", columns, rows)], observations)


def try_orders(settings: Settings) -> dict[str, Order]:
    """Different results and errors of every way to add."""
    rng = np.random.default_rng(settings.seed + 3)
    a, b = operands(rng, settings.rows, settings.depth)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    magnitude = np.abs(wide_a) @ np.abs(wide_b)
    # The correctly rounded dot products, from exact sums.
    exact = np.array([[float(exact_dot(row, column)) for column in wide_b.T] for row in wide_a])
    orders = [np.arange(settings.depth), *(rng.permutation(settings.depth) for _ in range(settings.orders - 1))]

    def doubles(order: NDArray[np.int_]) -> Array:
        total = np.zeros(exact.shape)
        for k in order:
            total += np.outer(wide_a[:, k], wide_b[k])
        return total

    ways: Mapping[str, tuple[bool, Callable[[NDArray[np.int_]], NDArray[Any]]]] = {
        "fp32": (False, lambda order: serial(a[:, order], b[order])),
        "fp64": (False, doubles),
        "digits": (True, lambda order: integer_product(a, b, order, splits=1 + int(order[0]) % 7)),
        "exactly": (True, lambda order: _exactly(wide_a, wide_b, order, exact.shape)),
    }
    found = {}
    for key, (order_free, way) in ways.items():
        # The exact way is slow, and two orders tell whether it has one.
        tried = orders[:2] if key == "exactly" else orders
        unrounded = [way(order) for order in tried]
        outcomes = [one.astype(np.float32) for one in unrounded]
        rms = float(np.sqrt((((outcomes[0] - exact) / (U * magnitude)) ** 2).mean()))
        found[key] = Order(key, len(tried), _different(outcomes), _different(unrounded), rms, order_free)
    return found


def _different(arrays: Sequence[NDArray[Any]]) -> int:
    """How many different arrays there are, bit for bit."""
    return len({one.tobytes() for one in arrays})


def _exactly(a: Array, b: Array, order: NDArray[np.int_], shape: tuple[int, ...]) -> Array:
    """Exact dot products, rounded once at their end, the products taken in an order."""
    return np.array([[float(exact_dot(a[m, order], b[order, n])) for n in range(shape[1])] for m in range(shape[0])])


def observe_orders(found: Mapping[str, Order]) -> list[Observation]:
    """Whether FP32 has several results, exact sums one, and what wider accumulators achieve."""
    free = [o for o in found.values() if o.order_free]
    plain, double = found["fp32"], found["fp64"]
    return [
        Observation("rounded", plain.results > 1, {"results": plain.results, "orders": plain.orders}),
        Observation(
            "free",
            all(o.results == 1 for o in free),
            {"ways": [Label(o.key) for o in free], "digits": found["digits"].rms, "fp32": plain.rms},
        ),
        Observation(
            "double",
            double.results == 1 < double.unrounded,
            {"results": double.results, "unrounded": double.unrounded, "orders": double.orders},
        ),
    ]


# 5. What becomes of a changed last bit.

VISIBLE = 0.1


@dataclass(frozen=True)
class Drift:
    """How far two runs of a recurrence are apart after each step: the root mean square over the state.

    Attributes:
        other: runs whose products are summed in different orders.
        same: runs whose products are summed in the same order.
        nudged: runs in the same order from starts that differ in their last bits.
    """

    other: list[float]
    same: list[float]
    nudged: list[float]


def consequences(settings: Settings) -> Demonstration:
    """Iterate x <- tanh(W x) with two orders of the sums in W x, and watch the two runs part."""
    found = iterate(settings)
    columns = [Column("pair"), Column("first", "d"), Column("visible", "d"), Column("last", ".1e")]
    lines = {"same": found.same, "other": found.other, "nudged": found.nudged}
    rows: list[tuple[Value, ...]] = [
        (Label(key), _beyond(line, 0), _beyond(line, VISIBLE), line[-1]) for key, line in lines.items()
    ]
    series = []
    for number, key in enumerate(("other", "nudged")):
        steps = [i + 1 for i, distance in enumerate(lines[key]) if distance > 0]
        series.append(Series(Label(key), steps, [lines[key][i - 1] for i in steps], dashed=bool(number)))
    figure = Figure("drift", "line", series, ("linear", "log"))
    observations = observe_drift(found, settings.steps)
    return Demonstration("consequences", [Table("drift", columns, rows)], observations, [figure])


def iterate(settings: Settings) -> Drift:
    """Run the recurrence in FP32 in two orders, twice in one order, and from the next larger start."""
    rng = np.random.default_rng(settings.seed + 4)
    n = settings.width
    weights = (settings.gain / 100 * rng.standard_normal((n, n)) / math.sqrt(n)).astype(np.float32)
    start = rng.uniform(-1, 1, n).astype(np.float32)
    nudged = np.nextafter(start, np.float32(2))

    def run(x: Matrix, splits: int) -> list[Matrix]:
        path = []
        for _ in range(settings.steps):
            parts = np.array_split(weights * x, splits, axis=1)
            total = np.zeros(n, np.float32)
            for part in parts:
                total = total + np.add.accumulate(part, axis=1, dtype=np.float32)[:, -1]
            x = np.tanh(total.astype(np.float64)).astype(np.float32)
            path.append(x)
        return path

    one, again, two, moved = run(start, 1), run(start, 1), run(start, 2), run(nudged, 1)

    def apart(path: list[Matrix]) -> list[float]:
        distances = (x.astype(np.float64) - y for x, y in zip(one, path, strict=True))
        return [float(np.sqrt((distance**2).mean())) for distance in distances]

    return Drift(apart(two), apart(again), apart(moved))


def _beyond(line: Sequence[float], limit: float) -> int | None:
    """The first step at which a distance exceeds a limit."""
    return next((i + 1 for i, distance in enumerate(line) if distance > limit), None)


def observe_drift(found: Drift, steps: int) -> list[Observation]:
    """Whether another order grows into another result, the same order does not, and a last bit does as much."""
    first, visible = _beyond(found.other, 0), _beyond(found.other, VISIBLE)
    nudged = _beyond(found.nudged, VISIBLE)
    return [
        Observation("same", not any(found.same), {"steps": steps}),
        Observation(
            "other",
            first is not None and visible is not None,
            {"first": first or 0, "visible": visible or 0, "last": found.other[-1], "steps": steps},
        ),
        Observation(
            "nudged",
            visible is not None and nudged is not None,
            {"nudged": nudged or 0, "visible": visible or 0},
        ),
    ]


DEMONSTRATIONS: tuple[Callable[[Settings], Demonstration], ...] = (
    changes,
    atomics,
    batches,
    exact_sums,
    consequences,
)

LECTURE = Lecture("reproducibility", Settings, DEMONSTRATIONS)
