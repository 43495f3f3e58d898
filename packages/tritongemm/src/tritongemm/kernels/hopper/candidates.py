"""The Hopper kernels in the table of candidates; Gluon is imported when a product is on a GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from tritongemm.configurations import Config
from tritongemm.kernels.problems import Operands
from tritongemm.matrices import is_cuda

EMULATED = ("fp16x3", "int8x6", "bf16x6", "auto")
# Below this, splitting costs more than a kernel that splits on the fly.
_LEAST_SPLIT_WORK = 1 << 30


def is_hopper(x: Any) -> bool:
    """Whether a matrix lies on a GPU of compute capability 9.0, and Triton is new enough for these kernels."""
    if not is_cuda(x):
        return False
    import torch
    import triton

    version = tuple(int(n) for n in triton.__version__.split(".")[:2])
    return version >= (3, 9) and torch.cuda.get_device_capability(x.device) == (9, 0)


@contextlib.contextmanager
def on_device_of(operands: Operands) -> Iterator[None]:
    """Triton launches on the current GPU, whatever the operands' is."""
    import torch

    if operands.out.device.index == torch.cuda.current_device():
        yield
    else:
        with torch.cuda.device(operands.out.device):
            yield


def _takes_tensor_core(operands: Operands, config: Config | None) -> bool:
    if not is_hopper(operands.a):
        return False
    from tritongemm.kernels.hopper import warp_specialised

    return warp_specialised.supports(operands, config)


def _tensor_core(operands: Operands, config: Config) -> None:
    from tritongemm.kernels.hopper import warp_specialised

    with on_device_of(operands):
        warp_specialised.run(operands, config)


def _configure_tensor_core(operands: Operands) -> Config:
    from tritongemm.kernels.hopper import warp_specialised

    return warp_specialised.configure(operands)


def block_scaled(operands: Operands, scale_a: Any, scale_b: Any, config: Config | None) -> bool:
    """Computes a product with scales of blocks by a Hopper kernel, if it takes it (in a configuration).

    Args:
        operands: Two fp8 matrices.
        scale_a: (M, ceil(K / 128)) fp32 scales.
        scale_b: (ceil(K / 128), ceil(N / 128)) fp32 scales.
        config: A configuration, or None.

    Returns:
        Whether it did.
    """
    if not is_hopper(operands.a):
        return False
    from tritongemm.kernels.hopper import promoted, warp_specialised

    for kernel in (promoted, warp_specialised):
        named = config is None or config.kernel == kernel.NAME
        if named and kernel.supports_blocks(operands, scale_a, scale_b, config):
            with on_device_of(operands):
                kernel.run_blocks(operands, scale_a, scale_b, config)
            return True
    return False


def _takes_promoted(operands: Operands, config: Config | None) -> bool:
    if not is_hopper(operands.a):
        return False
    from tritongemm.kernels.hopper import promoted

    return promoted.supports(operands, config)


def _promoted(operands: Operands, config: Config) -> None:
    from tritongemm.kernels.hopper import promoted

    with on_device_of(operands):
        promoted.run(operands, config)


def _configure_promoted(operands: Operands) -> Config:
    from tritongemm.kernels.hopper import promoted

    return promoted.configure(operands)


def _takes_split(operands: Operands, config: Config | None) -> bool:
    if not is_hopper(operands.a):
        return False
    from tritongemm.kernels.hopper import warp_specialised

    return warp_specialised.supports_split(operands, config)


def _split(operands: Operands, config: Config) -> None:
    from tritongemm.kernels.hopper import warp_specialised

    with on_device_of(operands):
        warp_specialised.run_split(operands, config)


def _configure_split(operands: Operands) -> Config:
    from tritongemm.kernels.hopper import warp_specialised

    return warp_specialised.configure_split(operands)


def _split_bits(operands: Operands, config: Config) -> str:
    from tritongemm.kernels.hopper import warp_specialised

    return warp_specialised.split_bits(operands, config)


def _takes_small(operands: Operands, config: Config | None) -> bool:
    if not is_hopper(operands.a):
        return False
    from tritongemm.kernels.hopper import small

    return small.supports(operands, config)


def _takes_small_split(operands: Operands, config: Config | None) -> bool:
    if not is_hopper(operands.a):
        return False
    from tritongemm.kernels.hopper import small

    return small.supports_split(operands, config)


def _small(operands: Operands, config: Config) -> None:
    from tritongemm.kernels.hopper import small

    with on_device_of(operands):
        small.run(operands, config)


def _configure_small(operands: Operands) -> Config:
    from tritongemm.kernels.hopper import small

    return small.configure(operands)


def _configure_small_split(operands: Operands) -> Config:
    from tritongemm.kernels.hopper import small

    return small.configure_split(operands)


def _small_split_bits(operands: Operands, config: Config) -> str:
    from tritongemm.kernels.hopper import small

    return small.split_bits(operands, config)


def _takes_emulated(operands: Operands, config: Config | None) -> bool:
    if operands.mode.name not in EMULATED or operands.types != ("fp32", "fp32") or not is_hopper(operands.a):
        return False
    if str(operands.out.dtype) == "torch.float64" or operands.epilogue.scale_a is not None:
        return False
    named = config is not None or operands.mode.name != "bf16x6"
    return named or operands.M * operands.N * operands.K >= _LEAST_SPLIT_WORK


def _emulated(operands: Operands, config: Config) -> None:
    from tritongemm.kernels.hopper import emulated

    with on_device_of(operands):
        emulated.run(operands)


def _configure_emulated(operands: Operands) -> Config:
    from tritongemm.kernels.hopper.emulated import EMULATIONS

    shape = EMULATIONS[operands.mode.name if operands.mode.name in EMULATIONS else "fp16x3"].shape
    return Config(
        kernel="emulated", block_m=shape.block_m, block_n=shape.block_n, block_k=shape.block_k,
        group_m=shape.group_m, stages=shape.stages, ctas=shape.ctas,
    )  # fmt: skip


def _takes_simt(operands: Operands, config: Config | None) -> bool:
    if not is_hopper(operands.a):
        return False
    from tritongemm.kernels.hopper import simt

    return simt.supports(operands, config)


def _simt(operands: Operands, config: Config) -> None:
    from tritongemm.kernels.hopper import simt

    with on_device_of(operands):
        simt.run(operands, config)


def _configure_simt(operands: Operands) -> Config:
    from tritongemm.kernels.hopper import simt

    return simt.configure(operands)


def _promised(operands: Operands, config: Config) -> str:
    return ""


def register_all(register: Callable[[Any], Any], candidate: Callable[..., Any]) -> None:
    """Add the Hopper kernels to the table of candidates.

    Args:
        register: `tritongemm.dispatch.register`.
        candidate: `tritongemm.dispatch.Candidate`.
    """
    register(
        candidate("warp_specialised", _tensor_core, _takes_tensor_core, _promised, _configure_tensor_core, priority=10)
    )
    register(candidate("promoted", _promoted, _takes_promoted, _promised, _configure_promoted, priority=11))
    register(candidate("warp_specialised_split", _split, _takes_split, _split_bits, _configure_split, priority=12))
    register(candidate("small", _small, _takes_small, _promised, _configure_small, priority=13))
    register(
        candidate("small_split", _small, _takes_small_split, _small_split_bits, _configure_small_split, priority=14)
    )
    register(candidate("simt", _simt, _takes_simt, _promised, _configure_simt, priority=10))
    register(candidate("emulated", _emulated, _takes_emulated, _promised, _configure_emulated, priority=11))
