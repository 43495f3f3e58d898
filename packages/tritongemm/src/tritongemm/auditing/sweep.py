"""The audited product over distributions of the operands: what random numbers between -1 and 1 hide.

A small sample of the product is computed with operands of several scales, of wide exponents, positive, and cancelling.
Each is judged as the audited product is: by the a-priori bound, by twice the error of the serial chain (or of the
declared precision mode) plus one rounding of the output, and by where NaN and infinity are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tritongemm.accuracy import BoundedOrder, ErrorAccumulator, ErrorReport
from tritongemm.auditing.contestants import Contestant
from tritongemm.auditing.devices import Array, Device, codes_of, values_of
from tritongemm.auditing.implied_orders import ModeOrder, Order
from tritongemm.errors import KernelFailed
from tritongemm.matrices import DTYPES
from tritongemm.orders import SummationOrder
from tritongemm.reference import largest_of, reference

_SIDE, _MOST_INNER = 32, 1024

Draw = Callable[[np.random.Generator, tuple[int, int]], Array]


def _uniform(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.uniform(-1, 1, shape)


@dataclass(frozen=True)
class Distribution:
    """How operands are drawn.

    Attributes:
        text: What it is, for the report.
        a: Draws A.
        b: Draws B; None: A's rows and B's columns belong together, see `_cancelling`.
    """

    text: str
    a: Draw
    b: Draw | None


def _scaled(power: int) -> Draw:
    return lambda rng, shape: np.ldexp(_uniform(rng, shape), power)


def _wide(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return np.ldexp(_uniform(rng, shape), rng.integers(-12, 13, shape))


SWEEP: dict[str, Distribution] = {
    "positive": Distribution("U(0, 1)", lambda r, s: r.random(s), lambda r, s: r.random(s)),
    "normal": Distribution("N(0, 1)", lambda r, s: r.standard_normal(s), lambda r, s: r.standard_normal(s)),
    "wide": Distribution("U(-1, 1) times 2^-12 to 2^12", _wide, _wide),
    "small": Distribution("U(-1, 1) times 2^-40 and 2^-30", _scaled(-40), _scaled(-30)),
    "large": Distribution("U(-1, 1) times 2^40 and 2^30", _scaled(40), _scaled(30)),
    "subnormal": Distribution("products around the smallest normal number", _scaled(-100), _scaled(-30)),
    "cancelling": Distribution("the second half takes back the first, but for a 64th of one product", _uniform, None),
}


@dataclass(frozen=True)
class Swept:
    """One distribution.

    Attributes:
        name: Its name.
        text: What it is.
        shape: M, N, K of the sample.
        reports: Errors by kernel letter and of the references, "chain" and the declared modes'.
    """

    name: str
    text: str
    shape: tuple[int, int, int]
    reports: Mapping[str, ErrorReport]


def sweep(
    contestants: tuple[Contestant, Contestant],
    device: Device,
    orders: Mapping[str, Order | None],
    bounds: Callable[[str], BoundedOrder],
    size: tuple[int, int, int],
    dtypes: tuple[str, str],
    precisions: Mapping[str, str],
    seed: int,
    deadline: float,
    show: Callable[[str, float], None],
) -> tuple[list[Swept], list[str]]:
    """Measures both kernels under every distribution that the operands' type can hold.

    Args:
        contestants: Both kernels.
        device: Where they run.
        orders: The kernels' orders of summation, where known.
        bounds: By kernel letter, the order whose bound a kernel of no known order is held to.
        size: M, N and K of the audited product.
        dtypes: Type of the operands and of the result.
        precisions: Declared precision modes by kernel letter.
        seed: Of the operands.
        deadline: Time (`time.monotonic`) after which nothing further starts.
        show: Called with what is being done and the share that is done.

    Returns:
        What was found, and the names of the distributions that were left out, for want of time or because a kernel
        failed; those that the type cannot hold are in neither.
    """
    M, N, K = min(size[0], _SIDE), min(size[1], _SIDE), min(size[2], _MOST_INNER)
    kinds = (DTYPES[dtypes[0]], DTYPES[dtypes[1]])
    found: list[Swept] = []
    names = list(SWEEP)
    for number, (name, distribution) in enumerate(SWEEP.items()):
        if time.monotonic() > deadline:
            return found, names[number:]
        show(f"distributions of the operands: {name}", number / len(SWEEP))
        with np.errstate(all="ignore"):
            a, b = _operands(distribution, M, N, K, np.random.default_rng([seed, 4, number]))
            a, b = (values_of(codes_of(x.astype(np.float32), dtypes[0]), dtypes[0]).reshape(x.shape) for x in (a, b))
            golden, magnitude = reference(a, b)
        if not (np.isfinite(a).all() and np.isfinite(b).all()) or not magnitude.all():
            continue  # Beyond what the type can hold.
        if magnitude.max() > min(kinds[1].max, kinds[0].max if dtypes[0] != "fp32" else np.inf) / 4:
            continue
        try:
            made = {c.letter: device.run(c, a, b, dtypes).codes for c in contestants}
        except KernelFailed:
            return found, names[number:]
        chain: Order = SummationOrder.chain()
        made["chain"] = codes_of(chain.simulate(a, b), dtypes[1])
        held: dict[str, BoundedOrder] = {c.letter: orders.get(c.letter) or bounds(c.letter) for c in contestants}
        held["chain"] = chain
        for mode in set(precisions.values()):
            held[mode] = ModeOrder(mode, dtypes[0])
            made[mode] = codes_of(ModeOrder(mode, dtypes[0]).simulate(a, b), dtypes[1])
        reports = {}
        for key, codes in made.items():
            errors = ErrorAccumulator(key, K, kinds[1], held[key])
            errors.add(values_of(codes, dtypes[1]), golden, magnitude, largest=largest_of(a, b))
            reports[key] = errors.report()
        found.append(Swept(name, distribution.text, (M, N, K), reports))
    return found, []


def _operands(d: Distribution, M: int, N: int, K: int, rng: np.random.Generator) -> tuple[Array, Array]:
    a = d.a(rng, (M, K))
    if d.b is not None:
        return a, d.b(rng, (K, N))
    b = _uniform(rng, (K, N))
    half = K // 2
    a[:, half : 2 * half], b[half : 2 * half] = a[:, :half], -b[:half]
    a[:, 0] *= 1 + 2.0**-6
    return a, b
