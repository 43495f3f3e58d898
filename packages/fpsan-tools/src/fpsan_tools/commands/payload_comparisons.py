"""Let torch's approximate comparisons compare bits: payloads are equal or not, and as floats some of them are NaN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fpsan_tools.checking.inputs import bits_of

_NAMES = frozenset({"isclose", "allclose", "equal"})


class PayloadComparisons(TorchFunctionMode):
    """Inside this mode `torch.isclose`, `allclose`, `equal`, and what uses them, compare the bits of float tensors."""

    def __torch_function__(
        self, func: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Compare bits, or call the function."""
        if getattr(func, "__name__", "") in _NAMES and len(args) >= 2:
            with torch._C.DisableTorchFunction():
                same = _same_bits(args[0], args[1])
            if same is not None:
                return same if func.__name__ == "isclose" else bool(same.all())
        return func(*args, **(kwargs or {}))


def _same_bits(x: Any, y: Any) -> Any:
    """Where two float tensors of one type agree; None for other tensors."""
    if x.dtype != y.dtype or not x.is_floating_point():
        return None
    x, y = torch.broadcast_tensors(x, y)
    return torch.from_numpy(bits_of(x) == bits_of(y)).to(x.device)
