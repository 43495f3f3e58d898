"""The fast implementations give the bits of the exact engine: NumPy in chunks, numba, with and without threads."""

import importlib.util
import sys

import numpy as np
import pytest
from numfmt_tally import tally

from numfmt import FORMATS, FP4_E2M1, FP8_E4M3, FloatFormat, _parts, _random
from numfmt._engine import round_parts
from numfmt._fast import backend, chunks
from numfmt._fast.plan import FLOAT32, FLOAT64, plan
from numfmt.rounding import OVERFLOWS, ROUNDINGS

HAS_NUMBA = importlib.util.find_spec("numba") is not None
needs_numba = pytest.mark.skipif(not HAS_NUMBA, reason="numba is not installed")

#: Formats that between them use every branch of the kernels.
CHOSEN = {
    **{
        n: FORMATS[n]
        for n in ("FP8_E4M3", "FP8_E5M2", "FP8_E4M3FNUZ", "FP4_E2M1", "E8M0", "FP16", "BF16", "TF32", "FP32", "FP64")
    },
    "no_subnormals": FloatFormat("no_subnormals", 4, 3, 7, "ieee", subnormals=False),
    "unsigned": FloatFormat("unsigned", 5, 3, 15, "fn", signed=False),
    "unsigned_saturating": FloatFormat("unsigned_saturating", 4, 2, 7, "finite", signed=False),
    "one_bit": FloatFormat("one_bit", 5, 0, 15, "fn"),
    "one_bit_odd_bias": FloatFormat("one_bit_odd_bias", 5, 0, 14, "fnuz"),
    "no_zero": FloatFormat("no_zero", 4, 2, 7, "fn", zero=False),
    "fixed_point": FloatFormat("fixed_point", 0, 6, 3, "finite"),
    "acc14": FloatFormat("acc14", 8, 13, 127),
    "acc22": FloatFormat("acc22", 8, 22, 120),
    "wide": FloatFormat("wide", 9, 20, 200),
    "integers": FloatFormat("integers", 4, 3, -2),  # its quantum is 1: dividing by it does not enlarge the smallest
}


def patterns(carrier, fmt, count: int) -> np.ndarray:
    """Random bits, random numbers in and around the format's range, and its values and midpoints."""
    rng = np.random.default_rng(2)
    with np.errstate(all="ignore"):
        bits = rng.integers(0, 2**carrier.width, count, dtype=np.uint64).astype(carrier.integer).view(carrier.dtype)
        exponents = rng.uniform(fmt.emin - fmt.mantissa_bits - 4, fmt.emax + 4, count)
        numbers = (rng.choice([-1.0, 1.0], count) * 2.0**exponents).astype(carrier.dtype)
        codes = rng.integers(0, fmt.max_code + 1, count, dtype=np.uint64)
        values = fmt.decode(codes)
        middles = (values / 2 + fmt.next_up(values) / 2) * rng.choice([-1.0, 1.0], count)
        least = float(np.finfo(carrier.dtype).smallest_subnormal)
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, fmt.max, -fmt.max, 1.5, -1.5, least, -least])
        return np.concatenate([bits, numbers, *(v.astype(carrier.dtype) for v in (values, middles, special))])


def exactly(fmt, x, mode, policy, random=None, n=32):
    with np.errstate(invalid="ignore"):
        parts = _parts.from_float64(x.astype(np.float64))
    return round_parts(fmt, parts, ROUNDINGS[mode], OVERFLOWS[policy], "largest", random, n)


def policies(fmt) -> list[str]:
    return [p for p in OVERFLOWS if p != "nan" or fmt.has_nan]


def compare(implementation, name: str, count: int, every_policy: bool = True, modes=tuple(ROUNDINGS)) -> int:
    fmt, compared = CHOSEN[name], 0
    for carrier in (FLOAT32, FLOAT64):
        x = patterns(carrier, fmt, count)
        rng = np.random.default_rng(3)
        for mode in modes:
            for policy in policies(fmt) if every_policy and not ROUNDINGS[mode].stochastic else [fmt.overflow]:
                made = plan(fmt, ROUNDINGS[mode], OVERFLOWS[policy], "largest", carrier)
                if made is None:
                    continue
                n = int(rng.integers(1, 33))
                random = rng.integers(0, 2**n, x.size, dtype=np.uint64).astype(np.uint32)
                out = np.empty_like(x)
                implementation(x, out, made, random=random, random_bits=n)
                expected = exactly(fmt, x, mode, policy, random, n)
                with np.errstate(over="ignore"):
                    expected = expected.astype(carrier.dtype)
                bad = out.view(carrier.integer) != expected.view(carrier.integer)
                assert not bad.any(), (name, mode, policy, carrier.name, x[bad][:3], out[bad][:3], expected[bad][:3])
                compared += x.size
    tally(f"fast roundings, from the exact engine ({implementation.__name__})", name, compared)
    return compared


@pytest.mark.parametrize("name", CHOSEN)
def test_numpy_in_chunks_gives_the_engines_bits(name):
    assert compare(chunks.round_chunks, name, 400) > 0


@needs_numba
@pytest.mark.parametrize("name", ["FP8_E4M3", "BF16"])
def test_numba_gives_the_engines_bits(name):
    from numfmt._fast.jit import round_jit

    modes = ("nearest_even", "up", "stochastic")  # every mode takes seconds to compile; all are in the exhaustive set
    assert compare(round_jit, name, 4000, every_policy=False, modes=modes) > 0


@needs_numba
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CHOSEN)
def test_numba_gives_the_engines_bits_for_every_kind_of_format(name):
    from numfmt._fast.jit import round_jit

    assert compare(round_jit, name, 20000) > 0


@pytest.mark.parametrize("name", CHOSEN)
def test_every_format_has_a_fast_way_in_float64_where_it_can(name):
    fmt = CHOSEN[name]
    made = plan(fmt, ROUNDINGS["nearest_even"], OVERFLOWS[fmt.overflow], None, FLOAT64)
    assert made is not None


def test_no_carrier_is_used_that_lacks_exponents():
    wide = FloatFormat("wide", 9, 3, 120)
    assert plan(wide, ROUNDINGS["nearest_even"], OVERFLOWS["infinity"], None, FLOAT32) is None
    x = np.array([3.3e38, -3.3e38], np.float32)
    assert (wide.round(x) == wide.round(x.astype(np.float64))).all()
    assert np.isfinite(wide.round(x, "up")).all()  # one of them is 2**128, beyond float32


SIZES = (0, 1, 5, 63, 64, 257, chunks.CHUNK - 1, chunks.CHUNK, chunks.CHUNK + 1, 3 * chunks.CHUNK + 77)


@pytest.mark.parametrize("choice", ["numpy", pytest.param("numba", marks=needs_numba)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_stochastic_words_depend_on_position_only(choice, dtype):
    x = np.random.default_rng(1).standard_normal(max(SIZES)).astype(dtype)
    whole = FP8_E4M3.round(x, "stochastic", rng=5)
    key = _random.draw_key(5)
    words = _random.philox_words(key, 0, x.size)
    assert (whole == exactly(FP8_E4M3, x, "stochastic", "nan", words)).all()
    with backend.backend(choice):
        for size in SIZES:
            part = FP8_E4M3.round(x[:size], "stochastic", rng=5)
            assert part.dtype == dtype
            assert (part == whole[:size]).all()


@pytest.mark.parametrize("choice", ["numpy", pytest.param("numba", marks=needs_numba)])
def test_nan_in_a_format_without_nan_is_refused_wherever_it_is(choice):
    x = np.zeros(chunks.CHUNK + 3, np.float32)
    x[-1] = np.nan
    with backend.backend(choice):
        with pytest.raises(ValueError, match="FP4_E2M1 has no NaN"):
            FP4_E2M1.round(x)
        assert FP4_E2M1.round(x, nan="largest")[-1] == 6


@needs_numba
def test_long_arrays_shared_by_threads_have_the_same_bits():
    from numfmt._fast.jit import THREADED

    x = np.random.default_rng(1).standard_normal(THREADED + 12345).astype(np.float32)
    for mode in ("nearest_even", "stochastic"):
        with backend.backend("numba"):
            fast = FP8_E4M3.round(x, mode, rng=9)
        with backend.backend("numpy"):
            assert (fast == FP8_E4M3.round(x, mode, rng=9)).all()


def test_philox_gives_the_published_words():
    # Known answers of the Random123 distribution (kat_vectors): philox4x32 with 7 and 10 rounds, all-zero input.
    zero = np.zeros(1, np.uint64)
    assert [int(w[0]) for w in _random.philox(zero, 0, rounds=7)] == [0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48]
    assert _random.philox_words(0, 0, 1)[0] == 0x5F6FB709  # seven rounds are used
    assert [int(w[0]) for w in _random.philox(zero, 0, rounds=10)] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_words_go_to_elements_in_the_documented_order():
    words = _random.philox_words(77, 0, 4 * _random.GROUP)
    blocks = _random.philox(np.arange(_random.GROUP, dtype=np.uint64), 77)
    for i in (0, 1, 63, 64, 200, 256, 1000):
        counter, word = (i // 256) * 64 + i % 64, i // 64 % 4
        assert words[i] == blocks[word][counter]
    assert (_random.philox_words(77, 100, 300) == words[100:400]).all()


def test_backend_is_restored_and_names_are_checked():
    assert backend.get_backend() == "auto"
    with pytest.raises(RuntimeError), backend.backend("numpy"):
        raise RuntimeError
    assert backend.get_backend() == "auto"
    with pytest.raises(ValueError, match="did you mean 'numba'"):
        backend.set_backend("nunba")


def test_numba_is_not_imported_for_small_calls():
    import subprocess

    code = "import sys, numpy as np, numfmt; numfmt.BF16.round(np.ones(10**5)); assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
