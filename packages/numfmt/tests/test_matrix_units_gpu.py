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
from matrix_units_data import KINDS, accumulators, bits, operands  # noqa: E402
from matrix_units_prediction import Predictor, gathered  # noqa: E402
from matrix_units_recordings import (  # noqa: E402
    LIBRARY_KINDS,
    TF32_PROBES,
    TF32_READINGS,
    TIES,
    PortableGenerator,
    as_multiplied,
    sampled_inputs,
    sampled_lines,
    tf32,
)

from numfmt.matrix_units import chain, identify, matmul, split_k  # noqa: E402
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


# At this shape cuBLAS's tf32 kernel gives most tiles to one thread block each, and cuts K of the last ones in segments.
SEGMENTED = (1024, 1024, 4096)
SEGMENTED_ROWS, SEGMENTED_COLUMNS = slice(0, 256), slice(768, 1024)


@pytest.fixture(scope="module")
def libraries():
    return Report("matrix_units_libraries")


@pytest.fixture(scope="module")
def sampled_outputs():
    """The bits of the sampled outputs, kept in OUT for searches without the GPU; inputs are made again by name."""
    outputs = {}
    yield outputs
    if os.environ.get("OUT"):
        path = Path(os.environ["OUT"]) / "matrix_units_library_samples.npz"
        temporary = path.with_suffix(".part")
        with temporary.open("wb") as file:
            np.savez_compressed(file, **outputs)
        temporary.replace(path)


def kernel_name(function, a, b):
    """The CUDA kernels a call launches, as far as the profiler tells."""
    if not torch.cuda.is_available():
        return []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        function(a, b)
        torch.cuda.synchronize()
    return [event.key for event in profile.key_averages() if "memcpy" not in event.key.lower()][:6]


def sampled_product(function, operation, key, shape, kind, gpu):
    """A library's result, as sampled rows of a, columns of b and their outputs, and the whole operands.

    The lines that are not looked at hold other numbers.
    """
    a, b = sampled_inputs(operation, key, shape, kind)
    rows, columns = (torch.from_numpy(lines).to(gpu.DEVICE) for lines in sampled_lines(shape))
    m, n, k = shape
    left, right = (torch.randn(size, device=gpu.DEVICE).to(gpu.TORCH_DTYPES[key]) for size in ((m, k), (n, k)))
    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[left.element_size()]
    left.view(words)[rows] = gpu.to_device(a, key).view(words)
    right.view(words)[columns] = gpu.to_device(np.ascontiguousarray(b.T), key).view(words)
    right = right.t().contiguous()
    result = function(left, right)[rows][:, columns].cpu().numpy()
    return a, b, result, (left, right)


def candidates_for(operation, k, facts):
    """Schedules to try. Fused multiply-adds in NumPy are slow: for fp32 few widths of split-K, and its finest parts."""
    if operation != "fp32":
        return list(library_schedules(k, facts))
    sizes = dict.fromkeys([*(k // parts for parts in (2, 3, 4, 8, 16, 32) if k % parts == 0), *range(64, 257, 8)])
    splits = [split_k(-(-k // size), granularity=size, reduction="sequential") for size in sizes if size < k]
    return [chain(), *splits]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("operation", OPERATIONS)
def test_library_schedule(operation, shape, gpu, predictor, libraries, sampled_outputs):
    """One schedule, found by search, gives a library's bits on every kind of data; fp32 operands that are multiplied as
    tf32 are rounded to nearest, ties to even, first.
    """
    key, unit, function = gpu.OPERATIONS[operation]
    facts = find_unit(unit, key, "fp32")
    name = f"{operation} {'x'.join(map(str, shape))}"
    candidates, found = candidates_for(operation, shape[2], facts), {}
    for kind in (*LIBRARY_KINDS, *TIES.get(operation, ())):
        a, b, result, tensors = sampled_product(function, operation, key, shape, kind, gpu)
        sampled_outputs[f"{name}/{kind}"] = bits(result)
        a, b = as_multiplied(operation, a, b)
        if (operation, shape) == ("tf32", SEGMENTED):
            whole = sampled_lines(shape)[0] >= SEGMENTED_ROWS.stop
            a, result = a[whole], result[whole]
        matches = predictor.search(result, a, b, candidates, unit=facts, inputs=key)
        found[kind] = matches[:4]
        fitting = [match.schedule for match in matches if match.share == 1.0]
        candidates = fitting or [match.schedule for match in matches[:60]]
    libraries.add(
        name,
        kernel=kernel_name(function, *tensors),
        best={kind: [str(match) for match in matches] for kind, matches in found.items()},
        share={kind: matches[0].share for kind, matches in found.items()},
        compared=result.size,
        fitting=[schedule.call() for schedule in fitting],
    )
    assert fitting, "no schedule of the list gives the bits of every kind of data"


SPANS = {
    "coarse": lambda k: range(0, k, k // 64),
    "fine": lambda k: range(64),
    # Where the first parts of a split K end.
    "parts": lambda k: range(0, min(k, 2048), 8),
}


@pytest.mark.parametrize("shape", SHAPES[1:], ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("span", SPANS)
def test_library_tree(span, operation, shape, gpu, libraries):
    """The tree a library's product shows: over all of K, and finer over its beginning."""
    key, _, function = gpu.OPERATIONS[operation]
    m, n, k = shape
    positions = SPANS[span](k)
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
    tree = found.tree.draw().splitlines()
    libraries.add(f"{operation} {m}x{n}x{k} {span} tree", tree=tree[:100], lines=len(tree), calls=found.calls)
    assert found.tree.leaves == set(positions)


def test_library_tf32_segments(gpu, libraries, sampled_outputs):
    """The tiles of one product that are no chain: their outputs on a grid, predicted and the same in every launch, and
    their tree.
    """
    m, n, k = SEGMENTED
    rng = PortableGenerator(zlib.crc32(b"segments"))
    a, b = np.zeros((m, k)), np.zeros((k, n))
    rows, columns = np.arange(0, m, 8), np.arange(0, n, 8)
    a[rows], b[:, columns] = operands(rng, ("tf32", "tf32"), (rows.size, columns.size, k), "uniform")
    left, right = gpu.to_device(a, "tf32"), gpu.to_device(b, "tf32")
    launches = [gpu.mm_tf32(left, right).cpu().numpy()[np.ix_(rows, columns)] for _ in range(8)]
    sampled_outputs["tf32 segments/first"] = bits(np.ascontiguousarray(launches[0]))
    split = np.ix_(rows < 256, columns >= 768)
    for i, launch in enumerate(launches[1:4], 1):
        sampled_outputs[f"tf32 segments/split tiles of launch {i}"] = bits(np.ascontiguousarray(launch[split]))
    differing = [int((bits(launch) != bits(launches[0])).sum()) for launch in launches]
    libraries.add("tf32 segments launches", differing=differing)

    def box(x, y):
        whole_x, whole_y = torch.zeros(m, k, device=gpu.DEVICE), torch.zeros(k, n, device=gpu.DEVICE)
        whole_x[SEGMENTED_ROWS], whole_y[:, SEGMENTED_COLUMNS] = x, y
        return gpu.mm_tf32(whole_x, whole_y)[SEGMENTED_ROWS, SEGMENTED_COLUMNS]

    for name, positions in (("blocks", range(0, k, 32)), ("ends", range(0, k, 256))):
        try:
            found = identify(
                box,
                inputs="tf32",
                k=k,
                shape=(256, 256),
                positions=positions,
                framework="torch",
                device=gpu.DEVICE,
                architectures=[],
            )
            libraries.add(f"tf32 segments tree of {name}", tree=found.tree.draw().splitlines(), calls=found.calls)
        except ValueError as error:
            libraries.add(f"tf32 segments tree of {name}", error=str(error))
    assert not any(differing)

    a, b = as_multiplied("tf32", a[rows], b[:, columns])
    facts = {"unit": "hopper", "inputs": "tf32", "threads": 1}
    predicted = matmul(a, b, schedule=chain(), **facts)
    segments = split_k(15, granularity=32, reduction="halves", even=True)
    predicted[split] = matmul(a[rows < 256], b[:, columns >= 768], schedule=segments, **facts)
    np.testing.assert_array_equal(bits(predicted), bits(launches[0]))


@pytest.mark.parametrize("side", ["a", "b"])
def test_library_tf32_rounding_of_operands(side, gpu, libraries, sampled_outputs):
    """torch's tf32 product rounds fp32 operands to nearest, ties to even: a product by 1 shows the operand as it was
    multiplied.
    """
    probes = torch.from_numpy(TF32_PROBES.view(np.int32)).to(gpu.DEVICE).view(torch.float32)
    readings = {name: tf32(TF32_PROBES.view(np.float32), name) for name in TF32_READINGS}
    named = {}
    for m, n, k in SHAPES:
        a, b = torch.zeros(m, k, device=gpu.DEVICE), torch.zeros(k, n, device=gpu.DEVICE)
        if side == "a":
            a[: len(probes), 0], b[0, 0] = probes, 1.0
        else:
            a[0, 0], b[0, : len(probes)] = 1.0, probes
        result = gpu.mm_tf32(a, b).cpu().numpy()
        seen = result[: len(probes), 0] if side == "a" else result[0, : len(probes)]
        shape = f"{m}x{n}x{k}"
        sampled_outputs[f"tf32 {shape}/probes of {side}"] = bits(np.ascontiguousarray(seen))
        fits = [name for name, read in readings.items() if np.array_equal(read, seen, equal_nan=True)]
        named[shape] = fits or [
            f"{x:08x}->{y:08x}" for x, y in zip(TF32_PROBES.tolist(), bits(seen).tolist(), strict=True)
        ]
    libraries.add(f"tf32 reads {side}", **named)
    assert all(fits == ["nearest_even"] for fits in named.values())


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
