"""Tensor layouts: which element a register of a lane of a warp holds, as one basis vector per bit.

The element that register r of lane l of warp w holds is the XOR of the bases of the set bits of r, l and w.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fpsan_tools.exceptions import FpsanError
from fpsan_tools.ttir.types import split_top

Vector = tuple[int, ...]


@dataclass(frozen=True)
class Bases:
    """Coordinates that each bit of a register, lane and warp number stands for.

    Attributes:
        registers: one vector per register bit, low bit first; none is zero.
        lanes: one vector per lane bit, low bit first; zero where lanes hold copies.
        warps: one vector per warp bit, likewise.
    """

    registers: tuple[Vector, ...]
    lanes: tuple[Vector, ...]
    warps: tuple[Vector, ...]

    @property
    def levels(self) -> tuple[tuple[Vector, ...], ...]:
        """Registers, lanes and warps."""
        return self.registers, self.lanes, self.warps

    def without_zero_registers(self) -> Bases:
        return Bases(tuple(v for v in self.registers if any(v)), self.lanes, self.warps)


def bases(layout: str, shape: tuple[int, ...], aliases: Mapping[str, str]) -> Bases:
    """Read a layout.

    Args:
        layout: text of the attribute, such as "#blocked" or "#ttg.slice<{dim = 1, parent = #blocked}>".
        shape: the tensor's shape, powers of two.
        aliases: definitions of the names that the text uses, such as {"#blocked": "#ttg.blocked<{...}>"}.

    Returns:
        Its bases.

    Raises:
        FpsanError: for a layout that is not known.
    """
    text = layout.strip()
    while text in aliases:
        text = aliases[text].strip()
    match = re.fullmatch(r"#ttg\.(\w+)<\{(.*)\}>", text, re.DOTALL)
    if match is None:
        raise FpsanError(f"layout {layout!r} is not understood")
    kind, fields = match.group(1), _fields(match.group(2))
    if kind == "blocked":
        sizes = [_numbers(fields[name]) for name in ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order")]
        return _blocked(shape, *sizes)
    if kind == "slice":
        return _slice(int(fields["dim"]), bases(fields["parent"], _with_one(shape, int(fields["dim"])), aliases))
    if kind == "linear":
        return Bases(*(_vectors(fields[name]) for name in ("register", "lane", "warp"))).without_zero_registers()
    if kind == "nvidia_mma":
        version = int(fields["versionMajor"])
        return _mma(shape, version, _numbers(fields["warpsPerCTA"]), _numbers(fields["instrShape"]))
    raise FpsanError(f"layout {kind!r} is not supported")


def _fields(text: str) -> dict[str, str]:
    pairs = (item.partition("=") for item in split_top(text))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _numbers(text: str) -> list[int]:
    return [int(item) for item in split_top(text.strip()[1:-1])]


def _vectors(text: str) -> tuple[Vector, ...]:
    return tuple(tuple(_numbers(item)) for item in split_top(text.strip()[1:-1]))


def _with_one(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], 1, *shape[axis:])


def _unit(rank: int, axis: int, value: int) -> Vector:
    return tuple(value if i == axis else 0 for i in range(rank))


class _Tiling:
    """Lays bits along the axes, each next one twice as far; what goes past the shape is a copy (zero)."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.reached = [1] * len(shape)

    def take(self, axis: int, count: int) -> list[Vector]:
        """Bases of log2(count) bits along an axis."""
        found = []
        for _ in range(count.bit_length() - 1):
            inside = self.reached[axis] < self.shape[axis]
            found.append(_unit(len(self.shape), axis, self.reached[axis] if inside else 0))
            self.reached[axis] *= 2
        return found

    def rest(self, order: list[int]) -> list[Vector]:
        """Bases of the registers that cover what is left of the shape."""
        return [vector for axis in order for vector in self.take(axis, max(1, self.shape[axis] // self.reached[axis]))]


def _blocked(
    shape: tuple[int, ...], registers: list[int], lanes: list[int], warps: list[int], order: list[int]
) -> Bases:
    tiling = _Tiling(shape)
    levels = [
        [vector for axis in order for vector in tiling.take(axis, sizes[axis])] for sizes in (registers, lanes, warps)
    ]
    levels[0] += tiling.rest(order)
    return Bases(*(tuple(level) for level in levels)).without_zero_registers()


def _slice(axis: int, parent: Bases) -> Bases:
    parts = ([v[:axis] + v[axis + 1 :] for v in level] for level in (parent.registers, parent.lanes, parent.warps))
    return Bases(*(tuple(part) for part in parts)).without_zero_registers()


def _mma(shape: tuple[int, ...], version: int, warps: list[int], instruction: list[int]) -> Bases:
    """Accumulators of mma.sync (version 2) and wgmma (version 3): 2 columns, 4 lanes, 8 lanes, then rows + 8."""
    if version not in (2, 3):
        raise FpsanError(f"layouts of matrix unit version {version} are not supported")
    rank = len(shape)
    rows, columns = rank - 2, rank - 1
    tiling = _Tiling(shape)
    registers = tiling.take(columns, 2)
    lanes = tiling.take(columns, 4) + tiling.take(rows, 8)
    registers += tiling.take(rows, 2)
    width = instruction[1] if version == 3 else instruction[-1]
    registers += tiling.take(columns, width // 8)
    # Warps of wgmma go down the rows first, those of mma.sync along the columns.
    order = list(range(rank)) if version == 3 else list(reversed(range(rank)))
    warp_bases = [vector for axis in order for vector in tiling.take(axis, warps[axis])]
    registers += tiling.rest(list(reversed(range(rank))))
    return Bases(tuple(registers), tuple(lanes), tuple(warp_bases)).without_zero_registers()
