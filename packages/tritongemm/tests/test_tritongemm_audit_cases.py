"""Audits of kernels of any signature: right ones pass, and each planted mistake fails with its reason."""

import json
import pathlib
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import fpsan_tools
import numfmt
import tritongemm
from tritongemm.__main__ import main
from tritongemm.auditing import cases
from tritongemm.auditing.cases import Case
from tritongemm.auditing.distributions import CHANGES, TEXT, changes_named
from tritongemm.auditing.kernel_algebra import DIFFERENT, SAME, KernelAlgebra
from tritongemm.auditing.kernel_audit import Growth, Side, plan
from tritongemm.auditing.kernel_judgement import judge_kernel
from tritongemm.auditing.measured import measure, torch_tolerance
from tritongemm.auditing.trials import Spec, Values, changed, in_float64, widened
from tritongemm.errors import UsageError

ck = pytest.importorskip("tritongemm_case_kernels")

pytestmark = pytest.mark.triton


def audit(kernel, reference, inputs, **how):
    how = {"device": "cpu", "max_time": 300, "distributions": [], **how}
    return tritongemm.audit_kernel(kernel, reference, inputs, **how)


def rows(rng, rows=5, columns=48):
    return {"x": rng.standard_normal((rows, columns)).astype(np.float32)}


def softmax(x):
    p = np.exp(x - x.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def told(result):
    return " ".join([*result.verdict.failures, *result.verdict.doubts])


def softmax_audit(mistake, **how):
    how = {"tiles": {"columns": 16}, "distributions": ["extreme", "wide"], **how}
    return audit(lambda x: ck.softmax(x, mistake), softmax, rows, name="softmax", **how)


def test_a_right_softmax_passes_with_its_algebra_not_applicable():
    result = softmax_audit("none", reduced="columns")
    assert result.status == "PASS WITH LIMITATIONS"
    assert result.algebra.status == "not applicable"
    assert "computed by NumPy" in result.algebra.reason
    assert all(m.accepted and m.formula <= 1 for m in result.sides[0].measured)
    tried = {(m.spec.why, m.spec.change, m.shape) for m in result.sides[0].measured}
    assert ("one less than a tile", "as drawn", (5, 15)) in tried
    assert ("one more than a tile", "as drawn", (5, 17)) in tried
    assert ("the smallest", "as drawn", (1, 1)) in tried
    assert {change for _, change, _ in tried} == {"as drawn", "extreme", "wide"}
    (growth,) = result.growth
    assert growth.lengths == (48, 96, 192, 384)
    assert "no more than noise" in " ".join(result.verdict.sentences)


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("no max", ["NaN or infinity in", "a softmax do whose maximum is not subtracted first", "right as drawn"]),
        (
            "mask tail missing",
            [
                "Of the sizes tried, it is right where columns is a multiple of 16 (16, 48)",
                "a tail is handled wrongly",
                "no rounding",
            ],
        ),
        ("fp16 sum", ["The formula is right", "It is rounding", "tl.sum(p.to(tl.float16)"]),
        ("wrong scale", ["All its results are 0.5 times the right ones", "no rounding", "wrong in all"]),
    ],
)
def test_a_mistake_in_a_softmax_fails_with_its_reason(mistake, words):
    result = softmax_audit(mistake)
    assert result.status == "FAIL"
    assert result.exit_code == 1
    for text in words:
        assert text in told(result)


def norm_inputs(rng, rows=4, columns=48):
    x = rng.standard_normal((rows, columns)).astype(np.float32)
    return {"x": x, "w": rng.uniform(0.5, 1.5, columns).astype(np.float32)}


def rms_norm(x, w):
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5) * w


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("none", []),
        ("eps misplaced", ["no rounding", "inputs tiny"]),
        ("block instead of columns", ["All its results are 1.1547 times the right ones"]),
    ],
)
def test_mistakes_in_a_norm(mistake, words):
    result = audit(
        lambda x, w: ck.rms_norm(x, w, mistake), rms_norm, norm_inputs, distributions=["tiny", "flat"], varied=["x"]
    )
    assert result.status == ("FAIL" if words else "PASS WITH LIMITATIONS"), told(result)
    for text in words:
        assert text in told(result)


def test_a_formula_that_narrow_results_hide_is_found_all_the_same():
    """eps beside the root changes results by 1e-5: nothing in bf16, until inputs are small, or nothing is rounded."""
    result = audit(
        lambda x, w: ck.rms_norm(x, w, "eps misplaced"), rms_norm, norm_inputs, distributions=["tiny"], varied=["x"],
        dtype="bf16",
    )  # fmt: skip
    assert {m.dtype for m in result.sides[0].measured} == {"bf16"}
    assert result.status == "FAIL"
    drawn = [m for m in result.sides[0].measured if m.spec.change == "as drawn"]
    assert all(m.accepted for m in drawn)
    assert "It is right as drawn, and wrong with inputs tiny" in told(result)


def test_a_factor_that_the_rounding_of_results_hides_is_found_where_the_kernel_writes_to_an_array(folder, capsys):
    for name, factor in (("right", "1.0"), ("wrong", "1.0005")):
        text = cases.TEMPLATE.replace("y = p / tl.sum", f"y = {factor} * p / tl.sum")
        (folder / f"{name}.py").write_text(text.replace('DISTRIBUTIONS = ["tiny", "wide"', 'DISTRIBUTIONS = ["wide"'))
        code = main(["audit", f"{name}.py", "--device", "cpu", "--dtype", "bf16", "--no-report"])
        assert code == (name == "wrong")
        out = " ".join(capsys.readouterr().out.split())
        assert ("is computed by another formula, though its rounding hides that" in out) == (name == "wrong")


def test_how_far_two_formulas_may_differ_unseen_is_told():
    """This kernel makes its own bf16 results, whose rounding nobody can take away."""
    result = audit(lambda x, w: ck.rms_norm(x, w, "none"), rms_norm, norm_inputs, dtype="bf16", varied=["x"])
    assert {(m.stored, m.resolution) for m in result.sides[0].measured} == {("bf16", 4 * 2.0**-8)}
    assert "both agree to 1.6 % (results are stored in bf16" in " ".join(result.verdict.limitations)


def keys_and_queries(rng, queries=16, keys=40):
    return {n: rng.standard_normal((s, 16)).astype(np.float32) for n, s in (("q", queries), ("k", keys), ("v", keys))}


def attention(q, k, v):
    return softmax(q @ k.T * q.shape[1] ** -0.5) @ v


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("none", []),
        ("last block dropped", ["no rounding"]),
        ("key tail unmasked", ["right where keys is a multiple of 16"]),
        (
            "tile counted twice",
            ["no rounding", "right where keys is at most 16 (1, 15, 16), one tile, and wrong beyond"],
        ),
        ("not rescaled", ["no rounding", "right where keys is at most 16 (1, 15, 16), one tile, and wrong beyond"]),
        ("wrong scale", ["no rounding", "right at queries = 16, keys = 1"]),
        (
            "tf32",
            ["It is rounding.", "multiplies fp32 operands in tf32, as tl.dot does unless", "tritongemm_case_kernels"],
        ),
    ],
)
def test_mistakes_in_an_attention(mistake, words):
    result = audit(
        lambda q, k, v: ck.attention(q, k, v, mistake), attention, keys_and_queries, tiles={"keys": 16},
        multiples={"queries": 16}, shapes=[{"queries": 32, "keys": 64}],
    )  # fmt: skip
    assert result.status == ("FAIL" if words else "PASS WITH LIMITATIONS"), told(result)
    for text in words:
        assert text in told(result)


def quantised_inputs(rng, M=18, N=20, K=70):
    def quantise(x):
        scale = np.abs(x).max(axis=1, keepdims=True) / 448
        return numfmt.FP8_E4M3.encode(x / scale).astype(np.uint8), scale[:, 0].astype(np.float32)

    (a, scale_a), (b, scale_b) = (quantise(rng.standard_normal(shape)) for shape in ((M, K), (N, K)))
    typed = {n: fpsan_tools.typed(x, "fp8e4m3fn") for n, x in (("a", a), ("b", np.ascontiguousarray(b.T)))}
    return {**typed, "scale_a": scale_a, "scale_b": scale_b}


def scaled_product(a, b, scale_a, scale_b):
    return (a @ b) * scale_a[:, None] * scale_b


def scaled_row_by_row(a, b, scale_a, scale_b):
    return ck.quantised(a, b, scale_a, scale_b)


@pytest.mark.parametrize(
    ("mistake", "words"),
    [("none", []), ("one scale forgotten", ["no rounding"]), ("scale of the wrong row", ["no rounding"])],
)
def test_quantised_products_with_scales_and_a_rival(mistake, words):
    result = audit(
        lambda a, b, scale_a, scale_b: ck.quantised(a, b, scale_a, scale_b, mistake), scaled_product,
        quantised_inputs, rival=scaled_row_by_row, tiles={"K": 32},
    )  # fmt: skip
    assert [s.letter for s in result.sides] == ["A", "B"]
    assert result.status == ("FAIL" if words else "PASS"), told(result)
    assert result.algebra.status == ("different" if words else "same")
    for text in words:
        assert text in told(result)
    if not words:
        assert "are equally accurate" in " ".join(result.verdict.sentences)


@pytest.mark.torch
def test_payloads_of_a_pytorch_reference_are_compared():
    torch = pytest.importorskip("torch")

    def matrices(rng, M=17, N=9, K=33):
        return {
            n: torch.from_numpy(rng.standard_normal(s).astype(np.float32)) for n, s in (("a", (M, K)), ("b", (K, N)))
        }

    from tritongemm.kernels.blocked import blocked

    result = audit(lambda a, b: blocked(a, b), torch.matmul, matrices, name="blocked")
    assert result.status == "PASS", str(result)
    assert result.algebra.status == "same"
    assert "Same algebra: A (blocked) and matmul" in result.verdict.sentences[0]

    def dropped(a, b):
        return blocked(a[:, :-1].contiguous(), b[:-1].contiguous())

    wrong = audit(dropped, torch.matmul, matrices)
    assert wrong.status == "FAIL"
    assert "Different algebra: this is no rounding." in told(wrong)


@pytest.mark.torch
@pytest.mark.parametrize("mistake", ["none", "sum forgotten"])
def test_gradients_are_audited(mistake):
    torch = pytest.importorskip("torch")
    result = audit(
        ck.differentiable_softmax(mistake), lambda x: torch.softmax(x, 1),
        lambda rng, m=5, n=48: {"x": torch.from_numpy(rng.standard_normal((m, n)).astype(np.float32))},
        gradients=["x"],
    )  # fmt: skip
    assert {m.output for m in result.sides[0].measured} == {"result", "dx"}
    assert all(m.accepted for m in result.sides[0].measured if m.output == "result")
    assert result.status == ("PASS WITH LIMITATIONS" if mistake == "none" else "FAIL"), told(result)
    if mistake != "none":
        assert "error of 'dx'" in told(result)
        assert "error of 'result'" not in told(result)


@pytest.mark.torch
def test_a_function_of_pytorch_has_no_algebra_and_its_approximation_is_a_fail():
    torch = pytest.importorskip("torch")

    def inputs(rng, n=60):
        return {"x": torch.from_numpy(rng.standard_normal(n).astype(np.float32))}

    gelu = torch.nn.functional.gelu
    fine = audit(lambda x: gelu(x), lambda x: gelu(x), inputs)
    assert fine.status.startswith("PASS")
    assert audit(lambda x: gelu(x, approximate="tanh"), lambda x: gelu(x), inputs).status == "FAIL"


def test_a_function_that_launches_nothing_is_not_applicable():
    result = audit(lambda x: softmax(x), softmax, rows)
    assert result.status == "PASS WITH LIMITATIONS"
    assert result.algebra.status == "not applicable"
    assert all(m.formula is None for m in result.sides[0].measured)


def test_results_may_be_written_into_inputs():
    def inputs(rng, rows=3, columns=20):
        x = rng.standard_normal((rows, columns)).astype(np.float32)
        return {"x": x, "y": np.zeros_like(x)}

    def kernel(x, y):
        y[...] = ck.softmax(x)

    result = audit(kernel, softmax, inputs)
    assert {m.output for m in result.sides[0].measured} == {"y"}
    assert result.status == "PASS WITH LIMITATIONS", told(result)


def written_into(y_of_x):
    """A kernel that writes its results into an array full of zeros, and the inputs for it."""

    def inputs(rng, n=40):
        x = rng.standard_normal(n).astype(np.float32)
        return {"x": x if n > 1 else -np.abs(x), "y": np.zeros_like(x)}

    def kernel(x, y):
        y[...] = y_of_x(x)

    return kernel, lambda x: np.maximum(x, 0), inputs


def test_a_result_that_its_array_holds_already_is_a_result():
    result = audit(*written_into(lambda x: np.maximum(x, 0)), name="relu")
    assert result.status == "PASS WITH LIMITATIONS", told(result)
    assert {m.shape for m in result.sides[0].measured} == {(40,), (41,), (1,)}


def test_a_kernel_that_writes_nothing_fails():
    result = audit(*written_into(np.zeros_like), name="idle")
    assert result.status == "FAIL"
    assert "the rms error of 'y' is" in told(result)
    kernel, reference, inputs = written_into(lambda x: np.maximum(x, 0) if x.size == 40 else 0)
    result = audit(kernel, reference, inputs, tiles={"n": 20})
    assert result.status == "FAIL"
    assert "at n = 19 (one less than a tile)" in told(result), told(result)


def test_what_fails_in_one_trial_does_not_stop_to_fail_as_another_cannot_be_compared():
    def kernel(x):
        return 2 * softmax(x) if x.shape[1] > 1 else (x, x)

    result = audit(kernel, softmax, rows, name="twice")
    assert result.status == "FAIL"
    assert "2 times the right ones" in told(result)
    assert "A (twice) could not be run: at rows = 1, columns = 1 it gives 2 results" in told(result)


def test_outputs_of_another_shape_or_number_are_told():
    assert "its shape is" in told(audit(lambda x: ck.softmax(x)[:, 1:], softmax, rows))
    assert "2 results" in told(audit(lambda x: (x, ck.softmax(x)), softmax, rows))


def test_accesses_outside_are_a_fail():
    def beyond(x):
        y = np.empty((x.shape[0], x.shape[1] - 1), np.float32)
        ck.softmax_kernel[(x.shape[0],)](x, y, x.shape[1], 48, 47, MISTAKE="none", BLOCK=64)
        return y

    result = audit(beyond, lambda x: softmax(x)[:, 1:], rows)
    assert result.status == "FAIL"
    assert "reaches outside its arrays" in told(result)


def test_a_kernel_that_refuses_some_shapes_is_limited_and_one_that_fails_is_inconclusive():
    def picky(x):
        if x.shape[1] < 2:
            raise ValueError("at least two columns")
        return ck.softmax(x)

    result = audit(picky, softmax, rows)
    assert result.status == "PASS WITH LIMITATIONS"
    assert "at least two columns" in " ".join(result.verdict.limitations)
    broken = audit(lambda x: x.no_such_thing, softmax, rows)
    assert broken.status == "INCONCLUSIVE"
    assert broken.exit_code == 3
    assert "no_such_thing" in told(broken)
    with pytest.raises(UsageError, match="reference: it fails in float64"):
        audit(lambda x: x, lambda x: x.no_such_thing, rows)


def test_a_reference_that_takes_one_size_only_is_a_limitation_also_of_growth():
    def picky(x):
        if x.shape[1] != 48:
            raise ValueError("48 columns only")
        return softmax(x)

    result = audit(ck.softmax, picky, rows, reduced="columns", tiles={"columns": 16})
    assert result.status == "PASS WITH LIMITATIONS"
    assert "the reference: ValueError: 48 columns only" in " ".join(result.verdict.limitations)


def test_a_reference_that_is_meaningless_is_inconclusive():
    def cancelling(rng, n=64):
        x = rng.standard_normal((3, n)).astype(np.float32)
        return {"x": np.concatenate([x, -x, np.full((3, 1), 1e-9, np.float32)], axis=1)}

    result = audit(lambda x: x.sum(axis=1), lambda x: x.sum(axis=1), cancelling)
    assert result.status == "INCONCLUSIVE", str(result)
    assert "kappa" in told(result)


def test_a_time_limit_leaves_trials_out_and_stops_an_evaluation():
    result = softmax_audit("none", max_time=1e-3)
    assert result.status in ("PASS WITH LIMITATIONS", "INCONCLUSIVE")
    said = " ".join([*result.verdict.limitations, *result.verdict.doubts])
    assert "fitted into the time (--max-time)" in said or "longer than the time that is left" in said


def test_errors_that_have_a_direction_grow_like_the_length():
    lengths = (100, 200, 400, 800)
    assert Growth.slope(lengths, [1e-7 * n for n in lengths]) == pytest.approx(1)
    assert Growth.slope(lengths, [1e-7 * n**0.5 for n in lengths]) == pytest.approx(0.5)

    def truncated(x):
        total = np.zeros(x.shape[0], np.float32)
        for k in range(x.shape[1]):
            total = np.asarray(numfmt.FP32.round(total.astype(float) + x[:, k], rounding="toward_zero"), np.float32)
        return total

    result = audit(
        truncated, lambda x: x.sum(axis=1),
        lambda rng, n=64: {"x": rng.random((8, n)).astype(np.float32)}, reduced="n",
    )  # fmt: skip
    (growth,) = result.growth
    assert growth.slope(growth.lengths, growth.own) > 0.75
    if result.status != "FAIL":
        assert "they have a direction" in " ".join(result.verdict.limitations)


def shape_trial(output, wrong, *, seed=0, **sizes):
    """A trial of fp32 results of which some are wrong."""
    golden = np.random.default_rng(seed).standard_normal(wrong.shape)
    own = np.where(wrong, golden + 1, golden.astype(np.float32).astype(float))
    return measure(Spec("as drawn", sizes, seed=seed), output, Values(own, "fp32"), None, golden, golden)


def failures(*measured, **tiles):
    side = Side("A", "k", softmax, measured=list(measured))
    case = SimpleNamespace(tiles=tiles, sizes={"n": 4})
    return " ".join(judge_kernel(case, KernelAlgebra(SAME, "it"), [side], (), 1, 1).failures)


def test_a_size_that_is_right_with_another_seed_is_not_both_right_and_wrong():
    bad, good = np.eye(4, dtype=bool), np.zeros((4, 4), bool)
    told = failures(shape_trial("y", bad), shape_trial("y", good, seed=1), shape_trial("y", good, n=5))
    assert "It is wrong at n = 4, and right at n = 5. At some of these sizes the inputs of another seed give" in told


def test_whole_tiles_of_one_size_only_are_no_proof_of_a_tail():
    bad, good = np.ones((4, 4), bool), np.zeros((4, 4), bool)
    told = failures(shape_trial("y", bad), shape_trial("y", good, n=8), shape_trial("y", bad, n=9), n=8)
    assert "right where n is a multiple of 8 (8) and wrong everywhere else: a tail, or more than one tile, is" in told


@pytest.mark.parametrize(
    ("right", "wrong", "tiles", "words"),
    [
        ((1, 64), (63, 100), {"n": 64}, "right where n is a power of two (1, 64) and wrong everywhere else"),
        ((1, 31, 32), (33, 50), {"n": 32}, "right where n is at most 32 (1, 31, 32), one tile, and wrong beyond"),
        ((1, 31, 32), (33, 50), {}, "right at n = 1; n = 31; n = 32"),
        ((1, 64), (100, 128), {}, "right at n = 1; n = 64"),
        ((1,), (31, 33), {"n": 32}, "right at n = 1."),
    ],
)
def test_what_right_sizes_have_in_common_is_told(right, wrong, tiles, words):
    good = [shape_trial("y", np.zeros((4, 4), bool), n=n) for n in right]
    bad = [shape_trial("y", np.ones((4, 4), bool), n=n) for n in wrong]
    assert words in failures(*bad, *good, **tiles)


def test_wrong_values_of_an_output_of_four_dimensions_have_its_indices():
    wrong = np.zeros((2, 3, 6, 5), bool)
    wrong[1, 2, 4:] = wrong[1, 0, 4:] = True
    told = failures(shape_trial("y", wrong))
    assert "Wrong are from row 4 on at y[1, 0], and some in 2 of 6 such matrices." in told


def test_the_same_is_said_once_of_several_trials():
    outputs = [Values(np.zeros((n, 2)), "fp32") for n in (3, 4, 5)]
    told = failures(*[measure(Spec("t", {"n": len(x.values)}), "y", x, None, np.zeros(3), None) for x in outputs])
    assert told.count("its shape is") == 1
    assert "its shape is (3, 2) and the reference's (3,), at n = 3, and likewise in 2 other trials." in told
    side = Side("A", "k", softmax, refused=[(Spec("t", {"n": 1 + i % 6}), "no") for i in range(11)])
    verdict = judge_kernel(SimpleNamespace(tiles={}, sizes={}), KernelAlgebra(SAME, "it"), [side], (), 1, 1)
    said = "A (k) was not measured at n = 1 (t); n = 2 (t); n = 3 (t); n = 4 (t) and 2 other places: no."
    assert verdict.limitations == [said]


def test_what_is_refused_at_larger_sizes_only_is_a_fail():
    result = audit(
        lambda x: x.sum(axis=1) * np.float32(1 if x.shape[1] < 200 else 1.001),
        lambda x: x.sum(axis=1),
        lambda rng, n=64: {"x": rng.random((8, n)).astype(np.float32)}, reduced="n",
    )  # fmt: skip
    assert result.status == "FAIL"
    assert "wrong at n = 256; n = 512, and right at n = 64" in told(result)


@pytest.mark.parametrize(("ratio", "status"), [(1.9, "PASS"), (2.8, "PASS WITH LIMITATIONS")])
def test_an_error_over_twice_the_references_at_the_largest_size_is_named(ratio, status):
    lengths = (100, 200, 400, 800)
    own = tuple(1e-4 * n**0.5 for n in lengths)
    growth = Growth("n", "y", lengths, own, tuple(e / ratio for e in own), ratio)
    side = softmax_audit("none").sides[0]
    verdict = judge_kernel(
        SimpleNamespace(tiles={}, sizes={}), KernelAlgebra(SAME, "the reference"), [side], [growth], 1, 1
    )
    assert verdict.status == status
    named = "at n = 800 it errs 2.8 times as much as the reference" in " ".join(verdict.limitations)
    assert named == (ratio > 2)


def test_the_figures_of_an_output_follow_their_definitions():
    rng = np.random.default_rng(3)
    golden = rng.standard_normal((6, 7))
    own = golden.astype(np.float32).astype(float)
    own[2, 3] += 1e-3
    m = measure(
        Spec("t"), "y", Values(own, "fp32"), Values(golden.astype(np.float32).astype(float), "fp32"), golden, golden
    )
    assert m.own.largest == pytest.approx(abs(own - golden).max())
    assert m.own.rms == pytest.approx(np.sqrt(((own - golden) ** 2).mean()))
    assert m.worst["at"] == [2, 3]
    assert m.own.outside == 1
    assert not m.accepted
    assert m.wrong.sum() == 1
    assert m.wrong[2, 3]
    own[2, 3] = np.nan
    spoiled = measure(Spec("t"), "y", Values(own, "fp32"), None, golden, golden)
    assert spoiled.own.special == 1
    assert not spoiled.accepted


@pytest.mark.torch
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float64"])
def test_the_tolerances_are_those_of_torch(name):
    torch = pytest.importorskip("torch")
    from tritongemm.elements import element_named

    rtol, atol = torch.testing._comparison.default_tolerances(getattr(torch, name))
    found = torch_tolerance(element_named(name).name)
    assert (found.rtol, found.atol) == (rtol, atol)


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_distributions_keep_shapes_and_are_what_they_are_called(name):
    x = np.random.default_rng(0).standard_normal((6, 40))
    made = CHANGES[name](np.random.default_rng(1), x)
    assert made.shape == x.shape
    assert made is not x
    assert name in TEXT
    if name == "cancelling":
        assert np.abs(made.sum(axis=1)).max() < 1e-2 * np.abs(made).sum(axis=1).min()
    if name == "flat":
        assert made.var(axis=1).max() < 1e-5
    if name == "extreme":
        assert made.max() == 500
    if name == "wide":
        assert np.ptp(np.log2(np.abs(made))) > 20


def test_inputs_are_changed_and_cast_and_integers_and_fp8_are_not():
    case = Case(softmax, softmax, rows, "n", "s", varied=["x"])
    given = {
        "x": np.ones((2, 3), np.float32), "w": np.ones(3, np.float32), "i": np.arange(3), "n": 5,
        "q": fpsan_tools.typed(np.arange(4, dtype=np.uint8), "fp8e4m3fn"),
    }  # fmt: skip
    made = changed(case, given, CHANGES["tiny"], 0, "bf16")
    assert str(made["x"].dtype) == "bf16"
    assert (widened(made["x"]) == 2.0**-10).all()
    assert (widened(made["w"]) == 1).all()
    assert made["i"] is given["i"]
    assert made["q"] is given["q"]
    assert (given["x"] == 1).all()
    wide = in_float64(made)
    assert wide["x"].dtype == wide["q"].dtype == np.float64
    assert wide["n"] == 5


def test_the_plan_goes_around_tiles_and_respects_what_is_legal():
    case = Case(
        softmax, softmax, keys_and_queries, "n", "s", tiles={"keys": 16}, multiples={"queries": 16},
        smallest={"keys": 2}, production={"keys": 4096}, changes={},
    )  # fmt: skip
    sizes = [case.legal({**case.sizes, **s.sizes}) for s in plan(case, "cpu", 0)]
    assert {s["keys"] for s in sizes} == {40, 15, 17, 16, 2}
    assert {s["queries"] for s in sizes} == {16}
    assert any(s.sizes.get("keys") == 4096 for s in plan(case, "gpu", 0))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inputs": 3}, "inputs: a int"),
        ({"kernel": ck.softmax_kernel}, "bare kernel"),
        ({"tiles": {"colums": 3}}, "TILES: 'colums' is no size"),
        ({"reduced": "k"}, "REDUCED: 'k' is no size"),
    ],
)
def test_wrong_cases_are_refused(change, words):
    facts = {"kernel": softmax, "reference": softmax, "inputs": rows, "name": "n", "spec": "s", **change}
    with pytest.raises(UsageError, match=words):
        Case(**facts)


def test_unknown_distributions_and_types_are_refused():
    with pytest.raises(UsageError, match="Did you mean 'tiny'"):
        changes_named(["tini"])
    with pytest.raises(UsageError, match="no floating-point type"):
        audit(softmax, softmax, rows, dtype="float31")
    with pytest.raises(UsageError, match="device: 'tpu'"):
        audit(softmax, softmax, rows, device="tpu")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_template_runs_and_a_baseline_tells_what_got_worse(folder, capsys):
    assert main(["audit", "--template"]) == 0
    text = capsys.readouterr().out
    assert text == cases.TEMPLATE
    (folder / "adapter.py").write_text(text)
    assert main(["audit", "adapter.py", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "4. Verdict: PASS WITH LIMITATIONS" in out
    assert max(len(line) for line in out.splitlines()) <= 100
    read = json.loads((folder / "reports" / "audit.json").read_text())
    assert read["case"]["name"] == "adapter"
    assert read["replay"].startswith("tritongemm audit adapter.py")
    assert {t["distribution"] for t in read["sides"]["A"]["trials"]} >= {"as drawn", "extreme", "flat"}
    assert (folder / "reports" / "audit.html").read_text().count("<svg") == 2
    again = ["audit", "adapter.py", "--device", "cpu", "--baseline", "reports/audit.json", "--no-report", "--quiet"]
    assert main(again) == 0
    assert "0 worse, 0 better" in capsys.readouterr().out
    worse = text.replace("y = p / tl.sum(p, axis=0)", "y = p / tl.sum(p, axis=0) * 1.001")
    (folder / "changed").mkdir()
    (folder / "changed" / "adapter.py").write_text(worse)
    assert main(["audit", "changed/adapter.py", *again[2:]]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("FAIL")
    assert "Worse: the verdict was PASS WITH LIMITATIONS and is FAIL." in out
    assert "rms error was" in out
    (folder / "another.py").write_text(text)
    assert main(["audit", "another.py", *again[2:]]) == 2
    told = capsys.readouterr()
    assert "--baseline: 'reports/audit.json' is the audit of something else" in told.err
    assert told.out.startswith("PASS"), "what the audit found is not lost for a wrong file"


@pytest.mark.parametrize(
    ("mistake", "quoted"),
    [
        (("tl.sum(p, axis=0)", "tl.sum(p.to(tl.float16), axis=0)"), "times what is"),
        (("live = at < columns", "live = at < columns // 64 * 64"), "is a multiple of 64"),
    ],
)
def test_the_page_on_adapters_quotes_what_an_audit_says(folder, capsys, mistake, quoted):
    page = pathlib.Path(__file__).parents[3] / "docs" / "how-to" / "audit-any-kernel.md"
    if not page.exists():
        pytest.skip("the tests were installed without the documentation")
    text = page.read_text(encoding="utf-8")
    assert f"`{mistake[1]}`" in text
    (block,) = [b for b in re.findall(r"```text\n(.*?)```", text, re.DOTALL) if quoted in b]
    (folder / "adapter.py").write_text(cases.TEMPLATE.replace(*mistake))
    assert main(["audit", "adapter.py", "--device", "cpu", "--no-report"]) == 1

    def words(said):  # NumPy's functions are as exact on every processor, but their last bits are not the same
        return re.sub(r"\d\.\d+e-\d+|\d+ times", "#", " ".join(said.split()))

    assert words(block) in words(capsys.readouterr().out)


def test_adapters_take_the_users_own_tensors(folder, capsys):
    (folder / "adapter.py").write_text(cases.TEMPLATE)
    x = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)
    np.savez(folder / "mine.npz", x=x, y=np.zeros_like(x))
    assert main(["audit", "adapter.py", "--device", "cpu", "--data", "mine.npz"]) == 0
    assert "the user's own inputs" in capsys.readouterr().out
    read = json.loads((folder / "reports" / "audit.json").read_text())
    assert [t["shape"] for t in read["sides"]["A"]["trials"]] == [[3, 50]]


TORCH_ADAPTER = """
import torch
def inputs(rng, rows=5, columns=48):
    x = torch.from_numpy(rng.standard_normal((rows, columns))).to(torch.bfloat16)
    return {"x": x, "y": torch.zeros_like(x)}
def kernel(x, y):
    y.copy_(torch.nn.functional.softmax(x, 1))
def reference(x):
    return torch.nn.functional.softmax(x, 1)
"""


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["fp32", "bf16"])
def test_own_tensors_are_of_the_library_that_the_adapter_draws_with(folder, capsys, kind):
    pytest.importorskip("torch")
    (folder / "adapter.py").write_text(TORCH_ADAPTER)
    x = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)
    if kind == "bf16":
        bits = np.asarray(numfmt.BF16.encode(x)).astype(np.uint16)
        np.savez(folder / "mine.npz", **{"x:bf16": bits, "y:bf16": np.zeros_like(bits)})
    else:
        np.savez(folder / "mine.npz", x=x, y=np.zeros_like(x))
    assert main(["audit", "adapter.py", "--device", "cpu", "--data", "mine.npz"]) == 0, capsys.readouterr()
    read = json.loads((folder / "reports" / "audit.json").read_text())
    assert [(t["shape"], t["dtype"]) for t in read["sides"]["A"]["trials"]] == [([3, 50], kind)]


def test_a_file_without_all_inputs_is_told_to_be_the_one_that_lacks_them(folder, capsys):
    (folder / "adapter.py").write_text(cases.TEMPLATE)
    x = np.ones((3, 50), np.float32)
    np.save(folder / "x.npy", x)
    np.savez(folder / "x.npz", x=x)
    for file, holds, lacks in (("x.npy", "data", "x"), ("x.npz", "x", "y")):
        assert main(["audit", "adapter.py", "--device", "cpu", "--data", file]) == 2
        assert (
            f"--data: it holds {holds}, and kernel needs {lacks!r} too; add it to the file" in capsys.readouterr().err
        )


def test_own_tensors_that_the_reference_refuses_are_no_pass(folder, capsys):
    (folder / "adapter.py").write_text(cases.TEMPLATE.replace("def reference(x):", "def reference(x):\n    x.gone()"))
    x = np.ones((3, 50), np.float32)
    np.savez(folder / "mine.npz", x=x, y=np.zeros_like(x))
    assert main(["audit", "adapter.py", "--device", "cpu", "--data", "mine.npz"]) == 2
    out, err = capsys.readouterr()
    assert "--data: the reference fails in float64 on these inputs: AttributeError" in err
    assert "PASS" not in out


def test_a_side_that_no_trial_measured_is_inconclusive():
    algebra = KernelAlgebra(SAME, "the reference")
    side = Side("A", "k", softmax, refused=[(Spec("as drawn"), "no such type")])
    verdict = judge_kernel(SimpleNamespace(tiles={}, sizes={}), algebra, [side], (), 1, 1)
    assert verdict.status == "INCONCLUSIVE"
    assert verdict.exit_code == 3
    assert "measured in no trial" in verdict.doubts[0]
    assert "no such type" in verdict.limitations[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["adapter.py", "--m", "5"], "--m: an option for two GEMM kernels"),
        (["adapter.py", "--atol", "1"], "--atol, --rtol: give both"),
        (["adapter.py", "--data", "a.npz", "b.npz"], "an adapter takes one"),
        (["adapter.py", "--dtype", "fp7"], "no floating-point type"),
        (["adapter.py", "--baseline", "gone.json"], "'gone.json' cannot be read"),
        (["half.py"], "an adapter has functions inputs, kernel, reference, and 'reference' is missing"),
        (["empty.py"], "audit: inputs: a dictionary with at least one array"),
    ],
)
def test_wrong_use_of_an_adapter_is_one_sentence(folder, capsys, arguments, words):
    (folder / "adapter.py").write_text(cases.TEMPLATE)
    (folder / "half.py").write_text("def inputs(rng):\n    return {}\n\n\nkernel = inputs\n")
    (folder / "empty.py").write_text("def inputs(rng):\n    return {}\n\n\nkernel = reference = inputs\n")
    assert main(["audit", *arguments, "--no-report"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err


@pytest.mark.torch
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("relu by comparison", "a comparison of floats (tritongemm_audit_kernels.py:"),
        ("clamp to 1", "a clamp (tritongemm_audit_kernels.py:"),
    ],
)
def test_numbers_outweigh_payloads_for_any_kernel(how, words):
    """An epilogue that is part of the reference too."""
    torch = pytest.importorskip("torch")
    kernels = pytest.importorskip("tritongemm_audit_kernels")

    def kernel(a, b):
        c = torch.empty(a.shape[0], b.shape[1])
        strides = [x.stride(i) for x in (a, b, c) for i in (0, 1)]
        grid = (-(-a.shape[0] // 16), -(-b.shape[1] // 16))
        kernels.epilogue_kernel[grid](a, b, c, a.shape[0], b.shape[1], a.shape[1], *strides, HOW=how)
        return c

    def reference(a, b):
        return torch.relu(a @ b) if how.startswith("relu") else torch.where((a @ b).abs() > 1, (a @ b).sign(), a @ b)

    def inputs(rng, rows=20, depth=40, columns=24):
        made = {"a": rng.standard_normal((rows, depth)), "b": rng.standard_normal((depth, columns))}
        return {name: torch.from_numpy(x.astype(np.float32)) for name, x in made.items()}

    result = audit(kernel, reference, inputs, distributions=["large"])
    assert result.status == "PASS WITH LIMITATIONS", str(result)
    if result.algebra.version == "3.8" and how.startswith("relu"):
        pytest.skip("the algebra of Triton 3.8 takes a relu by comparison for PyTorch's")
    assert result.algebra.status == "different"
    assert "so that they say nothing here" in str(" ".join(result.verdict.limitations))
    assert words in " ".join(result.verdict.limitations)
    assert "1. Algebra: the same by numbers, not by payloads" in str(result)
    assert "Different algebra" not in str(result)


def test_payloads_that_differ_without_numbers_to_tell_are_no_mistake():
    """Where a kernel cannot be computed without rounding, right floats and other payloads decide nothing."""
    result = softmax_audit("none")
    measured = [replace(m, formula=None) for m in result.sides[0].measured]
    side = SimpleNamespace(**{**vars(result.sides[0]), "measured": measured})
    for uncovered, status in (([], "INCONCLUSIVE"), (["arith.cmpf (k.py:3)"], "PASS WITH LIMITATIONS")):
        algebra = KernelAlgebra(DIFFERENT, "the reference", "They differ.", unsanitised=uncovered)
        verdict = judge_kernel(SimpleNamespace(tiles={}, sizes={}), algebra, [side], (), 1, 1)
        assert verdict.status == status, verdict


def test_results_that_cancel_to_nothing_are_no_mistake_and_garbage_is():
    """Where everything should be zero a rounding has no size to be compared with but the usual one."""

    def shaken(by):
        def kernel(x, y):
            np.subtract(x, x.mean(axis=1, keepdims=True), out=y)
            if x.shape[1] == 1:
                y += np.float32(by)

        return kernel

    def centred(x):
        return x - x.mean(axis=1, keepdims=True)

    def inputs(rng, rows=5, columns=48):
        x = rng.standard_normal((rows, columns)).astype(np.float32)
        return {"x": x, "y": np.zeros_like(x)}

    fine = audit(shaken(1e-6), centred, inputs)
    assert fine.status == "PASS WITH LIMITATIONS", str(fine)
    assert "(the smallest: 'y')" in " ".join(fine.verdict.limitations)
    assert audit(shaken(0.5), centred, inputs).status == "FAIL"
