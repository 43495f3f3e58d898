"""What the launchers of all kernels share: the operands of a product, checked and described, and how to start a kernel.

A matrix stays where and as it is: a transposed, sliced or broadcast operand is read through its strides. A kernel runs
on the GPU its operands are on, or is evaluated on the CPU.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from tritongemm import launches
from tritongemm.configurations import Config
from tritongemm.elements import ELEMENTS, RESULTS, Element, address_of, element_of, empty_like, overlap, strides_of
from tritongemm.errors import UsageError
from tritongemm.kernels.epilogue import Epilogue
from tritongemm.matrices import is_cuda, is_torch
from tritongemm.modes import Dot, Mode
from tritongemm.operands import is_plain

LARGEST_INT32 = 2**31 - 1
"""Offsets and sizes below this fit the 32-bit arithmetic that Triton gives to them; no grid's first axis is longer."""


def home(x: Any) -> str:
    """Where a matrix lies, in words."""
    return f"torch, {x.device}" if is_torch(x) else "NumPy"


@dataclass(frozen=True, eq=False)
class Operands:
    """A product of matrices or of batches of them, checked.

    Attributes:
        a: (M, K) or (batch, M, K).
        b: (K, N) or (batch, K, N).
        out: (M, N) or (batch, M, N).
        mode: How products are added up.
        epilogue: What happens to the sums.
    """

    a: Any
    b: Any
    out: Any
    mode: Mode
    epilogue: Epilogue

    @classmethod
    def of(
        cls, a: Any, b: Any, mode: Mode, *, out: Any = None, out_dtype: Element | None = None, epilogue: Epilogue
    ) -> Operands:
        """Check operands, and make the result where none is given.

        Raises:
            UsageError: Shapes, types or places do not fit.
        """
        given = {"a": a, "b": b}
        if out is not None:
            given["out"] = out
        if epilogue.reads_c:
            given["c"] = epilogue.c
        for name in ("bias", "scale_a", "scale_b"):
            if getattr(epilogue, name) is not None:
                given[name] = getattr(epilogue, name)
        elements = {name: element_of(x, name) for name, x in given.items()}
        if len(a.shape) not in (2, 3) or len(b.shape) != len(a.shape):
            raise UsageError(
                f"a, b: two matrices, or two batches of matrices, are multiplied; given shapes {tuple(a.shape)} and "
                f"{tuple(b.shape)}."
            )
        if a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
            raise UsageError(
                f"b: {tuple(b.shape)} does not fit a {tuple(a.shape)}: a's columns and b's rows must agree (K)"
                + (", and so must the batches." if len(a.shape) == 3 else ".")
            )
        homes = {name: home(x) for name, x in given.items()}
        if len(set(homes.values())) > 1:
            raise UsageError(f"The matrices lie in different places: {homes}; move them to one.")
        mode.of((elements["a"].name, elements["b"].name))
        shape = (*a.shape[:-1], b.shape[-1])
        wanted = out_dtype or elements.get("out") or elements["a"].result
        if wanted.name not in RESULTS:
            raise UsageError(f"out_dtype: results are {', '.join(RESULTS)}, not {wanted.name}.")
        if out is None:
            out = empty_like(a, tuple(int(n) for n in shape), wanted)
        elif tuple(out.shape) != tuple(shape):
            raise UsageError(f"out: shape {tuple(out.shape)}, but the product is {tuple(shape)}.")
        elif out_dtype is not None and elements["out"] is not out_dtype:
            raise UsageError(
                f"out_dtype: {out_dtype.name} contradicts out's {elements['out'].name}; leave one of them away."
            )
        if epilogue.reads_c and tuple(epilogue.c.shape) != tuple(shape):
            raise UsageError(f"c: shape {tuple(epilogue.c.shape)}, but the product is {tuple(shape)}.")
        if epilogue.bias is not None and tuple(epilogue.bias.shape) != (shape[-1],):
            raise UsageError(f"bias: shape {tuple(epilogue.bias.shape)}, but rows have ({shape[-1]},) elements.")
        _check_scales(epilogue, shape)
        _refuse_overlap(a, b, out, epilogue)
        return cls(a, b, out, mode, epilogue)

    @property
    def M(self) -> int:
        """Rows of a product."""
        return int(self.a.shape[-2])

    @property
    def N(self) -> int:
        """Columns of a product."""
        return int(self.b.shape[-1])

    @property
    def K(self) -> int:
        """Products per sum; 0 where alpha is 0, as BLAS has it: A and B are not read then."""
        return 0 if self.epilogue.alpha == 0 else int(self.a.shape[-1])

    @property
    def batch(self) -> int:
        """Number of products."""
        return math.prod(int(n) for n in self.a.shape[:-2])

    @cached_property
    def types(self) -> tuple[str, str]:
        """Names of the operands' types."""
        return element_of(self.a, "a").name, element_of(self.b, "b").name

    @cached_property
    def accumulator(self) -> Element:
        """The type in which products are added up."""
        return ELEMENTS[ELEMENTS[self.types[0]].accumulator]

    @property
    def dot(self) -> Dot:
        """How Triton's kernels write the mode.

        Raises:
            UsageError: They do not.
        """
        dot = self.mode.of(self.types).dot
        if dot is None:
            raise UsageError(f"precision: no kernel of Triton's tl.dot offers mode {self.mode.name!r}.")
        return dot

    @property
    def accumulates_by_fma(self) -> bool:
        """Whether products are fused multiply-adds of the ordinary units: fp32 operands as they are."""
        return self.types[0] == "fp32" and self.dot.input_precision == "ieee" and not self.dot.chained_parts

    @cached_property
    def wide(self) -> bool:
        """Whether some offset inside a matrix does not fit into 32 bits."""
        e = self.epilogue
        read = {"c": e.addend, "bias": e.bias, "scale_a": e.scale_a, "scale_b": e.scale_b}
        matrices = {"a": self.a, "b": self.b, "out": self.out, **read}
        return any(reach(x, name) > LARGEST_INT32 for name, x in matrices.items() if x is not None)

    @property
    def empty(self) -> bool:
        """Whether there is no output to compute."""
        return self.batch * self.M * self.N == 0

    def arguments(self) -> tuple[Any, ...]:
        """The operands, sizes and strides, as tiled kernels take them."""
        strides = [s for name in ("a", "b") for s in batched_strides(getattr(self, name), name)]
        return (self.a, self.b, self.M, self.N, self.K, *strides)

    def finishing_arguments(self) -> tuple[Any, ...]:
        """The result and what the epilogue reads, as tiled kernels take them after `arguments`."""
        e = self.epilogue
        c = e.addend
        along_bias = 0 if e.bias is None else strides_of(e.bias, "bias")[0]
        along = (along_bias, along_scales(e.scale_a, 0), along_scales(e.scale_b, 1))
        strides = (*batched_strides(self.out, "out"), *((0, 0, 0) if c is None else batched_strides(c, "c")), *along)
        return (self.out, c, e.bias, e.scale_a, e.scale_b, *strides, *self.factors())

    def factors(self) -> tuple[float | int, float | int]:
        """alpha and beta as kernels take them."""
        wide = self.accumulator.name == "fp64"
        return self.epilogue.factor("alpha", wide), self.epilogue.factor("beta", wide)

    def constants(self, config: Config) -> dict[str, Any]:
        """The constants that all tiled kernels share, and the compiler's options."""
        import triton.language as tl

        dot = self.dot
        return {
            "ACCUMULATOR": {"fp32": tl.float32, "fp64": tl.float64}[self.accumulator.name],
            "INPUT_PRECISION": dot.input_precision,
            "IMPRECISE": dot.imprecise,
            "PREPARE": dot.prepare,
            "PARTS": dot.chained_parts,
            **self.finishing(),
            **config.options,
        }

    def finishing(self) -> dict[str, Any]:
        """The constants of the epilogue."""
        return {
            "SCALED": self.epilogue.alpha != 1,
            "ACTIVATION": self.epilogue.activation,
            "WIDE": self.wide,
        }


def reach(x: Any, argument: str) -> int:
    """The largest distance, in elements, between the first element of a matrix and any other of one product."""
    strides = strides_of(x, argument)[-2:]
    return sum(abs(s) * max(0, int(n) - 1) for s, n in zip(strides, x.shape[-2:], strict=True))


def batched_strides(x: Any, argument: str) -> tuple[int, int, int]:
    """Strides of a batch of matrices; a matrix is a batch of one."""
    strides = strides_of(x, argument)
    return (strides[0], strides[1], strides[2]) if len(strides) == 3 else (0, strides[0], strides[1])


def _check_scales(epilogue: Epilogue, shape: tuple[int, ...]) -> None:
    """Scales are one number, or one per row of A and column of B."""
    for name, whole in (("scale_a", (shape[-2], 1)), ("scale_b", (1, shape[-1]))):
        scale = getattr(epilogue, name)
        if scale is not None and not is_plain(scale, whole):
            raise UsageError(
                f"{name}: shape {tuple(scale.shape)}; scales are one number, or one for each "
                f"{'row of A' if name == 'scale_a' else 'column of B'}, {whole}."
            )


def along_scales(scale: Any, axis: int) -> int:
    """Stride of scales along rows or columns; 0 for a single one, which all share."""
    if scale is None or math.prod(scale.shape) == 1:
        return 0
    return strides_of(scale, "scale")[axis]


def _refuse_overlap(a: Any, b: Any, out: Any, epilogue: Epilogue) -> None:
    """A result that lies over an operand would be read after it is written; over C it must be C itself."""
    count = math.prod(int(n) for n in out.shape)
    if count == 0:
        return
    if sum(abs(s) * (int(n) - 1) for s, n in zip(strides_of(out, "out"), out.shape, strict=True)) + 1 < count:
        raise UsageError(
            "out: several of its elements share memory, so they cannot hold different results; pass a copy."
        )
    readers = {"a": a, "b": b, "bias": epilogue.bias, "scale_a": epilogue.scale_a, "scale_b": epilogue.scale_b}
    if epilogue.reads_c and not (
        address_of(epilogue.c) == address_of(out)
        and strides_of(epilogue.c, "c") == strides_of(out, "out")
        and element_of(epilogue.c, "c") is element_of(out, "out")
    ):
        readers["c"] = epilogue.c
    for name, x in readers.items():
        if x is not None and 0 not in tuple(x.shape) and overlap(out, x):
            raise UsageError(
                f"out: it overlaps the memory of {name}, which is read while out is written; pass another result, or "
                f"{name}.clone()."
            )


def launch(kernel: Any, grid: tuple[int, ...], operands: Operands, *arguments: Any, **constants: Any) -> None:
    """Start a kernel where the operands are; see `launch_on`."""
    if not operands.empty:
        launch_on(operands.out, kernel, grid, *arguments, **constants)


@cache
def _for_one_product(kernel: Any) -> Any:
    """The kernel for K = 1, compiled for any K.

    Triton makes a constant of an integer argument that is 1. The loop over k then vanishes, and the compiler folds the
    addition of a bias or of c into the one multiply-add that is left: a rounding less, and other bits than promised.
    """
    import triton

    return triton.jit(kernel.fn, do_not_specialize=["K"])


def launch_on(
    place: Any, kernel: Any, grid: tuple[int, ...], *arguments: Any, reachable: Sequence[Any] = (), **constants: Any
) -> None:
    """Launch a kernel on a GPU's matrices, or evaluate it on the CPU's: with the bits of an H200, or as the session of
    `fpsan_tools.on_cpu` that is active has it.

    Args:
        place: A matrix of the place.
        kernel: The kernel.
        grid: Its grid.
        *arguments: Its arguments.
        reachable: Matrices that the kernel finds by addresses in memory.
        **constants: Its constants and the compiler's options.

    Raises:
        UsageError: There are more programs than a launch can have.
    """
    if grid[0] > LARGEST_INT32:
        raise UsageError(f"a, b: the product has too many tiles for one launch ({grid[0]} programs).")
    # Fusion is stated, not left to a default that changes with Triton's version and the environment.
    constants = {"enable_fp_fusion": True, **constants}
    names = tuple(kernel.signature.parameters) if hasattr(kernel, "fn") and hasattr(kernel, "signature") else ()
    if ("K", 1) in zip(names, arguments, strict=False):
        kernel = _for_one_product(kernel)
    if is_cuda(place):
        torch = sys.modules["torch"]
        elsewhere = place.device.index != torch.cuda.current_device()
        with torch.cuda.device(place.device) if elsewhere else nullcontext():
            launches.launch(kernel, grid, *arguments, **constants)
        return
    import fpsan_tools
    from fpsan_tools import dispatch

    if dispatch.current() is not None:
        kernel[grid](*arguments, **constants)
    else:
        fpsan_tools.run(kernel, grid, *arguments, domain="hardware", reachable=reachable, **constants)
