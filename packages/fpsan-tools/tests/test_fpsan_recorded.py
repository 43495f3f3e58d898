"""Outputs recorded on an H200 against the algebra and the CPU engine: what the GPU gave, without a GPU."""

import pytest

pytest.importorskip("triton")

import fpsan_cases
import fpsan_prediction
import fpsan_recordings
import numpy as np

from fpsan_tools import algebra
from fpsan_tools.algebra.versions import installed_triton

pytestmark = pytest.mark.triton

if not (fpsan_recordings.DATA / f"{fpsan_recordings.NAME}.json").exists():
    pytest.skip("nothing was recorded yet", allow_module_level=True)

OUTPUTS, INDEX = fpsan_recordings.read()
RELEASE = INDEX["release"]
SAME_RELEASE = (installed_triton() or "").startswith(f"{RELEASE}.")
CASES = {case.identifier: (group, case)
         for group in fpsan_cases.grouped(fpsan_cases.all_cases(RELEASE)) for case in group.cases}  # fmt: skip
LAUNCHES = {f"{recording.domain}/{recording.name}": recording for recording in fpsan_recordings.recordings()}


def test_every_operation_and_type_gives_the_recorded_payloads():
    compared = 0
    for identifier, (group, case) in CASES.items():
        recorded = OUTPUTS.get(f"case/{identifier}")
        if recorded is None:
            assert not SAME_RELEASE, f"{identifier} is not recorded"
            continue
        predicted = fpsan_prediction.case(case, RELEASE, fpsan_recordings.case_operands(group))
        np.testing.assert_array_equal(predicted, recorded, err_msg=identifier)
        compared += 1
    assert compared >= 250


def test_another_version_of_the_algebra_gives_other_payloads():
    other = next(name for name in algebra.VERSIONS if not name.startswith(RELEASE))
    group, case = CASES["mul-fp32-fp32-fp32"]
    predicted = fpsan_prediction.case(case, other, fpsan_recordings.case_operands(group))
    assert (predicted != OUTPUTS["case/mul-fp32-fp32-fp32"]).mean() > 0.9


@pytest.mark.skipif(not SAME_RELEASE, reason=f"recorded with Triton {RELEASE}, whose compiler chose the layouts")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.exhaustive] * r.slow) for n, r in LAUNCHES.items()]
)
def test_launches_give_the_recorded_bits(name):
    np.testing.assert_array_equal(fpsan_prediction.launch(LAUNCHES[name], RELEASE), OUTPUTS[name])


def test_everything_recorded_is_compared():
    assert {name for name in OUTPUTS if not name.startswith("case/")} == set(LAUNCHES)
    assert len(LAUNCHES) >= 250
