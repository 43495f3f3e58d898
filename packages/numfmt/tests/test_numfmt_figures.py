"""Figures of the published formats and of the teaching script that use this interface."""

from pathlib import Path

import numpy as np
import pytest

import numfmt
from numfmt import BF16, E8M0, FORMATS, FP8_E4M3, FP16
from numfmt.cli import main


@pytest.mark.parametrize(
    ("name", "largest", "smallest_normal", "smallest"),
    [
        ("FP16", 65504.0, 2.0**-14, 2.0**-24),
        ("BF16", (2 - 2.0**-7) * 2.0**127, 2.0**-126, 2.0**-133),
        ("FP8_E4M3", 448.0, 2.0**-6, 2.0**-9),  # OCP OFP8, table 2
        ("FP8_E5M2", 57344.0, 2.0**-14, 2.0**-16),
        ("FP8_E4M3FNUZ", 240.0, 2.0**-7, 2.0**-10),
        ("FP8_E5M2FNUZ", 57344.0, 2.0**-15, 2.0**-17),
        ("FP8_E4M3B11FNUZ", 30.0, 2.0**-10, 2.0**-13),
        ("FP8_E3M4", 15.5, 2.0**-2, 2.0**-6),
        ("FP6_E2M3", 7.5, 1.0, 0.125),  # OCP MX, table 5
        ("FP6_E3M2", 28.0, 0.25, 0.0625),
        ("FP4_E2M1", 6.0, 1.0, 0.5),
    ],
)
def test_limits_are_the_published_ones(name, largest, smallest_normal, smallest):
    fmt = FORMATS[name]
    assert (fmt.max, fmt.min_normal, fmt.min_subnormal) == (largest, smallest_normal, smallest)


def test_one_rounding_from_float64():
    # Through float32 both would be rounded twice: to -448 and to 1.
    assert FP8_E4M3.round(-431.99999999999994) == -416
    assert BF16.round(1 + 2.0**-8 + 2.0**-40) == 1.0078125


def test_e4m3_ends_at_464():
    assert FP8_E4M3.round(464.0) == 448
    assert np.isnan(FP8_E4M3.round(np.nextafter(464.0, 465.0)))
    assert FP8_E4M3.round(1e9, "toward_zero") == 448


def test_scales_saturate_at_the_low_end_and_ties_go_to_the_even_code():
    assert E8M0.round(2.0**-128) == 2.0**-127
    assert E8M0.encode(np.uint32(0x00500000).view(np.float32)) == 0
    assert E8M0.round(3.0) == 2.0
    assert E8M0.round(6.0) == 8.0


@pytest.mark.parametrize(
    ("fmt", "term", "end"), [(BF16, 1.0, 256), (BF16, 0.01, 4), (FP16, 1.0, 2048), (FP16, 0.01, 32)]
)
def test_repeated_addition_stops_where_the_teaching_script_says(fmt, term, end):
    total = 0.0
    for _ in range(10**5):
        after = fmt.round(total + term)
        if after == total:
            break
        total = after
    assert total == end


def test_version_and_names_are_there():
    assert numfmt.__version__
    assert all(hasattr(numfmt, name) for name in numfmt.__all__)


README = Path(__file__).parents[1] / "README.md"


def test_the_readme_prints_what_it_says(capsys):
    text = README.read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    shown = text.split("```text\n")[1].split("```")[0]
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == shown
    assert len(code.splitlines()) <= 12


def test_the_readme_explains_as_the_command_does(capsys):
    text = README.read_text(encoding="utf-8")
    shown = text.split("--explain\n")[1].split("...\n```")[0]
    assert main(["round", "0.1", "--to", "e4m3", "--explain"]) == 0
    assert capsys.readouterr().out.startswith(shown)
