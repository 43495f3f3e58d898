import numpy as np
from fpsan_tools import launch
from mykernels import reference_kernel, tiled_kernel
from triton import cdiv

reference = launch(reference_kernel, lambda p: (p["M"], p["N"]), BLOCK=64)
tiled = launch(
    tiled_kernel,
    lambda p: (cdiv(p["M"], 32), cdiv(p["N"], 32)),
    BLOCK_M=32, BLOCK_N=32, BLOCK_K=64,
)


def make_inputs(rng, M=67, N=35, K=129):  # tails in every direction
    a = rng.standard_normal((M, K), np.float32)
    b = rng.standard_normal((K, N), np.float32)
    c = np.zeros((M, N), np.float32)
    return {"a": a, "b": b, "c": c, "M": M, "N": N, "K": K}


def test_same_algebra(fpsan):
    fpsan.assert_same_algebra(reference, tiled, make_inputs)
