"""`assert_same_algebra`: a check as an assertion, for tests."""

from __future__ import annotations

from typing import Any

from fpsan_tools.checking.checker import check
from fpsan_tools.checking.inputs import MakeInputs
from fpsan_tools.checking.verdict import Verdict


def assert_same_algebra(a: Any, b: Any, make_inputs: MakeInputs, **options: Any) -> Verdict:
    """Assert that two kernels, or launchers of kernels, are the same algebra.

    Args:
        a: see `check`.
        b: see `check`.
        make_inputs: see `check`.
        **options: further arguments of `check`.

    Returns:
        The verdict, which is "equal".

    Raises:
        AssertionError: with the whole verdict, if it is "different" or "inconclusive".
        FpsanError: for wrong use, see `check`.
    """
    __tracebackhide__ = True
    verdict = check(a, b, make_inputs, **options)
    if not verdict.equal:
        raise AssertionError(f"\n{verdict.to_text()}")
    return verdict
