"""Lecture: FpSan. Payloads instead of floats: what they keep, what they lose, and which bugs they find without a GPU.

Four demonstrations: what becomes of a number; sums whose order no longer matters; identities that hold and that do not;
and a kernel with planted bugs, judged by a tolerance, by payloads, and by the bounds of its memory accesses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import fpsan_tools
from fpsan_tools.algebra import Algebra, get
from numfmt_lectures.lecture import Lecture
from numfmt_lectures.planted import BUGS, product
from numfmt_lectures.report import Column, Demonstration, Figure, Label, Observation, Series, Table, Value

__all__ = ["LECTURE", "Settings"]

VERSION = "3.9"
_FP32 = np.float32
Payloads = NDArray[Any]


@dataclass(frozen=True)
class Settings:
    """Sizes and seeds.

    Attributes:
        seed: of every random generator.
        terms: of the sums that are reordered.
        orders: random orders of each sum.
        trials: random operands of each identity.
        rows: of the products with planted bugs.
        columns: of the products with planted bugs.
        depth: products per output.
    """

    seed: int = 0
    terms: int = 1000
    orders: int = 200
    trials: int = 10_000
    rows: int = 19
    columns: int = 21
    depth: int = 67

    @classmethod
    def quick(cls) -> Self:
        """Fewer orders and trials."""
        return cls(orders=50, trials=2_000)


# 1. What becomes of a number.

NUMBERS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 3.0, float("inf"))


def embedding(_: Settings) -> Demonstration:
    """The payloads of a few numbers, in two versions of Triton."""
    newer, older = get(VERSION), get("3.8")
    values = np.array(NUMBERS, _FP32)
    payloads, before = newer.embed(values, "fp32"), older.embed(values, "fp32")
    columns = [Column("number", "g"), Column("bits"), Column("payload"), Column("older")]
    rows = [
        (float(x), f"{int(b):08X}", f"{int(p):08X}", f"{int(q):08X}")
        for x, b, p, q in zip(values, values.view(np.uint32), payloads, before, strict=True)
    ]
    back = newer.unembed(payloads, "fp32")
    payload_of = {x: int(p) for x, p in zip(NUMBERS, payloads, strict=True)}
    return Demonstration(
        "embedding",
        [Table("payloads", columns, rows)],
        observe_embedding(payload_of, bool((back == values.view(np.uint32)).all())),
        [Figure("scatter", "scatter", [scattered(newer)])],
    )


def scattered(algebra: Algebra) -> Series:
    """The payloads of a ramp of numbers, as signed integers in units of 2^31."""
    ramp = np.linspace(-4, 4, 401).astype(_FP32)
    payloads = algebra.embed(ramp, "fp32").view(np.int32)
    return Series("E(x)", ramp.tolist(), (payloads / 2.0**31).tolist())


def observe_embedding(payload_of: Mapping[float, int], returns: bool) -> list[Observation]:
    """What the embedding keeps (0, 1, the sign, every bit pattern) and what it does not (2)."""
    return [
        Observation("units", payload_of[0.0] == 0 and payload_of[1.0] == 1, {"one": payload_of[1.0]}),
        Observation(
            "sign",
            all((payload_of[x] + payload_of[-x]) % 2**32 == 0 for x in (1.0, 2.0)),
            {"two": payload_of[2.0], "minus_two": payload_of[-2.0]},
        ),
        Observation("two", payload_of[2.0] != 2, {"two": payload_of[2.0]}),
        Observation("bijective", returns),
    ]


# 2. Order no longer matters.


@dataclass(frozen=True)
class Orders:
    """Results of one sum in many orders."""

    orders: int
    floats: int
    payloads: int
    spread: float
    terms: int
    hidden: int
    missed: int


def reordering(settings: Settings) -> Demonstration:
    """One sum in many orders, in floats and in payloads; then the same sum with a term missing."""
    found = reorder(settings)
    columns = [Column("arithmetic"), Column("orders", "d"), Column("results", "d"), Column("missed", "d")]
    rows: list[tuple[Value, ...]] = [
        (Label("floats"), found.orders, found.floats, found.hidden),
        (Label("payloads"), found.orders, found.payloads, found.missed),
    ]
    return Demonstration("reordering", [Table("orders", columns, rows)], observe_orders(found))


def reorder(settings: Settings) -> Orders:
    """Count the different results of a sum, and the terms whose loss would not show among them."""
    rng = np.random.default_rng(settings.seed)
    # Magnitudes over several decades, as activations have.
    values = (rng.standard_normal(settings.terms) * 10.0 ** rng.uniform(-6, 0, settings.terms)).astype(_FP32)
    orders = np.stack([rng.permutation(settings.terms) for _ in range(settings.orders)])
    floats = np.add.accumulate(values[orders], axis=1, dtype=_FP32)[:, -1]
    algebra = get(VERSION)
    payloads = algebra.embed(values, "fp32")
    sums = algebra.sum(payloads[orders], axis=1)
    spread = float(floats.max()) - float(floats.min())
    # A term that changes the sum by less than its order does cannot be missed by a comparison of floats.
    hidden = int((np.abs(values.astype(np.float64)) <= spread).sum())
    missed = int((algebra.sub(sums[0], payloads) == sums[0]).sum())
    return Orders(settings.orders, len(np.unique(floats)), len(np.unique(sums)), spread, settings.terms, hidden, missed)


def observe_orders(found: Orders) -> list[Observation]:
    """Whether floats depended on the order and payloads did not, and who would miss a lost term."""
    return [
        Observation(
            "order",
            found.floats > 1 == found.payloads,
            {"floats": found.floats, "payloads": found.payloads, "orders": found.orders},
        ),
        Observation(
            "missing",
            found.hidden > 0 == found.missed,
            {"hidden": found.hidden, "missed": found.missed, "terms": found.terms, "spread": found.spread},
        ),
    ]


# 3. Identities kept and lost.


@dataclass(frozen=True)
class Kept:
    """How often an identity held exactly, for payloads and for FP32 numbers (None where floats were not tried)."""

    identity: str
    group: str
    payloads: float
    floats: float | None


def identities(settings: Settings) -> Demonstration:
    """Try identities on random operands."""
    found = try_identities(settings, get(VERSION))
    columns = [Column("identity"), Column("payloads", ".2%"), Column("floats", ".2%")]
    table = Table("identities", columns, [(k.identity, k.payloads, k.floats) for k in found])
    return Demonstration("identities", [table], observe_identities(found))


@dataclass(frozen=True)
class Arithmetic:
    """The operations that identities are written in, of payloads or of FP32 numbers."""

    number: Callable[[float], Any]
    add: Callable[[Any, Any], Any]
    mul: Callable[[Any, Any], Any]
    div: Callable[[Any, Any], Any]
    neg: Callable[[Any], Any]
    exp: Callable[[Any], Any]
    exp2: Callable[[Any], Any]
    log: Callable[[Any], Any]
    cos: Callable[[Any], Any]
    sin: Callable[[Any], Any]


Side = Callable[[Arithmetic, Any, Any, Any], Any]


@dataclass(frozen=True)
class Identity:
    """Two expressions in x, y and z that are equal for real numbers.

    Attributes:
        text: how it is written.
        group: what is expected of it: `ring`, `division`, `functions` (kept) or `lost`.
        left: one side.
        right: the other.
        parity: last bit of y's payload where that matters; such an identity is not tried in floats.
    """

    text: str
    group: str
    left: Side
    right: Side
    parity: int | None = None


IDENTITIES = (
    Identity(
        "(x + y) + z = x + (y + z)",
        "ring",
        lambda r, x, y, z: r.add(r.add(x, y), z),
        lambda r, x, y, z: r.add(x, r.add(y, z)),
    ),
    Identity(
        "x·(y + z) = x·y + x·z",
        "ring",
        lambda r, x, y, z: r.mul(x, r.add(y, z)),
        lambda r, x, y, z: r.add(r.mul(x, y), r.mul(x, z)),
    ),
    Identity(
        "(x·y)·z = x·(y·z)",
        "ring",
        lambda r, x, y, z: r.mul(r.mul(x, y), z),
        lambda r, x, y, z: r.mul(x, r.mul(y, z)),
    ),
    Identity(
        "(x + y)/z = x/z + y/z",
        "division",
        lambda r, x, y, z: r.div(r.add(x, y), z),
        lambda r, x, y, z: r.add(r.div(x, z), r.div(y, z)),
    ),
    Identity(
        "1/(1/x) = x",
        "division",
        lambda r, x, y, z: r.div(r.number(1), r.div(r.number(1), x)),
        lambda r, x, y, z: x,
    ),
    Identity("x·y/y = x, odd y", "division", lambda r, x, y, z: r.div(r.mul(x, y), y), lambda r, x, y, z: x, 1),
    Identity(
        "exp2(x + y) = exp2(x)·exp2(y)",
        "functions",
        lambda r, x, y, z: r.exp2(r.add(x, y)),
        lambda r, x, y, z: r.mul(r.exp2(x), r.exp2(y)),
    ),
    Identity(
        "exp(-x) = 1/exp(x)",
        "functions",
        lambda r, x, y, z: r.exp(r.neg(x)),
        lambda r, x, y, z: r.div(r.number(1), r.exp(x)),
    ),
    Identity(
        "cos²(x) + sin²(x) = 1",
        "functions",
        lambda r, x, y, z: r.add(r.mul(r.cos(x), r.cos(x)), r.mul(r.sin(x), r.sin(x))),
        lambda r, x, y, z: r.number(1),
    ),
    Identity(
        "sin(x + y) = sin(x)·cos(y) + cos(x)·sin(y)",
        "functions",
        lambda r, x, y, z: r.sin(r.add(x, y)),
        lambda r, x, y, z: r.add(r.mul(r.sin(x), r.cos(y)), r.mul(r.cos(x), r.sin(y))),
    ),
    Identity("x·y/y = x, even y", "lost", lambda r, x, y, z: r.div(r.mul(x, y), y), lambda r, x, y, z: x, 0),
    Identity("x + x = 2·x", "lost", lambda r, x, y, z: r.add(x, x), lambda r, x, y, z: r.mul(r.number(2), x)),
    Identity(
        "x·0.5 = x/2",
        "lost",
        lambda r, x, y, z: r.mul(x, r.number(0.5)),
        lambda r, x, y, z: r.div(x, r.number(2)),
    ),
    Identity("log(exp(x)) = x", "lost", lambda r, x, y, z: r.log(r.exp(x)), lambda r, x, y, z: x),
)


def payload_arithmetic(algebra: Algebra) -> Arithmetic:
    """FpSan's arithmetic of FP32 payloads."""
    return Arithmetic(
        number=lambda value: algebra.embed(np.array(value, _FP32), "fp32"),
        add=algebra.add,
        mul=algebra.mul,
        div=algebra.div,
        neg=algebra.neg,
        exp=algebra.exp,
        exp2=algebra.exp2,
        log=lambda x: algebra.tagged("log", x),
        cos=algebra.cos,
        sin=algebra.sin,
    )


FLOATS = Arithmetic(_FP32, np.add, np.multiply, np.divide, np.negative, np.exp, np.exp2, np.log, np.cos, np.sin)


def try_identities(settings: Settings, algebra: Algebra) -> list[Kept]:
    """The share of random operands for which each identity holds, in the algebra and in FP32."""
    rng = np.random.default_rng(settings.seed)
    numbers = rng.uniform(0.5, 2.0, (3, settings.trials)).astype(_FP32)
    x, y, z = algebra.embed(numbers, "fp32")
    rules = payload_arithmetic(algebra)

    def share(identity: Identity, arithmetic: Arithmetic, *operands: Payloads) -> float:
        return float((identity.left(arithmetic, *operands) == identity.right(arithmetic, *operands)).mean())

    found = []
    for identity in IDENTITIES:
        if identity.parity is None:
            found.append(
                Kept(identity.text, identity.group, share(identity, rules, x, y, z), share(identity, FLOATS, *numbers))
            )
        else:
            parity = (y & ~np.uint32(1)) | np.uint32(identity.parity)
            found.append(Kept(identity.text, identity.group, share(identity, rules, x, parity, z), None))
    for keys in (7, 8):
        text = f"softmax(s - max s) = softmax(s), {keys} keys"
        scores = algebra.embed(rng.standard_normal((settings.trials // 10 + 1, keys)).astype(_FP32), "fp32")
        found.append(Kept(text, "softmax", softmax_share(algebra, scores), None))
    return found


def softmax_share(algebra: Algebra, scores: Payloads) -> float:
    """The share of the weights of softmax, over the last axis, that do not change when the maximum is subtracted."""

    def softmax(s: Payloads) -> Payloads:
        weights = algebra.exp(s)
        return algebra.div(weights, algebra.sum(weights, axis=-1, keepdims=True))

    shifted = algebra.sub(scores, algebra.max(scores, axis=-1, keepdims=True))
    return float((softmax(shifted) == softmax(scores)).mean())


def observe_identities(found: Sequence[Kept]) -> list[Observation]:
    """Which groups of identities held without exception, and which did not hold at all."""

    def group(name: str) -> list[Kept]:
        return [k for k in found if k.group == name]

    odd, even = group("softmax")
    exact = [k for k in found if k.floats == 1]
    return [
        Observation(
            "ring",
            all(k.payloads == 1 for k in group("ring")) and all((k.floats or 0) < 1 for k in group("ring")),
            {"payloads": min(k.payloads for k in group("ring")), "floats": max(k.floats or 0 for k in group("ring"))},
        ),
        Observation(
            "functions",
            all(k.payloads == 1 for k in (*group("division"), *group("functions"))),
            {"worst": min(k.payloads for k in (*group("division"), *group("functions")))},
        ),
        Observation("softmax", odd.payloads == 1 > even.payloads, {"odd": odd.payloads, "even": even.payloads}),
        Observation(
            "lost",
            all(k.payloads < 0.5 for k in group("lost")) and bool(exact),
            {"most": max(k.payloads for k in group("lost")), "exact": [k.identity for k in exact]},
        ),
    ]


# 4. Planted bugs.


@dataclass(frozen=True)
class Judged:
    """What three judges say of one kernel: a tolerance, payloads, and the bounds of memory accesses."""

    bug: str
    error: float | None
    close: bool | None
    same: bool | None
    inside: bool


TOLERANCE = 1e-4


def planted_bugs(settings: Settings) -> Demonstration:
    """Judge a sound kernel, the same in other tiles, and its buggy variants, on the CPU."""
    found = [judge(bug, settings) for bug in BUGS]
    other = judge("none", settings, block=32, block_k=16)
    columns = [Column("kernel"), Column("error", ".1e"), Column("close"), Column("same"), Column("inside")]
    labels = [Label(f"bug_{bug}") for bug in BUGS]
    labels.insert(1, Label("bug_other_tiles"))
    judged = [found[0], other, *found[1:]]
    rows: list[tuple[Value, ...]] = [
        (label, j.error, j.close, j.same, j.inside) for label, j in zip(labels, judged, strict=True)
    ]
    return Demonstration("planted", [Table("judges", columns, rows)], observe_judges(found[0], other, found[1:]))


def operands(settings: Settings) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Random matrices whose later products matter less and less, as attention weights far from the query do."""
    rng = np.random.default_rng(settings.seed)
    decay = 2.0 ** (-np.arange(settings.depth) / 4)
    a = rng.uniform(-1, 1, (settings.rows, settings.depth)) * decay
    b = rng.uniform(-1, 1, (settings.depth, settings.columns))
    return a.astype(_FP32), b.astype(_FP32)


def judge(bug: str, settings: Settings, block: int = 16, block_k: int = 32) -> Judged:
    """Run a kernel in both arithmetics and compare: floats with float64, payloads with the algebra's own product."""
    a, b = operands(settings)
    algebra = get(VERSION)
    expected = algebra.matmul(algebra.embed(a, "fp32"), algebra.embed(b, "fp32"), dtype="fp32")
    exact = a.astype(np.float64) @ b.astype(np.float64)
    try:
        payloads = algebra.embed(_run(bug, a, b, "payload", block, block_k).view(np.uint32), "fp32")
        floats = _run(bug, a, b, "ieee", block, block_k)
    except fpsan_tools.OutOfBounds:
        return Judged(bug, None, None, None, False)
    error = float(np.abs(floats - exact).max())
    close = bool(np.allclose(floats, exact, TOLERANCE, TOLERANCE))
    return Judged(bug, error, close, bool((payloads == expected).all()), True)


def _run(
    bug: str, a: NDArray[np.float32], b: NDArray[np.float32], domain: str, block: int, block_k: int
) -> NDArray[np.float32]:
    c = np.zeros((a.shape[0], b.shape[1]), _FP32)
    with fpsan_tools.on_cpu(domain, version=VERSION if domain == "payload" else None):
        product(a, b, c, bug, block, block_k)
    return c


def observe_judges(sound: Judged, other: Judged, bugs: Sequence[Judged]) -> list[Observation]:
    """Which bugs each judge found, and whether the sound kernels pass."""
    by_floats = [j.bug for j in bugs if j.close is False]
    by_payloads = [j.bug for j in bugs if j.same is False]
    by_bounds = [j.bug for j in bugs if not j.inside]
    slipped = [j.bug for j in bugs if j.close is True]
    unfound = [j.bug for j in bugs if j.inside and j.close is not False and j.same is not False]
    return [
        Observation(
            "sound",
            all(j.close is True and j.same is True and j.inside for j in (sound, other)),
            {"error": max(sound.error or 0.0, other.error or 0.0)},
        ),
        Observation(
            "payloads",
            bool(slipped) and set(slipped) <= set(by_payloads),
            {"found": len(by_payloads), "floats": len(by_floats), "slipped": _names(slipped)},
        ),
        Observation(
            "bounds",
            bool(by_bounds) and not set(by_bounds) & set(by_payloads),
            {"bounds": _names(by_bounds)},
        ),
        Observation("all_found", not unfound, {"bugs": len(bugs), "unfound": _names(unfound)}),
    ]


def _names(bugs: Sequence[str]) -> list[Label]:
    return [Label(f"bug_{bug}") for bug in bugs]


DEMONSTRATIONS: tuple[Callable[[Settings], Demonstration], ...] = (embedding, reordering, identities, planted_bugs)

LECTURE = Lecture("fpsan", Settings, DEMONSTRATIONS)
