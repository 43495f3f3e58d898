"""Memory of a launch: the arrays that were passed, at addresses that this module hands out.

Every buffer gets an address range of its own, far from the others, so an access outside of the arrays is found and
never lands in a neighbour. Values in memory are bit patterns (unsigned integers); their meaning is the domain's.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fpsan_tools.exceptions import FpsanError, OutOfBounds
from fpsan_tools.ttir.types import Element
from fpsan_tools.ttir.values import Address, Array

_SHIFT = 42  # an address is (buffer number << 42) + byte offset
_BASE = 1 << _SHIFT


@dataclass
class Span:
    """A run of real memory: from where to where, whether it may be written, and who keeps it alive."""

    low: int
    high: int
    writable: bool
    owner: Any
    name: str


@dataclass(eq=False)
class Buffer:
    """A stretch of memory that passed arrays occupy.

    Attributes:
        number: its number, from 1; byte `i` has the address (number << 42) + i.
        low: real address of its first byte.
        bytes: its content.
        allowed: byte ranges that passed arrays span, merged, in order.
        writable: whether all of those arrays may be written.
        names: names of the arguments that lie in it.
    """

    number: int
    low: int
    bytes: Array
    allowed: list[tuple[int, int]]
    writable: bool
    names: list[str]
    owners: list[Any] = field(default_factory=list)
    views: dict[Any, Array] = field(default_factory=dict)

    @property
    def address(self) -> int:
        return self.number << _SHIFT

    def view(self, dtype: np.dtype[Any]) -> Array:
        """The content as elements of `dtype`."""
        found = self.views.get(dtype)
        if found is None:
            usable = len(self.bytes) // dtype.itemsize * dtype.itemsize
            found = self.views[dtype] = self.bytes[:usable].view(dtype)
        return found


class Memory:
    """Loads, stores and atomics on the passed arrays, with bounds checks.

    Args:
        spans: the arrays that were passed: the range of each and whether it may be written.
        check_masked: also refuse masked-off lanes that point outside.
    """

    def __init__(self, spans: list[Span], check_masked: bool = False) -> None:
        self.check_masked = check_masked
        self.buffers: list[Buffer] = []
        for span in sorted(spans, key=lambda s: s.low):
            last = self.buffers[-1] if self.buffers else None
            if last is not None and span.low < last.low + len(last.bytes):
                self._extend(last, span)
            else:
                number = len(self.buffers) + 1
                content = _bytes(span.low, span.high)
                ranges = [(0, span.high - span.low)]
                self.buffers.append(Buffer(number, span.low, content, ranges, span.writable, [span.name], [span.owner]))

    def _extend(self, buffer: Buffer, span: Span) -> None:
        """Another array overlaps the buffer: both are views of the same memory."""
        high = max(buffer.low + len(buffer.bytes), span.high)
        buffer.bytes = _bytes(buffer.low, high)
        buffer.allowed = [(0, high - buffer.low)]
        buffer.writable = buffer.writable and span.writable
        buffer.names.append(span.name)
        buffer.owners.append(span.owner)

    def address(self, real: int) -> int:
        """The address that stands for a real one.

        Raises:
            OutOfBounds: if no passed array holds it.
        """
        for buffer in self.buffers:
            if buffer.low <= real < buffer.low + len(buffer.bytes):
                return buffer.address + real - buffer.low
        raise OutOfBounds(f"address {real:#x} lies in none of the arrays that were passed")

    def pointers(self, integers: Array) -> Array:
        """Addresses from integers: this module's own are kept, real ones (of passed arrays) are translated."""
        result = integers.astype(np.int64)
        for buffer in self.buffers:
            inside = (result >= buffer.low) & (result < buffer.low + len(buffer.bytes))
            if inside.any():
                result = np.where(inside, result - buffer.low + buffer.address, result)
        return result

    # ---- where an access goes

    def _buffer(self, low: int, high: int) -> Buffer | None:
        """The buffer that holds all bytes from `low` to `high`, if one does."""
        number = low >> _SHIFT
        if not 1 <= number <= len(self.buffers):
            return None
        buffer = self.buffers[number - 1]
        start, end = low - buffer.address, high - buffer.address
        return buffer if any(a <= start and end <= b for a, b in buffer.allowed) else None

    def _aligned(self, address: Address, width: int) -> bool:
        """Whether every term is a multiple of the width (virtual bases are)."""
        return width == 1 or not any(int(np.bitwise_or.reduce(t, axis=None)) & (width - 1) for t in address.terms)

    def load(
        self, address: Address, mask: Array | None, element: Element, padded: bool = False
    ) -> tuple[Array, Array | None]:
        """Read bit patterns.

        Args:
            address: byte addresses.
            mask: lanes that are read, None for all; masked-off lanes give 0.
            element: type of the elements.
            padded: whether masked-off lanes may point outside by design, as a descriptor's do.

        Returns:
            The patterns, of a shape that broadcasts to the access's, and None; or patterns of the distinct programs and
            the row number of each program.

        Raises:
            OutOfBounds: if a live lane (or a masked-off one, where that was asked for) points outside.
        """
        width = element.memory.itemsize
        check_masked = self.check_masked and not padded
        zero = self.patterns(element).type(0)
        if mask is not None:
            live = np.count_nonzero(mask)
            if live == mask.size:
                mask = None
            elif live == 0:
                if check_masked:
                    self._require(address.total(), width, "masked-off load")
                return np.full((1,) * len(address.shape), zero), None
        address, inverse = _distinct_programs(address, mask)
        low = sum(int(term.min()) for term in address.terms)
        high = sum(int(term.max()) for term in address.terms) + width
        buffer = self._buffer(low, high)
        if buffer is not None and self._aligned(address, width):
            # every lane, masked off or not, is inside: read them all
            bits = self._take(buffer, address, element)
            return (bits if mask is None else np.where(mask, bits, zero)), inverse
        total = address.total()
        if mask is None:
            return self._gather(total, element), inverse
        if check_masked:
            self._require(total, width, "masked-off load")
        total, mask = np.broadcast_arrays(total, mask)
        bits = np.full(total.shape, zero)
        bits[mask] = self._gather(total[mask], element)
        return bits, inverse

    def patterns(self, element: Element) -> np.dtype[Any]:
        """Dtype of the patterns that stand for an element."""
        return element.memory

    def view(self, buffer: Buffer, element: Element) -> Array:
        """The content of a buffer as patterns of an element type; what is written there stays."""
        return buffer.view(element.memory)

    def _take(self, buffer: Buffer, address: Address, element: Element) -> Array:
        """Read elements of one buffer; all addresses are known to be inside and aligned."""
        shift = element.memory.itemsize.bit_length() - 1
        first, *others = address.terms
        index = (first - buffer.address) >> shift
        for term in others:
            index = index + (term >> shift)
        return self.view(buffer, element).take(index)

    def _gather(self, total: Array, element: Element) -> Array:
        """Read at addresses that may lie in several buffers."""
        width = element.memory.itemsize
        low, high = int(total.min()), int(total.max()) + width
        buffer = self._buffer(low, high)
        if buffer is not None and not int(np.bitwise_or.reduce(total, axis=None)) & (width - 1):
            return self._take(buffer, Address([total]), element)
        self._require(total, width, "load")
        return self.peek(total, element)

    def _parts(self, total: Array) -> list[Buffer]:
        return [self.buffers[int(number) - 1] for number in np.unique(total >> _SHIFT)]

    def store(self, address: Address, bits: Array, mask: Array | None, element: Element, padded: bool = False) -> None:
        """Write bit patterns; where several lanes write one place, the last one (in program order) stays.

        Args:
            address: byte addresses.
            bits: what is written.
            mask: lanes that are written, None for all.
            element: type of the elements.
            padded: whether masked-off lanes may point outside by design, as a descriptor's do.

        Raises:
            OutOfBounds: if a live lane points outside or into a read-only array.
        """
        total = address.total()
        shapes = [total.shape, bits.shape] + ([] if mask is None else [mask.shape])
        shape = np.broadcast_shapes(*shapes)
        total, bits = np.broadcast_to(total, shape), np.broadcast_to(bits, shape)
        width = element.memory.itemsize
        if mask is not None:
            if self.check_masked and not padded:
                self._require(total, width, "masked-off store")
            mask = np.broadcast_to(mask, shape)
            total, bits = total[mask], bits[mask]
        if total.size == 0:
            return
        self._require(total, width, "store")
        self.poke(total, bits, element)

    def require_writable(self, total: Array, element: Element) -> None:
        """Refuse addresses (of live lanes) that an atomic operation may not touch.

        Raises:
            OutOfBounds: if one points outside.
            FpsanError: if one points into a read-only array.
        """
        self._require(total, element.memory.itemsize, "atomic access")
        for buffer in self._parts(total):
            self._writable(buffer)

    def peek(self, total: Array, element: Element) -> Array:
        """Read at checked addresses."""
        bits = np.empty(total.shape, self.patterns(element))
        for buffer in self._parts(total):
            rows = (total >> _SHIFT) == buffer.number
            bits[rows] = self._take(buffer, Address([total[rows]]), element)
        return bits

    def poke(self, total: Array, bits: Array, element: Element) -> None:
        """Write at checked addresses."""
        for buffer in self._parts(total):
            self._writable(buffer)
            rows = (total >> _SHIFT) == buffer.number
            content = self.view(buffer, element)
            if rows.all():
                content[(total - buffer.address) // element.memory.itemsize] = bits
            else:
                content[(total[rows] - buffer.address) // element.memory.itemsize] = bits[rows]

    def _writable(self, buffer: Buffer) -> None:
        if not buffer.writable:
            raise FpsanError(f"the kernel writes to {_list(buffer.names)}, which is read-only; pass a writable copy")

    def _require(self, total: Array, width: int, what: str) -> None:
        """Refuse addresses outside of the passed arrays or not aligned to the element's width."""
        if total.size == 0:
            return
        low, high = int(total.min()), int(total.max()) + width
        if self._buffer(low, high) is None:
            good = np.zeros(total.shape, bool)
            for buffer in self.buffers:
                for start, end in buffer.allowed:
                    good |= (total >= buffer.address + start) & (total + width <= buffer.address + end)
            if not good.all():
                self._refuse(total, good, width, what)
        if width > 1 and int(np.bitwise_or.reduce(total, axis=None)) & (width - 1):
            raise OutOfBounds(f"a {what} of {width} bytes at an address that is not a multiple of {width}")

    def _refuse(self, total: Array, good: Array, width: int, what: str) -> None:
        bad = ~good
        index = np.unravel_index(int(np.argmax(bad)), bad.shape)
        address = int(total[index])
        number = (address + (_BASE >> 1)) >> _SHIFT  # an address a little below a buffer belongs to it
        count = int(bad.sum())
        lanes = f"{count} lane{'s' if count > 1 else ''}"
        if 1 <= number <= len(self.buffers):
            buffer = self.buffers[number - 1]
            offset = address - buffer.address
            size = len(buffer.bytes)
            place = f"{-offset} bytes before" if offset < 0 else f"{offset + width - size} bytes past the end of"
            where = f"the first is {place} {_list(buffer.names)} ({size} bytes)"
        else:
            where = f"the first goes to address {address:#x}, which is in none of the arrays that were passed"
        raise OutOfBounds(f"{what} out of bounds in {lanes}; {where}")


def _distinct_programs(address: Address, mask: Array | None) -> tuple[Address, Array | None]:
    """Read once what several programs read: rows of A are shared by all programs of a row of C.

    Only where programs differ by a start address alone.
    """
    leading = [term for term in address.terms if term.shape[0] > 1]
    if len(leading) != 1 or leading[0].size != leading[0].shape[0] or len(address.terms) == 1:
        return address, None
    if mask is not None and mask.shape[0] > 1:
        return address, None
    start = leading[0]
    if start[0] == start[-1] and (start == start.flat[0]).all():
        return Address([start[:1] if term is start else term for term in address.terms]), None
    distinct, inverse = np.unique(start, return_inverse=True)
    if 2 * len(distinct) > len(start):
        return address, None
    reduced = distinct.reshape((-1,) + (1,) * (start.ndim - 1))
    return Address([reduced if term is start else term for term in address.terms]), inverse.reshape(-1)


def _bytes(low: int, high: int) -> Array:
    size = high - low
    if size == 0:
        return np.zeros(0, np.uint8)
    memory: Any = (ctypes.c_uint8 * size).from_address(low)
    return np.frombuffer(memory, np.uint8)


def _list(names: list[str]) -> str:
    return " and ".join(f"array {name!r}" for name in names)
