"""Many products of different sizes in one launch: mixtures of experts, ragged batches.

**Summation order.** Each product's is the mode's own, that of `blocked`: which products share a launch changes no bit.

**Bound.** The mode's.

**What the numbers mean.** A table tells every program which product and which tile of it to compute; operands are found
through addresses in that table, so the products may lie anywhere. One launch of many small products costs what one
large product costs, where a launch each would leave the GPU waiting.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from tritongemm.configurations import Config
from tritongemm.elements import ELEMENTS, address_of, element_of, strides_of
from tritongemm.errors import UsageError
from tritongemm.kernels.blocked import blocked_config, takes_blocked
from tritongemm.kernels.epilogue import deliver
from tritongemm.kernels.mainloop import sum_of_products
from tritongemm.kernels.problems import Operands, home, launch_on
from tritongemm.kernels.tiles import extent, tile_of
from tritongemm.matrices import is_torch

_COLUMNS = tl.constexpr(13)
"""Numbers per product in the table: addresses of A, B and the result, M, N, K, six strides, its first tile."""


@triton.jit
def grouped_kernel(
    table_ptr,
    product_ptr,
    alpha,
    A_TYPE: tl.constexpr,
    B_TYPE: tl.constexpr,
    OUT_TYPE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
    IMPRECISE: tl.constexpr,
    PREPARE: tl.constexpr,
    PARTS: tl.constexpr,
    SCALED: tl.constexpr,
    ACTIVATION: tl.constexpr,
    WIDE: tl.constexpr,
):
    """One tile of the product that product[program] names."""
    row = table_ptr + tl.load(product_ptr + tl.program_id(0)) * _COLUMNS
    a_ptr = tl.load(row).to(tl.pointer_type(A_TYPE))
    b_ptr = tl.load(row + 1).to(tl.pointer_type(B_TYPE))
    out_ptr = tl.load(row + 2).to(tl.pointer_type(OUT_TYPE))
    M = tl.load(row + 3).to(tl.int32)
    N = tl.load(row + 4).to(tl.int32)
    K = tl.load(row + 5).to(tl.int32)
    tile = tl.program_id(0) - tl.load(row + 12).to(tl.int32)
    tile_m, tile_n = tile_of(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
    m, live_m = extent(tile_m, M, BLOCK_M, WIDE)
    n, live_n = extent(tile_n, N, BLOCK_N, WIDE)
    total = sum_of_products(
        a_ptr, b_ptr, m, n, live_m, live_n, 0, K,
        tl.load(row + 6), tl.load(row + 7), tl.load(row + 8), tl.load(row + 9),
        ACCUMULATOR, BLOCK_K, INPUT_PRECISION, IMPRECISE, PREPARE, PARTS, WIDE,
    )  # fmt: skip
    deliver(
        total, 0, m, n, live_m, live_n, out_ptr, None, None, None, None,
        0, tl.load(row + 10), tl.load(row + 11), 0, 0, 0, 0, 0, 0,
        alpha, 0.0, SCALED, ACTIVATION,
    )  # fmt: skip


def grouped(products: Sequence[Operands], config: Config | None = None) -> None:
    """Products of one mode, one set of types and one epilogue in one launch; writes to their results.

    Args:
        products: The products; without C and bias.
        config: Block sizes, warps and stages for all of them.

    Raises:
        UsageError: The products cannot share a launch.
    """
    todo = [p for p in products if not p.empty]
    if not todo:
        return
    first = todo[0]
    for index, p in enumerate(todo):
        same = p.types == first.types and element_of(p.out, "out") is element_of(first.out, "out")
        if not same or home(p.out) != home(first.out):
            raise UsageError(
                f"a, b: product {index} has other types or another place than the first; group them apart."
            )
        if p.epilogue.reads_c or p.epilogue.bias is not None or p.epilogue.scale_a is not None:
            raise UsageError("c, bias, scales: grouped products take alpha and an activation only.")
    if config is None:
        largest = max(todo, key=lambda p: p.M * p.N)
        config = blocked_config(largest).changed(kernel="grouped")
    if not all(takes_blocked(p, config) for p in todo):
        raise UsageError(f"config: the products do not take {config}.")
    table, owner = _tables(todo, config)
    constants = {**first.constants(config), **config.blocks}
    constants["WIDE"] = any(p.wide for p in todo)
    for name, kind in zip(("A_TYPE", "B_TYPE"), first.types, strict=True):
        constants[name] = _triton_type(ELEMENTS[kind].triton)
    constants["OUT_TYPE"] = _triton_type(element_of(first.out, "out").triton)
    reachable = [x for p in todo for x in (p.a, p.b, p.out)]
    alpha = first.factors()[0]
    launch_on(
        first.out, grouped_kernel, (len(owner),), _placed(table, first.out), _placed(owner, first.out), alpha,
        reachable=reachable, **constants,
    )  # fmt: skip


def _triton_type(name: str) -> Any:
    return {
        "fp64": tl.float64,
        "fp32": tl.float32,
        "fp16": tl.float16,
        "bf16": tl.bfloat16,
        "fp8e4nv": tl.float8e4nv,
        "fp8e5": tl.float8e5,
    }[name]


def _tables(products: Sequence[Operands], config: Config) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """One row per product, and the product of every tile."""
    rows: list[list[int]] = []
    owner: list[int] = []
    for index, p in enumerate(products):
        strides = [s for name in ("a", "b", "out") for s in strides_of(getattr(p, name), name)]
        addresses = [address_of(x) for x in (p.a, p.b, p.out)]
        rows.append([*addresses, p.M, p.N, p.K, *strides, len(owner)])
        owner += [index] * (-(-p.M // config.block_m) * -(-p.N // config.block_n))
    return np.array(rows, np.int64), np.array(owner, np.int64)


def _placed(table: np.ndarray[Any, Any], place: Any) -> Any:
    """A table where the kernel can read it."""
    if not is_torch(place):
        return table
    return sys.modules["torch"].from_numpy(table).to(place.device)
