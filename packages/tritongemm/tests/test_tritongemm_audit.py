"""The audit: right kernels in several styles pass, each planted mistake is found and named."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tritongemm.accuracy import Tolerance
from tritongemm.auditing import sampling
from tritongemm.auditing.algebra import AlgebraEvidence
from tritongemm.auditing.contestants import Choices, contestant, find
from tritongemm.auditing.devices import LAYOUTS, UNTOUCHED, Cpu, Gpu, codes_of, values_of
from tritongemm.auditing.explanation import Contrast, Identified
from tritongemm.auditing.regions import region
from tritongemm.auditing.rounding import Setting, full
from tritongemm.auditing.sampling import AT_RISK, draw, most_at_risk, rectangles, survey
from tritongemm.auditing.verdict import judge
from tritongemm.errors import UsageError
from tritongemm.orders import SummationOrder

kernels = pytest.importorskip("tritongemm_audit_kernels")
from_run = pytest.importorskip("tritongemm.auditing.run")
audit = from_run.audit

pytestmark = pytest.mark.triton

SMALL = {"M": 96, "N": 100, "K": 200, "device": "cpu", "max_time": 60}
TILES = Choices({"BLOCK_M": 16, "BLOCK_N": 16})
# Small tiles and few lanes make the products that payloads are compared on small.
QUICK = {**SMALL, "choices_a": Choices({"LANES": 32}), "choices_b": TILES}


@pytest.fixture(autouse=True)
def one_distribution(monkeypatch):
    """The sweep over distributions has tests of its own; here one of them is enough."""
    from tritongemm.auditing import sweep

    monkeypatch.setattr(sweep, "SWEEP", {"positive": sweep.SWEEP["positive"]})


def planted(mistake, **size):
    return audit(
        kernels.planted_kernel, "blocked", **{**SMALL, **size}, choices_a=Choices({"MISTAKE": mistake}), choices_b=TILES
    )


def told(result):
    return " ".join([*result.verdict.failures, *result.verdict.doubts])


@pytest.fixture(scope="module")
def result_at_the_full_depth():
    """Both kernels at the depth that was measured on an H200, at few outputs."""
    return audit(M=64, N=64, K=6144, device="cpu", max_time=3600)


def test_the_two_kernels_of_this_package_pass_and_are_told_apart(result_at_the_full_depth):
    result = result_at_the_full_depth
    assert result.status == "PASS"
    assert result.exit_code == 0
    assert result.algebra.status == "same"
    assert result.algebra.conversions == ""
    assert result.algebra.different == 0
    assert all(t.away("A") == t.away("B") == 0 for t in result.algebra.trials)
    assert result.algebra.unsanitised == {"A": (), "B": ()}
    rounding = result.rounding
    assert rounding.evaluated == 4096
    assert rounding.equal < 4096
    a, b = rounding.main["A"], rounding.main["B"]
    assert a.bound_exceeded == b.bound_exceeded == 0
    assert rounding.chain_equal["B"] == rounding.chain_outputs == 4096
    assert rounding.chain_equal["A"] < 4096
    assert rounding.identified["B"].order == SummationOrder.chain(pad=32)
    assert rounding.identified["A"].order == SummationOrder.lanes_then_tree(256)


def test_an_order_is_tried_where_the_kernels_differ():
    a, b = draw(64, 64, 500, 0)
    orders = SummationOrder.chain(), SummationOrder.lanes_then_tree(32)
    first, second = (codes_of(order.simulate(a, b), "fp16") for order in orders)
    contrast = Contrast()
    contrast.add(a, b, first, first)
    found = Identified(orders[0], 64, orders[0], 64, 1)
    assert contrast.judge("B", found, "fp16") == found
    contrast.add(a, b, first, second)
    tried = contrast.judge("A", found, "fp16")
    assert (tried.contrasted, tried.refuted) == (min(32, int((first != second).sum())), 0)
    assert contrast.judge("B", found, "fp16").refuted == tried.contrasted > 1


def test_an_order_that_narrow_results_hide_is_not_claimed(monkeypatch):
    """Few results of 11 bits depend on the order at all, so a small sample has the bits of a wrong one, too."""
    chain = SummationOrder.chain()
    monkeypatch.setattr("tritongemm.auditing.rounding.identify", lambda *given: Identified(chain, 64, chain, 64, 1))
    result = audit("strided_lanes", "blocked", **{**QUICK, "K": 500}, out_dtype="fp16")
    said = " ".join([*result.verdict.sentences, *result.verdict.limitations])
    assert "A adds as" not in said
    assert "its order of summation is not known: one serial chain" in said
    assert "B adds as one serial chain" in said
    assert "other orders may as well, for the rounding to fp16 hides most of it" in said


def test_a_cpu_sample_shows_what_an_h200_showed_of_all_outputs(result_at_the_full_depth):
    """33,554,432 outputs were launched and measured on an H200; 4,096 evaluated here are a sample of the same thing."""
    path = Path(__file__).parents[3] / "bench" / "results" / "nvidia-h200-audit.json"
    if not path.is_file():
        pytest.skip("the recorded audit lies in the repository, not in this package")
    recorded, here = json.loads(path.read_text()), result_at_the_full_depth.as_dict()
    assert set(recorded) == set(here)
    assert recorded["verdict"]["status"] == here["verdict"]["status"] == "PASS"
    assert {k: v["constants"] for k, v in recorded["kernels"].items()} == {
        k: v["constants"] for k, v in here["kernels"].items()
    }
    for read in (recorded, here):
        assert read["algebra"]["status"] == "same"
        assert all(t["different"] == t["A_away_from_product"] == 0 for t in read["algebra"]["trials"])
        assert read["explanation"]["equal_to_serial_chain"]["B"] == read["explanation"]["of_outputs"] > 0
        assert read["explanation"]["orders"]["A"]["order"]["lanes"] == 256
        assert read["explanation"]["orders"]["B"]["order"]["text"] == "one serial chain over k (fused multiply-add)"
    every, few = recorded["rounding"]["strata"]["all"], here["rounding"]["strata"]["all"]
    assert every["A"]["outputs"] == 8192 * 4096
    # The rms of n normal errors has a relative standard error of 1/sqrt(2n); five of them, and twice that for the
    # ratio of two.
    margin = 5 / np.sqrt(2 * few["A"]["outputs"])
    for key in "AB":
        assert few[key]["rms_scaled"] == pytest.approx(every[key]["rms_scaled"], rel=margin)
        assert few[key]["max_scaled"] <= every[key]["max_scaled"] * (1 + margin)
    ratios = [x["B"]["rms_scaled"] / x["A"]["rms_scaled"] for x in (every, few)]
    assert ratios[1] == pytest.approx(ratios[0], rel=2 * margin)
    assert "12x more accurate than B" in " ".join(recorded["verdict"]["sentences"])
    assert round(ratios[0]) == 12


def test_the_verdict_does_not_depend_on_the_sides():
    one = audit("strided_lanes", "blocked", **QUICK)
    other = audit("blocked", "strided_lanes", **SMALL, choices_a=TILES, choices_b=QUICK["choices_a"])
    assert one.rounding.main["A"].rms_scaled == other.rounding.main["B"].rms_scaled
    assert "A (strided_lanes_kernel) is" in str(one)
    assert "B (strided_lanes_kernel) is" in str(other)


@pytest.mark.parametrize(
    ("name", "order", "status"),
    [
        ("tutorial_kernel", SummationOrder.chain(pad=32), "PASS"),
        ("challenge_kernel", SummationOrder.tree_per_step(64), "PASS"),
        ("columns_first_kernel", SummationOrder.chain(pad=16), "PASS"),
        ("tuned_kernel", SummationOrder.chain(pad=16), "PASS WITH LIMITATIONS"),
    ],
)
def test_kernels_in_other_styles_are_run_and_understood(name, order, status):
    result = audit(getattr(kernels, name), "blocked", **SMALL)
    assert result.status == status, str(result)
    assert result.rounding.identified["A"].order == order


def test_guessed_constants_are_noted_and_other_configurations_are_limitations():
    guessed = audit(kernels.tutorial_kernel, "blocked", **SMALL)
    assert "BLOCK_SIZE_M=32" in " ".join(guessed.verdict.notes)
    assert "Note: A (tutorial_kernel): constants chosen by the audit" in " ".join(str(guessed).split())
    assert guessed.verdict.limitations == []
    tuned = audit(kernels.tuned_kernel, "blocked", **SMALL, choices_a=Choices(config=1))
    assert "configurations of its autotuner other than 1" in " ".join(tuned.verdict.limitations)
    assert tuned.contestants[0].constants["BLOCK_SIZE_N"] == 64
    assert tuned.contestants[0].options["num_warps"] == 8


def test_the_planted_kernel_without_mistake_passes():
    assert planted("none").status == "PASS"


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("k tail dropped", ["only the products k < 64 of 65 are summed: a K tail is dropped", "K is a multiple of 32"]),
        (
            "k tail dropped from column 64",
            ["from column 64 on", "only the products k < 768 of 777", "K is a multiple of 32"],
        ),
        ("first step skipped", ["the first 32 products are left out", "wrong for whole tiles too"]),
        ("second step twice", ["are counted twice"]),
        ("negated", ["the product with the opposite sign"]),
        ("doubled", ["2 times the product"]),
        ("accumulates", ["the product added to what C held before"]),
        ("k tail dropped, accumulates", ["a K tail is dropped", "and that is added to what C held before", "--zeroed"]),
        ("strides of B swapped", ["Of square matrices it gives A·Bᵀ: the strides of B are swapped."]),
        ("last row not written", ["from row 16 on", "never written"]),
        ("shifted column", ["C[i,j] holds what belongs to C[i,j-1]"]),
        ("mask forgotten", ["reaches outside its matrices", "out of bounds"]),
    ],
)
def test_a_planted_mistake_is_a_fail_and_is_named(mistake, words):
    result = planted(mistake)
    assert result.status == "FAIL"
    assert result.exit_code == 1
    assert "Different algebra: this is no rounding." in told(result)
    for text in words:
        assert text in told(result)
    assert "A (planted_kernel)" in told(result)
    assert "No common mistake" not in told(result)
    assert "want of time" not in told(result)  # There was no reason to try more.
    if mistake != "mask forgotten":
        assert "B (blocked_kernel) is the matrix product in all" in told(result)


@pytest.mark.parametrize(
    ("mistake", "words"),
    [("bf16 operands", "both operands are converted to a 16-bit type first"), ("fp16 sum", "fp16")],
)
def test_a_planted_conversion_is_a_fail_and_is_rounding(mistake, words):
    result = planted(mistake)
    assert result.status == "FAIL"
    assert "Another precision: this is rounding, no other algebra. A (planted_kernel)" in told(result)
    assert "a conversion to a narrower type (tritongemm_audit_kernels.py:" in told(result)
    # Triton 3.8's payloads cannot tell which conversion it was.
    assert words in told(result) or result.algebra.version == "3.8"
    assert "Different algebra" not in told(result)


def test_a_mistake_that_both_kernels_share_is_no_pass():
    wrong = Choices({"MISTAKE": "k tail dropped"})
    result = audit(kernels.planted_kernel, kernels.planted_kernel, **SMALL, choices_a=wrong, choices_b=wrong)
    assert result.algebra.status == "same"
    assert result.status == "FAIL"
    assert "not the matrix product" in told(result)


def test_an_operation_that_payloads_do_not_cover_is_a_limitation():
    result = planted("absolute")
    assert any("math.absf" in x for x in result.algebra.unsanitised["A"])
    assert any("math.absf" in x for x in result.verdict.limitations)


def test_a_kernel_that_cannot_be_evaluated_makes_the_audit_inconclusive():
    result = audit(kernels.clocked_kernel, "blocked", **SMALL)
    assert result.status == "INCONCLUSIVE"
    assert result.exit_code == 3
    assert "clocked_kernel" in told(result)
    assert "inline assembly" in told(result)
    assert result.rounding is None
    large = audit(kernels.clocked_kernel, "blocked", **{**SMALL, "M": 600})
    assert large.status == "INCONCLUSIVE"
    assert large.verdict.limitations == []  # Of no grid at all nothing is said.


def test_a_meaningless_reference_makes_the_audit_inconclusive(monkeypatch):
    def draw_cancelling(M, N, K, seed, distribution):
        # The second half of each sum takes back the first: what is left is smaller than the roundings.
        a, b = draw(M, N, K, seed)
        half = K // 2
        a[:, half : 2 * half], b[half : 2 * half] = a[:, :half], -b[:half]
        a[:, 0] += np.float32(1e-7)
        return a, b

    monkeypatch.setattr(from_run, "draw", draw_cancelling)
    result = audit(**QUICK)
    assert result.status == "INCONCLUSIVE"
    assert "reference (serial fma chain) is itself off by" in told(result)


def test_a_kernel_that_rounds_worse_fails_though_the_algebra_is_the_same():
    low = Choices({"BLOCK_M": 16, "BLOCK_N": 16, "INPUT_PRECISION": "tf32"})
    result = audit("blocked", "blocked", **SMALL, choices_a=low)
    assert result.algebra.status == "same"
    assert result.status == "FAIL"
    assert "more than twice that of the reference" in told(result)
    assert "Different algebra" not in told(result)


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_low_precision_operands_are_audited_in_their_type(dtype):
    result = audit(kernels.columns_first_kernel, "blocked", **SMALL, dtype=dtype, out_dtype="fp32", choices_b=TILES)
    assert result.status.startswith("PASS"), str(result)
    narrow = audit("strided_lanes", "blocked", **QUICK, dtype=dtype)
    assert narrow.status.startswith("PASS"), str(narrow)
    assert narrow.rounding.main["A"].dtype == dtype


def test_a_time_limit_shrinks_the_sample_and_says_so(monkeypatch):
    monkeypatch.setattr(from_run, "_ALGEBRA_SHARE", 1e9)  # All payload comparisons, whatever the time.
    result = audit(M=300, N=300, K=40, device="cpu", max_time=1e-6)
    assert result.algebra.planned == len(result.algebra.trials)
    assert result.rounding.evaluated < result.rounding.planned
    assert any("sampled outputs fitted into the time (--max-time)" in text for text in result.verdict.limitations)
    assert result.status == "PASS WITH LIMITATIONS"


def test_no_time_for_tails_is_no_pass():
    """One comparison alone says little, even where it and the floats are fine."""
    result = audit(kernels.planted_kernel, "blocked", **{**SMALL, "max_time": 1e-6}, choices_b=TILES)
    assert len(result.algebra.trials) == 1
    assert result.status == "INCONCLUSIVE"
    assert "tails and strides were not tried" in told(result)
    # The one that is always made has a tail in every dimension.
    wrong = audit(
        kernels.planted_kernel, "blocked", **{**SMALL, "max_time": 1e-6}, choices_b=TILES,
        choices_a=Choices({"MISTAKE": "k tail dropped"}),
    )  # fmt: skip
    assert wrong.status == "FAIL"


@pytest.mark.parametrize(
    ("mistake", "choices", "words"),
    [
        ("group start forgotten", {}, ["many rows of tiles", "from row 128 on", "never written"]),
        ("row of tiles in 8 bits", {}, ["many rows of tiles"]),
        ("column of tiles in 8 bits", {}, ["many columns of tiles"]),
        ("wave too wide", {"NUM_PROGRAMS": 20}, ["never written"]),
    ],
)
def test_mistakes_that_need_many_tiles_are_found(mistake, choices, words):
    size = {**SMALL, "M": 4000, "N": 4000, "K": 8} if "8 bits" in mistake else {**SMALL, "K": 8}
    constants = Choices({"MISTAKE": mistake, **choices})
    result = audit(kernels.many_tiles_kernel, "blocked", **size, choices_a=constants, choices_b=TILES)
    assert result.status == "FAIL", str(result)
    for text in words:
        assert text in told(result)


def test_the_kernel_of_many_tiles_without_mistake_passes():
    constants = Choices({"NUM_PROGRAMS": 20})
    result = audit(
        kernels.many_tiles_kernel, "blocked", **{**SMALL, "M": 4000, "K": 8}, choices_a=constants, choices_b=TILES
    )
    assert result.status == "PASS", str(result)
    tried = {(t.M, t.N) for t in result.algebra.trials}
    assert (4000, 5) in tried
    assert (5, 21 * 16 + 1) in tried  # one column of tiles more than programs


def test_sums_in_float64_are_no_other_algebra():
    result = audit(kernels.wide_kernel, "strided_lanes", **SMALL)
    assert result.status == "PASS WITH LIMITATIONS", str(result)
    assert result.algebra.status == "same"
    assert result.algebra.version == "3.9-homomorphic" or not result.algebra.conversions
    assert result.rounding.main["A"].rms_scaled < result.rounding.main["B"].rms_scaled
    if result.algebra.conversions:
        assert "A (wide_kernel) adds in another float type than fp32" in str(result)


@pytest.mark.parametrize("mistake", ["k tail dropped", "bf16 operands"])
def test_exact_conversions_excuse_no_mistake(mistake):
    """What 16 bits lost, or a tail, is missing in that algebra too."""
    wrong = Choices({"MISTAKE": mistake})
    result = audit(kernels.wide_kernel, "strided_lanes", **SMALL, choices_a=wrong)
    assert result.status == "FAIL"
    assert result.algebra.conversions == ""


def test_a_kernel_that_adds_to_c_needs_its_zeros():
    kernel = kernels.split_kernel
    grid = "cdiv(M, BM), cdiv(N, BN), SPLIT_K"
    fails = audit(kernel, "blocked", **SMALL, choices_a=Choices(grid=grid), choices_b=TILES)
    assert fails.status == "FAIL"
    assert "what C held before (if its launcher sets C to zero first, say so with --zeroed-a" in told(fails)
    zeroed = audit(kernel, "blocked", **SMALL, choices_a=Choices(grid=grid, zeroed=True), choices_b=TILES)
    assert zeroed.status == "PASS WITH LIMITATIONS", str(zeroed)
    assert any("atomic" in text for text in zeroed.verdict.limitations)
    assert zeroed.facts["replay"].endswith("--zeroed-a --const-b BLOCK_M=16 --const-b BLOCK_N=16")
    tuned = audit(kernels.split_tuned_kernel, "blocked", **SMALL, choices_a=Choices(grid=grid), choices_b=TILES)
    assert tuned.status == "PASS WITH LIMITATIONS", str(tuned)


def test_results_beyond_the_output_type_are_no_pass(tmp_path):
    result = audit(**QUICK, dtype="bf16", out_dtype="fp16", distribution="wide")
    assert result.status == "INCONCLUSIVE", str(result)
    assert "too large for the output's type" in told(result)
    page, data = result.save(tmp_path)  # Figures that are NaN have a place in neither.
    assert json.loads(data.read_text())["verdict"]["status"] == "INCONCLUSIVE"
    assert "nothing to show" in page.read_text()


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_a_tolerance_that_is_none_is_refused(wrong):
    for given in ({"atol": wrong}, {"rtol": wrong}):
        with pytest.raises(UsageError, match="finite and not negative"):
            Tolerance(**given)


def test_a_stride_that_is_ignored_is_named():
    result = planted("stride ignored")
    assert result.status == "FAIL"
    assert "It is right where rows are packed" in told(result)
    assert "a stride of A is ignored or swapped" in told(result)
    assert "No common mistake" not in told(result)


def test_what_a_kernel_prints_stays_out_of_the_report(capsys):
    result = planted("prints")
    assert result.status == "PASS"
    assert capsys.readouterr().out == ""


def test_equal_seeds_give_equal_reports_and_other_seeds_other_figures():
    first, again, other = (audit(**QUICK, seed=s) for s in (5, 5, 6))
    assert first.rounding.main["A"].as_dict() == again.rounding.main["A"].as_dict()
    assert first.rounding.main["A"].rms_scaled != other.rounding.main["A"].rms_scaled


def test_an_attribute_of_the_kernel_sets_grid_and_constants():
    kernel = kernels.columns_first_kernel
    kernel.audit_constants = {"BM": 32}
    kernel.audit_grid = lambda M, N, K, c: (-(-N // c["BN"]), -(-M // c["BM"]))
    try:
        result = audit(kernel, "blocked", **SMALL)
    finally:
        del kernel.audit_constants, kernel.audit_grid
    assert result.status == "PASS"
    assert result.contestants[0].constants["BM"] == 32
    assert result.contestants[0].grid_text == "its audit_grid"


def test_a_wrong_grid_is_seen():
    result = audit("blocked", "strided_lanes", **SMALL, choices_a=Choices(grid="1"))
    assert result.status == "FAIL"
    assert "never written" in told(result)


def test_the_report_is_complete_json_and_one_page(tmp_path):
    result = audit(**QUICK)
    page, data = result.save(tmp_path / "reports")
    read = json.loads(data.read_text())
    assert read["verdict"]["status"] == result.status
    assert read["product"] == {
        "M": 96, "N": 100, "K": 200, "dtype": "fp32", "out_dtype": "fp32", "distribution": "uniform", "seed": 0,
        "atol": 1e-4, "rtol": 1e-4,
    }  # fmt: skip
    assert read["algebra"]["trials"][0]["different"] == 0
    assert read["rounding"]["strata"]["all"]["A"]["rms_scaled"] == result.rounding.main["A"].rms_scaled
    assert read["explanation"]["orders"]["B"]["order"]["lanes"] == 1
    assert "tritongemm audit strided_lanes blocked --m 96 --n 100 --k 200" in read["replay"]
    html = page.read_text()
    assert html.count("<svg") == 2
    for outside in ("http:", "https:", "src=", "href=", "url(", "@import", "<script"):
        assert outside not in html
    assert sorted(p.name for p in (tmp_path / "reports").iterdir()) == ["audit.html", "audit.json"]


class EveryOutput(Cpu):
    """Stands in for a GPU: evaluates, and has a library that adds in a better order."""

    torch = SimpleNamespace(__version__="0.0")

    def upload(self, values):
        return values

    def library(self, a, b, dtypes):
        return codes_of((a.astype(float) @ b.astype(float)).astype(np.float32), dtypes[1])


def test_a_gpu_audit_measures_every_output_and_allows_what_a_serial_chain_errs():
    pair = tuple(
        contestant(*find(name, letter)[:1], letter, name, name)
        for letter, name in (("A", "strided_lanes"), ("B", "blocked"))
    )
    a, b = draw(150, 90, 500, 0)
    evidence = full(pair, EveryOutput(), Setting(a, b, ("fp32", "fp32"), Tolerance(), 0), lambda what, done: None)
    reports = evidence.strata["all"]
    assert evidence.evaluated == reports["A"].outputs == reports["B"].outputs == 150 * 90
    assert reports["chain"].outputs == 64 * 64
    assert reports["library"].rms_scaled < 0.2 * reports["B"].rms_scaled
    assert reports["B"].worst is not None
    assert evidence.chain_equal["B"] == evidence.chain_outputs == 4096
    same = AlgebraEvidence("same", "3.9")
    verdict = judge(pair, same, evidence, "", None)
    assert verdict.status == "PASS", verdict
    # Without the chain the library alone would be the judge, and the serial sum a failure.
    del evidence.strata["all"]["chain"]
    assert judge(pair, same, evidence, "", None).status == "FAIL"


def test_a_gpu_that_a_kernel_broke_is_no_traceback(monkeypatch):
    def broken(*given):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(from_run, "Gpu", Cpu)
    monkeypatch.setattr(from_run, "full", broken)
    result = audit(**QUICK)
    assert result.status == "INCONCLUSIVE"
    assert "floats could not be computed: CUDA error: an illegal memory access was encountered" in told(result)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_tensors_for_a_gpu_keep_values_strides_and_surroundings(monkeypatch, dtype, layout):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self)
    gpu = object.__new__(Gpu)
    gpu.torch = torch
    values = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    laid = LAYOUTS[layout](codes_of(values, dtype), UNTOUCHED[dtype])
    tensor = gpu._tensor(laid, dtype)
    assert str(tensor.dtype) == {"fp32": "torch.float32", "fp16": "torch.float16", "bf16": "torch.bfloat16"}[dtype]
    assert tensor.stride() == tuple(s // laid.itemsize for s in laid.strides)
    np.testing.assert_array_equal(tensor.float().numpy(), values)
    np.testing.assert_array_equal(values_of(gpu._codes(tensor, dtype), dtype), values)
    if layout == "gapped":
        whole = tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0).float()
        assert int(torch.isnan(whole).sum()) == whole.numel() - 12


@pytest.mark.parametrize("lanes", [64, 256, 1024])
@pytest.mark.parametrize("aligned", [True, False])
def test_the_order_of_the_tree_is_read_from_the_compiled_layout(lanes, aligned):
    """Compiled for an H200's sm_90, which needs no GPU; aligned: the row stride is known to be divisible by 16."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from tritongemm.auditing.explanation import layout_order
    from tritongemm.kernels.strided_lanes import strided_lanes_kernel as kernel

    constants = {"LANES": lanes, "WIDE": True, "stride_ak": 1, "stride_bn": 1, "stride_cn": 1}
    names = [p.name for p in kernel.params]
    types = {n: "constexpr" if n in constants else "*fp32" if n.endswith("_ptr") else "i32" for n in names}
    divisible = ["a_ptr", "b_ptr", "c_ptr", *(["stride_am", "K"] if aligned else [])]
    source = ASTSource(
        kernel,
        types,
        {(names.index(n),): v for n, v in constants.items()},
        {(names.index(n),): [["tt.divisibility", 16]] for n in divisible},
    )
    options = {"num_warps": 4, "enable_fp_fusion": True}
    ttgir = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["ttgir"]
    found = layout_order(ttgir, contestant(kernel, "A", "strided_lanes", "strided_lanes_kernel"))
    assert found == SummationOrder.lanes_in_layout(lanes, 4, 4 if aligned else 1)


def test_regions_are_named_by_their_shape():
    def wrong(*where):
        x = np.zeros((10, 12), bool)
        for at in where:
            x[at] = True
        return region(x)

    assert wrong(np.s_[:, :]) == "all outputs"
    assert wrong(np.s_[:, 8:]) == "from column 8 on"
    assert wrong(np.s_[9:, :]) == "from row 9 on"
    assert wrong(np.s_[:3, :]) == "up to row 2"
    assert wrong(np.s_[4:6, 2:5]) == "rows 4 to 5 and columns 2 to 4"
    assert wrong(np.s_[4, :]) == "row 4"
    assert wrong(np.s_[1::3, :]) == "the rows 1, 4, 7"
    assert wrong(np.s_[:, ::5]) == "the columns 0, 5, 10"
    assert wrong(np.s_[8:, :], np.s_[:, 11:]) == "rows 8, 9 and columns 11"
    assert wrong(np.s_[1, 1], np.s_[5, 6]) == "2 outputs between rows 1 and 5 and columns 1 and 6"


def test_the_survey_finds_the_outputs_closest_to_zero(monkeypatch):
    a, b = draw(60, 50, 40, 3)
    golden = np.abs(a.astype(float) @ b.astype(float))
    monkeypatch.setattr(sampling, "_SURVEY_BYTES", 8 * 50 * 7)
    found = survey(a, b, Tolerance(), 100, 1e99, lambda share: None)
    assert found.outputs == found.total == 3000
    assert found.rms == pytest.approx(np.sqrt((golden**2).mean()))
    np.testing.assert_allclose(found.nearest[2], np.sort(golden, axis=None)[:100], rtol=1e-9)
    np.testing.assert_allclose(golden[found.nearest[0], found.nearest[1]], found.nearest[2], rtol=1e-9)


def test_the_outputs_at_risk_have_large_partial_sums_and_small_results():
    a, b = draw(40, 30, 128, 4)
    nearest = survey(a, b, Tolerance(), 1200, 1e99, lambda share: None).nearest
    rows, columns = most_at_risk(a, b, nearest, Tolerance(), 50)
    products = a[:, None, :].astype(float) * b.T[None].astype(float)
    partial = np.cumsum(products, 2)[:, :, 31::32]
    risk = (partial**2).sum(2) / (1e-4 + 1e-4 * np.abs(products.sum(2))) ** 2
    want = np.sort(risk, axis=None)[::-1][:50]
    np.testing.assert_allclose(risk[rows, columns], want, rtol=1e-4)


def test_rectangles_hold_their_targets_on_the_diagonal():
    rng = np.random.default_rng(0)
    targets = rng.integers(0, 50, 300), rng.integers(0, 40, 300)
    made = rectangles(50, 40, (8, 8), 3, 5, targets, 0)
    through = [r for r in made if r.stratum == AT_RISK]
    assert (len(made), len(through)) == (8, 5)
    assert made[0].stratum != made[1].stratum
    wanted = set(zip(*(x.tolist() for x in targets), strict=True))
    for r in through:
        assert len(set(r.rows)) == len(r.rows)
        assert len(set(r.columns)) == len(r.columns)
        assert set(zip(r.rows.tolist(), r.columns.tolist(), strict=True)) <= wanted
        assert r.wanted.sum() == r.rows.size
    for r in made:
        if r.stratum != AT_RISK:
            assert r.wanted.all()
            assert len(set(r.rows)) == 8


def test_the_last_case_of_the_challenge_is_lost_by_the_serial_sum_alone():
    """64 of the outputs most at risk at 8192 x 6144 x 4096: `blocked` misses the tolerance, `strided_lanes` does
    not."""
    challenge = pytest.importorskip("tritongemm.challenge")
    from tritongemm.kernels.blocked import blocked
    from tritongemm.kernels.strided_lanes import strided_lanes

    case = challenge.CASES[-1]
    a, b = case.operands()
    # A strip of the product is enough for outputs at risk; the whole one is what the command looks at.
    found = survey(a[:256], b, challenge.TOLERANCE, 1 << 13, 1e99, lambda share: None)
    targets = most_at_risk(a, b, found.nearest, challenge.TOLERANCE, 256)
    squares = rectangles(256, case.N, (64, 64), 0, 1, targets, 0)
    parts = [(a[r.rows], np.ascontiguousarray(b[:, r.columns]), r.wanted) for r in squares]
    lanes, tiles = (
        challenge._measured(f, case, challenge.TOLERANCE, "", parts, True) for f in (strided_lanes, blocked)
    )
    assert tiles.report.outside == tiles.library_outside > 0
    assert not tiles.passed
    assert tiles.accepted
    assert lanes.passed
    assert lanes.report.outside_library == lanes.report.blamed == tiles.library_outside


def test_both_kernels_pass_the_thirteen_small_cases():
    challenge = pytest.importorskip("tritongemm.challenge")
    from tritongemm.kernels.blocked import blocked
    from tritongemm.kernels.strided_lanes import strided_lanes

    sizes = [(c.M, c.K, c.N) for c in challenge.CASES]
    assert sizes == [
        (2, 2, 2), (1, 3, 1), (3, 3, 3), (2, 2, 2), (2, 3, 1), (4, 4, 4), (8, 6, 10), (16, 12, 20), (32, 8, 16),
        (8, 16, 32), (1, 1, 1), (1, 5, 3), (5, 3, 1), (8192, 6144, 4096),
    ]  # fmt: skip
    assert [c.number for c in challenge.CASES] == list(range(1, 15))
    outcomes = {}
    for multiply in (strided_lanes, blocked):
        outcomes[multiply.__name__] = challenge.run(multiply, cases=challenge.CASES[:13])
        assert all(o.passed and o.accepted for o in outcomes[multiply.__name__])
    assert "8 x 16 x 32, U(-10, 10)" in challenge.table(outcomes, "serial chain").text(width=200)
    wrong = challenge.run(lambda a, b: blocked(a, b) + np.float32(1), cases=challenge.CASES[:13])
    assert not any(o.passed for o in wrong)
