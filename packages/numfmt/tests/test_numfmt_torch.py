"""Tensors are rounded to the same bits as arrays: on the CPU, by the Triton kernel in its interpreter, on a GPU."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import numfmt
from numfmt import BF16, FP4_E2M1, FP8_E4M3, FP16, FP64

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch
GPU = pytest.param("cuda", marks=pytest.mark.gpu)


def bits(tensor) -> np.ndarray:
    array = tensor.cpu().numpy()
    return array.view(f"uint{8 * array.itemsize}")


def x32(count: int = 5000) -> np.ndarray:
    x = (np.random.default_rng(0).standard_normal(count) * 300).astype(np.float32)
    x[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 464.0]
    return x


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", list(numfmt.ROUNDINGS))
def test_tensors_have_the_bits_of_arrays(device, dtype, mode):
    x = x32().astype(dtype)
    for fmt in (FP8_E4M3, BF16, FP16, FP64, numfmt.p3109(8, 3, signed=False), numfmt.E8M0):
        expected = np.asarray(fmt.round(x, mode, rng=3))
        got = fmt.round(torch.from_numpy(x).to(device), mode, rng=3)
        assert got.device.type == device
        assert (bits(got) == expected.view(f"uint{8 * expected.itemsize}")).all(), fmt


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32", "uint8"])
def test_other_types_are_rounded_once(device, name):
    dtype = getattr(torch, name)
    x = torch.from_numpy(np.random.default_rng(1).integers(0, 200, 1000)).to(torch.float32).to(dtype).to(device)
    got = FP4_E2M1.round(x)
    assert got.dtype == (torch.float32 if dtype.is_floating_point else torch.float64)
    exact = x.to(torch.float32).to(torch.float64).cpu().numpy() if dtype.is_floating_point else x.cpu().numpy()
    assert (got.cpu().numpy() == FP4_E2M1.round(exact)).all()


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_layouts_outputs_and_empty_tensors(device):
    x = torch.from_numpy(x32(4096)).to(device).reshape(64, 64)
    expected = FP8_E4M3.round(x.cpu().numpy())
    before = bits(x).copy()
    for view, right in ((x.T, expected.T), (x[::2, 1::3], expected[::2, 1::3]), (x[:0], expected[:0])):
        assert np.array_equal(FP8_E4M3.round(view).cpu().numpy(), right, equal_nan=True)
    assert (bits(x) == before).all()
    out = torch.empty_like(x)
    assert FP8_E4M3.round(x, out=out) is out
    assert np.array_equal(out.cpu().numpy(), expected, equal_nan=True)
    wide = torch.zeros(64, 128, device=device)
    FP8_E4M3.round(x, out=wide[:, ::2])
    assert np.array_equal(wide[:, ::2].cpu().numpy(), expected, equal_nan=True)
    FP8_E4M3.round(x, out=x)
    assert np.array_equal(x.cpu().numpy(), expected, equal_nan=True)
    for wrong in (torch.empty(3, device=device), torch.empty(64, 64, dtype=torch.float64, device=device), [1.0]):
        with pytest.raises(ValueError, match=r"out must be a torch\.float32 tensor of shape"):
            FP8_E4M3.round(x, out=wrong)
    scalar = FP8_E4M3.round(torch.tensor(1.06, device=device))
    assert scalar.shape == ()
    assert scalar.item() == 1.0


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_random_integers_can_be_given(device):
    x = x32()
    r = np.random.default_rng(2).integers(0, 2**8, x.size)
    expected = FP8_E4M3.round(x, "stochastic", random=r, random_bits=8)
    for random in (r, torch.from_numpy(r).to(device)):
        got = FP8_E4M3.round(torch.from_numpy(x).to(device), "stochastic", random=random, random_bits=8)
        assert np.array_equal(got.cpu().numpy(), expected, equal_nan=True)


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_bad_tensors_are_refused(device):
    with pytest.raises(TypeError, match=r"not torch\.complex64"):
        FP8_E4M3.round(torch.zeros(3, dtype=torch.complex64, device=device))
    with pytest.raises(ValueError, match="FP4_E2M1 has no NaN"):
        FP4_E2M1.round(torch.tensor([1.0, float("nan")], device=device))
    assert FP4_E2M1.round(torch.tensor([float("nan")], device=device), nan="largest").item() == 6
    with pytest.raises(ValueError, match="unknown rounding"):
        FP8_E4M3.round(torch.zeros(3, device=device), "nearst")


def test_gradients_stop_without_an_error():
    x = torch.tensor([1.06], requires_grad=True)
    assert not FP8_E4M3.round(x).requires_grad
    assert x.item() != 1.0


@pytest.mark.triton
def test_the_kernel_has_the_engines_bits_in_tritons_interpreter():
    pytest.importorskip("triton")
    code = (
        "import warnings; warnings.simplefilter('ignore'); import numpy as np; np.seterr(all='ignore'); "
        "import numfmt_tensor_check as c; "
        "print(c.compare('cpu', ['FP8_E4M3', 'E8M0', 'unsigned'], 60))"
    )
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10000


NARROW = ["FP8_E4M3", "FP8_E5M2", "FP8_E4M3FNUZ", "FP4_E2M1", "E8M0"]
WIDE = ["FP16", "BF16", "TF32", "FP32", "FP64", "acc14", "acc22"]
ODD = ["no_subnormals", "unsigned", "one_bit_odd_bias", "no_zero"]


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*NARROW, *WIDE, *ODD])
def test_the_kernel_has_the_engines_bits_on_the_device(name):
    import numfmt_tensor_check as check

    assert name in check.CHOSEN
    with np.errstate(all="ignore"):
        assert check.compare("cuda", [name], 3000) > 50000


@pytest.mark.gpu
def test_all_float16_and_bfloat16_inputs_on_the_device():
    codes = np.arange(2**16, dtype=np.uint32)
    halves = codes.astype(np.uint16).view(np.float16)
    bfloats = (codes << np.uint32(16)).view(np.float32)
    for fmt in (FP8_E4M3, numfmt.FP8_E5M2, BF16, FP16):
        for mode in ("nearest_even", "toward_zero", "up", "to_odd"):
            for x, tensor in (
                (halves, torch.from_numpy(halves).cuda()),
                (bfloats, torch.from_numpy(bfloats).cuda().to(torch.bfloat16)),
            ):
                expected = np.asarray(fmt.round(x, mode), np.float32)
                assert (bits(fmt.round(tensor, mode)) == expected.view(np.uint32)).all(), (fmt, mode)


@pytest.mark.gpu
def test_long_tensors_stochastic_on_the_device():
    x = np.random.default_rng(5).standard_normal(3 * 10**6 + 17).astype(np.float32)
    expected = FP8_E4M3.round(x, "stochastic", rng=11)
    got = FP8_E4M3.round(torch.from_numpy(x).cuda(), "stochastic", rng=11)
    assert (bits(got) == expected.view(np.uint32)).all()


@pytest.mark.triton
@pytest.mark.parametrize("mode", list(numfmt.ROUNDINGS))
def test_the_kernel_compiles_without_a_gpu_and_moves_whole_vectors(mode):
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from numfmt._fast import kernels
    from numfmt._fast.plan import FLOAT32, plan

    made = plan(FP8_E4M3, numfmt.ROUNDINGS[mode], numfmt.OVERFLOWS["nan"], None, FLOAT32)
    constants = {"C": kernels.constants(made, 32)}
    if numfmt.ROUNDINGS[mode].stochastic:
        kernel = kernels.stochastic_kernel
        constants |= {"GROUPS": 8, "PLANE": 64, "ROUNDS": 7, "GIVEN": False}
        types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "random_ptr": "*i32", "count": "i32", "k0": "i32", "k1": "i32"}
    else:
        kernel = kernels.round_kernel
        constants |= {"BLOCK": kernels.BLOCK}
        types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "count": "i32"}
    names = [*types, *constants]
    source = ASTSource(
        fn=kernel,
        signature=types | dict.fromkeys(constants, "constexpr"),
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in types if name not in ("k0", "k1")},
    )
    options = {"num_warps": 4, "enable_fp_fusion": False}
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["ptx"]
    assert "fma.rn" not in ptx
    # Instructions that take subnormal numbers for 0 are right for floor(s), s >= 0, only.
    assert set(re.findall(r"\S*\.ftz\S*", ptx)) <= {"cvt.rmi.ftz.f32.f32"}
    if mode == "nearest_even":
        assert "ld.global.v4.b32" in ptx
        assert "st.global.v4.b32" in ptx
