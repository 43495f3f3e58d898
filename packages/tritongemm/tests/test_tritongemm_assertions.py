"""`assert_close`: right products pass whatever the order, planted mistakes fail, and the message says what they are."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fpsan_tools
import numfmt
import tritongemm
from tritongemm.assertions import assert_close, closeness, limits
from tritongemm.auditing.regions import roughly
from tritongemm.errors import UsageError
from tritongemm.orders import SummationOrder

U = 2.0**-24


def operands(M, K, N, seed=0):
    rng = np.random.default_rng([seed, M, K, N])
    return [rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((M, K), (K, N))]


def message(actual, a, b, **how):
    with pytest.raises(AssertionError) as failed:
        assert_close(actual, a, b, **how)
    return str(failed.value)


ORDERS = [
    SummationOrder.chain(),
    SummationOrder.chain(fused=False),
    SummationOrder.chain(promote=16),
    SummationOrder.lanes_then_tree(64),
    SummationOrder.tree_per_step(32),
]


@pytest.mark.parametrize("order", ORDERS, ids=lambda o: o.describe())
@pytest.mark.parametrize("shape", [(5, 1, 3), (7, 100, 9), (3, 2000, 4)], ids=str)
def test_every_order_of_summation_passes(order, shape):
    a, b = operands(*shape)
    assert_close(order.simulate(a, b), a, b)
    spread = np.ldexp(a, np.random.default_rng(1).integers(-30, 30, a.shape)).astype(np.float32)
    assert_close(order.simulate(spread, b), spread, b)


@given(st.integers(0, 2**32), st.integers(1, 60), st.sampled_from([0, 3, 8, 20]), st.sampled_from([0, -75]))
@settings(max_examples=60, deadline=None)
def test_no_input_exceeds_the_certain_limit(seed, K, spread, down):
    """Against exact rationals: cancellation, wide exponents and subnormals, in the longest order there is."""
    rng = np.random.default_rng(seed)
    a = np.ldexp(rng.uniform(-1, 1, (1, K)), rng.integers(-spread, spread + 1, (1, K)) * 3).astype(np.float32)
    b = rng.choice([-1, 1], (K, 1)).astype(np.float32) * np.ldexp(a.T[:: rng.choice([-1, 1])], down)
    got = Fraction(float(SummationOrder.chain(fused=False).simulate(a, b)[0, 0]))
    products = [Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a[0], b[:, 0], strict=True)]
    allowed = limits("ieee", K)
    bound = Fraction(allowed.certain) * sum(map(abs, products)) + Fraction(allowed.absolute)
    assert abs(got - sum(products)) <= bound


def test_roundings_that_all_point_the_same_way_are_excused_and_a_product_less_is_not():
    """0.1·0.1 added 4096 times in one chain errs by 356 u·sum|p|: beyond what is probable at the largest, and right."""
    a, b = np.full((4, 3000), 0.1, np.float32), np.full((3000, 4), 0.1, np.float32)
    b *= np.float32(3)
    chain = SummationOrder.chain().simulate(a, b)
    found = closeness(chain, a, b)
    assert found.passed
    wrong = chain.copy()
    wrong[1, 2] -= a[0, 0] * b[0, 0]
    assert "row 1 and column 2" in message(wrong, a, b)


def test_a_single_dropped_product_is_seen_where_allclose_is_blind():
    a, b = operands(20, 512, 30)
    c = SummationOrder.chain().simulate(a, b)
    k = int(np.abs(a[3] * b[:, 5]).argmax())
    c[3, 5] -= a[3, k] * b[k, 5]
    golden = a.astype(float) @ b.astype(float)
    assert np.allclose(c, golden, rtol=1e-2, atol=1.0)
    assert "1 of 600 outputs" in message(c, a, b)


def _k_tail(c, a, b):
    c[:, 16:] -= a[:, 500:] @ b[500:, 16:]


def _head(c, a, b):
    c -= a[:, :32] @ b[:32]


def _block(c, a, b):
    c -= a[:, 128:192] @ b[128:192]


def _block_twice(c, a, b):
    c += a[:, 64:96] @ b[64:96]


def _doubled(c, a, b):
    c *= 2


def _shifted(c, a, b):
    c[...] = np.roll(c, 1, axis=1)


def _transposed(c, a, b):
    c[...] = c.T.copy()


def _unwritten(c, a, b):
    c[:, 30:] = np.nan


def _zero(c, a, b):
    c[20:] = 0


def _tf32(c, a, b):
    c[...] = _as(a, numfmt.TF32, "toward_zero") @ _as(b, numfmt.TF32, "toward_zero")


def _bf16_operands(c, a, b):
    c[...] = _as(a, numfmt.BF16) @ _as(b, numfmt.BF16)


def _bf16_result(c, a, b):
    c[...] = _as(c, numfmt.BF16)


def _fp16_sum(c, a, b):
    total = np.zeros(c.shape, np.float16)
    for k in range(a.shape[1]):
        total = (total + a[:, k : k + 1] * b[k]).astype(np.float16)
    c[...] = total


def _eighth(c, a, b):
    c /= 8


def _as(x, fmt, how="nearest_even"):
    return np.asarray(fmt.round(x, rounding=how), np.float32)


INDEXING = "looks like an indexing mistake"
PRECISION = "looks like another precision"
PLANTED = [
    (_k_tail, [INDEXING, "from k = 500 of 512 on are missing", "from column 16 on"]),
    (_head, [INDEXING, "the first 32 of 512 products are missing"]),
    (_block, [INDEXING, "the products k = 128 to 191 are missing"]),
    (_block_twice, [INDEXING, "the products k = 64 to 95 are counted twice"]),
    (_doubled, [INDEXING, "2 times what they should be"]),
    (_eighth, ["looks like another epilogue", "0.125 times what they should be"]),
    (_shifted, [INDEXING, "what belongs -1 column away"]),
    (_transposed, [INDEXING, "the transposed place"]),
    (_unwritten, ["from column 30 on", "NaN: never written"]),
    (_zero, [INDEXING, "from row 20 on", "zero: never computed"]),
    (_tf32, [PRECISION, "truncated to tf32", "precision=..."]),
    (_bf16_operands, [PRECISION, "both operands were rounded to bf16"]),
    (_bf16_result, [PRECISION, "all of them are bf16 numbers"]),
    (_fp16_sum, [PRECISION, "what sums kept in fp16 make, rounded after every product"]),
]


@pytest.mark.parametrize(("plant", "words"), PLANTED, ids=lambda p: getattr(p, "__name__", ""))
def test_a_planted_mistake_is_named(plant, words):
    a, b = operands(40, 512, 40)
    c = SummationOrder.chain().simulate(a, b)
    assert_close(c, a, b)
    before = a.copy(), b.copy()
    plant(c, a, b)
    said = message(c, a, b, name="kernel")
    assert said.startswith("kernel (40 x 40, K = 512) is not the product of a and b")
    assert "kappa" in said or "NaN" in said
    for text in words:
        assert text in said
    np.testing.assert_array_equal(a, before[0])  # Inputs are never modified.
    np.testing.assert_array_equal(b, before[1])


@pytest.mark.parametrize("fmt", [numfmt.BF16, numfmt.FP16], ids=lambda fmt: fmt.name)
@pytest.mark.parametrize(
    ("parts", "block", "how", "words"),
    [
        (4, None, "added up", "added up in the type"),
        (7, 32, "added up", "added up in the type"),
        (9, None, "added to", "added to a sum of the type"),
        (16, 32, "rounded", "each rounded to the type"),
    ],
)
def test_parts_of_k_that_are_kept_in_the_type_of_the_results_are_named(fmt, parts, block, how, words):
    """As a split K does that adds with atomics, or keeps its parts in a narrow workspace."""
    a, b = (_as(x, fmt) for x in operands(120, 512, 120))
    owner = np.arange(512) * parts // 512 if block is None else np.arange(512) // block % parts
    sums = [a[:, owner == part] @ b[owner == part] for part in range(parts)]
    total = np.zeros((120, 120), np.float32)
    for x in sums if how == "added to" else (_as(x, fmt) for x in sums):
        total = total + x if how == "rounded" else _as(total + x, fmt)
    types = {"BF16": "bf16", "FP16": "fp16"}
    actual, a, b = (fpsan_tools.typed(fmt.encode(x).astype(np.uint16), types[fmt.name]) for x in (total, a, b))
    said = message(actual, a, b)
    assert f"{PRECISION}: they are what {parts} parts of K make, as of split K, {words} of the results" in said


def test_few_outputs_of_a_relu_are_no_indexing_mistake():
    a, b = operands(5, 64, 5)
    assert 8 <= (a @ b < 0).sum() < 16
    said = message(np.maximum(a @ b, 0), a, b)
    assert "zero where the product is negative, as after a relu" in said
    assert INDEXING not in said


def test_one_wrong_output_is_spoken_of_as_one():
    a, b = operands(6, 40, 5)
    c = a @ b
    c[2, 3] += 1
    said = message(c, a, b)
    assert "1 of 30 outputs is further away" in said
    assert "exceeded in 1 output." in said or "is missing" in said


def test_narrow_results_get_their_rounding_and_no_more():
    a, b = operands(30, 256, 20)
    golden = a.astype(float) @ b.astype(float)
    half = golden.astype(np.float16)
    assert_close(half, a, b)
    off = half.view(np.uint16)
    off[7, 3] += 2  # Two neighbours further: one rounding can be one neighbour at most.
    assert "row 7 and column 3" in message(half, a, b)


def test_special_values_belong_where_the_product_has_them():
    a, b = operands(6, 40, 5)
    a[2, 3], b[4, 1] = np.inf, np.nan
    with np.errstate(all="ignore"):
        c = SummationOrder.chain().simulate(a, b)
        assert_close(c, a, b)
        c[2, 0] = 1.0
        assert "row 2 and column 0" in message(c, a, b)
    a, b = operands(3, 4, 2)
    huge = a * np.float32(1e38), b * np.float32(10)
    with np.errstate(all="ignore"):
        assert_close(SummationOrder.chain().simulate(*huge), *huge)


def test_epilogues_are_part_of_what_is_expected():
    a, b = operands(8, 64, 6)
    rng = np.random.default_rng(3)
    c, bias = rng.uniform(-1, 1, (8, 6)).astype(np.float32), rng.uniform(-1, 1, 6).astype(np.float32)
    got = np.float32(0.5) * SummationOrder.chain().simulate(a, b) + np.float32(3) * c + bias
    assert_close(got, a, b, alpha=0.5, beta=3.0, c=c, bias=bias)
    message(got, a, b, alpha=0.5, beta=3.0, c=c)
    with pytest.raises(UsageError, match="there is no c"):
        closeness(got, a, b, beta=1.0)
    nan = np.full((8, 6), np.nan, np.float32)
    assert_close(SummationOrder.chain().simulate(a, b), a, b, beta=0.0, c=nan)  # beta = 0 reads no c.


def test_batches_are_compared_one_by_one():
    a, b = (np.stack(x) for x in zip(operands(5, 30, 4), operands(5, 30, 4, seed=1), strict=True))
    c = np.stack([SummationOrder.chain().simulate(x, y) for x, y in zip(a, b, strict=True)])
    assert closeness(c, a, b).outputs == 40
    c[1] = 0
    assert message(c, a, b).startswith("actual[1] (5 x 4, K = 30)")
    assert_close(np.zeros((0, 5, 4), np.float32), a[:0], b[:0])


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 3, 0), (2, 0, 3)], ids=str)
def test_empty_products(shape):
    M, K, N = shape
    assert_close(np.zeros((M, N), np.float32), np.zeros((M, K), np.float32), np.zeros((K, N), np.float32))


def test_shapes_that_do_not_fit_are_refused():
    a, b = operands(3, 4, 5)
    with pytest.raises(UsageError, match=r"\(3, 3\).*are no"):
        closeness(np.zeros((3, 3), np.float32), a, b)
    with pytest.raises(UsageError, match="no matrix"):
        closeness([[1.0]], a, b)


def test_the_limits_are_those_of_the_definitions():
    for K in (1, 17, 6144):
        found = limits("ieee", K)
        assert found.certain == float(numfmt.gamma(K, U))
        assert found.probable <= found.certain
        if K == 6144:
            assert found.probable == pytest.approx(6 * math.sqrt(K) * U, rel=1e-3)
    assert limits("ieee", 0).certain == 0
    # On few products a matrix unit may lose more than any order of fp32 additions.
    assert limits("ieee", 1, "fp16").certain > limits("ieee", 1).certain


def test_a_matrix_unit_stays_within_the_limits_of_its_operands():
    rng = np.random.default_rng(5)
    for K in (16, 80, 512):
        a, b = (rng.standard_normal(s).astype(np.float16) for s in ((20, K), (K, 24)))
        assert_close(numfmt.matrix_units.matmul(a, b, unit="hopper"), a, b)


def test_rough_regions_forgive_outputs_that_are_right_by_chance():
    wrong = np.zeros((20, 30), bool)
    wrong[:, 10:] = True
    wrong[3, 17] = wrong[5, 29] = False
    assert roughly(wrong) == "from column 10 on (398 of 400 outputs there)"
    wrong[:, 10:] = False
    wrong[2, 3] = wrong[17, 25] = True
    assert roughly(wrong).startswith("2 outputs between rows 2 and 17")


@pytest.mark.torch
def test_torch_tensors_are_compared_too():
    torch = pytest.importorskip("torch")
    a, b = (torch.from_numpy(x) for x in operands(20, 100, 10))
    assert_close(a @ b, a, b)
    assert_close((a.double() @ b.double()).bfloat16(), a, b)
    assert "bf16 numbers" in message((a.double() @ b.double()).bfloat16().float(), a, b)


def test_it_is_public():
    assert tritongemm.assert_close is assert_close


def test_products_in_float64_are_judged_by_its_own_roundoff():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((40, 300)), rng.standard_normal((300, 30))
    assert_close(a @ b, a, b)
    assert_close(np.einsum("mk,kn->mn", a, b), a, b)
    with pytest.raises(AssertionError, match=r"any order of 300 products in fp64"):
        assert_close((a.astype(np.float32) @ b.astype(np.float32)).astype(np.float64), a, b)
    wrong = a @ b
    wrong[7, 3] -= 1e-6 * a[7, 0] * b[0, 3]
    with pytest.raises(AssertionError, match="1 of 1,200 outputs"):
        assert_close(wrong, a, b)


def test_roundings_of_narrower_results_and_of_factors_are_allowed():
    assert_close(np.float32([[np.float64(1.1) * 1.3]]), np.float64([[1.1]]), np.float64([[1.3]]))
    rng = np.random.default_rng(4)
    a, b = rng.uniform(1, 2, (200, 1)).astype(np.float32), rng.uniform(1, 2, (1, 200)).astype(np.float32)
    for alpha in (0.1, 1 / 3, 1e-40):  # fp32 holds none of them.
        assert_close(np.float32(alpha) * (a * b), a, b, alpha=alpha)
        with pytest.raises(AssertionError):
            assert_close(np.float32(alpha) * (a * b) * np.float32(1.001), a, b, alpha=alpha)


def test_no_infinity_of_an_operand_is_read_for_an_alpha_of_zero():
    a, b = np.float32([[np.inf, 1]]), np.float32([[1], [1]])
    assert_close(np.float32([[0]]), a, b, alpha=0.0)
    assert_close(np.float32([[3]]), a, b, alpha=0.0, bias=np.float32([3]))
    message(np.float32([[1]]), a, b, alpha=0.0)


def test_a_narrow_result_may_overflow_to_the_infinity_that_its_error_reaches():
    """The sum of 1 and -1 in an order may be wrong by u; times 2e35, that is an infinity of any sign in fp16."""
    a, b = np.float32([[1 + 2.0**-12, -1]]), np.float32([[1 + 2.0**-12], [1 + 2.0**-11]])
    for sign in (1, -1):
        assert_close(np.float16([[sign * np.inf]]), a, b, alpha=sign * 2e35)
        assert_close(np.float16([[-sign * np.inf]]), a, b, alpha=sign * 2e35)


@pytest.mark.parametrize("precision", ["ieee", "tf32", "auto"])
def test_of_products_that_overflow_only_what_some_order_gives_is_right(precision):
    a = np.full((2, 8), 1e20, np.float32)
    b = a.T.copy()

    def judged(value):
        return closeness(np.full((2, 2), value, np.float32), a, b, precision=precision).passed

    assert judged(np.inf)
    assert not any(judged(value) for value in (0.0, 3.4e38, -np.inf))
    # One sign makes no NaN, unless products are of parts, whose signs differ.
    assert judged(np.nan) == (precision == "auto")
    b[:3] *= -1  # The sum overflows to inf, -1e40·3 alone to -inf: an order may meet both.
    assert judged(np.inf)
    assert judged(-np.inf)
    assert judged(np.nan)
    assert not judged(0.0)


def test_sums_that_overflow_on_the_way_are_infinite_or_right():
    a, b = np.full((1, 4), 3e19, np.float32), np.float32([[1e19], [1e19], [-1e19], [-1e19]])
    for value in (0, 1e30, np.inf, -np.inf, np.nan):  # 1e30 is what rounding may leave of 3e38 - 3e38.
        assert_close(np.float32([[value]]), a, b)
    message(np.float32([[1e38]]), a, b)
    b = np.float32([[1e19], [1e19], [-1e18], [-1e18]])  # 6e38 - 6e37: no order comes near -inf.
    assert_close(np.float32([[np.inf]]), a, b)
    message(np.float32([[-np.inf]]), a, b)
    message(np.float32([[np.nan]]), a, b)
    message(np.float32([[3e38]]), a, b)


def _finished(product, c, bias, alpha=1.0, beta=0.5, activation=None):
    x = alpha * product + beta * c + bias
    return x if activation is None else FUNCTIONS[activation](x)


FUNCTIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "silu": lambda x: x / (1 + np.exp(-x)),
}
MISTAKES = {
    "the bias is missing": lambda p, c, bias, **how: _finished(p, c, 0 * bias, **how),
    "the bias is added along the other axis": lambda p, c, bias, **how: _finished(p, c, bias[:, None], **how),
    "the bias is added twice": lambda p, c, bias, **how: _finished(p, c, 2 * bias, **how),
    "c is missing": lambda p, c, bias, **how: _finished(p, 0 * c, bias, **how),
    "beta is missing": lambda p, c, bias, **how: _finished(p, c, bias, **{**how, "beta": 1}),
    "alpha is missing": lambda p, c, bias, **how: _finished(p, c, bias, **{**how, "alpha": 1}),
    "the activation (gelu) is missing": lambda p, c, bias, **how: _finished(p, c, bias, **{**how, "activation": None}),
    "silu was applied instead of gelu": lambda p, c, bias, **how: _finished(
        p, c, bias, **{**how, "activation": "silu"}
    ),
}


def _parts(out, spread=1.0):
    rng = np.random.default_rng(8)
    a, b = (rng.standard_normal((64, 64)).astype(out) * out(spread) for _ in range(2))
    return a, b, rng.standard_normal((64, 64)).astype(out), rng.standard_normal(64).astype(out)


@pytest.mark.parametrize("out", [np.float16, np.float32], ids=lambda t: t.__name__)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_epilogue_is_named_and_not_taken_for_another_precision(mistake, out):
    a, b, c, bias = _parts(out, 0.3)
    product = a.astype(float) @ b.astype(float)
    how = {"alpha": 2.0, "beta": 0.5, "activation": "gelu" if "gelu" in mistake else None}
    assert_close(_finished(product, c, bias, **how).astype(out), a, b, c=c, bias=bias, **how)
    wrong = MISTAKES[mistake](product, c.astype(float), bias.astype(float), **how).astype(out)
    said = message(wrong, a, b, c=c, bias=bias, **how)
    assert f"looks like another epilogue: {mistake}. If that is intended, give it here" in said


@pytest.mark.parametrize("out", [np.float16, np.float32], ids=lambda t: t.__name__)
@pytest.mark.parametrize("form", ["tanh", "sigmoid"])
def test_other_forms_of_gelu_are_named(form, out):
    a, b, _, bias = _parts(out, 0.3)
    x = a.astype(float) @ b.astype(float) + bias
    forms = {"tanh": 2 / math.sqrt(math.pi / 2) * (x + 0.044715 * x**3), "sigmoid": 1.702 * x}
    got = (x / (1 + np.exp(-forms[form]))).astype(out)
    said = message(got, a, b, bias=bias, activation="gelu")
    assert f"the {form} form of gelu was applied instead of gelu" in said


@pytest.mark.parametrize("out", [np.float16, np.float32], ids=lambda t: t.__name__)
def test_a_constant_factor_is_named(out):
    a, b, _, bias = _parts(out)
    product = a.astype(float) @ b.astype(float)
    said = message(((product + bias) * 1.01).astype(out), a, b, bias=bias)
    assert "looks like another epilogue: they are 1.01 times what they should be" in said
    said = message((product * 1.25 + bias).astype(out), a, b, bias=bias)
    assert "the product in them is 1.25 times what it should be" in said


def test_truncated_results_are_neither_another_epilogue_nor_scaled():
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(0, 1, (64, 64)).astype(np.float16) for _ in range(2))
    cut = np.asarray(numfmt.FP16.round(a.astype(float) @ b.astype(float), rounding="toward_zero"))
    assert "another precision: the results were truncated to their type" in message(cut.astype(np.float16), a, b)


@pytest.mark.parametrize(("fmt", "step"), [("bf16", 1), ("bf16", 32), ("fp16", 16)])
@pytest.mark.parametrize("out", [numfmt.FP32, numfmt.BF16], ids=lambda f: f.name)
def test_narrow_sums_are_told_apart_by_their_format(fmt, step, out):
    narrow = {"bf16": numfmt.BF16, "fp16": numfmt.FP16}[fmt]
    rng = np.random.default_rng(8)
    a, b = (_as(rng.standard_normal((64, 640)).astype(np.float32), numfmt.BF16) for _ in range(2))
    b, bias = b.T, rng.standard_normal(64).astype(np.float32)
    total = np.zeros((64, 64), np.float32)
    for k in range(0, 640, step):
        total = _as(total + a[:, k : k + step] @ b[k : k + step], narrow)
    got = _as(total + bias, out)
    if out is numfmt.BF16:
        got = pytest.importorskip("ml_dtypes") and got.astype("bfloat16")
    assert f"sums kept in {fmt} make" in message(got, a, b, bias=bias)


def test_errors_of_the_size_of_a_narrow_sum_are_ascribed_to_the_nearest_format():
    """Sums in another order than those tried: two halves, each in bf16."""
    a, b = operands(64, 512, 64)
    for fmt, name in ((numfmt.BF16, "bf16"), (numfmt.FP16, "fp16")):
        halves = np.zeros((2, 64, 64), np.float32)
        for k in range(256):
            for i in (0, 256):
                halves[i // 256] = _as(halves[i // 256] + a[:, i + k, None] * b[i + k], fmt)
        assert f"of the size that sums kept in {name} make" in message(halves[0] + halves[1], a, b)


@pytest.mark.parametrize("activation", FUNCTIONS)
@pytest.mark.parametrize("out", [np.float16, np.float32], ids=lambda t: t.__name__)
def test_activations_are_part_of_what_is_expected(activation, out):
    a, b, _, bias = _parts(out, 0.4)
    got = tritongemm.mm(a, b, bias=bias, activation=activation)
    assert_close(got, a, b, bias=bias, activation=activation)
    assert_close(np.stack([got, got]), np.stack([a, a]), np.stack([b, b]), bias=bias, activation=activation)
    wrong = got.copy()
    at = np.unravel_index(int(wrong.argmax()), wrong.shape)
    wrong[at] *= out(1.01)
    assert "1 of 4,096 outputs" in message(wrong, a, b, bias=bias, activation=activation)
    message(got, a, b, bias=bias)


def test_a_mistake_in_the_sum_is_named_behind_an_activation_too():
    a, b = operands(40, 512, 40)
    bias = np.linspace(-1, 1, 40).astype(np.float32)
    wrong = np.maximum(a[:, :448] @ b[:448] + bias, 0)
    assert "from k = 448 of 512 on are missing" in message(wrong, a, b, bias=bias, activation="relu")


def test_special_values_go_through_activations():
    a, b = np.float32([[np.inf], [np.nan], [-1e30], [1e30]]), np.float32([[1.0]])
    with np.errstate(all="ignore"):
        for activation in FUNCTIONS:
            assert_close(tritongemm.mm(a, b, activation=activation), a, b, activation=activation)


def test_unknown_activations_are_refused():
    a, b = operands(3, 4, 3)
    with pytest.raises(UsageError, match=r"activation: 'rellu'.*Did you mean 'relu'"):
        assert_close(a @ b, a, b, activation="rellu")


def test_what_is_added_must_have_the_shape_of_what_it_is_added_to():
    a, b = operands(4, 5, 6)
    c = SummationOrder.chain().simulate(a, b)
    for shape in ((5,), (6, 1), (4, 1), (1, 6), ()):
        with pytest.raises(UsageError, match=r"bias: shape .*, but one number per column is added: \(6,\)"):
            assert_close(c, a, b, bias=np.zeros(shape, np.float32))
    with pytest.raises(UsageError, match="c must broadcast to the product"):
        assert_close(c, a, b, beta=1.0, c=np.zeros((3, 6), np.float32))
    assert_close(c + 1, a, b, beta=1.0, c=np.ones((1, 6), np.float32))
    a3, b3, c3 = (np.stack([x, x]) for x in (a, b, c))
    with pytest.raises(UsageError, match="c must broadcast to the product"):
        assert_close(c3, a3, b3, beta=1.0, c=np.zeros((3, 4, 6), np.float32))
    assert_close(c3 + 1, a3, b3, beta=1.0, c=np.ones((4, 6), np.float32))


def test_an_empty_batch_is_checked_as_others_are():
    a, b = np.zeros((0, 4, 5), np.float32), np.zeros((0, 5, 6), np.float32)
    c = np.zeros((0, 4, 6), np.float32)
    assert_close(c, a, b)
    with pytest.raises(UsageError, match=r"are no \(B, M, N\), \(B, M, K\), \(B, K, N\)"):
        assert_close(c, a, np.zeros((0, 7, 9), np.float32))
    with pytest.raises(UsageError, match="'nonsense' is no mode"):
        assert_close(c, a, b, precision="nonsense")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"bias": [0] * 6}, "bias: assert_close takes NumPy arrays or torch tensors, given a list"),
        ({"bias": 1.0}, "bias: assert_close takes NumPy arrays or torch tensors, given a float"),
        ({"beta": 1.0, "c": [[0] * 6] * 4}, "c: assert_close takes NumPy arrays or torch tensors, given a list"),
        ({"beta": 1.0, "c": 0.0}, "c: assert_close takes NumPy arrays or torch tensors, given a float"),
        ({"alpha": None}, "alpha: a real number, given None"),
        ({"alpha": "1"}, "alpha: a real number, given a str"),
        ({"beta": None}, "beta: a real number, given None"),
        ({"precision": None}, "precision: a mode's name, given None"),
        ({"b": tritongemm.prepare(np.zeros((5, 6), np.float32))}, "b: prepared operands are for the b of mm"),
    ],
    ids=lambda x: x[:20] if isinstance(x, str) else "",
)
def test_arguments_of_other_kinds_are_refused_by_name(given, words):
    a, b = operands(4, 5, 6)
    arguments = {"actual": SummationOrder.chain().simulate(a, b), "a": a, "b": b} | given
    with pytest.raises(UsageError, match=words):
        assert_close(**arguments)


@pytest.mark.torch
def test_tensors_without_numbers_are_refused():
    torch = pytest.importorskip("torch")
    a, b = (torch.from_numpy(x) for x in operands(4, 5, 6))
    with pytest.raises(UsageError, match="actual: on device meta it has no numbers"):
        assert_close(torch.empty(4, 6, device="meta"), a, b)
    with pytest.raises(UsageError, match=r"actual: .*layout torch.strided, given torch.sparse"):
        assert_close((a @ b).to_sparse(), a, b)


@pytest.mark.parametrize("kind", ["float64", "float32", "float16"])
def test_automatic_products_of_any_type_are_held_to_the_mode_that_computes_them(kind):
    a, b = (x.astype(kind) for x in operands(5, 40, 6))
    c = tritongemm.mm(a, b, precision="auto")
    tritongemm.assert_close(c, a, b, precision="auto")
    if kind != "float64":
        report = tritongemm.accuracy.measure(c, a, b, precision="auto")
        assert report.bound_exceeded == 0
    c[1, 2] += 1
    with pytest.raises(AssertionError):
        tritongemm.assert_close(c, a, b, precision="auto")


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_products_of_subnormal_numbers_are_held_to_what_a_matrix_unit_cuts(kind):
    """They are aligned as if they were as large as the least normal one, and lose the bits below that."""
    a, b = {
        "float16": (np.full((2, 8), 2.0**-24), np.full((8, 2), 1025 * 2.0**-6)),
        "bfloat16": (np.full((1, 1), 127 * 2.0**-133), np.full((1, 1), 129 * 2.0**-25)),
    }[kind]
    if kind == "float16":
        b[2] *= 512
    made = np.dtype(getattr(pytest.importorskip("ml_dtypes"), kind, kind))
    c = tritongemm.mm(a.astype(made), b.astype(made), out_dtype="fp32")
    assert (c != a @ b).all()
    assert_close(c, a.astype(made), b.astype(made))
    assert tritongemm.accuracy.measure(c, a.astype(made), b.astype(made)).bound_exceeded == 0
    with pytest.raises(AssertionError):
        assert_close(2 * c, a.astype(made), b.astype(made))


def test_addends_of_a_wider_type_and_activations_of_what_overflows_are_judged_as_they_are_computed():
    a, b = operands(4, 8, 4)
    tiny = np.full((4, 4), 2.0**-152)  # is zero as a number of fp32, in which sums are
    given = {"c": tiny, "beta": 2.0**70, "alpha": 2.0**-80}
    got = tritongemm.mm(a, b, out_dtype="fp64", **given)
    assert_close(got, a, b, **given)
    with pytest.raises(AssertionError):
        assert_close(got + 2.0**-78, a, b, **given)
    large, one = np.full((1, 2), -3e38, np.float32), np.ones((2, 1), np.float32)
    for activation in ("gelu", "silu"):
        got = tritongemm.mm(large, one, activation=activation)
        assert np.isnan(got).all()
        assert_close(got, large, one, activation=activation)
        with pytest.raises(AssertionError):
            assert_close(got, -large / 2, one, activation=activation)
