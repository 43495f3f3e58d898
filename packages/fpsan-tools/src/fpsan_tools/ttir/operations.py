"""The closed world: one table that says of every operation what it is.

Everything that is not in `OPERATIONS` is refused by name, with the kernel and the source line; `REFUSED` says why.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fpsan_tools.exceptions import UnsupportedOperation
from fpsan_tools.ttir import (
    access,
    arithmetic,
    atomics,
    control,
    descriptors,
    effects,
    elementwise,
    products,
    reductions,
    shapes,
    shared,
)
from fpsan_tools.ttir.fusion import CONTRACTED, CONTRACTED_SUM
from fpsan_tools.ttir.machine import TERMINATORS
from fpsan_tools.ttir.parser import Block, Module, Operation, Region
from fpsan_tools.ttir.refused import REFUSED


class Rule(NamedTuple):
    """What the evaluator does with an operation.

    Attributes:
        kind: "control", "movement", "integer", "float", "cast", "memory" or "nothing" (no effect on values).
        handler: evaluates it.
        control: whether the handler wants the frame instead of the operands.
    """

    kind: str
    handler: Any
    control: bool = False


def _nothing(machine: Any, operation: Operation, operands: Any) -> None:
    """Scheduling, barriers and hints: no value depends on them."""


OPERATIONS: dict[str, Rule] = {
    "scf.for": Rule("control", control.for_loop, True),
    "scf.while": Rule("control", control.while_loop, True),
    "scf.if": Rule("control", control.branch, True),
    "tt.call": Rule("control", control.call, True),
    "tt.get_program_id": Rule("control", control.program_id, True),
    "tt.get_num_programs": Rule("control", control.program_count, True),
    "tt.reduce": Rule("control", reductions.reduce, True),
    "tt.scan": Rule("control", reductions.scan, True),
    "tt.splat": Rule("movement", shapes.splat),
    "tt.unsplat": Rule("movement", shapes.unsplat),
    "tt.broadcast": Rule("movement", shapes.broadcast),
    "tt.expand_dims": Rule("movement", shapes.expand_dims),
    "tt.reshape": Rule("movement", shapes.reshape),
    "tt.trans": Rule("movement", shapes.transpose),
    "tt.join": Rule("movement", shapes.join),
    "tt.split": Rule("movement", shapes.split),
    "tt.cat": Rule("movement", shapes.cat),
    "tt.gather": Rule("movement", shapes.gather),
    "tt.make_range": Rule("movement", shapes.make_range),
    "ttg.convert_layout": Rule("movement", shapes.unchanged),
    "arith.select": Rule("movement", shapes.select),
    "arith.constant": Rule("movement", arithmetic.constant),
    **{name: Rule("integer", arithmetic.integer) for name in arithmetic._INTEGER},
    "arith.cmpi": Rule("integer", arithmetic.compare_integers),
    "tt.mulhiui": Rule("integer", arithmetic.high_product),
    "arith.mului_extended": Rule("integer", arithmetic.extended_product),
    "arith.mulsi_extended": Rule("integer", arithmetic.extended_product),
    "math.absi": Rule("integer", arithmetic.absolute_integer),
    **{name: Rule("integer", arithmetic.count_bits) for name in ("math.ctpop", "math.ctlz", "math.cttz")},
    **{
        name: Rule("cast", arithmetic.cast_integers)
        for name in ("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui")
    },
    **{name: Rule("cast", arithmetic.cast_floats) for name in ("arith.extf", "arith.truncf", "tt.fp_to_fp")},
    **{name: Rule("cast", arithmetic.integers_to_floats) for name in ("arith.sitofp", "arith.uitofp")},
    **{name: Rule("cast", arithmetic.floats_to_integers) for name in ("arith.fptosi", "arith.fptoui")},
    **{name: Rule("cast", arithmetic.bitcast) for name in ("tt.bitcast", "arith.bitcast")},
    "tt.int_to_ptr": Rule("cast", arithmetic.integer_to_pointer),
    "tt.ptr_to_int": Rule("cast", arithmetic.pointer_to_integer),
    **{name: Rule("float", arithmetic.float_unary) for name in arithmetic.FLOAT_UNARY},
    **{name: Rule("float", arithmetic.float_binary) for name in arithmetic.FLOAT_BINARY},
    "math.fma": Rule("float", arithmetic.fused_multiply_add),
    CONTRACTED: Rule("float", arithmetic.contracted),
    "tt.clampf": Rule("float", arithmetic.clamp),
    "arith.cmpf": Rule("float", arithmetic.compare_floats),
    "tt.dot": Rule("float", products.dot),
    "tt.addptr": Rule("memory", access.add_pointer),
    "tt.load": Rule("memory", access.load),
    "tt.store": Rule("memory", access.store),
    "tt.atomic_rmw": Rule("memory", atomics.read_modify_write, True),
    "tt.atomic_cas": Rule("memory", atomics.compare_and_swap, True),
    "tt.atomic_poll": Rule("memory", atomics.poll),
    "tt.atomic_load": Rule("memory", access.load),
    "tt.atomic_store": Rule("memory", access.store),
    "tt.make_tensor_descriptor": Rule("memory", descriptors.make_descriptor),
    "tt.descriptor_load": Rule("memory", descriptors.load),
    "tt.descriptor_store": Rule("memory", descriptors.store),
    "tt.descriptor_reduce": Rule("memory", descriptors.reduce, True),
    "tt.descriptor_gather": Rule("memory", descriptors.gather),
    "tt.descriptor_scatter": Rule("memory", descriptors.scatter),
    "tt.dot_scaled": Rule("float", products.dot_scaled, True),
    "tt.extern_elementwise": Rule("float", elementwise.extern),
    "tt.elementwise_inline_asm": Rule("float", elementwise.inline_assembly),
    "tt.map_elementwise": Rule("control", elementwise.map_elementwise, True),
    "tt.histogram": Rule("integer", elementwise.histogram),
    "ub.poison": Rule("movement", elementwise.poison),
    "tt.assert": Rule("control", effects.assertion, True),
    "llvm.intr.assume": Rule("control", effects.assumption, True),
    "tt.print": Rule("control", effects.show, True),
    CONTRACTED_SUM: Rule("control", reductions.contracted_sum, True),
    "ttg.local_alloc": Rule("memory", shared.allocate),
    "ttg.local_load": Rule("memory", shared.read),
    "ttg.local_store": Rule("memory", shared.write),
    "ttg.local_dealloc": Rule("nothing", _nothing),
    "ttg.memdesc_trans": Rule("movement", shared.transpose),
    "ttg.memdesc_reshape": Rule("movement", shared.reshape),
    "ttg.global_scratch_alloc": Rule("memory", shared.scratch),
    "ttg.fp4_to_fp": Rule("cast", elementwise.widen_fp4),
    "ttng.warp_group_dot": Rule("float", shared.warp_group_dot),
    "ttng.warp_group_dot_wait": Rule("movement", shared.wait),
    "ttng.async_tma_copy_global_to_local": Rule("memory", shared.copy_in, True),
    "ttng.async_tma_copy_local_to_global": Rule("memory", shared.copy_out, True),
    "ttng.async_tma_reduce": Rule("memory", shared.copy_out, True),
    "ttng.async_tma_gather": Rule("memory", shared.gather, True),
    "ttng.async_tma_scatter": Rule("memory", shared.scatter, True),
    "ttng.tensormap_create": Rule("memory", shared.make_descriptor, True),
    "ttng.reinterpret_tensor_descriptor": Rule("memory", shared.descriptor_of, True),
    **{name: Rule("control", None) for name in TERMINATORS},
    "tt.grid_dependency_wait": Rule("nothing", _nothing),
    "tt.grid_dependency_launch_dependents": Rule("nothing", _nothing),
    "ttg.barrier": Rule("nothing", _nothing),
    "gpu.barrier": Rule("nothing", _nothing),
    "ttng.fence_async_shared": Rule("nothing", _nothing),
    "ttng.init_barrier": Rule("nothing", _nothing),
    "ttng.inval_barrier": Rule("nothing", _nothing),
    "ttng.barrier_expect": Rule("nothing", _nothing),
    "ttng.wait_barrier": Rule("nothing", _nothing),
    "ttng.async_tma_store_wait": Rule("nothing", _nothing),
    "ttng.tensormap_fenceproxy_acquire": Rule("nothing", _nothing),
}
"""Rules by operation name."""


def link(module: Module, kernel: str) -> Module:
    """Look up every operation of a parsed module and note where values are used last.

    Args:
        module: the parsed module; its operations get their handlers.
        kernel: the kernel's name, for messages.

    Returns:
        The same module.

    Raises:
        UnsupportedOperation: for the first operation that the table does not have.
    """
    for operation in module.operations():
        rule = OPERATIONS.get(operation.name)
        if rule is None:
            place = operation.location.user
            reason = REFUSED.get(operation.name, "it is not known")
            raise UnsupportedOperation(kernel, place.file, place.line, operation.name, reason)
        operation.handler, operation.control = rule.handler, rule.control
        module.definitions.update((name, operation) for name in operation.results)
        if operation.name == "scf.while":
            module.sequential = module.sequential or any(_waits(region) for region in operation.regions)
    for function in module.functions.values():
        _annotate(function.body)
    return module


_WAITING = frozenset({"tt.atomic_cas", "tt.atomic_rmw", "tt.atomic_load", "tt.atomic_poll"})


def _waits(region: Region) -> bool:
    """Whether a loop with a condition uses atomics, as locks do: then programs must not advance together."""
    return any(
        operation.name in _WAITING or any(_waits(inner) for inner in operation.regions)
        for block in region.blocks
        for operation in block.operations
    )


def _annotate(region: Region) -> None:
    """Set `Operation.dead`: names that no later operation needs, so that their arrays can be freed."""
    used_by = [_used_names(block) for block in region.blocks]
    for number, block in enumerate(region.blocks):
        elsewhere = set().union(*(used for i, used in enumerate(used_by) if i != number))
        last: dict[str, Operation] = {}
        for operation in block.operations:
            for name in operation.results:
                last[name] = operation
            for name in _names_of(operation):
                if name in last:
                    last[name] = operation
            for inner in operation.regions:
                _annotate(inner)
        for name, operation in last.items():
            if name not in elsewhere:
                operation.dead.append(name)


def _used_names(block: Block) -> set[str]:
    return set().union(*(_names_of(operation) for operation in block.operations))


def _names_of(operation: Operation) -> set[str]:
    names = set(operation.operands)
    for _, values in operation.successors:
        names.update(values)
    for region in operation.regions:
        for block in region.blocks:
            names |= _used_names(block)
    return names
