"""Operands of products for the tests of bits: reproducible bit patterns of every type, of several kinds."""

from __future__ import annotations

import hashlib

import numpy as np

import fpsan_tools
from tritongemm.elements import ELEMENTS, codes_of

KINDS = ("normal", "wide", "cancelling", "special")
SHAPES = ((9, 100, 17), (34, 520, 20))
"""(M, K, N): tails everywhere, and sums of several promotion intervals."""


def codes(kind: str, shape: tuple[int, int], dtype: str, seed: int) -> np.ndarray:
    """A matrix of bit patterns; the first axis of an operand A is not K, that of B is."""
    rng = np.random.default_rng([seed, *shape, KINDS.index(kind)])
    element = ELEMENTS[dtype]
    x = rng.standard_normal(shape)
    if kind == "wide":
        reach = {"fp16": 6, "fp8e4m3fn": 3, "fp8e5m2": 6}.get(dtype, 20)
        x = np.ldexp(x, rng.integers(-reach, reach + 1, shape))
    if kind == "cancelling":
        half = shape[-1] // 2
        x[..., half : 2 * half] = -x[..., :half] * (1 + 2.0**-9 * rng.integers(-1, 2, x[..., :half].shape))
    largest = element.format.max
    made = codes_of(np.clip(x, -largest, largest), element)
    if kind == "special":
        made = _sprinkled(made, element, rng)
    return np.ascontiguousarray(made)


def _sprinkled(made: np.ndarray, element, rng) -> np.ndarray:
    """Some rows and columns with zeros, subnormals, the largest numbers, infinities and NaN."""
    fmt = element.format
    numbers = [0.0, -0.0, fmt.min_subnormal, -3 * fmt.min_subnormal, fmt.min_normal, fmt.max / 4]
    rare = [fmt.max, -fmt.max, np.nan, *([np.inf, -np.inf] if element.name != "fp8e4m3fn" else [])]
    pool = codes_of(np.array(numbers, np.float64), element)
    rare_pool = codes_of(np.array(rare, np.float64), element)
    made = np.where(rng.random(made.shape) < 0.25, rng.choice(pool, made.shape), made)
    # A few only: most outputs stay finite.
    return np.where(rng.random(made.shape) < 0.6 / made.shape[-1], rng.choice(rare_pool, made.shape), made)


def operands(kind: str, shape: tuple[int, int, int], dtype: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Bit patterns of A (M, K) and B (K, N)."""
    M, K, N = shape
    return codes(kind, (M, K), dtype, seed), np.ascontiguousarray(codes(kind, (N, K), dtype, seed + 1).T)


def typed(array: np.ndarray, dtype: str):
    """Bit patterns as a matrix on the CPU."""
    return fpsan_tools.typed(array, dtype)


def tensor(array: np.ndarray, dtype: str, device: str = "cuda"):
    """Bit patterns as a torch tensor with the array's strides."""
    import torch

    signed = np.ascontiguousarray(array).view(f"i{array.itemsize}")
    return torch.from_numpy(signed.copy()).to(device).view(getattr(torch, ELEMENTS[dtype].library))


def bits(x) -> np.ndarray:
    """The bit patterns of a matrix, wherever it is; of fp64 without the payloads of NaN, which nobody promises."""
    made = _patterns(x)
    if made.dtype == np.uint64:
        made = np.where(np.isnan(made.view(np.float64)), np.uint64(0x7FF8 << 48), made)
    return made


def _patterns(x) -> np.ndarray:
    if hasattr(x, "detach"):
        import torch

        x = x.detach().contiguous()
        return x.view(getattr(torch, f"int{8 * x.element_size()}")).cpu().numpy().view(f"u{x.element_size()}")
    if hasattr(x, "array"):
        return np.ascontiguousarray(x.array)
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def digest(*arrays: np.ndarray) -> str:
    """A short fingerprint of bit patterns."""
    whole = hashlib.sha256()
    for array in arrays:
        whole.update(np.ascontiguousarray(array).tobytes())
    return whole.hexdigest()[:16]
