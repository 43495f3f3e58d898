"""The algebra of one Triton version: what differs between releases is a table, the rules are shared."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from fpsan_tools.algebra import carriers, embedding, functions, ring
from fpsan_tools.algebra.floats import FLOAT_TYPES, FloatType, Payload, float_type, width
from fpsan_tools.algebra.matrix import ring_matmul
from fpsan_tools.exceptions import FpsanError, UnknownName

# libdevice functions that are computed as the operation they stand for, in fp32 only.
_EXTERN_ALIASES_38 = {
    "__nv_fast_expf": "exp",
    "__nv_exp2f": "exp2",
    "__nv_logf": "log",
    "__nv_log2f": "log2",
    "__nv_rsqrtf": "rsqrt",
    "__nv_erff": "erf",
    "__nv_floorf": "floor",
    "__nv_ceilf": "ceil",
    "__nv_fsqrt_rn": "sqrt_rn",
    "__nv_sinf": "sin",
    "__nv_cosf": "cos",
    "__nv_fdiv_rn": "div",
    "__nv_fmaf": "fma",
}
_EXTERN_ALIASES_39 = {**_EXTERN_ALIASES_38, "__nv_expf": "exp"}

# Formats of dot_scaled operands: the float type of the payloads, or None for packed e2m1 nibbles.
_SCALED_FORMATS = {"e4m3": "fp8e4m3fn", "e5m2": "fp8e5m2", "e2m1": None, "bf16": "bf16", "fp16": "fp16"}
_SCALE_GROUP = 32
_NAN_SCALE = 255
_QUIET_NAN = {"bf16": 0x7FC0, "fp16": 0x7E00}


@dataclass(frozen=True)
class Algebra:
    """FpSan's payload algebra as one Triton version computes it, in NumPy.

    Payloads are unsigned integer arrays of the float type's width (`embed` makes them, `unembed` reads them back);
    every operation wraps mod 2^w. Functions of one rule: see the modules `ring`, `functions`, `embedding`.

    Arguments `x`, `y` and `z` are arrays of payloads, of one width and broadcast; the result is one, too.

    Attributes:
        version: "3.8", "3.9" or "3.9-homomorphic".
        embed_multiplier: the multiplier A of the embedding.
        exp_constant: C with exp(x) = exp2(C*x), the same integer at every width; E_fp32(log2 e).
        mixing_casts: whether narrowing casts mix the dropped bits in (else they truncate).
        instruments_clamp: whether clamp is min/max of payloads (else it stays IEEE on the carriers).
        extern_aliases: libdevice symbols that are computed as an operation of this algebra.
        tags_inline_asm: whether pure inline assembly becomes a tag (else it stays as it is and sees the carriers).
        raises_zero_scale: whether an e8m0 scale byte 0 is 2^-127 in bf16 dot_scaled (else it is 0).
        masks_nan_scale: whether elements of dot_scaled whose scale byte is 255 (NaN) become NaN (else 255 is a scale).
    """

    version: str
    embed_multiplier: int
    exp_constant: int
    mixing_casts: bool
    instruments_clamp: bool
    extern_aliases: Mapping[str, str] = field(repr=False)
    tags_inline_asm: bool
    raises_zero_scale: bool
    masks_nan_scale: bool

    # Rules that no version changes.
    add = staticmethod(ring.add)
    sub = staticmethod(ring.sub)
    mul = staticmethod(ring.mul)
    neg = staticmethod(ring.neg)
    fma = staticmethod(ring.fma)
    inv = staticmethod(ring.inv)
    div = staticmethod(ring.div)
    rem = staticmethod(ring.rem)
    minimum = staticmethod(ring.minimum)
    maximum = staticmethod(ring.maximum)
    sum = staticmethod(ring.total)
    cumsum = staticmethod(ring.cumulative)
    max = staticmethod(ring.largest)
    min = staticmethod(ring.smallest)
    exp2 = staticmethod(functions.exp2)
    cos_sin = staticmethod(functions.cos_sin)
    cos = staticmethod(functions.cos)
    sin = staticmethod(functions.sin)
    widen = staticmethod(embedding.widen)
    unpack_fp4 = staticmethod(embedding.unpack_fp4)

    def embed(self, values: npt.ArrayLike, dtype: str | FloatType) -> Payload:
        """Float bit patterns (or floats of that type) to payloads; see `embedding.embed`.

        Args:
            values: an array of the type's floats, or of unsigned integers that hold their bits.
            dtype: the float type.

        Returns:
            Payloads of the type's width, in the same shape.
        """
        return embedding.embed(values, dtype, self.embed_multiplier)

    def unembed(self, payloads: npt.ArrayLike, dtype: str | FloatType) -> Payload:
        """Payloads to float bit patterns; see `embedding.unembed`.

        Args:
            payloads: an unsigned array of the type's width.
            dtype: the float type.

        Returns:
            The bits that a kernel would have stored, unsigned, in the same shape.
        """
        return embedding.unembed(payloads, dtype, self.embed_multiplier)

    def clamp(
        self, x: Payload, low: Payload, high: Payload, dtype: str | FloatType, propagate_nan: bool = False
    ) -> Payload:
        """min(max(x, low), high): of signed payloads from 3.9 on, of the IEEE carriers in 3.8.

        Args:
            x: payloads.
            low: payloads of the lower bounds.
            high: payloads of the upper bounds.
            dtype: their float type.
            propagate_nan: for 3.8, whether NaN operands give NaN.

        Returns:
            Payloads.
        """
        if self.instruments_clamp:
            return ring.minimum(ring.maximum(x, low), high)
        kind = float_type(dtype)
        u, u_low, u_high = (self.unembed(v, kind) for v in (x, low, high))
        return self.embed(carriers.clamp(u, u_low, u_high, kind, propagate_nan), kind)

    def absolute(self, x: Payload, dtype: str | FloatType) -> Payload:
        """|x|, which no version instruments: the carrier's sign bit is cleared.

        Args:
            x: payloads.
            dtype: their float type.

        Returns:
            Payloads.
        """
        return self.embed(carriers.absolute(self.unembed(x, dtype)), dtype)

    def exp(self, x: Payload) -> Payload:
        """e^x = exp2(C*x), so exp(x+y) = exp(x)*exp(y) and exp(-x) = 1/exp(x)."""
        return functions.exp(x, self.exp_constant)

    def tagged(self, op: str, x: Payload) -> Payload:
        """A unary operation without identities: log, log2, sqrt, rsqrt, erf, floor, ceil, sqrt_rn; `functions.tag`.

        Args:
            op: the operation's name.
            x: payloads.

        Returns:
            Payloads.

        Raises:
            UnknownName: for another operation.
        """
        if op not in functions.TAG_IDS:
            raise UnknownName.of("tagged operation", op, functions.TAG_IDS)
        return functions.tag(x, functions.TAG_IDS[op])

    def unary(self, op: str, x: Payload) -> Payload:
        """Any instrumented unary operation by name: exp, exp2, cos, sin, neg, inv or a tagged one.

        Args:
            op: the operation's name.
            x: payloads.

        Returns:
            Payloads.

        Raises:
            UnknownName: for another operation.
        """
        if op in _UNARY:
            result: Payload = getattr(self, op)(x)
            return result
        if op in functions.TAG_IDS:
            return self.tagged(op, x)
        raise UnknownName.of("unary operation", op, [*_UNARY, *functions.TAG_IDS])

    def extern(self, symbol: str, operands: Sequence[npt.NDArray[Any]], dtype: str | FloatType) -> Payload:
        """A pure extern call with a float result: an aliased operation, else a tag of the symbol and all operands.

        Args:
            symbol: the called symbol, such as "__nv_expf".
            operands: payloads of float operands, integers as they are.
            dtype: the result's float type.

        Returns:
            Payloads of the result's type.
        """
        kind = float_type(dtype)
        op = self.extern_aliases.get(symbol)
        if op is not None and kind.name == "fp32" and all(np.asarray(x).dtype == kind.unsigned for x in operands):
            if op in _SEVERAL:
                result: Payload = getattr(self, op)(*operands)
                return result
            return self.unary(op, operands[0])
        return functions.variadic_tag(operands, kind.bits, functions.fnv1a(symbol))

    def inline_asm(
        self, text: str, operands: Sequence[npt.NDArray[Any]], dtype: str | FloatType, index: int = 0
    ) -> Payload:
        """Result number `index` of pure inline assembly: the tag of its text, xor the index.

        Args:
            text: the assembly.
            operands: payloads of float operands, integers as they are.
            dtype: the result's float type.
            index: which result.

        Returns:
            Payloads of the result's type.

        Raises:
            FpsanError: where the version leaves assembly as it is (3.8).
        """
        if not self.tags_inline_asm:
            raise FpsanError(
                f"FpSan of Triton {self.version} leaves inline assembly uninstrumented; it has no payload rule"
            )
        return functions.variadic_tag(operands, float_type(dtype).bits, functions.fnv1a(text) ^ index)

    def cast(self, x: Payload, dtype: str | FloatType) -> Payload:
        """Convert payloads to another float type: sign-extended up, unchanged in equal width, mixed or truncated down.

        Args:
            x: payloads of any float type.
            dtype: the target type.

        Returns:
            Payloads of the target's width.
        """
        bits = float_type(dtype).bits
        if bits == width(x):
            return x
        if bits > width(x):
            return embedding.widen(x, bits)
        return embedding.mix(x, bits) if self.mixing_casts else embedding.truncate(x, bits)

    def matmul(self, a: Payload, b: Payload, c: Payload | None = None, *, dtype: str | FloatType) -> Payload:
        """tl.dot: operands converted to the accumulator's width, sum of products, plus c; `matrix.ring_matmul`.

        Args:
            a: payloads of shape (..., M, K).
            b: payloads of shape (..., K, N); leading axes broadcast.
            c: payloads of shape (..., M, N) in the accumulator's type, or None for zero.
            dtype: the accumulator's float type.

        Returns:
            Payloads of shape (..., M, N).
        """
        kind = float_type(dtype)
        a, b = (self.cast(x, kind) if width(x) > kind.bits else x for x in (a, b))
        product = ring_matmul(a, b, kind.bits)
        return product if c is None else ring.add(product, c)

    def scaled_operand(self, x: Payload, form: str, scale: npt.ArrayLike | None, compute: str, packed: bool) -> Payload:
        """One side of dot_scaled with k as its last axis: element times scale in the 16-bit compute type.

        Args:
            x: payloads of shape (..., R, K); for "e2m1" bytes, of shape (..., R, K/2) if `packed` along k.
            form: "e4m3", "e5m2", "e2m1", "bf16" or "fp16".
            scale: e8m0 bytes of shape (..., R, K/32), or None.
            compute: "bf16" or "fp16".
            packed: whether e2m1 bytes hold two values of k (else two rows).

        Returns:
            Payloads of the compute type, shape (..., R, K).

        Raises:
            UnknownName: for another form.
            FpsanError: for a scale whose shape does not fit.
        """
        if form not in _SCALED_FORMATS:
            raise UnknownName.of("dot_scaled format", form, _SCALED_FORMATS)
        elements = embedding.unpack_fp4(x, -1 if packed else -2) if form == "e2m1" else self.cast(x, compute)
        if scale is None or form in ("bf16", "fp16"):
            return elements
        exponents = np.repeat(np.asarray(scale).view(np.uint8), _SCALE_GROUP, axis=-1)
        if exponents.shape[-1] != elements.shape[-1]:
            raise FpsanError(
                f"scale of shape {np.shape(scale)} does not fit {elements.shape[-1]} values of k: one byte per "
                f"{_SCALE_GROUP} values"
            )
        scaled = ring.mul(elements, self.scale_payload(exponents, compute))
        if not self.masks_nan_scale:
            return scaled
        nan = self.embed(np.array(_QUIET_NAN[compute], np.uint16), compute)
        return np.where(exponents == _NAN_SCALE, nan, scaled)

    def scale_payload(self, exponents: npt.NDArray[np.uint8], compute: str) -> Payload:
        """The payload of e8m0 bytes s, that is 2^(s-127), in the compute type of dot_scaled.

        bf16: E(s << 7), with at least the subnormal 2^-127 from 3.9 on; fp16: E_fp32(s << 23) narrowed.

        Args:
            exponents: the bytes, of any shape.
            compute: "bf16" or "fp16".

        Returns:
            Payloads of the compute type, in the same shape.
        """
        if compute == "bf16":
            bits = exponents.astype(np.uint16) << np.uint16(7)
            return self.embed(np.maximum(bits, np.uint16(0x40)) if self.raises_zero_scale else bits, "bf16")
        return self.cast(self.embed(exponents.astype(np.uint32) << np.uint32(23), "fp32"), compute)

    def dot_scaled(
        self,
        a: Payload,
        a_scale: npt.ArrayLike | None,
        a_format: str,
        b: Payload,
        b_scale: npt.ArrayLike | None,
        b_format: str,
        c: Payload | None = None,
        *,
        dtype: str | FloatType = "fp32",
        a_k_packed: bool = True,
        b_k_packed: bool = True,
    ) -> Payload:
        """tl.dot_scaled: both sides scaled in bf16 (fp16 if a side is fp16), then `matmul`.

        Args:
            a: payloads of shape (..., M, K), or packed e2m1 bytes.
            a_scale: e8m0 bytes of shape (..., M, K/32), or None.
            a_format: "e4m3", "e5m2", "e2m1", "bf16" or "fp16".
            b: payloads of shape (..., K, N), or packed e2m1 bytes.
            b_scale: e8m0 bytes of shape (..., N, K/32), or None.
            b_format: as `a_format`.
            c: accumulator payloads, or None.
            dtype: the accumulator's float type.
            a_k_packed: whether a's e2m1 bytes hold two values of k (else of m).
            b_k_packed: whether b's e2m1 bytes hold two values of k (else of n).

        Returns:
            Payloads of shape (..., M, N).

        Raises:
            FpsanError: if shapes do not fit.
        """
        compute = "fp16" if "fp16" in (a_format, b_format) else "bf16"
        left = self.scaled_operand(a, a_format, a_scale, compute, a_k_packed)
        right = self.scaled_operand(np.swapaxes(b, -1, -2), b_format, b_scale, compute, b_k_packed)
        return self.matmul(left, np.swapaxes(right, -1, -2), c, dtype=dtype)

    @property
    def float_types(self) -> Mapping[str, FloatType]:
        """The float types that have payloads, by name."""
        return MappingProxyType(FLOAT_TYPES)


_UNARY = ("exp", "exp2", "cos", "sin", "neg", "inv")
_SEVERAL = ("div", "fma")

_V38 = Algebra(
    version="3.8",
    embed_multiplier=922291,
    exp_constant=0x236EE9BF,
    mixing_casts=False,
    instruments_clamp=False,
    extern_aliases=MappingProxyType(_EXTERN_ALIASES_38),
    tags_inline_asm=False,
    raises_zero_scale=False,
    masks_nan_scale=True,
)
_V39 = Algebra(
    version="3.9",
    embed_multiplier=14940041,
    exp_constant=0x26A29A75,
    mixing_casts=True,
    instruments_clamp=True,
    extern_aliases=MappingProxyType(_EXTERN_ALIASES_39),
    tags_inline_asm=True,
    raises_zero_scale=True,
    masks_nan_scale=False,
)
_V39_HOMOMORPHIC = Algebra(**{**_V39.__dict__, "version": "3.9-homomorphic", "mixing_casts": False})

VERSIONS: Mapping[str, Algebra] = MappingProxyType({a.version: a for a in (_V38, _V39, _V39_HOMOMORPHIC)})
"""Every known algebra by its version."""

NEWEST = "3.9"


def installed_triton() -> str | None:
    """The version of the installed Triton, without importing it.

    Returns:
        For example "3.9.0"; None where there is none.
    """
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return None


def installed_version() -> str | None:
    """The algebra version of the installed Triton and its environment, or None where no Triton is installed.

    TRITON_FPSAN_HOMOMORPHIC_CASTS selects "3.9-homomorphic", as it does in the compiler.

    Returns:
        A key of `VERSIONS`, or None.

    Raises:
        UnknownName: if a Triton is installed whose algebra is not known.
    """
    triton = installed_triton()
    if triton is None:
        return None
    release = ".".join(triton.split(".")[:2])
    if release not in VERSIONS:
        raise UnknownName(
            f"the installed Triton {triton} has no known FpSan algebra (known: {', '.join(VERSIONS)}); install one of "
            f"these, or name a version, as in algebra.get({NEWEST!r})"
        )
    homomorphic = f"{release}-homomorphic"
    asked = os.environ.get("TRITON_FPSAN_HOMOMORPHIC_CASTS", "").lower() in ("1", "true", "on", "yes", "y")
    return homomorphic if asked and homomorphic in VERSIONS else release


def get(version: str | Algebra | None = None) -> Algebra:
    """Return the payload algebra of a Triton version.

    Args:
        version: "3.8", "3.9", "3.9-homomorphic", an algebra (returned as it is), or None for the installed Triton's;
            without Triton the newest known.

    Returns:
        A frozen `Algebra`.

    Raises:
        UnknownName: for another version, or if None is given and the installed Triton's algebra is not known.
    """
    if isinstance(version, Algebra):
        return version
    name = version if version is not None else installed_version() or NEWEST
    if name not in VERSIONS:
        raise UnknownName.of("algebra version", name, VERSIONS)
    return VERSIONS[name]
