// FpSan's payload algebra, as Triton 3.8 and 3.9 compute it, in integers modulo 2^w. The rules of fpsan_tools.algebra.
"use strict";

const Payloads = (() => {
  const TYPES = {
    fp32: { bits: 32, one: 0x3f800000n, format: "FP32" },
    fp16: { bits: 16, one: 0x3c00n, format: "FP16" },
    bf16: { bits: 16, one: 0x3f80n, format: "BF16" },
    fp64: { bits: 64, one: 0x3ff0000000000000n, format: "FP64" },
    fp8e4m3fn: { bits: 8, one: 0x38n, format: "FP8_E4M3" },
    fp8e5m2: { bits: 8, one: 0x3cn, format: "FP8_E5M2" },
  };
  const VERSIONS = {
    "3.9": { multiplier: 14940041n, exponential: 0x26a29a75n, mixing: true },
    "3.8": { multiplier: 922291n, exponential: 0x236ee9bfn, mixing: false },
  };
  const TAGS = { log: 1n, log2: 3n, sqrt: 6n, rsqrt: 7n, erf: 8n, floor: 9n, ceil: 10n, sqrt_rn: 11n };

  const wrap = (x, bits) => BigInt.asUintN(bits, x);
  const signed = (x, bits) => BigInt.asIntN(bits, x);

  /** The inverse of an odd number modulo 2^bits. */
  const inverse = (a, bits) => {
    let x = a;
    for (let known = 3; known < bits; known *= 2) x = wrap(x * (2n - a * x), bits);
    return wrap(x, bits);
  };

  class Algebra {
    constructor(type, version = "3.9") {
      Object.assign(this, TYPES[type], VERSIONS[version], { type, version });
      const low = this.bits - 1;
      const one = this.one;
      this.low = low;
      this.top = 1n << BigInt(low);
      this.shift = 0;
      while (!((one >> BigInt(this.shift)) & 1n)) this.shift += 1;
      let t = wrap(one * this.multiplier, low);
      t ^= t >> BigInt(this.shift);
      this.positive = inverse(t, low);
      this.negative = wrap(-this.positive, low);
      this.back = t;
      this.unmultiplier = inverse(wrap(this.multiplier, low), low);
    }

    embed(u) {
      const y = wrap(u * this.multiplier, this.low);
      const z = y ^ (y >> BigInt(this.shift));
      const b = u & this.top ? this.negative : this.positive;
      return wrap(z * b, this.low) | (u & this.top);
    }
    unembed(p) {
      const t = p & this.top ? wrap(-this.back, this.low) : this.back;
      let y = wrap(p * t, this.low);
      for (let k = this.shift; k < this.bits; k *= 2) y ^= y >> BigInt(k);
      return wrap(y * this.unmultiplier, this.low) | (p & this.top);
    }

    add(x, y) {
      return wrap(x + y, this.bits);
    }
    sub(x, y) {
      return wrap(x - y, this.bits);
    }
    mul(x, y) {
      return wrap(x * y, this.bits);
    }
    neg(x) {
      return wrap(-x, this.bits);
    }
    fma(x, y, z) {
      return wrap(x * y + z, this.bits);
    }
    min(x, y) {
      return signed(x, this.bits) < signed(y, this.bits) ? x : y;
    }
    max(x, y) {
      return signed(x, this.bits) > signed(y, this.bits) ? x : y;
    }
    inv(x) {
      return (inverse(x | 1n, this.bits) & ~1n) | (x & 1n);
    }
    div(x, y) {
      return this.mul(x, this.inv(y));
    }
    /** Powers of 1 + 2^k, k = ceil(w/4), so that exp2(x + y) = exp2(x) exp2(y). */
    exp2(p) {
      const base = 1n + (1n << BigInt(Math.ceil(this.bits / 4)));
      let result = 1n;
      let power = base;
      for (let e = p; e; e >>= 1n) {
        if (e & 1n) result = wrap(result * power, this.bits);
        power = wrap(power * power, this.bits);
      }
      return result;
    }
    exp(p) {
      return this.exp2(this.mul(p, this.exponential));
    }
    /** (a + bi)^p with a = -3/5 and b = 4/5, which lies on the unit circle. */
    cosSin(p) {
      const fifth = inverse(5n, this.bits);
      const times = ([a, b], [c, d]) => [wrap(a * c - b * d, this.bits), wrap(a * d + b * c, this.bits)];
      let result = [1n, 0n];
      let power = [wrap(-3n * fifth, this.bits), wrap(4n * fifth, this.bits)];
      for (let e = p; e; e >>= 1n) {
        if (e & 1n) result = times(result, power);
        power = times(power, power);
      }
      return result;
    }
    cos(p) {
      return this.cosSin(p)[0];
    }
    sin(p) {
      return this.cosSin(p)[1];
    }
    /** A scrambling of its own for each function without identities: ((p m) ^ h) m. */
    tag(p, name) {
      let h = TAGS[name];
      const mask = (x) => wrap(x, 64);
      h ^= h >> 33n;
      h = mask(h * 0xff51afd7ed558ccdn);
      h ^= h >> 33n;
      h = mask(h * 0xc4ceb9fe1a85ec53n);
      h ^= h >> 33n;
      return wrap((wrap(p * 314159n, this.bits) ^ wrap(h, this.bits)) * 314159n, this.bits);
    }
    /** To another type: sign-extended up, unchanged in equal width, mixed (3.9) or truncated (3.8) down. */
    cast(p, type) {
      const to = TYPES[type].bits;
      if (to >= this.bits) return wrap(signed(p, this.bits), to);
      const low = wrap(p, to);
      if (!this.mixing) return low;
      const difference = p ^ wrap(signed(low, to), this.bits);
      let factor = 0n;
      for (let at = 0; at < this.bits; at += to) factor |= wrap(3511n, to) << BigInt(at);
      let h = wrap(difference * factor, this.bits) >> BigInt(this.bits - to);
      h ^= h >> BigInt(to / 2);
      return low ^ h;
    }
    unary(name, p) {
      return name in TAGS ? this.tag(p, name) : this[name](p);
    }
  }

  const BINARY = ["add", "sub", "mul", "div", "min", "max"];
  const UNARY = ["neg", "inv", "exp2", "exp", "cos", "sin", ...Object.keys(TAGS)];

  // Each side of an identity in x, y, z; `number` embeds a constant.
  const IDENTITIES = [
    ["(x + y) + z = x + (y + z)", (r, x, y, z) => r.add(r.add(x, y), z), (r, x, y, z) => r.add(x, r.add(y, z))],
    ["x·(y + z) = x·y + x·z", (r, x, y, z) => r.mul(x, r.add(y, z)), (r, x, y, z) => r.add(r.mul(x, y), r.mul(x, z))],
    ["(x + y)/z = x/z + y/z", (r, x, y, z) => r.div(r.add(x, y), z), (r, x, y, z) => r.add(r.div(x, z), r.div(y, z))],
    ["1/(1/x) = x", (r, x) => r.inv(r.inv(x)), (r, x) => x],
    ["x·y/y = x", (r, x, y) => r.div(r.mul(x, y), y), (r, x) => x],
    ["exp2(x + y) = exp2(x)·exp2(y)", (r, x, y) => r.exp2(r.add(x, y)), (r, x, y) => r.mul(r.exp2(x), r.exp2(y))],
    ["exp(-x) = 1/exp(x)", (r, x) => r.exp(r.neg(x)), (r, x) => r.inv(r.exp(x))],
    ["cos²(x) + sin²(x) = 1", (r, x) => r.add(r.mul(r.cos(x), r.cos(x)), r.mul(r.sin(x), r.sin(x))), () => 1n],
    ["x + x = 2·x", (r, x) => r.add(x, x), (r, x, y, z, number) => r.mul(number(2), x)],
    ["x·0.5 = x/2", (r, x, y, z, number) => r.mul(x, number(0.5)), (r, x, y, z, number) => r.div(x, number(2))],
    ["log(exp(x)) = x", (r, x) => r.tag(r.exp(x), "log"), (r, x) => x],
  ];

  return { Algebra, TYPES, VERSIONS: Object.keys(VERSIONS), BINARY, UNARY, IDENTITIES };
})();
if (typeof module !== "undefined") module.exports = Payloads;
