"""Compare the tensor path with the exact engine over many formats and modes; run by the tests in several settings."""

from __future__ import annotations

import numpy as np
import torch

import numfmt
from numfmt import FloatFormat
from numfmt._fast import kernels
from numfmt._fast.plan import FLOAT32, FLOAT64, plan
from numfmt._random import draw_key, philox_words
from numfmt.rounding import OVERFLOWS, ROUNDINGS

CHOSEN = {
    **{
        n: numfmt.FORMATS[n]
        for n in ("FP8_E4M3", "FP8_E5M2", "FP8_E4M3FNUZ", "FP4_E2M1", "E8M0", "FP16", "BF16", "TF32", "FP32", "FP64")
    },
    "no_subnormals": FloatFormat("no_subnormals", 4, 3, 7, "ieee", subnormals=False),
    "unsigned": FloatFormat("unsigned", 5, 3, 15, "fn", signed=False),
    "one_bit_odd_bias": FloatFormat("one_bit_odd_bias", 5, 0, 14, "fnuz"),
    "no_zero": FloatFormat("no_zero", 4, 2, 7, "fn", zero=False),
    "acc14": FloatFormat("acc14", 8, 13, 127),
    "acc22": FloatFormat("acc22", 8, 22, 120),
}


def numbers(carrier, fmt: FloatFormat, count: int) -> np.ndarray:
    """Random bits, numbers in and around the range, values, midpoints, specials."""
    rng = np.random.default_rng(2)
    with np.errstate(all="ignore"):
        bits = rng.integers(0, 2**carrier.width, count, dtype=np.uint64).astype(carrier.integer).view(carrier.dtype)
        exponents = rng.uniform(fmt.emin - fmt.mantissa_bits - 4, fmt.emax + 4, count)
        spread = (rng.choice([-1.0, 1.0], count) * 2.0**exponents).astype(carrier.dtype)
        values = fmt.decode(rng.integers(0, fmt.max_code + 1, count, dtype=np.uint64))
        middles = (values / 2 + fmt.next_up(values) / 2) * rng.choice([-1.0, 1.0], count)
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, fmt.max, -fmt.max, 1.5, -1.5])
        return np.concatenate([bits, spread, *(v.astype(carrier.dtype) for v in (values, middles, special))])


def compare(device: str, names: list[str], count: int, modes: list[str] | None = None) -> int:
    """Every chosen format, mode and carrier through the Triton kernel; returns how many numbers were compared.

    Raises:
        AssertionError: At the first difference.
    """
    compared = 0
    for name in names:
        fmt = CHOSEN[name]
        for carrier in (FLOAT32, FLOAT64):
            x = numbers(carrier, fmt, count)
            for mode in modes or list(ROUNDINGS):
                made = plan(fmt, ROUNDINGS[mode], OVERFLOWS[fmt.overflow], "largest", carrier)
                if made is None:
                    continue
                for given in (False, True) if ROUNDINGS[mode].stochastic else (False,):
                    n = 13 if given else 32
                    words = philox_words(draw_key(5), 0, x.size) >> np.uint32(32 - n)
                    tensor, out = (
                        torch.from_numpy(x).to(device),
                        torch.empty(x.size, dtype=getattr(torch, carrier.name)),
                    )
                    out = out.to(device)
                    random = torch.from_numpy(words.view(np.int32)).to(device) if given else None
                    kernels.round_triton(tensor, out, made, draw_key(5), random, n)
                    got = out.cpu().numpy()
                    with numfmt.backend("numpy"):
                        expected = np.asarray(
                            fmt.round(x.astype(np.float64), mode, nan="largest", random=words, random_bits=n)
                        ).astype(carrier.dtype)
                    bad = got.view(carrier.integer) != expected.view(carrier.integer)
                    assert not bad.any(), (name, mode, carrier.name, given, x[bad][:3], got[bad][:3], expected[bad][:3])
                    compared += x.size
    return compared
