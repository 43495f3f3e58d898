import numpy as np


def make_inputs(rng, M=67, N=35, K=129):
    a = rng.standard_normal((M, K), np.float32)
    b = rng.standard_normal((K, N), np.float32)
    c = np.zeros((M, N), np.float32)
    return {"a": a, "b": b, "c": c, "M": M, "N": N, "K": K}


grid = {
    "reference_kernel": lambda p: (p["M"], p["N"]),
    "tiled_kernel": lambda p: (-(-p["M"] // 32), -(-p["N"] // 32)),
}
constants = {
    "reference_kernel": {"BLOCK": 64},
    "tiled_kernel": {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 64},
}
