"""Bit-accurate models of GPU matrix units: what a tensor core returns, on a CPU.

`matmul` computes a product as a unit (`UNITS`) and a schedule do, `explain` says in words what a schedule costs,
`identify` finds out what a black box does, and `choose_promotion` picks the longest promotion interval that an error
target allows.
"""

from numfmt.matrix_units.explain import explain, same_bits
from numfmt.matrix_units.identify import Identification, identify
from numfmt.matrix_units.product import matmul
from numfmt.matrix_units.promotion import PromotionChoice, choose_promotion
from numfmt.matrix_units.schedules import (
    Schedule,
    chain,
    cublas_like,
    promote,
    split_k,
    stream_k,
    tl_dot,
)
from numfmt.matrix_units.search import Match, find_schedule
from numfmt.matrix_units.trees import Tree, Unrevealed
from numfmt.matrix_units.units import UNITS, MatrixUnit, Scales, find_unit, unit_names

__all__ = [
    "UNITS",
    "Identification",
    "Match",
    "MatrixUnit",
    "PromotionChoice",
    "Scales",
    "Schedule",
    "Tree",
    "Unrevealed",
    "chain",
    "choose_promotion",
    "cublas_like",
    "explain",
    "find_schedule",
    "find_unit",
    "identify",
    "matmul",
    "promote",
    "same_bits",
    "split_k",
    "stream_k",
    "tl_dot",
    "unit_names",
]
