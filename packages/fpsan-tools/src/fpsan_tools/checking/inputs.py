"""Inputs of a check: made anew for every run, by a function of a random generator and of sizes, or copied.

The parameters of `make_inputs` that have whole numbers as defaults are the sizes: experiments vary them.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fpsan_tools.algebra.floats import UNSIGNED
from fpsan_tools.arrays import TRITON_NAMES, TypedArray, is_array
from fpsan_tools.exceptions import FpsanError, UnknownName

MakeInputs = Callable[..., Any] | Mapping[str, Any] | tuple[Any, ...] | list[Any]


@dataclass(frozen=True)
class Arguments:
    """What both sides get.

    Attributes:
        names: a name per argument.
        values: the arguments.
        by_name: whether they are passed as keywords.
    """

    names: tuple[str, ...]
    values: tuple[Any, ...]
    by_name: bool

    def items(self) -> Iterator[tuple[str, Any]]:
        """Names and values."""
        return zip(self.names, self.values, strict=True)

    def arrays(self) -> Iterator[tuple[str, Any]]:
        """Names and values of the arrays."""
        return ((name, value) for name, value in self.items() if is_array(value))

    def replaced(self, changes: Mapping[str, Any]) -> Arguments:
        """The same with other values for some names."""
        values = tuple(changes.get(name, value) for name, value in self.items())
        return Arguments(self.names, values, self.by_name)


class Source:
    """Where inputs come from.

    Args:
        make_inputs: a function `make_inputs(rng, M=64, ...)` of a NumPy generator that gives a dictionary (passed by
            name) or a tuple (passed by position), or such a dictionary or tuple itself, of which copies are passed.
        sizes: values for some of the function's size parameters.

    Raises:
        FpsanError: if `make_inputs` is something else.
        UnknownName: if the function has no such size.
    """

    def __init__(self, make_inputs: MakeInputs, sizes: Mapping[str, int] | None = None) -> None:
        self.function = make_inputs
        self.defaults: dict[str, int] = {}
        self._takes_generator = False
        if callable(make_inputs):
            for parameter in inspect.signature(make_inputs).parameters.values():
                default = parameter.default
                if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                    continue
                if default is parameter.empty:
                    if self._takes_generator:
                        raise FpsanError(
                            f"make_inputs: parameter {parameter.name!r} has no default; sizes need one, as in "
                            "def make_inputs(rng, M=64, K=100)"
                        )
                    self._takes_generator = True
                elif isinstance(default, int) and not isinstance(default, bool):
                    self.defaults[parameter.name] = default
        elif not isinstance(make_inputs, Mapping | tuple | list):
            raise FpsanError(
                "make_inputs: a function of a NumPy generator, a dictionary or a tuple is expected, not "
                f"{make_inputs!r}"
            )
        self.sizes = dict(self.defaults)
        for name, value in (sizes or {}).items():
            if name not in self.sizes:
                raise UnknownName.of("size", name, self.sizes)
            self.sizes[name] = int(value)

    @property
    def is_fixed(self) -> bool:
        """Whether the inputs do not depend on a seed."""
        return not self._takes_generator

    def make(self, seed: int, sizes: Mapping[str, int] | None = None) -> Arguments:
        """New inputs.

        Args:
            seed: of the generator that the function gets.
            sizes: sizes that differ from this source's.

        Returns:
            Arguments that nobody else holds.

        Raises:
            FpsanError: if the function gives neither a dictionary nor a tuple, or no array.
        """
        if callable(self.function):
            generator = (np.random.default_rng(seed),) if self._takes_generator else ()
            made = self.function(*generator, **{**self.sizes, **(sizes or {})})
        else:
            made = copy.deepcopy(self.function)
        return arguments(made)


def arguments(made: Any) -> Arguments:
    """Arguments from what a user's function gave.

    Raises:
        FpsanError: for anything but a dictionary with text keys or a tuple, or if there is no array.
    """
    if isinstance(made, Mapping):
        wrong = [key for key in made if not isinstance(key, str)]
        if wrong:
            raise FpsanError(f"make_inputs gave a dictionary with the key {wrong[0]!r}; argument names are texts")
        result = Arguments(tuple(made), tuple(made.values()), True)
    elif isinstance(made, tuple | list):
        result = Arguments(tuple(f"argument {i}" for i in range(len(made))), tuple(made), False)
    else:
        raise FpsanError(f"make_inputs must give a dictionary or a tuple of arguments, not {type(made).__name__}")
    if not any(True for _ in result.arrays()):
        raise FpsanError("make_inputs gave no array (NumPy array, fpsan_tools.typed(...) or torch tensor)")
    return result


def load(path: str | Path) -> dict[str, Any]:
    """Read arguments from an .npz file; numbers are its arrays without axes. Nothing is unpickled.

    Args:
        path: the file.

    Returns:
        Arguments by name. An array stored under "name:bf16" is `typed` as that.

    Raises:
        FpsanError: if the file cannot be read, or holds objects.
    """
    from fpsan_tools.arrays import typed

    result: dict[str, Any] = {}
    try:
        with np.load(path, allow_pickle=False) as data:
            for key in data.files:
                array = data[key]
                name, _, dtype = key.partition(":")
                if dtype:
                    result[name] = typed(array, dtype)
                else:
                    result[name] = array.item() if array.ndim == 0 else array
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise FpsanError(f"{path}: cannot be read as an .npz file of plain arrays ({error})") from None
    return result


# ---- arrays of all kinds


def dtype_of(value: Any) -> str:
    """Triton's name of an array's element type, or NumPy's where Triton has none."""
    if isinstance(value, TypedArray):
        return str(value.dtype)
    name = value.dtype.name if isinstance(value, np.ndarray) else str(value.dtype).removeprefix("torch.")
    return TRITON_NAMES.get(name, name)


def bits_of(value: Any) -> npt.NDArray[Any]:
    """A copy of an array's bit patterns, unsigned, in the array's shape."""
    if isinstance(value, TypedArray):
        value = value.array
    if not isinstance(value, np.ndarray):
        value = _torch_bits(value)
    array = np.ascontiguousarray(value).reshape(value.shape)
    if array.dtype.kind == "b":
        return array.astype(np.uint8)
    return np.array(array.view(UNSIGNED[array.dtype.itemsize * 8]))


def _torch_bits(tensor: Any) -> npt.NDArray[Any]:
    import torch

    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    plain = tensor.detach().cpu().contiguous()
    array: npt.NDArray[Any] = plain.view(whole).numpy() if plain.dtype != torch.bool else plain.numpy()
    return array.reshape(tuple(tensor.shape))


def write_bits(value: Any, bits: npt.NDArray[Any]) -> None:
    """Overwrite an array in place with bit patterns."""
    if isinstance(value, TypedArray):
        value = value.array
    if isinstance(value, np.ndarray):
        value[...] = bits.astype(np.bool_) if value.dtype.kind == "b" else bits.view(value.dtype)
        return
    import torch

    signed = torch.from_numpy(bits.view(f"i{bits.dtype.itemsize}"))
    value.copy_((signed.view(value.dtype) if value.dtype != torch.bool else signed.bool()).to(value.device))


def is_float(dtype: str) -> bool:
    """Whether a Triton type name is a float's."""
    return dtype.startswith(("fp", "bf"))


def is_torch(value: Any) -> bool:
    """Whether a value is a torch tensor."""
    return type(value).__module__.split(".")[0] == "torch" and hasattr(value, "untyped_storage")
