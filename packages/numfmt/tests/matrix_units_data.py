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
KINDS = ("uniform", "wide", "cancelling", "sparse", "subnormal", "tiny", "rare_special", "special")


def any_codes(rng, key, shape):
    """Values of uniformly drawn codes: every exponent equally likely, subnormals, specials and zeros included."""
    fmt = FORMATS[key]
    return fmt.decode(rng.integers(0, 1 << fmt.bits, shape, dtype=np.uint64))


def wide(rng, key, shape):
    """Finite values of many magnitudes: every code of a narrow format, 80 binades of the others (sums must not
    overflow).
    """
    fmt = FORMATS[key]
    if fmt.exponent_bits < 8:
        x = any_codes(rng, key, shape)
        return np.where(np.isfinite(x), x, 1.0)
    x = fmt.round(rng.uniform(1, 2, shape)) * 2.0 ** rng.integers(-40, 40, shape)
    return np.where(rng.random(shape) < 0.5, x, -x)


def matrix(rng, key, shape, kind):
    """A float64 matrix of values of a format.

    Args:
        rng: A generator with `random`, `uniform` and `integers`.
        key: Name of the format.
        shape: The shape.
        kind: uniform: U(-1, 1). wide: see `wide`. cancelling: pairs along the last axis that nearly cancel in a
            product.
            ties: uniform, cut to 12 significant bits, so that half of all fp32 numbers lie midway between tf32 numbers.
            sparse: mostly zeros of both signs. subnormal: around the least normal number. tiny: products around the
            least numbers of fp32. rare_special: wide with a NaN or infinity here and there. special: every code equally
            likely.
    """
    fmt = FORMATS[key]
    if kind == "uniform":
        x = rng.uniform(-1, 1, shape)
    elif kind == "ties":
        x = rng.uniform(-1, 1, shape)
        scale = 2.0 ** (np.frexp(x)[1] - 12)
        x = np.trunc(x / scale) * scale
    elif kind == "wide":
        x = wide(rng, key, shape)
    elif kind == "special":
        return any_codes(rng, key, shape)
    elif kind == "rare_special":
        x = wide(rng, key, shape)
        chosen = rng.random(shape) * 200
        if fmt.infinities:
            x = np.where(chosen < 0.8, np.copysign(np.inf, x), x)
        if fmt.has_nan:
            x = np.where((chosen >= 0.8) & (chosen < 1), np.nan, x)
        return x
    elif kind == "cancelling":
        x = rng.uniform(1, 2, shape)
        odd = x[..., 1::2]
        x[..., 1::2] = -x[..., ::2][..., : odd.shape[-1]] * (1 + rng.integers(-2, 3, odd.shape) * fmt.eps)
    elif kind == "sparse":
        x = np.where(rng.random(shape) < 0.1, wide(rng, key, shape), np.copysign(0.0, rng.uniform(-1, 1, shape)))
    elif kind == "subnormal":
        # Some rows hold subnormal numbers only.
        x = rng.uniform(-4, 4, shape) * fmt.min_normal * 2.0 ** -rng.integers(0, 4, (shape[0], 1))
    else:
        x = rng.uniform(-2, 2, shape) * 2.0 ** rng.integers(-76, -66, shape)
    return fmt.round(x)


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
        c = wide(rng, key, shape)
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
