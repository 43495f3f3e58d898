"""`choose_promotion`: the interval meets the target, the next longer one does not, and the bound bounds."""

import numpy as np
import pytest

from numfmt import FP8_E4M3, FP8_E5M2
from numfmt.matrix_units import chain, choose_promotion, matmul, promote

U = 2.0**-24


def uniform(low, shape, seed=0, fmt=FP8_E4M3):
    rng = np.random.default_rng(seed)
    m, n, k = shape
    return fmt.round(rng.uniform(low, 1, (m, k))), fmt.round(rng.uniform(low, 1, (k, n)))


def errors(a, b, schedule):
    exact = a @ b
    error = np.abs(matmul(a, b, inputs="e4m3", schedule=schedule) - exact)
    return (error / np.abs(exact)).max(), (error / (U * (np.abs(a) @ np.abs(b)))).max()


@pytest.mark.parametrize(("measure", "target"), [("relative", 1e-3), ("relative", 1e-2), ("scaled", 3e4)])
def test_the_longest_interval_that_meets_the_target(measure, target):
    a, b = uniform(0, (24, 24, 2048))
    choice = choose_promotion(a, b, target, measure=measure, inputs="e4m3")
    index = ["relative", "scaled"].index(measure)
    assert choice.interval is not None
    assert errors(a, b, promote(choice.interval))[index] <= target
    assert errors(a, b, promote(2 * choice.interval) if 2 * choice.interval < 2048 else chain())[index] > target
    assert choice.schedule == promote(choice.interval)


@pytest.mark.parametrize("fmt", [FP8_E4M3, FP8_E5M2])
@pytest.mark.parametrize("low", [-1, 0, 0.5])
def test_the_table_is_the_errors_and_the_bound_is_above_them(low, fmt):
    a, b = uniform(low, (16, 16, 1024), fmt=fmt)
    choice = choose_promotion(a, b, 1e-3, inputs=fmt.name.lower().removeprefix("fp8_"))
    assert [row.interval for row in choice.rows] == [32, 64, 128, 256, 512, 1024]
    for row in choice.rows:
        assert row.relative <= row.relative_bound
        assert row.scaled <= row.scaled_bound
        if fmt is FP8_E4M3:
            schedule = chain() if row.interval == 1024 else promote(row.interval)
            assert (row.relative, row.scaled) == pytest.approx(errors(a, b, schedule))
    # Positive data lose in proportion to the interval; a bound that ignored it would not grow.
    assert choice.rows[-1].scaled_bound > 4 * choice.rows[1].scaled_bound


@pytest.mark.parametrize("unit", ["hopper.wgmma", "ada.mma", "blackwell.tcgen05", "hopper.mma"])
def test_the_bound_holds_for_hard_data(unit):
    rng = np.random.default_rng(5)
    for scale in (1.0, 2.0**-6):
        a = FP8_E4M3.round(scale * rng.standard_normal((12, 512)) * 2.0 ** rng.integers(-6, 4, (12, 512)))
        b = FP8_E4M3.round(scale * rng.standard_normal((512, 12)) * 2.0 ** rng.integers(-6, 4, (512, 12)))
        for row in choose_promotion(a, b, 1.0, unit=unit, inputs="e4m3").rows:
            assert row.scaled <= row.scaled_bound


def test_the_bound_covers_what_tf32_ignores():
    rng = np.random.default_rng(6)
    a, b = (rng.uniform(0, 1, shape).astype(np.float32) for shape in ((8, 256), (256, 8)))
    rows = choose_promotion(a, b, 1e-2).rows
    assert all(2.0**-12 < row.relative <= row.relative_bound for row in rows)


def test_targets_that_need_no_promotion_or_cannot_be_met():
    a, b = uniform(0, (8, 8, 256))
    easy = choose_promotion(a, b, 0.5, inputs="e4m3")
    assert easy.interval == 256
    assert easy.schedule == chain()
    assert "fast accumulation" in easy.mode
    hard = choose_promotion(a, b, 1e-9, inputs="e4m3")
    assert hard.interval is None
    assert hard.guaranteed is None
    assert hard.schedule is None
    assert "no interval suffices" in str(hard)


def test_a_sample_of_a_large_product():
    a, b = uniform(0, (300, 200, 64))
    choice = choose_promotion(a, b, 1e-3, inputs="e4m3", outputs=1000)
    assert choice.outputs <= 1000
    assert choice.outputs >= 500


def test_plot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = choose_promotion(*uniform(0, (4, 4, 256)), 1e-3, inputs="e4m3").plot()
    assert len(axes.lines) == 3
    assert axes.get_xlabel() == "products between promotions"
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"measure": "relativ"}, "did you mean 'relative'"),
        ({"target": 0}, "target must be positive"),
        ({"intervals": [48]}, "no positive multiple of 32"),
        ({"inputs": "e2m1"}, "does not multiply"),
        ({"unit": "hoper.wgmma"}, "did you mean 'hopper.wgmma'"),
    ],
)
def test_bad_arguments(change, message):
    a, b = uniform(0, (4, 4, 64))
    arguments = {"target": 1e-3, "inputs": "e4m3"} | change
    with pytest.raises(ValueError, match=message):
        choose_promotion(a, b, **arguments)


def test_operands_with_infinities_are_refused():
    a, b = uniform(0, (4, 4, 64), fmt=FP8_E5M2)
    a[0, 0] = np.inf
    with pytest.raises(ValueError, match="finite"):
        choose_promotion(a, b, 1e-3, inputs="e5m2")
