"""How a kernel is launched: block sizes, warps, stages, and the table that says which to take for which product.

A configuration changes how fast a product is. Whether it also changes its bits is a property of the kernel: the serial
chain of `blocked` in fp32 has the same bits for every tile, a tensor-core sum has others for another instruction, a
promoted sum others for another interval. Kernels therefore name, per configuration, a *class of equal bits* (a text
such as "fma-chain"); the tuner compares and exchanges configurations within one class only.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from tritongemm.errors import UsageError, nearest

# The least extent of a tile that `tl.dot` takes.
SMALLEST_BLOCK = 16


@dataclass(frozen=True, kw_only=True)
class Config:
    """One way to launch a kernel.

    Attributes:
        kernel: Name of the kernel in the table of candidates ("blocked", "persistent", ...).
        block_m: Rows of a tile of the result; a power of two, at least 16.
        block_n: Columns of a tile of the result; likewise.
        block_k: Depth of one step over k; likewise.
        group_m: Rows of tiles that share their columns of B in the cache.
        warps: Warps of a program, a power of two.
        stages: Depth of the software pipeline over k.
        ctas: Programs of a cluster that share loads.
        splits: Parts of K that are summed by themselves and then joined in a fixed order; 1 for one sum.

    Raises:
        UsageError: A size is not one a kernel can be compiled for.
    """

    kernel: str
    block_m: int = 64
    block_n: int = 64
    block_k: int = 32
    group_m: int = 8
    warps: int = 4
    stages: int = 3
    ctas: int = 1
    splits: int = 1

    def __post_init__(self) -> None:
        for name in ("block_m", "block_n", "block_k", "warps", "ctas"):
            size, least = getattr(self, name), SMALLEST_BLOCK if name.startswith("block") else 1
            if not _whole(size) or size < least or size & (size - 1):
                raise UsageError(f"{name}: a power of two from {least} on, given {size!r}.")
        for name in ("group_m", "stages", "splits"):
            size = getattr(self, name)
            if not _whole(size) or size < 1:
                raise UsageError(f"{name}: a whole number from 1 on, given {size!r}.")
        # Written here, since torch.compile follows neither the json module nor numbers into a text.
        object.__setattr__(self, "_text", json.dumps(self.as_dict(), sort_keys=True))

    @property
    def text(self) -> str:
        """The settings as JSON."""
        text: str = self._text  # type: ignore[attr-defined]
        return text

    @property
    def blocks(self) -> dict[str, int]:
        """The constants of a tiled kernel: BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M."""
        return {
            "BLOCK_M": self.block_m,
            "BLOCK_N": self.block_n,
            "BLOCK_K": self.block_k,
            "GROUP_M": self.group_m,
        }

    @property
    def options(self) -> dict[str, int]:
        """The compiler's options: num_warps, num_stages, and num_ctas where it is not 1."""
        return {"num_warps": self.warps, "num_stages": self.stages} | ({"num_ctas": self.ctas} if self.ctas > 1 else {})

    def changed(self, **changes: Any) -> Config:
        """This configuration with other values in places; unknown names raise UsageError."""
        unknown = changes.keys() - {field.name for field in fields(self)}
        if unknown:
            name = min(unknown)
            raise UsageError(f"config: no setting {name!r}. {nearest(name, (f.name for f in fields(self)))}")
        return replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """The settings by name, as JSON keeps them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, settings: Any) -> Self:
        """The configuration that `as_dict` wrote.

        Raises:
            UsageError: Something is missing, unknown or out of range.
        """
        names = {field.name for field in fields(cls)}
        if not isinstance(settings, dict) or "kernel" not in settings or not settings.keys() <= names:
            raise UsageError(f"config: settings {settings!r} are none of a configuration; it has {sorted(names)}.")
        if not isinstance(settings["kernel"], str):
            raise UsageError(f"kernel: a name, given {settings['kernel']!r}.")
        return cls(**settings)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What a configuration is chosen for: everything about a product but its numbers.

    Attributes:
        M: Rows of the result (of one product of a batch).
        N: Columns of the result.
        K: Length of the sums.
        batch: Number of products.
        mode: Name of the precision mode.
        dtypes: Types of the operands and of the result, such as "bf16 bf16 fp32".
        strides: Classes of the strides of the operands and of the result, by `strides_class`.
        device: The GPU's name, "cpu" on the CPU.
        invariant: Whether a row's bits must not depend on M.
    """

    M: int
    N: int
    K: int
    batch: int = 1
    mode: str = "ieee"
    dtypes: str = "fp32 fp32 fp32"
    strides: str = "k16 n16 n16"
    device: str = "cpu"
    invariant: bool = True

    @property
    def key(self) -> str:
        """The text under which a configuration is kept: the problem, with its extents replaced by their classes."""
        extents = " x ".join(str(shape_class(n)) for n in (self.M, self.N, self.K))
        promise = "invariant" if self.invariant else "not invariant"
        return " | ".join(
            [self.device, self.mode, self.dtypes, f"{shape_class(self.batch)} of {extents}", self.strides, promise]
        )


def shape_class(extent: int) -> int:
    """The class of an extent: the next number of the form 2**n or 3·2**n, which stands for all down to the one before.

    Products whose extents are of one class have about the same number of tiles, and what is fastest for one of them is
    not slow for the others.

    Args:
        extent: A number of rows, columns or products.

    Returns:
        0, 1, 2, 3, 4, 6, 8, 12, 16, ...
    """
    if extent <= 4:
        return max(0, extent)
    power = 1 << (extent - 1).bit_length()
    return power * 3 // 4 if extent <= power * 3 // 4 else power


def strides_class(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, address: int, axes: str) -> str:
    """Along which axis a matrix is contiguous, and whether 16-byte loads can be used.

    Args:
        shape: Its two extents.
        strides: Its two strides in elements.
        itemsize: Bytes per element.
        address: Address of its first element.
        axes: Names of its axes, such as "mk".

    Returns:
        The name of the contiguous axis ("-" if there is none), followed by "16" if its start and its other stride are
        multiples of 16 bytes: "k16", "m", "-".
    """
    contiguous = 1 if strides[1] == 1 else 0 if strides[0] == 1 else None
    if contiguous is None:
        return "-"
    pitch = strides[1 - contiguous] * itemsize
    # A single row or column has no pitch that could be misaligned.
    aligned = address % 16 == 0 and (pitch % 16 == 0 or shape[1 - contiguous] <= 1)
    return axes[contiguous] + ("16" if aligned else "")


def neighbours(config: Config) -> list[Config]:
    """The configurations one step away: one setting doubled or halved, the pipeline one stage deeper or shallower.

    Args:
        config: Where to start.

    Returns:
        Configurations of the same kernel, the same number of splits and the same cluster.
    """
    found = []
    for name in ("block_m", "block_n", "block_k", "warps", "group_m"):
        size = getattr(config, name)
        for other in (size * 2, size // 2):
            least = SMALLEST_BLOCK if name.startswith("block") else 1
            if least <= other <= LARGEST[name]:
                found.append(config.changed(**{name: other}))
    for stages in (config.stages + 1, config.stages - 1):
        if 1 <= stages <= LARGEST["stages"]:
            found.append(config.changed(stages=stages))
    return found


LARGEST = {"block_m": 256, "block_n": 256, "block_k": 256, "warps": 16, "group_m": 32, "stages": 8}
"""The largest values that a search tries: beyond, registers and shared memory of any GPU run out."""
