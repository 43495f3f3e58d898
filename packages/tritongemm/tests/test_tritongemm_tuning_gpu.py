"""On a GPU: a search for a faster configuration runs to its end, changes no bit, and its result is used by later calls.

python3 -m pytest packages/tritongemm/tests/test_tritongemm_tuning_gpu.py -m gpu
"""

import json

import pytest

pytest.importorskip("triton")
torch = pytest.importorskip("torch")

import tritongemm  # noqa: E402
from tritongemm import eager, store, tuning  # noqa: E402

pytestmark = pytest.mark.gpu

# (M, K, N), type, precision: few tiles, where a search finds something, and odd sizes in fp32.
PRODUCTS = [((16, 2048, 1024), "bfloat16", "ieee"), ((500, 1000, 700), "float32", "ieee")]


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """Every test keeps its configurations in a folder of its own."""
    assert torch.cuda.is_available(), "no CUDA GPU"
    monkeypatch.setenv(store.VARIABLE, str(tmp_path))
    eager.clear()
    yield tmp_path
    eager.clear()


def operands(shape, dtype):
    M, K, N = shape
    generator = torch.Generator("cuda").manual_seed(M)
    made = (torch.rand(s, generator=generator, device="cuda") * 2 - 1 for s in ((M, K), (K, N)))
    return [x.to(getattr(torch, dtype)) for x in made]


def same_bits(x, y):
    return torch.equal(x.view(torch.int8), y.view(torch.int8))


@pytest.mark.parametrize(("shape", "dtype", "precision"), PRODUCTS, ids=str)
def test_a_search_runs_to_its_end_and_what_it_found_is_used(folder, shape, dtype, precision):
    a, b = operands(shape, dtype)
    want = tritongemm.mm(a, b, precision=precision)
    found = tritongemm.tune(a, b, precision=precision, steps=2, max_seconds=30)
    print(found)
    for trial in found.trials:
        print(f"  {trial.config}: {trial.refused or f'{trial.seconds * 1e6:.1f} us'}")
    timed = [trial for trial in found.trials if trial.seconds is not None]
    assert len(timed) > 5
    assert found.seconds == min(trial.seconds for trial in timed) <= found.default_seconds
    assert not any("gave other bits" in trial.refused for trial in found.trials)
    # The next program finds it: another store of the same file.
    entries = json.loads((folder / "configurations.json").read_text())["entries"]
    assert [entry["config"] for entry in entries.values()] == [found.config.as_dict()]
    (key,) = entries
    assert torch.cuda.get_device_name() in key
    assert store.Store(folder / "configurations.json").get(key) == found.config
    assert tuning.remembered(_operands(a, b, precision), True) == found.config
    for _ in range(2):
        assert same_bits(tritongemm.mm(a, b, precision=precision), want)


def _operands(a, b, precision):
    from tritongemm import modes
    from tritongemm.kernels.epilogue import Epilogue
    from tritongemm.kernels.problems import Operands

    return Operands.of(a, b, modes.get(precision), epilogue=Epilogue())


def test_a_call_that_says_tune_searches_once_and_never_while_a_graph_is_captured(folder, monkeypatch):
    a, b = operands((32, 256, 64), "float32")
    want = tritongemm.mm(a, b)
    searches = []

    def search(*arguments, **options):
        searches.append(arguments)
        return real(*arguments, **{**options, "steps": 1, "max_seconds": 8.0})

    real = tuning.search
    monkeypatch.setattr(tuning, "search", search)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = tritongemm.mm(a, b, config="tune")
        with pytest.raises(tritongemm.errors.UsageError, match="graph is being captured"):
            tritongemm.tune(a, b)
    assert not (folder / "configurations.json").exists()
    searches.clear()
    graph.replay()
    assert same_bits(captured, want)
    for _ in range(3):
        assert same_bits(tritongemm.mm(a, b, config="tune"), want)
    assert len(searches) == 1
