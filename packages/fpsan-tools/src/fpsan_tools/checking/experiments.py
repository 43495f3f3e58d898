"""Experiments on two sides that differ: other sizes and changed inputs.

Each experiment is a small question with a yes or no from a run; a finding is only what runs have shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fpsan_tools.checking.inputs import Arguments, bits_of, dtype_of, is_float, write_bits
from fpsan_tools.checking.verdict import Finding

if TYPE_CHECKING:
    from fpsan_tools.checking.checker import Change, Pair, Trial

Array = npt.NDArray[Any]


class Budget:
    """Seconds that experiments may take."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.exhausted = False

    def left(self) -> bool:
        """Whether another experiment may begin."""
        if time.monotonic() >= self._end:
            self.exhausted = True
        return not self.exhausted


def _attempt(pair: Pair, seed: int, sizes: Mapping[str, int], **changes: Any) -> Trial | None:
    """A trial, or None where the sides do not take these inputs."""
    try:
        trial = pair.run(seed, sizes, **changes)
    except Exception:
        # A launcher may refuse sizes in its own way: those sizes are no experiment.
        return None
    return None if trial.stopped else trial


# ---- sizes

# Not 1, for which the compiler makes another kernel (loops of one step, strides that vanish).
_SMALL = (2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 48, 64, 65, 96, 128, 129, 192, 256, 257)
_PROBED = (7, 8, 12, 15, 16, 17, 20, 31, 32, 33, 40, 47, 48, 63, 64, 65, 80, 96, 97, 127, 128, 129, 192, 256)


def shrink(pair: Pair, trial: Trial, budget: Budget) -> dict[str, int]:
    """Smaller sizes at which the sides still differ.

    Args:
        pair: the sides.
        trial: one that differs.
        budget: for the runs.

    Returns:
        Sizes, each no larger than the trial's.
    """
    sizes = dict(trial.sizes)
    for name, size in trial.sizes.items():
        for smaller in _SMALL:
            if smaller >= size or not budget.left():
                break
            tried = _attempt(pair, trial.seed, {**sizes, name: smaller})
            if tried is not None and not tried.equal:
                sizes[name] = smaller
                break
    return sizes


def size_rules(
    pair: Pair, trial: Trial, small: Mapping[str, int], budget: Budget
) -> tuple[list[Finding], dict[str, str]]:
    """For which lengths the sides agree: multiples of a block, odd ones, short ones.

    Args:
        pair: the sides.
        trial: one that differs.
        small: small sizes at which they differ.
        budget: for the runs.

    Returns:
        Findings, and for every size that has a rule its kind: "tail", "parity", "threshold".
    """
    findings: list[Finding] = []
    kinds: dict[str, str] = {}
    for name, size in trial.sizes.items():
        outcomes: dict[int, bool] = {}
        limit = max(size, 129)
        for value in sorted({*(v for v in _PROBED if v <= limit), small[name]}):
            if not budget.left():
                break
            tried = _attempt(pair, trial.seed, {**small, name: value})
            if tried is not None:
                outcomes[value] = tried.equal
        found = rule(name, outcomes)
        if found is not None:
            findings.append(found)
            kinds[name] = found.kind
    return findings, kinds


def rule(name: str, outcomes: Mapping[int, bool]) -> Finding | None:
    """A rule that separates lengths whose outputs agree from those that differ.

    Args:
        name: of the size.
        outcomes: per tried length, whether the outputs agree.

    Returns:
        The finding, or None if there is no simple rule (or too few lengths on either side of it).
    """
    for floor in (0, *_BLOCKS):
        found = _rule(name, {value: same for value, same in outcomes.items() if value > floor}, floor)
        if found is not None:
            return found
    return None


_BLOCKS = (4, 8, 16, 32, 64, 128)


def _rule(name: str, outcomes: Mapping[int, bool], floor: int) -> Finding | None:
    equal = sorted(v for v, same in outcomes.items() if same)
    different = sorted(v for v, same in outcomes.items() if not same)
    if len(equal) < 2 or len(different) < 2:
        return None
    evidence = f"equal at {name} = {_listed(equal)}; different at {_listed(different)}"
    if all(v % 2 for v in equal) and not any(v % 2 for v in different):
        return Finding("parity", f"The sides agree for odd {name} and differ for even {name}.", None, evidence)
    for block in (2, *_BLOCKS) if floor == 0 else (floor,):
        if all(v % block == 0 for v in equal) and all(v % block for v in different):
            text = (
                f"The sides agree where {name} is a multiple of {block} and differ elsewhere: the tail of {name} is "
                "treated differently (a mask, a loop bound, or a padding value)."
            )
            return Finding("tail", text, False, evidence)
        if all(v % block for v in equal) and all(v % block == 0 for v in different):
            text = (
                f"The sides differ where {name} is a multiple of {block} and agree elsewhere: the last whole block of "
                f"{name} is missing or counted twice."
            )
            return Finding("last block", text, False, evidence)
    if floor:
        return None
    if max(equal) < min(different):
        text = (
            f"The sides agree up to {name} = {max(equal)} and differ from {min(different)} on: what happens after the "
            f"first block of {name} differs (a value carried from block to block, or a block that is left out)."
        )
        return Finding("threshold", text, False, evidence)
    if max(different) < min(equal):
        text = f"The sides differ up to {name} = {max(different)} and agree from {min(equal)} on."
        return Finding("threshold", text, None, evidence)
    return None


def _listed(values: list[int]) -> str:
    return ", ".join(map(str, values[:6])) + (", ..." if len(values) > 6 else "")


# ---- inputs


def float_inputs(trial: Trial, inputs: Arguments) -> list[str]:
    """Names of float arrays that are inputs: neither side writes them."""
    written = {*trial.a.written, *trial.b.written, *(c.name for c in trial.comparisons)}
    return [name for name, value in inputs.arrays() if is_float(dtype_of(value)) and name not in written]


def _change(name: str, edit: Callable[[Array], Array]) -> Change:
    """A change of the bit patterns of one array."""

    def change(inputs: Arguments) -> Arguments:
        for other, value in inputs.arrays():
            if other == name:
                write_bits(value, np.ascontiguousarray(edit(bits_of(value))))
        return inputs

    return change


def _exchange(first: str, second: str) -> Change:
    def change(inputs: Arguments) -> Arguments:
        values = dict(inputs.items())
        one, two = bits_of(values[first]), bits_of(values[second])
        write_bits(values[first], two)
        write_bits(values[second], one)
        return inputs

    return change


def _sign_bit(bits: Array) -> Array:
    return np.asarray(bits ^ bits.dtype.type(1 << (bits.dtype.itemsize * 8 - 1)))


def input_experiments(pair: Pair, trial: Trial, sizes: Mapping[str, int], budget: Budget) -> Iterator[Finding]:
    """Change one input at a time: which one is ignored, misread, exchanged or negated?

    Args:
        pair: the sides.
        trial: one that differs.
        sizes: small sizes at which they differ.
        budget: for the runs.

    Yields:
        Findings.
    """
    base = _attempt(pair, trial.seed, sizes)
    if base is None or base.equal:
        return
    inputs = pair.inputs(trial.seed, sizes)
    values = dict(inputs.items())
    names = float_inputs(trial, inputs)
    for first, second in _exchangeable(names, values):
        if not budget.left():
            return
        change = _exchange(first, second)
        for side, changed in (("b", {"change_b": change}), ("a", {"change_a": change})):
            tried = _attempt(pair, trial.seed, sizes, **changed)
            if tried is not None and tried.equal:
                text = f"The inputs {first!r} and {second!r} are exchanged in one of the sides."
                evidence = f"with {first!r} and {second!r} exchanged for side {side} alone, the outputs agree"
                yield Finding("swapped inputs", text, False, evidence)
                break
    vanishing: list[str] = []
    for name in names:
        if not budget.left():
            return
        for finding in _one_input(pair, trial, sizes, base, name, values[name]):
            if finding.kind == "input":
                vanishing.append(name)
            else:
                yield finding
    if len(vanishing) == 1 and len(names) > 1:
        (name,) = vanishing
        text = f"The difference vanishes when {name!r} is zero, and for no other input: look where {name!r} is used."
        yield Finding("input", text, None, f"with zeros in {name!r} the outputs agree")
    for name, value in inputs.items():
        if isinstance(value, float) and budget.left():
            yield from _scalar(pair, trial, sizes, base, name, value)


def _exchangeable(names: list[str], values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for first, second in combinations(names, 2):
        one, two = values[first], values[second]
        if tuple(one.shape) == tuple(two.shape) and dtype_of(one) == dtype_of(two):
            yield first, second


def _one_input(
    pair: Pair, trial: Trial, sizes: Mapping[str, int], base: Trial, name: str, value: Any
) -> Iterator[Finding]:
    seed = trial.seed
    other = bits_of(dict(pair.inputs(seed + 1, sizes).items())[name])
    renewed = _attempt(
        pair, seed, sizes, change_a=_change(name, lambda x: other), change_b=_change(name, lambda x: other)
    )
    if renewed is not None:
        moved = [_moved(base, renewed, side) for side in ("a", "b")]
        if moved[0] != moved[1]:
            ignoring = "b" if moved[0] else "a"
            text = f"Side {ignoring} does not use {name!r}{_at(sizes)}."
            yield Finding(
                "ignored input", text, False, f"new values in {name!r} change the outputs of the other side only"
            )
            return
    zero = _change(name, np.zeros_like)
    tried = _attempt(pair, seed, sizes, change_a=zero, change_b=zero)
    if tried is not None and tried.equal:
        yield Finding("input", f"The difference vanishes when {name!r} is zero.")
    constant = _change(name, lambda x: np.full_like(x, x.reshape(-1)[0]))
    same = _attempt(pair, seed, sizes, change_a=constant, change_b=constant)
    if same is not None and same.equal and not (tried is not None and tried.equal):
        text = (
            f"The difference vanishes when all elements of {name!r} are equal: the sides take other elements of it (an "
            "index, a stride, an order), or weigh them differently."
        )
        yield Finding("positions", text, False, f"with all elements of {name!r} equal, the outputs agree")
    shape = tuple(value.shape)
    for axes in permutations(range(len(shape))):
        if axes == tuple(range(len(shape))) or tuple(shape[i] for i in axes) != shape or len(shape) > 3:
            continue
        if min(shape[i] for i in range(len(shape)) if axes[i] != i) < 2:
            continue
        turned = _attempt(pair, seed, sizes, change_b=_change(name, lambda x, axes=axes: x.transpose(axes)))  # type: ignore[misc]
        if turned is not None and turned.equal:
            text = f"One side reads {name!r} transposed."
            yield Finding(
                "transposed input", text, False, f"with {name!r} transposed for side b alone, the outputs agree"
            )
    negated = _attempt(pair, seed, sizes, change_b=_change(name, _sign_bit))
    if negated is not None and negated.equal:
        text = f"One side has the opposite sign of {name!r}."
        yield Finding("sign", text, False, f"with {name!r} negated for side b alone, the outputs agree")


def _scalar(
    pair: Pair, trial: Trial, sizes: Mapping[str, int], base: Trial, name: str, value: float
) -> Iterator[Finding]:
    def change(inputs: Arguments) -> Arguments:
        return inputs.replaced({name: value * 1.5 + 0.25})

    renewed = _attempt(pair, trial.seed, sizes, change_a=change, change_b=change)
    if renewed is None:
        return
    moved = [_moved(base, renewed, side) for side in ("a", "b")]
    if moved[0] != moved[1]:
        text = f"Side {'b' if moved[0] else 'a'} does not use {name!r}{_at(sizes)}."
        yield Finding(
            "ignored input", text, False, f"another value of {name!r} changes the outputs of the other side only"
        )


def _at(sizes: Mapping[str, int]) -> str:
    """The sizes that were tried: at others, a loop may run that does not run at these."""
    return f" at {', '.join(f'{name}={size}' for name, size in sizes.items())}" if sizes else ""


def _moved(base: Trial, renewed: Trial, side: str) -> bool:
    """Whether any output of a side differs between two trials."""
    pairs = zip(base.comparisons, renewed.comparisons, strict=False)
    return any(not np.array_equal(getattr(x, side), getattr(y, side)) for x, y in pairs)
