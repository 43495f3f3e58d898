"""The traps of matrix products, each tried on kernels that are evaluated: tails, strides, surroundings, empty shapes,
shared memory, NaN and infinity, and what must not change from call to call.

`config` names a kernel, so it is launched (evaluated) rather than predicted.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tritongemm
from tritongemm.errors import UsageError

pytest.importorskip("triton")
pytestmark = pytest.mark.triton

SMALL = tritongemm.Config(kernel="blocked", block_m=16, block_n=16, block_k=16, stages=1)
SPLIT = SMALL.changed(kernel="split_k", splits=3)
STREAM = SMALL.changed(kernel="stream_k", splits=2)
KERNELS = pytest.mark.parametrize("config", [SMALL, SPLIT, STREAM], ids=lambda config: config.kernel)


def random(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).uniform(-1, 1, shape).astype(np.float32)


def evaluated(a, b, config=SMALL, **options):
    return tritongemm.mm(a, b, config=config, invariant=config.kernel == "blocked", **options)


def same_bits(x, y):
    assert x.dtype == y.dtype
    assert x.shape == y.shape
    return x.tobytes() == y.tobytes()


def surrounded(x, fill=np.nan):
    """x inside a larger buffer whose other elements are all `fill`."""
    whole = np.full((x.shape[0] + 3, 2 * x.shape[1] + 5), fill, x.dtype)
    inside = whole[2:-1, 3 : 3 + 2 * x.shape[1] : 2]
    inside[...] = x
    return whole, inside


# ---------------------------------------------------------------------------------------------------------------- tails
@pytest.mark.parametrize("K", range(34))
def test_k_tails_of_every_residue_have_the_predicted_bits(K):
    a, b = random(3, K), random(K, 5)
    assert same_bits(evaluated(a, b), tritongemm.predict(a, b))


@pytest.mark.parametrize("size", range(1, 34))
def test_m_and_n_tails_of_every_residue_have_the_predicted_bits(size):
    a, b = random(size, 9), random(9, 35 - size)
    assert same_bits(evaluated(a, b), tritongemm.predict(a, b))


@pytest.mark.parametrize("config", [SMALL, SPLIT], ids=lambda config: config.kernel)
@pytest.mark.parametrize("shape", [(0, 4, 5), (3, 4, 0), (0, 0, 0), (3, 0, 5), (0, 0, 5)], ids=str)
def test_empty_products(shape, config):
    M, K, N = shape
    c, bias = random(M, N), random(N)
    got = evaluated(np.ones((M, K), "f"), np.ones((K, N), "f"), config, c=c, beta=2.0, bias=bias)
    np.testing.assert_array_equal(got, 2 * c + bias)
    assert tritongemm.mm(np.ones((M, K), "f"), np.ones((K, N), "f")).sum() == 0


def test_empty_batches():
    assert tritongemm.bmm(np.empty((0, 3, 4), "f"), np.empty((0, 4, 5), "f")).shape == (0, 3, 5)
    assert tritongemm.bmm(np.empty((2, 0, 4), "f"), np.empty((2, 4, 5), "f")).shape == (2, 0, 5)
    np.testing.assert_array_equal(
        tritongemm.bmm(np.empty((2, 3, 0), "f"), np.empty((2, 0, 5), "f")), np.zeros((2, 3, 5))
    )


# ------------------------------------------------------------------------------------------------- memory around and in
@KERNELS
def test_nothing_is_read_or_written_beside_the_matrices(config):
    a, b, c, bias = random(19, 37), random(37, 21), random(19, 21), random(21)
    want = evaluated(a, b, config, c=c, beta=0.5, bias=bias)
    (whole_a, x), (whole_b, y), (whole_c, z) = surrounded(a), surrounded(b), surrounded(c)
    around_bias, inner = surrounded(bias[None])
    whole_out, out = surrounded(np.zeros((19, 21), "f"), fill=7)
    kept = [whole.copy() for whole in (whole_a, whole_b, whole_c, around_bias)]
    assert evaluated(x, y, config, c=z, beta=0.5, bias=inner[0], out=out) is out
    assert same_bits(out.copy(), want)
    out[...] = 7
    assert (whole_out == 7).all()
    for now, before in zip((whole_a, whole_b, whole_c, around_bias), kept, strict=True):
        assert now.tobytes() == before.tobytes()


@KERNELS
def test_strides_of_every_kind_give_the_same_bits(config):
    a, b = random(18, 40), random(40, 20)
    want = evaluated(a, b, config)
    views = {
        "columns": (np.asfortranarray(a), np.asfortranarray(b)),
        "gaps": (np.repeat(a, 2, 0)[::2], np.repeat(b, 3, 1)[:, ::3]),
        "odd offset": (np.concatenate([[0], a.ravel()]).astype("f")[1:].reshape(a.shape), b),
        "wide pitch": (np.pad(a, ((0, 0), (0, 3)))[:, :40], np.pad(b, ((0, 5), (0, 1)))[:40, :20]),
        "back and forth": (a[::-1].copy()[::-1], b[:, ::-1].copy()[:, ::-1]),
    }
    for name, (x, y) in views.items():
        assert same_bits(evaluated(x, y, config), want), name
    row, column = np.broadcast_to(a[:1], a.shape), np.broadcast_to(b[:, :1], b.shape)
    assert same_bits(evaluated(row, b, config), np.broadcast_to(want[:1], want.shape).copy())
    assert same_bits(evaluated(a, column, config), np.broadcast_to(want[:, :1], want.shape).copy())


@KERNELS
def test_results_of_any_strides(config):
    a, b, c = random(18, 20), random(20, 17), random(18, 17)
    want = evaluated(a, b, config, c=c, beta=1.0)
    for out in (np.empty((17, 18), "f").T, np.empty((36, 17), "f")[::2], np.empty((18, 17), "f")[::-1]):
        assert same_bits(evaluated(a, b, config, c=np.asfortranarray(c), beta=1.0, out=out).copy(), want)


def test_strides_that_are_no_whole_elements_are_refused():
    packed = np.zeros(12, dtype=[("value", "f4"), ("tag", "u1")])["value"].reshape(3, 4)
    with pytest.raises(UsageError, match="strides"):
        tritongemm.mm(packed, random(4, 5))


@pytest.mark.parametrize("operand", ["a", "b", "c", "transposed c", "part of c", "bias"])
@KERNELS
def test_out_may_lie_on_any_operand(operand, config):
    given = {"a": random(18, 18), "b": random(18, 18, seed=1), "c": random(18, 18, seed=2), "bias": random(18)}

    def product(out=None, **changed):
        x = {**given, **changed}
        return evaluated(x["a"], x["b"], config, c=x["c"], beta=0.5, bias=x["bias"], out=out)

    want = product()
    whole = np.zeros((19, 18), "f")
    if operand == "bias":
        whole[3] = given["bias"]
        got = product(out=whole[:18], bias=whole[3])
    elif operand == "part of c":
        whole[1:] = given["c"]
        got = product(out=whole[:18], c=whole[1:])
    elif operand == "transposed c":
        own = given["c"].T.copy()
        got = product(out=own, c=own.T)
    else:
        own = given[operand].copy()
        got = product(out=own, **{operand: own})
        assert got is own
    assert same_bits(got.copy(), want)


@pytest.mark.parametrize("operand", ["a", "part of c", "bias"])
def test_out_may_lie_on_any_operand_beside_a_prepared_one(operand):
    a, b = random(18, 18), tritongemm.prepare(random(18, 18, seed=1), "bf16x6")
    whole = random(19, 18)
    places = {"a": ("a", slice(0, 18)), "part of c": ("c", slice(1, 19)), "bias": ("bias", 3)}
    argument, rows = places[operand]
    given = {"a": a, "c": None if argument != "c" else whole[rows], "beta": float(argument == "c"), "bias": None}

    def product(whole=None):
        lying = {} if whole is None else {argument: whole[rows], "out": whole[:18]}
        return tritongemm.mm(**{"b": b, **given, argument: memory[rows], **lying})

    memory = whole.copy()
    want = product()
    assert same_bits(product(memory), want)


def test_inputs_are_never_changed():
    given = [random(5, 20), random(20, 6), random(5, 6), random(6)]
    kept = [x.copy() for x in given]
    for x in given:
        x.flags.writeable = False
    for config in (None, SMALL):
        tritongemm.mm(given[0], given[1], c=given[2], beta=2, bias=given[3], activation="gelu", config=config)
    for now, before in zip(given, kept, strict=True):
        assert same_bits(now, before)


# ------------------------------------------------------------------------------------------------------ special numbers
@KERNELS
def test_beta_of_zero_does_not_read_c(config):
    a, b = random(5, 20), random(20, 6)
    nan = np.full((5, 6), np.nan, "f")
    assert same_bits(evaluated(a, b, config, c=nan, beta=0), evaluated(a, b, config))
    out = nan.copy()
    assert same_bits(evaluated(a, b, config, out=out), evaluated(a, b, config))


def test_alpha_of_zero_does_not_read_the_factors():
    """As BLAS has it: 0·NaN would be NaN."""
    a, b, c = np.full((5, 20), np.nan, "f"), random(20, 6), random(5, 6)
    for config in (None, SMALL):
        np.testing.assert_array_equal(tritongemm.mm(a, b, alpha=0, c=c, beta=2, config=config), 2 * c)


@KERNELS
def test_nan_and_infinity_come_out_where_they_belong(config):
    a, b = random(5, 50), random(50, 4)
    a[1, 7], a[2, 3], a[4, 0] = np.nan, np.inf, np.inf
    a[4, 9], b[9, 0] = np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        want = a.astype(np.float64) @ b.astype(np.float64)
    got = evaluated(a, b, config)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])
    with np.errstate(invalid="ignore"):
        relu = evaluated(a, b, config, activation="relu")
    np.testing.assert_array_equal(np.isnan(relu), np.isnan(want))  # as torch.relu: NaN stays NaN


def test_a_bias_is_added_to_a_rounded_product_where_k_is_one():
    # Triton would make K = 1 a constant, drop the loop, and fuse the product into the addition.
    a, b, bias = random(40, 1), random(1, 33), random(33)
    got = evaluated(a, b, bias=bias)
    assert same_bits(got, (a * b) + bias)
    assert not same_bits(got, (a.astype("f8") * b + bias).astype("f"))  # one rounding differs here


def test_subnormal_numbers_are_kept():
    tiny = np.full((3, 4), 2.0**-140, "f")
    got = evaluated(tiny, np.full((4, 2), 2.0**3, "f"))
    np.testing.assert_array_equal(got, np.full((3, 2), 4 * 2.0**-137))


def test_sums_that_overflow_are_infinite_and_results_round_to_nearest():
    big = np.full((1, 2), 3e38, "f")
    assert evaluated(big, np.ones((2, 1), "f"))[0, 0] == np.inf
    assert evaluated(np.full((1, 2), 4e4, "f"), np.ones((2, 1), "f"), out_dtype="fp16")[0, 0] == np.inf


# ------------------------------------------------------------------------------------------------- what must not change
@pytest.mark.parametrize("precision", ["ieee", "tf32", "tf32x3", "bf16x6"])
def test_a_row_does_not_depend_on_how_many_come_along(precision):
    a, b = random(65, 40), random(40, 6)
    config = SMALL.changed(block_k=32)
    want = tritongemm.mm(a, b, precision=precision, config=config)
    for rows in (1, 2, 3, 17, 33, 64):
        assert same_bits(tritongemm.mm(a[:rows], b, precision=precision, config=config), want[:rows])


@pytest.mark.parametrize("precision", ["ieee", "tf32x3"])
def test_bits_do_not_depend_on_the_configuration(precision):
    a, b = random(40, 70), random(70, 33)
    want = tritongemm.predict(a, b, precision=precision)
    for changes in ({}, {"block_m": 32}, {"block_n": 64}, {"warps": 8}, {"stages": 4}, {"group_m": 1}):
        config = SMALL.changed(block_k=32).changed(**changes)
        assert same_bits(tritongemm.mm(a, b, precision=precision, config=config), want)


@KERNELS
def test_reruns_have_equal_bits(config):
    a, b = random(33, 100), random(100, 20)
    first = evaluated(a, b, config)
    for _ in range(3):
        assert same_bits(evaluated(a, b, config), first)


def test_environment_variables_change_no_bit(monkeypatch):
    a, b = random(20, 40), random(40, 20)
    want = evaluated(a, b)
    for name, value in {"TRITON_F32_DEFAULT": "tf32", "TRITON_DEFAULT_FP_FUSION": "0"}.items():
        monkeypatch.setenv(name, value)
        assert same_bits(evaluated(a, b), want)


# ----------------------------------------------------------------------------------------------------------------- fuzz
def view(draw, rows, columns, seed):
    """A matrix of some strides and offset, in a buffer that is NaN elsewhere."""
    row_step, column_step = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 2, 3]))
    before, after = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    whole = np.full((rows * row_step + 2, before + columns * column_step + after), np.nan, np.float32)
    if draw(st.booleans()):
        whole = np.asfortranarray(whole)
    inside = whole[1 : 1 + rows * row_step : row_step, before : before + columns * column_step : column_step]
    if draw(st.booleans()):
        inside = inside[::-1]
    inside[...] = random(rows, columns, seed=seed)
    return inside


@settings(max_examples=25, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_product_of_any_views_has_the_predicted_bits(data):
    M, K, N = (data.draw(st.integers(low, 20)) for low in (1, 0, 1))
    a, b, c, out = (view(data.draw, *s, seed=i) for i, s in enumerate(((M, K), (K, N), (M, N), (M, N))))
    options = {
        "alpha": data.draw(st.sampled_from([1.0, -0.5, 0.0])),
        "beta": data.draw(st.sampled_from([0.0, 1.0, 3.0])),
        "c": c,
        "bias": random(N) if data.draw(st.booleans()) else None,
        "activation": data.draw(st.sampled_from([None, "relu"])),
    }
    got = evaluated(a, b, out=out, **options)
    assert got is out
    assert not np.isnan(got).any()
    assert same_bits(got.copy(order="C"), tritongemm.predict(a.copy(), b.copy(), **{**options, "c": c.copy()}))


# ------------------------------------------------------------------------------------------------------------- on a GPU
def on_gpu(*shape, dtype="float32", seed=0):
    torch = pytest.importorskip("torch")
    generator = torch.Generator(device="cuda").manual_seed(seed + 7 * len(shape) + shape[-1])
    return torch.rand(shape, generator=generator, device="cuda").mul_(2).sub_(1).to(getattr(torch, dtype))


def equal(x, y):
    import torch

    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return x.dtype == y.dtype and torch.equal(x.contiguous().view(whole), y.contiguous().view(whole))


TYPES = pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])


@pytest.mark.gpu
@TYPES
def test_gpu_products_have_the_predicted_bits(dtype):
    for M, K, N in ((64, 64, 64), (1, 33, 5), (130, 777, 67), (257, 128, 192), (16, 512, 256)):
        a, b, bias = on_gpu(M, K, dtype=dtype), on_gpu(K, N, dtype=dtype), on_gpu(N, dtype=dtype)
        for _ in range(2):  # launched, then replayed
            assert equal(tritongemm.mm(a, b).cpu(), tritongemm.predict(a, b)), (M, K, N)
        got = tritongemm.linear(a, b.t().contiguous(), bias, activation="relu").cpu()
        assert equal(got, tritongemm.predict(a, b, bias=bias, activation="relu")), (M, K, N)


@pytest.mark.gpu
@TYPES
def test_gpu_rows_do_not_depend_on_how_many_come_along_and_reruns_are_equal(dtype):
    a, b = on_gpu(500, 1000, dtype=dtype), on_gpu(1000, 384, dtype=dtype)
    want = tritongemm.mm(a, b)
    for _ in range(20):
        assert equal(tritongemm.mm(a, b), want)
    for rows in (1, 2, 3, 17, 64, 65, 127, 500):
        assert equal(tritongemm.mm(a[:rows], b), want[:rows]), rows


@pytest.mark.gpu
@TYPES
def test_gpu_strides_surroundings_and_shared_memory(dtype):
    import torch

    a, b, c = on_gpu(66, 70, dtype=dtype), on_gpu(70, 66, dtype=dtype), on_gpu(66, 66, dtype=dtype)
    want = tritongemm.mm(a, b, c=c, beta=0.5)

    def inside(x, fill=float("nan")):
        whole = torch.full((x.shape[0] + 3, 2 * x.shape[1] + 5), fill, dtype=x.dtype, device="cuda")
        part = whole[2:-1, 3 : 3 + 2 * x.shape[1] : 2]
        part.copy_(x)
        return whole, part

    whole, out = inside(c, 7.0)
    for _ in range(2):
        assert tritongemm.mm(inside(a)[1], inside(b)[1], c=inside(c)[1], beta=0.5, out=out) is out
        assert equal(out, want)
        out.fill_(7.0)
        assert bool((whole == 7.0).all())
    x, y, z = (matrix.t().contiguous().t() for matrix in (a, b, c))
    assert equal(tritongemm.mm(x, y, c=z, beta=0.5), want)
    odd = torch.empty(66 * 70 + 1, dtype=a.dtype, device="cuda")[1:].view(66, 70).copy_(a)
    assert equal(tritongemm.mm(odd, b, c=c, beta=0.5), want)
    own = c.clone()
    for _ in range(2):
        own.copy_(c)
        assert equal(tritongemm.mm(a, b, c=own, beta=0.5, out=own), want)
    square, other = on_gpu(64, 64, dtype=dtype), on_gpu(64, 64, dtype=dtype, seed=1)
    product = tritongemm.mm(square, other)
    for _ in range(2):
        left, right = square.clone(), other.clone()
        assert equal(tritongemm.mm(left, right, out=left), product)
        assert equal(tritongemm.mm(square, right, out=right), product)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", [(64, 64, 64), (512, 512, 512), (1024, 1024, 1024), (4, 4096, 64)], ids=str)
def test_gpu_calls_that_are_launched_from_memory_have_the_same_bits(shape, dtype):
    from tritongemm import eager

    M, K, N = shape
    operands = [(on_gpu(M, K, dtype=dtype, seed=i), on_gpu(K, N, dtype=dtype, seed=i)) for i in range(3)]
    options = {"invariant": M > 4}
    eager.clear()
    want = []
    for a, b in operands:
        want.append(tritongemm.mm(a, b, **options))
        assert len(eager._plans) == 1
        eager.clear()
    got = [tritongemm.mm(a, b, **options) for a, b in operands * 2]
    assert all(equal(x, y) for x, y in zip(got, want * 2, strict=True))


@pytest.mark.gpu
def test_gpu_addends_and_accumulation_from_memory():
    from tritongemm import eager

    a, b, row = on_gpu(64, 96), on_gpu(96, 64), on_gpu(64)
    eager.clear()
    want = tritongemm.addmm(row, a, b)
    assert len(eager._plans) == 1
    other = on_gpu(64, seed=5)
    assert equal(tritongemm.addmm(row, a, b), want)
    assert equal(tritongemm.addmm(other, a, b).cpu(), tritongemm.predict(a, b, c=other, beta=1))
    total, expected = on_gpu(64, 64), on_gpu(64, 64)
    for _ in range(3):
        expected = tritongemm.mm(a, b, c=expected, beta=1)
        assert tritongemm.mm(a, b, c=total, beta=1, out=total) is total
        assert equal(total, expected)


@pytest.mark.gpu
def test_gpu_offsets_past_two_to_the_31():
    import torch

    K, N = 40, 24
    b = on_gpu(K, N, dtype="bfloat16")
    pitch = 2**31 // 32 + 8
    memory = torch.empty(40 * pitch, dtype=torch.bfloat16, device="cuda")  # 5.4 GB; what is not read stays unwritten
    views = {"rows": memory.as_strided((40, K), (pitch, 1)), "columns": memory.as_strided((40, K), (1, pitch))}
    for name, a in views.items():
        a.copy_(on_gpu(40, K, dtype="bfloat16", seed=3))
        assert equal(tritongemm.mm(a, b), tritongemm.mm(a.contiguous(), b)), name
    out = memory.as_strided((40, N), (pitch, 1))
    got = tritongemm.mm(a.contiguous(), b, out=out)
    assert got is out
    assert equal(out, tritongemm.mm(on_gpu(40, K, dtype="bfloat16", seed=3), b))


@pytest.mark.gpu
def test_gpu_graphs_and_streams():
    import torch

    a, b = on_gpu(128, 256), on_gpu(256, 64)
    want = tritongemm.mm(a, b)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = tritongemm.mm(a, b, config="tune")  # which tunes nothing here
        again = tritongemm.mm(a, b)  # launched from memory
    a.neg_()
    graph.replay()
    assert equal(captured, -want)
    assert equal(again, -want)
    a.neg_()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        late = a.clone()  # is made after the sleep; a launch on another stream would read it before
        got = tritongemm.mm(late, b)
    stream.synchronize()
    assert equal(got, want)


@pytest.mark.gpu
def test_gpu_gradients_and_operators():
    import torch

    a, b, bias = (on_gpu(*s, dtype="float64").requires_grad_() for s in ((5, 7), (7, 6), (6,)))
    assert torch.autograd.gradcheck(lambda *x: tritongemm.mm(x[0], x[1], bias=x[2], activation="gelu"), (a, b, bias))
    x, w = on_gpu(33, 40).requires_grad_(), on_gpu(20, 40).requires_grad_()
    tritongemm.linear(x, w).backward(torch.ones(33, 20, device="cuda"))
    assert equal(x.grad, tritongemm.mm(torch.ones(33, 20, device="cuda"), w.detach()))
    from tritongemm import library

    assert library
    checked = torch.library.opcheck(
        torch.ops.tritongemm.product.default,
        (x, w.detach().t(), None, None, 1.0, 0.0, None, "ieee", None, True, None),
        test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
    )
    assert set(checked.values()) == {"SUCCESS"}
