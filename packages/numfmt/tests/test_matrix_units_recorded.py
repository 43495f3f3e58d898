"""The models against outputs recorded on an H200: the claim of bit accuracy, without a GPU."""

import zlib

import numpy as np
import pytest
from matrix_units_cases import all_cases
from matrix_units_data import bits
from matrix_units_recordings import (
    INDEX,
    RECORDED_KINDS,
    library_inputs,
    read_index,
    read_outputs,
    recorded_inputs,
    recorded_k,
)

from numfmt import matrix_units

CASES = {case.name: case for case in all_cases()}
# The index is delivered with its outputs. Once it is here, a missing or foreign file is an error, not a reason to skip.
pytestmark = pytest.mark.skipif(not INDEX.exists(), reason=f"{INDEX.name} has not been recorded yet")


@pytest.fixture(scope="module")
def index():
    return read_index()


@pytest.fixture(scope="module")
def outputs(index):
    return read_outputs(index)


def test_the_inputs_are_made_as_they_were(index):
    case = all_cases()[0]
    for kind, witness in index["inputs"].items():
        arrays = recorded_inputs(case.name, case.loads, case.accumulator, kind, (64, 64, recorded_k(case)))
        assert zlib.crc32(b"".join(x.tobytes() for x in arrays)) == witness, f"{kind} data changed: record again"


def test_the_recording_is_complete(index, outputs):
    assert set(index["dots"]) == set(CASES)
    assert set(outputs) == {f"{name}/{kind}" for name in CASES for kind in RECORDED_KINDS} | set(index["libraries"])
    assert {"gpu", "driver", "torch", "triton"} <= set(index["versions"])
    assert "H200" in index["versions"]["gpu"]


@pytest.mark.parametrize("name", CASES)
def test_tl_dot_as_recorded(name, index, outputs):
    case = CASES[name]
    rows, columns = index["kept"]
    for kind in RECORDED_KINDS:
        recorded = outputs[f"{name}/{kind}"]
        a, b, c = recorded_inputs(name, case.loads, case.accumulator, kind, tuple(index["dots"][name]["shape"]))
        got = matrix_units.matmul(
            a[:rows],
            b[:, :columns],
            c[:rows, :columns],
            "hopper",
            inputs=case.inputs,
            accumulator=case.accumulator,
            schedule=case.schedule,
        )
        assert recorded.shape == got.shape
        np.testing.assert_array_equal(bits(got), recorded, err_msg=kind)


def test_library_products_as_recorded(index, outputs):
    """torch's products are reproduced bit for bit by the schedules that were found for them."""
    rows, columns = index["kept"]
    for name, entry in index["libraries"].items():
        a, b = library_inputs(name, entry["inputs"], tuple(entry["shape"]))
        schedule = eval(entry["schedule"], vars(matrix_units).copy())
        got = matrix_units.matmul(
            a[:rows], b[:, :columns], unit=entry["unit"], inputs=entry["inputs"], schedule=schedule
        )
        np.testing.assert_array_equal(bits(got), outputs[name], err_msg=name)
