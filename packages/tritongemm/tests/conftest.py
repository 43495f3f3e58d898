"""Fixtures of the tests that run on a GPU."""

import pytest


@pytest.fixture(scope="module")
def torch():
    """torch on a machine with a GPU. Without torch a test is skipped; without a GPU it fails, and is never skipped."""
    torch = pytest.importorskip("torch", reason="these tests are for a machine with torch and a GPU")
    assert torch.cuda.is_available(), "no CUDA GPU"
    return torch
