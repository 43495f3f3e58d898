"""Quick runs of the lectures, each computed once for all tests."""

from functools import cache

import numfmt_lectures


@cache
def quick_report(name: str) -> numfmt_lectures.Report:
    """A lecture's quick run."""
    return numfmt_lectures.compute(name, quick=True)
