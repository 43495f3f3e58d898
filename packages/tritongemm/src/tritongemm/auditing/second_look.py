"""A second look at errors larger than the reference's: was the reference lucky, or did it add in another order?

Where one ill-conditioned result outweighs all others (the row of a softmax whose two largest logits are nearly equal),
the reference's error there is a single random number, and may be small by chance: its errors at inputs that are one
rounding away tell its usual size. And a CPU's library adds products in several running sums, where a kernel's `tl.dot`,
as a GPU's library, has one chain of fused multiply-adds, whose error grows faster with its length. Both are legitimate,
so the reference is computed again with its matrix products summed as such a chain.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import numfmt
from tritongemm.auditing.trials import Inputs, Refused, Values, in_float32, in_float64
from tritongemm.errors import UsageError
from tritongemm.orders import SummationOrder

Array = np.ndarray[Any, np.dtype[Any]]
Sample = Mapping[str, tuple[float, float]]
"""By output: an rms error and the largest one that a reference may have."""

# Inputs one rounding away that are tried.
_NEIGHBOURS = 16
# More multiplications than this are left to the library.
_MOST_PRODUCTS = 1 << 28


def samples(reference: Callable[[Inputs], Mapping[str, Values]], inputs: Inputs, seed: int) -> Iterator[Sample]:
    """Errors of a reference in fp32: at the inputs, and at inputs one fp32 rounding away; products added as a chain.

    Args:
        reference: Gives the reference's results, of floats of whatever type it is given.
        inputs: By name.
        seed: Of the directions in which inputs are moved.

    Yields:
        What every one of these results is off by, or, where that is more, how far the float64 result moved.
    """
    here = reference(in_float64(inputs))
    for number in range(_NEIGHBOURS + 1):
        rng = np.random.default_rng([seed, 13, number])
        near = in_float32(in_float64(inputs, rng, numfmt.FP32.unit_roundoff) if number else inputs, wide=True)
        try:
            right = reference(in_float64(near))
            with serial_products():
                library = reference(_chained(near))
        except (Refused, UsageError, ArithmeticError):
            return
        yield {name: _larger(_size(library.get(name), right[name]), _size(right[name], here[name])) for name in right}


def _larger(x: tuple[float, float], y: tuple[float, float]) -> tuple[float, float]:
    return max(x[0], y[0]), max(x[1], y[1])


def _size(got: Values | None, wanted: Values) -> tuple[float, float]:
    """The rms and the largest difference, of results that are finite."""
    if got is None or got.values.shape != wanted.values.shape:
        return 0.0, 0.0
    with np.errstate(all="ignore"):
        error = np.abs(got.values - wanted.values)
    error = error[np.isfinite(error)]
    return (float(np.sqrt(np.mean(error**2))), float(error.max())) if error.size else (0.0, 0.0)


@contextlib.contextmanager
def serial_products() -> Iterator[None]:
    """Inside this block PyTorch's fp32 matrix products on the CPU are chains of fused multiply-adds over k."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils._python_dispatch import TorchDispatchMode

    aten = torch.ops.aten

    def product(a: Any, b: Any) -> Any:
        if any(x.dtype != torch.float32 or x.device.type != "cpu" for x in (a, b)):
            return None
        made = chain_product(a.detach().numpy(), b.detach().numpy())
        return None if made is None else torch.from_numpy(made)

    class Serial(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func in (aten.mm.default, aten.bmm.default) and (made := product(*args)) is not None:
                return made
            if func in (aten.addmm.default, aten.baddbmm.default) and (made := product(*args[1:])) is not None:
                return kwargs.get("beta", 1) * args[0] + kwargs.get("alpha", 1) * made
            return func(*args, **kwargs)

    with sdpa_kernel(SDPBackend.MATH), Serial():
        yield


def chain_product(a: Array, b: Array) -> Array | None:
    """The product of two fp32 matrices, or of two batches of them, each output one chain over k; None if too large."""
    if a.ndim < 2 or b.ndim < 2 or math.prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2])) == 0:
        return None
    if math.prod(a.shape) * b.shape[-1] > _MOST_PRODUCTS:
        return None
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x, y = (np.broadcast_to(m, (*batch, *m.shape[-2:])) for m in (a, b))
    made = np.empty((*batch, a.shape[-2], b.shape[-1]), np.float32)
    for at in np.ndindex(*batch):
        made[at] = SummationOrder.chain().simulate(x[at], y[at])
    return made


class _Chained(np.ndarray):
    """An fp32 array whose matrix products are chains; every other result is NumPy's, and such an array again."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [_plain(x) for x in inputs]
        if kwargs.get("out"):
            kwargs["out"] = tuple(_plain(x) for x in kwargs["out"])
        if ufunc is np.matmul and method == "__call__" and not kwargs:
            made = _fp32_product(*plain)
            if made is not None:
                return made.view(_Chained)
        return _again(getattr(ufunc, method)(*plain, **kwargs))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is np.dot and not kwargs and all(getattr(x, "ndim", 0) == 2 for x in args):
            made = _fp32_product(*map(_plain, args))
            if made is not None:
                return made.view(_Chained)
        return super().__array_function__(func, types, args, kwargs)


def _fp32_product(a: Any, b: Any) -> Array | None:
    if any(not isinstance(x, np.ndarray) or x.dtype != np.float32 for x in (a, b)):
        return None
    return chain_product(a, b)


def _plain(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, _Chained) else x


def _again(x: Any) -> Any:
    return x.view(_Chained) if isinstance(x, np.ndarray) else x


def _chained(inputs: Inputs) -> Inputs:
    """NumPy's fp32 arrays as such whose products are chains."""
    return {
        name: x.view(_Chained) if isinstance(x, np.ndarray) and x.dtype == np.float32 else x
        for name, x in inputs.items()
    }
