"""CONTRIBUTING.md: the markers, sessions and files that it names exist; packages keep to their own private names."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import site_noxfile

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "CONTRIBUTING.md"
if not PAGE.exists():
    pytest.skip("the page belongs to the repository, not to the package", allow_module_level=True)

TEXT = PAGE.read_text(encoding="utf-8")
PACKAGES = {
    "numfmt": "numfmt",
    "fpsan_tools": "fpsan-tools",
    "tritongemm": "tritongemm",
    "numfmt_lectures": "lectures",
}


def test_every_marker_is_named_and_no_other() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    markers = {line.partition(":")[0] for line in options["markers"]}
    (listed,) = re.findall(r"^Markers: (.*)$", TEXT, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", listed)) == markers


def test_named_sessions_and_folders_exist() -> None:
    named = set(re.findall(r"nox -s (\w+)", TEXT))
    assert named
    assert named <= site_noxfile.sessions()
    folders = re.findall(r"^\| `([\w/-]+)` \|", TEXT, re.MULTILINE)
    assert len(folders) >= 6
    for place in [*folders, *re.findall(r"`python (\S+\.py)", TEXT), ".ci/run"]:
        assert (ROOT / place).exists(), place


def test_coverage_is_that_of_the_packages_and_of_branches() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["coverage"]["run"]
    assert set(options["source_pkgs"]) == set(PACKAGES)
    assert options["branch"]
    assert "line and branch coverage" in (ROOT / "noxfile.py").read_text(encoding="utf-8")


def _trees(package: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((ROOT / "packages" / PACKAGES[package] / "src" / package).rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


@cache
def _private_names(package: str) -> frozenset[str]:
    """Private functions, classes, variables and attributes that a package makes."""
    names = set()
    for _, tree in _trees(package):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.id if isinstance(node, ast.Name) else node.attr)
    return frozenset(name for name in names if name.startswith("_") and not name.startswith("__"))


@pytest.mark.parametrize("package", PACKAGES)
def test_no_package_reaches_into_anothers_private_names(package: str) -> None:
    others = (_private_names(other) for other in PACKAGES if other != package)
    foreign = frozenset().union(*others) - _private_names(package)
    assert len(foreign) > 100
    found = []
    for path, tree in _trees(package):
        for node in ast.walk(tree):
            reached = [node.attr] if isinstance(node, ast.Attribute) and node.attr in foreign else []
            if isinstance(node, ast.ImportFrom) and node.module:
                top, *parts = node.module.split(".")
                if top in PACKAGES and top != package:
                    reached += [name for name in (*parts, *(x.name for x in node.names)) if name.startswith("_")]
            found += [f"{path.name}: {name}, {ast.unparse(node)}" for name in reached]
    assert not found
