"""Audits of functions and Gluon kernels, split-K and tensor-core orders, declared precisions, own tensors."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import triton

import fpsan_tools
import numfmt
from numfmt import matrix_units
from tritongemm.__main__ import main
from tritongemm.accuracy import ErrorAccumulator, measure
from tritongemm.auditing import algebra, callables, run, sweep
from tritongemm.auditing.baseline import compare_with, load_baseline
from tritongemm.auditing.contestants import Choices, contestant, find
from tritongemm.auditing.data import load_array, load_named, operands_of
from tritongemm.auditing.devices import Cpu, codes_of
from tritongemm.auditing.document import Plot
from tritongemm.auditing.explanation import identify
from tritongemm.auditing.grids import program_axes
from tritongemm.auditing.growth import Growth, measure_growth
from tritongemm.auditing.implied_orders import AnyOrder, ModeOrder, SplitOrder, UnitOrder, split_orders, unit_orders
from tritongemm.auditing.sampling import draw
from tritongemm.auditing.sweep import SWEEP
from tritongemm.errors import UsageError
from tritongemm.orders import SummationOrder
from tritongemm.reference import largest_of, reference
from tritongemm.tables import WIDTH, Table

kernels = pytest.importorskip("tritongemm_audit_kernels")
audit = run.audit

pytestmark = pytest.mark.triton

SMALL = {"M": 48, "N": 40, "K": 130, "device": "cpu", "max_time": 300}
TILES = Choices({"BLOCK_M": 16, "BLOCK_N": 16})
U = 2.0**-24


def told(result):
    v = result.verdict
    return " ".join([*v.failures, *v.doubts, *v.sentences, *v.limitations])


def product(a, b):
    return a @ b


def tail_dropped(a, b):
    c = a @ b
    c[:, 16:] -= a[:, -1:] @ b[-1:, 16:]
    return c


def test_a_function_is_audited_without_an_algebra():
    result = audit(product, "blocked", **SMALL, choices_b=TILES)
    assert result.status == "PASS WITH LIMITATIONS", told(result)
    assert "A (product): algebra: not applicable, for it launches no Triton kernel" in told(result)
    assert "Its numbers agree with float64 in 10 products." in told(result)
    assert "B (blocked_kernel) has the payloads of the matrix product in 10 products" in told(result)
    both = audit(product, np.matmul, **SMALL)
    assert both.algebra.status == "not applicable"
    assert both.algebra.checked == {"A": 10, "B": 10}


def test_a_function_with_a_mistake_fails_by_its_numbers():
    result = audit(tail_dropped, "blocked", **SMALL, choices_b=TILES)
    assert result.status == "FAIL"
    for text in ("looks like an indexing mistake", "as when a K tail is dropped", "from column 16 on"):
        assert text in told(result)


@pytest.mark.parametrize("other", ["blocked", np.matmul], ids=["kernel", "function"])
def test_no_time_for_tails_is_no_pass_without_payloads_either(other):
    short = {**SMALL, "max_time": 1e-6}
    result = audit(product, other, **short, choices_b=TILES if other == "blocked" else None)
    assert len(result.algebra.trials) == 1
    assert result.status == "INCONCLUSIVE", told(result)
    assert "Only 1 of 10 comparisons of small products fitted into the time (--max-time): tails and" in told(result)


def halved(a, b):
    return a @ b / 2


def test_a_function_of_the_product_is_named_without_advice_for_another_command():
    result = audit(halved, "blocked", **SMALL, choices_b=TILES)
    assert result.status == "FAIL"
    assert "looks like another epilogue: they are 0.5 times what they should be. The limit" in told(result)


def overwriting(a, b):
    c = a @ b
    a *= 0
    return c


WRITER = Choices({"MISTAKE": "writes to A"})


@pytest.mark.parametrize(
    ("writer", "choices"), [(overwriting, None), (kernels.planted_kernel, WRITER)], ids=["function", "kernel"]
)
@pytest.mark.parametrize("letter", "AB")
def test_a_contestant_that_writes_to_an_operand_is_blamed_and_not_the_other(letter, writer, choices):
    pair = (writer, "blocked") if letter == "A" else ("blocked", writer)
    result = run.audit(*pair, **SMALL, **{f"choices_{letter.lower()}": choices})
    name, other = getattr(writer, "__name__", ""), "B" if letter == "A" else "A"
    assert result.status == "FAIL", str(result)
    assert f"{letter} ({name}) writes to its operand A at " in told(result)
    assert not any(
        f"{other} (blocked_kernel)" in x and "is the matrix product" not in x for x in result.verdict.failures
    )


def test_launchers_keep_their_payloads():
    def launcher(a, b):
        from tritongemm.kernels.blocked import blocked

        return blocked(a, b)

    result = audit(launcher, "strided_lanes", **SMALL, choices_b=Choices({"LANES": 32}))
    assert result.status == "PASS", told(result)
    assert result.algebra.absent == {}


@pytest.mark.torch
def test_functions_of_pytorch_get_tensors():
    pytest.importorskip("torch")
    result = audit("torch:matmul", "blocked", **SMALL, choices_b=TILES, dtype="bf16")
    assert result.status == "PASS WITH LIMITATIONS", told(result)
    assert result.rounding.main["A"].dtype == "bf16"
    assert "roundings of bf16" in told(result) or "equal bit for bit" in told(result)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda a, b: a @ b[:, 1:], "its result has shape"),
        (lambda a, b: (a @ b).astype(np.float16), "its result is fp16"),
        (lambda a, b: "no", "its result is no matrix"),
        (lambda a, b: a.no_such_thing, "AttributeError"),
    ],
)
def test_functions_that_give_something_else_are_told(function, words):
    result = audit(function, "blocked", **SMALL, choices_b=TILES)
    assert result.status == "INCONCLUSIVE"
    assert words in told(result)


def test_functions_take_no_constants_and_need_two_arguments():
    with pytest.raises(UsageError, match="launches as it likes"):
        audit(product, "blocked", **SMALL, choices_a=Choices({"BLOCK": 3}))
    with pytest.raises(UsageError, match="two matrices"):
        audit(lambda a: a, "blocked", **SMALL)
    product.audit_arrays = "cupy"
    try:
        with pytest.raises(UsageError, match="no library of arrays"):
            audit(product, "blocked", **SMALL)
    finally:
        del product.audit_arrays
    assert callables.library_of(np.matmul) == ("numpy",)


def test_a_gluon_kernel_is_for_a_gpu_and_the_other_one_is_checked_all_the_same():
    grid = Choices(grid="M, cdiv(N, BLOCK)")
    result = audit(kernels.gluon_kernel, "blocked", **SMALL, choices_a=grid, choices_b=TILES)
    assert result.status == "INCONCLUSIVE"
    assert "algebra: GPU only, for it is written in Gluon" in told(result)
    assert "B (blocked_kernel) has the payloads of the matrix product" in told(result)


def test_split_products_are_split_operands_by_construction():
    choices = Choices({**TILES.constants, "INPUT_PRECISION": "tf32x3"}, precision="tf32x3")
    result = audit("blocked", "blocked", **SMALL, choices_a=choices, choices_b=TILES)
    assert result.status == "PASS WITH LIMITATIONS", told(result)
    assert "operands are split before payloads see them" in told(result)
    assert "Its numbers agree with float64 in 10 products" in told(result)


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("interleaved", [False, True])
def test_split_k_is_found(parts, interleaved):
    order = SplitOrder(parts, SummationOrder.chain(pad=32), 32, interleaved)
    result = audit(lambda a, b: order.simulate(a, b), "blocked", M=40, N=36, K=500, device="cpu", choices_b=TILES)
    found = result.rounding.identified["A"].order
    a, b = draw(9, 8, 500, 3)
    np.testing.assert_array_equal(found.simulate(a, b), order.simulate(a, b))
    assert f"{parts} {'interleaved' if interleaved else 'contiguous'} parts" in told(result)


PARTS = {
    "512x768x2000": (11, False, 8),
    "100x100x777": (12, False, 4),
    "300x200x500": (7, True, 8),
    "2048x2048x1000": None,
}


@pytest.mark.parametrize("shape", PARTS)
def test_orders_of_cublas_are_found_from_the_bits_of_an_h200(shape):
    """cuBLAS's fp32 products are one serial chain, or chains of parts of K: split-K, by shape."""
    M, N, K = map(int, shape.split("x"))
    rng = np.random.default_rng([M, N, K])
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((M, K), (K, N)))
    rows, columns = (np.sort(np.random.default_rng([7, n]).choice(n, 12, replace=False)) for n in (M, N))
    with np.load(Path(__file__).parent / "data" / "h200_sgemm_orders.npz") as recorded:
        codes = recorded[shape]
    c = contestant(product, "A", "product", "product")
    found = identify(c, a[rows], np.ascontiguousarray(b[:, columns]), codes, ("fp32", "fp32"))
    assert found.agreed == found.outputs == 144
    order = found.order
    if PARTS[shape] is None:
        assert order == SummationOrder.chain(pad=1)
    else:
        assert (order.parts, order.interleaved, order.grain) == PARTS[shape]
        assert not order.tree


def test_split_orders_are_what_they_say_and_within_their_bounds():
    a, b = draw(6, 7, 100, 1)
    parts = [a[:, :34] @ b[:34].astype(float), a[:, 34:68] @ b[34:68].astype(float), a[:, 68:] @ b[68:].astype(float)]
    order = SplitOrder(3, SummationOrder.chain(), 2)
    assert [c.tolist() for c in order.cuts(100)] == [list(range(34)), list(range(34, 68)), list(range(68, 100))]
    np.testing.assert_allclose(order.simulate(a, b), sum(parts), rtol=1e-4, atol=1e-5)
    assert order.height(100) == 34 + 2
    assert SplitOrder(4, SummationOrder.chain(), tree=True).height(100) == 25 + 2
    assert SplitOrder(2, SummationOrder.chain(), 16, True).cuts(40)[0].tolist() == [*range(16), *range(32, 40)]
    golden, magnitude = reference(a, b)
    for one in split_orders([2, 3, 8], [1, 16]):
        assert (abs(one.simulate(a, b) - golden) <= one.relative_bound(100) * magnitude).all()
        assert json.loads(json.dumps(one.as_dict()))["parts"] == one.parts


@pytest.mark.parametrize("operands", ["fp16", "bf16"])
def test_tensor_core_schedules_are_found_from_bits_and_keep_their_bounds(operands):
    a, b = draw(24, 24, 400, 2)
    kind = numfmt.FP16 if operands == "fp16" else numfmt.BF16
    a, b = (np.asarray(kind.round(x), np.float32) for x in (a, b))
    golden, magnitude = reference(a, b)
    wanted = matrix_units.promote(64)
    codes = codes_of(UnitOrder(wanted, operands).simulate(a, b), "fp32")
    c = contestant(*find("blocked", "A")[:1], "A", "blocked", "blocked", Choices({"BLOCK_K": 64}))
    found = identify(c, a, b, codes, (operands, "fp32"))
    assert isinstance(found.order, UnitOrder)
    np.testing.assert_array_equal(codes_of(found.order.simulate(a, b), "fp32"), codes)
    for order in unit_orders(operands, [64]):
        assert (abs(order.simulate(a, b) - golden) <= order.relative_bound(400) * magnitude).all()
        assert order.probable(400) == order.relative_bound(400)
    # Whatever the order: on few products a unit's step loses more than fp32 additions do.
    assert AnyOrder(operands).relative_bound(1) > AnyOrder("fp32").relative_bound(1)


def test_bounds_of_tensor_cores_hold_for_subnormal_operands():
    """A subnormal operand takes part with the exponent of normal ones, so it cuts the products beside it."""
    rng = np.random.default_rng(0)
    a = np.ldexp(rng.integers(1, 1024, (24, 64)), -24).astype(np.float32)
    b = rng.uniform(1, 2, (64, 16)).astype(np.float32)
    a[:, ::16], b[::16] = 2.0**-24, 2.0**15
    b = np.asarray(numfmt.FP16.round(b), np.float32)
    assert (numfmt.FP16.round(a) == a).all()
    golden, magnitude = reference(a, b)
    row, column = largest_of(a, b)
    for order in [*unit_orders("fp16", [32]), AnyOrder("fp16"), ModeOrder("ieee", "fp16")]:
        made = order if not isinstance(order, AnyOrder) else UnitOrder(matrix_units.chain(), "fp16")
        error = abs(made.simulate(a, b) - golden)
        assert (error > order.relative_bound(64) * magnitude).any()
        assert (error <= order.error_bound(64, magnitude, row, column)).all()
        errors = ErrorAccumulator("p", 64, order=order)
        errors.add(made.simulate(a, b), golden, magnitude, largest=(row, column))
        assert errors.report().bound_exceeded == 0
    anything = measure(UnitOrder(matrix_units.chain(), "fp16").simulate(a, b), a.astype("f2"), b.astype("f2"))
    assert anything.bound_exceeded == 0
    assert anything.order == "any order of summation"


def test_a_mode_that_scales_has_a_bound_where_operands_are_known():
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((20, 96), (96, 20)))
    order = ModeOrder("int8x6", "fp32")
    report = measure(order.simulate(a, b), a, b, precision="int8x6")
    assert 0 < report.bound_used <= 1
    assert report.bound_exceeded == 0
    off = order.simulate(a, b) + np.float32(1e-3)
    assert measure(off, a, b, precision="int8x6").bound_exceeded > 0


def test_a_hardware_audit_finds_the_tensor_cores_chain():
    choices = Choices({**TILES.constants, "BLOCK_M": 64})
    result = audit("blocked", "blocked", **SMALL, dtype="fp16", out_dtype="fp32", choices_a=choices,
                   choices_b=choices, hardware=True)  # fmt: skip
    assert isinstance(result.rounding.identified["A"].order, UnitOrder), told(result)
    assert "the fp16 tensor core of Hopper" in told(result)
    assert result.status.startswith("PASS"), told(result)
    assert result.rounding.main["A"].bound_exceeded == 0
    assert "--hardware" in result.facts["replay"]


def test_a_lower_precision_fails_undeclared_and_passes_declared():
    low = {**TILES.constants, "INPUT_PRECISION": "tf32"}
    size = {**SMALL, "hardware": True, "choices_b": TILES}
    undeclared = audit("blocked", "blocked", **size, choices_a=Choices({**low, "BLOCK_M": 64}))
    assert undeclared.status == "FAIL"
    assert "has the bits of precision tf32 on an H200" in told(undeclared)
    declared = audit("blocked", "blocked", **size, choices_a=Choices({**low, "BLOCK_M": 64}, precision="tf32"))
    assert declared.status.startswith("PASS"), told(declared)
    assert declared.rounding.identified["A"].order == ModeOrder("tf32", "fp32")
    assert "--precision-a tf32" in declared.facts["replay"]
    with pytest.raises(UsageError, match="tf31"):
        audit(**SMALL, choices_a=Choices(precision="tf31"))


def test_growth_tells_noise_from_a_direction():
    def truncated(a, b):
        total = np.zeros((a.shape[0], b.shape[1]))
        for k in range(a.shape[1]):
            total = np.asarray(numfmt.FP32.round(total + np.outer(a[:, k], b[k]), rounding="toward_zero"), float)
        return total.astype(np.float32)

    pair = tuple(contestant(f, letter, "s", "n") for letter, f in (("A", truncated), ("B", product)))
    a, b = draw(30, 30, 800, 0)
    found = measure_growth(pair, Cpu(), a, b, ("fp32", "fp32"), 0, 1e99, lambda what, done: None)
    grown = {g.letter: g for g in found}
    assert grown["A"].slope > 0.8
    assert grown["A"].bias < -0.9
    assert "a direction" in grown["A"].reading()
    assert grown["chain"].slope < 0.65
    assert abs(grown["chain"].bias) < 0.5
    assert measure_growth(pair, Cpu(), a[:, :9], b[:9], ("fp32", "fp32"), 0, 1e99, lambda what, done: None) == []
    assert "hidden" in Growth("A", (10, 20), (3.0, 3.0), 0.0, True).reading()


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_narrow_results_are_measured_in_their_own_roundings(dtype):
    result = audit("strided_lanes", "blocked", **SMALL, dtype=dtype, choices_a=Choices({"LANES": 32}), choices_b=TILES)
    report = result.rounding.main["A"]
    assert 0 < report.rms_out < 1
    assert report.max_out <= 1.01
    assert report.outside == 0
    assert result.facts["product"]["rtol"] == {"fp16": 1e-3, "bf16": 1.6e-2}[dtype]
    assert f"one rounding to {dtype}" in str(result)
    (plot,) = [
        p for s in result.document.sections for p in s.items if isinstance(p, Plot) and p.title.startswith("Errors ag")
    ]
    by = {s.name: s for s in plot.series}
    for side in "AB":
        bound = dict(zip(by[f"{side}: a-priori bound"].x, by[f"{side}: a-priori bound"].y, strict=True))
        for x, y in zip(by[f"{side}: largest"].x, by[f"{side}: largest"].y, strict=True):
            assert y <= np.interp(x + 0.1, list(bound), list(bound.values())) + 1e-9


def test_a_correctly_rounded_result_is_within_one_rounding():
    a, b = draw(20, 20, 300, 5)
    golden, magnitude = reference(a, b)
    errors = ErrorAccumulator("p", 300, numfmt.BF16)
    values = np.asarray(numfmt.BF16.round(golden), np.float64)

    class Bf16(np.ndarray):
        """float64 values that call themselves what they are accumulated as."""

    errors.add(values.view(Bf16), golden, magnitude)
    report = errors.report()
    assert report.max_out <= 1
    unit = 2.0**-8 * abs(golden) + U * magnitude
    assert report.max_out == pytest.approx((abs(values - golden) / unit).max())
    assert report.rms_out == pytest.approx(np.sqrt(((abs(values - golden) / unit) ** 2).mean()))
    assert "roundings of bf16" in str(report)


def test_axes_are_told_by_what_they_are_multiplied_with():
    axes = program_axes(kernels.nameless_axes_kernel)
    assert (axes.factors[0], axes.factors[1]) == (("BN",), ("BM",))
    result = audit(kernels.nameless_axes_kernel, "blocked", **SMALL, choices_b=TILES)
    assert result.contestants[0].grid_text == "cdiv(N, BN), cdiv(M, BM)"
    assert result.status == "PASS", told(result)
    assert "lanes that a mask without `other` switches off (tritongemm_audit_kernels.py:" in " ".join(
        str(result).split()
    )


def test_products_inside_are_compared_although_another_one_is_left():
    wrong = Choices({"MISTAKE": "mask forgotten"})
    result = audit(kernels.planted_kernel, "blocked", **SMALL, choices_a=wrong, choices_b=TILES)
    assert result.status == "FAIL"
    assert "reaches outside its matrices" in told(result)
    assert len(result.algebra.trials) > 1
    assert "Payloads (FpSan" in str(result)


def test_time_interrupts_an_evaluation(monkeypatch):
    monkeypatch.setattr(run, "_LEAST_TIME", 0.0)
    result = audit(**{**SMALL, "max_time": 1e-3})
    assert result.status == "INCONCLUSIVE"
    assert "longer than the time that is left" in told(result)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_other_distributions_bring_out_what_usual_numbers_hide():
    def clipped(a, b):
        return np.clip(a, -65504, 65504) @ b

    result = audit(clipped, "blocked", **SMALL, choices_b=TILES)
    assert result.status == "FAIL"
    assert "A (clipped): with operands large (U(-1, 1) times 2^40 and 2^30) its rms error" in told(result)
    assert "with operands small" not in told(result)
    swept = {s.name: s.reports for s in result.rounding.swept}
    assert list(swept) == list(SWEEP)
    assert all(reports["B"].bound_exceeded == 0 for reports in swept.values())
    assert swept["cancelling"]["B"].kappa["0.5"] > 1e3 > swept["wide"]["B"].kappa["0.5"]
    assert swept["positive"]["B"].kappa["1.0"] == 1
    assert audit(product, np.matmul, **SMALL).status == "PASS WITH LIMITATIONS"
    low = Choices({**TILES.constants, "INPUT_PRECISION": "tf32"})
    imprecise = audit("blocked", "blocked", **SMALL, choices_a=low, choices_b=TILES)
    assert "is off with other operands too: positive, normal, wide, small, large, cancelling." in told(imprecise)
    assert "flush subnormals" not in told(imprecise)


def without_nan(a, b):
    return np.where(np.isnan(a), 0, a).astype(a.dtype) @ b


def without_infinity(a, b):
    return np.clip(a, -1e38, 1e38) @ np.clip(b, -1e38, 1e38)


def spreading(a, b):
    return (a @ b + 0 * a.sum()).astype(np.float32)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (without_nan, "it loses NaN: 8 of 8 results that a NaN goes into are none"),
        (without_infinity, "results that an infinity goes into are others"),
        (spreading, "NaN or infinity in other rows and columns reaches 42 of 42 results"),
        (product, ""),
    ],
)
def test_nan_and_infinity_among_the_operands_reach_what_they_should(function, words):
    result = audit(function, "blocked", **SMALL, choices_b=TILES)
    assert result.status == "PASS WITH LIMITATIONS", told(result)
    assert words in told(result)
    assert list(result.rounding.specials) == (["A"] if words else [])


LARGER = {**SMALL, "M": 200, "N": 210, "K": 65}


def test_a_mistake_of_one_program_of_the_audited_grid_is_found():
    wrong = Choices({"MISTAKE": "one program"})
    result = audit(kernels.planted_kernel, "blocked", **LARGER, choices_a=wrong, choices_b=TILES)
    assert result.status == "FAIL", told(result)
    assert "(the audited product as a whole) 256 of 42000 outputs differ: rows 176 to 191" in told(result)
    assert "B (blocked_kernel) is the matrix product in all 11 trials" in told(result)
    assert "only the products k < 64 of 65 are summed" in told(result)
    assert "a K tail is dropped" not in told(result)


def test_a_grid_of_one_program_is_no_mistake_of_tails():
    choices = Choices(grid="1")
    result = audit(kernels.planted_kernel, "blocked", **{**SMALL, "M": 16, "N": 16}, choices_a=choices, choices_b=TILES)
    assert result.status == "FAIL"
    assert "programs are missing from the grid" in told(result)
    assert "tail is handled wrongly" not in told(result)


def test_what_payloads_prove_of_a_conversion_is_not_guessed_at():
    result = audit(
        kernels.planted_kernel, "blocked", **SMALL, choices_a=Choices({"MISTAKE": "bf16 A"}), choices_b=TILES
    )
    assert "A is converted to a 16-bit type first" in told(result)
    assert "looks like another precision" not in told(result)


def test_results_that_are_all_nan_are_not_compared():
    def nothing(a, b):
        return np.full((a.shape[0], b.shape[1]), np.nan, np.float32)

    result = audit(nothing, "blocked", **SMALL, choices_b=TILES)
    assert result.status == "FAIL"
    assert "nanx" not in str(result)
    assert "by 0 at most" not in str(result)


def test_a_grid_that_was_not_evaluated_as_a_whole_is_not_covered(monkeypatch):
    monkeypatch.setattr(algebra, "_MOST_PRODUCTS", 0)
    result = audit("blocked", "blocked", **LARGER, choices_a=TILES, choices_b=TILES)
    assert result.status == "PASS WITH LIMITATIONS", told(result)
    assert "The grid of the whole product was not evaluated, only grids of samples" in told(result)
    monkeypatch.undo()
    assert audit("blocked", "blocked", **LARGER, choices_a=TILES, choices_b=TILES).status == "PASS"


def test_distributions_that_did_not_fit_into_the_time_are_not_covered():
    result = audit("blocked", "blocked", **{**SMALL, "max_time": 1e-6}, choices_a=TILES, choices_b=TILES)
    assert result.rounding.unswept == list(SWEEP)
    assert f"Operands of other distributions ({', '.join(SWEEP)}) were not tried" in told(result)
    assert "NaN and infinity among the operands were not tried" in told(result)
    assert audit("blocked", "blocked", **SMALL, choices_a=TILES, choices_b=TILES).rounding.unswept == []


@pytest.fixture(autouse=True)
def fewer_distributions(request, monkeypatch):
    """All of them are tried where they are the question."""
    if "distributions" not in request.node.name and "modes" not in request.node.name:
        monkeypatch.setattr(sweep, "SWEEP", {"positive": SWEEP["positive"]})


QUICK = ["--device", "cpu", "--const-b", "BLOCK_M=16", "--const-b", "BLOCK_N=16", "--const-a", "LANES=32"]


def test_the_users_own_matrices_are_audited(folder, capsys):
    a, b = draw(20, 24, 60, 9)
    np.save("left and right.npy", a)
    np.savez("both.npz", weights=b, other=a)
    assert main(["audit", "strided_lanes", "blocked", "--data", "left and right.npy", "both.npz:weights", *QUICK]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "C[20,24] = A[20,60] B[60,24], fp32, operands from left and right.npy and both.npz:weights" in out
    read = json.loads((folder / "reports" / "audit.json").read_text())
    golden, _ = reference(a, b)
    assert read["rounding"]["strata"]["all"]["A"]["golden_rms"] == pytest.approx(np.sqrt((golden**2).mean()))
    assert main([*shlex.split(read["replay"])[1:], "--no-report", "--quiet"]) == 0


def test_samples_of_a_small_product_are_not_taken_for_so_many_outputs():
    result = audit("strided_lanes", "blocked", M=182, N=182, K=16, device="cpu", max_time=300)
    assert result.rounding.evaluated > 182 * 182
    said = [line for line in result.verdict.sentences if "Their floats differ in" in line]
    assert ["outputs, some of them taken more than once, by" in line for line in said] == [True], said


def test_safetensors_are_read_with_all_their_types(folder):
    pytest.importorskip("safetensors")
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    eight = np.asarray(numfmt.FP8_E4M3.encode(values)).astype(np.uint8)
    tensors = {
        "x": ("F32", values), "h": ("F16", values.astype(np.float16)), "b": ("BF16", bits), "q": ("F8_E4M3", eight),
        "i": ("I64", np.arange(3)),
    }  # fmt: skip
    header, at = {}, 0
    for name, (kind, x) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    head = json.dumps(header).encode()
    body = b"".join(x.tobytes() for _, x in tensors.values())
    (folder / "t.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + body)
    read = load_named("t.safetensors")
    np.testing.assert_array_equal(read["x"], values)
    assert read["h"].dtype == np.float16
    assert (str(read["b"].dtype), str(read["q"].dtype)) == ("bf16", "fp8e4nv")
    np.testing.assert_array_equal(numfmt.FP8_E4M3.decode(read["q"].array), values)
    assert read["i"].tolist() == [0, 1, 2]
    a, b, kind = operands_of(load_array("t.safetensors:b"), fpsan_tools.typed(bits.T.copy(), "bf16"))
    np.testing.assert_array_equal(a, values)
    assert (b.shape, kind) == ((3, 2), "bf16")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (["a.npy"], "--data: 1 of 2 files"),
        (["gone.npy", "a.npy"], "'gone.npy' cannot be read"),
        (["a.npy", "a.npy"], "A's columns and B's rows must agree"),
        (["a.npy", "half.npy"], "A is fp32 and B is fp16"),
        (["a.npy", "ints.npy"], "no floating-point type"),
        (["a.npy", "line.npy"], "B has shape (3,)"),
        (["a.npy", "nan.npy"], "B holds NaN or infinity"),
        (["a.npy", "two.npz"], "holds 2 arrays; name one"),
        (["a.npy", "two.npz:oen"], "Did you mean 'one'?"),
        (["a.npy", "text.txt"], "ends in .txt"),
        (["a.npy", "objects.npy"], "cannot be read: it holds Python objects, which are not unpickled"),
        (["a.npy", "text.npy"], "cannot be read: it is no .npy file"),
        (["a.npy", "text.npz"], "cannot be read: it is no .npz file"),
        (["a.npy", "broken.npz"], "cannot be read: File is not a zip file"),
        (["a.npy", "cut.npy"], "cannot be read: "),
        (["a.npy", "empty.npy"], "cannot be read: it is empty"),
    ],
)
def test_files_that_hold_no_operands_are_one_sentence(folder, capsys, files, words):
    np.save("a.npy", np.ones((2, 3), np.float32))
    np.save("half.npy", np.ones((3, 2), np.float16))
    np.save("ints.npy", np.ones((3, 2), np.int32))
    np.save("line.npy", np.ones(3, np.float32))
    np.save("nan.npy", np.full((3, 2), np.nan, np.float32))
    np.save("objects.npy", np.array([[object()]], dtype=object), allow_pickle=True)
    np.savez("two.npz", one=np.ones((3, 2)), other=np.ones(1))
    for name in ("text.txt", "text.npy", "text.npz"):
        (folder / name).write_text("no")
    (folder / "empty.npy").write_text("")
    (folder / "broken.npz").write_bytes((folder / "two.npz").read_bytes()[:40])
    (folder / "cut.npy").write_bytes((folder / "a.npy").read_bytes()[:-4])
    assert main(["audit", "--data", *files, "--device", "cpu", "--no-report"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err


def test_a_baseline_of_two_products(folder, capsys):
    size = ["--m", "40", "--n", "36", "--k", "70"]
    assert main(["audit", *size, *QUICK, "--out", "before"]) == 0
    assert main(["audit", *size, *QUICK, "--baseline", "before/audit.json"]) == 0
    assert "Since before/audit.json: 0 worse, 0 better" in capsys.readouterr().out
    assert "5. Since the baseline" in (folder / "reports" / "audit.html").read_text()
    worse = [x if x != "LANES=32" else "LANES=2" for x in QUICK]
    assert main(["audit", *size, *worse, "--baseline", "before/audit.json", "--quiet", "--no-report"]) == 1
    assert "Worse: A, all: rms error was" in " ".join(capsys.readouterr().out.split())
    read = load_baseline("before/audit.json")
    other = {**read, "device": "another", "figures": {**read["figures"], "new": 1.0}}
    found = compare_with("p", read, other)
    assert found.worse == found.better == []
    assert found.unknown == 1
    assert "another device" in found.remarks[0]
    (folder / "none.json").write_text("{}")
    with pytest.raises(UsageError, match=r"no audit.json"):
        load_baseline("none.json")


def test_a_baseline_of_something_else_is_refused():
    pair = {
        "verdict": {"status": "PASS"},
        "product": {"M": 4, "N": 5, "K": 6, "dtype": "fp32", "seed": 0},
        "kernels": {"A": {"name": "one"}, "B": {"name": "two"}},
        "figures": {"A, all: rms error": 1.0},
    }
    softmax = {
        "verdict": {"status": "PASS"},
        "case": {"name": "softmax", "sizes": {"rows": 4}, "dtype": "fp32", "seed": 0},
        "figures": {"A: y, as drawn: rms error": 1.0},
    }
    for before, now, words in (
        (pair, softmax, "adapter: not given, and here softmax"),
        (softmax, {**softmax, "case": {**softmax["case"], "sizes": {"rows": 5}}}, "sizes: rows=4, and here rows=5"),
        (pair, {**pair, "product": {**pair["product"], "K": 7}}, "K: 6, and here 7"),
        (pair, {**pair, "kernels": {**pair["kernels"], "B": {"name": "three"}}}, "kernel B: two, and here three"),
        (softmax, {**softmax, "figures": {"A: y, the user's own inputs: rms error": 1.0}}, "has no figure"),
    ):
        with pytest.raises(UsageError, match=words):
            compare_with("p", before, now)


def test_figures_of_another_seed_are_not_worse():
    before = {"verdict": {"status": "PASS"}, "product": {"seed": 0}, "figures": {"A: largest error": 1.0}}
    now = {"verdict": {"status": "PASS"}, "product": {"seed": 1}, "figures": {"A: largest error": 2.0}}
    found = compare_with("p", before, now)
    assert found.worse == found.better == []
    assert "--seed 0 instead of 1" in found.remarks[0]
    assert compare_with("p", before, {**now, "verdict": {"status": "FAIL"}}).worse
    assert compare_with("p", before, {**now, "product": {"seed": 0}}).worse


def test_reports_fit_a_hundred_columns(folder, capsys):
    assert main(["audit", "--m", "40", "--n", "36", "--k", "70", *QUICK, "--no-report"]) == 0
    assert max(len(line) for line in capsys.readouterr().out.splitlines()) <= WIDTH == 100
    wide = Table(("", "a name of several words", "another long name of a column"), [("x " * 60, "1" * 20, "y " * 40)])
    text = wide.text()
    assert max(map(len, text.splitlines())) <= 100
    for word in ("several", "another", "1" * 20):
        assert word in text
    assert text.split().count("x") == 60


def test_a_mistyped_option_points_to_the_commands_own_help(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["tritongemm", "audit", "--output", "x"])
    with pytest.raises(SystemExit):
        main(["audit", "--output", "x"])
    assert "See tritongemm audit --help." in capsys.readouterr().err


@pytest.mark.parametrize("mode", ["tf32_rounded", "bf16x6_chained", "int8x6"])
def test_modes_of_this_package_pass_when_declared(mode):
    """Payloads of operands that are rounded or split are their own, and fast kernels are predicted on a CPU."""
    import tritongemm

    def multiply(a, b):
        return tritongemm.mm(a, b, precision=mode)

    result = audit(multiply, "blocked", **SMALL, choices_a=Choices(precision=mode), choices_b=TILES, hardware=True)
    if mode == "tf32_rounded" and triton.__version__.startswith("3.8."):
        # Its rounding is inline assembly, which FpSan of 3.8 does not know; the verdict has to say so.
        assert result.status == "INCONCLUSIVE"
        assert "leaves inline assembly uninstrumented" in told(result)
        return
    assert result.status == "PASS WITH LIMITATIONS", told(result)
    assert result.algebra.absent.keys() == {"A"}
    assert result.algebra.checked["A"] == len(result.algebra.trials)
    assert result.rounding.identified["A"].order == ModeOrder(mode, "fp32")


def _recorded(name):
    path = Path(__file__).parents[3] / "bench" / "results" / f"nvidia-h200-audit-{name}.json"
    if not path.is_file():
        pytest.skip("the recorded audits lie in the repository, not in this package")
    return json.loads(path.read_text())


def test_an_h200_showed_the_orders_that_are_simulated_here():
    """torch.matmul and this package's bf16 product, launched on an H200: one chain on its tensor cores."""
    read = _recorded("bf16")
    assert read["rounding"]["equal_bits"] == read["rounding"]["evaluated"] == 1024 * 768
    for letter in "AB":
        found = read["explanation"]["orders"][letter]
        assert found["order"] == UnitOrder(matrix_units.chain(), "bf16").as_dict()
        assert found["agreed"] == found["outputs"] > 1000
        assert read["rounding"]["strata"]["all"][letter]["bound_exceeded"] == 0
    assert read["algebra"]["absent"] == {"A": "it launches no Triton kernel"}
    assert all(t["B_away_from_product"] == 0 for t in read["algebra"]["trials"])


@pytest.mark.parametrize("name", ["softmax", "attention"])
def test_an_h200_runs_the_kernels_that_are_evaluated_here(name):
    """Launched there, evaluated here: both within what is allowed, by errors of one size."""
    ck = pytest.importorskip("tritongemm_case_kernels")
    read = _recorded(name)
    there = read["sides"]["A"]
    assert there["reruns"] == 0
    assert all(t["accepted"] for t in there["trials"])
    assert any(t["why"] == "production" for t in there["trials"])
    torch = pytest.importorskip("torch")
    from tritongemm import audit_kernel

    def rows(rng, rows=7, columns=100):
        return {"x": torch.from_numpy(rng.standard_normal((rows, columns)).astype(np.float32))}

    def keys_and_queries(rng, queries=16, keys=40):
        sizes = (("q", queries), ("k", keys), ("v", keys))
        return {n: torch.from_numpy(rng.standard_normal((s, 16)).astype(np.float32)) for n, s in sizes}

    how = {"dtype": "bf16", "distributions": [], "device": "cpu"}
    if name == "softmax":
        here = audit_kernel(lambda x: ck.softmax(x), lambda x: torch.softmax(x, 1), rows, **how)
    else:
        here = audit_kernel(
            lambda q, k, v: ck.attention(q, k, v),
            lambda q, k, v: torch.softmax(q @ k.T * q.shape[1] ** -0.5, 1) @ v, keys_and_queries,
            multiples={"queries": 16}, **how,
        )  # fmt: skip
    drawn = next(t for t in there["trials"] if t["why"] == "as drawn" and t["seed"] == 0)
    same = next(m for m in here.sides[0].measured if m.spec.why == "as drawn" and m.spec.seed == 0)
    assert same.rms == pytest.approx(drawn["rms"], rel=1e-6)  # The same inputs.
    assert same.own.rms == pytest.approx(drawn["errors"]["rms"], rel=0.1)
