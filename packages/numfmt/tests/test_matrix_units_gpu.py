"""The models against an H200, bit for bit: Triton's tl.dot in every form, libraries' products, and `identify`.

Each part can run in a process of its own: `-k tl_dot`, `-k library`, `-k identify`. Results also go to the folder in
the environment variable OUT, as they come, if it is set.
"""

import json
import os
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from matrix_units_cases import all_cases  # noqa: E402
from matrix_units_data import KINDS, accumulators, operands  # noqa: E402
from matrix_units_prediction import Predictor, gathered  # noqa: E402

from numfmt.matrix_units import chain, identify  # noqa: E402
from numfmt.matrix_units.search import library_schedules  # noqa: E402
from numfmt.matrix_units.units import find_unit  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.triton, pytest.mark.torch]
# What torch and Triton warn of on some machine says nothing about bits.
pytestmark += [
    pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("UserWarning", "FutureWarning", "DeprecationWarning")
]

ROWS, COLUMNS, K, RAGGED_K = 512, 512, 256, 232


class Report:
    """Prints a line per result and keeps a JSON file current, so that a run that is cut short has told what it knew."""

    def __init__(self, name):
        self.entries = {}
        self.started = time.monotonic()
        self.path = Path(os.environ["OUT"]) / f"{name}.json" if os.environ.get("OUT") else None

    def add(self, key, **entry):
        self.entries[key] = entry
        print(f"[{time.monotonic() - self.started:6.1f} s] {key}: {entry}", flush=True)
        if self.path is not None:
            temporary = self.path.with_suffix(".part")
            temporary.write_text(json.dumps(self.entries, indent=1, default=str))
            temporary.replace(self.path)


@pytest.fixture(scope="module")
def gpu():
    import matrix_units_device as device

    device.require_hopper()
    print(device.environment(), flush=True)
    return device


@pytest.fixture(scope="module")
def predictor():
    pool = Predictor()
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def dots():
    report = Report("matrix_units_dots")
    yield report
    total = {key: sum(entry[key] for entry in report.entries.values()) for key in ("outputs", "mismatches")}
    report.add("total", **total)


# --------------------------------------------------------------------------------------------------------- Triton's dot
@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_tl_dot_bits(case, gpu, predictor, dots):
    k = RAGGED_K if case.ragged else K
    futures = {}
    for kind in KINDS:
        rng = np.random.default_rng([zlib.crc32(case.name.encode()), KINDS.index(kind)])
        a, b = operands(rng, case.loads, (ROWS, COLUMNS, k), kind)
        c = accumulators(rng, case.accumulator, (ROWS, COLUMNS), kind)
        if kind == "uniform":
            c[:] = 0
        got = gpu.run_case(case, a, b, c)
        futures[kind] = predictor.submit(case, a, b, c, got)
    found = {kind: gathered(futures[kind]) for kind in KINDS}
    wrong = {kind: (result.mismatches, result.examples) for kind, result in found.items() if result.mismatches}
    dots.add(
        case.name,
        outputs=sum(result.outputs for result in found.values()),
        mismatches=sum(result.mismatches for result in found.values()),
        wrong=wrong,
    )
    assert not wrong


# ------------------------------------------------------------------------------------------------------------ libraries
OPERATIONS = ("bf16", "fp16", "tf32", "fp32", "fp8 fast", "fp8 promoted")
SHAPES = [
    (4096, 4096, 4096),
    (2048, 2048, 6144),
    (1024, 1024, 1024),
    (1024, 1024, 4096),
    (256, 256, 8192),
    (128, 128, 16384),
    (64, 64, 4096),
    (512, 2048, 512),
]


@pytest.fixture(scope="module")
def libraries():
    return Report("matrix_units_libraries")


def kernel_name(function, a, b):
    """The CUDA kernels a call launches, as far as the profiler tells."""
    if not torch.cuda.is_available():
        return []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        function(a, b)
        torch.cuda.synchronize()
    return [event.key for event in profile.key_averages() if "memcpy" not in event.key.lower()][:6]


def nearest_away_tf32(x):
    """fp32 numbers rounded to tf32, ties away from zero."""
    words = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((words + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def sampled_product(function, key, shape, gpu):
    """A result on random data: sampled rows of a, columns of b, and their outputs, on the CPU."""
    m, n, k = shape
    generator = torch.Generator(device=gpu.DEVICE).manual_seed(m + 3 * n + 7 * k)
    dtype = gpu.TORCH_DTYPES[key]
    a, b = (torch.randn(size, device=gpu.DEVICE, generator=generator).to(dtype) for size in ((m, k), (k, n)))
    result = function(a, b)
    rows, columns = (torch.arange(0, size, max(1, size // 20), device=gpu.DEVICE)[:20] for size in (m, n))
    picked = a.float()[rows], b.float()[:, columns], result[rows][:, columns]
    return [x.cpu().numpy() for x in picked], (a, b)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("operation", OPERATIONS)
def test_library_schedule(operation, shape, gpu, predictor, libraries):
    """Search for the schedule that gives a library's bits. One that is in no list is a finding; at the first shape it
    is known.
    """
    key, unit, function = gpu.OPERATIONS[operation]
    (a, b, result), tensors = sampled_product(function, key, shape, gpu)
    if operation == "tf32":
        a, b = nearest_away_tf32(a), nearest_away_tf32(b)
    facts = find_unit(unit, key, "fp32")
    candidates = list(library_schedules(shape[2], facts))
    if operation == "fp32":
        # Fused multiply-adds in NumPy are slow: the plain chain and some sequential splits.
        candidates = [c for c in candidates if c == chain() or getattr(c, "reduction", "") == "sequential"][:12]
    matches = predictor.search(result, a, b, candidates, unit=facts, inputs=key)
    libraries.add(
        f"{operation} {'x'.join(map(str, shape))}",
        kernel=kernel_name(function, *tensors),
        best=[str(match) for match in matches[:3]],
        share=matches[0].share,
    )
    assert shape != SHAPES[0] or matches[0].share == 1.0


@pytest.mark.parametrize("shape", SHAPES[1:], ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("operation", OPERATIONS)
def test_library_tree(operation, shape, gpu, libraries):
    """The tree a library's product shows: coarse over all of K, fine over its beginning."""
    key, _, function = gpu.OPERATIONS[operation]
    m, n, k = shape
    for name, positions in (("coarse", range(0, k, k // 64)), ("fine", range(64))):
        found = identify(
            function,
            inputs=key,
            k=k,
            shape=(m, n),
            positions=positions,
            framework="torch",
            device=gpu.DEVICE,
            architectures=[],
        )
        libraries.add(
            f"{operation} {m}x{n}x{k} {name} tree", tree=found.tree.draw().splitlines()[:40], calls=found.calls
        )
        assert found.tree.leaves == set(positions)


def test_library_tf32_rounding_of_operands(gpu, libraries):
    """How torch's tf32 product reads fp32 operands: one product by 1 shows the operand as it was multiplied."""
    values = 1 + np.array([2.0**-11, 3 * 2.0**-11, 2.0**-11 + 2.0**-23, 2.0**-11 - 2.0**-23, 2.0**-10])
    ways = {"ties away": [2, 4, 2, 0, 2], "ties to even": [0, 4, 2, 0, 2], "cut": [0, 2, 0, 0, 2]}
    named = {}
    for m, n, k in SHAPES:
        a, b = np.zeros((m, k)), np.zeros((k, n))
        a[: values.size, 0], b[0, 0] = values, 1.0
        result = gpu.mm_tf32(gpu.to_device(a, "fp32"), gpu.to_device(b, "fp32")).cpu().numpy()
        seen = ((result[: values.size, 0] - 1) * 2**11).tolist()
        named[f"{m}x{n}x{k}"] = next((way for way, expected in ways.items() if seen == expected), seen)
    libraries.add("tf32 reads operands", **named)
    m, n, k = SHAPES[0]
    assert named[f"{m}x{n}x{k}"] == "ties away"


# ------------------------------------------------------------------------------------------------------------- identify
@pytest.fixture(scope="module")
def identified():
    return Report("matrix_units_identified")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fp16-acc-k64-m64-w4", ("hopper.wgmma", 16, 25, 23)),
        ("bf16-acc-k64-m64-w4", ("hopper.wgmma", 16, 25, 23)),
        ("e4m3-acc-k64-m64-w4", ("hopper.wgmma", 32, 13, 13)),
        ("e5m2-acc-k64-m64-w4", ("hopper.wgmma", 32, 13, 13)),
        ("fp32-acc-k32-m64-w4-tf32", ("hopper.wgmma", 8, 25, 23)),
        ("fp16-acc-k64-m64-w4-acc16", ("hopper.wgmma", 16, 25, 10)),
    ],
)
def test_identify_recovers_wgmma(name, expected, gpu, identified):
    case = next(case for case in all_cases() if case.name == name)
    key = "tf32" if "tf32" in name else case.loads[0]

    def box(a, b, c):
        return gpu.run_case(case, a.astype(np.float64), b.astype(np.float64), c.astype(np.float64))

    found = identify(box, inputs=key, accumulator=case.accumulator, k=128, takes_c=True, shape=(64, 64))
    unit, products, fraction_bits, mantissa_bits = expected
    identified.add(name, text=str(found).splitlines(), calls=found.calls)
    assert unit in [model.unit.name for model in found.models]
    assert (found.facts.fan_in, found.facts.fraction_bits, found.facts.c_aligned) == (products, fraction_bits, True)
    assert found.facts.mantissa_bits in (mantissa_bits, None)
    assert {model.unit.products for model in found.models} == {products}


@pytest.mark.parametrize(
    "name",
    ["e4m3-acc-k64-m32-w4", "e4m3-+-k128-m64-w4", "e4m3-acc-k128-m64-w4-imprecise64", "fp32-acc-k64-m64-w4-bf16x6"],
)
def test_identify_draws_the_trees_of_kernels(name, gpu, identified):
    """The tree is the one that the schedule of the case implies."""
    from numfmt.matrix_units.explain import request_for
    from numfmt.matrix_units.trees import model_tree

    case = next(case for case in all_cases() if case.name == name)

    def box(a, b, c):
        return gpu.run_case(case, a.astype(np.float64), b.astype(np.float64), c.astype(np.float64))

    found = identify(box, inputs=case.loads, k=256, takes_c=True, shape=(64, 64), schedules=[case.schedule])
    identified.add(name, text=str(found).splitlines(), calls=found.calls)
    program = case.schedule.program(request_for(256, case.inputs, "hopper", "fp32", True, (64, 64)))
    assert found.tree == model_tree(program)


@pytest.mark.parametrize("n", [1000, 4096])
def test_identify_draws_torchs_sum_on_the_gpu(n, gpu, identified):
    found = identify(torch.sum, inputs="fp32", k=n, kind="sum", framework="torch", device=gpu.DEVICE)
    identified.add(f"torch.sum of {n}", tree=found.tree.draw().splitlines()[:60], depth=found.tree.depth)
    assert found.tree.leaves == set(range(n))
