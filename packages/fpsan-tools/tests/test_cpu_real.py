"""The real domain, and the ranking of source lines by their rounding errors."""

import inspect

import numpy as np
import pytest

import numfmt

pytest.importorskip("triton")

import fpsan_feature_kernels as kernels
from fpsan_kernels import blocked, strided_lanes

import fpsan_tools
from fpsan_tools.exceptions import FpsanError
from fpsan_tools.rounding_errors import LineRounding

pytestmark = pytest.mark.triton

F32 = np.float32


def product(shape=(24, 20, 300), seed=0):
    m, n, k = shape
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1, 1, (m, k)).astype(F32), rng.uniform(-1, 1, (k, n)).astype(F32)
    return a, b, np.zeros((m, n), F32)


def lanes_arguments(a, b, c):
    (m, k), n = a.shape, b.shape[1]
    return (strided_lanes, (m, n), a, b, c, m, n, k, k, 1, n, 1, n, 1), {"BLOCK": 64}


def line_number(kernel, text):
    """Where a piece of text is in a kernel's file."""
    lines, start = inspect.getsourcelines(kernel.fn)
    found = [start + i for i, line in enumerate(lines) if text in line]
    assert len(found) == 1
    return found[0]


def test_real_is_the_exact_result_rounded_once():
    a, b, c = product()
    exact = (a.astype(np.longdouble) @ b.astype(np.longdouble)).astype(F32)
    arguments, options = lanes_arguments(a, b, c)
    fpsan_tools.run(*arguments, domain="real", **options)
    assert (c == exact).mean() > 0.999
    np.testing.assert_array_max_ulp(c, exact, 1)
    m, n, k = 24, 20, 300
    tiles = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 32, "FOLD": True}
    fpsan_tools.run(blocked, (2, 2), a, b, c, m, n, k, k, 1, n, 1, n, 1, domain="real", **tiles)
    assert (c == exact).mean() > 0.999


def test_real_ignores_narrowing_casts():
    a, o = np.random.default_rng(1).uniform(-4, 4, 32).astype(F32), np.zeros(32, F32)
    fpsan_tools.run(kernels.through_half, (1,), a, o, B=32, domain="real")
    np.testing.assert_array_equal(o, (a.astype(np.float64) * 3 + 1).astype(F32))
    fpsan_tools.run(kernels.through_half, (1,), a, o, B=32, domain="ieee")
    np.testing.assert_array_equal(o, (a * 3).astype(np.float16).astype(F32) + 1)


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8e4m3fn", "fp8e5m2"])
def test_real_reads_and_writes_every_type(name):
    formats = {"fp16": numfmt.FP16, "bf16": numfmt.BF16, "fp8e4m3fn": numfmt.FP8_E4M3, "fp8e5m2": numfmt.FP8_E5M2}
    dtype = np.dtype(f"u{formats[name].bits // 8}")
    codes = np.arange(1 << formats[name].bits, dtype=dtype)
    o = np.zeros_like(codes)
    inputs = fpsan_tools.typed(codes, name), fpsan_tools.typed(o, name)
    fpsan_tools.run(kernels.copy, (len(codes) // 64,), *inputs, B=64, domain="real")
    numbers = ~np.isnan(formats[name].decode(codes))
    np.testing.assert_array_equal(o[numbers], codes[numbers])
    assert np.isnan(formats[name].decode(o[~numbers])).all()


def test_the_line_that_loses_accuracy_comes_first():
    a, o = np.random.default_rng(2).uniform(-4, 4, 32).astype(F32), np.full(32, 7, F32)
    report = fpsan_tools.errors(kernels.through_half, (1,), a, o, B=32)
    cast = line_number(kernels.through_half, "to(tl.float16)")
    assert report.lines[0].line == cast
    assert report.lines[0].share > 0.999
    assert report.lines[0].operations.get("arith.truncf") == 1
    assert "to(tl.float16)" in report.lines[0].text
    assert {entry.line for entry in report.lines} == {cast - 1, cast, cast + 1}
    assert (o == 7).all()  # nothing of the caller's is modified


def test_the_whole_error_is_the_difference_between_ieee_and_exact():
    a, b, c = product()
    arguments, options = lanes_arguments(a, b, c)
    report = fpsan_tools.errors(*arguments, **options)
    fpsan_tools.run(*arguments, domain="ieee", **options)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    expected = np.linalg.norm(c - exact) / np.linalg.norm(exact)
    assert report.error == pytest.approx(expected, rel=1e-6)
    parts = sum(entry.error**2 for entry in report.lines) ** 0.5
    assert report.error == pytest.approx(parts, rel=0.1)  # rounding errors of different lines are hardly correlated


def test_all_lines_rounded_are_the_bits_of_ieee():
    a, b, c = product()
    domain = LineRounding(None)
    arguments, options = lanes_arguments(a, b, c)
    fpsan_tools.run(*arguments, domain=domain, **options)
    ((element, values, names),) = domain.memories[-1].outputs().values()
    fpsan_tools.run(*arguments, domain="ieee", **options)
    assert (element.name, names) == ("f32", ["c"])
    np.testing.assert_array_equal(values, c.reshape(-1))


def test_catastrophic_cancellation_is_marked_and_the_cure_is_not():
    a = (np.random.default_rng(3).standard_normal((8, 64)) + 1000).astype(F32)
    o = np.zeros(8, F32)
    bad = fpsan_tools.errors(kernels.naive_variance, (8,), a, o, B=64)
    marked = [entry for entry in bad.lines if entry.catastrophic]
    assert [entry.line for entry in marked] == [line_number(kernels.naive_variance, "square - mean * mean")]
    assert marked[0].lost_bits > 15
    good = fpsan_tools.errors(kernels.two_pass_variance, (8,), a, o, B=64)
    assert good.error < bad.error / 1000
    assert good.error < 1e-6


def test_products_on_matrix_units_and_casts_are_attributed():
    rng = np.random.default_rng(4)
    a, b, c = (rng.uniform(-1, 1, 256).astype(np.float16) for _ in range(3))
    o, c32 = np.zeros(256, F32), c.astype(F32)
    report = fpsan_tools.errors(kernels.dots, (1,), a, b, c32, o, M=16, N=16, K=16, PRECISION="ieee")
    assert [entry.operations for entry in report.lines] == [{"tt.dot": 1}]
    assert report.lines[0].error == report.error > 0


def test_atomics_and_integer_views_of_float_memory_work():
    a, o = np.random.default_rng(5).uniform(-4, 4, 32).astype(F32), np.array([0, 0, -9, 9], F32)
    report = fpsan_tools.errors(kernels.float_atomics, (4,), a, o, B=8)
    assert report.lines[0].operations["tt.atomic_rmw"] > 0
    assert 0 < report.error < 1e-6


def test_progress_and_chosen_programs():
    a, b, c = product()
    arguments, options = lanes_arguments(a, b, c)
    steps = []
    fpsan_tools.errors(*arguments, programs=[0, 5], progress=lambda done, total: steps.append((done, total)), **options)
    assert steps == [(i, 4) for i in (1, 2, 3, 4)]


def test_kernels_without_float_outputs_are_refused():
    a, o = np.zeros(32, np.int32), np.zeros(8, np.int32)
    with pytest.raises(FpsanError, match="'histograms' writes no floats"):
        fpsan_tools.errors(kernels.histograms, (1,), a, o, B=32, BINS=8)


def test_renderings_escape_source_text():
    a, o = np.ones(32, F32), np.zeros(32, F32)
    report = fpsan_tools.errors(kernels.device_functions, (2,), a, o, B=16)
    assert "device_functions" in str(report)
    assert report.as_dict()["lines"][0]["file"].endswith("fpsan_feature_kernels.py")
    from dataclasses import replace

    harmful = replace(report, lines=[replace(report.lines[0], text="<script>alert(1)</script>")])
    assert "<script>" not in harmful._repr_html_()


def test_the_function_and_the_exceptions_have_names_of_their_own():
    from fpsan_tools import errors, exceptions

    assert errors is fpsan_tools.errors
    assert issubclass(exceptions.FpsanError, Exception)
    assert fpsan_tools.FpsanError is exceptions.FpsanError
