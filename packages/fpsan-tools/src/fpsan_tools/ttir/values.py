"""Values of the evaluator: arrays over all programs of a slice, kept as small as broadcasting allows.

The leading axis counts programs, the others are the tensor's. An axis along which a value does not vary has length 1:
splats, row offsets and column masks stay small, and NumPy's broadcasting does the rest. `type.shape` is the full shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fpsan_tools.ttir.types import Type

Array = npt.NDArray[Any]


class Address:
    """Byte addresses as a sum of terms, such as row starts plus column offsets, added only where they are used."""

    __slots__ = ("terms",)

    def __init__(self, terms: Sequence[Array]) -> None:
        self.terms = tuple(terms)

    def plus(self, offsets: Array) -> Address:
        """Add byte offsets; a term that has the offsets' shape (or more) takes them up."""
        for i, term in enumerate(self.terms):
            if np.broadcast_shapes(term.shape, offsets.shape) == term.shape:
                return Address((*self.terms[:i], term + offsets, *self.terms[i + 1 :]))
        for i, term in enumerate(self.terms):
            if np.broadcast_shapes(term.shape, offsets.shape) == offsets.shape:
                return Address((*self.terms[:i], *self.terms[i + 1 :], term + offsets))
        return Address((*self.terms, offsets))

    def total(self) -> Array:
        """The addresses themselves."""
        result = self.terms[0]
        for term in self.terms[1:]:
            result = result + term
        return result

    @property
    def shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*(term.shape for term in self.terms))


class Descriptor(NamedTuple):
    """A tensor descriptor: base address, sizes and strides (in elements) per program, and what lies outside.

    Attributes:
        base: byte addresses, shape (programs or 1,).
        sizes: sizes of the tensor, one array of shape (programs or 1,) per axis.
        strides: strides in elements, likewise.
        pad_with_nan: whether elements outside read as NaN instead of zero.
        to_tf32: whether loaded fp32 values are rounded to TF32.
    """

    base: Array
    sizes: tuple[Array, ...]
    strides: tuple[Array, ...]
    pad_with_nan: bool = False
    to_tf32: bool = False


class Value:
    """Data and type. Data is an array, an `Address` for pointers, or a `Descriptor`."""

    __slots__ = ("data", "type")

    def __init__(self, data: Any, type: Type) -> None:
        self.data = data
        self.type = type

    def map(self, function: Callable[[Array], Array], type: Type) -> Value:
        """Apply a rearrangement to the data, term by term for addresses."""
        if isinstance(self.data, Address):
            return Value(Address([function(term) for term in self.data.terms]), type)
        return Value(function(self.data), type)

    def array(self) -> Array:
        """The data as one array, addresses added up."""
        data = self.data
        return data.total() if isinstance(data, Address) else data

    def full(self, programs: int | None = None) -> Array:
        """The data with every tensor axis at its full length, and the leading axis too if `programs` is given."""
        array = self.array()
        leading = array.shape[0] if programs is None else programs
        return np.broadcast_to(array, (leading, *self.type.shape))

    def rows(self, rows: Array) -> Value:
        """The value for some programs only."""
        data = self.data
        if isinstance(data, Address):
            return Value(Address([_rows(term, rows) for term in data.terms]), self.type)
        if isinstance(data, Descriptor):
            chosen = Descriptor(
                _rows(data.base, rows),
                tuple(_rows(size, rows) for size in data.sizes),
                tuple(_rows(stride, rows) for stride in data.strides),
                data.pad_with_nan,
                data.to_tf32,
            )
            return Value(chosen, self.type)
        return Value(_rows(data, rows), self.type)


def _rows(array: Array, rows: Array) -> Array:
    return array if array.shape[0] == 1 else array[rows]


def merge(count: int, parts: list[tuple[Array | None, list[Value]]]) -> list[Value]:
    """Put together what groups of programs computed.

    Args:
        count: number of programs.
        parts: pairs of row numbers (None for all rows) and the values of those rows; together they cover all rows.

    Returns:
        The values of all rows.
    """
    if len(parts) == 1:
        rows, values = parts[0]
        if rows is None or len(rows) == count:
            return values
    merged = []
    for position in range(len(parts[0][1])):
        values = [part[position] for _, part in parts]
        first = values[0]
        if isinstance(first.data, Descriptor):
            merged.append(Value(_merge_descriptors(count, parts, [v.data for v in values]), first.type))
            continue
        arrays = [value.array() for value in values]
        data = _merge_arrays(count, [rows for rows, _ in parts], arrays)
        merged.append(Value(Address([data]) if isinstance(first.data, Address) else data, first.type))
    return merged


def _merge_arrays(count: int, rows: list[Array | None], arrays: list[Array]) -> Array:
    shape = np.broadcast_shapes(*(array.shape[1:] for array in arrays))
    result = np.empty((count, *shape), arrays[0].dtype)
    for chosen, array in zip(rows, arrays, strict=True):
        result[slice(None) if chosen is None else chosen] = array
    return result


def _merge_descriptors(
    count: int, parts: list[tuple[Array | None, list[Value]]], descriptors: list[Descriptor]
) -> Descriptor:
    rows = [chosen for chosen, _ in parts]
    first = descriptors[0]
    return Descriptor(
        _merge_arrays(count, rows, [d.base for d in descriptors]),
        tuple(_merge_arrays(count, rows, [d.sizes[i] for d in descriptors]) for i in range(len(first.sizes))),
        tuple(_merge_arrays(count, rows, [d.strides[i] for d in descriptors]) for i in range(len(first.strides))),
        first.pad_with_nan,
        first.to_tf32,
    )


class Frame:
    """Names and values of a region that is being evaluated, for all programs or for some rows of its parent."""

    __slots__ = ("count", "parent", "rows", "values")

    def __init__(self, parent: Frame | None, rows: Array | None, count: int) -> None:
        self.parent = parent
        self.rows = rows
        self.count = count
        self.values: dict[str, Value] = {}

    def get(self, name: str) -> Value:
        """The value of a name, from this frame or the surrounding ones."""
        value = self.values.get(name)
        if value is not None:
            return value
        if self.parent is None:
            raise KeyError(name)
        value = self.parent.get(name)
        if self.rows is not None:
            value = value.rows(self.rows)
        self.values[name] = value
        return value

    def inner(self, rows: Array | None = None) -> Frame:
        """A frame for a nested region."""
        return Frame(self, rows, self.count if rows is None else len(rows))
