// The payload calculator: embed numbers, operate on payloads, read the result back, and see which identities hold.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const root = document.getElementById("explore-payload");
  if (!root) return;
  const W = Ui.words({
    en: {
      bits: "bits",
      payload: "payload",
      result: "result",
      reads: "read back as a number",
      float: "the same in floats",
      holds: "holds",
      fails: "differs",
      invalid: "write a number, a fraction, inf, nan, or bits such as 0x3F800000",
      columns: ["here", "identity", "left side", "right side"],
      odd: "odd",
      even: "even",
    },
    zh: {
      bits: "位",
      payload: "载荷",
      result: "结果",
      reads: "读回为数",
      float: "用浮点计算",
      holds: "成立",
      fails: "不同",
      invalid: "请写数、分数、inf、nan，或 0x3F800000 这样的位",
      columns: ["此处", "恒等式", "左边", "右边"],
      odd: "奇数",
      even: "偶数",
    },
  });
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const state = { type: "fp32", version: "3.9", op: "add", x: "0.1", y: "0.2", z: "3" };
  const OPERATIONS = {
    ...Object.fromEntries(Payloads.BINARY.map((op) => [op, (r, x, y) => r[op](x, y)])),
    fma: (r, x, y, z) => r.fma(x, y, z),
    ...Object.fromEntries(Payloads.UNARY.map((op) => [op, (r, x) => r.unary(op, x)])),
    ...Object.fromEntries(Object.keys(Payloads.TYPES).map((type) => [`to ${type}`, (r, x) => r.cast(x, type)])),
  };
  const WRITTEN = { add: "x + y", sub: "x - y", mul: "x·y", div: "x/y", min: "min(x, y)", max: "max(x, y)", fma: "x·y + z", neg: "-x", inv: "1/x" };
  const written = (op) => WRITTEN[op] || (op.startsWith("to ") ? `x → ${op.slice(3)}` : `${op}(x)`);
  Ui.options(part("type"), Object.keys(Payloads.TYPES));
  Ui.options(part("version"), Payloads.VERSIONS.map((v) => [v, `Triton ${v}`]));
  Ui.options(part("op"), Object.keys(OPERATIONS).map((op) => [op, written(op)]));

  const load = () => {
    const given = Ui.readState();
    for (const key of Object.keys(state)) if (key in given) state[key] = given[key];
    if (!(state.type in Payloads.TYPES)) state.type = "fp32";
    if (!Payloads.VERSIONS.includes(state.version)) state.version = "3.9";
    if (!(state.op in OPERATIONS)) state.op = "add";
  };

  /** The bit pattern that a text means in a format, or null. */
  const read = (text, format) => {
    const trimmed = text.trim();
    const bits = /^0x([0-9a-f]{1,16})$/i.exec(trimmed);
    if (bits) {
      const code = BigInt(`0x${bits[1]}`);
      return code >> BigInt(format.bits) ? null : code;
    }
    const negative = /^[-−]/.test(trimmed);
    const sign = negative ? format.magnitudes : 0n;
    const special = trimmed.replace(/^[+−-]/, "").toLowerCase();
    if (special === "nan") return format.nanCode;
    if (special === "inf") return format.infinities ? sign | (format.maxCode + 1n) : null;
    const value = Exact.parse(trimmed);
    return value ? format.encode(value, "nearest_even", negative) : null;
  };

  const show = () => {
    const rules = new Payloads.Algebra(state.type, state.version);
    const format = Formats.Format.named(rules.format);
    const hex = (code, bits = rules.bits) => Ui.hexadecimal(code, bits);
    part("type").value = state.type;
    part("version").value = state.version;
    part("op").value = state.op;
    const payloads = {};
    let sound = true;
    for (const name of ["x", "y", "z"]) {
      const input = part(name);
      if (input !== document.activeElement) input.value = state[name];
      const code = read(state[name], format);
      input.toggleAttribute("aria-invalid", code === null);
      const row = part(`${name}-shown`);
      if (code === null) {
        row.textContent = W.invalid;
        sound = false;
      } else {
        payloads[name] = rules.embed(code);
        const parity = payloads[name] & 1n ? W.odd : W.even;
        row.textContent = `${format.text(code)} · ${W.bits} ${hex(code)} · ${W.payload} ${hex(payloads[name])} (${parity})`;
      }
    }
    part("results").replaceChildren();
    part("identities").replaceChildren();
    if (sound) {
      const { x, y, z } = payloads;
      const result = OPERATIONS[state.op](rules, x, y, z);
      const kind = state.op.startsWith("to ") ? state.op.slice(3) : state.type;
      const target = new Payloads.Algebra(kind, state.version);
      const back = target.unembed(result);
      const shown = Formats.Format.named(target.format);
      part("results").replaceChildren(
        ...Ui.facts([
          [`${W.payload}: ${written(state.op)}`, hex(result, target.bits)],
          [W.reads, `${shown.text(back)} · ${W.bits} ${hex(back, target.bits)}`],
        ]),
      );
      const number = (value) => rules.embed(format.encode(Exact.fromNumber(value)));
      part("identities").replaceChildren(
        ...Payloads.IDENTITIES.map(([text, left, right]) => {
          const [a, b] = [left, right].map((side) => side(rules, x, y, z, number));
          const verdict = a === b ? `✓ ${W.holds}` : `✗ ${W.fails}`;
          const cells = [verdict, text, hex(a), hex(b)].map((cell) => Ui.element("td", {}, cell));
          return Ui.element("tr", { class: a === b ? "holds" : "fails" }, ...cells);
        }),
      );
    }
    part("identities-head").replaceChildren(
      Ui.element("tr", {}, ...W.columns.map((name) => Ui.element("th", { scope: "col" }, name))),
    );
    Ui.writeState(state);
  };

  for (const key of Object.keys(state)) {
    Ui.onChange(part(key), (value) => {
      state[key] = value;
      show();
    });
  }
  window.addEventListener("hashchange", () => {
    load();
    show();
  });
  load();
  show();
});
