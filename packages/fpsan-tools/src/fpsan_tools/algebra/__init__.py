"""FpSan's payload algebra, bit for bit as Triton's compiler computes it, in pure NumPy.

Under FpSan every float is replaced by an integer of its width, the *payload*, and float arithmetic by arithmetic mod
2^w that keeps the algebra's identities and loses rounding: two kernels that compute the same formula in different
orders give identical payloads.
"""

from fpsan_tools.algebra.floats import FLOAT_TYPES, FloatType, Payload, float_type
from fpsan_tools.algebra.functions import TAG_IDS
from fpsan_tools.algebra.versions import VERSIONS, Algebra, get, installed_triton, installed_version

__all__ = [
    "FLOAT_TYPES",
    "TAG_IDS",
    "VERSIONS",
    "Algebra",
    "FloatType",
    "Payload",
    "float_type",
    "get",
    "installed_triton",
    "installed_version",
]
