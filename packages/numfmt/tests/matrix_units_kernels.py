"""Triton kernels whose bits the matrix unit models must predict, and the cases that are compared.

Imported by tests that need Triton (and a GPU, or only its compiler), and by the recorder.
"""

from dataclasses import dataclass, field

import triton
import triton.language as tl

from numfmt.matrix_units.schedules import TlDot

TRITON_NAMES = {"fp32": "fp32", "tf32": "fp32", "bf16": "bf16", "fp16": "fp16", "e4m3": "fp8e4nv", "e5m2": "fp8e5"}
TL_DTYPES = {"fp32": tl.float32, "fp16": tl.float16, "bf16": tl.bfloat16}


@triton.jit
def dot_loop(
    a_ptr,
    b_ptr,
    c_ptr,
    out_ptr,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SEPARATE: tl.constexpr,
    PRECISION: tl.constexpr,
    IMPRECISE: tl.constexpr,
    ACC: tl.constexpr,
    WIDEN: tl.constexpr,
    EVEN_K: tl.constexpr,
):
    """out = c + a @ b.T for a (M, K) and b (N, K): one tl.dot per BLOCK_K, as `acc = dot(a, b, acc)` or `acc +=
    dot(a, b)`.
    """
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    acc = tl.load(c_ptr + rows[:, None] * N + columns[None, :])
    for start in range(0, K, BLOCK_K):
        k = start + inner
        if EVEN_K:
            a = tl.load(a_ptr + rows[:, None] * K + k[None, :])
            b = tl.load(b_ptr + columns[None, :] * K + k[:, None])
        else:
            a = tl.load(a_ptr + rows[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
            b = tl.load(b_ptr + columns[None, :] * K + k[:, None], mask=k[:, None] < K, other=0.0)
        if WIDEN is not None:
            a = a.to(WIDEN)
            b = b.to(WIDEN)
        if SEPARATE:
            acc += tl.dot(a, b, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE, out_dtype=ACC)
        else:
            acc = tl.dot(a, b, acc, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE, out_dtype=ACC)
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], acc)


@dataclass(frozen=True)
class Case:
    """One way of writing a product in Triton.

    Attributes:
        loads: Formats of the operands in memory.
        schedule: What `matmul` predicts it with; the kernel's constants come from it.
        accumulator: "fp32" or "fp16".
        multiplied: Formats that `matmul` is given, if the kernel widens the operands before tl.dot.
        block_k_multiple: K is no multiple of BLOCK_K.
    """

    loads: tuple[str, str]
    schedule: TlDot
    accumulator: str = "fp32"
    multiplied: tuple[str, str] | None = None
    ragged: bool = field(default=False)

    @property
    def name(self):
        """A name that is also a test id and a key in the recordings."""
        s = self.schedule
        parts = [
            "x".join(dict.fromkeys(self.loads)),
            s.form.replace("=", ""),
            f"k{s.block_k}",
            f"m{s.block_m}",
            f"w{s.num_warps}",
        ]
        if self.inputs[0] in ("fp32", "tf32"):
            parts.append(s.input_precision)
        if s.max_num_imprecise_acc is not None:
            parts.append(f"imprecise{s.max_num_imprecise_acc}")
        if self.accumulator == "fp16":
            parts.append("acc16")
        if self.multiplied is not None:
            parts.append(f"as_{self.multiplied[0]}")
        if self.ragged:
            parts.append("ragged")
        return "-".join(parts)

    @property
    def inputs(self):
        """Formats that `matmul` is given."""
        return self.multiplied or self.loads

    def constants(self):
        """The kernel's compile-time arguments."""
        s = self.schedule
        widened = self.multiplied[0] if self.multiplied is not None else None
        return {
            "BLOCK_M": s.block_m,
            "BLOCK_N": s.block_n,
            "BLOCK_K": s.block_k,
            "SEPARATE": s.form == "+=",
            "PRECISION": s.input_precision if self.inputs[0] == "fp32" else None,
            "IMPRECISE": s.max_num_imprecise_acc,
            "ACC": TL_DTYPES[self.accumulator],
            "WIDEN": None if widened is None else TL_DTYPES[widened],
            "EVEN_K": not self.ragged,
        }


def _both(loads, block_k, **more):
    return [Case(loads, TlDot(block_k, form, **more)) for form in ("acc=", "+=")]


def all_cases():
    """Every dtype, form, precision and instruction that the schedules know."""
    cases = []
    for key in ("fp16", "bf16"):
        pair = (key, key)
        cases += _both(pair, 64)
        cases += _both(pair, 32, max_num_imprecise_acc=32)
        cases += _both(pair, 32, block_m=32)
        cases += _both(pair, 64, block_m=16, num_warps=1, max_num_imprecise_acc=32)
        cases.append(Case(pair, TlDot(16)))
        cases.append(Case(pair, TlDot(128, block_m=128, num_warps=8)))
        cases.append(Case(pair, TlDot(64), ragged=True))
    half = ("fp16", "fp16")
    cases += [Case(half, TlDot(64, form), "fp16") for form in ("acc=", "+=")]
    cases += [Case(half, TlDot(32, form, block_m=16, num_warps=2), "fp16") for form in ("acc=", "+=")]
    cases.append(Case(half, TlDot(64, "+=", max_num_imprecise_acc=32), "fp16"))

    single = ("fp32", "fp32")
    for precision in ("tf32", "ieee"):
        cases += _both(single, 32, input_precision=precision)
        cases += _both(single, 32, input_precision=precision, max_num_imprecise_acc=16)
    for precision in ("tf32", "tf32x3", "bf16x3", "bf16x6"):
        cases += _both(single, 64, input_precision=precision)
        cases.append(Case(single, TlDot(32, input_precision=precision, block_m=32)))
        cases.append(Case(single, TlDot(32, input_precision=precision), ragged=True))
    cases.append(Case(single, TlDot(16, input_precision="tf32", block_m=16, num_warps=1)))

    for pair in (("e4m3", "e4m3"), ("e5m2", "e5m2"), ("e4m3", "e5m2"), ("e5m2", "e4m3")):
        cases += _both(pair, 64)
        cases += _both(pair, 128)
        if pair != ("e4m3", "e4m3"):
            cases.append(Case(pair, TlDot(128, max_num_imprecise_acc=64)))
    pair = ("e4m3", "e4m3")
    cases += _both(pair, 32)
    cases += _both(pair, 128, block_m=128, num_warps=8)
    for n in (32, 48, 64, 96, 128):
        cases += _both(pair, 128, max_num_imprecise_acc=n)
    for n in (0, 16):
        cases += _both(pair, 64, max_num_imprecise_acc=n)
    cases += _both(pair, 64, block_m=32)
    cases += _both(pair, 64, num_warps=2)
    cases += _both(pair, 64, block_m=16, num_warps=1, max_num_imprecise_acc=32)
    cases += _both(("e5m2", "e5m2"), 128, block_m=16)
    cases += [Case(pair, TlDot(64, form), "fp16") for form in ("acc=", "+=")]
    cases += [Case(pair, TlDot(64, form, block_m=16), "fp16") for form in ("acc=", "+=")]
    cases.append(Case(pair, TlDot(64, max_num_imprecise_acc=32), "fp16"))
    cases.append(Case(("e4m3", "e5m2"), TlDot(64), "fp16"))
    cases.append(Case(pair, TlDot(64), ragged=True))
    cases.append(Case(pair, TlDot(64, "+=", max_num_imprecise_acc=32), ragged=True))

    # Operands widened after the load: mma.sync permutes k, wgmma does not.
    for key in ("fp16", "bf16"):
        wide = (key, key)
        cases.append(Case(pair, TlDot(64, block_m=16, k_width=4), multiplied=wide))
        cases.append(Case(pair, TlDot(64), multiplied=wide))
    cases.append(Case(half, TlDot(32, block_m=16, k_width=2), multiplied=single))
    cases.append(Case(pair, TlDot(32, block_m=16, k_width=4), multiplied=single))
    cases.append(Case(half, TlDot(32), multiplied=single))
    names = [case.name for case in cases]
    assert len(set(names)) == len(names), [n for n in names if names.count(n) > 1]
    return cases


def compile_case(case, target):
    """The kernel of a case compiled without a GPU.

    Args:
        case: The case.
        target: A `triton.backends.compiler.GPUTarget`.
    """
    constants = case.constants()
    pointer = {"fp32": "*fp32", "fp16": "*fp16"}[case.accumulator]
    signature = {
        "a_ptr": "*" + TRITON_NAMES[case.loads[0]],
        "b_ptr": "*" + TRITON_NAMES[case.loads[1]],
        "c_ptr": pointer,
        "out_ptr": pointer,
        "N": "i32",
        "K": "i32",
        **dict.fromkeys(constants, "constexpr"),
    }
    # Aligned pointers and sizes, as a launch with ordinary tensors specialises them.
    attributes = {(i,): [["tt.divisibility", 16]] for i in range(6)}
    source = triton.compiler.ASTSource(dot_loop, signature, constants, attrs=attributes)
    return triton.compile(source, target=target, options={"num_warps": case.schedule.num_warps})
