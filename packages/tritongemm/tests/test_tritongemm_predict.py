"""The kernels, evaluated on the CPU with an H200's arithmetic, have the bits that their modes predict, in every tile
shape; and sums that are cut have the bits of numfmt's schedules."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("triton")

from tritongemm_cases import KINDS, bits, digest, operands, typed
from tritongemm_ways import KERNELS, ODD, TILES, result_of

from numfmt import matrix_units
from tritongemm import dispatch, modes
from tritongemm.configurations import Config
from tritongemm.elements import ELEMENTS, codes_of, values_of
from tritongemm.kernels.blocked import blocked_config
from tritongemm.kernels.epilogue import Epilogue
from tritongemm.kernels.problems import Operands
from tritongemm.kernels.split_k import predict_split_k, promise_split_k
from tritongemm.kernels.stream_k import predict_stream_k, promise_stream_k

pytestmark = pytest.mark.triton

MODES = [
    pytest.param(mode.name, dtype, id=f"{mode.name}-{dtype}")
    for mode in modes.MODES.values()
    for dtype in mode.operands
    if mode.arithmetic[dtype].dot is not None
]


@pytest.mark.parametrize(("mode", "dtype"), MODES)
def test_blocked_has_the_predicted_bits_in_every_mode(mode, dtype):
    for kind in ("cancelling", "special"):
        a, b = operands(kind, (9, 140, 17), dtype)
        x, y = typed(a, dtype), typed(b, dtype)
        config = blocked_config(Operands.of(x, y, modes.get(mode), epilogue=Epilogue()))
        got = dispatch.product(x, y, mode=mode, out_dtype=result_of(dtype), config=config)
        np.testing.assert_array_equal(bits(got), bits(modes.get(mode).predict(x, y)), err_msg=kind)


# What else a kernel is run with takes longer than it adds here: `-m exhaustive`, and on a GPU always.
_LATER = (
    "16x32x16",
    "128x128x64",
    "64x128x32",
    "128x32x128",
    "x3",
    "bf16x6-fp32",
    "nt",
    "fp64",
    "132",
    "split_k-ieee-fp16",
)
WAYS = [
    pytest.param(way, id=way.name, marks=[pytest.mark.exhaustive] * any(text in way.name for text in _LATER))
    for way in (*TILES, *KERNELS)
]


@pytest.mark.parametrize("way", WAYS)
def test_every_kernel_and_tile_has_the_predicted_bits(way):
    np.testing.assert_array_equal(way.run(typed, "special"), way.predict("special"))


@pytest.mark.parametrize("dtype", ["bf16", "fp8e4m3fn"])
def test_split_k_is_numfmts_schedule(dtype):
    a, b = operands("wide", ODD, dtype)
    key, mode = ("bf16", "ieee") if dtype == "bf16" else ("e4m3", "ieee")
    x, y = (np.asarray(v) for v in (a, b))
    values = [dispatch_values(v, dtype) for v in (x, y)]
    for splits in (1, 2, 3, 5, 100):
        config = Config(kernel="split_k", block_m=64, block_n=64, block_k=128, splits=splits)
        inner = matrix_units.chain() if dtype == "bf16" else matrix_units.promote(128)
        schedule = matrix_units.split_k(splits, inner, granularity=128)
        want = matrix_units.matmul(*values, unit="hopper.wgmma", inputs=key, schedule=schedule, pad_k=True)
        got = predict_split_k(modes.get(mode), typed(a, dtype), typed(b, dtype), config)
        np.testing.assert_array_equal(bits(got), bits(want), err_msg=str(splits))


def dispatch_values(codes, dtype):
    return values_of(typed(codes, dtype), ELEMENTS[dtype])


@pytest.mark.parametrize("workers", [1, 2, 3, 7, 40])
def test_stream_k_is_numfmts_schedule(workers):
    a, b = operands("wide", ODD, "bf16")
    config = Config(kernel="stream_k", block_m=32, block_n=16, block_k=64, splits=workers)
    schedule = matrix_units.stream_k(32, 16, 64, workers)
    values = [dispatch_values(v, "bf16") for v in (a, b)]
    want = matrix_units.matmul(*values, unit="hopper.wgmma", inputs="bf16", schedule=schedule, pad_k=True)
    got = predict_stream_k(modes.get("ieee"), typed(a, "bf16"), typed(b, "bf16"), config)
    np.testing.assert_array_equal(bits(got), bits(want))


@pytest.mark.parametrize("way", [*TILES, *KERNELS], ids=lambda way: way.name)
def test_every_kernel_had_the_predicted_bits_on_an_h200(way):
    """Recorded by tritongemm_record_h200.py: digests of what each kernel computed."""
    recorded = json.loads((Path(__file__).parent / "data" / "kernels_h200.json").read_text())["results"]
    for kind in KINDS if "fp64" not in way.name else KINDS[:1]:  # fp64 is predicted slowly
        assert digest(way.predict(kind)) == recorded[way.name][kind], kind


def test_nothing_about_an_evaluation_is_a_guess():
    """Whatever is not known of an H200 is said in a note; products and this epilogue are known."""
    import fpsan_tools

    for dtype in ("fp64", "fp32", "bf16", "fp8e5m2"):
        x, y = (typed(v, dtype) for v in operands("normal", (20, 130, 24), dtype))
        config = blocked_config(Operands.of(x, y, modes.get("ieee"), epilogue=Epilogue()))
        with fpsan_tools.on_cpu("hardware") as session:
            dispatch.product(
                x, y, config=config, out_dtype=result_of(dtype), epilogue=Epilogue(alpha=0.5, activation="relu")
            )
        assert [launch.notes for launch in session.launches] == [[]], dtype


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp8e4m3fn"])
def test_cut_sums_keep_their_promise_which_is_smaller_than_the_uncut_one(dtype):
    rng = np.random.default_rng(2)
    x, y = np.full((20, 1024), 2 - 2.0**-3), np.full((1024, 24), 2 - 2.0**-3)
    for a, b in ((x, y), (x * rng.choice([-1, 1], x.shape), y), (rng.uniform(0.5, 1, x.shape), y)):
        p, q = (typed(codes_of(v, ELEMENTS[dtype]), dtype) for v in (a, b))
        u, v = (values_of(m, ELEMENTS[dtype]).astype(np.float64) for m in (p, q))
        golden, magnitude = u @ v, np.abs(u) @ np.abs(v)
        for splits in (2, 8):
            mode = modes.get("ieee")
            split = Config(kernel="split_k", block_m=64, block_n=16, block_k=128, splits=splits)
            stream = split.changed(kernel="stream_k", block_m=16)
            promises = promise_split_k(mode, 1024, dtype, split), promise_stream_k(mode, (20, 1024, 24), dtype, stream)
            sums = predict_split_k(mode, p, q, split), predict_stream_k(mode, p, q, stream)
            for made, promise in zip(sums, promises, strict=True):
                assert (np.abs(made - golden) <= promise.bound(magnitude, abs(u).max(1), abs(v).max(0))).all()
            if dtype != "fp8e4m3fn":  # promoted sums are short already
                assert promises[0].relative_bound < mode.promise(1024, dtype).relative_bound


def test_products_on_the_cpu_are_predictions_or_evaluations_with_equal_bits():
    a, b = (x.view(np.float32) for x in operands("wide", (20, 70, 30), "fp32"))
    for mode in ("ieee", "tf32", "bf16x6"):
        predicted = dispatch.product(a, b, mode=mode)
        evaluated = dispatch.product(a, b, mode=mode, config=Config(kernel="blocked"))
        np.testing.assert_array_equal(bits(predicted), bits(evaluated))
        np.testing.assert_array_equal(bits(predicted), bits(modes.get(mode).predict(a, b)))


def test_a_session_of_payloads_sees_the_kernels_and_finds_them_the_same_algebra():
    import fpsan_tools

    a, b = operands("normal", (20, 70, 24), "fp32")
    payloads = []
    for config in (
        None,
        *(Config(kernel=k, splits=3, block_m=16, block_n=16) for k in ("blocked", "split_k", "stream_k")),
    ):
        with fpsan_tools.on_cpu("payload") as session:
            c = dispatch.product(a.view(np.float32), b.view(np.float32), config=config, invariant=False)
        assert session.launches
        payloads.append(bits(c))
    for other in payloads[1:]:
        np.testing.assert_array_equal(other, payloads[0])


@pytest.mark.parametrize(("mode", "config"), [
    ("promote64", {"block_k": 64}), ("ieee", {"block_m": 32, "block_k": 128}), ("ieee", {"block_k": 128, "warps": 2}),
])  # fmt: skip
def test_configurations_that_would_change_the_bits_of_fp8_are_refused(mode, config):
    """BLOCK_M below 64 or fewer than four warps would convert to fp16 and use another unit; BLOCK_K fixes promotion."""
    x, y = (typed(v, "fp8e4m3fn") for v in operands("normal", (70, 130, 40), "fp8e4m3fn"))
    with pytest.raises(dispatch.UsageError, match="does not take this product"):
        dispatch.product(x, y, mode=mode, config=Config(kernel="blocked", **config))


def test_the_unit_that_small_fp8_tiles_would_use_gives_other_bits():
    a, b = operands("normal", (20, 256, 24), "fp8e4m3fn")
    values = [dispatch_values(v, "fp8e4m3fn") for v in (a, b)]
    small = matrix_units.tl_dot(128, max_num_imprecise_acc=128, block_m=32)
    other = matrix_units.matmul(*values, unit="hopper", inputs="e4m3", schedule=small)
    assert (bits(other) != bits(modes.get("ieee").predict(typed(a, "fp8e4m3fn"), typed(b, "fp8e4m3fn")))).any()


def test_configurations_that_would_change_the_bits_of_split_operands_are_refused():
    x, y = (v.view(np.float32) for v in operands("normal", (20, 70, 24), "fp32"))
    with pytest.raises(dispatch.UsageError, match="does not take this product"):
        dispatch.product(x, y, mode="bf16x6", config=Config(kernel="blocked", block_k=64))


def test_sums_that_are_cut_are_no_invariant_products():
    x, y = (v.view(np.float32) for v in operands("normal", (20, 200, 24), "fp32"))
    config = Config(kernel="split_k", splits=3)
    with pytest.raises(dispatch.UsageError, match=r"split_k, 3 parts of 96\) than the mode promises.*invariant=False"):
        dispatch.product(x, y, config=config)
    assert dispatch.product(x, y, config=config, invariant=False).shape == (20, 24)
    dispatch.product(x, y, config=config.changed(splits=1))


@pytest.mark.parametrize("mode", list(modes.MODES))
def test_every_kernel_says_of_every_product_whether_it_takes_it(mode):
    """A search asks all of them, also about modes that are not theirs."""
    for dtype in modes.get(mode).operands:
        x, y = (typed(matrix, dtype) for matrix in operands("normal", (16, 128, 32), dtype))
        product = Operands.of(x, y, modes.get(mode), epilogue=Epilogue())
        answers = {candidate.kernel: candidate.supports(product, None) for candidate in dispatch.CANDIDATES}
        assert answers["blocked"] == (modes.get(mode).arithmetic[dtype].dot is not None)
        assert not any(answers[name] for name in ("emulated", "warp_specialised", "simt")), "this is no GPU"


def test_an_unknown_kernel_names_the_nearest_one():
    x = np.zeros((2, 2), np.float32)
    with pytest.raises(dispatch.UsageError, match="Did you mean 'blocked'"):
        dispatch.product(x, x, config=Config(kernel="bloked"))
