"""Formulas that agree for real numbers and not for payloads: is one of them at the place where two sides part?

Each rule rewrites one operation the way people do. If the rewritten values occur on the other side, the two sides use
the two forms, and the difference there is no bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fpsan_tools.algebra import FLOAT_TYPES, Algebra, float_type
from fpsan_tools.checking.relations import number
from fpsan_tools.checking.tracing import Candidate, Known, fingerprints
from fpsan_tools.checking.verdict import Finding
from fpsan_tools.ttir.types import Element, parse_element

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Rewriting:
    """Another form of an operation.

    Attributes:
        kind: name of the finding.
        told: both forms, as in "x + x and 2*x".
        compute: the other form's payloads from the operands of one seed.
        element: its float type.
        benign: whether the two forms agree for real numbers up to rounding.
    """

    kind: str
    told: str
    compute: Callable[[list[Array]], Array]
    element: Element
    benign: bool | None = True


def explained(candidate: Candidate, side: str, known: Known, algebra: Algebra) -> Finding | None:
    """Look for a known non-identity at the first operation whose values the other side lacks.

    Args:
        candidate: that operation.
        side: "a" or "b", whose operation it is.
        known: the values of the other side.
        algebra: of the payloads.

    Returns:
        The finding, or None if no rule fits.
    """
    visit = candidate.visit
    if not visit.operands or any(not seed for seed in visit.operands):
        return None
    for rewriting in _rewritings(candidate, algebra):
        values = []
        for operands in visit.operands:
            given = [operand for operand in operands if operand is not None]
            if len(given) != len(operands):
                return None
            values.append(rewriting.compute(given))
        rewritten = np.broadcast_to(fingerprints(values, rewriting.element), candidate.lacking.shape)
        missing = candidate.lacking & known.lacks(rewritten)
        if not missing.any():
            place = visit.operation.location.user
            text = f"The sides use two forms that payloads tell apart: {rewriting.told}."
            evidence = f"with the other form at {place}, side {side} has the values that the other side has"
            return Finding(rewriting.kind, text, rewriting.benign, evidence)
    return None


def _element(name: str) -> Element:
    return parse_element(float_type(name).mlir)


def _rewritings(candidate: Candidate, algebra: Algebra) -> Iterator[Rewriting]:
    visit = candidate.visit
    name, element = visit.operation.name, visit.element
    rules = _RULES.get(name)
    if rules is not None:
        yield from rules(candidate, algebra)
    if name in _BINARY:
        yield from _other_width(_BINARY[name], element, algebra)
    if name == "tt.extern_elementwise":
        for op in (*_UNARY_NAMES, "sqrt_rn"):
            symbol = visit.operation.attributes.get("symbol", "")
            told = f"the library function {symbol} and tl.{op}"
            yield Rewriting("library function", told, _one(lambda x, op=op: algebra.unary(op, x)), element)
    elif name in _UNARY:
        op = _UNARY[name]
        for symbol in (f"__nv_{op}f", f"__nv_fast_{op}f", f"__nv_{op}"):
            told = f"tl.{op} and the library function {symbol}"
            compute = _one(lambda x, symbol=symbol: algebra.extern(symbol, [x], float_type(element.name)))
            yield Rewriting("library function", told, compute, element)


def _one(function: Callable[..., Array]) -> Callable[[list[Array]], Array]:
    return lambda operands: function(operands[0])


def _constant_operand(candidate: Candidate, position: int, algebra: Algebra) -> float | None:
    """An operand that is one payload for all seeds and elements, as the number that it stands for."""
    values = [operands[position] for operands in candidate.visit.operands]
    first = values[0]
    if first is None or any(v is None or (v != first.flat[0]).any() for v in values):
        return None
    return number(first, candidate.visit.element.name, algebra)


def _embedded(value: float, element: Element, algebra: Algebra) -> Array:
    from fpsan_tools.domains.formats import format_of

    bits = np.asarray(format_of(element).encode(np.array([value]))).astype(element.memory)
    return algebra.embed(bits, element.name)


def _product(candidate: Candidate, algebra: Algebra) -> Iterator[Rewriting]:
    element = candidate.visit.element
    for position in (0, 1):
        value = _constant_operand(candidate, position, algebra)
        if value is None or not np.isfinite(value) or value == 0:
            continue
        other = 1 - position
        inverse = _embedded(1 / value, element, algebra)
        told = f"x * {value:.9g} and x / {1 / value:.9g}"
        yield Rewriting("x*c and x/(1/c)", told, _of(other, algebra.div, inverse), element)
        if value == int(value) and 2 <= abs(value) <= 16:
            times = np.array([int(value) % (1 << element.bits)], element.memory)
            told = "x + x and 2*x" if value == 2 else f"a sum of {int(value)} equal terms and {int(value)}*x"
            yield Rewriting("x+x and 2x", told, _of(other, algebra.mul, times), element)


def _of(position: int, function: Callable[..., Array], constant: Array) -> Callable[[list[Array]], Array]:
    """A function of one operand and a constant."""
    return lambda operands: function(operands[position], constant)


def _sum(candidate: Candidate, algebra: Algebra) -> Iterator[Rewriting]:
    element = candidate.visit.element
    pairs = candidate.visit.operands
    if all(x is not None and y is not None and np.array_equal(x + 0 * y, y + 0 * x) for x, y in pairs):
        two = _embedded(2.0, element, algebra)
        yield Rewriting("x+x and 2x", "x + x and 2*x", _of(0, algebra.mul, two), element)


def _quotient(candidate: Candidate, algebra: Algebra) -> Iterator[Rewriting]:
    element = candidate.visit.element
    value = _constant_operand(candidate, 1, algebra)
    if value is not None and np.isfinite(value) and value != 0:
        inverse = _embedded(1 / value, element, algebra)
        told = f"x / {value:.9g} and x * {1 / value:.9g}"
        yield Rewriting("x*c and x/(1/c)", told, _of(0, algebra.mul, inverse), element)
    if element.bits == 32 and all(is_widened(x, algebra) for seed in candidate.visit.operands for x in seed):

        def by_inverse(v: list[Array]) -> Array:
            numerator, inverse = (algebra.cast(x, "fp16") for x in (v[0], algebra.inv(v[1])))
            return algebra.mul(numerator, inverse)

        told = "x / y and x * (1 / y) of 16-bit floats, which Triton divides in fp32, narrowing every quotient"
        yield Rewriting("division in 16 bits", told, by_inverse, _element("fp16"))


def is_widened(x: Array | None, algebra: Algebra) -> bool:
    """Whether 32-bit payloads all come from 16 bits."""
    return x is not None and np.array_equal(algebra.cast(algebra.cast(x, "fp16"), "fp32"), x)


def _narrowing(candidate: Candidate, algebra: Algebra) -> Iterator[Rewriting]:
    element = candidate.visit.element
    source = candidate.visit.operand_elements[0]
    if source is None or source.bits <= element.bits:
        return
    for middle in ("fp32", "fp16"):
        bits = FLOAT_TYPES[middle].bits
        if element.bits < bits < source.bits:
            told = f"a cast to {element.name} at once and by way of {bits} bits"

            def twice(v: list[Array], middle: str = middle) -> Array:
                return algebra.cast(algebra.cast(v[0], middle), element.name)

            yield Rewriting("double cast", told, twice, element)


def _reciprocal_root(candidate: Candidate, algebra: Algebra) -> Iterator[Rewriting]:
    element = candidate.visit.element
    for op in ("sqrt", "sqrt_rn"):
        compute = _one(lambda x, op=op: algebra.inv(algebra.unary(op, x)))
        yield Rewriting(
            "rsqrt and 1/sqrt",
            f"tl.rsqrt(x) and 1 / {'tl.sqrt' if op == 'sqrt' else 'tl.sqrt_rn'}(x)",
            compute,
            element,
        )


def _root(candidate: Candidate, algebra: Algebra) -> Iterator[Rewriting]:
    element = candidate.visit.element
    other = "sqrt_rn" if candidate.visit.operation.name == "math.sqrt" else "sqrt"
    yield Rewriting(
        "sqrt and sqrt_rn", "tl.sqrt(x) and tl.sqrt_rn(x)", _one(lambda x: algebra.unary(other, x)), element
    )


def _logarithm(candidate: Candidate, algebra: Algebra) -> Iterator[Rewriting]:
    element = candidate.visit.element
    natural = candidate.visit.operation.name == "math.log"
    op, factor = ("log2", np.log(2)) if natural else ("log", np.log2(np.e))
    constant = _embedded(float(factor), element, algebra)
    told = "tl.log(x) and tl.log2(x) * ln(2)" if natural else "tl.log2(x) and tl.log(x) * log2(e)"
    yield Rewriting("log and log2", told, _one(lambda x: algebra.mul(algebra.unary(op, x), constant)), element)


def _other_width(op: str, element: Element, algebra: Algebra) -> Iterator[Rewriting]:
    """The same operation on narrower or wider operands: another precision of an intermediate."""
    function = getattr(algebra, op)
    for other in ("fp32", "fp16", "fp64"):
        target = _element(other)
        if target.bits == element.bits:
            continue
        told = f"{op} in {element.bits} bits and in {target.bits} bits"

        def compute(v: list[Array], target: Element = target) -> Array:
            result: Array = function(*(algebra.cast(x, target.name) for x in v))
            return result

        yield Rewriting("precision of an intermediate", told, compute, target, None)


_RULES: dict[str, Callable[[Candidate, Algebra], Iterator[Rewriting]]] = {
    "arith.mulf": _product,
    "arith.addf": _sum,
    "arith.divf": _quotient,
    "tt.precise_divf": _quotient,
    "arith.truncf": _narrowing,
    "tt.fp_to_fp": _narrowing,
    "math.rsqrt": _reciprocal_root,
    "math.sqrt": _root,
    "tt.precise_sqrt": _root,
    "math.log": _logarithm,
    "math.log2": _logarithm,
}
_BINARY = {"arith.mulf": "mul", "arith.addf": "add", "arith.subf": "sub"}
_UNARY_NAMES = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "floor", "ceil")
_UNARY = {f"math.{op}": op for op in _UNARY_NAMES}
