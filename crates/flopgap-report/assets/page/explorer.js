"use strict";
(() => {
  const source = document.getElementById("report-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const SURFACE_BUTTONS = ["toImage", "orbitRotation", "tableRotation", "pan3d", "zoom3d", "resetCameraLastSave3d"];
  const FLAT_BUTTONS = ["toImage", "zoom2d", "pan2d", "resetScale2d"];
  const plot = document.getElementById("plot");
  const { x, y, metrics } = data;
  const flat = x.values.length < 2 || y.values.length < 2;
  const state = { metric: 0, selection: data.selectors.map(() => 0) };
  const selects = [];

  const element = (tag, properties, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };

  // What is chosen stands in the address under a name, the first of the options not.
  const remember = (name, option) => address.set(name, option > 0 ? String(option) : null);
  const choosers = [];
  function chooser(name, label, options, changed) {
    const select = element("select", {}, ...options.map((text, value) => element("option", { value }, text)));
    select.addEventListener("change", () => { changed(Number(select.value)); remember(name, select.value); draw(); });
    choosers.push(() => address.keep(name, (value) => {
      select.value = value in options ? value : "0";
      changed(Number(select.value));
      draw();
    }));
    return element("label", {}, label, select);
  }

  function buildControls() {
    const chosen = chooser("metric", "Metric", metrics.map((metric) => metric.label), (i) => { state.metric = i; });
    document.getElementById("controls").append(chosen);
    data.selectors.forEach((selector, index) => {
      const label = chooser(`choice${index}`, selector.label, selector.options, (i) => { state.selection[index] = i; });
      selects.push(label.querySelector("select"));
      document.getElementById("surface-controls").append(label);
    });
  }

  const withUnit = (text, unit) => (unit ? `${text} ${unit}` : text);
  // Plotly reads a little markup in its texts; names are to be shown as they are.
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const named = (selection) => selection.map((option, i) => `${data.selectors[i].label} = ${data.selectors[i].options[option]}`);
  const at = (axis, index) => `${axis.label} = ${withUnit(axis.labels[index], axis.unit)}`;
  const place = (cell) => `${at(x, cell.x)}, ${at(y, cell.y)}`;
  const valueText = (point, index) => withUnit(metrics[index].texts[point], metrics[index].unit);

  // Rows, from the lowest value of y on, of what something is at each point of the chosen grid; null where there is none.
  function rows(of) {
    const { cells } = data.grids.find((grid) => grid.selection.every((option, i) => option === state.selection[i]));
    return y.values.map((_, j) => x.values.map((__, i) => {
      const point = cells[j * x.values.length + i];
      return point === null ? null : of(point, i, j);
    }));
  }

  function describe(point, i, j) {
    const lines = [at(x, i), at(y, j)].map(plain);
    metrics.forEach((metric, index) => {
      const line = plain(`${metric.label} = ${metric.texts[point] === null ? "-" : valueText(point, index)}`);
      lines.push(index === state.metric ? `<b>${line}</b>` : line);
    });
    return lines.join("<br>");
  }

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const variable = (name) => style.getPropertyValue(name).trim();
    return { paper: variable("--paper"), ink: variable("--ink"), line: variable("--line"), raised: variable("--raised"), edge: variable("--edge"), accent: variable("--accent") };
  }

  const axisLook = (colors) => ({
    tickmode: "array", color: colors.ink, gridcolor: colors.line, zeroline: false, showspikes: false, backgroundcolor: colors.raised, showbackground: true,
  });

  // Labels at equal steps, the last included.
  function positionAxis(axis, colors, solid) {
    let step = 1;
    while (axis.values.length > step * 8) step *= 2;
    const isShown = (_, i) => (axis.values.length - 1 - i) % step === 0;
    return {
      ...axisLook(colors), title: { text: plain(axis.title) }, type: axis.log ? "log" : "linear",
      tickvals: axis.values.filter(isShown), ticktext: axis.labels.filter(isShown), ...(solid ? { tickangle: 0 } : {}),
    };
  }

  // Heights are positions on the scale, from 0 to 1.
  function valueAxis(metric, colors) {
    return {
      ...axisLook(colors), title: { text: plain(metric.title) }, range: [-0.03, 1.03], tickangle: 0,
      tickvals: metric.ticks.map(([position]) => position), ticktext: metric.ticks.map(([, label]) => label),
    };
  }

  function surfaceTraces(metric, colors) {
    const z = rows((point) => metric.heights[point]);
    const text = rows(describe).map((row) => row.map((said) => said ?? ""));
    const surface = {
      type: "surface", x: x.values, y: y.values, z, text, hoverinfo: "text", connectgaps: false, showscale: false,
      cmin: 0, cmax: 1, colorscale: metric.shades, contours: { x: { highlight: false }, y: { highlight: false }, z: { highlight: false } },
      lighting: { ambient: 0.85, diffuse: 0.25, specular: 0.02, roughness: 0.9 },
    };
    // Grid lines through the measured points; null lifts the pen.
    const lines = { x: [], y: [], z: [] };
    const to = (i, j) => { lines.x.push(x.values[i]); lines.y.push(y.values[j]); lines.z.push(z[j][i]); };
    const lift = () => Object.values(lines).forEach((list) => list.push(null));
    y.values.forEach((_, j) => { x.values.forEach((__, i) => to(i, j)); lift(); });
    x.values.forEach((_, i) => { y.values.forEach((__, j) => to(i, j)); lift(); });
    const mesh = {
      type: "scatter3d", mode: "lines", ...lines, hoverinfo: "skip", showlegend: false,
      connectgaps: false, line: { color: colors.edge, width: 2 },
    };
    // Every point of a small grid is marked; of a large one, those that no cell of the surface reaches.
    const known = (i, j) => (z[j]?.[i] ?? null) !== null;
    const cell = (i, j) => known(i, j) && known(i + 1, j) && known(i, j + 1) && known(i + 1, j + 1);
    const all = x.values.length * y.values.length <= 40;
    const isMarked = (i, j) => known(i, j) && (all || !(cell(i, j) || cell(i - 1, j) || cell(i, j - 1) || cell(i - 1, j - 1)));
    const dots = marks(isMarked, (i, j) => [z[j][i], text[j][i]], { size: 3.5, color: "#1f2430", line: { color: "#ffffff", width: 1 } });
    // What was planned and has no value has a cross on the floor.
    const why = rows((point) => (data.refused[point] === null ? "not measured" : "refused"));
    const isMissing = (i, j) => why[j][i] !== null && !known(i, j);
    const crosses = marks(isMissing, (i, j) => [0, `${text[j][i]}<br>${why[j][i]}`], { size: 3, symbol: "x", color: "#7b8290" });
    return [surface, mesh, ...dots, ...crosses];
  }

  function marks(isMarked, of, marker) {
    const found = { x: [], y: [], z: [], text: [] };
    y.values.forEach((upper, j) => x.values.forEach((right, i) => {
      if (!isMarked(i, j)) return;
      const [height, text] = of(i, j);
      found.x.push(right); found.y.push(upper); found.z.push(height); found.text.push(text);
    }));
    return found.x.length === 0 ? [] : [{ type: "scatter3d", mode: "markers", ...found, hoverinfo: "text", showlegend: false, marker }];
  }

  // Every surface is seen from the high ends of both axes: from there the hill of the small sizes hides nothing, and metrics can be compared.
  const CAMERA = { eye: { x: 1.45, y: 1.25, z: 0.85 }, center: { x: 0, y: 0, z: -0.12 }, projection: { type: "orthographic" } };

  // On a narrow screen the surface shrinks until its labels fit.
  function boxSize() {
    const room = [plot.clientWidth - 20, plot.clientHeight];
    return 1.3 * Math.min(1, room[0] / (1.1 * plot.clientHeight), room[1] / (0.8 * plot.clientHeight));
  }

  function layout(colors, rest) {
    return {
      paper_bgcolor: colors.paper, plot_bgcolor: colors.raised, font: { color: colors.ink, family: "system-ui, DejaVu Sans, sans-serif", size: 12 },
      hoverlabel: { align: "left" }, uirevision: "keep", width: plot.clientWidth, height: plot.clientHeight, ...rest,
    };
  }

  function hasWebGl() {
    try {
      return Boolean(document.createElement("canvas").getContext("webgl"));
    } catch {
      return false;
    }
  }

  function drawPlot(metric) {
    const points = rows((point) => metric.texts[point] !== null).flat().filter((known) => known !== null);
    const [known, asked] = [points.filter(Boolean).length, points.length];
    let said = asked > known && known > 0 ? `${asked - known} of ${asked} values missing${flat ? "" : " (×)"}. ` : "";
    if (known === 0) said = "Nothing was measured for this selection.";
    else if (!flat && !hasWebGl()) said += "The surface needs WebGL, which this browser does not offer; the values are below.";
    else said += flat ? "" : "Drag to turn, Ctrl and wheel to zoom, double-click to reset; on a touch screen with two fingers; with the keyboard by arrows, + and −, 0.";
    document.getElementById("plot-note").textContent = said;
    const drawable = known > 0 && metric.ticks.length > 0 && (flat || hasWebGl());
    plot.classList.toggle("off", !drawable);
    if (!drawable) return;

    const colors = theme();
    // Buttons by name, and no server: plotly.js's own set holds one that uploads the chart to a web service.
    const options = { displaylogo: false, scrollZoom: true, plotlyServerURL: "", modeBarButtons: [flat ? FLAT_BUTTONS : SURFACE_BUTTONS] };
    if (flat) {
      const axis = x.values.length > 1 ? x : y;
      const look = { color: colors.accent };
      const trace = {
        type: "scatter", mode: "lines+markers", x: axis.values, y: rows((point) => metric.heights[point]).flat(), hoverinfo: "text",
        text: rows(describe).flat(), line: { ...look, width: 2 }, marker: { ...look, size: 9 },
      };
      Plotly.react(plot, [trace], layout(colors, {
        margin: { l: 90, r: 30, t: 40, b: 70 }, xaxis: positionAxis(axis, colors), yaxis: valueAxis(metric, colors),
      }), options);
      return;
    }
    const size = boxSize();
    Plotly.react(plot, surfaceTraces(metric, colors), layout(colors, {
      margin: { l: 0, r: 0, t: 30, b: 0 },
      scene: {
        xaxis: positionAxis(x, colors, true), yaxis: positionAxis(y, colors, true), zaxis: valueAxis(metric, colors), camera: CAMERA,
        aspectmode: "manual", aspectratio: { x: size, y: size, z: 0.73 * size }, bgcolor: colors.paper,
      },
    }), options);
  }

  function drawMatrix(metric) {
    const head = element("tr", {}, element("th", { scope: "col" }, `${y.label} \\ ${x.label}`),
      ...x.labels.map((label) => element("th", { scope: "col" }, label)));
    const cells = rows((point) => {
      if (metric.texts[point] === null) return element("td", { className: "missing" }, "-");
      const cell = element("td", { title: String(metric.values[point]) }, metric.texts[point]);
      [cell.style.background, cell.style.color] = metric.colors[metric.classes[point]] ?? [];
      return cell;
    });
    const body = cells.map((row, j) => element("tr", {}, element("th", { scope: "row" }, y.labels[j]), ...row.map((cell) => cell ?? element("td"))));
    const name = metric.unit ? `${metric.label} (${metric.unit})` : metric.label;
    const caption = element("caption", {}, [name, ...named(state.selection)].join(", "));
    document.getElementById("matrix").replaceChildren(caption, element("thead", {}, head), element("tbody", {}, ...body));
  }

  function draw() {
    heat.update(state.metric);
    drawMatrix(metrics[state.metric]);
    drawPlot(metrics[state.metric]);
  }

  buildControls();
  const heat = heatmaps(data, { element, named, place, valueText }, ({ selection }) => {
    if (selection.every((option, i) => option === state.selection[i])) return;
    state.selection = [...selection];
    selects.forEach((select, i) => { select.value = selection[i]; remember(`choice${i}`, selection[i]); });
    draw();
  });
  draw();
  heat.showLargest();
  for (const keep of choosers) keep();
  let width = plot.clientWidth;
  new ResizeObserver(() => {
    // Phones change the height when their address bar hides; only another width asks for another layout.
    if (plot.clientWidth === width || plot.clientWidth === 0) return;
    width = plot.clientWidth;
    draw();
  }).observe(plot);
  // What WebGL drew is not on paper; a picture of it is.
  addEventListener("beforeprint", () => {
    const scene = plot._fullLayout?.scene?._scene;
    const canvas = plot.querySelector("canvas");
    if (!scene || !canvas) return;
    const picture = element("img", { src: scene.toImage("png"), alt: "", className: "on-paper" });
    Object.assign(picture.style, { position: "absolute", left: "0", top: "0", width: `${canvas.clientWidth}px`, height: `${canvas.clientHeight}px` });
    canvas.after(picture);
  });
  addEventListener("afterprint", () => plot.querySelectorAll(".on-paper").forEach((picture) => picture.remove()));
  surfaceCamera(plot, () => ({ camera: CAMERA, size: boxSize() }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
