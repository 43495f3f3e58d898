// Exact rational numbers: every value a format can hold, and every decimal a reader can type, without rounding.
"use strict";

const Exact = (() => {
  const gcd = (a, b) => {
    a = a < 0n ? -a : a;
    b = b < 0n ? -b : b;
    while (b) [a, b] = [b, a % b];
    return a;
  };

  /** numerator / denominator in lowest terms, the denominator positive. */
  const make = (n, d = 1n) => {
    if (d === 0n) throw new RangeError("denominator 0");
    if (d < 0n) [n, d] = [-n, -d];
    const g = gcd(n, d) || 1n;
    return { n: n / g, d: d / g };
  };

  const ZERO = make(0n);
  const add = (a, b) => make(a.n * b.d + b.n * a.d, a.d * b.d);
  const negate = (a) => ({ n: -a.n, d: a.d });
  const sub = (a, b) => add(a, negate(b));
  const mul = (a, b) => make(a.n * b.n, a.d * b.d);
  const div = (a, b) => make(a.n * b.d, a.d * b.n);
  const abs = (a) => (a.n < 0n ? negate(a) : a);
  const compare = (a, b) => {
    const difference = a.n * b.d - b.n * a.d;
    return difference < 0n ? -1 : difference > 0n ? 1 : 0;
  };
  const equal = (a, b) => a.n === b.n && a.d === b.d;
  const power2 = (e) => (e >= 0 ? make(1n << BigInt(e)) : make(1n, 1n << BigInt(-e)));
  const bitLength = (x) => (x === 0n ? 0 : x.toString(2).length);

  /** floor(log2 |a|) of a number that is not zero. */
  const exponent = (a) => {
    const n = a.n < 0n ? -a.n : a.n;
    let e = bitLength(n) - bitLength(a.d);
    // 2^e <= n/d, or one less.
    if (e >= 0 ? n < a.d << BigInt(e) : n << BigInt(-e) < a.d) e -= 1;
    return e;
  };

  /** A decimal ("-1.5e-3"), a fraction ("1/3", each side a decimal) or a power ("2^-10"); null if it is none of them. */
  const parse = (text) => {
    const trimmed = text.trim().replace(/−/g, "-");
    const parts = trimmed.split("/");
    if (parts.length === 2) {
      const [a, b] = parts.map(parse);
      return a && b && b.n !== 0n ? div(a, b) : null;
    }
    const power = /^([+-]?)2\^\(?([+-]?\d{1,4})\)?$/.exec(trimmed);
    if (power) {
      const value = power2(Number(power[2]));
      return power[1] === "-" ? negate(value) : value;
    }
    const match = /^([+-]?)(\d*)\.?(\d*)(?:e([+-]?\d{1,4}))?$/i.exec(trimmed);
    if (!match || !(match[2] || match[3])) return null;
    const digits = BigInt(match[2] + match[3]);
    const shift = Number(match[4] || 0) - match[3].length;
    const value = shift >= 0 ? make(digits * 10n ** BigInt(shift)) : make(digits, 10n ** BigInt(-shift));
    return match[1] === "-" ? negate(value) : value;
  };

  /** The exact value of a finite IEEE double. */
  const fromNumber = (x) => {
    const view = new DataView(new ArrayBuffer(8));
    view.setFloat64(0, x);
    const bits = view.getBigUint64(0);
    const field = Number((bits >> 52n) & 0x7ffn);
    const fraction = bits & ((1n << 52n) - 1n);
    const significand = field ? fraction | (1n << 52n) : fraction;
    const value = mul(make(significand), power2(Math.max(field, 1) - 1075));
    return bits >> 63n ? negate(value) : value;
  };

  /** The nearest double, for drawing. */
  const toNumber = (a) => {
    if (a.n === 0n) return 0;
    const e = exponent(a);
    const scaled = mul(abs(a), power2(60 - e));
    return (a.n < 0n ? -1 : 1) * Number(scaled.n / scaled.d) * 2 ** Math.max(e - 60, -1000) * 2 ** Math.min(0, e + 940);
  };

  const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const superscript = (k) =>
    String(k)
      .split("")
      .map((c) => (c === "-" ? "⁻" : SUPERSCRIPTS[Number(c)]))
      .join("");

  /** As a fraction; a large power of two below the line is written as one. */
  const fraction = (a) => {
    if (a.d === 1n) return a.n.toString();
    const power = (a.d & (a.d - 1n)) === 0n && a.d > 1024n;
    return `${a.n}/${power ? "2^" + (bitLength(a.d) - 1) : a.d}`;
  };

  /** Every decimal digit if there are at most `limit`, else about 17 of them after an ≈ sign. */
  const decimal = (a, limit = 40) => {
    const sign = a.n < 0n ? "-" : "";
    const n = a.n < 0n ? -a.n : a.n;
    const twos = bitLength(a.d) - 1;
    const dyadic = a.d === 1n << BigInt(twos);
    const whole = n / a.d;
    if (dyadic && whole.toString().length + twos <= limit) {
      if (twos === 0) return sign + whole;
      const digits = ((n % a.d) * 10n ** BigInt(twos)) / a.d;
      return `${sign}${whole}.${digits.toString().padStart(twos, "0")}`.replace(/\.?0+$/, "");
    }
    // d.ddd * 10^p with 17 digits, rounded half up.
    let p = Math.floor((bitLength(n) - bitLength(a.d)) * Math.log10(2));
    const scale = (k) => (k >= 0 ? [n, a.d * 10n ** BigInt(k)] : [n * 10n ** BigInt(-k), a.d]);
    for (let [x, y] = scale(p); x >= y * 10n; [x, y] = scale(p)) p += 1;
    for (let [x, y] = scale(p); x < y; [x, y] = scale(p)) p -= 1;
    const [x, y] = scale(p - 16);
    let digits = ((2n * x + y) / (2n * y)).toString();
    if (digits.length > 17) p += 1;
    digits = digits.slice(0, 17).replace(/0+$/, "");
    const exact = equal(a, parse(`${sign}${digits}e${p - digits.length + 1}`)) ? "" : "≈ ";
    if (p >= -5 && p < 17) {
      const padded = p < 0 ? "0".repeat(-p) + digits : digits.padEnd(p + 1, "0");
      const point = p < 0 ? 1 : p + 1;
      const after = padded.slice(point);
      return `${exact}${sign}${padded.slice(0, point)}${after ? "." + after : ""}`;
    }
    return `${exact}${sign}${digits[0]}${digits.length > 1 ? "." + digits.slice(1) : ""}e${p}`;
  };

  return { make, ZERO, add, sub, mul, div, abs, negate, compare, equal, power2, exponent, parse, fromNumber, toNumber, fraction, decimal, superscript, bitLength };
})();
if (typeof module !== "undefined") module.exports = Exact;
