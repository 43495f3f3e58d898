"""Are two kernels the same algebra? `check(a, b, make_inputs)` and the verdict people read.

- `check` runs both sides on equal inputs in payloads; `launch` makes a side of a bare kernel; `assert_same_algebra` is
  the check as an assertion.
- `Verdict` says equal, different or inconclusive, where outputs differ (`patterns`), why (`diagnosis`: `experiments` on
  sizes and inputs, `relations` between the outputs, `tracing` to the first diverging line, `identities` that payloads
  do not keep), what it does not cover, and what it means; as text, JSON (`rendering`) and HTML (`html`), with a command
  that repeats the check (`replay`).
"""

from __future__ import annotations

from fpsan_tools.checking.assertion import assert_same_algebra
from fpsan_tools.checking.checker import check
from fpsan_tools.checking.inputs import load
from fpsan_tools.checking.sides import launch
from fpsan_tools.checking.verdict import Divergence, Finding, Gap, Place, Verdict

__all__ = ["Divergence", "Finding", "Gap", "Place", "Verdict", "assert_same_algebra", "check", "launch", "load"]
