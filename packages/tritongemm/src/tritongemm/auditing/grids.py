"""Launch grids: derived from a kernel's constants and the program axes it reads, or given as an expression."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tritongemm.auditing.signatures import Signature
from tritongemm.errors import UsageError

Grid = Callable[[int, int, int], tuple[int, ...]]

# BLOCK_M, BLOCK_SIZE_M, TILE_M, BM; the letter is the signature's.
_TILE = r"(?:BLOCK|TILE)_?(?:SIZE)?_?{0}|B{0}|T{0}"
_PROGRAMS = re.compile(r"NUM_?(SMS?|PROGRAMS|PROGS)", re.IGNORECASE)
_MOST_SOURCE = 200


def tile_constant(names: Mapping[str, Any], letter: str) -> str | None:
    """The name among a kernel's constants that holds its tile size along a dimension, or None.

    Args:
        names: The kernel's constants by name.
        letter: The kernel's letter for the dimension.
    """
    pattern = re.compile(_TILE.format(letter), re.IGNORECASE)
    return next((name for name in names if pattern.fullmatch(name)), None)


@dataclass(frozen=True)
class ProgramAxes:
    """Which axes of the launch grid a kernel reads, and what it calls them.

    Attributes:
        used: The axes.
        names: For each axis the variables its index is assigned to.
        factors: For each axis the names that its index, or such a variable, is multiplied with.
    """

    used: frozenset[int]
    names: Mapping[int, tuple[str, ...]]
    factors: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


def program_axes(kernel: Any) -> ProgramAxes:
    """Reads the source of a kernel and of the device functions it calls for `program_id`.

    Args:
        kernel: A `@triton.jit` function.
    """
    used: set[int] = set()
    names: dict[int, list[str]] = {}
    factors: dict[int, list[str]] = {}
    seen: set[int] = set()
    todo = [kernel]
    while todo and len(seen) < _MOST_SOURCE:
        function = todo.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        python = function.fn
        tree = ast.parse(textwrap.dedent(inspect.getsource(python)))
        indices: dict[str, int] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                for axis in _axes_in(node.value):
                    targets = [t.id for t in node.targets if isinstance(t, ast.Name)]
                    names.setdefault(axis, []).extend(targets)
                    if isinstance(node.value, ast.Call):
                        indices |= dict.fromkeys(targets, axis)
        for node in ast.walk(tree):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                for index, factor in ((node.left, node.right), (node.right, node.left)):
                    if isinstance(factor, ast.Name):
                        for axis in _index_axes(index, indices):
                            factors.setdefault(axis, []).append(factor.id)
            if isinstance(node, ast.Call):
                used.update(_axes_in(node))
                callee = node.func.id if isinstance(node.func, ast.Name) else ""
                helper = python.__globals__.get(callee)
                if hasattr(helper, "fn") and hasattr(helper, "params"):
                    todo.append(helper)
    return ProgramAxes(
        frozenset(used),
        {axis: tuple(n) for axis, n in names.items()},
        {axis: tuple(n) for axis, n in factors.items()},
    )


def _index_axes(node: ast.AST, indices: Mapping[str, int]) -> list[int]:
    """The axis whose index an expression is: `program_id(axis)` itself, or a variable that holds it."""
    if isinstance(node, ast.Name):
        return [indices[node.id]] if node.id in indices else []
    return _axes_in(node) if isinstance(node, ast.Call) else []


def _axes_in(node: ast.AST) -> list[int]:
    found = []
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name != "program_id":
            continue
        given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "axis")]
        found += [g.value for g in given if isinstance(g, ast.Constant) and isinstance(g.value, int)]
    return found


def _cdiv(x: int, y: int) -> int:
    return -(-x // y)


def derived_grid(
    kernel: Any, name: str, signature: Signature, constants: Mapping[str, Any]
) -> tuple[Grid, str, list[str]]:
    """The grid a kernel expects, from the names of its constants and the axes it reads.

    Args:
        kernel: The `@triton.jit` function.
        name: Its name, for errors.
        signature: Its signature.
        constants: Its constants with their values.

    Returns:
        The grid as a function of our M, N, K; the same as text; what was assumed on the way.

    Raises:
        UsageError: The names do not tell; a grid has to be given.
    """
    axes = program_axes(kernel)
    tile_m, tile_n = tile_constant(constants, signature.rows), tile_constant(constants, signature.columns)
    way_out = f"say it with --grid-a or --grid-b, or as an attribute: {name}.audit_grid = lambda M, N, K, c: (...)."
    if (tile_m is None) != (tile_n is None):
        raise UsageError(
            f"{name}: it has a tile size for one dimension only ({tile_m or tile_n}), so its grid is unclear; {way_out}"
        )
    if not axes.used or not axes.used <= {0, 1}:
        raise UsageError(f"{name}: it reads the program axes {sorted(axes.used)}, so its grid is unclear; {way_out}")
    rows, columns = signature.rows.upper(), signature.columns.upper()
    if tile_m is None or tile_n is None:
        high, wide, text = 1, 1, (rows, columns)
    else:
        high, wide = int(constants[tile_m]), int(constants[tile_n])
        text = (f"cdiv({rows}, {tile_m})", f"cdiv({columns}, {tile_n})")
    persistent = next((n for n in constants if _PROGRAMS.fullmatch(n)), None)
    if axes.used == {0} and persistent:
        count = int(constants[persistent])
        return (lambda M, N, K: (min(count, _cdiv(M, high) * _cdiv(N, wide)),)), f"min({persistent}, tiles)", []
    if axes.used == {0}:
        return (lambda M, N, K: (_cdiv(M, high) * _cdiv(N, wide),)), " * ".join(text), []
    rows_first, assumed = _rows_first(axes, signature)
    if rows_first:
        return (lambda M, N, K: (_cdiv(M, high), _cdiv(N, wide))), ", ".join(text), assumed
    return (lambda M, N, K: (_cdiv(N, wide), _cdiv(M, high))), ", ".join(text[::-1]), assumed


def _rows_first(axes: ProgramAxes, signature: Signature) -> tuple[bool, list[str]]:
    """Whether axis 0 of a two-dimensional grid counts rows: by the tile size that its index is multiplied with, or by
    the names of variables."""
    for axis in (0, 1):
        for name in axes.factors.get(axis, ()):
            if tile_constant({name: 0}, signature.rows):
                return axis == 0, []
            if tile_constant({name: 0}, signature.columns):
                return axis == 1, []
    rows, columns = (re.compile(rf"(.*_|p|pid|i|off)?({x}|{w}s?)\d*", re.IGNORECASE) for x, w in (
        (signature.rows, "row"), (signature.columns, "col(?:umn)?")))  # fmt: skip
    for axis in (0, 1):
        for name in axes.names.get(axis, ()):
            if rows.fullmatch(name):
                return axis == 0, []
            if columns.fullmatch(name):
                return axis == 1, []
    return True, ["axis 0 of its grid is taken for the rows, for its variables' names do not tell"]


_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: lambda x, y: x + y,
    ast.Sub: lambda x, y: x - y,
    ast.Mult: lambda x, y: x * y,
    ast.FloorDiv: lambda x, y: x // y,
    ast.Mod: lambda x, y: x % y,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {"cdiv": _cdiv, "min": min, "max": max}


def grid_from_expression(text: str, argument: str, signature: Signature, constants: Mapping[str, Any]) -> Grid:
    """A grid given as text, such as "cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)" or "cdiv(N, 64), M".

    Known are the kernel's own M, N, K, its constants, whole numbers, + - * // %, cdiv, min and max. Nothing else is
    evaluated.

    Args:
        text: One to three expressions, separated by commas.
        argument: The option that gave it, for errors.
        signature: The kernel's signature, which says what its M, N and K are.
        constants: Its constants.

    Returns:
        The grid as a function of our M, N, K.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        raise UsageError(
            f"{argument}: {text!r} is no expression; write for example 'cdiv(M, BLOCK_M), cdiv(N, BLOCK_N)'."
        ) from None
    parts = tree.elts if isinstance(tree, ast.Tuple) else [tree]
    if not 1 <= len(parts) <= 3:
        raise UsageError(f"{argument}: {text!r} has {len(parts)} axes; a grid has one to three.")

    def grid(M: int, N: int, K: int) -> tuple[int, ...]:
        sizes = dict(zip("MNK", signature.sizes(M, N, K), strict=True))
        return tuple(_value(part, argument, text, {**constants, **sizes}) for part in parts)

    grid(1, 1, 1)
    return grid


def _value(node: ast.AST, argument: str, text: str, names: Mapping[str, Any]) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name) and isinstance(names.get(node.id), int):
        return int(names[node.id])
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = (_value(x, argument, text, names) for x in (node.left, node.right))
        try:
            return _OPERATORS[type(node.op)](left, right)
        except ZeroDivisionError:
            raise UsageError(f"{argument}: {text!r} divides by zero.") from None
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _FUNCTIONS
        and not node.keywords
    ):
        try:
            return _FUNCTIONS[node.func.id](*(_value(x, argument, text, names) for x in node.args))
        except (TypeError, ZeroDivisionError):
            raise UsageError(f"{argument}: {ast.unparse(node)!r} cannot be calculated.") from None
    known = ", ".join(
        ["M", "N", "K", *(n for n, v in names.items() if n not in "MNK" and isinstance(v, int)), *_FUNCTIONS]
    )
    raise UsageError(f"{argument}: {ast.unparse(node)!r} is not understood. Known: {known}, numbers and + - * // %.")
