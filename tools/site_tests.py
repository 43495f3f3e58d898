"""What a test file tests, in the words of its tests' names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGES = Path(__file__).resolve().parents[1] / "packages"
TESTS = PACKAGES / "tritongemm" / "tests"

# How names of tests, which are all lower case, are written in a sentence.
_WRITTEN = {
    "cublas": "cuBLAS", "cpu": "CPU", "cuda": "CUDA", "fp32": "FP32", "fp64": "FP64", "fp8": "FP8", "gpu": "GPU",
    "h200": "H200", "hopper": "Hopper", "k": "K", "m": "M", "n": "N", "nan": "NaN", "numpy": "NumPy",
    "tma": "TMA", "torchs": "torch's", "numpys": "NumPy's", "inf": "Inf", "environments": "environment's",
    "python": "Python", "bf16": "BF16",
}  # fmt: skip


@dataclass(frozen=True)
class Test:
    """A test.

    Attributes:
        file: Name of its file, without .py.
        name: Its name.
        gpu: Whether it needs a GPU.
    """

    file: str
    name: str
    gpu: bool

    @property
    def sentence(self) -> str:
        """What it tests."""
        words = self.name.removeprefix("test_").removeprefix("gpu_").split("_")
        text = " ".join(_WRITTEN.get(word, word) for word in words)
        return text[:1].upper() + text[1:]


def file_named(name: str) -> Path:
    """The test file of a name, which is unique in the repository."""
    return next(PACKAGES.glob(f"*/tests/{name}.py"))


def subject(path: Path) -> str:
    """The first sentence of a test file's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or path.stem
    first = re.split(r"(?<=[.:])\s", " ".join(text.split("\n\n")[0].split()))[0]
    return first.rstrip(".:")


def tests_of(path: Path) -> Iterator[Test]:
    """The tests of a file, in order; the full oracles, which are asked for by name, are left out."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    every = "gpu" in _marks(node.value for node in module.body if _is_pytestmark(node))
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            marks = _marks(node.decorator_list)
            if "exhaustive" not in marks:
                yield Test(path.stem, node.name, every or "gpu" in marks)


def _is_pytestmark(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(getattr(x, "id", "") == "pytestmark" for x in node.targets)


def _marks(nodes: object) -> set[str]:
    """Names of the pytest marks in some expressions."""
    text = " ".join(ast.unparse(node) for node in nodes)  # type: ignore[attr-defined]
    return set(re.findall(r"pytest\.mark\.(\w+)", text))
