"""Audits of kernels that do something to the product: harmless to numbers, harmful, or a matter of rounding.

A table of kernels, each with what is to be said of it, and what not.
"""

import numpy as np
import pytest

from tritongemm.assertions import closeness
from tritongemm.auditing.symptoms import EPILOGUE

kernels = pytest.importorskip("tritongemm_audit_kernels")
from_run = pytest.importorskip("tritongemm.auditing.run")
contestants = pytest.importorskip("tritongemm.auditing.contestants")
Choices = contestants.Choices

pytestmark = pytest.mark.triton

SMALL = {"M": 24, "N": 20, "K": 70, "device": "cpu", "max_time": 300}
TILES = Choices({"BLOCK_M": 16, "BLOCK_N": 16})
DIFFERENT, ROUNDING = "Different algebra: this is no rounding.", "Another precision: this is rounding"
OWN = "its payloads are not those of the product, which says nothing here"
# Never true of any kernel here.
FALSE = ("other sizes bring the mistake out", "what differs is a conversion to a narrower type")

HARMLESS = {
    "NaN to zero": ("a comparison of floats (tritongemm_audit_kernels.py:", "which sees payloads instead of numbers"),
    "clamp to fp16": ("a clamp (",),
    "minimum and maximum": ("a maximum (", "a minimum (", "which see payloads"),
    "flush the tiny": ("an absolute value (", "a comparison of floats ("),
    "sign and size": ("an absolute value (", "a comparison of floats ("),
    "two halves": ("an identity of real numbers",),
    "three thirds": ("a division (", "of whose identities payloads keep few"),
    "rows scaled": ("an absolute value (", "a comparison of floats (", "a division ("),
}
# Payloads of these are the product's. The last two have an operation that payloads do not cover.
EQUAL = {
    "plain": "PASS",
    "two relus": "PASS WITH LIMITATIONS",  # A maximum loses NaN.
    "fp64 and back": "PASS",
    "zero times": "PASS WITH LIMITATIONS",  # So does infinity become NaN.
    "bits and back": "PASS WITH LIMITATIONS",
    "operands without NaN": "PASS WITH LIMITATIONS",
}
HARMFUL = {
    "one row halved": ("0.5 times the product",),
    "clamp to 1": ("all of them are -1 or 1, as after a clamp",),
    "relu": ("zero where the product is negative, as after a relu",),
    "relu by comparison": ("zero where the product is negative, as after a relu",),
    "sign": ("No common mistake",),
    "flush below 1": ("There zero",),
    "absolute value": ("the product is negative, and they are its absolute value",),
    "minus the absolute value": ("the product is positive, and they are minus its absolute value",),
    "leaky relu": ("where it is negative, as after a leaky relu",),
    "gelu": ("looks like another epilogue: ", "gelu was applied"),
    "whole numbers": ("No common mistake",),
}
IMPRECISE = {
    "bf16 result": ("the result is converted to a 16-bit type before it is stored",),
    "fp16 operands": ("both operands are converted to a 16-bit type first",),
    "fp16 sum": ("a conversion to a narrower type (tritongemm_audit_kernels.py:", "fp16"),
}


@pytest.fixture(autouse=True)
def product_alone(monkeypatch):
    """Growth, other distributions and large products have tests of their own."""
    from tritongemm.auditing import algebra, rounding, sweep

    shapes = algebra.shapes_to_try
    monkeypatch.setattr(algebra, "shapes_to_try", lambda *given: shapes(*given)[: algebra.ESSENTIAL + 1])
    monkeypatch.setattr(sweep, "SWEEP", {})
    monkeypatch.setattr(rounding, "measure_growth", lambda *given: [])


def audited(how, stop=0, against="blocked", second=TILES, **types):
    first = Choices({"HOW": how, "STOP": stop})
    return from_run.audit(kernels.epilogue_kernel, against, **SMALL, **types, choices_a=first, choices_b=second)


def told(result):
    v = result.verdict
    return " ".join([*v.failures, *v.doubts, *v.sentences, *v.limitations])


@pytest.mark.parametrize("how", HARMLESS)
def test_numbers_outweigh_payloads_that_are_the_kernels_own(how):
    result = audited(how)
    if how == "three thirds" and result.algebra.version == "3.8":
        pytest.skip("the algebra of Triton 3.8 keeps this division")
    assert result.status == "PASS WITH LIMITATIONS", str(result)
    assert OWN in told(result)
    for words in HARMLESS[how]:
        assert words in told(result)
    assert not any(words in str(result) for words in (DIFFERENT, ROUNDING, *FALSE))
    assert result.rounding.main["A"].bound_exceeded == 0
    assert f"in all {result.algebra.exact['A']} products where they differ, and so are its floats" in told(result)


@pytest.mark.parametrize("how", EQUAL)
def test_equal_payloads_need_no_numbers(how):
    result = audited(how)
    assert result.status == EQUAL[how], str(result)
    assert result.algebra.exact == {}
    assert result.algebra.different == 0


@pytest.mark.parametrize("how", HARMFUL)
def test_a_function_of_the_product_is_no_product_and_is_named(how):
    result = audited(how)
    assert result.status == "FAIL"
    assert DIFFERENT in told(result)
    for words in HARMFUL[how]:
        assert words in told(result)
    assert not any(words in str(result) for words in (OWN, ROUNDING, *FALSE))


@pytest.mark.parametrize("how", IMPRECISE)
def test_rounding_is_called_rounding(how):
    result = audited(how)
    assert result.status == "FAIL"
    assert ROUNDING in told(result)
    assert "Computed without any rounding it is the matrix product" in told(result)
    for words in IMPRECISE[how]:
        # Triton 3.8's payloads cannot tell which conversion it was.
        assert words in told(result) or (words == "fp16" and result.algebra.version == "3.8")
    assert not any(words in str(result) for words in (DIFFERENT, *FALSE))


@pytest.mark.parametrize("how", ["NaN to zero", "clamp to fp16", "rows scaled", "fp16 sum"])
def test_a_harmless_operation_hides_no_mistake(how):
    result = audited(how, stop=1)
    assert result.status == "FAIL"
    assert DIFFERENT in told(result)
    if how != "rows scaled":
        assert OWN not in told(result)


@pytest.mark.parametrize(
    ("how", "status", "words"),
    [
        ("plain", "PASS", "have identical payloads"),
        ("clamp to fp16", "PASS WITH LIMITATIONS", "a clamp ("),
        ("two halves", "PASS WITH LIMITATIONS", "an identity of real numbers"),
        ("relu", "FAIL", "as after a relu"),
        ("fp16 sum", "FAIL", "exceeds the a-priori bound"),
    ],
)
def test_kernels_of_16_bits_are_judged_alike(how, status, words):
    result = audited(how, dtype="fp16")
    assert result.status == status, str(result)
    assert words in told(result)
    # Results of 16 bits are converted by every such kernel.
    assert "a conversion to a narrower type" not in told(result)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_no_rounding_of_a_narrow_result_hides_a_mistake_in_one_output(dtype):
    """A thousandth of one product is less than one rounding to bf16; payloads see it, and so do numbers in fp32."""
    result = audited("one product missing", dtype=dtype)
    assert result.status == "FAIL", str(result)
    assert DIFFERENT in told(result)
    assert OWN not in told(result)


def test_two_kernels_with_the_same_harmless_operation_pass():
    result = audited("NaN to zero", against=kernels.epilogue_kernel, second=Choices({"HOW": "NaN to zero"}))
    assert result.status == "PASS WITH LIMITATIONS", str(result)
    assert result.algebra.status == "not applicable"
    assert set(result.algebra.exact) == {"A", "B"}


def test_a_kernel_whose_numbers_cannot_be_computed_in_time_is_inconclusive(monkeypatch):
    from tritongemm.auditing import numbers
    from tritongemm.auditing.clock import OutOfTime

    def late(*given):
        raise OutOfTime("late")

    monkeypatch.setattr(numbers, "_run", late)
    result = audited("NaN to zero")
    assert result.status == "INCONCLUSIVE"
    assert "no time to see whether its numbers are" in told(result)


def test_right_floats_alone_do_not_outweigh_payloads(monkeypatch):
    """Without an evaluation in float64, an operation has to explain what payloads show."""
    from tritongemm.auditing import numbers
    from tritongemm.auditing.devices import EXACT

    run = numbers._run
    monkeypatch.setattr(
        numbers, "_run", lambda c, d, t, k, domain: None if domain == EXACT else run(c, d, t, k, domain)
    )
    explained = audited("NaN to zero")
    assert explained.status == "PASS WITH LIMITATIONS", str(explained)
    assert "Its floats are within the bounds of the matrix product" in told(explained)
    assert audited("two halves").status == "FAIL"
    assert audited("fp16 sum").status == "FAIL"


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda c: np.maximum(c, 0), "as after a relu"),
        (lambda c: np.clip(c, -2, 3), "all of them are -2 or 3"),
        (np.abs, "its absolute value"),
        (lambda c: -np.abs(c), "minus its absolute value"),
    ],
)
def test_assert_close_names_a_function_of_the_product(function, words):
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, s).astype(np.float32) for s in ((60, 90), (90, 50)))
    found = closeness(function(a @ b), a, b)
    assert found.looks_like.kind == EPILOGUE
    assert words in found.message()
    never = a @ b
    never[16:, :] = 0
    assert closeness(never, a, b).looks_like.text == "they are zero: never computed or never written"


def test_a_kernel_that_fpsan_does_not_run_on_a_gpu_is_checked_by_its_numbers(monkeypatch):
    """The compiler's pass may refuse what runs otherwise; a mistake is found by numbers then."""
    from tritongemm.auditing.devices import PAYLOADS, Cpu
    from tritongemm.errors import KernelFailed

    class Refusing(Cpu):
        kind = "gpu"

        def run(self, contestant, a, b, dtypes, *, domain="floats", **how):
            if domain == PAYLOADS and contestant.letter == "A":
                raise KernelFailed("its launch failed: RuntimeError: PassManager::run failed")
            return super().run(contestant, a, b, dtypes, domain=domain, **how)

    monkeypatch.setattr(from_run, "device_named", lambda name: Refusing())
    right = audited("plain")
    assert right.status == "PASS WITH LIMITATIONS", str(right)
    assert "algebra: not available for this kernel: Triton's FpSan does not run it (its launch failed" in told(right)
    assert f"Its numbers agree with float64 in {len(right.algebra.trials)} products" in told(right)
    wrong = audited("plain", stop=1)
    assert wrong.status == "FAIL"
    assert "from k = 64 of 65 on are missing" in told(wrong)


@pytest.mark.parametrize("hardware", [False, True])
def test_the_dot_of_tritons_default_is_called_tf32(hardware):
    """The most frequent surprise: tl.dot of fp32 operands without input_precision."""
    choices = Choices({**TILES.constants, "INPUT_PRECISION": "tf32"})
    result = from_run.audit("blocked", "blocked", **SMALL, choices_a=choices, choices_b=TILES, hardware=hardware)
    assert result.status == "FAIL"
    first = result.verdict.failures[0]
    how = "truncated" if hardware else "rounded"
    assert f"this looks like another precision: as if both operands were {how} to tf32 or fp16" in first
    assert "unless it is told input_precision='ieee'" in first
    assert "--precision-a tf32." in first
    declared = Choices(choices.constants, precision="tf32")
    again = from_run.audit("blocked", "blocked", **SMALL, choices_a=declared, choices_b=TILES, hardware=hardware)
    assert again.status.startswith("PASS"), str(again)


def test_a_function_that_rounds_is_no_other_algebra():
    def half(a, b):
        return (a.astype(np.float16) @ b.astype(np.float16)).astype(np.float32)

    result = from_run.audit(half, "blocked", **SMALL, choices_b=TILES)
    assert result.status == "FAIL"
    assert "Different algebra" not in told(result)
    assert "this looks like another precision" in told(result)
    assert "A (half) is off with other operands too: positive" in told(result) or not result.rounding.swept
