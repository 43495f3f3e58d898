// The format explorer: toggle bits, type a number in any of three notations, walk to the neighbours.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const root = document.getElementById("explore-format");
  if (!root) return;
  const W = Ui.words({
    en: {
      custom: "custom",
      sign: "sign",
      exponent: "exponent",
      mantissa: "mantissa",
      bit: "bit",
      normal: "normal number",
      subnormal: "subnormal number",
      zero: "zero",
      infinity: "infinity",
      nan: "NaN: not a number",
      kind: "kind",
      field: "exponent field",
      scale: "exponent",
      significand: "significand",
      value: "value",
      ulp: "ulp",
      largest: "largest value",
      smallest: "smallest positive value",
      codes: "codes",
      line: "neighbouring values",
      invalid: "not a number that can be read",
      code: "not a code of this format",
      rounded: (given, error) => `${given} is not a value of this format; the nearest is shown, ${error} ulp away`,
      exact: (given) => `${given} is a value of this format`,
      bias: "bias",
    },
    zh: {
      custom: "自定义",
      sign: "符号",
      exponent: "指数",
      mantissa: "尾数",
      bit: "位",
      normal: "正规数",
      subnormal: "次正规数",
      zero: "零",
      infinity: "无穷",
      nan: "NaN：不是数",
      kind: "种类",
      field: "指数字段",
      scale: "指数",
      significand: "有效数",
      value: "值",
      ulp: "ulp",
      largest: "最大值",
      smallest: "最小正值",
      codes: "编码个数",
      line: "相邻的值",
      invalid: "无法读作数",
      code: "不是该格式的编码",
      rounded: (given, error) => `${given} 不是该格式的值；显示的是最近的值，相差 ${error} ulp`,
      exact: (given) => `${given} 是该格式的值`,
      bias: "偏置",
    },
  });
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const select = part("format");
  const custom = { e: part("exponent-bits"), m: part("mantissa-bits"), b: part("bias"), s: part("specials") };
  const switches = { signed: part("signed"), subnormals: part("subnormals") };
  const inputs = { hex: part("hex"), decimal: part("decimal"), fraction: part("fraction") };

  Ui.options(select, [...Object.keys(Formats.BUILT_IN), ["custom", W.custom]]);
  Ui.options(custom.s, Object.keys(Formats.KINDS));

  // `wanted` is the number that was asked for, which a format may only hold rounded; another format starts from it again.
  const state = { format: Formats.Format.named("FP8_E4M3"), code: 0x3cn, wanted: null };

  const load = () => {
    const given = Ui.readState();
    try {
      if (given.f === "custom") {
        const facts = { ...(given.u ? { signed: false } : {}), ...(given.n ? { subnormals: false } : {}) };
        state.format = new Formats.Format("custom", Number(given.e), Number(given.m), Number(given.b), given.s, facts);
      } else if (given.f in Formats.BUILT_IN) {
        state.format = Formats.Format.named(given.f);
      }
      if (/^[0-9a-f]{1,16}$/i.test(given.c || "")) state.code = BigInt(`0x${given.c}`);
    } catch (error) {
      part("status").textContent = error.message;
    }
    state.code &= (1n << BigInt(state.format.bits)) - 1n;
    state.wanted = state.format.decode(state.code).value;
  };

  const save = () => {
    const f = state.format;
    const flags = { u: f.signed ? "" : "1", n: f.subnormals ? "" : "1" };
    const facts = f.name === "custom" ? { e: f.exponentBits, m: f.mantissaBits, b: f.bias, s: f.specials, ...flags } : {};
    Ui.writeState({ f: f.name, ...facts, c: state.code.toString(16) });
  };

  const show = (message = "", except = null) => {
    const { format, code } = state;
    const decoded = format.decode(code);
    select.value = format.name in Formats.BUILT_IN ? format.name : "custom";
    for (const [key, value] of Object.entries({ e: format.exponentBits, m: format.mantissaBits, b: format.bias, s: format.specials })) {
      if (custom[key] !== except) custom[key].value = value;
    }
    for (const [name, box] of Object.entries(switches)) {
      box.checked = format[name];
      box.disabled = name in Formats.KINDS[format.specials];
    }
    const texts = {
      hex: Ui.hexadecimal(code, format.bits),
      decimal: format.text(code),
      fraction: decoded.kind === "finite" ? Exact.fraction(decoded.value) : format.text(code),
    };
    for (const [name, input] of Object.entries(inputs)) {
      if (input !== except) input.value = texts[name];
      input.removeAttribute("aria-invalid");
    }
    showBits(format, code);
    const subnormal = decoded.kind === "finite" && decoded.subnormal;
    const kind = decoded.kind !== "finite" ? W[decoded.kind] : decoded.value.n === 0n ? W.zero : subnormal ? W.subnormal : W.normal;
    const finite = decoded.kind === "finite";
    part("facts").replaceChildren(
      ...Ui.facts([
        [W.kind, kind],
        [W.field, String(decoded.field)],
        [W.scale, finite ? `${decoded.exponent}${subnormal ? "" : ` = ${decoded.field} - ${format.bias}`}` : null],
        [W.significand, finite ? Exact.decimal(Exact.mul(Exact.make(decoded.significand), Exact.power2(-format.mantissaBits))) : null],
        [W.value, finite ? `${Exact.decimal(decoded.value)} = ${Exact.fraction(decoded.value)}` : format.text(code)],
        [W.ulp, finite ? Exact.decimal(format.ulp(code)) : null],
        [W.largest, format.text(format.maxCode)],
        [W.smallest, format.text(format.minCode)],
        [W.codes, `2${Exact.superscript(format.bits)}`],
      ]),
    );
    showLine(format, code, finite);
    part("status").textContent = message;
    part("previous").disabled = !finite || format.neighbour(code, -1) === null;
    part("next").disabled = !finite || format.neighbour(code, 1) === null;
    save();
  };

  /** A code chosen as such: what it holds is what is wanted. */
  const set = (code, except = null) => {
    state.code = code;
    state.wanted = state.format.decode(code).value;
    show("", except);
  };

  const showBits = (format, code) => {
    const bits = format.bits;
    const role = (i) =>
      format.signed && i === bits - 1 ? "sign" : i >= format.mantissaBits ? "exponent" : "mantissa";
    const holder = part("bits");
    const shape = `${format.name} ${format.exponentBits} ${format.signed}`;
    if (holder.childElementCount !== bits || holder.dataset.format !== shape) {
      holder.dataset.format = shape;
      holder.replaceChildren(
        ...Array.from({ length: bits }, (_, k) => {
          const i = bits - 1 - k;
          const button = Ui.element("button", { type: "button", class: `bit ${role(i)}`, "data-bit": i });
          button.addEventListener("click", () => {
            set(state.code ^ (1n << BigInt(i)));
          });
          return button;
        }),
      );
    }
    for (const button of holder.children) {
      const i = Number(button.dataset.bit);
      const on = (code >> BigInt(i)) & 1n;
      button.textContent = on ? "1" : "0";
      button.setAttribute("aria-pressed", on ? "true" : "false");
      button.setAttribute("aria-label", `${W[role(i)]}, ${W.bit} ${i}`);
    }
  };

  // Arrow keys walk along the bits, as along the letters of a word.
  part("bits").addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const buttons = [...part("bits").children];
    const at = buttons.indexOf(document.activeElement);
    if (step && buttons[at + step]) {
      buttons[at + step].focus();
      event.preventDefault();
    }
  });

  const showLine = (format, code, finite) => {
    const holder = part("line");
    if (!finite) {
      holder.replaceChildren();
      return;
    }
    const codes = [code];
    for (const step of [-1, 1]) {
      let at = code;
      for (let i = 0; i < 3; i++) {
        at = format.neighbour(at, step);
        if (at === null) break;
        codes.push(at);
      }
    }
    const points = codes.map((c) => ({
      value: format.decode(c).value,
      label: format.text(c).replace("≈ ", ""),
      kind: c === code ? "now" : "near",
    }));
    holder.replaceChildren(Ui.numberLine(points, W.line));
  };

  const typed = (input, exact) => {
    const { format } = state;
    const text = input.value.trim();
    const special = { nan: format.nanCode, inf: format.infinities ? format.maxCode + 1n : null }[text.toLowerCase().replace(/^[+-]/, "")];
    if (special !== undefined && special !== null) {
      set(special | (text.startsWith("-") && format.signed ? format.magnitudes : 0n), input);
      return;
    }
    const value = Exact.parse(text);
    let code = null;
    try {
      if (value) code = format.encode(value, "nearest_even", text.startsWith("-") || text.startsWith("−"));
    } catch (error) {
      part("status").textContent = error.message;
    }
    if (code === null) {
      input.setAttribute("aria-invalid", "true");
      if (!value) part("status").textContent = W.invalid;
      return;
    }
    state.code = code;
    state.wanted = value;
    const decoded = format.decode(code);
    let message = "";
    if (decoded.kind === "finite") {
      const off = Exact.sub(decoded.value, value);
      const ulps = Exact.toNumber(Exact.div(Exact.abs(off), format.ulp(code)));
      message = off.n === 0n ? W.exact(text) : W.rounded(text, ulps.toPrecision(3));
    }
    show(message, input);
  };
  Ui.onChange(inputs.decimal, () => typed(inputs.decimal));
  Ui.onChange(inputs.fraction, () => typed(inputs.fraction));
  Ui.onChange(inputs.hex, () => {
    const match = /^(?:0x)?([0-9a-f]{1,16})$/i.exec(inputs.hex.value.trim());
    const code = match ? BigInt(`0x${match[1]}`) : null;
    if (code === null || code >> BigInt(state.format.bits)) {
      inputs.hex.setAttribute("aria-invalid", "true");
      part("status").textContent = W.code;
      return;
    }
    set(code, inputs.hex);
  });
  for (const input of Object.values(inputs)) input.addEventListener("change", () => show(part("status").textContent));

  /** Another format shows the same value, if it can, and the nearest one if it cannot. */
  const change = (format, except = null) => {
    const before = state.format.decode(state.code);
    const wanted = state.wanted || before.value;
    state.format = format;
    state.code = 0n;
    if (wanted) {
      try {
        state.code = format.encode(wanted, "nearest_even", before.negative);
      } catch {
        state.code = 0n;
      }
    } else if (before.kind === "nan" && format.nanCode !== null) {
      state.code = format.nanCode;
    }
    state.wanted = wanted;
    show("", except);
  };
  Ui.onChange(select, (value) => {
    if (value === "custom") {
      const f = state.format;
      const facts = { signed: f.signed, subnormals: f.subnormals };
      change(new Formats.Format("custom", f.exponentBits, f.mantissaBits, f.bias, f.specials, facts));
    } else {
      change(Formats.Format.named(value));
    }
  });
  for (const control of [...Object.values(custom), ...Object.values(switches)]) {
    Ui.onChange(control, () => {
      try {
        // A switch that the kind of specials decides has nothing to say, nor one that another kind decided before.
        const free = Object.entries(switches).filter(([, box]) => !box.disabled);
        const facts = custom.s.value in Formats.KINDS && !("signed" in Formats.KINDS[custom.s.value])
          ? Object.fromEntries(free.map(([name, box]) => [name, box.checked]))
          : {};
        const [e, m, b] = [custom.e, custom.m, custom.b].map((c) => (c.value.trim() === "" ? NaN : Number(c.value)));
        change(new Formats.Format("custom", e, m, b, custom.s.value, facts), control);
      } catch (error) {
        part("status").textContent = error.message;
      }
    });
  }
  for (const [name, step] of [["previous", -1], ["next", 1]]) {
    part(name).addEventListener("click", () => {
      set(state.format.neighbour(state.code, step) ?? state.code);
    });
  }
  window.addEventListener("hashchange", () => {
    load();
    show();
  });
  load();
  show();
});
