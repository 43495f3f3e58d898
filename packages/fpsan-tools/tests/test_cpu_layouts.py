"""Layouts of the compiler's second representation against the compiler's own linear layouts."""

import random

import pytest

pytest.importorskip("triton")

from fpsan_tools.errors import FpsanError
from fpsan_tools.ttir.compile import backend_for
from fpsan_tools.ttir.layouts import bases

pytestmark = pytest.mark.triton


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
    gluon = pytest.importorskip("triton.experimental.gluon.language")
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
    return layout, tuple(shape)


def test_bases_are_those_of_the_compiler():
    from triton._C.libtriton import ir

    gluon_ir = pytest.importorskip("triton._C.libtriton").gluon_ir
    _, backend = backend_for()
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    builder = gluon_ir.GluonOpBuilder(context)
    if not hasattr(builder, "to_linear_layout"):
        pytest.skip("this Triton does not give linear layouts")
    rng, kinds = random.Random(0), set()
    for _ in range(500):
        layout, shape = random_layout(rng)
        kinds.add(text(layout).split("<")[0])
        theirs = builder.to_linear_layout(layout._to_ir(builder), list(shape))
        ours = bases(text(layout), shape, {})
        assert ours.registers == tuple(tuple(v) for v in theirs.reg_bases if any(v)), text(layout)
        assert ours.lanes == tuple(map(tuple, theirs.lane_bases)), text(layout)
        assert ours.warps == tuple(map(tuple, theirs.warp_bases)), text(layout)
    assert kinds == {"#ttg.blocked", "#ttg.slice", "#ttg.nvidia_mma"}


def test_names_and_linear_layouts_are_read():
    aliases = {
        "#linear": "#ttg.linear<{register = [[0, 1], [0, 0], [8, 0]], lane = [[1, 0], [2, 0]], warp = [], block = []}>"
    }
    found = bases("#linear", (16, 2), aliases)
    assert found.registers == ((0, 1), (8, 0))
    assert found.lanes == ((1, 0), (2, 0))
    assert found.warps == ()


@pytest.mark.parametrize("layout", ["#unknown", "#ttg.swizzled_shared<{vec = 1, order = [0]}>", "nothing"])
def test_unknown_layouts_are_refused(layout):
    with pytest.raises(FpsanError, match="layout"):
        bases(layout, (16,), {})
