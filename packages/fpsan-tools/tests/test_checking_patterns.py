"""Patterns of differing elements, in words and exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fpsan_tools.checking.patterns import density, find_pattern


def mask(shape, *where):
    array = np.zeros(shape, bool)
    for index in where:
        array[index] = True
    return array


rows, columns = slice(None), slice(None)
CASES = [
    (mask((4, 6)), "none", "none"),
    (mask((4, 6), (rows, columns)), "every element", "every element"),
    (mask((4, 6), (2, 3)), "one element", "one element, [2, 3]"),
    (mask((4, 6), (1, columns)), "rows", "whole row 1"),
    (mask((4, 6), (slice(1, 3), columns)), "rows", "whole rows 1 to 2"),
    (mask((5, 6), (slice(3, 5), columns)), "rows", "the whole of the last 2 rows (from 3)"),
    (mask((5, 6), (4, columns)), "rows", "the whole of the last row (4)"),
    (mask((4, 6), (rows, slice(4, 6))), "columns", "the whole of the last 2 columns (from 4)"),
    (mask((4, 6), (rows, slice(0, 2))), "columns", "the whole of the first 2 columns"),
    (mask((4, 8), (rows, slice(1, None, 3))), "columns", "whole every 3rd column from 1"),
    (mask((4, 8), (rows, slice(0, None, 2))), "columns", "whole every other column from 0"),
    (mask((8, 8), (slice(2, 4), slice(3, 6))), "tile", "columns 3 to 5 of rows 2 to 3"),
    (mask((8, 8), (slice(6, 8), slice(5, 8))), "tile", "the last 3 columns (from 5) of the last 2 rows (from 6)"),
    (mask((8, 9), (np.ix_([1, 2, 5], [0, 4, 5]))), "box", "3 columns (0, 4, 5) of 3 rows (1, 2, 5)"),
    (mask((9,), slice(7, 9)), "box", "the last 2 elements (from 7)"),
    (mask((2, 4, 6), (1, rows, columns)), "tile", "the last axis-0 index (1)"),
    (np.triu(np.ones((5, 5), bool), 1), "upper triangle", "the upper triangle of the last two axes"),
    (np.tril(np.ones((5, 7), bool)), "lower triangle with the diagonal", "the lower triangle with the diagonal"),
    (np.eye(6, dtype=bool), "diagonal", "the diagonal"),
    (mask((6, 6), (0, 1), (3, 4), (5, 0), (2, 2)), "scattered", "scattered over"),
]


@pytest.mark.parametrize(("different", "kind", "text"), CASES, ids=[f"{i}-{c[1]}" for i, c in enumerate(CASES)])
def test_patterns_are_named(different, kind, text):
    found = find_pattern(different)
    assert found.kind == kind
    assert found.text.startswith(text)


@given(hnp.arrays(bool, hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=6)))
def test_an_exact_pattern_says_exactly_what_differs(different):
    found = find_pattern(different)
    assert (found.kind == "none") == (not different.any())
    assert (found.kind == "every element") == bool(different.all() and different.size)
    for axis, described in enumerate(found.axes):
        used = np.flatnonzero(different.any(axis=tuple(i for i in range(different.ndim) if i != axis)))
        assert (described.start, described.stop) == (used[0], used[-1] + 1)
        assert (described.kind == "all") == (len(used) == different.shape[axis])
    if found.kind in ("rows", "columns", "tile", "box") and found.exact:
        used = [
            np.flatnonzero(different.any(axis=tuple(j for j in range(different.ndim) if j != i)))
            for i in range(different.ndim)
        ]
        box = np.zeros_like(different)
        box[np.ix_(*used)] = True
        assert np.array_equal(box, different)


@given(st.integers(1, 300), st.integers(1, 300), st.randoms(use_true_random=False))
def test_the_picture_keeps_every_difference(height, width, random):
    different = np.zeros((height, width), bool)
    row, column = random.randrange(height), random.randrange(width)
    different[row, column] = True
    grid = density(different, 48, 96)
    assert grid.shape == (min(height, 48), min(width, 96))
    assert np.count_nonzero(grid) == 1
    assert 0 < grid.max() <= 1
