"""What `last_outcome` tells of emulated products: the mode that was taken, what the guard measured, and why."""

import threading

import numpy as np
import pytest

import tritongemm
from tritongemm import automatic, emulation, modes
from tritongemm.emulation import BF16X6, FACTS, IEEE, KEEP, LEAVE

pytest.importorskip("triton")
pytestmark = pytest.mark.triton

K = 1024
RNG = np.random.default_rng(3)
UNIFORM = RNG.uniform(-1, 1, (6, K)).astype(np.float32)
B = RNG.uniform(-1, 1, (K, 5)).astype(np.float32)
WIDE = np.ldexp(UNIFORM, RNG.integers(-8, 9, UNIFORM.shape)).astype(np.float32)
HUGE = UNIFORM.copy()
HUGE[:, 0] *= 2.0**40
TINY = (HUGE * 2.0**-140).astype(np.float32)
SPECIAL = UNIFORM.copy()
SPECIAL[2, 3] = np.inf


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    monkeypatch.setattr(emulation, "_outcomes", threading.local())


def libraries(*arrays):
    yield arrays
    torch = pytest.importorskip("torch")
    yield tuple(torch.from_numpy(x) for x in arrays)


# requested, A, the mode that A's numbers make of it
TAKEN = [
    ("auto", UNIFORM, "int8x6"), ("auto", WIDE, "fp16x3"), ("auto", HUGE, "bf16x6"), ("auto", TINY, "ieee"),
    ("fp16x3", UNIFORM, "fp16x3"), ("fp16x3", HUGE, "bf16x6"), ("fp16x3", TINY, "ieee"),
    ("int8x6", UNIFORM, "int8x6"), ("int8x6", WIDE, "ieee"), ("portable", HUGE, "ieee"),
]  # fmt: skip


@pytest.mark.parametrize(("precision", "a", "mode"), TAKEN, ids=lambda x: x if isinstance(x, str) else "")
def test_the_outcome_names_the_mode_whose_bits_the_product_has(precision, a, mode):
    for x, y in libraries(a, B):
        got = tritongemm.mm(x, y, precision=precision)
        outcome = tritongemm.last_outcome()
        assert outcome.modes == (mode,)
        assert outcome.requested == modes.get(precision).name
        with tritongemm.unguarded():
            alone = tritongemm.mm(x, y, precision=mode)
        assert np.array_equal(np.asarray(got), np.asarray(alone))
        assert mode in str(outcome) or "kept" in str(outcome)


def test_there_is_none_before_the_first_such_product():
    assert tritongemm.last_outcome() is None
    tritongemm.mm(UNIFORM, B)
    tritongemm.mm(UNIFORM, B, precision="tf32")
    assert tritongemm.last_outcome() is None
    tritongemm.predict(UNIFORM, B, precision="auto")
    tritongemm.predict(UNIFORM, B, precision="auto", alpha=2)
    assert tritongemm.last_outcome() is None, "nothing was computed"
    tritongemm.mm(UNIFORM, B, precision="auto")
    first = tritongemm.last_outcome()
    tritongemm.mm(UNIFORM, B)
    assert tritongemm.last_outcome() is first


def test_what_was_measured_is_what_the_numbers_are():
    tritongemm.mm(WIDE, B, precision="auto")
    ((first, second),) = tritongemm.last_outcome().attempts
    assert (first.mode, first.verdict, second.mode, second.verdict) == ("int8x6", "left", "fp16x3", "kept")
    rows = np.concatenate([WIDE, B.T]).astype(np.float64)
    relative = np.sqrt((rows**2).mean(1)) / np.abs(rows).max(1)
    # Energies are those of integers of nine bits, and a row's largest number is at least half of what digits can hold.
    assert relative.min() / 2.3 <= first.spread <= relative.min() * 1.2
    assert first.spread < first.least_spread or first.mean_spread < first.least_mean_spread
    small = (np.abs(rows) < np.abs(rows).max(1, keepdims=True) * 2.0**-17) & (rows != 0)
    loose = (np.abs(rows) < np.abs(rows).max(1, keepdims=True) * 2.0**-18) & (rows != 0)
    assert loose.sum(1).max() <= second.small <= small.sum(1).max()
    assert second.most_small == K // 8
    text = str(tritongemm.last_outcome())
    assert "auto: computed as fp16x3" in text
    assert f"int8x6 refused: the root mean square of a row or column is at least {first.spread:.2g}" in text
    assert f"up to {second.small} numbers" in text
    assert f"{K // 8} may be" in text


def test_limits_are_the_ones_that_decide():
    """Rows of one large number, which is made larger until the guard refuses: there measured and needed meet."""
    previous = None
    for power in range(24):
        a = UNIFORM.copy()
        a[:, 0] = 2.0**power
        tritongemm.mm(a, B, precision="int8x6")
        outcome = tritongemm.last_outcome()
        ((attempt,),) = outcome.attempts
        enough = attempt.spread >= attempt.least_spread and attempt.mean_spread >= attempt.least_mean_spread
        assert enough == (attempt.verdict == "kept") == (outcome.modes == ("int8x6",))
        assert previous is None or attempt.spread <= previous
        previous = attempt.spread
    assert outcome.modes == ("ieee",)


def test_short_sums_are_told():
    tritongemm.mm(UNIFORM[:, :20], B[:20], precision="auto")
    outcome = tritongemm.last_outcome()
    assert outcome.modes == ("ieee",)
    assert "sums so short" in str(outcome)


@pytest.mark.parametrize("library", ["numpy", pytest.param("torch", marks=pytest.mark.torch)])
def test_other_types_are_told(library):
    if library == "numpy":
        a, b, name = UNIFORM.astype(np.float16), B.astype(np.float16), "fp16"
    else:
        torch = pytest.importorskip("torch")
        a, b, name = torch.from_numpy(UNIFORM).bfloat16(), torch.from_numpy(B).bfloat16(), "bf16"
    tritongemm.mm(a, b, precision="auto")
    outcome = tritongemm.last_outcome()
    assert outcome.modes == ("ieee",)
    assert outcome.attempts == outcome.specials == ()
    assert str(outcome).endswith(f"and these are {name}")
    assert automatic.resolved("auto", a) == "ieee"


def test_batches_have_a_verdict_each():
    tritongemm.bmm(np.stack([UNIFORM, WIDE, HUGE]), np.stack([B] * 3), precision="auto")
    assert tritongemm.last_outcome().modes == ("int8x6", "fp16x3", "bf16x6")
    assert len(tritongemm.last_outcome().attempts) == 3


def test_infinities_are_told():
    tritongemm.mm(SPECIAL, B, precision="fp16x3")
    outcome = tritongemm.last_outcome()
    assert outcome.specials == (True,)
    assert "Inf or NaN" in str(outcome)


def test_without_a_guard_nothing_is_refused():
    with tritongemm.unguarded():
        tritongemm.mm(HUGE, B, precision="fp16x3")
    outcome = tritongemm.last_outcome()
    assert outcome.modes == ("fp16x3",)
    assert "no guard asked" in str(outcome)


def test_a_guard_decides_for_all_rows_at_once_and_can_be_kept_out_of_it():
    """One row that is refused changes the bits of the others; without a guard it does not."""
    alone = tritongemm.mm(UNIFORM[:3], B, precision="fp16x3")
    together = np.concatenate([UNIFORM[:3], HUGE[:1]])
    changed = tritongemm.mm(together, B, precision="fp16x3")[:3]
    assert tritongemm.last_outcome().modes == ("bf16x6",)
    assert not np.array_equal(changed, alone)
    exact, magnitude = UNIFORM[:3].astype(float) @ B, np.abs(UNIFORM[:3]).astype(float) @ np.abs(B)
    bound = modes.get("fp16x3").promise(K, "fp32").relative_bound
    for rows in (alone, changed):
        assert (np.abs(rows - exact) <= (bound + 2.0**-40) * magnitude).all()
    with tritongemm.unguarded():
        np.testing.assert_array_equal(tritongemm.mm(together, B, precision="fp16x3")[:3], alone)


def test_prepared_operands_and_products_without_triton_tell_too(monkeypatch):
    tritongemm.mm(HUGE, tritongemm.prepare(B))
    assert tritongemm.last_outcome().modes == ("bf16x6",)
    from tritongemm import execution

    execution._predicted(UNIFORM, B, None, "auto", None)  # the way without Triton
    assert tritongemm.last_outcome().modes == ("int8x6",)


def test_threads_have_outcomes_of_their_own():
    tritongemm.mm(UNIFORM, B, precision="auto")
    seen = []
    thread = threading.Thread(target=lambda: seen.append(tritongemm.last_outcome()))
    thread.start()
    thread.join()
    assert seen == [None]


def test_facts_of_a_gpu_are_read_as_its_kernels_write_them():
    def written(code, special=0, small=(0, 0), least=0):
        made = np.zeros(FACTS, np.int32)
        made[:5] = code, special, *small, least
        made[5:7] = np.array([2.0**26, 2.0**25], np.float32).view(np.int32)
        return made

    outcome = emulation.remember("fp16x3", [written(KEEP, 0, (3, 4)), written(BF16X6, 1, (99, 4))], K=K)
    assert outcome is emulation.last_outcome()
    assert outcome.modes == ("fp16x3", "bf16x6")
    assert outcome.specials == (False, True)
    assert outcome.attempts[1][0].small == 99
    kept = np.concatenate([written(KEEP), written(LEAVE)])
    left = np.concatenate([written(LEAVE), written(IEEE, small=(1, 1))])
    both = emulation.remember("auto", [kept, left], K=K)
    assert both.modes == ("int8x6", "ieee")
    assert both.attempts[0][0].spread == 0.5
    assert [attempt.verdict for attempt in both.attempts[0]] == ["kept", "skipped"]
    assert [attempt.verdict for attempt in both.attempts[1]] == ["left", "ieee"]
    assert "fp16x3 was not needed" in str(both)
    plain = emulation.remember("bf16x6", [written(KEEP, 1)], K=K)
    assert plain.modes == ("bf16x6",)
    assert "Inf" in str(plain)


@pytest.mark.parametrize("precision", ["auto", "fp16x3", "int8x6"])
def test_products_of_nothing_have_an_outcome_of_their_own(precision):
    tritongemm.mm(UNIFORM, B, precision=precision)
    before = tritongemm.last_outcome()
    tritongemm.mm(UNIFORM[:0], B, precision=precision)
    outcome = tritongemm.last_outcome()
    assert outcome is not before
    assert (outcome.modes, outcome.K) == ((), K)
    assert str(outcome) == f"{precision}: nothing to compute, the product has no outputs"
    tritongemm.mm(UNIFORM[:, :0], B[:0], precision=precision)
    assert (
        str(tritongemm.last_outcome()) == f"{precision}: computed as ieee; sums of no products are zero in every mode"
    )


@pytest.mark.gpu
@pytest.mark.parametrize(("precision", "a", "mode"), TAKEN, ids=lambda x: x if isinstance(x, str) else "")
def test_a_gpu_tells_the_same(precision, a, mode):
    torch = pytest.importorskip("torch")
    x, y = (torch.from_numpy(np.ascontiguousarray(v)).cuda() for v in (a, B))
    tritongemm.mm(a, B, precision=precision)
    want = tritongemm.last_outcome()
    for _ in range(2):
        tritongemm.mm(x, y, precision=precision)
        got = tritongemm.last_outcome()
        assert got is not want
        assert got.modes == want.modes == (mode,)
        for mine, its in zip(got.attempts[0], want.attempts[0], strict=True):
            if mine.verdict == its.verdict == "skipped":
                continue
            assert mine == its
        assert str(got) == str(want)
    tritongemm.mm(x.half(), y.half(), precision="auto")
    tritongemm.mm(x, y, precision=precision)
    for _ in range(2):  # the second time from memory
        tritongemm.mm(x.half(), y.half(), precision="auto")
        assert "these are fp16" in str(tritongemm.last_outcome())
