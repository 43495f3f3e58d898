"""The fp32 kernel without matrix units, without a GPU: what the compiler and the assembler make of it."""

import re
import subprocess

import pytest

pytestmark = pytest.mark.triton


def simt_module():
    triton = pytest.importorskip("triton")
    if tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9):
        pytest.skip("the kernels need Triton 3.9")
    from tritongemm.kernels.hopper import simt

    return simt


def compiled(aligned=True, epilogue=False):
    simt = simt_module()
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.experimental.gluon._runtime import GluonASTSource

    config = simt.configure(None)
    constants = {
        "BLOCK_M": config.block_m, "BLOCK_N": config.block_n, "BLOCK_K": config.block_k, "GROUP_M": config.group_m,
        "STAGES": config.stages, "ALPHA": epilogue, "ADD": epilogue, "BIAS": epilogue,
        "ACTIVATION": "gelu" if epilogue else None,
    }  # fmt: skip
    if epilogue:
        constants["stride_dn"] = 1  # what the launcher does of a stride of 1
    widths = {"a_desc": config.block_m, "b_desc": config.block_n}
    names = simt.simt_kernel.arg_names
    signature = {}
    for name in names:
        if name in constants:
            signature[name] = "constexpr"
        elif name in widths:
            signature[name] = f"tensordesc<fp32[{config.block_k},{widths[name]}],{simt._PLAIN.value!r}>"
        elif name.endswith("_ptr"):
            signature[name] = "*fp32"
        else:
            signature[name] = "fp32" if name in ("alpha", "beta") else "i32"
    multiples = [n for n in names if signature[n] == "*fp32" or n == "stride_om"] if aligned else []
    source = GluonASTSource(
        simt.simt_kernel,
        signature,
        {(names.index(name),): value for name, value in constants.items()},
        {(names.index(name),): [["tt.divisibility", 16]] for name in multiples},
    )
    options = {"num_warps": 4, "maxnreg": 168, "enable_fp_fusion": True}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def assembly(kernel, tmp_path):
    """Bytes of stack per thread, and the instructions."""
    import triton

    binary = tmp_path / "kernel.cubin"
    binary.write_bytes(kernel.asm["cubin"])
    disassembler = triton.knobs.nvidia.cuobjdump.path

    def output(option):
        return subprocess.run([disassembler, option, binary], capture_output=True, text=True, check=True).stdout

    stack = int(re.search(r"STACK:(\d+)", output("-res-usage")).group(1))
    return stack, re.findall(r"/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", output("-sass"))


def clocks_of_reads(instructions):
    """Clocks that a multiply-add takes to read its registers, on average.

    Registers lie in two banks, even and odd, each read once per clock; `.reuse` keeps an operand for the next
    instruction, if that has it in the same place. An H200's profiler counts a stalled dispatch for each clock beyond
    the first: 0.26 per instruction for a kernel of which this function says 1.29.
    """
    kept, clocks, count = [None] * 3, 0, 0
    for instruction in instructions:
        if not instruction.startswith("FFMA "):
            kept = [None] * 3
            continue
        operands = [x.strip() for x in instruction.split(None, 1)[1].split(",")][1:4]
        found = [re.match(r"-?R(\d+)", x) for x in operands]  # others are constants
        registers = [None if x is None else int(x.group(1)) for x in found]
        banks = [0, 0]
        for register, old in zip(registers, kept, strict=True):
            if register is not None and register != old:
                banks[register % 2] += 1
        clocks, count = clocks + max(banks), count + 1
        kept = [r if x.endswith(".reuse") else None for r, x in zip(registers, operands, strict=True)]
    return clocks / count


# Consumers, outputs per thread, and k for which the code is there: two in the loop, two at a stage's end.
MULTIPLY_ADDS = 2 * 128 * 4


@pytest.mark.parametrize("aligned", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_the_loop_over_k_is_short_and_reads_its_registers_in_time(aligned, tmp_path):
    kernel = compiled(aligned)
    assert kernel.metadata.shared <= 227 * 1024
    stack, instructions = assembly(kernel, tmp_path)
    assert stack == 0
    assert sum(x.startswith("FFMA ") for x in instructions) == MULTIPLY_ADDS
    assert clocks_of_reads(instructions) < 1.2
    # 24 numbers per k, 16 bytes at a time.
    assert sum(x.startswith("LDS.128 ") for x in instructions) == 6 * MULTIPLY_ADDS // 128


@pytest.mark.exhaustive
def test_an_epilogue_does_not_slow_the_loop_over_k(tmp_path):
    stack, instructions = assembly(compiled(epilogue=True), tmp_path)
    assert stack <= 64
    # Of the epilogue's multiply-adds few take part in the average.
    assert clocks_of_reads(instructions) < 1.25
    assert sum(x.startswith("LDS.128 ") for x in instructions) == 6 * MULTIPLY_ADDS // 128


def test_reads_of_registers_are_counted_per_bank():
    assert clocks_of_reads(["FFMA R0, R1, R2, R0"]) == 2
    assert clocks_of_reads(["FFMA R0, R1, R3, R5"]) == 3
    assert clocks_of_reads(["FFMA R0, R1, R1, R2"]) == 2
    assert clocks_of_reads(["FFMA R0, R2, R1.reuse, R0", "FFMA R4, R6, R1.reuse, R4"]) == 2
    assert clocks_of_reads(["FFMA R0, R2, R1.reuse, R0", "FFMA R4, R7, R1, R4"]) == 1.5
    assert clocks_of_reads(["FFMA R0, R2, R1.reuse, R0", "LDS R9, [R8]", "FFMA R4, R7, R1, R4"]) == 2


def test_the_stages_fill_the_shared_memory():
    simt = simt_module()
    config = simt.configure(None)
    assert config.stages * simt._stage(config) <= simt._SHARED < (config.stages + 1) * simt._stage(config)
