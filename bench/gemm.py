"""Matrix products on a GPU next to the vendor's library: speed in two regimes, ratio, share of the ceiling, error.

    python3 bench/gemm.py --machine nvidia-h200 [--quick] [--family NAME ...] [--shape MxKxN ...]

Every contestant first runs in a process of its own with a time limit, on random data, and is compared with float64 on
some of its rows. Then, per product, all contestants take turns in random order: replays of a CUDA graph (no launch
overhead), operands that alternate between sets larger than the cache together. *Cool*: 40 ms idle, then 3 ms of work:
the clock that a single product sees. *Hot*: 15 ms of work, back to back: the clock that the card's power limit leaves.
The ratio is the median over the rounds of the vendor's time over ours in the same round. The vendor runs twice per
round; the spread of its two figures is the noise of the method.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

START = time.time()
SQUARE = [(8192, 6144, 4096), (4096, 4096, 4096), (8192, 8192, 8192)]  # M, K, N
RAGGED = [(4095, 4097, 4099), (8191, 6143, 4095)]
SMALL = [(m, k, n) for m in (1, 16, 64, 128) for k in (4096, 7168, 18432) for n in (4096, 7168, 18432)]
LIMIT_S = 60
GROUP = 9  # contestants tested per process
Job = tuple[str, tuple[int, int, int], bool]  # family, product, whether batch-invariant
ERROR_ROWS = 64
BLOCK = 128  # products that share a scale of a block


@dataclass(frozen=True)
class Family:
    """One kind of product.

    Attributes:
        name: Its name.
        mode: Precision mode of ours.
        dtype: Operand type.
        transposed: Whether B is contiguous along k (a weight matrix as layers keep it).
        result: Result type.
        unit: Whose measured ceiling the share refers to, and how many of its products one of ours costs.
        prepared: Whether B is cut into parts beforehand.
        vendor: The vendor's way: "matmul", "tf32", "fast" or "exact" (scaled fp8), "blocks" (scales of 1 x 128 of A and
            128 x 128 of B).
    """

    name: str
    mode: str
    dtype: str
    transposed: bool
    result: str
    unit: tuple[str, int]
    prepared: bool = False
    vendor: str = "matmul"


FAMILIES = [
    Family("bf16 NT", "ieee", "bfloat16", True, "bfloat16", ("16 bit", 1)),
    Family("bf16 NN", "ieee", "bfloat16", False, "bfloat16", ("16 bit", 1)),
    Family("fp16 NN", "ieee", "float16", False, "float16", ("16 bit", 1)),
    Family("fp8 fast", "fast", "float8_e4m3fn", True, "bfloat16", ("fp8", 1), vendor="fast"),
    Family("fp8 promoted", "ieee", "float8_e4m3fn", True, "bfloat16", ("fp8", 1), vendor="exact"),
    Family("fp8 block scales", "ieee", "float8_e4m3fn", True, "bfloat16", ("fp8", 1), vendor="blocks"),
    Family("tf32 NT", "tf32", "float32", True, "float32", ("tf32", 1), vendor="tf32"),
    Family("tf32 NN", "tf32", "float32", False, "float32", ("tf32", 1), vendor="tf32"),
    Family("tf32_even NT", "tf32_even", "float32", True, "float32", ("tf32", 1), vendor="tf32"),
    Family("tf32_even NN", "tf32_even", "float32", False, "float32", ("tf32", 1), vendor="tf32"),
    Family("ieee fp32", "ieee", "float32", False, "float32", ("fp32", 1)),
    Family("fp16x3", "fp16x3", "float32", False, "float32", ("16 bit", 3)),
    Family("fp16x3 prepared", "fp16x3", "float32", False, "float32", ("16 bit", 3), prepared=True),
    Family("int8x6", "int8x6", "float32", False, "float32", ("int8", 6)),
    Family("int8x6 prepared", "int8x6", "float32", False, "float32", ("int8", 6), prepared=True),
    Family("bf16x6", "bf16x6", "float32", False, "float32", ("16 bit", 6)),
]
QUICK = ("bf16 NT", "fp8 promoted", "fp16x3", "int8x6 prepared")
ON_RAGGED = ("bf16 NN", "tf32 NN", "ieee fp32", "fp16x3", "int8x6")


def family_named(name: str) -> Family:
    """The family of a name."""
    return next(f for f in FAMILIES if f.name == name)


def operands(
    family: Family, shape: tuple[int, int, int], generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Uniform random operands."""
    M, K, N = shape
    kind = getattr(torch, family.dtype)

    def draw(rows: int, columns: int) -> torch.Tensor:
        return torch.empty((rows, columns), device="cuda").uniform_(-1, 1, generator=generator).to(kind)

    return draw(M, K), draw(N, K).t() if family.transposed else draw(K, N)


@functools.cache
def block_scales(M: int, K: int, N: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random scales of 1 x 128 of A, contiguous along M, and of 128 x 128 of B, along K: the vendor's layouts."""
    generator = torch.Generator(device="cuda").manual_seed(3)

    def draw(along: int, blocks: int) -> torch.Tensor:
        return torch.empty((blocks, along), device="cuda").uniform_(0.5, 1.5, generator=generator)

    blocks = -(-K // BLOCK)
    return draw(M, blocks).t(), draw(-(-blocks // 4) * 4, -(-N // BLOCK))[:, :blocks].t()


def scales(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`block_scales` of a product."""
    return block_scales(a.shape[0], a.shape[1], b.shape[1])


def ours(family: Family, out: torch.Tensor, invariant: bool = True) -> Callable[[Any, Any], Any]:
    """Our product, writing to `out`; a prepared family takes prepared operands."""
    from tritongemm import dispatch, emulation

    if family.prepared:
        return lambda a, b: emulation.product(a, b, out=out)
    if family.vendor == "blocks":
        return lambda a, b: dispatch.scaled_product(a, b, *scales(a, b), mode=family.mode, out=out)
    return lambda a, b: dispatch.product(a, b, mode=family.mode, out=out, invariant=invariant)


def vendors(family: Family, out: torch.Tensor) -> Callable[[Any, Any], Any]:
    """The vendor's product."""
    one = torch.ones((), device="cuda")
    if family.vendor in ("fast", "exact"):
        fast = family.vendor == "fast"
        return lambda a, b: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=out.dtype, use_fast_accum=fast)
    if family.vendor == "blocks":

        def scaled(a: Any, b: Any) -> Any:
            scale_a, scale_b = scales(a, b)
            return torch._scaled_mm(a, b, scale_a=scale_a, scale_b=scale_b, out_dtype=out.dtype)

        return scaled
    allow = family.vendor == "tf32"

    def product(a: Any, b: Any) -> Any:
        torch.backends.cuda.matmul.allow_tf32 = allow
        return torch.matmul(a, b, out=out)

    return product


def prepared(family: Family, b: Any) -> Any:
    """B as our product takes it."""
    if not family.prepared:
        return b
    from tritongemm import emulation

    return emulation.prepare(b, family.mode)


# ------------------------------------------------------------------------------------------------- first: is it right?
def one(name: str, shape: tuple[int, int, int], invariant: bool) -> dict[str, Any]:
    """Runs a contestant once and compares some rows with float64; for a process of its own."""
    family = family_named(name)
    generator = torch.Generator(device="cuda").manual_seed(1)
    a, b = operands(family, shape, generator)
    M, N = shape[0], shape[2]
    out = torch.full((M, N), float("nan"), device="cuda", dtype=getattr(torch, family.result))
    ours(family, out, invariant)(a, prepared(family, b))
    torch.cuda.synchronize()
    rows = torch.linspace(0, M - 1, min(M, ERROR_ROWS), device="cuda").long()
    x, y = a[rows].double(), b.double()
    if family.vendor == "blocks":
        scale_a, scale_b = (s.double().repeat_interleave(BLOCK, 1) for s in scales(a, b))
        x, y = x * scale_a[rows, : shape[1]], y * scale_b.repeat_interleave(BLOCK, 0)[: shape[1], :N]
    golden, magnitude = x @ y, x.abs() @ y.abs()
    scale = magnitude * 2.0**-24

    def figures(result: torch.Tensor) -> dict[str, float]:
        error = (result[rows].double() - golden) / scale
        return {"rms": error.square().mean().sqrt().item(), "max": error.abs().max().item()}

    from tritongemm import emulation

    outcome = emulation.last_outcome()
    mine = figures(out)
    missing = int(torch.isnan(out).sum())
    other = torch.full_like(out, float("nan"))
    result = vendors(family, other)(a, b)
    return {
        "error": mine, "vendor_error": figures(result), "missing": missing,
        "outcome": None if outcome is None else str(outcome), "equal_bits": bool(torch.equal(out, result)),
    }  # fmt: skip


def checked(jobs: list[Job], at_once: int) -> dict[Job, dict[str, Any]]:
    """`one` for every job, in processes of their own with a time limit: a deadlock must not block the card.

    Jobs of one family share processes, so that starting Python and compiling are paid once; those that a process did
    not reach are run again, each alone, so that one that hangs takes none of its neighbours with it.
    """
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job[0], []).append(job)
    parts = [group[i : i + GROUP] for group in groups.values() for i in range(0, len(group), GROUP)]
    done = _processes(parts, at_once)
    return done | _processes([[job] for job in jobs if job not in done], at_once, final=True)


def known(path: Path, jobs: list[Job]) -> dict[Job, dict[str, Any]]:
    """`checked`, as an earlier run of the same code on this machine wrote it down; what it lacks has failed."""
    facts = {}
    for f in json.loads(path.read_text(encoding="utf-8"))["figures"]:
        job = (f["family"], tuple(f["shape"]), f.get("contestant") != "ours, not invariant")
        if "failed" in f:
            facts[job] = {"failed": f["failed"]}
        elif f["contestant"].startswith("ours") and f["error"]:
            facts[job] = f["error"]
    return {job: facts.get(job, {"failed": f"not in {path.name}"}) for job in jobs}


def _processes(parts: list[list[Job]], at_once: int, final: bool = False) -> dict[Job, dict[str, Any]]:
    """Facts of the jobs that came to an end; at the end of a `final` pass the others are failures."""
    waiting, running = list(parts), []
    done: dict[Job, dict[str, Any]] = {}
    while waiting or running:
        while waiting and len(running) < at_once:
            part = waiting.pop(0)
            words = [f"{name}:{'x'.join(map(str, shape))}:{int(invariant)}" for name, shape, invariant in part]
            log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed below; a pipe would fill up and block
            process = subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), "--one", *words], stdout=log, stderr=subprocess.STDOUT
            )
            running.append((part, process, log, time.time()))
        for entry in list(running):
            part, process, log, start = entry
            late = time.time() - start > LIMIT_S
            if process.poll() is None and not late:
                continue
            if late:
                process.kill()
                process.wait()
            log.seek(0)
            text = log.read()
            facts = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
            done.update(zip(part, facts, strict=False))
            if final and not facts:
                done[part[0]] = {"failed": f"no result within {LIMIT_S} s" if late else text[-1500:]}
            running.remove(entry)
            log.close()
        time.sleep(0.05)
    return done


# ------------------------------------------------------------------------------------------------------- then: how fast
CLOCKS: list[tuple[int, int]] = []


@dataclass
class Meter:
    """Clock and power of the card, if they can be read."""

    handle: Any = None
    library: Any = None

    @classmethod
    def make(cls) -> Meter:
        try:
            import pynvml

            pynvml.nvmlInit()
            return cls(pynvml.nvmlDeviceGetHandleByIndex(0), pynvml)
        except Exception:
            return cls()

    def read(self) -> tuple[int, int]:
        if self.library is None:
            return 0, 0
        clock = self.library.nvmlDeviceGetClockInfo(self.handle, 1)
        return clock, self.library.nvmlDeviceGetPowerUsage(self.handle) // 1000


@dataclass
class Graph:
    """Repeated calls captured once."""

    graph: Any
    calls: int

    @classmethod
    def capture(cls, function: Callable[..., Any], sets: list[tuple[Any, Any]], ms: float) -> Graph:
        function(*sets[0])

        def of(calls: int) -> Graph:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for i in range(calls):
                    function(*sets[i % len(sets)])
            graph.replay()
            torch.cuda.synchronize()
            return cls(graph, calls)

        # Not by eager calls: where the CPU takes longer than the GPU, a graph would hold few of them, and the time that
        # it takes to start would be counted as theirs.
        once = of(len(sets)).ms(Meter())[0]
        calls = max(2, min(400, int(ms / max(once, 1e-3))))
        return of(-(-calls // len(sets)) * len(sets))

    def ms(self, meter: Meter) -> tuple[float, tuple[int, int]]:
        """Milliseconds per call of one replay; clock (MHz) and power (W) while it ran."""
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        self.graph.replay()
        end.record()
        state = meter.read()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / self.calls, state


@dataclass
class Figure:
    """One contestant at one product in one regime."""

    family: str
    contestant: str
    shape: tuple[int, int, int]
    regime: str
    ms: float
    tflops: float
    ratio: float
    spread: float
    mhz: float
    watts: float
    share: float | None = None
    error: dict[str, Any] | None = None
    error_class: str = ""


@dataclass
class Duel:
    """Contestants at one product."""

    family: Family
    shape: tuple[int, int, int]
    contestants: list[tuple[str, Callable[..., Any]]]
    sets: list[tuple[Any, Any]]
    figures: list[Figure] = field(default_factory=list)

    def fight(self, meter: Meter, regime: str, rounds: int) -> list[Figure]:
        cool = regime == "cool"
        rng = random.Random(0)
        graphs = {name: Graph.capture(call, self.sets, 3 if cool else 15) for name, call in self.contestants}
        times: dict[str, list[float]] = {name: [] for name in graphs}
        states: dict[str, list[tuple[int, int]]] = {name: [] for name in graphs}
        if not cool:
            for _ in range(15):
                graphs["vendor"].ms(meter)
        for _ in range(rounds):
            order = list(graphs)
            rng.shuffle(order)
            for name in order:
                if cool:
                    time.sleep(0.04)
                ms, state = graphs[name].ms(meter)
                times[name].append(ms)
                states[name].append(state)
        M, K, N = self.shape
        for name, own in times.items():
            median = statistics.median(own)
            self.figures.append(
                Figure(
                    self.family.name, name, self.shape, regime, median, 2e-9 * M * N * K / median,
                    statistics.median(v / t for v, t in zip(times["vendor"], own, strict=True)),
                    max(own) / min(own) - 1,
                    statistics.median(s[0] for s in states[name]), statistics.median(s[1] for s in states[name]),
                )
            )  # fmt: skip
        return self.figures


def bytes_of(sets: tuple[Any, Any]) -> int:
    """Bytes of a set of operands."""
    return sum(x.numel() * x.element_size() for x in (getattr(s, "b", s) for s in sets))


def duel(
    family: Family,
    shape: tuple[int, int, int],
    generator: torch.Generator,
    meter: Meter,
    rounds: int,
    regimes: list[str],
    loose_too: bool,
) -> list[Figure]:
    """All contestants of a family at one product; with `loose_too` also the mode that gives up batch invariance."""
    M, N = shape[0], shape[2]
    first = operands(family, shape, generator)
    # Together larger than three times the cache.
    count = max(2, min(8, -(-180_000_000 // bytes_of(first))))
    plain = [first, *(operands(family, shape, generator) for _ in range(count - 1))]
    result = torch.empty((M, N), device="cuda", dtype=getattr(torch, family.result))
    ready = {id(b): prepared(family, b) for _, b in plain}
    call = ours(family, result)
    contestants: list[tuple[str, Callable[..., Any]]] = [
        ("vendor", vendors(family, result)),
        ("ours", lambda a, b: call(a, ready[id(b)])),
        ("vendor again", vendors(family, result)),
    ]
    if loose_too:
        loose = ours(family, result, invariant=False)
        contestants.append(("ours, not invariant", lambda a, b: loose(a, ready[id(b)])))
    match = Duel(family, shape, contestants, plain)
    for regime in regimes:
        match.fight(meter, regime, rounds)
    return match.figures


def ceilings(meter: Meter) -> dict[str, float]:
    """TFLOP/s of the units at 8192^3, cool: the vendor's best with each."""
    generator = torch.Generator(device="cuda").manual_seed(2)
    shape = (8192, 8192, 8192)
    found: dict[str, float] = {}
    for unit, name in (("16 bit", "bf16 NT"), ("fp8", "fp8 fast"), ("tf32", "tf32 NT"), ("fp32", "ieee fp32")):
        family = family_named(name)
        sets = [operands(family, shape, generator) for _ in range(2)]
        out = torch.empty(shape[:2], device="cuda", dtype=getattr(torch, family.result))
        found[unit] = _best(vendors(family, out), sets, meter)
    x = [torch.randint(-128, 128, (8192, 8192), device="cuda", dtype=torch.int8) for _ in range(4)]
    try:
        own = _best(lambda a, b: torch._int_mm(a, b), [(x[0], x[1].t()), (x[2], x[3].t())], meter)
        found["int8"] = max(own, found["fp8"])  # the same unit at the same rate
    except RuntimeError:
        found["int8"] = found["fp8"]
    return found


def _best(call: Callable[..., Any], sets: list[tuple[Any, Any]], meter: Meter) -> float:
    graph = Graph.capture(call, sets, 3)
    times = []
    for _ in range(5):
        time.sleep(0.04)
        times.append(graph.ms(meter)[0])
    return 2e-9 * 8192**3 / min(times)


def error_class(fact: dict[str, Any] | None) -> str:
    """How a result's error stands to the vendor's: root mean squares within 5 % count as the same."""
    if not fact or "rms" not in (fact.get("error") or {}):
        return ""
    if fact["equal_bits"]:
        return "equal bits"
    mine, other = fact["error"]["rms"], fact["vendor_error"]["rms"]
    return "same error" if other / 1.05 <= mine <= 1.05 * other else "less error" if mine < other else "more error"


def show(f: Figure) -> str:
    """A figure on one line."""
    M, K, N = f.shape
    error = (
        ""
        if f.error is None or "rms" not in (f.error.get("error") or {})
        else (
            f"  rms {f.error['error']['rms']:.3g} max {f.error['error']['max']:.3g} u"
            f" (vendor {f.error['vendor_error']['rms']:.3g}, {f.error['vendor_error']['max']:.3g})"
        )
    )
    share = "" if f.share is None else f" {100 * f.share:5.1f} %"
    return (
        f"{f.family:<16}{f'{M}x{K}x{N}':<16} {f.regime:<5}{f.contestant:<20}{f.ms:8.4f} ms{f.tflops:8.1f} TF/s"
        f" {f.ratio:6.3f}x{share} {f.mhz:5.0f} MHz {f.watts:4.0f} W  {f.error_class}{error}"
    )


def versions() -> dict[str, Any]:
    """What the figures were measured with."""
    import numpy
    import triton

    properties = torch.cuda.get_device_properties(0)
    return {
        "device": properties.name, "multiprocessors": properties.multi_processor_count, "torch": torch.__version__,
        "cuda": torch.version.cuda, "triton": triton.__version__, "numpy": numpy.__version__,
        "python": sys.version.split()[0], "cublas": str(torch.backends.cuda.preferred_blas_library()),
    }  # fmt: skip


def keep(results: dict[str, Any], path: Path) -> None:
    """Writes the results: to a temporary name, then moved."""
    results["seconds"] = round(time.time() - START)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def draw(results: dict[str, Any], path: Path) -> None:
    """The ratios as a plot; nothing without matplotlib."""
    try:
        import matplotlib

        matplotlib.use("svg")
        import matplotlib.pyplot as plt
    except ImportError:
        return
    rows = [f for f in results["figures"] if f["contestant"] == "ours" and min(f["shape"]) > 128]
    names = list(dict.fromkeys(f"{f['family']}  {'x'.join(map(str, f['shape']))}" for f in rows))
    if not names:
        return
    figure, axes = plt.subplots(figsize=(8, 1 + 0.24 * len(names)))
    for regime, colour in (("cool", "#2166ac"), ("hot", "#b2182b")):
        points = {f"{f['family']}  {'x'.join(map(str, f['shape']))}": f["ratio"] for f in rows if f["regime"] == regime}
        axes.plot([points.get(n) for n in names], range(len(names)), "o", color=colour, label=regime, markersize=4)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("speed relative to the vendor's library (its fp32 product for the emulated modes)")
    axes.invert_yaxis()
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)


def compare(first: Path, second: Path) -> int:
    """Prints how far the ratios of two runs are apart."""
    runs = []
    for path in (first, second):
        figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
        runs.append(
            {(f["family"], tuple(f["shape"]), f["regime"], f["contestant"]): f for f in figures if "ratio" in f}
        )
    spreads = []
    for key in runs[0].keys() & runs[1].keys():
        family, shape, regime, contestant = key
        if contestant.startswith("ours"):
            ratios = [run[key]["ratio"] for run in runs]
            spreads.append((max(ratios) / min(ratios) - 1, key, ratios))
    for spread, (family, shape, regime, contestant), ratios in sorted(spreads, key=lambda s: s[1]):
        name = f"{family:<16}{'x'.join(map(str, shape)):<18}{regime:<5} {contestant:<20}"
        print(f"{name}{ratios[0]:7.3f}x{ratios[1]:7.3f}x  {100 * spread:5.1f} %")
    if spreads:
        print(
            f"median spread {100 * statistics.median(s[0] for s in spreads):.1f} %, "
            f"largest {100 * max(spreads)[0]:.1f} %"
        )
    return 0


def main() -> int:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one product, four families, under a minute")
    parser.add_argument("--family", action="append", help="only these families")
    parser.add_argument("--shape", action="append", help="only these products, MxKxN")
    parser.add_argument("--small", action="store_true", help="only small M")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--machine", default="gpu", help="name of this machine in the results")
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--errors-of", type=Path, help="do not test the contestants: a run of the same code on this machine did"
    )
    parser.add_argument("--compare", type=Path, nargs=2, help="print the spread of two runs' results and stop")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        for word in options.one:
            name, shape, invariant = word.split(":")
            print(json.dumps(one(name, tuple(map(int, shape.split("x"))), bool(int(invariant)))), flush=True)
            torch.cuda.empty_cache()
        os._exit(0)
    if options.compare:
        return compare(*options.compare)
    if not torch.cuda.is_available():
        print("bench/gemm.py needs a CUDA GPU", file=sys.stderr)
        return 1
    cases: list[tuple[Family, tuple[int, int, int]]] = []
    if not options.small:
        squares = [SQUARE[1]] if options.quick else SQUARE
        chosen = [f for f in FAMILIES if not options.quick or f.name in QUICK]
        cases += [(f, shape) for shape in squares for f in chosen]
        if not options.quick:
            cases += [(family_named(n), shape) for shape in RAGGED for n in ON_RAGGED]
    if not options.quick:
        cases += [(family_named("bf16 NT"), shape) for shape in SMALL]
    if options.family:
        cases = [(f, s) for f, s in cases if f.name in options.family]
    if options.shape:
        wanted = [tuple(map(int, s.split("x"))) for s in options.shape]
        cases = [(f, s) for f, s in cases if s in wanted]
    jobs = [(f.name, s, True) for f, s in cases] + [(f.name, s, False) for f, s in cases if min(s[0], s[2]) <= 128]
    facts = (
        known(options.errors_of, jobs)
        if options.errors_of
        else checked(jobs, max(1, min(12, (os.cpu_count() or 2) - 2)))
    )
    for job, fact in facts.items():
        wrong = fact.get("missing") or "failed" in fact
        if wrong:
            print(f"** {job}: {fact.get('failed', 'outputs were not written')}", flush=True)
    print(f"[{time.time() - START:.0f} s] {len(jobs)} contestants tested", flush=True)
    meter = Meter.make()
    limits = {} if options.quick else ceilings(meter)
    results: dict[str, Any] = {
        "benchmark": "gemm",
        "machine": options.machine,
        **versions(),
        "ceilings": limits,
        "figures": [],
    }
    path = options.json or Path(__file__).parent / "results" / f"{options.machine}-gemm.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator(device="cuda").manual_seed(0)
    for family, shape in cases:
        fact = facts[family.name, shape, True]
        if "failed" in fact:
            results["figures"].append({"family": family.name, "shape": shape, "failed": fact["failed"]})
            continue
        small = min(shape[0], shape[2]) <= 128
        regimes = ["cool"] if options.quick or small or shape in RAGGED else ["cool", "hot"]
        rounds = min(5, options.rounds) if options.quick or small else options.rounds
        loose_too = "failed" not in facts.get((family.name, shape, False), {"failed": "not asked for"})
        for figure in duel(family, shape, generator, meter, rounds, regimes, loose_too):
            if figure.contestant.startswith("ours"):
                unit, cost = family.unit
                figure.share = figure.tflops * cost / limits[unit] if unit in limits else None
                figure.error = facts.get((family.name, shape, figure.contestant == "ours"))
                figure.error_class = error_class(figure.error)
            results["figures"].append(asdict(figure))
            if figure.contestant != "vendor":
                print(show(figure), flush=True)
        torch.cuda.empty_cache()
        keep(results, path)  # after each product: what was measured stays if the rest does not come to an end
    draw(results, path.with_suffix(".svg"))
    keep(results, path)
    print(
        f"[{results['seconds']} s] ceilings { ({k: round(v) for k, v in limits.items()}) }; written to {path}",
        flush=True,
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
