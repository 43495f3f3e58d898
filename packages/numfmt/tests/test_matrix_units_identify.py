"""`identify` on the engine's own units, on NumPy and on torch's CPU sums."""

import itertools

import numpy as np
import pytest

from numfmt.matrix_units import (
    UNITS,
    Tree,
    Unrevealed,
    chain,
    identify,
    matmul,
    promote,
    split_k,
    tl_dot,
)
from numfmt.matrix_units.explain import request_for
from numfmt.matrix_units.trees import model_tree

# Formats whose products span too little for masks are left out: fp6, fp4, and block scales.
ROWS = [
    (unit, key)
    for unit in UNITS
    if unit.scales is None
    for key in unit.inputs
    if key in ("fp32", "tf32", "bf16", "fp16", "e4m3", "e5m2")
]


@pytest.mark.parametrize(("unit", "key"), ROWS, ids=lambda v: v if isinstance(v, str) else f"{v.name}-{v.accumulator}")
def test_identify_recovers_the_table(unit, key):
    def box(a, b, c):
        return matmul(a, b, c, unit, inputs=key, accumulator=unit.accumulator)

    found = identify(
        box,
        inputs=key,
        accumulator=unit.accumulator,
        k=2 * unit.depth if unit.depth > 1 else 6,
        takes_c=True,
        shape=(24, 24),
        outputs=2000,
    )
    assert found.reproduced == 1.0
    assert any(
        (model.unit.name, model.unit.inputs, model.unit.accumulator) == (unit.name, unit.inputs, unit.accumulator)
        for model in found.models
    )
    # Every model that stays has the same facts, whatever it is called.
    for model in found.models:
        assert model.unit.products == unit.products
        assert model.unit.arithmetic == unit.arithmetic
        if unit.arithmetic == "aligned":
            assert model.unit.fraction_bits == unit.fraction_bits
            assert (model.unit.mantissa_bits, model.unit.rounding) == (unit.mantissa_bits, unit.rounding)
    if unit.arithmetic == "aligned":
        assert found.facts.fan_in == unit.products
        assert found.facts.fraction_bits == unit.fraction_bits
        assert found.facts.c_aligned is (not unit.adds_accumulator)
    assert not any("rounded" in text for text in found.alternatives)
    # One bit more or less below an fp16 result, of products of few bits, can stay unseen; it is then reported.
    assert unit.accumulator == "fp16" or not any("fraction_bits" in text for text in found.alternatives)


@pytest.mark.parametrize(
    "schedule",
    [chain(), promote(32), promote(64), split_k(2), split_k(4, reduction="pairwise"), tl_dot(64, block_m=16)],
)
def test_identify_finds_the_schedule(schedule):
    found = identify(
        lambda a, b: matmul(a, b, inputs="e4m3", schedule=schedule), inputs="e4m3", k=256, shape=(24, 24), outputs=2000
    )
    program = schedule.program(request_for(256, "e4m3", "hopper", "fp32", False, (24, 24)))
    assert found.tree == model_tree(program)
    assert found.reproduced == 1.0
    assert schedule in [model.schedule for model in found.models]


def test_the_schedule_of_a_large_k_shows_in_every_nth_product():
    schedule = split_k(4, granularity=64)
    found = identify(
        lambda a, b: matmul(a, b, inputs="bf16", schedule=schedule),
        inputs="bf16",
        k=1024,
        positions=range(0, 1024, 32),
        shape=(16, 16),
        outputs=200,
        architectures=["hopper"],
    )
    assert found.tree.leaves == set(range(0, 1024, 32))
    assert schedule.parts in [getattr(model.schedule, "parts", None) for model in found.models]
    assert found.reproduced == 1.0


def test_what_cannot_be_told_apart_is_reported_and_what_can_be_is_not():
    fp16 = identify(lambda a, b: matmul(a, b, inputs="fp16"), inputs="fp16", k=32, shape=(24, 24), outputs=2000)
    assert any("floor" in text for text in fp16.alternatives)
    bf16 = identify(lambda a, b: matmul(a, b, inputs="bf16"), inputs="bf16", k=32)
    assert bf16.alternatives == ()
    assert {model.unit.name for model in bf16.models} >= {"hopper.wgmma", "blackwell.tcgen05"}
    assert "Equal on everything tried" in str(bf16)


def test_a_box_that_is_in_no_table_is_described_all_the_same():
    unit = UNITS[0].__class__(
        architecture="future",
        instruction="mma",
        inputs=("fp16",),
        accumulator="fp32",
        depth=8,
        products=8,
        fraction_bits=28,
        mantissa_bits=20,
        rounding="nearest_even",
        least_exponent=None,
        zero_exponent=None,
        evidence="model",
    )
    found = identify(
        lambda a, b, c: matmul(a, b, c, unit, inputs="fp16"), inputs="fp16", k=32, takes_c=True, shape=(16, 16)
    )
    assert found.facts.fan_in == 8
    assert found.facts.fraction_bits == 28
    assert (found.facts.mantissa_bits, found.facts.rounding) == (20, "nearest_even")
    assert found.models == ()
    assert found.reproduced < 1


def test_a_wrong_model_does_not_fit():
    found = identify(
        lambda a, b: matmul(a, b, unit="ampere.mma", inputs="fp16"),
        inputs="fp16",
        k=32,
        shape=(24, 24),
        architectures=["turing", "volta", "hopper"],
        outputs=2000,
    )
    # Turing has the same arithmetic as Ampere; Volta's and Hopper's trees differ.
    assert {model.unit.architecture for model in found.models} == {"turing"}


def serial(n):
    tree = Tree((0, 1))
    for i in range(2, n):
        tree = Tree((tree, i))
    return tree


def pairwise(leaves):
    leaves = list(leaves)
    while len(leaves) > 1:
        leaves = [
            Tree(tuple(leaves[i : i + 2])) if i + 1 < len(leaves) else leaves[i] for i in range(0, len(leaves), 2)
        ]
    return leaves[0]


def reference_sum(tree, x):
    """The sum of x along a tree in float32."""
    if not isinstance(tree, Tree):
        return np.float32(x[tree])
    total = reference_sum(tree.children[0], x)
    for child in tree.children[1:]:
        total = np.float32(total + reference_sum(child, x))
    return total


@pytest.mark.parametrize("n", [2, 7, 8, 9, 40, 129, 300])
def test_the_tree_of_numpys_sum_predicts_its_bits(n):
    found = identify(np.sum, inputs="fp32", k=n, kind="sum")
    assert found.tree.leaves == set(range(n))
    assert found.tree.fan_in == 2
    if n < 8:
        assert found.tree == serial(n)
    rng = np.random.default_rng(n)
    for _ in range(20):
        x = rng.standard_normal(n).astype(np.float32)
        assert reference_sum(found.tree, x) == np.sum(x)
    if n >= 40:
        x = rng.standard_normal((200, n)).astype(np.float32)
        assert any(reference_sum(pairwise(range(n)), row) != np.sum(row) for row in x)


@pytest.mark.parametrize("function", [np.add.accumulate, np.cumsum])
def test_a_running_sum_is_serial(function):
    assert identify(lambda x: function(x)[-1], inputs="fp64", k=20, kind="sum").tree == serial(20)


def test_a_pairwise_sum_is_drawn_as_one():
    def box(x):
        while len(x) > 1:
            x = x[::2] + x[1::2]
        return x[0]

    found = identify(box, inputs="fp32", k=16, kind="sum")
    assert found.tree == pairwise(range(16))
    assert found.tree.depth == 4
    assert found.facts.rounding == "nearest_even"


def test_numpys_dot_shows_a_tree_over_all_products():
    found = identify(np.dot, inputs="fp32", k=100, kind="dot")
    assert found.tree.leaves == set(range(100))
    assert str(found).startswith("Summation tree")


@pytest.mark.torch
@pytest.mark.parametrize("n", [16, 100])
def test_torchs_cpu_sum(n):
    torch = pytest.importorskip("torch")
    found = identify(torch.sum, inputs="fp32", k=n, kind="sum", framework="torch")
    rng = np.random.default_rng(n)
    for _ in range(20):
        x = rng.standard_normal(n).astype(np.float32)
        assert reference_sum(found.tree, x) == torch.sum(torch.from_numpy(x)).item()


@pytest.mark.torch
def test_torchs_cpu_matmul_of_bf16():
    torch = pytest.importorskip("torch")
    found = identify(torch.matmul, inputs="bf16", k=32, framework="torch", shape=(16, 16), outputs=500)
    assert found.tree.leaves == set(range(32))


def test_a_box_that_scales_is_refused():
    with pytest.raises(Unrevealed, match="plain sum"):
        identify(lambda x: np.sum(x) / 3, inputs="fp32", k=10, kind="sum")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "matmull"}, "did you mean 'matmul'"),
        ({"framework": "jax"}, "unknown framework"),
        ({"inputs": "fp61"}, "unknown inputs"),
        ({"inputs": "e2m1", "k": 64}, "too little to mask"),
        ({"k": 1}, "at least two"),
        ({"k": 8, "positions": [3]}, "positions must be at least two numbers from 0 to k - 1 = 7"),
        ({"k": 8, "positions": [3, 8]}, "positions must be at least two numbers"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        identify(np.matmul, **arguments)


def test_trees_compare_without_order_and_draw_runs():
    one, other = Tree((Tree((0, 1, 2)), 3, 4)), Tree((4, Tree((2, 0, 1)), 3))
    assert one == other
    assert hash(one) == hash(other)
    assert one != Tree((Tree((0, 1, 3)), 2, 4))
    assert serial(40).draw() == "serial: 0..39"
    fused = Tree(tuple(range(8)))
    for k in range(8, 24, 8):
        fused = Tree((fused, *range(k, k + 8)))
    assert fused.draw() == "chain of 3 fused sums: 0..7 | 8..15 | 16..23"
    assert (fused.fan_in, fused.depth) == (9, 3)
    assert list(itertools.chain(sorted(fused.leaves))) == list(range(24))
