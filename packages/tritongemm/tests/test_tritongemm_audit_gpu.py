"""Audits on a CUDA GPU: predicted bits are the GPU's, and functions, Gluon kernels and kernels of any signature are
audited there.

    python3 -m pytest packages/tritongemm/tests/test_tritongemm_audit_gpu.py -m gpu
"""

import numpy as np
import pytest

pytestmark = pytest.mark.gpu


CASES = [
    ("blocked", "fp32", {"BLOCK_M": 16, "BLOCK_N": 32}),
    ("blocked", "fp32", {"BLOCK_M": 64, "BLOCK_N": 64, "INPUT_PRECISION": "tf32"}),
    ("blocked", "fp32", {"BLOCK_M": 64, "BLOCK_N": 64, "INPUT_PRECISION": "tf32x3"}),
    ("blocked", "fp16", {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}),
    ("blocked", "bf16", {"BLOCK_M": 16, "BLOCK_N": 32}),
    ("strided_lanes", "fp32", {"LANES": 128}),
    ("strided_lanes", "bf16", {"LANES": 64}),
]


@pytest.mark.parametrize(("kernel", "dtype", "constants"), CASES, ids=str)
def test_the_hardware_audit_has_the_bits_of_the_gpu(torch, kernel, dtype, constants):
    """What `--hardware` predicts on a CPU, for the orders that `identify` then names."""
    from tritongemm.auditing.contestants import Choices, contestant, find
    from tritongemm.auditing.devices import Cpu, Gpu, codes_of, values_of
    from tritongemm.auditing.explanation import identify
    from tritongemm.auditing.sampling import draw

    c = contestant(*find(kernel, "A")[:1], "A", kernel, kernel, Choices(constants))
    for M, N, K in ((40, 36, 200), (17, 33, 513)):
        a, b = (values_of(codes_of(x, dtype), dtype).reshape(x.shape) for x in draw(M, N, K, 1, "normal"))
        gpu = Gpu().run(c, a, b, (dtype, "fp32")).codes
        cpu = Cpu("hardware").run(c, a, b, (dtype, "fp32")).codes
        np.testing.assert_array_equal(gpu, cpu)
        if kernel == "blocked":
            found = identify(c, a, b, gpu, (dtype, "fp32"))
            assert found.order is not None, found


@pytest.mark.fpsan
def test_a_gluon_kernel_has_payloads_on_a_gpu(torch):
    import tritongemm_audit_kernels as kernels

    import tritongemm

    result = tritongemm.audit(
        kernels.gluon_kernel, "blocked", M=70, N=66, K=90, device="gpu", max_time=600,
        choices_a=tritongemm.Choices({"num_warps": 2}, grid="M, cdiv(N, BLOCK)"),
    )  # fmt: skip
    assert result.status == "PASS", str(result)
    assert result.algebra.status == "same"
    assert result.algebra.absent == {}


@pytest.mark.fpsan
@pytest.mark.parametrize("mistake", ["none", "k tail dropped"])
def test_warpgroup_instructions_have_payloads_on_a_gpu(torch, mistake):
    import tritongemm_audit_kernels as kernels

    import tritongemm

    result = tritongemm.audit(
        kernels.warpgroup_kernel, "blocked", M=70, N=66, K=190, dtype="bf16", out_dtype="fp32", device="gpu",
        max_time=600, choices_a=tritongemm.Choices({"MISTAKE": mistake}), choices_b=tritongemm.Choices({"BLOCK_M": 64}),
    )  # fmt: skip
    assert result.algebra.absent == {}
    assert (result.status, result.algebra.status) == (
        ("PASS", "same") if mistake == "none" else ("FAIL", "different")
    ), str(result)


@pytest.mark.fpsan
def test_a_gluon_kernel_that_cannot_be_launched_is_told_and_how_to(torch):
    import tritongemm_audit_kernels as kernels

    import tritongemm

    grid = tritongemm.Choices(grid="M, cdiv(N, BLOCK)")
    result = tritongemm.audit(kernels.gluon_kernel, "blocked", M=70, N=66, K=90, device="gpu", choices_a=grid)
    assert result.status == "INCONCLUSIVE", str(result)
    assert "--const-a num_warps=N" in str(result)


@pytest.mark.fpsan
@pytest.mark.parametrize(
    ("how", "status", "words"),
    [
        ("NaN to zero", "PASS WITH LIMITATIONS", "which says nothing here"),
        ("clamp to fp16", "PASS WITH LIMITATIONS", "which says nothing here"),
        ("fp16 sum", "FAIL", "Another precision: this is rounding"),
        ("relu", "FAIL", "as after a relu"),
    ],
)
def test_numbers_decide_where_payloads_are_a_kernels_own(torch, monkeypatch, how, status, words):
    import tritongemm_audit_kernels as kernels

    import tritongemm
    from tritongemm.auditing import algebra, rounding, sweep

    shapes = algebra.shapes_to_try
    monkeypatch.setattr(algebra, "shapes_to_try", lambda *given: shapes(*given)[: algebra.ESSENTIAL])
    monkeypatch.setattr(sweep, "SWEEP", {})
    monkeypatch.setattr(rounding, "measure_growth", lambda *given: [])
    result = tritongemm.audit(
        kernels.epilogue_kernel, "blocked", M=70, N=66, K=190, device="gpu", max_time=600,
        choices_a=tritongemm.Choices({"HOW": how}), choices_b=tritongemm.Choices({"BLOCK_M": 16, "BLOCK_N": 16}),
    )  # fmt: skip
    assert result.status == status, str(result)
    assert words in " ".join(str(result).split())
    assert ("A" in result.algebra.exact) == (how != "relu")


@pytest.mark.fpsan
def test_functions_and_tensor_cores_are_audited(torch):
    import tritongemm
    from tritongemm.auditing.implied_orders import UnitOrder

    def multiply(a, b):
        return (a.double() @ b.double()).float()

    result = tritongemm.audit(
        multiply, "blocked", M=96, N=80, K=512, dtype="fp16", out_dtype="fp32", device="gpu", max_time=600
    )
    assert result.status == "PASS WITH LIMITATIONS", str(result)
    assert result.algebra.absent == {"A": "it launches no Triton kernel"}
    assert result.algebra.checked["A"] == len(result.algebra.trials)
    assert isinstance(result.rounding.identified["B"].order, UnitOrder), str(result)
    assert result.rounding.main["B"].bound_exceeded == 0
    assert {g.letter: g for g in result.rounding.growth}["B"].bias < -0.9


@pytest.mark.fpsan
@pytest.mark.parametrize(
    ("mistake", "status", "words"),
    [
        ("none", "PASS WITH LIMITATIONS", "within what is allowed"),
        ("no max", "FAIL", "whose maximum is not subtracted first"),
        ("fp16 sum", "FAIL", "It is rounding"),
    ],
)
def test_kernels_of_any_signature_are_audited(torch, mistake, status, words):
    import tritongemm_case_kernels as ck

    import tritongemm

    def rows(rng, rows=7, columns=100):
        return {"x": torch.from_numpy(rng.standard_normal((rows, columns)).astype(np.float32))}

    result = tritongemm.audit_kernel(
        lambda x: ck.softmax(x, mistake), lambda x: torch.softmax(x, 1), rows, distributions=["extreme"],
        production={"rows": 512, "columns": 4000}, device="gpu",
    )  # fmt: skip
    assert result.status == status, str(result)
    assert words in " ".join([*result.verdict.failures, *result.verdict.sentences])
    side = result.sides[0]
    assert side.reruns == 0
    assert side.launched == 1
    assert any(m.spec.why == "production" for m in side.measured)


@pytest.mark.fpsan
def test_gradients_are_audited_on_a_gpu(torch):
    """What the forward pass keeps is rounded, and the backward pass runs in a thread of PyTorch's."""
    import tritongemm_case_kernels as ck

    import tritongemm

    def rows(rng, rows=5, columns=60):
        return {"x": torch.from_numpy(rng.standard_normal((rows, columns)).astype(np.float32))}

    result = tritongemm.audit_kernel(
        ck.differentiable_softmax(), lambda x: torch.softmax(x, 1), rows, gradients=["x"], distributions=["large"],
        device="gpu",
    )  # fmt: skip
    assert result.status == "PASS WITH LIMITATIONS", str(result)
    assert {m.output for m in result.sides[0].measured} == {"result", "dx"}


def test_functions_of_any_signature_are_audited(torch):
    import tritongemm

    def rows(rng, rows=7, columns=100):
        return {"x": torch.from_numpy(rng.standard_normal((rows, columns)).astype(np.float32))}

    same = tritongemm.audit_kernel(torch.nn.functional.silu, lambda x: x * torch.sigmoid(x), rows, device="gpu")
    assert same.status.startswith("PASS"), str(same)


def test_products_on_a_gpu_are_asserted_close(torch):
    import tritongemm

    rng = np.random.default_rng(0)
    a, b = (torch.from_numpy(rng.uniform(-1, 1, s).astype(np.float32)).cuda() for s in ((300, 2000), (2000, 200)))
    tritongemm.assert_close(a @ b, a, b)
    low = (a.bfloat16() @ b.bfloat16()).float()
    tritongemm.assert_close((a.bfloat16() @ b.bfloat16()), a.bfloat16(), b.bfloat16())
    with pytest.raises(AssertionError, match="another precision"):
        tritongemm.assert_close(low, a, b)
    wrong = a @ b
    wrong[:, 64:] -= a[:, 1984:] @ b[1984:, 64:]
    with pytest.raises(AssertionError, match="from k = 1984 of 2000 on are missing"):
        tritongemm.assert_close(wrong, a, b)
