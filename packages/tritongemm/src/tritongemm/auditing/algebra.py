"""Part 1 of an audit: do both kernels compute the same algebra?

Under FpSan a float is an integer of its width and arithmetic is arithmetic mod 2^w: it keeps associativity,
commutativity and distributivity, and nothing is ever rounded. Kernels that add the same products in different orders
give the same payloads; a product that is missing, counted twice or taken from elsewhere changes them, with a chance of
2^-32 to go unseen in any one output.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fpsan_tools
from fpsan_tools import algebra
from tritongemm.assertions import closeness
from tritongemm.auditing.clock import OutOfTime
from tritongemm.auditing.contestants import Contestant
from tritongemm.auditing.devices import (
    EXACT,
    FLOATS,
    PAYLOADS,
    Array,
    Cpu,
    Device,
    Launched,
    NoPayloads,
    codes_of,
    note_overwritten,
    values_of,
)
from tritongemm.auditing.symptoms import PRECISION
from tritongemm.errors import KernelFailed, one_line

# Tiles larger than this are not tried as a whole.
_MOST_ROWS, _MOST_INNER = 160, 1100
# Several tiles with tails in all dimensions, for tiles up to 64.
_SEVERAL = (67, 131, 777)
# Rows and columns of the audited product that are tried.
_AUDITED_ROWS = 100
# Rows, or columns, of the two long and narrow products, whose other sizes are the small ones here. 8 bits do not hold
# their numbers of tiles, and they have more tiles than any group or wave of programs.
_LONG, _NARROW, _SHALLOW = 8192, 5, 7
_LONGEST = 1 << 15
# The first trials, without which tails and strides are not known to be right.
ESSENTIAL = 4
# Floats that a mistake is not told from rounding by.
_FEW = 16
# Products of a whole grid: evaluating more takes minutes.
_MOST_PRODUCTS, _MOST_OUTPUTS = 1 << 28, 1 << 20
NOT_APPLICABLE = "not applicable"
# How the reason begins when the compiler's pass does not take a kernel.
NO_FPSAN = "Triton's FpSan does not run it"
# Constants that say how many tiles are taken together, or how many programs share all tiles.
_TILES_TOGETHER = re.compile(r"GROUP.*|NUM_?(SMS?|PROGRAMS|PROGS)", re.IGNORECASE)


@dataclass(frozen=True)
class Trial:
    """One comparison.

    Attributes:
        M: Rows.
        N: Columns.
        K: Products per output.
        layout: How the matrices lay in memory.
        why: What the trial is about.
        a: Left operand, float32 values.
        b: Right operand.
        first: Payload results of kernel A, as bit patterns of floats; those of the product if it has no payloads.
        second: ... of kernel B.
        golden: Those of the matrix product itself.
    """

    M: int
    N: int
    K: int
    layout: str
    why: str
    a: Array = field(repr=False)
    b: Array = field(repr=False)
    first: Array = field(repr=False)
    second: Array = field(repr=False)
    golden: Array = field(repr=False)

    @property
    def different(self) -> int:
        """Outputs whose payloads differ."""
        return int((self.first != self.second).sum())

    def away(self, letter: str) -> int:
        """Outputs of kernel "A" or "B" that are not the payload of the product."""
        return int(((self.first if letter == "A" else self.second) != self.golden).sum())


@dataclass
class AlgebraEvidence:
    """What the comparisons showed.

    Attributes:
        status: "same", "different", "unknown" when a kernel cannot be run in payloads, "not applicable" when neither
            has any.
        version: Of the payload algebra.
        trials: The comparisons made.
        unsanitised: By kernel letter, the operations the verdict does not cover.
        notes: By kernel letter, what was assumed.
        reason: Why the status is unknown.
        planned: Trials planned.
        diagnosis: What is different, in sentences.
        conversions: What was assumed of conversions between float types, if anything.
        absent: By kernel letter, why a kernel has no payloads.
        checked: By letter of such a kernel, in how many products its numbers agree with float64.
        exact: By letter of a kernel whose payloads differ from the product's though its numbers do not, in how many
            products it was computed without rounding to see that.
        imprecise: By letter of such a kernel, where its floats are further off than they may be, and how.
        outside: By kernel letter, the first access outside of the matrices.
        largest_grid: Rows and columns of the largest grid that was evaluated of a product whose own grid was not, on
            a CPU; none if it was.
        overwritten: By kernel letter, the operands that it writes to, and where it was seen first.
        seconds: Time taken.
    """

    status: str
    version: str
    trials: list[Trial] = field(default_factory=list)
    unsanitised: dict[str, tuple[str, ...]] = field(default_factory=dict)
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    reason: str = ""
    planned: int = 0
    diagnosis: list[str] = field(default_factory=list)
    conversions: str = ""
    absent: dict[str, str] = field(default_factory=dict)
    checked: dict[str, int] = field(default_factory=dict)
    exact: dict[str, int] = field(default_factory=dict)
    imprecise: dict[str, str] = field(default_factory=dict)
    outside: dict[str, str] = field(default_factory=dict)
    overwritten: dict[str, str] = field(default_factory=dict)
    largest_grid: tuple[int, int] | None = None
    seconds: float = 0.0

    @property
    def outputs(self) -> int:
        """Outputs compared."""
        return sum(t.first.size for t in self.trials)

    @property
    def different(self) -> int:
        """Outputs that differ, over all trials."""
        return sum(t.different for t in self.trials)


def shapes_to_try(
    contestants: tuple[Contestant, Contestant], M: int, N: int, K: int
) -> list[tuple[int, int, int, str, str]]:
    """Shapes where kernels go wrong: around every tile size, the smallest, the audited K, and many tiles.

    Args:
        contestants: Both kernels.
        M: Rows of the audited product.
        N: Columns.
        K: Products per output.

    Returns:
        M, N, K, layout and reason of each trial, the `ESSENTIAL` ones first.
    """
    high = min(_MOST_ROWS, max(c.tile("rows") for c in contestants))
    wide = min(_MOST_ROWS, max(c.tile("columns") for c in contestants))
    deep = min(_MOST_INNER // 2, max([1, *(s for c in contestants for s in c.steps())]))
    high, wide, deep = max(high, 4), max(wide, 4), max(deep, 4)
    several = tuple(max(s, 2 * t + 1) for s, t in zip(_SEVERAL, (high, wide, deep), strict=True))
    audited = "audited K" if max(M, N) > _AUDITED_ROWS else "audited product"
    together = max((c.largest_constant(_TILES_TOGETHER) for c in contestants), default=1)
    long, broad = (
        min(_LONGEST, max(min(n, _LONG), (together + 1) * max(c.tile(d) for c in contestants) + 1))
        for n, d in ((M, "rows"), (N, "columns"))
    )
    return [
        (high + 1, wide + 1, 2 * deep + 1, "rows", "one more than whole tiles"),
        (high - 1, wide - 1, deep - 1, "rows", "one less than a tile"),
        (3, wide + 5, 3 * deep // 2 + 1, "columns", "transposed operands"),
        (high + 3, 5, deep + 7, "gapped", "slices of NaN-filled buffers"),
        (high, wide, 2 * deep, "rows", "whole tiles"),
        (1, 1, 1, "rows", "the smallest product"),
        (several[0], several[1], several[2], "rows", "several tiles and tails"),
        (min(M, _AUDITED_ROWS), min(N, _AUDITED_ROWS), K, "rows", audited),
        (long, _NARROW, _SHALLOW, "rows", "many rows of tiles"),
        (_NARROW, broad, _SHALLOW, "rows", "many columns of tiles"),
    ]


def golden_payloads(a: Array, b: Array, dtypes: tuple[str, str], version: Any) -> Array:
    """The payload result of C = A B itself, as bit patterns of the result's type.

    Args:
        a: (M, K) float32 values of the operands' type.
        b: (K, N) likewise.
        dtypes: Type of the operands and of the result; sums are fp32.
        version: The algebra.
    """
    x, y = (version.embed(codes_of(m, dtypes[0]), dtypes[0]) for m in (a, b))
    total = version.matmul(x, y, dtype="fp32")
    return np.asarray(version.unembed(version.cast(total, dtypes[1]), dtypes[1]))


def trial_operands(M: int, N: int, K: int, dtype: str, seed: int) -> tuple[Array, Array]:
    """Random operands of a trial, numbers that the operands' type holds, without zeros."""
    rng = np.random.default_rng([seed, M, N, K])
    made = []
    for shape in ((M, K), (K, N)):
        x = (rng.uniform(0.25, 1, shape) * rng.choice([-1, 1], shape)).astype(np.float32)
        made.append(values_of(codes_of(x, dtype), dtype).reshape(shape))
    return made[0], made[1]


def compare(
    contestants: tuple[Contestant, Contestant],
    device: Device,
    size: tuple[int, int, int],
    dtypes: tuple[str, str],
    seed: int,
    deadline: float,
    show: Callable[[float], None],
) -> AlgebraEvidence:
    """Runs both kernels in payload arithmetic on small products and compares every output.

    Args:
        contestants: Both kernels.
        device: Where to run them.
        size: M, N and K of the audited product.
        dtypes: Type of the operands and of the result.
        seed: Seed of the operands.
        deadline: Time (`time.monotonic`) after which no further trial starts.
        show: Called with the share that is done.

    Returns:
        The evidence.
    """
    started = time.monotonic()
    version = algebra.get()
    plan = shapes_to_try(contestants, *size)
    evidence = _compared(contestants, device, plan, dtypes, seed, deadline, version, show)
    exact = _with_exact_conversions(version)
    wrong = next((t for t in evidence.trials if t.away("A") or t.away("B")), None)
    if exact is not None and wrong is not None:
        # A sum in float64 that is rounded once is no other algebra, but where a narrowing conversion mixes bits its
        # payloads are others.
        first = [(wrong.M, wrong.N, wrong.K, wrong.layout, wrong.why)]
        for tried in (first, plan):
            again = _compared(contestants, device, tried, dtypes, seed, deadline, exact, show)
            if again.status != "same" or any(t.away("A") or t.away("B") for t in again.trials):
                break
        else:
            letters = [c for c in contestants if any(t.away(c.letter) for t in evidence.trials)]
            named = " and ".join(f"{c.letter} ({c.name})" for c in letters)
            again.overwritten = {**again.overwritten, **evidence.overwritten}
            again.conversions = (
                f"{named} adds in another float type than fp32; conversions between float types were taken as exact "
                f"(algebra {exact.version}), what they round is part of the errors below."
            )
            evidence = again
    if isinstance(device, Cpu) and (size[0] > _AUDITED_ROWS or size[1] > _AUDITED_ROWS):
        _compare_whole(evidence, contestants, device, size, dtypes, seed, deadline, show)
    evidence.seconds = time.monotonic() - started
    return evidence


def _compare_whole(
    evidence: AlgebraEvidence,
    contestants: tuple[Contestant, Contestant],
    device: Cpu,
    size: tuple[int, int, int],
    dtypes: tuple[str, str],
    seed: int,
    deadline: float,
    show: Callable[[float], None],
) -> None:
    """Compares the audited product as a whole, every program of its grid, where time allows.

    A mistake that is bound to certain programs is in no smaller product. A GPU measures all outputs anyway.
    """
    M, N, K = size
    evidence.largest_grid = max(((t.M, t.N) for t in evidence.trials), key=min, default=(0, 0))
    if evidence.status not in ("same", NOT_APPLICABLE) or any(t.away("A") or t.away("B") for t in evidence.trials):
        return
    if M * N * K > _MOST_PRODUCTS or M * N > _MOST_OUTPUTS or time.monotonic() > deadline:
        return
    before, device.deadline = device.deadline, min(device.deadline, deadline)
    plan = [(M, N, K, "rows", "the audited product as a whole")]
    version = algebra.get(evidence.version)
    try:
        found = _compared(contestants, device, plan, dtypes, seed, deadline, version, show)
    except OutOfTime:
        return
    finally:
        device.deadline = before
    if found.status == "unknown" or not (found.trials or found.diagnosis or found.outside):
        return
    evidence.status, evidence.largest_grid = found.status, None
    evidence.trials += found.trials
    evidence.planned += len(found.trials)
    evidence.diagnosis += found.diagnosis
    evidence.outside |= found.outside
    evidence.overwritten = {**found.overwritten, **evidence.overwritten}
    evidence.checked = {k: n + found.checked.get(k, 0) for k, n in evidence.checked.items()}


def _with_exact_conversions(version: Any) -> Any:
    """The same algebra with narrowing conversions that keep sums and products, if this one's do not."""
    name = f"{version.version}-homomorphic"
    return algebra.get(name) if version.mixing_casts and name in algebra.VERSIONS else None


def _compared(
    contestants: tuple[Contestant, Contestant],
    device: Device,
    plan: list[tuple[int, int, int, str, str]],
    dtypes: tuple[str, str],
    seed: int,
    deadline: float,
    version: Any,
    show: Callable[[float], None],
) -> AlgebraEvidence:
    """Makes the comparisons of a plan in one algebra."""
    evidence = AlgebraEvidence("same", version.version, planned=len(plan))
    for number, (M, N, depth, layout, why) in enumerate(plan):
        if evidence.trials and time.monotonic() > deadline:
            break
        a, b = trial_operands(M, N, depth, dtypes[0], seed)
        golden = golden_payloads(a, b, dtypes, version)
        results = []
        where = f"{M}x{N}x{depth}, {why}"
        for c in contestants:
            try:
                launched = None
                if c.letter not in evidence.absent:
                    launched = _payloads(c, device, a, b, dtypes, layout, version.version, evidence)
                if launched is not None and c.precision not in (None, "ieee") and (launched.codes != golden).any():
                    evidence.absent[c.letter] = (
                        f"precision {c.precision} splits or rounds its operands, so its payloads are its own"
                    )
                    launched = None
                if launched is None:
                    results.append(golden)
                    if not _numbers_are_right(c, device, a, b, dtypes, layout, evidence, where):
                        return evidence
                    continue
            except fpsan_tools.OutOfBounds as error:
                evidence.status = "different"
                if c.letter not in evidence.outside:
                    evidence.outside[c.letter] = (
                        f"{c.letter} ({c.name}) reaches outside its matrices at {where}: {one_line(error)}"
                    )
                break  # Other products may be inside, and show more.
            except (fpsan_tools.FpsanError, KernelFailed) as error:
                evidence.status, evidence.reason = "unknown", f"{c.letter} ({c.name}): {one_line(error)}"
                return evidence
            _remember(evidence, c.letter, launched, where)
            results.append(launched.codes)
        if len(results) < len(contestants):
            continue
        evidence.trials.append(Trial(M, N, depth, layout, why, a, b, results[0], results[1], golden))
        show((number + 1) / len(plan))
    if evidence.different or evidence.outside:
        evidence.status = "different"
    elif len(evidence.absent) == len(contestants):
        evidence.status = NOT_APPLICABLE
    return evidence


def _payloads(
    c: Contestant,
    device: Device,
    a: Array,
    b: Array,
    dtypes: tuple[str, str],
    layout: str,
    version: str,
    evidence: AlgebraEvidence,
) -> Launched | None:
    """A kernel's payloads, or None, with the reason kept, if it has none."""
    try:
        return device.run(c, a, b, dtypes, domain=PAYLOADS, layout=layout, version=version)
    except NoPayloads as error:
        evidence.absent[c.letter] = str(error)
    except (fpsan_tools.FpsanError, KernelFailed) as error:
        if device.kind == "gpu" and not isinstance(error, fpsan_tools.OutOfBounds):
            evidence.absent[c.letter] = f"{NO_FPSAN} ({one_line(error)})"
            return None
        if "by construction" not in str(error):
            raise
        evidence.absent[c.letter] = "its operands are split before payloads see them, so its payloads are its own"
    return None


def _numbers_are_right(
    c: Contestant,
    device: Device,
    a: Array,
    b: Array,
    dtypes: tuple[str, str],
    layout: str,
    evidence: AlgebraEvidence,
    where: str,
) -> bool:
    """Compares the numbers of a kernel without payloads with float64: without rounding, if it can be evaluated so."""
    launched = None
    for domain in (EXACT, FLOATS):
        try:
            launched = device.run(c, a, b, dtypes, domain=domain, layout=layout)
            note_overwritten(evidence.overwritten, c.letter, launched, where)
            break
        except fpsan_tools.OutOfBounds:
            raise
        except (NoPayloads, fpsan_tools.FpsanError):
            continue
        except KernelFailed:
            return True  # Part 2 will say so.
    if launched is None:
        return True
    precision = "ieee" if domain == EXACT or c.precision is None else c.precision
    found = closeness(fpsan_tools.typed(launched.codes, dtypes[1]), a, b, name=c.name, precision=precision)
    evidence.checked[c.letter] = evidence.checked.get(c.letter, 0) + 1
    # How it rounds is part 2's question; of a few floats alone nobody can tell whether rounding put them off.
    rounding = found.outputs < _FEW or (found.looks_like is not None and found.looks_like.kind == PRECISION)
    if found.passed or (rounding and domain == FLOATS):
        return True
    evidence.status = "different"
    evidence.diagnosis.append(f"At {where}: {' '.join(found.message(advice=False).split())}")
    return False


def _remember(evidence: AlgebraEvidence, letter: str, launched: Launched, where: str) -> None:
    note_overwritten(evidence.overwritten, letter, launched, where)
    for store, found in ((evidence.unsanitised, launched.unsanitised), (evidence.notes, launched.notes)):
        store[letter] = tuple(dict.fromkeys((*store.get(letter, ()), *found)))
