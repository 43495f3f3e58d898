"""The Triton kernel whose bits the matrix unit models must predict.

Imported by tests that need Triton (and a GPU, or only its compiler), and by the recorder.
"""

import triton
import triton.language as tl

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


def constants(case):
    """The kernel's compile-time arguments for a case."""
    s = case.schedule
    return {
        "BLOCK_M": s.block_m,
        "BLOCK_N": s.block_n,
        "BLOCK_K": s.block_k,
        "SEPARATE": s.form == "+=",
        "PRECISION": s.input_precision if case.inputs[0] == "fp32" else None,
        "IMPRECISE": s.max_num_imprecise_acc,
        "ACC": TL_DTYPES[case.accumulator],
        "WIDEN": None if case.multiplied is None else TL_DTYPES[case.multiplied[0]],
        "EVEN_K": not case.ragged,
    }


def compile_case(case, target):
    """The kernel of a case compiled without a GPU.

    Args:
        case: The case.
        target: A `triton.backends.compiler.GPUTarget`.
    """
    fixed = constants(case)
    pointer = {"fp32": "*fp32", "fp16": "*fp16"}[case.accumulator]
    signature = {
        "a_ptr": "*" + TRITON_NAMES[case.loads[0]],
        "b_ptr": "*" + TRITON_NAMES[case.loads[1]],
        "c_ptr": pointer,
        "out_ptr": pointer,
        "N": "i32",
        "K": "i32",
        **dict.fromkeys(fixed, "constexpr"),
    }
    # Aligned pointers and sizes, as a launch with ordinary tensors specialises them.
    aligned = range(5) if case.ragged else range(6)
    attributes = {(i,): [["tt.divisibility", 16]] for i in aligned}
    source = triton.compiler.ASTSource(dot_loop, signature, fixed, attrs=attributes)
    return triton.compile(source, target=target, options={"num_warps": case.schedule.num_warps})
