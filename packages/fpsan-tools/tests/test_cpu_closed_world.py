"""Every operation of the installed Triton's dialects has exactly one class: evaluated, or refused with a reason."""

import contextlib
import mmap
import re
import struct
from pathlib import Path

import pytest

pytest.importorskip("triton")

import triton

from fpsan_tools.ttir.compile import backend_for
from fpsan_tools.ttir.fusion import CONTRACTED
from fpsan_tools.ttir.operations import OPERATIONS
from fpsan_tools.ttir.refused import REFUSED

pytestmark = pytest.mark.triton

DIALECTS = ("tt", "ttg", "ttng", "tti", "arith", "math", "scf", "cf", "ub", "gpu", "nvws", "gluon")


def read_only_data(path):
    """The .rodata section of a 64-bit ELF file, where operation names are."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        (table,) = struct.unpack_from("<Q", image, 0x28)
        size, count, names = struct.unpack_from("<HHH", image, 0x3A)
        sections = [struct.unpack_from("<IIQQQQ", image, table + i * size) for i in range(count)]
        for name, _, _, _, offset, length in sections:
            start = sections[names][4] + name
            if image[start : image.find(b"\0", start)] == b".rodata":
                return image[offset : offset + length]
    raise AssertionError("no .rodata section")


def registered(names, tmp_path, capfd):
    """Those names that the parser knows as operations: it complains about unregistered ones by name."""
    from triton._C.libtriton import ir

    _, backend = backend_for()
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    file = tmp_path / "operation.mlir"
    found = set()
    for name in names:
        file.write_text(f'"{name}"() : () -> ()\n')
        capfd.readouterr()
        with contextlib.suppress(RuntimeError):
            ir.parse_mlir_module(str(file), context)
        if "unregistered" not in capfd.readouterr().err:
            found.add(name)
    return found


def test_no_operation_has_two_classes():
    assert not set(OPERATIONS) & set(REFUSED)


def test_every_registered_operation_has_a_class_and_every_class_is_of_a_registered_operation(tmp_path, capfd):
    library = Path(triton.__file__).parent / "_C" / "libtriton.so"
    pattern = rb"\b(?:" + "|".join(DIALECTS).encode() + rb")\.[a-z0-9_.]+(?=\x00)"
    candidates = {match.decode() for match in re.findall(pattern, read_only_data(library))}
    assert len(candidates) > 200
    existing = registered(sorted(candidates), tmp_path, capfd)
    assert {"tt.load", "arith.addf", "scf.for", "math.exp"} <= existing
    assert existing - set(OPERATIONS) - set(REFUSED) == set()
    ours = {name for name in OPERATIONS if name.split(".")[0] in DIALECTS} - {CONTRACTED}
    newest = ".".join(triton.__version__.split(".")[:2]) == "3.9"
    assert ours - existing == set() or not newest


def test_the_front_end_s_builders_are_all_evaluated():
    """What Triton's front end can create is in the table, up to a few names that differ."""
    root = Path(triton.__file__).parent
    text = "".join((root / p).read_text() for p in ("language/semantic.py", "compiler/code_generator.py"))
    created = set(re.findall(r"create_([a-z0-9_]+)\(", text))
    renamed = {
        "fadd": "arith.addf", "fsub": "arith.subf", "fmul": "arith.mulf", "fdiv": "arith.divf", "frem": "arith.remf",
        "add": "arith.addi", "sub": "arith.subi", "mul": "arith.muli", "sdiv": "arith.divsi", "udiv": "arith.divui",
        "srem": "arith.remsi", "urem": "arith.remui", "and": "arith.andi", "or": "arith.ori", "xor": "arith.xori",
        "shl": "arith.shli", "lshr": "arith.shrui", "ashr": "arith.shrsi", "icmp": "arith.cmpi", "fcmp": "arith.cmpf",
        "fneg": "arith.negf", "fabs": "math.absf", "iabs": "math.absi", "fp_trunc": "arith.truncf",
        "fp_ext": "arith.extf", "fp_to_si": "arith.fptosi", "fp_to_ui": "arith.fptoui", "si_to_fp": "arith.sitofp",
        "ui_to_fp": "arith.uitofp", "int_cast": "arith.extsi", "umulhi": "tt.mulhiui", "select": "arith.select",
        "branch": "cf.br", "cond_branch": "cf.cond_br", "for_op": "scf.for", "while_op": "scf.while",
        "if_op": "scf.if", "yield_op": "scf.yield", "condition_op": "scf.condition", "poison": "ub.poison",
        "masked_load": "tt.load", "masked_store": "tt.store", "barrier": "ttg.barrier", "assume": "llvm.intr.assume",
        "inline_asm": "tt.elementwise_inline_asm", "reduce_ret": "tt.reduce.return", "scan_ret": "tt.scan.return",
        "map_elementwise_ret": "tt.map_elementwise.return",
    }  # fmt: skip
    no_operations = {"block", "block_with_parent", "loc", "name_loc", "module", "tensor_descriptor_type"}
    missing = set()
    for name in created - no_operations:
        full = {renamed.get(name, ""), f"tt.{name}", f"math.{name}", f"arith.{name}"}
        if not full & set(OPERATIONS):
            missing.add(name)
    assert missing == set()
