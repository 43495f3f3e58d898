"""How many results were compared with an oracle, by what was compared and for which format."""

from __future__ import annotations

from collections import Counter

#: Comparisons by (subject, format); a mismatch fails its test.
COUNTS: Counter[tuple[str, str]] = Counter()


def tally(subject: str, fmt: object, count: int) -> None:
    """Count comparisons of results in a format."""
    COUNTS[subject, str(fmt)] += count


def table() -> list[tuple[str, int, int]]:
    """(subject, formats, comparisons), in the order of the subjects' names."""
    subjects = sorted({subject for subject, _ in COUNTS})
    return [
        (
            subject,
            sum(s == subject for s, _ in COUNTS),
            sum(count for (s, _), count in COUNTS.items() if s == subject),
        )
        for subject in subjects
    ]
