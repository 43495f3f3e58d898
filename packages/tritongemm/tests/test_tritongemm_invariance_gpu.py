"""Runs agree, and a row's bits do not depend on M: on a GPU, in every mode, for every type, and by every kernel.

    python3 -m pytest packages/tritongemm/tests/test_tritongemm_invariance_gpu.py -m gpu

Kernels are compiled for few rows and for many, so this is as much a test of what is compiled as of what is chosen.
"""

import numpy as np
import pytest

pytest.importorskip("triton")
torch = pytest.importorskip("torch")

import tritongemm  # noqa: E402
from tritongemm import dispatch, launches, modes  # noqa: E402
from tritongemm.elements import ELEMENTS, FP8  # noqa: E402
from tritongemm.kernels.epilogue import Epilogue  # noqa: E402
from tritongemm.kernels.problems import Operands  # noqa: E402

pytestmark = pytest.mark.gpu

ROWS = (1, 2, 3, 17, 64, 65, 127, 500)
"""Numbers of rows: one, a few, and below, at and above the edges of tiles."""
RERUNS = 20
K, N = 528, 272
"""Several promotion intervals and a tail; rows of 16 bytes in every type, which the copy engine reads."""

# The two fp8 types go through the same kernels: of one, the modes that name an interval are enough.
CASES = [
    pytest.param(mode.name, dtype, id=f"{mode.name}-{dtype}")
    for mode in modes.MODES.values()
    for dtype in mode.operands
    if not (dtype == "fp8e5m2" and mode.name.startswith("promote"))
]
# B along its columns is read by other kernels, or by other ways of the same.
BOTH = {("ieee", "fp32"), ("ieee", "fp16"), ("ieee", "bf16"), ("tf32", "fp32"), ("tf32_even", "fp32")}
LAID_OUT = [
    pytest.param(*case.values, columns, id=f"{case.id}-{'columns' if columns else 'rows'}")
    for case in CASES
    for columns in ((False, True) if tuple(case.values) in BOTH else (case.values[1] in FP8,))
]


@pytest.fixture(autouse=True, scope="module")
def gpu():
    assert torch.cuda.is_available(), "no CUDA GPU"


def numbers(rows, columns, dtype, seed):
    """Uniform numbers: those of any rows are ones that the guards of emulated modes let pass."""
    x = np.random.default_rng([seed, rows, columns]).uniform(-1, 1, (rows, columns))
    return torch.from_numpy(x).cuda().to(getattr(torch, ELEMENTS[dtype].library))


def pair(dtype, columns=False):
    a = numbers(max(ROWS), K, dtype, 0)
    b = numbers(N, K, dtype, 1).T if columns else numbers(K, N, dtype, 1)
    return a, b


def same(x, y):
    return torch.equal(x.contiguous().view(torch.uint8), y.contiguous().view(torch.uint8))


def check(product, a):
    """`product` of the first rows of a, for every number of rows: as often as RERUNS says, always the same rows."""
    with launches.compiling_ahead():
        for rows in ROWS:
            product(a[:rows])
    whole = product(a)
    for rows in ROWS:
        for _ in range(RERUNS):
            assert same(product(a[:rows]), whole[:rows]), f"{rows} rows"


@pytest.mark.parametrize(("mode", "dtype", "columns"), LAID_OUT)
def test_rows_are_the_same_in_every_run_and_in_any_company(mode, dtype, columns):
    """What `mm` launches by itself, with B along its rows and along its columns."""
    a, b = pair(dtype, columns)
    check(lambda x: tritongemm.mm(x, b, precision=mode), a)


def ways(mode, x, b):
    """The configurations of all kernels that give the mode's own bits for a product, each kernel's own choice."""
    operands = Operands.of(x, b, modes.get(mode), epilogue=Epilogue())
    for candidate in dispatch.CANDIDATES:
        if candidate.supports(operands, None):
            config = candidate.configure(operands)
            if candidate.supports(operands, config) and not candidate.bits(operands, config):
                yield config


@pytest.mark.parametrize(("mode", "dtype"), CASES)
def test_every_kernel_gives_the_same_rows(mode, dtype):
    """Each kernel that takes so many rows, in the configuration that it chooses for them."""
    a, b = pair(dtype, columns=dtype in FP8)
    chosen = [(rows, config) for rows in ROWS for config in ways(mode, a[:rows], b)]
    assert {rows for rows, _ in chosen} == set(ROWS)
    with launches.compiling_ahead():
        for rows, config in chosen:
            tritongemm.mm(a[:rows], b, precision=mode, config=config)
    want = tritongemm.mm(a, b, precision=mode)
    for rows, config in chosen:
        print(rows, config)
        for _ in range(RERUNS):
            got = tritongemm.mm(a[:rows], b, precision=mode, config=config)
            assert same(got, want[:rows]), f"{config}, {rows} rows"


@pytest.mark.parametrize(("mode", "blocks"), [("ieee", False), ("fast", False), ("ieee", True)], ids=str)
def test_scaled_products_of_rows_are_the_same_in_any_company(mode, blocks):
    b = numbers(N, 640, "fp8e4m3fn", 1).T
    a = numbers(max(ROWS), 640, "fp8e4m3fn", 0)
    shapes = ((max(ROWS), 5), (5, 3)) if blocks else ((max(ROWS), 1), (1, N))
    scale_a, scale_b = (torch.rand(shape, device="cuda") + 0.5 for shape in shapes)
    whole = tritongemm.scaled_mm(a, b, scale_a, scale_b, precision=mode)
    for rows in ROWS:
        for _ in range(RERUNS):
            got = tritongemm.scaled_mm(a[:rows], b, scale_a[:rows], scale_b, precision=mode)
            assert same(got, whole[:rows]), f"{rows} rows"


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_sums_cut_by_the_number_of_rows_are_the_same_in_every_run(dtype):
    """`invariant=False`: bits may depend on M, never on the run."""
    a, b = pair(dtype)
    for rows in ROWS:
        want = tritongemm.mm(a[:rows], b, invariant=False)
        for _ in range(RERUNS):
            assert same(tritongemm.mm(a[:rows], b, invariant=False), want), f"{rows} rows"
