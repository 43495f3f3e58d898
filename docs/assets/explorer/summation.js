// Sums whose every operation is rounded, as a list of steps that a reader can walk through.
"use strict";

const Summation = (() => {
  const Q = typeof Exact !== "undefined" ? Exact : require("./exact.js");

  /**
   * The steps of a sum.
   *
   * terms: exact numbers; a step of a product kernel gets pairs {x, y}, whose product enters unrounded (fused multiply-add).
   * order: "sequential", "pairwise", "kahan", "lanes" (with `lanes`) or "blocked" (with `block`).
   * Returns {steps, result}: each step has the operation, its exact value, the rounded one and where the result went.
   * A sum that leaves the finite numbers of the format stops: result is null.
   */
  const steps = (terms, format, { order = "sequential", mode = "nearest_even", lanes = 4, block = 4 } = {}) => {
    const list = [];
    const product = (term) => (term.x ? Q.mul(term.x, term.y) : term);
    const round = (exact) => {
      const decoded = format.decode(format.encode(exact, mode));
      if (decoded.kind !== "finite") throw new Overflow();
      return decoded.value;
    };
    const add = (a, b, into, note) => {
      const exact = Q.add(a, b);
      const rounded = round(exact);
      list.push({ a, b, exact, rounded, error: Q.sub(rounded, exact), into, note });
      return rounded;
    };
    const chain = (values, into, first = 0) =>
      values.reduce((sum, term, i) => add(sum, product(term), into, `${into} + x[${first + i}]`), Q.ZERO);
    const tree = (values, note) => {
      while (values.length > 1) {
        if (values.length % 2) values = [...values, Q.ZERO];
        values = values.filter((_, i) => i % 2 === 0).map((a, i) => add(a, values[2 * i + 1], `${note} ${i}`, `[${2 * i}] + [${2 * i + 1}]`));
      }
      return values.length ? values[0] : Q.ZERO;
    };
    const orders = {
      sequential: () => chain(terms, "s"),
      pairwise: () => (terms.length === 1 ? add(product(terms[0]), Q.ZERO, "s", "x[0] + 0") : tree(terms.map(product), "pair")),
      lanes: () => {
        const sums = Array.from({ length: lanes }, () => Q.ZERO);
        terms.forEach((term, i) => {
          sums[i % lanes] = add(sums[i % lanes], product(term), `lane ${i % lanes}`, `lane ${i % lanes} + x[${i}]`);
        });
        return tree(sums, "pair");
      },
      blocked: () => {
        const parts = [];
        for (let i = 0; i < terms.length; i += block) parts.push(chain(terms.slice(i, i + block), `block ${i / block}`, i));
        return parts.reduce((sum, part, i) => add(sum, part, "s", `s + block ${i}`), Q.ZERO);
      },
      kahan: () => {
        let s = Q.ZERO;
        let c = Q.ZERO;
        terms.forEach((term, i) => {
          const y = add(product(term), Q.negate(c), "y", `x[${i}] - c`);
          const t = add(s, y, "t", "s + y");
          const difference = add(t, Q.negate(s), "t - s", "t - s");
          c = add(difference, Q.negate(y), "c", "(t - s) - y");
          s = t;
        });
        return s;
      },
    };
    let result = null;
    try {
      result = orders[order]();
    } catch (error) {
      if (!(error instanceof Overflow)) throw error;
    }
    return { steps: list, result };
  };

  class Overflow extends Error {}

  const exactSum = (terms) => terms.reduce((sum, term) => Q.add(sum, term.x ? Q.mul(term.x, term.y) : term), Q.ZERO);

  return { steps, exactSum, ORDERS: ["sequential", "pairwise", "lanes", "blocked", "kahan"] };
})();
if (typeof module !== "undefined") module.exports = Summation;
