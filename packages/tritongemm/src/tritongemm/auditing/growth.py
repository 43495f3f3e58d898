"""How the error grows with K: like noise, or with a direction?

With positive products a sum is as well conditioned as it can be, and its relative error says what the additions do:
random roundings of one running sum grow like sqrt(K), those of several short sums less, and roundings that all point
the same way (truncation, stagnation) like K. Two samples of outputs stand for two seeds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tritongemm.auditing.clock import OutOfTime
from tritongemm.auditing.contestants import Contestant
from tritongemm.auditing.devices import Array, Device, codes_of, values_of
from tritongemm.errors import KernelFailed
from tritongemm.matrices import DTYPES
from tritongemm.orders import SummationOrder
from tritongemm.reference import reference
from tritongemm.tables import short

_SIDE = 24
_SHARES = (16, 4, 1)
_LEAST_K = 16
NOISE, BIAS = 0.65, 0.8
_ONE_WAY = 0.9


@dataclass(frozen=True)
class Growth:
    """Relative errors of sums of positive products, in units of u.

    Attributes:
        letter: "A", "B", or the key of a reference.
        lengths: The K.
        rms: Root mean square of the relative error / u, at each.
        bias: Mean error over mean |error|, at the largest.
        hidden: Whether the rounding of the result is most of the error.
    """

    letter: str
    lengths: tuple[int, ...]
    rms: tuple[float, ...]
    bias: float
    hidden: bool

    @property
    def slope(self) -> float:
        """The exponent of K that errors grow with; NaN if there are none."""
        if len(self.lengths) < 2 or min(self.rms) <= 0:
            return math.nan
        return float(np.polyfit(np.log(self.lengths), np.log(self.rms), 1)[0])

    def reading(self) -> str:
        """The growth in words."""
        if self.hidden:
            return "hidden by the rounding of the result"
        slope = self.slope
        if not math.isfinite(slope):
            return "no errors"
        kind = "noise" if slope <= NOISE else "a direction" if slope > BIAS else "between noise and a direction"
        if slope <= NOISE and abs(self.bias) > _ONE_WAY:
            return f"like K^{short(round(slope, 2))}, all one way: the operands lose bits, not the sum"
        return f"like K^{short(round(slope, 2))}: {kind}"


def measure_growth(
    contestants: tuple[Contestant, Contestant],
    device: Device,
    a: Array,
    b: Array,
    dtypes: tuple[str, str],
    seed: int,
    deadline: float,
    show: Callable[[str, float], None],
) -> list[Growth]:
    """Measures growth for both kernels, and for the serial chain.

    Args:
        contestants: Both kernels.
        device: Where they run.
        a: (M, K) float32 operand, whose absolute values are taken.
        b: (K, N) operand, likewise.
        dtypes: Type of the operands and of the result.
        seed: Of the samples.
        deadline: Time (`time.monotonic`) after which nothing further starts.
        show: Called with what is being done and the share that is done.

    Returns:
        Nothing when K is too small to tell, or a kernel cannot be run.
    """
    K = a.shape[1]
    lengths = sorted({K // s for s in _SHARES if K // s >= _LEAST_K})
    if len(lengths) < 2:
        return []
    u = DTYPES["fp32"].unit_roundoff
    errors: dict[str, dict[int, list[Array]]] = {}
    for number, length in enumerate(lengths):
        for sample in range(2):
            if time.monotonic() > deadline:
                return []
            show("growth of the errors with K", number / len(lengths))
            rng = np.random.default_rng([seed, 3, length, sample])
            rows, columns = (np.sort(rng.choice(n, min(n, _SIDE), replace=False)) for n in (a.shape[0], b.shape[1]))
            x, y = np.abs(a[rows, :length]), np.ascontiguousarray(np.abs(b[:length, columns]))
            golden, _ = reference(x, y)
            try:
                made = {c.letter: device.run(c, x, y, dtypes).codes for c in contestants}
            except (KernelFailed, OutOfTime):
                return []
            made["chain"] = codes_of(SummationOrder.chain().simulate(x, y), dtypes[1])
            for key, codes in made.items():
                values = values_of(codes, dtypes[1]).astype(np.float64)
                with np.errstate(all="ignore"):
                    relative = np.where(golden > 0, (values - golden) / golden, 0.0)
                errors.setdefault(key, {}).setdefault(length, []).append(relative[np.isfinite(relative)].ravel())
    return [_growth(key, found, u, DTYPES[dtypes[1]].unit_roundoff) for key, found in errors.items()]


def _growth(key: str, found: dict[int, list[Array]], u: float, out: float) -> Growth:
    lengths = tuple(sorted(found))
    joined = [np.concatenate(found[n]) for n in lengths]
    rms = tuple(float(np.sqrt(np.mean(e * e))) / u if e.size else 0.0 for e in joined)
    last = joined[-1]
    size = float(np.abs(last).sum())
    bias = float(last.sum()) / size if size else 0.0
    # A rounding alone has an rms of at most u_out/sqrt(3).
    hidden = out > u and rms[-1] * u <= out / math.sqrt(3)
    return Growth(key, lengths, rms, bias, hidden)
