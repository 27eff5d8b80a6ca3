"use strict";
(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  if (!data) return;
  const RAMP = data.ramp;
  const scales = data.metrics.map((metric) => (metric.scale ? scaleOf(metric.scale) : null));
  const SURFACE_BUTTONS = ["toImage", "orbitRotation", "tableRotation", "pan3d", "zoom3d", "resetCameraLastSave3d"];
  const FLAT_BUTTONS = ["toImage", "zoom2d", "pan2d", "resetScale2d"];
  const plot = document.getElementById("plot");
  let drawnAs = null;
  const state = { metric: 0, selection: data.selectors.map(() => 0) };
  const selects = [];

  const element = (tag, properties, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };

  function chooser(label, options, changed) {
    const select = element("select", {}, ...options.map((text, value) => element("option", { value }, text)));
    select.addEventListener("change", () => { changed(Number(select.value)); draw(); });
    return element("label", {}, label, select);
  }

  function buildControls() {
    const metrics = chooser("Metric", data.metrics.map((metric) => metric.label), (i) => { state.metric = i; });
    document.getElementById("controls").append(metrics);
    data.selectors.forEach((selector, index) => {
      const label = chooser(selector.label, selector.options, (i) => { state.selection[index] = i; });
      selects.push(label.querySelector("select"));
      document.getElementById("surface-controls").append(label);
    });
  }

  // Numbers as the printed tables write them.
  const grouped = (value, digits) => value.toLocaleString("en-US", digits);
  function exact(value) {
    return Math.abs(value) >= 1e9 ? value.toExponential() : grouped(value, { maximumFractionDigits: 12 });
  }
  function short(value, metric) {
    if (metric.percent) {
      const percent = value * 100;
      const digits = Math.abs(percent) >= 100 ? 0 : 2;
      return `${grouped(percent, { minimumFractionDigits: digits, maximumFractionDigits: digits })}%`;
    }
    const size = Math.abs(value);
    if (size >= 1e6 && size < 1e27) {
      const group = Math.min(8, Math.floor(Math.log10(size) / 3 + 1e-12));
      return `${(value / 1000 ** group).toPrecision(4)} ${["", "k", "M", "G", "T", "P", "E", "Z", "Y"][group]}`;
    }
    if (value !== 0 && (size < 1e-4 || size >= 1e27)) return value.toExponential(3);
    return grouped(value, { maximumSignificantDigits: size >= 1000 ? 6 : 4 });
  }
  const withUnit = (text, unit) => (unit ? `${text} ${unit}` : text);
  // Plotly reads a little markup in its texts; names are to be shown as they are.
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  // A point is [one index for each selector, x, y, one value for each metric].
  const at = { x: data.selectors.length, y: data.selectors.length + 1, value: data.selectors.length + 2 };

  function currentGrid() {
    const chosen = data.points.filter((point) => state.selection.every((option, i) => point[i] === option));
    const distinct = (index) => [...new Set(chosen.map((point) => point[index]))].sort((a, b) => a - b);
    const grid = { xs: distinct(at.x), ys: distinct(at.y), points: [] };
    const columns = new Map(grid.xs.map((x, i) => [x, i]));
    const rows = new Map(grid.ys.map((y, i) => [y, i]));
    grid.points = grid.ys.map(() => grid.xs.map(() => null));
    for (const point of chosen) grid.points[rows.get(point[at.y])][columns.get(point[at.x])] = point;
    grid.z = grid.points.map((row) => row.map((point) => (point ? point[at.value + state.metric] : null)));
    return grid;
  }

  const channels = (color) => color.match(/[0-9a-f]{2}/g).map((channel) => parseInt(channel, 16));

  // The letters with the greater contrast, as WCAG counts it: white is as far from a luminance of 0.179 as black.
  function lettersOn(color) {
    const [r, g, b] = channels(color).map((channel) => {
      const share = channel / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
  }

  function describe(point, x, y) {
    const lines = [
      `${plain(data.x.label)} = ${exact(x)}`,
      `${plain(data.y.label)} = ${withUnit(exact(y), plain(data.y.unit))}`,
    ];
    lines[0] = withUnit(lines[0], plain(data.x.unit));
    data.metrics.forEach((metric, i) => {
      const value = point[at.value + i];
      const text = value === null ? "-" : withUnit(short(value, metric), plain(metric.unit));
      const line = `${plain(metric.label)} = ${text}`;
      lines.push(i === state.metric ? `<b>${line}</b>` : line);
    });
    return lines.join("<br>");
  }

  // Even steps between logarithms mean a log2 grid: the same rule as in the printed plots.
  function isLog(values) {
    if (values.length < 3 || values.some((value) => value <= 0)) return false;
    const unevenness = (list) => {
      const steps = list.slice(1).map((value, i) => value - list[i]);
      return Math.max(...steps) / Math.min(...steps);
    };
    return unevenness(values.map(Math.log2)) < unevenness(values);
  }

  function title(axis, note) {
    const notes = [axis.unit, note].filter(Boolean);
    return plain(notes.length ? `${axis.label} (${notes.join(", ")})` : axis.label);
  }

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const variable = (name) => style.getPropertyValue(name).trim();
    return { paper: variable("--paper"), ink: variable("--ink"), line: variable("--line"), raised: variable("--raised"), edge: variable("--edge") };
  }

  function positionAxis(axis, values, colors, solid) {
    const shown = values.filter((_, i) => labeled(values.length, 8)(i));
    return {
      title: { text: title(axis, isLog(values) ? "log2 scale" : "") }, type: isLog(values) ? "log" : "linear",
      tickmode: "array", tickvals: shown, ticktext: shown.map(exact), ...(solid ? { tickangle: 0 } : {}),
      color: colors.ink, gridcolor: colors.line, zeroline: false, showspikes: false,
      backgroundcolor: colors.raised, showbackground: true,
    };
  }

  // Heights are positions on the scale, from 0 to 1.
  function valueAxis(metric, scale, colors) {
    return {
      title: { text: title(metric, scale.note) }, range: [-0.03, 1.03], tickangle: 0,
      tickmode: "array", tickvals: scale.ticks.map(([value]) => scale.position(value)), ticktext: scale.ticks.map(([, label]) => label),
      color: colors.ink, gridcolor: colors.line, zeroline: false, showspikes: false,
      backgroundcolor: colors.raised, showbackground: true,
    };
  }

  const scaleColors = () => RAMP.map((c, i) => [i / (RAMP.length - 1), `rgb(${c.join(",")})`]);

  const heights = (grid, scale) => grid.z.map((row) => row.map((value) => (value === null ? null : scale.position(value))));

  function surfaceTraces(grid, scale, colors) {
    const z = heights(grid, scale);
    const text = grid.points.map((row, j) =>
      row.map((point, i) => (point ? describe(point, grid.xs[i], grid.ys[j]) : "")));
    const surface = {
      type: "surface", x: grid.xs, y: grid.ys, z, text, hoverinfo: "text", connectgaps: false, showscale: false,
      surfacecolor: z.map((row) => row.map((height) => (height === null ? null : scale.shade(height)))),
      cmin: 0, cmax: 1, colorscale: scaleColors(), contours: { x: { highlight: false }, y: { highlight: false }, z: { highlight: false } },
      lighting: { ambient: 0.85, diffuse: 0.25, specular: 0.02, roughness: 0.9 },
    };
    // Grid lines through the measured points; null lifts the pen.
    const lines = { x: [], y: [], z: [] };
    const to = (i, j) => { lines.x.push(grid.xs[i]); lines.y.push(grid.ys[j]); lines.z.push(z[j][i]); };
    const lift = () => { lines.x.push(null); lines.y.push(null); lines.z.push(null); };
    grid.ys.forEach((_, j) => { grid.xs.forEach((__, i) => to(i, j)); lift(); });
    grid.xs.forEach((_, i) => { grid.ys.forEach((__, j) => to(i, j)); lift(); });
    const mesh = {
      type: "scatter3d", mode: "lines", ...lines, hoverinfo: "skip", showlegend: false,
      connectgaps: false, line: { color: colors.edge, width: 2 },
    };
    return [surface, mesh, ...markers(grid, z, text), ...crosses(grid)];
  }

  // Every point of a small grid is marked; of a large one, those that no cell of the surface reaches.
  function markers(grid, z, text) {
    const known = (i, j) => grid.z[j] !== undefined && grid.z[j][i] !== null && grid.z[j][i] !== undefined;
    const cell = (i, j) => known(i, j) && known(i + 1, j) && known(i, j + 1) && known(i + 1, j + 1);
    const all = grid.xs.length * grid.ys.length <= 40;
    const marks = { x: [], y: [], z: [], text: [] };
    grid.ys.forEach((y, j) => grid.xs.forEach((x, i) => {
      const reached = cell(i, j) || cell(i - 1, j) || cell(i, j - 1) || cell(i - 1, j - 1);
      if (known(i, j) && (all || !reached)) {
        marks.x.push(x); marks.y.push(y); marks.z.push(z[j][i]); marks.text.push(text[j][i]);
      }
    }));
    if (marks.x.length === 0) return [];
    return [{ type: "scatter3d", mode: "markers", ...marks, hoverinfo: "text", showlegend: false,
      marker: { size: 3.5, color: "#1f2430", line: { color: "#ffffff", width: 1 } } }];
  }

  // What was planned and has no value has a cross on the floor.
  function crosses(grid) {
    const marks = { x: [], y: [], z: [], text: [] };
    grid.ys.forEach((y, j) => grid.xs.forEach((x, i) => {
      if (!grid.points[j][i] || grid.z[j][i] !== null) return;
      const why = data.refused.includes(data.points.indexOf(grid.points[j][i])) ? "refused" : "not measured";
      marks.x.push(x); marks.y.push(y); marks.z.push(0); marks.text.push(`${describe(grid.points[j][i], x, y)}<br>${why}`);
    }));
    if (marks.x.length === 0) return [];
    return [{ type: "scatter3d", mode: "markers", ...marks, hoverinfo: "text", showlegend: false, marker: { size: 3, symbol: "x", color: "#7b8290" } }];
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

  function drawPlot(grid, scale, metric) {
    const note = document.getElementById("plot-note");
    const flat = grid.xs.length < 2 || grid.ys.length < 2;
    const known = grid.z.flat().filter((value) => value !== null).length;
    const asked = grid.points.flat().filter(Boolean).length;
    let said = asked > known && known > 0 ? `${asked - known} of ${asked} values missing${flat ? "" : " (×)"}. ` : "";
    if (known === 0) said = "Nothing was measured for this selection.";
    else if (!flat && !hasWebGl()) said += "The surface needs WebGL, which this browser does not offer; the values are below.";
    else said += flat ? "" : "Drag to turn, Ctrl and wheel to zoom, double-click to reset; on a touch screen with two fingers; with the keyboard by arrows, + and −, 0.";
    note.textContent = said;
    const drawable = known > 0 && scale && (flat || hasWebGl());
    plot.classList.toggle("off", !drawable);
    if (!drawable) return;

    const colors = theme();
    // The plotting code does not turn a surface into a line: it begins again.
    if (flat !== drawnAs && drawnAs !== null) Plotly.purge(plot);
    drawnAs = flat;
    // Buttons by name, and no server: plotly.js's own set holds one that uploads the chart to a web service.
    const options = { displaylogo: false, scrollZoom: true, plotlyServerURL: "", modeBarButtons: [flat ? FLAT_BUTTONS : SURFACE_BUTTONS] };
    if (flat) {
      const overX = grid.xs.length > 1;
      const values = overX ? grid.xs : grid.ys;
      const pairs = values.map((value, i) => (overX ? [i, 0] : [0, i]));
      const trace = {
        type: "scatter", mode: "lines+markers", x: values, y: pairs.map(([i, j]) => heights(grid, scale)[j][i]), hoverinfo: "text",
        text: pairs.map(([i, j]) => (grid.points[j][i] ? describe(grid.points[j][i], grid.xs[i], grid.ys[j]) : "")),
        line: { color: data.line, width: 2 }, marker: { size: 9, color: data.line },
      };
      Plotly.react(plot, [trace], layout(colors, {
        margin: { l: 90, r: 30, t: 40, b: 70 },
        xaxis: positionAxis(overX ? data.x : data.y, values, colors), yaxis: valueAxis(metric, scale, colors),
      }), options);
      return;
    }
    const size = boxSize();
    Plotly.react(plot, surfaceTraces(grid, scale, colors), layout(colors, {
      margin: { l: 0, r: 0, t: 30, b: 0 },
      scene: {
        xaxis: positionAxis(data.x, grid.xs, colors, true), yaxis: positionAxis(data.y, grid.ys, colors, true),
        zaxis: valueAxis(metric, scale, colors), camera: CAMERA,
        aspectmode: "manual", aspectratio: { x: size, y: size, z: 0.73 * size }, bgcolor: colors.paper,
      },
    }), options);
  }

  function drawMatrix(grid, scale, metric) {
    const head = element("tr", {}, element("th", { scope: "col" }, `${data.y.label} \\ ${data.x.label}`),
      ...grid.xs.map((x) => element("th", { scope: "col" }, exact(x))));
    const rows = grid.ys.map((y, j) => element("tr", {}, element("th", { scope: "row" }, exact(y)),
      ...grid.z[j].map((value, i) => {
        if (value === null) return grid.points[j][i] ? element("td", { className: "missing" }, "-") : element("td");
        const color = scale.colors[scale.classOf(value)];
        const cell = element("td", { title: String(value) }, short(value, metric));
        cell.style.background = color;
        cell.style.color = lettersOn(color);
        return cell;
      })));
    const name = metric.unit ? `${metric.label} (${metric.unit})` : metric.label;
    const selection = data.selectors.map((selector, i) => `${selector.label} = ${selector.options[state.selection[i]]}`);
    const caption = element("caption", {}, [name, ...selection].join(", "));
    document.getElementById("matrix").replaceChildren(caption, element("thead", {}, head), element("tbody", {}, ...rows));
  }

  function draw() {
    const metric = data.metrics[state.metric];
    const scale = scales[state.metric];
    const grid = currentGrid();
    document.getElementById("explanation").textContent = metric.explanation;
    heat.update(state.metric, scale ?? scaleOf({ low: 0, high: 1, ticks: [], bounds: [], colors: [], shades: [[0, 0], [1, 1]] }));
    drawMatrix(grid, scale, metric);
    drawPlot(grid, scale, metric);
  }

  buildControls();
  const heat = heatmaps(data, { element, exact, short, withUnit, at }, (selection) => {
    if (selection.every((option, i) => option === state.selection[i])) return;
    state.selection = [...selection];
    selects.forEach((select, i) => { select.value = selection[i]; });
    draw();
  });
  draw();
  heat.showLargest();
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
