"""The glossary is in order, its anchors are unique, and the words of the site and of the commands are in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
if not DOCS.exists():
    pytest.skip("the pages belong to the repository, not to the package", allow_module_level=True)

TEXT = (DOCS / "glossary.md").read_text(encoding="utf-8")
TERMS = dict(re.findall(r"^(\S.*?) \{ #([\w-]+) \}\n:   ", TEXT, re.MULTILINE))
SORTED_AS = {"γₙ": "gamma n", "u·Σ|p|": "u·sum"}

# Words that a reader may not know, as patterns, and the anchors that explain them.
WORDS = {
    r"\bbatch.invarian": "batch-invariance",
    r"\bbinade": "binade",
    r"\bcarriers?\b": "carrier",
    r"\bcondition numbers?\b|κ|\bkappa\b": "condition-number",
    r"\bdouble rounding\b": "double-rounding",
    r"\bepilogue": "epilogue",
    r"\bFMA\b|\bfused multiply-add": "fused-multiply-add",
    r"\bFpSan\b": "fpsan",
    r"\bgamma_n\b|γ|\\gamma": "gamma",
    r"\bgolden\b": "golden",
    r"\bhomomorphic": "homomorphic-casts",
    r"\binstrument": "instrumented",
    r"\bKahan": "kahan-summation",
    r"\bmatrix units?\b": "matrix-unit",
    r"\bMXFP|\bNVFP4": "mx",
    r"\bpairwise": "pairwise-summation",
    r"\bpayload": "payload",
    r"\bportable\b": "portable",
    r"\bpromot": "promotion",
    r"\brms\b": "rms",
    r"\bsaturat": "saturation",
    r"\bschedule": "schedule",
    r"\bsignificand": "significand",
    r"\bsplit.k\b": "split-k",
    r"\bstagnat": "stagnation",
    r"\bstochastic": "stochastic-rounding",
    r"\bsubnormal": "subnormal",
    r"\btails?\b": "tail",
    r"\btensor cores?\b": "tensor-core",
    r"\bTF32\b": "tf32",
    r"\bulps?\b": "ulp",
    r"\bunembed": "embed",
    r"\bunit roundoff": "unit-roundoff",
    r"\bunsanitised": "unsanitised",
    r"\bu·(?:Σ|sum)\|p\|": "u-sum-p",
}


def test_terms_are_in_order_and_anchors_unique() -> None:
    assert len(TERMS) == len(re.findall(r"^:   ", TEXT, re.MULTILINE)) >= 70
    keys = [SORTED_AS.get(term, term).lower().replace("-", " ").replace("(", "") for term in TERMS]
    assert keys == sorted(keys)
    assert len(set(TERMS.values())) == len(TERMS)


@pytest.fixture(scope="module")
def everything() -> str:
    sources = [
        *(p for p in DOCS.rglob("*.md") if p.name != "glossary.md" and ".zh." not in p.name),
        *(ROOT / "packages").glob("*/src/*/*.py"),
        *(ROOT / "packages").glob("*/src/*/commands/*.py"),
    ]
    return "\n".join(path.read_text(encoding="utf-8") for path in sources)


@pytest.mark.parametrize("pattern", WORDS)
def test_a_word_that_is_used_is_explained(pattern: str, everything: str) -> None:
    assert WORDS[pattern] in TERMS.values()
    assert re.search(pattern, everything, re.IGNORECASE), f"nothing uses {pattern!r} any more"


def test_references_between_entries_lead_somewhere() -> None:
    plain = {re.sub(r" \(.*\)|,.*", "", term) for term in TERMS} | set(TERMS)
    for word in re.findall(r"See \*([^*]+)\*", TEXT):
        assert word in plain, word


def test_pages_link_to_entries() -> None:
    linked = {
        anchor
        for path in DOCS.rglob("*.md")
        for anchor in re.findall(r"glossary\.md#([\w-]+)", path.read_text(encoding="utf-8"))
    }
    assert len(linked) >= 15
    assert linked <= set(TERMS.values()), linked - set(TERMS.values())
