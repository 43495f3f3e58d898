"""Bit-accurate models of GPU matrix units: what a tensor core returns, on a CPU."""

from numfmt.matrix_units.product import matmul
from numfmt.matrix_units.schedules import (
    Schedule,
    chain,
    cublas_like,
    promote,
    split_k,
    stream_k,
    tl_dot,
)
from numfmt.matrix_units.units import UNITS, MatrixUnit, find_unit, unit_names

__all__ = [
    "UNITS",
    "MatrixUnit",
    "Schedule",
    "chain",
    "cublas_like",
    "find_unit",
    "matmul",
    "promote",
    "split_k",
    "stream_k",
    "tl_dot",
    "unit_names",
]
