"""`fpsan embed`, `fpsan unembed`, `fpsan explain`: what single numbers are under FpSan."""

from __future__ import annotations

import argparse
import re
from typing import Any

import numpy as np

from fpsan_tools import algebra
from fpsan_tools.algebra import Algebra, FloatType, Payload, float_type
from fpsan_tools.algebra.embedding import embedding_constants
from fpsan_tools.exceptions import FpsanError

_PATTERN = re.compile(r"0[xb][0-9a-f_]+", re.IGNORECASE)


def register(subparsers: Any) -> None:
    """Add the parsers of this module."""
    for name, function, noun, text in (
        ("embed", _embed, "value", "payloads of floats"),
        ("unembed", _unembed, "payload", "floats that payloads stand for in memory"),
        ("explain", _explain, "value", "how a float becomes a payload, and what operations make of it"),
    ):
        command = subparsers.add_parser(
            name,
            help=text,
            description=f"Show {text}.",
            epilog="A value is a decimal or hexadecimal float (1.5, -inf, 0x1.8p0), rounded to the type, or a bit "
            "pattern (0x3fc0)."
            if noun == "value"
            else "A payload is an integer: 0x35606380, or decimal, signed or unsigned.",
        )
        command.add_argument("values", nargs="+", metavar=noun, help=f"one or more {noun}s")
        command.add_argument("--dtype", default="fp32", help="fp32 (default), fp16, bf16, fp64, fp8e4m3fn, fp8e5m2")
        command.add_argument("--algebra", metavar="VERSION", help="3.8, 3.9 or 3.9-homomorphic (default: Triton's)")
        command.set_defaults(run=function)


def _embed(arguments: argparse.Namespace) -> int:
    rules, kind = algebra.get(arguments.algebra), float_type(arguments.dtype)
    _table([(text, pattern := _pattern(text, kind), rules.embed(pattern, kind)) for text in _given(arguments)], kind)
    return 0


def _unembed(arguments: argparse.Namespace) -> int:
    rules, kind = algebra.get(arguments.algebra), float_type(arguments.dtype)
    payloads = [(text, _integer(text, kind)) for text in _given(arguments)]
    _table([(text, rules.unembed(payload, kind), payload) for text, payload in payloads], kind)
    return 0


def _given(arguments: argparse.Namespace) -> list[str]:
    return [text.strip() for text in arguments.values]


def _table(rows: list[tuple[str, Payload, Payload]], kind: FloatType) -> None:
    header = ("given", f"{kind.name} value", "bits", "payload", "signed payload")
    cells = [header]
    for text, bits, payload in rows:
        cells.append((text, _number(bits, kind), _hex(bits), _hex(payload), str(int(payload.view(kind.signed)))))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _pattern(text: str, kind: FloatType) -> Payload:
    """The bit pattern of a value: given as such, or a float rounded to nearest even."""
    from fpsan_tools.domains.formats import FORMATS

    if _PATTERN.fullmatch(text):
        return _integer(text, kind)
    try:
        value = float.fromhex(text) if "0x" in text.lower() else float(text)
    except ValueError:
        raise FpsanError(f"value {text!r} is neither a float (1.5, -inf, 0x1.8p0) nor a bit pattern (0x3fc0)") from None
    pattern = FORMATS[kind.mlir].encode(np.array(value, np.float64))
    return np.asarray(pattern).astype(kind.unsigned)


def _integer(text: str, kind: FloatType) -> Payload:
    """An integer of the type's width, signed or unsigned."""
    try:
        number = int(text, 0)
    except ValueError:
        raise FpsanError(f"{text!r} is not an integer; payloads and bit patterns look like 0x3f800000 or -12") from None
    if not -(1 << (kind.bits - 1)) <= number < 1 << kind.bits:
        raise FpsanError(f"{text} does not fit the {kind.bits} bits of {kind.name}")
    return np.array(number % (1 << kind.bits), kind.unsigned)


def _number(bits: Payload, kind: FloatType) -> str:
    from fpsan_tools.domains.formats import FORMATS

    value = float(np.asarray(FORMATS[kind.mlir].decode(bits.reshape(1)))[0])
    short = {64: 17, 32: 9, 16: 5, 8: 4}[kind.bits]
    return f"{value:.{short}g}"


def _hex(x: Any) -> str:
    return f"0x{int(x):0{x.dtype.itemsize * 2}x}"


def _explain(arguments: argparse.Namespace) -> int:
    rules, kind = algebra.get(arguments.algebra), float_type(arguments.dtype)
    print("\n\n".join(_explanation(text, rules, kind) for text in _given(arguments)))
    return 0


def _explanation(text: str, rules: Algebra, kind: FloatType) -> str:
    u = _pattern(text, kind)
    p = rules.embed(u, kind)
    constants = embedding_constants(kind, rules.embed_multiplier)
    n = kind.bits - 1
    magnitude = int(u) % (1 << n)
    y = magnitude * constants.multiplier % (1 << n)
    z = y ^ (y >> kind.shift)
    negative = int(u) >> n
    factor = constants.negative if negative else constants.positive
    two = rules.embed(_pattern("2.0", kind), kind)
    lines = [
        f"{text} as {kind.name} is {_number(u, kind)}, bits {_hex(u)}",
        "",
        f"Embedding (Triton {rules.version}), n = {n}, s = {kind.shift}:",
        f"  u = {magnitude:#x}, {'negative' if negative else 'not negative'}",
        f"  y = u * {constants.multiplier:#x} mod 2^{n} = {y:#x}",
        f"  z = y ^ (y >> {kind.shift}) = {z:#x}",
        f"  payload = z * {factor:#x} mod 2^{n}, with the sign bit = {_hex(p)} = {int(p.view(kind.signed))} signed",
        "",
        f"What operations make of it, mod 2^{kind.bits}:",
        *_operations(
            {
                "x + x": rules.add(p, p),
                "2.0 * x": rules.mul(two, p),
                "-x": rules.neg(p),
                "x * x": rules.mul(p, p),
                **({"1 / x": rules.inv(p), "exp(x)": rules.exp(p)} if kind.bits >= 32 else {}),
            },
            rules,
            kind,
        ),
    ]
    if int(rules.add(p, p)) != int(rules.mul(two, p)):
        lines.append("  (2.0 is an ordinary payload, not 1 + 1, so x + x and 2.0 * x differ)")
    lines += ["", "Casts keep payloads that are small integers; of this one they make:"]
    for target in ("fp64", "fp32", "fp16", "bf16", "fp8e4m3fn", "fp8e5m2"):
        if target != kind.name:
            cast = rules.cast(p, target)
            lines.append(f"  to {target:<10} {_hex(cast)}, in memory {_hex(rules.unembed(cast, target))}")
    return "\n".join(lines)


def _operations(results: dict[str, Payload], rules: Algebra, kind: FloatType) -> list[str]:
    width = max(map(len, results))
    return [
        f"  {name:<{width}}  payload {_hex(p)}, in memory {_hex(rules.unembed(p, kind))}" for name, p in results.items()
    ]
