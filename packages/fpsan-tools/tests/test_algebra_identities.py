"""What the payload algebra promises: bijections, ring identities, functional equations, and where they end."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

from fpsan_tools import algebra
from fpsan_tools.algebra.blocks import BLOCK
from fpsan_tools.algebra.floats import SIGNED, UNSIGNED
from fpsan_tools.algebra.functions import TAG_IDS, fnv1a, murmur3_finaliser, variadic_tag
from fpsan_tools.exceptions import FpsanError, UnknownName

VERSIONS = sorted(algebra.VERSIONS)
TYPES = sorted(algebra.FLOAT_TYPES)
WIDTHS = (8, 16, 32, 64)
A = algebra.get("3.9")


def payloads(bits, shape=(16,)):
    return hnp.arrays(UNSIGNED[bits], shape)


def all_patterns(bits):
    """Every pattern of up to 16 bits, else 2^16 patterns spread over all of them."""
    if bits <= 16:
        return np.arange(1 << bits, dtype=np.uint64).astype(UNSIGNED[bits])
    return np.random.default_rng(bits).integers(0, (1 << bits) - 1, 1 << 16, UNSIGNED[bits], endpoint=True)


def all_pairs_of_bytes():
    return (grid.ravel() for grid in np.meshgrid(all_patterns(8), all_patterns(8)))


def pairs(bits):
    if bits == 8:
        return all_pairs_of_bytes()
    rng = np.random.default_rng(bits + 1)
    return (rng.integers(0, (1 << bits) - 1, 1 << 14, UNSIGNED[bits], endpoint=True) for _ in range(2))


# ---------------------------------------------------------------------------------------------------------------------
# Embedding


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("dtype", TYPES)
def test_embedding_is_a_bijection_that_keeps_signs_and_units(version, dtype):
    a, kind = algebra.get(version), algebra.float_type(dtype)
    sign = kind.unsigned.type(1 << (kind.bits - 1))
    bits = all_patterns(kind.bits)
    embedded = a.embed(bits, dtype)
    np.testing.assert_array_equal(a.unembed(embedded, dtype), bits)
    np.testing.assert_array_equal(embedded & sign, bits & sign)
    if kind.bits <= 16:
        assert len(np.unique(embedded)) == 1 << kind.bits
    for pattern, payload in ((0, 0), (kind.one, 1), (kind.one | int(sign), -1), (int(sign), int(sign))):
        assert int(a.embed(np.array([pattern], kind.unsigned), dtype)[0]) == payload % (1 << kind.bits)
    nonzero = bits[(bits & ~sign) != 0]
    np.testing.assert_array_equal(a.embed(nonzero ^ sign, dtype), a.neg(a.embed(nonzero, dtype)))


def reference_embed(pattern, bits, one, multiplier):
    """The definition, in Python integers."""
    modulus, sign = 1 << (bits - 1), pattern >> (bits - 1)
    shift = (one & -one).bit_length() - 1
    mix = lambda u: (y := u * multiplier % modulus) ^ (y >> shift)  # noqa: E731
    unit = pow(mix(one), -1, modulus)
    return mix(pattern % modulus) * (-unit if sign else unit) % modulus | sign << (bits - 1)


@given(st.data(), st.sampled_from(VERSIONS), st.sampled_from(TYPES))
def test_embedding_follows_its_definition(data, version, dtype):
    a, kind = algebra.get(version), algebra.float_type(dtype)
    pattern = data.draw(st.integers(0, (1 << kind.bits) - 1))
    payload = int(a.embed(np.array(pattern, kind.unsigned), dtype))
    assert payload == reference_embed(pattern, kind.bits, kind.one, a.embed_multiplier)


def test_embedding_reads_floats_without_changing_them():
    values = np.array([1.5, -0.0, np.inf, np.nan], np.float32)
    signalling = np.array([0x7F800001], np.uint32).view(np.float32)
    np.testing.assert_array_equal(A.embed(values, "fp32"), A.embed(values.view(np.uint32), "fp32"))
    assert A.unembed(A.embed(signalling, "fp32"), "fp32")[0] == 0x7F800001


def test_exponential_constant_is_the_payload_of_log2_e():
    for a in algebra.VERSIONS.values():
        assert int(a.embed(np.float32(math.log2(math.e)), "fp32")) == a.exp_constant


# ---------------------------------------------------------------------------------------------------------------------
# Ring, division, order


@pytest.mark.parametrize("bits", WIDTHS)
def test_ring_operations_are_integer_arithmetic(bits):
    x, y = pairs(bits)
    modulus = 1 << bits
    for name, exact in (("add", int.__add__), ("sub", int.__sub__), ("mul", int.__mul__)):
        wanted = [exact(int(u), int(v)) % modulus for u, v in zip(x[::97], y[::97], strict=True)]
        assert getattr(A, name)(x, y)[::97].tolist() == wanted
    np.testing.assert_array_equal(A.fma(x, y, x), A.add(A.mul(x, y), x))
    np.testing.assert_array_equal(A.add(A.neg(x), x), np.zeros_like(x))


@pytest.mark.parametrize("bits", WIDTHS)
def test_inverse_is_the_rings_for_odd_payloads_and_an_involution_for_all(bits):
    x = all_patterns(bits)
    inverse = A.inv(x)
    odd = (x & x.dtype.type(1)) == 1
    np.testing.assert_array_equal(A.mul(x, inverse)[odd], np.ones(int(odd.sum()), x.dtype))
    np.testing.assert_array_equal(A.inv(inverse), x)
    np.testing.assert_array_equal(inverse & x.dtype.type(1), x & x.dtype.type(1))
    # Even payloads: (u+1)^-1 - 1.
    even, one = x[~odd], x.dtype.type(1)
    np.testing.assert_array_equal(A.inv(even), A.sub(A.inv(A.add(even, one)), np.full_like(even, 1)))
    assert int(A.inv(np.zeros(1, x.dtype))[0]) == 0


@pytest.mark.parametrize("bits", WIDTHS)
def test_division_distributes_over_sums_and_cancels_odd_factors(bits):
    x, y = pairs(bits)
    z = x[::-1]
    np.testing.assert_array_equal(A.div(A.add(x, y), z), A.add(A.div(x, z), A.div(y, z)))
    odd = y | y.dtype.type(1)
    np.testing.assert_array_equal(A.div(A.mul(x, odd), odd), x)
    even = A.mul(y, y.dtype.type(2))
    assert (A.div(A.mul(x, even), even) != x).any()


@pytest.mark.parametrize("bits", WIDTHS)
def test_remainder_is_that_of_c(bits):
    x, y = (v[::31] for v in pairs(bits))
    extreme = np.array([1 << (bits - 1)], x.dtype)
    x, y = np.append(x, extreme), np.append(y, A.neg(np.ones(1, x.dtype)))
    wanted = []
    for u, v in zip(x.view(SIGNED[bits]).tolist(), (y | y.dtype.type(1)).view(SIGNED[bits]).tolist(), strict=True):
        wanted.append((abs(u) % abs(v)) * (-1 if u < 0 else 1) % (1 << bits))
    assert A.rem(x, y).tolist() == wanted


@pytest.mark.parametrize("bits", WIDTHS)
def test_order_is_that_of_signed_payloads(bits):
    x, y = pairs(bits)
    sx, sy = x.view(SIGNED[bits]), y.view(SIGNED[bits])
    np.testing.assert_array_equal(A.maximum(x, y).view(SIGNED[bits]), np.where(sx > sy, sx, sy))
    np.testing.assert_array_equal(A.minimum(x, y).view(SIGNED[bits]), np.where(sx < sy, sx, sy))
    np.testing.assert_array_equal(A.add(A.maximum(x, y), A.minimum(x, y)), A.add(x, y))


# ---------------------------------------------------------------------------------------------------------------------
# Functions


@pytest.mark.parametrize("bits", WIDTHS)
def test_exponential_turns_sums_into_products(bits):
    x, y = pairs(bits)
    for exponential in (A.exp2, A.exp):
        np.testing.assert_array_equal(exponential(A.add(x, y)), A.mul(exponential(x), exponential(y)))
        np.testing.assert_array_equal(exponential(A.neg(x)), A.inv(exponential(x)))
        assert int(exponential(np.zeros(1, x.dtype))[0]) == 1
        assert (exponential(x) & x.dtype.type(1)).all()


@pytest.mark.parametrize("bits", WIDTHS)
def test_exponential_is_a_power_with_its_period(bits):
    x = all_patterns(bits)[:: 257 if bits > 8 else 1]
    k = -(-bits // 4)
    assert A.exp2(x).tolist() == [pow(1 + (1 << k), int(p), 1 << bits) for p in x]
    period = x.dtype.type(1 << (bits - k))
    np.testing.assert_array_equal(A.exp2(A.add(x, period)), A.exp2(x))
    assert (A.exp2(A.add(x, period >> x.dtype.type(1))) != A.exp2(x)).any()


def test_exp_of_fp32_sees_24_bits():
    x = np.array([5, 5 + (1 << 24), 5 + (1 << 23)], np.uint32)
    first, second, third = A.exp2(x).tolist()
    assert first == second != third


@pytest.mark.parametrize("bits", WIDTHS)
def test_cosine_and_sine_are_a_rotation(bits):
    x, y = pairs(bits)
    (cx, sx), (cy, sy), (c, s) = A.cos_sin(x), A.cos_sin(y), A.cos_sin(A.add(x, y))
    np.testing.assert_array_equal(A.add(A.mul(cx, cx), A.mul(sx, sx)), np.ones_like(x))
    np.testing.assert_array_equal(c, A.sub(A.mul(cx, cy), A.mul(sx, sy)))
    np.testing.assert_array_equal(s, A.add(A.mul(sx, cy), A.mul(cx, sy)))
    np.testing.assert_array_equal(A.cos(A.neg(x)), cx)
    np.testing.assert_array_equal(A.sin(A.neg(x)), A.neg(sx))


@pytest.mark.parametrize("bits", WIDTHS)
def test_cosine_and_sine_of_one_are_the_point_3_4_5_and_have_their_period(bits):
    one = np.ones(1, UNSIGNED[bits])
    cosine, sine = A.cos_sin(one)
    assert int(cosine[0]) * 5 % (1 << bits) == -3 % (1 << bits)
    assert int(sine[0]) * 5 % (1 << bits) == 4
    x = all_patterns(bits)
    period = x.dtype.type(1 << (bits - 2))
    np.testing.assert_array_equal(A.sin(A.add(x, period)), A.sin(x))
    assert (A.sin(A.add(x, period >> x.dtype.type(1))) != A.sin(x)).any()
    # The cosine alone repeats after a quarter of that.
    np.testing.assert_array_equal(A.cos(A.add(x, period >> x.dtype.type(2))), A.cos(x))
    assert (A.cos(A.add(x, period >> x.dtype.type(3))) != A.cos(x)).any()
    if bits == 32:
        assert (hex(cosine[0]), hex(sine[0])) == ("0x99999999", "0x33333334")


@pytest.mark.parametrize("bits", WIDTHS)
def test_tags_are_distinct_bijections(bits):
    x = all_patterns(bits)
    results = {op: A.tagged(op, x) for op in TAG_IDS}
    for op, result in results.items():
        if bits <= 16:
            assert len(np.unique(result)) == len(x), op
        np.testing.assert_array_equal(A.unary(op, x), result)
    if bits > 8:
        assert len({result.tobytes() for result in results.values()}) == len(TAG_IDS)


def test_hashes_are_the_published_ones():
    # Test vectors of FNV-1a 64 (draft-eastlake-fnv) and of MurmurHash3's fmix64.
    assert fnv1a("") == 0xCBF29CE484222325
    assert fnv1a("a") == 0xAF63DC4C8601EC8C
    assert fnv1a("foobar") == 0x85944171F73967E8
    assert murmur3_finaliser(0) == 0
    assert murmur3_finaliser(1) == 0xB456BCFC34C2CB2C


def test_calls_are_tagged_by_symbol_order_and_width():
    x, y = np.arange(5, dtype=np.uint32) + np.uint32(1 << 31), np.arange(5, dtype=np.uint32)
    assert (A.extern("f", [x, y], "fp32") != A.extern("g", [x, y], "fp32")).all()
    assert (A.extern("f", [x, y], "fp32") != A.extern("f", [y, x], "fp32")).any()
    rotated = (y << np.uint32(1)) | (y >> np.uint32(31))
    np.testing.assert_array_equal(variadic_tag([x, y], 32, 0), x + rotated)
    signed = np.array([-1], np.int16)
    assert int(variadic_tag([signed], 32, 0)[0]) == 0xFFFFFFFF
    assert int(A.inline_asm("nop", [x], "fp32", 1)[0]) == int(A.inline_asm("nop", [x], "fp32")[0]) ^ 1


@pytest.mark.parametrize("version", VERSIONS)
def test_extern_aliases_hold_for_fp32_only(version):
    a = algebra.get(version)
    x = all_patterns(32)[:100]
    assert ("__nv_expf" in a.extern_aliases) == (version != "3.8")
    for symbol, op in a.extern_aliases.items():
        operands = [x] * {"div": 2, "fma": 3}.get(op, 1)
        wanted = getattr(a, op)(*operands) if op in ("div", "fma") else a.unary(op, x)
        np.testing.assert_array_equal(a.extern(symbol, operands, "fp32"), wanted)
        wide = [v.astype(np.uint64) for v in operands]
        np.testing.assert_array_equal(a.extern(symbol, wide, "fp64"), variadic_tag(wide, 64, fnv1a(symbol)))


# ---------------------------------------------------------------------------------------------------------------------
# Casts


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("narrow", "wide"), [("fp16", "fp32"), ("bf16", "fp64"), ("fp8e5m2", "fp16"), ("fp32", "fp64")]
)
def test_widening_keeps_signed_payloads_and_narrowing_undoes_it(version, narrow, wide):
    a = algebra.get(version)
    low, high = algebra.float_type(narrow), algebra.float_type(wide)
    x = all_patterns(low.bits)
    up = a.cast(x, wide)
    np.testing.assert_array_equal(up.view(high.signed), x.view(low.signed).astype(high.signed))
    np.testing.assert_array_equal(a.cast(up, narrow), x)


@pytest.mark.parametrize(("wide", "narrow"), [(16, "fp8e4m3fn"), (32, "bf16"), (64, "fp32"), (64, "fp8e5m2")])
def test_truncating_casts_are_homomorphisms_and_mixing_casts_are_not(wide, narrow):
    x, y = pairs(wide)
    for version in VERSIONS:
        a = algebra.get(version)
        together = a.cast(a.mul(x, y), narrow) == a.mul(a.cast(x, narrow), a.cast(y, narrow))
        assert together.all() == (not a.mixing_casts)


def test_mixing_casts_see_every_dropped_bit():
    x = np.full(16, 0x1234, np.uint32)
    flipped = x ^ (np.uint32(1) << np.arange(16, 32, dtype=np.uint32))
    assert (A.cast(flipped, "fp16") != A.cast(x, "fp16")).all()


def test_equal_width_casts_keep_the_payload():
    x = all_patterns(16)
    np.testing.assert_array_equal(A.cast(x, "bf16"), x)


def test_double_cast_is_not_a_single_cast():
    x = all_patterns(32)
    assert (A.cast(A.cast(x, "fp16"), "fp8e5m2") != A.cast(x, "fp8e5m2")).any()


def test_packed_fp4_has_its_even_index_in_the_low_nibble():
    packed = np.array([[0x21, 0xF3]], np.uint8)
    np.testing.assert_array_equal(A.unpack_fp4(packed), np.array([[1, 2, 3, 15]], np.uint16))
    np.testing.assert_array_equal(A.unpack_fp4(packed, axis=0), np.array([[1, 3], [2, 15]], np.uint16))


# ---------------------------------------------------------------------------------------------------------------------
# Matrices and reductions


def exact_product(a, b, bits):
    """Matrix product of signed payloads in Python integers, mod 2^bits."""
    x = a.view(SIGNED[a.dtype.itemsize * 8]).astype(object)
    y = b.view(SIGNED[b.dtype.itemsize * 8]).astype(object)
    return np.array((x @ y) % (1 << bits), dtype=UNSIGNED[bits])


@pytest.mark.parametrize(
    ("operand", "accumulator"),
    [(8, "fp32"), (8, "fp16"), (16, "fp16"), (16, "fp32"), (16, "fp64"), (32, "fp32"), (32, "fp64"), (64, "fp64")],
)
@pytest.mark.parametrize("shape", [(3, 5, 2), (1, 1, 1), (2, 0, 3), (4, 2500, 3)])
def test_matmul_is_exact(operand, accumulator, shape):
    m, k, n = shape
    rng = np.random.default_rng(k)
    bits = algebra.float_type(accumulator).bits
    limit = (1 << operand) - 1
    a, b = (rng.integers(0, limit, s, UNSIGNED[operand], endpoint=True) for s in ((m, k), (k, n)))
    c = rng.integers(0, (1 << bits) - 1, (m, n), UNSIGNED[bits], endpoint=True)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(A.matmul(a, b, c, dtype=accumulator), exact_product(a, b, bits) + c)


EXTREME = {
    8: (0x80, 0x7F, 0xFF),
    16: (0x8000, 0x7FFF, 0xFFFF),
    32: (0x80000000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFF7FFF, 0x80008000),
    # The last ones have the largest limbs of 22 bits: odd, so that a rounded partial sum would show.
    64: (1 << 63, (1 << 63) - 1, (1 << 64) - 1, 0x1FFFFF | 0x1FFFFF << 22 | 0x7FFFF << 44, 0x200001 | 0x200001 << 22),
}


@pytest.mark.parametrize(("operand", "value"), [(bits, value) for bits, values in EXTREME.items() for value in values])
def test_matmul_is_exact_where_every_limb_is_extreme(operand, value):
    k = 5001
    a, b = np.full((2, k), value, UNSIGNED[operand]), np.full((k, 2), value, UNSIGNED[operand])
    for accumulator in ("fp32", "fp64"):
        bits = algebra.float_type(accumulator).bits
        if bits >= operand:
            np.testing.assert_array_equal(A.matmul(a, b, dtype=accumulator), exact_product(a, b, bits))


@given(payloads(32, (3, 4)), payloads(32, (4, 5)), payloads(32, (5, 2)))
def test_matmul_is_associative_and_distributes(a, b, c):
    left = A.matmul(A.matmul(a, b, dtype="fp32"), c, dtype="fp32")
    np.testing.assert_array_equal(left, A.matmul(a, A.matmul(b, c, dtype="fp32"), dtype="fp32"))
    split = A.add(A.matmul(a[:, :2], b[:2], dtype="fp32"), A.matmul(a[:, 2:], b[2:], dtype="fp32"))
    np.testing.assert_array_equal(split, A.matmul(a, b, dtype="fp32"))


def test_matmul_broadcasts_leading_axes_and_leaves_operands_alone():
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 2**32, (4, 1, 3, 6), np.uint32), rng.integers(0, 2**32, (2, 6, 5), np.uint32)
    a.setflags(write=False)
    b.setflags(write=False)
    product = A.matmul(a, b, dtype="fp32")
    assert product.shape == (4, 2, 3, 5)
    np.testing.assert_array_equal(product[3, 1], exact_product(a[3, 0], b[1], 32))


@pytest.mark.parametrize(
    ("left", "right"),
    [((9, 5, 6), (9, 6, 4)), ((1, 5, 6), (9, 6, 4)), ((9, 5, 6), (6, 4)), ((3, 1, 5, 6), (4, 6, 2)), ((37, 6), (6, 5))],
)
def test_matmul_in_small_blocks_is_the_same(left, right, monkeypatch):
    monkeypatch.setattr("fpsan_tools.algebra.matrix._BLOCK", 150)
    monkeypatch.setattr("fpsan_tools.algebra.matrix._ROWS", 8)
    rng = np.random.default_rng(8)
    for accumulator in ("fp32", "fp64"):
        bits = algebra.float_type(accumulator).bits
        a, b = (rng.integers(0, (1 << bits) - 1, shape, UNSIGNED[bits], endpoint=True) for shape in (left, right))
        np.testing.assert_array_equal(A.matmul(a, b, dtype=accumulator), exact_product(a, b, bits))


def test_rules_on_large_arrays_are_those_on_small_ones():
    rng = np.random.default_rng(9)
    x = rng.integers(0, 1 << 32, (300, 211), np.uint32)
    x.setflags(write=False)
    assert x.size > BLOCK
    some = (slice(None, None, 17), slice(3, None, 29))
    for rule in (A.exp, A.exp2, A.inv, A.cos, A.sin, lambda v: A.tagged("log", v), lambda v: A.cast(v, "fp16")):
        for large in (x, x.T, x[:, ::-1]):
            np.testing.assert_array_equal(rule(large)[some], rule(large[some]))
    for rule in (A.div, A.rem):
        np.testing.assert_array_equal(rule(x, x[::-1])[some], rule(x[some], x[::-1][some]))
        np.testing.assert_array_equal(rule(x, x[:1])[some], rule(x[some], x[:1, some[1]]))
    embedded = A.embed(x, "fp32")
    np.testing.assert_array_equal(embedded[some], A.embed(x[some], "fp32"))
    np.testing.assert_array_equal(A.unembed(embedded, "fp32"), x)


def test_wide_operands_of_a_narrow_accumulator_are_cast():
    rng = np.random.default_rng(6)
    a, b = (rng.integers(0, 2**32, (4, 4), np.uint32) for _ in range(2))
    narrow = exact_product(A.cast(a, "fp16"), A.cast(b, "fp16"), 16)
    np.testing.assert_array_equal(A.matmul(a, b, dtype="fp16"), narrow)


def test_matmul_refuses_shapes_that_do_not_match():
    with pytest.raises(FpsanError, match=r"\(2, 3\) and \(2, 3\)"):
        A.matmul(np.zeros((2, 3), np.uint32), np.zeros((2, 3), np.uint32), dtype="fp32")


@given(payloads(32, (4, 6)))
def test_reductions_do_not_depend_on_the_order(x):
    np.testing.assert_array_equal(A.sum(x, axis=1), A.sum(x[:, ::-1], axis=1))
    np.testing.assert_array_equal(A.cumsum(x, axis=1)[:, -1], A.sum(x, axis=1))
    np.testing.assert_array_equal(A.cumsum(x, axis=1, reverse=True)[:, 0], A.sum(x, axis=1))
    np.testing.assert_array_equal(A.max(x, axis=0), A.neg(A.neg(A.max(x, axis=0))))
    assert A.max(x).view(np.int32) == x.view(np.int32).max()
    assert A.min(x).view(np.int32) == x.view(np.int32).min()


def test_16_bit_sums_are_not_promoted():
    x = np.full(3, 0xFFFF, np.uint16)
    assert A.sum(x).dtype == np.uint16
    assert int(A.sum(x)) == 0xFFFD


@given(payloads(32, (2, 7)))
def test_online_softmax_equals_softmax_with_the_same_maximum(x):
    def softmax(values):
        e = A.exp(A.sub(values, A.max(values, axis=1, keepdims=True)))
        return A.div(e, A.sum(e, axis=1, keepdims=True))

    first, rest = x[:, :3], x[:, 3:]
    m1, m = A.max(first, axis=1, keepdims=True), A.max(x, axis=1, keepdims=True)
    partial = A.sum(A.exp(A.sub(first, m1)), axis=1, keepdims=True)
    denominator = A.add(A.mul(partial, A.exp(A.sub(m1, m))), A.sum(A.exp(A.sub(rest, m)), axis=1, keepdims=True))
    np.testing.assert_array_equal(A.div(A.exp(A.sub(x, m)), denominator), softmax(x))


@given(payloads(32, (7,)), st.booleans())
def test_softmax_without_maximum_is_the_same_for_odd_lengths_only(x, odd):
    x = x if odd else x[:6]
    shifted, plain = A.exp(A.sub(x, A.max(x))), A.exp(x)
    same = A.div(shifted, A.sum(shifted)) == A.div(plain, A.sum(plain))
    if odd:
        assert same.all()
    elif int(A.exp(A.max(x))) != 1:
        # The sums are even there, and 1/x is not multiplicative for even payloads.
        assert int(A.sum(plain)) % 2 == 0


def test_known_non_identities_fail():
    x = all_patterns(32)[:1000]
    two, half = A.embed(np.float32(2.0), "fp32"), A.embed(np.float32(0.5), "fp32")
    assert (A.add(x, x) != A.mul(x, two)).any()
    assert (A.mul(x, half) != A.div(x, two)).any()
    one = np.ones_like(x)
    sigmoid = lambda v: A.inv(A.add(one, A.exp(A.neg(v))))  # noqa: E731
    assert (sigmoid(A.neg(x)) != A.sub(one, sigmoid(x))).any()
    assert int(A.exp(A.embed(np.float32(-np.inf), "fp32"))) != 0


# ---------------------------------------------------------------------------------------------------------------------
# What dot_scaled multiplies


def test_dot_scaled_of_unit_scales_is_a_dot_of_widened_elements():
    rng = np.random.default_rng(7)
    a, b = rng.integers(0, 256, (4, 64), np.uint8), rng.integers(0, 256, (64, 3), np.uint8)
    unit = np.full((4, 2), 127, np.uint8), np.full((3, 2), 127, np.uint8)
    for a8, b8 in ((a, b),):
        scaled = A.dot_scaled(a8, unit[0], "e4m3", b8, unit[1], "e5m2")
        np.testing.assert_array_equal(scaled, exact_product(a8, b8, 32))
        np.testing.assert_array_equal(A.dot_scaled(a8, None, "e4m3", b8, None, "e5m2"), scaled)


def test_dot_scaled_scales_groups_of_32():
    a, b = np.ones((1, 64), np.uint8), np.ones((64, 1), np.uint8)
    scale = np.array([[127, 130]], np.uint8)
    product = A.dot_scaled(a, scale, "e4m3", b, np.full((1, 2), 127, np.uint8), "e4m3")
    eight = int(A.widen(A.embed(np.array(130 << 7, np.uint16), "bf16"), 32))
    assert int(product[0, 0]) == (32 + 32 * eight) % (1 << 32)


@pytest.mark.parametrize(("version", "zero", "nan"), [("3.8", 0x0000, 0x7FC0), ("3.9", 0x0040, 0x7F80)])
def test_extreme_scale_bytes_by_version(version, zero, nan):
    a = algebra.get(version)
    for byte, pattern in ((0, zero), (255, nan)):
        left = a.scaled_operand(np.ones((1, 32), np.uint8), "e4m3", np.array([[byte]], np.uint8), "bf16", True)
        np.testing.assert_array_equal(a.unembed(left, "bf16"), np.full((1, 32), pattern, np.uint16))


# ---------------------------------------------------------------------------------------------------------------------
# Names and inputs


def test_versions_are_selected_by_name_and_refused_otherwise():
    assert algebra.get("3.9-homomorphic").mixing_casts is False
    assert algebra.get(algebra.get("3.8")) is algebra.get("3.8")
    with pytest.raises(UnknownName, match=r"'3.10'.*known: 3.8, 3.9, 3.9-homomorphic"):
        algebra.get("3.10")
    with pytest.raises(UnknownName, match=r"did you mean '3\.9-homomorphic'"):
        algebra.get("3.9-homomorph")


@pytest.mark.parametrize(
    ("installed", "environment", "chosen"),
    [
        ("3.8.0", "", "3.8"),
        ("3.9.1", "", "3.9"),
        ("3.9.0", "1", "3.9-homomorphic"),
        ("3.8.0", "1", "3.8"),
        (None, "", "3.9"),
    ],
)
def test_default_version_is_the_installed_tritons(installed, environment, chosen, monkeypatch):
    monkeypatch.setattr("fpsan_tools.algebra.versions.installed_triton", lambda: installed)
    monkeypatch.setenv("TRITON_FPSAN_HOMOMORPHIC_CASTS", environment)
    assert algebra.get().version == chosen


@pytest.mark.parametrize("installed", ["3.7.1", "3.10.0"])
def test_an_installed_triton_without_a_known_algebra_is_refused(installed, monkeypatch):
    monkeypatch.setattr("fpsan_tools.algebra.versions.installed_triton", lambda: installed)
    with pytest.raises(UnknownName, match=f"installed Triton {installed} has no known FpSan algebra"):
        algebra.get()
    assert algebra.get("3.9").version == "3.9"


@pytest.mark.parametrize(
    ("spelling", "name"),
    [("fp8e4nv", "fp8e4m3fn"), ("f8E5M2", "fp8e5m2"), ("torch.bfloat16", "bf16"), ("float32", "fp32"), ("f64", "fp64")],
)
def test_float_types_have_their_common_spellings(spelling, name):
    assert algebra.float_type(spelling).name == name


def test_wrong_inputs_are_refused_with_a_way_out():
    with pytest.raises(UnknownName, match="unknown float type 'bf61'; did you mean 'bf16'"):
        algebra.float_type("bf61")
    with pytest.raises(FpsanError, match="fp16 patterns are 16 bits wide, but an array of dtype float32"):
        A.embed(np.float32(1.0), "fp16")
    with pytest.raises(FpsanError, match="payloads are unsigned integer arrays, but dtype float32"):
        A.unembed(np.float32(1.0), "fp32")
    with pytest.raises(UnknownName, match="unknown unary operation 'expp'; did you mean 'exp"):
        A.unary("expp", np.zeros(1, np.uint32))
    with pytest.raises(FpsanError, match=r"Triton 3\.8 leaves inline assembly uninstrumented"):
        algebra.get("3.8").inline_asm("nop", [], "fp32")


@pytest.mark.parametrize("bits", WIDTHS)
def test_scalars_wrap_without_warnings(bits):
    x = UNSIGNED[bits].type((1 << bits) - 1)
    for op in ("exp", "exp2", "cos", "sin", "log", "inv", "neg"):
        assert A.unary(op, x).shape == ()
    for op in (A.add, A.mul, A.div, A.rem, A.maximum):
        assert op(x, x).dtype == UNSIGNED[bits]
