"""The mutation study: every planted bug is found by what is expected, or is invisible for a stated reason."""

import json
from pathlib import Path

import pytest

pytest.importorskip("triton")

import fpsan_mutants as study

from fpsan_tools import algebra

pytestmark = pytest.mark.triton

PUBLISHED = Path(__file__).parents[3] / "bench" / "results" / "fpsan-mutants.json"
IDS = [f"{m.kernel}-{m.name}" for m in study.MUTANTS]


@pytest.fixture(scope="module")
def correct():
    return study.load(study.SOURCE)


def test_there_are_enough_planted_bugs_with_names_of_their_own():
    assert len(study.MUTANTS) >= 30
    assert len(set(IDS)) == len(IDS)
    assert {m.kernel for m in study.MUTANTS} == {"matmul", "softmax", "attention", "layer_norm"}
    assert all(bool(m.why) == (m.found_by == "") for m in study.MUTANTS)


@pytest.mark.parametrize("name", study.SIDES)
def test_the_correct_kernels_agree_with_themselves_at_other_block_sizes(correct, name):
    make_side, make_inputs = study.SIDES[name]
    kernel = getattr(correct, name.split()[-1])
    verdict = study.check(make_side(kernel, True), make_side(kernel, False), make_inputs, special_values=True)
    assert verdict.equal, str(verdict)
    assert verdict.notes == ("with IEEE arithmetic NaN and infinity appear at the same places on both sides",)


@pytest.mark.parametrize("mutant", study.MUTANTS, ids=IDS)
def test_a_planted_bug_is_found_as_expected(correct, mutant, tmp_path):
    verdict = study.examine(mutant, correct, tmp_path, diagnose=False)
    assert study.found_by(verdict) == mutant.found_by, str(verdict)


def published():
    if not PUBLISHED.exists():
        pytest.skip("the published study is not part of a source distribution")
    return json.loads(PUBLISHED.read_text())


def test_the_published_table_is_of_these_mutants():
    rows = published()["mutants"]
    assert [(r["kernel"], r["bug"], r["planted"]) for r in rows] == [(m.kernel, m.name, m.new) for m in study.MUTANTS]
    assert [r["found_by"] for r in rows] == [m.found_by for m in study.MUTANTS]


@pytest.mark.exhaustive
def test_the_published_table_is_what_a_run_gives(tmp_path):
    known = published()
    if known["algebra"] != algebra.get().version:
        pytest.skip(f"published for the algebra {known['algebra']}")
    fresh = study.study(tmp_path)
    for record in fresh:
        record["diagnosis"] = [text.replace(f"{tmp_path}/", "") for text in record["diagnosis"]]
    assert fresh == known["mutants"]
