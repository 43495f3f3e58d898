"""The algebra and the CPU engine against Triton's FpSan on a GPU, bit for bit.

Part one: every case of `fpsan_cases`, against the NumPy rules. Part two: whole kernels, against the same kernel in the
CPU engine. Part three: what the GPU engine does to ordinary launches.
"""

import functools

import numpy as np
import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

import fpsan_cases
import fpsan_gpu_kernels as kernels
from fpsan_device import from_device, to_device
from fpsan_recordings import MATMULS

import fpsan_tools
from fpsan_tools import algebra, gpu
from fpsan_tools.algebra.versions import installed_triton

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.fpsan,
    # Triton 3.9 announces a new default of an option that payloads do not depend on.
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
]

RELEASE = ".".join((installed_triton() or "0.0").split(".")[:2])
CASES = fpsan_cases.all_cases(RELEASE)
GROUPS = fpsan_cases.grouped(CASES)
ELEMENTWISE_PROGRAMS = 2048  # 65536 elements: all patterns of 16 bits
TILE_PROGRAMS = 8


@pytest.fixture(scope="module", autouse=True)
def _a_gpu_is_here():
    gpu.gpu_target()  # raises where there is none: a failure, not a skip


# ---------------------------------------------------------------------------------------------------------------------
# Every operation and type


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    return fpsan_cases.load_kernels(GROUPS, tmp_path_factory.mktemp("kernels"))


@functools.lru_cache(maxsize=2)  # the cases of a group are neighbours
def outputs(group, generated, version=None):
    elementwise = all(len(tile.shape) == 1 for tile in group.operands)
    programs = ELEMENTWISE_PROGRAMS if elementwise else TILE_PROGRAMS
    operands = fpsan_cases.patterns(group.operands, programs, np.random.default_rng(30))
    tensors = [to_device(bits, tile.dtype) for bits, tile in zip(operands, group.operands, strict=True)]
    results = [
        to_device(np.zeros((programs, *case.result.shape), case.result.unsigned), case.result.dtype)
        for case in group.cases
    ]
    with fpsan_tools.on_gpu(version=version):
        getattr(generated, group.name)[(programs,)](*tensors, *results)
    return operands, [from_device(result) for result in results]


PARAMETERS = [pytest.param(group, i, id=c.identifier) for group in GROUPS for i, c in enumerate(group.cases)]


@pytest.mark.parametrize(("group", "index"), PARAMETERS)
def test_gpu_stores_the_rules_bits(group, index, generated):
    operands, results = outputs(group, generated)
    wanted = fpsan_cases.expected(group.cases[index], algebra.get(RELEASE), operands)
    np.testing.assert_array_equal(results[index], wanted)


HOMOMORPHIC = [group for group in GROUPS if any(case.name == "cast" for case in group.cases)]


@pytest.mark.skipif(f"{RELEASE}-homomorphic" not in algebra.VERSIONS, reason="the option starts in Triton 3.9")
@pytest.mark.parametrize("group", HOMOMORPHIC, ids=lambda group: group.operands[0].dtype)
def test_homomorphic_casts_truncate_on_the_gpu(group, generated):
    version = f"{RELEASE}-homomorphic"
    operands, results = outputs(group, generated, version)
    for case, stored in zip(group.cases, results, strict=True):
        wanted = fpsan_cases.expected(case, algebra.get(version), operands)
        np.testing.assert_array_equal(stored, wanted, err_msg=case.identifier)


# ---------------------------------------------------------------------------------------------------------------------
# Whole kernels


def random_bits(shape, dtype, seed):
    bits = algebra.float_type(dtype).bits
    return np.random.default_rng(seed).integers(0, (1 << bits) - 1, shape, f"u{bits // 8}", endpoint=True)


def both(kernel, grid, inputs, output, *rest, **options):
    """Outputs of one launch by the GPU and by the CPU engine; inputs and output are (patterns, type)."""
    on_gpu = [to_device(bits, dtype) for bits, dtype in (*inputs, output)]
    with fpsan_tools.on_gpu():
        kernel[grid](*on_gpu, *rest, **options)
    on_cpu = [fpsan_tools.typed(bits.copy(), dtype) for bits, dtype in (*inputs, output)]
    with fpsan_tools.on_cpu():
        kernel[grid](*on_cpu, *rest, **options)
    return from_device(on_gpu[-1]), on_cpu[-1].array


@pytest.mark.parametrize(("operand", "precision", "result"), MATMULS)
@pytest.mark.parametrize("shape", [(64, 64, 64), (100, 70, 90), (33, 17, 200)])
def test_matmul_is_the_rings_product(operand, precision, result, shape):
    m, n, k = shape
    a, b = random_bits((m, k), operand, 1), random_bits((k, n), operand, 2)
    out = np.zeros((m, n), algebra.float_type(result).unsigned)
    block = 32
    grid = (-(-m // block), -(-n // block))
    stored, evaluated = both(
        kernels.matmul, grid, [(a, operand), (b, operand)], (out, result), m, n, k, precision, block, block, block
    )
    rules = algebra.get(RELEASE)
    accumulator = "fp64" if operand == "fp64" else "fp32"
    product = rules.matmul(rules.embed(a, operand), rules.embed(b, operand), dtype=accumulator)
    np.testing.assert_array_equal(stored, rules.unembed(rules.cast(product, result), result))
    np.testing.assert_array_equal(evaluated, stored)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("columns", [77, 128, 1000])
def test_softmax_equals_the_cpu_engines(dtype, columns):
    x = random_bits((20, columns), dtype, columns)
    block = 1 << (columns - 1).bit_length()
    stored, evaluated = both(kernels.softmax, (20,), [(x, dtype)], (np.zeros_like(x), dtype), columns, BLOCK=block)
    np.testing.assert_array_equal(stored, evaluated)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("columns", [77, 256])
def test_layer_norm_equals_the_cpu_engines(dtype, columns):
    x = random_bits((20, columns), dtype, columns)
    w, b = random_bits(columns, dtype, 1), random_bits(columns, dtype, 2)
    block = 1 << (columns - 1).bit_length()
    inputs = [(x, dtype), (w, dtype), (b, dtype)]
    stored, evaluated = both(kernels.layer_norm, (20,), inputs, (np.zeros_like(x), dtype), columns, 1e-5, BLOCK=block)
    np.testing.assert_array_equal(stored, evaluated)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("keys", [128, 101])
def test_flash_attention_equals_the_cpu_engines(dtype, causal, keys):
    heads, depth, rows, columns = 2, 64, 32, 32
    q, k, v = (random_bits((heads, keys, depth), dtype, seed) for seed in (1, 2, 3))
    inputs = [(q, dtype), (k, dtype), (v, dtype)]
    grid = (-(-keys // rows), heads)
    stored, evaluated = both(
        kernels.attention, grid, inputs, (np.zeros_like(q), dtype), keys, 0.125, causal, depth, rows, columns
    )
    np.testing.assert_array_equal(stored, evaluated)


def test_uninstrumented_operations_see_the_carriers_in_both_engines():
    x, y = random_bits(4096, "fp32", 1), random_bits(4096, "fp32", 2)
    y[::7] = x[::7]
    inputs = [(x, "fp32"), (y, "fp32")]
    stored, evaluated = both(kernels.uninstrumented, (32,), inputs, (np.zeros_like(x), "fp32"), BLOCK=128)
    np.testing.assert_array_equal(stored, evaluated)


# ---------------------------------------------------------------------------------------------------------------------
# Ordinary launches stay ordinary


def floats(n, seed):
    return np.random.default_rng(seed).uniform(-1, 1, n).astype(np.float32)


def test_ordinary_launches_before_and_after_are_not_affected():
    x, y = floats(512, 1), floats(512, 2)
    tensors = [to_device(v.view(np.uint32), "fp32") for v in (x, y, np.zeros_like(x))]

    def product():
        kernels.uninstrumented[(4,)](*tensors, BLOCK=128)
        return from_device(tensors[-1])

    before = product()
    with fpsan_tools.on_gpu():
        inside = product()
    after = product()
    with fpsan_tools.on_gpu():
        again = product()
    np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(inside, again)
    assert (inside != before).any()


def test_a_failing_launch_leaves_the_ordinary_mode():
    import triton

    x, y = floats(128, 1), floats(128, 2)
    tensors = [to_device(v.view(np.uint32), "fp32") for v in (x, y, np.zeros_like(x))]
    with pytest.raises(triton.CompilationError), fpsan_tools.on_gpu():
        kernels.uninstrumented[(1,)](*tensors, BLOCK=100)  # not a power of two
    assert triton.knobs.compilation.instrumentation_mode == ""


def test_autotuned_kernels_run_unmeasured_in_the_mode():
    x, y = floats(1000, 1), floats(1000, 2)
    bits = [(v.view(np.uint32), "fp32") for v in (x, y)]
    tensors = [to_device(*pair) for pair in (*bits, (np.zeros(1000, np.uint32), "fp32"))]
    with fpsan_tools.on_gpu() as session:
        kernels.tuned_add[lambda meta: (-(-1000 // meta["BLOCK"]),)](*tensors, 1000)
    assert session.launches[0].grid == (16, 1, 1)
    assert not kernels.tuned_add.cache
    rules = algebra.get(RELEASE)
    wanted = rules.add(*(rules.embed(v, "fp32") for v in (x, y)))
    np.testing.assert_array_equal(from_device(tensors[-1]), rules.unembed(wanted, "fp32"))


def test_the_session_says_where_it_ran():
    x = to_device(floats(128, 1).view(np.uint32), "fp32")
    with fpsan_tools.on_gpu() as session:
        kernels.uninstrumented[(1,)](x, x, x, BLOCK=128)
    launch = session.launches[0]
    assert (launch.kernel, launch.grid, launch.programs) == ("uninstrumented", (1, 1, 1), 1)
    assert launch.triton_version == installed_triton()
    assert {gap.op for gap in launch.unsanitised} >= {"arith.cmpf", "math.absf"}
    assert all(gap.file.endswith("fpsan_gpu_kernels.py") for gap in launch.unsanitised)
    assert gpu.describe().endswith(")")
