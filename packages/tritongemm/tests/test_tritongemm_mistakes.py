"""Every function of the package times every argument times many wrong values: each is refused in this package's words
(or torch's, where torch has some), by the name that the function's own signature gives to the argument.

What is taken although it looks odd is listed, so a value that slips through is a failure.
"""

import inspect
import re
from random import Random

import numpy as np
import pytest

import fpsan_tools
import tritongemm
from tritongemm.errors import TritongemmError
from tritongemm.operands import OperandError

pytest.importorskip("triton")
pytestmark = pytest.mark.triton

M, K, N = 4, 6, 5
TORCH = pytest.param("torch", marks=pytest.mark.torch)
LIBRARIES = pytest.mark.parametrize("library", ["numpy", TORCH])


@pytest.fixture(autouse=True)
def keep_nothing(monkeypatch):
    monkeypatch.setenv("TRITONGEMM_CACHE_DIR", "off")


def random(*shape):
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)


def array(library, x):
    if library == "numpy":
        return x
    return pytest.importorskip("torch").from_numpy(np.ascontiguousarray(x))


def eighth(library, x):
    if library == "numpy":
        return fpsan_tools.typed(
            tritongemm.elements.codes_of(x, tritongemm.elements.ELEMENTS["fp8e4m3fn"]), "fp8e4m3fn"
        )
    return array(library, x).to(pytest.importorskip("torch").float8_e4m3fn)


def timed(run):
    run()
    return 1.0


def calls(library):
    """Function name -> arguments it accepts."""
    A, B, C = (array(library, random(*shape)) for shape in ((M, K), (K, N), (M, N)))
    X, Y, Z = (array(library, random(*shape)) for shape in ((2, M, K), (2, K, N), (2, M, N)))
    rows, columns = (array(library, random(*shape)) for shape in ((M, 1), (1, N)))
    return {
        "mm": {"a": A, "b": B},
        "bmm": {"a": X, "b": Y},
        "addmm": {"input": C, "a": A, "b": B},
        "baddbmm": {"input": Z, "a": X, "b": Y},
        "matmul": {"a": A, "b": B},
        "linear": {"x": A, "weight": array(library, random(N, K))},
        "scaled_mm": {
            "a": eighth(library, random(M, K)), "b": eighth(library, random(K, N)),
            "scale_a": rows, "scale_b": columns,
        },
        "grouped_mm": {"list_a": [A], "list_b": [B]},
        "predict": {"a": A, "b": B},
        "prepare": {"b": B},
        "tune": {"a": A, "b": B, "timer": timed, "steps": 0},
    }  # fmt: skip


def matrices(library):
    """What is none of the matrices that any function of the table wants in any place."""
    wrong = {
        "None": None,
        "a string": "x",
        "a list": [[1.0]],
        "an object": object(),
        "a dictionary": {},
        "a vector of 3": array(library, random(3)),
        "3 x 3": array(library, random(3, 3)),
        "four dimensions": array(library, random(1, 1, 2, 2)),
        "int32": array(library, np.ones((M, K), np.int32)),
        "bool": array(library, np.ones((M, K), bool)),
        "complex": array(library, np.ones((M, K), np.complex64)),
        "float64": array(library, np.ones((M, K))),
        "float16": array(library, np.ones((M, K), np.float16)),
        "prepared": tritongemm.prepare(random(M, M)),
    }
    if library == "numpy":
        return wrong | {
            "big-endian": random(M, K).astype(">f4"),
            "field of a structure": np.zeros((M, K), [("a", "f4"), ("b", "i2")])["a"],
            "objects": np.ones((M, K), object),
            "strings": np.full((M, K), "a"),
            "masked": np.ma.masked_array(random(M, K)),
        }
    import torch

    return wrong | {
        "sparse": torch.ones(M, K).to_sparse(),
        "compressed rows": torch.ones(M, K).to_sparse_csr(),
        "nested": torch.nested.nested_tensor([torch.ones(2, 3)]),
        "on no device": torch.ones(M, K, device="meta"),
        "NumPy": random(M, K),
        "exponents": torch.ones(M, K).to(torch.float8_e8m0fnu),
    }


HUGE = 10**400
SETTINGS = {
    "precision": [None, 3, "tf33", "IEEE", ["ieee"], b"ieee", ""],
    "alpha": [None, "2", HUGE, -HUGE, 1j, True, [1.0], np.ones(1)],
    "beta": [None, "2", HUGE, 1j, True, 2.0],
    "activation": ["rellu", "ReLU", 3, ["relu"], np.ones(2), ""],
    "out_dtype": ["fp33", 3, "int8", np.int32, "float8_e4m3fn", object(), int, bool],
    "deterministic": ["no", None, 0, 1.0],
    "invariant": ["no", None, 0, 1.0],
    "config": ["tun", 3, {"kernel": "blocked"}, tritongemm.Config(kernel="blokced")],
    "steps": [-1, 1.5, "2", None, True],
    "max_seconds": [0, -1.0, "2", None],
}
MATRICES = {"a", "b", "c", "bias", "out", "input", "x", "weight", "scale_a", "scale_b"}
LISTS = {"list_a", "list_b", "outs"}
NOT_TRIED = {"timer"}  # anything that can be called

# (argument, wrong value): where it is right, for all functions or for those named.
TAKEN = {
    ("bias", "None"): "mm bmm addmm baddbmm linear scaled_mm predict tune",
    ("out", "None"): "mm bmm addmm baddbmm matmul linear scaled_mm",
    ("beta", "2.0"): "addmm baddbmm",
    ("b", "3 x 3"): "prepare",
    ("b", "NumPy"): "prepare",
    ("outs", "None"): "grouped_mm",
}


def attempts(library):
    """(function, argument, what it is, all arguments) of every attempt."""
    wrong = matrices(library)
    for function, arguments in calls(library).items():
        for argument in inspect.signature(getattr(tritongemm, function)).parameters:
            if argument in MATRICES:
                values = wrong
            elif argument in LISTS:
                values = {label: [x] for label, x in wrong.items()}
                values |= {"None": None, "a number": 3, "a string": "x", "none of them": [], "two": [random(M, K)] * 2}
            else:
                values = {repr(x)[:30]: x for x in SETTINGS[argument]} if argument not in NOT_TRIED else {}
            for label, value in values.items():
                given = {**arguments, argument: value}
                if argument == "c":
                    given["beta"] = 1.0
                yield function, argument, label, given


def names(message, argument):
    """Whether a message speaks of an argument, and begins with no other's name."""
    first = re.match(r"[a-z_]+(\[\d+\])?(, [a-z_]+(\[\d+\])?)*: ", message)
    if first is not None and argument not in re.split(r"\W+", first[0]):
        return False
    if argument == "a":  # the article is no name
        return bool(re.search(r"\ba(:|\.dtype:|'s| is | has | on |,)", message))
    return bool(re.search(rf"\b{argument}\b", message))


@LIBRARIES
@pytest.mark.filterwarnings(
    "ignore:Sparse CSR", "ignore:The PyTorch API of nested", "ignore:An output with one or more"
)
def test_every_wrong_value_of_every_argument_is_refused_by_its_name(library):
    count, problems = 0, []
    for function, argument, label, given in attempts(library):
        count += 1
        where = f"{function}({argument}={label})"
        try:
            getattr(tritongemm, function)(**given)
        except TritongemmError as error:
            message = str(error)
            # Without c there is nothing for beta; matrices of two libraries are listed by name.
            spoken = {argument, "beta"} if (argument, label) == ("c", "None") else {argument}
            listed = message.startswith(f"{function}: operands of two libraries") and argument in message
            if not listed and not any(names(message, name) for name in spoken):
                problems.append(f"{where}: {message}")
        except Exception as error:
            problems.append(f"{where}: {type(error).__name__}: {error}")
        else:
            if function not in TAKEN.get((argument, label), "").split():
                problems.append(f"{where} was taken")
    assert not problems, "\n".join(problems)
    assert count > 1000


def test_the_table_has_every_function_and_every_argument():
    """A function that is added to the package must be added here."""
    from tritongemm import api

    functions = {f.__name__ for f in api._all} | {"prepare", "tune"}
    assert set(calls("numpy")) == functions
    known = MATRICES | LISTS | NOT_TRIED | set(SETTINGS)
    for function in functions:
        assert set(inspect.signature(getattr(tritongemm, function)).parameters) <= known


# ------------------------------------------------------------------------------------- remedies, and what simply works
A, B = random(M, K), random(K, N)
REMEDIES = {
    "none": (lambda: tritongemm.mm(None, B), "a: mm takes NumPy arrays or torch tensors, given None"),
    "byte order": (lambda: tritongemm.mm(A.astype(">f4"), B.astype(">f4")), r"a: .*newbyteorder\('='\)"),
    "mask": (lambda: tritongemm.mm(np.ma.masked_array(A), B), r"a: .*filled"),
    "structure": (
        lambda: tritongemm.mm(np.zeros((M, K), [("a", "f4"), ("b", "i2")])["a"], B), "a: its strides.*pass a copy",
    ),
    "case": (lambda: tritongemm.mm(A, B, precision="IEEE"), "Did you mean 'ieee'"),
    "size of a number": (lambda: tritongemm.mm(A, B, alpha=HUGE), "alpha: .*range of fp64, given one of 401 digits"),
    "size no text has": (lambda: tritongemm.mm(A, B, alpha=-(10**5000)), "alpha: .*given one of 5001 digits"),
    "factor beyond fp32": (
        lambda: tritongemm.mm(A, B, alpha=1e39), "^value cannot be converted to type float .*mm: alpha is 1e.39",
    ),
    "linear's factor beyond fp32": (
        lambda: tritongemm.linear(A, A, c=A[:, :4], beta=-1e39), r"^value .*tritongemm\.linear: beta is -1e.39",
    ),
    "group's factor beyond fp32": (
        lambda: tritongemm.grouped_mm([A], [B], alpha=1e39), r"^value .*tritongemm\.grouped_mm: alpha is 1e.39",
    ),
    "prepared factor beyond fp32": (
        lambda: tritongemm.mm(A, tritongemm.prepare(B), alpha=1e39), r"^value .*tritongemm\.mm: alpha is 1e.39",
    ),
    "predicted factor beyond fp32": (
        lambda: tritongemm.predict(A, B, alpha=1e39), r"^value .*tritongemm\.predict: alpha is 1e.39",
    ),
    "scale beyond fp32": (
        lambda: tritongemm.scaled_mm(eighth("numpy", A), eighth("numpy", B), 1.0, 1e39), "^value .*scale_b is 1e",
    ),
    "predicted addend": (
        lambda: tritongemm.predict(A, B, c=A), r"^The expanded size .*predict: c must broadcast to the product",
    ),
    "out's name": (lambda: tritongemm.mm(A, B, out=[1.0]), "^out: mm takes"),
    "out's type": (lambda: tritongemm.mm(A, B, out=np.empty((M, N))), "out is float64, the product float32"),
    "linear's names": (lambda: tritongemm.linear(A, A[:, :3]), "linear: x's 6 columns and weight's 3 columns"),
    "linear's types": (lambda: tritongemm.linear(A, A.astype("d")), "x is float32, weight is float64"),
    "linear's mode": (lambda: tritongemm.linear(A, A, precision="fast"), "^x: mode 'fast' takes fp8e4m3fn, fp8e5m2"),
    "addmm's names": (lambda: tritongemm.addmm(None, A, B), "^input: addmm takes"),
    "bmm's names": (lambda: tritongemm.bmm(A[None], B), r"tritongemm\.bmm: b has 2 dimensions"),
    "group's names": (
        lambda: tritongemm.grouped_mm([A], [B], outs=[np.empty((1, 1), "f")]), r"^outs\[0\]: shape \(1, 1\), but",
    ),
    "group's factors": (lambda: tritongemm.grouped_mm([A, A], [B, A]), r"list_a\[1\]'s 6 columns and list_b\[1\]'s 4"),
    "group's types": (
        lambda: tritongemm.grouped_mm([A, A.astype("d")], [B, B.astype("d")]), r"list_a\[1\]: float64, but list_a\[0\]",
    ),
    "group's mode": (lambda: tritongemm.grouped_mm([A], [B], precision="auto"), "precision: grouped_mm computes ieee"),
    "group's memory": (
        lambda: tritongemm.grouped_mm([A, A], [B, B], outs=[np.empty((M, N), "f"), A[:, :N]]),
        r"outs\[1\]: it overlaps the memory of list_a",
    ),
    "prepared": (lambda: tritongemm.mm(tritongemm.prepare(A), B), "a: prepared operands are for the b"),
    "prepared for another": (
        lambda: tritongemm.predict(A, tritongemm.prepare(B), precision="bf16x6"), "precision: .*prepared for 'fp16x3'",
    ),
    "vector of scales": (
        lambda: tritongemm.scaled_mm(eighth("numpy", A), eighth("numpy", B), random(M), 1.0),
        r"scale_a: shape \(4,\); scales are one number, or \(4, 1\)",
    ),
    "mixed scales": (
        lambda: tritongemm.scaled_mm(
            eighth("numpy", random(M, 200)), eighth("numpy", random(200, N)), random(M, 2), 1.0
        ),
        r"scale_b: shape \(\), but scale_a has block scales: it must be \(2, 1\)",
    ),
}  # fmt: skip


def test_factors_as_large_as_the_sums_type_holds_are_taken():
    largest = float(np.finfo(np.float32).max)
    assert tritongemm.mm(A * 1e-38, B, alpha=largest).max() > 0.1
    assert tritongemm.mm(A * 1e-38, B, alpha=float("inf")).max() == np.inf
    wide = tritongemm.mm(A.astype("d") * 1e-300, B.astype("d"), alpha=1e300)
    np.testing.assert_allclose(wide, A.astype("d") @ B.astype("d"), rtol=1e-12)


@pytest.mark.torch
def test_what_has_no_numbers_is_not_predicted_from():
    torch = pytest.importorskip("torch")
    with pytest.raises(TritongemmError, match="predict: on device meta there are no numbers"):
        tritongemm.predict(torch.empty(2, 3, device="meta"), torch.empty(3, 4, device="meta"))


@pytest.mark.parametrize("remedy", REMEDIES)
def test_messages_name_the_argument_and_the_way_out(remedy):
    call, words = REMEDIES[remedy]
    with pytest.raises(TritongemmError, match=words):
        call()


@LIBRARIES
@pytest.mark.parametrize("scale", [np.float32(0.5), np.float64(0.5), 0.5, np.array(0.5, "f"), np.array([[0.5]], "f")])
def test_scales_may_be_single_numbers(library, scale):
    a, b = eighth(library, A), eighth(library, B)
    if library == "torch" and isinstance(scale, np.ndarray):
        scale = array(library, scale)
    one = array(library, np.ones((1, 1), np.float32))
    half = array(library, np.full((1, 1), 0.5, np.float32))
    got = tritongemm.scaled_mm(a, b, scale, 1, out_dtype="fp32")
    want = tritongemm.scaled_mm(a, b, half, one, out_dtype="fp32")
    np.testing.assert_array_equal(getattr(got, "array", got), getattr(want, "array", want))


@LIBRARIES
def test_prepared_operands_multiply_from_the_right(library):
    a, b = array(library, random(2, M, K)), array(library, B)
    prepared = tritongemm.prepare(b)
    for x in (a[0], a, a[0, 0]):
        np.testing.assert_array_equal(np.asarray(x @ prepared), np.asarray(tritongemm.matmul(x, b, precision="fp16x3")))
    want = tritongemm.predict(a[0], b, precision="fp16x3")
    np.testing.assert_array_equal(np.asarray(tritongemm.predict(a[0], prepared)), np.asarray(want))


@pytest.mark.parametrize("flag", [True, False, np.True_, np.False_])
def test_flags_are_true_or_false_of_python_or_numpy(flag):
    np.testing.assert_array_equal(tritongemm.mm(A, B, invariant=flag, deterministic=flag), tritongemm.mm(A, B))


def test_linear_adds_what_broadcasts_to_its_result():
    x, weight, c = random(2, 3, K), random(N, K), random(3, N)
    got = tritongemm.linear(x, weight, c=c, beta=2.0)
    want = tritongemm.mm(x.reshape(6, K), weight.T, c=np.concatenate([c, c]), beta=2.0)
    np.testing.assert_array_equal(got.reshape(6, N), want)


@pytest.mark.torch
def test_memory_that_cannot_grow_is_named():
    torch = pytest.importorskip("torch")
    a, b = torch.from_numpy(A.copy()), torch.from_numpy(B.copy())
    with (
        pytest.warns(UserWarning, match="resized"),
        pytest.raises(OperandError, match=r"not resizable \(out: of shape"),
    ):
        tritongemm.mm(a, b, out=torch.from_numpy(np.empty((1, 1), np.float32)))


@pytest.mark.torch
@pytest.mark.parametrize(
    ("option", "words"),
    [({"precision": "tf33"}, "precision: 'tf33'"), ({"activation": "rellu"}, "activation: .*relu"),
     ({"invariant": "no"}, "invariant: True or False")],
    ids=str,
)  # fmt: skip
def test_a_layer_says_at_once_what_is_wrong(option, words):
    pytest.importorskip("torch")
    from tritongemm import nn

    with pytest.raises(TritongemmError, match=words):
        nn.Linear(3, 4, **option)


# ------------------------------------------------------------------------------------------------------------ at random
def drawn(rng, library):
    """A call whose arguments fit each other by chance: (function, arguments, the result's shape if they do)."""
    function = rng.choice(["mm", "bmm", "matmul", "linear", "addmm", "baddbmm", "predict"])
    kind = rng.choice([np.float32, np.float32, np.float64, np.float16, np.int32])

    def any_shape():
        return tuple(rng.choice([0, 1, 2, 3, 5]) for _ in range(rng.choice([0, 1, 2, 2, 2, 3, 4])))

    def made(shape, dtype=kind):
        return array(library, (random(*shape) * 9).astype(dtype))

    m, k, n = (rng.choice([0, 1, 2, 3]) for _ in range(3))
    batch = (2,) if function in ("bmm", "baddbmm", "matmul") else ()
    first, second = (*batch, m, k), (*(batch if function != "matmul" else ()), k, n)
    names = ("x", "weight") if function == "linear" else ("a", "b")
    second = (n, k) if function == "linear" else second
    shapes = [any_shape() if rng.random() < 0.3 else shape for shape in (first, second)]
    given = {names[0]: made(shapes[0]), names[1]: made(shapes[1], kind if rng.random() < 0.9 else np.float64)}
    result = (*batch, m, n)
    if function in ("addmm", "baddbmm"):
        given["input"] = made(any_shape() if rng.random() < 0.5 else result)
    elif rng.random() < 0.3 and function != "matmul":
        given |= {"c": made(any_shape() if rng.random() < 0.5 else result), "beta": 0.5}
    if rng.random() < 0.3 and function != "matmul":
        given["bias"] = made((n,) if rng.random() < 0.7 else any_shape())
    if rng.random() < 0.2 and function != "predict":
        given["out"] = made(any_shape() if rng.random() < 0.5 else result)
    if rng.random() < 0.3:
        given["precision"] = rng.choice(["tf32", "ieee", "auto", "fp16x3", "fast", "bf16x3"])
    if rng.random() < 0.3:
        given["activation"] = rng.choice(["relu", "gelu"])
    return function, given, result if shapes == [first, second] else None


@LIBRARIES
@pytest.mark.filterwarnings("ignore:An output with one or more")
def test_arguments_at_random_are_multiplied_or_refused(library):
    rng, taken, refused = Random(5), 0, 0
    for _ in range(400):
        function, given, shape = drawn(rng, library)
        try:
            result = getattr(tritongemm, function)(**given)
        except TritongemmError:
            refused += 1
            continue
        taken += 1
        if shape is not None:
            assert tuple(np.shape(result)) == shape, (function, {name: np.shape(x) for name, x in given.items()})
    assert min(taken, refused) > 50
