"use strict";
// All grids of a page side by side, as colored cells, and what the chosen cell is made of. `tools` writes numbers and makes elements;
// `chosen` is called with the selection whose cell was chosen.
function heatmaps(data, tools, chosen) {
  const { element, exact, short, withUnit, at } = tools;
  const holder = document.getElementById("heat");
  const distinct = (index) => [...new Set(data.points.map((point) => point[index]))].sort((a, b) => a - b);
  const [xs, ys] = [distinct(at.x), distinct(at.y)];
  const keyOf = (selection, x, y) => [...selection, x, y].join(" ");
  const byPlace = new Map(data.points.map((point, index) => [keyOf(point.slice(0, at.x), point[at.x], point[at.y]), index]));
  const lined = new Set(data.lined);
  const refused = new Map(data.refused.map((point, index) => [point, data.reasons[index]]));
  const cells = [];
  let current = null;
  let metric = 0;

  const named = (selection) => selection.map((option, i) => `${data.selectors[i].label} = ${data.selectors[i].options[option]}`);
  const place = (x, y) =>
    `${data.x.label} = ${withUnit(exact(x), data.x.unit)}, ${data.y.label} = ${withUnit(exact(y), data.y.unit)}`;
  const valueText = (point, index) => withUnit(short(point[at.value + index], data.metrics[index]), data.metrics[index].unit);

  function describe(cell) {
    if (cell.point === undefined) return "not asked for";
    const point = data.points[cell.point];
    if (point[at.value + metric] === null) return refused.has(cell.point) ? "refused" : "not measured";
    return `${data.metrics[metric].label} = ${valueText(point, metric)}`;
  }

  // The first selector distinguishes grids of a row, the others tell rows apart.
  function rowsOfGrids() {
    const rest = data.selectors.slice(1).reduce(
      (all, selector) => all.flatMap((chosen) => selector.options.map((_, option) => [...chosen, option])), [[]]);
    const first = data.selectors.length > 0 ? data.selectors[0].options.map((_, option) => [option]) : [[]];
    return rest.map((others) => first.map((one) => [...one, ...others]));
  }

  function grid(selection) {
    const [showX, showLess, showY] = [labeled(xs.length, 4), labeled(xs.length, 2), labeled(ys.length, 8)];
    const label = (role, text, className) => element("span", { role, className, textContent: text });
    const table = element("div", { className: "cells", role: "grid", tabIndex: -1 });
    table.setAttribute("aria-label", named(selection).join(", ") || data.metrics[0].label);
    table.style.setProperty("--columns", xs.length);
    const own = ys.map((y) => xs.map((x) => {
      const box = element("span", { role: "gridcell", tabIndex: -1 });
      const cell = { box, selection, x, y, point: byPlace.get(keyOf(selection, x, y)) };
      cells.push(cell);
      box.addEventListener("click", () => choose(cell));
      box.addEventListener("pointerenter", () => { box.title = `${place(x, y)}: ${describe(cell)}`; });
      return cell;
    }));
    ys.forEach((_, fromTop) => {
      const j = ys.length - 1 - fromTop;
      const row = element("div", { role: "row" },
        label("rowheader", exact(ys[j]), showY(j) ? "" : "unshown"), ...own[j].map((cell) => cell.box));
      table.append(row);
    });
    const heads = xs.map((x, i) => label("columnheader", exact(x), showLess(i) ? "" : showX(i) ? "sparse" : "unshown"));
    table.append(element("div", { role: "row", className: "heads" }, label("columnheader", `${data.y.label} \\ ${data.x.label}`, "unshown"), ...heads));
    // One cell takes part in the order of the tabulator, the arrows move among the others.
    if (own.length > 0) own[0][0].box.tabIndex = 0;
    table.addEventListener("keydown", (event) => move(event, own));
    const caption = element("figcaption", { textContent: data.selectors.length > 0 ? named(selection)[0] : "" });
    // What a reader of the grid by its roles has in the headings.
    const title = (className, axis) => {
      const made = element("span", { className, textContent: withUnit(axis.label, axis.unit && `(${axis.unit})`) });
      made.setAttribute("aria-hidden", "true");
      return made;
    };
    return element("figure", { className: "grid" }, caption, title("axis upwards", data.y), table, title("axis", data.x));
  }

  function move(event, own) {
    const j = own.findIndex((row) => row.some((cell) => cell.box === event.target));
    if (j < 0) return;
    const i = own[j].findIndex((cell) => cell.box === event.target);
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose(own[j][i]);
      return;
    }
    const [right, up] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key] ?? [0, 0];
    const next = own[j + up]?.[i + right];
    if (!(right || up) || !next) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    next.box.tabIndex = 0;
    next.box.focus();
  }

  function build() {
    for (const row of rowsOfGrids()) {
      const name = named(row[0]).slice(1).join(", ");
      if (name) holder.append(element("h3", { textContent: name }));
      holder.append(element("div", { className: "grids" }, ...row.map(grid)));
    }
  }

  function drawLegend(scale) {
    const { label, unit } = data.metrics[metric];
    const swatch = (color, index) => {
      const box = element("span", { className: "swatch" });
      box.style.background = color;
      const bound = scale.bounds[index - 1];
      if (bound) box.append(element("span", { className: "bound", textContent: bound[1] }));
      return box;
    };
    const parts = [element("span", { textContent: unit ? `${label} (${unit})` : label }),
      element("span", { className: "swatches" }, ...scale.colors.map(swatch))];
    const said = (className, text) => element("span", { className: "said" }, element("span", { className: `swatch ${className}` }), text);
    for (const [className, text] of [["missing", "not measured"], ["refused", "refused"]]) {
      if (cells.some((cell) => describe(cell) === text)) parts.push(said(className, text));
    }
    if (data.metrics[metric].lines && lined.size > 0) parts.push(said("line", data.lines));
    document.getElementById("legend").replaceChildren(...parts);
  }

  function drawNote() {
    const asked = cells.filter((cell) => cell.point !== undefined);
    const number = (text) => asked.filter((cell) => describe(cell) === text).length;
    const [missing, crossed] = [number("not measured"), number("refused")];
    const count = (number) => number.toLocaleString("en-US");
    const said = (number, what) => (number > 0 ? [`${count(number)} of ${count(asked.length)} values ${what}.`] : []);
    document.getElementById("heat-note").textContent =
      [...said(missing, "missing (hatched)"), ...said(crossed, "refused (crossed)")].join(" ");
  }

  function update(index, scale) {
    metric = index;
    for (const cell of cells) {
      const value = cell.point === undefined ? null : data.points[cell.point][at.value + metric];
      const state = cell.point === undefined ? "unasked" : value !== null ? "" : refused.has(cell.point) ? "refused" : "missing";
      const above = data.metrics[metric].lines && lined.has(cell.point) && cell.y !== ys[ys.length - 1];
      cell.box.className = above ? `${state} lined`.trim() : state;
      cell.box.style.background = value === null ? "" : scale.colors[scale.classOf(value)];
      cell.box.setAttribute("aria-label", describe(cell));
      cell.box.setAttribute("aria-selected", cell === current);
    }
    drawLegend(scale);
    drawNote();
  }

  // Counts are exact: those beyond 2^53 come as text.
  const whole = (count) => BigInt(count);
  const grouped = (count) => count.toLocaleString("en-US");
  const per = (part, all) => (all === 0n ? "-" : `${(Number((part * 1000000n) / all) / 10000).toLocaleString("en-US", { maximumFractionDigits: 2, minimumFractionDigits: 2 })}%`);

  function account(steps) {
    const lines = steps.map(([cause, label, detail, times, amount]) => ({
      cause: data.causes[cause], label: data.labels[label], detail: data.details[detail], times, amount: whole(amount), expected: cause < data.expected,
    }));
    const expected = lines.filter((line) => line.expected).reduce((sum, line) => sum + line.amount, 0n);
    const total = lines.reduce((sum, line) => sum + line.amount, 0n);
    let reached = 0n;
    const most = lines.map((line) => (reached += line.amount)).reduce((a, b) => (a > b ? a : b), 1n);
    const part = (amount) => Number((amount * 100000n) / most) / 1000;
    const cell = (text, className = "") => element("td", { textContent: text, className });
    let from = 0n;
    const rows = lines.map((line) => {
      const to = from + line.amount;
      const [left, right] = from < to ? [from, to] : [to, from];
      const bar = element("span", { className: line.expected ? "bar expected" : "bar" });
      bar.style.marginLeft = `${part(left)}%`;
      bar.style.width = `${part(right - left)}%`;
      from = to;
      const sign = !line.expected && line.amount > 0n ? "+" : "";
      return element("tr", {}, element("th", { scope: "row", textContent: line.cause }), cell(line.label), cell(line.detail),
        cell(line.times > 0 ? grouped(line.times) : "", "n"), cell(sign + grouped(line.amount), "n"), cell(sign + per(line.amount, expected), "n"),
        element("td", { className: "bars" }, bar));
    });
    const last = element("tr", { className: "total" }, element("th", { scope: "row", textContent: data.total.label }), cell(""), cell(""), cell(""),
      cell(grouped(total), "n"), cell(per(total, expected), "n"), cell(""));
    const heads = ["", "kernel", "tile", "launches", data.total.unit, "of theory", ""].map((text, i) =>
      (text ? element("th", { scope: "col", textContent: text, className: i > 2 ? "n" : "" }) : element("td")));
    return element("table", { className: "account" }, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows, last));
  }

  function show(cell) {
    current?.box.setAttribute("aria-selected", "false");
    current = cell;
    cell.box.setAttribute("aria-selected", "true");
    const parts = [element("h3", { textContent: [...named(cell.selection), place(cell.x, cell.y)].join(", ") })];
    const point = data.points[cell.point];
    if (!point || point.slice(at.value).every((value) => value === null)) {
      const reason = refused.get(cell.point);
      const text = reason === undefined ? "Not measured." : `Refused: ${reason}`;
      parts.push(element("p", { className: "note", textContent: point ? text : "Not asked for." }));
    } else {
      const values = data.metrics.map(({ label }, index) => (point[at.value + index] === null ? null : `${label} = ${valueText(point, index)}`));
      parts.push(element("p", { className: "note", textContent: values.filter(Boolean).join(" · ") }));
      const steps = data.steps[cell.point];
      if (data.total && steps.length > 0) {
        const scroll = element("div", { className: "scroll", role: "region", tabIndex: 0 }, account(steps));
        scroll.setAttribute("aria-label", "Kernels of the chosen cell");
        parts.push(scroll);
      }
    }
    document.getElementById("cell").replaceChildren(...parts);
  }

  function choose(cell) {
    show(cell);
    chosen(cell.selection);
  }

  // At first the largest value is shown: it is what a reader asks about.
  function showLargest() {
    const value = (cell) => (cell.point === undefined ? null : data.points[cell.point][at.value + metric]);
    const measured = cells.filter((cell) => value(cell) !== null);
    if (measured.length > 0) show(measured.reduce((a, b) => (value(b) > value(a) ? b : a)));
  }

  build();
  return { update, showLargest };
}
