"""Compare what two sides wrote or returned, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fpsan_tools.algebra import Algebra
from fpsan_tools.checking.inputs import is_float
from fpsan_tools.checking.patterns import Pattern, find_pattern
from fpsan_tools.checking.sides import Outcome, Output
from fpsan_tools.exceptions import FpsanError, UnknownName

Bits = npt.NDArray[Any]


@dataclass(frozen=True)
class Comparison:
    """One output of both sides.

    Attributes:
        name: the output's name.
        dtype: Triton's name of its type, or both names where they differ.
        shape: its shape, or side a's where they differ.
        differing: number of differing elements.
        total: number of elements.
        first: coordinates of the first differing element in row-major order, () if none differs.
        values: that element of both sides: payloads of floats, else values, as texts.
        pattern: where the differences lie.
        problem: why the elements cannot be compared (other shapes or types), "" if they can.
        different: the differing elements.
        a: bit patterns of side a.
        b: bit patterns of side b.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    differing: int
    total: int
    first: tuple[int, ...] = ()
    values: tuple[str, str] = ("", "")
    pattern: Pattern = field(default_factory=lambda: find_pattern(np.zeros(1, np.bool_)))
    problem: str = ""
    different: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_), repr=False, compare=False)
    a: Bits = field(default_factory=lambda: np.zeros(0, np.uint8), repr=False, compare=False)
    b: Bits = field(default_factory=lambda: np.zeros(0, np.uint8), repr=False, compare=False)

    @property
    def equal(self) -> bool:
        """Whether every element agrees."""
        return not self.problem and self.differing == 0

    @property
    def share(self) -> float:
        """Share of differing elements, 0 to 1; 1 where shapes or types differ."""
        return 1.0 if self.problem else self.differing / max(self.total, 1)


def pair_outputs(a: Outcome, b: Outcome, wanted: Sequence[str] | None = None) -> list[tuple[str, Output, Output]]:
    """Decide which results of the two sides belong together.

    What is returned is compared in its order; else the arrays that a side changed are its results, by name. A side
    that returns and one that writes are compared in order, if there are equally many.

    Args:
        a: first side.
        b: second side.
        wanted: names of array arguments to compare instead of those that changed.

    Returns:
        Name, output of a, output of b.

    Raises:
        FpsanError: if the results do not match in number, or there are none.
        UnknownName: if a wanted name is no array argument.
    """
    if wanted is not None:
        for name in wanted:
            if name not in a.arrays:
                raise UnknownName.of("output", name, a.arrays)
        return [(name, a.arrays[name], b.arrays[name]) for name in wanted]
    if a.returned is None and b.returned is None:
        names = [name for name in a.arrays if name in a.written or name in b.written]
        if not names:
            raise FpsanError("neither side returned or changed an array, so there is nothing to compare")
        return [(name, a.arrays[name], b.arrays[name]) for name in names]
    left = a.returned if a.returned is not None else [a.arrays[name] for name in a.written]
    right = b.returned if b.returned is not None else [b.arrays[name] for name in b.written]
    if len(left) != len(right):
        told = [f"{len(x)} ({', '.join(o.name for o in x) or 'none'})" for x in (left, right)]
        raise FpsanError(f"side a has {told[0]} results and side b has {told[1]}; name the arrays with outputs=[...]")
    names = [x.name if a.returned is None else y.name for x, y in zip(left, right, strict=True)]
    return list(zip(names, left, right, strict=True))


def compare(name: str, a: Output, b: Output, algebra: Algebra) -> Comparison:
    """Compare one output of both sides.

    Args:
        name: what it is called.
        a: of the first side.
        b: of the second side.
        algebra: for the payloads that are shown.

    Returns:
        The comparison.
    """
    if a.bits.shape != b.bits.shape or a.dtype != b.dtype:
        if a.bits.shape != b.bits.shape:
            problem = f"shapes differ: {_shape(a.bits.shape)} and {_shape(b.bits.shape)}"
        else:
            problem = f"types differ: {a.dtype} and {b.dtype}"
        dtype = a.dtype if a.dtype == b.dtype else f"{a.dtype} / {b.dtype}"
        return Comparison(name, dtype, a.bits.shape, a.bits.size, a.bits.size, problem=problem, a=a.bits, b=b.bits)
    different = np.asarray(a.bits != b.bits)
    count = int(np.count_nonzero(different))
    first: tuple[int, ...] = ()
    values = ("", "")
    if count:
        first = tuple(int(i) for i in np.unravel_index(int(np.argmax(different)), different.shape))
        values = (_shown(a.bits[first], a.dtype, algebra), _shown(b.bits[first], b.dtype, algebra))
    return Comparison(
        name,
        a.dtype,
        a.bits.shape,
        count,
        different.size,
        first,
        values,
        find_pattern(different),
        different=different,
        a=a.bits,
        b=b.bits,
    )


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "a scalar"


def _shown(bits: Any, dtype: str, algebra: Algebra) -> str:
    """A payload in hexadecimal, or an integer in its own sign."""
    array = np.asarray(bits).reshape(1)
    if is_float(dtype):
        payload = int(algebra.embed(array, dtype)[0])
        return f"0x{payload:0{array.dtype.itemsize * 2}X}"
    return str(int(array.view(f"i{array.dtype.itemsize}")[0] if dtype.startswith("i") else array[0]))
