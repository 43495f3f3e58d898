"""Figures that texts state beside the tables drawn from bench/results: each is that of the file it was taken from."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "bench" / "results"
if not RESULTS.exists():
    pytest.skip("the figures belong to the repository, not to the package", allow_module_level=True)

ALIGNED = ([8192, 6144, 4096], [4096, 4096, 4096], [8192, 8192, 8192])


def text(place: str) -> str:
    return (ROOT / place).read_text(encoding="utf-8")


def read(name: str) -> Any:
    return json.loads(text(f"bench/results/{name}.json"))


def figures(name: str, **chosen: Any) -> list[dict[str, Any]]:
    """The figures of a run of bench/gemm.py at large aligned products that are as chosen."""
    return [
        figure
        for figure in read(name)["figures"]
        if figure["shape"] in ALIGNED and all(figure[key] == value for key, value in chosen.items())
    ]


@pytest.mark.parametrize(
    ("words", "families"),
    [
        (r"bf16, fp16, fp8 and `tf32_even` ([\d.]+) to ([\d.]+) times",
         ("bf16 NT", "bf16 NN", "fp16 NN", "fp8 fast", "fp8 promoted", "fp8 block scales", "tf32_even NT",
          "tf32_even NN")),
        (r"`ieee` in fp32 ([\d.]+) to ([\d.]+) with its bits", ("ieee fp32",)),
        (r"by `fp16x3` ([\d.]+) to ([\d.]+) times", ("fp16x3",)),
        (r"by `int8x6` ([\d.]+) to ([\d.]+) times", ("int8x6",)),
    ],
)  # fmt: skip
def test_the_speeds_of_tritongemms_readme_are_those_of_the_run_it_names(words: str, families: tuple[str, ...]) -> None:
    page = " ".join(text("packages/tritongemm/README.md").split())
    assert "`bench/results/nvidia-h200-gemm.json`" in page
    (stated,) = re.findall(words, page)
    measured = [
        figure for family in families
        for figure in figures("nvidia-h200-gemm", family=family, contestant="ours", regime="cool")
    ]  # fmt: skip
    ratios = [figure["ratio"] for figure in measured]
    assert len(ratios) == 3 * len(families)
    digits = len(stated[0].partition(".")[2])
    assert stated == tuple(f"{ratio:.{digits}f}" for ratio in (min(ratios), max(ratios)))
    assert {figure["error_class"] for figure in measured} <= (
        {"less error"} if families[0] in ("fp16x3", "int8x6") else {"equal bits"}
    )


def test_what_promotion_costs_the_library_is_what_two_runs_measured() -> None:
    page = " ".join(text("docs/explanation/tensor-cores.md").split())
    (stated,) = re.findall(r"that cost (\d+) to (\d+) % of the speed", page)
    costs = []
    for run in ("nvidia-h200-gemm", "nvidia-h200-gemm-second"):
        fast, promoted = (figures(run, family=family, contestant="vendor") for family in ("fp8 fast", "fp8 promoted"))
        assert [(x["shape"], x["regime"]) for x in fast] == [(x["shape"], x["regime"]) for x in promoted]
        costs += [100 * (1 - y["tflops"] / x["tflops"]) for x, y in zip(fast, promoted, strict=True)]
    assert stated == (f"{min(costs):.0f}", f"{max(costs):.0f}")


def test_condition_numbers_are_those_of_the_recorded_audit() -> None:
    page = " ".join(text("docs/explanation/condition-and-bounds.md").split())
    (median, *powers) = re.search(
        r"\\kappa\\\) above about (\d+), one in a thousand above \\\(([\d.]+)\\cdot 10\^(\d+)\\\), and among 33 "
        r"million outputs the largest was \\\(([\d.]+)\\cdot 10\^(\d+)\\\)", page,
    ).groups()  # fmt: skip
    recorded = read("nvidia-h200-audit")["rounding"]["strata"]["all"]["A"]
    assert recorded["outputs"] // 10**6 == 33
    kappa = recorded["kappa"]
    assert median == f"{kappa['0.5']:.0f}"
    for digits, power, quantile in ((*powers[:2], "0.999"), (*powers[2:], "1.0")):
        assert f"{digits}e+{int(power):02}" == f"{kappa[quantile]:.1e}", quantile
