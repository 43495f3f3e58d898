"""Bugs planted into correct kernels, and whether a check finds them.

Every mutant is a line of `fpsan_mutant_kernels` replaced by another. It is checked against the correct kernel at other
block sizes, at sizes that leave tails. `study()` gives the table that is published.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import fpsan_tools
from fpsan_tools.checking import check
from fpsan_tools.exceptions import OutOfBounds

SOURCE = Path(__file__).with_name("fpsan_mutant_kernels.py")


@dataclass(frozen=True)
class Mutant:
    """A planted bug.

    Attributes:
        kernel: the kernel it is planted into.
        name: what is wrong.
        old: text of the correct line or part of it, which occurs once in the kernel.
        new: text instead.
        found_by: what is expected to find it: "payloads", "bounds", "special values" (NaN and infinity with IEEE
            arithmetic), or "" if it is invisible.
        why: for invisible ones, why that is right, or what finds it instead.
    """

    kernel: str
    name: str
    old: str
    new: str
    found_by: str = "payloads"
    why: str = ""


def _m(*fields: str) -> Mutant:
    return Mutant("matmul", *fields)


def _s(*fields: str) -> Mutant:
    return Mutant("softmax", *fields)


def _a(*fields: str) -> Mutant:
    return Mutant("attention", *fields)


def _l(*fields: str) -> Mutant:
    return Mutant("layer_norm", *fields)


MUTANTS = [
    _m("tail of K dropped", "range(0, K, BLOCK_K)", "range(0, K - BLOCK_K + 1, BLOCK_K)"),
    _m("first tile of K dropped", "range(0, K, BLOCK_K)", "range(BLOCK_K, K, BLOCK_K)"),
    _m(
        "no mask on the tail of K",
        "live_ka = (rk < K - k0)[None, :]\n        live_kb = (rk < K - k0)[:, None]",
        "live_ka = (rk < BLOCK_K)[None, :]\n        live_kb = (rk < BLOCK_K)[:, None]",
        "bounds",
    ),
    _m(
        "no mask on the tail of K in a alone",
        "live_ka = (rk < K - k0)[None, :]",
        "live_ka = (rk < BLOCK_K)[None, :]",
        "bounds",
    ),
    _m(
        "no mask on the tail of K in b alone",
        "live_kb = (rk < K - k0)[:, None]",
        "live_kb = (rk < BLOCK_K)[:, None]",
        "bounds",
    ),
    _m(
        "mask of K one too long",
        "live_ka = (rk < K - k0)[None, :]\n        live_kb = (rk < K - k0)[:, None]",
        "live_ka = (rk <= K - k0)[None, :]\n        live_kb = (rk <= K - k0)[:, None]",
        "bounds",
    ),
    _m("mask of K one too short in a", "live_ka = (rk < K - k0)[None, :]", "live_ka = (rk < K - k0 - 1)[None, :]"),
    _m("no mask on the rows of a", "mask=live_m & live_ka", "mask=live_ka", "bounds"),
    _m(
        "masked-off elements of a and b are 1",
        "mask=live_m & live_ka, other=0.0)\n        y = tl.load(pb, mask=live_n & live_kb, other=0.0)",
        "mask=live_m & live_ka, other=1.0)\n        y = tl.load(pb, mask=live_n & live_kb, other=1.0)",
    ),
    _m(
        "masked-off elements of a alone are 1",
        "mask=live_m & live_ka, other=0.0",
        "mask=live_m & live_ka, other=1.0",
        "",
        "b is zero there, and 0 times anything finite is 0: the same function",
    ),
    _m(
        "masked-off elements of a alone are infinite",
        "mask=live_m & live_ka, other=0.0",
        'mask=live_m & live_ka, other=float("inf")',
        "special values",
    ),
    _m("no mask on the rows of the store", "mask=live_m & live_n)", "mask=live_n)", "bounds"),
    _m("no mask on the columns of the store", "mask=live_m & live_n)", "mask=live_m)", "bounds"),
    _m("store mask one row short", "mask=live_m & live_n)", "mask=(rm < M - 1)[:, None] & live_n)"),
    _m("a not advanced", "pa += BLOCK_K * stride_ak", "pa += 0 * stride_ak"),
    _m("b advanced along the wrong axis", "pb += BLOCK_K * stride_bk", "pb += BLOCK_K * stride_bn"),
    _m("sums start anew at every tile", "tl.dot(x, y, acc, input", "tl.dot(x, y, input"),
    _m(
        "sums rounded to fp16 at every tile",
        'acc = tl.dot(x, y, acc, input_precision="ieee")',
        'acc = tl.dot(x, y, acc, input_precision="ieee").to(tl.float16).to(tl.float32)',
    ),
    _m("operands rounded to bf16", "tl.dot(x, y, acc", "tl.dot(x.to(tl.bfloat16), y.to(tl.bfloat16), acc"),
    _m(
        "strides of b exchanged",
        "rk[:, None] * stride_bk + rn[None, :] * stride_bn",
        "rk[:, None] * stride_bn + rn[None, :] * stride_bk",
        "bounds",
    ),
    _m("last group of tiles of full size", "group = min(tiles_m - first_m, GROUP)", "group = GROUP"),
    _m("rows and columns of tiles exchanged", "pid_m * BLOCK_M + tl", "pid_n * BLOCK_M + tl"),
    _m("alpha forgotten", "acc = acc * alpha", "acc = acc"),
    _m(
        "alpha applied to the bias too",
        "acc = acc * alpha\n    acc += tl.load(bias + rn, mask=rn < N, other=0.0)[None, :]",
        "acc += tl.load(bias + rn, mask=rn < N, other=0.0)[None, :]\n    acc = acc * alpha",
    ),
    _m(
        "bias along the rows",
        "bias + rn, mask=rn < N, other=0.0)[None, :]",
        "bias + rm, mask=rm < N, other=0.0)[:, None]",
    ),
    _m("bias forgotten", "acc += tl.load(bias + rn, mask=rn < N, other=0.0)[None, :]", "acc += 0.0"),
    _s("exp2 instead of exp", "tl.exp(value)", "tl.exp2(value)"),
    _s("not divided", "result = power / total", "result = power"),
    _s(
        "maximum not subtracted",
        "value = value - tl.max(value, axis=1)[:, None]",
        "value = value",
        "",
        "the same function of real numbers: payloads do not overflow (lengths are odd here)",
    ),
    _s(
        "maximum of all rows of the tile",
        "tl.max(value, axis=1)[:, None]",
        "tl.max(tl.max(value, axis=1), axis=0)",
        "",
        "the same function of real numbers, whatever is subtracted (lengths are odd here)",
    ),
    _s(
        "masked-off elements count as exp(0)",
        'other=-float("inf"))\n',
        "other=0.0)\n",
        "",
        "the maximum may be another one, but the quotient is the same function; masked-off powers are zeroed later",
    ),
    _s("masked-off elements not zeroed", "tl.where(live, power, 0.0)", "power", "payloads"),
    _s("sum along the wrong axis", "total = tl.sum(power, axis=1)[:, None]", "total = tl.sum(power, axis=0)[None, :]"),
    _s("rows as long as n", "row[:, None] * stride_x", "row[:, None] * n"),
    _s("mask one too long", "(column < n)", "(column <= n)", "bounds"),
    _s("no mask on the rows", "(row < rows)[:, None] & (column < n)[None, :]", "(column < n)[None, :]", "bounds"),
    _s("logarithm of softmax without the logarithm", "result = power / total", "result = value - total"),
    _a("sums not rescaled", "acc = acc * factor[:, None]\n", "acc = acc\n"),
    _a("denominator not rescaled", "total * factor + tl.sum", "total + tl.sum"),
    _a("maximum not carried on", "        best = highest\n", "        best = best\n"),
    _a("scale forgotten", "query = query * scale", "query = query"),
    _a("scale applied twice", "query = query * scale", "query = query * scale * scale"),
    _a(
        "keys used as values",
        "tl.load(v + head * stride_vh + rn[:, None] * stride_v",
        "tl.load(k + head * stride_kh + rn[:, None] * stride_k",
    ),
    _a("values with the head stride of keys", "v + head * stride_vh", "v + head * stride_kh"),
    _a("all heads read the first one's keys", "k + head * stride_kh", "k + 0 * stride_kh"),
    _a("last tile of keys dropped", "range(0, keys, BLOCK_N)", "range(0, keys - BLOCK_N, BLOCK_N)"),
    _a("masked-off keys not zeroed", "power = tl.where(live, power, 0.0)", "power = power"),
    _a(
        "no mask on the keys' tail when loading",
        "live_n = (rn < keys)[:, None]",
        "live_n = (rn < n0 + BLOCK_N)[:, None]",
        "bounds",
    ),
    _a("denominator of the last tile only", "total * factor + tl.sum(power", "tl.sum(power"),
    _a(
        "probabilities rounded to fp16",
        "acc = tl.dot(power, value, acc",
        "acc = tl.dot(power.to(tl.float16), value.to(tl.float16), acc",
    ),
    _a("no mask on the queries of the store", "rd[None, :], acc, mask=live_m)", "rd[None, :], acc)", "bounds"),
    _a("causal mask without the diagonal", "rn[None, :] <= rm[:, None]", "rn[None, :] < rm[:, None]"),
    _a("causal mask the wrong way round", "rn[None, :] <= rm[:, None]", "rn[None, :] >= rm[:, None]"),
    _a("causal mask forgotten", "if CAUSAL:", "if not CAUSAL:"),
    _l("masked-off lanes count in the variance", "tl.where(live, value - mean, 0.0)", "value - mean"),
    _l("divided by the block's length", "tl.sum(value, axis=0) / n", "tl.sum(value, axis=0) / BLOCK"),
    _l("unbiased variance", "tl.sum(centred * centred, axis=0) / n", "tl.sum(centred * centred, axis=0) / (n - 1)"),
    _l("mean not subtracted", "value - mean, 0.0)", "value, 0.0)"),
    _l("eps forgotten", "tl.rsqrt(variance + eps)", "tl.rsqrt(variance)"),
    _l("eps outside of the root", "tl.rsqrt(variance + eps)", "tl.rsqrt(variance) + eps"),
    _l("root instead of its inverse", "tl.rsqrt(variance + eps)", "tl.sqrt(variance + eps)"),
    _l("weight forgotten", "scale * w + b", "scale + b"),
    _l("bias forgotten", "scale * w + b", "scale * w"),
    _l("weight and bias exchanged", "scale * w + b", "scale * b + w"),
    _l("weight of the row", "weight + column, mask=live", "weight + row, mask=row < n"),
    _l("mean of squares instead of centred squares", "tl.sum(centred * centred", "tl.sum(value * value"),
    _l("mask one too short", "live = column < n", "live = column < n - 1"),
    _l("rows as long as n", "x + row * stride", "x + row * n"),
]


def plant(mutant: Mutant, folder: Path) -> ModuleType:
    """Write the module with the bug and import it.

    Args:
        mutant: the bug.
        folder: for the file; Triton reads the kernel's text from it.

    Returns:
        The module.

    Raises:
        ValueError: if the text to be replaced does not occur exactly once in the kernel.
    """
    text = SOURCE.read_text()
    start = text.index(f"def {mutant.kernel}(")
    stop = text.find("@triton.jit", start)
    body = text[start : None if stop < 0 else stop]
    if body.count(mutant.old) != 1:
        raise ValueError(f"{mutant.kernel}, {mutant.name}: {mutant.old!r} occurs {body.count(mutant.old)} times")
    path = folder / f"mutant_{next(_numbers)}.py"
    path.write_text(text.replace(body, body.replace(mutant.old, mutant.new)))
    return load(path)


_numbers = itertools.count()


def load(path: Path) -> ModuleType:
    """Import a file under a name of its own."""
    name = f"fpsan_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# ---- launchers: a module's kernel with one of two configurations

Launcher = Callable[..., None]


def _elements(array: np.ndarray) -> tuple[int, ...]:
    return tuple(step // array.itemsize for step in array.strides)


def matmul(kernel: Any, first: bool) -> Launcher:
    bm, bn, bk, group = (16, 16, 16, 2) if first else (32, 16, 32, 2)

    def launch_matmul(a, b, bias, c, alpha):
        (m, k), n = a.shape, b.shape[1]
        grid = (-(-m // bm) * -(-n // bn),)
        strides = (*_elements(a), *_elements(b), *_elements(c))
        kernel[grid](a, b, bias, c, m, n, k, *strides, alpha, BLOCK_M=bm, BLOCK_N=bn, BLOCK_K=bk, GROUP=group)

    return launch_matmul


def matmul_inputs(rng, M=83, N=37, K=45):
    a, b, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((M, K), (K, N), (N,)))
    return {"a": a, "b": b, "bias": bias, "c": np.zeros((M, N), np.float32), "alpha": 0.75}


def softmax(kernel: Any, first: bool) -> Launcher:
    rows, more = (4, 1) if first else (8, 2)

    def launch_softmax(x, y):
        m, n = x.shape
        block = max(16, 1 << (n - 1).bit_length()) * more
        kernel[(-(-m // rows),)](x, y, m, n, _elements(x)[0], _elements(y)[0], ROWS=rows, BLOCK=block)

    return launch_softmax


def softmax_inputs(rng, M=13, N=45):
    wide = rng.standard_normal((M, N + 3)).astype(np.float32)
    return {"x": wide[:, :N], "y": np.zeros((M, N), np.float32)}


def attention(causal: bool) -> Callable[[Any, bool], Launcher]:
    def side(kernel: Any, first: bool) -> Launcher:
        # A causal row has an even number of keys in places, so its tiles must be the same on both sides.
        bm, bn = (16, 16) if first or causal else (32, 32)

        def launch_attention(q, k, v, out, scale):
            heads, m, d = q.shape
            n = k.shape[1]
            strides = (*(_elements(x)[0] for x in (q, k, v)), *(_elements(x)[1] for x in (q, k, v)))
            grid = (-(-m // bm), heads)
            kernel[grid](q, k, v, out, m, n, *strides, scale, D=d, BLOCK_M=bm, BLOCK_N=bn, CAUSAL=causal)

        return launch_attention

    return side


def attention_inputs(rng, M=37, N=75):
    heads, d = 2, 16
    q, k = (rng.standard_normal((heads, n, d)).astype(np.float32) for n in (M, N))
    v = rng.standard_normal((heads, N + 2, d)).astype(np.float32)[:, :N]
    return {"q": q, "k": k, "v": v, "out": np.zeros_like(q), "scale": 0.25}


def layer_norm(kernel: Any, first: bool) -> Launcher:
    more = 1 if first else 2

    def launch_layer_norm(x, weight, bias, y, eps):
        m, n = x.shape
        block = max(16, 1 << (n - 1).bit_length()) * more
        kernel[(m,)](x, weight, bias, y, n, _elements(x)[0], eps, BLOCK=block)

    return launch_layer_norm


def layer_norm_inputs(rng, M=5, N=45):
    x, y = rng.standard_normal((M, N + 3)).astype(np.float32), np.zeros((M, N + 3), np.float32)
    weight, bias = (rng.standard_normal(N).astype(np.float32) for _ in range(2))
    return {"x": x[:, :N], "weight": weight, "bias": bias, "y": y[:, :N], "eps": 1e-5}


SIDES: dict[str, tuple[Callable[[Any, bool], Launcher], Callable[..., Any]]] = {
    "matmul": (matmul, matmul_inputs),
    "softmax": (softmax, softmax_inputs),
    "attention": (attention(False), attention_inputs),
    "causal attention": (attention(True), attention_inputs),
    "layer_norm": (layer_norm, layer_norm_inputs),
}


def sides_of(mutant: Mutant) -> tuple[Callable[[Any, bool], Launcher], Callable[..., Any]]:
    """How the mutant's kernel is launched, and its inputs."""
    return SIDES["causal attention" if mutant.name.startswith("causal") else mutant.kernel]


def examine(mutant: Mutant, correct: ModuleType, folder: Path, **options: Any) -> fpsan_tools.Verdict:
    """Check a mutant against the correct kernel.

    Args:
        mutant: the bug.
        correct: the module of correct kernels.
        folder: for the mutant's file.
        **options: of `check`.

    Returns:
        The verdict.
    """
    make_side, make_inputs = sides_of(mutant)
    wrong = plant(mutant, folder)
    a, b = make_side(getattr(correct, mutant.kernel), True), make_side(getattr(wrong, mutant.kernel), False)
    return check(a, b, make_inputs, special_values=True, **options)


def found_by(verdict: fpsan_tools.Verdict) -> str:
    """What found a bug: "payloads", "bounds", "special values", or "" if nothing did."""
    if verdict.equal:
        return ""
    if not verdict.comparisons:
        return "bounds"
    return "special values" if all(c.equal for c in verdict.comparisons) else "payloads"


def planted_lines(mutant: Mutant) -> range:
    """Numbers of the lines, in the mutant's file, that differ from the correct kernel's."""
    text = SOURCE.read_text()
    start = text.index(mutant.old, text.index(f"def {mutant.kernel}("))
    first = text.count("\n", 0, start) + 1
    return range(first, first + mutant.new.rstrip("\n").count("\n") + 1)


def lines_away(verdict: fpsan_tools.Verdict, mutant: Mutant) -> int | None:
    """How far the nearest line that the verdict names is from a planted one; None if it names no line."""
    named = [int(line) for line in re.findall(r"mutant_\d+\.py:(\d+):", verdict.reason)]
    if verdict.divergence is not None:
        named += [place.line for place in verdict.divergence.places]
    return min((abs(line - planted) for line in named for planted in planted_lines(mutant)), default=None)


def masked_off(mutant: Mutant, module: ModuleType) -> str:
    """What the bounds check says of a module's kernel when it looks at masked-off lanes too."""
    make_side, make_inputs = sides_of(mutant)
    launcher = make_side(getattr(module, mutant.kernel), False)
    try:
        with fpsan_tools.on_cpu(bounds="all"):
            launcher(**make_inputs(np.random.default_rng(0)))
    except OutOfBounds as error:
        return str(error).split(": ", 1)[1].split(";")[0]
    return "every lane is inside"


def record(mutant: Mutant, verdict: fpsan_tools.Verdict, masked: str) -> dict[str, Any]:
    """What the study keeps of one mutant, as JSON-ready data."""
    worst = max(verdict.comparisons, key=lambda c: c.share, default=None)
    return {
        "kernel": mutant.kernel,
        "bug": mutant.name,
        "correct": mutant.old,
        "planted": mutant.new,
        "found_by": found_by(verdict),
        "where": worst.pattern.text if worst is not None and not verdict.equal else "",
        "share": worst.share if worst is not None else None,
        "lines_away": lines_away(verdict, mutant),
        "diagnosis": [f"{finding.kind}: {finding.text}" for finding in verdict.findings],
        "why_invisible": mutant.why,
        "masked_off_lanes": masked,
    }


def study(folder: Path, progress: Callable[[int, int], None] | None = None, one_in: int = 1) -> list[dict[str, Any]]:
    """Check every mutant, with diagnosis.

    Args:
        folder: for the mutants' files.
        progress: called with (mutants done, mutants in all).
        one_in: check one mutant in so many.

    Returns:
        A record per mutant.
    """
    correct = load(SOURCE)
    records = []
    chosen = MUTANTS[::one_in]
    for number, mutant in enumerate(chosen):
        verdict = examine(mutant, correct, folder, budget=60.0)
        answer = ""
        if verdict.equal:
            answer = masked_off(mutant, plant(mutant, folder))
            if answer == masked_off(mutant, correct):
                answer = f"as in the correct kernel: {answer}"
        records.append(record(mutant, verdict, answer))
        if progress is not None:
            progress(number + 1, len(chosen))
    return records
