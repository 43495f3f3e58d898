"""Number formats, rounding, summation orders and GPU matrix units, simulated exactly and fast on a CPU.

``import numfmt`` loads the formats and the rounding only; everything else is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from numfmt.formats import (
    BF16,
    E8M0,
    FORMATS,
    FP4_E2M1,
    FP6_E2M3,
    FP6_E3M2,
    FP8_E3M4,
    FP8_E4M3,
    FP8_E4M3_IEEE,
    FP8_E4M3B11FNUZ,
    FP8_E4M3FNUZ,
    FP8_E5M2,
    FP8_E5M2FNUZ,
    FP16,
    FP32,
    FP64,
    TF32,
    FloatFormat,
)
from numfmt.rounding import OVERFLOWS, ROUNDINGS

if TYPE_CHECKING:  # what `_LAZY` names, for type checkers
    from numfmt._fast.backend import backend as backend
    from numfmt._fast.backend import get_backend as get_backend
    from numfmt._fast.backend import set_backend as set_backend
    from numfmt.arithmetic import add as add
    from numfmt.arithmetic import div as div
    from numfmt.arithmetic import fma as fma
    from numfmt.arithmetic import mul as mul
    from numfmt.arithmetic import sqrt as sqrt
    from numfmt.arithmetic import sub as sub
    from numfmt.blocks import BLOCK_FORMATS as BLOCK_FORMATS
    from numfmt.blocks import MXFP4 as MXFP4
    from numfmt.blocks import MXFP6_E2M3 as MXFP6_E2M3
    from numfmt.blocks import MXFP6_E3M2 as MXFP6_E3M2
    from numfmt.blocks import MXFP8_E4M3 as MXFP8_E4M3
    from numfmt.blocks import MXFP8_E5M2 as MXFP8_E5M2
    from numfmt.blocks import MXINT8 as MXINT8
    from numfmt.blocks import NVFP4 as NVFP4
    from numfmt.blocks import BlockArray as BlockArray
    from numfmt.blocks import BlockCodes as BlockCodes
    from numfmt.blocks import BlockFormat as BlockFormat
    from numfmt.blocks import block_floating_point as block_floating_point
    from numfmt.bounds import dot_bound as dot_bound
    from numfmt.bounds import error_bound as error_bound
    from numfmt.bounds import gamma as gamma
    from numfmt.elements import INT4 as INT4
    from numfmt.elements import INT8 as INT8
    from numfmt.elements import MXINT8_ELEMENT as MXINT8_ELEMENT
    from numfmt.elements import NF4 as NF4
    from numfmt.elements import UINT4 as UINT4
    from numfmt.elements import UINT8 as UINT8
    from numfmt.elements import FixedFormat as FixedFormat
    from numfmt.elements import TableFormat as TableFormat
    from numfmt.exact import ExactAccumulator as ExactAccumulator
    from numfmt.exact import condition_number as condition_number
    from numfmt.exact import exact_dot as exact_dot
    from numfmt.exact import exact_matmul as exact_matmul
    from numfmt.exact import exact_sum as exact_sum
    from numfmt.explanation import explain as explain
    from numfmt.families import lookup as lookup
    from numfmt.families import p3109 as p3109
    from numfmt.linalg import dot as dot
    from numfmt.linalg import matmul as matmul
    from numfmt.reports import ErrorReport as ErrorReport
    from numfmt.reports import dot_report as dot_report
    from numfmt.reports import error_report as error_report
    from numfmt.reports import sum_report as sum_report
    from numfmt.study import Study as Study
    from numfmt.sums import Accumulator as Accumulator
    from numfmt.sums import accumulate as accumulate
    from numfmt.tables import formats_table as formats_table

__version__ = "0.1.0"

#: Public names that are loaded on first use, and the modules they live in.
_LAZY: dict[str, str] = {
    "Study": "numfmt.study",
    "BLOCK_FORMATS": "numfmt.blocks",
    "BlockArray": "numfmt.blocks",
    "BlockCodes": "numfmt.blocks",
    "BlockFormat": "numfmt.blocks",
    "MXFP4": "numfmt.blocks",
    "MXFP6_E2M3": "numfmt.blocks",
    "MXFP6_E3M2": "numfmt.blocks",
    "MXFP8_E4M3": "numfmt.blocks",
    "MXFP8_E5M2": "numfmt.blocks",
    "MXINT8": "numfmt.blocks",
    "NVFP4": "numfmt.blocks",
    "block_floating_point": "numfmt.blocks",
    "accumulate": "numfmt.sums",
    "Accumulator": "numfmt.sums",
    "add": "numfmt.arithmetic",
    "backend": "numfmt._fast.backend",
    "condition_number": "numfmt.exact",
    "div": "numfmt.arithmetic",
    "dot": "numfmt.linalg",
    "dot_bound": "numfmt.bounds",
    "dot_report": "numfmt.reports",
    "error_bound": "numfmt.bounds",
    "error_report": "numfmt.reports",
    "ErrorReport": "numfmt.reports",
    "ExactAccumulator": "numfmt.exact",
    "exact_dot": "numfmt.exact",
    "exact_matmul": "numfmt.exact",
    "exact_sum": "numfmt.exact",
    "explain": "numfmt.explanation",
    "FixedFormat": "numfmt.elements",
    "fma": "numfmt.arithmetic",
    "formats_table": "numfmt.tables",
    "gamma": "numfmt.bounds",
    "get_backend": "numfmt._fast.backend",
    "INT4": "numfmt.elements",
    "INT8": "numfmt.elements",
    "lookup": "numfmt.families",
    "matmul": "numfmt.linalg",
    "mul": "numfmt.arithmetic",
    "MXINT8_ELEMENT": "numfmt.elements",
    "NF4": "numfmt.elements",
    "p3109": "numfmt.families",
    "set_backend": "numfmt._fast.backend",
    "sqrt": "numfmt.arithmetic",
    "sub": "numfmt.arithmetic",
    "sum_report": "numfmt.reports",
    "TableFormat": "numfmt.elements",
    "UINT4": "numfmt.elements",
    "UINT8": "numfmt.elements",
}

# Modules that are there after ``import numfmt`` as well, loaded on first use.
_MODULES = frozenset({"blocks", "matrix_units", "plots", "study", "sumplots", "tables"})

__all__ = [
    "FloatFormat",
    "FORMATS",
    "FP64",
    "FP32",
    "TF32",
    "FP16",
    "BF16",
    "FP8_E4M3",
    "FP8_E5M2",
    "FP8_E4M3FNUZ",
    "FP8_E5M2FNUZ",
    "FP8_E4M3B11FNUZ",
    "FP8_E4M3_IEEE",
    "FP8_E3M4",
    "FP6_E2M3",
    "FP6_E3M2",
    "FP4_E2M1",
    "E8M0",
    "ROUNDINGS",
    "OVERFLOWS",
    *_LAZY,
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"numfmt.{name}")
    try:
        module = _LAZY[name]
    except KeyError:
        raise AttributeError(f"module 'numfmt' has no attribute {name!r}") from None
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_MODULES})
