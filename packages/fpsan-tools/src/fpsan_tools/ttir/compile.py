"""Compile a `@triton.jit` kernel with Triton's own front end to its first intermediate representation.

No GPU, no assembler and no torch are needed: the front end and its target-independent passes are called for a stated
target, with the specialisation (integers equal to 1, divisibility by 16) that a launch would choose.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from fpsan_tools.domains.base import Domain
from fpsan_tools.exceptions import CompilationFailed, FpsanError, TritonUnavailable
from fpsan_tools.ttir.fusion import contract
from fpsan_tools.ttir.operations import link
from fpsan_tools.ttir.parser import Module, parse

KNOWN = ("3.8", "3.9")
"""Releases of Triton that this package was tested with."""

CAPABILITY = 90
"""Compute capability that kernels are compiled for (sm_90)."""


def import_triton() -> Any:
    """Triton, if it is there and known.

    Raises:
        TritonUnavailable: if it is missing or of another release.
    """
    try:
        import triton
    except ImportError:
        raise TritonUnavailable(
            "Triton is not installed, and its compiler is needed to read kernels: pip install 'fpsan-tools[triton]' "
            "(Linux only)"
        ) from None
    release = ".".join(triton.__version__.split(".")[:2])
    if release not in KNOWN:
        raise TritonUnavailable(
            f"Triton {triton.__version__} is installed; fpsan_tools knows releases {' and '.join(KNOWN)}"
        )
    return triton


@dataclass(frozen=True)
class Compiled:
    """A compiled kernel.

    Attributes:
        name: the kernel's name.
        module: its operations, linked.
        text: the module as printed by the compiler.
        fusion: whether products may be contracted into additions.
        options: the compiler's options for the launch.
        source: what the compiler was given, for further stages.
    """

    name: str
    module: Module
    text: str
    fusion: bool
    options: Any
    source: Any


_LOCK = threading.RLock()
_CACHE: OrderedDict[tuple[Any, ...], Compiled] = OrderedDict()
_CACHE_SIZE = 256


def backend_for(capability: int = CAPABILITY) -> tuple[Any, Any]:
    """Triton's NVIDIA backend without a device.

    Args:
        capability: compute capability, 90 for sm_90.

    Returns:
        The target and the backend.
    """
    import_triton()
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    target = GPUTarget("cuda", capability, 32)
    return target, make_backend(target)


def fusion_default(requested: bool | None) -> bool:
    """Whether a launch may contract products: what it asks for, else Triton's default, unless Triton forbids it."""
    from triton import knobs

    language = knobs.language
    if getattr(language, "force_disable_fp_fusion", False):
        return False
    return bool(getattr(language, "default_fp_fusion", True)) if requested is None else bool(requested)


def bind(kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], backend: Any) -> Any:
    """Bind arguments as a launch does.

    Returns:
        Bound arguments by name, their specialisation, and the remaining keywords (options).

    Raises:
        FpsanError: if arguments are missing or too many.
    """
    from triton.runtime.jit import create_function_from_signature

    binder = create_function_from_signature(kernel.signature, kernel.params, backend)
    try:
        return binder(*arguments, **keywords)
    except TypeError as error:
        raise FpsanError(
            f"kernel {kernel_name(kernel)!r}: {str(error).replace('dynamic_func()', 'the launch')}"
        ) from None


def kernel_name(kernel: Any) -> str:
    """The kernel's name as its author wrote it."""
    return str(getattr(kernel, "__name__", kernel))


def compile_kernel(
    kernel: Any, bound: dict[str, Any], specialization: list[Any], keywords: dict[str, Any], domain: Domain
) -> Compiled:
    """Compile for one specialisation; results are cached.

    Args:
        kernel: a `@triton.jit` function.
        bound: bound arguments by name.
        specialization: their specialisation, as `bind` gives it.
        keywords: keywords of the launch that are options.
        domain: says which representation is wanted, in which mode, and whether products are contracted.

    Returns:
        The compiled kernel.

    Raises:
        CompilationFailed: if Triton refuses the kernel.
        UnsupportedOperation: if it uses an operation that the evaluator does not know.
    """
    target, backend = backend_for()
    fusion = fusion_default(keywords.get("enable_fp_fusion"))
    keywords = {**keywords, "enable_fp_fusion": fusion}
    if domain.instrumentation:
        keywords["instrumentation_mode"] = domain.instrumentation
    name = kernel_name(kernel)
    with _LOCK:
        try:
            options, signature, constants, attributes = kernel._pack_args(
                backend, keywords, bound, specialization, keywords
            )
        except KeyError as error:
            raise FpsanError(f"kernel {name!r}: {error.args[0]}") from None
        wanted = (domain.stage, domain.fuses, domain.contracts_sums)
        key = (kernel.cache_key, name, str(signature), str(constants), str(attributes), str(options), wanted)
        found = _CACHE.get(key)
        if found is not None:
            _CACHE.move_to_end(key)
            return found
        if domain.stage == "ttgir":  # software pipelines do not change results, only the text
            options = dataclasses.replace(options, num_stages=1)
        source, text = _front_end(
            kernel, name, target, backend, options, signature, constants, attributes, domain.stage
        )
        module = parse(text)
        if domain.fuses and fusion:
            contract(module, domain.contracts_sums)
        compiled = Compiled(name, link(module, name), text, fusion, options, source)
        _CACHE[key] = compiled
        while len(_CACHE) > _CACHE_SIZE:
            _CACHE.popitem(last=False)
        return compiled


def _front_end(
    kernel: Any,
    name: str,
    target: Any,
    backend: Any,
    options: Any,
    signature: Any,
    constants: Any,
    attributes: Any,
    stage: str,
) -> tuple[Any, str]:
    from triton._C.libtriton import ir
    from triton.compiler import ASTSource
    from triton.compiler.errors import CompilationError

    source = ASTSource(kernel, signature, constants, attributes)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    try:
        module = source.make_ir(
            target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
        )
        module = backend.make_ttir(module, {}, options, target.arch)
        if stage == "ttgir":
            module = backend.make_ttgir(module, {}, options, target.arch)
    except CompilationError as error:
        raise CompilationFailed(f"Triton refuses kernel {name!r}: {error}") from error
    except RuntimeError as error:
        raise CompilationFailed(f"Triton's passes fail for kernel {name!r}: {error}") from error
    return source, str(module)
