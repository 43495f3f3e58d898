"""Why two outputs differ: automatic experiments and the known non-identities of the algebra."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fpsan_tools.checking.verdict import Divergence, Finding

if TYPE_CHECKING:
    from fpsan_tools.checking.checker import Pair, Trial


def explain(pair: Pair, trial: Trial, budget: float) -> tuple[list[Finding], Divergence | None, list[str]]:
    """Explain a difference.

    Args:
        pair: the sides and their inputs.
        trial: one that differs.
        budget: about how many seconds experiments may take.

    Returns:
        Findings, most telling first; where the evaluations part; remarks.
    """
    return [], None, []
