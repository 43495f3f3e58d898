"""One table of Triton expressions and the payload rules they must follow, for every engine that can compile them.

A case is an expression over tiles x, y, z of stated types and shapes, and the rule that gives its payloads. Cases with
equal operands share a generated kernel with one output each. The kernels are written to real files because Triton's
front end reads their source.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from fpsan_tools.algebra import FLOAT_TYPES, Algebra, float_type
from fpsan_tools.algebra.floats import UNSIGNED

INTEGERS = {"i8": 8, "u8": 8, "i16": 16, "i32": 32, "i64": 64, "i1": 8}
LANES = 32  # elements of an elementwise tile: one a thread of a warp


@dataclass(frozen=True)
class Tile:
    """An operand or result: its element type and the shape of what one program handles."""

    dtype: str
    shape: tuple[int, ...] = (LANES,)

    @property
    def is_float(self) -> bool:
        return self.dtype not in INTEGERS

    @property
    def bits(self) -> int:
        return float_type(self.dtype).bits if self.is_float else INTEGERS[self.dtype]

    @property
    def unsigned(self) -> np.dtype[Any]:
        return UNSIGNED[self.bits]

    @property
    def pointer(self) -> str:
        """The type of a pointer to it in a Triton signature."""
        return "*" + (float_type(self.dtype).triton if self.is_float else self.dtype)

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Case:
    """An expression, its operands and result, and the rule (algebra, result type, *payloads) -> payloads it must equal.

    `since` is the first Triton version that instruments it; `slow` leaves it to the exhaustive run without a GPU.
    """

    name: str
    expression: str
    operands: tuple[Tile, ...]
    result: Tile
    rule: Callable[..., Any]
    since: str = "3.8"
    slow: bool = False

    @property
    def identifier(self) -> str:
        return f"{self.name}-{'-'.join(t.dtype for t in self.operands)}-{self.result.dtype}"


FLOATS = ("fp64", "fp32", "fp16", "bf16", "fp8e4m3fn", "fp8e5m2")
WIDE = ("fp64", "fp32")
TL = {"fp64": "tl.float64", "fp32": "tl.float32", "fp16": "tl.float16", "bf16": "tl.bfloat16"}
TL |= {"fp8e4m3fn": "tl.float8e4nv", "fp8e5m2": "tl.float8e5"}


def _same(name: str, expression: str, count: int, rule: Callable[..., Any], dtypes: Iterable[str]) -> list[Case]:
    return [Case(name, expression, (Tile(d),) * count, Tile(d), rule) for d in dtypes]


def _ring_cases() -> list[Case]:
    cases = [
        *_same("add", "x + y", 2, lambda a, d, x, y: a.add(x, y), FLOATS),
        *_same("sub", "x - y", 2, lambda a, d, x, y: a.sub(x, y), FLOATS),
        *_same("mul", "x * y", 2, lambda a, d, x, y: a.mul(x, y), FLOATS),
        *_same("rem", "x % y", 2, lambda a, d, x, y: a.rem(x, y), ("fp64", "fp32", "fp16", "bf16")),
        *_same("neg", "-x", 1, lambda a, d, x: a.neg(x), FLOATS),
        *_same("fma", "tl.fma(x, y, z)", 3, lambda a, d, x, y, z: a.fma(x, y, z), ("fp64", "fp32", "fp16", "bf16")),
        *_same("multiply-add", "x * y + z", 3, lambda a, d, x, y, z: a.fma(x, y, z), FLOATS),
        *_same("one-plus-x-times-three", "(1.0 + x) * 3.0", 1, _one_plus_x_times_three, ("fp64", "fp32")),
        *_same("where", "tl.where(x + y == z, x * y, y)", 3, _where, ("fp32", "fp16", "bf16")),
        *_same("fdiv", "tl.fdiv(x, y)", 2, lambda a, d, x, y: a.div(x, y), WIDE),
        *_same("reciprocal", "1.0 / x", 1, lambda a, d, x: a.inv(x), WIDE),
        *_same("div-rn", "tl.div_rn(x, y)", 2, lambda a, d, x, y: a.div(x, y), ("fp32",)),
    ]
    for d in FLOATS:
        rule = _divide_in_fp32 if FLOAT_TYPES[d].bits < 32 else lambda a, d, x, y: a.div(x, y)
        cases += _same("div", "x / y", 2, rule, (d,))
    for propagate in ("ALL", "NONE"):
        option = f"propagate_nan=tl.PropagateNan.{propagate}"
        for d in ("fp64", "fp32", "fp16", "bf16"):
            cases += _same(f"maximum-{propagate}", f"tl.maximum(x, y, {option})", 2, _maximum, (d,))
            cases += _same(f"minimum-{propagate}", f"tl.minimum(x, y, {option})", 2, _minimum, (d,))
    cases += _same("clamp", "tl.clamp(x, y, z)", 3, lambda a, d, x, y, z: a.clamp(x, y, z, d), ("fp64", "fp32", "fp16"))
    cases += _same("abs", "tl.abs(x)", 1, lambda a, d, x: a.absolute(x, d), FLOATS)
    return cases


def _divide_in_fp32(a: Algebra, dtype: str, x: Any, y: Any) -> Any:
    return a.cast(a.div(a.widen(x, 32), a.widen(y, 32)), dtype)


def _one_plus_x_times_three(a: Algebra, dtype: str, x: Any) -> Any:
    number = np.float64 if dtype == "fp64" else np.float32
    return a.mul(a.add(a.embed(number(1.0), dtype), x), a.embed(number(3.0), dtype))


def _where(a: Algebra, dtype: str, x: Any, y: Any, z: Any) -> Any:
    # The comparison is of floats: equal patterns that are not NaNs, or two zeros.
    kind = float_type(dtype)
    left, right = a.unembed(a.add(x, y), kind), a.unembed(z, kind)
    magnitude = kind.unsigned.type((1 << (kind.bits - 1)) - 1)
    same = (left == right) & (left & magnitude <= kind.unsigned.type(kind.largest))
    return np.where(same | ((left | right) & magnitude == 0), a.mul(x, y), y)


def _maximum(a: Algebra, dtype: str, x: Any, y: Any) -> Any:
    return a.maximum(x, y)


def _minimum(a: Algebra, dtype: str, x: Any, y: Any) -> Any:
    return a.minimum(x, y)


def _function_cases() -> list[Case]:
    cases: list[Case] = []
    for op in ("exp", "exp2", "cos", "sin", "log", "log2", "sqrt", "rsqrt", "erf", "floor", "ceil", "sqrt_rn"):
        dtypes = ("fp32",) if op == "sqrt_rn" else WIDE
        cases += _same(op, f"tl.{op}(x)", 1, functools.partial(_unary, op), dtypes)
    cases += _same("sigmoid", "tl.sigmoid(x)", 1, lambda a, d, x: a.inv(a.add(_one(x), a.exp(a.neg(x)))), WIDE)
    return cases


def _unary(op: str, a: Algebra, dtype: str, x: Any) -> Any:
    return a.unary(op, x)


def _one(x: Any) -> Any:
    return np.ones_like(x)


def _cast(a: Algebra, dtype: str, x: Any) -> Any:
    return a.cast(x, dtype)


def _cast_through(middle: str, a: Algebra, dtype: str, x: Any) -> Any:
    return a.cast(a.cast(x, middle), dtype)


def _carriers_of(source: str, a: Algebra, dtype: str, x: Any) -> Any:
    return a.unembed(x, source)


def _cast_cases() -> list[Case]:
    cases = []
    for source in FLOATS:
        for target in FLOATS:
            if source != target:
                cases.append(Case("cast", f"x.to({TL[target]})", (Tile(source),), Tile(target), _cast))
    for target in ("fp16", "bf16"):
        expression = f"x.to({TL[target]}, fp_downcast_rounding='rtz')"
        cases.append(Case("cast-rtz", expression, (Tile("fp32"),), Tile(target), _cast))
    for middle in ("fp16", "bf16", "fp8e5m2"):
        rule = functools.partial(_cast_through, middle)
        cases += _same(f"cast-to-{middle}-and-back", f"x.to({TL[middle]}).to(tl.float32)", 1, rule, ("fp32",))
    for source, target in (("i32", "fp32"), ("i16", "bf16")):
        expression = f"x.to({TL[target]}, bitcast=True)"
        cases.append(Case("bitcast", expression, (Tile(source),), Tile(target), lambda a, d, x: a.embed(x, d)))
    for source, target, name in (("fp32", "i32", "int32"), ("fp16", "i16", "int16"), ("fp64", "i64", "int64")):
        rule = functools.partial(_carriers_of, source)
        expression = f"x.to(tl.{name}, bitcast=True)"
        cases.append(Case("bitcast", expression, (Tile(source),), Tile(target), rule))
    return cases


def _inline_asm(text: str, a: Algebra, dtype: str, *operands: Any) -> Any:
    return a.inline_asm(text, operands, dtype)


def _asm_cases() -> list[Case]:
    cases = []
    for text, constraints, count, dtype in (
        ("add.f32 $0, $1, $2;", "=f,f,f", 2, "fp32"),
        ("ex2.approx.f32 $0, $1;", "=f,f", 1, "fp32"),
        ("fma.rn.f64 $0, $1, $2, $3;", "=d,d,d,d", 3, "fp64"),
    ):
        arguments = ", ".join("xyz"[:count])
        options = f"dtype={TL[dtype]}, is_pure=True, pack=1"
        expression = f"tl.inline_asm_elementwise({text!r}, {constraints!r}, [{arguments}], {options})"
        rule = functools.partial(_inline_asm, text)
        cases.append(Case("asm-" + text.split()[0], expression, (Tile(dtype),) * count, Tile(dtype), rule, "3.9"))
    return cases


def libdevice_symbols() -> list[tuple[str, tuple[str, ...], str, str]]:
    """(function, operand types, symbol, result type) of Triton's libdevice functions with a float result."""
    from triton.language.extra.cuda import libdevice

    names = {"fp32": "fp32", "fp64": "fp64", "int32": "i32", "int64": "i64"}
    found = []
    for function in ast.parse(inspect.getsource(libdevice)).body:
        if not isinstance(function, ast.FunctionDef):
            continue
        for table in (node for node in ast.walk(function) if isinstance(node, ast.Dict)):
            for key, value in zip(table.keys, table.values, strict=True):
                types = [node.value for node in ast.walk(key) if isinstance(node, ast.Constant)]
                symbol, result = (node.value for node in ast.walk(value) if isinstance(node, ast.Constant))
                if result in ("fp32", "fp64") and all(t in names for t in types):
                    found.append((function.name, tuple(names[t] for t in types), symbol, names[result]))
    return found


def _extern(symbol: str, a: Algebra, dtype: str, *operands: Any) -> Any:
    return a.extern(symbol, operands, dtype)


def _extern_cases() -> list[Case]:
    cases = []
    for function, types, symbol, result in libdevice_symbols():
        rule = functools.partial(_extern, symbol)
        expression = f"libdevice.{function}({', '.join('xyzw'[: len(types)])})"
        cases.append(Case(symbol, expression, tuple(map(Tile, types)), Tile(result), rule))
    return cases


def _reduction_cases() -> list[Case]:
    cases = []
    for d in ("fp64", "fp32", "fp16", "bf16"):
        slow = d in ("fp64", "fp16")  # the kernels of a type take seconds to compile; two types meet every rule
        whole = Tile(d, (8, 16))
        for name in ("sum", "max", "min"):
            # max and min of 16-bit floats are promoted to fp32 by the front end; sums are not.
            out = "fp32" if name != "sum" and FLOAT_TYPES[d].bits < 32 else d
            for axis in (0, 1):
                result, rule = Tile(out, (whole.shape[1 - axis],)), functools.partial(_reduce, name, axis)
                cases.append(
                    Case(f"{name}-axis{axis}", f"tl.{name}(x, axis={axis})", (whole,), result, rule, slow=slow)
                )
        for axis in (0, 1):
            for reverse in (False, True):
                name = f"cumsum-axis{axis}" + ("-reverse" if reverse else "")
                expression = f"tl.cumsum(x, axis={axis}, reverse={reverse})"
                rule = functools.partial(_running_sum, axis, reverse)
                cases.append(Case(name, expression, (whole,), whole, rule, slow=slow))
        cases.append(Case("cumprod", "tl.cumprod(x, axis=1)", (whole,), whole, _running_product, slow=slow))
        shifted = "tl.exp(x - tl.max(x, axis=1)[:, None])"
        if d in WIDE:
            expression = f"{shifted} / tl.sum({shifted}, axis=1)[:, None]"
            cases.append(Case("softmax", expression, (whole,), whole, _softmax, slow=slow))
    return cases


def _reduce(name: str, axis: int, a: Algebra, dtype: str, x: Any) -> Any:
    return a.cast(getattr(a, name)(x, axis=axis + 1), dtype)


def _running_sum(axis: int, reverse: bool, a: Algebra, dtype: str, x: Any) -> Any:
    return a.cumsum(x, axis=axis + 1, reverse=reverse)


def _running_product(a: Algebra, dtype: str, x: Any) -> Any:
    return np.cumprod(x, axis=2, dtype=x.dtype)


def _softmax(a: Algebra, dtype: str, x: Any) -> Any:
    e = a.exp(a.sub(x, a.max(x, axis=2, keepdims=True)))
    return a.div(e, a.sum(e, axis=2, keepdims=True))


def _dot(a: Algebra, dtype: str, x: Any, y: Any, z: Any) -> Any:
    return a.matmul(x, y, z, dtype=dtype)


def _dot_cases() -> list[Case]:
    cases = []
    for source, accumulator, options in (
        ("fp32", "fp32", "input_precision='ieee'"),
        ("fp32", "fp32", "input_precision='tf32'"),
        ("fp64", "fp64", "out_dtype=tl.float64"),
        ("fp16", "fp32", ""),
        ("bf16", "fp32", ""),
        ("fp8e4m3fn", "fp32", ""),
        ("fp8e5m2", "fp32", ""),
        ("fp16", "fp16", "out_dtype=tl.float16"),
    ):
        k = 32 if FLOAT_TYPES[source].bits == 8 else 16
        operands = (Tile(source, (16, k)), Tile(source, (k, 16)), Tile(accumulator, (16, 16)))
        name = "dot" + (f"-{options.split(chr(39))[1]}" if "precision" in options else "")
        expression = f"tl.dot(x, y, z{', ' if options else ''}{options})"
        cases.append(Case(name, expression, operands, operands[2], _dot))
    batch = (Tile("fp16", (2, 16, 16)), Tile("fp16", (2, 16, 16)), Tile("fp32", (2, 16, 16)))
    cases.append(Case("dot-batched", "tl.dot(x, y, z)", batch, batch[2], _dot))
    return cases


# One pair for each way to make an operand; the other pairs combine the same ways.
_SCALED_DEFAULT = (("e4m3", "e2m1"), ("bf16", "e5m2"), ("e2m1", "fp16"))


def _scaled_dot_cases() -> list[Case]:
    k, tiles = 64, {"e4m3": "fp8e4m3fn", "e5m2": "fp8e5m2", "bf16": "bf16", "fp16": "fp16"}
    cases = []
    for left in ("e4m3", "e5m2", "e2m1", "bf16", "fp16"):
        for right in ("e4m3", "e5m2", "e2m1", "bf16", "fp16"):
            if {left, right} <= {"bf16", "fp16"}:
                continue  # two unscaled sides are a plain dot
            a = Tile("u8", (16, k // 2)) if left == "e2m1" else Tile(tiles[left], (16, k))
            b = Tile("u8", (k // 2, 16)) if right == "e2m1" else Tile(tiles[right], (k, 16))
            scale = Tile("u8", (16, k // 32))
            scaled = [form not in ("bf16", "fp16") for form in (left, right)]
            operands = [a, *[scale] * scaled[0], b, *[scale] * scaled[1], Tile("fp32", (16, 16))]
            names = iter("xyzwv")
            x, xs = next(names), next(names) if scaled[0] else None
            y, ys = next(names), next(names) if scaled[1] else None
            expression = f"tl.dot_scaled({x}, {xs}, '{left}', {y}, {ys}, '{right}', {next(names)})"
            rule = functools.partial(_scaled_dot, left, right, scaled)
            slow = (left, right) not in _SCALED_DEFAULT
            name = f"dot-scaled-{left}-{right}"
            cases.append(Case(name, expression, tuple(operands), operands[-1], rule, slow=slow))
    return cases


def _scaled_dot(left: str, right: str, scaled: list[bool], a: Algebra, dtype: str, *payloads: Any) -> Any:
    rest = iter(payloads)
    x, xs = next(rest), next(rest) if scaled[0] else None
    y, ys = next(rest), next(rest) if scaled[1] else None
    return a.dot_scaled(x, xs, left, y, ys, right, next(rest))


def all_cases(version: str) -> list[Case]:
    """Every case that the algebra of a version covers."""
    release = version.removesuffix("-homomorphic")
    return [case for case in _every_case() if case.since <= release]


def _every_case() -> list[Case]:
    return [
        *_ring_cases(),
        *_function_cases(),
        *_cast_cases(),
        *_asm_cases(),
        *_extern_cases(),
        *_reduction_cases(),
        *_dot_cases(),
        *_scaled_dot_cases(),
    ]


# ---------------------------------------------------------------------------------------------------------------------
# Generated kernels


@dataclass(frozen=True)
class Group:
    """Cases of equal operands: one kernel with pointers to the operands, then to one result for each case."""

    name: str
    cases: tuple[Case, ...]

    @property
    def operands(self) -> tuple[Tile, ...]:
        return self.cases[0].operands

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """Operands, then results, in the order of the kernel's arguments."""
        return (*self.operands, *(case.result for case in self.cases))

    @property
    def arguments(self) -> tuple[str, ...]:
        return (*(f"p_{'xyzwv'[i]}" for i in range(len(self.operands))), *(f"o{i}" for i in range(len(self.cases))))


def grouped(cases: Iterable[Case], size: int = 40, prefix: str = "kernel") -> list[Group]:
    """Put cases with equal operands together, at most `size` in a kernel."""
    by_operands: dict[tuple[Tile, ...], list[Case]] = {}
    for case in cases:
        by_operands.setdefault(case.operands, []).append(case)
    groups = []
    for members in by_operands.values():
        for start in range(0, len(members), size):
            groups.append(Group(f"{prefix}_{len(groups)}", tuple(members[start : start + size])))
    return groups


def _offsets(shape: tuple[int, ...]) -> str:
    """Row-major offsets of a tile as a Triton expression."""
    terms = []
    for axis, length in enumerate(shape):
        index = ", ".join(":" if i == axis else "None" for i in range(len(shape)))
        stride = math.prod(shape[axis + 1 :])
        terms.append(f"tl.arange(0, {length})[{index}] * {stride}" if len(shape) > 1 else f"tl.arange(0, {length})")
    return " + ".join(terms)


def kernel_source(group: Group) -> str:
    """The text of a group's kernel."""
    lines = ["@triton.jit", f"def {group.name}({', '.join(group.arguments)}):", "    pid = tl.program_id(0)"]
    for tile, argument in zip(group.operands, group.arguments, strict=False):
        lines.append(f"    {argument[2:]} = tl.load({argument} + pid * {tile.elements} + {_offsets(tile.shape)})")
    for i, case in enumerate(group.cases):
        target = f"o{i} + pid * {case.result.elements} + {_offsets(case.result.shape)}"
        lines.append(f"    tl.store({target}, {case.expression})")
    return "\n".join(lines) + "\n"


def load_kernels(groups: Iterable[Group], folder: Path) -> ModuleType:
    """Write the groups' kernels to a module in `folder` and import it."""
    header = "import triton\nimport triton.language as tl\nfrom triton.language.extra.cuda import libdevice\n"
    path = folder / "generated_kernels.py"
    path.write_text("\n\n".join([header, *map(kernel_source, groups)]), encoding="utf-8")
    return load_module(path)


def load_module(path: Path) -> ModuleType:
    """Import a Python file under its own name, without registering it."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def patterns(tiles: tuple[Tile, ...], programs: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Bit patterns for all operands of all programs: random ones, a twentieth of them extreme.

    Operands of at most 16 bits together are exhausted instead where the tiles have room for all combinations.
    """
    room = programs * min(tile.elements for tile in tiles)
    together = sum(tile.bits for tile in tiles)
    if together <= 16 and room >= 1 << together and len({tile.shape for tile in tiles}) == 1:
        index = np.arange(room, dtype=np.uint64) % np.uint64(1 << together)
        arrays = []
        for tile in tiles:
            arrays.append(
                (index & np.uint64((1 << tile.bits) - 1)).astype(tile.unsigned).reshape(programs, *tile.shape)
            )
            index >>= np.uint64(tile.bits)
        return arrays
    return [_random_patterns(tile, programs, rng) for tile in tiles]


def _random_patterns(tile: Tile, programs: int, rng: np.random.Generator) -> np.ndarray:
    shape, largest = (programs, *tile.shape), (1 << tile.bits) - 1
    chosen = rng.integers(0, largest, shape, dtype=tile.unsigned, endpoint=True)
    extreme = np.array([0, 1, 2, largest, largest >> 1, (largest >> 1) + 1], tile.unsigned)
    if tile.is_float:
        one = float_type(tile.dtype).one
        extreme = np.append(extreme, np.array([one, one | (largest >> 1) + 1], tile.unsigned))
    places = rng.random(shape) < 0.05
    chosen[places] = rng.choice(extreme, int(places.sum()))
    return chosen


def expected(case: Case, algebra: Algebra, operands: Iterable[np.ndarray]) -> np.ndarray:
    """The bit patterns a case must store for operands of the given patterns."""
    payloads = [
        algebra.embed(bits, tile.dtype) if tile.is_float else bits
        for bits, tile in zip(operands, case.operands, strict=True)
    ]
    result = case.rule(algebra, case.result.dtype, *payloads)
    return algebra.unembed(result, case.result.dtype) if case.result.is_float else result
