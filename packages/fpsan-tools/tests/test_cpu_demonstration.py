"""The two kernels of the opening demonstration, unmodified, on the CPU."""

import os
import threading

import numpy as np
import pytest

pytest.importorskip("triton")

from fpsan_exact import fma_chain, lanes_sum
from fpsan_kernels import blocked, strided_lanes

import fpsan_tools
from fpsan_tools.exceptions import FpsanError, OutOfBounds, UnknownName

pytestmark = pytest.mark.triton

SHAPE = (37, 29, 333)  # tails in every direction


def strides(x):
    return tuple(step // x.itemsize for step in x.strides)


def launch_lanes(a, b, c, block=256, **options):
    m, k, n = *a.shape, b.shape[1]
    return fpsan_tools.run(
        strided_lanes, (m, n), a, b, c, m, n, k, *strides(a), *strides(b), *strides(c), BLOCK=block, **options
    )


def launch_blocked(a, b, c, tile=(16, 16, 32), fold=True, **options):
    m, k, n = *a.shape, b.shape[1]
    sizes = {"BLOCK_M": tile[0], "BLOCK_N": tile[1], "BLOCK_K": tile[2]}
    grid = (-(-m // tile[0]), -(-n // tile[1]))
    return fpsan_tools.run(
        blocked, grid, a, b, c, m, n, k, *strides(a), *strides(b), *strides(c), **sizes, FOLD=fold, **options
    )


def inputs(shape=SHAPE, seed=0):
    m, n, k = shape
    rng = np.random.default_rng(seed)
    a = rng.uniform(-1, 1, (m, k)).astype(np.float32)
    b = rng.uniform(-1, 1, (k, n)).astype(np.float32)
    return a, b, np.full((m, n), np.nan, np.float32)


def test_payloads_of_both_kernels_are_equal_and_independent_of_tiles_and_lanes():
    a, b, c = inputs()
    launch_lanes(a, b, c)
    reference = c.view(np.uint32).copy()
    for block in (32, 128):
        launch_lanes(a, b, c, block)
        assert np.array_equal(c.view(np.uint32), reference)
    for tile, fold in (((16, 16, 32), True), ((32, 64, 16), False)):
        c[:] = np.nan
        launch_blocked(a, b, c, tile, fold)
        assert np.array_equal(c.view(np.uint32), reference)


def test_payloads_are_the_ring_product_of_embedded_inputs():
    a, b, c = inputs((3, 2, 5))
    launch_blocked(a, b, c)
    algebra = fpsan_tools.algebra.get()
    pa, pb = (algebra.embed(x, "fp32").astype(object) for x in (a, b))
    expected = (pa @ pb) % 2**32
    assert np.array_equal(algebra.embed(c, "fp32").astype(object), expected)


def test_ieee_blocked_is_the_serial_fma_chain_bit_for_bit():
    a, b, c = inputs()
    record = launch_blocked(a, b, c, domain="ieee")
    for m, n in ((0, 0), (36, 28), (16, 15), (20, 3)):
        assert c[m, n] == fma_chain(a[m], b[:, n])
    assert record.operations["tt.dot"] == 6 * 11
    again = np.empty_like(c)
    launch_blocked(a, b, again, (64, 16, 16), fold=False, domain="ieee")
    assert np.array_equal(c, again)


@pytest.mark.parametrize("fused", [True, False])
def test_ieee_strided_lanes_rounds_every_step_and_follows_the_launch_on_fusion(fused):
    a, b, c = inputs()
    record = launch_lanes(a, b, c, block=64, domain="ieee", enable_fp_fusion=fused)
    assert record.fusion is fused
    assert record.operations["arith.mulf"] == (0 if fused else 37 * 29 * 6)
    for m, n in ((0, 0), (36, 28), (20, 3)):
        assert c[m, n] == lanes_sum(a[m], b[:, n], 64, fused)
    assert any("balanced tree" in note for note in record.notes)


def test_fusion_changes_bits():
    a, b, c = inputs()
    other = np.empty_like(c)
    launch_lanes(a, b, c, domain="ieee", enable_fp_fusion=True)
    launch_lanes(a, b, other, domain="ieee", enable_fp_fusion=False)
    assert not np.array_equal(c, other)


def test_ieee_sums_that_are_hard_to_round_are_right():
    # a*b + c lies beside a float32 midpoint by less than float64 can show: (2^23-2^12+1)(2^23+2^12+1) = 2^46+1.
    # The second case is among the subnormal numbers, whose last place is 2^-149.
    a, b, c = np.zeros((1, 33), np.float32), np.zeros((33, 1), np.float32), np.zeros((1, 1), np.float32)
    a[0, 0] = 1.0
    for start, last_place, scale in ((1.0, 2.0**-23, 2.0**-35), (2.0**-130, 2.0**-149, 2.0**-98)):
        for sign in (1, -1):
            for first in (start, start + last_place, -start, -start - last_place):
                a[0, 32], b[32, 0], b[0, 0] = sign * (2**23 - 2**12 + 1) * scale, (2**23 + 2**12 + 1) * scale, first
                launch_blocked(a, b, c, domain="ieee")
                assert c[0, 0] == fma_chain(a[0], b[:, 0])
                launch_lanes(a, b, c, block=32, domain="ieee")
                assert c[0, 0] == lanes_sum(a[0], b[:, 0], 32)


def test_ieee_subnormal_sums_are_right():
    rng = np.random.default_rng(3)
    a = (rng.uniform(-1, 1, (4, 50)) * 2.0**-76).astype(np.float32)
    b = (rng.uniform(-1, 1, (50, 3)) * 2.0**-60).astype(np.float32)
    c = np.zeros((4, 3), np.float32)
    launch_blocked(a, b, c, domain="ieee")
    lanes = np.zeros((4, 3), np.float32)
    launch_lanes(a, b, lanes, block=32, domain="ieee")
    for m in range(4):
        for n in range(3):
            assert c[m, n] == fma_chain(a[m], b[:, n])
            assert lanes[m, n] == lanes_sum(a[m], b[:, n], 32)
    assert np.any((c != 0) & (np.abs(c) < 2.0**-126))


def test_any_strides_give_the_same_result():
    a, b, c = inputs()
    launch_blocked(a, b, c, domain="ieee")
    wide = np.zeros((37, 2 * 333), np.float32)
    wide[:, ::2] = a
    backwards = np.asfortranarray(b)[::-1][::-1]
    out = np.zeros((29, 40), np.float32)[:, :37].T
    launch_blocked(wide[:, ::2], backwards, out, domain="ieee")
    assert np.array_equal(out, c)
    reversed_rows = a[::-1].copy()[::-1]
    launch_lanes(reversed_rows, b, out, domain="ieee")
    launch_lanes(a, b, c, domain="ieee")
    assert np.array_equal(out, c)


def test_chosen_programs_only():
    a, b, c = inputs()
    whole = c.copy()
    launch_lanes(a, b, whole)
    seen = []
    record = launch_lanes(a, b, c, programs=[5, 37 * 28 + 36], progress=lambda done, total: seen.append((done, total)))
    assert record.programs == 2
    assert seen == [(2, 2)]
    written = ~np.isnan(c)
    assert set(zip(*np.nonzero(written), strict=True)) == {(5, 0), (36, 28)}
    assert c[5, 0].view(np.uint32) == whole[5, 0].view(np.uint32)
    with pytest.raises(FpsanError, match="numbers from 0 to 1072"):
        launch_lanes(a, b, c, programs=[1073])


def test_slices_do_not_change_results(monkeypatch):
    from fpsan_tools import cpu

    a, b, c = inputs()
    launch_lanes(a, b, c, domain="ieee")
    monkeypatch.setattr(cpu, "SLICE", 1000)
    other, steps = np.empty_like(c), []
    launch_lanes(a, b, other, domain="ieee", progress=lambda done, total: steps.append(done))
    assert np.array_equal(c, other)
    assert steps[-1] == 37 * 29
    assert len(steps) > 100


def test_a_lost_mask_is_found_by_the_bounds_check():
    a, b, c = inputs((16, 16, 32))
    with pytest.raises(OutOfBounds, match=r"'blocked' at .*fpsan_kernels\.py:\d+: load out of bounds .* array 'a'"):
        fpsan_tools.run(
            blocked, (1, 1), a, b, c, 16, 16, 64, 32, 1, 16, 1, 16, 1, BLOCK_M=16, BLOCK_N=16, BLOCK_K=32, FOLD=True
        )  # fmt: skip


def test_masked_off_lanes_are_checked_on_request():
    a, b, c = inputs((16, 16, 30))
    launch_blocked(a, b, c)
    with pytest.raises(OutOfBounds, match="masked-off load"):
        launch_blocked(a, b, c, bounds="all")
    a, b, c = inputs((16, 16, 32))
    launch_blocked(a, b, c, bounds="all")


def test_read_only_outputs_are_refused_and_left_alone():
    a, b, c = inputs()
    c.flags.writeable = False
    with pytest.raises(FpsanError, match="array 'c', which is read-only"):
        launch_lanes(a, b, c)
    a.flags.writeable = False
    c = np.zeros_like(c)
    launch_lanes(a, b, c)


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_outside_of_the_block_everything_is_as_before(error):
    from triton import knobs
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    def state():
        return JITFunction.run, Autotuner.run, dict(os.environ), knobs.compilation.instrumentation_mode, np.geterr()

    a, b, c = inputs((8, 8, 16))
    before, copies = state(), (a.copy(), b.copy())

    def fail(done, total):
        assert JITFunction.run is not before[0]
        raise error

    with pytest.raises(error):
        launch_lanes(a, b, c, progress=fail)
    assert state() == before
    assert np.array_equal(a, copies[0])
    assert np.array_equal(b, copies[1])


def test_threads_have_sessions_of_their_own():
    a, b, c = inputs((8, 8, 100))
    expected, found = {}, {}
    for domain in ("payload", "ieee"):
        launch_lanes(a, b, c, domain=domain)
        expected[domain] = c.copy()
    meeting = threading.Barrier(2, timeout=60)

    def work(domain):
        found[domain] = np.zeros_like(c)
        for _ in range(2):  # each launch ends while the other one's session is open
            launch_lanes(a, b, found[domain], domain=domain, progress=lambda done, total: meeting.wait())

    threads = [threading.Thread(target=work, args=(domain,)) for domain in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for domain, result in expected.items():
        assert np.array_equal(found[domain].view(np.uint32), result.view(np.uint32))


def test_unknown_domain_and_bounds_name_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'payload'"), fpsan_tools.on_cpu("payloads"):
        pass
    with pytest.raises(UnknownName, match="did you mean 'live'"), fpsan_tools.on_cpu(bounds="alive"):
        pass


@pytest.mark.torch
def test_torch_tensors_give_what_numpy_arrays_give():
    torch = pytest.importorskip("torch")
    a, b, c = inputs()
    launch_lanes(a, b, c, domain="ieee")
    ta, tb = torch.from_numpy(a.copy()), torch.from_numpy(b.copy()).t().contiguous().t()
    tc = torch.zeros(SHAPE[:2])
    with fpsan_tools.on_cpu("ieee") as session:
        strided_lanes[SHAPE[:2]](ta, tb, tc, *SHAPE, *ta.stride(), *tb.stride(), *tc.stride(), BLOCK=256)
    assert np.array_equal(tc.numpy(), c)
    assert [launch.kernel for launch in session.launches] == ["strided_lanes"]
