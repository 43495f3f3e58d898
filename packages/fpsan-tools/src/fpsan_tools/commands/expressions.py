"""Grids and constants as the command line writes them; nothing but arithmetic on names and numbers is evaluated."""

from __future__ import annotations

import argparse
import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from fpsan_tools.exceptions import FpsanError

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {
    "cdiv": lambda x, y: -(-x // y),
    "min": min,
    "max": max,
    "next_power_of_2": lambda n: 1 << max(int(n) - 1, 0).bit_length(),
}


def grid(text: str) -> Callable[[Mapping[str, Any]], tuple[int, ...]]:
    """A grid from text such as "cdiv(M, BLOCK_M), 4".

    Args:
        text: one to three expressions of whole numbers, names of the kernel's arguments, + - * // %, cdiv, min, max and
            next_power_of_2.

    Returns:
        Triton's form of a grid: a function of the bound arguments.

    Raises:
        FpsanError: if the text is something else.
    """
    try:
        tree = ast.parse(f"({text},)", mode="eval").body
    except SyntaxError:
        raise FpsanError(f"grid {text!r} is no list of expressions such as 'cdiv(M, BLOCK_M), 4'") from None
    assert isinstance(tree, ast.Tuple)
    _require(tree, text)
    elements = tree.elts

    def sizes(bound: Mapping[str, Any]) -> tuple[int, ...]:
        return tuple(int(_value(element, bound, text)) for element in elements)

    return sizes


def _require(tree: ast.AST, text: str) -> None:
    allowed = (ast.Tuple, ast.BinOp, ast.UnaryOp, ast.USub, ast.Call, ast.Name, ast.Load, ast.Constant, *_BINARY)
    for node in ast.walk(tree):
        literal = isinstance(node, ast.Constant) and type(node.value) is not int
        unknown = isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS)
        if not isinstance(node, allowed) or literal or unknown:
            raise FpsanError(
                f"grid {text!r}: only names, whole numbers, + - * // % and {', '.join(_FUNCTIONS)} are known"
            )


def _value(node: ast.AST, bound: Mapping[str, Any], text: str) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in bound:
        return bound[node.id]
    if isinstance(node, ast.BinOp):
        return _BINARY[type(node.op)](_value(node.left, bound, text), _value(node.right, bound, text))
    if isinstance(node, ast.UnaryOp):
        return -_value(node.operand, bound, text)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _FUNCTIONS
        and not node.keywords
    ):
        return _FUNCTIONS[node.func.id](*(_value(argument, bound, text) for argument in node.args))
    if isinstance(node, ast.Name):
        raise FpsanError(f"grid {text!r}: the kernel has no argument {node.id!r} (known: {', '.join(bound)})")
    raise FpsanError(f"grid {text!r} is not understood at {ast.unparse(node)!r}")


def constant(text: str) -> tuple[str, Any]:
    """NAME=VALUE, for argparse: a Python literal, or a plain word as text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def size(text: str) -> tuple[str, int]:
    """NAME=NUMBER, for argparse."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or not value.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=NUMBER")
    return name, int(value)


def numbers(text: str) -> tuple[int, ...]:
    """Whole numbers separated by commas, for argparse."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers such as 0,1,2") from None
