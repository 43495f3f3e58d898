"""Products whose bits were recorded on an H200: how their operands are made, and what computes them."""

import numpy as np

M, K, N = 24, 700, 28

# name -> mode, operand type, how hard the data are
CASES = {
    "bf16": ("ieee", "bfloat16", "spread"),
    "fp16": ("ieee", "float16", "spread"),
    "tf32": ("tf32", "float32", "spread"),
    "fp32": ("ieee", "float32", "spread"),
    "fp8 fast": ("fast", "float8_e4m3fn", "spread"),
    "fp8 promoted": ("ieee", "float8_e4m3fn", "spread"),
    "bf16x6": ("bf16x6", "float32", "spread"),
    "fp16x3": ("fp16x3", "float32", "scales"),
    "fp16x3, wide": ("fp16x3", "float32", "outlier"),
    "int8x6": ("int8x6", "float32", "scales"),
    "int8x6, wide": ("int8x6", "float32", "outlier"),
    "auto": ("auto", "float32", "scales"),
    "auto, wide": ("auto", "float32", "wide"),
}


def values(name):
    """(M, K) and (K, N) float32 operands of a case, before their conversion to the operand type."""
    _, _, kind = CASES[name]
    rng = np.random.default_rng([len(kind), sorted(CASES).index(name)])
    a, b = rng.uniform(-1, 1, (M, K)), rng.uniform(-1, 1, (K, N))
    if kind in ("spread", "wide"):
        a, b = (np.ldexp(x, rng.integers(-4, 5, x.shape)) for x in (a, b))
    if kind == "scales":
        a = np.ldexp(a, rng.choice([0, 0, 0, 1, -20, 60, -60, 126, -126, -140], M)[:, None])
        b = np.ldexp(b, rng.choice([0, 0, 0, 1, -20, 60, -60, 120, -126, -140], N)[None, :])
        a[5], b[:, 7] = 0, 0
        a[6, 3], a[7, 4], b[9, 11] = np.inf, np.nan, -np.inf
    if kind == "outlier":
        a[:, 0] = np.ldexp(a[:, 0], 40)
    with np.errstate(over="ignore", under="ignore"):
        return a.astype(np.float32), b.astype(np.float32)
