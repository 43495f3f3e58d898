"""Whether two sides that differ do so only where values are narrowed.

Where narrowing mixes the dropped bits in, a sum that is narrowed on its way has another payload than the same sum
narrowed at its end: rounding of an intermediate is then the whole difference. An algebra whose narrowing truncates
keeps sums and products, and in all else is the same, so sides that agree in it differ by nothing but their narrowings.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fpsan_tools import algebra
from fpsan_tools.checking.verdict import NARROWING, Finding

if TYPE_CHECKING:
    from fpsan_tools.checking.checker import Pair, Trial
    from fpsan_tools.ttir.machine import Machine
    from fpsan_tools.ttir.parser import Operation
    from fpsan_tools.ttir.values import Frame

NARROWINGS = frozenset({"arith.truncf", "tt.fp_to_fp"})
"""Operations that may make floats narrower."""

_SHOWN = 4
"""Most lines that are named of one side."""


@dataclass
class _Casts:
    """Collects the source lines of narrowing casts; an observer."""

    places: dict[str, None] = field(default_factory=dict)

    def __call__(self, machine: Machine, operation: Operation, frame: Frame) -> None:
        if operation.name in NARROWINGS:
            source, target = (frame.get(name).type.element for name in (operation.operands[0], operation.results[0]))
            if target.bits < source.bits:
                self.places[str(operation.location.user)] = None

    def text(self, side: str) -> str:
        named = list(self.places)
        more = f" and {len(named) - _SHOWN} more lines" if len(named) > _SHOWN else ""
        return f"side {side} at {', '.join(named[:_SHOWN])}{more}" if named else ""


def only_narrowed(pair: Pair, trials: Iterable[Trial]) -> Finding | None:
    """Run sides that differ again in the algebra whose narrowing casts keep sums and products.

    Args:
        pair: the sides.
        trials: those of the check, some of which differ.

    Returns:
        The finding, if the sides agree there for every seed; None if not, if there is no such algebra, or if nothing
        was narrowed.
    """
    version = f"{pair.algebra.version}-homomorphic"
    tried = list(trials)
    if not pair.algebra.mixing_casts or version not in algebra.VERSIONS or not any(map(_may_narrow, tried)):
        return None
    from fpsan_tools.checking.checker import Pair

    again = Pair(pair.a, pair.b, pair.source, dataclasses.replace(pair.engine, version=version), pair.outputs)
    casts = _Casts(), _Casts()
    for trial in tried:
        if not again.run(trial.seed, trial.sizes, observer_a=casts[0], observer_b=casts[1]).equal:
            return None
    told = "; ".join(filter(None, (found.text(side) for found, side in zip(casts, "ab", strict=True))))
    text = (
        f"The sides differ only where values are narrowed{f' ({told})' if told else ''}: they are the same algebra up "
        "to where it rounds. Rounding of intermediates, not indexing, is the difference."
    )
    evidence = f"with algebra {version}, whose narrowing keeps sums and products, they agree"
    return Finding(NARROWING, text, None, evidence)


def _may_narrow(trial: Trial) -> bool:
    """Whether a narrowing cast may have been evaluated: torch operations and a GPU's are not told apart."""
    return any(
        side.torch_operations or any(not run.operations or run.operations.keys() & NARROWINGS for run in side.launches)
        for side in (trial.a, trial.b)
    )
