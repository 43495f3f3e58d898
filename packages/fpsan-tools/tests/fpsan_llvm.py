"""Run what Triton's compiler emits under FpSan on a CPU: the final LLVM IR of a kernel, by LLVM's own JIT compiler.

The IR is for an NVIDIA GPU. Three things in it are not portable and are replaced here: PTX assembly for loads and
stores (parsed, and re-emitted as LLVM IR), special registers, and operations between the threads of a warp. A kernel
without the latter runs thread by thread in a native loop; one with them runs as 32 operating-system threads that meet
at Python barriers. Kernels are compiled for one warp, so a warp is a whole program.
"""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np

WARP = 32


# ---------------------------------------------------------------------------------------------------------------------
# Compiling with Triton, without a GPU


def compile_llvm(
    kernel: Any, signature: dict[str, str], target: tuple[str, Any, int] = ("cuda", 90, 32), **options: Any
) -> tuple[str, str, dict[str, Any]]:
    """Compile a kernel with FpSan for one warp, up to LLVM's IR.

    Args:
        kernel: a `triton.jit` function.
        signature: argument name to Triton type.
        target: Triton's back end, the architecture, and the threads of a warp.
        options: further options of the back end (`fpsan_homomorphic_casts=True`).

    Returns:
        The sanitised TTGIR, the final LLVM IR, and the compiler's metadata (shared memory, scratch sizes).
    """
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.compiler import make_backend

    gpu = GPUTarget(*target)
    backend = make_backend(gpu)
    fixed = {"instrumentation_mode": "fpsan", "num_warps": 1, "enable_fp_fusion": True}
    parsed = backend.parse_options({**fixed, **options})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    source = ASTSource(fn=kernel, signature=signature, constexprs={})
    module = source.make_ir(gpu, parsed, backend.get_codegen_implementation(parsed), backend.get_module_map(), context)
    metadata: dict[str, Any] = {"target": gpu, **vars(parsed)}
    stages: dict[str, Callable[..., Any]] = {}
    backend.add_stages(stages, parsed, source.language)
    texts = {}
    for name in ("ttir", "ttgir", "llir"):
        module = stages[name](module, metadata)
        texts[name] = module if isinstance(module, str) else module.str_nodebug()
    return texts["ttgir"], texts["llir"], metadata


# ---------------------------------------------------------------------------------------------------------------------
# From GPU IR to CPU IR

_ASM_CALL = re.compile(
    r"(?P<result>%[\w.]+ = )?(?:tail )?call (?P<type>\{[^}]*\}|<[^>]*>|\S+) asm (?:sideeffect )?"
    r'"(?P<text>[^"]*)", "(?P<constraints>[^"]*)"\((?P<arguments>.*)\)'
)
_INTRINSIC = re.compile(r"@llvm\.nvvm\.([\w.]+)")


_REMAINDER = re.compile(r"%(?P<to>[\w.]+) = srem (?P<type>i\d+|<\d+ x i\d+>) (?P<x>[^,]+), (?P<y>%[\w.]+)")


def _defined_remainder(match: re.Match[str]) -> str:
    """A remainder by -1 is 0, also of the most negative integer, where this processor traps."""
    to, kind, x, y = match["to"], match["type"], match["x"], match["y"]
    minus_one, one = (f"splat (i{kind.split('i')[1][:-1]} {v})" if kind.startswith("<") else str(v) for v in (-1, 1))
    boolean = re.sub(r"i\d+", "i1", kind)
    return (
        f"%is.{to} = icmp eq {kind} {y}, {minus_one}\n"
        f"  %by.{to} = select {boolean} %is.{to}, {kind} {one}, {kind} {y}\n"
        f"  %{to} = srem {kind} {x}, %by.{to}"
    )


class NotPortable(Exception):
    """The IR holds something that this translation does not know."""


_MMA = re.compile(r"mma\.sync\.aligned\.(m16n8k32\.row\.col\.s32\.[us]8\.[us]8\.s32) (.*?);?\s*")


def _mma_helper(name: str, result: str, text: str, types: Sequence[str]) -> str:
    """An LLVM function that hands an integer matrix instruction's registers to a callback: d, a, b, c in memory."""
    match = _MMA.fullmatch(text)
    assert match is not None
    registers = [int(r) for r in re.findall(r"\$(\d+)", match[2])]
    count = len(types)
    body = [f"define internal {result} @{name}({', '.join(f'i32 %a{4 + i}' for i in range(count))}) {{"]
    body += ["  %memory = alloca [14 x i32]"]
    for place, register in enumerate(registers):
        body.append(f"  %at{place} = getelementptr i32, ptr %memory, i32 {place}")
        if register >= 4:
            body.append(f"  store i32 %a{register}, ptr %at{place}")
    operation = "mma." + match[1]
    body.append(f"  call void @{_symbol(operation)}(ptr %memory)")
    body.append(f"  %value = load {result}, ptr %memory\n  ret {result} %value\n}}")
    return "\n".join(body)


def _ptx_helper(name: str, result: str, text: str, constraints: str, types: Sequence[str]) -> str:
    """An LLVM function that does what a piece of PTX assembly does: moves, loads and stores, predicated or not."""
    parts = constraints.split(",")
    outputs = [p for p in parts if p.startswith("=")]
    members = [] if result == "void" else _split_arguments(result[1:-1]) if result.startswith("{") else [result]
    widths = [_register_bits(m) for m in members]
    body = [
        f"define internal {result} @{name}({', '.join(f'{t} %a{len(outputs) + i}' for i, t in enumerate(types))}) {{"
    ]
    body += [f"  %slot{i} = alloca i{w}" for i, w in enumerate(widths)]
    counter = iter(range(10**6))

    def fresh() -> str:
        return f"%t{next(counter)}"

    def read(operand: str, bits: int) -> str:
        """The value of a register operand or an immediate, as an integer of `bits` bits."""
        if not operand.startswith("$"):
            return str(int(operand, 0))
        index = int(operand[1:])
        if index < len(outputs):
            value = fresh()
            body.append(f"  {value} = load i{widths[index]}, ptr %slot{index}")
            have = widths[index]
        else:
            kind, value = types[index - len(outputs)], f"%a{index}"
            if kind == "ptr":
                return value
            if not re.fullmatch(r"i\d+", kind):
                have = _register_bits(kind)
                cast = fresh()
                body.append(f"  {cast} = bitcast {kind} {value} to i{have}")
                value = cast
            else:
                have = int(kind[1:])
        if have != bits:
            cast = fresh()
            body.append(f"  {cast} = {'trunc' if have > bits else 'zext'} i{have} {value} to i{bits}")
            value = cast
        return value

    for label, statement in enumerate(s.strip() for s in text.split(";")):
        if not statement:
            continue
        predicate = re.match(r"@(!?)\$(\d+)\s+", statement)
        if predicate:
            statement = statement[predicate.end() :]
            condition = f"%a{predicate[2]}"
            then, after = (f"then{label}", f"after{label}") if not predicate[1] else (f"after{label}", f"then{label}")
            body.append(f"  br i1 {condition}, label %{then}, label %{after}")
            body.append(f"then{label}:")
        _emit_statement(statement, body, outputs, widths, read, fresh)
        if predicate:
            body += [f"  br label %after{label}", f"after{label}:"]
    if result == "void":
        body.append("  ret void")
    else:
        values = []
        for i, w in enumerate(widths):
            value = fresh()
            body.append(f"  {value} = load i{w}, ptr %slot{i}")
            values.append((value, w))
        shaped = []
        for (value, w), member in zip(values, members, strict=True):
            if member != f"i{w}":
                cast = fresh()
                body.append(f"  {cast} = bitcast i{w} {value} to {member}")
                value = cast
            shaped.append((member, value))
        if result.startswith("{"):
            whole = "poison"
            for i, (member, value) in enumerate(shaped):
                step = fresh()
                body.append(f"  {step} = insertvalue {result} {whole}, {member} {value}, {i}")
                whole = step
            body.append(f"  ret {result} {whole}")
        else:
            body.append(f"  ret {result} {shaped[0][1]}")
    return "\n".join([*body, "}"])


def _register_bits(kind: str) -> int:
    """Bits of a scalar or vector LLVM type that sits in a register."""
    match = re.fullmatch(r"(?:<(\d+) x )?(i\d+|half|bfloat|float|double)>?", kind)
    if match is None:
        raise NotPortable(f"register of type {kind}")
    element = {"half": 16, "bfloat": 16, "float": 32, "double": 64}.get(match[2]) or int(match[2][1:])
    return int(match[1] or 1) * element


def _emit_statement(
    statement: str,
    body: list[str],
    outputs: list[str],
    widths: list[int],
    read: Callable[[str, int], str],
    fresh: Callable[[], str],
) -> None:
    move = re.fullmatch(r"mov\.[ub](\d+)\s+\$(\d+), ?(\$\d+|-?\w+)", statement)
    load = re.fullmatch(
        r"ld\.(?:global|shared|shared::cta)(?:\.v\d)?\.b(\d+)\s+\{?([^}\[]*)\}?, ?\[ ?\$(\d+) \+ (\d+) ?\]", statement
    )
    store = re.fullmatch(
        r"st\.(?:global|shared|shared::cta)(?:\.v\d)?\.b(\d+)\s+\[ ?\$(\d+) \+ (\d+) ?\], ?\{?([^}]*)\}?", statement
    )
    if move:
        index = int(move[2])
        body.append(f"  store i{widths[index]} {read(move[3], widths[index])}, ptr %slot{index}")
    elif load:
        bits = int(load[1])
        for i, register in enumerate(r.strip() for r in load[2].strip(" ,").split(",")):
            index, address, value = int(register[1:]), fresh(), fresh()
            body.append(
                f"  {address} = getelementptr i8, ptr {read('$' + load[3], 64)}, i64 {int(load[4]) + i * bits // 8}"
            )
            body.append(f"  {value} = load i{bits}, ptr {address}, align 1")
            if widths[index] != bits:
                wide = fresh()
                body.append(f"  {wide} = zext i{bits} {value} to i{widths[index]}")
                value = wide
            body.append(f"  store i{widths[index]} {value}, ptr %slot{index}")
    elif store:
        bits = int(store[1])
        for i, register in enumerate(r.strip() for r in store[4].split(",")):
            address = fresh()
            value = read(register, bits)
            body.append(
                f"  {address} = getelementptr i8, ptr {read('$' + store[2], 64)}, i64 {int(store[3]) + i * bits // 8}"
            )
            body.append(f"  store i{bits} {value}, ptr {address}, align 1")
    else:
        raise NotPortable(f"PTX statement {statement!r}")


def _split_arguments(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character in "(<{[") - (character in ")>}]")
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return [*parts, current.strip()] if current.strip() else parts


_ATTRIBUTES = re.compile(
    r"\b(nonnull|noundef|nofree|readnone|readonly|writeonly|captures\(none\)|align \d+|range\([^)]*\)) "
)


def _argument_type(argument: str) -> str:
    kind, _ = (
        _ATTRIBUTES.sub("", argument).rsplit(" ", 1)
        if not argument.startswith(("<", "{"))
        else _vector_argument(argument)
    )
    return kind.strip()


def _vector_argument(argument: str) -> tuple[str, str]:
    end = argument.index(">") + 1
    return argument[:end], argument[end:]


def translate(ir: str, kernel: str, pointers: int, shared: int) -> tuple[str, set[str]]:
    """Rewrite a kernel's LLVM IR for the host.

    Args:
        ir: the compiler's LLVM IR.
        kernel: the kernel's name.
        pointers: number of its pointer arguments, without the two scratch pointers that the compiler appends.
        shared: bytes of shared memory.

    Returns:
        The new IR, with a function `drive(ptr arguments, i32 programs)`, and the warp operations that it calls.
    """
    lines, helpers, warp_operations = [], {}, set()
    for raw in ir.splitlines():
        if raw.startswith(("target ", "!", "attributes ", "source_filename", ";")):
            continue
        line = re.sub(r", !\w+( !\d+| \d+)?", "", raw)
        line = re.sub(r" !dbg !\d+", "", line)
        line = re.sub(r" #\d+", "", line)
        line = re.sub(r" addrspace\(\d+\)", "", line).replace("ptx_kernel ", "")
        if line.startswith("@global_smem"):
            lines.append(f"@global_smem = internal global [{max(shared, 16)} x i8] zeroinitializer, align 128")
            continue
        assembly = _ASM_CALL.search(line)
        if assembly:
            arguments = _split_arguments(assembly["arguments"])
            types = [_argument_type(a) for a in arguments]
            key = (assembly["type"], assembly["text"], assembly["constraints"], tuple(types))
            name = helpers.setdefault(key, f"ptx{len(helpers)}")
            result = assembly["result"] or ""
            lines.append(f"  {result}call {assembly['type']} @{name}({assembly['arguments']})")
            continue
        line = _REMAINDER.sub(_defined_remainder, line)
        for operation in _INTRINSIC.findall(line):
            warp_operations.add(operation)
        lines.append(_INTRINSIC.sub(lambda m: "@gpu_" + m[1].replace(".", "_"), line))
    text = "\n".join(lines)
    for (result, assembly_text, constraints, types), name in helpers.items():
        decoded = re.sub(r"\\([0-9A-Fa-f]{2})", lambda m: chr(int(m[1], 16)), assembly_text)
        matrix = _MMA.fullmatch(decoded)
        if matrix:
            operation = "mma." + matrix[1]
            if operation not in warp_operations:
                text += f"\ndeclare void @{_symbol(operation)}(ptr)"
            warp_operations.add(operation)
            text += "\n" + _mma_helper(name, result, decoded, types)
        else:
            text += "\n" + _ptx_helper(name, result, decoded, constraints, types)
    arguments = ", ".join(f"ptr %p{i}" for i in range(pointers + 2))
    text += f"""
@thread = internal global i32 0
@program = internal global i32 0
define void @drive({arguments}, i32 %programs) {{
entry:
  br label %each_program
each_program:
  %program = phi i32 [0, %entry], [%next_program, %program_done]
  store i32 %program, ptr @program
  br label %each_thread
each_thread:
  %thread = phi i32 [0, %each_program], [%next_thread, %each_thread]
  store i32 %thread, ptr @thread
  call void @{kernel}({arguments})
  %next_thread = add i32 %thread, 1
  %threads_left = icmp ult i32 %next_thread, {WARP}
  br i1 %threads_left, label %each_thread, label %program_done
program_done:
  %next_program = add i32 %program, 1
  %programs_left = icmp ult i32 %next_program, %programs
  br i1 %programs_left, label %each_program, label %done
done:
  ret void
}}
"""
    return text, warp_operations


_SERIAL = {"read.ptx.sreg.tid.x", "read.ptx.sreg.ctaid.x"}
_SERIAL_DEFINITIONS = """
define internal i32 @gpu_read_ptx_sreg_tid_x() { %t = load i32, ptr @thread
  ret i32 %t }
define internal i32 @gpu_read_ptx_sreg_ctaid_x() { %t = load i32, ptr @program
  ret i32 %t }
"""


# ---------------------------------------------------------------------------------------------------------------------
# A warp of operating-system threads


class Warp:
    """Warp operations between 32 threads, as callbacks for the compiled code."""

    def __init__(self) -> None:
        self.local = threading.local()
        self.barrier = threading.Barrier(WARP)
        self.slots: list[Any] = [None] * WARP
        self.keep: list[Any] = []
        self.error: BaseException | None = None

    def exchange(self, value: Any) -> list[Any]:
        """Deposit a value and return those of all lanes."""
        self.slots[self.local.lane] = value
        self.barrier.wait()
        seen = list(self.slots)
        self.barrier.wait()
        return seen

    def shuffle(self, source: Callable[[int, int], int]) -> Callable[..., int]:
        def operation(mask: int, value: int, offset: int, clamp: int) -> int:
            lane = self.local.lane
            return int(self.exchange(value)[source(lane, offset)])

        return operation

    def _places(self, addresses: list[int], j: int, transposed: bool) -> list[int]:
        """Addresses of the two 16-bit elements of matrix j that this lane holds; lane 8*j+i gave row i's address."""
        row, pair = divmod(self.local.lane, 4)
        if transposed:
            return [addresses[8 * j + 2 * pair + h] + 2 * row for h in (0, 1)]
        return [addresses[8 * j + row] + 4 * pair + 2 * h for h in (0, 1)]

    def store_matrix(self, transposed: bool) -> Callable[..., None]:
        """stmatrix of 8x8 matrices of 16-bit elements, one a register."""

        def operation(address: int, *registers: int) -> None:
            addresses = self.exchange(address)
            for j, register in enumerate(registers):
                for h, place in enumerate(self._places(addresses, j, transposed)):
                    ctypes.c_uint16.from_address(place).value = (register >> (16 * h)) & 0xFFFF
            self.barrier.wait()

        return operation

    def load_matrix(self, count: int, transposed: bool) -> Callable[..., None]:
        """ldmatrix of `count` matrices, written to the array of registers at the second address."""

        def operation(address: int, registers: int) -> None:
            addresses = self.exchange(address)
            for j in range(count):
                low, high = (
                    ctypes.c_uint16.from_address(place).value for place in self._places(addresses, j, transposed)
                )
                ctypes.c_uint32.from_address(registers + 4 * j).value = low | high << 16
            self.barrier.wait()

        return operation

    def integer_mma(self, a_signed: bool, b_signed: bool) -> Callable[[int], None]:
        """mma.m16n8k32 of bytes with 32-bit sums; registers at the address: 4 of d, 4 of a, 2 of b, 4 of c."""

        def operation(memory: int) -> None:
            lane = self.local.lane
            mine = np.ctypeslib.as_array((ctypes.c_uint32 * 14).from_address(memory))
            lanes = np.array(self.exchange(mine.copy()))
            a_bytes = np.ascontiguousarray(lanes[:, 4:8]).view(np.int8 if a_signed else np.uint8)
            b_bytes = np.ascontiguousarray(lanes[:, 8:10]).view(np.int8 if b_signed else np.uint8)
            a, b = np.zeros((16, 32), np.int64), np.zeros((32, 8), np.int64)
            group, place = np.divmod(np.arange(WARP), 4)
            for i in range(16):
                a[group + 8 * (i // 4 % 2), place * 4 + i % 4 + 16 * (i // 8)] = a_bytes[:, i]
            for i in range(8):
                b[place * 4 + i % 4 + 16 * (i // 4), group] = b_bytes[:, i]
            product = a @ b
            row, pair = divmod(lane, 4)
            for i in range(4):
                value = int(product[row + 8 * (i // 2), pair * 2 + i % 2]) + int(mine[10 + i])
                mine[i] = np.uint32(value & 0xFFFFFFFF)

        return operation

    def callbacks(self) -> dict[str, tuple[Any, Callable[..., Any]]]:
        i32, pointer = ctypes.c_int32, ctypes.c_void_p
        table: dict[str, tuple[Any, Callable[..., Any]]] = {
            "read.ptx.sreg.tid.x": (ctypes.CFUNCTYPE(i32), lambda: self.local.lane),
            "read.ptx.sreg.ctaid.x": (ctypes.CFUNCTYPE(i32), lambda: self.local.program),
            "barrier.cta.sync.aligned.all": (ctypes.CFUNCTYPE(None, i32), lambda _: self.barrier.wait() and None),
            "bar.warp.sync": (ctypes.CFUNCTYPE(None, i32), lambda _: self.barrier.wait() and None),
        }
        for name, value in (("ctaid.y", 0), ("ctaid.z", 0), ("nctaid.x", 1), ("nctaid.y", 1), ("nctaid.z", 1)):
            table[f"read.ptx.sreg.{name}"] = (ctypes.CFUNCTYPE(i32), functools.partial(int, value))
        shuffles: dict[str, Callable[[int, int], int]] = {
            "bfly": lambda lane, offset: lane ^ offset,
            "idx": lambda lane, offset: offset & (WARP - 1),
            "up": lambda lane, offset: lane - offset if lane >= offset else lane,
            "down": lambda lane, offset: lane + offset if lane + offset < WARP else lane,
        }
        for name, source in shuffles.items():
            table[f"shfl.sync.{name}.i32"] = (ctypes.CFUNCTYPE(i32, i32, i32, i32, i32), self.shuffle(source))
        for left in "us":
            for right in "us":
                name = f"mma.m16n8k32.row.col.s32.{left}8.{right}8.s32"
                table[name] = (ctypes.CFUNCTYPE(None, pointer), self.integer_mma(left == "s", right == "s"))
        for count in (1, 2, 4):
            for suffix in ("", ".trans"):
                store = ctypes.CFUNCTYPE(None, pointer, *[ctypes.c_uint32] * count)
                table[f"stmatrix.sync.aligned.m8n8.x{count}{suffix}.b16.p3"] = (store, self.store_matrix(bool(suffix)))
                load = ctypes.CFUNCTYPE(None, pointer, pointer)
                name = f"ldmatrix.sync.aligned.m8n8.x{count}{suffix}.b16.p3"
                table[name] = (load, self.load_matrix(count, bool(suffix)))
        return table


_LDMATRIX = re.compile(r"^declare (i32|\{[^}]*\}) @(gpu_ldmatrix_\w+)\(.*$", re.M)


def _return_registers(text: str) -> str:
    """Give ldmatrix, which returns a struct, a body around a callback that writes to memory."""

    def body(match: re.Match[str]) -> str:
        kind, name = match[1], match[2]
        return (
            f"declare void @{name}_callback(ptr, ptr)\n"
            f"define internal {kind} @{name}(ptr %address) {{\n"
            f"  %registers = alloca {kind}\n"
            f"  call void @{name}_callback(ptr %address, ptr %registers)\n"
            f"  %value = load {kind}, ptr %registers\n  ret {kind} %value\n}}"
        )

    return _LDMATRIX.sub(body, text)


def _symbol(operation: str) -> str:
    return "gpu_" + operation.replace(".", "_")


class Kernel:
    """A compiled kernel that runs on the host."""

    def __init__(self, kernel: Any, signature: dict[str, str], **options: Any) -> None:
        self.ttgir, self.llvm_ir, metadata = compile_llvm(kernel, signature, **options)
        self.scratch = [int(metadata[f"{kind}_scratch_size"] or 0) for kind in ("global", "profile")]
        name = kernel.__name__
        text, operations = translate(self.llvm_ir, name, len(signature), int(metadata["shared"] or 0))
        self.serial = operations <= _SERIAL
        self.warp = Warp()
        if self.serial:
            for operation in operations:
                text = re.sub(rf"^declare .*@{_symbol(operation)}\(.*$", "", text, flags=re.M)
            text += _SERIAL_DEFINITIONS
        else:
            known = self.warp.callbacks()
            for operation in operations:
                if operation not in known:
                    raise NotPortable(f"intrinsic llvm.nvvm.{operation}")
                kind, function = known[operation]
                callback = kind(function)
                self.warp.keep.append(callback)
                suffix = "_callback" if operation.startswith("ldmatrix") else ""
                llvm.add_symbol(
                    f"{_symbol(operation)}{suffix}_{id(self.warp)}", ctypes.cast(callback, ctypes.c_void_p).value
                )
            text = re.sub(r"@(gpu_\w+)", rf"@\1_{id(self.warp)}", _return_registers(text))
        _initialise()
        module = llvm.parse_assembly(text)
        module.triple = llvm.get_default_triple()
        self.engine = llvm.create_mcjit_compiler(module, _target_machine())
        self.engine.finalize_object()
        entry = "drive" if self.serial else name
        kinds = [ctypes.c_void_p] * (len(signature) + 2) + ([ctypes.c_int32] if self.serial else [])
        self.function = ctypes.CFUNCTYPE(None, *kinds)(self.engine.get_function_address(entry))

    def run(self, arrays: Sequence[np.ndarray], programs: int) -> None:
        """Run `programs` programs of the kernel on contiguous arrays, in place."""
        scratch = [np.zeros(size * programs + 128, np.uint8) for size in self.scratch]
        pointers = [array.ctypes.data for array in arrays]
        pointers += [(array.ctypes.data + 127) // 128 * 128 for array in scratch]
        if self.serial:
            self.function(*pointers, programs)
            return
        for program in range(programs):
            threads = [threading.Thread(target=self._lane, args=(lane, program, pointers)) for lane in range(WARP)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def _lane(self, lane: int, program: int, arguments: list[int]) -> None:
        self.warp.local.lane, self.warp.local.program = lane, program
        self.function(*arguments)


@functools.cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def _target_machine() -> Any:
    # The host's own features: without them half-precision comparisons would call functions that are not linked.
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=1)
