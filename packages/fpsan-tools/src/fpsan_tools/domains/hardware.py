"""The hardware domain: the bits that an H200 (sm_90) gives, as far as they are known.

Known are sums and other reductions (by the layout that the compiler chose), scans, products on matrix units,
contraction of products into additions, division, roots, exponentials and logarithms of fp32. Everything else is
correctly rounded, and a note says so where the GPU does something else.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fpsan_tools.domains import special_functions as unit
from fpsan_tools.domains.base import Combine, Host
from fpsan_tools.domains.formats import widen
from fpsan_tools.domains.ieee import Ieee
from fpsan_tools.exceptions import FpsanError, UnknownName
from fpsan_tools.ttir.layouts import Bases, Vector, bases
from fpsan_tools.ttir.machine import Machine
from fpsan_tools.ttir.parser import Module, Operation
from fpsan_tools.ttir.types import UNSIGNED, Element, Type
from fpsan_tools.ttir.values import Array

ARCHITECTURES = ("sm_90",)

_INPUTS = {"f16": "fp16", "bf16": "bf16", "f32": "tf32", "f8E4M3FN": "e4m3", "f8E5M2": "e5m2"}
_NAN = {"f32": 0x7FFFFFFF, "f16": 0x7FFF, "bf16": 0x7FFF}
_PACKED = frozenset({"arith.addf", "arith.mulf", "arith.maxnumf", "arith.minnumf", "arith.maximumf", "arith.minimumf"})


def hardware(architecture: str = "sm_90") -> Hardware:
    """The domain that predicts the bits of a GPU.

    Args:
        architecture: "sm_90" (H100, H200).

    Returns:
        A domain for `on_cpu` and `run`.

    Raises:
        UnknownName: for another architecture.
    """
    if architecture not in ARCHITECTURES:
        raise UnknownName.of("architecture", architecture, ARCHITECTURES)
    return Hardware()


class Hardware(Ieee):
    """What an H200 computes. Kernels are compiled to TTGIR, whose layouts fix the order of reductions and scans."""

    name = "hardware"
    stage = "ttgir"
    contracts_sums = True

    def __init__(self) -> None:
        self._module: Module | None = None
        self._known: dict[tuple[str, tuple[int, ...]], Bases] = {}

    # ---- elementwise

    def unary(self, op: str, x: Array, element: Element) -> Array:
        if element.name == "f32":
            if op in _APPROXIMATE:
                return np.asarray(_APPROXIMATE[op](x))
            if op in ("sin", "cos", "erf"):
                self._unknown(op)
        elif element.name == "f64" and op in ("exp", "exp2", "log", "log2", "rsqrt", "sin", "cos", "erf"):
            self._unknown(f"fp64 {op}")
        return super().unary(op, x, element)

    def binary(self, op: str, x: Array, y: Array, element: Element) -> Array:
        if op == "div" and element.name == "f32":
            divide = unit.divide_by_constant if self._divides_by_constant() else unit.divide
            return self._canonical(divide(x, y), element)
        if op == "rem":
            self._unknown("the remainder of floats")
        return self._canonical(super().binary(op, x, y, element), element)

    def fma(self, x: Array, y: Array, z: Array, element: Element) -> Array:
        return self._canonical(super().fma(x, y, z, element), element)

    def extern(self, host: Host, symbol: str, x: list[Array], elements: list[Element], target: Element) -> Array:
        if target.is_float:
            self._unknown(f"the device library's {symbol}")
        return super().extern(host, symbol, x, elements, target)

    def inline_assembly(
        self, host: Host, text: str, x: list[Array], elements: list[Element], targets: list[Element]
    ) -> list[Array]:
        if text.split() == ["cvt.rna.tf32.f32", "$0,", "$1;"]:  # the compiler's own, in split products
            return [_nearest_tf32(x[0])]
        return super().inline_assembly(host, text, x, elements, targets)

    def _unknown(self, what: str) -> None:
        if self.host is not None:
            self.host.note(f"the bits of {what} on sm_90 are not known; it is correctly rounded here")

    def _canonical(self, values: Array, element: Element) -> Array:
        """The pattern of a NaN that arithmetic produces."""
        pattern = _NAN.get(element.name)
        if pattern is None:
            return values
        missing = np.isnan(widen(values, element))
        if not missing.any():
            return values
        bits = np.where(missing, UNSIGNED[element.bits].type(pattern), self.write(values, element))
        return self.read(bits, element)

    def _divides_by_constant(self) -> bool:
        machine = self._machine()
        name = machine.operation.operands[1] if machine.operation is not None else ""
        while (definition := machine.module.definitions.get(name)) is not None:
            if definition.name == "arith.constant":
                return True
            if definition.name not in ("tt.splat", "tt.broadcast", "ttg.convert_layout", "tt.expand_dims"):
                return False
            name = definition.operands[0]
        return False

    # ---- products

    def dot(self, host: Host, a: Array, b: Array, c: Array, elements: tuple[Element, ...], precision: str) -> Array:
        from numfmt import matrix_units

        operation = self._operation()
        left, right, accumulator = elements
        on_unit = operation.name == "ttng.warp_group_dot" or "nvidia_mma" in self._layout(operation.result_type)
        if not on_unit or left.name not in _INPUTS or accumulator.name not in ("f32", "f16"):
            # fp64 products are chains of fused multiply-adds in ascending k on the matrix unit, too.
            if (left.name, accumulator.name) not in (("f32", "f32"), ("f64", "f64")):
                self._unknown(f"tl.dot of {left.name} without a matrix unit")
            return super().dot(host, a, b, c, elements, "ieee")
        inputs = (_INPUTS[left.name], _INPUTS[right.name])
        schedule = self._schedule(operation, a.shape[-1], inputs[0].startswith("e"))
        instruction = "hopper.wgmma" if operation.name == "ttng.warp_group_dot" else "hopper.mma"
        options: dict[str, Any] = {"unit": instruction}
        if schedule is not None:
            options = {"schedule": schedule}
        a, b = widen(a, left).astype(np.float32), widen(b, right).astype(np.float32)
        flat_a, flat_b = a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:])
        flat_c = c.reshape(-1, *c.shape[-2:])
        kind = "fp32" if accumulator.name == "f32" else "fp16"
        try:
            parts = [
                matrix_units.matmul(x, y, z, inputs=inputs, accumulator=kind, **options)
                for x, y, z in zip(flat_a, flat_b, flat_c, strict=True)
            ]
        except ValueError as error:
            raise FpsanError(f"the model of the matrix unit refuses this product: {error}") from None
        return np.stack(parts).reshape(c.shape)

    def _schedule(self, operation: Operation, depth: int, fp8: bool) -> Any:
        """fp8 products are promoted and lowered by rules of their own; others are one chain."""
        from numfmt.matrix_units import tl_dot

        imprecise = operation.integer("maxNumImpreciseAcc", 1 << 30)
        width = self._k_width(operation)
        if not fp8 and width is None:
            return None
        rows, columns = operation.result_type.shape[-2:]
        machine = self._machine()
        return tl_dot(
            depth,
            max_num_imprecise_acc=imprecise if 0 < imprecise <= depth else None,
            num_warps=machine.module.warps,
            block_m=rows,
            block_n=columns,
            k_width=width,
        )

    def _k_width(self, operation: Operation) -> int | None:
        """How many neighbours along k a register of mma.sync's operand holds, where that permutes the products."""
        if operation.name == "ttng.warp_group_dot":
            return None
        import re

        operand = operation.types[0][0]
        found = re.search(r"kWidth = (\d+)", self._layout(operand))
        width = int(found.group(1)) if found else 0
        return width if width > 32 // operand.element.bits else None

    # ---- reductions and scans

    def reduction_masks(self, host: Host, length: int) -> list[int]:
        registers, lanes, warps = self._axis_masks(length)
        operation = self._operation()
        operand = operation.types[0][0]
        body = operation.regions[0].block.operations
        packed = operand.element.bits == 16 and len(operation.operands) == 1 and len(body) == 2
        if packed and body[0].name in _PACKED and len(registers) >= 2:
            layout = self._bases(operand)
            if layout.registers[0][operation.integer("axis")]:  # pairs along the axis are added last
                registers = [*registers[1:], registers[0]]
        return [*registers, *reversed(lanes), *reversed(warps)]

    def reshape_order(self, host: Host) -> Array:
        """No value leaves its register: the result's layout gives new coordinates to what the operand's put there."""
        operation = self._operation()
        source, target = operation.types[0][0], operation.result_type
        before, after = self._bases(source), self._bases(target)
        places, numbers = np.zeros(1, np.int64), np.zeros(1, np.int64)
        for old, new in zip(before.levels, after.levels, strict=True):
            moves = [(_number(a, source.shape), _number(b, target.shape)) for a, b in zip(old, new, strict=False)]
            if len(old) != len(new) or any((a == 0) != (b == 0) for a, b in moves):
                raise FpsanError(f"a reshape from layout {source.layout} to {target.layout} is not understood")
            for a, b in moves:
                if b:
                    numbers, places = np.append(numbers, numbers | a), np.append(places, places | b)
        order = np.empty(len(places), np.int64)
        order[places] = numbers
        return order

    def contracts_first_step(self, host: Host) -> bool:
        operation = self._operation()
        operand = operation.types[0][0]
        registers, lanes, _ = self._axis_masks(operand.shape[operation.integer("axis")])
        if registers:
            return True
        if not lanes:
            return False
        if len(operand.shape) > 1:
            self._machine().note(
                "sums of products that begin with a shuffle are undefined by contract on a GPU with contraction; the "
                "lower lane's result is taken (enable_fp_fusion=False removes the doubt)"
            )
        return True

    def _axis_masks(self, length: int) -> tuple[list[int], list[int], list[int]]:
        """Index bits along the reduced axis that registers, lanes and warps stand for."""
        operation = self._operation()
        operand = operation.types[0][0]
        axis = operation.integer("axis")
        layout = self._bases(operand)
        levels = []
        for level in layout.levels:
            levels.append([vector[axis] for vector in level if vector[axis]])
        masks = sorted(mask for level in levels for mask in level)
        if masks != [1 << i for i in range(length.bit_length() - 1)]:
            raise FpsanError(f"a reduction over the layout {operand.layout} is not understood (masks {masks})")
        return levels[0], levels[1], levels[2]

    def scan_steps(self, host: Host, arrays: list[Array], axis: int, combine: Combine) -> list[Array]:
        operation = self._operation()
        length = arrays[0].shape[axis]
        registers, lanes, warps = self._axis_masks(length)
        chunk = 1
        while chunk in registers:
            chunk *= 2
        count, groups = 1 << len(lanes), 1 << len(warps)
        expected = [chunk << i for i in range(len(lanes) + len(warps))]
        if [*lanes, *warps] != expected:
            raise FpsanError(f"a scan over the layout {operation.types[0][0].layout} is not understood")
        return _scan(arrays, axis, combine, chunk, count, groups)

    # ---- the representation

    def _machine(self) -> Machine:
        if not isinstance(self.host, Machine):
            raise FpsanError("the hardware domain needs a launch")
        return self.host

    def _operation(self) -> Operation:
        operation = self._machine().operation
        if operation is None:
            raise FpsanError("the hardware domain needs an operation")
        return operation

    def _layout(self, type: Type) -> str:
        """The text of a layout with the names in it replaced by their definitions."""
        text, aliases = type.layout, self._machine().module.layouts
        for name in sorted(aliases, key=len, reverse=True):
            text = text.replace(name, aliases[name])
        return text

    def _bases(self, type: Type) -> Bases:
        module = self._machine().module
        if module is not self._module:
            self._module, self._known = module, {}
        key = (type.layout, type.shape)
        if key not in self._known:
            self._known[key] = bases(type.layout, type.shape, module.layouts)
        return self._known[key]


_APPROXIMATE = {
    "exp": unit.exp,
    "exp2": unit.ex2,
    "log": lambda x: unit.logarithm(x, "log"),
    "log2": lambda x: unit.logarithm(x, "log2"),
    "sqrt": unit.square_root,
    "rsqrt": unit.reciprocal_root,
}


def _number(vector: Vector, shape: tuple[int, ...]) -> int:
    """Row-major number of an element."""
    return sum(place * math.prod(shape[axis + 1 :]) for axis, place in enumerate(vector))


def _nearest_tf32(x: Array) -> Array:
    """cvt.rna.tf32.f32: to 10 significand bits, ties away from zero; infinities and NaN stay."""
    bits = x.view(np.uint32)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(x), rounded, bits).view(np.float32)


def _scan(arrays: list[Array], axis: int, combine: Combine, chunk: int, lanes: int, warps: int) -> list[Array]:
    """Scan as the GPU does: chunks in order, lanes by doubling distances, then warps and blocks in order.

    Index = ((block * warps + warp) * lanes + lane) * chunk + place.
    """
    length = arrays[0].shape[axis]
    blocks = length // (chunk * lanes * warps)
    split = [np.moveaxis(a, axis, -1).reshape(*np.delete(a.shape, axis), blocks, warps, lanes, chunk) for a in arrays]

    def at(values: list[Array], place: Any) -> list[Array]:
        return [v[..., place] for v in values]

    # 1. each chunk, left to right
    running = [at(split, 0)]
    for place in range(1, chunk):
        running.append(combine(running[-1], at(split, place)))
    last = [np.array(v) for v in running[-1]]  # (..., blocks, warps, lanes)
    # 2. over the lanes, doubling the distance
    distance = 1
    while distance < lanes:
        moved = combine(at(last, slice(None, -distance)), at(last, slice(distance, None)))
        for v, m in zip(last, moved, strict=True):
            v[..., distance:] = m
        distance *= 2
    # 3. prefixes of warps and blocks, in order
    carry: list[Array] | None = None
    prefixes: dict[tuple[int, int], list[Array]] = {}
    for block in range(blocks):
        for warp in range(warps):
            here = [v[..., block, warp, :] for v in last]
            total = [np.array(v) for v in at(here, -1)]
            if carry is not None:
                prefixes[block, warp] = carry
                added = combine([c[..., np.newaxis] for c in carry], here)
                for v, new in zip(last, added, strict=True):
                    v[..., block, warp, :] = new
                carry = combine(carry, total) if warps > 1 else [v[..., block, warp, -1] for v in last]
            else:
                carry = total
    # 4. the other places of each chunk take up what comes before the chunk
    results = [np.empty_like(s) for s in split]
    for place in range(chunk):
        for result, v in zip(results, running[place] if place < chunk - 1 else last, strict=True):
            result[..., place] = v
    for place in range(chunk - 1):
        if lanes > 1:
            added = combine([v[..., :-1] for v in last], [r[..., 1:, place] for r in results])
            for result, new in zip(results, added, strict=True):
                result[..., 1:, place] = new
        for (block, warp), prefix in prefixes.items():
            added = combine(prefix, [r[..., block, warp, 0, place] for r in results])
            for result, new in zip(results, added, strict=True):
                result[..., block, warp, 0, place] = new
    return [np.moveaxis(r.reshape(*r.shape[:-4], length), -1, axis) for r in results]
