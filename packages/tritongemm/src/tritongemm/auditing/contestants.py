"""The kernels under audit: found, imported, checked, and given constants and a grid."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from tritongemm.auditing.callables import library_of, takes_two_matrices
from tritongemm.auditing.grids import Grid, derived_grid, grid_from_expression, tile_constant
from tritongemm.auditing.signatures import SIGNATURES, Signature, signature_of
from tritongemm.errors import Unavailable, UsageError, nearest, one_line

# The kernels of this package, by short name.
OWN = {
    "strided_lanes": ("tritongemm.kernels.strided_lanes", "strided_lanes_kernel"),
    "blocked": ("tritongemm.kernels.blocked", "blocked_kernel"),
}
OLDEST_TRITON, TOO_NEW_TRITON = (3, 8), (3, 10)

# Options of a launch rather than constants of the kernel, as triton.Config carries them.
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
# What a constant without a value is set to, by its name. A guess: the report says so.
_GUESSES: tuple[tuple[str, Any], ...] = (
    (r"GROUP.*", 8),
    (r"LANES|BLOCK|BLOCK_?SIZE|NUM_LANES", 256),
    (r"ACTIVATION", ""),
    (r"(INPUT_)?PREC(ISION)?|DOT_PRECISION", "ieee"),
    (r"EVEN_[MNK]|USE_\w+|ALLOW_TF32", False),
    (r"NUM_?(SMS?|PROGRAMS|PROGS)", 8),
)
_TILE_GUESS = 32
# Place of C among a kernel's arguments.
_RESULT = 2


def triton_version() -> tuple[str, str | None]:
    """The version of the installed Triton, and a remark if it is newer than the ones that were tested.

    Raises:
        Unavailable: Triton is missing or too old.
    """
    wanted = "pip install 'triton>=3.8,<3.10'"
    try:
        version = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        where = "" if sys.platform == "linux" else f"; Triton has packages for Linux only, and this is {sys.platform}"
        raise Unavailable(
            f"Triton is not installed, and kernels cannot be compiled without it: {wanted}{where}."
        ) from None
    numbers = tuple(int(x) for x in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST_TRITON:
        raise Unavailable(
            f"Triton {version} is installed, and its FpSan algebra starts with 3.8: {wanted} "
            "(torch 2.14 and newer come with a Triton that fits)."
        )
    if numbers >= TOO_NEW_TRITON:
        return version, f"Triton {version} is newer than the versions tested here (3.8 and 3.9)"
    return version, None


def usable_triton() -> tuple[str, str | None]:
    """`triton_version`, of a Triton that can be imported too.

    Raises:
        Unavailable: Triton is missing, too old, or broken.
    """
    version, remark = triton_version()
    try:
        importlib.import_module("triton")
    except (ImportError, OSError) as error:
        raise Unavailable(
            f"Triton {version} is installed but cannot be imported ({one_line(error)}); install it anew: "
            "pip install --force-reinstall 'triton>=3.8,<3.10'."
        ) from error
    return version, remark


@dataclass(frozen=True)
class Choices:
    """What a user says about one kernel; everything has a default.

    Attributes:
        constants: Values of the kernel's constants.
        grid: Its launch grid, as text.
        config: Which configuration of an autotuned kernel to audit.
        fusion: Whether the compiler may fuse multiplications into additions.
        zeroed: Whether its launcher sets C to zero before it, as kernels that add to C atomically need.
        precision: The precision mode that it is meant to have, a name of `tritongemm.modes.MODES`: "tf32", ...
    """

    constants: Mapping[str, Any] = field(default_factory=dict)
    grid: str | None = None
    config: int = 0
    fusion: bool = True
    zeroed: bool = False
    precision: str | None = None


@dataclass(frozen=True)
class Contestant:
    """A kernel that is ready to be run on any operands.

    Attributes:
        letter: "A" or "B".
        spec: How it was named.
        name: The kernel's name.
        kernel: The `@triton.jit` function.
        signature: Its argument list.
        constants: Its constants.
        options: Options of its compilation and launch.
        grid: Its launch grid, as a function of M, N, K.
        grid_text: The same, to read.
        remarks: What was assumed or chosen for it.
        limitations: What of it the audit does not cover.
        heuristics: Constants that are functions of the other arguments.
        zeroed: Whether C is zero before it, rather than NaN.
        function: A function of two matrices that gives their product, in place of a kernel.
        arrays: Whose arrays it is called with on the CPU.
        gluon: Whether the kernel is written in Gluon.
        precision: The precision mode that it is meant to have, if that was said.
        chosen: Names of the constants and options that the user gave.
    """

    letter: str
    spec: str
    name: str
    kernel: Any
    signature: Signature
    constants: Mapping[str, Any]
    options: Mapping[str, Any]
    grid: Grid
    grid_text: str
    remarks: tuple[str, ...] = ()
    limitations: tuple[str, ...] = ()
    heuristics: Mapping[str, Any] = field(default_factory=dict)
    zeroed: bool = False
    function: Callable[..., Any] | None = None
    arrays: tuple[str, ...] = ()
    gluon: bool = False
    precision: str | None = None
    chosen: frozenset[str] = frozenset()

    def tile(self, dimension: str) -> int:
        """Its tile size along "rows", "columns" or "inner"; 1 where it has none."""
        name = tile_constant(self.constants, getattr(self.signature, dimension))
        return int(self.constants[name]) if name else 1

    def largest_constant(self, names: re.Pattern[str]) -> int:
        """The largest whole number among its constants of these names; 1 where it has none."""
        found = [v for k, v in self.constants.items() if names.fullmatch(k) and isinstance(v, int)]
        return max([1, *found])

    def steps(self) -> list[int]:
        """Numbers that its loop over the summed dimension may go by: tile sizes and other powers of two among the
        constants."""
        inner = tile_constant(self.constants, self.signature.inner)
        tiles = {tile_constant(self.constants, x) for x in (self.signature.rows, self.signature.columns)}
        own = [
            v for k, v in self.constants.items() if k not in tiles and isinstance(v, int) and not isinstance(v, bool)
        ]
        values = [int(self.constants[inner])] if inner else own
        return sorted({v for v in values if v >= 2 and v & (v - 1) == 0})

    def arguments(self, a: Any, b: Any, c: Any, strides: tuple[int, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional and keyword arguments of its launch for a product of our (M, K) and (K, N).

        Args:
            a: The (M, K) matrix.
            b: The (K, N) matrix.
            c: The (M, N) matrix to write.
            strides: The six strides, in elements.
        """
        M, K, N = int(a.shape[0]), int(a.shape[1]), int(b.shape[1])
        given = (a, b, c, *self.signature.sizes(M, N, K), *strides)
        constants = dict(self.constants)
        if self.heuristics:
            names = [p.name for p in self.kernel.params if not p.is_constexpr]
            known = {**dict(zip(names, given, strict=True)), **constants}
            for name, rule in self.heuristics.items():
                known[name] = constants[name] = rule(known)
        return given, {**constants, **self.options}

    def describe(self) -> str:
        """One line for the report's head."""
        if self.function is not None:
            return f"{self.name} ({self.spec}); a function of two matrices"
        constants = ", ".join(f"{k}={v!r}" for k, v in self.constants.items())
        options = ", ".join(f"{k}={v!r}" for k, v in self.options.items())
        return f"{self.name} ({self.spec}); {constants or 'no constants'}; {options}; grid {self.grid_text}"


def find(spec: str, argument: str) -> tuple[Any, str]:
    """Imports a kernel. This executes the module it is in.

    Args:
        spec: "strided_lanes", "blocked", "package.module:kernel", "file.py:kernel", or a module or file with one kernel
            only.
        argument: What to call the argument in errors.

    Returns:
        The object found and its name.

    Raises:
        UsageError: There is no such thing.
    """
    if spec in OWN:
        module_name, name = OWN[spec]
        return getattr(importlib.import_module(module_name), name), name
    place, colon, name = spec.rpartition(":")
    if not colon:
        place, name = spec, ""
    is_file = _is_file(place)
    if (not colon and not is_file and "." not in place) or not place.strip("."):
        raise UsageError(
            f"{argument}: {spec!r} is neither a kernel of this package nor package.module:kernel nor file.py:kernel. "
            f"{nearest(spec, OWN)}"
        )
    module = import_place(place, argument)
    if not name:
        return _only_kernel(module, spec, argument)
    if not hasattr(module, name):
        raise UsageError(f"{argument}: {place} has no {name!r}. {nearest(name, _kernels_of(module))}")
    return getattr(module, name), name


def _is_file(place: str) -> bool:
    return place.endswith(".py") or "/" in place


def import_place(place: str, argument: str) -> ModuleType:
    """Imports a module by its name or its file, which executes it.

    Args:
        place: "package.module" or "path/to/file.py".
        argument: What to call the argument in errors.

    Raises:
        UsageError: There is none, or it fails.
    """
    return _import_file(place, argument) if _is_file(place) else _import_module(place, argument)


def origin(found: Any) -> tuple[str, str]:
    """Name and place of a kernel that was given as an object.

    Args:
        found: A kernel, in whatever decorators.

    Returns:
        Its name, and "module:name".
    """
    while hasattr(found, "fn"):
        found = found.fn
    name = getattr(found, "__name__", type(found).__name__)
    return name, f"{getattr(found, '__module__', '?')}:{name}"


def _kernels_of(module: ModuleType) -> dict[str, Any]:
    return {
        k: v for k, v in vars(module).items() if hasattr(v, "fn") and (hasattr(v, "params") or hasattr(v, "arg_names"))
    }


def _only_kernel(module: ModuleType, spec: str, argument: str) -> tuple[Any, str]:
    from tritongemm.auditing.cases import is_adapter

    if is_adapter(module):
        raise UsageError(f"{argument}: {spec} is an adapter, which is audited alone: tritongemm audit {spec}.")
    fitting = {}
    kernels = _kernels_of(module)
    if len(kernels) == 1:  # Whatever is wrong with it is said when it is looked at.
        return next((kernel, name) for name, kernel in kernels.items())
    for name, kernel in kernels.items():
        try:
            signature_of(name, [p.name for p in _unwrap(kernel, name).kernel.params if not p.is_constexpr])
        except UsageError:
            continue
        fitting[name] = kernel
    if len(fitting) != 1:
        what = (
            f"has {len(fitting)} kernels with a known signature" if fitting else "has no kernel with a known signature"
        )
        listed = ", ".join(fitting or _kernels_of(module)) or "none"
        raise UsageError(f"{argument}: {spec} {what}; name one as {spec}:kernel. Known: {listed}.")
    (name, kernel), *_ = fitting.items()
    return kernel, name


def _import_module(place: str, argument: str) -> ModuleType:
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name and (place == error.name or place.startswith(error.name + ".")):
            raise UsageError(
                f"{argument}: there is no module {error.name!r} here or among the installed packages; "
                "name a file as path/to/file.py:kernel."
            ) from None
        raise _import_failed(place, argument, error) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _import_failed(place, argument, error) from error
    finally:
        if added and here in sys.path:
            sys.path.remove(here)


def _import_file(place: str, argument: str) -> ModuleType:
    path = Path(place)
    if not path.is_file():
        raise UsageError(f"{argument}: there is no file {place!r} (looked in {Path.cwd()}).")
    path = path.resolve()
    module_name = "tritongemm_audited_" + re.sub(r"\W", "_", str(path))
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{argument}: {place!r} is no Python file; name a file that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    sys.path.insert(0, str(path.parent))  # Files beside it can be imported, as when it is run.
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[module_name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise _import_failed(place, argument, error) from error
    finally:
        if str(path.parent) in sys.path:
            sys.path.remove(str(path.parent))
    return module


def _import_failed(place: str, argument: str, error: BaseException) -> UsageError:
    if isinstance(error, SyntaxError):
        at = f"{error.filename}, line {error.lineno}" if error.lineno else place
    else:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
        own = [
            f for f in frames if not f.filename.startswith("<") and __name__.split(".")[0] not in Path(f.filename).parts
        ]
        at = f"{own[0].filename}, line {own[0].lineno}" if own else "outside its own code"
    said = str(error).strip().splitlines()
    return UsageError(
        f"{argument}: importing {place} failed at {at}: {type(error).__name__}{': ' + said[0] if said else ''}. "
        "Put the kernel into a file that can be imported on this machine."
    )


@dataclass(frozen=True)
class _Unwrapped:
    """A kernel and what its decorators say.

    Attributes:
        kernel: The `@triton.jit` function.
        configs: Configurations of the autotuner.
        heuristics: Constants that are functions.
        uncovered: What the decorators do that an audit does not.
        resets: Arguments that the autotuner sets to zero before a launch.
    """

    kernel: Any
    configs: list[Any]
    heuristics: dict[str, Any]
    uncovered: list[str]
    resets: set[str]


def _unwrap(found: Any, name: str) -> _Unwrapped:
    """Takes a kernel out of its decorators."""
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction

    configs: list[Any] = []
    heuristics: dict[str, Any] = {}
    uncovered: list[str] = []
    resets: set[str] = set()
    kernel = found
    while isinstance(kernel, (Autotuner, Heuristics)):
        if isinstance(kernel, Autotuner):
            configs = list(kernel.configs)
            resets |= set(getattr(kernel, "reset_to_zero", None) or ())
            if any(getattr(kernel, f"user_defined_{when}_hook", False) for when in ("pre", "post")):
                uncovered.append("hooks of its autotuner are not run")
        else:
            heuristics |= kernel.values
        kernel = kernel.fn
    if isinstance(kernel, JITFunction):
        return _Unwrapped(kernel, configs, heuristics, uncovered, resets)
    if type(kernel).__name__ == "InterpretedFunction":
        raise UsageError(f"{name}: Triton's interpreter is switched on; unset TRITON_INTERPRET and try again.")
    kind = type(kernel).__name__
    article = "an" if kind[:1] in "aeiou" else "a"
    raise UsageError(
        f"{name}: {article} {kind}, neither a @triton.jit kernel nor a function of two matrices that gives "
        "their product."
    )


def _is_function(found: Any) -> bool:
    """Whether something is to be called with two matrices, rather than launched."""
    return callable(found) and not hasattr(found, "fn") and type(found).__name__ != "InterpretedFunction"


def _function_contestant(found: Any, letter: str, spec: str, name: str, choices: Choices) -> Contestant:
    """A contestant that is called: whatever launches, or computes without Triton."""
    if not takes_two_matrices(found):
        raise UsageError(
            f"{name}: this function cannot be called with two matrices, name(a, b); name a @triton.jit kernel, or a "
            "function that gives their product."
        )
    given = [
        option
        for option, value in (("const", choices.constants), ("grid", choices.grid), ("config", choices.config))
        if value
    ]
    if given:
        raise UsageError(f"--{given[0]}-{letter.lower()}: {name} is a function, which launches as it likes.")
    remarks = ("called as a function of A and B",)
    return Contestant(
        letter, spec, name, None, SIGNATURES[0], {}, {}, lambda M, N, K: (), "its own", remarks,
        function=found, arrays=library_of(found), precision=choices.precision,
    )  # fmt: skip


def constants_of(spec: str, argument: str) -> set[str]:
    """Names of a kernel's constants and of the launch options that can be set like them.

    Args:
        spec: The kernel, as for `find`.
        argument: What to call the argument in errors.
    """
    usable_triton()
    found, name = find(spec, argument)
    if _is_function(found):
        return set()
    return {p.name for p in _unwrap(found, name).kernel.params if p.is_constexpr} | set(_OPTIONS)


def contestant(found: Any, letter: str, spec: str, name: str, choices: Choices | None = None) -> Contestant:
    """Checks a kernel and settles everything its launch needs.

    Args:
        found: A `@triton.jit` kernel, autotuned or with heuristics or plain.
        letter: "A" or "B".
        spec: How it was named.
        name: Its name.
        choices: What the user decided.

    Returns:
        The contestant.

    Raises:
        UsageError: It is no kernel, has another signature, or needs decisions.
    """
    choices = choices or Choices()
    if _is_function(found):
        return _function_contestant(found, letter, spec, name, choices)
    unwrapped = _unwrap(found, name)
    kernel, configs = unwrapped.kernel, unwrapped.configs
    heuristics, uncovered = unwrapped.heuristics, list(unwrapped.uncovered)
    signature = signature_of(name, [p.name for p in kernel.params if not p.is_constexpr])
    remarks: list[str] = []
    options: dict[str, Any] = {"num_warps": 4, "enable_fp_fusion": choices.fusion}
    from_config: dict[str, Any] = {}
    if configs:
        if not 0 <= choices.config < len(configs):
            raise UsageError(
                f"--config-{letter.lower()}: {choices.config}, but {name} has configurations 0 to {len(configs) - 1}."
            )
        config = configs[choices.config]
        from_config = dict(config.kwargs)
        options |= {k: getattr(config, k) for k in _OPTIONS if getattr(config, k, None) is not None}
        remarks.append(f"configuration {choices.config} of {len(configs)} of the autotuner")
        if len(configs) > 1:
            uncovered.append(
                f"configurations of its autotuner other than {choices.config} (--config-{letter.lower()} N)"
            )
        if getattr(config, "pre_hook", None):
            uncovered.append("its configuration's pre_hook is not run")
    elif choices.config:
        raise UsageError(f"--config-{letter.lower()}: {name} is not autotuned, so it has no configurations.")
    constants, guessed = _constants(kernel, name, letter, signature, choices, from_config, heuristics)
    heuristics = {k: rule for k, rule in heuristics.items() if k not in constants}
    by_rule = [k for k in heuristics if any(tile_constant({k: 0}, x) for x in "mnk")]
    if by_rule and choices.grid is None:
        raise UsageError(
            f"{name}: heuristics choose its tile size {by_rule[0]}; fix it with --const-{letter.lower()} "
            f"{by_rule[0]}=... ."
        )
    options |= {k: constants.pop(k) for k in list(constants) if k in _OPTIONS}
    if guessed:
        remarks.append("chosen by the audit: " + ", ".join(f"{k}={constants[k]!r}" for k in guessed))
    for dimension in (signature.rows, signature.columns, signature.inner):
        tile = tile_constant(constants, dimension)
        if tile and (not isinstance(constants[tile], int) or constants[tile] < 1):
            raise UsageError(
                f"{name}: {tile} is {constants[tile]!r}, but a tile size is a positive whole number; "
                f"set it with --const-{letter.lower()} {tile}=... ."
            )
    result = kernel.params[_RESULT].name
    zeroed = choices.zeroed or result in unwrapped.resets or bool(getattr(kernel, "audit_zeroed", False))
    if zeroed:
        remarks.append(f"{result} is set to zero before each launch")
    own_grid = getattr(found, "audit_grid", None) or getattr(kernel, "audit_grid", None)
    if choices.grid is not None:
        argument = f"--grid-{letter.lower()}"
        grid, text = grid_from_expression(choices.grid, argument, signature, constants), choices.grid
    elif own_grid is not None:
        text = "its audit_grid"

        def grid(M: int, N: int, K: int) -> tuple[int, ...]:
            return tuple(int(x) for x in own_grid(*signature.sizes(M, N, K), constants))
    else:
        grid, text, assumed = derived_grid(kernel, name, signature, constants)
        remarks += assumed
    return Contestant(
        letter,
        spec,
        name,
        kernel,
        signature,
        constants,
        options,
        grid,
        text,
        tuple(remarks),
        tuple(uncovered),
        heuristics,
        zeroed,
        gluon=bool(getattr(kernel, "is_gluon", lambda: False)()),
        precision=choices.precision,
        chosen=frozenset(choices.constants),
    )


def _constants(
    kernel: Any,
    name: str,
    letter: str,
    signature: Signature,
    choices: Choices,
    from_config: Mapping[str, Any],
    heuristics: Mapping[str, Any],
) -> tuple[dict[str, Any], list[str]]:
    """Values of all constants: the user's, the kernel's attribute's, the configuration's, the default, a guess by
    name."""
    parameters = [p for p in kernel.params if p.is_constexpr]
    known = {p.name for p in parameters}
    for given in choices.constants:
        if given not in known and given not in _OPTIONS:
            raise UsageError(f"--const-{letter.lower()}: {name} has no constant {given!r}. {nearest(given, known)}")
    own = dict(getattr(kernel, "audit_constants", {}))
    constants: dict[str, Any] = {k: v for k, v in {**own, **choices.constants}.items() if k in _OPTIONS}
    guessed = []
    tiles = {p.name: _TILE_GUESS for p in parameters}
    tiles = {k: v for k, v in tiles.items() if any(tile_constant({k: v}, x) for x in "mnk")}
    for p in parameters:
        for source in (choices.constants, own, from_config):
            if p.name in source:
                constants[p.name] = source[p.name]
                break
        else:
            if p.name in heuristics:
                continue
            if p.has_default:
                constants[p.name] = p.default
            else:
                constants[p.name] = _guess(p.name, name, letter, tiles)
                guessed.append(p.name)
    return constants, guessed


def _guess(constant: str, name: str, letter: str, tiles: Mapping[str, int]) -> Any:
    if constant in tiles:
        return tiles[constant]
    for pattern, value in _GUESSES:
        if re.fullmatch(pattern, constant, re.IGNORECASE):
            return value
    raise UsageError(
        f"{name}: its constant {constant} has no value; give one with --const-{letter.lower()} {constant}=... ."
    )
