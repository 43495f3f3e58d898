"""What a check found, and what that means in plain words."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fpsan_tools.checking.comparing import Comparison

EQUAL, DIFFERENT, INCONCLUSIVE = "equal", "different", "inconclusive"

EXIT_STATUS = {EQUAL: 0, DIFFERENT: 1, INCONCLUSIVE: 3}
"""Exit status of the command line per outcome; 2 is wrong use."""

NARROWING = "narrowing"
"""Kind of the finding that sides differ only where values are narrowed."""

EXTRA_ROUNDING = "extra rounding"
"""Kind of the finding that one side narrows a value that the other does not."""


@dataclass(frozen=True)
class Gap:
    """An operation of one side that payloads do not cover.

    Attributes:
        side: "a" or "b".
        kernel: the kernel's name.
        op: the operation.
        file: source file.
        line: line in it.
        reason: what the operation sees instead of payloads.
        decisive: whether payloads decide nothing because of it (atomics on floats).
    """

    side: str
    kernel: str
    op: str
    file: str
    line: int
    reason: str
    decisive: bool = False


@dataclass(frozen=True)
class Finding:
    """One answer of the diagnosis.

    Attributes:
        kind: a short name, as in "tail", "even length", "swapped inputs", "identity".
        text: a sentence for people.
        benign: true where this explains the difference without a bug, false where it points at one, None if neither.
        evidence: the experiment that showed it, in words.
    """

    kind: str
    text: str
    benign: bool | None = None
    evidence: str = ""


@dataclass(frozen=True)
class Place:
    """The first operation of a side whose result the other side never computes.

    Attributes:
        side: "a" or "b".
        kernel: the kernel's name.
        file: source file.
        line: line in it.
        source: text of that line.
        op: the operation's name in the intermediate representation.
        visit: how often the operation had been evaluated before (loops), from 0.
        text: what is known about it, a sentence.
    """

    side: str
    kernel: str
    file: str
    line: int
    source: str
    op: str
    visit: int
    text: str


@dataclass(frozen=True)
class Divergence:
    """Where two evaluations part.

    Attributes:
        places: per side, at most one.
        sure: whether a reordered sum cannot explain it.
        text: in words.
    """

    places: tuple[Place, ...]
    sure: bool
    text: str


@dataclass(frozen=True, eq=False)
class Verdict:
    """The result of a check. There is no truth value: ask for `outcome`, or `equal`.

    Attributes:
        outcome: "equal", "different" or "inconclusive".
        reason: why, if inconclusive, or if a side went out of bounds; else "".
        a: name of side a.
        b: name of side b.
        comparisons: outputs, of the first run that differs, else of the first run.
        seed: the seed of that run.
        sizes: the sizes of that run.
        seeds: all seeds that were tried.
        differing_seeds: those whose outputs differ.
        engine: "cpu" or "gpu".
        version: version of the algebra.
        triton: release of the installed Triton.
        kernels: per side, the kernels that ran with their grids, as texts.
        gaps: operations that the verdict does not cover.
        findings: the diagnosis, most telling first.
        divergence: first diverging intermediates, None if not looked for or not found.
        notes: remarks.
        replay: a command that repeats the check, "" if there is none.
        date: the day, as in 2026-01-31.
    """

    outcome: str
    a: str
    b: str
    version: str
    engine: str
    reason: str = ""
    comparisons: tuple[Comparison, ...] = ()
    seed: int = 0
    sizes: dict[str, int] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    differing_seeds: tuple[int, ...] = ()
    triton: str = ""
    kernels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    findings: tuple[Finding, ...] = ()
    divergence: Divergence | None = None
    notes: tuple[str, ...] = ()
    replay: str = ""
    date: str = field(default_factory=lambda: datetime.date.today().isoformat())

    def __bool__(self) -> bool:
        raise TypeError("a verdict has three outcomes; ask for verdict.equal or verdict.outcome")

    @property
    def equal(self) -> bool:
        """Whether all payloads agree."""
        return self.outcome == EQUAL

    @property
    def different(self) -> bool:
        """Whether some payload differs, or one side alone leaves its arrays."""
        return self.outcome == DIFFERENT

    @property
    def exit_status(self) -> int:
        """0 equal, 1 different, 3 inconclusive."""
        return EXIT_STATUS[self.outcome]

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        if self.outcome == EQUAL:
            return f"SAME ALGEBRA: {self.a} and {self.b} give equal payloads."
        if self.outcome == INCONCLUSIVE:
            return f"INCONCLUSIVE: {self.reason}"
        if self.reason:
            return f"DIFFERENT: {self.reason}"
        worst = max(self.comparisons, key=lambda c: c.share)
        if worst.problem:
            return f"DIFFERENT: output {worst.name!r}: {worst.problem}."
        return (
            f"DIFFERENT: {worst.differing} of {worst.total} elements of {worst.name!r} ({percent(worst.share)}): "
            f"{worst.pattern.text}."
        )

    @property
    def meaning(self) -> str:
        """What the verdict means, and does not mean, in plain words."""
        covered = (
            " Operations that payloads do not cover are listed: the verdict says nothing about them."
            if self.gaps
            else ""
        )
        if self.outcome == EQUAL:
            seeds = f"{len(self.seeds)} random input{'s' if len(self.seeds) > 1 else ''}"
            return (
                f"For {seeds} both sides evaluate the same formula, up to regrouping and reordering of exact sums and "
                "products. Any difference between their floating-point results is rounding. Equal payloads are strong "
                "evidence, not a proof, and hold for these sizes only: choose sizes that leave tails." + covered
            )
        if self.outcome == INCONCLUSIVE:
            return "Nothing was decided: neither equality nor a difference was shown." + covered
        if self.reason and self.comparisons and all(c.equal for c in self.comparisons):
            return (
                "Both sides evaluate the same formula of finite numbers, but one of them lets a NaN or an infinity in "
                "that the other keeps out: look at masks, and at what masked-off elements are." + covered
            )
        if self.reason and not self.comparisons:
            return "One side accesses memory outside of its arrays. What it computes is not defined." + covered
        benign = [finding for finding in self.findings if finding.benign]
        if benign:
            return (
                "The formulas differ as payloads see them, and a known non-identity explains it: real numbers agree "
                f"there, payloads do not ({benign[0].kind}). Rewrite one side to the other's form, or avoid the case, "
                "and check again." + covered
            )
        narrowed = [finding for finding in self.findings if finding.kind == NARROWING]
        if narrowed:
            return f"{narrowed[0].text} Whether that rounding is intended is for you to say." + covered
        if any(finding.kind == EXTRA_ROUNDING for finding in self.findings):
            return (
                "The formulas differ as payloads see them: one side narrows a value that the other does not, which is "
                "rounding, but a step of the formula to payloads. Whether anything else differs is open: narrow on "
                "both sides, or on neither, and check again." + covered
            )
        return (
            "The two sides evaluate different formulas: rounding alone cannot cause this. Unless one of the known "
            "non-identities of the algebra is at work, one of them has a bug." + covered
        )

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain values.

        Returns:
            Dictionaries, lists, numbers and texts, ready for JSON.
        """
        from fpsan_tools.checking.rendering import as_dict

        return as_dict(self)

    def to_json(self) -> str:
        """The verdict as JSON.

        Returns:
            The text of `to_dict`.
        """
        from fpsan_tools.checking.rendering import as_json

        return as_json(self)

    def to_html(self) -> str:
        """The verdict as one self-contained HTML page.

        Returns:
            HTML; everything that comes from users is escaped.
        """
        from fpsan_tools.checking.html import page

        return page(self)

    def to_text(self) -> str:
        """The verdict as text.

        Returns:
            Lines of at most 120 columns where names allow it.
        """
        from fpsan_tools.checking.rendering import as_text

        return as_text(self)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<Verdict {self.headline}>"

    def _repr_html_(self) -> str:
        from fpsan_tools.checking.html import fragment

        return fragment(self)

    def save(self, path: str | Path) -> Path:
        """Write the verdict to a file: .json, .html or .txt, by the name's ending.

        Args:
            path: the file; it is complete or not there.

        Returns:
            The path.

        Raises:
            FpsanError: for another ending.
        """
        from fpsan_tools.checking.rendering import save

        return save(self, path)


def percent(share: float) -> str:
    """A share as a percentage that never rounds a difference to 0 or 100."""
    if 0 < share < 0.001:
        return "less than 0.1%"
    if 0.999 < share < 1:
        return "more than 99.9%"
    return f"{100 * share:.3g}%"
