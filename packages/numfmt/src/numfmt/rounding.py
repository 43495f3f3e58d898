"""Names and meanings of the rounding modes and overflow policies.

Each mode is one row of a table: the decision whether the magnitude goes up to the next value, its aliases, and on which
side of zero it may overflow. The engine (``_engine.py``) asks the table and has no branches of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from numfmt._errors import unknown_name

__all__ = ["OVERFLOWS", "ROUNDINGS", "OverflowPolicy", "RoundingMode", "overflow_policy", "rounding_mode"]

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Discarded:
    """What truncation to a multiple of the quantum left behind, per element.

    Attributes:
        negative: The number is negative (the sign bit, so also for -0).
        odd: The truncated value's code is odd.
        inexact: Something was discarded.
        half: The discarded part is at least half a quantum.
        above_half: The discarded part is more than half a quantum.
        carry: For stochastic modes: discarded fraction plus random number reaches one quantum.
    """

    negative: BoolArray
    odd: BoolArray
    inexact: BoolArray
    half: BoolArray
    above_half: BoolArray
    carry: BoolArray | None = None


@dataclass(frozen=True)
class RoundingMode:
    """One rounding mode.

    Attributes:
        name: The name this package uses.
        meaning: One line for people.
        away: Decides from a `Discarded` which magnitudes go up to the next value.
        inward: Signs (+1, -1) for which the mode never moves away from zero, so that a finite overflow stops at the
            largest value. ``to_odd`` is decided by the parity of the largest value's code instead.
        stochastic: How the discarded fraction meets the random number: "" for deterministic modes, else "a", "b" or "c"
            as IEEE P3109 names them.
        aliases: Other spellings, compared without case, spaces, hyphens and underscores.
    """

    name: str
    meaning: str
    away: Callable[[Discarded], BoolArray]
    inward: tuple[int, ...] = ()
    stochastic: str = ""
    aliases: tuple[str, ...] = field(default=())


def _carry(d: Discarded) -> BoolArray:
    assert d.carry is not None
    return d.carry


ROUNDINGS: dict[str, RoundingMode] = {
    mode.name: mode
    for mode in (
        RoundingMode(
            "nearest_even",
            "to the nearest value; of two equally near ones, the one with the even code",
            lambda d: d.above_half | (d.half & d.odd),
            aliases=("NearestTiesToEven", "TiesToEven", "RoundTiesToEven", "rne", "rn", "nearest"),
        ),
        RoundingMode(
            "nearest_away",
            "to the nearest value; of two equally near ones, the one farther from zero",
            lambda d: d.half,
            aliases=("NearestTiesToAway", "TiesToAway", "RoundTiesToAway", "rna"),
        ),
        RoundingMode(
            "toward_zero",
            "to the nearest value that is not larger in magnitude (truncation)",
            lambda d: np.zeros_like(d.odd),
            inward=(1, -1),
            aliases=("TowardZero", "RoundTowardZero", "rz", "rtz", "truncate"),
        ),
        RoundingMode(
            "up",
            "to the smallest value that is not smaller",
            lambda d: d.inexact & ~d.negative,
            inward=(-1,),
            aliases=("TowardPositive", "RoundTowardPositive", "ru", "rup", "rtp", "ceil"),
        ),
        RoundingMode(
            "down",
            "to the largest value that is not larger",
            lambda d: d.inexact & d.negative,
            inward=(1,),
            aliases=("TowardNegative", "RoundTowardNegative", "rd", "rdn", "rtn", "floor"),
        ),
        RoundingMode(
            "to_odd",
            "exact values stay; others go to the neighbour with the odd code, which keeps double rounding harmless",
            lambda d: d.inexact & ~d.odd,
            aliases=("ToOdd", "RoundToOdd", "ro", "rto"),
        ),
        RoundingMode(
            "stochastic",
            "up with the discarded fraction, truncated to the random bits, as probability (P3109 StochasticA)",
            _carry,
            stochastic="a",
            aliases=("StochasticA", "sr", "StochasticFastest"),
        ),
        RoundingMode(
            "stochastic_b",
            "as stochastic, with half a random step added (P3109 StochasticB)",
            _carry,
            stochastic="b",
            aliases=("StochasticB", "StochasticFast"),
        ),
        RoundingMode(
            "stochastic_c",
            "as stochastic, with the fraction rounded to nearest even at the number of random bits (P3109 StochasticC)",
            _carry,
            stochastic="c",
            aliases=("StochasticC",),
        ),
    )
}


@dataclass(frozen=True)
class OverflowPolicy:
    """What happens to a number beyond the largest value.

    Attributes:
        name: The name this package uses.
        meaning: One line for people.
        finite: Result for a finite number beyond the range: "infinity", "nan" or "largest".
        infinite: Result for an infinity: likewise. "infinity" means the largest value in a format without infinities.
        aliases: Other spellings.
    """

    name: str
    meaning: str
    finite: str
    infinite: str
    aliases: tuple[str, ...] = ()


OVERFLOWS: dict[str, OverflowPolicy] = {
    policy.name: policy
    for policy in (
        OverflowPolicy(
            "infinity",
            "to infinity, or to the largest value where the format has none (P3109 OvfInf)",
            "infinity",
            "infinity",
            aliases=("OvfInf", "inf"),
        ),
        OverflowPolicy("nan", "to NaN; an infinity stays where the format has one", "nan", "infinity_or_nan"),
        OverflowPolicy(
            "saturate",
            "to the largest value, infinities too (P3109 SatFinite)",
            "largest",
            "largest",
            aliases=("SatFinite", "finite", "satfinite", "clamp"),
        ),
        OverflowPolicy(
            "propagate",
            "finite numbers to the largest value, infinities stay where the format has them (P3109 SatPropagate)",
            "largest",
            "infinity",
            aliases=("SatPropagate",),
        ),
    )
}


def _fold(name: str) -> str:
    return "".join(c for c in name.casefold() if c not in " -_")


def _index(table: dict[str, Any]) -> dict[str, Any]:
    return {_fold(spelling): row for row in table.values() for spelling in (row.name, *row.aliases)}


_ROUNDING_INDEX: dict[str, RoundingMode] = _index(ROUNDINGS)
_OVERFLOW_INDEX: dict[str, OverflowPolicy] = _index(OVERFLOWS)


def rounding_mode(name: str | RoundingMode) -> RoundingMode:
    """The rounding mode of a name or alias.

    Args:
        name: For example ``"nearest_even"``, ``"rz"``, ``"TowardPositive"``, ``"StochasticB"``.

    Returns:
        The row of `ROUNDINGS`.

    Raises:
        ValueError: For an unknown name; the nearest known one is named.
        TypeError: If ``name`` is no string.
    """
    if isinstance(name, RoundingMode):
        return name
    if not isinstance(name, str):
        raise TypeError(f"rounding must be a name such as 'nearest_even', not {type(name).__name__} {name!r}")
    try:
        return _ROUNDING_INDEX[_fold(name)]
    except KeyError:
        raise ValueError(unknown_name("rounding", name, ROUNDINGS)) from None


def overflow_policy(name: str | OverflowPolicy) -> OverflowPolicy:
    """The overflow policy of a name or alias.

    Args:
        name: For example ``"saturate"`` or P3109's ``"OvfInf"``, ``"SatFinite"``, ``"SatPropagate"``.

    Returns:
        The row of `OVERFLOWS`.

    Raises:
        ValueError: For an unknown name; the nearest known one is named.
        TypeError: If ``name`` is no string.
    """
    if isinstance(name, OverflowPolicy):
        return name
    if not isinstance(name, str):
        raise TypeError(f"overflow must be a name such as 'saturate', not {type(name).__name__} {name!r}")
    try:
        return _OVERFLOW_INDEX[_fold(name)]
    except KeyError:
        raise ValueError(unknown_name("overflow", name, OVERFLOWS)) from None
