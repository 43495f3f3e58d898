"""The hardware domain against results recorded on an H200."""

import numpy as np
import pytest

pytest.importorskip("triton")

import fpsan_feature_kernels as features
import fpsan_hardware_kernels as kernels
from fpsan_kernels import strided_lanes

import fpsan_tools
from fpsan_tools.exceptions import UnknownName

pytestmark = pytest.mark.triton

F32 = np.float32


def run(kernel, grid, *arguments, **keywords):
    return fpsan_tools.run(kernel, grid, *arguments, domain="hardware", **keywords)


def words(array):
    """Hexadecimal bit patterns."""
    return [f"{int(v):0{2 * array.itemsize}x}" for v in np.atleast_1d(array).view(f"u{array.itemsize}")]


HARMONIC = (1 / np.arange(1, 257)).astype(F32)
SINES = np.sin(np.arange(1024.0))


@pytest.mark.parametrize(("warps", "expected"), [(1, "40c3faa2"), (2, "40c3faa3"), (4, "40c3faa2"), (8, "40c3faa3")])
def test_recorded_sums_of_one_axis(warps, expected):
    o = np.zeros(1, F32)
    run(kernels.sum_1d, (1,), HARMONIC, o, B=256, num_warps=warps)
    assert words(o) == [expected]


def test_recorded_sums_of_two_axes():
    o = np.zeros(64, F32)
    run(kernels.sum_2d, (1,), SINES.astype(F32), o, M=16, N=64, AXIS=0, num_warps=4)
    assert words(o[:4]) == ["3db5edec", "bd42ee40", "be0fa013", "bdd4f06e"]
    run(kernels.sum_2d, (1,), SINES.astype(F32), o, M=16, N=64, AXIS=1, num_warps=4)
    assert words(o[:4]) == ["3dc5cef0", "3f8bd0be", "3f426cac", "befe83d0"]


def test_recorded_sum_of_packed_halves():
    o = np.zeros(1, np.float16)
    run(kernels.sum_1d, (1,), SINES.astype(np.float16), o, B=1024, num_warps=4)
    assert words(o) == ["2e40"]


RECORDED_LANES = {
    (1536, True): "3cbb75c0 3cbb7600 3cbb7800 3cbb7700",
    (1536, False): "3cbb75c0 3cbb7700 3cbb7700 3cbb7400",
    (777, True): "3c4af980 3c4afc00 3c4af780 3c4af100",
    (777, False): "3c4af780 3c4af980 3c4af8e0 3c4af300",
}


@pytest.mark.parametrize(("k", "fusion"), RECORDED_LANES)
def test_recorded_strided_lanes(k, fusion):
    # K = 777 was recorded with rows of 1536 elements' alignment class of its own: the row stride is K itself.
    a, b = np.sin(np.arange(float(k))).astype(F32), np.cos(3 * np.arange(float(k))).astype(F32)
    found = []
    for warps in (1, 2, 4, 8):
        c = np.zeros(1, F32)
        options = {"num_warps": warps, "enable_fp_fusion": fusion}
        run(strided_lanes, (1, 1), a, b, c, 1, 1, k, k, 1, 1, 1, 1, 1, BLOCK=256, **options)
        found += words(c)
    assert " ".join(found) == RECORDED_LANES[k, fusion]


RECORDED_FUNCTIONS = {
    "exp": ((0.5, 1, -1, 0.1, 10, -87.5, -100), "3fd3094c 402df854 3ebc5ab2 3f8d763e 46ac14f0 006cb2b6 0000001b"),
    "log": ((0.5, 0.1, 10, 87.5), "bf317218 c0135d8e 40135d8e 408f17aa"),
    "sqrt": ((0.1, 2, 3, 10), "3ea1e89b 3fb504f3 3fddb3d7 404a62c2"),
    "rsqrt": ((0.1, 2, 3, 10), "404a62c2 3f3504f2 3f13cd3a 3ea1e89b"),
    "sigmoid": ((0.5, -3, -88, 20), "3f1f597f 3d4241a3 0041edcc 3f800000"),
    "exp2": ((0.1, -0.1, -3.7), "3f892fdf 3f6edb40 3d9d9623"),
    "log2": ((0.1, 10, 3), "c0549a78 40549a78 3fcae00d"),
}


@pytest.mark.parametrize("name", RECORDED_FUNCTIONS)
def test_recorded_functions(name):
    arguments, expected = RECORDED_FUNCTIONS[name]
    a, o = np.ones(8, F32), np.zeros(8, F32)
    a[: len(arguments)] = arguments
    run(kernels.function, (1,), a, o, B=8, NAME=name)
    assert " ".join(words(o[: len(arguments)])) == expected


def test_recorded_divisions():
    a, b, o = np.array([0.1, 10], F32), np.array([3, 3], F32), np.zeros(2, F32)
    run(kernels.quotient, (1,), a, b, o, B=2)
    assert words(o) == ["3d088889", "40555556"]
    run(kernels.function, (1,), a, o, B=2, NAME="third")  # the assembler knows the divisor
    third = F32(1) / F32(3)
    np.testing.assert_array_equal(o, a * third)


def test_special_values_of_functions():
    a, o = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1e-40, 3e38], F32), np.zeros(8, F32)
    run(kernels.function, (1,), a, o, B=8, NAME="exp")
    np.testing.assert_array_equal(o, np.array([1, 1, np.inf, 0, np.nan, F32(0.36787945), 1, np.inf], F32))
    run(kernels.function, (1,), a, o, B=8, NAME="log")
    np.testing.assert_array_equal(o[:6], np.array([-np.inf, -np.inf, np.inf, np.nan, np.nan, np.nan], F32))
    run(kernels.function, (1,), a, o, B=8, NAME="sqrt")
    np.testing.assert_array_equal(o[:7], np.array([0, -0.0, np.inf, np.nan, np.nan, np.nan, 0], F32))
    run(kernels.function, (1,), a, o, B=8, NAME="rsqrt")
    np.testing.assert_array_equal(o[:7], np.array([np.inf, -np.inf, 0, np.nan, np.nan, np.nan, np.inf], F32))
    ones = np.ones(8, F32)
    run(kernels.quotient, (1,), ones, a, o, B=8)
    np.testing.assert_array_equal(o[:6], np.array([np.inf, -np.inf, 0, -0.0, np.nan, -1], F32))
    assert words(o[4:5]) == ["7fffffff"]


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sigmoid", "third"])
def test_approximations_are_within_their_known_error(name):
    rng = np.random.default_rng(0)
    a, o = np.exp(rng.uniform(-4, 4, 4096)).astype(F32), np.zeros(4096, F32)
    run(kernels.function, (1,), a, o, B=4096, NAME=name)
    x = a.astype(np.float64)
    exact = {"exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt}
    exact |= {"rsqrt": lambda v: 1 / np.sqrt(v), "sigmoid": lambda v: 1 / (1 + np.exp(-v)), "third": lambda v: v / 3}
    reference = exact[name](x)
    ulps = np.abs(o - reference) / np.spacing(np.abs(reference).astype(F32))
    limit = {"exp": 45, "exp2": 2.2}.get(name, 3 if name != "log" and name != "log2" else 4)
    assert ulps.max() < limit
    assert (o != reference.astype(F32)).any()


@pytest.mark.parametrize(("warps", "expected"), [(1, "40c3daa3 40c3faa3"), (4, "40c3daa3 40c3faa3")])
def test_recorded_running_sums(warps, expected):
    o = np.zeros(256, F32)
    run(kernels.cumulative, (1,), HARMONIC, o, B=256, REVERSE=False, num_warps=warps)
    assert " ".join(words(o[254:])) == expected
    assert words(np.add.accumulate(HARMONIC)[254:]) == ["40c3daa4", "40c3faa4"]


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
@pytest.mark.parametrize("length", [32, 256, 2048])
def test_running_sums_of_whole_numbers_are_exact_in_every_layout(length, warps):
    a = np.random.default_rng(1).integers(-50, 50, length).astype(F32)
    o = np.zeros(length, F32)
    run(kernels.cumulative, (1,), a, o, B=length, REVERSE=False, num_warps=warps)
    np.testing.assert_array_equal(o, np.cumsum(a))
    run(kernels.cumulative, (1,), a, o, B=length, REVERSE=True, num_warps=warps)
    np.testing.assert_array_equal(o, np.cumsum(a[::-1])[::-1])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(16, 64), (128, 8), (4, 4)])
def test_running_sums_of_tiles(shape, axis):
    a = np.random.default_rng(2).integers(-50, 50, shape).astype(F32)
    o = np.zeros(shape, F32)
    run(kernels.cumulative_2d, (1,), a, o, M=shape[0], N=shape[1], AXIS=axis)
    np.testing.assert_array_equal(o, np.cumsum(a, axis=axis))


@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize("shape", [(16, 64), (64, 4), (1, 32), (2, 2), (128, 128)])
def test_sums_of_whole_numbers_are_exact_in_every_layout(shape, warps):
    a = np.random.default_rng(3).integers(-50, 50, shape).astype(F32)
    o = np.zeros(max(shape), F32)
    for axis in (0, 1):
        run(kernels.sum_2d, (1,), a, o, M=shape[0], N=shape[1], AXIS=axis, num_warps=warps)
        np.testing.assert_array_equal(o[: shape[1 - axis]], a.sum(axis))
    run(kernels.sum_all, (1,), a, o, M=shape[0], N=shape[1], num_warps=warps)
    assert o[0] == a.sum()


def test_the_order_of_a_whole_sum_depends_on_the_layout():
    a = (np.random.default_rng(4).standard_normal((64, 64)) * 1000).astype(F32)
    results = set()
    for warps in (1, 2, 4, 8):
        o = np.zeros(1, F32)
        run(kernels.sum_all, (1,), a, o, M=64, N=64, num_warps=warps)
        results.add(words(o)[0])
    assert len(results) > 1


def folded(values, masks):
    """The first value after x[i] = x[i] + x[i ^ mask] for each mask."""
    for mask in masks:
        values = values + values[np.arange(len(values)) ^ mask]
    return values[0]


# Registers low to high, lanes and warps high to low, as bits of the row-major number. A lane holds 4 columns; one
# warp of 16x64 is 2 rows by 16 lanes, so registers walk down the rows from row 2; 4 warps have rows 2 and 4 of 8.
WHOLE_SUMS = {
    (16, 64, 1): (1, 2, 128, 256, 512, 64, 32, 16, 8, 4),
    (16, 64, 4): (1, 2, 512, 64, 32, 16, 8, 4, 256, 128),
    (64, 16, 1): (1, 2, 128, 256, 512, 64, 32, 16, 8, 4),
    (128, 128, 8): (1, 2, 1024, 2048, 4096, 8192, 64, 32, 16, 8, 4, 512, 256, 128),
}


@pytest.mark.parametrize(("m", "n", "warps"), WHOLE_SUMS)
def test_whole_sums_keep_every_element_in_its_register(m, n, warps):
    rng = np.random.default_rng(10)
    a, b = ((rng.standard_normal(m * n) * 2.0 ** rng.integers(-8, 9, m * n)).astype(F32) for _ in range(2))
    o, masks = np.zeros(1, F32), WHOLE_SUMS[m, n, warps]
    options = {"M": m, "N": n, "num_warps": warps}
    run(kernels.sum_all, (1,), a, o, **options)
    assert words(o) == words(folded(a, masks))
    run(kernels.sum_of_all_products, (1,), a, b, o, **options, enable_fp_fusion=False)
    assert words(o) == words(folded(a * b, masks))
    run(kernels.sum_of_all_products, (1,), a, b, o, **options, enable_fp_fusion=True)
    import numfmt

    number = np.arange(m * n)
    lower = number & ~masks[0]  # both elements of a pair hold the fma of the lower one with the upper one's product
    first = numfmt.fma(a[lower], b[lower], (a * b)[lower | masks[0]], numfmt.FP32)
    assert words(o) == words(folded(np.asarray(first, F32), masks[1:]))


def test_hoisted_loops_keep_a_running_sum_per_thread():
    m, n, steps = 16, 64, 5
    a, o = (np.random.default_rng(5).standard_normal((steps, m, n)) * 100).astype(F32), np.zeros(m, F32)
    record = run(kernels.loop_of_row_sums, (1,), a, o, steps, M=m, N=n)
    assert record.operations["tt.reduce"] == steps + 1  # stage 1 in the loop, stages 2 and 3 behind it
    assert np.abs(o - a.sum((0, 2), dtype=np.float64)).max() < 1e-2


def test_first_steps_of_sums_of_products_are_contracted():
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal(256).astype(F32), rng.standard_normal(256).astype(F32)
    fused, plain = np.zeros(1, F32), np.zeros(1, F32)
    run(kernels.sum_of_products, (1,), a, b, fused, B=256, num_warps=1, enable_fp_fusion=True)
    run(kernels.sum_of_products, (1,), a, b, plain, B=256, num_warps=1, enable_fp_fusion=False)
    import numfmt

    def tree(values):  # masks 1 2 128 | 64 32 16 8 4 of 256 elements on one warp
        for mask in (2, 128, 64, 32, 16, 8, 4):
            values = values + values[np.arange(256) ^ mask]
        return values[0]

    products = a * b
    partner = np.arange(256) ^ 1
    assert plain[0] == tree(products + products[partner])
    first = np.where(np.arange(256) < partner, numfmt.fma(a, b, products[partner], numfmt.FP32), 0).astype(F32)
    assert fused[0] == tree(first + np.where(np.arange(256) > partner, first[partner], 0).astype(F32))


def dtype(name):
    if name in ("fp16", "fp32"):
        return np.dtype({"fp16": np.float16, "fp32": F32}[name])
    return np.dtype(getattr(pytest.importorskip("ml_dtypes"), {"bf16": "bfloat16", "e4m3": "float8_e4m3fn"}[name]))


@pytest.mark.parametrize(
    ("name", "precision", "imprecise", "fold", "tile"),
    [
        ("fp16", "ieee", None, True, (64, 32, 32)),
        ("bf16", "ieee", None, False, (64, 32, 32)),
        ("fp32", "tf32", None, True, (64, 32, 32)),
        ("e4m3", "ieee", None, True, (64, 32, 64)),
        ("e4m3", "ieee", None, False, (64, 32, 64)),
        ("e4m3", "ieee", 32, True, (64, 32, 64)),
        ("e4m3", "ieee", 64, True, (64, 32, 64)),  # promoted once per tl.dot
        ("fp16", "ieee", None, True, (32, 32, 32)),
        ("e4m3", "ieee", None, True, (32, 32, 64)),
        ("e4m3", "ieee", None, False, (32, 16, 64)),
        ("fp32", "tf32x3", None, True, (64, 32, 32)),
        ("fp32", "bf16x3", None, True, (64, 32, 32)),
        ("fp32", "bf16x6", None, True, (64, 32, 32)),
        ("fp32", "ieee", None, True, (64, 32, 32)),
    ],
)
def test_products_follow_the_matrix_unit_s_model(name, precision, imprecise, fold, tile):
    from numfmt import matrix_units

    m, n, depth = tile
    k = 4 * depth
    rng = np.random.default_rng(7)
    a = (rng.standard_normal((m, k)) * 2.0 ** rng.integers(-3, 4, (m, k))).astype(F32).astype(dtype(name))
    b = rng.standard_normal((k, n)).astype(F32).astype(dtype(name))
    c = np.zeros((m, n), F32)
    options = {"BM": m, "BN": n, "BK": depth, "PRECISION": precision, "IMPRECISE": imprecise, "FOLD": fold}
    run(kernels.tiled, (1,), a, b, c, k, **options)
    inputs = {"fp32": "fp32", "e4m3": "e4m3"}.get(name, name)
    schedule = matrix_units.tl_dot(
        depth, "acc=" if fold else "+=", precision if name == "fp32" else "tf32", imprecise, 4, m, n
    )
    expected = matrix_units.matmul(a, b, inputs=inputs, schedule=schedule)
    np.testing.assert_array_equal(c, expected)


def test_operands_that_a_descriptor_loads_can_be_transposed():
    """The compiler transposes shared memory before the copy into it: the view must show what comes later."""
    m, n, k = 64, 32, 64
    rng = np.random.default_rng(10)
    a, b = rng.integers(-8, 8, (m, 2 * k)).astype(np.float16), rng.integers(-8, 8, (n, 2 * k)).astype(np.float16)
    c = np.zeros((m, n), F32)
    run(kernels.transposed_loads, (1,), a, b, c, 2 * k, M=m, N=n, K=k)
    np.testing.assert_array_equal(c, a.astype(F32) @ b.astype(F32).T)


def test_sums_over_a_matrix_unit_s_layout():
    rng = np.random.default_rng(8)
    a, b = rng.integers(-8, 8, (64, 32)).astype(np.float16), rng.integers(-8, 8, (32, 64)).astype(np.float16)
    o = np.zeros(64, F32)
    run(kernels.row_sums_of_product, (1,), a, b, o, M=64, N=64, K=32)
    np.testing.assert_array_equal(o, (a.astype(F32) @ b.astype(F32)).sum(1))


def test_descriptors_and_branches_run_in_this_representation_too():
    m, n = 20, 28
    a, o, reference = np.random.default_rng(9).standard_normal((m, n)).astype(F32), *np.zeros((2, m, n), F32)
    run(features.made_descriptors, (2, 2), a, o, m, n, BM=16, BN=16)
    fpsan_tools.run(features.made_descriptors, (2, 2), a, reference, m, n, domain="ieee", BM=16, BN=16)
    np.testing.assert_array_equal(o, reference)
    a, o, reference = a.reshape(-1)[:12], np.zeros(12, F32), np.zeros(12, F32)
    run(features.early_return, (12,), a, o, 9)
    fpsan_tools.run(features.early_return, (12,), a, reference, 9, domain="ieee")
    np.testing.assert_array_equal(o, reference)


def test_what_is_not_known_is_said():
    a, o = np.ones(32, F32), np.zeros((11, 32), F32)
    record = run(features.functions, (1,), a, o, B=32)
    assert any("sin" in note and "not known" in note for note in record.notes)
    with pytest.raises(UnknownName, match="'sm_90'"):
        fpsan_tools.hardware("sm_91")
