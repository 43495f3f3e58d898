"""What a product accepts: ranks, shapes, types and places of its operands, and what it says about others.

torch's users know torch's sentences, and programs match them: where torch has an error for a mistake, the message
begins with torch's words, then says which argument was what and what to do about it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from tritongemm import automatic
from tritongemm.elements import RESULTS, Element, element_named, element_of, is_typed, strides_of
from tritongemm.errors import UsageError, nearest
from tritongemm.matrices import is_torch


class OperandError(UsageError, RuntimeError):
    """Operands do not fit each other; a RuntimeError too, which is what torch raises."""


@dataclass(frozen=True)
class Call:
    """A public function as its messages speak of it: `call["a"]` is what it calls the first factor.

    Attributes:
        function: Its name.
        names: What it calls the operands a, b, c, bias and out of a product, where it calls them otherwise.
        transposed: Whether its second factor is given as (N, K).
        optional: Operands that may be None.
    """

    function: str
    names: Mapping[str, str] = field(default_factory=dict)
    transposed: bool = False
    optional: tuple[str, ...] = ("c", "bias", "out")

    def __getitem__(self, operand: str) -> str:
        return self.names.get(operand, operand)


SCALE_BLOCK = 128
"""Products along k, and columns of b, that share a scale."""

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


def fail(words: str, call: Call, given: str) -> NoReturn:
    """Raises an OperandError: torch's words, then the function, what it was given, and the way out."""
    raise OperandError(f"{words} (tritongemm.{call.function}: {given})")


def is_prepared(x: Any) -> bool:
    """Whether x was made by `tritongemm.prepare`, found out without importing its module."""
    emulation = sys.modules.get("tritongemm.emulation")
    return emulation is not None and isinstance(x, emulation.Prepared)


def check_kinds(call: Call, operands: Mapping[str, Any]) -> bool:
    """Checks that all operands are matrices that can be read as they are, of one library and in one place.

    Args:
        call: The function, for the message.
        operands: Operand -> matrix; None is left out where the call says it may be.

    Returns:
        Whether they are torch tensors (else NumPy arrays).

    Raises:
        UsageError: One is no matrix, or they are mixed.
        OperandError: They are on different devices.
    """
    given = {call[operand]: x for operand, x in operands.items() if x is not None or operand not in call.optional}
    for argument, x in given.items():
        check_matrix(call, argument, x)
    kinds = {argument: "torch" if is_torch(x) else "NumPy" for argument, x in given.items()}
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{argument} is {kind}" for argument, kind in kinds.items())
        raise UsageError(
            f"{call.function}: operands of two libraries ({listed}); convert with torch.from_numpy or .numpy()."
        )
    if next(iter(kinds.values())) == "NumPy":
        return False
    devices = {str(x.device) for x in given.values()}
    if len(devices) > 1:
        first, second = sorted(devices)[:2]
        listed = ", ".join(f"{argument} on {x.device}" for argument, x in given.items())
        fail(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{first} and {second}!", call, f"{listed}; move one with .to()",
        )  # fmt: skip
    return True


def check_has_numbers(argument: str, x: Any, purpose: str) -> None:
    """Checks that an array is not a tensor on device meta, which is a shape and a type only.

    Args:
        argument: What the caller calls x.
        x: An array.
        purpose: What its numbers are for, as in "no numbers to compare".

    Raises:
        UsageError: It is one.
    """
    if getattr(x, "is_meta", False):
        raise UsageError(f"{argument}: on device meta it has no numbers to {purpose}; give one that has.")


def check_matrix(call: Call, argument: str, x: Any) -> None:
    """Checks that something is a NumPy array, typed bits or a torch tensor whose memory can be read through strides.

    Args:
        call: The function.
        argument: What it calls x.
        x: Anything.

    Raises:
        UsageError: It is not; the message says what to pass.
    """
    takes = f"{call.function} takes NumPy arrays or torch tensors"
    if is_prepared(x):
        raise UsageError(f"{argument}: prepared operands are for the b of mm and matmul; give the matrix itself.")
    if is_torch(x):
        if x.is_nested:
            raise UsageError(f"{argument}: {takes} of one size, given a nested one; grouped_mm takes x.unbind().")
        if x.layout is not sys.modules["torch"].strided:
            raise UsageError(f"{argument}: {takes} of layout torch.strided, given {x.layout}; give x.to_dense().")
    elif isinstance(x, np.ndarray | np.generic):
        if isinstance(x, np.ma.MaskedArray):
            raise UsageError(
                f"{argument}: {takes}, but of a masked array it would ignore the mask; give x.filled(...)."
            )
        if not x.dtype.isnative:
            raise UsageError(
                f"{argument}: numbers in this machine's byte order, given {x.dtype.str}; give "
                f"x.astype(x.dtype.newbyteorder('='))."
            )
        if isinstance(x, np.ndarray) and x.dtype.itemsize:
            strides_of(x, argument)
    elif not is_typed(x):
        convert = "numpy.asarray(x)" if hasattr(x, "shape") or isinstance(x, Sequence) else "one"
        raise UsageError(f"{argument}: {takes}, given {_article(type(x).__name__)}; pass {convert}.")


def _article(name: str) -> str:
    return "None" if name == "NoneType" else f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def check_flag(name: str, value: Any) -> bool:
    """Checks an argument that is True or False.

    Raises:
        UsageError: It is neither.
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise UsageError(f"{name}: True or False, given {value!r}.")


def check_number(name: str, value: Any) -> float:
    """Checks a factor, and gives it as Python's float.

    Raises:
        UsageError: It is no real number, or beyond the range of fp64.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        item = "; a tensor's is x.item()" if hasattr(value, "shape") else ""
        raise UsageError(f"{name}: a real number, given {_article(type(value).__name__)}{item}.")
    try:
        return float(value)
    except OverflowError:
        digits = int(int(value).bit_length() * math.log10(2))  # or one more; Python writes no more than 4300 of them
        digits += abs(value) >= 10**digits
        raise UsageError(f"{name}: a number within the range of fp64, given one of {digits} digits.") from None


def check_factor(call: Call, name: str, value: Any, accumulator: str = "fp32") -> float:
    """Checks a factor that is multiplied in the type of sums.

    Args:
        call: The function.
        name: What it calls the factor.
        value: Anything.
        accumulator: The type of sums: "fp32" or "fp64".

    Raises:
        UsageError: It is no real number.
        OperandError: It is finite, but the type's would be infinite.
    """
    number = check_number(name, value)
    if accumulator == "fp32" and _LARGEST_FP32 < abs(number) < math.inf:
        fail(
            "value cannot be converted to type float without overflow", call,
            f"{name} is {number:g}, and sums are fp32, up to {_LARGEST_FP32:.4g}; scale the operands, or use fp64 ones",
        )  # fmt: skip
    return number


_LARGEST_FP32 = float(np.finfo(np.float32).max)


def check_factors(call: Call, alpha: Any, beta: Any, operands: Element | None = None) -> tuple[float, float]:
    """Checks the two factors of a product.

    Args:
        call: The function.
        alpha: Anything.
        beta: Anything.
        operands: The operands' type, whose sums they multiply; None for one with fp32 sums.

    Raises:
        UsageError: One is no real number.
        OperandError: One is finite, but the type's would be infinite.
    """
    sums = "fp32" if operands is None else operands.accumulator
    return check_factor(call, "alpha", alpha, sums), check_factor(call, "beta", beta, sums)


def check_scale(call: Call, argument: str, scale: Any, like: Any) -> Any:
    """A scale as an fp32 array of the operands' library: single numbers of Python and NumPy become one.

    Args:
        call: The function.
        argument: What it calls the scale.
        scale: A number, or an fp32 array.
        like: An operand.

    Raises:
        UsageError: It is neither.
        OperandError: It is a number beyond the range of fp32.
    """
    if isinstance(scale, int | float | np.integer | np.floating) and not isinstance(scale, bool):
        number = check_factor(call, argument, scale)
        if is_torch(like):
            return like.new_full((), number, dtype=sys.modules["torch"].float32)
        return np.array(number, np.float32)
    check_matrix(call, argument, scale)
    if type_name(scale) != "float32":
        raise UsageError(f"{argument}: scales are float32, given {type_name(scale)}; convert them.")
    return scale


def is_plain(scale: Any, whole: tuple[int, int]) -> bool:
    """Whether scales are one number, or one for each row (or column): of shape `whole`. Else they are of blocks.

    Args:
        scale: The array.
        whole: (M, 1) or (1, N).
    """
    return math.prod(scale.shape) == 1 or tuple(scale.shape) == whole


def check_scale_shapes(call: Call, scale_a: Any, scale_b: Any, M: int, N: int, K: int) -> None:
    """Checks that scales are single numbers, of rows and columns, or of blocks, and that they go together.

    Raises:
        UsageError: They are not.
    """
    blocks = -(-K // SCALE_BLOCK)
    columns = -(-N // SCALE_BLOCK)
    allowed = {
        "scale_a": (scale_a, (M, 1), (M, blocks), f"row of a, or {(M, blocks)} for 1 x {SCALE_BLOCK} blocks"),
        "scale_b": (
            scale_b, (1, N), (blocks, columns),
            f"column of b, or {(blocks, columns)} for {SCALE_BLOCK} x {SCALE_BLOCK} blocks",
        ),
    }  # fmt: skip
    whole = {}
    for name, (scale, plain, of_blocks, words) in allowed.items():
        shape = tuple(int(n) for n in scale.shape)
        whole[name] = is_plain(scale, plain)
        if not whole[name] and shape != of_blocks:
            raise UsageError(f"{name}: shape {shape}; scales are one number, or {plain} for one per {words}.")
    for name, other in (("scale_a", "scale_b"), ("scale_b", "scale_a")):
        scale, _, of_blocks, _ = allowed[name]
        if whole[name] and not whole[other] and tuple(scale.shape) != of_blocks:
            raise UsageError(
                f"{name}: shape {tuple(scale.shape)}, but {other} has block scales: it must be {of_blocks}."
            )


def check_matrices(call: Call, a: Any, b: Any) -> None:
    """Checks two matrices of a product C[M,N] = A[M,K] B[K,N].

    Raises:
        OperandError: Ranks, shapes or types do not fit.
    """
    check_shapes(call, a, b)
    check_types(call, a, b)


def check_shapes(call: Call, a: Any, b: Any) -> None:
    """Checks the ranks and shapes of two matrices of a product.

    Raises:
        OperandError: They do not fit.
    """
    for operand, x, words in (("a", a, "self"), ("b", b, "mat2")):
        if rank(x) != 2:
            more = "; bmm and matmul take more than two" if rank(x) > 2 else ""
            fail(f"{words} must be a matrix", call, f"{call[operand]} has {_dimensions(x)}{more}")
    if a.shape[1] != b.shape[0]:
        lines = "columns" if call.transposed else "rows"
        fail(
            f"mat1 and mat2 shapes cannot be multiplied ({_size(a)} and {_size(b)})", call,
            f"{call['a']}'s {a.shape[1]} columns and {call['b']}'s {b.shape[0]} {lines} must agree, K; "
            "is one of them transposed?",
        )  # fmt: skip


def _dimensions(x: Any) -> str:
    return f"{rank(x)} dimension{'' if rank(x) == 1 else 's'}"


def check_types(call: Call, a: Any, b: Any) -> None:
    """Checks that both factors of a product have one type.

    Raises:
        OperandError: They do not.
    """
    if type_name(a) != type_name(b):
        fail(
            f"expected m1 and m2 to have the same dtype, but got: {_c(a)} != {_c(b)}", call,
            f"{call['a']} is {type_name(a)}, {call['b']} is {type_name(b)}; convert one of them",
        )  # fmt: skip


def check_batches(call: Call, a: Any, b: Any) -> None:
    """Checks the operands of a batch of products: (B, M, K) and (B, K, N).

    Raises:
        OperandError: Ranks, shapes or types do not fit.
    """
    for operand, x, words in (("a", a, "batch1"), ("b", b, "batch2")):
        if rank(x) != 3:
            fail(
                f"{words} must be a 3D tensor", call, f"{operand} has {_dimensions(x)}; mm takes two, matmul any number"
            )
    # Compared as they are: under torch.compile they are symbols, and asking for their values would fix them.
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        wanted, found = ([int(n) for n in sizes] for sizes in ((a.shape[0], a.shape[2]), b.shape[:2]))
        fail(
            f"Expected size for first two dimensions of batch2 tensor to be: {wanted} but got: {found}.", call,
            f"a is {tuple(a.shape)}, b is {tuple(b.shape)}; matmul broadcasts batches",
        )  # fmt: skip
    if type_name(a) != type_name(b):
        fail(
            f"expected scalar type {_scalar(a)} but found {_scalar(b)}", call,
            f"a is {type_name(a)}, b is {type_name(b)}; convert one of them",
        )  # fmt: skip


def expanded(call: Call, operand: str, x: Any, shape: tuple[int, ...]) -> Any:
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
            f"tensor ({len(given)})", call, f"{call[operand]} is {given}, the product {shape}",
        )  # fmt: skip
    offset = len(shape) - len(given)
    for axis, size in enumerate(given):
        if size not in (1, shape[offset + axis]):
            fail(
                f"The expanded size of the tensor ({shape[offset + axis]}) must match the existing size ({size}) at "
                f"non-singleton dimension {offset + axis}.  Target sizes: {list(shape)}.  Tensor sizes: {list(given)}",
                call, f"{call[operand]} must broadcast to the product",
            )  # fmt: skip
    return x.expand(shape) if is_torch(x) else np.broadcast_to(x, shape)


def check_addend(call: Call, operand: str, x: Any, like: Any, out_type: str) -> None:
    """Checks the type of something that is added to a product: the operands' or the result's.

    Raises:
        OperandError: It has another one.
    """
    if type_name(x) not in (type_name(like), out_type):
        fail(
            f"self and mat2 must have the same dtype, but got {_scalar(x)} and {_scalar(like)}", call,
            f"{call[operand]} is {type_name(x)}, the product {out_type}; convert it",
        )  # fmt: skip


def addend(call: Call, c: Any, beta: float, like: Any, element: Element, shape: tuple[int, ...]) -> Any:
    """What is added to a product, checked and broadcast to it.

    Args:
        call: The function.
        c: The array, or None.
        beta: Its factor.
        like: An operand of the product.
        element: The result's type.
        shape: The product's shape.

    Raises:
        UsageError: There is a factor, but nothing to multiply.
        OperandError: It has another type, or does not broadcast.
    """
    if c is None:
        if beta != 0:
            raise UsageError(f"beta: {beta:g}, but there is no {call['c']} to multiply; give c, or leave beta away.")
        return None
    check_addend(call, "c", c, like, element.library)
    return expanded(call, "c", c, shape)


def check_bias(call: Call, bias: Any, like: Any, out_type: str, shape: tuple[int, ...]) -> None:
    """Checks what is added to every row of a product.

    Args:
        call: The function.
        bias: The array.
        like: An operand of the product.
        out_type: The result's type.
        shape: The product's shape.

    Raises:
        OperandError: It has another type than these, or is not one number per column.
    """
    check_addend(call, "bias", bias, like, out_type)
    if rank(bias) != 1 or bias.shape[0] != shape[-1]:
        size = bias.shape[-1] if rank(bias) else 1
        fail(
            f"The expanded size of the tensor ({shape[-1]}) must match the existing size ({size}) at non-singleton "
            f"dimension {len(shape) - 1}.  Target sizes: {[int(n) for n in shape]}.  Tensor sizes: "
            f"{[int(n) for n in bias.shape]}", call,
            f"bias must have shape ({shape[-1]},); what has more dimensions goes to c",
        )  # fmt: skip


def check_out(call: Call, out: Any, dtype: Any, given: Mapping[str, Any]) -> None:
    """Checks the type of a torch tensor to write to, and that nobody asks for gradients through it.

    Args:
        call: The function.
        out: The tensor to write to.
        dtype: The result's type.
        given: The other tensors of the call.

    Raises:
        OperandError: As torch has it for `out=`.
    """
    import torch

    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (*given.values(), out)):
        fail(
            f"{call.function}(): functions with out=... arguments don't support automatic differentiation, but one of "
            "the arguments requires grad.", call, f"leave {call['out']} away, or call it under torch.no_grad()",
        )  # fmt: skip
    check_out_type(call, out, str(dtype).removeprefix("torch."))


def check_out_type(call: Call, out: Any, library: str) -> None:
    """Checks that a matrix to write to has the result's type.

    Raises:
        OperandError: As torch has it for `out=`.
    """
    if type_name(out) != library:
        fail(
            f"Expected out tensor to have dtype {_C_NAMES[library]}, but got {_c(out)} instead", call,
            f"{call['out']} is {type_name(out)}, the product {library}; give another, or out_dtype",
        )  # fmt: skip


def check_settings(activation: str | None, precision: str, element: Element, argument: str = "a") -> None:
    """Checks the names of an activation and of a precision mode, and that the mode takes the operands' type.

    Args:
        activation: The name, or None.
        precision: The name.
        element: The operands' type.
        argument: What the function calls the operand that the type is from.

    Raises:
        UsageError: They are unknown, or it does not.
    """
    check_activation(activation)
    if precision != automatic.NAME:
        from tritongemm.modes import get

        get(precision).of((element.name, element.name), argument)


def check_activation(activation: Any) -> None:
    """Checks the name of an activation.

    Raises:
        UsageError: It is unknown.
    """
    if activation is None or (isinstance(activation, str) and activation in ACTIVATIONS):
        return
    known = nearest(str(activation), ACTIVATIONS)
    raise UsageError(f"activation: {activation!r} is none of this package. {known}{_form(activation)}")


def _form(activation: Any) -> str:
    if not (isinstance(activation, str) and "gelu" in activation.casefold()):
        return ""
    return " gelu is the exact form, by erf; for the tanh form leave activation away and apply it to the product."


def result_element(a: Any, out_dtype: Any, argument: str = "a") -> Element:
    """The type of a result: what was asked for, or the operands' (bf16 for fp8).

    Args:
        a: An operand.
        out_dtype: What was asked for, or None.
        argument: What the function calls the operand.

    Raises:
        UsageError: It is no type of results.
    """
    own = element_of(a, argument)
    if out_dtype is None:
        return own.result
    element = element_named(_spelled(out_dtype), "out_dtype")
    if element.name not in RESULTS:
        raise UsageError(f"out_dtype: results are {', '.join(RESULTS)}, given {element.name}; quantise them after.")
    return element


def _spelled(dtype: Any) -> str:
    """A dtype's name: of torch's, NumPy's and ml_dtypes' types and of names."""
    if isinstance(dtype, str):
        return dtype
    return np.dtype(dtype).name if isinstance(dtype, type | np.dtype) else str(dtype)
