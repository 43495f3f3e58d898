"""The repository's README: its code runs, its commands exist, its links lead somewhere, its quotations are current."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
README = ROOT / "README.md"
if not (ROOT / "noxfile.py").exists():
    pytest.skip("the README belongs to the repository, not to the package", allow_module_level=True)

TEXT = README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL)


def test_it_shows_the_product_in_ten_lines_and_two_commands() -> None:
    (code,) = [block for language, block in BLOCKS if language == "python"]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    assert sum(language == "console" for language, _ in BLOCKS) == 2


@pytest.mark.triton
def test_the_code_runs_and_shows_what_the_text_says() -> None:
    pytest.importorskip("triton")
    pytest.importorskip("tritongemm")
    (code,) = [block for language, block in BLOCKS if language == "python"]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(README), "exec"), {"__name__": "readme"})
    errors = {line.split()[0]: float(line.split()[3]) for line in out.getvalue().splitlines()}
    # "with a smaller error on such data"
    assert errors["fp16x3"] < errors["ieee"]
    assert errors["int8x6"] < errors["ieee"] < errors["tf32"]


def test_named_sessions_exist() -> None:
    functions = [
        node
        for node in ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    ]
    sessions = {node.name for node in functions if "session" in ast.unparse(node).partition("def ")[0]}
    named = set(re.findall(r"nox -s (\w+)", TEXT))
    assert {"audit", "tests", "docs"} <= named <= sessions


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert len(links) >= 6
    for link in links:
        assert link.startswith("https://") or (ROOT / link).exists(), link


def test_the_quoted_verdict_is_the_one_that_the_package_quotes() -> None:
    def verdict(text: str) -> list[str]:
        (block,) = [b for b in re.findall(r"```(?:\w+)?\n(.*?)```", text, re.DOTALL) if "Verdict: PASS" in b]
        return block.split()

    package = (ROOT / "packages" / "tritongemm" / "README.md").read_text(encoding="utf-8")
    assert verdict(TEXT) == verdict(package)


def test_what_is_said_of_the_full_size_is_recorded() -> None:
    recorded = json.loads((ROOT / "bench" / "results" / "nvidia-h200-audit.json").read_text(encoding="utf-8"))
    strata = recorded["rounding"]["strata"]["all"]
    assert f"{strata['A']['outputs']:,}" in TEXT
    assert strata["A"]["outside"] == 0 < strata["library"]["outside"], "the kernel that was blamed is the accurate one"
