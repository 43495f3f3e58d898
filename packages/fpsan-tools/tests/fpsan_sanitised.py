"""Evaluate the sanitised TTGIR that FpSan's pass emits, in NumPy, knowing nothing of the payload rules.

At this stage every float operation is spelled out as integer operations between `fpsan_embed` and `fpsan_unembed`.
The text is parsed with the package's parser; the meaning of each operation is written here once more, from MLIR's
documentation, so that a wrong rule of the package cannot hide in a shared helper. All programs of a launch are
evaluated together: a value is an array of unsigned integers (Booleans for i1) with the programs as the first axis.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fpsan_tools.ttir.parser import Block, Operation, parse

UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
ONE = {
    "f64": 0x3FF << 52,
    "f32": 0x7F << 23,
    "f16": 0xF << 10,
    "bf16": 0x7F << 7,
    "f8E4M3FN": 7 << 3,
    "f8E5M2": 15 << 2,
}
"""The pattern of 1.0 by the type's name: the exponent's bias above an empty mantissa."""


class UnknownOperation(Exception):
    """An operation whose meaning is not written here."""


@dataclass(frozen=True)
class Unknown:
    """What an unknown operation returns, and all that is computed from it."""

    operation: str


@dataclass(frozen=True)
class Pointer:
    """Elements of an argument of the kernel."""

    argument: str
    offset: np.ndarray


# ---------------------------------------------------------------------------------------------------------------------
# The bijection between patterns and payloads, the only operations of this stage that are not arithmetic.


@dataclass(frozen=True)
class Embedding:
    """The bijection of one float type, from the multiplier that the compiler's LLVM IR holds."""

    bits: int
    one: int
    multiplier: int

    @property
    def below(self) -> int:
        """The mask of all bits but the sign."""
        return (1 << (self.bits - 1)) - 1

    def _shifts(self) -> range:
        step = (self.one & -self.one).bit_length() - 1
        return range(0, self.bits, step)

    @property
    def scale(self) -> int:
        """The scrambled pattern of 1.0, which embeds as 1."""
        scrambled = self.one * self.multiplier & self.below
        return scrambled ^ scrambled >> self._shifts()[1]

    def _signed(self, magnitude: np.ndarray, sign: np.ndarray) -> np.ndarray:
        """The magnitude, negated below the sign where that is set."""
        below = magnitude.dtype.type(self.below)
        return np.where(sign != 0, -magnitude & below, magnitude & below)

    def embed(self, patterns: np.ndarray) -> np.ndarray:
        number = patterns.dtype.type
        sign = patterns & number(self.below + 1)
        scrambled = patterns * number(self.multiplier & self.below) & number(self.below)
        scrambled ^= scrambled >> number(self._shifts()[1])
        return self._signed(scrambled * number(pow(self.scale, -1, self.below + 1)), sign) | sign

    def unembed(self, payloads: np.ndarray) -> np.ndarray:
        number = payloads.dtype.type
        sign = payloads & number(self.below + 1)
        scrambled = self._signed(payloads, sign) * number(self.scale) & number(self.below)
        product = np.zeros_like(scrambled)
        for shift in self._shifts():  # x = y ^ y >> s  <=>  y = x ^ x >> s ^ x >> 2s ^ ...
            product ^= scrambled >> number(shift)
        inverse = pow(self.multiplier, -1, self.below + 1)
        return product * number(inverse) & number(self.below) | sign


def multiplier_of(llvm_ir: str) -> int:
    """The multiplier of the embedding: the first constant factor of a kernel that embeds what it loads."""
    factors = re.findall(r" = mul i\d+ %[\w.]+, (-?\d+)", llvm_ir)
    assert factors, "no multiplication by a constant in the LLVM IR"
    return int(factors[0])


# ---------------------------------------------------------------------------------------------------------------------
# Operations


def _signed(x: np.ndarray) -> np.ndarray:
    return x.view(SIGNED[x.dtype.itemsize * 8])


def _on_signed(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(_: Operation, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(function(_signed(x), _signed(y))).view(x.dtype)

    return apply


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _, *values: function(*values)


def _shift(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(_: Operation, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        assert np.all(y < x.dtype.itemsize * 8), "a shift by the width or more has no value"
        return np.asarray(function(x, y))

    return apply


def _constant(op: Operation) -> np.ndarray:
    kind = op.result_type
    text = re.fullmatch(r"(?:dense<(.*)>|(.*))", op.head.strip())
    assert text is not None
    literal = text[1] or text[2]
    if kind.element.bits == 1:
        value: Any = np.bool_({"true": True, "false": False}[literal])
    elif kind.element.is_float and not literal.startswith("0x"):
        floats = {"f64": np.float64, "f32": np.float32}
        if kind.element.name not in floats:
            raise UnknownOperation(f"arith.constant {op.head}")
        value = floats[kind.element.name](literal).view(UNSIGNED[kind.element.bits])
    else:
        value = UNSIGNED[kind.element.bits](int(literal, 0) % (1 << kind.element.bits))
    return np.full((1, *kind.shape), value)


_ORDERS = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt}
_ORDERS |= {"ge": operator.ge}


def _compare_integers(op: Operation, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    predicate = op.words[0]
    if predicate.startswith("s"):
        x, y = _signed(x), _signed(y)
    return np.asarray(_ORDERS[predicate[-2:]](x, y))


def _numbers(patterns: np.ndarray, name: str) -> np.ndarray:
    """Floats of the given patterns."""
    if name == "bf16":
        return (patterns.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return patterns.view({"f64": np.float64, "f32": np.float32, "f16": np.float16}[name])


def _compare_floats(op: Operation, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if op.words[0] != "oeq":
        raise UnknownOperation(f"arith.cmpf {op.words[0]}")
    name = op.types[0][0].element.name
    return np.asarray(_numbers(x, name) == _numbers(y, name))


def _clamp_floats(op: Operation, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    name = op.result_type.element.name
    number, least, most = (_numbers(values, name) for values in (x, low, high))
    return np.fmin(np.fmax(number, least), most).view(x.dtype)


def _absolute(_: Operation, x: np.ndarray) -> np.ndarray:
    return x & x.dtype.type((1 << (x.dtype.itemsize * 8 - 1)) - 1)


def _resize(op: Operation, x: np.ndarray) -> np.ndarray:
    return x.astype(UNSIGNED[op.result_type.element.bits])


def _extend_signed(op: Operation, x: np.ndarray) -> np.ndarray:
    bits = op.result_type.element.bits
    return _signed(x).astype(SIGNED[bits]).view(UNSIGNED[bits])


def _same_bits(op: Operation, x: np.ndarray) -> np.ndarray:
    assert x.dtype.itemsize * 8 == op.result_type.element.bits
    return x


def _offsets_of(function: Callable[[Operation, np.ndarray], np.ndarray]) -> Callable[..., Any]:
    """Let an operation on shapes act on pointers too."""

    def apply(op: Operation, x: Any) -> Any:
        return Pointer(x.argument, function(op, x.offset)) if isinstance(x, Pointer) else function(op, x)

    return apply


def _spread(op: Operation, x: np.ndarray) -> np.ndarray:
    shape = op.result_type.shape
    aligned = x.reshape(x.shape[0], *(1,) * len(shape)) if x.ndim == 1 else x
    return np.broadcast_to(aligned, (x.shape[0], *shape))


def _move_pointer(_: Operation, pointer: Pointer, offset: np.ndarray) -> Pointer:
    return Pointer(pointer.argument, pointer.offset + _signed(offset).astype(np.int64))


def _range(op: Operation) -> np.ndarray:
    return np.arange(op.integer("start"), op.integer("end"), dtype=np.uint32)[None]


OPERATIONS: dict[str, Callable[..., Any]] = {
    "arith.constant": _constant,
    "arith.addi": _plain(operator.add),
    "arith.subi": _plain(operator.sub),
    "arith.muli": _plain(operator.mul),
    "arith.divui": _plain(operator.floordiv),
    "arith.remsi": _on_signed(np.fmod),  # the sign of the dividend
    "arith.andi": _plain(operator.and_),
    "arith.ori": _plain(operator.or_),
    "arith.xori": _plain(operator.xor),
    "arith.shli": _shift(operator.lshift),
    "arith.shrui": _shift(operator.rshift),
    "arith.maxsi": _on_signed(np.maximum),
    "arith.minsi": _on_signed(np.minimum),
    "arith.cmpi": _compare_integers,
    "arith.cmpf": _compare_floats,
    "arith.select": _plain(np.where),
    "arith.trunci": _resize,
    "arith.extui": _resize,
    "arith.extsi": _extend_signed,
    "math.absf": _absolute,
    "tt.clampf": _clamp_floats,
    "tt.bitcast": _same_bits,
    "tt.splat": _offsets_of(_spread),
    "tt.broadcast": _offsets_of(_spread),
    "tt.expand_dims": _offsets_of(lambda op, x: np.expand_dims(x, op.integer("axis") + 1)),
    "tt.addptr": _move_pointer,
    "tt.make_range": _range,
    "ttg.convert_layout": _offsets_of(lambda op, x: x),
}


# ---------------------------------------------------------------------------------------------------------------------
# Evaluation


class Evaluation:
    """One launch of a sanitised kernel.

    Args:
        memory: the array of each argument, by its name in the text, changed in place.
        programs: how many programs run.
        embeddings: the bijection of each float type, by its name in the text.
    """

    def __init__(self, memory: dict[str, np.ndarray], programs: int, embeddings: dict[str, Embedding]) -> None:
        self.memory = memory
        self.programs = programs
        self.embeddings = embeddings
        self.values: dict[str, Any] = {name: Pointer(name, np.zeros(1, np.int64)) for name in memory}
        self.unknown: dict[str, str] = {}
        self.operations: dict[str, Callable[..., Any]] = {
            **OPERATIONS,
            "tt.reduce": self._reduce,
            "tt.scan": self._scan,
            "tt.get_program_id": self._program,
            "tt.load": self._load,
            "tti.experimental_fpsan_embed": self._embed,
            "tti.experimental_fpsan_unembed": self._unembed,
        }

    def block(self, block: Block, arguments: Sequence[Any] = ()) -> list[Any]:
        """Evaluate a block with the given arguments; return what its last operation passes on."""
        self.values.update(zip((name for name, _ in block.arguments), arguments, strict=True))
        for op in block.operations:
            # `for %i = %low to %high step %step iter_args(%carried = %initial, ...)` names two sorts of values.
            names = op.operands[1:4] + op.operands[5::2] if op.name == "scf.for" else op.operands
            operands = [self.values[name] for name in names]
            if op.name in ("scf.yield", "tt.reduce.return", "tt.scan.return", "tt.return"):
                return operands
            if op.name == "tt.store":
                self._store(op, operands)
                continue
            if not op.results:
                raise UnknownOperation(op.name)
            self.values.update(zip(op.results, self._results(op, operands), strict=True))
        return []

    def _results(self, op: Operation, operands: list[Any]) -> Sequence[Any]:
        if op.name == "scf.for":  # what it carries may be unknown in parts
            return self._loop(op, operands)
        poisoned = [value for value in operands if isinstance(value, Unknown)]
        function = self.operations.get(op.name)
        if poisoned or function is None:
            return [poisoned[0] if poisoned else Unknown(op.name)] * len(op.results)
        try:
            return [function(op, *operands)]
        except UnknownOperation as unknown:
            return [Unknown(str(unknown))]

    def _loop(self, op: Operation, operands: list[Any]) -> Sequence[Any]:
        first, last, step = (int(_signed(value).item()) for value in operands[:3])
        passed, names = operands[3:], [op.operands[0], *op.operands[4::2]]
        for index in range(first, last, step):
            self.values.update(zip(names, [np.full(1, index, operands[0].dtype), *passed], strict=True))
            passed = self.block(op.regions[0].block)
        return passed

    def _partial(self, op: Operation, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The combinations of the first slices along the axis: of one, of two, and so on."""
        if len(operands) != 1:
            raise UnknownOperation(f"{op.name} of {len(operands)} values")
        slices = list(np.moveaxis(operands[0], op.integer("axis") + 1, 0))
        ordered = slices[::-1] if op.flag("reverse") else slices
        partial = list(itertools.accumulate(ordered, lambda x, y: self.block(op.regions[0].block, [x, y])[0]))
        if isinstance(partial[-1], Unknown):
            raise UnknownOperation(partial[-1].operation)
        return partial

    def _reduce(self, op: Operation, *operands: np.ndarray) -> np.ndarray:
        return self._partial(op, operands)[-1]

    def _scan(self, op: Operation, *operands: np.ndarray) -> np.ndarray:
        partial = self._partial(op, operands)
        return np.stack(partial[::-1] if op.flag("reverse") else partial, axis=op.integer("axis") + 1)

    def _program(self, op: Operation) -> np.ndarray:
        assert op.words == ["x"]
        return np.arange(self.programs, dtype=np.uint32)

    def _load(self, _: Operation, pointer: Pointer) -> np.ndarray:
        return self.memory[pointer.argument].reshape(-1)[pointer.offset]

    def _store(self, op: Operation, operands: list[Any]) -> None:
        if len(op.operands) != 2:
            raise UnknownOperation("tt.store with a mask")
        pointer, value = operands
        if isinstance(value, Unknown):
            self.unknown[pointer.argument] = value.operation
        else:
            self.memory[pointer.argument].reshape(-1)[pointer.offset] = value

    def _embed(self, op: Operation, patterns: np.ndarray) -> np.ndarray:
        return self.embeddings[op.types[0][0].element.name].embed(patterns)

    def _unembed(self, op: Operation, payloads: np.ndarray) -> np.ndarray:
        return self.embeddings[op.result_type.element.name].unembed(payloads)


def run(ttgir: str, arrays: Sequence[np.ndarray], programs: int, embeddings: dict[str, Embedding]) -> dict[int, str]:
    """Evaluate a sanitised kernel.

    Args:
        ttgir: the text.
        arrays: one C-contiguous array for each argument of the kernel, changed in place.
        programs: how many programs run.
        embeddings: the bijection of each float type, by its name in the text.

    Returns:
        By argument number, the name of the unknown operation that a stored value depends on.

    Raises:
        UnknownOperation: for an unknown operation without a result.
    """
    kernel = parse(ttgir).kernel
    names = [name for name, _ in kernel.arguments]
    evaluation = Evaluation(dict(zip(names, arrays, strict=True)), programs, embeddings)
    with np.errstate(all="ignore"):
        evaluation.block(kernel.body.block)
    return {names.index(name): operation for name, operation in evaluation.unknown.items()}
