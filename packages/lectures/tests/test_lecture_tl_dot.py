"""Lecture "tl-dot": steps and products against exact rationals and recorded bits, and observations that can fail."""

from __future__ import annotations

import dataclasses
import zlib
from fractions import Fraction

import numpy as np
import pytest
from lectures_reports import quick_report

import numfmt_lectures
from numfmt.matrix_units import explain, find_unit, matmul, same_bits, tl_dot
from numfmt_lectures import recorded
from numfmt_lectures import tl_dot as lecture

NAME = "tl-dot"


@pytest.fixture(scope="module")
def report() -> numfmt_lectures.Report:
    return quick_report(NAME)


def test_every_observation_holds_by_default(report: numfmt_lectures.Report) -> None:
    observations = [o for d in report.demonstrations for o in d.observations]
    assert len(observations) == 18
    assert [o.key for o in observations if not o.holds] == []


def cut(x: Fraction, quantum: Fraction) -> Fraction:
    """x toward zero to a multiple of a quantum."""
    return (abs(x) // quantum) * quantum * (1 if x >= 0 else -1)


def exponent(x: Fraction) -> int:
    """floor(log2 |x|)."""
    e = abs(x).numerator.bit_length() - abs(x).denominator.bit_length()
    return e if Fraction(2) ** e <= abs(x) else e - 1


def step(c: Fraction, pairs: list[tuple[Fraction, Fraction]], fraction_bits: int) -> Fraction:
    """One fused step by the rules of the lecture's text, in exact rationals."""
    terms = [(a * b, exponent(a) + exponent(b)) for a, b in pairs if a * b]
    if c:
        terms.append((c, exponent(c)))
    if not terms:
        return Fraction(0)
    quantum = Fraction(2) ** (max(e for _, e in terms) - fraction_bits)
    total = sum((cut(value, quantum) for value, _ in terms), Fraction(0))
    return cut(total, Fraction(2) ** (exponent(total) - 23)) if total else total


@pytest.mark.parametrize("name", lecture.GENERATIONS)
def test_the_steps_of_the_table_follow_the_rules_of_the_text(name: str) -> None:
    facts = find_unit(name, "fp16", "fp32")
    found = lecture.try_probes()
    for probe in recorded.PROBES:
        value = Fraction(probe.c)
        for start in range(0, 16, facts.products):
            chosen = probe.factors[start : start + facts.products]
            value = step(value, [(Fraction(a), Fraction(b)) for a, b in chosen], facts.fraction_bits)
        left = (value - Fraction(probe.large)) / Fraction(probe.small)
        assert found[probe.key].units[name] == float(left), probe.key


def test_small_terms_are_what_is_not_large() -> None:
    for probe in recorded.PROBES:
        exact = Fraction(probe.c) + sum(Fraction(a) * Fraction(b) for a, b in probe.factors)
        assert exact - Fraction(probe.large) == Fraction(probe.small) != 0
        assert len(probe.factors) <= 16
        assert all(float(np.float16(x)) == x for pair in probe.factors for x in pair)


# The recording.


def test_the_recording_is_of_an_h200_and_complete() -> None:
    found = recorded.results()
    assert found["machine"] == "nvidia-h200"
    assert found["versions"]["gpu"] == "NVIDIA H200"
    assert set(found["dots"]) == {f"{dot.name}/{signs}" for dot in recorded.DOTS for signs in recorded.SIGNS}
    assert all(len(text) == 8 * recorded.KEPT**2 for text in found["dots"].values())
    assert set(found["probes"]) == {probe.key for probe in recorded.PROBES}


def test_inputs_come_from_a_stream_that_does_not_change() -> None:
    a, b = recorded.operands(recorded.DOTS[0], "both")
    assert a.shape == (64, recorded.DEPTH)
    assert b.shape == (recorded.DEPTH, 64)
    assert -1 <= a.min() < -0.999
    assert 0.999 < a.max() <= 1
    positive, _ = recorded.operands(recorded.DOTS[-1], "positive")
    assert positive.min() >= 0
    word = int(np.random.PCG64(zlib.crc32(b"fp32 ieee/both")).random_raw())
    assert a[0, 0] == np.float32(-1 + 2 * ((word >> 11) / 2**53))


def test_recorded_bits_are_read_as_they_are_written() -> None:
    assert recorded.words("3f800000c0000000").tolist() == [1.0, -2.0]


def test_the_recorded_serial_sum_is_fused_multiply_adds_in_order() -> None:
    """One output of the recorded FP32 product, every step rounded once from exact rationals."""
    dot = recorded.DOTS[0]
    a, b = recorded.operands(dot, "both")
    total = np.float32(0)
    for k in range(recorded.DEPTH):
        exact = Fraction(a[0, k]) * Fraction(b[k, 0]) + Fraction(float(total))
        near = np.float32(float(exact))
        around = [near, np.nextafter(near, np.float32(99)), np.nextafter(near, np.float32(-99))]
        total = min(around, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1))
    assert recorded.words(recorded.results()["dots"][f"{dot.name}/both"])[0] == total


@pytest.mark.parametrize("planted", ["one bit", "one output"])
def test_a_planted_bit_is_noticed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = dict(recorded.results())
    key = f"{recorded.DOTS[5].name}/both"
    text = found["dots"][key]
    changed = f"{int(text[:8], 16) ^ 1:08x}" if planted == "one bit" else "00000000"
    found["dots"] = {**found["dots"], key: changed + text[8:]}
    monkeypatch.setattr(lecture, "results", lambda: found)
    monkeypatch.setattr(lecture, "DOTS", recorded.DOTS[5:6])
    compared = lecture.compare()
    assert sum(c.outputs - c.reproduced for c in compared) == 1
    assert lecture.observe_recordings(compared)[0].holds is False


# Figures that were measured on a GPU.


def test_errors_of_input_precisions_are_the_measured_ones() -> None:
    found = lecture.try_precisions(lecture.Settings(depth=6144))
    measured = {"ieee": 0.400, "tf32": 199, "tf32_rounded": 75, "tf32x3": 0.078, "bf16x3": 1.08, "bf16x6": 0.073}
    for name, rms in measured.items():
        assert found[name].rms == pytest.approx(rms, rel=0.15), name
    assert found["tf32"].lean == pytest.approx(-0.92, abs=0.02)


def test_fp8_of_positive_data_loses_the_measured_share() -> None:
    # Measured at K = 6144 on U(0,1): largest relative error 0.115 without promotion.
    rng = np.random.default_rng(0)
    a, b = lecture.narrow(rng, 16, 6144, 0.0)
    c = matmul(a, b, unit="hopper", inputs="e4m3", schedule=tl_dot(128))
    assert float(np.max(np.abs(c / (a @ b) - 1))) == pytest.approx(0.115, rel=0.1)


# Observations can fail.


def test_planted_steps_fail() -> None:
    sound = lecture.try_probes()
    assert [o.holds for o in lecture.observe_steps(sound)] == [True] * 5
    other_gpu = {**sound, "far": dataclasses.replace(sound["far"], gpu=1.0)}
    assert [o.key for o in lecture.observe_steps(other_gpu) if not o.holds] == ["recorded"]

    def everywhere(value: float) -> dict[str, lecture.Step]:
        units = dict.fromkeys(lecture.GENERATIONS, value)
        return {key: dataclasses.replace(s, units=units, gpu=value, chain=value) for key, s in sound.items()}

    assert [o.key for o in lecture.observe_steps(everywhere(1.0)) if not o.holds] == [
        "fused",
        "toward_zero",
        "cut",
        "generations",
    ]


def test_planted_precisions_fail() -> None:
    def holds(**rms: float) -> list[bool]:
        leans = {"tf32": -0.9}
        figures = {"ieee": 0.4, "tf32": 200, "tf32_rounded": 75, "tf32x3": 0.08, "bf16x3": 1.1, "bf16x6": 0.07} | rms
        found = {name: lecture.Errors(value, 9, leans.get(name, 0)) for name, value in figures.items()}
        return [o.holds for o in lecture.observe_precisions(found, 0.2)]

    assert holds() == [True] * 3
    assert holds(tf32=0.5, tf32_rounded=0.4) == [False, True, True]
    assert holds(tf32_rounded=300) == [True, False, True]
    assert holds(bf16x3=0.1) == [True, True, False]


def test_planted_accumulators_fail() -> None:
    def holds(unit: float, last: float, lean: float = -1) -> list[bool]:
        found = {
            "unit": [lecture.Errors(unit, 9, 0), lecture.Errors(3, 9, 0)],
            "chain": [lecture.Errors(0.4, 9, 0)] * 2,
            "unit_positive": [lecture.Errors(3, 9, lean), lecture.Errors(last, 9, lean)],
            "chain_positive": [lecture.Errors(2, 9, 0), lecture.Errors(28, 9, 0)],
        }
        return [o.holds for o in lecture.observe_accumulators(found, (64, 16384))]

    assert holds(0.3, 1600) == [True] * 3
    assert holds(0.5, 20) == [False] * 3
    assert holds(0.3, 1600, lean=0) == [True, False, True]


def test_planted_spellings_fail() -> None:
    sound = lecture.try_spellings(lecture.Settings.quick())
    assert [o.holds for o in lecture.observe_spellings(sound)] == [True] * 4
    worse = {**sound, "plus_128": dataclasses.replace(sound["plus_128"], error=1.0)}
    assert [o.key for o in lecture.observe_spellings(worse) if not o.holds] == ["forms"]
    same = {**sound, "small_tile": dataclasses.replace(sound["small_tile"], twin="fast")}
    assert [o.key for o in lecture.observe_spellings(same) if not o.holds] == ["small_tile"]
    other = {**sound, "fast_64": dataclasses.replace(sound["fast_64"], twin=None)}
    assert [o.key for o in lecture.observe_spellings(other) if not o.holds] == ["block_k"]
    ((flat,), (steep,)) = (
        lecture.observe_promotions({"fast": [0.01, last], "promoted": [0.001, 0.001]}, (64, 4096), 128)
        for last in (0.01, 0.1)
    )
    assert (flat.holds, steep.holds) == (False, True)


@pytest.mark.parametrize(("name", "value"), [("promotion", 100), ("depth", 96), ("lengths", (64, 100))])
def test_settings_that_fit_no_instruction_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(numfmt_lectures.LectureError, match=f"'{name}' takes multiples of"):
        numfmt_lectures.compute(NAME, quick=True, **{name: value})


# Solutions of the exercises.


def test_solution_the_error_of_promotion_grows_with_the_interval() -> None:
    found = {}
    for interval in (32, 128, 512):
        settings = lecture.Settings(rows=16, lengths=(4096,), promotion=interval)
        found[interval] = lecture.try_promotions(settings)["promoted"][0]
    # Each partial sum is as many times as large as the interval is long, and so is what its unit cuts off.
    assert 2 < found[128] / found[32] < 16
    assert 2 < found[512] / found[128] < 16


def test_solution_at_512_the_fast_form_still_loses() -> None:
    found = lecture.try_spellings(lecture.Settings(rows=16, depth=512))
    assert found["fast"].error > 5 * found["plus_128"].error


def test_solution_alternating_signs_make_the_tensor_core_better() -> None:
    rng = np.random.default_rng(0)
    a, b = (lecture.FP16.round(x) for x in lecture.uniform(rng, 16, 4096, 0.0))
    plain = lecture.measure(matmul(a, b, unit="hopper", inputs="fp16"), a, b)
    a[:, 1::2] *= -1
    mixed = lecture.measure(matmul(a, b, unit="hopper", inputs="fp16"), a, b)
    assert mixed.rms < plain.rms / 20


def test_solution_block_sizes() -> None:
    assert same_bits(tl_dot(64), tl_dot(128), k=4096, inputs="bf16")
    assert not same_bits(tl_dot(64, "+="), tl_dot(128, "+="), k=4096, inputs="e4m3")
    assert "Same bits for every input" in explain(tl_dot(64), tl_dot(128), k=4096, inputs="bf16")
    assert "Same bits for every input" not in explain(tl_dot(64, "+="), tl_dot(128, "+="), k=4096, inputs="e4m3")


def test_solution_three_numbers_that_make_nothing() -> None:
    a, b = np.zeros((1, 16)), np.zeros((16, 1))
    a[0, :3], b[:3, 0] = (2.0**14, 3.0, -(2.0**14)), (2.0**14, 1.0, 2.0**14)
    assert float((a @ b)[0, 0]) == 3
    assert float(matmul(a, b, unit="hopper", inputs="fp16")[0, 0]) == 0
