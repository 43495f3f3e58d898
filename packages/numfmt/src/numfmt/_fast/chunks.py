"""Rounding in NumPy: a few passes over chunks that stay in the cache, with buffers made once per call."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from numfmt._fast.plan import Plan
from numfmt._random import GROUP, Words

#: Elements per chunk. A multiple of the random generator's group, so that chunks start at whole Philox blocks.
CHUNK = 1 << 15
assert CHUNK % GROUP == 0


def round_chunks(
    x: NDArray[Any],
    out: NDArray[Any],
    plan: Plan,
    key: int = 0,
    random: NDArray[np.uint32] | None = None,
    random_bits: int = 32,
) -> None:
    """Round a one-dimensional contiguous array into another one, which may be the same.

    Args:
        x: Numbers, float32 or float64; narrower than the plan's carrier is allowed.
        out: Results, float32 or float64, same length.
        plan: How.
        key: Key of the random words, for stochastic modes without ``random``.
        random: Random integers in ``[0, 2**random_bits)``, same length.
        random_bits: Number of random bits.

    Raises:
        ValueError: If x holds NaN and the plan has no value for it.
    """
    worker = _Worker(plan, min(CHUNK, max(x.size, 1)))
    carrier = plan.carrier.dtype
    source = Words(key, min(CHUNK, x.size)) if plan.mode.stochastic and random is None else None
    for start in range(0, x.size, CHUNK):
        piece, target = x[start : start + CHUNK], out[start : start + CHUNK]
        words = None
        if plan.mode.stochastic:
            if source is not None:
                words = source.take(start, piece.size)
                np.right_shift(words, np.uint32(32 - random_bits), out=words)
            else:
                assert random is not None
                words = random[start : start + CHUNK]
        direct = piece.dtype == carrier and target.dtype == carrier and not np.may_share_memory(x, out)
        if direct:
            worker.round(piece, target, words, random_bits)
        else:
            with np.errstate(invalid="ignore"):  # signalling NaNs
                wide = piece.astype(carrier)
            result = np.empty_like(wide)
            worker.round(wide, result, words, random_bits)
            with np.errstate(invalid="ignore"):
                target[...] = result


class _Worker:
    """Buffers and constants of one call."""

    def __init__(self, plan: Plan, size: int) -> None:
        c = plan.carrier
        self.plan = plan
        self.float, self.int = c.dtype.type, c.integer.type
        self.bits = np.empty(size, c.integer)
        self.quantum = np.empty(size, c.integer)
        self.inverse = np.empty(size, c.integer)
        self.spare = np.empty(size, c.dtype)
        self.low, self.rest = np.empty(size, c.dtype), np.empty(size, c.dtype)
        self.up, self.odd = np.empty(size, np.bool_), np.empty(size, np.bool_)
        self.whole, self.least = np.empty(size, np.uint32), np.empty(size, np.uint32)
        self.below_half = np.nextafter(self.float(0.5), self.float(0)).view(self.int)
        self.quiet = plan.signed and plan.lowest == 0  # small numbers have no end of the range to meet

    def round(self, x: NDArray[Any], out: NDArray[Any], words: NDArray[np.uint32] | None, n: int) -> None:
        """Round one chunk; x and out are different arrays of the carrier's type."""
        plan, c, integer = self.plan, self.plan.carrier, self.int
        u = x.view(c.integer)
        exponent = self.bits[: x.size]
        np.bitwise_and(u, integer(c.infinity), out=exponent)
        calm = self.quiet and int(exponent.max(initial=0)) < plan.calm_bits
        # The exponent field is overwritten by neither way; a quiet format needs a look at its largest numbers only.
        if plan.way == "aligned":
            self._aligned(u, out.view(c.integer), words, n)
        else:
            self._scaled(x, exponent, out, words, n)
        if not calm:
            large = np.flatnonzero(exponent >= integer(plan.calm_bits)) if self.quiet else None
            if large is None or large.size > x.size // 8:
                self._ends(x, out)
            else:
                numbers, results = x[large], out[large]
                self._ends(numbers, results)
                out[large] = results
        if not plan.negative_zero and plan.signed:
            np.add(out, self.float(0), out=out)  # -0 + 0 is +0

    # Scaled -----------------------------------------------------------------------------------------------------------

    def _scaled(
        self, x: NDArray[Any], exponent: NDArray[Any], out: NDArray[Any], words: NDArray[np.uint32] | None, n: int
    ) -> None:
        plan, c, integer = self.plan, self.plan.carrier, self.int
        quantum, inverse = self.quantum[: x.size], self.inverse[: x.size]
        flush = None if plan.subnormals else exponent < integer(plan.emin_bits)
        np.maximum(exponent, integer(plan.emin_bits), out=quantum)
        np.subtract(quantum, integer(plan.mantissa << c.mantissa), out=quantum)
        if plan.mantissa == 0:  # 2**bias has no inverse in the carrier; no format reaches it
            np.minimum(quantum, integer(c.power(c.bias - 1)), out=quantum)
        if flush is not None:
            quantum[flush] = integer(plan.flushed_quantum)
        np.subtract(integer(c.power(0) * 2), quantum, out=inverse)
        scaled = self.spare[: x.size]
        with np.errstate(all="ignore"):  # infinities and NaN meet meaningless quanta; the ends are set afterwards
            np.multiply(x, inverse.view(c.dtype), out=scaled)
            self._to_integer(scaled, quantum, out, words, n)
            np.multiply(out, quantum.view(c.dtype), out=out)

    def _to_integer(
        self, s: NDArray[Any], quantum: NDArray[Any], out: NDArray[Any], words: NDArray[np.uint32] | None, n: int
    ) -> None:
        """Round x / q to an integer, keeping the sign of zero."""
        plan = self.plan
        name = plan.mode.name
        whole = {"nearest_even": np.rint, "toward_zero": np.trunc, "up": np.ceil, "down": np.floor}.get(name)
        if whole is not None:
            whole(s, out=out)
            if name == "nearest_even" and plan.mantissa == 0:
                # Between 2**E and its double the even code wins, not the even multiple of the quantum.
                tie = (np.abs(s) == self.float(1.5)) & ~self._odd(quantum)
                out[tie] = np.copysign(self.float(1), s[tie])
            return
        low, rest = self.low[: s.size], self.rest[: s.size]
        if name == "nearest_away":
            # A half would carry the number below a half to 1; the number below a half does what a half should, since
            # the sum is rounded to even. It takes the sign of s.
            bits = rest.view(plan.carrier.integer)
            np.bitwise_and(s.view(plan.carrier.integer), self.int(plan.carrier.sign), out=bits)
            np.bitwise_or(bits, self.below_half, out=bits)
            np.add(s, rest, out=rest)
            np.trunc(rest, out=out)
            return
        elif name == "to_odd" and plan.mantissa and plan.grows:
            # The integers around s / 2 add up to s if that is an integer, else to the odd one next to it. As s is at
            # least twice a number of the carrier, half of it is exact.
            np.multiply(s, self.float(0.5), out=rest)
            np.floor(rest, out=low)
            np.ceil(rest, out=out)
            np.add(low, out, out=out)
            return
        else:
            up, odd = self.up[: s.size], self.odd[: s.size]
            np.abs(s, out=rest)
            np.floor(rest, out=low)
            if name == "to_odd":
                np.not_equal(rest, low, out=up)
                if plan.mantissa == 0:
                    np.logical_and(low == 1, self._odd(quantum), out=odd)
                else:
                    np.multiply(low, self.float(0.5), out=rest)
                    np.floor(rest, out=out)
                    np.not_equal(rest, out, out=odd)
                np.greater(up, odd, out=up)  # inexact and not odd
            else:
                assert words is not None
                np.subtract(rest, low, out=rest)
                self._carry(rest, words, n, up)
            np.add(low, up, out=out)
        # Zeros have lost their sign; np.copysign would be slower than all the rest.
        bits, signs = out.view(plan.carrier.integer), self.inverse[: s.size]
        np.bitwise_and(s.view(plan.carrier.integer), self.int(plan.carrier.sign), out=signs)
        np.bitwise_or(bits, signs, out=bits)

    def _odd(self, quantum: NDArray[Any]) -> NDArray[np.bool_]:
        """For m = 0: the power of two q has an odd code."""
        c = self.plan.carrier
        parity = (quantum >> self.int(c.mantissa)) + self.int(self.plan.bias_parity + c.bias)
        return np.asarray((parity & self.int(1)) != 0)

    def _carry(self, fraction: NDArray[Any], words: NDArray[np.uint32], n: int, up: NDArray[np.bool_]) -> None:
        """Does the fraction, brought to n bits as the variant says, plus the random number reach one? Uses it up."""
        variant = self.plan.mode.stochastic
        scaled = np.multiply(fraction, self.float(2.0**n), out=fraction)
        if variant == "a":  # floor(f * 2**n) + R >= 2**n, without a sum that needs 33 bits
            whole, least = self.whole[: fraction.size], self.least[: fraction.size]
            np.copyto(whole, scaled, casting="unsafe")
            np.bitwise_xor(words, np.uint32(2**n - 1), out=least)
            np.greater(whole, least, out=up)
            return
        rounded = np.rint(scaled) if variant == "c" else np.floor(scaled)
        if variant == "b":
            rounded = rounded + (scaled - rounded >= self.float(0.5))
        np.greater_equal(np.add(rounded, words, dtype=np.float64), 2.0**n, out=up)

    # Aligned ----------------------------------------------------------------------------------------------------------

    def _aligned(self, u: NDArray[Any], out: NDArray[Any], words: NDArray[np.uint32] | None, n: int) -> None:
        """Add to the bits; the sign bit stays apart except for NaN, which is set afterwards."""
        plan, c, integer = self.plan, self.plan.carrier, self.int
        sh, name = plan.shift, plan.mode.name
        if sh == 0:
            np.copyto(out, u)
            return
        mask, half, shift = integer((1 << sh) - 1), integer(1 << (sh - 1)), integer(sh)
        keep = integer(((1 << c.width) - 1) ^ ((1 << sh) - 1))
        u = self._stretched(u) if plan.stretched else u
        if name == "nearest_even":
            np.right_shift(u, shift, out=out)
            np.bitwise_and(out, integer(1), out=out)
            np.add(out, u, out=out)
            np.add(out, half - integer(1), out=out)
        elif name == "nearest_away":
            np.add(u, half, out=out)
        elif name == "toward_zero":
            np.copyto(out, u)
        elif name in ("up", "down"):
            moves = (u >> integer(c.width - 1)) == integer(name == "down")
            np.add(u, mask * moves.astype(c.integer), out=out)
        elif name == "to_odd":
            inexact = (u & mask) != 0
            np.bitwise_or(u, inexact.astype(c.integer) << shift, out=out)
        else:
            assert words is not None
            fraction, up = self.rest[: u.size], self.up[: u.size]
            np.bitwise_and(u, mask, out=out)
            np.copyto(fraction, out, casting="unsafe")
            np.multiply(fraction, self.float(2.0**-sh), out=fraction)
            self._carry(fraction, words, n, up)
            np.left_shift(up, shift, out=out, dtype=c.integer, casting="unsafe")
            np.add(out, u, out=out)
        np.bitwise_and(out, keep, out=out)

    def _stretched(self, u: NDArray[Any]) -> NDArray[Any]:
        """Bits of numbers below the carrier's normal ones as if their highest binade had an exponent field of 0."""
        c, integer = self.plan.carrier, self.int
        one = integer(1 << c.mantissa)  # the smallest normal number, or a step of the exponent field
        small = np.flatnonzero(u & integer(c.sign - 1) < one)
        if small.size:
            u = u.copy()
            sign = u[small] & integer(c.sign)
            size = u[small] ^ sign
            u[small] = np.maximum(size + size, one) - one | sign
        return u

    # Ends -------------------------------------------------------------------------------------------------------------

    def _ends(self, x: NDArray[Any], out: NDArray[Any]) -> None:
        """Overflow, infinities, NaN; and what formats without zero or without a sign need."""
        plan, as_float = self.plan, self.float
        nan, infinite = np.isnan(x), np.isinf(x)
        negative = np.signbit(x)
        special = nan | infinite
        if plan.lowest > 0:
            small = ~special & (np.abs(out) < as_float(plan.lowest))
            out[small] = np.where(negative[small] & plan.signed, -plan.lowest, plan.lowest)
        if plan.signed:
            over = np.abs(out) > as_float(plan.limit)
            high, low = over & ~negative, over & negative
        else:
            high = ~negative & (out > as_float(plan.limit))
            low = negative & (x != 0 if plan.lowest > 0 else out != 0)
            out[negative] = plan.lowest
        out[high] = plan.over[0]
        out[low] = plan.over[1]
        if infinite.any():
            out[infinite & ~negative] = plan.infinite[0]
            out[infinite & negative] = plan.infinite[1]
        if nan.any():
            if plan.nan is None:
                raise NanRefused
            out[nan] = plan.nan


class NanRefused(ValueError):
    """NaN in a format without NaN; the caller knows the format's name and says it."""
