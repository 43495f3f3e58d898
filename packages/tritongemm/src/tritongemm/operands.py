"""What a product accepts: ranks, shapes, types and places of its operands, and what it says about others.

torch's users know torch's sentences, and programs match them: where torch has an error for a mistake, the message
begins with torch's words, then says which argument was what and what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from tritongemm import automatic
from tritongemm.elements import FP8, RESULTS, Element, element_named, element_of, is_typed
from tritongemm.errors import UsageError, nearest
from tritongemm.matrices import is_torch


class OperandError(UsageError, RuntimeError):
    """Operands do not fit each other; a RuntimeError too, which is what torch raises."""


ACTIVATIONS = ("relu", "gelu", "silu")
"""Names of the functions that can be applied to a product before it is written."""

# What torch's C++ sentences call the types.
_C_NAMES = {
    "float64": "double",
    "float32": "float",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float8_e4m3fn": "c10::Float8_e4m3fn",
    "float8_e5m2": "c10::Float8_e5m2",
    "int64": "long int",
    "int32": "int",
    "int16": "short int",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "bool",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}
# What its scalar type names are: "Float", "BFloat16", ...
_SCALAR_NAMES = {
    "float64": "Double",
    "float32": "Float",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float8_e4m3fn": "Float8_e4m3fn",
    "float8_e5m2": "Float8_e5m2",
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}


def type_name(x: Any) -> str:
    """A matrix's type by the name both NumPy and torch use: "float32", "bfloat16", ..."""
    return element_named(x.dtype).library if is_typed(x) else str(x.dtype).removeprefix("torch.")


def rank(x: Any) -> int:
    """Number of a matrix's dimensions."""
    return len(x.shape)


def _c(x: Any) -> str:
    return _C_NAMES.get(type_name(x), type_name(x))


def _scalar(x: Any) -> str:
    return _SCALAR_NAMES.get(type_name(x), type_name(x))


def _size(x: Any) -> str:
    return "x".join(str(int(n)) for n in x.shape)


def fail(words: str, name: str, given: str) -> NoReturn:
    """Raises an OperandError: torch's words, then the function, what it was given, and the way out."""
    raise OperandError(f"{words} (tritongemm.{name}: {given})")


def check_kinds(name: str, operands: Mapping[str, Any]) -> bool:
    """Checks that all operands are of one library and in one place.

    Args:
        name: The function's name, for the message.
        operands: Argument name -> matrix; None is left out.

    Returns:
        Whether they are torch tensors (else NumPy arrays).

    Raises:
        UsageError: One is no matrix, or they are mixed.
        OperandError: They are on different devices.
    """
    given = {argument: x for argument, x in operands.items() if x is not None}
    for argument, x in given.items():
        if not hasattr(x, "dtype") or not hasattr(x, "shape"):
            kind = type(x).__name__
            raise UsageError(
                f"{argument}: a {kind} is no matrix; {name} takes NumPy arrays or torch tensors (numpy.asarray(...))."
            )
    kinds = {argument: "torch" if is_torch(x) else "NumPy" for argument, x in given.items()}
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{argument} is {kind}" for argument, kind in kinds.items())
        raise UsageError(f"{name}: operands of two libraries ({listed}); convert with torch.from_numpy or .numpy().")
    if next(iter(kinds.values())) == "NumPy":
        return False
    devices = {str(x.device) for x in given.values()}
    if len(devices) > 1:
        first, second = sorted(devices)[:2]
        listed = ", ".join(f"{argument} on {x.device}" for argument, x in given.items())
        fail(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{first} and {second}!", name, f"{listed}; move one with .to()",
        )  # fmt: skip
    return True


def check_matrices(name: str, a: Any, b: Any) -> None:
    """Checks two matrices of a product C[M,N] = A[M,K] B[K,N].

    Raises:
        OperandError: Ranks, shapes or types do not fit.
    """
    if rank(a) != 2:
        fail("self must be a matrix", name, f"a has {rank(a)} dimensions; bmm and matmul take more than two")
    if rank(b) != 2:
        fail("mat2 must be a matrix", name, f"b has {rank(b)} dimensions; bmm and matmul take more than two")
    if a.shape[1] != b.shape[0]:
        fail(
            f"mat1 and mat2 shapes cannot be multiplied ({_size(a)} and {_size(b)})", name,
            f"a's {a.shape[1]} columns and b's {b.shape[0]} rows must agree, K; is one of them transposed?",
        )  # fmt: skip
    check_types(name, a, b)


def check_types(name: str, a: Any, b: Any) -> None:
    """Checks that both factors of a product have one type.

    Raises:
        OperandError: They do not.
    """
    if type_name(a) != type_name(b):
        fail(
            f"expected m1 and m2 to have the same dtype, but got: {_c(a)} != {_c(b)}", name,
            f"a is {type_name(a)}, b is {type_name(b)}; convert one of them",
        )  # fmt: skip


def check_batches(name: str, a: Any, b: Any) -> None:
    """Checks the operands of a batch of products: (B, M, K) and (B, K, N).

    Raises:
        OperandError: Ranks, shapes or types do not fit.
    """
    if rank(a) != 3:
        fail("batch1 must be a 3D tensor", name, f"a has {rank(a)} dimensions; mm takes two, matmul any number")
    if rank(b) != 3:
        fail("batch2 must be a 3D tensor", name, f"b has {rank(b)} dimensions; mm takes two, matmul any number")
    # Compared as they are: under torch.compile they are symbols, and asking for their values would fix them.
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        wanted, found = ([int(n) for n in sizes] for sizes in ((a.shape[0], a.shape[2]), b.shape[:2]))
        fail(
            f"Expected size for first two dimensions of batch2 tensor to be: {wanted} but got: {found}.", name,
            f"a is {tuple(a.shape)}, b is {tuple(b.shape)}; matmul broadcasts batches",
        )  # fmt: skip
    if type_name(a) != type_name(b):
        fail(
            f"expected scalar type {_scalar(a)} but found {_scalar(b)}", name,
            f"a is {type_name(a)}, b is {type_name(b)}; convert one of them",
        )  # fmt: skip


def expanded(name: str, argument: str, x: Any, shape: tuple[int, ...]) -> Any:
    """An addend broadcast to the product's shape, as a view.

    Raises:
        OperandError: It does not broadcast.
    """
    if tuple(x.shape) == shape:
        return x
    given = tuple(int(n) for n in x.shape)
    if len(given) > len(shape):
        fail(
            f"the number of sizes provided ({len(shape)}) must be greater or equal to the number of dimensions in the "
            f"tensor ({len(given)})", name, f"{argument} is {given}, the product {shape}",
        )  # fmt: skip
    offset = len(shape) - len(given)
    for axis, size in enumerate(given):
        if size not in (1, shape[offset + axis]):
            fail(
                f"The expanded size of the tensor ({shape[offset + axis]}) must match the existing size ({size}) at "
                f"non-singleton dimension {offset + axis}.  Target sizes: {list(shape)}.  Tensor sizes: {list(given)}",
                name, f"{argument} must broadcast to the product",
            )  # fmt: skip
    return x.expand(shape) if is_torch(x) else np.broadcast_to(x, shape)


def check_addend(name: str, argument: str, x: Any, like: Any, out_type: str) -> None:
    """Checks the type of something that is added to a product: the operands' or the result's.

    Raises:
        OperandError: It has another one.
    """
    if type_name(x) not in (type_name(like), out_type):
        fail(
            f"self and mat2 must have the same dtype, but got {_scalar(x)} and {_scalar(like)}", name,
            f"{argument} is {type_name(x)}, the product {out_type}; convert it",
        )  # fmt: skip


def check_bias(name: str, bias: Any, like: Any, out_type: str, shape: tuple[int, ...]) -> None:
    """Checks what is added to every row of a product.

    Args:
        name: The function's name.
        bias: The array.
        like: An operand of the product.
        out_type: The result's type.
        shape: The product's shape.

    Raises:
        OperandError: It has another type than these, or is not one number per column.
    """
    check_addend(name, "bias", bias, like, out_type)
    if rank(bias) != 1 or bias.shape[0] != shape[-1]:
        size = bias.shape[-1] if rank(bias) else 1
        fail(
            f"The expanded size of the tensor ({shape[-1]}) must match the existing size ({size}) at non-singleton "
            f"dimension {len(shape) - 1}.  Target sizes: {[int(n) for n in shape]}.  Tensor sizes: "
            f"{[int(n) for n in bias.shape]}", name,
            f"bias has shape ({shape[-1]},); what has more dimensions goes to c",
        )  # fmt: skip


def check_out(name: str, out: Any, dtype: Any, given: Mapping[str, Any]) -> None:
    """Checks the type of a torch tensor to write to, and that nobody asks for gradients through it.

    Args:
        name: The function's name.
        out: The tensor to write to.
        dtype: The result's type.
        given: The other tensors of the call.

    Raises:
        OperandError: As torch has it for `out=`.
    """
    import torch

    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (*given.values(), out)):
        fail(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad.", name, "leave out away, or call it under torch.no_grad()",
        )  # fmt: skip
    if out.dtype != dtype:
        wanted = _C_NAMES.get(str(dtype).removeprefix("torch."), str(dtype))
        fail(
            f"Expected out tensor to have dtype {wanted}, but got {_c(out)} instead", name,
            "give an out of that type, or out_dtype",
        )  # fmt: skip


def check_settings(activation: str | None, precision: str, element: Element) -> None:
    """Checks the names of an activation and of a precision mode, and that the mode takes the operands' type.

    Raises:
        UsageError: They are unknown, or it does not.
    """
    if activation is not None and activation not in ACTIVATIONS:
        raise UsageError(f"activation: {activation!r} is none of this package. {nearest(str(activation), ACTIVATIONS)}")
    if precision != automatic.NAME:
        from tritongemm.modes import get

        get(precision).of((element.name, element.name))


def result_element(a: Any, out: Any, out_dtype: Any) -> Element:
    """The type of a result: what was asked for, that of an `out` of NumPy, or the operands' (bf16 for fp8).

    Raises:
        UsageError: It is no type of results, or contradicts out's.
    """
    own = element_of(a, "a")
    if out_dtype is not None:
        element = element_named(_spelled(out_dtype), "out_dtype")
    elif out is not None and not is_torch(out):
        element = element_of(out, "out")
    elif own.name in FP8:
        element = element_named("bf16")
    else:
        element = own
    if element.name not in RESULTS:
        raise UsageError(f"out_dtype: results are {', '.join(RESULTS)}, given {element.name}; quantise them after.")
    if out is not None and not is_torch(out) and element_of(out, "out").name != element.name:
        raise UsageError(f"out: its dtype {type_name(out)} contradicts out_dtype {element.library}; leave one away.")
    return element


def _spelled(dtype: Any) -> str:
    """A dtype's name: of torch's, NumPy's and ml_dtypes' types and of names."""
    if isinstance(dtype, str):
        return dtype
    return np.dtype(dtype).name if isinstance(dtype, type | np.dtype) else str(dtype)
