"""What simulated sums must give: the published definitions, one number at a time, in exact rationals.

Every operation is exact in fractions and rounded once by `numfmt_oracle.Oracle`. The functions take the terms of one
sum as a list of floats. Shares no code with numfmt.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from numfmt_oracle import Oracle


class Arithmetic:
    """Operations of one format and mode on Python floats."""

    def __init__(self, oracle: Oracle, mode: str, policy: str | None = None, nan: str | None = None) -> None:
        self.oracle, self.mode, self.policy, self.nan = oracle, mode, policy, nan

    def round(self, exact: Fraction | float) -> float:
        if isinstance(exact, float) and math.isfinite(exact) and exact != 0:
            exact = Fraction(exact)
        return self.oracle.round(exact, self.mode, self.policy, self.nan)

    def zero_sum(self, signs: set[bool]) -> float:
        """The sign of an exact zero sum, IEEE 754-2019 section 6.3."""
        if len(signs) == 1:
            return -0.0 if signs == {True} else 0.0
        return -0.0 if self.mode == "down" else 0.0

    def add(self, a: float, b: float) -> float:
        if not (math.isfinite(a) and math.isfinite(b)):
            return self.round(a + b)
        exact = Fraction(a) + Fraction(b)
        if exact == 0:
            signs = {math.copysign(1, v) < 0 for v in (a, b)} if a == b == 0 else {True, False}
            return self.round(self.zero_sum(signs))
        return self.round(exact)

    def fma(self, a: float, b: float, c: float) -> float:
        if not (math.isfinite(a) and math.isfinite(b)):
            return self.round(a * b + c)
        if not math.isfinite(c):
            return self.round(c)
        product = Fraction(a) * Fraction(b)
        exact = product + Fraction(c)
        if exact == 0:
            product_sign = (math.copysign(1, a) < 0) != (math.copysign(1, b) < 0)
            signs = {product_sign, math.copysign(1, c) < 0} if product == 0 else {True, False}
            return self.round(self.zero_sum(signs))
        return self.round(exact)


def sequential(r: Arithmetic, terms: list[float]) -> float:
    s = 0.0
    for x in terms:
        s = r.add(s, x)
    return s


def pairwise(r: Arithmetic, terms: list[float]) -> float:
    return tree(r, terms, fan_in=2)


def tree(r: Arithmetic, terms: list[float], fan_in: int) -> float:
    level = list(terms) or [0.0]
    first = True
    while len(level) > 1 or first:
        level += [0.0] * (-len(level) % fan_in)
        nodes = []
        for i in range(0, len(level), fan_in):
            node = level[i]
            for x in level[i + 1 : i + fan_in]:
                node = r.add(node, x)
            nodes.append(node)
        level, first = nodes, False
    return level[0]


def blocked(r: Arithmetic, terms: list[float], block: int) -> float:
    return sequential(r, [sequential(r, terms[i : i + block]) for i in range(0, len(terms), block)])


def lanes(r: Arithmetic, terms: list[float], lanes: int) -> float:
    sums = [sequential(r, terms[lane::lanes]) for lane in range(min(lanes, len(terms)))]
    return sums[0] if len(sums) == 1 else pairwise(r, sums)


def fused(r: Arithmetic, terms: list[float], fan_in: int) -> float:
    s = 0.0
    for i in range(0, len(terms), fan_in):
        group = [s, *terms[i : i + fan_in]]
        if all(map(math.isfinite, group)):
            exact = sum(map(Fraction, group))
            s = r.round(exact if exact else 0.0)
        else:
            s = r.round(sum(v for v in group if not math.isfinite(v)))
    return s


def kahan(r: Arithmetic, terms: list[float]) -> float:
    s = c = 0.0
    for x in terms:
        y = r.add(x, -c)
        t = r.add(s, y)
        c = r.add(r.add(t, -s), -y)
        s = t
    return s


def neumaier(r: Arithmetic, terms: list[float]) -> float:
    s = c = 0.0
    for x in terms:
        t = r.add(s, x)
        big, small = (x, s) if abs(x) > abs(s) else (s, x)
        c = r.add(c, r.add(r.add(big, -t), small))
        s = t
    return r.add(s, c)


def promoted(
    r: Arithmetic, outer: Arithmetic, terms: list[float], chunk: int, method: Callable[..., float], **parameters: int
) -> float:
    return sequential(outer, [method(r, terms[i : i + chunk], **parameters) for i in range(0, len(terms), chunk)])


METHODS: dict[str, Callable[..., float]] = {
    f.__name__: f for f in (sequential, pairwise, tree, blocked, lanes, fused, kahan, neumaier)
}
