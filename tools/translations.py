"""Which translations are older than their English text: `python tools/translations.py [--accept [PATH ...]]`.

`tools/translations.json` holds short digests of the passages of each translation and of the English text it was made
from: paragraphs of a page, texts of a lecture's catalogue. A translation is stale where an English passage has changed
since and its own has not, until somebody has read both and accepted it. Without options the stale ones are listed, and
the exit status is 1 if there are any; a new translation is listed too, until it is accepted for the first time.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "tools" / "translations.json"
CATALOGUES = ROOT / "packages" / "lectures" / "src" / "numfmt_lectures" / "catalogues"


def pairs() -> dict[Path, Path]:
    """Every translation and the English file that it follows."""
    found = {path: path.with_name(path.name.replace(".zh.md", ".md")) for path in (ROOT / "docs").rglob("*.zh.md")}
    found |= {path: CATALOGUES / "en" / path.name for path in (CATALOGUES / "zh").glob("*.toml")}
    return dict(sorted(found.items()))


def passages(path: Path) -> dict[str, str]:
    """A file's passages under a name that a reader finds them by.

    Args:
        path: a page (its paragraphs, code and tables) or a catalogue (its texts).

    Returns:
        Name to text, in the order of the file.
    """
    text = path.read_text(encoding="utf-8")
    found: dict[str, str] = {}
    if path.suffix == ".toml":
        _walk(tomllib.loads(text), "", found)
        return found
    for number, block in enumerate(re.split(r"\n\s*\n", text.strip())):
        words = " ".join(block.split())
        found[f"{number + 1}: {words[:50]}"] = words
    return found


def _walk(node: Any, path: str, found: dict[str, str]) -> None:
    if isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            _walk(value, f"{path}.{key}" if path else str(key), found)
    else:
        found[path] = " ".join(str(node).split())


def digest(text: str) -> str:
    """A few digits that change with the text."""
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def stale(english: Path, translation: Path, known: list[str]) -> list[str]:
    """Passages whose English text has changed and whose translation has not.

    Args:
        english: the English file.
        translation: its translation; passages correspond by their names in catalogues, by their place in pages.
        known: digests of the English passages and of the translation's at the time of the last acceptance.

    Returns:
        Their names, in the order of the file.
    """
    sources, others = passages(english), passages(translation)
    read, written = (set(text.split()) for text in known)
    by_place = list(others.values())
    found = []
    for place, (name, text) in enumerate(sources.items()):
        other = others.get(name) if english.suffix == ".toml" else by_place[place] if place < len(by_place) else None
        if digest(text) not in read and (other is None or digest(other) in written):
            found.append(name)
    return found


def lock() -> dict[str, list[str]]:
    """The digests that were accepted: translation to those of the English passages and of its own."""
    accepted: dict[str, list[str]] = json.loads(LOCK.read_text(encoding="utf-8")) if LOCK.exists() else {}
    return accepted


def report() -> list[str]:
    """A sentence for each translation that is older than its text or has none."""
    accepted, lines = lock(), []
    for translation, english in pairs().items():
        name = translation.relative_to(ROOT).as_posix()
        if not english.exists():
            lines.append(f"{name}: there is no {english.relative_to(ROOT).as_posix()} that it could translate")
            continue
        changed = stale(english, translation, accepted[name]) if name in accepted else []
        if changed:
            few = "; ".join(changed[:4]) + (f"; and {len(changed) - 4} more" if len(changed) > 4 else "")
            lines.append(
                f"{name} is of an older English text. Changed: {few}. Revise it, then: "
                f"python tools/translations.py --accept {name}"
            )
    return lines


def new() -> list[str]:
    """Translations that were never accepted."""
    return [name for name in (path.relative_to(ROOT).as_posix() for path in pairs()) if name not in lock()]


def accept(names: list[str]) -> None:
    """Note that translations say what their English texts say now; all of them if none is named.

    Raises:
        SystemExit: a name is no translation.
    """
    accepted = lock()
    known = {path.relative_to(ROOT).as_posix(): english for path, english in pairs().items()}
    unknown = [name for name in names if name not in known]
    if unknown:
        close = difflib.get_close_matches(unknown[0], known, 1, 0.3)
        raise SystemExit(
            f"translations: {unknown[0]} is no translation" + (f"; did you mean {close[0]}?" if close else "")
        )
    for name in names or known:
        files = (known[name], ROOT / name)
        accepted[name] = [" ".join(digest(text) for text in passages(path).values()) for path in files]
    kept = {name: accepted[name] for name in sorted(accepted) if name in known}
    temporary = LOCK.with_suffix(".tmp")
    temporary.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")
    temporary.replace(LOCK)


def main(arguments: list[str] | None = None) -> int:
    """List stale translations, or accept some."""
    parser = argparse.ArgumentParser(description="Which translations are older than their English text.")
    parser.add_argument(
        "--accept", nargs="*", metavar="PATH", help="these translations say what the English says now; all without PATH"
    )
    options = parser.parse_args(arguments)
    if options.accept is not None:
        accept(options.accept)
    lines = report()
    for name in new():
        print(f"{name} is new: python tools/translations.py --accept {name}")
    print("\n".join(lines) if lines else f"none of {len(pairs())} translations is older than its English text")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
