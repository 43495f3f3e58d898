"""Structural equivalence of Triton kernels by FpSan payload algebra, on a GPU and on a CPU."""

__version__ = "0.1.0"
