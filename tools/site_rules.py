"""The rule table of FpSan's payload algebra, written from the code of `fpsan_tools.algebra`.

Rules are the first paragraphs of the functions that compute them, examples are computed, and every identity is tried on
payloads of each width and version before the page says that it holds, or where.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

import numfmt
from fpsan_tools import algebra
from fpsan_tools.algebra import FLOAT_TYPES, VERSIONS, Algebra, FloatType, embedding, functions, ring
from fpsan_tools.algebra.embedding import embedding_constants
from fpsan_tools.ttir import coverage
from fpsan_tools.ttir.parser import parse

FORMATS = {
    "fp64": numfmt.FP64, "fp32": numfmt.FP32, "fp16": numfmt.FP16, "bf16": numfmt.BF16,
    "fp8e4m3fn": numfmt.FP8_E4M3, "fp8e5m2": numfmt.FP8_E5M2,
}  # fmt: skip
X, Y = 1.5, 3.0


def constant(rules: Algebra, kind: str, value: float) -> Any:
    """The payload of a number in a type, an array of one element."""
    bits = np.asarray([FORMATS[kind].encode(value)]).astype(FLOAT_TYPES[kind].unsigned)
    return rules.embed(bits, kind)


@dataclass(frozen=True)
class Rule:
    """A row of the table of operations.

    Attributes:
        name: the algebra's method.
        written: how kernels write it.
        source: what computes it; its docstring is the rule.
        example: gives the payload of an example in fp32, None where one says nothing.
    """

    name: str
    written: str
    source: Callable[..., Any]
    example: Callable[[Algebra, Any, Any], Any] | None = None


def _each(names: dict[str, str]) -> dict[str, Callable[[Algebra, Any, Any], Any]]:
    return {name: (lambda r, x, y, op=op: r.unary(op, x)) for name, op in names.items()}


OPERATIONS = [
    Rule("embed", "x, loaded or a constant", embedding.embed, lambda r, x, y: x),
    Rule("unembed", "what a store leaves in memory", embedding.unembed),
    Rule("add", "x + y", ring.add, lambda r, x, y: r.add(x, y)),
    Rule("sub", "x - y", ring.sub, lambda r, x, y: r.sub(x, y)),
    Rule("neg", "-x", ring.neg, lambda r, x, y: r.neg(x)),
    Rule("mul", "x * y", ring.mul, lambda r, x, y: r.mul(x, y)),
    Rule("fma", "tl.fma(x, y, x)", ring.fma, lambda r, x, y: r.fma(x, y, x)),
    Rule("inv", "1 / y, as a rule of its own", ring.inv, lambda r, x, y: r.inv(y)),
    Rule("div", "x / y, tl.div_rn, tl.fdiv", ring.div, lambda r, x, y: r.div(x, y)),
    Rule("rem", "x % y", ring.rem, lambda r, x, y: r.rem(x, y)),
    Rule("maximum", "tl.maximum(x, y)", ring.maximum, lambda r, x, y: r.maximum(x, y)),
    Rule("minimum", "tl.minimum(x, y)", ring.minimum, lambda r, x, y: r.minimum(x, y)),
    Rule("clamp", "tl.clamp(x, low, high)", Algebra.clamp, lambda r, x, y: r.clamp(x, x, y, "fp32")),
    Rule("sum", "tl.sum", ring.total, lambda r, x, y: r.sum(np.array([x, y]))),
    Rule("cumsum", "tl.cumsum", ring.cumulative),
    Rule("max", "tl.max", ring.largest),
    Rule("min", "tl.min", ring.smallest),
    Rule("exp2", "tl.exp2(x)", functions.exp2, lambda r, x, y: r.exp2(x)),
    Rule("exp", "tl.exp(x)", functions.exp, lambda r, x, y: r.exp(x)),
    Rule("cos_sin", "tl.cos(x), tl.sin(x)", functions.cos_sin),
    Rule("cos", "tl.cos(x)", functions.cos, lambda r, x, y: r.cos(x)),
    Rule("sin", "tl.sin(x)", functions.sin, lambda r, x, y: r.sin(x)),
    Rule("tagged", f"tl.{', '.join(functions.TAG_IDS)}", functions.tag, lambda r, x, y: r.unary("log", x)),
    Rule("extern", "libdevice.f(x, ...)", Algebra.extern, lambda r, x, y: r.extern("__nv_tanhf", [x], "fp32")),
    Rule("inline_asm", "tl.inline_asm_elementwise, pure", Algebra.inline_asm),
    Rule("cast", "x.to(dtype)", Algebra.cast, lambda r, x, y: r.cast(x, "fp16")),
    Rule("widen", "x.to(wider)", embedding.widen),
    Rule("unpack_fp4", "packed e2m1", embedding.unpack_fp4),
    Rule("matmul", "tl.dot(a, b, c)", Algebra.matmul, lambda r, x, y: r.matmul(x[None], y[None], dtype="fp32")[0]),
    Rule("scale_payload", "an e8m0 scale of tl.dot_scaled", Algebra.scale_payload),
    Rule("scaled_operand", "one side of tl.dot_scaled", Algebra.scaled_operand),
    Rule("dot_scaled", "tl.dot_scaled", Algebra.dot_scaled),
    Rule("absolute", "tl.abs(x)", Algebra.absolute, lambda r, x, y: r.absolute(r.neg(x), "fp32")),
]  # fmt: skip
# Ways to call other rules by name, and facts; no rules of their own.
OTHERS = {"unary", "float_types"}

WIDE, NARROW = "fp32", "fp16"


@dataclass(frozen=True)
class Term:
    """Payloads with the operators of the algebra, so that an identity is written as its formula."""

    rules: Algebra
    payload: Any

    def _of(self, payload: Any) -> Term:
        return Term(self.rules, payload)

    def __add__(self, other: Term) -> Term:
        return self._of(self.rules.add(self.payload, other.payload))

    def __sub__(self, other: Term) -> Term:
        return self._of(self.rules.sub(self.payload, other.payload))

    def __mul__(self, other: Term) -> Term:
        return self._of(self.rules.mul(self.payload, other.payload))

    def __truediv__(self, other: Term) -> Term:
        return self._of(self.rules.div(self.payload, other.payload))

    def __neg__(self) -> Term:
        return self._of(self.rules.neg(self.payload))

    def apply(self, op: str) -> Term:
        """A unary operation by name."""
        return self._of(self.rules.unary(op, self.payload))

    def to(self, kind: str) -> Term:
        """A conversion."""
        return self._of(self.rules.cast(self.payload, kind))

    @property
    def odd(self) -> Any:
        """Whether the payloads are odd, elementwise."""
        return (self.payload & self.payload.dtype.type(1)).astype(bool)


def inv(x: Term) -> Term:
    """1/x."""
    return x.apply("inv")


def exp(x: Term) -> Term:
    """e to the x."""
    return x.apply("exp")


def exp2(x: Term) -> Term:
    """2 to the x."""
    return x.apply("exp2")


def sin(x: Term) -> Term:
    """The sine."""
    return x.apply("sin")


def cos(x: Term) -> Term:
    """The cosine."""
    return x.apply("cos")


def log(x: Term) -> Term:
    """The natural logarithm."""
    return x.apply("log")


def sqrt(x: Term) -> Term:
    """The square root."""
    return x.apply("sqrt")


def maximum(x: Term, y: Term) -> Term:
    """The larger payload."""
    return Term(x.rules, x.rules.maximum(x.payload, y.payload))


def fma(x: Term, y: Term, z: Term) -> Term:
    """x·y + z."""
    return Term(x.rules, x.rules.fma(x.payload, y.payload, z.payload))


@dataclass(frozen=True)
class Trial:
    """Operands on which an identity is tried.

    Attributes:
        rules: the algebra.
        kind: name of the operands' float type.
        x: payloads, as are y and z.
    """

    rules: Algebra
    kind: str
    x: Term
    y: Term
    z: Term

    def number(self, value: float) -> Term:
        """The payload of a constant."""
        return Term(self.rules, constant(self.rules, self.kind, value))


Side = Callable[[Trial], Term]


@dataclass(frozen=True)
class Identity:
    """A formula of real numbers, and where it holds for payloads.

    Attributes:
        text: the formula.
        left: its left side.
        right: its right side.
        where: "always", "never", or words for the condition `given`.
        given: whether it holds, elementwise or for all, unless always or never.
        kinds: the float types it speaks of.
        note: what to know about it.
    """

    text: str
    left: Side
    right: Side
    where: str = "always"
    given: Callable[[Trial], Any] | None = None
    kinds: tuple[str, ...] = ("fp64", "fp32", "fp16", "bf16", "fp8e4m3fn", "fp8e5m2")
    note: str = ""


def softmax(keys: list[Term], shift: Term | None = None) -> Term:
    """The first of the keys' softmax values, something subtracted from all of them or not."""
    first, *others = [exp(key if shift is None else key - shift) for key in keys]
    total = first
    for power in others:
        total = total + power
    return first / total


def sigmoid(t: Trial, x: Term) -> Term:
    """1/(1 + exp(-x))."""
    return t.number(1) / (t.number(1) + exp(-x))


def mean(t: Trial, values: list[Term]) -> Term:
    """The mean of three values, divided by the constant 3.0."""
    x, y, z = values
    return (x + y + z) / t.number(3)


def deviations(t: Trial) -> list[Term]:
    """Squared differences from the mean."""
    values = [t.x, t.y, t.z]
    centre = mean(t, values)
    return [(v - centre) * (v - centre) for v in values]


def truncates(t: Trial) -> bool:
    """Whether narrowing casts truncate."""
    return not t.rules.mixing_casts


TRUNCATING = "truncating casts (3.8, 3.9-homomorphic)"
IDENTITIES = [
    Identity(
        "(x + y) + z = x + (y + z)",
        lambda t: (t.x + t.y) + t.z,
        lambda t: t.x + (t.y + t.z),
        note="so every order of a sum is the same: tiles, lanes, trees, split-K",
    ),
    Identity("x·y = y·x", lambda t: t.x * t.y, lambda t: t.y * t.x),
    Identity(
        "x·(y + z) = x·y + x·z",
        lambda t: t.x * (t.y + t.z),
        lambda t: t.x * t.y + t.x * t.z,
        note="a scale may be applied before or after a sum",
    ),
    Identity("fma(x, y, z) = x·y + z", lambda t: fma(t.x, t.y, t.z), lambda t: t.x * t.y + t.z),
    Identity("x - y = x + (-y)", lambda t: t.x - t.y, lambda t: t.x + (-t.y)),
    Identity(
        "x + x = 2·x",
        lambda t: t.x + t.x,
        lambda t: t.number(2) * t.x,
        "never",
        note="2.0 is a constant like any other: its payload is not 2",
    ),
    Identity(
        "1/(1/x) = x",
        lambda t: inv(inv(t.x)),
        lambda t: t.x,
        note="8- and 16-bit floats are divided in fp32 and narrowed, which loses this with mixing casts",
    ),
    Identity("(x + y)/z = x/z + y/z", lambda t: (t.x + t.y) / t.z, lambda t: t.x / t.z + t.y / t.z),
    Identity("x·y/y = x", lambda t: t.x * t.y / t.y, lambda t: t.x, "odd payloads of y", lambda t: t.y.odd),
    Identity(
        "1/(x·y) = (1/x)·(1/y)",
        lambda t: inv(t.x * t.y),
        lambda t: inv(t.x) * inv(t.y),
        "odd payloads of x and y",
        lambda t: t.x.odd & t.y.odd,
    ),
    Identity("x·0.5 = x/2", lambda t: t.x * t.number(0.5), lambda t: t.x / t.number(2), "never"),
    Identity(
        "exp2(x + y) = exp2(x)·exp2(y)",
        lambda t: exp2(t.x + t.y),
        lambda t: exp2(t.x) * exp2(t.y),
        note="online softmax equals one-shot softmax with the same final maximum",
    ),
    Identity("exp(x + y) = exp(x)·exp(y)", lambda t: exp(t.x + t.y), lambda t: exp(t.x) * exp(t.y)),
    Identity("exp(-x) = 1/exp(x)", lambda t: exp(-t.x), lambda t: inv(exp(t.x))),
    Identity(
        "exp2(x·log2(e)) = exp(x)",
        lambda t: exp2(t.x * t.number(1.4426950408889634)),
        lambda t: exp(t.x),
        "fp32",
        lambda t: t.kind == "fp32",
        note="the constant of exp is that of fp32 at every width",
    ),
    Identity("log(exp(x)) = x", lambda t: log(exp(t.x)), lambda t: t.x, "never"),
    Identity("log(x·y) = log(x) + log(y)", lambda t: log(t.x * t.y), lambda t: log(t.x) + log(t.y), "never"),
    Identity("sqrt(x)·sqrt(x) = x", lambda t: sqrt(t.x) * sqrt(t.x), lambda t: t.x, "never"),
    Identity("rsqrt(x) = 1/sqrt(x)", lambda t: t.x.apply("rsqrt"), lambda t: inv(sqrt(t.x)), "never"),
    Identity("cos²(x) + sin²(x) = 1", lambda t: cos(t.x) * cos(t.x) + sin(t.x) * sin(t.x), lambda t: t.number(1)),
    Identity(
        "cos(x + y) = cos(x)·cos(y) - sin(x)·sin(y)",
        lambda t: cos(t.x + t.y),
        lambda t: cos(t.x) * cos(t.y) - sin(t.x) * sin(t.y),
        note="rotary embeddings in any form",
    ),
    Identity("sin(-x) = -sin(x)", lambda t: sin(-t.x), lambda t: -sin(t.x)),
    Identity(
        "sigmoid(-x) = 1 - sigmoid(x)",
        lambda t: sigmoid(t, -t.x),
        lambda t: t.number(1) - sigmoid(t, t.x),
        "never",
        note="1 + exp(x) is even, and even payloads have no true inverse",
    ),
    Identity(
        "softmax of 3 keys = softmax of the keys minus one of them",
        lambda t: softmax([t.x, t.y, t.z]),
        lambda t: softmax([t.x, t.y, t.z], t.z),
        note="any odd number of keys: the sum of their exponentials is odd",
    ),
    Identity(
        "softmax of 2 keys = softmax of the keys minus one of them",
        lambda t: softmax([t.x, t.y]),
        lambda t: softmax([t.x, t.y], t.y),
        "never",
        note="an even number of exponentials has an even sum: test with odd lengths",
    ),
    Identity(
        "mean of squares - square of the mean = mean of squared differences",
        lambda t: mean(t, [t.x * t.x, t.y * t.y, t.z * t.z]) - mean(t, [t.x, t.y, t.z]) * mean(t, [t.x, t.y, t.z]),
        lambda t: mean(t, deviations(t)),
        "never",
        note="n is a constant whose payload is not n: compare variances of one form",
    ),
    Identity(
        "max(x, y) + z = max(x + z, y + z)",
        lambda t: maximum(t.x, t.y) + t.z,
        lambda t: maximum(t.x + t.z, t.y + t.z),
        "never",
        note="payloads wrap around, so their order does not survive a sum",
    ),
    Identity("x to fp32 to fp16 = x, for x in fp16", lambda t: t.x.to(WIDE).to(NARROW), lambda t: t.x, kinds=(NARROW,)),
    Identity(
        "narrow(x + y) = narrow(x) + narrow(y), fp32 to fp16",
        lambda t: (t.x + t.y).to(NARROW),
        lambda t: t.x.to(NARROW) + t.y.to(NARROW),
        TRUNCATING,
        truncates,
        kinds=(WIDE,),
        note="a sum that is narrowed once, or part by part",
    ),
    Identity(
        "fp32 to fp8 = fp32 to fp16 to fp8",
        lambda t: t.x.to("fp8e5m2"),
        lambda t: t.x.to(NARROW).to("fp8e5m2"),
        TRUNCATING,
        truncates,
        kinds=(WIDE,),
    ),
]


def trials(identity: Identity, count: int = 512) -> Iterator[Trial]:
    """Random payloads of every type the identity speaks of, in every version."""
    rng = np.random.default_rng(0)
    for rules in VERSIONS.values():
        for kind in identity.kinds:
            bits = FLOAT_TYPES[kind].bits
            operands = rng.integers(0, (1 << bits) - 1, (3, count), FLOAT_TYPES[kind].unsigned, endpoint=True)
            yield Trial(rules, kind, *(Term(rules, payload) for payload in operands))


def holds(identity: Identity, trial: Trial) -> Any:
    """Where the two sides agree, elementwise."""
    agree = np.asarray(identity.left(trial).payload == identity.right(trial).payload)
    return np.broadcast_to(agree, trial.x.payload.shape)


def check(identity: Identity, where: str | None = None) -> None:
    """Try an identity.

    Args:
        identity: what to try.
        where: the claim to check instead of its own: "always" or "never".

    Raises:
        AssertionError: it fails where it should hold, or holds throughout where it should not.
    """
    claim = where or identity.where
    beyond = False
    for trial in trials(identity):
        agree = holds(identity, trial)
        if claim in ("always", "never"):
            given = np.full(agree.shape, claim == "always")
        else:
            assert identity.given is not None, f"{identity.text}: the condition {claim!r} has no test"
            given = np.broadcast_to(np.asarray(identity.given(trial)), agree.shape)
        what = f"{identity.text} ({claim}) in {trial.kind} of {trial.rules.version}"
        assert agree[given].all(), f"{what}: fails for {np.flatnonzero(given & ~agree)[:3]}"
        beyond |= bool((~agree[~given]).any())
        if claim == "never":
            assert not agree.all(), f"{what}: holds throughout"
    assert claim == "always" or beyond, f"{identity.text}: it holds beyond {claim!r} too"


# Markdown.


def paragraph(source: Callable[..., Any]) -> str:
    """The first paragraph of a docstring, as a table's cell."""
    text = " ".join((inspect.getdoc(source) or "").partition("\n\n")[0].split())
    return cell(re.sub(r"; (?:see )?`\w+\.\w+`\.?$", ".", text))


def cell(text: str) -> str:
    """A text that a Markdown table shows as it is, code marks aside."""
    parts = re.split(r"(`[^`]*`)", text)
    plain = [part if i % 2 else re.sub(r"([*_\\])", r"\\\1", escape(part, quote=False)) for i, part in enumerate(parts)]
    return "".join(plain).replace("|", "&#124;")


def table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    """A Markdown table."""
    yield "| " + " | ".join(head) + " |"
    yield "| " + " | ".join("---" for _ in head) + " |"
    yield from ("| " + " | ".join(row) + " |" for row in rows)


def operations() -> Iterator[str]:
    """Every operation: how kernels write it, its rule, and an example."""
    newest = algebra.get("3.9")
    x, y = (constant(newest, "fp32", value) for value in (X, Y))
    rows = []
    for rule in OPERATIONS:
        shown = ""
        if rule.example is not None:
            result = np.asarray(rule.example(newest, x, y))
            shown = f"`0x{int(result.flat[0]):0{result.dtype.itemsize * 2}X}`"
        rows.append([f"`{rule.name}`", cell(rule.written), paragraph(rule.source), shown])
    yield from table(["operation", "in a kernel", "rule on payloads", f"x = {X:g}, y = {Y:g}"], rows)


def identities() -> Iterator[str]:
    """Every identity, where it holds, and what follows; each is tried before it is written."""
    for identity in IDENTITIES:
        check(identity)
    marks = {"always": "✓ always", "never": "✗ no"}
    ordered = sorted(IDENTITIES, key=lambda i: ["always", "never"].index(i.where) * 2 if i.where in marks else 1)
    rows = [[cell(i.text), marks.get(i.where, f"for {i.where}"), cell(i.note)] for i in ordered]
    yield from table(["identity", "holds", "remark"], rows)


def versions() -> Iterator[str]:
    """What differs between the versions."""
    described = dict(re.findall(r"^ +(\w+): (.*(?:\n {12}.*)*)", Algebra.__doc__ or "", re.MULTILINE))
    rows = []
    for name, text in described.items():
        values = [getattr(rules, name) for rules in VERSIONS.values()]
        if name == "version" or all(value == values[0] for value in values):
            continue
        rows.append([f"`{name}`", cell(" ".join(text.split()).rstrip(".")), *(_value(name, value) for value in values)])
    yield from table(["fact", "meaning", *VERSIONS], rows)


def _value(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"`{value:#010X}`".replace("X", "x", 1) if name == "exp_constant" else f"`{value}`"
    return f"{len(value)} names"


def types() -> Iterator[str]:
    """The constants of each type's embedding, in each version."""
    rows = []
    for kind in FLOAT_TYPES.values():
        for multiplier in dict.fromkeys(rules.embed_multiplier for rules in VERSIONS.values()):
            names = ", ".join(v for v, rules in VERSIONS.items() if rules.embed_multiplier == multiplier)
            rows.append(
                [
                    f"`{kind.name}`",
                    str(kind.bits),
                    f"`0x{kind.one:X}`",
                    str(kind.shift),
                    names,
                    *_constants(kind, multiplier),
                ]
            )
    yield from table(["type", "w", "pattern of 1", "s", "version", "A mod 2ⁿ", "B₊"], rows)


def _constants(kind: FloatType, multiplier: int) -> list[str]:
    facts = embedding_constants(kind, multiplier)
    return [f"`0x{facts.multiplier:X}`", f"`0x{facts.positive:X}`"]


def aliases() -> Iterator[str]:
    """Library functions that are computed as an operation, per version."""
    symbols = list(dict.fromkeys(s for rules in VERSIONS.values() for s in rules.extern_aliases))
    rows = [
        [f"`{s}`", *(f"`{r.extern_aliases[s]}`" if s in r.extern_aliases else "tag" for r in VERSIONS.values())]
        for s in symbols
    ]
    yield from table(["symbol, in fp32", *VERSIONS], rows)


# An example of each operation that some version leaves as it is, in the compiler's own words.
_IN, _INT, _PTR = "tensor<4xf32>", "tensor<4xi32>", "tensor<4x!tt.ptr<f32>>"
LEFT = [
    ("comparisons: x < y", f"%r = arith.cmpf olt, %x, %x : {_IN}"),
    ("tl.abs(x)", f"%r = math.absf %x : {_IN}"),
    ("x.to(tl.int32)", f"%r = arith.fptosi %x : {_IN} to {_INT}"),
    ("x.to(tl.uint32)", f"%r = arith.fptoui %x : {_IN} to {_INT}"),
    ("i.to(tl.float32)", f"%r = arith.sitofp %i : {_INT} to {_IN}"),
    ("i.to(tl.float32), i unsigned", f"%r = arith.uitofp %i : {_INT} to {_IN}"),
    ("x.to(tl.int32, bitcast=True)", f"%r = tt.bitcast %x : {_IN} -> {_INT}"),
    ("the same of a scalar", f"%r = arith.bitcast %x : {_IN} to {_INT}"),
    (
        "tl.atomic_add, atomic_max, atomic_min, atomic_xchg of floats",
        f"%r = tt.atomic_rmw fadd, acq_rel, gpu, %p, %x, %m : ({_PTR}, {_IN}, tensor<4xi1>) -> {_IN}",
    ),
    (
        "tl.atomic_cas of floats",
        f"%r = tt.atomic_cas acq_rel, gpu, %p, %x, %x : ({_PTR}, {_IN}, {_IN}) -> {_IN}",
    ),
    (
        "a tensor descriptor's atomics of floats",
        f"tt.descriptor_reduce add, %d[%n, %n], %x : !tt.tensordesc<4xf32>, {_IN}",
    ),
    ("tl.clamp(x, low, high)", f"%r = tt.clampf %x, %x, %x, propagateNan = none : {_IN}"),
    (
        "tl.inline_asm_elementwise",
        '%r = tt.elementwise_inline_asm "text" {constraints = "=r,r", packed_element = 1 : i32, pure = true} %x : '
        f"{_IN} -> {_IN}",
    ),
    (
        "an extern function that is not pure",
        f'%r = tt.extern_elementwise %x {{libname = "", libpath = "", pure = false, symbol = "f"}} : ({_IN}) -> {_IN}',
    ),
    (
        'tl.dot(..., input_precision="tf32x3"), also bf16x3 and bf16x6',
        f"%r = tt.dot %x, %x, %x, inputPrecision = tf32x3 : {_IN} * {_IN} -> {_IN}",
    ),
]


def left_alone() -> Iterator[str]:
    """What FpSan does not instrument, in some version or in all, and what it sees instead."""
    rows = []
    for written, line in LEFT:
        reasons: dict[str, list[str]] = {}
        for name, rules in VERSIONS.items():
            for gap in coverage.gaps(parse(_module(line)), rules):
                reasons.setdefault(gap.reason, []).append(name)
        told = "; ".join(r if len(v) == len(VERSIONS) else f"{r} ({', '.join(v)})" for r, v in reasons.items())
        rows.append([cell(written), f"`{named(line)}`", cell(told)])
    yield from table(["in a kernel", "operation", "what happens"], rows)


def named(line: str) -> str:
    """The operation's name in a line of the compiler's text."""
    return re.findall(r"[a-z]+\.\w+", line)[0]


def _module(line: str) -> str:
    arguments = f"%x: {_IN}, %i: {_INT}, %p: {_PTR}, %m: tensor<4xi1>, %d: !tt.tensordesc<4xf32>, %n: i32"
    return f"module {{\ntt.func public @k({arguments}) {{\n{line} loc(#loc)\ntt.return\n}}\n}}\n"


VIEWS: dict[str, Callable[[], Iterator[str]]] = {
    "operations": operations,
    "identities": identities,
    "versions": versions,
    "types": types,
    "aliases": aliases,
    "left-alone": left_alone,
}
