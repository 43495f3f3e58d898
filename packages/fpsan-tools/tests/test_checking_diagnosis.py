"""The diagnosis: every finding is made to appear, and does not appear where nothing of it is."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("triton")

import checking_kernels as k

from fpsan_tools import algebra
from fpsan_tools.checking import check, launch
from fpsan_tools.checking.checker import Pair
from fpsan_tools.checking.comparing import compare
from fpsan_tools.checking.diagnosis import _possible
from fpsan_tools.checking.experiments import rule
from fpsan_tools.checking.inputs import Source, arguments
from fpsan_tools.checking.relations import named, relations
from fpsan_tools.checking.sides import Engine, Output
from fpsan_tools.checking.tracing import record

pytestmark = pytest.mark.triton


def kinds(verdict):
    return [finding.kind for finding in verdict.findings]


def finding(verdict, kind):
    return next(f for f in verdict.findings if f.kind == kind)


# ---- sizes


@pytest.mark.parametrize(
    ("differs", "kind", "text"),
    [
        (lambda n: n % 32 != 0, "tail", "a multiple of 32"),
        (lambda n: n % 16 != 0, "tail", "a multiple of 16"),
        (lambda n: n % 2 == 0, "parity", "agree for odd N and differ for even N"),
        (lambda n: n % 2 == 1, "tail", "a multiple of 2"),
        (lambda n: n > 32, "threshold", "agree up to N = 32"),
        (lambda n: n <= 16, "threshold", "differ up to N = 16"),
        (lambda n: n % 64 == 0, "last block", "differ where N is a multiple of 64"),
        (lambda n: n > 16 and n % 16 != 0, "tail", "a multiple of 16"),
    ],
)
def test_rules_of_lengths(differs, kind, text):
    found = rule("N", {n: not differs(n) for n in (7, 8, 12, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128)})
    assert found.kind == kind
    assert text in found.text


def test_no_rule_without_lengths_of_both_kinds():
    assert rule("N", dict.fromkeys(range(1, 60), False)) is None
    assert rule("N", {n: n != 5 for n in range(1, 60)}) is None
    assert rule("N", {n: n in (3, 4, 10, 11, 29, 40) for n in range(1, 60)}) is None
    assert rule("N", {}) is None


def test_a_dropped_tail_is_diagnosed_with_its_line():
    verdict = check(k.by_64, k.tail_dropped, k.scaling_inputs)
    assert finding(verdict, "tail").benign is False
    assert "n is a multiple of 32" in finding(verdict, "tail").text
    assert "does not write" in finding(verdict, "not written").text
    assert verdict.divergence.sure
    (place,) = verdict.divergence.places
    assert place.side == "a"
    assert place.kernel == "scaled"
    assert place.source == "value = tl.load(x + offset, mask=offset < n, other=0.0)"
    assert "values that never occur on side b" in place.text
    assert any(note.startswith("the smallest sizes") for note in verdict.notes)


def test_even_softmax_lengths_are_no_bug():
    sides = k.softmax_by_power_of_two(), k.softmax_by_power_of_two(subtract=False)
    verdict = check(*sides, k.softmax_inputs)
    found = finding(verdict, "even softmax length")
    assert found.benign is True
    assert "(N)" in found.text
    assert "known non-identity explains it" in verdict.meaning
    assert check(*sides, k.softmax_inputs, sizes={"N": 47}).equal


def test_masking_by_minus_infinity_is_no_bug():
    zeroed, plain = k.softmax_side(), k.softmax_side(zeroed=False)
    verdict = check(zeroed, plain, k.softmax_inputs, sizes={"N": 37})
    found = finding(verdict, "masking by -inf")
    assert found.benign is True
    assert "tl.expect_zero" in found.text
    assert "even softmax length" not in kinds(verdict)


# ---- forms that payloads tell apart


@pytest.mark.parametrize(
    ("one", "two", "kind", "told"),
    [
        ("2x", "x+x", "x+x and 2x", "x + x and 2*x"),
        ("x*0.25", "x/4", "x*c and x/(1/c)", ""),
        ("rsqrt", "1/sqrt", "rsqrt and 1/sqrt", "tl.rsqrt(x) and 1 / tl.sqrt(x)"),
        ("log", "log2*ln2", "log and log2", "tl.log2(x) * ln(2)"),
        ("to fp8", "to fp16 to fp8", "double cast", "by way of 16 bits"),
    ],
)
@pytest.mark.parametrize("exchanged", [False, True])
def test_known_non_identities_are_named(one, two, kind, told, exchanged):
    a, b = (k.form(two), k.form(one)) if exchanged else (k.form(one), k.form(two))
    verdict = check(a, b, k.form_inputs, version="3.9")
    assert verdict.outcome == "different"
    found = finding(verdict, kind)
    assert found.benign is True
    if kind == "double cast":  # truncation is a homomorphism
        assert check(a, b, k.form_inputs, version="3.9-homomorphic").equal
    assert told in found.text
    assert "checking_kernels.py" in found.evidence
    assert "known non-identity explains it" in verdict.meaning


def test_division_of_sixteen_bit_floats_is_no_bug():
    def inputs(rng, n=70):
        x, y = (rng.standard_normal(n).astype(np.float16) for _ in range(2))
        return {"x": x, "y": y, "out": np.zeros(n, np.float16), "n": n}

    for sides in ((k.form("x/y"), k.form("x*(1/y)")), (k.form("x*(1/y)"), k.form("x/y"))):
        assert finding(check(*sides, inputs, version="3.9"), "division in 16 bits").benign is True
        assert check(*sides, inputs, version="3.9-homomorphic").equal
        assert check(*sides, k.form_inputs).equal  # in fp32 it is an identity


@pytest.mark.parametrize(("narrow", "told"), [(True, True), (False, False)])
def test_only_divisions_of_sixteen_bit_values_may_be_no_bug(narrow, told):
    def inputs(rng, n=70):
        x, y = (rng.standard_normal(n).astype(np.float16 if narrow else np.float32) for _ in range(2))
        return {"x": x, "y": y, "out": np.zeros(n, np.float16), "n": n}

    pair = Pair(k.form("x/y"), k.form("x-y"), Source(inputs), Engine("cpu"))
    trial = pair.run(0, {"n": 70})
    assert "arith.divf" in trial.a.launches[0].operations
    found = _possible(pair, trial, record(pair, range(2), {"n": 70}))
    assert bool(found) == told
    assert all("a division of 16-bit floats" in f.text for f in found)


def test_other_differences_are_not_explained_away():
    for one, two in (("x+y", "x-y"), ("rsqrt", "log"), ("3*x", "x*0.25"), ("2x", "x+y")):
        verdict = check(k.form(one), k.form(two), k.form_inputs)
        assert verdict.outcome == "different"
        assert not [f for f in verdict.findings if f.benign]
        assert "one of them has a bug" in verdict.meaning


# ---- inputs and outputs


def test_swapped_inputs_sign_and_ignored_inputs():
    verdict = check(k.form("x/y"), k.form("y/x"), k.form_inputs)
    assert "'x' and 'y' are exchanged" in finding(verdict, "swapped inputs").text
    verdict = check(k.form("x-y"), k.form("y-x"), k.form_inputs)
    assert {"sign", "swapped inputs"} <= set(kinds(verdict))
    verdict = check(k.form("x+y"), k.form("x"), k.form_inputs)
    assert "lacks a summand 'y'" in finding(verdict, "summand").text
    assert finding(verdict, "ignored input").text == "Side b does not use 'y' at n=70."
    verdict = check(k.form("x"), k.form("x+y"), k.form_inputs)
    assert "has 'y' added once more" in finding(verdict, "summand").text
    assert finding(verdict, "ignored input").text == "Side a does not use 'y' at n=70."


def test_a_factor_and_a_constant_are_named():
    verdict = check(k.form("x"), k.form("3*x"), k.form_inputs, version="3.9")
    assert finding(verdict, "factor").text == "Output b is output a times 3."
    assert finding(verdict, "constants").text == "The kernels name different constants: 3 in side b only."
    verdict = check(k.form("3*x"), k.form("x"), k.form_inputs, version="3.9")  # E(3) is even and has no inverse
    assert finding(verdict, "factor").text == "Output a is output b times 3."


def test_a_scalar_that_one_side_ignores():
    def fixed(x, out, n, s):
        k.scaled[(4,)](x, out, n, 0.3, BLOCK=32)

    verdict = check(k.by_32, fixed, lambda rng, n=70: {**k.scaling_inputs(rng, n), "s": 0.7})
    assert finding(verdict, "ignored input").text == "Side b does not use 's' at n=70."


def test_an_extra_rounding():
    verdict = check(k.form("x"), k.form("x through fp16"), k.form_inputs)
    found = [f for f in verdict.findings if f.kind == "extra rounding"]
    assert "Side b narrows an intermediate to 16 bits (f16)" in found[0].text
    assert "Side b narrows its result to 16 bits" in found[1].text
    assert "Whether anything else differs is open" in verdict.meaning
    assert all(f.benign is None for f in found)


def line_of(comment):
    lines = Path(k.__file__).read_text().splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if line.endswith(f"# {comment}")]
    return f"{k.__file__}:{number}"


@pytest.mark.parametrize("diagnose", [False, True])
def test_a_sum_that_is_narrowed_on_its_way_differs_only_by_rounding(diagnose):
    verdict = check(k.right_product, k.narrowed_product, k.product_inputs, version="3.9", diagnose=diagnose)
    assert verdict.outcome == "different"
    assert check(k.right_product, k.narrowed_product, k.product_inputs, version="3.9-homomorphic").equal
    found = verdict.findings[0]
    assert found.kind == "narrowing"
    assert found.benign is None
    way, end = line_of("narrowed on the way"), line_of("narrowed at the end")
    assert f"(side a at {end}; side b at {way}, {end})" in found.text
    assert verdict.meaning.startswith(found.text)
    assert "rounding alone cannot" not in str(verdict)
    assert "3.9-homomorphic" in found.evidence
    told = "Rounding of intermediates, not indexing, is the difference."
    assert told in " ".join(verdict.to_text().split())
    assert told in verdict.to_html()
    data = json.loads(verdict.to_json())
    assert told in data["meaning"]
    assert told in data["diagnosis"][0]["text"]
    assert data["outcome"] == "different"


def test_a_missing_step_is_not_taken_for_rounding():
    for wrong in (k.product_side(last=False), k.product_side(last=False, narrow=True)):
        verdict = check(k.right_product, wrong, k.product_inputs, version="3.9", diagnose=False)
        assert verdict.outcome == "different"
        assert verdict.findings == ()
        assert "rounding alone cannot" in verdict.meaning


def test_casts_are_not_tried_where_no_algebra_keeps_them_or_nothing_is_narrowed(monkeypatch):
    from fpsan_tools.checking import narrowing

    for a, b, version in (("x", "3*x", "3.9"), ("x", "x through fp16", "3.8")):
        trial = []
        pair = Pair(k.form(a), k.form(b), Source(k.form_inputs), Engine("cpu", version))
        trial.append(pair.run(0))
        monkeypatch.setattr(Pair, "run", lambda *a, **kw: pytest.fail("run again"))
        assert narrowing.only_narrowed(pair, trial) is None
        monkeypatch.undo()


def test_transposed_outputs():
    def inputs(rng, M=9, N=9):
        x, out = rng.standard_normal((M, N)).astype(np.float32), np.zeros((M, N), np.float32)
        return {"x": x, "out": out, "rows": M, "columns": N}

    plain, turned = (launch(k.transposed_copy, (1,), TURN=turn, BLOCK=16) for turn in (False, True))
    verdict = check(plain, turned, inputs)
    assert "transposed" in finding(verdict, "transposed output").text
    assert "transposed" in finding(verdict, "transposed input").text
    assert "stored at other places" in verdict.divergence.text
    assert verdict.divergence.places == ()


def compared(a, b, dtype="fp32"):
    """Outputs with given payloads, and what their relation is."""
    rules = algebra.get()
    outputs = [Output("out", rules.unembed(np.asarray(p), dtype), dtype) for p in (a, b)]
    return relations(compare("out", *outputs, rules), rules, arguments({"x": np.zeros(3, np.float32)}), {"K": 48})


def test_relations_between_payloads():
    rules = algebra.get()
    p = np.random.default_rng(0).integers(0, 1 << 32, (6, 8), np.uint32)

    def E(x):
        return rules.embed(np.float32([x]), "fp32")

    cases = [
        (rules.neg(p), "sign", "differ by their sign"),
        (p * 0, "all zero", "Side b gives nothing but zeros"),
        (p[::-1], "reversed output", "along axis 0"),
        (np.roll(p, 2, 1), "moved output", "by 2 along axis 1"),
        (np.random.default_rng(1).permutation(p.reshape(-1)).reshape(p.shape), "moved output", "at other places"),
        (p * E(1 / 48), "factor", "0.0208333 (1/K)"),
        (p * E(48**-0.5), "factor", "0.144338 (1/sqrt(K))"),
        (p * E(0.125), "factor", "times 0.125"),
        (p * np.arange(1, 13, 2, np.uint32)[:, None], "factor", "one factor per row"),
        (p * np.arange(1, 17, 2, np.uint32)[None, :], "factor", "one factor per column"),
        (p + E(2.5), "summand", "plus 2.5"),
        (rules.cast(rules.cast(p, "fp16"), "fp32"), "extra rounding", "Side b narrows its result to 16 bits"),
    ]
    for q, kind, text in cases:
        (found,) = compared(p, q)
        assert found.kind == kind
        assert text in found.text
    other = np.random.default_rng(2).integers(0, 1 << 32, (6, 8), np.uint32)
    assert compared(p, other) == []
    assert compared(p, p) == []


def test_random_payloads_are_not_taken_for_numbers():
    rules = algebra.get()
    payloads = np.random.default_rng(5).integers(0, 1 << 32, 2000, np.uint32)
    names = [named(payloads[i : i + 1], "fp32", rules, {"K": 48}) for i in range(len(payloads))]
    assert sum("payload" not in name for name in names) < 20
    for value, name in ((0.1, "0.1"), (-3.0, "-3"), (2.0**-20, "9.53674e-07"), (1.44269504, "1.4427 (log2(e))")):
        assert named(rules.embed(np.float32([value]), "fp32"), "fp32", rules, {}) == name


# ---- the first diverging line


def test_regrouped_sums_are_passed_over_where_programs_agree():
    # Side b adds in another order everywhere and drops a tail in its last program only.
    verdict = check(k.by_64, k.tail_dropped, k.scaling_inputs, sizes={"n": 110})
    assert verdict.divergence.sure
    assert [place.side for place in verdict.divergence.places] == ["a"]


def test_sixteen_bit_payloads_are_traced_with_more_seeds():
    import fpsan_tools

    def inputs(rng, n=70):
        made = {name: fpsan_tools.typed(rng.integers(0, 1 << 16, n, np.uint16), "bf16") for name in ("x", "y")}
        return {**made, "out": fpsan_tools.typed(np.zeros(n, np.uint16), "bf16"), "n": n}

    verdict = check(k.form("2x"), k.form("x+x"), inputs)
    assert finding(verdict, "x+x and 2x").benign
    assert len(verdict.divergence.places) == 2
    assert {place.op for place in verdict.divergence.places} == {"arith.mulf", "arith.addf"}


def test_the_budget_ends_experiments():
    verdict = check(k.by_64, k.tail_dropped, k.scaling_inputs, budget=0)
    assert verdict.outcome == "different"
    assert any("experiments stopped after 0 seconds" in note for note in verdict.notes)
    assert "tail" not in kinds(verdict)


def test_too_many_intermediates_are_not_kept(monkeypatch):
    from fpsan_tools.checking import tracing

    monkeypatch.setattr(tracing, "LIMIT", 10)
    verdict = check(k.by_64, k.tail_dropped, k.scaling_inputs)
    assert verdict.divergence is None
    assert any("too many intermediates" in note for note in verdict.notes)
