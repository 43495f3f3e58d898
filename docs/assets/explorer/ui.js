// What the three explorer pages share: elements, the state in the URL, words in the page's language, a number line.
"use strict";

const Ui = (() => {
  const SVG = "http://www.w3.org/2000/svg";

  const make = (space) => (tag, attributes = {}, ...children) => {
    const node = space ? document.createElementNS(space, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === false || value === null || value === undefined) continue;
      node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null));
    return node;
  };
  const element = make(null);
  const shape = make(SVG);

  /** The words of the page's language. */
  const words = (catalogue) => catalogue[document.documentElement.lang.slice(0, 2)] || catalogue.en;

  /** The state that the URL holds after its #. */
  const readState = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const writeState = (state) => {
    const text = new URLSearchParams(Object.entries(state).filter(([, value]) => value !== "")).toString();
    history.replaceState(null, "", `#${text}`);
  };

  /** Call back whenever a reader changes a control: at every key, or when an entry of a list is chosen. */
  const onChange = (control, callback) =>
    control.addEventListener(control.tagName === "SELECT" ? "change" : "input", () => callback(control.value));

  /** Fill a <select>; each item is a value, or [value, label]. */
  const options = (select, items) => {
    select.replaceChildren(
      ...items.map((item) => {
        const [value, label] = Array.isArray(item) ? item : [item, item];
        return element("option", { value }, label);
      }),
    );
  };

  /**
   * A number line between the outermost points. Points are {value, label, kind}; kind is a CSS class. Labels that would
   * overlap are left out, those of the kinds "now" and "exact" last.
   */
  const numberLine = (points, caption) => {
    // On a phone the line is drawn narrower instead of smaller, so that its labels stay readable.
    const width = window.innerWidth < 600 ? 360 : 640;
    const edge = width < 600 ? 40 : 60;
    const values = points.map((point) => point.value);
    const low = values.reduce((a, b) => (Exact.compare(a, b) < 0 ? a : b));
    const high = values.reduce((a, b) => (Exact.compare(a, b) > 0 ? a : b));
    const span = Exact.sub(high, low);
    const place = (value) =>
      span.n === 0n ? width / 2 : edge + (width - 2 * edge) * Exact.toNumber(Exact.div(Exact.sub(value, low), span));
    const svg = shape("svg", { viewBox: `0 0 ${width} 90`, role: "img", "aria-label": caption, class: "number-line" });
    svg.append(shape("line", { x1: 10, x2: width - 10, y1: 45, y2: 45, class: "axis" }));
    const taken = [];
    const important = (point) => Number(point.kind === "now" || point.kind === "exact");
    for (const point of [...points].sort((a, b) => important(b) - important(a))) {
      const x = place(point.value);
      const above = point.kind === "exact";
      svg.append(shape("line", { x1: x, x2: x, y1: above ? 25 : 37, y2: above ? 45 : 53, class: `tick ${point.kind}` }));
      const reach = Math.max(24, 3.6 * point.label.length);
      const free = above || taken.every(([from, to]) => x + reach < from || x - reach > to);
      if (free) {
        const at = Math.min(Math.max(x, reach), width - reach);
        svg.append(shape("text", { x: at, y: above ? 18 : 72, "text-anchor": "middle", class: point.kind }, point.label));
        if (!above) taken.push([x - reach, x + reach]);
      }
    }
    return svg;
  };

  /** Rows of a two-column table. */
  const facts = (rows) =>
    rows.filter(([, value]) => value !== null).map(([name, value]) =>
      element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value)),
    );

  const hexadecimal = (code, bits) => `0x${code.toString(16).toUpperCase().padStart(Math.ceil(bits / 4), "0")}`;

  return { element, words, readState, writeState, onChange, options, numberLine, facts, hexadecimal };
})();
