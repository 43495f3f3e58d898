"""Triton GEMM kernels whose error is measured, bounded and explained."""

__version__ = "0.1.0"
