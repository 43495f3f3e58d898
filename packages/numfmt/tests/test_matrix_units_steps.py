"""Single steps and short chains of every unit against exact rationals, bit for bit."""

import dataclasses
import itertools

import matrix_units_oracle as oracle
import numpy as np
import pytest
from matrix_units_data import KINDS, accumulators, any_codes, bits, expected_bits, operands

from numfmt.matrix_units import find_unit, matmul


def pairs(keys):
    """Each format with itself and with the next one: of many mixtures, enough to see that the operands are not
    confused.
    """
    return [(key, key) for key in keys] + [(key, keys[i - 1]) for i, key in enumerate(keys) if len(keys) > 1]


ROWS = [
    (unit, accumulator, pair, step)
    for (unit, accumulator), rows in oracle.UNITS.items()
    for keys, step in rows
    for pair in pairs(keys)
]
DTYPE = {"fp32": np.float32, "fp16": np.float16}


def oracle_product(a, b, c, step, emins, cut=float):
    return [
        [oracle.chain([*map(cut, a[i])], [*map(cut, b[:, j])], float(c[i, j]), step, *emins) for j in range(b.shape[1])]
        for i in range(a.shape[0])
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("unit", "accumulator", "pair", "step"), ROWS, ids=lambda v: "x".join(v) if isinstance(v, tuple) else str(v)[:18]
)
def test_chain_equals_exact_rationals(unit, accumulator, pair, step, kind):
    depth = find_unit(unit, pair, accumulator).depth
    rng = np.random.default_rng([depth, KINDS.index(kind), *map(ord, unit + accumulator + pair[0] + pair[1])])
    a, b = operands(rng, pair, (4, 4, 2 * depth), kind)
    c = accumulators(rng, accumulator, (4, 4), kind)
    emins = [oracle.FORMATS[key][1] for key in pair]
    cut = oracle.truncate_tf32 if pair[0] == "tf32" else float
    expected = expected_bits(oracle_product(a, b, c, step, emins, cut), DTYPE[accumulator])
    got = matmul(a, b, c, unit, inputs=pair, accumulator=accumulator, engine="numpy")
    np.testing.assert_array_equal(bits(got), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("accumulator", ["fp32", "fp16"])
@pytest.mark.parametrize("pair", list(itertools.product(["e4m3", "e5m2"], repeat=2)), ids="x".join)
def test_fp8_mma_sync_on_hopper_is_fp16_steps_and_an_addition(pair, accumulator, kind):
    rng = np.random.default_rng([7, KINDS.index(kind), *map(ord, accumulator + pair[0] + pair[1])])
    a, b = operands(rng, pair, (4, 4, 64), kind)
    c = accumulators(rng, accumulator, (4, 4), kind)
    expected = [
        [
            oracle.hopper_fp8_mma([*map(float, x)], [*map(float, y)], float(c[i, j]), accumulator)
            for j, y in enumerate(b.T)
        ]
        for i, x in enumerate(a)
    ]
    got = matmul(a, b, c, "hopper.mma", inputs=pair, accumulator=accumulator, engine="numpy")
    np.testing.assert_array_equal(bits(got), expected_bits(expected, DTYPE[accumulator]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("unit", "key", "products"), [("cdna2.mfma", "fp16", 4), ("cdna2.mfma", "bf16", 4), ("cdna2.mfma_bf16", "bf16", 2)]
)
def test_cdna2_is_a_tree_of_flushed_additions(unit, key, products, kind):
    rng = np.random.default_rng([11, KINDS.index(kind), products])
    a, b = operands(rng, (key, key), (6, 6, 12), kind)
    c = accumulators(rng, "fp32", (6, 6), kind)
    expected = [
        [
            oracle.cdna2_chain([*map(float, x)], [*map(float, y)], float(c[i, j]), key, products)
            for j, y in enumerate(b.T)
        ]
        for i, x in enumerate(a)
    ]
    got = matmul(a, b, c, unit, inputs=key)
    np.testing.assert_array_equal(bits(got), expected_bits(expected, np.float32))


@pytest.mark.parametrize("kind", [*KINDS, "ties"])
def test_fma_chain_rounds_once(kind):
    rng = np.random.default_rng([13, [*KINDS, "ties"].index(kind)])
    if kind == "ties":
        # Products of 48 bits whose sum with c lies within 2**-24 of a midpoint, or exactly on it.
        a = np.ldexp(rng.integers(2**23, 2**24, (40, 3)).astype(float), rng.integers(-60, 60, (40, 3)))
        b = np.ldexp(rng.integers(1, 8, (3, 40)).astype(float), rng.integers(-60, 60, (3, 40)))
        c = np.zeros((40, 40))
    else:
        a, b = operands(rng, ("fp32", "fp32"), (12, 12, 6), kind)
        c = accumulators(rng, "fp32", (12, 12), kind)
    expected = [
        [oracle.dot_ieee([*map(float, x)], [*map(float, y)], float(c[i, j])) for j, y in enumerate(b.T)]
        for i, x in enumerate(a)
    ]
    got = matmul(a, b, c, "simt.fma", inputs="fp32", engine="numpy")
    np.testing.assert_array_equal(bits(got), expected_bits(expected, np.float32))


def test_fma_step_on_the_hardest_cases():
    # a*b + c where float64 rounds onto a tie of float32, from both sides, and where the result is subnormal.
    cases = [
        (1 + 2.0**-23, 1 + 2.0**-23, 2.0**-60),
        (1 + 2.0**-12, 1 + 2.0**-12, 2.0**-70),
        (1 + 2.0**-12, 1 - 2.0**-12, 2.0**-70),
        (1 + 2.0**-12, 1 + 2.0**-12, -(2.0**-70)),
        (2.0**-80 * (1 + 2.0**-23), 2.0**-69, 2.0**-149),
        (2.0**-75, 2.0**-75, 0.0),
        (2.0**-75 * (1 + 2.0**-23), 2.0**-75, 0.0),
        (3 * 2.0**-75, 2.0**-75, -(2.0**-149)),
        (2.0**64, 2.0**64, -(2.0**127)),
        ((2 - 2.0**-23) * 2.0**63, 2.0**64, 2.0**102),
        ((2 - 2.0**-23) * 2.0**63, 2.0**64, 2.0**103),
        (-0.0, 5.0, -0.0),
        (-0.0, 5.0, 0.0),
        (2.0, 3.0, -6.0),
    ]
    for x, y, c in cases:
        got = matmul([[x]], [[y]], [[c]], "simt.fma", inputs="fp32", engine="numpy")
        assert bits(got)[0, 0] == expected_bits([oracle.fma(x, y, c)], np.float32)[0], (x, y, c)


def _scales(rng, shape, fmt, kind):
    if fmt == "e8m0":
        exponents = rng.integers(-127, 128, shape) if kind == "wide" else rng.integers(-3, 4, shape)
        scales = 2.0**exponents
        return np.where(rng.random(shape) < 0.05, np.nan, scales) if kind == "special" else scales
    scales = np.abs(any_codes(rng, "e4m3", shape))
    return scales if kind == "special" else np.where(np.isnan(scales), 1.0, scales)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pair", pairs(["e4m3", "e5m2", "e3m2", "e2m3", "e2m1"]), ids="x".join)
def test_block_scaled_mxf8f6f4(pair, kind):
    rng = np.random.default_rng([17, KINDS.index(kind), *map(ord, pair[0] + pair[1])])
    a, b = operands(rng, pair, (4, 4, 64), kind)
    c = accumulators(rng, "fp32", (4, 4), kind)
    scale_a, scale_b = _scales(rng, (4, 2), "e8m0", kind), _scales(rng, (2, 4), "e8m0", kind)
    emins = [oracle.FORMATS[key][1] for key in pair]

    def one(i, j):
        value = float(c[i, j])
        for k in range(2):
            x, y = a[i, 32 * k : 32 * k + 32], b[32 * k : 32 * k + 32, j]
            value = oracle.scaled_step([*map(float, x)], [*map(float, y)], value, scale_a[i, k], scale_b[k, j], *emins)
        return value

    got = matmul(a, b, c, "blackwell.mxf8f6f4", inputs=pair, scale_a=scale_a, scale_b=scale_b)
    np.testing.assert_array_equal(
        bits(got), expected_bits([[one(i, j) for j in range(4)] for i in range(4)], np.float32)
    )


@pytest.mark.parametrize("kind", ["uniform", "wide", "cancelling", "sparse", "special"])
@pytest.mark.parametrize(
    ("unit", "block", "scale_format", "scale_emin"), [("mxf4", 32, "e8m0", -127), ("nvf4", 16, "e4m3", -6)]
)
def test_block_scaled_fp4(unit, block, scale_format, scale_emin, kind):
    rng = np.random.default_rng([19, KINDS.index(kind), block])
    a, b = operands(rng, ("e2m1", "e2m1"), (6, 6, 128), kind)
    c = accumulators(rng, "fp32", (6, 6), kind)
    scale_a, scale_b = (_scales(rng, shape, scale_format, kind) for shape in ((6, 128 // block), (128 // block, 6)))

    def one(i, j):
        value = float(c[i, j])
        for k in range(0, 128, 64):
            groups = range(k // 16, k // 16 + 4)
            value = oracle.fp4_step(
                [*map(float, a[i, k : k + 64])],
                [*map(float, b[k : k + 64, j])],
                value,
                [scale_a[i, 16 * g // block] for g in groups],
                [scale_b[16 * g // block, j] for g in groups],
                scale_emin,
            )
        return value

    got = matmul(a, b, c, f"blackwell.{unit}", inputs="e2m1", scale_a=scale_a, scale_b=scale_b)
    np.testing.assert_array_equal(
        bits(got), expected_bits([[one(i, j) for j in range(6)] for i in range(6)], np.float32)
    )


ALTERATIONS = {
    "products": lambda unit: unit.products // 2,
    "fraction_bits": lambda unit: unit.fraction_bits + 1,
    "mantissa_bits": lambda unit: unit.mantissa_bits - 1,
    "rounding": lambda unit: {"toward_zero": "nearest_even", "nearest_even": "toward_zero"}[unit.rounding],
    "least_exponent": lambda unit: (unit.least_exponent or 0) + 1,
    "zero_exponent": lambda unit: -126 if unit.zero_exponent is None else 3,
    "adds_accumulator": lambda unit: True,
    "multiplied": lambda unit: "bf16",
}


@pytest.mark.parametrize("fact", ALTERATIONS)
@pytest.mark.parametrize(
    ("unit", "key", "accumulator"),
    [
        ("hopper.wgmma", "bf16", "fp32"),
        ("hopper.wgmma", "e5m2", "fp32"),
        ("hopper.wgmma", "fp16", "fp16"),
        ("ada.mma", "tf32", "fp32"),
    ],
)
def test_these_data_see_every_fact(unit, key, accumulator, fact):
    """Changing any one fact changes bits on the data of the tests above, so none of them is vacuous."""
    true = find_unit(unit, key, accumulator)
    value = ALTERATIONS[fact](true)
    hidden = {
        # Products of e5m2 never come near the floor, nor near what a zero could count with.
        ("e5m2", "least_exponent"),
        ("e5m2", "zero_exponent"),
        # With 11 bits in the result, bits cut 25 below the largest exponent do not show.
        ("fp16", "multiplied"),
        # bf16 and tf32 have the same emin as the stand-in.
        ("bf16", "multiplied"),
        ("tf32", "multiplied"),
    }
    wrong = dataclasses.replace(true, **{fact: value})
    seen = 0
    for kind in KINDS:
        rng = np.random.default_rng([23, KINDS.index(kind)])
        a, b = operands(rng, (key, key), (32, 32, 2 * true.depth), kind)
        for c in (accumulators(rng, accumulator, (32, 32), kind), np.zeros((32, 32))):
            right = matmul(a, b, c, true, inputs=key, accumulator=accumulator, engine="numpy")
            seen += int(
                (bits(right) != bits(matmul(a, b, c, wrong, inputs=key, accumulator=accumulator, engine="numpy"))).sum()
            )
    assert (seen == 0) == ((key, fact) in hidden), seen


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", ["fp32", "bf16", "fp16", "e4m3", "e5m2"])
def test_the_data_have_results_worth_comparing(key, kind):
    """Neither all zero nor all infinite or NaN at the K of the hardware tests, except where that is the point."""
    rng = np.random.default_rng(29)
    a, b = operands(rng, (key, key), (64, 64, 256), kind)
    c = accumulators(rng, "fp32", (64, 64), kind)
    unit = "simt.fma" if key == "fp32" else "hopper"
    got = matmul(a, b, c, unit, inputs=key)
    ordinary = (np.isfinite(got) & (got != 0)).mean()
    least = {"special": 0.0, "rare_special": 0.05, "tiny": 0.0 if key in ("e4m3", "e5m2", "fp16") else 0.5}
    assert ordinary >= least.get(kind, 0.6)
    assert kind not in ("special", "rare_special") or not np.isfinite(got).all()
