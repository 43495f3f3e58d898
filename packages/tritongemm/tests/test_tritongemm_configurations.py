"""Configurations: what they refuse, what a search may exchange for what, and the file that keeps what it found."""

import dataclasses
import json
import multiprocessing
import threading
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritongemm import configurations, store, tuning
from tritongemm.configurations import Config, Problem, neighbours, shape_class, strides_class
from tritongemm.errors import UsageError

CONFIG = Config(kernel="planted")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """No test reads or writes the user's own file."""
    monkeypatch.setenv(store.VARIABLE, str(tmp_path))
    monkeypatch.setattr(store, "_opened", {})
    return tmp_path / "configurations.json"


# ----------------------------------------------------------------------------------------------------------- the values
@pytest.mark.parametrize(
    ("name", "value"),
    [("block_m", 0), ("block_n", 24), ("block_k", 8), ("warps", 3), ("ctas", 0), ("stages", 0), ("splits", -1),
     ("group_m", 1.5), ("block_m", True), ("warps", "4")],
)  # fmt: skip
def test_sizes_no_kernel_compiles_for_are_refused(name, value):
    with pytest.raises(UsageError, match=name):
        Config(kernel="blocked", **{name: value})


def test_a_configuration_survives_json():
    config = Config(kernel="split_k", block_m=128, splits=3, ctas=2)
    assert Config.from_dict(json.loads(json.dumps(config.as_dict()))) == config
    assert config.blocks == {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8}
    assert config.options == {"num_warps": 4, "num_stages": 3, "num_ctas": 2}
    assert "num_ctas" not in config.changed(ctas=1).options


@pytest.mark.parametrize(
    "settings", [None, [], {}, {"kernel": 3}, {"kernel": "a", "blok_m": 64}, {"kernel": "a", "warps": 3}]
)
def test_settings_that_are_no_configuration_are_refused(settings):
    with pytest.raises(UsageError):
        Config.from_dict(settings)


def test_an_unknown_setting_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="Did you mean 'block_m'"):
        CONFIG.changed(blockm=64)


@given(st.integers(0, 1 << 40))
def test_classes_of_extents_are_ordered_and_at_most_half_as_large_again(n):
    assert shape_class(n) >= n
    assert shape_class(n) <= max(1.5 * n, 4)
    assert shape_class(shape_class(n)) == shape_class(n)
    assert shape_class(n + 1) >= shape_class(n)


def test_classes_of_extents_are_powers_of_two_and_three_times_these():
    assert sorted({shape_class(n) for n in range(1, 100)}) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]


@pytest.mark.parametrize(
    ("shape", "strides", "itemsize", "address", "expected"),
    [
        ((8, 16), (16, 1), 4, 64, "k16"),
        ((8, 15), (15, 1), 4, 64, "k"),
        ((8, 16), (16, 1), 4, 68, "k"),
        ((8, 16), (1, 8), 2, 64, "m16"),
        ((8, 16), (1, 9), 2, 64, "m"),
        ((8, 16), (32, 2), 4, 64, "-"),
        ((1, 15), (15, 1), 4, 64, "k16"),
        ((8, 15), (16, 1), 1, 0, "k16"),
        ((8, 16), (0, 1), 4, 64, "k16"),
    ],
)
def test_classes_of_strides_say_where_16_byte_loads_can_be_used(shape, strides, itemsize, address, expected):
    assert strides_class(shape, strides, itemsize, address, "mk") == expected


def test_everything_a_configuration_depends_on_is_in_its_key():
    problem = Problem(M=100, N=200, K=300)
    other = {
        "M": 1000, "N": 2000, "K": 3000, "batch": 7, "mode": "tf32", "dtypes": "bf16 bf16 bf16", "strides": "m k n",
        "device": "another", "invariant": False,
    }  # fmt: skip
    assert other.keys() == {f.name for f in dataclasses.fields(Problem)}
    keys = {problem.key} | {dataclasses.replace(problem, **{name: value}).key for name, value in other.items()}
    assert len(keys) == 1 + len(other)
    assert dataclasses.replace(problem, M=97).key == problem.key  # one class


def test_neighbours_are_one_step_away_and_legal():
    for config in (
        CONFIG,
        Config(kernel="x", block_m=16, block_n=256, warps=1, stages=1, group_m=32, splits=4, ctas=2),
    ):
        found = neighbours(config)
        assert len(set(found)) == len(found)
        for other in found:
            changed = {k for k, v in other.as_dict().items() if v != config.as_dict()[k]}
            assert len(changed) == 1
            name = changed.pop()
            assert name not in ("kernel", "splits", "ctas")
            assert getattr(other, name) <= configurations.LARGEST[name]


# ------------------------------------------------------------------------------------------------------------- the file
def test_what_is_kept_is_found_by_the_next_program(cache):
    store.Store(cache).put("key", CONFIG, seconds=1e-5)
    assert store.Store(cache).get("key") == CONFIG
    assert store.Store(cache).get("other") is None
    assert json.loads(cache.read_text())["entries"]["key"]["seconds"] == 1e-5
    assert not [p for p in cache.parent.iterdir() if p.suffix == ".part"]


def test_the_file_is_where_the_environment_says(monkeypatch, tmp_path):
    assert store.location() == tmp_path / "configurations.json"
    monkeypatch.setenv(store.VARIABLE, "off")
    assert store.location() is None
    assert store.current().path is None
    monkeypatch.delenv(store.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert store.location() == tmp_path / "xdg" / "tritongemm" / "configurations.json"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert store.location() == tmp_path / "home" / ".cache" / "tritongemm" / "configurations.json"


def test_without_a_file_configurations_are_kept_for_this_program():
    kept = store.Store(None)
    kept.put("key", CONFIG)
    assert kept.get("key") == CONFIG


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"schema": 1}',
        '{"schema": 1, "entries": []}',
        '{"schema": 1, "entries": {"key": 3}}',
        "\x00\xff",
    ],
    ids=range(8),
)
def test_a_broken_file_is_left_aside_with_a_note_and_replaced_by_the_next_result(cache, text):
    cache.write_bytes(text.encode("latin1"))
    with pytest.warns(UserWarning, match=r"configurations\.json: cannot be read"):
        assert store.Store(cache).get("key") is None
    with pytest.warns(UserWarning, match="cannot be read"):
        store.Store(cache).put("key", CONFIG)
    assert store.Store(cache).get("key") == CONFIG


def test_a_broken_entry_does_not_cost_the_others(cache):
    store.Store(cache).put("good", CONFIG)
    found = json.loads(cache.read_text())
    found["entries"] |= {"bad": {"config": {"kernel": "x", "warps": 3}}, "worse": {}}
    cache.write_text(json.dumps(found))
    kept = store.Store(cache)
    for key in ("bad", "worse"):
        with pytest.warns(UserWarning, match=f"the entry '{key}' is left aside"):
            assert kept.get(key) is None
    assert kept.get("good") == CONFIG


def test_a_file_of_another_layout_is_not_read(cache):
    cache.write_text(json.dumps({"schema": 99, "entries": {"key": {"config": CONFIG.as_dict()}}}))
    assert store.Store(cache).get("key") is None


def test_a_folder_that_cannot_be_written_to_costs_only_the_next_program(tmp_path):
    (tmp_path / "file").write_text("")
    kept = store.Store(tmp_path / "file" / "configurations.json")
    with pytest.warns(UserWarning, match="for this program only"):
        kept.put("key", CONFIG)
    assert kept.get("key") == CONFIG


def _write_many(path, writer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(20):
            store.Store(path).put(f"{writer} {i}", CONFIG.changed(stages=1 + i % 4))


def test_writers_in_many_programs_and_threads_lose_nothing(cache):
    pytest.importorskip("fcntl")
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_write_many, args=(cache, f"process {i}")) for i in range(2)]
    threads = [threading.Thread(target=_write_many, args=(cache, f"thread {i}")) for i in range(2)]
    for one in (*processes, *threads):
        one.start()
    for one in (*processes, *threads):
        one.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert len(json.loads(cache.read_text())["entries"]) == 80


# ----------------------------------------------------------------------------------------------------------- the search
pytest.importorskip("triton")
dispatch = pytest.importorskip("tritongemm.dispatch")
problems = pytest.importorskip("tritongemm.kernels.problems")
Epilogue = pytest.importorskip("tritongemm.kernels.epilogue").Epilogue


@pytest.fixture
def candidates(monkeypatch):
    """A table of planted kernels, which multiply with NumPy and write down what they are launched with."""
    monkeypatch.setattr(dispatch, "CANDIDATES", [])
    launched = []

    def plant(name, *, bits=lambda config: "", error=lambda config: 0.0, priority=0, supports=lambda config: True):
        def run(operands, config):
            launched.append(config)
            result = operands.a @ operands.b + np.float32(error(config))
            if operands.epilogue.reads_c:
                result += np.float32(operands.epilogue.beta) * operands.epilogue.c
            operands.out[...] = result

        dispatch.register(
            dispatch.Candidate(
                name, run, lambda operands, config: config is None or supports(config),
                lambda operands, config: bits(config), lambda operands: Config(kernel=name), priority,
            )
        )  # fmt: skip

    plant.launched = launched
    return plant


def product(beta=0.0, c=None, out=None):
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, shape).astype("f") for shape in ((5, 6), (6, 7)))
    from tritongemm import modes

    return problems.Operands.of(a, b, modes.get("ieee"), out=out, epilogue=Epilogue(beta=beta, c=c))


def timed(candidates, cost):
    """A clock that charges what `cost` says of the configuration that ran."""

    def timer(run):
        run()
        return cost(candidates.launched[-1])

    return timer


def distance(config):
    """Fastest at 128 x 32 and 8 warps."""
    wanted = {"block_m": 128, "block_n": 32, "warps": 8}
    return 1e-6 * (1 + sum(abs(np.log2(getattr(config, name) / size)) for name, size in wanted.items()))


def test_a_search_walks_to_the_fastest_configuration(candidates):
    candidates("planted")
    found = tuning.search(product(), timer=timed(candidates, distance))
    assert (found.config.block_m, found.config.block_n, found.config.warps) == (128, 32, 8)
    assert found.seconds < found.default_seconds
    assert found.default == CONFIG
    assert "times as fast" in str(found)


def test_a_search_stops_when_its_time_is_over(candidates):
    candidates("planted")
    found = tuning.search(product(), timer=timed(candidates, distance), max_seconds=0)
    assert (found.config, len(found.trials)) == (CONFIG, 1)


def test_a_search_goes_over_all_kernels_with_the_promised_bits(candidates):
    candidates("slow", priority=1)
    candidates("fast")
    found = tuning.search(product(), timer=timed(candidates, lambda c: distance(c) / (10 if c.kernel == "fast" else 1)))
    assert found.default.kernel == "slow"
    assert found.config.kernel == "fast"


def test_a_configuration_of_other_bits_is_refused_before_it_runs(candidates):
    """The planted bug: the fastest configurations add up in another order, and say so."""
    candidates(
        "planted", bits=lambda config: "" if config.block_m <= 64 else "another order", error=lambda c: c.block_m > 64
    )
    found = tuning.search(product(), timer=timed(candidates, distance))
    assert found.config.block_m == 64
    assert all(config.block_m <= 64 for config in candidates.launched)
    assert any("another order" in trial.refused for trial in found.trials)


def test_a_kernel_of_another_class_is_refused_as_a_whole(candidates):
    candidates("planted")
    candidates("other", bits=lambda config: "split", error=lambda config: 1)
    found = tuning.search(product(), timer=timed(candidates, lambda c: 1e-9 if c.kernel == "other" else distance(c)))
    assert found.config.kernel == "planted"
    assert "other" not in {config.kernel for config in candidates.launched}


def test_a_configuration_that_declares_the_bits_but_has_others_is_refused_after_it_ran(candidates):
    """The planted bug: a kernel whose declaration is wrong, by less than any tolerance would see."""
    candidates("planted", error=lambda config: 2**-20 if config.warps == 8 else 0)
    with pytest.warns(UserWarning, match="gave other bits than its kernel declares"):
        found = tuning.search(product(), timer=timed(candidates, distance))
    assert found.config.warps != 8
    assert any(trial.refused == "gave other bits than it declares" for trial in found.trials)


def test_a_configuration_that_leaves_outputs_unwritten_is_refused(candidates):
    candidates("planted")
    whole = dispatch.CANDIDATES[0]

    def lazy(operands, config):
        if config.block_m != 128:
            whole.run(operands, config)
        else:
            candidates.launched.append(config)

    dispatch.CANDIDATES[0] = dataclasses.replace(whole, run=lazy)
    with pytest.warns(UserWarning, match="other bits"):
        found = tuning.search(product(), timer=timed(candidates, distance))
    assert found.config.block_m != 128


def test_a_configuration_that_does_not_run_is_passed_over(candidates):
    def refuse(config):
        if config.warps > 4:
            raise RuntimeError("out of resource: shared memory")
        return 0.0

    candidates("planted", error=refuse)
    found = tuning.search(product(), timer=timed(candidates, distance))
    assert (found.config.block_m, found.config.warps) == (128, 4)
    assert any("shared memory" in trial.refused for trial in found.trials)


def test_unsupported_configurations_are_not_launched(candidates):
    candidates("planted", supports=lambda config: config.block_n == 64)
    tuning.search(product(), timer=timed(candidates, distance))
    assert {config.block_n for config in candidates.launched} == {64}


def test_a_search_changes_neither_c_nor_out(candidates):
    """An accumulating product whose result is C itself: a search that wrote to it would add up its own trials."""
    candidates("planted")
    c = np.ones((5, 7), np.float32)
    operands = product(beta=1.0, c=c, out=c)
    found = tuning.search(operands, timer=timed(candidates, distance))
    assert len(found.trials) > 5
    np.testing.assert_array_equal(c, 1)
    dispatch.CANDIDATES[0].run(operands, found.config)
    np.testing.assert_array_equal(c, product().a @ product().b + 1)


def test_what_was_found_is_used_again_and_checked_again(candidates, cache):
    candidates("planted")
    operands = product()
    assert tuning.remembered(operands, True) is None
    found = tuning.tune(operands.a, operands.b, timer=timed(candidates, distance))
    assert tuning.remembered(operands, True) == found.config
    assert tuning.remembered(operands, False) is None
    store._opened.clear()
    assert tuning.remembered(operands, True) == found.config  # from the file
    candidates("planted", bits=lambda config: "another order")  # a kernel that changed meanwhile
    assert tuning.remembered(operands, True) is None
    candidates("planted", supports=lambda config: False)
    assert tuning.remembered(operands, True) is None


def test_versions_are_part_of_the_key():
    import triton

    import tritongemm

    key = tuning.key_of(tuning.problem_of(product(), True))
    assert f"triton {triton.__version__}" in key
    assert f"tritongemm {tritongemm.__version__}" in key
    assert "5 x" not in key
    assert "1 of 6 x 8 x 6" in key


def test_there_is_nothing_to_tune_on_the_cpu(candidates):
    candidates("planted")
    operands = product()
    with pytest.raises(UsageError, match="on the CPU"):
        tuning.search(operands)
    assert tuning.chosen(operands, True, search_if_new=True) is None
    assert candidates.launched == []


def test_nothing_is_tuned_while_a_graph_is_captured(candidates, monkeypatch):
    candidates("planted")
    monkeypatch.setattr(tuning, "capturing", lambda: True)
    monkeypatch.setattr(tuning, "is_cuda", lambda x: True)
    monkeypatch.setattr(tuning, "_device_name", lambda x: "a GPU")
    with pytest.raises(UsageError, match="graph is being captured"):
        tuning.search(product(), timer=timed(candidates, distance))
    assert tuning.chosen(product(), True, search_if_new=True) is None
    assert candidates.launched == []


def test_a_call_that_says_tune_searches_once(candidates, monkeypatch):
    candidates("planted")
    monkeypatch.setattr(tuning, "is_cuda", lambda x: True)
    monkeypatch.setattr(tuning, "_device_name", lambda x: "a GPU")
    monkeypatch.setattr(tuning, "on_the_gpu", timed(candidates, distance))
    first = tuning.chosen(product(), True, search_if_new=True)
    launches = len(candidates.launched)
    assert launches > 1
    assert tuning.chosen(product(), True, search_if_new=True) == first
    assert tuning.chosen(product(), True, search_if_new=False) == first
    assert len(candidates.launched) == launches


def test_the_real_kernels_give_equal_bits_in_every_neighbouring_configuration():
    """The table's own claim, evaluated: what declares to be of one class is."""
    found = tuning.search(
        product(), timer=lambda run: 1.0, steps=1, starts=[Config(kernel="blocked", block_m=16, block_n=16, block_k=16)]
    )
    assert sum(1 for trial in found.trials if trial.seconds is not None) > 5


@pytest.mark.parametrize(
    ("M", "K", "N", "kernel"),
    [(1, 4096, 64, "split_k"), (64, 4096, 512, "split_k"), (1, 64, 64, "blocked"), (2048, 4096, 2048, "blocked")],
)
def test_only_products_that_may_depend_on_m_are_cut_and_only_where_tiles_are_few(M, K, N, kernel):
    from tritongemm import modes

    a, b = (np.broadcast_to(np.float32(1), shape) for shape in ((M, K), (K, N)))
    out = np.empty((M, N), np.float32)
    operands = problems.Operands.of(a, b, modes.get("ieee"), out=out, epilogue=Epilogue())
    assert dispatch.choose(operands, None, invariant=False)[0].kernel == kernel
    candidate, config = dispatch.choose(operands, None, invariant=True)
    assert candidate.kernel == "blocked"
    assert candidate.bits(operands, config) == ""
