"""Bit patterns to tensors on a GPU and back."""

import torch

TYPES = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
TYPES |= {"fp8e4m3fn": "float8_e4m3fn", "fp8e5m2": "float8_e5m2"}


def to_device(bits, dtype, device="cuda"):
    """Bit patterns as a tensor of the float or integer type."""
    tensor = torch.from_numpy(bits.view(f"i{bits.itemsize}")).to(device)
    name = TYPES.get(dtype) or {"u8": "uint8"}.get(dtype) or f"int{bits.itemsize * 8}"
    return tensor.view(getattr(torch, name))


def from_device(tensor):
    """A tensor's bit patterns."""
    whole = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    array = tensor.view(whole).cpu().numpy()
    return array.view(f"u{array.itemsize}")
