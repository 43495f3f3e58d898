"""The site's rule table names every operation of the payload algebra, and its identities are what the code does."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"
if not (TOOLS / "site_rules.py").exists():
    pytest.skip("the pages belong to the repository, not to the package", allow_module_level=True)
pytest.importorskip("fpsan_tools")

import site_rules  # noqa: E402

from fpsan_tools.algebra import FLOAT_TYPES, TAG_IDS, VERSIONS, Algebra  # noqa: E402
from fpsan_tools.ttir import coverage  # noqa: E402

MODULUS = {8: 1 << 8, 16: 1 << 16, 32: 1 << 32, 64: 1 << 64}
IDENTITIES = {identity.text: identity for identity in site_rules.IDENTITIES}


def test_every_operation_of_the_algebra_has_a_row() -> None:
    offered = {name for name in dir(Algebra) if not name.startswith("_")} - {field.name for field in fields(Algebra)}
    assert offered == {rule.name for rule in site_rules.OPERATIONS} | site_rules.OTHERS
    text = "\n".join(site_rules.operations())
    assert all(f"| `{rule.name}` |" in text for rule in site_rules.OPERATIONS)
    assert all(op in text for op in ("log2", "rsqrt", "erf", "floor", "ceil"))
    assert set(TAG_IDS) == set(next(r for r in site_rules.OPERATIONS if r.name == "tagged").written[3:].split(", "))


def test_every_rule_is_told_by_the_code() -> None:
    for rule in site_rules.OPERATIONS:
        assert len(site_rules.paragraph(rule.source)) > 10, rule.name


def inverse(y: int) -> int:
    """The definition of 1/y at 32 bits, in Python integers."""
    odd = pow(y | 1, -1, 1 << 32)
    return odd if y & 1 else odd - 1


def test_examples_are_those_of_the_integers() -> None:
    """The ring's rules, computed with Python integers from the payloads of the embedding's definition."""
    rules = {line.split("`")[1]: line.split("`")[-2] for line in site_rules.operations() if line.startswith("| `")}
    payloads = []
    for pattern in (0x3FC00000, 0x40400000):  # 1.5 and 3
        mix = lambda u: (y := u * 14940041 % (1 << 31)) ^ (y >> 23)  # noqa: E731
        payloads.append(mix(pattern) * pow(mix(0x3F800000), -1, 1 << 31) % (1 << 31))
    x, y = payloads
    expected = {
        "embed": x, "add": x + y, "sub": x - y, "neg": -x, "mul": x * y, "fma": x * y + x, "inv": inverse(y),
        "div": x * inverse(y), "maximum": max(x, y), "minimum": min(x, y), "sum": x + y, "matmul": x * y, "clamp": x,
    }  # fmt: skip
    assert {name: int(rules[name], 16) for name in expected} == {k: v % (1 << 32) for k, v in expected.items()}


@pytest.mark.parametrize("text", IDENTITIES)
def test_an_identity_holds_where_the_page_says(text: str) -> None:
    site_rules.check(IDENTITIES[text])


@pytest.mark.parametrize("text", [text for text, identity in IDENTITIES.items() if identity.where != "always"])
def test_a_lost_identity_that_is_called_kept_is_caught(text: str) -> None:
    with pytest.raises(AssertionError, match="fails for"):
        site_rules.check(IDENTITIES[text], "always")


@pytest.mark.parametrize("text", [text for text, identity in IDENTITIES.items() if identity.where == "always"])
def test_a_kept_identity_that_is_called_lost_is_caught(text: str) -> None:
    with pytest.raises(AssertionError, match="holds throughout"):
        site_rules.check(IDENTITIES[text], "never")


def test_a_condition_that_is_too_narrow_is_caught() -> None:
    narrow = replace(IDENTITIES["x·y = y·x"], where="odd payloads of y", given=lambda t: t.y.odd)
    with pytest.raises(AssertionError, match="holds beyond"):
        site_rules.check(narrow)


def test_every_fact_that_differs_between_versions_is_told() -> None:
    text = "\n".join(site_rules.versions())
    for field in fields(Algebra):
        values = [getattr(rules, field.name) for rules in VERSIONS.values()]
        differs = any(value != values[0] for value in values) and field.name != "version"
        assert (f"| `{field.name}` |" in text) == differs, field.name


def test_every_type_and_alias_is_told() -> None:
    kinds, symbols = "\n".join(site_rules.types()), "\n".join(site_rules.aliases())
    assert all(f"| `{name}` |" in kinds for name in FLOAT_TYPES)
    assert all(f"| `{s}` |" in symbols for rules in VERSIONS.values() for s in rules.extern_aliases)


def test_everything_that_stays_as_it_is_is_told() -> None:
    assert {site_rules.named(line) for _, line in site_rules.LEFT} == set(coverage._RULES)
    for line in list(site_rules.left_alone())[2:]:
        assert len(line.split("|")[3].strip()) > 10, f"{line} has no reason"
