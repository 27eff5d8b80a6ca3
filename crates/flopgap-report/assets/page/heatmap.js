"use strict";
// What the cells of the drawn grids show, and what the chosen cell is made of. `tools` says what points are; `chosen` is called with the
// grid whose cell was chosen.
function heatmaps(data, tools, chosen) {
  const { element, named, place, valueText } = tools;
  const holder = document.getElementById("heat");
  const figures = holder.querySelectorAll(".grid");
  const cells = [];
  let current = null;
  let metric = 0;

  function describe(cell) {
    if (cell.point === null) return "not asked for";
    if (data.metrics[metric].texts[cell.point] === null) return data.refused[cell.point] === null ? "not measured" : "refused";
    return `${data.metrics[metric].label} = ${valueText(cell.point, metric)}`;
  }

  data.grids.forEach((grid, index) => {
    // From the lowest row on, as the data are.
    const own = [...figures[index].querySelectorAll("[role=row]")].reverse().map((row, y) => [...row.children].map((box, x) => {
      const cell = { box, grid, x, y, point: grid.cells[y * row.children.length + x] };
      const title = box.appendChild(document.createElementNS(box.namespaceURI, "title"));
      box.setAttribute("role", "gridcell");
      box.tabIndex = -1;
      box.addEventListener("click", () => choose(cell));
      box.addEventListener("pointerenter", () => { title.textContent = `${place(cell)}: ${describe(cell)}`; });
      cells.push(cell);
      return cell;
    }));
    // One cell takes part in the order of the tabulator, the arrows move among the others.
    own[0][0].box.tabIndex = 0;
    figures[index].addEventListener("keydown", (event) => move(event, own));
  });

  function move(event, own) {
    const cell = own.flat().find(({ box }) => box === event.target);
    if (!cell) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose(cell);
      return;
    }
    const [right, up] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key] ?? [0, 0];
    const next = own[cell.y + up]?.[cell.x + right];
    if (!(right || up) || !next) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    next.box.tabIndex = 0;
    next.box.focus();
  }

  function update(index) {
    metric = index;
    const { classes, colors, lines } = data.metrics[metric];
    holder.classList.toggle("lined", lines);
    document.querySelectorAll(".metric").forEach((legend, at) => { legend.hidden = at !== metric; });
    for (const cell of cells) {
      const color = cell.point === null ? null : classes[cell.point];
      const state = cell.point === null ? "unasked" : color !== null ? "" : data.refused[cell.point] === null ? "missing" : "refused";
      cell.box.setAttribute("class", state);
      cell.box.style.fill = color === null ? "" : colors[color][0];
      cell.box.setAttribute("aria-label", `${place(cell)}: ${describe(cell)}`);
      cell.box.setAttribute("aria-selected", cell === current);
    }
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
    const { point } = cell;
    const parts = [element("h3", { textContent: [...named(cell.grid.selection), place(cell)].join(", ") })];
    const note = (textContent) => parts.push(element("p", { className: "note", textContent }));
    const values = point === null ? [] : data.metrics.map((_, index) => index).filter((index) => data.metrics[index].texts[point] !== null);
    if (point === null) note("Not asked for.");
    else if (values.length === 0) note(data.refused[point] === null ? "Not measured." : `Refused: ${data.refused[point]}`);
    else {
      note(values.map((index) => `${data.metrics[index].label} = ${valueText(point, index)}`).join(" · "));
      if (data.total && data.steps[point].length > 0) {
        const scroll = element("div", { className: "scroll", role: "region", tabIndex: 0 }, account(data.steps[point]));
        scroll.setAttribute("aria-label", "Kernels of the chosen cell");
        parts.push(scroll);
      }
    }
    document.getElementById("cell").replaceChildren(...parts);
  }

  function choose(cell) {
    show(cell);
    chosen(cell.grid);
  }

  // At first the largest value is shown: it is what a reader asks about.
  function showLargest() {
    const { largest } = data.metrics[metric];
    if (largest !== null) show(cells.find((cell) => cell.point === largest));
  }

  return { update, showLargest };
}
