"""Operands on a GPU whose sums show their order, and what bits a mode predicts for them."""

import numpy as np


def numbers(torch, rows, columns, dtype, seed=0):
    """Numbers with spread exponents, so that the order of summation shows in the bits; dtype is torch's or its name."""
    rng = np.random.default_rng([seed, rows, columns])
    x = np.ldexp(rng.uniform(-1, 1, (rows, columns)), rng.integers(-4, 5, (rows, columns))).astype(np.float32)
    return torch.from_numpy(x).cuda().to(getattr(torch, dtype) if isinstance(dtype, str) else dtype)


def bits(x):
    """Bits of a tensor, widened to FP32."""
    return x.float().cpu().numpy().view(np.uint32)


def predicted(torch, mode, a, b):
    """What a mode predicts for operands on a GPU, as FP32 or FP64."""
    from tritongemm import modes

    names = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.float8_e4m3fn: "fp8e4m3fn"}
    wide = [x.float().cpu().numpy() for x in (a, b)]
    return modes.get(mode).predict(*wide, types=(names[a.dtype], names[b.dtype]))
