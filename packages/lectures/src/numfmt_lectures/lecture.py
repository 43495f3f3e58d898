"""What a lecture is, and how one is found, set and run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Generic, Protocol, Self, TypeVar

from numfmt_lectures.names import LectureError, unknown
from numfmt_lectures.report import Demonstration, Report

__all__ = ["LECTURES", "Lecture", "find", "perform"]


class Settings(Protocol):
    """Sizes and seeds of a lecture: a frozen dataclass whose defaults are the full run."""

    @classmethod
    def quick(cls) -> Self:
        """The same experiment, small enough for a second."""


S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class Lecture(Generic[S]):
    """A lecture: a name, what can be set, and its demonstrations in order, each a function of the settings.

    Attributes:
        name: what the user types; its catalogue has the same name.
        settings: the class of its settings.
        demonstrations: functions that compute, and say nothing in any language.
    """

    name: str
    settings: type[S]
    demonstrations: Sequence[Callable[[S], Demonstration]]


@dataclass(frozen=True)
class Entry:
    """Where a lecture is, and what it needs beyond numfmt.

    Attributes:
        module: the module whose `LECTURE` it is.
        requires: modules that must be installed, in the order in which they are asked for.
    """

    module: str
    requires: Sequence[str] = ()


_KERNELS = ("fpsan_tools", "triton")

LECTURES = {
    "numbers": Entry("numfmt_lectures.numbers"),
    "block-scales": Entry("numfmt_lectures.block_scales"),
    "rounding-and-accumulation": Entry("numfmt_lectures.rounding_and_accumulation"),
    "another-order": Entry("numfmt_lectures.another_order", (*_KERNELS, "tritongemm")),
    "tl-dot": Entry("numfmt_lectures.tl_dot"),
    "fpsan": Entry("numfmt_lectures.fpsan", _KERNELS),
    "fp32-from-parts": Entry("numfmt_lectures.fp32_from_parts"),
    "reproducibility": Entry("numfmt_lectures.reproducibility"),
}
"""Every lecture in teaching order."""

_REMEDY = "pip install 'numfmt-lectures[kernels]' (Triton exists for Linux only)"


def find(name: str) -> Lecture[Any]:
    """The lecture of that name.

    Raises:
        LectureError: there is no such lecture, and the message names the nearest one; or it needs a package that is
            not installed.
    """
    if name not in LECTURES:
        raise unknown("lecture", name, LECTURES)
    entry = LECTURES[name]
    for module in entry.requires:
        if find_spec(module) is None:
            raise LectureError(f"lecture {name!r} needs {module}, which is not installed: {_REMEDY}")
    lecture: Lecture[Any] = import_module(entry.module).LECTURE
    return lecture


def perform(lecture: Lecture[Any], quick: bool = False, overrides: Mapping[str, object] | None = None) -> Report:
    """Run a lecture's demonstrations.

    Args:
        lecture: which one.
        quick: the small sizes instead of the full ones.
        overrides: settings by name; a string is read as the setting's own type ("512,4096" for several integers).

    Returns:
        All that was computed.

    Raises:
        LectureError: an unknown setting, or a value that the setting cannot take.
    """
    settings = lecture.settings.quick() if quick else lecture.settings()
    known = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}
    changed = {}
    for name, value in (overrides or {}).items():
        if name not in known:
            raise unknown("setting", name, known)
        changed[name] = _read(name, value, known[name])
    settings = dataclasses.replace(settings, **changed)
    demonstrations = [demonstration(settings) for demonstration in lecture.demonstrations]
    return Report(lecture.name, dataclasses.asdict(settings), demonstrations)


def _read(name: str, value: object, default: object) -> object:
    """A setting's new value in the type of its default: an integer of at least 0, or several of at least 1."""
    several = isinstance(default, tuple)
    parts: Sequence[Any] = (
        value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else [value]
    )
    try:
        numbers = tuple(int(part) for part in parts)
    except (TypeError, ValueError):
        numbers = ()
    least = 0 if name == "seed" else 1
    if not numbers or (not several and len(numbers) > 1) or min(numbers) < least:
        kind = "integers, separated by commas," if several else "an integer"
        raise LectureError(f"setting {name!r} takes {kind} of at least {least}, not {value!r} (now {default})")
    return numbers if several else numbers[0]
