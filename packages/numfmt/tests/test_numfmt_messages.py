"""What people try first and what they are told: names in place of formats, block formats, functions of other shapes."""

import re
import subprocess
import sys

import numpy as np
import pytest

import numfmt
import numfmt.families
from numfmt.matrix_units import identify
from numfmt.study import Data, Study


def test_a_study_takes_formats_by_name():
    assert Study(["bf16", numfmt.FP16, "e8m13"]).formats == (numfmt.BF16, numfmt.FP16, numfmt.lookup("e8m13"))
    assert Study(["bf16"]).cells() == Study([numfmt.BF16]).cells()


@pytest.mark.parametrize("name", ["mxfp8", "MXFP8_E4M3", "mxfp6-e2m3", "mxfp4", "nvfp4", "MXINT8"])
def test_block_formats_are_found_by_name(name):
    found = numfmt.families.block_formats(name)
    assert found
    assert all(fmt.name.casefold().startswith(name.casefold().replace("-", "_")) for fmt in found)


@pytest.mark.parametrize("name", ["", "mx", "e4m3", "nvfp", "fp4"])
def test_other_names_are_no_block_formats(name):
    assert numfmt.families.block_formats(name) == []


ONES = np.ones((1, 3))


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: numfmt.lookup("mxfp8"), ValueError, "numfmt.MXFP8_E4M3 and numfmt.MXFP8_E5M2 are there for arrays"),
        (lambda: numfmt.lookup("nvfp4"), ValueError, "the format of an element is FP4_E2M1"),
        (lambda: numfmt.lookup("mxpf4"), ValueError, "did you mean 'MXFP4'?"),
        (lambda: numfmt.lookup(8), TypeError, "name must be a string such as 'bf16', got 8"),
        (lambda: numfmt.accumulate(ONES, "bf16"), TypeError, "numfmt.lookup('bf16') gives the format of a name"),
        (lambda: numfmt.add(1, 2, numfmt.MXFP4), TypeError, "the block format MXFP4; round the data to MXFP4 first"),
        (lambda: numfmt.accumulate(ONES, numfmt.NF4), TypeError, "numfmt.BF16, got NF4"),
        (lambda: numfmt.explain("0.1", numfmt.MXFP4), TypeError, "got the block format MXFP4; round the data to MXFP4"),
        (lambda: numfmt.explain("0.1", "e4m4x"), ValueError, "unknown format 'e4m4x'"),
        (lambda: numfmt.error_report([1.0], ONES, "bf16"), TypeError, "numfmt.lookup('bf16')"),
        (lambda: numfmt.p3109("8", 3), TypeError, "width must be an integer, got '8'"),
        (lambda: numfmt.NVFP4.quantise([1.0], tensor_scale="x"), TypeError, "tensor_scale must be a number, got 'x'"),
        (
            lambda: numfmt.formats_table(["nf4"]),
            TypeError,
            "formats must be a FloatFormat such as numfmt.BF16, got NF4",
        ),
        (lambda: numfmt.plots.spacing("bf16"), TypeError, "formats must be a list, got 'bf16'; write ['bf16']"),
        (lambda: numfmt.plots.spacing([]), ValueError, "formats is empty"),
        (
            lambda: numfmt.plots.error(["int8"]),
            TypeError,
            "formats must be a FloatFormat such as numfmt.BF16, got INT8",
        ),
        (lambda: Study(["bf17"]), ValueError, "did you mean 'bf16'?"),
        (lambda: Study(["nf4"]), TypeError, "FloatFormat such as numfmt.BF16, got NF4"),
        (lambda: Study([16]), TypeError, "formats must be a FloatFormat such as numfmt.BF16, got 16"),
        (lambda: Data(fmt="e4m3"), TypeError, "numfmt.FP8_E4M3, or None, got 'e4m3'; numfmt.lookup('e4m3')"),
        (
            lambda: numfmt.BlockFormat("x", numfmt.INT8, 32, "e8m0"),
            TypeError,
            "scale must be a FloatFormat such as numfmt.E8M0, got 'e8m0'; numfmt.lookup('e8m0')",
        ),
        (
            lambda: identify(lambda a, b: 3),
            ValueError,
            "must return an array of shape (64, 64) for arguments",
        ),
        (lambda: identify(lambda a, b: a * b, kind="dot"), ValueError, "with kind='dot', got shape (128,)"),
    ],
)
def test_the_sentence_names_the_way_out(call, error, sentence):
    with pytest.raises(error, match=re.escape(sentence)):
        call()


def test_a_dot_product_may_be_an_array_of_one_number():
    found = identify(lambda x, y: (x * y).sum(keepdims=True), kind="dot", k=16)
    assert str(found.tree) == str(identify(lambda x, y: (x * y).sum(), kind="dot", k=16).tree)


def test_long_lists_of_names_are_cut_to_the_nearest():
    with pytest.raises(ValueError, match=r"known: bf16, FP16, .* and \d+ others$") as raised:
        numfmt.lookup("bf17")
    assert len(str(raised.value)) < 160


@pytest.mark.parametrize("name", sorted(numfmt._MODULES))
def test_modules_are_there_after_importing_the_package(name):
    program = f"import sys, numfmt; assert 'numfmt.{name}' not in sys.modules; print(numfmt.{name}.__name__)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == f"numfmt.{name}"
    assert name in dir(numfmt)


def test_names_are_formats_where_people_try_them():
    assert str(numfmt.explain("0.1", "e4m3")) == str(numfmt.explain("0.1", numfmt.FP8_E4M3))
    assert numfmt.formats_table(["bf16"]) == numfmt.formats_table([numfmt.BF16])
