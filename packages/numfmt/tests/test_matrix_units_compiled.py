"""The compiled chains against the NumPy chains, bit for bit."""

import subprocess
import sys

import numpy as np
import pytest
from matrix_units_data import KINDS, accumulators, bits, operands

from numfmt.matrix_units import UNITS, matmul, promote, tl_dot

pytest.importorskip("numba")

ROWS = [unit for unit in UNITS if unit.scales is None]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", ROWS, ids=lambda u: f"{u.name}-{u.inputs[0]}-{u.accumulator}")
def test_engines_agree_on_every_unit(unit, kind):
    keys = (unit.inputs[0], unit.inputs[-1] if unit.mixed else unit.inputs[0])
    rng = np.random.default_rng([31, KINDS.index(kind), unit.products, unit.fraction_bits])
    a, b = operands(rng, keys, (37, 41, 4 * unit.depth), kind)
    for c in (accumulators(rng, unit.accumulator, (37, 41), kind), None):
        plain = matmul(a, b, c, unit, inputs=keys, accumulator=unit.accumulator, engine="numpy")
        fast = matmul(a, b, c, unit, inputs=keys, accumulator=unit.accumulator, engine="numba")
        np.testing.assert_array_equal(bits(fast), bits(plain))


def test_engines_agree_on_accumulators_that_overflow_and_stay_infinite():
    a, b = np.full((3, 64), 2.0**100), np.full((64, 300), 2.0**27)
    b[:, ::2] *= -1
    b[32:] *= -1
    fast, plain = (matmul(a, b, inputs="bf16", engine=engine) for engine in ("numba", "numpy"))
    np.testing.assert_array_equal(bits(fast), bits(plain))
    assert np.isinf(fast).all()


@pytest.mark.parametrize("shape", [(1, 1, 32), (130, 700, 1120), (300, 5, 64)])
@pytest.mark.parametrize("threads", [1, 2])
def test_tiles_threads_and_engines_do_not_change_bits(shape, threads):
    rng = np.random.default_rng(5)
    a, b = operands(rng, ("e4m3", "e5m2"), shape, "uniform")
    got = [
        matmul(a, b, inputs=("e4m3", "e5m2"), schedule=promote(64), engine=engine, threads=t)
        for engine, t in (("numpy", 1), ("numpy", threads), ("numba", threads))
    ]
    np.testing.assert_array_equal(bits(got[0]), bits(got[1]))
    np.testing.assert_array_equal(bits(got[0]), bits(got[2]))


def test_split_products_agree():
    rng = np.random.default_rng(6)
    a, b = operands(rng, ("fp32", "fp32"), (20, 30, 96), "wide")
    for precision in ("ieee", "tf32x3", "bf16x3", "bf16x6"):
        got = [
            matmul(a, b, inputs="fp32", schedule=tl_dot(32, input_precision=precision), engine=engine)
            for engine in ("numpy", "numba")
        ]
        np.testing.assert_array_equal(bits(got[0]), bits(got[1]))


def test_a_small_product_does_not_import_numba():
    code = (
        "import sys, numpy as np; from numfmt.matrix_units import matmul; "
        "matmul(np.ones((4, 16), np.float16), np.ones((16, 4), np.float16)); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
