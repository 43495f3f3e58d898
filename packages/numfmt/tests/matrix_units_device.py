"""Running the cases on a CUDA GPU, with NumPy arrays in and out."""

import contextlib
import subprocess

import numpy as np
import torch
import triton
from matrix_units_data import FORMATS
from matrix_units_kernels import constants, dot_loop

DEVICE = "cuda"
TORCH_DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
}
_WORDS = {8: (np.uint8, torch.uint8), 16: (np.int16, torch.int16), 32: (np.int32, torch.int32)}


def require_hopper():
    """Raises if there is no GPU of the kind the models were measured on."""
    if not torch.cuda.is_available():
        raise RuntimeError("no CUDA GPU: these tests compare with one and do not skip")
    capability = torch.cuda.get_device_capability()
    if capability != (9, 0):
        raise RuntimeError(f"tl_dot's rules are those of Hopper (9, 0), this GPU has compute capability {capability}")


def to_device(values, key):
    """A float64 array of values of a format as a CUDA tensor of its dtype, bit for bit."""
    fmt = FORMATS[key]
    numpy_type, torch_type = _WORDS[fmt.bits]
    codes = np.ascontiguousarray(fmt.encode(values).astype(f"u{fmt.bits // 8}").view(numpy_type))
    return torch.from_numpy(codes).to(DEVICE).view(torch_type).view(TORCH_DTYPES[key])


def run_case(case, a, b, c):
    """The kernel's result as a float32 or float16 array.

    Args:
        case: The case.
        a: (M, K); M a multiple of BLOCK_M.
        b: (K, N); N a multiple of BLOCK_N.
        c: (M, N).
    """
    left, right = to_device(a, case.loads[0]), to_device(np.ascontiguousarray(b.T), case.loads[1])
    onto = to_device(c, case.accumulator)
    out = torch.empty_like(onto)
    schedule = case.schedule
    grid = (a.shape[0] // schedule.block_m, b.shape[1] // schedule.block_n)
    dot_loop[grid](left, right, onto, out, b.shape[1], a.shape[1], **constants(case), num_warps=schedule.num_warps)
    return out.cpu().numpy()


@contextlib.contextmanager
def tf32_products(allowed):
    """torch's fp32 products on tensor cores in tf32, or in fp32; the setting is restored."""
    settings = torch.backends.cuda.matmul
    if hasattr(settings, "fp32_precision"):
        name, value = "fp32_precision", "tf32" if allowed else "ieee"
    else:
        name, value = "allow_tf32", allowed
    before = getattr(settings, name)
    setattr(settings, name, value)
    try:
        yield
    finally:
        setattr(settings, name, before)


def mm(a, b):
    """torch.mm with an fp32 result, which shows every bit of the accumulator."""
    return torch.mm(a, b) if a.dtype == torch.float32 else torch.mm(a, b, out_dtype=torch.float32)


def mm_tf32(a, b):
    """torch.mm of fp32 operands in tf32."""
    with tf32_products(True):
        return torch.mm(a, b)


def scaled_mm(fast):
    """torch._scaled_mm with unit scales and an fp32 result."""

    def function(a, b):
        one = torch.ones((), device=a.device)
        # cuBLASLt takes b by columns.
        return torch._scaled_mm(a, b.t().contiguous().t(), one, one, out_dtype=torch.float32, use_fast_accum=fast)

    return function


# What a library's products are called: the format of the operands, the unit to look for, the function.
OPERATIONS = {
    "bf16": ("bf16", "hopper", mm),
    "fp16": ("fp16", "hopper", mm),
    "tf32": ("tf32", "hopper", mm_tf32),
    "fp32": ("fp32", "simt.fma", mm),
    "fp8 fast": ("e4m3", "hopper", scaled_mm(True)),
    "fp8 promoted": ("e4m3", "hopper", scaled_mm(False)),
}


def environment():
    """Versions that a recording depends on."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip().splitlines()
    return {
        "gpu": torch.cuda.get_device_name(),
        "driver": driver[0] if driver else "unknown",
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "numpy": np.__version__,
    }
