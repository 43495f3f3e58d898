"""`check`: outcomes, what is compared, what is refused, and that nothing is left behind."""

import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("triton")

import checking_kernels as k

import fpsan_tools
from fpsan_tools.checking import check, launch, load
from fpsan_tools.exceptions import FpsanError, UnknownName

pytestmark = pytest.mark.triton


def quick(a, b, make_inputs=k.scaling_inputs, **options):
    return check(a, b, make_inputs, **{"diagnose": False, **options})


def line_of(text):
    """Number of the first line of the kernels' file that has a text."""
    lines = Path(k.__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_equal_kernels_at_other_block_sizes():
    verdict = check(k.by_64, k.by_32, k.scaling_inputs)
    assert verdict.outcome == "equal"
    assert verdict.equal
    assert not verdict.different
    assert verdict.exit_status == 0
    assert verdict.seeds == (0, 1)
    assert [(c.name, c.dtype, c.shape, c.differing, c.total) for c in verdict.comparisons] == [
        ("out", "fp32", (100,), 0, 100)
    ]
    assert verdict.kernels == {"a": ("scaled[2, 1, 1]",), "b": ("scaled[4, 1, 1]",)}
    assert verdict.findings == ()
    assert verdict.divergence is None
    assert "not a proof" in verdict.meaning


def test_a_difference_has_coordinates_share_and_payloads():
    verdict = quick(k.by_64, k.tail_dropped)
    assert verdict.outcome == "different"
    assert verdict.exit_status == 1
    (comparison,) = verdict.comparisons
    assert (comparison.first, comparison.differing, comparison.total) == ((96,), 4, 100)
    assert comparison.pattern.text == "the last 4 elements (from 96)"
    x = k.scaling_inputs(np.random.default_rng(0))["x"]
    algebra = fpsan_tools.algebra.get()
    product = algebra.mul(algebra.embed(x[96:97], "fp32"), algebra.embed(np.float32([0.3]), "fp32"))
    assert comparison.values == (f"0x{int(product[0]):08X}", "0x00000000")
    assert verdict.differing_seeds == (0, 1)


def test_a_verdict_has_no_truth_value():
    verdict = quick(k.by_64, k.by_32)
    with pytest.raises(TypeError, match=r"ask for verdict\.equal"):
        bool(verdict)


def test_bare_kernels_with_launch_and_constants_that_depend_on_inputs():
    a = launch(k.scaled, (1,), BLOCK=lambda inputs: k.power_of_two(inputs["n"]))
    b = launch(k.scaled, lambda bound: (k.cdiv(bound["n"], bound["BLOCK"]),), BLOCK=16, num_warps=1)
    assert quick(a, b).equal


def test_a_grid_may_depend_on_the_shapes_of_the_arrays():
    seen = []

    def grid(bound):
        seen.append(bound["x"])
        return (k.cdiv(bound["x"].shape[0], bound["BLOCK"]),)

    verdict = quick(launch(k.scaled, grid, BLOCK=16), launch(k.scaled, grid, BLOCK=64))
    assert verdict.kernels == {"a": ("scaled[7, 1, 1]",), "b": ("scaled[2, 1, 1]",)}
    assert verdict.equal
    assert all(isinstance(x, np.ndarray) for x in seen)


def test_autotuned_kernels_bring_their_own_constants():
    assert quick(launch(k.autotuned, (4,)), k.by_64).equal


def test_tuples_are_passed_by_position():
    def inputs(rng):
        made = k.scaling_inputs(rng)
        return made["x"], made["out"], made["n"], made["s"]

    verdict = quick(k.by_64, k.by_32, inputs)
    assert verdict.equal
    assert [c.name for c in verdict.comparisons] == ["argument 1"]
    assert quick(launch(k.scaled, (4,), BLOCK=32), k.by_64, inputs).equal


def test_fixed_inputs_are_copied_and_stay_as_they_are():
    made = k.scaling_inputs(np.random.default_rng(3))
    before = {name: np.copy(value) for name, value in made.items()}
    verdict = quick(k.by_64, k.by_32, made)
    assert verdict.equal
    assert verdict.seeds == (0,)
    for name, value in made.items():
        assert np.array_equal(value, before[name])


def test_sides_get_only_the_arguments_that_they_name():
    def more(x, out, n):
        k.scaled[(4,)](x, out, n, 0.3, BLOCK=32)

    assert quick(k.by_64, more).equal
    with pytest.raises(FpsanError, match="needs an argument 'weights', but make_inputs gives x, out, n, s"):
        quick(k.by_64, lambda x, weights: None)


def test_returned_results_are_compared_in_order_with_written_ones():
    def returning(x, n, s):
        out = np.zeros_like(x)
        k.scaled[(2,)](x, out, n, s, BLOCK=64)
        return out

    verdict = quick(k.by_64, returning)
    assert verdict.equal
    assert verdict.comparisons[0].name == "out"
    pair = quick(lambda x, n, s: (returning(x, n, s), returning(x, n, s)), lambda x, n, s: [returning(x, n, s)] * 2)
    assert pair.equal
    assert [c.name for c in pair.comparisons] == ["result[0]", "result[1]"]
    with pytest.raises(FpsanError, match=r"side a has 1 \(out\) results and side b has 2"):
        quick(k.by_64, lambda x, n, s: (returning(x, n, s), returning(x, n, s)))


def test_outputs_can_be_named():
    assert quick(k.by_64, k.tail_dropped, outputs=["x"]).equal
    with pytest.raises(UnknownName, match="did you mean 'out'"):
        quick(k.by_64, k.by_32, outputs=["outs"])


def test_shapes_and_types_that_differ_are_a_difference():
    def narrow(x, n, s):
        out = np.zeros(n, np.float16)
        k.scaled[(4,)](x, out, n, s, BLOCK=32)
        return out

    verdict = quick(k.by_64, narrow)
    assert verdict.outcome == "different"
    assert verdict.comparisons[0].problem == "types differ: fp32 and fp16"
    assert verdict.comparisons[0].share == 1

    def longer(x, n, s):
        out = np.zeros(n + 1, np.float32)
        k.scaled[(4,)](x, out, n, s, BLOCK=32)
        return out

    assert quick(k.by_64, longer).comparisons[0].problem == "shapes differ: 100 and 101"


def test_bf16_and_integer_outputs():
    def inputs(rng, n=40):
        made = k.scaling_inputs(rng, n)
        bits = rng.integers(0, 1 << 16, n, np.uint16)
        return {**made, "x": fpsan_tools.typed(bits, "bf16"), "out": fpsan_tools.typed(np.zeros(n, np.uint16), "bf16")}

    verdict = quick(k.by_64, k.by_32, inputs)
    assert verdict.equal
    assert verdict.comparisons[0].dtype == "bf16"


def test_one_side_out_of_bounds_is_a_difference_and_both_are_not_decided():
    wild = launch(k.scaled_without_mask, (4,), BLOCK=32)
    verdict = quick(k.by_64, wild)
    assert verdict.outcome == "different"
    assert "side b (scaled_without_mask): kernel 'scaled_without_mask' at" in verdict.reason
    assert f"checking_kernels.py:{line_of('tl.load(x + offset)')}: load out of bounds in 28 lanes" in verdict.reason
    assert verdict.comparisons == ()
    assert "not defined" in verdict.meaning
    verdict = quick(wild, wild)
    assert verdict.outcome == "inconclusive"
    assert verdict.exit_status == 3


def test_masked_off_lanes_on_request():
    assert quick(k.by_64, k.by_32, bounds="live").equal
    verdict = quick(k.by_64, k.by_32, bounds="all")
    assert verdict.outcome == "inconclusive"
    assert "masked-off load" in verdict.reason


def test_float_atomics_leave_a_difference_undecided_and_are_listed():
    def inputs(rng):
        return {"x": rng.standard_normal(32).astype(np.float32), "out": np.zeros(1, np.float32), "n": 32}

    one, two = launch(k.relu_and_sum, (1,), BLOCK=32), launch(k.relu_and_sum, (2,), BLOCK=32)
    verdict = quick(one, two, inputs)
    assert verdict.outcome == "inconclusive"
    assert "tt.atomic_rmw fadd" in verdict.reason
    ops = {(gap.side, gap.op, gap.line) for gap in verdict.gaps}
    where, add = line_of("tl.abs(value)"), line_of("tl.atomic_add")
    assert {("a", "arith.cmpf", where), ("a", "math.absf", where), ("b", "tt.atomic_rmw fadd", add)} <= ops
    assert quick(one, one, inputs).equal
    assert "does not cover" not in quick(one, one, inputs).headline
    assert "not cover" in quick(one, one, inputs).meaning


def test_an_operation_that_cannot_be_evaluated_is_not_decided():
    def inputs(rng):
        a, b = (rng.standard_normal((16, 16)).astype(np.float32) for _ in range(2))
        return {"a": a, "b": b, "c": np.zeros((16, 16), np.float32)}

    whole, split = (launch(k.split_product, (1,), PRECISION=p) for p in ("ieee", "tf32x3"))
    verdict = quick(whole, split, inputs)
    assert verdict.outcome == "inconclusive"
    assert "'split_product'" in verdict.reason
    assert f"checking_kernels.py:{line_of('input_precision=PRECISION')}" in verdict.reason


def test_special_values_on_request():
    def masked_by(other):
        def side(x, out, n, s):
            first = np.zeros_like(x)
            k.scaled[(4,)](x, first, n, other, BLOCK=32)
            k.scaled[(4,)](first, out, n, 0.0, BLOCK=32)

        return side

    def inputs(rng):
        return {**k.scaling_inputs(rng), "out": np.ones(100, np.float32)}

    assert quick(masked_by(0.5), masked_by(float("inf")), inputs).equal  # 0 times anything is 0 in payloads
    verdict = quick(masked_by(0.5), masked_by(float("inf")), inputs, special_values=True)
    assert verdict.outcome == "different"
    assert "NaN or infinite on one side only: at [0] side a is finite and side b NaN" in verdict.reason
    assert "finite numbers" in verdict.meaning
    verdict = quick(masked_by(0.5), masked_by(0.25), inputs, special_values=True)
    assert verdict.equal
    assert any("same places" in note for note in verdict.notes)


def test_elements_that_nobody_writes_are_noted():
    verdict = quick(k.tail_dropped, k.tail_dropped)
    assert verdict.notes == ("4 of 100 elements of 'out' were left as they were by both sides",)


def test_versions_of_the_algebra():
    for version in ("3.8", "3.9", "3.9-homomorphic"):
        verdict = quick(k.by_64, k.by_32, version=version)
        assert verdict.equal
        assert verdict.version == version


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((k.scaled, k.by_32), "side a: kernel 'scaled' needs a grid; pass launch"),
        ((k.by_64, 3), "side b: a function or launch"),
        ((lambda **all: None, k.by_32), "launched no Triton kernel"),
        ((launch(k.scaled, (1,)), k.by_32), "kernel 'scaled': no value for parameter 'BLOCK'"),
    ],
)
def test_wrong_sides_are_refused_in_a_sentence(arguments, message):
    with pytest.raises(FpsanError, match=message):
        quick(*arguments)


@pytest.mark.parametrize(
    ("make_inputs", "message"),
    [
        (3, "a function of a NumPy generator, a dictionary or a tuple is expected"),
        (lambda rng: 3, "must give a dictionary or a tuple"),
        (lambda rng: {"n": 3}, "gave no array"),
        (lambda rng: {1: np.zeros(3)}, "argument names are texts"),
        (lambda rng, n: {}, "parameter 'n' has no default"),
        (lambda rng: k.scaling_inputs(np.random.default_rng()), "not repeatable: 'x' differs"),
    ],
)
def test_wrong_inputs_are_refused_in_a_sentence(make_inputs, message):
    with pytest.raises(FpsanError, match=message):
        quick(k.by_64, k.by_32, make_inputs)


def test_unknown_names_get_the_nearest_known_one():
    for options, near in (
        ({"engine": "gpus"}, "gpu"),
        ({"version": "3.99"}, "3.9"),
        ({"bounds": "alive"}, "live"),
        ({"sizes": {"nn": 3}}, "n"),
    ):
        with pytest.raises(UnknownName, match=f"did you mean '{near}'|known: {near}"):
            quick(k.by_64, k.by_32, **options)
    with pytest.raises(FpsanError, match="at least one number"):
        quick(k.by_64, k.by_32, seeds=())


def test_sizes_and_seeds():
    verdict = quick(k.by_64, k.tail_dropped, sizes={"n": 96}, seeds=[5])
    assert verdict.equal
    assert verdict.sizes == {"n": 96}
    assert verdict.seeds == (5,)


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_exceptions_leave_triton_as_it_was(error):
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    before = JITFunction.run, Autotuner.run

    def failing(x, out, n, s):
        k.by_64(x, out, n, s)
        raise error

    with pytest.raises(error):
        quick(k.by_64, failing)
    assert (JITFunction.run, Autotuner.run) == before
    assert quick(k.by_64, k.by_32).equal


def test_checks_in_threads_do_not_meet():
    found = {}

    def work(name, b, expected):
        for _ in range(4):
            found.setdefault(name, []).append(quick(k.by_64, b).outcome == expected)

    threads = [
        threading.Thread(target=work, args=("equal", k.by_32, "equal")),
        threading.Thread(target=work, args=("different", k.tail_dropped, "different")),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"equal": [True] * 4, "different": [True] * 4}


def test_files_of_arrays_are_read_without_pickle(tmp_path):
    made = k.scaling_inputs(np.random.default_rng(0))
    bf16 = np.arange(4, dtype=np.uint16)
    np.savez(tmp_path / "inputs.npz", **made, **{"w:bf16": bf16})
    loaded = load(tmp_path / "inputs.npz")
    assert loaded["n"] == 100
    assert loaded["s"] == 0.3
    assert np.array_equal(loaded["x"], made["x"])
    assert loaded["w"].dtype == "bf16"
    assert quick(k.by_64, k.by_32, {name: loaded[name] for name in made}).equal

    class Evil:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    np.savez(tmp_path / "evil.npz", x=np.array([Evil()], dtype=object))
    with pytest.raises(FpsanError, match=r"cannot be read as an \.npz file of plain arrays"):
        load(tmp_path / "evil.npz")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(FpsanError, match="cannot be read"):
        load(tmp_path / "text.npz")


def test_the_engine_follows_the_inputs_and_takes_numpy_arrays_to_the_gpu(monkeypatch):
    from fpsan_tools.checking import sides
    from fpsan_tools.checking.inputs import arguments

    class Device:
        type = "cuda"

    class Tensor:
        device = Device()
        data_ptr = None

    here = arguments(k.scaling_inputs(np.random.default_rng(0)))
    there = here.replaced({"x": Tensor()})
    assert sides.choose_engine("auto", here) == "cpu"
    assert sides.choose_engine("auto", there) == "gpu"
    assert sides.choose_engine("cpu", there) == "cpu"


@pytest.mark.torch
def test_a_torch_expression_is_a_reference():
    torch = pytest.importorskip("torch")

    def inputs(rng, n=100):
        made = k.scaling_inputs(rng, n)
        return {name: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for name, v in made.items()}

    assert quick(k.by_64, lambda x, s: x * s, inputs).equal
    verdict = quick(k.by_64, lambda x, s: x + s, inputs)
    assert verdict.outcome == "different"
    assert verdict.kernels["b"] == ("1 torch operations",)
    assert check(k.by_64, lambda x, s: x + s, inputs).divergence is None
    verdict = quick(k.by_64, lambda x, s: torch.fft.rfft(x), inputs)
    assert verdict.outcome == "inconclusive"
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()


@pytest.mark.gpu
@pytest.mark.fpsan
def test_on_a_gpu_the_verdicts_are_the_same():
    assert quick(k.by_64, k.by_32, engine="gpu").equal
    verdict = quick(k.by_64, k.tail_dropped, engine="gpu")
    on_cpu = quick(k.by_64, k.tail_dropped, engine="cpu")
    assert verdict.outcome == "different"
    assert verdict.engine == "gpu"
    assert np.array_equal(verdict.comparisons[0].a, on_cpu.comparisons[0].a)
    assert verdict.comparisons[0].values == on_cpu.comparisons[0].values
