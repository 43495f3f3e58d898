"""The matrix-product kernels, one module each: kernel, launcher, summation order, bound, and what its numbers mean.

The modules import Triton; `tritongemm` itself does not.
"""
