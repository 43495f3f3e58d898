"""Print random layouts with the compiler's own linear form of each, one JSON array a line.

A program of its own: what the compiler's bindings leave behind at exit stays out of the test's output.
"""

import json
import random

import triton.experimental.gluon.language as gluon
from triton._C.libtriton import gluon_ir, ir
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend


def power(rng, limit):
    return 1 << rng.randrange(limit)


def text(layout):
    """A Gluon layout as the compiler prints it."""
    kind = type(layout).__name__
    if kind == "BlockedLayout":
        return (
            f"#ttg.blocked<{{sizePerThread = {layout.size_per_thread}, threadsPerWarp = {layout.threads_per_warp}, "
            f"warpsPerCTA = {layout.warps_per_cta}, order = {layout.order}}}>"
        )
    if kind == "SliceLayout":
        return f"#ttg.slice<{{dim = {layout.dim}, parent = {text(layout.parent)}}}>"
    major, minor = layout.version
    return (
        f"#ttg.nvidia_mma<{{versionMajor = {major}, versionMinor = {minor}, warpsPerCTA = {layout.warps_per_cta}, "
        f"instrShape = {layout.instr_shape}}}>"
    )


def random_layout(rng):
    rank = rng.choice([1, 2, 2, 3])
    shape = [power(rng, 8) for _ in range(rank)]
    order = rng.sample(range(rank), rank)
    lanes, warps = [1] * rank, [1] * rank
    for _ in range(5):
        lanes[rng.randrange(rank)] *= 2
    for _ in range(rng.randrange(4)):
        warps[rng.randrange(rank)] *= 2
    layout = gluon.BlockedLayout([power(rng, 4) for _ in range(rank)], lanes, warps, order)
    if rank == 2 and rng.random() < 0.4:
        shape = [power(rng, 9), power(rng, 9)]
        if rng.random() < 0.5:
            grid = [rng.choice([1, 2, 4]), rng.choice([1, 2])]
            layout = gluon.NVMMADistributedLayout([2, 0], grid, [16, 8])
        else:
            grid = [rng.choice([4, 8]), rng.choice([1, 2])]
            layout = gluon.NVMMADistributedLayout([3, 0], grid, [16, power(rng, 5) * 8, 16])
    if rank >= 2 and rng.random() < 0.4:
        axis = rng.randrange(rank)
        layout = gluon.SliceLayout(axis, layout)
        shape = shape[:axis] + shape[axis + 1 :]
    return layout, shape


def main(count=500):
    backend = make_backend(GPUTarget("cuda", 90, 32))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    builder = gluon_ir.GluonOpBuilder(context)
    rng = random.Random(0)
    for _ in range(count):
        layout, shape = random_layout(rng)
        linear = builder.to_linear_layout(layout._to_ir(builder), shape)
        print(json.dumps([text(layout), shape, linear.reg_bases, linear.lane_bases, linear.warp_bases]))


if __name__ == "__main__":
    main()
