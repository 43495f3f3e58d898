"""Large studies: a grid of formats, methods, lengths and seeds as one object, run in parallel into one file.

    from numfmt import BF16, FP16
    from numfmt.study import Study

    study = Study(formats=[BF16, FP16], methods=["sequential", "pairwise"], terms=[256, 4096], seeds=range(3))
    if __name__ == "__main__":
        for row in study.run("sums.sqlite"):
            print(row["format"], row["method"], row["terms"], row["units_rms"])

Every cell of the grid is computed by `run_cell` from its definition alone, and written in a transaction of its own. A
run that was killed is continued by running the study again: finished cells are not done twice. Where cells run (in
this process, in a pool of processes, on a Dask cluster) does not change a bit of their results.

Terms are drawn and added in pieces, so memory does not grow with their number.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import multiprocessing
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from numfmt._bits import significant_bits
from numfmt._errors import not_a_format, unknown_name
from numfmt._inputs import as_integer
from numfmt._progress import track
from numfmt._summation import METHODS
from numfmt.bounds import bound_of_sums, on_quantum_grid
from numfmt.exact import ExactAccumulator, ratio_of_sums
from numfmt.families import lookup
from numfmt.formats import FloatFormat
from numfmt.reports import ErrorReport
from numfmt.sums import Accumulator, SumPlan

__all__ = ["DISTRIBUTIONS", "Data", "Study", "cell_id", "run_cell"]

Float64Array = NDArray[np.float64]

# Terms that a cell holds at once, over all its sums.
_PIECE = 1 << 19
# How often a cell is given to a new process after the one it was on has died.
_ATTEMPTS = 3
# Cells that wait at each worker, so that none is idle while results are written.
_AHEAD = 2

#: Distributions of terms, or of factors of products.
DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Float64Array]] = {
    "uniform": lambda rng, shape: rng.random(shape),
    "symmetric": lambda rng, shape: 2.0 * rng.random(shape) - 1.0,
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "lognormal": lambda rng, shape: np.exp(rng.standard_normal(shape)),
    "ones": lambda rng, shape: np.ones(shape),
}


@dataclass(frozen=True)
class Data:
    """What is summed.

    Args:
        distribution: A name of `DISTRIBUTIONS`.
        fmt: Format that numbers (of products: the factors) are rounded to first, or None.
        products: Terms are products of two independent such numbers.

    Raises:
        ValueError: For an unknown distribution.
    """

    distribution: str = "normal"
    fmt: FloatFormat | None = None
    products: bool = False

    def __post_init__(self) -> None:
        if self.distribution not in DISTRIBUTIONS:
            raise ValueError(unknown_name("distribution", self.distribution, DISTRIBUTIONS))
        if self.fmt is not None and not isinstance(self.fmt, FloatFormat):
            raise TypeError(not_a_format("fmt", self.fmt, "FP8_E4M3", optional=True))

    def pieces(self, seed: int, terms: int, rows: int) -> Iterator[Float64Array]:
        """The terms in order, as (k, rows) arrays; the same numbers however large the pieces are.

        Args:
            seed: Seed.
            terms: Terms of each sum.
            rows: Number of sums.

        Yields:
            float64 arrays (k, rows), together (terms, rows).
        """
        sources = [np.random.default_rng([seed, factor]) for factor in range(2 if self.products else 1)]
        step = max(1, _PIECE // max(rows, 1))
        for start in range(0, terms, step):
            shape = (min(step, terms - start), rows)
            drawn = [DISTRIBUTIONS[self.distribution](rng, shape) for rng in sources]
            if self.fmt is not None:
                drawn = [np.asarray(self.fmt.round(x), np.float64) for x in drawn]
            yield drawn[0] * drawn[1] if self.products else drawn[0]


@dataclass(frozen=True)
class Study:
    """A grid of simulated sums.

    Every combination of the lists is one cell: `rows` independent sums of so many terms.

    Args:
        formats: Accumulator formats, or their names ("bf16", "e8m13"; `numfmt.lookup`).
        methods: Summation methods of `numfmt.accumulate`; a pair (name, {parameter: value}) sets parameters.
        terms: Numbers of terms K.
        seeds: Seeds of the data and of stochastic rounding.
        roundings: Rounding modes.
        chunks: Promotion intervals; None is no promotion.
        rows: Sums per cell T.
        data: What is summed.
        confidence: Of the probabilistic bounds.

    Raises:
        ValueError: For empty lists, unknown names and impossible values.
        TypeError: For values of the wrong kind.
    """

    formats: Sequence[FloatFormat | str]
    methods: Sequence[str | tuple[str, dict[str, int]]] = ("sequential",)
    terms: Sequence[int] = (1024,)
    seeds: Sequence[int] = (0,)
    roundings: Sequence[str] = ("nearest_even",)
    chunks: Sequence[int | None] = (None,)
    rows: int = 256
    data: Data = field(default_factory=Data)
    confidence: float = 0.99

    def __post_init__(self) -> None:
        for name in ("formats", "methods", "terms", "seeds", "roundings", "chunks"):
            value = getattr(self, name)
            if isinstance(value, str | FloatFormat) or not isinstance(value, Iterable):
                raise TypeError(f"{name} must be a list, got {value!r}; write [{value!r}]")
            object.__setattr__(self, name, tuple(value))
            if not getattr(self, name):
                raise ValueError(f"{name} is empty; a study needs at least one value of each list")
        object.__setattr__(self, "formats", tuple(_accumulator(fmt) for fmt in self.formats))
        for name, minimum in (("terms", 1), ("seeds", 0)):
            object.__setattr__(self, name, tuple(as_integer(v, name, minimum) for v in getattr(self, name)))
        object.__setattr__(self, "rows", as_integer(self.rows, "rows", 1))
        if not 0.0 < self.confidence < 1.0:
            raise ValueError(f"confidence must lie between 0 and 1, got {self.confidence!r}")
        for cell in self.cells():
            _plan(cell)  # every combination is checked before the first one runs

    def cells(self) -> list[dict[str, Any]]:
        """The definitions of all cells.

        Returns:
            One dictionary per cell, ready for JSON, in the order of the lists: the last list varies fastest.
        """
        common = {"rows": self.rows, "data": _as_json(self.data), "confidence": self.confidence}
        grid = itertools.product(self.formats, self.methods, self.roundings, self.chunks, self.terms, self.seeds)
        cells = []
        for fmt, method, rounding, chunk, terms, seed in grid:
            name, parameters = (method, {}) if isinstance(method, str) else method
            cells.append(
                {
                    "format": _as_json(fmt),
                    "method": name,
                    "parameters": dict(parameters),
                    "rounding": rounding,
                    "chunk": chunk,
                    "terms": terms,
                    "seed": seed,
                    **common,
                }
            )
        return cells

    def run(
        self,
        path: str | Path,
        *,
        workers: int | None = None,
        client: Any = None,
        progress: bool | None = None,
    ) -> list[dict[str, Any]]:
        """Run the cells that the file does not have yet.

        Args:
            path: SQLite file; made if it is not there. It may hold cells of other studies.
            workers: Processes on this machine; None takes one per CPU, 1 (or 0) runs in this process.
            client: Address of a Dask scheduler, or a `distributed.Client`, to run on its cluster instead.
            progress: Draw a progress bar; None draws one on a terminal.

        Returns:
            The results of this study's cells, as `results` gives them.

        Raises:
            ImportError: For a Dask address without `distributed` (numfmt-sim[dask]).
            RuntimeError: If a cell kills its process again and again, or the calling script has no
                ``if __name__ == "__main__":`` around the call.
            ValueError: For a file that is no study file, and for workers below 0.
        """
        if client is not None and workers is not None:
            raise ValueError("give workers (processes here) or client (a Dask cluster), not both")
        count = (os.cpu_count() or 1) if workers is None else as_integer(workers, "workers", 0)
        with closing(_open(path)) as store:
            done = _stored_ids(store)
            missing = {key: cell for cell in self.cells() if (key := cell_id(cell)) not in done}
            if client is not None:
                outcomes = _on_dask(missing, client)
            elif count <= 1 or len(missing) <= 1:
                outcomes = ((key, run_cell(cell)) for key, cell in missing.items())
            else:
                outcomes = _in_processes(missing, min(count, len(missing)))
            with closing(outcomes):
                for key, figures in track(outcomes, total=len(missing), label="cells", show=progress):
                    _write(store, key, missing[key], figures)
        return self.results(path)

    def results(self, path: str | Path) -> list[dict[str, Any]]:
        """The results of this study's cells that a file has, in the order of the grid.

        Args:
            path: The file.

        Returns:
            One flat dictionary per finished cell: format, method, parameters, rounding, chunk, terms, seed, rows;
            ``units_rms``, ``units_max``, ``units_mean`` (error in u·sum|p|), ``ulps_*`` likewise, ``norm_error``
            (2-norm of the errors over that of the exact sums), ``kappa_median``, ``kappa_max``, ``bound_median`` and
            ``probable_bound_median`` (in u·sum|p|), ``exceeded`` (errors beyond the deterministic bound),
            ``overflowed`` (sums that are not finite) and ``digest`` (SHA-256 of the computed sums); or ``error``, the
            message of a cell that failed.

        Raises:
            ValueError: For a file that is no study file.
            FileNotFoundError: For a file that is not there.
        """
        if not Path(path).exists():
            raise FileNotFoundError(f"no study file {path}; Study.run makes it")
        with closing(_open(path)) as store:
            stored = dict(store.execute("SELECT id, figures FROM cells"))
        rows = []
        for cell in self.cells():
            figures = stored.get(cell_id(cell))
            if figures is not None:
                shown = {**cell, "format": cell["format"]["name"], "data": cell["data"]["distribution"]}
                rows.append({**shown, **json.loads(figures)})
        return rows


# Cells ----------------------------------------------------------------------------------------------------------------


def _accumulator(fmt: object) -> FloatFormat:
    """A format, or that of a name."""
    found = lookup(fmt) if isinstance(fmt, str) else fmt
    if not isinstance(found, FloatFormat):
        raise TypeError(not_a_format("formats", found))
    return found


def _as_json(value: Any) -> Any:
    """A dataclass of facts as a dictionary of plain values."""
    if isinstance(value, FloatFormat | Data):
        return {f.name: _as_json(getattr(value, f.name)) for f in fields(value)}
    return value


def _format(facts: dict[str, Any]) -> FloatFormat:
    """The format of such a dictionary."""
    return FloatFormat(**facts)


def cell_id(cell: dict[str, Any]) -> str:
    """A name that follows from a cell's definition: rows of equal names are of equal cells.

    Args:
        cell: An entry of `Study.cells`.

    Returns:
        32 hexadecimal digits, of the SHA-256 of the definition as JSON with sorted keys.
    """
    text = json.dumps(cell, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _options(cell: dict[str, Any]) -> dict[str, Any]:
    return {
        "rounding": cell["rounding"],
        "method": cell["method"],
        "chunk": cell["chunk"],
        **cell["parameters"],
    }


def _plan(cell: dict[str, Any]) -> SumPlan:
    unknown = [name for name in cell["parameters"] if not any(name in m.parameters for m in METHODS.values())]
    if unknown:
        known = {name for m in METHODS.values() for name in m.parameters}
        raise ValueError(unknown_name("parameter", unknown[0], sorted(known)))
    return SumPlan.of(_format(cell["format"]), **_options(cell))


def run_cell(cell: dict[str, Any]) -> dict[str, Any]:
    """The figures of one cell: a function of its definition and nothing else.

    Args:
        cell: An entry of `Study.cells`.

    Returns:
        Figures as `Study.results` lists them, and ``seconds``; for a cell that cannot be computed its ``error``.
    """
    start = time.perf_counter()
    try:
        figures = _figures(cell)
    except (ValueError, TypeError, ArithmeticError, MemoryError) as error:
        figures = {"error": f"{type(error).__name__}: {error}"}
    return {**figures, "seconds": time.perf_counter() - start}


def _figures(cell: dict[str, Any]) -> dict[str, Any]:
    fmt, rows, terms = _format(cell["format"]), cell["rows"], cell["terms"]
    facts = cell["data"]
    data = Data(facts["distribution"], None if facts["fmt"] is None else _format(facts["fmt"]), facts["products"])
    simulated = Accumulator(rows, fmt, seed=cell["seed"], **_options(cell))
    sums, sizes = ExactAccumulator(rows), ExactAccumulator(rows)
    on_quantum, bits = True, 1
    for piece in data.pieces(cell["seed"], terms, rows):
        simulated.add(piece.T)
        sums.add(piece.T)
        sizes.add(np.abs(piece).T)
        on_quantum = on_quantum and on_quantum_grid(piece, fmt)
        bits = max(bits, significant_bits(piece))
    computed, exact, magnitude = simulated.total(), sums.total(), sizes.total()
    finite = np.isfinite(computed)
    sums.add(np.where(finite, -computed, 0.0)[:, None])
    with np.errstate(invalid="ignore"):
        error = np.where(finite, -sums.total() + 0.0, computed - exact)
    in_format = on_quantum and bits <= fmt.precision
    bound, probable = (
        bound_of_sums(_plan(cell), terms, magnitude, np.abs(exact), level, 0, on_quantum, in_format)
        for level in (None, cell["confidence"])
    )
    report = ErrorReport(fmt, computed, exact, error, magnitude, ratio_of_sums(magnitude, exact), bound, probable)
    return _flat(report)


def _flat(report: ErrorReport) -> dict[str, Any]:
    """A report's figures in one dictionary, all of them reproducible bit for bit."""
    summary = report.summary()
    figures: dict[str, Any] = {}
    for name in ("units", "ulps"):
        for statistic in ("rms", "max", "mean"):
            figures[f"{name}_{statistic}"] = summary[name][statistic] if name in summary else None
    finite = np.isfinite(report.computed)
    norm = float(np.sqrt(np.sum(report.exact[finite] ** 2)))
    figures["norm_error"] = float(np.sqrt(np.sum(report.error[finite] ** 2))) / norm if norm else None
    figures["kappa_median"] = summary["kappa"]["0.5"]
    figures["kappa_max"] = summary["kappa"]["1.0"]
    for name in ("bound", "probable_bound"):
        figures[f"{name}_median"] = summary[name]["median_units"]
    figures["exceeded"] = summary["bound"]["exceeded"]
    figures["overflowed"] = int((~finite).sum())
    figures["digest"] = hashlib.sha256(np.ascontiguousarray(report.computed).tobytes()).hexdigest()
    return figures


# The file -------------------------------------------------------------------------------------------------------------

_SCHEMA = """
CREATE TABLE IF NOT EXISTS cells (
    id TEXT PRIMARY KEY, definition TEXT NOT NULL, figures TEXT NOT NULL, seconds REAL NOT NULL
) WITHOUT ROWID
"""
# Marks the file as one of ours (SQLite's application_id): "nfst".
_APPLICATION = 0x6E667374


def _open(path: str | Path) -> sqlite3.Connection:
    """The file, made if it is not there."""
    store = sqlite3.connect(path, timeout=60.0, isolation_level=None)
    try:
        (application,) = store.execute("PRAGMA application_id").fetchone()
        if application not in (0, _APPLICATION) or (
            application == 0 and store.execute("SELECT COUNT(*) FROM sqlite_master").fetchone() != (0,)
        ):
            raise ValueError(f"{path} is a database of something else; choose another file")
        store.execute(f"PRAGMA application_id = {_APPLICATION}")
        store.execute(_SCHEMA)
    except sqlite3.DatabaseError as error:
        store.close()
        raise ValueError(f"{path} is no study file ({error}); choose another file") from None
    except ValueError:
        store.close()
        raise
    return store


def _stored_ids(store: sqlite3.Connection) -> set[str]:
    return {key for (key,) in store.execute("SELECT id FROM cells")}


def _write(store: sqlite3.Connection, key: str, cell: dict[str, Any], figures: dict[str, Any]) -> None:
    """One cell, in a transaction of its own: a crash leaves it whole or absent."""
    seconds = figures.pop("seconds")
    definition, text = (json.dumps(v, sort_keys=True) for v in (cell, figures))
    store.execute("INSERT OR REPLACE INTO cells VALUES (?, ?, ?, ?)", (key, definition, text, seconds))


# Where cells run ------------------------------------------------------------------------------------------------------

Outcomes = Iterator[tuple[str, dict[str, Any]]]


def _in_processes(cells: dict[str, dict[str, Any]], workers: int) -> Any:
    """Run cells in processes on this machine; one that dies is replaced and its cells are tried again."""
    if multiprocessing.parent_process() is not None:
        raise RuntimeError(
            "Study.run was reached while a worker process imported the script; put the call under "
            'if __name__ == "__main__":, or pass workers=1'
        )
    attempts = dict.fromkeys(cells, 0)
    left = list(cells)
    while left:
        # Spawned, not forked: a fork of a process with threads (numba, BLAS) can hang.
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            waiting: dict[Future[dict[str, Any]], str] = {}
            queue = iter(list(left))
            try:
                while True:
                    for key in itertools.islice(queue, workers * _AHEAD - len(waiting)):
                        waiting[pool.submit(run_cell, cells[key])] = key
                    if not waiting:
                        return
                    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                        key = waiting[future]
                        figures = future.result()
                        del waiting[future]
                        left.remove(key)
                        yield key, figures
            except BrokenProcessPool:
                # Which of the cells in flight killed it is not known: all are tried again.
                for key in waiting.values():
                    attempts[key] += 1
                if max(attempts.values()) >= _ATTEMPTS:
                    raise RuntimeError(
                        f"worker processes died {_ATTEMPTS} times on the same cells (out of memory, or a script "
                        'without if __name__ == "__main__": around Study.run); finished cells are in the file'
                    ) from None
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _on_dask(cells: dict[str, dict[str, Any]], client: Any) -> Any:
    """Run cells on a Dask cluster, which gives those of a lost worker to another one."""
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise ImportError("client needs distributed; install it with: pip install 'numfmt-sim[dask]'") from None
    own = None
    if isinstance(client, str):
        client = own = Client(client)
    elif not isinstance(client, Client):
        raise TypeError(f"client must be the address of a Dask scheduler or a distributed.Client, got {client!r}")
    try:
        queue = iter(cells.items())
        ahead = max(1, len(client.scheduler_info()["workers"])) * _AHEAD
        running = as_completed()

        def submit(count: int) -> None:
            for key, cell in itertools.islice(queue, count):
                future = client.submit(run_cell, cell, key=f"numfmt-{key}", pure=False, retries=_ATTEMPTS)
                running.add(future)

        submit(ahead)
        for future in running:
            yield future.key.removeprefix("numfmt-"), future.result()
            submit(1)
    finally:
        if own is not None:
            own.close()
