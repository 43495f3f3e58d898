"""Let a script that asks for a GPU run without one: its "cuda" tensors lie on the CPU."""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

from fpsan_tools.ttir.compile import CAPABILITY


@contextmanager
def cuda_on_cpu() -> Iterator[None]:
    """Inside this block, torch's CUDA devices are the CPU, and Triton's active driver needs no GPU.

    Only what scripts use to place tensors is replaced: `device="cuda"` arguments, `.cuda()`, `.to("cuda")`,
    `is_cuda`, `torch.cuda.is_available()`, `synchronize()` and the like, `triton.runtime.driver.active`, and
    `triton.testing.do_bench`, which runs its function once and gives NaN instead of a time.
    """
    with ExitStack() as stack:
        stack.enter_context(_active_driver())
        testing = importlib.import_module("triton.testing")
        for name in ("do_bench", "do_bench_cudagraph"):
            stack.enter_context(mock.patch.object(testing, name, _untimed))
        if importlib.util.find_spec("torch") is not None:
            import torch

            for name, value in _CUDA.items():
                if hasattr(torch.cuda, name):
                    stack.enter_context(mock.patch.object(torch.cuda, name, value))
            stack.enter_context(_redirection())
        yield


@contextmanager
def _active_driver() -> Iterator[None]:
    from triton.runtime import driver

    before = driver._active
    driver.set_active(_driver())
    try:
        yield
    finally:
        driver._active = before


def _untimed(
    function: Callable[[], Any], *_: Any, quantiles: Sequence[float] | None = None, return_mode: str = "mean", **__: Any
) -> Any:
    """Run a function once; its time would mean nothing here."""
    function()
    if quantiles is not None:
        return [math.nan] * len(quantiles) if len(quantiles) > 1 else math.nan
    return [math.nan] if return_mode == "all" else math.nan


def _driver() -> Any:
    """What scripts ask Triton's driver for."""
    from triton.backends.compiler import GPUTarget

    def device() -> Any:
        import torch

        return torch.device("cpu")

    return SimpleNamespace(
        get_active_torch_device=device,
        get_current_target=lambda: GPUTarget("cuda", CAPABILITY, 32),
        get_current_device=lambda: 0,
        set_current_device=lambda number: None,
        get_current_stream=lambda number=0: 0,
        get_device_capability=lambda number=0: divmod(CAPABILITY, 10),
        get_device_interface=_device_interface,
        get_empty_cache_for_benchmark=lambda: None,
        clear_cache=lambda cache: None,
        utils=SimpleNamespace(get_device_properties=lambda number=0: dict(_PROPERTIES)),
    )


def _device_interface() -> Any:
    import torch

    return torch.cuda


# Facts that persistent kernels ask for, of the architecture that kernels are compiled for.
_PROPERTIES = {
    "max_shared_mem": 232448,
    "max_num_regs": 65536,
    "multiprocessor_count": 132,
    "warpSize": 32,
    "sm_clock_rate": 1,
    "mem_clock_rate": 1,
    "mem_bus_width": 1,
}

_CUDA: dict[str, Any] = {
    "is_available": lambda: True,
    "device_count": lambda: 1,
    "current_device": lambda: 0,
    "set_device": lambda device: None,
    "synchronize": lambda device=None: None,
    "empty_cache": lambda: None,
    "get_device_name": lambda device=None: "CPU (fpsan run)",
    "get_device_capability": lambda device=None: divmod(CAPABILITY, 10),
    "get_device_properties": lambda device=None: SimpleNamespace(
        name="CPU (fpsan run)",
        major=CAPABILITY // 10,
        minor=CAPABILITY % 10,
        multi_processor_count=_PROPERTIES["multiprocessor_count"],
        total_memory=1 << 36,
        warp_size=32,
    ),
    "manual_seed": lambda seed: None,
    "manual_seed_all": lambda seed: None,
}


def _redirection() -> Any:
    import torch
    from torch.overrides import TorchFunctionMode

    def is_cuda(value: Any) -> bool:
        if isinstance(value, torch.device):
            return bool(value.type == "cuda")
        return isinstance(value, str) and value.split(":")[0] == "cuda"

    def moved(value: Any) -> Any:
        return "cpu" if is_cuda(value) else value

    class Redirection(TorchFunctionMode):
        """Replaces CUDA devices among the arguments of torch's functions."""

        def __torch_function__(
            self, func: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            name = getattr(func, "__name__", "")
            named = {key: moved(value) if key == "device" else value for key, value in (kwargs or {}).items()}
            if func is torch.Tensor.cuda:
                return args[0]
            if func is torch.Tensor.to or name in ("device", "set_default_device"):
                args = tuple(moved(value) for value in args)
            if func == torch.Tensor.is_cuda.__get__:
                return True
            if func is torch.Tensor.pin_memory or func is torch.Tensor.record_stream:
                return args[0]
            named.pop("pin_memory", None)
            return func(*args, **named)

    return Redirection()
