"""Are two kernels the same algebra? `check(a, b, make_inputs)` and the verdict people read.

What is here, or arrives in small steps:

- the verdict object: equal or different, first differing coordinates, share, pattern, diagnosis, first diverging source
  line, unsanitised operations, the algebra's version, and what it means in plain words;
- patterns: where in an output the difference lies (whole rows, last columns, a tail, one tile, every element);
- diagnosis: automatic experiments (shorter K, other parity, one input perturbed, operands swapped) and the known
  non-identities of the algebra;
- renderings: text, JSON, HTML, notebook; and the one-line command that replays a check;
- what the pytest plugin and the commands `fpsan check`, `fpsan run` and `fpsan leaks` call.
"""

from __future__ import annotations

from fpsan_tools.checking.checker import check
from fpsan_tools.checking.inputs import load
from fpsan_tools.checking.sides import launch
from fpsan_tools.checking.verdict import Divergence, Finding, Gap, Place, Verdict

__all__ = ["Divergence", "Finding", "Gap", "Place", "Verdict", "check", "launch", "load"]
