"""Studies: the same bits wherever cells run, nothing lost when something dies, memory that does not grow with K."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import numfmt
from numfmt import BF16, FP4_E2M1, FP8_E4M3, FP16, accumulate
from numfmt.study import Data, Study, cell_id, run_cell

SMALL = Study(
    formats=[BF16, FP16],
    methods=["sequential", "pairwise", ("tree", {"fan_in": 3})],
    terms=[10, 64],
    seeds=[0, 1],
    chunks=[None, 16],
    rows=20,
)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The small study's results, computed in this process."""
    return SMALL.run(tmp_path_factory.mktemp("study") / "reference.sqlite", workers=1)


def test_every_combination_is_one_cell(reference):
    assert len(reference) == 2 * 3 * 2 * 2 * 2
    assert {(r["format"], r["method"], r["chunk"], r["terms"], r["seed"]) for r in reference} == {
        (f, m, c, k, s)
        for f in ("BF16", "FP16")
        for m in ("sequential", "pairwise", "tree")
        for c in (None, 16)
        for k in (10, 64)
        for s in (0, 1)
    }
    assert all(r["exceeded"] == 0 and r["overflowed"] == 0 for r in reference)


def test_a_cell_is_what_accumulate_and_a_report_say(reference):
    row = next(r for r in reference if (r["format"], r["method"], r["chunk"], r["terms"]) == ("BF16", "tree", None, 64))
    x = np.random.default_rng([row["seed"], 0]).standard_normal((64, 20)).T
    report = numfmt.sum_report(x, BF16, method="tree", fan_in=3)
    assert row["units_rms"] == report.summary()["units"]["rms"]
    assert row["kappa_max"] == report.kappa.max()
    assert row["norm_error"] == np.sqrt(np.sum(report.error**2)) / np.sqrt(np.sum(report.exact**2))


def test_products_and_term_formats():
    study = Study([FP16], terms=[50], rows=7, data=Data("normal", FP8_E4M3, products=True))
    (cell,) = study.cells()
    a, b = (FP8_E4M3.round(np.random.default_rng([0, i]).standard_normal((50, 7))) for i in (0, 1))
    computed = accumulate((a * b).T, FP16)
    digest = run_cell(cell)["digest"]
    import hashlib

    assert digest == hashlib.sha256(computed.tobytes()).hexdigest()


def test_pieces_do_not_change_the_data(monkeypatch):
    data = Data("lognormal", FP16, products=True)
    whole = np.concatenate(list(data.pieces(3, 100, 5)))
    monkeypatch.setattr("numfmt.study._PIECE", 35)
    pieces = list(data.pieces(3, 100, 5))
    assert len(pieces) == 15
    np.testing.assert_array_equal(np.concatenate(pieces), whole)


def test_pieces_do_not_change_the_figures(monkeypatch, reference, tmp_path):
    monkeypatch.setattr("numfmt.study._PIECE", 150)
    assert SMALL.run(tmp_path / "pieces.sqlite", workers=0) == reference


def test_processes_give_the_same_bits(reference, tmp_path):
    assert SMALL.run(tmp_path / "pool.sqlite", workers=2) == reference


def test_finished_cells_are_not_done_again(reference, tmp_path, monkeypatch):
    path = tmp_path / "resumed.sqlite"
    part = Study([BF16], SMALL.methods, SMALL.terms, SMALL.seeds, chunks=SMALL.chunks, rows=20)
    part.run(path, workers=1)
    calls = []
    monkeypatch.setattr("numfmt.study.run_cell", lambda cell: calls.append(cell) or run_cell(cell))
    assert SMALL.run(path, workers=1) == reference
    assert len(calls) == len(reference) // 2
    assert all(cell["format"]["name"] == "FP16" for cell in calls)
    assert SMALL.run(path, workers=1) == reference
    assert len(calls) == len(reference) // 2


def slow_study(rows: int = 200) -> Study:
    """Cells of about a tenth of a second, so that there is time to kill something."""
    return Study([BF16], ["kahan"], [300], seeds=range(12), rows=rows)


def test_a_killed_run_loses_at_most_the_cell_it_was_on(tmp_path):
    path = tmp_path / "killed.sqlite"
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom numfmt import BF16\nfrom numfmt.study import Study\n"
        "if __name__ == '__main__':\n"
        "    Study([BF16], ['kahan'], [300], seeds=range(12), rows=200).run(sys.argv[1], workers=1)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, str(script), str(path)], env=environment)
    try:
        deadline = time.monotonic() + 60
        while stored(path) < 3 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
    finally:
        process.kill()
        process.wait()
    finished = stored(path)
    assert finished >= 3
    study = slow_study()
    assert len(study.results(path)) == finished
    again = study.run(path, workers=1)
    assert again == study.run(tmp_path / "whole.sqlite", workers=1)


def stored(path) -> int:
    """Cells in a file that something else may be writing."""
    if not path.exists():
        return 0
    connection = sqlite3.connect(path, timeout=10)
    try:
        return connection.execute("SELECT COUNT(*) FROM cells").fetchone()[0]
    except sqlite3.OperationalError:
        return 0  # not made yet
    finally:
        connection.close()


def test_a_killed_worker_process_is_replaced(tmp_path):
    path, study, outcome = tmp_path / "worker.sqlite", slow_study(), {}

    def run() -> None:
        outcome["rows"] = study.run(path, workers=2)

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 60
    while stored(path) < 2 and time.monotonic() < deadline:
        time.sleep(0.005)
    victims = multiprocessing.active_children()
    assert victims, "the study ended before a worker could be killed"
    os.kill(victims[0].pid, signal.SIGKILL)
    thread.join(120)
    assert outcome["rows"] == study.run(tmp_path / "whole.sqlite", workers=1)


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
    ) as cluster:
        yield cluster


@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_gives_the_same_bits(cluster, reference, tmp_path):
    assert SMALL.run(tmp_path / "dask.sqlite", client=cluster.scheduler_address) == reference


@pytest.mark.filterwarnings("ignore")
def test_a_killed_dask_worker_loses_nothing(cluster, tmp_path):
    from distributed import Client

    path, study = tmp_path / "dask.sqlite", slow_study()
    with Client(cluster) as client:
        workers = client.run(os.getpid)

        def kill() -> None:
            deadline = time.monotonic() + 60
            while stored(path) < 2 and time.monotonic() < deadline:
                time.sleep(0.005)
            os.kill(next(iter(workers.values())), signal.SIGKILL)

        thread = threading.Thread(target=kill)
        thread.start()
        rows = study.run(path, client=client)
        thread.join()
    assert rows == study.run(tmp_path / "whole.sqlite", workers=1)


PEAK = """
import resource, sys
from numfmt import BF16
from numfmt.study import Study, run_cell
for terms in (64, {terms}):
    (cell,) = Study([BF16], ["{method}"], [terms], rows={rows}).cells()
    assert "digest" in run_cell(cell)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_memory(method: str, terms: int, rows: int) -> list[float]:
    """Peak resident MiB of a process after a short and after a long cell."""
    program = PEAK.format(method=method, terms=terms, rows=rows)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    output = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    )
    return [int(line) / 1024 for line in output.stdout.split()]


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
def test_memory_does_not_grow_with_the_number_of_terms():
    # 2^13 terms of 1024 sums are 64 MiB, in one array.
    short, long = peak_memory("pairwise", 2**13, 1024)
    assert long - short < 48


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
def test_a_million_terms_of_4096_sums_fit_a_gibibyte():
    assert peak_memory("sequential", 2**20, 4096)[-1] < 1024


def test_cells_that_cannot_be_computed_say_why(tmp_path):
    study = Study([FP4_E2M1], terms=[5], rows=2, data=Data("lognormal"))
    (row,) = study.run(tmp_path / "fine.sqlite", workers=1)
    assert row["overflowed"] == 0
    (cell,) = study.cells()
    broken = {**cell, "method": "sequentiel"}
    assert "sequential" in run_cell(broken)["error"]


def test_ids_depend_on_everything_that_defines_a_cell():
    (cell,) = Study([BF16]).cells()
    changed = [{**cell, key: "x"} for key in cell]
    assert len({cell_id(c) for c in (cell, *changed)}) == len(cell) + 1
    json.dumps(cell)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Study([]), ValueError, "formats is empty"),
        (lambda: Study(BF16), TypeError, "formats must be a list"),
        (lambda: Study([BF16], "pairwise"), TypeError, r"\['pairwise'\]"),
        (lambda: Study([BF16], ["pairwize"]), ValueError, "pairwise"),
        (lambda: Study([BF16], [("tree", {"fanin": 3})]), ValueError, "fan_in"),
        (lambda: Study([BF16], terms=[0]), ValueError, "terms must be at least 1"),
        (lambda: Study([BF16], seeds=[-1]), ValueError, "seeds must be at least 0"),
        (lambda: Study([BF16], seeds=[float("nan")]), TypeError, "seeds must be an integer"),
        (lambda: Study([BF16], chunks=[-4]), ValueError, "chunk must be at least 1"),
        (lambda: Study([BF16], roundings=["nearst"]), ValueError, "nearest"),
        (lambda: Study([BF16], rows=0), ValueError, "rows"),
        (lambda: Study([BF16], confidence=2), ValueError, "confidence"),
        (lambda: Data("gaussian"), ValueError, "distribution"),
        (lambda: Data("normal", "bf16"), TypeError, "FloatFormat"),
        (lambda: Study([BF16]).results("/nowhere/at/all.sqlite"), FileNotFoundError, "Study.run makes it"),
        (lambda: Study([BF16]).run(":memory:", workers=-1), ValueError, "workers"),
        (lambda: Study([BF16]).run(":memory:", workers=2, client="x"), ValueError, "not both"),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_files_of_something_else_are_refused(tmp_path):
    text, database = tmp_path / "notes.txt", tmp_path / "other.sqlite"
    text.write_text("not a database, but long enough to be looked at as one\n" * 40)
    connection = sqlite3.connect(database)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    for path in (text, database):
        before = path.read_bytes()
        with pytest.raises(ValueError, match="choose another file"):
            SMALL.run(path, workers=1)
        assert path.read_bytes() == before
