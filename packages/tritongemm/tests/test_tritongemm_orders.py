"""Summation orders, against exact rationals and recorded hardware."""

from fractions import Fraction

import numpy as np
import pytest

from tritongemm.errors import UsageError
from tritongemm.orders import SummationOrder

LARGEST = float(np.finfo(np.float32).max)


def nearest_fp32(exact: Fraction) -> np.float32:
    """The fp32 number nearest to a rational, ties to even, by comparison with its neighbours."""
    if abs(exact) >= Fraction(LARGEST) + Fraction(2) ** 103:
        return np.float32(np.inf if exact > 0 else -np.inf)
    guess = np.float32(min(LARGEST, max(-LARGEST, float(exact))))
    with np.errstate(over="ignore"):
        around = [guess, np.nextafter(guess, np.float32(np.inf)), np.nextafter(guess, np.float32(-np.inf))]
    finite = [x for x in around if np.isfinite(x)]
    return min(finite, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1))


def scalar_order(order: SummationOrder, a, b):
    """One output by the definition of the order, in exact rationals rounded after each operation."""
    if order.per_step:
        total = Fraction(0)
        for k in range(0, len(a), order.lanes):
            step = SummationOrder(order.lanes, order.tree, fused=False, pad=order.lanes)
            part = scalar_order(step, a[k : k + order.lanes], b[k : k + order.lanes])
            total = Fraction(float(nearest_fp32(total + Fraction(float(part)))))
        return np.float32(float(total))
    lanes = [Fraction(0)] * order.lanes
    outer = [Fraction(0)] * order.lanes
    for k, (x, y) in enumerate(zip(a, b, strict=True)):
        lane, step = k % order.lanes, k // order.lanes
        product = Fraction(float(x)) * Fraction(float(y))
        if not order.fused:
            product = Fraction(float(nearest_fp32(product)))
        lanes[lane] = Fraction(float(nearest_fp32(lanes[lane] + product)))
        if order.promote and (step + 1) % order.promote == 0:
            outer[lane] = Fraction(float(nearest_fp32(outer[lane] + lanes[lane])))
            lanes[lane] = Fraction(0)
    if order.promote:
        lanes = [Fraction(float(nearest_fp32(x + y))) for x, y in zip(outer, lanes, strict=True)]
    for mask in order.tree:
        lanes = [Fraction(float(nearest_fp32(lanes[i] + lanes[i ^ mask]))) for i in range(order.lanes)]
    return np.float32(float(lanes[0]))


ORDERS = [
    SummationOrder.chain(),
    SummationOrder.chain(fused=False),
    SummationOrder.chain(promote=4, pad=4),
    SummationOrder.lanes_then_tree(8),
    SummationOrder.lanes_then_tree(8, far_first=True),
    SummationOrder.lanes_then_tree(8, fused=False),
    SummationOrder(lanes=4, tree=(2, 1), promote=2, pad=4),
    SummationOrder.tree_per_step(8),
    SummationOrder.tree_per_step(4, far_first=True),
]


@pytest.mark.parametrize("order", ORDERS, ids=lambda o: o.describe())
@pytest.mark.parametrize("K", [0, 1, 7, 37])
def test_the_simulation_follows_the_definition(order, K):
    rng = np.random.default_rng(K)
    a = (rng.standard_normal((3, K)) * 2.0 ** rng.integers(-8, 8, (3, K))).astype(np.float32)
    b = (rng.standard_normal((K, 2)) * 2.0 ** rng.integers(-8, 8, (K, 2))).astype(np.float32)
    got = order.simulate(a, b)
    want = np.array([[scalar_order(order, a[i], b[:, j]) for j in range(2)] for i in range(3)], np.float32)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, want.reshape(3, 2))


def test_simulating_in_slices_changes_nothing(monkeypatch):
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((9, 50)).astype(np.float32), rng.standard_normal((50, 4)).astype(np.float32)
    order = SummationOrder.lanes_then_tree(16)
    whole = order.simulate(a, b)
    monkeypatch.setattr("tritongemm.orders._SIMULATED_AT_ONCE", 1)
    np.testing.assert_array_equal(order.simulate(a, b), whole)


@pytest.mark.parametrize(
    ("warps", "contiguous", "tree"),
    [
        (1, 4, (1, 2, 128, 64, 32, 16, 8, 4)),
        (2, 4, (1, 2, 64, 32, 16, 8, 4, 128)),
        (4, 4, (1, 32, 16, 8, 4, 2, 128, 64)),
        (8, 4, (16, 8, 4, 2, 1, 128, 64, 32)),
        (4, 1, (128, 16, 8, 4, 2, 1, 64, 32)),
    ],
)
def test_the_layout_gives_the_order_of_the_tree(warps, contiguous, tree):
    assert SummationOrder.lanes_in_layout(256, warps, contiguous).tree == tree


# Recorded on an H200 (Triton 3.9.0): a[k] = fp32(sin k), b[k] = fp32(cos 3k), 256 lanes, warps 1, 2, 4, 8.
RECORDED = {
    (1536, True): ("3cbb75c0", "3cbb7600", "3cbb7800", "3cbb7700"),
    (1536, False): ("3cbb75c0", "3cbb7700", "3cbb7700", "3cbb7400"),
    (777, True): ("3c4af980", "3c4afc00", "3c4af780", "3c4af100"),
    (777, False): ("3c4af780", "3c4af980", "3c4af8e0", "3c4af300"),
}


@pytest.mark.parametrize("K", [1536, 777])
@pytest.mark.parametrize("fused", [True, False])
def test_the_strided_lanes_equal_what_an_h200_computed(K, fused):
    k = np.arange(K)
    a, b = np.sin(k).astype(np.float32)[None], np.cos(3 * k).astype(np.float32)[:, None]
    contiguous = 4 if K % 16 == 0 else 1
    got = []
    for warps in (1, 2, 4, 8):
        c = SummationOrder.lanes_in_layout(256, warps, contiguous, fused=fused).simulate(a, b)
        got.append(f"{int(c.view(np.uint32)[0, 0]):08x}")
    assert tuple(got) == RECORDED[K, fused]


def test_heights_count_the_roundings_of_the_longest_path():
    assert SummationOrder.chain().height(6144) == 6144
    assert SummationOrder.chain(fused=False).height(6144) == 6145
    assert SummationOrder.lanes_then_tree(256).height(6144) == 24 + 8
    assert SummationOrder.lanes_then_tree(256).height(1) == 1 + 8
    assert SummationOrder.chain(promote=128).height(6144) == 128 + 48 - 1
    assert SummationOrder.chain(promote=128).height(100) == 100
    assert SummationOrder.tree_per_step(256).height(6144) == 1 + 8 + 23
    assert SummationOrder.chain().relative_bound(0) == 0.0


@pytest.mark.parametrize(("lanes", "tree"), [(3, ()), (0, ()), (4, (1,)), (4, (1, 1)), (2, ())])
def test_an_impossible_order_is_refused(lanes, tree):
    with pytest.raises(UsageError, match=r"lanes|tree"):
        SummationOrder(lanes=lanes, tree=tree)
