"""Which kernel computes a product: a table of candidates, tried in order.

Every candidate says which products it takes, and which bits it gives: candidates whose `bits` agree can be exchanged
for each other without changing a result. On the CPU the prediction of the mode is the product, unless a configuration
names a kernel to evaluate or a session of `fpsan_tools` is active, which sees every launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tritongemm import launches, modes
from tritongemm.configurations import Config
from tritongemm.elements import Element, element_named
from tritongemm.errors import UsageError, nearest
from tritongemm.kernels.epilogue import Epilogue
from tritongemm.kernels.problems import Operands
from tritongemm.matrices import is_cuda
from tritongemm.operands import is_plain

__all__ = [
    "CANDIDATES",
    "Candidate",
    "Epilogue",
    "candidate_named",
    "choose",
    "grouped_product",
    "product",
    "register",
    "scaled_product",
]


@dataclass(frozen=True)
class Candidate:
    """A kernel that can compute some products.

    Attributes:
        kernel: Its name, which configurations use.
        run: Computes a product: `run(operands, config)` writes to `operands.out`.
        supports: Whether it takes a product, in the given configuration (None: in one of its own).
        bits: The class of equal bits its result belongs to; "" is the class that the mode promises.
        configure: A configuration for a product that names none.
        priority: Candidates of higher priority are tried first.
    """

    kernel: str
    run: Callable[[Operands, Config], None]
    supports: Callable[[Operands, Config | None], bool]
    bits: Callable[[Operands, Config], str]
    configure: Callable[[Operands], Config]
    priority: int = 0


CANDIDATES: list[Candidate] = []
"""Every candidate, best first."""


def register(candidate: Candidate) -> Candidate:
    """Add a candidate to the table; one of the same name is replaced.

    Args:
        candidate: The candidate.

    Returns:
        The candidate.
    """
    CANDIDATES[:] = [known for known in CANDIDATES if known.kernel != candidate.kernel] + [candidate]
    CANDIDATES.sort(key=lambda c: -c.priority)
    return candidate


def candidate_named(kernel: str) -> Candidate:
    """The candidate of a name.

    Raises:
        UsageError: There is none.
    """
    for candidate in CANDIDATES:
        if candidate.kernel == kernel:
            return candidate
    raise UsageError(f"config: no kernel {kernel!r}. {nearest(kernel, (c.kernel for c in CANDIDATES))}")


def product(
    a: Any,
    b: Any,
    *,
    mode: str | modes.Mode = "ieee",
    out: Any = None,
    out_dtype: Any = None,
    epilogue: Epilogue | None = None,
    config: Config | None = None,
    invariant: bool = True,
) -> Any:
    """activation(alpha A B + bias + beta C) for matrices or batches of them.

    Args:
        a: (M, K) or (batch, M, K): CUDA tensors are multiplied on their GPU; CPU tensors, NumPy arrays and typed bits
            on the CPU, with the bits of an H200.
        b: (K, N) or (batch, K, N), of a's library and place.
        mode: The precision mode or its name.
        out: The result to write to; a new one if not given.
        out_dtype: Type of a new result; a's if not given (bf16 for fp8 operands).
        epilogue: alpha, beta, C, bias and activation.
        config: The kernel and how to launch it; the first fitting candidate's choice if not given.
        invariant: Take only kernels with the bits that the mode promises, which do not depend on M and N; False also
            allows sums that are cut by the number of tiles.

    Returns:
        The result, `out` if that was given.

    Raises:
        UsageError: Shapes, types, places, the mode or the configuration do not fit.
    """
    mode = modes.get(mode) if isinstance(mode, str) else mode
    wanted = None if out_dtype is None else _element(out_dtype)
    operands = Operands.of(a, b, mode, out=out, out_dtype=wanted, epilogue=epilogue or Epilogue())
    if operands.empty:
        from tritongemm.emulation import remember_empty

        launches.forgo()  # a replay would not remember it
        remember_empty(mode.name, operands.K)
        return operands.out
    if config is None and not is_cuda(a) and not _observed():
        predicted(operands)
        return operands.out
    candidate, chosen = choose(operands, config, invariant)
    candidate.run(operands, chosen)
    return operands.out


def scaled_product(
    a: Any,
    b: Any,
    scale_a: Any,
    scale_b: Any,
    *,
    mode: str | modes.Mode = "ieee",
    out: Any = None,
    out_dtype: Any = None,
    epilogue: Epilogue | None = None,
    config: Config | None = None,
    invariant: bool = True,
) -> Any:
    """The product of two matrices that were divided by scales.

    Args:
        a: (M, K) matrix.
        b: (K, N) matrix.
        scale_a: fp32 scales of a: one number, one per row (M, 1), or one per 1 x 128 stretch (M, ceil(K / 128)).
        scale_b: fp32 scales of b: one number, one per column (1, N), or one per 128 x 128 block (ceil(K / 128),
            ceil(N / 128)); block scales go with block scales only.
        mode: The precision mode; for block scales "ieee" or "promote128", which name their order.
        out: See `product`.
        out_dtype: See `product`.
        epilogue: See `product`; it has no scales of its own.
        config: See `product`; kernel "block_scaled" is for scales of blocks.
        invariant: See `product`.

    Returns:
        The result, `out` if that was given.

    Raises:
        UsageError: Something does not fit.
    """
    epilogue = epilogue or Epilogue()
    if not _block_scales(a, b, scale_a, scale_b):
        if config is not None and config.kernel == "block_scaled":
            raise UsageError(
                f"config: kernel 'block_scaled' is for scales of blocks; {tuple(scale_a.shape)} and "
                f"{tuple(scale_b.shape)} are scales of rows, of columns or of all, which the other kernels take."
            )
        scaled = replace(epilogue, scale_a=scale_a, scale_b=scale_b)
        return product(
            a, b, mode=mode, out=out, out_dtype=out_dtype, epilogue=scaled, config=config, invariant=invariant
        )
    mode = modes.get(mode) if isinstance(mode, str) else mode
    if mode.name not in BLOCK_SCALED_MODES:
        raise UsageError(
            f"precision: block scales add up every 128 products in fp32, which is "
            f"{' or '.join(repr(name) for name in BLOCK_SCALED_MODES)}, not {mode.name!r}."
        )
    wanted = None if out_dtype is None else _element(out_dtype)
    operands = Operands.of(a, b, mode, out=out, out_dtype=wanted, epilogue=epilogue)
    from tritongemm.kernels import block_scaled, finishing

    block_scaled.check_scales(operands, scale_a, scale_b)
    if operands.empty:
        return operands.out
    if config is None and not is_cuda(a) and not _observed():
        sums = block_scaled.predict_block_scaled(a, b, scale_a, scale_b)
        finishing.finish_sums(operands, sums if operands.K else np.zeros_like(sums))
    else:
        block_scaled.block_scaled(operands, scale_a, scale_b, config)
    return operands.out


BLOCK_SCALED_MODES = ("ieee", "promote128")
"""Modes that block-scaled products can have."""


def _block_scales(a: Any, b: Any, scale_a: Any, scale_b: Any) -> bool:
    """Whether the scales are those of blocks: of any shape that is not one number, (M, 1) or (1, N)."""
    return not (is_plain(scale_a, (int(a.shape[0]), 1)) and is_plain(scale_b, (1, int(b.shape[1]))))


def grouped_product(
    list_a: Sequence[Any],
    list_b: Sequence[Any],
    *,
    mode: str | modes.Mode = "ieee",
    outs: Sequence[Any] | None = None,
    out_dtype: Any = None,
    epilogue: Epilogue | None = None,
    config: Config | None = None,
) -> list[Any]:
    """Many products of different sizes, in one launch on a GPU.

    Args:
        list_a: (M_i, K_i) matrices of one type.
        list_b: (K_i, N_i) matrices of one type.
        mode: The precision mode of all of them.
        outs: Results to write to; new ones if not given.
        out_dtype: Type of new results.
        epilogue: alpha and activation for all of them.
        config: Block sizes for all of them.

    Returns:
        The results, in order.

    Raises:
        UsageError: Something does not fit.
    """
    if len(list_a) != len(list_b) or (outs is not None and len(outs) != len(list_a)):
        raise UsageError(f"list_b: {len(list_b)} matrices for {len(list_a)} of list_a; they are multiplied in pairs.")
    mode = modes.get(mode) if isinstance(mode, str) else mode
    wanted = None if out_dtype is None else _element(out_dtype)
    results = [None] * len(list_a) if outs is None else outs
    products = [
        Operands.of(a, b, mode, out=out, out_dtype=wanted, epilogue=epilogue or Epilogue())
        for a, b, out in zip(list_a, list_b, results, strict=True)
    ]
    if config is None and products and not is_cuda(list_a[0]) and not _observed():
        for one in products:
            if not one.empty:
                predicted(one)
    else:
        from tritongemm.kernels.grouped import grouped

        grouped(products, config)
    return [one.out for one in products]


def choose(operands: Operands, config: Config | None = None, invariant: bool = True) -> tuple[Candidate, Config]:
    """The candidate for a product, and its configuration.

    Args:
        operands: The product.
        config: A configuration that names the kernel, or None.
        invariant: Whether the bits must be those that the mode promises.

    Raises:
        UsageError: The named kernel, or every kernel, does not take the product.
    """
    if operands.K == 0:  # Nothing is added up: no kernel's order matters.
        candidate = candidate_named("blocked")
        return candidate, candidate.configure(operands)
    if config is not None:
        candidate = candidate_named(config.kernel)
        if not candidate.supports(operands, config):
            raise UsageError(f"config: kernel {config.kernel!r} does not take this product in {config}.")
        if invariant and (bits := candidate.bits(operands, config)):
            raise UsageError(
                f"config: {config.kernel!r} in this configuration adds up in another order ({bits}) than the mode "
                "promises; allow it with invariant=False."
            )
        return candidate, config
    for candidate in CANDIDATES:
        if candidate.supports(operands, None):
            chosen = candidate.configure(operands)
            whole = not candidate.bits(operands, chosen)
            cuts = not invariant and whole and candidate.kernel in _CUT_BY_SPLIT_K
            if cuts and (cut := _cut(operands, chosen)) is not None:
                return cut
            if whole or not invariant:
                return candidate, chosen
    raise UsageError(f"precision: no kernel here computes mode {operands.mode.name!r} for {operands.types}.")


# Kernels that split_k does the work of where there are few tiles; those made for a GPU have ways of their own.
_CUT_BY_SPLIT_K = ("blocked", "persistent")
# Tiles that leave half of an H200's 132 multiprocessors without work.
_FEW_TILES = 66


def _cut(operands: Operands, chosen: Config) -> tuple[Candidate, Config] | None:
    """split_k, where a configuration has so few tiles that a cut K keeps more of a GPU busy; else None."""
    tiles = operands.batch * -(-operands.M // chosen.block_m) * -(-operands.N // chosen.block_n)
    candidate = candidate_named("split_k")
    if tiles > _FEW_TILES or not candidate.supports(operands, None):
        return None
    config = candidate.configure(operands)
    return (candidate, config) if config.splits > 1 else None


def predicted(operands: Operands) -> None:
    """Compute a product on the CPU by its mode's prediction, and the epilogue by the kernels' own."""
    from tritongemm.emulation import noting
    from tritongemm.kernels.finishing import finish_on_cpu

    with noting(operands.mode.name, operands.K):
        finish_on_cpu(operands)


def _observed() -> bool:
    from fpsan_tools import dispatch

    return dispatch.current() is not None


def _element(dtype: Any) -> Element:
    name = getattr(dtype, "name", None) if not isinstance(dtype, str) else dtype
    return element_named(str(name or getattr(dtype, "__name__", None) or dtype), "out_dtype")


def promised_bits(operands: Operands, config: Config) -> str:
    """The class of kernels whose bits are always those that the mode promises."""
    return ""


def _register_tritons() -> None:
    from tritongemm.kernels import blocked, persistent, split_k, stream_k

    for candidate in (
        Candidate("blocked", blocked.blocked_product, blocked.takes_blocked, promised_bits, blocked.blocked_config),
        Candidate(
            "persistent",
            persistent.persistent,
            persistent.takes_persistent,
            promised_bits,
            persistent.persistent_config,
            priority=1,
        ),
        Candidate(
            "split_k", split_k.split_k, split_k.takes_split_k, split_k.split_k_bits, split_k.split_k_config, priority=-1
        ),
        Candidate(
            "stream_k",
            stream_k.stream_k,
            stream_k.takes_stream_k,
            stream_k.stream_k_bits,
            stream_k.stream_k_config,
            priority=-2,
        ),
    ):
        register(candidate)


def _register_hoppers() -> None:
    from tritongemm.kernels.hopper.candidates import register_all

    register_all(register, Candidate)


_register_tritons()
_register_hoppers()
