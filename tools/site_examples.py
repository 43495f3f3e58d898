"""Examples of the site that are files and commands: shown as a reader would type them, and run when the site is built.

Lines of a page that are marks:

    [[file examples/study.py]]                 the file, which lies beside the page, is shown under its name
    [[file examples/ci/test_x.py as tests/test_x.py]]    ... under another one
    [[run python study.py]]                    the command is run in a folder that has the page's files, and shown with
                                               what it prints
    [[run 1 fpsan check a.py b.py]]            ... and must end with exit status 1
    [[picture error.svg: what it shows]]       a picture that a command has drawn, inside the page

Every page has a folder of its own. A command that ends with another exit status stops the build: a page cannot show
what no longer works.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path

MARK = re.compile(r"^\[\[(file|run|picture) (.+)\]\]$", re.MULTILINE)
LANGUAGES = {".py": "python", ".yml": "yaml", ".toml": "toml", ".sh": "bash"}
# Commands of the packages, which are the modules' own mains.
MODULES = {
    "fpsan": "fpsan_tools",
    "lectures": "numfmt_lectures",
    "numfmt-sim": "numfmt",
    "pytest": "pytest",
    "tritongemm": "tritongemm",
}
PLUGIN = "fpsan_tools.pytest_plugin"
# Seconds that a command of a page may take.
LIMIT = 300


class ExampleError(RuntimeError):
    """An example of a page that does not do what the page says."""


@dataclass
class Page:
    """One page's examples.

    Attributes:
        beside: The folder of the page, from which its files come.
        folder: The folder in which its commands run.
    """

    beside: Path
    folder: Path
    _done: dict[str, str] = field(default_factory=dict)

    def render(self, markdown: str) -> str:
        """The page with its marks replaced, in their order; a mark that was met before gives the same text."""

        def replaced(mark: re.Match[str]) -> str:
            if mark[0] not in self._done:
                self._done[mark[0]] = getattr(self, f"_{mark[1]}")(mark[2])
            return self._done[mark[0]]

        return MARK.sub(replaced, markdown)

    def _file(self, text: str) -> str:
        source, _, name = text.partition(" as ")
        path = self.beside / source
        target = self.folder / (name or path.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_text(encoding="utf-8")
        target.write_text(content, encoding="utf-8")
        title = target.relative_to(self.folder).as_posix()
        return f'```{LANGUAGES.get(path.suffix, "text")} title="{title}"\n{content.rstrip()}\n```'

    def _run(self, text: str) -> str:
        expected, _, rest = text.partition(" ")
        status, command = (int(expected), rest) if expected.isdecimal() else (0, text)
        environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "MPLBACKEND": "agg"}
        if not any(point.value == PLUGIN for point in entry_points(group="pytest11")):
            environment["PYTEST_PLUGINS"] = PLUGIN  # the packages are on the path and not installed
        done = subprocess.run(
            executable(shlex.split(command)),
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        output = done.stdout.replace(f"{self.folder.resolve()}{os.sep}", "").replace(f"{self.folder}{os.sep}", "")
        if done.returncode != status:
            raise ExampleError(f"`{command}` ended with {done.returncode} and not with {status}:\n{output}")
        return f"```console\n$ {command}\n{output}".rstrip() + "\n```"

    def _picture(self, text: str) -> str:
        name, _, meaning = text.partition(": ")
        content = (self.folder / name).read_text(encoding="utf-8")
        drawing = content[content.index("<svg") :]
        # Two pictures in a page must not share the names of their parts.
        prefix = re.sub(r"\W", "-", name)
        drawing = re.sub(r'\bid="', f'id="{prefix}-', drawing)
        drawing = re.sub(r'(href="|url\()#', rf"\1#{prefix}-", drawing)
        drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
        drawing = re.sub(r"\s*\n\s*", " ", drawing)  # an empty line would end the HTML block
        return f'<figure class="example" role="img" aria-label="{meaning}">{drawing}</figure>'


def executable(words: list[str]) -> list[str]:
    """A command of this environment, be it activated or not, and be its packages installed or only on the path."""
    if words[0] == "python":
        return [sys.executable, *words[1:]]
    if words[0] in MODULES:
        return [sys.executable, "-m", MODULES[words[0]], *words[1:]]
    installed = Path(sys.executable).with_name(words[0])
    return [str(installed) if installed.exists() else words[0], *words[1:]]


_pages: dict[str, Page] = {}
_folders: list[tempfile.TemporaryDirectory[str]] = []


def render(markdown: str, source: str, docs: Path) -> str:
    """A page's text with its marks replaced.

    Args:
        markdown: The text.
        source: Path of the page from `docs`; a page that is built for several languages runs its commands once.
        docs: The folder of all pages.

    Returns:
        The text.

    Raises:
        ExampleError: If a command ends with another exit status than the page says.
        FileNotFoundError: If a file is not there.
    """
    if not MARK.search(markdown):
        return markdown
    if source not in _pages:
        _folders.append(tempfile.TemporaryDirectory(prefix="site-example-"))
        _pages[source] = Page((docs / source).parent, Path(_folders[-1].name))
    return _pages[source].render(markdown)
