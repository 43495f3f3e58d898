// The summation player: terms, an order, a format; walk through every rounding.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const root = document.getElementById("explore-sum");
  if (!root) return;
  const W = Ui.words({
    en: {
      presets: {
        serial: "blocked: one serial chain of fused products",
        lanes: "strided lanes: the same products in 4 lanes",
        stagnation: "a sum that stops growing",
        cancellation: "a sum that cancels",
        kahan: "... rescued by Kahan's algorithm",
        own: "my own",
      },
      step: (i, n) => `step ${i} of ${n}`,
      start: "before the first step",
      exact: "exact",
      rounded: "rounded",
      error: "error",
      ulp: "ulp",
      none: "exact: nothing is lost",
      result: "result",
      sum: "exact sum",
      off: "error of the result",
      units: "in units of u·Σ|x|",
      kappa: "condition number κ",
      unreadable: (text) => `cannot read the term "${text}": write numbers, fractions or products such as 0.5*0.25`,
      many: "at most 400 terms",
      overflow: "the sum leaves the finite numbers of this format",
      line: "the exact value of this step between its neighbours",
      columns: ["step", "goes to", "computes", "exact", "rounded", "error / ulp"],
    },
    zh: {
      presets: {
        serial: "blocked：乘积融合的一条串行链",
        lanes: "strided lanes：同样的乘积分为 4 个累加和",
        stagnation: "不再增长的和",
        cancellation: "相互抵消的和",
        kahan: "……由 Kahan 算法挽救",
        own: "自己的",
      },
      step: (i, n) => `第 ${i} 步，共 ${n} 步`,
      start: "第一步之前",
      exact: "精确值",
      rounded: "舍入后",
      error: "误差",
      ulp: "ulp",
      none: "精确：没有丢失任何东西",
      result: "结果",
      sum: "精确的和",
      off: "结果的误差",
      units: "以 u·Σ|x| 为单位",
      kappa: "条件数 κ",
      unreadable: (text) => `无法读取“${text}”：请写数、分数或 0.5*0.25 这样的乘积`,
      many: "至多 400 项",
      overflow: "和超出了该格式的有限数",
      line: "本步的精确值及其相邻的值",
      columns: ["步", "存入", "计算", "精确值", "舍入后", "误差 / ulp"],
    },
  });
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const controls = { t: "terms", f: "format", r: "rounding", o: "order", n: "size" };
  const formats = Object.keys(Formats.BUILT_IN).filter((name) => name !== "E8M0");
  Ui.options(part("format"), formats);
  Ui.options(part("rounding"), Formats.MODES);
  Ui.options(part("order"), Summation.ORDERS);
  Ui.options(part("preset"), Object.entries(W.presets));

  const products = "0.61*0.87 -0.93*0.42 0.28*0.77 0.15*-0.66 0.94*0.53 -0.37*0.81 0.72*0.29 0.48*0.95 " +
    "-0.83*0.17 0.56*0.64 0.31*-0.98 0.89*0.12 -0.45*0.73 0.67*0.38 0.22*0.91 -0.79*0.55";
  const PRESETS = {
    serial: { t: products, f: "BF16", r: "nearest_even", o: "sequential", n: 4 },
    lanes: { t: products, f: "BF16", r: "nearest_even", o: "lanes", n: 4 },
    stagnation: { t: "250" + " 1".repeat(12), f: "BF16", r: "nearest_even", o: "sequential", n: 4 },
    cancellation: { t: "3000 0.7 0.7 0.7 -3000 0.7", f: "FP16", r: "nearest_even", o: "sequential", n: 4 },
    kahan: { t: "3000 0.7 0.7 0.7 -3000 0.7", f: "FP16", r: "nearest_even", o: "kahan", n: 4 },
  };

  const state = { ...PRESETS.serial, p: "serial", i: 1 };
  let played = { steps: [], result: Exact.ZERO };
  let terms = [];

  const load = () => {
    const given = Ui.readState();
    if (given.p in PRESETS) Object.assign(state, PRESETS[given.p], { p: given.p });
    else if (given.t) Object.assign(state, { p: "own" }, given);
    if (given.i) state.i = Number(given.i) || 0;
  };
  const save = () => {
    const { p, i, ...own } = state;
    Ui.writeState(p === "own" ? { p, ...own, i } : { p, i });
  };

  const read = (text) =>
    text.split(/[\s,;]+/).filter(Boolean).map((word) => {
      const factors = word.split("*").map(Exact.parse);
      if (factors.length > 2 || factors.some((factor) => !factor)) throw new RangeError(W.unreadable(word));
      return factors.length === 2 ? { x: factors[0], y: factors[1] } : factors[0];
    });

  const play = () => {
    const format = Formats.Format.named(state.f);
    part("status").textContent = "";
    try {
      const parsed = read(state.t);
      if (parsed.length > 400) throw new RangeError(W.many);
      // What a kernel is given are values of the format already.
      const held = (q) => {
        const decoded = format.decode(format.encode(q));
        if (decoded.kind !== "finite") throw new RangeError(W.overflow);
        return decoded.value;
      };
      terms = parsed.map((term) => (term.x ? { x: held(term.x), y: held(term.y) } : held(term)));
      const size = Math.min(Math.max(Math.trunc(Number(state.n)) || 1, 1), 64);
      played = Summation.steps(terms, format, { order: state.o, mode: state.r, lanes: size, block: size });
      if (played.result === null) part("status").textContent = W.overflow;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      part("status").textContent = error.message;
      played = { steps: [], result: null };
      terms = [];
    }
    state.i = Math.min(Math.max(state.i, 0), played.steps.length);
    showTable(format);
    show();
  };

  const inUlps = (step, format) => {
    const code = format.encode(step.exact, "toward_zero");
    return Exact.toNumber(Exact.div(step.error, format.ulp(code)));
  };

  const showTable = (format) => {
    const rows = played.steps.map((step, i) => {
      const cells = [
        String(i + 1),
        step.into,
        step.note,
        Exact.decimal(step.exact, 24),
        Exact.decimal(step.rounded, 24),
        step.error.n === 0n ? "0" : inUlps(step, format).toFixed(3),
      ];
      const row = Ui.element("tr", { "data-step": i + 1 }, ...cells.map((cell) => Ui.element("td", {}, cell)));
      row.addEventListener("click", () => {
        state.i = i + 1;
        show();
      });
      return row;
    });
    part("head").replaceChildren(Ui.element("tr", {}, ...W.columns.map((name) => Ui.element("th", { scope: "col" }, name))));
    part("steps").replaceChildren(...rows);
    const slider = part("slider");
    slider.max = played.steps.length;
  };

  const show = () => {
    const format = Formats.Format.named(state.f);
    for (const [key, name] of Object.entries(controls)) {
      const control = part(name);
      if (control !== document.activeElement) control.value = state[key];
    }
    part("preset").value = state.p;
    part("size-label").hidden = !["lanes", "blocked"].includes(state.o);
    const count = played.steps.length;
    const slider = part("slider");
    slider.value = state.i;
    slider.setAttribute("aria-valuetext", W.step(state.i, count));
    for (const [name, there] of [["first", 0], ["back", 0], ["forward", count], ["last", count]]) {
      part(name).disabled = state.i === there;
    }
    for (const row of part("steps").children) {
      const now = Number(row.dataset.step) === state.i;
      row.toggleAttribute("aria-current", now);
      row.classList.toggle("done", Number(row.dataset.step) <= state.i);
      if (now && row.offsetParent) {
        const box = part("scroll");
        box.scrollTop = row.offsetTop - box.clientHeight / 2;
      }
    }
    const step = state.i ? played.steps[state.i - 1] : null;
    part("title").textContent = step ? `${W.step(state.i, count)}: ${step.into} = ${step.note}` : W.start;
    part("now").replaceChildren(
      ...(step
        ? Ui.facts([
            [W.exact, `${Exact.decimal(step.a, 24)} + ${Exact.decimal(step.b, 24)} = ${Exact.decimal(step.exact, 24)}`],
            [W.rounded, Exact.decimal(step.rounded, 24)],
            [W.error, step.error.n === 0n ? W.none : `${Exact.decimal(step.error, 24)} (${inUlps(step, format).toFixed(3)} ${W.ulp})`],
          ])
        : []),
    );
    part("line").replaceChildren(...(step ? [line(step, format)] : []));
    part("outcome").replaceChildren(...outcome(format));
    save();
  };

  const line = (step, format) => {
    const code = format.encode(step.rounded, "nearest_even", step.rounded.n < 0n);
    const near = [format.neighbour(code, -1), format.neighbour(code, 1)].filter((c) => c !== null);
    const points = [
      { value: step.exact, label: `${W.exact} ${Exact.decimal(step.exact, 16).replace("≈ ", "")}`, kind: "exact" },
      { value: step.rounded, label: Exact.decimal(step.rounded, 16), kind: "now" },
      ...near.map((c) => ({ value: format.decode(c).value, label: format.text(c), kind: "near" })),
    ];
    return Ui.numberLine(points, W.line);
  };

  const outcome = (format) => {
    if (played.result === null || !terms.length) return [];
    const values = terms.map((term) => (term.x ? Exact.mul(term.x, term.y) : term));
    const exact = Summation.exactSum(terms);
    const magnitude = values.reduce((sum, value) => Exact.add(sum, Exact.abs(value)), Exact.ZERO);
    const error = Exact.sub(played.result, exact);
    const unit = Exact.mul(magnitude, Exact.power2(-format.mantissaBits - 1));
    const units = unit.n === 0n ? 0 : Exact.toNumber(Exact.div(Exact.abs(error), unit));
    const kappa = exact.n === 0n ? "∞" : Exact.toNumber(Exact.div(magnitude, Exact.abs(exact))).toPrecision(3);
    return Ui.facts([
      [W.result, Exact.decimal(played.result, 24)],
      [W.sum, Exact.decimal(exact, 24)],
      [W.off, `${Exact.decimal(error, 24)} (${units.toPrecision(3)} ${W.units})`],
      [W.kappa, kappa],
    ]);
  };

  const go = (i) => {
    state.i = Math.min(Math.max(i, 0), played.steps.length);
    show();
  };
  part("first").addEventListener("click", () => go(0));
  part("back").addEventListener("click", () => go(state.i - 1));
  part("forward").addEventListener("click", () => go(state.i + 1));
  part("last").addEventListener("click", () => go(played.steps.length));
  // The table of steps is walked with the arrow keys once it has the focus.
  part("scroll").addEventListener("keydown", (event) => {
    const last = played.steps.length;
    const target = { ArrowDown: state.i + 1, ArrowUp: state.i - 1, Home: Math.min(1, last), End: last }[event.key];
    if (target === undefined) return;
    go(target);
    event.preventDefault();
  });
  Ui.onChange(part("slider"), (value) => go(Number(value)));
  Ui.onChange(part("preset"), (value) => {
    state.p = value;
    if (state.p in PRESETS) Object.assign(state, PRESETS[state.p], { i: 0 });
    play();
  });
  for (const [key, name] of Object.entries(controls)) {
    Ui.onChange(part(name), (value) => {
      state[key] = value;
      state.p = "own";
      play();
    });
  }
  window.addEventListener("hashchange", () => {
    load();
    play();
  });
  load();
  play();
});
