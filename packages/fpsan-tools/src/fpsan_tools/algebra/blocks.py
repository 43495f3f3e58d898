"""Elementwise rules on large arrays, block by block."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

BLOCK = 1 << 14
"""Elements a block: the temporaries of a rule stay in the cache and are not mapped anew for each step."""

P = ParamSpec("P")
R = TypeVar("R")


def blockwise(count: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Evaluate an elementwise rule block by block where its operands are large and of one shape.

    A rule of ten steps passes ten times over its arrays; in blocks this is an order of magnitude faster, and the rule
    stays as readable as its formula. Integer overflow is silent in the rule: wrapping is what is meant.

    Args:
        count: how many leading arguments are the operands; the others are passed on.

    Returns:
        A decorator for rules that give an array, or a tuple of arrays, of the operands' shape.
    """

    def decorate(rule: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(rule)
        def evaluate(*arguments: P.args, **options: P.kwargs) -> R:
            operands, rest = arguments[:count], arguments[count:]
            with np.errstate(over="ignore"):
                shape = getattr(operands[0], "shape", ())
                size = getattr(operands[0], "size", 1)
                if size <= BLOCK or any(getattr(x, "shape", None) != shape for x in operands):
                    return rule(*arguments, **options)
                flat = [np.asarray(x).reshape(-1) for x in operands]
                whole: list[np.ndarray[Any, Any]] = []
                several = False
                for start in range(0, size, BLOCK):
                    block: Any = rule(*(x[start : start + BLOCK] for x in flat), *rest, **options)  # type: ignore[arg-type]
                    several = isinstance(block, tuple)
                    parts = block if several else (block,)
                    if not whole:
                        whole = [np.empty(size, part.dtype) for part in parts]
                    for out, part in zip(whole, parts, strict=True):
                        out[start : start + BLOCK] = part
                shaped = tuple(out.reshape(shape) for out in whole)
                result: Any = shaped if several else shaped[0]
                return result  # type: ignore[no-any-return]

        return evaluate

    return decorate
