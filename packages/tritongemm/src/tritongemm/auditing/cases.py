"""What an audit of any kernel needs: how to call it, what it should compute, and on which inputs.

A case is an adapter around a kernel of any signature. The kernel is called by a function of the user's (a launcher,
which knows its grid and its constants), or by `fpsan_tools.launch(kernel, grid, CONSTANT=...)`; the reference is the
same computation by a library or as a formula. Both get those of the named inputs that they have parameters for.

An adapter is a Python file with these names:

    inputs(rng, rows=48, columns=100)  the arrays by name; whole-number defaults are sizes that the audit varies
    kernel(x, ...)                     launches the kernel and returns its results (or writes to arrays it gets)
    reference(x, ...)                  the same by PyTorch or NumPy; computed in float64 it is what is right
    rival(x, ...)                      optional: another implementation to compare with
    TILES                              optional: {"columns": 128}, sizes that the kernel cuts into tiles
    SHAPES                             optional: more sizes to try, a list of dictionaries
    SMALLEST                           optional: the smallest legal sizes, where that is not 1
    MULTIPLES                          optional: {"queries": 16}, sizes that have to be multiples
    PRODUCTION                         optional: sizes for a GPU
    GRADIENTS                          optional: names of inputs whose gradients are audited too (PyTorch)
    DISTRIBUTIONS                      optional: names of `distributions.CHANGES`, or {"name": function(rng, inputs)}
    VARIED                             optional: names of the inputs that distributions change (default: all floats)
    REDUCED                            optional: the size that sums run over, along which errors may grow
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from tritongemm.auditing.distributions import CHANGES, Change, changes_named
from tritongemm.errors import UsageError

_OPTIONAL = ("rival", "TILES", "SHAPES", "SMALLEST", "MULTIPLES", "PRODUCTION", "GRADIENTS", "VARIED", "REDUCED")
_NEEDED = ("inputs", "kernel", "reference")


@dataclass(frozen=True)
class Case:
    """A kernel under audit, its reference, and its inputs.

    Attributes:
        kernel: Launches the kernel; called with inputs by name.
        reference: The same computation by a library.
        inputs: Makes the inputs from a NumPy generator and sizes.
        name: What to call the kernel.
        spec: How it was named.
        rival: Another implementation.
        tiles: Tile sizes by the size they cut.
        shapes: More sizes to try.
        smallest: The smallest legal sizes, where that is not 1 (or the multiple).
        multiples: Sizes that have to be multiples, and of what.
        production: Sizes for a GPU.
        gradients: Inputs whose gradients are audited too.
        changes: Distributions of the inputs, by name.
        varied: Inputs that distributions change; None for all float arrays.
        reduced: The size that sums run over.
    """

    kernel: Callable[..., Any]
    reference: Callable[..., Any]
    inputs: Callable[..., Mapping[str, Any]]
    name: str
    spec: str
    rival: Callable[..., Any] | None = None
    tiles: Mapping[str, int] = field(default_factory=dict)
    shapes: Sequence[Mapping[str, int]] = ()
    smallest: Mapping[str, int] = field(default_factory=dict)
    multiples: Mapping[str, int] = field(default_factory=dict)
    production: Mapping[str, int] | None = None
    gradients: Sequence[str] = ()
    changes: Mapping[str, Change] = field(default_factory=lambda: dict(CHANGES))
    varied: Sequence[str] | None = None
    reduced: str | None = None

    def __post_init__(self) -> None:
        for what in ("kernel", "reference", "inputs"):
            if not callable(getattr(self, what)):
                raise UsageError(
                    f"{what}: a {type(getattr(self, what)).__name__}, but a function is needed"
                    + ("; wrap the kernel: fpsan_tools.launch(kernel, grid, BLOCK=64)." if what == "kernel" else ".")
                )
        if hasattr(self.kernel, "params") or hasattr(getattr(self.kernel, "fn", None), "params"):
            raise UsageError(
                f"kernel: {self.name} is a bare kernel, whose grid nobody knows; give a function that launches it, or "
                "fpsan_tools.launch(kernel, grid, BLOCK=64)."
            )
        sizes = self.sizes
        named = {**dict.fromkeys(self.tiles, "TILES"), **dict.fromkeys(self.production or {}, "PRODUCTION")}
        named |= {**dict.fromkeys(self.smallest, "SMALLEST"), **dict.fromkeys(self.multiples, "MULTIPLES")}
        named |= {name: "SHAPES" for shape in self.shapes for name in shape}
        named |= {self.reduced: "REDUCED"} if self.reduced else {}
        for name, where in named.items():
            if name not in sizes:
                known = ", ".join(sizes) or "none"
                raise UsageError(f"{where}: {name!r} is no size of inputs(rng, ...); its sizes are {known}.")

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of the inputs, with their defaults."""
        found = {}
        for name, parameter in inspect.signature(self.inputs).parameters.items():
            default = parameter.default
            if isinstance(default, int) and not isinstance(default, bool):
                found[name] = default
        return found

    def legal(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Sizes made legal: at least the smallest, and multiples where they have to be."""
        made = {}
        for name, n in sizes.items():
            step = self.multiples.get(name, 1)
            made[name] = max(-(-n // step) * step, self.smallest.get(name, step))
        return made


def is_adapter(module: ModuleType) -> bool:
    """Whether a module is an adapter: it has everything that one needs."""
    return all(callable(getattr(module, name, None)) for name in _NEEDED)


def looks_like_adapter(module: ModuleType) -> bool:
    """Whether a module is meant to be an adapter: it makes inputs for a kernel or a reference."""
    named = [name for name in _NEEDED if callable(getattr(module, name, None))]
    return "inputs" in named and len(named) > 1


def case_of(module: ModuleType, spec: str) -> Case:
    """The case that an adapter describes.

    Args:
        module: The adapter, imported.
        spec: How it was named.

    Raises:
        UsageError: Something it needs is missing or of no use.
    """
    missing = [name for name in _NEEDED if not callable(getattr(module, name, None))]
    if missing:
        raise UsageError(
            f"{spec}: an adapter has functions {', '.join(_NEEDED)}, and {missing[0]!r} is missing; "
            "`tritongemm audit --template` writes one to start from."
        )
    given = {name.lower(): getattr(module, name) for name in _OPTIONAL if getattr(module, name, None) is not None}
    chosen = getattr(module, "DISTRIBUTIONS", None)
    if chosen is not None:
        given["changes"] = changes_named(chosen)
    kernel = module.kernel
    name = getattr(module, "NAME", None) or _name(kernel, spec)
    return Case(kernel, module.reference, module.inputs, str(name), spec, **given)


def _name(kernel: Any, spec: str) -> str:
    own = str(getattr(kernel, "__name__", type(kernel).__name__))
    return own if own != "kernel" else spec.rpartition("/")[2].removesuffix(".py")


TEMPLATE = '''"""An adapter for `tritongemm audit`: a softmax over rows. Replace the three parts marked (1), (2), (3).

Run it:  tritongemm audit adapter.py
"""

import numpy as np
import triton
import triton.language as tl


# (1) The kernel under audit, or an import of yours: from my_package.kernels import softmax_kernel
@triton.jit
def softmax_kernel(x_ptr, y_ptr, columns, stride_x, stride_y, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    live = at < columns
    x = tl.load(x_ptr + row * stride_x + at, mask=live, other=-float("inf")).to(tl.float32)
    p = tl.exp(x - tl.max(x, axis=0))
    y = p / tl.sum(p, axis=0)
    tl.store(y_ptr + row * stride_y + at, y.to(y_ptr.dtype.element_ty), mask=live)


def kernel(x, y):
    """How it is launched: grid, constants, and which argument is what. Arrays that it writes are inputs too."""
    rows, columns = x.shape
    strides = [a.stride(0) if callable(getattr(a, "stride", None)) else a.strides[0] // a.itemsize for a in (x, y)]
    softmax_kernel[(rows,)](x, y, columns, *strides, BLOCK=triton.next_power_of_2(columns), num_warps=4)


# (2) What it should compute, by NumPy or PyTorch. In float64 this is what the kernel is measured against; in the
# kernel's own type it is what the kernel's error is compared with. (With PyTorch tensors from inputs() the audit also
# compares payloads with it.)
def reference(x):
    p = np.exp(x - x.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


# (3) The inputs: a dictionary of arrays by name, drawn from a NumPy generator. Whole-number defaults are the sizes.
def inputs(rng, rows=7, columns=100):
    x = rng.standard_normal((rows, columns)).astype(np.float32)
    return {"x": x, "y": np.zeros_like(x)}


# Sizes that the kernel cuts into tiles: one more and one less is tried.
TILES = {"columns": 64}
# More sizes. (Also: SMALLEST = {...}, the smallest legal ones; MULTIPLES = {"columns": 16}, if they have to be.)
SHAPES = [{"rows": 3, "columns": 257}]
# Sizes for a GPU: PRODUCTION = {"rows": 4096, "columns": 4096}
# The size that sums run over, along which errors may grow.
REDUCED = "columns"
# Distributions of the inputs besides the given one. Known: tiny, large, wide, cancelling, extreme, flat, positive.
DISTRIBUTIONS = ["tiny", "wide", "cancelling", "extreme", "flat"]
# Inputs that these change (default: all floats).
VARIED = ["x"]
# Gradients (PyTorch only): GRADIENTS = ["x"]
# A second implementation to compare with: def rival(x, y): ...
'''
"""A commented adapter that runs, as `tritongemm audit --template` prints it."""
