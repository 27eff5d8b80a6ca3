"use strict";
(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  if (!data) return;
  const RAMP = data.ramp;
  const SURFACE_BUTTONS = ["toImage", "orbitRotation", "tableRotation", "pan3d", "zoom3d", "resetCameraLastSave3d"];
  const FLAT_BUTTONS = ["toImage", "zoom2d", "pan2d", "resetScale2d"];
  const plot = document.getElementById("plot");
  let drawnAs = null;
  const state = { metric: 0, selection: data.selectors.map(() => 0), sameScale: false };

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
    const controls = document.getElementById("controls");
    controls.append(chooser("Metric", data.metrics.map((metric) => metric.label), (i) => { state.metric = i; }));
    data.selectors.forEach((selector, index) => {
      controls.append(chooser(selector.label, selector.options, (i) => { state.selection[index] = i; }));
    });
    if (data.selectors.length > 0) {
      const box = element("input", { type: "checkbox" });
      box.addEventListener("change", () => { state.sameScale = box.checked; draw(); });
      controls.append(element("label", { className: "check" }, box, "Same scale for every selection"));
    }
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

  function range(grid) {
    const values = state.sameScale
      ? data.points.map((point) => point[at.value + state.metric])
      : grid.z.flat();
    const known = values.filter((value) => value !== null);
    if (known.length === 0) return null;
    let [low, high] = known.reduce(([l, h], v) => [Math.min(l, v), Math.max(h, v)], [Infinity, -Infinity]);
    if (high - low <= 1e-11 * Math.max(Math.abs(low), Math.abs(high))) {
      const half = low === 0 ? (data.metrics[state.metric].percent ? 0.01 : 1) : Math.abs(low) * 0.1;
      [low, high] = [low - half, high + half];
    }
    return [low, high];
  }

  function colour(share) {
    const place = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1);
    const index = Math.min(Math.floor(place), RAMP.length - 2);
    return RAMP[index].map((c, i) => Math.round(c + (RAMP[index + 1][i] - c) * (place - index)));
  }

  // The letters with the greater contrast, as WCAG counts it: white is as far from a luminance of 0.179 as black.
  function lettersOn(...channels) {
    const [r, g, b] = channels.map((channel) => {
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

  function title(axis, values) {
    const notes = [axis.unit, values && isLog(values) ? "log2 scale" : ""].filter(Boolean);
    return plain(notes.length ? `${axis.label} (${notes.join(", ")})` : axis.label);
  }

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const variable = (name) => style.getPropertyValue(name).trim();
    return { paper: variable("--paper"), ink: variable("--ink"), line: variable("--line"), raised: variable("--raised") };
  }

  function positionAxis(axis, values, colours, solid) {
    // Labels at measured values alone, both ends included; about seven fit.
    const last = values.length - 1;
    const step = Math.ceil(values.length / 7);
    const shown = values.filter((_, i) => i === last || (i % step === 0 && last - i >= step / 2));
    return {
      title: { text: title(axis, values) }, type: isLog(values) ? "log" : "linear",
      tickmode: "array", tickvals: shown, ticktext: shown.map(exact), ...(solid ? { tickangle: 0 } : {}),
      color: colours.ink, gridcolor: colours.line, zeroline: false, showspikes: false,
      backgroundcolor: colours.raised, showbackground: true,
    };
  }

  // SI prefixes help with billions; half of something is 0.5, not 500m.
  function tickFormat(metric, limits) {
    if (metric.percent) return ".3~%";
    return Math.max(...limits.map(Math.abs)) < 10000 ? ".4~f" : ".4~s";
  }

  function valueAxis(metric, limits, colours) {
    const room = (limits[1] - limits[0]) * 0.03;
    return {
      title: { text: title(metric) }, range: [limits[0] - room, limits[1] + room],
      tickformat: tickFormat(metric, limits), exponentformat: "SI", tickangle: 0,
      color: colours.ink, gridcolor: colours.line, zeroline: false, showspikes: false,
      backgroundcolor: colours.raised, showbackground: true,
    };
  }

  const scaleColours = () => RAMP.map((c, i) => [i / (RAMP.length - 1), `rgb(${c.join(",")})`]);

  function surfaceTraces(grid, limits, metric, colours) {
    const text = grid.points.map((row, j) =>
      row.map((point, i) => (point ? describe(point, grid.xs[i], grid.ys[j]) : "")));
    const surface = {
      type: "surface", x: grid.xs, y: grid.ys, z: grid.z, text, hoverinfo: "text", connectgaps: false,
      cmin: limits[0], cmax: limits[1], colorscale: scaleColours(), contours: { x: { highlight: false }, y: { highlight: false }, z: { highlight: false } },
      lighting: { ambient: 0.85, diffuse: 0.25, specular: 0.02, roughness: 0.9 },
      colorbar: {
        title: { text: title(metric), side: "top" }, thickness: 16, len: 0.75, outlinewidth: 0,
        ...(isNarrow() ? { orientation: "h", len: 0.9, y: -0.02, yanchor: "top" } : {}),
        tickformat: tickFormat(metric, limits), tickfont: { color: colours.ink },
      },
    };
    // Grid lines through the measured points; null lifts the pen.
    const lines = { x: [], y: [], z: [] };
    const to = (i, j) => { lines.x.push(grid.xs[i]); lines.y.push(grid.ys[j]); lines.z.push(grid.z[j][i]); };
    const lift = () => { lines.x.push(null); lines.y.push(null); lines.z.push(null); };
    grid.ys.forEach((_, j) => { grid.xs.forEach((__, i) => to(i, j)); lift(); });
    grid.xs.forEach((_, i) => { grid.ys.forEach((__, j) => to(i, j)); lift(); });
    const mesh = {
      type: "scatter3d", mode: "lines", ...lines, hoverinfo: "skip", showlegend: false,
      connectgaps: false, line: { color: "#1f2430", width: 2 },
    };
    return [surface, mesh, ...markers(grid, text)];
  }

  // Every point of a small grid is marked; of a large one, those that no cell of the surface reaches.
  function markers(grid, text) {
    const known = (i, j) => grid.z[j] !== undefined && grid.z[j][i] !== null && grid.z[j][i] !== undefined;
    const cell = (i, j) => known(i, j) && known(i + 1, j) && known(i, j + 1) && known(i + 1, j + 1);
    const all = grid.xs.length * grid.ys.length <= 40;
    const marks = { x: [], y: [], z: [], text: [] };
    grid.ys.forEach((y, j) => grid.xs.forEach((x, i) => {
      const reached = cell(i, j) || cell(i - 1, j) || cell(i, j - 1) || cell(i - 1, j - 1);
      if (known(i, j) && (all || !reached)) {
        marks.x.push(x); marks.y.push(y); marks.z.push(grid.z[j][i]); marks.text.push(text[j][i]);
      }
    }));
    if (marks.x.length === 0) return [];
    return [{ type: "scatter3d", mode: "markers", ...marks, hoverinfo: "text", showlegend: false,
      marker: { size: 3.5, color: "#1f2430", line: { color: "#ffffff", width: 1 } } }];
  }

  // From the high ends of both axes if the surface falls towards them, from the low ends if it rises.
  function camera(grid) {
    let trend = 0;
    const middle = (list) => (list.length - 1) / 2;
    const known = grid.z.flat().filter((value) => value !== null);
    const mean = known.reduce((sum, value) => sum + value / known.length, 0);
    grid.z.forEach((row, j) => row.forEach((value, i) => {
      if (value !== null) trend += (value - mean) * ((i - middle(grid.xs)) / grid.xs.length + (j - middle(grid.ys)) / grid.ys.length);
    }));
    const side = trend > 0 ? -1 : 1;
    return { eye: { x: 1.45 * side, y: 1.25 * side, z: 0.85 }, center: { x: 0, y: 0, z: -0.12 }, projection: { type: "orthographic" } };
  }

  // On a narrow screen the colour bar lies below the surface, which shrinks until its labels fit.
  const isNarrow = () => plot.clientWidth < 640;
  function boxSize() {
    const room = isNarrow() ? [plot.clientWidth, plot.clientHeight - 110] : [plot.clientWidth - 130, plot.clientHeight];
    return 1.3 * Math.min(1, room[0] / (1.1 * plot.clientHeight), room[1] / (0.8 * plot.clientHeight));
  }

  function layout(colours, rest) {
    return {
      paper_bgcolor: colours.paper, plot_bgcolor: colours.raised, font: { color: colours.ink, family: "system-ui, DejaVu Sans, sans-serif", size: 12 },
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

  function drawPlot(grid, limits, metric) {
    const note = document.getElementById("plot-note");
    const flat = grid.xs.length < 2 || grid.ys.length < 2;
    const known = grid.z.flat().filter((value) => value !== null).length;
    const missing = grid.xs.length * grid.ys.length - known;
    let said = missing > 0 && known > 0 ? `${missing} of ${grid.xs.length * grid.ys.length} values missing. ` : "";
    if (known === 0) said = "Nothing was measured for this selection.";
    else if (!flat && !hasWebGl()) said += "The surface needs WebGL, which this browser does not offer; the values are below.";
    else said += flat ? "" : "Drag to turn, Ctrl and wheel to zoom, double-click to reset; on a touch screen with two fingers; with the keyboard by arrows, + and −, 0.";
    note.textContent = said;
    const drawable = known > 0 && (flat || hasWebGl());
    plot.classList.toggle("off", !drawable);
    if (!drawable) return;

    const colours = theme();
    // The plotting code cannot move a color bar from one side to another: it begins anew, with the reader's view.
    const kind = `${flat} ${isNarrow()}`;
    const kept = kind === drawnAs ? null : plot._fullLayout?.scene?._scene?.getCamera();
    if (kind !== drawnAs && drawnAs !== null) Plotly.purge(plot);
    drawnAs = kind;
    // Buttons by name, and no server: plotly.js's own set holds one that uploads the chart to a web service.
    const options = { displaylogo: false, scrollZoom: true, plotlyServerURL: "", modeBarButtons: [flat ? FLAT_BUTTONS : SURFACE_BUTTONS] };
    if (flat) {
      const overX = grid.xs.length > 1;
      const values = overX ? grid.xs : grid.ys;
      const pairs = values.map((value, i) => (overX ? [i, 0] : [0, i]));
      const trace = {
        type: "scatter", mode: "lines+markers", x: values, y: pairs.map(([i, j]) => grid.z[j][i]), hoverinfo: "text",
        text: pairs.map(([i, j]) => (grid.points[j][i] ? describe(grid.points[j][i], grid.xs[i], grid.ys[j]) : "")),
        line: { color: "#31688e", width: 2 }, marker: { size: 9, color: "#35b779" },
      };
      Plotly.react(plot, [trace], layout(colours, {
        margin: { l: 90, r: 30, t: 40, b: 70 },
        xaxis: positionAxis(overX ? data.x : data.y, values, colours), yaxis: valueAxis(metric, limits, colours),
      }), options);
      return;
    }
    const size = boxSize();
    Plotly.react(plot, surfaceTraces(grid, limits, metric, colours), layout(colours, {
      margin: { l: 0, r: 0, t: 30, b: isNarrow() ? 80 : 0 },
      scene: {
        xaxis: positionAxis(data.x, grid.xs, colours, true), yaxis: positionAxis(data.y, grid.ys, colours, true),
        zaxis: valueAxis(metric, limits, colours), camera: kept ?? camera(grid),
        aspectmode: "manual", aspectratio: { x: size, y: size, z: 0.73 * size }, bgcolor: colours.paper,
      },
    }), options);
  }

  function drawMatrix(grid, limits, metric) {
    const head = element("tr", {}, element("th", { scope: "col" }, `${data.y.label} \\ ${data.x.label}`),
      ...grid.xs.map((x) => element("th", { scope: "col" }, exact(x))));
    const rows = grid.ys.map((y, j) => element("tr", {}, element("th", { scope: "row" }, exact(y)),
      ...grid.z[j].map((value) => {
        if (value === null) return element("td", { className: "gap" }, "-");
        const [r, g, b] = colour((value - limits[0]) / (limits[1] - limits[0]));
        const cell = element("td", { title: String(value) }, short(value, metric));
        cell.style.background = `rgb(${r},${g},${b})`;
        cell.style.color = lettersOn(r, g, b);
        return cell;
      })));
    const caption = element("caption", {}, title(metric).replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&"));
    document.getElementById("matrix").replaceChildren(caption, element("thead", {}, head), element("tbody", {}, ...rows));
  }

  function draw() {
    const metric = data.metrics[state.metric];
    const grid = currentGrid();
    const limits = range(grid);
    document.getElementById("explanation").textContent = metric.explanation;
    drawMatrix(grid, limits ?? [0, 1], metric);
    drawPlot(grid, limits ?? [0, 1], metric);
  }

  buildControls();
  draw();
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
  surfaceCamera(plot, () => ({ camera: camera(currentGrid()), size: boxSize() }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
