"""Operands for the tests of matrix units: the kinds of data that tell wrong models apart."""

import numpy as np

from numfmt import formats

FORMATS = {
    "fp32": formats.FP32,
    "tf32": formats.FP32,
    "bf16": formats.BF16,
    "fp16": formats.FP16,
    "e4m3": formats.FP8_E4M3,
    "e5m2": formats.FP8_E5M2,
    "e3m2": formats.FP6_E3M2,
    "e2m3": formats.FP6_E2M3,
    "e2m1": formats.FP4_E2M1,
}
KINDS = ("uniform", "wide", "cancelling", "sparse", "subnormal", "tiny", "special")


def any_codes(rng, key, shape):
    """Values of uniformly drawn codes: every exponent equally likely, subnormals, specials and zeros included."""
    fmt = FORMATS[key]
    return fmt.decode(rng.integers(0, 1 << fmt.bits, shape, dtype=np.uint64))


def matrix(rng, key, shape, kind):
    """A float64 matrix of values of a format.

    uniform: U(-1, 1). wide: every exponent. cancelling: pairs along the last axis that nearly cancel in a product.
    sparse: mostly zeros of both signs. subnormal: around the least normal number. tiny: products around the least
    numbers of fp32. special: wide with NaN and infinities.
    """
    fmt = FORMATS[key]
    if kind == "uniform":
        x = rng.uniform(-1, 1, shape)
    elif kind in ("wide", "special"):
        x = any_codes(rng, key, shape)
        if kind == "wide":
            x = np.where(np.isfinite(x), x, 1.0)
    elif kind == "cancelling":
        x = rng.uniform(1, 2, shape)
        x[..., 1::2] = -x[..., ::2][..., : x[..., 1::2].shape[-1]] * (
            1 + rng.integers(-2, 3, x[..., 1::2].shape) * fmt.eps
        )
    elif kind == "sparse":
        x = np.where(rng.random(shape) < 0.1, any_codes(rng, key, shape), np.copysign(0.0, rng.uniform(-1, 1, shape)))
        x = np.where(np.isfinite(x), x, 0.0)
    elif kind == "subnormal":
        x = rng.uniform(-4, 4, shape) * fmt.min_normal
    else:
        x = rng.uniform(-2, 2, shape) * 2.0 ** rng.integers(-76, -66, shape)
    with np.errstate(all="ignore"):
        return fmt.round(np.where(np.isnan(x), 0.0, x)) if kind != "special" else x


def operands(rng, keys, shape, kind):
    """a (M, K), b (K, N) of a kind; "cancelling" pairs neighbours along k."""
    m, n, k = shape
    a = matrix(rng, keys[0], (m, k), kind)
    if kind == "cancelling":
        b = np.repeat(matrix(rng, keys[1], (-(-k // 2), n), "uniform"), 2, axis=0)[:k]
    else:
        b = matrix(rng, keys[1], (k, n), kind).reshape(k, n)
    return a, b


def accumulators(rng, key, shape, kind):
    """c of a kind, with zeros of both signs among the values."""
    if kind == "uniform":
        c = FORMATS[key].round(rng.uniform(-8, 8, shape))
    elif kind == "tiny":
        c = FORMATS[key].round(rng.uniform(-1, 1, shape) * 2.0 ** rng.integers(-149, -130, shape))
    elif kind == "special":
        c = any_codes(rng, key, shape)
    else:
        c = any_codes(rng, key, shape)
        c = np.where(np.isfinite(c), c, 0.0)
    return np.where(rng.random(shape) < 0.3, np.copysign(0.0, c), c)


def bits(x):
    """The bit patterns of a float32 or float16 array."""
    return x.view(np.uint32 if x.dtype == np.float32 else np.uint16)


def expected_bits(values, dtype):
    """The bit patterns an oracle's Python floats stand for, NaN canonical."""
    with np.errstate(over="ignore"):
        x = np.array(values, np.float64).astype(dtype)
    pattern = bits(x).copy()
    pattern[np.isnan(x)] = 0x7FFFFFFF if dtype == np.float32 else 0x7FFF
    return pattern
