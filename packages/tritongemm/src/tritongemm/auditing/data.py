"""A user's own tensors: .npy, .npz and .safetensors files, as float32 values and the type they had."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

import fpsan_tools
from tritongemm.elements import ELEMENTS, element_named, element_of, values_of
from tritongemm.errors import Unavailable, UsageError, nearest

Array = np.ndarray[Any, np.dtype[Any]]

# Names of safetensors' types.
_SAFETENSORS = {
    "F64": "fp64", "F32": "fp32", "F16": "fp16", "BF16": "bf16", "F8_E4M3": "fp8e4m3fn", "F8_E5M2": "fp8e5m2",
}  # fmt: skip
# How files begin: a NumPy array; a zip archive, and one without anything in it.
_BEGINNINGS = {".npy": (b"\x93NUMPY",), ".npz": (b"PK\x03\x04", b"PK\x05\x06")}
_INTEGERS = {"I8": "i1", "U8": "u1", "I16": "i2", "U16": "u2", "I32": "i4", "U32": "u4", "I64": "i8", "U64": "u8",
             "BOOL": "?"}  # fmt: skip


def load_named(path: str) -> dict[str, Any]:
    """All arrays of a file by name: NumPy arrays, or `fpsan_tools.typed` ones of types that NumPy lacks.

    Args:
        path: A .npy file (whose array is called "data"), .npz or .safetensors file. Nothing is unpickled.

    Raises:
        UsageError: It cannot be read.
        Unavailable: safetensors is needed and missing.
    """
    ending = Path(path).suffix
    try:
        _check_beginning(path, ending)
        if ending == ".npy":
            return {"data": _plain(np.load(path, allow_pickle=False))}
        if ending == ".npz":
            with np.load(path, allow_pickle=False) as file:
                return dict(_of_npz(key, file[key]) for key in file.files)
        if ending == ".safetensors":
            return _safetensors(path)
    except (OSError, ValueError, EOFError, KeyError, BadZipFile) as error:
        said = "it holds Python objects, which are not unpickled" if "Object arrays" in str(error) else error
        raise UsageError(f"--data: {path!r} cannot be read: {said}") from None
    raise UsageError(f"--data: {path!r} ends in {ending or 'nothing'}; .npy, .npz and .safetensors files are read.")


def _check_beginning(path: str, ending: str) -> None:
    """NumPy takes a file of any other kind for a pickled one.

    Raises:
        ValueError: The file is not what its name says.
    """
    wanted = _BEGINNINGS.get(ending)
    if wanted is None:
        return
    with open(path, "rb") as file:
        found = file.read(len(wanted[0]))
    if found not in wanted:
        raise ValueError(f"it is {'empty' if not found else f'no {ending} file'}; write it with numpy.save or savez")


def _of_npz(key: str, array: Array) -> tuple[str, Any]:
    """Bits under "name:bf16" are of that type."""
    name, _, kind = key.partition(":")
    if kind:
        return name, fpsan_tools.typed(array, element_named(kind, f"--data: {key}").name)
    return name, array.item() if array.ndim == 0 else _plain(array)


def _plain(array: Array) -> Any:
    """ml_dtypes' arrays, which NumPy stores as raw bytes unless that package is loaded, stay as they are."""
    if array.dtype.kind == "V":
        raise ValueError(
            f"its elements are {array.dtype.itemsize} raw bytes of no type; store bits in an .npz under NAME:bf16, or "
            "use .safetensors"
        )
    return array


def _safetensors(path: str) -> dict[str, Any]:
    try:
        from safetensors import SafetensorError, deserialize
    except ImportError:
        raise Unavailable("--data: .safetensors files need a package: pip install safetensors.") from None
    try:
        read: Callable[[bytes], list[tuple[str, dict[str, Any]]]] = deserialize
        found = read(Path(path).read_bytes())
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    made: dict[str, Any] = {}
    for name, facts in found:
        kind = str(facts["dtype"])
        if kind in _INTEGERS:
            made[name] = np.frombuffer(facts["data"], _INTEGERS[kind]).reshape(facts["shape"]).copy()
            continue
        if kind not in _SAFETENSORS:
            raise ValueError(f"{name} is {kind}; known are {', '.join((*_SAFETENSORS, *_INTEGERS))}")
        element = ELEMENTS[_SAFETENSORS[kind]]
        bits = np.frombuffer(facts["data"], f"u{element.itemsize}").reshape(facts["shape"]).copy()
        native = element.name in ("fp64", "fp32", "fp16")
        made[name] = bits.view(element.library) if native else fpsan_tools.typed(bits, element.name)
    return made


def load_array(place: str) -> Any:
    """One array: "file.npy", "file.npz:name" or "file.safetensors:name"; the name may be left out if there is one.

    Args:
        place: Where it is.

    Raises:
        UsageError: There is none.
    """
    path, name = place, ""
    if not Path(place).exists() and ":" in place:
        path, _, name = place.rpartition(":")
    arrays = load_named(path)
    if not name:
        if len(arrays) != 1:
            raise UsageError(f"--data: {path!r} holds {len(arrays)} arrays; name one as {path}:NAME. "
                             f"Known: {', '.join(sorted(arrays)) or 'none'}.")  # fmt: skip
        return next(iter(arrays.values()))
    if name not in arrays:
        raise UsageError(f"--data: {path!r} holds no {name!r}. {nearest(name, arrays)}")
    return arrays[name]


def operands_of(a: Any, b: Any) -> tuple[Array, Array, str]:
    """The operands of a matrix product: float32 values and the name of their type.

    Args:
        a: (M, K) matrix: NumPy, torch, or `fpsan_tools.typed`.
        b: (K, N) matrix.

    Raises:
        UsageError: They are no matrices of one floating-point type that fit.
    """
    made, kinds = [], []
    for letter, x in zip("AB", (a, b), strict=True):
        shape = getattr(x, "shape", ())
        if len(shape) != 2 or 0 in shape:
            raise UsageError(f"--data: {letter} has shape {tuple(shape)}; a matrix with elements is needed.")
        element = element_of(x, f"--data: {letter}")
        if element.name not in ("fp32", "fp16", "bf16"):
            raise UsageError(f"--data: {letter} is {element.name}; a product is audited in fp32, fp16 or bf16.")
        values = np.ascontiguousarray(values_of(x, element), np.float32)
        if not np.isfinite(values).all():
            raise UsageError(f"--data: {letter} holds NaN or infinity, of which no error can be measured.")
        made.append(values)
        kinds.append(element.name)
    if kinds[0] != kinds[1]:
        raise UsageError(f"--data: A is {kinds[0]} and B is {kinds[1]}; convert one of them.")
    if made[0].shape[1] != made[1].shape[0]:
        raise UsageError(
            f"--data: A is {made[0].shape} and B is {made[1].shape}; A's columns and B's rows must agree (K)."
        )
    return made[0], made[1], kinds[0]
