"""Which operations of a kernel FpSan leaves as they are: what a comparison of payloads does not cover.

A table says why each of them sees something else than payloads; nothing is evaluated here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fpsan_tools.algebra import Algebra
from fpsan_tools.ttir.parser import Module, Operation


@dataclass(frozen=True)
class Unsanitised:
    """An operation that FpSan leaves as it is, so that payloads do not cover it.

    Attributes:
        op: its name in the intermediate representation, with the variant where that matters.
        file: source file, "" if unknown.
        line: line in it, 0 if unknown.
        reason: what it sees instead of payloads, as a sentence part.
        decisive: whether its result depends on the order of programs or on rounding, so that payloads decide nothing.
    """

    op: str
    file: str
    line: int
    reason: str
    decisive: bool = False


_SEES_BITS = "sees the floats' bits, not payloads"
_SPLITS = frozenset({"tf32x3", "bf16x3", "bf16x6"})


def _is_float(operation: Operation, side: int = 0) -> bool:
    return any(type.element.is_float for type in operation.types[side])


def _bitcast(operation: Operation, algebra: Algebra) -> tuple[str, bool] | None:
    before, after = operation.types
    if not before or not after or before[0].element.is_float == after[0].element.is_float:
        return None
    return "reinterprets the floats' bits, not payloads", False


def _atomic(operation: Operation, algebra: Algebra) -> tuple[str, bool] | None:
    elements = [type.element for types in operation.types for type in types]
    if not any(e.is_float or (e.pointee is not None and e.pointee.is_float) for e in elements):
        return None
    if operation.words and operation.words[0] == "exch":
        return "exchanges floats in memory in the order in which programs arrive", True
    return "combines floats in memory with IEEE rounding, in the order in which programs arrive", True


def _dot(operation: Operation, algebra: Algebra) -> tuple[str, bool] | None:
    precision = operation.attributes.get("inputPrecision", "ieee")
    if precision not in _SPLITS:
        return None
    return f"splits its operands ({precision}) before FpSan sees them, so payloads differ by construction", True


def _clamp(operation: Operation, algebra: Algebra) -> tuple[str, bool] | None:
    return None if algebra.instruments_clamp else (f"stays as it is in this version: it {_SEES_BITS}", False)


def _inline(operation: Operation, algebra: Algebra) -> tuple[str, bool] | None:
    if not (_is_float(operation) or _is_float(operation, 1)):
        return None
    if algebra.tags_inline_asm and operation.flag("pure"):
        return None
    return f"is assembly that {_SEES_BITS}", False


def _extern(operation: Operation, algebra: Algebra) -> tuple[str, bool] | None:
    if operation.flag("pure") or not _is_float(operation, 1):
        return None
    return f"is an external function with side effects: it {_SEES_BITS}", False


def _always(reason: str) -> Callable[[Operation, Algebra], tuple[str, bool] | None]:
    return lambda operation, algebra: (reason, False)


_RULES: dict[str, Callable[[Operation, Algebra], tuple[str, bool] | None]] = {
    "arith.cmpf": _always("compares the floats' bits as IEEE numbers, not payloads"),
    "math.absf": _always("clears the sign bit of the float, not of the payload"),
    "arith.fptosi": _always("converts the floats' bits to an integer, not payloads"),
    "arith.fptoui": _always("converts the floats' bits to an integer, not payloads"),
    "arith.sitofp": _always("makes a float of an integer with IEEE rounding, before payloads begin"),
    "arith.uitofp": _always("makes a float of an integer with IEEE rounding, before payloads begin"),
    "tt.bitcast": _bitcast,
    "arith.bitcast": _bitcast,
    "tt.atomic_rmw": _atomic,
    "tt.atomic_cas": _atomic,
    "tt.descriptor_reduce": _atomic,
    "tt.dot": _dot,
    "tt.clampf": _clamp,
    "tt.elementwise_inline_asm": _inline,
    "tt.extern_elementwise": _extern,
}


def gaps(module: Module, algebra: Algebra) -> list[Unsanitised]:
    """List the operations of a kernel that are not instrumented.

    Args:
        module: the kernel's operations.
        algebra: the version's algebra: later versions instrument more.

    Returns:
        One entry per operation and source line, in the order of the text.
    """
    found: dict[Unsanitised, None] = {}
    for operation in module.operations():
        rule = _RULES.get(operation.name)
        answer = rule(operation, algebra) if rule is not None else None
        if answer is not None:
            reason, decisive = answer
            place = operation.location.user
            name = operation.name
            if rule is _atomic and operation.words:
                name = f"{name} {operation.words[0]}"
            found.setdefault(Unsanitised(name, place.file, place.line, reason, decisive))
    return list(found)
