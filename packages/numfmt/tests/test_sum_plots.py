"""Pictures of sums show the figures they are given."""

from __future__ import annotations

import numpy as np
import pytest

from numfmt import BF16, FP16, Study
from numfmt.study import run_cell

pytest.importorskip("matplotlib")

from numfmt.sumplots import error_against_terms, error_growth


def rows_of(study: Study) -> list[dict]:
    return [{**cell, "format": cell["format"]["name"], **run_cell(cell)} for cell in study.cells()]


def test_each_line_is_one_kind_of_sum_and_seeds_are_averaged():
    rows = rows_of(
        Study([BF16, FP16], ["sequential", ("tree", {"fan_in": 3})], [8, 32], seeds=[0, 1], chunks=[None, 4], rows=9)
    )
    ax = error_against_terms(rows, bounds=False)
    lines = {line.get_label(): line for line in ax.get_lines()}
    assert len(lines) == 2 * 2 * 2
    chosen = [
        r["units_rms"] for r in rows if (r["format"], r["method"], r["chunk"], r["terms"]) == ("BF16", "tree", 4, 32)
    ]
    line = lines["BF16, tree, fan_in 3, promoted every 4"]
    assert list(line.get_xdata()) == [8, 32]
    assert line.get_ydata()[1] == np.sqrt(np.mean(np.square(chosen)))


def test_bounds_are_drawn_in_units_only():
    rows = rows_of(Study([BF16], terms=[8, 32], rows=9))
    assert len(error_against_terms(rows).get_lines()) == 2
    assert len(error_against_terms(rows, "ulps_max").get_lines()) == 1


def test_growth_simulates_on_the_spot(tmp_path):
    ax = error_growth([BF16], ["pairwise"], [4, 16], rows=5)
    ax.figure.savefig(tmp_path / "growth.png")
    assert (tmp_path / "growth.png").stat().st_size > 1000


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="units_rms"):
        error_against_terms([], "unit_rms")
    with pytest.raises(ValueError, match="has run"):
        error_against_terms([])
