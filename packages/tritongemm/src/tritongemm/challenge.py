"""The 14 test cases of the public matrix-product challenge that the opening demonstration comes from.

The challenge judges a kernel by atol = rtol = 1e-4 against a library's fp32 product. The first thirteen cases are
small; any correct kernel passes them. The last one, 8192 x 6144 x 4096 with U(-1, 1), is where `strided_lanes` was
rejected. Against float64 it is the other way round: `strided_lanes` passes it, while the library's product, and
`blocked` with the same bits, miss the tolerance in about 6 of a million outputs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tritongemm.accuracy import ErrorAccumulator, ErrorReport, Tolerance
from tritongemm.auditing.sampling import Rectangle, draw, most_at_risk, rectangles, survey
from tritongemm.errors import Unavailable, UsageError
from tritongemm.orders import SummationOrder
from tritongemm.reference import reference, reference_blocks
from tritongemm.tables import Table, figure

__all__ = ["CASES", "TOLERANCE", "Case", "Outcome", "run", "table"]

Array = np.ndarray[Any, np.dtype[Any]]
Multiply = Callable[[Any, Any], Any]
Progress = Callable[[str, float], None]

TOLERANCE = Tolerance(1e-4, 1e-4)
_SEED = 14

# The last case on a CPU: outputs closest to zero that are looked at, outputs at risk that are evaluated, 64 in a
# square.
_POOL, _TARGETS, _SIDE = 1 << 18, 2048, 64


@dataclass(frozen=True)
class Case:
    """One test case: C[M,N] = A[M,K] B[K,N] in fp32.

    Attributes:
        number: From 1 to 14.
        name: What it is.
        M: Rows.
        K: Products per output.
        N: Columns.
        operands: Makes A and B.
    """

    number: int
    name: str
    M: int
    K: int
    N: int
    operands: Callable[[], tuple[Array, Array]]

    @property
    def sampled(self) -> bool:
        """Whether a CPU evaluates a sample of it only."""
        return self.M * self.N * self.K > 1 << 30


def _literal(a: list[list[float]], b: list[list[float]]) -> Callable[[], tuple[Array, Array]]:
    return lambda: (np.array(a, np.float32), np.array(b, np.float32))


def _uniform(number: int, M: int, K: int, N: int, limit: float) -> Callable[[], tuple[Array, Array]]:
    def make() -> tuple[Array, Array]:
        rng = np.random.default_rng([_SEED, number])
        a, b = (rng.uniform(-limit, limit, shape).astype(np.float32) for shape in ((M, K), (K, N)))
        return a, b

    return make


def _random_case(number: int, M: int, K: int, N: int, limit: float = 1.0) -> Case:
    name = f"{M} x {K} x {N}, U(-{limit:g}, {limit:g})"
    return Case(number, name, M, K, N, _uniform(number, M, K, N, limit))


_IDENTITY = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
CASES: tuple[Case, ...] = (
    Case(1, "2 x 2 times 2 x 2", 2, 2, 2, _literal([[1, 2], [3, 4]], [[5, 6], [7, 8]])),
    Case(2, "a row times a column", 1, 3, 1, _literal([[1, 2, 3]], [[4], [5], [6]])),
    Case(3, "the identity of size 3", 3, 3, 3, _literal(_IDENTITY, [[1, 2, 3], [4, 5, 6], [7, 8, 9]])),
    Case(4, "zeros of size 2", 2, 2, 2, _literal([[0, 0], [0, 0]], [[1, 2], [3, 4]])),
    _random_case(5, 2, 3, 1),
    _random_case(6, 4, 4, 4),
    _random_case(7, 8, 6, 10),
    _random_case(8, 16, 12, 20),
    _random_case(9, 32, 8, 16),
    _random_case(10, 8, 16, 32, 10.0),
    _random_case(11, 1, 1, 1),
    _random_case(12, 1, 5, 3),
    _random_case(13, 5, 3, 1),
    Case(14, "8192 x 6144 x 4096, U(-1, 1)", 8192, 6144, 4096, lambda: draw(8192, 4096, 6144, 0)),
)


@dataclass(frozen=True)
class Outcome:
    """How a product fared in a case.

    Attributes:
        case: The case.
        report: Its errors against float64, and against the library's product where it says "library".
        library_outside: Outputs where the library's product itself is outside the tolerance of float64.
        sampled: Whether a sample was evaluated: the outputs most at risk.
    """

    case: Case
    report: ErrorReport
    library_outside: int
    sampled: bool

    @property
    def passed(self) -> bool:
        """Whether every output that was computed is within the tolerance of float64."""
        return self.report.outside == 0 and self.report.wrong_special == 0

    @property
    def accepted(self) -> bool:
        """Whether the challenge would accept it: every output within the tolerance of the library's product."""
        return self.report.outside_library == 0


def run(
    multiply: Multiply,
    *,
    cases: Iterable[Case] = CASES,
    device: str = "cpu",
    tolerance: Tolerance = TOLERANCE,
    name: str | None = None,
    show: Progress | None = None,
) -> list[Outcome]:
    """Puts a matrix product to the test.

    On a GPU the library is torch. On a CPU it is the serial chain of fused multiply-adds, which has the bits of
    cuBLAS's SGEMM, and of the last case the outputs most at risk are computed: those whose results are small and whose
    partial sums are large.

    Args:
        multiply: Takes A and B, NumPy arrays or CUDA tensors, and gives their product: a launcher of this package,
            `numpy.matmul`, ...
        cases: Which cases.
        device: "cpu" or "gpu".
        tolerance: The test; the challenge's if not given.
        name: What to call the product.
        show: Called with what is being done and the share that is done.

    Returns:
        One outcome per case.

    Raises:
        UsageError: Another device.
        Unavailable: There is no GPU.
    """
    if device not in ("cpu", "gpu"):
        raise UsageError(f"device: {device!r}; known: cpu, gpu.")
    label = str(name or getattr(multiply, "__name__", "product"))
    outcomes = []
    chosen = list(cases)
    for number, case in enumerate(chosen):
        if show:
            show(f"case {case.number}: {case.name}", number / len(chosen))
        if device == "gpu":
            outcomes.append(_on_gpu(multiply, case, tolerance, label))
        elif case.sampled:
            outcomes.append(_sampled(multiply, case, tolerance, label))
        else:
            a, b = case.operands()
            outcomes.append(
                _measured(multiply, case, tolerance, label, [(a, b, np.ones((case.M, case.N), bool))], False)
            )
    return outcomes


def _measured(
    multiply: Multiply,
    case: Case,
    tolerance: Tolerance,
    name: str,
    parts: Iterable[tuple[Array, Array, Array]],
    sampled: bool,
) -> Outcome:
    """Measures the chosen outputs of products on the CPU."""
    errors = ErrorAccumulator(name, case.K, tolerance=tolerance)
    outside = 0
    for a, b, wanted in parts:
        c, library = np.asarray(multiply(a, b)), SummationOrder.chain().simulate(a, b)
        golden, magnitude = reference(a, b)
        errors.add(c[wanted][None], golden[wanted][None], magnitude[wanted][None], library[wanted][None])
        outside += int(tolerance.outside(library[wanted].astype(np.float64), golden[wanted]).sum())
    report = errors.report()
    if sampled:
        report.worst = None
    return Outcome(case, report, outside, sampled)


@lru_cache(maxsize=1)
def _hardest(number: int, tolerance: Tolerance) -> tuple[Array, Array, tuple[Rectangle, ...]]:
    """Operands of a case and the squares through its outputs most at risk; kept, for the next kernel asks again."""
    case = next(c for c in CASES if c.number == number)
    a, b = case.operands()
    found = survey(a, b, tolerance, _POOL, time.monotonic() + 3600, lambda share: None)
    targets = most_at_risk(a, b, found.nearest, tolerance, 2 * _TARGETS)
    return a, b, tuple(rectangles(case.M, case.N, (_SIDE, _SIDE), 0, _TARGETS // _SIDE, targets, 0))


def _sampled(multiply: Multiply, case: Case, tolerance: Tolerance, name: str) -> Outcome:
    a, b, squares = _hardest(case.number, tolerance)
    parts = ((a[r.rows], np.ascontiguousarray(b[:, r.columns]), r.wanted) for r in squares)
    return _measured(multiply, case, tolerance, name, parts, True)


def _on_gpu(multiply: Multiply, case: Case, tolerance: Tolerance, name: str) -> Outcome:
    try:
        import torch
    except ImportError:
        raise Unavailable("device: 'gpu' needs torch, which is not installed; use device='cpu'.") from None
    if not torch.cuda.is_available():
        raise Unavailable("device: 'gpu', but torch finds no CUDA GPU on this machine; use device='cpu'.")
    a, b = (torch.from_numpy(x).cuda() for x in case.operands())
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        library = torch.matmul(a, b).cpu().numpy()
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    c = multiply(a, b).cpu().numpy()
    errors = ErrorAccumulator(name, case.K, tolerance=tolerance)
    outside = 0
    for block in reference_blocks(a, b):
        at = (block.rows.start, block.columns.start)
        errors.add(c[block.at], block.golden, block.magnitude, library[block.at], at)
        outside += int(tolerance.outside(library[block.at].astype(np.float64), block.golden).sum())
    return Outcome(case, errors.report(), outside, False)


def table(outcomes: dict[str, list[Outcome]], library: str) -> Table:
    """The outcomes of several products side by side.

    Args:
        outcomes: By name of the product, its outcomes, of the same cases.
        library: What the library is.

    Returns:
        A table with, per product, the outputs outside the tolerance of float64 and of the library.
    """
    names = list(outcomes)
    rows = []
    for at, one in enumerate(next(iter(outcomes.values()))):
        cells = [f"{one.case.number}: {one.case.name}", f"{one.report.outputs:,}" + (" at risk" if one.sampled else "")]
        cells.append(f"{one.library_outside:,}")
        for name in names:
            report = outcomes[name][at].report
            cells += [f"{report.outside:,}", f"{report.outside_library or 0:,}", figure(report.max_abs, 2)]
        rows.append(cells)
    letters = [chr(ord("A") + i) for i in range(len(names))]
    columns = ["case", "outputs", "L: float64"]
    for letter in letters:
        columns += [f"{letter}: float64", f"{letter}: L", f"{letter}: max |e|"]
    key = "; ".join(f"{letter}: {name}" for letter, name in zip(letters, names, strict=True))
    notes = [f"{key}; L: {library}. float64: outside of the float64 product; L: outside of L's."]
    return Table(columns, rows, f"Outputs outside {TOLERANCE}", notes)
