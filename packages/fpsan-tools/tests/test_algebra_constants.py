"""The constants and vectors that define the embedding, per version."""

import numpy as np
import pytest

from fpsan_tools import algebra
from fpsan_tools.algebra.embedding import embedding_constants

CONSTANTS_39 = [
    # float type, w, one, s, A mod 2^n, B+
    ("fp8e4m3fn", 8, 0x38, 3, 0x09, 0x47),
    ("fp8e5m2", 8, 0x3C, 2, 0x09, 0x13),
    ("fp16", 16, 0x3C00, 10, 0x7789, 0x11B7),
    ("bf16", 16, 0x3F80, 7, 0x7789, 0x4E47),
    ("fp32", 32, 0x3F800000, 23, 0xE3F789, 0x0BEAC0C7),
    ("fp64", 64, 0x3FF0000000000000, 52, 0xE3F789, 0x47E51BFF1AA71547),
]


@pytest.mark.parametrize(("name", "bits", "one", "shift", "multiplier", "positive"), CONSTANTS_39)
def test_embedding_constants_of_3_9(name, bits, one, shift, multiplier, positive):
    kind = algebra.float_type(name)
    constants = embedding_constants(kind, algebra.get("3.9").embed_multiplier)
    assert (kind.bits, kind.one, kind.shift) == (bits, one, shift)
    assert (constants.multiplier, constants.positive) == (multiplier, positive)


@pytest.mark.parametrize(
    ("value", "payload"), [(2.0, 0x35606380), (0.5, 0x5FDED582), (3.0, 0x4A1B34DC), (np.inf, 0x4A9F9C81)]
)
def test_fp32_vectors_of_3_9(value, payload):
    assert algebra.get("3.9").embed(np.float32(value), "fp32") == payload
