"""Rounding of torch tensors, on the CPU and on CUDA devices, with the bits that arrays give.

CPU tensors share memory with NumPy arrays and take their way. CUDA tensors are rounded by a Triton kernel; where there
is no Triton, or no fast plan, they visit the CPU.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from numfmt import _apply
from numfmt._engine import nan_value
from numfmt._fast.plan import CARRIERS, FLOAT64
from numfmt._fast.plan import plan as make_plan
from numfmt._random import Seed, draw_key
from numfmt.rounding import OverflowPolicy, RoundingMode, overflow_policy, rounding_mode

if TYPE_CHECKING:
    from numfmt.formats import FloatFormat


def is_tensor(x: object) -> bool:
    """x is a torch tensor; asks only where torch is imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def round_tensor(
    fmt: FloatFormat,
    x: Any,
    rounding: str | RoundingMode,
    rng: Seed,
    overflow: str | OverflowPolicy | None,
    nan: str | None,
    random_bits: int,
    random: Any,
    out: Any,
) -> Any:
    """Round a tensor to a format; see `FloatFormat.round`.

    The result is on x's device, float64 for float64 and integer tensors and for formats that float32 does not hold,
    else float32. Gradients do not flow through it.
    """
    import torch

    mode = rounding_mode(rounding)
    policy = overflow_policy(fmt.overflow if overflow is None else overflow)
    _apply.check_nan(nan)
    random_bits = _apply.check_random_bits(random_bits)
    x = x.detach()
    if x.is_complex():
        raise TypeError(f"x must hold real numbers, not {x.dtype}; round x.real and x.imag separately")
    wide = x.dtype == torch.float64 or not x.is_floating_point() or not _apply.fits_float32(fmt)
    dtype = torch.float64 if wide else torch.float32
    result = _result(out, x, dtype)
    if mode.stochastic and random is not None:
        random = _apply.check_random(random.cpu().numpy() if is_tensor(random) else random, random_bits, tuple(x.shape))
    if x.is_cuda and x.is_floating_point() and importlib.util.find_spec("triton") is not None:
        carriers = [c for c in CARRIERS if (c is FLOAT64) == wide or c is FLOAT64]
        plan = next((p for p in (make_plan(fmt, mode, policy, nan, c) for c in carriers) if p is not None), None)
        if plan is not None:
            if plan.nan is None and bool(torch.isnan(x).any()):
                nan_value(fmt, nan)
            _on_device(x, result, plan, mode, rng, random, random_bits)
            return result
    host = x.cpu()
    if host.is_floating_point() and host.dtype not in (torch.float32, torch.float64):
        host = host.to(torch.float32)  # exact
    array = host.contiguous().numpy()
    rounded = _apply.round_to(fmt, array, mode, rng, policy, nan, random_bits, random)
    result.copy_(torch.from_numpy(np.asarray(rounded)))
    return result


def _result(out: Any, x: Any, dtype: Any) -> Any:
    import torch

    if out is None:
        return torch.empty(x.shape, dtype=dtype, device=x.device)
    if not is_tensor(out) or out.shape != x.shape or out.dtype != dtype or out.device != x.device:
        raise ValueError(f"out must be a {dtype} tensor of shape {tuple(x.shape)} on {x.device}")
    return out


def _on_device(x: Any, result: Any, plan: Any, mode: RoundingMode, rng: Seed, random: Any, random_bits: int) -> None:
    import torch

    from numfmt._fast.kernels import round_triton

    key = draw_key(rng) if mode.stochastic and random is None else 0
    if random is not None:
        random = torch.from_numpy(np.ascontiguousarray(random).view(np.int32)).to(x.device)
    source = x.contiguous()
    target = result if result.is_contiguous() else torch.empty(x.shape, dtype=result.dtype, device=x.device)
    if source.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        source = source.to(torch.float32)
    with torch.cuda.device(x.device):
        round_triton(source, target, plan, key, random, random_bits)
    if target is not result:
        result.copy_(target)
