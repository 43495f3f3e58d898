"""The CPU engine's features, one small kernel each, against plain NumPy (ieee domain) and against payload rules."""

import math
from fractions import Fraction

import numpy as np
import pytest

import numfmt

pytest.importorskip("triton")

import fpsan_feature_kernels as kernels
from fpsan_exact import nearest

import fpsan_tools
from fpsan_tools.exceptions import AssertionViolated, CompilationFailed, FpsanError, OutOfBounds, UnsupportedOperation

pytestmark = pytest.mark.triton

F32 = np.float32


def run(kernel, grid, *arguments, domain="ieee", **keywords):
    return fpsan_tools.run(kernel, grid, *arguments, domain=domain, **keywords)


def floats(count, seed=0, low=-4, high=4):
    return np.random.default_rng(seed).uniform(low, high, count).astype(F32)


def whole(count, seed=0, low=-9, high=10):
    """Small whole numbers: sums of them are exact in any order."""
    return np.random.default_rng(seed).integers(low, high, count).astype(F32)


def equal(actual, expected):
    np.testing.assert_array_equal(actual, expected)


# ---- functions and control flow


def test_device_functions():
    a, o = floats(32), np.zeros(32, F32)
    run(kernels.device_functions, (2,), a, o, B=16, enable_fp_fusion=False)
    equal(o, (a + a) + a * a)


def test_functions_that_are_not_inlined_may_branch():
    a, o = floats(20), np.zeros(20, F32)
    record = run(kernels.scalar_call, (20,), a, o)
    assert record.operations["tt.call"] == 20
    equal(o, np.where(a > 3, a * 2, 3 - a))


def test_early_returns_at_several_places():
    a, o = np.arange(12, dtype=F32), np.full(12, 99, F32)
    run(kernels.early_return, (12,), a, o, 9)
    equal(o, [0, -1, -2, -3, -4, 10, 12, 14, 16, 99, 99, 99])


def test_blocks_that_branch_to_each_other():
    """Unstructured control flow as the front end writes it for early returns, with values across blocks."""
    from fpsan_tools.domains import get
    from fpsan_tools.ttir.machine import Machine
    from fpsan_tools.ttir.memory import Memory, Span
    from fpsan_tools.ttir.operations import link
    from fpsan_tools.ttir.parser import parse
    from fpsan_tools.ttir.values import Address, Value

    text = """
      tt.func public @blocks(%o: !tt.ptr<i32>) {
        %c0 = arith.constant 0 : i32
        %c1 = arith.constant 1 : i32
        %c2 = arith.constant 2 : i32
        %p = tt.get_program_id x : i32
        cf.br ^bb1
      ^bb1:
        %q = arith.addi %p, %c1 : i32
        %even = arith.remsi %p, %c2 : i32
        %is = arith.cmpi eq, %even, %c0 : i32
        cf.cond_br %is, ^bb2(%q : i32), ^bb3(%p : i32)
      ^bb2(%x: i32):
        %y = arith.muli %x, %c2 : i32
        cf.br ^bb3(%y : i32)
      ^bb3(%z: i32):
        %r = arith.addi %z, %q : i32
        %at = tt.addptr %o, %p : !tt.ptr<i32>, i32
        tt.store %at, %r : !tt.ptr<i32>
        tt.return
      }
    """
    o = np.zeros(6, np.int32)
    start = o.__array_interface__["data"][0]
    memory = Memory([Span(start, start + o.nbytes, True, o, "o")])
    module = link(parse(text), "blocks")
    machine = Machine("blocks", module, get("ieee"), memory, (6, 1, 1))
    pointer = Value(Address([np.array([memory.address(start)])]), module.kernel.arguments[0][1])
    machine.run([pointer], np.arange(6))
    equal(o, [2 * (p + 1) + p + 1 if p % 2 == 0 else p + p + 1 for p in range(6)])


def test_nested_branches():
    a, o = np.arange(12, dtype=F32), np.zeros(12, F32)
    run(kernels.nested_ifs, (12,), a, o, 5)
    expected = [
        a[p] + (100 if a[p] > 5 else 200) if p % 2 == 0 else a[p] + (300 if p % 3 == 0 else 0) for p in range(12)
    ]
    equal(o, expected)


def test_loops_whose_bounds_differ_between_programs():
    a, o = whole(64), np.zeros((9, 8), F32)
    run(kernels.loops_of_different_lengths, (9,), a, o, 3, B=8)
    for p in range(9):
        ks = list(range(p % 3, p * 2, 2))
        expected = sum((a[k * 3 : k * 3 + 8] * (k + 1) for k in ks), np.zeros(8, F32)) + (ks[-1] if ks else 0)
        equal(o[p], expected)


def test_nested_loops_with_branches():
    a, o = whole(4), np.zeros((6, 4), F32)
    run(kernels.nested_loops, (6,), a, o, B=4)
    for p in range(6):
        acc = np.zeros(4, F32)
        for j in range(p):
            for k in range(j, p):
                acc += a + j * k
            acc -= 1.0 if p % 2 else 0.0
        equal(o[p], acc)


def test_loops_that_count_down():
    a, o = np.array([1, 2, 3, 4], F32), np.zeros(1, F32)
    run(kernels.downward_loop, (1,), a, o, 4)
    assert o[0] == 1 + 2 * (2 + 2 * (3 + 2 * 4))


def test_static_and_unrolled_loops():
    a, o = whole(8), np.zeros(8, F32)
    run(kernels.static_loops, (1,), a, o, B=8)
    equal(o, ((a * 2 + 0) * 2 + 1) * 2 + 2 + 6)


def test_while_loops_that_end_at_different_times():
    def collatz(n):
        return 0 if n == 1 else 1 + collatz(n // 2 if n % 2 == 0 else 3 * n + 1)

    a, o = np.arange(1, 30, dtype=np.int32), np.zeros(29, np.int32)
    run(kernels.while_collatz, (29,), a, o)
    equal(o, [collatz(int(n)) for n in a])


def test_while_loops_over_tensors():
    a, o = np.abs(floats(32)).reshape(4, 8) * np.array([[0.1], [1], [50], [3]], F32), np.zeros((4, 8), F32)
    run(kernels.while_tensors, (4,), a, o, B=8)
    for row, result in zip(a, o, strict=True):
        equal(result, row * 2.0 ** -max(0, math.ceil(math.log2(row.max()))))


# ---- reductions, scans, movement


def test_reductions_with_functions_of_the_author():
    a, o = floats(64), np.zeros(4, F32)
    a[[7, 50]] = -4.5
    run(kernels.custom_reductions, (1,), a, o, B=64)
    assert o[0] == -4.5
    assert (o[1], o[2]) == (-4.5, 7)
    product = a.copy()
    while len(product) > 1:
        product = product[::2] * product[1::2]
    assert o[3] == product[0]


def test_reductions_along_axes():
    m, n = 8, 16
    a, o = whole(m * n).reshape(m, n), np.zeros(2 * m + 2 * n + 3, F32)
    run(kernels.reductions_2d, (1,), a, o, M=m, N=n)
    grid = np.arange(m * n).reshape(m, n) + a.astype(np.int32)
    expected = [a.sum(1), a.max(0), a.argmax(1), a.argmin(0), [a.sum(), a.min()]]
    expected.append([np.bitwise_xor.reduce(grid, 0).sum()])
    equal(o, np.concatenate(expected).astype(F32))


def test_sums_are_balanced_trees_of_neighbours():
    a, o = floats(16 * 8, low=-1000).reshape(16, 8), np.zeros(2 * 16 + 2 * 8 + 3, F32)
    run(kernels.reductions_2d, (1,), a, o, M=16, N=8)
    tree = a.copy()
    while tree.shape[1] > 1:
        tree = tree[:, ::2] + tree[:, 1::2]
    equal(o[:16], tree[:, 0])
    assert not np.array_equal(o[:16], np.add.accumulate(a, axis=1)[:, -1])


def test_scans_run_in_order():
    m, n = 4, 8
    a, o = floats(m * n).reshape(m, n), np.zeros((5, m, n), F32)
    run(kernels.scans, (1,), a, o, M=m, N=n)
    equal(o[0], np.add.accumulate(a, axis=1))
    equal(o[1], np.add.accumulate(a[::-1], axis=0)[::-1])
    equal(o[2], np.multiply.accumulate(a, axis=1))
    larger, p, q = a.copy(), a.copy(), a + F32(1)
    for j in range(1, n):
        larger[:, j] = np.where(np.abs(larger[:, j - 1]) > np.abs(a[:, j]), larger[:, j - 1], a[:, j])
        q[:, j] = (q[:, j - 1].astype(np.float64) * a[:, j] + (a[:, j] + F32(1))).astype(F32)
        p[:, j] = p[:, j - 1] * a[:, j]
    equal(o[3], larger)
    np.testing.assert_allclose(o[4], p + q, rtol=1e-6)


def test_rearrangements():
    m, n = 4, 8
    a, o = whole(m * n).reshape(m, n), np.zeros(6 * m * n + 2 * n + m * n, F32)
    run(kernels.shapes, (1,), a, o, M=m, N=n)
    flat = a.reshape(-1)
    pairs = np.stack([a.sum(0), a.max(0)], -1).reshape(-1)
    parts = [a.T, (a - 2 * a).T, flat[::-1], flat, pairs, flat, flat + 1, np.broadcast_to(a.sum(1)[:, None], (m, n))]
    equal(o, np.concatenate([np.ravel(part) for part in parts]))


def test_gathers():
    m, n = 8, 16
    a = floats(m * n).reshape(m, n)
    index = np.random.default_rng(1).integers(0, 1000, (m, n)).astype(np.int32)
    o = np.zeros((2, m, n), F32)
    run(kernels.gathers, (1,), a, index, o, M=m, N=n)
    equal(o[0], np.take_along_axis(a, index % n, 1))
    equal(o[1], np.take_along_axis(a, index % m, 0))


def test_sorting():
    a, o = floats(3 * 32).reshape(3, 32), np.zeros((3, 72), F32)
    record = run(kernels.sorting, (3,), a, o, N=32, K=8)
    assert record.notes == []  # nothing depends on the order of a sum
    ordered = np.sort(a, axis=1)
    equal(o, np.concatenate([ordered, ordered[:, ::-1], ordered[:, :-9:-1]], axis=1))


def test_histograms():
    a = np.random.default_rng(2).integers(0, 8, (3, 32)).astype(np.int32)
    o = np.zeros((3, 8), np.int32)
    run(kernels.histograms, (3,), a, o, B=32, BINS=8)
    equal(o, [np.bincount(row, minlength=8) + np.bincount(row[:5], minlength=8) for row in a])
    a[1, 3] = 8
    with pytest.raises(FpsanError, match="histogram of 8 bins gets the values 0 to 8"):
        run(kernels.histograms, (3,), a, o, B=32, BINS=8)


# ---- integers and casts


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64])
def test_integer_arithmetic(dtype):
    info, rng = np.iinfo(dtype), np.random.default_rng(3)
    low = max(info.min, -(2**31))
    a = rng.integers(low, min(info.max, 2**31), 64).astype(dtype)
    b = rng.integers(max(low, -100), 100, 64).astype(dtype)
    b[b == 0] = 7
    o = np.zeros((9, 64), dtype)
    run(kernels.integers, (1,), a, b, o, B=64)
    bits = info.bits

    def wrap(values):
        reduced = [int(v) & ((1 << bits) - 1) for v in values]
        return np.array([v - (1 << bits) if info.min < 0 and v >> (bits - 1) else v for v in reduced], dtype)

    x, y = [int(v) for v in a], [int(v) for v in b]

    def quotient(p, q):
        return abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)

    pairs = list(zip(x, y, strict=True))
    equal(o[0], wrap(p + q * 3 - 7 for p, q in pairs))
    equal(o[1], wrap(quotient(p, q) for p, q in pairs))
    equal(o[2], wrap(p - quotient(p, q) * q for p, q in pairs))
    equal(o[4], wrap((p & q) | ~p for p, q in pairs))
    equal(o[5], wrap(max(p, q) - min(p, q) + abs(p) for p, q in pairs))
    equal(o[6], wrap(p if (p < q and p != 3) or p >= 100 else q for p, q in pairs))
    # Shifts: the front end widens to the common type of both operands first, so only what fits is compared here.
    if bits >= 32:
        equal(o[3], wrap((int(wrap([p << (q & 15)])[0])) ^ (p >> (q & 15)) for p, q in pairs))


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_unsigned_integers_are_unsigned(dtype):
    bits = np.iinfo(dtype).bits
    a, b = (
        np.random.default_rng(s).integers(0, 1 << (bits - 1), 64, dtype=dtype) * dtype(2) + dtype(1) for s in (4, 5)
    )
    o = np.zeros((5, 64), dtype)
    run(kernels.wide_integers, (1,), a, b, o, B=64)
    pairs = [(int(p), int(q)) for p, q in zip(a, b, strict=True)]
    equal(o[0], np.array([(p * q) >> bits for p, q in pairs], dtype))
    equal(o[1], np.array([p // (q | 1) for p, q in pairs], dtype))
    equal(o[2], np.array([p % (q | 1) for p, q in pairs], dtype))
    equal(o[3], np.array([p >> (q & 7) for p, q in pairs], dtype))
    equal(o[4], np.minimum(a, b))


def test_integer_casts():
    a = np.array(
        [0, 1, -1, 5, 6, 127, 128, 255, 256, -129, 2**31 - 1, -(2**31), 70000, -70000, 300, 16777217], np.int32
    )
    outputs = [np.zeros(16, t) for t in (np.int8, np.uint8, np.int16, np.int64, np.bool_, F32)]
    run(kernels.integer_casts, (1,), a, *outputs, B=16)
    equal(outputs[0], a.astype(np.int8))
    equal(outputs[1], a.astype(np.uint8))
    equal(outputs[2], a.astype(np.int8).astype(np.int16))
    equal(outputs[3], a.view(np.uint32).astype(np.int64) + a.astype(np.uint8))
    equal(outputs[4], a > 5)
    equal(outputs[5], a.astype(F32) + a.view(np.uint32).astype(F32) + (a > 5).astype(F32))


def test_floats_to_integers_truncate_and_saturate():
    a = np.array([0.5, -0.5, 1.99, -1.99, 100.7, -3.2, 3e9, -3e9, 1e20, -1e20, np.nan, np.inf, 7, 8, 9, 10], F32)
    outputs = [np.zeros(16, t) for t in (np.int32, np.int8, np.uint32, np.int64)]
    run(kernels.float_to_integer, (1,), a, *outputs, B=16)
    limits = {np.int32: (-(2**31), 2**31 - 1), np.int8: (-128, 127), np.int64: (-(2**63), 2**63 - 1)}
    for output, (low, high) in zip((outputs[0], outputs[1], outputs[3]), limits.values(), strict=True):
        exact = [0 if math.isnan(v) else v if math.isinf(v) else math.trunc(v) for v in a.tolist()]
        equal(output, np.array([int(max(low, min(high, v))) for v in exact], output.dtype))
    positive = [0 if math.isnan(v) else min(2**32 - 1, v) for v in np.abs(a).tolist()]
    equal(outputs[2], np.array([int(v) for v in positive], np.uint32))


def test_bitcasts():
    a = floats(16)
    a[3] = np.nan
    o, of = np.zeros(16, np.int32), np.zeros(16, F32)
    run(kernels.bitcasts, (1,), a, o, of, B=16)
    equal(o, a.view(np.int32))
    equal(of.view(np.uint32), (-a).view(np.uint32))


NARROW = ("fp16", "bf16", "fp8e4m3fn", "fp8e5m2")


def dtype_of(name):
    """NumPy's or ml_dtypes' dtype of a float type."""
    native = {"fp64": np.float64, "fp32": np.float32, "fp16": np.float16}.get(name)
    if native is not None:
        return np.dtype(native)
    names = {"bf16": "bfloat16", "fp8e4m3fn": "float8_e4m3fn", "fp8e5m2": "float8_e5m2"}
    return np.dtype(getattr(pytest.importorskip("ml_dtypes"), names[name]))


def hard_values(count=4096):
    """Floats of all magnitudes, near midpoints of narrow types, zeros, infinities, NaN."""
    rng = np.random.default_rng(6)
    values = (rng.standard_normal(count) * 2.0 ** rng.integers(-30, 20, count)).astype(F32)
    bits = values.view(np.uint32)
    bits[: count // 2] &= np.uint32(0xFFFF8000)  # midpoints of bf16 and neighbours
    bits[: count // 4] += rng.integers(-1, 2, count // 4).astype(np.uint32)
    values[-6:] = 0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38
    return values


@pytest.mark.parametrize("name", NARROW)
def test_casts_from_fp32_round_once(name):
    a = hard_values()
    dtype = dtype_of(name)
    o = np.zeros(4096, dtype)
    run(kernels.convert, (1,), a, o, B=4096, ROUNDING="rtne")
    if name.startswith("fp8"):  # conversions to 8 bits saturate
        largest = float(pytest.importorskip("ml_dtypes").finfo(dtype).max)
        with np.errstate(invalid="ignore"):
            expected = np.clip(a, -largest, largest).astype(dtype_of(name))
    else:
        with np.errstate(over="ignore"):
            expected = a.astype(dtype_of(name))
    finite = ~np.isnan(a)
    equal(o.view(f"u{o.itemsize}")[finite], expected.view(f"u{o.itemsize}")[finite])
    assert np.isnan(o[~finite].astype(F32)).all()


@pytest.mark.parametrize("name", NARROW)
def test_casts_to_fp32_and_back_keep_every_pattern(name):
    dtype = dtype_of(name)
    codes = np.arange(1 << (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}")
    a, wide, back = codes.view(dtype), np.zeros(len(codes), F32), np.zeros(len(codes), dtype)
    run(kernels.convert, (1,), a, wide, B=len(codes), ROUNDING=None)
    equal(wide, a.astype(F32))
    run(kernels.convert, (1,), wide, back, B=len(codes), ROUNDING=None)
    numbers = ~np.isnan(wide) & ~np.isinf(wide)
    equal(back.view(codes.dtype)[numbers], codes[numbers])


def test_casts_toward_zero():
    a, o = hard_values(), np.zeros(4096, dtype_of("bf16"))
    run(kernels.convert, (1,), a, o, B=4096, ROUNDING="rtz")
    finite = np.isfinite(a)
    equal(o.view(np.uint16)[finite], (a.view(np.uint32) >> 16).astype(np.uint16)[finite])


@pytest.mark.parametrize("name", ["fp64", "fp32", "fp16", "bf16"])
def test_float_arithmetic_rounds_once_in_its_own_type(name):
    dtype = dtype_of(name)
    from fractions import Fraction

    import numfmt

    fmt = {"fp64": numfmt.FP64, "fp32": numfmt.FP32, "fp16": numfmt.FP16, "bf16": numfmt.BF16}[name]
    rng = np.random.default_rng(7)
    a, b, c = ((rng.standard_normal(128) * 2.0 ** rng.integers(-7, 7, 128)).astype(dtype) for _ in range(3))
    o = np.zeros((11, 128), dtype)
    run(kernels.arithmetic, (1,), a, b, c, o, B=128, enable_fp_fusion=False)
    x, y, z = ([Fraction(float(v)) for v in array] for array in (a, b, c))
    shape = (fmt.precision, fmt.emin)
    exact = [
        [p + q for p, q in zip(x, y, strict=True)],
        [p - q for p, q in zip(x, y, strict=True)],
        [p * q for p, q in zip(x, y, strict=True)],
        None,
        [p * q + r for p, q, r in zip(x, y, z, strict=True)],
    ]
    for row, values in enumerate(exact):
        if values is not None:
            equal(o[row].astype(np.float64), [float(nearest(v, *shape)) for v in values])
    quotients = [p / q for p, q in zip(x, y, strict=True)]
    wide = quotients if dtype.itemsize > 2 else [nearest(v) for v in quotients]  # narrow types divide in fp32
    equal(o[3].astype(np.float64), [float(nearest(v, *shape)) for v in wide])
    p, q, r = (v.astype(np.float64) for v in (a, b, c))
    for row, values in ((5, -p), (6, abs(p)), (7, np.maximum(p, q)), (8, np.minimum(p, q)), (9, np.maximum(p, q))):
        equal(o[row].astype(np.float64), values)
    equal(o[10].astype(np.float64), np.clip(p, np.minimum(q, r), np.maximum(q, r)))


def test_minima_and_maxima_of_zeros_and_nans():
    a = np.array([0.0, -0.0, np.nan, 1.0, np.nan, -np.inf, np.inf, 2.0], F32)
    b = np.array([-0.0, 0.0, 1.0, np.nan, np.nan, np.nan, 1.0, 3.0], F32)
    o = np.zeros((11, 8), F32)
    run(kernels.arithmetic, (1,), a, b, b, o, B=8)
    equal(o[7], np.array([0.0, 0.0, 1.0, 1.0, np.nan, -np.inf, np.inf, 3.0], F32))
    equal(np.signbit(o[7][:2]), [False, False])
    equal(o[8], np.array([-0.0, -0.0, np.nan, np.nan, np.nan, np.nan, 1.0, 2.0], F32))
    equal(np.signbit(o[8][:2]), [True, True])


def test_functions_are_correct_to_the_last_place():
    a, o = floats(256, low=-8, high=8), np.zeros((11, 256), F32)
    run(kernels.functions, (1,), a, o, B=256)
    x = a.astype(np.longdouble)
    expected = [
        np.exp(x), np.exp2(x), np.log(abs(x)), np.log2(abs(x)), np.sqrt(abs(x)), np.sin(x), np.cos(x),
        np.array([math.erf(float(v)) for v in a]), np.floor(x), np.ceil(x), 1 / np.sqrt(abs(x)),
    ]  # fmt: skip
    for row, values in zip(o, expected, strict=True):
        equal(row, np.asarray(values).astype(F32))


def test_device_library_functions():
    a, b = floats(32), floats(32, seed=1, low=1, high=3)
    a[5] = np.nan
    o, oi = np.zeros((6, 32), F32), np.zeros((4, 32), np.int32)
    run(kernels.device_library, (1,), a, b, o, oi, B=32)
    x, y = a.astype(np.longdouble), b.astype(np.longdouble)
    wide = [np.tanh(x), np.power(abs(x), y), np.log1p(abs(x)), np.rint(x), np.fmod(x, y), np.arctan2(x, y)]
    for row, values in zip(o, wide, strict=True):
        equal(row, values.astype(F32))
    equal(oi[0], np.isnan(a))
    equal(oi[1], np.nan_to_num(np.rint(a)).astype(np.int32))
    numbers = [i * 12345 for i in range(32)]
    equal(oi[2], [n.bit_count() for n in numbers])
    equal(oi[3], [32 - n.bit_length() for n in numbers])


# ---- fusion


def test_products_are_contracted_by_the_observed_rules():
    def fma32(x, y, z):
        return numfmt.fma(x, y, z, numfmt.FP32)

    a, b, c = (floats(64, seed=s) for s in (1, 2, 3))
    two = np.full(64, 2, F32)
    fused = [
        fma32(a, b, c), fma32(a, b, c), fma32(a, b, -c), fma32(-a, b, c), fma32(a, b, b * c), fma32(a, c, b),
        fma32(a, b, a * c), fma32(a * b, two, c), np.where(a > b, a * b, c) + c, (a + b) * c, fma32(-a, b, c),
        fma32(a, b, -(b * c)),
    ]  # fmt: skip
    plain = [
        a * b + c, c + a * b, a * b - c, c - a * b, a * b + b * c, a * c + b, a * c + a * b, (a * b) * two + c,
        np.where(a > b, a * b, c) + c, (a + b) * c, -(a * b) + c, a * b - b * c,
    ]  # fmt: skip
    for case in range(12):
        for fusion, expected in ((True, fused), (False, plain)):
            o = np.zeros(128, F32)
            run(kernels.fusions, (1,), a, b, c, o, B=64, CASE=case, enable_fp_fusion=fusion)
            equal(o[:64], expected[case])
            if case in (5, 6):
                equal(o[64:], a * c)


# ---- memory


def test_integer_atomics_and_what_they_return():
    programs, lanes = 3, 8
    a = np.random.default_rng(8).integers(0, 100, (programs, lanes)).astype(np.int32)
    o, old = np.array([0, 0, 0, 0, 5, 5, 50, -1, 0, 0, 0, 0], np.int32), np.zeros((programs, lanes), np.int32)
    start = o.copy()
    run(kernels.atomics, (programs,), a, o, old, 6, B=lanes)
    running = start[:4].copy()
    for p in range(programs):
        for i in range(lanes):
            if i < 6:
                assert old[p, i] == running[i % 4]
                running[i % 4] += a[p, i]
    equal(o[:4], running)
    equal(o[4:6], [max(5, a[:, ::2].max()), max(5, a[:, 1::2].max())])
    assert o[6] == min(50, a.min())
    assert o[7] == np.bitwise_and.reduce(a, axis=None)
    assert o[8] == np.bitwise_or.reduce(a, axis=None)
    assert o[9] == np.bitwise_xor.reduce(a, axis=None)
    assert (o[10], o[11]) == (programs - 1, programs)


def test_float_atomics_in_program_order():
    a, o = floats(32), np.array([0, 0, -100, 100], F32)
    record = run(kernels.float_atomics, (4,), a, o, B=8)
    expected = np.zeros(2, F32)
    for i, value in enumerate(a):
        expected[i % 2] += value
    equal(o, [*expected, a.max(), a.min()])
    assert any("program order" in note for note in record.notes)


def test_float_atomics_are_summed_as_payloads():
    a, o = floats(32), np.zeros(4, F32)
    record = run(kernels.float_atomics, (4,), a, o, domain="payload", B=8)
    algebra = fpsan_tools.algebra.get()
    payloads = algebra.embed(a, "fp32").reshape(16, 2)
    equal(algebra.embed(o[:2], "fp32"), algebra.sum(payloads, axis=0))
    assert any(entry.op.startswith("tt.atomic_rmw") for entry in record.unsanitised)


def test_locks_make_programs_take_turns():
    a, o, lock = floats(5), np.array([1], F32), np.zeros(1, np.int32)
    run(kernels.spin_lock, (5,), a, o, lock)
    expected = F32(1)
    for value in a:
        expected = expected * F32(2) + value
    assert o[0] == expected
    assert lock[0] == 0


def test_waiting_for_ever_is_an_error(monkeypatch):
    from fpsan_tools.ttir import control

    monkeypatch.setattr(control, "WAIT_LIMIT", 50)
    with pytest.raises(FpsanError, match=r"waits_for_ever.*after 50 rounds this loop still waits"):
        run(kernels.waits_for_ever, (1,), np.zeros(1, F32), np.zeros(1, np.int32))


def test_the_last_program_finds_what_the_others_wrote():
    a, o, parts, counter = whole(7), np.zeros(1, F32), np.zeros(7, F32), np.zeros(1, np.int32)
    run(kernels.last_one_sums, (7,), a, o, parts, counter, 7)
    assert o[0] == 2 * a.sum()


@pytest.mark.parametrize("domain", ["ieee", "payload"])
def test_descriptors_made_in_the_kernel(domain):
    m, n = 20, 28
    a, o = floats(m * n).reshape(m, n), np.zeros((m, n), F32)
    run(kernels.made_descriptors, (2, 2), a, o, m, n, domain=domain, BM=16, BN=16)
    padded = np.zeros((m + 30, n + 30), F32)
    padded[10 : 10 + m, 10 : 10 + n] = a
    shifted = np.zeros((m, n), F32)
    for r in (0, 16):
        for c in (0, 16):
            block = padded[10 + r + 3 : 10 + r + 19, 10 + c - 2 : 10 + c + 14][: m - r, : n - c]
            shifted[r : r + 16, c : c + 16] = block
    if domain == "ieee":
        equal(o, a * 2 + shifted)
    else:
        algebra = fpsan_tools.algebra.get()
        two, x, y = (algebra.embed(np.asarray(v, F32), "fp32") for v in (2.0, a, shifted))
        equal(algebra.embed(o, "fp32"), algebra.add(algebra.mul(x, two), y))


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
def test_block_pointers_where_triton_still_has_them():
    a = floats(20 * 28).reshape(20, 28)
    for domain in ("ieee", "hardware"):
        o = np.zeros_like(a)
        arguments, options = (a, o, 20, 28), {"BM": 16, "BN": 16, "domain": domain}
        if not kernels.triton.__version__.startswith("3.8."):
            with pytest.raises(CompilationFailed, match=r"(?s)kernel 'block_pointers'.*have been removed"):
                run(kernels.block_pointers, (2,), *arguments, **options)
            continue
        run(kernels.block_pointers, (2,), *arguments, **options)
        equal(o, a + a)


def test_descriptors_may_pad_with_nan():
    a, o = floats(5 * 8).reshape(5, 8), np.zeros((16, 16), F32)
    run(kernels.nan_padding, (1,), a, o, 5, 8, B=16, bounds="all")  # the outside of a descriptor is no mistake
    equal(o[:5, :8], a)
    o[:5, :8] = np.nan
    assert np.isnan(o).all()


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_descriptors_passed_from_the_host(kind):
    from triton.tools.tensor_descriptor import TensorDescriptor

    a, o = whole(32 * 48).reshape(32, 48), np.zeros((48, 32), F32)
    if kind == "torch":
        torch = pytest.importorskip("torch")
        source, target = (TensorDescriptor.from_tensor(torch.from_numpy(x), [16, 16]) for x in (a, o))
    else:
        source, target = (TensorDescriptor.from_tensor(fpsan_tools.typed(x), [16, 16]) for x in (a, o))
    run(kernels.passed_descriptors, (2, 3), source, target, B=16)
    equal(o, 2 * a.T)


def test_descriptors_gather_and_scatter_rows():
    a, o = floats(20 * 32).reshape(20, 32), np.zeros((20, 32), F32)
    rows = np.array([3, 0, 19, 7, 7, 25, 1, 2], np.int32)
    run(kernels.gathering_descriptors, (1,), a, o, rows, 20, 32, B=16)
    for line, row in enumerate(rows):
        equal(o[line, :16], a[row, 4:20] if row < 20 else np.zeros(16))
    assert not o[8:].any()


def test_masked_off_lanes_without_other_are_zero():
    a, o = floats(8), np.full(8, 9, F32)
    run(kernels.without_other, (1,), a, o, 5, B=8)
    equal(o, [*a[:5], 0, 0, 0])


def test_copies_keep_every_bit_pattern():
    for name, dtype in (("fp16", np.uint16), ("bf16", np.uint16), ("fp8e4m3fn", np.uint8), ("fp8e5m2", np.uint8)):
        codes = np.arange(np.iinfo(dtype).max + 1, dtype=dtype)
        for domain in ("ieee", "payload"):
            o = np.zeros_like(codes)
            run(kernels.copy, (len(codes) // 64,), fpsan_tools.typed(codes, name), fpsan_tools.typed(o, name),
                domain=domain, B=64)  # fmt: skip
            equal(o, codes)
    patterns = np.array([0x7F800001, 0xFFC12345, 0x7FFFFFFF, 0x80000000, 1, 0x00800000, 0xFF800000, 3], np.uint32)
    o = np.zeros(8, np.uint32)
    for domain in ("ieee", "payload"):
        run(kernels.copy, (1,), patterns.view(F32), o.view(F32), domain=domain, B=8)
        equal(o, patterns)


def test_pointers_that_depend_on_choices():
    a, b, o = floats(8), floats(8, seed=1), np.zeros((4, 8), F32)
    run(kernels.pointers_by_choice, (4,), a, b, o, 3, B=8)
    mixed = np.where(np.arange(8) < 3, a, b)
    equal(o, [mixed + (b if p % 2 else a) for p in range(4)])


def test_pointers_that_are_read_from_memory():
    data, o = floats(32), np.zeros((3, 8), F32)
    address = data.__array_interface__["data"][0]
    table = np.array([address + 32, address, address + 96], np.int64)
    with pytest.raises(OutOfBounds, match="none of the arrays"):
        run(kernels.pointer_table, (3,), table, o, B=8)
    run(kernels.pointer_table, (3,), table, o, B=8, reachable=[data])
    equal(o, data.reshape(4, 8)[[1, 0, 3]])
    table[2] += 4
    with pytest.raises(OutOfBounds, match=r"array 'reachable\[0\]'"):
        run(kernels.pointer_table, (3,), table, o, B=8, reachable=[data])


def test_the_same_memory_passed_twice():
    x = floats(16)
    before = x.copy()
    run(kernels.copy, (1,), x[:8], x[8:], B=8)
    equal(x, [*before[:8], *before[:8]])


def test_views_are_checked_to_their_own_ends():
    x, o = floats(16), np.zeros(16, F32)
    with pytest.raises(OutOfBounds, match="array 'a'"):
        run(kernels.copy, (2,), x[:8], o, B=8)


def test_stores_outside_are_found():
    a, o = floats(16), np.zeros(15, F32)
    with pytest.raises(
        OutOfBounds, match=r"store out of bounds in 1 lane; the first is 4 bytes past the end of array 'o'"
    ):
        run(kernels.copy, (2,), a, o, B=8)


# ---- arguments


def test_tuples_of_arrays_and_numbers():
    a, b, o = whole(8), whole(8, seed=1), np.zeros(8, F32)
    run(kernels.tuple_arguments, (1,), (a, b), (3, 0.5), o, B=8)
    equal(o, a * 3 + b * F32(0.5))


def test_missing_arrays_and_ones_are_specialised():
    a, o = floats(8), np.zeros(8, F32)
    run(kernels.optional_bias, (1,), a, None, o, 1, B=8)
    equal(o, a)
    run(kernels.optional_bias, (1,), a, a, o, 1, B=8)
    equal(o, a + a)


def test_autotuned_kernels_take_the_first_configuration_and_measure_nothing():
    a, o = floats(64), np.zeros(64, F32)
    run(kernels.tuned, lambda meta: (-(-64 // meta["B"]),), a, o, 64)
    equal(o, a * 2)
    assert kernels.tuned.cache == {}


def test_heuristics():
    a, o = floats(10), np.zeros(10, F32)
    run(kernels.heuristic, (1,), a, o, 10)
    equal(o, a * 5)


def test_wrong_arguments_are_refused_in_a_sentence():
    a, o = floats(8), np.zeros(8, F32)
    with pytest.raises(FpsanError, match=r"kernel 'copy': .*missing 1 required .*'B'"):
        run(kernels.copy, (1,), a, o)
    with pytest.raises(FpsanError, match=r"kernel 'copy': Keyword argument C was specified but unrecognised"):
        run(kernels.copy, (1,), a, o, B=8, C=3)
    with pytest.raises(FpsanError, match=r"argument 'a': arrays of dtype complex64 cannot be passed"):
        run(kernels.copy, (1,), a.astype(np.complex64), o, B=8)
    with pytest.raises(CompilationFailed, match="Triton refuses kernel 'copy'"):
        run(kernels.copy, (1,), a, o, B=7)
    for grid in ((1, 1, 1, 1), (1.5,), 2.0, (-1,), ()):
        with pytest.raises(FpsanError, match="one to three whole numbers of programs"):
            run(kernels.copy, grid, a, o, B=8)
    run(kernels.copy, np.int64(1), a, o, B=8)
    equal(o, a)
    with pytest.raises(FpsanError, match="needs a NumPy array, not list"):
        fpsan_tools.typed([1], "bf16")


def test_globals_that_change_are_refused(monkeypatch):
    a, o = floats(8), np.zeros(8, F32)
    run(kernels.scaled_by_a_global, (1,), a, o, B=8)
    equal(o, a * 3)
    from triton import language

    monkeypatch.setattr(kernels, "FACTOR", language.constexpr(4))
    with pytest.raises(FpsanError, match="'scaled_by_a_global': global variable FACTOR has changed"):
        run(kernels.scaled_by_a_global, (1,), a, o, B=8)


# ---- effects


def test_assertions():
    a, o = np.abs(floats(8)), np.zeros(8, F32)
    run(kernels.assertion, (1,), a, o, B=8, debug=True)
    a[3] = -1
    with pytest.raises(
        AssertionViolated, match=r"'assertion' at .*feature_kernels.py:\d+.*negative input.*\(0, 0, 0\)"
    ):
        run(kernels.assertion, (1,), a, o, B=8, debug=True)
    run(kernels.assertion, (1,), a, o, B=8)  # without debug mode nothing is asserted, as on a GPU


def test_overflows_of_debug_mode():
    a, o = np.zeros(4, F32), np.zeros(4, F32)
    with pytest.raises(AssertionViolated, match="int32 overflow"):
        run(kernels.loops_of_different_lengths, (9,), a, o, 2**30, B=8, debug=True)


def test_assumptions_are_checked():
    a, o = floats(8), np.zeros(1, F32)
    run(kernels.assumption, (1,), a, o, 5)
    assert o[0] == a[5]
    with pytest.raises(AssertionViolated, match=r"tl\.assume does not hold"):
        run(kernels.assumption, (1,), a, o, 2)


def test_prints_are_shown_and_recorded(capsys):
    a = np.array([1.5, -2.0], F32)
    record = run(kernels.printing, (2,), a, B=2)
    assert record.printed[0] == "pid (0, 0, 0) idx (0) value: (operand 0) 1.5"
    assert record.printed[-1] == "pid (1, 0, 0) value: (operand 1) 1"
    assert capsys.readouterr().out.splitlines() == record.printed


def test_functions_mapped_over_elements_may_branch():
    a, b, o = floats(16), floats(16, seed=1), np.zeros((2, 16), F32)
    run(kernels.mapped, (1,), a, b, o, B=16)
    equal(o[0], np.where(a > b, b, a))
    equal(o[1], np.where(a > b, a * 2, b))


def test_inline_assembly_has_a_payload_and_no_ieee_meaning():
    a, o = floats(8), np.zeros(8, F32)
    with pytest.raises(FpsanError, match=r"'assembly' at .*: inline assembly has no meaning in the domain 'ieee'"):
        run(kernels.assembly, (1,), a, o, B=8)
    run(kernels.assembly, (1,), a, o, B=8, domain="payload", version="3.9")
    algebra = fpsan_tools.algebra.get("3.9")
    expected = algebra.inline_asm("add.f32 $0, $1, $1;", [algebra.embed(a, "fp32")], "fp32")
    equal(algebra.embed(o, "fp32"), expected)


# ---- products


@pytest.mark.parametrize("name", ["fp32", "fp16", "bf16", "fp8e4m3fn", "fp8e5m2"])
def test_products_of_every_type_are_fma_chains(name):
    m, n, k = 16, 16, 32
    dtype = dtype_of(name)
    a, b = (floats(m * k, seed=s).astype(dtype) for s in (1, 2))
    c, o = floats(m * n, seed=3).reshape(m, n), np.zeros((m, n), F32)
    run(kernels.dots, (1,), a, b, c, o, M=m, N=n, K=k, PRECISION="ieee")
    x, y = a.astype(F32).reshape(m, k), b.astype(F32).reshape(k, n)
    for row, column in ((0, 0), (15, 15), (3, 9)):
        total = Fraction(float(c[row, column]))
        for j in range(k):
            total = nearest(total + Fraction(float(x[row, j])) * Fraction(float(y[j, column])))
        assert o[row, column] == float(total)


def test_products_with_fp16_and_fp64_accumulators():
    for dtype, precision in ((np.float16, "ieee"), (np.float64, "ieee")):
        a, b, c = (floats(256, seed=s).astype(dtype) for s in (1, 2, 3))
        o = np.zeros(256, dtype)
        run(kernels.dots, (1,), a, b, c, o, M=16, N=16, K=16, PRECISION=precision)
        exact = a.reshape(16, 16).astype(np.longdouble) @ b.reshape(16, 16) + c.reshape(16, 16)
        eps = float(np.finfo(dtype).eps)
        assert np.abs(o.reshape(16, 16) - exact).max() < 200 * 8 * eps
        assert (o.reshape(16, 16) == exact.astype(dtype)).mean() > 0.05


def test_tf32_products_round_their_operands():
    a, b, c = floats(256, seed=1), floats(256, seed=2), np.zeros(256, F32)
    o, rounded = np.zeros(256, F32), np.zeros(256, F32)
    record = run(kernels.dots, (1,), a, b, c, o, M=16, N=16, K=16, PRECISION="tf32")
    x, y = (np.asarray(numfmt.TF32.round(v), F32) for v in (a, b))
    run(kernels.dots, (1,), x, y, c, rounded, M=16, N=16, K=16, PRECISION="ieee")
    equal(o, rounded)
    assert any("TF32" in note for note in record.notes)


@pytest.mark.parametrize(("precision", "bound"), [("tf32x3", 2e-6), ("bf16x3", 2e-4), ("bf16x6", 2e-6)])
def test_split_products(precision, bound):
    a, b, c, o = floats(512, seed=1), floats(512, seed=2), floats(256, seed=3), np.zeros(256, F32)
    record = run(kernels.dots, (1,), a, b, c, o, M=16, N=16, K=32, PRECISION=precision)
    exact = a.reshape(16, 32).astype(float) @ b.reshape(32, 16) + c.reshape(16, 16)
    magnitude = np.abs(a.reshape(16, 32)) @ np.abs(b.reshape(32, 16)) + np.abs(c.reshape(16, 16))
    error = np.abs(o.reshape(16, 16) - exact) / magnitude
    assert error.max() < bound
    assert any(precision in note for note in record.notes)
    with pytest.raises(FpsanError, match="splits the operands before FpSan sees them"):
        run(kernels.dots, (1,), a, b, c, o, domain="payload", M=16, N=16, K=32, PRECISION=precision)


def test_integer_products():
    rng = np.random.default_rng(9)
    a, b = rng.integers(-128, 128, (16, 32)).astype(np.int8), rng.integers(-128, 128, (32, 16)).astype(np.int8)
    c, o = rng.integers(-1000, 1000, (16, 16)).astype(np.int32), np.zeros((16, 16), np.int32)
    run(kernels.dots, (1,), a, b, c, o, M=16, N=16, K=32, PRECISION="ieee")
    equal(o, a.astype(np.int32) @ b.astype(np.int32) + c)


def test_batched_products():
    a, b, o = whole(512).reshape(2, 16, 16), whole(512, seed=1).reshape(2, 16, 16), np.zeros((2, 16, 16), F32)
    run(kernels.batched_dots, (1,), a, b, o, S=16)
    equal(o, a @ b)


@pytest.mark.parametrize(("left", "right"), [("e2m1", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e2m1")])
def test_block_scaled_products(left, right):
    m, n, k = 16, 16, 64
    rng = np.random.default_rng(10)
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kinds = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
    fp4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    fp4 = np.concatenate([fp4, -fp4])

    def operand(form, shape, axis):
        if form == "e2m1":
            codes = rng.integers(0, 16, shape).astype(np.uint8)
            even = np.take(codes, np.arange(0, k, 2), axis)
            odd = np.take(codes, np.arange(1, k, 2), axis)
            return np.ascontiguousarray(even | (odd << 4)), fp4[codes], 2
        values = rng.integers(-8, 9, shape).astype(kinds[form])
        return values.view(np.uint8), values.astype(np.float64), 1

    x, exact_x, pack_x = operand(left, (m, k), 1)
    y, exact_y, pack_y = operand(right, (k, n), 0)
    sx, sy = (rng.integers(124, 131, (rows, k // 32)).astype(np.uint8) for rows in (m, n))
    o = np.zeros((m, n), F32)
    run(kernels.block_scaled, (1,), x, sx, y, sy, o, M=m, N=n, K=k, FA=left, FB=right, PA=pack_x, PB=pack_y)
    scale_x = np.repeat(2.0 ** (sx.astype(float) - 127), 32, axis=1)
    scale_y = np.repeat(2.0 ** (sy.astype(float) - 127), 32, axis=1).T
    equal(o, ((exact_x * scale_x) @ (exact_y * scale_y)).astype(F32))


# ---- payload identities of whole kernels


def test_payload_softmax_of_odd_length_sums_to_one():
    n = 13
    a, o = floats(4 * n).reshape(4, n), np.zeros((4, n), F32)
    run(kernels.softmax_rows, (4,), a, o, n, n, domain="payload", B=16)
    algebra = fpsan_tools.algebra.get()
    one = algebra.embed(np.ones(4, F32), "fp32")
    equal(algebra.sum(algebra.embed(o, "fp32"), axis=1), one)


def test_ieee_softmax_is_close_to_the_exact_one():
    n = 13
    a, o = floats(4 * n).reshape(4, n), np.zeros((4, n), F32)
    run(kernels.softmax_rows, (4,), a, o, n, n, B=16)
    e = np.exp(a.astype(np.float64) - a.max(1, keepdims=True))
    np.testing.assert_allclose(o, e / e.sum(1, keepdims=True), rtol=1e-6)


def test_unknown_operations_are_refused_with_kernel_line_and_name(monkeypatch):
    from fpsan_tools.ttir import operations

    monkeypatch.delitem(operations.OPERATIONS, "math.erf")
    a, o = floats(32), np.zeros((11, 32), F32)
    with pytest.raises(
        UnsupportedOperation, match=r"'functions' at .*fpsan_feature_kernels.py:\d+: operation math.erf"
    ) as info:
        run(kernels.functions, (1,), a, o, B=32)
    assert (info.value.kernel, info.value.op) == ("functions", "math.erf")
    assert info.value.line > 0
