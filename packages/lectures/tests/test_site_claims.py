"""What the site says about other tools, where it can be run: the rows of the pages "why not ...?"."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "explanation" / "why-not-fpsan-tools.md"
if not PAGE.exists():
    pytest.skip("the pages belong to the repository, not to the package", allow_module_level=True)

INTERPRETED = """
import torch
import triton
import triton.language as tl


@triton.jit
def product(a, b, c, PRECISION: tl.constexpr):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at), input_precision=PRECISION))


torch.manual_seed(0)
a, b = torch.randn(16, 16), torch.randn(16, 16)


def run(a, b, precision):
    c = torch.empty(16, 16)
    product[(1,)](a, b, c, PRECISION=precision)
    return c


x, y = a.bfloat16(), b.bfloat16()
wrong = (run(x, y, "ieee").double() - x.double() @ y.double()).abs().max().item()
same = torch.equal(run(a, b, "ieee"), run(a, b, "tf32"))
print(wrong, same)
"""


def rows() -> list[list[str]]:
    text = re.search(r"<!-- differences -->\n(.*?)<!-- /differences -->", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert text is not None
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text[1].strip().splitlines()[2:]]


@pytest.mark.torch
@pytest.mark.triton
def test_tritons_interpreter_does_what_the_page_says(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    (tmp_path / "interpreted.py").write_text(INTERPRETED)
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "interpreted.py")], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    wrong, same = done.stdout.split()
    assert "off by more than 1000" in rows()[0][1]
    assert float(wrong) > 1000
    assert 'the bits of `"ieee"`' in rows()[1][1]
    assert same == "True"


@pytest.mark.triton
def test_the_evaluator_rounds_such_products_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of BF16 tiles in IEEE arithmetic: each output is the fused chain, correctly rounded at each step."""
    pytest.importorskip("triton")
    fpsan_tools = pytest.importorskip("fpsan_tools")
    source = INTERPRETED.partition("torch.manual_seed")[0].replace("import torch\n", "")
    (tmp_path / "evaluated.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    import evaluated

    import numfmt

    rng = np.random.default_rng(0)
    x, y = (numfmt.BF16.round(rng.standard_normal((16, 16))).astype(np.float32) for _ in range(2))
    bits = [(m.view(np.uint32) >> 16).astype(np.uint16) for m in (x, y)]
    c = np.zeros((16, 16), np.float32)
    fpsan_tools.run(
        evaluated.product, (1,), *(fpsan_tools.typed(m, "bf16") for m in bits), c, domain="ieee", PRECISION="ieee"
    )
    exact = x.astype(np.float64) @ y.astype(np.float64)
    bound = numfmt.gamma(16, numfmt.FP32.unit_roundoff) * (np.abs(x).astype(float) @ np.abs(y).astype(float))
    assert (np.abs(c - exact) <= bound).all()


def test_a_lost_term_passes_allclose_and_changes_payloads() -> None:
    algebra = pytest.importorskip("fpsan_tools.algebra")
    assert "`rtol=1e-3`" in rows()[2][0]
    rng = np.random.default_rng(1)
    a, b = rng.uniform(0, 1, (2, 4096)).astype(np.float32)
    kept = np.arange(4096) != np.argmin(a * b)
    assert np.allclose(a @ b, a[kept] @ b[kept], rtol=1e-3)
    rules = algebra.get("3.9")
    products = rules.mul(rules.embed(a, "fp32"), rules.embed(b, "fp32"))
    assert rules.sum(products) != rules.sum(products[kept])
