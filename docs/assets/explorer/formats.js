// Floating-point formats as facts, decoded and rounded exactly. The same facts and rules as numfmt.FloatFormat.
"use strict";

const Formats = (() => {
  const Q = typeof Exact !== "undefined" ? Exact : require("./exact.js");

  // What each kind of special values says: see numfmt's KINDS.
  const KINDS = {
    ieee: { infinities: true, nan: "top_exponent", overflow: "infinity" },
    fn: { infinities: false, nan: "highest", overflow: "nan" },
    fnuz: { infinities: false, nan: "negative_zero", overflow: "nan" },
    finite: { infinities: false, nan: "none", overflow: "saturate" },
    scale: { signed: false, zero: false, subnormals: false, infinities: false, nan: "highest", overflow: "nan" },
    p3109: { infinities: true, nan: "negative_zero", overflow: "infinity" },
  };

  // [exponent bits, mantissa bits, bias, kind]: numfmt's constants.
  const BUILT_IN = {
    FP64: [11, 52, 1023, "ieee"],
    FP32: [8, 23, 127, "ieee"],
    TF32: [8, 10, 127, "ieee"],
    FP16: [5, 10, 15, "ieee"],
    BF16: [8, 7, 127, "ieee"],
    FP8_E5M2: [5, 2, 15, "ieee"],
    FP8_E4M3: [4, 3, 7, "fn"],
    FP8_E5M2FNUZ: [5, 2, 16, "fnuz"],
    FP8_E4M3FNUZ: [4, 3, 8, "fnuz"],
    FP8_E4M3B11FNUZ: [4, 3, 11, "fnuz"],
    FP8_E4M3_IEEE: [4, 3, 7, "ieee"],
    FP8_E3M4: [3, 4, 3, "ieee"],
    FP6_E2M3: [2, 3, 1, "finite"],
    FP6_E3M2: [3, 2, 3, "finite"],
    FP4_E2M1: [2, 1, 1, "finite"],
    E8M0: [8, 0, 127, "scale"],
  };

  /** Whether a discarded part carries into the kept one: (half: -1, 0, 1 against a half; exact; odd; negative) => bool. */
  const MODES = {
    nearest_even: (half, exact, odd) => half > 0 || (half === 0 && odd),
    nearest_away: (half) => half >= 0,
    toward_zero: () => false,
    up: (half, exact, odd, negative) => !exact && !negative,
    down: (half, exact, odd, negative) => !exact && negative,
    to_odd: (half, exact, odd) => !exact && !odd,
  };
  // Modes that stop at the largest value instead of overflowing, for a sign and for whether that value's code is odd.
  const INWARDS = {
    nearest_even: () => false,
    nearest_away: () => false,
    toward_zero: () => true,
    up: (negative) => negative,
    down: (negative) => !negative,
    to_odd: (negative, odd) => odd,
  };

  class Format {
    /** `facts` overrides what the kind of special values says: {signed, subnormals}. */
    constructor(name, exponentBits, mantissaBits, bias, specials, facts = {}) {
      if (!(specials in KINDS)) throw new RangeError(`specials: ${Object.keys(KINDS).join(", ")}`);
      Object.assign(this, { name, exponentBits, mantissaBits, bias, specials });
      Object.assign(this, { signed: true, zero: true, subnormals: true }, KINDS[specials], facts);
      // Without a sign bit P3109 has its NaN at the top, as there is no -0 to put it at.
      if (specials === "p3109" && !this.signed) this.nan = "highest";
      this.check();
    }

    static named(name) {
      return new Format(name, ...BUILT_IN[name]);
    }

    check() {
      const whole = (x, low, high) => Number.isInteger(x) && x >= low && x <= high;
      if (!whole(this.exponentBits, 0, 11)) throw new RangeError("exponent bits: 0 to 11");
      if (!whole(this.mantissaBits, 0, 52)) throw new RangeError("mantissa bits: 0 to 52");
      if (!whole(this.bias, -2000, 2000)) throw new RangeError("bias: an integer from -2000 to 2000");
      if (this.nan === "top_exponent" && this.mantissaBits === 0) throw new RangeError("ieee specials need a mantissa bit");
      if (this.exponentBits === 0 && (this.infinities || !this.zero || !this.subnormals)) {
        throw new RangeError("without exponent bits there are only subnormals: specials need exponent bits");
      }
      if (this.nan === "negative_zero" && !this.signed) throw new RangeError("fnuz needs a sign bit: its NaN is at -0");
      if (this.maxCode < (this.subnormals || !this.zero ? 1n : this.leastNormal)) throw new RangeError("no finite value is left");
    }

    get bits() {
      return Number(this.signed) + this.exponentBits + this.mantissaBits;
    }
    get magnitudes() {
      return 1n << BigInt(this.exponentBits + this.mantissaBits);
    }
    get maxCode() {
      const nans = { highest: 1n, top_exponent: (1n << BigInt(this.mantissaBits)) - 1n }[this.nan] || 0n;
      return this.magnitudes - 1n - nans - (this.infinities ? 1n : 0n);
    }
    get nanCode() {
      return {
        none: null,
        negative_zero: this.magnitudes,
        highest: this.magnitudes - 1n,
        top_exponent: this.maxCode + 1n + (1n << BigInt(Math.max(this.mantissaBits - 1, 0))),
      }[this.nan];
    }
    /** The code of the smallest normal number. */
    get leastNormal() {
      return 1n << BigInt(this.mantissaBits);
    }
    /** The code of the smallest positive value. */
    get minCode() {
      return this.subnormals ? 1n : this.zero ? this.leastNormal : 0n;
    }
    get emin() {
      return (this.zero ? 1 : 0) - this.bias;
    }
    get negativeZero() {
      return this.signed && this.zero && this.nan !== "negative_zero";
    }

    /** Sign, fields and value of a code: {kind: "finite" | "infinity" | "nan", negative, field, mantissa, value}. */
    decode(code) {
      const negative = this.signed && (code & this.magnitudes) !== 0n;
      const magnitude = code & (this.magnitudes - 1n);
      const m = BigInt(this.mantissaBits);
      const fields = { negative, field: Number(magnitude >> m), mantissa: magnitude & ((1n << m) - 1n) };
      if (this.nan === "negative_zero" && code === this.magnitudes) return { kind: "nan", ...fields, value: null };
      if (magnitude > this.maxCode) {
        const kind = this.infinities && magnitude === this.maxCode + 1n ? "infinity" : "nan";
        return { kind, ...fields, value: null };
      }
      const subnormal = this.zero && fields.field === 0;
      const significand = subnormal ? (this.subnormals ? fields.mantissa : 0n) : fields.mantissa | (1n << m);
      const exponent = subnormal ? this.emin : fields.field - this.bias;
      const value = Q.mul(Q.make(significand), Q.power2(exponent - this.mantissaBits));
      return { kind: "finite", ...fields, subnormal, exponent, significand, value: negative ? Q.negate(value) : value };
    }

    /** The code of an exact number, rounded once. `negative` gives zero its sign. */
    encode(value, mode = "nearest_even", negative = value.n < 0n) {
      const sign = this.signed && negative ? this.magnitudes : 0n;
      const withSign = (magnitude) => (magnitude === 0n && !this.negativeZero ? 0n : sign | magnitude);
      if (value.n === 0n) return withSign(0n);  // without a zero, code 0 is the nearest value
      const size = Q.abs(value);
      const tiny = this.zero && !this.subnormals && Q.exponent(size) < this.emin;
      const e = tiny ? this.emin + this.mantissaBits : Math.max(Q.exponent(size), this.emin);
      const scaled = Q.div(size, Q.power2(e - this.mantissaBits));
      let kept = scaled.n / scaled.d;
      const rest = 2n * (scaled.n % scaled.d) - scaled.d;
      const half = rest > 0n ? 1 : rest < 0n ? -1 : 0;
      const m = BigInt(this.mantissaBits);
      // A tie goes to the even code, which without mantissa bits is a matter of the exponent.
      const parity = tiny ? kept : kept + (BigInt(e - this.emin) << m) - (this.zero ? 0n : 1n << m);
      if (MODES[mode](half, scaled.d === 1n, (parity & 1n) === 1n, negative)) kept += 1n;
      // Below a range without a sign is overflow too, unless the number rounds to zero.
      if (negative && !this.signed) return (kept || !this.zero) && this.overflow === "nan" && !INWARDS[mode](true, false) ? this.nanCode : 0n;
      // Nothing lies between zero and the smallest normal number.
      if (tiny) return withSign(kept * this.leastNormal);
      let magnitude = kept + (BigInt(e - this.emin) << m);
      if (!this.zero) magnitude = magnitude > 1n << m ? magnitude - (1n << m) : 0n;
      if (magnitude <= this.maxCode) return withSign(magnitude);
      if (this.overflow === "saturate" || INWARDS[mode](negative, (this.maxCode & 1n) === 1n)) return withSign(this.maxCode);
      return this.overflow === "infinity" ? sign | (this.maxCode + 1n) : this.nanCode;
    }

    /** The distance between values in the binade of a finite code. */
    ulp(code) {
      const { exponent, subnormal } = this.decode(code);
      return Q.power2(exponent - (subnormal && !this.subnormals ? 0 : this.mantissaBits));
    }

    /** The code of the next finite value above (step 1) or below (-1), or null at the end. */
    neighbour(code, step) {
      const { kind, negative, value } = this.decode(code);
      if (kind !== "finite") return null;
      const magnitude = code & (this.magnitudes - 1n);
      if (value.n === 0n && this.zero) {
        return step > 0 ? this.minCode : this.signed ? this.magnitudes | this.minCode : null;
      }
      const outward = negative ? step < 0 : step > 0;
      if (outward) return magnitude === this.maxCode ? null : code + 1n;
      if (magnitude === 0n) return null;
      return magnitude === this.minCode && this.zero ? 0n : code - 1n;
    }

    text(code) {
      const { kind, negative, value } = this.decode(code);
      if (kind === "nan") return "NaN";
      if (kind === "infinity") return negative ? "-inf" : "inf";
      return value.n === 0n && negative ? "-0" : Q.decimal(value);
    }
  }

  return { Format, BUILT_IN, KINDS, MODES: Object.keys(MODES) };
})();
if (typeof module !== "undefined") module.exports = Formats;
