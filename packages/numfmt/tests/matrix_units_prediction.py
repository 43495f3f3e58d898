"""Predictions of many outputs on all CPUs: worker processes that compute slices of rows and count differing bits."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from matrix_units_data import bits

from numfmt.matrix_units import find_schedule, matmul


@dataclass
class Comparison:
    """Outputs compared, and how many differed; the first differences in words."""

    outputs: int = 0
    mismatches: int = 0
    examples: tuple = ()

    def __add__(self, other):
        return Comparison(
            self.outputs + other.outputs, self.mismatches + other.mismatches, (self.examples + other.examples)[:4]
        )


def compare_rows(case, a, b, c, got, first):
    """Compare rows of a result with the model; runs in a worker."""
    expected = matmul(
        a, b, c, "hopper", inputs=case.inputs, accumulator=case.accumulator, schedule=case.schedule, threads=1
    )
    wrong = np.argwhere(bits(expected) != bits(got))
    examples = tuple(
        f"[{first + i}, {j}]: GPU {got[i, j]!r} (0x{bits(got)[i, j]:x}), model {expected[i, j]!r} "
        f"(0x{bits(expected)[i, j]:x})"
        for i, j in wrong[:4]
    )
    return Comparison(expected.size, len(wrong), examples)


class Predictor:
    """A pool of processes; `compare` splits a result among them."""

    def __init__(self, processes=None):
        self.processes = processes or max(1, len(os.sched_getaffinity(0)) - 1)
        # Not forked: this process holds a CUDA context.
        self.pool = ProcessPoolExecutor(self.processes, mp_context=multiprocessing.get_context("spawn"))

    def submit(self, case, a, b, c, got):
        """Futures of the comparisons of slices of rows."""
        rows = max(4, -(-a.shape[0] // self.processes))
        return [
            self.pool.submit(compare_rows, case, a[i : i + rows], b, c[i : i + rows], got[i : i + rows], i)
            for i in range(0, a.shape[0], rows)
        ]

    def search(self, result, a, b, candidates, **more):
        """`find_schedule` with the candidates split among the processes; best first, then in the order given."""
        chunks = [candidates[i :: self.processes] for i in range(self.processes)]
        futures = [self.pool.submit(find_schedule, result, a, b, candidates=chunk, **more) for chunk in chunks if chunk]
        order = {schedule: i for i, schedule in reversed(list(enumerate(candidates)))}
        matches = (match for future in futures for match in future.result())
        return sorted(matches, key=lambda match: (-match.share, order[match.schedule]))

    def close(self):
        """End the processes."""
        self.pool.shutdown(cancel_futures=True)


def gathered(futures):
    """The sum of comparisons."""
    total = Comparison()
    for future in futures:
        total = total + future.result()
    return total
