"""Which inputs results depend on: what an audit tells of kernels that read other ones than their reference."""

import math

import numpy as np
import pytest

import tritongemm
from tritongemm.auditing.dependence import read_otherwise
from tritongemm.auditing.trials import Values

RIGHT = "It reads other inputs than it should (a mask, a bound, an index)."


def attention(q, k, v, off=0):
    rows, columns = q.shape[-2], k.shape[-2]
    allowed = np.arange(columns) <= np.arange(rows)[:, None] + off
    p = np.where(allowed, np.exp(q @ np.swapaxes(k, -1, -2)), 0)
    return p / p.sum(axis=-1, keepdims=True) @ v


def normalised(x, w, along_rows=False):
    x = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
    return x * (w[:, None] if along_rows else w)


def window(x, length=5, short=0):
    return np.stack([x[max(0, i - length + 1 + short) : i + 1].sum(axis=0) for i in range(len(x))])


def read(kernel, reference, inputs):
    def run(function):
        return lambda given: {"result": Values(np.asarray(function(**given)), "fp64")}

    return read_otherwise(run(kernel), run(reference), inputs, frozenset(inputs), math.inf)


def drawn(**shapes):
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("kernel", "reference", "shapes", "words"),
    [
        (
            lambda q, k, v: attention(q, k, v, 1), attention, dict.fromkeys("qkv", (2, 20, 8)),
            "What depends on 'k' at index 10 of its axis 1: of 'result' from row 9 on, in the reference from row 10",
        ),
        (
            lambda x, w: normalised(x, w, True), normalised, {"x": (9, 9), "w": (9,)},
            "'w' at index 4 of its axis 0: of 'result' row 4, in the reference column 4.",
        ),
        (
            lambda x: window(x, short=1), window, {"x": (20, 3)},
            "'x' at index 10 of its axis 0: of 'result' rows 10 to 13, in the reference rows 10 to 14.",
        ),
        (lambda x: 0 * x, lambda x: x, {"x": (9, 3)}, "of 'result' nothing, in the reference "),
    ],
)  # fmt: skip
def test_what_is_read_otherwise_is_told(kernel, reference, shapes, words):
    said = read(kernel, reference, drawn(**shapes))
    assert words in said
    assert said.endswith(RIGHT)


@pytest.mark.parametrize(
    ("kernel", "reference", "shapes"),
    [
        (attention, attention, dict.fromkeys("qkv", (2, 20, 8))),
        (lambda x, w: 2 * normalised(x, w), normalised, {"x": (9, 9), "w": (9,)}),
        (lambda x: window(x).astype(np.float16), window, {"x": (20, 3)}),
        (lambda x: x, lambda x: x, {"x": (2, 2)}),
    ],
)
def test_of_other_mistakes_and_of_roundings_nothing_is_said(kernel, reference, shapes):
    assert read(kernel, reference, drawn(**shapes)) == ""


@pytest.mark.triton
def test_an_audit_tells_it_of_a_kernel_that_computes_another_formula():
    blocked = pytest.importorskip("tritongemm.kernels.blocked").blocked

    def inputs(rng, rows=6, columns=6, depth=20):
        shapes = {"a": (rows, depth), "b": (depth, columns), "bias": (columns,)}
        return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}

    def audit(kernel):
        return tritongemm.audit_kernel(
            kernel, lambda a, b, bias: a @ b + bias, inputs, device="cpu", distributions=[], max_time=300,
            shapes=[{"rows": 7, "columns": 7}],
        )  # fmt: skip

    def along_rows(a, b, bias):
        return blocked(a, b) + np.resize(bias, len(a))[:, None]

    told = " ".join(audit(along_rows).verdict.failures)
    assert "What depends on 'bias' at index 3 of its axis 0: of 'result' row 3, in the reference column 3." in told
    assert audit(lambda a, b, bias: blocked(a, b) + bias).sides[0].reads == ""
