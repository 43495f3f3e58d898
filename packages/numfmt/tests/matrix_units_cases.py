"""The ways of writing a product in Triton whose bits are compared with the models: every dtype, form and precision."""

from dataclasses import dataclass, field

from numfmt.matrix_units.schedules import TlDot


@dataclass(frozen=True)
class Case:
    """One way of writing a product in Triton.

    Attributes:
        loads: Formats of the operands in memory.
        schedule: What `matmul` predicts it with; the kernel's constants come from it.
        accumulator: "fp32" or "fp16".
        multiplied: Formats that `matmul` is given, if the kernel widens the operands before tl.dot.
        block_k_multiple: K is no multiple of BLOCK_K.
    """

    loads: tuple[str, str]
    schedule: TlDot
    accumulator: str = "fp32"
    multiplied: tuple[str, str] | None = None
    ragged: bool = field(default=False)

    @property
    def name(self):
        """A name that is also a test id and a key in the recordings."""
        s = self.schedule
        parts = [
            "x".join(dict.fromkeys(self.loads)),
            s.form.replace("=", ""),
            f"k{s.block_k}",
            f"m{s.block_m}",
            f"w{s.num_warps}",
        ]
        if self.inputs[0] in ("fp32", "tf32"):
            parts.append(s.input_precision)
        if s.max_num_imprecise_acc is not None:
            parts.append(f"imprecise{s.max_num_imprecise_acc}")
        if self.accumulator == "fp16":
            parts.append("acc16")
        if self.multiplied is not None:
            parts.append(f"as_{self.multiplied[0]}")
        if self.ragged:
            parts.append("ragged")
        return "-".join(parts)

    @property
    def inputs(self):
        """Formats that `matmul` is given."""
        return self.multiplied or self.loads


def _both(loads, block_k, **more):
    return [Case(loads, TlDot(block_k, form, **more)) for form in ("acc=", "+=")]


def all_cases():
    """Every dtype, form, precision and instruction that the schedules know."""
    cases = []
    for key in ("fp16", "bf16"):
        pair = (key, key)
        cases += _both(pair, 64)
        cases += _both(pair, 32, max_num_imprecise_acc=32)
        cases += _both(pair, 32, block_m=32)
        cases += _both(pair, 64, block_m=16, num_warps=1, max_num_imprecise_acc=32)
        cases.append(Case(pair, TlDot(16)))
        cases.append(Case(pair, TlDot(128, block_m=128, num_warps=8)))
        cases.append(Case(pair, TlDot(64), ragged=True))
    half = ("fp16", "fp16")
    cases += [Case(half, TlDot(64, form), "fp16") for form in ("acc=", "+=")]
    cases += [Case(half, TlDot(32, form, block_m=16, num_warps=2), "fp16") for form in ("acc=", "+=")]
    cases.append(Case(half, TlDot(64, "+=", max_num_imprecise_acc=32), "fp16"))

    single = ("fp32", "fp32")
    for precision in ("tf32", "ieee"):
        cases += _both(single, 32, input_precision=precision)
        cases += _both(single, 32, input_precision=precision, max_num_imprecise_acc=16)
    for precision in ("tf32", "tf32x3", "bf16x3", "bf16x6"):
        cases += _both(single, 64, input_precision=precision)
        cases.append(Case(single, TlDot(32, input_precision=precision, block_m=32)))
        cases.append(Case(single, TlDot(32, input_precision=precision), ragged=True))
    cases.append(Case(single, TlDot(16, input_precision="tf32", block_m=16, num_warps=1)))

    for pair in (("e4m3", "e4m3"), ("e5m2", "e5m2"), ("e4m3", "e5m2"), ("e5m2", "e4m3")):
        cases += _both(pair, 64)
        cases += _both(pair, 128)
        if pair != ("e4m3", "e4m3"):
            cases.append(Case(pair, TlDot(128, max_num_imprecise_acc=64)))
    pair = ("e4m3", "e4m3")
    cases += _both(pair, 32)
    cases += _both(pair, 128, block_m=128, num_warps=8)
    for n in (32, 48, 64, 96, 128):
        cases += _both(pair, 128, max_num_imprecise_acc=n)
    for n in (0, 16):
        cases += _both(pair, 64, max_num_imprecise_acc=n)
    cases += _both(pair, 64, block_m=32)
    cases += _both(pair, 64, num_warps=2)
    cases += _both(pair, 64, block_m=16, num_warps=1, max_num_imprecise_acc=32)
    cases += _both(("e5m2", "e5m2"), 128, block_m=16)
    cases += [Case(pair, TlDot(64, form), "fp16") for form in ("acc=", "+=")]
    cases += [Case(pair, TlDot(64, form, block_m=16), "fp16") for form in ("acc=", "+=")]
    cases.append(Case(pair, TlDot(64, max_num_imprecise_acc=32), "fp16"))
    cases.append(Case(("e4m3", "e5m2"), TlDot(64), "fp16"))
    cases.append(Case(pair, TlDot(64), ragged=True))
    cases.append(Case(pair, TlDot(64, "+=", max_num_imprecise_acc=32), ragged=True))

    # Operands widened after the load: mma.sync permutes k, wgmma does not.
    for key in ("fp16", "bf16"):
        wide = (key, key)
        cases.append(Case(pair, TlDot(64, block_m=16, k_width=4), multiplied=wide))
        cases.append(Case(pair, TlDot(64), multiplied=wide))
    cases.append(Case(half, TlDot(32, block_m=16, k_width=2), multiplied=single))
    cases.append(Case(pair, TlDot(32, block_m=16, k_width=4), multiplied=single))
    cases.append(Case(half, TlDot(32), multiplied=single))
    names = [case.name for case in cases]
    assert len(set(names)) == len(names), [n for n in names if names.count(n) > 1]
    return cases
